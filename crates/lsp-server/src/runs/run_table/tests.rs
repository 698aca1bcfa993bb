//! Selection of runs, and delivery of messages.

use std::sync::Arc;

use agent::{Queue, Registry, Session};
use paths::AbsPath;
use workspace::RunId;

use super::{ActiveRun, MessageTarget, Runs};

const OLD: &str = "0199aaaa";
const NEW: &str = "0199bbbb";

fn path(name: &str) -> AbsPath {
    AbsPath::new(std::env::temp_dir().join(name)).unwrap()
}

fn start(runs: &Runs, session: &str) {
    let active = ActiveRun {
        root: Some(path("project")),
        transcript: Some(path(session)),
        messages: MessageTarget::Buffered(Vec::new()),
        ..ActiveRun::default()
    };
    runs.lock().start(session.to_owned(), active);
}

#[test]
fn the_newest_run_is_the_one_started_last() {
    let runs = Runs::default();
    start(&runs, NEW);
    start(&runs, OLD);
    assert_eq!(runs.steer(None, "x", Queue::Steering).as_deref(), Some(OLD));
    assert_eq!(runs.running_conversation(None, &path("project")).as_deref(), Some(OLD));
    assert_eq!(runs.transcript(None), Some(path(OLD)));
    assert_eq!(runs.steer(Some(NEW), "x", Queue::Steering).as_deref(), Some(NEW));
}

#[test]
fn progress_tokens_are_unique() {
    let runs = Runs::default();
    let active = || ActiveRun::default();
    let token = runs.lock().start(OLD.to_owned(), active());
    runs.end(OLD, None);
    assert_ne!(runs.lock().start(OLD.to_owned(), active()), token);
}

#[test]
fn early_messages_are_buffered() {
    let runs = Runs::default();
    start(&runs, OLD);
    runs.steer(None, "one", Queue::Steering);
    runs.steer(None, "two", Queue::FollowUp);
    assert_eq!(runs.take_undelivered(OLD), ["one", "two"]);
    assert_eq!(runs.steer(None, "late", Queue::Steering), None);
    assert!(runs.take_undelivered(OLD).is_empty());
}

#[tokio::test]
async fn early_messages_follow_the_prompt() {
    let runs = Runs::default();
    start(&runs, OLD);
    runs.steer(None, "one", Queue::Steering);
    runs.steer(None, "two", Queue::FollowUp);
    let script = "{\"text\": \"first\"}\n{\"text\": \"second\"}\n{\"text\": \"third\"}";
    let model = Arc::new(llm::ScriptModel::parse("test", script).unwrap());
    let handle = Session::builder(model, Registry::default()).build();
    runs.accept_messages(OLD, &handle);
    // A later message comes after them.
    runs.steer(None, "three", Queue::Steering);
    let outcome = handle.prompt("go").await;
    let said: Vec<String> = outcome.messages.iter().map(llm::Message::text).collect();
    assert_eq!(said, ["go", "one", "first", "three", "second", "two", "third"]);
    assert!(runs.take_undelivered(OLD).is_empty());
}

#[test]
fn undo_of_a_session_reverts_its_last_run_with_an_id() {
    let runs = Runs::default();
    let (first, second) = (RunId::new(), RunId::new());
    start(&runs, OLD);
    assert!(runs.last_run(OLD).is_none());
    runs.end(OLD, Some(first.clone()));
    start(&runs, OLD);
    assert!(runs.last_run(OLD).is_none(), "it still runs");
    runs.end(OLD, None);
    assert_eq!(runs.last_run(OLD), Some(first));
    start(&runs, OLD);
    runs.end(OLD, Some(second.clone()));
    assert_eq!(runs.last_run(OLD), Some(second));
}
