//! What can be changed between turns: the model, how much it thinks, the instructions, the tools, the bounds and the policy.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use llm::{Model, ThinkingLevel};
use workspace::{AbsPath, Policy};

use crate::discovery::Toolset;
use crate::registry::Registry;
use crate::run::Limits;

/// What one turn works with.
#[derive(Clone)]
pub(crate) struct Current {
    pub model: Arc<dyn Model>,
    /// Models to go on with when this one fails, in order.
    pub fallbacks: VecDeque<Arc<dyn Model>>,
    /// Puts conversations into fewer words in the place of `model`.
    pub summarizer: Option<Arc<dyn Model>>,
    pub thinking_level: Option<ThinkingLevel>,
    pub instructions: String,
    pub tools: Arc<Toolset>,
    pub limits: Limits,
    /// What decides about what tools do; without one nothing that needs a permit is done.
    pub policy: Option<Arc<Policy>>,
}

/// What the next turn will work with.
pub(crate) struct Settings {
    current: Mutex<Current>,
    /// Whether the model is told of few tools and finds the others.
    searches: AtomicBool,
    /// What may be read besides, under whatever policy.
    readable: Vec<AbsPath>,
}

impl Settings {
    /// What is below `readable` may be read, under this policy and under each that comes later.
    pub fn new(mut current: Current, searches: bool, readable: Vec<AbsPath>) -> Settings {
        current.policy = current.policy.map(|policy| Arc::new(policy.beside_reading(&readable)));
        Settings { current: Mutex::new(current), searches: AtomicBool::new(searches), readable }
    }

    /// Another policy.
    pub fn set_policy(&self, policy: &Policy) {
        let policy = Arc::new(policy.beside_reading(&self.readable));
        self.change(|current| current.policy = Some(policy));
    }

    /// Whether the model finds its tools from the next change of them on.
    pub fn set_searches(&self, searches: bool) {
        self.searches.store(searches, Ordering::Relaxed);
    }

    pub fn get(&self) -> Current {
        self.lock().clone()
    }

    pub fn change<T>(&self, change: impl FnOnce(&mut Current) -> T) -> T {
        change(&mut self.lock())
    }

    /// Other tools; those the model knew and that are still there it goes on knowing.
    pub fn set_tools(&self, registry: Arc<Registry>) {
        let new = if self.searches.load(Ordering::Relaxed) {
            Toolset::searched(registry)
        } else {
            Toolset::whole(registry)
        };
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
