//! The tool `search_tools`: finds further tools and makes them callable.

use agent::discovery::FoundTool;
use agent::{ToolCx, ToolResult};
use policy::Effects;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::described::{BuiltIn, Described, count, text};
use crate::{Failure, arguments};

/// Default number of matches.
const DEFAULT_LIMIT: usize = 5;
/// Maximum number of matches.
const MAX_LIMIT: usize = 20;

pub(crate) struct SearchTools;

#[derive(Debug, Deserialize)]
struct Arguments {
    query: String,
    limit: Option<usize>,
}

impl SearchTools {
    pub fn new() -> Described<Self> {
        let properties =
            json!({ "query": text("what you want to do"), "limit": count("matches; default 5") });
        let about = include_str!("search_tools.md");
        Described::new("search_tools", "Find tools", about, properties, &["query"], Self).at_start()
    }
}

impl BuiltIn for SearchTools {
    fn effects(&self, _: &Value) -> Effects {
        Effects::default()
    }

    async fn run(&self, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
        let args: Arguments = arguments(args)?;
        if args.query.trim().is_empty() {
            return Err(Failure::invalid("`query` is empty; describe the task"));
        }
        let limit = args.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        let found: Vec<FoundTool> = cx.tools().find(&args.query, limit);
        let names: Vec<Value> = found
            .iter()
            .map(|found| json!({ "name": found.name, "score": found.score, "active": found.is_active }))
            .collect();
        let added = found.iter().filter(|found| found.is_new).map(|found| found.name.clone()).collect();
        let result =
            ToolResult::text(render_matches(&args.query, &found)).with_details(json!({ "tools": names }));
        Ok(result.with_added_tools(added))
    }
}

fn render_matches(query: &str, found: &[FoundTool]) -> String {
    if found.is_empty() {
        return format!("no tool matches {query:?}; describe the task in other words");
    }
    let mut text = String::new();
    for found in found {
        let about = found.definition.description.lines().next().unwrap_or_default();
        let later = if found.is_active { "" } else { " (search for it by name to call it)" };
        text.push_str(&format!("{}{later}: {about}\n", found.name));
    }
    text.push_str("callable from your next response on");
    text
}
