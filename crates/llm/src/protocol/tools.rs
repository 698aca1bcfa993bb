//! Tools in the form that providers accept: names, descriptions and schemas.
//!
//! A schema is reduced for the model only; arguments are validated against the full one. An invalid
//! name is replaced by one that depends only on the name, so that the same transcript gives the
//! same request. [`restore_names`] restores names in calls.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::endpoint::Endpoint;
use crate::message::{AssistantMessage, Content, Message};
use crate::model::{Request, ToolDefinition};
use crate::protocol::strict::{Rules, Strict, looks_around};
use crate::protocol::{Decoder, Mapped};
use crate::stream::StreamEvent;

/// Maximum name length that every provider accepts.
const LONGEST: usize = 64;
/// Keywords without effect on arguments, which some providers reject.
const ABOUT: [&str; 6] = ["$schema", "$id", "$anchor", "$dynamicAnchor", "$vocabulary", "$comment"];
/// Keywords that no provider accepts at the root, which must be an object.
const NOT_AT_ROOT: [&str; 9] = ["anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else"];
/// Keywords that Claude accepts at the root.
const ROOT_OF_CLAUDE: [&str; 6] =
    ["type", "properties", "required", "additionalProperties", "$defs", "definitions"];

/// The subset of JSON Schema that a provider accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subset {
    /// No further restrictions.
    Common,
    /// Only object keywords at the root.
    Claude,
    /// No `const`.
    Google,
}

/// The name that is sent: the tool's own if every provider accepts it.
pub(super) fn sent_name(name: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if begins && name.len() <= LONGEST && name.bytes().all(plain) {
        return Cow::Borrowed(name);
    }
    let mark = format!("_{:08x}", xxhash_rust::xxh32::xxh32(name.as_bytes(), 0));
    let first = if begins { "" } else { "_" };
    let rest = name.chars().map(|it| if it.is_ascii() && plain(it as u8) { it } else { '_' });
    let kept: String = first.chars().chain(rest).take(LONGEST - mark.len()).collect();
    Cow::Owned(kept + &mark)
}

/// Maximum characters of the tool's description, if it is longer.
fn is_cut_to(endpoint: &Endpoint, tool: &ToolDefinition) -> Option<usize> {
    endpoint.compat.longest_description.filter(|most| tool.description.chars().nth(*most).is_some())
}

/// The instructions, followed by the full text of cut tool descriptions.
pub(super) fn instructions<'a>(endpoint: &Endpoint, request: &'a Request) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(request.system.as_str());
    for tool in request.tools.iter().filter(|tool| is_cut_to(endpoint, tool).is_some()) {
        let name = sent_name(&tool.name);
        text.to_mut().push_str(&format!("\n\nThe tool `{name}`, in full:\n\n{}", tool.description));
    }
    text
}

/// The description, cut at a word if too long ([`instructions`]).
pub(super) fn description<'a>(endpoint: &Endpoint, tool: &'a ToolDefinition) -> Cow<'a, str> {
    let text = tool.description.as_str();
    let Some(most) = is_cut_to(endpoint, tool) else { return Cow::Borrowed(text) };
    let kept = text.char_indices().nth(most.saturating_sub(2)).map_or("", |(at, _)| &text[..at]);
    let kept = kept.rsplit_once(char::is_whitespace).map_or(kept, |(words, _)| words.trim_end());
    Cow::Owned(format!("{kept} …"))
}

/// Renamed tools by the name that is sent.
pub(super) fn renamed(request: &Request) -> BTreeMap<String, String> {
    let tools = request.tools.iter();
    tools
        .filter_map(|tool| match sent_name(&tool.name) {
            Cow::Borrowed(_) => None,
            Cow::Owned(sent) => Some((sent, tool.name.clone())),
        })
        .collect()
}

/// The places at which a request introduces tools.
pub(super) struct Placed<'a> {
    pub first: Vec<&'a ToolDefinition>,
    /// Tools after the result at this index.
    later: HashMap<usize, Vec<&'a ToolDefinition>>,
}

impl<'a> Placed<'a> {
    /// Places a tool at the result that made it known, if the endpoint supports that.
    ///
    /// All other tools come first. A request always begins with at least one tool, since providers
    /// require it.
    pub fn new(endpoint: &Endpoint, request: &'a Request, transcript: &[Message]) -> Self {
        let mut later: HashMap<usize, Vec<&ToolDefinition>> = HashMap::new();
        let mut placed = HashSet::new();
        let results = transcript.iter().enumerate().filter_map(|(at, message)| match message {
            Message::ToolResult(result) if endpoint.late_tools && !result.is_error => Some((at, result)),
            _ => None,
        });
        for (at, result) in results {
            for name in &result.added_tools {
                // A tool that is no longer offered must not be named.
                if let Some(tool) = request.tools.iter().find(|it| it.name == *name)
                    && placed.insert(&tool.name)
                {
                    later.entry(at).or_default().push(tool);
                }
            }
        }
        if placed.len() == request.tools.len() {
            placed.clear();
            later.clear();
        }
        Self { first: request.tools.iter().filter(|it| !placed.contains(&it.name)).collect(), later }
    }

    /// The tools introduced by the result at this index.
    pub fn after(&self, at: usize) -> &[&'a ToolDefinition] {
        self.later.get(&at).map(Vec::as_slice).unwrap_or_default()
    }

    /// All tools introduced later, in request order.
    pub fn late(&self, request: &'a Request) -> impl Iterator<Item = &'a ToolDefinition> {
        let late: HashSet<&str> = self.later.values().flatten().map(|it| it.name.as_str()).collect();
        request.tools.iter().filter(move |it| late.contains(it.name.as_str()))
    }
}

/// The schema of the arguments as the provider accepts it: an object.
pub(super) fn schema(parameters: &Value, subset: Subset) -> Value {
    let mut root = match cleaned(parameters, subset) {
        Value::Object(root) => root,
        _ => Map::new(),
    };
    root.retain(|word, _| !NOT_AT_ROOT.contains(&word.as_str()));
    if subset == Subset::Claude {
        root.retain(|word, _| ROOT_OF_CLAUDE.contains(&word.as_str()));
    }
    let mut out = Map::new();
    out.insert("type".to_owned(), json!("object"));
    root.remove("type");
    if !root.get("properties").is_some_and(Value::is_object) {
        root.insert("properties".to_owned(), json!({}));
    }
    out.extend(root);
    Value::Object(out)
}

fn cleaned(schema: &Value, subset: Subset) -> Value {
    let object = match schema {
        Value::Object(object) => object,
        // `true` accepts anything, `false` nothing.
        Value::Bool(true) => return json!({}),
        Value::Bool(false) => return json!({ "not": {} }),
        other => return other.clone(),
    };
    let mut out = Map::new();
    for (word, value) in object {
        let value = match word.as_str() {
            word if ABOUT.contains(&word) => continue,
            "pattern" if looks_around(value) => continue,
            "const" if subset == Subset::Google => {
                out.insert("enum".to_owned(), json!([value]));
                continue;
            }
            // The keys of these objects are names, not keywords.
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                let members = value.as_object().into_iter().flatten();
                Value::Object(members.map(|(name, it)| (name.clone(), cleaned(it, subset))).collect())
            }
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                value.as_array().into_iter().flatten().map(|it| cleaned(it, subset)).collect()
            }
            "additionalProperties" | "unevaluatedProperties" | "additionalItems" if value.is_boolean() => {
                value.clone()
            }
            "items"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contains"
            | "propertyNames"
            | "additionalProperties"
            | "unevaluatedProperties"
            | "additionalItems" => cleaned(value, subset),
            _ => value.clone(),
        };
        out.insert(word.clone(), value);
    }
    // Providers reject an array without `items`.
    let is_array = match out.get("type") {
        Some(Value::Array(types)) => types.iter().any(|it| it == "array"),
        it => it.is_some_and(|it| it == "array"),
    };
    if is_array && !out.contains_key("items") && !out.contains_key("prefixItems") {
        out.insert("items".to_owned(), json!({}));
    }
    Value::Object(out)
}

/// A tool in the form of chat completions.
pub(super) fn function(endpoint: &Endpoint, tool: &ToolDefinition) -> Value {
    let parameters = schema(&tool.parameters, Subset::Common);
    let strict = Strict::new(endpoint, Rules::OpenAi).next(&parameters);
    let mut function = json!({ "name": sent_name(&tool.name), "description": description(endpoint, tool) });
    if strict.is_some() {
        function["strict"] = json!(true);
    }
    function["parameters"] = strict.unwrap_or(parameters);
    json!({ "type": "function", "function": function })
}

/// Wraps `inner` so that renamed tools have their own names again.
pub(crate) fn restore_names(inner: Box<dyn Decoder>, names: &BTreeMap<String, String>) -> Box<dyn Decoder> {
    if names.is_empty() {
        return inner;
    }
    let names = names.clone();
    let own = move |name: &mut String| {
        if let Some(own) = names.get(name) {
            own.clone_into(name);
        }
    };
    Mapped::wrap(inner, move |event| match event {
        StreamEvent::ToolCallStart { name, .. } => own(name),
        StreamEvent::ToolCallEnd { call, .. } => own(&mut call.name),
        StreamEvent::Done { message } | StreamEvent::Error { message } => {
            let message: &mut AssistantMessage = Arc::make_mut(message);
            for content in &mut message.content {
                if let Content::ToolCall(call) = content {
                    own(&mut call.name);
                }
            }
        }
        _ => {}
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Endpoint;
    use crate::protocol::Protocols;

    #[test]
    fn invalid_tool_names_get_unique_replacements() {
        for name in ["read", "_x", "mcp__files-read", &"a".repeat(64)] {
            assert_eq!(sent_name(name), name);
        }
        let long = "a".repeat(65);
        let odd =
            ["", "1st", "-x", "srv.read file", "srv/read file", "naïve", "日本語", &long, &"a".repeat(66)];
        let sent: std::collections::HashSet<String> =
            odd.iter().map(|it| sent_name(it).into_owned()).collect();
        assert_eq!(sent.len(), odd.len(), "{sent:?}");
        for name in &sent {
            assert_eq!(sent_name(name), name.as_str(), "the name is taken");
        }
        assert!(sent_name("srv.read file").starts_with("srv_read_file_"));
    }

    #[test]
    fn a_pattern_with_lookaround_is_not_sent() {
        let given = json!({"type": "object", "properties": {
            "pattern": {"type": "string", "pattern": "^(?!a)"},
            "b": {"type": "string", "pattern": "^b"},
        }});
        let expected = json!({"type": "object", "properties": {
            "pattern": {"type": "string"},
            "b": {"type": "string", "pattern": "^b"},
        }});
        assert_eq!(schema(&given, Subset::Common), expected);
    }

    #[test]
    fn a_long_description_is_cut_and_repeated() {
        let mut endpoint = Endpoint::new("p", "http://x", "m");
        let said = |endpoint: &Endpoint, text: &str| {
            let tool = ToolDefinition {
                name: "t".to_owned(),
                label: String::new(),
                description: text.to_owned(),
                parameters: json!({}),
            };
            description(endpoint, &tool).into_owned()
        };
        let long = "Reads a file. ".repeat(200);
        assert_eq!(said(&endpoint, &long), long);
        endpoint.compat.longest_description = Some(16);
        for (text, expected) in [
            ("Reads a fine né.", "Reads a fine né."),
            ("Reads a fine née.", "Reads a fine …"),
            ("Reads a fine  née, too.", "Reads a fine …"),
            ("日本語日本語日本語日本語日本語日本語", "日本語日本語日本語日本語日本 …"),
        ] {
            assert_eq!(said(&endpoint, text), expected);
            assert!(expected.chars().count() <= 16);
        }
    }

    #[test]
    fn calls_get_their_tools_names_back() {
        let names = BTreeMap::from([("srv_read".to_owned(), "srv.read".to_owned())]);
        let stream = concat!(
            r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"srv_read","arguments":"{}"}}]}}]}"#,
            "\n\n",
            r#"data: {"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"other","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#,
            "\n\ndata: [DONE]\n\n"
        );
        let protocol = Protocols::default().get("openai-completions").unwrap();
        let endpoint = Endpoint::new("p", "http://x", "m");
        let mut decoder =
            restore_names(protocol.decoder(&endpoint, AssistantMessage::empty("a", "p", "m")), &names);
        let events = decoder.feed(stream.as_bytes());
        let mut seen = Vec::new();
        for event in &events {
            match event {
                StreamEvent::ToolCallStart { name, .. } => seen.push(name.as_str()),
                StreamEvent::ToolCallEnd { call, .. } => seen.push(&call.name),
                StreamEvent::Done { message } => seen.extend(message.tool_calls().map(|it| it.name.as_str())),
                _ => {}
            }
        }
        assert_eq!(seen, ["srv.read", "other", "srv.read", "other", "srv.read", "other"]);
        assert!(decoder.ended());
    }

    #[test]
    fn unsupported_keywords_are_dropped() {
        use Subset::{Claude, Common, Google};
        for (subsets, given, expected) in [
            // The argument is an object, whatever a server calls a schema.
            (&[Common, Claude, Google][..], json!(null), json!({"type": "object", "properties": {}})),
            (
                &[Common, Claude, Google],
                json!({"type": ["object", "null"]}),
                json!({"type": "object", "properties": {}}),
            ),
            (
                &[Common, Claude, Google],
                json!({"properties": {"a": true}, "oneOf": [{"required": ["a"]}], "$schema": "x", "$id": "y"}),
                json!({"type": "object", "properties": {"a": {}}}),
            ),
            // Property names are not keywords.
            (
                &[Common, Claude, Google],
                json!({"properties": {"$id": {"type": "string", "$comment": "c"}, "const": {"enum": ["$id"]}}}),
                json!({"type": "object", "properties": {"$id": {"type": "string"}, "const": {"enum": ["$id"]}}}),
            ),
            (
                &[Common, Claude, Google],
                json!({"properties": {"a": {"anyOf": [{"type": "array"}, false]}}, "$defs": {"d": {"type": ["array", "null"]}}}),
                json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "array", "items": {}}, {"not": {}}]}},
                    "$defs": {"d": {"type": ["array", "null"], "items": {}}}}),
            ),
            (
                &[Google],
                json!({"properties": {"a": {"const": 1}}}),
                json!({"type": "object", "properties": {"a": {"enum": [1]}}}),
            ),
            (
                &[Common, Claude],
                json!({"properties": {"a": {"const": 1}}}),
                json!({"type": "object", "properties": {"a": {"const": 1}}}),
            ),
            (
                &[Claude],
                json!({"properties": {}, "title": "t", "additionalProperties": false, "required": []}),
                json!({"type": "object", "properties": {}, "additionalProperties": false, "required": []}),
            ),
            (
                &[Common, Google],
                json!({"properties": {}, "title": "t", "additionalProperties": {"$comment": "c"}}),
                json!({"type": "object", "properties": {}, "title": "t", "additionalProperties": {}}),
            ),
        ] {
            for subset in subsets {
                assert_eq!(schema(&given, *subset), expected, "{subset:?} {given}");
                assert_eq!(schema(&expected, *subset), expected, "supported keywords stay");
            }
        }
    }
}
