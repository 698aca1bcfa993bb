//! The result of a check, as text for the model and as data for programs.

use agent::events::Problem;
use agent::{Event, ToolCx};
use serde::Deserialize as _;
use serde_json::Value;

/// The difference that an edit made, as far as known.
pub(crate) struct Verdict {
    pub text: String,
    pub details: Value,
}

impl Verdict {
    pub fn nothing() -> Self {
        Self { text: String::new(), details: Value::Null }
    }

    /// Emits the difference to listeners of the session, unless nothing was checked.
    pub async fn report(&self, cx: &ToolCx) {
        if let Some(event) = self.event(&cx.call_id) {
            cx.report(event).await;
        }
    }

    /// The event of the call that made the edit.
    pub fn event(&self, call_id: &str) -> Option<Event> {
        let problems = |name: &str| -> Option<Vec<Problem>> {
            self.details[name].as_array()?.iter().map(|it| Problem::deserialize(it).ok()).collect()
        };
        let servers = self.details["servers"].as_object();
        Some(Event::Diagnostics {
            tool_call_id: call_id.to_owned(),
            introduced: problems("introduced")?,
            fixed: problems("gone")?,
            pending: self.details["pending"].as_u64().and_then(|it| usize::try_from(it).ok()).unwrap_or(0),
            servers: servers.into_iter().flat_map(|it| it.keys().cloned()).collect(),
        })
    }
}
