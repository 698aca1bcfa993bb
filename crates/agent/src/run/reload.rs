//! Settings that may change outside a session.
//!
//! These are instructions, tools, model, limits and policy. The session polls before each turn, so that a
//! change applies from the next turn and never inside one.

use std::sync::Arc;

use llm::Model;
use policy::Policy;

use crate::run::limits::Limits;
use crate::tool::registry::Registry;

/// Source of changed settings.
pub trait ReloadSource: Send + Sync {
    /// The changes since the last poll; `None` if there are none.
    ///
    /// The session calls it before each turn on a thread that may block; the turn waits.
    fn poll_changes(&self) -> Option<Reload>;
}

/// Changed settings; `None` keeps a value.
#[derive(Default)]
pub struct Reload {
    pub instructions: Option<String>,
    pub tools: Option<Registry>,
    /// Whether the model searches its tools; applies with `tools`.
    pub searches: Option<bool>,
    pub model: Option<Arc<dyn Model>>,
    /// Limits of the next turn; the total time applies from the next run.
    pub limits: Option<Limits>,
    pub policy: Option<Arc<Policy>>,
    /// Names of the changed settings, for users.
    pub changed: Vec<String>,
    /// Changes that could not be applied, with the reasons.
    pub problems: Vec<String>,
}
