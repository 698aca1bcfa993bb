//! A request as responses takes it. Pure: the same request gives the same bytes.

use serde_json::{Map, Value, json};

use super::is_replayable;
use crate::endpoint::{Effort, Endpoint};
use crate::message::{AssistantMessage, Content, Message, ToolResultMessage};
use crate::model::Request;
use crate::options::{CacheRetention, ThinkingLevel, ToolChoice};
use crate::protocol::ids::{Ids, Rule};
use crate::protocol::tools::{Subset, schema, sent_name};
use crate::protocol::{
    EncodeError, IMAGE_OMITTED, Piece, TOOL_IMAGE_OMITTED, check_choice, is_own, limits, result_text, visible,
};
use crate::transcript;

/// The ids that OpenAI takes.
const IDS: Rule = Rule::up_to(64);
/// The longest key of its cache that OpenAI takes.
const CACHE_KEY: usize = 64;
/// The least output that can be asked for.
const LEAST_OUTPUT: u64 = 16;

/// The body of a request by the protocol `api` for what the server calls `model`, and what it says of thinking. Reasoning goes back, encrypted, to the model it came from only, and with it the ids of the
/// items that followed it.
pub(in crate::protocol) fn body(
    api: &str,
    model: &str,
    endpoint: &Endpoint,
    request: &Request,
) -> Result<(Value, Option<(ThinkingLevel, String)>), EncodeError> {
    check_choice(request)?;
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(model));
    if !request.system.is_empty() {
        body.insert("instructions".to_owned(), json!(request.system));
    }
    body.insert("input".to_owned(), Value::Array(input(api, endpoint, request)));
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({
                "type": "function",
                "name": sent_name(&tool.name),
                "description": tool.description,
                "parameters": schema(&tool.parameters, Subset::Common),
                "strict": false,
            })
        });
        body.insert("tools".to_owned(), tools.collect());
        let choice = match &request.tool_choice {
            ToolChoice::Auto => None,
            ToolChoice::Any => Some(json!("required")),
            ToolChoice::None => Some(json!("none")),
            ToolChoice::Tool(name) => Some(json!({ "type": "function", "name": sent_name(name) })),
        };
        body.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
    }
    if let Some(limit) = limits::max_output(endpoint, request) {
        body.insert("max_output_tokens".to_owned(), json!(limit.max(LEAST_OUTPUT)));
    }
    if let Some(temperature) = request.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    let thinking = endpoint.effort(request).and_then(|(level, effort)| {
        // It has no budgets, so of one nothing is said.
        let Effort::Word(word) = effort else { return None };
        let mut reasoning = json!({ "effort": word });
        if level != ThinkingLevel::Off {
            reasoning["summary"] = json!("auto");
        }
        body.insert("reasoning".to_owned(), reasoning);
        Some((level, word.clone()))
    });
    // A model that reasons does so unasked, too, and goes on from there only with what it reasoned.
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

fn input(api: &str, endpoint: &Endpoint, request: &Request) -> Vec<Value> {
    let mut out = Vec::new();
    let mut ids = Ids::new(IDS);
    for message in transcript::repair(&request.messages) {
        match message {
            Message::User(user) => {
                let content: Vec<Value> =
                    visible(endpoint, &user.content, IMAGE_OMITTED).into_iter().map(part).collect();
                if !content.is_empty() {
                    out.push(json!({ "role": "user", "content": content }));
                }
            }
            Message::Assistant(message) => assistant(api, endpoint, &message, &mut ids, &mut out),
            Message::ToolResult(result) => out.push(tool_result(endpoint, &result, &mut ids)),
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
    // An item that followed reasoning is refused under its id without it.
    let whole = own
        && message.content.iter().all(|content| match content {
            Content::Thinking { thinking_signature, .. } => {
                thinking_signature.as_deref().and_then(reasoning).is_some()
            }
            _ => true,
        });
    for content in &message.content {
        match content {
            Content::Thinking { thinking_signature: Some(item), .. } if own => {
                out.extend(reasoning(item));
            }
            Content::Text { text, text_signature } if !text.is_empty() => {
                let mut item = json!({
                    "type": "message",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{ "type": "output_text", "text": text, "annotations": [] }],
                });
                let signature = text_signature.as_deref().filter(|_| whole);
                let signature = signature.and_then(|it| serde_json::from_str::<Value>(it).ok());
                for field in ["id", "phase"] {
                    if let Some(value) = signature.as_ref().and_then(|it| it[field].as_str()) {
                        item[field] = json!(value);
                    }
                }
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
                out.push(item);
            }
            _ => {}
        }
    }
}

/// Reasoning as the very item it was, as it goes back; `None` for what cannot.
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
