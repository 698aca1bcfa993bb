//! The commands of the command line, one per file.

pub mod adapters;
pub mod auth;
pub mod config;
pub mod dap;
pub mod doctor;
pub mod edit;
pub mod export;
pub mod logs;
pub mod lsp;
pub mod models;
pub mod proxy;
pub mod run;
pub mod serve;
pub mod sessions;
pub mod tool;
pub mod tools;
pub mod trust;
pub mod undo;

use agent::ToolResult;
use host::{Outcome, Reply, cancellation};
use serde_json::{Value, json};

use crate::output;
use crate::render::{Format, Rendered, Screen, render};

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
pub fn print(tool: &str, reply: &Reply<ToolResult>, as_json: bool, format: Format) -> Outcome {
    let result = match reply {
        Reply::Done(result) => result,
        Reply::InvalidRequest(text) => return wrong_use(text),
    };
    if as_json {
        output::json(&result_json(tool, result));
    } else if result.is_error {
        let cancelled = cancellation(&result.details).filter(|_| format != Format::Model);
        output::note(&cancelled.unwrap_or_else(|| result.joined_text()));
    } else {
        print_text(&result.joined_text(), &result.details, format);
    }
    Outcome::of(result)
}

/// Prints the text of a result with these details.
pub fn print_text(text: &str, details: &Value, format: Format) {
    let screen = match format {
        Format::Model => return output::line(text),
        Format::Plain => None,
        Format::Auto => Screen::of_stdout(),
    };
    let Rendered { notes, lines } = render(text, details, screen);
    if !notes.is_empty() {
        output::note(&notes);
    }
    if !lines.is_empty() {
        output::rendered(&lines);
    }
}

/// Prints the result of a call that may edit; new errors make it a failure.
pub fn print_edit(tool: &str, reply: &Reply<ToolResult>, as_json: bool, format: Format) -> Outcome {
    let outcome = print(tool, reply, as_json, format);
    match reply {
        Reply::Done(result) => with_new_errors(outcome, has_new_errors(&result.details)),
        Reply::InvalidRequest(_) => outcome,
    }
}

/// Whether these details of a result are those of an edit that introduced errors.
fn has_new_errors(details: &Value) -> bool {
    let introduced = details["diagnostics"]["introduced"].as_array();
    introduced.into_iter().flatten().any(|it| it["severity"] == "error")
}

/// Makes an edit with new errors a failure, and names its undo.
fn with_new_errors(outcome: Outcome, has_new_errors: bool) -> Outcome {
    if outcome != Outcome::Done || !has_new_errors {
        return outcome;
    }
    output::note("pilcrow: the edit introduced errors; `pilcrow undo` reverts it");
    Outcome::Failed
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
