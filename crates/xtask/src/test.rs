//! `cargo xtask test`: everything that must hold, real servers included.
//!
//! Sets up, then format, lints, all tests with `RUN_SLOW_TESTS=1`, and the demo. A missing tool
//! fails with the command that installs it; nothing is skipped.

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
    /// Go to `cargo test`, after `--`.
    #[arg(last = true)]
    cargo_test: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let tools = ToolsDir::from_env()?;
    let mut steps = Steps::new();
    setup::ensure(&tools, For::Test, &mut steps)?;

    cargo(&tools, &mut steps, "format", &["fmt", "--all", "--check"], &[])?;
    let lints = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    cargo(&tools, &mut steps, "lints", &lints, &[])?;
    cargo(&tools, &mut steps, "all tests", &["test", "--workspace", "--no-fail-fast"], &args.cargo_test)?;
    demo::show(&tools, "itsdangerous", false, &mut steps)?;

    print!("\n{}", steps.table());
    println!("all tests passed in {}", seconds(steps.total()));
    Ok(())
}

fn cargo(tools: &ToolsDir, steps: &mut Steps, title: &str, args: &[&str], more: &[String]) -> Result<()> {
    steps.run(title, || {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(tidy::root()).args(args).args(more);
        exec::show_ok(env::apply(&mut cargo, tools).env("RUN_SLOW_TESTS", "1"), DEADLINE)?;
        Ok(((), String::new()))
    })
}
