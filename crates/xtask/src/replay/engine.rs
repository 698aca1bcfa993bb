//! The engine under test: a program that answers each JSON line with one
//! (`docs/formats/edit-batch.md`).

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use serde_json::json;

const DEADLINE: Duration = Duration::from_secs(120);

pub(crate) struct Engine {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    asked: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    pub(crate) status: String,
    pub(crate) strategy: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    #[serde(default)]
    pub(crate) micros: u64,
}

impl Engine {
    /// Starts the engine by a shell.
    pub(crate) fn start(command: &str) -> Result<Engine> {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().with_context(|| format!("cannot start {command}"))?;
        let stdout = BufReader::new(child.stdout.take().context("its output is piped")?);
        // A row is answered before the next is sent, so at most one line waits here.
        let (send, lines) = sync_channel(4);
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Ok(Engine { stdin: child.stdin.take(), child, lines, asked: 0 })
    }

    /// Sends a request and waits for the answer.
    ///
    /// `Err`: the engine ended, or does not answer.
    pub(crate) fn ask(&mut self, path: &str, base: &str, current: &str, patch: &str) -> Result<Answer> {
        self.asked += 1;
        let row = json!({"id": self.asked, "path": path, "base": base, "current": current, "patch": patch});
        let row = format!("{row}\n");
        let stdin = self.stdin.as_mut().context("its input is open")?;
        stdin.write_all(row.as_bytes()).and_then(|()| stdin.flush()).context("the engine stopped reading")?;
        let line = self
            .lines
            .recv_timeout(DEADLINE)
            .map_err(|_| anyhow!("the engine did not respond to row {}", self.asked))?;
        serde_json::from_str(&line).with_context(|| format!("the engine's answer: {line}"))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // An engine that does not end with its input is killed.
        let ended = self.lines.recv_timeout(Duration::from_secs(10));
        if !matches!(ended, Err(std::sync::mpsc::RecvTimeoutError::Disconnected))
            && let Err(error) = self.child.kill()
        {
            eprintln!("cannot kill the engine: {error}");
        }
        if let Err(error) = self.child.wait() {
            eprintln!("cannot wait for the engine: {error}");
        }
    }
}
