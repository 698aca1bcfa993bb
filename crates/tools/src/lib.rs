//! Built-in tools for a model or a user, and the planner, a model without a key.
//!
//! A tool resolves its arguments to places, asks language servers, debuggers or the workspace, and returns
//! text for the model and data for surfaces. It changes files only through [`mod@change`]: plan, permit,
//! commit, verify. The crate knows no surface and no provider.

mod bash;
mod context;
mod debug;
mod described;
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
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use bash::Shell;
pub use context::{
    Failure, Grammars, SavedSnapshots, ServerStart, Show, ToolContext, ToolSettings, Trees, action_name,
    cancellation,
};
pub use files::{images_in_prompt, pasted_image, revert};
pub use search::{SymbolMatch, symbols_like};
pub use verify::{Pending, Verify, VerifyPolicy};

pub(crate) use context::{CommitRefusal, display, notes, unsaved};
pub(crate) use files::change;

/// Returns the tool that finds the other tools.
///
/// Sessions whose requests list only a few tools need it.
pub fn search_tools() -> Arc<dyn Tool> {
    Arc::new(interaction::SearchTools::new())
}

/// Returns the tools that need a surface: `ask` and `show`.
pub fn surface(context: &Arc<ToolContext>) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = vec![Arc::new(interaction::Ask::new())];
    if let Some(show) = &context.show {
        tools.push(Arc::new(interaction::ShowTool::new(Arc::clone(context), Arc::clone(show))));
    }
    with_pending_reports(context, tools)
}

/// Returns all built-in tools except those of a surface, in request order.
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
    with_pending_reports(context, tools)
}

/// Wraps tools so that each also reports late diagnostics of earlier edits.
fn with_pending_reports(context: &Arc<ToolContext>, tools: Vec<Arc<dyn Tool>>) -> Vec<Arc<dyn Tool>> {
    context.pending.set_context(context);
    let wrap =
        |tool| -> Arc<dyn Tool> { Arc::new(verify::ReportsPending { tool, context: context.clone() }) };
    tools.into_iter().map(wrap).collect()
}

/// Parses a tool's arguments.
fn arguments<T: DeserializeOwned>(args: Value) -> Result<T, Failure> {
    serde_json::from_value(args).map_err(|error| Failure::invalid(format!("arguments: {error}")))
}

/// Renders a count with its noun: `1 file`, `2 files`.
fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
