//! What a session works with that may change outside of it while it lives: instructions, tools, settings. Looked at before each turn, so
//! that a change counts from the next turn and never inside one.

use std::sync::Arc;

use llm::Model;
use workspace::Policy;

use crate::event::Event;
use crate::registry::Registry;
use crate::run::{Limits, RunCx};

/// What lies around a session.
pub trait Surroundings: Send + Sync {
    /// What has changed since this was asked last, or since the session was built; `None` when nothing has. Asked before each turn, on
    /// a thread that may block; the turn waits for it.
    fn changed(&self) -> Option<Change>;
}

/// What a session goes on with.
#[derive(Default)]
pub struct Change {
    /// Other instructions.
    pub instructions: Option<String>,
    /// Other tools.
    pub tools: Option<Registry>,
    /// Whether the model is told of few tools and finds the others, as from `tools` on.
    pub searches: Option<bool>,
    /// Another model.
    pub model: Option<Arc<dyn Model>>,
    /// Other bounds; that of the whole run's time stays as the run began.
    pub limits: Option<Limits>,
    /// Another policy.
    pub policy: Option<Arc<Policy>>,
    /// What it is that changed, each in a few words, for people.
    pub changed: Vec<String>,
    /// What could not be taken and stays as it was, and where it is wrong.
    pub problems: Vec<String>,
}

/// Takes what has changed, and tells of it.
pub(crate) async fn look_around(cx: &RunCx) {
    let Some(surroundings) = cx.surroundings.clone() else { return };
    let looked = tokio::task::spawn_blocking(move || surroundings.changed());
    let change = tokio::select! {
        biased;
        change = looked => change,
        // What was looked at is asked about again before the next turn, if there is one.
        () = cx.cancel.cancelled() => return,
    };
    let Change { instructions, tools, searches, model, limits, policy, changed, problems } = match change {
        Ok(Some(change)) => change,
        Ok(None) => return,
        Err(error) => {
            tracing::error!(%error, "looking at what lies around the session failed");
            return;
        }
    };
    if let Some(instructions) = instructions {
        cx.events.set_instructions(&instructions);
        cx.settings.change(|current| current.instructions = instructions);
    }
    if let Some(searches) = searches {
        cx.settings.set_searches(searches);
    }
    cx.settings.change(|current| {
        current.model = model.unwrap_or_else(|| current.model.clone());
        current.limits = limits.unwrap_or(current.limits);
    });
    if let Some(policy) = policy {
        cx.settings.set_policy(&policy);
    }
    if let Some(tools) = tools {
        cx.settings.set_tools(Arc::new(tools));
    }
    cx.emit(Event::Reloaded { changed, problems }).await;
}
