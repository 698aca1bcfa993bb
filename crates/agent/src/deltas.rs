//! Secrets in what a model streams. A secret may come in two deltas, so what may be the beginning of one waits for the next;
//! the deltas of a block are together the block's redacted text.

use std::borrow::Cow;

use llm::StreamEvent;
use workspace::{Pieces, Redactor};

use crate::event::{Event, MessageRole};

/// What is held back of the message that streams, for each of its blocks.
#[derive(Debug, Default)]
pub(crate) struct Deltas {
    message_id: String,
    open: Vec<Open>,
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
