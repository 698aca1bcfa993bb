//! The runs of one connection, their messages, and the order of undo.
//!
//! Invariants: no message is queued for a run that takes no more; a run is registered before it starts
//! and remembered after it ends.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use agent::{Queue, Session};
use editor_sync::apply_edit::EditorPort;
use parking_lot::Mutex;
use paths::AbsPath;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::RunId;

use super::{Place, Work, WorkKind, is_undo, run_work};
use crate::Connection;
use crate::progress::Progress;

/// Maximum number of remembered ended runs, for undo and transcripts.
const MAX_ENDED: usize = 200;

/// The active runs of one connection, and the last ones that ended.
#[derive(Default)]
pub struct Runs {
    state: Mutex<State>,
    tasks: TaskTracker,
    /// Sessions with an undo, in order of arrival. One of them runs at a time.
    undo_queue: watch::Sender<VecDeque<String>>,
    /// Number of ended runs.
    ended: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    active: BTreeMap<String, ActiveRun>,
    ended: VecDeque<Ended>,
    /// Number of started runs.
    started: u64,
    closed: bool,
}

impl State {
    /// Registers a run; returns its progress token.
    fn start(&mut self, session: String, active: ActiveRun) -> String {
        self.started += 1;
        let active = ActiveRun { started: self.started, ..active };
        let token = active.token(&session);
        self.active.insert(session, active);
        token
    }

    /// Finds the matching active run that started last.
    ///
    /// A continued conversation has an old id.
    fn newest(&mut self, matches: impl Fn(&str, &ActiveRun) -> bool) -> Option<(&String, &mut ActiveRun)> {
        self.active
            .iter_mut()
            .filter(|(id, active)| matches(id, active))
            .max_by_key(|(_, active)| active.started)
    }
}

#[derive(Default)]
struct ActiveRun {
    /// Number of runs started up to this one.
    started: u64,
    cancel: CancellationToken,
    /// Fires before `cancel` when the editor disconnects.
    gone: CancellationToken,
    /// Its project's root, once known.
    root: Option<AbsPath>,
    /// The document and the text of its `¶` line.
    request: Option<(AbsPath, String)>,
    transcript: Option<AbsPath>,
    /// The id of its commits, once it can make some.
    run: Option<RunId>,
    messages: MessageTarget,
}

impl ActiveRun {
    /// Its progress token.
    ///
    /// Differs for each run of a conversation, because a token is used once.
    fn token(&self, session: &str) -> String {
        format!("pilcrow-{session}-{}", self.started)
    }
}

/// The target of messages to a run.
#[derive(Default)]
enum MessageTarget {
    /// The run takes no messages: it uses no model, or it ended.
    #[default]
    Closed,
    /// Messages wait until its session is open.
    Buffered(Vec<(Queue, String)>),
    Session(Session),
}

struct Ended {
    session: String,
    root: Option<AbsPath>,
    run: Option<RunId>,
    transcript: Option<AbsPath>,
}

impl Runs {
    /// Starts `work`; returns its session's id.
    pub fn start(connection: &Arc<Connection>, work: Work) -> String {
        let session = match &work.kind {
            WorkKind::Prompt { resume: Some(session), .. } => session.clone(),
            _ => uuid::Uuid::now_v7().to_string(),
        };
        let cancel = CancellationToken::new();
        let request = match (&work.kind, &work.place) {
            (WorkKind::Request(request), Some(Place { path: Some(path), .. })) => {
                Some((path.clone(), request.text.clone()))
            }
            _ => None,
        };
        let gone = CancellationToken::new();
        let messages = match work.kind {
            WorkKind::Prompt { .. } | WorkKind::Request(_) => MessageTarget::Buffered(Vec::new()),
            // These use no model.
            WorkKind::Call { .. } | WorkKind::Undo(_) | WorkKind::Compact { .. } => MessageTarget::Closed,
        };
        let active = ActiveRun {
            cancel: cancel.clone(),
            gone: gone.clone(),
            request,
            messages,
            ..ActiveRun::default()
        };
        let token = {
            let mut state = connection.runs.lock();
            if state.closed {
                gone.cancel();
                cancel.cancel();
            }
            state.start(session.clone(), active)
        };
        if is_undo(connection, &work) {
            connection.runs.undo_queue.send_modify(|order| order.push_back(session.clone()));
        }
        let progress = Progress::new(&connection.peer, token, connection.client.progress);
        let task = run_work(Arc::clone(connection), session.clone(), work, Arc::new(progress), cancel, gone);
        connection.runs.tasks.spawn(task);
        session
    }

    /// Waits until all earlier undos ended.
    pub(super) async fn wait_for_undo_turn(&self, session: &str) {
        let mut order = self.undo_queue.subscribe();
        let is_next = |order: &VecDeque<String>| {
            order.front().is_some_and(|first| first == session)
                || !order.iter().any(|queued| queued == session)
        };
        // `self` owns the sender, so this cannot fail.
        order.wait_for(|order| is_next(order)).await.ok();
    }

    /// Stops the run of `session`, or all, with their edits.
    ///
    /// Returns the number of stopped runs.
    pub fn stop(&self, session: Option<&str>, port: &EditorPort) -> usize {
        self.stop_matching(|id, _| session.is_none_or(|session| id == session), port)
    }

    /// Stops the run with this progress token.
    pub fn stop_by_token(&self, token: &str, port: &EditorPort) -> usize {
        self.stop_matching(|id, active| active.token(id) == token, port)
    }

    fn stop_matching(&self, matches: impl Fn(&str, &ActiveRun) -> bool, port: &EditorPort) -> usize {
        let state = self.lock();
        let stop = |(_, active): (&String, &ActiveRun)| {
            active.cancel.cancel();
            active.run.iter().for_each(|run| port.stop_run(run));
        };
        state.active.iter().filter(|(id, active)| matches(id, active)).map(stop).count()
    }

    /// Queues a message for the run of `session`, or for the newest.
    ///
    /// Returns its session; `None` if no active run takes messages.
    pub fn steer(&self, session: Option<&str>, text: &str, queue: Queue) -> Option<String> {
        let mut state = self.lock();
        let (id, active) = state.newest(|id, active| {
            session.is_none_or(|session| id == session)
                && !matches!(active.messages, MessageTarget::Closed)
                && !active.cancel.is_cancelled()
        })?;
        let id = id.clone();
        // The lock is held, so that no message enters the queue after the run closes its target.
        let delivery = match &mut active.messages {
            MessageTarget::Closed => return None,
            MessageTarget::Buffered(early) => {
                early.push((queue, text.to_owned()));
                return Some(id);
            }
            MessageTarget::Session(handle) => handle.queue(queue, agent::Message::user(text).into()),
        };
        drop(state);
        self.tasks.spawn(delivery);
        Some(id)
    }

    /// Delivers messages for the run of `session` to `handle`, including buffered ones.
    pub(super) fn accept_messages(&self, session: &str, handle: &Session) {
        let mut state = self.lock();
        let Some(active) = state.active.get_mut(session) else { return };
        if let MessageTarget::Buffered(early) =
            std::mem::replace(&mut active.messages, MessageTarget::Session(handle.clone()))
        {
            for (queue, text) in early {
                self.tasks.spawn(handle.queue(queue, agent::Message::user(&*text).into()));
            }
        }
    }

    /// Closes the run of `session` to messages; returns the undelivered ones.
    pub(super) fn take_undelivered(&self, session: &str) -> Vec<String> {
        let mut state = self.lock();
        match state.active.get_mut(session).map(|active| std::mem::take(&mut active.messages)) {
            None | Some(MessageTarget::Closed) => Vec::new(),
            Some(MessageTarget::Buffered(early)) => early.into_iter().map(|(_, text)| text).collect(),
            Some(MessageTarget::Session(handle)) => {
                handle.queued().iter().map(agent::Message::text).collect()
            }
        }
    }

    /// The running conversation whose id starts with `session`, or the newest.
    pub(super) fn running_conversation(&self, session: Option<&str>, root: &AbsPath) -> Option<String> {
        let mut state = self.lock();
        let newest = state.newest(|id, active| {
            active.transcript.is_some()
                && active.root.as_ref() == Some(root)
                && session.is_none_or(|session| id.starts_with(session))
        });
        newest.map(|(id, _)| id.clone())
    }

    /// Stops the run of `session`; `false` if it does not end in time.
    pub(super) async fn stop_and_wait(&self, session: &str, port: &EditorPort, deadline: Duration) -> bool {
        let mut ended = self.ended.subscribe();
        self.stop(Some(session), port);
        let has_ended = ended.wait_for(|_| !self.lock().active.contains_key(session));
        // `self` owns the sender, so only the deadline can fail.
        tokio::time::timeout(deadline, has_ended).await.is_ok()
    }

    /// Stops all runs and starts no more, because the editor disconnects.
    ///
    /// Sessions can be continued.
    pub fn close(&self, port: &EditorPort) {
        let mut state = self.lock();
        state.closed = true;
        state
            .active
            .values()
            .filter(|active| !active.cancel.is_cancelled())
            .for_each(|active| active.gone.cancel());
        drop(state);
        self.stop(None, port);
        port.stop_all();
    }

    /// Waits for the end of all runs, after [`Runs::close`].
    pub async fn all_ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Whether the conversation runs in this editor.
    pub fn is_running(&self, session: &str) -> bool {
        self.lock().active.contains_key(session)
    }

    /// The session that runs the `¶` line with this text.
    pub fn session_running(&self, path: &AbsPath, text: &str) -> Option<String> {
        let state = self.lock();
        let same =
            |active: &ActiveRun| active.request.as_ref().is_some_and(|(of, line)| of == path && line == text);
        state.active.iter().find(|(_, active)| same(active)).map(|(id, _)| id.clone())
    }

    /// The transcript of `session`, or of the newest run.
    pub fn transcript(&self, session: Option<&str>) -> Option<AbsPath> {
        let mut state = self.lock();
        let matches = |id: &str| session.is_none_or(|session| id == session);
        let active = state.newest(|id, active| matches(id) && active.transcript.is_some());
        if let Some((_, active)) = active {
            return active.transcript.clone();
        }
        let mut ended = state.ended.iter().rev().filter(|ended| matches(&ended.session));
        ended.find_map(|ended| ended.transcript.clone())
    }

    /// The last run of `session`; `None` while it runs.
    pub(super) fn last_run(&self, session: &str) -> Option<RunId> {
        let state = self.lock();
        if state.active.contains_key(session) {
            return None;
        }
        // A run that ended before its session started has no id.
        state.ended.iter().rev().filter(|ended| ended.session == session).find_map(|ended| ended.run.clone())
    }

    /// The root of the last ended run of `session`, or of all.
    pub(super) fn last_root(&self, session: Option<&str>) -> Option<AbsPath> {
        let state = self.lock();
        let mut matches =
            state.ended.iter().rev().filter(|ended| session.is_none_or(|session| ended.session == session));
        matches.find_map(|ended| ended.root.clone())
    }

    /// The root of the project of `session`, if it ran here.
    pub fn root_of(&self, session: &str) -> Option<AbsPath> {
        let active = self.lock().active.get(session).and_then(|active| active.root.clone());
        active.or_else(|| self.last_root(Some(session)))
    }

    /// Whether an ended run used this root.
    pub(super) fn has_run_in(&self, root: &AbsPath) -> bool {
        self.lock().ended.iter().any(|ended| ended.root.as_ref() == Some(root))
    }

    pub(super) fn set_root(&self, session: &str, root: &AbsPath) {
        if let Some(active) = self.lock().active.get_mut(session) {
            active.root = Some(root.clone());
        }
    }

    /// Sets the id of the session's commits.
    pub fn set_run(&self, session: &str, run: &RunId, port: &EditorPort) {
        if let Some(active) = self.lock().active.get_mut(session) {
            if active.cancel.is_cancelled() {
                port.stop_run(run);
            }
            active.run = Some(run.clone());
        }
    }

    /// The id of the commits of an active session.
    pub(super) fn run_id(&self, session: &str) -> Option<RunId> {
        self.lock().active.get(session)?.run.clone()
    }

    pub(super) fn set_transcript(&self, session: &str, path: AbsPath) {
        if let Some(active) = self.lock().active.get_mut(session) {
            active.transcript = Some(path);
        }
    }

    pub(super) fn end(&self, session: &str, run: Option<RunId>) {
        self.undo_queue.send_modify(|order| order.retain(|queued| queued != session));
        let mut state = self.lock();
        let (root, transcript) =
            state.active.remove(session).map(|active| (active.root, active.transcript)).unwrap_or_default();
        state.ended.push_back(Ended { session: session.to_owned(), root, run, transcript });
        if state.ended.len() > MAX_ENDED {
            state.ended.pop_front();
        }
        drop(state);
        self.ended.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }
}
