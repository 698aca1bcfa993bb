//! The commands, one a file: each opens what it needs, delegates, and reports.

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
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::output;
use crate::owner::Reply;

/// How a command ended, as the shell is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It did what was asked.
    Done,
    /// It did not.
    Failed,
    /// It was not asked rightly.
    Usage,
    /// Something was denied because nobody could be asked.
    Denied,
}

impl Exit {
    /// The process's status.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Denied => 3,
        }
    }

    /// Of a tool's result.
    pub fn of(result: &ToolResult) -> Self {
        match &result.error {
            Some(error) if error.data["nobody_to_ask"] == true => Self::Denied,
            _ if result.is_error => Self::Failed,
            _ => Self::Done,
        }
    }
}

/// Prints what a call of a tool came to, as text or as one line of JSON, and says how it ended.
pub fn print(tool: &str, reply: &Reply<ToolResult>, as_json: bool) -> Exit {
    let result = match reply {
        Reply::Done(result) => result,
        Reply::Usage(text) => return wrong_use(text),
    };
    if as_json {
        output::json(&result_json(tool, result));
    } else if result.is_error {
        output::note(&result.joined_text());
    } else {
        output::line(&result.joined_text());
    }
    Exit::of(result)
}

/// Says what was not asked rightly.
pub fn wrong_use(text: &str) -> Exit {
    output::note(&format!("pilcrow: {text}"));
    Exit::Usage
}

/// A tool's result as programs are given it.
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
