//! The port to a tool, and what a call comes to. Which tools there are is not known in this crate.

use futures_util::future::BoxFuture;
use llm::{Content, ToolDefinition};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use workspace::{Denied, Effects, ErrorCode};

use crate::cx::ToolCx;
use crate::discovery::ToolSource;

/// Something the model can call.
pub trait Tool: Send + Sync {
    /// Its name, description and parameters; the same bytes every time.
    fn definition(&self) -> &ToolDefinition;

    /// What is known of its effects before the call, from validated arguments. Does not block.
    fn effects(&self, args: &Value) -> Effects;

    /// Whether other calls of the same response may run beside it, whatever its effects.
    fn execution_mode(&self) -> ExecutionMode {
        ExecutionMode::Parallel
    }

    /// Arguments that it takes though its definition names them to no model: who starts a call with a place
    /// in mind gives them.
    fn unnamed_arguments(&self) -> &[&str] {
        &[]
    }

    /// How a model comes to know of it, in sessions where tools are searched.
    fn presence(&self) -> Presence {
        Presence::default()
    }

    /// Where it comes from, for who searches it.
    fn origin(&self) -> Origin {
        Origin::default()
    }

    /// Runs the call with validated arguments. A failure is a result with `is_error`. When `cx.cancel` fires it should
    /// end what it started and return; its future is dropped 1.5 s later. A panic becomes an error result.
    fn execute<'a>(&'a self, args: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolResult>;
}

/// How a model comes to know of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It is told of from the start.
    Start,
    /// It is found by a search, or by one of these words (in lower case) in the session's first prompt.
    Search {
        /// The words.
        when: &'static [&'static str],
    },
}

impl Default for Presence {
    fn default() -> Self {
        Self::Search { when: &[] }
    }
}

/// Where a tool comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// What kind of place.
    pub source: ToolSource,
    /// The server it belongs to.
    pub server_name: Option<String>,
    /// Its name there.
    pub mcp_tool_name: Option<String>,
}

/// Whether calls of one response may run beside each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExecutionMode {
    /// As their effects allow.
    #[default]
    Parallel,
    /// One such call makes the whole batch run one after the other.
    Sequential,
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// What the model sees.
    pub content: Vec<Content>,
    /// Full data for surfaces; never sent to the model.
    pub details: Value,
    /// Whether the call failed.
    pub is_error: bool,
    /// The failure for programs.
    pub error: Option<ToolError>,
    /// Whether the run may end after this batch; it does when every result of the batch says so.
    pub terminate: bool,
    /// Tools that the model came to know by this call, by name.
    pub added_tools: Vec<String>,
}

/// A failure for programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolError {
    /// From the closed list.
    pub code: ErrorCode,
    /// Further facts; its shape depends on the code.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

impl ToolResult {
    /// A result with this text.
    pub fn text(text: impl Into<String>) -> ToolResult {
        ToolResult {
            content: vec![Content::text(text)],
            details: Value::Null,
            is_error: false,
            error: None,
            terminate: false,
            added_tools: Vec::new(),
        }
    }

    /// A failure with this code, and a message that the model can act on.
    pub fn error(code: ErrorCode, message: impl Into<String>) -> ToolResult {
        let error = Some(ToolError { code, data: Value::Null });
        ToolResult { is_error: true, error, ..ToolResult::text(message) }
    }

    /// A call that the policy or the person did not permit. Keeps whether nobody could be asked, which the
    /// run's outcome and the exit status tell.
    pub fn denied(denied: &Denied) -> ToolResult {
        ToolResult::error(denied.code, denied.to_string())
            .with_data(json!({ "nobody_to_ask": denied.nobody_to_ask }))
    }

    /// With these details for surfaces.
    pub fn with_details(self, details: Value) -> ToolResult {
        ToolResult { details, ..self }
    }

    /// With these tools, which [`crate::Toolset::find`] made known.
    pub fn with_added_tools(self, added_tools: Vec<String>) -> ToolResult {
        ToolResult { added_tools, ..self }
    }

    /// With these facts beside the error's code; nothing when it is no error.
    pub fn with_data(mut self, data: Value) -> ToolResult {
        if let Some(error) = &mut self.error {
            error.data = data;
        }
        self
    }

    /// The text blocks joined by line breaks.
    pub fn joined_text(&self) -> String {
        let texts: Vec<&str> = self
            .content
            .iter()
            .filter_map(|content| match content {
                Content::Text { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        texts.join("\n")
    }

    pub(crate) fn nobody_to_ask(&self) -> bool {
        self.error.as_ref().is_some_and(|error| error.data["nobody_to_ask"] == true)
    }
}
