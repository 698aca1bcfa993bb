//! What the editor is told of a run while it goes on: progress, the transcript, and events where it wants them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent::{Envelope, Event, EventSink};
use futures_util::future::BoxFuture;
use host::session::AS_OF;
use serde_json::Value;

use super::Connection;
use super::progress::Progress;
use super::transcript::Transcript;

/// Hears what happens in a session.
pub struct Sink {
    pub connection: Arc<Connection>,
    pub progress: Arc<Progress>,
    pub transcript: Transcript,
    /// Whether the end of the run was told.
    pub ended: Arc<AtomicBool>,
}

impl EventSink for Sink {
    fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.transcript.add(&envelope.event);
            match &envelope.event {
                Event::AgentStart { run_id, .. } => {
                    let Connection { runs, port, .. } = &*self.connection;
                    runs.commits_as(&envelope.session_id, run_id, port);
                }
                Event::ToolExecutionStart { tool_name, input, .. } => {
                    self.progress.report(&format!("{tool_name} {}", brief(input)));
                }
                Event::ToolExecutionUpdate { update, .. } => {
                    self.progress.report(update.content.lines().next().unwrap_or_default());
                }
                Event::PermissionRequest { title, .. } => self.progress.report(&format!("waiting: {title}")),
                Event::Notice { text, .. } => tracing::info!("{text}"),
                Event::Reloaded { changed, problems } => {
                    changed.iter().for_each(|what| tracing::info!("taken anew: {what}"));
                    problems.iter().for_each(|problem| tracing::warn!("{problem}"));
                }
                Event::ModelChange { provider, model } => {
                    self.progress.report(&format!("{provider}/{model} answers from here on"));
                }
                Event::RetryStart { attempt, max, error, .. } => {
                    self.progress.report(&format!("trying again ({attempt} of {max}): {error}"));
                }
                _ => {}
            }
            if self.connection.client.events
                && let Err(closed) = self.connection.peer.notify("pilcrow/event", envelope).await
            {
                tracing::debug!(%closed, "an event was not told");
            }
            if let Event::AgentEnd { .. } = envelope.event {
                self.ended.store(true, Ordering::Release);
            }
        })
    }
}

/// A call's arguments in a few words.
fn brief(input: &Value) -> String {
    const MAX: usize = 80;
    let text = match input.as_object() {
        Some(members) => {
            let told = members.iter().filter(|(name, _)| *name != AS_OF);
            let lines = told.filter_map(|(_, value)| value.as_str()?.lines().next());
            // Of the header of a patch people want the file.
            let shown =
                lines.map(|line| match line.strip_prefix('[').and_then(|rest| rest.rsplit_once('#')) {
                    Some((path, tag)) if tag.ends_with(']') => path,
                    _ => line,
                });
            shown.collect::<Vec<_>>().join(" ")
        }
        None => input.to_string(),
    };
    if text.chars().count() > MAX { text.chars().take(MAX).chain(['…']).collect() } else { text }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_told_in_a_few_words() {
        assert_eq!(brief(&json!({ "patch": "[src/a #1.py#3B11]\nCUT 1\n" })), "src/a #1.py");
        assert_eq!(brief(&json!({ "action": "rename", "line": 3, "symbol": "a" })), "rename a");
    }
}
