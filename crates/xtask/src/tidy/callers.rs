//! Public items that no other crate mentions.
//!
//! A guide that documents an item for embedding counts as a caller. `unreachable_pub` finds items that no other
//! crate can name; this finds those that none does. A type may be
//! named by a public signature alone. Names are compared as words, so an item with a common name is not found.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::OnceLock;

use super::count::{product_crate, without_tests};

/// Finds public items of the product that are not mentioned outside of their crate.
pub(super) fn check(files: &[(String, String)]) -> Vec<String> {
    let rust = || files.iter().filter(|(path, _)| path.ends_with(".rs"));
    let mut words: BTreeMap<&str, HashSet<&str>> = BTreeMap::new();
    for (path, text) in rust() {
        words.entry(home(path)).or_default().extend(text.split(|c: char| !(c.is_alphanumeric() || c == '_')));
    }
    for (path, text) in files.iter().filter(|(path, _)| path.starts_with("docs/guide/")) {
        words.entry(path).or_default().extend(text.split(|c: char| !(c.is_alphanumeric() || c == '_')));
    }
    let mut problems = Vec::new();
    let mut signatures: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, text) in rust() {
        if product_crate(path).is_some() {
            signatures.entry(home(path)).or_default().extend(signature_words(text));
        }
    }
    for (path, text) in rust() {
        // No other crate uses the binary.
        if product_crate(path).is_none_or(|name| name == "pilcrow") {
            continue;
        }
        let own = home(path);
        for (line, kind, name) in public_items(without_tests(text)) {
            let outside = words.iter().any(|(home, words)| *home != own && words.contains(name));
            let is_type = ["struct", "enum", "trait", "type"].contains(&kind);
            let in_signature = is_type && signatures.get(own).is_some_and(|words| words.contains(name));
            if !outside && !in_signature {
                problems
                    .push(format!("{path}:{line}: `pub {kind} {name}` has no caller outside of its crate"));
            }
        }
    }
    problems
}

/// The sources of a crate, or the directory of other files.
fn home(path: &str) -> &str {
    match path.find("/src/") {
        Some(end) => &path[..end + 4],
        None => path.rsplit_once('/').map_or("", |(directory, _)| directory),
    }
}

/// Line, kind and name of each `pub` item and method.
fn public_items(code: &str) -> Vec<(usize, &str, &str)> {
    static ITEM: OnceLock<regex::Regex> = OnceLock::new();
    let item = ITEM.get_or_init(|| {
        regex::Regex::new(r"^\s*pub (?:const |async |unsafe )*(fn|struct|enum|trait|type|const|static) (\w+)")
            .expect("the pattern is constant")
    });
    let found = code.lines().enumerate().filter_map(|(index, line)| {
        let found = item.captures(line)?;
        Some((index + 1, found.get(1)?.as_str(), found.get(2)?.as_str()))
    });
    found.collect()
}

/// The words in public signatures and in the fields and variants of public types.
fn signature_words(code: &str) -> Vec<&str> {
    static PARTS: OnceLock<[regex::Regex; 2]> = OnceLock::new();
    let [signature, member] = PARTS.get_or_init(|| {
        let part = |pattern: &str| regex::Regex::new(pattern).expect("the pattern is constant");
        [
            part(
                r"(?ms)^\s*(?:pub )?(?:const |async |unsafe )*fn \w+([^{;]*)[{;]|^\s*type \w+ = ([^;]*);|^\s*pub (?:const|static) \w+: ([^=;]*)=",
            ),
            part(r"(?m)^\s+(?:pub \w+: (.*)|\w+\((.*)\)|\w+: (.*)|\w+ \{ (.*) \}),$"),
        ]
    });
    let parts = signature.captures_iter(code).chain(member.captures_iter(code));
    let texts =
        parts.flat_map(|part| part.iter().skip(1).flatten().map(|text| text.as_str()).collect::<Vec<_>>());
    texts.flat_map(|text| text.split(|c: char| !(c.is_alphanumeric() || c == '_'))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_without_a_caller_is_found() {
        let problems = |files: &[(&str, &str)]| {
            check(
                &files
                    .iter()
                    .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
                    .collect::<Vec<_>>(),
            )
        };
        let used = "pub fn used() -> Answer {\n}\npub struct Answer;\npub const FIRST: Kind = Kind;\npub struct Kind;\n";
        let caller = ("tests/e2e/a.rs", "fn a() { b::used(); b::FIRST; }");
        assert_eq!(problems(&[("crates/b/src/lib.rs", used), caller]), [""; 0]);
        assert_eq!(
            problems(&[("crates/b/src/lib.rs", "fn used() {}\npub fn unused() {}\n"), caller]),
            ["crates/b/src/lib.rs:2: `pub fn unused` has no caller outside of its crate",]
        );
    }
}
