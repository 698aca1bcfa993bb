//! Which model answers: the request's, else the settings', else the planner.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use llm::protocol::openai_completions::OpenAiCompletions;
use llm::{ApiKey, Endpoint, Model, RemoteModel, ScriptModel};
use tools::planner::Planner;

use crate::config::Config;

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
        return Ok(Arc::new(ScriptModel::parse(file, &script)?));
    }
    let Some((provider, model)) =
        name.split_once('/').filter(|(provider, model)| !provider.is_empty() && !model.is_empty())
    else {
        bail!("`{name}` is no model; name one as `planner`, `script:FILE` or `PROVIDER/MODEL`");
    };
    let providers = config.providers();
    let Some(base_url) = providers.get(provider).and_then(|settings| settings.base_url.as_deref()) else {
        bail!(
            "no provider `{provider}` is set up; write [providers.{provider}] with base_url into {person_file}"
        );
    };
    let mut endpoint = Endpoint::new(provider, base_url, model);
    if let Some(variable) = providers.get(provider).and_then(|settings| settings.api_key_env.as_ref()) {
        let key = std::env::var(variable)
            .with_context(|| format!("{variable} is not set, which holds the key of {provider}"))?;
        endpoint.api_key = ApiKey::new(&key);
    }
    Ok(Arc::new(RemoteModel::new(Arc::new(OpenAiCompletions), endpoint)))
}
