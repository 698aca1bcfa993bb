//! What is said between a command and an owner (`docs/protocols/owner.md`). Values only.

use agent::{Content, ToolError, ToolResult};
use policy::{Answer, Choice, Chosen, Question, QuestionKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The protocol that this program speaks.
pub const PROTOCOL: u32 = 2;

/// The names of requests and notifications.
pub mod methods {
    /// First of all, from the command.
    pub const HELLO: &str = "hello";
    pub const PING: &str = "ping";
    /// What the editor has open.
    pub const DOCUMENTS: &str = "documents";
    pub const TOOL: &str = "tool";
    pub const UNDO: &str = "takeBack";
    pub const RUN: &str = "run";
    pub const COMPACT: &str = "compact";
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

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Welcome {
    /// The protocol of this connection: not newer than either side speaks.
    pub protocol: u32,
    /// The owner's version, for people.
    pub version: String,
    /// The editor, as it calls itself; may be empty.
    pub name: String,
    pub pid: u32,
}

/// What the editor has open.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Documents {
    pub documents: Vec<OpenDocument>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenDocument {
    pub path: String,
    /// It has text that is not saved.
    pub dirty: bool,
}

/// Stop what was asked for.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Cancel {
    /// Nobody stopped it: the terminal went away.
    #[serde(default)]
    pub gone: bool,
}

/// A tool result on the wire.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ResultMessage {
    content: Vec<Content>,
    details: Value,
    is_error: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ToolError>,
}

impl From<ToolResult> for ResultMessage {
    fn from(result: ToolResult) -> Self {
        let ToolResult { content, details, is_error, error, terminate: _, added_tools: _ } = result;
        Self { content, details, is_error, error }
    }
}

impl From<ResultMessage> for ToolResult {
    fn from(message: ResultMessage) -> Self {
        let ResultMessage { content, details, is_error, error } = message;
        // Only a loop looks at the last two, and this one has left it.
        Self { content, details, is_error, error, terminate: false, added_tools: Vec::new() }
    }
}

/// A question on its way.
#[derive(Debug, Serialize, Deserialize)]
pub struct QuestionMessage {
    kind: String,
    title: String,
    detail: String,
    files: Vec<String>,
}

impl From<Question> for QuestionMessage {
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

impl From<QuestionMessage> for Question {
    fn from(asked: QuestionMessage) -> Self {
        let QuestionMessage { kind, title, detail, files } = asked;
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
pub struct AnswerMessage {
    answer: String,
    #[serde(default)]
    text: String,
}

impl From<Answer> for AnswerMessage {
    fn from(answer: Answer) -> Self {
        let text = if let Answer::No { text } = &answer { text.clone() } else { String::new() };
        let answer = match answer {
            Answer::Once => "once",
            Answer::Session => "session",
            Answer::Always => "always",
            Answer::Unattended => "nobody",
            _ => "no",
        };
        Self { answer: answer.to_owned(), text }
    }
}

impl From<AnswerMessage> for Answer {
    fn from(answered: AnswerMessage) -> Self {
        match answered.answer.as_str() {
            "once" => Self::Once,
            "session" => Self::Session,
            "always" => Self::Always,
            "nobody" => Self::Unattended,
            _ => Self::No { text: answered.text },
        }
    }
}

/// A question of the agent's own on its way.
#[derive(Debug, Serialize, Deserialize)]
pub struct ChoiceMessage {
    question: String,
    options: Vec<String>,
}

impl From<Choice> for ChoiceMessage {
    fn from(Choice { question, options }: Choice) -> Self {
        Self { question, options }
    }
}

impl From<ChoiceMessage> for Choice {
    fn from(ChoiceMessage { question, options }: ChoiceMessage) -> Self {
        Self { question, options }
    }
}

/// What the person said to it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChosenMessage {
    Said(String),
    /// It was put away.
    Dismissed,
    Nobody,
}

impl From<Chosen> for ChosenMessage {
    fn from(chosen: Chosen) -> Self {
        match chosen {
            Chosen::Said(words) => Self::Said(words),
            Chosen::Dismissed => Self::Dismissed,
            Chosen::Unattended => Self::Nobody,
        }
    }
}

impl From<ChosenMessage> for Chosen {
    fn from(chosen: ChosenMessage) -> Self {
        match chosen {
            ChosenMessage::Said(words) => Self::Said(words),
            ChosenMessage::Dismissed => Self::Dismissed,
            ChosenMessage::Nobody => Self::Unattended,
        }
    }
}
