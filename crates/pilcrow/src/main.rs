//! Pilcrow's command line: parses arguments, runs the command, and returns its exit
//! code.

mod cli;
mod commands;
mod executor;
#[cfg(test)]
mod ipc_tests;
mod logging;
mod open;
mod output;
mod render;
mod stop;
mod terminal;

use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use cli::{Cli, Command};
use commands::{
    adapters, auth, config, dap, doctor, edit, logs, lsp, models, proxy, run, serve, sessions, tool, tools,
    trust, undo,
};
use host::Outcome;
use host::config::Config;
use lsp_server::ClientLog;
use paths::Homes;
use rpc_server::IpcAnnouncer;

fn main() -> ExitCode {
    // The helper of each command: it starts no thread, and needs no other arguments parsed.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == process::SUBCOMMAND) {
        let Err(error) = process::confine_main(words.collect()) else { return ExitCode::SUCCESS };
        output::note(&format!("pilcrow: {error}"));
        return ExitCode::from(UNCONFINED);
    }
    ExitCode::from(status(Cli::parse().command))
}

/// Exit code of the helper that could not execute a command; a shell's for that.
const UNCONFINED: u8 = 126;

/// Executes a command and returns its exit code.
fn status(command: Command) -> u8 {
    let exit = match command {
        Command::Guard => {
            for state in process::guard_main() {
                // After an error the next start tries again.
                workspace::revert_unfinished(&paths::StateDir::new(state)).ok();
            }
            Ok(Outcome::Done)
        }
        command => block_on(perform(command)),
    };
    let exit = exit.unwrap_or_else(|error| {
        output::note(&format!("pilcrow: {}", sentence(&error)));
        Outcome::Failed
    });
    stop::report_written();
    match exit {
        Outcome::Done if output::is_incomplete() => commands::exit_code(Outcome::Failed),
        exit => commands::exit_code(exit),
    }
}

/// Joins an error with its causes, without those that its text repeats.
fn sentence(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

async fn perform(command: Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Run { help_planner: true, .. } => {
            output::line(&host::session::planner_help());
            Ok(Outcome::Done)
        }
        Command::Tooling(command) => lsp::run(command).await,
        Command::Run { prompt, args, consent, model, format, wait, .. } => {
            let options = run::RunOptions { resume: None, consent, model, format, wait_ms: wait.millis() };
            run::run(prompt, &args, options).await
        }
        Command::Tool { batch: true, args, consent, .. } => tool::batch(&args, consent).await,
        Command::Tool { name: Some(name), arguments, list: false, wait, args, consent, .. } => {
            tool::one(&name, arguments.as_deref(), &args, consent, wait).await
        }
        Command::Tool { args, .. } => tool::list(&args.target),
        Command::Dap { session, target } => dap::run(session.as_deref(), &target).await,
        Command::Read { file, offset, limit, args } => edit::read(&file, offset, limit, &args).await,
        Command::Edit { batch: true, .. } => {
            host::edit_batch::answer(std::io::stdin().lock(), output::json)?;
            Ok(Outcome::Done)
        }
        Command::Edit { args, .. } => edit::edit(&args).await,
        Command::Undo { list: true, args, .. } => undo::list(&args.target),
        Command::Undo { commit, args, .. } => undo::undo(commit, false, &args).await,
        Command::Redo { args } => undo::undo(None, true, &args).await,
        Command::Trust { list: true, .. } => trust::list(),
        Command::Trust { directory, kill: Some(program), .. } => trust::kill(directory, &program),
        Command::Trust { directory, remove, .. } => trust::trust(directory, remove),
        Command::Tools { budget, trace, agent, target } => {
            tools::tools(&target, agent.as_deref(), budget, trace)
        }
        Command::Sessions { command, target } => sessions::perform(command, target).await,
        Command::Adapters { command, target } => match command {
            cli::Adapters::List => adapters::list(&target),
            cli::Adapters::Doctor => adapters::doctor(&target),
            cli::Adapters::Install(request) => adapters::install(&target, &request).await,
        },
        Command::Auth { command, target } => auth::perform(command, &target).await,
        Command::Proxy { listen, project } => proxy::serve(listen, &project).await,
        Command::Models { command, target } => match command {
            cli::Models::List { provider } => models::list(provider.as_deref(), &target).await,
            cli::Models::Show { name } => models::show(&name, &target),
        },
        Command::Serve { idle, project } => serve::serve(&project, idle).await,
        Command::Doctor { target } => doctor::show(&target).await,
        Command::Logs { lines, server } => logs::show(lines, server.as_deref()),
        Command::Config { command, target } => match command {
            cli::Config::Show { agent } => config::show(&target, agent.as_deref()),
            cli::Config::Schema => config::schema(),
            cli::Config::Why { capability, argument, by } => {
                config::why(&capability, argument.as_deref(), by.as_deref(), &target)
            }
        },
        Command::Lsp { agent, .. } => serve_editor(agent).await,
        Command::Guard => Ok(Outcome::Done),
    }
}

/// Serves an editor as a language server.
async fn serve_editor(agent: Option<String>) -> anyhow::Result<Outcome> {
    let homes = Homes::from_env()?;
    let log = Arc::new(ClientLog::default());
    let shown = Arc::clone(&log);
    let config = Config::load(&homes.config, None, None, false, &[]);
    let filter = config.as_ref().map_or("info", |config| &config.values.log.filter.0);
    logging::start(&homes.state, filter, Some(Box::new(move |level, line| shown.line(level, line))))?;
    let announcer = Arc::new(IpcAnnouncer { homes: homes.clone() });
    let options = lsp_server::Options { homes, log, agent, announcer };
    lsp_server::serve(options, stop::on_signal_within(process::deadlines::PROCESS)?).await
}

/// Runs a command to its end in its own runtime.
fn block_on(command: impl Future<Output = anyhow::Result<Outcome>>) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let exit = runtime.block_on(command);
    // A thread that waits for the terminal or a lock must not keep the process alive.
    runtime.shutdown_background();
    exit
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    #[test]
    fn a_cause_is_printed_once() {
        let cause = || std::io::Error::other("no such file");
        let error = anyhow::Error::from(cause()).context("cannot read x: no such file");
        assert_eq!(super::sentence(&error), "cannot read x: no such file");
        let error = Err::<(), _>(cause()).context("cannot open x").unwrap_err();
        assert_eq!(super::sentence(&error), "cannot open x: no such file");
    }
}
