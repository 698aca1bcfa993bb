//! TypeScript, JavaScript, Deno, CSS, HTML, ESLint, Biome, Oxlint, PHP.

use super::lab::{Case, check};

const FILES: &[(&str, &str)] = &[
    (
        "tsconfig.json",
        "{\"compilerOptions\": {\"strict\": true, \"module\": \"esnext\", \"moduleResolution\": \"bundler\", \"target\": \"es2022\"}}\n",
    ),
    (
        "shapes.ts",
        "export interface Shape {\n  area(): number;\n}\n\nexport class Square implements Shape {\n  constructor(private side: number) {}\n\n\
         \x20 area(): number {\n    return this.side * this.side;\n  }\n}\n\n/** The sum of all areas. */\nexport function total(shapes: Shape[]): number {\n\
         \x20 return shapes.reduce((sum, shape) => sum + shape.area(), 0);\n}\n",
    ),
    ("main.ts", "import { Square, total } from './shapes';\n\nexport const all = total([new Square(2)]);\n"),
    ("broken.ts", "import { total } from './shapes';\n\nexport const none = total(nothing);\n"),
    ("ugly.ts", "export const   x=1\n"),
];

fn typescript(server: &'static str, programs: &'static [&'static str]) -> Case {
    Case {
        server,
        programs,
        version: None,
        files: FILES,
        used: ("main.ts", 3, "total"),
        symbols: Some(("shapes.ts", &["Square", "Square.area", "total"])),
        definition: Some(("shapes.ts", "export function total")),
        references: Some(&[
            ("main.ts", "all = total([new Square(2)])"),
            ("broken.ts", "none = total(nothing)"),
            ("shapes.ts", "export function total"),
        ]),
        implementation: Some((("shapes.ts", 2, "area"), &[("shapes.ts", 8)])),
        hover: Some("The sum of all areas."),
        mistake: Some((
            "broken.ts",
            "Cannot find name 'nothing'",
            "export const none = total(nothing);",
            "export const none = total([]);",
        )),
        rename: Some((
            "whole",
            &[
                ("main.ts", "import { Square, whole } from './shapes';\n\nexport const all = whole(["),
                ("broken.ts", "import { whole } from"),
                ("shapes.ts", "export function whole"),
            ],
        )),
        rename_file: Some((
            "shapes.ts",
            "lib/figures.ts",
            &[
                ("main.ts", "from './lib/figures'"),
                ("broken.ts", "from './lib/figures'"),
                ("lib/figures.ts", "class Square"),
            ],
        )),
        action: Some(("broken.ts", 3, "Convert named export to default export")),
        format: Some(("ugly.ts", "export const x = 1")),
    }
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn typescript_language_server_features_work() {
    check(&typescript("typescript-language-server", &["typescript-language-server", "tsc"]));
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn vtsls_features_work() {
    // The server fixes imports after a move by an edit of its own, too late to be part of the move.
    let case = Case { rename_file: None, ..typescript("vtsls", &["vtsls"]) };
    check(&case);
}

/// Uses TypeScript 7 in the project, with an older compiler installed too.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn typescript_native_features_work() {
    const MORE: &[(&str, &str)] = &[
        FILES[0],
        FILES[1],
        FILES[2],
        FILES[3],
        FILES[4],
        ("fix.ts", "export const one = new Square(1);\n"),
    ];
    let case = Case {
        files: MORE,
        action: Some(("fix.ts", 1, "Add import from \"./shapes\"")),
        ..typescript("typescript-native", &["tsc"])
    };
    super::lab::check_in(&case, |sandbox| {
        let tools = std::env::var_os("PILCROW_TOOLS").expect("cargo xtask env sets PILCROW_TOOLS");
        let library = std::path::Path::new(&tools).join("lib/typescript-7");
        std::os::unix::fs::symlink(library, sandbox.project().join("node_modules")).expect("a link");
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn deno_features_work() {
    const OWN: &[(&str, &str)] = &[
        ("deno.json", "{}\n"),
        FILES[1],
        (
            "main.ts",
            "import { Square, total } from './shapes.ts';\n\nexport const all = total([new Square(2)]);\n",
        ),
        ("broken.ts", "import { total } from './shapes.ts';\n\nexport const none = total(nothing);\n"),
        FILES[4],
    ];
    let case = Case {
        files: OWN,
        rename: Some((
            "whole",
            &[
                ("main.ts", "import { Square, whole } from './shapes.ts';\n\nexport const all = whole(["),
                ("broken.ts", "import { whole } from"),
                ("shapes.ts", "export function whole"),
            ],
        )),
        rename_file: Some((
            "shapes.ts",
            "lib/figures.ts",
            &[
                ("main.ts", "from './lib/figures.ts'"),
                ("broken.ts", "from './lib/figures.ts'"),
                ("lib/figures.ts", "class Square"),
            ],
        )),
        ..typescript("deno", &["deno"])
    };
    check(&case);
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn css_features_work() {
    check(&Case {
        server: "vscode-css-language-server",
        programs: &["vscode-css-language-server"],
        version: None,
        files: &[
            ("package.json", "{}\n"),
            ("main.css", ":root {\n  --accent: #336699;\n}\n\n.title {\n  color: var(--accent);\n}\n"),
            ("broken.css", ".title {\n  colr: red;\n}\n"),
            ("ugly.css", ".a{color:red}\n"),
        ],
        used: ("main.css", 6, "--accent"),
        symbols: Some(("main.css", &[":root", ".title"])),
        definition: Some(("main.css", "--accent: #336699;")),
        references: Some(&[("main.css", "color: var(--accent);"), ("main.css", "--accent: #336699;")]),
        implementation: None,
        hover: Some("color"),
        mistake: Some(("broken.css", "colr", "  colr: red;", "  color: red;")),
        rename: Some(("--brand", &[("main.css", "--brand: #336699;"), ("main.css", "var(--brand)")])),
        rename_file: None,
        action: Some(("broken.css", 2, "color")),
        format: Some(("ugly.css", ".a {\n    color: red\n}")),
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn html_features_work() {
    check(&Case {
        server: "vscode-html-language-server",
        programs: &["vscode-html-language-server"],
        version: None,
        files: &[
            ("package.json", "{}\n"),
            (
                "main.html",
                "<!DOCTYPE html>\n<html>\n<body>\n<section id=\"top\">\n<p>text</p>\n</section>\n<script>\nfunction area(side) { return side * side; }\nconsole.log(area(2));\n</script>\n</body>\n</html>\n",
            ),
            ("broken.html", "<html>\n<head>\n<style>\n.title { colr: red; }\n</style>\n</head>\n</html>\n"),
            ("ugly.html", "<div><p>a</p>\n</div>\n"),
        ],
        used: ("main.html", 9, "area"),
        symbols: Some(("main.html", &["html"])),
        definition: Some(("main.html", "function area(side)")),
        references: Some(&[("main.html", "function area(side)"), ("main.html", "console.log(area(2));")]),
        implementation: None,
        hover: Some("area"),
        mistake: Some(("broken.html", "colr", ".title { colr: red; }", ".title { color: red; }")),
        rename: Some((
            "surface",
            &[("main.html", "function surface(side)"), ("main.html", "console.log(surface(2))")],
        )),
        rename_file: None,
        action: None,
        format: Some(("ugly.html", "<div>\n    <p>a</p>\n</div>")),
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn eslint_features_work() {
    let case = Case {
        server: "vscode-eslint-language-server",
        programs: &["vscode-eslint-language-server"],
        version: None,
        files: &[
            ("package.json", "{}\n"),
            (
                ".eslintrc.json",
                "{\"root\": true, \"parserOptions\": {\"ecmaVersion\": 2022}, \"rules\": {\"eqeqeq\": \"error\", \"no-extra-semi\": \"error\"}}\n",
            ),
            ("main.js", "var a = 1;\nif (a == 2) { a = 3; }\n"),
            ("fixable.js", "var b = 1;;\n"),
        ],
        used: ("main.js", 1, "a"),
        symbols: None,
        definition: None,
        references: None,
        implementation: None,
        hover: None,
        mistake: Some(("main.js", "eqeqeq", "if (a == 2) { a = 3; }", "if (a === 2) { a = 3; }")),
        rename: None,
        rename_file: None,
        action: Some(("fixable.js", 1, "no-extra-semi")),
        format: None,
    };
    super::lab::check_in(&case, |sandbox| {
        let tools = std::env::var_os("PILCROW_TOOLS").expect("cargo xtask env sets PILCROW_TOOLS");
        let library = std::path::Path::new(&tools).join("lib/eslint");
        std::os::unix::fs::symlink(library, sandbox.project().join("node_modules")).expect("a link");
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn biome_features_work() {
    check(&Case {
        server: "biome",
        programs: &["biome"],
        version: None,
        files: &[
            ("package.json", "{}\n"),
            ("biome.json", "{\"linter\": {\"rules\": {\"recommended\": true}}}\n"),
            ("main.ts", "export const all = 2;\n"),
            ("broken.ts", "export const one = 1;\nif (one == 2) {\n\tconsole.log(one);\n}\n"),
            ("ugly.ts", "export const   x=1\n"),
        ],
        used: ("main.ts", 1, "all"),
        symbols: None,
        definition: None,
        references: None,
        implementation: None,
        hover: None,
        mistake: Some(("broken.ts", "Using == may be unsafe", "if (one == 2) {", "if (one === 2) {")),
        rename: None,
        rename_file: None,
        action: Some(("broken.ts", 2, "Apply unsafe fix for noDoubleEquals")),
        format: Some(("ugly.ts", "export const x = 1;")),
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn oxlint_features_work() {
    check(&Case {
        server: "oxlint",
        programs: &["oxlint"],
        version: None,
        files: &[
            ("package.json", "{}\n"),
            (".oxlintrc.json", "{\"rules\": {\"eqeqeq\": \"error\", \"no-debugger\": \"error\"}}\n"),
            ("main.ts", "export const all = 2;\n"),
            ("broken.ts", "export const one = 1;\nif (one == 2) {\n\tconsole.log(one);\n}\n"),
            ("fixable.ts", "debugger;\nexport const two = 2;\n"),
        ],
        used: ("main.ts", 1, "all"),
        symbols: None,
        definition: None,
        references: None,
        implementation: None,
        hover: None,
        mistake: Some(("broken.ts", "eqeqeq", "if (one == 2) {", "if (one === 2) {")),
        rename: None,
        rename_file: None,
        action: Some(("fixable.ts", 1, "Remove the debugger statement")),
        format: None,
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn php_features_work() {
    check(&Case {
        server: "intelephense",
        programs: &["intelephense"],
        version: None,
        files: &[
            ("composer.json", "{}\n"),
            (
                "shapes.php",
                "<?php\n\nclass Square\n{\n    public function __construct(private int $side) {}\n\n    public function area(): int\n    {\n\
                     \x20       return $this->side * $this->side;\n    }\n}\n\n/** The sum of all areas. */\nfunction total(array $shapes): int\n{\n\
                     \x20   return array_sum(array_map(fn (Square $shape) => $shape->area(), $shapes));\n}\n",
            ),
            ("main.php", "<?php\n\nrequire 'shapes.php';\n\necho total([new Square(2)]);\n"),
            ("broken.php", "<?php\n\nrequire 'shapes.php';\n\necho total(nothing());\n"),
            ("ugly.php", "<?php\n\nif(true){\n    echo 1;\n}\n"),
        ],
        used: ("main.php", 5, "total"),
        symbols: Some(("shapes.php", &["Square", "Square.area", "total"])),
        definition: Some(("shapes.php", "function total(array $shapes)")),
        references: Some(&[
            ("main.php", "echo total([new Square(2)]);"),
            ("broken.php", "echo total(nothing());"),
            ("shapes.php", "function total(array $shapes)"),
        ]),
        implementation: None,
        hover: Some("The sum of all areas."),
        mistake: Some((
            "broken.php",
            "Undefined function 'nothing'",
            "echo total(nothing());",
            "echo total([]);",
        )),
        rename: None,
        rename_file: None,
        action: None,
        format: Some(("ugly.php", "if (true) {")),
    });
}
