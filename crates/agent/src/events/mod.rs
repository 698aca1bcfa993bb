//! Events that surfaces receive from a session, in numbered envelopes.
//!
//! `docs/formats/event-envelope.md` has the format.

pub(crate) mod emitter;
mod state;
mod stream_redactor;

use futures_util::future::BoxFuture;
use llm::{Content, Message, StreamEvent, ThinkingLevel, Usage};
use policy::{Answer, ErrorCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use workspace::{ChangeKind, Commit, RunId};

use crate::run::queues::{Queue, QueuedMessageView};

pub use emitter::{Attached, Replay};
pub use state::SessionState;
pub use stream_redactor::StreamRedactor;

/// Receives the events of a session, in order.
pub trait EventSink: Send + Sync {
    /// Takes one event.
    ///
    /// The next event waits for it, at most 5 s. A sink that takes longer, or panics, is removed, and a
    /// warning is logged.
    fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()>;

    /// Handles the start of a run; also called when a sink is attached during a run.
    ///
    /// The run's events follow. `cancel` fires when the run is cancelled: the model and the tools have the
    /// same token. Must not block.
    fn run_begins(&self, cancel: &CancellationToken) {
        let _ = cancel;
    }
}

/// An event with its position in the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    pub session_id: String,
    /// Increases by one with every event of the session, from 1.
    pub seq: u64,
    /// Increases by one with every event that changes the visible state.
    pub state_version: u64,
    /// Milliseconds since the Unix epoch.
    pub at: u64,
    pub event: Event,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// First event of a run.
    AgentStart {
        run_id: RunId,
        model: String,
        tools: Vec<String>,
        messages: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thinking_level: Option<ThinkingLevel>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resumed_from: Option<String>,
    },
    /// A turn begins: a request to the model follows.
    TurnStart { turn_index: u32 },
    /// A message begins; complete for all roles but the assistant's.
    MessageStart {
        message_id: String,
        role: MessageRole,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Message>,
    },
    /// A part of the assistant's message; `update` is never `start`, `done` or `error`.
    MessageUpdate { message_id: String, update: StreamEvent },
    /// A message is complete and in the transcript.
    MessageEnd { message_id: String, message: Message },
    /// A tool call begins.
    ToolExecutionStart {
        tool_call_id: String,
        tool_name: String,
        label: String,
        input: Value,
        message_id: String,
    },
    /// Progress of a call.
    ToolExecutionUpdate {
        tool_call_id: String,
        #[serde(flatten)]
        update: Update,
    },
    /// A tool call has a result; `duration_ms` only if it ran.
    ToolExecutionEnd {
        tool_call_id: String,
        tool_name: String,
        is_error: bool,
        content: Vec<Content>,
        details: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<ToolError>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
    },
    /// A turn ends; `tool_results` are the ids of its results in the model's order.
    TurnEnd { turn_index: u32, tool_results: Vec<String>, has_tool_calls: bool, should_continue: bool },
    /// Last event of a run but `agent_settled`.
    AgentEnd {
        run_id: RunId,
        reason: TerminationReason,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        total_turns: u32,
        usage: Usage,
        duration_ms: u64,
    },
    /// The user is asked for a permission.
    PermissionRequest {
        request_id: String,
        kind: String,
        title: String,
        detail: String,
        files: Vec<String>,
        /// The answers that the user may give.
        #[serde(default)]
        answers: Vec<PermissionAnswer>,
    },
    /// The question was answered, or no user was available.
    PermissionResolved { request_id: String, answer: PermissionAnswer },
    /// The agent asks the user; another answer than the options is possible.
    InputRequest { request_id: String, question: String, options: Vec<String> },
    /// The question was answered, or dismissed.
    InputResolved {
        request_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
    },
    /// A message for the user; `level` is `info` or `warning`.
    Notice { level: String, text: String },
    /// A failed request or turn is retried after the delay.
    RetryStart { attempt: u32, max: u32, delay_ms: u64, error: String },
    /// The retry succeeded, or the run gave up.
    RetryEnd { attempt: u32, success: bool },
    /// Settings, tools or instructions were reloaded; `problems` could not be applied.
    Reloaded { changed: Vec<String>, problems: Vec<String> },
    /// Requests use another model from now on.
    ModelChange { provider: String, model: String },
    /// Requests use another thinking level from now on.
    ThinkingLevelChange { level: Option<ThinkingLevel> },
    /// A message from the embedding program that no model receives.
    CustomMessage { message_id: String, kind: String, data: Value },
    /// The context is compacted; `reason` is `threshold`, `overflow` or `command`.
    CompactionStart { reason: String, tokens: u64 },
    /// Compaction ended; the summary replaces all but the newest `kept` messages.
    CompactionEnd {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<Message>,
        kept: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// All steps of the work with their status.
    Plan { steps: Vec<PlanStep> },
    /// The transcript was replaced: cleared, or another branch.
    TranscriptReplaced { messages: Vec<Message> },
    /// A call of this run changed files atomically; precedes the end of the call.
    Commit { commit_id: String, run_id: RunId, label: String, files: Vec<ChangedFile>, notes: Vec<String> },
    /// Diagnostics after a change, as far as known.
    ///
    /// If files are `pending`, a second event has all.
    Diagnostics {
        tool_call_id: String,
        introduced: Vec<Problem>,
        fixed: Vec<Problem>,
        pending: usize,
        servers: Vec<String>,
    },
    /// The state of a language server: `starting`, `running`, `crashed` or `stopped`.
    ServerStatus {
        name: String,
        root: String,
        state: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// A debug session changed its state.
    ///
    /// The state is `launching`, `configuring`, `running`, `stopped` or `terminated`.
    DebugState {
        session: String,
        state: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// The queued messages, and their number by queue.
    QueueUpdate {
        steering: usize,
        follow_up: usize,
        #[serde(default)]
        messages: Vec<QueuedMessageView>,
    },
    /// The session is idle after a run or a manual compaction.
    ///
    /// Queued messages wait for the next run.
    AgentSettled { aborted: bool },
}

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageRole {
    User,
    Assistant,
    ToolResult,
}

impl MessageRole {
    pub(crate) fn of(message: &Message) -> MessageRole {
        match message {
            Message::User(_) => MessageRole::User,
            Message::Assistant(_) => MessageRole::Assistant,
            Message::ToolResult(_) => MessageRole::ToolResult,
        }
    }
}

/// A file that a commit changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    /// The current path, or the last one.
    pub path: String,
    /// `modified`, `created`, `deleted` or `renamed`.
    pub kind: String,
    /// The previous path of a renamed file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// A diagnostic of a language server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// `error`, `warning`, `information` or `hint`.
    pub severity: String,
    /// The server's text.
    pub message: String,
    pub server: String,
}

/// A step of the work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep {
    pub text: String,
    #[serde(default)]
    pub status: StepStatus,
}

/// Status of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    #[default]
    Pending,
    Active,
    Done,
}

/// The answer to a permission question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionAnswer {
    Once,
    Session,
    Always,
    No,
    /// No user was available.
    #[serde(rename = "nobody")]
    Unattended,
}

impl PermissionAnswer {
    /// The answer in events; `None` for a refusal that no user gave.
    pub(crate) fn of(answer: &Answer) -> Option<PermissionAnswer> {
        match answer {
            Answer::Once => Some(PermissionAnswer::Once),
            Answer::Session => Some(PermissionAnswer::Session),
            Answer::Always => Some(PermissionAnswer::Always),
            Answer::No { .. } => Some(PermissionAnswer::No),
            Answer::Unattended => Some(PermissionAnswer::Unattended),
            Answer::Refused { .. } | Answer::Dismissed => None,
        }
    }
}

/// The failure of a tool call, for programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolError {
    pub code: ErrorCode,
    /// Further facts; the shape depends on the code.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

/// Progress of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Update {
    pub update_type: UpdateKind,
    pub content: String,
    /// Progress from 0 to 100, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_percent: Option<u8>,
}

/// Kind of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpdateKind {
    /// Standard output of a program.
    Stdout,
    /// Standard error of a program.
    Stderr,
    /// The current step of the tool.
    Progress,
    /// A part of the result.
    PartialResult,
}

/// The reason why a run ended, by precedence when several are true at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TerminationReason {
    /// The user or the embedding program cancelled the run.
    Aborted,
    /// The surface disconnected; the session can be resumed.
    Disconnected,
    /// The model failed, or the session file could not be written.
    Error,
    /// The run exceeded its time limit.
    TimeoutTotal,
    /// The model was silent longer than its timeouts.
    TimeoutIdle,
    /// The run reached its turn limit.
    TurnLimit,
    /// Every result of the last batch allowed the run to end.
    TerminatedByTools,
    /// The model finished.
    NoToolCalls,
}

impl Event {
    /// Whether any sender may send the event, since it is not part of the conversation.
    pub(crate) fn is_status(&self) -> bool {
        matches!(
            self,
            Event::Commit { .. }
                | Event::Diagnostics { .. }
                | Event::ServerStatus { .. }
                | Event::DebugState { .. }
                | Event::Notice { .. }
        )
    }

    /// The event for the queued messages.
    pub(crate) fn of_queue(messages: Vec<QueuedMessageView>) -> Event {
        let steering = messages.iter().filter(|queued| queued.queue == Queue::Steering).count();
        Event::QueueUpdate { steering, follow_up: messages.len() - steering, messages }
    }

    /// The event for a commit.
    pub(crate) fn of_commit(commit: &Commit) -> Event {
        let files = commit.files.iter().map(|file| {
            let (kind, from) = match &file.kind {
                ChangeKind::Modified => ("modified", None),
                ChangeKind::Created => ("created", None),
                ChangeKind::Deleted => ("deleted", None),
                ChangeKind::Renamed { from } => ("renamed", Some(from.to_string())),
            };
            ChangedFile { path: file.path.to_string(), kind: kind.to_owned(), from }
        });
        Event::Commit {
            commit_id: commit.id.0.clone(),
            run_id: commit.run.clone(),
            label: commit.label.clone(),
            files: files.collect(),
            notes: commit.notes.clone(),
        }
    }

    /// The id of a question to the user.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Event::PermissionRequest { request_id, .. } | Event::InputRequest { request_id, .. } => {
                Some(request_id)
            }
            _ => None,
        }
    }

    /// Whether the event changes the visible state of the session.
    pub(crate) fn changes_state(&self) -> bool {
        match self {
            Event::AgentStart { .. }
            | Event::TurnStart { .. }
            | Event::MessageStart { .. }
            | Event::MessageUpdate { .. }
            | Event::MessageEnd { .. }
            | Event::ToolExecutionStart { .. }
            | Event::ToolExecutionEnd { .. }
            | Event::AgentEnd { .. }
            | Event::PermissionRequest { .. }
            | Event::PermissionResolved { .. }
            | Event::InputRequest { .. }
            | Event::InputResolved { .. }
            | Event::QueueUpdate { .. }
            | Event::Reloaded { .. }
            | Event::ModelChange { .. }
            | Event::ThinkingLevelChange { .. }
            | Event::CustomMessage { .. }
            | Event::CompactionStart { .. }
            | Event::CompactionEnd { .. }
            | Event::Plan { .. }
            | Event::Commit { .. }
            | Event::Diagnostics { .. }
            | Event::ServerStatus { .. }
            | Event::DebugState { .. }
            | Event::TranscriptReplaced { .. } => true,
            Event::ToolExecutionUpdate { .. }
            | Event::TurnEnd { .. }
            | Event::Notice { .. }
            | Event::RetryStart { .. }
            | Event::RetryEnd { .. }
            | Event::AgentSettled { .. } => false,
        }
    }
}
