//! The table of requests without a response.
//!
//! Does no I/O. Invariants: an entry leaves the table exactly once, by its response, by its abandonment, or
//! by the closing of the stream, after which none can be added.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Reason why a stream is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer ended it.
    EndOfStream,
    /// Reading failed.
    Read(String),
    /// Writing failed.
    Write(String),
    /// Pilcrow closed the stream.
    Local(String),
}

/// Error when the stream is closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the stream is closed: {}", match reason {
    CloseReason::EndOfStream => "the other side ended it",
    CloseReason::Read(error) | CloseReason::Write(error) | CloseReason::Local(error) => error,
})]
pub struct Closed {
    /// The first reason why it was closed.
    pub reason: CloseReason,
}

/// Requests without a response; `A` is a response, `C` the reason of the closing.
pub struct Pending<A, C> {
    table: Mutex<Table<A, C>>,
}

struct Table<A, C> {
    next: i64,
    waiting: HashMap<i64, oneshot::Sender<Result<A, C>>>,
    closed: Option<C>,
}

impl<A, C> Default for Pending<A, C> {
    fn default() -> Self {
        Self { table: Mutex::new(Table { next: 0, waiting: HashMap::new(), closed: None }) }
    }
}

impl<A, C: Clone> Pending<A, C> {
    /// Allocates an id and a receiver for its response.
    ///
    /// # Errors
    /// The reason if the stream is closed.
    pub fn add(&self) -> Result<(i64, oneshot::Receiver<Result<A, C>>), C> {
        let mut table = self.lock();
        if let Some(closed) = &table.closed {
            return Err(closed.clone());
        }
        let id = table.take_number();
        let (sender, receiver) = oneshot::channel();
        table.waiting.insert(id, sender);
        Ok((id, receiver))
    }

    /// Allocates a number that no request has.
    pub fn take_number(&self) -> i64 {
        self.lock().take_number()
    }

    /// Removes an abandoned entry; returns whether it was still there.
    pub fn forget(&self, id: i64) -> bool {
        self.lock().waiting.remove(&id).is_some()
    }

    /// Delivers a response.
    ///
    /// # Errors
    /// `Err(true)`: the id was ours, so the response is late or a duplicate.
    pub fn answer(&self, id: i64, outcome: A) -> Result<(), bool> {
        let mut table = self.lock();
        let Some(sender) = table.waiting.remove(&id) else {
            return Err(id > 0 && id <= table.next);
        };
        drop(table);
        // The receiver may be dropped just now; then the response is late.
        sender.send(Ok(outcome)).map_err(|_| true)
    }

    /// Ends every waiting request with `closed`; `false` if closed before.
    pub fn close(&self, closed: C) -> bool {
        let waiting = {
            let mut table = self.lock();
            if table.closed.is_some() {
                return false;
            }
            table.closed = Some(closed.clone());
            std::mem::take(&mut table.waiting)
        };
        for sender in waiting.into_values() {
            // A dropped receiver needs no reason.
            drop(sender.send(Err(closed.clone())));
        }
        true
    }

    /// The reason if the stream is closed.
    pub fn closed(&self) -> Option<C> {
        self.lock().closed.clone()
    }

    /// Number of waiting requests.
    pub fn count(&self) -> usize {
        self.lock().waiting.len()
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Table<A, C>> {
        // Every method leaves the table consistent, so a panic elsewhere does no harm.
        self.table.lock()
    }
}

impl<A, C> Table<A, C> {
    fn take_number(&mut self) -> i64 {
        self.next += 1;
        self.next
    }
}
