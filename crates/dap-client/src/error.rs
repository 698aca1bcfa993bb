//! Why a debug session did not do what was asked: typed, with the code that surfaces are given.

use std::time::Duration;

use policy::ErrorCode;
use process::SpawnError;

use crate::client::RequestError;
use crate::debuggee::BadHandle;
use crate::debuggee::WrongState;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum DapError {
    /// No adapter of those that would do is installed.
    #[error("{adapter} is not installed; get it with `{hint}`")]
    Missing {
        /// The adapter that would be taken.
        adapter: String,
        /// A command, or where it is described.
        hint: String,
    },
    /// No adapter is known for it.
    #[error("no debug adapter is known for {what}; name one with `adapter`: {known}")]
    NoAdapter {
        what: String,
        /// The adapters there are.
        known: String,
    },
    /// The adapter's program did not start.
    #[error("{adapter} did not start: {source}")]
    Spawn {
        adapter: String,
        #[source]
        source: SpawnError,
    },
    /// It started and did not become ready, or ended in the middle.
    #[error("{adapter}: {why}")]
    Crashed {
        adapter: String,
        /// What happened, with the last of its standard error.
        why: String,
    },
    /// It did not become ready in the time that its start may take, and was ended.
    #[error("{adapter}: {why}; it was ended")]
    Late {
        adapter: String,
        /// What did not come, with the last of its standard error.
        why: String,
    },
    /// The adapter refused a request.
    #[error("{adapter} refused `{command}`: {reason}")]
    Refused { adapter: String, command: String, reason: String },
    /// The adapter's answer is not what the protocol says.
    #[error("{adapter} answered `{command}` with something else than the protocol says: {reason}")]
    Answer { adapter: String, command: String, reason: String },
    /// No answer in time.
    #[error("{adapter} did not answer `{command}` within {after:?}; the session is still there")]
    Timeout {
        adapter: String,
        command: String,
        /// How long was waited.
        after: Duration,
    },
    /// Nothing answered where a program or an adapter was said to wait.
    #[error("{adapter}: nothing could be reached at {address} ({why})")]
    Unreachable {
        adapter: String,
        address: String,
        /// What the last attempt said.
        why: String,
    },
    /// Stopped by the caller.
    #[error("cancelled")]
    Cancelled,
    /// The person runs the program now.
    #[error(
        "control_taken_by_user: the person runs this program now, so `{0}` is not for the agent; look, do not run or change, until it is handed back"
    )]
    Control(String),
    /// The session's state forbids it.
    #[error(transparent)]
    WrongState(#[from] WrongState),
    /// A frame or variable that is not there any more.
    #[error(transparent)]
    Handle(#[from] BadHandle),
    /// The adapter cannot do it.
    #[error("{adapter} cannot {what}{}", nearest.as_ref().map(|it| format!("; {it}")).unwrap_or_default())]
    Unsupported {
        adapter: String,
        what: String,
        /// The nearest thing that it can.
        nearest: Option<String>,
    },
    /// No session of that name, or none at all.
    #[error("{0}")]
    NoSession(String),
    /// Several sessions, and none was named.
    #[error("several sessions are live; name one with `session`: {0}")]
    Ambiguous(String),
    /// What was given does not fit together.
    #[error("{0}")]
    Invalid(String),
}

impl DapError {
    /// The code that surfaces and models are given.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Missing { .. } => ErrorCode::MissingTool,
            Self::NoAdapter { .. } | Self::Unsupported { .. } => ErrorCode::Unsupported,
            Self::Spawn { source, .. } => source.code(),
            Self::Crashed { .. } => ErrorCode::ServerCrashed,
            Self::Refused { .. } | Self::Answer { .. } => ErrorCode::NotApplied,
            Self::Timeout { .. } | Self::Late { .. } | Self::Unreachable { .. } => ErrorCode::Timeout,
            Self::Cancelled => ErrorCode::Cancelled,
            Self::WrongState(_) | Self::Control(_) => ErrorCode::WrongState,
            Self::Handle(BadHandle::Stale { .. }) => ErrorCode::StaleText,
            Self::Handle(BadHandle::Unknown { .. }) | Self::NoSession(_) => ErrorCode::NotFound,
            Self::Ambiguous(_) => ErrorCode::Ambiguous,
            Self::Invalid(_) => ErrorCode::InvalidArguments,
        }
    }

    /// What a failed request means for `adapter`. A closed stream is for the session to explain.
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
