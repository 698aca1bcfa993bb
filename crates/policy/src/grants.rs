//! Remembered answers: rules, and exact commands of a tool.
//!
//! Answers for the session are kept in memory. Answers given with "always" are also in the
//! workspace's `answers.json` (`docs/formats/trust.md`), written whole under a lock.

use std::collections::BTreeMap;
use std::time::Duration;

use paths::{AbsPath, StateDir, StateError};
use serde::{Deserialize, Serialize};
use shell::CommandLine;

use crate::Rule;
use crate::rules::ANSWER;

const FORMAT: u64 = 1;
const FILE: &str = "answers.json";
const LOCK: &str = "answers.lock";
const LOCK_TIME: Duration = Duration::from_secs(5);

/// Time for which an answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Term {
    Session,
    Always,
}

/// The stored file; `commands` maps a tool and a line to the allowed command.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    format: u64,
    #[serde(default)]
    rules: Vec<String>,
    #[serde(default)]
    commands: BTreeMap<String, String>,
}

/// Remembered answers of one workspace.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    state: Option<StateDir>,
    pub(crate) rules: Vec<Rule>,
    commands: BTreeMap<String, String>,
    /// Roots trusted while this process runs.
    pub(crate) trusts: Vec<AbsPath>,
    /// Whether the user refused trust, so that the policy does not ask again.
    pub(crate) refused: bool,
}

impl Grants {
    /// Reads the grants in `state`.
    ///
    /// An unusable file is logged and left unchanged.
    pub(crate) fn load(state: Option<StateDir>) -> Self {
        let mut grants = Self { state, ..Self::default() };
        let stored = match grants.state.as_ref().map(read) {
            None => return grants,
            Some(Ok(stored)) => stored,
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot use the stored answers; the policy asks again");
                return grants;
            }
        };
        grants.rules = stored.rules.iter().filter_map(|text| parse(text)).collect();
        grants.commands = stored.commands;
        grants
    }

    /// Whether the user allowed exactly this command for `by`.
    pub(crate) fn allows_command(&self, by: &str, command: &CommandLine) -> bool {
        self.commands.get(by).is_some_and(|known| *known == fingerprint(command))
    }

    /// Whether the user allowed a command for `by`.
    pub(crate) fn has_command_of(&self, by: &str) -> bool {
        self.commands.contains_key(by)
    }

    pub(crate) fn add_rule(&mut self, rule: Rule, term: Term) {
        if term == Term::Always {
            self.store(|stored| stored.rules.push(rule.text().to_owned()));
        }
        self.rules.push(rule);
    }

    /// Remembers a command of `by`.
    pub(crate) fn remember_command(&mut self, by: &str, command: &CommandLine, term: Term) {
        let fingerprint = fingerprint(command);
        if term == Term::Always {
            self.store(|stored| {
                stored.commands.insert(by.to_owned(), fingerprint.clone());
            });
        }
        self.commands.insert(by.to_owned(), fingerprint);
    }

    fn store(&self, change: impl FnOnce(&mut Stored)) {
        let Some(state) = &self.state else { return };
        let write = || {
            let _lock = state.lock(LOCK, LOCK_TIME)?;
            let mut stored = read(state)?;
            change(&mut stored);
            stored.format = FORMAT;
            stored.rules.sort();
            stored.rules.dedup();
            state.write_atomic(FILE, &to_json(&stored))
        };
        if let Err(error) = write() {
            tracing::warn!(%error, "cannot store the answer; it holds for this session only");
        }
    }
}

fn read(state: &StateDir) -> Result<Stored, StateError> {
    let Some(bytes) = state.read(FILE)? else { return Ok(Stored::default()) };
    let path = state.path().join(FILE);
    check_format(&bytes, FORMAT, &path)?;
    serde_json::from_slice(&bytes).map_err(|error| StateError::Damaged { path, detail: error.to_string() })
}

/// Refuses a state file of a newer program before its other fields are read.
pub(crate) fn check_format(bytes: &[u8], known: u64, path: &AbsPath) -> Result<(), StateError> {
    #[derive(Deserialize)]
    struct Format {
        format: u64,
    }
    let found = serde_json::from_slice::<Format>(bytes)
        .map_err(|error| StateError::Damaged { path: path.clone(), detail: error.to_string() })?
        .format;
    if found > known {
        return Err(StateError::NewerFormat { path: path.clone(), found, known });
    }
    Ok(())
}

/// Renders JSON in Pilcrow's file format: indented, with a final newline.
pub(crate) fn to_json(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("a struct of strings and numbers is valid JSON");
    bytes.push(b'\n');
    bytes
}

fn parse(text: &str) -> Option<Rule> {
    let rule = Rule::parse(text, ANSWER);
    rule.inspect_err(|error| tracing::warn!(%error, "cannot use a remembered answer; the policy asks again"))
        .ok()
}

/// Fingerprint of a shown command: program, arguments and variables.
///
/// The directory is not part of it, since a definition serves many roots.
pub(crate) fn fingerprint(command: &CommandLine) -> String {
    let parts = (command.program.to_string_lossy(), &command.args, &command.env);
    hash(&serde_json::to_vec(&parts).expect("strings are valid JSON"))
}

pub(crate) fn hash(bytes: &[u8]) -> String {
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(bytes))
}
