//! What can be changed between turns: the model, how much it thinks, the instructions and the tools.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use llm::{Model, ThinkingLevel};

use crate::discovery::Toolset;

/// What one turn works with.
#[derive(Clone)]
pub(crate) struct Current {
    pub model: Arc<dyn Model>,
    /// Models to go on with when this one fails, in order.
    pub fallbacks: VecDeque<Arc<dyn Model>>,
    pub thinking_level: Option<ThinkingLevel>,
    pub instructions: String,
    pub tools: Arc<Toolset>,
}

/// What the next turn will work with.
pub(crate) struct Settings(Mutex<Current>);

impl Settings {
    pub fn new(current: Current) -> Settings {
        Settings(Mutex::new(current))
    }

    pub fn get(&self) -> Current {
        self.lock().clone()
    }

    pub fn change<T>(&self, change: impl FnOnce(&mut Current) -> T) -> T {
        change(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        // Every change sets one field.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
