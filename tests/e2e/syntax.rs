//! Edits of source code: blocks, syntax errors, and outlines of long files.

use expect_test::expect;
use serde_json::json;
use tests::{Batch, Sandbox, check_output, line_with};

fn functions(count: usize) -> String {
    (0..count)
        .map(|at| {
            let body: String = (0..20).map(|line| format!("    call({at}, {line});\n")).collect();
            format!("fn f{at}() {{\n{body}}} // f{at}\n\n")
        })
        .collect()
}

#[test]
fn a_long_file_is_shown_as_an_outline() {
    let text = functions(200);
    let sandbox = Sandbox::with(&[("long.rs", &text)]);
    let mut batch = Batch::start(&sandbox);
    let said = batch.call("read", &json!({"path": "long.rs"})).ok();
    let rows: Vec<&str> = said.lines().collect();
    check_output(
        &rows[..4].join("\n"),
        &expect![[r#"
            long.rs: outline of 4600 lines; read a part with `symbol` (`Type.method`), or `offset` and `limit`
            1 fn f0()
            24 fn f1()
            47 fn f2()"#]],
    );
    assert!(!said.contains("call(") && said.len() < 8 * 4600 / 5, "{said}");
    // A part of the file is shown without an outline.
    let part = batch.call("read", &json!({"path": "long.rs", "offset": 1, "limit": 30})).ok();
    assert!(line_with(&part, "call(0, 19)").ends_with("\t    call(0, 19);"), "{part}");
}

#[test]
fn an_outline_that_does_not_fit_ends_at_a_line() {
    let text: String = (0..2_500).map(|at| format!("pub fn function_number_{at}() {{}}\n")).collect();
    let sandbox = Sandbox::with(&[("long.rs", &format!("//! Many functions.\n\n{text}"))]);
    let said = Batch::start(&sandbox).call("read", &json!({"path": "long.rs"})).ok();
    let (beginning, end) = said.split_once(", 5 function_number_2").expect("the names");
    check_output(
        &format!("{beginning}…\n{}", end.lines().last().unwrap_or_default()),
        &expect![[r#"
            long.rs: outline of 2502 lines; read a part with `symbol` (`Type.method`), or `offset` and `limit`
            Many functions.
            3 function_number_0, 4 function_number_1…
            (the next declaration is at line 163: read on with `offset` 163, or `grep` for a name)"#]],
    );
    assert!(said.len() < 8 * 2_500 / 5 + 400, "{} bytes", said.len());
}

#[test]
fn a_long_text_shows_its_headings() {
    let section = |at: usize| format!("## Part {at}\n\n{}\n", "Some words.\n".repeat(40));
    let text: String = (0..60).map(section).collect();
    let sandbox = Sandbox::with(&[("long.md", &format!("# Guide\n\n{text}"))]);
    let mut batch = Batch::start(&sandbox);
    let said = batch.call("read", &json!({"path": "long.md"})).ok();
    check_output(
        &said.lines().take(4).collect::<Vec<_>>().join("\n"),
        &expect![[r#"
            long.md: outline of 2582 lines; read a part with `symbol` (`Type.method`), or `offset` and `limit`
            1 # Guide
              3 ## Part 0
              46 ## Part 1"#]],
    );
    // If not all headings fit, the first ones say more than the title.
    let many: String = (0..900).map(|at| format!("## Part {at}\n\nText.\n\n")).collect();
    sandbox.write("many.md", format!("# Guide\n\n{many}"));
    let said = batch.call("read", &json!({"path": "many.md"})).ok();
    assert_eq!(said.lines().nth(3), Some("  7 ## Part 1"));
    assert!(said.len() < 8 * 3_600 / 5 + 400, "{said}");
    let part = batch.call("read", &json!({"path": "long.md", "symbol": "Part 7"})).ok();
    let headings: Vec<_> = part.lines().filter_map(|line| line.split_once("\t## ")).collect();
    assert_eq!((headings.len(), headings[0].1, part.lines().count()), (1, "Part 7", 45), "{part}");
}

#[test]
fn a_long_text_without_an_outline_shows_its_beginning() {
    let rows: String = (1..=3_000).map(|at| format!("{at},name {at}\n")).collect();
    let wide = format!("{{\"key\": [\n{}1]}}\n", format!("\"{}\",\n", "x".repeat(900)).repeat(80));
    let sandbox = Sandbox::with(&[("rows.csv", &rows), ("wide.json", &wide)]);
    let mut batch = Batch::start(&sandbox);
    let said = batch.call("read", &json!({"path": "rows.csv"})).ok();
    let rows: Vec<&str> = said.lines().collect();
    assert!(rows[1].ends_with("\t1,name 1") && rows.len() == 102, "{said}");
    let said = batch.call("read", &json!({"path": "wide.json"})).ok();
    check_output(
        &format!("{}\n{}", rows[101], said.lines().last().unwrap_or_default()),
        &expect![[r#"
        (lines 1 to 100 of 3000; read a part with `offset` and `limit`)
        (lines 1 to 5 of 82; read a part with `offset` and `limit`)"#]],
    );
}

/// No server is installed; the tree has the file's declarations.
#[test]
fn a_symbol_is_read_without_a_server() {
    let python = "import os\n\nclass A:\n    @cached\n    def run(self):\n        return 1\n\n    def end(self):\n        return 2\n\ndef run():\n    return 3\n";
    let rust = "/// One.\n#[derive(Debug)]\nstruct S {\n    x: u8,\n}\nimpl S {\n    fn m() {}\n}\n";
    let sandbox = Sandbox::with(&[("a.py", python), ("b.rs", rust), ("c.txt", "A\n")]);
    let mut batch = Batch::start(&sandbox);
    let mut said = String::new();
    for (path, symbol) in [("a.py", "A.run"), ("a.py", "run"), ("b.rs", "S"), ("b.rs", "S::m")] {
        said += &batch.call("read", &json!({"path": path, "symbol": symbol})).ok();
    }
    said += &batch.call("read", &json!({"path": "a.py", "symbol": "start"})).fails("not_found");
    check_output(
        &said,
        &expect![[r#"
        [a.py#F0B0]
        4fj	    @cached
        5sj	    def run(self):
        6mf	        return 1
        (lines 4 to 6 of 12)
        [a.py#F0B0]
        11mn	def run():
        12yd	    return 3
        (lines 11 to 12 of 12)
        [b.rs#9F01]
        1de	/// One.
        2tq	#[derive(Debug)]
        3wx	struct S {
        4qw	    x: u8,
        5rc	}
        (lines 1 to 5 of 8)
        [b.rs#9F01]
        7sr	    fn m() {}
        (lines 7 to 7 of 8)
        a.py contains no symbol `start`; read the file, or `grep` for the name"#]],
    );
    batch.call("read", &json!({"path": "c.txt", "symbol": "A"})).fails("unsupported");
}

#[test]
fn blocks_are_whole_and_syntax_errors_are_reported() {
    let text = "@decorated\ndef f(x):\n    y = 1\n    return y\n\n\ndef g():\n    pass\n";
    let mut sandbox =
        Sandbox::with(&[("a.py", text), ("b.rs", "fn a() {\n    x();\n}\nfn b() {}\n"), ("c.txt", "a\n")]);
    sandbox.variables.insert("PILCROW_LSP_START".to_owned(), "use".to_owned());
    let mut batch = Batch::start(&sandbox);
    let view = batch.view("a.py");
    batch.edit(&format!("[{}]\nPUT {}*:\n+    y = 2\n", view.header, view.anchor("    y = 1"))).ok();
    assert_eq!(sandbox.read("a.py"), text.replace("y = 1", "y = 2"));
    let view = batch.view("a.py");
    batch.edit(&format!("[{}]\nCUT {}*\n", view.header, view.anchor("@decorated"))).ok();
    assert_eq!(sandbox.read("a.py"), "\n\ndef g():\n    pass\n");

    let view = batch.view("b.rs");
    let said = batch.edit(&view.put("    x();", "    x(;")).ok();
    check_output(
        &said,
        &expect![[r#"
            [b.rs#276C]
            2ko	    x(;
            note: the file parsed before this edit and does not now; it was applied as written. Look at line 2 (`x(;`): line 2: unexpected `(`
        "#]],
    );
    let view = batch.view("c.txt");
    batch.edit(&format!("[{}]\nCUT {}*\n", view.header, view.anchor("a"))).fails("unsupported");
}

#[test]
fn syntax_errors_are_refused_when_configured() {
    let text = "fn a() {\n    x();\n}\nfn b() {}\n";
    let mut sandbox = Sandbox::with(&[("b.rs", text)]);
    sandbox.variables.insert("PILCROW_LSP_START".to_owned(), "use".to_owned());
    let settings = "edit.parse_regression = \"refuse\"\n";
    std::fs::create_dir_all(sandbox.home().join("config")).expect("its directory");
    std::fs::write(sandbox.home().join("config/config.toml"), settings).expect("the configuration");
    let mut batch = Batch::start(&sandbox);
    let view = batch.view("b.rs");
    let said = batch.edit(&view.put("    x();", "    x(;")).fails("parse_regression");
    check_output(
        &said,
        &expect![[r#"
        Not applied, nothing was changed.
        b.rs: the file parses now and would not after this edit: line 2: unexpected `(`; write the edit so that line 2 fits its surroundings
        [b.rs#FC62]
        1kw	fn a() {
        2sk	    x();
        3tc	}
        4nv	fn b() {}
    "#]],
    );
    assert!(sandbox.read("b.rs") == text, "{said}");
    // A repeated closing line is dropped instead.
    let patch = format!("[{}]\nPUT {}:\n+    y();\n+}}\n", view.header, view.anchor("    x();"));
    let said = batch.edit(&patch).ok();
    check_output(
        &said,
        &expect![[r#"
            [b.rs#DC73]
            2fe	    y();
            note: as written the file would not have parsed (line 4: unexpected `}`), so the body's last row, which repeats line 3 `}`, was left out; nothing else was changed
        "#]],
    );
    assert_eq!(sandbox.read("b.rs"), text.replace("x()", "y()"));
}
