//! The sources of the configuration, each as a list of keys with values and places.

use std::ops::Range;

use paths::AbsPath;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Origin;
use super::keys::{Class, FORMAT, KEYS, Key};
use super::value::Value;

/// A value that a flag of the command line gives.
#[derive(Debug, Clone)]
pub struct Flag {
    /// As it is typed: `--model`.
    pub name: String,
    /// The key that it sets.
    pub key: String,
    pub value: String,
}

/// Settings of the editors' plugins in the same section.
const PLUGIN: [&str; 4] = ["path", "trace", "trusted", "format"];

/// What does not fit, and where.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file that is there and cannot be read.
    #[error("{path} cannot be read: {source}")]
    Read { path: AbsPath, source: std::io::Error },
    #[error("{path}:{line}: {detail}")]
    Syntax {
        path: AbsPath,
        /// 1-based.
        line: usize,
        /// What the parser says.
        detail: String,
    },
    /// A file for a newer program.
    #[error("{path} has format {found}, this program knows up to {known}; use a newer Pilcrow")]
    Newer { path: AbsPath, found: i64, known: i64 },
    #[error("{place}: there is no key `{key}`; the nearest is `{nearest}`")]
    Unknown {
        place: Origin,
        key: String,
        /// A key that there is.
        nearest: String,
    },
    /// A value of another type, or out of range.
    #[error("{place}: `{key}` cannot have this value: {detail}")]
    Value {
        place: Origin,
        key: String,
        /// What it must be and is not.
        detail: String,
    },
}

/// A key with a value.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: &'static Key,
    /// The full name, with the real name where the table says `NAME`.
    pub(super) name: String,
    pub(super) value: Value,
    pub(super) origins: Vec<Origin>,
}

/// Everything that was said, weakest source first, and what was wrong with it.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pub(super) entries: Vec<Entry>,
    pub(super) errors: Vec<ConfigError>,
    pub(super) warnings: Vec<String>,
}

impl Sources {
    pub(super) fn person(&mut self, path: &AbsPath) {
        self.file(path, |path, line| Origin::Person { path, line });
    }

    /// An agent's `tools.toml`: the keys of the group `tools`, without its name.
    pub(super) fn agent(&mut self, path: &AbsPath) {
        self.file_below(path, &["tools"], |path, line| Origin::Person { path, line });
    }

    pub(super) fn project(&mut self, path: &AbsPath) {
        self.file(path, |path, line| Origin::Project { path, line });
    }

    /// Settings as an editor gives them: objects in objects, or names with dots. What is `null` is not
    /// set, and what is the plugin's own ([`PLUGIN`]) is none of ours.
    pub(super) fn editor(&mut self, settings: &serde_json::Value) {
        self.object(settings, &mut Vec::new());
    }

    fn object(&mut self, settings: &serde_json::Value, path: &mut Vec<String>) {
        for (name, value) in settings.as_object().into_iter().flatten() {
            if value.is_null() || path.is_empty() && PLUGIN.contains(&name.as_str()) {
                continue;
            }
            let depth = path.len();
            path.extend(name.split('.').map(str::to_owned));
            if let Some(key) = Key::find(path) {
                match key.kind.read_json(value) {
                    Ok(value) => self.add(key, path.join("."), Ok(value), Origin::Editor, None),
                    Err(detail) => self.warnings.push(format!(
                        "editor: `{}` cannot have this value and is ignored: {detail}",
                        path.join(".")
                    )),
                }
            } else if value.is_object() && Key::is_group(path) {
                self.object(value, path);
            } else {
                let nearest = Key::nearest(path);
                self.warnings.push(format!(
                    "editor: there is no key `{}`; the nearest is `{nearest}`",
                    path.join(".")
                ));
            }
            path.truncate(depth);
        }
    }

    /// Variables that the table names. An empty one counts as not set; one that is nearly one of them is told.
    pub(super) fn environment(&mut self, variables: impl Iterator<Item = (String, String)>) {
        let mut variables: Vec<_> = variables.filter(|(_, value)| !value.is_empty()).collect();
        variables.sort();
        for (name, value) in variables {
            if let Some(key) = KEYS.iter().find(|key| key.variable == Some(&name)) {
                self.text(key, key.name, &value, Origin::Environment { name });
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
                Some(key) => self.text(key, &flag.key, &flag.value, origin),
                None => self.unknown(origin, &path),
            }
        }
    }

    fn text(&mut self, key: &'static Key, name: &str, text: &str, origin: Origin) {
        let value = key.kind.read_text(text);
        self.add(key, name.to_owned(), value, origin, None);
    }

    fn file(&mut self, path: &AbsPath, place: impl Fn(AbsPath, usize) -> Origin) {
        self.file_below(path, &[], place);
    }

    fn file_below(&mut self, path: &AbsPath, group: &[&str], place: impl Fn(AbsPath, usize) -> Origin) {
        match std::fs::read_to_string(path) {
            Ok(text) => self.toml_below(path, &text, group, place),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => self.errors.push(ConfigError::Read { path: path.clone(), source }),
        }
    }

    /// The text of a file.
    #[cfg(test)]
    pub(super) fn toml(&mut self, path: &AbsPath, text: &str, place: impl Fn(AbsPath, usize) -> Origin) {
        self.toml_below(path, text, &[], place);
    }

    /// The text of a file whose keys are of this group.
    pub(super) fn toml_below(
        &mut self,
        path: &AbsPath,
        text: &str,
        group: &[&str],
        place: impl Fn(AbsPath, usize) -> Origin,
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
        let table = table.get_ref();
        let place = |span| place(path.clone(), line(span));
        if let Some((key, value)) = table.get_key_value("format") {
            let found = match value.get_ref() {
                DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
                _ => None,
            };
            match found {
                Some(found) if found > FORMAT => {
                    self.errors.push(ConfigError::Newer { path: path.clone(), found, known: FORMAT });
                    // What else a newer file says cannot be judged.
                    return;
                }
                Some(1..) => {}
                _ => self.errors.push(ConfigError::Value {
                    place: place(key.span()),
                    key: "format".into(),
                    detail: "it must be a whole number from 1".into(),
                }),
            }
        }
        let mut group: Vec<String> = group.iter().map(ToString::to_string).collect();
        self.table(table, &mut group, &place);
    }

    fn table(
        &mut self,
        table: &DeTable<'_>,
        path: &mut Vec<String>,
        place: &impl Fn(Range<usize>) -> Origin,
    ) {
        let mut items: Vec<(&Spanned<_>, &Spanned<DeValue<'_>>)> = table.iter().collect();
        items.sort_by_key(|(key, _)| key.span().start);
        let is_outermost = |path: &[String]| path.is_empty() || path == ["tools"];
        for (name, value) in items {
            // Read before; no group has a key of that name.
            if is_outermost(path) && name.get_ref() == "format" {
                continue;
            }
            path.push(name.get_ref().to_string());
            if let Some(key) = Key::find(path) {
                let items = match value.get_ref() {
                    DeValue::Array(items) => Some(items.iter().map(|item| place(item.span())).collect()),
                    _ => None,
                };
                self.add(key, path.join("."), key.kind.read_toml(value.get_ref()), place(name.span()), items);
            } else if let (DeValue::Table(inner), true) = (value.get_ref(), Key::is_group(path)) {
                self.table(inner, path, place);
            } else {
                self.unknown(place(name.span()), path);
            }
            path.pop();
        }
    }

    /// `items`: where each element of a list stands, when that is known.
    fn add(
        &mut self,
        key: &'static Key,
        name: String,
        value: Result<Value, String>,
        origin: Origin,
        items: Option<Vec<Origin>>,
    ) {
        if key.class == Class::Personal && origin.is_shared() {
            let hint = "only you can set it, in your own config.toml";
            self.warnings.push(format!("{origin}: `{name}` is ignored: {hint}"));
            return;
        }
        match value {
            Ok(value) => {
                let origins = match (&value, items) {
                    (Value::List(_), Some(items)) if !items.is_empty() => items,
                    // An empty one comes from somewhere too.
                    (Value::List(list), _) => vec![origin; list.len().max(1)],
                    _ => vec![origin],
                };
                self.entries.push(Entry { key, name, value, origins });
            }
            Err(detail) => self.errors.push(ConfigError::Value { place: origin, key: name, detail }),
        }
    }

    fn unknown(&mut self, place: Origin, path: &[String]) {
        let (key, nearest) = (path.join("."), Key::nearest(path));
        self.errors.push(ConfigError::Unknown { place, key, nearest });
    }
}
