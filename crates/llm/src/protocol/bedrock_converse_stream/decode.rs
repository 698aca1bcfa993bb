//! Decoder of the binary event stream of `ConverseStream`.
//!
//! A frame is an event or an exception with a JSON body. Text and reasoning begin with their first
//! piece; unknown events are skipped. Usage follows the stop reason, so the message ends with it or
//! with the bytes.

use std::collections::HashMap;

use aws_smithy_eventstream::frame::{DecodedFrame, MessageFrameDecoder};
use aws_smithy_types::base64;
use aws_smithy_types::event_stream::Message as Frame;
use serde_json::Value;

use crate::message::{AssistantMessage, ErrorKind, ModelError, StopReason, Usage};
use crate::protocol::blocks::Blocks;
use crate::protocol::{Data, Decoder, error_text, non_empty};
use crate::stream::StreamEvent;

/// Maximum size of an incomplete frame; Amazon's limit is 24 MB.
const LIMIT: usize = 64 * 1024 * 1024;

pub(super) struct ConverseDecoder {
    frames: MessageFrameDecoder,
    /// Bytes of an incomplete frame.
    bytes: Vec<u8>,
    blocks: Blocks,
    open: HashMap<u64, Open>,
    stop: Option<Result<StopReason, String>>,
    any: bool,
}

struct Open {
    index: usize,
    kind: Kind,
    /// Redacted reasoning so far, in base64.
    redacted: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Call,
}

impl ConverseDecoder {
    /// Creates a decoder that fills `empty`.
    pub fn new(empty: AssistantMessage) -> ConverseDecoder {
        ConverseDecoder {
            frames: MessageFrameDecoder::new(),
            bytes: Vec::new(),
            blocks: Blocks::new(empty),
            open: HashMap::new(),
            stop: None,
            any: false,
        }
    }

    /// Decodes the complete frames.
    fn frames(&mut self) -> Result<(), String> {
        let bytes = std::mem::take(&mut self.bytes);
        let mut rest = bytes.as_slice();
        while !self.blocks.ended() {
            match self.frames.decode_frame(&mut rest) {
                Ok(DecodedFrame::Complete(frame)) => self.frame(&frame),
                Ok(DecodedFrame::Incomplete) => break,
                Err(error) => return Err(format!("a part of the answer is damaged: {error}")),
            }
        }
        self.bytes = match rest.len() == bytes.len() {
            true => bytes,
            false => rest.to_vec(),
        };
        match self.bytes.len() > LIMIT {
            true => Err(format!("a part of the answer is larger than {LIMIT} bytes")),
            false => Ok(()),
        }
    }

    fn frame(&mut self, frame: &Frame) {
        let header = |name: &str| {
            let found = frame.headers().iter().find(|header| header.name().as_str() == name)?;
            Some(found.value().as_string().ok()?.as_str().to_owned())
        };
        self.any = true;
        let text = String::from_utf8_lossy(frame.payload());
        match header(":message-type").as_deref() {
            Some("exception") => {
                let name = header(":exception-type").unwrap_or_default();
                let body = serde_json::from_str::<Value>(&text).unwrap_or(Value::Null);
                let words = match &body {
                    Value::Null => text.into_owned(),
                    body => {
                        non_empty(&body["originalMessage"]).map_or_else(|| error_text(body), str::to_owned)
                    }
                };
                self.fail(&name, &words);
            }
            Some("error") => {
                let words = header(":error-message").unwrap_or_default();
                self.fail(&header(":error-code").unwrap_or_default(), &words);
            }
            _ => match crate::protocol::data(&text) {
                Data::Object(data) => self.event(&header(":event-type").unwrap_or_default(), &data),
                Data::Other => {}
                Data::Damaged(why) => self.end(Some(ModelError::new(ErrorKind::Protocol, why))),
            },
        }
    }

    fn event(&mut self, name: &str, data: &Value) {
        let number = data["contentBlockIndex"].as_u64().unwrap_or_default();
        match name {
            "contentBlockStart" => {
                let call = &data["start"]["toolUse"];
                if call.is_object() {
                    self.call(number, call);
                }
            }
            "contentBlockDelta" => self.delta(number, &data["delta"]),
            "contentBlockStop" => self.stop_block(number),
            "messageStop" => self.stop_reason(data),
            "metadata" => {
                self.usage(&data["usage"]);
                if self.stop.is_some() {
                    self.end(None);
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, number: u64, call: &Value) {
        self.stop_block(number);
        let id = non_empty(&call["toolUseId"]).unwrap_or_default();
        let index = self.blocks.begin_call(id, non_empty(&call["name"]).unwrap_or_default());
        self.open.insert(number, Open { index, kind: Kind::Call, redacted: String::new() });
    }

    fn delta(&mut self, number: u64, delta: &Value) {
        if let Some(piece) = non_empty(&delta["text"]) {
            let index = self.block(number, Kind::Text, false).index;
            self.blocks.push(index, piece);
        }
        if let Some(piece) = non_empty(&delta["toolUse"]["input"]) {
            // A call without its start has no known tool.
            if let Some(open) = self.open.get(&number).filter(|open| open.kind == Kind::Call) {
                self.blocks.push(open.index, piece);
            }
        }
        let reasoning = &delta["reasoningContent"];
        if let Some(piece) = non_empty(&reasoning["text"]) {
            let index = self.block(number, Kind::Thinking, false).index;
            self.blocks.push(index, piece);
        }
        if let Some(signature) = non_empty(&reasoning["signature"]) {
            let index = self.block(number, Kind::Thinking, false).index;
            self.blocks.sign(index, signature, true);
        }
        if let Some(piece) = non_empty(&reasoning["redactedContent"]) {
            let open = self.block(number, Kind::Thinking, true);
            open.redacted = joined(&open.redacted, piece);
            let (index, redacted) = (open.index, open.redacted.clone());
            self.blocks.sign(index, &redacted, false);
        }
    }

    /// The open block of this number, begun if needed; ends one of another kind.
    fn block(&mut self, number: u64, kind: Kind, redacted: bool) -> &mut Open {
        if self.open.get(&number).is_some_and(|open| open.kind != kind) {
            self.stop_block(number);
        }
        let blocks = &mut self.blocks;
        self.open.entry(number).or_insert_with(|| {
            let index = match kind {
                Kind::Thinking => blocks.begin_thinking(redacted),
                Kind::Text | Kind::Call => blocks.begin_text(),
            };
            Open { index, kind, redacted: String::new() }
        })
    }

    fn stop_block(&mut self, number: u64) {
        if let Some(open) = self.open.remove(&number) {
            self.blocks.end_block(open.index, None);
        }
    }

    fn usage(&mut self, usage: &Value) {
        if !usage.is_object() {
            return;
        }
        let count = |field: &str| usage[field].as_u64().unwrap_or(0);
        let details = usage["cacheDetails"].as_array().into_iter().flatten();
        let for_an_hour = details.filter(|it| it["ttl"] == "1h").filter_map(|it| it["inputTokens"].as_u64());
        self.blocks.message().usage = Usage {
            input: count("inputTokens"),
            output: count("outputTokens"),
            cache_read: count("cacheReadInputTokens"),
            cache_write: count("cacheWriteInputTokens"),
            cache_write_1h: for_an_hour.sum(),
            ..Usage::default()
        }
        .summed();
    }

    fn stop_reason(&mut self, data: &Value) {
        let Some(reason) = non_empty(&data["stopReason"]) else { return };
        self.stop = Some(match reason {
            "end_turn" | "stop_sequence" => Ok(StopReason::Stop),
            "tool_use" => Ok(StopReason::ToolUse),
            "max_tokens" | "model_context_window_exceeded" => Ok(StopReason::Length),
            other => Err(format!("the provider stopped with stopReason {other}")),
        });
        self.blocks.message().raw_stop_reason = Some(reason.to_owned());
    }

    fn fail(&mut self, name: &str, words: &str) {
        // Event names begin with a lowercase letter, names in complete answers with an uppercase one.
        let kind = match name.to_ascii_lowercase().as_str() {
            "throttlingexception" => ErrorKind::RateLimit,
            "internalserverexception"
            | "internalerror"
            | "serviceunavailableexception"
            | "modelstreamerrorexception" => ErrorKind::Unavailable,
            "modeltimeoutexception" => ErrorKind::Timeout,
            "accessdeniedexception" | "unrecognizedclientexception" => ErrorKind::Authentication,
            _ => ErrorKind::Provider,
        };
        let colon = if name.is_empty() || words.is_empty() { "" } else { ": " };
        let text = format!("the provider reported an error: {name}{colon}{words}");
        self.end(Some(ModelError::new(kind.refined(words), text)));
    }

    fn end(&mut self, failure: Option<ModelError>) {
        let missing = match self.any {
            true => "the stream ended before messageStop",
            false => "the stream ended without any part of an answer",
        };
        let stop = self.stop.take().map(|stop| stop.map(|reason| self.blocks.with_calls(reason)));
        self.blocks.end_with(failure, stop, missing);
    }

    fn whole(&mut self, answer: &Value) {
        let content = &answer["output"]["message"]["content"];
        if !content.is_array() {
            return self.fail("", &error_text(answer));
        }
        self.any = true;
        for (number, block) in (0..).zip(content.as_array().into_iter().flatten()) {
            let call = &block["toolUse"];
            let reasoning = &block["reasoningContent"];
            if call.is_object() {
                self.call(number, call);
                if let Some(open) = self.open.get(&number)
                    && call["input"].is_object()
                {
                    self.blocks.push(open.index, &call["input"].to_string());
                }
            } else if reasoning["reasoningText"].is_object() {
                self.delta(number, &serde_json::json!({ "reasoningContent": reasoning["reasoningText"] }));
            } else {
                self.delta(number, block);
            }
            self.stop_block(number);
        }
        self.stop_reason(answer);
        self.usage(&answer["usage"]);
        self.end(None);
    }
}

/// Joins two pieces of base64, each of which may be padded.
fn joined(before: &str, piece: &str) -> String {
    if before.ends_with('=')
        && let (Ok(mut bytes), Ok(more)) = (base64::decode(before), base64::decode(piece))
    {
        bytes.extend(more);
        return base64::encode(bytes);
    }
    format!("{before}{piece}")
}

impl Decoder for ConverseDecoder {
    fn feed(&mut self, bytes: &[u8]) -> Vec<StreamEvent> {
        if self.blocks.ended() {
            return Vec::new();
        }
        self.bytes.extend_from_slice(bytes);
        if let Err(why) = self.frames() {
            self.end(Some(ModelError::new(ErrorKind::Protocol, why)));
        }
        self.blocks.take()
    }

    fn feed_whole(&mut self, answer: &Value) -> Vec<StreamEvent> {
        if !self.blocks.ended() {
            self.whole(answer);
        }
        self.blocks.take()
    }

    fn finish(&mut self, cut: Option<ModelError>) -> Vec<StreamEvent> {
        // After the stop reason only the counts can be missing.
        self.end(if self.stop.is_some() { None } else { cut });
        self.blocks.take()
    }

    fn ended(&self) -> bool {
        self.blocks.ended()
    }
}
