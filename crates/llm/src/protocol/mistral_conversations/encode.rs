//! Encodes a request for Mistral's chat completions.
//!
//! The encoder is pure and deterministic.

use serde_json::{Map, Value, json};

use super::API;
use crate::endpoint::{Auth, Effort, Endpoint};
use crate::message::{AssistantMessage, Content, Message, ToolResultMessage};
use crate::model::Request;
use crate::options::{CacheRetention, ToolChoice};
use crate::protocol::ids::{Ids, Rule};
use crate::protocol::tools::{function, instructions, sent_name};
use crate::protocol::{
    EncodeError, HttpRequest, IMAGE_OMITTED, Piece, TOOL_IMAGE_OMITTED, check_tools, is_own, limits,
    result_text, visible,
};
use crate::transcript;

/// Rule for Mistral's call ids: exactly nine letters and digits.
const IDS: Rule = Rule::exactly(9);
/// Assistant message that Mistral requires between a result and a user message.
const BETWEEN: &str = "OK.";
/// The only prompt mode; any other word is an effort.
const REASONING: &str = "reasoning";

/// Encodes a request.
///
/// Thinking returns only to the model that produced it, at its original position.
pub(super) fn encode(endpoint: &Endpoint, request: &Request) -> Result<HttpRequest, EncodeError> {
    check_tools(endpoint, request)?;
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(endpoint.model));
    body.insert("messages".to_owned(), Value::Array(messages(endpoint, request)));
    body.insert("stream".to_owned(), json!(true));
    if let Some(limit) = limits::max_output(API, endpoint, request) {
        body.insert("max_tokens".to_owned(), json!(limit));
    }
    if let Some(temperature) = request.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    if !request.tools.is_empty() {
        let functions = request.tools.iter().map(|tool| function(endpoint, tool));
        body.insert("tools".to_owned(), functions.collect());
        let choice = match &request.tool_choice {
            ToolChoice::Auto => None,
            ToolChoice::Any => Some(json!("any")),
            ToolChoice::None => Some(json!("none")),
            ToolChoice::Tool(name) => {
                Some(json!({ "type": "function", "function": { "name": sent_name(name) } }))
            }
        };
        body.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
    }
    let thinking = endpoint.effort(request).and_then(|(level, effort)| {
        // Mistral has no budgets.
        let Effort::Word(word) = effort else { return None };
        let field = if word == REASONING { "prompt_mode" } else { "reasoning_effort" };
        body.insert(field.to_owned(), json!(word));
        Some((level, word.clone()))
    });
    let cached = request.cache != CacheRetention::None && !request.session_id.is_empty();
    if cached && endpoint.compat.prompt_cache_key {
        body.insert("prompt_cache_key".to_owned(), json!(request.session_id));
    }
    let mut http =
        HttpRequest::new(endpoint, request, "chat/completions", Auth::bearer(), Value::Object(body));
    if cached {
        // The header routes the requests of a conversation to its cache.
        http.headers.push(("x-affinity".to_owned(), request.session_id.clone()));
    }
    Ok(HttpRequest { thinking, ..http })
}

fn messages(endpoint: &Endpoint, request: &Request) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    let instructions = instructions(endpoint, request);
    if !instructions.trim().is_empty() {
        out.push(json!({ "role": "system", "content": instructions }));
    }
    let mut ids = Ids::new(IDS);
    for message in transcript::repair(&request.messages) {
        match message {
            Message::User(user) => {
                let content = parts(visible(endpoint, &user.content, IMAGE_OMITTED));
                if content.as_str() == Some("") {
                    continue;
                }
                if out.last().is_some_and(|last| last["role"] == "tool") {
                    out.push(json!({ "role": "assistant", "content": BETWEEN }));
                }
                out.push(json!({ "role": "user", "content": content }));
            }
            Message::Assistant(message) => out.extend(assistant(endpoint, &message, &mut ids)),
            Message::ToolResult(result) => out.push(tool_result(endpoint, &result, &mut ids)),
        }
    }
    out
}

fn part(piece: Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => json!({ "type": "text", "text": text }),
        Piece::Image { data, mime_type } => {
            json!({ "type": "image_url", "image_url": format!("data:{mime_type};base64,{data}") })
        }
    }
}

/// A plain string if there are no images.
fn parts(pieces: Vec<Piece<'_>>) -> Value {
    let mut texts = Vec::new();
    for piece in &pieces {
        match piece {
            Piece::Text(text) => texts.push(*text),
            Piece::Image { .. } => {
                let pieces = pieces.iter().filter(|piece| !matches!(piece, Piece::Text("")));
                return pieces.map(|piece| part(*piece)).collect();
            }
        }
    }
    json!(texts.join("\n"))
}

fn assistant(endpoint: &Endpoint, message: &AssistantMessage, ids: &mut Ids) -> Option<Value> {
    let own = is_own(endpoint, API, message);
    let mut parts: Vec<Value> = Vec::new();
    let mut texts: Vec<&str> = Vec::new();
    let mut thought = false;
    let mut calls: Vec<Value> = Vec::new();
    for content in &message.content {
        match content {
            Content::Text { text, .. } if !text.is_empty() => {
                parts.push(json!({ "type": "text", "text": text }));
                texts.push(text);
            }
            Content::Thinking { thinking, thinking_signature, .. } if own && !thinking.is_empty() => {
                let text = json!([{ "type": "text", "text": thinking }]);
                let mut part = json!({ "type": "thinking", "thinking": text });
                if let Some(signature) = thinking_signature {
                    part["signature"] = json!(signature);
                }
                parts.push(part);
                thought = true;
            }
            Content::ToolCall(call) => {
                let arguments = Value::Object(call.arguments.clone()).to_string();
                calls.push(json!({
                    "id": ids.call(&call.id),
                    "type": "function",
                    "function": { "name": sent_name(&call.name), "arguments": arguments },
                }));
            }
            _ => {}
        }
    }
    if parts.is_empty() && calls.is_empty() {
        return None;
    }
    let content = if thought { Value::Array(parts) } else { json!(texts.join("\n")) };
    let mut out = json!({ "role": "assistant", "content": content });
    if !calls.is_empty() {
        out["tool_calls"] = Value::Array(calls);
    }
    Some(out)
}

/// A result, which may contain images.
fn tool_result(endpoint: &Endpoint, result: &ToolResultMessage, ids: &mut Ids) -> Value {
    let pieces = visible(endpoint, &result.content, TOOL_IMAGE_OMITTED);
    let text = result_text(&pieces);
    let images: Vec<Piece<'_>> =
        pieces.into_iter().filter(|piece| matches!(piece, Piece::Image { .. })).collect();
    let content = match images.is_empty() {
        true => json!(text),
        false => parts([Piece::Text(&text)].into_iter().chain(images).collect()),
    };
    let id = ids.result(&result.tool_call_id);
    json!({ "role": "tool", "tool_call_id": id, "name": sent_name(&result.tool_name), "content": content })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ThinkingLevel;

    #[test]
    fn an_assistant_message_separates_result_and_user() {
        let call = Content::ToolCall(crate::ToolCall {
            id: "a".to_owned(),
            name: "read".to_owned(),
            arguments: Map::new(),
            arguments_error: None,
            thought_signature: None,
        });
        let asked =
            AssistantMessage { content: vec![call], ..AssistantMessage::empty("other", "there", "m") };
        let messages = vec![Message::user("go"), Message::Assistant(asked), Message::user("stop")];
        let request = Request { messages: messages.into(), ..Request::default() };
        let body = encode(&Endpoint::new("mistral", "http://x/v1", "m"), &request).unwrap().body;
        let roles: Vec<&str> =
            body["messages"].as_array().unwrap().iter().filter_map(|it| it["role"].as_str()).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user"]);
        assert_eq!(body["messages"][2]["content"], transcript::NO_RESULT);
        assert_eq!(body["messages"][3]["content"], BETWEEN);
    }

    #[test]
    fn thinking_is_a_mode_or_an_effort() {
        for (word, field) in [("reasoning", "prompt_mode"), ("none", "reasoning_effort")] {
            let mut endpoint = Endpoint::new("mistral", "http://x/v1", "m");
            endpoint.thinking.0.insert(ThinkingLevel::High, Effort::Word(word.to_owned()));
            let request = Request { thinking: Some(ThinkingLevel::High), ..Request::default() };
            assert_eq!(encode(&endpoint, &request).unwrap().body[field], word);
        }
    }
}
