//! Conversion of the session files of pi, Claude Code and Codex.
//!
//! The module is pure; `docs/formats/session.md` has the tables. A line without an equivalent becomes a
//! `custom` entry, which no model receives. A malformed line is skipped with a warning.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::entry::{Header, VERSION};
use super::loaded::parse;

/// A converted session.
#[derive(Debug)]
pub(super) struct Converted {
    pub header: Header,
    /// The entries, of the newest version.
    pub entries: Vec<Value>,
    /// Name of the format.
    pub format: &'static str,
    pub warnings: Vec<String>,
}

/// Converts the text of a file.
pub(super) fn convert(file: &str, text: &str) -> Result<Converted, String> {
    let mut warnings = Vec::new();
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match serde_json::from_str::<Value>(line) {
            Ok(line @ Value::Object(_)) => lines.push((at + 1, line)),
            Ok(_) => warnings.push(format!("{file}: skipped line {}: it is not an object", at + 1)),
            Err(error) => warnings.push(format!("{file}: skipped line {}: {error}", at + 1)),
        }
    }
    let is_codex =
        |line: &Value| line["payload"].is_object() || line["type"].is_null() && line["id"].is_string();
    let session = match lines.first() {
        Some((_, first)) if first["type"] == "session" => return pi(file, text),
        Some((_, first)) if is_codex(first) => codex(lines),
        Some(_) if lines.iter().any(|(_, line)| line["uuid"].is_string()) => claude_code(lines),
        _ => return Err("it is not a session of pi, Claude Code or Codex".to_owned()),
    };
    let Session { id, cwd, entries, mut notes, format, .. } = session;
    let mut times = entries.iter().filter_map(|entry| entry["timestamp"].as_str());
    let Some(timestamp) = times.find(|time| !time.is_empty()) else {
        return Err("it has no entry with a time".to_owned());
    };
    warnings.extend(notes.drain(..).map(|note| format!("{file}: {note}")));
    let header = Header {
        version: VERSION,
        id,
        timestamp: timestamp.to_owned(),
        cwd,
        parent_session: None,
        branch_point: None,
    };
    Ok(Converted { header, entries, format, warnings })
}

/// pi's files have the form of ours.
fn pi(file: &str, text: &str) -> Result<Converted, String> {
    let loaded = parse(file, text.to_owned())?;
    let mut warnings = loaded.warnings.clone();
    let (mut entries, mut skipped) = (Vec::new(), HashMap::new());
    for entry in &loaded.entries {
        // The parents may have been in unreadable lines.
        let mut parent = entry.parent_id.as_deref();
        while let Some(above) = parent.and_then(|id| skipped.get(id)) {
            parent = *above;
        }
        match serde_json::from_str::<Value>(loaded.line(entry)) {
            Ok(mut line) => {
                line["parentId"] = json!(parent);
                entries.push(line);
            }
            Err(error) => {
                let number = loaded.text()[..entry.line.start].matches('\n').count() + 1;
                warnings.push(format!("{file}: skipped line {number}: {error}"));
                skipped.insert(entry.id.as_str(), parent);
            }
        }
    }
    Ok(Converted { header: loaded.header.clone(), entries, format: "pi", warnings })
}

/// A session under conversion.
#[derive(Default)]
struct Session {
    format: &'static str,
    id: String,
    cwd: String,
    entries: Vec<Value>,
    notes: Vec<String>,
    /// Number of the current line, and its time.
    line: usize,
    timestamp: String,
}

impl Session {
    fn new(format: &'static str) -> Session {
        Session { format, ..Session::default() }
    }

    fn begin_line(&mut self, number: usize, line: &Value) {
        self.line = number;
        if let Some(timestamp) = line["timestamp"].as_str() {
            timestamp.clone_into(&mut self.timestamp);
        }
    }

    fn last(&self) -> Option<String> {
        Some(self.entries.last()?["id"].as_str()?.to_owned())
    }

    fn add(&mut self, kind: &str, parent: Option<&str>, fields: Value) -> String {
        let id = format!("{:08x}", self.entries.len() + 1);
        let mut entry = json!({ "type": kind, "id": id, "parentId": parent, "timestamp": self.timestamp });
        if let (Value::Object(entry), Value::Object(fields)) = (&mut entry, fields) {
            entry.extend(fields);
        }
        self.entries.push(entry);
        id
    }

    /// Adds a message, with the time of its line.
    fn message(&mut self, parent: Option<&str>, mut message: Value) -> String {
        let time = self.timestamp.parse::<Timestamp>().map_or(0, Timestamp::as_millisecond);
        message["timestamp"] = json!(time.max(0));
        self.add("message", parent, json!({ "message": message }))
    }

    fn compaction(&mut self, parent: Option<&str>, summary: &str) -> String {
        let fields = json!({ "summary": summary, "tokensBefore": 0 });
        let id = self.add("compaction", parent, fields);
        // Nothing before the summary is kept.
        if let Some(entry) = self.entries.last_mut() {
            entry["firstKeptEntryId"] = json!(id);
        }
        id
    }

    /// Keeps a line that has no equivalent.
    fn keep(&mut self, line: &Value) {
        let last = self.last();
        self.add("custom", last.as_deref(), json!({ "customType": self.format, "data": line }));
    }

    /// The content blocks of a message or result.
    fn blocks(&mut self, content: &Value) -> Vec<Value> {
        let blocks = match content {
            Value::String(text) => return vec![text_block(text)],
            Value::Array(blocks) => blocks,
            _ => return Vec::new(),
        };
        blocks.iter().map(|block| self.block(block)).collect()
    }

    fn block(&mut self, block: &Value) -> Value {
        let text = |name: &str| block[name].as_str().unwrap_or_default();
        let image = |data: &str, kind: &str| json!({ "type": "image", "data": data, "mimeType": kind });
        match text("type") {
            "text" | "input_text" | "output_text" => text_block(text("text")),
            "thinking" => json!({
                "type": "thinking", "thinking": text("thinking"), "thinkingSignature": block["signature"],
            }),
            "redacted_thinking" => {
                json!({ "type": "thinking", "thinking": "", "thinkingSignature": block["data"], "redacted": true })
            }
            "tool_use" => {
                let arguments = if block["input"].is_object() { block["input"].clone() } else { json!({}) };
                json!({ "type": "toolCall", "id": block["id"], "name": block["name"], "arguments": arguments })
            }
            "image" if block["source"]["data"].is_string() => image(
                block["source"]["data"].as_str().unwrap_or_default(),
                block["source"]["media_type"].as_str().unwrap_or("image/png"),
            ),
            "input_image" if text("image_url").starts_with("data:") => {
                let (kind, data) =
                    text("image_url")["data:".len()..].split_once(";base64,").unwrap_or_default();
                image(data, kind)
            }
            kind => {
                self.notes.push(format!(
                    "line {}: replaced an unsupported block of type {kind:?} with a text",
                    self.line
                ));
                text_block(&format!("[unsupported block of type {kind}]"))
            }
        }
    }
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn result(id: &str, name: &str, content: Vec<Value>, is_error: bool) -> Value {
    json!({
        "role": "toolResult", "toolCallId": id, "toolName": name, "content": content, "isError": is_error,
    })
}

/// An answer with the results of its calls, which the next message follows.
struct Answer {
    /// Index of the entry.
    entry: usize,
    tail: String,
}

/// Converts the lines of Claude Code, which form a tree.
///
/// An answer has one line for each block, and each result follows the block of its call. Blocks with the
/// same message id become one message, and its results a sequence.
fn claude_code(lines: Vec<(usize, Value)>) -> Session {
    let mut session = Session::new("claude-code");
    let mut answers: Vec<Answer> = Vec::new();
    // Places in `answers`; a call has its name too.
    let mut by_uuid: HashMap<String, usize> = HashMap::new();
    let mut by_message: HashMap<String, usize> = HashMap::new();
    let mut by_call: HashMap<String, (String, usize)> = HashMap::new();
    for (number, line) in lines {
        session.begin_line(number, &line);
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        for (known, name) in [(&mut session.id, "sessionId"), (&mut session.cwd, "cwd")] {
            if let Some(value) = text(name).filter(|_| known.is_empty()) {
                *known = value;
            }
        }
        let parent_uuid = text("parentUuid").or_else(|| text("logicalParentUuid"));
        let above = parent_uuid.as_ref().and_then(|uuid| by_uuid.get(uuid)).copied();
        let parent = match above {
            Some(at) => Some(answers[at].tail.clone()),
            // The parent may have been in a malformed line.
            None => parent_uuid.and_then(|_| session.last()),
        };
        let flag = |name: &str| line[name].as_bool() == Some(true);
        let (message, content) = (&line["message"], &line["message"]["content"]);
        let is_aside = flag("isSidechain") || flag("isMeta") || flag("isApiErrorMessage");
        let at = match line["type"].as_str().unwrap_or_default() {
            "summary" => {
                let last = session.last();
                session.add("session_info", last.as_deref(), json!({ "name": line["summary"] }));
                None
            }
            "user" if flag("isCompactSummary") => {
                let blocks = session.blocks(content);
                let summary: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
                let tail = session.compaction(parent.as_deref(), &summary.join("\n"));
                answers.push(Answer { entry: session.entries.len() - 1, tail });
                Some(answers.len() - 1)
            }
            "user" if !is_aside && !content.is_null() => {
                let list = content.as_array().map_or(&[][..], Vec::as_slice);
                let (results, rest): (Vec<&Value>, Vec<&Value>) =
                    list.iter().partition(|block| block["type"] == "tool_result");
                let (mut at, mut parent) = (above, parent);
                for block in results {
                    let id = block["tool_use_id"].as_str().unwrap_or_default();
                    let (name, call) = by_call.get(id).cloned().unzip();
                    at = call.or(at);
                    let parent = at.map_or_else(|| parent.clone(), |at| Some(answers[at].tail.clone()));
                    let blocks = session.blocks(&block["content"]);
                    let is_error = block["is_error"].as_bool() == Some(true);
                    let name: String = name.unwrap_or_default();
                    let tail = session.message(parent.as_deref(), result(id, &name, blocks, is_error));
                    match at {
                        Some(at) => answers[at].tail = tail,
                        None => {
                            answers.push(Answer { entry: session.entries.len() - 1, tail });
                            at = Some(answers.len() - 1);
                        }
                    }
                }
                if let Some(at) = at.filter(|_| list.len() > rest.len()) {
                    parent = Some(answers[at].tail.clone());
                }
                if content.is_string() || !rest.is_empty() {
                    let content = if content.is_string() { content.clone() } else { json!(rest) };
                    let message = json!({ "role": "user", "content": session.blocks(&content) });
                    let tail = session.message(parent.as_deref(), message);
                    answers.push(Answer { entry: session.entries.len() - 1, tail });
                    at = Some(answers.len() - 1);
                }
                at
            }
            "assistant" if !is_aside && content.is_array() => {
                let blocks = session.blocks(content);
                let id = message["id"].as_str().unwrap_or_default();
                let at = match by_message.get(id) {
                    Some(at) => *at,
                    None => {
                        let fields = json!({
                            "role": "assistant", "content": [], "api": "anthropic-messages",
                            "provider": "anthropic", "model": message["model"].as_str().unwrap_or_default(),
                        });
                        let tail = session.message(parent.as_deref(), fields);
                        answers.push(Answer { entry: session.entries.len() - 1, tail });
                        answers.len() - 1
                    }
                };
                if !id.is_empty() {
                    by_message.insert(id.to_owned(), at);
                }
                for block in blocks.iter().filter(|block| block["type"] == "toolCall") {
                    let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
                    by_call.insert(text("id"), (text("name"), at));
                }
                let answer = &mut session.entries[answers[at].entry]["message"];
                append(answer, blocks);
                if message["stop_reason"] == "max_tokens" {
                    answer["stopReason"] = json!("length");
                }
                answer["usage"] = claude_usage(&message["usage"]);
                Some(at)
            }
            _ => {
                session.keep(&line);
                above
            }
        };
        if let (Some(uuid), Some(at)) = (text("uuid"), at) {
            by_uuid.insert(uuid, at);
        }
    }
    session
}

/// Adds blocks to an answer, and sets its stop reason.
fn append(answer: &mut Value, blocks: Vec<Value>) {
    let content = answer["content"].as_array_mut().into_iter();
    content.for_each(|content| content.extend(blocks.clone()));
    let calls = |content: &Value| {
        content.as_array().is_some_and(|blocks| blocks.iter().any(|it| it["type"] == "toolCall"))
    };
    answer["stopReason"] = json!(if calls(&answer["content"]) { "toolUse" } else { "stop" });
}

fn claude_usage(usage: &Value) -> Value {
    let count = |name: &str| usage[name].as_u64().unwrap_or(0);
    let (input, output) = (count("input_tokens"), count("output_tokens"));
    let (read, write) = (count("cache_read_input_tokens"), count("cache_creation_input_tokens"));
    json!({
        "input": input, "output": output, "cacheRead": read, "cacheWrite": write,
        "totalTokens": input.saturating_add(output).saturating_add(read).saturating_add(write),
    })
}

/// Beginnings of messages that Codex writes in the user's place.
const INJECTED: [&str; 4] =
    ["<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<INSTRUCTIONS>"];

/// Converts the lines of Codex, which are items of the Responses API.
///
/// Items up to the results of their calls become one message. Old files have the items without an envelope.
fn codex(lines: Vec<(usize, Value)>) -> Session {
    let mut session = Session::new("codex");
    let (mut provider, mut model) = ("openai".to_owned(), String::new());
    // The current answer, its calls without a result, and the names of all calls.
    let (mut answer, mut open, mut names) = (None, HashSet::new(), HashMap::new());
    for (number, line) in lines {
        session.begin_line(number, &line);
        let kind = line["type"].as_str().unwrap_or_default();
        let item = if line["payload"].is_object() { &line["payload"] } else { &line };
        // Old files begin with a line without a type.
        if kind == "session_meta" || line["type"].is_null() {
            for (known, name) in [(&mut session.id, "id"), (&mut session.cwd, "cwd")] {
                if known.is_empty() {
                    item[name].as_str().unwrap_or_default().clone_into(known);
                }
            }
            item["model_provider"].as_str().unwrap_or("openai").clone_into(&mut provider);
            session.keep(&line);
            continue;
        }
        let last = session.last();
        if kind == "compacted" {
            session.compaction(last.as_deref(), item["message"].as_str().unwrap_or_default());
            answer = None;
            continue;
        }
        if kind == "turn_context" {
            if let Some(new) = item["model"].as_str().filter(|new| *new != model) {
                new.clone_into(&mut model);
                let fields = json!({ "provider": provider, "modelId": model });
                session.add("model_change", last.as_deref(), fields);
            }
            session.keep(&line);
            continue;
        }
        if !matches!(kind, "response_item") && line["payload"].is_object() {
            session.keep(&line);
            continue;
        }
        let text = |name: &str| item[name].as_str().unwrap_or_default();
        let blocks = match text("type") {
            "message" if text("role") == "assistant" => session.blocks(&item["content"]),
            "message" if text("role") == "user" => {
                let content = session.blocks(&item["content"]);
                let begins = |it: &&str| {
                    content.first().is_some_and(|first| {
                        first["text"].as_str().is_some_and(|text| text.trim_start().starts_with(*it))
                    })
                };
                if INJECTED.iter().any(begins) {
                    session.keep(&line);
                } else {
                    session.message(last.as_deref(), json!({ "role": "user", "content": content }));
                    answer = None;
                }
                continue;
            }
            "reasoning" => {
                let parts =
                    item["summary"].as_array().into_iter().chain(item["content"].as_array()).flatten();
                let thinking: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
                if thinking.is_empty() {
                    session.keep(&line);
                    continue;
                }
                vec![json!({ "type": "thinking", "thinking": thinking.join("\n\n") })]
            }
            kind @ ("function_call" | "custom_tool_call" | "local_shell_call") => {
                let name = if kind == "local_shell_call" { "shell" } else { text("name") };
                let (arguments, error) = match kind {
                    "custom_tool_call" => (json!({ "input": text("input") }), None),
                    "local_shell_call" => (item["action"].clone(), None),
                    _ => match serde_json::from_str(text("arguments")) {
                        Ok(arguments @ Value::Object(_)) => (arguments, None),
                        Ok(_) => (json!({}), Some("the arguments are not an object".to_owned())),
                        Err(error) => (json!({}), Some(error.to_string())),
                    },
                };
                let id = text("call_id").to_owned();
                let mut call = json!({ "type": "toolCall", "id": id, "name": name, "arguments": arguments });
                if let Some(error) = error {
                    call["argumentsError"] = json!(error);
                }
                names.insert(id.clone(), name.to_owned());
                open.insert(id);
                vec![call]
            }
            "function_call_output" | "custom_tool_call_output" => {
                let output = &item["output"];
                let content = if output.is_object() { &output["content"] } else { output };
                let (content, id) = (session.blocks(content), text("call_id"));
                let name = names.get(id).map_or("", String::as_str);
                let is_error = output["success"].as_bool() == Some(false);
                session.message(last.as_deref(), result(id, name, content, is_error));
                open.remove(id);
                if open.is_empty() {
                    answer = None;
                }
                continue;
            }
            _ => {
                session.keep(&line);
                continue;
            }
        };
        let at = match answer {
            Some(at) => at,
            None => {
                let message = json!({
                    "role": "assistant", "content": [], "api": "openai-responses",
                    "provider": provider, "model": model,
                });
                session.message(last.as_deref(), message);
                session.entries.len() - 1
            }
        };
        answer = Some(at);
        append(&mut session.entries[at]["message"], blocks);
    }
    session
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::Path;

    use paths::{AbsPath, StateDir};

    use super::super::{SessionStore, StoreError};
    use super::*;

    /// The entries in short, the warnings, and the messages for a model.
    fn render(store: &SessionStore, file: &str, text: &str) -> Result<String, StoreError> {
        let imported = store.import(file, text)?;
        let loaded = store.load(&imported.id)?;
        let mut out = format!("{imported:#?}\n");
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        for entry in &loaded.entries {
            let line: Value = serde_json::from_str(loaded.line(entry)).unwrap();
            let role = line["message"]["role"].as_str().unwrap_or_default();
            let parent = entry.parent_id.as_deref().unwrap_or("-");
            writeln!(out, "{} < {parent} {} {} {role}", entry.id, entry.timestamp, entry.kind).unwrap();
            if entry.kind == "message" {
                writeln!(out, "    {}", line["message"]["content"]).unwrap();
            }
        }
        for message in loaded.context() {
            writeln!(out, "{}: {}", message.role(), message.text()).unwrap();
        }
        let sent = llm::transcript::repair(&loaded.context());
        let lost = sent.iter().filter(|message| message.text() == "No result provided").count();
        writeln!(out, "{} messages for a model, {lost} calls without a result", sent.len()).unwrap();
        writeln!(out, "model: {:?}", loaded.last_settings().0).unwrap();
        Ok(out)
    }

    #[test]
    fn recorded_sessions_are_imported() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/imports");
        let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|it| it.unwrap().path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
        assert!(files.len() >= 6);
        for file in files {
            let home = tempfile::tempdir().unwrap();
            let store = SessionStore::new(StateDir::new(AbsPath::new(home.path()).unwrap()));
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&file).unwrap();
            let rendered = render(&store, &name, &text).unwrap();
            expect_test::expect_file![file.with_extension("txt")].assert_eq(&rendered);
            assert!(matches!(store.import(&name, &text), Err(StoreError::Exists { .. })), "{name} again");
        }
    }

    #[test]
    fn other_files_are_refused() {
        for (text, expected) in [
            ("", "it is not a session of pi, Claude Code or Codex"),
            ("{}\n[1]\n", "it is not a session of pi, Claude Code or Codex"),
            (
                r#"{"type":"session","version":9,"id":"a"}"#,
                "it has version 9, newer than the supported version 3; update pilcrow",
            ),
        ] {
            assert_eq!(convert("f", text).unwrap_err(), expected, "{text}");
        }
    }
}
