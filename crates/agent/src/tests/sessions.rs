//! Sessions: the order of operations, the handle, and calls without a model.

use std::sync::atomic::AtomicBool;

use policy::DeniedBy;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use workspace::RunId;

use super::*;
use crate::Toolset;
use crate::events::emitter::Emitter;
use crate::tool::gate::Gate;
use crate::{TerminationReason, call_tool};

#[tokio::test]
async fn operations_are_served_in_order_despite_failures() {
    let script: Vec<Value> = (0..100)
        .map(|at| if at % 7 == 3 { json!({"error": "it broke"}) } else { text(&format!("{at}")) })
        .collect();
    let running = setup(&script).start();
    let prompts: Vec<_> =
        (0..100).map(|at| running.prompt(Box::leak(format!("p{at}").into_boxed_str()))).collect();
    let outcomes = futures_util::future::join_all(prompts).await;
    for (at, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.messages[0].text(), format!("p{at}"));
        if at % 7 == 3 {
            assert_eq!(outcome.reason, TerminationReason::Error);
        } else {
            assert_eq!(outcome.final_text, at.to_string());
        }
    }
    let messages = running.session.messages().await.unwrap();
    assert_eq!(messages.len(), 200);
    let ends = running.shown().iter().filter(|it| it.starts_with("agent_end")).count();
    assert_eq!(ends, 100);
}

#[tokio::test]
async fn the_state_can_be_watched() {
    let running = setup(&[json!({"wait_for_cancel": true})]).start();
    let mut state = running.session.state();
    assert!(!state.borrow().running);
    let watch = async {
        let streaming = state.wait_for(|state| state.running && state.streaming && state.turns == 1);
        tokio::time::timeout(DEADLINE, streaming).await.expect("it streams").unwrap();
        running.session.abort();
    };
    let (_, ()) = tokio::join!(running.prompt("go"), watch);
    let idle = running.session.state().borrow().clone();
    assert_eq!((idle.running, idle.streaming, idle.messages.len()), (false, false, 2));
}

#[tokio::test]
async fn a_closed_session_rejects_operations() {
    let running = setup(&[text("ok")]).start();
    assert!(running.session.close(DEADLINE).await);
    let outcome = running.prompt("go").await;
    assert_eq!(outcome.reason, TerminationReason::Disconnected);
    assert_eq!(running.session.messages().await, None);
}

#[tokio::test]
async fn dropping_the_last_handle_cancels_the_run() {
    let running = setup(&[json!({"wait_for_cancel": true})]).start();
    let Running { session, events, .. } = running;
    let prompting = tokio::spawn({
        let session = session.clone();
        async move { session.prompt("go").await }
    });
    events.wait_for("start Assistant").await;
    prompting.abort();
    drop(session);
    events.wait_for("agent_end Aborted").await;
}

#[tokio::test]
async fn the_instructions_and_tools_are_in_every_request() {
    let expect = json!({"system_contains": ["Be brief."], "tools": ["b", "a"]});
    let script = [
        json!({"expect": expect, "tool_calls": [call("x", "a", json!({}))]}),
        json!({"expect": expect, "text": "ok"}),
    ];
    let script: String = script.iter().map(|line| format!("{line}\n")).collect();
    let model = Arc::new(ScriptModel::parse("t", &script).unwrap());
    let tools = Registry::new(["b", "a"].map(|name| Arc::new(echo(name)) as Arc<dyn Tool>)).unwrap();
    let outcome = Session::builder(model, tools).system("Be brief.").build().prompt("go").await;
    assert_eq!((outcome.final_text.as_str(), outcome.error), ("ok", None));
}

/// Records the address of each request's messages.
struct Pointing {
    model: ScriptModel,
    seen: Mutex<Vec<(usize, usize)>>,
}

impl llm::Model for Pointing {
    fn info(&self) -> &llm::ModelInfo {
        self.model.info()
    }
    fn stream(&self, request: llm::Request, cancel: CancellationToken) -> llm::MessageStream {
        let place = Arc::as_ptr(&request.messages) as usize;
        self.seen.lock().push((place, request.messages.len()));
        self.model.stream(request, cancel)
    }
}

#[tokio::test]
async fn messages_of_earlier_requests_are_not_copied() {
    let turn = |at: usize| calls(&[call(&format!("c{at}"), "t", json!({}))]);
    let broken = json!({"text": "half", "error": "it broke", "error_kind": "unavailable"});
    let script: String =
        [turn(0), broken, turn(1), turn(2), text("done")].map(|line| format!("{line}\n")).concat();
    let model = ScriptModel::parse("t", &script).unwrap().forgetful();
    let model = Arc::new(Pointing { model, seen: Mutex::default() });
    let tools = Registry::new([Arc::new(echo("t")) as Arc<dyn Tool>]).unwrap();
    tokio::time::pause();
    let outcome = Session::builder(model.clone(), tools).build().prompt("go").await;
    assert_eq!(outcome.error, None);
    let seen = model.seen.lock().clone();
    let lengths: Vec<usize> = seen.iter().map(|(_, length)| *length).collect();
    assert_eq!(lengths, [1, 3, 3, 5, 7], "what failed is not sent");
    assert!(seen.iter().all(|(place, _)| *place == seen[0].0), "{seen:?}");
}

pub(super) fn cx(events: Emitter) -> ToolCx {
    let gate = Gate::new(None, Arc::new(policy::Unattended), false, Arc::default());
    let open = Arc::new(AtomicBool::new(false));
    ToolCx::in_run(
        "c",
        &RunId::new(),
        CancellationToken::new(),
        Arc::new(gate),
        Arc::new(Toolset::all(Arc::default())),
        events,
        open,
    )
}

#[tokio::test]
async fn a_call_without_a_model_has_the_same_checks() {
    let panics = tool("panics", |_, _| panic!("a defect"));
    let tools = [echo("t"), panics].map(|it| Arc::new(it) as Arc<dyn Tool>);
    let registry = Registry::new(tools).unwrap();
    let cx = cx(Emitter::start(
        "s".to_owned(),
        Vec::new(),
        crate::SessionState::default(),
        0,
        &tokio_util::task::TaskTracker::new(),
    ));
    let good = call_tool(&registry, "t", json!({"n": "7"}), &cx).await;
    assert_eq!((good.joined_text().as_str(), good.is_error), ("{\"n\":7}", false));
    for (name, args, code) in [
        ("none", json!({}), policy::ErrorCode::NotFound),
        ("t", json!({"n": "x"}), policy::ErrorCode::InvalidArguments),
        ("t", json!([1]), policy::ErrorCode::InvalidArguments),
        ("panics", json!({}), policy::ErrorCode::Internal),
    ] {
        let result = call_tool(&registry, name, args, &cx).await;
        assert_eq!(result.error.map(|error| error.code), Some(code), "{name}");
    }
}

#[tokio::test]
async fn an_unattended_denial_is_in_the_outcome() {
    for by in [DeniedBy::Unattended, DeniedBy::Policy] {
        let denied = tool("t", move |_, _| {
            Box::pin(async move {
                let (code, reason) = (policy::ErrorCode::Denied, "writing asks".to_owned());
                ToolResult::denied(&policy::Denied { code, reason, by })
            })
        });
        let (outcome, running) =
            setup(&[calls(&[call("a", "t", json!({}))]), text("ok")]).tool(denied).run().await;
        assert_eq!(outcome.denied_unattended, by == DeniedBy::Unattended);
        assert_eq!(running.results(&outcome), [("writing asks".to_owned(), true)]);
        let again = running.prompt("again").await;
        assert!(!again.denied_unattended, "each run says it for itself");
    }
}
