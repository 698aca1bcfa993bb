//! The tools that a model, or a person without one, works with; and the planner, a model that
//! needs no key.
//!
//! A tool resolves what it was told to places, asks those who know, and answers in text for the
//! model and data for surfaces. It changes files only through [`mod@change`]: planned, permitted,
//! committed, verified. No surface and no provider is known here.

mod bash;
mod context;
mod debug;
mod files;
mod interaction;
mod lsp;
pub mod planner;
#[cfg(test)]
mod schemas_tests;
mod search;
mod verify;

use std::sync::Arc;

use agent::Tool;
use policy::ErrorCode;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use bash::Shell;
pub use context::{Failure, Grammars, SavedSnapshots, ServerStart, ToolContext, ToolSettings, Trees};
pub use files::take_back;
pub use interaction::Show;
pub use verify::{Pending, Verify, VerifyPolicy};

pub(crate) use context::{display, unsaved};
pub(crate) use files::change;
pub(crate) use search::text_search;

/// The tool that finds the others, for sessions in which a model is told of few.
pub fn search_tools() -> Arc<dyn Tool> {
    Arc::new(interaction::SearchTools::new())
}

/// What only a surface can do: ask the person, and show them a place where they have an editor.
pub fn surface(context: &Arc<ToolContext>) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = vec![Arc::new(interaction::Ask::new())];
    if let Some(show) = &context.show {
        tools.push(Arc::new(interaction::ShowTool::new(Arc::clone(context), Arc::clone(show))));
    }
    telling(context, tools)
}

/// Every built-in tool but those of a surface, in the order in which a model sees them.
pub fn builtin(context: &Arc<ToolContext>) -> Vec<Arc<dyn Tool>> {
    let tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(files::Read::new(context.clone())),
        Arc::new(files::Edit::new(context.clone())),
        Arc::new(files::Write::new(context.clone())),
        Arc::new(bash::Bash::new(context.clone())),
        Arc::new(search::Grep::new(context.clone())),
        Arc::new(search::Find::new(context.clone())),
        Arc::new(search::Ls::new(context.clone())),
        Arc::new(lsp::Lsp::new(context.clone())),
        Arc::new(debug::Debug::new(context.clone())),
        Arc::new(files::UndoTool::new(context.clone())),
        Arc::new(files::Checkpoint::new(context.clone())),
        Arc::new(interaction::Plan::new()),
    ];
    telling(context, tools)
}

/// The same, each of which tells what language servers say late of edits.
fn telling(context: &Arc<ToolContext>, tools: Vec<Arc<dyn Tool>>) -> Vec<Arc<dyn Tool>> {
    let telling =
        |tool| -> Arc<dyn Tool> { Arc::new(verify::ReportsPending { tool, context: context.clone() }) };
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
