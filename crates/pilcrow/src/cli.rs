//! The command line: what may be written on it. It decides nothing.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// A coding agent that lives in the editor.
#[derive(Debug, Parser)]
#[command(name = "pilcrow", version, about, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Where and how a command works on a project.
#[derive(Debug, Args, Clone)]
pub struct Project {
    /// The project's folder; else the nearest parent with `.git`, else the current folder
    #[arg(short = 'C', value_name = "DIR", global = true)]
    pub dir: Option<PathBuf>,
}

/// Output and permission, for commands that change things.
#[derive(Debug, Args, Clone)]
pub struct Consent {
    /// Answer every question with yes, trust in the project included; lifts no denial
    #[arg(long)]
    pub yes: bool,
    /// Print JSON, one value a line
    #[arg(long)]
    pub json: bool,
}

/// Who carries a command out.
#[derive(Debug, Args, Clone)]
pub struct ExecutionArgs {
    /// Do it in this process even if an editor has the project open; files it has open are not written
    #[arg(long)]
    pub standalone: bool,
}

/// Who a request is for.
#[derive(Debug, Args, Clone)]
pub struct Asked {
    /// Which model: `PROVIDER`, `PROVIDER/MODEL`, either with `:LEVEL` of thinking, a role, `planner`, `script:FILE`, or
    /// `replay:SESSION`
    #[arg(long)]
    pub model: Option<String>,
    /// One of your agents, a folder below `agents` in your configuration folder
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
}

/// What Pilcrow does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Be a language server on standard input and output, for editors
    Lsp {
        /// What editors add to a language server's command; nothing else is spoken
        #[arg(long, hide = true)]
        stdio: bool,
        /// What some editors add; `initialize` says the same
        #[arg(long = "clientProcessId", hide = true, value_name = "ID")]
        client_process_id: Option<u32>,
        /// Work as one of your agents
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
    },
    /// Work out a request and apply the answer
    Run {
        /// The request, in words
        prompt: Option<String>,
        /// The project
        #[command(flatten)]
        project: Project,
        /// Who carries it out
        #[command(flatten)]
        execution: ExecutionArgs,
        /// Consent
        #[command(flatten)]
        consent: Consent,
        /// Who is asked
        #[command(flatten)]
        asked: Asked,
        /// Print what the built-in planner understands
        #[arg(long)]
        help_planner: bool,
    },
    /// Call one tool without a model
    Tool {
        /// Its name; without one, or with --list, the tools are listed
        name: Option<String>,
        /// Its arguments, a JSON object
        arguments: Option<String>,
        /// Read calls from standard input, one JSON object a line: {"name", "arguments"}
        #[arg(long, conflicts_with_all = ["name", "list"])]
        batch: bool,
        /// List the tools with their parameters
        #[arg(long)]
        list: bool,
        /// The project
        #[command(flatten)]
        project: Project,
        /// Who carries it out
        #[command(flatten)]
        execution: ExecutionArgs,
        /// Consent
        #[command(flatten)]
        consent: Consent,
    },
    /// Join a debug session of an agent, as a debug adapter on standard input and output; without one, list them
    Dap {
        /// Its name, `debug-1`, or `debug-1@PROCESS` where several have it
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        /// The project
        #[command(flatten)]
        project: Project,
        /// List as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a file with the tag and the numbers that `edit` takes
    Read {
        /// The file, from the current folder, or from that of `-C`
        file: String,
        /// First line, from 1
        #[arg(long)]
        offset: Option<u64>,
        /// How many lines
        #[arg(long)]
        limit: Option<u64>,
        /// The project
        #[command(flatten)]
        project: Project,
        /// Who carries it out
        #[command(flatten)]
        execution: ExecutionArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Apply a hashline patch from standard input
    Edit {
        /// Answer JSON lines, each with texts and a patch, by what the engine makes of them; touches no file
        #[arg(long)]
        batch: bool,
        /// The project
        #[command(flatten)]
        project: Project,
        /// Who carries it out
        #[command(flatten)]
        execution: ExecutionArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Take back what the last run changed
    Undo {
        /// One commit instead of a run
        #[arg(long, value_name = "ID")]
        commit: Option<String>,
        /// Show what could be taken back, newest first
        #[arg(long)]
        list: bool,
        /// The project
        #[command(flatten)]
        project: Project,
        /// Who carries it out
        #[command(flatten)]
        execution: ExecutionArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Take back the last undo
    Redo {
        /// The project
        #[command(flatten)]
        project: Project,
        /// Who carries it out
        #[command(flatten)]
        execution: ExecutionArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Trust a project: let its language servers run
    Trust {
        /// The folder; the current project without one
        folder: Option<PathBuf>,
        /// List what is trusted
        #[arg(long, conflicts_with_all = ["folder", "remove"])]
        list: bool,
        /// Trust it no longer
        #[arg(long)]
        remove: bool,
    },
    /// What a model is told of, and what it has to find
    Tools {
        /// Only what it is told before its first search, with sizes
        #[arg(long)]
        budget: bool,
        /// The five layers they came through, and what each did
        #[arg(long, conflicts_with = "budget")]
        trace: bool,
        /// As one of your agents has them
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// The project
        #[command(flatten)]
        project: Project,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Past conversations
    Sessions {
        /// What about them
        #[command(subcommand)]
        command: Sessions,
        /// The project
        #[command(flatten)]
        project: Project,
        /// Print JSON
        #[arg(long, global = true)]
        json: bool,
    },
    /// Language servers: what is known and what is there
    Adapters {
        /// What about them
        #[command(subcommand)]
        command: Adapters,
        /// The project
        #[command(flatten)]
        project: Project,
        /// Print JSON
        #[arg(long, global = true)]
        json: bool,
    },
    /// Models and their providers
    Models {
        /// What about them
        #[command(subcommand)]
        command: Models,
        /// The project
        #[command(flatten)]
        project: Project,
        /// Print JSON
        #[arg(long, global = true)]
        json: bool,
    },
    /// Keys of providers in the system's keyring
    Auth {
        /// What about them
        #[command(subcommand)]
        command: Auth,
        /// The project
        #[command(flatten)]
        project: Project,
        /// Print JSON
        #[arg(long, global = true)]
        json: bool,
    },
    /// Ask models for others, who have no keys, by HTTP; the token that they must send is in PILCROW_PROXY_TOKEN
    Proxy {
        /// Where to listen; port 0 takes one that is free
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7497")]
        listen: std::net::SocketAddr,
        /// The project whose settings count
        #[command(flatten)]
        project: Project,
    },
    /// What is installed, what is missing, and the command that installs it
    Doctor {
        /// The project
        #[command(flatten)]
        project: Project,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the newest log lines
    Logs {
        /// How many
        #[arg(long, default_value_t = 100)]
        lines: usize,
        /// Only lines that name this language server
        #[arg(long, value_name = "NAME")]
        server: Option<String>,
    },
    /// Settings and where each comes from
    Config {
        /// What about them
        #[command(subcommand)]
        command: Config,
        /// The project
        #[command(flatten)]
        project: Project,
        /// Print JSON
        #[arg(long, global = true)]
        json: bool,
    },
    /// Ends our children when we no longer can
    #[command(name = "__guard", hide = true)]
    Guard,
}

/// `pilcrow sessions …`
#[derive(Debug, Subcommand)]
pub enum Sessions {
    /// List them, newest first
    List,
    /// Show one
    Show {
        /// Its id, or the beginning of it; the newest without one
        id: Option<String>,
    },
    /// Show every entry of one, its branches, and where it is
    Tree {
        /// Its id, or the beginning of it; the newest without one
        id: Option<String>,
    },
    /// Go back to an entry: what comes next is a new branch there; the old one is kept
    Branch {
        /// The session's id, or the beginning of it
        id: String,
        /// The entry's id, as `tree` shows it
        entry: String,
        /// What the summary of what is left must not leave out
        wishes: Option<String>,
        /// Who makes that summary; else the role `smol`, or the model that answered last
        #[arg(long)]
        model: Option<String>,
    },
    /// Give an entry a name; take it away without one
    Label {
        /// The session's id, or the beginning of it
        id: String,
        /// The entry's id
        entry: String,
        /// The name
        label: Option<String>,
    },
    /// Begin a new session as this one was at an entry; prints its id
    Fork {
        /// The session's id, or the beginning of it
        id: String,
        /// The entry's id; where the session is without one
        entry: Option<String>,
    },
    /// Go on with one
    Resume {
        /// The session's id, or the beginning of it
        id: String,
        /// The request, in words; `-` or nothing reads it from standard input
        prompt: Option<String>,
        /// Who carries it out
        #[command(flatten)]
        execution: ExecutionArgs,
        /// Answer every question with yes, trust in the project included; lifts no denial
        #[arg(long)]
        yes: bool,
        /// Who is asked
        #[command(flatten)]
        asked: Asked,
    },
    /// Put one into fewer words: a model goes on from a summary, the file keeps everything
    Compact {
        /// The session's id, or the beginning of it
        id: String,
        /// What the summary must not leave out
        wishes: Option<String>,
        /// Who carries it out
        #[command(flatten)]
        execution: ExecutionArgs,
        /// Who makes the summary
        #[command(flatten)]
        asked: Asked,
    },
    /// Find entries by their words, in every session of the project
    Search {
        /// Words, as in 'rename "in this order" -not'
        #[arg(required = true)]
        query: Vec<String>,
        /// The most entries that are shown
        #[arg(long, default_value = "20")]
        limit: std::num::NonZeroUsize,
        /// In the sessions of every project
        #[arg(long)]
        all: bool,
    },
    /// Write one as a document to standard output
    Export {
        /// Its id, or the beginning of it; the newest without one
        id: Option<String>,
        /// As what
        #[arg(long, value_enum, default_value = "markdown")]
        format: crate::commands::export::Format,
    },
    /// Delete sessions; those forked from them stay
    Delete {
        /// Their ids, or the beginnings of them
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

/// `pilcrow adapters …`
#[derive(Debug, Subcommand)]
pub enum Adapters {
    /// Every definition
    List,
    /// What can be started here, and what would install the rest
    Doctor,
    /// Install servers and debuggers: shows the commands, asks, and runs them
    Install {
        /// Their names, as `adapters list` has them
        #[arg(required = true)]
        names: Vec<String>,
        /// Run the system's package manager too, for those that come from it
        #[arg(long)]
        system: bool,
        /// Take what the package manager has now, not what was locked by an earlier installation
        #[arg(long)]
        update: bool,
        /// Ask nobody
        #[arg(long)]
        yes: bool,
    },
}

/// `pilcrow auth …`
#[derive(Debug, Subcommand)]
pub enum Auth {
    /// Keep a provider's key, which is read from standard input, without an echo from a terminal
    Set {
        /// The provider, as `pilcrow models list` has it
        provider: String,
    },
    /// Where the key of each provider comes from; no key is shown
    List,
    /// Forget a provider's key
    Remove {
        /// The provider
        provider: String,
    },
}

/// `pilcrow models …`
#[derive(Debug, Subcommand)]
pub enum Models {
    /// Every provider, whether its key is there, and its models; servers on this machine are asked for theirs
    List {
        /// Only this one, with all of its models
        provider: Option<String>,
    },
    /// What is known of one model, and how it would be asked
    Show {
        /// `PROVIDER`, `PROVIDER/MODEL`, or either with `:LEVEL` of thinking
        name: String,
    },
}

/// `pilcrow config …`
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Every setting with its value and origin
    Show {
        /// As one of your agents has them
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
    },
    /// The JSON Schema of config.toml
    Schema,
}
