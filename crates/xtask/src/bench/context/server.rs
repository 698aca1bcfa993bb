//! A model server on the loopback that follows a list of turns.
//!
//! It speaks OpenAI's chat completions and keeps every request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow, bail};
use regex::Regex;
use serde_json::{Value, json};

use super::{Call, text_of};

pub(super) struct Server {
    address: String,
    ended: Arc<AtomicBool>,
    requests: Arc<Mutex<Vec<Value>>>,
    thread: JoinHandle<Result<()>>,
}

impl Server {
    /// Starts a server whose answers call these tools in turn, and then end.
    pub(super) fn start(turns: &[Vec<Call>]) -> Result<Self> {
        let turns: Vec<Vec<(String, Value)>> = turns
            .iter()
            .map(|calls| calls.iter().map(|Call(name, args)| (name.clone(), args.clone())).collect())
            .collect();
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("cannot listen on the loopback")?;
        let address = listener.local_addr()?.to_string();
        let (ended, requests) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (is_ended, kept) = (ended.clone(), requests.clone());
        let thread = thread::spawn(move || {
            // A client may open a connection and send nothing, so each has a thread.
            let failed = Arc::new(Mutex::new(None));
            let turns = Arc::new(turns);
            for stream in listener.incoming() {
                if is_ended.load(Ordering::SeqCst) {
                    break;
                }
                let (stream, turns, kept, failed) = (stream?, turns.clone(), kept.clone(), failed.clone());
                thread::spawn(move || {
                    if let Err(error) = serve(stream, &turns, &kept) {
                        failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    }
                });
            }
            failed.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
        });
        Ok(Self { address, ended, requests, thread })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Ends the server; returns its requests.
    pub(super) fn finish(self) -> Result<Vec<Value>> {
        self.ended.store(true, Ordering::SeqCst);
        // Wakes the listener.
        TcpStream::connect(&self.address).ok();
        self.thread.join().map_err(|_| anyhow!("the model server panicked"))??;
        Ok(std::mem::take(&mut *self.requests.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Answers one request and closes the connection.
fn serve(mut stream: TcpStream, turns: &[Vec<(String, Value)>], kept: &Mutex<Vec<Value>>) -> Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((_, value)) =
            line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        {
            length = value.trim().parse().context("content-length")?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    if first.is_empty() {
        return Ok(());
    }
    if !first.starts_with("POST") {
        let body = json!({ "data": [{ "id": "model" }] }).to_string();
        return respond(&mut stream, "application/json", &body);
    }
    let request: Value = serde_json::from_slice(&body).context("the request is not JSON")?;
    let turn = {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(request.clone());
        kept.len() - 1
    };
    let results: Vec<String> = request["messages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|message| message["role"] == "tool")
        .map(|message| text_of(&message["content"]))
        .collect();
    let calls = turns.get(turn).into_iter().flatten().enumerate().map(|(at, (name, args))| {
        let arguments = fill(args, &results)?.to_string();
        let function = json!({ "name": name, "arguments": arguments });
        Ok(json!({ "index": at, "id": format!("call_{turn}_{at}"), "type": "function", "function": function }))
    });
    let (delta, reason) = match calls.collect::<Result<Vec<Value>>>() {
        Err(error) => {
            let said = results.last().map_or("", String::as_str);
            return respond(&mut stream, "text/plain", "")
                .and(Err(error.context(format!("the last result is:\n{said}"))));
        }
        Ok(calls) if calls.is_empty() => (json!({ "content": "Done." }), "stop"),
        Ok(calls) => (json!({ "tool_calls": calls }), "tool_calls"),
    };
    let chunk = |delta: Value, reason: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
        let chunk =
            json!({ "id": "1", "object": "chat.completion.chunk", "model": "model", "choices": [choice] });
        format!("data: {chunk}\n\n")
    };
    let body = chunk(delta, Value::Null) + &chunk(json!({}), reason.into()) + "data: [DONE]\n\n";
    respond(&mut stream, "text/event-stream", &body)
}

fn respond(stream: &mut TcpStream, kind: &str, body: &str) -> Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    Ok(stream.flush()?)
}

/// Replaces `@{TEXT}` and `#{PATH}` in all strings by what the results show.
fn fill(args: &Value, results: &[String]) -> Result<Value> {
    Ok(match args {
        Value::String(text) => {
            let mut out = String::new();
            let mut rest = text.as_str();
            while let Some(at) = rest.find("@{").into_iter().chain(rest.find("#{")).min() {
                let end = rest[at..].find('}').context("`}` is missing")? + at;
                let name = &rest[at + 2..end];
                out.push_str(&rest[..at]);
                out.push_str(&if rest[at..].starts_with('@') {
                    anchor(name, results)
                } else {
                    tag(name, results)
                }?);
                rest = &rest[end + 1..];
            }
            out.push_str(rest);
            Value::String(out.trim_start().to_owned())
        }
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| Ok((name.clone(), fill(value, results)?)))
            .collect::<Result<_>>()?,
        other => other.clone(),
    })
}

/// The name of the newest row whose line begins with this text.
fn anchor(text: &str, results: &[String]) -> Result<String> {
    let row = Regex::new(&format!(r"(?m)^(\d+[a-z]*)[:\t ]\s*{}", regex::escape(text)))?;
    let found = results.iter().rev().find_map(|result| row.captures(result));
    found.map(|found| found[1].to_owned()).with_context(|| format!("no row shows `{text}`"))
}

/// The newest tag of a file.
fn tag(path: &str, results: &[String]) -> Result<String> {
    let header = Regex::new(&format!(r"(?m)^\[{}#([0-9A-F]+)\]", regex::escape(path)))?;
    let found = results.iter().rev().find_map(|result| header.captures_iter(result).last());
    let Some(found) = found else { bail!("no result shows a tag of {path}") };
    Ok(found[1].to_owned())
}
