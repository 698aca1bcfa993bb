//! The messages between a command and an owner, as values.
//!
//! `docs/protocols/owner.md` specifies them.

use agent::{Content, ToolError, ToolResult};
use policy::{Answer, Choice, Chosen, Question, QuestionKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Newest version of the protocol that this program supports.
pub const PROTOCOL: u32 = 2;

/// The names of requests and notifications.
pub mod methods {
    /// The first request of a command.
    pub const HELLO: &str = "hello";
    pub const PING: &str = "ping";
    pub(crate) const DOCUMENTS: &str = "documents";
    pub(crate) const TOOL: &str = "tool";
    pub(crate) const UNDO: &str = "takeBack";
    pub const RUN: &str = "run";
    pub(crate) const COMPACT: &str = "compact";
    /// A notification: cancel all requests.
    pub(crate) const CANCEL: &str = "cancel";
    /// A request to the command: ask the user for permission.
    pub const ASK: &str = "ask";
    /// A request to the command: ask the user a question that permits nothing.
    pub(crate) const CHOOSE: &str = "choose";
    /// A notification to the command: an event of the run.
    pub(crate) const EVENT: &str = "event";
}

/// The command and its permissions, valid for one connection.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    /// Newest protocol that the command supports.
    pub protocol: u32,
    /// The command's version, for messages.
    pub version: String,
    /// Whether the user answered every question with yes.
    #[serde(default)]
    pub yes: bool,
    /// Whether the command can ask the user.
    #[serde(default)]
    pub asks: bool,
    /// Whether the owner keeps the texts that this command reads for later ones.
    #[serde(default)]
    pub keep: bool,
}

impl Hello {
    /// Creates the greeting of this program.
    pub fn new(yes: bool, asks: bool, keep: bool) -> Self {
        Self { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").to_owned(), yes, asks, keep }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Welcome {
    /// Protocol of this connection, supported by both sides.
    pub protocol: u32,
    /// The owner's version, for messages.
    pub version: String,
    /// Name of the editor; may be empty.
    pub name: String,
    pub pid: u32,
}

/// The open documents of the editor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Documents {
    pub documents: Vec<OpenDocument>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenDocument {
    pub path: String,
    /// Whether its text differs from the saved file.
    pub dirty: bool,
}

/// Parameters of [`methods::CANCEL`], which cancels all requests.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Cancel {
    /// Whether the terminal closed, rather than the user stopped the command.
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
        let ToolResult { content, details, is_error, error, terminate: _, added_tools: _, is_exact: _ } =
            result;
        Self { content, details, is_error, error }
    }
}

impl From<ResultMessage> for ToolResult {
    fn from(message: ResultMessage) -> Self {
        let ResultMessage { content, details, is_error, error } = message;
        // Only the agent loop uses the last two.
        Self { content, details, is_error, error, terminate: false, added_tools: Vec::new(), is_exact: true }
    }
}

/// A request for permission.
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
    fn from(message: QuestionMessage) -> Self {
        let QuestionMessage { kind, title, detail, files } = message;
        let kind = match kind.as_str() {
            "read" => QuestionKind::Read,
            "write" => QuestionKind::Write,
            "trust" => QuestionKind::Trust,
            // An unknown kind is shown like a command line.
            _ => QuestionKind::Exec,
        };
        Self { kind, title, detail, files }
    }
}

/// The user's answer to a request for permission.
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
    fn from(message: AnswerMessage) -> Self {
        match message.answer.as_str() {
            "once" => Self::Once,
            "session" => Self::Session,
            "always" => Self::Always,
            "nobody" => Self::Unattended,
            _ => Self::No { text: message.text },
        }
    }
}

/// A question of the agent.
#[derive(Serialize, Deserialize)]
pub(crate) struct ChoiceMessage(#[serde(with = "ChoiceFields")] pub Choice);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Choice")]
struct ChoiceFields {
    question: String,
    options: Vec<String>,
}

/// The user's answer to a question of the agent.
#[derive(Serialize, Deserialize)]
pub(crate) struct ChosenMessage(#[serde(with = "ChosenVariants")] pub Chosen);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Chosen", rename_all = "snake_case")]
enum ChosenVariants {
    Said(String),
    Dismissed,
    #[serde(rename = "nobody")]
    Unattended,
}
