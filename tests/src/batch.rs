//! `pilcrow tool --batch`: several calls to one process.
//!
//! An edit can then use the snapshots of an earlier read.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::sandbox::{Answer, DEADLINE, Sandbox};

pub struct Batch {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Option<JoinHandle<String>>,
}

/// One line of a file as `read` shows it: `12kq:text`.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Name of the line in an edit, such as `12kq`.
    pub anchor: String,
    pub text: String,
}

/// A file as `read` shows it.
#[derive(Clone, Debug)]
pub struct View {
    /// Header of an edit: `path#TAG`.
    pub header: String,
    pub lines: Vec<Shown>,
}

impl Batch {
    /// Starts a batch in the sandbox's project, with `--yes --json`.
    pub fn start(sandbox: &Sandbox) -> Batch {
        Batch::start_in(sandbox, &sandbox.project())
    }

    /// Starts a batch in another project, with the sandbox's homes.
    pub fn start_in(sandbox: &Sandbox, project: &Path) -> Batch {
        Batch::spawn(sandbox, &["tool", "--batch", "--yes", "--json", "-C"], project)
    }

    /// Starts a batch without `--yes` and without a user to ask.
    pub fn start_without_yes(sandbox: &Sandbox) -> Batch {
        Batch::spawn(sandbox, &["tool", "--batch", "--json", "-C"], &sandbox.project())
    }

    /// Starts a batch in the sandbox's project as an argument of another program.
    pub fn start_under(sandbox: &Sandbox, words: &[&str]) -> Batch {
        let command = sandbox.command_under(words, &["tool", "--batch", "--yes", "--json"]);
        Batch::of(command)
    }

    fn spawn(sandbox: &Sandbox, args: &[&str], project: &Path) -> Batch {
        let mut command = sandbox.command_anywhere(args);
        command.arg(project);
        Batch::of(command)
    }

    fn of(mut command: Command) -> Batch {
        let mut child = command.stdin(Stdio::piped()).spawn().expect("pilcrow starts");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        // A call is answered before the next is sent, so at most one line waits here.
        let (send, lines) = sync_channel(16);
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        let mut stderr = child.stderr.take().expect("piped");
        let stderr = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stderr.read_to_end(&mut bytes).expect("its messages can be read");
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Batch { stdin: child.stdin.take(), child, lines, stderr: Some(stderr) }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a line unchanged, without waiting.
    ///
    /// Returns `false` when the process reads no more.
    pub fn send(&mut self, line: &str) -> bool {
        let stdin = self.stdin.as_mut().expect("not closed yet");
        writeln!(stdin, "{line}").and_then(|()| stdin.flush()).is_ok()
    }

    /// The next answer; `None` when the process ended.
    #[track_caller]
    pub fn answer(&mut self, deadline: Duration) -> Option<Answer> {
        match self.lines.recv_timeout(deadline) {
            Ok(line) => {
                let value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                Some(Answer { exit: None, value })
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no answer after {deadline:?}"),
        }
    }

    /// Calls a tool and waits for its answer.
    ///
    /// `None` when the process ended before it came.
    #[track_caller]
    pub fn try_call(&mut self, name: &str, arguments: &Value) -> Option<Answer> {
        if !self.send(&json!({"name": name, "arguments": arguments}).to_string()) {
            return None;
        }
        self.answer(DEADLINE)
    }

    /// Calls a tool and waits for its answer.
    #[track_caller]
    pub fn call(&mut self, name: &str, arguments: &Value) -> Answer {
        match self.try_call(name, arguments) {
            Some(answer) => answer,
            None => panic!("the batch ended: {:?}", self.end()),
        }
    }

    /// Reads a whole file.
    #[track_caller]
    pub fn view(&mut self, path: &str) -> View {
        View::parse(&self.call("read", &json!({"path": path})).ok())
    }

    #[track_caller]
    pub fn edit(&mut self, patch: &str) -> Answer {
        self.call("edit", &json!({"patch": patch}))
    }

    /// Closes its input and waits for its end; returns its status and standard error.
    #[track_caller]
    pub fn end(&mut self) -> (ExitStatus, String) {
        drop(self.stdin.take());
        let mut status = None;
        let ended = crate::wait_for(DEADLINE, || {
            status = self.child.try_wait().expect("the process can be awaited");
            status.is_some()
        });
        if !ended {
            self.child.kill().expect("the process can be killed");
            panic!("the batch did not end after its input");
        }
        let said = self.stderr.take().map(|stderr| stderr.join().expect("its messages")).unwrap_or_default();
        (status.expect("it ended"), said)
    }
}

impl View {
    /// Parses the output of `read` or a refusal: `[path#TAG]`, then rows.
    ///
    /// Other lines are skipped.
    #[track_caller]
    pub fn parse(text: &str) -> View {
        let mut lines = text.lines();
        let header = lines
            .by_ref()
            .find_map(|line| line.strip_prefix('[')?.strip_suffix(']').filter(|it| it.contains('#')))
            .unwrap_or_else(|| panic!("no [path#TAG] in: {text}"))
            .to_owned();
        let rows = lines.filter_map(|line| {
            // In an edit's answer, new rows begin with a plus and context rows with a blank.
            let line = line.strip_prefix(['+', ' ']).unwrap_or(line);
            let (anchor, text) = line.split_once('\t')?;
            let digits = anchor.find(|c: char| !c.is_ascii_digit()).unwrap_or(anchor.len());
            let row = digits > 0 && anchor[digits..].chars().all(|c| c.is_ascii_lowercase());
            row.then(|| Shown { anchor: anchor.to_owned(), text: text.to_owned() })
        });
        let lines = rows.collect();
        View { header, lines }
    }

    /// The anchor of the only line with this text.
    #[track_caller]
    pub fn anchor(&self, text: &str) -> &str {
        let mut found = self.lines.iter().filter(|line| line.text == text);
        match (found.next(), found.next()) {
            (Some(line), None) => &line.anchor,
            (None, _) => panic!("no line {text:?} in {self:?}"),
            (Some(_), Some(_)) => panic!("several lines {text:?} in {self:?}"),
        }
    }

    /// Builds a section that replaces the line `old` by `new`.
    #[track_caller]
    pub fn put(&self, old: &str, new: &str) -> String {
        format!("[{}]\nPUT {}:\n+{new}\n", self.header, self.anchor(old))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_parsed_among_other_lines() {
        let view = View::parse(
            "refused: a.txt changed\n[a.txt#3F2A]\n1kq\tone: 1\n...\n2mz\t\n3\tno check\nnote: x\n",
        );
        assert_eq!(view.header, "a.txt#3F2A");
        let rows: Vec<_> = view.lines.iter().map(|line| (line.anchor.as_str(), line.text.as_str())).collect();
        assert_eq!(rows, [("1kq", "one: 1"), ("2mz", ""), ("3", "no check")]);
        assert_eq!(view.put("one: 1", "uno"), "[a.txt#3F2A]\nPUT 1kq:\n+uno\n");
    }
}
