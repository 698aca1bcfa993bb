//! Who may speak with a server: many that ask, or one trial that has shown it texts nobody else sees.
//!
//! What must stay true: while a trial holds the gate nothing but the trial tells the server of texts;
//! who changes texts for all makes a trial give way, and never waits for one that waits for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio_util::sync::CancellationToken;

#[derive(Default)]
pub(crate) struct Gate {
    /// Fair: who asks after a trial began to wait goes after it.
    lock: Arc<RwLock<()>>,
    trials: Mutex<HashMap<u64, CancellationToken>>,
    newest: AtomicU64,
    changing: AtomicUsize,
}

/// Held by who asks.
pub(crate) type Entered = OwnedRwLockReadGuard<()>;

/// Held by a trial that is alone.
pub(crate) type Alone = OwnedRwLockWriteGuard<()>;

/// A trial that waits or is on, as long as this lives.
pub(crate) struct Waiting<'a> {
    gate: &'a Gate,
    number: u64,
    /// Fires when it is to give way.
    pub moved: CancellationToken,
}

impl Gate {
    /// To ask. Cancel-safe; waits while a trial is on, which is for some seconds at most.
    pub async fn enter(&self) -> Entered {
        Arc::clone(&self.lock).read_owned().await
    }

    /// To change texts for all: a trial gives way first.
    pub async fn enter_to_change(&self) -> Entered {
        let _changing = Changing::new(self);
        for trial in self.trials().values() {
            trial.cancel();
        }
        self.enter().await
    }

    /// Announces a trial. Its token is cancelled already when texts are about to change.
    pub fn announce(&self) -> Waiting<'_> {
        let number = self.newest.fetch_add(1, Ordering::Relaxed);
        let moved = CancellationToken::new();
        self.trials().insert(number, moved.clone());
        if self.changing.load(Ordering::SeqCst) > 0 {
            moved.cancel();
        }
        Waiting { gate: self, number, moved }
    }

    /// To be alone. Cancel-safe; waits for all that ask.
    pub async fn alone(&self) -> Alone {
        Arc::clone(&self.lock).write_owned().await
    }

    fn trials(&self) -> std::sync::MutexGuard<'_, HashMap<u64, CancellationToken>> {
        self.trials.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.gate.trials().remove(&self.number);
    }
}

/// Counts who waits to change texts: no trial begins then.
struct Changing<'a>(&'a Gate);

impl<'a> Changing<'a> {
    fn new(gate: &'a Gate) -> Self {
        gate.changing.fetch_add(1, Ordering::SeqCst);
        Self(gate)
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.changing.fetch_sub(1, Ordering::SeqCst);
    }
}
