//! The tool `checkpoint`: names a point in the history to which `undo` can return.

use std::sync::Arc;

use agent::{ToolCx, ToolResult};
use policy::{Effects, ErrorCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::described::{BuiltIn, Described, text};
use crate::{Failure, ToolContext, arguments};

const MAX_NAME_LENGTH: usize = 100;

pub struct Checkpoint {
    context: Arc<ToolContext>,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    name: String,
}

impl Checkpoint {
    pub fn new(context: Arc<ToolContext>) -> Described<Self> {
        let (about, properties) = (include_str!("checkpoint.md"), json!({ "name": text("its name") }));
        // Sequential, so that the calls before it in a response come before it in the history.
        Described::new("checkpoint", "Name this point", about, properties, &["name"], Self { context })
            .sequential()
    }
}

impl BuiltIn for Checkpoint {
    fn effects(&self, _: &Value) -> Effects {
        Effects::default()
    }

    async fn run(&self, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
        let Arguments { name } = arguments(args)?;
        let name = name.trim().to_owned();
        if name.is_empty() || name.len() > MAX_NAME_LENGTH || name.contains('\n') {
            return Err(Failure::invalid(format!("`name` must be one line of 1 to {MAX_NAME_LENGTH} bytes")));
        }
        // The name is shown, and stored on disk.
        let name = self.context.shell.redactor().redact(&name).into_owned();
        let (workspace, run, point) = (self.context.workspace.clone(), cx.run.clone(), name.clone());
        let commit = tokio::task::spawn_blocking(move || workspace.checkpoint(&run, &point)).await;
        let failed = |error| Failure::new(ErrorCode::Internal, format!("{error}; please report this"));
        let id = commit.map_err(failed)??;
        cx.keep("checkpoint", json!({ "name": name, "commitId": id }));
        let said = format!("checkpoint {name:?}; `undo` with this name reverts all later changes");
        Ok(ToolResult::text(said).with_details(json!({ "name": name, "id": id })))
    }
}
