//! How many questions use a server, and since when none does.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) struct Usage(Mutex<(usize, Instant)>);

impl Default for Usage {
    fn default() -> Self {
        Self(Mutex::new((0, Instant::now())))
    }
}

impl Usage {
    fn state(&self) -> MutexGuard<'_, (usize, Instant)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more; whoever calls it calls [`Usage::end`].
    pub fn begin(&self) {
        self.state().0 += 1;
    }

    pub fn end(&self) {
        let mut state = self.state();
        *state = (state.0.saturating_sub(1), Instant::now());
    }

    pub fn is_used(&self) -> bool {
        self.state().0 > 0
    }

    /// For how long nobody has used it.
    pub fn unused(&self) -> Duration {
        let (users, since) = *self.state();
        if users > 0 { Duration::ZERO } else { since.elapsed() }
    }
}
