//! A scripted language client: an editor with buffers and a typing user.
//!
//! It mimics the observed behaviour of Neovim 0.11 and VS Code ([`Personality`]), and misbehaves on
//! demand ([`Fault`]). It runs over any pair of streams, so it drives the real program too. Tests
//! compare with its buffers.

mod buffers;
mod script;

pub use buffers::Buffer;
pub use script::{Fault, Personality, Typed, VersionCheck};

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use buffers::EditorState;
use parking_lot::{Mutex, MutexGuard};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use text::PositionEncoding;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::{Handler, IncomingRequest, Peer, PeerOptions, RpcError};

/// A connected editor. Cheap to clone.
#[derive(Clone)]
pub struct Editor {
    peer: Peer,
    state: Arc<Mutex<EditorState>>,
    events: watch::Sender<u64>,
    tracker: TaskTracker,
    late: watch::Sender<bool>,
}

struct Receiver {
    state: Arc<Mutex<EditorState>>,
    events: watch::Sender<u64>,
    tracker: TaskTracker,
    late: watch::Sender<bool>,
}

const DEADLINE: Duration = Duration::from_secs(20);

impl Editor {
    /// Connects an editor to a language server over streams. Needs a runtime.
    pub fn connect(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        personality: Personality,
    ) -> Self {
        let state = Arc::new(Mutex::new(EditorState {
            personality,
            encoding: PositionEncoding::Utf16,
            buffers: BTreeMap::new(),
            faults: VecDeque::new(),
            answers: BTreeMap::new(),
            got: Vec::new(),
            withheld: false,
            dice: 1,
        }));
        let (events, late) = (watch::channel(0).0, watch::channel(false).0);
        let tracker = TaskTracker::new();
        let receiver = Receiver {
            state: Arc::clone(&state),
            events: events.clone(),
            tracker: tracker.clone(),
            late: late.clone(),
        };
        // No observed editor cancels an edit.
        let options = PeerOptions { cancel_method: None, ..PeerOptions::new("scripted editor") };
        let peer = Peer::spawn(reader, writer, Arc::new(receiver), options, &tracker);
        Self { peer, state, events, tracker, late }
    }

    /// The connection, for requests without a method here.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The parameters that this editor sends with `initialize`.
    pub fn initialize_params(&self, roots: &[&Path]) -> Value {
        let Personality { name, encodings, operations, .. } = self.state().personality.clone();
        let workspace_folders: Vec<Value> =
            roots.iter().map(|root| json!({ "uri": paths::path_to_uri(root), "name": "root" })).collect();
        json!({
            "processId": std::process::id(),
            "clientInfo": { "name": name, "version": "1.0" },
            "rootUri": roots.first().map(|root| paths::path_to_uri(root)),
            "workspaceFolders": workspace_folders,
            "capabilities": {
                "general": { "positionEncodings": encodings },
                "window": { "workDoneProgress": true, "showDocument": { "support": true } },
                "workspace": {
                    "applyEdit": true,
                    "workspaceFolders": true,
                    "configuration": true,
                    "workspaceEdit": { "documentChanges": true, "resourceOperations": operations },
                },
            },
        })
    }

    /// Sends `initialize` and `initialized`, and adopts the negotiated encoding.
    ///
    /// Returns the server's response.
    ///
    /// # Panics
    /// If the server does not respond.
    pub async fn initialize(&self, roots: &[&Path]) -> Value {
        let params = self.initialize_params(roots);
        let answer = self.request("initialize", params).await;
        self.agree(answer["capabilities"]["positionEncoding"].as_str().unwrap_or("utf-16"));
        self.notify("initialized", json!({})).await;
        answer
    }

    /// Sets the encoding of positions.
    pub fn agree(&self, encoding: &str) {
        self.state().encoding = match encoding {
            "utf-8" => PositionEncoding::Utf8,
            "utf-32" => PositionEncoding::Utf32,
            _ => PositionEncoding::Utf16,
        };
    }

    /// Sends a request.
    ///
    /// # Panics
    /// If the server does not respond, or with an error.
    pub async fn request(&self, method: &str, params: Value) -> Value {
        let never = CancellationToken::new();
        let answer = self.peer.request(method, &params, DEADLINE, &never).await;
        let raw = answer.unwrap_or_else(|error| panic!("{error}"));
        serde_json::from_str(raw.get()).expect("an answer is JSON")
    }

    pub async fn notify(&self, method: &str, params: Value) {
        self.peer.notify(method, &params).await.expect("the server is there");
    }

    /// Opens a document under this spelling of its URI.
    pub async fn open(&self, uri: &str, language_id: &str, text: &str) {
        let params = {
            let mut state = self.state();
            let version = state.personality.first_version;
            let buffer = Buffer {
                text: text.to_owned(),
                version,
                language_id: language_id.to_owned(),
                edits: 0,
                pending: Vec::new(),
            };
            state.buffers.insert(uri.to_owned(), buffer);
            let item = json!({ "uri": uri, "languageId": language_id, "version": version, "text": text });
            json!({ "textDocument": item })
        };
        self.notify("textDocument/didOpen", params).await;
    }

    /// Opens a file with its text on disk; returns the URI.
    ///
    /// # Panics
    /// If it cannot be read.
    pub async fn open_file(&self, path: &Path, language_id: &str) -> String {
        let text = std::fs::read_to_string(path).expect("the file is there");
        let uri = paths::path_to_uri(path);
        self.open(&uri, language_id, text.strip_prefix('\u{feff}').unwrap_or(&text)).await;
        uri
    }

    /// Types: replaces bytes of the current buffer.
    ///
    /// # Panics
    /// If the document is not open or the range is outside of it.
    pub async fn type_in(&self, uri: &str, range: Range<usize>, text: &str) {
        self.state().change(uri, range, text);
        self.notify_changes().await;
    }

    /// Types after the first occurrence of `anchor`.
    ///
    /// # Panics
    /// If there is none.
    pub async fn type_after(&self, uri: &str, anchor: &str, text: &str) {
        let at = {
            let found = self.text(uri).find(anchor).map(|at| at + anchor.len());
            found.unwrap_or_else(|| panic!("{anchor:?} is not in {uri}"))
        };
        self.type_in(uri, at..at, text).await;
    }

    /// Withholds change notifications, whatever the debounce, until [`Editor::flush`].
    pub fn withhold(&self) {
        self.state().withheld = true;
    }

    /// Sends all withheld changes, each document in one notification.
    pub async fn flush(&self) {
        self.state().withheld = false;
        send_changes(&self.state, &self.peer).await;
    }

    /// Writes the buffer to its file and notifies the server.
    ///
    /// # Panics
    /// If that fails.
    pub async fn save(&self, uri: &str) {
        send_changes(&self.state, &self.peer).await;
        let path = path(uri);
        let had_bom = std::fs::read(&path).is_ok_and(|bytes| bytes.starts_with("\u{feff}".as_bytes()));
        let bom = if had_bom { "\u{feff}" } else { "" };
        std::fs::write(&path, format!("{bom}{}", self.text(uri))).expect("the file can be written");
        self.notify("textDocument/didSave", json!({ "textDocument": { "uri": uri } })).await;
    }

    /// Reads the file again as one change, like `:e!` and VS Code's revert.
    ///
    /// # Panics
    ///
    /// If the file cannot be read.
    pub async fn reload(&self, uri: &str) {
        let text = std::fs::read_to_string(path(uri)).expect("the file is there");
        let len = self.text(uri).len();
        self.type_in(uri, 0..len, &text).await;
    }

    pub async fn close(&self, uri: &str) {
        send_changes(&self.state, &self.peer).await;
        self.state().buffers.remove(uri);
        self.notify("textDocument/didClose", json!({ "textDocument": { "uri": uri } })).await;
    }

    /// Queues a fault for the next edit without one.
    pub fn fault(&self, fault: Fault) {
        self.state().faults.push_back(fault);
    }

    /// Number of queued faults.
    pub fn faults(&self) -> usize {
        self.state().faults.len()
    }

    /// Drops the queued faults.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// Responds to every edit that was received under [`Fault::Late`].
    pub fn release(&self) {
        self.late.send_replace(true);
    }

    /// Sets the response to a request of the server; the default is `null`.
    pub fn answer(&self, method: &str, answer: Value) {
        self.state().answers.insert(method.to_owned(), answer);
    }

    /// The text of a buffer.
    ///
    /// # Panics
    /// If it is not open.
    pub fn text(&self, uri: &str) -> String {
        self.buffer(uri).text
    }

    /// A copy of an open buffer.
    ///
    /// # Panics
    /// If it is not open.
    pub fn buffer(&self, uri: &str) -> Buffer {
        self.state().buffers.get(uri).unwrap_or_else(|| panic!("{uri} is not open")).clone()
    }

    /// The URIs of the open documents, as spelled when opened.
    pub fn open_uris(&self) -> Vec<String> {
        self.state().buffers.keys().cloned().collect()
    }

    /// Every message of the server so far: `{method, params}`.
    pub fn got(&self) -> Vec<Value> {
        self.state().got.clone()
    }

    /// The messages of one method.
    pub fn got_of(&self, method: &str) -> Vec<Value> {
        self.got().into_iter().filter(|message| message["method"] == method).collect()
    }

    /// Waits until a condition holds for the received messages.
    ///
    /// # Panics
    /// After 20 s.
    pub async fn until(&self, what: &str, mut holds: impl FnMut(&[Value]) -> bool) {
        let mut events = self.events.subscribe();
        let wait = async {
            while !{
                events.borrow_and_update();
                holds(&self.got())
            } {
                if events.changed().await.is_err() {
                    return;
                }
            }
        };
        if tokio::time::timeout(DEADLINE, wait).await.is_err() {
            panic!("timed out waiting for {what}; got {:#?}", self.got());
        }
    }

    /// Ends the connection like a crashing editor.
    pub fn die(&self) {
        self.peer.close("the editor crashed");
    }

    async fn notify_changes(&self) {
        let (debounce, withheld) = {
            let state = self.state();
            (state.personality.debounce, state.withheld)
        };
        if withheld {
            return;
        }
        if debounce.is_zero() {
            send_changes(&self.state, &self.peer).await;
        } else {
            send_changes_later(&self.state, &self.peer, &self.tracker, debounce);
        }
    }

    fn state(&self) -> MutexGuard<'_, EditorState> {
        self.state.lock()
    }
}

impl Handler for Receiver {
    fn notification(&self, _: &Peer, method: &str, params: Option<&RawValue>) {
        let params: Value = params.map_or(Value::Null, parse);
        self.state.lock().got.push(json!({ "method": method, "params": params }));
        self.events.send_modify(|count| *count += 1);
    }

    fn request(
        &self,
        peer: &Peer,
        request: IncomingRequest,
    ) -> futures::BoxFuture<Result<Box<RawValue>, RpcError>> {
        let params: Value = request.params.as_deref().map_or(Value::Null, parse);
        let mut state = self.state.lock();
        state.got.push(json!({ "method": request.method, "params": params }));
        self.events.send_modify(|count| *count += 1);
        if request.method != "workspace/applyEdit" {
            let answer = state.answers.get(&request.method).cloned().unwrap_or(Value::Null);
            return Box::pin(std::future::ready(Ok(raw(&answer))));
        }
        if let Some(Fault::Held { answered }) = state.faults.front().cloned() {
            state.faults.pop_front();
            drop(state);
            return self.apply_later(peer, params, answered);
        }
        let (applied, late) = state.apply_edit(&params["edit"]);
        let (debounce, withheld) = (state.personality.debounce, state.withheld);
        drop(state);
        let (peer, state, mut released) = (peer.clone(), Arc::clone(&self.state), self.late.subscribe());
        if !withheld && !debounce.is_zero() {
            send_changes_later(&state, &peer, &self.tracker, debounce);
        }
        Box::pin(async move {
            if !withheld && debounce.is_zero() {
                send_changes(&state, &peer).await;
            }
            if late && released.wait_for(|released| *released).await.is_err() {
                return std::future::pending().await;
            }
            match applied {
                Some(applied) => Ok(raw(&json!({ "applied": applied }))),
                None => std::future::pending().await,
            }
        })
    }
}

impl Receiver {
    fn apply_later(
        &self,
        peer: &Peer,
        params: Value,
        answered: bool,
    ) -> futures::BoxFuture<Result<Box<RawValue>, RpcError>> {
        let (peer, state, mut released) = (peer.clone(), Arc::clone(&self.state), self.late.subscribe());
        Box::pin(async move {
            if released.wait_for(|released| *released).await.is_err() {
                return std::future::pending().await;
            }
            let applied = state.lock().apply_edit(&params["edit"]).0;
            send_changes(&state, &peer).await;
            match applied.filter(|_| answered) {
                Some(applied) => Ok(raw(&json!({ "applied": applied }))),
                None => std::future::pending().await,
            }
        })
    }
}

/// Futures that [`Handler`] returns.
mod futures {
    pub type BoxFuture<T> = std::pin::Pin<Box<dyn Future<Output = T> + Send>>;
}

/// Sends pending changes, each document in one notification.
async fn send_changes(state: &Arc<Mutex<EditorState>>, peer: &Peer) {
    let Ok(room) = peer.room().await else { return };
    let mut state = state.lock();
    let whole = state.personality.whole;
    let mut gone = Vec::new();
    let send = |method: &str, params: Value| {
        if room.notify(method, &params).is_err() {
            // The server has ended; a test that depends on that checks for it.
        }
    };
    // `didClose` comes before `didOpen`, whatever the names.
    for (uri, buffer) in &mut state.buffers {
        if buffer.pending.first() == Some(&json!("closed")) {
            send("textDocument/didClose", json!({ "textDocument": { "uri": uri } }));
            gone.push(uri.clone());
        }
    }
    for uri in gone {
        state.buffers.remove(&uri);
    }
    for (uri, buffer) in &mut state.buffers {
        let pending = std::mem::take(&mut buffer.pending);
        if pending.first() == Some(&json!("opened")) {
            let item = json!({
                "uri": uri, "languageId": buffer.language_id, "version": buffer.version, "text": buffer.text,
            });
            send("textDocument/didOpen", json!({ "textDocument": item }));
        } else if !pending.is_empty() {
            let changes = if whole { vec![json!({ "text": buffer.text })] } else { pending };
            let id = json!({ "uri": uri, "version": buffer.version });
            send("textDocument/didChange", json!({ "textDocument": id, "contentChanges": changes }));
        }
    }
}

fn send_changes_later(
    state: &Arc<Mutex<EditorState>>,
    peer: &Peer,
    tracker: &TaskTracker,
    debounce: Duration,
) {
    let (state, peer) = (Arc::clone(state), peer.clone());
    tracker.spawn(async move {
        tokio::time::sleep(debounce).await;
        if !state.lock().withheld {
            send_changes(&state, &peer).await;
        }
    });
}

fn path(uri: &str) -> PathBuf {
    paths::uri_to_path(uri).unwrap_or_else(|| panic!("{uri} is not a file URI"))
}

fn parse(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).expect("the message is JSON")
}

fn raw(value: &Value) -> Box<RawValue> {
    wire::raw(value).expect("a value is JSON")
}
