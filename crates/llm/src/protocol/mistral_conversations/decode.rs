//! The event stream of Mistral's chat completions, decoded. Content is text, or parts of text and thinking; a part
//! continues the block before it where it is of the same kind. An empty piece begins no block: it would split thinking,
//! which is refused when it goes back.

use serde_json::Value;

use crate::message::{AssistantMessage, ErrorKind, StopReason, Usage};
use crate::protocol::blocks::Blocks;
use crate::protocol::calls::Calls;
use crate::protocol::sse::{SseDecoder, SseEvent};
use crate::protocol::{Data, Decoder, error_text, non_empty};
use crate::stream::StreamEvent;

/// Decodes one response.
pub(super) struct MistralDecoder {
    sse: SseDecoder,
    blocks: Blocks,
    open: Option<Open>,
    calls: Calls,
    finish: Option<Result<StopReason, (ErrorKind, String)>>,
    chunks: usize,
}

#[derive(Clone, Copy)]
struct Open {
    index: usize,
    thinking: bool,
}

impl MistralDecoder {
    /// Begins a response that fills `empty`.
    pub fn new(empty: AssistantMessage) -> MistralDecoder {
        MistralDecoder {
            sse: SseDecoder::default(),
            blocks: Blocks::new(empty),
            open: None,
            calls: Calls::default(),
            finish: None,
            chunks: 0,
        }
    }

    fn event(&mut self, event: &SseEvent) {
        if self.blocks.ended() {
            return;
        }
        let data = event.data.trim();
        if data == "[DONE]" {
            return self.end(None);
        }
        match crate::protocol::data(data) {
            Data::Object(chunk) => self.chunk(&chunk),
            Data::Other => {}
            Data::Damaged(why) => self.end(Some((ErrorKind::Protocol, why))),
        }
    }

    fn chunk(&mut self, chunk: &Value) {
        let error = match chunk["object"].as_str() {
            Some("error") => Some(chunk),
            _ => chunk.get("error").filter(|error| !error.is_null()),
        };
        if let Some(error) = error {
            let kind = match error["type"].as_str().unwrap_or_default() {
                "rate_limited" | "rate_limit_error" => ErrorKind::RateLimit,
                "service_unavailable" | "internal_server_error" => ErrorKind::Unavailable,
                _ => ErrorKind::Provider,
            };
            let text = format!("the provider reported an error: {}", error_text(error));
            return self.end(Some((kind.refined(&text), text)));
        }
        self.chunks += 1;
        self.blocks.identity(non_empty(&chunk["id"]), non_empty(&chunk["model"]));
        if chunk["usage"].is_object() {
            self.blocks.message().usage = read_usage(&chunk["usage"]);
        }
        let choice = &chunk["choices"][0];
        // `message` comes with an answer that is not streamed.
        self.delta(if choice["delta"].is_object() { &choice["delta"] } else { &choice["message"] });
        if let Some(reason) = non_empty(&choice["finish_reason"]) {
            self.finish = Some(match reason {
                "stop" => Ok(StopReason::Stop),
                "length" | "model_length" => Ok(StopReason::Length),
                "tool_calls" => Ok(StopReason::ToolUse),
                "error" => {
                    let text = "the provider stopped with finish_reason error, a server error of its own";
                    Err((ErrorKind::Unavailable, text.to_owned()))
                }
                other => {
                    Err((ErrorKind::Provider, format!("the provider stopped with finish_reason {other}")))
                }
            });
            self.blocks.message().raw_stop_reason = Some(reason.to_owned());
        }
    }

    fn delta(&mut self, delta: &Value) {
        match &delta["content"] {
            Value::String(text) => self.piece(text, false),
            Value::Array(parts) => parts.iter().for_each(|part| self.part(part)),
            _ => {}
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.close();
            // Pieces without an id have this word for it.
            let id = non_empty(&call["id"]).filter(|id| *id != "null").unwrap_or_default();
            let function = &call["function"];
            let name = non_empty(&function["name"]).unwrap_or_default();
            let number = call["index"].as_u64();
            self.calls.piece(&mut self.blocks, number, id, name, &function["arguments"]);
        }
    }

    fn part(&mut self, part: &Value) {
        match part["type"].as_str().unwrap_or_default() {
            "text" => self.piece(part["text"].as_str().unwrap_or_default(), false),
            "thinking" => {
                match &part["thinking"] {
                    Value::String(text) => self.piece(text, true),
                    Value::Array(parts) => {
                        for part in parts {
                            self.piece(part["text"].as_str().unwrap_or_default(), true);
                        }
                    }
                    _ => {}
                }
                if let (Some(signature), Some(Open { index, thinking: true })) =
                    (non_empty(&part["signature"]), self.open)
                {
                    self.blocks.sign(index, signature, false);
                }
            }
            // References, and whatever is new.
            _ => {}
        }
    }

    fn piece(&mut self, piece: &str, thinking: bool) {
        if piece.is_empty() {
            return;
        }
        let open = match self.open {
            Some(open) if open.thinking == thinking => open,
            _ => {
                self.close();
                let index = match thinking {
                    true => self.blocks.begin_thinking(false),
                    false => self.blocks.begin_text(),
                };
                *self.open.insert(Open { index, thinking })
            }
        };
        self.blocks.push(open.index, piece);
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.blocks.end_block(open.index, None);
        }
    }

    fn end(&mut self, failure: Option<(ErrorKind, String)>) {
        let protocol = |text: &str| Err((ErrorKind::Protocol, text.to_owned()));
        self.blocks.end(match (failure, self.finish.take()) {
            (Some(failure), _) => Err(failure),
            (None, Some(finish)) => finish,
            (None, None) if self.chunks == 0 => protocol("the stream ended without any chunk of an answer"),
            (None, None) => protocol("the stream ended without finish_reason"),
        });
    }
}

impl Decoder for MistralDecoder {
    fn feed(&mut self, bytes: &[u8]) -> Vec<StreamEvent> {
        if self.blocks.ended() {
            return Vec::new();
        }
        match self.sse.feed(bytes) {
            Ok(events) => events.iter().for_each(|event| self.event(event)),
            Err(error) => self.end(Some((ErrorKind::Protocol, error.to_string()))),
        }
        self.blocks.take()
    }

    fn feed_whole(&mut self, answer: &Value) -> Vec<StreamEvent> {
        if !self.blocks.ended() {
            self.chunk(answer);
            self.end(None);
        }
        self.blocks.take()
    }

    fn finish(&mut self, cut: Option<(ErrorKind, String)>) -> Vec<StreamEvent> {
        // After the finish reason only usage can be missing, so a connection that breaks then cuts nothing.
        self.end(if self.finish.is_some() { None } else { cut });
        self.blocks.take()
    }

    fn ended(&self) -> bool {
        self.blocks.ended()
    }
}

fn read_usage(usage: &Value) -> Usage {
    let cached = [
        &usage["prompt_tokens_details"]["cached_tokens"],
        &usage["prompt_token_details"]["cached_tokens"],
        &usage["num_cached_tokens"],
    ];
    let cache_read = cached.iter().find_map(|it| it.as_u64()).unwrap_or(0);
    Usage {
        input: usage["prompt_tokens"].as_u64().unwrap_or(0).saturating_sub(cache_read),
        output: usage["completion_tokens"].as_u64().unwrap_or(0),
        cache_read,
        cache_write: 0,
        reasoning: None,
        total_tokens: 0,
        cost: None,
    }
    .summed()
}
