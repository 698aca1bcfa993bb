//! The development commands: install tools, run the demo and all tests, check rules, measure.
//!
//! They may write files and start processes, because they are not part of the product. They use
//! Pilcrow only as an executable: no crate of the product is a dependency.

#![expect(clippy::disallowed_methods, reason = "a development tool installs, unpacks and starts processes")]
#![expect(clippy::print_stdout, reason = "a command-line tool prints results to standard output")]

mod bench;
mod demo;
mod env;
mod exec;
mod fuzz;
mod replay;
mod setup;
mod steps;
mod test;
mod tested_adapters;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Development commands of Pilcrow.
#[derive(Parser)]
#[command(name = "cargo xtask", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what the demo or tests need into PILCROW_TOOLS (~/.cache/pilcrow-dev)
    Setup(setup::Args),
    /// Print PATH and variables for a shell: eval "$(cargo xtask env)"
    Env,
    /// Rename a function across a real Python package, verify the result, and undo it
    Demo(demo::Args),
    /// Set up, check the format, lint, run every test and the demo
    Test(test::Args),
    /// Check the house rules that a compiler cannot check
    Tidy(tidy::Args),
    /// Fuzz the edit engine with libFuzzer
    Fuzz(fuzz::Args),
    /// Replay the changes of a git repository's history as edits of older texts
    Replay(replay::Args),
    /// Measure start-up, size, requests and commits; figures only, no assertions
    Bench(bench::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Setup(args) => setup::run(&args),
        Command::Env => env::run(),
        Command::Demo(args) => demo::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Tidy(args) => tidy::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Bench(args) => bench::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Every cause in turn, without a backtrace, which is useless on a terminal.
            eprintln!("\nerror: {error}");
            error.chain().skip(1).for_each(|cause| eprintln!("{cause}"));
            ExitCode::FAILURE
        }
    }
}
