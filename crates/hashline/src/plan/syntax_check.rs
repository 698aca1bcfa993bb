//! Check of an edit's effect on a text's syntax, the last step of a plan.
//!
//! An edit that parses is never touched. If a text parsed and would not any more, a body that repeats the
//! lines beside its place, or a range one line too wide, is repaired if exactly one such repair makes it
//! parse again. Otherwise the edit is made as written, with a warning that names the line, or refused if the
//! user's settings ask for that.

use std::sync::Arc;

use text::TextEdit;

use crate::format::patch::Op;
use crate::lines::line_edits::{self, Hunk, HunkPlace};
use crate::lines::only_closes;
use crate::plan::boundary::{self, indent};
use crate::{Broken, Judgement, Lines, Note, NoteKind, Options, ParseRegression, Reason, Syntax};

/// Maximum number of body rows that a repair may drop at one end as a repetition.
const ECHO: usize = 3;
/// Maximum number of repairs to try; beyond it, none is made.
const MOST: usize = 24;

/// An accepted edit.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub hunks: Vec<Hunk>,
    pub edits: Vec<TextEdit>,
    pub notes: Vec<Note>,
}

/// The reason why an edit is refused.
#[derive(Debug)]
pub(crate) struct Rejected {
    pub reason: Reason,
    pub message: String,
    /// Lines of the text before the edit to show.
    pub show: Vec<usize>,
}

/// Checks hunks (one per operation, placed in `lines`) and their non-empty `edits`.
///
/// `paths` are the file's current and future path.
pub(crate) fn check(
    paths: (&str, &str),
    ops: &[Op],
    lines: &Lines,
    hunks: Vec<Hunk>,
    edits: Vec<TextEdit>,
    options: Options<'_>,
) -> Result<Accepted, Rejected> {
    let asked = options
        .syntax
        .and_then(|syntax| Some((syntax, syntax.judge(paths.0, paths.1, lines.text(), &edits)?)));
    let Some((syntax, judgement)) = asked else {
        let notes = boundaries(ops, &hunks, lines, false);
        return Ok(Accepted { hunks, edits, notes });
    };
    let nearby = judgement.nearby.then(|| {
        Note::new(
            NoteKind::CheckedNearby,
            "checked nearby: of this large file only the lines around the edit were parsed",
        )
    });
    let Some(first) = judgement.broken.first() else {
        let mut notes = boundaries(ops, &hunks, lines, !judgement.was_broken);
        notes.extend(nearby);
        return Ok(Accepted { hunks, edits, notes });
    };
    if !judgement.was_broken
        && let Some(repair) = only_repair(paths, ops, lines, &hunks, syntax)
    {
        let mut notes = vec![repair.note(first)];
        notes.extend(boundaries(ops, &repair.hunks, lines, true));
        notes.extend(nearby);
        return Ok(Accepted { hunks: repair.hunks, edits: repair.edits, notes });
    }
    if options.parse_regression == ParseRegression::Refuse && !judgement.was_broken {
        let edge = boundaries(ops, &hunks, lines, false).into_iter().next();
        return Err(rejected(&judgement, first, edge, &hunks, lines));
    }
    let mut notes = vec![warning(&judgement, first, lines.text(), &edits)];
    notes.extend(boundaries(ops, &hunks, lines, false));
    notes.extend(nearby);
    Ok(Accepted { hunks, edits, notes })
}

/// Notes on edges, only for text that the model wrote itself.
fn boundaries(ops: &[Op], hunks: &[Hunk], lines: &Lines, parses: bool) -> Vec<Note> {
    let written = ops.iter().zip(hunks).filter(|(op, _)| matches!(op, Op::Put { .. }));
    written.flat_map(|(_, hunk)| boundary::notes(hunk, lines, parses)).collect()
}

fn places(broken: &[Broken]) -> String {
    const SHOWN: usize = 3;
    let mut named: Vec<String> =
        broken.iter().take(SHOWN).map(|broken| format!("line {}: {}", broken.line, broken.message)).collect();
    if broken.len() > SHOWN {
        named.push(format!("{} more", broken.len() - SHOWN));
    }
    named.join("; ")
}

fn warning(judgement: &Judgement, first: &Broken, before: &Arc<str>, edits: &[TextEdit]) -> Note {
    let what = if judgement.was_broken {
        "the file did not parse before, and has a further error now"
    } else {
        "the file parsed before this edit and does not now"
    };
    let mut look = first.line;
    let mut line = String::new();
    if let Ok(after) = text::apply(before, edits) {
        let after = Lines::new(after.into());
        if !judgement.was_broken {
            look = culprit(&judgement.broken, first, &after, edits);
        }
        let content = after.content(look.min(after.count())).trim();
        if !content.is_empty() && content.len() <= 200 {
            line = format!(" (`{content}`)");
        }
    }
    let message = format!(
        "{what}; it was applied as written. Look at line {look}{line}: {}",
        places(&judgement.broken)
    );
    Note::new(NoteKind::ParseRegression, message)
}

/// The relevant line in a text that parsed before.
///
/// Prefers a broken line that the edits wrote, else the written line nearest to the position that
/// the parser reports, which may be lines away.
fn culprit(broken: &[Broken], first: &Broken, after: &Lines, edits: &[TextEdit]) -> usize {
    let mut shift = 0isize;
    let written: Vec<(usize, usize)> = edits
        .iter()
        .map(|edit| {
            let start = edit.range.start.saturating_add_signed(shift);
            shift += edit.growth();
            let end = start + edit.new_text.trim_end_matches(['\n', '\r']).len();
            (after.line_of(start), after.line_of(end))
        })
        .collect();
    let is_written = |line: usize| written.iter().any(|(from, to)| (*from..=*to).contains(&line));
    let written_line = broken.iter().find(|broken| is_written(broken.line)).map(|broken| broken.line);
    let nearest = || {
        let lines = written.iter().map(|(from, to)| first.line.clamp(*from, *to));
        lines.min_by_key(|line| line.abs_diff(first.line))
    };
    written_line.or_else(nearest).unwrap_or(first.line)
}

/// Builds the rejection; `edge` is a fault at an edge that explains the error.
fn rejected(
    judgement: &Judgement,
    first: &Broken,
    edge: Option<Note>,
    hunks: &[Hunk],
    lines: &Lines,
) -> Rejected {
    let nearby = if judgement.nearby { " (only the lines around the edit were parsed)" } else { "" };
    let (reason, instead) = match edge {
        Some(edge) => (Reason::Boundary, format!("as it is written, {}", edge.message)),
        None => {
            let fits = format!("write the edit so that line {} fits its surroundings", first.line);
            (Reason::ParseRegression, fits)
        }
    };
    let message = format!(
        "the file parses now and would not after this edit: {}{nearby}; {instead}",
        places(&judgement.broken),
    );
    let mut show: Vec<usize> = hunks
        .iter()
        .flat_map(|hunk| {
            let (above, below) = hunk.place.beside(lines.count());
            [above, above + 1, below.saturating_sub(1), below]
        })
        .filter(|line| (1..=lines.count()).contains(line))
        .collect();
    show.sort_unstable();
    show.dedup();
    Rejected { reason, message, show }
}

/// A repair that parses.
struct Repair {
    hunks: Vec<Hunk>,
    edits: Vec<TextEdit>,
    done: Vec<String>,
}

impl Repair {
    fn note(&self, first: &Broken) -> Note {
        let message = format!(
            "as written the file would not have parsed (line {}: {}), so {}; nothing else was changed",
            first.line,
            first.message,
            self.done.join(", and ")
        );
        Note::new(NoteKind::Repaired, message)
    }
}

/// The only small repair that parses; `None` if there is none, or more than one.
fn only_repair(
    paths: (&str, &str),
    ops: &[Op],
    lines: &Lines,
    hunks: &[Hunk],
    syntax: &dyn Syntax,
) -> Option<Repair> {
    let parses = |edits: &[TextEdit]| {
        syntax
            .judge(paths.0, paths.1, lines.text(), edits)
            .is_some_and(|judgement| !judgement.was_broken && judgement.broken.is_empty())
    };
    for at_both_ends in [false, true] {
        let mut tried: Vec<Vec<TextEdit>> = Vec::new();
        let mut found: Option<Repair> = None;
        for (at, op) in ops.iter().enumerate() {
            let Op::Put { old, .. } = op else { continue };
            for (hunk, done) in repairs(&hunks[at], lines, at_both_ends) {
                // Lines that the patch writes out are removed on purpose.
                if !old.is_empty() && hunk.place != hunks[at].place {
                    continue;
                }
                let mut hunks = hunks.to_vec();
                hunks[at] = hunk;
                let edits = line_edits::edits(lines, &hunks);
                if edits.is_empty() || tried.contains(&edits) {
                    continue;
                }
                if tried.len() == MOST {
                    return None;
                }
                tried.push(edits.clone());
                if !parses(&edits) {
                    continue;
                }
                if found.is_some() {
                    return None;
                }
                found = Some(Repair { hunks, edits, done });
            }
        }
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Possible repairs of a hunk: at one end, or at both.
fn repairs(hunk: &Hunk, lines: &Lines, at_both_ends: bool) -> Vec<(Hunk, Vec<String>)> {
    let heads = at_head(hunk, lines);
    let tails = |hunk: &Hunk| at_tail(hunk, lines);
    if !at_both_ends {
        return heads.into_iter().chain(tails(hunk)).map(|(hunk, done)| (hunk, vec![done])).collect();
    }
    heads
        .into_iter()
        .flat_map(|(hunk, head)| {
            tails(&hunk).into_iter().map(move |(hunk, tail)| (hunk, vec![head.clone(), tail]))
        })
        .collect()
}

fn dropped(rows: &[String], which: &str, lines: (usize, usize)) -> String {
    let (first, last) = lines;
    match rows {
        [row] => format!("the body's {which} row, which repeats line {first} `{}`, was left out", row.trim()),
        rows => format!(
            "the body's {which} {} rows, which repeat lines {first} to {last}, were left out",
            rows.len()
        ),
    }
}

fn at_head(hunk: &Hunk, lines: &Lines) -> Vec<(Hunk, String)> {
    let (above, _) = hunk.place.beside(lines.count());
    let mut out = Vec::new();
    for count in 1..=ECHO.min(above).min(hunk.rows.len().saturating_sub(1)) {
        let (rows, rest) = hunk.rows.split_at(count);
        let from = above + 1 - count;
        if rows.iter().zip(from..).all(|(row, line)| lines.content(line) == row) {
            let done = dropped(rows, "first", (from, above));
            out.push((Hunk { place: hunk.place, rows: rest.to_vec() }, done));
        }
    }
    if let HunkPlace::Lines { first, last } = hunk.place
        && first < last
        && let Some(row) = hunk.rows.iter().find(|row| !row.trim().is_empty())
        && is_lost(first, &hunk.rows, lines)
        && indent(row) > indent(lines.content(first))
    {
        let done = format!("line {first} `{}` was kept", lines.content(first).trim());
        out.push((
            Hunk { place: HunkPlace::Lines { first: first + 1, last }, rows: hunk.rows.clone() },
            done,
        ));
    }
    out
}

fn at_tail(hunk: &Hunk, lines: &Lines) -> Vec<(Hunk, String)> {
    let (_, below) = hunk.place.beside(lines.count());
    let mut out = Vec::new();
    let after = (lines.count() + 1).saturating_sub(below);
    for count in 1..=ECHO.min(after).min(hunk.rows.len().saturating_sub(1)) {
        let (rest, rows) = hunk.rows.split_at(hunk.rows.len() - count);
        if rows.iter().zip(below..).all(|(row, line)| lines.content(line) == row) {
            let done = dropped(rows, "last", (below, below + count - 1));
            out.push((Hunk { place: hunk.place, rows: rest.to_vec() }, done));
        }
    }
    if let HunkPlace::Lines { first, last } = hunk.place
        && first < last
        && is_lost(last, &hunk.rows, lines)
        && (only_closes(lines.content(last)) || opens(last, lines))
    {
        let done = format!("line {last} `{}` was kept", lines.content(last).trim());
        out.push((Hunk { place: HunkPlace::Lines { first, last: last - 1 }, rows: hunk.rows.clone() }, done));
    }
    out
}

/// Whether the lines below belong to a line, like a body to its function.
fn opens(line: usize, lines: &Lines) -> bool {
    let below = (line + 1..=lines.count()).find(|line| !lines.content(*line).trim().is_empty());
    below.is_some_and(|below| indent(lines.content(below)) > indent(lines.content(line)))
}

/// Whether the body repeats a line of the range at neither of its edges.
fn is_lost(line: usize, rows: &[String], lines: &Lines) -> bool {
    let content = lines.content(line);
    let edge = |row: Option<&String>| row.is_some_and(|row| row.trim() == content.trim());
    !content.trim().is_empty() && !edge(rows.first()) && !edge(rows.last())
}
