//! `pilcrow auth`: API keys in the system's keyring.
//!
//! A key is never an argument, which other processes could read, and never printed.

use std::io::{BufRead as _, IsTerminal as _};

use host::Outcome;
use host::models::{Catalogue, keyring, keys};
use llm::ApiKey;
use serde_json::json;

use super::wrong_use;
use crate::{cli, output, stop};

pub async fn perform(command: cli::Auth, target: &cli::CommandTarget) -> anyhow::Result<Outcome> {
    let (catalogue, file) = super::models::catalogue(&target.project)?;
    match command {
        cli::Auth::Set { provider } => match known(&catalogue, &provider, &file) {
            Err(error) => Ok(wrong_use(&error)),
            Ok(()) => set(&provider).await,
        },
        cli::Auth::List => Ok(list(&catalogue, target.json)),
        cli::Auth::Remove { provider } => remove(&provider),
    }
}

fn known(catalogue: &Catalogue, provider: &str, file: &str) -> Result<(), String> {
    if catalogue.providers.contains_key(provider) || provider == "proxy" {
        return Ok(());
    }
    // The error names the nearest.
    catalogue.parse_name(provider, file).map(drop).map_err(|error| error.to_string())
}

async fn set(provider: &str) -> anyhow::Result<Outcome> {
    let text = if std::io::stdin().is_terminal() {
        output::note(&format!("API key of {provider} (not shown):"));
        let cancel = stop::on_signal()?;
        let _no_echo = NoEcho::new()?;
        tokio::select! {
            // The reading thread ends with the process, after the terminal has its echo again.
            () = cancel.cancelled() => None,
            text = read_line() => Some(text?),
        }
    } else {
        Some(read_line().await?)
    };
    let Some(text) = text else {
        output::note("pilcrow: no key was stored");
        return Ok(Outcome::Failed);
    };
    if ApiKey::new(&text).is_none() {
        return Ok(wrong_use("there is no key on standard input; pipe it into the command or type it"));
    }
    if let Err(error) = keyring::set(provider, text.trim()) {
        output::note(&format!("pilcrow: {error}; set an environment variable instead"));
        return Ok(Outcome::Failed);
    }
    output::line(&format!("stored the key of {provider} in the system's keyring"));
    Ok(Outcome::Done)
}

/// Reads the first line of standard input on a detached thread.
async fn read_line() -> anyhow::Result<String> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = std::io::stdin().lock().read_line(&mut text);
        // The command may have been stopped.
        sender.send(read.map(|_| text)).ok();
    });
    Ok(receiver.await??)
}

/// Switches off the terminal's echo until it is dropped.
struct NoEcho(rustix::termios::Termios);

impl NoEcho {
    fn new() -> std::io::Result<NoEcho> {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let before = tcgetattr(std::io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(NoEcho(before))
    }
}

impl Drop for NoEcho {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        if tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.0).is_err() {
            output::note("pilcrow: the terminal's echo stays off; `stty echo` restores it");
        }
    }
}

fn list(catalogue: &Catalogue, as_json: bool) -> Outcome {
    let mut problem = None;
    for (name, provider) in &catalogue.providers {
        let variables = provider.api_key_env.iter();
        let variable = variables.clone().find(|name| keys::from_environment(&[(*name).clone()]).is_some());
        let stored =
            if problem.is_some() || provider.has_key_setting { Ok(None) } else { keyring::get(name) };
        let stored = stored.unwrap_or_else(|error| {
            problem = Some(error);
            None
        });
        let place = match (variable, stored) {
            _ if provider.has_key_setting => provider.unset.is_none().then(|| "the settings".to_owned()),
            (Some(variable), _) => Some(format!("the variable {variable}")),
            (None, Some(_)) => Some("the keyring".to_owned()),
            (None, None) => None,
        };
        if as_json {
            output::json(&json!({ "provider": name, "from": place, "variables": provider.api_key_env }));
        } else if let Some(place) = place {
            output::line(&format!("{name}  from {place}"));
        } else if let Some(unset) = &provider.unset {
            output::line(&format!("{name}  no key: the settings need {unset}, which is not set"));
        }
    }
    if let Some(problem) = problem {
        output::note(&format!("pilcrow: {problem}"));
    }
    Outcome::Done
}

fn remove(provider: &str) -> anyhow::Result<Outcome> {
    match keyring::remove(provider) {
        Ok(true) => output::line(&format!("removed the key of {provider}")),
        Ok(false) => output::line(&format!("the keyring has no key of {provider}")),
        Err(error) => {
            output::note(&format!("pilcrow: {error}"));
            return Ok(Outcome::Failed);
        }
    }
    Ok(Outcome::Done)
}
