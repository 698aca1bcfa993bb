//! Faults of real editors, and the outcome that the port reports for each.
//!
//! Invariants: no edit is applied twice, and no text of the user is lost.

use policy::ErrorCode;
use testing::editor::{Fault, Personality, Typed};
use workspace::CommitError;

use super::*;

const TEXT: &str = "one\nfoo two\nthree\nfoo four\nfive\n";
const MADE: &str = "one\nbar two\nthree\nbar four\nfive\n";

async fn rig(personality: Personality) -> (Rig, String) {
    let rig = Rig::new(personality, &[("a.txt", TEXT), ("b.txt", TEXT), ("disk.txt", TEXT)]);
    let uri = rig.open("a.txt").await;
    (rig, uri)
}

fn typed(uri: &str, at: usize, text: &str) -> Typed {
    Typed { uri: uri.to_owned(), range: at..at, text: text.to_owned() }
}

async fn change(rig: &Rig) -> Result<Arc<Commit>, CommitError> {
    rig.commit(vec![rig.replace("a.txt", "foo", "bar")]).await
}

#[track_caller]
fn failed(result: Result<Arc<Commit>, CommitError>, code: ErrorCode, says: &[&str]) {
    let error = result.unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    for part in says {
        assert!(error.to_string().contains(part), "{part:?} in {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_is_applied_in_every_editor() {
    for personality in all_personalities() {
        let (rig, uri) = rig(personality).await;
        change(&rig).await.unwrap();
        assert_eq!((rig.editor.text(&uri), rig.editor.buffer(&uri).edits), (MADE.to_owned(), 1));
        assert_eq!(rig.on_disk("a.txt"), TEXT);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_between_typing_in_one_notification_is_found() {
    for personality in all_personalities().into_iter().filter(|personality| !personality.whole) {
        let (rig, uri) = rig(personality).await;
        let (before, after) = (vec![typed(&uri, 0, "zero\n")], vec![typed(&uri, 2, "!")]);
        rig.editor.fault(Fault::Between { before, after, rebased: true });
        change(&rig).await.unwrap();
        assert_eq!(rig.editor.text(&uri), format!("ze!ro\n{MADE}"));
        assert_eq!(rig.edits_sent(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_applied_to_a_newer_text_is_reverted() {
    for personality in all_personalities().into_iter().filter(|personality| !personality.whole) {
        let (rig, uri) = rig(personality).await;
        // A line above moves the edit to the wrong line or past the end.
        let (before, after) = (vec![typed(&uri, 0, "zero\n")], vec![typed(&uri, 1, "!")]);
        rig.editor.fault(Fault::Between { before, after, rebased: false });
        failed(change(&rig).await, ErrorCode::NotApplied, &["reverted", "older text"]);
        assert_eq!(rig.editor.text(&uri), format!("z!ero\n{TEXT}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_clamped_to_the_wrong_line_is_reverted() {
    for by in [1, 40] {
        let (rig, uri) = rig(Personality::vscode()).await;
        rig.editor.fault(Fault::Shift(by));
        failed(change(&rig).await, ErrorCode::NotApplied, &["reverted", "another place"]);
        assert_eq!(rig.editor.text(&uri), TEXT, "moved by {by}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_of_version_0_waits_for_a_pause_in_typing() {
    let (rig, uri) = rig(Personality::neovim()).await;
    assert_eq!(rig.document("a.txt").version.editor, Some(0));
    // The user types without a notification yet; the editor does not check version 0.
    rig.editor.type_in(&uri, 0..0, "zero\n").await;
    let plan = rig.plan(vec![rig.replace("a.txt", "foo", "bar")]).unwrap();
    rig.commit_plan(plan).await.unwrap();
    assert_eq!(rig.editor.text(&uri), format!("zero\n{MADE}"));
    assert_eq!(rig.edits_sent(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_edit_dropped_with_applied_true_is_sent_again() {
    let (rig, uri) = rig(Personality::neovim()).await;
    rig.editor.type_in(&uri, 0..0, "zero\n").await;
    rig.synced(&uri).await;
    // The buffer is newer when the edit arrives.
    rig.editor.fault(Fault::TypedFirst(vec![typed(&uri, 0, "z")]));
    change(&rig).await.unwrap();
    assert_eq!(rig.editor.text(&uri), format!("zzero\n{MADE}"));
    assert_eq!((rig.edits_sent(), rig.editor.buffer(&uri).edits), (2, 1));
    // The editor drops the edit twice: the port reports it and does not try again.
    rig.editor.fault(Fault::Drop);
    rig.editor.fault(Fault::Drop);
    let result = rig.commit(vec![rig.replace("a.txt", "bar", "qux")]).await;
    failed(
        result,
        ErrorCode::NotApplied,
        &["a.txt: unchanged", "reported the edit as applied, but did not apply it"],
    );
    assert_eq!((rig.editor.text(&uri), rig.edits_sent()), (format!("zzero\n{MADE}"), 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn typing_in_the_replaced_text_is_a_conflict() {
    for personality in [Personality::neovim(), Personality::vscode()] {
        let (rig, uri) = rig(personality).await;
        rig.editor.type_in(&uri, 0..0, "zero\n").await;
        rig.synced(&uri).await;
        rig.editor.fault(Fault::TypedFirst(vec![typed(&uri, 10, "X")]));
        failed(change(&rig).await, ErrorCode::StaleText, &["a.txt"]);
        assert_eq!(rig.editor.text(&uri), format!("zero\n{}", TEXT.replacen("foo", "fXoo", 1)));
        assert_eq!(rig.edits_sent(), 1, "never forced");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_edit_is_sent_again_once() {
    let (rig, uri) = rig(Personality::vscode()).await;
    rig.editor.fault(Fault::Refuse);
    change(&rig).await.unwrap();
    assert_eq!((rig.editor.text(&uri), rig.edits_sent()), (MADE.to_owned(), 2));
    rig.editor.fault(Fault::Refuse);
    rig.editor.fault(Fault::Refuse);
    let result = rig.commit(vec![rig.replace("a.txt", "bar", "qux")]).await;
    failed(result, ErrorCode::NotApplied, &["a.txt: unchanged", "without a reason"]);
    assert_eq!((rig.editor.text(&uri), rig.edits_sent()), (MADE.to_owned(), 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partial_edit_is_reverted_whatever_the_reply() {
    for personality in [Personality::neovim(), Personality::vscode(), Personality::careless()] {
        for applied in [true, false] {
            let (rig, uri) = rig(personality.clone()).await;
            rig.editor.fault(Fault::Half { applied });
            failed(change(&rig).await, ErrorCode::NotApplied, &["only a part", "reverted"]);
            assert_eq!(rig.editor.text(&uri), TEXT);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_without_a_reply_is_not_sent_again() {
    for personality in [Personality::neovim(), Personality::vscode()] {
        let (rig, uri) = rig(personality).await;
        rig.editor.fault(Fault::Silent { made: true });
        change(&rig).await.unwrap();
        assert_eq!(rig.editor.text(&uri), MADE);
        rig.editor.fault(Fault::Silent { made: false });
        let result = rig.commit(vec![rig.replace("a.txt", "bar", "qux")]).await;
        failed(result, ErrorCode::PartlyReverted, &["a.txt", "did not report"]);
        assert_eq!((rig.editor.text(&uri), rig.edits_sent()), (MADE.to_owned(), 2), "not sent again");
        // It does not block the next edit.
        rig.commit(vec![rig.replace("a.txt", "bar", "qux")]).await.unwrap();
        assert_eq!(rig.editor.text(&uri), MADE.replace("bar", "qux"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_text_is_read_if_it_is_unambiguous() {
    let (rig, uri) = rig(Personality::whole()).await;
    let (before, after) = (vec![typed(&uri, 0, "zero\n")], vec![typed(&uri, 2, "!")]);
    rig.editor.fault(Fault::Between { before, after, rebased: true });
    change(&rig).await.unwrap();
    assert_eq!((rig.editor.text(&uri), rig.edits_sent()), (format!("ze!ro\n{MADE}"), 1));
    // An unrelated text replaces everything while the edit is in flight.
    let len = rig.editor.text(&uri).len();
    let all = Typed { uri: uri.clone(), range: 0..len, text: "something else\n".to_owned() };
    rig.editor.fault(Fault::Between { before: Vec::new(), after: vec![all], rebased: true });
    let result = rig.commit(vec![rig.replace("a.txt", "bar", "qux")]).await;
    failed(result, ErrorCode::PartlyReverted, &["a.txt", "did not report"]);
    assert_eq!((rig.editor.text(&uri), rig.edits_sent()), ("something else\n".to_owned(), 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_edit_of_one_document_stops_the_commit() {
    for personality in [Personality::neovim(), Personality::vscode()] {
        let (rig, a) = rig(personality).await;
        let b = rig.open("b.txt").await;
        for uri in [&a, &b] {
            rig.editor.type_in(uri, 0..0, "zero\n").await;
            rig.synced(uri).await;
        }
        let both = |rig: &Rig| vec![rig.replace("a.txt", "foo", "bar"), rig.replace("b.txt", "foo", "bar")];
        // The user types next to the edit: the editor applies both.
        rig.editor.fault(Fault::TypedFirst(vec![typed(&b, 0, "z")]));
        rig.commit(both(&rig)).await.unwrap();
        assert_eq!(rig.editor.text(&a), format!("zero\n{MADE}"));
        assert_eq!(rig.editor.text(&b), format!("zzero\n{MADE}"));
        assert_eq!((rig.editor.buffer(&a).edits, rig.editor.buffer(&b).edits), (1, 1));
        // The user types in it: no edit is applied, and the file on the disk stays too.
        let mut all = vec![rig.replace("a.txt", "bar", "qux"), rig.replace("b.txt", "bar", "qux")];
        all.push(rig.replace("disk.txt", "foo", "qux"));
        let plan = rig.plan(all).unwrap();
        let at = rig.editor.text(&b).find("bar").unwrap() + 1;
        rig.editor.withhold();
        rig.editor.type_in(&b, at..at, "X").await;
        let commit = rig.commit_plan(plan);
        let (result, ()) = tokio::join!(commit, async {
            rig.editor
                .until("an edit", |got| {
                    got.iter().filter(|it| it["method"] == "workspace/applyEdit").count() > 2
                })
                .await;
            rig.editor.flush().await;
        });
        failed(result, ErrorCode::StaleText, &["b.txt"]);
        assert_eq!(rig.editor.text(&a), format!("zero\n{MADE}"));
        assert_eq!(rig.editor.text(&b), format!("zzero\n{}", MADE.replacen("bar", "bXar", 1)));
        assert_eq!(rig.on_disk("disk.txt"), TEXT);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_closed_during_an_edit_is_stale() {
    let (rig, uri) = rig(Personality::vscode()).await;
    rig.editor.fault(Fault::Silent { made: false });
    let plan = rig.plan(vec![rig.replace("a.txt", "foo", "bar")]).unwrap();
    let (result, ()) = tokio::join!(rig.commit_plan(plan), async {
        rig.editor.until("the edit", |got| !got.is_empty()).await;
        rig.editor.close(&uri).await;
    });
    failed(result, ErrorCode::StaleText, &["a.txt"]);
    rig.commit(vec![rig.replace("a.txt", "foo", "bar")]).await.unwrap();
    assert_eq!((rig.on_disk("a.txt").as_str(), rig.edits_sent()), (MADE, 1));
}
