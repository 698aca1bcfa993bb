//! `cargo xtask bench`: builds what is measured, measures it, and says how busy the machine was.
//!
//! Figures only: nothing fails for being slow, since a figure belongs to a machine and its load.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::exec;
use crate::replay::side_by_side;
use crate::steps::Steps;
use crate::tidy;

const DEADLINE: Duration = Duration::from_secs(60 * 60);

/// Arguments of `bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this: startup, size, references, commit, editor, search, hashline, lsp, dap, agent or llm.
    #[arg(value_parser = ["startup", "size", "references", "commit", "editor", "search", "hashline", "lsp", "dap", "agent", "llm"])]
    area: Option<String>,
    /// Measure the dev build, which takes less time to make; its figures are not those of a release.
    #[arg(long)]
    dev: bool,
    /// For hashline: another engine to be measured beside it too, a command line for `sh` that answers the rows of
    /// `pilcrow edit --batch`. Nothing is installed for it.
    #[arg(long, value_name = "CMD")]
    engine: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut steps = Steps::new();
    if args.area.as_deref() == Some("hashline") {
        return hashline(args, &mut steps);
    }
    if args.area.as_deref() == Some("lsp") {
        return benches("lsp-client", &["servers"], args);
    }
    if args.area.as_deref() == Some("agent") {
        return benches("agent", &["agent"], args);
    }
    if args.area.as_deref() == Some("llm") {
        return benches("llm", &["streams"], args);
    }
    if args.area.as_deref() == Some("dap") {
        return benches("dap-client", &["sessions"], args);
    }
    let profile = if args.dev { "dev" } else { "release" };
    steps.run(&format!("build pilcrow ({profile}) and what measures it"), || {
        exec::show_ok(&mut cargo(&["build", "--package", "pilcrow", "--profile", profile]), DEADLINE)?;
        exec::show_ok(&mut cargo(&["build", "--package", "tests", "--bin", "bench"]), DEADLINE)?;
        Ok(((), String::new()))
    })?;
    let target = tidy::target_directory()?;
    let folder = if args.dev { "debug" } else { "release" };
    let before = load()?;
    let mut bench = Command::new(target.join("debug/bench"));
    bench.env("PILCROW_BIN", target.join(folder).join("pilcrow")).args(&args.area);
    exec::show_ok(&mut bench, DEADLINE)?;
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("{profile} build, {cores} cores, load {before} before and {} after", load()?);
    Ok(())
}

/// The edit engine in process, what line checks are worth, and another engine where there is one.
fn hashline(args: &Args, steps: &mut Steps) -> Result<()> {
    benches("hashline", &["edits", "line_checks"], args)?;
    let Some(engine) = &args.engine else {
        println!("no other engine beside it: --engine; crates/xtask/peers/oh-my-pi.mjs says how to get one");
        return Ok(());
    };
    let (profile, folder) = if args.dev { ("dev", "debug") } else { ("release", "release") };
    steps.run(&format!("build pilcrow ({profile})"), || {
        exec::show_ok(&mut cargo(&["build", "--package", "pilcrow", "--profile", profile]), DEADLINE)?;
        Ok(((), String::new()))
    })?;
    side_by_side::run(engine, folder)
}

/// Measurements in process, each with the load of the machine.
fn benches(package: &str, benches: &[&str], args: &Args) -> Result<()> {
    let profile: &[&str] = if args.dev { &["--profile", "dev"] } else { &[] };
    for bench in benches {
        let before = load()?;
        let args = [&["bench", "--quiet", "--package", package, "--bench", bench], profile].concat();
        exec::show_ok(&mut cargo(&args), DEADLINE)?;
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        println!("{cores} cores, load {before} before (the build included) and {} after\n", load()?);
    }
    Ok(())
}

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(tidy::root()).args(args);
    command
}

fn load() -> Result<String> {
    let text = std::fs::read_to_string("/proc/loadavg").context("cannot read the machine's load")?;
    Ok(text.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
}
