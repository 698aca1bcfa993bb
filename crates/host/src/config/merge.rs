//! The values that result from several sources, by the class of each key.
//!
//! The module is pure.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use policy::{Decision, Rule};
use serde::Deserialize;
use serde_json::{Value, json};

use super::keys::{Class, keys};
use super::settings::Settings;
use super::source::{Entry, Sources};
use super::{Config, ConfigErrors, Origin, Setting};

/// Merges the sources to a configuration.
pub(super) fn merge(sources: Sources) -> Result<Config, ConfigErrors> {
    let (mut layers, mut warnings) = (defaults(), sources.warnings);
    if !sources.errors.is_empty() {
        return Err(ConfigErrors(sources.errors));
    }
    for entry in sources.entries {
        match entry.key.class {
            _ if entry.key.is_additive() => add_rules(&mut layers, entry, &mut warnings),
            Class::Policy => tighten(&mut layers, entry),
            Class::Free | Class::Personal => entry.insert(&mut layers),
        }
    }
    Ok(Config { values: typed(&layers), layers, warnings })
}

/// Adds a source to `config` that is weaker than environment and flags.
pub(super) fn overlay(config: &Config, sources: Sources) -> Result<Config, ConfigErrors> {
    if !sources.errors.is_empty() {
        return Err(ConfigErrors(sources.errors));
    }
    let mut layers = config.layers.clone();
    for entry in sources.entries {
        let is_stronger =
            |origin: &Origin| matches!(origin, Origin::Environment { .. } | Origin::Flag { .. });
        if !layers.get(&entry.path).is_some_and(|current| current.origins.iter().any(is_stronger)) {
            entry.insert(&mut layers);
        }
    }
    Ok(Config { values: typed(&layers), layers, warnings: config.warnings.clone() })
}

type Layers = BTreeMap<Vec<String>, Setting>;

impl Entry {
    fn insert(self, layers: &mut Layers) {
        layers.insert(self.path, Setting { value: self.value, origins: self.origins });
    }
}

fn defaults() -> Layers {
    let defaults = keys().iter().filter_map(|key| Some((key, key.schema.get("default")?.clone())));
    defaults
        .map(|(key, value)| {
            let elements = value.as_array().map_or(1, Vec::len).max(1);
            (key.path.clone(), Setting { value, origins: vec![Origin::Default; elements] })
        })
        .collect()
}

fn tree<'a>(values: impl Iterator<Item = (&'a Vec<String>, &'a Value)>) -> Value {
    let mut root = json!({});
    values.for_each(|(path, value)| insert(&mut root, path, value));
    root
}

fn insert(root: &mut Value, path: &[String], value: &Value) {
    *path.iter().fold(root, |node, part| &mut node[part]) = value.clone();
}

fn typed(layers: &Layers) -> Settings {
    let tree = tree(layers.iter().map(|(path, setting)| (path, &setting.value)));
    Settings::deserialize(tree).expect("every value was checked on its own")
}

/// Checks that the field at `path` accepts `value`; the error has the reason.
pub(super) fn check(path: &[String], value: &Value) -> Result<(), String> {
    static DEFAULTS: LazyLock<Value> =
        LazyLock::new(|| tree(defaults().iter().map(|(path, setting)| (path, &setting.value))));
    let mut tree = DEFAULTS.clone();
    insert(&mut tree, path, value);
    // serde calls a list a sequence.
    Settings::deserialize(tree).map(drop).map_err(|error| error.to_string().replace("a sequence", "a list"))
}

/// Keeps the stricter of two choices.
///
/// The user may loosen the default; a project may not.
fn tighten(layers: &mut Layers, entry: Entry) {
    let Some(current) = layers.get(&entry.path) else { return };
    let by_project = entry.origins.first().is_some_and(Origin::is_shared);
    let is_default = current.origins == [Origin::Default];
    let choices = entry.key.schema["enum"].as_array();
    let strictness =
        |value: &Value| choices.and_then(|choices| choices.iter().position(|choice| choice == value));
    if is_default && !by_project || strictness(&entry.value) > strictness(&current.value) {
        entry.insert(layers);
    }
}

/// Adds rules to those of weaker sources, except a project's rules that allow.
fn add_rules(layers: &mut Layers, entry: Entry, warnings: &mut Vec<String>) {
    let Some(setting) = layers.get_mut(&entry.path) else { return };
    let Some(rules) = setting.value.as_array_mut() else { return };
    for (rule, origin) in entry.value.as_array().into_iter().flatten().zip(entry.origins) {
        let text = rule.as_str().unwrap_or_default();
        let allows = Rule::parse(text, "").is_ok_and(|rule| rule.decision == Decision::Allow);
        if allows && origin.is_shared() {
            let source = if origin == Origin::Editor { "the editor's settings" } else { "a project" };
            let hint = format!("{source} can only ask or deny; put it into your own config.toml");
            warnings.push(format!("{origin}: the rule `{text}` is ignored: {hint}"));
            continue;
        }
        if rules.is_empty() {
            setting.origins.clear();
        }
        rules.push(rule.clone());
        setting.origins.push(origin);
    }
}
