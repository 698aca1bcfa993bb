//! The closed list of error codes that surfaces and models are given.

use serde::{Deserialize, Serialize};

/// What went wrong, for programs. `docs/formats/errors.md` says what to do about each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is explained in docs/formats/errors.md")]
pub enum ErrorCode {
    StaleText,
    UnknownTag,
    UnseenLines,
    Ambiguous,
    NotFound,
    Denied,
    Untrusted,
    MissingTool,
    ServerStarting,
    ServerCrashed,
    Timeout,
    Cancelled,
    Conflict,
    NotApplied,
    PartlyReverted,
    InvalidArguments,
    Unsupported,
    TooLarge,
    NotUtf8,
    NotAFile,
    ReadOnly,
    DiskFull,
    IoError,
    InvalidPatch,
    ParseRegression,
    WrongState,
    Internal,
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_shown_as_it_is_sent() {
        let sent = serde_json::to_string(&ErrorCode::NotUtf8).unwrap();
        assert_eq!((sent.as_str(), ErrorCode::NotUtf8.to_string().as_str()), ("\"not_utf8\"", "not_utf8"));
    }
}
