//! The options of a live session: model, thinking level, mode, edits and agent profile.

use agent::Session;
use llm::ThinkingLevel;
use policy::{ErrorCode, Mode};

use super::types::{ConfigOption, OptionValue, ServiceError};
use crate::config::{Config, EditMode};
use crate::models::{self, ModelSelector, keys};
use crate::project::Project;
use crate::session::SessionConfigSource;

/// Names of the modes of the policy, which decides where no rule does.
const MODES: [(&str, Mode); 3] =
    [("permissive", Mode::Permissive), ("prompt", Mode::Prompt), ("strict", Mode::Strict)];
/// Names of the edit modes (`edit.mode`).
const EDITS: [(&str, EditMode); 2] = [("apply", EditMode::Apply), ("propose", EditMode::Propose)];
/// Value of an option without a choice of the user.
const DEFAULT: &str = "default";

/// The options of a session with their values. Blocks.
pub(super) fn all(
    project: &Project,
    session: &Session,
    source: &SessionConfigSource,
    agent: Option<&str>,
) -> Vec<ConfigOption> {
    let config = source.config();
    let model = models::name_of(session.model().info());
    let mut known = known_models(project, &config);
    if !known.contains(&model) {
        known.insert(0, model.clone());
    }
    let level = session.thinking_level().map_or(DEFAULT, ThinkingLevel::name);
    let levels = [DEFAULT].into_iter().chain(ThinkingLevel::ALL.map(ThinkingLevel::name));
    let mode = source.mode();
    let mode = MODES.iter().find(|(_, known)| *known == mode).map_or(DEFAULT, |(name, _)| name);
    let edits = source.edits();
    let edits = EDITS.iter().find(|(_, known)| *known == edits).map_or(DEFAULT, |(name, _)| name);
    // A profile cannot be removed, so `default` is no value to set.
    let agents = crate::session::profile_names(&project.homes);
    vec![
        option("model", "Model", "model", &model, known),
        option("thinking", "Thinking", "thought_level", level, levels.map(str::to_owned)),
        option("mode", "Mode", "mode", mode, MODES.map(|(name, _)| name.to_owned())),
        option("edits", "Edits", "_edits", edits, EDITS.map(|(name, _)| name.to_owned())),
        option("agent", "Agent profile", "_agent", agent.unwrap_or(DEFAULT), agents),
    ]
}

/// Sets an option of a session other than its profile. Blocks.
pub(super) fn set(
    project: &Project,
    session: &Session,
    source: &SessionConfigSource,
    id: &str,
    value: &str,
) -> Result<(), ServiceError> {
    let invalid = |message: String| ServiceError::new(ErrorCode::InvalidArguments, message);
    match id {
        "model" => {
            let config = source.config();
            let root = project.workspace.root().as_path();
            let selector =
                ModelSelector { project, config: &config, directory: root, found: None, files: &[] };
            let chosen = selector.choose(Some(value)).map_err(|error| invalid(format!("{error:#}")))?;
            source.keep_model();
            session.set_models(chosen.model, chosen.fallbacks, chosen.summarizer);
        }
        "thinking" => {
            let level = ThinkingLevel::named(value);
            if level.is_none() && value != DEFAULT {
                return Err(invalid(format!(
                    "unknown thinking level {value:?}; use one of the option's values"
                )));
            }
            session.set_thinking_level(level);
        }
        "mode" => {
            let mode = MODES.iter().find(|(name, _)| *name == value);
            let (_, mode) = mode.ok_or_else(|| {
                invalid(format!("unknown mode {value:?}; use permissive, prompt or strict"))
            })?;
            session.set_policy(&source.set_mode(*mode));
        }
        "edits" => {
            let edits = EDITS.iter().find(|(name, _)| *name == value);
            let (_, edits) =
                edits.ok_or_else(|| invalid(format!("unknown edit mode {value:?}; use apply or propose")))?;
            session.set_policy(&source.set_edits(*edits));
        }
        _ => {
            return Err(invalid(format!("unknown option {id:?}; use model, thinking, mode, edits or agent")));
        }
    }
    Ok(())
}

fn option(
    id: &str,
    name: &str,
    category: &str,
    current: &str,
    values: impl IntoIterator<Item = String>,
) -> ConfigOption {
    ConfigOption {
        id: id.to_owned(),
        name: name.to_owned(),
        category: category.to_owned(),
        kind: "select".to_owned(),
        current_value: current.to_owned(),
        options: values.into_iter().map(|value| OptionValue { name: value.clone(), value }).collect(),
    }
}

/// The models of the settings, and of providers with a key in the environment.
fn known_models(project: &Project, config: &Config) -> Vec<String> {
    let roles = config.values.roles.named.values().filter_map(|role| Some(role.model.as_ref()?.0.clone()));
    let mut names: Vec<String> = config.default_model().map(str::to_owned).into_iter().chain(roles).collect();
    let file = project.homes.config.join("config.toml").to_string();
    // A wrong file is reported when a model is chosen.
    if let Ok(catalogue) = models::catalogue(config, &file) {
        for (name, provider) in &catalogue.providers {
            if keys::from_environment(&provider.api_key_env).is_some() {
                let models = provider.models.keys().chain(&provider.default);
                names.extend(models.map(|model| format!("{name}/{model}")));
            }
        }
    }
    names.push("planner".to_owned());
    names.sort();
    names.dedup();
    names
}
