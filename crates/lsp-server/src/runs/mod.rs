//! Runs of commands and `¶` lines.
//!
//! Each is a task with progress, a transcript and an answer.
//!
//! They use the same sessions, policy and events as the command line.
//!
//! Invariants: starting a run returns the session's id at once; every run reports its result once and
//! ends its progress; stopping a run does not affect others.

mod history;
mod prompt_run;
mod run_table;

use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use adapters::{LongMessage, MessageForm};
use editor_sync::buffers::Revision;
use futures_util::FutureExt as _;
use history::{compact, undo};
use host::{Stop, describe_unsaved};
use paths::AbsPath;
use prompt_run::PromptRun;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use wire::RequestError;
use workspace::{RunId, Undo};

use super::messages::{Kind, Message};
use super::progress::Progress;
use super::request_line::RequestLine;
use super::{Connection, messages, transcript};

pub use history::{conversations, root};
pub use prompt_run::subject;
pub use run_table::Runs;

/// A run before it starts: the command's input, its document, and its title.
pub struct Work {
    pub kind: WorkKind,
    /// Its document, if the command named one.
    pub place: Option<Place>,
    /// The text that its positions refer to.
    pub as_of: Option<AsOf>,
    /// One line that names the run for the user.
    pub title: String,
}

/// A document's text at the time when a command with positions arrived.
pub struct AsOf {
    pub revision: Revision,
    /// The text without the hidden request line.
    pub text: Arc<str>,
}

/// The input of a run, by command.
pub enum WorkKind {
    /// A prompt to the agent, in a new or a continued conversation.
    Prompt {
        text: String,
        /// The conversation to continue; without it, a new one.
        resume: Option<String>,
    },
    /// One tool call, fully specified by the user's command.
    Call {
        tool: &'static str,
        arguments: Map<String, Value>,
        /// The call in plain words, for messages.
        words: String,
    },
    /// A `¶` line; its document is the place.
    Request(RequestLine),
    /// Undo, or redo with `None`.
    Undo(Option<UndoTarget>),
    /// Compaction of a conversation; without an id, of the newest.
    Compact {
        session: Option<String>,
        /// The subjects that the summary must keep.
        wishes: String,
    },
}

impl WorkKind {
    /// Whether it runs in its own session.
    fn is_conversation(&self) -> bool {
        matches!(self, WorkKind::Prompt { .. } | WorkKind::Call { .. } | WorkKind::Request(_))
    }

    /// Whether it concerns an earlier conversation.
    ///
    /// The project of such work does not depend on the open file.
    fn concerns_past_conversation(&self) -> bool {
        matches!(self, WorkKind::Prompt { resume: Some(_), .. } | WorkKind::Compact { .. })
    }
}

/// The commits that an undo reverts.
pub enum UndoTarget {
    /// An entry of the journal.
    Journal(Undo),
    /// The run of this session.
    Session(String),
}

/// A document, with an optional selection.
#[derive(Debug, Clone)]
pub struct Place {
    /// The client's spelling.
    pub uri: String,
    /// Its path; `None` if it has no file.
    pub path: Option<AbsPath>,
    /// The selected text with its lines, from 1.
    pub selection: Option<(Range<usize>, String)>,
    /// The byte range of the selection.
    pub bytes: Option<Range<usize>>,
}

/// The result of a run, for the user.
struct RunSummary {
    kind: Kind,
    text: String,
    run: Option<RunId>,
    /// Whether the run stopped, also because the user refused its call.
    stopped: bool,
}

/// Runs `work` and shows its result.
async fn run_work(
    connection: Arc<Connection>,
    session: String,
    work: Work,
    progress: Arc<Progress>,
    cancel: CancellationToken,
    gone: CancellationToken,
) {
    let folder = folder(&connection, &work);
    let place = match &folder {
        Some((folder, true)) => format!(" (in {})", folder.file_name()),
        _ => String::new(),
    };
    let (shown, title) = (Arc::clone(&progress), format!("Pilcrow: {}{place}", work.title));
    let ending = connection.ending.clone();
    // The run does not wait for it, so a client that does not answer delays nothing.
    connection.tracker.spawn(async move { shown.begin(&title, &ending).await });
    let end_reported = Arc::new(AtomicBool::new(false));
    let near = folder.map(|(folder, _)| folder);
    let execution = execute_work(
        &connection,
        &session,
        &work,
        near,
        Stop { cancel: &cancel, gone: &gone },
        &progress,
        &end_reported,
    );
    let mut summary = match AssertUnwindSafe(execution).catch_unwind().await {
        Ok(Ok(summary)) => summary,
        Ok(Err(error)) => {
            RunSummary { kind: Kind::Error, text: format!("{error:#}"), run: None, stopped: false }
        }
        Err(_) => {
            let text = "an internal error ended the run; see `pilcrow logs`".to_owned();
            let run = connection.runs.run_id(&session).filter(|_| work.kind.is_conversation());
            RunSummary { kind: Kind::Error, text, run, stopped: false }
        }
    };
    let ended = match summary.kind {
        _ if summary.stopped || cancel.is_cancelled() => "stopped",
        Kind::Error => "failed",
        _ => "done",
    };
    // A run that failed or stopped before its session started has delivered no messages.
    for message in connection.runs.take_undelivered(&session) {
        summary.text.push_str(&format!("\n{}", undelivered(&message)));
    }
    connection.runs.end(&session, summary.run.clone());
    progress.end(ended).await;
    tracing::debug!(session, "{ended}: {}", work.title);
    // Clients with events know the result of a run that ended in its session.
    if !(connection.client.events && end_reported.load(Ordering::Acquire)) {
        show_summary(&connection, &session, &summary).await;
    }
    if connection.client.lens_refresh {
        connection.refresh_lenses().await;
    }
}

/// Renders a note about a message that arrived too late.
fn undelivered(message: &str) -> String {
    format!("not delivered, because the run ended first: {message}")
}

/// Shows the result as a message; the user can open the transcript of a long one.
async fn show_summary(connection: &Arc<Connection>, session: &str, summary: &RunSummary) {
    if summary.text.trim().is_empty() {
        return;
    }
    let form = connection.client.message_form();
    let Message { text, cut } = Message::new(&summary.text, &form);
    let path = connection.runs.transcript(Some(session));
    let is_title = form.lines == 1;
    let offers_transcript =
        (cut || is_title) && form.long == LongMessage::Question && connection.client.show_document;
    let Some(path) = path.filter(|_| offers_transcript) else {
        return messages::show_rendered(&connection.peer, summary.kind, &text).await;
    };
    let connection = Arc::clone(connection);
    let kind = summary.kind;
    // The user may never answer, so a separate task waits.
    connection.tracker.clone().spawn(async move {
        const SHOW: &str = "Open transcript";
        let params = json!({ "type": kind as u8, "message": text, "actions": [{ "title": SHOW }] });
        let deadline = Duration::from_secs(24 * 60 * 60);
        let Connection { peer, ending, .. } = &*connection;
        let reply = peer.request("window/showMessageRequest", &params, deadline, ending).await;
        if let Err(RequestError::Rpc { .. }) = reply {
            // Not every client supports questions.
            return messages::show_rendered(peer, kind, &text).await;
        }
        let chosen = reply.ok().and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
        if chosen.is_some_and(|chosen| chosen["title"] == SHOW) {
            transcript::open(peer, path.as_path()).await;
        }
    });
}

async fn execute_work(
    connection: &Arc<Connection>,
    session: &str,
    work: &Work,
    near: Option<AbsPath>,
    stop: Stop<'_>,
    progress: &Arc<Progress>,
    end_reported: &Arc<AtomicBool>,
) -> anyhow::Result<RunSummary> {
    let cancel = stop.cancel;
    tokio::select! {
        () = cancel.cancelled() => anyhow::bail!("stopped"),
        () = connection.runs.wait_for_undo_turn(session) => {}
    }
    let path = work.place.as_ref().and_then(|place| place.path.as_ref());
    let known = match &work.kind {
        WorkKind::Undo(which) => {
            let session = match which {
                Some(UndoTarget::Session(session)) => Some(session.as_str()),
                _ => None,
            };
            let named = path.and_then(|path| connection.projects.root_for(Some(path)).ok());
            let inside = path.is_some_and(|path| connection.projects.contains(path));
            // A file outside of all folders, such as a transcript, selects a project only if a run used it.
            named
                .filter(|root| inside || connection.runs.has_run_in(root))
                .or_else(|| connection.sessions.service.root_of(session?))
                .or_else(|| connection.runs.last_root(session))
        }
        _ => near,
    };
    let root = match known {
        Some(root) => root,
        None if work.kind.concerns_past_conversation() => history::root(connection, path)?,
        None => connection.projects.root_for(path)?,
    };
    connection.runs.set_root(session, &root);
    let lease = tokio::select! {
        // This is cancel safe: the next caller continues to open the project.
        () = cancel.cancelled() => anyhow::bail!("stopped"),
        lease = connection.projects.open(&root) => lease?,
    };
    match &work.kind {
        WorkKind::Undo(which) => undo(connection, session, &lease, which.as_ref(), cancel).await,
        WorkKind::Compact { session, wishes } => {
            compact(connection, &lease, session.clone(), wishes, cancel).await
        }
        WorkKind::Prompt { .. } | WorkKind::Call { .. } | WorkKind::Request(_) => {
            let run = PromptRun { connection, session, lease: &lease, progress, end_reported };
            run.run(work, stop).await
        }
    }
}

/// The folder of work without a file, and whether there are other candidates.
fn folder(connection: &Connection, work: &Work) -> Option<(AbsPath, bool)> {
    let is_named = work.place.as_ref().is_some_and(|place| place.path.is_some());
    if is_named || matches!(work.kind, WorkKind::Undo(_)) {
        return None;
    }
    connection.projects.folder_near(&connection.documents.last_touched())
}

/// Whether the work is an undo, as far as known before it runs.
fn is_undo(connection: &Connection, work: &Work) -> bool {
    let text = match &work.kind {
        WorkKind::Undo(_) => return true,
        WorkKind::Prompt { text, .. } | WorkKind::Request(RequestLine { text, .. }) => text,
        WorkKind::Call { .. } | WorkKind::Compact { .. } => return false,
    };
    let path = work.place.as_ref().and_then(|place| place.path.as_ref());
    !connection.has_model(path) && host::session::is_undo(text)
}

/// Adds the list of unsaved files to the text.
///
/// The list comes first if the end would be truncated; a one-line message has names or their number.
fn with_unsaved(text: &str, files: &[String], form: &MessageForm) -> String {
    if let ([_, ..], 1) = (files, form.lines) {
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let names = files.join(", ");
        let fits = first.chars().count() + names.chars().count() + 30 <= form.characters;
        let files = if fits { names } else { format!("{} files", files.len()) };
        return format!("{first} (not saved: {files})\n{rest}");
    }
    let Some(files) = describe_unsaved(files) else { return text.to_owned() };
    let after = format!("{}\n{files}", text.trim_end());
    if Message::new(&after, form).cut { format!("{files}\n{text}") } else { after }
}
