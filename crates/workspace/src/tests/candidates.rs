//! Scans within a budget.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::*;
use crate::{Budget, SearchError, SkipReason};

fn budget() -> Budget {
    Budget::new(Instant::now() + Duration::from_secs(60), CancellationToken::new())
}

/// Scans for "name": the files, completeness, and the skipped files.
fn scan(fixture: &Fixture, budget: Budget) -> (Vec<String>, bool, Vec<(String, SkipReason)>) {
    let workspace = &fixture.workspace;
    let mut candidates = workspace.candidates(workspace.files(workspace.root()), budget);
    let mut found = Vec::new();
    while let Some(document) = candidates.next_document(|text| text.contains("name")) {
        found.push(workspace.relative(&document.path));
    }
    let skipped = candidates.skipped().iter().map(|(path, reason)| (workspace.relative(path), *reason));
    (found, candidates.is_complete(), skipped.collect())
}

#[test]
fn a_scan_reports_matches_and_skipped_files() {
    let fixture =
        Fixture::new(&[("a", "name"), ("b", "other"), ("c", "a long text without"), ("d", "my name")]);
    fixture.write("binary", b"name\xff");
    fixture.write("large", "name name name");
    let (found, complete, skipped) = scan(&fixture, Budget { bytes: 8, ..budget() });
    assert_eq!(found, ["a", "d"]);
    assert!(complete);
    assert_eq!(
        skipped,
        [("binary".to_owned(), SkipReason::NotUtf8), ("large".to_owned(), SkipReason::TooLarge)]
    );
}

#[test]
fn a_scan_ends_with_its_budget() {
    let fixture = Fixture::new(&[("a", "name"), ("b", "name"), ("c", "name")]);
    let (found, complete, _) = scan(&fixture, Budget { files: 2, ..budget() });
    assert_eq!((found.as_slice(), complete), (["a".to_owned(), "b".to_owned()].as_slice(), false));
    assert!(scan(&fixture, Budget { files: 3, ..budget() }).1, "a budget that is just enough");
    let late = Budget { until: Instant::now(), ..budget() };
    assert_eq!(scan(&fixture, late), (Vec::new(), false, Vec::new()));
}

#[test]
fn a_cancelled_scan_has_no_result() {
    let fixture = Fixture::new(&[("a", "name")]);
    let work = |workspace: Workspace, budget: Budget| {
        workspace.candidates(workspace.files(workspace.root()), budget).count()
    };
    assert_eq!(block_on(fixture.workspace.scan(budget(), work)).unwrap(), 1);
    let cancelled = budget();
    cancelled.cancel.cancel();
    assert!(matches!(block_on(fixture.workspace.scan(cancelled, work)), Err(SearchError::Cancelled)));
}
