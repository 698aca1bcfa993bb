//! Synthetic history: real source files, changed twice in typical ways.
//!
//! The changes are not valid source code, so the path has no grammar: an engine that repairs text
//! that no longer parses would rightly differ from the expected result. They produce cases that are
//! rare in real history: twins, moved and copied blocks, changes close to each other. A seed gives
//! the same triples as long as the registry has the same files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::case::{self, Case};
use super::random::Random;

/// Number of lines of a usable file.
const LINES: std::ops::Range<usize> = 20..3_000;

pub(crate) fn cases(count: usize, seed: u64) -> Result<impl Iterator<Item = Result<Case>>> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")))
        .context("neither CARGO_HOME nor HOME is set")?;
    let mut files = Vec::new();
    collect(&home.join("registry/src"), &mut files, 0)?;
    ensure!(!files.is_empty(), "no sources in cargo's registry");
    files.sort();
    let mut random = Random(seed);
    let mut number = 0;
    Ok(std::iter::from_fn(move || {
        while number < count {
            number += 1;
            // A file may be missing or not be text; then the next is used.
            let file = &files[random.below(files.len())];
            let Ok(text) = fs::read_to_string(file) else { continue };
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            if !LINES.contains(&lines.len()) || text.contains('\r') || !text.ends_with('\n') {
                continue;
            }
            let mut newer = lines.clone();
            (0..=random.below(4)).for_each(|_| change(&mut newer, &mut random));
            let mut newest = newer.clone();
            (0..=random.below(3)).for_each(|_| change(&mut newest, &mut random));
            let texts = [lines, newer, newest]
                .map(|lines| lines.iter().map(|line| format!("{line}\n")).collect::<String>());
            let case = case::of(format!("{number}"), "file.txt", [&texts[0], &texts[1], &texts[2]]);
            if let Some(case) = case {
                return Some(Ok(case));
            }
        }
        None
    }))
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>, depth: usize) -> Result<()> {
    let Ok(entries) = fs::read_dir(directory) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            if depth < 8 {
                collect(&path, files, depth + 1)?;
            }
        } else if path.extension().is_some_and(|ending| {
            ["rs", "toml", "md", "py", "c", "h", "js", "json"].iter().any(|known| ending == *known)
        }) {
            files.push(path);
        }
    }
    Ok(())
}

/// Makes one typical change.
fn change(lines: &mut Vec<String>, random: &mut Random) {
    if lines.is_empty() {
        lines.push("new".into());
        return;
    }
    let at = random.below(lines.len());
    let len = 1 + random.below(8).min(lines.len() - at - 1);
    let block: Vec<String> = lines[at..at + len].to_vec();
    let fresh = |random: &mut Random, like: &str| {
        let indent = &like[..like.len() - like.trim_start().len()];
        format!("{indent}let value_{} = {};", random.below(1_000), random.below(1_000))
    };
    match random.below(9) {
        // Rewrites a line, or a word in it.
        0 => lines[at] = fresh(random, &block[0]),
        1 => lines[at] = block[0].replacen("self", "this", 1).replacen("1", "2", 1) + " // changed",
        // Inserts lines.
        2 => {
            let rows: Vec<String> = (0..len).map(|_| fresh(random, &block[0])).collect();
            lines.splice(at..at, rows);
        }
        // Deletes lines.
        3 => drop(lines.drain(at..at + len)),
        // Copies a block right below itself, which makes it a twin.
        4 => drop(lines.splice(at + len..at + len, block)),
        // Copies it elsewhere.
        5 => {
            let to = random.below(lines.len() + 1);
            lines.splice(to..to, block);
        }
        // Moves a block.
        6 => {
            lines.drain(at..at + len);
            let to = random.below(lines.len() + 1);
            lines.splice(to..to, block);
        }
        // Nests a block in another.
        7 => {
            let rows =
                block.iter().map(|line| if line.is_empty() { String::new() } else { format!("    {line}") });
            let rows: Vec<String> =
                std::iter::once("if ready {".to_owned()).chain(rows).chain(["}".to_owned()]).collect();
            lines.splice(at..at + len, rows);
        }
        // Renames a name nearby.
        _ => {
            let word: String =
                block[0].chars().filter(|c| c.is_alphanumeric() || *c == '_').take(6).collect();
            let end = (at + 200).min(lines.len());
            if word.len() >= 4 {
                lines[at..end].iter_mut().for_each(|line| *line = line.replace(&word, "renamed"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_changes() {
        let make = |seed| {
            let mut lines: Vec<String> = (0..50).map(|line| format!("line {line} of self")).collect();
            let mut random = Random(seed);
            (0..20).for_each(|_| change(&mut lines, &mut random));
            lines
        };
        assert_eq!(make(7), make(7));
        assert_ne!(make(7), make(8));
    }
}
