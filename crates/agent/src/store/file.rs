//! One session file, open for appending.
//!
//! Its calls block, but only briefly: an append is one small write.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use llm::{Message, ThinkingLevel, Usage};
use paths::{AbsPath, StateDir, StateLock};
use policy::Redactor;
use serde_json::{Value, json};
use workspace::RunId;

use super::entry::{RUN, line, message_line};
use super::loaded::LoadedSession;
use super::sessions::{StoreError, now, read};
use crate::redact::redacted;

/// A session file; new entries follow the selected one, by default the last.
#[derive(Debug)]
pub struct SessionFile {
    pub(super) dir: StateDir,
    pub(super) sync: bool,
    pub(super) redactor: Arc<Redactor>,
    pub(super) name: String,
    /// Text to write before the next entry.
    pub(super) preamble: Option<String>,
    pub(super) last: Option<String>,
    /// Hashes of the entries' ids, to make unique ones.
    pub(super) ids: HashSet<u64>,
    /// Lock of the file, taken with the first entry.
    pub(super) lock: Option<Arc<StateLock>>,
    /// Expected size when the lock is taken; `None` for a new file.
    pub(super) expected: Option<u64>,
    /// Text that replaces the whole file before the first entry.
    pub(super) rewritten: Option<String>,
}

impl SessionFile {
    /// A new id, unique in this file.
    pub fn new_id(&mut self) -> String {
        loop {
            let id: String = uuid::Uuid::new_v4().simple().to_string().chars().take(8).collect();
            if self.ids.insert(mark(&id)) {
                return id;
            }
        }
    }

    /// Appends a message after the selected entry.
    pub fn append_message(&mut self, id: &str, message: &Message) -> Result<(), StoreError> {
        let redacted = redacted(&self.redactor, message);
        let message = redacted.as_ref().unwrap_or(message);
        let line = message_line(id, self.last.as_deref(), &now(), message);
        let line = line.map_err(|error| StoreError::Unreadable {
            file: self.name.clone(),
            reason: format!("cannot serialize a message: {error}"),
        })?;
        self.append(id, &line)
    }

    /// Records tools that the model now knows.
    pub(crate) fn append_tool_activation(&mut self, tools: &[String]) -> Result<(), StoreError> {
        self.append_entry("tool_activation", json!({ "tools": tools })).map(drop)
    }

    /// Records another model from here on.
    pub(crate) fn append_model_change(&mut self, provider: &str, model: &str) -> Result<(), StoreError> {
        self.append_entry("model_change", json!({ "provider": provider, "modelId": model })).map(drop)
    }

    /// Records another thinking level from here on.
    pub(crate) fn append_thinking_level_change(
        &mut self,
        level: Option<ThinkingLevel>,
    ) -> Result<(), StoreError> {
        self.append_entry("thinking_level_change", json!({ "thinkingLevel": level })).map(drop)
    }

    /// Records a summary of all before `first_kept`, or of all; returns its id.
    pub(crate) fn append_compaction(
        &mut self,
        summary: &str,
        first_kept: Option<&str>,
        tokens_before: u64,
        details: &Value,
    ) -> Result<String, StoreError> {
        let id = self.new_id();
        let first_kept = first_kept.unwrap_or(&id).to_owned();
        let fields = json!({
            "summary": summary,
            "firstKeptEntryId": first_kept,
            "tokensBefore": tokens_before,
            "details": details,
        });
        self.append_as(&id, "compaction", fields)?;
        Ok(id)
    }

    /// Records the tokens of a request without a message.
    pub(crate) fn append_usage(&mut self, kind: &str, usage: &Usage) -> Result<(), StoreError> {
        self.append_entry("usage", json!({ "kind": kind, "usage": usage })).map(drop)
    }

    /// Removes an entry from the context; no model receives it any more.
    pub(crate) fn append_omission(&mut self, target: &str) -> Result<(), StoreError> {
        self.append_entry("context_edit", json!({ "targetId": target, "replacement": null })).map(drop)
    }

    /// Replaces an entry in the context from here on.
    pub(crate) fn append_replacement(&mut self, target: &str, message: &Message) -> Result<(), StoreError> {
        self.append_entry("context_edit", json!({ "targetId": target, "replacement": message })).map(drop)
    }

    /// Records the session's name.
    pub fn append_name(&mut self, name: &str) -> Result<(), StoreError> {
        self.append_entry("session_info", json!({ "name": name })).map(drop)
    }

    /// Records data that no model receives.
    pub fn append_custom(&mut self, id: &str, kind: &str, data: &Value) -> Result<(), StoreError> {
        self.append_as(id, "custom", json!({ "customType": kind, "data": data }))
    }

    /// Records the start of a run, whose commits have this id.
    pub(crate) fn append_run(&mut self, run: &RunId) -> Result<(), StoreError> {
        self.append_entry("custom", json!({ "customType": RUN, "data": { "runId": run } })).map(drop)
    }

    /// Records an entry that no model receives.
    pub(crate) fn append_note(&mut self, kind: &str, fields: Value) -> Result<(), StoreError> {
        self.append_entry(kind, fields).map(drop)
    }

    /// Sets or removes the label of an entry.
    pub fn append_label(&mut self, target: &str, label: Option<&str>) -> Result<(), StoreError> {
        self.append_entry("label", json!({ "targetId": target, "label": label })).map(drop)
    }

    /// Stores the full text of a cut result; returns its path.
    pub(crate) fn keep_output(&self, call_id: &str, text: &str) -> Result<String, StoreError> {
        let plain = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
        let call: String = call_id.chars().filter(|it| plain(*it)).take(64).collect();
        let unique = uuid::Uuid::new_v4().simple().to_string();
        let name = format!("{}/{call}-{}.txt", super::sessions::outputs(&self.name), &unique[..8]);
        self.dir.write_atomic(&name, self.redactor.redact(text).as_bytes())?;
        Ok(self.dir.path().join(&name).to_string())
    }

    /// Directory of [`SessionFile::keep_output`].
    pub fn outputs(&self) -> AbsPath {
        self.dir.path().join(super::sessions::outputs(&self.name))
    }

    /// Continues from `at` with a summary of the abandoned branch.
    ///
    /// Returns the entry's id.
    pub(crate) fn append_branch(&mut self, at: &str, summary: &str) -> Result<String, StoreError> {
        let from = self.last.replace(at.to_owned());
        self.append_entry("branch_summary", json!({ "fromId": from, "summary": summary }))
    }

    /// Continues from this entry.
    pub fn select(&mut self, id: &str) {
        self.last = Some(id.to_owned());
    }

    /// Starts a new transcript as another root.
    pub(crate) fn begin_again(&mut self) -> Result<(), StoreError> {
        self.last = None;
        let id = self.new_id();
        self.append_custom(&id, "begin_again", &Value::Null)
    }

    /// The entry that the next one follows.
    pub fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Loads the session from its file.
    pub fn load(&self) -> Result<LoadedSession, StoreError> {
        read(&self.dir, &self.name)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    fn append_entry(&mut self, kind: &str, fields: Value) -> Result<String, StoreError> {
        let id = self.new_id();
        self.append_as(&id, kind, fields)?;
        Ok(id)
    }

    fn append_as(&mut self, id: &str, kind: &str, fields: Value) -> Result<(), StoreError> {
        let fields = redacted(&self.redactor, &fields).unwrap_or(fields);
        let line = line(kind, id, self.last.as_deref(), &now(), fields);
        self.append(id, &line)
    }

    fn append(&mut self, id: &str, line: &str) -> Result<(), StoreError> {
        self.take_lock()?;
        if let Some(text) = &self.rewritten {
            self.dir.write_atomic(&self.name, text.as_bytes())?;
            self.rewritten = None;
        }
        let written = match &self.preamble {
            Some(preamble) => {
                let lines = format!("{preamble}{line}");
                self.dir.append(&self.name, lines.as_bytes(), self.sync)
            }
            None => self.dir.append(&self.name, line.as_bytes(), self.sync),
        };
        if let Err(error) = written {
            // A part of the line may be in the file, so the next line starts with a line break. A header that
            // was cut is written again; its fragment is an unreadable line.
            if self.preamble.is_none() {
                self.preamble = Some("\n".to_owned());
            }
            return Err(error.into());
        }
        self.preamble = None;
        self.last = Some(id.to_owned());
        Ok(())
    }

    fn take_lock(&mut self) -> Result<(), StoreError> {
        if self.lock.is_none() {
            self.lock = Some(Arc::new(super::sessions::lock(&self.dir, &self.name)?));
            let size = self.dir.stat(&self.name).map_or(0, |(_, size)| size);
            if self.expected.is_some_and(|expected| expected != size) {
                return Err(StoreError::Changed { file: self.name.clone() });
            }
        }
        Ok(())
    }
}

/// Hash of an id; a new id never has the hash of an existing one.
pub(super) fn mark(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}
