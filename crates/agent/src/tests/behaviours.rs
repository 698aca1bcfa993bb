//! The list of behaviours that a loop like this one is known by, and which of them tests hold: `behaviours.md` beside the crate's
//! manifest is made of it, by `UPDATE=1 cargo test -p agent behaviours`. A test carries the numbers in its name (`b17`, `r3`).

#![expect(clippy::disallowed_methods, reason = "the list is written where it is read")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

enum Is {
    /// Tests hold it.
    Held,
    /// It is otherwise here, or is not there to be held.
    Otherwise(&'static str),
}
use Is::{Held, Otherwise};

const BEHAVIOURS: &[(&str, &str, Is)] = include!("behaviours.in");

fn tests_in(folder: &Path, found: &mut BTreeMap<String, Vec<String>>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            tests_in(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            for line in std::fs::read_to_string(&path).unwrap().lines() {
                let Some((_, rest)) = line.trim_start().split_once("fn ") else { continue };
                let Some((name, _)) = rest.split_once('(') else { continue };
                let numbers = name.split('_').take_while(|part| {
                    let digits = part.strip_prefix('b').filter(|it| it.len() == 2);
                    let digits = digits.or_else(|| part.strip_prefix('r').filter(|it| it.len() == 1));
                    digits.is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_digit()))
                });
                for number in numbers {
                    found.entry(number.to_owned()).or_default().push(name.to_owned());
                }
            }
        }
    }
}

#[test]
fn the_list_of_behaviours_says_what_the_tests_hold() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeMap::new();
    for folder in ["src", "../llm/src", "../llm/tests", "../testing/tests", "../pilcrow/src"] {
        tests_in(&manifest.join(folder), &mut found);
    }
    let mut held = 0;
    let mut table = String::new();
    for (number, words, is) in BEHAVIOURS {
        let tests = found.remove(*number).unwrap_or_default();
        let tests: Vec<String> = tests.iter().map(|name| format!("`{name}`")).collect();
        let tests = tests.join(", ");
        let state = match is {
            Held => {
                assert!(!tests.is_empty(), "{number} is said to be held, and no test carries it");
                held += 1;
                tests
            }
            Otherwise(why) if tests.is_empty() => format!("does not apply: {why}"),
            Otherwise(why) => format!("otherwise here: {why}; {tests}"),
        };
        writeln!(table, "| {number} | {words} | {state} |").unwrap();
    }
    assert!(found.is_empty(), "tests carry numbers that are not in the list: {found:?}");
    let otherwise = BEHAVIOURS.len() - held;
    let expected = format!(
        "# Behaviours of the loop\n\nMade by `UPDATE=1 cargo test -p agent behaviours`; the numbers stand in the tests' names. \
         {held} are held by tests, {otherwise} do not apply or are otherwise here.\n\n\
         | number | behaviour | tests |\n|---|---|---|\n{table}"
    );
    let path = manifest.join("behaviours.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == expected,
        "behaviours.md is not up to date; make it by UPDATE=1 cargo test -p agent behaviours"
    );
}
