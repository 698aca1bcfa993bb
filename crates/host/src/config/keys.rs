//! The keys of all settings, found in the JSON Schema of [`Settings`].

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use strsim::levenshtein as distance;

use super::settings::Settings;

/// The rule by which sources decide the value of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The strongest source decides.
    Free,
    /// The strictest value decides: no source loosens the value of another one.
    Policy,
    /// Only the user decides; a project cannot set the key.
    Personal,
}

impl Class {
    /// Returns the name as the schema and `config show` spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Policy => "policy",
            Self::Personal => "personal",
        }
    }
}

#[derive(Debug)]
pub struct Key {
    /// Parts of the key's full name; `NAME` stands for any name.
    pub path: Vec<String>,
    pub class: Class,
    /// Environment variable that sets it.
    pub variable: Option<String>,
    pub schema: Value,
}

/// Newest `format` of the file.
pub const FORMAT: i64 = 1;

static SCHEMA: LazyLock<(Value, Vec<Key>)> = LazyLock::new(|| {
    let generator = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = generator.into_generator().into_root_schema_for::<Settings>().to_value();
    let mut keys = Vec::new();
    collect(&mut schema, &mut Vec::new(), &mut keys);
    schema["title"] = "Pilcrow's config.toml".into();
    schema["properties"]["format"] = json!({
        "type": "integer",
        "minimum": 1,
        "maximum": FORMAT,
        "description": "The format of this file; optional.",
    });
    (schema, keys)
});

/// Returns the JSON Schema (draft 2020-12) of `config.toml`.
pub fn schema() -> &'static Value {
    &SCHEMA.0
}

pub fn keys() -> &'static [Key] {
    &SCHEMA.1
}

/// Adds the keys below a group, and completes their schemas.
fn collect(schema: &mut Value, path: &mut Vec<String>, keys: &mut Vec<Key>) {
    let members = ["properties", "additionalProperties"];
    let Some(node) = schema.as_object_mut() else { return };
    if members.iter().any(|name| node.get(*name).is_some_and(Value::is_object)) {
        // Every setting is optional, and the description of a group is for programmers.
        ["required", "description", "default"].iter().for_each(|name| drop(node.shift_remove(*name)));
        for (name, member) in node.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten()
        {
            path.push(name.clone());
            collect(member, path, keys);
            path.pop();
        }
        if let Some(member) = node.get_mut("additionalProperties") {
            path.push("NAME".into());
            collect(member, path, keys);
            path.pop();
        }
        return;
    }
    let class = match node.get("x-pilcrow-class").and_then(Value::as_str) {
        Some("policy") => Class::Policy,
        Some("personal") => Class::Personal,
        _ => Class::Free,
    };
    let variable = match node.get("x-pilcrow-variable") {
        Some(name) => name.as_str().map(str::to_owned),
        None if path.iter().any(|part| part == "NAME") => None,
        None => Some(format!("PILCROW_{}", path.join("_").to_uppercase())),
    };
    node.insert("x-pilcrow-class".into(), class.name().into());
    node.insert("x-pilcrow-variable".into(), variable.clone().map_or(false.into(), Value::String));
    let description = node.get("description").and_then(Value::as_str).unwrap_or_default();
    node.insert("description".into(), description.replace('\n', " ").into());
    keys.push(Key { path: path.clone(), class, variable, schema: schema.clone() });
}

impl Key {
    /// Finds the key with this path.
    pub fn find(path: &[String]) -> Option<&'static Self> {
        keys().iter().find(|key| key.matches(path))
    }

    /// Whether `path` is this key, with real names in place of `NAME`.
    pub fn matches(&self, path: &[String]) -> bool {
        self.path.len() == path.len() && self.begins_with(path)
    }

    /// Whether `path` names a group of keys.
    pub fn is_group(path: &[String]) -> bool {
        keys().iter().any(|key| key.path.len() > path.len() && key.begins_with(path))
    }

    fn begins_with(&self, path: &[String]) -> bool {
        self.path.iter().zip(path).all(|(part, name)| part == "NAME" || part == name)
    }

    pub fn name(&self) -> String {
        self.path.join(".")
    }

    /// Returns the JSON type of the key's values; empty if there are several.
    fn json_type(&self) -> &str {
        self.schema["type"].as_str().unwrap_or_default()
    }

    /// Whether the values of all sources apply together, as in a list of rules.
    pub(crate) fn is_additive(&self) -> bool {
        self.class == Class::Policy && self.json_type() == "array"
    }

    /// Parses a text from the environment or a flag to a value.
    pub(crate) fn parse_text(&self, text: &str) -> Value {
        let parsed: Option<Value> = match self.json_type() {
            "boolean" => match text {
                "true" | "1" => Some(true.into()),
                "false" | "0" => Some(false.into()),
                _ => None,
            },
            "integer" => text.parse::<i64>().ok().map(Value::from),
            "array" if self.is_additive() => {
                let items = text.split([';', '\n']).map(str::trim);
                Some(items.filter(|item| !item.is_empty()).collect())
            }
            "array" => Some(text.split_whitespace().collect()),
            _ => None,
        };
        parsed.unwrap_or_else(|| text.into())
    }

    /// Finds the known name most similar to `path`.
    ///
    /// Compares the whole, the beginning, and the last part.
    pub fn nearest(path: &[String]) -> String {
        let requested = path.join(".");
        let last = path.last().map(String::as_str).unwrap_or_default();
        let similarity = |key: &&Self| {
            let beginning = key.path[..key.path.len().min(path.len())].join(".");
            let other_group = distance(key.path.last().map_or("", String::as_str), last) + 2;
            distance(&key.name(), &requested).min(distance(&beginning, &requested)).min(other_group)
        };
        keys().iter().min_by_key(similarity).map(Self::name).unwrap_or_default()
    }

    /// Finds the variable that the user probably meant by an unknown one.
    pub fn misspelt(variable: &str) -> Option<&'static str> {
        /// Maximum distance of a misspelling.
        const NEAR: usize = 4;
        /// Variables that are not settings.
        const OTHERS: &[&str] = &[
            "PILCROW_BIN",
            "PILCROW_CHILD",
            "PILCROW_FAULT",
            "PILCROW_HOME",
            "PILCROW_LOG",
            "PILCROW_PROXY_TOKEN",
            "PILCROW_TOOLS",
        ];
        let upper = variable.to_ascii_uppercase();
        if !upper.starts_with("PILCROW_") || OTHERS.contains(&variable) {
            return None;
        }
        let known = keys().iter().filter_map(|key| key.variable.as_deref()).chain(["PILCROW_HOME"]);
        let (nearest, name) = known.map(|name| (distance(name, &upper), name)).min()?;
        (nearest <= NEAR).then_some(name)
    }
}
