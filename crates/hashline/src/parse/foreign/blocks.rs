//! Blocks of search and replace, each below the path or the block before it.

use crate::parse::error::excerpt;
use crate::parse::foreign::{Edit, plain};

const BEGIN: &str = "<<<<<<< SEARCH";
const MIDDLE: &str = "=======";
const END: &str = ">>>>>>> REPLACE";
/// Words of the first and the last row of a block.
const WORDS: &[(&str, &str)] = &[("SEARCH", "REPLACE"), ("ORIGINAL", "UPDATED")];
/// Marks around a path.
const MARKS: &[char] = &['`', '*', ':', '"', '\'', '#', ' '];

pub(super) fn parse(lines: &[&str], exists: &dyn Fn(&str) -> bool) -> Result<Vec<Edit>, String> {
    let mut found: Vec<Edit> = Vec::new();
    let mut path: Option<String> = None;
    let mut title: Option<&str> = None;
    let mut rest = lines;
    while let [line, after @ ..] = rest {
        rest = after;
        if line.trim().is_empty() || line.starts_with("```") {
            continue;
        }
        let Some((size, last)) = beginning(line) else {
            if let Some(first) = title.replace(line) {
                return Err(stray(first));
            }
            continue;
        };
        if let Some(title) = title.take() {
            path = Some(plain(title, MARKS, exists).to_owned());
        }
        let Some(path) = &path else { return Err(format!("write the path above `{BEGIN}`")) };
        let end = rest.iter().position(|line| is_mark(line, '>', size, last));
        let Some(end) = end else {
            return Err(format!("a block has no `{END}`; it seems cut off, write all of it"));
        };
        let (block, after) = (&rest[..end], &rest[end + 1..]);
        // A heading's underline, or a marker of a conflict, may be text or the block's own row.
        let mut middles = block.iter().enumerate().filter(|(_, line)| is_separator(line));
        let (Some((middle, _)), None) = (middles.next(), middles.next()) else {
            return Err(several(path, block));
        };
        let begins_block = block.iter().any(|line| beginning(line).is_some());
        if !is_mark(block[middle], '=', size, "") || begins_block {
            return Err(several(path, block));
        }
        let owned = |rows: &[&str]| rows.iter().map(|row| (*row).to_owned()).collect();
        found.push(Edit {
            path: path.clone(),
            old: owned(&block[..middle]),
            new: owned(&block[middle + 1..]),
            ..Edit::default()
        });
        rest = after;
    }
    match title {
        Some(title) => Err(stray(title)),
        None => Ok(found),
    }
}

/// The number of signs in the first row of a block, and the word of the last row.
pub(super) fn beginning(line: &str) -> Option<(usize, &'static str)> {
    let sizes = MIDDLE.len()..=MIDDLE.len() + 2;
    sizes
        .flat_map(|size| WORDS.iter().map(move |(first, last)| (size, first, last)))
        .find(|(size, first, _)| is_mark(line, '<', *size, first))
        .map(|(size, _, last)| (size, *last))
}

/// Whether a row is a mark: a sign several times, and a word.
fn is_mark(line: &str, sign: char, size: usize, word: &str) -> bool {
    let rest = line.trim_end().trim_start_matches(sign);
    line.len() - line.trim_start_matches(sign).len() == size && rest.trim_start() == word
}

/// Whether a row separates the old from the new text, or might.
fn is_separator(line: &str) -> bool {
    let line = line.trim_end();
    line.len() >= 5 && line.bytes().all(|byte| byte == b'=')
}

fn several(path: &str, block: &[&str]) -> String {
    let count = block.iter().filter(|line| is_separator(line)).count();
    format!(
        "a block of {path} needs one row `{MIDDLE}` and has {count} such rows; name its lines by number instead:\n[{path}#TAG]\nPUT A..=B:\n+each new row\n"
    )
}

fn stray(line: &str) -> String {
    format!("`{}` is neither a path above a block nor a part of one; remove it", excerpt(line))
}
