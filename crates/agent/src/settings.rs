//! What can be changed between turns: the model, how much it thinks, the instructions and the tools.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use llm::{Model, ThinkingLevel};

use crate::discovery::Toolset;
use crate::registry::Registry;

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
pub(crate) struct Settings {
    current: Mutex<Current>,
    /// Whether the model is told of few tools and finds the others.
    searches: bool,
}

impl Settings {
    pub fn new(current: Current, searches: bool) -> Settings {
        Settings { current: Mutex::new(current), searches }
    }

    pub fn get(&self) -> Current {
        self.lock().clone()
    }

    pub fn change<T>(&self, change: impl FnOnce(&mut Current) -> T) -> T {
        change(&mut self.lock())
    }

    /// Other tools; those the model knew and that are still there it goes on knowing.
    pub fn set_tools(&self, registry: Arc<Registry>) {
        let new = if self.searches { Toolset::searched(registry) } else { Toolset::whole(registry) };
        self.change(|current| {
            new.activate(current.tools.active().iter().map(String::as_str));
            current.tools = Arc::new(new);
        });
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        // Every change sets one field.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
