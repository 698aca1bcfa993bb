//! What servers want changed, as edits that can be planned.

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
        refused(&bench, ErrorCode::NotFound, "it changes nothing").await;
    }
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
async fn a_file_that_no_server_follows_moves_alone_and_says_so() {
    let bench = bench(&[("a.txt", "text")], renames(Value::Null));
    let (from, to) = (bench.path("a.txt"), bench.path("c.txt"));
    let moved = bench.pool.rename_file(&from, &to, &cx(LONG)).await.unwrap();
    assert!(moved.note.unwrap().contains("was not mended"));
    assert_eq!(bench.outcome(moved.value), ["c.txt: text"]);
}
