//! The table of requests without a response.
//!
//! Does no I/O. Invariants: an entry leaves the table exactly once, by its response, by its abandonment, or
//! by the closing of the stream, after which none can be added.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::envelope::RpcError;

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

/// The result of a request, or the reason why the stream closed.
pub(crate) type Outcome = Result<Result<Box<RawValue>, RpcError>, Closed>;

#[derive(Default)]
pub(crate) struct Pending {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next: i64,
    waiting: HashMap<i64, oneshot::Sender<Outcome>>,
    closed: Option<Closed>,
}

impl Pending {
    /// Allocates an id and a receiver for its response.
    pub fn add(&self) -> Result<(i64, oneshot::Receiver<Outcome>), Closed> {
        let mut table = self.lock();
        if let Some(closed) = &table.closed {
            return Err(closed.clone());
        }
        table.next += 1;
        let id = table.next;
        let (sender, receiver) = oneshot::channel();
        table.waiting.insert(id, sender);
        Ok((id, receiver))
    }

    /// Removes an abandoned entry; returns whether it was still there.
    pub fn forget(&self, id: i64) -> bool {
        self.lock().waiting.remove(&id).is_some()
    }

    /// Delivers a response.
    ///
    /// `Err(true)` means that the id was allocated here, so the response is late or a duplicate.
    pub fn answer(&self, id: i64, outcome: Result<Box<RawValue>, RpcError>) -> Result<(), bool> {
        let mut table = self.lock();
        let Some(sender) = table.waiting.remove(&id) else {
            return Err(id > 0 && id <= table.next);
        };
        drop(table);
        // The receiver may be dropped just now; then the response is late.
        sender.send(Ok(outcome)).map_err(|_| true)
    }

    /// Ends every waiting request with `closed`; `false` if closed before.
    pub fn close(&self, closed: Closed) -> bool {
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

    pub fn closed(&self) -> Option<Closed> {
        self.lock().closed.clone()
    }

    pub fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Table> {
        // Every method leaves the table consistent, so a panic elsewhere has no effect on it.
        self.table.lock()
    }
}
