//! Runs: what commands and `¶` lines start. Each in a task of its own, through the same sessions,
//! policy and events as the command line, with its progress, its transcript and its answer.
//!
//! What must stay true: starting answers at once with the session's id; every run ends by telling
//! how, once, with its progress ended; stopping one is felt by no other.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent::store::LoadedSession;
use agent::{Envelope, Event, EventSink, Queue, Session, Standalone, TerminationReason, ToolCx, Toolset};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
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
use super::request_line::RequestLine;
use super::transcript::{self, Transcript};
use crate::around::{Around, Begin, ChooseModel};
use crate::beside::Beside;
use crate::config::Config;
use crate::models::{self, Chosen};
use crate::project::Project;
use crate::unsaved::{self, Unsaved};
use crate::worker::{Stop, limits, was_stopped};

/// Ended runs that are remembered, for undo and their transcripts.
const MAX_ENDED: usize = 200;
/// How long debug sessions of a run that was stopped may take to end.
const DEBUG_END: Duration = Duration::from_secs(1);
/// More of a selection is left to the model to read.
const MAX_SELECTION: usize = 4 << 10;

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

/// The runs of one connection.
#[derive(Default)]
pub struct Runs {
    state: Mutex<State>,
    tasks: TaskTracker,
    /// Sessions that take back, in the order in which they came: one at a time does.
    taking_back: watch::Sender<VecDeque<String>>,
    /// How many have ended.
    ended: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    going: BTreeMap<String, Going>,
    ended: VecDeque<Ended>,
    closed: bool,
}

struct Going {
    cancel: CancellationToken,
    /// Before that, when the editor went away.
    gone: CancellationToken,
    /// Where it works, once that is known.
    root: Option<AbsPath>,
    /// The document and the text of the `¶` line that it carries out.
    request: Option<(AbsPath, String)>,
    transcript: Option<AbsPath>,
    /// What its commits belong to, once there can be some.
    run: Option<RunId>,
    /// Where words to it go, while a model works.
    talk: Option<Session>,
}

struct Ended {
    session: String,
    root: Option<AbsPath>,
    run: Option<RunId>,
    transcript: Option<AbsPath>,
}

/// How a run ended, for people.
struct Told {
    kind: Kind,
    text: String,
    run: Option<RunId>,
}

impl Runs {
    /// Starts `work` and answers with its session's id.
    pub fn start(connection: &Arc<Connection>, work: Work) -> String {
        let session = uuid::Uuid::now_v7().to_string();
        let cancel = CancellationToken::new();
        let request = match (&work.what, &work.place) {
            (What::Request(request), Some(Place { path: Some(path), .. })) => {
                Some((path.clone(), request.text.clone()))
            }
            _ => None,
        };
        let gone = CancellationToken::new();
        let going = Going {
            cancel: cancel.clone(),
            gone: gone.clone(),
            root: None,
            request,
            transcript: None,
            run: None,
            talk: None,
        };
        {
            let mut state = connection.runs.lock();
            if state.closed {
                gone.cancel();
                cancel.cancel();
            }
            state.going.insert(session.clone(), going);
        }
        if takes_back(connection, &work) {
            connection.runs.taking_back.send_modify(|order| order.push_back(session.clone()));
        }
        connection.runs.tasks.spawn(carry_out(Arc::clone(connection), session.clone(), work, cancel, gone));
        session
    }

    /// Ends when nothing that came before `session` still takes back.
    async fn turn(&self, session: &str) {
        let mut order = self.taking_back.subscribe();
        let is_next = |order: &VecDeque<String>| {
            order.front().is_some_and(|first| first == session) || !order.iter().any(|it| it == session)
        };
        // The sender is here, so there is always an answer.
        if order.wait_for(|order| is_next(order)).await.is_err() {
            tracing::debug!("nobody says whose turn it is");
        }
    }

    /// Stops the run of `session`, or all, and what they have in the editor; how many.
    pub fn stop(&self, session: Option<&str>, port: &EditorPort) -> usize {
        let state = self.lock();
        let meant = state.going.iter().filter(|(id, _)| session.is_none_or(|session| *id == session));
        let stop = |(_, going): (&String, &Going)| {
            going.cancel.cancel();
            going.run.iter().for_each(|run| port.hasten(run));
        };
        meant.map(stop).count()
    }

    /// Tells the run of `session`, or the newest, something: after its turn, or when it would stop. Its session, if one goes on that
    /// a model carries out.
    pub fn steer(&self, session: Option<&str>, text: &str, queue: Queue) -> Option<String> {
        let state = self.lock();
        let meant = |(id, going): &(&String, &Going)| {
            let asked = session.is_none_or(|session| *id == session);
            asked && going.talk.is_some() && !going.cancel.is_cancelled()
        };
        // Their ids rise with time.
        let (id, going) = state.going.iter().rfind(meant)?;
        let (id, talk) = (id.clone(), going.talk.as_ref()?);
        // Queued under the lock, so that nothing is queued for one that listens no more.
        let telling = talk.queue(queue, llm::Message::user(text));
        drop(state);
        self.tasks.spawn(telling);
        Some(id)
    }

    fn can_be_told(&self, session: &str, talk: &Session) {
        if let Some(going) = self.lock().going.get_mut(session) {
            going.talk = Some(talk.clone());
        }
    }

    /// From now on nothing can be said to the run of `session`; what was said and not heard.
    fn listens_no_more(&self, session: &str, talk: &Session) -> Vec<String> {
        if let Some(going) = self.lock().going.get_mut(session) {
            going.talk = None;
        }
        talk.queued().iter().map(llm::Message::text).collect()
    }

    /// The conversation that goes on in this project and is named by `session` or its beginning; the newest without a name.
    fn conversation(&self, session: Option<&str>, root: &AbsPath) -> Option<String> {
        let state = self.lock();
        let meant = |(id, going): &(&String, &Going)| {
            going.transcript.is_some()
                && going.root.as_ref() == Some(root)
                && session.is_none_or(|session| id.starts_with(session))
        };
        // Their ids rise with time.
        state.going.iter().rfind(meant).map(|(id, _)| id.clone())
    }

    /// Stops the run of `session` and waits until it has ended; false when it has not by the deadline.
    async fn stop_and_wait(&self, session: &str, port: &EditorPort, deadline: Duration) -> bool {
        let mut ended = self.ended.subscribe();
        self.stop(Some(session), port);
        let gone = ended.wait_for(|_| !self.lock().going.contains_key(session));
        // The sender is here, so there is always an answer.
        tokio::time::timeout(deadline, gone).await.is_ok()
    }

    /// The editor goes away: ends all, whose sessions can be gone on with, and starts none any more.
    pub fn close(&self, port: &EditorPort) {
        let mut state = self.lock();
        state.closed = true;
        state
            .going
            .values()
            .filter(|going| !going.cancel.is_cancelled())
            .for_each(|going| going.gone.cancel());
        drop(state);
        self.stop(None, port);
        port.hasten_all();
    }

    /// Ends when every run has, after [`Runs::close`].
    pub async fn all_ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// The session that carries out the `¶` line with this text, if one does.
    pub fn carrying_out(&self, path: &AbsPath, text: &str) -> Option<String> {
        let state = self.lock();
        let same = |going: &Going| going.request.as_ref().is_some_and(|it| it.0 == *path && it.1 == text);
        state.going.iter().find(|(_, going)| same(going)).map(|(id, _)| id.clone())
    }

    /// The transcript of `session`, or of the newest.
    pub fn transcript(&self, session: Option<&str>) -> Option<AbsPath> {
        let state = self.lock();
        let meant = |id: &str| session.is_none_or(|session| id == session);
        let going = state.going.iter().rev().filter(|(id, _)| meant(id));
        let ended = state.ended.iter().rev().filter(|ended| meant(&ended.session));
        going
            .filter_map(|(_, going)| going.transcript.clone())
            .chain(ended.filter_map(|ended| ended.transcript.clone()))
            .next()
    }

    fn run_of(&self, session: &str) -> Option<RunId> {
        self.lock().ended.iter().find(|ended| ended.session == session).and_then(|ended| ended.run.clone())
    }

    /// Where `session`, or the newest run that ended, worked.
    fn root_of(&self, session: Option<&str>) -> Option<AbsPath> {
        let state = self.lock();
        let mut meant =
            state.ended.iter().rev().filter(|it| session.is_none_or(|session| it.session == session));
        meant.find_map(|ended| ended.root.clone())
    }

    fn works_in(&self, session: &str, root: &AbsPath) {
        if let Some(going) = self.lock().going.get_mut(session) {
            going.root = Some(root.clone());
        }
    }

    /// From now on commits of `run` are this session's.
    fn commits_as(&self, session: &str, run: &RunId, port: &EditorPort) {
        if let Some(going) = self.lock().going.get_mut(session) {
            if going.cancel.is_cancelled() {
                port.hasten(run);
            }
            going.run = Some(run.clone());
        }
    }

    fn has_transcript(&self, session: &str, path: AbsPath) {
        if let Some(going) = self.lock().going.get_mut(session) {
            going.transcript = Some(path);
        }
    }

    fn end(&self, session: &str, run: Option<RunId>) {
        self.taking_back.send_modify(|order| order.retain(|it| it != session));
        let mut state = self.lock();
        let (root, transcript) =
            state.going.remove(session).map(|going| (going.root, going.transcript)).unwrap_or_default();
        state.ended.push_back(Ended { session: session.to_owned(), root, run, transcript });
        if state.ended.len() > MAX_ENDED {
            state.ended.pop_front();
        }
        drop(state);
        self.ended.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Entries are put in and taken out whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One run from its beginning to what the person is told.
async fn carry_out(
    connection: Arc<Connection>,
    session: String,
    work: Work,
    cancel: CancellationToken,
    gone: CancellationToken,
) {
    let progress = Arc::new(Progress::new(&connection.peer, &session, connection.client.progress));
    let folder = folder(&connection, &work);
    let place = match &folder {
        Some((folder, true)) => format!(" (in {})", folder.file_name()),
        _ => String::new(),
    };
    let (shown, title) = (Arc::clone(&progress), format!("Pilcrow: {}{place}", work.title));
    let ending = connection.ending.clone();
    // Not waited for: a client that does not answer holds up nothing.
    connection.tracker.spawn(async move { shown.begin(&title, &ending).await });
    let mut shown = false;
    let near = folder.map(|(folder, _)| folder);
    let working = work_out(
        &connection,
        &session,
        &work,
        near,
        Stop { cancel: &cancel, gone: &gone },
        &progress,
        &mut shown,
    );
    let told = match AssertUnwindSafe(working).catch_unwind().await {
        Ok(Ok(told)) => told,
        Ok(Err(error)) => Told { kind: Kind::Error, text: format!("{error:#}"), run: None },
        Err(_) => {
            let text = "the run ended by a defect of Pilcrow; `pilcrow logs` has more".to_owned();
            Told { kind: Kind::Error, text, run: None }
        }
    };
    let ended = match told.kind {
        _ if cancel.is_cancelled() => "stopped",
        Kind::Error => "failed",
        _ => "done",
    };
    connection.runs.end(&session, told.run.clone());
    progress.end(ended).await;
    tracing::debug!(session, "{ended}: {}", work.title);
    if !(connection.client.events && shown) {
        tell(&connection, &session, &told).await;
    }
    if connection.client.lens_refresh {
        connection.refresh_lenses().await;
    }
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
    shown: &mut bool,
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
    let root = known.map_or_else(|| connection.projects.root_for(path), Ok)?;
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
            *shown = true;
            converse(connection, session, work, &lease, stop, progress).await
        }
    }
}

/// The folder that work without a file is for, and whether it could be another.
fn folder(connection: &Connection, work: &Work) -> Option<(AbsPath, bool)> {
    let is_named = work.place.as_ref().is_some_and(|place| place.path.is_some());
    if is_named || matches!(work.what, What::TakeBack(_)) {
        return None;
    }
    connection.projects.folder_near(connection.documents.last_touched().as_ref())
}

/// Whether this undoes something, as far as can be told before.
fn takes_back(connection: &Connection, work: &Work) -> bool {
    let text = match &work.what {
        What::TakeBack(_) => return true,
        What::Prompt { text } | What::Request(RequestLine { text, .. }) => text,
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
    let files: Vec<String> = match (&work.what, place) {
        (What::Call { .. }, _) => Vec::new(),
        (_, Some(path)) => vec![project.workspace.relative(path)],
        (What::Prompt { text }, None) => models::files_about(text, project),
        _ => Vec::new(),
    };
    // What a command calls by itself is the planner's, whatever the settings say.
    let choose = is_prompt.then(|| {
        let (project, found, files) = (Arc::clone(project), found.clone(), files.clone());
        Box::new(move |config: &Config| {
            let folder = project.workspace.root().as_path();
            let found = found.as_deref();
            let asking = models::Asking { project: &project, config, folder, found, files: &files };
            Ok(asking.choose(None)?.model)
        }) as ChooseModel
    });
    let agent = connection.agent.clone();
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
        What::Prompt { text } => prompted(asking, &around.prompt(text)?, work)?,
        What::Request(request) => prompted(asking, &around.prompt(&request.text)?, work)?,
        What::TakeBack(_) | What::Compact { .. } => unreachable!("they have no session of their own"),
    };
    let Chosen { model, fallbacks, summarizer, notes } = chosen;
    notes.into_iter().for_each(|note| around.tell(note));
    let transcript = Transcript::new(project.workspace.state(), session)?;
    connection.runs.has_transcript(session, transcript.path());
    let sink = Sink {
        connection: Arc::clone(connection),
        progress: Arc::clone(progress),
        transcript: transcript.clone(),
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
    let talk = Session::builder(model, around.registry()?)
        .id(session)
        .fallbacks(fallbacks)
        .summarizer(summarizer)
        .system(around.instructions())
        .surroundings(around)
        .cwd(project.workspace.root().to_string())
        .store(project.sessions()?)
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
    let outcome = stop.prompt(&talk, prompt).await;
    drop(beside);
    let unheard = connection.runs.listens_no_more(session, &talk);
    if was_stopped(outcome.reason) {
        project.kit.debug.stop(&outcome.run, DEBUG_END).await;
    }
    talk.close(Duration::from_millis(200)).await;
    let still_there = veil.is_some_and(|veil| connection.veil.lift(veil));

    let well =
        matches!(outcome.reason, TerminationReason::NoToolCalls | TerminationReason::TerminatedByTools);
    let mut text = outcome.final_text.clone();
    if !well && !was_stopped(outcome.reason) {
        let why = outcome.error.clone().unwrap_or_else(|| format!("{:?}", outcome.reason));
        if text.trim().is_empty() {
            text = why;
        }
    } else if was_stopped(outcome.reason) {
        text = stopped(&connection.port, &project.workspace, &outcome.run);
    }
    if let (true, true, Some((path, Some(hidden), request))) = (well, still_there, &veiled)
        && let Err(error) =
            answer_in_place(connection, project, path, hidden, request, &text, &outcome.run).await
    {
        text.push_str(&format!("\nthe ¶ line stays: {error:#}"));
    }
    for words in unheard {
        text.push_str(&format!("\nnot done, since the run ended before it was heard: {words}"));
    }
    let unsaved = unsaved.files(&outcome.run);
    if let Some(words) = unsaved::words(&unsaved) {
        transcript.note(&words);
    }
    let text = with_unsaved(&text, &unsaved, &connection.client.message_form());
    let kind = if well || was_stopped(outcome.reason) { Kind::Info } else { Kind::Error };
    Ok(Told { kind, text, run: Some(outcome.run) })
}

/// The argument of a call that says in which text its places are.
const AS_OF: &str = "as_of";

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
        What::Prompt { text } => {
            // What was typed over is shown as it was.
            let now = place.bytes.as_ref().and_then(moved);
            now.and_then(|(range, open)| {
                let lines = open.lines.line_of(range.start) + 1..open.lines.line_of(range.end) + 2;
                let selection = Some((lines, open.text.get(range.clone())?.to_owned()));
                let place = Some(Place { selection, bytes: Some(range), ..place.clone() });
                let what = What::Prompt { text: text.clone() };
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

/// The model, and the prompt with what it is about.
fn prompted(asking: models::Asking<'_>, text: &str, work: &Work) -> anyhow::Result<(Chosen, String)> {
    let (chosen, project) = (asking.choose(None)?, asking.project);
    let place = work.place.as_ref();
    let named = place.map(|place| match &place.path {
        Some(path) => project.workspace.relative(path),
        None => place.uri.clone(),
    });
    let is_planner = chosen.model.info().api == "planner";
    let prompt = match named {
        None => text.to_owned(),
        Some(file) if is_planner => in_the_planners_words(text, &file),
        Some(file) => with_place(text, &file, place.and_then(|place| place.selection.as_ref()), &work.what),
    };
    Ok((chosen, prompt))
}

/// The request with the file that it is about, in the form that the planner understands, if there is
/// one.
fn in_the_planners_words(text: &str, file: &str) -> String {
    let quote = if file.contains('`') { '"' } else { '`' };
    let text = text.trim().trim_end_matches(['.', '!', '?']);
    let with_file =
        [format!("{text} in {quote}{file}{quote}"), text.to_owned(), format!("{text} {quote}{file}{quote}")];
    with_file.into_iter().find(|text| grammar::parse(text).is_some()).unwrap_or_else(|| text.to_owned())
}

fn with_place(text: &str, file: &str, selection: Option<&(Range<usize>, String)>, what: &What) -> String {
    let mut prompt = text.to_owned();
    match (what, selection) {
        (What::Request(request), _) => {
            // The line itself is hidden, so what followed it has its number now.
            prompt.push_str(&format!(
                "\n\n(This stood in a comment of {file}, above line {} of the file as it is without that comment. \
                 It is about the code there.)",
                request.line + 1
            ));
        }
        (_, Some((lines, selected))) => {
            let (first, last) = (lines.start, lines.end.saturating_sub(1).max(lines.start));
            let lines =
                if first == last { format!("line {first}") } else { format!("lines {first} to {last}") };
            prompt.push_str(&format!("\n\n(This is about {lines} of {file}"));
            if selected.trim().is_empty() {
                prompt.push_str(".)");
            } else {
                let cut: String = selected.chars().take(MAX_SELECTION).collect();
                let fence = "`".repeat(longest_run(&cut).max(2) + 1);
                let rest = if cut.len() < selected.len() { ", the beginning of which is" } else { "" };
                prompt.push_str(&format!("{rest}:)\n{fence}\n{cut}\n{fence}"));
            }
        }
        (_, None) => prompt.push_str(&format!("\n\n(This is about {file}.)")),
    }
    prompt
}

/// How many backticks stand together at most.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Puts the answer where the request stood, as long as it stands there unchanged.
async fn answer_in_place(
    connection: &Connection,
    project: &Project,
    path: &AbsPath,
    hidden: &str,
    request: &RequestLine,
    answer: &str,
    run: &RunId,
) -> anyhow::Result<()> {
    let document = project.workspace.document(path)?;
    let Some(range) = super::veil::standing(&document.text, hidden, request.range.start) else {
        // The person changed it: it is theirs.
        return Ok(());
    };
    let line_end = if document.text.contains("\r\n") { "\r\n" } else { "\n" };
    let pointer = || request.answered("answered in the transcript (command pilcrow.transcript)", line_end);
    let Some(comment) = request.answered(answer, line_end).or_else(pointer) else { return Ok(()) };
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
    Ok(())
}

/// How long a run that is stopped for a compaction may take to end; each does within two seconds.
const STOPPED: Duration = Duration::from_secs(10);

/// Puts a conversation of the project into fewer words; a run of it in this editor is stopped first.
async fn compact(
    connection: &Connection,
    lease: &Lease,
    which: Option<String>,
    wishes: &str,
    cancel: &CancellationToken,
) -> anyhow::Result<Told> {
    let project = &lease.project;
    let store = project.sessions()?;
    let going = connection.runs.conversation(which.as_deref(), project.workspace.root());
    if let Some(going) = &going
        && !connection.runs.stop_and_wait(going, &connection.port, STOPPED).await
    {
        anyhow::bail!("the conversation still runs though it was stopped; try again in a moment");
    }
    let which = going.or(which);
    let find = {
        let store = store.clone();
        move || -> anyhow::Result<LoadedSession> {
            let id = match which {
                Some(id) => Some(id),
                None => store.list()?.into_iter().next().map(|newest| newest.id),
            };
            let id =
                id.ok_or_else(|| anyhow::anyhow!("there is no conversation yet to put into fewer words"))?;
            Ok(store.load_to_write(&id)?)
        }
    };
    let loaded = tokio::task::spawn_blocking(find).await??;
    let person_file = connection.homes.config.join("config.toml").to_string();
    let found = models::find_local(&project.config, &person_file).await;
    let asking = models::Asking {
        project,
        config: &project.config,
        folder: project.workspace.root().as_path(),
        found: found.as_deref(),
        files: &[],
    };
    let Chosen { model, summarizer, .. } = asking.choose(None)?;
    let talk = Session::builder(model, project.registry.clone())
        .summarizer(summarizer)
        .cwd(project.workspace.root().to_string())
        .store(store)
        .limits(limits(&project.config))
        .cancel(cancel.clone())
        .resume(loaded)
        .build();
    let compacted = talk.compact(wishes).await;
    talk.close(Duration::from_millis(200)).await;
    let text = match compacted? {
        true => "the conversation was put into fewer words; its file keeps everything",
        false => "nothing was put into fewer words: the conversation is short as it is",
    };
    Ok(Told { kind: Kind::Info, text: text.to_owned(), run: None })
}

/// Undo and redo, as the person's own command.
async fn take_back(
    connection: &Connection,
    id: &str,
    lease: &Lease,
    which: Option<&TakeBack>,
    cancel: &CancellationToken,
) -> anyhow::Result<Told> {
    let project = &lease.project;
    let which = match which {
        None => None,
        Some(TakeBack::Journal(undo)) => Some(undo.clone()),
        Some(TakeBack::Session(session)) => {
            let run = connection.runs.run_of(session);
            let run =
                run.ok_or_else(|| anyhow::anyhow!("the session {session} is not known, or still runs"))?;
            Some(Undo::Run(run))
        }
    };
    let cx = ToolCx::standalone(Standalone {
        call_id: "command".to_owned(),
        run: RunId::new(),
        cancel: cancel.clone(),
        policy: Arc::clone(&project.policy),
        approver: Arc::clone(&project.approver),
        tools: Arc::new(Toolset::whole(Arc::new(project.registry.clone()))),
        invoked: true,
        on_update: Box::new(|_| {}),
    });
    connection.runs.commits_as(id, &cx.run, &connection.port);
    let mut unsaved = Unsaved::watch(&project.workspace);
    let result = tools::take_back(&project.kit, &cx, which.as_ref()).await.unwrap_or_else(Into::into);
    let unsaved = unsaved.files(&cx.run);
    let text = with_unsaved(&result.joined_text(), &unsaved, &connection.client.message_form());
    let kind = if result.is_error { Kind::Error } else { Kind::Info };
    Ok(Told { kind, text, run: None })
}

/// The text with the files that are not saved, which are named before it where its end is cut.
fn with_unsaved(text: &str, files: &[String], form: &MessageForm) -> String {
    let Some(files) = unsaved::words(files) else { return text.to_owned() };
    let after = format!("{}\n{files}", text.trim_end());
    if Message::of(&after, form).cut { format!("{files}\n{text}") } else { after }
}

/// Hears what happens in a session.
struct Sink {
    connection: Arc<Connection>,
    progress: Arc<Progress>,
    transcript: Transcript,
}

impl EventSink for Sink {
    fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.transcript.add(&envelope.event);
            match &envelope.event {
                Event::AgentStart { run_id, .. } => {
                    let Connection { runs, port, .. } = &*self.connection;
                    runs.commits_as(&envelope.session_id, run_id, port);
                }
                Event::ToolExecutionStart { tool_name, input, .. } => {
                    self.progress.report(&format!("{tool_name} {}", brief(input)));
                }
                Event::ToolExecutionUpdate { update, .. } => {
                    self.progress.report(update.content.lines().next().unwrap_or_default());
                }
                Event::PermissionRequest { title, .. } => self.progress.report(&format!("waiting: {title}")),
                Event::Notice { text, .. } => tracing::info!("{text}"),
                Event::Reloaded { changed, problems } => {
                    changed.iter().for_each(|what| tracing::info!("taken anew: {what}"));
                    problems.iter().for_each(|problem| tracing::warn!("{problem}"));
                }
                Event::RetryStart { attempt, max, error, .. } => {
                    self.progress.report(&format!("trying again ({attempt} of {max}): {error}"));
                }
                _ => {}
            }
            if self.connection.client.events
                && let Err(closed) = self.connection.peer.notify("pilcrow/event", envelope).await
            {
                tracing::debug!(%closed, "an event was not told");
            }
        })
    }
}

/// A call's arguments in a few words.
fn brief(input: &Value) -> String {
    const MAX: usize = 80;
    let text = match input.as_object() {
        Some(members) => {
            let told = members.iter().filter(|(name, _)| *name != AS_OF);
            let lines = told.filter_map(|(_, value)| value.as_str()?.lines().next());
            // Of the header of a patch people want the file.
            let shown =
                lines.map(|line| match line.strip_prefix('[').and_then(|rest| rest.rsplit_once('#')) {
                    Some((path, tag)) if tag.ends_with(']') => path,
                    _ => line,
                });
            shown.collect::<Vec<_>>().join(" ")
        }
        None => input.to_string(),
    };
    if text.chars().count() > MAX { text.chars().take(MAX).chain(['…']).collect() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_planner_hears_of_the_file_where_that_makes_sense() {
        let check =
            |text: &str, expected: &str| assert_eq!(in_the_planners_words(text, "src/a b.py"), expected);
        check("rename a to b", "rename a to b in `src/a b.py`");
        check("rename a to b.", "rename a to b in `src/a b.py`");
        check("rename a to b in c.py", "rename a to b in c.py");
        check("organize imports", "organize imports in `src/a b.py`");
        check("format", "format `src/a b.py`");
        check("undo", "undo");
        check("explain the diagnostics", "explain the diagnostics in `src/a b.py`");
        check("make it faster", "make it faster");
    }

    #[test]
    fn a_call_is_told_in_a_few_words() {
        assert_eq!(brief(&json!({ "patch": "[src/a #1.py#3B11]\nCUT 1\n" })), "src/a #1.py");
        assert_eq!(brief(&json!({ "action": "rename", "line": 3, "symbol": "a" })), "rename a");
    }

    #[test]
    fn a_model_hears_what_is_selected() {
        let prompt = What::Prompt { text: String::new() };
        let selection = (3..5, "a ``` b".to_owned());
        assert_eq!(
            with_place("Why?", "a.py", Some(&selection), &prompt),
            "Why?\n\n(This is about lines 3 to 4 of a.py:)\n````\na ``` b\n````"
        );
        assert_eq!(with_place("Why?", "a.py", None, &prompt), "Why?\n\n(This is about a.py.)");
    }
}
