//! Edits of servers, converted to edits that can be planned.

use std::path::PathBuf;

use expect_test::expect;
use lsp_client::Note;
use policy::ErrorCode;
use serde_json::{Value, json};
use testing::language_server::{Script, Step};

use crate::bench::{Bench, LONG, bench, build, cx, range};

fn edit(line: u32, start: u32, end: u32, text: &str) -> Value {
    json!({"range": range(line, start, end), "newText": text})
}

fn renames(answer: Value) -> Script {
    Script::new(json!({"renameProvider": true, "textDocumentSync": 2}))
        .on("textDocument/rename", [Step::Result(answer)])
}

/// A message without the temporary directories in its paths.
fn relative(message: &str) -> String {
    let temporary = std::env::temp_dir();
    let word = |word: &str| match std::path::Path::new(word).strip_prefix(&temporary) {
        Ok(path) => {
            path.iter().skip(1).filter(|part| *part != "project").collect::<PathBuf>().display().to_string()
        }
        Err(_) => word.to_owned(),
    };
    message.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

async fn refused(bench: &Bench, code: ErrorCode, message: &expect_test::Expect) {
    let error = bench.rename(&bench.doc("a.txt"), 0, "new", &cx(LONG)).await.unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    message.assert_eq(&relative(&error.to_string()));
}

#[tokio::test]
async fn a_rename_edits_unopened_files() {
    let answer = json!({"changes": {
        "${root}/a.txt": [edit(0, 0, 3, "new")],
        "${root}/sub%20dir/b.txt": [edit(1, 5, 8, "new"), edit(0, 0, 3, "new")],
    }});
    let bench = bench(&[("a.txt", "old"), ("sub dir/b.txt", "old\r\n😀is old\r\n")], renames(answer));
    let answer = bench.rename(&bench.doc("a.txt"), 1, "new", &cx(LONG)).await.unwrap();
    assert_eq!(answer.value.label, "rename old to new");
    assert_eq!(bench.outcome(answer.value), ["a.txt: new", "sub dir/b.txt: new\r\n😀is new\r\n"]);
    let asked = &bench.got("scripted", "textDocument/rename")[0];
    assert_eq!((&asked["newName"], &asked["position"]["character"]), (&json!("new"), &json!(1)));
}

/// A server may read a file once by each of its paths.
#[tokio::test]
async fn a_rename_edits_the_target_of_a_link_once() {
    let answer = json!({"changes": {
        "${root}/link.txt": [edit(0, 0, 3, "new")],
        "${root}/real.txt": [edit(0, 0, 3, "new")],
    }});
    let bench = bench(&[("real.txt", "old")], renames(answer));
    std::os::unix::fs::symlink("real.txt", bench.workspace.root().as_path().join("link.txt")).unwrap();
    let answer = bench.rename(&bench.doc("real.txt"), 1, "new", &cx(LONG)).await.unwrap();
    assert_eq!(bench.outcome(answer.value), ["real.txt: new"]);
}

#[tokio::test]
async fn file_operations_are_planned_with_edits_around_them() {
    let document = |name: &str| json!({"uri": format!("${{root}}/{name}"), "version": null});
    let answer = json!({"documentChanges": [
        {"textDocument": {"uri": "${root}/a.txt", "version": "${version}"},
         "edits": [{"range": range(0, 0, 3), "newText": "new", "annotationId": "x"}]},
        {"kind": "rename", "oldUri": "${root}/a.txt", "newUri": "${root}/c.txt"},
        {"textDocument": document("c.txt"), "edits": [edit(0, 3, 3, "er")]},
        {"kind": "create", "uri": "${root}/d.txt"},
        {"textDocument": document("d.txt"), "edits": [edit(0, 0, 0, "made")]},
        {"kind": "delete", "uri": "${root}/e.txt"},
        {"kind": "delete", "uri": "${root}/none.txt", "options": {"ignoreIfNotExists": true}},
        {"kind": "create", "uri": "${root}/b.txt", "options": {"ignoreIfExists": true}},
        {"textDocument": document("b.txt"),
         "edits": [{"range": range(0, 0, 1), "snippet": {"kind": "snippet", "value": "${1:bee}$0"}}]},
    ], "changeAnnotations": {"x": {"label": "x"}}});
    let files = [("a.txt", "old"), ("b.txt", "b"), ("e.txt", "e")];
    let bench = bench(&files, renames(answer));
    let answer = bench.rename(&bench.doc("a.txt"), 0, "new", &cx(LONG)).await.unwrap();
    let outcome = bench.outcome(answer.value);
    assert_eq!(outcome, ["b.txt: bee", "c.txt: newer", "d.txt: made", "e.txt: (gone)"]);
}

#[tokio::test]
async fn an_edit_for_another_version_is_refused() {
    let change = |version: i32| {
        let document = json!({"uri": "${root}/a.txt", "version": version});
        json!({"documentChanges": [{"textDocument": document, "edits": [edit(0, 0, 1, "x")]}]})
    };
    let bench = bench(&[("a.txt", "abc")], renames(change(7)));
    refused(&bench, ErrorCode::StaleText, &expect!["scripted: textDocument/rename: its edit is for version 7 of a.txt, but the request was about version 1; try again"]).await;
}

#[tokio::test]
async fn files_outside_the_workspace_are_refused_by_name() {
    let answer = json!({"changes": {
        "${root}/a.txt": [edit(0, 0, 1, "x")],
        "file:///usr/lib/lib.txt": [edit(0, 0, 1, "x")],
    }});
    let bench = bench(&[("a.txt", "abc")], renames(answer));
    refused(
        &bench,
        ErrorCode::Denied,
        &expect![
            "scripted: textDocument/rename: its edit changes /usr/lib/lib.txt, which is outside the workspace; change that file by hand"
        ],
    )
    .await;
}

#[tokio::test]
async fn overlapping_and_misplaced_edits_are_refused() {
    let overlap = json!({"changes": {"${root}/a.txt": [edit(0, 0, 2, "x"), edit(0, 1, 3, "y")]}});
    refused(
        &bench(&[("a.txt", "abc")], renames(overlap)),
        ErrorCode::StaleText,
        &expect![
            "scripted: textDocument/rename: its edits of a.txt do not fit the text: edits overlap at 2 and 1; `reload` it and try again"
        ],
    )
    .await;
    let half = json!({"changes": {"${root}/a.txt": [edit(0, 1, 2, "x")]}});
    refused(
        &bench(&[("a.txt", "😀bc")], renames(half)),
        ErrorCode::StaleText,
        &expect![
            "scripted: textDocument/rename: its edits of a.txt do not fit the text: there is no position 1:2; `reload` it and try again"
        ],
    )
    .await;
}

#[tokio::test]
async fn a_rename_that_changes_nothing_is_an_error() {
    let nothing_changes = expect![[
        r#"scripted: the rename of "abc" to "new" changes nothing; check that the new name is valid"#
    ]];
    for nothing in [Value::Null, json!({"changes": {"${root}/a.txt": [edit(0, 0, 3, "abc")]}})] {
        let bench = bench(&[("a.txt", "abc")], renames(nothing));
        refused(&bench, ErrorCode::InvalidArguments, &nothing_changes).await;
    }
}

#[tokio::test]
async fn a_refused_name_is_an_invalid_argument() {
    let script = Script::new(json!({"renameProvider": true, "textDocumentSync": 2}))
        .on("textDocument/rename", [Step::Error(json!({"code": -32803, "message": "no such identifier"}))]);
    refused(
        &bench(&[("a.txt", "abc")], script),
        ErrorCode::InvalidArguments,
        &expect!["scripted: textDocument/rename: no such identifier"],
    )
    .await;
}

#[tokio::test]
async fn prepare_rename_is_sent_first() {
    let script = Script::new(json!({"renameProvider": {"prepareProvider": true}, "textDocumentSync": 2}))
        .on("textDocument/prepareRename", [Step::Result(Value::Null)])
        .on("textDocument/prepareRename", [Step::Error(json!({"code": -32602, "message": "a keyword"}))])
        .on("textDocument/prepareRename", [Step::Result(range(0, 0, 3))])
        .on(
            "textDocument/rename",
            [Step::Result(json!({"changes": {"${root}/a.txt": [edit(0, 0, 3, "new")]}}))],
        );
    let bench = bench(&[("a.txt", "abc def")], script);
    refused(
        &bench,
        ErrorCode::InvalidArguments,
        &expect![[
            r#"scripted: "abc" cannot be renamed: no symbol of the project is there; name another place"#
        ]],
    )
    .await;
    refused(&bench, ErrorCode::InvalidArguments, &expect!["scripted: textDocument/prepareRename: a keyword"])
        .await;
    assert!(bench.got("scripted", "textDocument/rename").is_empty());
    let answer = bench.rename(&bench.doc("a.txt"), 0, "new", &cx(LONG)).await.unwrap();
    assert_eq!(answer.value.label, "rename abc to new");
}

#[tokio::test]
async fn requests_go_to_the_server_of_the_highest_priority() {
    let whole = json!([{"range": {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}},
        "newText": "a\nb\n"}]);
    let formats = Script::new(json!({"documentFormattingProvider": true, "renameProvider": true,
        "codeActionProvider": {"resolveProvider": true}, "textDocumentSync": 2}))
    .on("textDocument/formatting", [Step::Result(whole)])
    .on("textDocument/formatting", [Step::Result(Value::Null)])
    .on(
        "textDocument/codeAction",
        [Step::Result(json!([
            {"title": "no", "kind": "quickfix", "edit": {}},
            {"title": "sort", "kind": "source.organizeImports.x", "data": 1},
        ]))],
    )
    .on(
        "codeAction/resolve",
        [Step::Result(json!({"title": "sort", "kind": "source.organizeImports.x",
        "edit": {"changes": {"${root}/a.txt": [edit(0, 0, 1, "z")]}}}))],
    );
    let rename = renames(json!({"changes": {"${root}/a.txt": [edit(0, 0, 1, "new")]}}));
    let servers = vec![
        ("formatter", formats, "[features]\nformat = 90\norganize_imports = 90"),
        ("renamer", rename, "[features]\nrename = 90\nformat = 10\norganize_imports = 10"),
    ];
    let bench = build(&[("a.txt", "a\r\n  b\r\n")], servers, |_| ());
    let doc = bench.doc("a.txt");
    let formatted = bench.pool.format(&doc, None, &cx(LONG)).await.unwrap();
    assert_eq!(formatted.server, "formatter");
    // The document keeps its line ends.
    assert_eq!(bench.outcome(formatted.value), ["a.txt: a\r\nb\r\n"]);
    let options = &bench.got("formatter", "textDocument/formatting")[0]["options"];
    assert_eq!(options, &json!({"tabSize": 2, "insertSpaces": true}));
    assert!(bench.pool.format(&doc, None, &cx(LONG)).await.unwrap().value.operations.is_empty());
    let sorted = bench.pool.organize_imports(&doc, &cx(LONG)).await.unwrap();
    assert_eq!(bench.outcome(sorted.value), ["a.txt: z\r\n  b\r\n"]);
    let renamed = bench.rename(&doc, 0, "new", &cx(LONG)).await.unwrap();
    assert_eq!(renamed.server, "renamer");
    let error = bench.pool.format(&doc, Some(0..1), &cx(LONG)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported);
}

#[tokio::test]
async fn will_create_and_will_delete_return_edits() {
    let filter = |glob: &str| json!({"filters": [{"scheme": "file", "pattern": {"glob": glob}}]});
    let operations = json!({"willCreate": filter("**/*.txt"), "willDelete": filter("**/b.*"),
        "didDelete": filter("**/nothing")});
    let gone = json!({"changes": {"${root}/a.txt": [edit(0, 0, 3, "no")]}});
    let script = Script::new(
        json!({"textDocumentSync": 2, "hoverProvider": true, "workspace": {"fileOperations": operations}}),
    )
    .on("textDocument/hover", [Step::Result(Value::Null)])
    .on("workspace/willCreateFiles", [Step::Result(Value::Null)])
    .on("workspace/willDeleteFiles", [Step::Result(gone)])
    .on("workspace/willDeleteFiles", [Step::Error(json!({"code": 1, "message": "not today"}))]);
    let bench = bench(&[("a.txt", "use b"), ("b.txt", "b"), ("c.txt", "c")], script);
    let (b, c, new, other) =
        (bench.path("b.txt"), bench.path("c.txt"), bench.path("new.txt"), bench.path("new.md"));
    let (made, removed) = ([new, other], [b.clone(), c]);
    // No server runs, and none is started for it.
    let none = bench.pool.will_change(&made, &removed, &cx(LONG)).await.unwrap();
    assert!(none.edits.is_empty() && none.unknown.is_empty() && bench.record("scripted").is_empty());
    bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    let mut wishes = bench.pool.will_change(&made, &removed, &cx(LONG)).await.unwrap();
    let (server, edit) = wishes.edits.remove(0);
    assert_eq!((server.as_str(), bench.outcome(edit)), ("scripted", vec!["a.txt: no b".to_owned()]));
    assert!(wishes.edits.is_empty() && wishes.unknown.is_empty());
    let asked = |method: &str| bench.got("scripted", method)[0]["files"].clone();
    assert_eq!(asked("workspace/willCreateFiles"), json!([{"uri": bench.uri("new.txt")}]));
    assert_eq!(asked("workspace/willDeleteFiles"), json!([{"uri": bench.uri("b.txt")}]));
    let wishes = bench.pool.will_change(&[], &[b], &cx(LONG)).await.unwrap();
    assert!(wishes.unknown[0].contains("not today"), "{:?}", wishes.unknown);
}

/// The outcome of `changes` in a project of `files`.
async fn outcome(files: &[(&str, &str)], changes: Value) -> Result<Vec<String>, String> {
    let bench = bench(files, renames(json!({"documentChanges": changes})));
    let answer = bench.rename(&bench.doc("a.txt"), 0, "new", &cx(LONG)).await;
    answer.map(|answer| bench.outcome(answer.value)).map_err(|error| error.to_string())
}

fn in_file(name: &str, edits: Value) -> Value {
    json!({"textDocument": {"uri": format!("${{root}}/{name}"), "version": null}, "edits": edits})
}

fn file(kind: &str, name: &str, options: Value) -> Value {
    json!({"kind": kind, "uri": format!("${{root}}/{name}"), "options": options})
}

fn moved(from: &str, to: &str, options: Value) -> Value {
    json!({"kind": "rename", "oldUri": format!("${{root}}/{from}"), "newUri": format!("${{root}}/{to}"), "options": options})
}

#[tokio::test]
async fn operations_are_applied_in_their_order() {
    let files = [("a.txt", "one"), ("b.txt", "two"), ("d/c.txt", "three")];
    let none = || json!({});
    for (changes, expected) in [
        // Edits after a move apply to the moved file.
        (
            json!([moved("a.txt", "x.txt", none()), in_file("x.txt", json!([edit(0, 0, 3, "new")]))]),
            vec!["x.txt: new"],
        ),
        // Two files swap names, then one is edited under its new name.
        (
            json!([
                moved("a.txt", "t.txt", none()),
                moved("b.txt", "a.txt", none()),
                moved("t.txt", "b.txt", none()),
                in_file("a.txt", json!([edit(0, 0, 1, "T")]))
            ]),
            vec!["a.txt: Two", "b.txt: one"],
        ),
        // A created file can be edited, moved, and edited again.
        (
            json!([
                file("create", "n.txt", none()),
                in_file("n.txt", json!([edit(0, 0, 0, "made")])),
                moved("n.txt", "m.txt", none()),
                in_file("m.txt", json!([edit(0, 4, 4, "!")]))
            ]),
            vec!["m.txt: made!"],
        ),
        // A file is deleted and another takes its name.
        (
            json!([
                file("delete", "a.txt", none()),
                file("create", "a.txt", none()),
                in_file("a.txt", json!([edit(0, 0, 0, "fresh")]))
            ]),
            vec!["a.txt: fresh"],
        ),
        // Edits of a directory's files before and after the directory moves.
        (
            json!([
                in_file("d/c.txt", json!([edit(0, 0, 1, "T")])),
                moved("d", "e", none()),
                in_file("e/c.txt", json!([edit(0, 1, 2, "H")]))
            ]),
            vec!["e/c.txt: THree"],
        ),
        // An edit of a deleted file has no effect.
        (
            json!([in_file("a.txt", json!([edit(0, 0, 1, "x")])), file("delete", "a.txt", none())]),
            vec!["a.txt: (gone)"],
        ),
        (json!([file("delete", "d", json!({"recursive": true}))]), vec!["d/c.txt: (gone)"]),
    ] {
        assert_eq!(outcome(&files, changes.clone()).await.unwrap(), expected, "{changes}");
    }
    for (changes, message) in [
        (
            json!([moved("a.txt", "x.txt", none()), in_file("a.txt", json!([edit(0, 0, 1, "x")]))]),
            expect![
                "scripted: textDocument/rename: its edit changes a.txt after deleting or moving it; make the change by edits"
            ],
        ),
        (
            json!([in_file("none.txt", json!([edit(0, 0, 1, "x")]))]),
            expect!["scripted: textDocument/rename: none.txt does not exist"],
        ),
        (
            json!([moved("none.txt", "x.txt", none())]),
            expect!["scripted: textDocument/rename: none.txt does not exist"],
        ),
    ] {
        let error = outcome(&files, changes.clone()).await.unwrap_err();
        message.assert_eq(&relative(&error));
    }
}

#[tokio::test]
async fn the_options_of_file_operations_are_kept() {
    let files = [
        ("a.txt", "one"),
        ("b.txt", "two"),
        ("d/c.txt", "three"),
        ("e/c.txt", "four"),
        ("e/f.txt", "five"),
        ("e/s/g.txt", "six"),
    ];
    let overwrite = || json!({"overwrite": true, "ignoreIfExists": true});
    let ignore = || json!({"ignoreIfExists": true});
    let marked = in_file("a.txt", json!([edit(0, 0, 0, "+")]));
    for (change, expected) in [
        (file("create", "b.txt", overwrite()), vec!["a.txt: +one", "b.txt: "]),
        (file("create", "b.txt", ignore()), vec!["a.txt: +one"]),
        (moved("b.txt", "d/c.txt", overwrite()), vec!["a.txt: +one", "d/c.txt: two"]),
        (moved("b.txt", "d/c.txt", ignore()), vec!["a.txt: +one"]),
        (file("delete", "none.txt", json!({"ignoreIfNotExists": true})), vec!["a.txt: +one"]),
        // A directory replaces another one as a file does: as a whole.
        (
            moved("d", "e", overwrite()),
            vec!["a.txt: +one", "e/c.txt: three", "e/f.txt: (gone)", "e/s/g.txt: (gone)"],
        ),
        (
            json!([
                in_file("e/c.txt", json!([edit(0, 0, 1, "F")])),
                moved("d", "e", overwrite()),
                in_file("e/c.txt", json!([edit(0, 0, 1, "T")]))
            ]),
            vec!["a.txt: +one", "e/c.txt: Three", "e/f.txt: (gone)", "e/s/g.txt: (gone)"],
        ),
        (moved("d", "e", ignore()), vec!["a.txt: +one"]),
        (moved("d", "b.txt", ignore()), vec!["a.txt: +one"]),
    ] {
        let mut changes = vec![marked.clone()];
        match &change {
            Value::Array(several) => changes.extend(several.iter().cloned()),
            one => changes.push(one.clone()),
        }
        assert_eq!(outcome(&files, json!(changes)).await.unwrap(), expected, "{change}");
    }
    let mut errors = String::new();
    for change in [
        file("create", "b.txt", json!({})),
        file("create", "b.txt", json!({"overwrite": false})),
        moved("b.txt", "d/c.txt", json!(null)),
        moved("d", "b.txt", json!({})),
        moved("d", "e", json!({})),
        moved("e/s", "e", json!({"overwrite": true})),
        moved("d", "b.txt", json!({"overwrite": true})),
        file("delete", "none.txt", json!({})),
        file("delete", "/../out.txt", json!({"ignoreIfNotExists": true})),
    ] {
        let error = outcome(&files, json!([marked, change])).await.unwrap_err();
        errors.push_str(&format!("{}\n", relative(&error)));
    }
    expect![[r#"
        scripted: textDocument/rename: its edit creates b.txt, which exists already; move that file first
        scripted: textDocument/rename: its edit creates b.txt, which exists already; move that file first
        scripted: textDocument/rename: its edit creates d/c.txt, which exists already; move that file first
        scripted: textDocument/rename: its edit creates b.txt, which exists already; move that file first
        scripted: textDocument/rename: its edit creates e, which exists already; move that file first
        scripted: textDocument/rename: its edit creates e, which exists already; move that file first
        scripted: textDocument/rename: its edit creates b.txt, which exists already; move that file first
        scripted: textDocument/rename: none.txt does not exist
        scripted: textDocument/rename: its edit changes out.txt, which is outside the workspace; change that file by hand
    "#]]
    .assert_eq(&errors);
    // A directory that is not empty is deleted only if the server requests that; otherwise the plan
    // refuses it.
    let bench = bench(&files, renames(json!({"documentChanges": [file("delete", "d", json!({}))]})));
    let answer = bench.rename(&bench.doc("a.txt"), 0, "new", &cx(LONG)).await.unwrap();
    expect!["d cannot be changed like this: it is not empty: d/c.txt is in it"]
        .assert_eq(&relative(&bench.workspace.plan(answer.value).unwrap_err().to_string()));
}

#[tokio::test]
async fn inserted_text_gets_the_files_line_ends() {
    let put = json!([in_file("a.txt", json!([edit(0, 0, 1, "x\ny\r\nz")]))]);
    assert_eq!(
        outcome(&[("a.txt", "a\r\nb\r\n")], put.clone()).await.unwrap(),
        ["a.txt: x\r\ny\r\nz\r\nb\r\n"]
    );
    assert_eq!(outcome(&[("a.txt", "a\nb\n")], put).await.unwrap(), ["a.txt: x\ny\r\nz\nb\n"]);
}

#[tokio::test]
async fn confirmations_keep_their_words_and_counts() {
    let annotated = |start: u32, id: &str| json!({"range": range(0, start, start + 1), "newText": "x", "annotationId": id});
    let answer = json!({
        "documentChanges": [
            in_file("a.txt", json!([annotated(0, "sure"), annotated(1, "maybe"), annotated(2, "maybe")])),
            {"kind": "delete", "uri": "${root}/b.txt", "annotationId": "gone"},
        ],
        "changeAnnotations": {
            "sure": {"label": "code"},
            "maybe": {"label": "in comments", "needsConfirmation": true, "description": "guessed by name"},
            "gone": {"label": "unused file", "needsConfirmation": true},
            "unused": {"label": "nothing", "needsConfirmation": true},
        },
    });
    let bench = bench(&[("a.txt", "abc"), ("b.txt", "")], renames(answer));
    let answer = bench.rename(&bench.doc("a.txt"), 0, "new", &cx(LONG)).await.unwrap();
    assert_eq!(answer.value.confirm, ["unused file", "in comments, guessed by name (2 places)"]);
    assert_eq!(bench.workspace.plan(answer.value).unwrap().confirm().len(), 2);
}

#[tokio::test]
async fn snippet_edits_become_plain_text() {
    let changes = json!([in_file(
        "a.txt",
        json!([
            {"range": range(0, 0, 1), "newText": "fn ${1:name}($2) {\n    $0\n}", "insertTextFormat": 2},
            {"range": range(0, 1, 2), "newText": "$0 stays", "insertTextFormat": 1},
        ])
    )]);
    let outcome = outcome(&[("a.txt", "abc")], changes).await.unwrap();
    assert_eq!(outcome, ["a.txt: fn name() {\n    \n}$0 staysc"]);
}

#[tokio::test]
async fn missed_candidates_are_listed() {
    let edit = json!({"changes": {"${root}/a.txt": [{"range": range(0, 0, 3), "newText": "new"}]}});
    let places = json!([{"uri": "${root}/a.txt", "range": range(0, 0, 3)}]);
    let script = || {
        Script::new(json!({"textDocumentSync": 2, "renameProvider": true, "referencesProvider": true}))
            .on("textDocument/rename", [Step::Result(edit.clone())])
            .on("textDocument/references", [Step::Result(places.clone())])
    };
    let files = [("a.txt", "old"), ("b.txt", "an old one"), ("c.txt", "older")];
    for (more, reported) in [("", false), ("report_missed_candidates = true\n", true)] {
        let more = format!("open_candidates = true\n{more}");
        let bench = build(&files, vec![("scripted", script(), more.as_str())], |_| ());
        let doc = bench.doc("a.txt");
        let renamed = bench.rename(&doc, 0, "new", &cx(LONG)).await.unwrap();
        let found = bench.pool.references(&doc, 0, true, &cx(LONG)).await.unwrap();
        for notes in [renamed.notes, found.notes] {
            let (server, name) = ("scripted".to_owned(), "old".to_owned());
            let missed = Note::CandidatesMissed { server, name, files: vec![bench.path("b.txt")] };
            assert_eq!(notes, if reported { vec![missed] } else { Vec::new() });
        }
    }
}

#[tokio::test]
async fn candidates_of_other_packages_are_opened_for_rename() {
    let places = json!([{"range": range(0, 0, 3), "newText": "new"}]);
    let script = Script::new(json!({"textDocumentSync": 2, "renameProvider": true})).on(
        "textDocument/rename",
        [Step::Result(json!({"changes": {"${root}/x.txt": places, "${root}/../b/y.txt": places}}))],
    );
    let more = "open_candidates = true\n[root]\nmarkers = [\"package\"]\n";
    let files =
        [("a/package", ""), ("a/x.txt", "old"), ("b/package", ""), ("b/y.txt", "old"), ("b/z.txt", "other")];
    let bench = build(&files, vec![("scripted", script, more)], |_| ());
    let edit = bench.rename(&bench.doc("a/x.txt"), 0, "new", &cx(LONG)).await.unwrap().value;
    assert_eq!(bench.outcome(edit), ["a/x.txt: new", "b/y.txt: new"]);
    let opened = bench.got("scripted", "textDocument/didOpen");
    let opened: Vec<&Value> = opened.iter().map(|it| &it["textDocument"]["uri"]).collect();
    assert_eq!(opened, [&json!(bench.uri("a/x.txt")), &json!(bench.uri("b/y.txt"))]);
}

#[tokio::test]
async fn an_edit_after_the_end_is_refused_whole() {
    let place = json!({"range": {"start": {"line": 900, "character": 0}, "end": {"line": 900, "character": 1}},
        "newText": "new"});
    let script = renames(json!({"changes": {"${root}/a.txt": [edit(0, 0, 1, "new"), place]}}));
    let bench = bench(&[("a.txt", "a\nb")], script);
    let error = bench.rename(&bench.doc("a.txt"), 0, "new", &cx(LONG)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::StaleText);
    let said = error.to_string();
    assert!(said.contains("scripted") && said.contains("901:1") && said.contains("a.txt"), "{said}");
}
