//! What servers push about files, and waiting for what is about the text that was sent.
//!
//! What must stay true: nothing that is about another text is ever given out.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::watch;
use workspace::AbsPath;

use crate::definition::DiagnosticsRule;
use crate::documents::Synced;

/// Files remembered; a server that pushes a whole workspace is bounded by it.
const LIMIT: usize = 4096;

pub(crate) struct PushedDiagnostics {
    rule: DiagnosticsRule,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    count: u64,
    files: HashMap<AbsPath, Push>,
    /// Tokens of work that was announced and has not ended.
    work: HashSet<String>,
    work_ended: Option<Instant>,
}

#[derive(Clone)]
struct Push {
    number: u64,
    at: Instant,
    version: Option<i32>,
    items: Value,
}

impl PushedDiagnostics {
    pub fn new(rule: DiagnosticsRule) -> Self {
        Self { rule, state: Mutex::default(), changed: watch::channel(()).0 }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many pushes have come.
    pub fn count(&self) -> u64 {
        self.state().count
    }

    /// `textDocument/publishDiagnostics`.
    pub fn push(&self, path: AbsPath, version: Option<i32>, items: Value) {
        {
            let mut state = self.state();
            state.count += 1;
            let number = state.count;
            if state.files.len() >= LIMIT && !state.files.contains_key(&path) {
                let oldest = state.files.iter().min_by_key(|(_, push)| push.number);
                if let Some(oldest) = oldest.map(|(path, _)| path.clone()) {
                    state.files.remove(&oldest);
                }
            }
            state.files.insert(path, Push { number, at: Instant::now(), version, items });
        }
        self.changed.send_replace(());
    }

    /// `window/workDoneProgress/create`: work is about to begin.
    pub fn announced(&self, token: &Value) {
        self.state().work.insert(token.to_string());
    }

    /// `$/progress`.
    pub fn progress(&self, params: &Value) {
        {
            let mut state = self.state();
            let token = params["token"].to_string();
            match params["value"]["kind"].as_str() {
                Some("begin") => {
                    state.work.insert(token);
                }
                Some("end") => {
                    state.work.remove(&token);
                    state.work_ended = Some(Instant::now());
                }
                _ => return,
            }
        }
        self.changed.send_replace(());
    }

    /// When a push may be taken for the whole: `None` while the server still works.
    fn settled(&self, state: &State, push: &Push) -> Option<Instant> {
        let last = if self.rule.progress {
            if !state.work.is_empty() {
                return None;
            }
            state.work_ended.map_or(push.at, |ended| push.at.max(ended))
        } else {
            push.at
        };
        Some(last + Duration::from_millis(self.rule.settle_ms))
    }

    /// The diagnostics of exactly the text that was sent, waiting for them until `until`; `None` when
    /// they are not known by then. Cancel-safe.
    pub async fn wait(&self, path: &AbsPath, synced: &Synced, until: Instant) -> Option<Value> {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let (push, settled) = {
                let state = self.state();
                let push = state.files.get(path).cloned();
                let settled = push.as_ref().and_then(|push| self.settled(&state, push));
                (push, settled)
            };
            let mut wake = until;
            if let Some(push) = push {
                let settles = match push.version {
                    Some(version) => (version == synced.number).then_some(self.rule.progress),
                    None if self.rule.refuse_unversioned => None,
                    // What came after our change may still be about the text before it, or be a part;
                    // what follows within the settle time replaces it.
                    None => (push.number > synced.pushes_before).then_some(true),
                };
                match (settles, settled) {
                    (Some(false), _) => return Some(push.items),
                    (Some(true), Some(settled)) if Instant::now() >= settled => return Some(push.items),
                    (Some(true), Some(settled)) => wake = wake.min(settled),
                    (Some(true), None) | (None, _) => {}
                }
            }
            if Instant::now() >= until {
                return None;
            }
            tokio::select! {
                _ = changed.changed() => {}
                () = tokio::time::sleep_until(wake.into()) => {}
            }
        }
    }
}
