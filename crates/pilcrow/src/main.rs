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
use host::config::Config;
use host::{BranchRequest, Outcome};
use lsp_server::ClientLog;
use paths::Homes;
use render::Format;
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
            process::guard_main();
            Ok(Outcome::Done)
        }
        Command::Lsp { agent, .. } => block_on(serve_editor(agent)),
        command => perform(command),
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

fn perform(command: Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Run { help_planner: true, .. } => {
            output::line(&host::session::planner_help());
            Ok(Outcome::Done)
        }
        Command::Tooling(command) => block_on(commands::lsp::run(command)),
        Command::Run { prompt, project, execution, consent, model, format, wait, .. } => {
            let wait_ms = wait.millis();
            let options = commands::run::RunOptions { resume: None, consent, model, format, wait_ms };
            block_on(commands::run::run(prompt, &project, &execution, options))
        }
        Command::Tool { batch: true, project, execution, consent, .. } => {
            block_on(commands::tool::batch(&project, &execution, &consent))
        }
        Command::Tool {
            name: Some(name), arguments, list: false, wait, project, execution, consent, ..
        } => block_on(commands::tool::one(&name, arguments.as_deref(), &project, &execution, &consent, wait)),
        Command::Tool { project, consent, .. } => in_runtime(|| commands::tool::list(&project, consent.json)),
        Command::Dap { session, project, json } => {
            block_on(commands::dap::run(session.as_deref(), &project, json))
        }
        Command::Read { file, offset, limit, project, execution, json } => {
            block_on(commands::edit::read(&file, offset, limit, &project, &execution, json))
        }
        Command::Edit { batch: true, .. } => commands::edit_batch::run(),
        Command::Edit { project, execution, json, .. } => {
            block_on(commands::edit::edit(&project, &execution, json))
        }
        Command::Undo { list: true, project, json, .. } => {
            in_runtime(|| commands::undo::list(&project, json))
        }
        Command::Undo { commit, project, execution, json, .. } => {
            block_on(commands::undo::undo(commit, false, &project, &execution, json))
        }
        Command::Redo { project, execution, json } => {
            block_on(commands::undo::undo(None, true, &project, &execution, json))
        }
        Command::Trust { list: true, .. } => commands::trust::list(),
        Command::Trust { directory, kill: Some(program), .. } => commands::trust::kill(directory, &program),
        Command::Trust { directory, remove, .. } => commands::trust::trust(directory, remove),
        Command::Tools { budget, trace, agent, project, json } => {
            in_runtime(|| commands::tools::tools(&project, agent.as_deref(), budget, trace, json))
        }
        Command::Sessions {
            command: cli::Sessions::Resume { id, prompt, execution, yes, model },
            project,
            json,
        } => {
            let consent = cli::Consent { yes, json };
            let (id, prompt) = commands::sessions::resumed(id, prompt);
            let format = Format::default();
            let options =
                commands::run::RunOptions { resume: Some(id), consent, model, format, wait_ms: None };
            block_on(commands::run::run(prompt, &project, &execution, options))
        }
        Command::Sessions {
            command: cli::Sessions::Compact { id, instructions, execution, model },
            project,
            json,
        } => {
            let instructions = instructions.unwrap_or_default();
            block_on(commands::run::compact(id, &instructions, &project, &execution, json, model))
        }
        Command::Sessions {
            command: cli::Sessions::Branch { id, entry, instructions, model },
            project,
            json,
        } => {
            let instructions = instructions.unwrap_or_default();
            let request = BranchRequest { session: id, entry, instructions, model, directory: None };
            block_on(commands::sessions::branch(request, &project, json))
        }
        Command::Sessions { command, project, json } => {
            in_runtime(|| commands::sessions::perform(command, &project, json))
        }
        Command::Adapters { command: cli::Adapters::List, project, json } => {
            commands::adapters::list(&project, json)
        }
        Command::Adapters { command: cli::Adapters::Doctor, project, json } => {
            commands::adapters::doctor(&project, json)
        }
        Command::Adapters {
            command: cli::Adapters::Install { names, system, update, yes },
            project,
            json,
        } => {
            let request = commands::adapters::InstallRequest { names: &names, system, update, yes, json };
            block_on(commands::adapters::install(&project, &request))
        }
        Command::Models { command: cli::Models::List { provider }, project, json } => {
            block_on(commands::models::list(provider.as_deref(), &project, json))
        }
        Command::Auth { command, project, json } => {
            block_on(commands::auth::perform(command, &project, json))
        }
        Command::Proxy { listen, project } => block_on(commands::proxy::serve(listen, &project)),
        Command::Models { command: cli::Models::Show { name }, project, json } => {
            commands::models::show(&name, &project, json)
        }
        Command::Serve { idle, project } => block_on(commands::serve::serve(&project, idle)),
        Command::Doctor { project, json } => commands::doctor::show(&project, json),
        Command::Logs { lines, server } => commands::logs::show(lines, server.as_deref()),
        Command::Config { command: cli::Config::Show { agent }, project, json } => {
            commands::config::show(&project, agent.as_deref(), json)
        }
        Command::Config { command: cli::Config::Schema, .. } => commands::config::schema(),
        Command::Config { command: cli::Config::Why { capability, argument, by }, project, json } => {
            commands::config::why(&capability, argument.as_deref(), by.as_deref(), &project, json)
        }
        Command::Guard | Command::Lsp { .. } => Ok(Outcome::Done),
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

/// Runs a synchronous command whose parts need a runtime.
fn in_runtime(command: impl FnOnce() -> anyhow::Result<Outcome>) -> anyhow::Result<Outcome> {
    block_on(async { command() })
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
