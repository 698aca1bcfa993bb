//! Requests that wait for their answers.
//!
//! Does no I/O. What must stay true: an entry leaves the table exactly once, by its answer, by whoever
//! gave up on it, or by the closing of the stream, after which none can be added.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::envelope::RpcError;
use crate::peer::Closed;

/// How a request ended, as far as the stream knows.
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
    /// Takes an id and a place for its answer.
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

    /// Frees an entry that nobody waits for any more; whether it was still there.
    pub fn forget(&self, id: i64) -> bool {
        self.lock().waiting.remove(&id).is_some()
    }

    /// Hands an answer over. `Err(true)`: the id was ours, so the answer is late or a second one.
    pub fn answer(&self, id: i64, outcome: Result<Box<RawValue>, RpcError>) -> Result<(), bool> {
        let mut table = self.lock();
        let Some(sender) = table.waiting.remove(&id) else {
            return Err(id > 0 && id <= table.next);
        };
        drop(table);
        // The waiter may have left in this instant; then the answer is late.
        sender.send(Ok(outcome)).map_err(|_| true)
    }

    /// Ends every waiting request with `closed`; the first reason stays. Whether this was the first.
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
            // A waiter that left needs no reason.
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

    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        // Every method leaves the table whole, so a panic elsewhere does no harm to it.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
