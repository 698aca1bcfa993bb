//! Edits that the server sends while it runs a command.

use std::time::SystemTime;

use tokio::sync::{mpsc, oneshot};
use workspace::WorkspaceEdit;

/// The receiver of edits while a request is pending that may cause some.
#[derive(Clone)]
pub(crate) struct EditInbox {
    pub sender: mpsc::Sender<PendingEdit>,
    /// Time of the request.
    pub since: SystemTime,
}

/// An edit of the server that is not applied yet.
pub(crate) struct PendingEdit {
    pub edit: WorkspaceEdit,
    /// Takes the reason for the server where the edit cannot be applied.
    pub done: oneshot::Sender<Result<(), String>>,
}
