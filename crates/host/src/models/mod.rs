//! Which model answers: the request's, else that of the role that its files have, else the settings', else what is
//! found, else the planner; and which take over from it.

mod catalogue;
pub mod keyring;
pub mod keys;
mod turns;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::ReplayModel;
use agent::store::LoadedSession;
use anyhow::{Context, bail};
use globset::Glob;
use llm::protocol::{Protocols, bedrock_converse_stream, pilcrow_proxy};
use llm::{Model, RemoteModel, ScriptModel, ThinkingLevel};
use paths::AbsPath;
use tools::planner::Planner;

use crate::config::Config;
use crate::project::Project;

pub use catalogue::{Asked, Catalogue, Entry, Provider};

/// How long servers on this machine are waited for when they are looked for.
const LOCAL_DEADLINE: Duration = Duration::from_millis(500);
/// Whose keys are looked for first where no model is set.
const FIRST: [&str; 3] = ["anthropic", "openai", "google"];
/// The roles that there are without being set.
pub const ROLES: [&str; 5] = ["default", "smol", "slow", "plan", "commit"];

/// What a model is chosen by.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    /// Whose keys, sessions and policy count.
    pub project: &'a Project,
    /// The settings in force.
    pub config: &'a Config,
    /// Where the files of scripts are looked for.
    pub folder: &'a Path,
    /// What [`find_local`] found.
    pub found: Option<&'a str>,
    /// The files that the request is about, below the project's root, with `/`.
    pub files: &'a [String],
}

/// The models of a run.
pub struct Chosen {
    pub model: Arc<dyn Model>,
    /// Those that take over from it, in order.
    pub fallbacks: Vec<Arc<dyn Model>>,
    /// The one that puts conversations into fewer words, if it is another.
    pub summarizer: Option<Arc<dyn Model>>,
    /// What the person should know of the choice.
    pub notes: Vec<String>,
}

impl Asking<'_> {
    /// The models for the one that is named, or for the settings.
    ///
    /// # Errors
    /// When the name is none of `planner`, `script:FILE`, `replay:SESSION`, `PROVIDER/MODEL` or a role, or its provider is not
    /// set up.
    pub fn choose(&self, name: Option<&str>) -> anyhow::Result<Chosen> {
        let rule = if name.is_none() { self.rule_of_files() } else { None };
        let role = name.or(rule.map(|(_, role)| role));
        let asked = role.map_or_else(|| self.usual(), |name| self.of_role(name));
        let model = self.model(&asked);
        let model = match rule {
            Some((glob, role)) => {
                model.with_context(|| format!("[[roles.paths]] names the role `{role}` for `{glob}`"))?
            }
            None => model?,
        };
        let mut notes: Vec<String> = self.level_that_is_lost(&asked).into_iter().collect();
        let mut fallbacks: Vec<Arc<dyn Model>> = Vec::new();
        let mut names = vec![model.info().name()];
        for fallback in self.fallbacks(split_level(role.unwrap_or("default")).0, &model) {
            match self.model(&self.of_role(&fallback)) {
                Ok(other) if names.contains(&other.info().name()) => {}
                Ok(other) => {
                    names.push(other.info().name());
                    fallbacks.push(other);
                }
                Err(error) => notes.push(format!("{fallback} cannot take over: {error:#}")),
            }
        }
        let smol = self.config.roles().get("smol").and_then(|role| role.model.clone());
        let summarizer = match smol.filter(|_| model.can_summarize()).map(|name| (self.model(&name), name)) {
            Some((Ok(smol), _)) => Some(smol).filter(|smol| smol.info() != model.info()),
            Some((Err(error), name)) => {
                notes.push(format!("{name} cannot put conversations into fewer words: {error:#}"));
                None
            }
            None => None,
        };
        Ok(Chosen { model, fallbacks, summarizer, notes })
    }

    /// The models for a session that is gone on with: the one that it `had`, where it can still be asked; else those of the settings,
    /// with a note that says so and why.
    ///
    /// # Errors
    /// When those of the settings cannot be asked either.
    pub fn go_on(&self, had: Option<&str>) -> anyhow::Result<Chosen> {
        let Some(had) = had else { return self.choose(None) };
        self.choose(Some(had)).or_else(|error| {
            let mut chosen = self.choose(None)?;
            let name = chosen.model.info().name();
            chosen.notes.push(format!("{had} answered last: {error:#}\nthe session goes on with {name}"));
            Ok(chosen)
        })
    }

    /// What is said of a level of thinking that is asked of a model that lacks it, or of which no levels are known.
    fn level_that_is_lost(&self, name: &str) -> Option<String> {
        let level = split_level(name).1?;
        // What is played has none, and a proxy knows more than we do.
        if name.starts_with("script:") || name.starts_with("replay:") || self.config.proxy().is_some() {
            return None;
        }
        let catalogue = self.catalogue().ok()?;
        let asked = catalogue.asked(name, &self.person_file()).ok().filter(|asked| asked.level.is_some())?;
        let Asked { provider, model, .. } = &asked;
        let thinking = catalogue.known(&asked).thinking;
        if let Some((had, _)) = thinking.at(level) {
            let words = || {
                let (level, had) = (level.name(), had.name());
                format!("{provider}/{model} has no level `{level}` of thinking; `{had}` is asked for")
            };
            return (had != level).then(words);
        }
        (level != ThinkingLevel::Off).then(|| {
            format!(
                "no levels of thinking of {provider}/{model} are known, so `{}` is not asked for; write \
                 [providers.{provider}.models.{model:?}] with `thinking` into models.toml",
                level.name()
            )
        })
    }

    /// The first rule that one of the files of the request fits, as its glob and role.
    fn rule_of_files(&self) -> Option<(&str, &str)> {
        let rules = self.config.role_paths().iter();
        let fits = |glob: &str| {
            let glob = Glob::new(glob).ok().map(|glob| glob.compile_matcher());
            glob.is_some_and(|glob| self.files.iter().any(|file| glob.is_match(file)))
        };
        rules.filter(|(glob, _)| fits(glob)).map(|(glob, role)| (glob.as_str(), role.as_str())).next()
    }

    /// The model where nothing names one.
    fn usual(&self) -> String {
        let of_role = || self.config.roles().get("default").and_then(|role| role.model.clone());
        let name = self.config.model().map(str::to_owned).or_else(of_role);
        name.or_else(|| with_key(self.config, &self.person_file()))
            .or_else(|| self.found.map(str::to_owned))
            .unwrap_or_else(|| "planner".to_owned())
    }

    /// The model that a role stands for, with the level that stands behind its name; any other name is itself.
    fn of_role(&self, name: &str) -> String {
        let (base, level) = split_level(name);
        let roles = self.config.roles();
        let model = match roles.get(base) {
            Some(role) => role.model.clone().filter(|_| base != "default" || self.config.model().is_none()),
            None if ROLES.contains(&base) => None,
            None => return name.to_owned(),
        };
        let model = model.unwrap_or_else(|| self.usual());
        match level {
            Some(level) => format!("{}:{}", split_level(&model).0, level.name()),
            None => model,
        }
    }

    /// The names of those that take over, of the role's and then of the chains.
    fn fallbacks(&self, role: &str, model: &Arc<dyn Model>) -> Vec<String> {
        let info = model.info();
        if matches!(info.provider.as_str(), "pilcrow" | "script" | "replay") {
            return Vec::new();
        }
        let mut names = self.config.roles().get(role).map(|role| role.fallbacks.clone()).unwrap_or_default();
        for chain in [role, &info.name(), &info.provider] {
            names.extend(self.config.fallback_chain(chain).iter().cloned());
        }
        names
    }

    fn catalogue(&self) -> anyhow::Result<Catalogue> {
        catalogue(self.config, &self.person_file())
    }

    fn person_file(&self) -> String {
        self.project.homes.config.join("config.toml").to_string()
    }

    /// The model of this name, which is no role.
    fn model(&self, name: &str) -> anyhow::Result<Arc<dyn Model>> {
        if name == "planner" {
            return Ok(Arc::new(Planner::new()));
        }
        if let Some(file) = name.strip_prefix("script:") {
            let script = std::fs::read_to_string(self.folder.join(file))
                .with_context(|| format!("the script {file} cannot be read"))?;
            return Ok(Arc::new(ScriptModel::parse(file, &script)?.forgetful()));
        }
        if let Some(id) = name.strip_prefix("replay:") {
            let session = self.project.sessions()?.load(id)?;
            return Ok(Arc::new(ReplayModel::new(&session)));
        }
        let person_file = self.person_file();
        let catalogue = self.catalogue()?;
        let asked = catalogue.asked(name, &person_file)?;
        let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        if let Some((url, token)) = self.config.proxy() {
            let mut endpoint = catalogue.known(&asked);
            (endpoint.base_url, endpoint.keys) = (url, None);
            if let Some(turn) = keys::find("proxy", &token, &[], self.runner()).map_err(anyhow::Error::msg)? {
                endpoint.keys = Some(Arc::new(turn));
            }
            return Ok(Arc::new(RemoteModel::new(Arc::new(pilcrow_proxy::PilcrowProxy), endpoint)));
        }
        let (protocol, mut endpoint) = catalogue.endpoint(&asked, &env)?;
        let Some(protocol) = Protocols::default().get(&protocol) else {
            let known: Vec<String> = Protocols::default().names().map(str::to_owned).collect();
            bail!(
                "`{}` speaks `{protocol}`, which is not known; there are {}",
                asked.provider,
                known.join(", ")
            );
        };
        let written = self.config.providers().remove(&asked.provider).unwrap_or_default().keys;
        let variables =
            catalogue.providers.get(&asked.provider).map_or(&[][..], |it| it.api_key_env.as_slice());
        match keys::find(&asked.provider, &written, variables, self.runner()) {
            Ok(turn) => endpoint.keys = turn.map(|turn| Arc::new(turn) as Arc<dyn llm::KeySource>),
            Err(error) => {
                let signed = protocol.name() == bedrock_converse_stream::API;
                let aws = signed.then(|| keys::aws(&env)).flatten();
                if aws.is_none() {
                    let more =
                        if signed { ", or give AWS keys (AWS_ACCESS_KEY_ID or a profile)" } else { "" };
                    bail!("{error}{more}");
                }
                endpoint.aws = aws;
            }
        }
        Ok(Arc::new(RemoteModel::new(protocol, endpoint)))
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

/// A name and the level of thinking behind it.
fn split_level(name: &str) -> (&str, Option<ThinkingLevel>) {
    let split = name.rsplit_once(':').and_then(|(base, level)| Some((base, ThinkingLevel::named(level)?)));
    split.map_or((name, None), |(base, level)| (base, Some(level)))
}

/// Whether another model than the planner answers what names none, as far as that can be told without asking servers.
pub fn is_set(config: &Config, person_file: &str) -> bool {
    let of_role = || config.roles().get("default").and_then(|role| role.model.clone());
    match config.model().map(str::to_owned).or_else(of_role) {
        Some(model) => model != "planner",
        None => with_key(config, person_file).is_some(),
    }
}

/// The first provider with a usual model whose key is in the environment.
fn with_key(config: &Config, person_file: &str) -> Option<String> {
    if !config.discovers_models() {
        return None;
    }
    let catalogue = catalogue(config, person_file).ok()?;
    let others = catalogue.providers.keys().map(String::as_str).filter(|name| !FIRST.contains(name));
    let has = |name: &&str| {
        let provider = catalogue.providers.get(*name);
        provider.is_some_and(|it| it.default.is_some() && keys::from_environment(&it.api_key_env).is_some())
    };
    FIRST.into_iter().chain(others).find(has).map(str::to_owned)
}

/// The first model of a server on this machine, where nothing else names one: those of the catalogue that are `local` are asked, all at
/// once. Cancel-safe.
pub async fn find_local(config: &Config, person_file: &str) -> Option<String> {
    let is_named =
        config.model().is_some() || config.roles().get("default").is_some_and(|it| it.model.is_some());
    // What a proxy is asked for runs on its own machine.
    if is_named || !config.discovers_models() || config.proxy().is_some() {
        return None;
    }
    let catalogue = catalogue(config, person_file).ok()?;
    let asked = local_servers(&catalogue).await;
    asked.into_iter().find_map(|(name, models)| {
        let model = models?.into_iter().find(|id| converses(id))?;
        Some(format!("{name}/{model}"))
    })
}

/// Whether a model of this name is one to speak with: servers list those that embed, rank or transcribe beside them, and do not say
/// which they are.
fn converses(id: &str) -> bool {
    const OTHERS: [&str; 8] = ["embed", "rerank", "bge-", "minilm", "whisper", "e5-", "tts", "clip-"];
    let id = id.to_ascii_lowercase();
    !OTHERS.iter().any(|word| id.contains(word))
}

/// The `local` servers of the catalogue with the models that each has; `None` where nobody answers.
pub async fn local_servers(catalogue: &Catalogue) -> Vec<(String, Option<Vec<String>>)> {
    let local = catalogue.providers.iter().filter(|(_, provider)| provider.local);
    let asked = local.map(async |(name, provider)| {
        (name.clone(), llm::local_models(&provider.base_url, LOCAL_DEADLINE).await)
    });
    futures_util::future::join_all(asked).await
}

/// The files of a project that a text names, as words of it, from the folder `below` the root or from the root; below the root, with `/`.
pub fn files_named(text: &str, root: &Path, below: &Path) -> Vec<String> {
    let place = |word: &str| {
        let from_folder = below.join(word.strip_prefix("./").unwrap_or(word));
        let found = [from_folder, word.strip_prefix("./").unwrap_or(word).into()];
        found.into_iter().find(|file| root.join(file).is_file())
    };
    let marks = |c: char| "`\"'()[]{}<>,;:!?".contains(c);
    let words =
        text.split(|c: char| c.is_whitespace() || "`\"'".contains(c)).map(|word| word.trim_matches(marks));
    let plain = words.map(|word| word.strip_prefix('@').unwrap_or(word)).map(|word| {
        let numbered = word.trim_end_matches(|c: char| c.is_ascii_digit() || c == ':');
        if place(word).is_some() { word } else { numbered.trim_end_matches('.') }
    });
    let mut files: Vec<String> = plain
        .filter(|word| {
            !word.is_empty() && !word.starts_with('/') && !word.split('/').any(|part| part == "..")
        })
        .filter_map(|word| Some(place(word)?.to_str()?.to_owned()))
        .collect();
    files.dedup();
    files
}

/// The files that a request from this folder is about: those that it names, else the one that it was made in, else those that the
/// newest change changed.
pub fn files_about(text: &str, project: &Project, folder: &Path, place: Option<&AbsPath>) -> Vec<String> {
    let root = project.workspace.root().as_path();
    let below = folder.strip_prefix(root).unwrap_or(Path::new(""));
    let named = files_named(text, root, below);
    if !named.is_empty() {
        return named;
    }
    if let Some(place) = place {
        return vec![project.workspace.relative(place)];
    }
    let history = project.workspace.history().unwrap_or_default();
    let newest =
        history.first().map(|record| record.files.iter().map(|file| project.workspace.relative(file)));
    newest.map(Iterator::collect).unwrap_or_default()
}

/// The name of the model that a session was answered by last, with its level of thinking. None where that was the planner, which is
/// what there is without a model, or a session that was played again.
pub fn had(session: &LoadedSession) -> Option<String> {
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
        if let Some(provider) = catalogue.providers.get_mut(&name) {
            provider.written = !settings.keys.is_empty();
            provider.unset = keys::unset(&settings.keys);
        }
    }
    catalogue.set_budgets(&config.thinking_budgets());
    catalogue.learn_secrets();
    Ok(catalogue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_embeds_is_not_spoken_with() {
        for id in
            ["nomic-embed-text:latest", "text-embedding-3-small", "bge-m3", "all-minilm:22m", "whisper-1"]
        {
            assert!(!converses(id), "{id}");
        }
        assert!(["qwen3:8b", "llama3.2:1b", "gpt-oss-20b", "gemma-3-4b"].into_iter().all(converses));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test makes the files it needs")]
    fn a_text_names_the_files_that_are_there() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("docs")).unwrap();
        for file in ["docs/a.md", "docs/b.rs", "b.rs"] {
            std::fs::write(root.path().join(file), "").unwrap();
        }
        for (text, files) in [
            ("mend the words of docs/a.md.", vec!["docs/a.md"]),
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
