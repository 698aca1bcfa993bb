//! `pilcrow tools`: lists the tools a model sees and those it must search for.
//!
//! Also shows their sizes.

use std::sync::Arc;

use agent::tool::pipeline::LayerTrace;
use agent::{Presence, Registry, ToolDefinition, Toolset};
use host::Outcome;
use host::config::Config;
use host::project::Access;
use host::session::{INSTRUCTIONS, SessionConfigSource, SourceOptions};
use serde_json::json;

use crate::{cli, open, output};

/// Lists the tools.
///
/// `budget` limits the list to tools that the model sees before its first search, with sizes; `trace` shows
/// the layers of tools.
pub fn tools(
    target: &cli::CommandTarget,
    agent: Option<&str>,
    budget: bool,
    trace: bool,
) -> anyhow::Result<Outcome> {
    let as_json = target.json;
    let project = open::open(&target.project, Access::default())?;
    // The configuration of a run in the current directory.
    let current = std::path::absolute(".")?;
    let options =
        SourceOptions { policy: &project.policy, context: &project.context, agent, cwd: Some(&current) };
    let source = SessionConfigSource::new(&project, options)?;
    let config = source.config();
    if trace {
        for (at, layer) in project.tool_layers(&config)?.into_iter().enumerate() {
            let LayerTrace { layer, tools, did } = layer;
            if as_json {
                output::json(&json!({ "layer": at + 1, "name": layer, "tools": tools, "did": did }));
            } else {
                let did = did.into_iter().map(|change| format!("\n   {change}")).collect::<String>();
                output::line(&format!("{}. {layer:<14} {:>3} tools{did}", at + 1, tools.len()));
            }
        }
        return Ok(Outcome::Done);
    }
    if budget {
        print_budget(&source, as_json)?;
        return Ok(Outcome::Done);
    }
    for tool in source.registry()?.tools() {
        let definition = tool.definition();
        let at_start = !config.values.tools.discovery.0 || tool.presence() == Presence::Start;
        if as_json {
            output::json(
                &json!({ "name": definition.name, "label": definition.label, "at_start": at_start }),
            );
            continue;
        }
        let when = if at_start { "from the start" } else { "found by search" };
        output::line(&format!("{:<14} {when:<16} {}", definition.name, definition.label));
    }
    Ok(Outcome::Done)
}

/// Encodes the tools that a model sees before its first search, by name.
fn first_tools(registry: Registry, config: &Config) -> Vec<(String, String)> {
    let registry = Arc::new(registry);
    let tools =
        if config.values.tools.discovery.0 { Toolset::searchable(registry) } else { Toolset::all(registry) };
    tools.definitions().into_iter().map(|definition| (definition.name.clone(), encode(&definition))).collect()
}

/// Renders a tool as a provider receives it.
fn encode(definition: &ToolDefinition) -> String {
    let ToolDefinition { name, description, parameters, .. } = definition;
    json!({ "name": name, "description": description, "parameters": parameters }).to_string()
}

/// Encodes the tools that a keyword in the first prompt activates, by name.
fn keyword_tools(registry: &Registry, config: &Config) -> Vec<(String, String)> {
    let activated = registry.tools().filter(|tool| {
        config.values.tools.discovery.0
            && matches!(tool.presence(), Presence::Search { when } if !when.is_empty())
    });
    activated.map(|tool| (tool.definition().name.clone(), encode(tool.definition()))).collect()
}

/// One row of the table.
struct Row {
    name: String,
    bytes: usize,
    tokens: usize,
}

fn print_budget(source: &SessionConfigSource, as_json: bool) -> anyhow::Result<()> {
    let context = source.context();
    let vocabulary = tiktoken_rs::o200k_base()?;
    let row = |(name, text): (String, String)| {
        let tokens = vocabulary.encode_ordinary(&text).len();
        Row { name, bytes: text.len(), tokens }
    };
    let (registry, config) = (source.registry()?, source.config());
    let activated = keyword_tools(&registry, &config);
    let tools = first_tools(registry, &config);
    let mut rows: Vec<Row> = context
        .parts(INSTRUCTIONS)
        .into_iter()
        .chain([("environment".to_owned(), source.environment())])
        .chain(tools)
        .map(row)
        .collect();
    rows.push(Row {
        name: "total".to_owned(),
        bytes: rows.iter().map(|row| row.bytes).sum(),
        tokens: rows.iter().map(|row| row.tokens).sum(),
    });
    let activated =
        activated.into_iter().map(|(name, text)| (format!("+ {name}, if the prompt needs it"), text));
    rows.extend(activated.map(row));
    for Row { name, bytes, tokens } in rows {
        // English and JSON take about four bytes per token in any vocabulary.
        let estimate = bytes.div_ceil(4);
        if as_json {
            output::json(&json!({ "part": name, "bytes": bytes, "tokens": tokens, "estimate": estimate }));
        } else {
            output::line(&format!(
                "{name:<14} {bytes:>6} bytes  {tokens:>5} tokens (o200k), about {estimate:>5} by bytes"
            ));
        }
    }
    context.notes.iter().for_each(|note| output::note(&format!("pilcrow: {note}")));
    Ok(())
}

#[cfg(test)]
#[path = "tools_tests.rs"]
mod tests;
