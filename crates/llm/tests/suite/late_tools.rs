//! Tools introduced in the middle of a conversation.
//!
//! Each request extends the previous one, so that providers' caches stay valid.

use llm::protocol::Protocols;
use llm::{
    AssistantMessage, Content, Endpoint, Message, Request, StopReason, ToolCall, ToolDefinition,
    ToolResultMessage,
};
use serde_json::{Value, json};

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        label: name.to_owned(),
        description: format!("What {name} does."),
        parameters: json!({"type": "object", "properties": {"q": {"type": "string"}}}),
    }
}

fn calls(names: &[&str]) -> Message {
    let call = |name: &&str| {
        Content::ToolCall(ToolCall {
            id: format!("{name}1"),
            name: (*name).to_owned(),
            arguments: serde_json::Map::new(),
            arguments_error: None,
            thought_signature: None,
        })
    };
    Message::Assistant(AssistantMessage {
        content: names.iter().map(call).collect(),
        stop_reason: StopReason::ToolUse,
        ..AssistantMessage::empty("a", "p", "m")
    })
}

fn result(name: &str, added: &[&str]) -> Message {
    Message::ToolResult(ToolResultMessage {
        tool_call_id: format!("{name}1"),
        tool_name: name.to_owned(),
        content: vec![Content::text(format!("result of {name}"))],
        details: Value::Null,
        is_error: false,
        added_tools: added.iter().map(|it| (*it).to_owned()).collect(),
        timestamp: 1,
    })
}

/// Request bodies before the search, after it, and after the found tool's call.
///
/// The search is in a batch with another call.
fn bodies(protocol: &str, late_tools: bool) -> [Value; 3] {
    let protocol = Protocols::default().get(protocol).unwrap();
    let endpoint = Endpoint { late_tools, ..Endpoint::new("p", "http://127.0.0.1:1/v1", "m") };
    let mut messages = vec![Message::user("go")];
    let mut tools = vec![tool("read"), tool("search_tools")];
    let body = |messages: &[Message], tools: &[ToolDefinition]| {
        let request =
            Request { messages: messages.to_vec().into(), tools: tools.to_vec(), ..Request::default() };
        protocol.encode(&endpoint, &request).unwrap().body
    };
    let first = body(&messages, &tools);
    messages.extend([calls(&["search_tools", "read"]), result("search_tools", &["debug", "gone"])]);
    messages.push(result("read", &[]));
    tools.push(tool("debug"));
    let second = body(&messages, &tools);
    messages.extend([calls(&["debug"]), result("debug", &[])]);
    [first, second, body(&messages, &tools)]
}

/// Removes cache marks, whose positions change.
fn unmarked(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => {
            members.remove("cache_control");
            members.values_mut().for_each(|it| *it = unmarked(it.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|it| *it = unmarked(it.take())),
        _ => {}
    }
    value
}

/// Checks that each request extends the previous one; returns the last.
fn check_growth(protocol: &str, transcript: &str) -> Value {
    let bodies = bodies(protocol, true).map(unmarked);
    let seen_first = |body: &Value| -> Vec<Value> {
        let tools = body["tools"].as_array().unwrap().iter();
        tools.filter(|it| it["defer_loading"] != true).cloned().collect()
    };
    for pair in bodies.windows(2) {
        assert_eq!(seen_first(&pair[0]), seen_first(&pair[1]), "{protocol}");
        let [before, after] = [&pair[0][transcript], &pair[1][transcript]].map(|it| it.as_array().unwrap());
        assert_eq!(after[..before.len()], before[..], "{protocol}");
    }
    assert!(!bodies[2].to_string().contains("gone"), "a tool that is not offered is not named");
    bodies.into_iter().next_back().unwrap()
}

#[test]
fn anthropic_gets_late_tools_by_reference() {
    let body = check_growth("anthropic-messages", "messages");
    assert_eq!(
        body["messages"][2],
        json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "search_tools1", "content": [
                {"type": "tool_reference", "tool_name": "debug"},
            ]},
            {"type": "tool_result", "tool_use_id": "read1", "content": [
                {"type": "text", "text": "result of read"},
            ]},
            {"type": "text", "text": "result of search_tools"},
        ]})
    );
    let late = &body["tools"][2];
    assert_eq!((&late["name"], &late["defer_loading"]), (&json!("debug"), &json!(true)));
    let marked = &bodies("anthropic-messages", true)[1]["tools"];
    assert!(marked[1].get("cache_control").is_some() && marked[2].get("cache_control").is_none(), "{marked}");
}

#[test]
fn openai_gets_late_tools_after_the_results() {
    let body = check_growth("openai-responses", "input");
    let kinds: Vec<&str> =
        body["input"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap_or("message")).collect();
    assert_eq!(
        kinds,
        [
            "message",
            "function_call",
            "function_call",
            "function_call_output",
            "function_call_output",
            "additional_tools",
            "function_call",
            "function_call_output"
        ]
    );
    let added = &body["input"][5];
    assert_eq!((&added["role"], &added["tools"][0]["name"]), (&json!("developer"), &json!("debug")));
    assert_eq!(body["tools"].as_array().unwrap().len(), 2);
}

#[test]
fn completions_get_late_tools_in_a_textless_message() {
    let body = check_growth("openai-completions", "messages");
    let added = &body["messages"][4];
    assert_eq!((&added["role"], added.get("content")), (&json!("system"), None));
    assert_eq!(added["tools"][0]["function"]["name"], "debug");
    assert_eq!(body["tools"].as_array().unwrap().len(), 2);
}

#[test]
fn other_protocols_append_late_tools_to_the_list() {
    for (protocol, name) in [
        ("anthropic-messages", "/tools/2/name"),
        ("openai-responses", "/tools/2/name"),
        ("openai-completions", "/tools/2/function/name"),
    ] {
        let body = &bodies(protocol, false)[1];
        assert_eq!(body.pointer(name), Some(&json!("debug")), "{protocol}");
        let text = body.to_string();
        for word in ["tool_reference", "defer_loading", "additional_tools"] {
            assert!(!text.contains(word), "{protocol}: {word}");
        }
    }
}

#[test]
fn a_request_always_begins_with_a_tool() {
    let protocol = Protocols::default().get("anthropic-messages").unwrap();
    let endpoint = Endpoint { late_tools: true, ..Endpoint::new("p", "http://127.0.0.1:1/v1", "m") };
    let messages = vec![Message::user("go"), calls(&["gone"]), result("gone", &["debug"])];
    let request = Request { messages: messages.into(), tools: vec![tool("debug")], ..Request::default() };
    let body = protocol.encode(&endpoint, &request).unwrap().body;
    assert_eq!(body["tools"][0].get("defer_loading"), None);
    assert!(!body.to_string().contains("tool_reference"));
}
