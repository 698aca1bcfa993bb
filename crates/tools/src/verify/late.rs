//! What was pending when an edit was told, told with the next result of any tool.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent::{ExecutionMode, Origin, Presence, Tool, ToolCx, ToolResult};
use futures_util::future::BoxFuture;
use llm::{Content, ToolDefinition};
use serde_json::Value;
use workspace::Effects;

use super::{Baseline, Before};
use crate::Kit;

/// How long another tool's result is kept waiting for what is pending.
const WAIT: Duration = Duration::from_millis(300);
/// Files of which something is pending; the oldest are given up first.
const MOST: usize = 64;

/// Files of which some server has not said yet what an edit did to them.
#[derive(Debug, Default)]
pub struct Pending(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    newest: u64,
    files: Vec<(u64, Before)>,
}

impl Pending {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, file: Before) {
        let mut state = self.state();
        state.newest += 1;
        let number = state.newest;
        state.files.push((number, file));
        let over = state.files.len().saturating_sub(MOST);
        state.files.drain(..over);
    }

    /// Takes those that were there when `newest` was asked for; all without one.
    pub(super) fn take(&self, until: Option<u64>) -> Vec<Before> {
        let mut state = self.state();
        let (taken, left) = std::mem::take(&mut state.files)
            .into_iter()
            .partition(|(number, _)| until.is_none_or(|until| *number <= until));
        state.files = left;
        taken.into_iter().map(|(_, file)| file).collect()
    }

    /// The number of the newest, if there is any.
    fn newest(&self) -> Option<u64> {
        self.state().files.last().map(|(number, _)| *number)
    }
}

/// A tool whose results carry what an earlier edit left pending.
pub(crate) struct Telling {
    pub tool: Arc<dyn Tool>,
    pub kit: Arc<Kit>,
}

impl Tool for Telling {
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
            let newest = self.kit.pending.newest();
            let mut result = self.tool.execute(args, cx).await;
            // An edit has taken them along with its own.
            let files = newest.map(|newest| self.kit.pending.take(Some(newest))).unwrap_or_default();
            if files.is_empty() {
                return result;
            }
            let baseline = Baseline { files, ..Baseline::default() };
            let told = baseline.arrived(&self.kit, WAIT, cx).await;
            if !told.text.is_empty() {
                result.content.push(Content::text(format!("of an earlier edit:\n{}", told.text)));
                if let Value::Object(details) = &mut result.details {
                    details.insert("earlier".to_owned(), told.details);
                }
            }
            result
        })
    }
}
