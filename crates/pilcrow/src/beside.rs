//! What goes on beside a conversation while a run goes on: what language servers and debugged programs do, told to who listens to the
//! session.
//!
//! Only differences are told. Debug sessions are looked at whenever one changes. Servers are looked at twice a second while a run goes
//! on, so that a change is told within that time: their state has no bell, as it may change by time alone (a server that says nothing
//! counts as loaded after a while), and many tell their percents faster than anybody reads. A look takes no request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agent::{Event, Session};
use lsp_client::{ServerPool, ServerState};
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
    let (mut last_servers, mut last_programs) = (of_servers(&kit.servers).await, of_programs(kit));
    loop {
        tokio::select! {
            // Neither is lost: both are looked at below.
            () = tokio::time::sleep(LOOK) => {}
            rung = bell.changed() => if rung.is_err() { std::future::pending::<()>().await },
        }
        let programs = of_programs(kit);
        for ((session_id, _), (state, detail)) in news(&last_programs, &programs) {
            session.tell(Event::DebugState { session: session_id, state, detail }).await;
        }
        last_programs = programs;
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

fn of_programs(kit: &Kit) -> Told {
    let all = kit.debug.list().into_iter().map(|session| {
        let state = session.state();
        let detail = match &state {
            dap_client::State::Stopped(stop) => Some(stop.reason.clone()),
            dap_client::State::Terminated(end) => end.exit_code.map(|code| format!("exit code {code}")),
            _ => None,
        };
        ((session.id.to_string(), String::new()), (state.name().to_owned(), detail))
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
