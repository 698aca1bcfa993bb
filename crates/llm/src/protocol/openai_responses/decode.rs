//! Decoder of the event stream of responses.
//!
//! The provider numbers items; a completed item is authoritative over its deltas. Unknown events
//! are skipped.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{call_id, is_replayable, text_signature};
use crate::message::{AssistantMessage, ErrorKind, ModelError, StopReason, Usage};
use crate::protocol::blocks::Blocks;
use crate::protocol::sse::{Events, SseEvent};
use crate::protocol::{Data, error_words, named_error, no_answer, non_empty, reported};

pub(in crate::protocol) struct ResponsesDecoder {
    blocks: Blocks,
    /// Open items, by the provider's number.
    items: HashMap<u64, Item>,
    /// Whether encrypted reasoning may come only at the end of the response.
    late: bool,
    /// Completed reasoning that waits for its encrypted form.
    waiting: Vec<Waiting>,
    /// Numbers of completed items.
    done: HashSet<u64>,
    any: bool,
}

struct Waiting {
    index: usize,
    item: Value,
    text: String,
}

#[derive(Clone, Copy)]
struct Item {
    index: usize,
    is_call: bool,
    /// The part of the reasoning summary streamed last.
    part: u64,
}

impl ResponsesDecoder {
    /// Creates a decoder that fills `empty`.
    pub fn new(empty: AssistantMessage) -> ResponsesDecoder {
        ResponsesDecoder {
            blocks: Blocks::new(empty),
            items: HashMap::new(),
            late: false,
            waiting: Vec::new(),
            done: HashSet::new(),
            any: false,
        }
    }

    /// Keeps reasoning open until the end of the response.
    ///
    /// Some servers send encrypted reasoning only there.
    pub(crate) fn with_late_reasoning(self) -> ResponsesDecoder {
        ResponsesDecoder { late: true, ..self }
    }

    fn head(&mut self, response: &Value) {
        self.blocks.identity(non_empty(&response["id"]), non_empty(&response["model"]));
    }

    /// The item of this number, begun if needed.
    fn item(&mut self, number: u64, begin: impl FnOnce(&mut Blocks) -> usize) -> Item {
        let blocks = &mut self.blocks;
        *self.items.entry(number).or_insert_with(|| Item { index: begin(blocks), is_call: false, part: 0 })
    }

    fn added(&mut self, number: u64, item: &Value) {
        // Text and reasoning begin with their first piece: an item may stay empty.
        if item["type"] == "function_call" && !self.items.contains_key(&number) {
            let index = self.blocks.begin_call(&call_id(item), non_empty(&item["name"]).unwrap_or_default());
            self.blocks.push(index, non_empty(&item["arguments"]).unwrap_or_default());
            self.items.insert(number, Item { index, is_call: true, part: 0 });
        }
    }

    fn done(&mut self, number: u64, item: &Value) {
        match item["type"].as_str().unwrap_or_default() {
            "message" => {
                let text = texts(&item["content"], &["text", "refusal"], "");
                if text.is_empty() && !self.items.contains_key(&number) {
                    return;
                }
                let Item { index, .. } = self.item(number, Blocks::begin_text);
                if let Some(signature) = text_signature(item) {
                    self.blocks.sign(index, &signature, false);
                }
                self.blocks.end_block(index, Some(&text));
            }
            "reasoning" => {
                let summary = texts(&item["summary"], &["text"], "\n\n");
                let text =
                    if summary.is_empty() { texts(&item["content"], &["text"], "\n\n") } else { summary };
                let Item { index, .. } = self.item(number, |blocks| blocks.begin_thinking(false));
                if self.late && non_empty(&item["encrypted_content"]).is_none() {
                    self.waiting.push(Waiting { index, item: item.clone(), text });
                } else {
                    if is_replayable(item) {
                        self.blocks.sign(index, &item.to_string(), false);
                    }
                    self.blocks.end_block(index, Some(&text));
                }
            }
            "function_call" => {
                self.added(number, item);
                let Some(&Item { index, .. }) = self.items.get(&number) else { return };
                self.blocks.name_call(index, &call_id(item), non_empty(&item["name"]).unwrap_or_default());
                if let Some(whole) = item["arguments"].as_str() {
                    self.blocks.set_arguments(index, whole);
                }
                self.blocks.end_block(index, None);
            }
            // The decoder skips server-side tools and unknown items.
            _ => {}
        }
        self.items.remove(&number);
        self.done.insert(number);
    }

    fn failed(&mut self, error: &Value) {
        let kind = ErrorKind::of_code(&error["code"]);
        self.blocks.end(Err(reported(kind, &error_words(error, None))));
    }

    fn terminal(&mut self, response: &Value) {
        self.head(response);
        let usage = &response["usage"];
        if usage.is_object() {
            let count = |value: &Value| value.as_u64().unwrap_or(0);
            let cache_read = count(&usage["input_tokens_details"]["cached_tokens"]);
            let cache_write = count(&usage["input_tokens_details"]["cache_write_tokens"]);
            let input = count(&usage["input_tokens"]);
            self.blocks.message().usage = Usage {
                input: input.saturating_sub(cache_read).saturating_sub(cache_write),
                output: count(&usage["output_tokens"]),
                cache_read,
                cache_write,
                reasoning: usage["output_tokens_details"]["reasoning_tokens"].as_u64(),
                ..Usage::default()
            }
            .summed();
        }
        if self.items.is_empty() && self.done.is_empty() {
            // Some servers send the items only here.
            for (number, item) in (0..).zip(response["output"].as_array().into_iter().flatten()) {
                self.done(number, item);
            }
        }
        for Waiting { index, mut item, text } in std::mem::take(&mut self.waiting) {
            let mut output = response["output"].as_array().into_iter().flatten();
            let same = output.find(|it| it["id"] == item["id"]);
            // Unencrypted reasoning cannot go back, since nothing is stored.
            if let Some(encrypted) = same.and_then(|it| non_empty(&it["encrypted_content"])) {
                item["encrypted_content"] = Value::from(encrypted);
                self.blocks.sign(index, &item.to_string(), false);
            }
            self.blocks.end_block(index, Some(&text));
        }
        let status = non_empty(&response["status"]).unwrap_or("completed");
        let reason = non_empty(&response["incomplete_details"]["reason"]);
        self.blocks.message().raw_stop_reason = Some(reason.unwrap_or(status).to_owned());
        let unfinished = self.items.values().any(|item| item.is_call);
        let provider = |text: String| Err(ModelError::new(ErrorKind::Provider, text));
        let end = match (status, reason) {
            ("incomplete", Some("max_output_tokens")) => Ok(StopReason::Length),
            ("incomplete", reason) => {
                provider(format!("the response is incomplete: {}", reason.unwrap_or("no reason was given")))
            }
            ("failed", _) => return self.failed(&response["error"]),
            ("completed", _) if unfinished => Err(ModelError::new(
                ErrorKind::Protocol,
                "the response was completed with an unfinished tool call".to_owned(),
            )),
            ("completed", _) if self.blocks.has_calls() => Ok(StopReason::ToolUse),
            ("completed", _) => Ok(StopReason::Stop),
            (other, _) => provider(format!("the response ended with status {other}")),
        };
        self.blocks.end(end);
    }
}

/// The texts of all parts, by the first field that each has.
fn texts(parts: &Value, fields: &[&str], between: &str) -> String {
    let parts = parts.as_array().into_iter().flatten();
    let texts: Vec<&str> = parts.filter_map(|part| fields.iter().find_map(|it| part[*it].as_str())).collect();
    texts.join(between)
}

impl Events for ResponsesDecoder {
    fn blocks(&mut self) -> &mut Blocks {
        &mut self.blocks
    }

    fn event(&mut self, event: &SseEvent) {
        let data = match crate::protocol::data(&event.data) {
            Data::Object(data) => data,
            Data::Other if event.event == "error" => return self.blocks.end(Err(named_error(&event.data))),
            Data::Other => return,
            Data::Damaged(why) => return self.blocks.end(Err(ModelError::new(ErrorKind::Protocol, why))),
        };
        self.any = true;
        let number = data["output_index"].as_u64().unwrap_or_default();
        let piece = non_empty(&data["delta"]).unwrap_or_default();
        match non_empty(&data["type"]).unwrap_or(&event.event) {
            "response.created" | "response.in_progress" => self.head(&data["response"]),
            "response.output_item.added" => self.added(number, &data["item"]),
            "response.output_text.delta" | "response.refusal.delta" => {
                let item = self.item(number, Blocks::begin_text);
                self.blocks.push(item.index, piece);
            }
            // Some servers send the complete text only here.
            "response.output_text.done"
                if !self.items.contains_key(&number) && !self.done.contains(&number) =>
            {
                if let Some(text) = non_empty(&data["text"]) {
                    let item = self.item(number, Blocks::begin_text);
                    self.blocks.push(item.index, text);
                }
            }
            "response.reasoning_text.delta" => {
                let item = self.item(number, |blocks| blocks.begin_thinking(false));
                self.blocks.push(item.index, piece);
            }
            "response.reasoning_summary_text.delta" => {
                let item = self.item(number, |blocks| blocks.begin_thinking(false));
                let part = data["summary_index"].as_u64().unwrap_or(item.part);
                if part != item.part {
                    self.blocks.push(item.index, "\n\n");
                    self.items.insert(number, Item { part, ..item });
                }
                self.blocks.push(item.index, piece);
            }
            "response.function_call_arguments.delta" => {
                if let Some(item) = self.items.get(&number).filter(|item| item.is_call) {
                    self.blocks.push(item.index, piece);
                }
            }
            "response.function_call_arguments.done" => {
                if let Some(item) = self.items.get(&number).filter(|item| item.is_call)
                    && let Some(whole) = data["arguments"].as_str()
                {
                    self.blocks.set_arguments(item.index, whole);
                }
            }
            "response.output_item.done" => self.done(number, &data["item"]),
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.terminal(&data["response"]);
            }
            "error" => {
                let error = if data["error"].is_object() { &data["error"] } else { &data };
                self.failed(error);
            }
            _ => {}
        }
    }

    fn whole(&mut self, answer: &Value) {
        if answer["output"].is_array() {
            self.terminal(answer);
        } else if answer["error"].is_object() {
            self.failed(&answer["error"]);
        } else {
            self.blocks.end(Err(no_answer(answer)));
        }
    }

    fn end(&mut self, failure: Option<ModelError>) {
        let text = match self.any {
            true => "the stream ended before the response did",
            false => "the stream ended without any part of an answer",
        };
        let failure = failure.unwrap_or_else(|| ModelError::new(ErrorKind::Protocol, text.to_owned()));
        self.blocks.end(Err(failure));
    }

    fn finish(&mut self, cut: Option<ModelError>) {
        self.end(cut);
    }
}
