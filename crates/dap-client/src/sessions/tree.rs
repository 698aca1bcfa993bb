//! Sessions in trees: child sessions that an adapter asked for, and what counts as *the* session of a tree.
//!
//! What must stay true: a child has the breakpoints of its parent from the start; it never outlives its
//! root; which session is shown is decided here, so that no caller has to know an adapter's shape.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::debuggee::{Breakpoints, End, State, Stop};
use crate::error::DapError;
use crate::launch::LaunchPlan;
use crate::session::{Clock, OUTPUT, Session};
use crate::sessions::Sessions;
use crate::sessions::reverse::Reverse;
use crate::transport;

/// How long a child session may take to begin.
const BEGIN: Duration = Duration::from_secs(60);
/// Sessions of one tree that may live at once.
const LIVE: usize = 64;
/// How long the stop to look at may come after one that is told beside it.
const BESIDE: Duration = Duration::from_secs(1);
/// How long the last of a session may take, once its program is over: longer than each of its steps together.
const OVER: Duration = Duration::from_secs(15);
/// How long a launcher may take to say that it is over, once the program is.
const LAUNCHER: Duration = Duration::from_secs(3);

impl Sessions {
    /// Starts the session that `arguments` of `startDebugging` ask for, up to a connection; the rest goes
    /// on by itself.
    pub(crate) async fn start_child(
        &self,
        parent: &Arc<Session>,
        reverse: &Reverse,
        arguments: Value,
    ) -> Result<(), DapError> {
        let configuration = arguments["configuration"].clone();
        let live = self.tree(parent).iter().filter(|it| !it.is_over()).count();
        if parent.is_over() || live >= LIVE {
            let why = format!("{live} sessions of this program are live, which is as many as there may be");
            return Err(DapError::Invalid(why));
        }
        let request = if arguments["request"] == "attach" { "attach" } else { "launch" };
        let plan = LaunchPlan {
            title: configuration["name"].as_str().unwrap_or("a child").to_owned(),
            request,
            breakpoints: parent.breakpoints().unplaced(),
            // In place from the start too: their clients are asked to join it only later.
            of_persons: parent.hub().of_persons().await,
            arguments: configuration,
            connect: None,
            ..parent.plan().clone()
        };
        let clock = Clock::new(BEGIN, &parent.finished());
        let named = plan.adapter.quirks.child_port.as_deref();
        let named = named.and_then(|it| plan.arguments.pointer(it)?.as_u64()?.try_into().ok());
        let grant = parent.grant();
        let grant = grant.ok_or_else(|| DapError::Invalid("the person's editor starts these".to_owned()))?;
        let connection = match (named, &reverse.address) {
            (Some(port), _) => transport::reach(&plan.adapter.name, "127.0.0.1", port, clock.until).await?,
            (None, Some(address)) => transport::again(&plan.adapter.name, address, clock.until).await?,
            (None, None) => {
                let (processes, doors) = (self.processes(), self.doors());
                transport::open(processes, &plan, grant, doors, clock.until, self.tracker()).await?
            }
        };
        let child =
            self.enter(&plan, connection, Some(grant.clone()), Arc::clone(&reverse.runs), Some(parent));
        parent.run_id().cloned().into_iter().for_each(|run| child.started_by(run));
        let (parent, doors) = (Arc::clone(parent), self.doors().cloned());
        let tracker = self.tracker().clone();
        self.tracker().spawn(async move {
            if let Err(error) = child.handshake(&plan, &clock).await {
                tracing::warn!(session = child.id, %error, "a child session did not begin");
                return child.not_begun(&error.to_string());
            }
            if let Some(folder) = doors {
                child.open_door(&folder, &tracker);
            }
            // Whoever has joined the parent is asked to join the child.
            let configuration = child.configuration();
            parent.hub().child(configuration.clone()).await;
            child.over().await;
            parent.hub().child_over(configuration).await;
        });
        Ok(())
    }

    /// The session with all that descend from it, itself first.
    pub fn tree(&self, of: &Session) -> Vec<Arc<Session>> {
        let mut tree: Vec<Arc<Session>> = Vec::new();
        // Children come after their parents in the list.
        for it in self.list() {
            let within = |parent: &String| tree.iter().any(|above| above.id == *parent);
            if it.id == of.id || it.parent.as_ref().is_some_and(within) {
                tree.push(it);
            }
        }
        tree
    }

    /// The session at the top of its tree.
    pub fn root_of(&self, of: &Arc<Session>) -> Arc<Session> {
        let list = self.list();
        let mut at = Arc::clone(of);
        while let Some(parent) = at.parent.as_ref().and_then(|id| list.iter().find(|it| it.id == *id)) {
            at = Arc::clone(parent);
        }
        at
    }

    /// The session of a tree that is meant when none is named: the newest that is stopped, else the first
    /// live one that runs a program, else the root.
    pub fn focus(&self, root: &Arc<Session>) -> Arc<Session> {
        let tree = self.tree(root);
        let stopped = tree.iter().rev().find(|it| it.is_stopped());
        let live = || tree.iter().find(|it| !it.is_over() && !it.adapter_launches_only());
        // Of a program that is over the session that ran it knows most.
        let last = || Some(self.program_of(root)).filter(|_| root.is_over());
        stopped.or_else(live).cloned().or_else(last).unwrap_or_else(|| Arc::clone(root))
    }

    /// The session of a tree that runs the program which was launched: the first that does not launch only.
    pub fn program_of(&self, of: &Arc<Session>) -> Arc<Session> {
        let root = self.root_of(of);
        self.tree(&root).into_iter().find(|it| !it.adapter_launches_only()).unwrap_or(root)
    }

    /// Waits until `session`, or another of its tree anew, is stopped, or the program is over, or a person takes
    /// control of one, or the deadline passes; the session that this is about.
    ///
    /// # Errors
    /// [`DapError::Cancelled`].
    pub async fn settled(&self, session: &Arc<Session>, clock: &Clock) -> Result<Arc<Session>, DapError> {
        let root = self.root_of(session);
        let before: Vec<(String, Stop, u64)> = self.stops(&root, session);
        let mut bell = self.bell().subscribe();
        let found = async {
            loop {
                bell.borrow_and_update();
                if let Some(found) = self.is_settled(&root, session, &before) {
                    return found;
                }
                let live = self.tree(&root).into_iter().filter(|it| !it.is_over());
                // The session itself is among them where nothing else is.
                let live = live.chain([Arc::clone(session)]);
                let taken = live.map(|it| {
                    Box::pin(async move {
                        it.taken().await;
                        it
                    })
                });
                let taken = futures_util::future::select_all(taken);
                // Both are states, looked at anew: dropping a wait loses nothing.
                tokio::select! {
                    biased;
                    rung = bell.changed() => if rung.is_err() {
                        return Arc::clone(session);
                    },
                    (of, ..) = taken => return of,
                }
            }
        };
        let found = tokio::select! {
            biased;
            () = clock.cancel.cancelled() => return Err(DapError::Cancelled),
            // Dropping the wait loses nothing: it looks at the states.
            found = tokio::time::timeout_at(clock.until, found) => found.ok(),
        };
        let Some(found) = found else { return Ok(self.focus(&root)) };
        found.focused(clock.until.min(Instant::now() + BESIDE)).await;
        if found.is_stopped() {
            let until = clock.until.min(Instant::now() + OUTPUT);
            tokio::select! {
                biased;
                () = clock.cancel.cancelled() => return Err(DapError::Cancelled),
                () = found.caught_up(until) => {}
            }
        }
        if found.is_over() {
            // The last output and the exit code may come after the word that it is over.
            let last = Clock::new(OVER, &clock.cancel);
            found.settled(&last).await?;
            if root.id != found.id && root.adapter_launches_only() {
                let last = Clock::new(LAUNCHER, &clock.cancel);
                root.settled(&last).await?;
            }
        }
        Ok(found)
    }

    fn is_settled(
        &self,
        root: &Arc<Session>,
        session: &Arc<Session>,
        before: &[(String, Stop, u64)],
    ) -> Option<Arc<Session>> {
        if session.is_stopped() {
            return Some(Arc::clone(session));
        }
        let tree = self.tree(root);
        let anew = |it: &&Arc<Session>| match it.state() {
            State::Stopped(stop) => !before.contains(&(it.id.clone(), stop, it.epoch())),
            _ => false,
        };
        if let Some(found) = tree.iter().find(anew) {
            return Some(Arc::clone(found));
        }
        if session.is_over() {
            let others = tree.iter().any(|it| !it.is_over() && !it.adapter_launches_only());
            // What the program wrote is known to the session that ran it, not to its launcher.
            let meant =
                || if session.adapter_launches_only() { self.focus(root) } else { Arc::clone(session) };
            return (!others || session.parent.is_some()).then(meant);
        }
        None
    }

    fn stops(&self, root: &Session, but: &Session) -> Vec<(String, Stop, u64)> {
        let tree = self.tree(root);
        let others = tree.iter().filter(|it| it.id != but.id);
        let stop = |it: &Arc<Session>| match it.state() {
            State::Stopped(stop) => Some((it.id.clone(), stop, it.epoch())),
            _ => None,
        };
        others.filter_map(stop).collect()
    }

    /// Changes the breakpoints of a whole tree.
    ///
    /// # Errors
    /// [`DapError`] of `session`; what others of its tree refuse is in the log.
    pub async fn change_breakpoints(
        &self,
        session: &Arc<Session>,
        change: impl Fn(&mut Breakpoints),
        clock: &Clock,
    ) -> Result<(), DapError> {
        let outcome = session.change_breakpoints(&change, clock).await;
        if outcome.is_ok() {
            for it in
                self.tree(&self.root_of(session)).iter().filter(|it| it.id != session.id && !it.is_over())
            {
                if let Err(error) = it.change_breakpoints(&change, clock).await {
                    tracing::warn!(session = it.id, %error, "its breakpoints are not those of its tree");
                }
            }
        }
        outcome
    }

    /// Ends a session with all below it, and one that only launched it.
    pub async fn terminate(&self, session: &Arc<Session>, clock: &Clock) {
        let root = self.root_of(session);
        let of = if root.adapter_launches_only() { &root } else { session };
        for it in self.tree(of).iter().rev().filter(|it| !it.is_over()) {
            it.terminate(clock).await;
        }
    }

    /// How the program of a session ended, where it is over: its launcher may know more than itself.
    pub fn end_of(&self, session: &Arc<Session>) -> Option<End> {
        let State::Terminated(end) = session.state() else { return None };
        let root = self.root_of(session);
        // It says nothing of other processes.
        let is_launched = || self.program_of(&root).id == session.id;
        match root.state() {
            State::Terminated(more)
                if root.adapter_launches_only() && end.exit_code.is_none() && is_launched() =>
            {
                Some(more)
            }
            _ => Some(end),
        }
    }

    /// What a session was started with, for starting it again with the breakpoints that it has now.
    /// `None` where we did not start it.
    pub fn again(&self, session: &Session) -> Option<(LaunchPlan, policy::SpawnGrant)> {
        let grant = session.grant().cloned()?;
        Some((LaunchPlan { breakpoints: session.breakpoints().unplaced(), ..session.plan().clone() }, grant))
    }

    /// What there is of a tree, for data.
    pub fn describe(&self, session: &Session) -> Value {
        let children = self.tree(session);
        let children: Vec<&str> = children.iter().skip(1).map(|it| it.id.as_str()).collect();
        json!({ "session": session.id, "parent": session.parent, "title": session.title,
            "adapter": session.adapter.name, "state": session.state().name(), "children": children,
            "of_editor": session.is_theirs() })
    }
}
