//! The tool port and the results of calls. This crate knows no tool by name.

pub(crate) mod arguments;
pub(crate) mod call;
pub(crate) mod context;
pub mod discovery;
pub(crate) mod gate;
pub mod pipeline;
pub(crate) mod registry;

use futures_util::future::BoxFuture;
use llm::{Content, ToolDefinition};
use policy::{Denied, DeniedBy, Effects, ErrorCode};
use serde_json::{Value, json};

pub use context::{EventReporter, GrantRequester, StandaloneCall, ToolCx};

use crate::events::ToolError;
use discovery::ToolSource;

/// An action that the model can call.
pub trait Tool: Send + Sync {
    /// Name, description and parameters; the same bytes every time.
    fn definition(&self) -> &ToolDefinition;

    /// Effects known before the call, from validated arguments. Must not block.
    fn effects(&self, args: &Value) -> Effects;

    /// Returns whether other calls of a response may run concurrently with this one.
    ///
    /// The effects of the calls restrict it further.
    fn execution_mode(&self) -> ExecutionMode {
        ExecutionMode::Parallel
    }

    /// Accepted arguments that the definition does not show to models.
    ///
    /// Callers that start a call at a position use them.
    fn unnamed_arguments(&self) -> &[&str] {
        &[]
    }

    /// Aliases: names that other agents use for such a tool.
    fn aliases(&self) -> &[&str] {
        &[]
    }

    /// Returns how the model gets to know the tool, if it searches tools.
    fn presence(&self) -> Presence {
        Presence::default()
    }

    /// Returns the source and server of the tool.
    fn origin(&self) -> Origin {
        Origin::default()
    }

    /// Forgets a result of any tool, which the model no longer has.
    ///
    /// Must not block.
    fn forget(&self, _result: &str) {}

    /// Recalls the results that a resumed session still has.
    ///
    /// They are in order, each with the name of its tool. Called before the first run; may read files.
    fn recall(&self, _results: &[(&str, &str)]) {}

    /// Runs the call with validated arguments.
    ///
    /// A failure is a result with `is_error`, and a panic becomes one. When `cx.cancel` fires, the call
    /// should stop what it started and return; its future is dropped 1.2 s later.
    fn execute<'a>(&'a self, args: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolResult>;
}

/// The way in which a model gets to know a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The model knows the tool from the start of the session.
    Start,
    /// The model learns of the tool by a search or a word of the first prompt.
    ///
    /// The words are in lowercase.
    Search { when: &'static [&'static str] },
}

impl Default for Presence {
    fn default() -> Self {
        Self::Search { when: &[] }
    }
}

/// The source of a tool, and its MCP server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    pub source: ToolSource,
    /// The MCP server it belongs to.
    pub server_name: Option<String>,
    pub mcp_tool_name: Option<String>,
}

/// Whether calls of one response may run concurrently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExecutionMode {
    /// Calls run in parallel if their effects allow it.
    #[default]
    Parallel,
    /// One such call makes the whole batch sequential.
    Sequential,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// The part that the model receives.
    pub content: Vec<Content>,
    /// Full data for surfaces; the model never gets it.
    pub details: Value,
    pub is_error: bool,
    /// The failure for programs.
    pub error: Option<ToolError>,
    /// Whether the run may end after this batch; every result of it must agree.
    pub terminate: bool,
    /// Names of the tools that the model knows since this call.
    pub added_tools: Vec<String>,
    /// Whether the model receives secrets in `content` too, such as in a file to edit.
    pub is_exact: bool,
}

impl ToolResult {
    pub fn text(text: impl Into<String>) -> ToolResult {
        ToolResult {
            content: vec![Content::text(text)],
            details: Value::Null,
            is_error: false,
            error: None,
            terminate: false,
            added_tools: Vec::new(),
            is_exact: false,
        }
    }

    /// A failure with this code, and a message that the model can act on.
    pub fn error(code: ErrorCode, message: impl Into<String>) -> ToolResult {
        let error = Some(ToolError { code, data: Value::Null });
        ToolResult { is_error: true, error, ..ToolResult::text(message) }
    }

    /// A call that the policy or the user denied.
    ///
    /// Records whether no user was available, which the outcome of the run reports.
    pub fn denied(denied: &Denied) -> ToolResult {
        ToolResult::error(denied.code, denied.to_string())
            .with_data(json!({ "unattended": denied.by == DeniedBy::Unattended }))
    }

    pub fn with_details(self, details: Value) -> ToolResult {
        ToolResult { details, ..self }
    }

    /// Keeps secrets in the content.
    pub fn exact(self) -> ToolResult {
        ToolResult { is_exact: true, ..self }
    }

    /// Adds tools found by [`crate::Toolset::find`].
    pub fn with_added_tools(self, added_tools: Vec<String>) -> ToolResult {
        ToolResult { added_tools, ..self }
    }

    /// Adds data to the error; ignored if the result is not one.
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

    pub(crate) fn is_unattended(&self) -> bool {
        self.error.as_ref().is_some_and(|error| error.data["unattended"] == true)
    }
}
