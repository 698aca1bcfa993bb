//! Encodes a request for chat completions.
//!
//! The encoder is pure and deterministic.

use serde_json::{Map, Value, json};

use super::API;
use super::details::Details;
use crate::endpoint::{Auth, Effort, Endpoint, MaxTokensField, ThinkingField};
use crate::message::{AssistantMessage, Content, Message, ToolResultMessage};
use crate::model::{Request, ToolDefinition};
use crate::options::{CacheRetention, ToolChoice};
use crate::protocol::ids::{Ids, Rule};
use crate::protocol::tools::{Placed, function, instructions, sent_name};
use crate::protocol::{
    EncodeError, HttpRequest, IMAGE_OMITTED, Piece, TOOL_IMAGE_OMITTED, check_tools, is_own, limits,
    named_images, result_text, visible,
};
use crate::transcript;

/// Fields with reasoning; thinking is sent back in its original field.
pub(super) const REASONING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];

const IDS: Rule = Rule::up_to(40);

/// Maximum length of OpenAI's cache key.
const CACHE_KEY: usize = 64;

/// Encodes a request.
///
/// The transcript is repaired first ([`transcript::repair`]). Images become a note if the model accepts none,
/// thinking of other models is dropped, and invalid call ids are replaced in calls and results alike.
pub(super) fn encode(endpoint: &Endpoint, request: &Request) -> Result<HttpRequest, EncodeError> {
    check_tools(endpoint, request)?;
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(endpoint.model));
    let transcript = transcript::repair(&request.messages);
    let placed = Placed::new(endpoint, request, &transcript);
    body.insert(
        "messages".to_owned(),
        Value::Array(messages(endpoint, &instructions(endpoint, request), &transcript, &placed)),
    );
    body.insert("stream".to_owned(), json!(true));
    if endpoint.compat.usage_in_streaming {
        body.insert("stream_options".to_owned(), json!({ "include_usage": true }));
    }
    if let Some(limit) = limits::max_output(API, endpoint, request) {
        let field = match endpoint.compat.max_tokens_field {
            MaxTokensField::MaxCompletionTokens => "max_completion_tokens",
            MaxTokensField::MaxTokens => "max_tokens",
        };
        body.insert(field.to_owned(), json!(limit));
    }
    if let Some(temperature) = request.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    if endpoint.compat.prompt_cache_key
        && request.cache != CacheRetention::None
        && !request.session_id.is_empty()
    {
        let key: String = request.session_id.chars().take(CACHE_KEY).collect();
        body.insert("prompt_cache_key".to_owned(), json!(key));
        if request.cache == CacheRetention::Long {
            body.insert("prompt_cache_retention".to_owned(), json!("24h"));
        }
    }
    // vLLM rejects an empty list.
    if !request.tools.is_empty() {
        let function = |tool: &ToolDefinition| function(endpoint, tool);
        body.insert("tools".to_owned(), placed.first.iter().copied().map(function).collect());
        let choice = match &request.tool_choice {
            ToolChoice::Auto => None,
            ToolChoice::Any => Some(json!("required")),
            ToolChoice::None => Some(json!("none")),
            ToolChoice::Tool(name) => {
                Some(json!({ "type": "function", "function": { "name": sent_name(name) } }))
            }
        };
        body.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
    }
    let thinking = endpoint.effort(request).and_then(|(level, effort)| {
        // This field has no budgets.
        let Effort::Word(word) = effort else { return None };
        let effort = match endpoint.compat.thinking_field {
            ThinkingField::ReasoningEffort => true,
            ThinkingField::Reasoning => {
                body.insert("reasoning".to_owned(), json!({ "effort": word }));
                false
            }
            ThinkingField::Thinking => {
                let switch = if word == "off" { "disabled" } else { "enabled" };
                body.insert("thinking".to_owned(), json!({ "type": switch }));
                !matches!(word.as_str(), "on" | "off")
            }
            ThinkingField::EnableThinking => {
                body.insert("enable_thinking".to_owned(), json!(word != "off"));
                !matches!(word.as_str(), "on" | "off")
            }
        };
        if effort {
            body.insert("reasoning_effort".to_owned(), json!(word));
        }
        Some((level, word.clone()))
    });
    let http = HttpRequest::new(endpoint, request, "chat/completions", Auth::bearer(), Value::Object(body));
    Ok(HttpRequest { thinking, ..http })
}

fn messages(endpoint: &Endpoint, system: &str, transcript: &[Message], placed: &Placed<'_>) -> Vec<Value> {
    let mut out = Vec::new();
    if !system.is_empty() {
        out.push(json!({ "role": "system", "content": system }));
    }
    let mut ids = Ids::new(IDS);
    let mut pictures: Vec<Value> = Vec::new();
    let mut found: Vec<Value> = Vec::new();
    for (at, message) in transcript.iter().enumerate() {
        if !matches!(message, Message::ToolResult(_)) {
            attach(&mut found, &mut pictures, &mut out);
        }
        match message {
            Message::User(user) => {
                let content = parts(endpoint, &user.content);
                if content.as_str() != Some("") {
                    out.push(json!({ "role": "user", "content": content }));
                }
            }
            Message::Assistant(message) => out.extend(assistant(endpoint, message, &mut ids)),
            Message::ToolResult(result) => {
                out.push(tool_result(endpoint, result, &mut ids, &mut pictures));
                found.extend(placed.after(at).iter().copied().map(|tool| function(endpoint, tool)));
            }
        }
    }
    attach(&mut found, &mut pictures, &mut out);
    out
}

/// Appends the tools and images that results of a batch introduced.
///
/// Tools go into a message without text, as Moonshot expects, and images into a user message, since
/// a result accepts only text.
fn attach(found: &mut Vec<Value>, pictures: &mut Vec<Value>, out: &mut Vec<Value>) {
    if !found.is_empty() {
        out.push(json!({ "role": "system", "tools": std::mem::take(found) }));
    }
    if !pictures.is_empty() {
        let mut parts = vec![json!({ "type": "text", "text": "Attached image(s) from tool result:" })];
        parts.append(pictures);
        out.push(json!({ "role": "user", "content": parts }));
    }
}

fn part(piece: Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => json!({ "type": "text", "text": text }),
        Piece::Image { data, mime_type } => {
            json!({ "type": "image_url", "image_url": { "url": format!("data:{mime_type};base64,{data}") } })
        }
    }
}

fn parts(endpoint: &Endpoint, content: &[Content]) -> Value {
    let pieces = visible(endpoint, content, IMAGE_OMITTED);
    if pieces.iter().any(|piece| matches!(piece, Piece::Image { .. })) {
        return pieces.into_iter().map(part).collect();
    }
    // Plain text is a string: some servers' templates accept nothing else.
    let texts: Vec<&str> = pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Text(text) => Some(*text),
            Piece::Image { .. } => None,
        })
        .collect();
    json!(texts.join("\n"))
}

fn assistant(endpoint: &Endpoint, message: &AssistantMessage, ids: &mut Ids) -> Option<Value> {
    let own = is_own(endpoint, API, message);
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
                "id": ids.call(&call.id),
                "type": "function",
                "function": { "name": sent_name(&call.name), "arguments": arguments },
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
        if let Content::Thinking { thinking, thinking_signature: Some(signature), .. } = content
            && own
        {
            if let Some(details) = Details::kept(signature) {
                out.insert("reasoning_details".to_owned(), details);
            } else if !thinking.is_empty() && REASONING_FIELDS.contains(&signature.as_str()) {
                out.insert(signature.clone(), json!(thinking));
            }
        }
    }
    if endpoint.compat.reasoning_content && !out.contains_key("reasoning_content") {
        // Kimi treats an empty one as missing.
        out.insert("reasoning_content".to_owned(), json!(" "));
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
    let pieces = visible(endpoint, &result.content, TOOL_IMAGE_OMITTED);
    pictures.extend(named_images(&pieces).into_iter().map(part));
    json!({ "role": "tool", "tool_call_id": ids.result(&result.tool_call_id), "content": result_text(&pieces) })
}
