//! Unified diffs, and the patch format that begins with `*** Begin Patch`.
//!
//! Every row is an instruction or a row of a hunk. Another row means that a part of the patch is lost.

use crate::parse::error::excerpt;
use crate::parse::foreign::{Edit, plain};

/// The name of no file in a unified diff.
const NO_FILE: &str = "/dev/null";
/// The row below a last line without line end.
const NO_LINE_END: &str = "\\ No newline at end of file";
const MARKS: &[char] = &['"', '\'', '`'];

/// Rows of git that state a change besides the text, with what to do instead.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("rename ", "a rename is `MV DEST` in the section `[PATH#TAG]` of the old path"),
    ("similarity ", "a rename is `MV DEST` in the section `[PATH#TAG]` of the old path"),
    ("dissimilarity ", "name the lines to replace: `PUT A..=B:` in a section `[PATH#TAG]`"),
    ("copy ", "create the copy with `write`"),
    ("new file ", "`edit` does not create files; create it with `write`"),
    ("deleted file ", "a deletion is `REM` in the file's section `[PATH#TAG]`"),
    ("old mode ", "change modes with a command"),
    ("new mode ", "change modes with a command"),
    ("Binary files ", "change binary files with a command"),
    ("GIT binary patch", "change binary files with a command"),
];

pub(super) fn parse(lines: &[&str], exists: &dyn Fn(&str) -> bool) -> Result<Vec<Edit>, String> {
    Reader { lines, at: 0, exists, edits: Vec::new(), file: None, without_hunk: None }.read()
}

struct Reader<'a> {
    lines: &'a [&'a str],
    at: usize,
    exists: &'a dyn Fn(&str) -> bool,
    edits: Vec<Edit>,
    /// The path of the next hunk, with its operation if the diff deletes the file.
    file: Option<(String, Option<String>)>,
    /// The header of a file of which no hunk was read.
    without_hunk: Option<&'a str>,
}

impl<'a> Reader<'a> {
    fn read(mut self) -> Result<Vec<Edit>, String> {
        while let Some(line) = self.lines.get(self.at).copied() {
            self.at += 1;
            if line.trim().is_empty() {
                continue;
            } else if let Some(name) = line.strip_prefix("*** Update File: ") {
                self.close()?;
                let path = plain(name, MARKS, self.exists).to_owned();
                let to = self.lines.get(self.at).and_then(|line| line.strip_prefix("*** Move to: "));
                if let Some(to) = to {
                    self.at += 1;
                    self.edits.push(Edit::of_file(&path, format!("MV {}", to.trim().trim_matches(MARKS))));
                }
                (self.file, self.without_hunk) = (Some((path, None)), to.is_none().then_some(line));
            } else if let Some(name) = line.strip_prefix("*** Add File: ") {
                return Err(created(name.trim().trim_matches(MARKS)));
            } else if let Some(name) = line.strip_prefix("*** Delete File: ") {
                self.close()?;
                self.edits.push(Edit::of_file(plain(name, MARKS, self.exists), "REM".to_owned()));
                self.file = None;
            } else if self.is_header(self.at - 1) {
                self.header(line)?;
            } else if line.starts_with("@@")
                || self.without_hunk.is_some() && self.file.is_some() && line.starts_with([' ', '-', '+'])
            {
                self.hunk(line)?;
            } else if line.starts_with("diff ") || line.starts_with("Index: ") {
                self.close()?;
                (self.file, self.without_hunk) = (None, Some(line));
            } else if let Some((_, instead)) = UNSUPPORTED.iter().find(|(start, _)| line.starts_with(start)) {
                return Err(format!("`{}` is not applied; {instead}", excerpt(line)));
            } else if self.file.is_some() || !is_metadata(line) {
                return Err(format!(
                    "row {} of the patch, `{}`, is neither an instruction nor a row with a sign (space, `-` or `+`); write the whole patch again",
                    self.at,
                    excerpt(line)
                ));
            }
        }
        self.close()?;
        Ok(self.edits)
    }

    /// Ends a file, which must have a hunk.
    fn close(&mut self) -> Result<(), String> {
        match self.without_hunk.take() {
            Some(header) => Err(format!(
                "no hunk follows `{}`; the patch seems cut off, write all of it",
                excerpt(header)
            )),
            None => Ok(()),
        }
    }

    /// Whether the two rows at `at` name the files of a unified diff.
    fn is_header(&self, at: usize) -> bool {
        let starts = |at: usize, start: &str| self.lines.get(at).is_some_and(|line| line.starts_with(start));
        starts(at, "--- ") && starts(at + 1, "+++ ")
    }

    fn header(&mut self, line: &'a str) -> Result<(), String> {
        // Rows of git precede the header of the same file.
        if self.file.is_some() {
            self.close()?;
        }
        let name =
            |line: &'a str| plain(line[4..].split('\t').next().unwrap_or_default(), MARKS, self.exists);
        let (before, after) = (name(line), name(self.lines[self.at]));
        self.at += 1;
        if before == NO_FILE {
            return Err(created(after.strip_prefix("b/").unwrap_or(after)));
        }
        let stripped = before.strip_prefix("a/");
        let (path, file_op) = match after {
            NO_FILE => (stripped.unwrap_or(before), Some("REM".to_owned())),
            _ if before == after => (before, None),
            _ if stripped.is_some() && stripped == after.strip_prefix("b/") => (&before[2..], None),
            _ => {
                return Err(format!(
                    "the diff names two files, `{before}` and `{after}`; write the path of the file to change in both rows"
                ));
            }
        };
        if let Some(other) = [before, after].into_iter().find(|name| *name != path && (self.exists)(name)) {
            return Err(format!(
                "`{other}` exists, so the diff may mean it or `{path}`; name the file's lines by number:\n[PATH#TAG]\nPUT A..=B:\n+each new row\n"
            ));
        }
        (self.file, self.without_hunk) = (Some((path.to_owned(), file_op)), Some(line));
        Ok(())
    }

    /// Reads a hunk from its `@@` row, or from its first row if it has none.
    fn hunk(&mut self, first: &str) -> Result<(), String> {
        let Some((path, file_op)) = self.file.clone() else {
            return Err(format!(
                "no file is named above `{}`; write `--- PATH` and `+++ PATH` above it",
                excerpt(first)
            ));
        };
        let mut edit = Edit { path, file_op, kept: Some(Vec::new()), ..Edit::default() };
        let (mut rows, mut stated_line) = (Rows::default(), None);
        if !first.starts_with("@@") {
            self.at -= 1;
        } else if let Some((line, left)) = counts(first) {
            (stated_line, rows.left) = (Some(line), Some(left));
        } else {
            edit.below.extend(place(first));
            // Successive places go from the outer to the inner one.
            while let Some(inner) = self.lines.get(self.at).filter(|_| !edit.below.is_empty()) {
                let Some(inner) = place(inner).filter(|_| counts(inner).is_none()) else { break };
                edit.below.push(inner);
                self.at += 1;
            }
        }
        while let Some(line) = self.lines.get(self.at).copied() {
            let owed = rows.left.is_some_and(|left| left != (0, 0));
            let begins_file = self.is_header(self.at)
                && self.lines.get(self.at + 2).is_none_or(|line| line.starts_with("@@"));
            if !owed && begins_file {
                break;
            }
            match line.chars().next() {
                None if rows.left == Some((0, 0)) => break,
                None if !owed && !self.is_row_below() => {
                    rows.ends_blank = true;
                    break;
                }
                None => {
                    edit.blanks.push(edit.old.len());
                    rows.add(' ', "", &mut edit);
                }
                Some(sign @ (' ' | '-' | '+')) => rows.add(sign, &line[1..], &mut edit),
                Some('\\') if line.trim_end() == NO_LINE_END => {
                    rows.unended.0 |= rows.last != '+';
                    rows.unended.1 |= rows.last != '-';
                }
                Some(_) => break,
            }
            self.at += 1;
        }
        if edit.old.is_empty() && edit.new.is_empty() {
            return Err(format!("the hunk `{}` has no rows; the patch seems cut off", excerpt(first)));
        }
        if self.lines.get(self.at).is_some_and(|line| line.trim_end() == "*** End of File") {
            self.at += 1;
            edit.at_end = true;
        }
        edit.doubt = rows.doubt(first, &edit);
        edit.stated_line = stated_line.filter(|_| rows.is_over);
        if rows.is_exact() {
            edit.blanks.clear();
        }
        edit.at_end |= rows.unended.0;
        self.without_hunk = None;
        self.edits.push(edit);
        Ok(())
    }

    /// Whether the first row below empty ones belongs to the same hunk.
    fn is_row_below(&self) -> bool {
        let below = (self.at..self.lines.len()).find(|at| !self.lines[*at].is_empty());
        below.is_some_and(|at| self.lines[at].starts_with([' ', '-', '+']) && !self.is_header(at))
    }
}

/// The state of a hunk's rows.
#[derive(Default)]
struct Rows {
    /// Numbers of old and new rows that the header still announces.
    left: Option<(usize, usize)>,
    /// Whether there are more rows than announced.
    is_over: bool,
    /// The sign of the last row.
    last: char,
    /// Whether an empty row without a sign is below.
    ends_blank: bool,
    /// Whether the last old and the last new row lack a line end.
    unended: (bool, bool),
}

impl Rows {
    fn add(&mut self, sign: char, row: &str, edit: &mut Edit) {
        if let Some((old, new)) = &mut self.left {
            self.is_over |= sign != '+' && *old == 0 || sign != '-' && *new == 0;
            *old = old.saturating_sub(usize::from(sign != '+'));
            *new = new.saturating_sub(usize::from(sign != '-'));
        }
        if sign == ' ' {
            edit.kept.get_or_insert_default().push((edit.old.len(), edit.new.len()));
        }
        if sign != '+' {
            edit.old.push(row.to_owned());
        }
        if sign != '-' {
            edit.new.push(row.to_owned());
        }
        self.last = sign;
    }

    /// Whether there are as many rows as announced.
    fn is_exact(&self) -> bool {
        self.left == Some((0, 0)) && !self.is_over
    }

    fn doubt(&self, header: &str, edit: &Edit) -> Option<String> {
        if self.left.is_some_and(|left| left != (0, 0)) {
            return Some(format!(
                "the hunk has fewer rows than `{}` announces; it may be cut off",
                excerpt(header)
            ));
        }
        if self.is_over && !edit.blanks.is_empty() {
            return Some(format!(
                "an empty row has no sign, and the hunk has more rows than `{}` announces",
                excerpt(header)
            ));
        }
        if self.ends_blank {
            return Some("an empty row below the hunk has no sign, so it may be a new one".to_owned());
        }
        let changes_end = self.unended.0 != self.unended.1 && !edit.new.is_empty();
        changes_end.then(|| "`edit` keeps the end of the last line, which the hunk changes".to_owned())
    }
}

/// Rows of a diff besides hunks that state no change.
fn is_metadata(line: &str) -> bool {
    line.starts_with("index ") || line.len() > 10 && line.bytes().all(|byte| byte == b'=')
}

/// The first line in `@@ -1,3 +1,4 @@`, and the numbers of old and new rows.
fn counts(header: &str) -> Option<(usize, (usize, usize))> {
    let mut words = header.strip_prefix("@@")?.split_whitespace();
    let mut range = |sign: char| {
        let range = words.next()?.strip_prefix(sign)?;
        let (start, count) = range.split_once(',').unwrap_or((range, "1"));
        Some((start.parse::<usize>().ok()?, count.parse::<usize>().ok()?))
    };
    let ((line, old), (_, new)) = (range('-')?, range('+')?);
    Some((line, (old, new)))
}

/// The line in `@@ def f():` below which the hunk is.
fn place(header: &str) -> Option<String> {
    let place = header.strip_prefix("@@")?.trim();
    let place = place.strip_suffix("@@").unwrap_or(place).trim();
    (!matches!(place, "" | "..." | "…")).then(|| place.to_owned())
}

fn created(path: &str) -> String {
    format!("`edit` does not create files; create {path} with `write`")
}
