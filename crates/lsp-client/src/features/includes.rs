//! `#include` lines of C and its kin that a move would break, mended where that is exact: no server does it.
//!
//! Every compiler looks for a quoted path in the folder of its own file first. Where it leads to a file
//! from there, that file is meant, whatever other folders are searched; only such lines are changed. A path
//! to which a searched folder alone leads stays as it is, and `old_place` names it. One that would lead from
//! its own folder to another file than before is told: nothing that could be written in its place is exact.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use text::TextEdit;
use workspace::{AbsPath, Operation, ReadError, Workspace, WorkspaceEdit};

use super::rename::edited;
use crate::server::Clock;

/// At most this many files of the workspace are looked at.
const LOOKED_AT: usize = 20_000;
/// For at most this long.
const LONGEST: Duration = Duration::from_secs(5);
/// Files named in a note.
const NAMED: usize = 5;
/// Lines named in a note.
const LINES: usize = 12;
/// Links followed on one path.
const LINKS: usize = 40;

/// Files with such lines, by extension.
const SOURCES: [&str; 25] = [
    "c", "h", "cc", "hh", "cpp", "hpp", "cxx", "hxx", "c++", "h++", "C", "H", "inl", "ipp", "ixx", "tpp",
    "txx", "tcc", "inc", "m", "mm", "cu", "cuh", "cl", "S",
];

/// Edits of files that the moves of an edit break.
#[derive(Default)]
pub(super) struct Mended {
    pub operations: Vec<Operation>,
    lines: usize,
    /// What was not looked at, and why.
    pub note: Option<String>,
    /// Lines that lead elsewhere and are not mended.
    pub elsewhere: Option<String>,
}

impl Mended {
    /// `4 #include lines in 2 files`.
    pub(super) fn amount(&self) -> Option<String> {
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let files = self.operations.len();
        (files > 0).then(|| {
            format!("{} `#include` line{} in {files} file{}", self.lines, plural(self.lines), plural(files))
        })
    }
}

/// What `edit` breaks by its moves, in files that it does not change.
pub(super) async fn mend(workspace: &Workspace, edit: &WorkspaceEdit, clock: Clock<'_>) -> Mended {
    let moves = Moves::of(edit);
    let changed: Vec<AbsPath> = edited(edit).map(|(path, _)| path.clone()).collect();
    let (workspace, cancel) = (workspace.clone(), clock.cancel.clone());
    let clock = clock.within(LONGEST);
    let until = clock.at(90);
    let cut = || Mended {
        note: Some("not every file was searched for `#include` lines".to_owned()),
        ..Mended::default()
    };
    let search = tokio::task::spawn_blocking(move || {
        let mut mended = Mended::default();
        let mut unread = Vec::new();
        let mut elsewhere = Vec::new();
        for (count, path) in workspace.files(workspace.root()).enumerate() {
            if count >= LOOKED_AT || Instant::now() >= until || cancel.is_cancelled() {
                mended.note = Some("not every file was searched for `#include` lines".to_owned());
                break;
            }
            if !is_source(&path) || changed.contains(&path) {
                continue;
            }
            let document = match workspace.document(&path) {
                Ok(document) => document,
                Err(ReadError::NotUtf8 { .. }) => {
                    unread.push(workspace.relative(&path));
                    continue;
                }
                Err(_) => continue,
            };
            let (edits, others) = moves.broken(&path, &document.text);
            let name = workspace.relative(&moves.after(&path));
            elsewhere.extend(others.into_iter().map(|(at, target)| {
                let line = document.text[..at].matches('\n').count() + 1;
                let target = target.map_or_else(|| "none".to_owned(), |it| workspace.relative(&it));
                format!("{name}:{line} (to {target})")
            }));
            if !edits.is_empty() {
                mended.lines += edits.len();
                mended.operations.push(Operation::Edit { path, expected: document.version, edits });
            }
        }
        if !elsewhere.is_empty() {
            let more = elsewhere.len().saturating_sub(LINES);
            let more = if more == 0 { String::new() } else { format!(" and {more} more lines") };
            elsewhere.truncate(LINES);
            mended.elsewhere = Some(format!(
                "`#include` lines that lead from their own folder to another file than before, not mended: {}{more}",
                elsewhere.join(", ")
            ));
        }
        if mended.note.is_none() && !unread.is_empty() {
            let more = unread.len().saturating_sub(NAMED);
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            unread.truncate(NAMED);
            mended.note = Some(format!(
                "not searched for `#include` lines, since they are not UTF-8 text: {}{more}",
                unread.join(", ")
            ));
        }
        mended
    });
    // It ends by itself; a file that cannot be read by then is not waited for.
    tokio::select! {
        biased;
        () = clock.cancel.cancelled() => cut(),
        found = search => found.unwrap_or_else(|_| cut()),
        () = tokio::time::sleep_until(clock.until.into()) => cut(),
    }
}

fn is_source(path: &AbsPath) -> bool {
    path.as_path().extension().and_then(|it| it.to_str()).is_some_and(|it| SOURCES.contains(&it))
}

/// From where to where files and folders move.
struct Moves {
    places: Vec<(AbsPath, AbsPath)>,
    /// Of folders and links that were asked about: whether they lead, by a link, into what moves.
    linked: RefCell<HashMap<AbsPath, bool>>,
}

impl Moves {
    fn of(edit: &WorkspaceEdit) -> Self {
        let moves = edit.operations.iter().filter_map(|operation| match operation {
            Operation::Rename { from, to, .. } => Some((from.clone(), to.clone())),
            _ => None,
        });
        Self { places: moves.collect(), linked: RefCell::default() }
    }

    /// Where a file is afterwards.
    fn after(&self, path: &AbsPath) -> AbsPath {
        let moved = self.places.iter().find_map(|(from, to)| {
            let rest = path.strip_prefix(from)?;
            Some(if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) })
        });
        moved.unwrap_or_else(|| path.clone())
    }

    /// Where what is at `path` afterwards is now; `None` where nothing is left.
    fn before(&self, path: &AbsPath) -> Option<AbsPath> {
        let moved = self.places.iter().find_map(|(from, to)| {
            let rest = path.strip_prefix(to)?;
            Some(if rest.as_os_str().is_empty() { from.clone() } else { from.join(rest) })
        });
        moved.or_else(|| self.places.iter().all(|(from, _)| !path.starts_with(from)).then(|| path.clone()))
    }

    /// The file to which `path` leads afterwards, links and `..` followed one by one as a system does.
    fn leads(&self, path: &Path) -> Option<AbsPath> {
        let parts = |path: &Path| path.components().rev().map(|it| it.as_os_str().to_owned()).collect();
        let mut left: Vec<OsString> = parts(path);
        let mut here = PathBuf::new();
        let mut links = 0;
        while let Some(part) = left.pop() {
            match Path::new(&part).components().next() {
                None | Some(Component::CurDir) => continue,
                Some(Component::ParentDir) => {
                    here.pop();
                    continue;
                }
                Some(Component::Prefix(_) | Component::RootDir) => {
                    here.push(&part);
                    continue;
                }
                Some(Component::Normal(_)) => {}
            }
            let next = here.join(&part);
            let place = AbsPath::new(&next)?;
            match self
                .before(&place)
                .and_then(|now| now.as_path().symlink_metadata().ok().map(|it| (now, it)))
            {
                Some((now, it)) if it.is_symlink() => {
                    links += 1;
                    if links > LINKS {
                        return None;
                    }
                    let more: Vec<OsString> = parts(&now.as_path().read_link().ok()?);
                    left.extend(more);
                    continue;
                }
                Some((_, it)) if it.is_dir() != left.is_empty() => {}
                // A folder that the move makes.
                None if self.places.iter().any(|(_, to)| *to != place && to.starts_with(&place)) => {}
                _ => return None,
            }
            here = next;
        }
        // As its folder spells it, where that does not tell `A` from `a`.
        Some(self.after(&file_at(self.before(&AbsPath::new(&here)?)?.as_path())?))
    }

    /// Whether a move may change where `old` leads from `folder`: the path goes through one of its places, or
    /// ends in a name that moves, or leads by a link to one of them.
    fn touch(&self, folder: &AbsPath, old: &str) -> bool {
        let slashes = || old.char_indices().filter(|(_, c)| *c == '/').map(|(at, _)| folder.join(&old[..at]));
        let mut on_the_way = slashes().chain([folder.join(old)]);
        let name = old.rsplit('/').next().unwrap_or(old);
        self.places.iter().any(|(from, _)| from.file_name() == name)
            || on_the_way
                .any(|it| self.places.iter().any(|(from, to)| it.starts_with(from) || it.starts_with(to)))
            || slashes()
                .chain(Some(folder.join(old)).filter(|it| it.as_path().is_symlink()))
                .any(|it| self.is_linked(it))
    }

    /// Whether `path` leads, by a link, into what moves.
    fn is_linked(&self, path: AbsPath) -> bool {
        let leads = |path: &AbsPath| {
            let real = path.as_path().canonicalize().ok().and_then(AbsPath::new);
            real.is_some_and(|it| it != *path && self.places.iter().any(|(from, _)| it.starts_with(from)))
        };
        *self.linked.borrow_mut().entry(path).or_insert_with_key(leads)
    }

    /// Of the paths in `text`, the file `path`, that lead from its folder to a file now and not to it
    /// afterwards: edits; and of those that no edit mends exactly, or that led to none, where they stand and
    /// lead to then.
    fn broken(&self, path: &AbsPath, text: &str) -> (Vec<TextEdit>, Vec<(usize, Option<AbsPath>)>) {
        let (mut edits, mut elsewhere) = (Vec::new(), Vec::new());
        let holder = self.after(path);
        let (Some(folder), Some(new_folder)) = (path.parent(), holder.parent()) else {
            return (edits, elsewhere);
        };
        for range in quoted_includes(text) {
            let old = &text[range.clone()];
            if folder == new_folder && !self.touch(&folder, old) {
                continue;
            }
            let meant = file_at(&folder.as_path().join(old));
            let target = meant.as_ref().map(|it| self.after(it));
            let leads = self.leads(&new_folder.as_path().join(old));
            if leads == target {
                continue;
            }
            // By another name it leads through a link, which may lead elsewhere than `..` does.
            let own = meant.filter(|it| *it == folder.join(old)).zip(target);
            let new_text = own.and_then(|(meant, target)| {
                let kept = (folder == new_folder && meant.parent() == target.parent()).then(|| {
                    let before = old.rfind('/').map_or("", |at| &old[..=at]);
                    format!("{before}{}", target.file_name())
                });
                let exact = |it: &String| {
                    !it.contains(['"', '\\', '\n', '\r'])
                        && self.leads(&new_folder.as_path().join(it)).as_ref() == Some(&target)
                };
                kept.into_iter().chain(relative(&new_folder, &target)).find(exact)
            });
            match new_text {
                Some(new_text) => edits.push(TextEdit { range, new_text }),
                None => elsewhere.push((range.start, leads)),
            }
        }
        (edits, elsewhere)
    }
}

/// The file to which `path` leads now, links followed.
fn file_at(path: &Path) -> Option<AbsPath> {
    let real = path.canonicalize().ok()?;
    if real.is_file() { AbsPath::new(real) } else { None }
}

/// `target` from `folder` on, with `/`.
fn relative(folder: &AbsPath, target: &AbsPath) -> Option<String> {
    let mut common = folder.clone();
    let mut up = 0;
    while !target.starts_with(&common) {
        common = common.parent()?;
        up += 1;
    }
    let rest = target.strip_prefix(&common)?;
    let parts = rest.iter().map(|part| part.to_str()).collect::<Option<Vec<_>>>()?;
    Some(format!("{}{}", "../".repeat(up), parts.join("/")))
}

/// Where the quoted paths of `#include` and `#import` stand; not in comments and strings, and none that is
/// absolute or has a backslash.
fn quoted_includes(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    // Whether nothing but blanks and comments was before on the line.
    let mut starts = true;
    while at < bytes.len() {
        let rest = &text[at..];
        match bytes[at] {
            b'\\' if rest[1..].starts_with('\n') => at += 2,
            b'\\' if rest[1..].starts_with("\r\n") => at += 3,
            b'\n' => {
                starts = true;
                at += 1;
            }
            b' ' | b'\t' | b'\r' => at += 1,
            b'#' if starts => {
                if let Some(path) = include(rest) {
                    found.push(at + path.start..at + path.end);
                    at += path.end + 1;
                } else {
                    at += 1;
                }
                starts = false;
            }
            b'/' if rest.starts_with("//") => at = end_of_line(text, at),
            b'/' if rest.starts_with("/*") => {
                at = rest[2..].find("*/").map_or(bytes.len(), |end| at + 2 + end + 2);
            }
            b'"' => {
                let raw = raw_prefix(&text[..at]).then(|| raw_string(rest)).flatten();
                at += raw.unwrap_or_else(|| literal(rest, b'"'));
                starts = false;
            }
            b'\'' => {
                at += literal(rest, b'\'');
                starts = false;
            }
            _ => {
                at += rest.chars().next().map_or(1, char::len_utf8);
                starts = false;
            }
        }
    }
    found
}

/// The path of the directive that `text` begins with.
fn include(text: &str) -> Option<Range<usize>> {
    let blank = |c: char| c == ' ' || c == '\t';
    let word = text[1..].trim_start_matches(blank);
    let rest = word.strip_prefix("include").or_else(|| word.strip_prefix("import"))?;
    let path = rest.trim_start_matches(blank).strip_prefix('"')?;
    let end = path.find(['"', '\n', '\\']).filter(|end| path[*end..].starts_with('"'))?;
    let start = text.len() - path.len();
    (end > 0 && !path.starts_with('/')).then_some(start..start + end)
}

/// Behind the line's end, which a backslash moves on.
fn end_of_line(text: &str, mut at: usize) -> usize {
    while let Some(end) = text[at..].find('\n') {
        let line = text[at..at + end].trim_end_matches('\r');
        // The line's end is left to the caller, who begins a line there.
        if !line.ends_with('\\') {
            return at + end;
        }
        at += end + 1;
    }
    text.len()
}

/// The length of the literal that `text` begins with; of the quote alone where its line does not end it.
fn literal(text: &str, quote: u8) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'\n' => return 1,
            byte => {
                at += 1;
                if byte == quote {
                    return at;
                }
            }
        }
    }
    1
}

/// Whether a quote behind `before` begins a raw string.
fn raw_prefix(before: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let word = &before[before.trim_end_matches(part).len()..];
    ["R", "LR", "uR", "UR", "u8R"].contains(&word)
}

/// The length of `"marker(…)marker"`.
fn raw_string(text: &str) -> Option<usize> {
    let open = text.find('(').filter(|open| *open <= 17)?;
    let close = format!("){}\"", &text[1..open]);
    Some(open + text[open..].find(&close)? + close.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_alone_are_found() {
        let text = "#include \"a.h\"\n  # include\t\"../b.h\" // \"no.h\"\n#import \"c.h\"\r\n/* x\n#include \"no.h\"\n*/ #include \"d.h\"\n\
            // x \\\n#include \"no.h\"\nconst char *s = R\"x(\n#include \"no.h\"\n)x\";\nchar q = '\"';\n#include \"e.h\"\n\
            int n = 1'000; char *t = \"\\\"/*\";\n#include \"f.h\"\n#include <no.h>\n#include NO\n#include \"\"\n\
            #include \"/no.h\"\n#include \"no\\no.h\"\n#include \"no\nint a; #include \"no.h\"\n#define X \\\n#include \"no.h\"\n\
            // don't /*\n#include \"g.h\"\n'\n#include \"ü.h\"\n#include_next \"no.h\"\n/*";
        let found: Vec<&str> = quoted_includes(text).into_iter().map(|it| &text[it]).collect();
        assert_eq!(found, ["a.h", "../b.h", "c.h", "d.h", "e.h", "f.h", "g.h", "ü.h"]);
    }
}
