//! A run's conversation as a Markdown file in our own state folder, which `window/showDocument` can
//! open. Written as it happens; a reader that opens it early sees how far it is.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent::events::PermissionAnswer;
use agent::{Content, Event, Message};
use editor_sync::filtered_editor::Veil;
use host::project::Show;
use host::shown;
use paths::{AbsPath, StateDir, StateError};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wire::Peer;

/// Older ones are removed.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long the client has to open a document.
const SHOW: Duration = Duration::from_secs(10);
/// More lines of a tool's answer are left out.
const MAX_LINES: usize = 40;

/// The transcript of one session.
#[derive(Clone)]
pub struct Transcript {
    state: StateDir,
    name: String,
}

impl Transcript {
    /// The one of `session` below `state`, the workspace's own state folder; old ones go.
    ///
    /// # Errors
    /// When its name is refused, which it is not.
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

    /// Adds what an event says to a reader. Blocks for one short write.
    pub fn add(&self, event: &Event) {
        if let Some(text) = written(event) {
            self.append(&text);
        }
    }

    fn append(&self, text: &str) {
        let text = shown::redacted(text);
        if let Err(error) = self.state.append(&self.name, text.as_bytes(), false) {
            tracing::warn!(%error, "the transcript is not written");
        }
    }
}

/// Has the client open files that the agent or a language server wants to be seen. Nobody asked for it, so the focus
/// stays where it is. Both name lines of a text that `veil` hides one of.
pub fn shows(peer: &Peer, veil: &Arc<Veil>) -> Show {
    let (peer, veil) = (peer.clone(), Arc::clone(veil));
    Arc::new(move |path, mut selection| {
        for end in ["start", "end"] {
            if let Some(line) = selection.pointer_mut(&format!("/{end}/line"))
                && let Some(seen) = line.as_u64().and_then(|line| usize::try_from(line).ok())
            {
                *line = json!(veil.line_in_editor(&path, seen));
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
            match peer.request("window/showDocument", &params, SHOW, &never).await {
                Ok(answer) => {
                    serde_json::from_str::<Value>(answer.get()).is_ok_and(|it| it["success"] == true)
                }
                Err(error) => {
                    tracing::warn!(%error, "{path} could not be shown");
                    false
                }
            }
        })
    })
}

/// Has the client open a file of ours. The person asked for it, so it takes the focus.
pub async fn open(peer: &Peer, path: &Path) {
    let params = json!({ "uri": paths::path_to_uri(path), "external": false, "takeFocus": true });
    let never = CancellationToken::new();
    if let Err(error) = peer.request("window/showDocument", &params, SHOW, &never).await {
        tracing::warn!(%error, "{} could not be shown", path.display());
    }
}

/// An event as Markdown; `None` for what a reader does not miss. Pure.
fn written(event: &Event) -> Option<String> {
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
                PermissionAnswer::Unattended => "nobody could be asked",
            };
            format!("*answered: {answer}*\n\n")
        }
        Event::Notice { text, .. } => format!("*{text}*\n\n"),
        Event::ModelChange { provider, model } => format!("*{provider}/{model} answers from here on*\n\n"),
        Event::AgentEnd { error: Some(error), .. } => format!("*ended: {error}*\n\n"),
        _ => return None,
    })
}
