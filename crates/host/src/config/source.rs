//! The sources of the configuration: each yields keys with values and origins.

use std::ops::Range;

use paths::AbsPath;
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{Class, FORMAT, Key, keys};
use super::{Origin, merge};

/// A value from a flag of the command line.
#[derive(Debug, Clone)]
pub struct Flag {
    /// The flag as the user types it, such as `--model`.
    pub name: String,
    pub key: String,
    pub value: String,
}

/// Settings of the editor plugins in the same section.
const PLUGIN: [&str; 4] = ["path", "trace", "trusted", "format"];

/// The error of a source, with its place.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{path} cannot be read: {source}")]
    Read { path: AbsPath, source: std::io::Error },
    #[error("{path}:{line}: {detail}")]
    Syntax {
        path: AbsPath,
        /// Line number, from 1.
        line: usize,
        detail: String,
    },
    #[error("{path} has format {found}; this version reads up to {known}; use a newer Pilcrow")]
    Newer { path: AbsPath, found: i64, known: i64 },
    #[error("{place}: there is no key `{key}`; the nearest is `{nearest}`")]
    Unknown { place: Origin, key: String, nearest: String },
    #[error("{place}: `{key}` cannot have this value: {detail}")]
    Value { place: Origin, key: String, detail: String },
}

/// A key of a source with its value and origins.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: &'static Key,
    /// The key's path, with the real names in place of `NAME`.
    pub(super) path: Vec<String>,
    pub(super) value: Value,
    /// Origins of the value: one for each element of a list, at least one.
    pub(super) origins: Vec<Origin>,
}

/// The entries of all sources, weakest first, and their problems.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pub(super) entries: Vec<Entry>,
    pub(super) errors: Vec<ConfigError>,
    pub(super) warnings: Vec<String>,
}

impl Sources {
    /// Reads a file whose keys belong to `group`; a missing one has none.
    pub(super) fn file(&mut self, path: &AbsPath, group: &[&str], origin: impl Fn(AbsPath, usize) -> Origin) {
        match paths::read_settings(path) {
            Ok(text) => self.toml(path, &text, group, origin),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => self.errors.push(ConfigError::Read { path: path.clone(), source }),
        }
    }

    /// Parses the text of a file whose keys belong to `group`.
    pub(super) fn toml(
        &mut self,
        path: &AbsPath,
        text: &str,
        group: &[&str],
        origin: impl Fn(AbsPath, usize) -> Origin,
    ) {
        let line = |span: Range<usize>| {
            text.as_bytes()[..span.start.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
        };
        let table = match DeTable::parse(text) {
            Ok(table) => table,
            Err(error) => {
                let line = line(error.span().unwrap_or_default());
                let detail = error.message().to_owned();
                self.errors.push(ConfigError::Syntax { path: path.clone(), line, detail });
                return;
            }
        };
        let mut table = table.into_inner();
        let origin = |span| origin(path.clone(), line(span));
        if let Some((name, value)) = table.remove_entry("format") {
            match json(value.get_ref()).as_i64() {
                // The program cannot judge the rest of a newer file.
                Some(found) if found > FORMAT => {
                    self.errors.push(ConfigError::Newer { path: path.clone(), found, known: FORMAT });
                    return;
                }
                Some(1..) => {}
                _ => self.errors.push(ConfigError::Value {
                    place: origin(name.span()),
                    key: "format".into(),
                    detail: "it must be a whole number from 1".into(),
                }),
            }
        }
        self.table(&table, &mut group.iter().map(ToString::to_string).collect(), &origin);
    }

    fn table(
        &mut self,
        table: &DeTable<'_>,
        path: &mut Vec<String>,
        origin: &impl Fn(Range<usize>) -> Origin,
    ) {
        let mut items: Vec<(&Spanned<_>, &Spanned<DeValue<'_>>)> = table.iter().collect();
        items.sort_by_key(|(key, _)| key.span().start);
        for (name, value) in items {
            path.push(name.get_ref().to_string());
            if let Some(key) = Key::find(path) {
                let origins = match value.get_ref() {
                    DeValue::Array(items) => items.iter().map(|item| origin(item.span())).collect(),
                    _ => Vec::new(),
                };
                self.add(key, path, json(value.get_ref()), origin(name.span()), origins);
            } else if let (DeValue::Table(inner), true) = (value.get_ref(), Key::is_group(path)) {
                self.table(inner, path, origin);
            } else {
                self.unknown(origin(name.span()), path);
            }
            path.pop();
        }
    }

    /// Reads settings as an editor gives them: nested objects, or names with dots.
    ///
    /// `null` means unset. Settings of the plugin itself ([`PLUGIN`]) are skipped.
    pub(super) fn editor(&mut self, settings: &Value) {
        let errors = std::mem::take(&mut self.errors);
        self.object(settings, &mut Vec::new());
        // The section may contain keys of other programs, so no problem here is an error.
        for error in std::mem::replace(&mut self.errors, errors) {
            self.warnings.push(match error {
                ConfigError::Value { place, key, detail } => {
                    format!("{place}: `{key}` cannot have this value and is ignored: {detail}")
                }
                error => error.to_string(),
            });
        }
    }

    fn object(&mut self, settings: &Value, path: &mut Vec<String>) {
        for (name, value) in settings.as_object().into_iter().flatten() {
            if value.is_null() || path.is_empty() && PLUGIN.contains(&name.as_str()) {
                continue;
            }
            let depth = path.len();
            path.extend(name.split('.').map(str::to_owned));
            if let Some(key) = Key::find(path) {
                self.add(key, path, value.clone(), Origin::Editor, Vec::new());
            } else if value.is_object() && Key::is_group(path) {
                self.object(value, path);
            } else {
                self.unknown(Origin::Editor, path);
            }
            path.truncate(depth);
        }
    }

    /// Reads environment variables of keys.
    ///
    /// An empty one counts as unset; a misspelt one is a warning.
    pub(super) fn environment(&mut self, variables: impl Iterator<Item = (String, String)>) {
        let mut variables: Vec<_> = variables.filter(|(_, value)| !value.is_empty()).collect();
        variables.sort();
        for (name, value) in variables {
            if let Some(key) = keys().iter().find(|key| key.variable.as_ref() == Some(&name)) {
                self.add(key, &key.path, key.parse_text(&value), Origin::Environment { name }, Vec::new());
            } else if let Some(nearest) = Key::misspelt(&name) {
                self.warnings
                    .push(format!("there is no setting for the variable {name}; the nearest is {nearest}"));
            }
        }
    }

    pub(super) fn flags(&mut self, flags: &[Flag]) {
        for flag in flags {
            let origin = Origin::Flag { name: flag.name.clone() };
            let path: Vec<String> = flag.key.split('.').map(str::to_owned).collect();
            match Key::find(&path) {
                Some(key) => self.add(key, &path, key.parse_text(&flag.value), origin, Vec::new()),
                None => self.unknown(origin, &path),
            }
        }
    }

    /// Checks and adds a value.
    ///
    /// `origins` are the places of a list's elements, if known.
    fn add(
        &mut self,
        key: &'static Key,
        path: &[String],
        value: Value,
        origin: Origin,
        mut origins: Vec<Origin>,
    ) {
        let name = path.join(".");
        if key.class == Class::Personal && origin.is_shared() {
            let hint = "only you can set it, in your own config.toml";
            self.warnings.push(format!("{origin}: `{name}` is ignored: {hint}"));
        } else if let Err(mut detail) = merge::check(path, &value) {
            let unquoted = value
                .as_str()
                .map(|text| key.parse_text(text))
                .filter(|parsed| parsed.is_boolean() || parsed.is_number());
            if unquoted.is_some_and(|parsed| merge::check(path, &parsed).is_ok()) {
                detail.push_str("; leave out the quotes");
            }
            self.errors.push(ConfigError::Value { place: origin, key: name, detail });
        } else {
            if origins.is_empty() {
                let elements = value.as_array().map_or(1, Vec::len);
                origins = vec![origin; elements.max(1)];
            }
            self.entries.push(Entry { key, path: path.to_vec(), value, origins });
        }
    }

    fn unknown(&mut self, place: Origin, path: &[String]) {
        let (key, nearest) = (path.join("."), Key::nearest(path));
        self.errors.push(ConfigError::Unknown { place, key, nearest });
    }
}

fn json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Boolean(value) => (*value).into(),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| number.as_str().into(), Value::from),
        DeValue::Float(number) => number.as_str().into(),
        DeValue::Datetime(time) => time.to_string().into(),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => {
            table.iter().map(|(name, value)| (name.get_ref().to_string(), json(value.get_ref()))).collect()
        }
    }
}
