//! Runs: what commands and `¶` lines start. Each in a task of its own, through the same sessions,
//! policy and events as the command line, with its progress, its transcript and its answer.
//!
//! What must stay true: starting answers at once with the session's id; every run ends by telling
//! how, once, with its progress ended; stopping one is felt by no other.

mod earlier;
mod register;

use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent::{Event, NO_ANSWER, Session};
use futures_util::FutureExt as _;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use tools::planner::{Planner, grammar};
use wire::RequestError;
use workspace::{AbsPath, RunId, Undo, Workspace, WorkspaceEdit};

use super::Connection;
use super::documents::Moment;
use super::editors::{Long, MessageForm};
use super::messages::{self, Kind, Message};
use super::port::EditorPort;
use super::progress::Progress;
use super::projects::Lease;
use super::prompts::prompted;
use super::request_line::RequestLine;
use super::sink::Sink;
use super::transcript::{self, Transcript};
use crate::around::{Around, Begin, ChooseModel};
use crate::beside::Beside;
use crate::config::Config;
use crate::models::{self, Chosen};
use crate::project::Project;
use crate::unsaved::{self, Unsaved};
use crate::worker::{Acting, Stop, ended_well, limits, was_stopped};
use earlier::{compact, take_back};

pub use earlier::conversations;
pub use register::Runs;

/// How long debug sessions of a run that was stopped may take to end.
const DEBUG_END: Duration = Duration::from_secs(1);

/// What a run is to do.
pub struct Work {
    /// What.
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
    /// When.
    pub moment: Moment,
    /// As runs see it.
    pub seen: Arc<str>,
}

/// The kinds of work.
pub enum What {
    /// A request in words.
    Prompt {
        /// The words.
        text: String,
        /// The conversation that is gone on with; a new one without it.
        resume: Option<String>,
    },
    /// One call of a tool that the person's command says exactly.
    Call {
        /// The tool.
        tool: &'static str,
        /// Its arguments.
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
        /// Its session.
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
    let asks = cut && form.long == Long::Question && connection.client.show_document;
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
        None if work.what.is_of_before() => earlier::root(connection, path)?,
        None => connection.projects.root_for(path)?,
    };
    connection.runs.works_in(session, &root);
    let lease = tokio::select! {
        // Opening goes on for whoever needs it next.
        () = cancel.cancelled() => anyhow::bail!("stopped"),
        lease = connection.projects.open(&root) => lease?,
    };
    match &work.what {
        What::TakeBack(which) => take_back(connection, session, &lease, which.as_ref(), cancel).await,
        What::Compact { session, wishes } => {
            compact(connection, &lease, session.clone(), wishes, cancel).await
        }
        What::Prompt { .. } | What::Call { .. } | What::Request(_) => {
            converse(connection, session, work, &lease, stop, progress, told_end).await
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
    !connection.has_model(path) && matches!(grammar::parse(text), Some(grammar::Job::Undo))
}

/// A session with one prompt.
async fn converse(
    connection: &Arc<Connection>,
    session: &str,
    work: &Work,
    lease: &Lease,
    stop: Stop<'_>,
    progress: &Arc<Progress>,
    told_end: &Arc<AtomicBool>,
) -> anyhow::Result<Told> {
    let project = &lease.project;
    let now;
    let work = match carried(connection, work) {
        Some(carried) => {
            now = carried;
            &now
        }
        None => work,
    };
    let policy = Arc::new(project.policy.beside());
    let (reading, using) = (Arc::clone(project), Arc::clone(&policy));
    let person_file = connection.homes.config.join("config.toml").to_string();
    let is_prompt = !matches!(work.what, What::Call { .. });
    let found = if is_prompt { models::find_local(&project.config, &person_file).await } else { None };
    let place = work.place.as_ref().and_then(|place| place.path.as_ref());
    let text = match &work.what {
        What::Prompt { text, .. } => Some(text),
        What::Request(request) => Some(&request.text),
        _ => None,
    };
    let files =
        text.map(|text| models::files_about(text, project, project.workspace.root().as_path(), place));
    let files = files.unwrap_or_default();
    let store = project.sessions()?;
    let resumed = match &work.what {
        What::Prompt { resume: Some(id), .. } => {
            let (store, id) = (store.clone(), id.clone());
            Some(tokio::task::spawn_blocking(move || store.load_to_write(&id)).await??)
        }
        _ => None,
    };
    // The model that answered last stays, where it can still be asked.
    let had = resumed.as_ref().and_then(models::had);
    // What a command calls by itself is the planner's, whatever the settings say.
    let choose = is_prompt.then(|| {
        let (project, found, files) = (Arc::clone(project), found.clone(), files.clone());
        let had = had.clone();
        Box::new(move |config: &Config| {
            let folder = project.workspace.root().as_path();
            let found = found.as_deref();
            let asking = models::Asking { project: &project, config, folder, found, files: &files };
            Ok(asking.go_on(had.as_deref())?.model)
        }) as ChooseModel
    });
    let acting = Acting::of(None, resumed.as_ref()).or(connection.agent.as_ref());
    let agent = acting.name.clone();
    let around = tokio::task::spawn_blocking(move || {
        let begin = Begin { policy: &using, kit: &reading.kit, agent: agent.as_deref(), choose, cwd: None };
        Around::new(&reading, begin)
    });
    let around = Arc::new(around.await??);
    let asking = models::Asking {
        project,
        config: &around.config(),
        folder: project.workspace.root().as_path(),
        found: found.as_deref(),
        files: &files,
    };
    let (chosen, prompt): (Chosen, String) = match &work.what {
        What::Call { tool, arguments, words } => {
            let mut arguments = arguments.clone();
            let path = work.place.as_ref().and_then(|place| place.path.as_ref());
            if let (Some(path), Some(as_of)) = (path, &work.as_of) {
                let tag = project.kit.remember(path, Arc::clone(&as_of.seen));
                arguments.insert(AS_OF.to_owned(), Value::String(tag));
            }
            let model = Arc::new(Planner::with_call(tool, arguments));
            (Chosen { model, fallbacks: Vec::new(), summarizer: None, notes: Vec::new() }, words.clone())
        }
        What::Prompt { text, .. } => prompted(asking, &around.prompt(text)?, work, had.as_deref())?,
        What::Request(request) => prompted(asking, &around.prompt(&request.text)?, work, None)?,
        What::TakeBack(_) | What::Compact { .. } => unreachable!("they have no session of their own"),
    };
    let Chosen { model, fallbacks, summarizer, notes } = chosen;
    notes.into_iter().chain(acting.told(None)).for_each(|note| around.tell(note));
    let transcript = Transcript::new(project.workspace.state(), session)?;
    connection.runs.has_transcript(session, transcript.path());
    let sink = Sink {
        connection: Arc::clone(connection),
        progress: Arc::clone(progress),
        transcript,
        ended: Arc::clone(told_end),
    };
    let veiled = match (&work.what, work.place.as_ref().and_then(|place| place.path.as_ref())) {
        // One that was typed over since is the person's again.
        (What::Request(request), Some(path)) if work.as_of.is_none() => Some((
            path,
            connection
                .documents
                .at(path)
                .and_then(|open| open.text.get(request.range.clone()).map(str::to_owned)),
            request,
        )),
        _ => None,
    };
    let veil = veiled.as_ref().and_then(|(path, text, request)| {
        Some(connection.veil.hide(path, text.as_deref()?, request.range.start))
    });
    let mut unsaved = Unsaved::watch(&project.workspace);
    let policy = Arc::new(policy.beside_reading(&around.readable()));
    let config = around.config();
    let talk = Session::builder(model, around.registry()?);
    let talk = match resumed {
        Some(loaded) => talk.resume(loaded),
        None => talk.id(session),
    };
    let talk = talk
        .fallbacks(fallbacks)
        .summarizer(summarizer)
        .system(around.instructions())
        .surroundings(around)
        .cwd(project.workspace.root().to_string())
        .store(store)
        .sink(Arc::new(sink))
        .policy(Arc::clone(&policy))
        .approver(Arc::clone(&project.approver))
        .invoked(matches!(work.what, What::Call { .. }))
        .searches_tools(config.searches_tools())
        .queues(config.steering(), config.drain())
        .limits(limits(&config))
        .commits(project.workspace.subscribe())
        .disconnected(stop.gone.clone())
        .build();
    // Whoever asks for something in words lets the agent work again.
    if !matches!(work.what, What::Call { .. }) {
        project.kit.debug.hand_back().await;
    }
    // What a command calls by itself is nobody's to steer.
    if !matches!(work.what, What::Call { .. }) {
        connection.runs.can_be_told(session, &talk);
    }
    let beside = Beside::tell(&talk, &project.kit);
    let noted = acting.note(&talk).await;
    let outcome = stop.prompt(&talk, prompt).await;
    drop(beside);
    let not_heard = connection.runs.listens_no_more(session);
    if was_stopped(outcome.reason) {
        project.kit.debug.stop(&outcome.run, DEBUG_END).await;
    }
    let still_there = veil.is_some_and(|veil| connection.veil.lift(veil));

    let well = ended_well(&outcome);
    let mut text = outcome.final_text.clone();
    if was_stopped(outcome.reason) {
        text = stopped(&connection.port, &project.workspace, &outcome.run);
    } else if !well {
        let why = outcome.error.clone().unwrap_or_else(|| format!("{:?}", outcome.reason));
        // First, since a long text is cut.
        text = if text.trim().is_empty() { why } else { format!("{why}\n{text}") };
    }
    let mut besides: Vec<String> = noted
        .err()
        .map(|error| format!("as which agent it goes on later is not noted: {error}"))
        .into_iter()
        .collect();
    if let (true, true, Some((path, Some(hidden), request))) = (well, still_there, &veiled) {
        match answer_in_place(connection, project, path, hidden, request, &text, &outcome.run).await {
            Ok(note) => besides.extend(note),
            Err(error) => besides.push(format!("the ¶ line stays: {error:#}")),
        }
    }
    if text.trim().is_empty() {
        NO_ANSWER.clone_into(&mut text);
    }
    besides.extend(not_heard.iter().map(|words| unheard(words)));
    besides.iter().for_each(|words| text.push_str(&format!("\n{words}")));
    let unsaved = unsaved.files(&outcome.run);
    besides.extend(unsaved::words(&unsaved));
    // For the transcript, and for who takes events instead of the answer.
    for text in besides {
        talk.tell(Event::Notice { level: "info".to_owned(), text }).await;
    }
    talk.close(Duration::from_millis(200)).await;
    let text = with_unsaved(&text, &unsaved, &connection.client.message_form());
    let kind = if well || was_stopped(outcome.reason) { Kind::Info } else { Kind::Error };
    Ok(Told { kind, text, run: Some(outcome.run) })
}

/// How what stands for a secret begins.
const REDACTED: &str = "[redacted:";

/// The argument of a call that says in which text its places are.
pub const AS_OF: &str = "as_of";

/// The same work where its selection or its `¶` line stand now, if they stood elsewhere when it came.
fn carried(connection: &Connection, work: &Work) -> Option<Work> {
    let (as_of, place) = work.as_of.as_ref().zip(work.place.as_ref())?;
    let moved = |range: &Range<usize>| {
        let (steps, open) = connection.documents.way_since(&as_of.moment)?;
        let range =
            steps.iter().try_fold(range.clone(), |range, step| text::map_range(range, &step.edits))?;
        Some((range, open))
    };
    match &work.what {
        What::Request(request) => {
            let (range, open) = moved(&request.range)?;
            let line = open.lines.line_of(range.start);
            let what = What::Request(request.moved(line, range));
            Some(Work { what, place: Some(place.clone()), as_of: None, title: work.title.clone() })
        }
        What::Prompt { text, resume } => {
            // What was typed over is shown as it was.
            let now = place.bytes.as_ref().and_then(moved);
            now.and_then(|(range, open)| {
                let lines = open.lines.line_of(range.start) + 1..open.lines.line_of(range.end) + 2;
                let selection = Some((lines, open.text.get(range.clone())?.to_owned()));
                let place = Some(Place { selection, bytes: Some(range), ..place.clone() });
                let what = What::Prompt { text: text.clone(), resume: resume.clone() };
                Some(Work { what, place, as_of: None, title: work.title.clone() })
            })
        }
        What::Call { .. } | What::TakeBack(_) | What::Compact { .. } => None,
    }
}

/// What a stopped run is told as.
fn stopped(port: &EditorPort, workspace: &Workspace, run: &RunId) -> String {
    let open_ended = port.open_ended(run);
    if open_ended.is_empty() {
        return "stopped".to_owned();
    }
    let files = open_ended.iter().map(|path| workspace.relative(path)).collect::<Vec<_>>().join(" and ");
    format!("stopped; it cannot be told whether the edit of {files} landed, if it does so late it is told")
}

/// Puts the answer where the request stood, as long as it stands there unchanged. Gives what the person should know of it.
async fn answer_in_place(
    connection: &Connection,
    project: &Project,
    path: &AbsPath,
    hidden: &str,
    request: &RequestLine,
    answer: &str,
    run: &RunId,
) -> anyhow::Result<Option<String>> {
    if answer.trim().is_empty() {
        return Ok(Some("the ¶ line stays: there is nothing to put in its place".to_owned()));
    }
    let document = project.workspace.document(path)?;
    let Some(range) = super::veil::standing(&document.text, hidden, request.range.start) else {
        // The person changed it: it is theirs.
        return Ok(None);
    };
    let line_end = if document.text.contains("\r\n") { "\r\n" } else { "\n" };
    let pointer = || request.answered("answered in the transcript (command pilcrow.transcript)", line_end);
    let Some(comment) = request.answered(answer, line_end).or_else(pointer) else { return Ok(None) };
    let lacks_secret = comment.contains(REDACTED);
    let edit = WorkspaceEdit {
        label: format!("answer: {}", request.text),
        operations: vec![workspace::Operation::Edit {
            path: path.clone(),
            expected: document.version,
            edits: vec![text::TextEdit::replace(range, comment)],
        }],
        ..WorkspaceEdit::default()
    };
    let plan = project.workspace.plan(edit)?;
    // Running the line is what asked for this.
    let permit = project.policy.permit_invoked(&plan)?;
    let commit = project.workspace.commit(plan, permit, run).await?;
    project.servers.did_commit(&commit).await;
    tracing::debug!(session = connection.runs.carrying_out(path, &request.text), "answered in place");
    let left_out = || {
        format!("a secret was left out of the answer in {}; `{REDACTED}…]` stands for it", path.file_name())
    };
    Ok(lacks_secret.then(left_out))
}

/// The text with the files that are not saved, which are named before it where its end is cut.
fn with_unsaved(text: &str, files: &[String], form: &MessageForm) -> String {
    let Some(files) = unsaved::words(files) else { return text.to_owned() };
    let after = format!("{}\n{files}", text.trim_end());
    if Message::of(&after, form).cut { format!("{files}\n{text}") } else { after }
}
