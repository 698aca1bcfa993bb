//! Logs of servers on the disk, for use after they have ended.
//!
//! `docs/formats/server-log.md` has the format. A task writes the log while the server runs, in rotated files, so
//! that a log exists after Pilcrow is killed, and little is left to write at the end. Secrets are redacted.
//!
//! Invariants: a log that cannot be written affects nothing else, and no other process removes a log that is
//! being written.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use paths::{AbsPath, StateDir, StateError, StateLock};
use policy::{Pieces, Redactor};
use process::ProcessView;
use process::deadlines;
use serde::{Deserialize, Serialize};
use wire::Peer;

use crate::server::traffic::{Traffic, TrafficEntry};

/// Directory of the logs in the workspace's state.
const DIRECTORY: &str = "servers";
const FORMAT: u32 = 1;
/// Maximum bytes of a file of messages; the newest two are kept, as of stderr.
const MESSAGES: u64 = 256 * 1024;
const STDERR: u64 = 32 * 1024;
/// Maximum number of bytes stored of one message.
const MESSAGE: usize = 8 * 1024;
/// Maximum number of logs of a workspace and of one server, plus the last crash.
const MAX_LOGS: usize = 16;
const MAX_LOGS_OF_SERVER: usize = 2;
/// Age at which an unreadable log is removed.
///
/// Another process may still be creating a newer one.
const UNREADABLE: Duration = Duration::from_secs(60);
/// Maximum delay of writing a message, and between reads of standard error.
const WRITE_DELAY: Duration = Duration::from_secs(1);
const IDLE_DELAY: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerEnd {
    /// Unix time in milliseconds.
    pub at_ms: u64,
    /// The server ended by itself.
    pub crashed: bool,
    /// The reason, or what the system reports.
    pub why: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LogHeader {
    format: u32,
    pub server: String,
    pub root: String,
    /// The process id of Pilcrow.
    pub pid: u32,
    pub started_ms: u64,
}

/// The end of a server, shared by its users and its log.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// The reason why Pilcrow ends the server, set before `shutdown` is sent.
    reason: OnceLock<&'static str>,
    end: OnceLock<ServerEnd>,
}

impl Ending {
    /// Sets the reason, unless there was one before.
    pub fn begin(&self, why: &'static str) {
        self.reason.get_or_init(|| why);
    }

    pub fn has_begun(&self) -> bool {
        self.reason.get().is_some()
    }

    /// The server's end.
    ///
    /// A server without a known end counts as ended now.
    pub fn end(&self) -> ServerEnd {
        self.end.get().cloned().unwrap_or_else(|| self.now("its stream closed".to_owned()))
    }

    fn now(&self, otherwise: String) -> ServerEnd {
        let reason = self.reason.get().map(|why| (*why).to_owned());
        ServerEnd { at_ms: now_ms(), crashed: reason.is_none(), why: reason.unwrap_or(otherwise) }
    }
}

/// The data about a server that its log stores.
pub(crate) struct LoggedServer {
    pub id: String,
    pub head: LogHeader,
    pub peer: Peer,
    pub process: ProcessView,
    pub traffic: Arc<Traffic>,
    pub ending: Arc<Ending>,
}

impl LogHeader {
    pub fn new(server: &str, root: &AbsPath) -> Self {
        let (pid, started_ms) = (std::process::id(), now_ms());
        Self { format: FORMAT, server: server.to_owned(), root: root.to_string(), pid, started_ms }
    }

    /// Unique id of the log, in order of time.
    pub fn id(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        format!("{:013}-{}-{}", self.started_ms, self.pid, NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The directory of a log.
pub(crate) fn directory(state: &StateDir, id: &str) -> AbsPath {
    state.path().join(DIRECTORY).join(id)
}

/// Writes the log of a server until the server's end is written.
pub(crate) async fn write_until_end(state: StateDir, logged: LoggedServer) {
    let LoggedServer { id, head, peer, process, traffic, ending } = logged;
    let server = head.server.clone();
    let view = process.clone();
    let ring = Arc::clone(&traffic);
    let open = tokio::task::spawn_blocking(move || Log::open(&state, &id, &head, view, ring));
    let mut log = warned(&server, open.await.ok());
    let closed = loop {
        tokio::select! {
            biased;
            closed = peer.closed() => break closed,
            () = wait_for_message(&traffic) => {}
        }
        log = written(&server, log, None).await;
    };
    let mut end = ending.now(closed.to_string());
    let status = tokio::time::timeout(deadlines::SERVER_EXIT, process.exited()).await;
    if let (Ok(status), true) = (status, end.crashed) {
        end.why = status.to_string();
    }
    let end = ending.end.get_or_init(|| end).clone();
    if end.crashed {
        tracing::warn!(server, why = end.why, "the server crashed; `lsp logs` shows its last messages");
    }
    drop(written(&server, log, Some(end)).await);
}

/// Completes some time after a message arrived.
async fn wait_for_message(traffic: &Traffic) {
    if tokio::time::timeout(IDLE_DELAY, traffic.news.notified()).await.is_ok() {
        tokio::time::sleep(WRITE_DELAY).await;
    }
}

async fn written(server: &str, log: Option<Log>, end: Option<ServerEnd>) -> Option<Log> {
    let mut log = log?;
    let write = tokio::task::spawn_blocking(move || log.write(end).map(|()| log));
    warned(server, write.await.ok())
}

/// Reports an unwritable log once.
fn warned<T>(server: &str, result: Option<Result<T, StateError>>) -> Option<T> {
    match result? {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::warn!(server, %error, "its log cannot be written");
            None
        }
    }
}

/// The files of one log, for its writer.
struct Log {
    directory: StateDir,
    /// Held while the log is being written.
    _lock: StateLock,
    redactor: Redactor,
    process: ProcessView,
    traffic: Arc<Traffic>,
    known_messages: usize,
    known_stderr: u64,
    pieces: Pieces,
}

impl Log {
    fn open(
        state: &StateDir,
        id: &str,
        head: &LogHeader,
        process: ProcessView,
        traffic: Arc<Traffic>,
    ) -> Result<Self, StateError> {
        let all = state.child(DIRECTORY)?;
        prune(&all);
        let directory = all.child(id)?;
        let lock = directory.lock("head", WRITE_DELAY)?;
        append(&directory, "head", head)?;
        Ok(Self {
            directory,
            _lock: lock,
            redactor: Redactor::from_env(),
            process,
            traffic,
            known_messages: 0,
            known_stderr: 0,
            pieces: Pieces::default(),
        })
    }

    /// Writes new messages, and the end if there is one.
    fn write(&mut self, end: Option<ServerEnd>) -> Result<(), StateError> {
        let (entries, known) = self.traffic.since(self.known_messages);
        self.known_messages = known;
        let mut lines = String::new();
        for (number, entry) in entries.iter().enumerate() {
            lines.push_str(&self.line(entry));
            if lines.len() > MESSAGE || number + 1 == entries.len() {
                self.directory.append_rotated("messages", lines.as_bytes(), MESSAGES)?;
                lines.clear();
            }
        }
        let (bytes, known) = self.process.stderr_since(self.known_stderr);
        self.known_stderr = known;
        let mut text = self.pieces.push(&self.redactor, &String::from_utf8_lossy(&bytes)).into_owned();
        if end.is_some() {
            text.push_str(&self.pieces.finish(&self.redactor));
        }
        if !text.is_empty() {
            self.directory.append_rotated("stderr", text.as_bytes(), STDERR)?;
        }
        match end {
            Some(end) => append(&self.directory, "head", &end),
            None => Ok(()),
        }
    }

    /// A message, redacted and cut.
    fn line(&self, entry: &TrafficEntry) -> String {
        let mut body = self.redactor.redact(&entry.body).into_owned();
        if body.len() > MESSAGE {
            let bytes = body.len();
            body.truncate(body.floor_char_boundary(MESSAGE));
            body.push_str(&format!("… ({bytes} bytes)"));
        }
        json_line(&TrafficEntry { body, ..*entry })
    }
}

pub(crate) struct StoredLog {
    pub id: String,
    pub directory: StateDir,
    pub head: LogHeader,
    pub end: Option<ServerEnd>,
}

impl StoredLog {
    /// All logs of a workspace, newest first. Blocking.
    pub fn all(state: &StateDir) -> Vec<Self> {
        let Ok(directory) = state.child(DIRECTORY) else { return Vec::new() };
        let mut names = directory.list().unwrap_or_default();
        names.reverse();
        names.into_iter().filter_map(|name| Self::read(&directory, name)).collect()
    }

    fn read(all: &StateDir, id: String) -> Option<Self> {
        let directory = all.child(&id).ok()?;
        let bytes = directory.read("head").ok().flatten()?;
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let head: LogHeader =
            serde_json::from_slice(lines.next()?).ok().filter(|it: &LogHeader| it.format == FORMAT)?;
        let end = lines.next().and_then(|line| serde_json::from_slice(line).ok());
        Some(Self { id, directory, head, end })
    }

    /// Whether the log has an end, or the process that wrote it is gone. Blocks.
    pub fn is_over(&self) -> bool {
        self.end.is_some() || !matches!(self.directory.try_lock("head"), Ok(None))
    }

    /// Time of the last write, Unix time in milliseconds. Blocks.
    pub fn last_write_ms(&self) -> u64 {
        let files = ["messages", "stderr"].into_iter();
        files.filter_map(|name| Some(self.directory.stat(name)?.0)).max().unwrap_or(self.head.started_ms)
    }

    /// The end of standard error, and the last messages. Blocking.
    pub fn contents(&self) -> (String, Vec<TrafficEntry>) {
        let read = |name: &str| self.directory.read_rotated(name).unwrap_or_default();
        // A message that was being written when the writer was killed is skipped.
        let messages =
            read("messages").split(|byte| *byte == b'\n').flat_map(serde_json::from_slice).collect();
        (String::from_utf8_lossy(&read("stderr")).into_owned(), messages)
    }
}

fn json_line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts and numbers can be written") + "\n"
}

fn append(directory: &StateDir, name: &str, value: &impl Serialize) -> Result<(), StateError> {
    directory.append(name, json_line(value).as_bytes(), false)
}

/// Removes logs beyond the limits, and directories that are not logs.
fn prune(all: &StateDir) {
    let mut of_one: HashMap<(String, String), (usize, bool)> = HashMap::new();
    let mut kept = 0;
    let mut names = all.list().unwrap_or_default();
    names.reverse();
    for name in names {
        let remove = match StoredLog::read(all, name.clone()) {
            None => {
                let written = all.stat(&name).map_or(0, |(at, _)| at);
                now_ms().saturating_sub(written) > UNREADABLE.as_millis() as u64
            }
            Some(log) => {
                let crashed = log.end.as_ref().is_some_and(|end| end.crashed);
                let (logs, crash) =
                    of_one.entry((log.head.server.clone(), log.head.root.clone())).or_default();
                let wanted = kept < MAX_LOGS && (*logs < MAX_LOGS_OF_SERVER || crashed && !*crash);
                *logs += 1;
                *crash |= crashed;
                kept += usize::from(wanted);
                !wanted && log.is_over()
            }
        };
        if remove && let Err(error) = all.remove_tree(&name) {
            tracing::debug!(%error, "an old server log was not removed");
        }
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write their own files")]
mod tests {
    use super::*;

    fn state() -> (tempfile::TempDir, StateDir) {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(AbsPath::new(temp.path()).unwrap());
        (temp, state)
    }

    /// The `number`th log of `server`.
    fn log(state: &StateDir, server: &str, number: u64, end: Option<bool>) -> (String, StateDir) {
        let root = AbsPath::new("/project").unwrap();
        let head = LogHeader { started_ms: number, ..LogHeader::new(server, &root) };
        let id = head.id();
        let directory = state.child(DIRECTORY).unwrap().child(&id).unwrap();
        append(&directory, "head", &head).unwrap();
        if let Some(crashed) = end {
            append(&directory, "head", &ServerEnd { at_ms: number, crashed, why: "so".to_owned() }).unwrap();
        }
        (id, directory)
    }

    fn numbers(state: &StateDir) -> Vec<u64> {
        StoredLog::all(state).iter().map(|log| log.head.started_ms).collect()
    }

    #[test]
    fn old_logs_are_removed_except_running_and_last_crash() {
        let (_temp, state) = state();
        let all = state.child(DIRECTORY).unwrap();
        log(&state, "s", 1, Some(true));
        log(&state, "s", 2, Some(true));
        let (_, running) = log(&state, "s", 3, None);
        let lock = running.try_lock("head").unwrap().unwrap();
        log(&state, "s", 4, None);
        log(&state, "s", 5, Some(false));
        log(&state, "other", 6, Some(false));
        log(&state, "s", 7, Some(false));
        prune(&all);
        assert_eq!(numbers(&state), [7, 6, 5, 3, 2]);
        drop(lock);
        prune(&all);
        assert_eq!(numbers(&state), [7, 6, 5, 2]);
        for number in 0..30 {
            log(&state, &format!("s{number}"), 100 + number, Some(false));
        }
        prune(&all);
        assert_eq!(numbers(&state).len(), MAX_LOGS);
        assert_eq!(numbers(&state)[0], 129);
    }

    #[test]
    fn old_directories_without_a_log_are_removed() {
        let (_temp, state) = state();
        let all = state.child(DIRECTORY).unwrap();
        all.append("crash-old.log", b"", false).unwrap();
        all.append("new.log", b"", false).unwrap();
        let old = std::fs::File::options().write(true).open(all.path().join("crash-old.log")).unwrap();
        old.set_modified(SystemTime::now() - 2 * UNREADABLE).unwrap();
        prune(&all);
        assert_eq!(all.list().unwrap(), ["new.log"]);
        assert!(StoredLog::all(&state).is_empty());
    }

    #[test]
    fn a_log_without_an_end_is_running_or_lost() {
        let (_temp, state) = state();
        let (_, directory) = log(&state, "s", 1, None);
        let lock = directory.try_lock("head").unwrap();
        assert!(!StoredLog::all(&state)[0].is_over());
        drop(lock);
        assert!(StoredLog::all(&state)[0].is_over());
        let messages = b"{\"at_ms\":1500,\"way\":\"sent\",\"body\":\"{}\"}\n{\"at_ms";
        directory.append("messages", messages, false).unwrap();
        let (_, messages) = StoredLog::all(&state)[0].contents();
        assert_eq!(messages.iter().map(ToString::to_string).collect::<Vec<_>>(), ["    1.500 s → {}"]);
    }
}
