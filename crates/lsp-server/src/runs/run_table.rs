//! The runs of one connection: which go on and which ended, who hears what is said to them, and in which order they take back.
//!
//! What must stay true: nothing is queued for a run that listens no more; a run is registered before anything of it happens, and
//! remembered when it has ended.

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

use super::{Place, What, Work, carry_out, takes_back};
use crate::Connection;
use crate::progress::Progress;

/// Ended runs that are remembered, for undo and their transcripts.
const MAX_ENDED: usize = 200;

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
    /// How many were started.
    started: u64,
    closed: bool,
}

impl State {
    /// Answers with the token of its progress.
    fn start(&mut self, session: String, going: Going) -> String {
        self.started += 1;
        let going = Going { started: self.started, ..going };
        let token = going.token(&session);
        self.going.insert(session, going);
        token
    }

    /// The newest that goes on and is meant. Ids do not tell: a conversation that is gone on with has an old one.
    fn newest(&mut self, meant: impl Fn(&str, &Going) -> bool) -> Option<(&String, &mut Going)> {
        self.going.iter_mut().filter(|(id, going)| meant(id, going)).max_by_key(|(_, going)| going.started)
    }
}

#[derive(Default)]
struct Going {
    /// So many were started with it.
    started: u64,
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
    hears: Hears,
}

impl Going {
    /// What its progress is known by. A client takes each once, and a conversation may be gone on with.
    fn token(&self, session: &str) -> String {
        format!("pilcrow-{session}-{}", self.started)
    }
}

/// Where words to a run go.
#[derive(Default)]
enum Hears {
    /// Nowhere: no model works, or it has ended.
    #[default]
    Nothing,
    /// They are kept until its session is there.
    Soon(Vec<(Queue, String)>),
    /// To the session in which a model works.
    Talk(Session),
}

struct Ended {
    session: String,
    root: Option<AbsPath>,
    run: Option<RunId>,
    transcript: Option<AbsPath>,
}

impl Runs {
    /// Starts `work` and answers with its session's id.
    pub fn start(connection: &Arc<Connection>, work: Work) -> String {
        let session = match &work.what {
            What::Prompt { resume: Some(session), .. } => session.clone(),
            _ => uuid::Uuid::now_v7().to_string(),
        };
        let cancel = CancellationToken::new();
        let request = match (&work.what, &work.place) {
            (What::Request(request), Some(Place { path: Some(path), .. })) => {
                Some((path.clone(), request.text.clone()))
            }
            _ => None,
        };
        let gone = CancellationToken::new();
        let hears = match work.what {
            What::Prompt { .. } | What::Request(_) => Hears::Soon(Vec::new()),
            // What a command calls by itself is nobody's to steer.
            What::Call { .. } | What::TakeBack(_) | What::Compact { .. } => Hears::Nothing,
        };
        let going = Going { cancel: cancel.clone(), gone: gone.clone(), request, hears, ..Going::default() };
        let token = {
            let mut state = connection.runs.lock();
            if state.closed {
                gone.cancel();
                cancel.cancel();
            }
            state.start(session.clone(), going)
        };
        if takes_back(connection, &work) {
            connection.runs.taking_back.send_modify(|order| order.push_back(session.clone()));
        }
        let progress = Progress::new(&connection.peer, token, connection.client.progress);
        let carried =
            carry_out(Arc::clone(connection), session.clone(), work, Arc::new(progress), cancel, gone);
        connection.runs.tasks.spawn(carried);
        session
    }

    /// Ends when nothing that came before `session` still takes back.
    pub(super) async fn turn(&self, session: &str) {
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
        self.stop_each(|id, _| session.is_none_or(|session| id == session), port)
    }

    /// Stops the run whose progress has this token; one that ended before it in the same conversation had another.
    pub fn stop_by(&self, token: &str, port: &EditorPort) -> usize {
        self.stop_each(|id, going| going.token(id) == token, port)
    }

    fn stop_each(&self, is_meant: impl Fn(&str, &Going) -> bool, port: &EditorPort) -> usize {
        let state = self.lock();
        let stop = |(_, going): (&String, &Going)| {
            going.cancel.cancel();
            going.run.iter().for_each(|run| port.hasten(run));
        };
        state.going.iter().filter(|(id, going)| is_meant(id, going)).map(stop).count()
    }

    /// Tells the run of `session`, or the newest, something: after its turn, or when it would stop. Its session, if one goes on that
    /// a model carries out.
    pub fn steer(&self, session: Option<&str>, text: &str, queue: Queue) -> Option<String> {
        let mut state = self.lock();
        let (id, going) = state.newest(|id, going| {
            let asked = session.is_none_or(|session| id == session);
            asked && !matches!(going.hears, Hears::Nothing) && !going.cancel.is_cancelled()
        })?;
        let id = id.clone();
        // Queued under the lock, so that nothing is queued for one that listens no more.
        let telling = match &mut going.hears {
            Hears::Nothing => return None,
            Hears::Soon(early) => {
                early.push((queue, text.to_owned()));
                return Some(id);
            }
            Hears::Talk(talk) => talk.queue(queue, agent::Message::user(text)),
        };
        drop(state);
        self.tasks.spawn(telling);
        Some(id)
    }

    /// From now on `talk` hears what is said to the run of `session`, and what was said before.
    pub(super) fn can_be_told(&self, session: &str, talk: &Session) {
        let mut state = self.lock();
        let Some(going) = state.going.get_mut(session) else { return };
        if let Hears::Soon(early) = std::mem::replace(&mut going.hears, Hears::Talk(talk.clone())) {
            for (queue, text) in early {
                self.tasks.spawn(talk.queue(queue, agent::Message::user(&*text)));
            }
        }
    }

    /// From now on nothing can be said to the run of `session`; what was said and not heard.
    pub(super) fn listens_no_more(&self, session: &str) -> Vec<String> {
        let mut state = self.lock();
        match state.going.get_mut(session).map(|going| std::mem::take(&mut going.hears)) {
            None | Some(Hears::Nothing) => Vec::new(),
            Some(Hears::Soon(early)) => early.into_iter().map(|(_, text)| text).collect(),
            Some(Hears::Talk(talk)) => talk.queued().iter().map(agent::Message::text).collect(),
        }
    }

    /// The conversation that goes on in this project and is named by `session` or its beginning; the newest without a name.
    pub(super) fn conversation(&self, session: Option<&str>, root: &AbsPath) -> Option<String> {
        let mut state = self.lock();
        let newest = state.newest(|id, going| {
            going.transcript.is_some()
                && going.root.as_ref() == Some(root)
                && session.is_none_or(|session| id.starts_with(session))
        });
        newest.map(|(id, _)| id.clone())
    }

    /// Stops the run of `session` and waits until it has ended; false when it has not by the deadline.
    pub(super) async fn stop_and_wait(&self, session: &str, port: &EditorPort, deadline: Duration) -> bool {
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

    /// Whether the conversation goes on in this editor.
    pub fn goes_on(&self, session: &str) -> bool {
        self.lock().going.contains_key(session)
    }

    /// The session that carries out the `¶` line with this text, if one does.
    pub fn carrying_out(&self, path: &AbsPath, text: &str) -> Option<String> {
        let state = self.lock();
        let same = |going: &Going| going.request.as_ref().is_some_and(|it| it.0 == *path && it.1 == text);
        state.going.iter().find(|(_, going)| same(going)).map(|(id, _)| id.clone())
    }

    /// The transcript of `session`, or of the newest.
    pub fn transcript(&self, session: Option<&str>) -> Option<AbsPath> {
        let mut state = self.lock();
        let meant = |id: &str| session.is_none_or(|session| id == session);
        let going = state.newest(|id, going| meant(id) && going.transcript.is_some());
        if let Some((_, going)) = going {
            return going.transcript.clone();
        }
        let mut ended = state.ended.iter().rev().filter(|ended| meant(&ended.session));
        ended.find_map(|ended| ended.transcript.clone())
    }

    /// The newest run of `session`, which does not go on.
    pub(super) fn run_of(&self, session: &str) -> Option<RunId> {
        let state = self.lock();
        if state.going.contains_key(session) {
            return None;
        }
        // One that ended before it began has none.
        state.ended.iter().rev().filter(|ended| ended.session == session).find_map(|ended| ended.run.clone())
    }

    /// Where `session`, or the newest run that ended, worked.
    pub(super) fn root_of(&self, session: Option<&str>) -> Option<AbsPath> {
        let state = self.lock();
        let mut meant =
            state.ended.iter().rev().filter(|it| session.is_none_or(|session| it.session == session));
        meant.find_map(|ended| ended.root.clone())
    }

    pub(super) fn works_in(&self, session: &str, root: &AbsPath) {
        if let Some(going) = self.lock().going.get_mut(session) {
            going.root = Some(root.clone());
        }
    }

    /// From now on commits of `run` are this session's.
    pub fn commits_as(&self, session: &str, run: &RunId, port: &EditorPort) {
        if let Some(going) = self.lock().going.get_mut(session) {
            if going.cancel.is_cancelled() {
                port.hasten(run);
            }
            going.run = Some(run.clone());
        }
    }

    /// The run whose commits are this session's, which goes on.
    pub(super) fn commits_of(&self, session: &str) -> Option<RunId> {
        self.lock().going.get(session)?.run.clone()
    }

    pub(super) fn has_transcript(&self, session: &str, path: AbsPath) {
        if let Some(going) = self.lock().going.get_mut(session) {
            going.transcript = Some(path);
        }
    }

    pub(super) fn end(&self, session: &str, run: Option<RunId>) {
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

    fn lock(&self) -> parking_lot::MutexGuard<'_, State> {
        // Entries are put in and taken out whole.
        self.state.lock()
    }
}
