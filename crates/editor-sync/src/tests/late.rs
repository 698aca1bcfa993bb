//! Edits that an editor makes when nobody waits for them any more.

use parking_lot::Mutex;
use testing::editor::{Fault, Personality};
use tokio::sync::mpsc;

use super::*;
use crate::apply_edit::Late;

/// A run that was stopped while its edit was held back, which is said; and what shows up later.
async fn stopped(
    personality: Personality,
    answered: bool,
) -> (Rig, String, RunId, Mutex<mpsc::UnboundedReceiver<Late>>) {
    let rig = Rig::new(personality, &[("a", "foo\nfoo\n")]);
    let a = rig.open("a").await;
    let (tell, late) = mpsc::unbounded_channel();
    rig.port.on_late(move |late| tell.send(late).unwrap());
    rig.editor.fault(Fault::Held { answered });
    let plan = rig.plan(vec![rig.replace("a", "foo", "bar")]).unwrap();
    let run = RunId::new();
    let (result, ()) = tokio::join!(rig.commit_plan_of(&run, plan), async {
        rig.editor.until("the edit", |got| !got.is_empty()).await;
        rig.port.hasten(&run);
    });
    let error = result.unwrap_err().to_string();
    assert!(error.contains("is not known whether it landed"), "{error}");
    assert_eq!(rig.port.open_ended(&run), [rig.path("a")]);
    assert_eq!(rig.port.open_ended(&run), [] as [AbsPath; 0], "told once");
    assert!(rig.workspace.history().unwrap().is_empty());
    (rig, a, run, Mutex::new(late))
}

async fn told(late: Mutex<mpsc::UnboundedReceiver<Late>>) -> Late {
    tokio::time::timeout(EDITED, late.into_inner().recv()).await.expect("it is told").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_that_lands_after_stop_is_taken_back() {
    for personality in [Personality::neovim(), Personality::vscode(), Personality::careless()] {
        let (rig, a, run, late) = stopped(personality, true).await;
        rig.editor.release();
        let late = told(late).await;
        assert_eq!((late.run, late.path, late.stays), (run, rig.path("a"), None));
        assert_eq!((rig.editor.text(&a).as_str(), rig.edits_sent()), ("foo\nfoo\n", 2));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_edit_that_nobody_answered_for_is_undos() {
    let (rig, a, run, late) = stopped(Personality::vscode(), false).await;
    rig.editor.release();
    let Late { path, before, after, stays, .. } = told(late).await;
    assert!(stays.is_some_and(|why| why.contains("may be yours")));
    assert_eq!((rig.editor.text(&a).as_str(), rig.edits_sent()), ("bar\nbar\n", 1));
    rig.workspace.record(&run, "late", &path, &before, &after).unwrap();
    rig.editor.type_in(&a, 0..0, "typed\n").await;
    rig.sees(&a).await;
    rig.undo().await.unwrap();
    assert_eq!(rig.editor.text(&a), "typed\nfoo\nfoo\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_edit_of_the_same_text_is_not_taken_for_the_late_one() {
    let (rig, a, _, late) = stopped(Personality::vscode(), true).await;
    rig.commit(vec![rig.replace("a", "foo", "bar")]).await.unwrap();
    // Made for a text that is gone.
    rig.editor.release();
    rig.editor.type_in(&a, 0..0, "typed\n").await;
    rig.sees(&a).await;
    assert_eq!((rig.editor.text(&a).as_str(), rig.edits_sent()), ("typed\nbar\nbar\n", 2));
    assert!(late.into_inner().try_recv().is_err());
}
