//! Redaction of secrets in streamed messages.
//!
//! A secret may be split between two deltas, so the redactor holds back a possible beginning until the next
//! one. The deltas of a block add up to its redacted text.

use std::borrow::Cow;
use std::sync::Arc;

use llm::{AssistantMessage, Content, StreamEvent};
use policy::{Pieces, Redactor};

use crate::events::{Event, MessageRole};
use crate::redact::redacted;

/// Text of the streaming message that the redactor holds back, per block.
#[derive(Debug, Default)]
pub(crate) struct DeltaRedactor {
    message_id: String,
    open: Vec<OpenBlock>,
}

/// Redacts the requester's secrets in a stream for another reader.
///
/// Tool calls stay unchanged, since they are executed.
#[derive(Debug)]
pub struct StreamRedactor {
    answers: Redactor,
    errors: Redactor,
    deltas: DeltaRedactor,
}

impl StreamRedactor {
    /// Creates a redactor for a stream.
    ///
    /// `answers` redacts text and thinking, `errors` redacts failures.
    pub fn new(answers: Redactor, errors: Redactor) -> StreamRedactor {
        StreamRedactor { answers, errors, deltas: DeltaRedactor::default() }
    }

    /// The events to forward now; holds back a possible beginning of a secret.
    pub fn pass(&mut self, update: StreamEvent) -> Vec<StreamEvent> {
        let mut out = Vec::new();
        if matches!(update, StreamEvent::Done { .. } | StreamEvent::Error { .. }) {
            self.deltas.finish(&self.answers, |_| true, &mut out);
        }
        if is_of_call(&update) {
            return vec![update];
        }
        let event = Event::MessageUpdate { message_id: String::new(), update };
        let (before, event) = self.deltas.pass(&self.answers, event);
        out.extend(before);
        out.extend(event);
        let updates = out.into_iter().filter_map(|event| match event {
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
            // Deltas are already redacted.
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
struct OpenBlock {
    index: usize,
    kind: BlockKind,
    pieces: Pieces,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Text,
    Thinking,
    ToolCall,
}

impl DeltaRedactor {
    /// Complete held-back events, then the event itself unless all of it is held back.
    pub fn pass(&mut self, redactor: &Redactor, mut event: Event) -> (Vec<Event>, Option<Event>) {
        let mut before = Vec::new();
        match &mut event {
            Event::MessageUpdate { message_id, update } => {
                let (index, kind, delta) = match update {
                    StreamEvent::TextDelta { index, delta } => (*index, BlockKind::Text, delta),
                    StreamEvent::ThinkingDelta { index, delta } => (*index, BlockKind::Thinking, delta),
                    StreamEvent::ToolCallDelta { index, delta } => (*index, BlockKind::ToolCall, delta),
                    StreamEvent::TextEnd { index, .. }
                    | StreamEvent::ThinkingEnd { index, .. }
                    | StreamEvent::ToolCallEnd { index, .. } => {
                        let index = *index;
                        self.finish(redactor, |open| open.index == index, &mut before);
                        return (before, Some(event));
                    }
                    _ => return (before, Some(event)),
                };
                let has_text = self.push(redactor, index, kind, message_id, delta);
                return (before, has_text.then_some(event));
            }
            Event::MessageStart { role: MessageRole::Assistant, .. } => self.open.clear(),
            Event::MessageEnd { message: llm::Message::Assistant(_), .. } => {
                self.finish(redactor, |_| true, &mut before);
            }
            _ => {}
        }
        (before, Some(event))
    }

    /// Reduces `delta` to the part to forward; returns false if there is none.
    fn push(
        &mut self,
        redactor: &Redactor,
        index: usize,
        kind: BlockKind,
        message_id: &str,
        delta: &mut String,
    ) -> bool {
        let is_it = |open: &OpenBlock| open.index == index && open.kind == kind;
        let at = match self.open.iter().position(is_it) {
            Some(at) => at,
            None => {
                message_id.clone_into(&mut self.message_id);
                self.open.push(OpenBlock { index, kind, pieces: Pieces::default() });
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

    /// Emits the held-back text of the blocks that end.
    fn finish(&mut self, redactor: &Redactor, ends: impl Fn(&OpenBlock) -> bool, out: &mut Vec<Event>) {
        for OpenBlock { index, kind, mut pieces } in self.open.extract_if(.., |open| ends(open)) {
            let delta = pieces.finish(redactor);
            if delta.is_empty() {
                continue;
            }
            let update = match kind {
                BlockKind::Text => StreamEvent::TextDelta { index, delta },
                BlockKind::Thinking => StreamEvent::ThinkingDelta { index, delta },
                BlockKind::ToolCall => StreamEvent::ToolCallDelta { index, delta },
            };
            out.push(Event::MessageUpdate { message_id: self.message_id.clone(), update });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_have_no_secret_however_they_are_split() {
        let redactor = Redactor::new([("A_KEY".to_owned(), "key-of-the-proxy".to_owned())]);
        let mut stream = StreamRedactor::new(redactor.clone(), redactor);
        let delta = |delta: &str| StreamEvent::TextDelta { index: 0, delta: delta.to_owned() };
        let mut message = llm::AssistantMessage::empty("a", "p", "key-of-the-proxy");
        message.content = vec![llm::Content::text("it is key-of-the-proxy")];
        message.response_id = Some("id-key-of-the-proxy".to_owned());
        let end = StreamEvent::TextEnd { index: 0, content: message.content[0].clone() };
        let mut out = Vec::new();
        let start = StreamEvent::TextStart { index: 0 };
        for event in [start, delta("it is key-of"), delta("-the-proxy"), end, StreamEvent::end(message)] {
            out.extend(stream.pass(event));
        }
        let text: String = out
            .iter()
            .filter_map(|event| match event {
                StreamEvent::TextDelta { delta, .. } => Some(delta.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(text, "it is [redacted:A_KEY]");
        assert!(!serde_json::to_string(&out).unwrap().contains("key-of"), "{out:?}");
        assert!(matches!(out.last(), Some(StreamEvent::Done { .. })));
    }

    #[test]
    fn calls_stay_unchanged_and_errors_are_redacted() {
        let known = |secrets: &[&str]| {
            Redactor::new(secrets.iter().map(|it| ("A_SECRET".to_owned(), (*it).to_owned())))
        };
        let mut stream = StreamRedactor::new(known(&["key-of-the-proxy"]), known(&["word-of-the-proxy"]));
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
        let out: Vec<_> = given.iter().flat_map(|event| stream.pass(event.clone())).collect();
        assert_eq!(out, given);
        let out = stream.pass(StreamEvent::end(message.clone()));
        message.content[1] = llm::Content::text("[redacted:A_SECRET] word-of-the-proxy");
        message.error_message = Some("[redacted:A_SECRET] is wrong".to_owned());
        assert_eq!(out, [StreamEvent::end(message)]);
        let retrying =
            |error: &str| StreamEvent::Retrying { attempt: 1, max: 2, delay_ms: 3, error: error.to_owned() };
        assert_eq!(stream.pass(retrying("word-of-the-proxy")), [retrying("[redacted:A_SECRET]")]);
    }
}
