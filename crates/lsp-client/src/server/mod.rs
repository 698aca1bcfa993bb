//! One running server: start, requests, documents, end.
//!
//! Does not choose servers and starts no processes; the pool does.
//!
//! Invariants: before a request is sent the server has the current texts, and nothing is sent
//! between those and the request.

pub(crate) mod abandoned_requests;
pub(crate) mod capabilities;
pub(crate) mod clock;
pub(crate) mod core;
pub(crate) mod documents;
pub(crate) mod edit;
pub(crate) mod edit_inbox;
pub(crate) mod gate;
pub(crate) mod handler;
pub(crate) mod host;
pub(crate) mod language_version;
pub(crate) mod loading;
pub(crate) mod protocol;
pub(crate) mod request_table;
pub(crate) mod requests;
pub(crate) mod server_log;
pub(crate) mod snippet;
pub(crate) mod sync;
pub(crate) mod traffic;
pub(crate) mod usage;
pub(crate) mod view;

use std::sync::Arc;
use std::time::{Duration, Instant};

use paths::AbsPath;
use process::Process;
use process::deadlines;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::{Peer, PeerOptions};
use workspace::Document;

use crate::error::{Result, ServerError, StartCause};
use crate::files::file_poll::PollMode;
use crate::note::Note;
use crate::server::abandoned_requests::AbandonedRequests;
use crate::server::core::Core;
use crate::server::gate::Gate;
use crate::server::handler::ServerHandler;
use crate::server::language_version::OtherVersion;
use crate::server::server_log::{Ending, LogHeader, LoggedServer};
use crate::server::usage::Usage;
use adapters::{expand, merge};

pub use clock::Clock;
pub(crate) use clock::{LONGEST_PAUSE, PAUSE};
pub(crate) use requests::Asked;
pub(crate) use sync::Opened;

pub(crate) struct Server {
    pub core: Arc<Core>,
    pub peer: Peer,
    pub process: Process,
    pub started: Instant,
    pub usage: Usage,
    pub abandoned: AbandonedRequests,
    pub gate: Gate,
    /// Tasks that continue when no request waits for them.
    pub tracker: TaskTracker,
    /// The id of its log on the disk.
    pub log_id: String,
    pub ending: Arc<Ending>,
}

impl Server {
    /// Initializes a started process: `initialize`, `initialized`, settings.
    pub async fn start(
        core: Core,
        mut process: Process,
        variables: &[(&str, String)],
        deadline: Duration,
        tracker: &TaskTracker,
    ) -> Result<Arc<Self>> {
        let core = Arc::new(core);
        let name = core.definition.name.clone();
        let (Some(stdin), Some(stdout)) = (process.take_stdin(), process.take_stdout()) else {
            return Err(ServerError::Start { server: name, reason: "it has no pipes".to_owned() });
        };
        let mut options = PeerOptions::new(name.clone());
        options.uncancellable = core.definition.uncancellable_requests.clone();
        options.observer = Some(Arc::<crate::server::traffic::Traffic>::clone(&core.traffic));
        let handler = Arc::new(ServerHandler(Arc::clone(&core)));
        let peer = Peer::spawn(stdout, stdin, handler, options, tracker);
        let head = LogHeader::new(&name, &core.root);
        let (log_id, ending) = (head.id(), Arc::<Ending>::default());
        let logged = LoggedServer {
            id: log_id.clone(),
            head,
            peer: peer.clone(),
            process: process.view(),
            traffic: Arc::clone(&core.traffic),
            ending: Arc::clone(&ending),
        };
        tracker.spawn(server_log::write_until_end(core.workspace.state().clone(), logged));
        let server = Arc::new(Self {
            peer,
            process,
            started: Instant::now(),
            usage: Usage::default(),
            abandoned: AbandonedRequests::default(),
            gate: Gate::default(),
            tracker: tracker.clone(),
            log_id,
            ending,
            core,
        });
        match server.initialize(variables, deadline).await {
            Ok(()) => Ok(server),
            Err(error) => {
                server.give_up("it did not start");
                server.process.end(deadlines::FAILED_PROGRAM).await;
                Err(error)
            }
        }
    }

    async fn initialize(&self, variables: &[(&str, String)], deadline: Duration) -> Result<()> {
        let core = &self.core;
        // The first package root, if one server serves several: the server would search the whole
        // root.
        let first = core.folders().first().unwrap_or(&core.root).clone();
        let uri = paths::path_to_uri(first.as_path());
        let mut params = json!({
            // In a sandbox the server does not see this process, and would exit.
            "processId": null,
            "clientInfo": {"name": "pilcrow", "version": env!("CARGO_PKG_VERSION")},
            "locale": "en",
            "rootPath": first.to_string(),
            "rootUri": uri,
            "capabilities": capabilities::client(core.requests, &core.definition.client_capabilities),
            "trace": "off",
            "workspaceFolders": core.workspace_folders(),
        });
        // The first scan runs before the server reads anything, so that it misses no change.
        self.poll_files(PollMode::First).await;
        let mut options = core.definition.initialization_options.clone();
        if let Some(watching) = core.definition.watch.initialization_options.clone()
            && !core.file_poller.is_cut()
        {
            merge(options.get_or_insert_with(|| json!({})), watching);
        }
        if let Some(options) = &options {
            params["initializationOptions"] = expand(options, variables);
        }
        let cancel = CancellationToken::new();
        let clock = Clock::new(deadline, &cancel);
        let result = self.peer.request("initialize", &params, deadline, &cancel).await;
        let raw = match result {
            Ok(raw) => raw,
            Err(error) => return Err(self.request_error(error, clock).await),
        };
        let result: Value = self.read("initialize", &raw)?;
        core.capabilities().initialized(result["capabilities"].clone());
        let sent = async {
            let room = self.peer.room().await?;
            room.notify("initialized", &json!({}))?;
            if core.definition.pull_settings {
                return Ok(());
            }
            let settings = core.settings_for(None);
            room.notify("workspace/didChangeConfiguration", &json!({"settings": settings}))
        };
        match sent.await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.crashed("initialized").await),
        }
    }

    pub fn name(&self) -> &str {
        &self.core.definition.name
    }

    pub fn is_running(&self) -> bool {
        self.peer.is_closed().is_none() && !self.ending.has_begun()
    }

    /// The reason why an answer may be incomplete; `None` once the project is loaded.
    pub fn note(&self) -> Option<Note> {
        let server = self.name().to_owned();
        if !self.core.loading.is_ready() {
            return Some(Note::Loading { server, detail: self.core.loading.describe() });
        }
        if self.core.file_poller.pending_reload().is_some() {
            return Some(Note::ReadingAgain { server });
        }
        if let Some(path) = self.core.deleted_files.unnoticed() {
            return Some(Note::DeletionUnnoticed { server, path });
        }
        if self.core.diagnostics.is_stuck() {
            return Some(Note::WorkUnfinished { server });
        }
        let message = self.core.loading.trouble()?.text;
        Some(Note::Reported { server, message })
    }

    /// A note that a file's package has another version of the language installed.
    ///
    /// Once for each package.
    pub(crate) fn version_note(&self, path: &AbsPath) -> Option<Note> {
        let other = self.core.language_version.other(path, self.core.workspace.root())?;
        let OtherVersion { used, installed, package } = other;
        Some(Note::OtherVersion { server: self.name().to_owned(), used, installed, package })
    }

    /// The server's progress, as it reports it.
    pub fn activity(&self) -> String {
        StartCause::Loading(self.core.loading.describe()).to_string()
    }

    /// Adds a package root; `false`: the server takes no more workspace folders.
    pub async fn include(&self, root: &AbsPath) -> bool {
        if self.core.folders().contains(root) {
            return true;
        }
        // Capabilities are known once the server runs; the room keeps the order with later requests.
        if !self.core.capabilities().takes_folders() {
            return false;
        }
        let Ok(room) = self.peer.room().await else { return true };
        let mut folders = self.core.folders();
        if !folders.contains(root) {
            let event = json!({"added": [crate::server::core::workspace_folder(root)], "removed": []});
            let sent = room.notify("workspace/didChangeWorkspaceFolders", &json!({"event": event}));
            if let Err(closed) = sent {
                tracing::debug!(server = self.name(), %closed, "a workspace folder was not added");
            }
            folders.push(root.clone());
            self.core.loading.restart();
        }
        true
    }

    /// Opens `document` and waits until the server has loaded.
    ///
    /// Returns whether it has loaded. Waits at most three quarters of the time.
    pub async fn wait_ready(&self, document: Option<&Document>, clock: Clock<'_>) -> Result<bool> {
        if let Some(document) = document {
            self.open(document, clock).await?;
        }
        self.core.loading.opened();
        tokio::select! {
            biased;
            () = clock.cancel.cancelled() => Err(ServerError::Cancelled),
            _ = self.peer.closed() => Err(self.crashed("loading").await),
            ready = self.core.loading.wait(clock.at(75)) => Ok(ready),
        }
    }

    /// Records that diagnostics of all files but these may be outdated by their change.
    pub(crate) fn record_changes<'a>(&self, paths: impl Iterator<Item = &'a AbsPath>) {
        let pushes = self.core.diagnostics.now().pushes;
        paths.for_each(|path| {
            self.core.diagnostics.record_change(path, pushes);
            if self.reads(path) {
                self.core.documents().changed(path);
            }
        });
    }

    /// The error of a closed stream.
    ///
    /// Waits briefly for the process, for its last output.
    pub async fn crashed(&self, during: &str) -> ServerError {
        if tokio::time::timeout(deadlines::SERVER_EXIT, self.process.exited()).await.is_err() {
            tracing::debug!(server = self.name(), "the process runs on after its stream closed");
        }
        let stderr_tail = last_lines(&self.process.stderr_tail(), 20);
        let server = self.name().to_owned();
        ServerError::Crashed { server, during: during.to_owned(), stderr_tail }
    }

    /// Closes its stream for this reason.
    pub fn give_up(&self, why: &'static str) {
        self.begin_end(why);
        self.peer.close(why);
    }

    /// Records the reason, unless the server ended by itself before.
    fn begin_end(&self, why: &'static str) {
        if self.peer.is_closed().is_none() {
            self.ending.begin(why);
        }
    }

    /// Sends `shutdown` and `exit`, then ends the process and its group.
    pub async fn shutdown(&self, deadline: Duration, why: &'static str) {
        self.begin_end(why);
        let polite = async {
            let cancel = CancellationToken::new();
            if let Err(error) = self.peer.request("shutdown", &(), deadline, &cancel).await {
                tracing::debug!(server = self.name(), %error, "no response to shutdown");
            }
            self.notify(&[("exit", Value::Null)]).await;
            self.peer.flush().await;
            self.process.exited().await
        };
        if tokio::time::timeout(deadline, polite).await.is_err() {
            tracing::debug!(server = self.name(), "it did not exit");
        }
        self.peer.close("it was shut down");
        self.process.end(deadlines::SERVER).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.begin_end("it was no longer needed");
    }
}

/// The last `count` lines of a text.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
