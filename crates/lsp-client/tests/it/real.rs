//! Real servers, on a small project of each language: what the built-in definitions promise holds.
//!
//! Run with `RUN_SLOW_TESTS=1`; then a server that is not installed fails its test. `PILCROW_TOOLS` and
//! `PATH` say where they are.

use std::collections::BTreeSet;
use std::time::Duration;

use lsp_client::{Definitions, SearchPath, ServerError};
use workspace::ErrorCode;

use crate::bench::{Bench, cx, open};

const DEADLINE: Duration = Duration::from_secs(150);

/// A workspace whose definitions are the built-in ones of these names; `None` when slow tests are off.
fn real(servers: &[&str], files: &[(&str, &str)]) -> Option<Bench> {
    if std::env::var_os("RUN_SLOW_TESTS").is_none_or(|value| value != "1") {
        println!("skipped: set RUN_SLOW_TESTS=1 to run against {}", servers.join(", "));
        return None;
    }
    let built_in = Definitions::built_in();
    let mut definitions = Definitions::empty();
    for name in servers {
        definitions.insert((**built_in.get(name).unwrap()).clone());
    }
    let folder = tempfile::tempdir().unwrap();
    let search = |limits: &mut lsp_client::PoolLimits| limits.search = SearchPath::from_env();
    Some(open(folder, files, definitions, |options| options.yes = true, search))
}

const PYTHON: &[(&str, &str)] = &[
    ("pyproject.toml", "[project]\nname = \"pkg\"\nversion = \"1\"\n"),
    ("src/pkg/__init__.py", "from .core import greet as greet\n"),
    (
        "src/pkg/core.py",
        "\u{feff}def greet(name: str) -> str:\r\n    \"\"\"greet 😀\"\"\"\r\n    s = '😀'; return s + greet_all([name])\r\n\
         \r\n\r\ndef greet_all(names: list[str]) -> str:\r\n    return greet(names[0]) if names else 'greet'\r\n",
    ),
    (
        "src/pkg/my other/use.py",
        "from pkg.core import greet as hello\n\n\nclass Other:\n    def greet(self) -> str:\n        return hello('x')\n",
    ),
    (
        "tests/test_core.py",
        "import pkg.core\nfrom pkg import greet\n\nprint(pkg.core.greet('a'), greet('b'))\n",
    ),
];

/// Definition, references, hover, symbols, rename across files none of which is open, a file's move.
async fn python(server: &str) {
    let Some(bench) = real(&[server], PYTHON) else { return };
    let doc = bench.doc("src/pkg/core.py");
    assert!(doc.bom, "the fixture has a byte order mark");
    let at = doc.text.find("greet").unwrap();
    let renamed = bench.pool.rename(&doc, at, "salute", &cx(DEADLINE)).await.unwrap();
    assert_eq!(renamed.value.label, "rename greet to salute");
    let expected: BTreeSet<String> = [
        "src/pkg/core.py: def salute(name: str) -> str:\r\n    \"\"\"greet 😀\"\"\"\r\n    s = '😀'; return s + greet_all([name])\r\n\
         \r\n\r\ndef greet_all(names: list[str]) -> str:\r\n    return salute(names[0]) if names else 'greet'\r\n",
        "src/pkg/my other/use.py: from pkg.core import salute as hello\n\n\nclass Other:\n    def greet(self) -> str:\n        return hello('x')\n",
    ]
    .map(str::to_owned)
    .into();
    let outcome: BTreeSet<String> = bench.outcome(renamed.value).into_iter().collect();
    for file in &expected {
        assert!(outcome.contains(file), "{file}\n---\n{outcome:#?}");
    }
    // Whether the re-export keeps its alias is the server's choice; its users follow.
    let test = outcome.iter().find(|file| file.starts_with("tests/")).expect("the tests use it");
    assert!(test.contains("pkg.core.salute('a')"), "{test}");

    let found = bench.pool.references(&doc, at, true, &cx(DEADLINE)).await.unwrap();
    let files: BTreeSet<String> =
        found.value.iter().map(|place| bench.workspace.relative(&place.path)).collect();
    assert!(files.contains("src/pkg/my other/use.py") && files.contains("tests/test_core.py"), "{files:?}");
    for place in &found.value {
        let text = bench.workspace.document(&place.path).unwrap().text;
        assert!(["greet", "hello"].contains(&&text[place.range.clone()]), "{place:?}");
    }
    let call = bench.doc("src/pkg/my other/use.py");
    let at_call = call.text.rfind("hello").unwrap();
    let defined = bench.pool.definition(&call, at_call, &cx(DEADLINE)).await.unwrap();
    assert_eq!((&defined.value[0].path, defined.value[0].line), (&doc.path, 1));
    let hover = bench.pool.hover(&call, at_call, &cx(DEADLINE)).await.unwrap();
    assert!(hover.value.unwrap().contains("greet"));
    let symbols = bench.pool.symbols(&call, &cx(DEADLINE)).await.unwrap().value;
    let class = symbols.iter().find(|symbol| symbol.name == "Other").unwrap();
    assert_eq!(class.children[0].path, "Other.greet");

    let moved = bench.pool.rename_file(&doc.path, &bench.path("src/pkg/heart.py"), &cx(DEADLINE)).await;
    let moved = bench.outcome(moved.unwrap().value);
    assert!(moved.iter().any(|file| file.starts_with("src/pkg/heart.py: def greet")), "{moved:#?}");

    let keyword = doc.text.find("def").unwrap();
    let error = bench.pool.rename(&doc, keyword, "x", &cx(DEADLINE)).await.unwrap_err();
    assert!(matches!(error.code(), ErrorCode::InvalidArguments | ErrorCode::NotFound), "{error}");
}

#[tokio::test]
async fn basedpyright_renames_and_finds() {
    python("basedpyright").await;
}

#[tokio::test]
async fn pyright_renames_and_finds() {
    python("pyright").await;
}

/// Diagnostics for exactly the text, twice.
async fn diagnoses(server: &str, files: &[(&str, &str)], name: &str, fix: &str) {
    let Some(bench) = real(&[server], files) else { return };
    let wrong = bench.pool.diagnostics(&bench.doc(name), &cx(DEADLINE)).await.unwrap().value;
    assert!(wrong.pending.is_empty() && !wrong.items.is_empty(), "{wrong:?}");
    bench.write(name, fix);
    let right = bench.pool.diagnostics(&bench.doc(name), &cx(DEADLINE)).await.unwrap().value;
    assert!(right.pending.is_empty() && right.items.is_empty(), "{right:?}");
    bench.pool.shutdown(Duration::from_secs(10)).await;
}

#[tokio::test]
async fn basedpyright_diagnoses() {
    diagnoses("basedpyright", &[("a.py", "x: int = 'text'\n")], "a.py", "x: int = 1\n").await;
}

#[tokio::test]
async fn pyright_diagnoses() {
    diagnoses("pyright", &[("a.py", "x: int = 'text'\n")], "a.py", "x: int = 1\n").await;
}

#[tokio::test]
async fn ruff_diagnoses() {
    diagnoses("ruff", &[("a.py", "import os\n")], "a.py", "x = 1\n").await;
}

#[tokio::test]
async fn clangd_diagnoses() {
    diagnoses("clangd", &[("a.c", "int f(void) { return g; }\n")], "a.c", "int f(void) { return 1; }\n")
        .await;
}

#[tokio::test]
async fn typescript_language_server_diagnoses() {
    let files = [("tsconfig.json", "{}"), ("a.ts", "export const x: number = 'text';\n")];
    diagnoses("typescript-language-server", &files, "a.ts", "export const x: number = 1;\n").await;
}

#[tokio::test]
async fn ruff_formats_and_sorts() {
    let text = "import sys\r\nimport os\r\nx = {  'a':1 }\r\nprint(os, sys)\r\n";
    let Some(bench) = real(&["ruff"], &[("a.py", text)]) else { return };
    let formatted = bench.pool.format(&bench.doc("a.py"), None, &cx(DEADLINE)).await.unwrap();
    let expected = "a.py: import sys\r\nimport os\r\n\r\nx = {\"a\": 1}\r\nprint(os, sys)\r\n";
    assert_eq!(bench.outcome(formatted.value), [expected]);
    let sorted = bench.pool.organize_imports(&bench.doc("a.py"), &cx(DEADLINE)).await.unwrap();
    let outcome = bench.outcome(sorted.value);
    assert!(outcome[0].starts_with("a.py: import os\r\nimport sys\r\n"), "{outcome:?}");
}

#[tokio::test]
async fn clangd_renames() {
    let files = [
        ("compile_flags.txt", "-std=c11\n"),
        ("a.c", "/* 😀 */ int add(int a, int b) { return a + b; }\nint main(void) { return add(1, 2); }\n"),
    ];
    let Some(bench) = real(&["clangd"], &files) else { return };
    let doc = bench.doc("a.c");
    let answer = bench.pool.rename(&doc, doc.text.find("add").unwrap(), "sum", &cx(DEADLINE)).await.unwrap();
    assert_eq!(bench.outcome(answer.value), [format!("a.c: {}", doc.text.replace("add", "sum"))]);
}

#[tokio::test]
async fn typescript_language_server_renames_and_moves() {
    let files = [
        ("package.json", "{\"name\": \"p\"}"),
        ("tsconfig.json", "{\"include\": [\"src\"]}"),
        ("src/a.ts", "export function add(a: number): number {\n  return a;\n}\n"),
        ("src/b.ts", "import { add as plus } from './a';\n\nconsole.log(plus(1));\n"),
    ];
    let Some(bench) = real(&["typescript-language-server"], &files) else { return };
    let doc = bench.doc("src/a.ts");
    let answer = bench.pool.rename(&doc, doc.text.find("add").unwrap(), "sum", &cx(DEADLINE)).await.unwrap();
    let outcome = bench.outcome(answer.value);
    assert!(outcome[0].starts_with("src/a.ts: export function sum("), "{outcome:?}");
    assert!(outcome[1].starts_with("src/b.ts: import { sum as plus } from './a';"), "{outcome:?}");
    let moved = bench.pool.rename_file(&doc.path, &bench.path("src/c.ts"), &cx(DEADLINE)).await.unwrap();
    let outcome = bench.outcome(moved.value);
    assert!(outcome[0].contains("from './c'"), "{outcome:?}");
}

#[tokio::test]
async fn rust_analyzer_renames() {
    let files = [
        ("Cargo.toml", "[workspace]\nmembers = [\"one\", \"two\"]\nresolver = \"2\"\n"),
        ("one/Cargo.toml", "[package]\nname = \"one\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        (
            "one/src/lib.rs",
            "/// Adds 😀.\npub fn add(a: u8) -> u8 {\n    a\n}\npub struct Pair<T>(T);\nimpl<T> Clone for Pair<T> {\n    fn clone(&self) -> Self {\n        todo!()\n    }\n}\n",
        ),
        (
            "two/Cargo.toml",
            "[package]\nname = \"two\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\none = { path = \"../one\" }\n",
        ),
        ("two/src/lib.rs", "use one::add as plus;\npub fn f() -> u8 {\n    plus(1) + one::add(2)\n}\n"),
    ];
    let Some(bench) = real(&["rust-analyzer"], &files) else { return };
    let doc = bench.doc("one/src/lib.rs");
    let cx = cx(Duration::from_secs(300));
    let answer = bench.pool.rename(&doc, doc.text.find("add").unwrap(), "sum", &cx).await;
    let outcome = match answer {
        Ok(answer) => bench.outcome(answer.value),
        Err(error @ ServerError::Missing { .. }) => panic!("{error}"),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(outcome.len(), 2, "{outcome:#?}");
    assert!(
        outcome[1].contains("use one::sum as plus;") && outcome[1].contains("one::sum(2)"),
        "{outcome:#?}"
    );
    let symbols = bench.pool.symbols(&doc, &cx).await.unwrap().value;
    let paths: Vec<&str> =
        symbols.iter().flat_map(|symbol| &symbol.children).map(|symbol| symbol.path.as_str()).collect();
    assert!(paths.contains(&"Pair.clone"), "{paths:?}");
    assert!(!bench.path("target").as_path().exists(), "its target folder is kept out of the project");
}
