//! A model that answers from a script, for tests, bug reports and demonstrations.
//!
//! `docs/formats/script.md` has the format. Callers pass in the text; this module opens no file. An
//! answer may state expectations about the request; an unmet one ends the response, and with it the
//! run, with an error.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::message::{AssistantMessage, Content, ErrorKind, Message, StopReason, ToolCall, Usage};
use crate::message_builder::MessageBuilder;
use crate::model::{Model, ModelInfo, Request};
use crate::partial_json::parse_arguments;
use crate::stream::{MessageStream, StreamEvent, StreamWriter};

/// The newest supported format.
const FORMAT: u64 = 1;

/// Reason why a script cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("cannot parse line {line} of the script: {reason}; see docs/formats/script.md")]
    Line {
        /// Line number, from 1.
        line: usize,
        reason: String,
    },
    /// The script has a newer format.
    #[error("the script has format {found}, newer than the supported format {FORMAT}; update pilcrow")]
    Newer { found: u64 },
}

/// A model that answers from a script, one line per request.
#[derive(Debug)]
pub struct ScriptModel {
    info: ModelInfo,
    answers: Vec<Answer>,
    state: Mutex<State>,
    /// Whether requests are recorded.
    keeps: bool,
}

#[derive(Debug, Default)]
struct State {
    next: usize,
    requests: Vec<Request>,
    captured: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Answer {
    #[serde(skip)]
    line: usize,
    expect: Option<Expect>,
    capture: BTreeMap<String, Capture>,
    thinking: Option<String>,
    text: Option<String>,
    tool_calls: Vec<Call>,
    content: Vec<Block>,
    stop_reason: Option<Stop>,
    error: Option<String>,
    error_kind: Option<ErrorKind>,
    usage: Tokens,
    chunk: Option<usize>,
    wait_for_cancel: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum Block {
    Text(String),
    Thinking(String),
    ToolCall(Call),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    id: Option<String>,
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    arguments_text: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "the names of the format")]
enum Stop {
    Stop,
    Length,
    ToolUse,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Tokens {
    input: u64,
    output: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Expect {
    system_contains: Vec<String>,
    last_role: Option<String>,
    last_contains: Vec<String>,
    last_lacks: Vec<String>,
    last_is_error: Option<bool>,
    messages: Option<usize>,
    tools: Option<Vec<String>>,
    tools_include: Vec<String>,
    tools_exclude: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Capture {
    after: String,
    before: String,
}

impl ScriptModel {
    /// Parses a script. `name` is the model's id, as in `script:name`.
    pub fn parse(name: &str, script: &str) -> Result<ScriptModel, ScriptError> {
        let mut answers = Vec::new();
        let mut first = true;
        for (at, text) in script.lines().enumerate() {
            let line = at + 1;
            if text.trim().is_empty() || text.trim_start().starts_with("//") {
                continue;
            }
            let value: Value = serde_json::from_str(text)
                .map_err(|error| ScriptError::Line { line, reason: error.to_string() })?;
            if std::mem::take(&mut first)
                && let Some(format) = value.get("format")
            {
                match format.as_u64() {
                    Some(FORMAT) => continue,
                    Some(found) if found > FORMAT => return Err(ScriptError::Newer { found }),
                    _ => {
                        let reason = format!("format must be {FORMAT}");
                        return Err(ScriptError::Line { line, reason });
                    }
                }
            }
            let answer: Answer = serde_json::from_value(value)
                .map_err(|error| ScriptError::Line { line, reason: error.to_string() })?;
            let both = answer.text.is_some() || answer.thinking.is_some() || !answer.tool_calls.is_empty();
            if both && !answer.content.is_empty() {
                let reason = "give either content or text, thinking and tool_calls".to_owned();
                return Err(ScriptError::Line { line, reason });
            }
            answers.push(Answer { line, ..answer });
        }
        let info = ModelInfo {
            provider: "script".to_owned(),
            id: name.to_owned(),
            api: "script".to_owned(),
            images: true,
            context_window: None,
        };
        Ok(ScriptModel { info, answers, state: Mutex::default(), keeps: true })
    }

    /// Disables [`ScriptModel::requests`].
    ///
    /// A recorded request shares the transcript, which is then copied for the next one.
    pub fn forgetful(self) -> ScriptModel {
        ScriptModel { keeps: false, ..self }
    }

    /// The number of unused answers, for tests.
    pub fn unused(&self) -> usize {
        self.answers.len() - self.lock().next
    }

    /// The requests so far, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        self.lock().requests.clone()
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, State> {
        // Every change of the state is complete before anything in it can panic.
        self.state.lock()
    }

    /// The next answer with captured values inserted, or the reason why there is none.
    fn take(&self, request: &Request) -> Result<Answer, String> {
        let mut state = self.lock();
        if self.keeps {
            state.requests.push(request.clone());
        }
        let Some(answer) = self.answers.get(state.next) else {
            return Err(format!("the script has no answer left (it has {})", self.answers.len()));
        };
        state.next += 1;
        let mut answer = answer.clone();
        if let Some(expect) = &answer.expect {
            expect.check(request).map_err(|unmet| format!("line {} of the script: {unmet}", answer.line))?;
        }
        for (name, capture) in &answer.capture {
            let found = request.messages.iter().rev().find_map(|message| capture.find(&message.text()));
            let Some(found) = found else {
                return Err(format!(
                    "line {} of the script: no message has text between {:?} and {:?} to capture as {name}",
                    answer.line, capture.after, capture.before
                ));
            };
            state.captured.insert(name.clone(), found);
        }
        answer.fill(&state.captured);
        Ok(answer)
    }
}

impl Capture {
    fn find(&self, text: &str) -> Option<String> {
        let start = text.find(&self.after)? + self.after.len();
        let end = text[start..].find(&self.before)?;
        Some(text[start..start + end].to_owned())
    }
}

impl Expect {
    fn check(&self, request: &Request) -> Result<(), String> {
        let last = request.messages.last();
        let text = last.map(Message::text).unwrap_or_default();
        let tools: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        for words in &self.system_contains {
            require(request.system.contains(words), || format!("the instructions lack {words:?}"))?;
        }
        if let Some(role) = &self.last_role {
            let found = last.map_or("nothing", Message::role);
            require(role == found, || format!("the last message is from {found}, expected {role}"))?;
        }
        for words in &self.last_contains {
            require(text.contains(words), || format!("the last message lacks {words:?}; it is {text:?}"))?;
        }
        for words in &self.last_lacks {
            require(!text.contains(words), || format!("the last message has {words:?}; it is {text:?}"))?;
        }
        if let Some(expected) = self.last_is_error {
            let is_error = matches!(last, Some(Message::ToolResult(result)) if result.is_error);
            require(is_error == expected, || {
                let found = if is_error { "an" } else { "no" };
                format!("the last message is {found} error result; its text is {text:?}")
            })?;
        }
        if let Some(count) = self.messages {
            let found = request.messages.len();
            require(found == count, || format!("the request has {found} messages, expected {count}"))?;
        }
        if let Some(expected) = &self.tools {
            require(&tools == expected, || format!("the tools are {tools:?}, expected {expected:?}"))?;
        }
        for name in &self.tools_include {
            require(tools.contains(&name.as_str()), || format!("the tools lack {name}; they are {tools:?}"))?;
        }
        for name in &self.tools_exclude {
            require(!tools.contains(&name.as_str()), || format!("the tools have {name}"))?;
        }
        Ok(())
    }
}

fn require(met: bool, unmet: impl FnOnce() -> String) -> Result<(), String> {
    if met { Ok(()) } else { Err(unmet()) }
}

impl Answer {
    fn fill(&mut self, captured: &BTreeMap<String, String>) {
        let fill = |text: &mut String| {
            for (name, value) in captured {
                let mark = format!("{{{{{name}}}}}");
                if text.contains(&mark) {
                    *text = text.replace(&mark, value);
                }
            }
        };
        let fill_call = |call: &mut Call| {
            call.arguments_text.as_mut().map(fill);
            call.arguments.values_mut().for_each(|value| fill_value(value, &fill));
        };
        self.text.as_mut().map(fill);
        self.thinking.as_mut().map(fill);
        self.tool_calls.iter_mut().for_each(fill_call);
        for block in &mut self.content {
            match block {
                Block::Text(text) | Block::Thinking(text) => fill(text),
                Block::ToolCall(call) => fill_call(call),
            }
        }
    }

    fn blocks(&self) -> Vec<Block> {
        if !self.content.is_empty() {
            return self.content.clone();
        }
        let thinking = self.thinking.iter().cloned().map(Block::Thinking);
        let text = self.text.iter().cloned().map(Block::Text);
        thinking.chain(text).chain(self.tool_calls.iter().cloned().map(Block::ToolCall)).collect()
    }

    async fn play(self, empty: AssistantMessage, writer: StreamWriter) {
        let mut builder = MessageBuilder::new(empty);
        let mut emit = |event: StreamEvent| {
            builder.apply(&event);
            writer.push(event);
        };
        emit(StreamEvent::Start);
        let mut has_calls = false;
        let mut ids: HashMap<String, usize> = HashMap::new();
        for (index, block) in self.blocks().into_iter().enumerate() {
            match block {
                Block::Text(text) => {
                    emit(StreamEvent::TextStart { index });
                    for delta in self.pieces(&text) {
                        emit(StreamEvent::TextDelta { index, delta });
                    }
                    emit(StreamEvent::TextEnd { index, content: Content::text(text) });
                }
                Block::Thinking(thinking) => {
                    emit(StreamEvent::ThinkingStart { index });
                    for delta in self.pieces(&thinking) {
                        emit(StreamEvent::ThinkingDelta { index, delta });
                    }
                    let content = Content::Thinking { thinking, thinking_signature: None, redacted: false };
                    emit(StreamEvent::ThinkingEnd { index, content });
                }
                Block::ToolCall(call) => {
                    has_calls = true;
                    let nth = ids.entry(call.name.clone()).or_default();
                    *nth += 1;
                    let id = call.id.unwrap_or_else(|| format!("script_{}_{}_{nth}", self.line, call.name));
                    let name = call.name;
                    let text = match call.arguments_text {
                        Some(text) => text,
                        None => Value::Object(call.arguments).to_string(),
                    };
                    emit(StreamEvent::ToolCallStart { index, id: id.clone(), name: name.clone() });
                    for delta in self.pieces(&text) {
                        emit(StreamEvent::ToolCallDelta { index, delta });
                    }
                    let (arguments, arguments_error) = match parse_arguments(&text) {
                        Ok(arguments) => (arguments, None),
                        Err(error) => (Map::new(), Some(error)),
                    };
                    let call = ToolCall { id, name, arguments, arguments_error, thought_signature: None };
                    emit(StreamEvent::ToolCallEnd { index, call });
                }
            }
        }
        if self.wait_for_cancel {
            // A cancel drops this future.
            std::future::pending::<()>().await;
        }
        if let Some(error) = self.error {
            return writer.fail(self.error_kind.unwrap_or(ErrorKind::Provider), error);
        }
        let mut message = builder.snapshot();
        message.usage = Usage {
            input: self.usage.input,
            output: self.usage.output,
            total_tokens: self.usage.input + self.usage.output,
            ..Usage::default()
        };
        message.stop_reason = match self.stop_reason {
            Some(Stop::Stop) => StopReason::Stop,
            Some(Stop::Length) => StopReason::Length,
            Some(Stop::ToolUse) => StopReason::ToolUse,
            None if has_calls => StopReason::ToolUse,
            None => StopReason::Stop,
        };
        writer.push(StreamEvent::end(message));
    }

    fn pieces(&self, text: &str) -> Vec<String> {
        let size = self.chunk.unwrap_or(24).max(1);
        let characters: Vec<char> = text.chars().collect();
        characters.chunks(size).map(|piece| piece.iter().collect()).collect()
    }
}

fn fill_value(value: &mut Value, fill: &impl Fn(&mut String)) {
    match value {
        Value::String(text) => fill(text),
        Value::Array(items) => items.iter_mut().for_each(|item| fill_value(item, fill)),
        Value::Object(members) => members.values_mut().for_each(|member| fill_value(member, fill)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

impl Model for ScriptModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Request, cancel: CancellationToken) -> MessageStream {
        let empty = AssistantMessage::empty(&self.info.api, &self.info.provider, &self.info.id);
        let answer = self.take(&request);
        MessageStream::spawn(empty.clone(), cancel, move |writer| async move {
            match answer {
                Ok(answer) => answer.play(empty, writer).await,
                Err(error) => writer.fail(ErrorKind::Script, error),
            }
        })
    }
}
