//! The tool `lsp`: what language servers know, by names that people use, and their edits made
//! through the one commit path.

mod batch;
mod bound;
mod carried;
mod commands;
mod diagnostics;
mod edits;
mod fix;
mod look;
mod navigate;
mod report;
mod servers;
mod shorthand;
pub(crate) mod target;

pub(crate) use report::{headline, left_out};

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use agent::{Presence, Tool, ToolCx, ToolResult, Update, UpdateKind};
use futures_util::future::BoxFuture;
use llm::ToolDefinition;
use serde::Deserialize;
use serde_json::{Value, json};
use workspace::{AbsPath, Effects, ErrorCode, Writes};

use crate::{Failure, Kit, arguments, shown};

/// Who waits longer than this is told for whom.
const PATIENCE: Duration = Duration::from_secs(2);

/// The tool.
pub struct Lsp {
    kit: Arc<Kit>,
    definition: ToolDefinition,
}

/// What a model may write.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Arguments {
    pub action: String,
    pub file: Option<String>,
    pub files: Option<Vec<String>>,
    pub line: Option<u64>,
    pub column: Option<u64>,
    pub symbol: Option<String>,
    pub symbols: Option<Vec<String>>,
    pub range: Option<String>,
    pub query: Option<String>,
    pub new_name: Option<String>,
    pub to: Option<String>,
    pub kind: Option<String>,
    pub title: Option<String>,
    pub apply: Option<bool>,
    pub server: Option<String>,
    pub timeout: Option<u64>,
    pub method: Option<String>,
    pub params: Option<String>,
    /// The tag of the text that `line`, `column` and `range` speak of (`Kit::remember`), where it is
    /// not the text as it is. Not for models.
    pub as_of: Option<String>,
}

/// Every action there is; the schema's list.
const ACTIONS: [&str; 28] = [
    "diagnostics",
    "definition",
    "declaration",
    "type_definition",
    "implementation",
    "references",
    "hover",
    "signature",
    "symbols",
    "callers",
    "callees",
    "supertypes",
    "subtypes",
    "highlights",
    "inlay_hints",
    "completion",
    "rename",
    "rename_file",
    "move_symbol",
    "code_actions",
    "organize_imports",
    "fix_all",
    "format",
    "status",
    "capabilities",
    "logs",
    "reload",
    "request",
];

/// Methods whose answer changes nothing by itself.
fn only_reads(method: &str) -> bool {
    let (scope, name) = method.rsplit_once('/').unwrap_or(("", method));
    scope == "textDocument"
        || name == "resolve"
        || method == "workspace/symbol"
        || scope.ends_with("Hierarchy")
}

/// The parameters of all actions.
fn schema() -> Value {
    let text = |about: &str| json!({ "type": "string", "description": about });
    let plain = json!({ "type": "string" });
    let number = json!({ "type": "integer" });
    let list = json!({ "type": "array", "items": { "type": "string" } });
    json!({
        "type": "object",
        "properties": {
            "action": { "type": "string", "enum": ACTIONS },
            "file": text("path; for diagnostics a glob too"),
            "files": list,
            "symbol": text("`name`, `Type.method`, `name#2`"),
            "symbols": list,
            "line": number,
            "column": number,
            "range": text("lines `3-9`, or `3:1-9:20`"),
            "query": plain,
            "new_name": plain,
            "to": text("new path, or target file"),
            "kind": text("code action kind, or diagnostic code"),
            "title": plain,
            "apply": { "type": "boolean" },
            "server": plain,
            "timeout": { "type": "integer", "description": "seconds" },
            "method": plain,
            "params": text("JSON"),
        },
        "required": ["action"],
    })
}

impl Lsp {
    /// The tool over `kit`.
    pub fn new(kit: Arc<Kit>) -> Self {
        let definition = ToolDefinition {
            name: "lsp".to_owned(),
            label: "Language server".to_owned(),
            description: shown::described(&kit, include_str!("lsp.md")),
            parameters: schema(),
        };
        Self { kit, definition }
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
        let applies = match args["action"].as_str() {
            Some("rename" | "rename_file" | "move_symbol" | "organize_imports" | "fix_all" | "format") => {
                args["apply"] != json!(false)
            }
            Some("code_actions") => args["apply"] == json!(true),
            Some("request") => !only_reads(args["method"].as_str().unwrap_or_default()),
            _ => false,
        };
        let writes = if applies { Writes::Unknown } else { Writes::None };
        Effects { reads: true, writes, ..Effects::default() }
    }

    fn execute<'a>(&'a self, args: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let run = self.run(args, cx);
            let told = tell_waiting(&self.kit, cx);
            tokio::select! {
                biased;
                result = run => bound::bounded(result.unwrap_or_else(ToolResult::from)),
                // It owns nothing, and never ends.
                never = told => match never {},
            }
        })
    }
}

/// Says from time to time for whom a call waits.
async fn tell_waiting(kit: &Kit, cx: &ToolCx) -> Infallible {
    let mut told = Vec::new();
    loop {
        tokio::time::sleep(PATIENCE).await;
        let names = kit.servers.waited_for();
        if !names.is_empty() && names != told {
            let content = format!("waiting for {}", names.join(", "));
            cx.update(Update { update_type: UpdateKind::Progress, content, progress_percent: None }).await;
        }
        told = names;
    }
}

impl Lsp {
    async fn run(&self, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
        let args: Arguments = arguments(args)?;
        if batch::is_many(&args) {
            return batch::run(&self.kit, &args, cx).await;
        }
        one(&self.kit, &args, cx).await
    }
}

/// The files that a call names may be read: an answer shows their lines, or what stands in them.
async fn permit_named(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<(), Failure> {
    for name in args.files.iter().flatten().chain(&args.file) {
        cx.permit_read(&kit.workspace.resolve(name)?).await?;
    }
    Ok(())
}

/// Whether a file that no call named may be shown, about which nobody is asked.
fn may_read(path: &AbsPath, cx: &ToolCx) -> bool {
    cx.policy().is_some_and(|policy| policy.may_read(path))
}

/// One action on one place.
async fn one(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    // Of several files that one which cannot be read says nothing about the others.
    if args.action != "diagnostics" {
        permit_named(kit, args, cx).await?;
    }
    match args.action.as_str() {
        "definition" | "declaration" | "type_definition" | "implementation" => {
            navigate::places(kit, args, cx).await
        }
        "references" => navigate::references(kit, args, cx).await,
        "hover" => navigate::hover(kit, args, cx).await,
        "signature" => navigate::signature(kit, args, cx).await,
        "callers" | "callees" => navigate::calls(kit, args, cx).await,
        "supertypes" | "subtypes" => navigate::types(kit, args, cx).await,
        "highlights" => look::highlights(kit, args, cx).await,
        "inlay_hints" => look::inlay_hints(kit, args, cx).await,
        "completion" => look::completion(kit, args, cx).await,
        "symbols" => look::symbols(kit, args, cx).await,
        "diagnostics" => diagnostics::diagnostics(kit, args, cx).await,
        "rename" => edits::rename(kit, args, cx).await,
        "rename_file" => edits::rename_file(kit, args, cx).await,
        "move_symbol" => commands::move_symbol(kit, args, cx).await,
        "code_actions" => commands::code_actions(kit, args, cx).await,
        "organize_imports" | "format" => edits::tidy(kit, args, cx).await,
        "fix_all" => fix::fix_all(kit, args, cx).await,
        "status" => servers::status(kit).await,
        "capabilities" => servers::capabilities(kit, args, cx).await,
        "logs" => servers::logs(kit, args).await,
        "reload" => servers::reload(kit, args, cx).await,
        "request" => servers::request(kit, args, cx).await,
        other => Err(Failure::new(
            ErrorCode::InvalidArguments,
            format!("`{other}` is no action of lsp; there are: {}", ACTIONS.join(", ")),
        )),
    }
}

/// What an action lacks.
fn needs(action: &str, argument: &str) -> Failure {
    Failure::new(ErrorCode::InvalidArguments, format!("`{action}` needs `{argument}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is sent with every request to a model.
    #[test]
    fn the_definition_is_small() {
        let text = include_str!("lsp.md").trim();
        let schema = schema().to_string();
        println!("{text}\n---\n{schema}");
        assert!(text.len() <= 1900 && schema.len() <= 1400, "{} and {} bytes", text.len(), schema.len());
        for action in ACTIONS {
            assert!(text.contains(&format!("`{action}`")), "the description does not name {action}");
        }
    }

    #[test]
    fn what_only_reads_is_told_from_what_may_do_more() {
        for method in ["textDocument/hover", "callHierarchy/incomingCalls", "codeAction/resolve"] {
            assert!(only_reads(method), "{method}");
        }
        for method in ["workspace/executeCommand", "rust-analyzer/reloadWorkspace", "java/buildWorkspace"] {
            assert!(!only_reads(method), "{method}");
        }
    }
}
