//! A request as chat completions takes it. Pure: the same request gives the same bytes.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::{API, Endpoint, MaxTokensField};
use crate::message::{AssistantMessage, Content, Message, ThinkingLevel, ToolResultMessage};
use crate::model::Request;
use crate::protocol::HttpRequest;
use crate::transcript;

/// The fields reasoning comes in; thinking goes back into the one it came from.
pub(super) const REASONING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];

/// The longest tool call id OpenAI takes.
const ID_LIMIT: usize = 40;

/// The request for this endpoint. The transcript is repaired first ([`transcript::repair`]); images are replaced by a note
/// where the model takes none, thinking of other models is left out, and tool call ids that the protocol refuses are
/// replaced alike in calls and results.
pub fn encode(endpoint: &Endpoint, request: &Request) -> HttpRequest {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(endpoint.model));
    body.insert("messages".to_owned(), Value::Array(messages(endpoint, request)));
    body.insert("stream".to_owned(), json!(true));
    if endpoint.compat.usage_in_streaming {
        body.insert("stream_options".to_owned(), json!({ "include_usage": true }));
    }
    if let Some(limit) = request.max_tokens {
        let field = match endpoint.compat.max_tokens_field {
            MaxTokensField::MaxCompletionTokens => "max_completion_tokens",
            MaxTokensField::MaxTokens => "max_tokens",
        };
        body.insert(field.to_owned(), json!(limit));
    }
    if let Some(temperature) = request.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    if let Some(effort) = request.thinking.and_then(effort) {
        body.insert("reasoning_effort".to_owned(), json!(effort));
    }
    // An empty list is refused by vLLM, so it is left out.
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            })
        });
        body.insert("tools".to_owned(), tools.collect());
    }
    HttpRequest {
        url: format!("{}/chat/completions", endpoint.base_url.trim_end_matches('/')),
        headers: endpoint.headers.clone(),
        api_key: request.api_key.clone().or_else(|| endpoint.api_key.clone()),
        body: Value::Object(body),
    }
}

/// `off` has no word in this protocol, so nothing is said.
fn effort(level: ThinkingLevel) -> Option<&'static str> {
    match level {
        ThinkingLevel::Off => None,
        ThinkingLevel::Minimal => Some("minimal"),
        ThinkingLevel::Low => Some("low"),
        ThinkingLevel::Medium => Some("medium"),
        ThinkingLevel::High => Some("high"),
    }
}

fn messages(endpoint: &Endpoint, request: &Request) -> Vec<Value> {
    let mut out = Vec::new();
    if !request.system.is_empty() {
        out.push(json!({ "role": "system", "content": request.system }));
    }
    let mut ids = Ids::default();
    let mut pictures: Vec<Value> = Vec::new();
    for message in transcript::repair(&request.messages) {
        if !matches!(message, Message::ToolResult(_)) {
            attach(&mut pictures, &mut out);
        }
        match message {
            Message::User(user) => {
                out.push(json!({ "role": "user", "content": parts(endpoint, &user.content) }))
            }
            Message::Assistant(message) => out.extend(assistant(endpoint, &message, &mut ids)),
            Message::ToolResult(result) => out.push(tool_result(endpoint, &result, &mut ids, &mut pictures)),
        }
    }
    attach(&mut pictures, &mut out);
    out
}

/// Images of results follow the results in one message of the user, since a result takes text only.
fn attach(pictures: &mut Vec<Value>, out: &mut Vec<Value>) {
    if !pictures.is_empty() {
        let mut parts = vec![json!({ "type": "text", "text": "Attached image(s) from tool result:" })];
        parts.append(pictures);
        out.push(json!({ "role": "user", "content": parts }));
    }
}

fn picture(data: &str, mime_type: &str) -> Value {
    json!({ "type": "image_url", "image_url": { "url": format!("data:{mime_type};base64,{data}") } })
}

fn parts(endpoint: &Endpoint, content: &[Content]) -> Value {
    let mut parts: Vec<Value> = Vec::new();
    let mut only_text = true;
    for block in content {
        match block {
            Content::Text { text, .. } => parts.push(json!({ "type": "text", "text": text })),
            Content::Image { data, mime_type } if endpoint.images => {
                only_text = false;
                parts.push(picture(data, mime_type));
            }
            Content::Image { .. } => {
                let note =
                    json!({ "type": "text", "text": "(image omitted: model does not support images)" });
                if parts.last() != Some(&note) {
                    parts.push(note);
                }
            }
            Content::Thinking { .. } | Content::ToolCall(_) => {}
        }
    }
    if !only_text {
        return Value::Array(parts);
    }
    // Plain text is a string: some servers' templates take nothing else.
    let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    json!(texts.join("\n"))
}

fn assistant(endpoint: &Endpoint, message: &AssistantMessage, ids: &mut Ids) -> Option<Value> {
    let own = message.api == API && message.provider == endpoint.provider && message.model == endpoint.model;
    let text: Vec<&str> = message
        .content
        .iter()
        .filter_map(|content| match content {
            Content::Text { text, .. } if !text.is_empty() => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let text = text.join("\n");
    let calls: Vec<Value> = message
        .tool_calls()
        .map(|call| {
            let arguments = Value::Object(call.arguments.clone()).to_string();
            json!({
                "id": ids.accepted(&call.id),
                "type": "function",
                "function": { "name": call.name, "arguments": arguments },
            })
        })
        .collect();
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    let mut out = Map::new();
    out.insert("role".to_owned(), json!("assistant"));
    let null = text.is_empty() && !endpoint.compat.non_null_assistant_content;
    out.insert("content".to_owned(), if null { Value::Null } else { json!(text) });
    for content in &message.content {
        if let Content::Thinking { thinking, thinking_signature: Some(field), .. } = content
            && own
            && !thinking.is_empty()
            && REASONING_FIELDS.contains(&field.as_str())
        {
            out.insert(field.clone(), json!(thinking));
        }
    }
    if !calls.is_empty() {
        out.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    Some(Value::Object(out))
}

fn tool_result(
    endpoint: &Endpoint,
    result: &ToolResultMessage,
    ids: &mut Ids,
    pictures: &mut Vec<Value>,
) -> Value {
    let mut texts: Vec<&str> = Vec::new();
    let mut images = 0;
    for block in &result.content {
        match block {
            Content::Text { text, .. } => texts.push(text),
            Content::Image { data, mime_type } => {
                images += 1;
                if endpoint.images {
                    pictures.push(picture(data, mime_type));
                }
            }
            Content::Thinking { .. } | Content::ToolCall(_) => {}
        }
    }
    if images > 0 && !endpoint.images {
        texts.push("(tool image omitted: model does not support images)");
    }
    let text = texts.join("\n");
    let content = match (text.is_empty(), images) {
        (false, _) => text.as_str(),
        (true, 0) => "(no tool output)",
        (true, _) => "(see attached image)",
    };
    json!({ "role": "tool", "tool_call_id": ids.accepted(&result.tool_call_id), "content": content })
}

/// Ids that the protocol takes, the same for a call and its result.
#[derive(Default)]
struct Ids(HashMap<String, String>);

impl Ids {
    fn accepted(&mut self, id: &str) -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !id.is_empty() && id.len() <= ID_LIMIT && id.bytes().all(plain) {
            return id.to_owned();
        }
        let next = self.0.len();
        self.0.entry(id.to_owned()).or_insert_with(|| format!("pilcrow_call_{next}")).clone()
    }
}
