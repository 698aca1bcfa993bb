//! Work-done progress of one run (LSP 3.17 §Work Done Progress, begun by the server).
//!
//! What must stay true: after `begin` comes `end` exactly once, whatever happened in between; a
//! report never comes before or after; a cancel counts from the moment the token is known, before
//! `begin` too.

use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wire::Peer;

/// How long the client has to take the token.
const CREATE: Duration = Duration::from_secs(10);

/// The progress of one run; nothing for a client that shows none.
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
    /// Over before the client had taken the token: it is begun and ended when it has.
    Over(String),
    Ended,
}

impl Progress {
    /// With this token, which no other has.
    pub fn new(peer: &Peer, token: String, shown: bool) -> Self {
        Self { peer: peer.clone(), token, shown, state: Mutex::new(State::Waiting) }
    }

    /// Has the client make the token, and begins; and ends, if the run did meanwhile. `ending`: nobody
    /// needs it any more.
    pub async fn begin(&self, title: &str, ending: &CancellationToken) {
        if !self.shown {
            return;
        }
        let params = json!({ "token": self.token });
        let made = self.peer.request("window/workDoneProgress/create", &params, CREATE, ending).await;
        if let Err(error) = made {
            tracing::debug!(%error, "no progress is shown");
            return;
        }
        let Ok(room) = self.peer.room().await else { return };
        let mut state = self.lock();
        let value = json!({ "kind": "begin", "title": title, "cancellable": true });
        self.sent(room.notify("$/progress", &self.params(value)));
        *state = match std::mem::replace(&mut *state, State::Ended) {
            State::Over(message) => {
                self.sent(room.notify("$/progress", &self.params(ended(&message))));
                State::Ended
            }
            _ => State::Begun,
        };
    }

    /// Shows what is being done. Left out when the client does not keep up.
    pub fn report(&self, message: &str) {
        let state = self.lock();
        if *state == State::Begun {
            let value = json!({ "kind": "report", "message": message, "cancellable": true });
            self.sent(self.peer.try_notify("$/progress", &self.params(value)).map(drop));
        }
    }

    /// Ends it; a second call does nothing.
    pub async fn end(&self, message: &str) {
        let Ok(room) = self.peer.room().await else { return };
        let mut state = self.lock();
        *state = match *state {
            State::Waiting => State::Over(message.to_owned()),
            State::Begun => {
                self.sent(room.notify("$/progress", &self.params(ended(message))));
                State::Ended
            }
            State::Over(_) | State::Ended => return,
        };
    }

    fn params(&self, value: Value) -> Value {
        json!({ "token": self.token, "value": value })
    }

    fn sent(&self, outcome: Result<(), wire::Closed>) {
        if let Err(closed) = outcome {
            tracing::debug!(%closed, "progress was not shown");
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, State> {
        // Every change is one assignment, of a state that holds.
        self.state.lock()
    }
}

fn ended(message: &str) -> Value {
    json!({ "kind": "end", "message": message })
}
