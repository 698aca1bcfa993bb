//! What is kept on disk of a server's life, for who asks after it has ended (`docs/formats/server-log.md`).
//!
//! Written while the server runs, in parts of which the oldest goes, so that something is there when Pilcrow is
//! killed, and little is left to write when it ends. Secrets are replaced. What must stay true: what cannot be
//! written costs the log and nothing else, and what a process still writes no other removes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use wire::{Direction, Peer};
use workspace::{AbsPath, Pieces, ProcessView, Redactor, StateDir, StateError, StateLock};

use crate::server::LAST_WORDS;
use crate::traffic::{Traffic, TrafficEntry};

/// In the workspace's state.
const FOLDER: &str = "servers";
const FORMAT: u32 = 1;
/// Bytes of a part of the messages, and of the error stream; there are two parts of each at most.
const MESSAGES: u64 = 256 * 1024;
const STDERR: u64 = 32 * 1024;
/// Bytes kept of one message.
const MESSAGE: usize = 8 * 1024;
/// Lives that are kept, of all servers of a workspace and of one; its last crash besides.
const KEPT: usize = 16;
const KEPT_OF_ONE: usize = 2;
/// What cannot be read goes when it is so old: another process may just begin it.
const UNREADABLE: Duration = Duration::from_secs(60);
/// The longest time between a message and its writing, and between looks at an error stream.
const SOON: Duration = Duration::from_secs(1);
const LATE: Duration = Duration::from_secs(10);

/// How a server ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerEnd {
    /// Unix time in milliseconds.
    pub at_ms: u64,
    /// It ended by itself.
    pub crashed: bool,
    /// For what it was ended, or what the system says of its end.
    pub why: String,
}

/// Who the server is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Head {
    format: u32,
    pub server: String,
    pub root: String,
    /// The process of Pilcrow.
    pub pid: u32,
    pub started_ms: u64,
}

/// What those who use a server, and who writes its life down, know of its end.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// Why we end it, set before it is told.
    ours: OnceLock<&'static str>,
    end: OnceLock<ServerEnd>,
}

impl Ending {
    /// It is ended for this, unless it was for something else before.
    pub fn begin(&self, why: &'static str) {
        self.ours.get_or_init(|| why);
    }

    pub fn has_begun(&self) -> bool {
        self.ours.get().is_some()
    }

    /// How it ended; of one that ended this moment, that it did.
    pub fn end(&self) -> ServerEnd {
        self.end.get().cloned().unwrap_or_else(|| self.now("its stream closed".to_owned()))
    }

    fn now(&self, otherwise: String) -> ServerEnd {
        let ours = self.ours.get().map(|why| (*why).to_owned());
        ServerEnd { at_ms: now_ms(), crashed: ours.is_none(), why: ours.unwrap_or(otherwise) }
    }
}

/// A server as who writes its life down sees it.
pub(crate) struct Seen {
    pub id: String,
    pub head: Head,
    pub peer: Peer,
    pub process: ProcessView,
    pub traffic: Arc<Traffic>,
    pub ending: Arc<Ending>,
}

impl Head {
    pub fn new(server: &str, root: &AbsPath) -> Self {
        let (pid, started_ms) = (std::process::id(), now_ms());
        Self { format: FORMAT, server: server.to_owned(), root: root.to_string(), pid, started_ms }
    }

    /// A name for the life that no other has; in order of time.
    pub fn id(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        format!("{:013}-{}-{}", self.started_ms, self.pid, NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Where a life is kept.
pub(crate) fn folder(state: &StateDir, id: &str) -> AbsPath {
    state.path().join(FOLDER).join(id)
}

/// Writes a server's life down, until it has ended and that is written too.
pub(crate) async fn keep(state: StateDir, seen: Seen) {
    let Seen { id, head, peer, process, traffic, ending } = seen;
    let server = head.server.clone();
    let view = process.clone();
    let ring = Arc::clone(&traffic);
    let open = tokio::task::spawn_blocking(move || Log::open(&state, &id, &head, view, ring));
    let mut log = told(&server, open.await.ok());
    let closed = loop {
        tokio::select! {
            biased;
            closed = peer.closed() => break closed,
            () = news(&traffic) => {}
        }
        log = written(&server, log, None).await;
    };
    let mut end = ending.now(closed.to_string());
    let status = tokio::time::timeout(LAST_WORDS, process.exited()).await;
    if let (Ok(status), true) = (status, end.crashed) {
        end.why = status.to_string();
    }
    let end = ending.end.get_or_init(|| end).clone();
    if end.crashed {
        tracing::warn!(server, why = end.why, "it crashed; `lsp logs` has its last messages");
    }
    drop(written(&server, log, Some(end)).await);
}

/// Ends some time after something came.
async fn news(traffic: &Traffic) {
    if tokio::time::timeout(LATE, traffic.news.notified()).await.is_ok() {
        tokio::time::sleep(SOON).await;
    }
}

async fn written(server: &str, log: Option<Log>, end: Option<ServerEnd>) -> Option<Log> {
    let mut log = log?;
    let write = tokio::task::spawn_blocking(move || log.write(end).map(|()| log));
    told(server, write.await.ok())
}

/// What cannot be written is said once.
fn told<T>(server: &str, result: Option<Result<T, StateError>>) -> Option<T> {
    match result? {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::warn!(server, %error, "its log cannot be kept");
            None
        }
    }
}

/// The files of one life, for who writes them.
struct Log {
    folder: StateDir,
    /// While it is held the life goes on.
    _lock: StateLock,
    redactor: Redactor,
    process: ProcessView,
    traffic: Arc<Traffic>,
    messages: Parts,
    stderr: Parts,
    known_messages: usize,
    known_stderr: u64,
    /// The beginning of a line.
    line: Vec<u8>,
    pieces: Pieces,
}

impl Log {
    fn open(
        state: &StateDir,
        id: &str,
        head: &Head,
        process: ProcessView,
        traffic: Arc<Traffic>,
    ) -> Result<Self, StateError> {
        let all = state.child(FOLDER)?;
        prune(&all);
        let folder = all.child(id)?;
        let lock = folder.lock("head", SOON)?;
        append(&folder, "head", head)?;
        Ok(Self {
            folder,
            _lock: lock,
            redactor: Redactor::from_env(),
            process,
            traffic,
            messages: Parts::new("messages", MESSAGES),
            stderr: Parts::new("stderr", STDERR),
            known_messages: 0,
            known_stderr: 0,
            line: Vec::new(),
            pieces: Pieces::default(),
        })
    }

    /// Writes what is new, and the end if it has come.
    fn write(&mut self, end: Option<ServerEnd>) -> Result<(), StateError> {
        let (entries, known) = self.traffic.since(self.known_messages);
        self.known_messages = known;
        let lines = entries.iter().map(|entry| {
            let mut line = Message::new(entry, &self.redactor).to_json();
            line.push('\n');
            line
        });
        self.messages.append(&self.folder, lines)?;
        let (bytes, known) = self.process.stderr_since(self.known_stderr);
        self.known_stderr = known;
        self.line.extend(bytes);
        let whole = match self.line.iter().rposition(|byte| *byte == b'\n') {
            _ if end.is_some() || self.line.len() > MESSAGE => self.line.len(),
            at => at.map_or(0, |at| at + 1),
        };
        let text: Vec<u8> = self.line.drain(..whole).collect();
        let mut text = self.pieces.push(&self.redactor, &String::from_utf8_lossy(&text)).into_owned();
        if end.is_some() {
            text.push_str(&self.pieces.finish(&self.redactor));
        }
        self.stderr.append(&self.folder, text.split_inclusive('\n').map(str::to_owned))?;
        match end {
            Some(end) => append(&self.folder, "head", &end),
            None => Ok(()),
        }
    }
}

/// Files that are written one after the other, of which the newest two are kept.
struct Parts {
    kind: &'static str,
    most: u64,
    part: u32,
    bytes: u64,
}

impl Parts {
    fn new(kind: &'static str, most: u64) -> Self {
        Self { kind, most, part: 1, bytes: 0 }
    }

    fn append(&mut self, folder: &StateDir, lines: impl Iterator<Item = String>) -> Result<(), StateError> {
        let mut ready = String::new();
        for line in lines {
            if self.bytes > 0 && self.bytes + line.len() as u64 > self.most {
                self.write(folder, &mut ready)?;
                self.part += 1;
                self.bytes = 0;
                if let Some(old) = self.part.checked_sub(2).filter(|old| *old > 0) {
                    folder.remove(&format!("{}.{old}", self.kind))?;
                }
            }
            self.bytes += line.len() as u64;
            ready.push_str(&line);
        }
        self.write(folder, &mut ready)
    }

    fn write(&self, folder: &StateDir, ready: &mut String) -> Result<(), StateError> {
        if ready.is_empty() {
            return Ok(());
        }
        folder.append(&format!("{}.{}", self.kind, self.part), ready.as_bytes(), false)?;
        ready.clear();
        Ok(())
    }

    /// What is kept, oldest first; a file that cannot be read is left out.
    fn read(folder: &StateDir, kind: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for name in Self::names(folder, kind) {
            bytes.extend(folder.read(&name).ok().flatten().unwrap_or_default());
        }
        bytes
    }

    fn names(folder: &StateDir, kind: &str) -> Vec<String> {
        let number = |name: &str| name.strip_prefix(kind)?.strip_prefix('.')?.parse::<u32>().ok();
        let mut names = folder.list().unwrap_or_default();
        names.retain(|name| number(name).is_some());
        names.sort_by_key(|name| number(name));
        names
    }
}

/// A message as it is kept.
#[derive(Serialize, Deserialize)]
struct Message {
    /// Milliseconds since the server was started.
    at_ms: u64,
    way: Way,
    body: String,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Way {
    Sent,
    Received,
    Skipped,
}

impl Message {
    fn new(entry: &TrafficEntry, redactor: &Redactor) -> Self {
        let mut body = redactor.redact(&entry.body).into_owned();
        if body.len() > MESSAGE {
            let bytes = body.len();
            body.truncate(body.floor_char_boundary(MESSAGE));
            body.push_str(&format!("… ({bytes} bytes)"));
        }
        let way = match entry.direction {
            Some(Direction::Sent) => Way::Sent,
            Some(Direction::Received) => Way::Received,
            None => Way::Skipped,
        };
        Self { at_ms: u64::try_from(entry.at.as_millis()).unwrap_or(u64::MAX), way, body }
    }

    fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers can be written")
    }

    fn entry(self) -> TrafficEntry {
        let direction = match self.way {
            Way::Sent => Some(Direction::Sent),
            Way::Received => Some(Direction::Received),
            Way::Skipped => None,
        };
        TrafficEntry { at: Duration::from_millis(self.at_ms), direction, body: self.body }
    }
}

/// A life that is kept.
pub(crate) struct Kept {
    pub id: String,
    pub folder: StateDir,
    pub head: Head,
    pub end: Option<ServerEnd>,
}

impl Kept {
    /// All of a workspace, newest first. Blocking.
    pub fn all(state: &StateDir) -> Vec<Self> {
        let Ok(folder) = state.child(FOLDER) else { return Vec::new() };
        let mut names = folder.list().unwrap_or_default();
        names.reverse();
        names.into_iter().filter_map(|name| Self::read(&folder, name)).collect()
    }

    fn read(all: &StateDir, id: String) -> Option<Self> {
        let folder = all.child(&id).ok()?;
        let bytes = folder.read("head").ok().flatten()?;
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let head: Head =
            serde_json::from_slice(lines.next()?).ok().filter(|it: &Head| it.format == FORMAT)?;
        let end = lines.next().and_then(|line| serde_json::from_slice(line).ok());
        Some(Self { id, folder, head, end })
    }

    /// Whether it is written no more; of one without an end, that whoever wrote it is gone. Blocking.
    pub fn is_over(&self) -> bool {
        self.end.is_some() || !matches!(self.folder.try_lock("head"), Ok(None))
    }

    /// When something was written last, Unix time in milliseconds. Blocking.
    pub fn heard_ms(&self) -> u64 {
        let kinds = ["messages", "stderr"].into_iter();
        let files = kinds.flat_map(|kind| Parts::names(&self.folder, kind));
        files.filter_map(|name| Some(self.folder.stat(&name)?.0)).max().unwrap_or(self.head.started_ms)
    }

    /// The end of its error stream, and the last messages. Blocking.
    pub fn contents(&self) -> (String, Vec<TrafficEntry>) {
        let messages = Parts::read(&self.folder, "messages");
        let lines = messages.split(|byte| *byte == b'\n');
        // What was being written when its writer was killed is no message.
        let messages = lines.filter_map(|line| serde_json::from_slice::<Message>(line).ok());
        let stderr = String::from_utf8_lossy(&Parts::read(&self.folder, "stderr")).into_owned();
        (stderr, messages.map(Message::entry).collect())
    }
}

fn append(folder: &StateDir, name: &str, value: &impl Serialize) -> Result<(), StateError> {
    let mut line = serde_json::to_string(value).expect("texts and numbers can be written");
    line.push('\n');
    folder.append(name, line.as_bytes(), false)
}

/// Removes what is more than is kept, and what is no life.
fn prune(all: &StateDir) {
    let mut of_one: HashMap<(String, String), (usize, bool)> = HashMap::new();
    let mut kept = 0;
    let mut names = all.list().unwrap_or_default();
    names.reverse();
    for name in names {
        let remove = match Kept::read(all, name.clone()) {
            None => {
                let written = all.stat(&name).map_or(0, |(at, _)| at);
                now_ms().saturating_sub(written) > UNREADABLE.as_millis() as u64
            }
            Some(life) => {
                let crashed = life.end.as_ref().is_some_and(|end| end.crashed);
                let (lives, crash) =
                    of_one.entry((life.head.server.clone(), life.head.root.clone())).or_default();
                let wanted = kept < KEPT && (*lives < KEPT_OF_ONE || crashed && !*crash);
                *lives += 1;
                *crash |= crashed;
                kept += usize::from(wanted);
                !wanted && life.is_over()
            }
        };
        if remove && let Err(error) = all.remove_tree(&name) {
            tracing::debug!(%error, "an old log of a server stays");
        }
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files of their own")]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn state() -> (tempfile::TempDir, StateDir) {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(AbsPath::new(temp.path()).unwrap());
        (temp, state)
    }

    /// A life of `server`, the `number`th.
    fn life(state: &StateDir, server: &str, number: u64, end: Option<bool>) -> (String, StateDir) {
        let root = AbsPath::new("/project").unwrap();
        let head = Head { started_ms: number, ..Head::new(server, &root) };
        let id = head.id();
        let folder = state.child(FOLDER).unwrap().child(&id).unwrap();
        append(&folder, "head", &head).unwrap();
        if let Some(crashed) = end {
            append(&folder, "head", &ServerEnd { at_ms: number, crashed, why: "so".to_owned() }).unwrap();
        }
        (id, folder)
    }

    fn numbers(state: &StateDir) -> Vec<u64> {
        Kept::all(state).iter().map(|life| life.head.started_ms).collect()
    }

    #[test]
    fn parts_are_bounded_and_the_newest_stay() {
        let (_temp, state) = state();
        let mut parts = Parts::new("messages", 100);
        for number in 0..100 {
            parts.append(&state, [format!("{number:09}\n"), "x\n".to_owned()].into_iter()).unwrap();
        }
        let text = String::from_utf8(Parts::read(&state, "messages")).unwrap();
        assert!((100..=200).contains(&text.len()) && text.ends_with("000000099\nx\n"), "{text}");
        assert_eq!(Parts::names(&state, "messages").len(), 2);
        // A line that is longer than a part has one of its own.
        parts.append(&state, std::iter::once("y".repeat(300))).unwrap();
        assert!(Parts::read(&state, "messages").ends_with(&[b'y'; 300]));
        let file = state.path().join(&Parts::names(&state, "messages")[0]);
        assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn old_lives_go_but_those_that_go_on_and_the_last_crash() {
        let (_temp, state) = state();
        let all = state.child(FOLDER).unwrap();
        life(&state, "s", 1, Some(true));
        life(&state, "s", 2, Some(true));
        let (_, goes_on) = life(&state, "s", 3, None);
        let lock = goes_on.try_lock("head").unwrap().unwrap();
        life(&state, "s", 4, None);
        life(&state, "s", 5, Some(false));
        life(&state, "other", 6, Some(false));
        life(&state, "s", 7, Some(false));
        prune(&all);
        assert_eq!(numbers(&state), [7, 6, 5, 3, 2]);
        drop(lock);
        prune(&all);
        assert_eq!(numbers(&state), [7, 6, 5, 2]);
        for number in 0..30 {
            life(&state, &format!("s{number}"), 100 + number, Some(false));
        }
        prune(&all);
        assert_eq!(numbers(&state).len(), KEPT);
        assert_eq!(numbers(&state)[0], 129);
    }

    #[test]
    fn what_is_no_life_goes_when_it_is_old() {
        let (_temp, state) = state();
        let all = state.child(FOLDER).unwrap();
        all.append("crash-old.log", b"", false).unwrap();
        all.append("new.log", b"", false).unwrap();
        let old = std::fs::File::options().write(true).open(all.path().join("crash-old.log")).unwrap();
        old.set_modified(SystemTime::now() - 2 * UNREADABLE).unwrap();
        prune(&all);
        assert_eq!(all.list().unwrap(), ["new.log"]);
        assert!(Kept::all(&state).is_empty());
    }

    #[test]
    fn a_life_without_an_end_goes_on_or_is_lost() {
        let (_temp, state) = state();
        let (_, folder) = life(&state, "s", 1, None);
        let lock = folder.try_lock("head").unwrap();
        assert!(!Kept::all(&state)[0].is_over());
        drop(lock);
        assert!(Kept::all(&state)[0].is_over());
        folder
            .append("messages.1", b"{\"at_ms\":1500,\"way\":\"sent\",\"body\":\"{}\"}\n{\"at_ms", false)
            .unwrap();
        let (_, messages) = Kept::all(&state)[0].contents();
        assert_eq!(messages.iter().map(ToString::to_string).collect::<Vec<_>>(), ["    1.500 s → {}"]);
    }
}
