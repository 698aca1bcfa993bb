//! Edits that an editor applies after the run stopped waiting.

use parking_lot::Mutex;
use testing::editor::{Fault, Personality};
use tokio::sync::mpsc;

use super::*;
use crate::apply_edit::LateEdit;

/// A run stopped while the editor withholds its edit, and a receiver.
async fn stopped(
    personality: Personality,
    answered: bool,
) -> (Rig, String, RunId, Mutex<mpsc::UnboundedReceiver<LateEdit>>) {
    let rig = Rig::new(personality, &[("a", "foo\nfoo\n")]);
    let a = rig.open("a").await;
    let (sender, late) = mpsc::unbounded_channel();
    rig.port.on_late(move |late| sender.send(late).unwrap());
    rig.editor.fault(Fault::Held { answered });
    let plan = rig.plan(vec![rig.replace("a", "foo", "bar")]).unwrap();
    let run = RunId::new();
    let (result, ()) = tokio::join!(rig.commit_plan_of(&run, plan), async {
        rig.editor.until("the edit", |got| !got.is_empty()).await;
        rig.port.stop_run(&run);
    });
    let CommitError::PartlyReverted { details } = result.unwrap_err() else { panic!("another error") };
    let root = format!("{}/", rig.workspace.root());
    expect_test::expect![
        "a: could not be reverted, because the editor did not report whether it applied it; check the file"
    ]
    .assert_eq(&details.join("\n").replace(&root, ""));
    assert_eq!(rig.port.take_unresolved(&run), [rig.path("a")]);
    assert_eq!(rig.port.take_unresolved(&run), [] as [AbsPath; 0], "returned once");
    assert!(rig.workspace.history().unwrap().is_empty());
    (rig, a, run, Mutex::new(late))
}

async fn next_late(late: Mutex<mpsc::UnboundedReceiver<LateEdit>>) -> LateEdit {
    tokio::time::timeout(TIMEOUT, late.into_inner().recv()).await.expect("the port reports it").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_applied_after_stop_is_reverted() {
    for personality in [Personality::neovim(), Personality::vscode(), Personality::careless()] {
        let (rig, a, run, late) = stopped(personality, true).await;
        rig.editor.release();
        let late = next_late(late).await;
        assert_eq!((late.run, late.path, late.not_reverted), (run, rig.path("a"), None));
        assert_eq!((rig.editor.text(&a).as_str(), rig.edits_sent()), ("foo\nfoo\n", 2));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_edit_without_a_reply_can_be_undone() {
    let (rig, a, run, late) = stopped(Personality::vscode(), false).await;
    rig.editor.release();
    let LateEdit { path, before, after, not_reverted, .. } = next_late(late).await;
    let unconfirmed = "the editor did not confirm it, so it may be the user's own";
    assert_eq!(not_reverted.as_deref(), Some(unconfirmed));
    assert_eq!((rig.editor.text(&a).as_str(), rig.edits_sent()), ("bar\nbar\n", 1));
    rig.workspace.record(&run, "late", &path, &before, &after).unwrap();
    rig.editor.type_in(&a, 0..0, "typed\n").await;
    rig.synced(&a).await;
    rig.undo().await.unwrap();
    assert_eq!(rig.editor.text(&a), "typed\nfoo\nfoo\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_edit_of_the_same_text_is_not_the_late_one() {
    let (rig, a, _, late) = stopped(Personality::vscode(), true).await;
    rig.commit(vec![rig.replace("a", "foo", "bar")]).await.unwrap();
    // The withheld edit was made for an older text.
    rig.editor.release();
    rig.editor.type_in(&a, 0..0, "typed\n").await;
    rig.synced(&a).await;
    assert_eq!((rig.editor.text(&a).as_str(), rig.edits_sent()), ("typed\nbar\nbar\n", 2));
    assert!(late.into_inner().try_recv().is_err());
}
