//! Why a question to a language server has no answer.

use std::time::Duration;

use workspace::{Denied, ErrorCode};

use crate::definition::Feature;

/// Why a question to a language server has no answer. Each says which server it is about.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ServerError {
    /// The program of the server was not found.
    #[error("{server} is not installed{}; install it: {install}", tail(" (", detail, ")"))]
    Missing {
        /// The definition's name.
        server: String,
        /// The command that installs it.
        install: String,
        /// What was found instead; may be empty.
        detail: String,
    },
    /// No definition speaks the language of the file.
    #[error("no language server is defined for {path}{refused}")]
    NoServer {
        /// The file.
        path: String,
        /// Which definitions were refused and why, as a clause; may be empty.
        refused: String,
    },
    /// The server may not be started.
    #[error("{server} may not be started: {denied}")]
    Denied {
        /// The definition's name.
        server: String,
        /// What the policy said.
        denied: Denied,
    },
    /// The server is not ready yet, and the question needs it to be.
    #[error("{server} is still starting: {detail}; try again, or wait longer")]
    Starting {
        /// The definition's name.
        server: String,
        /// What it is doing.
        detail: String,
    },
    /// The server ended. The next question starts it again.
    #[error(
        "{server} ended unexpectedly during {during}{}; the next call starts it again",
        tail(":\n", stderr_tail, "\n")
    )]
    Crashed {
        /// The definition's name.
        server: String,
        /// What it was asked.
        during: String,
        /// The end of what it wrote to its error stream; may be empty.
        stderr_tail: String,
    },
    /// No answer in time.
    #[error("{}{}", late(server, method, *after), tail(" (", detail, ")"))]
    Timeout {
        /// The definition's name.
        server: String,
        /// What it was asked.
        method: String,
        /// How long was waited; nothing where the time was over before it could be asked.
        after: Duration,
        /// What it was doing; may be empty.
        detail: String,
    },
    /// The caller cancelled.
    #[error("cancelled")]
    Cancelled,
    /// No server of the file can do this.
    #[error("{server} does not offer {feature}")]
    Unsupported {
        /// The definition's name, or several.
        server: String,
        /// What was asked for.
        feature: Feature,
    },
    /// The server answered what cannot be understood or does not fit.
    #[error("{server} answered {method} with what cannot be used: {reason}")]
    Protocol {
        /// The definition's name.
        server: String,
        /// What it was asked.
        method: String,
        /// What is wrong with the answer.
        reason: String,
    },
    /// The server, or we on its answer, refused.
    #[error("{server}: {message}")]
    Refused {
        /// The definition's name.
        server: String,
        /// Why.
        message: String,
        /// As what it is to be told.
        code: ErrorCode,
    },
    /// The server's process cannot be started or spoken to.
    #[error("{server} cannot be started: {reason}")]
    Start {
        /// The definition's name.
        server: String,
        /// Why.
        reason: String,
    },
}

fn late(server: &str, method: &str, after: Duration) -> String {
    match after.is_zero() {
        true => format!("the time of this call was over before {server} could be asked {method}"),
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
    /// The code that surfaces and models are given.
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
