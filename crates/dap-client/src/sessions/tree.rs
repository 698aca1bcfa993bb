//! Session trees: child sessions that an adapter requested, and the session of a tree to show.
//!
//! Invariants: a child has its parent's breakpoints from the start and never outlives its root.
//! This module alone decides which session is shown, so that callers need not know how an adapter
//! arranges sessions.

use std::sync::Arc;
use std::time::Duration;

use process::deadlines;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::debuggee::{Breakpoints, End, State, Stop};
use crate::error::{DapError, Result};
use crate::hub::Input;
use crate::launch::LaunchPlan;
use crate::session::{Clock, Session};
use crate::sessions::Sessions;
use crate::sessions::reverse::ReverseRequests;
use crate::transport::{self, Address};

/// Time for a child session to start.
const BEGIN: Duration = Duration::from_secs(60);
/// Maximum number of live sessions in one tree.
const MAX_LIVE_SESSIONS: usize = 64;
/// Maximum delay between a stop and the stop in focus that follows it.
const FOCUS_TIMEOUT: Duration = Duration::from_secs(1);

impl Sessions {
    /// Starts the session that a `startDebugging` request asks for.
    ///
    /// Returns once connected; the handshake continues in a task.
    pub(crate) async fn start_child(
        &self,
        parent: &Arc<Session>,
        reverse: &ReverseRequests,
        arguments: Value,
    ) -> Result<()> {
        let configuration = arguments["configuration"].clone();
        let live = self.tree(parent).iter().filter(|it| !it.is_terminated()).count();
        if parent.is_terminated() || live >= MAX_LIVE_SESSIONS {
            let why = format!("{live} sessions of this program are live, which is the limit; end one first");
            return Err(DapError::Invalid(why));
        }
        let request = if arguments["request"] == "attach" { "attach" } else { "launch" };
        let plan = LaunchPlan {
            entry: None,
            title: configuration["name"].as_str().unwrap_or("a child").to_owned(),
            request,
            breakpoints: parent.breakpoints().unplaced(),
            // The child is listed from the start, because the clients are asked to join it only
            // later.
            user_breakpoints: parent.hub().user_breakpoints().await,
            arguments: configuration,
            connect: None,
            ..parent.plan().clone()
        };
        let clock = Clock::new(BEGIN, &parent.finished());
        let named = plan.adapter.quirks.child_port.as_deref();
        let named = named.and_then(|it| plan.arguments.pointer(it)?.as_u64()?.try_into().ok());
        let grant = parent.grant();
        let grant =
            grant.ok_or_else(|| DapError::Invalid("the user's editor starts child sessions".to_owned()))?;
        let processes = self.processes();
        let connection = match (named, &reverse.address) {
            (Some(port), _) => {
                let address = Address::Port(port);
                transport::reconnect(&plan.adapter.name, &address, processes, grant, clock.until).await?
            }
            (None, Some(address)) => {
                transport::reconnect(&plan.adapter.name, address, processes, grant, clock.until).await?
            }
            (None, None) => {
                let (gate, socket_dir) = (reverse.approver.hosts(), self.socket_dir());
                transport::open(processes, &plan, grant, gate, socket_dir, clock.until, self.tracker())
                    .await?
            }
        };
        let child = self.register(
            &plan,
            connection,
            Some(grant.clone()),
            Arc::clone(&reverse.approver),
            Some(parent),
        );
        parent.run_id().cloned().into_iter().for_each(|run| child.started_by(run));
        let (parent, socket_dir) = (Arc::clone(parent), self.socket_dir().cloned());
        let tracker = self.tracker().clone();
        self.tracker().spawn(async move {
            if let Err(error) = child.handshake(&plan, &clock).await {
                if !matches!(error, DapError::Cancelled) {
                    tracing::warn!(session = child.id, %error, "a child session did not start");
                }
                return child.fail_start(&error.to_string());
            }
            if let Some(directory) = socket_dir {
                child.listen(&directory, &tracker);
            }
            // Clients of the parent are asked to join the child.
            let configuration = child.configuration();
            let started = Input::ChildStarted { configuration: configuration.clone() };
            parent.hub().handle(started).await;
            child.ended().await;
            parent.hub().handle(Input::ChildEnded { configuration }).await;
        });
        Ok(())
    }

    /// The session and its descendants, itself first.
    pub fn tree(&self, root: &Session) -> Vec<Arc<Session>> {
        let mut tree: Vec<Arc<Session>> = Vec::new();
        // Children come after their parents in the list.
        for it in self.list() {
            let within = |parent: &String| tree.iter().any(|above| above.id == *parent);
            if it.id == root.id || it.parent.as_ref().is_some_and(within) {
                tree.push(it);
            }
        }
        tree
    }

    pub fn root_of(&self, session: &Arc<Session>) -> Arc<Session> {
        let list = self.list();
        let mut root = Arc::clone(session);
        while let Some(parent) = root.parent.as_ref().and_then(|id| list.iter().find(|it| it.id == *id)) {
            root = Arc::clone(parent);
        }
        root
    }

    /// The session of a tree to use when none is named.
    ///
    /// It is the newest stopped one, else the first live one that runs a program, else the root.
    pub fn focus(&self, root: &Arc<Session>) -> Arc<Session> {
        let tree = self.tree(root);
        let stopped = tree.iter().rev().find(|it| it.is_stopped());
        let live = || tree.iter().find(|it| !it.is_terminated() && !it.adapter_launches_only());
        // The session that ran an ended program has the most information about it.
        let last = || Some(self.program_of(root)).filter(|_| root.is_terminated());
        stopped.or_else(live).cloned().or_else(last).unwrap_or_else(|| Arc::clone(root))
    }

    /// The session of a tree that runs the launched program.
    ///
    /// It is the first that does not only launch.
    pub fn program_of(&self, session: &Arc<Session>) -> Arc<Session> {
        let root = self.root_of(session);
        self.tree(&root).into_iter().find(|it| !it.adapter_launches_only()).unwrap_or(root)
    }

    /// Waits until `session` or another of its tree is stopped.
    ///
    /// Waits also for the output that the program wrote before the stop.
    /// Also ends when the program ends, the user takes control of one, or the deadline passes.
    /// Returns the session concerned.
    ///
    /// # Errors
    ///
    /// [`DapError::Cancelled`].
    pub async fn wait_for_stop(&self, session: &Arc<Session>, clock: &Clock) -> Result<Arc<Session>> {
        let found = self.find_stop(session, clock).await?;
        found.wait_for_stop_output(clock).await?;
        Ok(found)
    }

    /// Waits as [`Self::wait_for_stop`] does, but not for the output.
    ///
    /// # Errors
    ///
    /// [`DapError::Cancelled`].
    pub async fn find_stop(&self, session: &Arc<Session>, clock: &Clock) -> Result<Arc<Session>> {
        let root = self.root_of(session);
        let before: Vec<(String, Stop, u64)> = self.stops(&root, session);
        let mut changes = self.change_signal().subscribe();
        let found = async {
            loop {
                changes.borrow_and_update();
                if let Some(found) = self.find_stopped(&root, session, &before) {
                    return found;
                }
                let live = self.tree(&root).into_iter().filter(|it| !it.is_terminated());
                // The list includes the session itself, so it is not empty.
                let live = live.chain([Arc::clone(session)]);
                let taken = live.map(|it| {
                    Box::pin(async move {
                        it.control_lost().await;
                        it
                    })
                });
                let taken = futures_util::future::select_all(taken);
                // The code checks both states again, so dropping a wait loses nothing.
                tokio::select! {
                    biased;
                    changed = changes.changed() => if changed.is_err() {
                        return Arc::clone(session);
                    },
                    (session, ..) = taken => return session,
                }
            }
        };
        let found = tokio::select! {
            biased;
            () = clock.cancel.cancelled() => return Err(DapError::Cancelled),
            // The loop checks states, so dropping the wait loses nothing.
            found = tokio::time::timeout_at(clock.until, found) => found.ok(),
        };
        let Some(found) = found else { return Ok(self.focus(&root)) };
        found.wait_for_focus(clock.until.min(Instant::now() + FOCUS_TIMEOUT)).await;
        if found.is_terminated() {
            // The last output and the exit code may follow `terminated`.
            let last = Clock::new(deadlines::DEBUG_SESSION, &clock.cancel);
            found.wait_for_stop(&last).await?;
            if root.id != found.id && root.adapter_launches_only() {
                let last = Clock::new(deadlines::LAUNCHER, &clock.cancel);
                root.wait_for_stop(&last).await?;
            }
        }
        Ok(found)
    }

    fn find_stopped(
        &self,
        root: &Arc<Session>,
        session: &Arc<Session>,
        before: &[(String, Stop, u64)],
    ) -> Option<Arc<Session>> {
        if session.is_stopped() {
            return Some(Arc::clone(session));
        }
        let tree = self.tree(root);
        let is_new = |it: &&Arc<Session>| match it.state() {
            State::Stopped(stop) => !before.contains(&(it.id.clone(), stop, it.epoch())),
            _ => false,
        };
        if let Some(found) = tree.iter().find(is_new) {
            return Some(Arc::clone(found));
        }
        if session.is_terminated() {
            let others = tree.iter().any(|it| !it.is_terminated() && !it.adapter_launches_only());
            // The session that ran the program has its output, not the launcher.
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
    /// [`DapError`] of `session`; failures of others in its tree are logged.
    pub async fn change_breakpoints(
        &self,
        session: &Arc<Session>,
        change: impl Fn(&mut Breakpoints),
        clock: &Clock,
    ) -> Result<()> {
        let outcome = session.change_breakpoints(&change, clock).await;
        if outcome.is_ok() {
            for it in self
                .tree(&self.root_of(session))
                .iter()
                .filter(|it| it.id != session.id && !it.is_terminated())
            {
                if let Err(error) = it.change_breakpoints(&change, clock).await {
                    tracing::warn!(session = it.id, %error, "its breakpoints differ from those of its tree");
                }
            }
        }
        outcome
    }

    /// Ends a session with its descendants, and a root that only launched it.
    pub async fn terminate(&self, session: &Arc<Session>, clock: &Clock) {
        let root = self.root_of(session);
        let top = if root.adapter_launches_only() { &root } else { session };
        for it in self.tree(top).iter().rev().filter(|it| !it.is_terminated()) {
            it.terminate(clock).await;
        }
    }

    /// The end of a session's program; its launcher may have reported the exit code.
    pub fn end_of(&self, session: &Arc<Session>) -> Option<End> {
        let State::Terminated(end) = session.state() else { return None };
        let root = self.root_of(session);
        // The launcher reports only the launched program's exit code.
        let is_launched = || self.program_of(&root).id == session.id;
        match root.state() {
            State::Terminated(more)
                if root.adapter_launches_only() && end.exit_code.is_none() && is_launched() =>
            {
                // A program that Pilcrow ended first ends its launcher before that is asked to end.
                Some(End { asked: more.asked.or(end.asked), ..more })
            }
            _ => Some(end),
        }
    }

    /// The plan and grant to start a session again with its current breakpoints.
    ///
    /// The functions of its stop on entry are added.
    /// `None` if Pilcrow did not start it.
    pub fn restart_plan(&self, session: &Session) -> Option<(LaunchPlan, policy::SpawnGrant)> {
        let grant = session.grant().cloned()?;
        let (plan, mut breakpoints) = (session.plan().clone(), session.breakpoints().unplaced());
        plan.entry.iter().flatten().for_each(|it| breakpoints.add_function(it));
        Some((LaunchPlan { breakpoints, ..plan }, grant))
    }

    /// A session's members for structured results.
    pub fn describe(&self, session: &Session) -> Value {
        let children = self.tree(session);
        let children: Vec<&str> = children.iter().skip(1).map(|it| it.id.as_str()).collect();
        json!({ "session": session.id, "parent": session.parent, "title": session.title,
            "adapter": session.adapter.name, "state": session.state().name(), "children": children,
            "of_editor": session.is_external() })
    }
}
