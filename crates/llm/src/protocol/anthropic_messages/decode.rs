//! Decoder of the event stream of messages.
//!
//! The provider numbers blocks, which may be interleaved. Unknown blocks and events are skipped.

use std::collections::HashMap;

use serde_json::Value;

use crate::message::{AssistantMessage, ErrorKind, ModelError, StopReason, Usage};
use crate::protocol::blocks::Blocks;
use crate::protocol::sse::{Events, SseEvent};
use crate::protocol::{Data, error_words, no_answer, non_empty, reported};

pub(super) struct MessagesDecoder {
    blocks: Blocks,
    /// Content indices by the provider's index.
    indices: HashMap<u64, usize>,
    /// Ids of the calls that began, by the provider's index.
    calls: HashMap<u64, String>,
    stop: Option<Result<StopReason, String>>,
    started: bool,
    /// Whether the final output count arrived; the first one is preliminary.
    is_counted: bool,
}

impl MessagesDecoder {
    /// Creates a decoder that fills `empty`.
    pub fn new(empty: AssistantMessage) -> MessagesDecoder {
        MessagesDecoder {
            blocks: Blocks::new(empty),
            indices: HashMap::new(),
            calls: HashMap::new(),
            stop: None,
            started: false,
            is_counted: false,
        }
    }

    fn fail(&mut self, kind: ErrorKind, text: &str) {
        self.blocks.end(Err(reported(kind, text)));
    }

    fn head(&mut self, message: &Value) {
        self.blocks.identity(non_empty(&message["id"]), non_empty(&message["model"]));
        self.usage(&message["usage"]);
    }

    fn begin(&mut self, index: u64, block: &Value) {
        let id = non_empty(&block["id"]);
        // An event may be repeated.
        if self.indices.contains_key(&index)
            || id.is_some_and(|id| self.calls.get(&index).is_some_and(|known| known == id))
        {
            return;
        }
        let begun = match non_empty(&block["type"]).unwrap_or_default() {
            "text" => {
                let begun = self.blocks.begin_text();
                self.blocks.push(begun, non_empty(&block["text"]).unwrap_or_default());
                begun
            }
            "thinking" => {
                let begun = self.blocks.begin_thinking(false);
                self.blocks.push(begun, non_empty(&block["thinking"]).unwrap_or_default());
                self.sign(begun, &block["signature"]);
                begun
            }
            "redacted_thinking" => {
                let begun = self.blocks.begin_thinking(true);
                self.sign(begun, &block["data"]);
                begun
            }
            "tool_use" => {
                let id = id.unwrap_or_default();
                self.calls.insert(index, id.to_owned());
                let begun = self.blocks.begin_call(id, non_empty(&block["name"]).unwrap_or_default());
                // A complete input is not streamed; an empty one is a placeholder.
                if let Some(input) = block["input"].as_object().filter(|input| !input.is_empty()) {
                    self.blocks.push(begun, &Value::Object(input.clone()).to_string());
                }
                begun
            }
            // The decoder skips server-side tools and unknown blocks.
            _ => return,
        };
        self.indices.insert(index, begun);
    }

    fn delta(&mut self, index: u64, delta: &Value) {
        let Some(&index) = self.indices.get(&index) else { return };
        for field in ["text", "thinking", "partial_json"] {
            self.blocks.push(index, non_empty(&delta[field]).unwrap_or_default());
        }
        self.sign(index, &delta["signature"]);
    }

    fn sign(&mut self, index: usize, signature: &Value) {
        if let Some(signature) = non_empty(signature) {
            self.blocks.sign(index, signature, true);
        }
    }

    /// Applies reported counts, which replace known ones.
    fn usage(&mut self, usage: &Value) {
        let known = &mut self.blocks.message().usage;
        let count = |field: &str, known: u64| usage[field].as_u64().unwrap_or(known);
        *known = Usage {
            input: count("input_tokens", known.input),
            output: count("output_tokens", known.output),
            cache_read: count("cache_read_input_tokens", known.cache_read),
            cache_write: count("cache_creation_input_tokens", known.cache_write),
            reasoning: usage["output_tokens_details"]["thinking_tokens"].as_u64().or(known.reasoning),
            cache_write_1h: usage["cache_creation"]["ephemeral_1h_input_tokens"]
                .as_u64()
                .unwrap_or(known.cache_write_1h),
            ..Usage::default()
        }
        .summed();
    }

    fn stop_reason(&mut self, delta: &Value) {
        let Some(reason) = non_empty(&delta["stop_reason"]) else { return };
        self.stop = Some(match reason {
            "end_turn" | "stop_sequence" | "pause_turn" => Ok(StopReason::Stop),
            "max_tokens" | "model_context_window_exceeded" => Ok(StopReason::Length),
            "tool_use" => Ok(StopReason::ToolUse),
            other => {
                let why = non_empty(&delta["stop_details"]["explanation"]).map(|it| format!(": {it}"));
                Err(format!("the provider stopped with stop_reason {other}{}", why.unwrap_or_default()))
            }
        });
        self.blocks.message().raw_stop_reason = Some(reason.to_owned());
    }
}

impl Events for MessagesDecoder {
    fn blocks(&mut self) -> &mut Blocks {
        &mut self.blocks
    }

    fn event(&mut self, event: &SseEvent) {
        let data = match crate::protocol::data(&event.data) {
            Data::Object(data) => data,
            // Gateways end every stream like that.
            _ if event.data.trim() == "[DONE]" => return self.end(None),
            _ if event.event == "error" => return self.fail(ErrorKind::Provider, &event.data),
            Data::Other => return,
            Data::Damaged(why) => return self.end(Some(ModelError::new(ErrorKind::Protocol, why))),
        };
        // Both the event and the data have the name; some proxies drop one of them.
        let name = non_empty(&data["type"]).unwrap_or(&event.event);
        let index = data["index"].as_u64().unwrap_or_default();
        match name {
            "message_start" if self.started => {
                let error = "the stream began a second message before the end of the first";
                self.end(Some(ModelError::new(ErrorKind::Protocol, error)));
            }
            "message_start" => {
                self.started = true;
                self.head(&data["message"]);
                // Gateways put what they have already into the start; the blocks stay open.
                let blocks = data["message"]["content"].as_array();
                for (index, block) in (0..).zip(blocks.into_iter().flatten()) {
                    self.begin(index, block);
                }
                self.stop_reason(&data["message"]);
            }
            "content_block_start" => self.begin(index, &data["content_block"]),
            "content_block_delta" => self.delta(index, &data["delta"]),
            "content_block_stop" => {
                if let Some(index) = self.indices.remove(&index) {
                    self.blocks.end_block(index, None);
                }
            }
            "message_delta" => {
                self.usage(&data["usage"]);
                self.is_counted |= data["usage"]["output_tokens"].is_u64();
                self.stop_reason(&data["delta"]);
            }
            "message_stop" => self.end(None),
            "error" => {
                let error = &data["error"];
                let kind = match non_empty(&error["type"]).unwrap_or_default() {
                    "rate_limit_error" => ErrorKind::RateLimit,
                    "authentication_error" | "permission_error" => ErrorKind::Authentication,
                    "request_too_large" => ErrorKind::ContextOverflow,
                    _ => ErrorKind::Provider,
                };
                let id = non_empty(&data["request_id"]).map(|id| format!(" (request id {id})"));
                self.fail(kind, &(error_words(error, None) + &id.unwrap_or_default()));
            }
            _ => {}
        }
    }

    fn whole(&mut self, answer: &Value) {
        if answer["error"].is_object() {
            self.fail(ErrorKind::Provider, &error_words(&answer["error"], None));
            return;
        }
        if !answer["content"].is_array() {
            self.end(Some(no_answer(answer)));
            return;
        }
        self.started = true;
        self.head(answer);
        self.is_counted = true;
        for (index, block) in (0..).zip(answer["content"].as_array().into_iter().flatten()) {
            self.begin(index, block);
            if let Some(begun) = self.indices.remove(&index) {
                self.blocks.end_block(begun, None);
            }
        }
        self.stop_reason(answer);
        self.end(None);
    }

    fn end(&mut self, failure: Option<ModelError>) {
        self.blocks.message().usage.uncounted = self.stop.is_some() && !self.is_counted;
        let missing = match self.started {
            true => "the stream ended without stop_reason",
            false => "the stream ended without any part of an answer",
        };
        self.blocks.end_with(failure, self.stop.take(), missing);
    }

    fn finish(&mut self, cut: Option<ModelError>) {
        // Without `message_stop` a part may be missing, even after the stop reason.
        let unfinished = self.started && !self.blocks.ended();
        let cut = cut.or_else(|| {
            unfinished.then(|| {
                ModelError::new(ErrorKind::Protocol, "the stream ended before message_stop".to_owned())
            })
        });
        self.end(cut);
    }
}
