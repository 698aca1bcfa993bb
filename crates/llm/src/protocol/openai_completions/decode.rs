//! The event stream of chat completions, decoded. Lenient towards what compatible servers send: chunks that are not JSON
//! objects are skipped, fields of the wrong type count as missing.
//!
//! Blocks stay open until the end of the stream, so that text after a tool call continues the first
//! text block; reasoning is read before content in the same delta. Usage may come after the finish
//! reason, so the message ends at `[DONE]` or at the end of the bytes.

use serde_json::Value;

use super::details::Details;
use super::encode::REASONING_FIELDS;
use crate::endpoint::Compat;
use crate::message::{AssistantMessage, ErrorKind, StopReason, Usage};
use crate::protocol::blocks::Blocks;
use crate::protocol::calls::Calls;
use crate::protocol::sse::{SseDecoder, SseEvent};
use crate::protocol::{Data, Decoder, error_text, non_empty};
use crate::stream::StreamEvent;

/// Decodes one response.
pub(super) struct CompletionsDecoder {
    sse: SseDecoder,
    blocks: Blocks,
    text: Option<usize>,
    thinking: Option<usize>,
    /// What goes back as it came beside or in the place of the text of thinking.
    details: Details,
    calls: Calls,
    finish: Option<Result<StopReason, String>>,
    needs_finish_reason: bool,
    chunks: usize,
}

impl CompletionsDecoder {
    /// Begins a response that fills `empty`.
    pub fn new(empty: AssistantMessage, compat: &Compat) -> CompletionsDecoder {
        CompletionsDecoder {
            sse: SseDecoder::default(),
            blocks: Blocks::new(empty),
            text: None,
            thinking: None,
            details: Details::default(),
            calls: Calls::default(),
            finish: None,
            needs_finish_reason: compat.finish_reason,
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
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            let text = format!("the provider reported an error: {}", error_text(error));
            // Where there is no code, the type may be the word for it.
            let code = if error["code"].is_null() { &error["type"] } else { &error["code"] };
            return self.end(Some((ErrorKind::of_code(code).refined(&text), text)));
        }
        self.chunks += 1;
        self.blocks.identity(non_empty(&chunk["id"]), non_empty(&chunk["model"]));
        let choice = &chunk["choices"][0];
        if let Some(usage) = [&chunk["usage"], &choice["usage"]].into_iter().find(|usage| usage.is_object()) {
            self.blocks.message().usage = read_usage(usage);
        }
        // `message` comes from servers that do not stream, or send one whole chunk.
        self.delta(if choice["delta"].is_object() { &choice["delta"] } else { &choice["message"] });
        if let Some(reason) = non_empty(&choice["finish_reason"]) {
            self.finish = Some(match reason {
                "stop" | "end" => Ok(StopReason::Stop),
                "length" => Ok(StopReason::Length),
                "tool_calls" | "function_call" => Ok(StopReason::ToolUse),
                other => Err(format!("the provider stopped with finish_reason {other}")),
            });
            self.blocks.message().raw_stop_reason = Some(reason.to_owned());
        }
    }

    fn delta(&mut self, delta: &Value) {
        // Some servers repeat the same reasoning in two fields, so the first that has any is taken.
        let reasoning = REASONING_FIELDS.iter().find_map(|field| Some((*field, non_empty(&delta[*field])?)));
        if let Some((field, piece)) = reasoning {
            self.think(field, piece);
        }
        let details = delta["reasoning_details"].as_array().into_iter().flatten();
        for detail in details.filter(|detail| detail.is_object()) {
            // The text stands in the other fields as well, where a server has them.
            let piece = match reasoning {
                None => ["text", "summary"].iter().find_map(|field| non_empty(&detail[*field])),
                Some(_) => None,
            };
            self.think("reasoning", piece.unwrap_or_default());
            self.details.take(detail);
        }
        for field in ["content", "refusal"] {
            if let Some(piece) = non_empty(&delta[field]) {
                let index = *self.text.get_or_insert_with(|| self.blocks.begin_text());
                self.blocks.push(index, piece);
            }
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call(call["index"].as_u64(), call, &call["function"]);
        }
        if delta["function_call"].is_object() {
            self.call(None, &Value::Null, &delta["function_call"]);
        }
    }

    fn think(&mut self, field: &str, piece: &str) {
        let index = *self.thinking.get_or_insert_with(|| {
            let index = self.blocks.begin_thinking(false);
            self.blocks.sign(index, field, false);
            index
        });
        self.blocks.push(index, piece);
    }

    fn call(&mut self, number: Option<u64>, call: &Value, function: &Value) {
        let id = non_empty(&call["id"]).unwrap_or_default();
        let name = non_empty(&function["name"]).unwrap_or_default();
        self.calls.piece(&mut self.blocks, number, id, name, &function["arguments"]);
    }

    fn end(&mut self, failure: Option<(ErrorKind, String)>) {
        if let (Some(index), Some(signature)) = (self.thinking, self.details.signature()) {
            self.blocks.sign(index, &signature, false);
        }
        let end = match (failure, self.finish.take()) {
            (Some(failure), _) => Err(failure),
            (None, Some(Ok(reason))) => Ok(reason),
            (None, Some(Err(error))) => Err((ErrorKind::Provider, error)),
            (None, None) if self.chunks == 0 => {
                Err((ErrorKind::Protocol, "the stream ended without any chunk of an answer".to_owned()))
            }
            (None, None) if self.needs_finish_reason => {
                Err((ErrorKind::Protocol, "the stream ended without finish_reason".to_owned()))
            }
            (None, None) if self.blocks.has_calls() => Ok(StopReason::ToolUse),
            (None, None) => Ok(StopReason::Stop),
        };
        self.blocks.end(end);
    }
}

impl Decoder for CompletionsDecoder {
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
        total_tokens: 0,
        // OpenRouter says what it asked.
        cost: usage["cost"].as_f64().map(crate::price::Cost::dollars),
    }
    .summed()
}
