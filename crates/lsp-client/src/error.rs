//! Errors of requests to language servers.

use std::time::Duration;

use paths::AbsPath;
use policy::{Denied, ErrorCode};

use adapters::Feature;

/// The result of a request to a language server.
pub type Result<T, E = ServerError> = std::result::Result<T, E>;

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
    #[error("no language server is defined for {path}; search its text, or add a definition{refused}")]
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
    #[error("{server} is still starting: {cause}; try again, or wait longer")]
    Starting { server: String, cause: StartCause },
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
    #[error("{server} sent an invalid answer to {method}: {reason}; update the server")]
    Protocol {
        server: String,
        method: String,
        /// The problem of the answer.
        reason: String,
    },
    /// The server refused the request, or its answer was refused.
    #[error("{server}: {refusal}")]
    Refused { server: String, refusal: Refusal },
    /// The server's process cannot be started or has no pipes.
    #[error("{server} cannot be started: {reason}")]
    Start { server: String, reason: String },
}

/// The reason why a server cannot answer yet.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StartCause {
    /// The project is loading, with the progress that the server reports.
    #[error("{}", .0.as_deref().unwrap_or("it has not reported that the project is loaded"))]
    Loading(Option<String>),
    #[error("its process has not answered `initialize` yet")]
    Initializing,
    #[error("it crashed {failures} times; the next start is in {wait:.0?}\n{stderr_tail}")]
    Crashing { failures: u32, wait: Duration, stderr_tail: String },
    #[error("its definition was changed while it started")]
    DefinitionChanged,
    #[error("Pilcrow is shutting down")]
    ShuttingDown,
    /// The memory of the servers in use, and the limit, in MiB.
    #[error("the servers in use take {used} MiB of {limit} MiB; raise `lsp.max_memory`")]
    Memory { used: u64, limit: u64 },
}

/// The reason why a request or its answer was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// An error response of the server.
    #[error("{method}: {message}")]
    Response { method: String, message: String, code: ErrorCode },
    #[error("{method}: {problem}")]
    Edit { method: String, problem: Box<EditProblem> },
    #[error("{0:?} is a command for an editor, not for the server; choose another action")]
    EditorCommand(String),
    #[error("the project is not loaded; fix this and try again\n{0}")]
    ProjectNotLoaded(String),
    #[error("it is named {0} already; choose another name")]
    SameName(String),
    #[error("the rename of {old:?} to {new:?} changes nothing; check that the new name is valid")]
    NothingRenamed { old: String, new: String },
    #[error("{0:?} cannot be renamed: no symbol of the project is there; name another place")]
    NoSymbol(String),
    /// The place has no item of a hierarchy.
    #[error("it finds no {kind} at {name:?}; {}", if *is_loading { "it is still loading, try again" } else { "name another place" })]
    NoItem { kind: &'static str, name: String, is_loading: bool },
    #[error("it cannot format a range; format the whole file")]
    RangeFormatting,
    #[error("it organizes imports only by a command that edits files itself; edit the imports instead")]
    ImportsByCommand,
    #[error("{title:?} cannot be applied here ({reason}); choose another action")]
    DisabledAction { title: String, reason: String },
    #[error("{0:?} has no edit and no command; choose another action")]
    EmptyAction(String),
    #[error("several servers match; name one as `server`")]
    SeveralServers,
    /// A method of synchronization or of the server's lifecycle.
    #[error("only Pilcrow itself sends {0}; request another method")]
    Reserved(String),
    #[error("it does not handle the language of {0}; name another server, or none")]
    OtherLanguage(String),
    #[error("it is not running; name a `file` of its language")]
    NotRunning,
    #[error("no server is running; name a `file`")]
    NoneRunning,
}

impl Refusal {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Response { code, .. } => *code,
            Self::Edit { problem, .. } => problem.code(),
            Self::EditorCommand(_) | Self::RangeFormatting | Self::ImportsByCommand | Self::Reserved(_) => {
                ErrorCode::Unsupported
            }
            Self::ProjectNotLoaded(_) => ErrorCode::WrongState,
            Self::SameName(_) | Self::NothingRenamed { .. } | Self::NoSymbol(_) => {
                ErrorCode::InvalidArguments
            }
            Self::DisabledAction { .. } | Self::EmptyAction(_) => ErrorCode::NotApplied,
            Self::SeveralServers => ErrorCode::Ambiguous,
            Self::NoItem { .. } | Self::OtherLanguage(_) | Self::NotRunning | Self::NoneRunning => {
                ErrorCode::NotFound
            }
        }
    }
}

/// Reason why an edit is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EditProblem {
    #[error("its edit changes {0}, which is outside the workspace; change that file by hand")]
    Outside(String),
    #[error("its edit changes {0}, which is not a file; make the change another way")]
    NotAFile(String),
    #[error(
        "its edit is for version {answered} of {path}, but the request was about version {requested}; try again"
    )]
    Version { path: AbsPath, answered: i32, requested: String },
    #[error("its edits of {path} do not fit the text: {reason}; `reload` it and try again")]
    DoesNotFit { path: AbsPath, reason: String },
    #[error("its edit changes {0} after deleting or moving it; make the change by edits")]
    Gone(AbsPath),
    #[error("its edit creates {0}, which exists already; move that file first")]
    Exists(AbsPath),
    #[error("{reason}")]
    Unreadable { reason: String, code: ErrorCode },
}

impl From<workspace::ReadError> for EditProblem {
    fn from(error: workspace::ReadError) -> Self {
        Self::Unreadable { reason: error.to_string(), code: error.code() }
    }
}

impl EditProblem {
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::Outside(_) => ErrorCode::Denied,
            Self::NotAFile(_) => ErrorCode::Unsupported,
            Self::Version { .. } | Self::DoesNotFit { .. } => ErrorCode::StaleText,
            Self::Gone(_) => ErrorCode::NotFound,
            Self::Exists(_) => ErrorCode::Conflict,
            Self::Unreadable { code, .. } => *code,
        }
    }
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
    /// The server's definition; `None` if the error is about none, or several.
    pub(crate) fn server(&self) -> Option<&str> {
        match self {
            Self::Missing { server, .. }
            | Self::Denied { server, .. }
            | Self::Starting { server, .. }
            | Self::Crashed { server, .. }
            | Self::Timeout { server, .. }
            | Self::Protocol { server, .. }
            | Self::Refused { server, .. }
            | Self::Start { server, .. } => Some(server),
            Self::NoServer { .. } | Self::Cancelled | Self::Unsupported { .. } => None,
        }
    }

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
            Self::Refused { refusal, .. } => refusal.code(),
            Self::Start { .. } => ErrorCode::ServerCrashed,
        }
    }
}
