//! What servers want changed, as edits that can be planned.

use std::time::Duration;

use serde_json::{Value, json};
use testing::language_server::{Script, Step};
use workspace::ErrorCode;

use crate::bench::{Bench, LONG, bench, build, cx, range};

fn edit(line: u32, start: u32, end: u32, text: &str) -> Value {
    json!({"range": range(line, start, end), "newText": text})
}

fn renames(answer: Value) -> Script {
    Script::new(json!({"renameProvider": true, "textDocumentSync": 2}))
        .on("textDocument/rename", [Step::Result(answer)])
}

async fn refused(bench: &Bench, code: ErrorCode, says: &str) {
    let error = bench.pool.rename(&bench.doc("a.txt"), 0, "new", &cx(LONG)).await.unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    assert!(error.to_string().contains(says), "{error}");
}

#[tokio::test]
async fn a_rename_reaches_files_that_are_not_open() {
    let answer = json!({"changes": {
        "${root}/a.txt": [edit(0, 0, 3, "new")],
        "${root}/sub%20dir/b.txt": [edit(1, 5, 8, "new"), edit(0, 0, 3, "new")],
    }});
    let bench = bench(&[("a.txt", "old"), ("sub dir/b.txt", "old\r\n😀is old\r\n")], renames(answer));
    let answer = bench.pool.rename(&bench.doc("a.txt"), 1, "new", &cx(LONG)).await.unwrap();
    assert_eq!(answer.value.label, "rename old to new");
    assert_eq!(bench.outcome(answer.value), ["a.txt: new", "sub dir/b.txt: new\r\n😀is new\r\n"]);
    let asked = &bench.got("scripted", "textDocument/rename")[0];
    assert_eq!((&asked["newName"], &asked["position"]["character"]), (&json!("new"), &json!(1)));
}

#[tokio::test]
async fn file_operations_and_edits_around_them() {
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
    let answer = bench.pool.rename(&bench.doc("a.txt"), 0, "new", &cx(LONG)).await.unwrap();
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
    refused(&bench, ErrorCode::StaleText, "is for version 7").await;
}

#[tokio::test]
async fn files_outside_the_workspace_are_refused_by_name() {
    let answer = json!({"changes": {
        "${root}/a.txt": [edit(0, 0, 1, "x")],
        "file:///usr/lib/lib.txt": [edit(0, 0, 1, "x")],
    }});
    let bench = bench(&[("a.txt", "abc")], renames(answer));
    refused(&bench, ErrorCode::Denied, "/usr/lib/lib.txt, which is outside the workspace").await;
}

#[tokio::test]
async fn edits_that_overlap_or_fit_nowhere_are_refused() {
    let overlap = json!({"changes": {"${root}/a.txt": [edit(0, 0, 2, "x"), edit(0, 1, 3, "y")]}});
    refused(&bench(&[("a.txt", "abc")], renames(overlap)), ErrorCode::StaleText, "overlap").await;
    let half = json!({"changes": {"${root}/a.txt": [edit(0, 1, 2, "x")]}});
    refused(&bench(&[("a.txt", "😀bc")], renames(half)), ErrorCode::StaleText, "no place 1:2").await;
}

#[tokio::test]
async fn a_rename_that_changes_nothing_is_an_error() {
    for nothing in [Value::Null, json!({"changes": {"${root}/a.txt": [edit(0, 0, 3, "abc")]}})] {
        let bench = bench(&[("a.txt", "abc")], renames(nothing));
        refused(&bench, ErrorCode::InvalidArguments, "it changes nothing").await;
    }
}

#[tokio::test]
async fn a_name_that_a_server_refuses_is_a_wrong_argument_in_its_words() {
    let script = Script::new(json!({"renameProvider": true, "textDocumentSync": 2}))
        .on("textDocument/rename", [Step::Error(json!({"code": -32803, "message": "no such identifier"}))]);
    refused(&bench(&[("a.txt", "abc")], script), ErrorCode::InvalidArguments, "no such identifier").await;
}

#[tokio::test]
async fn a_server_that_prepares_is_asked_first() {
    let script = Script::new(json!({"renameProvider": {"prepareProvider": true}, "textDocumentSync": 2}))
        .on("textDocument/prepareRename", [Step::Result(Value::Null)])
        .on("textDocument/prepareRename", [Step::Error(json!({"code": -32602, "message": "a keyword"}))])
        .on("textDocument/prepareRename", [Step::Result(range(0, 0, 3))])
        .on(
            "textDocument/rename",
            [Step::Result(json!({"changes": {"${root}/a.txt": [edit(0, 0, 3, "new")]}}))],
        );
    let bench = bench(&[("a.txt", "abc def")], script);
    refused(&bench, ErrorCode::InvalidArguments, "\"abc\" cannot be renamed").await;
    refused(&bench, ErrorCode::InvalidArguments, "a keyword").await;
    assert!(bench.got("scripted", "textDocument/rename").is_empty());
    let answer = bench.pool.rename(&bench.doc("a.txt"), 0, "new", &cx(LONG)).await.unwrap();
    assert_eq!(answer.value.label, "rename abc to new");
}

#[tokio::test]
async fn each_server_is_asked_for_what_it_is_good_at() {
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
    let renamed = bench.pool.rename(&doc, 0, "new", &cx(LONG)).await.unwrap();
    assert_eq!(renamed.server, "renamer");
    let error = bench.pool.format(&doc, Some(0..1), &cx(LONG)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported);
}

#[tokio::test]
async fn a_file_moves_with_what_refers_to_it() {
    let answer = json!({"documentChanges": [
        {"textDocument": {"uri": "${root}/b.txt", "version": null}, "edits": [edit(0, 4, 5, "c")]},
    ]});
    let files = json!({"filters": [{"pattern": {"glob": "**/*"}}]});
    let script =
        Script::new(json!({"workspace": {"fileOperations": {"willRename": files}}, "textDocumentSync": 2}))
            .on("workspace/willRenameFiles", [Step::Result(answer)]);
    let bench = bench(&[("a.txt", "text"), ("b.txt", "see a")], script);
    let (from, to) = (bench.path("a.txt"), bench.path("c.txt"));
    let moved = bench.pool.rename_file(&from, &to, &cx(LONG)).await.unwrap();
    assert_eq!((moved.value.label.as_str(), moved.note), ("move a.txt to c.txt", None));
    assert_eq!(bench.outcome(moved.value), ["b.txt: see c", "c.txt: text"]);
    let asked = &bench.got("scripted", "workspace/willRenameFiles")[0]["files"][0];
    assert_eq!(
        (&asked["oldUri"], &asked["newUri"]),
        (&json!(bench.uri("a.txt")), &json!(bench.uri("c.txt")))
    );
}

#[tokio::test]
async fn a_server_that_cannot_mend_a_move_to_another_folder_is_not_believed() {
    let answer = json!({"documentChanges": [
        {"textDocument": {"uri": "${root}/b.txt", "version": null}, "edits": [edit(0, 4, 5, "c")]},
    ]});
    let files = json!({"filters": [{"pattern": {"glob": "**/*"}}]});
    let script =
        Script::new(json!({"workspace": {"fileOperations": {"willRename": files}}, "textDocumentSync": 2}))
            .on("workspace/willRenameFiles", [Step::Result(answer)]);
    let more = "moves_within_folder = true\n";
    let bench = build(&[("a.txt", "text"), ("b.txt", "see a")], vec![("scripted", script, more)], |_| ());
    let from = bench.path("a.txt");
    let error = bench.pool.rename_file(&from, &bench.path("sub/c.txt"), &cx(LONG)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported);
    assert!(error.to_string().contains("keeps its folder"), "{error}");
    let moved = bench.pool.rename_file(&from, &bench.path("c.txt"), &cx(LONG)).await.unwrap();
    assert_eq!(bench.outcome(moved.value), ["b.txt: see c", "c.txt: text"]);
}

#[tokio::test]
async fn a_server_is_asked_of_moves_that_its_filters_name() {
    let answer = json!({"documentChanges": [
        {"textDocument": {"uri": "${root}/b.txt", "version": null}, "edits": [edit(0, 4, 5, "a whole.txt-moved")]},
    ]});
    let filter = |pattern: Value| json!({"scheme": "file", "pattern": pattern});
    let files = json!({"filters": [
        filter(json!({"glob": "**/KEPT/*.TXT", "matches": "file", "options": {"ignoreCase": true}})),
        filter(json!({"glob": "**/whole*", "matches": "folder"})),
        json!({"scheme": "untitled", "pattern": {"glob": "**"}}),
    ]});
    let script =
        Script::new(json!({"workspace": {"fileOperations": {"willRename": files}}, "textDocumentSync": 2}))
            .on("workspace/willRenameFiles", [Step::Result(answer)]);
    let texts = ["a.txt", "kept/a.txt", "kept/sub/a.txt", "other/a.txt", "whole/a.txt", "whole.txt"];
    let mut files: Vec<(&str, &str)> = texts.iter().map(|name| (*name, "text")).collect();
    files.push(("b.txt", "see a"));
    let bench = bench(&files, script);
    for (from, asked) in [
        ("a.txt", false),
        ("kept/a.txt", true),
        ("kept/sub/a.txt", false),
        ("other", false),
        ("whole", true),
        ("whole.txt", false),
    ] {
        let before = bench.got("scripted", "workspace/willRenameFiles").len();
        let to = bench.path(&format!("{from}-moved"));
        let moved = bench.pool.rename_file(&bench.path(from), &to, &cx(LONG)).await.unwrap();
        let after = bench.got("scripted", "workspace/willRenameFiles").len();
        assert_eq!(after - before, usize::from(asked), "{from}");
        assert_eq!(moved.note.is_some_and(|note| note.contains("was not mended")), !asked, "{from}");
    }
}

#[tokio::test]
async fn a_file_that_no_server_follows_moves_alone_and_says_so() {
    let bench = bench(&[("a.txt", "text")], renames(Value::Null));
    let (from, to) = (bench.path("a.txt"), bench.path("c.txt"));
    let moved = bench.pool.rename_file(&from, &to, &cx(LONG)).await.unwrap();
    assert!(moved.note.unwrap().contains("was not mended"));
    assert_eq!(bench.outcome(moved.value), ["c.txt: text"]);
}

#[tokio::test]
async fn servers_say_what_changes_with_files_that_come_and_go() {
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
    // None runs: nobody is started for it.
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

/// What `changes` come to, for a project of `files`.
async fn outcome(files: &[(&str, &str)], changes: Value) -> Result<Vec<String>, String> {
    let bench = bench(files, renames(json!({"documentChanges": changes})));
    let answer = bench.pool.rename(&bench.doc("a.txt"), 0, "new", &cx(LONG)).await;
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
async fn operations_are_followed_in_their_order() {
    let files = [("a.txt", "one"), ("b.txt", "two"), ("d/c.txt", "three")];
    let none = || json!({});
    for (changes, expected) in [
        // Edits behind a move are for the file that moved.
        (
            json!([moved("a.txt", "x.txt", none()), in_file("x.txt", json!([edit(0, 0, 3, "new")]))]),
            vec!["x.txt: new"],
        ),
        // Two files change places, then one of them is edited where it is by then.
        (
            json!([
                moved("a.txt", "t.txt", none()),
                moved("b.txt", "a.txt", none()),
                moved("t.txt", "b.txt", none()),
                in_file("a.txt", json!([edit(0, 0, 1, "T")]))
            ]),
            vec!["a.txt: Two", "b.txt: one"],
        ),
        // What is made can be edited, moved, edited again.
        (
            json!([
                file("create", "n.txt", none()),
                in_file("n.txt", json!([edit(0, 0, 0, "made")])),
                moved("n.txt", "m.txt", none()),
                in_file("m.txt", json!([edit(0, 4, 4, "!")]))
            ]),
            vec!["m.txt: made!"],
        ),
        // A file goes and another takes its name.
        (
            json!([
                file("delete", "a.txt", none()),
                file("create", "a.txt", none()),
                in_file("a.txt", json!([edit(0, 0, 0, "fresh")]))
            ]),
            vec!["a.txt: fresh"],
        ),
        // Edits of a folder's files before and after the folder moves.
        (
            json!([
                in_file("d/c.txt", json!([edit(0, 0, 1, "T")])),
                moved("d", "e", none()),
                in_file("e/c.txt", json!([edit(0, 1, 2, "H")]))
            ]),
            vec!["e/c.txt: THree"],
        ),
        // An edit of a file that goes is of no use.
        (
            json!([in_file("a.txt", json!([edit(0, 0, 1, "x")])), file("delete", "a.txt", none())]),
            vec!["a.txt: (gone)"],
        ),
        (json!([file("delete", "d", json!({"recursive": true}))]), vec!["d/c.txt: (gone)"]),
    ] {
        assert_eq!(outcome(&files, changes.clone()).await.unwrap(), expected, "{changes}");
    }
    for (changes, said) in [
        (
            json!([moved("a.txt", "x.txt", none()), in_file("a.txt", json!([edit(0, 0, 1, "x")]))]),
            "has taken away",
        ),
        (json!([in_file("none.txt", json!([edit(0, 0, 1, "x")]))]), "does not exist"),
        (json!([moved("none.txt", "x.txt", none())]), "does not exist"),
    ] {
        let error = outcome(&files, changes.clone()).await.unwrap_err();
        assert!(error.contains(said), "{changes}: {error}");
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
        // A folder takes the place of another as a file does: of the whole of it.
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
    for (change, said) in [
        (file("create", "b.txt", json!({})), "exists already"),
        (file("create", "b.txt", json!({"overwrite": false})), "exists already"),
        (moved("b.txt", "d/c.txt", json!(null)), "exists already"),
        (moved("d", "b.txt", json!({})), "exists already"),
        (moved("d", "e", json!({})), "exists already"),
        (moved("e/s", "e", json!({"overwrite": true})), "exists already"),
        (moved("d", "b.txt", json!({"overwrite": true})), "exists already"),
        (file("delete", "none.txt", json!({})), "does not exist"),
        (file("delete", "/../out.txt", json!({"ignoreIfNotExists": true})), "outside the workspace"),
    ] {
        let error = outcome(&files, json!([marked, change])).await.unwrap_err();
        assert!(error.contains(said), "{change}: {error}");
    }
    // A folder that is not empty goes only if the server says so: refused when it is planned.
    let bench = bench(&files, renames(json!({"documentChanges": [file("delete", "d", json!({}))]})));
    let answer = bench.pool.rename(&bench.doc("a.txt"), 0, "new", &cx(LONG)).await.unwrap();
    assert!(bench.workspace.plan(answer.value).unwrap_err().to_string().contains("not empty"));
}

#[tokio::test]
async fn what_is_put_into_a_file_has_its_line_ends() {
    let put = json!([in_file("a.txt", json!([edit(0, 0, 1, "x\ny\r\nz")]))]);
    assert_eq!(
        outcome(&[("a.txt", "a\r\nb\r\n")], put.clone()).await.unwrap(),
        ["a.txt: x\r\ny\r\nz\r\nb\r\n"]
    );
    assert_eq!(outcome(&[("a.txt", "a\nb\n")], put).await.unwrap(), ["a.txt: x\ny\r\nz\nb\n"]);
}

#[tokio::test]
async fn what_needs_confirmation_is_told_with_its_words_and_count() {
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
    let answer = bench.pool.rename(&bench.doc("a.txt"), 0, "new", &cx(LONG)).await.unwrap();
    assert_eq!(answer.value.confirm, ["unused file", "in comments, guessed by name (2 places)"]);
    assert_eq!(bench.workspace.plan(answer.value).unwrap().confirm().len(), 2);
}

#[tokio::test]
async fn snippets_come_as_the_text_that_they_leave() {
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
async fn files_that_hold_the_name_and_are_left_are_named_where_the_server_may_miss_some() {
    let edit = json!({"changes": {"${root}/a.txt": [{"range": range(0, 0, 3), "newText": "new"}]}});
    let places = json!([{"uri": "${root}/a.txt", "range": range(0, 0, 3)}]);
    let script = || {
        Script::new(json!({"textDocumentSync": 2, "renameProvider": true, "referencesProvider": true}))
            .on("textDocument/rename", [Step::Result(edit.clone())])
            .on("textDocument/references", [Step::Result(places.clone())])
    };
    let files = [("a.txt", "old"), ("b.txt", "an old one"), ("c.txt", "older")];
    for (more, told) in [("", false), ("names_holders_left = true\n", true)] {
        let more = format!("opens_holders = true\n{more}");
        let bench = build(&files, vec![("scripted", script(), more.as_str())], |_| ());
        let doc = bench.doc("a.txt");
        let renamed = bench.pool.rename(&doc, 0, "new", &cx(LONG)).await.unwrap();
        let found = bench.pool.references(&doc, 0, true, &cx(LONG)).await.unwrap();
        for note in [renamed.note, found.note].map(Option::unwrap_or_default) {
            assert_eq!(note.contains("b.txt"), told, "{note}");
            assert!(!note.contains("a.txt") && !note.contains("c.txt"), "{note}");
        }
    }
}

/// Three classes with a method `old`: `Top`, what overrides it in `Low`, and one that has only the name.
const FAMILY: &str = "Top old\nLow old\nLone old\nx.old\n";

fn family() -> Value {
    let class = |name: &str, line: u32| {
        let at = name.len() as u32 + 1;
        let method = json!({"name": "old", "kind": 6, "range": range(line, at, at + 3), "selectionRange": range(line, at, at + 3)});
        json!({"name": name, "kind": 5, "range": range(line, 0, at + 3), "selectionRange": range(line, 0, at - 1), "children": [method]})
    };
    json!([class("Top", 0), class("Low", 1), class("Lone", 2)])
}

fn in_family(line: u32, start: u32) -> Value {
    json!({"uri": "${root}/a.txt", "range": range(line, start, start + 3)})
}

/// What is noted when `old` at a byte is renamed where the server says that of each method in turn.
async fn left_behind(offset: usize, line: u32, more: &str, implementing: &[Value]) -> String {
    let answers = implementing.iter().map(|answer| Step::Result(answer.clone())).collect();
    left_behind_within(LONG, offset, line, more, answers).await
}

async fn left_behind_within(
    deadline: Duration,
    offset: usize,
    line: u32,
    more: &str,
    implementing: Vec<Step>,
) -> String {
    let start =
        u32::try_from(offset - FAMILY.lines().take(line as usize).map(|it| it.len() + 1).sum::<usize>())
            .unwrap();
    let edit = json!({"changes": {"${root}/a.txt": [edit(line, start, start + 3, "new")]}});
    let mut script = Script::new(json!({
        "textDocumentSync": 2, "renameProvider": true, "documentSymbolProvider": true, "referencesProvider": true,
        "implementationProvider": !implementing.is_empty(),
    }))
    .on("textDocument/rename", [Step::Result(edit)])
    .on("textDocument/documentSymbol", [Step::Result(family())])
    .on("textDocument/references", [Step::Result(json!([in_family(3, 2)]))]);
    for answer in implementing {
        script = script.on("textDocument/implementation", [answer]);
    }
    let bench = build(&[("a.txt", FAMILY)], vec![("scripted", script, more)], |_| ());
    let doc = bench.doc("a.txt");
    bench.pool.rename(&doc, offset, "new", &cx(deadline)).await.unwrap().note.unwrap_or_default()
}

#[tokio::test]
async fn what_has_less_time_than_the_call_does_not_say_that_it_had_all() {
    let said = left_behind_within(Duration::from_secs(2), 12, 1, "", vec![Step::Never]).await;
    let after = said.split_once("did not answer textDocument/implementation within ").unwrap().1;
    // 30 % of what the call has left.
    let millis: u64 = after.split_once("ms").unwrap().0.parse().unwrap();
    assert!((100..=600).contains(&millis) && millis.is_multiple_of(10), "{said}");
}

#[tokio::test]
async fn a_method_whose_base_or_override_keeps_its_name_is_told_with_the_uses_of_that() {
    let (top, low, lone) = (in_family(0, 4), in_family(1, 4), in_family(2, 5));
    // Of `Low`, then of `Top` and of `Lone`.
    let said = left_behind(12, 1, "", &[json!([low]), json!([top, low]), json!([lone])]).await;
    assert_eq!(
        said,
        "NOT renamed with it: what it overrides, Top.old (a.txt:1); a use of that, a.txt:4; rename all of these too, or a call through the `old` that it overrides no longer reaches it"
    );
    // What overrides the same is not what overrides it.
    let said = left_behind(12, 1, "", &[json!([low]), json!([top, low, lone]), json!([lone])]).await;
    assert!(
        said.contains("what it overrides, Top.old (a.txt:1); what overrides the same, Lone.old (a.txt:3)"),
        "{said}"
    );
    assert!(!said.contains("what overrides it,"), "{said}");
    // Of `Top`, then of `Lone`: what overrides it cannot be its base.
    let said = left_behind(4, 0, "", &[json!([top, low]), json!([lone])]).await;
    assert!(said.contains("what overrides it, Low.old (a.txt:2); a use of that, a.txt:4"), "{said}");
    assert!(said.ends_with("or a call of it no longer reaches what overrides it"), "{said}");
    assert!(!said.contains("Lone"), "{said}");
    // One that belongs to nothing.
    assert_eq!(left_behind(21, 2, "", &[json!([lone]), json!([top, low]), json!([low])]).await, "");
    // Nobody tells, or one that would say nothing true.
    let empty = "[needs]\nimplementation = []\n";
    for said in [left_behind(12, 1, "", &[]).await, left_behind(12, 1, empty, &[json!([low])]).await] {
        assert_eq!(
            said,
            "whether it overrides these or they override it is not known (scripted does not tell what overrides what): Top.old (a.txt:1), Lone.old (a.txt:3)"
        );
    }
}

/// A base whose name stands in more files than are looked at, before what overrides it does.
#[tokio::test]
async fn what_overrides_a_method_beyond_the_files_that_are_looked_at_is_asked_for_or_told_as_unknown() {
    let none = json!([]);
    let far = json!([{"uri": "${root}/z.txt", "range": range(0, 4, 7)}]);
    for (implementing, named) in [(far, true), (none, false)] {
        let others: Vec<String> = (0..41).map(|number| format!("b{number:02}.txt")).collect();
        let mut files: Vec<(&str, &str)> = others.iter().map(|name| (name.as_str(), "x.old()")).collect();
        files.extend([("a.txt", "Top old\n"), ("z.txt", "Low old\n")]);
        let script = Script::new(json!({
            "textDocumentSync": 2, "renameProvider": true, "documentSymbolProvider": true,
            "implementationProvider": true, "referencesProvider": true,
        }))
        .on(
            "textDocument/rename",
            [Step::Result(json!({"changes": {"${root}/a.txt": [edit(0, 4, 7, "new")]}}))],
        )
        .on("textDocument/documentSymbol", [Step::Result(json!([family()[0]]))])
        .on("textDocument/documentSymbol", [Step::Result(json!([]))])
        .on("textDocument/references", [Step::Result(json!([]))])
        .on("textDocument/implementation", [Step::Result(implementing)]);
        let bench = bench(&files, script);
        let renamed = bench.pool.rename(&bench.doc("a.txt"), 4, "new", &cx(LONG)).await.unwrap();
        let note = renamed.note.unwrap_or_default();
        assert_eq!(note.contains("NOT renamed with it: what overrides it, old (z.txt:1)"), named, "{note}");
        let unknown = "whether more methods named `old` belong to it is not known: ";
        assert!(note.contains(unknown), "{note}");
    }
}

#[tokio::test]
async fn members_that_are_not_asked_about_are_told() {
    let text = format!("Top old\n{}", "x.old\n".repeat(26));
    let edit = json!({"changes": {"${root}/a.txt": [edit(0, 4, 7, "new")]}});
    for (definition, said) in [
        (Step::Result(json!([])), "in a.txt mean is not known: 24 of 26 were asked about"),
        (Step::Error(json!({"code": -32603, "message": "it broke"})), "it broke"),
    ] {
        let script = Script::new(json!({
            "textDocumentSync": 2, "renameProvider": true, "documentSymbolProvider": true,
            "definitionProvider": true,
        }))
        .on("textDocument/rename", [Step::Result(edit.clone())])
        .on("textDocument/documentSymbol", [Step::Result(json!([family()[0]]))])
        .on("textDocument/definition", [definition]);
        let bench = bench(&[("a.txt", &text)], script);
        let renamed = bench.pool.rename(&bench.doc("a.txt"), 4, "new", &cx(LONG)).await.unwrap();
        let note = renamed.note.unwrap_or_default();
        assert!(note.contains("not known") && note.contains(said), "{note}");
    }
}

/// The walk over the project waits for a file of rules that nobody writes.
#[tokio::test]
async fn a_look_for_a_name_ends_with_the_time_of_the_call() {
    let class = json!([family()[0]]);
    let script = Script::new(
        json!({"textDocumentSync": 2, "renameProvider": true, "documentSymbolProvider": true, "hoverProvider": true}),
    )
    .on(
        "textDocument/rename",
        [Step::Result(json!({"changes": {"${root}/a.txt": [edit(0, 4, 7, "new")]}}))],
    )
    .on("textDocument/hover", [Step::Result(json!({"contents": "fine"}))])
    .on("textDocument/documentSymbol", [Step::Result(class)]);
    let bench = bench(&[("a.txt", "Top old\n"), ("deep/b.txt", "b")], script);
    bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    let rules = bench.path("deep/.gitignore");
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
    rustix::fs::mknodat(rustix::fs::CWD, rules.as_path(), kind, mode, 0).unwrap();
    let (doc, cx) = (bench.doc("a.txt"), cx(Duration::from_secs(3)));
    let renamed = tokio::time::timeout(Duration::from_secs(10), bench.pool.rename(&doc, 4, "new", &cx)).await;
    // Somebody writes it, so that nothing waits for it any more.
    drop(std::fs::OpenOptions::new().write(true).open(rules.as_path()).unwrap());
    std::fs::remove_file(rules.as_path()).unwrap();
    let note = renamed.expect("it ends").unwrap().note.unwrap_or_default();
    assert!(note.contains("whether more methods named `old` belong to it is not known"), "{note}");
}

/// `a.one` and `a.two` declare `old` in `Box`; the server renames in the file that it is asked about.
async fn renamed_in_two_sides(two: &str, answers: [Value; 2]) -> Result<Vec<String>, String> {
    let symbol = |line: u32| {
        json!({"name": "Box", "kind": 5, "range": range(0, 0, 3), "selectionRange": range(0, 0, 3), "children": [
            {"name": "old", "kind": 6, "range": range(line, 0, 3), "selectionRange": range(line, 0, 3)}
        ]})
    };
    let [first, second] = answers;
    let script =
        Script::new(json!({"textDocumentSync": 2, "renameProvider": true, "documentSymbolProvider": true}))
            .on("textDocument/documentSymbol", [Step::Result(json!([symbol(1)]))])
            .on("textDocument/documentSymbol", [Step::Result(json!([symbol(2)]))])
            .on("textDocument/rename", [Step::Result(json!({"changes": first}))])
            // Asked about the other side.
            .on("textDocument/rename", [Step::Result(json!({"changes": second}))]);
    let more = "opens_holders = true\ntwins = [[\"one\", \"two\"]]\n[[languages]]\nid = \"sides\"\npatterns = [\"*.one\", \"*.two\"]\n";
    let files = [("a.one", "Box\nold\n"), ("a.two", two), ("user.two", "old\n")];
    let bench = build(&files, vec![("scripted", script, more)], |_| ());
    match bench.pool.rename(&bench.doc("a.one"), 4, "new", &cx(LONG)).await {
        Ok(answer) => Ok(bench.outcome(answer.value)),
        Err(error) => Err(error.to_string()),
    }
}

#[tokio::test]
async fn both_sides_of_a_module_are_renamed_in_or_none() {
    let place = |line: u32| json!([{"range": range(line, 0, 3), "newText": "new"}]);
    let one = json!({"${root}/a.one": place(1)});
    let two = json!({"${root}/a.two": place(2)});
    let both = renamed_in_two_sides("Box\n\nold\n", [one.clone(), two]).await;
    assert_eq!(both.unwrap(), ["a.one: Box\nnew\n", "a.two: Box\n\nnew\n"]);
    let refused = renamed_in_two_sides("Box\n\nold\n", [one.clone(), json!({})]).await.unwrap_err();
    assert!(
        refused.contains("a.two:3 declares old too") && refused.contains("nothing is renamed"),
        "{refused}"
    );
    // What the server does not take for a use of this side may be one of the other.
    assert!(
        refused.contains("there first, and where it is used in user.two; then rename again"),
        "{refused}"
    );
    let alone = renamed_in_two_sides("Box\n\nolder\n", [one, json!({})]).await;
    assert_eq!(alone.unwrap(), ["a.one: Box\nnew\n"], "the other does not declare it");
}

const SIDES: &str =
    "twins = [[\"one\", \"two\"]]\n[[languages]]\nid = \"sides\"\npatterns = [\"*.one\", \"*.two\"]\n";

#[tokio::test]
async fn a_name_that_a_module_imports_is_renamed_in_its_other_file_too() {
    let at = |start: u32| json!([{"range": range(0, start, start + 3), "newText": "new"}]);
    let own = Step::Result(
        json!([{"name": "old", "kind": 12, "range": range(0, 0, 3), "selectionRange": range(0, 0, 3)}]),
    );
    let none = Step::Result(json!([]));
    let first = json!({"${root}/m.one": at(0), "${root}/i.one": at(14)});
    let renames = |changes: Value| [Step::Result(json!({"changes": changes}))];
    let script =
        Script::new(json!({"textDocumentSync": 2, "renameProvider": true, "documentSymbolProvider": true}))
            .on("textDocument/documentSymbol", [none.clone()])
            .on("textDocument/documentSymbol", [own.clone()])
            .on("textDocument/documentSymbol", [none])
            .on("textDocument/documentSymbol", [own])
            .on("textDocument/rename", renames(first.clone()))
            // Asked again with all of it open.
            .on("textDocument/rename", renames(first))
            // Of the one module's other file, which brings a user of it, and of that one's.
            .on("textDocument/rename", renames(json!({"${root}/i.two": at(0), "${root}/u.one": at(14)})))
            .on("textDocument/rename", renames(json!({"${root}/u.two": at(0)})));
    let files = [
        ("m.one", "old\n"),
        ("i.one", "from m import old\n"),
        ("i.two", "old\n"),
        ("u.one", "from i import old\n"),
        ("u.two", "old\n"),
    ];
    let bench = build(&files, vec![("scripted", script, SIDES)], |_| ());
    let answer = bench.pool.rename(&bench.doc("m.one"), 0, "new", &cx(LONG)).await.unwrap();
    assert_eq!(
        bench.outcome(answer.value),
        [
            "i.one: from m import new\n",
            "i.two: new\n",
            "m.one: new\n",
            "u.one: from i import new\n",
            "u.two: new\n"
        ]
    );
}

#[tokio::test]
async fn both_files_of_a_module_move() {
    let files = json!({"filters": [{"pattern": {"glob": "**/*"}}]});
    let script =
        Script::new(json!({"workspace": {"fileOperations": {"willRename": files}}, "textDocumentSync": 2}))
            .on("workspace/willRenameFiles", [Step::Result(Value::Null)]);
    let files = [("a.one", "1"), ("a.two", "2")];
    let bench = build(&files, vec![("scripted", script, SIDES)], |_| ());
    let from = bench.path("a.one");
    let moved = bench.pool.rename_file(&from, &bench.path("sub/c.one"), &cx(LONG)).await.unwrap();
    let note = moved.note.unwrap_or_default();
    assert!(note.contains("a.two") && note.contains("sub/c.two"), "{note}");
    let outcome = bench.outcome(moved.value);
    assert!(
        ["sub/c.one: 1", "sub/c.two: 2"].iter().all(|it| outcome.contains(&(*it).to_owned())),
        "{outcome:?}"
    );
    let other = bench.pool.rename_file(&from, &bench.path("c.txt"), &cx(LONG)).await.unwrap();
    assert!(other.note.unwrap_or_default().contains("a.two, which stands beside a.one, keeps its name"));
}

#[tokio::test]
async fn files_of_other_packages_that_hold_the_name_are_shown_to_who_renames() {
    let places = json!([{"range": range(0, 0, 3), "newText": "new"}]);
    let script = Script::new(json!({"textDocumentSync": 2, "renameProvider": true})).on(
        "textDocument/rename",
        [Step::Result(json!({"changes": {"${root}/x.txt": places, "${root}/../b/y.txt": places}}))],
    );
    let more = "opens_holders = true\n[root]\nmarkers = [\"package\"]\n";
    let files =
        [("a/package", ""), ("a/x.txt", "old"), ("b/package", ""), ("b/y.txt", "old"), ("b/z.txt", "other")];
    let bench = build(&files, vec![("scripted", script, more)], |_| ());
    let edit = bench.pool.rename(&bench.doc("a/x.txt"), 0, "new", &cx(LONG)).await.unwrap().value;
    assert_eq!(bench.outcome(edit), ["a/x.txt: new", "b/y.txt: new"]);
    let opened = bench.got("scripted", "textDocument/didOpen");
    let opened: Vec<&Value> = opened.iter().map(|it| &it["textDocument"]["uri"]).collect();
    assert_eq!(opened, [&json!(bench.uri("a/x.txt")), &json!(bench.uri("b/y.txt"))]);
}

/// A server that follows moves, and answers so when it is asked.
fn follows(answer: Value) -> Script {
    let all = json!({"filters": [{"pattern": {"glob": "**/*"}}]});
    Script::new(json!({"workspace": {"fileOperations": {"willRename": all}}, "textDocumentSync": 2}))
        .on("workspace/willRenameFiles", [Step::Result(answer)])
}

#[tokio::test]
async fn a_move_that_would_take_the_name_out_of_what_refers_to_the_file_is_refused() {
    for (new_text, refused) in [("", true), ("sigs", false)] {
        let answer = json!({"changes": {"${root}/b.txt": [edit(1, 6, 13, new_text)]}});
        let files = [("signals.txt", "text"), ("b.txt", "one\nfrom .signals import a\n")];
        let bench = bench(&files, follows(answer));
        let (from, to) = (bench.path("signals.txt"), bench.path("sigs.txt"));
        let moved = bench.pool.rename_file(&from, &to, &cx(LONG)).await;
        match (moved, refused) {
            (Ok(moved), false) => {
                let outcome = ["b.txt: one\nfrom .sigs import a\n", "sigs.txt: text"];
                assert_eq!(bench.outcome(moved.value), outcome);
            }
            (Err(error), true) => {
                assert_eq!(error.code(), ErrorCode::NotApplied);
                assert!(error.to_string().contains("\"signals\" out of b.txt:2"), "{error}");
            }
            (moved, _) => panic!("{new_text:?}: {moved:?}"),
        }
    }
}

#[tokio::test]
async fn files_that_hold_the_name_are_shown_to_who_moves_the_file() {
    let more = "opens_holders = true\n";
    let files = [("old.txt", "text"), ("b.txt", "see old"), ("c.txt", "see none")];
    let bench = build(&files, vec![("scripted", follows(Value::Null), more)], |_| ());
    let (from, to) = (bench.path("old.txt"), bench.path("new.txt"));
    bench.pool.rename_file(&from, &to, &cx(LONG)).await.unwrap();
    let record = bench.record("scripted");
    let asked = record.iter().position(|it| it["method"] == "workspace/willRenameFiles").unwrap();
    let uri = bench.uri("b.txt");
    let told = |part: &[Value], method: &str| {
        part.iter().any(|it| it["method"] == method && it["params"]["textDocument"]["uri"] == *uri)
    };
    assert!(told(&record[..asked], "textDocument/didOpen"), "{record:#?}");
    assert!(!format!("{record:?}").contains("c.txt"));
    assert!(!told(&record[..asked], "textDocument/didClose"));
}

/// What is told about a move with which the server mends nothing.
async fn told_of_move(from: &str, to: &str, files: &[(&str, &str)]) -> String {
    let all = json!({"filters": [{"pattern": {"glob": "**/*"}}]});
    let script =
        Script::new(json!({"workspace": {"fileOperations": {"willRename": all}}, "textDocumentSync": 2}))
            .on("workspace/willRenameFiles", [Step::Result(Value::Null)]);
    let bench = bench(files, script);
    let moved = bench.pool.rename_file(&bench.path(from), &bench.path(to), &cx(LONG)).await.unwrap();
    // Scripted servers speak of `*.txt` alone.
    let note = moved.note.unwrap_or_default();
    let alone = "no language server follows this file's name: what refers to it was not mended";
    note.strip_prefix(alone).unwrap_or(&note).trim_start_matches("; ").to_owned()
}

#[tokio::test]
async fn imports_of_python_that_are_left_behind_are_named() {
    let note = told_of_move(
        "src/click/core.py",
        "src/click/heart.py",
        &[
            ("src/click/__init__.py", "from .core import run\n"),
            ("src/click/core.py", "def run(): pass\n"),
            ("src/click/types.py", "import os\nfrom click.core import run\nfrom . import (\n    core,\n)\n"),
            ("src/click/sub/__init__.py", "from ..core import run\nfrom .core import other\n"),
            ("src/click/sub/core.py", ""),
            (
                "tests/t.py",
                "from click import core\nimport click.cores\nimport core\nmock('click.core.run')\n",
            ),
            ("tests/core.py", "other.click.core\nclick.core_of\n"),
            ("README.md", "see src/click/core.py and src/click/core.pyx\n"),
        ],
    )
    .await;
    assert_eq!(
        note,
        "still names the old place, as text: README.md:1, src/click/__init__.py:1, \
         src/click/sub/__init__.py:1, src/click/types.py:2, src/click/types.py:4, tests/t.py:1, tests/t.py:4"
    );
}

#[tokio::test]
async fn imports_of_scripts_that_are_left_behind_are_named() {
    let lines = "import a from \"../helpers/a.js\";\nimport b from '../helpers/b';\nrequire('../helpers');\n\
        import(\"../helpers/gone.js\");\nimport c from \"./helpers/a.js\";\n// don't: '../helpers/a'\n";
    let note = told_of_move(
        "helpers",
        "aids",
        &[
            ("helpers/a.ts", "import './b';\nimport '../helpers/b.js';\n"),
            ("helpers/b.ts", ""),
            ("helpers/index.ts", ""),
            ("tests/a.ts", lines),
            ("tests/helpers/a.js", ""),
            ("package.json", "{\"main\": \"./helpers/a.ts\", \"name\": \"helpers\"}"),
        ],
    )
    .await;
    assert_eq!(
        note,
        "still names the old place, as text: aids/a.ts:2, package.json:1, tests/a.ts:1, tests/a.ts:2, \
         tests/a.ts:3, tests/a.ts:4, tests/a.ts:6"
    );
}

#[tokio::test]
async fn what_still_leads_somewhere_names_no_old_place() {
    let files = [
        ("pkg/__init__.py", "from .engine import core\n"),
        ("pkg/core.py", ""),
        ("pkg/engine.py", "core = 1\n"),
        ("use.py", "from pkg import core\n"),
    ];
    assert_eq!(told_of_move("pkg/core.py", "pkg/heart.py", &files).await, "");
    let files = [("a.ts", ""), ("use.ts", "import './a';\nimport './a/index.js';\n")];
    assert_eq!(told_of_move("a.ts", "a/index.ts", &files).await, "");
    let files = [("src/lib.rs", "mod a;\n"), ("src/a.rs", ""), ("src/b.rs", "use crate::a::b;\n")];
    assert_eq!(told_of_move("src/a.rs", "src/a/mod.rs", &files).await, "");
}

#[tokio::test]
async fn modules_and_includes_that_are_left_behind_are_named_a_dozen_of_them() {
    let uses = "use crate::a::X;\nuse crate::ab::X;\n".repeat(13);
    let files = [("src/lib.rs", "pub mod a;\nmod ba;\n"), ("src/a.rs", ""), ("src/b.rs", uses.as_str())];
    let note = told_of_move("src/a.rs", "src/c.rs", &files).await;
    assert!(note.starts_with("still names the old place, as text: src/b.rs:1, src/b.rs:3, "), "{note}");
    assert!(note.ends_with("src/b.rs:23 and 2 more lines; look for the old name with `grep`"), "{note}");
    let files = [
        ("include/x/a.h", ""),
        ("src/a.c", "#include \"x/a.h\"\n#include <y/a.h>\n#include \"a.h\"\n"),
        ("src/a.h", ""),
    ];
    let note = told_of_move("include/x/a.h", "include/x/b.h", &files).await;
    assert_eq!(note, "still names the old place, as text: src/a.c:1");
    // From the workspace's own folder, and however it is spelled.
    let files = [
        ("util.h", ""),
        ("src/a.c", "#include \"util.h\"\n  # include <util.h>\n#import <util.h>\n#include <x/util.h>\n"),
        ("doc/README.md", "# includes `util.h`\n"),
    ];
    let note = told_of_move("util.h", "helper.h", &files).await;
    assert_eq!(note, "still names the old place, as text: src/a.c:1, src/a.c:2, src/a.c:3");
    // Whether the new place is meant says what the compiler is told to search.
    let files = [
        ("include/foo/a.h", ""),
        ("include/foo/b.h", ""),
        ("src/a.c", "#include <foo/a.h>\n#include <a.h>\n#include <include/foo/a.h>\n"),
    ];
    let doubt =
        "`#include` lines that may need another search folder (`-I`) now, if they mean what moves: src/a.c:1";
    let note = told_of_move("include/foo/a.h", "lib/foo/a.h", &files).await;
    assert_eq!(note, format!("still names the old place, as text: src/a.c:3; {doubt}, src/a.c:2"));
    let note = told_of_move("include/foo", "lib/foo", &files).await;
    assert_eq!(note, format!("still names the old place, as text: src/a.c:3; {doubt}"));
    // In what lists a project's files a name stands alone.
    let files = [
        ("a.c", ""),
        ("Makefile", "a.o: a.c b.c\n\tcc -c a.c\n"),
        ("CMakeLists.txt", "add_executable(x ba.c a.c)\n"),
        ("sub/CMakeLists.txt", "add_executable(x a.c)\n"),
        ("NEWS", "a.c is new\n"),
    ];
    let note = told_of_move("a.c", "c.c", &files).await;
    assert_eq!(note, "still names the old place, as text: CMakeLists.txt:1, Makefile:1, Makefile:2");
}

/// The outcome and what is told about a move that no server knows anything of.
async fn move_of(files: &[(&str, &str)], from: &str, to: &str) -> (Vec<String>, String) {
    let bench = bench(files, Script::new(json!({"textDocumentSync": 2})));
    let moved = bench.pool.rename_file(&bench.path(from), &bench.path(to), &cx(LONG)).await.unwrap();
    (bench.outcome(moved.value), moved.note.unwrap_or_default())
}

#[tokio::test]
async fn includes_follow_a_header_where_they_lead_to_it_from_their_own_file() {
    let files = [
        ("lib/a.h", "#include \"b.h\"\n#include <a.h>\n"),
        ("lib/b.h", ""),
        ("lib/a.c", "#include \"./a.h\"\n#include \"../lib/a.h\"\n"),
        ("main.cpp", "#include \"lib/a.h\" // \"lib/a.h\"\n#include \"b.h\"\n"),
        ("test/t.c", "#include \"a.h\"\n"),
        ("README.md", "#include \"lib/a.h\"\n"),
    ];
    // In its folder.
    let (outcome, note) = move_of(&files, "lib/a.h", "lib/c.h").await;
    assert_eq!(
        outcome,
        [
            "lib/a.c: #include \"./c.h\"\n#include \"../lib/c.h\"\n",
            "lib/c.h: #include \"b.h\"\n#include <a.h>\n",
            "main.cpp: #include \"lib/c.h\" // \"lib/a.h\"\n#include \"b.h\"\n",
        ]
    );
    assert_eq!(
        note,
        "no language server follows this file's name: 3 `#include` lines in 2 files mended, nothing else; \
         still names the old place, as text: README.md:1, lib/c.h:2, main.cpp:1, test/t.c:1"
    );
    // To another one: what it includes itself is named from there.
    let (outcome, note) = move_of(&files, "lib/a.h", "test/a.h").await;
    assert_eq!(
        outcome,
        [
            "lib/a.c: #include \"../test/a.h\"\n#include \"../test/a.h\"\n",
            "main.cpp: #include \"test/a.h\" // \"lib/a.h\"\n#include \"b.h\"\n",
            "test/a.h: #include \"../lib/b.h\"\n#include <a.h>\n",
        ]
    );
    assert!(note.contains("4 `#include` lines in 3 files mended, nothing else"), "{note}");
    // A folder: what is within it keeps together.
    let (outcome, _) = move_of(&files, "lib", "src/lib").await;
    let is = |line: &str| outcome.contains(&line.to_owned());
    assert!(is("main.cpp: #include \"src/lib/a.h\" // \"lib/a.h\"\n#include \"b.h\"\n"), "{outcome:?}");
    assert!(is("src/lib/a.c: #include \"./a.h\"\n#include \"../lib/a.h\"\n"), "{outcome:?}");
    assert!(is("src/lib/a.h: #include \"b.h\"\n#include <a.h>\n"), "{outcome:?}");
}

#[tokio::test]
async fn an_include_that_another_file_answers_after_a_move_is_told() {
    let files = [
        ("inc/config.h", ""),
        ("src/old.h", ""),
        ("src/main.c", "\n#include \"config.h\"\n"),
        ("tools/config.h", ""),
    ];
    let told = "`#include` lines that lead from their own folder to another file than before, not mended: ";
    let (outcome, note) = move_of(&files, "src/old.h", "src/config.h").await;
    assert_eq!(outcome, ["src/config.h: "]);
    assert!(note.ends_with(&format!("{told}src/main.c:2 (to src/config.h)")), "{note}");
    let (_, note) = move_of(&files, "src/main.c", "tools/main.c").await;
    assert!(note.ends_with(&format!("{told}tools/main.c:2 (to tools/config.h)")), "{note}");
    let (_, note) = move_of(&files, "src/main.c", "tools/deep/main.c").await;
    assert!(!note.contains(told), "{note}");
    // A folder in which one is that was not there.
    let files = [("main.c", "#include \"x/a.h\"\n"), ("inc/x/a.h", ""), ("y/a.h", "")];
    let (_, note) = move_of(&files, "y", "x").await;
    assert!(note.ends_with(&format!("{told}main.c:1 (to x/a.h)")), "{note}");
}

#[tokio::test]
async fn an_include_through_a_folder_that_moves_is_mended() {
    let files = [
        ("src/o.h", ""),
        ("src/x/a.h", ""),
        ("src/x/m.c", "#include \"../x/../o.h\"\n"),
        ("src/main.c", "#include \"x/../o.h\"\n#include \"./o.h\"\n"),
        ("src/y/deep/n.c", "#include \"../../x/../o.h\"\n"),
    ];
    let (outcome, note) = move_of(&files, "src/x", "src/z").await;
    let is = |line: &str| outcome.contains(&line.to_owned());
    assert!(is("src/main.c: #include \"o.h\"\n#include \"./o.h\"\n"), "{outcome:?}");
    assert!(is("src/z/m.c: #include \"../o.h\"\n"), "{outcome:?}");
    assert!(is("src/y/deep/n.c: #include \"../../o.h\"\n"), "{outcome:?}");
    assert!(note.contains("3 `#include` lines in 3 files mended"), "{note}");
}

#[cfg(unix)]
#[tokio::test]
async fn an_include_that_led_through_a_link_to_what_moves_is_told() {
    let files = [("src/a.h", ""), ("inc/x.h", ""), ("b.c", "#include \"inc/a.h\"\n#include \"srcl/a.h\"\n")];
    let bench = bench(&files, Script::new(json!({"textDocumentSync": 2})));
    std::os::unix::fs::symlink("../src/a.h", bench.path("inc/a.h").as_path()).unwrap();
    std::os::unix::fs::symlink("src", bench.path("srcl").as_path()).unwrap();
    let (from, to) = (bench.path("src/a.h"), bench.path("src/b.h"));
    let note = bench.pool.rename_file(&from, &to, &cx(LONG)).await.unwrap().note.unwrap_or_default();
    assert!(note.contains("not mended: b.c:1 (to none), b.c:2 (to none)"), "{note}");
    // The folder to which the link leads.
    let (from, to) = (bench.path("src"), bench.path("source"));
    let note = bench.pool.rename_file(&from, &to, &cx(LONG)).await.unwrap().note.unwrap_or_default();
    assert!(note.contains("not mended: b.c:1 (to none), b.c:2 (to none)"), "{note}");
}

#[tokio::test]
async fn a_file_that_is_no_text_is_told_where_its_includes_cannot_be_mended() {
    let bench = bench(&[("a.h", ""), ("b.c", "")], Script::new(json!({"textDocumentSync": 2})));
    std::fs::write(bench.path("b.c").as_path(), b"// \xe9\n#include \"a.h\"\n").unwrap();
    let moved = bench.pool.rename_file(&bench.path("a.h"), &bench.path("c.h"), &cx(LONG)).await.unwrap();
    let note = moved.note.unwrap_or_default();
    assert!(
        note.ends_with("not searched for `#include` lines, since they are not UTF-8 text: b.c"),
        "{note}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn an_include_that_leads_through_a_link_is_not_mended() {
    let files = [("a.h", ""), ("deep/er/x.h", ""), ("b.c", "#include \"link/../a.h\"\n")];
    let bench = bench(&files, Script::new(json!({"textDocumentSync": 2})));
    // From there `..` leads into `deep`, whatever the spelling says.
    std::os::unix::fs::symlink("deep/er", bench.path("link").as_path()).unwrap();
    let moved = bench.pool.rename_file(&bench.path("a.h"), &bench.path("c.h"), &cx(LONG)).await.unwrap();
    assert_eq!(bench.outcome(moved.value), ["c.h: "]);
}

#[tokio::test]
async fn an_edit_that_begins_behind_the_end_is_refused_whole() {
    let place = json!({"range": {"start": {"line": 900, "character": 0}, "end": {"line": 900, "character": 1}},
        "newText": "new"});
    let script = renames(json!({"changes": {"${root}/a.txt": [edit(0, 0, 1, "new"), place]}}));
    let bench = bench(&[("a.txt", "a\nb")], script);
    let error = bench.pool.rename(&bench.doc("a.txt"), 0, "new", &cx(LONG)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::StaleText);
    let said = error.to_string();
    assert!(said.contains("scripted") && said.contains("901:1") && said.contains("a.txt"), "{said}");
}
