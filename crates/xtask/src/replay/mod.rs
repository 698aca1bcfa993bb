//! `cargo xtask replay REPO…`: real history, written as edits and applied again.
//!
//! The change v1 → v2 of three consecutive versions v0, v1, v2 of a file is written as a patch
//! against v0 and applied to v1 (`case`). The engine is a program that speaks JSON lines
//! (`docs/formats/edit-batch.md`): Pilcrow, or any other (`--engine`). One wrong result fails the
//! command.

mod case;
mod engine;
mod history;
#[path = "../../../hashline/tests/suite/random.rs"]
mod random;
mod report;
pub(crate) mod side_by_side;
mod synthetic;
mod twins;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::exec;
use crate::steps::Steps;
use crate::tidy;

use case::Case;
use engine::Engine;
use report::{Outcome, Report};

const BUILD_DEADLINE: Duration = Duration::from_secs(60 * 60);

/// Arguments of `replay`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Git repositories; the default is this project's own.
    repos: Vec<PathBuf>,
    /// Maximum number of cases per source, evenly spread over its history.
    #[arg(long, default_value_t = 5_000)]
    limit: usize,
    /// Use another engine: a command line for `sh` that speaks the same JSON lines.
    #[arg(long, value_name = "CMD")]
    engine: Option<String>,
    /// Compare with a second engine, whose wrong results fail nothing.
    ///
    /// The first lines of crates/xtask/peers/oh-my-pi.mjs say how to get one
    #[arg(long, value_name = "CMD")]
    beside: Option<String>,
    /// Test the dev build of pilcrow, which builds faster.
    #[arg(long)]
    dev: bool,
    /// Instead of history: this many synthetic triples from cargo's registry
    #[arg(long, value_name = "COUNT")]
    synthetic: Option<usize>,
    /// Seed of the synthetic triples.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the wrong and refused rows to this file, each with the expected result.
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut steps = Steps::new();
    let mut engine = match &args.engine {
        Some(command) => Engine::start(command)?,
        None => own(args.dev, &mut steps)?,
    };
    let mut peer = args.beside.as_deref().map(Engine::start).transpose()?;
    if let Some(count) = args.synthetic {
        let cases = synthetic::cases(count, args.seed)?;
        let title = format!("synthetic, seed {}", args.seed);
        return play(&title, cases, &mut engine, peer.as_mut(), args, &mut steps);
    }
    let own = [tidy::root()];
    let repos = if args.repos.is_empty() { &own[..] } else { &args.repos };
    let mut failed = Vec::new();
    for repo in repos {
        let title = repo.file_name().unwrap_or(repo.as_os_str()).to_string_lossy().into_owned();
        let cases = history::cases(repo, args.limit)?;
        if let Err(error) = play(&title, cases, &mut engine, peer.as_mut(), args, &mut steps) {
            eprintln!("{error:#}");
            failed.push(title);
        }
    }
    ensure!(failed.is_empty(), "wrong results in {}", failed.join(", "));
    Ok(())
}

/// Replays the project's own history with the dev build, for `cargo xtask test`.
pub(crate) fn own_history(steps: &mut Steps) -> Result<()> {
    let mut engine = own(true, steps)?;
    let args = Args {
        repos: Vec::new(),
        limit: 600,
        engine: None,
        beside: None,
        dev: true,
        synthetic: None,
        seed: 1,
        keep: None,
    };
    play("this project", history::cases(&tidy::root(), args.limit)?, &mut engine, None, &args, steps)?;
    play("synthetic, seed 1", synthetic::cases(300, 1)?, &mut engine, None, &args, steps)
}

fn own(dev: bool, steps: &mut Steps) -> Result<Engine> {
    let (profile, directory) = if dev { ("dev", "debug") } else { ("release", "release") };
    steps.run(&format!("build pilcrow ({profile})"), || {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(tidy::root()).args([
            "build",
            "--quiet",
            "--package",
            "pilcrow",
            "--profile",
            profile,
        ]);
        exec::show_ok(&mut cargo, BUILD_DEADLINE)?;
        Ok(((), String::new()))
    })?;
    let program = tidy::target_directory()?.join(directory).join("pilcrow");
    Engine::start(&format!("exec {} edit --batch", exec::quote(&program)))
}

fn play(
    title: &str,
    cases: impl Iterator<Item = Result<Case>>,
    engine: &mut Engine,
    mut peer: Option<&mut Engine>,
    args: &Args,
    steps: &mut Steps,
) -> Result<()> {
    let mut keep = match &args.keep {
        Some(path) => {
            let file = File::options().create(true).append(true).open(path);
            Some(BufWriter::new(file.with_context(|| format!("cannot write {}", path.display()))?))
        }
        None => None,
    };
    let (report, beside) = steps.run(&format!("replay {title}"), || {
        let (mut report, mut beside) = (Report::default(), Report::default());
        for case in cases {
            let case = case?;
            let Some(patch) = &case.patch else {
                report.unwritable += 1;
                continue;
            };
            let answer = engine.ask(&case.path, &case.base, &case.current, patch)?;
            let outcome = Outcome::of(&case, &answer);
            if let (Outcome::Wrong | Outcome::Refused | Outcome::Failed, Some(keep)) = (outcome, &mut keep) {
                let row = json!({
                    "id": case.name, "class": case.class.as_str(), "outcome": outcome.as_str(), "path": case.path,
                    "base": case.base, "current": case.current, "patch": patch, "expected": case.expected,
                    "answer": answer.text, "strategy": answer.strategy, "reason": answer.reason,
                    "message": answer.message,
                });
                writeln!(keep, "{row}")?;
            }
            report.add(&case, outcome, &answer);
            if let Some(peer) = &mut peer {
                let answer = peer.ask(&case.path, &case.base, &case.current, patch)?;
                beside.add(&case, Outcome::of(&case, &answer), &answer);
            }
        }
        let said = format!("{} cases", report.cases());
        Ok(((report, beside), said))
    })?;
    println!("\n{title}\n{report}");
    if peer.is_some() {
        println!("{}", report.beside(&beside));
    }
    if report.wrong() > 0 {
        bail!("{} wrong results: {}", report.wrong(), report.wrong_names());
    }
    Ok(())
}
