//! Trust in programs that a project defines, each a [`Subject`] with a state of its own.
//!
//! The file is `subjects.json` in the workspace's state directory (`docs/formats/trust.md`). The store
//! reads it at each question, so that `pilcrow trust --kill` affects running processes. The audit log
//! has a row for each change of a state.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use paths::{AbsPath, StateDir, StateError};
use serde::{Deserialize, Serialize};
use shell::CommandLine;

use super::audit::{Audit, Change, Operator};
use crate::grants::{self, check_format, hash, to_json};

const FORMAT: u64 = 1;
const FILE: &str = "subjects.json";
const LOCK: &str = "subjects.lock";
const LOCK_TIME: Duration = Duration::from_secs(5);

/// A server or an adapter that a project defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Kind and name, such as `servers/odd`.
    id: String,
    /// Hash of the text that defines it.
    definition: String,
}

impl Subject {
    /// Names the subject of a kind, which `text` defines.
    pub fn new(kind: &str, name: &str, text: &str) -> Self {
        Self { id: format!("{kind}/{name}"), definition: hash(text.as_bytes()) }
    }

    pub fn id(&self) -> &str {
        &self.id
    }
}

/// The trust in a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubjectState {
    /// The user did not see it, or it changed since.
    Pending,
    /// The user saw it and let it run for some time.
    Acknowledged,
    /// It starts without a question.
    Trusted,
    /// The user or a limit ended it; it starts after another question.
    Killed,
}

impl SubjectState {
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Acknowledged => "acknowledged",
            Self::Trusted => "trusted",
            Self::Killed => "killed",
        }
    }

    /// Whether the subject may run.
    fn is_active(self) -> bool {
        matches!(self, Self::Acknowledged | Self::Trusted)
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    format: u64,
    subjects: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    state: SubjectState,
    /// Hashes of the definition and of the command that the user saw.
    definition: String,
    command: String,
}

/// The subjects of one workspace.
#[derive(Debug)]
pub struct Subjects {
    state: Option<StateDir>,
    /// Subjects that may run while this process runs, and what the user saw of them.
    running: Mutex<BTreeMap<String, (String, String)>>,
    audit: Audit,
}

impl Subjects {
    /// Opens `subjects.json` in `state`.
    ///
    /// Without a directory, nothing is stored.
    pub fn new(state: Option<StateDir>) -> Self {
        Self { audit: Audit::new(state.clone()), state, running: Mutex::default() }
    }

    /// The state of each known subject, by id.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn list(&self) -> Result<Vec<(String, SubjectState)>, StateError> {
        Ok(self.read()?.subjects.into_iter().map(|(id, entry)| (id, entry.state)).collect())
    }

    /// The state of a subject, whatever its command is.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn state(&self, subject: &Subject) -> Result<SubjectState, StateError> {
        let stored = self.read()?;
        let entry = stored.subjects.get(&subject.id).filter(|it| it.definition == subject.definition);
        Ok(entry.map_or(SubjectState::Pending, |entry| entry.state))
    }

    /// Ends the trust in a subject; returns whether it was known.
    ///
    /// A process that runs it notices at its next start.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn kill(&self, id: &str) -> Result<bool, StateError> {
        let killed = |entry: &Entry| Entry { state: SubjectState::Killed, ..entry.clone() };
        self.change(Operator::User, "the user ended the trust", id, |entry| entry.map(killed))
    }

    /// Ends the trust in a subject that broke a limit.
    pub(crate) fn kill_for(&self, subject: &Subject, reason: &str) {
        let killed = self.change(Operator::Auto, reason, &subject.id, |entry| {
            let command = entry.map_or_else(String::new, |entry| entry.command.clone());
            Some(Entry { state: SubjectState::Killed, definition: subject.definition.clone(), command })
        });
        if let Err(error) = killed {
            tracing::warn!(%error, "cannot store that {} was killed", subject.id);
        }
        self.running.lock().remove(&subject.id);
    }

    /// Whether `command` of the subject may start without a question.
    pub(crate) fn allows(&self, subject: &Subject, command: &CommandLine) -> bool {
        let seen = (subject.definition.clone(), fingerprint(command));
        let stored = self.read().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot use the states of the project's programs; the policy asks again");
            Stored::default()
        });
        let entry = stored.subjects.get(&subject.id);
        if entry.is_some_and(|entry| entry.state == SubjectState::Killed) {
            return false;
        }
        let is_trusted = |entry: &Entry| {
            entry.state == SubjectState::Trusted && (&entry.definition, &entry.command) == (&seen.0, &seen.1)
        };
        entry.is_some_and(is_trusted) || self.running.lock().get(&subject.id) == Some(&seen)
    }

    /// Returns a subject to pending if it changed since the user saw it.
    pub(crate) fn reset_if_changed(&self, subject: &Subject, command: &CommandLine) {
        let seen = (subject.definition.clone(), fingerprint(command));
        let reason = "its definition or command changed";
        let changed = self.change(Operator::Auto, reason, &subject.id, |entry| {
            let entry = entry.filter(|entry| (&entry.definition, &entry.command) != (&seen.0, &seen.1))?;
            let (definition, command) = seen.clone();
            entry.state.is_active().then_some(Entry { state: SubjectState::Pending, definition, command })
        });
        if let Err(error) = changed {
            tracing::warn!(%error, "cannot store that {} changed", subject.id);
        }
    }

    /// Allows a subject for the lifetime of this process, without storing it.
    pub(crate) fn allow_here(&self, subject: &Subject, command: &CommandLine) {
        let seen = (subject.definition.clone(), fingerprint(command));
        self.running.lock().insert(subject.id.clone(), seen);
    }

    /// Stores that the user saw the command and let it run.
    pub(crate) fn acknowledge(&self, subject: &Subject, command: &CommandLine, state: SubjectState) {
        self.allow_here(subject, command);
        let (definition, command) = (subject.definition.clone(), fingerprint(command));
        let reason = "the user saw its command";
        let changed = self.change(Operator::User, reason, &subject.id, |_| {
            Some(Entry { state, definition: definition.clone(), command: command.clone() })
        });
        if let Err(error) = changed {
            tracing::warn!(%error, "cannot store the answer; it holds for this session only");
        }
    }

    /// Replaces the entry of `id` and logs the change; returns whether there is one.
    fn change(
        &self,
        operator: Operator,
        reason: &str,
        id: &str,
        change: impl Fn(Option<&Entry>) -> Option<Entry>,
    ) -> Result<bool, StateError> {
        let Some(state) = &self.state else { return Ok(false) };
        let _lock = state.lock(LOCK, LOCK_TIME)?;
        let mut stored = self.read()?;
        let previous = stored.subjects.get(id);
        let Some(entry) = change(previous) else { return Ok(false) };
        let (previous_state, new_state) =
            (previous.map_or(SubjectState::Pending, |it| it.state), entry.state);
        stored.subjects.insert(id.to_owned(), entry);
        stored.format = FORMAT;
        state.write_atomic(FILE, &to_json(&stored))?;
        if previous_state != new_state {
            let (activated, extension_id) = (new_state.is_active(), id);
            let (previous_state, new_state) = (previous_state.name(), new_state.name());
            let row = Change { extension_id, activated, reason, operator, previous_state, new_state };
            // The change holds, whether or not the log has a row.
            self.audit.record_change(row).ok();
        }
        Ok(true)
    }

    fn read(&self) -> Result<Stored, StateError> {
        let Some(state) = &self.state else { return Ok(Stored::default()) };
        let Some(bytes) = state.read(FILE)? else { return Ok(Stored::default()) };
        let path: AbsPath = state.path().join(FILE);
        check_format(&bytes, FORMAT, &path)?;
        serde_json::from_slice(&bytes)
            .map_err(|error| StateError::Damaged { path, detail: error.to_string() })
    }
}

/// Fingerprint of a command as the question shows it.
///
/// The search path is Pilcrow's own, unless the definition sets it, and may differ between an editor and a
/// terminal.
fn fingerprint(command: &CommandLine) -> String {
    let mut shown = command.clone();
    shown.env.retain(|(name, _)| name != "PATH");
    grants::fingerprint(&shown)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::tests::{Fixture, audit, command};

    #[test]
    fn each_change_of_a_state_is_in_the_audit_log() {
        let fixture = Fixture::new(&[]);
        let open = || Subjects::new(Some(fixture.state.clone()));
        let subject = |text| Subject::new("servers", "odd", text);
        let odd = command(&fixture, "odd", &["--stdio"]);
        let one = open();
        assert!(!one.allows(&subject("1"), &odd));
        one.acknowledge(&subject("1"), &odd, SubjectState::Acknowledged);
        // An acknowledged program runs in that process alone.
        assert!(one.allows(&subject("1"), &odd) && !open().allows(&subject("1"), &odd));
        one.acknowledge(&subject("1"), &odd, SubjectState::Trusted);
        assert!(open().allows(&subject("1"), &odd));
        let mut elsewhere = odd.clone();
        elsewhere.env.push(("PATH".to_owned(), "/elsewhere".to_owned()));
        assert!(open().allows(&subject("1"), &elsewhere), "the search path is not part of what the user saw");
        // Another definition with the same command, and another command, are not what the user saw.
        assert!(!open().allows(&subject("2"), &odd));
        assert!(!open().allows(&subject("1"), &command(&fixture, "odd", &["--other"])));
        one.reset_if_changed(&subject("1"), &odd);
        one.reset_if_changed(&subject("2"), &odd);
        assert!(!open().allows(&subject("2"), &odd));
        one.acknowledge(&subject("2"), &odd, SubjectState::Trusted);
        assert!(open().kill("servers/odd").unwrap() && !open().kill("servers/other").unwrap());
        // The first process notices it too.
        assert!(!one.allows(&subject("2"), &odd));
        one.acknowledge(&subject("2"), &odd, SubjectState::Acknowledged);
        one.kill_for(&subject("2"), "it took 900 MiB");
        assert!(!one.allows(&subject("2"), &odd));
        assert_eq!(one.list().unwrap(), [("servers/odd".to_owned(), SubjectState::Killed)]);
        let rows = audit(&fixture).into_iter().map(|row| {
            let field = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
            let (id, by) = (field("extension_id"), field("operator"));
            let (before, after) = (field("previous_state"), field("new_state"));
            format!("{id}: {before} -> {after} ({}, {by}: {})\n", row["activated"], field("reason"))
        });
        expect![[r#"
            servers/odd: pending -> acknowledged (true, user: the user saw its command)
            servers/odd: acknowledged -> trusted (true, user: the user saw its command)
            servers/odd: trusted -> pending (false, auto: its definition or command changed)
            servers/odd: pending -> trusted (true, user: the user saw its command)
            servers/odd: trusted -> killed (false, user: the user ended the trust)
            servers/odd: killed -> acknowledged (true, user: the user saw its command)
            servers/odd: acknowledged -> killed (false, auto: it took 900 MiB)
        "#]]
        .assert_eq(&rows.collect::<String>());
    }
}
