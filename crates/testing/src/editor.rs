//! A language client under a test's control: an editor with buffers that a person types in.
//!
//! It does what Neovim 0.11 and VS Code were seen to do ([`Personality`]), and misbehaves on demand
//! ([`Fault`]). It talks over any pair of streams, so it drives the real program too. Its buffers
//! are the truth that a test compares with.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use text::{LineEnds, LineIndex, Position, PositionEncoding, TextEdit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::{Handler, IncomingRequest, Peer, PeerOptions, RpcError};

/// What an editor does about the version of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionCheck {
    /// Any other version than the buffer's: nothing is applied, `applied: false` (VS Code).
    Exact,
    /// A buffer that is newer: the edit is dropped and `applied: true` answered. Version 0 is not
    /// checked, and only the first document of an edit is (Neovim).
    DropStaleFirst,
    /// None: positions are taken literally.
    Never,
}

/// How an editor behaves when nothing goes wrong.
#[derive(Debug, Clone)]
pub struct Personality {
    /// `clientInfo.name`.
    pub name: &'static str,
    /// `general.positionEncodings`.
    pub encodings: &'static [&'static str],
    /// What ends a line.
    pub ends: LineEnds,
    /// The version of a document when it is opened.
    pub first_version: i32,
    /// Versions rise by 1 to this.
    pub jump: i32,
    /// Changes are told so much later, together; zero: at once, before the answer to an edit.
    pub debounce: Duration,
    /// Every change is told as the whole text.
    pub whole: bool,
    /// What is done about versions.
    pub check: VersionCheck,
    /// An edit is told in the smallest pieces.
    pub minimal: bool,
    /// File operations it offers.
    pub operations: &'static [&'static str],
}

impl Personality {
    /// Neovim 0.11.
    pub fn neovim() -> Self {
        Self {
            name: "Neovim",
            encodings: &["utf-8", "utf-16", "utf-32"],
            ends: LineEnds::Lf,
            first_version: 0,
            jump: 4,
            debounce: Duration::from_millis(20),
            whole: false,
            check: VersionCheck::DropStaleFirst,
            minimal: true,
            operations: &["rename", "create", "delete"],
        }
    }

    /// VS Code.
    pub fn vscode() -> Self {
        Self {
            name: "Visual Studio Code",
            encodings: &["utf-16"],
            ends: LineEnds::Any,
            first_version: 1,
            jump: 1,
            debounce: Duration::ZERO,
            whole: false,
            check: VersionCheck::Exact,
            minimal: false,
            operations: &["create", "rename", "delete"],
        }
    }

    /// A client that knows only utf-32 and looks at no version.
    pub fn careless() -> Self {
        Self {
            name: "careless",
            encodings: &["utf-32"],
            ends: LineEnds::Any,
            check: VersionCheck::Never,
            operations: &[],
            ..Self::vscode()
        }
    }

    /// A client that sends whole texts.
    pub fn whole() -> Self {
        Self { name: "whole", whole: true, encodings: &[], ..Self::vscode() }
    }
}

/// What the person types: bytes of the buffer at that moment, and what replaces them.
#[derive(Debug, Clone)]
pub struct Typed {
    /// The document.
    pub uri: String,
    /// What is replaced.
    pub range: Range<usize>,
    /// By what.
    pub text: String,
}

/// What goes wrong with one `workspace/applyEdit`.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Nothing: taken as it should be.
    Fine,
    /// `applied: true`, and nothing is done.
    Drop,
    /// `applied: false` without a reason, and nothing is done.
    Refuse,
    /// Every edit is made so many lines further down; past the end it is put at the end.
    Shift(u32),
    /// Only the first half of each document's edits is made; this is answered.
    Half {
        /// `applied`.
        applied: bool,
    },
    /// Made as it should be, or not at all, and never answered.
    Silent {
        /// Whether it is made.
        made: bool,
    },
    /// The person types, the edit is made at its literal positions, the person types on; all of it is
    /// told in one notification.
    Between {
        /// Before the edit, unknown to the server.
        before: Vec<Typed>,
        /// After it.
        after: Vec<Typed>,
        /// The edit moves with what was typed before, as a client with operational transforms has it.
        /// Else it is made at its literal positions.
        rebased: bool,
    },
    /// The person types just before the edit comes; versions are looked at as usual.
    TypedFirst(Vec<Typed>),
    /// Made as it should be, answered only when the test says so ([`Editor::release`]).
    Late,
    /// Neither made nor answered before the test says so ([`Editor::release`]).
    Held {
        /// Whether it is answered then.
        answered: bool,
    },
}

/// One buffer.
#[derive(Debug, Clone)]
pub struct Buffer {
    /// The text.
    pub text: String,
    /// Its version now.
    pub version: i32,
    /// `languageId`.
    pub language_id: String,
    /// Edits applied to it by the server.
    pub edits: usize,
    untold: Vec<Value>,
}

struct State {
    personality: Personality,
    encoding: PositionEncoding,
    buffers: BTreeMap<String, Buffer>,
    faults: VecDeque<Fault>,
    answers: BTreeMap<String, Value>,
    got: Vec<Value>,
    /// Nothing is told until the test says so.
    withheld: bool,
    /// For versions that jump, without chance.
    dice: u64,
}

/// A connected editor. Cheap to clone.
#[derive(Clone)]
pub struct Editor {
    peer: Peer,
    state: Arc<Mutex<State>>,
    events: watch::Sender<u64>,
    tracker: TaskTracker,
    late: watch::Sender<bool>,
}

struct Receiver {
    state: Arc<Mutex<State>>,
    events: watch::Sender<u64>,
    tracker: TaskTracker,
    late: watch::Sender<bool>,
}

const DEADLINE: Duration = Duration::from_secs(20);

impl Editor {
    /// An editor whose language server is at the other end of the streams. Needs a runtime.
    pub fn connect(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        personality: Personality,
    ) -> Self {
        let state = Arc::new(Mutex::new(State {
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
        // No editor seen stops an edit for that.
        let options = PeerOptions { cancel_method: None, ..PeerOptions::new("scripted editor") };
        let peer = Peer::spawn(reader, writer, Arc::new(receiver), options, &tracker);
        Self { peer, state, events, tracker, late }
    }

    /// The stream, for what this type has no method for.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The parameters that this editor sends with `initialize`.
    pub fn initialize_params(&self, roots: &[&Path]) -> Value {
        let Personality { name, encodings, operations, .. } = self.state().personality.clone();
        let folders: Vec<Value> =
            roots.iter().map(|root| json!({ "uri": workspace::path_to_uri(root), "name": "root" })).collect();
        json!({
            "processId": std::process::id(),
            "clientInfo": { "name": name, "version": "1.0" },
            "rootUri": roots.first().map(|root| workspace::path_to_uri(root)),
            "workspaceFolders": folders,
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

    /// Sends `initialize` and `initialized`, keeps the encoding that was agreed on, and gives the
    /// server's answer.
    ///
    /// # Panics
    /// When the server does not answer.
    pub async fn initialize(&self, roots: &[&Path]) -> Value {
        let params = self.initialize_params(roots);
        let answer = self.request("initialize", params).await;
        self.agree(answer["capabilities"]["positionEncoding"].as_str().unwrap_or("utf-16"));
        self.notify("initialized", json!({})).await;
        answer
    }

    /// Positions are counted so from now on.
    pub fn agree(&self, encoding: &str) {
        self.state().encoding = match encoding {
            "utf-8" => PositionEncoding::Utf8,
            "utf-32" => PositionEncoding::Utf32,
            _ => PositionEncoding::Utf16,
        };
    }

    /// Asks the server.
    ///
    /// # Panics
    /// When it does not answer, or with an error.
    pub async fn request(&self, method: &str, params: Value) -> Value {
        let never = CancellationToken::new();
        let answer = self.peer.request(method, &params, DEADLINE, &never).await;
        let raw = answer.unwrap_or_else(|error| panic!("{error}"));
        serde_json::from_str(raw.get()).expect("an answer is JSON")
    }

    /// Tells the server.
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
                untold: Vec::new(),
            };
            state.buffers.insert(uri.to_owned(), buffer);
            let item = json!({ "uri": uri, "languageId": language_id, "version": version, "text": text });
            json!({ "textDocument": item })
        };
        self.notify("textDocument/didOpen", params).await;
    }

    /// Opens a file with the text that the disk has; gives the URI.
    ///
    /// # Panics
    /// When it cannot be read.
    pub async fn open_file(&self, path: &Path, language_id: &str) -> String {
        let text = std::fs::read_to_string(path).expect("the file is there");
        let uri = workspace::path_to_uri(path);
        self.open(&uri, language_id, text.strip_prefix('\u{feff}').unwrap_or(&text)).await;
        uri
    }

    /// The person types: bytes of the buffer as it is, and what replaces them.
    ///
    /// # Panics
    /// When the document is not open or the range does not lie in it.
    pub async fn type_in(&self, uri: &str, range: Range<usize>, text: &str) {
        self.state().change(uri, range, text);
        self.told().await;
    }

    /// The person types behind the first occurrence of `anchor`.
    ///
    /// # Panics
    /// When there is none.
    pub async fn type_after(&self, uri: &str, anchor: &str, text: &str) {
        let at = {
            let found = self.text(uri).find(anchor).map(|at| at + anchor.len());
            found.unwrap_or_else(|| panic!("{anchor:?} is not in {uri}"))
        };
        self.type_in(uri, at..at, text).await;
    }

    /// Nothing is told from now on, whatever the debounce, until [`Editor::tell`].
    pub fn withhold(&self) {
        self.state().withheld = true;
    }

    /// Tells everything that was withheld, each document in one notification.
    pub async fn tell(&self) {
        self.state().withheld = false;
        tell(&self.state, &self.peer).await;
    }

    /// Writes the buffer to its file and says so.
    ///
    /// # Panics
    /// When that fails.
    pub async fn save(&self, uri: &str) {
        tell(&self.state, &self.peer).await;
        let path = path(uri);
        let had_bom = std::fs::read(&path).is_ok_and(|bytes| bytes.starts_with("\u{feff}".as_bytes()));
        let bom = if had_bom { "\u{feff}" } else { "" };
        std::fs::write(&path, format!("{bom}{}", self.text(uri))).expect("the file can be written");
        self.notify("textDocument/didSave", json!({ "textDocument": { "uri": uri } })).await;
    }

    /// Reads the file again, as `:e!` and VS Code's revert do: one change of everything.
    ///
    /// # Panics
    /// When the file cannot be read.
    pub async fn reload(&self, uri: &str) {
        let text = std::fs::read_to_string(path(uri)).expect("the file is there");
        let len = self.text(uri).len();
        self.type_in(uri, 0..len, &text).await;
    }

    /// Closes a document.
    pub async fn close(&self, uri: &str) {
        tell(&self.state, &self.peer).await;
        self.state().buffers.remove(uri);
        self.notify("textDocument/didClose", json!({ "textDocument": { "uri": uri } })).await;
    }

    /// The next edits go wrong so, one after the other.
    pub fn fault(&self, fault: Fault) {
        self.state().faults.push_back(fault);
    }

    /// How many faults are still to come.
    pub fn faults(&self) -> usize {
        self.state().faults.len()
    }

    /// Forgets the faults that did not come up.
    pub fn no_more_faults(&self) {
        self.state().faults.clear();
    }

    /// Answers every edit that came with [`Fault::Late`].
    pub fn release(&self) {
        self.late.send_replace(true);
    }

    /// What a request of the server is answered with; without this, `null`.
    pub fn answer(&self, method: &str, answer: Value) {
        self.state().answers.insert(method.to_owned(), answer);
    }

    /// A buffer's text.
    ///
    /// # Panics
    /// When it is not open.
    pub fn text(&self, uri: &str) -> String {
        self.buffer(uri).text
    }

    /// A buffer.
    ///
    /// # Panics
    /// When it is not open.
    pub fn buffer(&self, uri: &str) -> Buffer {
        self.state().buffers.get(uri).unwrap_or_else(|| panic!("{uri} is not open")).clone()
    }

    /// The spellings of the open documents.
    pub fn open_uris(&self) -> Vec<String> {
        self.state().buffers.keys().cloned().collect()
    }

    /// Every message of the server so far: `{method, params}`.
    pub fn got(&self) -> Vec<Value> {
        self.state().got.clone()
    }

    /// Those of one method.
    pub fn got_of(&self, method: &str) -> Vec<Value> {
        self.got().into_iter().filter(|message| message["method"] == method).collect()
    }

    /// Waits until the test's condition holds of what was received.
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
            panic!("waited in vain for {what}; got {:#?}", self.got());
        }
    }

    /// Ends the connection as a dying editor does.
    pub fn die(&self) {
        self.peer.close("the editor died");
    }

    async fn told(&self) {
        let (debounce, withheld) = {
            let state = self.state();
            (state.personality.debounce, state.withheld)
        };
        if withheld {
            return;
        }
        if debounce.is_zero() {
            tell(&self.state, &self.peer).await;
        } else {
            tell_later(&self.state, &self.peer, &self.tracker, debounce);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Handler for Receiver {
    fn notification(&self, _: &Peer, method: &str, params: Option<&RawValue>) {
        let params: Value = params.map_or(Value::Null, parse);
        lock(&self.state).got.push(json!({ "method": method, "params": params }));
        self.events.send_modify(|count| *count += 1);
    }

    fn request(
        &self,
        peer: &Peer,
        request: IncomingRequest,
    ) -> futures::BoxFuture<Result<Box<RawValue>, RpcError>> {
        let params: Value = request.params.as_deref().map_or(Value::Null, parse);
        let mut state = lock(&self.state);
        state.got.push(json!({ "method": request.method, "params": params }));
        self.events.send_modify(|count| *count += 1);
        if request.method != "workspace/applyEdit" {
            let answer = state.answers.get(&request.method).cloned().unwrap_or(Value::Null);
            return Box::pin(std::future::ready(Ok(raw(&answer))));
        }
        if let Some(Fault::Held { answered }) = state.faults.front().cloned() {
            state.faults.pop_front();
            drop(state);
            return self.take_later(peer, params, answered);
        }
        let (applied, late) = state.apply_edit(&params["edit"]);
        let (debounce, withheld) = (state.personality.debounce, state.withheld);
        drop(state);
        let (peer, state, mut released) = (peer.clone(), Arc::clone(&self.state), self.late.subscribe());
        if !withheld && !debounce.is_zero() {
            tell_later(&state, &peer, &self.tracker, debounce);
        }
        Box::pin(async move {
            if !withheld && debounce.is_zero() {
                tell(&state, &peer).await;
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
    fn take_later(
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
            let applied = lock(&state).apply_edit(&params["edit"]).0;
            tell(&state, &peer).await;
            match applied.filter(|_| answered) {
                Some(applied) => Ok(raw(&json!({ "applied": applied }))),
                None => std::future::pending().await,
            }
        })
    }
}

/// Futures as [`Handler`] wants them.
mod futures {
    pub type BoxFuture<T> = std::pin::Pin<Box<dyn Future<Output = T> + Send>>;
}

impl State {
    fn lines(&self, text: &str) -> LineIndex {
        let crlf = text.contains("\r\n") && text.matches('\n').count() == text.matches("\r\n").count();
        let ends = match self.personality.ends {
            LineEnds::Lf if crlf => LineEnds::CrLf,
            ends => ends,
        };
        LineIndex::with_ends(text, ends)
    }

    /// Changes a buffer and keeps in mind that it is to be told.
    fn change(&mut self, uri: &str, range: Range<usize>, new_text: &str) {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let jump = i32::try_from((self.dice >> 33) % self.personality.jump.max(1) as u64).unwrap_or(0) + 1;
        let before = self.buffers.get(uri).unwrap_or_else(|| panic!("{uri} is not open")).text.clone();
        if before[range.clone()] == *new_text {
            return;
        }
        let lines = self.lines(&before);
        let position = |offset: usize| {
            let Position { line, character } = lines.position(&before, offset, self.encoding);
            json!({ "line": line, "character": character })
        };
        let told = json!({
            "range": { "start": position(range.start), "end": position(range.end) },
            "text": new_text,
        });
        if let Some(buffer) = self.buffers.get_mut(uri) {
            buffer.text.replace_range(range, new_text);
            buffer.version += jump;
            buffer.untold.push(told);
        }
    }

    fn type_all(&mut self, typed: &[Typed]) {
        for Typed { uri, range, text } in typed {
            self.change(uri, range.clone(), text);
        }
    }

    /// What is answered, if anything is, and whether only when the test says so.
    fn apply_edit(&mut self, edit: &Value) -> (Option<bool>, bool) {
        let fault = self.faults.pop_front().unwrap_or(Fault::Fine);
        let changes = edit["documentChanges"].as_array().cloned().unwrap_or_default();
        match fault {
            Fault::Fine => (Some(self.take(&changes, &|_, edits| edits)), false),
            Fault::Late | Fault::Held { .. } => (Some(self.take(&changes, &|_, edits| edits)), true),
            Fault::Drop => (Some(true), false),
            Fault::Refuse => (Some(false), false),
            Fault::Silent { made } => {
                if made {
                    self.take(&changes, &|_, edits| edits);
                }
                (None, false)
            }
            Fault::Half { applied } => {
                self.take(&changes, &|_, mut edits| {
                    edits.truncate(edits.len().div_ceil(2));
                    edits
                });
                (Some(applied), false)
            }
            Fault::Shift(by) => {
                for change in &changes {
                    let uri = change["textDocument"]["uri"].as_str().unwrap_or_default();
                    let edits = change["edits"].as_array().cloned().unwrap_or_default();
                    self.make(uri, &edits, by);
                }
                (Some(true), false)
            }
            Fault::TypedFirst(typed) => {
                self.type_all(&typed);
                (Some(self.take(&changes, &|_, edits| edits)), false)
            }
            Fault::Between { before, after, rebased } => {
                for change in &changes {
                    let uri = change["textDocument"]["uri"].as_str().unwrap_or_default().to_owned();
                    let edits = change["edits"].as_array().cloned().unwrap_or_default();
                    let ours: Vec<Typed> = before.iter().filter(|typed| typed.uri == uri).cloned().collect();
                    let mut places = self.places(&uri, &edits, 0);
                    self.type_all(&ours);
                    if rebased {
                        for typed in &ours {
                            let step = [TextEdit::replace(typed.range.clone(), &typed.text)];
                            for place in &mut places {
                                let range = text::map_range(place.range.clone(), &step);
                                place.range = range.expect("a test types beside the edit");
                            }
                        }
                    } else {
                        places = self.places(&uri, &edits, 0);
                    }
                    self.make_places(&uri, places);
                    let later: Vec<Typed> = after.iter().filter(|typed| typed.uri == uri).cloned().collect();
                    self.type_all(&later);
                }
                (Some(true), false)
            }
        }
    }

    /// As the personality does it.
    fn take(&mut self, changes: &[Value], choose: &dyn Fn(&str, Vec<Value>) -> Vec<Value>) -> bool {
        let stale = |state: &Self, change: &Value, newer_only: bool| {
            let uri = change["textDocument"]["uri"].as_str().unwrap_or_default();
            let Some(buffer) = state.buffers.get(uri) else { return false };
            match change["textDocument"]["version"].as_i64() {
                None => false,
                Some(0) if newer_only => false,
                Some(version) if newer_only => i64::from(buffer.version) > version,
                Some(version) => i64::from(buffer.version) != version,
            }
        };
        if self.personality.check == VersionCheck::Exact
            && changes.iter().any(|change| stale(self, change, false))
        {
            return false;
        }
        for (index, change) in changes.iter().enumerate() {
            if let Some(kind) = change["kind"].as_str() {
                if !self.operate(kind, change) {
                    return false;
                }
                continue;
            }
            let check = self.personality.check == VersionCheck::DropStaleFirst && index == 0;
            if check && stale(self, change, true) {
                continue;
            }
            let uri = change["textDocument"]["uri"].as_str().unwrap_or_default();
            let edits = change["edits"].as_array().cloned().unwrap_or_default();
            self.make(uri, &choose(uri, edits), 0);
        }
        true
    }

    fn make(&mut self, uri: &str, edits: &[Value], shift: u32) {
        let places = self.places(uri, edits, shift);
        self.make_places(uri, places);
    }

    /// Where the edits go; what is past the end is put at the end, as editors do.
    fn places(&self, uri: &str, edits: &[Value], shift: u32) -> Vec<TextEdit> {
        let text = self.buffers.get(uri).unwrap_or_else(|| panic!("{uri} is not open")).text.clone();
        let lines = self.lines(&text);
        let place = |position: &Value| {
            let number = |name: &str| position[name].as_u64().unwrap_or_default() as u32;
            let position = Position { line: number("line") + shift, character: number("character") };
            if position.line as usize >= lines.line_count() {
                return text.len();
            }
            // Inside a character it is put before it.
            let before = |back| Position { character: position.character.saturating_sub(back), ..position };
            (0..4).find_map(|back| lines.offset(&text, before(back), self.encoding)).unwrap_or(text.len())
        };
        let eol = if text.contains("\r\n") { "\r\n" } else { "\n" };
        edits
            .iter()
            .map(|edit| {
                let new = edit["newText"].as_str().unwrap_or_default();
                // Editors give inserted lines the document's line ends.
                let new = new.replace("\r\n", "\n").replace('\r', "\n").replace('\n', eol);
                let (start, end) = (place(&edit["range"]["start"]), place(&edit["range"]["end"]));
                TextEdit::replace(start..end.max(start), new)
            })
            .collect()
    }

    /// From the last place to the first, in pieces where the personality does so.
    fn make_places(&mut self, uri: &str, places: Vec<TextEdit>) {
        let text = self.buffers.get(uri).map(|buffer| buffer.text.clone()).unwrap_or_default();
        let mut places = text::normalize(&text, &places).expect("edits fit and do not overlap");
        places.reverse();
        for place in places {
            if self.personality.minimal {
                let pieces = text::diff_edits(&text[place.range.clone()], &place.new_text);
                for piece in pieces.into_iter().rev() {
                    let at = place.range.start;
                    self.change(uri, at + piece.range.start..at + piece.range.end, &piece.new_text);
                }
            } else {
                self.change(uri, place.range, &place.new_text);
            }
        }
        if let Some(buffer) = self.buffers.get_mut(uri) {
            buffer.edits += 1;
        }
    }

    /// Renames and deletes on the disk and among the buffers; told by what closes and opens.
    fn operate(&mut self, kind: &str, change: &Value) -> bool {
        let uri = |name: &str| change[name].as_str().unwrap_or_default().to_owned();
        match kind {
            "create" => std::fs::File::create_new(path(&uri("uri"))).is_ok(),
            "delete" => {
                if let Some(buffer) = self.buffers.get_mut(&uri("uri")) {
                    buffer.untold = vec![json!("closed")];
                }
                std::fs::remove_file(path(&uri("uri"))).is_ok()
            }
            "rename" => {
                let (from, to) = (uri("oldUri"), uri("newUri"));
                let target = path(&to);
                if target.exists() {
                    return false;
                }
                if let Some(folder) = target.parent() {
                    std::fs::create_dir_all(folder).expect("a folder can be made");
                }
                let moved = std::fs::rename(path(&from), target).is_ok();
                if let Some(buffer) = self.buffers.get_mut(&from) {
                    let mut new = buffer.clone();
                    new.version = self.personality.first_version;
                    new.untold = vec![json!("opened")];
                    buffer.untold = vec![json!("closed")];
                    self.buffers.insert(to, new);
                }
                moved
            }
            _ => false,
        }
    }
}

/// Tells what was not told yet, each document in one notification.
async fn tell(state: &Arc<Mutex<State>>, peer: &Peer) {
    let Ok(room) = peer.room().await else { return };
    let mut state = lock(state);
    let whole = state.personality.whole;
    let mut gone = Vec::new();
    let send = |method: &str, params: Value| {
        if room.notify(method, &params).is_err() {
            // The server has gone; a test that cares looks at that itself.
        }
    };
    // What closes comes before what opens, whatever their names.
    for (uri, buffer) in &mut state.buffers {
        if buffer.untold.first() == Some(&json!("closed")) {
            send("textDocument/didClose", json!({ "textDocument": { "uri": uri } }));
            gone.push(uri.clone());
        }
    }
    for uri in gone {
        state.buffers.remove(&uri);
    }
    for (uri, buffer) in &mut state.buffers {
        let untold = std::mem::take(&mut buffer.untold);
        if untold.first() == Some(&json!("opened")) {
            let item = json!({
                "uri": uri, "languageId": buffer.language_id, "version": buffer.version, "text": buffer.text,
            });
            send("textDocument/didOpen", json!({ "textDocument": item }));
        } else if !untold.is_empty() {
            let changes = if whole { vec![json!({ "text": buffer.text })] } else { untold };
            let id = json!({ "uri": uri, "version": buffer.version });
            send("textDocument/didChange", json!({ "textDocument": id, "contentChanges": changes }));
        }
    }
}

fn tell_later(state: &Arc<Mutex<State>>, peer: &Peer, tracker: &TaskTracker, debounce: Duration) {
    let (state, peer) = (Arc::clone(state), peer.clone());
    tracker.spawn(async move {
        tokio::time::sleep(debounce).await;
        if !lock(&state).withheld {
            tell(&state, &peer).await;
        }
    });
}

fn path(uri: &str) -> PathBuf {
    workspace::uri_to_path(uri).unwrap_or_else(|| panic!("{uri} is no file"))
}

fn parse(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).expect("what came is JSON")
}

fn raw(value: &Value) -> Box<RawValue> {
    wire::raw(value).expect("a value is JSON")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
