//! The place of an edit in the text that was shown.

use crate::parse::display_markup;
use crate::parse::foreign::{Edit, Located, doubt};
use crate::{Anchor, Lines, Snapshot, View};

/// Maximum number of places that a refusal lists.
const MAX_PLACES: usize = 10;

/// A replacement of lines at a known place.
#[derive(Debug)]
pub(super) struct Change {
    /// The first line.
    pub first: usize,
    /// The lines as shown.
    pub old: Vec<String>,
    pub new: Vec<String>,
    /// The part of the text by which the place was found, if these are not its lines.
    pub part: Option<String>,
}

impl Change {
    /// The numbers of equal rows at the beginning and at the end.
    pub(super) fn equal_rows(&self) -> (usize, usize) {
        let head = equal(self.old.iter().zip(&self.new));
        let tail = equal(self.old[head..].iter().rev().zip(self.new[head..].iter().rev()));
        (head, tail)
    }

    /// The canonical operation with the lines that it replaces as `-` rows.
    ///
    /// They show the planner that the edit names these lines on purpose.
    pub(super) fn explicit_operation(&self, lines: &Lines) -> String {
        let (head, tail) = self.equal_rows();
        let operation = self.operation(lines);
        let (first, body) = operation.split_once('\n').unwrap_or((&operation, ""));
        let removed = &self.old[head..self.old.len() - tail];
        // An operation without a body takes no rows.
        let rows = if body.is_empty() { &[] } else { removed };
        let rows: String = rows.iter().map(|row| format!("-{row}\n")).collect();
        format!("{first}\n{rows}{body}")
    }

    /// The canonical operation, without rows that stay.
    pub(super) fn operation(&self, lines: &Lines) -> String {
        let (head, tail) = self.equal_rows();
        let body = &self.new[head..self.new.len() - tail];
        let (first, last) = (self.first + head, self.first + self.old.len() - 1 - tail);
        let anchor = |line: usize| Anchor { line, check: Some(lines.check(line)) };
        let operation = match (first <= last, body.is_empty()) {
            (true, true) => format!("CUT {}..={}", anchor(first), anchor(last)),
            (true, false) => format!("PUT {}..={}:", anchor(first), anchor(last)),
            // Only lines that stay are around an insertion.
            (false, _) if head > 0 => format!("PUT >{}:", anchor(first - 1)),
            (false, _) => format!("PUT <{}:", anchor(first)),
        };
        format!("{operation}\n{}", rendered(body))
    }
}

fn equal<'a>(pairs: impl Iterator<Item = (&'a String, &'a String)>) -> usize {
    pairs.take_while(|(a, b)| a == b).count()
}

fn rendered(body: &[String]) -> String {
    body.iter().map(|row| format!("+{row}\n")).collect()
}

/// The rows of a text with LF line ends.
pub(super) fn rows(text: &str) -> Vec<String> {
    match text.strip_suffix('\n').unwrap_or(text) {
        "" if text.is_empty() => Vec::new(),
        text => text.split('\n').map(str::to_owned).collect(),
    }
}

/// Finds the only place of an edit by its lines.
pub(super) fn locate(edit: &Edit, shown: &Snapshot) -> Result<Located, String> {
    let lines = shown.lines();
    if let Some(operation) = &edit.file_op {
        // The rows of a diff that deletes the file are all its lines.
        let is_whole = edit.old.len() == lines.count() && places(&edit.old, lines, str::eq) == [1];
        return match is_whole && edit.new.is_empty() || edit.old.is_empty() && edit.new.is_empty() {
            true => Ok(Located::File(operation.clone())),
            false => Err(format!(
                "the deletion does not list all lines of {}; to delete the file anyway, send\n{}\n{operation}\n",
                edit.path,
                View::default().header(&edit.path, shown.tag())
            )),
        };
    }
    let change = match places(&edit.old, lines, is_alike)[..] {
        [first] => located(edit, first, lines)?,
        [] => unnumbered(edit, lines)?.ok_or_else(|| not_found(edit, shown))?,
        ref found => {
            let end = |first: usize| first + edit.old.len() - 1;
            let mut below = found.iter().filter(|first| is_inside(&edit.below, **first, end(**first), lines));
            match (below.next(), below.next(), edit.below.is_empty()) {
                (Some(first), None, false) => located(edit, *first, lines)?,
                _ => {
                    return Err(several(
                        "the old lines occur",
                        &edit.path,
                        found,
                        shown,
                        &operation_form(edit),
                    ));
                }
            }
        }
    };
    let last = change.first + change.old.len() - 1;
    let misplaced = edit.below.iter().find(|below| !is_below(below, change.first, last, lines));
    let ends = |is_right: bool| (!is_right).then(|| "the old lines do not end the file".to_owned());
    let doubt = edit
        .doubt
        .clone()
        .or_else(|| doubtful_blank(edit, lines))
        .or_else(|| {
            let stated = edit.stated_line.filter(|line| *line != change.first)?;
            Some(format!("the hunk has more rows than it states, and its lines are not at line {stated}"))
        })
        .or_else(|| misplaced.map(|below| format!("the old lines are not below `{below}`")))
        .or_else(|| ends(!edit.at_end || last == lines.count()));
    checked(change, doubt, &edit.path, shown)
}

/// Finds the only place of a part of the text.
pub(super) fn locate_part(path: &str, old: &str, new: &str, shown: &Snapshot) -> Result<Located, String> {
    let lines = shown.lines();
    let mut text: String = (1..=lines.count()).flat_map(|line| [lines.content(line), "\n"]).collect();
    if lines.lacks_final_ending() {
        text.pop();
    }
    let (old, new) = (old.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
    if old.is_empty() {
        return Err(format!("the old text is empty; replace all of {path} with `write`"));
    }
    let found = occurrences(&text, &old);
    let line_of = |at: usize| text[..at].matches('\n').count() + 1;
    // Whole lines that are alike may be meant without their trailing blanks.
    let alike = places(&rows(&old), lines, is_alike);
    let is_at = |line: usize, at: usize| (at == 0 || text[..at].ends_with('\n')) && line == line_of(at);
    let at = match found[..] {
        [at] if alike.iter().all(|line| is_at(*line, at)) => at,
        [] => return locate_rows(path, &old, &new, shown),
        _ => {
            let mut found: Vec<usize> = found.into_iter().map(line_of).collect();
            if found.len() == 1 {
                found.extend(alike);
                found.sort_unstable();
            }
            return Err(several("the old text occurs", path, &found, shown, ""));
        }
    };
    // The whole lines around the part.
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let part_end = at + old.len();
    let mut after = format!("{}{new}", &text[start..at]);
    if old.ends_with('\n') && part_end < text.len() && !after.is_empty() && !after.ends_with('\n') {
        let change = Change {
            first: line_of(start),
            old: rows(&text[start..part_end]),
            new: rows(&after),
            part: None,
        };
        let reason = "the old text ends with a line break and the new text does not; to keep it";
        return Err(form(reason, &change, path, shown));
    }
    let is_whole = text[..part_end].ends_with('\n') && (after.is_empty() || after.ends_with('\n'));
    let rest = text[part_end..].find('\n').map_or(text.len() - part_end, |it| it + 1);
    let end = if is_whole { part_end } else { part_end + rest };
    after.push_str(&text[part_end..end]);
    let change =
        Change { first: line_of(start), old: rows(&text[start..end]), new: rows(&after), part: Some(old) };
    let result = format!("{}{after}", &text[..start]);
    let changes_end =
        end == text.len() && !result.is_empty() && result.ends_with('\n') != text.ends_with('\n');
    let doubt = changes_end.then(|| "`edit` keeps the end of the last line, which this changes".to_owned());
    checked(change, doubt, path, shown)
}

/// Finds lines that the part names with row numbers or other blanks.
fn locate_rows(path: &str, old: &str, new: &str, shown: &Snapshot) -> Result<Located, String> {
    let edit = Edit { path: path.to_owned(), old: rows(old), new: rows(new), ..Edit::default() };
    let is_whole = old.ends_with('\n') == new.ends_with('\n') || old.ends_with('\n') && new.is_empty();
    let located = if is_whole { locate(&edit, shown) } else { Err(not_found(&edit, shown)) };
    located.map_err(|message| match old.contains("\\n") {
        true => format!("{message}Write real line breaks in the old text, not `\\n`\n"),
        false => message,
    })
}

/// The change, unless it is doubtful or changes nothing.
fn checked(change: Change, doubt: Option<String>, path: &str, shown: &Snapshot) -> Result<Located, String> {
    if change.old == change.new {
        return Err(format!("the edit of {path} changes nothing: its old and new lines are the same\n"));
    }
    match doubt.or_else(|| doubt::of(path, &change.old, &change.new)) {
        None => Ok(Located::Lines(change)),
        Some(doubt) => Err(form(&format!("{doubt}; if the edit is right"), &change, path, shown)),
    }
}

/// A refusal with the canonical form of a change.
fn form(reason: &str, change: &Change, path: &str, shown: &Snapshot) -> String {
    let lines = shown.lines();
    format!("{reason}, send\n{}\n{}", View::default().header(path, shown.tag()), change.operation(lines))
}

/// The first lines of the places that `old` matches.
fn places(old: &[String], lines: &Lines, alike: fn(&str, &str) -> bool) -> Vec<usize> {
    let matches =
        |first: &usize| old.iter().enumerate().all(|(at, row)| alike(lines.content(first + at), row));
    let count = (lines.count() + 1).saturating_sub(old.len());
    if old.is_empty() { Vec::new() } else { (1..=count).filter(matches).collect() }
}

/// The bytes at which a part occurs; places may overlap.
pub(super) fn occurrences(text: &str, part: &str) -> Vec<usize> {
    let step = part.chars().next().map_or(1, char::len_utf8);
    let next = |from: usize| Some(from + text.get(from..)?.find(part)?);
    std::iter::successors(next(0), |at| next(at + step)).collect()
}

fn without_end(row: &str) -> &str {
    row.trim_end_matches([' ', '\t'])
}

/// Whether a row is a line but for trailing blanks.
///
/// A row of blanks alone is not an empty line.
fn is_alike(line: &str, row: &str) -> bool {
    line == row || without_end(line) == without_end(row) && (row.is_empty() || !without_end(row).is_empty())
}

/// Reason why an empty row without a sign may be new, if any.
///
/// The other old rows then occur without it.
fn doubtful_blank(edit: &Edit, lines: &Lines) -> Option<String> {
    let without = |blanks: &[usize]| {
        let rows = edit.old.iter().enumerate().filter(|(at, _)| !blanks.contains(at));
        let rows: Vec<String> = rows.map(|(_, row)| row.clone()).collect();
        rows.is_empty() || !places(&rows, lines, is_alike).is_empty()
    };
    let mut sets = edit.blanks.chunks(1).chain([&edit.blanks[..]]).filter(|blanks| !blanks.is_empty());
    sets.any(without).then(|| "an empty row has no sign, so it may be an old or a new one".to_owned())
}

/// The change at a place that matches the old rows but for trailing blanks.
fn located(edit: &Edit, first: usize, lines: &Lines) -> Result<Change, String> {
    let shown: Vec<String> =
        (first..first + edit.old.len()).map(|line| lines.content(line).to_owned()).collect();
    if shown == edit.old {
        return Ok(Change { first, old: shown, new: edit.new.clone(), part: None });
    }
    let written = Change { first, old: edit.old.clone(), new: edit.new.clone(), part: None };
    let (head, tail) = written.equal_rows();
    let ends = (0..head).map(|at| (at, at));
    let ends = ends.chain((1..=tail).map(|at| (shown.len() - at, edit.new.len() - at)));
    // Lines that stay keep their blanks.
    let mut new = edit.new.clone();
    let mut is_kept = vec![false; new.len()];
    for (old, at) in edit.kept.clone().unwrap_or_else(|| ends.collect()) {
        (new[at], is_kept[at]) = (shown[old].clone(), true);
    }
    let is_doubtful = |row: &str| {
        let is_old = edit.kept.is_none() && edit.old.iter().any(|old| old == row);
        is_old || without_end(row) != row
    };
    match new.iter().zip(is_kept).find(|(row, is_kept)| !is_kept && is_doubtful(row)) {
        Some((row, _)) => Err(format!(
            "the old lines differ from lines {first}..={} of {} in trailing blanks, so the blanks of `{}` are not certain; copy the old lines as shown\n",
            first + shown.len() - 1,
            edit.path,
            row.trim()
        )),
        None => Ok(Change { first, old: shown, new, part: None }),
    }
}

/// Finds rows that begin with the numbers of a read.
///
/// `None` if an old row has text but no number. The numbers and checks must be those of the place.
fn unnumbered(edit: &Edit, lines: &Lines) -> Result<Option<Change>, String> {
    let number = |row: &String| display_markup::numbered(row.trim_start_matches(' '));
    // The form of a number: its sign and separator, and whether it has a check.
    let form = |row: &String| {
        let text = number(row)?.text.len();
        let name = row[..row.len() - text].trim_start_matches(|it: char| it == ' ' || it.is_ascii_digit());
        Some(name.replace(|it: char| it.is_ascii_alphabetic(), "a"))
    };
    let Some(style) = edit.old.iter().find(|row| !row.is_empty()).and_then(form) else { return Ok(None) };
    // A read shows an empty line as an empty row.
    let is_styled = |row: &&String| row.is_empty() || form(row).as_ref() == Some(&style);
    if !edit.old.iter().all(|row| is_styled(&row)) {
        return Ok(None);
    }
    let text = |row: &String| number(row).map_or_else(String::new, |it| it.text);
    let old: Vec<String> = edit.old.iter().map(text).collect();
    let numbers: Vec<_> = edit.old.iter().map(number).collect();
    let named = numbers.iter().enumerate().find_map(|(at, it)| it.as_ref()?.line.checked_sub(at));
    let is_shown = |first: usize, at: usize| {
        numbers[at].as_ref().is_none_or(|it| {
            it.line == first + at && it.check.is_none_or(|check| check == lines.check(first + at))
        })
    };
    let found = places(&old, lines, is_alike);
    let first = named.filter(|first| found == [*first] && (0..old.len()).all(|at| is_shown(*first, at)));
    let Some(first) = first else {
        return Err(format!(
            "the line numbers in the old rows do not match {}, or the lines occur {} times; read it again and name its lines by number:\n[PATH#TAG]\nPUT A..=B:\n",
            edit.path,
            found.len()
        ));
    };
    // All new rows have numbers too, or none has.
    let has_number = |row: &&String| number(row).is_some();
    let new_numbers: Vec<usize> = edit.new.iter().filter_map(number).map(|it| it.line).collect();
    let in_order = new_numbers.is_sorted_by(|a, b| a < b) && new_numbers.first() == Some(&first);
    let new = match edit.new.iter().any(|row| has_number(&row)) {
        false => edit.new.clone(),
        true if edit.new.iter().all(|row| is_styled(&row)) && in_order => edit.new.iter().map(text).collect(),
        true => {
            return Err("some new rows begin with line numbers; write the new rows without them\n".to_owned());
        }
    };
    let plain = Edit { path: edit.path.clone(), old, new, kept: edit.kept.clone(), ..Edit::default() };
    located(&plain, first, lines).map(Some)
}

/// Whether lines are in the block that a line above them opens.
///
/// Another line with the same indentation and first word ends it.
fn is_below(place: &str, first: usize, last: usize, lines: &Lines) -> bool {
    let content = |line: usize| lines.content(line);
    let Some(at) = (1..=last).rev().find(|line| content(*line).contains(place)) else { return false };
    let indent = |line: &str| line.len() - line.trim_start().len();
    let word = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let is_sibling = |line: &str| indent(line) == indent(content(at)) && word(line) == word(content(at));
    !(at + 1..first).any(|line| is_sibling(content(line)))
}

/// Whether lines are in the blocks that the places open, outer ones first.
///
/// The lines around a block are less indented than it.
fn is_inside(places: &[String], first: usize, last: usize, lines: &Lines) -> bool {
    let filled = |line: &usize| !lines.content(*line).trim().is_empty();
    let indent = |line: usize| lines.content(line).len() - lines.content(line).trim_start().len();
    let Some(mut inner) = (first..=last).filter(filled).map(indent).min() else { return false };
    let mut places = places.iter().rev().peekable();
    for line in (1..first).rev().filter(filled) {
        if indent(line) < inner {
            inner = indent(line);
            places.next_if(|place| lines.content(line).trim() == place.as_str());
        }
    }
    places.next().is_none()
}

/// A refusal that lists the places, with the rows of the operation that names one.
fn several(what: &str, path: &str, found: &[usize], shown: &Snapshot, operation: &str) -> String {
    let view = View::default();
    let mut places = found.to_vec();
    places.dedup();
    let listed = places.iter().take(MAX_PLACES);
    let rows: String = listed.map(|line| format!("{}\n", view.row(shown.lines(), *line))).collect();
    let more = match places.len().saturating_sub(MAX_PLACES) {
        0 => String::new(),
        more => format!("and {more} more\n"),
    };
    format!(
        "{what} {} times in {path}, at these lines; name the lines by number:\n{}\n{rows}{more}{operation}",
        found.len(),
        view.header(path, shown.tag())
    )
}

/// The rows of the canonical operation, with letters for numbers.
fn operation_form(Edit { old, new, .. }: &Edit) -> String {
    let operation = match (old.is_empty(), new.is_empty()) {
        (true, _) => "PUT >A:",
        (false, true) => "CUT A..=B",
        (false, false) => "PUT A..=B:",
    };
    format!("{operation}\n{}", rendered(new))
}

fn not_found(edit: &Edit, shown: &Snapshot) -> String {
    let (Edit { path, old, new, .. }, lines) = (edit, shown.lines());
    let reason = match old.is_empty() {
        true => format!("the edit of {path} names no old lines"),
        false => format!("{path} as you last read it has no such lines"),
    };
    let done = match places(new, lines, str::eq)[..] {
        [first] => format!(" (line {first} on already has the new lines: the edit may be applied already)"),
        _ => String::new(),
    };
    format!(
        "{reason}{done}; name lines by number:\n{}\n{}",
        View::default().header(path, shown.tag()),
        operation_form(edit)
    )
}
