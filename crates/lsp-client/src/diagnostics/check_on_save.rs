//! Diagnostics of saved files, from a check that runs another program (Cargo).
//!
//! Uses only the definition's rule. A check ends when the work that the server reports for it has
//! ended and the server has published nothing for a while. All that it published by then is the
//! result.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use paths::AbsPath;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

use crate::answer::RawJson;
use adapters::CheckRule;

/// Maximum number of files with results.
const LIMIT: usize = 4096;

/// The result of waiting for a check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// The published diagnostics are the result.
    Ended,
    /// The time is over; the check may still begin, end or publish.
    Unfinished,
    /// The check did not begin before `begins`.
    Silent,
}

pub(crate) struct CheckOnSave {
    /// Holds one permit; its owner requests the check.
    pub turn: Semaphore,
    rule: Option<CheckRule>,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    /// Progress tokens of running checks, with the last message of each.
    running: HashMap<String, String>,
    begun: u64,
    /// Whether the last requested check did not begin.
    did_not_start: bool,
    /// Time of the server's last progress report of a check.
    last: Option<Instant>,
    files: HashMap<AbsPath, RawJson>,
    /// The number of changes that the server had learned of at the last request.
    asked: Option<u64>,
}

impl CheckOnSave {
    pub fn new(rule: Option<CheckRule>) -> Self {
        Self { turn: Semaphore::new(1), rule, state: Mutex::default(), changed: watch::channel(()).0 }
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The rule of the definition, if the server has such a check.
    pub fn rule(&self) -> Option<&CheckRule> {
        self.rule.as_ref()
    }

    /// Handles `$/progress`.
    pub fn progress(&self, params: &Value) {
        let Some(rule) = &self.rule else { return };
        let Some(token) = params["token"].as_str().filter(|token| token.starts_with(&rule.progress)) else {
            return;
        };
        {
            let mut state = self.state();
            match params["value"]["kind"].as_str() {
                Some("begin") => {
                    state.begun += 1;
                    state.did_not_start = false;
                    let title = params["value"]["title"].as_str().unwrap_or_default();
                    state.running.insert(token.to_owned(), title.to_owned());
                }
                Some("report") => {
                    let said = params["value"]["message"].as_str();
                    if let (Some(work), Some(said)) = (state.running.get_mut(token), said) {
                        let title = work.split(": ").next().unwrap_or_default();
                        *work = format!("{title}: {said}");
                    }
                }
                Some("end") => drop(state.running.remove(token)),
                _ => return,
            }
            state.last = Some(Instant::now());
        }
        self.changed.send_replace(());
    }

    /// Handles `textDocument/publishDiagnostics` of any version.
    pub fn push(&self, path: &AbsPath, items: &RawJson) {
        if self.rule.is_none() {
            return;
        }
        {
            let mut state = self.state();
            if items.get() == "[]" {
                state.files.remove(path);
            } else if state.files.len() < LIMIT || state.files.contains_key(path) {
                state.files.insert(path.clone(), items.clone());
            }
            state.last = Some(Instant::now());
        }
        self.changed.send_replace(());
    }

    /// Prepares a request for a check.
    ///
    /// Returns the number of the check that must have begun after `disk_changes` changes, and
    /// whether to request it. No request is needed if a check runs and nothing has changed since it
    /// was requested.
    pub fn asks(&self, disk_changes: u64) -> (u64, bool) {
        let mut state = self.state();
        let again = state.running.is_empty() || state.asked != Some(disk_changes);
        state.asked = Some(disk_changes);
        (if again { state.begun } else { state.begun.saturating_sub(1) }, again)
    }

    /// Waits until a check after the first `begun` has ended and published.
    ///
    /// Does not wait for a check that has not begun at `begins`. Cancel-safe.
    pub async fn wait(&self, begun: u64, begins: Instant, until: Instant) -> WaitOutcome {
        let quiet = Duration::from_millis(self.rule.as_ref().map_or(0, |rule| rule.debounce_ms));
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let (then, at) = {
                let state = self.state();
                match state.begun > begun {
                    true if state.running.is_empty() => {
                        (WaitOutcome::Ended, state.last.map_or(until, |last| last + quiet))
                    }
                    true => (WaitOutcome::Unfinished, until),
                    false => (WaitOutcome::Silent, begins),
                }
            };
            if Instant::now() >= at {
                return then;
            }
            if Instant::now() >= until {
                return WaitOutcome::Unfinished;
            }
            tokio::select! {
                _ = changed.changed() => {}
                () = tokio::time::sleep_until(at.min(until).into()) => {}
            }
        }
    }

    /// The progress of a running check; `None`: none runs.
    pub fn activity(&self) -> Option<String> {
        self.state().running.values().max().cloned()
    }

    /// Records that the check was requested and did not begin.
    pub(crate) fn record_no_start(&self) {
        self.state().did_not_start = true;
    }

    /// Whether the last requested check did not begin.
    pub(crate) fn did_not_start(&self) -> bool {
        self.state().did_not_start
    }

    /// The last published diagnostics of a file.
    pub fn of(&self, path: &AbsPath) -> Option<RawJson> {
        self.state().files.get(path).cloned()
    }

    /// Files with an error of one of these sources.
    pub fn with_errors(&self, sources: &[String]) -> BTreeSet<AbsPath> {
        #[derive(Deserialize)]
        struct Item {
            severity: Option<u8>,
            source: Option<String>,
        }
        let is_error = |item: Item| {
            item.severity.is_none_or(|it| it == 1) && item.source.is_some_and(|it| sources.contains(&it))
        };
        let has_error = |items: &RawJson| {
            let items: Vec<Item> = serde_json::from_str(items.get()).unwrap_or_default();
            items.into_iter().any(is_error)
        };
        let files = self.state().files.clone();
        files.into_iter().filter(|(_, items)| has_error(items)).map(|(path, _)| path).collect()
    }

    /// Whether more files may have results than are stored.
    pub(crate) fn is_full(&self) -> bool {
        self.state().files.len() >= LIMIT
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn saved() -> CheckOnSave {
        let rule = json!({"method": "look", "progress": "look", "debounce_ms": 60_000});
        CheckOnSave::new(Some(serde_json::from_value(rule).unwrap()))
    }

    fn says(saved: &CheckOnSave, kind: &str) {
        saved.progress(&json!({"token": "look/0", "value": {"kind": kind}}));
    }

    #[tokio::test]
    async fn a_check_that_still_publishes_has_not_ended() {
        let saved = saved();
        says(&saved, "begin");
        let now = Instant::now();
        assert_eq!(saved.wait(0, now, now).await, WaitOutcome::Unfinished);
        says(&saved, "end");
        assert_eq!(saved.wait(0, now, now).await, WaitOutcome::Unfinished);
    }

    #[tokio::test]
    async fn a_check_without_time_to_begin_is_not_silent() {
        let (saved, now) = (saved(), Instant::now());
        assert_eq!(saved.wait(0, now + LONG, now).await, WaitOutcome::Unfinished);
        assert_eq!(saved.wait(0, now, now + LONG).await, WaitOutcome::Silent);
    }

    #[test]
    fn errors_count_for_their_sources_only() {
        let saved = saved();
        let push = |name: &str, items: Value| {
            let raw = serde_json::value::to_raw_value(&items).unwrap();
            saved.push(&AbsPath::new(format!("/{name}")).unwrap(), &RawJson::new(&raw));
        };
        push("error", json!([{"severity": 2, "source": "cargo"}, {"severity": 1, "source": "cargo"}]));
        push("unsaid", json!([{"source": "cargo"}]));
        push("warning", json!([{"severity": 2, "source": "cargo"}, {"severity": 1, "source": "own"}]));
        let found = saved.with_errors(&["cargo".to_owned()]);
        assert!(found.iter().map(|path| path.to_string()).eq(["/error", "/unsaid"]), "{found:?}");
    }
}
