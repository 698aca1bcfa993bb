//! Lines that an operation touches and that the model was never shown; who deletes a file touches
//! all of them.

use crate::patch::FileOp;
use crate::recover::Way;
use crate::refuse::{LONGEST, Problem};
use crate::source::Source;
use crate::surgery::Hunk;
use crate::{Reason, SnapshotStore};

/// So many unseen lines are shown in a refusal, and then count as seen.
pub const MAX_UNSEEN: usize = 40;

/// Refuses lines that the model was not shown in the version it names. A few of them are shown,
/// and count as seen from then on.
pub(crate) fn unseen(
    source: &Source<'_>,
    hunks: &[Hunk],
    store: &mut SnapshotStore,
    way: &Way,
) -> Result<(), Problem> {
    let Some(history) = store.history(&source.section.path) else { return Ok(()) };
    let seen = &history.versions[source.version].seen;
    // The lines in the version named, and where they are in the current text.
    let mut missing: Vec<(usize, usize)> = Vec::new();
    for (hunk, placed) in hunks.iter().zip(&way.hunks) {
        // What is done already touches nothing.
        let Some(placed) = placed else { continue };
        let Some(((first, last), (now, _))) = hunk.place.lines().zip(placed.place.lines()) else { continue };
        missing.extend(seen.missing(first..=last).into_iter().map(|line| (line, line - first + now)));
    }
    if source.section.file_op == FileOp::Remove {
        // Its text is the current one but for line ends.
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
        let message = format!("it {touches} {} of {named} that were not shown; read them first", show.len());
        return Err(Problem::new(Reason::UnseenLines, message));
    }
    store.see_version(&source.section.path, source.version, &lines);
    let message = format!(
        "it {touches} {named}, which was not shown; look below, and send the same edit again if it is right"
    );
    Err(Problem { reason: Reason::UnseenLines, message, show })
}
