//! The tool `show`: opens a place in the person's editor, where the surface has one. It reads nothing for the model and changes
//! nothing.

use std::sync::Arc;

use agent::{Tool, ToolCx, ToolResult};
use futures_util::future::BoxFuture;
use llm::ToolDefinition;
use paths::AbsPath;
use policy::{Effects, ErrorCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Failure, ToolContext, arguments};

/// Shows a file at a range of LSP, or anywhere without one; whether it is shown.
pub type Show = Arc<dyn Fn(AbsPath, Value) -> BoxFuture<'static, bool> + Send + Sync>;

pub struct ShowTool {
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
        let shown = self.context.shown(&path);
        if !path.starts_with(self.context.workspace.root()) {
            let message = format!("{shown} is outside the project, and is not shown");
            return Err(Failure::new(ErrorCode::Denied, message));
        }
        let selection = line.map_or(Value::Null, |line| {
            let start = json!({ "line": line.saturating_sub(1), "character": 0 });
            json!({ "start": start, "end": start })
        });
        tokio::select! {
            // The editor may open it all the same.
            () = cx.cancel.cancelled() => Err(Failure::new(ErrorCode::Cancelled, "cancelled before it was shown")),
            done = (self.show)(path, selection) => match done {
                true => Ok(ToolResult::text(format!("{shown} is shown"))),
                false => Err(Failure::new(ErrorCode::NotApplied, format!("the editor did not show {shown}"))),
            },
        }
    }
}
