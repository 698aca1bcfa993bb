//! Vue, Svelte, Astro, Tailwind CSS, Prisma, GraphQL.

use super::lab::{Case, check};

const TSCONFIG: &str = "{\"compilerOptions\": {\"strict\": true, \"module\": \"esnext\", \"moduleResolution\": \"bundler\", \"target\": \"es2022\"}}\n";
const TOTAL: &str = "/** The sum of all areas. */\nexport function total(sides: number[]): number {\n\
    \x20 return sides.reduce((sum, side) => sum + side * side, 0);\n}\n\n\
    export interface Shape {\n  side: number;\n}\n\nexport class Square implements Shape {\n  side = 2;\n}\n";

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn tailwindcss_features_work() {
    check(&Case {
        server: "tailwindcss",
        programs: &["tailwindcss-language-server"],
        version: None,
        files: &[
            ("package.json", "{}\n"),
            ("tailwind.config.js", "module.exports = { content: ['./*.html'] };\n"),
            ("main.html", "<p class=\"underline\">a</p>\n"),
            ("broken.html", "<p class=\"p-1 p-2\">a</p>\n"),
        ],
        used: ("main.html", 1, "underline"),
        symbols: None,
        definition: None,
        references: None,
        implementation: None,
        hover: Some("text-decoration"),
        mistake: Some((
            "broken.html",
            "applies the same CSS properties",
            "<p class=\"p-1 p-2\">a</p>",
            "<p class=\"p-1\">a</p>",
        )),
        rename: None,
        rename_file: None,
        action: Some(("broken.html", 1, "p-2")),
        format: None,
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn svelte_features_work() {
    check(&Case {
        server: "svelte",
        programs: &["svelteserver"],
        version: None,
        files: &[
            ("package.json", "{\"type\": \"module\"}\n"),
            ("tsconfig.json", TSCONFIG),
            ("shapes.ts", TOTAL),
            (
                "Square.svelte",
                "<script lang=\"ts\">\n  export let side: number;\n</script>\n\n<p>{side}</p>\n",
            ),
            (
                "Main.svelte",
                "<script lang=\"ts\">\n  import { total } from \"./shapes\";\n  import Square from \"./Square.svelte\";\n\n\
                     \x20 const all = total([2]);\n</script>\n\n<Square side={all} />\n",
            ),
            (
                "Broken.svelte",
                "<script lang=\"ts\">\n  import { total } from \"./shapes\";\n</script>\n\n<p>{total(nothing)}</p>\n",
            ),
            (
                "Other.svelte",
                "<script lang=\"ts\">\n  import type { Shape } from \"./shapes\";\n\n  export let shape: Shape;\n</script>\n\n<p>{shape.side}</p>\n",
            ),
            ("Ugly.svelte", "<p   >a</p>\n"),
        ],
        used: ("Main.svelte", 5, "total"),
        symbols: Some(("Main.svelte", &["script.all", "script.total"])),
        definition: Some(("shapes.ts", "export function total")),
        references: Some(&[
            ("Main.svelte", "const all = total([2]);"),
            ("Broken.svelte", "<p>{total(nothing)}</p>"),
            ("shapes.ts", "export function total"),
        ]),
        implementation: Some((("Other.svelte", 4, "Shape"), &[("shapes.ts", 10)])),
        hover: Some("The sum of all areas."),
        mistake: Some((
            "Broken.svelte",
            "Cannot find name 'nothing'",
            "<p>{total(nothing)}</p>",
            "<p>{total([])}</p>",
        )),
        // The server renames an import where it is used, and no setting makes it continue from
        // there.
        rename: Some((
            "whole",
            &[("Main.svelte", "import { total as whole }"), ("Main.svelte", "const all = whole([2]);")],
        )),
        rename_file: None,
        action: Some(("Broken.svelte", 5, "Disable missing-declaration for this line")),
        format: Some(("Ugly.svelte", "<p>a</p>")),
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn vue_features_work() {
    let case = Case {
        server: "vue",
        programs: &["vue-language-server"],
        version: None,
        files: &[
            ("package.json", "{\"type\": \"module\"}\n"),
            ("tsconfig.json", TSCONFIG),
            ("shapes.ts", TOTAL),
            (
                "Square.vue",
                "<script setup lang=\"ts\">\nimport type { Shape } from \"./shapes\";\n\ndefineProps<{ shape: Shape }>();\n</script>\n\n\
                 <template>\n  <p>{{ shape.side }}</p>\n</template>\n",
            ),
            (
                "Main.vue",
                "<script setup lang=\"ts\">\nimport { total } from \"./shapes\";\nimport Square from \"./Square.vue\";\n\n\
                 const all = total([2]);\n</script>\n\n<template>\n  <Square :shape=\"{ side: all }\" />\n</template>\n",
            ),
            (
                "Broken.vue",
                "<script setup lang=\"ts\">\nimport { total } from \"./shapes\";\n</script>\n\n\
                 <template>\n  <p>{{ total(nothing) }}</p>\n</template>\n",
            ),
            ("Ugly.vue", "<template>\n  <p   >a</p>\n</template>\n"),
        ],
        used: ("Main.vue", 5, "total"),
        symbols: Some(("Main.vue", &["script setup.all", "template.Square"])),
        definition: Some(("shapes.ts", "export function total")),
        references: Some(&[
            ("Main.vue", "const all = total([2]);"),
            ("Broken.vue", "  <p>{{ total(nothing) }}</p>"),
            ("shapes.ts", "export function total"),
        ]),
        implementation: Some((("Square.vue", 4, "Shape"), &[("shapes.ts", 10)])),
        hover: Some("The sum of all areas."),
        mistake: Some((
            "Broken.vue",
            "Property 'nothing' does not exist",
            "  <p>{{ total(nothing) }}</p>",
            "  <p>{{ total([]) }}</p>",
        )),
        rename: Some((
            "whole",
            &[
                ("Main.vue", "import { whole } from"),
                ("Main.vue", "const all = whole([2]);"),
                ("Broken.vue", "  <p>{{ whole([]) }}</p>"),
                ("shapes.ts", "export function whole"),
            ],
        )),
        rename_file: None,
        action: Some(("Broken.vue", 6, "Extract into new dumb component")),
        format: Some(("Ugly.vue", "<p>a</p>")),
    };
    super::lab::check_in(&case, |sandbox| {
        let tools = std::env::var_os("PILCROW_TOOLS").expect("cargo xtask env sets PILCROW_TOOLS");
        let library = std::path::Path::new(&tools).join("lib/vue");
        std::os::unix::fs::symlink(library, sandbox.project().join("node_modules")).expect("a link");
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn astro_features_work() {
    check(&Case {
        server: "astro",
        programs: &["astro-ls"],
        version: None,
        files: &[
            ("package.json", "{}\n"),
            ("tsconfig.json", TSCONFIG),
            ("shapes.ts", TOTAL),
            (
                "main.astro",
                "---\nimport { total } from \"./shapes\";\n\nconst all = total([2]);\n---\n\n<p>{all}</p>\n",
            ),
            ("broken.astro", "---\nimport { total } from \"./shapes\";\n---\n\n<p>{total(nothing)}</p>\n"),
            (
                "other.astro",
                "---\nimport type { Shape } from \"./shapes\";\n\ninterface Props {\n  shape: Shape;\n}\n---\n\n<p>a</p>\n",
            ),
            ("ugly.astro", "---\nconst   x=1\n---\n\n<p   >{x}</p>\n"),
        ],
        used: ("main.astro", 4, "total"),
        symbols: Some(("main.astro", &["all"])),
        definition: Some(("shapes.ts", "export function total")),
        references: Some(&[
            ("main.astro", "const all = total([2]);"),
            ("broken.astro", "<p>{total(nothing)}</p>"),
            ("shapes.ts", "export function total"),
        ]),
        implementation: Some((("other.astro", 5, "Shape"), &[("shapes.ts", 10)])),
        hover: Some("The sum of all areas."),
        mistake: Some((
            "broken.astro",
            "Cannot find name 'nothing'",
            "<p>{total(nothing)}</p>",
            "<p>{total([])}</p>",
        )),
        rename: Some((
            "whole",
            &[
                ("main.astro", "import { whole } from"),
                ("main.astro", "const all = whole([2]);"),
                ("broken.astro", "<p>{whole([])}</p>"),
                ("shapes.ts", "export function whole"),
            ],
        )),
        rename_file: None,
        action: Some(("broken.astro", 5, "Extract to constant")),
        format: Some(("ugly.astro", "const x = 1;\n")),
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn prisma_features_work() {
    check(&Case {
        server: "prisma",
        programs: &["prisma-language-server"],
        version: None,
        files: &[
            ("package.json", "{}\n"),
            (
                "main.prisma",
                "/// A shape.\nmodel Shape {\n  id    Int    @id\n  sides Side[]\n}\n\n\
                     model Side {\n  id      Int   @id\n  shape   Shape @relation(fields: [shapeId], references: [id])\n  shapeId Int\n}\n",
            ),
            ("broken/broken.prisma", "model A {\n  id Int @id\n  b  Nothing\n}\n"),
            ("ugly/ugly.prisma", "model   C {\n id   Int @id\n}\n"),
        ],
        used: ("main.prisma", 9, "Shape"),
        symbols: Some(("main.prisma", &["Shape", "Side"])),
        definition: Some(("main.prisma", "model Shape {")),
        references: Some(&[("main.prisma", "model Shape {"), ("main.prisma", "  shape   Shape @relation")]),
        implementation: None,
        hover: Some("A shape."),
        mistake: Some(("broken/broken.prisma", "\"Nothing\" is neither", "  b  Nothing", "  b  Int")),
        rename: Some((
            "Figure",
            &[("main.prisma", "model Figure {"), ("main.prisma", "  shape   Figure @relation")],
        )),
        rename_file: None,
        action: Some(("broken/broken.prisma", 3, "Create new model 'Nothing'")),
        format: Some(("ugly/ugly.prisma", "model C {")),
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn graphql_features_work() {
    check(&Case {
        server: "graphql",
        programs: &["graphql-lsp"],
        version: None,
        files: &[
            ("package.json", "{}\n"),
            (".graphqlrc.json", "{\"schema\": \"schema.graphql\", \"documents\": \"*.graphql\"}\n"),
            ("schema.graphql", "type Shape {\n  sides: Int\n}\n\ntype Query {\n  shape: Shape\n}\n"),
            ("main.graphql", "query Main {\n  shape {\n    sides\n  }\n}\n"),
            ("broken.graphql", "query Broken {\n  shape {\n    nothing\n  }\n}\n"),
        ],
        used: ("main.graphql", 2, "shape"),
        symbols: Some(("schema.graphql", &["Shape", "Query"])),
        definition: Some(("schema.graphql", "  shape: Shape")),
        references: None,
        implementation: None,
        hover: Some("Query.shape: Shape"),
        mistake: Some(("broken.graphql", "Cannot query field \"nothing\"", "    nothing", "    sides")),
        rename: None,
        rename_file: None,
        action: None,
        format: None,
    });
}
