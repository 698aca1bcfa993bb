//! `pilcrow tools`: what a model is told of at first and what it has to find, and how much of its window
//! that takes.

use std::sync::Arc;

use agent::tool::pipeline::LayerTrace;
use agent::{Presence, Registry, ToolDefinition, Toolset};
use host::Outcome;
use host::config::Config;
use host::project::Access;
use host::session::{INSTRUCTIONS, SessionConfigSource, SourceOptions};
use serde_json::json;

use crate::{cli, open, output};

/// Lists the tools; with `budget` only what a model is told of before its first search, with sizes; with `trace` the layers that they
/// came through.
pub fn tools(
    project: &cli::Project,
    agent: Option<&str>,
    budget: bool,
    trace: bool,
    as_json: bool,
) -> anyhow::Result<Outcome> {
    let project = open::open(project, Access::default())?;
    // As a run from here would have it.
    let here = std::path::absolute(".")?;
    let options =
        SourceOptions { policy: &project.policy, context: &project.context, agent, cwd: Some(&here) };
    let source = SessionConfigSource::new(&project, options)?;
    let config = source.config();
    if trace {
        for (at, layer) in project.tool_layers(&config)?.into_iter().enumerate() {
            let LayerTrace { layer, tools, did } = layer;
            if as_json {
                output::json(&json!({ "layer": at + 1, "name": layer, "tools": tools, "did": did }));
            } else {
                let did = did.into_iter().map(|it| format!("\n   {it}")).collect::<String>();
                output::line(&format!("{}. {layer:<14} {:>3} tools{did}", at + 1, tools.len()));
            }
        }
        return Ok(Outcome::Done);
    }
    if budget {
        tell_budget(&source, as_json)?;
        return Ok(Outcome::Done);
    }
    for tool in source.registry()?.tools() {
        let definition = tool.definition();
        let at_start = !config.searches_tools() || tool.presence() == Presence::Start;
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

/// The tools of which a model is told before its first search, each as it is sent, with its name.
fn first_tools(registry: Registry, config: &Config) -> Vec<(String, String)> {
    let registry = Arc::new(registry);
    let tools = if config.searches_tools() { Toolset::searchable(registry) } else { Toolset::all(registry) };
    tools.definitions().into_iter().map(|definition| (definition.name.clone(), sent(&definition))).collect()
}

/// A tool as a model is told of it.
fn sent(definition: &ToolDefinition) -> String {
    let ToolDefinition { name, description, parameters, .. } = definition;
    json!({ "name": name, "description": description, "parameters": parameters }).to_string()
}

/// Tools that come with the first ones where the first prompt has a word of theirs, each as it is sent, with its name.
fn called_tools(registry: &Registry, config: &Config) -> Vec<(String, String)> {
    let called = registry.tools().filter(|tool| {
        config.searches_tools() && matches!(tool.presence(), Presence::Search { when } if !when.is_empty())
    });
    called.map(|tool| (tool.definition().name.clone(), sent(tool.definition()))).collect()
}

/// One row of the table: a name, bytes, and tokens as a vocabulary of today has them.
struct Row {
    name: String,
    bytes: usize,
    tokens: usize,
}

fn tell_budget(source: &SessionConfigSource, as_json: bool) -> anyhow::Result<()> {
    let context = source.context();
    let vocabulary = tiktoken_rs::o200k_base()?;
    let row = |(name, text): (String, String)| {
        let tokens = vocabulary.encode_ordinary(&text).len();
        Row { name, bytes: text.len(), tokens }
    };
    let (registry, config) = (source.registry()?, source.config());
    let called = called_tools(&registry, &config);
    let tools = first_tools(registry, &config);
    let mut rows: Vec<Row> = context.parts(INSTRUCTIONS).into_iter().chain(tools).map(row).collect();
    rows.push(Row {
        name: "total".to_owned(),
        bytes: rows.iter().map(|row| row.bytes).sum(),
        tokens: rows.iter().map(|row| row.tokens).sum(),
    });
    // A crash, say, brings the debugger.
    let called =
        called.into_iter().map(|(name, text)| (format!("+ {name}, if the prompt calls for it"), text));
    rows.extend(called.map(row));
    for Row { name, bytes, tokens } in rows {
        // English and JSON come to about four bytes a token, whatever the vocabulary.
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
