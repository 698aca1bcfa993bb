//! The audit log `audit.jsonl` of a workspace: a JSON line per question and denial.
//!
//! `docs/formats/audit.md` describes the lines. After a write error, commands that must be
//! audited are refused.

use paths::StateDir;
use serde::Serialize;
use shell::Tier;

use crate::Redactor;

const FORMAT: u32 = 1;

const FILE: &str = "audit.jsonl";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum By {
    /// A rule, the mode, or a protection decided.
    Policy,
    #[serde(rename = "person")]
    User,
    /// The option `--yes` decided.
    Yes,
    /// The request was denied because there was no user to ask.
    #[serde(rename = "nobody")]
    Unattended,
    /// The request was cancelled before an answer came.
    Cancel,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Decided<'a> {
    pub(crate) capability: &'a str,
    /// Decision: `allow` or `deny`.
    pub(crate) decision: &'a str,
    pub(crate) by: By,
    /// Answer of the user, if asked: `once`, `session`, `always` or `no`.
    pub(crate) answer: Option<&'a str>,
    /// The rule or the mode.
    pub(crate) reason: &'a str,
    /// The files, the command, or the directory that the decision is about.
    pub(crate) subject: Vec<String>,
    /// Class and tier of a command line.
    #[serde(flatten)]
    pub(crate) class: Option<Classified>,
}

/// The class of a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Classified {
    pub(crate) class: &'static str,
    pub(crate) tier: Tier,
}

/// The cause of a change of a subject's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Operator {
    User,
    /// Pilcrow itself.
    Auto,
}

/// A change of a subject's state.
#[derive(Debug, Serialize)]
pub(crate) struct Change<'a> {
    pub(crate) extension_id: &'a str,
    /// Whether the subject may run afterwards.
    pub(crate) activated: bool,
    pub(crate) reason: &'a str,
    pub(crate) operator: Operator,
    pub(crate) previous_state: &'a str,
    pub(crate) new_state: &'a str,
}

#[derive(Serialize)]
struct Line<T> {
    format: u32,
    ts_ms: i64,
    pid: u32,
    #[serde(flatten)]
    row: T,
}

/// The audit log of one workspace; without a state directory it writes nothing.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    state: Option<StateDir>,
    redactor: std::sync::OnceLock<Redactor>,
}

impl Audit {
    pub(crate) fn new(state: Option<StateDir>) -> Self {
        Self { state, redactor: std::sync::OnceLock::new() }
    }

    /// Writes a row; the error is the reason why it was not written.
    pub(crate) fn record(&self, decided: Decided<'_>) -> Result<(), String> {
        if self.state.is_none() {
            return Ok(());
        }
        let redactor = self.redactor.get_or_init(Redactor::from_env);
        let mut decided = decided;
        for subject in &mut decided.subject {
            *subject = redactor.redact(subject).into_owned();
        }
        let reason = redactor.redact(decided.reason).into_owned();
        decided.reason = &reason;
        self.append(decided)
    }

    /// Writes a row about a change of a subject's state.
    pub(crate) fn record_change(&self, change: Change<'_>) -> Result<(), String> {
        self.append(change)
    }

    fn append(&self, row: impl Serialize) -> Result<(), String> {
        let Some(state) = &self.state else { return Ok(()) };
        let ts_ms = jiff::Timestamp::now().as_millisecond();
        let line = Line { format: FORMAT, ts_ms, pid: std::process::id(), row };
        let written = serde_json::to_vec(&line).map_err(|error| error.to_string()).and_then(|mut bytes| {
            bytes.push(b'\n');
            state.append(FILE, &bytes, false).map_err(|error| error.to_string())
        });
        written.inspect_err(|error| {
            tracing::warn!(%error, "a row could not be added to the audit log");
        })
    }
}
