//! Failure of a tool: an error code, a message with the next step, and data.
//!
//! Conversions from the typed errors of lower layers are here.

use agent::ToolResult;
use paths::{AbsPath, StateError};
use policy::{Denied, DeniedBy, ErrorCode};
use process::SpawnError;
use serde_json::{Value, json};
use workspace::{
    CommitError, GlobError, PathError, PlanError, QueryError, ReadError, SearchError, UndoError,
};

/// A failed call, before its conversion to a [`ToolResult`].
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub code: ErrorCode,
    /// Text for the model and the user.
    pub message: String,
    /// Further facts; `null` when there are none.
    pub data: Value,
    /// Details for surfaces, like those of a successful call.
    ///
    /// Boxed, since few failures have any.
    pub details: Option<Box<Value>>,
    /// The cause of a denial by the policy or the user.
    pub denied_by: Option<DeniedBy>,
}

impl Failure {
    /// Creates a failure without further data.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: Value::Null, details: None, denied_by: None }
    }

    /// Creates a failure of arguments which the call cannot use.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidArguments, message)
    }

    /// Adds facts for programs.
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = data;
        self
    }

    /// Makes the result of a call with this action.
    ///
    /// Surfaces report it as cancelled if the user refused.
    pub(crate) fn into_result(self, action: &str) -> ToolResult {
        match self.denied_by {
            Some(DeniedBy::User) => self.with_details(json!({ "cancelled": action })).into(),
            _ => self.into(),
        }
    }

    /// Adds details for surfaces.
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }
}

/// Names the action of a call for the user: `Rename`.
pub fn action_name(tool: &str, args: &Value) -> String {
    let name = args["action"].as_str().unwrap_or(if tool == "bash" { "command" } else { tool });
    let (first, rest) = name.split_at_checked(1).unwrap_or_default();
    format!("{}{}", first.to_uppercase(), rest.replace('_', " "))
}

/// Renders that the user refused a call.
///
/// `None` if these details are not of such a result.
pub fn cancellation(details: &Value) -> Option<String> {
    details["cancelled"].as_str().map(|action| format!("{action} cancelled."))
}

impl From<Failure> for ToolResult {
    fn from(failure: Failure) -> Self {
        let mut data = failure.data;
        let details = failure.details.map_or(Value::Null, |details| *details);
        if failure.denied_by == Some(DeniedBy::Unattended) {
            data = json!({ "unattended": true });
        }
        ToolResult::error(failure.code, failure.message).with_data(data).with_details(details)
    }
}

/// Reason why a plan was not committed.
pub(crate) enum CommitRefusal {
    /// The files changed since the plan was made; the caller plans again.
    Stale,
    Failed(Failure),
}

impl From<CommitRefusal> for Failure {
    fn from(refused: CommitRefusal) -> Self {
        match refused {
            CommitRefusal::Stale => Failure::new(
                ErrorCode::StaleText,
                "the files changed while the edit was planned; nothing was written, try again",
            ),
            CommitRefusal::Failed(failure) => failure,
        }
    }
}

macro_rules! coded {
    ($($error:ty),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new(error.code(), error.to_string())
            }
        }
    )*};
}

coded!(ReadError, PathError, PlanError, UndoError, SearchError, SpawnError);

impl From<StateError> for Failure {
    fn from(error: StateError) -> Self {
        Self::new(ErrorCode::from(&error), error.to_string())
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        Self::new(ErrorCode::InvalidArguments, error.to_string())
    }
}

impl From<GlobError> for Failure {
    fn from(error: GlobError) -> Self {
        Self::new(ErrorCode::InvalidArguments, error.to_string())
    }
}

impl From<CommitError> for Failure {
    fn from(error: CommitError) -> Self {
        let data = match &error {
            CommitError::Moved { paths } => {
                json!({ "paths": paths.iter().map(AbsPath::to_string).collect::<Vec<_>>() })
            }
            CommitError::PartlyReverted { details } => json!({ "left": details }),
            _ => Value::Null,
        };
        Self::new(error.code(), error.to_string()).with_data(data)
    }
}

impl From<Denied> for Failure {
    fn from(denied: Denied) -> Self {
        let Denied { code, reason, by } = denied;
        Self { denied_by: Some(by), ..Self::new(code, reason) }
    }
}

impl From<lsp_client::ServerError> for Failure {
    fn from(error: lsp_client::ServerError) -> Self {
        let denied_by = match &error {
            lsp_client::ServerError::Denied { denied, .. } => Some(denied.by),
            _ => None,
        };
        Self { denied_by, ..Self::new(error.code(), error.to_string()) }
    }
}

impl From<refactor::RefactorError> for Failure {
    fn from(error: refactor::RefactorError) -> Self {
        match error {
            refactor::RefactorError::Server(error) => error.into(),
            error => Self::new(error.code(), error.to_string()),
        }
    }
}
