//! Requests that Pilcrow abandoned, and that may still keep the server busy.
//!
//! The server receives a cancellation, but may be unable to stop (tsserver 5.9 checks for it only
//! between the statements of a file). Nothing reports when it has stopped, so a later answer is the
//! evidence.

use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

#[derive(Default)]
pub(crate) struct AbandonedRequests(Mutex<Vec<AbandonedRequest>>);

#[derive(Clone)]
struct AbandonedRequest {
    what: String,
    asked: Instant,
}

/// A pending request; it is abandoned if it is dropped without an answer.
pub(crate) struct PendingRequest<'a> {
    requests: &'a AbandonedRequests,
    request: Option<AbandonedRequest>,
}

impl AbandonedRequests {
    fn list(&self) -> MutexGuard<'_, Vec<AbandonedRequest>> {
        self.0.lock()
    }

    /// Records a request that is sent now; `what` describes it.
    pub fn ask(&self, what: String) -> PendingRequest<'_> {
        PendingRequest { requests: self, request: Some(AbandonedRequest { what, asked: Instant::now() }) }
    }

    /// The oldest abandoned request that may keep the server busy.
    pub fn describe(&self) -> Option<String> {
        let first = self.list().first().cloned()?;
        let since = Duration::from_secs(first.asked.elapsed().as_secs().max(1));
        Some(format!(
            "no answer since {} was sent {since:?} ago and cancelled; `reload` restarts the server",
            first.what
        ))
    }
}

impl PendingRequest<'_> {
    /// Records the answer, after which the server has finished all earlier requests.
    pub fn answered(mut self) {
        if let Some(request) = self.request.take() {
            self.requests.list().retain(|it| it.asked > request.asked);
        }
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            let mut list = self.requests.list();
            list.push(request);
            list.sort_by_key(|it| it.asked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abandoned_request_counts_until_a_later_answer() {
        let abandoned = AbandonedRequests::default();
        let named = || abandoned.list().first().map(|request| request.what.clone());
        let (early, first) = (abandoned.ask("early".to_owned()), abandoned.ask("first".to_owned()));
        let second = abandoned.ask("second".to_owned());
        assert_eq!(named(), None);
        drop(second);
        drop(first);
        assert_eq!(named().as_deref(), Some("first"));
        early.answered();
        assert_eq!(named().as_deref(), Some("first"), "it was sent before");
        abandoned.ask("third".to_owned()).answered();
        assert_eq!(named(), None);
    }
}
