//! The flat list of eleven, and the names that remote clients know.

use serde_json::json;

use super::*;
use crate::{Flat, TerminationReason, flat_reason, flatten, remote_name};

fn flat(running: &Running) -> Vec<Value> {
    let envelopes = running.events.envelopes.lock().unwrap();
    flatten(envelopes.iter()).iter().map(|it| serde_json::to_value(it).unwrap()).collect()
}

#[tokio::test]
async fn r6_a_run_as_the_flat_list_has_it() {
    let mut first = calls(&[call("a", "t", json!({"n": 1}))]);
    first["usage"] = json!({"input": 3, "output": 4});
    let (_, running) = setup(&[first, text("done")]).tool(echo("t")).run().await;
    let flat = flat(&running);
    let kinds: Vec<&str> = flat.iter().map(|it| it["type"].as_str().unwrap()).collect();
    let expected = [
        "agent_start",
        "turn_start",
        "message_start",
        "message_end",
        "message_start",
        "message_end",
        "tool_execution_start",
        "tool_execution_end",
        "message_start",
        "message_end",
        "turn_end",
        "turn_start",
        "message_start",
        "text_delta",
        "message_end",
        "turn_end",
        "agent_end",
    ];
    assert_eq!(kinds, expected);
    let session_id = running.session.id();
    assert_eq!((&flat[0]["session_id"], &flat[0]["model"]), (&json!(session_id), &json!("test")));
    assert_eq!((&flat[1]["turn_index"], &flat[1]["messages"]), (&json!(1), &json!(0)));
    assert_eq!(flat[4]["model"], "test");
    assert_eq!((&flat[5]["stop_reason"], &flat[5]["usage"]["totalTokens"]), (&json!("tool_use"), &json!(7)));
    assert_eq!((&flat[7]["success"], &flat[7]["output"][0]["text"]), (&json!(true), &json!("{\"n\":1}")));
    assert!(flat[7]["duration_ms"].is_u64());
    assert_eq!((&flat[10]["should_continue"], flat[10].get("termination_reason")), (&json!(true), None));
    assert_eq!(flat[11]["messages"], 3);
    assert_eq!((&flat[13]["delta"], &flat[13]["index"]), (&json!("done"), &json!(0)));
    assert_eq!(flat[14]["stop_reason"], "end_turn");
    assert_eq!(flat[15]["termination_reason"], "no_tool_calls");
    assert_eq!(flat[15]["turn_id"], flat[11]["turn_id"]);
    let end = &flat[16];
    assert_eq!((&end["total_turns"], &end["total_tokens"]), (&json!(2), &json!(7)));
    assert_eq!(end["termination_reason"], "no_tool_calls");
}

#[tokio::test]
async fn r6_an_error_comes_before_the_end_and_its_message_has_no_stop_reason() {
    let (_, running) = setup(&[json!({"text": "half", "error": "it broke"})]).run().await;
    let flat = flat(&running);
    let [.., message, turn, error, end] = flat.as_slice() else { panic!("{flat:?}") };
    assert_eq!((&message["type"], message.get("stop_reason")), (&json!("message_end"), None));
    assert_eq!(turn["termination_reason"], "error");
    assert_eq!((&error["type"], &error["message"]), (&json!("error"), &json!("it broke")));
    assert_eq!((&end["type"], &end["termination_reason"]), (&json!("agent_end"), &json!("error")));
}

#[test]
fn r6_reasons_have_the_names_that_were_asked_for() {
    use TerminationReason::*;
    let names = [Aborted, Disconnected, TimeoutTotal, TimeoutIdle, Error, NoToolCalls].map(flat_reason);
    let expected = [
        "abort_signal",
        "gateway_disconnected",
        "timeout_48h",
        "idle_timeout_120s",
        "error",
        "no_tool_calls",
    ];
    assert_eq!(names, expected);
    assert!(flatten(&[]).is_empty());
    let _: fn(&Flat) -> Result<String, serde_json::Error> = serde_json::to_string::<Flat>;
}

#[tokio::test]
async fn r5_remote_clients_are_told_by_name_and_what_they_are_not_told_has_a_reason() {
    use crate::Remote;
    let (_, running) = setup(&[calls(&[call("a", "t", json!({}))]), text("ok")]).tool(echo("t")).run().await;
    let envelopes = running.events.envelopes.lock().unwrap();
    let told: Vec<&str> = envelopes
        .iter()
        .filter_map(|it| match remote_name(&it.event) {
            Remote::Told(name) => Some(name),
            Remote::Dropped(why) => {
                assert!(!why.is_empty());
                None
            }
        })
        .collect();
    for name in ["session.message.delta", "session.tool.started", "session.status.changed"] {
        assert!(told.contains(&name), "{name}: {told:?}");
    }
}
