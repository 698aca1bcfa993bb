//! The number of requests that use a server, and the start of its idle time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

pub(crate) struct Usage {
    state: Mutex<(usize, Instant)>,
    ended: Arc<Notify>,
}

impl Default for Usage {
    fn default() -> Self {
        Self { state: Mutex::new((0, Instant::now())), ended: Arc::default() }
    }
}

impl Usage {
    fn state(&self) -> MutexGuard<'_, (usize, Instant)> {
        self.state.lock()
    }

    /// Begins a use; the caller calls [`Usage::end`].
    pub fn begin(&self) {
        self.state().0 += 1;
    }

    pub fn end(&self) {
        let mut state = self.state();
        *state = (state.0.saturating_sub(1), Instant::now());
        drop(state);
        self.ended.notify_waiters();
    }

    /// The end of a use. Cancel-safe.
    pub(crate) fn ended(&self) -> OwnedNotified {
        Arc::clone(&self.ended).notified_owned()
    }

    pub(crate) fn is_used(&self) -> bool {
        self.state().0 > 0
    }

    /// Time since the last use ended; zero during a use.
    pub fn unused(&self) -> Duration {
        let (users, since) = *self.state();
        if users > 0 { Duration::ZERO } else { since.elapsed() }
    }
}
