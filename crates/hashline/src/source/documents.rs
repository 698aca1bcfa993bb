//! The current texts and their recorded changes, supplied by the caller.

use std::sync::Arc;

use text::ChangeLog;

use crate::render::refusal::Problem;
use crate::{Lines, Reason, Snapshot};

/// Maximum size of a file: 32 MiB.
pub const MAX_BYTES: usize = 32 << 20;

/// State of a path on disk or in the editor.
#[derive(Debug, Clone)]
pub enum Current {
    /// The text, without byte order mark if the caller stores that separately.
    Text(Arc<str>),
    /// The file does not exist.
    Missing,
    /// The file is not UTF-8 text.
    NotUtf8,
    /// The file is too large to read.
    TooLarge,
}

impl From<Option<Arc<str>>> for Current {
    fn from(text: Option<Arc<str>>) -> Self {
        text.map_or(Self::Missing, Self::Text)
    }
}

/// The current texts and their recorded changes.
///
/// A closure from path to text implements it.
pub trait Documents {
    /// Returns the text of a path (as in the patch, lexically normal).
    ///
    /// The planner calls it more than once; every call must return the same text.
    fn current(&self, path: &str) -> Current;

    /// Returns the recorded edits from `since` to the current text, if all are known.
    ///
    /// An editor's changes are an example. The engine verifies them before use. The store has the
    /// session's own edits.
    fn changes(&self, path: &str, since: &Snapshot) -> Option<ChangeLog> {
        let _ = (path, since);
        None
    }
}

impl<F: Fn(&str) -> Option<Arc<str>>> Documents for F {
    fn current(&self, path: &str) -> Current {
        self(path).into()
    }
}

pub(crate) fn current(path: &str, documents: &dyn Documents) -> Result<Lines, Problem> {
    match documents.current(path) {
        Current::Text(text) if text.len() <= MAX_BYTES => Ok(Lines::new(text)),
        Current::Text(_) | Current::TooLarge => Err(Problem::new(
            Reason::TooLarge,
            format!("the file is larger than {} MiB; change it with a command such as sed", MAX_BYTES >> 20),
        )),
        Current::NotUtf8 => {
            Err(Problem::new(Reason::NotUtf8, "the file is not UTF-8 text and cannot be edited by lines"))
        }
        Current::Missing => {
            Err(Problem::new(Reason::NotFound, "the file does not exist; new files are made with `write`"))
        }
    }
}
