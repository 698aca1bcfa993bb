//! The flat list: the eleven kinds of events that some surfaces want, as a pure function over ours, and the names that
//! remote clients know them by. Nothing is sent here.

use llm::{Content, Message, StopReason, StreamEvent, ThinkingLevel, Usage};
use serde::Serialize;
use serde_json::Value;

use crate::event::{Envelope, Event, MessageRole, TerminationReason, UpdateKind};
use crate::tool::ToolError;

/// One of the eleven.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields are those of docs/formats/event-envelope.md")]
pub enum Flat {
    AgentStart {
        session_id: String,
        model: String,
        tools: Vec<String>,
        thinking_level: Option<ThinkingLevel>,
        #[serde(skip_serializing_if = "Option::is_none")]
        resumed_from: Option<String>,
        timestamp: u64,
    },
    TurnStart {
        turn_id: String,
        turn_index: u32,
        messages: usize,
    },
    MessageStart {
        message_id: String,
        role: MessageRole,
        model: Option<String>,
        usage: Option<Usage>,
    },
    TextDelta {
        message_id: String,
        delta: String,
        index: usize,
    },
    ToolExecutionStart {
        tool_call_id: String,
        tool_name: String,
        input: Value,
        message_id: String,
    },
    ToolExecutionUpdate {
        tool_call_id: String,
        update_type: UpdateKind,
        content: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        progress_percent: Option<u8>,
    },
    ToolExecutionEnd {
        tool_call_id: String,
        success: bool,
        output: Vec<Content>,
        duration_ms: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<ToolError>,
    },
    MessageEnd {
        message_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        stop_reason: Option<FlatStop>,
        usage: Option<Usage>,
    },
    TurnEnd {
        turn_id: String,
        has_tool_calls: bool,
        should_continue: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        termination_reason: Option<&'static str>,
    },
    Error {
        code: &'static str,
        message: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        context: Option<String>,
        recoverable: bool,
    },
    AgentEnd {
        session_id: String,
        total_turns: u32,
        total_tokens: u64,
        duration_ms: u64,
        termination_reason: &'static str,
    },
}

/// Why a message ended, in the words of the flat list; left out for what failed or was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum FlatStop {
    EndTurn,
    ToolUse,
    MaxTokens,
    StopSequence,
}

/// What the list keeps in mind from one event to the next.
#[derive(Debug, Clone, Default)]
pub struct Flattener {
    run_id: String,
    model: String,
    messages: usize,
    turn_index: u32,
    /// A turn that ended the run says why only once the run says it.
    last_turn: Option<Flat>,
}

/// The flat list of these events, which begin with a run's first.
pub fn flatten<'a>(envelopes: impl IntoIterator<Item = &'a Envelope>) -> Vec<Flat> {
    let mut flattener = Flattener::default();
    envelopes.into_iter().flat_map(|envelope| flattener.step(envelope)).collect()
}

impl Flattener {
    /// What the next event comes to: none, one, or several of the eleven.
    pub fn step(&mut self, envelope: &Envelope) -> Vec<Flat> {
        let session_id = envelope.session_id.clone();
        let turn_id = |this: &Flattener| format!("{}-{}", this.run_id, this.turn_index);
        vec![match &envelope.event {
            Event::AgentStart { run_id, model, tools, messages, thinking_level, resumed_from } => {
                *self = Flattener {
                    run_id: run_id.0.clone(),
                    model: model.clone(),
                    messages: *messages,
                    ..Flattener::default()
                };
                Flat::AgentStart {
                    session_id,
                    model: model.clone(),
                    tools: tools.clone(),
                    thinking_level: *thinking_level,
                    resumed_from: resumed_from.clone(),
                    timestamp: envelope.at,
                }
            }
            Event::TurnStart { turn_index } => {
                self.turn_index = *turn_index;
                Flat::TurnStart { turn_id: turn_id(self), turn_index: *turn_index, messages: self.messages }
            }
            Event::ModelChange { model, .. } => {
                self.model.clone_from(model);
                return Vec::new();
            }
            Event::MessageStart { message_id, role, message } => {
                let usage = match message {
                    Some(Message::Assistant(message)) => Some(message.usage),
                    _ => None,
                };
                let model = (*role == MessageRole::Assistant).then(|| self.model.clone());
                Flat::MessageStart { message_id: message_id.clone(), role: *role, model, usage }
            }
            Event::MessageUpdate { message_id, update: StreamEvent::TextDelta { index, delta } } => {
                Flat::TextDelta { message_id: message_id.clone(), delta: delta.clone(), index: *index }
            }
            Event::MessageEnd { message_id, message } => {
                self.messages += 1;
                let (stop_reason, usage) = match message {
                    Message::Assistant(message) => (stop(message), Some(message.usage)),
                    _ => (None, None),
                };
                Flat::MessageEnd { message_id: message_id.clone(), stop_reason, usage }
            }
            Event::ToolExecutionStart { tool_call_id, tool_name, input, message_id, .. } => {
                Flat::ToolExecutionStart {
                    tool_call_id: tool_call_id.clone(),
                    tool_name: tool_name.clone(),
                    input: input.clone(),
                    message_id: message_id.clone(),
                }
            }
            Event::ToolExecutionUpdate { tool_call_id, update } => Flat::ToolExecutionUpdate {
                tool_call_id: tool_call_id.clone(),
                update_type: update.update_type,
                content: update.content.clone(),
                progress_percent: update.progress_percent,
            },
            Event::ToolExecutionEnd { tool_call_id, is_error, content, error, duration_ms, .. } => {
                Flat::ToolExecutionEnd {
                    tool_call_id: tool_call_id.clone(),
                    success: !is_error,
                    output: content.clone(),
                    duration_ms: *duration_ms,
                    error: error.clone(),
                }
            }
            Event::TurnEnd { has_tool_calls, should_continue, .. } => {
                let end = Flat::TurnEnd {
                    turn_id: turn_id(self),
                    has_tool_calls: *has_tool_calls,
                    should_continue: *should_continue,
                    termination_reason: None,
                };
                if *should_continue {
                    end
                } else {
                    self.last_turn = Some(end);
                    return Vec::new();
                }
            }
            Event::AgentEnd { reason, error, total_turns, usage, duration_ms, .. } => {
                return self.end(session_id, *reason, error.as_ref(), *total_turns, usage, *duration_ms);
            }
            _ => return Vec::new(),
        }]
    }

    fn end(
        &mut self,
        session_id: String,
        reason: TerminationReason,
        error: Option<&String>,
        total_turns: u32,
        usage: &Usage,
        duration_ms: u64,
    ) -> Vec<Flat> {
        let reason_name = flat_reason(reason);
        let mut out = Vec::new();
        if let Some(Flat::TurnEnd { turn_id, has_tool_calls, should_continue, .. }) = self.last_turn.take() {
            let termination_reason = Some(reason_name);
            out.push(Flat::TurnEnd { turn_id, has_tool_calls, should_continue, termination_reason });
        }
        if let Some(error) = error {
            // A session can be gone on with after any of them.
            let recoverable = reason != TerminationReason::TurnLimit;
            // The run is over as runs are, and what it answered is not.
            let is_over = reason == TerminationReason::NoToolCalls;
            let code = if is_over { "incomplete_answer" } else { reason_name };
            out.push(Flat::Error { code, message: error.clone(), context: None, recoverable });
        }
        out.push(Flat::AgentEnd {
            session_id,
            total_turns,
            total_tokens: usage.total_tokens,
            duration_ms,
            termination_reason: reason_name,
        });
        out
    }
}

fn stop(message: &llm::AssistantMessage) -> Option<FlatStop> {
    let is_sequence = matches!(message.raw_stop_reason.as_deref(), Some("stop_sequence"));
    match message.stop_reason {
        StopReason::Stop if is_sequence => Some(FlatStop::StopSequence),
        StopReason::Stop => Some(FlatStop::EndTurn),
        StopReason::ToolUse => Some(FlatStop::ToolUse),
        StopReason::Length => Some(FlatStop::MaxTokens),
        StopReason::Error | StopReason::Aborted => None,
    }
}

/// A reason as the flat list names it.
pub fn flat_reason(reason: TerminationReason) -> &'static str {
    match reason {
        TerminationReason::Aborted => "abort_signal",
        TerminationReason::Disconnected => "gateway_disconnected",
        TerminationReason::Error => "error",
        TerminationReason::TimeoutTotal => "timeout_48h",
        TerminationReason::TimeoutIdle => "idle_timeout_120s",
        TerminationReason::TurnLimit => "turn_limit",
        TerminationReason::TerminatedByTools => "terminated_by_tools",
        TerminationReason::NoToolCalls => "no_tool_calls",
    }
}

/// What a remote client is told of an event: the name it knows it by, or that it is not told. Every kind is decided here.
pub fn remote_name(event: &Event) -> Remote {
    match event {
        Event::MessageUpdate { update, .. } => match update {
            StreamEvent::TextDelta { .. } => Remote::Told("session.message.delta"),
            StreamEvent::ThinkingDelta { .. } => Remote::Told("session.thinking.delta"),
            _ => Remote::Dropped("the whole message follows"),
        },
        Event::MessageStart { .. } => Remote::Told("session.message.started"),
        Event::MessageEnd { .. } => Remote::Told("session.message.ended"),
        Event::ToolExecutionStart { .. } => Remote::Told("session.tool.started"),
        Event::ToolExecutionUpdate { .. } => Remote::Told("session.tool.updated"),
        Event::ToolExecutionEnd { .. } => Remote::Told("session.tool.ended"),
        Event::AgentStart { .. } | Event::AgentEnd { .. } | Event::AgentSettled { .. } => {
            Remote::Told("session.status.changed")
        }
        Event::TurnStart { .. } | Event::TurnEnd { .. } => Remote::Dropped("messages and tools tell it"),
        Event::PermissionRequest { .. } => Remote::Told("session.permission.requested"),
        Event::PermissionResolved { .. } => Remote::Told("session.permission.resolved"),
        Event::Notice { .. } => Remote::Told("session.notice"),
        Event::RetryStart { .. } | Event::RetryEnd { .. } => Remote::Told("session.retry.changed"),
        Event::CompactionStart { .. } | Event::CompactionEnd { .. } => {
            Remote::Told("session.compaction.changed")
        }
        Event::ModelChange { .. } | Event::ThinkingLevelChange { .. } | Event::Reloaded { .. } => {
            Remote::Told("session.settings.changed")
        }
        Event::Commit { .. } => Remote::Told("session.commit"),
        Event::Diagnostics { .. } => Remote::Told("session.diagnostics"),
        Event::ServerStatus { .. } => Remote::Told("session.server.changed"),
        Event::DebugState { .. } => Remote::Told("session.debug.changed"),
        Event::Plan { .. } => Remote::Told("session.plan.changed"),
        Event::CustomMessage { .. } => Remote::Dropped("it is for who embeds the session"),
        Event::TranscriptReplaced { .. } => Remote::Told("session.transcript.replaced"),
        Event::QueueUpdate { .. } => Remote::Told("session.queue.changed"),
    }
}

/// Whether a remote client is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remote {
    /// Under this name.
    Told(&'static str),
    /// It is not, for this reason.
    Dropped(&'static str),
}
