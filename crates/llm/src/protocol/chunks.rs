//! Framing of streamed chat completions.
//!
//! The events are chunks with a delta, a finish reason, and `[DONE]`. The content of a chunk
//! depends on the [`Dialect`]. Usage may come after the finish reason, so
//! the message ends at `[DONE]` or at the end of the bytes. Events that are not JSON objects are
//! skipped.

use serde_json::Value;

use crate::message::{AssistantMessage, ErrorKind, ModelError, StopReason, Usage};
use crate::protocol::blocks::Blocks;
use crate::protocol::sse::{Events, SseEvent};
use crate::protocol::{Data, error_words, named_error, no_answer, non_empty, reported};

/// Encoding of the content of chunks by a protocol.
pub(super) trait Dialect: Send {
    /// The error in a chunk, with its kind if its fields name it.
    fn error<'a>(&self, chunk: &'a Value) -> Option<(ErrorKind, &'a Value)>;

    /// The usage in a chunk.
    fn usage(&self, chunk: &Value) -> Option<Usage>;

    /// Adds the delta to the answer.
    fn delta(&mut self, blocks: &mut Blocks, delta: &Value);

    /// The meaning of a finish reason; `None` if unknown.
    fn finish(&self, reason: &str) -> Option<Result<StopReason, ModelError>>;

    /// Whether an answer without a finish reason is cut.
    fn needs_finish_reason(&self) -> bool {
        true
    }

    /// Completes the blocks before the response ends.
    fn end(&mut self, _: &mut Blocks) {}
}

pub(super) struct ChunkDecoder<D> {
    blocks: Blocks,
    dialect: D,
    finish: Option<Result<StopReason, ModelError>>,
    chunks: usize,
    /// Whether the server said that the stream is complete.
    is_done: bool,
}

impl<D: Dialect> ChunkDecoder<D> {
    /// Creates a decoder that fills `empty`.
    pub fn new(empty: AssistantMessage, dialect: D) -> ChunkDecoder<D> {
        ChunkDecoder { blocks: Blocks::new(empty), dialect, finish: None, chunks: 0, is_done: false }
    }

    fn chunk(&mut self, chunk: &Value) {
        if let Some(usage) = self.dialect.usage(chunk) {
            self.blocks.message().usage = usage;
        }
        if let Some((kind, error)) = self.dialect.error(chunk) {
            return self.end(Some(reported(kind, &error_words(error, None))));
        }
        self.chunks += 1;
        self.blocks.identity(non_empty(&chunk["id"]), non_empty(&chunk["model"]));
        let choice = choice(chunk);
        // `message` comes from servers that do not stream, or send one complete chunk.
        let delta = if choice["delta"].is_object() { &choice["delta"] } else { &choice["message"] };
        self.dialect.delta(&mut self.blocks, delta);
        if let Some(reason) = non_empty(&choice["finish_reason"]) {
            let unknown = || format!("the provider stopped with finish_reason {reason}");
            let finish = self.dialect.finish(reason);
            self.finish =
                Some(finish.unwrap_or_else(|| Err(ModelError::new(ErrorKind::Provider, unknown()))));
            self.blocks.message().raw_stop_reason = Some(reason.to_owned());
        }
    }
}

/// The first choice; servers may send several.
fn choice(chunk: &Value) -> &Value {
    let mut choices = chunk["choices"].as_array().into_iter().flatten();
    choices.find(|choice| choice["index"].as_u64().unwrap_or(0) == 0).unwrap_or(&Value::Null)
}

impl<D: Dialect> Events for ChunkDecoder<D> {
    fn blocks(&mut self) -> &mut Blocks {
        &mut self.blocks
    }

    fn event(&mut self, event: &SseEvent) {
        let data = event.data.trim();
        if data == "[DONE]" {
            self.is_done = true;
            return self.end(None);
        }
        match crate::protocol::data(data) {
            Data::Object(chunk) if event.event == "error" && self.dialect.error(&chunk).is_none() => {
                self.end(Some(no_answer(&chunk)));
            }
            Data::Object(chunk) => self.chunk(&chunk),
            Data::Other if event.event == "error" => self.end(Some(named_error(data))),
            Data::Other => {}
            Data::Damaged(why) => self.end(Some(ModelError::new(ErrorKind::Protocol, why))),
        }
    }

    fn whole(&mut self, answer: &Value) {
        if !self.blocks.ended() {
            if self.dialect.error(answer).is_none() && !answer["choices"].is_array() {
                self.end(Some(no_answer(answer)));
            } else {
                self.chunk(answer);
                self.end(None);
            }
        }
    }

    fn end(&mut self, failure: Option<ModelError>) {
        self.dialect.end(&mut self.blocks);
        let protocol = |text: &str| Err(ModelError::new(ErrorKind::Protocol, text.to_owned()));
        let end = match (failure, self.finish.take()) {
            (Some(failure), _) => Err(failure),
            (None, Some(finish)) => finish,
            (None, None) if self.chunks == 0 => protocol("the stream ended without any chunk of an answer"),
            (None, None)
                if self.dialect.needs_finish_reason() && !(self.is_done && self.blocks.has_output()) =>
            {
                protocol("the stream ended without finish_reason")
            }
            (None, None) if self.blocks.has_calls() => Ok(StopReason::ToolUse),
            (None, None) => Ok(StopReason::Stop),
        };
        self.blocks.end(end);
    }

    fn finish(&mut self, cut: Option<ModelError>) {
        // After the finish reason only usage can be missing, so a broken connection cuts nothing.
        self.end(if self.finish.is_some() { None } else { cut });
    }
}
