//! The commands of the command line, one per file.

pub mod adapters;
pub mod auth;
pub mod config;
pub mod dap;
pub mod doctor;
pub mod edit;
pub mod edit_batch;
pub mod export;
pub mod logs;
pub mod models;
pub mod proxy;
pub mod run;
pub mod sessions;
pub mod tool;
pub mod tools;
pub mod trust;
pub mod undo;

use agent::ToolResult;
use host::{Outcome, Reply};
use serde_json::{Value, json};

use crate::output;

/// The exit code of an outcome.
pub fn exit_code(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Done => 0,
        Outcome::Failed => 1,
        Outcome::InvalidRequest => 2,
        Outcome::Denied => 3,
    }
}

/// Prints the result of a tool call, as text or as one line of JSON.
pub fn print(tool: &str, reply: &Reply<ToolResult>, as_json: bool) -> Outcome {
    let result = match reply {
        Reply::Done(result) => result,
        Reply::InvalidRequest(text) => return wrong_use(text),
    };
    if as_json {
        output::json(&result_json(tool, result));
    } else if result.is_error {
        output::note(&result.joined_text());
    } else {
        output::line(&result.joined_text());
    }
    Outcome::of(result)
}

/// Reports wrong use of a command.
pub fn wrong_use(text: &str) -> Outcome {
    output::note(&format!("pilcrow: {text}"));
    Outcome::InvalidRequest
}

/// Renders a tool's result as JSON.
pub fn result_json(tool: &str, result: &ToolResult) -> Value {
    let mut value = json!({
        "tool": tool,
        "content": result.content,
        "details": result.details,
        "is_error": result.is_error,
    });
    if let Some(error) = &result.error {
        value["error"] = json!(error);
    }
    value
}
