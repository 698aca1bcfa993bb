//! Who the client is and how it is to be spoken to: facts from `initialize`, and what is known of
//! an editor as data (`docs/formats/editor-definition.md`).
//!
//! What must stay true: no code asks for an editor by its name; a peculiarity is a key here.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use text::{LineEnds, PositionEncoding};

/// What a client said of itself at `initialize`.
#[derive(Debug, Clone)]
pub struct ClientFacts {
    /// `clientInfo.name`, empty when it gave none.
    pub name: String,
    /// `clientInfo.version`.
    pub version: Option<String>,
    /// The unit in which both sides count characters: UTF-8 if offered, else UTF-16 if offered or
    /// nothing was, else UTF-32. To be answered as `capabilities.positionEncoding`.
    pub position_encoding: PositionEncoding,
    /// It takes `workspace/applyEdit`.
    pub apply_edit: bool,
    /// It says that it takes versioned edits.
    pub document_changes: bool,
    /// File operations it takes: `create`, `rename`, `delete`.
    pub resource_operations: Vec<String>,
    /// How it is spoken to.
    pub editor: Arc<EditorDefinition>,
}

/// How one editor is spoken to.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditorDefinition {
    #[serde(default)]
    format: Option<u64>,
    /// Unique.
    pub name: String,
    /// One line for people.
    #[serde(default)]
    pub about: String,
    clients: Vec<String>,
    /// All documents' text edits go in one request.
    pub one_request: bool,
    /// Edits have a label.
    #[serde(default = "yes")]
    pub labels: bool,
    #[serde(default)]
    quiet: Quiet,
    text: Text,
    #[serde(default)]
    settle: SettleTimes,
    /// How messages are shown.
    #[serde(default)]
    pub message: MessageForm,
    /// How questions are shown.
    #[serde(default)]
    pub question: QuestionForm,
}

/// What a message may be.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MessageForm {
    /// Lines of it at most.
    pub lines: usize,
    /// Characters of it at most, all included.
    pub characters: usize,
    /// What stands between its lines.
    pub line_break: String,
    /// How a longer answer is shown.
    pub long: Long,
    /// What stands at the end of a part of a longer one.
    pub more: String,
}

/// What becomes of an answer that is too long for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Long {
    /// Its beginning is a message.
    Message,
    /// Its beginning is a question, to which opening the transcript is an answer.
    Question,
}

/// What a question is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuestionForm {
    /// What stands between its lines.
    pub line_break: String,
}

impl Default for MessageForm {
    fn default() -> Self {
        Self {
            lines: 6,
            characters: 600,
            line_break: "\n".to_owned(),
            long: Long::Question,
            more: " …".to_owned(),
        }
    }
}

impl MessageForm {
    /// For a client that shows texts of any length by itself.
    pub fn whole() -> Self {
        Self { lines: usize::MAX, characters: 1 << 20, long: Long::Message, ..Self::default() }
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
    /// As what an empty file is told.
    #[serde(default)]
    empty: String,
}

/// What a `\r` is that stands alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CarriageReturn {
    LineEnd,
    Data,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SettleTimes {
    reply_ms: u64,
    applied_ms: u64,
    refused_ms: u64,
}

impl Default for SettleTimes {
    fn default() -> Self {
        Self { reply_ms: 10_000, applied_ms: 2_000, refused_ms: 500 }
    }
}

const FORMAT: u64 = 1;

/// `generic` last: it takes whom nobody else took.
const BUILT_IN: &[&str] = &[
    include_str!("../../../../adapters/editors/neovim.toml"),
    include_str!("../../../../adapters/editors/vscode.toml"),
    include_str!("../../../../adapters/editors/emacs.toml"),
    include_str!("../../../../adapters/editors/generic.toml"),
];

impl EditorDefinition {
    /// The definition for a client of this name.
    pub fn for_client(name: &str) -> Arc<Self> {
        static ALL: OnceLock<Vec<Arc<EditorDefinition>>> = OnceLock::new();
        let all = ALL.get_or_init(|| {
            let parse = |text: &&str| Self::parse(text).expect("a test reads every one of them");
            BUILT_IN.iter().map(parse).map(Arc::new).collect()
        });
        let last = all.last().expect("the list of definitions is not empty");
        Arc::clone(all.iter().find(|definition| definition.is_for(name)).unwrap_or(last))
    }

    /// The same with short waits, for tests in which an editor is silent.
    #[cfg(test)]
    pub fn impatient(&self) -> Arc<Self> {
        let settle = SettleTimes { reply_ms: 700, applied_ms: 300, refused_ms: 100 };
        Arc::new(Self { settle, quiet: Quiet { version_zero_ms: 60 }, ..self.clone() })
    }

    /// Reads a definition; the reason why it cannot be used, for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        let definition: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        match definition.format {
            Some(found) if found > FORMAT => {
                Err(format!("format {found} is newer than {FORMAT}, the newest that is known here"))
            }
            _ => Ok(definition),
        }
    }

    fn is_for(&self, name: &str) -> bool {
        self.clients.iter().any(|client| {
            name.strip_prefix(client.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        })
    }

    /// What ends a line of `text`, as this editor counts lines.
    pub fn line_ends(&self, text: &str) -> LineEnds {
        if self.text.carriage_return == CarriageReturn::LineEnd {
            return LineEnds::Any;
        }
        let newlines = text.matches('\n').count();
        if newlines > 0 && text.matches("\r\n").count() == newlines { LineEnds::CrLf } else { LineEnds::Lf }
    }

    /// Whether this is how the editor tells of an empty file.
    pub fn is_empty_file(&self, text: &str) -> bool {
        text == self.text.empty
    }

    /// How long a document of version 0 must have been left alone.
    pub fn quiet(&self) -> Duration {
        Duration::from_millis(self.quiet.version_zero_ms)
    }

    /// How long an answer is waited for.
    pub fn reply(&self) -> Duration {
        Duration::from_millis(self.settle.reply_ms)
    }

    /// How long after an answer a change is waited for.
    pub fn after_reply(&self, applied: bool) -> Duration {
        Duration::from_millis(if applied { self.settle.applied_ms } else { self.settle.refused_ms })
    }
}

impl ClientFacts {
    /// Reads the parameters of `initialize`.
    pub fn from_initialize(params: &Value) -> Self {
        let capabilities = &params["capabilities"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let texts = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().filter_map(text).collect()
        };
        let offered = texts(&capabilities["general"]["positionEncodings"]);
        let offers = |name: &str| offered.iter().any(|encoding| encoding == name);
        let position_encoding = if offers("utf-8") {
            PositionEncoding::Utf8
        } else if offers("utf-32") && !offers("utf-16") {
            PositionEncoding::Utf32
        } else {
            PositionEncoding::Utf16
        };
        let edit = &capabilities["workspace"]["workspaceEdit"];
        let name = text(&params["clientInfo"]["name"]).unwrap_or_default();
        Self {
            version: text(&params["clientInfo"]["version"]),
            position_encoding,
            apply_edit: capabilities["workspace"]["applyEdit"].as_bool() == Some(true),
            document_changes: edit["documentChanges"].as_bool() == Some(true),
            resource_operations: texts(&edit["resourceOperations"]),
            editor: EditorDefinition::for_client(&name),
            name,
        }
    }

    /// As `capabilities.positionEncoding` of the answer to `initialize` spells it.
    pub fn encoding_name(&self) -> &'static str {
        match self.position_encoding {
            PositionEncoding::Utf8 => "utf-8",
            PositionEncoding::Utf16 => "utf-16",
            PositionEncoding::Utf32 => "utf-32",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_definition_can_be_read_and_names_stand_for_it() {
        for text in BUILT_IN {
            EditorDefinition::parse(text).unwrap();
        }
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
        let newer = EditorDefinition::parse(
            "format = 2\nname = \"x\"\nclients = []\none_request = true\n[text]\ncarriage_return = \"data\"",
        );
        assert!(newer.unwrap_err().contains("newer"));
        assert!(EditorDefinition::parse("name = \"x\"\nmisspelt = 1").is_err());
    }

    #[test]
    fn the_encoding_is_one_that_the_client_offers() {
        let chosen = |offered: Value| {
            let params = json!({ "capabilities": { "general": { "positionEncodings": offered } } });
            ClientFacts::from_initialize(&params).encoding_name()
        };
        assert_eq!(chosen(json!(["utf-16"])), "utf-16");
        assert_eq!(chosen(json!(["utf-16", "utf-32", "utf-8"])), "utf-8");
        assert_eq!(chosen(json!(["utf-32"])), "utf-32");
        assert_eq!(chosen(Value::Null), "utf-16");
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
