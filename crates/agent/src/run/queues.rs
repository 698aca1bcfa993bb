//! Queued messages: steering after a turn, follow-ups before the run stops.

use std::collections::VecDeque;

use llm::Message;
use parking_lot::{Mutex, MutexGuard};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    messages: VecDeque<Message>,
    drain: Drain,
}

impl Queues {
    pub fn push(&self, queue: Queue, message: Message) -> (usize, usize) {
        let mut state = self.lock();
        state.of(queue).messages.push_back(message);
        state.lengths()
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

    pub fn clear(&self, queue: Queue) -> (usize, usize) {
        let mut state = self.lock();
        state.of(queue).messages.clear();
        state.lengths()
    }

    /// The messages that would be delivered next, left in the queue.
    pub fn peek(&self) -> Vec<Message> {
        let state = self.lock();
        let next = if state.steering.messages.is_empty() { &state.follow_up } else { &state.steering };
        next.messages.iter().take(next.count()).cloned().collect()
    }

    /// All queued messages: steering, then follow-ups.
    pub fn all(&self) -> Vec<Message> {
        let state = self.lock();
        state.steering.messages.iter().chain(&state.follow_up.messages).cloned().collect()
    }

    pub fn take(&self, queue: Queue) -> Vec<Message> {
        let mut state = self.lock();
        let waiting = state.of(queue);
        let count = waiting.count();
        waiting.messages.drain(..count).collect()
    }

    /// Returns undelivered messages to the front.
    pub(crate) fn put_back(&self, queue: Queue, messages: Vec<Message>) -> (usize, usize) {
        let mut state = self.lock();
        let waiting = &mut state.of(queue).messages;
        messages.into_iter().rev().for_each(|message| waiting.push_front(message));
        state.lengths()
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
