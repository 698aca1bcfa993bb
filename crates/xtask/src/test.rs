//! `cargo xtask test`: everything that must hold, real servers included.
//!
//! Sets up, then format, lints, all tests with `RUN_SLOW_TESTS=1`, those in real editors among them, and
//! the demo. A missing tool fails with the command that installs it. With `--no-editors` no editor is
//! installed and their tests say that they did not run.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::demo;
use crate::env;
use crate::exec;
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

    cargo(&tools, &mut steps, "format", &["fmt", "--all", "--check"], &[], &[])?;
    let lints = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    cargo(&tools, &mut steps, "lints", &lints, &[], &[])?;
    cargo(
        &tools,
        &mut steps,
        "all tests",
        &["test", "--workspace", "--no-fail-fast"],
        &args.cargo_test,
        switches,
    )?;
    demo::show(&tools, "itsdangerous", false, &mut steps)?;

    print!("\n{}", steps.table());
    println!("all tests passed in {}", seconds(steps.total()));
    Ok(())
}

fn cargo(
    tools: &ToolsDir,
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
        exec::show_ok(env::apply(&mut cargo, tools), DEADLINE)?;
        Ok(((), String::new()))
    })
}
