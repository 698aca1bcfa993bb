//! Check that the model was shown every line that an operation touches.
//!
//! Deleting a file touches all of its lines.

use crate::format::patch::FileOp;
use crate::lines::line_edits::Hunk;
use crate::recover::MappedHunks;
use crate::render::LONGEST;
use crate::render::refusal::Problem;
use crate::source::Source;
use crate::{Reason, SnapshotStore};

/// Maximum number of unseen lines shown in a refusal, which then count as seen.
pub(crate) const MAX_UNSEEN: usize = 40;

/// Refuses lines that the model was not shown in the version it names.
///
/// A few of them are shown, and count as seen from then on.
pub(crate) fn unseen(
    source: &Source<'_>,
    hunks: &[Hunk],
    store: &mut SnapshotStore,
    mapped: &MappedHunks,
) -> Result<(), Problem> {
    let Some(history) = store.history(&source.section.path) else { return Ok(()) };
    let seen = &history.versions[source.version].seen;
    // Each pair has a line of the named version and of the current text.
    let mut missing: Vec<(usize, usize)> = Vec::new();
    for (hunk, placed) in hunks.iter().zip(&mapped.hunks) {
        // An operation that is done already touches no line.
        let Some(placed) = placed else { continue };
        let Some(((first, last), (now, _))) = hunk.place.lines().zip(placed.place.lines()) else { continue };
        missing.extend(seen.missing(first..=last).into_iter().map(|line| (line, line - first + now)));
    }
    if source.section.file_op == FileOp::Remove {
        // The version's text is the current one except for line ends.
        let all = seen.missing(1..=source.snapshot.lines().count());
        missing.extend(all.into_iter().map(|line| (line, line)));
    }
    missing.sort_unstable();
    missing.dedup();
    let (Some((_, first)), Some((_, last))) = (missing.first(), missing.last()) else { return Ok(()) };
    let named = if first == last { format!("line {first}") } else { format!("lines {first} to {last}") };
    let touches = if source.section.file_op == FileOp::Remove { "deletes" } else { "touches" };
    let (lines, show): (Vec<usize>, Vec<usize>) = missing.iter().copied().unzip();
    let fits = |line: &usize| source.current.content(*line).len() <= LONGEST;
    if show.len() > MAX_UNSEEN || !show.iter().all(fits) {
        let message =
            format!("the edit {touches} {} of {named} that were not shown; read them first", show.len());
        return Err(Problem::new(Reason::UnseenLines, message));
    }
    store.see_version(&source.section.path, source.version, &lines);
    let were = if first == last { "was" } else { "were" };
    let message =
        format!("the edit {touches} {named}, which {were} not shown; check below, then send the edit again");
    Err(Problem { reason: Reason::UnseenLines, message, show })
}
