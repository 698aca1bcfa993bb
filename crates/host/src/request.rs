//! Requests to a project and its replies, as values for other processes.

use std::path::PathBuf;

use agent::store::StoreError;
use agent::{SessionError, ToolResult};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use workspace::{CommitId, Undo};

/// The outcome of a request, which decides the exit code of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Done,
    Failed,
    /// The request itself is wrong: an unknown tool, model or session.
    InvalidRequest,
    /// The policy denied an effect because no approver could be asked.
    Denied,
}

impl Outcome {
    /// Determines the outcome of a tool call.
    pub fn of(result: &ToolResult) -> Self {
        match &result.error {
            Some(error) if error.data["unattended"] == true => Self::Denied,
            _ if result.is_error => Self::Failed,
            _ => Self::Done,
        }
    }
}

/// The answer of a project to a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply<T> {
    /// The project executed the request, successfully or not.
    Done(T),
    /// The request is wrong, for this reason; nothing was done.
    InvalidRequest(String),
}

/// The failure of a request without a result.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The request is wrong, for this reason.
    #[error("{0}")]
    Invalid(String),
    /// A directory or task of Pilcrow failed.
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

impl RequestError {
    /// Creates the error of an invalid request; `error` has the reason.
    pub(crate) fn invalid(error: impl Into<anyhow::Error>) -> Self {
        Self::Invalid(format!("{:#}", error.into()))
    }
}

impl From<StoreError> for RequestError {
    fn from(error: StoreError) -> Self {
        if error.is_usage_error() { Self::Invalid(error.to_string()) } else { Self::Failed(error.into()) }
    }
}

impl From<SessionError> for RequestError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Store(error) => error.into(),
            error => Self::Failed(error.into()),
        }
    }
}

impl From<tokio::task::JoinError> for RequestError {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Failed(error.into())
    }
}

/// Returns an invalid request as a reply, which clients distinguish from a failure.
pub(crate) fn reply<T>(result: Result<T, RequestError>) -> anyhow::Result<Reply<T>> {
    match result {
        Ok(value) => Ok(Reply::Done(value)),
        Err(RequestError::Invalid(reason)) => Ok(Reply::InvalidRequest(reason)),
        Err(RequestError::Failed(error)) => Err(error),
    }
}

/// A call of one tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolCallRequest {
    pub name: String,
    #[serde(default)]
    pub arguments: Value,
    /// Whether the user's own command names the change.
    ///
    /// Then only a denying rule stops it.
    #[serde(default)]
    pub invoked: bool,
    /// Whether an unknown tool is an invalid request instead of a failed call.
    #[serde(default)]
    pub named: bool,
    /// Milliseconds that an edit waits for its diagnostics.
    ///
    /// A caller that gets no later result sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// An undo or a redo.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct UndoRequest {
    /// Whether to redo the last undo.
    #[serde(default)]
    pub redo: bool,
    /// Commit to undo instead of the last run.
    pub commit: Option<String>,
}

impl UndoRequest {
    /// Returns the target of an undo; `None` redoes the last undo.
    pub fn target(self) -> Option<Undo> {
        match self.commit {
            _ if self.redo => None,
            Some(id) => Some(Undo::Commit(CommitId(id))),
            None => Some(Undo::LastRun),
        }
    }
}

/// A prompt to run in a session.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PromptRequest {
    pub prompt: String,
    /// Model instead of the configured one.
    pub model: Option<String>,
    /// The directory that the request comes from; files of scripts are relative to it.
    #[serde(default, rename = "folder")]
    pub directory: PathBuf,
    /// The session to continue, by id or a unique part of it.
    ///
    /// Without it a new one begins.
    pub resume: Option<String>,
    /// Name of an agent profile.
    pub agent: Option<String>,
    /// Milliseconds that each edit of the built-in planner waits for its diagnostics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// A compaction of a session.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CompactRequest {
    /// The session, by id or a unique part of it; without it the newest.
    pub session: Option<String>,
    /// Instructions for the summary.
    #[serde(default)]
    pub instructions: String,
    /// Model instead of the one that answered last.
    pub model: Option<String>,
    pub directory: Option<PathBuf>,
    /// Name of an agent profile instead of the session's.
    pub agent: Option<String>,
}

/// A branch from an earlier entry, with a summary of what follows it.
#[derive(Debug, Clone, Default)]
pub struct BranchRequest {
    pub session: String,
    /// Entry to continue from.
    pub entry: String,
    /// Instructions for the summary.
    pub instructions: String,
    /// Model that writes the summary, instead of the one that answered last.
    pub model: Option<String>,
    pub directory: Option<PathBuf>,
}

/// The end of a run; its events report the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReport {
    pub outcome: Outcome,
    /// Reason of a failure.
    #[serde(default, rename = "why")]
    pub reason: Option<String>,
    /// Files that the run changed in the editor and that are not saved.
    #[serde(default)]
    pub unsaved: Vec<String>,
}

/// The end of a compaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactReport {
    /// Whether the session was compacted; `false` if it is short enough.
    pub compacted: bool,
    /// The reason of a failure.
    pub error: Option<String>,
    /// Notes about the choice of the model.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A session that continues from an earlier entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchReport {
    pub session: String,
    /// Entry that the session continues from.
    pub at: String,
    /// Entry that records the branch.
    pub entry: String,
    pub notes: Vec<String>,
}

/// The cancellation of a request.
#[derive(Clone, Copy)]
pub struct Stop<'a> {
    /// Fires when the user stops it, and when its surface is gone.
    pub cancel: &'a CancellationToken,
    /// Fires before `cancel` when its surface is gone.
    pub gone: &'a CancellationToken,
}

/// Extracts the instructions of `/compact INSTRUCTIONS`; `None` for other prompts.
pub fn parse_compact(prompt: &str) -> Option<&str> {
    let rest = prompt.trim().strip_prefix("/compact")?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim())
}
