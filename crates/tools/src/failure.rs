//! Why a tool did not do what was asked: a code of the closed list, a sentence that says what to
//! do next, and data for programs. Every typed error below becomes one of these, once, here.

use agent::ToolResult;
use serde_json::{Value, json};
use workspace::{
    AbsPath, CommitError, Denied, ErrorCode, GlobError, PathError, PlanError, QueryError, ReadError,
    SearchError, SpawnError, StateError, UndoError,
};

/// A failed call, before it is a [`ToolResult`].
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// For programs.
    pub code: ErrorCode,
    /// For the model and people.
    pub message: String,
    /// Further facts; `null` when there are none.
    pub data: Value,
    /// What surfaces are given whole, as of a call that did what was asked. Boxed, since few have any.
    pub details: Option<Box<Value>>,
    /// It would have been asked, but there was nobody.
    pub nobody_to_ask: bool,
}

impl Failure {
    /// A failure without further data.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: Value::Null, details: None, nobody_to_ask: false }
    }

    /// Adds facts for programs.
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = data;
        self
    }

    /// With these details for surfaces.
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }
}

impl From<Failure> for ToolResult {
    fn from(failure: Failure) -> Self {
        let mut data = failure.data;
        let details = failure.details.map_or(Value::Null, |details| *details);
        if failure.nobody_to_ask {
            data = json!({ "nobody_to_ask": true });
        }
        ToolResult::error(failure.code, failure.message).with_data(data).with_details(details)
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

coded!(ReadError, PathError, PlanError, UndoError, StateError, SearchError, SpawnError);

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
        Self { nobody_to_ask: denied.nobody_to_ask, ..Self::new(denied.code, denied.reason) }
    }
}

impl From<lsp_client::ServerError> for Failure {
    fn from(error: lsp_client::ServerError) -> Self {
        let nobody_to_ask =
            matches!(&error, lsp_client::ServerError::Denied { denied, .. } if denied.nobody_to_ask);
        Self { nobody_to_ask, ..Self::new(error.code(), error.to_string()) }
    }
}
