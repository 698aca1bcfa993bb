//! Which model answers: the request's, else the settings', else the planner.

mod catalogue;

use std::path::Path;
use std::sync::Arc;

use agent::store::LoadedSession;
use anyhow::{Context, bail};
use llm::protocol::Protocols;
use llm::{ApiKey, Model, RemoteModel, ScriptModel};
use tools::planner::Planner;

use crate::config::Config;

pub use catalogue::{Asked, Catalogue, Entry, Provider};

/// The model that `asked` names, or the one of the settings.
///
/// # Errors
/// When the name is none of `planner`, `script:FILE`, `PROVIDER/MODEL`, or the provider is not set up.
pub fn choose(asked: Option<&str>, config: &Config, person_file: &str) -> anyhow::Result<Arc<dyn Model>> {
    choose_in(Path::new(""), asked, config, person_file)
}

/// As [`choose`], with a script's file looked for from `folder`.
///
/// # Errors
/// As [`choose`].
pub fn choose_in(
    folder: &Path,
    asked: Option<&str>,
    config: &Config,
    person_file: &str,
) -> anyhow::Result<Arc<dyn Model>> {
    let name = asked.or(config.model()).unwrap_or("planner");
    if name == "planner" {
        return Ok(Arc::new(Planner::new()));
    }
    if let Some(file) = name.strip_prefix("script:") {
        let script = std::fs::read_to_string(folder.join(file))
            .with_context(|| format!("the script {file} cannot be read"))?;
        return Ok(Arc::new(ScriptModel::parse(file, &script)?.forgetful()));
    }
    let catalogue = catalogue(config, person_file)?;
    let asked = catalogue.asked(name, person_file)?;
    let (protocol, mut endpoint) = catalogue.endpoint(&asked, &|name| std::env::var(name).ok())?;
    let Some(protocol) = Protocols::default().get(&protocol) else {
        let known: Vec<String> = Protocols::default().names().map(str::to_owned).collect();
        bail!("`{}` speaks `{protocol}`, which is not known; there are {}", asked.provider, known.join(", "));
    };
    endpoint.api_key = key(&catalogue, &asked.provider)?;
    Ok(Arc::new(RemoteModel::new(protocol, endpoint)))
}

/// The name of the model that a session was answered by last, with its level of thinking. None where that was the planner, which is
/// what there is without a model.
pub fn had(session: &LoadedSession) -> Option<String> {
    let (provider, id) = session.last_settings().0?;
    match provider.as_str() {
        "pilcrow" => None,
        "script" => Some(format!("script:{id}")),
        _ => {
            let answer = session.last_answer().filter(|answer| answer.model == id);
            let level = answer.and_then(|answer| answer.thinking_level);
            let level = level.map(|level| format!(":{}", level.name())).unwrap_or_default();
            Some(format!("{provider}/{id}{level}"))
        }
    }
}

/// The catalogue with the person's `models.toml`, beside `person_file`, and the providers of the settings laid over it.
///
/// # Errors
/// When the file cannot be read or used.
pub fn catalogue(config: &Config, person_file: &str) -> anyhow::Result<Catalogue> {
    let file = Path::new(person_file).with_file_name("models.toml");
    let person = match std::fs::read_to_string(&file) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("{} cannot be read", file.display())),
    };
    let mut catalogue = Catalogue::read(person.as_deref(), &file.display().to_string())?;
    for (name, settings) in config.providers() {
        catalogue.set(&name, settings.base_url, settings.api_key_env);
    }
    Ok(catalogue)
}

/// The key of a provider: of the first of its variables that is set. A provider that names none needs none.
fn key(catalogue: &Catalogue, provider: &str) -> anyhow::Result<Option<ApiKey>> {
    let variables = catalogue.providers.get(provider).map_or(&[][..], |it| it.api_key_env.as_slice());
    let found = variables.iter().find_map(|name| ApiKey::new(&std::env::var(name).ok()?));
    match (found, variables) {
        (Some(key), _) => Ok(Some(key)),
        (None, []) => Ok(None),
        (None, [name]) => bail!("{name} is not set, which holds the key of {provider}"),
        (None, names) => {
            bail!("none of {} is set, one of which holds the key of {provider}", names.join(", "))
        }
    }
}
