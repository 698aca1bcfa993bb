//! Builder of a message from its stream events.
//!
//! Decoders, streams and surfaces share it, so that they agree on partial messages. It is pure, and
//! its cost is linear in the deltas.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::message::{AssistantMessage, Content, ErrorKind, ModelError, StopReason, ToolCall};
use crate::partial_json::PartialJson;
use crate::stream::StreamEvent;

#[derive(Debug, Clone)]
pub struct MessageBuilder {
    message: AssistantMessage,
    arguments: HashMap<usize, PartialJson>,
    /// Whether the provider accepted the request, which may then cost something.
    is_accepted: bool,
}

impl MessageBuilder {
    /// Starts with an empty message.
    pub fn new(empty: AssistantMessage) -> MessageBuilder {
        MessageBuilder { message: empty, arguments: HashMap::new(), is_accepted: false }
    }

    /// Applies the next event. Deltas of a block that has not begun are dropped.
    pub fn apply(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::Retrying { .. } => {}
            StreamEvent::Start => self.is_accepted = true,
            StreamEvent::TextStart { index } => self.begin(*index, Content::text("")),
            StreamEvent::ThinkingStart { index } => self.begin(
                *index,
                Content::Thinking { thinking: String::new(), thinking_signature: None, redacted: false },
            ),
            StreamEvent::ToolCallStart { index, id, name } => {
                self.arguments.insert(*index, PartialJson::default());
                self.begin(
                    *index,
                    Content::ToolCall(ToolCall {
                        id: id.clone(),
                        name: name.clone(),
                        arguments: Map::new(),
                        arguments_error: None,
                        thought_signature: None,
                    }),
                );
            }
            StreamEvent::TextDelta { index, delta } | StreamEvent::ThinkingDelta { index, delta } => {
                match self.message.content.get_mut(*index) {
                    Some(Content::Text { text, .. }) => text.push_str(delta),
                    Some(Content::Thinking { thinking, .. }) => thinking.push_str(delta),
                    _ => {}
                }
            }
            StreamEvent::ToolCallDelta { index, delta } => {
                if let Some(arguments) = self.arguments.get_mut(index) {
                    arguments.push(delta);
                }
            }
            StreamEvent::TextEnd { index, content } | StreamEvent::ThinkingEnd { index, content } => {
                self.replace(*index, content.clone());
            }
            StreamEvent::ToolCallEnd { index, call } => {
                self.arguments.remove(index);
                self.replace(*index, Content::ToolCall(call.clone()));
            }
            StreamEvent::Done { message } | StreamEvent::Error { message } => {
                self.arguments.clear();
                self.message = AssistantMessage::clone(message);
            }
        }
    }

    /// The current message, with the known part of streaming arguments.
    pub fn snapshot(&self) -> AssistantMessage {
        let mut message = self.message.clone();
        for (index, arguments) in &self.arguments {
            if let Some(Content::ToolCall(call)) = message.content.get_mut(*index)
                && let Some(Value::Object(known)) = arguments.value()
            {
                call.arguments = known;
            }
        }
        message
    }

    /// Builds the message that an error or a cancellation ends.
    ///
    /// Keeps received parts, and marks a call whose arguments were still streaming as cut.
    pub fn ended(&self, error: Option<ModelError>) -> AssistantMessage {
        let mut message = self.snapshot();
        for index in self.arguments.keys() {
            if let Some(Content::ToolCall(call)) = message.content.get_mut(*index) {
                call.arguments_error = Some("the arguments were cut off".to_owned());
            }
        }
        // Providers report counts at the end, with or after the stop reason.
        if message.raw_stop_reason.is_none() {
            use ErrorKind::{Internal, Network, Timeout};
            let is_broken_off =
                error.as_ref().is_none_or(|error| matches!(error.kind, Internal | Network | Timeout));
            // A rejected request costs nothing.
            let has_begun = message.response_id.is_some() || self.is_accepted && is_broken_off;
            message.note_cut(has_begun);
        } else {
            message.note_uncounted();
        }
        match error {
            Some(error) => {
                message.stop_reason = StopReason::Error;
                message.error_kind = Some(error.kind);
                message.error_message = Some(error.message);
            }
            None => message.stop_reason = StopReason::Aborted,
        }
        message
    }

    /// The current message, without streaming arguments.
    pub fn message(&self) -> &AssistantMessage {
        &self.message
    }

    /// The message under construction, to set usage, ids and the stop reason.
    pub(crate) fn message_mut(&mut self) -> &mut AssistantMessage {
        &mut self.message
    }

    fn begin(&mut self, index: usize, content: Content) {
        // Protocols number blocks as they begin, so only the next index can be new.
        if index == self.message.content.len() {
            self.message.content.push(content);
        }
    }

    fn replace(&mut self, index: usize, content: Content) {
        if let Some(slot) = self.message.content.get_mut(index) {
            *slot = content;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_answers_are_uncounted_and_rejected_ones_free() {
        let ended = |events: &[StreamEvent], error: Option<ErrorKind>| {
            let mut builder = MessageBuilder::new(AssistantMessage::empty("a", "p", "m"));
            events.iter().for_each(|event| builder.apply(event));
            builder.ended(error.map(|kind| ModelError::new(kind, "why"))).usage.uncounted
        };
        let text = [StreamEvent::Start, StreamEvent::TextStart { index: 0 }];
        for (kind, taken) in [
            (None, true),
            (Some(ErrorKind::Network), true),
            (Some(ErrorKind::Timeout), true),
            (Some(ErrorKind::RateLimit), false),
            (Some(ErrorKind::Unavailable), false),
        ] {
            assert!(!ended(&[], kind), "{kind:?}");
            assert_eq!(ended(&[StreamEvent::Start], kind), taken, "{kind:?}");
            assert!(ended(&text, kind), "{kind:?}");
        }
    }
}
