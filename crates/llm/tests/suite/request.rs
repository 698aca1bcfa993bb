//! Requests of chat completions.
//!
//! They are one conversation with every kind of content, and servers' deviations.

use llm::protocol::openai_completions;
use llm::protocol::{HttpRequest, Protocol as _};
use llm::{
    ApiKey, AssistantMessage, Compat, Content, Endpoint, MaxTokensField, Message, Request, StopReason,
    ThinkingLevel, ToolCall, ToolDefinition, ToolResultMessage,
};
use serde_json::{Value, json};

fn encode(endpoint: &Endpoint, request: &Request) -> HttpRequest {
    openai_completions::PROTOCOL.encode(endpoint, request).unwrap()
}

fn endpoint() -> Endpoint {
    Endpoint { images: true, ..Endpoint::new("local", "http://127.0.0.1:1/v1/", "m") }
}

fn call(id: &str, arguments: Value) -> Content {
    Content::ToolCall(ToolCall {
        id: id.to_owned(),
        name: "read".to_owned(),
        arguments: arguments.as_object().unwrap().clone(),
        arguments_error: None,
        thought_signature: None,
    })
}

fn thinking(text: &str) -> Content {
    Content::Thinking {
        thinking: text.to_owned(),
        thinking_signature: Some("reasoning".to_owned()),
        redacted: false,
    }
}

fn image() -> Content {
    Content::Image { data: "QUJD".to_owned(), mime_type: "image/png".to_owned() }
}

fn assistant(provider: &str, content: Vec<Content>) -> Message {
    Message::Assistant(AssistantMessage {
        content,
        stop_reason: StopReason::ToolUse,
        ..AssistantMessage::empty("openai-completions", provider, "m")
    })
}

fn result(id: &str, content: Vec<Content>) -> Message {
    Message::ToolResult(ToolResultMessage {
        tool_call_id: id.to_owned(),
        tool_name: "read".to_owned(),
        content,
        details: json!({"kept": "from the model"}),
        is_error: false,
        added_tools: Vec::new(),
        timestamp: 1,
    })
}

fn request() -> Request {
    let mut first = Message::user("look");
    if let Message::User(user) = &mut first {
        user.content.push(image());
    }
    Request {
        system: "Be brief.".to_owned(),
        messages: vec![
            first,
            assistant(
                "local",
                vec![thinking("own"), Content::text("Reading."), call("a", json!({"path": "x"}))],
            ),
            result("a", vec![Content::text("text"), image()]),
            assistant("elsewhere", vec![thinking("foreign"), call("call_1|fc_very_long", json!({}))]),
            result("call_1|fc_very_long", vec![]),
            Message::user("and now?"),
        ]
        .into(),
        tools: vec![ToolDefinition {
            name: "read".to_owned(),
            label: "Read".to_owned(),
            description: "Reads a file.".to_owned(),
            parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        }],
        max_tokens: Some(100),
        ..Request::default()
    }
}

#[test]
fn a_full_conversation_is_encoded() {
    let http = encode(&endpoint(), &request());
    assert_eq!(http.url, "http://127.0.0.1:1/v1/chat/completions");
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}});
    assert_eq!(
        http.body,
        json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "look"}, picture]},
                {"role": "assistant", "content": "Reading.", "reasoning": "own", "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"x\"}"}},
                ]},
                {"role": "tool", "tool_call_id": "a", "content": "text"},
                {"role": "user", "content": [{"type": "text", "text": "Attached image(s) from tool result:"}, {"type": "text", "text": "text"}, picture]},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "pilcrow_call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}},
                ]},
                {"role": "tool", "tool_call_id": "pilcrow_call_1", "content": "(no tool output)"},
                {"role": "user", "content": "and now?"},
            ],
            "stream": true,
            "stream_options": {"include_usage": true},
            "max_tokens": 100,
            "tools": [{"type": "function", "function": {
                "name": "read", "description": "Reads a file.",
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
            }}],
        })
    );
    assert_eq!(encode(&endpoint(), &request()).body.to_string(), http.body.to_string(), "byte for byte");
}

#[test]
fn deviations_of_servers_are_data() {
    let compat = Compat {
        max_tokens_field: MaxTokensField::MaxCompletionTokens,
        usage_in_streaming: false,
        non_null_assistant_content: true,
        ..Compat::default()
    };
    let http = encode(&Endpoint { compat, images: false, ..endpoint() }, &request());
    assert_eq!(http.body["max_completion_tokens"], 100);
    assert_eq!((http.body.get("max_tokens"), http.body.get("stream_options")), (None, None));
    assert_eq!(http.body["messages"][1]["content"], "look\n(image omitted: model does not support images)");
    assert_eq!(
        http.body["messages"][3]["content"],
        "text\n(tool image omitted: model does not support images)"
    );
    assert_eq!(http.body["messages"][4]["content"], "", "no message with images is between them");
}

#[test]
fn required_reasoning_content_gets_a_placeholder() {
    let compat = Compat { reasoning_content: true, ..Compat::default() };
    let mut endpoint = Endpoint { compat, ..endpoint() };
    let own = |http: &HttpRequest, at: usize| http.body["messages"][at]["reasoning_content"].clone();
    let http = encode(&endpoint, &request());
    assert_eq!((own(&http, 2), own(&http, 5)), (json!(" "), json!(" ")), "{}", http.body);
    assert_eq!((own(&http, 1), own(&http, 3)), (Value::Null, Value::Null), "only assistant messages");
    endpoint.provider = "kimi".to_owned();
    let kept = Content::Thinking {
        thinking: "own".to_owned(),
        thinking_signature: Some("reasoning_content".to_owned()),
        redacted: false,
    };
    let messages = vec![Message::user("go"), assistant("kimi", vec![kept, Content::text("a")])];
    let http = encode(&endpoint, &Request { messages: messages.into(), ..Request::default() });
    assert_eq!(own(&http, 1), "own");
}

#[test]
fn no_tools_means_no_field_and_a_key_does_not_print() {
    let endpoint = Endpoint { api_key: ApiKey::new("sk-secret"), ..endpoint() };
    let http =
        encode(&endpoint, &Request { messages: vec![Message::user("hi")].into(), ..Request::default() });
    assert_eq!(http.body.get("tools"), None);
    assert!(!format!("{http:?} {endpoint:?}").contains("sk-secret"));
}

#[test]
fn the_thinking_level_and_a_request_key_are_sent() {
    let mut endpoint = Endpoint::new("p", "http://127.0.0.1:1/v1", "m");
    endpoint.api_key = ApiKey::new("old");
    let with = |thinking| Request {
        messages: vec![Message::user("hi")].into(),
        thinking,
        api_key: ApiKey::new("new"),
        ..Request::default()
    };
    endpoint.thinking = serde_json::from_value(json!({"low": "low", "high": "high"})).unwrap();
    let http = encode(&endpoint, &with(Some(ThinkingLevel::High)));
    let key = http.key.map(|(_, key)| key);
    assert_eq!((http.body["reasoning_effort"].as_str(), key), (Some("high"), ApiKey::new("new")));
    assert_eq!(encode(&endpoint, &with(None)).body.get("reasoning_effort"), None);
}

#[test]
fn pictures_of_a_failed_call_reach_the_model() {
    let failed = match result("a", vec![Content::text("it broke"), image()]) {
        Message::ToolResult(result) => Message::ToolResult(ToolResultMessage { is_error: true, ..result }),
        other => other,
    };
    let asked = assistant("local", vec![call("a", json!({}))]);
    let messages = vec![Message::user("go"), asked, failed];
    let http = encode(&endpoint(), &Request { messages: messages.into(), ..Request::default() });
    assert_eq!(http.body["messages"][2]["content"], "it broke");
    let attached = &http.body["messages"][3]["content"];
    assert_eq!((&attached[1]["text"], &attached[2]["type"]), (&json!("it broke"), &json!("image_url")));
}

#[test]
fn reasoning_details_go_back_unchanged_to_their_model() {
    let details = json!([
        {"type": "reasoning.text", "text": "Hm.", "signature": "c2ln", "index": 0},
        {"type": "reasoning.encrypted", "data": "gAAA", "id": "a", "index": 1},
    ]);
    let kept = Content::Thinking {
        thinking: "Hm.".to_owned(),
        thinking_signature: Some(json!({"reasoning_details": details}).to_string()),
        redacted: false,
    };
    for (provider, expected) in [("local", Some(&details)), ("elsewhere", None)] {
        let said = assistant(provider, vec![kept.clone(), call("a", json!({}))]);
        let messages = vec![Message::user("go"), said, result("a", vec![])];
        let http = encode(&endpoint(), &Request { messages: messages.into(), ..Request::default() });
        let message = &http.body["messages"][1];
        assert_eq!(message.get("reasoning_details"), expected);
        assert_eq!(message.get("reasoning"), None, "the reasoning is sent once");
    }
}
