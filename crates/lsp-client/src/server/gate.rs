//! Access to a server: many requests, or one speculative edit that no request sees.
//!
//! Invariants: during a speculative edit only that edit sends texts. A change of the true texts
//! makes the edit yield, and never waits for an edit that waits for the change.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio_util::sync::CancellationToken;

#[derive(Default)]
pub(crate) struct Gate {
    /// A fair lock: a request after a waiting speculative edit waits for it.
    lock: Arc<RwLock<()>>,
    speculative: Mutex<HashMap<u64, CancellationToken>>,
    newest: AtomicU64,
    changing: AtomicUsize,
}

/// Guard that a request holds.
pub(crate) type Entered = OwnedRwLockReadGuard<()>;

/// Guard that a speculative edit holds.
pub(crate) type Alone = OwnedRwLockWriteGuard<()>;

/// A waiting or active speculative edit, while it lives.
pub(crate) struct Waiting<'a> {
    gate: &'a Gate,
    number: u64,
    /// Fires when the edit has to yield.
    pub moved: CancellationToken,
}

impl Gate {
    /// Enters for a request.
    ///
    /// Waits for a speculative edit, some seconds at most. Cancel-safe.
    pub async fn enter(&self) -> Entered {
        Arc::clone(&self.lock).read_owned().await
    }

    /// Enters to change the true texts: a speculative edit yields first.
    pub(crate) async fn enter_to_change(&self) -> Entered {
        let _changing = Changing::new(self);
        for edit in self.speculative().values() {
            edit.cancel();
        }
        self.enter().await
    }

    /// Announces a speculative edit.
    ///
    /// The token of the result is already cancelled if the texts are about to change.
    pub fn announce(&self) -> Waiting<'_> {
        let number = self.newest.fetch_add(1, Ordering::Relaxed);
        let moved = CancellationToken::new();
        self.speculative().insert(number, moved.clone());
        if self.changing.load(Ordering::SeqCst) > 0 {
            moved.cancel();
        }
        Waiting { gate: self, number, moved }
    }

    /// Waits for all requests and enters alone. Cancel-safe.
    pub async fn alone(&self) -> Alone {
        Arc::clone(&self.lock).write_owned().await
    }

    fn speculative(&self) -> parking_lot::MutexGuard<'_, HashMap<u64, CancellationToken>> {
        self.speculative.lock()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.gate.speculative().remove(&self.number);
    }
}

/// A pending change of the true texts, during which no speculative edit begins.
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
