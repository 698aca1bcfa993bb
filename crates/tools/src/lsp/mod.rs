//! The tool `lsp`: the project's language servers, addressed by symbol names.
//!
//! The tool commits their edits like any other.

mod action;
mod batch;
mod code_actions;
mod diagnostics;
mod diagnostics_report;
mod document_queries;
mod edits;
mod fix;
mod navigate;
mod report;
mod servers;
mod truncate;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use agent::events::{Update, UpdateKind};
use agent::{Presence, Tool, ToolCx, ToolResult};
use futures_util::future::BoxFuture;
use llm::ToolDefinition;
use paths::AbsPath;
use policy::Effects;
use serde_json::Value;

use self::action::Call;
pub(crate) use self::diagnostics::is_same;
use crate::{Failure, ToolContext, action_name};

/// Time after which a waiting call reports the servers that it waits for.
const PATIENCE: Duration = Duration::from_secs(2);

pub struct Lsp {
    context: Arc<ToolContext>,
    definition: ToolDefinition,
}

impl Lsp {
    pub fn new(context: Arc<ToolContext>) -> Self {
        let definition = ToolDefinition {
            name: "lsp".to_owned(),
            label: "Language server".to_owned(),
            description: include_str!("lsp.md").trim().to_owned(),
            parameters: action::schema(),
        };
        Self { context, definition }
    }
}

impl Tool for Lsp {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn unnamed_arguments(&self) -> &[&str] {
        &["as_of"]
    }

    fn presence(&self) -> Presence {
        Presence::Start
    }

    fn effects(&self, args: &Value) -> Effects {
        Effects { reads: true, writes: action::writes(args), ..Effects::default() }
    }

    fn execute<'a>(&'a self, args: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolResult> {
        let action = action_name("lsp", &args);
        Box::pin(async move {
            let run = self.run(args, cx);
            let waiting = report_waiting(&self.context, cx);
            tokio::select! {
                biased;
                result = run => truncate::truncated(
                    result.unwrap_or_else(|failure| failure.into_result(&action)),
                ),
                // The report owns no resources and never ends.
                never = waiting => match never {},
            }
        })
    }
}

/// Reports from time to time which servers a call waits for.
async fn report_waiting(context: &ToolContext, cx: &ToolCx) -> Infallible {
    let mut reported = Vec::new();
    loop {
        tokio::time::sleep(PATIENCE).await;
        let names = context.servers.awaited_servers();
        if !names.is_empty() && names != reported {
            let content = format!("waiting for {}", names.join(", "));
            cx.update(Update { update_type: UpdateKind::Progress, content, progress_percent: None }).await;
        }
        reported = names;
    }
}

impl Lsp {
    async fn run(&self, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
        if batch::has_several(&args) {
            return batch::run(&self.context, args, cx).await;
        }
        run_action(&self.context, args, cx).await
    }
}

/// Runs one action.
async fn run_action(context: &ToolContext, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let (spec, run) = action::spec(&args)?;
    // The action `diagnostics` reports unreadable files together with the others.
    if spec.name != "diagnostics" {
        permit_named(context, &args, cx).await?;
    }
    let timeout = args["timeout"].as_u64();
    let request = context.request(&cx.cancel, timeout);
    run(args, &Call { context, cx, request, has_timeout: timeout.is_some() }).await
}

/// Requires that the files that a call names may be read.
///
/// An answer shows their lines.
async fn permit_named(context: &ToolContext, args: &Value, cx: &ToolCx) -> Result<(), Failure> {
    let files = args["files"].as_array().into_iter().flatten().chain([&args["file"]]);
    for name in files.filter_map(Value::as_str) {
        cx.permit_read(&context.workspace.resolve(name)?).await?;
    }
    Ok(())
}

/// Whether a file may be shown without a question to the user.
///
/// The check is for files that the call does not name.
fn may_read(path: &AbsPath, cx: &ToolCx) -> bool {
    cx.policy().is_some_and(|policy| policy.may_read(path))
}
