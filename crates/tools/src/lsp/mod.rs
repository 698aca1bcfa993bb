//! The tool `lsp`: what language servers know, by names that people use, and their edits made
//! through the one commit path.

mod actions;
mod report;
pub(crate) mod target;

pub(crate) use report::headline;

use agent::{Tool, ToolCx, ToolResult};
use futures_util::future::BoxFuture;
use llm::ToolDefinition;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use workspace::{Effects, ErrorCode, Writes};

use crate::{Failure, Kit, arguments, shown};

/// The tool.
pub struct Lsp {
    kit: Arc<Kit>,
    definition: ToolDefinition,
}

/// What a model may write.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Arguments {
    pub action: String,
    pub file: Option<String>,
    pub line: Option<u64>,
    pub column: Option<u64>,
    pub symbol: Option<String>,
    pub query: Option<String>,
    pub new_name: Option<String>,
    pub to: Option<String>,
    pub apply: Option<bool>,
    pub server: Option<String>,
    pub timeout: Option<u64>,
}

/// Every action there is; the schema's list.
const ACTIONS: [&str; 11] = [
    "definition",
    "references",
    "hover",
    "symbols",
    "diagnostics",
    "rename",
    "rename_file",
    "organize_imports",
    "format",
    "status",
    "logs",
];

impl Lsp {
    /// The tool over `kit`.
    pub fn new(kit: Arc<Kit>) -> Self {
        let text = |about: &str| json!({ "type": "string", "description": about });
        let number = |about: &str| json!({ "type": "integer", "description": about });
        let definition = ToolDefinition {
            name: "lsp".to_owned(),
            label: "Language server".to_owned(),
            description: shown::described(&kit, include_str!("lsp.md")),
            parameters: json!({
                "type": "object",
                "properties": {
                    "action": { "type": "string", "enum": ACTIONS, "description": "what to do" },
                    "file": text("path, relative to the workspace"),
                    "symbol": text("name or name path (Type.method); name#2 for the second on the line"),
                    "line": number("1-based"),
                    "column": number("1-based, in characters"),
                    "query": text("symbols: only those whose name holds this"),
                    "new_name": text("rename: the new name"),
                    "to": text("rename_file: the new path"),
                    "apply": { "type": "boolean", "description": "false shows the diff and changes nothing" },
                    "server": text("logs: the server's name"),
                    "timeout": number("seconds, 1 to 300"),
                },
                "required": ["action"],
            }),
        };
        Self { kit, definition }
    }
}

impl Tool for Lsp {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn effects(&self, args: &Value) -> Effects {
        let writes = match args["action"].as_str() {
            Some("rename" | "rename_file" | "organize_imports" | "format")
                if args["apply"] != json!(false) =>
            {
                Writes::Unknown
            }
            _ => Writes::None,
        };
        Effects { reads: true, writes, ..Effects::default() }
    }

    fn execute<'a>(&'a self, args: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { self.run(args, cx).await.unwrap_or_else(ToolResult::from) })
    }
}

impl Lsp {
    async fn run(&self, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
        let args: Arguments = arguments(args)?;
        let kit = &*self.kit;
        match args.action.as_str() {
            "definition" => actions::definition(kit, &args, cx).await,
            "references" => actions::references(kit, &args, cx).await,
            "hover" => actions::hover(kit, &args, cx).await,
            "symbols" => actions::symbols(kit, &args, cx).await,
            "diagnostics" => actions::diagnostics(kit, &args, cx).await,
            "rename" => actions::rename(kit, &args, cx).await,
            "rename_file" => actions::rename_file(kit, &args, cx).await,
            "organize_imports" => actions::organize_imports(kit, &args, cx).await,
            "format" => actions::format(kit, &args, cx).await,
            "status" => actions::status(kit).await,
            "logs" => actions::logs(kit, &args).await,
            other => Err(Failure::new(
                ErrorCode::InvalidArguments,
                format!("`{other}` is no action of lsp; there are: {}", ACTIONS.join(", ")),
            )),
        }
    }
}
