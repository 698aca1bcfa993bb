//! One run: from a prompt until the agent is idle.
//!
//! The content of a response decides whether the run continues, not its stop reason. A run ends with exactly one
//! reason, and `agent_end` is its last event but `agent_settled`. When several reasons are true at once the first
//! in the order of [`TerminationReason`] counts.

mod batch;
pub(crate) mod compact;
pub(crate) mod context;
pub mod hooks;
pub(crate) mod limits;
pub(crate) mod queues;
pub(crate) mod reload;
mod respond;
mod result_limit;
pub(crate) mod retry;
pub(crate) mod settings;
mod summarize;
mod turns;

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;

use futures_util::FutureExt as _;
use llm::{Message, Usage};
use parking_lot::Mutex;
use process::deadlines;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::RunId;

use crate::events::{Event, TerminationReason};
use crate::run::context::RunCx;
use crate::run::queues::QueuedMessage;
use crate::run::turns::{Progress, RunEnd};
use crate::store::StoreError;
use crate::transcript::Transcript;

/// Error of a run that ended without an answer.
pub const NO_ANSWER: &str = "the model ended without an answer";

/// Error of a run that panicked.
pub(crate) const DEFECT: &str = "the run failed because of a defect in Pilcrow; see the log";

/// The result of a run: its reason, error, text and messages.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// The run's id, by which its commits are undone.
    pub run: RunId,
    pub reason: TerminationReason,
    /// The error, redacted.
    ///
    /// It is set for the reasons error, timeout and turn limit, and for a missing or cut answer.
    pub error: Option<String>,
    /// Text of the last assistant message that has any, redacted.
    pub final_text: String,
    /// Messages of this run in order: prompts, responses, results, queued messages.
    pub messages: Vec<Message>,
    pub turns: u32,
    /// Tokens of all requests, including those for summaries.
    pub usage: Usage,
    /// Whether a permit was denied because no user was available.
    pub denied_unattended: bool,
}

impl RunOutcome {
    /// The outcome of a run that never began, or panicked.
    pub(crate) fn without_run(reason: TerminationReason, error: &str) -> RunOutcome {
        RunOutcome {
            run: RunId::new(),
            reason,
            error: Some(error.to_owned()),
            final_text: String::new(),
            messages: Vec::new(),
            turns: 0,
            usage: Usage::default(),
            denied_unattended: false,
        }
    }
}

/// The messages with which a run starts.
pub(crate) struct RunStart {
    pub messages: Vec<QueuedMessage>,
    /// Whether queued steering is delivered with it.
    pub takes_steering: bool,
}

/// Executes one run.
///
/// `outer` cancels it; `disconnected` fires when its surface disconnects.
pub(crate) async fn run(
    cx: &RunCx,
    transcript: &mut Transcript,
    run_start: RunStart,
    outer: &CancellationToken,
    disconnected: &CancellationToken,
) -> RunOutcome {
    let started = Instant::now();
    transcript.take_new_messages();
    let current = cx.current();
    let start = Event::AgentStart {
        run_id: cx.run.clone(),
        model: current.model.info().id.clone(),
        tools: current.tools.active(),
        messages: transcript.messages().len(),
        thinking_level: current.thinking_level,
        resumed_from: cx.resumed_from.clone(),
    };
    cx.events.run(Some(cx.cancel.clone())).await;
    if std::panic::catch_unwind(AssertUnwindSafe(|| cx.hooks.run_begins(&cx.cancel))).is_err() {
        tracing::error!("a hook panicked in run_begins");
    }
    cx.events.send(start).await;
    let progress = Mutex::new(Progress::default());
    let body = turns::turns(cx, transcript, run_start, &progress);
    let (reason, error) = supervise(cx, body, outer, disconnected, started).await;
    let Progress { turns, usage } = progress.into_inner();
    let usage = usage.plus(cx.spent.lock().0);
    let messages = transcript.take_new_messages();
    let end = Event::AgentEnd {
        run_id: cx.run.clone(),
        reason,
        error: error.clone(),
        total_turns: turns,
        usage,
        duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
    };
    // The run is over only when all sinks know; a stuck one is removed after its deadline.
    cx.events.emit(end, &CancellationToken::new()).await;
    cx.events.run(None).await;
    let final_text = messages.iter().rev().find_map(|message| match message {
        Message::Assistant(message) => Some(message.text()).filter(|text| !text.is_empty()),
        _ => None,
    });
    let redact = |text: String| cx.redactor.redact(&text).into_owned();
    RunOutcome {
        run: cx.run.clone(),
        reason,
        error: error.map(redact),
        final_text: final_text.map(redact).unwrap_or_default(),
        messages,
        turns,
        usage,
        denied_unattended: cx.gate.unattended.load(Ordering::Acquire),
    }
}

/// Awaits the turns and cancels them for an outer reason.
///
/// Returns the reason that takes precedence.
async fn supervise(
    cx: &RunCx,
    body: impl Future<Output = Result<RunEnd, StoreError>>,
    outer: &CancellationToken,
    disconnected: &CancellationToken,
    started: Instant,
) -> RunEnd {
    let mut reasons = BTreeSet::new();
    let mut body = std::pin::pin!(AssertUnwindSafe(body).catch_unwind());
    let mut total = std::pin::pin!(sleep(cx.limits().total));
    let mut error = loop {
        tokio::select! {
            biased;
            // No branch drops the body, which ends by itself: everything it waits for sees the cancel.
            () = outer.cancelled(), if !reasons.contains(&TerminationReason::Aborted) => {
                reasons.insert(TerminationReason::Aborted);
                cx.cancel.cancel();
            }
            () = disconnected.cancelled(), if !reasons.contains(&TerminationReason::Disconnected) => {
                reasons.insert(TerminationReason::Disconnected);
                cx.cancel.cancel();
            }
            () = &mut total, if !reasons.contains(&TerminationReason::TimeoutTotal) => {
                reasons.insert(TerminationReason::TimeoutTotal);
                cx.cancel.cancel();
            }
            ended = &mut body => match ended {
                Ok(Ok((reason, error))) => {
                    // A cancelled stream reports `aborted`; the cause is already in `reasons`.
                    if reason != TerminationReason::Aborted || reasons.is_empty() {
                        reasons.insert(reason);
                    }
                    break error;
                }
                Ok(Err(failed)) => {
                    tracing::error!(error = %failed, "cannot write the session file; the run ends");
                    reasons.insert(TerminationReason::Error);
                    break Some(format!("cannot write the session file: {failed}"));
                }
                Err(_) => {
                    tracing::error!("a run panicked");
                    reasons.insert(TerminationReason::Error);
                    break Some(DEFECT.to_owned());
                }
            },
        }
    };
    // More reasons may have become true while the body ended.
    let now = [
        (TerminationReason::Aborted, outer.is_cancelled()),
        (TerminationReason::Disconnected, disconnected.is_cancelled()),
        (TerminationReason::TimeoutTotal, started.elapsed() >= cx.limits().total),
    ];
    reasons.extend(now.into_iter().filter(|(_, holds)| *holds).map(|(reason, _)| reason));
    let reason = reasons.first().copied().unwrap_or(TerminationReason::Error);
    match reason {
        TerminationReason::Aborted | TerminationReason::Disconnected => error = None,
        TerminationReason::TimeoutTotal => {
            error = Some(format!("the run exceeded its limit of {} s", cx.limits().total.as_secs_f64()));
        }
        _ => {}
    }
    (reason, error)
}

/// Waits briefly for the tasks of tools that did not stop.
pub(crate) async fn wait_for_stragglers(tracker: &TaskTracker) {
    tracker.close();
    if timeout(deadlines::STRAGGLERS, tracker.wait()).await.is_err() {
        tracing::warn!("tasks of tools are still running; they were abandoned");
    }
}
