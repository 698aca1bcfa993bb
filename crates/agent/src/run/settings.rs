//! Settings that can change between turns.
//!
//! These are model, thinking level, instructions, tools, limits and policy.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use llm::{Model, ThinkingLevel};
use parking_lot::{Mutex, MutexGuard};
use paths::AbsPath;
use policy::Policy;

use crate::run::limits::Limits;
use crate::tool::discovery::Toolset;
use crate::tool::registry::Registry;

/// Settings that are constant during one turn.
#[derive(Clone)]
pub(crate) struct TurnSettings {
    pub model: Arc<dyn Model>,
    /// Models to try in order when this one fails.
    pub fallbacks: VecDeque<Arc<dyn Model>>,
    /// Model that summarizes conversations instead of `model`.
    pub summarizer: Option<Arc<dyn Model>>,
    pub thinking_level: Option<ThinkingLevel>,
    pub instructions: String,
    pub tools: Arc<Toolset>,
    pub limits: Limits,
    /// Policy that decides on permits.
    ///
    /// Without one, the run does nothing that needs a permit.
    pub policy: Option<Arc<Policy>>,
}

/// Settings of the next turn.
pub(crate) struct SharedSettings {
    current: Mutex<TurnSettings>,
    /// Whether the model searches its tools.
    searches: AtomicBool,
    /// Paths that every policy allows to read.
    readable: Vec<AbsPath>,
}

impl SharedSettings {
    /// Creates settings.
    ///
    /// Every policy allows reads of paths below `readable`.
    pub fn new(mut current: TurnSettings, searches: bool, readable: Vec<AbsPath>) -> SharedSettings {
        current.policy = current.policy.map(|policy| Arc::new(policy.allowing_reads(&readable)));
        SharedSettings { current: Mutex::new(current), searches: AtomicBool::new(searches), readable }
    }

    pub(crate) fn set_policy(&self, policy: &Policy) {
        let policy = Arc::new(policy.allowing_reads(&self.readable));
        self.change(|current| current.policy = Some(policy));
    }

    /// Sets whether the model searches its tools, with the next change of tools.
    pub(crate) fn set_searches(&self, searches: bool) {
        self.searches.store(searches, Ordering::Relaxed);
    }

    pub fn get(&self) -> TurnSettings {
        self.lock().clone()
    }

    pub fn change<T>(&self, change: impl FnOnce(&mut TurnSettings) -> T) -> T {
        change(&mut self.lock())
    }

    /// Replaces the tools; the model still knows those that remain.
    pub(crate) fn set_tools(&self, registry: Arc<Registry>) {
        let new = if self.searches.load(Ordering::Relaxed) {
            Toolset::searchable(registry)
        } else {
            Toolset::all(registry)
        };
        self.change(|current| {
            new.activate(current.tools.active().iter().map(String::as_str));
            current.tools = Arc::new(new);
        });
    }

    fn lock(&self) -> MutexGuard<'_, TurnSettings> {
        // Every change sets one field.
        self.current.lock()
    }
}
