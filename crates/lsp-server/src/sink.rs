//! The event sink of a run: progress, the transcript, and client events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent::{Envelope, Event, EventSink};
use futures_util::future::BoxFuture;
use host::session::AS_OF;
use serde_json::Value;

use super::Connection;
use super::progress::Progress;
use super::result_list::ResultList;
use super::transcript::Transcript;

/// Receives the events of a session.
pub struct Sink {
    pub connection: Arc<Connection>,
    pub progress: Arc<Progress>,
    pub transcript: Transcript,
    /// Whether the client got the event that ends the run.
    pub ended: Arc<AtomicBool>,
    /// The list of a run without a model.
    pub list: ResultList,
}

impl EventSink for Sink {
    fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.transcript.add(&envelope.event);
            self.list.observe(&envelope.event);
            self.connection.review.observe(envelope).await;
            match &envelope.event {
                Event::AgentStart { run_id, .. } => {
                    let Connection { runs, port, .. } = &*self.connection;
                    runs.set_run(&envelope.session_id, run_id, port);
                }
                Event::ToolExecutionStart { tool_name, input, .. } => {
                    self.progress.report(&format!("{tool_name} {}", summarize(input)));
                }
                Event::ToolExecutionUpdate { update, .. } => {
                    self.progress.report(update.content.lines().next().unwrap_or_default());
                }
                Event::PermissionRequest { title, .. } => self.progress.report(&format!("waiting: {title}")),
                Event::Notice { text, .. } => tracing::info!("{text}"),
                Event::Reloaded { changed, problems } => {
                    changed.iter().for_each(|what| tracing::info!("reloaded: {what}"));
                    problems.iter().for_each(|problem| tracing::warn!("{problem}"));
                }
                Event::ModelChange { provider, model } => {
                    self.progress.report(&format!("using {provider}/{model}"));
                }
                Event::RetryStart { attempt, max, error, .. } => {
                    self.progress.report(&format!("retrying ({attempt} of {max}): {error}"));
                }
                _ => {}
            }
            if self.connection.client.events
                && let Err(closed) = self.connection.peer.notify("pilcrow/event", envelope).await
            {
                tracing::debug!(%closed, "an event was not sent");
            }
            if let Event::AgentEnd { .. } = envelope.event {
                self.list.send(&self.connection).await;
                self.ended.store(true, Ordering::Release);
            }
        })
    }
}

/// A short summary of a call's arguments.
fn summarize(input: &Value) -> String {
    const MAX: usize = 80;
    let text = match input.as_object() {
        Some(members) => {
            let arguments = members.iter().filter(|(name, _)| *name != AS_OF);
            let lines = arguments.filter_map(|(_, value)| value.as_str()?.lines().next());
            // A patch is summarized by the path in its header.
            let shown =
                lines.map(|line| match line.strip_prefix('[').and_then(|rest| rest.rsplit_once('#')) {
                    Some((path, tag)) if tag.ends_with(']') => path,
                    _ => line,
                });
            shown.collect::<Vec<_>>().join(" ")
        }
        None => input.to_string(),
    };
    text::shorten(&text, MAX).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_summarized() {
        assert_eq!(summarize(&json!({ "patch": "[src/a #1.py#3B11]\nCUT 1\n" })), "src/a #1.py");
        assert_eq!(summarize(&json!({ "action": "rename", "line": 3, "symbol": "a" })), "rename a");
    }
}
