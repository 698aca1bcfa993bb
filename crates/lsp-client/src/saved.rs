//! What a server finds in files as they are saved, when it is asked to look: with another program (Cargo), which
//! reads the disk.
//!
//! Knows of a server only what its definition says. Such a look ends when the work that the server reports for it
//! has ended and nothing more came for a while; what was pushed by then is what was found.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use workspace::AbsPath;

use crate::answer::RawJson;
use crate::definition::CheckRule;

/// Files of which something was found.
const LIMIT: usize = 4096;

/// What came of waiting for a look.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// What was pushed is what was found.
    Ended,
    /// There was no more time: it may still begin, or end, or say more.
    GoesOn,
    /// It had its time to begin, and did not.
    Silent,
}

pub(crate) struct Saved {
    /// One permit: who holds it has the server look.
    pub turn: Semaphore,
    rule: Option<CheckRule>,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    /// Tokens of looks that go on, and what was said of each last.
    running: HashMap<String, String>,
    begun: u64,
    /// It was asked last and did not begin.
    mute: bool,
    /// When it last said something about a look.
    last: Option<Instant>,
    files: HashMap<AbsPath, RawJson>,
    /// How often the server had heard of changes when it was last asked.
    asked: Option<u64>,
}

impl Saved {
    pub fn new(rule: Option<CheckRule>) -> Self {
        Self { turn: Semaphore::new(1), rule, state: Mutex::default(), changed: watch::channel(()).0 }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it is asked to look, if it can be.
    pub fn rule(&self) -> Option<&CheckRule> {
        self.rule.as_ref()
    }

    /// `$/progress`.
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
                    state.mute = false;
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

    /// `textDocument/publishDiagnostics`, of whatever version: what is looked at lies on the disk.
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

    /// It is about to be asked, having heard of changes so often: what must have begun for it to have ended, and
    /// whether it must be asked at all: not where it looks already, and nothing has changed since it was asked.
    pub fn asks(&self, heard: u64) -> (u64, bool) {
        let mut state = self.state();
        let again = state.running.is_empty() || state.asked != Some(heard);
        state.asked = Some(heard);
        (if again { state.begun } else { state.begun.saturating_sub(1) }, again)
    }

    /// Waits until a look that began after the first `begun` has ended and nothing more came for a while; one that
    /// has not begun at `begins` is not waited for. Cancel-safe.
    pub async fn wait(&self, begun: u64, begins: Instant, until: Instant) -> Waited {
        let quiet = Duration::from_millis(self.rule.as_ref().map_or(0, |rule| rule.settle_ms));
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let (then, at) = {
                let state = self.state();
                match state.begun > begun {
                    true if state.running.is_empty() => {
                        (Waited::Ended, state.last.map_or(until, |last| last + quiet))
                    }
                    true => (Waited::GoesOn, until),
                    false => (Waited::Silent, begins),
                }
            };
            if Instant::now() >= at {
                return then;
            }
            if Instant::now() >= until {
                return Waited::GoesOn;
            }
            tokio::select! {
                _ = changed.changed() => {}
                () = tokio::time::sleep_until(at.min(until).into()) => {}
            }
        }
    }

    /// What it does while a look goes on, for people; `None`: none does.
    pub fn doing(&self) -> Option<String> {
        self.state().running.values().max().cloned()
    }

    /// It was asked, and did not begin.
    pub fn did_not_begin(&self) {
        self.state().mute = true;
    }

    /// Whether it did not begin when it was asked last.
    pub fn is_mute(&self) -> bool {
        self.state().mute
    }

    /// What was pushed of a file last.
    pub fn of(&self, path: &AbsPath) -> Option<RawJson> {
        self.state().files.get(path).cloned()
    }

    /// Files with an error that one of these sources found.
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

    /// Whether more files may have something than are kept.
    pub fn is_full(&self) -> bool {
        self.state().files.len() >= LIMIT
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn saved() -> Saved {
        let rule = json!({"method": "look", "progress": "look", "settle_ms": 60_000});
        Saved::new(Some(serde_json::from_value(rule).unwrap()))
    }

    fn says(saved: &Saved, kind: &str) {
        saved.progress(&json!({"token": "look/0", "value": {"kind": kind}}));
    }

    #[tokio::test]
    async fn what_has_no_time_to_settle_has_not_ended() {
        let saved = saved();
        says(&saved, "begin");
        let now = Instant::now();
        assert_eq!(saved.wait(0, now, now).await, Waited::GoesOn);
        says(&saved, "end");
        assert_eq!(saved.wait(0, now, now).await, Waited::GoesOn);
    }

    #[tokio::test]
    async fn what_has_no_time_to_begin_is_not_silent() {
        let (saved, now) = (saved(), Instant::now());
        assert_eq!(saved.wait(0, now + LONG, now).await, Waited::GoesOn);
        assert_eq!(saved.wait(0, now, now + LONG).await, Waited::Silent);
    }

    #[test]
    fn errors_are_those_of_the_sources() {
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
