//! The closed list of error codes for surfaces and models.

use serde::{Deserialize, Serialize};

/// Kind of an error, for programs. `docs/formats/errors.md` has the remedies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

impl From<&paths::StateError> for ErrorCode {
    fn from(error: &paths::StateError) -> Self {
        use paths::StateError;
        match error {
            StateError::Locked { .. } => Self::Conflict,
            StateError::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                Self::DiskFull
            }
            StateError::Io { .. } | StateError::NoHome | StateError::Damaged { .. } => Self::IoError,
            StateError::BadName { .. } => Self::InvalidArguments,
            StateError::NewerFormat { .. } => Self::Unsupported,
        }
    }
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
    fn an_error_code_displays_as_it_serializes() {
        let sent = serde_json::to_string(&ErrorCode::NotUtf8).unwrap();
        assert_eq!((sent.as_str(), ErrorCode::NotUtf8.to_string().as_str()), ("\"not_utf8\"", "not_utf8"));
    }
}
