//! Encodes a request for `streamGenerateContent`.
//!
//! The encoder is pure and deterministic.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::endpoint::{Effort, Endpoint};
use crate::message::{AssistantMessage, Content, Message, ToolResultMessage};
use crate::model::Request;
use crate::options::{ThinkingLevel, ToolChoice};
use crate::protocol::ids::{Ids, Rule};
use crate::protocol::tools::{Subset, description, instructions, schema, sent_name};
use crate::protocol::{
    BEGINNING, EncodeError, IMAGE_OMITTED, Piece, TOOL_IMAGE_OMITTED, check_tools, is_own, limits,
    named_images, result_text, visible,
};
use crate::transcript;

const IDS: Rule = Rule::up_to(64);
/// Signature for calls of another model where a signature is required.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Differences between Gemini's hosts.
#[derive(Debug, Clone, Copy)]
pub(in crate::protocol) struct Place {
    pub api: &'static str,
    /// Whether calls and results have ids; otherwise they are matched by order.
    pub ids: bool,
}

/// The request body and its thinking option.
///
/// Signed parts go back with their signature; calls of other models without one, or with [`NO_SIGNATURE`] if
/// one is required.
pub(in crate::protocol) fn body(
    place: Place,
    endpoint: &Endpoint,
    request: &Request,
) -> Result<(Value, Option<(ThinkingLevel, String)>), EncodeError> {
    check_tools(endpoint, request)?;
    let mut body = Map::new();
    let instructions = instructions(endpoint, request);
    if !instructions.trim().is_empty() {
        body.insert("systemInstruction".to_owned(), json!({ "parts": [{ "text": instructions }] }));
    }
    body.insert("contents".to_owned(), Value::Array(contents(place, endpoint, request)));
    if !request.tools.is_empty() {
        let declarations: Vec<Value> = request
            .tools
            .iter()
            .map(|tool| {
                json!({
                    "name": sent_name(&tool.name),
                    "description": description(endpoint, tool),
                    "parametersJsonSchema": schema(&tool.parameters, Subset::Google),
                })
            })
            .collect();
        body.insert("tools".to_owned(), json!([{ "functionDeclarations": declarations }]));
        let choice = match &request.tool_choice {
            // `VALIDATED` constrains arguments without forcing a call.
            ToolChoice::Auto => endpoint.compat.strict_tools.then(|| json!({ "mode": "VALIDATED" })),
            ToolChoice::Any => Some(json!({ "mode": "ANY" })),
            ToolChoice::None => Some(json!({ "mode": "NONE" })),
            ToolChoice::Tool(name) => {
                Some(json!({ "mode": "ANY", "allowedFunctionNames": [sent_name(name)] }))
            }
        };
        if let Some(choice) = choice {
            body.insert("toolConfig".to_owned(), json!({ "functionCallingConfig": choice }));
        }
    }
    let mut config = Map::new();
    if let Some(limit) = limits::max_output(place.api, endpoint, request) {
        config.insert("maxOutputTokens".to_owned(), json!(limit));
    }
    if let Some(temperature) = request.temperature {
        config.insert("temperature".to_owned(), json!(temperature));
    }
    let thinking = endpoint.effort(request).map(|(level, effort)| {
        let mut thinking = match effort {
            Effort::Word(word) => json!({ "thinkingLevel": word }),
            Effort::Budget(budget) => json!({ "thinkingBudget": budget }),
        };
        if level != ThinkingLevel::Off {
            thinking["includeThoughts"] = json!(true);
        }
        config.insert("thinkingConfig".to_owned(), thinking);
        (level, effort.shown())
    });
    if !config.is_empty() {
        body.insert("generationConfig".to_owned(), Value::Object(config));
    }
    Ok((Value::Object(body), thinking))
}

fn contents(place: Place, endpoint: &Endpoint, request: &Request) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    let mut ids = Ids::new(IDS);
    let mut names: HashMap<String, String> = HashMap::new();
    let mut pictures: Vec<Value> = Vec::new();
    let mut after_result = false;
    for message in transcript::repair(&request.messages) {
        let is_result = matches!(message, Message::ToolResult(_));
        if !is_result {
            attach(&mut pictures, &mut out);
        }
        match message {
            Message::User(user) => {
                let parts: Vec<Value> =
                    visible(endpoint, &user.content, IMAGE_OMITTED).into_iter().map(part).collect();
                if !parts.is_empty() {
                    out.push(json!({ "role": "user", "parts": parts }));
                }
            }
            Message::Assistant(message) => {
                for call in message.tool_calls() {
                    names.insert(call.id.clone(), call.name.clone());
                }
                let parts = assistant(place, endpoint, &message, &mut ids);
                if !parts.is_empty() {
                    if out.is_empty() {
                        out.push(json!({ "role": "user", "parts": [{ "text": BEGINNING }] }));
                    }
                    out.push(json!({ "role": "model", "parts": parts }));
                }
            }
            Message::ToolResult(result) => {
                let name = names.get(&result.tool_call_id).unwrap_or(&result.tool_name);
                let ids = place.ids.then_some(&mut ids);
                let response = tool_result(endpoint, &result, name, ids, &mut pictures);
                // All results of a batch are one content.
                match out.last_mut() {
                    Some(last) if after_result => {
                        if let Value::Array(parts) = &mut last["parts"] {
                            parts.push(response);
                        }
                    }
                    _ => out.push(json!({ "role": "user", "parts": [response] })),
                }
            }
        }
        after_result = is_result;
    }
    attach(&mut pictures, &mut out);
    out
}

/// Appends images of results as one user content.
fn attach(pictures: &mut Vec<Value>, out: &mut Vec<Value>) {
    if !pictures.is_empty() {
        let mut parts = vec![json!({ "text": "Attached image(s) from tool result:" })];
        parts.append(pictures);
        out.push(json!({ "role": "user", "parts": parts }));
    }
}

fn part(piece: Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => json!({ "text": text }),
        Piece::Image { data, mime_type } => json!({ "inlineData": { "mimeType": mime_type, "data": data } }),
    }
}

/// A signature if it is base64; any other value is rejected with the request.
fn sendable(signature: &Option<String>) -> Option<&str> {
    let is_base64 = |it: &&str| {
        let digits = it.trim_end_matches('=');
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
        !digits.is_empty()
            && it.len().is_multiple_of(4)
            && it.len() - digits.len() < 3
            && digits.bytes().all(plain)
    };
    signature.as_deref().filter(is_base64)
}

fn assistant(place: Place, endpoint: &Endpoint, message: &AssistantMessage, ids: &mut Ids) -> Vec<Value> {
    let own = is_own(endpoint, place.api, message);
    // Models with thinking words require a signature on the first call of an answer.
    let demands = endpoint.thinking.0.values().any(|effort| matches!(effort, Effort::Word(_)));
    let mut first_call = true;
    let mut parts = Vec::new();
    for content in &message.content {
        let (mut part, signature) = match content {
            Content::Text { text, text_signature } => {
                let signature = sendable(text_signature).filter(|_| own);
                if text.is_empty() && signature.is_none() {
                    continue;
                }
                (json!({ "text": text }), signature)
            }
            Content::Thinking { thinking, thinking_signature, .. } if own => {
                (json!({ "text": thinking, "thought": true }), sendable(thinking_signature))
            }
            Content::ToolCall(call) => {
                let mut function = json!({ "name": sent_name(&call.name), "args": call.arguments });
                if place.ids {
                    function["id"] = json!(ids.call(&call.id));
                }
                let placeholder = (demands && first_call).then_some(NO_SIGNATURE);
                first_call = false;
                let signature = sendable(&call.thought_signature).filter(|_| own);
                (json!({ "functionCall": function }), signature.or(placeholder))
            }
            _ => continue,
        };
        if let Some(signature) = signature {
            part["thoughtSignature"] = json!(signature);
        }
        parts.push(part);
    }
    parts
}

fn tool_result(
    endpoint: &Endpoint,
    result: &ToolResultMessage,
    name: &str,
    ids: Option<&mut Ids>,
    pictures: &mut Vec<Value>,
) -> Value {
    let pieces = visible(endpoint, &result.content, TOOL_IMAGE_OMITTED);
    pictures.extend(named_images(&pieces).into_iter().map(part));
    let field = if result.is_error { "error" } else { "output" };
    let mut response = Map::new();
    if let Some(ids) = ids {
        response.insert("id".to_owned(), json!(ids.result(&result.tool_call_id)));
    }
    response.insert("name".to_owned(), json!(sent_name(name)));
    response.insert("response".to_owned(), json!({ field: result_text(&pieces) }));
    json!({ "functionResponse": response })
}
