//! Encodes a request for messages.
//!
//! The encoder is pure and deterministic.

use serde_json::{Map, Value, json};

use super::API;
use crate::endpoint::{Auth, Endpoint};
use crate::message::{AssistantMessage, Content, Message, ToolResultMessage};
use crate::model::{Request, ToolDefinition};
use crate::options::{CacheRetention, ThinkingLevel, ToolChoice};
use crate::protocol::claude::{self, Asked};
use crate::protocol::ids::{Ids, Rule};
use crate::protocol::strict::{Rules, Strict};
use crate::protocol::tools::{Placed, Subset, description, instructions, schema, sent_name};
use crate::protocol::{
    BEGINNING, EncodeError, HttpRequest, IMAGE_OMITTED, Piece, TOOL_IMAGE_OMITTED, check_tools, is_own,
    limits, visible,
};
use crate::transcript;

/// The protocol version.
const VERSION: &str = "2023-06-01";
const IDS: Rule = Rule::up_to(64);
/// Default for `max_tokens`, which the protocol requires.
const MAX_TOKENS: u64 = 8192;

/// Encodes a request.
///
/// Results of one batch and the following user message become one user message; thinking goes back, signed,
/// only to the model it came from.
pub(super) fn encode(endpoint: &Endpoint, request: &Request) -> Result<HttpRequest, EncodeError> {
    check_tools(endpoint, request)?;
    let transcript = transcript::repair(&request.messages);
    let cache = cache_control(endpoint, request);
    let mut max_tokens = limits::max_output(API, endpoint, request).unwrap_or(MAX_TOKENS);
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(endpoint.model));
    let thinking = Asked::new(endpoint, API, request, &transcript);
    if let Some(thinking) = &thinking {
        max_tokens = thinking.max_tokens(endpoint, max_tokens, limits::room(API, endpoint, request));
        body.extend(thinking.fields(max_tokens));
    }
    body.insert("max_tokens".to_owned(), json!(max_tokens));
    let instructions = instructions(endpoint, request);
    if !instructions.trim().is_empty() {
        let mut block = json!({ "type": "text", "text": instructions });
        mark(&mut block, &cache);
        body.insert("system".to_owned(), json!([block]));
    }
    let placed = Placed::new(endpoint, request, &transcript);
    let mut messages = messages(endpoint, &transcript, &placed);
    let marked = claude::marked(&messages);
    for at in marked {
        if let Value::Array(blocks) = &mut messages[at]["content"]
            && let Some(block) = blocks.last_mut()
        {
            mark(block, &cache);
        }
    }
    body.insert("messages".to_owned(), Value::Array(messages));
    if !request.tools.is_empty() {
        let mut strict = Strict::new(endpoint, Rules::Claude);
        let mut tool = |it: &ToolDefinition| tool(endpoint, &mut strict, it);
        let mut tools: Vec<Value> = placed.first.iter().copied().map(&mut tool).collect();
        if let Some(last) = tools.last_mut() {
            mark(last, &cache);
        }
        // Late tools are not part of the cached prefix: the model gets each where a result refers
        // to it.
        tools.extend(placed.late(request).map(|late| {
            let mut tool = tool(late);
            tool["defer_loading"] = json!(true);
            tool
        }));
        body.insert("tools".to_owned(), Value::Array(tools));
        let choice = match &request.tool_choice {
            ToolChoice::Auto => None,
            ToolChoice::Any => Some(json!({ "type": "any" })),
            ToolChoice::None => Some(json!({ "type": "none" })),
            ToolChoice::Tool(name) => Some(json!({ "type": "tool", "name": sent_name(name) })),
        };
        body.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
    }
    let thinks = thinking.as_ref().is_some_and(|it| it.level != ThinkingLevel::Off);
    // Thinking requires the default temperature.
    if let Some(temperature) = request.temperature.filter(|_| !thinks) {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    body.insert("stream".to_owned(), json!(true));
    let mut http =
        HttpRequest::new(endpoint, request, "messages", Auth::header("x-api-key"), Value::Object(body));
    if !http.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("anthropic-version")) {
        http.headers.push(("anthropic-version".to_owned(), VERSION.to_owned()));
    }
    http.thinking = thinking.map(|it| (it.level, it.shown()));
    Ok(http)
}

fn cache_control(endpoint: &Endpoint, request: &Request) -> Option<Value> {
    if !endpoint.compat.cache_control {
        return None;
    }
    match request.cache {
        CacheRetention::None => None,
        CacheRetention::Short => Some(json!({ "type": "ephemeral" })),
        CacheRetention::Long => Some(json!({ "type": "ephemeral", "ttl": "1h" })),
    }
}

/// Marks the end of a cached prefix. Thinking cannot be marked.
fn mark(block: &mut Value, cache: &Option<Value>) {
    if let Some(cache) = cache
        && !matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"))
    {
        block["cache_control"] = cache.clone();
    }
}

fn tool(endpoint: &Endpoint, strict: &mut Strict, tool: &ToolDefinition) -> Value {
    let schema = schema(&tool.parameters, Subset::Claude);
    let strict = strict.next(&schema);
    let is_strict = strict.is_some();
    let mut sent = json!({
        "name": sent_name(&tool.name),
        "description": description(endpoint, tool),
        "input_schema": strict.unwrap_or(schema),
    });
    if is_strict {
        sent["strict"] = json!(true);
    }
    if endpoint.compat.eager_input_streaming {
        sent["eager_input_streaming"] = json!(true);
    }
    sent
}

fn messages(endpoint: &Endpoint, transcript: &[Message], placed: &Placed<'_>) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    let mut ids = Ids::new(IDS);
    let mut pictures: Vec<Value> = Vec::new();
    let mut words: Vec<Value> = Vec::new();
    for (at, message) in transcript.iter().enumerate() {
        let (role, mut blocks) = match message {
            Message::User(user) => ("user", blocks(visible(endpoint, &user.content, IMAGE_OMITTED))),
            Message::Assistant(message) => ("assistant", assistant(endpoint, message, &mut ids)),
            Message::ToolResult(result) => {
                let mut block = tool_result(endpoint, result, &mut ids, &mut pictures);
                let found = placed.after(at);
                if let (false, Value::Array(content)) = (found.is_empty(), &mut block["content"]) {
                    // A result with tool references may contain nothing else.
                    let reference = |tool: &&ToolDefinition| json!({ "type": "tool_reference", "tool_name": sent_name(&tool.name) });
                    words.append(content);
                    content.extend(found.iter().map(reference));
                }
                ("user", vec![block])
            }
        };
        // The pictures follow the results of the batch.
        if !matches!(transcript.get(at + 1), Some(Message::ToolResult(_))) {
            blocks.append(&mut words);
            if !pictures.is_empty() {
                blocks.push(json!({ "type": "text", "text": "Attached image(s) from tool result:" }));
                blocks.append(&mut pictures);
            }
        }
        if blocks.is_empty() {
            continue;
        }
        if out.is_empty() && role == "assistant" {
            out.push(json!({ "role": "user", "content": [{ "type": "text", "text": BEGINNING }] }));
        }
        match out.last_mut() {
            Some(last) if last["role"] == role => {
                if let Value::Array(content) = &mut last["content"] {
                    content.extend(blocks);
                }
            }
            _ => out.push(json!({ "role": role, "content": blocks })),
        }
    }
    out
}

/// Content blocks; blank text is rejected, so it is dropped.
fn blocks(pieces: Vec<Piece<'_>>) -> Vec<Value> {
    let blocks = pieces.into_iter().filter_map(|piece| match piece {
        Piece::Text(text) if text.trim().is_empty() => None,
        Piece::Text(text) => Some(json!({ "type": "text", "text": text })),
        Piece::Image { data, mime_type } => Some(json!({
            "type": "image",
            "source": { "type": "base64", "media_type": mime_type, "data": data },
        })),
    });
    blocks.collect()
}

fn assistant(endpoint: &Endpoint, message: &AssistantMessage, ids: &mut Ids) -> Vec<Value> {
    let own = is_own(endpoint, API, message);
    let blocks = message.content.iter().filter_map(|content| match content {
        Content::Text { text, .. } if !text.trim().is_empty() => {
            Some(json!({ "type": "text", "text": text }))
        }
        Content::Thinking { thinking_signature: Some(data), redacted: true, .. } if own => {
            Some(json!({ "type": "redacted_thinking", "data": data }))
        }
        Content::Thinking { thinking, thinking_signature: Some(signature), .. } if own => {
            Some(json!({ "type": "thinking", "thinking": thinking, "signature": signature }))
        }
        Content::ToolCall(call) => Some(json!({
            "type": "tool_use",
            "id": ids.call(&call.id),
            "name": sent_name(&call.name),
            "input": call.arguments,
        })),
        _ => None,
    });
    blocks.collect()
}

/// A result; a failed one accepts only text, so its images go to `pictures`.
fn tool_result(
    endpoint: &Endpoint,
    result: &ToolResultMessage,
    ids: &mut Ids,
    pictures: &mut Vec<Value>,
) -> Value {
    let mut content = blocks(visible(endpoint, &result.content, TOOL_IMAGE_OMITTED));
    if result.is_error {
        let (images, texts) = content.into_iter().partition(|block| block["type"] == "image");
        content = texts;
        let images: Vec<Value> = images;
        pictures.extend(images);
    }
    if content.is_empty() {
        content.push(json!({ "type": "text", "text": "(no tool output)" }));
    }
    let mut out = json!({
        "type": "tool_result",
        "tool_use_id": ids.result(&result.tool_call_id),
        "content": content,
    });
    if result.is_error {
        out["is_error"] = json!(true);
    }
    out
}
