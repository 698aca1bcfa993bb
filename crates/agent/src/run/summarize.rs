//! Requests for a summary, with the key and observer of a turn, and with retries.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use llm::{AssistantMessage, Model, Request, StopReason, StreamEvent};
use tokio::time::sleep;

use crate::events::Event;
use crate::run::context::RunCx;
use crate::run::respond::{failed, with_session};
use crate::run::retry::{Episode, Recovery, recovery};
use crate::run::settings::TurnSettings;

/// Requests the answer, which may have failed.
pub(super) async fn ask(cx: &RunCx, model: &Arc<dyn Model>, request: Request) -> AssistantMessage {
    let current = TurnSettings { model: model.clone(), ..cx.current() };
    let retries = cx.limits().retries;
    let mut episode = Episode::default();
    loop {
        let (message, streamed) = match with_session(cx, &current, request.clone()).await {
            Ok(request) => answer(cx, &current, request, &mut episode).await,
            Err(message) => (*message, false),
        };
        cx.spend(message.usage);
        let next = if message.failed() && !cx.cancel.is_cancelled() {
            // Fallback models are for turns.
            recovery(&message, streamed, false, episode, &retries, llm::random())
        } else {
            Recovery::GiveUp
        };
        let Recovery::Wait(delay) = next else {
            if episode.retried {
                let success = !message.failed();
                cx.emit(Event::RetryEnd { attempt: episode.attempts, success }).await;
            }
            return message;
        };
        episode.attempts += 1;
        episode.retried = true;
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        let error = message.error_message.clone().unwrap_or_default();
        let (attempt, max) = (episode.attempts, retries.max);
        cx.emit(Event::RetryStart { attempt, max, delay_ms, error }).await;
        tokio::select! {
            () = sleep(delay) => {}
            // The next attempt then ends at once.
            () = cx.cancel.cancelled() => {}
        }
    }
}

/// One answer, and whether the provider accepted the request.
async fn answer(
    cx: &RunCx,
    current: &TurnSettings,
    request: Request,
    episode: &mut Episode,
) -> (AssistantMessage, bool) {
    let request = Request { retries: episode.attempts, ..request };
    let stream = catch_unwind(AssertUnwindSafe(|| current.model.stream(request, cx.cancel.child_token())));
    let Ok(mut stream) = stream else { return (failed(current, "it panicked".to_owned()), false) };
    let (mut made_again, mut streamed) = (None, false);
    loop {
        // The model's timeouts bound the wait; a cancel ends it.
        let (success, message) = match stream.next().await {
            Some(StreamEvent::Done { message } | StreamEvent::Error { message }) => {
                (!message.failed(), Some(AssistantMessage::clone(&message)))
            }
            None => {
                let stop_reason = StopReason::Aborted;
                (false, Some(AssistantMessage { stop_reason, ..stream.partial() }))
            }
            Some(StreamEvent::Start) => {
                streamed = true;
                (true, None)
            }
            Some(StreamEvent::Retrying { attempt, max, delay_ms, error }) => {
                made_again = Some(attempt);
                episode.attempts = attempt;
                cx.emit(Event::RetryStart { attempt, max, delay_ms, error }).await;
                continue;
            }
            Some(_) => continue,
        };
        if let Some(attempt) = made_again.take() {
            cx.emit(Event::RetryEnd { attempt, success }).await;
        }
        if let Some(message) = message {
            return (message, streamed);
        }
    }
}
