//! Numbers a session's events, folds them into its state, keeps the newest for who comes back, and hands them to the sinks, in
//! order: one task owns the sinks, everybody else sends. A sink that does not take an event in time, or panics, is let go with a
//! warning, so that no surface can hold up a run.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use llm::StreamEvent;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::Redactor;

use crate::deltas::Deltas;
use crate::event::{Envelope, Event, EventSink};
use crate::messages::Messages;
use crate::redact::redacted;
use crate::state::SessionState;

/// Events that wait for the sinks before senders do.
const QUEUE: usize = 256;
/// How long a sink may take for one event.
const SINK_DEADLINE: Duration = Duration::from_secs(5);
/// What is kept for those who come back: so many events, and about so many bytes.
const KEPT_EVENTS: usize = 10_000;
const KEPT_BYTES: usize = 16 * 1024 * 1024;

/// Sends events.
#[derive(Clone)]
pub(crate) struct Emitter {
    session_id: Arc<str>,
    queue: mpsc::Sender<Item>,
    state: Arc<watch::Sender<SessionState>>,
}

enum Item {
    Event {
        event: Box<Event>,
        messages: Option<Messages>,
        delivered: Option<oneshot::Sender<()>>,
    },
    /// A run with this token begins; none goes on.
    Run {
        cancel: Option<CancellationToken>,
    },
    Attach {
        sink: Arc<dyn EventSink>,
        since: Option<u64>,
        reply: oneshot::Sender<Attached>,
    },
    Detach {
        id: u64,
    },
}

/// How a sink that came later begins.
#[derive(Debug, Clone)]
pub struct Attached {
    /// Ends it; see [`crate::Session::detach`].
    pub id: u64,
    /// The number of the last event before the first one the sink hears.
    pub seq: u64,
    /// Set when the events since the number that was asked for are no longer kept: what they came to. The sink hears what follows.
    pub resync: Option<SessionState>,
}

impl Emitter {
    /// Starts the task that delivers; it ends when every emitter is gone.
    pub fn start(
        session_id: String,
        sinks: Vec<Arc<dyn EventSink>>,
        state: SessionState,
        tracker: &TaskTracker,
    ) -> Emitter {
        let (queue, items) = mpsc::channel(QUEUE);
        let state = Arc::new(watch::channel(state).0);
        let delivery = Delivery {
            session_id: session_id.clone(),
            sinks: sinks.into_iter().enumerate().map(|(at, sink)| (at as u64, sink)).collect(),
            next_sink: u64::MAX / 2,
            redactor: Redactor::from_env(),
            deltas: Deltas::default(),
            kept: Kept::default(),
            seq: 0,
            state_version: 0,
            state: state.clone(),
            run: None,
        };
        tracker.spawn(delivery.serve(items));
        Emitter { session_id: session_id.into(), queue, state }
    }

    /// The session that these are events of.
    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// The state, as the events have made it.
    pub fn state(&self) -> watch::Receiver<SessionState> {
        self.state.subscribe()
    }

    /// Changes what no event tells.
    pub fn set_instructions(&self, instructions: &str) {
        self.state.send_modify(|state| instructions.clone_into(&mut state.instructions));
    }

    /// The same of the tools of the next request, where they are others.
    pub fn set_tools(&self, tools: Vec<String>) {
        self.state.send_modify(|state| state.tools = tools);
    }

    /// Sends an event and waits until every sink has taken it, or `give_up` fires.
    pub async fn emit(&self, event: Event, give_up: &CancellationToken) {
        self.emit_with(event, None, give_up).await;
    }

    /// The same, with the transcript as it is with this event.
    pub async fn emit_with(&self, event: Event, messages: Option<Messages>, give_up: &CancellationToken) {
        let (delivered, on_delivered) = oneshot::channel();
        if self
            .queue
            .send(Item::Event { event: Box::new(event), messages, delivered: Some(delivered) })
            .await
            .is_ok()
        {
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
        self.queue.send(Item::Event { event: Box::new(event), messages: None, delivered: None }).await.ok();
    }

    /// The events that follow are of the run that this token cancels; of none.
    pub async fn run(&self, cancel: Option<CancellationToken>) {
        // Err means that the task was stopped with the runtime.
        self.queue.send(Item::Run { cancel }).await.ok();
    }

    /// Adds a sink, which hears the events after `since` first.
    pub async fn attach(&self, sink: Arc<dyn EventSink>, since: Option<u64>) -> Option<Attached> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(Item::Attach { sink, since, reply }).await.ok()?;
        answer.await.ok()
    }

    /// Lets a sink go, after the events sent before.
    pub async fn detach(&self, id: u64) {
        // Err means that the task was stopped with the runtime.
        self.queue.send(Item::Detach { id }).await.ok();
    }
}

/// The newest events.
#[derive(Default)]
struct Kept {
    events: VecDeque<(Arc<Envelope>, usize)>,
    bytes: usize,
}

impl Kept {
    fn push(&mut self, envelope: Arc<Envelope>) {
        let size = weight(&envelope.event);
        self.bytes += size;
        self.events.push_back((envelope, size));
        while self.events.len() > KEPT_EVENTS || self.bytes > KEPT_BYTES {
            match self.events.pop_front() {
                Some((_, size)) => self.bytes -= size,
                None => return,
            }
        }
    }

    /// The events after `since`, if all of them are here.
    fn since(&self, since: u64, last: u64) -> Option<Vec<Arc<Envelope>>> {
        let first = last - self.events.len() as u64;
        if since < first || since > last {
            return None;
        }
        let skip = usize::try_from(since - first).ok()?;
        Some(self.events.iter().skip(skip).map(|(envelope, _)| envelope.clone()).collect())
    }
}

/// About how many bytes an event holds; what is small is not looked at.
fn weight(event: &Event) -> usize {
    const SMALL: usize = 256;
    let content = |content: &[llm::Content]| -> usize {
        content
            .iter()
            .map(|block| match block {
                llm::Content::Text { text, .. } => text.len(),
                llm::Content::Image { data, .. } => data.len(),
                llm::Content::Thinking { thinking, .. } => thinking.len(),
                llm::Content::ToolCall(call) => call.arguments.values().map(value_weight).sum(),
            })
            .sum()
    };
    SMALL
        + match event {
            Event::MessageStart { message: Some(message), .. } | Event::MessageEnd { message, .. } => {
                let details = match message {
                    llm::Message::ToolResult(result) => value_weight(&result.details),
                    _ => 0,
                };
                content(message.content()) + details
            }
            Event::MessageUpdate { update, .. } => match update {
                llm::StreamEvent::TextEnd { content: block, .. }
                | llm::StreamEvent::ThinkingEnd { content: block, .. } => {
                    content(std::slice::from_ref(block))
                }
                llm::StreamEvent::ToolCallEnd { call, .. } => call.arguments.values().map(value_weight).sum(),
                _ => 0,
            },
            Event::ToolExecutionStart { input, .. } => value_weight(input),
            Event::ToolExecutionUpdate { update, .. } => update.content.len(),
            Event::ToolExecutionEnd { content: blocks, details, .. } => {
                content(blocks) + value_weight(details)
            }
            Event::TranscriptReplaced { messages } => messages.iter().map(|it| content(it.content())).sum(),
            _ => 0,
        }
}

fn value_weight(value: &serde_json::Value) -> usize {
    use serde_json::Value;
    16 + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_weight).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + value_weight(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

struct Delivery {
    session_id: String,
    sinks: Vec<(u64, Arc<dyn EventSink>)>,
    next_sink: u64,
    redactor: Redactor,
    deltas: Deltas,
    kept: Kept,
    seq: u64,
    state_version: u64,
    state: Arc<watch::Sender<SessionState>>,
    /// Of the run that goes on.
    run: Option<CancellationToken>,
}

impl Delivery {
    async fn serve(mut self, mut items: mpsc::Receiver<Item>) {
        while let Some(item) = items.recv().await {
            match item {
                Item::Event { event, messages, delivered } => {
                    self.event(*event, messages).await;
                    if let Some(delivered) = delivered {
                        // Err means that the sender was dropped while it waited.
                        delivered.send(()).ok();
                    }
                }
                Item::Run { cancel } => self.run(cancel).await,
                Item::Attach { sink, since, reply } => self.attach(sink, since, reply).await,
                Item::Detach { id } => self.sinks.retain(|(it, _)| *it != id),
            }
        }
    }

    async fn run(&mut self, cancel: Option<CancellationToken>) {
        self.run = cancel;
        let Some(cancel) = self.run.clone() else { return };
        let panics = |(_, sink): &(u64, Arc<dyn EventSink>)| {
            std::panic::catch_unwind(AssertUnwindSafe(|| sink.run_begins(&cancel))).is_err()
        };
        let gone: Vec<u64> = self.sinks.iter().filter(|it| panics(it)).map(|(id, _)| *id).collect();
        self.sinks.retain(|(id, _)| !gone.contains(id));
        for _ in gone {
            tracing::warn!(session = self.session_id, "a listener panicked and hears nothing more");
            let text = "a listener panicked as a run began and hears nothing more".to_owned();
            self.one(Event::Notice { level: "warning".to_owned(), text }, None).await;
        }
    }

    async fn event(&mut self, event: Event, messages: Option<Messages>) {
        let (before, event) = self.deltas.pass(&self.redactor, event);
        for event in before {
            self.one(event, None).await;
        }
        if let Some(event) = event {
            self.one(event, messages).await;
        }
    }

    async fn one(&mut self, event: Event, messages: Option<Messages>) {
        self.state.send_modify(|state| match messages {
            Some(messages) => {
                state.apply_but_messages(&event);
                state.messages = messages;
            }
            None => state.apply(&event),
        });
        let mut let_go = self.tell(event).await;
        // Those who stay are told, which may let go of more; each time it is one sink fewer.
        while let Some(text) = let_go.pop() {
            let more = self.tell(Event::Notice { level: "warning".to_owned(), text }).await;
            let_go.extend(more);
        }
    }

    /// Tells everybody; returns what is to be said of those that were let go.
    async fn tell(&mut self, event: Event) -> Vec<String> {
        self.seq += 1;
        self.state_version += u64::from(event.changes_state());
        let event = match &event {
            // Most of all events by far, and looked at already.
            Event::MessageUpdate { update: StreamEvent::TextDelta { .. }, .. }
            | Event::MessageUpdate { update: StreamEvent::ThinkingDelta { .. }, .. }
            | Event::MessageUpdate { update: StreamEvent::ToolCallDelta { .. }, .. } => event,
            _ => redacted(&self.redactor, &event).unwrap_or(event),
        };
        let envelope = Arc::new(Envelope {
            session_id: self.session_id.clone(),
            seq: self.seq,
            state_version: self.state_version,
            at: llm::now_ms(),
            event,
        });
        self.kept.push(envelope.clone());
        let mut let_go = Vec::new();
        let mut at = 0;
        while at < self.sinks.len() {
            match deliver(self.sinks[at].1.as_ref(), &envelope).await {
                Ok(()) => at += 1,
                Err(why) => {
                    let seq = envelope.seq;
                    tracing::warn!(session = self.session_id, seq, "a listener {why} and hears nothing more");
                    let_go.push(format!("a listener {why} at event {seq} and hears nothing more"));
                    drop(self.sinks.remove(at));
                }
            }
        }
        let_go
    }

    async fn attach(
        &mut self,
        sink: Arc<dyn EventSink>,
        since: Option<u64>,
        reply: oneshot::Sender<Attached>,
    ) {
        let missed = self.kept.since(since.unwrap_or(self.seq), self.seq);
        let resync = missed.is_none().then(|| self.state.borrow().clone());
        let missed = missed.unwrap_or_default();
        self.next_sink += 1;
        let id = self.next_sink;
        let seq = self.seq - missed.len() as u64;
        // Who asked learns where it begins before it hears the first event. Err means that it is gone: so is its sink.
        if reply.send(Attached { id, seq, resync }).is_err() {
            return;
        }
        for envelope in missed {
            if let Err(why) = deliver(sink.as_ref(), &envelope).await {
                tracing::warn!(session = self.session_id, "a listener {why} and hears nothing more");
                return;
            }
        }
        if let Some(cancel) = &self.run
            && std::panic::catch_unwind(AssertUnwindSafe(|| sink.run_begins(cancel))).is_err()
        {
            tracing::warn!(session = self.session_id, "a listener panicked and hears nothing more");
            return;
        }
        self.sinks.push((id, sink));
    }
}

async fn deliver(sink: &dyn EventSink, envelope: &Envelope) -> Result<(), &'static str> {
    // Boxed by the sink; a panic may happen in the call or in the future.
    let deliver = AssertUnwindSafe(async { sink.deliver(envelope).await }).catch_unwind();
    match tokio::time::timeout(SINK_DEADLINE, deliver).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err("panicked"),
        Err(_) => Err("took too long"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r5_what_is_kept_is_bounded_in_number_and_size() {
        let envelope = |seq, text: String| {
            let event = Event::Notice { level: "info".to_owned(), text };
            Arc::new(Envelope { session_id: "s".to_owned(), seq, state_version: 0, at: 0, event })
        };
        let mut kept = Kept::default();
        for seq in 1..=12_000 {
            kept.push(envelope(seq, String::new()));
        }
        assert_eq!(kept.events.len(), KEPT_EVENTS);
        assert!(kept.since(1_999, 12_000).is_none(), "too long ago");
        let since = kept.since(2_000, 12_000).unwrap();
        assert_eq!((since.len(), since[0].seq), (10_000, 2_001));
        assert_eq!(kept.since(12_000, 12_000).unwrap().len(), 0);
        assert!(kept.since(12_001, 12_000).is_none(), "not of this session");
        let big = |seq| {
            let update = crate::Update {
                update_type: crate::UpdateKind::Stdout,
                content: "x".repeat(1024 * 1024),
                progress_percent: None,
            };
            let event = Event::ToolExecutionUpdate { tool_call_id: "c".to_owned(), update };
            Arc::new(Envelope { session_id: "s".to_owned(), seq, state_version: 0, at: 0, event })
        };
        for seq in 12_001..=12_020 {
            kept.push(big(seq));
        }
        assert!(kept.bytes <= KEPT_BYTES && kept.events.len() < 20, "{}", kept.events.len());
    }
}
