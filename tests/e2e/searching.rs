//! `grep`, `find` and `ls`: output, reports of omissions, and edits of shown rows.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use expect_test::expect;
use serde_json::{Value, json};
use tests::batch::View;
use tests::editor::uri;
use tests::{Batch, Editor, Sandbox, check_output};

/// The part of a result that is about one file.
#[track_caller]
fn section(text: &str, path: &str) -> View {
    let start = text.find(&format!("[{path}#")).unwrap_or_else(|| panic!("no {path} in {text}"));
    let rest = &text[start..];
    let end = rest[1..].find("\n[").map_or(rest.len(), |end| end + 1);
    View::parse(&rest[..end])
}

fn texts(view: &View) -> Vec<&str> {
    view.lines.iter().map(|line| line.text.as_str()).collect()
}

#[test]
fn only_the_row_shown_by_a_match_is_edited() {
    let sandbox = Sandbox::with(&[
        ("a.py", "import os\n\n\ndef parse(x):\n    return x\n\n\nprint(1)\n"),
        ("src/b c.py", "from a import parse\r\nparse(1)\r\n"),
    ]);
    let mut batch = Batch::start(&sandbox);
    let said = batch.call("grep", &json!({"pattern": "parse\\(", "context": 1})).ok();
    let (a, b) = (section(&said, "a.py"), section(&said, "src/b c.py"));
    assert_eq!(texts(&a), ["", "def parse(x):", "    return x"]);
    assert_eq!(texts(&b), ["from a import parse", "parse(1)"]);
    // The match begins its row; the text next to it does not.
    assert!(said.contains(&format!("\n{}\tdef parse(x):\n", a.anchor("def parse(x):"))), "{said}");
    assert!(said.contains(&format!("\n {}\t    return x\n", a.anchor("    return x"))), "{said}");
    let patch = format!("{}{}", a.put("    return x", "    return x + 1"), b.put("parse(1)", "parse(2)"));
    batch.edit(&patch).ok();
    assert_eq!(sandbox.read("a.py"), "import os\n\n\ndef parse(x):\n    return x + 1\n\n\nprint(1)\n");
    assert_eq!(sandbox.read("src/b c.py"), "from a import parse\r\nparse(2)\r\n");
    // A line that was not shown is not edited.
    let said = batch.call("grep", &json!({"pattern": "^def", "path": "a.py"})).ok();
    let header = section(&said, "a.py").header;
    batch.edit(&format!("[{header}]\nPUT 8:\n+print(2)\n")).fails("unseen_lines");
    // A row that is copied with its number into the text is refused.
    let view = section(&batch.call("grep", &json!({"pattern": "^def", "context": 1})).ok(), "a.py");
    let row = format!(" {}\t    return x + 1", view.anchor("    return x + 1"));
    let patch = format!("[{}]\nPUT {}:\n+{row}\n", view.header, view.anchor("    return x + 1"));
    batch.edit(&patch).fails("invalid_patch");
}

#[test]
fn names_with_brackets_are_found_literally() {
    let page = "app/[id]/page.tsx";
    let sandbox =
        Sandbox::with(&[(page, "hit\n"), ("app/[[...slug]]/page.tsx", "hit\n"), ("app/i/x.ts", "hit\n")]);
    let mut batch = Batch::start(&sandbox);
    let mut said = |tool: &str, args: Value| batch.call(tool, &args).ok();
    assert_eq!(said("find", json!({"pattern": page})), format!("{page}\n"));
    assert_eq!(said("find", json!({"pattern": "[[...slug]]/"})), "app/[[...slug]]/\n");
    assert_eq!(said("find", json!({"pattern": "page", "path": "app/[id]"})), format!("{page}\n"));
    for args in [
        json!({"pattern": "hit", "glob": "app/[id]/page.tsx", "files_only": true}),
        json!({"pattern": "hit", "glob": "[id]/*.tsx", "path": "app", "files_only": true}),
        json!({"pattern": "hit", "path": "app/[id]", "files_only": true}),
        json!({"pattern": "hit", "path": page, "files_only": true}),
    ] {
        let found = said("grep", args.clone());
        assert!(found.starts_with(&format!("{page} (1)\n(1 hit in 1 file")), "{args}: {found}");
    }
}

#[test]
fn a_match_shown_by_one_process_is_edited_by_another() {
    let sandbox = Sandbox::with(&[("a.txt", "one\ntwo\n"), ("b.txt", "two\nthree\n")]);
    let said = sandbox.run(&["tool", "grep", &json!({"pattern": "two"}).to_string()]).expect(0).stdout;
    let patch = section(&said, "a.txt").put("two", "zwei") + &section(&said, "b.txt").put("two", "zwei");
    sandbox.run_with_input(&["edit"], &patch).expect(0);
    assert_eq!(
        (sandbox.read("a.txt"), sandbox.read("b.txt")),
        ("one\nzwei\n".into(), "zwei\nthree\n".into())
    );
}

#[test]
fn unsaved_editor_text_is_searched_and_edited() {
    let sandbox = Sandbox::with(&[("a.txt", "saved\nsame\n"), ("b.txt", "saved\n")]);
    let mut editor = Editor::start(&sandbox);
    editor.wait("the question for settings", |editor| !editor.all("workspace/configuration").is_empty());
    let file = uri(&sandbox, "a.txt");
    editor.open(&file, "plaintext", "saved\nsame\n");
    editor.replace(&file, 0..5, "typed");
    let new = uri(&sandbox, "new.txt");
    editor.open(&new, "plaintext", "typed too\n");
    // The editor answers after the earlier messages.
    editor.request("textDocument/codeLens", json!({"textDocument": {"uri": file}}));
    let grep = |pattern: &str| sandbox.tool("grep", &json!({"pattern": pattern}));
    let said = grep("saved").ok();
    assert!(said.contains("[b.txt#") && !said.contains("a.txt"), "{said}");
    let answer = grep("typed");
    let said = answer.ok();
    let view = section(&said, "a.txt");
    assert_eq!(texts(&view), ["typed"]);
    check_output(
        &said,
        &expect![[r#"
        [a.txt#F2468689]
        1au	typed
        (not saved: this is the editor's text)
        [new.txt#4731482A]
        1mn	typed too
        (not saved: this is the editor's text)
        (2 hits in 2 files; 3 files searched)
    "#]],
    );
    let files = &answer.value["details"]["files"];
    assert_eq!(
        (&files[0]["path"], &files[0]["unsaved"], &files[0]["lines"]),
        (&json!("a.txt"), &json!(true), &json!([1]))
    );
    assert_eq!((&files[1]["path"], &files[1]["unsaved"]), (&json!("new.txt"), &json!(true)));
    let said = sandbox.tool("grep", &json!({"pattern": "typed", "files_only": true})).ok();
    check_output(
        &said,
        &expect![[r#"
        a.txt (1) (not saved)
        new.txt (1) (not saved)
        (2 hits in 2 files; 3 files searched)
    "#]],
    );
    let said = sandbox.tool("find", &json!({"pattern": "*.txt"})).ok();
    assert_eq!(said, "a.txt\nb.txt\nnew.txt (not saved yet)\n");
    let said = sandbox.tool("ls", &json!({})).ok();
    check_output(
        &said,
        &expect![[r#"
        . (3 entries)
        a.txt (11 bytes)
        b.txt (6 bytes)
        new.txt (not saved yet)
    "#]],
    );

    let child = {
        use std::io::Write;
        let mut command = sandbox.command(&["edit"]);
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().expect("pilcrow starts");
        child.stdin.take().unwrap().write_all(view.put("typed", "edited").as_bytes()).unwrap();
        child
    };
    editor.wait("the edit", |editor| editor.all("workspace/applyEdit").len() == 1);
    tests::sandbox::finish(child, tests::sandbox::DEADLINE).expect(0);
    assert_eq!(editor.text(&file), "edited\nsame\n");
    assert_eq!(sandbox.read("a.txt"), "saved\nsame\n", "an unsaved text was saved");
    assert!(grep("typed").ok().contains("[new.txt#"));
    editor.shut_down();
}

#[test]
fn a_model_finds_and_edits_unsaved_text() {
    let mut sandbox = Sandbox::with(&[("a.txt", "saved\n")]);
    let script = sandbox.beside("script.jsonl");
    let grep = json!({"tool_calls": [{"name": "grep", "arguments": {"pattern": "typ.d"}}]});
    let patch = "[a.txt#{{tag}}]\nPUT 1:\n+edited\n";
    let edit = json!({
        "expect": {"last_contains": ["typed", "not saved"], "tools_include": ["grep", "find"]},
        "capture": {"tag": {"after": "[a.txt#", "before": "]"}},
        "tool_calls": [{"name": "edit", "arguments": {"patch": patch}}],
    });
    let lines = [grep, edit, json!({"text": "done"})];
    fs::write(&script, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    sandbox.variables.insert("PILCROW_MODEL".to_owned(), format!("script:{}", script.display()));
    let mut editor = Editor::start(&sandbox);
    let file = uri(&sandbox, "a.txt");
    editor.open(&file, "plaintext", "saved\n");
    editor.replace(&file, 0..5, "typed");
    editor.answers.push_back(Some("Allow"));
    let session = editor.run("pilcrow.prompt", json!({"text": "Edit it."}));
    assert_eq!(editor.ended(&session), "done", "{:#?}", editor.log);
    assert_eq!(editor.text(&file), "edited\n");
    assert_eq!(sandbox.read("a.txt"), "saved\n");
    editor.shut_down();
}

#[test]
fn a_huge_line_is_shown_around_its_match() {
    let filler = "x=1;".repeat(400_000);
    let text = format!("first\nvar a=1;{filler}needle(42);{filler}\nneedle\n");
    let sandbox = Sandbox::with(&[("min.js", &text)]);
    let mut batch = Batch::start(&sandbox);
    let said = batch.call("grep", &json!({"pattern": "needle", "context": 1})).ok();
    assert!(said.len() < 2000, "{} bytes", said.len());
    check_output(
        &said,
        &expect![[r#"
            [min.js#8033]
             1ay	first
            … line 2 has 3,200,019 bytes
                at byte 1,600,008: …x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;needle(42);x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1…
            3ro	needle
            (2 hits in 1 file; 1 file searched)
            (long lines are cut; `read` one with `limit` 1 (up to 50 KiB), or match `.{0,200}NAME.{0,200}`)
        "#]],
    );
    // Rows shown in part cannot be edited; whole ones can.
    let view = section(&said, "min.js");
    batch.edit(&format!("[{}]\nPUT 2:\n+short\n", view.header)).fails("unseen_lines");
    batch.edit(&view.put("needle", "pin")).ok();
    let said = batch.call("grep", &json!({"pattern": ".{0,5}needle.{0,300}"})).ok();
    assert!(said.contains("=1;needle(42);") && said.contains(&"x=1;".repeat(70)), "{said}");
    // A file of many megabytes is not recorded unless it is named.
    sandbox.write("large.js", format!("needle\n{}", text.repeat(2)));
    let said = batch.call("grep", &json!({"pattern": "needle", "glob": "large.js"})).ok();
    check_output(
        &said,
        &expect![[r#"
            large.js (6,400,073 bytes: name it as `path` to edit lines of it)
                line 1: needle
            … line 3 has 3,200,019 bytes
                at byte 1,600,008: …x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;needle(42);x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1…
                line 4: needle
            … line 6 has 3,200,019 bytes
                at byte 1,600,008: …x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;needle(42);x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1;x=1…
                line 7: needle
            (5 hits in 1 file; 1 file searched)
            (long lines are cut; `read` one with `limit` 1 (up to 50 KiB), or match `.{0,200}NAME.{0,200}`)
        "#]],
    );
    let said = batch.call("grep", &json!({"pattern": "^needle", "path": "large.js"})).ok();
    batch.edit(&format!("[{}]\nPUT 1:\n+pin\n", section(&said, "large.js").header)).ok();
    // A file with many matches still gives a short result.
    let said = batch.call("grep", &json!({"pattern": "x"})).ok();
    assert!(said.len() < 4000, "{} bytes", said.len());
    let said = batch.call("grep", &json!({"pattern": "(?s).*", "multiline": true, "path": "min.js"})).ok();
    assert!(said.len() < 5000, "{} bytes", said.len());
}

#[test]
fn omitted_matches_are_counted() {
    let many: String = (0..5000).map(|line| format!("hit {line}\n")).collect();
    let files: Vec<(String, &str)> = (0..100).map(|at| (format!("f{at:03}.txt"), "hit\nhit\n")).collect();
    let sandbox = Sandbox::with(&files.iter().map(|(path, text)| (path.as_str(), *text)).collect::<Vec<_>>());
    sandbox.write("a.txt", &many);
    let answer = sandbox.tool("grep", &json!({"pattern": "^hit"}));
    let said = answer.ok();
    let details = &answer.value["details"];
    assert_eq!((&details["hits"], &details["files_with_hits"]), (&json!(5200), &json!(101)));
    assert_eq!((&details["truncated"], &details["complete"]), (&json!(true), &json!(true)));
    let rows = said.lines().filter(|line| line.ends_with("\thit") || line.contains("\thit ")).count();
    assert_eq!(details["shown"], json!(rows));
    assert!(rows <= 100 && rows > 70, "{rows}");
    let notes: Vec<&str> = said.lines().filter(|line| line.contains("hits")).collect();
    check_output(
        &notes.join("\n"),
        &expect![[r#"
        (4,978 more hits in this file)
        (5,200 hits in 101 files, 100 of them shown; 101 files searched; narrow `path`, `glob` or the pattern, or raise `limit` (up to 1000))
        (hits also in f039.txt (2), f040.txt (2), f041.txt (2), f042.txt (2), f043.txt (2), f044.txt (2), f045.txt (2), f046.txt (2), f047.txt (2), f048.txt (2), f049.txt (2), f050.txt (2), f051.txt (2), f052.txt (2), f053.txt (2), f054.txt (2), f055.txt (2), f056.txt (2), f057.txt (2), f058.txt (2), f059.txt (2), f060.txt (2), f061.txt (2), f062.txt (2), f063.txt (2), f064.txt (2), f065.txt (2), f066.txt (2), f067.txt (2), f068.txt (2), f069.txt (2), f070.txt (2), f071.txt (2), f072.txt (2), f073.txt (2), f074.txt (2), f075.txt (2), f076.txt (2), f077.txt (2), f078.txt (2), and 21 more files)"#]],
    );
    // A search of one file shows more, and never more than 50 KiB.
    let answer = sandbox.tool("grep", &json!({"pattern": "^hit", "path": "a.txt", "limit": 1000}));
    assert_eq!(answer.value["details"]["shown"], json!(1000));
    let answer =
        sandbox.tool("grep", &json!({"pattern": "^hit", "path": "a.txt", "limit": 1000, "context": 30}));
    assert!(answer.ok().len() <= 51 << 10);
    let answer = sandbox.tool("grep", &json!({"pattern": "^hit", "files_only": true, "limit": 3}));
    let said = answer.ok();
    assert!(said.starts_with("a.txt (5,000)\nf000.txt (2)\nf001.txt (2)\n("), "{said}");
    check_output(
        &said,
        &expect![[r#"
        a.txt (5,000)
        f000.txt (2)
        f001.txt (2)
        (5,200 hits in 101 files; 101 files searched; narrow `path` or `glob`, or raise `limit` (up to 1000))
        (and 98 more files)
    "#]],
    );
    assert_eq!(answer.value["details"]["files"].as_array().unwrap().len(), 101);
}

#[test]
fn a_search_without_hits_reports_the_searched_files() {
    let sandbox = Sandbox::with(&[
        (".gitignore", "out/\n"),
        ("src/a.rs", "fn main() {}\n"),
        ("out/gen.rs", "fn generated() {}\n"),
        (".ci/run", "generated\n"),
        ("image", "\0\0generated"),
    ]);
    let grep = |arguments: Value| sandbox.tool("grep", &arguments).ok();
    let said = grep(json!({"pattern": "generated"}));
    for part in [
        "no hits; 1 file searched",
        "hidden or ignored files: .ci/run, out/gen.rs",
        "1 binary file",
        "ignore_case",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let said = grep(json!({"pattern": "generated", "ignored": true, "hidden": true}));
    assert!(said.contains("[out/gen.rs#") && said.contains("[.ci/run#"), "{said}");
    assert!(grep(json!({"pattern": "generated", "path": "out"})).contains("[out/gen.rs#"));
    let said = grep(json!({"pattern": "main", "glob": "*.py"}));
    check_output(
        &said,
        &expect![[r#"
        (no file matches the glob *.py, so nothing was searched)
    "#]],
    );
    let said = grep(json!({"pattern": "MAIN", "path": "src"}));
    check_output(
        &said,
        &expect![[r#"
        (no hits; 1 file searched in src)
        (the search is case-sensitive; `ignore_case` changes that)
    "#]],
    );
    assert!(grep(json!({"pattern": "MAIN", "ignore_case": true})).contains("[src/a.rs#"));
    let answer = sandbox.tool("grep", &json!({"pattern": "nowhere to be found"}));
    assert_eq!(
        (&answer.value["details"]["hits"], &answer.value["details"]["searched"]),
        (&json!(0), &json!(1))
    );
    check_output(
        &answer.ok(),
        &expect![[r#"
        (no hits; 1 file searched)
        (the search is case-sensitive; `ignore_case` changes that)
        (hidden and ignored files have no match either)
        (not searched: 1 binary file)
    "#]],
    );
    let said = sandbox.tool("find", &json!({"pattern": "gen"})).ok();
    check_output(
        &said,
        &expect![[r#"
        (nothing found among 3 names in .)
        (hidden or ignored: out/gen.rs; `hidden` and `ignored` search them)
    "#]],
    );
}

#[test]
fn an_invalid_search_is_refused_with_a_next_step() {
    let sandbox = Sandbox::with(&[("a.txt", "foo(\nbar\n")]);
    let fails = |tool: &str, arguments: Value, code: &str| sandbox.tool(tool, &arguments).fails(code);
    let said = fails("grep", json!({"pattern": "foo("}), "invalid_arguments");
    check_output(
        &said,
        &expect![[
            r#"`foo(` is not a Rust regex: unclosed group; escape special characters with \, or set `literal`"#
        ]],
    );
    assert!(sandbox.tool("grep", &json!({"pattern": "foo(", "literal": true})).ok().contains("\tfoo(\n"));
    fails("grep", json!({"pattern": ""}), "invalid_arguments");
    fails("grep", json!({"pattern": "a", "limit": 0}), "invalid_arguments");
    fails("grep", json!({"pattern": "a", "glob": "{x"}), "invalid_arguments");
    fails("grep", json!({"pattern": "a", "path": "none"}), "not_found");
    fails("grep", json!({"pattern": "a", "path": "../.."}), "denied");
    fails("find", json!({"pattern": "a", "path": "a.txt"}), "not_a_file");
    fails("find", json!({"pattern": ""}), "invalid_arguments");
    let said = fails("ls", json!({"path": "a.txt"}), "invalid_arguments");
    check_output(&said, &expect!["a.txt is a file; read shows it"]);
    fails("ls", json!({"path": "none"}), "not_found");
    let said = sandbox.tool("grep", &json!({"pattern": "\\(\\nbar"})).ok();
    assert!(said.contains("\tfoo(\n") && said.contains("\tbar\n"), "{said}");
}

#[test]
fn secret_files_are_searched_only_when_named_and_allowed() {
    let sandbox = Sandbox::with(&[("a.txt", "token\n"), (".env", "token=1\n"), ("server.pem", "token\n")]);
    let said = sandbox.tool("grep", &json!({"pattern": "token", "hidden": true})).ok();
    assert!(said.contains("[a.txt#") && !said.contains("token=1"), "{said}");
    check_output(
        &said,
        &expect![[r#"
        [a.txt#58336398]
        1gb	token
        (1 hit in 1 file; 1 file searched)
        (not searched: 2 protected files: .env, server.pem; name one as `path` to request permission)
    "#]],
    );
    // The user named it explicitly; denied files stay denied.
    let named = json!({"pattern": "token", "path": ".env"});
    assert!(sandbox.tool("grep", &named).ok().contains("\ttoken=1"));
    sandbox.tool("grep", &json!({"pattern": "token", "path": "server.pem"})).fails("denied");
}

#[test]
fn unusual_names_are_shown_unambiguously() {
    let sandbox = Sandbox::with(&[("plain name.txt", "hit\n"), ("it's \"q\".txt", "hit\n")]);
    for name in [&b"new\nline"[..], b"\xff\xfe", b" blank"] {
        fs::write(sandbox.project().join(OsStr::from_bytes(name)), "hit\n").unwrap();
    }
    let mut batch = Batch::start(&sandbox);
    let said = batch.call("grep", &json!({"pattern": "hit"})).ok();
    for row in
        ["[it's \"q\".txt#", "[plain name.txt#", "\"new\\nline\" (", "\"\\xFF\\xFE\" (", "\" blank\" ("]
    {
        assert!(said.contains(row), "{row} in {said}");
    }
    check_output(
        &said,
        &expect![[r#"
        " blank" (its name cannot be written in an edit)
            line 1: hit
        [it's "q".txt#89C4]
        1kw	hit
        "new\nline" (its name cannot be written in an edit)
            line 1: hit
        [plain name.txt#89C4]
        1kw	hit
        "\xFF\xFE" (its name cannot be written in an edit)
            line 1: hit
        (5 hits in 5 files; 5 files searched)
    "#]],
    );
    batch.edit(&section(&said, "it's \"q\".txt").put("hit", "met")).ok();
    assert_eq!(sandbox.read("it's \"q\".txt"), "met\n");
    let said = batch.call("find", &json!({"pattern": "*"})).ok();
    assert_eq!(said.lines().count(), 5, "{said}");
    assert!(said.contains("\"new\\nline\"\n") && said.contains("\"\\xFF\\xFE\"\n"), "{said}");
    let said = batch.call("ls", &json!({})).ok();
    check_output(
        &said,
        &expect![[r#"
        . (5 entries)
        " blank" (4 bytes)
        it's "q".txt (4 bytes)
        "new\nline" (4 bytes)
        plain name.txt (4 bytes)
        "\xFF\xFE" (4 bytes)
    "#]],
    );
}

#[test]
fn an_unreadable_directory_is_reported() {
    let mut sandbox = Sandbox::with(&[("a.txt", "hit\n"), ("locked/b.txt", "hit\n")]);
    sandbox.drop_root();
    let locked = sandbox.project().join("locked");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).expect("mode");
    let answer = sandbox.tool("grep", &json!({"pattern": "hit"}));
    let said = answer.ok();
    check_output(
        &said,
        &expect![[r#"
        [a.txt#2F8A89C4]
        1kw	hit
        (1 hit in 1 file; 1 file searched)
        (could not be read: <sandbox>/the project/locked: Permission denied (os error 13))
    "#]],
    );
    assert_eq!(answer.value["details"]["skipped"]["unreadable"], json!(1));
    let said = sandbox.tool("find", &json!({"pattern": "b.txt"})).ok();
    check_output(
        &said,
        &expect![[r#"
        (nothing found among 2 names in .)
        (hidden and ignored names do not match either)
        (could not be read: <sandbox>/the project/locked: Permission denied (os error 13))
    "#]],
    );
    let said = sandbox.tool("ls", &json!({"depth": 3})).ok();
    assert!(said.contains("locked/\n") && said.contains("a.txt"), "{said}");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o755)).expect("mode");
}

#[test]
fn names_are_ranked_across_all_directories() {
    let sandbox = Sandbox::with(&[
        ("config.rs", ""),
        ("src/config/mod.rs", ""),
        ("src/config.rs", ""),
        ("src/old_config.rs", ""),
        ("src/configuration.md", ""),
        ("README.md", ""),
    ]);
    let find = |arguments: Value| sandbox.tool("find", &arguments).ok();
    assert_eq!(
        find(json!({"pattern": "config"})),
        "src/config/\nconfig.rs\nsrc/config.rs\nsrc/configuration.md\nsrc/old_config.rs\n"
    );
    assert_eq!(find(json!({"pattern": "config/"})), "src/config/\n");
    assert_eq!(find(json!({"pattern": "src/conf"})), "src/config/\nsrc/config.rs\nsrc/configuration.md\n");
    assert_eq!(find(json!({"pattern": "*.md"})), "README.md\nsrc/configuration.md\n");
    assert_eq!(find(json!({"pattern": "src/**/*.rs", "path": "src"})).lines().count(), 3);
    assert_eq!(find(json!({"pattern": "readme"})), "README.md\n");
    let said = find(json!({"pattern": "config", "limit": 2}));
    check_output(
        &said,
        &expect![[r#"
        src/config/
        config.rs
        (2 of 5 shown, best first; narrow `path` or the pattern or raise `limit` (up to 1000))
    "#]],
    );
}

#[test]
fn a_directory_is_listed_with_its_entries() {
    let sandbox = Sandbox::with(&[
        (".gitignore", "out\n"),
        ("out/x", "1"),
        ("src/deep/er/a.rs", "12345"),
        ("b.txt", "12"),
    ]);
    std::os::unix::fs::symlink("b.txt", sandbox.project().join("link")).unwrap();
    let ls = |arguments: Value| sandbox.tool("ls", &arguments).ok();
    let rows = ".gitignore (4 bytes)\nb.txt (2 bytes)\nlink (link)\nout/ (ignored)\nsrc/\n";
    let said = ls(json!({}));
    assert!(said.ends_with(rows) && said.lines().next().unwrap().ends_with("(5 entries)"), "{said}");
    let said = ls(json!({"path": "src", "depth": 2}));
    assert_eq!(said, "src (1 entry)\ndeep/\n  er/\n");
    assert!(ls(json!({"depth": 9})).ends_with("src/\n  deep/\n    er/\n      a.rs (5 bytes)\n"));
    assert_eq!(ls(json!({"path": "out"})), "out (1 entry)\nx (1 bytes)\n");
    for at in 0..600 {
        sandbox.write(&format!("many/{at:03}"), "");
    }
    let answer = sandbox.tool("ls", &json!({"path": "many"}));
    assert!(answer.ok().ends_with("499 (0 bytes)\n… and 100 more\n"));
    assert_eq!(answer.value["details"]["truncated"], json!(true));
    let said = ls(json!({"depth": 2}));
    let end: Vec<&str> = said.lines().skip_while(|line| !line.contains('…')).take(2).collect();
    assert_eq!(end, ["  … and 500 more", "out/ (ignored)"], "{said}");
}
