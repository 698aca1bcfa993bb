//! Deadlines of requests, and their cancellation.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// First pause before a request is repeated; it doubles each time.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);
/// Maximum of that pause.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// The deadline and cancellation of a request.
#[derive(Clone, Copy)]
pub struct Clock<'a> {
    /// Time at which the clock was set, or shortened.
    pub began: Instant,
    pub until: Instant,
    /// The time of the whole call, for the error when it is over.
    pub total: Duration,
    pub cancel: &'a CancellationToken,
}

impl<'a> Clock<'a> {
    pub fn new(total: Duration, cancel: &'a CancellationToken) -> Self {
        let began = Instant::now();
        Self { began, until: began + total, total, cancel }
    }

    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// The clock with `part` percent of the remaining time.
    pub fn part(self, part: u32) -> Self {
        self.within(self.left() * part / 100)
    }

    /// The clock with at most `most` from now on.
    pub fn within(self, most: Duration) -> Self {
        let began = Instant::now();
        Self { began, until: self.until.min(began + most), ..self }
    }

    /// The time at which `part` percent of the time since `began` have passed.
    pub fn at(&self, part: u32) -> Instant {
        self.began + self.until.saturating_duration_since(self.began) * part / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_shortened_clock_refer_to_its_own_time() {
        let cancel = CancellationToken::new();
        let clock = Clock::new(Duration::from_secs(60), &cancel);
        for (short, secs) in [(clock.within(Duration::from_secs(4)), 3.0), (clock.part(50), 22.5)] {
            let at = short.at(75).saturating_duration_since(short.began).as_secs_f64();
            assert!((at - secs).abs() < 0.5 && short.at(75) < short.until, "{at}");
            assert_eq!(short.total, clock.total);
        }
        assert!(clock.within(Duration::from_secs(90)).until <= clock.until);
    }
}
