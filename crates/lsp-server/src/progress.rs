//! Work-done progress of one run, which the server creates (LSP 3.17).
//!
//! Invariants: exactly one `end` follows `begin`; reports come only in between; a cancellation counts
//! as soon as the token is known, even before `begin`.

use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wire::Peer;

/// Deadline of the request to create the token.
const CREATE_DEADLINE: Duration = Duration::from_secs(10);

/// The progress of one run. Does nothing for a client without support.
pub struct Progress {
    peer: Peer,
    token: String,
    shown: bool,
    state: Mutex<State>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Waiting,
    Begun,
    /// A run that ended before the client created the token, with its last message.
    EndedEarly(String),
    Ended,
}

impl Progress {
    /// Creates the progress of a run. `token` must be unique.
    pub fn new(peer: &Peer, token: String, shown: bool) -> Self {
        Self { peer: peer.clone(), token, shown, state: Mutex::new(State::Waiting) }
    }

    /// Creates the token and begins, and ends if the run already did.
    ///
    /// `ending` cancels it.
    pub async fn begin(&self, title: &str, ending: &CancellationToken) {
        if !self.shown {
            return;
        }
        let params = json!({ "token": self.token });
        let created =
            self.peer.request("window/workDoneProgress/create", &params, CREATE_DEADLINE, ending).await;
        if let Err(error) = created {
            tracing::debug!(%error, "the client creates no progress");
            return;
        }
        let Ok(room) = self.peer.room().await else { return };
        let mut state = self.lock();
        let value = json!({ "kind": "begin", "title": title, "cancellable": true });
        self.log_closed(room.notify("$/progress", &self.params(value)));
        *state = match std::mem::replace(&mut *state, State::Ended) {
            State::EndedEarly(message) => {
                self.log_closed(room.notify("$/progress", &self.params(end_value(&message))));
                State::Ended
            }
            _ => State::Begun,
        };
    }

    /// Reports a step, unless the client does not keep up.
    pub fn report(&self, message: &str) {
        let state = self.lock();
        if *state == State::Begun {
            let value = json!({ "kind": "report", "message": message, "cancellable": true });
            self.log_closed(self.peer.try_notify("$/progress", &self.params(value)).map(drop));
        }
    }

    /// Ends the progress; a second call does nothing.
    pub async fn end(&self, message: &str) {
        let Ok(room) = self.peer.room().await else { return };
        let mut state = self.lock();
        *state = match *state {
            State::Waiting => State::EndedEarly(message.to_owned()),
            State::Begun => {
                self.log_closed(room.notify("$/progress", &self.params(end_value(message))));
                State::Ended
            }
            State::EndedEarly(_) | State::Ended => return,
        };
    }

    fn params(&self, value: Value) -> Value {
        json!({ "token": self.token, "value": value })
    }

    fn log_closed(&self, outcome: Result<(), wire::Closed>) {
        if let Err(closed) = outcome {
            tracing::debug!(%closed, "progress was not shown");
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }
}

fn end_value(message: &str) -> Value {
    json!({ "kind": "end", "message": message })
}
