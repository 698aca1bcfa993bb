//! Requests checked against the providers' published types.
//!
//! The types are those of their SDK packages, and Amazon's service model. The test is slow;
//! `cargo xtask setup` installs the packages.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use llm::{
    CacheRetention, Effort, Endpoint, Message, Request, Thinking, ThinkingLevel, ToolChoice, ToolDefinition,
};
use serde_json::json;

use crate::conversation::{endpoint, forced, hazards, protocols, rename, request, words};

/// One conversation with every kind of content, with all request options.
fn ways(name: &str) -> Vec<(Endpoint, Request)> {
    let base = || (endpoint(), request(name));
    let mut ways = vec![base()];
    for choice in [ToolChoice::Any, ToolChoice::None, ToolChoice::Tool("read".to_owned())] {
        ways.push((forced(name), Request { tool_choice: choice, ..request(name) }));
    }
    for cache in [CacheRetention::None, CacheRetention::Long] {
        // Anthropic's newest types have no temperature; older models accept it.
        let temperature = (name != "anthropic-messages").then_some(0.5);
        let mut way = (endpoint(), Request { cache, temperature, ..request(name) });
        way.0.compat.prompt_cache_key = true;
        ways.push(way);
    }
    let budgets = BTreeMap::from([
        (ThinkingLevel::Off, Effort::Budget(0)),
        (ThinkingLevel::High, Effort::Budget(4096)),
    ]);
    for thinking in [words(&[(ThinkingLevel::Low, "low"), (ThinkingLevel::High, "high")]), Thinking(budgets)]
    {
        for level in [ThinkingLevel::Off, ThinkingLevel::Max] {
            let endpoint = Endpoint { thinking: thinking.clone(), ..endpoint() };
            ways.push((endpoint, Request { thinking: Some(level), ..request(name) }));
        }
    }
    let (mut asked, tools) = base();
    asked.compat.strict_tools = true;
    asked.compat.eager_input_streaming = true;
    asked.compat.max_tokens_field = llm::MaxTokensField::MaxCompletionTokens;
    let odd = ToolDefinition {
        name: "srv.odd name".to_owned(),
        label: "Odd".to_owned(),
        description: String::new(),
        parameters: json!({"$schema": "x", "properties": {"a": true, "b": {"const": 1}, "c": {"type": "array"}}, "oneOf": [{"required": ["a"]}]}),
    };
    let shapes = ToolDefinition {
        name: "shapes".to_owned(),
        label: "Shapes".to_owned(),
        description: "All that a schema may be held to.".repeat(99),
        parameters: json!({
            "type": "object",
            "properties": {
                "kind": {"type": "string", "enum": ["a", "b"], "default": "a"},
                "count": {"type": ["integer", "null"], "minimum": 1, "maximum": 9, "multipleOf": 2},
                "name": {"type": "string", "minLength": 1, "pattern": "^a", "format": "uuid"},
                "at": {"$ref": "#/$defs/place"},
                "places": {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/place", "description": "Where."}},
                "either": {"oneOf": [{"type": "string"}, {"type": "object", "properties": {}, "additionalProperties": false}]},
            },
            "required": ["kind", "at"],
            "$defs": {"place": {"type": "object", "properties": {"line": {"type": "integer"}, "file": {"const": "x"}}}},
        }),
    };
    asked.compat.longest_description = Some(1024);
    let tools = Request { tools: [tools.tools.clone(), vec![odd, shapes]].concat(), ..tools };
    ways.push((asked.clone(), tools.clone()));
    ways.push((Endpoint { late_tools: true, ..asked }, found_late(tools)));
    ways.push((Endpoint { images: false, ..endpoint() }, Request { tools: Vec::new(), ..request(name) }));
    for (_, messages) in hazards(name) {
        ways.push((endpoint(), Request { messages: messages.into(), ..request(name) }));
    }
    ways
}

/// The request with two tools found during the conversation.
///
/// One is found next to other results, one next to an image.
fn found_late(mut request: Request) -> Request {
    let late = |name: &str| ToolDefinition {
        name: name.to_owned(),
        label: name.to_owned(),
        description: "Late.".to_owned(),
        parameters: json!({"type": "object", "properties": {"a": {"type": "string"}}}),
    };
    request.tools.extend(["debug", "srv.late"].map(late));
    let mut found = [vec!["debug", "gone"], vec!["srv.late", "debug", "srv.odd name"]].into_iter();
    for message in std::sync::Arc::make_mut(&mut request.messages) {
        if let Message::ToolResult(result) = message
            && !result.is_error
            && result.tool_call_id != "lost"
        {
            let names = found.next().unwrap_or_default();
            result.added_tools = names.into_iter().map(str::to_owned).collect();
        }
    }
    request
}

#[test]
#[ignore = "slow: needs the published schemas; cargo xtask test runs it"]
fn requests_match_the_published_types() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("published");
    if directory.exists() {
        std::fs::remove_dir_all(&directory).unwrap();
    }
    std::fs::create_dir_all(&directory).unwrap();
    for protocol in protocols() {
        let name = protocol.name();
        for (at, (mut endpoint, mut request)) in ways(name).into_iter().enumerate() {
            if name == "bedrock-converse-stream" && at % 2 == 0 {
                rename(&mut endpoint, &mut request, "anthropic.claude-m:0");
            }
            let body = protocol.encode(&endpoint, &request).unwrap().body;
            std::fs::write(directory.join(format!("{name}.{at}.json")), format!("{body:#}")).unwrap();
        }
    }
    let tools =
        PathBuf::from(std::env::var_os("PILCROW_TOOLS").expect("`cargo xtask env` sets PILCROW_TOOLS"));
    let checked = Command::new(tools.join("lib/provider-schemas/bin/python"))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/published/validate.py"))
        .arg(&directory)
        .output()
        .expect("`cargo xtask setup` installed the packages");
    let (reported, problems) =
        (String::from_utf8_lossy(&checked.stdout), String::from_utf8_lossy(&checked.stderr));
    assert!(checked.status.success() && reported.is_empty(), "{reported}{problems}");
}
