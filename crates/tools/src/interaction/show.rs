//! The tool `show`: opens a place in the user's editor.
//!
//! It returns no text and changes no file.

use std::sync::Arc;

use agent::{ToolCx, ToolResult};
use policy::{Effects, ErrorCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::described::{BuiltIn, Described, count, text};
use crate::{Failure, Show, ToolContext, arguments};

pub(crate) struct ShowTool {
    context: Arc<ToolContext>,
    show: Show,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    path: String,
    line: Option<u32>,
}

impl ShowTool {
    pub fn new(context: Arc<ToolContext>, show: Show) -> Described<Self> {
        let properties = json!({ "path": text("the file"), "line": count("from 1") });
        let (about, tool) = (include_str!("show.md"), Self { context, show });
        Described::new("show", "Show in the editor", about, properties, &["path"], tool)
    }
}

impl BuiltIn for ShowTool {
    fn effects(&self, _: &Value) -> Effects {
        Effects::default()
    }

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
