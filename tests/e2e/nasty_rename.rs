//! A rename with a real server on the known hazards.
//!
//! These are an alias import, a method of the same name, the name in strings and comments,
//! characters outside the basic plane before it on the line, CRLF, a byte order mark, a path with a
//! space, and no final line ending. The expected texts are written by hand, byte for byte.

use expect_test::expect;
use serde_json::json;
use tests::{Sandbox, check_output};

/// Path, bytes before, and bytes after.
const FILES: &[(&str, &str, &str)] = &[
    (
        "pyproject.toml",
        "[project]\nname = \"nasty\"\nversion = \"0\"\n",
        "[project]\nname = \"nasty\"\nversion = \"0\"\n",
    ),
    ("notes.md", "greet is said here too\n", "greet is said here too\n"),
    ("app/__init__.py", "", ""),
    (
        "app/names.py",
        "\"\"\"Where greet lives.\"\"\"\n\n\ndef greet(name: str) -> str:\n    \"\"\"greet a user; the word greet stays.\"\"\"\n    # greet is in a comment too\n    return \"greet \" + name\n\n\nclass Machine:\n    def greet(self) -> str:\n        return \"beep\"\n",
        "\"\"\"Where greet lives.\"\"\"\n\n\ndef welcome(name: str) -> str:\n    \"\"\"greet a user; the word greet stays.\"\"\"\n    # greet is in a comment too\n    return \"greet \" + name\n\n\nclass Machine:\n    def greet(self) -> str:\n        return \"beep\"\n",
    ),
    (
        "app/alias.py",
        "from app.names import greet as hello\n\nprint(hello(\"x\"))\n",
        "from app.names import welcome as hello\n\nprint(hello(\"x\"))\n",
    ),
    (
        "app/crlf.py",
        "from app.names import Machine, greet\r\n\r\n\r\ndef main() -> None:\r\n    print(greet(\"a\"), Machine().greet())\r\n",
        "from app.names import Machine, welcome\r\n\r\n\r\ndef main() -> None:\r\n    print(welcome(\"a\"), Machine().greet())\r\n",
    ),
    (
        "app/bom.py",
        "\u{feff}from app.names import greet\n\nVALUE = greet(\"bom\")\n",
        "\u{feff}from app.names import welcome\n\nVALUE = welcome(\"bom\")\n",
    ),
    (
        "app/astral.py",
        "from app import names\n\nTEXT = \"\u{1d53e}\u{1f600}\", names.greet(\"\u{1d11e}\"), \"greet\"\nPAIR = (\"\u{1f600}\u{1f600}\", names.greet(\"x\"), names.greet(\"y\"))\n",
        "from app import names\n\nTEXT = \"\u{1d53e}\u{1f600}\", names.welcome(\"\u{1d11e}\"), \"greet\"\nPAIR = (\"\u{1f600}\u{1f600}\", names.welcome(\"x\"), names.welcome(\"y\"))\n",
    ),
    (
        "sub folder/uses it.py",
        "from app.names import greet\n\ngreet(\"space\")",
        "from app.names import welcome\n\nwelcome(\"space\")",
    ),
];

fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    for (path, before, _) in FILES {
        sandbox.write(path, before);
    }
    sandbox
}

#[track_caller]
fn holds(sandbox: &Sandbox, which: impl Fn(&(&str, &str, &str)) -> String) {
    for file in FILES {
        assert_eq!(sandbox.read(file.0), which(file), "{}", file.0);
    }
    let files = sandbox.tree().keys().filter(|path| !path.ends_with('/')).count();
    assert_eq!(files, FILES.len(), "{:?}", sandbox.tree().keys());
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_rename_changes_exactly_the_symbol() {
    let sandbox = project();
    let start = sandbox.tree();
    let prompt = "rename greet to welcome in app/names.py:4";
    sandbox.run(&["run", prompt, "--yes", "--model", "planner"]).expect(0);
    holds(&sandbox, |(_, _, after)| (*after).to_owned());

    sandbox.run(&["undo"]).expect(0);
    assert_eq!(sandbox.tree(), start, "undo did not restore every byte");

    sandbox.run(&["redo"]).expect(0);
    holds(&sandbox, |(_, _, after)| (*after).to_owned());
    sandbox.mark().none_left(std::time::Duration::from_secs(10));
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_method_of_the_same_name_is_another_symbol() {
    let sandbox = project();
    let rename = |symbol: &str, new_name: &str| {
        sandbox.tool(
            "lsp",
            &json!({"action": "rename", "file": "app/names.py", "symbol": symbol, "new_name": new_name}),
        )
    };
    rename("Machine.greet", "beep").ok();
    holds(&sandbox, |(path, before, _)| match *path {
        "app/names.py" => before.replace("def greet(self)", "def beep(self)"),
        "app/crlf.py" => before.replace("Machine().greet()", "Machine().beep()"),
        _ => (*before).to_owned(),
    });
    let start = sandbox.tree();
    rename("no_such_name", "x").fails("not_found");
    rename("Machine", "class").fails("invalid_arguments");
    assert_eq!(sandbox.tree(), start);
    // The new name exists already in the file: the rename is made as requested, and reported.
    let clash = rename("Machine", "greet").ok();
    assert!(clash.contains("`greet`") && clash.contains("app/names.py:4"), "{clash}");
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn renaming_an_override_mentions_the_overridden_method() {
    let base = "class Base:\n    def send(self, x: int) -> int:\n        return x\n\n    def go(self) -> int:\n        return self.send(1)\n\n\nclass Lone:\n    def send(self) -> None:\n        pass\n";
    let child = "from base import Base\n\n\nclass Child(Base):\n    def send(self, x: int) -> int:\n        return x + 1\n";
    let sandbox = Sandbox::with(&[("pyproject.toml", ""), ("base.py", base), ("child.py", child)]);
    let ask = json!({"action": "callers", "symbol": "Child.send", "timeout": 100});
    let said = sandbox.tool("lsp", &ask).ok();
    for part in ["Base.send", "(base.py:2)", "base.py:6"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let ask = json!({"action": "rename", "symbol": "Child.send", "new_name": "post", "timeout": 100});
    let said = sandbox.tool("lsp", &ask).ok();
    assert!(
        said.contains(
            "NOT renamed with it: the methods that it overrides, Base.send (base.py:2); 1 use of these, base.py:6;"
        ),
        "{said}"
    );
    assert!(!said.contains("Lone"), "{said}");
    assert_eq!(sandbox.read("child.py"), child.replace("send", "post"));
    assert_eq!(sandbox.read("base.py"), base);
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_file_outside_every_crate_is_reported_unchecked() {
    let sandbox = Sandbox::with(&[
        (
            "Cargo.toml",
            "[package]\nname = \"parts\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[features]\nextra = []\n",
        ),
        ("src/lib.rs", "pub struct Kind;\n\n#[cfg(feature = \"extra\")]\nmod extra;\n"),
        ("src/extra.rs", "pub fn make() -> crate::Kind {\n    crate::Kind\n}\n"),
    ]);
    let said =
        sandbox.tool("lsp", &json!({"action": "diagnostics", "file": "src/extra.rs", "timeout": 100})).ok();
    check_output(
        said.lines().next().unwrap_or_default(),
        &expect!["0 errors, 0 warnings, 1 hint in 1 file without clippy and rustc (rust-analyzer)"],
    );
    let ask = json!({"action": "rename", "file": "src/lib.rs", "symbol": "Kind", "new_name": "Sort", "timeout": 100});
    let answer = sandbox.tool("lsp", &ask);
    let missing = &answer.value["details"]["diagnostics"]["missing"];
    assert_eq!(*missing, json!({"rust-analyzer": ["src/extra.rs"]}), "{}", answer.ok());
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn every_use_is_found() {
    let sandbox = project();
    let found = sandbox
        .tool("lsp", &json!({"action": "references", "file": "app/names.py", "symbol": "greet", "line": 4}));
    let said = found.ok();
    for path in [
        "app/names.py",
        "app/alias.py",
        "app/crlf.py",
        "app/bom.py",
        "app/astral.py",
        "sub folder/uses it.py",
    ] {
        assert!(said.contains(path), "{path} is missing in: {said}");
    }
    assert!(!said.contains("notes.md"), "{said}");
}
