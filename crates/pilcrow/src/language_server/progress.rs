//! Work-done progress of one run (LSP 3.17 §Work Done Progress, begun by the server).
//!
//! What must stay true: after `begin` comes `end` exactly once, whatever happened in between; a
//! report never comes before or after; a cancel counts from the moment the token is known, before
//! `begin` too.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

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
    /// Fires when `end` was asked for, so that nobody waits for the token any more.
    over: CancellationToken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Begun,
    Ended,
}

impl Progress {
    /// Of the run `session`, which a `window/workDoneProgress/cancel` with [`token`] cancels.
    pub fn new(peer: &Peer, session: &str, shown: bool) -> Self {
        Self {
            peer: peer.clone(),
            token: token(session),
            shown,
            state: Mutex::new(State::Waiting),
            over: CancellationToken::new(),
        }
    }

    /// Has the client make the token, and begins. Ends early when the run did.
    pub async fn begin(&self, title: &str) {
        if !self.shown {
            return;
        }
        let params = json!({ "token": self.token });
        let made = self.peer.request("window/workDoneProgress/create", &params, CREATE, &self.over).await;
        if let Err(error) = made {
            tracing::debug!(%error, "no progress is shown");
            return;
        }
        let Ok(room) = self.peer.room().await else { return };
        let mut state = self.lock();
        if *state == State::Waiting {
            *state = State::Begun;
            let value = json!({ "kind": "begin", "title": title, "cancellable": true });
            self.sent(room.notify("$/progress", &self.params(value)));
        }
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
        self.over.cancel();
        let Ok(room) = self.peer.room().await else { return };
        let mut state = self.lock();
        if *state == State::Begun {
            let value = json!({ "kind": "end", "message": message });
            self.sent(room.notify("$/progress", &self.params(value)));
        }
        *state = State::Ended;
    }

    fn params(&self, value: Value) -> Value {
        json!({ "token": self.token, "value": value })
    }

    fn sent(&self, outcome: Result<(), wire::Closed>) {
        if let Err(closed) = outcome {
            tracing::debug!(%closed, "progress was not shown");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Every change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The token of a session's progress.
pub fn token(session: &str) -> String {
    format!("pilcrow-{session}")
}

/// The session that a token of ours is for.
pub fn session(token: &Value) -> Option<&str> {
    token.as_str()?.strip_prefix("pilcrow-")
}
