//! The event stream of chat completions, decoded. Lenient towards what compatible servers send: chunks that are not JSON
//! objects are skipped, fields of the wrong type count as missing.
//!
//! Blocks stay open until the end of the stream, so that text after a tool call continues the first
//! text block; reasoning is read before content in the same delta. Usage may come after the finish
//! reason, so the message ends at `[DONE]` or at the end of the bytes.

use serde_json::Value;

use super::Compat;
use super::encode::REASONING_FIELDS;
use crate::fold::MessageFold;
use crate::message::{AssistantMessage, Content, ErrorKind, StopReason, ToolCall, Usage, now_ms};
use crate::partial_json::{parse_arguments, parse_repaired};
use crate::protocol::Decoder;
use crate::protocol::sse::{SseDecoder, SseEvent};
use crate::stream::StreamEvent;

/// Decodes one response.
pub struct CompletionsDecoder {
    sse: SseDecoder,
    fold: MessageFold,
    text: Option<usize>,
    thinking: Option<Thinking>,
    calls: Vec<Call>,
    finish: Option<Result<StopReason, String>>,
    needs_finish_reason: bool,
    blocks: usize,
    chunks: usize,
    ended: bool,
}

struct Thinking {
    index: usize,
    field: &'static str,
}

struct Call {
    /// The content index.
    index: usize,
    /// The index the provider gave, if any.
    number: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl CompletionsDecoder {
    /// Begins a response that fills `empty`.
    pub fn new(empty: AssistantMessage, compat: &Compat) -> CompletionsDecoder {
        CompletionsDecoder {
            sse: SseDecoder::default(),
            fold: MessageFold::new(empty),
            text: None,
            thinking: None,
            calls: Vec::new(),
            finish: None,
            needs_finish_reason: compat.finish_reason,
            blocks: 0,
            chunks: 0,
            ended: false,
        }
    }

    fn emit(&mut self, event: StreamEvent, out: &mut Vec<StreamEvent>) {
        self.fold.apply(&event);
        out.push(event);
    }

    fn event(&mut self, event: &SseEvent, out: &mut Vec<StreamEvent>) {
        if self.ended {
            return;
        }
        let data = event.data.trim();
        if data == "[DONE]" {
            return self.end(None, out);
        }
        match parse_repaired(data) {
            Ok(chunk @ Value::Object(_)) => self.chunk(&chunk, out),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "skipped a chunk that is not JSON"),
        }
    }

    fn chunk(&mut self, chunk: &Value, out: &mut Vec<StreamEvent>) {
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            let text = error_text(error);
            return self.end(
                Some((ErrorKind::Provider.refined(&text), format!("the provider reported an error: {text}"))),
                out,
            );
        }
        self.chunks += 1;
        let message = self.fold.message_mut();
        if message.response_id.is_none() {
            message.response_id = non_empty(&chunk["id"]).map(str::to_owned);
        }
        if message.response_model.is_none()
            && let Some(model) = non_empty(&chunk["model"])
            && model != message.model
        {
            message.response_model = Some(model.to_owned());
        }
        let choice = &chunk["choices"][0];
        for usage in [&chunk["usage"], &choice["usage"]] {
            if usage.is_object() {
                message.usage = read_usage(usage);
                break;
            }
        }
        // `message` comes from servers that do not stream, or send one whole chunk.
        let delta = if choice["delta"].is_object() { &choice["delta"] } else { &choice["message"] };
        self.delta(delta, out);
        if let Some(reason) = non_empty(&choice["finish_reason"]) {
            self.finish = Some(match reason {
                "stop" | "end" => Ok(StopReason::Stop),
                "length" => Ok(StopReason::Length),
                "tool_calls" | "function_call" => Ok(StopReason::ToolUse),
                other => Err(format!("the provider stopped with finish_reason {other}")),
            });
            self.fold.message_mut().raw_stop_reason = Some(reason.to_owned());
        }
    }

    fn delta(&mut self, delta: &Value, out: &mut Vec<StreamEvent>) {
        // Some servers repeat the same reasoning in two fields, so the first that has any is taken.
        let reasoning = REASONING_FIELDS.iter().find_map(|field| Some((*field, non_empty(&delta[*field])?)));
        if let Some((field, piece)) = reasoning {
            let index = match &self.thinking {
                Some(thinking) => thinking.index,
                None => {
                    let index = self.next_block();
                    self.thinking = Some(Thinking { index, field });
                    self.emit(StreamEvent::ThinkingStart { index }, out);
                    index
                }
            };
            self.emit(StreamEvent::ThinkingDelta { index, delta: piece.to_owned() }, out);
        }
        for field in ["content", "refusal"] {
            if let Some(piece) = non_empty(&delta[field]) {
                let index = match self.text {
                    Some(index) => index,
                    None => {
                        let index = self.next_block();
                        self.text = Some(index);
                        self.emit(StreamEvent::TextStart { index }, out);
                        index
                    }
                };
                self.emit(StreamEvent::TextDelta { index, delta: piece.to_owned() }, out);
            }
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call(call["index"].as_u64(), call, &call["function"], out);
        }
        if delta["function_call"].is_object() {
            self.call(None, &Value::Null, &delta["function_call"], out);
        }
    }

    fn call(&mut self, number: Option<u64>, call: &Value, function: &Value, out: &mut Vec<StreamEvent>) {
        let id = non_empty(&call["id"]).unwrap_or_default();
        let name = non_empty(&function["name"]).unwrap_or_default();
        let piece = match &function["arguments"] {
            Value::String(text) => text.clone(),
            // Some servers send the arguments as an object.
            whole @ Value::Object(_) => whole.to_string(),
            _ => String::new(),
        };
        let slot = match self.find_call(number, id, name) {
            Some(slot) => slot,
            None => {
                let index = self.next_block();
                self.calls.push(Call {
                    index,
                    number,
                    id: id.to_owned(),
                    name: name.to_owned(),
                    arguments: String::new(),
                });
                let start = StreamEvent::ToolCallStart { index, id: id.to_owned(), name: name.to_owned() };
                self.emit(start, out);
                self.calls.len() - 1
            }
        };
        let slot = &mut self.calls[slot];
        if slot.id.is_empty() {
            id.clone_into(&mut slot.id);
        }
        if slot.name.is_empty() {
            name.clone_into(&mut slot.name);
        }
        if !piece.is_empty() {
            slot.arguments.push_str(&piece);
            let index = slot.index;
            self.emit(StreamEvent::ToolCallDelta { index, delta: piece }, out);
        }
    }

    /// The call that a piece belongs to: by index, else by id, else the newest. Some servers give every call the
    /// index 0; a new id together with a name is a new call.
    fn find_call(&self, number: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let is_new = |call: &Call| !id.is_empty() && !name.is_empty() && !call.id.is_empty() && call.id != id;
        match number {
            Some(number) => {
                let found = self.calls.iter().rposition(|call| call.number == Some(number))?;
                (!is_new(&self.calls[found])).then_some(found)
            }
            None if !id.is_empty() => self.calls.iter().rposition(|call| call.id == id),
            None if !name.is_empty() => None,
            None => self.calls.len().checked_sub(1),
        }
    }

    fn next_block(&mut self) -> usize {
        self.blocks += 1;
        self.blocks - 1
    }

    fn end(&mut self, failure: Option<(ErrorKind, String)>, out: &mut Vec<StreamEvent>) {
        if self.ended {
            return;
        }
        self.ended = true;
        let finish = self.finish.take();
        let failure = failure.or_else(|| match &finish {
            Some(Ok(_)) => None,
            Some(Err(error)) => Some((ErrorKind::Provider, error.clone())),
            None if self.chunks == 0 => {
                Some((ErrorKind::Protocol, "the stream ended without any chunk of an answer".to_owned()))
            }
            None if self.needs_finish_reason => {
                Some((ErrorKind::Protocol, "the stream ended without finish_reason".to_owned()))
            }
            None => None,
        });
        let mut message = if let Some(failure) = failure {
            self.fold.ended(Some(failure))
        } else {
            self.end_blocks(out);
            let mut message = self.fold.snapshot();
            message.stop_reason = match finish {
                Some(Ok(reason)) => reason,
                _ if self.calls.is_empty() => StopReason::Stop,
                _ => StopReason::ToolUse,
            };
            message
        };
        message.duration_ms = Some(now_ms().saturating_sub(message.timestamp));
        self.emit(StreamEvent::end(message), out);
    }

    fn end_blocks(&mut self, out: &mut Vec<StreamEvent>) {
        let mut ends: Vec<(usize, StreamEvent)> = Vec::new();
        if let Some(Thinking { index, field }) = self.thinking
            && let Some(Content::Thinking { thinking, .. }) = self.fold.message().content.get(index)
        {
            let content = Content::Thinking {
                thinking: thinking.clone(),
                thinking_signature: Some(field.to_owned()),
                redacted: false,
            };
            ends.push((index, StreamEvent::ThinkingEnd { index, content }));
        }
        if let Some(index) = self.text
            && let Some(content) = self.fold.message().content.get(index)
        {
            ends.push((index, StreamEvent::TextEnd { index, content: content.clone() }));
        }
        let mut seen: Vec<String> = Vec::new();
        for (at, call) in std::mem::take(&mut self.calls).into_iter().enumerate() {
            let mut id = call.id;
            if id.is_empty() || seen.contains(&id) {
                id = format!("{}_{at}", if id.is_empty() { "call" } else { &id });
            }
            seen.push(id.clone());
            let (arguments, arguments_error) = match parse_arguments(&call.arguments) {
                Ok(arguments) => (arguments, None),
                Err(error) => (serde_json::Map::new(), Some(error)),
            };
            let index = call.index;
            let call = ToolCall { id, name: call.name, arguments, arguments_error, thought_signature: None };
            ends.push((index, StreamEvent::ToolCallEnd { index, call }));
        }
        ends.sort_by_key(|(index, _)| *index);
        for (_, event) in ends {
            self.emit(event, out);
        }
    }
}

impl Decoder for CompletionsDecoder {
    fn feed(&mut self, bytes: &[u8]) -> Vec<StreamEvent> {
        let mut out = Vec::new();
        if self.ended {
            return out;
        }
        match self.sse.feed(bytes) {
            Ok(events) => {
                for event in events {
                    self.event(&event, &mut out);
                }
            }
            Err(error) => self.end(Some((ErrorKind::Protocol, error.to_string())), &mut out),
        }
        out
    }

    fn feed_whole(&mut self, answer: &Value) -> Vec<StreamEvent> {
        let mut out = Vec::new();
        if !self.ended {
            self.chunk(answer, &mut out);
            self.end(None, &mut out);
        }
        out
    }

    fn finish(&mut self, cut: Option<(ErrorKind, String)>) -> Vec<StreamEvent> {
        let mut out = Vec::new();
        // After the finish reason only usage can be missing, so a connection that breaks then cuts nothing.
        let cut = if self.finish.is_some() { None } else { cut };
        self.end(cut, &mut out);
        out
    }

    fn ended(&self) -> bool {
        self.ended
    }
}

fn non_empty(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

fn error_text(error: &Value) -> String {
    let text = non_empty(error).or_else(|| non_empty(&error["message"]));
    text.map_or_else(|| error.to_string(), str::to_owned)
}

fn read_usage(usage: &Value) -> Usage {
    let details = &usage["prompt_tokens_details"];
    let cached = [&details["cached_tokens"], &usage["prompt_cache_hit_tokens"], &usage["cached_tokens"]];
    let cache_read = cached.iter().find_map(|it| it.as_u64()).unwrap_or(0);
    let cache_write = details["cache_write_tokens"].as_u64().unwrap_or(0);
    let prompt = usage["prompt_tokens"].as_u64().unwrap_or(0);
    let input = prompt.saturating_sub(cache_read).saturating_sub(cache_write);
    let output = usage["completion_tokens"].as_u64().unwrap_or(0);
    Usage {
        input,
        output,
        cache_read,
        cache_write,
        reasoning: usage["completion_tokens_details"]["reasoning_tokens"].as_u64(),
        total_tokens: input + output + cache_read + cache_write,
    }
}
