//! The configuration: the value of each key, and its origin.
//!
//! The sources are, weakest first: default, the user's `config.toml`, the editor's settings, the project's
//! `.pilcrow/config.toml` (only in a trusted workspace), environment, flags. `merge` applies the class of
//! a key: the strongest source decides a *free* key, the strictest value a *policy* key, and a project
//! never sets a *personal* key. [`Settings`] declares all keys; there is no other list.

mod keys;
mod merge;
mod settings;
mod show;
mod source;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the files they need")]
mod tests;
mod types;

use std::collections::{BTreeMap, BTreeSet};

use paths::AbsPath;
use policy::Rule;

pub use keys::schema;
pub use settings::{EditMode, OnUnsaved, Provider, Settings};
pub use source::{ConfigError, Flag};
pub use types::{KeyCommand, Secret, Text, Time};

/// The source that set a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    /// A file of the user.
    User {
        path: AbsPath,
        /// Line number, from 1.
        line: usize,
    },
    /// The editor's settings.
    ///
    /// An editor does not say which of them its workspace folder set, so they count as a project's.
    Editor,
    /// A file of the project.
    Project {
        path: AbsPath,
        /// Line number, from 1.
        line: usize,
    },
    /// An environment variable.
    Environment {
        name: String,
    },
    /// A flag of the command line.
    Flag {
        /// The flag as the user types it, such as `--model`.
        name: String,
    },
}

impl Origin {
    /// Whether an author other than the user may have written the value.
    ///
    /// Such a value can tighten a setting, never loosen it.
    fn is_shared(&self) -> bool {
        matches!(self, Self::Project { .. } | Self::Editor)
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Editor => f.write_str("editor"),
            Self::User { path, line } | Self::Project { path, line } => write!(f, "{path}:{line}"),
            Self::Environment { name } | Self::Flag { name } => f.write_str(name),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    value: serde_json::Value,
    /// Origins of the value: one for each element of a list, at least one.
    origins: Vec<Origin>,
}

/// The values of all keys, with their origins.
#[derive(Debug, Clone)]
pub struct Config {
    pub values: Settings,
    /// Values as written, by path; keys without a value are absent.
    layers: BTreeMap<Vec<String>, Setting>,
    /// Ignored values and the reasons, for the user.
    pub warnings: Vec<String>,
}

/// The errors of all sources, one line each.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl Config {
    /// Reads all sources of the configuration.
    ///
    /// The sources are the user's file in `home` (Pilcrow's configuration directory), the editor's settings,
    /// the project's file below `root` if `trusted`, the environment and `flags`. Blocks for two small files.
    /// Problems in the editor's settings are warnings.
    ///
    /// # Errors
    /// All other problems, with file and line.
    pub fn load(
        home: &AbsPath,
        editor: Option<&serde_json::Value>,
        root: Option<&AbsPath>,
        trusted: bool,
        flags: &[Flag],
    ) -> Result<Self, ConfigErrors> {
        let mut sources = source::Sources::default();
        sources.file(&home.join("config.toml"), &[], |path, line| Origin::User { path, line });
        if let Some(editor) = editor {
            sources.editor(editor);
        }
        if let Some(path) = root.map(|root| root.join(".pilcrow/config.toml")) {
            if trusted {
                sources.file(&path, &[], |path, line| Origin::Project { path, line });
            } else if path.as_path().exists() {
                let reason = "the workspace is not trusted; run `pilcrow trust`";
                sources.warnings.push(format!("{path} is ignored: {reason}"));
            }
        }
        sources.environment(
            std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
        );
        sources.flags(flags);
        merge::merge(sources)
    }

    /// Adds the `tools.toml` of an agent's directory to the configuration.
    ///
    /// The file holds keys of the group `tools`. Environment and flags override it. Blocks for a small file.
    ///
    /// # Errors
    /// All problems of the file, with their lines.
    pub fn for_agent(&self, directory: &AbsPath) -> Result<Self, ConfigErrors> {
        let mut sources = source::Sources::default();
        sources.file(&directory.join("tools.toml"), &["tools"], |path, line| Origin::User { path, line });
        merge::overlay(self, sources)
    }

    /// Names the keys with another value in `other`.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let value =
            |config: &Self, path: &[String]| config.layers.get(path).map(|setting| setting.value.clone());
        let paths: BTreeSet<_> = self.layers.keys().chain(other.layers.keys()).collect();
        let changed = paths.into_iter().filter(|path| value(self, path) != value(other, path));
        changed.map(|path| path.join(".")).collect()
    }

    /// Returns the model that `model.default` or the role `default` names.
    pub(crate) fn default_model(&self) -> Option<&str> {
        let role = || self.values.roles.named.get("default").and_then(|role| role.model.as_ref());
        self.values.model.default.as_ref().or_else(role).map(|model| model.0.as_str())
    }

    /// Returns `policy.rules`; those of a project can only tighten.
    pub fn rules(&self) -> Vec<Rule> {
        let path = ["policy", "rules"].map(str::to_owned);
        let Some(setting) = self.layers.get(path.as_slice()) else { return Vec::new() };
        let rules = self.values.policy.rules.iter().zip(&setting.origins);
        rules
            .filter_map(|(text, origin)| {
                let rule = Rule::parse(&text.0, &origin.to_string()).ok()?;
                Some(if origin.is_shared() { rule.tightening() } else { rule })
            })
            .collect()
    }
}
