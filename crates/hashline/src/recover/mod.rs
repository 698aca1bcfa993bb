//! Mapping of hunks from a version's lines to the current text's lines.

mod applied;
mod merge;
mod recorded_edits;
pub(crate) mod recovery;

use crate::lines::align::Fate;
use crate::lines::line_edits::{self, Hunk, HunkPlace};
use crate::lines::remap::{Located, Remap, across};
use crate::recover::merge::Merge;
use crate::recover::recorded_edits::HunkFate;
use crate::render::refusal::Problem;
use crate::snapshot::chain::Chain;
use crate::source::Source;
use crate::{Documents, FileOp, Lines, Note, NoteKind, Reason, Recovery, SnapshotStore, Strategy};

/// Hunks in lines of the current text.
pub(crate) struct MappedHunks {
    /// One hunk per operation; `None` if nothing is left to do.
    pub hunks: Vec<Option<Hunk>>,
    /// The way in which each was found.
    pub recovery: Vec<Recovery>,
    pub notes: Vec<Note>,
}

impl MappedHunks {
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

pub(crate) fn map_hunks(
    source: &Source<'_>,
    hunks: &[Hunk],
    store: &mut SnapshotStore,
    documents: &dyn Documents,
) -> Result<MappedHunks, Problem> {
    let Source { section, tagged, version, snapshot, current, .. } = source;
    let lines = snapshot.lines();
    let own = version == tagged;
    if own && lines.text() == current.text() {
        return Ok(MappedHunks::all(hunks, Strategy::Exact, Vec::new()));
    }
    if own && lines.same_lines(current) {
        let note = Note::new(NoteKind::LineEnds, "only line ends of the file changed since it was read");
        return Ok(MappedHunks::all(hunks, Strategy::Exact, vec![note]));
    }
    if section.ops.is_empty() {
        return Err(stale(source, None));
    }
    let chain = chain(source, store, documents);
    let fate: Vec<HunkFate> = match &chain {
        Some(chain) => {
            hunks.iter().map(|hunk| recorded_edits::hunk_fate(chain, hunk, lines, current)).collect()
        }
        None => vec![HunkFate::Nothing; hunks.len()],
    };
    let placed = |fate: &HunkFate| match fate {
        HunkFate::At(place) => Some((*place, Strategy::Chain)),
        _ => None,
    };
    let mut places: Vec<Option<(HunkPlace, Strategy)>> = fate.iter().map(placed).collect();
    let mut done: Vec<bool> = fate.iter().map(|fate| *fate == HunkFate::Done).collect();
    if places.iter().all(Option::is_none)
        && section.file_op == FileOp::Keep
        && text::apply(lines.text(), &line_edits::edits(lines, hunks)).as_deref() == Ok(&**current.text())
        && is_done(hunks, &fate, lines, current)
    {
        return Ok(MappedHunks::all(hunks, Strategy::AlreadyApplied, vec![recovery::already_applied()]));
    }
    let mut blanks = None;
    if places.iter().zip(&done).any(|(place, done)| place.is_none() && !done) {
        // Numbers from an earlier version are mapped through recorded edits only.
        if !own {
            return Err(stale(source, None));
        }
        let mut remap = Remap::new(lines, current);
        let mut merge = Merge::default();
        let open = hunks.iter().zip(&mut places).zip(&fate);
        let asked = |fate: &HunkFate| !matches!(fate, HunkFate::At(_) | HunkFate::Done | HunkFate::Repeated);
        for ((hunk, place), _) in open.filter(|(_, fate)| asked(fate)) {
            // Recorded edits that touched the lines overrule the current text, unless they rewrote
            // everything.
            if let Some(chain) =
                chain.as_ref().filter(|chain| !chain.is_rewritten(lines, current, hunk.place))
            {
                let found = recorded_edits::beside(chain, hunk.place, lines, current);
                *place = found.map(|place| (place, Strategy::Chain));
            } else {
                match remap.find(hunk.place) {
                    Located::At(found) => *place = Some((found, Strategy::Remap)),
                    Located::Blanks => blanks = blanks.or(hunk.place.lines()),
                    Located::Nowhere => {
                        let found = merge.find(&mut remap, hunk.place);
                        *place = found.map(|place| (place, Strategy::Merge));
                    }
                }
            }
            place.take_if(|(place, strategy)| repeats(hunk, *place, *strategy, &mut remap));
        }
        let wanted = |(place, fate): (&Option<_>, &HunkFate)| place.is_none() && fate.may_be_done();
        let wanted: Vec<bool> = places.iter().zip(&fate).map(wanted).collect();
        if wanted.contains(&true) {
            let stands = applied::applied(&mut remap, hunks, &wanted);
            done.iter_mut().zip(stands).for_each(|(done, stands)| *done |= stands);
        }
    }
    if done.contains(&true) {
        let left = applied::leaves(hunks, &done, lines, current);
        done.iter_mut().zip(left).for_each(|(done, left)| *done &= !left);
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
    Ok(MappedHunks { hunks, recovery, notes })
}

/// Whether a text equals the hunks' result because they were made.
///
/// No line that they change may be left, and the text they insert must be new.
fn is_done(hunks: &[Hunk], fate: &[HunkFate], old: &Lines, new: &Lines) -> bool {
    let mut remap: Option<Remap<'_>> = None;
    hunks.iter().zip(fate).all(|(hunk, fate)| match fate {
        HunkFate::Done | HunkFate::Gone => true,
        HunkFate::Left | HunkFate::Repeated | HunkFate::At(_) => false,
        HunkFate::Nothing => applied::is_replaced(remap.get_or_insert_with(|| Remap::new(old, new)), hunk),
    })
}

/// Whether the rows to insert already exist next to the line.
///
/// This matters if the line's neighbour may no longer be next to it: then this may be the same edit
/// again.
fn repeats(hunk: &Hunk, place: HunkPlace, strategy: Strategy, remap: &mut Remap<'_>) -> bool {
    let Some((other, beside)) = across(hunk.place, place) else { return false };
    let (old, new, count) = (remap.old, remap.new, hunk.rows.len());
    let at = other.min(old.count()).max(1);
    let near = (at, at);
    // Recorded edits take precedence over the texts.
    let is_gap = strategy == Strategy::Chain || remap.fate(near, other) == Fate::At(beside);
    if is_gap && old.content(other) == new.content(beside) {
        return false;
    }
    let (firsts, around) = if matches!(place, HunkPlace::Before(_)) {
        let end = (beside + 1).saturating_sub(count);
        (end.saturating_sub(NEAR - 1).max(1)..end + 1, other.saturating_sub(FAR).max(1)..=other)
    } else {
        (beside..beside + NEAR, other..=(other + FAR).min(old.count()))
    };
    let stand = |first: &usize| hunk.rows.iter().zip(*first..).all(|(row, line)| new.content(line) == row);
    let mut stand = firsts.filter(stand).peekable();
    if stand.peek().is_none() {
        return false;
    }
    // Rows that all existed before are not from this edit.
    let stood: Vec<Fate> = around.map(|line| remap.fate(near, line)).collect();
    stand.any(|first| !(first..first + count).all(|line| stood.contains(&Fate::At(line))))
}

/// Maximum distance in lines at which a repeated insertion is searched.
const NEAR: usize = 16;
/// Maximum distance in lines at which earlier lines are searched.
const FAR: usize = 64;

fn stale(source: &Source<'_>, blanks: Option<(usize, usize)>) -> Problem {
    let tag = source.tag;
    let message = match blanks {
        Some(lines) => format!(
            "the blanks at the end of {} changed since tag {tag} was shown; write the edit for the lines below",
            recovery::named(lines)
        ),
        None => format!(
            "the file changed since tag {tag} and the lines cannot be located; write the edit for the lines below"
        ),
    };
    Problem::new(Reason::Stale, message)
}

/// Whether the hunks kept their order, and overlap no more than before.
fn in_order(hunks: &[Hunk], places: &[Option<(HunkPlace, Strategy)>], old: &Lines, new: &Lines) -> bool {
    let order = line_edits::sorted(hunks, old.count());
    let placed = order.iter().filter_map(|(at, _)| Some(line_edits::extent(&places[*at]?.0, new.count())));
    let mut free = 0;
    placed.into_iter().all(|(above, removed)| {
        let fits = above >= free;
        free = above + removed;
        fits
    })
}

/// The recorded edits from the version to the current text.
///
/// Combines the store's own edits and those that the caller knows.
fn chain(source: &Source<'_>, store: &mut SnapshotStore, documents: &dyn Documents) -> Option<Chain> {
    let Source { section, tagged, version, snapshot, current, .. } = source;
    let history = store.history(&section.path)?;
    let ours = history.find_text(current.text()).and_then(|at| history.steps(*version, at));
    if let Some(steps) = ours {
        return Chain::new(snapshot.text(), current.text(), steps);
    }
    let since = if version == tagged { snapshot.clone() } else { history.snapshot(*tagged)? };
    let log = documents.changes(&section.path, &since)?;
    if !log.is_complete() {
        return None;
    }
    let own = history.steps(*version, *tagged)?;
    let steps = own.into_iter().chain(log.steps().iter().map(Vec::as_slice));
    Chain::new(snapshot.text(), current.text(), steps)
}
