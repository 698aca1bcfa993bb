//! Compaction of the context, by the model or by an extract.
//!
//! The session file keeps everything; later requests begin with the summary.

use std::sync::Arc;

use llm::{Content, Message, Model, Request, StopReason};

use crate::compaction::kept::{Kept, demoted};
use crate::compaction::{BEGINNING, INSTRUCTIONS, Limits, cut, stale, summary};
use crate::events::Event;
use crate::run::context::RunCx;
use crate::run::summarize;
use crate::store::{StoreError, summary_message};
use crate::transcript::{Transcript, estimate};

/// Compacts before a turn if the context is too large.
pub(crate) async fn at_threshold(cx: &RunCx, transcript: &mut Transcript) -> Result<(), StoreError> {
    transcript.set_api(&cx.current().model.info().api);
    let limits = cx.compaction_limits();
    replace_if_cache_is_lost(cx, transcript, limits)?;
    let is_too_large = |transcript: &Transcript| {
        let tokens = transcript.tokens();
        // A size reported by a model includes the instructions; they are estimated only when it could matter.
        tokens > limits.threshold()
            || !transcript.is_measured()
                && tokens.saturating_mul(2).saturating_add(2 * BEGINNING) > limits.threshold()
                && tokens + beginning(cx) > limits.threshold()
    };
    if limits.automatic && is_too_large(transcript) {
        // Both replace the cached start of the request; results are the smaller loss.
        replace_stale(cx, transcript, limits)?;
        if transcript.tokens() <= limits.long() {
            return Ok(());
        }
        compact(cx, transcript, "threshold", "").await?;
    } else if was_cut(cx, transcript) {
        // The setting does not matter here: the model did not receive all of its context.
        compact(cx, transcript, OVERFLOW, "").await?;
    }
    Ok(())
}

/// Replaces stale results of a long conversation if the cache is lost anyway.
fn replace_if_cache_is_lost(
    cx: &RunCx,
    transcript: &mut Transcript,
    limits: Limits,
) -> Result<(), StoreError> {
    if !limits.automatic || transcript.tokens() <= limits.long() {
        return Ok(());
    }
    let current = cx.current();
    let info = current.model.info();
    let model = (info.provider.as_str(), info.id.as_str());
    let is_lost = transcript.messages().with(|messages| stale::is_cache_lost(messages, model, llm::now_ms()));
    if is_lost { replace_stale(cx, transcript, limits) } else { Ok(()) }
}

/// Replaces stale results by one line each; the tools forget that they were shown.
fn replace_stale(cx: &RunCx, transcript: &mut Transcript, limits: Limits) -> Result<(), StoreError> {
    let current = transcript.current();
    let lines = stale::stale_results(&current, limits.keep, transcript.api());
    tracing::debug!(results = lines.len(), "replaced old results");
    forget(cx, lines.iter().map(|(at, _)| &current[*at]));
    let contents: Vec<_> = lines.into_iter().map(|(at, line)| (at, vec![Content::text(line)])).collect();
    if contents.is_empty() { Ok(()) } else { transcript.replace_content(contents) }
}

/// Removes the images that the provider probably refused.
///
/// Returns whether there are any.
pub(crate) async fn remove_images(cx: &RunCx, transcript: &mut Transcript) -> Result<bool, StoreError> {
    let contents = stale::without_images(&transcript.current());
    if contents.is_empty() {
        return Ok(false);
    }
    transcript.replace_content(contents)?;
    let text = "the provider refused an image; Pilcrow removed it and continues".to_owned();
    cx.emit(Event::Notice { level: "warning".to_owned(), text }).await;
    Ok(true)
}

/// Notifies the tools of results that the model no longer has.
fn forget<'a>(cx: &RunCx, messages: impl Iterator<Item = &'a Message>) {
    let tools = cx.tools();
    for message in messages.filter(|message| matches!(message, Message::ToolResult(_))) {
        let text = message.text();
        tools.registry().tools().for_each(|tool| tool.forget(&text));
    }
}

/// Whether the newest answer since a compaction was to an overlong context.
///
/// Some providers truncate such a context silently.
fn was_cut(cx: &RunCx, transcript: &Transcript) -> bool {
    let window = cx.current().model.info().context_window;
    transcript.messages().with(|messages| {
        let since = messages.get(transcript.old()..).unwrap_or_default();
        let answer = since.iter().rev().find_map(|message| match message {
            Message::Assistant(answer) => Some(answer),
            _ => None,
        });
        answer.is_some_and(|answer| !answer.failed() && llm::is_overflow(answer, window))
    })
}

/// Estimated tokens of the instructions and tools.
fn beginning(cx: &RunCx) -> u64 {
    let current = cx.current();
    let tools = current.tools.definitions();
    let of_tools = tools.iter().map(|it| it.description.len() + it.parameters.to_string().len());
    (current.instructions.len() + of_tools.sum::<usize>()) as u64 / 4
}

/// Compacts after an overflow.
///
/// Returns false if there is nothing to remove or the run was cancelled.
pub(crate) async fn on_overflow(cx: &RunCx, transcript: &mut Transcript) -> Result<bool, StoreError> {
    compact(cx, transcript, OVERFLOW, "").await
}

const OVERFLOW: &str = "overflow";

/// Compacts all but the newest messages.
///
/// `wishes` state what the user wants in the summary. Returns false if there was nothing to compact, or
/// the run was cancelled.
pub(crate) async fn compact(
    cx: &RunCx,
    transcript: &mut Transcript,
    reason: &str,
    wishes: &str,
) -> Result<bool, StoreError> {
    transcript.set_api(&cx.current().model.info().api);
    let messages = transcript.current();
    let limits = cx.compaction_limits();
    let keep = match reason {
        // The model counts more tokens than the estimate, so half of the estimate is removed.
        OVERFLOW => {
            limits.keep.min(messages.iter().map(|it| estimate(it, transcript.api())).sum::<u64>() / 2)
        }
        _ => limits.keep,
    };
    let Some(at) = cut(&messages, keep, transcript.api()) else { return Ok(false) };
    let tokens = transcript.tokens();
    cx.emit(Event::CompactionStart { reason: reason.to_owned(), tokens }).await;
    let kept = messages.len() - at;
    let most = usize::try_from(limits.summary()).unwrap_or(usize::MAX).saturating_mul(4);
    let removed = transcript.messages().with(|messages| messages[..at].to_vec());
    let kept_part = Kept::of(&removed);
    // No model receives failed responses, such as a refusal of the planner.
    let removed = llm::transcript::repair(&removed);
    let text = match by_model(cx, &removed, wishes, limits).await {
        Ok(text) => summary::bounded(&demoted(&text), most),
        Err(None) => summary::extract_within(&removed, most),
        Err(Some(_)) if cx.cancel.is_cancelled() => {
            let error = Some("cancelled".to_owned());
            cx.emit(Event::CompactionEnd { summary: None, kept: messages.len(), error }).await;
            return Ok(false);
        }
        Err(Some(why)) => {
            let text = format!("the model could not summarize ({why}); using an extract");
            cx.emit(Event::Notice { level: "warning".to_owned(), text }).await;
            summary::extract_within(&removed, most)
        }
    };
    let summary = summary_message(&(text + &kept_part.render(limits.said())));
    forget(cx, removed.iter());
    let written = transcript.compact(&summary, kept, tokens, &kept_part.details());
    let end = Event::CompactionEnd { summary: Some(summary), kept, error: None };
    let written = written.and_then(|()| transcript.note_usage("compaction", cx.take_spent()));
    cx.events.emit_with(end, Some(transcript.messages().clone()), &cx.cancel).await;
    written.map(|()| true)
}

/// A summary of an abandoned branch, by model or extract; `None` if cancelled.
pub(crate) async fn of_branch(cx: &RunCx, messages: &[Message], wishes: &str) -> Option<String> {
    let limits = cx.compaction_limits();
    let messages = &llm::transcript::repair(messages);
    let most = usize::try_from(limits.summary()).unwrap_or(usize::MAX).saturating_mul(4);
    match by_model(cx, messages, wishes, limits).await {
        Ok(text) => Some(summary::bounded(&text, most)),
        Err(None) => Some(summary::extract_within(messages, most)),
        Err(Some(_)) if cx.cancel.is_cancelled() => None,
        Err(Some(why)) => {
            let text =
                format!("the model could not summarize the abandoned branch ({why}); using an extract");
            cx.emit(Event::Notice { level: "warning".to_owned(), text }).await;
            Some(summary::extract_within(messages, most))
        }
    }
}

/// The model's summary.
///
/// `Err(None)` if it cannot summarize, `Err(Some)` with the reason if it failed.
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
                let text = format!("{name} could not summarize ({why}); asking the session's own model");
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
    // Most texts have more than three characters per token.
    let room = limits.window.saturating_sub(limits.summary() + INSTRUCTIONS) * 3;
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    let request = Request {
        system: summary::INSTRUCTIONS.trim().to_owned(),
        messages: vec![Message::user(summary::question(messages, wishes, room, limits.summary()))].into(),
        ..Request::default()
    };
    let message = summarize::ask(cx, model, request).await;
    if message.failed() {
        return Err(Some(message.error_message.clone().unwrap_or_else(|| "it was cancelled".to_owned())));
    }
    let text = message.text();
    if message.stop_reason == StopReason::Length {
        return Err(Some("the answer was cut at the token limit".to_owned()));
    }
    if text.trim().is_empty() || message.tool_calls().next().is_some() {
        return Err(Some("the answer has no text".to_owned()));
    }
    Ok(text)
}
