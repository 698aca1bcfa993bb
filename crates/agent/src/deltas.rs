//! Secrets in what a model streams. A secret may come in two deltas, so what may be the beginning of one waits for the next;
//! the deltas of a block are together the block's redacted text.

use std::borrow::Cow;
use std::sync::Arc;

use llm::{AssistantMessage, Content, StreamEvent};
use workspace::{Pieces, Redactor};

use crate::event::{Event, MessageRole};
use crate::redact::redacted;

/// What is held back of the message that streams, for each of its blocks.
#[derive(Debug, Default)]
pub(crate) struct Deltas {
    message_id: String,
    open: Vec<Open>,
}

/// What a model streams, without the secrets of the one who asked it, for another who hears it. Calls of tools stay as they are, since
/// they are carried out.
#[derive(Debug)]
pub struct StreamWithoutSecrets {
    answers: Redactor,
    errors: Redactor,
    deltas: Deltas,
}

impl StreamWithoutSecrets {
    /// The next stream; `answers` knows what text and thinking may not show, `errors` what the words of a failure may not.
    pub fn new(answers: Redactor, errors: Redactor) -> StreamWithoutSecrets {
        StreamWithoutSecrets { answers, errors, deltas: Deltas::default() }
    }

    /// What can be told now; what may be the beginning of a secret waits.
    pub fn pass(&mut self, update: StreamEvent) -> Vec<StreamEvent> {
        let mut told = Vec::new();
        if matches!(update, StreamEvent::Done { .. } | StreamEvent::Error { .. }) {
            self.deltas.finish(&self.answers, |_| true, &mut told);
        }
        if is_of_call(&update) {
            return vec![update];
        }
        let event = Event::MessageUpdate { message_id: String::new(), update };
        let (before, event) = self.deltas.pass(&self.answers, event);
        told.extend(before);
        told.extend(event);
        let updates = told.into_iter().filter_map(|event| match event {
            Event::MessageUpdate { update, .. } => Some(update),
            _ => None,
        });
        updates.map(|update| self.without_secrets(update)).collect()
    }

    fn without_secrets(&self, update: StreamEvent) -> StreamEvent {
        match update {
            StreamEvent::Retrying { attempt, max, delay_ms, error } => {
                let error = self.errors.redact(&error).into_owned();
                StreamEvent::Retrying { attempt, max, delay_ms, error }
            }
            StreamEvent::Done { message } => StreamEvent::Done { message: self.message(message) },
            StreamEvent::Error { message } => StreamEvent::Error { message: self.message(message) },
            // Of deltas that are looked at already nothing is found.
            update => redacted(&self.answers, &update).unwrap_or(update),
        }
    }

    fn message(&self, message: Arc<AssistantMessage>) -> Arc<AssistantMessage> {
        let mut out = redacted(&self.answers, message.as_ref()).unwrap_or_else(|| message.as_ref().clone());
        for (shown, said) in out.content.iter_mut().zip(&message.content) {
            if matches!(said, Content::ToolCall(_)) {
                *shown = said.clone();
            }
        }
        out.error_message = out.error_message.map(|error| self.errors.redact(&error).into_owned());
        Arc::new(out)
    }
}

fn is_of_call(update: &StreamEvent) -> bool {
    matches!(
        update,
        StreamEvent::ToolCallStart { .. }
            | StreamEvent::ToolCallDelta { .. }
            | StreamEvent::ToolCallEnd { .. }
    )
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
        let mut stream = StreamWithoutSecrets::new(redactor.clone(), redactor);
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

    #[test]
    fn a_call_is_heard_as_it_was_made_and_an_error_without_any_secret() {
        let known = |secrets: &[&str]| {
            Redactor::new(secrets.iter().map(|it| ("A_SECRET".to_owned(), (*it).to_owned())))
        };
        let mut stream =
            StreamWithoutSecrets::new(known(&["key-of-the-proxy"]), known(&["word-of-the-proxy"]));
        let arguments = r#"{"content":"key-of-the-proxy word-of-the-proxy"}"#;
        let call = llm::ToolCall {
            id: "c".to_owned(),
            name: "write".to_owned(),
            arguments: serde_json::from_str(arguments).unwrap(),
            arguments_error: None,
            thought_signature: None,
        };
        let mut message = llm::AssistantMessage::empty("a", "p", "m");
        message.content = vec![
            llm::Content::ToolCall(call.clone()),
            llm::Content::text("key-of-the-proxy word-of-the-proxy"),
        ];
        message.stop_reason = llm::StopReason::Error;
        message.error_message = Some("word-of-the-proxy is wrong".to_owned());
        let given = [
            StreamEvent::ToolCallStart { index: 0, id: "c".to_owned(), name: "write".to_owned() },
            StreamEvent::ToolCallDelta { index: 0, delta: arguments[..20].to_owned() },
            StreamEvent::ToolCallDelta { index: 0, delta: arguments[20..].to_owned() },
            StreamEvent::ToolCallEnd { index: 0, call },
        ];
        let told: Vec<_> = given.iter().flat_map(|event| stream.pass(event.clone())).collect();
        assert_eq!(told, given);
        let told = stream.pass(StreamEvent::end(message.clone()));
        message.content[1] = llm::Content::text("[redacted:A_SECRET] word-of-the-proxy");
        message.error_message = Some("[redacted:A_SECRET] is wrong".to_owned());
        assert_eq!(told, [StreamEvent::end(message)]);
        let retrying =
            |error: &str| StreamEvent::Retrying { attempt: 1, max: 2, delay_ms: 3, error: error.to_owned() };
        assert_eq!(stream.pass(retrying("word-of-the-proxy")), [retrying("[redacted:A_SECRET]")]);
    }
}
