//! A small editor for tests: it speaks to `pilcrow lsp` over real pipes.
//!
//! It has documents, answers requests at once, and logs every message in order. It counts
//! characters in UTF-8 bytes; `testing::editor` covers the peculiarities of real editors.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::sandbox::{DEADLINE, Sandbox};

pub struct Editor {
    child: Child,
    stdin: Option<ChildStdin>,
    incoming: Receiver<Value>,
    next: i64,
    /// Every received message.
    pub log: Vec<Value>,
    /// Text and version by URI.
    pub documents: BTreeMap<String, (String, i64)>,
    /// Answers to `window/showMessageRequest`, by title; `None` dismisses the question.
    ///
    /// A question without an answer stays open.
    pub answers: VecDeque<Option<&'static str>>,
    /// Questions that stayed open: id and parameters.
    pub open_questions: Vec<(Value, Value)>,
    /// Whether the editor accepts a progress token; else that request stays open.
    pub takes_progress: bool,
    /// Settings in the section `pilcrow`.
    pub settings: Value,
    /// Answers of the adapter of the editor's own session, by command.
    pub debugged: BTreeMap<String, Value>,
    /// Number of started runs, by session.
    runs: BTreeMap<String, usize>,
}

impl Editor {
    /// Starts `pilcrow lsp` for the sandbox's project and initializes it.
    #[track_caller]
    pub fn start(sandbox: &Sandbox) -> Editor {
        Editor::start_with(sandbox, |_| {})
    }

    /// Starts an editor with other parameters of `initialize`.
    #[track_caller]
    pub fn start_with(sandbox: &Sandbox, change: impl FnOnce(&mut Value)) -> Editor {
        let mut params = parameters(sandbox);
        change(&mut params);
        Editor::spawn(sandbox).initialize(params)
    }

    /// Starts `pilcrow lsp` with further arguments and initializes it.
    #[track_caller]
    pub fn start_as(sandbox: &Sandbox, args: &[&str]) -> Editor {
        Editor::spawn_with(sandbox, args).initialize(parameters(sandbox))
    }

    #[track_caller]
    fn initialize(self, mut params: Value) -> Editor {
        let mut editor = self;
        editor.settings = params["settings"].take();
        let answer = editor.request("initialize", params);
        assert_eq!(answer["result"]["capabilities"]["positionEncoding"], "utf-8", "{answer}");
        editor.notify("initialized", json!({}));
        editor
    }

    /// Starts the process only.
    #[track_caller]
    pub fn spawn(sandbox: &Sandbox) -> Editor {
        Editor::spawn_with(sandbox, &[])
    }

    /// Starts an editor with further arguments of Pilcrow.
    #[track_caller]
    pub fn spawn_with(sandbox: &Sandbox, args: &[&str]) -> Editor {
        let mut command = sandbox.command_anywhere(&[&["lsp", "--stdio"], args].concat());
        let mut child =
            command.stdin(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("pilcrow starts");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("its output"));
        let (sender, incoming) = channel();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            while let Some(message) = read_message(&mut reader) {
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        Editor {
            child,
            stdin,
            incoming,
            next: 0,
            log: Vec::new(),
            documents: BTreeMap::new(),
            answers: VecDeque::new(),
            open_questions: Vec::new(),
            takes_progress: true,
            settings: Value::Null,
            debugged: BTreeMap::new(),
            runs: BTreeMap::new(),
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    #[track_caller]
    pub fn send(&mut self, message: &Value) {
        let body = message.to_string();
        // The message is written in one piece, as editors do: `write!` to a pipe would wake the
        // server four times.
        let message = format!("Content-Length: {}\r\n\r\n{body}", body.len());
        let stdin = self.stdin.as_mut().expect("the server's input is open");
        stdin.write_all(message.as_bytes()).and_then(|()| stdin.flush()).expect("it reads");
    }

    #[track_caller]
    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request; returns its id.
    #[track_caller]
    pub fn ask(&mut self, method: &str, params: Value) -> i64 {
        self.next += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params }));
        self.next
    }

    /// Waits for the answer with this id.
    #[track_caller]
    pub fn answer(&mut self, id: i64) -> Value {
        let is_it = |message: &Value| message["id"] == id && message.get("method").is_none();
        // The search begins with the newest message, which is most often the answer.
        self.wait("an answer", |editor| editor.log.iter().rev().any(is_it));
        self.log.iter().rev().find(|message| is_it(message)).cloned().expect("the message was just found")
    }

    #[track_caller]
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// Runs a command; returns its result.
    #[track_caller]
    pub fn command(&mut self, command: &str, argument: Value) -> Value {
        let params = json!({ "command": command, "arguments": [argument] });
        let answer = self.request("workspace/executeCommand", params);
        assert!(answer.get("error").is_none(), "{command}: {answer}");
        answer["result"].clone()
    }

    /// Runs a command that starts a run; returns its session.
    #[track_caller]
    pub fn run(&mut self, command: &str, argument: Value) -> String {
        let session = self.command(command, argument)["session"].as_str().expect("a session").to_owned();
        *self.runs.entry(session.clone()).or_default() += 1;
        session
    }

    /// Handles messages until `done`.
    #[track_caller]
    pub fn wait(&mut self, what: &str, done: impl Fn(&Editor) -> bool) {
        let started = Instant::now();
        while !done(self) {
            let left = DEADLINE.saturating_sub(started.elapsed());
            match self.incoming.recv_timeout(left) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => panic!("{what} did not come:\n{}", self.shown()),
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("the server ended, {what} did not come:\n{}", self.shown())
                }
            }
        }
    }

    /// Handles messages within `time`.
    #[track_caller]
    pub fn pump(&mut self, time: Duration) {
        match self.incoming.recv_timeout(time) {
            Ok(message) => self.take(message),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => panic!("the server ended:\n{}", self.shown()),
        }
    }

    /// Waits until all runs of `session` have ended their progress.
    ///
    /// Returns the last end message.
    #[track_caller]
    pub fn ended(&mut self, session: &str) -> String {
        let runs = self.runs.get(session).copied().unwrap_or(1);
        self.wait("the end of the run", |editor| editor.progress(session, "end").len() >= runs);
        self.progress(session, "end")[runs - 1]["message"].as_str().unwrap_or_default().to_owned()
    }

    /// The tokens of the progress of `session`'s runs, in order of creation.
    pub fn tokens(&self, session: &str) -> Vec<String> {
        let made = self.all("window/workDoneProgress/create");
        let tokens = made.iter().filter_map(|params| params["token"].as_str());
        tokens.filter(|token| is_of(token, session)).map(str::to_owned).collect()
    }

    /// The `$/progress` values of one kind for the runs of `session`.
    pub fn progress(&self, session: &str, kind: &str) -> Vec<Value> {
        let values = self.all("$/progress").into_iter();
        let values = values.filter(|params| is_of(params["token"].as_str().unwrap_or_default(), session));
        values.map(|mut params| params["value"].take()).filter(|value| value["kind"] == kind).collect()
    }

    /// The parameters of every message of a method.
    pub fn all(&self, method: &str) -> Vec<Value> {
        self.log
            .iter()
            .filter(|message| message["method"] == method)
            .map(|message| message["params"].clone())
            .collect()
    }

    /// Waits for a message to the user that contains `part`.
    #[track_caller]
    pub fn wait_for_message(&mut self, part: &str) -> String {
        let find = |editor: &Editor| {
            let shown =
                editor.all("window/showMessage").into_iter().chain(editor.all("window/showMessageRequest"));
            let mut texts = shown.filter_map(|params| params["message"].as_str().map(str::to_owned));
            texts.find(|text| text.contains(part))
        };
        self.wait(&format!("a message with {part:?}"), |editor| find(editor).is_some());
        find(self).expect("the message was just found")
    }

    #[track_caller]
    pub fn open(&mut self, uri: &str, language: &str, text: &str) {
        self.documents.insert(uri.to_owned(), (text.to_owned(), 1));
        let item = json!({ "uri": uri, "languageId": language, "version": 1, "text": text });
        self.notify("textDocument/didOpen", json!({ "textDocument": item }));
    }

    /// Types over a range of bytes.
    #[track_caller]
    pub fn replace(&mut self, uri: &str, range: std::ops::Range<usize>, new_text: &str) {
        let change = self.change(uri, range, new_text);
        self.send(&change);
    }

    /// Changes a document; the returned message remains to be sent.
    #[track_caller]
    pub fn change(&mut self, uri: &str, range: std::ops::Range<usize>, new_text: &str) -> Value {
        let (text, version) = self.documents.get_mut(uri).expect("an open document");
        let lsp = json!({ "start": position(text, range.start), "end": position(text, range.end) });
        text.replace_range(range, new_text);
        *version += 1;
        let params = json!({
            "textDocument": { "uri": uri, "version": *version },
            "contentChanges": [{ "range": lsp, "text": new_text }],
        });
        json!({ "jsonrpc": "2.0", "method": "textDocument/didChange", "params": params })
    }

    /// Sends a new text like a client that does not report its changes.
    #[track_caller]
    pub fn send_whole(&mut self, uri: &str, new_text: &str) {
        let (text, version) = self.documents.get_mut(uri).expect("an open document");
        new_text.clone_into(text);
        *version += 1;
        let document = json!({ "uri": uri, "version": *version });
        let changes = json!([{ "text": new_text }]);
        self.notify("textDocument/didChange", json!({ "textDocument": document, "contentChanges": changes }));
    }

    /// The text of an open document.
    #[track_caller]
    pub fn text(&self, uri: &str) -> &str {
        &self.documents[uri].0
    }

    /// Answers a question that stayed open.
    #[track_caller]
    pub fn answer_question(&mut self, id: &Value, title: Option<&str>) {
        let result = title.map_or(Value::Null, |title| json!({ "title": title }));
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    pub fn hang_up(&mut self) {
        drop(self.stdin.take());
    }

    /// Waits for the process to end, at most `deadline`.
    #[track_caller]
    pub fn exited(&mut self, deadline: Duration) -> ExitStatus {
        let mut status = None;
        let ended = crate::wait_for(deadline, || {
            status = self.child.try_wait().expect("the process can be awaited");
            status.is_some()
        });
        assert!(ended, "the server did not end in {deadline:?}");
        status.expect("it ended")
    }

    /// Shuts the server down as editors do.
    #[track_caller]
    pub fn shut_down(mut self) {
        self.request("shutdown", Value::Null);
        self.notify("exit", Value::Null);
        assert!(self.exited(DEADLINE).success());
    }

    fn take(&mut self, message: Value) {
        self.log.push(message.clone());
        let (Some(id), Some(method)) = (message.get("id").cloned(), message["method"].as_str()) else {
            return;
        };
        let params = &message["params"];
        let result = match method {
            "workspace/applyEdit" => self.apply(&params["edit"]),
            "workspace/configuration" => json!([self.settings]),
            "window/workDoneProgress/create" if !self.takes_progress => {
                return self.open_questions.push((id, params.clone()));
            }
            "window/showMessageRequest" => match self.answers.pop_front() {
                Some(title) => title.map_or(Value::Null, |title| json!({ "title": title })),
                None => return self.open_questions.push((id, params.clone())),
            },
            "window/showDocument" => json!({ "success": true }),
            "pilcrow/debug/request" => {
                let body = self.debugged.get(params["command"].as_str().unwrap_or_default());
                body.cloned().unwrap_or(Value::Null)
            }
            _ => Value::Null,
        };
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    /// Applies an edit to open documents, sends the changes, and answers.
    fn apply(&mut self, edit: &Value) -> Value {
        for change in edit["documentChanges"].as_array().into_iter().flatten() {
            let uri = change["textDocument"]["uri"].as_str().expect("a text edit").to_owned();
            let mut edits: Vec<Value> = change["edits"].as_array().cloned().unwrap_or_default();
            // The loop starts from the end, so that earlier positions stay valid.
            edits.reverse();
            edits.sort_by_key(|edit| std::cmp::Reverse(offset(self.text(&uri), &edit["range"]["start"])));
            let mut changes = Vec::new();
            let (text, version) = self.documents.get_mut(&uri).expect("an open document");
            for edit in edits {
                let range = offset(text, &edit["range"]["start"])..offset(text, &edit["range"]["end"]);
                let new_text = edit["newText"].as_str().expect("a new text");
                changes.push(json!({ "range": edit["range"], "text": new_text }));
                text.replace_range(range, new_text);
            }
            *version += 1;
            let version = *version;
            self.notify(
                "textDocument/didChange",
                json!({ "textDocument": { "uri": uri, "version": version }, "contentChanges": changes }),
            );
        }
        json!({ "applied": true })
    }

    fn shown(&self) -> String {
        self.log.iter().map(|message| format!("{message}\n")).collect()
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // A process that does not end by itself fails the test that checks it.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            self.child.kill().ok();
        }
        self.child.wait().ok();
    }
}

/// Whether a token belongs to a run of this session.
fn is_of(token: &str, session: &str) -> bool {
    token.strip_prefix("pilcrow-").is_some_and(|rest| rest.starts_with(session))
}

/// The editor's parameters of `initialize`.
pub fn parameters(sandbox: &Sandbox) -> Value {
    json!({
        "processId": std::process::id(),
        "clientInfo": { "name": "a test" },
        "workspaceFolders": [{ "uri": uri(sandbox, ""), "name": "the project" }],
        "capabilities": {
            "general": { "positionEncodings": ["utf-8"] },
            "workspace": {
                "applyEdit": true,
                "configuration": true,
                "workspaceEdit": { "documentChanges": true, "resourceOperations": ["create", "rename", "delete"] },
            },
            "textDocument": { "codeAction": {
                "codeActionLiteralSupport": { "codeActionKind": { "valueSet": [] } },
                "tagSupport": { "valueSet": [1] },
            } },
            "window": { "workDoneProgress": true, "showDocument": { "support": true } },
        },
    })
}

/// The URI of a file of the project.
pub fn uri(sandbox: &Sandbox, path: &str) -> String {
    let path = sandbox.project().canonicalize().expect("the project").join(path);
    format!("file://{}", path.to_str().expect("UTF-8").trim_end_matches('/').replace(' ', "%20"))
}

/// A byte offset as a position.
pub fn position(text: &str, offset: usize) -> Value {
    let before = &text[..offset];
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    json!({ "line": before.matches('\n').count(), "character": offset - start })
}

fn offset(text: &str, position: &Value) -> usize {
    let (line, character) = (position["line"].as_u64().unwrap(), position["character"].as_u64().unwrap());
    let start: usize = text.split_inclusive('\n').take(line as usize).map(str::len).sum();
    start + character as usize
}

fn read_message(reader: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().ok()?
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}
