//! Runs: what commands and `¶` lines start. Each in a task of its own, through the same sessions,
//! policy and events as the command line, with its progress, its transcript and its answer.
//!
//! What must stay true: starting answers at once with the session's id; every run ends by telling
//! how, once, with its progress ended; stopping one is felt by no other.

mod history;
mod prompt_run;
mod run_table;

use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use adapters::{LongMessage, MessageForm};
use editor_sync::buffers::Moment;
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

pub use history::conversations;
pub use run_table::Runs;

/// What a run is to do.
pub struct Work {
    pub what: What,
    /// The document it is about, if one was named.
    pub place: Option<Place>,
    /// The text that it speaks of.
    pub as_of: Option<AsOf>,
    /// One line for people.
    pub title: String,
}

/// A document's text when a command came that speaks of places in it.
pub struct AsOf {
    pub moment: Moment,
    /// As runs see it.
    pub seen: Arc<str>,
}

/// The kinds of work.
pub enum What {
    /// A request in words.
    Prompt {
        text: String,
        /// The conversation that is gone on with; a new one without it.
        resume: Option<String>,
    },
    /// One call of a tool that the person's command says exactly.
    Call {
        tool: &'static str,
        arguments: Map<String, Value>,
        /// The same in words.
        words: String,
    },
    /// A `¶` line; its document is the place.
    Request(RequestLine),
    /// Undo, or redo with `None`.
    TakeBack(Option<TakeBack>),
    /// A conversation is put into fewer words; the newest without a name.
    Compact {
        session: Option<String>,
        /// What the summary must not leave out.
        wishes: String,
    },
}

impl What {
    /// Whether it is carried out in a session of its own.
    fn is_conversation(&self) -> bool {
        matches!(self, What::Prompt { .. } | What::Call { .. } | What::Request(_))
    }

    /// Whether it is about conversations of before: a file outside of all folders says nothing of where they are.
    fn is_of_before(&self) -> bool {
        matches!(self, What::Prompt { resume: Some(_), .. } | What::Compact { .. })
    }
}

/// What is taken back.
pub enum TakeBack {
    /// As the journal knows it.
    Journal(Undo),
    /// The run of this session.
    Session(String),
}

/// A document, and perhaps a part of it.
#[derive(Debug, Clone)]
pub struct Place {
    /// As the client spells it.
    pub uri: String,
    /// Where it is; `None` for one that has no file.
    pub path: Option<AbsPath>,
    /// The selected text with its lines, from 1.
    pub selection: Option<(Range<usize>, String)>,
    /// The bytes of what is selected.
    pub bytes: Option<Range<usize>>,
}

/// How a run ended, for people.
struct Told {
    kind: Kind,
    text: String,
    run: Option<RunId>,
}

/// One run from its beginning to what the person is told.
async fn carry_out(
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
    // Not waited for: a client that does not answer holds up nothing.
    connection.tracker.spawn(async move { shown.begin(&title, &ending).await });
    let told_end = Arc::new(AtomicBool::new(false));
    let near = folder.map(|(folder, _)| folder);
    let working = work_out(
        &connection,
        &session,
        &work,
        near,
        Stop { cancel: &cancel, gone: &gone },
        &progress,
        &told_end,
    );
    let mut told = match AssertUnwindSafe(working).catch_unwind().await {
        Ok(Ok(told)) => told,
        Ok(Err(error)) => Told { kind: Kind::Error, text: format!("{error:#}"), run: None },
        Err(_) => {
            let text = "the run ended by a defect of Pilcrow; `pilcrow logs` has more".to_owned();
            let run = connection.runs.commits_of(&session).filter(|_| work.what.is_conversation());
            Told { kind: Kind::Error, text, run }
        }
    };
    let ended = match told.kind {
        _ if cancel.is_cancelled() => "stopped",
        Kind::Error => "failed",
        _ => "done",
    };
    // Of a run that failed or was stopped before a model worked.
    for words in connection.runs.listens_no_more(&session) {
        told.text.push_str(&format!("\n{}", unheard(&words)));
    }
    connection.runs.end(&session, told.run.clone());
    progress.end(ended).await;
    tracing::debug!(session, "{ended}: {}", work.title);
    // Who takes events has heard all of a run that ended in its session.
    if !(connection.client.events && told_end.load(Ordering::Acquire)) {
        tell(&connection, &session, &told).await;
    }
    if connection.client.lens_refresh {
        connection.refresh_lenses().await;
    }
}

/// What is told of words that came too late.
fn unheard(words: &str) -> String {
    format!("not done, since the run ended before it was heard: {words}")
}

/// Shows how it ended, as a message; a long answer can be opened.
async fn tell(connection: &Arc<Connection>, session: &str, told: &Told) {
    if told.text.trim().is_empty() {
        return;
    }
    let form = connection.client.message_form();
    let Message { text, cut } = Message::of(&told.text, &form);
    let path = connection.runs.transcript(Some(session));
    let asks = cut && form.long == LongMessage::Question && connection.client.show_document;
    let Some(path) = path.filter(|_| asks) else {
        return messages::show_as_is(&connection.peer, told.kind, &text).await;
    };
    let connection = Arc::clone(connection);
    let kind = told.kind;
    // The person may answer tomorrow or never; that is nobody's business but this task's.
    connection.tracker.clone().spawn(async move {
        const SHOW: &str = "Open transcript";
        let params = json!({ "type": kind as u8, "message": text, "actions": [{ "title": SHOW }] });
        let patience = Duration::from_secs(24 * 60 * 60);
        let Connection { peer, ending, .. } = &*connection;
        let asked = peer.request("window/showMessageRequest", &params, patience, ending).await;
        if let Err(RequestError::Rpc { .. }) = asked {
            // Not every client takes questions.
            return messages::show_as_is(peer, kind, &text).await;
        }
        let chosen = asked.ok().and_then(|it| serde_json::from_str::<Value>(it.get()).ok());
        if chosen.is_some_and(|chosen| chosen["title"] == SHOW) {
            transcript::open(peer, path.as_path()).await;
        }
    });
}

async fn work_out(
    connection: &Arc<Connection>,
    session: &str,
    work: &Work,
    near: Option<AbsPath>,
    stop: Stop<'_>,
    progress: &Arc<Progress>,
    told_end: &Arc<AtomicBool>,
) -> anyhow::Result<Told> {
    let cancel = stop.cancel;
    tokio::select! {
        () = cancel.cancelled() => anyhow::bail!("stopped"),
        () = connection.runs.turn(session) => {}
    }
    let path = work.place.as_ref().and_then(|place| place.path.as_ref());
    let known = match &work.what {
        What::TakeBack(which) if path.is_none() => {
            let session = match which {
                Some(TakeBack::Session(session)) => Some(session.as_str()),
                _ => None,
            };
            connection.runs.root_of(session)
        }
        _ => near,
    };
    let root = match known {
        Some(root) => root,
        None if work.what.is_of_before() => history::root(connection, path)?,
        None => connection.projects.root_for(path)?,
    };
    connection.runs.works_in(session, &root);
    let lease = tokio::select! {
        // Opening goes on for whoever needs it next.
        () = cancel.cancelled() => anyhow::bail!("stopped"),
        lease = connection.projects.open(&root) => lease?,
    };
    match &work.what {
        What::TakeBack(which) => undo(connection, session, &lease, which.as_ref(), cancel).await,
        What::Compact { session, wishes } => {
            compact(connection, &lease, session.clone(), wishes, cancel).await
        }
        What::Prompt { .. } | What::Call { .. } | What::Request(_) => {
            let run = PromptRun { connection, session, lease: &lease, progress, told_end };
            run.run(work, stop).await
        }
    }
}

/// The folder that work without a file is for, and whether it could be another.
fn folder(connection: &Connection, work: &Work) -> Option<(AbsPath, bool)> {
    let is_named = work.place.as_ref().is_some_and(|place| place.path.is_some());
    if is_named || matches!(work.what, What::TakeBack(_)) {
        return None;
    }
    connection.projects.folder_near(&connection.documents.last_touched())
}

/// Whether this undoes something, as far as can be told before.
fn takes_back(connection: &Connection, work: &Work) -> bool {
    let text = match &work.what {
        What::TakeBack(_) => return true,
        What::Prompt { text, .. } | What::Request(RequestLine { text, .. }) => text,
        What::Call { .. } | What::Compact { .. } => return false,
    };
    let path = work.place.as_ref().and_then(|place| place.path.as_ref());
    !connection.has_model(path) && host::session::is_undo(text)
}

/// The text with the files that are not saved, which are named before it where its end is cut.
fn with_unsaved(text: &str, files: &[String], form: &MessageForm) -> String {
    let Some(files) = describe_unsaved(files) else { return text.to_owned() };
    let after = format!("{}\n{files}", text.trim_end());
    if Message::of(&after, form).cut { format!("{files}\n{text}") } else { after }
}
