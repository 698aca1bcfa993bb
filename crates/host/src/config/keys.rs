//! The table of all keys: the only place where one is named with its class, type, default and meaning.

use super::value::Kind;

/// Whose word counts for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The source that stands last in the order.
    Free,
    /// The strictest of all: nobody loosens what another set.
    Policy,
    /// The person only; a project may not set it.
    Personal,
}

impl Class {
    /// As the schema and `config show` spell it.
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
    /// Its full name; a part `NAME` stands for any name.
    pub name: &'static str,
    pub class: Class,
    pub kind: Kind,
    /// In the form of a TOML value; `None`: not set.
    pub default: Option<&'static str>,
    /// The variable that sets it; `None`: cannot be set by one.
    pub variable: Option<&'static str>,
    pub doc: &'static str,
}

/// The newest `format` of the file.
pub const FORMAT: i64 = 1;

pub const KEYS: &[Key] = &[
    Key {
        name: "model.default",
        class: Class::Free,
        kind: Kind::Text,
        default: None,
        variable: Some("PILCROW_MODEL"),
        doc: "The model to ask: `PROVIDER/MODEL`, `planner`, or `script:FILE`. Not set: what `model.discovery` finds, else the planner.",
    },
    Key {
        name: "model.context_window",
        class: Class::Free,
        kind: Kind::Integer { least: 1_000, most: 1_000_000_000 },
        default: Some("128000"),
        variable: Some("PILCROW_MODEL_CONTEXT_WINDOW"),
        doc: "Tokens that fit into the window of a model of which that is not known.",
    },
    Key {
        name: "providers.NAME.base_url",
        class: Class::Personal,
        kind: Kind::Url,
        default: None,
        variable: None,
        doc: "Where the provider NAME answers, such as `http://localhost:11434/v1`.",
    },
    Key {
        name: "providers.NAME.api_key_env",
        class: Class::Personal,
        kind: Kind::Variable,
        default: None,
        variable: None,
        doc: "The variable of the environment that holds the key for provider NAME. Keys themselves are never written here.",
    },
    Key {
        name: "providers.NAME.api_key",
        class: Class::Personal,
        kind: Kind::Secret,
        default: None,
        variable: None,
        doc: "The key for provider NAME: a text with `${VARIABLE}`s, read when it is used, or `{ command, ttl, env }`: what a command prints, good for the time `ttl`. Keys themselves are never written here.",
    },
    Key {
        name: "providers.NAME.api_keys",
        class: Class::Personal,
        kind: Kind::Secrets,
        default: None,
        variable: None,
        doc: "Several keys for provider NAME, used in turn; one that is refused is left alone for a while.",
    },
    Key {
        name: "model.discovery",
        class: Class::Free,
        kind: Kind::Choice(&["on", "off"]),
        default: Some("\"on\""),
        variable: Some("PILCROW_MODEL_DISCOVERY"),
        doc: "Whether a model is looked for where none is set: by the keys in the environment, then by asking servers on this machine (Ollama, LM Studio, llama.cpp).",
    },
    Key {
        name: "roles.NAME.model",
        class: Class::Free,
        kind: Kind::Text,
        default: None,
        variable: None,
        doc: "The model of the role NAME: `default` (where `model.default` is not set), `smol` (for summaries of long conversations), `slow`, `plan`, `commit`, or one of your own; `--model NAME` asks it.",
    },
    Key {
        name: "roles.NAME.fallbacks",
        class: Class::Free,
        kind: Kind::Texts,
        default: None,
        variable: None,
        doc: "Models that take over, in this order, where the one of the role is out of quota or cannot be reached.",
    },
    Key {
        name: "roles.paths",
        class: Class::Free,
        kind: Kind::Paths,
        default: Some("[]"),
        variable: None,
        doc: "Which role a request gets by the files that it names, else by those edited last: a list of `{ glob, role }`, of which the first that fits counts. A model that is named for the request counts over it.",
    },
    Key {
        name: "retry.fallback_chains.NAME",
        class: Class::Free,
        kind: Kind::Texts,
        default: None,
        variable: None,
        doc: "Models that take over from NAME, a role, a `PROVIDER/MODEL` or a provider, in this order, after the role's own fallbacks.",
    },
    Key {
        name: "thinking.budgets.minimal",
        class: Class::Free,
        kind: Kind::Integer { least: 1, most: 10_000_000 },
        default: None,
        variable: Some("PILCROW_THINKING_BUDGETS_MINIMAL"),
        doc: "Tokens for thinking at the level `minimal`, for models that are given a budget; 512 by default, or the least that is taken.",
    },
    Key {
        name: "thinking.budgets.low",
        class: Class::Free,
        kind: Kind::Integer { least: 1, most: 10_000_000 },
        default: None,
        variable: Some("PILCROW_THINKING_BUDGETS_LOW"),
        doc: "As `thinking.budgets.minimal`, for `low`; 1,024 by default.",
    },
    Key {
        name: "thinking.budgets.medium",
        class: Class::Free,
        kind: Kind::Integer { least: 1, most: 10_000_000 },
        default: None,
        variable: Some("PILCROW_THINKING_BUDGETS_MEDIUM"),
        doc: "As `thinking.budgets.minimal`, for `medium`; 8,192 by default.",
    },
    Key {
        name: "thinking.budgets.high",
        class: Class::Free,
        kind: Kind::Integer { least: 1, most: 10_000_000 },
        default: None,
        variable: Some("PILCROW_THINKING_BUDGETS_HIGH"),
        doc: "As `thinking.budgets.minimal`, for `high`; 32,768 by default, or the most that the model takes.",
    },
    Key {
        name: "thinking.budgets.xhigh",
        class: Class::Free,
        kind: Kind::Integer { least: 1, most: 10_000_000 },
        default: None,
        variable: Some("PILCROW_THINKING_BUDGETS_XHIGH"),
        doc: "As `thinking.budgets.minimal`, for `xhigh`; the most that the model takes by default.",
    },
    Key {
        name: "thinking.budgets.max",
        class: Class::Free,
        kind: Kind::Integer { least: 1, most: 10_000_000 },
        default: None,
        variable: Some("PILCROW_THINKING_BUDGETS_MAX"),
        doc: "As `thinking.budgets.minimal`, for `max`; the most that the model takes by default.",
    },
    Key {
        name: "proxy.url",
        class: Class::Personal,
        kind: Kind::Url,
        default: None,
        variable: Some("PILCROW_PROXY_URL"),
        doc: "The address of a `pilcrow proxy` that is asked in the place of the providers; keys are needed there only.",
    },
    Key {
        name: "proxy.token",
        class: Class::Personal,
        kind: Kind::Secret,
        default: None,
        variable: None,
        doc: "The token that the proxy wants, in the forms of `providers.NAME.api_key`.",
    },
    Key {
        name: "edit.diagnostics_wait",
        class: Class::Free,
        kind: Kind::Duration { most_secs: 300 },
        default: Some("\"3s\""),
        variable: Some("PILCROW_EDIT_DIAGNOSTICS_WAIT"),
        doc: "How long an edit waits for the diagnostics that it caused, up to four times as long with many files; what comes later is told with the next result.",
    },
    Key {
        name: "edit.parse_regression",
        class: Class::Free,
        kind: Kind::Choice(&["warn", "refuse"]),
        default: Some("\"warn\""),
        variable: Some("PILCROW_EDIT_PARSE_REGRESSION"),
        doc: "What is done with an edit after which a file that parsed would not: made with a warning, or refused.",
    },
    Key {
        name: "edit.verify",
        class: Class::Free,
        kind: Kind::Choice(&["after", "before"]),
        default: Some("\"after\""),
        variable: Some("PILCROW_EDIT_VERIFY"),
        doc: "When language servers are asked about an edit: after it is made, or before too, by showing it to them alone and taking that back.",
    },
    Key {
        name: "edit.verify_policy",
        class: Class::Free,
        kind: Kind::Choice(&["report", "ask", "no_new_errors"]),
        default: Some("\"report\""),
        variable: Some("PILCROW_EDIT_VERIFY_POLICY"),
        doc: "With `edit.verify = \"before\"`, what becomes of an edit that brings new errors: made and told, asked about, or not made.",
    },
    Key {
        name: "hashline.dialect",
        class: Class::Free,
        kind: Kind::Choice(&["put", "arrow", "json"]),
        default: Some("\"put\""),
        variable: Some("PILCROW_HASHLINE_DIALECT"),
        doc: "The form in which lines are shown and the model is taught to edit; every form is read.",
    },
    Key {
        name: "hashline.line_checks",
        class: Class::Free,
        kind: Kind::Bool,
        default: Some("true"),
        variable: Some("PILCROW_HASHLINE_LINE_CHECKS"),
        doc: "Whether shown lines carry their checks (`12mz:`) or only their numbers (`12:`). The arrow dialect shows none, the json dialect always does.",
    },
    Key {
        name: "hashline.snapshots.paths",
        class: Class::Free,
        kind: Kind::Integer { least: 1, most: 100_000 },
        default: Some("256"),
        variable: Some("PILCROW_HASHLINE_SNAPSHOTS_PATHS"),
        doc: "Of how many files the text that was shown is kept.",
    },
    Key {
        name: "hashline.snapshots.versions",
        class: Class::Free,
        kind: Kind::Integer { least: 1, most: 1_000 },
        default: Some("8"),
        variable: Some("PILCROW_HASHLINE_SNAPSHOTS_VERSIONS"),
        doc: "How many versions are kept of each file.",
    },
    Key {
        name: "hashline.snapshots.bytes",
        class: Class::Free,
        kind: Kind::Integer { least: 65_536, most: 17_179_869_184 },
        default: Some("67108864"),
        variable: Some("PILCROW_HASHLINE_SNAPSHOTS_BYTES"),
        doc: "How many bytes of kept text there are in all.",
    },
    Key {
        name: "tools.discovery",
        class: Class::Free,
        kind: Kind::Choice(&["on", "off"]),
        default: Some("\"on\""),
        variable: Some("PILCROW_TOOLS_DISCOVERY"),
        doc: "Whether a model is told of few tools at first and finds the others by `search_tools`, or of all of them at once.",
    },
    Key {
        name: "tools.parallel",
        class: Class::Free,
        kind: Kind::Choice(&["on", "off"]),
        default: Some("\"on\""),
        variable: Some("PILCROW_TOOLS_PARALLEL"),
        doc: "Whether calls of one answer that do not get in each other's way run at once, or all of them one after the other.",
    },
    Key {
        name: "tools.enable",
        class: Class::Personal,
        kind: Kind::Texts,
        default: Some("[]"),
        variable: Some("PILCROW_TOOLS_ENABLE"),
        doc: "Tools that are there though they are off by themselves, by name or by where they come from.",
    },
    Key {
        name: "tools.disable",
        class: Class::Personal,
        kind: Kind::Texts,
        default: Some("[]"),
        variable: Some("PILCROW_TOOLS_DISABLE"),
        doc: "Tools that are not there, by name or by where they come from: `builtin`, `mcp`, `mcp:SERVER`.",
    },
    Key {
        name: "sessions.fsync",
        class: Class::Free,
        kind: Kind::Choice(&["on", "off"]),
        default: Some("\"off\""),
        variable: Some("PILCROW_SESSIONS_FSYNC"),
        doc: "Whether each entry of a session is flushed to the disk before the run goes on.",
    },
    Key {
        name: "editor.request_markers",
        class: Class::Free,
        kind: Kind::Texts,
        default: Some("[\"¶\", \"pilcrow:\"]"),
        variable: Some("PILCROW_EDITOR_REQUEST_MARKERS"),
        doc: "What a comment begins with that is a request to Pilcrow.",
    },
    Key {
        name: "policy.mode",
        class: Class::Policy,
        kind: Kind::Choice(&["permissive", "prompt", "strict"]),
        default: Some("\"prompt\""),
        variable: Some("PILCROW_POLICY_MODE"),
        doc: "What is done with an effect that no rule names: allowed, asked, denied.",
    },
    Key {
        name: "policy.rules",
        class: Class::Policy,
        kind: Kind::Rules,
        default: Some("[]"),
        variable: Some("PILCROW_POLICY_RULES"),
        doc: "Rules such as `allow write docs/**` or `deny exec git push`. Those of all sources hold; a project can only ask or deny.",
    },
    Key {
        name: "exec.enabled",
        class: Class::Policy,
        kind: Kind::Choice(&["on", "off"]),
        default: Some("\"on\""),
        variable: Some("PILCROW_EXEC_ENABLED"),
        doc: "Whether the agent may run commands of a shell at all.",
    },
    Key {
        name: "exec.deny_threshold",
        class: Class::Policy,
        kind: Kind::Choice(&["critical", "high", "medium"]),
        default: Some("\"high\""),
        variable: Some("PILCROW_EXEC_DENY_THRESHOLD"),
        doc: "From which tier on what a command line does is denied; below it is asked.",
    },
    Key {
        name: "exec.audit_all",
        class: Class::Policy,
        kind: Kind::Choice(&["off", "on"]),
        default: Some("\"off\""),
        variable: Some("PILCROW_EXEC_AUDIT_ALL"),
        doc: "Whether every command line is in the audit log, not only those that were asked, denied, or found to do something of a class.",
    },
    Key {
        name: "lsp.idle_stop",
        class: Class::Free,
        kind: Kind::Duration { most_secs: 86_400 },
        default: Some("\"10m\""),
        variable: Some("PILCROW_LSP_IDLE_STOP"),
        doc: "After how long without a request a language server is stopped.",
    },
    Key {
        name: "lsp.max_warm",
        class: Class::Free,
        kind: Kind::Integer { least: 1, most: 64 },
        default: Some("4"),
        variable: Some("PILCROW_LSP_MAX_WARM"),
        doc: "How many language servers run at once; the least used is stopped first.",
    },
    Key {
        name: "lsp.max_memory",
        class: Class::Free,
        kind: Kind::Integer { least: 64, most: 1_048_576 },
        default: Some("2048"),
        variable: Some("PILCROW_LSP_MAX_MEMORY"),
        doc: "Memory in MiB that the language servers may hold together, with what they start; beyond it the least used is stopped, the last one never.",
    },
    Key {
        name: "lsp.timeout",
        class: Class::Free,
        kind: Kind::Duration { most_secs: 300 },
        default: Some("\"60s\""),
        variable: Some("PILCROW_LSP_TIMEOUT"),
        doc: "What a call of the tool `lsp` may take in all, where it gives no `timeout`; a question about one place may take a third of it.",
    },
    Key {
        name: "lsp.start",
        class: Class::Free,
        kind: Kind::Choice(&["use", "edit", "read"]),
        default: Some("\"edit\""),
        variable: Some("PILCROW_LSP_START"),
        doc: "When the language servers of a file are started: when they are asked, when a tool changes the file, or already when it reads it.",
    },
    Key {
        name: "run.turn_limit",
        class: Class::Free,
        kind: Kind::Integer { least: 1, most: 100_000 },
        default: Some("200"),
        variable: Some("PILCROW_RUN_TURN_LIMIT"),
        doc: "How many answers of the model a run may have.",
    },
    Key {
        name: "run.steering",
        class: Class::Free,
        kind: Kind::Choice(&["after_turn", "interrupt"]),
        default: Some("\"after_turn\""),
        variable: Some("PILCROW_RUN_STEERING"),
        doc: "What words to a run that goes on do to the calls of its turn: they are delivered when these are done, or those that have not started are skipped.",
    },
    Key {
        name: "run.queue",
        class: Class::Free,
        kind: Kind::Choice(&["one", "all"]),
        default: Some("\"one\""),
        variable: Some("PILCROW_RUN_QUEUE"),
        doc: "How many of the words that wait for a run are delivered at once.",
    },
    Key {
        name: "run.on_unsaved",
        class: Class::Free,
        kind: Kind::Choice(&["tell", "ask"]),
        default: Some("\"tell\""),
        variable: Some("PILCROW_RUN_ON_UNSAVED"),
        doc: "What happens before a command runs while an open file is not saved: it is told with the result, or asked first.",
    },
    Key {
        name: "log.filter",
        class: Class::Free,
        kind: Kind::Filter,
        default: Some("\"info\""),
        variable: Some("PILCROW_LOG"),
        doc: "What is logged to the file, such as `info,lsp_client=debug`.",
    },
];

impl Key {
    /// The key that `path` (its parts) names.
    pub fn find(path: &[String]) -> Option<&'static Self> {
        KEYS.iter().find(|key| {
            let parts: Vec<&str> = key.name.split('.').collect();
            parts.len() == path.len()
                && parts.iter().zip(path).all(|(part, name)| *part == "NAME" || part == name)
        })
    }

    /// Whether `path` names a group of keys.
    pub fn is_group(path: &[String]) -> bool {
        KEYS.iter().any(|key| {
            let parts: Vec<&str> = key.name.split('.').collect();
            parts.len() > path.len()
                && parts.iter().zip(path).all(|(part, name)| *part == "NAME" || part == name)
        })
    }

    /// The known name that is most like `path`, or begins most like it.
    pub fn nearest(path: &[String]) -> String {
        let wanted = path.join(".");
        let last = path.last().map(String::as_str).unwrap_or_default();
        let distance = |key: &&Self| {
            let parts: Vec<&str> = key.name.split('.').collect();
            let beginning = parts[..parts.len().min(path.len())].join(".");
            // The right name in the wrong place is near, too.
            let elsewhere = distance(parts[parts.len() - 1], last) + 2;
            distance(key.name, &wanted).min(distance(&beginning, &wanted)).min(elsewhere)
        };
        KEYS.iter().min_by_key(distance).map(|key| key.name.to_owned()).unwrap_or_default()
    }
}

impl Key {
    /// The variable that is meant by one that is none of ours, but nearly is.
    pub fn misspelt(variable: &str) -> Option<&'static str> {
        /// More letters that differ are another word.
        const NEAR: usize = 4;
        /// Read elsewhere: where the state is, what is logged, and what the tests are told.
        const OTHERS: &[&str] = &[
            "PILCROW_BIN",
            "PILCROW_BLESS",
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
        let known = KEYS.iter().filter_map(|key| key.variable).chain(["PILCROW_HOME", "PILCROW_LOG"]);
        let near = known.map(|name| (distance(name, &upper), name)).min()?;
        (near.0 <= NEAR).then_some(near.1)
    }
}

/// Insertions, deletions and replacements between two words.
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
