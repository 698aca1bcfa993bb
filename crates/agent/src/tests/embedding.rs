//! What an embedding program hands to a session as a whole.

#![expect(clippy::disallowed_methods, reason = "an agent's folder is made")]

use workspace::{AbsPath, ExecOptions, Mode, Policy, PolicyOptions, StateDir, TrustStore};

use super::*;
use crate::store::{LoadedSession, SessionStore};
use crate::{AgentDirectory, Change, Filter, ModelRegistry, SessionError, SessionSettings, Surroundings};

fn model(name: &str, lines: &[Value]) -> Arc<ScriptModel> {
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    Arc::new(ScriptModel::parse(name, &lines).unwrap())
}

fn folder() -> (tempfile::TempDir, AbsPath) {
    let temp = tempfile::tempdir().unwrap();
    let path = AbsPath::new(temp.path().canonicalize().unwrap()).unwrap();
    (temp, path)
}

fn tools(names: &[&str]) -> Registry {
    Registry::new(names.iter().map(|name| Arc::new(echo(name)) as Arc<dyn Tool>)).unwrap()
}

#[tokio::test]
async fn an_agents_folder_says_its_words_and_its_tools_over_the_settings() {
    let (_temp, path) = folder();
    std::fs::write(path.join("SYSTEM.md").as_path(), "You review.\n").unwrap();
    std::fs::write(path.join("tools.toml").as_path(), "enable = ['rare']\ndisable = ['write']\n").unwrap();
    let asked = model(
        "m",
        &[json!({"expect": {"system_contains": ["You review."], "tools": ["read", "rare"]}, "text": "ok"})],
    );
    let settings = SessionSettings {
        tools: Filter { off: vec!["rare".to_owned(), "odd".to_owned()], ..Filter::default() },
        limits: Limits { turns: 5, ..Limits::default() },
        ..SessionSettings::default()
    };
    let directory = AgentDirectory::load(path.clone()).unwrap();
    let session = Session::builder(asked.clone(), tools(&["read", "write", "rare", "odd"]))
        .system("usual words")
        .settings(settings)
        .agent_directory(directory)
        .build();
    let outcome = session.prompt("go").await;
    assert_eq!((outcome.final_text.as_str(), outcome.error), ("ok", None));
    assert!(!asked.requests()[0].system.contains("usual words"));
    std::fs::write(path.join("tools.toml").as_path(), "\ndisabel = []\n").unwrap();
    let error = AgentDirectory::load(path.clone()).unwrap_err().to_string();
    assert!(error.contains("tools.toml") && error.contains("line 2") && error.contains("disabel"), "{error}");
    let error = AgentDirectory::load(path.join("nowhere")).unwrap_err().to_string();
    assert!(error.contains("is no folder"), "{error}");
}

#[tokio::test]
async fn a_resumed_session_goes_on_with_its_model_and_another_is_chosen_by_name() {
    let (_temp, path) = folder();
    let store = SessionStore::new(StateDir::new(path.join("sessions")));
    let said = |name: &str| model(name, &[text(&format!("by {name}")), text(&format!("again by {name}"))]);
    let both = || ModelRegistry::new([said("one") as Arc<dyn llm::Model>, said("two")]);
    let session =
        Session::builder(said("one"), Registry::default()).models(both()).store(store.clone()).build();
    assert_eq!(session.prompt("a").await.final_text, "by one");
    let Err(SessionError::NoModel { known, .. }) = session.choose_model("three") else { panic!("no error") };
    assert_eq!(known, "script/one, script/two");
    session.choose_model("script/two").unwrap();
    assert_eq!(session.prompt("b").await.final_text, "by two");
    let id = session.id().to_owned();
    session.close(DEADLINE).await;
    let resumed = |models: ModelRegistry| {
        let loaded = store.load(&id).unwrap();
        Session::builder(said("one"), Registry::default()).models(models).resume(loaded).build()
    };
    assert_eq!(resumed(both()).prompt("c").await.final_text, "by two");
    // One that is not there any more is not asked for.
    assert_eq!(resumed(ModelRegistry::default()).prompt("c").await.final_text, "by one");
}

/// What its session may read, by paths in the argument `text`.
fn looking() -> Arc<dyn Tool> {
    Arc::new(tool("look", |args, cx| {
        Box::pin(async move {
            let path = AbsPath::new(args["text"].as_str().unwrap()).unwrap();
            ToolResult::text(if cx.may_read(&path) { "shown" } else { "refused" })
        })
    }))
}

fn policy(root: AbsPath, state: AbsPath) -> Arc<Policy> {
    Arc::new(Policy::new(PolicyOptions {
        mode: Mode::Prompt,
        yes: false,
        rules: Vec::new(),
        exec: ExecOptions::default(),
        trust: TrustStore::new(StateDir::new(state)),
        root,
        state: None,
    }))
}

/// Another policy before the second turn.
struct Stricter(Mutex<Option<Arc<Policy>>>);

impl Surroundings for Stricter {
    fn changed(&self) -> Option<Change> {
        let policy = self.0.lock().unwrap().take()?;
        Some(Change { policy: Some(policy), changed: vec!["policy".to_owned()], ..Change::default() })
    }
}

#[tokio::test]
async fn an_agents_resources_and_what_results_were_cut_of_may_be_read_under_each_policy() {
    let (_temp, path) = folder();
    let agent = path.join("agent");
    std::fs::create_dir_all(agent.join("resources").as_path()).unwrap();
    std::fs::write(agent.join("SYSTEM.md").as_path(), "Follow resources/style.md.\n").unwrap();
    let look = |path: &AbsPath| calls(&[call("a", "look", json!({"text": path.to_string()}))]);
    let store = SessionStore::new(StateDir::new(path.join("sessions")));
    let resource = agent.join("resources/style.md");
    let told = format!("Paths above that begin with resources/ are in {}", agent.join("resources"));
    let first = json!({"expect": {"system_contains": [told]}, "tool_calls": look(&resource)["tool_calls"]});
    let asked = model("m", &[first, look(&agent.join("SYSTEM.md")), text("ok")]);
    let registry = || Registry::new([looking()]).unwrap();
    let root = path.join("project");
    let session = Session::builder(asked, registry())
        .agent_directory(AgentDirectory::load(agent.clone()).unwrap())
        .policy(policy(root.clone(), path.join("state")))
        .store(store.clone())
        .build();
    let outcome = session.prompt("go").await;
    assert_eq!(outcome.final_text, "ok", "{outcome:?}");
    let results = |outcome: &RunOutcome| -> Vec<String> {
        let all = outcome.messages.iter().filter(|it| matches!(it, llm::Message::ToolResult(_)));
        all.map(llm::Message::text).collect()
    };
    assert_eq!(results(&outcome), ["shown", "refused"]);
    session.close(DEADLINE).await;
    let loaded = store.load(session.id()).unwrap();
    let outputs = store.reopen(&loaded).outputs();
    let others = outputs.parent().unwrap().join("other.jsonl");
    let script = [look(&outputs.join("a.txt")), look(&others.join("a.txt")), text("ok")];
    let other = policy(root.clone(), path.join("state"));
    let session = Session::builder(model("m", &script), registry())
        .policy(policy(root, path.join("state")))
        .surroundings(Arc::new(Stricter(Mutex::new(Some(other)))))
        .store(store.clone())
        .resume(loaded)
        .build();
    assert_eq!(results(&session.prompt("on").await), ["shown", "refused"]);
}

#[tokio::test]
async fn what_a_session_is_gone_on_with_is_in_its_file() {
    let (_temp, path) = folder();
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
    // The same model by its answer, and another with a word.
    let models = ModelRegistry::new([model("one", &[text("again by one")]) as Arc<dyn llm::Model>]);
    let other =
        || Session::builder(model("two", &[text("by two")]), Registry::default()).store(store.clone());
    let session = other().models(models).resume(loaded).build();
    assert_eq!(session.prompt("b").await.final_text, "again by one");
    session.close(DEADLINE).await;
    let changes = |session: &LoadedSession| -> Vec<String> {
        let kinds = session.entries.iter().map(|entry| entry.kind.clone());
        kinds.filter(|kind| kind.ends_with("_change")).collect()
    };
    let loaded = store.load(begun.id()).unwrap();
    assert_eq!(changes(&loaded), ["thinking_level_change"]);
    let session = other().thinking_level(llm::ThinkingLevel::Low).resume(loaded).build();
    assert_eq!(session.prompt("c").await.final_text, "by two");
    session.close(DEADLINE).await;
    let loaded = store.load(begun.id()).unwrap();
    assert_eq!(changes(&loaded)[1..], ["model_change", "thinking_level_change"]);
    let (model, level) = loaded.last_settings();
    assert_eq!((model.unwrap().1.as_str(), level), ("two", Some(llm::ThinkingLevel::Low)));
}
