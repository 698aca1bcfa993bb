//! A message put together from the events of its stream, so that decoders, streams and surfaces agree on
//! what a partial message is. Pure; costs are linear in the deltas.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::message::{AssistantMessage, Content, ErrorKind, StopReason, ToolCall};
use crate::partial_json::PartialJson;
use crate::stream::StreamEvent;

/// A message as far as its events have come.
#[derive(Debug, Clone)]
pub struct MessageFold {
    message: AssistantMessage,
    arguments: HashMap<usize, PartialJson>,
    /// Whether the provider took the request: from then on it may cost something.
    is_accepted: bool,
}

impl MessageFold {
    /// Begins with an empty message.
    pub fn new(empty: AssistantMessage) -> MessageFold {
        MessageFold { message: empty, arguments: HashMap::new(), is_accepted: false }
    }

    /// Takes the next event. Deltas of a block that has not begun are dropped.
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

    /// The message as it is now; the arguments of calls still streaming as far as they are known.
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

    /// The message ended by a failure or by cancelling: what came is kept, and a call whose arguments
    /// were still streaming says that they are cut.
    pub fn ended(&self, error: Option<(ErrorKind, String)>) -> AssistantMessage {
        let mut message = self.snapshot();
        for index in self.arguments.keys() {
            if let Some(Content::ToolCall(call)) = message.content.get_mut(*index) {
                call.arguments_error = Some("the arguments were cut off".to_owned());
            }
        }
        // What a provider counts stands at the end of what it sends, with or after its word for the end.
        if message.raw_stop_reason.is_none() {
            use ErrorKind::{Internal, Network, Timeout};
            let is_broken_off = matches!(error, None | Some((Internal | Network | Timeout, _)));
            // What is refused before anything came of it costs nothing.
            let has_begun = message.response_id.is_some() || self.is_accepted && is_broken_off;
            message.note_cut(has_begun);
        } else {
            message.note_uncounted();
        }
        match error {
            Some((kind, error)) => {
                message.stop_reason = StopReason::Error;
                message.error_kind = Some(kind);
                message.error_message = Some(error);
            }
            None => message.stop_reason = StopReason::Aborted,
        }
        message
    }

    /// The message so far, without the arguments of calls still streaming.
    pub fn message(&self) -> &AssistantMessage {
        &self.message
    }

    /// For what is not content: usage, ids, the stop reason.
    pub fn message_mut(&mut self) -> &mut AssistantMessage {
        &mut self.message
    }

    fn begin(&mut self, index: usize, content: Content) {
        // Protocols number blocks as they begin, so the next index is the only one that can be new.
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
    fn what_is_broken_off_after_it_was_taken_is_not_counted_and_what_is_refused_is_free() {
        let ended = |events: &[StreamEvent], error: Option<ErrorKind>| {
            let mut fold = MessageFold::new(AssistantMessage::empty("a", "p", "m"));
            events.iter().for_each(|event| fold.apply(event));
            fold.ended(error.map(|kind| (kind, "why".to_owned()))).usage.uncounted
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
