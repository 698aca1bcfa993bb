//! Reading what a peer wrote down while it may still be writing.

use std::path::Path;

use serde_json::Value;

/// The messages in a peer's record so far, one a line; a line whose end is not written yet is left
/// for the next reading, and none are there before the peer has begun.
pub fn recorded(path: &Path) -> Vec<Value> {
    let text = std::fs::read(path).unwrap_or_default();
    let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    text[..whole]
        .split_inclusive(|&byte| byte == b'\n')
        .map(|line| serde_json::from_slice(line).expect("a whole line of a record is JSON"))
        .collect()
}
