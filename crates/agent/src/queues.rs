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

/// The two queues of a session. They outlive runs: what is queued while idle waits for the next one.
#[derive(Debug, Default)]
pub(crate) struct Queues(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    steering: VecDeque<Message>,
    follow_up: VecDeque<Message>,
    drain: Drain,
}

impl Queues {
    pub fn steer(&self, message: Message) -> (usize, usize) {
        let mut state = self.lock();
        state.steering.push_back(message);
        state.lengths()
    }

    pub fn follow_up(&self, message: Message) -> (usize, usize) {
        let mut state = self.lock();
        state.follow_up.push_back(message);
        state.lengths()
    }

    pub fn set_drain(&self, drain: Drain) {
        self.lock().drain = drain;
    }

    /// Removes all that waits.
    pub fn clear(&self) -> (usize, usize) {
        let mut state = self.lock();
        state.steering.clear();
        state.follow_up.clear();
        state.lengths()
    }

    pub fn take_steering(&self) -> Vec<Message> {
        let state = &mut *self.lock();
        take(&mut state.steering, state.drain)
    }

    pub fn take_follow_up(&self) -> Vec<Message> {
        let state = &mut *self.lock();
        take(&mut state.follow_up, state.drain)
    }

    pub fn lengths(&self) -> (usize, usize) {
        self.lock().lengths()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is a single push or drain.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn lengths(&self) -> (usize, usize) {
        (self.steering.len(), self.follow_up.len())
    }
}

fn take(queue: &mut VecDeque<Message>, drain: Drain) -> Vec<Message> {
    let count = if drain == Drain::One { queue.len().min(1) } else { queue.len() };
    queue.drain(..count).collect()
}
