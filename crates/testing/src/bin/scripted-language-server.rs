//! The scripted language server as a program.
//!
//! `scripted-language-server SCRIPT.json` uses its standard streams. Exits with 0 after `shutdown` and `exit`, 1
//! without `shutdown`, or with the script's status.

#![expect(clippy::disallowed_methods, reason = "a test tool reads and writes its own files")]

use std::process::ExitCode;

use anyhow::Context;
use testing::language_server::{Ended, Record, Script, serve};

fn main() -> anyhow::Result<ExitCode> {
    let path = std::env::args_os().nth(1).context("usage: scripted-language-server SCRIPT.json")?;
    let text = std::fs::read_to_string(&path).context("the script cannot be read")?;
    let script: Script = serde_json::from_str(&text).context("the script is malformed")?;
    if let Some(path) = &script.pid_file {
        let aside = path.with_extension("new");
        std::fs::write(&aside, std::process::id().to_string())?;
        std::fs::rename(&aside, path)?;
    }
    let stay = script.stay;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(serve(tokio::io::stdin(), tokio::io::stdout(), script, Record::default()));
    let code = match ended {
        Ended::Exit { clean: true } => 0,
        Ended::Exit { clean: false } => 1,
        Ended::EndOfInput => 2,
        Ended::Crash(code) => code,
    };
    if stay && !matches!(ended, Ended::Crash(_)) {
        runtime.block_on(std::future::pending::<()>());
    }
    // The program exits here instead of returning: a thread may still wait for standard input.
    std::process::exit(code)
}
