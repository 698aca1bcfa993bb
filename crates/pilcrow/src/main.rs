//! Pilcrow's command line: reads what was written on it, opens what the command needs, and tells
//! the shell how it ended.

mod around;
mod beside;
mod carrier;
mod cli;
mod commands;
mod config;
mod dap_front;
mod doctor;
mod harmless;
mod language_server;
mod logging;
mod models;
mod output;
mod owner;
mod project;
mod shown;
mod stop;
mod terminal;
mod unsaved;
mod worker;

use std::future::Future;
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use commands::Exit;

fn main() -> ExitCode {
    ExitCode::from(status(Cli::parse().command))
}

/// Carries a command out; what the shell is told.
fn status(command: Command) -> u8 {
    let exit = match command {
        Command::Guard => {
            workspace::guard_main();
            Ok(Exit::Done)
        }
        Command::Lsp { agent, .. } => language_server::serve(agent),
        command => perform(command),
    };
    let exit = exit.unwrap_or_else(|error| {
        output::note(&format!("pilcrow: {}", sentence(&error)));
        Exit::Failed
    });
    match exit {
        Exit::Done if output::is_incomplete() => Exit::Failed.code(),
        exit => exit.code(),
    }
}

/// An error with its causes, but for those that it tells of itself.
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

fn perform(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Run { help_planner: true, .. } => {
            output::line(tools::planner::grammar::HELP);
            Ok(Exit::Done)
        }
        Command::Run { prompt, project, carried, consent, asked, .. } => {
            block_on(commands::run::run(prompt, None, &project, &carried, &consent, asked))
        }
        Command::Tool { batch: true, project, carried, consent, .. } => {
            block_on(commands::tool::batch(&project, &carried, &consent))
        }
        Command::Tool { name: Some(name), arguments, list: false, project, carried, consent, .. } => {
            block_on(commands::tool::one(&name, arguments.as_deref(), &project, &carried, &consent))
        }
        Command::Tool { project, consent, .. } => within(|| commands::tool::list(&project, consent.json)),
        Command::Dap { session, project, json } => {
            block_on(commands::dap::run(session.as_deref(), &project, json))
        }
        Command::Read { file, offset, limit, project, carried, json } => {
            block_on(commands::edit::read(&file, offset, limit, &project, &carried, json))
        }
        Command::Edit { batch: true, .. } => commands::edit_batch::run(),
        Command::Edit { project, carried, json, .. } => {
            block_on(commands::edit::edit(&project, &carried, json))
        }
        Command::Undo { list: true, project, json, .. } => within(|| commands::undo::list(&project, json)),
        Command::Undo { commit, project, carried, json, .. } => {
            block_on(commands::undo::take_back(commit, false, &project, &carried, json))
        }
        Command::Redo { project, carried, json } => {
            block_on(commands::undo::take_back(None, true, &project, &carried, json))
        }
        Command::Trust { folder, list, remove } => commands::trust::trust(folder, list, remove),
        Command::Tools { budget, trace, agent, project, json } => {
            within(|| commands::tools::tools(&project, agent.as_deref(), budget, trace, json))
        }
        Command::Sessions {
            command: cli::Sessions::Resume { id, prompt, carried, yes, asked },
            project,
            json,
        } => {
            let consent = cli::Consent { yes, json };
            block_on(commands::run::run(prompt, Some(id), &project, &carried, &consent, asked))
        }
        Command::Sessions {
            command: cli::Sessions::Compact { id, wishes, carried, asked },
            project,
            json,
        } => {
            let prompt = Some(format!("/compact {}", wishes.unwrap_or_default()));
            let consent = cli::Consent { yes: false, json };
            block_on(commands::run::run(prompt, Some(id), &project, &carried, &consent, asked))
        }
        Command::Sessions { command: cli::Sessions::Branch { id, entry, wishes, model }, project, json } => {
            let (wishes, model) = (wishes.unwrap_or_default(), model.as_deref());
            let branching = commands::sessions::Branching { id: &id, entry: &entry, wishes: &wishes, model };
            block_on(commands::sessions::branch(branching, &project, json))
        }
        Command::Sessions { command, project, json } => {
            within(|| commands::sessions::perform(command, &project, json))
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
            let wanted = commands::adapters::Wanted { names: &names, system, update, yes, json };
            block_on(commands::adapters::install(&project, &wanted))
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
        Command::Doctor { project, json } => commands::doctor::show(&project, json),
        Command::Logs { lines, server } => commands::logs::show(lines, server.as_deref()),
        Command::Config { command: cli::Config::Show { agent }, project, json } => {
            commands::config::show(&project, agent.as_deref(), json)
        }
        Command::Config { command: cli::Config::Schema, .. } => commands::config::schema(),
        Command::Guard | Command::Lsp { .. } => Ok(Exit::Done),
    }
}

/// Runs a command to its end, in a runtime of its own.
fn block_on(command: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let exit = runtime.block_on(command);
    // A thread that waits for the terminal or a lock must not keep the process.
    runtime.shutdown_background();
    exit
}

/// Runs a command that waits for nothing but opens parts that want a runtime around them.
fn within(command: impl FnOnce() -> anyhow::Result<Exit>) -> anyhow::Result<Exit> {
    block_on(async { command() })
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    #[test]
    fn a_cause_is_told_once() {
        let cause = || std::io::Error::other("no such file");
        let told = |error: anyhow::Error| super::sentence(&error);
        assert_eq!(
            told(anyhow::Error::from(cause()).context("x is no folder: no such file")),
            "x is no folder: no such file"
        );
        let error = Err::<(), _>(cause()).context("x cannot be opened").unwrap_err();
        assert_eq!(told(error), "x cannot be opened: no such file");
    }
}
