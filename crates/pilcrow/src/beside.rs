//! What goes on beside a conversation while a run goes on: what language servers and debugged programs do, told to who listens to the
//! session.
//!
//! Of debug sessions every change is told, in order. Of servers only differences are told: they are looked at twice a second while a
//! run goes on, so that a change is told within that time: their state has no bell, as it may change by time alone (a server that says
//! nothing counts as loaded after a while), and many tell their percents faster than anybody reads. A look takes no request.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use agent::{Event, Session};
use dap_client::State;
use lsp_client::{ServerPool, ServerState};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::TryRecvError;
use tokio_util::sync::{CancellationToken, DropGuard};
use tools::Kit;

/// How long after one look at the servers comes the next.
const LOOK: Duration = Duration::from_millis(500);

/// Tells until it is dropped.
pub struct Beside {
    _end: DropGuard,
}

/// What was told last: the state and its detail, by name and root.
type Told = BTreeMap<(String, String), (String, Option<String>)>;

impl Beside {
    /// Tells `session` of what changes from now on.
    pub fn tell(session: &Session, kit: &Arc<Kit>) -> Self {
        let end = CancellationToken::new();
        let (session, kit, ended) = (session.clone(), Arc::clone(kit), end.clone());
        // Ends with the guard; it holds nothing that anybody waits for.
        tokio::spawn(async move {
            tokio::select! {
                // What is not told yet is not missed: a surface that wants to know asks for the state.
                () = ended.cancelled() => {}
                () = watch(&session, &kit) => {}
            }
        });
        Self { _end: end.drop_guard() }
    }
}

async fn watch(session: &Session, kit: &Kit) {
    let mut bell = kit.debug.bell().subscribe();
    // What is there as the run begins is no news.
    let mut last_servers = of_servers(&kit.servers).await;
    let mut programs = Programs::default();
    programs.news(kit);
    loop {
        tokio::select! {
            // Neither is lost: both are looked at below.
            () = tokio::time::sleep(LOOK) => {}
            rung = bell.changed() => if rung.is_err() { std::future::pending::<()>().await },
        }
        for (session_id, state) in programs.news(kit) {
            let (state, detail) = (state.name().to_owned(), detail(&state));
            session.tell(Event::DebugState { session: session_id, state, detail }).await;
        }
        let now = of_servers(&kit.servers).await;
        for ((name, root), (state, detail)) in news(&last_servers, &now) {
            session.tell(Event::ServerStatus { name, root, state, detail }).await;
        }
        last_servers = now;
    }
}

/// What is not as it was.
fn news(before: &Told, now: &Told) -> Told {
    let differs =
        |(at, state): &(&(String, String), &(String, Option<String>))| before.get(*at) != Some(state);
    now.iter().filter(differs).map(|(at, state)| (at.clone(), state.clone())).collect()
}

async fn of_servers(servers: &ServerPool) -> Told {
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

/// The debug sessions that are listened to.
#[derive(Default)]
struct Programs(HashMap<String, Program>);

/// One of them: its changes, and the state as it was when they were first listened to, until the first of them is told.
struct Program(broadcast::Receiver<State>, Option<State>);

impl Programs {
    /// What changed since this was last asked, in order for each session.
    fn news(&mut self, kit: &Kit) -> Vec<(String, State)> {
        let list = kit.debug.list();
        let mut news = Vec::new();
        for it in &list {
            let program = self.0.entry(it.id.clone()).or_insert_with(|| {
                let changes = it.changes();
                let state = it.state();
                news.push((it.id.clone(), state.clone()));
                Program(changes, Some(state))
            });
            news.extend(program.changes().into_iter().map(|state| (it.id.clone(), state)));
        }
        self.0.retain(|id, _| list.iter().any(|it| it.id == *id));
        news
    }
}

impl Program {
    /// What was not read yet; the last of it is how it is now.
    fn changes(&mut self) -> Vec<State> {
        let Self(changes, first) = self;
        let mut found = Vec::new();
        loop {
            match changes.try_recv() {
                // It may have come between the two.
                Ok(state) if first.take().as_ref() == Some(&state) => {}
                Ok(state) => found.push(state),
                // More than are kept: what comes next is the oldest of those.
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return found,
            }
        }
    }
}

/// Why it stopped, or how it ended.
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
    fn every_change_of_a_program_is_told_in_order() {
        let stop = |reason: &str| {
            State::Stopped(dap_client::Stop { reason: reason.to_owned(), ..Default::default() })
        };
        let (send, changes) = broadcast::channel(4);
        let mut program = Program(changes, Some(State::Configuring));
        let mut told = |states: &[State]| {
            states.iter().for_each(|it| drop(send.send(it.clone())));
            program.changes()
        };
        assert_eq!(told(&[State::Configuring, State::Running]), [State::Running], "the first is known");
        let twice = [stop("step"), State::Running, stop("step")];
        assert_eq!(told(&twice), twice);
        let many = [stop("a"), stop("b"), stop("c"), stop("d"), stop("e")];
        assert_eq!(told(&many), many[1..]);
        assert!(told(&[]).is_empty());
    }

    #[test]
    fn it_is_told_how_a_program_ended() {
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
    fn only_what_differs_is_told() {
        let told = |rows: &[(&str, &str, Option<&str>)]| -> Told {
            let row = |(name, state, detail): &(&str, &str, Option<&str>)| {
                let at = ((*name).to_owned(), "/p".to_owned());
                (at, ((*state).to_owned(), detail.map(str::to_owned)))
            };
            rows.iter().map(row).collect()
        };
        let before =
            told(&[("a", "running", Some("indexing 4%")), ("b", "running", None), ("gone", "x", None)]);
        let now =
            told(&[("a", "running", Some("indexing 8%")), ("b", "running", None), ("c", "starting", None)]);
        let expected = told(&[("a", "running", Some("indexing 8%")), ("c", "starting", None)]);
        assert_eq!(news(&before, &now), expected);
        assert_eq!(news(&now, &now), Told::new());
    }
}
