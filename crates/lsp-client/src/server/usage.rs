//! The number of requests that use a server, and the start of its idle time.

use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

pub(crate) struct Usage(Mutex<(usize, Instant)>);

impl Default for Usage {
    fn default() -> Self {
        Self(Mutex::new((0, Instant::now())))
    }
}

impl Usage {
    fn state(&self) -> MutexGuard<'_, (usize, Instant)> {
        self.0.lock()
    }

    /// Begins a use; the caller calls [`Usage::end`].
    pub fn begin(&self) {
        self.state().0 += 1;
    }

    pub fn end(&self) {
        let mut state = self.state();
        *state = (state.0.saturating_sub(1), Instant::now());
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
