//! Encoder of a request for `ConverseStream`.
//!
//! The encoder is pure and deterministic; the transport signs the request.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::API;
use crate::endpoint::{Auth, Effort, Endpoint, ForcedTools};
use crate::message::{AssistantMessage, Content, Message, ToolResultMessage};
use crate::model::{Request, ToolDefinition};
use crate::options::{CacheRetention, ThinkingLevel, ToolChoice};
use crate::protocol::claude::{self, Asked};
use crate::protocol::ids::{Ids, Rule};
use crate::protocol::strict::{Rules, Strict};
use crate::protocol::tools::{Subset, description, instructions, schema, sent_name};
use crate::protocol::{
    BEGINNING, EncodeError, HttpRequest, IMAGE_OMITTED, Piece, TOOL_IMAGE_OMITTED, check_forced, check_tools,
    is_own, limits, result_text, visible,
};
use crate::sigv4::Signing;
use crate::transcript;

const IDS: Rule = Rule::up_to(64);
/// Characters of a model id that are not escaped in the path.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The model family, derived from its id; families differ in further fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Claude,
    Nova,
    Other,
}

impl Family {
    fn of(model: &str) -> Family {
        let model = model.to_ascii_lowercase();
        match () {
            () if model.contains("claude") => Family::Claude,
            () if model.contains("nova") => Family::Nova,
            () => Family::Other,
        }
    }
}

/// Encodes a request.
///
/// Results of one batch and the following user message become one user message. Without tools, calls and
/// results become text, since Bedrock rejects them otherwise.
pub(super) fn encode(endpoint: &Endpoint, request: &Request) -> Result<HttpRequest, EncodeError> {
    check_tools(endpoint, request)?;
    let family = Family::of(&endpoint.model);
    // An ARN may not contain the family.
    if family == Family::Other && !endpoint.model.starts_with("arn:") {
        // https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolChoice.html
        check_forced(request, ForcedTools::Any)?;
    }
    let transcript = transcript::repair(&request.messages);
    let tools = !request.tools.is_empty() && request.tool_choice != ToolChoice::None;
    let cache = cache_point(endpoint, request, family);
    let mut body = Map::new();
    let mut messages = messages(endpoint, family, &transcript, tools);
    for at in claude::marked(&messages) {
        if messages[at]["role"] == "user"
            && let Value::Array(content) = &mut messages[at]["content"]
        {
            content.extend(cache.clone());
        }
    }
    body.insert("messages".to_owned(), Value::Array(messages));
    let instructions = instructions(endpoint, request);
    if !instructions.trim().is_empty() {
        let system = [json!({ "text": instructions })].into_iter().chain(cache.clone());
        body.insert("system".to_owned(), system.collect());
    }
    let mut config = Map::new();
    let mut max_tokens = limits::max_output(API, endpoint, request);
    let mut additional = Map::new();
    let mut thinks = false;
    let thinking = match family {
        Family::Claude => Asked::new(endpoint, API, request, &transcript).map(|asked| {
            let room = limits::room(API, endpoint, request);
            let least = asked.max_tokens(endpoint, max_tokens.unwrap_or(0), room);
            max_tokens = (least > 0).then_some(least);
            thinks = asked.level != ThinkingLevel::Off;
            additional.extend(asked.fields(max_tokens.unwrap_or(u64::MAX)));
            (asked.level, asked.shown())
        }),
        Family::Nova | Family::Other => endpoint.effort(request).and_then(|(level, effort)| {
            // These models have no budgets.
            let Effort::Word(word) = effort else { return None };
            match (family, level) {
                (Family::Nova, ThinkingLevel::Off) => {
                    additional.insert("reasoningConfig".to_owned(), json!({ "type": "disabled" }));
                }
                (Family::Nova, _) => {
                    let config = json!({ "type": "enabled", "maxReasoningEffort": word });
                    additional.insert("reasoningConfig".to_owned(), config);
                }
                _ => {
                    additional.insert("reasoning_effort".to_owned(), json!(word));
                }
            }
            Some((level, word.clone()))
        }),
    };
    if let Some(limit) = max_tokens {
        config.insert("maxTokens".to_owned(), json!(limit));
    }
    // Thinking requires the default temperature with Claude.
    if let Some(temperature) = request.temperature.filter(|_| !thinks) {
        config.insert("temperature".to_owned(), json!(temperature));
    }
    if !config.is_empty() {
        body.insert("inferenceConfig".to_owned(), Value::Object(config));
    }
    if tools {
        let mut strict = Strict::new(endpoint, Rules::Claude);
        let tools = request.tools.iter().map(|it| tool(endpoint, &mut strict, it)).chain(cache);
        let mut config = json!({ "tools": tools.collect::<Vec<Value>>() });
        match &request.tool_choice {
            ToolChoice::Auto | ToolChoice::None => {}
            ToolChoice::Any => config["toolChoice"] = json!({ "any": {} }),
            ToolChoice::Tool(name) => config["toolChoice"] = json!({ "tool": { "name": sent_name(name) } }),
        }
        body.insert("toolConfig".to_owned(), config);
    }
    if !additional.is_empty() {
        body.insert("additionalModelRequestFields".to_owned(), Value::Object(additional));
    }
    let path = format!("model/{}/converse-stream", utf8_percent_encode(&endpoint.model, PLAIN));
    let mut http = HttpRequest::new(endpoint, request, &path, Auth::bearer(), Value::Object(body));
    http.headers.push(("accept".to_owned(), "application/vnd.amazon.eventstream".to_owned()));
    http.thinking = thinking;
    sign(endpoint, &mut http)?;
    Ok(http)
}

/// Sets up the signature if there is no key.
fn sign(endpoint: &Endpoint, http: &mut HttpRequest) -> Result<(), EncodeError> {
    // `arn:aws:bedrock:REGION:…` is served only in that region.
    let of_model = endpoint.model.strip_prefix("arn:").and_then(|arn| arn.split(':').nth(2));
    let of_model = of_model.filter(|region| !region.is_empty());
    let of_address = region_of(&endpoint.base_url).map(str::to_owned);
    if let (Some(wanted), Some(stands)) = (of_model, &of_address) {
        http.url = http.url.replacen(stands.as_str(), wanted, 1);
    }
    if http.key.is_some() {
        return Ok(());
    }
    let Some(keys) = &endpoint.aws else { return Ok(()) };
    let region = of_model.map(str::to_owned).or_else(|| keys.region.clone()).or(of_address);
    let region = region.ok_or(EncodeError::NoRegion)?;
    http.secrets.extend(keys.secrets());
    http.signing = Some(Signing { keys: keys.clone(), region, service: "bedrock" });
    Ok(())
}

/// The region in an Amazon address.
fn region_of(url: &str) -> Option<&str> {
    let (_, host) = url.split_once("://")?;
    let host = host.split(['/', ':']).next()?;
    let (service, rest) = host.split_once('.')?;
    let (region, domain) = rest.split_once('.')?;
    let ours = matches!(service, "bedrock-runtime" | "bedrock-runtime-fips");
    (ours && (domain.starts_with("amazonaws.com") || domain.starts_with("api.aws"))).then_some(region)
}

fn cache_point(endpoint: &Endpoint, request: &Request, family: Family) -> Option<Value> {
    if !endpoint.compat.cache_control || family != Family::Claude {
        return None;
    }
    match request.cache {
        CacheRetention::None => None,
        CacheRetention::Short => Some(json!({ "cachePoint": { "type": "default" } })),
        CacheRetention::Long => Some(json!({ "cachePoint": { "type": "default", "ttl": "1h" } })),
    }
}

fn tool(endpoint: &Endpoint, strict: &mut Strict, tool: &ToolDefinition) -> Value {
    let schema = schema(&tool.parameters, Subset::Claude);
    let strict = strict.next(&schema);
    let is_strict = strict.is_some();
    let mut spec =
        json!({ "name": sent_name(&tool.name), "inputSchema": { "json": strict.unwrap_or(schema) } });
    // Bedrock rejects an empty document.
    if !tool.description.trim().is_empty() {
        spec["description"] = json!(description(endpoint, tool));
    }
    if is_strict {
        spec["strict"] = json!(true);
    }
    json!({ "toolSpec": spec })
}

fn messages(endpoint: &Endpoint, family: Family, transcript: &[Message], tools: bool) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    let mut ids = Ids::new(IDS);
    let mut pictures: Vec<Value> = Vec::new();
    for (at, message) in transcript.iter().enumerate() {
        let (role, mut content) = match message {
            Message::User(user) => ("user", blocks(visible(endpoint, &user.content, IMAGE_OMITTED))),
            Message::Assistant(message) => ("assistant", assistant(endpoint, message, &mut ids, tools)),
            Message::ToolResult(result) if tools => {
                ("user", vec![tool_result(endpoint, family, result, &mut ids, &mut pictures)])
            }
            Message::ToolResult(result) => ("user", as_text(endpoint, result)),
        };
        // The pictures follow the results of the batch.
        if !pictures.is_empty() && !matches!(transcript.get(at + 1), Some(Message::ToolResult(_))) {
            content.push(json!({ "text": "Attached image(s) from tool result:" }));
            content.append(&mut pictures);
        }
        if content.is_empty() {
            continue;
        }
        if out.is_empty() && role == "assistant" {
            out.push(json!({ "role": "user", "content": [{ "text": BEGINNING }] }));
        }
        match out.last_mut() {
            Some(last) if last["role"] == role => {
                if let Value::Array(before) = &mut last["content"] {
                    before.extend(content);
                }
            }
            _ => out.push(json!({ "role": role, "content": content })),
        }
    }
    out
}

/// Content blocks; blank text is rejected, so it is dropped.
fn blocks(pieces: Vec<Piece<'_>>) -> Vec<Value> {
    let blocks = pieces.into_iter().filter_map(|piece| match piece {
        Piece::Text(text) if text.trim().is_empty() => None,
        Piece::Text(text) => Some(json!({ "text": text })),
        Piece::Image { data, mime_type } => {
            let format = match mime_type {
                "image/jpeg" | "image/jpg" => "jpeg",
                "image/png" => "png",
                "image/gif" => "gif",
                "image/webp" => "webp",
                other => return Some(json!({ "text": format!("(image omitted: {other} is not taken)") })),
            };
            Some(json!({ "image": { "format": format, "source": { "bytes": data } } }))
        }
    });
    blocks.collect()
}

fn assistant(endpoint: &Endpoint, message: &AssistantMessage, ids: &mut Ids, tools: bool) -> Vec<Value> {
    let own = is_own(endpoint, API, message);
    let blocks = message.content.iter().filter_map(|content| match content {
        Content::Text { text, .. } if !text.trim().is_empty() => Some(json!({ "text": text })),
        // Unsigned thinking is rejected, and calls sent as text have none.
        Content::Thinking { thinking_signature: Some(data), redacted: true, .. } if own && tools => {
            Some(json!({ "reasoningContent": { "redactedContent": data } }))
        }
        Content::Thinking { thinking, thinking_signature: Some(signature), .. } if own && tools => {
            let text = json!({ "text": thinking, "signature": signature });
            Some(json!({ "reasoningContent": { "reasoningText": text } }))
        }
        Content::ToolCall(call) => {
            let input = without_empty_keys(&Value::Object(call.arguments.clone()));
            if !tools {
                return Some(json!({ "text": format!("[called {} with {input}]", call.name) }));
            }
            let id = ids.call(&call.id);
            Some(json!({ "toolUse": { "toolUseId": id, "name": sent_name(&call.name), "input": input } }))
        }
        _ => None,
    });
    blocks.collect()
}

/// The value without empty keys, which are rejected.
fn without_empty_keys(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, _)| !key.is_empty());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_empty_keys(value))).collect())
        }
        Value::Array(list) => list.iter().map(without_empty_keys).collect(),
        other => other.clone(),
    }
}

/// A result; images go to `pictures` unless the model is known to accept them here.
fn tool_result(
    endpoint: &Endpoint,
    family: Family,
    result: &ToolResultMessage,
    ids: &mut Ids,
    pictures: &mut Vec<Value>,
) -> Value {
    let mut content = blocks(visible(endpoint, &result.content, TOOL_IMAGE_OMITTED));
    if result.is_error || family == Family::Other {
        let (images, texts): (Vec<Value>, Vec<Value>) =
            content.into_iter().partition(|block| block["image"].is_object());
        content = texts;
        pictures.extend(images);
    }
    if content.is_empty() {
        content.push(json!({ "text": "(no tool output)" }));
    }
    let mut out = json!({ "toolUseId": ids.result(&result.tool_call_id), "content": content });
    if result.is_error && family != Family::Other {
        out["status"] = json!("error");
    }
    json!({ "toolResult": out })
}

/// A result as text, with its images.
fn as_text(endpoint: &Endpoint, result: &ToolResultMessage) -> Vec<Value> {
    let pieces = visible(endpoint, &result.content, TOOL_IMAGE_OMITTED);
    let what = if result.is_error { "failed" } else { "answered" };
    let text = format!("[{} {what}: {}]", result.tool_name, result_text(&pieces));
    let images = pieces.into_iter().filter(|piece| matches!(piece, Piece::Image { .. }));
    [json!({ "text": text })].into_iter().chain(blocks(images.collect())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::ApiKey;
    use crate::sigv4::AwsCredentials;

    const ARN: &str = "arn:aws:bedrock:eu-west-1:123:inference-profile/eu.anthropic.claude-x:0";

    fn keys(region: Option<&str>) -> Option<AwsCredentials> {
        Some(AwsCredentials {
            access_key_id: "AKID".to_owned(),
            secret_access_key: ApiKey::new("aws-secret").unwrap(),
            session_token: ApiKey::new("aws-token"),
            region: region.map(str::to_owned),
        })
    }

    #[test]
    fn the_region_comes_from_model_credentials_or_address() {
        let amazon = "https://bedrock-runtime.us-west-2.amazonaws.com";
        for (base_url, model, region, expected, host) in [
            (amazon, ARN, Some("us-east-1"), Some("eu-west-1"), "bedrock-runtime.eu-west-1.amazonaws.com"),
            (amazon, "m", Some("us-east-1"), Some("us-east-1"), "bedrock-runtime.us-west-2.amazonaws.com"),
            (amazon, "m", None, Some("us-west-2"), "bedrock-runtime.us-west-2.amazonaws.com"),
            ("http://127.0.0.1:1", "m", None, None, ""),
            ("http://127.0.0.1:1", ARN, None, Some("eu-west-1"), "127.0.0.1:1"),
        ] {
            let endpoint = Endpoint { aws: keys(region), ..Endpoint::new("aws", base_url, model) };
            match encode(&endpoint, &Request::default()) {
                Ok(http) => {
                    assert_eq!(http.signing.map(|it| it.region).as_deref(), expected, "{base_url} {model}");
                    assert!(http.url.contains(&format!("//{host}/model/")), "{}", http.url);
                    assert_eq!(http.secrets.len(), 2);
                }
                Err(error) => assert_eq!((Some(error), expected), (Some(EncodeError::NoRegion), None)),
            }
        }
    }

    #[test]
    fn a_key_replaces_the_signature() {
        let base_url = "https://bedrock-runtime.us-west-2.amazonaws.com/";
        let mut endpoint = Endpoint { aws: keys(None), ..Endpoint::new("aws", base_url, ARN) };
        let http = encode(&endpoint, &Request::default()).unwrap();
        assert!(http.key.is_none() && http.signing.is_some());
        assert!(!format!("{http:?} {endpoint:?}").contains("aws-secret"), "it does not print");
        assert_eq!(
            http.url,
            "https://bedrock-runtime.eu-west-1.amazonaws.com/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A123%3A\
             inference-profile%2Feu.anthropic.claude-x%3A0/converse-stream"
        );
        endpoint.api_key = ApiKey::new("bearer");
        let http = encode(&endpoint, &Request::default()).unwrap();
        assert!(http.key.is_some() && http.signing.is_none());
    }

    #[test]
    fn each_family_has_its_thinking_option() {
        let level = ThinkingLevel::High;
        for (model, effort, expected) in [
            (
                "us.anthropic.claude-x",
                Effort::Word("high".to_owned()),
                json!({"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"}}),
            ),
            (
                "us.anthropic.claude-x",
                Effort::Budget(2048),
                json!({"thinking": {"type": "enabled", "budget_tokens": 2048}}),
            ),
            (
                "us.amazon.nova-2-lite-v1:0",
                Effort::Word("high".to_owned()),
                json!({"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}}),
            ),
            ("openai.gpt-oss", Effort::Word("high".to_owned()), json!({"reasoning_effort": "high"})),
            ("openai.gpt-oss", Effort::Budget(2048), Value::Null),
        ] {
            let mut endpoint = Endpoint::new("aws", "http://127.0.0.1:1", model);
            endpoint.thinking.0.insert(level, effort);
            let request = Request { thinking: Some(level), temperature: Some(0.5), ..Request::default() };
            let body = encode(&endpoint, &request).unwrap().body;
            let said = body.get("additionalModelRequestFields").cloned().unwrap_or_default();
            assert_eq!(said, expected, "{model}");
            let claude = model.contains("claude");
            assert_eq!(body["inferenceConfig"].get("temperature").is_none(), claude, "{model}");
        }
    }

    #[test]
    fn empty_keys_are_removed() {
        let value = json!({"": 1, "a": [{"": 2, "b": {"": 3}}]});
        assert_eq!(without_empty_keys(&value), json!({"a": [{"b": {}}]}));
    }
}
