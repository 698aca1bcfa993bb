//! The conversation of a run as a Markdown file.
//!
//! Pilcrow writes it to the state directory while the run proceeds. `window/showDocument` can open it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent::events::PermissionAnswer;
use agent::{Content, Event, Message};
use editor_sync::filtered_editor::RequestLineFilter;
use host::project::Show;
use host::{cancellation, redaction};
use paths::{AbsPath, StateDir, StateError};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wire::Peer;

/// Age at which transcripts are removed.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Deadline of the request to show a document.
const SHOW_DEADLINE: Duration = Duration::from_secs(10);
/// Maximum number of lines of a tool result.
const MAX_LINES: usize = 40;

/// A Markdown file of the events of one session.
#[derive(Clone)]
pub struct Transcript {
    state: StateDir,
    name: String,
}

impl Transcript {
    /// Creates the transcript of `session` below the workspace's state directory.
    ///
    /// Removes old transcripts.
    ///
    /// # Errors
    /// When the directory cannot be read or cleaned.
    pub fn new(state: &StateDir, session: &str) -> Result<Self, StateError> {
        let state = state.child("transcripts")?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for name in state.list()? {
            let old = state
                .stat(&name)
                .is_some_and(|(at_ms, _)| now.saturating_sub(Duration::from_millis(at_ms)) > MAX_AGE);
            if old {
                state.remove(&name)?;
            }
        }
        Ok(Self { state, name: format!("{session}.md") })
    }

    pub fn path(&self) -> AbsPath {
        self.state.path().join(&self.name)
    }

    /// Adds an event. Blocks for one short write.
    pub fn add(&self, event: &Event) {
        if let Some(text) = to_markdown(event) {
            self.append(&text);
        }
    }

    fn append(&self, text: &str) {
        let text = redaction::redact(text);
        if let Err(error) = self.state.append(&self.name, text.as_bytes(), false) {
            tracing::warn!(%error, "cannot write the transcript");
        }
    }
}

/// A callback that shows files without taking the focus.
///
/// The agent or a language server selects them.
///
/// Their lines are those of the filtered text, so `filter` maps them to the editor's text.
pub(crate) fn document_viewer(peer: &Peer, filter: &Arc<RequestLineFilter>) -> Show {
    let (peer, filter) = (peer.clone(), Arc::clone(filter));
    Arc::new(move |path, mut selection| {
        for end in ["start", "end"] {
            if let Some(line) = selection.pointer_mut(&format!("/{end}/line"))
                && let Some(number) = line.as_u64().and_then(|line| usize::try_from(line).ok())
            {
                *line = json!(filter.editor_line(&path, number));
            }
        }
        let peer = peer.clone();
        Box::pin(async move {
            let uri = paths::path_to_uri(path.as_path());
            let mut params = json!({ "uri": uri, "external": false, "takeFocus": false });
            if !selection.is_null() {
                params["selection"] = selection;
            }
            let never = CancellationToken::new();
            match peer.request("window/showDocument", &params, SHOW_DEADLINE, &never).await {
                Ok(answer) => {
                    serde_json::from_str::<Value>(answer.get()).is_ok_and(|answer| answer["success"] == true)
                }
                Err(error) => {
                    tracing::warn!(%error, "the client did not show {path}");
                    false
                }
            }
        })
    })
}

/// Asks the client to open a file and focus it, as the user requested.
pub async fn open(peer: &Peer, path: &Path) {
    request_focus(peer, path, Value::Null).await;
}

/// As [`open`], at a line from 0.
pub(crate) async fn open_at(peer: &Peer, path: &Path, line: usize) {
    let at = json!({ "line": line, "character": 0 });
    request_focus(peer, path, json!({ "start": at, "end": at })).await;
}

async fn request_focus(peer: &Peer, path: &Path, selection: Value) {
    let mut params = json!({ "uri": paths::path_to_uri(path), "external": false, "takeFocus": true });
    if !selection.is_null() {
        params["selection"] = selection;
    }
    let never = CancellationToken::new();
    if let Err(error) = peer.request("window/showDocument", &params, SHOW_DEADLINE, &never).await {
        tracing::warn!(%error, "the client did not show {}", path.display());
    }
}

/// An event as Markdown; `None` for events that a transcript omits.
fn to_markdown(event: &Event) -> Option<String> {
    Some(match event {
        Event::MessageEnd { message: Message::User(message), .. } => {
            let text = Message::User(message.clone()).text();
            let quoted: Vec<String> = text.lines().map(|line| format!("> {line}")).collect();
            format!("{}\n\n", quoted.join("\n"))
        }
        Event::MessageEnd { message: Message::Assistant(message), .. } => {
            let text = message.text();
            if text.trim().is_empty() {
                return None;
            }
            format!("{}\n\n", text.trim_end())
        }
        Event::ToolExecutionStart { label, tool_name, input, .. } => {
            format!("**{label}** `{tool_name} {input}`\n\n")
        }
        Event::ToolExecutionEnd { details, .. } if cancellation(details).is_some() => {
            format!("{}\n\n", cancellation(details).unwrap_or_default())
        }
        Event::ToolExecutionEnd { content, is_error, .. } => {
            let texts = content.iter().filter_map(|content| match content {
                Content::Text { text, .. } => Some(text.as_str()),
                _ => None,
            });
            let text = texts.collect::<Vec<_>>().join("\n");
            let mut lines: Vec<String> =
                text.lines().take(MAX_LINES).map(|line| format!("    {line}")).collect();
            let more = text.lines().count().saturating_sub(MAX_LINES);
            if more > 0 {
                lines.push(format!("    … {more} more lines"));
            }
            let failed = if *is_error { "failed:\n\n" } else { "" };
            format!("{failed}{}\n\n", lines.join("\n"))
        }
        Event::PermissionRequest { title, .. } => format!("*asked: {title}*\n\n"),
        Event::PermissionResolved { answer, .. } => {
            let answer = match answer {
                PermissionAnswer::Once => "yes",
                PermissionAnswer::Session => "yes, for this session",
                PermissionAnswer::Always => "yes, always",
                PermissionAnswer::No => "no",
                PermissionAnswer::Unattended => "no user to ask",
            };
            format!("*answered: {answer}*\n\n")
        }
        Event::Notice { text, .. } => format!("*{text}*\n\n"),
        Event::ModelChange { provider, model } => format!("*using {provider}/{model}*\n\n"),
        Event::AgentEnd { error: Some(error), .. } => format!("*ended: {error}*\n\n"),
        _ => return None,
    })
}
