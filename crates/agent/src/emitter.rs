//! Numbers a session's events and hands them to its sinks, in order: one task owns the sinks, everybody else sends.
//! A sink that does not take an event in time, or panics, is let go with a warning, so that no surface can hold up a run.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::event::{Envelope, Event, EventSink};
use crate::redact::redacted;

/// Events that wait for the sinks before senders do.
const QUEUE: usize = 256;
/// How long a sink may take for one event.
const SINK_DEADLINE: Duration = Duration::from_secs(5);

/// Sends events.
#[derive(Clone)]
pub(crate) struct Emitter {
    queue: mpsc::Sender<Item>,
}

struct Item {
    event: Event,
    delivered: Option<oneshot::Sender<()>>,
}

impl Emitter {
    /// Starts the task that delivers; it ends when every emitter is gone.
    pub fn start(session_id: String, sinks: Vec<Arc<dyn EventSink>>, tracker: &TaskTracker) -> Emitter {
        let (queue, items) = mpsc::channel(QUEUE);
        tracker.spawn(deliver_all(session_id, sinks, items));
        Emitter { queue }
    }

    /// Sends an event and waits until every sink has taken it, or `give_up` fires.
    pub async fn emit(&self, event: Event, give_up: &CancellationToken) {
        let (delivered, on_delivered) = oneshot::channel();
        if self.queue.send(Item { event, delivered: Some(delivered) }).await.is_ok() {
            tokio::select! {
                // Both may be dropped: the event is on its way. Err means that the task was stopped with the runtime.
                _ = on_delivered => {}
                () = give_up.cancelled() => {}
            }
        }
    }

    /// Sends an event; waits only while the queue is full.
    pub async fn send(&self, event: Event) {
        // Err means that the task was stopped with the runtime: nobody is left to hear it.
        self.queue.send(Item { event, delivered: None }).await.ok();
    }
}

async fn deliver_all(
    session_id: String,
    mut sinks: Vec<Arc<dyn EventSink>>,
    mut items: mpsc::Receiver<Item>,
) {
    let redactor = workspace::Redactor::from_env();
    let (mut seq, mut state_version) = (0, 0);
    while let Some(Item { event, delivered }) = items.recv().await {
        seq += 1;
        state_version += u64::from(event.changes_state());
        let event = redacted(&redactor, &event).unwrap_or(event);
        let envelope =
            Envelope { session_id: session_id.clone(), seq, state_version, at: llm::now_ms(), event };
        let mut at = 0;
        while at < sinks.len() {
            // Boxed by the sink; a panic may happen in the call or in the future.
            let deliver = AssertUnwindSafe(async { sinks[at].deliver(&envelope).await }).catch_unwind();
            match tokio::time::timeout(SINK_DEADLINE, deliver).await {
                Ok(Ok(())) => at += 1,
                outcome => {
                    let why = if outcome.is_err() { "took too long" } else { "panicked" };
                    tracing::warn!(session = session_id, seq, "a listener {why} and hears nothing more");
                    drop(sinks.remove(at));
                }
            }
        }
        if let Some(delivered) = delivered {
            // Err means that the sender was dropped while it waited.
            delivered.send(()).ok();
        }
    }
}
