//! The program to debug, and the planned adapter command and arguments.

use std::sync::Arc;

use paths::AbsPath;
use serde_json::{Map, Value};
use shell::CommandLine;

use crate::debuggee::Breakpoints;
use crate::hub::BreakpointRequest;
use adapters::DebuggerDefinition;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// An executable file or script.
    Program(AbsPath),
    /// A module, by its name in its language.
    Module(String),
    /// A running process.
    Process(i64),
    /// A port at which a program or its adapter listens.
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

#[derive(Debug, Clone)]
pub struct LaunchSpec {
    pub target: Target,
    /// The adapter's name; by default the target decides.
    pub adapter: Option<String>,
    pub root: AbsPath,
    pub args: Vec<String>,
    pub cwd: AbsPath,
    /// Environment variables, added to the inherited ones.
    pub env: Vec<(String, String)>,
    pub stop_on_entry: bool,
    /// File that becomes the program's standard input.
    pub stdin: Option<AbsPath>,
    /// Breakpoints to set before the program runs.
    pub breakpoints: Breakpoints,
    /// Members to merge over the arguments from the adapter's definition.
    pub arguments: Option<Value>,
    /// The test runner, if a test runs.
    pub test: Option<String>,
    /// Further template variables.
    pub more: Map<String, Value>,
}

/// A planned launch.
#[derive(Debug, Clone)]
pub struct LaunchPlan {
    pub adapter: Arc<DebuggerDefinition>,
    /// The adapter's command; its port is chosen at the start.
    pub command: CommandLine,
    pub root: AbsPath,
    /// Request that starts the session: `launch` or `attach`.
    pub request: &'static str,
    pub arguments: Value,
    /// The debugged program, for messages.
    pub title: String,
    /// The program's command; `None` if no program is started.
    pub program: Option<CommandLine>,
    /// Breakpoints to set before the program runs.
    pub breakpoints: Breakpoints,
    /// Functions among them that serve the stop on entry alone.
    ///
    /// `Some` if the adapter's own stop is before the program's code.
    pub entry: Option<Vec<String>>,
    /// The user's breakpoints from the previous session, for a relaunch or a child.
    pub user_breakpoints: Vec<BreakpointRequest>,
    /// Whether the user's editor owns the session, which Pilcrow only observes.
    pub external: bool,
    /// The address of a running adapter; then none is started.
    pub connect: Option<(String, u16)>,
}
