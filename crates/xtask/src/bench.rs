//! `cargo xtask bench`: builds and measures, and reports the load of the machine.
//!
//! Prints figures and never fails for a slow one, since a figure depends on the machine and its
//! load. With `--compare FILE` it prints the change against the output of an earlier run.

mod compare;
mod context;
mod verdicts;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::replay::side_by_side;
use crate::setup::tools_dir::ToolsDir;
use crate::steps::Steps;
use crate::{env, exec, tidy};

const DEADLINE: Duration = Duration::from_secs(60 * 60);

/// Areas to measure from outside the executable.
const EXECUTABLE: [&str; 7] = ["startup", "size", "sandbox", "references", "commit", "editor", "search"];
/// Areas that take minutes and need installed servers or debug adapters.
///
/// Measured by name alone.
const SLOW: [&str; 3] = ["projects", "dap", "sizes"];
/// The area of claims about renames, measured by name alone.
const VERDICTS: &str = "verdicts";
/// The area of tokens by task, measured by name alone.
const CONTEXT: &str = "context";
/// Areas to measure in process: area, package, benches.
const IN_PROCESS: [(&str, &str, &[&str]); 5] = [
    ("hashline", "hashline", &["edits", "line_checks"]),
    ("lsp", "lsp-client", &["servers"]),
    ("hub", "dap-client", &["sessions"]),
    ("agent", "agent", &["agent"]),
    ("llm", "llm", &["streams"]),
];

/// Arguments of `bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Area to measure; default: those of the executable (startup to search).
    /// One of startup, size, sandbox, references, commit, editor, search, hashline, lsp, hub, agent, llm, or all;
    /// or, as it takes minutes: projects and dap (a bare client beside Pilcrow, with servers and with debug adapters),
    /// sizes (every tool on large texts), verdicts (what renames claim, and what the compiler says), or context (tokens
    /// that common tasks cost)
    #[arg(value_parser = parse_area)]
    area: Option<String>,
    /// Measure the dev build: it builds faster, but its figures are not a release's
    #[arg(long)]
    dev: bool,
    /// Print the change against the output of an earlier run, stored in FILE.
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// For hashline: also measure another engine, an `sh` command line.
    /// It answers the rows of `pilcrow edit --batch`. Nothing is installed for it
    #[arg(long, value_name = "CMD")]
    engine: Option<String>,
    /// For verdicts: only this language
    #[arg(long, value_name = "NAME")]
    language: Option<String>,
    /// For context: only this task; print its conversation
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// For context: also run pi and oh-my-pi, which npm installed in DIR
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
    /// For verdicts: time that a rename waits for its verdict
    #[arg(long, value_name = "TIME", default_value = "10s")]
    wait: String,
}

fn parse_area(area: &str) -> Result<String, String> {
    let mut areas = EXECUTABLE
        .into_iter()
        .chain(SLOW)
        .chain(IN_PROCESS.map(|(area, ..)| area))
        .chain(["all", VERDICTS, CONTEXT]);
    if areas.any(|known| known == area) { Ok(area.to_owned()) } else { Err(format!("no area `{area}`")) }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let before = match &args.compare {
        Some(path) => {
            Some(std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?)
        }
        None => None,
    };
    let mut steps = Steps::new();
    let mut output = String::new();
    let area = args.area.as_deref();
    if area == Some(VERDICTS) {
        let found = verdicts::run(&pilcrow(args, &mut steps)?, args.language.as_deref(), &args.wait)?;
        ensure!(found == 0, "{found} false verdicts; the table and the lines above name them");
    }
    if area == Some(CONTEXT) {
        context::run(
            &pilcrow(args, &mut steps)?,
            args.peers.as_deref(),
            args.task.as_deref(),
            args.task.is_some(),
        )?;
    }
    if area.is_none_or(|area| area == "all" || EXECUTABLE.contains(&area) || SLOW.contains(&area)) {
        output.push_str(&executable(args, &mut steps)?);
    }
    for (name, package, targets) in IN_PROCESS {
        if area == Some("all") || area == Some(name) {
            output.push_str(&benches(package, targets, args)?);
        }
    }
    if area == Some("hashline") {
        other_engine(args, &mut steps)?;
    }
    if let Some(before) = before {
        print!(
            "\nchange against {}\n{}",
            args.compare.iter().map(|it| it.display().to_string()).collect::<String>(),
            compare::table(&before, &output)
        );
    }
    Ok(())
}

/// Measures the executable from outside; returns the output.
fn executable(args: &Args, steps: &mut Steps) -> Result<String> {
    let profile = if args.dev { "dev" } else { "release" };
    steps.run(&format!("build pilcrow ({profile}) and its benchmark"), || {
        exec::show_ok(&mut cargo(&["build", "--package", "pilcrow", "--profile", profile]), DEADLINE)?;
        exec::show_ok(&mut cargo(&["build", "--package", "tests", "--bin", "bench"]), DEADLINE)?;
        Ok(((), String::new()))
    })?;
    let target = tidy::target_directory()?;
    let directory = if args.dev { "debug" } else { "release" };
    let before = load()?;
    let mut bench = Command::new(target.join("debug/bench"));
    let area = args.area.iter().filter(|area| *area != "all");
    bench.env("PILCROW_BIN", target.join(directory).join("pilcrow")).args(area);
    env::apply(&mut bench, &ToolsDir::from_env()?);
    let output = exec::show_and_keep(&mut bench, DEADLINE)?;
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("{profile} build, {cores} cores, load {before} before and {} after", load()?);
    Ok(output)
}

/// Builds the executable; returns its path.
fn pilcrow(args: &Args, steps: &mut Steps) -> Result<PathBuf> {
    let (profile, directory) = if args.dev { ("dev", "debug") } else { ("release", "release") };
    steps.run(&format!("build pilcrow ({profile})"), || {
        exec::show_ok(&mut cargo(&["build", "--package", "pilcrow", "--profile", profile]), DEADLINE)?;
        Ok(((), String::new()))
    })?;
    Ok(tidy::target_directory()?.join(directory).join("pilcrow"))
}

/// Measures another edit engine beside Pilcrow, if one is given.
fn other_engine(args: &Args, steps: &mut Steps) -> Result<()> {
    let Some(engine) = &args.engine else {
        println!("no other engine measured (--engine); crates/xtask/peers/oh-my-pi.mjs says how to get one");
        return Ok(());
    };
    pilcrow(args, steps)?;
    side_by_side::run(engine, if args.dev { "debug" } else { "release" })
}

/// Measures a crate in process, with the machine's load; returns the output.
fn benches(package: &str, benches: &[&str], args: &Args) -> Result<String> {
    let profile: &[&str] = if args.dev { &["--profile", "dev"] } else { &[] };
    let mut output = String::new();
    for bench in benches {
        let before = load()?;
        let args = [&["bench", "--quiet", "--package", package, "--bench", bench], profile].concat();
        output.push_str(&exec::show_and_keep(&mut cargo(&args), DEADLINE)?);
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        println!("{cores} cores, load {before} before (the build included) and {} after\n", load()?);
    }
    Ok(output)
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
