//! Queued messages: steering after a turn, follow-ups before the run stops.

use std::collections::VecDeque;

use llm::Message;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

/// A message for the model with the id that its entry gets.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuedMessage {
    pub message_id: String,
    pub message: Message,
}

impl From<Message> for QueuedMessage {
    fn from(message: Message) -> Self {
        // Twice as long as the ids in files, so that a collision is negligible.
        let message_id = uuid::Uuid::new_v4().simple().to_string().chars().take(16).collect();
        Self { message_id, message }
    }
}

/// A queued message, for surfaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedMessageView {
    pub message_id: String,
    pub queue: Queue,
    pub text: String,
}

/// Number of queued messages that are delivered at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Drain {
    /// Delivers the oldest message; the others wait for later turns.
    #[default]
    One,
    All,
}

/// Effect of steering on the tool calls of the current turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Steering {
    /// Delivers the message when the calls are done.
    #[default]
    AfterTurn,
    /// Skips calls that have not started, with a result that says so.
    Interrupt,
}

/// A queue, by the time of its delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Queue {
    /// Messages that follow the current turn.
    Steering,
    /// Messages that follow when the run would stop.
    FollowUp,
}

/// The queues of a session; messages queued while idle wait for the next run.
#[derive(Debug, Default)]
pub(crate) struct Queues(Mutex<QueueState>);

#[derive(Debug, Default)]
struct QueueState {
    steering: MessageQueue,
    follow_up: MessageQueue,
    mode: Steering,
}

#[derive(Debug, Default)]
struct MessageQueue {
    messages: VecDeque<QueuedMessage>,
    drain: Drain,
}

impl Queues {
    pub fn push(&self, queue: Queue, message: QueuedMessage) {
        self.lock().of(queue).messages.push_back(message);
    }

    /// Removes a message; `None` if it is not queued.
    pub fn remove(&self, message_id: &str) -> Option<(Queue, QueuedMessage)> {
        let mut state = self.lock();
        [Queue::Steering, Queue::FollowUp].into_iter().find_map(|queue| {
            let messages = &mut state.of(queue).messages;
            let at = messages.iter().position(|queued| queued.message_id == message_id)?;
            Some((queue, messages.remove(at)?))
        })
    }

    /// Changes a message in place, and moves it if `queue` or `before` says so.
    ///
    /// Returns false if it, or the message `before`, is not queued.
    pub fn edit(
        &self,
        message_id: &str,
        message: Option<Message>,
        queue: Option<Queue>,
        before: Option<&str>,
    ) -> bool {
        let mut state = self.lock();
        let find = |state: &mut QueueState, id: &str| {
            let all = [Queue::Steering, Queue::FollowUp].into_iter();
            let mut found = all.filter_map(|queue| {
                let messages = &state.of(queue).messages;
                Some((queue, messages.iter().position(|queued| queued.message_id == id)?))
            });
            found.next()
        };
        let Some((old_queue, at)) = find(&mut state, message_id) else { return false };
        let target = match before {
            Some(before) if before != message_id => match find(&mut state, before) {
                Some((queue, _)) => Some(queue),
                None => return false,
            },
            _ => queue.filter(|queue| *queue != old_queue),
        };
        let Some(mut queued) = state.of(old_queue).messages.remove(at) else { return false };
        if let Some(message) = message {
            queued.message = message;
        }
        match target {
            None => state.of(old_queue).messages.insert(at, queued),
            Some(queue) => {
                let messages = &mut state.of(queue).messages;
                let at = messages.iter().position(|queued| Some(queued.message_id.as_str()) == before);
                messages.insert(at.unwrap_or(messages.len()), queued);
            }
        }
        true
    }

    /// The queued messages for surfaces: steering, then follow-ups.
    pub fn texts(&self) -> Vec<QueuedMessageView> {
        let state = self.lock();
        let texts = |queue, messages: &MessageQueue| -> Vec<QueuedMessageView> {
            let text = |queued: &QueuedMessage| QueuedMessageView {
                message_id: queued.message_id.clone(),
                queue,
                text: queued.message.text(),
            };
            messages.messages.iter().map(text).collect()
        };
        [texts(Queue::Steering, &state.steering), texts(Queue::FollowUp, &state.follow_up)].concat()
    }

    pub(crate) fn set_drain(&self, queue: Queue, drain: Drain) {
        self.lock().of(queue).drain = drain;
    }

    pub(crate) fn set_steering(&self, mode: Steering) {
        self.lock().mode = mode;
    }

    /// Whether calls that have not started are skipped.
    pub(crate) fn interrupts(&self) -> bool {
        let state = self.lock();
        state.mode == Steering::Interrupt && !state.steering.messages.is_empty()
    }

    pub fn clear(&self, queue: Queue) {
        self.lock().of(queue).messages.clear();
    }

    /// The messages that would be delivered next, left in the queue.
    pub fn peek(&self) -> Vec<Message> {
        let state = self.lock();
        let next = if state.steering.messages.is_empty() { &state.follow_up } else { &state.steering };
        next.messages.iter().take(next.count()).map(|queued| queued.message.clone()).collect()
    }

    /// All queued messages: steering, then follow-ups.
    pub fn all(&self) -> Vec<Message> {
        let state = self.lock();
        let all = state.steering.messages.iter().chain(&state.follow_up.messages);
        all.map(|queued| queued.message.clone()).collect()
    }

    pub fn take(&self, queue: Queue) -> Vec<QueuedMessage> {
        let mut state = self.lock();
        let waiting = state.of(queue);
        let count = waiting.count();
        waiting.messages.drain(..count).collect()
    }

    /// Returns undelivered messages to the front.
    pub(crate) fn put_back(&self, queue: Queue, messages: Vec<QueuedMessage>) {
        let mut state = self.lock();
        let waiting = &mut state.of(queue).messages;
        messages.into_iter().rev().for_each(|message| waiting.push_front(message));
    }

    pub fn lengths(&self) -> (usize, usize) {
        self.lock().lengths()
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // Every change is a single push or drain.
        self.0.lock()
    }
}

impl MessageQueue {
    fn count(&self) -> usize {
        if self.drain == Drain::One { self.messages.len().min(1) } else { self.messages.len() }
    }
}

impl QueueState {
    fn of(&mut self, queue: Queue) -> &mut MessageQueue {
        match queue {
            Queue::Steering => &mut self.steering,
            Queue::FollowUp => &mut self.follow_up,
        }
    }

    fn lengths(&self) -> (usize, usize) {
        (self.steering.messages.len(), self.follow_up.messages.len())
    }
}
