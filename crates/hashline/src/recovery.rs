//! How each operation found its place, as data and in words.

use serde::Serialize;

use crate::surgery::Place;
use crate::{Note, NoteKind, Strategy, Tag};

/// How one operation of a section found its place in the text as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Recovery {
    /// What it took.
    pub strategy: Strategy,
    /// First and last line that the operation names, as written; `None` for an end of the file.
    pub lines: Option<(usize, usize)>,
    /// The same lines in the current text; `None` also where nothing is left to do.
    pub now: Option<(usize, usize)>,
}

impl Recovery {
    pub(crate) fn new(strategy: Strategy, written: Place, now: Option<Place>) -> Self {
        Self { strategy, lines: written.lines(), now: now.and_then(|place| place.lines()) }
    }

    fn is_done(&self) -> bool {
        self.strategy == Strategy::AlreadyApplied
    }
}

/// The strategy of a section: the weakest that any operation needed; already applied when all are.
pub(crate) fn weakest(recovery: &[Recovery]) -> Strategy {
    let weakest = recovery.iter().filter(|it| !it.is_done()).map(|it| it.strategy).max();
    match recovery.is_empty() {
        true => Strategy::Exact,
        false => weakest.unwrap_or(Strategy::AlreadyApplied),
    }
}

pub(crate) fn already_applied() -> Note {
    Note::new(NoteKind::AlreadyApplied, "the file already reads so; nothing was changed")
}

pub(crate) fn named((first, last): (usize, usize)) -> String {
    if first == last { format!("line {first}") } else { format!("lines {first}..={last}") }
}

/// Moves named in a note.
const MOST: usize = 4;

/// What became of operations written for another text; `earlier`: the tag that their numbers were
/// of, where it is not the one named.
pub(crate) fn notes(recovery: &[Recovery], earlier: Option<Tag>) -> Vec<Note> {
    if recovery.iter().all(Recovery::is_done) {
        return vec![already_applied()];
    }
    let mut notes = vec![match earlier {
        Some(tag) => Note::new(
            NoteKind::EarlierVersion,
            format!(
                "the numbers were those of tag {tag}, from before an edit; they were taken for the lines they meant{}",
                moves(recovery)
            ),
        ),
        None => Note::new(
            NoteKind::Mapped,
            format!(
                "the file changed since it was read; the edit was made where its lines stand now{}",
                moves(recovery)
            ),
        ),
    }];
    let merged = recovery.iter().filter(|it| it.strategy == Strategy::Merge);
    if let Some(lines) = merged.filter_map(|it| it.now).next() {
        let message =
            format!("what stands beside {} changed since it was read; look at it again", named(lines));
        notes.push(Note::new(NoteKind::Merged, message));
    }
    for it in recovery.iter().filter(|it| it.is_done()) {
        let place = it.lines.map_or("an end of the file".to_owned(), named);
        let message = format!("what was to be done at {place} stands there already");
        notes.push(Note::new(NoteKind::AlreadyApplied, message));
    }
    notes
}

/// `: lines 10..=12 were found at 14..=16`.
fn moves(recovery: &[Recovery]) -> String {
    let moved = |it: &Recovery| {
        let (was, now) = (it.lines?, it.now?);
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
