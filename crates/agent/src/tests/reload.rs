//! Reloads before a turn.

use super::*;
use crate::{Reload, ReloadSource};

/// Has a change ready for one of its polls.
struct Changing {
    looks: Mutex<Vec<Option<Reload>>>,
}

impl ReloadSource for Changing {
    fn poll_changes(&self) -> Option<Reload> {
        let mut looks = self.looks.lock();
        if looks.is_empty() { None } else { looks.remove(0) }
    }
}

fn start(script: &[Value], looks: Vec<Option<Reload>>) -> Running {
    let script: String = script.iter().map(|line| format!("{line}\n")).collect();
    let model = Arc::new(ScriptModel::parse("test", &script).unwrap());
    let events = Arc::new(Recorder::default());
    let tools = Registry::new([Arc::new(echo("old")) as Arc<dyn Tool>]).unwrap();
    let session = Session::builder(model.clone(), tools)
        .system("old words")
        .sink(events.clone())
        .reload_source(Arc::new(Changing { looks: Mutex::new(looks) }))
        .build();
    Running { session, model, events }
}

#[tokio::test]
async fn a_reload_applies_from_the_next_turn_and_is_reported() {
    let change = Reload {
        instructions: Some("new words".to_owned()),
        tools: Some(Registry::new([Arc::new(echo("new")) as Arc<dyn Tool>]).unwrap()),
        changed: vec!["AGENTS.md".to_owned()],
        problems: vec!["a.md: line 3".to_owned()],
        ..Reload::default()
    };
    let script = [
        calls(&[call("c1", "old", json!({"text": "a"}))]),
        calls(&[call("c2", "new", json!({"text": "b"})), call("c3", "old", json!({"text": "c"}))]),
        text("done"),
    ];
    let running = start(&script, vec![None, Some(change)]);
    assert_eq!(running.session.state().borrow().instructions, "old words");
    let outcome = running.prompt("go").await;
    let errors: Vec<bool> = running.results(&outcome).into_iter().map(|(_, is_error)| is_error).collect();
    assert_eq!(errors, [false, false, true], "the old tool is gone from the second turn on");
    let shown = running.shown();
    let reloaded = shown.iter().position(|line| line.starts_with("reloaded")).unwrap();
    assert_eq!(shown[reloaded], r#"reloaded ["AGENTS.md"] ["a.md: line 3"]"#);
    assert_eq!(shown[reloaded + 1], "turn_start 2", "{shown:#?}");
    assert_eq!(running.session.state().borrow().instructions, "new words");
}

#[tokio::test]
async fn limits_policy_and_model_reload_between_turns() {
    let directory = tempfile::tempdir().unwrap();
    let root = paths::AbsPath::new(directory.path().canonicalize().unwrap()).unwrap();
    let trust = policy::TrustStore::new(paths::StateDir::new(root.join("state")));
    let policy = policy::Policy::new(policy::PolicyOptions::new(trust, root));
    let named = |name: &str| {
        tool(name, |_, cx| {
            Box::pin(async move {
                let may = cx.policy().map_or("no policy", |_| "a policy");
                cx.show_plan(vec![crate::events::PlanStep {
                    text: may.to_owned(),
                    status: crate::events::StepStatus::Active,
                }])
                .await;
                ToolResult::text(may)
            })
        })
    };
    let other =
        "{\"expect\": {\"tools\": [\"t\"]}, \"tool_calls\": [{\"name\": \"t\", \"arguments\": {}}]}\n"
            .repeat(9);
    let change = Reload {
        limits: Some(Limits { turns: 3, ..Limits::default() }),
        policy: Some(Arc::new(policy)),
        model: Some(Arc::new(ScriptModel::parse("other", &other).unwrap())),
        changed: vec!["run.turn_limit".to_owned()],
        ..Reload::default()
    };
    let model =
        Arc::new(ScriptModel::parse("test", &format!("{}\n", calls(&[call("c1", "t", json!({}))]))).unwrap());
    let events = Arc::new(Recorder::default());
    let tools = Registry::new([Arc::new(named("t")) as Arc<dyn Tool>]).unwrap();
    let looks = Mutex::new(vec![None, Some(change)]);
    let session = Session::builder(model.clone(), tools)
        .sink(events.clone())
        .reload_source(Arc::new(Changing { looks }))
        .build();
    let running = Running { session, model, events };
    let outcome = running.prompt("go").await;
    assert_eq!((outcome.reason, outcome.turns), (crate::TerminationReason::TurnLimit, 3), "{outcome:?}");
    let texts: Vec<String> = running.results(&outcome).into_iter().map(|(text, _)| text).collect();
    assert_eq!(texts, ["no policy", "a policy", "a policy"]);
    let shown = running.shown();
    let plan = shown.iter().position(|line| line == "plan no policy Active").unwrap();
    assert_eq!(shown[plan + 1], "tool_end c1", "{shown:#?}");
    assert_eq!(running.session.state().borrow().plan[0].text, "a policy");
}

#[tokio::test]
async fn a_panicking_reload_source_does_not_end_the_run() {
    struct Failing;
    impl ReloadSource for Failing {
        fn poll_changes(&self) -> Option<Reload> {
            panic!("on purpose");
        }
    }
    let model = Arc::new(ScriptModel::parse("test", "{\"text\": \"done\"}\n").unwrap());
    let session = Session::builder(model, Registry::default()).reload_source(Arc::new(Failing)).build();
    let outcome = tokio::time::timeout(DEADLINE, session.prompt("go")).await.unwrap();
    assert_eq!(outcome.reason, crate::TerminationReason::NoToolCalls);
}
