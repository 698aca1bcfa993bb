//! The configuration: which value each key has, and where it comes from.
//!
//! Sources, weakest first: default, the person's `config.toml`, the editor's settings, the project's
//! `.pilcrow/config.toml` (only in a trusted workspace), environment, flags. What a key's class makes of them is in `merge`:
//! *free* keys go by precedence, *policy* keys take the strictest, *personal* keys never come from a
//! project. [`keys::KEYS`] is the one table; nothing is read that is not in it, and whoever needs a
//! value asks one of the methods of [`Config`].

mod keys;
mod merge;
mod schema;
mod show;
mod source;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the files they need")]
mod tests;
mod value;

use std::collections::BTreeMap;
use std::time::Duration;

use agent::{Drain, Steering};
use hashline::{ParseRegression, View};
use paths::AbsPath;
use policy::{ExecOptions, Mode, Rule};
use shell::Tier;
use tools::{ServerStart, Verify, VerifyPolicy};

pub use keys::distance;
pub use schema::schema;
pub use source::{ConfigError, Flag};
pub use value::{KeyCommand, Value};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    /// A file of the person.
    Person {
        path: AbsPath,
        /// 1-based.
        line: usize,
    },
    /// The editor's settings. Which of them its folder set cannot be told, so they may do what a
    /// project may.
    Editor,
    /// A file of the project.
    Project {
        path: AbsPath,
        /// 1-based.
        line: usize,
    },
    /// A variable of the environment.
    Environment {
        name: String,
    },
    /// A flag of the command line.
    Flag {
        /// As it is typed: `--model`.
        name: String,
    },
}

impl Origin {
    /// Whether someone other than the person may have written it: it can tighten, never loosen.
    fn is_shared(&self) -> bool {
        matches!(self, Self::Project { .. } | Self::Editor)
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Editor => f.write_str("editor"),
            Self::Person { path, line } | Self::Project { path, line } => write!(f, "{path}:{line}"),
            Self::Environment { name } | Self::Flag { name } => f.write_str(name),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    value: Value,
    /// Of a list that several sources add to, one for each element; else one.
    origins: Vec<Origin>,
}

/// Every key's value. Made once at start.
#[derive(Debug, Clone)]
pub struct Config {
    /// By full name; keys without default that nobody set are not in it.
    settings: BTreeMap<String, Setting>,
    /// What was ignored and why, for the person.
    pub warnings: Vec<String>,
}

/// A model provider that the person configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provider {
    /// Where it answers, without the last `/`.
    pub base_url: Option<String>,
    /// The variable that holds its key.
    pub api_key_env: Option<String>,
    /// What else its keys are read from; none unless the person says so.
    pub keys: Vec<Secret>,
}

/// What a key is read from when it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Secret {
    /// A text with `${NAME}`s.
    Variables(String),
    /// What a command prints.
    Command(KeyCommand),
}

impl Secret {
    fn all(value: &Value) -> Vec<Secret> {
        match value {
            Value::Text(text) => vec![Secret::Variables(text.clone())],
            Value::List(texts) => texts.iter().cloned().map(Secret::Variables).collect(),
            Value::Command(command) => vec![Secret::Command(command.clone())],
            _ => Vec::new(),
        }
    }
}

/// What does a kind of work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Role {
    /// The model; the usual one without.
    pub model: Option<String>,
    /// Those that take over from it.
    pub fallbacks: Vec<String>,
}

/// Everything that did not fit, one line each.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl Config {
    /// Reads the person's file in `home` (our configuration folder), the editor's settings, the
    /// project's file below `root` if `trusted`, the environment and `flags`. Blocks for two small
    /// files. What does not fit in the editor's settings is a warning: other programs' keys may stand
    /// beside ours.
    ///
    /// # Errors
    /// Everything else that does not fit, with file and line.
    pub fn load(
        home: &AbsPath,
        editor: Option<&serde_json::Value>,
        root: Option<&AbsPath>,
        trusted: bool,
        flags: &[Flag],
    ) -> Result<Self, ConfigErrors> {
        let person = home.join("config.toml");
        let project = root.map(|root| root.join(".pilcrow/config.toml"));
        let mut sources = source::Sources::default();
        sources.person(&person);
        if let Some(editor) = editor {
            sources.editor(editor);
        }
        let untrusted = project.as_ref().filter(|path| !trusted && path.as_path().exists());
        if let Some(path) = untrusted {
            sources
                .warnings
                .push(format!("{path} is ignored: the workspace is not trusted (`pilcrow trust`)"));
        } else if let Some(path) = &project {
            sources.project(path);
        }
        sources.environment(
            std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
        );
        sources.flags(flags);
        merge::merge(sources)
    }

    /// The same with the `tools.toml` of an agent's folder laid over it; environment and flags count over that. Blocks for a small
    /// file.
    ///
    /// # Errors
    /// Everything in the file that does not fit, with its line.
    pub fn for_agent(&self, folder: &AbsPath) -> Result<Self, ConfigErrors> {
        let mut sources = source::Sources::default();
        sources.agent(&folder.join("tools.toml"));
        merge::over(self, sources)
    }

    /// The names of the keys that the other has otherwise.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let names: std::collections::BTreeSet<&String> =
            self.settings.keys().chain(other.settings.keys()).collect();
        let value = |of: &Self, name: &str| of.get(name).cloned();
        names.into_iter().filter(|name| value(self, name) != value(other, name)).cloned().collect()
    }

    /// `model.default`: the model asked when nothing else names one.
    pub fn model(&self) -> Option<&str> {
        self.get("model.default").map(Value::text)
    }

    /// `model.context_window`: tokens of a model that does not say its own.
    pub fn context_window(&self) -> u64 {
        self.set("model.context_window").size() as u64
    }

    /// `providers.NAME.…`, by name.
    pub fn providers(&self) -> BTreeMap<String, Provider> {
        let mut providers: BTreeMap<String, Provider> = BTreeMap::new();
        for (name, setting) in self.settings.range("providers.".to_owned()..) {
            let Some((provider, field)) =
                name.strip_prefix("providers.").and_then(|rest| rest.rsplit_once('.'))
            else {
                break;
            };
            let provider = providers.entry(provider.to_owned()).or_default();
            match field {
                "base_url" => {
                    provider.base_url = Some(setting.value.text().trim_end_matches('/').to_owned());
                }
                "api_key_env" => provider.api_key_env = Some(setting.value.text().to_owned()),
                _ => provider.keys.extend(Secret::all(&setting.value)),
            }
        }
        providers
    }

    /// `model.discovery`: whether a model is looked for where none is set.
    pub fn discovers_models(&self) -> bool {
        self.set("model.discovery").text() == "on"
    }

    /// `roles.NAME.…`, by name.
    pub fn roles(&self) -> BTreeMap<String, Role> {
        let mut roles: BTreeMap<String, Role> = BTreeMap::new();
        for (name, value) in self.below("roles.") {
            let Some((role, field)) = name.rsplit_once('.') else { continue };
            let role = roles.entry(role.to_owned()).or_default();
            match field {
                "model" => role.model = Some(value.text().to_owned()),
                _ => role.fallbacks = value.list().to_vec(),
            }
        }
        roles
    }

    /// `roles.paths`: globs, and the role that each gives.
    pub fn role_paths(&self) -> &[(String, String)] {
        match self.get("roles.paths") {
            Some(Value::Paths(paths)) => paths,
            _ => &[],
        }
    }

    /// `retry.fallback_chains.NAME`.
    pub fn fallback_chain(&self, name: &str) -> &[String] {
        self.get(&format!("retry.fallback_chains.{name}")).map(Value::list).unwrap_or_default()
    }

    /// `thinking.budgets.…` that are set.
    pub fn thinking_budgets(&self) -> BTreeMap<llm::ThinkingLevel, u64> {
        let budgets = self.below("thinking.budgets.");
        budgets
            .filter_map(|(name, value)| Some((llm::ThinkingLevel::named(name)?, value.size() as u64)))
            .collect()
    }

    /// `proxy.url` and `proxy.token`.
    pub fn proxy(&self) -> Option<(String, Vec<Secret>)> {
        let url = self.get("proxy.url")?.text().trim_end_matches('/').to_owned();
        Some((url, self.get("proxy.token").map(Secret::all).unwrap_or_default()))
    }

    /// The settings whose names begin with this, by the rest of them.
    fn below<'a>(&'a self, group: &'a str) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let settings = self.settings.range(group.to_owned()..);
        settings.map_while(move |(name, setting)| Some((name.strip_prefix(group)?, &setting.value)))
    }

    /// `edit.diagnostics_wait`: how long an edit waits for the diagnostics it caused.
    pub fn diagnostics_wait(&self) -> Duration {
        self.set("edit.diagnostics_wait").duration()
    }

    /// `edit.parse_regression`: what becomes of an edit after which a file that parsed does not.
    pub fn parse_regression(&self) -> ParseRegression {
        match self.set("edit.parse_regression").text() {
            "refuse" => ParseRegression::Refuse,
            _ => ParseRegression::Warn,
        }
    }

    /// `tools.discovery`: whether a model is told of few tools and finds the others.
    pub fn searches_tools(&self) -> bool {
        self.set("tools.discovery").text() == "on"
    }

    /// `tools.parallel`: whether calls of one answer run at once where they can.
    pub fn runs_tools_at_once(&self) -> bool {
        self.set("tools.parallel").text() == "on"
    }

    /// `tools.enable`: which tools are there though they are off by themselves.
    pub fn enabled_tools(&self) -> Vec<String> {
        self.set("tools.enable").list().to_vec()
    }

    /// `tools.disable`: which tools are not there.
    pub fn disabled_tools(&self) -> Vec<String> {
        self.set("tools.disable").list().to_vec()
    }

    /// `sessions.fsync`: whether each entry is flushed to the disk.
    pub fn syncs_sessions(&self) -> bool {
        self.set("sessions.fsync").text() == "on"
    }

    /// `edit.verify`: whether an edit is tried before it is made.
    pub fn verify(&self) -> Verify {
        match self.set("edit.verify").text() {
            "before" => Verify::Before,
            _ => Verify::After,
        }
    }

    /// `edit.verify_policy`: what becomes of an edit that a trial found new errors for.
    pub fn verify_policy(&self) -> VerifyPolicy {
        match self.set("edit.verify_policy").text() {
            "ask" => VerifyPolicy::Ask,
            "no_new_errors" => VerifyPolicy::NoNewErrors,
            _ => VerifyPolicy::Report,
        }
    }

    /// `hashline.dialect` and `hashline.line_checks`: how lines are shown, and edits are written.
    pub fn view(&self) -> View {
        View {
            dialect: self.set("hashline.dialect").text().parse().unwrap_or_default(),
            checks: self.set("hashline.line_checks").bool(),
        }
    }

    /// `hashline.snapshots.paths`: files whose shown text is kept.
    pub fn snapshot_paths(&self) -> usize {
        self.set("hashline.snapshots.paths").size()
    }

    /// `hashline.snapshots.versions`: versions kept of each.
    pub fn snapshot_versions(&self) -> usize {
        self.set("hashline.snapshots.versions").size()
    }

    /// `hashline.snapshots.bytes`: bytes kept in all.
    pub fn snapshot_bytes(&self) -> usize {
        self.set("hashline.snapshots.bytes").size()
    }

    /// `editor.request_markers`: what a comment begins with that is a request.
    pub fn request_markers(&self) -> &[String] {
        self.set("editor.request_markers").list()
    }

    /// `policy.mode`.
    pub fn mode(&self) -> Mode {
        merge::mode(self.set("policy.mode").text())
    }

    /// `policy.rules`; those of a project can only tighten.
    pub fn rules(&self) -> Vec<Rule> {
        let Some(setting) = self.settings.get("policy.rules") else { return Vec::new() };
        let lines = setting.value.list().iter().zip(&setting.origins);
        lines
            .filter_map(|(text, origin)| {
                let rule = Rule::parse(text, &origin.to_string()).ok()?;
                Some(if origin.is_shared() { rule.tightening() } else { rule })
            })
            .collect()
    }

    /// `exec.*`: what holds for command lines.
    pub fn exec(&self) -> ExecOptions {
        ExecOptions {
            enabled: self.set("exec.enabled").text() == "on",
            deny_threshold: match self.set("exec.deny_threshold").text() {
                "critical" => Tier::Critical,
                "medium" => Tier::Medium,
                _ => Tier::High,
            },
            audit_all: self.set("exec.audit_all").text() == "on",
        }
    }

    /// `run.on_unsaved`: whether the person is asked before a command runs while files are not saved.
    pub fn asks_on_unsaved(&self) -> bool {
        self.set("run.on_unsaved").text() == "ask"
    }

    /// `lsp.idle_stop`: after how long an unused server is stopped.
    pub fn idle_stop(&self) -> Duration {
        self.set("lsp.idle_stop").duration()
    }

    /// `lsp.timeout`: what a call of the tool may take.
    pub fn request_timeout(&self) -> Duration {
        self.set("lsp.timeout").duration()
    }

    /// `lsp.max_warm`: how many servers run at once.
    pub fn max_warm(&self) -> usize {
        self.set("lsp.max_warm").size()
    }

    /// `lsp.start`: from when on the servers of a file are started.
    pub fn server_start(&self) -> ServerStart {
        match self.set("lsp.start").text() {
            "use" => ServerStart::Use,
            "read" => ServerStart::Read,
            _ => ServerStart::Edit,
        }
    }

    /// `lsp.max_memory`: bytes that all servers may hold together.
    pub fn max_memory(&self) -> u64 {
        (self.set("lsp.max_memory").size() as u64) << 20
    }

    /// `run.turn_limit`: answers of the model in one run.
    pub fn turn_limit(&self) -> usize {
        self.set("run.turn_limit").size()
    }

    /// `run.steering`: what words to a run that goes on do to the calls of its turn.
    pub fn steering(&self) -> Steering {
        match self.set("run.steering").text() {
            "interrupt" => Steering::Interrupt,
            _ => Steering::AfterTurn,
        }
    }

    /// `run.queue`: how many of the words that wait are delivered at once.
    pub fn drain(&self) -> Drain {
        match self.set("run.queue").text() {
            "all" => Drain::All,
            _ => Drain::One,
        }
    }

    /// `log.filter`: what is logged, in the words of `PILCROW_LOG`.
    pub fn log_filter(&self) -> &str {
        self.set("log.filter").text()
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.settings.get(name).map(|setting| &setting.value)
    }

    /// A key with a default.
    fn set(&self, name: &str) -> &Value {
        self.get(name).expect("the table gives this key a default")
    }
}
