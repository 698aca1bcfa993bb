//! `pilcrow tools`: what a model is told of at first and what it has to find, and how much of its window
//! that takes.

use agent::{LayerTrace, Presence, Toolset};
use serde_json::json;
use std::sync::Arc;

use super::Exit;
use crate::project::{Access, Project};
use crate::{cli, output};

/// The instructions of every session.
pub const INSTRUCTIONS: &str = include_str!("../instructions.md");

/// Lists the tools; with `budget` only what a model is told of before its first search, with sizes; with `trace` the layers that they
/// came through.
pub fn tools(project: &cli::Project, budget: bool, trace: bool, as_json: bool) -> anyhow::Result<Exit> {
    let project = Project::open(project, Access { yes: false, keep: false, trusted: false })?;
    if trace {
        for (at, layer) in project.tool_layers()?.into_iter().enumerate() {
            let LayerTrace { layer, tools, did } = layer;
            if as_json {
                output::json(&json!({ "layer": at + 1, "name": layer, "tools": tools, "did": did }));
            } else {
                let did = did.into_iter().map(|it| format!("\n   {it}")).collect::<String>();
                output::line(&format!("{}. {layer:<14} {:>3} tools{did}", at + 1, tools.len()));
            }
        }
        return Ok(Exit::Done);
    }
    if budget {
        tell_budget(&project, as_json);
        return Ok(Exit::Done);
    }
    for tool in project.registry.tools() {
        let definition = tool.definition();
        let at_start = !project.config.searches_tools() || tool.presence() == Presence::Start;
        if as_json {
            output::json(
                &json!({ "name": definition.name, "label": definition.label, "at_start": at_start }),
            );
            continue;
        }
        let when = if at_start { "from the start" } else { "found by search" };
        output::line(&format!("{:<14} {when:<16} {}", definition.name, definition.label));
    }
    Ok(Exit::Done)
}

/// What a model is sent before its first search, each part as it is sent, with its name.
pub fn opening(project: &Project) -> Vec<(String, String)> {
    let registry = Arc::new(project.registry.clone());
    let tools =
        if project.config.searches_tools() { Toolset::searched(registry) } else { Toolset::whole(registry) };
    let definitions = tools.definitions().into_iter().map(|definition| {
        let sent = json!({
            "name": definition.name, "description": definition.description, "parameters": definition.parameters,
        });
        (definition.name, sent.to_string())
    });
    std::iter::once(("instructions".to_owned(), INSTRUCTIONS.trim().to_owned())).chain(definitions).collect()
}

fn tell_budget(project: &Project, as_json: bool) {
    let mut rows: Vec<(String, usize)> =
        opening(project).into_iter().map(|(name, text)| (name, text.len())).collect();
    rows.push(("total".to_owned(), rows.iter().map(|(_, bytes)| bytes).sum()));
    for (name, bytes) in rows {
        // English and JSON come to about four bytes a token with today's vocabularies.
        let tokens = bytes.div_ceil(4);
        if as_json {
            output::json(&json!({ "part": name, "bytes": bytes, "tokens": tokens }));
        } else {
            output::line(&format!("{name:<14} {bytes:>6} bytes  about {tokens:>5} tokens"));
        }
    }
}

#[cfg(test)]
#[path = "tools_tests.rs"]
mod tests;
