//! What is answered: places, symbols and problems in bytes of a document's text.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;
use workspace::{AbsPath, Version};

/// An answer, who gave it, and whether it may be incomplete.
#[derive(Debug, Clone)]
pub struct Answer<T> {
    /// The answer itself.
    pub value: T,
    /// The definition's name; several are joined by `, `.
    pub server: String,
    /// Why it may be incomplete: `basedpyright is still loading: indexing 43%`.
    pub note: Option<String>,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The file; it may lie outside the workspace (a library).
    pub path: AbsPath,
    /// Bytes in its text. `0..0` if the file could not be read.
    pub range: Range<usize>,
    /// One-based line on which it begins.
    pub line: usize,
    /// That line, without its line end.
    pub line_text: String,
}

/// A named thing in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Its own name.
    pub name: String,
    /// `class`, `function`, …
    pub kind: String,
    /// Its name with those around it: `Class.method`.
    pub path: String,
    /// Where it is.
    pub file: AbsPath,
    /// All of it, in bytes.
    pub range: Range<usize>,
    /// Its name, in bytes.
    pub selection: Range<usize>,
    /// One-based line of the name.
    pub line: usize,
    /// What is around it.
    pub container: Option<String>,
    /// What is in it.
    pub children: Vec<Symbol>,
}

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the specification's own names")]
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

/// A problem in a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostic {
    /// Bytes in the document's text.
    pub range: Range<usize>,
    /// One-based line on which it begins.
    pub line: usize,
    /// How bad it is; an error where the server does not say.
    pub severity: Severity,
    /// The rule: `reportUndefinedVariable`, `F401`.
    pub code: Option<String>,
    /// The tool: `basedpyright`.
    pub source: Option<String>,
    /// What is wrong.
    pub message: String,
    /// The definition's name.
    pub server: String,
    /// As it came, to be sent back when code actions are asked for.
    pub raw: RawJson,
}

/// Another place that a problem speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Related {
    /// The file.
    pub path: AbsPath,
    /// One-based line.
    pub line: usize,
    /// What is said of it.
    pub message: String,
}

impl Diagnostic {
    /// The other places that it speaks of, as the server numbers their lines. Reads it as it came.
    pub fn related(&self) -> Vec<Related> {
        let raw = self.raw.value();
        let places = raw["relatedInformation"].as_array().into_iter().flatten();
        let read = |place: &Value| {
            let uri = place["location"]["uri"].as_str()?;
            let line = place["location"]["range"]["start"]["line"].as_u64()?;
            Some(Related {
                path: workspace::uri_to_path(uri).and_then(AbsPath::new)?,
                line: usize::try_from(line).ok()? + 1,
                message: place["message"].as_str().unwrap_or_default().to_owned(),
            })
        };
        places.filter_map(read).collect()
    }

    /// `unnecessary`, `deprecated`: what it says of the code besides. Reads it as it came.
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

    /// The page that explains its rule. Reads it as it came.
    pub fn page(&self) -> Option<String> {
        self.raw.value()["codeDescription"]["href"].as_str().map(str::to_owned)
    }
}

/// A piece of a message, read only when it is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawJson(Arc<str>);

impl RawJson {
    /// Anything that a message holds.
    pub fn new(raw: &serde_json::value::RawValue) -> Self {
        Self(raw.get().into())
    }

    /// An empty list.
    pub(crate) fn empty_list() -> Self {
        Self("[]".into())
    }

    /// Its text.
    pub fn get(&self) -> &str {
        &self.0
    }

    /// Read; null where it cannot be.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

/// The problems of exactly one version of a document.
#[derive(Debug, Clone)]
pub struct Diagnostics {
    /// The version that was asked about.
    pub version: Version,
    /// In order of place.
    pub items: Vec<Diagnostic>,
    /// Servers whose answer is not known yet: no items of theirs are here.
    pub pending: Vec<String>,
    /// Servers that could not be asked, and why.
    pub failed: Vec<String>,
    /// Sources that a server runs, if at all, when a file is saved, with the server: nothing of theirs is
    /// in `items`.
    pub on_save: Vec<(String, String)>,
}
