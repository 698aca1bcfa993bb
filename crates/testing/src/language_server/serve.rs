//! Execution of a script over a pair of streams.

use std::collections::HashMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use text::PositionEncoding;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{Decoder, Encoder};
use wire::{Frame, Framing, Limits, MessageCodec};

use super::documents::Documents;
use super::script::{Script, Step, fill};

/// The end of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The client sent `exit`, after `shutdown` or not.
    Exit {
        /// Whether `shutdown` came before.
        clean: bool,
    },
    EndOfInput,
    /// The script ended the server with this status.
    Crash(i32),
}

/// Messages that a server received, in order.
///
/// Cheap to clone; filled while the server runs.
#[derive(Debug, Clone, Default)]
pub struct Record(Arc<Mutex<Vec<Value>>>);

impl Record {
    /// All messages so far.
    pub fn all(&self) -> Vec<Value> {
        self.0.lock().clone()
    }

    pub(crate) fn push(&self, message: Value) {
        self.0.lock().push(message);
    }
}

enum Out {
    Message(Value),
    Raw(String),
    End(Ended),
}

struct Server {
    script: Script,
    record: Record,
    state: Mutex<ServerState>,
    counts: watch::Sender<HashMap<String, usize>>,
    out: mpsc::UnboundedSender<Out>,
}

struct ServerState {
    documents: Documents,
    root: Value,
    turns: HashMap<String, usize>,
    shut_down: bool,
}

/// Runs `script` to its end, with the tasks of unanswered turns.
///
/// # Panics
///
/// If the client breaks the protocol in a way that no script can intend, such as a change of a
/// document that is not open.
pub async fn serve(
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    script: Script,
    record: Record,
) -> Ended {
    let (out, mut outgoing) = mpsc::unbounded_channel();
    let state = ServerState {
        documents: Documents::default(),
        root: Value::Null,
        turns: HashMap::new(),
        shut_down: false,
    };
    let stay = script.stay;
    let start = script.start.clone();
    let counts = watch::channel(HashMap::new()).0;
    let server = Arc::new(Server { script, record, state: Mutex::new(state), counts, out });
    let mut tasks = JoinSet::new();
    let mut codec = MessageCodec::new(Framing::ContentLength, Limits::default());
    let mut buffer = BytesMut::new();
    let mut open = true;
    server.run(start, Value::Null).await;
    loop {
        tokio::select! {
            biased;
            // Both are cancel-safe: a dropped `recv` takes nothing, a dropped `read_buf` reads nothing.
            Some(out) = outgoing.recv() => {
                let bytes = match out {
                    Out::End(ended) => return ended,
                    Out::Raw(text) => text.into_bytes(),
                    Out::Message(message) => {
                        let mut bytes = BytesMut::new();
                        codec.encode(message.to_string().as_bytes(), &mut bytes).expect("memory does not fail");
                        bytes.to_vec()
                    }
                };
                if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
                    return Ended::EndOfInput;
                }
            }
            read = reader.read_buf(&mut buffer), if open => {
                if !matches!(read, Ok(1..)) {
                    if !stay {
                        return Ended::EndOfInput;
                    }
                    open = false;
                }
                while let Some(frame) = codec.decode(&mut buffer).expect("decoding does not fail") {
                    let Frame::Body(body) = frame else { panic!("the client sent {frame:?}") };
                    let message: Value = serde_json::from_slice(&body).expect("the client sends JSON");
                    if let Some(ended) = server.take(&message) {
                        return ended;
                    }
                    let server = Arc::clone(&server);
                    tasks.spawn(async move { server.respond(message).await });
                }
            }
            Some(ended) = tasks.join_next() => ended.expect("no step panics"),
        }
    }
}

impl Server {
    fn state(&self) -> parking_lot::MutexGuard<'_, ServerState> {
        self.state.lock()
    }

    /// Handles the effects that must occur in the order of the messages.
    fn take(&self, message: &Value) -> Option<Ended> {
        self.record.push(message.clone());
        if let Some(path) = &self.script.record {
            let mut file =
                std::fs::File::options().create(true).append(true).open(path).expect("the record opens");
            // The line is written at once, so that a concurrent reader never sees half of it.
            file.write_all(format!("{message}\n").as_bytes()).expect("the record is written");
        }
        let method = message["method"].as_str().unwrap_or("response").to_owned();
        let params = &message["params"];
        {
            let mut state = self.state();
            state.documents.take(&method, params);
            match method.as_str() {
                "initialize" => {
                    state.root = params["rootUri"].clone();
                    state.documents.encoding = match &self.script.capabilities["positionEncoding"] {
                        encoding if encoding == "utf-8" => PositionEncoding::Utf8,
                        encoding if encoding == "utf-32" => PositionEncoding::Utf32,
                        _ => PositionEncoding::Utf16,
                    };
                }
                "shutdown" => state.shut_down = true,
                "exit" if !self.script.stay => return Some(Ended::Exit { clean: state.shut_down }),
                _ => {}
            }
        }
        self.counts.send_modify(|counts| *counts.entry(method).or_default() += 1);
        None
    }

    async fn respond(&self, message: Value) {
        let Some(method) = message["method"].as_str() else { return };
        let turns = self.script.methods.get(method);
        let turn = {
            let mut state = self.state();
            let turn = state.turns.entry(method.to_owned()).or_default();
            *turn += 1;
            *turn - 1
        };
        let steps = turns.and_then(|turns| turns.get(turn).or(turns.last())).cloned();
        let steps = match (steps, method) {
            (Some(steps), _) => steps,
            (None, "initialize") => vec![Step::Result(json!({
                "capabilities": self.script.capabilities,
                "serverInfo": {"name": "scripted", "version": "1"},
            }))],
            (None, "shutdown") => vec![Step::Result(Value::Null)],
            (None, "test/documents") => vec![Step::Documents],
            (None, _) if message.get("id").is_some() => {
                vec![Step::Error(json!({"code": -32601, "message": format!("no script for {method}")}))]
            }
            (None, _) => Vec::new(),
        };
        self.run(steps, message).await;
    }

    async fn run(&self, steps: Vec<Step>, message: Value) {
        let (root, version, text, open) = {
            let state = self.state();
            let uri = message["params"]["textDocument"]["uri"].as_str().unwrap_or_default();
            let document = state.documents.open.get(uri);
            let version = document.map(|document| document.version);
            let text = document.map(|document| document.text.clone());
            (state.root.clone(), version, text, state.documents.open.clone())
        };
        let lookup = |name: &str| match name {
            "root" => Some(root.clone()),
            "version" => version.map(Value::from),
            "text" => text.clone().map(Value::from),
            "documents" => serde_json::to_value(&open).ok(),
            _ => {
                let path = name.strip_prefix("params.")?;
                path.split('.').try_fold(&message["params"], |value, key| value.get(key)).cloned()
            }
        };
        let id = || message["id"].clone();
        let mut steps = std::collections::VecDeque::from(steps);
        while let Some(step) = steps.pop_front() {
            let out = match step {
                Step::Repeat { count, steps: again } => {
                    for _ in 0..count {
                        again.iter().rev().for_each(|step| steps.push_front(step.clone()));
                    }
                    continue;
                }
                Step::Big(bytes) => {
                    let result = json!({"contents": "x".repeat(bytes)});
                    Out::Message(json!({"jsonrpc": "2.0", "id": id(), "result": result}))
                }
                Step::Result(value) => {
                    Out::Message(json!({"jsonrpc": "2.0", "id": id(), "result": fill(&value, &lookup)}))
                }
                Step::Error(value) => Out::Message(json!({"jsonrpc": "2.0", "id": id(), "error": value})),
                Step::AnswerId { id, result } => {
                    Out::Message(json!({"jsonrpc": "2.0", "id": id, "result": result}))
                }
                Step::Documents => Out::Message(json!({"jsonrpc": "2.0", "id": id(), "result": open})),
                Step::Notify { method, params } => Out::Message(
                    json!({"jsonrpc": "2.0", "method": method, "params": fill(&params, &lookup)}),
                ),
                Step::Request { id, method, params } => Out::Message(json!({
                    "jsonrpc": "2.0", "id": id, "method": method, "params": fill(&params, &lookup)
                })),
                Step::Stdout(text) => Out::Raw(text),
                Step::Crash(status) => Out::End(Ended::Crash(status)),
                Step::Never => return,
                Step::Stderr(text) => {
                    std::io::stderr().write_all(text.as_bytes()).expect("the error stream is open");
                    continue;
                }
                Step::DelayMs(time) => {
                    tokio::time::sleep(Duration::from_millis(time)).await;
                    continue;
                }
                Step::WaitFor { method, count } => {
                    let mut counts = self.counts.subscribe();
                    let enough =
                        |counts: &HashMap<String, usize>| counts.get(&method).copied().unwrap_or(0) >= count;
                    counts.wait_for(enough).await.expect("the server holds the sender");
                    continue;
                }
                Step::EnsureFile(path) => {
                    let file = std::fs::File::options().create(true).append(true).open(path);
                    drop(file.expect("the file can be created"));
                    continue;
                }
                Step::Grandchild { own_group, pid_file } => {
                    grandchild(own_group, &pid_file);
                    continue;
                }
            };
            if self.out.send(out).is_err() {
                return;
            }
        }
    }
}

#[expect(clippy::zombie_processes, reason = "it keeps running on purpose: a test checks for it")]
fn grandchild(own_group: bool, pid_file: &std::path::Path) {
    let mut command = Command::new("sleep");
    command.arg("3600").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    #[cfg(unix)]
    if own_group {
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
    }
    let child = command.spawn().expect("sleep is installed");
    // The file is written under another name and renamed, so that a waiting reader never sees half
    // of it.
    let aside = pid_file.with_extension("new");
    std::fs::write(&aside, child.id().to_string()).expect("the pid file is written");
    std::fs::rename(&aside, pid_file).expect("the pid file is put in place");
}
