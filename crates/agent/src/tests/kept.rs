//! Sessions kept in files: written as they run, listed, loaded, gone on with.

#![expect(clippy::disallowed_methods, reason = "a crash is imitated by cutting a file")]

use std::path::PathBuf;

use serde_json::json;
use workspace::{AbsPath, StateDir};

use super::*;
use crate::TerminationReason;
use crate::store::{SessionStore, StoreError};

struct Kept {
    _folder: tempfile::TempDir,
    path: PathBuf,
    store: SessionStore,
}

fn kept() -> Kept {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("sessions");
    let store = SessionStore::new(StateDir::new(AbsPath::new(&path).unwrap()));
    Kept { _folder: folder, path, store }
}

impl Kept {
    fn session(&self, script: &[Value], resume: Option<&str>) -> Session {
        let script: String = script.iter().map(|line| format!("{line}\n")).collect();
        let model = Arc::new(ScriptModel::parse("t", &script).unwrap());
        let tools = Registry::new([Arc::new(echo("t")) as Arc<dyn Tool>]).unwrap();
        let builder = Session::builder(model, tools).store(self.store.clone()).cwd("/project");
        match resume {
            Some(id) => builder.resume(self.store.load(id).unwrap()).build(),
            None => builder.build(),
        }
    }

    fn file(&self) -> PathBuf {
        let files = std::fs::read_dir(&self.path).unwrap().map(|entry| entry.unwrap().path());
        let mut files = files.filter(|path| path.is_file());
        let file = files.next().unwrap();
        assert_eq!(files.next(), None);
        file
    }
}

#[tokio::test]
async fn secrets_reach_neither_the_file_nor_those_who_listen() {
    let kept = kept();
    let key = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
    let script = [calls(&[call("a", "t", json!({"text": key}))]), text("done")];
    let script: String = script.iter().map(|line| format!("{line}\n")).collect();
    let tools = Registry::new([Arc::new(echo("t")) as Arc<dyn Tool>]).unwrap();
    let events = Arc::new(Recorder::default());
    let model = Arc::new(ScriptModel::parse("t", &script).unwrap());
    let session = Session::builder(model, tools).store(kept.store.clone()).sink(events.clone()).build();
    let outcome = session.prompt(&*format!("use {key}")).await;
    assert!(outcome.messages[2].text().contains(key), "the run works with what was said");
    assert!(session.close(DEADLINE).await);
    let told = serde_json::to_string(&*events.envelopes.lock().unwrap()).unwrap();
    let written = std::fs::read_to_string(kept.file()).unwrap();
    for seen in [told, written] {
        assert!(seen.contains("use [redacted:github-token]") && !seen.contains(key), "{seen}");
    }
}

#[tokio::test]
async fn a_session_is_written_as_it_runs_and_can_be_shown() {
    let kept = kept();
    let session = kept.session(&[calls(&[call("a", "t", json!({"n": 1}))]), text("done")], None);
    assert!(kept.store.list().unwrap().is_empty(), "nothing is written before the first message");
    let outcome = session.prompt("first\nline, and more").await;
    let loaded = kept.store.load(session.id()).unwrap();
    assert_eq!(loaded.context(), outcome.messages);
    assert_eq!((loaded.header.version, loaded.header.cwd.as_str()), (3, "/project"));
    assert!(loaded.warnings.is_empty() && loaded.entries[0].parent_id.is_none());
    for pair in loaded.entries.windows(2) {
        assert_eq!(pair[1].parent_id.as_ref(), Some(&pair[0].id));
    }
    let list = kept.store.list().unwrap();
    assert_eq!(list.len(), 1);
    assert_eq!((list[0].messages, list[0].title.as_str()), (4, "first line, and more"));
    assert!(list[0].last_active >= list[0].created);
    assert_eq!(
        kept.store.load(&session.id()[28..]).unwrap().header.id,
        session.id(),
        "a part of the id will do"
    );
    assert!(matches!(kept.store.load("nosuch"), Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn a_session_goes_on_after_a_crash_that_cut_its_last_line() {
    let kept = kept();
    let session = kept.session(&[text("one")], None);
    session.prompt("go").await;
    let id = session.id().to_owned();
    assert!(session.close(DEADLINE).await);
    let file = kept.file();
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.truncate(bytes.len() - 9);
    std::fs::write(&file, bytes).unwrap();
    let expecting = json!({"expect": {"messages": 2, "last_contains": ["again"]}, "text": "two"});
    let session = kept.session(&[expecting], Some(&id));
    assert_eq!(session.id(), id);
    let outcome = session.prompt("again").await;
    assert_eq!((outcome.final_text.as_str(), outcome.error.as_deref()), ("two", None));
    let loaded = kept.store.load(&id).unwrap();
    let said: Vec<String> = loaded.context().iter().map(llm::Message::text).collect();
    assert_eq!(said, ["go", "again", "two"]);
    assert_eq!(loaded.warnings.len(), 1);
    assert_eq!(kept.file(), file, "the same file");
}

#[tokio::test]
async fn a_file_that_cannot_be_written_ends_the_run_with_an_error() {
    let kept = kept();
    std::fs::write(&kept.path, "a file where the folder should be").unwrap();
    let session = kept.session(&[text("one")], None);
    let outcome = session.prompt("go").await;
    assert_eq!(outcome.reason, TerminationReason::Error);
    assert!(outcome.error.unwrap().starts_with("cannot write the session's file: "));
}

#[tokio::test]
async fn a_part_of_an_id_that_fits_several_is_refused() {
    let kept = kept();
    for _ in 0..2 {
        kept.session(&[text("one")], None).prompt("go").await;
    }
    let error = kept.store.load("0").unwrap_err();
    assert_eq!(error.to_string(), "2 sessions begin with \"0\"; give more of the id");
    assert_eq!(kept.store.list().unwrap().len(), 2);
}
