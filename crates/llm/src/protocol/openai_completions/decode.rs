//! Decoder of the event stream of chat completions.
//!
//! Fields of the wrong type count as missing. Blocks stay open until the end of the stream, so that
//! text after a tool call continues the first text block. Reasoning is read before content in the
//! same delta.

use serde_json::Value;

use super::details::Details;
use super::encode::REASONING_FIELDS;
use crate::message::{ErrorKind, ModelError, StopReason, Usage};
use crate::protocol::blocks::Blocks;
use crate::protocol::calls::Calls;
use crate::protocol::chunks::Dialect;
use crate::protocol::non_empty;

/// The chunk dialect of OpenAI and compatible servers.
#[derive(Default)]
pub(super) struct Completions {
    needs_finish_reason: bool,
    text: Option<usize>,
    thinking: Option<usize>,
    /// Reasoning details that go back unchanged.
    details: Details,
    calls: Calls,
}

impl Completions {
    pub fn new(needs_finish_reason: bool) -> Completions {
        Completions { needs_finish_reason, ..Completions::default() }
    }

    fn think(&mut self, blocks: &mut Blocks, field: &str, piece: &str) {
        let index = *self.thinking.get_or_insert_with(|| {
            let index = blocks.begin_thinking(false);
            blocks.sign(index, field, false);
            index
        });
        blocks.push(index, piece);
    }

    fn say(&mut self, blocks: &mut Blocks, piece: &str) {
        if !piece.is_empty() {
            let index = *self.text.get_or_insert_with(|| blocks.begin_text());
            blocks.push(index, piece);
        }
    }

    fn part(&mut self, blocks: &mut Blocks, part: &Value) {
        match &part["thinking"] {
            Value::String(thought) => self.think(blocks, "reasoning", thought),
            Value::Array(thoughts) => {
                for thought in thoughts.iter().filter_map(|it| non_empty(&it["text"])) {
                    self.think(blocks, "reasoning", thought);
                }
            }
            _ => self.say(blocks, non_empty(&part["text"]).unwrap_or_default()),
        }
    }

    fn call(&mut self, blocks: &mut Blocks, number: Option<u64>, call: &Value, function: &Value) {
        let id = non_empty(&call["id"]).unwrap_or_default();
        let name = non_empty(&function["name"]).unwrap_or_default();
        self.calls.piece(blocks, number, id, name, &function["arguments"]);
    }
}

impl Dialect for Completions {
    fn error<'a>(&self, chunk: &'a Value) -> Option<(ErrorKind, &'a Value)> {
        // Groq reports why it stopped early beside the usage.
        let places = [&chunk["error"], &chunk["x_groq"]["error"]];
        let error = places.into_iter().find(|error| !error.is_null())?;
        // Without a code, the type may have its role.
        let code = if error["code"].is_null() { &error["type"] } else { &error["code"] };
        Some((ErrorKind::of_code(code), error))
    }

    fn usage(&self, chunk: &Value) -> Option<Usage> {
        let places = [&chunk["usage"], &chunk["choices"][0]["usage"], &chunk["x_groq"]["usage"]];
        places.into_iter().find(|usage| usage.is_object()).map(read_usage)
    }

    fn delta(&mut self, blocks: &mut Blocks, delta: &Value) {
        // Some servers repeat the reasoning in two fields, so the first non-empty one is used.
        let reasoning = REASONING_FIELDS.iter().find_map(|field| Some((*field, non_empty(&delta[*field])?)));
        if let Some((field, piece)) = reasoning {
            self.think(blocks, field, piece);
        }
        let details = delta["reasoning_details"].as_array().into_iter().flatten();
        for detail in details.filter(|detail| detail.is_object()) {
            // The other fields may have the text.
            let piece = match reasoning {
                None => ["text", "summary"].iter().find_map(|field| non_empty(&detail[*field])),
                Some(_) => None,
            };
            self.think(blocks, "reasoning", piece.unwrap_or_default());
            self.details.take(detail);
        }
        // Gateways pass on lists of parts.
        for part in delta["content"].as_array().into_iter().flatten() {
            self.part(blocks, part);
        }
        for field in ["content", "refusal"] {
            self.say(blocks, non_empty(&delta[field]).unwrap_or_default());
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call(blocks, call["index"].as_u64(), call, &call["function"]);
        }
        if delta["function_call"].is_object() {
            self.call(blocks, None, &Value::Null, &delta["function_call"]);
        }
    }

    fn finish(&self, reason: &str) -> Option<Result<StopReason, ModelError>> {
        match reason {
            "stop" | "end" => Some(Ok(StopReason::Stop)),
            "length" => Some(Ok(StopReason::Length)),
            "tool_calls" | "function_call" => Some(Ok(StopReason::ToolUse)),
            _ => None,
        }
    }

    fn needs_finish_reason(&self) -> bool {
        self.needs_finish_reason
    }

    fn end(&mut self, blocks: &mut Blocks) {
        if let (Some(index), Some(signature)) = (self.thinking, self.details.signature()) {
            blocks.sign(index, &signature, false);
        }
    }
}

fn read_usage(usage: &Value) -> Usage {
    let details = &usage["prompt_tokens_details"];
    let cached = [&details["cached_tokens"], &usage["prompt_cache_hit_tokens"], &usage["cached_tokens"]];
    let cache_read = cached.iter().find_map(|it| it.as_u64()).unwrap_or(0);
    let cache_write = details["cache_write_tokens"].as_u64().unwrap_or(0);
    let prompt = usage["prompt_tokens"].as_u64().unwrap_or(0);
    Usage {
        input: prompt.saturating_sub(cache_read).saturating_sub(cache_write),
        output: usage["completion_tokens"].as_u64().unwrap_or(0),
        cache_read,
        cache_write,
        reasoning: usage["completion_tokens_details"]["reasoning_tokens"].as_u64(),
        // OpenRouter reports the cost.
        cost: usage["cost"].as_f64().map(crate::price::Cost::dollars),
        ..Usage::default()
    }
    .summed()
}
