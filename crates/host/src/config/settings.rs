//! The settings: one struct per group of keys, one field per key.
//!
//! The doc comment of a field documents the key, and the field's type checks the value. Attributes give
//! the rest: `default` (a key without one can be unset), `x-pilcrow-class` (`free` by default; see
//! [`super::keys::Class`]) and `x-pilcrow-variable` where the environment variable differs from
//! `PILCROW_GROUP_KEY`.

use std::collections::BTreeMap;

use agent::{Drain, Steering};
use hashline::{Dialect, ParseRegression};
use llm::ThinkingLevel;
use policy::{ExecOptions, Mode, SandboxMode};
use schemars::JsonSchema;
use serde::Deserialize;
use shell::Tier;
use tools::{ServerStart, Verify, VerifyPolicy};

use super::types::{
    Boolean, Filter, Glob, Integer, OneOf, RuleText, Secret, Secrets, Text, Time, Url, Variable,
};

/// Pilcrow's config.toml
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub model: Model,
    #[serde(default)]
    pub providers: BTreeMap<String, Provider>,
    pub roles: Roles,
    pub retry: Retry,
    #[serde(default)]
    pub thinking: Thinking,
    #[serde(default)]
    pub proxy: Proxy,
    pub edit: Edit,
    pub hashline: Hashline,
    pub tools: Tools,
    pub sessions: Sessions,
    pub editor: Editor,
    pub policy: Policy,
    pub exec: Exec,
    pub lsp: Lsp,
    pub run: Run,
    pub log: Log,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Model to use: `PROVIDER/MODEL`, `planner`, or `script:FILE`.
    /// If unset, Pilcrow uses the model that `model.discovery` finds, else the planner.
    #[schemars(with = "Text", extend("x-pilcrow-variable" = "PILCROW_MODEL"))]
    pub default: Option<Text>,
    /// Context window, in tokens, of models whose window is unknown.
    #[schemars(extend("default" = 128_000))]
    pub context_window: Integer<1_000, 1_000_000_000>,
    /// Whether Pilcrow searches for a model if none is set: first by API keys in the
    /// environment, then by asking servers on this machine (Ollama, LM Studio,
    /// llama.cpp).
    #[schemars(extend("default" = "on"))]
    pub discovery: OneOf<bool>,
}

/// A model provider that the user configured.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// Base URL of the provider NAME, such as `http://localhost:11434/v1`.
    #[schemars(with = "Url", extend("x-pilcrow-class" = "personal"))]
    pub base_url: Option<Url>,
    /// Environment variable that holds the API key of the provider NAME.
    /// The file never contains the key itself.
    #[schemars(with = "Variable", extend("x-pilcrow-class" = "personal"))]
    pub api_key_env: Option<Variable>,
    /// API key of the provider NAME: a text with `${VARIABLE}`s, read on use, or a
    /// command that prints the key, `{ command, ttl, env }`, run again after the time
    /// `ttl`. The file never contains the key itself.
    #[schemars(with = "Secret", extend("x-pilcrow-class" = "personal"))]
    pub api_key: Option<Secret>,
    /// Several API keys for the provider NAME, used in turn. Pilcrow pauses a key that
    /// is refused.
    #[schemars(with = "Secrets", extend("x-pilcrow-class" = "personal"))]
    pub api_keys: Option<Secrets>,
}

impl Provider {
    /// The sources of its API keys.
    pub fn keys(&self) -> Vec<Secret> {
        let several = self.api_keys.iter().flat_map(|secrets| &secrets.0);
        self.api_key.iter().chain(several).cloned().collect()
    }
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Roles {
    /// Roles by the files that a request names, else by those edited last: a list of
    /// `{ glob, role }`; the first match decides. A model named for the request overrides it.
    #[schemars(extend("default" = [], "x-pilcrow-variable" = false))]
    pub paths: Vec<RolePath>,
    #[serde(flatten)]
    pub named: BTreeMap<String, Role>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RolePath {
    pub glob: Glob,
    pub role: String,
}

/// A kind of work, done by a model of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// Model of the role NAME: `default` (if `model.default` is unset), `smol`
    /// (summaries of long conversations), `slow`, `plan`, `commit`, or one of your own.
    /// `--model NAME` selects it.
    #[schemars(with = "Text")]
    pub model: Option<Text>,
    /// Models that take over, in this order, if the role's model is out of quota or
    /// unreachable.
    #[serde(default)]
    pub fallbacks: Vec<Text>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Number of times that a failed request to a model is repeated.
    #[schemars(extend("default" = 5))]
    pub count: Integer<0, 100>,
    /// Wait before the first retry, doubled for each further one, and shortened by up
    /// to a quarter at random.
    #[schemars(extend("default" = "1s"))]
    pub delay: Time<3_600>,
    /// Longest wait before a retry. A request for which the provider asks for a longer
    /// one fails at once.
    #[schemars(extend("default" = "60s"))]
    pub max_delay: Time<86_400>,
    /// Silence of a model after which its answer is requested again. If unset, it is
    /// 120 s, or 300 s for a model that thinks.
    #[schemars(with = "Time<86_400>")]
    pub idle: Option<Time<86_400>>,
    #[serde(default)]
    pub fallback_chains: BTreeMap<String, FallbackChain>,
}

/// Models that take over from NAME (a role, a `PROVIDER/MODEL` or a provider), in
/// this order, after the role's own fallbacks.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct FallbackChain(pub Vec<Text>);

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Thinking {
    #[serde(default)]
    pub budgets: Budgets,
}

type Budget = Integer<1, 10_000_000>;

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budgets {
    /// Tokens for thinking at the level `minimal`, for models with a budget;
    /// 512 by default, or the smallest that the model accepts.
    #[schemars(with = "Budget")]
    pub minimal: Option<Budget>,
    /// As `thinking.budgets.minimal`, for `low`; 1,024 by default.
    #[schemars(with = "Budget")]
    pub low: Option<Budget>,
    /// As `thinking.budgets.minimal`, for `medium`; 8,192 by default.
    #[schemars(with = "Budget")]
    pub medium: Option<Budget>,
    /// As `thinking.budgets.minimal`, for `high`; 32,768 by default, or the model's
    /// maximum.
    #[schemars(with = "Budget")]
    pub high: Option<Budget>,
    /// As `thinking.budgets.minimal`, for `xhigh`; the model's maximum by default.
    #[schemars(with = "Budget")]
    pub xhigh: Option<Budget>,
    /// As `thinking.budgets.minimal`, for `max`; the model's maximum by default.
    #[schemars(with = "Budget")]
    pub max: Option<Budget>,
}

impl Budgets {
    /// Returns the budgets that are set.
    pub(crate) fn by_level(&self) -> BTreeMap<ThinkingLevel, u64> {
        use ThinkingLevel::{High, Low, Max, Medium, Minimal, Xhigh};
        let budgets = [
            (Minimal, self.minimal),
            (Low, self.low),
            (Medium, self.medium),
            (High, self.high),
            (Xhigh, self.xhigh),
            (Max, self.max),
        ];
        budgets.into_iter().filter_map(|(level, budget)| Some((level, budget?.0 as u64))).collect()
    }
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Proxy {
    /// Address of a `pilcrow proxy` that serves all model requests. API keys are needed
    /// only there.
    #[schemars(with = "Url", extend("x-pilcrow-class" = "personal"))]
    pub url: Option<Url>,
    /// Token that the proxy requires, in the forms of `providers.NAME.api_key`.
    #[schemars(with = "Secret", extend("x-pilcrow-class" = "personal", "x-pilcrow-variable" = false))]
    pub token: Option<Secret>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// Whether Pilcrow applies the agent's edits, or proposes them: a file or buffer
    /// changes only when the user keeps a proposal in the review.
    #[schemars(extend("default" = "apply", "x-pilcrow-class" = "policy"))]
    pub mode: OneOf<EditMode>,
    /// Time that an edit waits for its diagnostics after it is made. An event and
    /// the next result report later ones.
    #[schemars(extend("default" = "300ms"))]
    pub wait: Time<300>,
    /// Whether an edit after which a file no longer parses is made with a warning, or
    /// refused.
    #[schemars(extend("default" = "warn"))]
    pub parse_regression: OneOf<ParseRegression>,
    /// Whether language servers check an edit only after it is made, or also before, by
    /// a preview.
    #[schemars(extend("default" = "after"))]
    pub verify: OneOf<Verify>,
    /// Time limit for the checks before an edit is made with `edit.verify = "before"`.
    #[schemars(extend("default" = "10s"))]
    pub verify_wait: Time<300>,
    /// Whether an edit that brings new errors is made and reported, needs the user's
    /// approval, or is not made; needs `edit.verify = "before"`.
    #[schemars(extend("default" = "report"))]
    pub verify_policy: OneOf<VerifyPolicy>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hashline {
    /// Dialect of edits that the model is shown and taught. Pilcrow reads all dialects.
    #[schemars(extend("default" = "put"))]
    pub dialect: OneOf<Dialect>,
    /// Whether shown lines carry their checks (`12mz`) or only their numbers (`12`).
    /// The arrow dialect shows none, the json dialect always does.
    #[schemars(extend("default" = true))]
    pub line_checks: Boolean,
    pub snapshots: Snapshots,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Snapshots {
    /// Number of files whose snapshots are stored.
    #[schemars(extend("default" = 256))]
    pub paths: Integer<1, 100_000>,
    /// Number of snapshots stored for each file.
    #[schemars(extend("default" = 8))]
    pub versions: Integer<1, 1_000>,
    /// Total size of the stored snapshots, in bytes.
    #[schemars(extend("default" = 64 << 20))]
    pub bytes: Integer<65_536, 17_179_869_184>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tools {
    /// Whether the model starts with few tools and finds the others with
    /// `search_tools`, or starts with all tools.
    #[schemars(extend("default" = "on"))]
    pub discovery: OneOf<bool>,
    /// Whether independent tool calls of one response run in parallel.
    #[schemars(extend("default" = "on"))]
    pub parallel: OneOf<bool>,
    /// Tools to enable that are disabled by default, by name or source.
    #[schemars(extend("default" = [], "x-pilcrow-class" = "personal"))]
    pub enable: Vec<Text>,
    /// Tools to disable, by name or source: `builtin`, `mcp`, `mcp:SERVER`.
    #[schemars(extend("default" = [], "x-pilcrow-class" = "personal"))]
    pub disable: Vec<Text>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sessions {
    /// Whether each session entry is flushed to disk before the run continues.
    #[schemars(extend("default" = "off"))]
    pub fsync: OneOf<bool>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Editor {
    /// Markers that begin a comment with a request to Pilcrow.
    #[schemars(extend("default" = ["¶", "pilcrow:"]))]
    pub request_markers: Vec<Text>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Decision for effects that no rule matches: allow, ask, or deny.
    #[schemars(extend("default" = "prompt", "x-pilcrow-class" = "policy"))]
    pub mode: OneOf<Mode>,
    /// Rules such as `allow write docs/**` or `deny exec git push`. The rules of all
    /// sources apply; those of a project can only ask or deny.
    #[schemars(extend("default" = [], "x-pilcrow-class" = "policy"))]
    pub rules: Vec<RuleText>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exec {
    /// Whether the agent may run shell commands.
    #[schemars(extend("default" = "on", "x-pilcrow-class" = "policy"))]
    pub enabled: OneOf<bool>,
    /// Lowest risk tier at which a command line is denied. Pilcrow asks about lower
    /// tiers.
    #[schemars(extend("default" = "high", "x-pilcrow-class" = "policy"))]
    pub deny_threshold: OneOf<Tier>,
    /// Whether the audit log records every command line, not only those that were asked
    /// about, denied, or assigned a class. `on` is the stricter value.
    #[schemars(extend("default" = "off", "x-pilcrow-class" = "policy", "enum" = ["off", "on"]))]
    pub audit_all: OneOf<bool>,
    /// Whether commands run in a sandbox: never, in the best one that works here, or
    /// only in one.
    #[schemars(extend("default" = "auto", "x-pilcrow-class" = "policy"))]
    pub sandbox: OneOf<SandboxMode>,
    /// Memory limit, in MiB, for one command, test run or debugged program (with its
    /// debugger) and what it starts; 0 sets none. Pilcrow ends one that takes more (Linux only).
    #[schemars(extend("default" = 0))]
    pub max_memory: Integer<0, 1_048_576>,
}

impl Exec {
    pub fn options(&self) -> ExecOptions {
        ExecOptions {
            enabled: self.enabled.0,
            deny_threshold: self.deny_threshold.0,
            audit_all: self.audit_all.0,
            sandbox: self.sandbox.0,
            max_memory: u64::try_from(self.max_memory.0)
                .ok()
                .filter(|mebibytes| *mebibytes > 0)
                .map(|it| it << 20),
        }
    }
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lsp {
    /// Time without a request after which a language server is stopped.
    #[schemars(extend("default" = "10m"))]
    pub idle_stop: Time<86_400>,
    /// Maximum number of running language servers. Pilcrow stops the least recently
    /// used first.
    #[schemars(extend("default" = 4))]
    pub max_warm: Integer<1, 64>,
    /// Memory limit, in MiB, for all language servers and their child processes
    /// together. Above it Pilcrow starts none, and stops the least recently used one, but
    /// never the last one or one in use.
    #[schemars(extend("default" = 2048))]
    pub max_memory: Integer<64, 1_048_576>,
    /// Time limit for a call of the tool `lsp` without a `timeout`.
    /// A request about one position may take a third of it.
    #[schemars(extend("default" = "60s"))]
    pub timeout: Time<300>,
    /// Event that starts the language servers of a file: the first request (`use`), a
    /// change by a tool (`edit`), or a read by a tool (`read`).
    #[schemars(extend("default" = "edit"))]
    pub start: OneOf<ServerStart>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Maximum number of model responses in a run.
    #[schemars(extend("default" = 200))]
    pub turn_limit: Integer<1, 100_000>,
    /// Whether a message sent during a run waits for pending tool calls (`after_turn`)
    /// or skips those that have not started (`interrupt`).
    #[schemars(extend("default" = "after_turn"))]
    pub steering: OneOf<Steering>,
    /// Number of queued messages that a run receives at once.
    #[schemars(extend("default" = "one"))]
    pub queue: OneOf<Drain>,
    /// Whether unsaved files are reported with a command's result (`tell`), or the user
    /// is asked before the command runs (`ask`).
    #[schemars(extend("default" = "tell"))]
    pub on_unsaved: OneOf<OnUnsaved>,
}

/// Whether edits are made or proposed to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditMode {
    Apply,
    Propose,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnsaved {
    Tell,
    Ask,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// Filter of the log file, such as `info,lsp_client=debug`.
    #[schemars(extend("default" = "info", "x-pilcrow-variable" = "PILCROW_LOG"))]
    pub filter: Filter,
}
