//! `pilcrow auth`: keys of providers in the system's keyring. No key is an argument, where other processes could read it, and
//! none is shown.

use std::io::{BufRead as _, IsTerminal as _};

use host::Outcome;
use host::models::{Catalogue, keyring, keys};
use llm::ApiKey;
use serde_json::json;

use super::wrong_use;
use crate::{cli, output, stop};

pub async fn perform(command: cli::Auth, project: &cli::Project, as_json: bool) -> anyhow::Result<Outcome> {
    let (catalogue, file) = super::models::catalogue(project)?;
    match command {
        cli::Auth::Set { provider } => match known(&catalogue, &provider, &file) {
            Err(error) => Ok(wrong_use(&error)),
            Ok(()) => set(&provider).await,
        },
        cli::Auth::List => Ok(list(&catalogue, as_json)),
        cli::Auth::Remove { provider } => remove(&provider),
    }
}

fn known(catalogue: &Catalogue, provider: &str, file: &str) -> Result<(), String> {
    match catalogue.providers.contains_key(provider) || provider == "proxy" {
        true => Ok(()),
        // It names the nearest.
        false => catalogue.asked(provider, file).map(drop).map_err(|error| error.to_string()),
    }
}

async fn set(provider: &str) -> anyhow::Result<Outcome> {
    let text = if std::io::stdin().is_terminal() {
        output::note(&format!("the key of {provider}, and Enter (it is not shown):"));
        let cancel = stop::on_signal()?;
        let _quiet = Quiet::new()?;
        tokio::select! {
            // What reads ends with the process, after the terminal has its echo again.
            () = cancel.cancelled() => None,
            text = read_line() => Some(text?),
        }
    } else {
        Some(read_line().await?)
    };
    let Some(text) = text else {
        output::note("pilcrow: no key was kept");
        return Ok(Outcome::Failed);
    };
    if ApiKey::new(&text).is_none() {
        return Ok(wrong_use("there is no key on standard input"));
    }
    if let Err(error) = keyring::set(provider, text.trim()) {
        output::note(&format!(
            "pilcrow: {error}; a key can be given in a variable of the environment instead"
        ));
        return Ok(Outcome::Failed);
    }
    output::line(&format!("the key of {provider} is kept in the system's keyring"));
    Ok(Outcome::Done)
}

/// The first line of standard input, read by a thread that nobody waits for.
async fn read_line() -> anyhow::Result<String> {
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = std::io::stdin().lock().read_line(&mut text);
        // Nobody hears it where it was stopped.
        tell.send(read.map(|_| text)).ok();
    });
    Ok(told.await??)
}

/// A terminal without echo, until it is dropped.
struct Quiet(rustix::termios::Termios);

impl Quiet {
    fn new() -> std::io::Result<Quiet> {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let before = tcgetattr(std::io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &quiet)?;
        Ok(Quiet(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        if tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.0).is_err() {
            output::note("pilcrow: the terminal's echo stays off; `stty echo` brings it back");
        }
    }
}

fn list(catalogue: &Catalogue, as_json: bool) -> Outcome {
    let mut problem = None;
    for (name, provider) in &catalogue.providers {
        let variables = provider.api_key_env.iter();
        let variable = variables.clone().find(|name| keys::from_environment(&[(*name).clone()]).is_some());
        let kept = if problem.is_some() || provider.written { Ok(None) } else { keyring::get(name) };
        let kept = kept.unwrap_or_else(|error| {
            problem = Some(error);
            None
        });
        let place = match (variable, kept) {
            _ if provider.written => provider.unset.is_none().then(|| "the settings".to_owned()),
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
        Ok(true) => output::line(&format!("the key of {provider} is forgotten")),
        Ok(false) => output::line(&format!("the keyring has no key of {provider}")),
        Err(error) => {
            output::note(&format!("pilcrow: {error}"));
            return Ok(Outcome::Failed);
        }
    }
    Ok(Outcome::Done)
}
