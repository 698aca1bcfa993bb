//! The scenarios of `tests/scenarios/hashline/NNN_name/`; adding one needs no code.
//!
//! A directory describes one edit: the text read, changes to the file, the patch, and the expected result.
//! `tests/scenarios/hashline/README.md` describes the format. This runner knows no rule of the engine; it plays
//! each directory, compares the result, and checks what holds for every scenario (a refusal changes nothing and
//! shows lines that can be edited at once; a patch prints to itself and may arrive in chunks).

mod case;
mod play;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use case::Case;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios/hashline")
}

fn directories() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    let mut directories: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    directories.sort();
    directories
}

fn name(directory: &Path) -> String {
    directory.file_name().unwrap().to_string_lossy().into_owned()
}

/// Names in a list file, one per line; `#` begins a comment.
fn list(file: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join(file)).unwrap();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn every_scenario_gives_its_expected_result() {
    let only = std::env::var("SCENARIO").unwrap_or_default();
    let pending = list("pending");
    let mut failures = Vec::new();
    let (mut count, mut waiting) = (0, 0);
    for directory in directories() {
        let name = name(&directory);
        if !name.contains(&only) {
            continue;
        }
        count += 1;
        // A scenario that the engine panics on fails, and the others are still played.
        let played = std::panic::catch_unwind(|| Case::read(&directory).and_then(|case| play::play(&case)));
        let played = played.unwrap_or_else(|_| Err("panicked".into()));
        match (played, pending.contains(&name)) {
            (Ok(()), false) => {}
            (Ok(()), true) => failures.push(format!("{name}: passes, so take it out of `pending`")),
            (Err(_), true) if only.is_empty() => waiting += 1,
            (Err(problem), _) => failures.push(format!("{name}: {problem}")),
        }
    }
    for name in &pending {
        if !root().join(name).is_dir() {
            failures.push(format!("{name}: listed in `pending` but not a scenario"));
        }
    }
    println!("{count} scenarios, {waiting} pending");
    assert!(failures.is_empty(), "{} of {count} failed\n\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn every_rule_and_hazard_has_a_scenario() {
    let rules: BTreeMap<String, BTreeMap<String, String>> =
        toml::from_str(&std::fs::read_to_string(root().join("rules.toml")).unwrap()).unwrap();
    let known: BTreeSet<String> = rules
        .iter()
        .flat_map(|(group, rules)| rules.keys().map(move |rule| format!("{group}.{rule}")))
        .collect();
    let mut covered = BTreeSet::new();
    for directory in directories() {
        let case = Case::read(&directory).unwrap();
        assert!(!case.covers.is_empty(), "{}: covers no rule", name(&directory));
        for rule in case.covers {
            assert!(known.contains(&rule), "{}: `{rule}` is not in rules.toml", name(&directory));
            covered.insert(rule);
        }
    }
    let bare: Vec<&String> = known.difference(&covered).collect();
    assert!(bare.is_empty(), "rules without a scenario: {bare:?}");
}

#[test]
fn scenario_numbers_are_unique() {
    let mut numbers = BTreeSet::new();
    for directory in directories() {
        let name = name(&directory);
        let (number, rest) = name.split_once('_').unwrap();
        assert!(number.len() == 3 && number.parse::<u32>().is_ok() && !rest.is_empty(), "{name}");
        assert!(numbers.insert(number.to_owned()), "{name}: the number is taken");
    }
}
