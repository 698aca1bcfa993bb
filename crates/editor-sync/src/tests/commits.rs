//! Commits and undo across open and closed files.

use std::time::Instant;

use policy::ErrorCode;
use testing::editor::{Fault, Personality};
use workspace::{Editor as _, Owner};

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_files_change_in_the_editor_and_closed_ones_on_the_disk() {
    for personality in all_personalities() {
        let rig = Rig::new(personality, &[("a", "foo\n"), ("b", "foo\n"), ("c", "foo\n")]);
        let (a, b) = (rig.open("a").await, rig.open("b").await);
        // b has unsaved typing.
        rig.editor.type_in(&b, 0..0, "typed\n").await;
        rig.synced(&b).await;
        let all = |rig: &Rig| ["a", "b", "c"].map(|path| rig.replace(path, "foo", "bar")).to_vec();
        rig.commit(all(&rig)).await.unwrap();
        assert_eq!([&a, &b].map(|uri| rig.editor.text(uri)), ["bar\n", "typed\nbar\n"]);
        assert_eq!(["a", "b", "c"].map(|path| rig.on_disk(path)), ["foo\n", "foo\n", "bar\n"]);
        assert_eq!(rig.documents.unsaved(), [rig.path("a"), rig.path("b")], "nothing is saved");
        assert!(
            rig.editor.got_of("workspace/applyEdit").iter().all(|edit| edit["params"]["metadata"].is_null())
        );
        // Undo after more typing goes through the editor too.
        rig.editor.type_in(&b, 0..0, "more ").await;
        rig.synced(&b).await;
        rig.undo().await.unwrap();
        assert_eq!([&a, &b].map(|uri| rig.editor.text(uri)), ["foo\n", "more typed\nfoo\n"]);
        assert_eq!(["a", "b", "c"].map(|path| rig.on_disk(path)), ["foo\n"; 3]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_are_mapped_over_typing_after_the_plan() {
    let rig = Rig::new(Personality::vscode(), &[("a", "1\n2\n3\nfoo\n")]);
    let a = rig.open("a").await;
    let plan = rig.plan(vec![rig.replace("a", "foo", "bar")]).unwrap();
    rig.editor.type_in(&a, 4..4, "three\nand ").await;
    rig.synced(&a).await;
    let commit = rig.commit_plan(plan).await.unwrap();
    assert_eq!(rig.editor.text(&a), "1\n2\nthree\nand 3\nbar\n");
    assert_eq!(commit.files[0].edits, [TextEdit::replace(16..19, "bar")], "the commit has the final place");
    // Typing in the place is a conflict, and nothing is sent.
    let plan = rig.plan(vec![rig.replace("a", "bar", "qux")]).unwrap();
    rig.editor.type_after(&a, "ba", "X").await;
    rig.synced(&a).await;
    let error = rig.commit_plan(plan).await.unwrap_err();
    assert_eq!((error.code(), rig.edits_sent()), (ErrorCode::StaleText, 1));
    // Undo does not overwrite the typing either.
    assert!(rig.workspace.plan_undo(&Undo::LastRun).is_err());
    assert_eq!(rig.editor.text(&a), "1\n2\nthree\nand 3\nbaXr\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_commit_reports_every_file() {
    let mut reports = Vec::new();
    for personality in [Personality::neovim(), Personality::vscode()] {
        let rig = Rig::new(personality, &[("a", "foo\n"), ("b", "foo\nfoo\n"), ("c", "foo\n")]);
        let (a, b) = (rig.open("a").await, rig.open("b").await);
        let separate = rig.editor.got().is_empty() && rig.documents.get(&a).unwrap().version == 0;
        if separate {
            rig.editor.fault(Fault::Fine);
        }
        rig.editor.fault(Fault::Half { applied: true });
        let all = ["a", "b", "c"].map(|path| rig.replace(path, "foo", "bar")).to_vec();
        let error = rig.commit(all).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::NotApplied, "{error}");
        let CommitError::NotApplied { detail, .. } = &error else { panic!("{error}") };
        reports.push(detail.replace(&format!("{}/", rig.workspace.root()), ""));
        assert_eq!([&a, &b].map(|uri| rig.editor.text(uri)), ["foo\n", "foo\nfoo\n"]);
        assert_eq!(rig.on_disk("c"), "foo\n");
        assert!(rig.workspace.history().unwrap().is_empty());
        // A revert that the editor refuses is reported.
        if separate {
            rig.editor.fault(Fault::Fine);
        }
        rig.editor.fault(Fault::Half { applied: true });
        rig.editor.fault(Fault::Refuse);
        rig.editor.fault(Fault::Refuse);
        let all = ["a", "b", "c"].map(|path| rig.replace(path, "foo", "bar")).to_vec();
        let error = rig.commit(all).await.unwrap_err();
        let CommitError::PartlyReverted { details } = &error else { panic!("{error}") };
        let root = format!("{}/", rig.workspace.root());
        reports.push(details.join("\n").replace(&root, ""));
        assert_eq!(rig.on_disk("c"), "foo\n");
    }
    expect_test::expect![[r#"
        a: reverted; b: unchanged (the editor misplaced it, and it was reverted: the editor applied only a part of it); c: unchanged

        a: reverted
        b: could not be reverted, because the editor misplaced it: the editor applied only a part of it; the editor did not apply the revert either: the editor refused it without a reason
        c: unchanged

        a: reverted; b: unchanged (the editor misplaced it, and it was reverted: the editor applied only a part of it); c: unchanged

        a: reverted
        b: could not be reverted, because the editor misplaced it: the editor applied only a part of it; the editor did not apply the revert either: the editor refused it without a reason
        c: unchanged"#]].assert_eq(&reports.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_waits_for_an_edit_in_flight() {
    let rig = Rig::new(Personality::vscode(), &[("a", "foo\n"), ("b", "foo\n")]);
    let a = rig.open("a").await;
    rig.open("b").await;
    rig.editor.withhold();
    rig.editor.fault(Fault::Late);
    let plan = rig.plan(vec![rig.replace("a", "foo", "bar")]).unwrap();
    let (workspace, path) = (rig.workspace.clone(), rig.path("a"));
    let (commit, ()) = tokio::join!(rig.commit_plan(plan), async {
        rig.editor.until("the edit", |got| !got.is_empty()).await;
        let read = tokio::spawn(async move { workspace.document(&path).unwrap().text.to_string() });
        // Other files do not wait.
        assert_eq!(&*rig.document("b").text, "foo\n");
        // Code actions do not wait either.
        assert_eq!(&*rig.documents.by_path(&rig.path("a")).unwrap().text, "foo\n");
        assert!(!read.is_finished());
        rig.editor.flush().await;
        rig.editor.release();
        assert_eq!(read.await.unwrap(), "bar\n");
    });
    commit.unwrap();
    assert_eq!(rig.editor.text(&a), "bar\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_are_sent_one_after_the_other() {
    let rig = Rig::new(Personality::vscode(), &[("a", "1\n"), ("b", "1\n")]);
    rig.open("a").await;
    rig.open("b").await;
    rig.editor.fault(Fault::Late);
    let changes: Vec<_> = ["a", "b"]
        .map(|path| rig.plan(vec![rig.replace(path, "1", "2")]).unwrap().changes().to_vec())
        .into_iter()
        .collect();
    let run = RunId::new();
    let applied = changes.iter().map(|changes| rig.port.apply(&run, changes)).collect::<Vec<_>>();
    let [one, other] = <[_; 2]>::try_from(applied).ok().unwrap();
    let (first, second, ()) = tokio::join!(one, other, async {
        rig.editor.until("an edit", |got| !got.is_empty()).await;
        rig.synced(&rig.uri("a")).await;
        assert_eq!(rig.edits_sent(), 1);
        rig.editor.release();
    });
    assert_eq!(
        (first, second),
        (vec![workspace::ApplyOutcome::Applied], vec![workspace::ApplyOutcome::Applied])
    );
    assert_eq!(rig.edits_sent(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_decides_an_edit_in_flight() {
    for made in [true, false] {
        let rig = Rig::new(Personality::vscode(), &[("a", "foo\n")]);
        let a = rig.open("a").await;
        rig.editor.withhold();
        rig.editor.fault(Fault::Silent { made });
        let plan = rig.plan(vec![rig.replace("a", "foo", "bar")]).unwrap();
        let run = RunId::new();
        let (result, stopped_at) = tokio::join!(rig.commit_plan_of(&run, plan), async {
            rig.editor.until("the edit", |got| !got.is_empty()).await;
            rig.port.stop_run(&run);
            rig.editor.flush().await;
            Instant::now()
        });
        assert!(stopped_at.elapsed() < std::time::Duration::from_millis(1900), "{:?}", stopped_at.elapsed());
        assert_eq!(result.is_ok(), made, "the result says whether it was applied");
        assert_eq!(rig.editor.text(&a), if made { "bar\n" } else { "foo\n" });
        assert_eq!(rig.edits_sent(), 1);
    }
    // An edit that is not yet sent is not sent.
    let rig = Rig::new(Personality::neovim(), &[("a", "foo\n")]);
    rig.open("a").await;
    let plan = rig.plan(vec![rig.replace("a", "foo", "bar")]).unwrap();
    let changes = plan.changes().to_vec();
    let run = RunId::new();
    let (outcomes, ()) = tokio::join!(rig.port.apply(&run, &changes), async { rig.port.stop_run(&run) });
    assert!(
        matches!(&outcomes[..], [workspace::ApplyOutcome::NotApplied { reason: Some(reason) }] if reason.contains("stopped"))
    );
    assert_eq!(rig.edits_sent(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_a_run_does_not_affect_others() {
    let rig = Rig::new(Personality::vscode(), &[("a", "foo\n"), ("b", "foo\n")]);
    let (a, b) = (rig.open("a").await, rig.open("b").await);
    let plan_of = |path: &str| rig.plan(vec![rig.replace(path, "foo", "bar")]).unwrap();
    let (mine, other) = (RunId::new(), RunId::new());
    // The editor drops the edit. The port would send it again, but not for a stopped run.
    rig.editor.fault(Fault::Drop);
    let slow = async {
        rig.editor.until("the edit", |got| !got.is_empty()).await;
        rig.port.stop_run(&other);
        // An edit of the stopped run returns at once, not sent.
        let outcomes = rig.port.apply(&other, plan_of("b").changes()).await;
        let is_stopped = |reason: &str| reason == "stopped before it was sent";
        assert!(
            matches!(&outcomes[..], [workspace::ApplyOutcome::NotApplied { reason: Some(reason) }] if is_stopped(reason))
        );
    };
    let (result, ()) = tokio::join!(rig.commit_plan_of(&mine, plan_of("a")), slow);
    result.unwrap();
    assert_eq!((rig.editor.text(&a).as_str(), rig.editor.text(&b).as_str()), ("bar\n", "foo\n"));
    assert_eq!(rig.edits_sent(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_editor_moves_and_deletes_open_files() {
    for personality in [Personality::neovim(), Personality::vscode()] {
        let rig = Rig::new(personality, &[("a", "foo\n"), ("b", "b\n"), ("d/c", "a\n")]);
        let a = rig.open("a").await;
        let b = rig.open("b").await;
        rig.editor.type_in(&a, 0..0, "typed\n").await;
        rig.synced(&a).await;
        let before = rig.disk();
        let rename = Operation::Rename {
            from: rig.path("a"),
            to: rig.path("sub/new"),
            expected: None,
            replaces: None,
        };
        let delete = Operation::Delete { path: rig.path("b"), expected: rig.document("b").version };
        rig.commit(vec![rig.replace("a", "foo", "bar"), rename, delete, rig.replace("d/c", "a", "z")])
            .await
            .unwrap();
        let new = rig.uri("sub/new");
        assert_eq!(rig.editor.open_uris(), [new.as_str()]);
        assert_eq!(rig.editor.text(&new), "typed\nbar\n");
        assert_eq!(&*rig.document("sub/new").text, "typed\nbar\n");
        assert!(!exists(&rig.path("a")) && !exists(&rig.path("b")));
        rig.undo().await.unwrap();
        assert_eq!(rig.editor.open_uris(), [a.as_str()]);
        assert_eq!(rig.editor.text(&a), "typed\nfoo\n");
        let mut after = rig.disk();
        // The editor created the directory.
        after.retain(|path, _| !path.starts_with("sub"));
        assert_eq!(after, before);
        drop(b);
    }
    // Nothing changes in an editor that cannot rename.
    let rig = Rig::new(Personality::careless(), &[("a", "foo\n")]);
    rig.open("a").await;
    let rename =
        Operation::Rename { from: rig.path("a"), to: rig.path("new"), expected: None, replaces: None };
    let error = rig.commit(vec![rig.replace("a", "foo", "bar"), rename]).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotApplied, "{error}");
    expect_test::expect!["the editor did not apply the edit of new; all changes were reverted: new: unchanged (refused: the editor cannot rename files; close the file in the editor first)"]
        .assert_eq(&error.to_string().replace(rig.path("a").to_string().strip_suffix("a").unwrap(), ""));
    assert_eq!((&*rig.document("a").text, rig.on_disk("a").as_str()), ("foo\n", "foo\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undo_deletes_a_created_file_through_the_editor() {
    let rig = Rig::new(Personality::vscode(), &[("a", "foo\n")]);
    let create = Operation::Create { path: rig.path("new"), text: "made\n".to_owned(), replaces: None };
    rig.commit(vec![create, rig.replace("a", "foo", "bar")]).await.unwrap();
    assert_eq!((rig.on_disk("new").as_str(), rig.edits_sent()), ("made\n", 0));
    rig.open("new").await;
    rig.undo().await.unwrap();
    assert!(rig.editor.open_uris().is_empty() && !exists(&rig.path("new")));
    assert_eq!(rig.on_disk("a"), "foo\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_written_while_closed_opens_without_changes() {
    let rig = Rig::new(Personality::vscode(), &[]);
    rig.write("a", "\u{feff}one\r\nfoo\r\nno end");
    rig.commit(vec![rig.replace("a", "foo", "bar")]).await.unwrap();
    assert_eq!(rig.on_disk("a"), "\u{feff}one\r\nbar\r\nno end");
    assert_eq!(rig.edits_sent(), 0);
    rig.open("a").await;
    let document = rig.document("a");
    assert_eq!(
        (document.owner, document.bom, document.blocked),
        (Owner::Editor { dirty: false }, true, None)
    );
}
