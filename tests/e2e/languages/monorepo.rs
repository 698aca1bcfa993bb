//! A monorepo: every file finds its right root and server, with nothing open.

use std::collections::BTreeSet;

use expect_test::expect;
use serde_json::{Value, json};
use tests::{Batch, Sandbox};

use super::lab::give;

const FILES: &[(&str, &str)] = &[
    // A marker at the top that belongs to none of the packages.
    ("package.json", "{\"private\": true, \"workspaces\": [\"web/*\"]}\n"),
    ("service/pyproject.toml", "[project]\nname = \"service\"\nversion = \"0\"\n"),
    ("service/service/__init__.py", ""),
    ("service/service/rates.py", "def rate(amount: int) -> int:\n    return amount * 2\n"),
    ("service/service/main.py", "from service.rates import rate\n\nprint(rate(1))\n"),
    ("jobs/pyproject.toml", "[project]\nname = \"jobs\"\nversion = \"0\"\n"),
    ("jobs/rates.py", "def rate(name: str) -> str:\n    return name\n"),
    ("jobs/main.py", "from rates import rate\n\nprint(rate(\"x\"))\n"),
    ("web/app/package.json", "{\"name\": \"app\"}\n"),
    ("web/app/tsconfig.json", "{\"compilerOptions\": {\"strict\": true}}\n"),
    ("web/app/rates.ts", "export function rate(amount: number): number {\n  return amount * 2;\n}\n"),
    ("web/app/main.ts", "import { rate } from './rates';\n\nexport const one = rate(1);\n"),
    ("web/site/package.json", "{\"name\": \"site\"}\n"),
    ("web/site/tsconfig.json", "{\"compilerOptions\": {\"strict\": false}}\n"),
    ("web/site/rates.ts", "export function rate(name: string): string {\n  return name;\n}\n"),
    ("web/site/main.ts", "import { rate } from './rates';\n\nexport const one = rate('x');\n"),
    ("engine/Cargo.toml", "[workspace]\nmembers = [\"core\", \"cli\"]\nresolver = \"2\"\n"),
    ("engine/core/Cargo.toml", "[package]\nname = \"core-rates\"\nversion = \"0.0.0\"\nedition = \"2021\"\n"),
    ("engine/core/src/lib.rs", "pub fn rate(amount: u32) -> u32 {\n    amount * 2\n}\n"),
    (
        "engine/cli/Cargo.toml",
        "[package]\nname = \"cli\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[dependencies]\ncore-rates = { path = \"../core\" }\n",
    ),
    ("engine/cli/src/main.rs", "use core_rates::rate;\n\nfn main() {\n    println!(\"{}\", rate(1));\n}\n"),
];

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn each_monorepo_file_finds_its_root_and_server() {
    let mut sandbox = Sandbox::with(FILES);
    give(&mut sandbox, &["basedpyright-langserver", "typescript-language-server", "tsc"]);
    let mut batch = Batch::start(&sandbox);
    let mut ask = |file: &str, line: u64, expected: &str, others: &[&str]| {
        let place =
            json!({"action": "definition", "file": file, "line": line, "symbol": "rate", "timeout": 180});
        let said = batch.call("lsp", &place).ok();
        assert!(said.contains(expected), "{file}: {expected} is missing in: {said}");
        let mut uses = place.clone();
        uses["action"] = json!("references");
        let said = batch.call("lsp", &uses).ok();
        assert!(said.contains(expected) && said.contains(file), "{file}: {said}");
        for other in others {
            assert!(!said.contains(other), "{file} was mixed up with {other}: {said}");
        }
    };
    ask("service/service/main.py", 3, "service/service/rates.py", &["jobs/", "web/"]);
    ask("jobs/main.py", 3, "jobs/rates.py", &["service/", "web/"]);
    // The first file is requested again, after the server got another root.
    ask("service/service/main.py", 3, "service/service/rates.py", &["jobs/"]);
    ask("web/app/main.ts", 3, "web/app/rates.ts", &["web/site"]);
    ask("web/site/main.ts", 3, "web/site/rates.ts", &["web/app"]);
    ask("engine/cli/src/main.rs", 4, "engine/core/src/lib.rs", &["service/"]);

    // The list has every file, also those next to the requested ones: a wrong root would add one.
    for (file, _) in
        FILES.iter().filter(|(file, _)| [".py", ".ts", ".rs"].iter().any(|it| file.ends_with(it)))
    {
        batch.call("lsp", &json!({"action": "symbols", "file": file, "timeout": 180})).ok();
    }
    let status = batch.call("lsp", &json!({"action": "status"}));
    let servers = status.value["details"]["servers"].as_array().cloned().unwrap_or_default();
    let roots: BTreeSet<(String, String)> = servers
        .iter()
        .filter(|it| it["state"] == "running")
        .map(|it| (text(&it["name"]), text(&it["root"])))
        .collect();
    let expected = [
        ("basedpyright", "jobs"),
        ("basedpyright", "service"),
        ("rust-analyzer", "engine"),
        // The outermost root wins, since the top has a package.json.
        ("typescript-language-server", "."),
    ];
    let expected: BTreeSet<(String, String)> =
        expected.iter().map(|(name, root)| ((*name).to_owned(), (*root).to_owned())).collect();
    assert_eq!(roots, expected, "{}", status.text());
    let pids: BTreeSet<u64> = servers
        .iter()
        .filter(|it| it["name"] == "basedpyright" && it["state"] == "running")
        .filter_map(|it| it["pid"].as_u64())
        .collect();
    assert_eq!(pids.len(), 1, "one Python server has both folders: {}", status.text());
    batch.end();
    sandbox.mark().none_left(std::time::Duration::from_secs(10));
}

/// Each of two packages resolves `@lib` by settings of its own.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn one_framework_server_serves_all_packages() {
    let frameworks = [
        ("astro", "astro-ls", "---\n", "---\n<p>{twice}</p>\n"),
        ("svelte", "svelteserver", "<script lang=\"ts\">\n", "</script>\n<p>{twice}</p>\n"),
        (
            "vue",
            "vue-language-server",
            "<script setup lang=\"ts\">\n",
            "</script>\n<template><p>{{ twice }}</p></template>\n",
        ),
    ];
    for (name, program, before, after) in frameworks {
        let mut sandbox =
            Sandbox::with(&[("package.json", "{\"private\": true, \"workspaces\": [\"*\"]}\n")]);
        give(&mut sandbox, &[program]);
        for package in ["a", "b"] {
            sandbox.write(&format!("{package}/package.json"), json!({"name": package}).to_string());
            let options = json!({"strict": true, "target": "es2022", "module": "esnext", "moduleResolution": "bundler",
                "baseUrl": ".", "paths": {"@lib": ["./lib.ts"]}});
            let config = json!({"compilerOptions": options, "include": ["*.ts", format!("*.{name}")]});
            sandbox.write(&format!("{package}/tsconfig.json"), config.to_string());
            sandbox.write(&format!("{package}/lib.ts"), "export const only: number = 1;\n");
            let script = "import { only } from \"@lib\";\nconst twice: number = only * 2;\n";
            sandbox.write(&format!("{package}/Page.{name}"), format!("{before}{script}{after}"));
        }
        let mut batch = Batch::start(&sandbox);
        for package in ["a", "b"] {
            let place = json!({"action": "references", "file": format!("{package}/Page.{name}"), "line": 3, "symbol": "only"});
            let answer = batch.call("lsp", &place);
            let places = answer.value["details"]["locations"].as_array().cloned().unwrap_or_default();
            let files: BTreeSet<String> = places.iter().map(|it| text(&it["path"])).collect();
            let expected = [format!("{package}/Page.{name}"), format!("{package}/lib.ts")];
            assert_eq!(files, BTreeSet::from(expected), "{}", answer.text());
        }
        let status = batch.call("lsp", &json!({"action": "status"}));
        let servers = status.value["details"]["servers"].as_array().cloned().unwrap_or_default();
        let running = servers.iter().filter(|it| it["state"] == "running" && it["name"] == name);
        let roots: Vec<String> = running.map(|it| text(&it["root"])).collect();
        assert_eq!(roots, ["."], "{}", status.text());
        batch.end();
    }
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn another_typescript_of_a_package_is_noted_once() {
    let mut sandbox = Sandbox::with(&[
        ("package.json", "{\"private\": true, \"workspaces\": [\"*\"]}\n"),
        ("new/tsconfig.json", "{}"),
        ("new/rates.ts", "export const rate = 1;\n"),
        ("old/tsconfig.json", "{}"),
        ("old/node_modules/typescript/package.json", "{\"name\": \"typescript\", \"version\": \"4.9.5\"}\n"),
        ("old/rates.ts", "export const rate = 2;\n"),
    ]);
    give(&mut sandbox, &["typescript-language-server", "tsc"]);
    let mut batch = Batch::start(&sandbox);
    let mut note = |package: &str| {
        let place =
            json!({"action": "hover", "file": format!("{package}/rates.ts"), "line": 1, "symbol": "rate"});
        text(&batch.call("lsp", &place).value["details"]["note"])
    };
    assert_eq!(note("new"), "");
    expect!["typescript-language-server uses version 5.9.3, but old has 4.9.5 installed; its compiler may report other errors"].assert_eq(&note("old"));
    assert_eq!(note("old"), "");
    batch.end();
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
