//! The form in which lines are shown and edits are taught.
//!
//! Every dialect is parsed, whatever is shown; a [`View`] only decides what a model receives. This
//! module writes all text that names a line for a model.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::format::patch::Anchor;
use crate::{LineCheck, Lines, Tag};

/// A way to write a patch; all parse to the same [`Patch`](crate::Patch).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// The canonical dialect: `[PATH#3F2A]`, `PUT 12kq..=14mz:`, rows `12kq⇥text`.
    #[default]
    Put,
    /// The arrow dialect: `¶PATH#3f2a`, `12..14:`, rows `12⇥text`.
    Arrow,
    /// The json dialect: `{"op": "replace", "pos": "12kq", …}`, rows `12kq⇥text`.
    Json,
}

impl Dialect {
    /// Every dialect, the canonical one first.
    pub const ALL: [Self; 3] = [Self::Put, Self::Arrow, Self::Json];

    /// The name in the setting `hashline.dialect`: `put`, `arrow` or `json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Arrow => "arrow",
            Self::Json => "json",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Error for a word that names no dialect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a dialect: use put, arrow or json")]
pub struct NotADialect(
    /// The rejected name.
    pub String,
);

impl FromStr for Dialect {
    type Err = NotADialect;

    fn from_str(word: &str) -> Result<Self, NotADialect> {
        let named = Self::ALL.into_iter().find(|dialect| dialect.as_str() == word);
        named.ok_or_else(|| NotADialect(word.to_owned()))
    }
}

impl Serialize for Dialect {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The character between a row's name and its text.
///
/// Most vocabularies join a tab and the text to one token, and indentation stays plain below it.
pub(crate) const ROW_SEPARATOR: char = '\t';

/// Form in which lines are shown.
///
/// The settings `hashline.dialect` and `hashline.line_checks` select it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// The dialect that the model is taught.
    pub dialect: Dialect,
    /// Whether rows of the canonical dialect carry their checks.
    ///
    /// The arrow dialect has none, the json dialect always has them; see
    /// [`shows_checks`](Self::shows_checks).
    pub checks: bool,
}

impl Default for View {
    /// Selects the canonical dialect, with checks.
    fn default() -> Self {
        Self { dialect: Dialect::Put, checks: true }
    }
}

impl View {
    /// The canonical dialect with numbers alone: `12⇥text`.
    pub const PLAIN: Self = Self { dialect: Dialect::Put, checks: false };

    /// Creates a view of a dialect, with checks where it has them.
    pub fn of(dialect: Dialect) -> Self {
        Self { dialect, checks: true }
    }

    /// Whether rows carry checks. If so, a number without one proves less.
    pub fn shows_checks(self) -> bool {
        match self.dialect {
            Dialect::Put => self.checks,
            Dialect::Arrow => false,
            Dialect::Json => true,
        }
    }

    /// The row above a text's lines, without line end: `[PATH#3F2A]`, or `¶PATH#3f2a`.
    pub fn header(self, path: &str, tag: Tag) -> String {
        match self.dialect {
            Dialect::Put | Dialect::Json => format!("[{path}#{tag}]"),
            Dialect::Arrow => format!("¶{path}#{}", tag.to_string().to_lowercase()),
        }
    }

    /// A line as a row without line end: `12kq⇥text` or `12⇥text`.
    pub fn row(self, lines: &Lines, line: usize) -> String {
        self.numbered(None, line, lines.check(line), lines.content(line))
    }

    /// A line as a row below the row of line `before`.
    ///
    /// If that is the line above it, an empty line is an empty row, whose number is plain.
    pub(crate) fn row_after(self, before: Option<usize>, lines: &Lines, line: usize) -> String {
        self.numbered(before, line, lines.check(line), lines.content(line))
    }

    /// A row from its number, check and text.
    pub(crate) fn numbered(self, before: Option<usize>, line: usize, check: LineCheck, text: &str) -> String {
        if text.is_empty() && before.is_some_and(|before| before + 1 == line) {
            return String::new();
        }
        let check = Some(check).filter(|_| self.shows_checks());
        format!("{}{ROW_SEPARATOR}{text}", Anchor { line, check })
    }

    /// The operation that inserts at the head of a file, even an empty one.
    pub fn at_head(self) -> &'static str {
        match self.dialect {
            Dialect::Put => "`PUT <1:`",
            Dialect::Arrow => "`1↑`",
            Dialect::Json => "a prepend without `pos`",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialect_names_round_trip() {
        for dialect in Dialect::ALL {
            assert_eq!(dialect.to_string().parse(), Ok(dialect));
        }
        assert!("PUT".parse::<Dialect>().is_err());
    }
}
