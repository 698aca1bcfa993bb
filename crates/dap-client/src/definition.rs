//! A debug adapter as data: which programs it debugs, how it is started and spoken to, what it is
//! launched with. The format is `docs/formats/adapter-definition.md`.
//!
//! No adapter's name stands in code: what is peculiar to one is a line of its file.

use std::collections::BTreeMap;
use std::path::Path;

use globset::{Glob, GlobSet, GlobSetBuilder};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The newest format that is read.
pub const FORMAT: u64 = 1;

/// One debug adapter.
#[derive(Debug, Clone)]
pub struct AdapterDefinition {
    /// Its name, also its file's.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// Of several that fit the lowest is taken.
    pub rank: u32,
    /// Kinds of executables that it debugs.
    pub executables: Vec<Executable>,
    /// Names of interpreters in a script's first line.
    pub interpreters: Vec<String>,
    /// How it is started.
    pub command: CommandRule,
    /// How it is spoken to.
    pub transport: Transport,
    /// Programs that its templates name, by variable: paths from the project, or names on `PATH`.
    pub variables: BTreeMap<String, Vec<String>>,
    /// Arguments of `launch`.
    pub launch: Value,
    /// Arguments of `attach`, if it can.
    pub attach: Option<Value>,
    /// What is peculiar.
    pub quirks: Quirks,
    /// How it is got.
    pub install: Install,
    /// What the test run last saw working.
    pub verified: Option<Verified>,
    /// It came with a project rather than from us or the person.
    pub from_project: bool,
    matcher: GlobSet,
}

/// A kind of executable, told by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Executable {
    /// Linux and others.
    Elf,
    /// macOS.
    MachO,
    /// Windows.
    Pe,
}

/// How an adapter is started.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandRule {
    /// Names on the search path, or absolute paths; the first that is found.
    pub candidates: Vec<String>,
    /// Its arguments; `${port}` and `${host}` where it is spoken to over TCP.
    #[serde(default)]
    pub args: Vec<String>,
    /// Further variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// How an adapter is spoken to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case", tag = "kind")]
pub enum Transport {
    /// Over its standard streams.
    #[default]
    Stdio,
    /// It listens on a port of the loopback, and we connect.
    Connect {
        /// What it prints before the port; without it the port is one that we choose as `${port}`.
        #[serde(default)]
        announces: Option<String>,
    },
    /// We listen on a port of the loopback, given as `${port}`, and it connects.
    Listen,
}

/// Departures from the protocol.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quirks {
    /// What it needs beyond its program, said when it does not start.
    #[serde(default)]
    pub needs: Option<String>,
    /// How its language writes "or" between two conditions, so that two breakpoints on one line can be one.
    #[serde(default)]
    pub or: Option<String>,
    /// Words that its own output begins with, which say nothing about the program.
    #[serde(default)]
    pub chatter: Vec<String>,
    /// Names of scopes that are not looked into for a snapshot.
    #[serde(default)]
    pub skip_scopes: Vec<String>,
    /// Variables whose names match these are left out of a snapshot.
    #[serde(default)]
    pub skip_variables: Vec<String>,
}

/// How an adapter is got.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Install {
    /// `pip`, `npm`, `cargo`, `apt`, or `page`.
    pub how: How,
    /// The packages.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Where it is described.
    pub page: String,
}

/// Who installs an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names of package managers")]
pub enum How {
    Pip,
    Npm,
    Cargo,
    Apt,
    Page,
}

impl Install {
    /// The command or page for a person.
    pub fn hint(&self) -> String {
        let packages = self.packages.join(" ");
        match self.how {
            How::Pip => format!("pip install {packages}"),
            How::Npm => format!("npm install -g {packages}"),
            How::Cargo => format!("cargo install {packages}"),
            How::Apt => format!("apt-get install {packages}"),
            How::Page => format!("see {}", self.page),
        }
    }
}

/// What the test run last saw working; only it writes this.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verified {
    /// The adapter's version.
    pub version: String,
    /// The day, `YYYY-MM-DD`.
    pub date: String,
    /// The test.
    pub how: String,
}

/// Why a definition file cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{origin}: {reason}")]
pub struct DefinitionError {
    /// The file, or `built in: NAME`.
    pub origin: String,
    /// What is wrong.
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: u64,
    name: String,
    #[serde(default)]
    about: String,
    #[serde(default)]
    rank: u32,
    #[serde(default)]
    patterns: Vec<String>,
    #[serde(default)]
    executables: Vec<Executable>,
    #[serde(default)]
    interpreters: Vec<String>,
    command: CommandRule,
    #[serde(default)]
    transport: Transport,
    #[serde(default)]
    variables: BTreeMap<String, Vec<String>>,
    launch: Value,
    #[serde(default)]
    attach: Option<Value>,
    #[serde(default)]
    quirks: Quirks,
    install: Install,
    verified: FileVerified,
}

/// `verified = false`, or what was seen.
#[derive(Deserialize)]
#[serde(untagged)]
enum FileVerified {
    Never(bool),
    Seen(Verified),
}

impl AdapterDefinition {
    /// Reads a definition. `origin` names the file in errors.
    ///
    /// # Errors
    /// [`DefinitionError`] for a newer format, an unknown key, a bad glob, or no candidate to start.
    pub fn parse(text: &str, origin: &str, from_project: bool) -> Result<Self, DefinitionError> {
        let bad = |reason: String| DefinitionError { origin: origin.to_owned(), reason };
        // The format first: a newer file may have keys that are refused here.
        let table: Option<toml::Table> = toml::from_str(text).ok();
        let found = table.and_then(|table| table.get("format")?.as_integer());
        if let Some(found) = found.filter(|found| *found > FORMAT as i64) {
            return Err(bad(format!(
                "has format {found}, this program knows up to {FORMAT}; use a newer Pilcrow"
            )));
        }
        let file: File = toml::from_str(text).map_err(|error| bad(error.to_string()))?;
        if file.format == 0 || file.command.candidates.is_empty() {
            return Err(bad("it needs `format = 1` and a program in `command.candidates`".to_owned()));
        }
        let verified = match file.verified {
            FileVerified::Never(false) => None,
            FileVerified::Seen(verified) => Some(verified),
            FileVerified::Never(true) => {
                return Err(bad("verified is false, or {version, date, how}".to_owned()));
            }
        };
        let mut matcher = GlobSetBuilder::new();
        for pattern in &file.patterns {
            matcher.add(Glob::new(pattern).map_err(|error| bad(error.to_string()))?);
        }
        Ok(Self {
            name: file.name,
            about: file.about,
            rank: file.rank,
            executables: file.executables,
            interpreters: file.interpreters,
            command: file.command,
            transport: file.transport,
            variables: file.variables,
            launch: file.launch,
            attach: file.attach,
            quirks: file.quirks,
            install: file.install,
            verified,
            from_project,
            matcher: matcher.build().map_err(|error| bad(error.to_string()))?,
        })
    }

    /// Whether it debugs files of this name.
    pub fn takes(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| self.matcher.is_match(name))
    }

    /// Whether its `launch` can be given `${name}`.
    pub fn launches(&self, name: &str) -> bool {
        mentions(&self.launch, &format!("${{{name}}}"))
    }
}

fn mentions(value: &Value, text: &str) -> bool {
    match value {
        Value::String(value) => value.contains(text),
        Value::Array(items) => items.iter().any(|item| mentions(item, text)),
        Value::Object(map) => map.values().any(|value| mentions(value, text)),
        _ => false,
    }
}

/// `template` with its `${name}` replaced. A text that is nothing but a variable becomes the variable's
/// value, and is left out with its key where there is none. In a longer text the value stands as text.
pub fn fill(template: &Value, variables: &Map<String, Value>) -> Option<Value> {
    match template {
        Value::String(text) => {
            if let Some(name) = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'))
                && !name.contains("${")
            {
                return variables.get(name).cloned();
            }
            let mut out = text.clone();
            for (name, value) in variables {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                out = out.replace(&format!("${{{name}}}"), &value);
            }
            Some(Value::String(out))
        }
        Value::Array(items) => Some(items.iter().filter_map(|item| fill(item, variables)).collect()),
        Value::Object(map) => Some(Value::Object(
            map.iter().filter_map(|(name, value)| Some((name.clone(), fill(value, variables)?))).collect(),
        )),
        other => Some(other.clone()),
    }
}

/// Lays `over` on `base`: objects are merged, `null` removes, anything else is replaced.
pub fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (name, value) in over {
                if value.is_null() {
                    base.remove(&name);
                } else {
                    merge(base.entry(name).or_insert(Value::Null), value);
                }
            }
        }
        (base, over) => *base = over,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    pub(crate) const SMALL: &str = "format = 1\nname = \"a\"\npatterns = [\"*.x\"]\nverified = false\n\
        [command]\ncandidates = [\"a\"]\n[launch]\nprogram = \"${program}\"\n\
        [install]\nhow = \"page\"\npage = \"https://example.org\"\n";

    #[test]
    fn what_cannot_be_read_is_refused_with_its_name() {
        let refuse = |text: &str| AdapterDefinition::parse(text, "a.toml", false).unwrap_err().to_string();
        let newer = SMALL.replace("format = 1", "format = 2\nnews = 1");
        assert_eq!(refuse(&newer), "a.toml: has format 2, this program knows up to 1; use a newer Pilcrow");
        assert!(refuse(&format!("nmae = 1\n{SMALL}")).contains("nmae"));
        assert!(refuse(&SMALL.replace("[\"a\"]", "[]")).contains("command.candidates"));
        assert!(refuse(&SMALL.replace("verified = false", "verified = true")).contains("verified is false"));
    }

    #[test]
    fn files_are_taken_by_their_names() {
        let definition = AdapterDefinition::parse(SMALL, "a.toml", false).unwrap();
        assert!(definition.takes(Path::new("/p/q.x")) && !definition.takes(Path::new("/p/q.y")));
        assert!(definition.launches("program") && !definition.launches("module"));
    }

    #[test]
    fn a_template_keeps_what_it_is_given_and_drops_the_rest() {
        let given = json!({"program": "/p/a b", "args": ["x"], "stop": true});
        let template = json!({
            "program": "${program}", "module": "${module}", "args": "${args}", "stop": "${stop}",
            "deep": {"text": "run ${program} now", "list": ["${module}", 1]},
        });
        let filled = fill(&template, given.as_object().unwrap()).unwrap();
        let expected = json!({
            "program": "/p/a b", "args": ["x"], "stop": true,
            "deep": {"text": "run /p/a b now", "list": [1]},
        });
        assert_eq!(filled, expected);
    }

    #[test]
    fn what_is_laid_over_wins_and_null_removes() {
        let mut base = json!({"a": {"b": 1, "c": 2}, "d": [1]});
        merge(&mut base, json!({"a": {"b": 3, "c": null}, "d": [2]}));
        assert_eq!(base, json!({"a": {"b": 3}, "d": [2]}));
    }
}
