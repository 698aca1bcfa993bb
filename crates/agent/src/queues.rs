//! Messages that wait for a run: steering is delivered after the current turn, follow-ups when the run would stop.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use llm::Message;

/// How many waiting messages are delivered at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Drain {
    /// The oldest; the next one waits for the next turn.
    #[default]
    One,
    /// All.
    All,
}

/// What steering does to the tool calls of the turn that it comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Steering {
    /// Nothing: it is delivered when they are done.
    #[default]
    AfterTurn,
    /// Those that have not started are skipped, each with a result that says so.
    Interrupt,
}

/// One of the two queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// Delivered after the current turn.
    Steering,
    /// Delivered when the run would stop.
    FollowUp,
}

/// The two queues of a session. They outlive runs: what is queued while idle waits for the next one.
#[derive(Debug, Default)]
pub(crate) struct Queues(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    steering: Waiting,
    follow_up: Waiting,
    mode: Steering,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<Message>,
    drain: Drain,
}

impl Queues {
    pub fn push(&self, queue: Queue, message: Message) -> (usize, usize) {
        let mut state = self.lock();
        state.of(queue).messages.push_back(message);
        state.lengths()
    }

    pub fn set_drain(&self, queue: Queue, drain: Drain) {
        self.lock().of(queue).drain = drain;
    }

    pub fn set_steering(&self, mode: Steering) {
        self.lock().mode = mode;
    }

    /// Whether the calls that have not started are to be skipped.
    pub fn interrupts(&self) -> bool {
        let state = self.lock();
        state.mode == Steering::Interrupt && !state.steering.messages.is_empty()
    }

    /// Removes all that waits in one queue.
    pub fn clear(&self, queue: Queue) -> (usize, usize) {
        let mut state = self.lock();
        state.of(queue).messages.clear();
        state.lengths()
    }

    /// What would be delivered next; stays where it is.
    pub fn peek(&self) -> Vec<Message> {
        let state = self.lock();
        let next = if state.steering.messages.is_empty() { &state.follow_up } else { &state.steering };
        next.messages.iter().take(next.count()).cloned().collect()
    }

    /// All that waits: steering, then follow-ups.
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

    /// What was taken and not delivered is the oldest again.
    pub fn put_back(&self, queue: Queue, messages: Vec<Message>) -> (usize, usize) {
        let mut state = self.lock();
        let waiting = &mut state.of(queue).messages;
        messages.into_iter().rev().for_each(|message| waiting.push_front(message));
        state.lengths()
    }

    pub fn lengths(&self) -> (usize, usize) {
        self.lock().lengths()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is a single push or drain.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn count(&self) -> usize {
        if self.drain == Drain::One { self.messages.len().min(1) } else { self.messages.len() }
    }
}

impl State {
    fn of(&mut self, queue: Queue) -> &mut Waiting {
        match queue {
            Queue::Steering => &mut self.steering,
            Queue::FollowUp => &mut self.follow_up,
        }
    }

    fn lengths(&self) -> (usize, usize) {
        (self.steering.messages.len(), self.follow_up.messages.len())
    }
}
