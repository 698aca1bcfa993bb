//! Real servers with the built-in definitions, on a small project of each language.
//!
//! Ignored by default; a server that is not installed fails its test. `PILCROW_TOOLS` and `PATH`
//! locate them.

use adapters::{SearchPath, ServerDefinitions};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lsp_client::{Navigate, ServerError, Types};
use policy::ErrorCode;
use workspace::Editor;

use crate::bench::{Bench, cx, open_beside};

pub const DEADLINE: Duration = Duration::from_secs(150);

/// A workspace whose definitions are the built-in ones of these names.
fn real(servers: &[&str], files: &[(&str, &str)]) -> Bench {
    real_beside(servers, files, None)
}

/// Builds the same workspace with an editor.
pub fn real_beside(servers: &[&str], files: &[(&str, &str)], editor: Option<Arc<dyn Editor>>) -> Bench {
    let built_in = ServerDefinitions::built_in();
    let mut definitions = ServerDefinitions::default();
    for name in servers {
        definitions.insert((**built_in.get(name).unwrap()).clone());
    }
    let directory = tempfile::tempdir().unwrap();
    let search = |limits: &mut lsp_client::PoolLimits| limits.search = SearchPath::from_env();
    open_beside(directory, files, definitions, editor, |options| options.yes = true, search)
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

/// Navigation, symbols, a rename across files that are not open, and a file's move.
async fn python(server: &str) {
    let bench = real(&[server], PYTHON);
    let doc = bench.doc("src/pkg/core.py");
    assert!(doc.bom, "the fixture has a byte order mark");
    let at = doc.text.find("greet").unwrap();
    let renamed = bench.rename(&doc, at, "salute", &cx(DEADLINE)).await.unwrap();
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
    // The server decides whether the re-export keeps its alias; its users follow.
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

    let keyword = doc.text.find("def").unwrap();
    let error = bench.rename(&doc, keyword, "x", &cx(DEADLINE)).await.unwrap_err();
    assert!(matches!(error.code(), ErrorCode::InvalidArguments | ErrorCode::NotFound), "{error}");
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn basedpyright_renames_and_finds() {
    python("basedpyright").await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn pyright_renames_and_finds() {
    python("pyright").await;
}

/// Requests the diagnostics of exactly the text, twice.
async fn diagnoses(server: &str, files: &[(&str, &str)], name: &str, fix: &str) {
    let bench = real(&[server], files);
    let wrong = bench.pool.diagnostics(&bench.doc(name), &cx(DEADLINE)).await.unwrap().value;
    assert!(wrong.pending.is_empty() && !wrong.items.is_empty(), "{wrong:?}");
    bench.write(name, fix);
    let right = bench.pool.diagnostics(&bench.doc(name), &cx(DEADLINE)).await.unwrap().value;
    assert!(right.pending.is_empty() && right.items.is_empty(), "{right:?}");
    bench.pool.shutdown(Duration::from_secs(10)).await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn basedpyright_diagnoses() {
    diagnoses("basedpyright", &[("a.py", "x: int = 'text'\n")], "a.py", "x: int = 1\n").await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn pyright_diagnoses() {
    diagnoses("pyright", &[("a.py", "x: int = 'text'\n")], "a.py", "x: int = 1\n").await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn ruff_diagnoses() {
    diagnoses("ruff", &[("a.py", "import os\n")], "a.py", "x = 1\n").await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn clangd_diagnoses() {
    diagnoses("clangd", &[("a.c", "int f(void) { return g; }\n")], "a.c", "int f(void) { return 1; }\n")
        .await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn typescript_language_server_diagnoses() {
    let files = [("tsconfig.json", "{}"), ("a.ts", "export const x: number = 'text';\n")];
    diagnoses("typescript-language-server", &files, "a.ts", "export const x: number = 1;\n").await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn typescript_language_server_keeps_clean_texts_clean() {
    clean_stays_clean("typescript-language-server").await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn vtsls_keeps_clean_texts_clean() {
    clean_stays_clean("vtsls").await;
}

/// Requests diagnostics from a server that publishes nothing after an edit.
async fn clean_stays_clean(server: &str) {
    let files = [("tsconfig.json", "{}"), ("a.ts", "export const x: number = 1;\n")];
    let bench = real(&[server], &files);
    let first = bench.pool.diagnostics(&bench.doc("a.ts"), &cx(DEADLINE)).await.unwrap().value;
    assert!(first.pending.is_empty() && first.items.is_empty(), "{first:?}");
    for n in 2..12 {
        let wrong = n % 4 == 0;
        let value = if wrong { "'text'".to_owned() } else { n.to_string() };
        bench.write("a.ts", &format!("export const x: number = {value};\n"));
        let started = std::time::Instant::now();
        let waits = cx(if wrong { DEADLINE } else { Duration::from_secs(3) });
        let reported = bench.pool.diagnostics(&bench.doc("a.ts"), &waits).await.unwrap().value;
        assert!(reported.pending.is_empty(), "{n}: {reported:?}");
        assert_eq!(reported.items.len(), usize::from(wrong), "{n}: {reported:?}");
        println!("{server} {n}: {} problems known after {:?}", reported.items.len(), started.elapsed());
    }
    bench.pool.shutdown(Duration::from_secs(10)).await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn ruff_formats_and_sorts() {
    let text = "import sys\r\nimport os\r\nx = {  'a':1 }\r\nprint(os, sys)\r\n";
    let bench = real(&["ruff"], &[("a.py", text)]);
    let formatted = bench.pool.format(&bench.doc("a.py"), None, &cx(DEADLINE)).await.unwrap();
    let expected = "a.py: import sys\r\nimport os\r\n\r\nx = {\"a\": 1}\r\nprint(os, sys)\r\n";
    assert_eq!(bench.outcome(formatted.value), [expected]);
    let sorted = bench.pool.organize_imports(&bench.doc("a.py"), &cx(DEADLINE)).await.unwrap();
    let outcome = bench.outcome(sorted.value);
    assert!(outcome[0].starts_with("a.py: import os\r\nimport sys\r\n"), "{outcome:?}");
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn clangd_renames() {
    let files = [
        ("compile_flags.txt", "-std=c11\n"),
        ("a.c", "/* 😀 */ int add(int a, int b) { return a + b; }\nint main(void) { return add(1, 2); }\n"),
    ];
    let bench = real(&["clangd"], &files);
    let doc = bench.doc("a.c");
    let answer = bench.rename(&doc, doc.text.find("add").unwrap(), "sum", &cx(DEADLINE)).await.unwrap();
    assert_eq!(bench.outcome(answer.value), [format!("a.c: {}", doc.text.replace("add", "sum"))]);
}

/// Opens the files that contain the name in clangd before a rename in a header.
///
/// clangd 22.1.1 takes an open `.h` for C++, so in a C project some files are omitted and listed.
#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn clangd_renames_header_names_or_lists_missed_files() {
    for (header, source) in [("add.hpp", "cpp"), ("add.h", "cpp"), ("add.h", "c")] {
        let names = [format!("inc/{header}"), format!("src/add.{source}"), format!("src/use.{source}")];
        let include = format!("#include \"../inc/{header}\"\n\n");
        let texts = [
            "#pragma once\nint add(int a, int b);\n".to_owned(),
            format!("{include}int add(int a, int b) {{ return a + b; }}\n"),
            format!("{include}int twice(int a) {{ return add(a, a); }}\n"),
        ];
        let files: Vec<(&str, &str)> =
            names.iter().zip(&texts).map(|(name, text)| (name.as_str(), text.as_str())).collect();
        for (from, _) in &files {
            let bench = real(&["clangd"], &files);
            let doc = bench.doc(from);
            let at = doc.text.find("add(").unwrap();
            let answer = bench.rename(&doc, at, "sum", &cx(DEADLINE)).await.unwrap();
            let (note, is_complete) = (format!("{:?}", answer.notes), answer.notes.is_empty());
            let outcome = bench.outcome(answer.value);
            for (name, text) in &files {
                let renamed = outcome.contains(&format!("{name}: {}", text.replace("add(", "sum(")));
                assert_ne!(renamed, note.contains(name), "{name} from {from}: {note:?}");
            }
            assert_eq!(outcome.len() == 3, is_complete, "from {from}: {note:?}");
            assert!(source == "c" || is_complete, "from {from}: {note:?}");
            bench.pool.shutdown(Duration::from_secs(10)).await;
        }
    }
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn typescript_language_server_renames() {
    let files = [
        ("package.json", "{\"name\": \"p\"}"),
        ("tsconfig.json", "{\"include\": [\"src\"]}"),
        ("src/a.ts", "export function add(a: number): number {\n  return a;\n}\n"),
        ("src/b.ts", "import { add as plus } from './a';\n\nconsole.log(plus(1));\n"),
    ];
    let bench = real(&["typescript-language-server"], &files);
    let doc = bench.doc("src/a.ts");
    let answer = bench.rename(&doc, doc.text.find("add").unwrap(), "sum", &cx(DEADLINE)).await.unwrap();
    let outcome = bench.outcome(answer.value);
    assert!(outcome[0].starts_with("src/a.ts: export function sum("), "{outcome:?}");
    assert!(outcome[1].starts_with("src/b.ts: import { sum as plus } from './a';"), "{outcome:?}");
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
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
    let bench = real(&["rust-analyzer"], &files);
    let doc = bench.doc("one/src/lib.rs");
    let cx = cx(Duration::from_secs(300));
    let answer = bench.rename(&doc, doc.text.find("add").unwrap(), "sum", &cx).await;
    let outcome = match answer {
        Ok(answer) => bench.outcome(answer.value),
        Err(error @ ServerError::Missing { .. }) => panic!("{error}"),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(outcome.len(), 2, "{outcome:#?}");
    assert_eq!(
        outcome[1],
        "two/src/lib.rs: use one::sum as plus;\npub fn f() -> u8 {\n    plus(1) + one::sum(2)\n}\n"
    );
    let symbols = bench.pool.symbols(&doc, &cx).await.unwrap().value;
    let paths: Vec<&str> =
        symbols.iter().flat_map(|symbol| &symbol.children).map(|symbol| symbol.path.as_str()).collect();
    assert!(paths.contains(&"Pair.clone"), "{paths:?}");
    assert!(!bench.path("target").as_path().exists(), "its target directory is outside the project");
}

/// Every navigation request on one file, with places rendered as their text.
struct Asked<'a> {
    bench: &'a Bench,
    name: &'a str,
    deadline: Duration,
}

impl Asked<'_> {
    fn doc(&self) -> workspace::Document {
        self.bench.doc(self.name)
    }

    async fn at(&self, to: Navigate, offset: usize) -> Vec<String> {
        let found = self.bench.pool.navigate(to, &self.doc(), offset, &cx(self.deadline)).await.unwrap();
        found.value.iter().map(|it| it.line_text.trim().to_owned()).collect()
    }

    async fn callers(&self, offset: usize) -> Vec<(String, String)> {
        Self::rows(&self.bench.callers(&self.doc(), offset).await.unwrap())
    }

    async fn callees(&self, offset: usize) -> Vec<(String, String)> {
        let found = self.bench.pool.callees(&self.doc(), offset, &cx(self.deadline)).await.unwrap();
        Self::rows(&found.value)
    }

    fn rows(found: &[lsp_client::Call]) -> Vec<(String, String)> {
        let places = |call: &lsp_client::Call| {
            call.places.iter().map(|it| it.line_text.trim().to_owned()).collect::<Vec<_>>().join("; ")
        };
        found.iter().map(|call| (call.symbol.name.clone(), places(call))).collect()
    }

    async fn highlights(&self, offset: usize) -> Vec<usize> {
        let found = self.bench.pool.highlights(&self.doc(), offset, &cx(self.deadline)).await.unwrap();
        found.value.iter().map(|it| it.line).collect()
    }

    async fn signature(&self, offset: usize) -> String {
        let found = self.bench.pool.signature(&self.doc(), offset, &cx(self.deadline)).await.unwrap();
        found.value.iter().find(|it| it.active).map(|it| it.label.clone()).unwrap_or_default()
    }

    async fn completes(&self, offset: usize) -> Vec<String> {
        let found = self.bench.pool.completion(&self.doc(), offset, &cx(self.deadline)).await.unwrap();
        found.value.0.into_iter().map(|it| it.label).collect()
    }

    /// Titles of code actions on a range, with the problems there.
    async fn actions(&self, range: std::ops::Range<usize>) -> Vec<lsp_client::CodeAction> {
        let known = self.bench.pool.diagnostics(&self.doc(), &cx(self.deadline)).await.unwrap().value;
        assert!(known.pending.is_empty(), "{known:?}");
        let here: Vec<_> = known
            .items
            .into_iter()
            .filter(|it| it.range.start <= range.end && range.start <= it.range.end)
            .collect();
        let query = lsp_client::ActionQuery { range, only: &[], diagnostics: &here };
        self.bench.pool.code_actions(&self.doc(), &query, &cx(self.deadline)).await.unwrap().value
    }
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn basedpyright_navigates() {
    let text = "class Shape:\n    def area(self) -> int: ...\n\n\nclass Square(Shape):\n    def area(self) -> int:\n        return side(2)\n\n\n\
        def side(n: int) -> int:\n    return n\n\n\nshape: Shape = Square()\nprint(shape.area(), side(3))\n";
    let bench = real(&["basedpyright"], &[("pyproject.toml", ""), ("a.py", text)]);
    let ask = Asked { bench: &bench, name: "a.py", deadline: DEADLINE };
    let at = |word: &str| text.find(word).unwrap();
    let value = text.rfind("shape.area").unwrap();
    // The type is narrowed by the assignment.
    assert_eq!(ask.at(Navigate::TypeDefinition, value).await, ["class Square(Shape):"]);
    assert_eq!(ask.at(Navigate::Declaration, value).await, ["shape: Shape = Square()"]);
    let callers = ask.callers(at("side(n")).await;
    assert!(callers.contains(&("area".to_owned(), "return side(2)".to_owned())), "{callers:?}");
    let callees = ask.callees(text.rfind("def area").unwrap() + 4).await;
    assert_eq!(callees, [("side".to_owned(), "return side(2)".to_owned())]);
    assert_eq!(ask.highlights(at("side(n")).await, [7, 10, 15]);
    assert!(ask.signature(at("side(3") + 5).await.contains("n: int"));
    assert!(ask.completes(value + "shape.".len()).await.contains(&"area".to_owned()));
    let found =
        bench.pool.workspace_symbols("Squar", Some(&ask.doc()), &cx(DEADLINE)).await.unwrap().value.symbols;
    assert!(found.iter().any(|it| it.name == "Square" && it.line == 5), "{found:?}");
    let hints = bench.pool.inlay_hints(&ask.doc(), 0..text.len(), &cx(DEADLINE)).await.unwrap();
    assert!(hints.value.iter().any(|it| it.label.contains("n=")), "{hints:?}");
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn ruff_offers_fixes_and_fix_all() {
    let text = "import os\nimport sys\n\nprint(sys.argv)\n";
    let bench = real(&["ruff"], &[("pyproject.toml", ""), ("a.py", text)]);
    let ask = Asked { bench: &bench, name: "a.py", deadline: DEADLINE };
    let actions = ask.actions(7..9).await;
    let known = bench.pool.diagnostics(&ask.doc(), &cx(DEADLINE)).await.unwrap().value.items;
    let fix = actions.iter().find(|it| it.preferred && it.is("quickfix")).expect("a preferred fix");
    assert_ne!(fix.fixes(&known[0]), Some(false));
    let edit = bench.pool.resolve_action(&ask.doc(), fix, &cx(DEADLINE)).await.unwrap().edit.unwrap();
    assert_eq!(bench.outcome(edit), ["a.py: import sys\n\nprint(sys.argv)\n"]);
    let whole = actions.iter().find(|it| it.is("source.fixAll"));
    let edit =
        bench.pool.resolve_action(&ask.doc(), whole.expect("fix all"), &cx(DEADLINE)).await.unwrap().edit;
    assert_eq!(bench.outcome(edit.unwrap()), ["a.py: import sys\n\nprint(sys.argv)\n"]);
    let quiet = actions.iter().find(|it| it.title.contains("Disable")).expect("one that silences");
    assert!(!quiet.preferred);
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn clangd_navigates_types_and_runs_its_commands() {
    let text = "struct Shape { virtual int area(); };\nstruct Square : Shape { int area() override; };\n\
        int Shape::area() { return 0; }\nint Square::area() { return 4; }\nint sum(Shape &a) { int both = a.area() + a.area(); return both }\n";
    let files = [("compile_flags.txt", "-std=c++17\n"), ("a.cpp", text)];
    let bench = real(&["clangd"], &files);
    let ask = Asked { bench: &bench, name: "a.cpp", deadline: DEADLINE };
    let at = |word: &str| text.find(word).unwrap();
    let doc = ask.doc();
    let above = bench.pool.types(Types::Super, &doc, at("Square"), &cx(DEADLINE)).await.unwrap().value;
    assert_eq!(above.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["Shape"]);
    let below = bench.pool.types(Types::Sub, &doc, at("Shape"), &cx(DEADLINE)).await.unwrap().value;
    assert_eq!(below.iter().map(|it| (it.name.as_str(), it.line)).collect::<Vec<_>>(), [("Square", 2)]);
    assert_eq!(
        ask.at(Navigate::Declaration, at("Shape::area") + 7).await,
        ["struct Shape { virtual int area(); };"]
    );
    let callers = ask.callers(at("area()")).await;
    assert!(callers.iter().any(|(name, _)| name.contains("sum")), "{callers:?}");
    // An edit inserts the missing semicolon. A tweak is a command whose edit arrives while it runs.
    let known = bench.pool.diagnostics(&doc, &cx(DEADLINE)).await.unwrap().value.items;
    let offered = ask.actions(known[0].range.clone()).await;
    let fix = offered.into_iter().find(|it| it.preferred && it.is("quickfix"));
    let edit = bench.pool.resolve_action(&doc, &fix.expect("a fix"), &cx(DEADLINE)).await.unwrap().edit;
    assert!(bench.outcome(edit.unwrap())[0].contains("return both; }"));
    let expression = at("a.area() + a.area()");
    let actions = ask.actions(expression..expression + "a.area()".len()).await;
    let extract = actions.iter().find(|it| it.title.to_lowercase().contains("extract")).expect("a tweak");
    let resolved = bench.pool.resolve_action(&doc, extract, &cx(DEADLINE)).await.unwrap();
    let edits = match (resolved.edit, resolved.command) {
        (Some(edit), _) => vec![edit],
        (None, Some(command)) => {
            let keeping = Keeping::default();
            let ran = bench.pool.run_command(&command, &keeping, &cx(DEADLINE)).await.unwrap().value;
            ran.outcome.unwrap();
            keeping.0.into_inner()
        }
        (None, None) => panic!("neither an edit nor a command"),
    };
    assert_eq!(edits.len(), 1);
    assert!(bench.outcome(edits.into_iter().next().unwrap())[0].contains("a.area();"));
}

/// Records the edits of a command.
#[derive(Default)]
struct Keeping(parking_lot::Mutex<Vec<workspace::WorkspaceEdit>>);

impl lsp_client::CommandEdits for Keeping {
    fn apply<'a>(
        &'a self,
        _: &'a str,
        edit: workspace::WorkspaceEdit,
    ) -> futures_util::future::BoxFuture<'a, Result<(), String>> {
        self.0.lock().push(edit);
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn typescript_language_server_navigates_and_refactors() {
    let text = "export interface Shape { area(): number }\nexport class Square implements Shape { area() { return side(2); } }\n\
        export function side(n: number): number { return n; }\nconst shape: Shape = new Square();\nconsole.log(shape.area(), side(1 + 2));\n";
    let files = [
        ("package.json", "{}"),
        ("tsconfig.json", "{\"compilerOptions\": {\"strict\": true}}"),
        ("a.ts", text),
    ];
    let bench = real(&["typescript-language-server"], &files);
    let ask = Asked { bench: &bench, name: "a.ts", deadline: DEADLINE };
    let at = |word: &str| text.find(word).unwrap();
    let value = text.rfind("shape.area").unwrap();
    let types = ask.at(Navigate::TypeDefinition, value).await;
    assert_eq!(types, ["export interface Shape { area(): number }"]);
    let implementations = ask.at(Navigate::Implementation, at("Shape")).await;
    assert!(implementations[0].starts_with("export class Square"), "{implementations:?}");
    let callers = ask.callers(at("side(n")).await;
    assert!(callers.iter().any(|(name, _)| name == "area"), "{callers:?}");
    assert!(ask.signature(at("side(1") + 5).await.contains("n: number"));
    assert!(ask.completes(value + "shape.".len()).await.contains(&"area".to_owned()));
    // This refactoring is a command; its edit arrives while it runs.
    let selected = text.rfind("1 + 2").unwrap();
    let query = lsp_client::ActionQuery {
        range: selected..selected + 5,
        only: &["refactor.extract"],
        diagnostics: &[],
    };
    let doc = ask.doc();
    let offered = bench.pool.code_actions(&doc, &query, &cx(DEADLINE)).await.unwrap().value;
    let extract =
        offered.iter().find(|it| it.kind.starts_with("refactor.extract.constant")).expect("extract");
    let command = bench.pool.resolve_action(&doc, extract, &cx(DEADLINE)).await.unwrap().command.unwrap();
    let keeping = Keeping::default();
    let ran = bench.pool.run_command(&command, &keeping, &cx(DEADLINE)).await.unwrap().value;
    assert_eq!(ran.applied, 1, "{ran:?}");
    let outcome = bench.outcome(keeping.0.into_inner().remove(0));
    assert!(outcome[0].lines().any(|line| line.ends_with("= 1 + 2;")), "{outcome:?}");
    // The targets of a moved symbol, and the form in which the server receives them.
    let start = at("export function side");
    let query = lsp_client::ActionQuery { range: start..start, only: &["refactor.move"], diagnostics: &[] };
    let moves = bench.pool.code_actions(&doc, &query, &cx(DEADLINE)).await.unwrap().value;
    let kinds: Vec<&str> = moves.iter().map(|it| it.kind.as_str()).collect();
    assert!(kinds.iter().any(|kind| kind.starts_with("refactor.move")), "{kinds:?}");
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn rust_analyzer_navigates_and_fixes() {
    let text = "pub trait Shape {\n    fn area(&self) -> u8;\n}\npub struct Square;\nimpl Shape for Square {\n    fn area(&self) -> u8 {\n        side(2)\n    }\n}\n\
        pub fn side(n: u8) -> u8 {\n    let both = n;\n    both\n}\npub fn name(square: Square) {\n    let x = match square.area() {\n        0 => side(3),\n    };\n}\n";
    let files = [
        ("Cargo.toml", "[package]\nname = \"one\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        ("src/lib.rs", text),
    ];
    let bench = real(&["rust-analyzer"], &files);
    let deadline = Duration::from_secs(300);
    let ask = Asked { bench: &bench, name: "src/lib.rs", deadline };
    let at = |word: &str| text.find(word).unwrap();
    assert_eq!(ask.at(Navigate::Implementation, at("Shape")).await, ["impl Shape for Square {"]);
    let used = text.rfind("square.area").unwrap();
    assert_eq!(ask.at(Navigate::TypeDefinition, used).await, ["pub struct Square;"]);
    let callers = ask.callers(at("side(n")).await;
    assert!(callers.iter().any(|(name, line)| name == "area" && line == "side(2)"), "{callers:?}");
    assert!(ask.signature(text.rfind("side(3").unwrap() + 5).await.contains("n: u8"));
    assert_eq!(ask.highlights(at("both")).await, [11, 12]);
    let doc = ask.doc();
    let hints = bench.pool.inlay_hints(&doc, 0..text.len(), &cx(deadline)).await.unwrap().value;
    assert!(hints.iter().any(|it| it.label.contains("u8") && it.line == 11), "{hints:?}");
    // A snippet arrives as plain text.
    let query =
        lsp_client::ActionQuery { range: at("both")..at("both"), only: &["refactor"], diagnostics: &[] };
    let offered = bench.pool.code_actions(&doc, &query, &cx(deadline)).await.unwrap().value;
    let inline = offered.iter().find(|it| it.title.contains("Inline variable")).expect("inline variable");
    let edit = bench.pool.resolve_action(&doc, inline, &cx(deadline)).await.unwrap().edit.unwrap();
    assert!(bench.outcome(edit)[0].contains("pub fn side(n: u8) -> u8 {\n    n\n}"));
    let query = lsp_client::ActionQuery { range: at("0 =>")..at("0 =>"), only: &[], diagnostics: &[] };
    let offered = bench.pool.code_actions(&doc, &query, &cx(deadline)).await.unwrap().value;
    for action in offered.iter().filter(|it| it.disabled.is_none() && !it.is_command) {
        let resolved = bench.pool.resolve_action(&doc, action, &cx(deadline)).await.unwrap();
        let outcome = resolved.edit.map(|edit| bench.outcome(edit)).unwrap_or_default();
        assert!(
            !outcome.iter().any(|file| file.contains("$0") || file.contains("${")),
            "{}: {outcome:?}",
            action.title
        );
    }
    // The server is notified of changes by other programs to a file that only it watches.
    bench.write("rust-analyzer.toml", "");
    let event = serde_json::json!({"uri": bench.uri("rust-analyzer.toml"), "type": 1});
    let reported = |entry: &lsp_client::TrafficEntry| {
        let message: serde_json::Value = serde_json::from_str(&entry.body).unwrap_or_default();
        message["params"]["changes"].as_array().is_some_and(|events| events.contains(&event))
    };
    let started = std::time::Instant::now();
    while !bench.pool.logs(None).iter().any(|log| log.traffic.iter().any(reported)) {
        assert!(started.elapsed() < DEADLINE, "it is never logged");
        bench.pool.hover(&doc, at("side(n"), &cx(deadline)).await.unwrap();
    }
}
