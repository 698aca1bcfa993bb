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
