//! The visible state of a session, folded from its events.
//!
//! Listeners and pollers therefore agree on it.

use llm::{AssistantMessage, Message, MessageBuilder, ThinkingLevel};

use crate::events::{Event, MessageRole, PlanStep};
use crate::run::queues::QueuedMessageView;
use crate::transcript::Messages;

/// The visible state of a session after some of its events.
#[derive(Debug, Clone, Default)]
pub struct SessionState {
    /// Whether a run is active.
    pub running: bool,
    /// Whether the model is answering.
    pub streaming: bool,
    /// The turn of the run, from 1; 0 when idle.
    pub turns: u32,
    /// Instructions of the next request; no event reports them.
    pub instructions: String,
    /// Id of the model of the latest request.
    pub model: String,
    pub thinking_level: Option<ThinkingLevel>,
    /// Names of the tools that the model knows.
    ///
    /// Tools that change between turns ([`crate::Session::set_tools`], a reload) are updated without an
    /// event.
    pub tools: Vec<String>,
    pub messages: Messages,
    /// Ids of the calls without a result.
    pub pending_calls: Vec<String>,
    /// Queued messages: steering, follow-ups.
    pub queued: (usize, usize),
    pub queue: Vec<QueuedMessageView>,
    pub plan: Vec<PlanStep>,
    /// The events of the open questions.
    pub questions: Vec<Event>,
    /// Whether a compaction is running.
    pub compacting: bool,
    /// Error of the last run; `None` once the next one begins.
    pub error: Option<String>,
    /// Number of state-changing events so far.
    pub version: u64,
    partial: Option<Partial>,
}

/// A message that is being streamed.
#[derive(Debug, Clone)]
struct Partial {
    message_id: String,
    builder: MessageBuilder,
}

impl SessionState {
    /// A copy of the message that is being streamed, as far as received.
    pub fn partial(&self) -> Option<(String, AssistantMessage)> {
        self.partial.as_ref().map(|it| (it.message_id.clone(), it.builder.snapshot()))
    }

    /// Applies the next event. Earlier events are unknown to this value.
    pub fn apply(&mut self, event: &Event) {
        if let Event::MessageEnd { message, .. } = event {
            self.messages.push(message.clone());
        }
        self.apply_but_messages(event);
        match event {
            Event::CompactionEnd { summary: Some(summary), kept, .. } => {
                self.messages = self.messages.with(|messages| {
                    let kept = &messages[messages.len() - (*kept).min(messages.len())..];
                    std::iter::once(summary.clone()).chain(kept.iter().cloned()).collect::<Vec<_>>().into()
                });
            }
            Event::TranscriptReplaced { messages } => self.messages = messages.clone().into(),
            _ => {}
        }
    }

    /// Applies an event as [`SessionState::apply`] does, except its messages.
    ///
    /// Callers that have the messages use it.
    pub(crate) fn apply_but_messages(&mut self, event: &Event) {
        match event {
            Event::AgentStart { model, tools, thinking_level, .. } => {
                self.running = true;
                self.error = None;
                self.model.clone_from(model);
                self.tools.clone_from(tools);
                self.thinking_level = *thinking_level;
            }
            Event::TurnStart { turn_index } => self.turns = *turn_index,
            Event::ModelChange { model, .. } => self.model.clone_from(model),
            Event::ThinkingLevelChange { level } => self.thinking_level = *level,
            Event::MessageStart { message_id, role: MessageRole::Assistant, message } => {
                self.streaming = true;
                let empty = match message {
                    Some(Message::Assistant(whole)) => whole.clone(),
                    _ => AssistantMessage::empty("", "", &self.model),
                };
                self.partial =
                    Some(Partial { message_id: message_id.clone(), builder: MessageBuilder::new(empty) });
            }
            Event::MessageUpdate { update, .. } => {
                if let Some(partial) = &mut self.partial {
                    partial.builder.apply(update);
                }
            }
            Event::MessageEnd { message: Message::ToolResult(result), .. } => {
                let new = |name: &&String| !self.tools.contains(name);
                let new: Vec<String> = result.added_tools.iter().filter(new).cloned().collect();
                self.tools.extend(new);
            }
            Event::MessageEnd { message: Message::Assistant(_), .. } => {
                self.streaming = false;
                self.partial = None;
            }
            Event::ToolExecutionStart { tool_call_id, .. } => self.pending_calls.push(tool_call_id.clone()),
            Event::ToolExecutionEnd { tool_call_id, .. } => {
                self.pending_calls.retain(|id| id != tool_call_id);
            }
            Event::QueueUpdate { steering, follow_up, messages } => {
                self.queued = (*steering, *follow_up);
                self.queue.clone_from(messages);
            }
            Event::PermissionRequest { .. } | Event::InputRequest { .. } => {
                self.questions.push(event.clone())
            }
            Event::PermissionResolved { request_id, .. } | Event::InputResolved { request_id, .. } => {
                self.questions.retain(|question| question.request_id() != Some(request_id.as_str()));
            }
            Event::Plan { steps } => self.plan.clone_from(steps),
            Event::CompactionStart { .. } => self.compacting = true,
            Event::CompactionEnd { .. } => self.compacting = false,
            Event::AgentEnd { error, .. } => {
                self.running = false;
                self.streaming = false;
                self.turns = 0;
                self.partial = None;
                self.pending_calls.clear();
                self.error.clone_from(error);
            }
            _ => {}
        }
        self.version += u64::from(event.changes_state());
    }
}
