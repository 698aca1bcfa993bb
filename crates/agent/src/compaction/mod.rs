//! Putting the context into fewer words: when, what of it, and the two ways to do it. The file keeps everything; what a model is
//! sent begins with the summary from then on.

mod ask;
mod cut;
mod summary;

use std::sync::Arc;

use llm::{Message, Model, Request, StopReason};

pub(crate) use cut::{PICTURE, cut, estimate};

use crate::event::Event;
use crate::run::{RunCx, RunError};
use crate::store::summary_message;
use crate::transcript::Transcript;

/// When the context is put into fewer words, and how much of it stays as it is. In a small window less is reserved and kept.
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

/// The instructions and tools that a request begins with hold about so many tokens.
const BEGINNING: u64 = 3_000;
/// The most tokens of a summary, and what the instructions for it hold.
const SUMMARY: u64 = 4_000;
const INSTRUCTIONS: u64 = 300;

impl Limits {
    /// The limits for a window of this size: at most a quarter of it is reserved, and what stays leaves as much room again.
    pub(crate) fn within(self, window: u64) -> Limits {
        let reserve = self.reserve.min(window / 4);
        let threshold = window - reserve;
        let keep = self.keep.min((threshold.saturating_sub(BEGINNING) / 2).max(threshold / 5));
        Limits { window, reserve, keep, ..self }
    }

    /// The most tokens that a context may have.
    pub(crate) fn threshold(self) -> u64 {
        self.window.saturating_sub(self.reserve)
    }

    /// The most tokens of a summary.
    fn summary(self) -> u64 {
        SUMMARY.min(self.window / 8)
    }
}

/// The limits for the model that is asked.
pub(crate) fn limits(cx: &RunCx) -> Limits {
    let limits = cx.limits().compaction;
    limits.within(cx.current().model.info().context_window.unwrap_or(limits.window))
}

/// Before a turn: only when the context has grown too large.
pub(crate) async fn at_threshold(cx: &RunCx, transcript: &mut Transcript) -> Result<(), RunError> {
    let limits = limits(cx);
    let is_too_large = || {
        let tokens = transcript.tokens();
        // What comes before the messages is in the size that a model told, and looked at only when it could matter.
        tokens > limits.threshold()
            || !transcript.is_measured()
                && tokens.saturating_mul(2).saturating_add(2 * BEGINNING) > limits.threshold()
                && tokens + beginning(cx) > limits.threshold()
    };
    if limits.automatic && is_too_large() {
        compact(cx, transcript, "threshold", "").await?;
    } else if was_cut(cx, transcript) {
        // However it is set: the model has not seen all of what it was sent.
        compact(cx, transcript, OVERFLOW, "").await?;
    }
    Ok(())
}

/// Whether the newest answer since a compaction was to a context longer than the window, which its provider cuts in silence.
fn was_cut(cx: &RunCx, transcript: &Transcript) -> bool {
    let window = cx.current().model.info().context_window;
    transcript.messages().look(|messages| {
        let since = messages.get(transcript.old()..).unwrap_or_default();
        let answer = since.iter().rev().find_map(|message| match message {
            Message::Assistant(answer) => Some(answer),
            _ => None,
        });
        answer.is_some_and(|answer| !answer.failed() && llm::is_overflow(answer, window))
    })
}

/// About how many tokens stand before the messages.
fn beginning(cx: &RunCx) -> u64 {
    let current = cx.current();
    let tools = current.tools.definitions();
    let of_tools = tools.iter().map(|it| it.description.len() + it.parameters.to_string().len());
    (current.instructions.len() + of_tools.sum::<usize>()) as u64 / 4
}

/// After a request that did not fit. False when there is nothing that could be left out.
pub(crate) async fn on_overflow(cx: &RunCx, transcript: &mut Transcript) -> Result<bool, RunError> {
    compact(cx, transcript, OVERFLOW, "").await
}

const OVERFLOW: &str = "overflow";

/// Puts all but the newest of the context into fewer words; `wishes` are the person's for the summary. False when there is nothing
/// to put into fewer words, or the run was cancelled.
pub(crate) async fn compact(
    cx: &RunCx,
    transcript: &mut Transcript,
    reason: &str,
    wishes: &str,
) -> Result<bool, RunError> {
    let messages = transcript.messages().to_vec();
    let limits = limits(cx);
    let keep = match reason {
        // The model counts otherwise than we do, so half of what we count goes.
        OVERFLOW => limits.keep.min(messages.iter().map(estimate).sum::<u64>() / 2),
        _ => limits.keep,
    };
    let Some(at) = cut(&messages, keep) else { return Ok(false) };
    let tokens = transcript.tokens();
    cx.emit(Event::CompactionStart { reason: reason.to_owned(), tokens }).await;
    let kept = messages.len() - at;
    let most = usize::try_from(limits.summary()).unwrap_or(usize::MAX).saturating_mul(4);
    let text = match by_model(cx, &messages[..at], wishes, limits).await {
        Ok(text) => summary::bounded(&text, most),
        Err(None) => summary::extract_within(&messages[..at], most),
        Err(Some(_)) if cx.cancel.is_cancelled() => {
            let error = Some("cancelled".to_owned());
            cx.emit(Event::CompactionEnd { summary: None, kept: messages.len(), error }).await;
            return Ok(false);
        }
        Err(Some(why)) => {
            let text = format!("the model made no summary ({why}); it is an extract");
            cx.emit(Event::Notice { level: "warning".to_owned(), text }).await;
            summary::extract_within(&messages[..at], most)
        }
    };
    let summary = summary_message(&text);
    let written = transcript.compact(&summary, kept, tokens);
    let end = Event::CompactionEnd { summary: Some(summary), kept, error: None };
    let written = written.and_then(|()| transcript.note_usage("compaction", cx.take_spent()));
    cx.events.emit_with(end, Some(transcript.messages().clone()), &cx.cancel).await;
    written.map(|()| true)
}

/// What was done on a branch that is left, in few words: the model's own, else an extract. `None` when it was cancelled.
pub(crate) async fn of_branch(cx: &RunCx, messages: &[Message], wishes: &str) -> Option<String> {
    let limits = limits(cx);
    let most = usize::try_from(limits.summary()).unwrap_or(usize::MAX).saturating_mul(4);
    match by_model(cx, messages, wishes, limits).await {
        Ok(text) => Some(summary::bounded(&text, most)),
        Err(None) => Some(summary::extract_within(messages, most)),
        Err(Some(_)) if cx.cancel.is_cancelled() => None,
        Err(Some(why)) => {
            let text = format!("the model made no summary of what is left ({why}); it is an extract");
            cx.emit(Event::Notice { level: "warning".to_owned(), text }).await;
            Some(summary::extract_within(messages, most))
        }
    }
}

/// The model's own summary. `Err(None)`: it cannot make one; `Err(Some)`: why it made none.
async fn by_model(
    cx: &RunCx,
    messages: &[Message],
    wishes: &str,
    limits: Limits,
) -> Result<String, Option<String>> {
    let current = cx.current();
    if !current.model.can_summarize() {
        return Err(None);
    }
    if let Some(other) = &current.summarizer {
        let its = limits.within(other.info().context_window.unwrap_or(limits.window).min(limits.window));
        match summary_of(cx, other, messages, wishes, its).await {
            Err(Some(why)) if !cx.cancel.is_cancelled() => {
                let name = other.info().name();
                let text = format!("{name} made no summary ({why}); the session's own model is asked");
                cx.emit(Event::Notice { level: "warning".to_owned(), text }).await;
            }
            done => return done,
        }
    }
    summary_of(cx, &current.model, messages, wishes, limits).await
}

async fn summary_of(
    cx: &RunCx,
    model: &Arc<dyn Model>,
    messages: &[Message],
    wishes: &str,
    limits: Limits,
) -> Result<String, Option<String>> {
    // Three characters a token, which is more tokens than most texts have.
    let room = limits.window.saturating_sub(limits.summary() + INSTRUCTIONS) * 3;
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    let request = Request {
        system: summary::INSTRUCTIONS.trim().to_owned(),
        messages: vec![Message::user(summary::question(messages, wishes, room, limits.summary()))].into(),
        ..Request::default()
    };
    let message = ask::ask(cx, model, request).await;
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
