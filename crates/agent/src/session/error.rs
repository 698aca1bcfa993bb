//! Errors of session operations, with the next step.

use crate::store::StoreError;

/// The reason why an operation of a session fails.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("nothing to continue: the transcript is empty; send a prompt")]
    Empty,
    #[error("nothing to continue: the model has answered and no message is queued; send a prompt")]
    Answered,
    #[error("the session is closed; open it again")]
    Closed,
    #[error("cancelled; the session is unchanged")]
    Cancelled,
    #[error("the session is not stored in a file, so it has no branches; create it with a store")]
    NotKept,
    #[error(transparent)]
    Store(#[from] StoreError),
}
