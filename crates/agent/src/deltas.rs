//! Secrets in what a model streams. A secret may come in two deltas, so what may be the beginning of one waits for the next;
//! the deltas of a block are together the block's redacted text.

use std::borrow::Cow;

use llm::StreamEvent;
use workspace::{Pieces, Redactor};

use crate::event::{Event, MessageRole};
use crate::redact::redacted;

/// What is held back of the message that streams, for each of its blocks.
#[derive(Debug, Default)]
pub(crate) struct Deltas {
    message_id: String,
    open: Vec<Open>,
}

/// What a model streams, without the secrets that a redactor knows, for one who hears it outside of a session.
#[derive(Debug)]
pub struct StreamWithoutSecrets {
    redactor: Redactor,
    deltas: Deltas,
}

impl StreamWithoutSecrets {
    /// The next stream.
    pub fn new(redactor: Redactor) -> StreamWithoutSecrets {
        StreamWithoutSecrets { redactor, deltas: Deltas::default() }
    }

    /// What can be told now; what may be the beginning of a secret waits.
    pub fn pass(&mut self, update: StreamEvent) -> Vec<StreamEvent> {
        let mut told = Vec::new();
        if matches!(update, StreamEvent::Done { .. } | StreamEvent::Error { .. }) {
            self.deltas.finish(&self.redactor, |_| true, &mut told);
        }
        let event = Event::MessageUpdate { message_id: String::new(), update };
        let (before, event) = self.deltas.pass(&self.redactor, event);
        told.extend(before);
        told.extend(event);
        let updates = told.into_iter().filter_map(|event| match event {
            Event::MessageUpdate { update, .. } => Some(update),
            _ => None,
        });
        // Of deltas that are looked at already nothing is found.
        updates.map(|update| redacted(&self.redactor, &update).unwrap_or(update)).collect()
    }
}

#[derive(Debug)]
struct Open {
    index: usize,
    kind: Kind,
    pieces: Pieces,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    ToolCall,
}

impl Deltas {
    /// The event as it can be told now, `None` when all of it waits; and before it, what waited and does so no longer.
    pub fn pass(&mut self, redactor: &Redactor, mut event: Event) -> (Vec<Event>, Option<Event>) {
        let mut before = Vec::new();
        match &mut event {
            Event::MessageUpdate { message_id, update } => {
                let (index, kind, delta) = match update {
                    StreamEvent::TextDelta { index, delta } => (*index, Kind::Text, delta),
                    StreamEvent::ThinkingDelta { index, delta } => (*index, Kind::Thinking, delta),
                    StreamEvent::ToolCallDelta { index, delta } => (*index, Kind::ToolCall, delta),
                    StreamEvent::TextEnd { index, .. }
                    | StreamEvent::ThinkingEnd { index, .. }
                    | StreamEvent::ToolCallEnd { index, .. } => {
                        let index = *index;
                        self.finish(redactor, |open| open.index == index, &mut before);
                        return (before, Some(event));
                    }
                    _ => return (before, Some(event)),
                };
                let is_told = self.push(redactor, index, kind, message_id, delta);
                return (before, is_told.then_some(event));
            }
            Event::MessageStart { role: MessageRole::Assistant, .. } => self.open.clear(),
            Event::MessageEnd { message: llm::Message::Assistant(_), .. } => {
                self.finish(redactor, |_| true, &mut before);
            }
            _ => {}
        }
        (before, Some(event))
    }

    /// Leaves of `delta` what can be told; false when that is nothing.
    fn push(
        &mut self,
        redactor: &Redactor,
        index: usize,
        kind: Kind,
        message_id: &str,
        delta: &mut String,
    ) -> bool {
        let is_it = |open: &Open| open.index == index && open.kind == kind;
        let at = match self.open.iter().position(is_it) {
            Some(at) => at,
            None => {
                message_id.clone_into(&mut self.message_id);
                self.open.push(Open { index, kind, pieces: Pieces::default() });
                self.open.len() - 1
            }
        };
        let ready = match self.open[at].pieces.push(redactor, delta) {
            Cow::Borrowed(ready) if ready.len() == delta.len() => return true,
            ready => ready.into_owned(),
        };
        *delta = ready;
        !delta.is_empty()
    }

    /// Tells what waited in the blocks that end.
    fn finish(&mut self, redactor: &Redactor, ends: impl Fn(&Open) -> bool, told: &mut Vec<Event>) {
        for Open { index, kind, mut pieces } in self.open.extract_if(.., |open| ends(open)) {
            let delta = pieces.finish(redactor);
            if delta.is_empty() {
                continue;
            }
            let update = match kind {
                Kind::Text => StreamEvent::TextDelta { index, delta },
                Kind::Thinking => StreamEvent::ThinkingDelta { index, delta },
                Kind::ToolCall => StreamEvent::ToolCallDelta { index, delta },
            };
            told.push(Event::MessageUpdate { message_id: self.message_id.clone(), update });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_streams_has_no_secret_however_it_is_parted() {
        let redactor = Redactor::new([("A_KEY".to_owned(), "key-of-the-proxy".to_owned())]);
        let mut stream = StreamWithoutSecrets::new(redactor);
        let delta = |delta: &str| StreamEvent::TextDelta { index: 0, delta: delta.to_owned() };
        let mut message = llm::AssistantMessage::empty("a", "p", "key-of-the-proxy");
        message.content = vec![llm::Content::text("it is key-of-the-proxy")];
        message.response_id = Some("id-key-of-the-proxy".to_owned());
        let end = StreamEvent::TextEnd { index: 0, content: message.content[0].clone() };
        let mut told = Vec::new();
        let start = StreamEvent::TextStart { index: 0 };
        for event in [start, delta("it is key-of"), delta("-the-proxy"), end, StreamEvent::end(message)] {
            told.extend(stream.pass(event));
        }
        let text: String = told
            .iter()
            .filter_map(|event| match event {
                StreamEvent::TextDelta { delta, .. } => Some(delta.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(text, "it is [redacted:A_KEY]");
        assert!(!serde_json::to_string(&told).unwrap().contains("key-of"), "{told:?}");
        assert!(matches!(told.last(), Some(StreamEvent::Done { .. })));
    }
}
