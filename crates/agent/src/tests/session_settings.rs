//! Readable paths, and the settings recorded in the session file.

use paths::{AbsPath, StateDir};
use policy::{Policy, PolicyOptions, TrustStore};

use super::*;
use crate::store::{LoadedSession, SessionStore};
use crate::{Reload, ReloadSource};

fn model(name: &str, lines: &[Value]) -> Arc<ScriptModel> {
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    Arc::new(ScriptModel::parse(name, &lines).unwrap())
}

fn directory() -> (tempfile::TempDir, AbsPath) {
    let temp = tempfile::tempdir().unwrap();
    let path = AbsPath::new(temp.path().canonicalize().unwrap()).unwrap();
    (temp, path)
}

/// Builds a tool that reports whether the session may read the path in `text`.
fn looking() -> Arc<dyn Tool> {
    Arc::new(tool("look", |args, cx| {
        Box::pin(async move {
            let path = AbsPath::new(args["text"].as_str().unwrap()).unwrap();
            ToolResult::text(if cx.may_read(&path) { "shown" } else { "refused" })
        })
    }))
}

fn policy(root: AbsPath, state: AbsPath) -> Arc<Policy> {
    Arc::new(Policy::new(PolicyOptions::new(TrustStore::new(StateDir::new(state)), root)))
}

/// Changes the policy before the second turn.
struct Stricter(Mutex<Option<Arc<Policy>>>);

impl ReloadSource for Stricter {
    fn poll_changes(&self) -> Option<Reload> {
        let policy = self.0.lock().take()?;
        Some(Reload { policy: Some(policy), changed: vec!["policy".to_owned()], ..Reload::default() })
    }
}

#[tokio::test]
async fn full_output_is_readable_under_each_policy() {
    let (_temp, path) = directory();
    let look = |path: &AbsPath| calls(&[call("a", "look", json!({"text": path.to_string()}))]);
    let store = SessionStore::new(StateDir::new(path.join("sessions")));
    let registry = || Registry::new([looking()]).unwrap();
    let root = path.join("project");
    let session = Session::builder(model("m", &[text("ok")]), registry())
        .policy(policy(root.clone(), path.join("state")))
        .store(store.clone())
        .build();
    session.prompt("go").await;
    session.close(DEADLINE).await;
    let loaded = store.load(session.id()).unwrap();
    let outputs = store.reopen(&loaded).outputs();
    let others = outputs.parent().unwrap().join("other.jsonl");
    let script = [look(&outputs.join("a.txt")), look(&others.join("a.txt")), text("ok")];
    let other = policy(root.clone(), path.join("state"));
    let session = Session::builder(model("m", &script), registry())
        .policy(policy(root, path.join("state")))
        .reload_source(Arc::new(Stricter(Mutex::new(Some(other)))))
        .store(store.clone())
        .resume(loaded)
        .build();
    let outcome = session.prompt("on").await;
    let results = outcome.messages.iter().filter(|message| matches!(message, llm::Message::ToolResult(_)));
    assert_eq!(results.map(llm::Message::text).collect::<Vec<_>>(), ["shown", "refused"]);
}

#[tokio::test]
async fn settings_of_a_resumed_session_are_recorded() {
    let (_temp, path) = directory();
    let store = SessionStore::new(StateDir::new(path.join("sessions")));
    let begun = Session::builder(model("one", &[text("1")]), Registry::default())
        .thinking_level(llm::ThinkingLevel::High)
        .store(store.clone())
        .build();
    begun.prompt("a").await;
    begun.close(DEADLINE).await;
    let has = |level| (Some(("script".to_owned(), "one".to_owned())), level);
    let loaded = store.load(begun.id()).unwrap();
    assert_eq!(loaded.last_settings(), has(Some(llm::ThinkingLevel::High)), "{}", loaded.text());
    let other =
        || Session::builder(model("two", &[text("by two")]), Registry::default()).store(store.clone());
    let again = Session::builder(model("one", &[text("again by one")]), Registry::default());
    let session = again.store(store.clone()).resume(loaded).build();
    assert_eq!(session.prompt("b").await.final_text, "again by one");
    session.close(DEADLINE).await;
    let changes = |session: &LoadedSession| -> Vec<String> {
        let kinds = session.entries.iter().map(|entry| entry.kind.clone());
        kinds.filter(|kind| kind.ends_with("_change")).collect()
    };
    let loaded = store.load(begun.id()).unwrap();
    assert_eq!(changes(&loaded), ["model_change", "thinking_level_change"]);
    let session = other().thinking_level(llm::ThinkingLevel::Low).resume(loaded).build();
    assert_eq!(session.prompt("c").await.final_text, "by two");
    session.close(DEADLINE).await;
    let loaded = store.load(begun.id()).unwrap();
    assert_eq!(changes(&loaded)[2..], ["model_change", "thinking_level_change"]);
    let (model, level) = loaded.last_settings();
    assert_eq!((model.unwrap().1.as_str(), level), ("two", Some(llm::ThinkingLevel::Low)));
}
