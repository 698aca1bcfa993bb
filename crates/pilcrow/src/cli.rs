//! The grammar of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use host::config::Time;
use serde_json::Value;

use crate::render::Format;

/// A coding agent that lives in the editor.
#[derive(Debug, Parser)]
#[command(name = "pilcrow", version, about, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// Selection of the project.
#[derive(Debug, Args, Clone)]
pub struct Project {
    /// Project directory [default: the nearest parent with `.git`, else the current
    /// directory]
    #[arg(short = 'C', value_name = "DIR", global = true)]
    pub dir: Option<PathBuf>,
}

/// Project and output of a command.
#[derive(Debug, Args, Clone)]
pub struct CommandTarget {
    #[command(flatten)]
    pub project: Project,
    /// Print JSON, one value per line
    #[arg(long, global = true)]
    pub json: bool,
}

/// Permission of commands that change files.
#[derive(Debug, Args, Clone, Copy)]
pub struct Consent {
    /// Answer every question with yes and trust the project; denials stay in force
    #[arg(long)]
    pub yes: bool,
}

/// Selection of the process that executes a command.
#[derive(Debug, Args, Clone)]
pub struct ExecutionArgs {
    /// Execute in this process even if an editor has the project open; do not write its
    /// open files
    #[arg(long)]
    pub standalone: bool,
}

/// Project, output and process of a command that calls tools.
#[derive(Debug, Args, Clone)]
pub struct CallArgs {
    #[command(flatten)]
    pub target: CommandTarget,
    #[command(flatten)]
    pub execution: ExecutionArgs,
}

/// Wait of a command that edits and then ends.
#[derive(Debug, Args, Clone, Copy)]
pub struct WaitArgs {
    /// Time that an edit without a model waits for its diagnostics; a new error is exit
    /// status 1
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::<300>)]
    wait: Duration,
}

impl WaitArgs {
    pub fn millis(self) -> Option<u64> {
        u64::try_from(self.wait.as_millis()).ok()
    }
}

/// Selection of the model and agent.
#[derive(Debug, Args, Clone)]
pub struct ModelArgs {
    /// Model: `PROVIDER` or `PROVIDER/MODEL`, optionally with a thinking `:LEVEL`, a
    /// role, `planner`, `script:FILE`, or `replay:SESSION`
    #[arg(long)]
    pub model: Option<String>,
    /// Agent: a directory below `agents` in your configuration directory
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
}

/// Options of commands that ask language servers.
#[derive(Debug, Args, Clone)]
pub struct LspArgs {
    #[command(flatten)]
    pub args: CallArgs,
    #[command(flatten)]
    pub consent: Consent,
    /// Form of the result
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    #[command(flatten)]
    pub wait: WaitArgs,
}

/// Selection of a symbol.
#[derive(Debug, Args, Clone)]
pub struct SymbolArgs {
    /// Name, qualified name (`Class.method`), or place (`FILE:LINE[:COLUMN]`)
    pub symbol: String,
    /// File of the symbol, perhaps with the line of its declaration or a use
    #[arg(long = "in", value_name = "FILE[:LINE]")]
    pub place: Option<String>,
}

/// Commands that ask language servers.
#[derive(Debug, Subcommand)]
pub enum LspCommand {
    /// Rename a symbol and all its uses
    Rename {
        #[command(flatten)]
        symbol: SymbolArgs,
        /// The new name
        new_name: String,
        #[command(flatten)]
        options: LspArgs,
    },
    /// Move or rename a file and update what refers to it
    #[command(visible_alias = "mv")]
    Move {
        /// The file
        from: String,
        /// The new path
        to: String,
        #[command(flatten)]
        options: LspArgs,
    },
    /// List the references of a symbol
    Refs {
        #[command(flatten)]
        symbol: SymbolArgs,
        #[command(flatten)]
        options: LspArgs,
    },
    /// Show where a symbol is defined
    Def {
        #[command(flatten)]
        symbol: SymbolArgs,
        #[command(flatten)]
        options: LspArgs,
    },
    /// List the calls of a function
    Callers {
        #[command(flatten)]
        symbol: SymbolArgs,
        #[command(flatten)]
        options: LspArgs,
    },
    /// List the symbols of a file, or those of the project whose names match
    Symbols {
        /// A file, or a part of a name
        #[arg(value_name = "FILE|NAME")]
        what: String,
        #[command(flatten)]
        options: LspArgs,
    },
    /// Report problems in files
    Check {
        /// The files [default: all files of the project]
        files: Vec<String>,
        #[command(flatten)]
        options: LspArgs,
    },
    /// Format files
    Fmt {
        /// The files
        #[arg(required = true)]
        files: Vec<String>,
        #[command(flatten)]
        options: LspArgs,
    },
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(flatten)]
    Tooling(LspCommand),
    /// Run a language server on standard input and output, for editors
    Lsp {
        /// Accepted because editors pass it; there is no other transport
        #[arg(long, hide = true)]
        stdio: bool,
        /// Accepted because editors pass it; `initialize` repeats it
        #[arg(long = "clientProcessId", hide = true, value_name = "ID")]
        client_process_id: Option<u32>,
        /// Agent whose instructions and tools apply
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
    },
    /// Run the agent on a request
    Run {
        /// The request [default: read from standard input, unless that is a terminal]
        prompt: Option<String>,
        #[command(flatten)]
        args: CallArgs,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        model: ModelArgs,
        /// Form of the built-in planner's results
        #[arg(long, value_enum, default_value_t)]
        format: Format,
        #[command(flatten)]
        wait: WaitArgs,
        /// Print the requests that the built-in planner understands
        #[arg(long)]
        help_planner: bool,
    },
    /// Call one tool without a model
    Tool {
        /// Name of the tool [default: list the tools]
        name: Option<String>,
        /// Arguments, a JSON object
        arguments: Option<String>,
        /// Read calls from standard input, one JSON object per line: {"name", "arguments"}
        #[arg(long, conflicts_with_all = ["name", "list"])]
        batch: bool,
        /// List the tools with their parameters
        #[arg(long)]
        list: bool,
        #[command(flatten)]
        wait: WaitArgs,
        #[command(flatten)]
        args: CallArgs,
        #[command(flatten)]
        consent: Consent,
    },
    /// Join an agent's debug session as a debug adapter on standard input and output,
    /// or list sessions
    Dap {
        /// Name of the session, `debug-1`, or `debug-1@PROCESS` if several processes have
        /// it
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        #[command(flatten)]
        target: CommandTarget,
    },
    /// Show a file with the tag and line numbers that `edit` needs
    Read {
        /// Path of the file, relative to the current directory or that of `-C`
        file: String,
        /// First line, 1-based
        #[arg(long)]
        offset: Option<u64>,
        /// Number of lines
        #[arg(long)]
        limit: Option<u64>,
        #[command(flatten)]
        args: CallArgs,
    },
    /// Apply a hashline patch from standard input
    Edit {
        /// Apply patches to the texts in JSON lines and print the results; writes no files
        #[arg(long)]
        batch: bool,
        #[command(flatten)]
        args: CallArgs,
    },
    /// Undo the changes of the last run
    Undo {
        /// Undo one commit instead of a run
        #[arg(long, value_name = "ID")]
        commit: Option<String>,
        /// List what can be undone, newest first
        #[arg(long)]
        list: bool,
        #[command(flatten)]
        args: CallArgs,
    },
    /// Redo what the last undo reverted
    Redo {
        #[command(flatten)]
        args: CallArgs,
    },
    /// Trust a project, so that its language servers may run
    Trust {
        /// Directory [default: the current project]
        directory: Option<PathBuf>,
        /// List the trusted directories, and the programs that their projects define
        #[arg(long, conflicts_with_all = ["directory", "remove"])]
        list: bool,
        /// Revoke the trust
        #[arg(long)]
        remove: bool,
        /// Revoke the trust in a program of the project, named as in `--list`
        #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["list", "remove"])]
        kill: Option<String>,
    },
    /// Show the tools a model sees and those it must search for
    Tools {
        /// Only the tools that the model sees before its first search, with sizes
        #[arg(long)]
        budget: bool,
        /// The layers of tools, and the tools that each adds or removes
        #[arg(long, conflicts_with = "budget")]
        trace: bool,
        /// Agent whose settings apply
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        #[command(flatten)]
        target: CommandTarget,
    },
    /// List, show and manage sessions
    Sessions {
        #[command(subcommand)]
        command: Sessions,
        #[command(flatten)]
        target: CommandTarget,
    },
    /// List, check and install language servers and debuggers
    Adapters {
        #[command(subcommand)]
        command: Adapters,
        #[command(flatten)]
        target: CommandTarget,
    },
    /// List models and their providers
    Models {
        #[command(subcommand)]
        command: Models,
        #[command(flatten)]
        target: CommandTarget,
    },
    /// Manage API keys in the system's keyring
    Auth {
        #[command(subcommand)]
        command: Auth,
        #[command(flatten)]
        target: CommandTarget,
    },
    /// Serve model requests over HTTP for clients without API keys
    ///
    /// The environment variable PILCROW_PROXY_TOKEN holds the token that clients must send.
    Proxy {
        /// Address to listen on; port 0 selects a free one
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7497")]
        listen: std::net::SocketAddr,
        #[command(flatten)]
        project: Project,
    },
    /// Keep the project and its language servers open for later commands
    ///
    /// `rename`, `refs` and other commands of this project then need no start of a server.
    Serve {
        /// Stop after this time without a command, such as 30m
        #[arg(long, value_name = "TIME", default_value = "30m", value_parser = duration::<MAX_IDLE>)]
        idle: Duration,
        #[command(flatten)]
        project: Project,
    },
    /// Check which programs are installed and how to install the others
    Doctor {
        #[command(flatten)]
        target: CommandTarget,
    },
    /// Show the newest log lines
    Logs {
        /// Number of lines
        #[arg(long, default_value_t = 100)]
        lines: usize,
        /// Only lines that name this language server
        #[arg(long, value_name = "NAME")]
        server: Option<String>,
    },
    /// Show settings and their origins
    Config {
        #[command(subcommand)]
        command: Config,
        #[command(flatten)]
        target: CommandTarget,
    },
    /// Stop Pilcrow's child processes after it crashed
    #[command(name = "__guard", hide = true)]
    Guard,
}

/// `pilcrow sessions …`
#[derive(Debug, Subcommand)]
pub enum Sessions {
    /// List sessions, newest first
    List,
    /// Show a session
    Show {
        /// Id of the session or a prefix [default: the newest]
        id: Option<String>,
    },
    /// Show all entries of a session, its branches, and the current one
    Tree {
        /// Id of the session or a prefix [default: the newest]
        id: Option<String>,
    },
    /// Return to an entry and start a new branch there; the old branch remains
    Branch {
        /// Id of the session or a prefix
        id: String,
        /// Id of the entry, as `tree` shows it
        entry: String,
        /// Instructions for the summary of the old branch
        instructions: Option<String>,
        /// Model of the summary [default: the role `smol`, else the last model]
        #[arg(long)]
        model: Option<String>,
    },
    /// Set or remove the label of an entry
    Label {
        /// Id of the session or a prefix
        id: String,
        /// Id of the entry
        entry: String,
        /// The label [default: remove it]
        label: Option<String>,
    },
    /// Copy a session up to an entry into a new session, and print its id
    Fork {
        /// Id of the session or a prefix
        id: String,
        /// Id of the entry [default: the current one]
        entry: Option<String>,
    },
    /// Continue a session
    #[command(visible_alias = "continue")]
    Resume {
        /// Id of the session, a prefix, or `newest`, the default if one argument is given
        id: String,
        /// The request; `-` reads it from standard input
        prompt: Option<String>,
        #[command(flatten)]
        execution: ExecutionArgs,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        model: ModelArgs,
    },
    /// Compact a session: the model continues from a summary, the file keeps all
    /// entries
    Compact {
        /// Id of the session or a prefix
        id: String,
        /// Instructions for the summary
        instructions: Option<String>,
        #[command(flatten)]
        execution: ExecutionArgs,
        #[command(flatten)]
        model: ModelArgs,
    },
    /// Import sessions of pi, Claude Code or Codex into the project
    Import {
        /// Their files, such as ~/.claude/projects/DIR/ID.jsonl
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Search the entries of all sessions of the project
    Search {
        /// Words to find, as in 'rename "exact phrase" -excluded'
        #[arg(required = true)]
        query: Vec<String>,
        /// Maximum number of results
        #[arg(long, default_value = "20")]
        limit: std::num::NonZeroUsize,
        /// Search the sessions of all projects
        #[arg(long)]
        all: bool,
    },
    /// Print a session as a document
    Export {
        /// Id of the session or a prefix [default: the newest]
        id: Option<String>,
        /// Format of the document
        #[arg(long, value_enum, default_value = "markdown")]
        format: ExportFormat,
    },
    /// Delete sessions, but not those forked from them
    Delete {
        /// Ids of the sessions or prefixes
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

/// `pilcrow adapters …`
#[derive(Debug, Subcommand)]
pub enum Adapters {
    /// List all definitions
    List,
    /// Check which adapters can start and how to install the others
    Doctor,
    /// Install servers and debuggers; shows the commands and asks first
    Install(InstallArgs),
}

/// Arguments of `pilcrow adapters install`.
#[derive(Debug, Args)]
pub struct InstallArgs {
    /// Names, as in `adapters list`
    #[arg(required = true)]
    pub names: Vec<String>,
    /// Also run the system's package manager, if an adapter needs it
    #[arg(long)]
    pub system: bool,
    /// Install current versions instead of those locked by an earlier installation
    #[arg(long)]
    pub update: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

/// `pilcrow auth …`
#[derive(Debug, Subcommand)]
pub enum Auth {
    /// Store a provider's key, read from standard input without echo
    Set {
        /// Name of the provider, as in `pilcrow models list`
        provider: String,
    },
    /// Show the source of each provider's key, but not the key
    List,
    /// Remove a provider's key
    Remove {
        /// Name of the provider
        provider: String,
    },
}

/// `pilcrow models …`
#[derive(Debug, Subcommand)]
pub enum Models {
    /// List providers, whether they have a key, and their models; queries local servers
    List {
        /// List only this provider, with all of its models
        provider: Option<String>,
    },
    /// Show the properties of a model and its endpoint
    Show {
        /// `PROVIDER` or `PROVIDER/MODEL`, optionally with a thinking `:LEVEL`
        name: String,
    },
}

/// `pilcrow config …`
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Show all settings with their values and origins
    Show {
        /// Agent whose settings apply
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
    },
    /// Print the JSON Schema of config.toml
    Schema,
    /// Explain whether the agent may do something: every rule and default about it
    Why {
        /// read, write, exec, http, env or debug
        capability: String,
        /// Path relative to the project, command line, host, or variable
        argument: Option<String>,
        /// Language server, debug adapter or `bash` that the decision is about
        /// [default: bash]
        #[arg(long, value_name = "PROGRAM")]
        by: Option<String>,
    },
}

/// Format of an exported session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ExportFormat {
    /// Markdown
    Markdown,
    /// One HTML page
    Html,
    /// The session file itself
    Jsonl,
}

/// Maximum of `serve --idle` in seconds: a year.
const MAX_IDLE: u64 = 365 * 24 * 60 * 60;

/// Parses a time such as `10s`, as settings have it.
fn duration<const MAX: u64>(text: &str) -> Result<Duration, serde_json::Error> {
    serde_json::from_value::<Time<MAX>>(Value::from(text)).map(|time| time.0)
}
