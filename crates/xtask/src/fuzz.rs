//! `cargo xtask fuzz`: fuzzing of hashline's parser and planner with libFuzzer.
//!
//! Built on the stable toolchain: the flags below are those of `cargo fuzz --sanitizer none`, which
//! needs no more. The stored corpus is the scenarios (`tests/scenarios/hashline`), one input of
//! each for each target, and `fuzz/corpus` (`fuzz/README.md`). New inputs go to the target
//! directory, with instructions to replay them. A crash fails the command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::steps::Steps;
use crate::{exec, tidy};

const TARGETS: [&str; 2] = ["parse", "plan"];
const BUILD_DEADLINE: Duration = Duration::from_secs(30 * 60);
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing";

/// Arguments of `fuzz`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds to run each target; both run in parallel.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Inputs to run once instead of fuzzing.
    inputs: Vec<PathBuf>,
    /// The only target to use.
    #[arg(long, value_parser = TARGETS)]
    target: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    for_seconds(args, &mut Steps::new())
}

/// Fuzzes for a minute, as a part of `cargo xtask test`.
pub(crate) fn a_minute(steps: &mut Steps) -> Result<()> {
    for_seconds(&Args { seconds: 60, inputs: Vec::new(), target: None }, steps)
}

fn for_seconds(args: &Args, steps: &mut Steps) -> Result<()> {
    let root = tidy::root();
    let directory = tidy::target_directory()?.join("fuzz");
    let host = host()?;
    steps.run("build the fuzz targets", || {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(root.join("fuzz")).args(["build", "--release", "--locked", "--quiet"]);
        // An explicit target keeps the flags away from build scripts and macros.
        cargo.args(["--target", &host]);
        cargo.env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", &directory);
        exec::show_ok(&mut cargo, BUILD_DEADLINE)?;
        Ok(((), String::new()))
    })?;
    let targets: Vec<&str> =
        TARGETS.into_iter().filter(|name| args.target.as_deref().is_none_or(|only| only == *name)).collect();
    let programs = directory.join(&host).join("release");
    let title = format!("fuzz {} for {} s", targets.join(" and "), args.seconds);
    steps.run(&title, || {
        // The targets run in parallel threads, so that both take one minute together.
        let said = std::thread::scope(|scope| {
            let started: Vec<_> = targets
                .iter()
                .map(|name| scope.spawn(|| fuzz(name, &root, &directory, &programs, args)))
                .collect();
            let joined = started.into_iter().map(|thread| thread.join());
            joined
                .map(|said| said.unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked"))))
                .collect::<Result<Vec<String>>>()
        })?;
        Ok(((), said.join("; ")))
    })
}

/// The target triple of this machine.
fn host() -> Result<String> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let said = exec::capture_ok(rustc.arg("-vV"), Duration::from_secs(60))?.stdout;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc reports no host triple")
}

fn fuzz(name: &str, root: &Path, directory: &Path, programs: &Path, args: &Args) -> Result<String> {
    let found = directory.join("found").join(name);
    let seeds = directory.join("seeds").join(name);
    fs::create_dir_all(&found).with_context(|| format!("cannot make {}", found.display()))?;
    let mut command = Command::new(programs.join(name));
    command
        .arg(format!("-artifact_prefix={}/", found.display()))
        .arg("-timeout=20")
        .arg("-rss_limit_mb=2048");
    if args.inputs.is_empty() {
        write_seeds(root, name, &seeds)?;
        // libFuzzer adds new inputs to the first directory, which is temporary.
        let grown = directory.join("grown").join(name);
        fs::create_dir_all(&grown).with_context(|| format!("cannot make {}", grown.display()))?;
        command.args(["-print_final_stats=1", "-max_len=4096", "-verbosity=0"]);
        command.arg(format!("-max_total_time={}", args.seconds));
        command.arg(&grown).arg(&seeds);
    } else {
        command.args(&args.inputs);
    }
    let output = exec::capture(&mut command, Duration::from_secs(args.seconds + 300))?;
    let last: Vec<&str> = output.stderr.lines().rev().take(40).collect();
    let said: Vec<&str> = last.into_iter().rev().collect();
    ensure!(
        output.status.success(),
        "{name}: {}\n{}\nreplay: cargo xtask fuzz --target {name} FILE (of {})",
        output.status,
        said.join("\n"),
        found.display()
    );
    let count = output.stderr.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    Ok(format!("{name}: {} inputs", count.unwrap_or("all").trim()))
}

/// Writes one input per scenario, and the stored ones.
fn write_seeds(root: &Path, target: &str, seeds: &Path) -> Result<()> {
    if seeds.exists() {
        fs::remove_dir_all(seeds)?;
    }
    fs::create_dir_all(seeds)?;
    for entry in fs::read_dir(root.join("tests/scenarios/hashline"))? {
        let directory = entry?.path();
        let read = |name: &str| fs::read_to_string(directory.join(name)).ok();
        let Some(patch) = read("patch") else { continue };
        let base = read("snapshot").unwrap_or_default();
        let current = read("current").unwrap_or_else(|| "=".into());
        let name = directory.file_name().unwrap_or_default();
        // Checks refer to a text, so they are removed; a patch parses without them too.
        let patch = patch.replace("#??", "").replace("??", "").replace("?1", "").replace("f.txt#", "f#");
        let seed = match target {
            "parse" => format!("\u{2}{}", patch.replace("TAG", "3F2A")),
            _ => format!("\u{0}{base}\u{1}{current}\u{1}{patch}"),
        };
        fs::write(seeds.join(name), seed)?;
    }
    let kept = root.join("fuzz/corpus").join(target);
    if kept.is_dir() {
        for entry in fs::read_dir(kept)? {
            let path = entry?.path();
            fs::copy(&path, seeds.join(path.file_name().unwrap_or_default()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes each scenario with a patch as an input of both targets.
    #[test]
    fn every_scenario_is_an_input_of_both_targets() {
        let directory = tempfile::tempdir().unwrap();
        let root = tidy::root();
        let scenarios = fs::read_dir(root.join("tests/scenarios/hashline")).unwrap();
        let patches =
            scenarios.filter(|entry| entry.as_ref().unwrap().path().join("patch").is_file()).count();
        for (target, parts) in TARGETS.into_iter().zip([1, 3]) {
            let seeds = directory.path().join(target);
            write_seeds(&root, target, &seeds).unwrap();
            let seeds: Vec<PathBuf> =
                fs::read_dir(&seeds).unwrap().map(|seed| seed.unwrap().path()).collect();
            assert!(seeds.len() >= patches && patches > 300, "{} of {patches}", seeds.len());
            for seed in seeds
                .iter()
                .filter(|seed| root.join("tests/scenarios/hashline").join(seed.file_name().unwrap()).is_dir())
            {
                let text = fs::read_to_string(seed).unwrap();
                assert_eq!(text[1..].split('\u{1}').count(), parts, "{}", seed.display());
            }
        }
    }
}
