//! `cargo xtask test`: the full gate; with `--fast`, the change gate.
//!
//! The change gate checks format, lints, the house rules and every test that needs no installed tool. The full
//! gate sets up first and runs the tests marked `#[ignore]` too (real servers, adapters and editors), replays
//! the project's own history, fuzzes for a minute and runs the demo. A missing tool fails its test with the
//! command that installs it. Tests that did not run are reported as ignored, never as passed.

use std::num::NonZero;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::setup::tools_dir::ToolsDir;
use crate::setup::{self, For};
use crate::steps::{Steps, seconds};
use crate::{demo, env, exec, fuzz, replay, tested_adapters, tidy};

const DEADLINE: Duration = Duration::from_secs(60 * 60);

/// Arguments of `test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the change gate, which installs nothing.
    /// Format, lints, house rules, unit tests and scripted end-to-end tests
    #[arg(long, conflicts_with_all = ["no_editors", "servers", "debuggers", "update"])]
    fast: bool,
    /// Without the tests in real editors: VS Code (code-server), Neovim and Emacs.
    #[arg(long)]
    no_editors: bool,
    /// Only the tests of the language servers.
    #[arg(long)]
    servers: bool,
    /// Only the tests of the debug adapters.
    #[arg(long, conflicts_with = "servers")]
    debuggers: bool,
    /// Write the servers' and adapters' results into guides and definitions
    #[arg(long)]
    update: bool,
    /// Arguments for `cargo test`, after `--`.
    #[arg(last = true)]
    cargo_test: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let tools = ToolsDir::from_env()?;
    let mut steps = Steps::new();
    if args.fast {
        check_source(&tools, &mut steps)?;
        let tests = ["test", "--workspace", "--no-fail-fast"];
        cargo(&tools, None, &mut steps, "tests", &with_arguments(&tests, &args.cargo_test, &[]))?;
        steps.ignore("slow tests, replay, fuzz targets and demo", "--fast");
        print!("\n{}", steps.table());
        println!("fast gate passed in {}; slow tests were ignored", seconds(steps.total()));
        return Ok(());
    }
    setup::ensure(&tools, if args.no_editors { For::Test } else { For::Editors }, &mut steps)?;
    let results = Results {
        servers: tested_adapters::results_directory(&tested_adapters::SERVERS)?,
        debuggers: tested_adapters::results_directory(&tested_adapters::DEBUGGERS)?,
    };
    let slow: &[&str] =
        if args.no_editors { &["--include-ignored", "--skip", "editors::"] } else { &["--include-ignored"] };

    if args.servers {
        let only = ["test", "--package", "tests", "--test", "e2e", "languages::"];
        let only = with_arguments(&only, &args.cargo_test, slow);
        cargo(&tools, Some(&results), &mut steps, "language servers", &only)?;
        return steps.run("results of language servers", || Ok(((), results.of_servers(args.update)?)));
    }
    if args.debuggers {
        let only = ["test", "--package", "tests", "--test", "e2e", "debug_real::"];
        let only = with_arguments(&only, &args.cargo_test, &[slow, &["debug_actions::"]].concat());
        cargo(&tools, Some(&results), &mut steps, "debug adapters", &only)?;
        return steps.run("results of debug adapters", || Ok(((), results.of_debuggers(args.update)?)));
    }

    check_source(&tools, &mut steps)?;
    let all = with_arguments(&["test", "--workspace", "--no-fail-fast"], &args.cargo_test, slow);
    cargo(&tools, Some(&results), &mut steps, "all tests", &all)?;
    if args.no_editors {
        steps.ignore("tests in real editors", "--no-editors");
    }
    replay::own_history(&mut steps)?;
    fuzz::a_minute(&mut steps)?;
    // A run of selected tests does not cover every server.
    if args.cargo_test.is_empty() || args.update {
        steps.run("results of language servers", || Ok(((), results.of_servers(args.update)?)))?;
        steps.run("results of debug adapters", || Ok(((), results.of_debuggers(args.update)?)))?;
    } else {
        steps.ignore("results of language servers and debug adapters", "only selected tests ran");
    }
    demo::show(&tools, "itsdangerous", false, &mut steps)?;

    print!("\n{}", steps.table());
    let ignored = match steps.ignored() {
        0 => String::new(),
        count => format!("; {count} steps were ignored"),
    };
    println!("all tests passed in {}{ignored}", seconds(steps.total()));
    Ok(())
}

/// Checks format, lints and house rules.
fn check_source(tools: &ToolsDir, steps: &mut Steps) -> Result<()> {
    let args = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
    cargo(tools, None, steps, "format", &args(&["fmt", "--all", "--check"]))?;
    steps.run("house rules", || tidy::check().map(|()| ((), String::new())))?;
    cargo(
        tools,
        None,
        steps,
        "lints",
        &args(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    )
}

/// The arguments of `cargo test`, with `for_tests` after the user's or a new `--`.
fn with_arguments(cargo: &[&str], user: &[String], for_tests: &[&str]) -> Vec<String> {
    let (before, behind) = match user.iter().position(|arg| arg == "--") {
        Some(at) => (&user[..at], &user[at + 1..]),
        None => (user, &[][..]),
    };
    let owned = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
    [&owned(cargo), before, &owned(&["--"]), &owned(for_tests), behind].concat()
}

/// Directories in which tests record a server's or adapter's passed capabilities.
struct Results {
    servers: PathBuf,
    debuggers: PathBuf,
}

impl Results {
    fn of_servers(&self, update: bool) -> Result<String> {
        tested_adapters::check(&tested_adapters::SERVERS, &self.servers, update)
    }

    fn of_debuggers(&self, update: bool) -> Result<String> {
        tested_adapters::check(&tested_adapters::DEBUGGERS, &self.debuggers, update)
    }
}

fn cargo(
    tools: &ToolsDir,
    results: Option<&Results>,
    steps: &mut Steps,
    title: &str,
    args: &[String],
) -> Result<()> {
    steps.run(title, || {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(tidy::root()).args(args);
        if let Some(results) = results {
            cargo.env(tested_adapters::SERVERS.variable, &results.servers);
            cargo.env(tested_adapters::DEBUGGERS.variable, &results.debuggers);
        } else if std::env::var_os("RUST_TEST_THREADS").is_none() {
            // Scripted tests mostly wait.
            let threads = 2 * std::thread::available_parallelism().map_or(2, NonZero::get);
            cargo.env("RUST_TEST_THREADS", threads.to_string());
        }
        exec::show_ok(env::apply(&mut cargo, tools), DEADLINE)?;
        Ok(((), String::new()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_arguments_surround_the_separator() {
        let user = ["-p", "tests", "--", "undo"].map(str::to_owned);
        let args = with_arguments(&["test"], &user, &["--include-ignored"]);
        assert_eq!(args.join(" "), "test -p tests -- --include-ignored undo");
        assert_eq!(with_arguments(&["test"], &user[..2], &[]).join(" "), "test -p tests --");
    }
}
