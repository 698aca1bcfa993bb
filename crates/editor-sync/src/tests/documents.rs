//! Documents from the editor's notifications.

use policy::ErrorCode;
use serde_json::json;
use testing::editor::Personality;
use workspace::Owner;

use super::*;

async fn open_as(rig: &Rig, uri: &str, text: &str) {
    rig.editor.open(uri, "text", text).await;
    rig.synced(uri).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_use_the_client_encoding() {
    let line = "x = 'a😀é\u{301}𝒳\tß' # foo ß";
    for personality in all_personalities() {
        let rig = Rig::new(personality, &[("a", &format!("{line}\nlast"))]);
        let a = rig.open("a").await;
        rig.editor.type_after(&a, "😀", "ẞ").await;
        rig.synced(&a).await;
        rig.commit(vec![rig.replace("a", "foo", "bär𝒳")]).await.unwrap();
        let expected = line.replace("😀", "😀ẞ").replace("foo", "bär𝒳");
        assert_eq!(rig.editor.text(&a), format!("{expected}\nlast"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_keeps_the_line_ends_of_other_lines() {
    for personality in all_personalities() {
        let ends_with_cr = personality.name == "Neovim";
        let mut texts = vec!["a\r\nfoo\r\nb\r\n", "a\r\nfoo\r\nb", "foo", "a\nfoo", "\nfoo\n\n"];
        if ends_with_cr {
            // Others count every carriage return as a line end.
            texts.extend(["a\r\nfoo\nb\r\n", "a\rfoo\r\rb\n", "a\r\nfoo\rb\r\n"]);
        }
        for text in texts {
            let rig = Rig::new(personality.clone(), &[("a", text)]);
            let a = rig.open("a").await;
            rig.editor.type_in(&a, 0..0, "x").await;
            rig.synced(&a).await;
            rig.commit(vec![rig.replace("a", "foo", "b\na\nr")]).await.unwrap();
            let eol = if text.contains("\r\n") { "\r\n" } else { "\n" };
            let new = format!("b{eol}a{eol}r");
            assert_eq!(rig.editor.text(&a), format!("x{}", text.replace("foo", &new)), "{text:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_byte_order_mark_is_kept() {
    for inside in [true, false] {
        let rig = Rig::new(Personality::vscode(), &[("a", "\u{feff}foo\n")]);
        let uri = rig.uri("a");
        let mark = if inside { "\u{feff}" } else { "" };
        open_as(&rig, &uri, &format!("{mark}foo\n")).await;
        let document = rig.document("a");
        assert_eq!(
            (&*document.text, document.bom, document.owner),
            ("foo\n", true, Owner::Editor { dirty: false })
        );
        let plan = rig.plan(vec![rig.replace("a", "foo", "bar")]).unwrap();
        rig.editor.type_in(&uri, mark.len()..mark.len(), "x ").await;
        rig.synced(&uri).await;
        rig.commit_plan(plan).await.unwrap();
        assert_eq!(rig.editor.text(&uri), format!("{mark}x bar\n"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_may_jump_start_at_0_and_repeat() {
    let rig = Rig::new(Personality::vscode(), &[("a", "foo\n")]);
    let uri = rig.uri("a");
    let open = async |version: i32, text: &str| {
        let item = json!({ "uri": uri, "languageId": "text", "version": version, "text": text });
        rig.editor.notify("textDocument/didOpen", json!({ "textDocument": item })).await;
    };
    let change = async |version: i32, changes: serde_json::Value| {
        let id = json!({ "uri": uri, "version": version });
        let params = json!({ "textDocument": id, "contentChanges": changes });
        rig.editor.notify("textDocument/didChange", params).await;
    };
    let now = async |version: i32, text: &str| {
        let mut changes = rig.documents.changes();
        let wait = async {
            while {
                changes.borrow_and_update();
                !rig.documents.get(&uri).is_some_and(|open| open.version == version && *open.text == *text)
            } {
                changes.changed().await.unwrap();
            }
        };
        tokio::time::timeout(TIMEOUT, wait).await.unwrap_or_else(|_| panic!("version {version}: {text:?}"));
    };
    let at = |line: u32, from: u32, to: u32, text: &str| {
        let position = |character: u32| json!({ "line": line, "character": character });
        json!({ "range": { "start": position(from), "end": position(to) }, "text": text })
    };
    open(0, "foo\n").await;
    now(0, "foo\n").await;
    change(6, json!([at(0, 0, 0, "a"), at(0, 4, 4, "b")])).await;
    now(6, "afoob\n").await;
    // A whole text and a range in one notification.
    change(7, json!([{ "text": "new\n" }, at(0, 3, 3, "er"), at(1, 0, 0, "end")])).await;
    now(7, "newer\nend").await;
    let document = rig.document("a");
    let close = json!({ "textDocument": { "uri": uri } });
    rig.editor.notify("textDocument/didClose", close).await;
    open(7, "foo again\n").await;
    now(7, "foo again\n").await;
    // A plan for the earlier text is stale.
    let edits = vec![TextEdit::replace(0..3, "x")];
    let stale = Operation::Edit { path: document.path, expected: document.version, edits };
    assert_eq!(rig.plan(vec![stale]).unwrap_err().code(), ErrorCode::StaleText);
    // A position past the last line is the end of the text.
    let end = json!({ "start": { "line": 0, "character": 3 }, "end": { "line": 9, "character": 0 } });
    change(8, json!([{ "range": end, "text": "" }])).await;
    now(8, "foo").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_outside_of_the_text_blocks_edits() {
    let rig = Rig::new(Personality::vscode(), &[("a", "😀foo\n")]);
    let uri = rig.open("a").await;
    let position = json!({ "line": 0, "character": 1 });
    let change = json!({ "range": { "start": position, "end": position }, "text": "x" });
    let params = json!({ "textDocument": { "uri": uri, "version": 2 }, "contentChanges": [change] });
    rig.editor.notify("textDocument/didChange", params).await;
    rig.documents.changes().wait_for(|count| *count > 1).await.unwrap();
    let document = rig.document("a");
    expect_test::expect![
        "the editor reported a change at a place that is not in its text; close it and open it again"
    ]
    .assert_eq(&document.blocked.unwrap());
    let error = rig.plan(vec![rig.replace("a", "foo", "bar")]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Conflict, "{error}");
    // The whole text repairs it.
    rig.editor
        .notify(
            "textDocument/didChange",
            json!({
                "textDocument": { "uri": uri, "version": 3 }, "contentChanges": [{ "text": "😀foo\n" }],
            }),
        )
        .await;
    rig.documents.changes().wait_for(|count| *count > 2).await.unwrap();
    assert_eq!(rig.document("a").blocked, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_changes_give_the_editor_text() {
    let rig = Rig::new(Personality::vscode(), &[("a", "")]);
    let uri = rig.open("a").await;
    for n in 0..10_000usize {
        let len = rig.editor.text(&uri).len();
        let at = (n * 7919) % (len + 1);
        let text = if n % 50 == 0 { "\n" } else { "x" };
        rig.editor.type_in(&uri, at..(at + n % 2).min(len), text).await;
    }
    rig.synced(&uri).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsaved_text_is_read() {
    let rig = Rig::new(Personality::neovim(), &[("a", "saved\n")]);
    let a = rig.open("a").await;
    assert_eq!(rig.document("a").owner, Owner::Editor { dirty: false });
    rig.editor.type_in(&a, 0..0, "not ").await;
    rig.synced(&a).await;
    let document = rig.document("a");
    assert_eq!((&*document.text, document.owner), ("not saved\n", Owner::Editor { dirty: true }));
    assert_eq!((document.uri, document.blocked), (a.clone(), None));
    rig.editor.save(&a).await;
    rig.documents.changes().wait_for(|_| rig.documents.unsaved().is_empty()).await.unwrap();
    assert_eq!(rig.document("a").owner, Owner::Editor { dirty: false });
    rig.editor.close(&a).await;
    rig.documents.changes().wait_for(|_| rig.documents.all().is_empty()).await.unwrap();
    assert_eq!(rig.document("a").owner, Owner::Disk);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_file_is_not_dirty() {
    for (personality, text) in [(Personality::neovim(), "\n"), (Personality::vscode(), "")] {
        let rig = Rig::new(personality, &[("a", "")]);
        let a = rig.uri("a");
        open_as(&rig, &a, text).await;
        assert_eq!(rig.document("a").owner, Owner::Editor { dirty: false });
        rig.editor.type_in(&a, 0..0, "typed").await;
        rig.synced(&a).await;
        assert_eq!(rig.document("a").owner, Owner::Editor { dirty: true });
        rig.editor.type_in(&a, 0..5, "").await;
        rig.synced(&a).await;
        // The user saves the file, which is empty as before.
        rig.editor.notify("textDocument/didSave", json!({ "textDocument": { "uri": a } })).await;
        rig.documents.changes().wait_for(|_| rig.documents.unsaved().is_empty()).await.unwrap();
        assert_eq!(
            (rig.document("a").owner, rig.document("a").blocked),
            (Owner::Editor { dirty: false }, None)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_changed_on_disk_is_not_edited() {
    let rig = Rig::new(Personality::vscode(), &[("a", "one\nfoo\n"), ("b", "foo\n")]);
    let a = rig.open("a").await;
    rig.editor.type_in(&a, 0..0, "typed ").await;
    rig.synced(&a).await;
    let early = rig.plan(vec![rig.replace("a", "foo", "bar"), rig.replace("b", "foo", "bar")]).unwrap();
    rig.write("a", "checked out by git\nfoo\n");
    let document = rig.document("a");
    assert_eq!(&*document.text, "typed one\nfoo\n", "the editor's text is the truth");
    assert!(document.blocked.is_some_and(|reason| reason.contains("reload it")), "with the reason");
    let error = rig.plan(vec![rig.replace("a", "foo", "bar")]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Conflict, "{error}");
    let error = rig.commit_plan(early).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Conflict, "{error}");
    assert_eq!((rig.on_disk("b").as_str(), rig.edits_sent()), ("foo\n", 0));
    // The user reloads the file.
    rig.editor.reload(&a).await;
    rig.synced(&a).await;
    assert_eq!(rig.document("a").owner, Owner::Editor { dirty: false });
    rig.commit(vec![rig.replace("a", "foo", "bar")]).await.unwrap();
    assert_eq!(rig.editor.text(&a), "checked out by git\nbar\n");
    // The user saves instead, to keep the editor's text.
    rig.write("a", "once more\n");
    assert!(rig.document("a").blocked.is_some());
    rig.editor.save(&a).await;
    rig.documents.changes().wait_for(|_| rig.documents.unsaved().is_empty()).await.unwrap();
    rig.commit(vec![rig.replace("a", "bar", "qux")]).await.unwrap();
    // An edit does not create a deleted file again.
    std::fs::remove_file(rig.path("a")).unwrap();
    expect_test::expect![
        "its file was moved or deleted since the editor read it; close it in the editor, or save it there"
    ]
    .assert_eq(&rig.document("a").blocked.unwrap());
    let error = rig.plan(vec![rig.replace("a", "qux", "bar")]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Conflict, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_survives_a_reload_of_its_file() {
    let rig = Rig::new(Personality::vscode(), &[("a", "one\nfoo\n")]);
    let a = rig.open("a").await;
    let plan = rig.plan(vec![rig.replace("a", "foo", "bar")]).unwrap();
    rig.write("a", "zero\none\nfoo\n");
    rig.editor.reload(&a).await;
    rig.synced(&a).await;
    // The plan for the earlier text applies to the later one.
    rig.commit_plan(plan).await.unwrap();
    assert_eq!(rig.editor.text(&a), "zero\none\nbar\n");
    assert_eq!(rig.on_disk("a"), "zero\none\nfoo\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_spelling_of_a_uri_is_one_document() {
    for name in ["sp ace#1.txt", "100%.txt", "caf\u{e9}.txt", "cafe\u{301}.txt", "(auth)[id]+&.txt"] {
        let rig = Rig::new(Personality::vscode(), &[(name, "foo\n")]);
        let ours = rig.uri(name);
        // The client spells the URI with as few escapes as possible.
        let spelled = ours.replace("%28", "(").replace("%29", ")").replace("%5B", "[").replace("%5D", "]");
        let spelled = spelled
            .replace("%2B", "+")
            .replace("%26", "&")
            .replace("%C3%A9", "\u{e9}")
            .replace("%CC%81", "\u{301}");
        open_as(&rig, &spelled, "foo\n").await;
        assert_eq!(rig.documents.uri_of(&rig.path(name)), spelled);
        assert_eq!(rig.documents.get(&ours).unwrap().uri, spelled, "found by another spelling");
        rig.commit(vec![rig.replace(name, "foo", "bar")]).await.unwrap();
        assert_eq!(rig.editor.text(&spelled), "bar\n");
        let sent = &rig.editor.got_of("workspace/applyEdit")[0]["params"]["edit"]["documentChanges"][0];
        assert_eq!(sent["textDocument"]["uri"], spelled.as_str());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_without_files_have_no_paths() {
    let rig = Rig::new(Personality::vscode(), &[]);
    for uri in ["untitled:Untitled-1", "vscode-notebook-cell:/a#x", "zipfile:///a.zip::b"] {
        open_as(&rig, uri, "text").await;
        assert_eq!(rig.documents.get(uri).unwrap().path, None);
    }
    assert_eq!(workspace::Editor::documents(&*rig.port).len(), 0);
    assert_eq!(rig.documents.all().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_paths_of_one_file_are_one_document() {
    let rig = Rig::new(Personality::vscode(), &[("a", "foo\n")]);
    std::os::unix::fs::symlink(rig.path("a"), rig.path("link")).unwrap();
    let link = rig.open("link").await;
    assert_eq!(rig.workspace.resolve("link").unwrap(), rig.path("a"));
    assert_eq!(rig.documents.uri_of(&rig.path("a")), link);
    let a = rig.open("a").await;
    assert_eq!(workspace::Editor::documents(&*rig.port).len(), 1);
    rig.commit(vec![rig.replace("a", "foo", "bar")]).await.unwrap();
    let texts = [&a, &link].map(|uri| rig.editor.text(uri));
    assert_eq!((rig.edits_sent(), texts), (1, ["bar\n".to_owned(), "foo\n".to_owned()]), "applied once");
    // An edit of one of two unsaved texts loses the other.
    rig.editor.type_in(&link, 0..0, "typed ").await;
    rig.synced(&link).await;
    let error = rig.plan(vec![rig.replace("a", "foo", "qux")]).unwrap_err();
    assert!(error.to_string().contains("two names"), "{error}");
}
