//! Answers: locations, symbols and diagnostics in byte offsets of a text.

use std::ops::Range;
use std::sync::Arc;

use paths::AbsPath;
use serde_json::Value;
use text::{LineIndex, PositionEncoding, shorten};
use workspace::Version;

use crate::note::Note;

/// An answer, its server, and why it may be incomplete.
#[derive(Debug, Clone)]
pub struct Answer<T> {
    pub value: T,
    /// The definition's name; several are joined by `, `.
    pub server: String,
    /// Reasons why the answer may be incomplete.
    pub notes: Vec<Note>,
}

impl<T> Answer<T> {
    #[must_use]
    pub(crate) fn with_notes(mut self, notes: impl IntoIterator<Item = Note>) -> Self {
        self.notes.extend(notes);
        self
    }
}

/// Maximum number of characters of a line in an answer.
const MAX_LINE: usize = 2_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The file; it may lie outside the workspace (a library).
    pub path: AbsPath,
    /// Byte offsets in its text. `0..0` if the file could not be read.
    pub range: Range<usize>,
    /// One-based line of the start.
    pub line: usize,
    /// One-based column of the start, in characters.
    pub column: usize,
    /// The text of that line without its line end, shortened if it is very long.
    pub line_text: String,
}

impl Location {
    /// The location of `range` in `text`, whose lines are `index`.
    pub fn new(path: AbsPath, text: &str, index: &LineIndex, range: Range<usize>) -> Self {
        let start = index.position(text, range.start, PositionEncoding::Utf32);
        let (line, column) = (start.line as usize, start.character as usize + 1);
        let line_text = index.line(text, line).map(|bytes| &text[bytes]).unwrap_or_default();
        let line_text = shorten(line_text, MAX_LINE).into_owned();
        Self { path, range, line: line + 1, column, line_text }
    }
}

/// A definition in a file, with its name and its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    pub name: String,
    /// Kind such as `class` or `function`.
    pub kind: String,
    /// Qualified name, such as `Class.method`.
    pub path: String,
    pub file: AbsPath,
    /// Byte range of the whole symbol.
    pub range: Range<usize>,
    /// Byte range of the name.
    pub selection: Range<usize>,
    /// One-based line of the name.
    pub line: usize,
    /// The name of its container.
    pub container: Option<String>,
    /// Symbols inside this one.
    pub children: Vec<Symbol>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Error,
    Warning,
    Information,
    Hint,
}

impl std::fmt::Display for Severity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Information => "information",
            Self::Hint => "hint",
        })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostic {
    /// Byte offsets in the document's text.
    pub range: Range<usize>,
    /// One-based line of the start.
    pub line: usize,
    /// The severity; an error if the server gives none.
    pub severity: Severity,
    /// The rule: `reportUndefinedVariable`, `F401`.
    pub code: Option<String>,
    /// The tool: `basedpyright`.
    pub source: Option<String>,
    pub message: String,
    pub server: String,
    /// The received JSON, sent back with code action requests.
    pub raw: RawJson,
}

/// A location that a diagnostic refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Related {
    pub path: AbsPath,
    /// One-based line.
    pub line: usize,
    pub message: String,
}

impl Diagnostic {
    /// The related locations, in the server's line numbers. Parses the received JSON.
    pub fn related(&self) -> Vec<Related> {
        let raw = self.raw.value();
        let places = raw["relatedInformation"].as_array().into_iter().flatten();
        let read = |place: &Value| {
            let uri = place["location"]["uri"].as_str()?;
            let line = place["location"]["range"]["start"]["line"].as_u64()?;
            Some(Related {
                path: paths::uri_to_path(uri).and_then(AbsPath::new)?,
                line: usize::try_from(line).ok()? + 1,
                message: place["message"].as_str().unwrap_or_default().to_owned(),
            })
        };
        places.filter_map(read).collect()
    }

    /// The tags `unnecessary` and `deprecated`. Parses the received JSON.
    pub fn tags(&self) -> Vec<&'static str> {
        let raw = self.raw.value();
        let tags = raw["tags"].as_array().into_iter().flatten();
        let name = |tag: &Value| match tag.as_u64()? {
            1 => Some("unnecessary"),
            2 => Some("deprecated"),
            _ => None,
        };
        tags.filter_map(name).collect()
    }

    /// The page that explains the rule. Parses the received JSON.
    pub fn page(&self) -> Option<String> {
        self.raw.value()["codeDescription"]["href"].as_str().map(str::to_owned)
    }
}

/// A part of a message that is parsed on demand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawJson(Arc<str>);

impl RawJson {
    /// Copies raw JSON, which is parsed on demand.
    pub fn new(raw: &serde_json::value::RawValue) -> Self {
        Self(raw.get().into())
    }

    pub(crate) fn empty_list() -> Self {
        Self("[]".into())
    }

    pub fn get(&self) -> &str {
        &self.0
    }

    /// The parsed value; null if it is invalid.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

/// The diagnostics of exactly one version of a document.
#[derive(Debug, Clone)]
pub struct Diagnostics {
    /// The version of the request.
    pub version: Version,
    /// Diagnostics in order of position.
    pub items: Vec<Diagnostic>,
    /// Servers whose diagnostics are complete.
    pub answered: Vec<String>,
    /// Servers whose diagnostics are not known yet.
    pub pending: Vec<String>,
    /// Servers that did not receive the request, with the reason.
    pub failed: Vec<Note>,
    /// Sources that check only saved files, with their server.
    ///
    /// `items` has no diagnostics of these sources.
    pub on_save: Vec<(String, String)>,
}
