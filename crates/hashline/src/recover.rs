//! From hunks in lines of a version to hunks in lines of the text as it is now.

use crate::chain::Chain;
use crate::merge::Merge;
use crate::refuse::Problem;
use crate::remap::{Found, Remap};
use crate::source::Source;
use crate::surgery::{self, Hunk, Place};
use crate::{
    Documents, FileOp, Lines, Note, NoteKind, Reason, Recovery, SnapshotStore, Strategy, applied, recovery,
};

/// The hunks in lines of the current text.
pub(crate) struct Way {
    /// One per operation; `None` for one that has nothing left to do.
    pub hunks: Vec<Option<Hunk>>,
    /// How each was found.
    pub recovery: Vec<Recovery>,
    pub notes: Vec<Note>,
}

impl Way {
    fn all(hunks_written: &[Hunk], strategy: Strategy, notes: Vec<Note>) -> Self {
        let hunks: Vec<Option<Hunk>> = match strategy {
            Strategy::AlreadyApplied => vec![None; hunks_written.len()],
            _ => hunks_written.iter().cloned().map(Some).collect(),
        };
        let place = |hunk: &Option<Hunk>| hunk.as_ref().map(|hunk| hunk.place);
        let recovery = hunks_written.iter().zip(&hunks);
        let recovery = recovery.map(|(was, now)| Recovery::new(strategy, was.place, place(now))).collect();
        Self { hunks, recovery, notes }
    }
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
        return Ok(Way::all(hunks, Strategy::Exact, Vec::new()));
    }
    if own && lines.same_lines(current) {
        let note = Note::new(NoteKind::LineEnds, "only line ends of the file changed since it was read");
        return Ok(Way::all(hunks, Strategy::Exact, vec![note]));
    }
    if section.ops.is_empty() {
        return Err(stale(source, None));
    }
    let result = text::apply(lines.text(), &surgery::edits(lines, hunks)).ok();
    if result.as_deref() == Some(&**current.text()) && section.file_op == FileOp::Keep {
        return Ok(Way::all(hunks, Strategy::AlreadyApplied, vec![recovery::already_applied()]));
    }
    let chain = chain(source, store, documents);
    let mut places: Vec<Option<(Place, Strategy)>> = hunks
        .iter()
        .map(|hunk| {
            let place = chain.as_ref().and_then(|chain| follow(chain, hunk.place, lines, current))?;
            Some((place, Strategy::Chain))
        })
        .collect();
    let mut blanks = None;
    let mut done = vec![false; hunks.len()];
    if places.iter().any(Option::is_none) {
        // Numbers from an earlier version are followed by recorded edits only.
        if !own {
            return Err(stale(source, None));
        }
        let mut remap = Remap::new(lines, current);
        let mut merge = Merge::default();
        for (hunk, place) in hunks.iter().zip(&mut places).filter(|(_, place)| place.is_none()) {
            // Recorded edits that touched the lines are known to have touched them, whatever stands
            // there now; unless they wrote everything anew.
            if let Some(chain) =
                chain.as_ref().filter(|chain| !chain.is_rewritten(lines, current, hunk.place))
            {
                let found = beside(chain, hunk.place, lines, current);
                *place = found.map(|place| (place, Strategy::Chain));
            } else {
                match remap.find(hunk.place) {
                    Found::At(found) => *place = Some((found, Strategy::Remap)),
                    Found::Blanks => blanks = blanks.or(hunk.place.lines()),
                    Found::Nowhere => {
                        let found = merge.find(&mut remap, hunk.place);
                        *place = found.map(|place| (place, Strategy::Merge));
                    }
                }
            }
            place.take_if(|(place, _)| repeats(hunk, *place, lines, current));
        }
        let wanted: Vec<bool> = places.iter().map(Option::is_none).collect();
        if wanted.contains(&true) {
            done = applied::applied(&mut remap, hunks, &wanted);
        }
    }
    let missing = places.iter().zip(&done).any(|(place, done)| place.is_none() && !done);
    if missing || !in_order(hunks, &places, lines, current) {
        return Err(stale(source, blanks));
    }
    let recovery: Vec<Recovery> = hunks
        .iter()
        .zip(&places)
        .map(|(hunk, place)| match place {
            Some((place, strategy)) => Recovery::new(*strategy, hunk.place, Some(*place)),
            None => Recovery::new(Strategy::AlreadyApplied, hunk.place, None),
        })
        .collect();
    let earlier = (!own).then(|| snapshot.tag());
    let notes = recovery::notes(&recovery, earlier);
    let placed = hunks.iter().zip(places);
    let hunks = placed.map(|(hunk, place)| Some(Hunk { place: place?.0, rows: hunk.rows.clone() })).collect();
    Ok(Way { hunks, recovery, notes })
}

/// Where a point is now whose one neighbour is, by the recorded edits, the line that was named, and
/// whose other neighbour they touched.
fn beside(chain: &Chain, place: Place, old: &Lines, new: &Lines) -> Option<Place> {
    let line = |line: usize| chain.line(old, new, line, line);
    match place {
        Place::Before(at) if at > 1 && line(at - 1).is_none() => line(at).map(Place::Before),
        Place::After(at) if at < old.count() && line(at + 1).is_none() => line(at).map(Place::After),
        _ => None,
    }
}

/// Whether the rows to be inserted stand there already, beside a neighbour that changed: then this
/// may be the same edit again.
fn repeats(hunk: &Hunk, place: Place, old: &Lines, new: &Lines) -> bool {
    let count = hunk.rows.len();
    let (first, neighbour, was) = match (hunk.place, place) {
        (Place::After(was), Place::After(now)) => (now + 1, now + 1, was + 1),
        (Place::Before(was), Place::Before(now)) => (now.saturating_sub(count), now - 1, was - 1),
        _ => return false,
    };
    let changed = old.content(was) != new.content(neighbour);
    changed && first > 0 && hunk.rows.iter().zip(first..).all(|(row, line)| new.content(line) == row)
}

fn stale(source: &Source<'_>, blanks: Option<(usize, usize)>) -> Problem {
    let tag = source.tag;
    let message = match blanks {
        Some(lines) => format!(
            "the blanks at the end of {} changed since tag {tag} was shown; write the edit for the lines below",
            recovery::named(lines)
        ),
        None => format!(
            "the file changed since tag {tag} was shown, and the lines named cannot be followed; write the edit for the lines below"
        ),
    };
    Problem::new(Reason::Stale, message)
}

/// Whether the hunks still stand in the order they had, and in each other's way no more than before.
fn in_order(hunks: &[Hunk], places: &[Option<(Place, Strategy)>], old: &Lines, new: &Lines) -> bool {
    let order = surgery::sorted(hunks, old.count());
    let placed = order.iter().filter_map(|(at, _)| Some(surgery::extent(&places[*at]?.0, new.count())));
    let mut free = 0;
    placed.into_iter().all(|(above, removed)| {
        let fits = above >= free;
        free = above + removed;
        fits
    })
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
