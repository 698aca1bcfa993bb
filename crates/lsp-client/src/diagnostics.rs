//! What servers push about files, and waiting for what is about the text that was sent.
//!
//! What must stay true: nothing that is about another text is ever given out.

use std::collections::HashMap;
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

    /// The diagnostics of exactly the text that was sent, waiting for them until `until`; `None` when
    /// they are not known by then. Cancel-safe.
    pub async fn wait(&self, path: &AbsPath, synced: &Synced, until: Instant) -> Option<Value> {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let push = self.state().files.get(path).cloned();
            let mut wake = until;
            if let Some(push) = push {
                match push.version {
                    Some(version) if version == synced.number => return Some(push.items),
                    Some(_) => {}
                    None if self.rule.refuse_unversioned => {}
                    // What came after our change may still be about the text before it, or be a part;
                    // what follows within the settle time replaces it.
                    None if push.number > synced.pushes_before => {
                        let settled = push.at + Duration::from_millis(self.rule.settle_ms);
                        if Instant::now() >= settled {
                            return Some(push.items);
                        }
                        wake = wake.min(settled);
                    }
                    None => {}
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
