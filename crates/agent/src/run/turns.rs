//! The turns of a run: requests, tool calls, and the decision about another turn.

use std::sync::Arc;

use llm::{AssistantMessage, ErrorKind, Message, StopReason, Usage};
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::events::{Event, TerminationReason};
use crate::run::batch::{self, Batch};
use crate::run::context::{Hooked, RunCx};
use crate::run::hooks::{NextTurn, TurnDecision, TurnReport};
use crate::run::queues::{Queue, QueuedMessage};
use crate::run::respond::{Response, respond};
use crate::run::retry::{Episode, Recovery, leaves_no_room, recovery};
use crate::run::{NO_ANSWER, RunStart, compact};
use crate::store::StoreError;
use crate::transcript::Transcript;

#[derive(Default)]
pub(super) struct Progress {
    pub turns: u32,
    pub usage: Usage,
}

pub(super) type RunEnd = (TerminationReason, Option<String>);

/// A turn whose response is complete.
struct Turn {
    index: u32,
    message_id: String,
    response: AssistantMessage,
    /// Whether the provider accepted the request.
    streamed: bool,
    has_calls: bool,
}

/// Runs turns until one of them is the last.
pub(super) async fn turns(
    cx: &RunCx,
    transcript: &mut Transcript,
    start: RunStart,
    progress: &Mutex<Progress>,
) -> Result<RunEnd, StoreError> {
    let mut pending = start.messages;
    if start.takes_steering {
        pending.extend(take(cx, Queue::Steering).await);
    }
    let mut episode = Episode::default();
    let (mut index, mut has_worked) = (0, false);
    cx.note_settings(transcript)?;
    if let Some(file) = transcript.file() {
        file.append_run(&cx.run)?;
    }
    loop {
        cx.reload().await;
        cx.take_settings(transcript).await?;
        compact::at_threshold(cx, transcript).await?;
        index += 1;
        let turn =
            request(cx, transcript, index, std::mem::take(&mut pending), progress, &mut episode).await?;
        if turn.response.failed() {
            match after_failure(cx, transcript, &turn, &mut episode).await? {
                Some(end) => return Ok(end),
                None => continue,
            }
        }
        if episode.retried {
            cx.emit(Event::RetryEnd { attempt: episode.attempts, success: true }).await;
        }
        episode = Episode::default();
        let batch = run_calls(cx, transcript, &turn).await?;
        has_worked |= turn.has_calls;
        let decision = finish_turn(cx, &turn, &batch.messages).await;
        if cx.cancel.is_cancelled() {
            turn_end(cx, &turn, &batch, false).await;
            return Ok((TerminationReason::Aborted, None));
        }
        let continues = turn.has_calls && !batch.terminate;
        let reason = termination(cx, &turn, continues, decision);
        let (mut steering, mut follow_up) = (Vec::new(), Vec::new());
        if reason.is_none() {
            steering = take(cx, Queue::Steering).await;
            if steering.is_empty() && !continues {
                follow_up = take(cx, Queue::FollowUp).await;
            }
        }
        let missing = if turn.has_calls { None } else { MissingAnswer::of(&turn.response) };
        // A run that called tools may end without an answer.
        let fails = reason.is_some() && (missing == Some(MissingAnswer::Cut) || !has_worked);
        if let Some(missing) = missing.filter(|_| !fails) {
            let text = missing.message().to_owned();
            cx.emit(Event::Notice { level: "warning".to_owned(), text }).await;
        }
        turn_end(cx, &turn, &batch, reason.is_none()).await;
        if let Some(reason) = reason {
            let error = match reason {
                TerminationReason::TurnLimit => Some(format!("the run reached its limit of {index} turns")),
                _ => missing.filter(|_| fails).map(|missing| missing.message().to_owned()),
            };
            return Ok((reason, error));
        }
        pending = prepare_next_turn(cx, &turn, &batch.messages).await;
        if steering.is_empty() {
            // Messages may have arrived during the hook. If the queue delivers one at a time, no second one
            // follows.
            steering = take(cx, Queue::Steering).await;
        }
        if cx.cancel.is_cancelled() {
            put_back(cx, steering, follow_up).await;
            return Ok((TerminationReason::Aborted, None));
        }
        pending.append(&mut follow_up);
        pending.append(&mut steering);
    }
}

/// Starts a turn with these messages and asks the model.
async fn request(
    cx: &RunCx,
    transcript: &mut Transcript,
    index: u32,
    pending: Vec<QueuedMessage>,
    progress: &Mutex<Progress>,
    episode: &mut Episode,
) -> Result<Turn, StoreError> {
    progress.lock().turns = index;
    cx.emit(Event::TurnStart { turn_index: index }).await;
    for QueuedMessage { message_id, message } in pending {
        cx.add_message_as(transcript, message_id, message).await?;
    }
    transcript.note_tools(&cx.tools().take_new())?;
    let Response { message_id, message: response, streamed, retries } =
        respond(cx, transcript, episode.attempts).await?;
    episode.attempts = retries;
    {
        let mut progress = progress.lock();
        progress.usage = progress.usage.plus(response.usage);
    }
    let has_calls = response.tool_calls().next().is_some();
    let overflows = !has_calls && leaves_no_room(&response, cx.current().model.info().context_window);
    let response = if overflows {
        AssistantMessage {
            stop_reason: StopReason::Error,
            error_kind: Some(ErrorKind::ContextOverflow),
            error_message: Some(
                "the context fills the model's window, which leaves no room for an answer".to_owned(),
            ),
            ..response
        }
    } else {
        response
    };
    Ok(Turn { index, message_id, response, streamed, has_calls })
}

/// Ends a failed turn; recovers if possible, else returns the end of the run.
async fn after_failure(
    cx: &RunCx,
    transcript: &mut Transcript,
    turn: &Turn,
    episode: &mut Episode,
) -> Result<Option<RunEnd>, StoreError> {
    // A failure after a cancel counts as cancelled.
    let was_cancelled = cx.cancel.is_cancelled();
    // The hook is called, and its decision is ignored.
    finish_turn(cx, turn, &[]).await;
    let has_fallback = !cx.settings.get().fallbacks.is_empty();
    let retries = cx.limits().retries;
    let next = match recovery(&turn.response, turn.streamed, has_fallback, *episode, &retries, llm::random())
    {
        _ if cx.cancel.is_cancelled() || turn.index >= cx.limits().turns => Recovery::GiveUp,
        next => next,
    };
    let recovers = next != Recovery::GiveUp;
    if recovers {
        transcript.omit(&turn.message_id)?;
    }
    turn_end(cx, turn, &Batch::default(), recovers).await;
    if recovers && recover(cx, transcript, &turn.response, next, episode).await? {
        return Ok(None);
    }
    if episode.retried {
        cx.emit(Event::RetryEnd { attempt: episode.attempts, success: false }).await;
    }
    Ok(Some(failure(was_cancelled || recovers && cx.cancel.is_cancelled(), &turn.response)))
}

async fn run_calls(cx: &RunCx, transcript: &mut Transcript, turn: &Turn) -> Result<Batch, StoreError> {
    let calls: Vec<_> = turn.response.tool_calls().cloned().collect();
    let batch = match (turn.has_calls, turn.response.stop_reason) {
        (false, _) => Batch::default(),
        (true, StopReason::Length) => batch::refuse_all(cx, transcript, &turn.message_id, calls).await?,
        (true, _) => batch::run_all(cx, transcript, &turn.message_id, calls).await?,
    };
    transcript.note_tools(&cx.tools().take_new())?;
    Ok(batch)
}

/// The reason to end the run after this turn, if there is one.
fn termination(
    cx: &RunCx,
    turn: &Turn,
    continues: bool,
    decision: TurnDecision,
) -> Option<TerminationReason> {
    let is_done = !continues && decision == TurnDecision::LoopDecides && cx.queues.lengths() == (0, 0);
    if decision == TurnDecision::End || is_done {
        let by_tools = turn.has_calls && !continues;
        Some(if by_tools { TerminationReason::TerminatedByTools } else { TerminationReason::NoToolCalls })
    } else if turn.index >= cx.limits().turns {
        Some(TerminationReason::TurnLimit)
    } else {
        None
    }
}

/// A response that did not fail, without a complete answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MissingAnswer {
    Cut,
    Empty,
}

impl MissingAnswer {
    /// Classifies a response without calls.
    fn of(response: &AssistantMessage) -> Option<MissingAnswer> {
        match response.stop_reason {
            StopReason::Length => Some(MissingAnswer::Cut),
            _ if response.text().trim().is_empty() => Some(MissingAnswer::Empty),
            _ => None,
        }
    }

    fn message(self) -> &'static str {
        match self {
            MissingAnswer::Cut => {
                "the answer is cut off at the limit of output tokens; ask the model to continue"
            }
            MissingAnswer::Empty => NO_ANSWER,
        }
    }
}

/// Recovers from a failed response.
///
/// Returns false if the run was cancelled or nothing could be done.
async fn recover(
    cx: &RunCx,
    transcript: &mut Transcript,
    response: &AssistantMessage,
    next: Recovery,
    episode: &mut Episode,
) -> Result<bool, StoreError> {
    let error = response.error_message.clone().unwrap_or_default();
    match next {
        Recovery::GiveUp => Ok(false),
        Recovery::Wait(delay) => {
            episode.attempts += 1;
            episode.retried = true;
            let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            let (attempt, max) = (episode.attempts, cx.limits().retries.max);
            cx.emit(Event::RetryStart { attempt, max, delay_ms, error }).await;
            tokio::select! {
                () = sleep(delay) => Ok(true),
                () = cx.cancel.cancelled() => Ok(false),
            }
        }
        Recovery::NextModel => {
            cx.settings.change(|current| {
                if let Some(next) = current.fallbacks.pop_front() {
                    current.model = next;
                }
            });
            (episode.attempts, episode.retried) = (1, true);
            let max = cx.limits().retries.max;
            cx.emit(Event::RetryStart { attempt: 1, max, delay_ms: 0, error }).await;
            Ok(true)
        }
        // The user has set another model, which may have another window.
        Recovery::Compact if !Arc::ptr_eq(&cx.settings.get().model, &cx.current().model) => Ok(true),
        Recovery::Compact => {
            episode.compacted = true;
            compact::on_overflow(cx, transcript).await
        }
        Recovery::RemoveImages => {
            episode.without_images = true;
            compact::remove_images(cx, transcript).await
        }
    }
}

/// Takes the messages of a queue that are delivered now.
async fn take(cx: &RunCx, queue: Queue) -> Vec<QueuedMessage> {
    let taken = cx.queues.take(queue);
    if !taken.is_empty() {
        cx.emit(Event::of_queue(cx.queues.texts())).await;
    }
    taken
}

/// Returns messages taken for a cancelled turn to the front of their queues.
async fn put_back(cx: &RunCx, steering: Vec<QueuedMessage>, follow_up: Vec<QueuedMessage>) {
    if steering.is_empty() && follow_up.is_empty() {
        return;
    }
    cx.queues.put_back(Queue::FollowUp, follow_up);
    cx.queues.put_back(Queue::Steering, steering);
    cx.emit(Event::of_queue(cx.queues.texts())).await;
}

async fn finish_turn(cx: &RunCx, turn: &Turn, results: &[Message]) -> TurnDecision {
    let report = TurnReport { turn_index: turn.index, message: &turn.response, results };
    match cx.hook(async { cx.hooks.finish_turn(report).await }).await {
        Hooked::Done(finish) => finish,
        Hooked::Panicked(_) => {
            tracing::error!("a hook panicked in finish_turn; the loop decides");
            TurnDecision::LoopDecides
        }
        Hooked::GivenUp => TurnDecision::LoopDecides,
    }
}

/// Applies the hook's changes for the next turn; returns its first messages.
async fn prepare_next_turn(cx: &RunCx, turn: &Turn, results: &[Message]) -> Vec<QueuedMessage> {
    let report = TurnReport { turn_index: turn.index, message: &turn.response, results };
    let next = match cx.hook(async { cx.hooks.prepare_next_turn(report).await }).await {
        Hooked::Done(next) => next,
        Hooked::Panicked(_) => {
            tracing::error!("a hook panicked in prepare_next_turn; its changes are ignored");
            NextTurn::default()
        }
        Hooked::GivenUp => NextTurn::default(),
    };
    let NextTurn { messages, model, thinking_level, instructions } = next;
    if let Some(instructions) = &instructions {
        cx.events.set_instructions(instructions);
    }
    cx.settings.change(|current| {
        current.model = model.unwrap_or_else(|| current.model.clone());
        current.thinking_level = thinking_level.or(current.thinking_level);
        if let Some(instructions) = instructions {
            current.instructions = instructions;
        }
    });
    messages.into_iter().map(QueuedMessage::from).collect()
}

fn failure(was_cancelled: bool, response: &AssistantMessage) -> RunEnd {
    let error = response.error_message.clone();
    match (response.stop_reason, response.error_kind) {
        (StopReason::Aborted, _) => (TerminationReason::Aborted, None),
        _ if was_cancelled => (TerminationReason::Aborted, None),
        (_, Some(ErrorKind::Timeout)) => (TerminationReason::TimeoutIdle, error),
        _ => {
            (TerminationReason::Error, error.or_else(|| Some("the model failed without a reason".to_owned())))
        }
    }
}

async fn turn_end(cx: &RunCx, turn: &Turn, batch: &Batch, should_continue: bool) {
    let (turn_index, has_tool_calls) = (turn.index, turn.has_calls);
    let tool_results = batch.message_ids.clone();
    cx.emit(Event::TurnEnd { turn_index, tool_results, has_tool_calls, should_continue }).await;
}
