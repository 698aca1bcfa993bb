//! The tool `show`: opens a place in the user's editor.
//!
//! It returns no text and changes no file.

use std::sync::Arc;

use agent::{Tool, ToolCx, ToolResult};
use futures_util::future::BoxFuture;
use llm::ToolDefinition;
use policy::{Effects, ErrorCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Failure, Show, ToolContext, arguments};

pub(crate) struct ShowTool {
    context: Arc<ToolContext>,
    show: Show,
    definition: ToolDefinition,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    path: String,
    line: Option<u32>,
}

impl ShowTool {
    pub fn new(context: Arc<ToolContext>, show: Show) -> Self {
        let definition = ToolDefinition {
            name: "show".to_owned(),
            label: "Show in the editor".to_owned(),
            description: include_str!("show.md").trim().to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": { "type": "string" },
                    "line": { "type": "integer", "description": "from 1" },
                },
                "required": ["path"],
            }),
        };
        Self { context, show, definition }
    }
}

impl Tool for ShowTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn effects(&self, _: &Value) -> Effects {
        Effects::default()
    }

    fn execute<'a>(&'a self, args: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { self.run(args, cx).await.unwrap_or_else(ToolResult::from) })
    }
}

impl ShowTool {
    async fn run(&self, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
        let Arguments { path, line } = arguments(args)?;
        let path = self.context.document(&path)?.path;
        let shown = self.context.display_path(&path);
        if !path.starts_with(self.context.workspace.root()) {
            let message = format!("not shown: {shown} is outside the project");
            return Err(Failure::new(ErrorCode::Denied, message));
        }
        let selection = line.map_or(Value::Null, |line| {
            let start = json!({ "line": line.saturating_sub(1), "character": 0 });
            json!({ "start": start, "end": start })
        });
        tokio::select! {
            // The editor may open it nevertheless.
            () = cx.cancel.cancelled() => Err(Failure::new(ErrorCode::Cancelled, "cancelled")),
            done = (self.show)(path, selection) => match done {
                true => Ok(ToolResult::text(format!("opened {shown} in the editor"))),
                false => Err(Failure::new(ErrorCode::NotApplied, format!("the editor did not show {shown}"))),
            },
        }
    }
}
