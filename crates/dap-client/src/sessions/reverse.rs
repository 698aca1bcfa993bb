//! Reverse requests of an adapter: child sessions, and programs to run in a terminal.
//!
//! There is no terminal: a program runs as a child process, and its output goes to the session's.
//! The [`SpawnApprover`] decides whether it may run (DAP §Reverse Requests).
//!
//! Invariants: every request is answered; programs end with the session.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use paths::AbsPath;
use policy::SpawnGrant;
use process::deadlines;
use process::{HostGate, Process};
use serde_json::{Value, json};
use shell::CommandLine;
use tokio::io::AsyncReadExt;

use crate::debuggee::Category;
use crate::session::{ReverseRequestHandler, Session};
use crate::sessions::Sessions;
use crate::transport::Address;

/// Decides whether a program that an adapter names may run.
pub trait SpawnApprover: Send + Sync + 'static {
    /// Returns the permission for exactly `command`, or the reason for refusal.
    ///
    /// May wait for the user.
    fn grant(&self, adapter: &str, command: &CommandLine) -> BoxFuture<'static, Result<SpawnGrant, String>>;

    /// The gate for connections of a confined session's programs.
    fn hosts(&self) -> Option<Arc<dyn HostGate>> {
        None
    }
}

pub struct DenySpawns;

impl SpawnApprover for DenySpawns {
    fn grant(&self, _: &str, _: &CommandLine) -> BoxFuture<'static, Result<SpawnGrant, String>> {
        Box::pin(std::future::ready(Err("there is no user to ask for permission to run it".to_owned())))
    }
}

/// State for the reverse requests of one session.
pub(crate) struct ReverseRequests {
    pub(crate) sessions: Weak<Sessions>,
    pub(crate) approver: Arc<dyn SpawnApprover>,
    /// Address at which another connection to its adapter can be opened.
    pub(crate) address: Option<Address>,
    started: Mutex<Vec<Process>>,
}

impl ReverseRequests {
    pub(crate) fn new(
        sessions: Weak<Sessions>,
        approver: Arc<dyn SpawnApprover>,
        address: Option<Address>,
    ) -> Arc<Self> {
        Arc::new(Self { sessions, approver, address, started: Mutex::default() })
    }

    async fn run_in_terminal(
        &self,
        sessions: &Sessions,
        session: &Arc<Session>,
        arguments: &Value,
    ) -> Result<Value, String> {
        let words: Vec<String> = arguments["args"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|it| it.as_str().map(str::to_owned).ok_or("`args` is not a list of texts"))
            .collect::<Result<_, _>>()?;
        let (program, args) = words.split_first().ok_or("`args` names no program")?;
        // A `null` value removes a variable, which is not supported: the program keeps it.
        let env = arguments["env"].as_object().into_iter().flatten();
        let env = env.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect();
        let cwd = arguments["cwd"].as_str().and_then(AbsPath::new);
        let cwd = cwd.unwrap_or_else(|| session.plan().root.clone());
        let command = CommandLine { program: PathBuf::from(program), args: args.to_vec(), env, cwd };
        let mut grant = self.approver.grant(&session.adapter.name, &command).await?;
        if let Some(adapter) = session.grant() {
            grant = grant.in_sandbox_of(adapter);
        }
        let spawned = sessions.processes().spawn_apart(&command, &grant, &[], self.approver.hosts()).await;
        let mut process = spawned.map_err(|error| error.to_string())?;
        let id = process.id();
        // The program has no terminal, so it receives no input.
        drop(process.take_stdin());
        if let Some(mut stdout) = process.take_stdout() {
            let session = Arc::downgrade(session);
            sessions.tracker().spawn(async move {
                let mut buffer = vec![0; 8 * 1024];
                while let Ok(count @ 1..) = stdout.read(&mut buffer).await {
                    let Some(session) = session.upgrade() else { break };
                    session.push_output(Category::Stdout, &String::from_utf8_lossy(&buffer[..count]));
                }
            });
        }
        self.started().push(process);
        Ok(json!({ "processId": id }))
    }

    fn started(&self) -> parking_lot::MutexGuard<'_, Vec<Process>> {
        // Every use leaves the list consistent, so a panic elsewhere has no effect on it.
        self.started.lock()
    }
}

impl ReverseRequestHandler for ReverseRequests {
    fn answer(
        self: Arc<Self>,
        session: Arc<Session>,
        command: String,
        arguments: Value,
    ) -> BoxFuture<'static, Result<Value, String>> {
        Box::pin(async move {
            let sessions = self.sessions.upgrade().ok_or("the session has ended")?;
            match command.as_str() {
                "startDebugging" => {
                    let started = sessions.start_child(&session, &self, arguments).await;
                    started.map(|()| json!({})).map_err(|error| error.to_string())
                }
                "runInTerminal" => self.run_in_terminal(&sessions, &session, &arguments).await,
                _ => Err(format!("this client does not know `{command}`")),
            }
        })
    }

    fn descendants(&self, session: &Session) -> Vec<Arc<Session>> {
        let tree = self.sessions.upgrade().map(|sessions| sessions.tree(session)).unwrap_or_default();
        tree.into_iter().skip(1).collect()
    }

    fn program_of(&self, session: &Arc<Session>) -> Option<Arc<Session>> {
        self.sessions.upgrade().map(|sessions| sessions.program_of(session))
    }

    fn end_programs<'a>(&'a self, session: &'a Session) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let started = std::mem::take(&mut *self.started());
            for process in started {
                // A program that ended by itself has an exit code, which the adapter may not report.
                let ended = tokio::time::timeout(deadlines::ADAPTER, process.exited()).await;
                process.end(deadlines::ADAPTER).await;
                let wrote = process.stderr_tail();
                session.push_output(Category::Stderr, &session.adapter.quirks.without_own(false, &wrote));
                if let Ok(status) = ended {
                    session.ended_with(status);
                }
            }
        })
    }
}
