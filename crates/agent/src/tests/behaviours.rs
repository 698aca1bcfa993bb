//! Checks `behaviours.md`, which maps behaviours of agent loops to their tests.

use std::collections::BTreeSet;
use std::path::Path;

/// Collects the names of all functions below a directory.
fn functions_in(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions_in(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let names = text.lines().filter_map(|line| line.split_once("fn ")?.1.split_once('('));
            found.extend(names.map(|(name, _)| name.to_owned()));
        }
    }
}

#[test]
fn the_table_of_behaviours_names_existing_tests() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut functions = BTreeSet::new();
    for directory in ["src", "../llm/src", "../llm/tests"] {
        functions_in(&manifest.join(directory), &mut functions);
    }
    let table = include_str!("../../behaviours.md");
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() > 90, "{} rows", rows.len());
    for row in rows {
        let cell = row.rsplit(" | ").next().unwrap();
        // Odd parts are quoted; test names have several words.
        let tests: Vec<&str> =
            cell.split('`').skip(1).step_by(2).filter(|name| name.matches('_').count() > 2).collect();
        assert!(!tests.is_empty() || cell.starts_with("differs: "), "no test holds: {row}");
        for test in tests {
            assert!(functions.contains(test), "no test is named {test}");
        }
    }
}
