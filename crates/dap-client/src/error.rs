//! Typed errors of debug sessions, with the codes for surfaces.

use std::time::Duration;

use policy::ErrorCode;
use process::SpawnError;

use crate::client::RequestError;
use crate::debuggee::BadHandle;
use crate::debuggee::WrongState;

/// The result of a debug operation.
pub type Result<T, E = DapError> = std::result::Result<T, E>;

/// Error of a debug operation.
#[derive(Debug, thiserror::Error)]
pub enum DapError {
    /// No suitable adapter is installed.
    #[error("{adapter} is not installed; install it with `{hint}`")]
    Missing {
        /// The adapter that would be used.
        adapter: String,
        /// The command that installs it, or a page.
        hint: String,
    },
    /// No adapter is known for the target.
    #[error("no debug adapter is known for {what}; name one with `adapter`: {known}")]
    NoAdapter { what: String, known: String },
    /// The adapter's program did not start.
    #[error("{adapter} did not start: {source}")]
    Spawn {
        adapter: String,
        #[source]
        source: SpawnError,
    },
    /// The adapter did not become ready, or ended.
    #[error("{adapter}: {why}")]
    Crashed {
        adapter: String,
        /// The reason, with the end of its standard error.
        why: String,
    },
    /// The adapter did not become ready in time and was ended.
    #[error("{adapter}: {why}; Pilcrow ended it; start it again")]
    Late {
        adapter: String,
        /// The step that is missing, with the end of its standard error.
        why: String,
    },
    /// The adapter refused a request.
    #[error("{adapter} refused `{command}`: {reason}")]
    Refused { adapter: String, command: String, reason: String },
    /// The adapter's answer violates the protocol.
    #[error("{adapter} answered `{command}` against the protocol: {reason}; update the adapter")]
    Answer { adapter: String, command: String, reason: String },
    /// The adapter did not answer in time, but answers other requests.
    #[error("{adapter} did not answer `{command}` within {}; it answers others, so try again", rounded(*after))]
    Timeout { adapter: String, command: String, after: Duration },
    /// The adapter answers nothing any more.
    #[error("{adapter} has answered nothing since `{command}`, {} ago; `restart` or `terminate` it", rounded(*after))]
    Unresponsive { adapter: String, command: String, after: Duration },
    /// No program or adapter answered at the given address.
    #[error("{adapter}: cannot connect to {address} ({why}); start it there or correct the address")]
    Unreachable {
        adapter: String,
        address: String,
        /// The error of the last attempt.
        why: String,
    },
    /// The caller cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The user has control, so the agent may only inspect.
    #[error(
        "control_taken_by_user: `{0}` is refused while the user has control; you may inspect the program"
    )]
    Control(String),
    #[error(transparent)]
    WrongState(#[from] WrongState),
    /// A frame or variable from an earlier stop.
    #[error(transparent)]
    Handle(#[from] BadHandle),
    /// The adapter does not support it.
    #[error("{adapter} cannot {what}{}", nearest.as_ref().map(|it| format!("; {it}")).unwrap_or_default())]
    Unsupported {
        adapter: String,
        what: String,
        /// The nearest supported alternative.
        nearest: Option<String>,
    },
    /// No session has the given name, or there is no session at all.
    #[error("{0}")]
    NoSession(String),
    /// Several sessions are live and none was named.
    #[error("several sessions are live; name one with `session`: {0}")]
    Ambiguous(String),
    /// The arguments are invalid.
    #[error("{0}")]
    Invalid(String),
}

/// Renders a duration in whole seconds, or below one in milliseconds.
fn rounded(time: Duration) -> String {
    let seconds = time.as_secs_f64().round();
    if seconds < 1.0 { format!("{} ms", time.as_millis()) } else { format!("{seconds} s") }
}

impl DapError {
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Missing { .. } => ErrorCode::MissingTool,
            Self::NoAdapter { .. } | Self::Unsupported { .. } => ErrorCode::Unsupported,
            Self::Spawn { source, .. } => source.code(),
            Self::Crashed { .. } => ErrorCode::ServerCrashed,
            Self::Refused { .. } | Self::Answer { .. } => ErrorCode::NotApplied,
            Self::Timeout { .. }
            | Self::Unresponsive { .. }
            | Self::Late { .. }
            | Self::Unreachable { .. } => ErrorCode::Timeout,
            Self::Cancelled => ErrorCode::Cancelled,
            Self::WrongState(_) | Self::Control(_) => ErrorCode::WrongState,
            Self::Handle(BadHandle::Stale { .. }) => ErrorCode::StaleText,
            Self::Handle(BadHandle::Unknown { .. }) | Self::NoSession(_) => ErrorCode::NotFound,
            Self::Ambiguous(_) => ErrorCode::Ambiguous,
            Self::Invalid(_) => ErrorCode::InvalidArguments,
        }
    }

    /// Converts a failed request. The session explains a closed stream itself.
    pub(crate) fn from_request(adapter: &str, error: RequestError) -> Self {
        let adapter = adapter.to_owned();
        match error {
            RequestError::Refused { command, error } => {
                Self::Refused { adapter, command, reason: error.message }
            }
            RequestError::Deadline { command, after } => Self::Timeout { adapter, command, after },
            RequestError::Cancelled { .. } => Self::Cancelled,
            RequestError::Closed { why, .. } => Self::Crashed { adapter, why },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_is_in_whole_seconds() {
        let times = [29.999_985, 1.2, 0.25].map(|it| rounded(Duration::from_secs_f64(it)));
        assert_eq!(times, ["30 s", "1 s", "250 ms"]);
    }
}
