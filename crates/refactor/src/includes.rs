//! Updates of `#include` lines of C and related languages that a move breaks.
//!
//! No server updates them. Every compiler searches a quoted path in the directory of the including file first. If
//! the path leads to a file from there, it means that file, whatever the include directories are. Only such
//! lines change. The move reports a line that leads to another file than before and has no exact update.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use paths::AbsPath;
use text::TextEdit;
use workspace::{Operation, WorkspaceEdit};

/// Maximum number of links followed on one path.
const MAX_LINKS: usize = 40;

/// Extensions of files with `#include` lines.
const SOURCES: [&str; 25] = [
    "c", "h", "cc", "hh", "cpp", "hpp", "cxx", "hxx", "c++", "h++", "C", "H", "inl", "ipp", "ixx", "tpp",
    "txx", "tcc", "inc", "m", "mm", "cu", "cuh", "cl", "S",
];

/// Whether a file may contain `#include` lines.
pub(crate) fn is_source(path: &AbsPath) -> bool {
    path.as_path().extension().and_then(|it| it.to_str()).is_some_and(|it| SOURCES.contains(&it))
}

/// The moves of an edit, and the paths that they affect.
pub(crate) struct Moves {
    places: Vec<(AbsPath, AbsPath)>,
    /// Whether each directory or link leads through a link to a moved path.
    linked: RefCell<HashMap<AbsPath, bool>>,
}

impl Moves {
    pub fn of(edit: &WorkspaceEdit) -> Self {
        let moves = edit.operations.iter().filter_map(|operation| match operation {
            Operation::Rename { from, to, .. } => Some((from.clone(), to.clone())),
            _ => None,
        });
        Self { places: moves.collect(), linked: RefCell::default() }
    }

    /// Returns the path of a file after the moves.
    pub fn after(&self, path: &AbsPath) -> AbsPath {
        let moved = self.places.iter().find_map(|(from, to)| {
            let rest = path.strip_prefix(from)?;
            Some(if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) })
        });
        moved.unwrap_or_else(|| path.clone())
    }

    /// Returns the path before the moves of the file that is at `path` after them.
    ///
    /// `None` if no file is there then.
    fn before(&self, path: &AbsPath) -> Option<AbsPath> {
        let moved = self.places.iter().find_map(|(from, to)| {
            let rest = path.strip_prefix(to)?;
            Some(if rest.as_os_str().is_empty() { from.clone() } else { from.join(rest) })
        });
        moved.or_else(|| self.places.iter().all(|(from, _)| !path.starts_with(from)).then(|| path.clone()))
    }

    /// Resolves the file to which `path` leads after the moves.
    ///
    /// Resolves links and `..` one by one.
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
                    if links > MAX_LINKS {
                        return None;
                    }
                    let more: Vec<OsString> = parts(&now.as_path().read_link().ok()?);
                    left.extend(more);
                    continue;
                }
                Some((_, it)) if it.is_dir() != left.is_empty() => {}
                // The move creates this directory.
                None if self.places.iter().any(|(_, to)| *to != place && to.starts_with(&place)) => {}
                _ => return None,
            }
            here = next;
        }
        // A file system that ignores case keeps the spelling of the directory entry.
        Some(self.after(&file_at(self.before(&AbsPath::new(&here)?)?.as_path())?))
    }

    /// Whether a move may change where `old` leads from `directory`.
    ///
    /// The path passes one of its places, ends in a name that moves, or leads by a link to one of them.
    fn touch(&self, directory: &AbsPath, old: &str) -> bool {
        let slashes =
            || old.char_indices().filter(|(_, c)| *c == '/').map(|(at, _)| directory.join(&old[..at]));
        let mut on_the_way = slashes().chain([directory.join(old)]);
        let name = old.rsplit('/').next().unwrap_or(old);
        self.places.iter().any(|(from, _)| from.file_name() == name)
            || on_the_way
                .any(|it| self.places.iter().any(|(from, to)| it.starts_with(from) || it.starts_with(to)))
            || slashes()
                .chain(Some(directory.join(old)).filter(|it| it.as_path().is_symlink()))
                .any(|it| self.is_linked(it))
    }

    /// Whether `path` leads through a link to a moved path.
    fn is_linked(&self, path: AbsPath) -> bool {
        let leads = |path: &AbsPath| {
            let real = path.as_path().canonicalize().ok().and_then(AbsPath::new);
            real.is_some_and(|it| it != *path && self.places.iter().any(|(from, _)| it.starts_with(from)))
        };
        *self.linked.borrow_mut().entry(path).or_insert_with_key(leads)
    }

    /// Edits for the `#include` paths that the moves break, and places without an edit.
    ///
    /// The edits concern paths in the file `path` that lead from its directory to a file now and not after the
    /// moves. The places are those that no edit fixes exactly, or that led to no file, with their new target.
    pub fn broken(&self, path: &AbsPath, text: &str) -> (Vec<TextEdit>, Vec<(usize, Option<AbsPath>)>) {
        let (mut edits, mut elsewhere) = (Vec::new(), Vec::new());
        let holder = self.after(path);
        let (Some(directory), Some(new_directory)) = (path.parent(), holder.parent()) else {
            return (edits, elsewhere);
        };
        for range in quoted_includes(text) {
            let old = &text[range.clone()];
            if directory == new_directory && !self.touch(&directory, old) {
                continue;
            }
            let meant = file_at(&directory.as_path().join(old));
            let target = meant.as_ref().map(|it| self.after(it));
            let leads = self.leads(&new_directory.as_path().join(old));
            if leads == target {
                continue;
            }
            // A path with another name passes a link, which `..` does not undo.
            let own = meant.filter(|it| *it == directory.join(old)).zip(target);
            let new_text = own.and_then(|(meant, target)| {
                let kept = (directory == new_directory && meant.parent() == target.parent()).then(|| {
                    let before = old.rfind('/').map_or("", |at| &old[..=at]);
                    format!("{before}{}", target.file_name())
                });
                let exact = |it: &String| {
                    !it.contains(['"', '\\', '\n', '\r'])
                        && self.leads(&new_directory.as_path().join(it)).as_ref() == Some(&target)
                };
                kept.into_iter().chain(relative(&new_directory, &target)).find(exact)
            });
            match new_text {
                Some(new_text) => edits.push(TextEdit { range, new_text }),
                None => elsewhere.push((range.start, leads)),
            }
        }
        (edits, elsewhere)
    }
}

/// The file to which `path` leads now, with links resolved.
fn file_at(path: &Path) -> Option<AbsPath> {
    let real = path.canonicalize().ok()?;
    if real.is_file() { AbsPath::new(real) } else { None }
}

/// The path of `target` relative to `directory`, with `/`.
fn relative(directory: &AbsPath, target: &AbsPath) -> Option<String> {
    let mut common = directory.clone();
    let mut up = 0;
    while !target.starts_with(&common) {
        common = common.parent()?;
        up += 1;
    }
    let rest = target.strip_prefix(&common)?;
    let parts = rest.iter().map(|part| part.to_str()).collect::<Option<Vec<_>>>()?;
    Some(format!("{}{}", "../".repeat(up), parts.join("/")))
}

/// Ranges of the quoted paths of `#include` and `#import`.
///
/// Omits comments, strings, absolute paths and paths with a backslash.
fn quoted_includes(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    // Whether only blanks and comments precede on the line.
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

/// The path of the directive at the start of `text`.
fn include(text: &str) -> Option<Range<usize>> {
    let blank = |c: char| c == ' ' || c == '\t';
    let word = text[1..].trim_start_matches(blank);
    let rest = word.strip_prefix("include").or_else(|| word.strip_prefix("import"))?;
    let path = rest.trim_start_matches(blank).strip_prefix('"')?;
    let end = path.find(['"', '\n', '\\']).filter(|end| path[*end..].starts_with('"'))?;
    let start = text.len() - path.len();
    (end > 0 && !path.starts_with('/')).then_some(start..start + end)
}

/// The end of a line, continued by backslashes.
fn end_of_line(text: &str, mut at: usize) -> usize {
    while let Some(end) = text[at..].find('\n') {
        let line = text[at..at + end].trim_end_matches('\r');
        // The caller begins a new line at the line break.
        if !line.ends_with('\\') {
            return at + end;
        }
        at += end + 1;
    }
    text.len()
}

/// Length of the literal at the start of `text`.
///
/// Length of the quote alone if its line does not close it.
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

/// Whether a quote after `before` begins a raw string.
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
    fn only_directives_are_found() {
        let text = "#include \"a.h\"\n  # include\t\"../b.h\" // \"no.h\"\n#import \"c.h\"\r\n/* x\n#include \"no.h\"\n*/ #include \"d.h\"\n\
            // x \\\n#include \"no.h\"\nconst char *s = R\"x(\n#include \"no.h\"\n)x\";\nchar q = '\"';\n#include \"e.h\"\n\
            int n = 1'000; char *t = \"\\\"/*\";\n#include \"f.h\"\n#include <no.h>\n#include NO\n#include \"\"\n\
            #include \"/no.h\"\n#include \"no\\no.h\"\n#include \"no\nint a; #include \"no.h\"\n#define X \\\n#include \"no.h\"\n\
            // don't /*\n#include \"g.h\"\n'\n#include \"ü.h\"\n#include_next \"no.h\"\n/*";
        let found: Vec<&str> = quoted_includes(text).into_iter().map(|it| &text[it]).collect();
        assert_eq!(found, ["a.h", "../b.h", "c.h", "d.h", "e.h", "f.h", "g.h", "ü.h"]);
    }
}
