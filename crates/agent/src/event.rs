//! What surfaces hear of a session: events in numbered envelopes (`docs/formats/event-envelope.md`).

use futures_util::future::BoxFuture;
use llm::{Content, Message, StreamEvent, ThinkingLevel, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use workspace::{ChangeKind, Commit, RunId};

use crate::tool::ToolError;

/// Hears the events of a session, in order.
pub trait EventSink: Send + Sync {
    /// Takes one event. The next one waits for it, at most 5 s; a sink that takes longer, or panics, hears nothing more
    /// and a warning is logged.
    fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()>;

    /// A run begins, or goes on as the sink comes; its events follow. `cancel` fires when the run is cancelled: it is the token that
    /// the model and the tools have. Must not block.
    fn run_begins(&self, cancel: &CancellationToken) {
        let _ = cancel;
    }
}

/// An event with its place in the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// The session.
    pub session_id: String,
    /// Rises by one with every event of the session, from 1.
    pub seq: u64,
    /// Rises by one with every event that changes what a surface shows of the session's state.
    pub state_version: u64,
    /// Milliseconds since the Unix epoch.
    pub at: u64,
    /// What happened.
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields are explained in docs/formats/event-envelope.md")]
pub enum Event {
    /// First of a run.
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
    /// A turn begins: a request to the model will be made.
    TurnStart { turn_index: u32 },
    /// A message begins. Whole for all but the assistant's.
    MessageStart {
        message_id: String,
        role: MessageRole,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Message>,
    },
    /// More of the assistant's message; `update` is never `start`, `done` or `error`.
    MessageUpdate { message_id: String, update: StreamEvent },
    /// A message is whole and in the transcript.
    MessageEnd { message_id: String, message: Message },
    /// A tool call is taken up.
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
    /// A tool call has its result. `duration_ms` only if it was run.
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
    /// A turn ends; `tool_results` are the ids of its result messages, in the model's order.
    TurnEnd { turn_index: u32, tool_results: Vec<String>, has_tool_calls: bool, should_continue: bool },
    /// Last of a run.
    AgentEnd {
        run_id: RunId,
        reason: TerminationReason,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        total_turns: u32,
        usage: Usage,
        duration_ms: u64,
    },
    /// The person is asked.
    PermissionRequest { request_id: String, kind: String, title: String, detail: String, files: Vec<String> },
    /// The question was answered, or nobody could.
    PermissionResolved { request_id: String, answer: PermissionAnswer },
    /// Something a person should know; `level` is `info` or `warning`.
    Notice { level: String, text: String },
    /// A request that did not stream yet, or a turn that failed while it streamed, is made again after the delay.
    RetryStart { attempt: u32, max: u32, delay_ms: u64, error: String },
    /// A failed turn is tried again, or was given up.
    RetryEnd { attempt: u32, success: bool },
    /// What lies around the session has changed: what of it counts from this turn on, and what could not be taken.
    Reloaded { changed: Vec<String>, problems: Vec<String> },
    /// Another model from the next request on.
    ModelChange { provider: String, model: String },
    /// Another level of thinking from the next request on.
    ThinkingLevelChange { level: Option<ThinkingLevel> },
    /// A message that no model is sent, from the program that embeds the session.
    CustomMessage { message_id: String, kind: String, data: Value },
    /// The context is put into fewer words. `reason` is `threshold`, `overflow` or `command`.
    CompactionStart { reason: String, tokens: u64 },
    /// It was, or was not: the summary stands for all but the newest `kept` messages.
    CompactionEnd {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<Message>,
        kept: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The steps of the work and how far they are, all of them each time.
    Plan { steps: Vec<PlanStep> },
    /// The transcript is another one: cleared, or of another branch.
    TranscriptReplaced { messages: Vec<Message> },
    /// A call of this run changed files, all or nothing. Comes before the end of the call.
    Commit { commit_id: String, run_id: RunId, label: String, files: Vec<ChangedFile>, notes: Vec<String> },
    /// What language servers say of a change, as far as it is known by now; what is `pending` comes with a later call.
    Diagnostics {
        tool_call_id: String,
        introduced: Vec<Problem>,
        fixed: Vec<Problem>,
        pending: usize,
        servers: Vec<String>,
    },
    /// A language server does something else than before: `state` is `starting`, `running`, `crashed` or `stopped`.
    ServerStatus {
        name: String,
        root: String,
        state: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// A debugged program does something else than before: `state` is `launching`, `configuring`, `running`, `stopped` or
    /// `terminated`.
    DebugState {
        session: String,
        state: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// How many messages wait in the queues.
    QueueUpdate { steering: usize, follow_up: usize },
    /// Nothing remains to do: nothing else was asked for while a run or a compaction by hand went on. What is queued waits for the next.
    AgentSettled { aborted: bool },
}

/// Whose a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
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
    /// Where it is now, or was.
    pub path: String,
    /// `modified`, `created`, `deleted` or `renamed`.
    pub kind: String,
    /// Where it was, when it was renamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// What a language server finds wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The file.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// `error`, `warning`, `information` or `hint`.
    pub severity: String,
    /// In the server's words.
    pub message: String,
    /// Who says so.
    pub server: String,
}

/// A step of the work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep {
    /// What is to be done.
    pub text: String,
    /// How far it is.
    #[serde(default)]
    pub status: StepStatus,
}

/// How far a step is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum StepStatus {
    #[default]
    Pending,
    Active,
    Done,
}

/// How a question to the person was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum PermissionAnswer {
    Once,
    Session,
    Always,
    No,
    /// Nobody could be asked.
    Nobody,
}

/// Progress of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Update {
    /// What the content is.
    pub update_type: UpdateKind,
    /// The text.
    pub content: String,
    /// From 0 to 100, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_percent: Option<u8>,
}

/// What the content of an update is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpdateKind {
    /// Output of a program.
    Stdout,
    /// Error output of a program.
    Stderr,
    /// What the tool is doing.
    Progress,
    /// A part of the result.
    PartialResult,
}

/// Why a run ended. In the order in which they count when several are true at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TerminationReason {
    /// It was cancelled.
    Aborted,
    /// The surface went away; the state is kept and the session can be resumed.
    Disconnected,
    /// The model failed, or the session's file could not be written.
    Error,
    /// The run took longer than it may.
    TimeoutTotal,
    /// Nothing came from the model for as long as its clocks allow.
    TimeoutIdle,
    /// The run had as many turns as it may.
    TurnLimit,
    /// Every result of the last batch said that the run may end.
    TerminatedByTools,
    /// The model was done.
    NoToolCalls,
}

impl Event {
    /// Whether it tells of what goes on beside the conversation, which others than the loop know.
    pub fn is_beside(&self) -> bool {
        matches!(
            self,
            Event::Commit { .. }
                | Event::Diagnostics { .. }
                | Event::ServerStatus { .. }
                | Event::DebugState { .. }
                | Event::Notice { .. }
        )
    }

    /// What a commit is told as.
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

    /// Whether a surface shows something else of the session's state after it.
    pub fn changes_state(&self) -> bool {
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
