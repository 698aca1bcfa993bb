//! From hunks in lines of a version to hunks in lines of the text as it is now.

use crate::chain::Chain;
use crate::refuse::Problem;
use crate::source::Source;
use crate::surgery::{self, Hunk, Place};
use crate::{Documents, FileOp, Lines, Note, NoteKind, Reason, SnapshotStore, Strategy};

/// The hunks in lines of the current text.
pub(crate) struct Way {
    pub hunks: Vec<Hunk>,
    pub strategy: Strategy,
    pub note: Option<Note>,
}

pub(crate) fn already_applied() -> Note {
    Note::new(NoteKind::AlreadyApplied, "the file already reads so; nothing was changed")
}

pub(crate) fn way(
    source: &Source<'_>,
    hunks: &[Hunk],
    store: &mut SnapshotStore,
    documents: &dyn Documents,
) -> Result<Way, Problem> {
    let Source { section, tagged, version, snapshot, current, .. } = source;
    let lines = snapshot.lines();
    let own = version == tagged;
    if own && lines.text() == current.text() {
        return Ok(Way { hunks: hunks.to_vec(), strategy: Strategy::Exact, note: None });
    }
    if own && lines.same_lines(current) {
        let note = Note::new(NoteKind::LineEnds, "only line ends of the file changed since it was read");
        return Ok(Way { hunks: hunks.to_vec(), strategy: Strategy::Exact, note: Some(note) });
    }
    let stale = || {
        Problem::new(
            Reason::Stale,
            format!(
                "the file changed since tag {} was shown, and the lines named cannot be followed; write the edit for the lines below",
                source.tag
            ),
        )
    };
    if section.ops.is_empty() {
        return Err(stale());
    }
    let result = text::apply(lines.text(), &surgery::edits(lines, hunks)).ok();
    if result.as_deref() == Some(&**current.text()) && section.file_op == FileOp::Keep {
        let note = Some(already_applied());
        return Ok(Way { hunks: hunks.to_vec(), strategy: Strategy::AlreadyApplied, note });
    }
    let chain = chain(source, store, documents).ok_or_else(stale)?;
    let hunks = hunks
        .iter()
        .map(|hunk| {
            let place = follow(&chain, hunk.place, lines, current)?;
            Some(Hunk { place, rows: hunk.rows.clone() })
        })
        .collect::<Option<Vec<Hunk>>>()
        .ok_or_else(stale)?;
    let note = if own {
        Note::new(
            NoteKind::Mapped,
            "the file changed since it was read; the edit was made where its lines stand now",
        )
    } else {
        Note::new(
            NoteKind::EarlierVersion,
            format!(
                "the numbers were those of tag {}, from before an edit; they were taken for the lines they meant",
                snapshot.tag()
            ),
        )
    };
    Ok(Way { hunks, strategy: Strategy::Chain, note: Some(note) })
}

/// The recorded way from the version to the current text: our own edits, then what the caller
/// The recorded way from the version to the current text: our own edits, then what the caller
/// knows of.
fn chain(source: &Source<'_>, store: &mut SnapshotStore, documents: &dyn Documents) -> Option<Chain> {
    let Source { section, tagged, version, snapshot, current, .. } = source;
    let history = store.history(&section.path)?;
    let is_current = |at: &usize| history.versions[*at].snapshot.text() == current.text();
    let ours = (0..history.versions.len()).rev().find(is_current).and_then(|at| history.steps(*version, at));
    if let Some(steps) = ours {
        return Chain::new(snapshot.text(), current.text(), steps);
    }
    let log = documents.changes(&section.path, &history.versions[*tagged].snapshot)?;
    if !log.is_complete() {
        return None;
    }
    let own = history.steps(*version, *tagged)?;
    let steps = own.into_iter().chain(log.steps().iter().map(Vec::as_slice));
    Chain::new(snapshot.text(), current.text(), steps)
}

/// Where a place is now: its lines untouched, and for an insertion the lines on both its sides
/// still next to each other. (Something that now stands between may be this very edit.)
fn follow(chain: &Chain, place: Place, old: &Lines, new: &Lines) -> Option<Place> {
    let line = |line: usize| chain.line(old, new, line, line);
    // The lines around a point, by the line above it: both must be there, or be the file's ends.
    let between = |above: usize| -> Option<usize> {
        let upper = if above == 0 { 0 } else { line(above)? };
        let lower = if above == old.count() { new.count() + 1 } else { line(above + 1)? };
        (upper + 1 == lower).then_some(upper)
    };
    match place {
        Place::Lines { first, last } => {
            let start = chain.line(old, new, first, last)?;
            Some(Place::Lines { first: start, last: start + (last - first) })
        }
        Place::Before(at) => between(at - 1).map(|upper| Place::Before(upper + 1)),
        Place::After(at) => between(at).map(Place::After),
        Place::Head => between(0).map(|_| Place::Head),
        Place::End => between(old.count()).map(|_| Place::End),
    }
}
