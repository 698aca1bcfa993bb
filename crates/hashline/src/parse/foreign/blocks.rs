//! Blocks of search and replace, each below the path or the block before it.

use crate::parse::error::excerpt;
use crate::parse::foreign::{Edit, plain};

pub(super) const BEGIN: &str = "<<<<<<< SEARCH";
const MIDDLE: &str = "=======";
const END: &str = ">>>>>>> REPLACE";
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
        if *line != BEGIN {
            if let Some(first) = title.replace(line) {
                return Err(stray(first));
            }
            continue;
        }
        if let Some(title) = title.take() {
            path = Some(plain(title, MARKS, exists).to_owned());
        }
        let Some(path) = &path else { return Err(format!("write the path above `{BEGIN}`")) };
        let end = rest.iter().position(|line| *line == END);
        let Some(end) = end else {
            return Err(format!("a block has no `{END}`; it seems cut off, write all of it"));
        };
        let (block, after) = (&rest[..end], &rest[end + 1..]);
        // A heading's underline, or a marker of a conflict, may be text or the block's own row.
        let mut middles = block.iter().enumerate().filter(|(_, line)| is_separator(line));
        let (Some((middle, _)), None) = (middles.next(), middles.next()) else {
            return Err(several(path, block));
        };
        if block[middle] != MIDDLE || block.contains(&BEGIN) {
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
