//! What to debug, and the adapter command and arguments planned for it.

use std::sync::Arc;

use paths::AbsPath;
use serde_json::{Map, Value};
use shell::CommandLine;

use crate::debuggee::Breakpoints;
use adapters::DebuggerDefinition;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A file that runs.
    Program(AbsPath),
    /// A module, by its name in its language.
    Module(String),
    /// A process that runs already.
    Process(i64),
    /// A port at which a program or its adapter waits.
    Port { host: String, port: u16 },
}

impl Target {
    pub(crate) fn title(&self, root: &AbsPath) -> String {
        match self {
            Self::Program(path) => match path.strip_prefix(root) {
                Some(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
                Some(relative) => relative.display().to_string(),
                None => path.to_string(),
            },
            Self::Module(name) => format!("module {name}"),
            Self::Process(pid) => format!("process {pid}"),
            Self::Port { host, port } => format!("{host}:{port}"),
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct LaunchSpec {
    pub target: Target,
    /// The adapter's name, else it is chosen by the target.
    pub adapter: Option<String>,
    pub root: AbsPath,
    /// Arguments of the program.
    pub args: Vec<String>,
    pub cwd: AbsPath,
    /// Variables set beside those inherited.
    pub env: Vec<(String, String)>,
    /// Whether it stops at its entry.
    pub stop_on_entry: bool,
    /// In place before it runs.
    pub breakpoints: Breakpoints,
    /// Laid over the arguments that the adapter's definition gives.
    pub arguments: Option<Value>,
    /// The runner of tests, where a test is run.
    pub test: Option<String>,
    /// Further variables of templates.
    pub more: Map<String, Value>,
}

/// What would be started.
#[derive(Debug, Clone)]
pub struct LaunchPlan {
    pub adapter: Arc<DebuggerDefinition>,
    /// The adapter's command; a port in it is chosen at the start.
    pub command: CommandLine,
    pub root: AbsPath,
    /// `launch` or `attach`.
    pub request: &'static str,
    pub arguments: Value,
    /// What is debugged, for people.
    pub title: String,
    /// The program with its arguments as a command, where one is started.
    pub program: Option<CommandLine>,
    /// In place before it runs.
    pub breakpoints: Breakpoints,
    /// What persons had set in the session before, where it is launched again, by request.
    pub of_persons: Vec<(&'static str, Value)>,
    /// The person's editor holds the session: nothing is started, set or ended.
    pub theirs: bool,
    /// Where an adapter runs already; none is started then.
    pub connect: Option<(String, u16)>,
}
