//! Putting the context into fewer words: when, what of it, and the two ways to do it. The file keeps everything; what a model is
//! sent begins with the summary from then on.

mod cut;
mod summary;

use llm::{Message, Request, StopReason};

pub(crate) use cut::{cut, estimate};
pub use summary::extract;

use crate::event::Event;
use crate::run::{RunCx, RunError};
use crate::store::summary_message;
use crate::transcript::Transcript;

/// When the context is put into fewer words, and how much of it stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Whether it happens by itself; on by default.
    pub automatic: bool,
    /// The window of a model that does not say its own, in tokens; 128,000 by default.
    pub window: u64,
    /// Tokens of the window that are left for the answer; 16,384 by default.
    pub reserve: u64,
    /// Tokens at the end that stay as they are; 20,000 by default.
    pub keep: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { automatic: true, window: 128_000, reserve: 16_384, keep: 20_000 }
    }
}

/// Before a turn: only when the context has grown too large.
pub(crate) async fn at_threshold(cx: &RunCx, transcript: &mut Transcript) -> Result<(), RunError> {
    let limits = &cx.limits.compaction;
    let window = cx.current().model.info().context_window.unwrap_or(limits.window);
    if limits.automatic && transcript.tokens() > window.saturating_sub(limits.reserve) {
        compact(cx, transcript, "threshold", "").await?;
    }
    Ok(())
}

/// After a request that did not fit. False when there is nothing that could be left out.
pub(crate) async fn on_overflow(cx: &RunCx, transcript: &mut Transcript) -> Result<bool, RunError> {
    compact(cx, transcript, "overflow", "").await
}

/// Puts all but the newest of the context into fewer words; `wishes` are the person's for the summary. False when there is nothing
/// to put into fewer words, or the run was cancelled.
pub(crate) async fn compact(
    cx: &RunCx,
    transcript: &mut Transcript,
    reason: &str,
    wishes: &str,
) -> Result<bool, RunError> {
    let messages = transcript.messages().to_vec();
    let Some(at) = cut(&messages, cx.limits.compaction.keep) else { return Ok(false) };
    let tokens = transcript.tokens();
    cx.emit(Event::CompactionStart { reason: reason.to_owned(), tokens }).await;
    let kept = messages.len() - at;
    let text = match by_model(cx, &messages[..at], wishes).await {
        Ok(text) => text,
        Err(None) => summary::extract(&messages[..at]),
        Err(Some(_)) if cx.cancel.is_cancelled() => {
            let error = Some("cancelled".to_owned());
            cx.emit(Event::CompactionEnd { summary: None, kept: messages.len(), error }).await;
            return Ok(false);
        }
        Err(Some(why)) => {
            let text = format!("the model made no summary ({why}); it is an extract");
            cx.emit(Event::Notice { level: "warning".to_owned(), text }).await;
            summary::extract(&messages[..at])
        }
    };
    let summary = summary_message(&text);
    let written = transcript.compact(&summary, kept, tokens);
    let end = Event::CompactionEnd { summary: Some(summary), kept, error: None };
    cx.events.emit_with(end, Some(transcript.messages().clone()), &cx.cancel).await;
    written.map(|()| true)
}

/// The model's own summary. `Err(None)`: it cannot make one; `Err(Some)`: why it made none.
async fn by_model(cx: &RunCx, messages: &[Message], wishes: &str) -> Result<String, Option<String>> {
    let model = cx.current().model;
    if !model.can_summarize() {
        return Err(None);
    }
    let request = Request {
        system: summary::INSTRUCTIONS.trim().to_owned(),
        messages: vec![Message::user(summary::question(messages, wishes))].into(),
        ..Request::default()
    };
    let stream = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        model.stream(request, cx.cancel.child_token())
    }));
    let stream = stream.map_err(|_| Some("it panicked".to_owned()))?;
    // The model's own clocks bound the wait; a cancel ends it.
    let message = stream.final_message().get().await;
    if message.failed() {
        return Err(Some(message.error_message.clone().unwrap_or_else(|| "it was cancelled".to_owned())));
    }
    let text = message.text();
    if message.stop_reason == StopReason::Length {
        return Err(Some("it was cut at its limit".to_owned()));
    }
    if text.trim().is_empty() || message.tool_calls().next().is_some() {
        return Err(Some("the answer is none".to_owned()));
    }
    Ok(text)
}
