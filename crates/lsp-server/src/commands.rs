//! `workspace/executeCommand`: parses commands and starts runs.
//!
//! [`execute`] answers at once with the session's id, without file access.

use std::sync::Arc;

use agent::Queue;
use editor_sync::buffers::OpenBuffer;
use paths::AbsPath;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use text::{LineIndex, Position, PositionEncoding};
use wire::{RpcError, codes};
use workspace::{CommitId, Undo};

use super::debug::hand_back;
use super::runs::{AsOf, Place, Runs, UndoTarget, Work, WorkKind, conversations};
use super::{Connection, Reply, answer, raw, request_line, review, transcript};

pub const NAMES: [&str; 12] = [
    "pilcrow.prompt",
    "pilcrow.refactor",
    "pilcrow.request",
    "pilcrow.steer",
    "pilcrow.stop",
    "pilcrow.undo",
    "pilcrow.redo",
    "pilcrow.compact",
    "pilcrow.sessions",
    "pilcrow.review",
    "pilcrow.transcript",
    "pilcrow.debug.handBack",
];

/// Parameters of `workspace/executeCommand`.
#[derive(Deserialize)]
struct Command {
    command: String,
    #[serde(default)]
    arguments: Vec<Value>,
}

#[derive(Deserialize)]
struct Prompt {
    text: String,
    uri: Option<String>,
    range: Option<lsp_types::Range>,
    resume: Option<String>,
}

#[derive(Deserialize)]
struct Refactor {
    kind: String,
    uri: Option<String>,
    position: Option<lsp_types::Position>,
    symbol: Option<String>,
    new_name: Option<String>,
    to: Option<String>,
    range: Option<lsp_types::Range>,
    code: Option<String>,
}

#[derive(Deserialize)]
struct Steer {
    text: String,
    session: Option<String>,
    when: Option<String>,
}

#[derive(Deserialize)]
struct Request {
    uri: String,
    line: usize,
}

#[derive(Deserialize, Default)]
struct TargetParams {
    session: Option<String>,
    commit: Option<String>,
    uri: Option<String>,
}

#[derive(Deserialize, Default)]
struct Compact {
    session: Option<String>,
    wishes: Option<String>,
    uri: Option<String>,
}

/// The data for a run of a `¶` line.
struct PendingRequest {
    open: OpenBuffer,
    line: usize,
    path: AbsPath,
    work: Work,
}

/// Executes a command without waiting.
///
/// # Errors
/// `InvalidParams` with the reason and a remedy.
pub fn execute(
    connection: &Arc<Connection>,
    params: Option<&serde_json::value::RawValue>,
) -> Result<Reply, RpcError> {
    let command: Command = params
        .and_then(|params| serde_json::from_str(params.get()).ok())
        .ok_or_else(|| invalid("executeCommand needs a command"))?;
    let first = command.arguments.into_iter().next();
    tracing::debug!(command = command.command, "command");
    let work = match command.command.as_str() {
        "pilcrow.prompt" => {
            let work = prompt(connection, read(first)?)?;
            if let Some(session) = connection.sessions.prompt_live(&work).transpose()? {
                return Ok(answer(Ok(json!({ "session": session }))));
            }
            work
        }
        "pilcrow.refactor" => refactor(connection, read(first)?)?,
        "pilcrow.request" => {
            let (pending, connection) = (request(connection, read(first)?)?, Arc::clone(connection));
            return Ok(Box::pin(async move { raw(&start_request(&connection, pending).await?) }));
        }
        "pilcrow.undo" => undo(connection, read_or_default(first)?)?,
        "pilcrow.redo" => {
            let TargetParams { uri, .. } = read_or_default(first)?;
            let place = uri.map(|uri| place(connection, &uri, None)).transpose()?;
            Work { kind: WorkKind::Undo(None), place, as_of: None, title: "redo".to_owned() }
        }
        "pilcrow.compact" => {
            let Compact { session, wishes, uri } = read_or_default(first)?;
            let place = uri.map(|uri| place(connection, &uri, None)).transpose()?;
            let kind = WorkKind::Compact { session, wishes: wishes.unwrap_or_default() };
            let work = Work { kind, place, as_of: None, title: "compact".to_owned() };
            if let Some(session) = connection.sessions.prompt_live(&work).transpose()? {
                return Ok(answer(Ok(json!({ "session": session }))));
            }
            work
        }
        "pilcrow.steer" => {
            let Steer { text, session, when } = read(first)?;
            let text = text.trim();
            if text.is_empty() {
                return Err(invalid("pilcrow.steer needs a text"));
            }
            let queue = match when.as_deref() {
                None | Some("turn") => Queue::Steering,
                Some("end") => Queue::FollowUp,
                Some(other) => return Err(invalid(format!("`when` is turn or end, not {other}"))),
            };
            let live = session.as_deref().filter(|session| connection.sessions.service.is_live(session));
            let steered = match live {
                Some(session) => Some(connection.sessions.steer(session, text, queue)?),
                None => connection.runs.steer(session.as_deref(), text, queue),
            };
            let steered =
                steered.ok_or_else(|| invalid("no active run takes messages; send a prompt instead"))?;
            return Ok(answer(Ok(json!({ "session": steered }))));
        }
        "pilcrow.sessions" => {
            let TargetParams { uri, .. } = read_or_default(first)?;
            let place = uri.map(|uri| place(connection, &uri, None)).transpose()?;
            let (near, connection) = (place.and_then(|place| place.path), Arc::clone(connection));
            return Ok(Box::pin(async move {
                let listed = conversations(&connection, near).await;
                raw(&listed.map_err(|error| RpcError::new(codes::REQUEST_FAILED, format!("{error:#}")))?)
            }));
        }
        "pilcrow.stop" => {
            let TargetParams { session, .. } = read_or_default(first)?;
            let stopped = connection.runs.stop(session.as_deref(), &connection.port)
                + connection.sessions.stop(session.as_deref(), &connection.port);
            return Ok(answer(Ok(json!({ "stopped": stopped }))));
        }
        "pilcrow.review" => {
            let (command, connection) = (read(first)?, Arc::clone(connection));
            return Ok(Box::pin(async move { raw(&review::execute(&connection, command).await?) }));
        }
        "pilcrow.debug.handBack" => {
            let TargetParams { session, .. } = read_or_default(first)?;
            let connection = Arc::clone(connection);
            return Ok(Box::pin(async move { raw(&hand_back(&connection, session.as_deref()).await) }));
        }
        "pilcrow.transcript" => {
            let TargetParams { session, .. } = read_or_default(first)?;
            let path = connection.runs.transcript(session.as_deref());
            let path = path.ok_or_else(|| invalid("no transcript yet; start a run first"))?;
            let uri = paths::path_to_uri(path.as_path());
            if connection.client.show_document {
                let peer = connection.peer.clone();
                connection.tracker.spawn(async move { transcript::open(&peer, path.as_path()).await });
            }
            return Ok(answer(Ok(json!({ "uri": uri }))));
        }
        other => return Err(invalid(format!("unknown command {other}; use one of {}", NAMES.join(", ")))),
    };
    Ok(answer(Ok(json!({ "session": Runs::start(connection, work) }))))
}

/// Starts a run of a request line.
///
/// # Errors
/// `InvalidParams` when the line is not in a comment, or when it already runs.
async fn start_request(connection: &Arc<Connection>, pending: PendingRequest) -> Result<Value, RpcError> {
    let PendingRequest { open, line, path, work } = pending;
    let all = connection.comments.requests(&open, &connection.markers(Some(&path))).await;
    let Some(found) = all.iter().find(|request| request.is_on(line, &open.text)) else {
        return Err(invalid(format!(
            "line {} is not in a comment, so it is not a request; write it in one",
            line + 1
        )));
    };
    if let Some(session) = connection.runs.session_running(&path, &found.text) {
        return Err(invalid(format!("the request already runs in session {session}")));
    }
    Ok(json!({ "session": Runs::start(connection, work) }))
}

fn prompt(connection: &Connection, prompt: Prompt) -> Result<Work, RpcError> {
    let text = prompt.text.trim().to_owned();
    if text.is_empty() {
        return Err(invalid("pilcrow.prompt needs a text"));
    }
    if let Some(wishes) = host::parse_compact(&text) {
        let kind = WorkKind::Compact { session: prompt.resume, wishes: wishes.to_owned() };
        let place = prompt.uri.map(|uri| place(connection, &uri, None)).transpose()?;
        return Ok(Work { title: title(&text), kind, place, as_of: None });
    }
    if let Some(session) = &prompt.resume {
        if uuid::Uuid::parse_str(session).is_err() {
            return Err(invalid("`resume` needs the full id of a conversation; pilcrow.sessions lists them"));
        }
        if connection.runs.is_running(session) {
            return Err(invalid("the conversation is running; send it a message with pilcrow.steer"));
        }
    }
    let place = prompt.uri.map(|uri| place(connection, &uri, prompt.range)).transpose()?;
    let as_of = place.as_ref().and_then(|place| as_of(connection, place));
    let kind = WorkKind::Prompt { text: text.clone(), resume: prompt.resume };
    Ok(Work { title: title(&text), kind, place, as_of })
}

fn refactor(connection: &Connection, refactor: Refactor) -> Result<Work, RpcError> {
    let Refactor { kind, uri, position, symbol, new_name, to, range, code } = refactor;
    let place = uri.map(|uri| place(connection, &uri, None)).transpose()?;
    if let Some(Place { uri, path: None, .. }) = &place {
        return Err(invalid(format!("{uri} has no file; save it first")));
    }
    let path = place.as_ref().and_then(|place| place.path.clone());
    let file = path.as_ref().map(|path| connection.display_path(path));
    let require = |value: &Option<String>, name: &str| {
        value
            .clone()
            .filter(|text| !text.trim().is_empty())
            .ok_or_else(|| invalid(format!("{kind} needs `{name}`")))
    };
    let as_of = place.as_ref().and_then(|place| as_of(connection, place));
    let (action, words) = match kind.as_str() {
        "rename" => {
            let new_name = require(&new_name, "new_name")?;
            let mut arguments = json!({ "action": "rename", "new_name": new_name });
            let name = match (position, &symbol, &path) {
                (Some(position), _, Some(path)) => {
                    let (name, line, column) = word_at_position(connection, path, position)?;
                    arguments["file"] = json!(path.to_string());
                    arguments["line"] = json!(line);
                    arguments["column"] = json!(column);
                    arguments["symbol"] = json!(name);
                    name
                }
                (_, Some(symbol), path) => {
                    if let Some(path) = path {
                        arguments["file"] = json!(path.to_string());
                    }
                    arguments["symbol"] = json!(symbol);
                    symbol.clone()
                }
                _ => return Err(invalid("rename needs `uri` and `position`, or `symbol`")),
            };
            let place = file.map(|file| format!(" in {file}")).unwrap_or_default();
            (arguments, format!("rename {name} to {new_name}{place}"))
        }
        "move" => {
            let (Some(path), Some(file)) = (&path, &file) else { return Err(invalid("move needs `uri`")) };
            let to = require(&to, "to")?;
            let to = if to.contains("://") {
                let path = paths::uri_to_path(&to)
                    .ok_or_else(|| invalid(format!("{to} is not a file URI; use file:///PATH")))?;
                path.display().to_string()
            } else {
                to
            };
            let words = format!("move {file} to {to}");
            (json!({ "action": "rename_file", "file": path.to_string(), "to": to }), words)
        }
        "organize_imports" | "format" => {
            let (Some(path), Some(file)) = (&path, &file) else {
                return Err(invalid(format!("{kind} needs `uri`")));
            };
            let words = if kind == "format" {
                format!("format {file}")
            } else {
                format!("organize imports in {file}")
            };
            (json!({ "action": kind, "file": path.to_string() }), words)
        }
        "fix" | "fix_all" => {
            let (Some(path), Some(file)) = (&path, &file) else {
                return Err(invalid(format!("{kind} needs `uri`")));
            };
            let mut arguments = json!({ "action": "fix_all", "file": path.to_string() });
            let mut words = match &code {
                Some(code) => format!("fix all of {code} in {file}"),
                None => format!("fix all diagnostics in {file}"),
            };
            if let Some(code) = code {
                arguments["kind"] = json!(code);
            }
            if kind == "fix" {
                let range = range.ok_or_else(|| invalid("fix needs `range`"))?;
                let (line, column) = filtered_position(connection, path, range.start)?;
                let (last, end) = filtered_position(connection, path, range.end)?;
                // Whole lines would include other problems on them.
                arguments["range"] = json!(format!("{line}:{column}-{last}:{end}"));
                words = format!("{words}:{line}");
            }
            (arguments, words)
        }
        other => {
            return Err(invalid(format!(
                "unknown refactoring {other}; use rename, move, organize_imports, format, fix or fix_all"
            )));
        }
    };
    let Value::Object(arguments) = action else {
        return Err(invalid("the refactoring has no arguments; pass an object"));
    };
    let kind = WorkKind::Call { tool: "lsp", arguments, words: words.clone() };
    Ok(Work { title: title(&words), kind, place, as_of })
}

/// The word at a position, with its line and column in the filtered text.
///
/// Both count from 1, columns in characters.
fn word_at_position(
    connection: &Connection,
    path: &AbsPath,
    position: lsp_types::Position,
) -> Result<(String, usize, u32), RpcError> {
    let open = connection
        .documents
        .by_path(path)
        .ok_or_else(|| invalid("`position` needs an open document; open it, or name the `symbol`"))?;
    let outside = || {
        invalid(format!(
            "line {} character {} is not in the document; use a position in it",
            position.line, position.character
        ))
    };
    let position = Position { line: position.line, character: position.character };
    let offset =
        open.lines.offset(&open.text, position, connection.documents.encoding()).ok_or_else(outside)?;
    let word = text::word_at(&open.text, offset);
    if word.is_empty() {
        return Err(invalid("no name at this position; place the cursor on one"));
    }
    let name = open.text[word.clone()].to_owned();
    let filtered = connection.filter.filtered_text(path, &open.text);
    let offset = connection.filter.filtered_offset(path, &open.text, word.start);
    let at = LineIndex::new(&filtered).position(&filtered, offset, PositionEncoding::Utf32);
    Ok((name, at.line as usize + 1, at.character + 1))
}

/// The line and column in characters of a position, from 1, in the filtered text.
fn filtered_position(
    connection: &Connection,
    path: &AbsPath,
    position: lsp_types::Position,
) -> Result<(usize, u32), RpcError> {
    let open = connection
        .documents
        .by_path(path)
        .ok_or_else(|| invalid("`range` needs an open document; open it, or leave `range` out"))?;
    let at = Position { line: position.line, character: position.character };
    let offset = open.lines.offset(&open.text, at, connection.documents.encoding());
    let offset = offset.ok_or_else(|| invalid("`range` is not in the document; use a range inside it"))?;
    let filtered = connection.filter.filtered_text(path, &open.text);
    let offset = connection.filter.filtered_offset(path, &open.text, offset);
    let at = LineIndex::new(&filtered).position(&filtered, offset, PositionEncoding::Utf32);
    Ok((at.line as usize + 1, at.character + 1))
}

fn request(connection: &Connection, request: Request) -> Result<PendingRequest, RpcError> {
    let place = place(connection, &request.uri, None)?;
    let Some(path) = place.path.clone() else {
        return Err(invalid(format!("{} has no file; save it first", place.uri)));
    };
    let open = connection
        .documents
        .by_path(&path)
        .ok_or_else(|| invalid(format!("{} is not open; open it in the editor", request.uri)))?;
    let markers = connection.markers(Some(&path));
    let found =
        request_line::find_at(&open.text, &open.language_id, &markers, request.line).ok_or_else(|| {
            invalid(format!("no request on line {}; write a ¶ comment there", request.line + 1))
        })?;
    let as_of = as_of(connection, &place);
    let work = Work { title: title(&found.text), kind: WorkKind::Request(found), place: Some(place), as_of };
    Ok(PendingRequest { open, line: request.line, path, work })
}

fn undo(connection: &Connection, target: TargetParams) -> Result<Work, RpcError> {
    let place = target.uri.map(|uri| place(connection, &uri, None)).transpose()?;
    let undo_target = match (target.session, target.commit) {
        (Some(session), _) => UndoTarget::Session(session),
        (None, Some(commit)) => UndoTarget::Journal(Undo::Commit(CommitId(commit))),
        (None, None) => UndoTarget::Journal(Undo::LastRun),
    };
    Ok(Work { kind: WorkKind::Undo(Some(undo_target)), place, as_of: None, title: "undo".to_owned() })
}

/// The text of the document when the command arrived.
fn as_of(connection: &Connection, place: &Place) -> Option<AsOf> {
    let open = connection.documents.get(&place.uri)?;
    let path = open.path.as_ref()?;
    connection.documents.mark(path);
    let text = connection.filter.filtered_text(path, editor_sync::buffers::without_bom(&open.text)).into();
    Some(AsOf { revision: open.revision(), text })
}

/// Finds the document of a URI, with the selected range.
fn place(connection: &Connection, uri: &str, range: Option<lsp_types::Range>) -> Result<Place, RpcError> {
    let open = connection.documents.get(uri);
    let path = match (&open, paths::uri_to_path(uri)) {
        (Some(open), _) if open.path.is_some() => open.path.clone(),
        (_, Some(path)) => AbsPath::new(path.canonicalize().unwrap_or(path)),
        _ if uri.starts_with("untitled:") => None,
        _ if uri.starts_with("file:") => return Err(invalid(no_file(uri))),
        _ => {
            let scheme = uri.split(':').next().unwrap_or_default();
            return Err(invalid(format!("{scheme}: documents are not supported; use file: or untitled:")));
        }
    };
    let whole = open.as_ref().filter(|open| open.path.is_none()).map(|open| {
        let lines = 1..open.lines.line_count() + 1;
        (lines, open.text.to_string())
    });
    let mut bytes = None;
    let selection = open.zip(range).and_then(|(open, range)| {
        let encoding = connection.documents.encoding();
        let offset = |at: lsp_types::Position| {
            let at = Position { line: at.line, character: at.character };
            open.lines.offset(&open.text, at, encoding)
        };
        let (start, end) = (offset(range.start)?, offset(range.end)?);
        let selected = open.text.get(start..end)?.to_owned();
        bytes = Some(start..end);
        Some((open.lines.line_of(start) + 1..open.lines.line_of(end) + 2, selected))
    });
    Ok(Place { uri: uri.to_owned(), path, selection: selection.or(whole), bytes })
}

/// The reason why a `file:` URI names no local file.
fn no_file(uri: &str) -> String {
    let host = uri.strip_prefix("file://").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    if host.is_empty() {
        return format!("{uri} has no absolute path; use file:///PATH");
    }
    format!("{uri} names a file on another host, {host:?}; use file:///PATH for a local one")
}

fn title(text: &str) -> String {
    text::shorten(text.lines().next().unwrap_or_default(), 60).into_owned()
}

fn read<T: serde::de::DeserializeOwned>(argument: Option<Value>) -> Result<T, RpcError> {
    let argument = argument.unwrap_or_else(|| Value::Object(Map::new()));
    serde_json::from_value(argument).map_err(|error| invalid(format!("invalid argument: {error}")))
}

fn read_or_default<T: serde::de::DeserializeOwned + Default>(argument: Option<Value>) -> Result<T, RpcError> {
    match argument {
        None | Some(Value::Null) => Ok(T::default()),
        argument => read(argument),
    }
}

fn invalid(message: impl Into<String>) -> RpcError {
    RpcError::new(codes::INVALID_PARAMS, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_page_lists_every_command_and_method() {
        let page = include_str!("../../../docs/protocols/language-server.md");
        for name in NAMES.iter().chain(&crate::actions::KINDS) {
            assert!(
                page.contains(&format!("| `{name}` |")),
                "docs/protocols/language-server.md lacks {name}"
            );
        }
        let sources = [
            include_str!("lib.rs"),
            include_str!("runs/mod.rs"),
            include_str!("runs/prompt_run.rs"),
            include_str!("runs/history.rs"),
            include_str!("runs/run_table.rs"),
            include_str!("progress.rs"),
            include_str!("approver.rs"),
            include_str!("transcript.rs"),
            include_str!("messages.rs"),
            include_str!("debug.rs"),
        ];
        let literals = sources.iter().flat_map(|source| source.split('"').skip(1).step_by(2));
        let methods: Vec<&str> = literals.filter(|text| is_method(text)).collect();
        assert!(methods.len() > 15, "{methods:?}");
        for method in methods.iter().filter(|method| !method.starts_with("pilcrow/test/")) {
            assert!(
                page.contains(&format!("`{method}`")),
                "docs/protocols/language-server.md lacks {method}"
            );
        }
    }

    fn is_method(text: &str) -> bool {
        let part = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphabetic() || c == '$');
        text.contains('/') && text.split('/').all(part)
    }
}
