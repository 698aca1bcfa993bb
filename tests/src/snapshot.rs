//! Snapshots of output, with masks for the parts that differ between runs.

use std::sync::LazyLock;

use expect_test::Expect;
use regex::Regex;

static MASKS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let masks = [
        (r"(?:/[\w.%-]+)*/pilcrow(?: |%20)e2e(?: |%20)\w{6}", "<sandbox>"),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z| UTC)?", "<date>"),
        (r"\b\d+\.\d+ ?s\b", "<time>"),
        (r"\bprocess \(\d+\)", "process (<pid>)"),
        (r"\bpid \d+", "pid <pid>"),
        (r"workspaces/[0-9a-f]{16}/servers/[0-9-]+", "workspaces/<project>/servers/<server>"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
    ];
    masks.into_iter().map(|(pattern, mask)| (Regex::new(pattern).expect("a pattern"), mask)).collect()
});

/// Compares a text with its snapshot, with paths, ids and times masked.
#[track_caller]
pub fn check_output(actual: &str, expected: &Expect) {
    expected.assert_eq(&masked(actual));
}

/// Returns the first line that contains a part, to compare it with its snapshot.
#[track_caller]
pub fn line_with<'a>(text: &'a str, part: &str) -> &'a str {
    text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("no line holds `{part}`: {text}"))
}

/// Masks paths, ids and times of a text.
pub fn masked(text: &str) -> String {
    MASKS.iter().fold(text.to_owned(), |text, (pattern, mask)| pattern.replace_all(&text, *mask).into_owned())
}
