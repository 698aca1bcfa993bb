//! Errors of session operations.

use crate::store::StoreError;

/// Why an operation of a session fails.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("nothing to continue: the transcript is empty; send a prompt")]
    Empty,
    #[error("nothing to continue: the model has answered and no message is queued; send a prompt")]
    Answered,
    #[error("the session is closed")]
    Closed,
    #[error("cancelled; the session is unchanged")]
    Cancelled,
    #[error("the session is not stored in a file, so it has no branches")]
    NotKept,
    #[error(transparent)]
    Store(#[from] StoreError),
}
