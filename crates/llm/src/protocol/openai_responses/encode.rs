//! Encodes a request for responses.
//!
//! The encoder is pure and deterministic.

use serde_json::{Map, Value, json};

use super::is_replayable;
use crate::endpoint::{Effort, Endpoint};
use crate::message::{AssistantMessage, Content, Message, ToolResultMessage};
use crate::model::{Request, ToolDefinition};
use crate::options::{CacheRetention, ThinkingLevel, ToolChoice};
use crate::protocol::ids::{Ids, Rule};
use crate::protocol::strict::{Rules, Strict};
use crate::protocol::tools::{Placed, Subset, description, instructions, schema, sent_name};
use crate::protocol::{
    EncodeError, IMAGE_OMITTED, Piece, TOOL_IMAGE_OMITTED, check_tools, is_own, limits, result_text, visible,
};
use crate::transcript;

const IDS: Rule = Rule::up_to(64);
/// Maximum length of OpenAI's cache key.
const CACHE_KEY: usize = 64;
/// Minimum output limit.
const LEAST_OUTPUT: u64 = 16;

/// The body for the server's `model`, and its thinking option.
///
/// Encrypted reasoning returns only to the model that produced it, with the ids of the items after
/// it.
pub(in crate::protocol) fn body(
    api: &str,
    model: &str,
    endpoint: &Endpoint,
    request: &Request,
) -> Result<(Value, Option<(ThinkingLevel, String)>), EncodeError> {
    check_tools(endpoint, request)?;
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(model));
    let instructions = instructions(endpoint, request);
    if !instructions.is_empty() {
        body.insert("instructions".to_owned(), json!(instructions));
    }
    let transcript = transcript::repair(&request.messages);
    let placed = Placed::new(endpoint, request, &transcript);
    body.insert("input".to_owned(), Value::Array(input(api, endpoint, &transcript, &placed)));
    if !request.tools.is_empty() {
        let function = |tool: &ToolDefinition| function(endpoint, tool);
        body.insert("tools".to_owned(), placed.first.iter().copied().map(function).collect());
        let choice = match &request.tool_choice {
            ToolChoice::Auto => None,
            ToolChoice::Any => Some(json!("required")),
            ToolChoice::None => Some(json!("none")),
            ToolChoice::Tool(name) => Some(json!({ "type": "function", "name": sent_name(name) })),
        };
        body.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
    }
    if let Some(limit) = limits::max_output(api, endpoint, request) {
        body.insert("max_output_tokens".to_owned(), json!(limit.max(LEAST_OUTPUT)));
    }
    if let Some(temperature) = request.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    let thinking = endpoint.effort(request).and_then(|(level, effort)| {
        // These models have no budgets.
        let Effort::Word(word) = effort else { return None };
        let mut reasoning = json!({ "effort": word });
        if level != ThinkingLevel::Off {
            reasoning["summary"] = json!("auto");
        }
        body.insert("reasoning".to_owned(), reasoning);
        Some((level, word.clone()))
    });
    // A reasoning model always reasons, and needs its reasoning to continue.
    if !endpoint.thinking.0.is_empty() {
        body.insert("include".to_owned(), json!(["reasoning.encrypted_content"]));
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
    body.insert("store".to_owned(), json!(false));
    body.insert("stream".to_owned(), json!(true));
    Ok((Value::Object(body), thinking))
}

fn function(endpoint: &Endpoint, tool: &ToolDefinition) -> Value {
    let parameters = schema(&tool.parameters, Subset::Common);
    let strict = Strict::new(endpoint, Rules::OpenAi).next(&parameters);
    let is_strict = strict.is_some();
    json!({
        "type": "function",
        "name": sent_name(&tool.name),
        "description": description(endpoint, tool),
        "parameters": strict.unwrap_or(parameters),
        "strict": is_strict,
    })
}

fn input(api: &str, endpoint: &Endpoint, transcript: &[Message], placed: &Placed<'_>) -> Vec<Value> {
    let mut out = Vec::new();
    let mut ids = Ids::new(IDS);
    let mut found: Vec<Value> = Vec::new();
    for (at, message) in transcript.iter().enumerate() {
        match message {
            Message::User(user) => {
                let content: Vec<Value> =
                    visible(endpoint, &user.content, IMAGE_OMITTED).into_iter().map(part).collect();
                if !content.is_empty() {
                    out.push(json!({ "role": "user", "content": content }));
                }
            }
            Message::Assistant(message) => assistant(api, endpoint, message, &mut ids, &mut out),
            Message::ToolResult(result) => {
                out.push(tool_result(endpoint, result, &mut ids));
                found.extend(placed.after(at).iter().copied().map(|tool| function(endpoint, tool)));
            }
        }
        // The pictures follow the results of the batch.
        if !found.is_empty() && !matches!(transcript.get(at + 1), Some(Message::ToolResult(_))) {
            out.push(json!({ "type": "additional_tools", "role": "developer", "tools": std::mem::take(&mut found) }));
        }
    }
    out
}

fn part(piece: Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => json!({ "type": "input_text", "text": text }),
        Piece::Image { data, mime_type } => json!({
            "type": "input_image",
            "detail": "auto",
            "image_url": format!("data:{mime_type};base64,{data}"),
        }),
    }
}

fn assistant(
    api: &str,
    endpoint: &Endpoint,
    message: &AssistantMessage,
    ids: &mut Ids,
    out: &mut Vec<Value>,
) {
    let own = is_own(endpoint, api, message);
    // The id of an item after reasoning is rejected without the reasoning.
    let whole = own
        && message.content.iter().all(|content| match content {
            Content::Thinking { thinking_signature, .. } => {
                thinking_signature.as_deref().and_then(reasoning).is_some()
            }
            _ => true,
        });
    // Reasoning without a following item is rejected, for example if the text after it was blank.
    let mut held = Vec::new();
    for content in &message.content {
        match content {
            Content::Thinking { thinking_signature: Some(item), .. } if own => {
                held.extend(reasoning(item));
            }
            Content::Text { text, text_signature } if !text.trim().is_empty() => {
                let signature = text_signature.as_deref().filter(|_| own);
                let signature = signature.and_then(|it| serde_json::from_str::<Value>(it).ok());
                let said = |field: &str| signature.as_ref().and_then(|it| it[field].as_str());
                let mut item = match said("id").filter(|_| whole) {
                    Some(id) => json!({
                        "type": "message",
                        "role": "assistant",
                        "status": "completed",
                        "content": [{ "type": "output_text", "text": text, "annotations": [] }],
                        "id": id,
                    }),
                    // An output item needs an id; another model's text has none.
                    None => json!({ "role": "assistant", "content": text }),
                };
                if let Some(phase) = said("phase") {
                    item["phase"] = json!(phase);
                }
                out.append(&mut held);
                out.push(item);
            }
            Content::ToolCall(call) => {
                let (call_id, item_id) = call.id.split_once('|').unwrap_or((&call.id, ""));
                let mut item = json!({
                    "type": "function_call",
                    "call_id": ids.call_as(&call.id, call_id),
                    "name": sent_name(&call.name),
                    "arguments": Value::Object(call.arguments.clone()).to_string(),
                });
                if whole && item_id.starts_with("fc_") {
                    item["id"] = json!(item_id);
                }
                out.append(&mut held);
                out.push(item);
            }
            _ => {}
        }
    }
}

/// The original reasoning item for sending back; `None` if it cannot be.
fn reasoning(signature: &str) -> Option<Value> {
    let item: Value = serde_json::from_str(signature).ok()?;
    (item["type"] == "reasoning" && is_replayable(&item)).then_some(item)
}

fn tool_result(endpoint: &Endpoint, result: &ToolResultMessage, ids: &mut Ids) -> Value {
    let pieces = visible(endpoint, &result.content, TOOL_IMAGE_OMITTED);
    let output = match pieces.iter().any(|piece| matches!(piece, Piece::Image { .. })) {
        true => pieces.into_iter().map(part).collect(),
        false => json!(result_text(&pieces)),
    };
    json!({ "type": "function_call_output", "call_id": ids.result(&result.tool_call_id), "output": output })
}
