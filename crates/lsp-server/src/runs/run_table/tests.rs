//! Which run is meant, and where words to it go.

use std::sync::Arc;

use agent::{Queue, Registry, Session};
use paths::AbsPath;
use workspace::RunId;

use super::{Going, Hears, Runs};

const OLD: &str = "0199aaaa";
const NEW: &str = "0199bbbb";

fn path(name: &str) -> AbsPath {
    AbsPath::new(std::env::temp_dir().join(name)).unwrap()
}

fn start(runs: &Runs, session: &str) {
    let going = Going {
        root: Some(path("project")),
        transcript: Some(path(session)),
        hears: Hears::Soon(Vec::new()),
        ..Going::default()
    };
    runs.lock().start(session.to_owned(), going);
}

#[test]
fn the_newest_is_the_one_that_was_started_last() {
    let runs = Runs::default();
    start(&runs, NEW);
    start(&runs, OLD);
    assert_eq!(runs.steer(None, "x", Queue::Steering).as_deref(), Some(OLD));
    assert_eq!(runs.conversation(None, &path("project")).as_deref(), Some(OLD));
    assert_eq!(runs.transcript(None), Some(path(OLD)));
    assert_eq!(runs.steer(Some(NEW), "x", Queue::Steering).as_deref(), Some(NEW));
}

#[test]
fn no_token_is_used_twice() {
    let runs = Runs::default();
    let going = || Going::default();
    let token = runs.lock().start(OLD.to_owned(), going());
    runs.end(OLD, None);
    assert_ne!(runs.lock().start(OLD.to_owned(), going()), token);
}

#[test]
fn words_before_the_model_works_are_kept() {
    let runs = Runs::default();
    start(&runs, OLD);
    runs.steer(None, "one", Queue::Steering);
    runs.steer(None, "two", Queue::FollowUp);
    assert_eq!(runs.listens_no_more(OLD), ["one", "two"]);
    assert_eq!(runs.steer(None, "late", Queue::Steering), None);
    assert!(runs.listens_no_more(OLD).is_empty());
}

#[tokio::test]
async fn words_before_the_session_are_heard_with_its_prompt() {
    let runs = Runs::default();
    start(&runs, OLD);
    runs.steer(None, "one", Queue::Steering);
    runs.steer(None, "two", Queue::FollowUp);
    let script = "{\"text\": \"first\"}\n{\"text\": \"second\"}\n{\"text\": \"third\"}";
    let model = Arc::new(llm::ScriptModel::parse("test", script).unwrap());
    let talk = Session::builder(model, Registry::default()).build();
    runs.can_be_told(OLD, &talk);
    // What comes after stands behind it.
    runs.steer(None, "three", Queue::Steering);
    let outcome = talk.prompt("go").await;
    let said: Vec<String> = outcome.messages.iter().map(llm::Message::text).collect();
    assert_eq!(said, ["go", "one", "first", "three", "second", "two", "third"]);
    assert!(runs.listens_no_more(OLD).is_empty());
}

#[test]
fn undo_of_a_conversation_means_its_newest_run_that_did_something() {
    let runs = Runs::default();
    let (first, second) = (RunId::new(), RunId::new());
    start(&runs, OLD);
    assert!(runs.run_of(OLD).is_none());
    runs.end(OLD, Some(first.clone()));
    start(&runs, OLD);
    assert!(runs.run_of(OLD).is_none(), "it goes on");
    runs.end(OLD, None);
    assert_eq!(runs.run_of(OLD), Some(first));
    start(&runs, OLD);
    runs.end(OLD, Some(second.clone()));
    assert_eq!(runs.run_of(OLD), Some(second));
}
