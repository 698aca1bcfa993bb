//! Servers whose definition has `checks_new_files`.
//!
//! They report the same of a file before and after it is created. Other servers do not receive it,
//! and the result reports that.

use std::time::{Duration, Instant};

use serde_json::json;
use tests::{Batch, Sandbox};

use super::lab::give;

struct New {
    programs: &'static [&'static str],
    files: &'static [(&'static str, &'static str)],
    /// A file that makes the server start, and a name in it.
    known: (&'static str, &'static str),
    /// The new file, a text with an error, the error's message, and a text without.
    file: &'static str,
    wrong: (&'static str, &'static str),
    right: &'static str,
}

#[track_caller]
fn check(new: &New) {
    let mut sandbox = Sandbox::with(new.files);
    give(&mut sandbox, new.programs);
    sandbox.variables.insert("PILCROW_EDIT_WAIT".to_owned(), "60s".to_owned());
    sandbox.variables.insert("PILCROW_EDIT_VERIFY".to_owned(), "before".to_owned());
    sandbox.variables.insert("PILCROW_EDIT_VERIFY_POLICY".to_owned(), "no_new_errors".to_owned());
    let mut batch = Batch::start(&sandbox);
    let (file, symbol) = new.known;
    batch.call("lsp", &json!({"action": "hover", "file": file, "symbol": symbol, "timeout": 120}));
    batch.call("lsp", &json!({"action": "diagnostics", "file": file, "timeout": 120})).ok();
    let mut write = |text: &str| {
        // A preview has five seconds, which may be too short on a busy machine. Then the file is
        // created without it.
        let started = Instant::now();
        loop {
            let answer = batch.call("write", &json!({"path": new.file, "content": text}));
            let said = answer.text();
            let in_vain = said.contains("in time")
                || said.contains("not known before or after")
                || said.contains("text moved")
                || said.contains("busy");
            if !in_vain || started.elapsed() > Duration::from_secs(90) {
                return answer;
            }
            std::fs::remove_file(sandbox.project().join(new.file)).expect("the file was created");
        }
    };
    let (text, error) = new.wrong;
    let refused = write(text);
    let said = refused.fails("not_applied");
    assert!(said.contains(error), "{said}");
    let answer = write(new.right);
    let said = answer.ok();
    assert_eq!(answer.value["details"]["diagnostics"]["tried"]["introduced"], json!([]), "{said}");
    assert_eq!(answer.value["details"]["diagnostics"]["introduced"], json!([]), "{said}");
}

const PYTHON: &[(&str, &str)] = &[
    ("pyproject.toml", "[project]\nname = \"x\"\nversion = \"0\"\n"),
    ("a.py", "def greet(name: str) -> str:\n    return name\n"),
];

fn python(programs: &'static [&'static str]) -> New {
    New {
        programs,
        files: PYTHON,
        known: ("a.py", "greet"),
        file: "fresh.py",
        wrong: ("from a import greet\n\nprint(greet(1))\n", "fresh.py:3: error:"),
        right: "from a import greet\n\nprint(greet(\"x\"))\n",
    }
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn basedpyright_previews_new_files() {
    check(&python(&["basedpyright-langserver"]));
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn pyright_previews_new_files() {
    check(&python(&["pyright-langserver"]));
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn ty_previews_new_files() {
    check(&python(&["ty"]));
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn ruff_previews_new_files() {
    let new = New { wrong: ("print(nothing)\n", "Undefined name"), right: "print(1)\n", ..python(&["ruff"]) };
    check(&new);
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn clangd_previews_new_files() {
    let new = New {
        programs: &["clangd"],
        files: &[
            ("compile_flags.txt", "-xc\n"),
            ("a.h", "int greet(int name);\n"),
            ("a.c", "#include \"a.h\"\nint greet(int name) { return name; }\n"),
        ],
        known: ("a.c", "greet"),
        file: "fresh.c",
        wrong: ("#include \"a.h\"\nint fresh(void) { return greet(); }\n", "fresh.c:2: error:"),
        right: "#include \"a.h\"\nint fresh(void) { return greet(1); }\n",
    };
    check(&new);
}
