//! What comes of several sources for one key, by its class. Pure.

use std::collections::BTreeMap;

use policy::{Decision, Mode, Rule};
use toml::de::DeValue;

use super::keys::{Class, KEYS};
use super::source::{Entry, Sources};
use super::value::{Kind, Value};
use super::{Config, ConfigErrors, Origin, Setting};

/// The configuration that the sources come to.
pub(super) fn merge(sources: Sources) -> Result<Config, ConfigErrors> {
    if !sources.errors.is_empty() {
        return Err(ConfigErrors(sources.errors));
    }
    let mut config = Config { settings: defaults(), warnings: sources.warnings };
    for entry in sources.entries {
        match (entry.key.class, entry.key.kind) {
            (Class::Policy, Kind::Rules) => add_rules(&mut config, entry),
            (Class::Policy, _) => tighten(&mut config.settings, entry),
            (Class::Free | Class::Personal, _) => {
                config.settings.insert(entry.name, Setting { value: entry.value, origins: entry.origins });
            }
        }
    }
    Ok(config)
}

/// One configuration with another source over it, which is weaker than environment and flags.
pub(super) fn over(config: &Config, sources: Sources) -> Result<Config, ConfigErrors> {
    if !sources.errors.is_empty() {
        return Err(ConfigErrors(sources.errors));
    }
    let mut config = config.clone();
    for entry in sources.entries {
        let is_stronger =
            |origin: &Origin| matches!(origin, Origin::Environment { .. } | Origin::Flag { .. });
        let now = config.settings.get(&entry.name);
        if !now.is_some_and(|setting| setting.origins.iter().any(is_stronger)) {
            config.settings.insert(entry.name, Setting { value: entry.value, origins: entry.origins });
        }
    }
    Ok(config)
}

fn defaults() -> BTreeMap<String, Setting> {
    let mut settings = BTreeMap::new();
    for key in KEYS {
        let Some(default) = key.default else { continue };
        let parsed = DeValue::parse(default).ok();
        let value = parsed.and_then(|value| key.kind.read_toml(value.get_ref()).ok());
        let value = value.expect("a test reads every default of the table");
        let elements = if let Value::List(list) = &value { list.len().max(1) } else { 1 };
        settings.insert(key.name.to_owned(), Setting { value, origins: vec![Origin::Default; elements] });
    }
    settings
}

/// The stricter of two choices. The default gives way to the person, but not to a project.
fn tighten(settings: &mut BTreeMap<String, Setting>, entry: Entry) {
    let Some(now) = settings.get(&entry.name) else { return };
    let by_project = entry.origins.first().is_some_and(Origin::is_shared);
    let is_default = now.origins == [Origin::Default];
    let strictness = |value: &Value| match entry.key.kind {
        Kind::Choice(choices) => choices.iter().position(|choice| *choice == value.text()),
        _ => None,
    };
    if is_default && !by_project || strictness(&entry.value) > strictness(&now.value) {
        settings.insert(entry.name, Setting { value: entry.value, origins: entry.origins });
    }
}

/// All rules hold. Those of a project that allow are left out.
fn add_rules(config: &mut Config, entry: Entry) {
    let mut added = Vec::new();
    for (text, origin) in entry.value.list().iter().zip(entry.origins) {
        let allows = Rule::parse(text, "").is_ok_and(|rule| rule.decision == Decision::Allow);
        if allows && origin.is_shared() {
            let who = if origin == Origin::Editor { "the editor's settings" } else { "a project" };
            let hint = format!("{who} can only ask or deny; put it into your own config.toml");
            config.warnings.push(format!("{origin}: the rule `{text}` is ignored: {hint}"));
        } else {
            added.push((text.clone(), origin));
        }
    }
    let Some(setting) = config.settings.get_mut(&entry.name) else { return };
    let Value::List(list) = &mut setting.value else { return };
    if !added.is_empty() && setting.origins == [Origin::Default] {
        setting.origins.clear();
    }
    for (text, origin) in added {
        list.push(text);
        setting.origins.push(origin);
    }
}

/// The mode of that name.
pub(super) fn mode(name: &str) -> Mode {
    match name {
        "permissive" => Mode::Permissive,
        "strict" => Mode::Strict,
        _ => Mode::Prompt,
    }
}
