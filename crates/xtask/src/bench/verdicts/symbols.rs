//! Choice of the symbols that are renamed: by a fixed rule, from the declarations of a project.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use anyhow::{Context, Result};
use regex::Regex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::Language;
use crate::demo::tree::Tree;

const SEED: u64 = 17;
/// Numbers of occurrences in the project: a symbol of each size for each kind.
const SIZES: [RangeInclusive<usize>; 3] = [2..=5, 6..=30, 31..=usize::MAX];
/// Words that begin lines like declarations, and names that a language calls.
const NOT_NAMES: [&str; 8] = ["return", "break", "continue", "goto", "case", "constructor", "main", "init"];

/// A declaration.
#[derive(Clone)]
pub(super) struct Symbol {
    pub kind: String,
    pub name: String,
    pub path: String,
    /// The byte after the name.
    pub end: usize,
    /// `FILE:LINE:COLUMN`.
    pub place: String,
}

/// The symbols of a project to rename, three of each kind.
///
/// These have few, some and many uses, where the project declares such. Names whose new name exists are left
/// out.
pub(super) fn choose(language: &Language, tree: &Tree) -> Result<Vec<Symbol>> {
    let is_code = |path: &str| language.used_by.iter().any(|ending| path.ends_with(ending));
    let files = tree.files().filter(|(path, _)| is_code(path));
    let texts: Vec<(&str, &str)> =
        files.filter_map(|(path, bytes)| Some((path, std::str::from_utf8(bytes).ok()?))).collect();
    let word = Regex::new(r"\w+").expect("the pattern is valid");
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for found in texts.iter().flat_map(|(_, text)| word.find_iter(text)) {
        *uses.entry(found.as_str()).or_default() += 1;
    }
    let is_declaring =
        |path: &str| path.starts_with(&language.declared_in) && path.ends_with(&language.declared_by);
    let mut chosen: Vec<Symbol> = Vec::new();
    for (kind, pattern) in &language.kinds {
        let pattern = Regex::new(pattern).with_context(|| format!("bad pattern: {pattern}"))?;
        let mut found = Vec::new();
        let mut declared: HashMap<&str, usize> = HashMap::new();
        for (path, text) in texts.iter().filter(|(path, _)| is_declaring(path)) {
            for name in pattern.captures_iter(text).filter_map(|it| it.get(1)) {
                *declared.entry(name.as_str()).or_default() += 1;
                let before = &text[..name.start()];
                let line = before.matches('\n').count() + 1;
                let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
                let place = format!("{path}:{line}:{column}");
                let (path, end, name) = ((*path).to_owned(), name.end(), name.as_str().to_owned());
                found.push(Symbol { kind: kind.clone(), name, path, end, place });
            }
        }
        let least = if language.overriding.as_ref() == Some(kind) { 2 } else { 1 };
        found.retain(|it| {
            let is_special = it.name.len() < 3 || it.name.starts_with("__") || NOT_NAMES.contains(&&*it.name);
            !is_special && !uses.contains_key(&*new_name(&it.name)) && declared[&*it.name] >= least
        });
        found
            .sort_by_cached_key(|it| xxh3_64_with_seed(format!("{} {}", it.name, it.place).as_bytes(), SEED));
        for size in &SIZES {
            let is_free = |it: &&Symbol| chosen.iter().all(|other| other.name != it.name);
            let fits = |it: &&Symbol| is_free(it) && size.contains(&uses[&*it.name]);
            let symbol = found.iter().find(fits).or_else(|| found.iter().find(is_free));
            let symbol = symbol.with_context(|| format!("{} declares no {kind}", language.project))?.clone();
            chosen.push(symbol);
        }
    }
    Ok(chosen)
}

/// The ending of a new name, which keeps the conventions of every language.
pub(super) const ENDING: &str = "77";

pub(super) fn new_name(name: &str) -> String {
    format!("{name}{ENDING}")
}
