//! What a server was asked, was given up, and may be busy with all the same.
//!
//! It is told of each request that is given up, but it may be unable to stop (tsserver 5.9 looks for that only between
//! the statements of a file). Nothing tells when it has ended, so what counts is whether anything was answered that
//! was asked after it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Default)]
pub(crate) struct Unanswered(Mutex<Vec<GivenUp>>);

/// A request that nobody waits for any more.
#[derive(Clone)]
struct GivenUp {
    what: String,
    asked: Instant,
}

/// A request that is waited for: dropped without an answer it is given up.
pub(crate) struct Waited<'a> {
    of: &'a Unanswered,
    request: Option<GivenUp>,
}

impl Unanswered {
    fn list(&self) -> MutexGuard<'_, Vec<GivenUp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request that is sent now; `what` it is, for people.
    pub fn ask(&self, what: String) -> Waited<'_> {
        Waited { of: self, request: Some(GivenUp { what, asked: Instant::now() }) }
    }

    /// What was given up first of all that the server may be busy with, if there is anything.
    pub fn describe(&self) -> Option<String> {
        let first = self.list().first().cloned()?;
        let since = Duration::from_secs(first.asked.elapsed().as_secs().max(1));
        Some(format!(
            "nothing is answered since {} was asked {since:?} ago and given up, it may still work on that; `reload` starts it anew",
            first.what
        ))
    }
}

impl Waited<'_> {
    /// It was answered, and so the server is done with what it was asked before.
    pub fn answered(mut self) {
        if let Some(request) = self.request.take() {
            self.of.list().retain(|it| it.asked > request.asked);
        }
    }
}

impl Drop for Waited<'_> {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            let mut list = self.of.list();
            list.push(request);
            list.sort_by_key(|it| it.asked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_up_counts_until_something_asked_later_is_answered() {
        let unanswered = Unanswered::default();
        let named = || unanswered.describe().map(|it| it.split(' ').nth(4).unwrap_or_default().to_owned());
        let (early, first) = (unanswered.ask("early".to_owned()), unanswered.ask("first".to_owned()));
        let second = unanswered.ask("second".to_owned());
        assert_eq!(named(), None);
        drop(second);
        drop(first);
        assert_eq!(named().as_deref(), Some("first"));
        early.answered();
        assert_eq!(named().as_deref(), Some("first"), "it was asked before");
        unanswered.ask("third".to_owned()).answered();
        assert_eq!(named(), None);
    }
}
