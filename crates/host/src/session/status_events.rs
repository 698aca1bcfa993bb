//! Status events of a session: changes of language servers and debugged programs.
//!
//! The forwarder reports every change of a debug session, in order. It polls servers twice a second and
//! reports differences: their state can change by time alone, so there is no signal to wait for, and many
//! report progress faster than anyone reads. A poll sends no request.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use agent::{Event, Session};
use dap_client::State;
use lsp_client::{ServerPool, ServerState};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tools::ToolContext;

/// Pause between two polls of the servers.
const POLL: Duration = Duration::from_millis(500);

/// Forwards status changes to a session until it is stopped or dropped.
pub(super) struct StatusForwarder {
    end: DropGuard,
    task: JoinHandle<()>,
}

/// State and detail of each server, by name and root.
pub(crate) type ServerStatuses = BTreeMap<(String, String), (String, Option<String>)>;

impl StatusForwarder {
    /// Reports changes from now on to `session`.
    pub fn start(session: &Session, context: &Arc<ToolContext>) -> Self {
        let end = CancellationToken::new();
        let (session, context, ended) = (session.clone(), Arc::clone(context), end.clone());
        let task = tokio::spawn(async move {
            tokio::select! {
                // Unreported changes are not lost: surfaces can ask for the state.
                () = ended.cancelled() => {}
                () = watch(&session, &context) => {}
            }
        });
        Self { end: end.drop_guard(), task }
    }

    /// Stops; no report follows.
    pub async fn stop(self) {
        drop(self.end);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the forwarder of status events failed");
        }
    }
}

async fn watch(session: &Session, context: &ToolContext) {
    let mut changes = context.debug.change_signal().subscribe();
    let mut last_servers = server_statuses(&context.servers).await;
    let mut programs = Programs::default();
    programs.poll(context);
    loop {
        tokio::select! {
            // This is cancel safe, since the states are read below.
            () = tokio::time::sleep(POLL) => {}
            changed = changes.changed() => if changed.is_err() { std::future::pending::<()>().await },
        }
        for (session_id, state) in programs.poll(context) {
            let (state, detail) = (state.name().to_owned(), detail(&state));
            session.report(Event::DebugState { session: session_id, state, detail }).await;
        }
        let now = server_statuses(&context.servers).await;
        for ((name, root), (state, detail)) in changed(&last_servers, &now) {
            session.report(Event::ServerStatus { name, root, state, detail }).await;
        }
        last_servers = now;
    }
}

/// Returns the statuses that differ from `before`.
fn changed(before: &ServerStatuses, now: &ServerStatuses) -> ServerStatuses {
    let differs =
        |(at, state): &(&(String, String), &(String, Option<String>))| before.get(*at) != Some(state);
    now.iter().filter(differs).map(|(at, state)| (at.clone(), state.clone())).collect()
}

pub(crate) async fn server_statuses(servers: &ServerPool) -> ServerStatuses {
    let all = servers.status().await.into_iter().map(|status| {
        let (state, detail) = match status.state {
            ServerState::Stopped => ("stopped", None),
            ServerState::Starting => ("starting", None),
            ServerState::Running { loading } => ("running", loading),
            ServerState::Crashed { stderr_tail } => {
                ("crashed", stderr_tail.lines().last().map(str::to_owned))
            }
        };
        ((status.name, status.root.to_string()), (state.to_owned(), detail))
    });
    all.collect()
}

/// The debug sessions that the forwarder follows.
#[derive(Default)]
struct Programs(HashMap<String, Program>);

/// A debug session: its changes, and its state until the first change.
struct Program(broadcast::Receiver<State>, Option<State>);

impl Programs {
    /// Returns changes since the last call, in order for each session.
    fn poll(&mut self, context: &ToolContext) -> Vec<(String, State)> {
        let list = context.debug.list();
        let mut changed = Vec::new();
        for session in &list {
            let program = self.0.entry(session.id.clone()).or_insert_with(|| {
                let changes = session.changes();
                let state = session.state();
                changed.push((session.id.clone(), state.clone()));
                Program(changes, Some(state))
            });
            changed.extend(program.changes().into_iter().map(|state| (session.id.clone(), state)));
        }
        self.0.retain(|id, _| list.iter().any(|session| session.id == *id));
        changed
    }
}

impl Program {
    /// Returns unread changes, oldest first.
    fn changes(&mut self) -> Vec<State> {
        let Self(changes, first) = self;
        let mut found = Vec::new();
        loop {
            match changes.try_recv() {
                // The first change may repeat the state at the start.
                Ok(state) if first.take().as_ref() == Some(&state) => {}
                Ok(state) => found.push(state),
                // Older changes were dropped.
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return found,
            }
        }
    }
}

/// Renders the reason of a stop, or the exit code or signal.
fn detail(state: &State) -> Option<String> {
    match state {
        State::Stopped(stop) => Some(stop.reason.clone()),
        State::Terminated(end) => {
            let code = end.exit_code.map(|code| format!("exit code {code}"));
            let signal = end.signal.map(|signal| format!("signal {signal}"));
            end.failure.clone().or(signal).or(code)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_changes_are_reported_in_order() {
        let stop = |reason: &str| {
            State::Stopped(dap_client::Stop { reason: reason.to_owned(), ..Default::default() })
        };
        let (send, changes) = broadcast::channel(4);
        let mut program = Program(changes, Some(State::Configuring));
        let mut poll = |states: &[State]| {
            states.iter().for_each(|state| drop(send.send(state.clone())));
            program.changes()
        };
        assert_eq!(poll(&[State::Configuring, State::Running]), [State::Running], "the first is known");
        let twice = [stop("step"), State::Running, stop("step")];
        assert_eq!(poll(&twice), twice);
        let many = [stop("a"), stop("b"), stop("c"), stop("d"), stop("e")];
        assert_eq!(poll(&many), many[1..]);
        assert!(poll(&[]).is_empty());
    }

    #[test]
    fn detail_says_how_a_program_ended() {
        let end = |end: dap_client::End| detail(&State::Terminated(end));
        let code = dap_client::End { exit_code: Some(2), ..Default::default() };
        assert_eq!(end(code.clone()).as_deref(), Some("exit code 2"));
        assert_eq!(end(dap_client::End { signal: Some(11), ..code.clone() }).as_deref(), Some("signal 11"));
        assert_eq!(
            end(dap_client::End { failure: Some("gone".to_owned()), ..code }).as_deref(),
            Some("gone")
        );
    }

    #[test]
    fn only_differences_are_reported() {
        let statuses = |rows: &[(&str, &str, Option<&str>)]| -> ServerStatuses {
            let row = |(name, state, detail): &(&str, &str, Option<&str>)| {
                let at = ((*name).to_owned(), "/p".to_owned());
                (at, ((*state).to_owned(), detail.map(str::to_owned)))
            };
            rows.iter().map(row).collect()
        };
        let before =
            statuses(&[("a", "running", Some("indexing 4%")), ("b", "running", None), ("gone", "x", None)]);
        let now = statuses(&[
            ("a", "running", Some("indexing 8%")),
            ("b", "running", None),
            ("c", "starting", None),
        ]);
        let expected = statuses(&[("a", "running", Some("indexing 8%")), ("c", "starting", None)]);
        assert_eq!(changed(&before, &now), expected);
        assert_eq!(changed(&now, &now), ServerStatuses::new());
    }
}
