//! Opens the project that the command line names, with the terminal as its
//! frontend.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::{Envelope, EventSink};
use anyhow::Context;
use futures_util::future::{BoxFuture, ready};
use host::config::Config;
use host::project::{Access, Project};
use host::{Frontend, Host, project};
use paths::{AbsPath, Homes};
use policy::{Answer, Approver, Choice, Chosen, Question};
use tokio_util::sync::CancellationToken;

use crate::{cli, logging, output, terminal};

/// Opens the project that the command line names. Blocks on the file system.
pub fn open(args: &cli::Project, access: Access) -> anyhow::Result<Arc<Project>> {
    let host = Host::from_env()?;
    let frontend = TerminalFrontend { approver: terminal::approver(), homes: host.homes.clone() };
    host.open_project(&root(args.dir.as_deref())?, access, Arc::new(frontend))
}

/// The access of a command with `--yes`, which a process of a run cannot pass.
pub fn access(yes: bool, keep: bool) -> anyhow::Result<Access> {
    if yes {
        refuse_run()?;
    }
    Ok(Access { yes, keep, trusted: false })
}

/// Refuses to permit anything to a process that a run of the agent started.
pub fn refuse_run() -> anyhow::Result<()> {
    anyhow::ensure!(!process::descends_from_run(std::process::id()), process::NO_CONSENT);
    Ok(())
}

/// The terminal as the frontend of a project.
///
/// Commands that print events have sinks of their own.
struct TerminalFrontend {
    approver: Arc<dyn Approver>,
    homes: Homes,
}

impl Frontend for TerminalFrontend {
    fn notify(&self, text: &str) {
        note(text);
    }

    fn config_loaded(&self, config: &Config) -> anyhow::Result<()> {
        logging::start(&self.homes.state, &config.values.log.filter.0, None)
    }
}

impl Approver for TerminalFrontend {
    fn ask<'a>(&'a self, question: Question, cancel: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        self.approver.ask(question, cancel)
    }

    fn choose<'a>(&'a self, choice: Choice, cancel: &'a CancellationToken) -> BoxFuture<'a, Chosen> {
        self.approver.choose(choice, cancel)
    }
}

impl EventSink for TerminalFrontend {
    fn deliver<'a>(&'a self, _: &'a Envelope) -> BoxFuture<'a, ()> {
        Box::pin(ready(()))
    }
}

/// Finds the root: `-C DIR`, else the nearest parent with `.git`, else `.`.
pub fn root(dir: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(dir) = dir {
        return std::path::absolute(dir)
            .with_context(|| format!("{} is not a usable path; name another with -C", dir.display()));
    }
    #[expect(clippy::disallowed_methods, reason = "only the command line depends on it")]
    let current =
        std::env::current_dir().context("the current directory does not exist; name one with -C DIR")?;
    Ok(current
        .ancestors()
        .find(|parent| parent.join(".git").exists())
        .map_or(current.clone(), Path::to_owned))
}

/// Returns the root that the command line names, without symbolic links.
pub fn canonical_root(args: &cli::Project) -> anyhow::Result<AbsPath> {
    AbsPath::new(root(args.dir.as_deref())?.canonicalize()?).context("the project has no absolute path")
}

/// Loads the settings of the project at `root`. Prints warnings about them.
pub fn settings(homes: &Homes, root: &AbsPath, trusted: bool) -> anyhow::Result<Config> {
    project::settings(homes, root, trusted, note)
}

fn note(text: &str) {
    output::note(&format!("pilcrow: {text}"));
}
