//! Edits of real servers through the command line, and their undo. Slow.
//!
//! `languages` tests each server.

use expect_test::expect;
use serde_json::json;
use tests::editor::uri;
use tests::{Batch, Editor, Sandbox, check_output, line_with};

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn ruff_formats_undoably() {
    let ugly = "import sys\nimport os\nprint( sys.argv,os.name )\n";
    let sandbox =
        Sandbox::with(&[("pyproject.toml", "[project]\nname = \"x\"\nversion = \"0\"\n"), ("a.py", ugly)]);
    sandbox.tool("lsp", &json!({"action": "format", "file": "a.py"})).ok();
    assert_eq!(sandbox.read("a.py"), "import sys\nimport os\n\nprint(sys.argv, os.name)\n");
    sandbox.run(&["undo"]).expect(0);
    assert_eq!(sandbox.read("a.py"), ugly);
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn typescript_moves_a_symbol_to_a_new_file_undoably() {
    let main = "import { callee } from './other';\n\nconsole.log(callee());\n";
    let other = "export const rest = 1;\n\nexport function callee(): number {\n  return 7;\n}\n";
    let sandbox = Sandbox::with(&[("tsconfig.json", "{}\n"), ("main.ts", main), ("other.ts", other)]);
    let ask = json!({"action": "move_symbol", "file": "other.ts", "symbol": "callee", "timeout": 180});
    let mut named = ask.clone();
    named["to"] = json!("main.ts");
    sandbox.tool("lsp", &named).fails("unsupported");
    let said = sandbox.tool("lsp", &ask).ok();
    assert!(said.contains("callee.ts"), "{said}");
    assert!(sandbox.read("callee.ts").contains("export function callee(): number {"), "{said}");
    let import = sandbox.read("main.ts").lines().next().unwrap_or_default().replace('"', "'");
    assert_eq!(import, "import { callee } from './callee';", "{said}");
    assert!(!sandbox.read("other.ts").contains("callee"), "{said}");
    sandbox.run(&["undo"]).expect(0);
    assert_eq!((sandbox.read("main.ts").as_str(), sandbox.read("other.ts").as_str()), (main, other));
    // The server makes the empty file itself before it sends its edit (5.3.0).
    assert!(!sandbox.project().join("callee.ts").exists(), "undo removes the file that the server created");
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn ruff_fixes_a_rule_and_leaves_unsafe_fixes() {
    let text = "import os\nimport sys\nimport json\n\nx = sys.argv\nprint(undefined_name, f'no holes')\n";
    let sandbox =
        Sandbox::with(&[("pyproject.toml", "[project]\nname = \"x\"\nversion = \"0\"\n"), ("a.py", text)]);
    let said = sandbox.run(&["run", "fix all F401 in a.py", "--yes"]).expect(0).stdout;
    check_output(line_with(&said, "fix all"), &expect!["fix all of F401: fixed 2, left 0, reverted 0"]);
    assert_eq!(sandbox.read("a.py"), text.replace("import os\n", "").replace("import json\n", ""));
    let answer = sandbox.tool("lsp", &json!({"action": "fix_all", "file": "a.py", "timeout": 120}));
    let said = answer.ok();
    assert!(sandbox.read("a.py").contains("'no holes'") && !sandbox.read("a.py").contains("f'no"), "{said}");
    assert!(said.contains("undefined_name"), "what is left is named: {said}");
    assert!(answer.value["details"]["left"].as_u64() >= Some(1), "{said}");
    assert!(!sandbox.read("a.py").contains("noqa"));
}

/// Keeps a name that crosses a program's boundary when a variable is renamed.
///
/// The reverse holds too.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn typescript_renames_the_chosen_side_of_a_shorthand() {
    let sandbox = Sandbox::with(&[
        ("package.json", "{\"type\": \"module\"}\n"),
        ("tsconfig.json", "{\"compilerOptions\": {\"strict\": true, \"allowJs\": true}}\n"),
        ("a.js", "export const total = 3;\n"),
        ("c.js", "import { total } from \"./a.js\";\nconsole.log(JSON.stringify({ total }));\n"),
        (
            "b.ts",
            "interface Opts {\n  size: number;\n}\nfunction area(opts: Opts): number {\n  \
             return opts.size;\n}\nconst size = 1;\nexport const made = area({ size });\n",
        ),
    ]);
    let rename = |file: &str, symbol: &str, to: &str| {
        let ask = json!({"action": "rename", "file": file, "symbol": symbol, "new_name": to, "timeout": 180});
        sandbox.tool("lsp", &ask).ok().to_owned()
    };
    let said = rename("a.js", "total", "sum");
    let c = "import { sum } from \"./a.js\";\nconsole.log(JSON.stringify({ total: sum }));\n";
    assert_eq!(sandbox.read("c.js"), c, "{said}");
    let said = rename("b.ts", "Opts.size", "extent");
    let b = "interface Opts {\n  extent: number;\n}\nfunction area(opts: Opts): number {\n  \
        return opts.extent;\n}\nconst size = 1;\nexport const made = area({ extent: size });\n";
    assert_eq!(sandbox.read("b.ts"), b, "{said}");
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn python_is_renamed_in_unsaved_documents() {
    let (a, uses) = ("def greet(): ...\n", "from a import greet\n\ngreet()\n");
    let sandbox = Sandbox::with(&[
        ("pyproject.toml", "[project]\nname = \"x\"\nversion = \"0\"\n"),
        ("a.py", a),
        ("gone.py", uses),
    ]);
    let mut editor = Editor::start_with(&sandbox, |params| {
        params["initializationOptions"] = json!({"pilcrow": {"trusted": true}});
    });
    let [first, gone, new] = ["a.py", "gone.py", "new.py"].map(|name| uri(&sandbox, name));
    editor.open(&first, "python", a);
    // A file that disappears after its document was opened is another case: that document stays
    // open.
    std::fs::remove_file(sandbox.project().join("gone.py")).unwrap();
    editor.open(&gone, "python", uses);
    editor.open(&new, "python", uses);
    let position = json!({"line": 0, "character": 6});
    let rename = json!({"kind": "rename", "uri": first, "position": position, "new_name": "welcome"});
    let session = editor.run("pilcrow.refactor", rename);
    let end = editor.ended(&session);
    assert_eq!(end, "done", "{}", sandbox.run(&["sessions", "show"]).stdout);
    for (uri, text) in [(&first, a), (&gone, uses), (&new, uses)] {
        assert_eq!(editor.text(uri), text.replace("greet", "welcome"), "{uri}");
    }
    assert!(!sandbox.tree().contains_key("new.py") && !sandbox.tree().contains_key("gone.py"));
    editor.shut_down();
}

/// Reports an error by `lsp diagnostics` that only Cargo finds.
///
/// An edit reports that it was not checked.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn rust_analyzer_runs_cargo_check() {
    let sandbox = Sandbox::with(&[
        ("Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.0.0\"\nedition = \"2021\"\n"),
        ("src/lib.rs", "pub fn twice(text: String) {\n    drop(text);\n}\n"),
        ("src/main.rs", "fn main() {\n    x::twice(String::new());\n}\n"),
    ]);
    let mut batch = Batch::start(&sandbox);
    // The server loads for minutes on a busy machine.
    let ask = json!({"action": "diagnostics", "file": "src/lib.rs", "timeout": 60});
    let known =
        |answer: &tests::Answer| answer.value["details"]["pending"].as_array().is_some_and(Vec::is_empty);
    let first = (0..10).map(|_| batch.call("lsp", &ask)).find(known).expect("it loads");
    // Cargo wrote the missing lock file, and its result counts.
    let said = first.ok().to_owned();
    assert!(said.starts_with("0 errors") && !said.contains("omitted: "), "{said}");
    assert!(sandbox.tree().contains_key("Cargo.lock"));
    let patch = batch.view("src/lib.rs").put("    drop(text);", "    drop((text, text));");
    let answer = batch.edit(&patch);
    let said = answer.ok();
    check_output(
        line_with(&said, "omitted: "),
        &expect!["omitted: clippy and rustc, which rust-analyzer runs on request: `lsp diagnostics`"],
    );
    assert_eq!(answer.value["details"]["diagnostics"]["on_save"], json!(["clippy", "rustc"]), "{said}");
    let said = batch.call("lsp", &ask).ok().to_owned();
    assert!(said.starts_with("1 error") && said.contains("E0382") && !said.contains("left out"), "{said}");
    // Cargo reports nothing about the dependents of the broken file.
    let main = json!({"action": "diagnostics", "file": "src/main.rs", "timeout": 60});
    let said = batch.call("lsp", &main).ok().to_owned();
    check_output(
        &said,
        &expect![[r#"
        0 errors, 0 warnings, 0 hints in 1 file without clippy and rustc (rust-analyzer)
        note: src/main.rs: rust-analyzer may not have checked all saved files, because of errors in src/lib.rs
        omitted: clippy and rustc, which rust-analyzer cannot give now
    "#]],
    );
    // If Cargo cannot read a project, its diagnostics are unknown.
    sandbox.write("Cargo.toml", "[package]\nname = \"x\"\n[dependencies]\ny = { path = \"../y\" }\n");
    let said = batch.call("lsp", &ask).ok().to_owned();
    check_output(
        line_with(&said, "omitted: "),
        &expect!["omitted: clippy and rustc, which rust-analyzer cannot give now"],
    );
    batch.end();
}
