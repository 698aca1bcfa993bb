//! The blocks of a response under construction.
//!
//! Blocks are numbered as they begin, and each is begun, fed and ended once. Ending the response ends open
//! blocks first.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::message::{AssistantMessage, Content, ErrorKind, ModelError, StopReason, ToolCall, now_ms};
use crate::message_builder::MessageBuilder;
use crate::partial_json::parse_arguments;
use crate::stream::StreamEvent;
use crate::surrogates::{self, SurrogateJoiner};

/// A response under construction. [`Blocks::take`] returns its events.
pub(super) struct Blocks {
    builder: MessageBuilder,
    out: Vec<StreamEvent>,
    open: BTreeMap<usize, Open>,
    halves: HashMap<usize, SurrogateJoiner>,
    begun: usize,
    ids: HashSet<String>,
    ended: bool,
}

/// The state of an open block, apart from its streamed text.
enum Open {
    Text { signature: Option<String> },
    Thinking { signature: Option<String>, redacted: bool },
    Call { id: String, name: String, arguments: String, signature: Option<String> },
}

impl Blocks {
    pub fn new(empty: AssistantMessage) -> Blocks {
        let mut builder = MessageBuilder::new(empty);
        // Only accepted requests are decoded, so the response is accepted.
        builder.apply(&StreamEvent::Start);
        Blocks {
            builder,
            out: Vec::new(),
            open: BTreeMap::new(),
            halves: HashMap::new(),
            begun: 0,
            ids: HashSet::new(),
            ended: false,
        }
    }

    /// The message under construction, to set usage and ids.
    pub fn message(&mut self) -> &mut AssistantMessage {
        self.builder.message_mut()
    }

    /// Records the response's id, and the model if it differs from the requested one.
    ///
    /// The first of each counts.
    pub fn identity(&mut self, id: Option<&str>, model: Option<&str>) {
        let message = self.builder.message_mut();
        if message.response_id.is_none() {
            message.response_id = id.map(str::to_owned);
        }
        if message.response_model.is_none()
            && let Some(model) = model
            && model != message.model
        {
            message.response_model = Some(model.to_owned());
        }
    }

    pub fn ended(&self) -> bool {
        self.ended
    }

    /// The events since the last call.
    pub fn take(&mut self) -> Vec<StreamEvent> {
        std::mem::take(&mut self.out)
    }

    pub(crate) fn begin_text(&mut self) -> usize {
        self.begin(Open::Text { signature: None }, |index| StreamEvent::TextStart { index })
    }

    pub(crate) fn begin_thinking(&mut self, redacted: bool) -> usize {
        let open = Open::Thinking { signature: None, redacted };
        self.begin(open, |index| StreamEvent::ThinkingStart { index })
    }

    pub(crate) fn begin_call(&mut self, id: &str, name: &str) -> usize {
        let (id, name) = (id.to_owned(), name.to_owned());
        let open =
            Open::Call { id: id.clone(), name: name.clone(), arguments: String::new(), signature: None };
        self.begin(open, |index| StreamEvent::ToolCallStart { index, id, name })
    }

    /// Adds text to an open block; ignored if it is not open.
    pub fn push(&mut self, index: usize, piece: &str) {
        let piece = self.halves.entry(index).or_default().join(piece);
        self.push_whole(index, &piece);
    }

    /// Adds text of complete characters.
    fn push_whole(&mut self, index: usize, piece: &str) {
        if piece.is_empty() {
            return;
        }
        let delta = piece.to_owned();
        let event = match self.open.get_mut(&index) {
            None => return,
            Some(Open::Text { .. }) => StreamEvent::TextDelta { index, delta },
            Some(Open::Thinking { .. }) => StreamEvent::ThinkingDelta { index, delta },
            Some(Open::Call { arguments, .. }) => {
                arguments.push_str(piece);
                StreamEvent::ToolCallDelta { index, delta }
            }
        };
        self.emit(event);
    }

    /// Sets the signature that goes back to the provider; `add` appends to it.
    pub fn sign(&mut self, index: usize, sign: &str, add: bool) {
        match self.open.get_mut(&index) {
            Some(
                Open::Text { signature } | Open::Thinking { signature, .. } | Open::Call { signature, .. },
            ) => match signature {
                Some(known) if add => known.push_str(sign),
                _ => *signature = Some(sign.to_owned()),
            },
            None => {}
        }
    }

    /// Sets the id and name of a call that come late; known ones stay.
    pub(crate) fn name_call(&mut self, index: usize, new_id: &str, new_name: &str) {
        if let Some(Open::Call { id, name, .. }) = self.open.get_mut(&index) {
            if id.is_empty() {
                new_id.clone_into(id);
            }
            if name.is_empty() {
                new_name.clone_into(name);
            }
        }
    }

    /// Replaces the streamed arguments of a call.
    pub(crate) fn set_arguments(&mut self, index: usize, text: &str) {
        let text = &*surrogates::replace_placeholders(text);
        let Some(Open::Call { arguments, .. }) = self.open.get_mut(&index) else { return };
        // The complete text includes the held back part.
        self.halves.remove(&index);
        match text.strip_prefix(arguments.as_str()) {
            Some(rest) => self.push_whole(index, rest),
            None => text.clone_into(arguments),
        }
    }

    /// Ends a block; ignored if it is not open.
    ///
    /// `whole` replaces its text if given.
    pub(crate) fn end_block(&mut self, index: usize, whole: Option<&str>) {
        match whole {
            // The complete text includes the held back part.
            Some(_) => drop(self.halves.remove(&index)),
            None => self.push_rest(index),
        }
        let Some(open) = self.open.remove(&index) else { return };
        let streamed = match self.builder.message().content.get(index) {
            Some(Content::Text { text, .. }) => text.clone(),
            Some(Content::Thinking { thinking, .. }) => thinking.clone(),
            _ => String::new(),
        };
        let text = whole.map_or(streamed, |whole| surrogates::replace_placeholders(whole).into_owned());
        let event = match open {
            Open::Text { signature } => {
                StreamEvent::TextEnd { index, content: Content::Text { text, text_signature: signature } }
            }
            Open::Thinking { signature, redacted } => {
                let content = Content::Thinking { thinking: text, thinking_signature: signature, redacted };
                StreamEvent::ThinkingEnd { index, content }
            }
            Open::Call { id, name, arguments, signature } => {
                let (arguments, arguments_error) = match parse_arguments(&arguments) {
                    Ok(arguments) => (arguments, None),
                    Err(error) => (serde_json::Map::new(), Some(error)),
                };
                let call = ToolCall {
                    id: self.unique(id, index),
                    name,
                    arguments,
                    arguments_error,
                    thought_signature: signature,
                };
                StreamEvent::ToolCallEnd { index, call }
            }
        };
        self.emit(event);
    }

    /// Ends the response with a stop reason or a failure.
    ///
    /// Open blocks are ended, or marked as cut.
    pub fn end(&mut self, end: Result<StopReason, ModelError>) {
        if self.ended {
            return;
        }
        self.ended = true;
        for index in self.open.keys().copied().collect::<Vec<_>>() {
            self.push_rest(index);
        }
        let mut message = match end {
            Err(ModelError { kind, message }) => {
                let message = surrogates::replace_placeholders(&message).into_owned();
                self.builder.ended(Some(ModelError { kind, message }))
            }
            Ok(stop_reason) => {
                let open: Vec<usize> = self.open.keys().copied().collect();
                for index in open {
                    self.end_block(index, None);
                }
                let mut message = AssistantMessage { stop_reason, ..self.builder.snapshot() };
                message.note_uncounted();
                message
            }
        };
        message.duration_ms = Some(now_ms().saturating_sub(message.timestamp));
        self.emit(StreamEvent::end(message));
    }

    /// Whether there are tool calls.
    /// Ends the message after the last event of a provider.
    ///
    /// Ends it by `failure`, else by the provider's `stop`, else because `missing` says what the stream
    /// lacks.
    pub(crate) fn end_with(
        &mut self,
        failure: Option<ModelError>,
        stop: Option<Result<StopReason, String>>,
        missing: &str,
    ) {
        self.end(match (failure, stop) {
            (Some(failure), _) => Err(failure),
            (None, Some(stop)) => stop.map_err(|error| ModelError::new(ErrorKind::Provider, error)),
            (None, None) => Err(ModelError::new(ErrorKind::Protocol, missing.to_owned())),
        });
    }

    /// Replaces the end of a turn with that for calls, if there are calls.
    pub(crate) fn with_calls(&self, reason: StopReason) -> StopReason {
        if reason == StopReason::Stop && self.has_calls() { StopReason::ToolUse } else { reason }
    }

    pub fn has_calls(&self) -> bool {
        self.builder.message().tool_calls().next().is_some()
    }

    /// Whether there is any text or tool call.
    pub(crate) fn has_output(&self) -> bool {
        self.has_calls() || !self.builder.message().text().is_empty()
    }

    /// Adds U+FFFD for a surrogate whose other half never came.
    fn push_rest(&mut self, index: usize) {
        let rest = self.halves.remove(&index).map_or("", |mut halves| halves.rest());
        self.push_whole(index, rest);
    }

    fn begin(&mut self, open: Open, event: impl FnOnce(usize) -> StreamEvent) -> usize {
        let index = self.begun;
        self.begun += 1;
        self.open.insert(index, open);
        self.emit(event(index));
        index
    }

    fn unique(&mut self, id: String, index: usize) -> String {
        let mut unique = id.clone();
        let mut next = index;
        while unique.is_empty() || self.ids.contains(&unique) {
            unique = format!("{}_{next}", if id.is_empty() { "call" } else { &id });
            next += 1;
        }
        self.ids.insert(unique.clone());
        unique
    }

    fn emit(&mut self, event: StreamEvent) {
        self.builder.apply(&event);
        self.out.push(event);
    }
}
