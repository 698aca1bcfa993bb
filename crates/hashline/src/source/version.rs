//! The version that a section's numbers belong to.
//!
//! A fresh tag with numbers from before the model's own last edit is the commonest mistake, so the
//! numbers are tried in every stored version. They are accepted only if no other version fits.

use crate::format::patch::{Anchor, Op, Section};
use crate::lines::align::Fate;
use crate::lines::remap::Remap;
use crate::snapshot::chain::Chain;
use crate::snapshot::history::{History, Version};
use crate::{Lines, Reason, Snapshot, View};

/// Maximum distance in lines at which a line with the right check is searched.
const NEAR: usize = 64;

/// Distance within which another line with the same check makes a check doubtful.
///
/// A check has 576 values, and the distance counts in both directions.
const CLOSE: usize = 16;

/// The version and offset at which a section's numbers fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// Index of the version whose lines they name.
    ///
    /// It is the tagged one, or an earlier one from which the session's own edits lead to it.
    pub version: usize,
    /// The offset from each number to its line in that version.
    ///
    /// It is not zero if the version of the numbers is gone, and their checks identify the lines.
    pub shift: isize,
}

/// Finds the version that the numbers belong to.
///
/// `view` matters because an anchor without a check may be a number from another version if the model was
/// shown checks.
pub(crate) fn resolve(
    history: &History,
    tagged: usize,
    snapshot: &Snapshot,
    section: &Section,
    view: View,
) -> Result<Resolved, (Reason, String)> {
    let anchors = section.anchors();
    let here = Resolved { version: tagged, shift: 0 };
    let others = history.versions.iter().enumerate().filter(|(at, _)| *at != tagged);
    let agreeing = |other: &Version| {
        was_shown(other, &anchors)
            .then(|| history.text_of(other))
            .flatten()
            .filter(|snapshot| agrees(snapshot.lines(), &anchors))
    };
    if agrees(snapshot.lines(), &anchors) {
        let proven = view.shows_checks() || anchors.iter().any(|anchor| anchor.check.is_some());
        // A line that a refusal showed is named as the refusal showed it.
        let refusal_lines = &history.versions[tagged].refusal_lines;
        if !proven
            || (!anchors.is_empty() && anchors.iter().all(|anchor| refusal_lines.contains(anchor.line)))
        {
            return Ok(here);
        }
        let tagged = history.versions[tagged].id();
        for other in others.map(|(_, other)| other).chain(&history.ghosts) {
            if let Some(text) = agreeing(other)
                && let Some(anchor) = differing(history, (other.id(), &text), (tagged, snapshot), &anchors)
            {
                let message = format!(
                    "`{}` means different lines in two versions (tags {} and {}); name each line by number and check",
                    anchor,
                    snapshot.tag(),
                    text.tag()
                );
                return Err((Reason::Ambiguous, message));
            }
        }
        let lost = anchors.iter().any(|anchor| history.was_forgotten(anchor.line));
        if lost && !echoes(section, snapshot.lines(), 0) && fits_nearby(snapshot.lines(), &anchors) {
            let message = "the numbers may refer to a text that is no longer stored; check below, then send the edit again";
            return Err((Reason::Ambiguous, message.to_owned()));
        }
        return Ok(here);
    }
    // Numbers without checks prove nothing about another version.
    let all_checked = anchors.iter().all(|anchor| anchor.check.is_some());
    let mismatch = || (Reason::CheckMismatch, mismatch(snapshot, &anchors));
    if !all_checked {
        return Err(mismatch());
    }
    let recorded = history.versions[tagged].recorded;
    let all = others.map(|(at, other)| (Some(at), other));
    let all = all.chain(history.ghosts.iter().map(|ghost| (None, ghost)));
    let mut places: Option<Vec<usize>> = None;
    // Use the newest of those that agree: the text before its edit decides whether this is the same
    // edit again.
    let mut newest = None;
    for (at, other) in all.filter(|(_, other)| other.recorded < recorded) {
        let Some(text) = agreeing(other) else { continue };
        let of = (other.id(), &*text);
        let here = (history.versions[tagged].id(), snapshot);
        let found = mapped(history, of, here, &anchors).ok_or_else(mismatch)?;
        if places.as_ref().is_some_and(|places| *places != found) {
            let message = "the numbers mean different lines in two earlier versions; name lines by the numbers and checks below";
            return Err((Reason::Ambiguous, message.to_owned()));
        }
        places = Some(found);
        newest = newest.max(Some((other.recorded, at)));
    }
    // Nothing is planned on a ghost, nor if the newest may be one that is permanently lost.
    let lost = anchors.iter().any(|anchor| history.was_forgotten(anchor.line));
    if let Some((_, Some(version))) = newest
        && !lost
    {
        return Ok(Resolved { version, shift: 0 });
    }
    let shift = near(snapshot.lines(), section, &anchors).ok_or_else(mismatch)?;
    let near = anchors.iter().map(|anchor| anchor.line.saturating_add_signed(shift));
    if places.is_some_and(|places| !places.iter().copied().eq(near)) {
        return Err(mismatch());
    }
    Ok(Resolved { version: tagged, shift })
}

/// The offset of all numbers from their lines.
///
/// It is found if each check matches one line only near its number, all at the same distance, and
/// a second anchor or the body confirms it.
fn near(lines: &Lines, section: &Section, anchors: &[Anchor]) -> Option<isize> {
    let mut shift = None;
    for anchor in anchors {
        let found = with_check(lines, anchor)?;
        let by = found as isize - anchor.line as isize;
        if shift.is_some_and(|shift| shift != by) {
            return None;
        }
        shift = Some(by);
    }
    shift.filter(|shift| is_two(anchors) || echoes(section, lines, *shift))
}

/// Whether all checks also match other lines at one common offset.
///
/// Those are twins, or lines so close that an edit may have moved them.
fn fits_nearby(lines: &Lines, anchors: &[Anchor]) -> bool {
    let fits = |by: isize| {
        anchors.iter().all(|anchor| {
            let Some(at) = anchor.line.checked_add_signed(by) else { return false };
            let is_line = (1..=lines.count()).contains(&at);
            let is_twin = || lines.content(at) == lines.content(anchor.line);
            is_line
                && lines.check(at) == lines.check(anchor.line)
                && (by.unsigned_abs() <= CLOSE || is_twin())
        })
    };
    !anchors.is_empty() && (1..=NEAR as isize).flat_map(|by| [by, -by]).any(fits)
}

/// The only line near the anchor's number that has its check.
fn with_check(lines: &Lines, anchor: &Anchor) -> Option<usize> {
    let check = anchor.check?;
    let mut near = anchor.line.saturating_sub(NEAR).max(1)..=(anchor.line + NEAR).min(lines.count());
    let found = near.find(|line| lines.check(*line) == check)?;
    near.all(|line| lines.check(line) != check).then_some(found)
}

/// Whether the anchors name two different lines.
fn is_two(anchors: &[Anchor]) -> bool {
    anchors.iter().any(|anchor| anchor.line != anchors[0].line)
}

/// Whether a body repeats the named line, and the line is distinctive enough.
fn echoes(section: &Section, lines: &Lines, shift: isize) -> bool {
    let echo = |op: &Op, anchor: &Anchor| {
        let Op::Put { body, .. } = op else { return false };
        let line = anchor.line.saturating_add_signed(shift);
        let content = lines.content(line);
        let is_distinctive = content.chars().filter(|c| c.is_alphanumeric()).count() >= DISTINCTIVE;
        let mut near = line.saturating_sub(NEAR).max(1)..=(line + NEAR).min(lines.count());
        is_distinctive
            && body.iter().any(|row| row == content)
            && near.all(|other| other == line || lines.content(other) != content)
    };
    section.ops.iter().any(|op| op.anchors().iter().any(|anchor| echo(op, anchor)))
}

/// Minimum number of letters and digits of a line that counts as evidence.
const DISTINCTIVE: usize = 3;

fn agrees(lines: &Lines, anchors: &[Anchor]) -> bool {
    anchors.iter().all(|anchor| {
        anchor.line <= lines.count() && anchor.check.is_none_or(|check| check == lines.check(anchor.line))
    })
}

/// Whether this version showed all numbers; else they cannot come from it.
fn was_shown(version: &Version, anchors: &[Anchor]) -> bool {
    anchors.iter().all(|anchor| version.seen.contains(anchor.line))
}

fn mapped(
    history: &History,
    (from, old): (u64, &Snapshot),
    (to, new): (u64, &Snapshot),
    anchors: &[Anchor],
) -> Option<Vec<usize>> {
    let (old, new) = (old.lines(), new.lines());
    let chain = Chain::new(old.text(), new.text(), history.steps_between(from, to)?)?;
    anchors.iter().map(|anchor| chain.line(old, new, anchor.line, anchor.line)).collect()
}

/// The first anchor whose number means different lines in two versions.
///
/// The session's own edits decide if they lead from one to the other, else the lines that every
/// shortest script keeps.
fn differing<'a>(
    history: &History,
    a: (u64, &Snapshot),
    b: (u64, &Snapshot),
    anchors: &'a [Anchor],
) -> Option<&'a Anchor> {
    for ((from, old), (to, new)) in [(a, b), (b, a)] {
        let (old, new) = (old.lines(), new.lines());
        let chain =
            history.steps_between(from, to).and_then(|steps| Chain::new(old.text(), new.text(), steps));
        if let Some(chain) = chain {
            let stays = |line: usize| chain.line(old, new, line, line) == Some(line);
            return anchors.iter().find(|anchor| !stays(anchor.line));
        }
    }
    let (old, new) = (a.1.lines(), b.1.lines());
    if old.same_lines(new) {
        return None;
    }
    let mut remap = Remap::new(old, new);
    // If the shortest scripts disagree, a twin of the line may now have its number.
    anchors.iter().find(|anchor| remap.fate((anchor.line, anchor.line), anchor.line) != Fate::At(anchor.line))
}

fn mismatch(snapshot: &Snapshot, anchors: &[Anchor]) -> String {
    let lines = snapshot.lines();
    let mut messages = Vec::new();
    for anchor in anchors {
        if anchor.line > lines.count() {
            messages.push(format!("line {} does not exist, the text has {}", anchor.line, lines.count()));
            continue;
        }
        let Some(check) = anchor.check.filter(|check| *check != lines.check(anchor.line)) else { continue };
        let hint = match with_check(lines, anchor) {
            Some(line) => format!(" (`{}` is at line {line})", check),
            None => String::new(),
        };
        messages.push(format!(
            "`{}` is not a line of this text, whose line {} is `{}`{hint}",
            anchor,
            anchor.line,
            Anchor { check: Some(lines.check(anchor.line)), ..*anchor },
        ));
    }
    messages.truncate(4);
    format!("{}; use the numbers and checks below", messages.join("; "))
}
