//! The way in which each operation found its place, as data and in words.

use serde::Serialize;

use crate::lines::line_edits::HunkPlace;
use crate::{Note, NoteKind, Tag};

/// The way in which the places of an edit were found in the current text.
///
/// The variants are in order from the strongest to the weakest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The current text is the one the edit was written against.
    Exact,
    /// Recorded edits mapped the place.
    Chain,
    /// Unchanged lines proved the place.
    Remap,
    /// A merge combined the edit with changes next to it.
    Merge,
    /// The current text already equals the edit's result; nothing changes.
    AlreadyApplied,
}

/// The way in which one operation of a section found its place in the current text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Recovery {
    /// The strategy that found it.
    pub strategy: Strategy,
    /// First and last line of the operation, as written; `None` for an end of the file.
    pub lines: Option<(usize, usize)>,
    /// The same lines in the current text; `None` also if nothing is left to do.
    pub now: Option<(usize, usize)>,
}

impl Recovery {
    pub(crate) fn new(strategy: Strategy, written: HunkPlace, now: Option<HunkPlace>) -> Self {
        Self { strategy, lines: written.lines(), now: now.and_then(|place| place.lines()) }
    }

    fn is_done(&self) -> bool {
        self.strategy == Strategy::AlreadyApplied
    }
}

/// The weakest strategy of a section.
///
/// It is `AlreadyApplied` if that applies to all operations.
pub(crate) fn weakest(recovery: &[Recovery]) -> Strategy {
    let weakest =
        recovery.iter().filter(|operation| !operation.is_done()).map(|operation| operation.strategy).max();
    if recovery.is_empty() { Strategy::Exact } else { weakest.unwrap_or(Strategy::AlreadyApplied) }
}

pub(crate) fn already_applied() -> Note {
    Note::new(NoteKind::AlreadyApplied, "the file already has this text; nothing was changed")
}

pub(crate) fn named((first, last): (usize, usize)) -> String {
    if first == last { format!("line {first}") } else { format!("lines {first}..={last}") }
}

/// Maximum number of moved places named in a note.
const MOST: usize = 4;

/// Notes about operations written for another text.
///
/// `earlier` is the tag that their numbers belong to, if it is not the one named.
pub(crate) fn notes(recovery: &[Recovery], earlier: Option<Tag>) -> Vec<Note> {
    if recovery.iter().all(Recovery::is_done) {
        return vec![already_applied()];
    }
    let mut notes = vec![match earlier {
        Some(tag) => Note::new(
            NoteKind::EarlierVersion,
            format!(
                "the numbers belong to tag {tag}, from before an edit; they were mapped to the lines they meant{}",
                describe_moves(recovery)
            ),
        ),
        None => Note::new(
            NoteKind::Mapped,
            format!(
                "the file changed since it was read; the edit was applied where its lines are now{}",
                describe_moves(recovery)
            ),
        ),
    }];
    let merged = recovery.iter().filter(|operation| operation.strategy == Strategy::Merge);
    if let Some(lines) = merged.filter_map(|operation| operation.now).next() {
        let message = format!("the lines beside {}changed since it was read; check them again", named(lines));
        notes.push(Note::new(NoteKind::Merged, message));
    }
    for operation in recovery.iter().filter(|operation| operation.is_done()) {
        let place = operation.lines.map_or("an end of the file".to_owned(), named);
        let message = format!("the edit at {place} is already there");
        notes.push(Note::new(NoteKind::AlreadyApplied, message));
    }
    notes
}

/// Describes moves as `: lines 10..=12 were found at 14..=16`.
fn describe_moves(recovery: &[Recovery]) -> String {
    let moved = |operation: &Recovery| {
        let (was, now) = (operation.lines?, operation.now?);
        let verb = if was.0 == was.1 { "was" } else { "were" };
        let at = if now.0 == now.1 { format!("{}", now.0) } else { format!("{}..={}", now.0, now.1) };
        (was != now).then(|| format!("{} {verb} found at {at}", named(was)))
    };
    let moved: Vec<String> = recovery.iter().filter_map(moved).collect();
    if moved.is_empty() {
        return String::new();
    }
    let more = match moved.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!(": {}{more}", moved[..moved.len().min(MOST)].join(", "))
}
