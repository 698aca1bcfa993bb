//! Edits checked by real language servers.

use super::*;

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_real_server_previews_an_error_in_another_file() {
    let before = "def greet(name: str) -> str:\n    return name\n";
    let mut sandbox = Sandbox::with(&[
        ("pyproject.toml", "[project]\nname = \"x\"\nversion = \"0\"\n"),
        ("a.py", before),
        ("b.py", "from a import greet\n\nprint(greet(\"x\"))\n"),
    ]);
    sandbox.variables.insert("PILCROW_EDIT_WAIT".to_owned(), "60s".to_owned());
    sandbox.variables.insert("PILCROW_EDIT_VERIFY".to_owned(), "before".to_owned());
    sandbox.variables.insert("PILCROW_EDIT_VERIFY_POLICY".to_owned(), "no_new_errors".to_owned());
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &lsp("hover", "a.py", "greet")).ok();
    batch.call("read", &json!({"path": "a.py"})).ok();
    let text = "def greet(name: str, loud: bool) -> str:\n    return name + str(loud)\n";
    let edit = json!({"path": "a.py", "content": text, "overwrite": true});
    check_output(
        &batch.call("write", &edit).fails("not_applied"),
        &expect![[r#"
        not applied, nothing was written: it would bring new errors
        previewed before the edit:
        introduced: 1 error, 0 warnings
          b.py:3: error: Argument missing for parameter "loud" [reportCallIssue] (basedpyright)"#]],
    );
    assert_eq!(sandbox.read("a.py"), before);
    let text = "def greet(name: str, loud: bool = False) -> str:\n    return name + str(loud)\n";
    let edit = json!({"path": "a.py", "content": text, "overwrite": true});
    let answer = batch.call("write", &edit);
    let said = answer.ok();
    assert_eq!(answer.value["details"]["diagnostics"]["tried"]["introduced"], json!([]), "{said}");
    assert_eq!(sandbox.read("a.py"), text);
    let clean = json!({"action": "diagnostics", "file": "b.py", "timeout": 60});
    let said = batch.call("lsp", &clean).ok().to_owned();
    assert!(said.starts_with("0 errors"), "{said}");
}

/// Makes renames that break code which the server does not change.
///
/// The code is an override in tests, an object literal in another package, and a use in a macro.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn renames_that_break_code_are_never_called_clean() {
    const PYTHON: &[(&str, &str)] = &[
        ("pyproject.toml", "[project]\nname = \"x\"\nversion = \"0\"\n"),
        (
            "models.py",
            "from abc import ABC, abstractmethod\n\n\nclass Model(ABC):\n    @abstractmethod\n    def request(self) -> int: ...\n",
        ),
        (
            "tests/test_models.py",
            "from models import Model\n\n\nclass Fake(Model):\n    def request(self) -> int:\n        return 1\n\n\nFake()\n",
        ),
    ];
    const TYPESCRIPT: &[(&str, &str)] = &[
        ("tsconfig.json", "{\"compilerOptions\": {\"strict\": true}}\n"),
        (
            "core/tool.ts",
            "export interface Tool { label: string }\nexport function add(tool: Tool) { return tool.label; }\n",
        ),
        (
            "app/tools.ts",
            "import { add } from '../core/tool';\nconst makers = [(label: string) => ({ label })];\nfor (const make of makers) add(make('x'));\n",
        ),
    ];
    const C: &[(&str, &str)] = &[
        ("compile_flags.txt", "-std=c11\n"),
        ("server.h", "struct object { int refcount; };\n#define retain(o) ((o)->refcount++)\n"),
        ("a.c", "#include \"server.h\"\nvoid use(struct object *o) { retain(o); o->refcount = 2; }\n"),
    ];
    for (files, file, symbol, broken) in [
        (PYTHON, "models.py", "Model.request", &["tests/test_models.py:4", "tests/test_models.py:9"][..]),
        (TYPESCRIPT, "core/tool.ts", "Tool.label", &["app/tools.ts:3"]),
        (C, "server.h", "refcount#1", &["a.c:2"]),
    ] {
        let sandbox = Sandbox::with(files);
        let mut ask = json!({"action": "rename", "file": file, "symbol": symbol, "new_name": "renamed", "timeout": 120});
        if file == "server.h" {
            ask["line"] = json!(1);
        }
        let ran = sandbox.run(&["tool", "--yes", "--json", "--wait", "100s", "lsp", &ask.to_string()]);
        let answer: Value = serde_json::from_str(&ran.stdout).expect("one answer");
        let introduced =
            answer["details"]["diagnostics"]["introduced"].as_array().cloned().unwrap_or_default();
        let errors = introduced.iter().filter(|it| it["severity"] == "error");
        let places: Vec<String> =
            errors.map(|it| format!("{}:{}", it["path"].as_str().unwrap_or_default(), it["line"])).collect();
        assert_eq!(places, broken, "{ran:?}");
        assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    }
}

/// rust-analyzer itself finds no error here; Cargo finds those of the first rename.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_one_shot_rename_in_rust_is_compiled() {
    let sandbox = Sandbox::with(&[
        ("Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        ("Cargo.lock", "version = 4\n\n[[package]]\nname = \"x\"\nversion = \"0.1.0\"\n"),
        (
            "src/lib.rs",
            "mod a;\n\npub trait Shape {\n    fn area(&self) -> u8;\n}\n\nmacro_rules! area {\n    ($it:expr) => {\n        $it.area()\n    };\n}\n\npub fn total(it: &dyn Shape) -> u8 {\n    area!(it) + a::three()\n}\n",
        ),
        ("src/a.rs", "pub fn three() -> u8 {\n    3\n}\n"),
    ]);
    let run = |args: &[&str]| {
        let ran = sandbox.run(args);
        format!("exit status {:?}\n{}{}", ran.status.code(), ran.stdout, ran.stderr)
    };
    let said = run(&["rename", "Shape.area", "surface", "--in", "src/lib.rs", "--yes", "--wait", "100s"]);
    check_output(
        &said,
        &expect![[r#"
        exit status Some(1)
        rename area to surface: 1 place in 1 file (rust-analyzer)
          src/lib.rs: 1
        note: rust-analyzer knows no definition for these, which may be uses of it: src/lib.rs:9
        3 other occurrences of `area` left unchanged (comments, strings, other symbols).
          in changed files: src/lib.rs:7, src/lib.rs:9, src/lib.rs:14
        introduced: 1 error, 0 warnings
          src/lib.rs:9: error: no method named `area` found for reference `&dyn Shape` in the current scope
            method not found in `&dyn Shape` [E0599] (rustc)
        pilcrow: the edit introduced errors; `pilcrow undo` reverts it
    "#]],
    );
    run(&["undo"]);
    let said = run(&["rename", "three", "tria", "--yes", "--wait", "100s"]);
    check_output(
        &said,
        &expect![[r#"
        exit status Some(0)
        rename three to tria: 2 places in 2 files (rust-analyzer)
          src/a.rs: 1
          src/lib.rs: 1
        No new problems (2 changed files checked).
    "#]],
    );
    // Without the time for it, the result says what is not known.
    let said = run(&["rename", "tria", "three", "--yes", "--wait", "10ms"]);
    check_output(
        &said,
        &expect![[r#"
        exit status Some(0)
        rename tria to three: 2 places in 2 files (rust-analyzer)
          src/a.rs: 1
          src/lib.rs: 1
        not checked yet by rust-analyzer: it has not reported on 2 files
        omitted: clippy and rustc, which rust-analyzer runs on request: `lsp diagnostics`
    "#]],
    );
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn new_and_fixed_errors_in_unopened_files_are_reported() {
    let before = "def greet(name: str) -> str:\n    return name\n";
    let after = "def greet(name: str, loud: bool) -> str:\n    return name\n";
    let mut sandbox = Sandbox::with(&[
        ("pyproject.toml", "[project]\nname = \"x\"\nversion = \"0\"\n"),
        ("a.py", before),
        ("b.py", "from a import greet\n\nprint(greet(\"x\"))\n"),
    ]);
    sandbox.variables.insert("PILCROW_EDIT_WAIT".to_owned(), "60s".to_owned());
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "diagnostics", "timeout": 120})).ok();
    let said = replace(&mut batch, "a.py", after);
    assert!(said.contains("introduced: ") && said.contains("b.py:3: error:"), "{said}");
    assert_eq!(said.matches(": error:").count(), 1, "{said}");
    assert!(said.contains("basedpyright"), "{said}");
    let said = replace(&mut batch, "a.py", before);
    assert!(!said.contains("introduced: ") && !said.contains("pending"), "{said}");
    let is_fixed = said.lines().any(|line| line.trim_start().starts_with("b.py:3: error:"));
    assert!(is_fixed && said.contains("fixed: "), "{said}");
    drop(batch);
    sandbox.mark().none_left(Duration::from_secs(10));
}
