//! A model that replays the answers of a recorded session.
//!
//! It ignores the tools' new results. It reproduces a bug report against the current code. The edit engine
//! refuses edits of lines that no longer exist, as from any model.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use llm::{
    AssistantMessage, Content, ErrorKind, Message, MessageStream, Model, ModelInfo, Request, StopReason,
    StreamEvent, Usage, now_ms,
};
use tokio_util::sync::CancellationToken;

use crate::store::{EntryBody, LoadedSession};

/// Characters per streamed delta.
const PIECE: usize = 256;

/// Answers of a recorded session, in order, as a model.
pub struct ReplayModel {
    info: ModelInfo,
    prompts: Vec<String>,
    answers: Vec<AssistantMessage>,
    next: AtomicUsize,
}

impl ReplayModel {
    /// Collects the answers on the selected path of `session`.
    ///
    /// Compacted answers are included; failed and aborted ones are not.
    pub fn new(session: &LoadedSession) -> ReplayModel {
        let (mut prompts, mut answers) = (Vec::<String>::new(), Vec::new());
        // Messages during a run, or before an answer, are part of that run's prompt.
        let mut is_answered = true;
        let mut before_last = 0;
        for entry in session.path() {
            match session.body(entry) {
                Ok(EntryBody::Message(message)) => match *message {
                    Message::User(_) => match prompts.last_mut().filter(|_| !is_answered) {
                        Some(prompt) => *prompt = format!("{prompt}\n\n{}", message.text()),
                        None => {
                            prompts.push(message.text());
                            (is_answered, before_last) = (false, answers.len());
                        }
                    },
                    Message::Assistant(answer) if !answer.failed() => {
                        is_answered = answer.tool_calls().next().is_none();
                        answers.push(answer);
                    }
                    _ => {}
                },
                _ => continue,
            }
        }
        if !is_answered && answers.len() == before_last {
            // The last prompt has no answer to replay.
            prompts.pop();
        }
        let info = ModelInfo {
            provider: "replay".to_owned(),
            id: session.header.id.clone(),
            api: "replay".to_owned(),
            images: true,
            context_window: None,
        };
        ReplayModel { info, prompts, answers, next: AtomicUsize::new(0) }
    }

    /// The user's prompts, in order.
    pub fn prompts(&self) -> &[String] {
        &self.prompts
    }
}

impl Model for ReplayModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, _: Request, cancel: CancellationToken) -> MessageStream {
        let empty = AssistantMessage::empty(&self.info.api, &self.info.provider, &self.info.id);
        let answer = self.answers.get(self.next.fetch_add(1, Ordering::Relaxed)).cloned();
        let (count, id) = (self.answers.len(), self.info.id.clone());
        MessageStream::spawn(empty.clone(), cancel, move |writer| async move {
            let Some(answer) = answer else {
                let error = format!(
                    "session {id} has no more answers ({count} replayed); continue with another `--model`"
                );
                return writer.fail(ErrorKind::Script, error);
            };
            writer.push(StreamEvent::Start);
            for (index, content) in answer.content.iter().enumerate() {
                play(index, content, |event| writer.push(event));
            }
            // No provider is asked during a replay.
            let message = AssistantMessage {
                content: answer.content,
                stop_reason: answer.stop_reason,
                raw_stop_reason: answer.raw_stop_reason,
                usage: Usage::default(),
                timestamp: now_ms(),
                ..empty
            };
            debug_assert!(!matches!(message.stop_reason, StopReason::Error | StopReason::Aborted));
            writer.push(StreamEvent::Done { message: Arc::new(message) });
        })
    }

    fn can_summarize(&self) -> bool {
        false
    }
}

fn play(index: usize, content: &Content, push: impl Fn(StreamEvent)) {
    match content {
        Content::Text { text, .. } => {
            push(StreamEvent::TextStart { index });
            pieces(text).for_each(|delta| push(StreamEvent::TextDelta { index, delta }));
            push(StreamEvent::TextEnd { index, content: content.clone() });
        }
        Content::Thinking { thinking, .. } => {
            push(StreamEvent::ThinkingStart { index });
            pieces(thinking).for_each(|delta| push(StreamEvent::ThinkingDelta { index, delta }));
            push(StreamEvent::ThinkingEnd { index, content: content.clone() });
        }
        Content::ToolCall(call) => {
            push(StreamEvent::ToolCallStart { index, id: call.id.clone(), name: call.name.clone() });
            let arguments = serde_json::Value::Object(call.arguments.clone()).to_string();
            pieces(&arguments).for_each(|delta| push(StreamEvent::ToolCallDelta { index, delta }));
            push(StreamEvent::ToolCallEnd { index, call: call.clone() });
        }
        Content::Image { .. } => {}
    }
}

fn pieces(text: &str) -> impl Iterator<Item = String> {
    let characters: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = characters.chunks(PIECE).map(|piece| piece.iter().collect()).collect();
    pieces.into_iter()
}
