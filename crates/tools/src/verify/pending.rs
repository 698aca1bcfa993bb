//! Pending verification of an edit, reported with the next result of any tool.

use std::sync::Arc;
use std::time::Duration;

use agent::tool::Origin;
use agent::{ExecutionMode, Presence, Tool, ToolCx, ToolResult};
use futures_util::future::BoxFuture;
use llm::{Content, ToolDefinition};
use parking_lot::Mutex;
use policy::Effects;
use serde_json::Value;

use super::{Baseline, FileBaseline};
use crate::ToolContext;

/// Delay of another tool's result for pending diagnostics.
const WAIT: Duration = Duration::from_millis(300);
/// Files with pending diagnostics; the oldest are dropped first.
const MOST: usize = 64;

/// Files for which some server has not answered after an edit.
#[derive(Debug, Default)]
pub struct Pending(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    newest: u64,
    files: Vec<(u64, FileBaseline)>,
}

impl Pending {
    fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.0.lock()
    }

    pub(super) fn put(&self, file: FileBaseline) {
        let mut state = self.state();
        state.newest += 1;
        let number = state.newest;
        state.files.push((number, file));
        let over = state.files.len().saturating_sub(MOST);
        state.files.drain(..over);
    }

    /// Takes the files that were pending up to a number; all without one.
    pub(super) fn take(&self, until: Option<u64>) -> Vec<FileBaseline> {
        let mut state = self.state();
        let (taken, left) = std::mem::take(&mut state.files)
            .into_iter()
            .partition(|(number, _)| until.is_none_or(|until| *number <= until));
        state.files = left;
        taken.into_iter().map(|(_, file)| file).collect()
    }

    /// The number of the newest file, if there is any.
    fn newest(&self) -> Option<u64> {
        self.state().files.last().map(|(number, _)| *number)
    }
}

/// A tool whose results include the pending verification of an earlier edit.
pub(crate) struct ReportsPending {
    pub tool: Arc<dyn Tool>,
    pub context: Arc<ToolContext>,
}

impl Tool for ReportsPending {
    fn definition(&self) -> &ToolDefinition {
        self.tool.definition()
    }

    fn effects(&self, args: &Value) -> Effects {
        self.tool.effects(args)
    }

    fn unnamed_arguments(&self) -> &[&str] {
        self.tool.unnamed_arguments()
    }

    fn presence(&self) -> Presence {
        self.tool.presence()
    }

    fn origin(&self) -> Origin {
        self.tool.origin()
    }

    fn execution_mode(&self) -> ExecutionMode {
        self.tool.execution_mode()
    }

    fn execute<'a>(&'a self, args: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let newest = self.context.pending.newest();
            let mut result = self.tool.execute(args, cx).await;
            // An edit includes them in its own verification.
            let files = newest.map(|newest| self.context.pending.take(Some(newest))).unwrap_or_default();
            if files.is_empty() {
                return result;
            }
            let baseline = Baseline { files, ..Baseline::default() };
            let verdict = baseline.arrived(&self.context, WAIT, cx).await;
            if !verdict.text.is_empty() {
                result.content.push(Content::text(format!("from an earlier edit:\n{}", verdict.text)));
                if let Value::Object(details) = &mut result.details {
                    details.insert("earlier".to_owned(), verdict.details);
                }
            }
            result
        })
    }
}
