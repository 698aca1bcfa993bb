//! Code actions and code lenses.
//!
//! They ask no server, and wait for a parse and shortly for the review.
//!
//! The list has only actions that need no further input and can run: without a model, it omits
//! those that need one.

use std::ops::Range;
use std::sync::Arc;

use editor_sync::buffers::OpenBuffer;
use serde_json::{Value, json};
use text::{LineIndex, Position};

use super::{Connection, request_line, review};

/// Pilcrow's own kinds of actions, which editors do not run when they save a file.
pub const KINDS: [&str; 8] = [EXPLAIN, TEST, REQUEST, REVIEW, IMPORTS, FIX, FIX_ALL, ASK];
const EXPLAIN: &str = "refactor.pilcrow.explain";
const TEST: &str = "refactor.pilcrow.test";
const REQUEST: &str = "refactor.pilcrow.request";
const REVIEW: &str = "refactor.pilcrow.review";
const IMPORTS: &str = "source.pilcrow.organizeImports";
const FIX: &str = "quickfix.pilcrow.fix";
const FIX_ALL: &str = "quickfix.pilcrow.fixAll";
const ASK: &str = "quickfix.pilcrow.ask";

/// Maximum number of fixes offered at one place.
const MAX_FIXES: usize = 5;

/// `CodeActionTag.LLMGenerated` (LSP 3.18).
const LLM_GENERATED: u8 = 1;

/// The code actions for a range of a document.
pub async fn code_actions(connection: &Arc<Connection>, open: &OpenBuffer, params: &Value) -> Value {
    let Some(selected) = range(connection, open, &params["range"]) else { return json!([]) };
    let line = open.lines.line_of(selected.start);
    let markers = connection.markers(open.path.as_ref());
    let mut request = open.path.as_ref().and_then(|_| request_near(open, line, &markers));
    if request.is_some() {
        let all = connection.comments.requests(open, &markers).await;
        request =
            all.iter().find(|request| request.is_on(line, &open.text)).map(|request| request.text.clone());
    }
    let only: Option<Vec<&str>> =
        params["context"]["only"].as_array().map(|kinds| kinds.iter().filter_map(Value::as_str).collect());
    let is_requested = |kind: &str| {
        only.as_ref().is_none_or(|only| {
            only.iter().any(|only| {
                kind == *only || kind.strip_prefix(only).is_some_and(|rest| rest.starts_with('.'))
            })
        })
    };
    let mut actions = Vec::new();
    let llm = connection.has_model(open.path.as_ref());
    if is_requested(REQUEST) {
        if let Some(text) = &request {
            let command = json!({ "title": "Run ¶", "command": "pilcrow.request", "arguments": [{ "uri": open.uri, "line": line }] });
            actions.push(action(connection, &format!("Run ¶ {text}"), REQUEST, command, llm));
        } else if connection.client.action_literals
            && connection.client.facts.apply_edit
            && let Some(edit) = request_edit(connection, open, &selected, line, &markers)
        {
            actions.push(json!({ "title": "Write a ¶ request here", "kind": REQUEST, "edit": edit }));
        }
    }
    if is_requested(REVIEW) {
        for (title, argument) in review::actions(connection, open, line).await {
            let command = json!({ "title": title, "command": "pilcrow.review", "arguments": [argument] });
            actions.push(action(connection, title, REVIEW, command, false));
        }
    }
    let prompt = |title: &str, text: &str| {
        let arguments = json!([{ "text": text, "uri": open.uri, "range": params["range"] }]);
        json!({ "title": title, "command": "pilcrow.prompt", "arguments": arguments })
    };
    if llm && is_requested(EXPLAIN) {
        let command = prompt(
            "Explain",
            "Explain this code: what it does, and why it is written as it is. Change nothing.",
        );
        actions.push(action(connection, "Explain this", EXPLAIN, command, true));
    }
    if llm && is_requested(TEST) && open.path.is_some() {
        let text = "Write a test for this code, where this project keeps its tests and in their style.";
        actions.push(action(connection, "Write a test for this", TEST, prompt("Write a test", text), true));
    }
    if is_requested(FIX) || is_requested(FIX_ALL) {
        let fixes = fixes(connection, open, params);
        actions.extend(fixes.into_iter().filter(|(kind, ..)| is_requested(kind)).map(
            |(kind, title, argument)| {
                let command =
                    json!({ "title": title, "command": "pilcrow.refactor", "arguments": [argument] });
                action(connection, &title, kind, command, false)
            },
        ));
    }
    if llm && is_requested(ASK) {
        for item in params["context"]["diagnostics"].as_array().into_iter().flatten().take(MAX_FIXES) {
            let (title, text) = question(item);
            let arguments = json!([{ "text": text, "uri": open.uri, "range": item["range"] }]);
            let command = json!({ "title": title, "command": "pilcrow.prompt", "arguments": arguments });
            actions.push(action(connection, &title, ASK, command, true));
        }
    }
    if is_requested(IMPORTS)
        && open.path.as_ref().is_some_and(|path| {
            connection.projects.contains(path) && connection.servers.organize_imports(path)
        })
    {
        let arguments = json!([{ "kind": "organize_imports", "uri": open.uri }]);
        let command =
            json!({ "title": "Organize imports", "command": "pilcrow.refactor", "arguments": arguments });
        actions.push(action(connection, "Organize imports", IMPORTS, command, false));
    }
    Value::Array(actions)
}

/// Fix actions for the client's diagnostics: one for each, one for all of its kind.
///
/// The run finds out whether a server has a safe fix.
fn fixes(connection: &Connection, open: &OpenBuffer, params: &Value) -> Vec<(&'static str, String, Value)> {
    let served = open
        .path
        .as_ref()
        .is_some_and(|path| connection.projects.contains(path) && connection.servers.fix_all(path));
    let known = params["context"]["diagnostics"].as_array().filter(|_| served);
    let mut out = Vec::new();
    let mut kinds: Vec<String> = Vec::new();
    for item in known.into_iter().flatten().take(MAX_FIXES) {
        let (code, short) = (code_of(item), short_message(item));
        let mut argument = json!({ "kind": "fix", "uri": open.uri, "range": item["range"] });
        if let Some(code) = &code {
            argument["code"] = json!(code);
        }
        out.push((FIX, format!("Fix this: {short}"), argument));
        kinds.extend(code.filter(|code| !kinds.contains(code)));
    }
    for code in kinds {
        let argument = json!({ "kind": "fix_all", "uri": open.uri, "code": code });
        out.push((FIX_ALL, format!("Fix all {code} in this file"), argument));
    }
    out
}

/// The title and the prompt of the action that asks a model about a diagnostic.
fn question(diagnostic: &Value) -> (String, String) {
    let message = diagnostic["message"].as_str().unwrap_or_default();
    let source = diagnostic["source"].as_str().map(str::to_owned);
    let origin = source.into_iter().chain(code_of(diagnostic)).collect::<Vec<_>>().join(" ");
    let origin = if origin.is_empty() { origin } else { format!(" ({origin})") };
    let title = format!("Ask Pilcrow: {}", short_message(diagnostic));
    (title, format!("Fix the cause of this diagnostic{origin}: {message}"))
}

fn code_of(diagnostic: &Value) -> Option<String> {
    match &diagnostic["code"] {
        Value::String(code) => Some(code.clone()),
        Value::Number(code) => Some(code.to_string()),
        _ => None,
    }
}

/// The beginning of a diagnostic's message.
fn short_message(diagnostic: &Value) -> String {
    let line = diagnostic["message"].as_str().unwrap_or_default().lines().next().unwrap_or_default();
    text::shorten(line, 60).into_owned()
}

/// A lens above every request of a document.
pub(crate) async fn code_lenses(connection: &Connection, open: &OpenBuffer) -> Vec<Value> {
    let Some(path) = &open.path else { return Vec::new() };
    let found = connection.comments.requests(open, &connection.markers(Some(path))).await;
    let lenses = found.iter().map(|request| {
        let command = match connection.runs.session_running(path, &request.text) {
            Some(session) => {
                json!({ "title": "¶ running… stop", "command": "pilcrow.stop", "arguments": [{ "session": session }] })
            }
            None => {
                let arguments = json!([{ "uri": open.uri, "line": request.line }]);
                json!({ "title": "Run ¶", "command": "pilcrow.request", "arguments": arguments })
            }
        };
        let end = position(connection, open, request.range.end);
        let start = json!({ "line": request.line, "character": 0 });
        json!({ "range": { "start": start, "end": end }, "command": command })
    });
    lenses.collect()
}

/// Builds an action with a command, or the bare command for simple clients.
fn action(connection: &Connection, title: &str, kind: &str, mut command: Value, llm: bool) -> Value {
    if !connection.client.action_literals {
        command["title"] = json!(title);
        return command;
    }
    let mut action = json!({ "title": title, "kind": kind, "command": command });
    if llm && connection.client.action_tags {
        action["tags"] = json!([LLM_GENERATED]);
    }
    action
}

/// Finds the text of the request on this line. Searches only lines nearby.
fn request_near(open: &OpenBuffer, line: usize, markers: &[String]) -> Option<String> {
    const AROUND: usize = 50;
    let last = open.lines.line_count().saturating_sub(1);
    let start = open.lines.line_with_end(line.saturating_sub(AROUND))?.start;
    let end = open.lines.line_with_end((line + AROUND).min(last))?.end;
    let at = line - line.saturating_sub(AROUND);
    request_line::find_at(&open.text[start..end], &open.language_id, markers, at).map(|found| found.text)
}

/// The edit that writes a request above the line, where the user continues typing.
fn request_edit(
    connection: &Connection,
    open: &OpenBuffer,
    selected: &Range<usize>,
    line: usize,
    markers: &[String],
) -> Option<Value> {
    let bytes = open.lines.line(&open.text, line)?;
    let content = &open.text[bytes.clone()];
    let indent = &content[..content.len() - content.trim_start().len()];
    let word = text::word_at(&open.text, selected.start);
    let name = &open.text[word];
    let starts_name = name.starts_with(|first: char| first.is_alphabetic() || first == '_');
    let text = if starts_name { format!("rename {name} to ") } else { String::new() };
    let marker = markers.first().map_or("¶", String::as_str);
    let (before, after) = request_line::write_comment(&open.language_id, indent, marker, &text)?;
    let line_end = if open.text.contains("\r\n") { "\r\n" } else { "\n" };
    let at = json!({ "line": line, "character": 0 });
    let range = json!({ "start": at, "end": at });
    let edit = if connection.client.snippets {
        let plain = |text: &str| text.replace('\\', "\\\\").replace('$', "\\$").replace('}', "\\}");
        let snippet = format!("{}$0{}{line_end}", plain(&before), plain(&after));
        json!({ "range": range, "snippet": { "kind": "snippet", "value": snippet } })
    } else {
        json!({ "range": range, "newText": format!("{before}{after}{line_end}") })
    };
    let document = json!({ "uri": open.uri, "version": open.version });
    Some(json!({ "documentChanges": [{ "textDocument": document, "edits": [edit] }] }))
}

fn range(connection: &Connection, open: &OpenBuffer, range: &Value) -> Option<Range<usize>> {
    let range: lsp_types::Range = serde_json::from_value(range.clone()).ok()?;
    let offset = |at: lsp_types::Position| {
        let at = Position { line: at.line, character: at.character };
        open.lines.offset(&open.text, at, connection.documents.encoding())
    };
    let (start, end) = (offset(range.start)?, offset(range.end)?);
    (start <= end).then_some(start..end)
}

fn position(connection: &Connection, open: &OpenBuffer, offset: usize) -> Value {
    let lines: &LineIndex = &open.lines;
    let at = lines.position(&open.text, offset, connection.documents.encoding());
    json!({ "line": at.line, "character": at.character })
}
