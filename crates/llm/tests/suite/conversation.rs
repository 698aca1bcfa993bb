//! A conversation in every protocol, and transcripts with other models' messages.
//!
//! The exact requests are in `tests/golden/requests`, which `UPDATE_EXPECT=1` rewrites.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use llm::protocol::{EncodeError, Protocol, Protocols};
use llm::{
    ApiKey, AssistantMessage, CacheRetention, Content, Effort, Endpoint, ForcedTools, Message, Request,
    StopReason, Thinking, ThinkingLevel, ToolCall, ToolChoice, ToolDefinition, ToolResultMessage,
};
use serde_json::{Value, json};

pub fn protocols() -> Vec<Arc<dyn Protocol>> {
    let protocols = Protocols::default();
    protocols.names().map(|name| protocols.get(name).unwrap()).collect()
}

/// [`endpoint`] with a model that supports forced tool calls.
pub fn forced(protocol: &str) -> Endpoint {
    let model = if protocol == "bedrock-converse-stream" { "anthropic.claude-x" } else { "m" };
    Endpoint { model: model.to_owned(), ..endpoint() }
}

pub fn endpoint() -> Endpoint {
    Endpoint {
        images: true,
        api_key: ApiKey::new("sk-secret"),
        context_window: Some(200_000),
        max_output: Some(32_000),
        ..Endpoint::new("here", "http://127.0.0.1:1/v1/", "m")
    }
}

pub fn call(id: &str, arguments: Value, signature: Option<&str>) -> Content {
    Content::ToolCall(ToolCall {
        id: id.to_owned(),
        name: "read".to_owned(),
        arguments: arguments.as_object().unwrap().clone(),
        arguments_error: None,
        thought_signature: signature.map(str::to_owned),
    })
}

fn text(text: &str, signature: &str) -> Content {
    Content::Text { text: text.to_owned(), text_signature: Some(signature.to_owned()) }
}

fn thinking(text: &str, signature: &str, redacted: bool) -> Content {
    Content::Thinking { thinking: text.to_owned(), thinking_signature: Some(signature.to_owned()), redacted }
}

fn image() -> Content {
    Content::Image { data: "QUJD".to_owned(), mime_type: "image/png".to_owned() }
}

pub fn said(api: &str, provider: &str, stop_reason: StopReason, content: Vec<Content>) -> Message {
    Message::Assistant(AssistantMessage {
        content,
        stop_reason,
        ..AssistantMessage::empty(api, provider, "m")
    })
}

pub fn result(id: &str, is_error: bool, content: Vec<Content>) -> Message {
    Message::ToolResult(ToolResultMessage {
        tool_call_id: id.to_owned(),
        tool_name: "read".to_owned(),
        content,
        details: json!({"kept": "from the model"}),
        is_error,
        added_tools: Vec::new(),
        timestamp: 1,
    })
}

/// Thinking as the protocol itself would sign it.
fn own_thinking(api: &str) -> Content {
    let signature = match api {
        "openai-completions" => "reasoning",
        "azure-openai-responses" | "openai-responses" => {
            r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA"}"#
        }
        _ => "c2lnbmVk",
    };
    thinking("own thought", signature, false)
}

/// A conversation of this model and others, with every kind of content.
fn transcript(api: &str) -> Vec<Message> {
    let mut first = Message::user("look");
    if let Message::User(user) = &mut first {
        user.content.push(image());
    }
    let own = |content| said(api, "here", StopReason::ToolUse, content);
    vec![
        first,
        own(vec![
            own_thinking(api),
            text("Reading.", r#"{"v":1,"id":"msg_1"}"#),
            call("call_1|fc_1", json!({"path": "x"}), Some("c2ln")),
            call("b", json!({}), None),
        ]),
        // The results are in another order, and one has an image.
        result("b", true, vec![Content::text("no such file")]),
        result("call_1|fc_1", false, vec![Content::text("text"), image()]),
        said(
            "elsewhere",
            "there",
            StopReason::ToolUse,
            vec![
                thinking("foreign thought", "foreign signature", false),
                thinking("", "foreign redacted", true),
                text("Again.", "foreign text signature"),
                call(
                    "weird id/with:signs that is very much longer than any provider takes it to be",
                    json!({}),
                    Some("foreign call signature"),
                ),
                call("b", json!({"path": "the same id again"}), None),
            ],
        ),
        result(
            "weird id/with:signs that is very much longer than any provider takes it to be",
            false,
            vec![],
        ),
        result("b", false, vec![image()]),
        said(
            api,
            "here",
            StopReason::Error,
            vec![Content::text("failed half"), call("lost", json!({}), None)],
        ),
        result("lost", false, vec![Content::text("of a failed answer")]),
        own(vec![Content::text("  \n"), call("orphan", json!({}), None)]),
        Message::user("and now?"),
    ]
}

pub fn request(api: &str) -> Request {
    Request {
        system: "Be brief.".to_owned(),
        messages: transcript(api).into(),
        tools: vec![ToolDefinition {
            name: "read".to_owned(),
            label: "Read".to_owned(),
            description: "Reads a file.".to_owned(),
            parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        }],
        max_tokens: Some(1000),
        session_id: "s1".to_owned(),
        ..Request::default()
    }
}

/// Replaces the name of the model that took part.
pub fn rename(endpoint: &mut Endpoint, request: &mut Request, model: &str) {
    for message in Arc::make_mut(&mut request.messages) {
        if let Message::Assistant(message) = message {
            model.clone_into(&mut message.model);
        }
    }
    model.clone_into(&mut endpoint.model);
}

pub fn words(levels: &[(ThinkingLevel, &str)]) -> Thinking {
    Thinking(levels.iter().map(|(level, word)| (*level, Effort::Word((*word).to_owned()))).collect())
}

fn encode(protocol: &dyn Protocol, endpoint: &Endpoint, request: &Request) -> Value {
    let http = protocol.encode(endpoint, request).unwrap();
    assert!(!format!("{http:?}").contains("sk-secret"), "the key does not print");
    let again = protocol.encode(endpoint, request).unwrap();
    assert_eq!(again.body.to_string(), http.body.to_string(), "byte for byte");
    let key = http.key.unwrap().0;
    json!({ "url": http.url, "headers": http.headers, "key": format!("{}: {}KEY", key.header, key.prefix), "body": http.body })
}

#[test]
fn each_protocol_encodes_a_full_conversation() {
    for protocol in protocols() {
        let name = protocol.name();
        let endpoint = Endpoint {
            thinking: words(&[(ThinkingLevel::Low, "low"), (ThinkingLevel::High, "high")]),
            ..endpoint()
        };
        let mut request = Request { thinking: Some(ThinkingLevel::Medium), ..request(name) };
        let mut endpoint = endpoint;
        if name == "bedrock-converse-stream" {
            // This model supports the largest number of features.
            rename(&mut endpoint, &mut request, "anthropic.claude-m:0");
        }
        let shown = format!("{:#}\n", encode(&*protocol, &endpoint, &request));
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden/requests")
            .join(format!("{}.json", name.replace('-', "_")));
        expect_test::expect_file![file].assert_eq(&shown);
    }
}

/// The ids of calls and of results, in request order.
fn ids(body: &Value) -> (Vec<String>, Vec<String>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    let mut walk = vec![body];
    while let Some(value) = walk.pop() {
        match value {
            Value::Object(map) => {
                let at = |field: &str| map.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
                match at("type").as_str() {
                    "tool_use" => calls.push(at("id")),
                    "function" if map.contains_key("id") => calls.push(at("id")),
                    "tool_result" => results.push(at("tool_use_id")),
                    "function_call" => calls.push(at("call_id")),
                    "function_call_output" => results.push(at("call_id")),
                    _ if map.contains_key("tool_call_id") => results.push(at("tool_call_id")),
                    _ => {}
                }
                for (fields, name, ids) in [
                    (["functionCall", "toolUse"], ["id", "toolUseId"], &mut calls),
                    (["functionResponse", "toolResult"], ["id", "toolUseId"], &mut results),
                ] {
                    for id in
                        fields.iter().zip(name).filter_map(|(field, name)| map.get(*field)?[name].as_str())
                    {
                        ids.push(id.to_owned());
                    }
                }
                walk.extend(map.values().rev());
            }
            Value::Array(list) => walk.extend(list.iter().rev()),
            _ => {}
        }
    }
    (calls, results)
}

#[test]
fn every_call_is_answered_once_by_a_valid_id() {
    for protocol in protocols() {
        let name = protocol.name();
        let body = protocol.encode(&endpoint(), &request(name)).unwrap().body;
        let (calls, results) = ids(&body);
        if name == "google-vertex" {
            // The provider rejects ids: results follow the order of their calls.
            assert_eq!((calls, results), (Vec::new(), Vec::new()));
            let body = body.to_string();
            for (part, kind) in [(r#""functionCall":"#, "calls"), (r#""functionResponse":"#, "results")] {
                assert_eq!(body.matches(part).count(), 5, "{kind}: {body}");
            }
            continue;
        }
        assert_eq!(calls.len(), 5, "{name}: {calls:?}");
        let mut sorted = (calls.clone(), results.clone());
        sorted.0.sort();
        sorted.1.sort();
        assert_eq!(sorted.0, sorted.1, "{name}");
        sorted.0.dedup();
        assert_eq!(sorted.0.len(), 5, "{name}: no two calls share an id");
        for id in calls {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
            assert!(!id.is_empty() && id.len() <= 64 && id.bytes().all(plain), "{name}: {id}");
        }
    }
}

#[test]
fn opaque_data_goes_back_only_to_its_own_model() {
    for protocol in protocols() {
        let name = protocol.name();
        let body = protocol.encode(&endpoint(), &request(name)).unwrap().body.to_string();
        for foreign in
            ["foreign thought", "foreign signature", "foreign redacted", "foreign call", "foreign text"]
        {
            assert!(!body.contains(foreign), "{name}: {foreign}");
        }
        for left_out in ["failed half", "of a failed answer", "kept"] {
            assert!(!body.contains(left_out), "{name}: {left_out}");
        }
        let own = match name {
            "azure-openai-responses" | "openai-responses" => "gAAA",
            _ => "own thought",
        };
        assert!(body.contains(own), "{name}");
        for other in [
            Endpoint { model: "m2".to_owned(), ..endpoint() },
            Endpoint { provider: "elsewhere".to_owned(), ..endpoint() },
        ] {
            let body = protocol.encode(&other, &request(name)).unwrap().body.to_string();
            for opaque in ["own thought", "gAAA", "c2ln", "fc_1\"", "msg_1"] {
                assert!(!body.contains(opaque), "{name}: {opaque}");
            }
        }
    }
}

#[test]
fn a_model_without_images_gets_a_note_for_each() {
    for protocol in protocols() {
        let name = protocol.name();
        let endpoint = Endpoint { images: false, ..endpoint() };
        let body = protocol.encode(&endpoint, &request(name)).unwrap().body.to_string();
        assert!(!body.contains("QUJD"), "{name}");
        assert_eq!(body.matches("image omitted: model does not support images").count(), 3, "{name}: {body}");
    }
}

/// The messages of a request, under each protocol's name.
fn sent(body: &Value) -> Vec<Value> {
    let lists = ["messages", "input", "contents"];
    lists.iter().find_map(|list| body[*list].as_array()).unwrap().clone()
}

#[test]
fn a_longer_transcript_extends_the_shorter_one() {
    for protocol in protocols() {
        let name = protocol.name();
        let whole = transcript(name);
        let mut before: Vec<Value> = Vec::new();
        // The batches are complete: later messages must not change their encoding.
        for length in [1, 4, 7, 9, 11] {
            let request = Request {
                messages: whole[..length].to_vec().into(),
                cache: CacheRetention::None,
                ..request(name)
            };
            let now = sent(&protocol.encode(&endpoint(), &request).unwrap().body);
            assert!(now.len() >= before.len(), "{name} {length}");
            assert_eq!(now[..before.len()], before, "{name} {length}");
            before = now;
        }
    }
}

#[test]
fn a_tool_choice_is_sent_and_an_unknown_one_rejected() {
    for protocol in protocols() {
        let name = protocol.name();
        let mut seen = BTreeMap::new();
        for choice in
            [ToolChoice::Auto, ToolChoice::Any, ToolChoice::None, ToolChoice::Tool("read".to_owned())]
        {
            let request = Request { tool_choice: choice.clone(), ..request(name) };
            let body = protocol.encode(&forced(name), &request).unwrap().body;
            let said = [&body["tool_choice"], &body["toolConfig"]].map(ToString::to_string).join(" ");
            seen.insert(said, choice);
        }
        assert_eq!(seen.len(), 4, "{name}: {seen:?}");
        let request = Request { tool_choice: ToolChoice::Tool("gone".to_owned()), ..request(name) };
        let error = protocol.encode(&forced(name), &request).unwrap_err();
        assert!(error.to_string().contains("`gone`"), "{error}");
    }
}

#[test]
fn unsupported_forced_calls_are_rejected() {
    let choices =
        || [ToolChoice::None, ToolChoice::Auto, ToolChoice::Any, ToolChoice::Tool("read".to_owned())];
    let taken = |protocol: &Arc<dyn Protocol>, endpoint: &Endpoint| {
        choices().map(|tool_choice| {
            let asked = protocol.encode(endpoint, &Request { tool_choice, ..request(protocol.name()) });
            assert!(asked.is_ok() || matches!(asked, Err(EncodeError::NotForced { .. })), "{asked:?}");
            asked.is_ok()
        })
    };
    for protocol in protocols() {
        for (tool_choice, expected) in [
            (ForcedTools::Auto, [true, true, false, false]),
            (ForcedTools::Any, [true, true, true, false]),
            (ForcedTools::Named, [true; 4]),
        ] {
            let mut endpoint = forced(protocol.name());
            endpoint.compat.tool_choice = tool_choice;
            assert_eq!(taken(&protocol, &endpoint), expected, "{} {tool_choice:?}", protocol.name());
        }
    }
    let bedrock = Protocols::default().get("bedrock-converse-stream").unwrap();
    for (model, named) in
        [("us.amazon.nova-2-lite-v1:0", true), ("deepseek.v3.2", false), ("arn:aws:x", true)]
    {
        let endpoint = Endpoint { model: model.to_owned(), ..endpoint() };
        assert_eq!(taken(&bedrock, &endpoint), [true, true, true, named], "{model}");
    }
}

#[test]
fn a_thinking_budget_leaves_room_for_the_answer() {
    let anthropic = Protocols::default().get("anthropic-messages").unwrap();
    let thinking = Thinking(BTreeMap::from([
        (ThinkingLevel::Off, Effort::Budget(0)),
        (ThinkingLevel::High, Effort::Budget(8192)),
    ]));
    let endpoint = Endpoint { thinking, ..endpoint() };
    let request = |messages: &[Message], level| Request {
        messages: messages.to_vec().into(),
        thinking: Some(level),
        temperature: Some(0.5),
        ..request("anthropic-messages")
    };
    let whole = transcript("anthropic-messages");
    let body = |length: usize, level| {
        let http = anthropic.encode(&endpoint, &request(&whole[..length], level)).unwrap();
        (http.body, http.thinking.unwrap().0)
    };
    let (high, level) = body(4, ThinkingLevel::Max);
    assert_eq!(level, ThinkingLevel::High);
    assert_eq!(high["thinking"], json!({"type": "enabled", "budget_tokens": 8192}));
    assert_eq!(high["max_tokens"], 8192 + 1024);
    assert_eq!(high.get("temperature"), None, "a request with thinking has no temperature");
    let (off, level) = body(4, ThinkingLevel::Low);
    assert_eq!((level, &off["thinking"]), (ThinkingLevel::Off, &json!({"type": "disabled"})));
    assert_eq!((&off["max_tokens"], &off["temperature"]), (&json!(1000), &json!(0.5)));
    // Another model began the turn, whose thinking this one would reject.
    let (foreign, level) = body(7, ThinkingLevel::High);
    assert_eq!((level, &foreign["thinking"]), (ThinkingLevel::Off, &json!({"type": "disabled"})));
    let (next, _) = body(11, ThinkingLevel::High);
    assert_eq!(next["thinking"]["type"], "enabled");
    // A budget does not raise the limit above the window's remaining tokens.
    let small = Endpoint { context_window: Some(12_000), ..endpoint.clone() };
    let tight = anthropic.encode(&small, &request(&whole[..4], ThinkingLevel::High)).unwrap().body;
    let limit = tight["max_tokens"].as_u64().unwrap();
    assert!((2048..12_000 - 1500).contains(&limit), "{limit}");
    assert_eq!(tight["thinking"]["budget_tokens"], limit - 1024);
}

#[test]
fn without_tools_bedrock_gets_calls_as_text() {
    let bedrock = Protocols::default().get("bedrock-converse-stream").unwrap();
    for request in [
        Request { tools: Vec::new(), ..request("bedrock-converse-stream") },
        Request { tool_choice: ToolChoice::None, ..request("bedrock-converse-stream") },
    ] {
        let body = bedrock.encode(&endpoint(), &request).unwrap().body;
        assert_eq!(ids(&body), (Vec::new(), Vec::new()));
        assert_eq!(body.get("toolConfig"), None);
        assert_eq!(body["messages"][1]["content"][1]["text"], r#"[called read with {"path":"x"}]"#);
        assert_eq!(body["messages"][2]["content"][0]["text"], "[read answered: text]");
        assert_eq!(body["messages"][2]["content"][1]["image"]["format"], "png");
        assert_eq!(body["messages"][2]["content"][2]["text"], "[read failed: no such file]");
        assert!(!body.to_string().contains("own thought"));
    }
}

#[test]
fn reasoning_goes_back_only_before_its_following_item() {
    let protocol = Protocols::default().get("openai-responses").unwrap();
    let blank = || text(" ", r#"{"v":1,"id":"msg_1"}"#);
    let sent = |content| {
        let messages = vec![Message::user("go"), said("openai-responses", "here", StopReason::Stop, content)];
        let body = protocol
            .encode(&endpoint(), &Request { messages: messages.into(), ..Request::default() })
            .unwrap()
            .body;
        let items = body["input"].as_array().unwrap().iter().skip(1);
        items.map(|it| it["type"].as_str().unwrap_or("message").to_owned()).collect::<Vec<_>>()
    };
    let thought = || own_thinking("openai-responses");
    assert_eq!(sent(vec![thought()]), [""; 0]);
    assert_eq!(sent(vec![thought(), blank()]), [""; 0]);
    assert_eq!(sent(vec![thought(), text("Yes.", ""), thought(), blank()]), ["reasoning", "message"]);
    let called = sent(vec![thought(), blank(), call("c|fc_1", json!({}), None)]);
    assert_eq!(called, ["reasoning", "function_call", "function_call_output"]);
}

#[test]
fn items_lose_their_ids_without_their_reasoning() {
    // Unencrypted reasoning is not stored.
    let empty = r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":null}"#;
    for (name, signature) in [
        ("azure-openai-responses", None),
        ("openai-responses", None),
        ("azure-openai-responses", Some(empty)),
        ("openai-responses", Some(empty)),
    ] {
        let protocol = Protocols::default().get(name).unwrap();
        let mut request = request(name);
        for message in Arc::make_mut(&mut request.messages) {
            if let Message::Assistant(message) = message {
                for content in &mut message.content {
                    if let Content::Thinking { thinking_signature, .. } = content {
                        *thinking_signature = signature.map(str::to_owned);
                    }
                }
            }
        }
        let body = protocol.encode(&endpoint(), &request).unwrap().body.to_string();
        assert!(body.contains("\"call_1\"") && !body.contains("fc_1") && !body.contains("msg_1"), "{body}");
        assert!(!body.contains("rs_1"), "{body}");
    }
}

#[test]
fn tools_are_sent_with_valid_names_and_schemas() {
    let odd = "files.server/read \u{e9}";
    for protocol in protocols() {
        let name = protocol.name();
        let mut request = request(name);
        request.tools[0].name = odd.to_owned();
        request.tools[0].parameters = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "oneOf": [{"required": ["path"]}],
            "properties": {"path": {"type": "string", "$comment": "odd"}, "lines": {"type": "array"}},
        });
        request.tool_choice = ToolChoice::Tool(odd.to_owned());
        for message in Arc::make_mut(&mut request.messages) {
            match message {
                Message::ToolResult(result) => odd.clone_into(&mut result.tool_name),
                Message::Assistant(message) => {
                    for content in &mut message.content {
                        if let Content::ToolCall(call) = content {
                            odd.clone_into(&mut call.name);
                        }
                    }
                }
                Message::User(_) => {}
            }
        }
        let http = protocol.encode(&forced(name), &request).unwrap();
        let (sent, own) = http.names.first_key_value().unwrap();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        assert!(sent.len() <= 64 && sent.bytes().all(plain), "{name}: {sent}");
        assert_eq!((own.as_str(), http.names.len()), (odd, 1), "{name}");
        let body = http.body.to_string();
        // The tool, the choice, five calls, and their results where they are named.
        assert!(body.matches(sent.as_str()).count() >= 7, "{name}: {body}");
        for refused in [odd, "$schema", "oneOf", "$comment"] {
            assert!(!body.contains(refused), "{name}: {refused}");
        }
        assert!(body.contains(r#""lines":{"type":"array","items":{}}"#), "{name}: {body}");
    }
}

/// Transcript contents that some provider rejects, one at a time.
pub fn hazards(api: &str) -> Vec<(&'static str, Vec<Message>)> {
    let user = |text: &str| Message::user(text);
    let own = |content| said(api, "here", StopReason::ToolUse, content);
    let foreign = |content| said("elsewhere", "there", StopReason::ToolUse, content);
    let failed = |stop_reason, content| said(api, "here", stop_reason, content);
    let read = |id: &str| call(id, json!({"path": "x"}), None);
    let ok = |id: &str| result(id, false, vec![Content::text("ok")]);
    let unsigned =
        || Content::Thinking { thinking: "unsigned".to_owned(), thinking_signature: None, redacted: false };
    vec![
        ("a model speaks first", vec![own(vec![Content::text("Hello.")]), user("go")]),
        ("a call comes first", vec![own(vec![read("a")]), ok("a"), user("go")]),
        (
            "nothing but foreign thinking",
            vec![user("go"), foreign(vec![thinking("t", "s", false)]), user("on")],
        ),
        (
            "nothing but redacted foreign thinking",
            vec![user("go"), foreign(vec![thinking("", "s", true)]), user("on")],
        ),
        ("thinking without a signature", vec![user("go"), own(vec![unsigned(), read("a")]), ok("a")]),
        (
            "foreign thinking before a call",
            vec![user("go"), foreign(vec![thinking("t", "s", false), read("a")]), ok("a")],
        ),
        (
            "blank texts",
            vec![
                user(" \n"),
                user("go"),
                own(vec![Content::text("  "), read("a")]),
                result("a", false, vec![Content::text(" ")]),
            ],
        ),
        (
            "empty texts",
            vec![
                user("go"),
                own(vec![Content::text(""), read("a")]),
                result("a", true, vec![Content::text("")]),
                user(""),
            ],
        ),
        ("a message that is empty", vec![user("go"), own(vec![]), user("on")]),
        (
            "users after users",
            vec![user("go"), user("now"), own(vec![Content::text("Yes.")]), user("a"), user("b")],
        ),
        (
            "models after models",
            vec![user("go"), own(vec![Content::text("A")]), own(vec![Content::text("B")]), user("on")],
        ),
        ("a call without a result", vec![user("go"), own(vec![read("a")])]),
        (
            "a user before the result",
            vec![user("go"), own(vec![read("a")]), user("wait"), ok("a"), user("on")],
        ),
        ("a user after the result", vec![user("go"), own(vec![read("a")]), ok("a"), user("on")]),
        ("results in another order", vec![user("go"), own(vec![read("a"), read("b")]), ok("b"), ok("a")]),
        ("two results to a call", vec![user("go"), own(vec![read("a")]), ok("a"), ok("a")]),
        ("a result without a call", vec![user("go"), ok("a"), user("on")]),
        (
            "two calls with one id",
            vec![user("go"), own(vec![read("a")]), ok("a"), own(vec![read("a")]), ok("a")],
        ),
        (
            "ids of other protocols",
            vec![
                user("go"),
                foreign(vec![read("call_1|fc_1"), read("tooluse_\u{e9}"), read("")]),
                ok("tooluse_\u{e9}"),
                ok("call_1|fc_1"),
            ],
        ),
        (
            "an id that is too long",
            vec![user("go"), foreign(vec![read(&"x".repeat(500))]), ok(&"x".repeat(500))],
        ),
        (
            "an answer that failed",
            vec![user("go"), failed(StopReason::Error, vec![read("a")]), ok("a"), user("on")],
        ),
        (
            "an answer that was stopped",
            vec![user("go"), failed(StopReason::Aborted, vec![Content::text("Hal")]), user("on")],
        ),
        (
            "images alone",
            vec![user("go"), own(vec![read("a")]), result("a", false, vec![image()]), user("on")],
        ),
        (
            "images of a failed call",
            vec![user("go"), own(vec![read("a"), read("b")]), result("a", true, vec![image()]), ok("b")],
        ),
        (
            "control characters",
            vec![
                user("a\0b\u{7f}"),
                own(vec![call("a", json!({"\0": "\u{1}"}), None)]),
                result("a", false, vec![Content::text("\u{1b}[0m")]),
            ],
        ),
        (
            "a name that is empty",
            vec![
                user("go"),
                own(vec![Content::ToolCall(ToolCall {
                    id: "a".to_owned(),
                    name: String::new(),
                    arguments: serde_json::Map::new(),
                    arguments_error: None,
                    thought_signature: None,
                })]),
                ok("a"),
            ],
        ),
    ]
}

/// Collects the parts of `value` that a provider rejects as empty.
fn empty_parts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let empty = |it: &Value| it.as_array().is_some_and(Vec::is_empty) || it.as_str() == Some("");
            for (field, inner) in map {
                if matches!(field.as_str(), "content" | "parts" | "text" | "name" | "output") && empty(inner)
                {
                    found.push(value.to_string());
                }
                // Arguments may contain anything.
                if !matches!(field.as_str(), "input" | "args" | "arguments") {
                    empty_parts(inner, found);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|it| empty_parts(it, found)),
        _ => {}
    }
}

#[test]
fn hazardous_transcripts_give_valid_requests() {
    for protocol in protocols() {
        let name = protocol.name();
        for (hazard, messages) in hazards(name) {
            let request = Request { messages: messages.into(), ..request(name) };
            let body = protocol.encode(&endpoint(), &request).unwrap().body;
            let sent = sent(&body);
            assert!(!sent.is_empty(), "{name}: {hazard}");
            let mut empty = Vec::new();
            empty_parts(&json!(sent), &mut empty);
            // An answer without text is `null` for OpenAI, and omitted for Mistral.
            empty.retain(|it| !(name == "mistral-conversations" && it.contains("tool_calls")));
            assert_eq!(empty, Vec::<String>::new(), "{name}: {hazard}");
            if name == "google-vertex" {
                let text = body.to_string();
                let count = |part: &str| text.matches(part).count();
                assert_eq!(count("\"functionCall\":"), count("\"functionResponse\":"), "{name}: {hazard}");
            } else {
                let (calls, results) = ids(&body);
                assert_eq!(calls, results, "{name}: {hazard}: answered in the order of the calls");
                let mut unique = calls.clone();
                unique.sort();
                unique.dedup();
                assert_eq!(unique.len(), calls.len(), "{name}: {hazard}");
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
                for id in &calls {
                    assert!(
                        !id.is_empty() && id.len() <= 64 && id.bytes().all(plain),
                        "{name}: {hazard}: {id}"
                    );
                    assert!(name != "mistral-conversations" || id.len() == 9, "{name}: {hazard}: {id}");
                }
            }
            let roles: Vec<&str> = sent.iter().filter_map(|it| it["role"].as_str()).collect();
            let pairs = roles.windows(2).map(|pair| (pair[0], pair[1]));
            match name {
                "anthropic-messages" | "bedrock-converse-stream" => {
                    assert_eq!(roles.first(), Some(&"user"), "{name}: {hazard}");
                    assert!(pairs.into_iter().all(|(a, b)| a != b), "{name}: {hazard}: {roles:?}");
                }
                "google-generative-ai" | "google-vertex" => {
                    assert_eq!(roles.first(), Some(&"user"), "{name}: {hazard}");
                }
                "mistral-conversations" => {
                    assert!(
                        !pairs.into_iter().any(|it| it == ("tool", "user")),
                        "{name}: {hazard}: {roles:?}"
                    );
                }
                _ => {}
            }
        }
    }
}
