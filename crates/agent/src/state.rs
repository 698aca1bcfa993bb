//! What a surface shows of a session at any moment: the fold of its events, so that who hears the events and who looks
//! at the state see the same.

use llm::{AssistantMessage, Message, MessageFold, ThinkingLevel};

use crate::event::{Event, MessageRole, PlanStep};
use crate::messages::Messages;

/// What a surface shows of a session at any moment.
#[derive(Debug, Clone, Default)]
pub struct SessionState {
    /// Whether a run is going on.
    pub running: bool,
    /// Whether the model is answering.
    pub streaming: bool,
    /// The turn of the run, from 1; 0 when idle.
    pub turns: u32,
    /// The instructions of the next request. No event tells them.
    pub instructions: String,
    /// The model's id, as the newest request was made with it.
    pub model: String,
    /// How much it is asked to think.
    pub thinking_level: Option<ThinkingLevel>,
    /// The tools the model knows: those it had when the newest run began, and those it found since. Where they became others between
    /// turns ([`crate::Session::set_tools`], a reload) no event tells it.
    pub tools: Vec<String>,
    /// The transcript.
    pub messages: Messages,
    /// The ids of the calls that have no result yet.
    pub pending_calls: Vec<String>,
    /// How many messages wait in the queues: steering, follow-ups.
    pub queued: (usize, usize),
    /// The steps of the work, as they were shown last.
    pub plan: Vec<PlanStep>,
    /// Whether the context is being put into fewer words.
    pub compacting: bool,
    /// What the last run failed with; `None` once the next begins.
    pub error: Option<String>,
    /// The newest event that counts for the state.
    pub version: u64,
    partial: Option<Partial>,
}

/// A message on its way.
#[derive(Debug, Clone)]
struct Partial {
    message_id: String,
    fold: MessageFold,
}

impl SessionState {
    /// The message the model is writing, as far as it has come. Copies it.
    pub fn partial(&self) -> Option<(String, AssistantMessage)> {
        self.partial.as_ref().map(|it| (it.message_id.clone(), it.fold.snapshot()))
    }

    /// Takes the next event. What was before the first event it takes is not known to it.
    pub fn apply(&mut self, event: &Event) {
        if let Event::MessageEnd { message, .. } = event {
            self.messages.push(message.clone());
        }
        self.apply_but_messages(event);
        match event {
            Event::CompactionEnd { summary: Some(summary), kept, .. } => {
                self.messages = self.messages.look(|messages| {
                    let kept = &messages[messages.len() - (*kept).min(messages.len())..];
                    std::iter::once(summary.clone()).chain(kept.iter().cloned()).collect::<Vec<_>>().into()
                });
            }
            Event::TranscriptReplaced { messages } => self.messages = messages.clone().into(),
            _ => {}
        }
    }

    /// The same, where who calls it knows the messages better.
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
                    Some(Partial { message_id: message_id.clone(), fold: MessageFold::new(empty) });
            }
            Event::MessageUpdate { update, .. } => {
                if let Some(partial) = &mut self.partial {
                    partial.fold.apply(update);
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
            Event::QueueUpdate { steering, follow_up } => self.queued = (*steering, *follow_up),
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
