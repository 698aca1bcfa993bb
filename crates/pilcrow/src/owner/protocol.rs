//! What is said between a command and an owner (`docs/protocols/owner.md`). Values only.

use std::path::PathBuf;

use agent::{ToolError, ToolResult};
use llm::Content;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use workspace::{Answer, Choice, Chosen, Question, QuestionKind};

use crate::commands::Exit;

/// The protocol that this program speaks.
pub const PROTOCOL: u32 = 1;

/// The names of requests and notifications.
pub mod methods {
    /// First of all, from the command.
    pub const HELLO: &str = "hello";
    /// Are you there.
    pub const PING: &str = "ping";
    /// What the editor has open.
    pub const DOCUMENTS: &str = "documents";
    /// One tool call.
    pub const TOOL: &str = "tool";
    /// Undo or redo.
    pub const TAKE_BACK: &str = "takeBack";
    /// One prompt.
    pub const RUN: &str = "run";
    /// A notification: stop what was asked for.
    pub const CANCEL: &str = "cancel";
    /// A request to the command: ask the person.
    pub const ASK: &str = "ask";
    /// A request to the command: a question of the agent's own, which permits nothing.
    pub const CHOOSE: &str = "choose";
    /// A notification to the command: an event of the run.
    pub const EVENT: &str = "event";
}

/// Who asks, and with what permission. It holds for this connection alone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    /// The newest protocol that the command speaks.
    pub protocol: u32,
    /// Its version, for people.
    pub version: String,
    /// The person answered every question with yes.
    #[serde(default)]
    pub yes: bool,
    /// Somebody sits at the command's terminal.
    #[serde(default)]
    pub asks: bool,
    /// What is read is remembered for later commands.
    #[serde(default)]
    pub keep: bool,
}

impl Hello {
    /// A greeting of this program.
    pub fn new(yes: bool, asks: bool, keep: bool) -> Self {
        Self { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").to_owned(), yes, asks, keep }
    }
}

/// Who answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Welcome {
    /// The protocol of this connection: not newer than either side speaks.
    pub protocol: u32,
    /// The owner's version, for people.
    pub version: String,
    /// The editor, as it calls itself; may be empty.
    pub name: String,
    /// The owner's process.
    pub pid: u32,
}

/// What the editor has open.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Documents {
    /// In any order.
    pub documents: Vec<OpenDocument>,
}

/// One open document.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenDocument {
    /// Canonical and absolute.
    pub path: String,
    /// It has text that is not saved.
    pub dirty: bool,
}

/// A call of one tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Call {
    /// The tool.
    pub name: String,
    /// What it is given.
    #[serde(default)]
    pub arguments: Value,
    /// The person's own command named the change: only a denying rule stops it.
    #[serde(default)]
    pub invoked: bool,
    /// A tool that does not exist is a wrong use of the command line, not a result.
    #[serde(default)]
    pub named: bool,
}

/// Undo or redo, which the person's own command named.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TakeBack {
    /// Take back the last undo.
    #[serde(default)]
    pub redo: bool,
    /// One commit instead of the last run.
    #[serde(default)]
    pub commit: Option<String>,
}

/// A prompt to work out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// In words.
    pub prompt: String,
    /// Another model than the settings'.
    #[serde(default)]
    pub model: Option<String>,
    /// Where the command stands: a script's file is looked for from there.
    #[serde(default)]
    pub folder: PathBuf,
    /// The session to go on with; a new one without it.
    #[serde(default)]
    pub resume: Option<String>,
    /// An agent of the person's, by name.
    #[serde(default)]
    pub agent: Option<String>,
}

/// Stop what was asked for.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Cancel {
    /// Nobody stopped it: the terminal went away.
    #[serde(default)]
    pub gone: bool,
}

/// How a run ended; what it did was told in events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// For the shell.
    pub exit: Exit,
    /// Why, unless it is done.
    #[serde(default)]
    pub why: Option<String>,
    /// Files that it changed in the editor and that are not saved.
    #[serde(default)]
    pub unsaved: Vec<String>,
}

/// What a request comes to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply<T> {
    /// It was carried out, well or not.
    Done(T),
    /// It was not asked rightly, and this is why.
    Usage(String),
}

/// A tool's result on its way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    content: Vec<Content>,
    details: Value,
    is_error: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ToolError>,
}

impl From<ToolResult> for Outcome {
    fn from(result: ToolResult) -> Self {
        let ToolResult { content, details, is_error, error, terminate: _, added_tools: _ } = result;
        Self { content, details, is_error, error }
    }
}

impl From<Outcome> for ToolResult {
    fn from(outcome: Outcome) -> Self {
        let Outcome { content, details, is_error, error } = outcome;
        // Only a loop looks at the last two, and this one has left it.
        Self { content, details, is_error, error, terminate: false, added_tools: Vec::new() }
    }
}

/// A question on its way.
#[derive(Debug, Serialize, Deserialize)]
pub struct Asked {
    kind: String,
    title: String,
    detail: String,
    files: Vec<String>,
}

impl From<Question> for Asked {
    fn from(question: Question) -> Self {
        let Question { kind, title, detail, files } = question;
        let kind = match kind {
            QuestionKind::Read => "read",
            QuestionKind::Write => "write",
            QuestionKind::Trust => "trust",
            QuestionKind::Exec => "exec",
        };
        Self { kind: kind.to_owned(), title, detail, files }
    }
}

impl From<Asked> for Question {
    fn from(asked: Asked) -> Self {
        let Asked { kind, title, detail, files } = asked;
        let kind = match kind.as_str() {
            "read" => QuestionKind::Read,
            "write" => QuestionKind::Write,
            "trust" => QuestionKind::Trust,
            // Of a kind that we do not know we say no less than of a command.
            _ => QuestionKind::Exec,
        };
        Self { kind, title, detail, files }
    }
}

/// The person's answer on its way.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answered {
    answer: String,
    #[serde(default)]
    text: String,
}

impl From<Answer> for Answered {
    fn from(answer: Answer) -> Self {
        let text = if let Answer::No { text } = &answer { text.clone() } else { String::new() };
        let answer = match answer {
            Answer::Once => "once",
            Answer::Session => "session",
            Answer::Always => "always",
            Answer::Nobody => "nobody",
            _ => "no",
        };
        Self { answer: answer.to_owned(), text }
    }
}

impl From<Answered> for Answer {
    fn from(answered: Answered) -> Self {
        match answered.answer.as_str() {
            "once" => Self::Once,
            "session" => Self::Session,
            "always" => Self::Always,
            "nobody" => Self::Nobody,
            _ => Self::No { text: answered.text },
        }
    }
}

/// A question of the agent's own on its way.
#[derive(Debug, Serialize, Deserialize)]
pub struct Choosing {
    question: String,
    options: Vec<String>,
}

impl From<Choice> for Choosing {
    fn from(Choice { question, options }: Choice) -> Self {
        Self { question, options }
    }
}

impl From<Choosing> for Choice {
    fn from(Choosing { question, options }: Choosing) -> Self {
        Self { question, options }
    }
}

/// What the person said to it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChosenThere {
    /// In these words.
    Said(String),
    /// It was put away.
    Dismissed,
    /// Nobody is there.
    Nobody,
}

impl From<Chosen> for ChosenThere {
    fn from(chosen: Chosen) -> Self {
        match chosen {
            Chosen::Said(words) => Self::Said(words),
            Chosen::Dismissed => Self::Dismissed,
            Chosen::Nobody => Self::Nobody,
        }
    }
}

impl From<ChosenThere> for Chosen {
    fn from(chosen: ChosenThere) -> Self {
        match chosen {
            ChosenThere::Said(words) => Self::Said(words),
            ChosenThere::Dismissed => Self::Dismissed,
            ChosenThere::Nobody => Self::Nobody,
        }
    }
}
