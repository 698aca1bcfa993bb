//! Definitions of editors, as data: one TOML file each.
//!
//! `docs/formats/editor-definition.md` has the format.
//!
//! Invariants: no code selects an editor by its name; an editor's peculiarity is a key of its definition.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use text::LineEnds;

use crate::EDITORS;
use crate::definitions::{BuiltIn, Parse};
use crate::format::{self, DefinitionError};

/// Peculiarities of an editor, and the form of its messages.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditorDefinition {
    pub name: String,
    /// Description for users in one line.
    #[serde(default)]
    pub about: String,
    clients: Vec<String>,
    /// Whether the text edits of all documents go in one request.
    pub one_request: bool,
    /// Whether an edit is sent with a label.
    #[serde(default = "yes")]
    pub labels: bool,
    #[serde(default)]
    quiet: Quiet,
    text: Text,
    #[serde(default)]
    reconcile: ReconcileTimes,
    #[serde(default)]
    pub message: MessageForm,
    #[serde(default)]
    pub question: QuestionForm,
}

/// Limits and line break of messages.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MessageForm {
    /// Maximum number of lines.
    pub lines: usize,
    /// Maximum number of characters, line breaks included.
    pub characters: usize,
    /// The separator of lines.
    pub line_break: String,
    /// Display of an answer beyond these limits.
    pub long: LongMessage,
    /// Text at the end of a shortened answer.
    pub more: String,
}

/// The display of an answer that is too long for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LongMessage {
    /// A message with the beginning of the answer.
    Message,
    /// A question with the beginning of the answer; its button opens the transcript.
    Question,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuestionForm {
    /// The separator of lines.
    pub line_break: String,
}

impl Default for MessageForm {
    fn default() -> Self {
        Self {
            lines: 6,
            characters: 600,
            line_break: "\n".to_owned(),
            long: LongMessage::Question,
            more: " …".to_owned(),
        }
    }
}

impl MessageForm {
    /// The form for a client that shows texts of any length.
    pub fn whole() -> Self {
        Self { lines: usize::MAX, characters: 1 << 20, long: LongMessage::Message, ..Self::default() }
    }
}

impl Default for QuestionForm {
    fn default() -> Self {
        Self { line_break: "\n".to_owned() }
    }
}

fn yes() -> bool {
    true
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Quiet {
    #[serde(default)]
    version_zero_ms: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    carriage_return: CarriageReturn,
    /// Text that the editor reports for an empty file.
    #[serde(default)]
    empty: String,
}

/// The meaning of a lone `\r`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CarriageReturn {
    LineEnd,
    Data,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ReconcileTimes {
    reply_ms: u64,
    applied_ms: u64,
    refused_ms: u64,
}

impl Default for ReconcileTimes {
    fn default() -> Self {
        Self { reply_ms: 10_000, applied_ms: 2_000, refused_ms: 500 }
    }
}

impl EditorDefinition {
    /// The definition for a client of this name.
    ///
    /// The definition that names no clients covers all others.
    pub fn for_client(name: &str) -> Arc<Self> {
        let all = || EDITORS.iter().map(BuiltIn::get);
        let other = || all().find(|definition| definition.clients.is_empty());
        let found = all().find(|definition| definition.is_for(name)).or_else(other);
        Arc::clone(found.expect("one definition names no clients"))
    }

    /// Copies the definition with short timeouts, for tests with a silent editor.
    pub fn impatient(&self) -> Arc<Self> {
        let reconcile = ReconcileTimes { reply_ms: 700, applied_ms: 300, refused_ms: 100 };
        Arc::new(Self { reconcile, quiet: Quiet { version_zero_ms: 60 }, ..self.clone() })
    }

    fn is_for(&self, name: &str) -> bool {
        self.clients.iter().any(|client| {
            name.strip_prefix(client.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        })
    }

    /// The line ends of `text`, as the editor counts lines.
    pub fn line_ends(&self, text: &str) -> LineEnds {
        if self.text.carriage_return == CarriageReturn::LineEnd {
            return LineEnds::Any;
        }
        let newlines = text.matches('\n').count();
        if newlines > 0 && text.matches("\r\n").count() == newlines { LineEnds::CrLf } else { LineEnds::Lf }
    }

    /// Whether the editor reports an empty file with this text.
    pub fn is_empty_file(&self, text: &str) -> bool {
        text == self.text.empty
    }

    /// Returns how long a document of version 0 must be unchanged before an edit.
    pub fn quiet(&self) -> Duration {
        Duration::from_millis(self.quiet.version_zero_ms)
    }

    /// The timeout of a response.
    pub fn reply(&self) -> Duration {
        Duration::from_millis(self.reconcile.reply_ms)
    }

    /// Returns how long to wait for a change after a response.
    pub fn after_reply(&self, applied: bool) -> Duration {
        Duration::from_millis(if applied { self.reconcile.applied_ms } else { self.reconcile.refused_ms })
    }
}

impl Parse for EditorDefinition {
    fn parse(text: &str, origin: &str, _: bool) -> Result<Self, DefinitionError> {
        format::parse(text, origin, &[("", "settle", "reconcile")])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<EditorDefinition, String> {
        EditorDefinition::parse(text, "x.toml", false).map_err(|error| error.to_string())
    }

    #[test]
    fn clients_are_mapped_to_their_definitions() {
        assert_eq!(EDITORS.iter().map(BuiltIn::get).count(), 4);
        for (client, editor) in [
            ("Neovim", "neovim"),
            ("Visual Studio Code", "vscode"),
            ("Visual Studio Code - Insiders", "vscode"),
            ("code-server", "vscode"),
            ("Eglot", "emacs"),
            ("Neovimish", "generic"),
            ("Eglottal", "generic"),
            ("", "emacs"),
        ] {
            assert_eq!(EditorDefinition::for_client(client).name, editor, "{client}");
        }
        let newer = parse(
            "format = 3\nname = \"x\"\nclients = []\none_request = true\n[text]\ncarriage_return = \"data\"",
        );
        assert!(newer.unwrap_err().contains("newer"));
        assert!(parse("name = \"x\"\nmisspelt = 1").is_err());
    }

    #[test]
    fn carriage_returns_count_as_the_editor_counts_them() {
        let ends = |client: &str, text: &str| EditorDefinition::for_client(client).line_ends(text);
        assert_eq!(ends("Visual Studio Code", "a\r\nb"), LineEnds::Any);
        assert_eq!(ends("Neovim", "a\r\nb\r\n"), LineEnds::CrLf);
        assert_eq!(ends("Neovim", "a\r\nb\n"), LineEnds::Lf);
        assert_eq!(ends("Neovim", "a\rb"), LineEnds::Lf);
    }
}
