//! Execution of a script over a pair of streams.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{Decoder, Encoder};
use wire::{Frame, Framing, Limits, MessageCodec};

use super::script::{Script, Step};
use crate::language_server::Record;
use crate::language_server::script::fill;

/// The end of an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The client sent `disconnect`.
    Disconnected,
    EndOfInput,
    /// The script ended the adapter with this status.
    Crash(i32),
}

enum Out {
    Message(Value),
    Raw(String),
    End(Ended),
}

struct Adapter {
    script: Script,
    record: Record,
    turns: Mutex<(HashMap<String, usize>, i64)>,
    counts: watch::Sender<HashMap<String, usize>>,
    out: mpsc::UnboundedSender<Out>,
}

/// Runs `script` to its end, with the tasks of unanswered requests.
///
/// # Panics
/// If the client sends a message outside the protocol.
pub async fn serve(
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    script: Script,
    record: Record,
) -> Ended {
    let (out, mut outgoing) = mpsc::unbounded_channel();
    let counts = watch::channel(HashMap::new()).0;
    let adapter = Arc::new(Adapter { script, record, turns: Mutex::default(), counts, out });
    let mut tasks = JoinSet::new();
    let mut codec = MessageCodec::new(Framing::ContentLength, Limits::default());
    let mut buffer = BytesMut::new();
    loop {
        tokio::select! {
            biased;
            // Both are cancel-safe: a dropped `recv` takes nothing, a dropped `read_buf` reads nothing.
            Some(out) = outgoing.recv() => {
                let mut bytes = BytesMut::new();
                match out {
                    Out::End(ended) => return ended,
                    Out::Raw(text) => bytes.extend_from_slice(text.as_bytes()),
                    Out::Message(message) => codec
                        .encode(message.to_string().as_bytes(), &mut bytes)
                        .expect("memory does not fail"),
                }
                if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
                    return Ended::EndOfInput;
                }
            }
            read = reader.read_buf(&mut buffer) => {
                if !matches!(read, Ok(1..)) {
                    return Ended::EndOfInput;
                }
                while let Some(frame) = codec.decode(&mut buffer).expect("decoding does not fail") {
                    let Frame::Body(body) = frame else { panic!("the client sent {frame:?}") };
                    let message: Value = serde_json::from_slice(&body).expect("the client sends JSON");
                    adapter.take(&message);
                    let adapter = Arc::clone(&adapter);
                    tasks.spawn(async move { adapter.respond(message).await });
                }
            }
            Some(ended) = tasks.join_next() => ended.expect("no step panics"),
        }
    }
}

impl Adapter {
    fn take(&self, message: &Value) {
        assert!(message["seq"].is_i64() && message["type"].is_string(), "no message: {message}");
        assert!(!message.to_string().contains(":null"), "an explicit null: {message}");
        self.record.push(message.clone());
        if let Some(path) = &self.script.record {
            let mut file =
                std::fs::File::options().create(true).append(true).open(path).expect("the record opens");
            writeln!(file, "{message}").expect("the record is written");
        }
        let name = if message["type"] == "request" { &message["command"] } else { &message["type"] };
        let name = name.as_str().unwrap_or_default().to_owned();
        self.counts.send_modify(|counts| *counts.entry(name).or_default() += 1);
    }

    async fn respond(&self, message: Value) {
        let Some(command) = message["command"].as_str().filter(|_| message["type"] == "request") else {
            return;
        };
        let turn = {
            let mut turns = self.turns.lock();
            let turn = turns.0.entry(command.to_owned()).or_default();
            *turn += 1;
            *turn - 1
        };
        let scripted = self.script.commands.get(command);
        let steps = scripted.and_then(|turns| turns.get(turn).or(turns.last())).cloned();
        self.run(steps.unwrap_or_else(|| self.script.usual(command)), &message).await;
        if command == "disconnect" {
            self.send(Out::End(Ended::Disconnected));
        }
    }

    async fn run(&self, steps: Vec<Step>, message: &Value) {
        for step in steps {
            match step {
                Step::Body(body) => self.answer(message, self.filled(&body, message), None),
                Step::Fail(text) => self.answer(message, Value::Null, Some(text)),
                Step::AnswerTo { request_seq, body } => {
                    let to = json!({"seq": request_seq, "command": "made up"});
                    self.answer(&to, self.filled(&body, message), None);
                }
                Step::Event { event, body } => {
                    let mut fields = json!({"type": "event", "event": event});
                    if !body.is_null() {
                        fields["body"] = self.filled(&body, message);
                    }
                    self.message(fields);
                }
                Step::Request { seq, command, arguments } => {
                    let mut fields = json!({"type": "request", "command": command, "arguments": arguments});
                    fields["seq"] = seq;
                    self.send(Out::Message(fields));
                }
                Step::DelayMs(time) => tokio::time::sleep(Duration::from_millis(time)).await,
                Step::WaitFor { command, count } => {
                    let mut counts = self.counts.subscribe();
                    let come = counts
                        .wait_for(|counts| counts.get(&command).is_some_and(|received| *received >= count));
                    come.await.expect("the adapter holds the sender");
                }
                Step::Crash(status) => self.send(Out::End(Ended::Crash(status))),
                Step::Stderr(text) => eprint!("{text}"),
                Step::Raw(text) => self.send(Out::Raw(text)),
                Step::Repeat { count, steps } => {
                    for _ in 0..count {
                        Box::pin(self.run(steps.clone(), message)).await;
                    }
                }
            }
        }
    }

    fn answer(&self, message: &Value, body: Value, failure: Option<String>) {
        let mut request_seq = message["seq"].clone();
        if self.script.string_ids {
            request_seq = json!(request_seq.to_string().trim_matches('"'));
        }
        let success = failure.is_none();
        let mut fields = json!({
            "type": "response", "request_seq": request_seq, "success": success, "command": message["command"]});
        match failure {
            Some(failure) => fields["message"] = json!(failure),
            None => fields["body"] = body,
        }
        self.message(fields);
    }

    /// Sends a message with the next number.
    fn message(&self, fields: Value) {
        let number = {
            let mut turns = self.turns.lock();
            turns.1 += 1;
            turns.1
        };
        let seq = if self.script.string_ids { json!(number.to_string()) } else { json!(number) };
        let mut message = Map::from_iter([("seq".to_owned(), seq)]);
        message.extend(fields.as_object().cloned().unwrap_or_default());
        self.send(Out::Message(Value::Object(message)));
    }

    fn filled(&self, body: &Value, message: &Value) -> Value {
        let lookup = |name: &str| -> Option<Value> {
            if name == "placed" {
                let asked = message["arguments"]["breakpoints"].as_array()?;
                let placed = asked
                    .iter()
                    .enumerate()
                    .map(|(index, it)| json!({"id": index + 1, "verified": true, "line": it["line"]}));
                return Some(placed.collect());
            }
            let path = name.strip_prefix("arguments")?.replace('.', "/");
            message["arguments"].pointer(&path).cloned()
        };
        fill(body, &lookup)
    }

    fn send(&self, out: Out) {
        // The client has disconnected, and this task ends with it.
        drop(self.out.send(out));
    }
}
