//! The stream of one response: its events and its final message.
//!
//! The two sides are independent: different tasks can read events and the final message, in any
//! order, or only one of them. The producer therefore never waits.
//!
//! The queue of unread events is bounded: from [`QUEUE`] events on, a delta is joined to the
//! previous one of its block. So at most three further events per block are kept, and never more
//! text than the message has. The first final event ends the stream; later ones are dropped and
//! logged.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::message::{AssistantMessage, Content, ErrorKind, ModelError, ToolCall};
use crate::message_builder::MessageBuilder;

/// Number of unread events at which the queue begins to join deltas.
const QUEUE: usize = 256;

/// One step of a response.
///
/// Blocks are numbered as they begin; the `content` of an end event is authoritative.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StreamEvent {
    /// The request failed before it streamed, and is retried after the delay.
    Retrying {
        attempt: u32,
        max: u32,
        delay_ms: u64,
        error: String,
    },
    /// The provider accepted the request.
    Start,
    /// An empty text block begins.
    TextStart {
        index: usize,
    },
    TextDelta {
        index: usize,
        delta: String,
    },
    /// The text block is complete.
    TextEnd {
        index: usize,
        content: Content,
    },
    /// An empty reasoning block begins.
    ThinkingStart {
        index: usize,
    },
    ThinkingDelta {
        index: usize,
        delta: String,
    },
    /// The reasoning block is complete.
    ThinkingEnd {
        index: usize,
        content: Content,
    },
    /// A tool call begins; its id and name may still be empty.
    #[serde(rename = "toolcall_start")]
    ToolCallStart {
        index: usize,
        id: String,
        name: String,
    },
    /// More of the arguments' text.
    #[serde(rename = "toolcall_delta")]
    ToolCallDelta {
        index: usize,
        delta: String,
    },
    /// The tool call is complete.
    #[serde(rename = "toolcall_end")]
    ToolCallEnd {
        index: usize,
        call: ToolCall,
    },
    /// The response ended; nothing follows.
    Done {
        message: Arc<AssistantMessage>,
    },
    /// The response failed or was cancelled; nothing follows.
    Error {
        message: Arc<AssistantMessage>,
    },
}

impl StreamEvent {
    /// Builds `Done` or `Error`, according to the message's stop reason.
    pub fn end(message: AssistantMessage) -> StreamEvent {
        let message = Arc::new(message);
        if message.failed() { StreamEvent::Error { message } } else { StreamEvent::Done { message } }
    }
}

/// A response as it arrives. Dropping it and every [`FinalMessage`] stops its task.
#[derive(Debug)]
pub struct MessageStream {
    shared: Arc<Shared>,
    finished: bool,
    producer: Arc<Producer>,
}

/// The final message of a stream.
#[derive(Debug, Clone)]
pub struct FinalMessage {
    result: watch::Receiver<Option<Arc<AssistantMessage>>>,
    shared: Arc<Shared>,
    _producer: Arc<Producer>,
}

/// The producing side. Dropping it before the end ends the stream with an error.
#[derive(Debug)]
pub struct StreamWriter {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    readable: Notify,
    result: watch::Sender<Option<Arc<AssistantMessage>>>,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<StreamEvent>,
    builder: MessageBuilder,
    ended: bool,
}

/// Stops the task when no reader is left.
#[derive(Debug)]
struct Producer(AbortHandle);

impl Drop for Producer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl MessageStream {
    /// Runs `produce` in a task of the current tokio runtime.
    ///
    /// If `cancel` fires, `produce` is dropped and the stream ends at once with `aborted`. If `produce`
    /// panics or returns early, the stream ends with an error.
    pub fn spawn<F, Fut>(empty: AssistantMessage, cancel: CancellationToken, produce: F) -> MessageStream
    where
        F: FnOnce(StreamWriter) -> Fut,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                builder: MessageBuilder::new(empty),
                ended: false,
            }),
            readable: Notify::new(),
            result: watch::channel(None).0,
        });
        let work = produce(StreamWriter { shared: shared.clone() });
        let for_task = shared.clone();
        let task = tokio::spawn(async move {
            // The future is pinned here, so that it is dropped after the end was written.
            let mut work = std::pin::pin!(work);
            tokio::select! {
                biased;
                // `work` can be dropped anywhere: it owns only a connection and a writer.
                () = cancel.cancelled() => for_task.end_with(None),
                () = &mut work => {}
            }
        });
        MessageStream { shared, finished: false, producer: Arc::new(Producer(task.abort_handle())) }
    }

    /// The next event; `None` after the final one. Cancel-safe.
    pub async fn next(&mut self) -> Option<StreamEvent> {
        if self.finished {
            return None;
        }
        loop {
            let readable = self.shared.readable.notified();
            let event = self.shared.lock().queue.pop_front();
            match event {
                Some(event) => {
                    self.finished = matches!(event, StreamEvent::Done { .. } | StreamEvent::Error { .. });
                    return Some(event);
                }
                None => readable.await,
            }
        }
    }

    /// A handle to the final message.
    pub fn final_message(&self) -> FinalMessage {
        FinalMessage {
            result: self.shared.result.subscribe(),
            shared: self.shared.clone(),
            _producer: self.producer.clone(),
        }
    }

    /// The message as received so far.
    pub fn partial(&self) -> AssistantMessage {
        self.shared.lock().builder.snapshot()
    }
}

impl FinalMessage {
    /// The final message. Waits within the model's timeouts; cancel-safe.
    pub async fn get(&mut self) -> Arc<AssistantMessage> {
        let waited = self.result.wait_for(Option::is_some).await.ok().and_then(|message| message.clone());
        match waited {
            Some(message) => message,
            // This is unreachable: the sender lives in `shared`, which this holds.
            None => Arc::new(self.shared.lock().builder.ended(None)),
        }
    }
}

impl StreamWriter {
    /// Adds an event; never waits. Events after the final one are dropped and logged.
    pub fn push(&self, event: StreamEvent) {
        self.shared.push(event);
    }

    /// Ends the stream with an error and the received parts.
    pub fn fail(&self, kind: ErrorKind, error: String) {
        self.shared.end_with(Some(ModelError::new(kind, error)));
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        if !self.shared.lock().ended {
            let error = "the model's stream stopped before it ended".to_owned();
            self.shared.end_with(Some(ModelError::new(ErrorKind::Internal, error)));
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the state is complete before anything in it can panic.
        self.state.lock()
    }

    fn push(&self, event: StreamEvent) {
        let mut state = self.lock();
        if state.ended {
            drop(state);
            tracing::debug!(?event, "dropped an event that a model sent after its final one");
            return;
        }
        state.builder.apply(&event);
        let result = match &event {
            StreamEvent::Done { message } | StreamEvent::Error { message } => Some(message.clone()),
            _ => None,
        };
        state.ended = result.is_some();
        let joined = state.queue.len() >= QUEUE && join(&mut state.queue, &event);
        if !joined {
            state.queue.push_back(event);
        }
        drop(state);
        if result.is_some() {
            self.result.send_replace(result);
        }
        self.readable.notify_one();
    }

    fn end_with(&self, error: Option<ModelError>) {
        let message = self.lock().builder.ended(error);
        self.push(StreamEvent::end(message));
    }
}

/// Joins a delta to an unread delta of the same block, if there is one.
fn join(queue: &mut VecDeque<StreamEvent>, event: &StreamEvent) -> bool {
    for waiting in queue.iter_mut().rev() {
        match (waiting, event) {
            (
                StreamEvent::TextDelta { index: a, delta: to },
                StreamEvent::TextDelta { index: b, delta: more },
            )
            | (
                StreamEvent::ThinkingDelta { index: a, delta: to },
                StreamEvent::ThinkingDelta { index: b, delta: more },
            )
            | (
                StreamEvent::ToolCallDelta { index: a, delta: to },
                StreamEvent::ToolCallDelta { index: b, delta: more },
            ) if a == b => {
                to.push_str(more);
                return true;
            }
            (
                _,
                StreamEvent::TextDelta { .. }
                | StreamEvent::ThinkingDelta { .. }
                | StreamEvent::ToolCallDelta { .. },
            ) => {}
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::StopReason;

    fn empty() -> AssistantMessage {
        AssistantMessage::empty("test", "test", "test")
    }

    fn text_end(text: &str) -> AssistantMessage {
        AssistantMessage { content: vec![Content::text(text)], ..empty() }
    }

    /// A stream of `count` deltas of one letter, then done.
    fn letters(count: usize) -> MessageStream {
        MessageStream::spawn(empty(), CancellationToken::new(), move |writer| async move {
            writer.push(StreamEvent::Start);
            writer.push(StreamEvent::TextStart { index: 0 });
            for _ in 0..count {
                writer.push(StreamEvent::TextDelta { index: 0, delta: "a".to_owned() });
            }
            writer.push(StreamEvent::end(text_end(&"a".repeat(count))));
            writer.push(StreamEvent::end(text_end("too late")));
            writer.push(StreamEvent::TextStart { index: 1 });
        })
    }

    async fn collect(stream: &mut MessageStream) -> (String, usize, Arc<AssistantMessage>) {
        let (mut text, mut events) = (String::new(), 0);
        while let Some(event) = stream.next().await {
            events += 1;
            match event {
                StreamEvent::TextDelta { delta, .. } => text.push_str(&delta),
                StreamEvent::Done { message } | StreamEvent::Error { message } => {
                    assert_eq!(stream.next().await, None);
                    return (text, events, message);
                }
                _ => {}
            }
        }
        panic!("the stream ended without a final event");
    }

    #[tokio::test]
    async fn the_final_message_can_be_read_before_the_events() {
        let mut stream = letters(100_000);
        let message = stream.final_message().get().await;
        assert_eq!(message.text().len(), 100_000);
        let (text, events, last) = collect(&mut stream).await;
        assert_eq!(text.len(), 100_000, "joined deltas lose nothing");
        assert!(events <= QUEUE + 4, "{events}");
        assert_eq!(last, message, "the first final event counts");
    }

    #[tokio::test]
    async fn different_tasks_may_iterate_and_await_the_final_message() {
        let mut stream = letters(1000);
        let mut last = stream.final_message();
        let awaiting = tokio::spawn(async move { last.get().await });
        let iterating = tokio::spawn(async move { collect(&mut stream).await });
        assert_eq!(awaiting.await.unwrap().text().len(), 1000);
        assert_eq!(iterating.await.unwrap().0.len(), 1000);
    }

    #[tokio::test]
    async fn a_cancel_ends_at_once_and_keeps_the_received_text() {
        let cancel = CancellationToken::new();
        let mut stream = MessageStream::spawn(empty(), cancel.clone(), |writer| async move {
            writer.push(StreamEvent::TextStart { index: 0 });
            writer.push(StreamEvent::TextDelta { index: 0, delta: "half".to_owned() });
            writer.push(StreamEvent::ToolCallStart { index: 1, id: "c".into(), name: "t".into() });
            writer.push(StreamEvent::ToolCallDelta { index: 1, delta: "{\"a\": \"b".to_owned() });
            std::future::pending::<()>().await;
        });
        while !matches!(stream.next().await, Some(StreamEvent::ToolCallDelta { .. })) {}
        cancel.cancel();
        let message = stream.final_message().get().await;
        assert_eq!((message.stop_reason, message.text().as_str()), (StopReason::Aborted, "half"));
        let call = message.tool_calls().next().unwrap();
        assert_eq!(call.arguments.get("a"), Some(&"b".into()));
        assert!(call.arguments_error.is_some(), "a cut call must not be run");
        assert!(matches!(stream.next().await, Some(StreamEvent::Error { .. })));
    }

    #[tokio::test]
    async fn a_panic_in_the_producer_is_an_error_message() {
        let mut stream = MessageStream::spawn(empty(), CancellationToken::new(), |writer| async move {
            writer.push(StreamEvent::Start);
            panic!("a defect");
        });
        let (_, _, message) = collect(&mut stream).await;
        assert_eq!((message.stop_reason, message.error_kind), (StopReason::Error, Some(ErrorKind::Internal)));
    }

    #[tokio::test]
    async fn dropping_the_stream_stops_work_unless_the_end_is_awaited() {
        let (started, on_start) = tokio::sync::oneshot::channel::<()>();
        let (go, on_go) = tokio::sync::oneshot::channel::<()>();
        let stream = MessageStream::spawn(empty(), CancellationToken::new(), |writer| async move {
            started.send(()).ok();
            on_go.await.ok();
            writer.push(StreamEvent::end(text_end("done")));
        });
        on_start.await.unwrap();
        let mut last = stream.final_message();
        drop(stream);
        go.send(()).unwrap();
        assert_eq!(last.get().await.text(), "done");

        let (alive, on_end) = tokio::sync::oneshot::channel::<()>();
        let stream = MessageStream::spawn(empty(), CancellationToken::new(), |_writer| async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        });
        drop(stream);
        assert!(on_end.await.is_err(), "the task was dropped");
    }
}
