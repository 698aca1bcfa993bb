//! Errors of requests to language servers.

use std::time::Duration;

use policy::{Denied, ErrorCode};

use adapters::Feature;

/// Reason why a request has no answer. Each error names the server.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ServerError {
    /// The program of the server was not found.
    #[error("{server} is not installed{}; install it: {install}", tail(" (", detail, ")"))]
    Missing {
        server: String,
        /// The command that installs the server.
        install: String,
        /// Details of the search; may be empty.
        detail: String,
    },
    /// No definition covers the language of the file.
    #[error("no language server is defined for {path}{refused}")]
    NoServer {
        path: String,
        /// The refused definition files and the reasons, as a clause; may be empty.
        refused: String,
    },
    /// The server may not be started.
    #[error("{server} may not be started: {denied}")]
    Denied {
        server: String,
        /// The decision of the policy.
        denied: Denied,
    },
    /// The server has not loaded its project, and the request needs it.
    #[error("{server} is still starting: {detail}; try again, or wait longer")]
    Starting {
        server: String,
        /// The server's last progress report.
        detail: String,
    },
    /// The server ended. The next request restarts it.
    #[error("{server} crashed during {during}; the next call restarts it{}", tail("\n", stderr_tail, ""))]
    Crashed {
        server: String,
        /// The request that the server was handling.
        during: String,
        /// The end of its standard error; may be empty.
        stderr_tail: String,
    },
    /// The server did not answer within the deadline.
    #[error("{}{}", late(server, method, *after), tail(" (", detail, ")"))]
    Timeout {
        server: String,
        method: String,
        /// The time that the call had; zero if it was over before the request was sent.
        after: Duration,
        /// The server's activity; may be empty.
        detail: String,
    },
    /// The caller cancelled.
    #[error("cancelled")]
    Cancelled,
    /// No server of the file has the feature.
    #[error("{server} does not offer {feature}")]
    Unsupported {
        /// The definition's name, or several.
        server: String,
        feature: Feature,
    },
    /// The answer cannot be parsed or does not fit the text.
    #[error("{server} sent an invalid answer to {method}: {reason}")]
    Protocol {
        server: String,
        method: String,
        /// The problem of the answer.
        reason: String,
    },
    /// The server refused the request, or its answer was refused.
    #[error("{server}: {message}")]
    Refused {
        server: String,
        message: String,
        /// The error code to report.
        code: ErrorCode,
    },
    /// The server's process cannot be started or has no pipes.
    #[error("{server} cannot be started: {reason}")]
    Start { server: String, reason: String },
}

fn late(server: &str, method: &str, after: Duration) -> String {
    match after.is_zero() {
        true => format!("the time of this call ran out before {method} was sent to {server}"),
        false => format!("{server} did not answer {method} within {after:?}"),
    }
}

fn tail(before: &str, text: &str, after: &str) -> String {
    match text.trim_end() {
        "" => String::new(),
        text => format!("{before}{text}{after}"),
    }
}

impl ServerError {
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Missing { .. } => ErrorCode::MissingTool,
            Self::NoServer { .. } | Self::Unsupported { .. } => ErrorCode::Unsupported,
            Self::Denied { denied, .. } => denied.code,
            Self::Starting { .. } => ErrorCode::ServerStarting,
            Self::Crashed { .. } => ErrorCode::ServerCrashed,
            Self::Timeout { .. } => ErrorCode::Timeout,
            Self::Cancelled => ErrorCode::Cancelled,
            Self::Protocol { .. } => ErrorCode::Internal,
            Self::Refused { code, .. } => *code,
            Self::Start { .. } => ErrorCode::ServerCrashed,
        }
    }
}
