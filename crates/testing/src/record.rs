//! Messages in a peer's record, read while the peer may still write it.

use std::path::Path;

use serde_json::Value;

/// The messages in a peer's record so far, one per line.
///
/// An incomplete line is left for the next read; a missing file has no messages.
pub fn recorded(path: &Path) -> Vec<Value> {
    let text = std::fs::read(path).unwrap_or_default();
    let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    text[..whole]
        .split_inclusive(|&byte| byte == b'\n')
        .map(|line| serde_json::from_slice(line).expect("a whole line of a record is JSON"))
        .collect()
}
