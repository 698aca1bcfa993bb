//! The outcome of a committed section.

use std::sync::Arc;

use crate::render::diff::{MOST_BYTES, Rows, diff};
use crate::render::push_line;
use crate::{FileOp, Lines, SectionPlan, SnapshotStore, Tag, View};

/// The report on a committed edit.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Tag of the new text; `None` when the file was deleted.
    pub tag: Option<Tag>,
    /// Text for the model: header, changed lines with numbers and checks, notes.
    pub text: String,
}

/// Maximum number of notes shown per section.
const MOST_NOTES: usize = 20;

/// Records a committed section with the text that was read back, and reports on it.
///
/// The report has `-` rows for removed lines, `+` rows for new ones and context rows, with current
/// numbers. The lines shown count as seen.
pub fn outcome(
    store: &mut SnapshotStore,
    section: &SectionPlan,
    read_back: impl Into<Arc<str>>,
    view: View,
) -> Outcome {
    outcome_within(store, section, read_back, view, MOST_BYTES)
}

/// Reports like [`outcome`], with at most `bytes` bytes of rows.
///
/// Sections that share a limit use it.
pub fn outcome_within(
    store: &mut SnapshotStore,
    section: &SectionPlan,
    read_back: impl Into<Arc<str>>,
    view: View,
    bytes: usize,
) -> Outcome {
    let read_back = read_back.into();
    let tag = store.committed(section, read_back.clone());
    let mut text = String::new();
    match (&section.file_op, tag) {
        (FileOp::Remove, _) | (_, None) => {
            push_line(&mut text, format!("deleted {}", section.path));
        }
        (FileOp::Rename { to }, Some(tag)) => {
            push_line(&mut text, format!("renamed {} to {to}", section.path));
            changes(store, &mut text, section, (to, tag), read_back, view, bytes);
        }
        (FileOp::Keep, Some(tag)) => {
            changes(store, &mut text, section, (&section.path, tag), read_back, view, bytes);
        }
    }
    for note in section.notes.iter().take(MOST_NOTES) {
        push_line(&mut text, format!("note: {}", note.message));
    }
    if section.notes.len() > MOST_NOTES {
        push_line(&mut text, format!("note: {} more notes are left out", section.notes.len() - MOST_NOTES));
    }
    Outcome { tag, text }
}

fn changes(
    store: &mut SnapshotStore,
    text: &mut String,
    section: &SectionPlan,
    (path, tag): (&str, Tag),
    read_back: Arc<str>,
    view: View,
    bytes: usize,
) {
    push_line(text, view.header(path, tag));
    let as_planned = read_back == section.new_text;
    let (old, new) = (Lines::new(section.before.clone()), Lines::new(read_back));
    let mut edits = section.edits.clone();
    if !as_planned {
        edits = text::diff_edits(&section.before, new.text());
        text.push_str("the file changed again while it was written; its current lines are below\n");
    }
    let mut rows = Rows::new(text, &new, view, bytes);
    diff(&mut rows, &old, &edits);
    for line in rows.shown {
        store.see(path, tag, line..=line);
    }
}

impl SnapshotStore {
    /// Records a committed section: the text read back, and the path it now has.
    ///
    /// Returns `None` if the file was deleted.
    pub fn committed(&mut self, section: &SectionPlan, read_back: impl Into<Arc<str>>) -> Option<Tag> {
        match &section.file_op {
            FileOp::Remove => {
                self.removed(&section.path);
                None
            }
            FileOp::Keep => Some(self.record_edit(&section.path, &section.before, &section.edits, read_back)),
            FileOp::Rename { to } => {
                self.renamed(&section.path, to);
                Some(self.record_edit(to, &section.before, &section.edits, read_back))
            }
        }
    }
}
