//! Every action of the tool `lsp` on real servers without any setup. Slow.
//!
//! The servers are found by the project's files and started by the first request. `languages` tests
//! each server.

use std::collections::BTreeSet;

use expect_test::expect;
use serde_json::{Value, json};
use tests::{Answer, Batch, Sandbox, check_output, line_with};

use crate::languages::lab::give;

const FILES: &[(&str, &str)] = &[
    ("pyproject.toml", "[project]\nname = \"shapes\"\nversion = \"0\"\n"),
    (
        "shapes.py",
        "class Shape:\n    def area(self) -> int:\n        raise NotImplementedError\n\n\n\
         class Square(Shape):\n    def __init__(self, side: int) -> None:\n        self.side = side\n\n\
         \x20   def area(self) -> int:\n        return self.side * self.side\n\n\n\
         def total(shapes: list[Shape]) -> int:\n    \"\"\"The sum of all areas.\"\"\"\n    return sum(shape.area() for shape in shapes)\n",
    ),
    (
        "main.py",
        "from shapes import Square, total\n\n\ndef run() -> int:\n    first = Square(2)\n    return total([first]) + total([])\n\n\nprint(run())\n",
    ),
    ("other.py", "import sys\nimport os\n\nx = total(1)\n"),
    ("unsorted.py", "import sys\nimport os\n\nprint(sys.argv,   os.name)\n"),
    ("tsconfig.json", "{\"compilerOptions\": {\"strict\": true}}\n"),
    (
        "web.ts",
        "export interface Shape {\n  area(): number;\n}\n\nexport class Square implements Shape {\n  area(): number {\n    return 4;\n  }\n}\n\n\
         export function unused(a: number) {\n  return a;\n}\n",
    ),
    ("use.ts", "import { Square } from './web';\n\nexport const n = new Square().area();\n"),
    ("compile_flags.txt", "-xc++\n"),
    (
        "a.cpp",
        "struct Shape {\n  virtual int area() = 0;\n};\n\nstruct Square : Shape {\n  int side;\n  int area() override { return side * side; }\n};\n\n\
         int twice(int n) {\n  if (n > 1) { return 2 * n; } else { return n; }\n}\n\nint   ugly( int n ) { return n; }\n",
    ),
];

struct Asker {
    batch: Batch,
    /// The requested actions.
    asked: BTreeSet<String>,
}

impl Asker {
    fn ask(&mut self, mut arguments: Value) -> Answer {
        self.asked.insert(arguments["action"].as_str().expect("an action").to_owned());
        arguments["timeout"] = json!(100);
        self.batch.call("lsp", &arguments)
    }

    /// Asserts that the answer contains all of these.
    #[track_caller]
    fn holds(&mut self, arguments: Value, parts: &[&str]) {
        let answer = self.ask(arguments.clone());
        let said = answer.ok();
        for part in parts {
            assert!(said.contains(part), "{arguments}: {part:?} is missing in: {said}");
        }
    }

    /// Asserts that the call is refused with this code and all of these texts.
    #[track_caller]
    fn refused(&mut self, arguments: Value, code: &str, parts: &[&str]) {
        let said = self.ask(arguments).fails(code);
        for part in parts {
            assert!(said.contains(part), "{part:?} is missing in: {said}");
        }
    }
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn every_action_works_without_server_setup() {
    let mut sandbox = Sandbox::with(FILES);
    give(&mut sandbox, &["basedpyright-langserver", "ruff", "typescript-language-server", "tsc", "clangd"]);
    let mut asker = Asker { batch: Batch::start(&sandbox), asked: BTreeSet::new() };
    look(&mut asker);
    servers(&mut asker);
    actions(&mut asker, &sandbox);
    edits(&mut asker, &sandbox);
    // An unknown action is refused with the list of all.
    let refused = asker.batch.call("lsp", &json!({"action": "?"})).text();
    let listed = refused.split("known: ").nth(1).and_then(|rest| rest.lines().next()).unwrap_or_default();
    let listed: BTreeSet<String> = listed.split(", ").map(str::to_owned).collect();
    let asked: BTreeSet<String> = asker.asked.iter().map(ToString::to_string).collect();
    assert_eq!(listed, asked, "not asked of a real server: {refused}");
    asker.batch.end();
    sandbox.mark().none_left(std::time::Duration::from_secs(10));
}

fn look(asker: &mut Asker) {
    asker.holds(
        json!({"action": "diagnostics", "file": "*.py"}),
        &["in 4 files (basedpyright, ruff)", "other.py:4: error: Undefined name `total` [F821]"],
    );
    asker.holds(json!({"action": "diagnostics", "file": "use.ts"}), &["0 errors", "in 1 file"]);
    asker
        .holds(json!({"action": "diagnostics"}), &["basedpyright, clangd, ruff, typescript-language-server"]);
    // The call has several symbols, by their name paths.
    asker.holds(
        json!({"action": "definition", "symbols": ["Square.area", "total"], "file": "shapes.py"}),
        &["\t    def area(self) -> int:\n", "\tdef total(shapes"],
    );
    asker.refused(
        json!({"action": "references", "symbol": "area"}),
        "ambiguous",
        &["`area` is ambiguous", "a.cpp:7:", "shapes.py:2:", "shapes.py:10:", "web.ts:2:"],
    );
    let second = json!({"action": "declaration", "file": "main.py", "line": 6, "symbol": "total#2"});
    asker.holds(second, &["declaration of `total`: 1 place (basedpyright)", "def total(shapes"]);
    asker.refused(
        json!({"action": "definition", "file": "main.py", "line": 6, "symbol": "total"}),
        "ambiguous",
        &["`total#1` to `total#2`"],
    );
    asker.holds(
        json!({"action": "type_definition", "file": "main.py", "line": 6, "symbol": "first"}),
        &["\tclass Square(Shape):"],
    );
    asker.holds(
        json!({"action": "implementation", "file": "web.ts", "symbol": "Shape.area"}),
        &["1 place (typescript-language-server)", "6", "\t  area(): number {"],
    );
    asker.holds(
        json!({"action": "references", "symbol": "total", "file": "shapes.py"}),
        &["4 places", "[main.py#", "[shapes.py#"],
    );
    asker.holds(json!({"action": "hover", "symbol": "total"}), &["The sum of all areas."]);
    asker.holds(
        json!({"action": "signature", "file": "main.py", "line": 6, "column": 18}),
        &["(shapes: list[Shape]) -> int", "at: shapes: list[Shape]"],
    );
    asker.holds(
        json!({"action": "symbols", "file": "shapes.py"}),
        &["class Square", "  method area", "function total"],
    );
    asker.holds(json!({"action": "symbols", "query": "total"}), &["shapes.py:14: function total"]);
    asker.holds(
        json!({"action": "callers", "symbol": "total", "file": "shapes.py"}),
        &["1 function with 2 calls (basedpyright)", "[main.py#", "in run:\n"],
    );
    asker.holds(
        json!({"action": "callees", "symbol": "run", "file": "main.py"}),
        &["2 functions with 3 calls", "shapes.py:14: function total"],
    );
    asker.holds(
        json!({"action": "supertypes", "symbol": "Square", "file": "a.cpp"}),
        &["a.cpp:1: struct Shape"],
    );
    asker.holds(
        json!({"action": "subtypes", "symbol": "Shape", "file": "a.cpp"}),
        &["a.cpp:5: struct Square"],
    );
    asker.holds(
        json!({"action": "highlights", "file": "main.py", "line": 5, "symbol": "first"}),
        &["2 places", "write on 5", "read on 6"],
    );
    asker.holds(
        json!({"action": "inlay_hints", "file": "main.py", "range": "4-6"}),
        &["5: first⟨: Square⟩ = Square(⟨side=⟩2)"],
    );
    asker.holds(
        json!({"action": "completion", "file": "main.py", "line": 6, "column": 13, "query": "tot"}),
        &["function total\n"],
    );
}

fn servers(asker: &mut Asker) {
    asker.holds(json!({"action": "status"}), &["basedpyright for .: running", "clangd for .: running"]);
    asker.holds(
        json!({"action": "capabilities", "server": "clangd"}),
        &["type hierarchy", "clangd.applyTweak"],
    );
    asker.holds(json!({"action": "logs", "server": "ruff"}), &["ruff for .", "textDocument/didOpen"]);
    asker.holds(
        json!({"action": "reload", "server": "ruff"}),
        &["restarted: ruff\n", "clangd for .: running"],
    );
    asker.refused(
        json!({"action": "request", "method": "textDocument/foldingRange", "file": "main.py"}),
        "ambiguous",
        &["ruff, basedpyright"],
    );
    let ask = json!({"action": "request", "method": "textDocument/foldingRange", "file": "a.cpp"});
    asker.holds(ask, &["textDocument/foldingRange (clangd)", "\"startLine\""]);
}

/// Lists code actions at a line, over a range, by kind.
///
/// Applies by title one whose edit has to be resolved, and one that is a command of the server.
fn actions(asker: &mut Asker, sandbox: &Sandbox) {
    asker.holds(
        json!({"action": "code_actions", "file": "other.py", "line": 2}),
        &["quickfix: Ruff (F401): Remove unused import: `os` (preferred)", "source.organizeImports.ruff"],
    );
    let quick = asker
        .ask(json!({"action": "code_actions", "file": "other.py", "range": "1-4", "kind": "quickfix"}))
        .ok()
        .to_owned();
    assert!(quick.contains("`sys`") && quick.contains("`os`") && !quick.contains("source."), "{quick}");
    let ask = json!({"action": "code_actions", "file": "other.py", "title": "Remove unused import: `os`", "apply": true});
    asker.holds(ask, &["+0 -1 lines in 1 file (ruff)", "fixed: "]);
    assert_eq!(sandbox.read("other.py"), "import sys\n\nx = total(1)\n");
    // The edit replaces lines of a file, and no others.
    asker.holds(json!({"action": "format", "file": "a.cpp", "range": "14-14"}), &["a.cpp: changed"]);
    assert!(sandbox.read("a.cpp").ends_with("\nint ugly(int n) { return n; }\n"));
    assert!(sandbox.read("a.cpp").contains("  if (n > 1) { return 2 * n; } else"));
    let ask = json!({"action": "code_actions", "file": "a.cpp", "line": 11, "symbol": "n#1", "title": "Swap operands", "apply": true});
    asker.holds(ask, &["Swap operands to >", "a.cpp"]);
    assert!(sandbox.read("a.cpp").contains("if (1 < n)"), "{}", sandbox.read("a.cpp"));
}

fn edits(asker: &mut Asker, sandbox: &Sandbox) {
    // The server is asked first whether the symbol can be renamed.
    asker.refused(
        json!({"action": "rename", "file": "main.py", "line": 4, "symbol": "def", "new_name": "x"}),
        "invalid_arguments",
        &["cannot be renamed"],
    );
    asker.holds(
        json!({"action": "rename", "symbol": "total", "file": "shapes.py", "new_name": "whole"}),
        &["4 places in 2 files (basedpyright)", "o new problems"],
    );
    assert!(sandbox.read("main.py").contains("return whole([first]) + whole([])"));
    asker.holds(
        json!({"action": "rename_file", "file": "shapes.py", "to": "figures.py"}),
        &["figures.py: moved from shapes.py", "main.py: 1"],
    );
    assert!(sandbox.read("main.py").starts_with("from figures import Square, whole\n"));
    asker.holds(json!({"action": "move_symbol", "file": "web.ts", "symbol": "unused"}), &["unused.ts"]);
    assert!(sandbox.read("unused.ts").contains("export function unused"));
    asker.holds(
        json!({"action": "organize_imports", "files": ["main.py", "unsorted.py"]}),
        &["unsorted.py: changed"],
    );
    assert!(sandbox.read("unsorted.py").starts_with("import os\nimport sys\n"));
    asker.holds(json!({"action": "format", "files": ["unsorted.py", "a.cpp"]}), &["unsorted.py: changed"]);
    assert!(sandbox.read("unsorted.py").contains("print(sys.argv, os.name)"));
    asker.holds(
        json!({"action": "fix_all", "file": "other.py"}),
        &["fixed 2, left 3", "left: other.py:2: error: Undefined name `total` [F821] (Ruff)"],
    );
}

const HEADER: [(&str, &str); 4] = [
    ("compile_flags.txt", "-std=c11\n"),
    (
        "a.h",
        "#ifndef A_H\n#define A_H\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
         void a_drop(int *p);\n#endif\n",
    ),
    ("a.c", "#include \"a.h\"\nvoid a_drop(int *p) { free(p); }\nvoid early(int *p) { a_drop(p); }\n"),
    ("b.c", "#include \"a.h\"\nvoid b_use(int *p) { a_drop(p); puts(\"x\"); }\n"),
];

/// Renames in a header, which clangd 22.1.1 first checks with the old text.
///
/// It notices no change of a header that keeps its size within a second.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn renaming_in_a_header_introduces_no_errors() {
    for verify in ["after", "before"] {
        let mut sandbox = Sandbox::with(&HEADER);
        give(&mut sandbox, &["clangd"]);
        sandbox.variables.insert("PILCROW_EDIT_VERIFY".to_owned(), verify.to_owned());
        sandbox.variables.insert("PILCROW_EDIT_VERIFY_POLICY".to_owned(), "no_new_errors".to_owned());
        let mut batch = Batch::start(&sandbox);
        batch.call("lsp", &json!({"action": "diagnostics", "timeout": 120})).ok();
        for (old, new) in ["a_drop", "a_free", "a_gone", "a_release", "a_left", "a_drop"]
            .windows(2)
            .map(|two| (two[0], two[1]))
        {
            let ask = json!({"action": "rename", "symbol": old, "new_name": new, "timeout": 120});
            let said = batch.call("lsp", &ask).ok().to_owned();
            let summary = format!("rename {old} to {new}: 4 places in 3 files (clangd)");
            assert_eq!(said.lines().next(), Some(summary.as_str()), "{verify}: {said}");
            let verdicts = said.matches("No new problems (3 changed files checked).").count();
            assert_eq!(verdicts, if verify == "before" { 2 } else { 1 }, "{verify}: {said}");
        }
        // The symbol is one, although it is declared twice.
        let ask = json!({"action": "references", "symbol": "a_drop", "timeout": 120});
        let answer = batch.call("lsp", &ask);
        let said = answer.ok();
        let locations = answer.value["details"]["locations"].as_array().map(Vec::len);
        assert_eq!(locations, Some(4), "{said}");
        batch.end();
    }
}

/// Clangd 22.1.1 appends to a message that a fix is available.
///
/// It does so once its index holds a header that declares the name.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_fix_that_becomes_available_is_not_a_new_error() {
    let mut sandbox = Sandbox::with(&[
        ("compile_flags.txt", "-xc\n-std=c11\n"),
        ("a.c", "thing first(void);\nint old(void) { return 1; }\nint last(void) { return old(); }\n"),
        ("thing.h", "#ifndef THING_H\n#define THING_H\ntypedef int thing;\n#endif\n"),
        ("b.c", "#include \"thing.h\"\nthing second;\n"),
    ]);
    give(&mut sandbox, &["clangd"]);
    sandbox.variables.insert("PILCROW_EDIT_WAIT".to_owned(), "60s".to_owned());
    let mut batch = Batch::start(&sandbox);
    for file in ["a.c", "b.c"] {
        batch.call("lsp", &json!({"action": "diagnostics", "file": file, "timeout": 120})).ok();
    }
    let ask = json!({"action": "rename", "symbol": "old", "new_name": "fresh", "timeout": 120});
    let renamed = batch.call("lsp", &ask);
    let found = &renamed.value["details"]["diagnostics"];
    let none = json!([]);
    assert_eq!((&found["introduced"], &found["gone"]), (&none, &none), "{}", renamed.ok());
    assert_eq!(found["compared"], 1, "{}", renamed.ok());
    batch.end();
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn moving_a_header_checks_or_counts_its_includers() {
    let mut sandbox = Sandbox::with(&HEADER);
    // The header is found through an include directory of the compiler, so the line is left to the user.
    sandbox.write("compile_flags.txt", "-std=c11\n-I.\n");
    sandbox.write("b.c", HEADER[3].1.replace("\"a.h\"", "<a.h>"));
    give(&mut sandbox, &["clangd"]);
    let moves = |from: &str, to: &str| json!({"action": "rename_file", "file": from, "to": to});
    // This is a separate call, which starts the server to check the move.
    let moved = sandbox.run(&["move", "a.h", "b.h", "--yes", "--wait", "60s"]);
    assert_eq!(moved.status.code(), Some(1), "{moved:?}");
    check_output(line_with(&moved.stdout, "introduced: "), &expect!["introduced: 3 errors, 0 warnings"]);
    let mut batch = Batch::start(&sandbox);
    let ask = json!({"action": "diagnostics", "file": "b.c", "timeout": 120});
    let found = batch.call("lsp", &ask);
    assert_eq!(found.value["details"]["diagnostics"][0]["code"], "pp_file_not_found", "{}", found.ok());
    let back = batch.call("lsp", &moves("b.h", "a.h")).ok();
    let fixed: Vec<&str> = back.lines().skip_while(|line| *line != "fixed: 3").take(4).collect();
    check_output(
        &fixed.join("\n"),
        &expect![[r#"
        fixed: 3
          b.c:1: error: 'a.h' file not found [pp_file_not_found] (clang)
          b.c:2: error: Call to undeclared function 'a_drop'; ISO C99 and later do not support implicit function declarations [-Wimplicit-function-declaration] (clang)
          b.c:2: error: Call to undeclared function 'puts'; ISO C99 and later do not support implicit function declarations [-Wimplicit-function-declaration] (clang)"#]],
    );
    batch.end();
}

/// Uses an environment not named `.venv`, which the server does not find itself.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn both_pyrights_find_the_projects_packages() {
    for server in ["basedpyright", "pyright"] {
        let mut sandbox =
            Sandbox::with(&[("pyproject.toml", ""), ("a.py", "from boxed import q\n\nprint(q)\n")]);
        let made = std::process::Command::new("python3")
            .args(["-m", "venv", "--without-pip"])
            .arg(sandbox.project().join("venv"))
            .status();
        assert!(made.expect("python3 starts").success());
        let lib = sandbox.project().join("venv/lib");
        let version =
            std::fs::read_dir(&lib).expect("its library").next().expect("a version").expect("it is read");
        let packages = version.path().join("site-packages");
        std::fs::write(packages.join("boxed.py"), "q = 1\n").expect("a package");
        give(&mut sandbox, &[format!("{server}-langserver").as_str()]);
        let mut batch = Batch::start(&sandbox);
        let ask = json!({"action": "diagnostics", "file": "a.py", "timeout": 120});
        let said = batch.call("lsp", &ask).ok().to_owned();
        assert!(said.contains(&format!("({server})")) && said.starts_with("0 errors, "), "{said}");
        batch.end();
    }
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_symbol_may_be_a_member_of_a_base() {
    let mut sandbox = Sandbox::with(&[
        ("base.py", "class Base:\n    def ping(self) -> int:\n        return 1\n"),
        ("other.py", "class Other:\n    def ping(self) -> int:\n        return 2\n"),
        (
            "client.py",
            "from base import Base as B\n\n\nclass Middle(B):\n    pass\n\n\n\
             class Client(dict[str, int], Middle, metaclass=type):\n    def run(self) -> int:\n        return self.ping()\n",
        ),
        ("compile_flags.txt", "-xc++\n"),
        ("a.cpp", "struct Shape { int area(); };\nstruct Square final : public Shape { int side; };\n"),
    ]);
    give(&mut sandbox, &["basedpyright-langserver", "clangd"]);
    let mut batch = Batch::start(&sandbox);
    for (symbol, file, place) in [
        ("Client.ping", None, "base.py"),
        ("Client.ping", Some("client.py"), "base.py"),
        ("Square::area", Some("a.cpp"), "a.cpp"),
    ] {
        let mut call = json!({ "action": "definition", "symbol": symbol, "timeout": 100 });
        if let Some(file) = file {
            call["file"] = json!(file);
        }
        let answer = batch.call("lsp", &call).ok();
        assert!(answer.contains(place) && answer.contains(&symbol[symbol.len() - 4..]), "{symbol}: {answer}");
        assert!(!answer.contains("other.py"), "{symbol}: {answer}");
    }
    let missing =
        batch.call("lsp", &json!({ "action": "definition", "symbol": "Client.pong" })).fails("not_found");
    assert!(missing.contains("pong"), "{missing}");
    let mistyped = json!({ "action": "definition", "symbol": "Cleint.ping" });
    let mistyped = batch.call("lsp", &mistyped).fails("not_found");
    assert!(mistyped.contains("`Client`"), "{mistyped}");
    assert!(batch.end().0.success());
}
