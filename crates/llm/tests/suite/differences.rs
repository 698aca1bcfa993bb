//! Differences between providers, as data of their endpoints.

use llm::protocol::{EncodeError, Protocols};
use llm::{Content, Endpoint, Message, Request, StopReason, ToolDefinition};
use serde_json::{Value, json};

use crate::conversation::{call, endpoint, protocols, request, result, said};

/// A turn with `count` calls and results.
fn batch(count: usize) -> Vec<Message> {
    let ids: Vec<String> = (0..count).map(|at| format!("c{at}")).collect();
    let calls = ids.iter().map(|id| call(id, json!({}), None)).collect();
    let results = ids.iter().map(|id| result(id, false, vec![Content::text("ok")]));
    let asked = said("elsewhere", "there", StopReason::ToolUse, calls);
    [Message::user("one"), asked].into_iter().chain(results).collect()
}

#[test]
fn a_distant_end_of_the_previous_request_is_marked() {
    for (name, model, mark) in [
        ("anthropic-messages", "m", "cache_control"),
        ("bedrock-converse-stream", "anthropic.claude-x", "cachePoint"),
    ] {
        let protocol = Protocols::default().get(name).unwrap();
        for (calls, marks) in [(9, vec![2]), (10, vec![0, 2])] {
            let request = Request { messages: batch(calls).into(), ..request(name) };
            let body =
                protocol.encode(&Endpoint { model: model.to_owned(), ..endpoint() }, &request).unwrap().body;
            let messages = body["messages"].as_array().unwrap();
            let is_marked = |at: &usize| messages[*at].to_string().contains(mark);
            assert_eq!((0..messages.len()).filter(is_marked).collect::<Vec<_>>(), marks, "{name}");
            assert!(body.to_string().matches(mark).count() <= 4, "{name}: no more are taken");
        }
    }
}

#[test]
fn restrictions_on_tools_are_data() {
    let tool = |parameters| ToolDefinition {
        name: "read".to_owned(),
        label: "Read".to_owned(),
        description: "What it does.".to_owned(),
        parameters,
    };
    let tools = [
        tool(json!({"type": "object", "properties": {"a": {"type": "string"}}})),
        tool(json!({"type": "object", "properties": {"a": {}}})),
    ];
    let mut endpoint = endpoint();
    endpoint.compat.strict_tools = true;
    endpoint.compat.eager_input_streaming = true;
    endpoint.compat.most_tools = Some(2);
    endpoint.compat.longest_description = Some(12);
    for protocol in protocols() {
        let name = protocol.name();
        let request = |count: usize| Request {
            tools: tools.iter().cycle().take(count).cloned().collect(),
            messages: vec![Message::user("go")].into(),
            ..Request::default()
        };
        let body = protocol.encode(&endpoint, &request(2)).unwrap().body;
        let sent = [&body["tools"], &body["toolConfig"]["tools"]].into_iter().find_map(Value::as_array);
        let sent = sent.unwrap().clone();
        let google = name.starts_with("google");
        let sent = if google { sent[0]["functionDeclarations"].as_array().unwrap().clone() } else { sent };
        // The paths of a tool's name and schema.
        let (at, schema) = match name {
            "anthropic-messages" => ("", "/input_schema"),
            "bedrock-converse-stream" => ("/toolSpec", "/inputSchema/json"),
            "openai-completions" | "mistral-conversations" => ("/function", "/parameters"),
            _ if google => ("", "/parametersJsonSchema"),
            _ => ("", "/parameters"),
        };
        let said = |tool: &Value| tool.pointer(at).cloned().unwrap();
        assert_eq!(said(&sent[0])["description"], "What it …", "{name}");
        let full = serde_json::to_string("The tool `read`, in full:\n\nWhat it does.").unwrap();
        assert!(body.to_string().contains(full.trim_matches('"')), "{name}: {body}");
        let closed = |tool: &Value| said(tool).pointer(schema).unwrap()["additionalProperties"] == false;
        if google {
            assert_eq!(body["toolConfig"]["functionCallingConfig"]["mode"], "VALIDATED");
        } else {
            assert_eq!(said(&sent[0])["strict"], true, "{name}");
            assert!([Value::Null, json!(false)].contains(&said(&sent[1])["strict"]), "{name}");
            assert!(closed(&sent[0]) && !closed(&sent[1]), "{name}");
            let required = said(&sent[0]).pointer(schema).unwrap()["required"].clone();
            let is_claude = matches!(name, "anthropic-messages" | "bedrock-converse-stream");
            assert_eq!(required, if is_claude { Value::Null } else { json!(["a"]) }, "{name}");
        }
        let eager = sent.iter().filter(|tool| tool["eager_input_streaming"] == true).count();
        assert_eq!(eager, if name == "anthropic-messages" { 2 } else { 0 }, "{name}");
        let error = protocol.encode(&endpoint, &request(3)).unwrap_err();
        assert!(matches!(error, EncodeError::TooManyTools { .. }), "{error}");
    }
}
