//! What lies around a session, taken before a turn.

use super::*;
use crate::{Change, Surroundings};

/// Has a change ready for one of its looks.
struct Changing {
    looks: Mutex<Vec<Option<Change>>>,
}

impl Surroundings for Changing {
    fn changed(&self) -> Option<Change> {
        let mut looks = self.looks.lock().unwrap();
        if looks.is_empty() { None } else { looks.remove(0) }
    }
}

fn start(script: &[Value], looks: Vec<Option<Change>>) -> Running {
    let script: String = script.iter().map(|line| format!("{line}\n")).collect();
    let model = Arc::new(ScriptModel::parse("test", &script).unwrap());
    let events = Arc::new(Recorder::default());
    let tools = Registry::new([Arc::new(echo("old")) as Arc<dyn Tool>]).unwrap();
    let session = Session::builder(model.clone(), tools)
        .system("old words")
        .sink(events.clone())
        .surroundings(Arc::new(Changing { looks: Mutex::new(looks) }))
        .build();
    Running { session, model, events }
}

#[tokio::test]
async fn a_change_counts_from_the_next_turn_and_is_told() {
    let change = Change {
        instructions: Some("new words".to_owned()),
        tools: Some(Registry::new([Arc::new(echo("new")) as Arc<dyn Tool>]).unwrap()),
        changed: vec!["AGENTS.md".to_owned()],
        problems: vec!["a.md: line 3".to_owned()],
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
    let told = shown.iter().position(|line| line.starts_with("reloaded")).unwrap();
    assert_eq!(shown[told], r#"reloaded ["AGENTS.md"] ["a.md: line 3"]"#);
    assert_eq!(shown[told + 1], "turn_start 2", "{shown:#?}");
    assert_eq!(running.session.state().borrow().instructions, "new words");
}

#[tokio::test]
async fn what_lies_around_may_fail_and_the_run_goes_on() {
    struct Failing;
    impl Surroundings for Failing {
        fn changed(&self) -> Option<Change> {
            panic!("on purpose");
        }
    }
    let model = Arc::new(ScriptModel::parse("test", "{\"text\": \"done\"}\n").unwrap());
    let session = Session::builder(model, Registry::default()).surroundings(Arc::new(Failing)).build();
    let outcome = tokio::time::timeout(DEADLINE, session.prompt("go")).await.unwrap();
    assert_eq!(outcome.reason, crate::TerminationReason::NoToolCalls);
}
