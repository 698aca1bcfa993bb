//! Model output as each wire protocol streams it, split where a fault may occur.
//!
//! Written from the protocols' documentation, independently of the code that decodes it.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message as Frame};
use llm::protocol::pilcrow_proxy::ProxyEncoder;
use llm::{AssistantMessage, Content, MessageBuilder, StopReason, StreamEvent, ToolCall};
use serde_json::{Value, json};

use crate::model::Reply;

/// One part of a model's output.
#[derive(Debug, Clone)]
pub enum ModelOutput {
    Thinking(String),
    Text(String),
    /// A call with its id, the tool's name and the arguments.
    Call(String, String, Value),
}

impl ModelOutput {
    pub fn text(text: &str) -> ModelOutput {
        ModelOutput::Text(text.to_owned())
    }

    pub fn call(id: &str, name: &str, arguments: Value) -> ModelOutput {
        ModelOutput::Call(id.to_owned(), name.to_owned(), arguments)
    }
}

/// Names of the wire protocols that this module streams.
pub const PROTOCOLS: [&str; 9] = [
    "anthropic-messages",
    "azure-openai-responses",
    "bedrock-converse-stream",
    "google-generative-ai",
    "google-vertex",
    "mistral-conversations",
    "openai-completions",
    "openai-responses",
    "pilcrow-proxy",
];

/// The bytes of a reply: its beginning, each part of the output, and its end.
///
/// A call is in two pieces if the protocol sends its arguments in pieces.
pub fn pieces(protocol: &str, said: &[ModelOutput]) -> Vec<Vec<u8>> {
    match protocol {
        "anthropic-messages" => anthropic(said),
        "bedrock-converse-stream" => bedrock(said),
        "google-generative-ai" | "google-vertex" => google(said),
        "mistral-conversations" => completions(said, true),
        "openai-responses" | "azure-openai-responses" => responses(said),
        "pilcrow-proxy" => proxy(said),
        _ => completions(said, false),
    }
}

pub fn reply(protocol: &str, said: &[ModelOutput]) -> Reply {
    begun(protocol, &pieces(protocol, said))
}

/// Creates a reply of these bytes with the protocol's content type.
pub fn begun(protocol: &str, pieces: &[Vec<u8>]) -> Reply {
    let content_type = match protocol {
        "bedrock-converse-stream" => "application/vnd.amazon.eventstream",
        _ => "text/event-stream",
    };
    pieces
        .iter()
        .fold(Reply::status(200).header("content-type", content_type), |reply, piece| reply.body(piece))
}

/// Encodes a failure inside the stream: an error of the server with this message.
pub fn failure(protocol: &str, words: &str) -> Vec<u8> {
    match protocol {
        "anthropic-messages" => named(
            &json!({"type": "error", "error": {"type": "overloaded_error", "message": format!("Overloaded: {words}")}}),
        ),
        "bedrock-converse-stream" => {
            frame("exception", "serviceUnavailableException", &json!({"message": words}))
        }
        "google-generative-ai" | "google-vertex" => {
            data(&json!({"error": {"code": 503, "status": "UNAVAILABLE", "message": words}}))
        }
        "mistral-conversations" => {
            data(&json!({"object": "error", "type": "service_unavailable", "message": words, "code": "1000"}))
        }
        "openai-responses" | "azure-openai-responses" => {
            named(&json!({"type": "error", "code": "server_error", "message": words}))
        }
        _ => data(&json!({"error": {"code": 503, "message": words}})),
    }
}

fn data(value: &Value) -> Vec<u8> {
    format!("data: {value}\n\n").into_bytes()
}

/// Encodes an event named for its type.
fn named(value: &Value) -> Vec<u8> {
    format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or_default()).into_bytes()
}

fn all(events: &[Value], write: fn(&Value) -> Vec<u8>) -> Vec<u8> {
    events.iter().flat_map(write).collect()
}

/// Splits a JSON text in two.
fn halves(arguments: &Value) -> [String; 2] {
    let text = arguments.to_string();
    let middle = (text.len() / 2..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let (first, rest) = text.split_at(middle);
    [first.to_owned(), rest.to_owned()]
}

fn has_calls(said: &[ModelOutput]) -> bool {
    said.iter().any(|part| matches!(part, ModelOutput::Call(..)))
}

fn anthropic(said: &[ModelOutput]) -> Vec<Vec<u8>> {
    let usage = json!({"input_tokens": 10, "output_tokens": 1});
    let start = json!({"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": usage}});
    let mut out = vec![named(&start)];
    let mut open = Vec::new();
    let block = |index: usize, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta =
        |index: usize, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    for (index, part) in said.iter().enumerate() {
        let mut events = std::mem::take(&mut open);
        match part {
            ModelOutput::Thinking(text) => events.extend([
                block(index, json!({"type": "thinking", "thinking": ""})),
                delta(index, json!({"type": "thinking_delta", "thinking": text})),
            ]),
            ModelOutput::Text(text) => events.extend([
                block(index, json!({"type": "text", "text": ""})),
                delta(index, json!({"type": "text_delta", "text": text})),
            ]),
            ModelOutput::Call(id, name, arguments) => {
                let [first, rest] = halves(arguments);
                events.extend([
                    block(index, json!({"type": "tool_use", "id": id, "name": name, "input": {}})),
                    delta(index, json!({"type": "input_json_delta", "partial_json": first})),
                ]);
                out.push(all(&events, named));
                events = vec![delta(index, json!({"type": "input_json_delta", "partial_json": rest}))];
            }
        }
        out.push(all(&events, named));
        if matches!(part, ModelOutput::Thinking(_)) {
            open.push(delta(index, json!({"type": "signature_delta", "signature": "c2ln"})));
        }
        open.push(json!({"type": "content_block_stop", "index": index}));
    }
    let reason = if has_calls(said) { "tool_use" } else { "end_turn" };
    open.extend([
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}}),
        json!({"type": "message_stop"}),
    ]);
    out.push(all(&open, named));
    out
}

fn completions(said: &[ModelOutput], mistral: bool) -> Vec<Vec<u8>> {
    let chunk = |delta: Value, reason: Value| {
        data(
            &json!({"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}),
        )
    };
    let mut out = vec![chunk(json!({"role": "assistant"}), Value::Null)];
    for (index, part) in said.iter().enumerate() {
        let delta = match part {
            ModelOutput::Thinking(text) if mistral => {
                json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]})
            }
            ModelOutput::Thinking(text) => json!({"reasoning_content": text}),
            ModelOutput::Text(text) => json!({"content": text}),
            ModelOutput::Call(id, name, arguments) => {
                let [first, rest] = halves(arguments);
                let first = json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": first}});
                out.push(chunk(json!({"tool_calls": [first]}), Value::Null));
                json!({"tool_calls": [{"index": index, "function": {"arguments": rest}}]})
            }
        };
        out.push(chunk(delta, Value::Null));
    }
    let mut end = chunk(json!({}), json!(if has_calls(said) { "tool_calls" } else { "stop" }));
    end.extend(data(
        &json!({"id": "c", "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}),
    ));
    end.extend(b"data: [DONE]\n\n");
    out.push(end);
    out
}

fn responses(said: &[ModelOutput]) -> Vec<Vec<u8>> {
    let mut out =
        vec![named(&json!({"type": "response.created", "response": {"id": "resp_1", "model": "m"}}))];
    let mut done: Vec<Value> = Vec::new();
    let item_event = |kind: &str, index: usize, item: &Value| json!({"type": format!("response.output_item.{kind}"), "output_index": index, "item": item});
    let delta = |kind: &str, index: usize, text: &str| json!({"type": format!("response.{kind}.delta"), "output_index": index, "delta": text});
    let mut items = Vec::new();
    for (index, part) in said.iter().enumerate() {
        let mut events = std::mem::take(&mut done);
        let item = match part {
            ModelOutput::Thinking(text) => {
                events.push(item_event(
                    "added",
                    index,
                    &json!({"type": "reasoning", "id": "rs_1", "summary": []}),
                ));
                events.push(delta("reasoning_summary_text", index, text));
                json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": text}], "encrypted_content": "gAAA"})
            }
            ModelOutput::Text(text) => {
                events.push(item_event(
                    "added",
                    index,
                    &json!({"type": "message", "id": "msg_1", "role": "assistant", "content": []}),
                ));
                events.push(delta("output_text", index, text));
                json!({"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": text, "annotations": []}]})
            }
            ModelOutput::Call(id, name, arguments) => {
                let call = |arguments: &str| json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": arguments});
                let [first, rest] = halves(arguments);
                events.push(item_event("added", index, &call("")));
                events.push(delta("function_call_arguments", index, &first));
                out.push(all(&events, named));
                events = vec![delta("function_call_arguments", index, &rest)];
                call(&arguments.to_string())
            }
        };
        out.push(all(&events, named));
        done.push(item_event("done", index, &item));
        items.push(item);
    }
    let usage = json!({"input_tokens": 10, "output_tokens": 5, "total_tokens": 15});
    let response =
        json!({"id": "resp_1", "model": "m", "status": "completed", "output": items, "usage": usage});
    done.push(json!({"type": "response.completed", "response": response}));
    out.push(all(&done, named));
    out
}

fn google(said: &[ModelOutput]) -> Vec<Vec<u8>> {
    let chunk = |parts: Value, reason: Value| {
        let usage = json!({"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15});
        let candidate = json!({"content": {"role": "model", "parts": parts}, "finishReason": reason});
        data(&json!({"responseId": "r", "candidates": [candidate], "usageMetadata": usage}))
    };
    let mut out = vec![chunk(json!([]), Value::Null)];
    out.extend(said.iter().map(|part| {
        let part = match part {
            ModelOutput::Thinking(text) => json!({"text": text, "thought": true}),
            ModelOutput::Text(text) => json!({"text": text}),
            ModelOutput::Call(_, name, arguments) => {
                json!({"functionCall": {"name": name, "args": arguments}})
            }
        };
        chunk(json!([part]), Value::Null)
    }));
    out.push(chunk(json!([]), json!("STOP")));
    out
}

fn frame(kind: &str, name: &str, body: &Value) -> Vec<u8> {
    let header =
        |name: &str, value: &str| Header::new(name.to_owned(), HeaderValue::String(value.to_owned().into()));
    let headers = vec![header(":message-type", kind), header(&format!(":{kind}-type"), name)];
    let mut bytes = Vec::new();
    write_message_to(&Frame::new_from_parts(headers, body.to_string()), &mut bytes)
        .expect("a short frame can be written");
    bytes
}

fn bedrock(said: &[ModelOutput]) -> Vec<Vec<u8>> {
    let mut out = vec![frame("event", "messageStart", &json!({"role": "assistant"}))];
    let mut open: Vec<u8> = Vec::new();
    let delta = |index: usize, delta: Value| {
        frame("event", "contentBlockDelta", &json!({"contentBlockIndex": index, "delta": delta}))
    };
    for (index, part) in said.iter().enumerate() {
        let mut bytes = std::mem::take(&mut open);
        match part {
            ModelOutput::Thinking(text) => {
                bytes.extend(delta(index, json!({"reasoningContent": {"text": text}})))
            }
            ModelOutput::Text(text) => bytes.extend(delta(index, json!({"text": text}))),
            ModelOutput::Call(id, name, arguments) => {
                let [first, rest] = halves(arguments);
                let start = json!({"contentBlockIndex": index, "start": {"toolUse": {"toolUseId": id, "name": name}}});
                bytes.extend(frame("event", "contentBlockStart", &start));
                bytes.extend(delta(index, json!({"toolUse": {"input": first}})));
                out.push(std::mem::take(&mut bytes));
                bytes.extend(delta(index, json!({"toolUse": {"input": rest}})));
            }
        }
        out.push(bytes);
        if matches!(part, ModelOutput::Thinking(_)) {
            open.extend(delta(index, json!({"reasoningContent": {"signature": "c2ln"}})));
        }
        open.extend(frame("event", "contentBlockStop", &json!({"contentBlockIndex": index})));
    }
    let reason = if has_calls(said) { "tool_use" } else { "end_turn" };
    open.extend(frame("event", "messageStop", &json!({"stopReason": reason})));
    let usage = json!({"usage": {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}});
    open.extend(frame("event", "metadata", &usage));
    out.push(open);
    out
}

fn proxy(said: &[ModelOutput]) -> Vec<Vec<u8>> {
    let mut encoder = ProxyEncoder::default();
    let mut builder = MessageBuilder::new(AssistantMessage::empty("proxied", "p", "m"));
    let mut write = |events: Vec<StreamEvent>| -> Vec<u8> {
        events.iter().for_each(|event| builder.apply(event));
        events.iter().flat_map(|event| encoder.write(event).into_bytes()).collect()
    };
    let mut out = vec![write(vec![StreamEvent::Start])];
    let mut content = Vec::new();
    let mut open = None;
    for (index, part) in said.iter().enumerate() {
        let mut events: Vec<StreamEvent> = open.take().into_iter().collect();
        match part {
            ModelOutput::Thinking(text) => {
                let whole =
                    Content::Thinking { thinking: text.clone(), thinking_signature: None, redacted: false };
                let delta = StreamEvent::ThinkingDelta { index, delta: text.clone() };
                events.extend([StreamEvent::ThinkingStart { index }, delta]);
                open = Some(StreamEvent::ThinkingEnd { index, content: whole.clone() });
                content.push(whole);
            }
            ModelOutput::Text(text) => {
                let delta = StreamEvent::TextDelta { index, delta: text.clone() };
                events.extend([StreamEvent::TextStart { index }, delta]);
                open = Some(StreamEvent::TextEnd { index, content: Content::text(text) });
                content.push(Content::text(text));
            }
            ModelOutput::Call(id, name, arguments) => {
                let [first, rest] = halves(arguments);
                let (id, name) = (id.clone(), name.clone());
                events.push(StreamEvent::ToolCallStart { index, id: id.clone(), name: name.clone() });
                events.push(StreamEvent::ToolCallDelta { index, delta: first });
                out.push(write(std::mem::take(&mut events)));
                events.push(StreamEvent::ToolCallDelta { index, delta: rest });
                let arguments = arguments.as_object().cloned().unwrap_or_default();
                let call = ToolCall { id, name, arguments, arguments_error: None, thought_signature: None };
                open = Some(StreamEvent::ToolCallEnd { index, call: call.clone() });
                content.push(Content::ToolCall(call));
            }
        }
        out.push(write(events));
    }
    let stop_reason = if has_calls(said) { StopReason::ToolUse } else { StopReason::Stop };
    let message = AssistantMessage { content, stop_reason, ..AssistantMessage::empty("proxied", "p", "m") };
    out.push(write(open.into_iter().chain([StreamEvent::end(message)]).collect()));
    out
}
