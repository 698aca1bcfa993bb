//! Decoder of the event stream of Mistral's chat completions.
//!
//! Content is text, or parts of text and thinking; a part continues the block before it if it has
//! the same kind. Empty pieces are skipped: they would split thinking, which the provider then
//! rejects in the next request.

use serde_json::Value;

use crate::message::{ErrorKind, ModelError, StopReason, Usage};
use crate::protocol::blocks::Blocks;
use crate::protocol::calls::Calls;
use crate::protocol::chunks::Dialect;
use crate::protocol::non_empty;

/// Mistral's chunk dialect.
#[derive(Default)]
pub(super) struct Mistral {
    open: Option<Open>,
    calls: Calls,
}

#[derive(Clone, Copy)]
struct Open {
    index: usize,
    thinking: bool,
}

impl Mistral {
    fn part(&mut self, blocks: &mut Blocks, part: &Value) {
        match part["type"].as_str().unwrap_or_default() {
            "text" => self.piece(blocks, part["text"].as_str().unwrap_or_default(), false),
            "thinking" => {
                match &part["thinking"] {
                    Value::String(text) => self.piece(blocks, text, true),
                    Value::Array(parts) => {
                        for part in parts {
                            self.piece(blocks, part["text"].as_str().unwrap_or_default(), true);
                        }
                    }
                    _ => {}
                }
                if let (Some(signature), Some(Open { index, thinking: true })) =
                    (non_empty(&part["signature"]), self.open)
                {
                    blocks.sign(index, signature, false);
                }
            }
            // The decoder skips references and unknown parts.
            _ => {}
        }
    }

    fn piece(&mut self, blocks: &mut Blocks, piece: &str, thinking: bool) {
        if piece.is_empty() {
            return;
        }
        let open = match self.open {
            Some(open) if open.thinking == thinking => open,
            _ => {
                self.close(blocks);
                let index = match thinking {
                    true => blocks.begin_thinking(false),
                    false => blocks.begin_text(),
                };
                *self.open.insert(Open { index, thinking })
            }
        };
        blocks.push(open.index, piece);
    }

    fn close(&mut self, blocks: &mut Blocks) {
        if let Some(open) = self.open.take() {
            blocks.end_block(open.index, None);
        }
    }
}

impl Dialect for Mistral {
    fn error<'a>(&self, chunk: &'a Value) -> Option<(ErrorKind, &'a Value)> {
        let error = match chunk["object"].as_str() {
            Some("error") => chunk,
            _ => chunk.get("error").filter(|error| !error.is_null())?,
        };
        let kind = match error["type"].as_str().unwrap_or_default() {
            "rate_limited" | "rate_limit_error" | "service_tier_capacity_exceeded" => ErrorKind::RateLimit,
            "service_unavailable" | "internal_server_error" => ErrorKind::Unavailable,
            // One of these fields has the status if the type is not specific.
            _ => ["raw_status_code", "status", "code"]
                .iter()
                .map(|field| ErrorKind::of_code(&error[*field]))
                .find(|kind| *kind != ErrorKind::Provider)
                .unwrap_or(ErrorKind::Provider),
        };
        Some((kind, error))
    }

    fn usage(&self, chunk: &Value) -> Option<Usage> {
        chunk["usage"].is_object().then(|| read_usage(&chunk["usage"]))
    }

    fn delta(&mut self, blocks: &mut Blocks, delta: &Value) {
        match &delta["content"] {
            Value::String(text) => self.piece(blocks, text, false),
            Value::Array(parts) => parts.iter().for_each(|part| self.part(blocks, part)),
            _ => {}
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.close(blocks);
            // Pieces without an id have this value.
            let id = non_empty(&call["id"]).filter(|id| *id != "null").unwrap_or_default();
            let function = &call["function"];
            let name = non_empty(&function["name"]).unwrap_or_default();
            let number = call["index"].as_u64();
            self.calls.piece(blocks, number, id, name, &function["arguments"]);
        }
    }

    fn finish(&self, reason: &str) -> Option<Result<StopReason, ModelError>> {
        match reason {
            "stop" => Some(Ok(StopReason::Stop)),
            "length" | "model_length" => Some(Ok(StopReason::Length)),
            "tool_calls" => Some(Ok(StopReason::ToolUse)),
            "error" => {
                let text = "the provider stopped with finish_reason error, a server error of its own";
                Some(Err(ModelError::new(ErrorKind::Unavailable, text.to_owned())))
            }
            _ => None,
        }
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
        ..Usage::default()
    }
    .summed()
}
