//! The tools that a model, or a person without one, works with; and the planner, a model that
//! needs no key.
//!
//! A tool resolves what it was told to places, asks those who know, and answers in text for the
//! model and data for surfaces. It changes files only through [`mod@change`]: planned, permitted,
//! committed, verified. No surface and no provider is known here.

mod ask;
mod bash;
mod change;
mod checkpoint;
mod debug;
mod edit;
mod failure;
mod kept;
mod kit;
mod lsp;
mod outline;
mod plan;
pub mod planner;
mod read;
#[cfg(test)]
mod schemas;
mod search;
mod search_tools;
mod show;
mod shown;
mod trees;
mod undo;
mod unsaved;
mod verify;
mod words;
mod write;

use std::sync::Arc;

use agent::Tool;
use serde::de::DeserializeOwned;
use serde_json::Value;
use workspace::ErrorCode;

pub use bash::Shell;
pub use failure::Failure;
pub use kept::KeptSnapshots;
pub use kit::{Kit, Settings, Start};
pub use show::Show;
pub use trees::{Grammars, Trees};
pub use undo::take_back;
pub use verify::{Pending, Verify, VerifyPolicy};

/// The tool that finds the others, for sessions in which a model is told of few.
pub fn search_tools() -> Arc<dyn Tool> {
    Arc::new(search_tools::SearchTools::new())
}

/// What only a surface can do: ask the person, and show them a place where they have an editor.
pub fn surface(kit: &Arc<Kit>) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = vec![Arc::new(ask::Ask::new())];
    if let Some(show) = &kit.show {
        tools.push(Arc::new(show::ShowTool::new(Arc::clone(kit), Arc::clone(show))));
    }
    telling(kit, tools)
}

/// Every built-in tool but those of a surface, in the order in which a model sees them.
pub fn builtin(kit: &Arc<Kit>) -> Vec<Arc<dyn Tool>> {
    let tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(read::Read::new(kit.clone())),
        Arc::new(edit::Edit::new(kit.clone())),
        Arc::new(write::Write::new(kit.clone())),
        Arc::new(bash::Bash::new(kit.clone())),
        Arc::new(search::Grep::new(kit.clone())),
        Arc::new(search::Find::new(kit.clone())),
        Arc::new(search::Ls::new(kit.clone())),
        Arc::new(lsp::Lsp::new(kit.clone())),
        Arc::new(debug::Debug::new(kit.clone())),
        Arc::new(undo::UndoTool::new(kit.clone())),
        Arc::new(checkpoint::Checkpoint::new(kit.clone())),
        Arc::new(plan::Plan::new()),
    ];
    telling(kit, tools)
}

/// The same, each of which tells what language servers say late of edits.
fn telling(kit: &Arc<Kit>, tools: Vec<Arc<dyn Tool>>) -> Vec<Arc<dyn Tool>> {
    let telling = |tool| -> Arc<dyn Tool> { Arc::new(verify::Telling { tool, kit: kit.clone() }) };
    tools.into_iter().map(telling).collect()
}

/// A tool's arguments as its own type.
fn arguments<T: DeserializeOwned>(args: Value) -> Result<T, Failure> {
    serde_json::from_value(args)
        .map_err(|error| Failure::new(ErrorCode::InvalidArguments, format!("arguments: {error}")))
}

/// `1 file`, `2 files`.
fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
