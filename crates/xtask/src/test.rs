//! `cargo xtask test`: everything that must hold, real servers included.
//!
//! Sets up, then format, lints, all tests with `RUN_SLOW_TESTS=1`, those in real editors among them, the
//! project's own history replayed, a minute of fuzzing, and the demo. A missing tool fails with the command
//! that installs it. With `--no-editors` no editor is installed and their tests say that they did not run.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::demo;
use crate::env;
use crate::exec;
use crate::fuzz;
use crate::languages;
use crate::replay;
use crate::setup::{self, For};
use crate::steps::{Steps, seconds};
use crate::tidy;
use crate::tools_dir::ToolsDir;

const DEADLINE: Duration = Duration::from_secs(60 * 60);

/// Arguments of `test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Without the tests in real editors: VS Code (code-server), Neovim and Emacs.
    #[arg(long)]
    no_editors: bool,
    /// Only the tests of the language servers.
    #[arg(long)]
    servers: bool,
    /// Only the tests of the debug adapters.
    #[arg(long, conflicts_with = "servers")]
    debuggers: bool,
    /// Write what language servers and debug adapters passed into the guide and into their definitions.
    #[arg(long)]
    update: bool,
    /// Go to `cargo test`, after `--`.
    #[arg(last = true)]
    cargo_test: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let tools = ToolsDir::from_env()?;
    let mut steps = Steps::new();
    setup::ensure(&tools, if args.no_editors { For::Test } else { For::Editors }, &mut steps)?;
    let switches: &[&str] =
        if args.no_editors { &["RUN_SLOW_TESTS"] } else { &["RUN_SLOW_TESTS", "RUN_EDITOR_TESTS"] };

    let results = Results {
        servers: languages::folder(&languages::SERVERS)?,
        debuggers: languages::folder(&languages::DEBUGGERS)?,
    };

    if args.servers {
        let only = ["test", "--package", "tests", "--test", "e2e", "languages::"];
        cargo(&tools, &results, &mut steps, "language servers", &only, &args.cargo_test, switches)?;
        return steps.run("what the language servers passed", || Ok(((), results.of_servers(args.update)?)));
    }
    if args.debuggers {
        let only = ["test", "--package", "tests", "--test", "e2e", "debug_real::"];
        cargo(&tools, &results, &mut steps, "debug adapters", &only, &args.cargo_test, switches)?;
        return steps.run("what the debug adapters passed", || Ok(((), results.of_debuggers(args.update)?)));
    }

    cargo(&tools, &results, &mut steps, "format", &["fmt", "--all", "--check"], &[], &[])?;
    let lints = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    cargo(&tools, &results, &mut steps, "lints", &lints, &[], &[])?;
    cargo(
        &tools,
        &results,
        &mut steps,
        "all tests",
        &["test", "--workspace", "--no-fail-fast"],
        &args.cargo_test,
        switches,
    )?;
    replay::own_history(&mut steps)?;
    fuzz::a_minute(&mut steps)?;
    // A run of some tests says nothing about the servers that it left out.
    if args.cargo_test.is_empty() || args.update {
        steps.run("what the language servers passed", || Ok(((), results.of_servers(args.update)?)))?;
        steps.run("what the debug adapters passed", || Ok(((), results.of_debuggers(args.update)?)))?;
    }
    demo::show(&tools, "itsdangerous", false, &mut steps)?;

    print!("\n{}", steps.table());
    println!("all tests passed in {}", seconds(steps.total()));
    Ok(())
}

/// Where the tests leave what passed.
struct Results {
    servers: PathBuf,
    debuggers: PathBuf,
}

impl Results {
    fn of_servers(&self, update: bool) -> Result<String> {
        languages::settle(&languages::SERVERS, &self.servers, update)
    }

    fn of_debuggers(&self, update: bool) -> Result<String> {
        languages::settle(&languages::DEBUGGERS, &self.debuggers, update)
    }
}

fn cargo(
    tools: &ToolsDir,
    results: &Results,
    steps: &mut Steps,
    title: &str,
    args: &[&str],
    more: &[String],
    switches: &[&str],
) -> Result<()> {
    steps.run(title, || {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(tidy::root()).args(args).args(more);
        cargo.envs(switches.iter().map(|name| (name, "1")));
        cargo.env(languages::SERVERS.variable, &results.servers);
        cargo.env(languages::DEBUGGERS.variable, &results.debuggers);
        exec::show_ok(env::apply(&mut cargo, tools), DEADLINE)?;
        Ok(((), String::new()))
    })
}
