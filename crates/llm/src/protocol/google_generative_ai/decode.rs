//! Decoder of the event stream of `streamGenerateContent`.
//!
//! Each event is a response with further parts. A part continues the block before it if it has the
//! same kind. A function call is complete, unless Vertex AI streams its arguments.

use serde_json::Value;

use super::partial_arguments::PartialArguments;
use crate::message::{AssistantMessage, ErrorKind, ModelError, StopReason, Usage};
use crate::protocol::blocks::Blocks;
use crate::protocol::sse::{Events, SseEvent};
use crate::protocol::{Data, error_words, named_error, no_answer, non_empty, reported};

pub(in crate::protocol) struct GenerateDecoder {
    blocks: Blocks,
    open: Option<Open>,
    /// The call that will continue.
    call: Option<Call>,
    finish: Option<Result<StopReason, String>>,
    chunks: usize,
}

struct Call {
    index: usize,
    id: String,
    name: String,
    arguments: PartialArguments,
}

#[derive(Clone, Copy)]
struct Open {
    index: usize,
    thought: bool,
}

impl GenerateDecoder {
    /// Creates a decoder that fills `empty`.
    pub fn new(empty: AssistantMessage) -> GenerateDecoder {
        GenerateDecoder { blocks: Blocks::new(empty), open: None, call: None, finish: None, chunks: 0 }
    }

    fn chunk(&mut self, chunk: &Value) {
        self.usage(&chunk["usageMetadata"]);
        if chunk["error"].is_object() {
            let error = &chunk["error"];
            let kind = ErrorKind::of_code(&error["code"]);
            return self.end(Some(reported(kind, &error_words(error, None))));
        }
        self.chunks += 1;
        self.blocks.identity(non_empty(&chunk["responseId"]), non_empty(&chunk["modelVersion"]));
        if let Some(reason) = non_empty(&chunk["promptFeedback"]["blockReason"]) {
            self.blocks.message().raw_stop_reason = Some(reason.to_owned());
            self.finish = Some(Err(format!("the provider refused the request: {reason}")));
        }
        let candidate = &chunk["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            self.part(part);
        }
        if let Some(reason) = non_empty(&candidate["finishReason"]) {
            self.blocks.message().raw_stop_reason = Some(reason.to_owned());
            self.finish = Some(match reason {
                "STOP" => Ok(StopReason::Stop),
                "MAX_TOKENS" => Ok(StopReason::Length),
                other => {
                    let why = non_empty(&candidate["finishMessage"]).map(|it| format!(": {it}"));
                    Err(format!("the provider stopped with {other}{}", why.unwrap_or_default()))
                }
            });
        }
    }

    fn part(&mut self, part: &Value) {
        let signature = non_empty(&part["thoughtSignature"]);
        if part["functionCall"].is_object() {
            return self.function_call(&part["functionCall"], signature);
        }
        let Some(text) = part["text"].as_str() else { return };
        let thought = part["thought"].as_bool() == Some(true);
        // A signature may come on a part without text, and goes back on a part of that kind.
        let open = match self.open {
            Some(open) if open.thought == thought || (text.is_empty() && signature.is_none()) => open,
            _ if text.is_empty() && signature.is_none() => return,
            _ => {
                self.close();
                let index = match thought {
                    true => self.blocks.begin_thinking(false),
                    false => self.blocks.begin_text(),
                };
                *self.open.insert(Open { index, thought })
            }
        };
        self.blocks.push(open.index, text);
        if let Some(signature) = signature {
            self.blocks.sign(open.index, signature, false);
        }
    }

    /// Begins a call, or continues the one that announced more.
    fn function_call(&mut self, piece: &Value, signature: Option<&str>) {
        let id = non_empty(&piece["id"]).unwrap_or_default();
        let name = non_empty(&piece["name"]).unwrap_or_default();
        let is_same = |known: &str, new: &str| new.is_empty() || known == new;
        if !self.call.as_ref().is_some_and(|call| is_same(&call.id, id) && is_same(&call.name, name)) {
            self.close();
            self.end_call();
            let (index, arguments) = (self.blocks.begin_call(id, name), PartialArguments::default());
            self.call = Some(Call { index, id: id.to_owned(), name: name.to_owned(), arguments });
        }
        let Some(call) = &mut self.call else { return };
        if let Some(arguments) = piece["args"].as_object() {
            call.arguments.extend(arguments);
        }
        for argument in piece["partialArgs"].as_array().into_iter().flatten() {
            if call.arguments.push(argument).is_none() {
                let error =
                    format!("a streamed argument has an unsupported jsonPath: {}", argument["jsonPath"]);
                return self.end(Some(ModelError::new(ErrorKind::Protocol, error)));
            }
        }
        if let Some(signature) = signature {
            self.blocks.sign(call.index, signature, false);
        }
        if piece["willContinue"].as_bool() != Some(true) {
            self.end_call();
        }
    }

    fn end_call(&mut self) {
        if let Some(call) = self.call.take() {
            self.blocks.push(call.index, &call.arguments.text());
            self.blocks.end_block(call.index, None);
        }
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.blocks.end_block(open.index, None);
        }
    }

    /// Applies the cumulative counts of an event.
    fn usage(&mut self, usage: &Value) {
        if !usage.is_object() {
            return;
        }
        let count = |field: &str| usage[field].as_u64().unwrap_or(0);
        let cache_read = count("cachedContentTokenCount");
        let thoughts = usage["thoughtsTokenCount"].as_u64();
        self.blocks.message().usage = Usage {
            input: count("promptTokenCount")
                .saturating_add(count("toolUsePromptTokenCount"))
                .saturating_sub(cache_read),
            output: count("candidatesTokenCount").saturating_add(thoughts.unwrap_or(0)),
            cache_read,
            reasoning: thoughts,
            ..Usage::default()
        }
        .summed();
    }
}

impl Events for GenerateDecoder {
    fn blocks(&mut self) -> &mut Blocks {
        &mut self.blocks
    }

    fn event(&mut self, event: &SseEvent) {
        match crate::protocol::data(&event.data) {
            Data::Object(chunk) => self.chunk(&chunk),
            Data::Other if event.event == "error" => self.end(Some(named_error(&event.data))),
            Data::Other => {}
            Data::Damaged(why) => self.end(Some(ModelError::new(ErrorKind::Protocol, why))),
        }
    }

    fn whole(&mut self, answer: &Value) {
        let chunks = answer.as_array().map_or(std::slice::from_ref(answer), Vec::as_slice);
        const KNOWN: [&str; 4] = ["candidates", "promptFeedback", "usageMetadata", "error"];
        if let [only] = chunks
            && !KNOWN.iter().any(|field| only.get(field).is_some())
        {
            self.end(Some(no_answer(only)));
            return;
        }
        for chunk in chunks {
            if !self.blocks.ended() {
                self.chunk(chunk);
            }
        }
        self.end(None);
    }

    fn end(&mut self, failure: Option<ModelError>) {
        self.end_call();
        let missing = match self.chunks {
            0 => "the stream ended without any part of an answer",
            _ => "the stream ended without finishReason",
        };
        let stop = self.finish.take().map(|stop| stop.map(|reason| self.blocks.with_calls(reason)));
        self.blocks.end_with(failure, stop, missing);
    }

    fn finish(&mut self, cut: Option<ModelError>) {
        // The protocol has no end marker, so nothing is cut after a finish reason.
        self.end(if self.finish.is_some() { None } else { cut });
    }
}
