//! Selection of the model and of its fallbacks.
//!
//! The request's model comes first, then that of the role for its files, the configured one, one that is
//! found, and the planner.

mod catalogue;
mod key_rotation;
pub mod keyring;
pub mod keys;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::ReplayModel;
use agent::store::LoadedSession;
use anyhow::{Context, bail};
use globset::Glob;
use llm::protocol::{Protocols, bedrock_converse_stream, pilcrow_proxy};
use llm::{Endpoint, Model, RemoteModel, RetryPolicy, ScriptModel, ThinkingLevel, Timeouts};
use paths::AbsPath;
use tools::planner::Planner;

use crate::config::Config;
use crate::project::Project;

pub use catalogue::{Catalogue, Entry, ModelName, Provider};

/// Time limit for responses of servers on this machine.
const LOCAL_DEADLINE: Duration = Duration::from_millis(500);
/// Providers whose keys are preferred if no model is set.
const PREFERRED: [&str; 3] = ["anthropic", "openai", "google"];
/// Names of the built-in roles.
pub(crate) const ROLES: [&str; 5] = ["default", "smol", "slow", "plan", "commit"];

/// Chooses models by the settings and the files of a request.
#[derive(Clone, Copy)]
pub struct ModelSelector<'a> {
    /// The project with the keys, sessions and policy.
    pub project: &'a Project,
    /// The settings in force.
    pub config: &'a Config,
    /// Directory of scripts.
    pub directory: &'a Path,
    /// Result of [`find_local`].
    pub found: Option<&'a str>,
    /// The files that the request is about, below the project's root, with `/`.
    pub files: &'a [String],
}

/// The models that a run uses.
pub struct Chosen {
    pub model: Arc<dyn Model>,
    /// Models that take over from it, in order.
    pub fallbacks: Vec<Arc<dyn Model>>,
    /// Model that writes summaries, if it is another.
    pub summarizer: Option<Arc<dyn Model>>,
    /// Notes about the choice, for the user.
    pub notes: Vec<String>,
}

impl ModelSelector<'_> {
    /// Chooses the models for `name`, or for the settings.
    ///
    /// # Errors
    /// When the name is none of `planner`, `script:FILE`, `replay:SESSION`, `PROVIDER/MODEL` or a role, or its
    /// provider is not configured.
    pub fn choose(&self, name: Option<&str>) -> anyhow::Result<Chosen> {
        let rule = if name.is_none() { self.matching_rule() } else { None };
        let role = name.or(rule.map(|(_, role)| role));
        let name = role.map_or_else(|| self.default_name(), |name| self.resolve_role(name));
        let model = self.model(&name);
        let model = match rule {
            Some((glob, role)) => {
                model.with_context(|| format!("[[roles.paths]] names the role `{role}` for `{glob}`"))?
            }
            None => model?,
        };
        let mut notes: Vec<String> = self.unsupported_level(&name).into_iter().collect();
        let mut fallbacks: Vec<Arc<dyn Model>> = Vec::new();
        let mut names = vec![model.info().name()];
        for fallback in self.fallbacks(split_level(role.unwrap_or("default")).0, &model) {
            match self.model(&self.resolve_role(&fallback)) {
                Ok(other) if names.contains(&other.info().name()) => {}
                Ok(other) => {
                    names.push(other.info().name());
                    fallbacks.push(other);
                }
                Err(error) => notes.push(format!("{fallback} cannot take over: {error:#}")),
            }
        }
        let smol =
            self.config.values.roles.named.get("smol").and_then(|role| Some(role.model.as_ref()?.0.clone()));
        let summarizer = match smol.filter(|_| model.can_summarize()).map(|name| (self.model(&name), name)) {
            Some((Ok(smol), _)) => Some(smol).filter(|smol| smol.info() != model.info()),
            Some((Err(error), name)) => {
                notes.push(format!("{name} cannot write summaries: {error:#}"));
                None
            }
            None => None,
        };
        Ok(Chosen { model, fallbacks, summarizer, notes })
    }

    /// Chooses the models for a resumed session.
    ///
    /// Takes its `last` model if that is still available, else the configured ones, with a note about the reason.
    ///
    /// # Errors
    /// When the configured models are not available either.
    pub fn resume(&self, last: Option<&str>) -> anyhow::Result<Chosen> {
        let Some(last) = last else { return self.choose(None) };
        self.choose(Some(last)).or_else(|error| {
            let mut chosen = self.choose(None)?;
            let name = chosen.model.info().name();
            chosen.notes.push(format!("cannot use {last}: {error:#}\nthe session continues with {name}"));
            Ok(chosen)
        })
    }

    /// Renders a note if the model lacks the requested level of thinking.
    ///
    /// A model with unknown levels gets a note too.
    fn unsupported_level(&self, name: &str) -> Option<String> {
        let level = split_level(name).1?;
        // Scripts and replays have no levels, and a proxy has a catalogue of its own.
        if name.starts_with("script:")
            || name.starts_with("replay:")
            || self.config.values.proxy.url.is_some()
        {
            return None;
        }
        let catalogue = self.catalogue().ok()?;
        let parsed =
            catalogue.parse_name(name, &self.config_file()).ok().filter(|parsed| parsed.level.is_some())?;
        let ModelName { provider, model, .. } = &parsed;
        let thinking = catalogue.known(&parsed).thinking;
        if let Some((used, _)) = thinking.at(level) {
            let note = || {
                let (level, used) = (level.name(), used.name());
                format!("{provider}/{model} has no thinking level `{level}`; using `{used}`")
            };
            return (used != level).then(note);
        }
        (level != ThinkingLevel::Off).then(|| {
            format!(
                "the thinking levels of {provider}/{model} are unknown, so `{}` is not used;\nadd `thinking` to \
                 [providers.{provider}.models.{model:?}] in models.toml",
                level.name()
            )
        })
    }

    /// Finds glob and role of the first rule that matches a file of the request.
    fn matching_rule(&self) -> Option<(&str, &str)> {
        let rules = self.config.values.roles.paths.iter().map(|rule| (&rule.glob.0, &rule.role));
        let matches = |glob: &str| {
            let glob = Glob::new(glob).ok().map(|glob| glob.compile_matcher());
            glob.is_some_and(|glob| self.files.iter().any(|file| glob.is_match(file)))
        };
        rules.filter(|(glob, _)| matches(glob)).map(|(glob, role)| (glob.as_str(), role.as_str())).next()
    }

    /// Returns the model for requests that name none.
    fn default_name(&self) -> String {
        let named = self.config.default_model().map(str::to_owned);
        named
            .or_else(|| with_key(self.config, &self.config_file()))
            .or_else(|| self.found.map(str::to_owned))
            .unwrap_or_else(|| "planner".to_owned())
    }

    /// Returns the model of a role, with the level after its name.
    ///
    /// Returns any other name unchanged.
    fn resolve_role(&self, name: &str) -> String {
        let (base, level) = split_level(name);
        let model = match self.config.values.roles.named.get(base) {
            // `model.default` overrides the role.
            Some(_) if base == "default" => None,
            Some(role) => role.model.as_ref().map(|model| model.0.clone()),
            None if ROLES.contains(&base) => None,
            None => return name.to_owned(),
        };
        let model = model.unwrap_or_else(|| self.default_name());
        match level {
            Some(level) => format!("{}:{}", split_level(&model).0, level.name()),
            None => model,
        }
    }

    /// Lists the fallbacks: those of the role, then those of the chains.
    fn fallbacks(&self, role: &str, model: &Arc<dyn Model>) -> Vec<String> {
        let info = model.info();
        if matches!(info.provider.as_str(), "pilcrow" | "script" | "replay") {
            return Vec::new();
        }
        let settings = &self.config.values;
        let own = settings.roles.named.get(role).into_iter().flat_map(|role| &role.fallbacks);
        let (name, chains) = (info.name(), &settings.retry.fallback_chains);
        let chained = [role, &name, &info.provider].into_iter().filter_map(|name| chains.get(name));
        own.chain(chained.flat_map(|chain| &chain.0)).map(|model| model.0.clone()).collect()
    }

    fn catalogue(&self) -> anyhow::Result<Catalogue> {
        catalogue(self.config, &self.config_file())
    }

    fn config_file(&self) -> String {
        self.project.homes.config.join("config.toml").to_string()
    }

    /// Creates the model of this name, which is not a role.
    fn model(&self, name: &str) -> anyhow::Result<Arc<dyn Model>> {
        if name == "planner" {
            return Ok(Arc::new(Planner::new()));
        }
        if let Some(file) = name.strip_prefix("script:") {
            let script = std::fs::read_to_string(self.directory.join(file))
                .with_context(|| format!("cannot read the script {file}"))?;
            return Ok(Arc::new(ScriptModel::parse(file, &script)?.forgetful()));
        }
        if let Some(id) = name.strip_prefix("replay:") {
            let session = self.project.sessions()?.load(id)?;
            return Ok(Arc::new(ReplayModel::new(&session)));
        }
        let config_file = self.config_file();
        let catalogue = self.catalogue()?;
        let parsed = catalogue.parse_name(name, &config_file)?;
        let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let settings = &self.config.values;
        if let Some(url) = &settings.proxy.url {
            let mut endpoint = self.with_retries(catalogue.known(&parsed));
            (endpoint.base_url, endpoint.keys) = (url.0.clone(), None);
            let token = settings.proxy.token.as_slice();
            if let Some(turn) = keys::find("proxy", token, &[], self.runner()).map_err(anyhow::Error::msg)? {
                endpoint.keys = Some(Arc::new(turn));
            }
            return Ok(Arc::new(RemoteModel::new(Arc::new(pilcrow_proxy::PROTOCOL), endpoint)));
        }
        let (protocol, endpoint) = catalogue.endpoint(&parsed, &env)?;
        let mut endpoint = self.with_retries(endpoint);
        let Some(protocol) = Protocols::default().get(&protocol) else {
            let known: Vec<String> = Protocols::default().names().map(str::to_owned).collect();
            bail!(
                "`{}` has the unknown protocol `{protocol}`; use one of {}",
                parsed.provider,
                known.join(", ")
            );
        };
        let key_settings =
            settings.providers.get(&parsed.provider).map(|provider| provider.keys()).unwrap_or_default();
        let variables = catalogue
            .providers
            .get(&parsed.provider)
            .map_or(&[][..], |provider| provider.api_key_env.as_slice());
        match keys::find(&parsed.provider, &key_settings, variables, self.runner()) {
            Ok(turn) => endpoint.keys = turn.map(|turn| Arc::new(turn) as Arc<dyn llm::KeySource>),
            Err(error) => {
                let signed = protocol.name() == bedrock_converse_stream::API;
                let aws = signed.then(|| keys::aws(&env)).flatten();
                if aws.is_none() {
                    let hint = if signed { ", or set AWS keys (AWS_ACCESS_KEY_ID or a profile)" } else { "" };
                    bail!("{error}{hint}");
                }
                endpoint.aws = aws;
            }
        }
        Ok(Arc::new(RemoteModel::new(protocol, endpoint)))
    }

    fn with_retries(&self, mut endpoint: Endpoint) -> Endpoint {
        let settings = &self.config.values.retry;
        endpoint.retry = RetryPolicy {
            max_retries: u32::try_from(settings.count.0).unwrap_or(u32::MAX),
            delay: settings.delay.0,
            max_delay: settings.max_delay.0,
        };
        if let Some(idle) = &settings.idle {
            endpoint.timeouts = Some(Timeouts { idle: idle.0, ..endpoint.timeouts() });
        }
        endpoint
    }

    fn runner(&self) -> keys::Runner {
        keys::Runner {
            processes: Arc::clone(&self.project.processes),
            policy: Arc::clone(&self.project.policy),
            cwd: self.project.homes.config.clone(),
            state: self.project.homes.state.clone(),
        }
    }
}

/// Splits a name and its level of thinking.
fn split_level(name: &str) -> (&str, Option<ThinkingLevel>) {
    let split = name.rsplit_once(':').and_then(|(base, level)| Some((base, ThinkingLevel::named(level)?)));
    split.map_or((name, None), |(base, level)| (base, Some(level)))
}

/// Whether requests that name no model use a model other than the planner.
///
/// Does not query local servers.
pub fn is_set(config: &Config, config_file: &str) -> bool {
    match config.default_model() {
        Some(model) => model != "planner",
        None => with_key(config, config_file).is_some(),
    }
}

/// Finds the first provider with a default model whose key is in the environment.
fn with_key(config: &Config, config_file: &str) -> Option<String> {
    if !config.values.model.discovery.0 {
        return None;
    }
    let catalogue = catalogue(config, config_file).ok()?;
    let others = catalogue.providers.keys().map(String::as_str).filter(|name| !PREFERRED.contains(name));
    let has = |name: &&str| {
        let provider = catalogue.providers.get(*name);
        provider.is_some_and(|provider| {
            provider.default.is_some() && keys::from_environment(&provider.api_key_env).is_some()
        })
    };
    PREFERRED.into_iter().chain(others).find(has).map(str::to_owned)
}

/// Finds the first model of a server on this machine, if the settings name none.
///
/// Queries the `local` providers of the catalogue in parallel. Cancel-safe.
pub(crate) async fn find_local(config: &Config, config_file: &str) -> Option<String> {
    // A proxy chooses its own models.
    if config.default_model().is_some()
        || !config.values.model.discovery.0
        || config.values.proxy.url.is_some()
    {
        return None;
    }
    let catalogue = catalogue(config, config_file).ok()?;
    let servers = local_servers(&catalogue).await;
    servers.into_iter().find_map(|(name, models)| {
        let model = models?.into_iter().find(|id| is_chat_model(id))?;
        Some(format!("{name}/{model}"))
    })
}

/// Whether the name is that of a chat model.
///
/// Servers also list models that embed, rank or transcribe, without saying which they are.
fn is_chat_model(id: &str) -> bool {
    const OTHERS: [&str; 8] = ["embed", "rerank", "bge-", "minilm", "whisper", "e5-", "tts", "clip-"];
    let id = id.to_ascii_lowercase();
    !OTHERS.iter().any(|word| id.contains(word))
}

/// Lists the `local` providers of the catalogue with their models.
///
/// `None` if the server does not answer.
pub async fn local_servers(catalogue: &Catalogue) -> Vec<(String, Option<Vec<String>>)> {
    let local = catalogue.providers.iter().filter(|(_, provider)| provider.local);
    let queries = local.map(async |(name, provider)| {
        (name.clone(), llm::local_models(&provider.base_url, LOCAL_DEADLINE).await)
    });
    futures_util::future::join_all(queries).await
}

/// Lists the files that a text names as words.
///
/// Names are relative to the directory `below` the root or to the root. Returns paths below the root, with
/// `/`.
pub(crate) fn files_named(text: &str, root: &Path, below: &Path) -> Vec<String> {
    let find = |word: &str| {
        let relative = below.join(word.strip_prefix("./").unwrap_or(word));
        let found = [relative, word.strip_prefix("./").unwrap_or(word).into()];
        found.into_iter().find(|file| root.join(file).is_file())
    };
    let marks = |c: char| "`\"'()[]{}<>,;:!?".contains(c);
    let words =
        text.split(|c: char| c.is_whitespace() || "`\"'".contains(c)).map(|word| word.trim_matches(marks));
    let plain = words.map(|word| word.strip_prefix('@').unwrap_or(word)).map(|word| {
        let numbered = word.trim_end_matches(|c: char| c.is_ascii_digit() || c == ':');
        if find(word).is_some() { word } else { numbered.trim_end_matches('.') }
    });
    let mut files: Vec<String> = plain
        .filter(|word| {
            !word.is_empty() && !word.starts_with('/') && !word.split('/').any(|part| part == "..")
        })
        .filter_map(|word| Some(find(word)?.to_str()?.to_owned()))
        .collect();
    files.dedup();
    files
}

/// Lists the files that a request is about.
///
/// They are those that it names, else the file it was made in, else those of the newest change.
pub(crate) fn files_about(
    text: &str,
    project: &Project,
    directory: &Path,
    file: Option<&AbsPath>,
) -> Vec<String> {
    let root = project.workspace.root().as_path();
    let below = directory.strip_prefix(root).unwrap_or(Path::new(""));
    let named = files_named(text, root, below);
    if !named.is_empty() {
        return named;
    }
    if let Some(file) = file {
        return vec![project.workspace.relative(file)];
    }
    let history = project.workspace.history().unwrap_or_default();
    let newest =
        history.first().map(|record| record.files.iter().map(|file| project.workspace.relative(file)));
    newest.map(Iterator::collect).unwrap_or_default()
}

/// Returns the last model of a session, with its level of thinking.
///
/// `None` for the planner, which stands in for a missing model, and for replays.
pub(crate) fn last_model(session: &LoadedSession) -> Option<String> {
    let (provider, id) = session.last_settings().0?;
    match provider.as_str() {
        "pilcrow" | "replay" => None,
        "script" => Some(format!("script:{id}")),
        _ => {
            let answer = session.last_answer().filter(|answer| answer.model == id);
            let level = answer.and_then(|answer| answer.thinking_level);
            let level = level.map(|level| format!(":{}", level.name())).unwrap_or_default();
            Some(format!("{provider}/{id}{level}"))
        }
    }
}

/// Returns the name by which a model can be chosen.
pub(crate) fn name_of(info: &llm::ModelInfo) -> String {
    match info.provider.as_str() {
        "pilcrow" => info.id.clone(),
        "script" | "replay" => format!("{}:{}", info.provider, info.id),
        _ => info.name(),
    }
}

/// Loads the catalogue, merged with the user's `models.toml` and settings.
///
/// The file is next to `config_file`; the settings define providers.
///
/// # Errors
/// When the file is not readable or invalid.
pub fn catalogue(config: &Config, config_file: &str) -> anyhow::Result<Catalogue> {
    let file = Path::new(config_file).with_file_name("models.toml");
    let user_models = match std::fs::read_to_string(&file) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    let mut catalogue = Catalogue::read(user_models.as_deref(), &file.display().to_string())?;
    for (name, settings) in &config.values.providers {
        let base_url = settings.base_url.as_ref().map(|url| url.0.clone());
        catalogue.set(name, base_url, settings.api_key_env.as_ref().map(|name| name.0.clone()));
        if let Some(provider) = catalogue.providers.get_mut(name) {
            let keys = settings.keys();
            provider.has_key_setting = !keys.is_empty();
            provider.unset = keys::unset(&keys);
        }
    }
    catalogue.set_budgets(&config.values.thinking.budgets.by_level());
    catalogue.learn_secrets();
    Ok(catalogue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedding_models_are_not_chat_models() {
        for id in
            ["nomic-embed-text:latest", "text-embedding-3-small", "bge-m3", "all-minilm:22m", "whisper-1"]
        {
            assert!(!is_chat_model(id), "{id}");
        }
        assert!(["qwen3:8b", "llama3.2:1b", "gpt-oss-20b", "gemma-3-4b"].into_iter().all(is_chat_model));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test makes the files it needs")]
    fn a_text_names_existing_files() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("docs")).unwrap();
        for file in ["docs/a.md", "docs/b.rs", "b.rs"] {
            std::fs::write(root.path().join(file), "").unwrap();
        }
        for (text, files) in [
            ("fix the words of docs/a.md.", vec!["docs/a.md"]),
            ("see `b.rs:12` and \"./docs/a.md\" (b.rs)", vec!["b.rs", "docs/a.md", "b.rs"]),
            ("@b.rs: explain", vec!["b.rs"]),
            ("docs, /etc/passwd and ../b.rs and c.rs", vec![]),
        ] {
            assert_eq!(files_named(text, root.path(), Path::new("")), files, "{text}");
        }
        let below = |text| files_named(text, root.path(), Path::new("docs"));
        assert_eq!(below("a.md, ./b.rs and docs/a.md"), ["docs/a.md", "docs/b.rs", "docs/a.md"]);
    }
}
