//! Numbering of a session's events, their state, and delivery to the sinks.
//!
//! The emitter folds events into the state and keeps a backlog. One task owns the sinks; everything else
//! sends to it. The task removes a sink that panics or does not take an event in time, with a warning, so
//! that no surface can block a run.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use llm::StreamEvent;
use policy::Redactor;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::events::SessionState;
use crate::events::stream_redactor::DeltaRedactor;
use crate::events::{Envelope, Event, EventSink};
use crate::redact::redacted;
use crate::transcript::Messages;

/// Queued events before senders wait.
const QUEUE: usize = 256;
/// Maximum time of a sink for one event.
const SINK_DEADLINE: Duration = Duration::from_secs(5);
/// Size of the backlog for reconnecting sinks: events, and approximate bytes.
const BACKLOG_EVENTS: usize = 10_000;
const BACKLOG_BYTES: usize = 16 * 1024 * 1024;

#[derive(Clone)]
pub(crate) struct Emitter {
    session_id: Arc<str>,
    queue: mpsc::Sender<Command>,
    state: Arc<watch::Sender<SessionState>>,
}

/// Sends events to a session without keeping it.
pub(crate) struct WeakEmitter(mpsc::WeakSender<Command>);

impl WeakEmitter {
    /// Sends an event if the session lives; waits only while the queue is full.
    pub async fn send(&self, event: Event) {
        if let Some(queue) = self.0.upgrade() {
            let event = Command::Event { event: Box::new(event), messages: None, delivered: None };
            // `Err` means that the task ended with the runtime, and no sink is left.
            queue.send(event).await.ok();
        }
    }
}

enum Command {
    Event {
        event: Box<Event>,
        messages: Option<Messages>,
        delivered: Option<oneshot::Sender<()>>,
    },
    /// The start of a run with this token; `None` for its end.
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
    Replay {
        since: Option<u64>,
        reply: oneshot::Sender<Replay>,
    },
    /// Waits for the delivery of what was sent before.
    Flush {
        done: oneshot::Sender<()>,
    },
}

/// Start position of a sink that was attached later.
#[derive(Debug, Clone)]
pub struct Attached {
    /// Id of the sink, which [`crate::Session::detach`] takes.
    pub id: u64,
    /// Number of the last event before the first one delivered to the sink.
    pub seq: u64,
    /// The current state, if the backlog no longer has the requested events.
    ///
    /// The sink then receives what follows.
    pub resync: Option<SessionState>,
}

/// The events that a surface missed, and the state after them.
#[derive(Debug, Clone)]
pub struct Replay {
    /// Number of the last event.
    pub seq: u64,
    /// The missed events; `None` if the backlog no longer has them.
    pub missed: Option<Vec<Arc<Envelope>>>,
    pub state: SessionState,
}

impl Emitter {
    /// Starts the delivery task, which ends when every emitter is dropped.
    pub fn start(
        session_id: String,
        sinks: Vec<Arc<dyn EventSink>>,
        state: SessionState,
        seq: u64,
        tracker: &TaskTracker,
    ) -> Emitter {
        let (queue, commands) = mpsc::channel(QUEUE);
        let state = Arc::new(watch::channel(state).0);
        let delivery = Delivery {
            session_id: session_id.clone(),
            sinks: sinks.into_iter().enumerate().map(|(at, sink)| (at as u64, sink)).collect(),
            next_sink: u64::MAX / 2,
            redactor: Redactor::from_env(),
            deltas: DeltaRedactor::default(),
            backlog: Backlog::default(),
            seq,
            state_version: 0,
            state: state.clone(),
            run: None,
        };
        tracker.spawn(delivery.serve(commands));
        Emitter { session_id: session_id.into(), queue, state }
    }

    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// The state, folded from the events.
    pub fn state(&self) -> watch::Receiver<SessionState> {
        self.state.subscribe()
    }

    /// Sets the instructions in the state; no event reports them.
    pub(crate) fn set_instructions(&self, instructions: &str) {
        self.state.send_modify(|state| instructions.clone_into(&mut state.instructions));
    }

    /// Sets the tools of the next request in the state; no event reports them.
    pub(crate) fn set_tools(&self, tools: Vec<String>) {
        self.state.send_modify(|state| state.tools = tools);
    }

    /// Sends an event and waits until every sink has taken it, or `give_up` fires.
    pub async fn emit(&self, event: Event, give_up: &CancellationToken) {
        self.emit_with(event, None, give_up).await;
    }

    /// Emits like [`Emitter::emit`], with the transcript as of the event.
    pub(crate) async fn emit_with(
        &self,
        event: Event,
        messages: Option<Messages>,
        give_up: &CancellationToken,
    ) {
        let (delivered, on_delivered) = oneshot::channel();
        if self
            .queue
            .send(Command::Event { event: Box::new(event), messages, delivered: Some(delivered) })
            .await
            .is_ok()
        {
            tokio::select! {
                // Both may be dropped: the event is queued. `Err` means that the task ended with the runtime.
                _ = on_delivered => {}
                () = give_up.cancelled() => {}
            }
        }
    }

    /// Sends an event; waits only while the queue is full.
    pub async fn send(&self, event: Event) {
        // `Err` means that the task ended with the runtime, and no sink is left.
        self.queue
            .send(Command::Event { event: Box::new(event), messages: None, delivered: None })
            .await
            .ok();
    }

    /// Waits until every sink has taken the events sent before.
    pub(crate) async fn flush(&self) {
        let (done, on_done) = oneshot::channel();
        if self.queue.send(Command::Flush { done }).await.is_ok() {
            // `Err` means that the task ended with the runtime.
            on_done.await.ok();
        }
    }

    pub(crate) fn downgrade(&self) -> WeakEmitter {
        WeakEmitter(self.queue.downgrade())
    }

    /// Sets the run that the following events belong to, by its token.
    pub async fn run(&self, cancel: Option<CancellationToken>) {
        // `Err` means that the task ended with the runtime.
        self.queue.send(Command::Run { cancel }).await.ok();
    }

    /// Adds a sink, which first receives the events after `since`.
    pub async fn attach(&self, sink: Arc<dyn EventSink>, since: Option<u64>) -> Option<Attached> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(Command::Attach { sink, since, reply }).await.ok()?;
        answer.await.ok()
    }

    /// The events after `since`, with the state after the events sent before.
    pub(crate) async fn replay(&self, since: Option<u64>) -> Option<Replay> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(Command::Replay { since, reply }).await.ok()?;
        answer.await.ok()
    }

    /// Removes a sink, after the events sent before.
    pub(crate) async fn detach(&self, id: u64) {
        // `Err` means that the task ended with the runtime.
        self.queue.send(Command::Detach { id }).await.ok();
    }
}

#[derive(Default)]
struct Backlog {
    events: VecDeque<(Arc<Envelope>, usize)>,
    bytes: usize,
}

impl Backlog {
    fn push(&mut self, envelope: Arc<Envelope>) {
        let size = size_of(&envelope.event);
        self.bytes += size;
        self.events.push_back((envelope, size));
        while self.events.len() > BACKLOG_EVENTS || self.bytes > BACKLOG_BYTES {
            match self.events.pop_front() {
                Some((_, size)) => self.bytes -= size,
                None => return,
            }
        }
    }

    /// The events after `since`, if the backlog has all of them.
    fn since(&self, since: u64, last: u64) -> Option<Vec<Arc<Envelope>>> {
        let first = last - self.events.len() as u64;
        if since < first || since > last {
            return None;
        }
        let skip = usize::try_from(since - first).ok()?;
        Some(self.events.iter().skip(skip).map(|(envelope, _)| envelope.clone()).collect())
    }
}

/// Approximate size of an event in bytes; small fields are not counted.
fn size_of(event: &Event) -> usize {
    const SMALL: usize = 256;
    let content = |content: &[llm::Content]| -> usize {
        content
            .iter()
            .map(|block| match block {
                llm::Content::Text { text, .. } => text.len(),
                llm::Content::Image { data, .. } => data.len(),
                llm::Content::Thinking { thinking, .. } => thinking.len(),
                llm::Content::ToolCall(call) => call.arguments.values().map(value_size).sum(),
            })
            .sum()
    };
    SMALL
        + match event {
            Event::MessageStart { message: Some(message), .. } | Event::MessageEnd { message, .. } => {
                let details = match message {
                    llm::Message::ToolResult(result) => value_size(&result.details),
                    _ => 0,
                };
                content(message.content()) + details
            }
            Event::MessageUpdate { update, .. } => match update {
                llm::StreamEvent::TextEnd { content: block, .. }
                | llm::StreamEvent::ThinkingEnd { content: block, .. } => {
                    content(std::slice::from_ref(block))
                }
                llm::StreamEvent::ToolCallEnd { call, .. } => call.arguments.values().map(value_size).sum(),
                _ => 0,
            },
            Event::ToolExecutionStart { input, .. } => value_size(input),
            Event::ToolExecutionUpdate { update, .. } => update.content.len(),
            Event::ToolExecutionEnd { content: blocks, details, .. } => content(blocks) + value_size(details),
            Event::TranscriptReplaced { messages } => messages.iter().map(|it| content(it.content())).sum(),
            _ => 0,
        }
}

fn value_size(value: &serde_json::Value) -> usize {
    use serde_json::Value;
    16 + match value {
        Value::String(text) => text.len(),
        Value::Array(commands) => commands.iter().map(value_size).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + value_size(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

struct Delivery {
    session_id: String,
    sinks: Vec<(u64, Arc<dyn EventSink>)>,
    next_sink: u64,
    redactor: Redactor,
    deltas: DeltaRedactor,
    backlog: Backlog,
    seq: u64,
    state_version: u64,
    state: Arc<watch::Sender<SessionState>>,
    /// Token of the current run.
    run: Option<CancellationToken>,
}

impl Delivery {
    async fn serve(mut self, mut commands: mpsc::Receiver<Command>) {
        while let Some(command) = commands.recv().await {
            match command {
                Command::Event { event, messages, delivered } => {
                    self.event(*event, messages).await;
                    if let Some(delivered) = delivered {
                        // `Err` means that the sender was dropped while it waited.
                        delivered.send(()).ok();
                    }
                }
                Command::Run { cancel } => self.run(cancel).await,
                Command::Attach { sink, since, reply } => self.attach(sink, since, reply).await,
                Command::Replay { since, reply } => {
                    let missed = since.and_then(|since| self.backlog.since(since, self.seq));
                    let state = self.state.borrow().clone();
                    // `Err` means that the caller has stopped waiting.
                    drop(reply.send(Replay { seq: self.seq, missed, state }));
                }
                Command::Detach { id } => self.sinks.retain(|(it, _)| *it != id),
                // `Err` means that the caller has stopped waiting.
                Command::Flush { done } => drop(done.send(())),
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
            tracing::warn!(session = self.session_id, "a listener panicked and was removed");
            let text = "a listener panicked at the start of a run and was removed".to_owned();
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
        let mut removed = self.deliver(event).await;
        // The remaining sinks are notified, which may remove more; each round removes one at least.
        while let Some(text) = removed.pop() {
            let more = self.deliver(Event::Notice { level: "warning".to_owned(), text }).await;
            removed.extend(more);
        }
    }

    /// Delivers to all sinks; returns a warning for each removed one.
    async fn deliver(&mut self, event: Event) -> Vec<String> {
        self.seq += 1;
        self.state_version += u64::from(event.changes_state());
        let event = match &event {
            // These events are by far the most frequent, and are already redacted.
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
        self.backlog.push(envelope.clone());
        let mut removed = Vec::new();
        let mut at = 0;
        while at < self.sinks.len() {
            match deliver(self.sinks[at].1.as_ref(), &envelope).await {
                Ok(()) => at += 1,
                Err(why) => {
                    let seq = envelope.seq;
                    tracing::warn!(session = self.session_id, seq, "a listener {why} and was removed");
                    removed.push(format!("a listener {why} at event {seq} and was removed"));
                    drop(self.sinks.remove(at));
                }
            }
        }
        removed
    }

    async fn attach(
        &mut self,
        sink: Arc<dyn EventSink>,
        since: Option<u64>,
        reply: oneshot::Sender<Attached>,
    ) {
        let missed = self.backlog.since(since.unwrap_or(self.seq), self.seq);
        let resync = missed.is_none().then(|| self.state.borrow().clone());
        let missed = missed.unwrap_or_default();
        self.next_sink += 1;
        let id = self.next_sink;
        let seq = self.seq - missed.len() as u64;
        // The caller learns the start position before its sink receives the first event. `Err` means that the
        // caller is gone, and its sink with it.
        if reply.send(Attached { id, seq, resync }).is_err() {
            return;
        }
        for envelope in missed {
            if let Err(why) = deliver(sink.as_ref(), &envelope).await {
                tracing::warn!(session = self.session_id, "a listener {why} and was removed");
                return;
            }
        }
        if let Some(cancel) = &self.run
            && std::panic::catch_unwind(AssertUnwindSafe(|| sink.run_begins(cancel))).is_err()
        {
            tracing::warn!(session = self.session_id, "a listener panicked and was removed");
            return;
        }
        self.sinks.push((id, sink));
    }
}

async fn deliver(sink: &dyn EventSink, envelope: &Envelope) -> Result<(), &'static str> {
    // The sink boxes its future; both the call and the future may panic.
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
    fn the_backlog_is_bounded_in_number_and_size() {
        let envelope = |seq, text: String| {
            let event = Event::Notice { level: "info".to_owned(), text };
            Arc::new(Envelope { session_id: "s".to_owned(), seq, state_version: 0, at: 0, event })
        };
        let mut backlog = Backlog::default();
        for seq in 1..=12_000 {
            backlog.push(envelope(seq, String::new()));
        }
        assert_eq!(backlog.events.len(), BACKLOG_EVENTS);
        assert!(backlog.since(1_999, 12_000).is_none(), "too long ago");
        let since = backlog.since(2_000, 12_000).unwrap();
        assert_eq!((since.len(), since[0].seq), (10_000, 2_001));
        assert_eq!(backlog.since(12_000, 12_000).unwrap().len(), 0);
        assert!(backlog.since(12_001, 12_000).is_none(), "not of this session");
        let big = |seq| {
            let update = crate::events::Update {
                update_type: crate::events::UpdateKind::Stdout,
                content: "x".repeat(1024 * 1024),
                progress_percent: None,
            };
            let event = Event::ToolExecutionUpdate { tool_call_id: "c".to_owned(), update };
            Arc::new(Envelope { session_id: "s".to_owned(), seq, state_version: 0, at: 0, event })
        };
        for seq in 12_001..=12_020 {
            backlog.push(big(seq));
        }
        assert!(backlog.bytes <= BACKLOG_BYTES && backlog.events.len() < 20, "{}", backlog.events.len());
    }
}
