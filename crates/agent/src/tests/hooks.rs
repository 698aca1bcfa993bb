//! Effects of hooks on requests and results, and failing hooks.

use expect_test::expect;
use futures_util::future::BoxFuture;
use llm::protocol::openai_completions;
use llm::{ApiKey, Endpoint, Message, Model as _, RemoteModel};
use serde_json::json;
use testing::model::{ModelServer, Reply};

use super::*;
use crate::hooks::CallDecision;
use crate::{Hooks, Messages, TerminationReason};

/// Ends the run if the call's argument says so.
struct Ending;

impl Hooks for Ending {
    fn before_tool_call<'a>(
        &'a self,
        _: &'a llm::ToolCall,
        args: &'a Value,
        _: &'a Messages,
    ) -> BoxFuture<'a, Result<CallDecision, String>> {
        Box::pin(async move {
            let blocks = args["text"] == "blocked";
            let block = CallDecision::Block { reason: "no".to_owned(), terminate: true };
            Ok(if blocks { block } else { CallDecision::Proceed })
        })
    }
    fn after_tool_call<'a>(
        &'a self,
        _: &'a llm::ToolCall,
        args: &'a Value,
        result: ToolResult,
    ) -> BoxFuture<'a, Result<ToolResult, String>> {
        Box::pin(async move {
            Ok(match args["text"].as_str() {
                Some("set") => ToolResult { terminate: true, ..result },
                Some("cleared") => ToolResult { terminate: false, ..result },
                _ => result,
            })
        })
    }
}

#[tokio::test]
async fn a_result_or_hook_may_end_the_run_and_a_hook_may_revoke_it() {
    for (word, ends) in [("blocked", true), ("set", true), ("own", true), ("cleared", false)] {
        let own = tool("t", |args, _| {
            Box::pin(async move {
                let terminate = args["text"] == "own" || args["text"] == "cleared";
                ToolResult { terminate, ..ToolResult::text("x") }
            })
        });
        let script = [calls(&[call("a", "t", json!({"text": word}))]), text("ok")];
        let running = setup(&script).tool(own).hooks(Ending).start();
        let outcome = running.prompt("go").await;
        let (reason, turns) = if ends {
            (TerminationReason::TerminatedByTools, 1)
        } else {
            (TerminationReason::NoToolCalls, 2)
        };
        assert_eq!((outcome.reason, outcome.turns), (reason, turns), "{word}");
    }
}

/// Panics in the configured method, and records the order of calls.
struct Requests {
    panics: &'static str,
    asked: Mutex<Vec<String>>,
    responses: Mutex<Vec<String>>,
}

impl Requests {
    fn note(&self, what: &'static str) {
        self.asked.lock().push(what.to_owned());
        assert!(what != self.panics, "a defect of the hook");
    }
}

impl Hooks for Arc<Requests> {
    fn transform_context<'a>(&'a self, mut messages: Vec<Message>) -> BoxFuture<'a, Vec<Message>> {
        Box::pin(async move {
            self.note("transform");
            messages.insert(0, Message::user("first of all"));
            messages
        })
    }
    fn convert_to_llm<'a>(&'a self, messages: Vec<Message>) -> BoxFuture<'a, Vec<Message>> {
        Box::pin(async move {
            self.note("convert");
            assert_eq!(messages[0].text(), "first of all", "after the transformation");
            messages
        })
    }
    fn get_api_key<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Option<ApiKey>> {
        Box::pin(async move {
            self.note("key");
            let count = self.asked.lock().iter().filter(|it| *it == "key").count();
            ApiKey::new(&format!("key-{count}-of-{provider}"))
        })
    }
    fn on_payload<'a>(&'a self, body: &'a Value) -> BoxFuture<'a, Option<Value>> {
        Box::pin(async move {
            self.note("payload");
            let mut body = body.clone();
            body["seen"] = body["messages"][1]["content"].clone();
            Some(body)
        })
    }
    fn on_response(&self, status: u16, headers: &[(String, String)]) {
        let kind = headers.iter().find(|(name, _)| name == "content-type").map(|(_, value)| value.as_str());
        self.responses.lock().push(format!("{status} {}", kind.unwrap_or_default()));
    }
}

fn requests(panics: &'static str) -> Arc<Requests> {
    Arc::new(Requests { panics, asked: Mutex::default(), responses: Mutex::default() })
}

#[tokio::test]
async fn a_panicking_request_hook_gives_an_error_message() {
    let mut errors = Vec::new();
    for panics in ["transform", "convert", "key"] {
        let running = setup(&[text("not asked")]).hooks(requests(panics)).start();
        let outcome = running.prompt("go").await;
        assert_eq!(outcome.reason, TerminationReason::Error, "{panics}");
        errors.push(outcome.error.unwrap());
        let shown = running.shown();
        let end =
            ["start Assistant", "end assistant: ", "turn_end 1 results=0 continue=false", "agent_end Error"];
        assert_eq!(shown[shown.len() - 4..], end);
        assert_eq!(running.model.unused(), 1);
    }
    expect![[r#"
        a hook panicked in transform_context or convert_to_llm
        a hook panicked in transform_context or convert_to_llm
        a hook panicked in get_api_key"#]]
    .assert_eq(&errors.join("\n"));
}

#[tokio::test]
async fn each_request_has_one_key_and_one_transformed_context() {
    let hooks = requests("");
    let first = calls(&[call("a", "t", json!({}))]);
    let (outcome, running) = setup(&[first, text("ok")]).tool(echo("t")).hooks(hooks.clone()).run().await;
    assert_eq!(outcome.reason, TerminationReason::NoToolCalls);
    let once = ["transform", "convert", "key"];
    assert_eq!(*hooks.asked.lock(), [once, once].concat());
    let requests = running.model.requests();
    assert_eq!(requests[1].api_key, ApiKey::new("key-2-of-script"));
    assert_eq!(requests[0].messages[0].text(), "first of all");
    let kept = running.session.messages().await.unwrap();
    assert_eq!(kept[0].text(), "go", "the transcript stays as it is");
}

#[tokio::test]
async fn hooks_see_the_key_the_body_and_the_answer() {
    let server = ModelServer::start([Reply::text("hello")]).await.unwrap();
    let hooks = requests("");
    let secret = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
    let model = RemoteModel::new(
        Arc::new(openai_completions::PROTOCOL),
        Endpoint::new("local", &server.base_url(), "m"),
    );
    assert_eq!(model.info().provider, "local");
    let session =
        Session::builder(Arc::new(model), Registry::default()).hooks(Arc::new(hooks.clone())).build();
    let outcome = session.prompt(format!("use {secret}")).await;
    assert_eq!(outcome.final_text, "hello", "{outcome:?}");
    let received = server.received();
    let authorization = received[0].headers.iter().find(|(name, _)| name == "authorization").unwrap();
    assert_eq!(authorization.1, "Bearer key-1-of-local");
    assert_eq!(received[0].body["seen"], "use [redacted:github-token]", "the hook sees no secret");
    assert_eq!(*hooks.responses.lock(), ["200 text/event-stream"]);
}

#[tokio::test]
async fn an_empty_result_becomes_an_empty_text() {
    let empty =
        tool("t", |_, _| Box::pin(async { ToolResult { content: Vec::new(), ..ToolResult::text("") } }));
    let (outcome, running) =
        setup(&[calls(&[call("a", "t", json!({}))]), text("ok")]).tool(empty).run().await;
    assert_eq!(running.results(&outcome), [(String::new(), false)]);
    assert_eq!(outcome.messages[2].content(), [llm::Content::text("")]);
}

/// Makes a message of one kind of custom message.
struct Customs;

impl Hooks for Customs {
    fn custom_message(&self, kind: &str, data: &Value) -> Option<Message> {
        (kind == "message").then(|| Message::user(data["text"].as_str().unwrap_or_default()))
    }
}

#[tokio::test]
async fn custom_messages_are_sent_only_if_a_hook_says_so() {
    let expecting = json!({"expect": {"messages": 2}, "text": "ok"});
    let running = setup(&[expecting]).hooks(Customs).start();
    running.session.append_custom("note", json!({"text": "private"})).await.unwrap();
    running.session.append_custom("message", json!({"text": "for the model"})).await.unwrap();
    let outcome = running.prompt("go").await;
    assert_eq!(outcome.final_text, "ok", "{outcome:?}");
    assert!(running.shown().contains(&"custom note".to_owned()));
    assert_eq!(running.model.requests()[0].messages[0].text(), "for the model");
}

#[tokio::test]
async fn the_transcript_is_replaced_after_earlier_operations() {
    let running = setup(&[text("one"), text("two")]).start();
    let clear = running.session.replace_messages(Vec::new());
    let (outcome, cleared) = tokio::join!(running.prompt("go"), clear);
    assert_eq!((outcome.final_text.as_str(), cleared.is_ok()), ("one", true));
    assert_eq!(running.session.messages().await.unwrap(), []);
    let state = running.session.state().borrow().clone();
    assert!(state.messages.is_empty() && state.error.is_none() && state.queued == (0, 0));
    running.session.replace_messages(vec![Message::user("other"), Message::user("more")]).await.unwrap();
    running.session.continue_run().await.unwrap();
    assert_eq!(running.model.requests()[1].messages.len(), 2);
}
