//! The tool `checkpoint`: names a point in the history, for `undo` to go back to.

use std::sync::Arc;

use agent::{Tool, ToolCx, ToolResult};
use futures_util::future::BoxFuture;
use llm::ToolDefinition;
use policy::{Effects, ErrorCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Failure, ToolContext, arguments};

const LONGEST: usize = 100;

pub struct Checkpoint {
    context: Arc<ToolContext>,
    definition: ToolDefinition,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    name: String,
}

impl Checkpoint {
    pub fn new(context: Arc<ToolContext>) -> Self {
        let definition = ToolDefinition {
            name: "checkpoint".to_owned(),
            label: "Name this point".to_owned(),
            description: include_str!("checkpoint.md").trim().to_owned(),
            parameters: json!({
                "type": "object",
                "properties": { "name": { "type": "string" } },
                "required": ["name"],
            }),
        };
        Self { context, definition }
    }
}

impl Tool for Checkpoint {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    // Alone, so that what stands before it in a response is before it.
    fn execution_mode(&self) -> agent::ExecutionMode {
        agent::ExecutionMode::Sequential
    }

    fn effects(&self, _: &Value) -> Effects {
        Effects::default()
    }

    fn execute<'a>(&'a self, args: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { self.run(args, cx).await.unwrap_or_else(ToolResult::from) })
    }
}

impl Checkpoint {
    async fn run(&self, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
        let Arguments { name } = arguments(args)?;
        let name = name.trim().to_owned();
        if name.is_empty() || name.len() > LONGEST || name.contains('\n') {
            let message = format!("a name has one line and 1 to {LONGEST} bytes");
            return Err(Failure::new(ErrorCode::InvalidArguments, message));
        }
        // It is shown, and kept on the disk.
        let name = self.context.shell.redactor().redact(&name).into_owned();
        let (workspace, run, point) = (self.context.workspace.clone(), cx.run.clone(), name.clone());
        let made = tokio::task::spawn_blocking(move || workspace.checkpoint(&run, &point)).await;
        let failed = |error| Failure::new(ErrorCode::Internal, format!("{error}; please report this"));
        let id = made.map_err(failed)??;
        cx.keep("checkpoint", json!({ "name": name, "commitId": id }));
        let text = format!("checkpoint {name:?}; `undo` with this name takes back what is changed after it");
        Ok(ToolResult::text(text).with_details(json!({ "name": name, "id": id })))
    }
}
