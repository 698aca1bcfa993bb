//! Execution of the tool calls of one response.
//!
//! The batch prepares and answers the calls in the model's order, and runs them as their effects allow. A
//! call that executes a command or has unknown writes runs alone. The others run concurrently, unless one
//! writes what another writes or may read: those keep the model's order. One sequential tool makes the whole
//! batch sequential. On cancel, running tools see the token; the batch drops calls that do not return within
//! the grace period, and answers calls that have not started without running them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use llm::{Content, Message, ToolCall, ToolResultMessage};
use policy::{Effects, ErrorCode, Writes};
use process::deadlines;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::events::Event;
use crate::run::context::{Hooked, RunCx};
use crate::run::hooks::CallDecision;
use crate::run::result_limit;
use crate::store::StoreError;
use crate::tool::call::{execute, panicked, resolve};
use crate::tool::context::ToolCx;
use crate::tool::{ExecutionMode, Tool, ToolResult};
use crate::transcript::{Transcript, estimate};

/// Result of a call that a cancel prevented.
const ABORTED: &str = "Operation aborted";
/// Result of a call that steering prevented.
const SKIPPED: &str = "Skipped due to queued user message.";

/// The results of the calls of one response.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Ids of the result messages, in the model's order.
    pub message_ids: Vec<String>,
    /// Result messages, in the model's order.
    pub messages: Vec<Message>,
    /// Whether every result allows the run to end.
    pub terminate: bool,
    /// Remaining tokens for results; `None` before the first result.
    room: Option<u64>,
}

struct Prepared {
    call: ToolCall,
    tool: Arc<dyn Tool>,
    args: Value,
    effects: Effects,
}

enum Preparation {
    Ready(Box<Prepared>),
    Answered(Box<(ToolCall, ToolResult)>),
}

/// Answers every call with an error: the response was cut at the output limit.
pub(crate) async fn refuse_all(
    cx: &RunCx,
    transcript: &mut Transcript,
    message_id: &str,
    calls: Vec<ToolCall>,
) -> Result<Batch, StoreError> {
    let mut batch = Batch::default();
    for call in calls {
        start_event(cx, &call, message_id).await;
        let text = "The call was cut at the limit of output tokens and not executed. Make a smaller call, or several.";
        let result = ToolResult::error(ErrorCode::TooLarge, text);
        end_event(cx, &call, &result, None).await;
        answer(cx, transcript, &mut batch, &call, result).await?;
    }
    Ok(batch)
}

/// Runs the calls of a response that is in the transcript.
pub(crate) async fn run_all(
    cx: &RunCx,
    transcript: &mut Transcript,
    message_id: &str,
    calls: Vec<ToolCall>,
) -> Result<Batch, StoreError> {
    let mut batch = Batch { terminate: !calls.is_empty(), ..Batch::default() };
    let tools = cx.tools();
    let is_sequential = |call: &ToolCall| {
        tools
            .registry()
            .get(&call.name)
            .is_some_and(|tool| tool.execution_mode() == ExecutionMode::Sequential)
    };
    if cx.limits().sequential_tools || calls.iter().any(is_sequential) {
        for call in calls {
            if cx.cancel.is_cancelled() {
                break;
            }
            let (call, result) = if cx.queues.interrupts() {
                start_event(cx, &call, message_id).await;
                skip(cx, call).await
            } else {
                match prepare(cx, transcript, message_id, call).await {
                    Preparation::Ready(prepared) => run(cx, *prepared).await,
                    Preparation::Answered(answered) => *answered,
                }
            };
            batch.terminate &= result.terminate;
            answer(cx, transcript, &mut batch, &call, result).await?;
        }
        return Ok(batch);
    }
    let mut answers: Vec<Option<(ToolCall, ToolResult)>> = Vec::new();
    let mut groups: Vec<Vec<(usize, Prepared)>> = Vec::new();
    let mut last_alone = true;
    for (at, call) in calls.into_iter().enumerate() {
        if cx.cancel.is_cancelled() {
            break;
        }
        if cx.queues.interrupts() {
            start_event(cx, &call, message_id).await;
            answers.push(Some(skip(cx, call).await));
            continue;
        }
        match prepare(cx, transcript, message_id, call).await {
            Preparation::Answered(answered) => answers.push(Some(*answered)),
            Preparation::Ready(prepared) => {
                answers.push(None);
                let alone = runs_alone(&prepared.effects);
                match groups.last_mut() {
                    Some(group)
                        if !alone
                            && !last_alone
                            && !group.iter().any(|(_, it)| conflict(&it.effects, &prepared.effects)) =>
                    {
                        group.push((at, *prepared));
                    }
                    _ => groups.push(vec![(at, *prepared)]),
                }
                last_alone = alone;
            }
        }
    }
    for group in groups {
        let runs = group.into_iter().map(|(at, prepared)| async move { (at, run(cx, prepared).await) });
        for (at, finished) in join_all(runs).await {
            answers[at] = Some(finished);
        }
    }
    for (call, result) in answers.into_iter().flatten() {
        batch.terminate &= result.terminate;
        answer(cx, transcript, &mut batch, &call, result).await?;
    }
    Ok(batch)
}

fn runs_alone(effects: &Effects) -> bool {
    effects.exec.is_some() || effects.writes == Writes::Unknown
}

/// Whether two calls must keep their order.
///
/// They write the same path, or one writes and the other, which does not, may read it.
fn conflict(one: &Effects, other: &Effects) -> bool {
    match (&one.writes, &other.writes) {
        (Writes::Paths(a), Writes::Paths(b)) => {
            a.iter().any(|a| b.iter().any(|b| a.starts_with(b) || b.starts_with(a)))
        }
        (Writes::Paths(_), Writes::None) => other.reads,
        (Writes::None, Writes::Paths(_)) => one.reads,
        _ => false,
    }
}

async fn prepare(cx: &RunCx, transcript: &Transcript, message_id: &str, call: ToolCall) -> Preparation {
    start_event(cx, &call, message_id).await;
    let refused = match resolve(cx.tools().registry(), &call) {
        Err(result) => *result,
        Ok((tool, args, effects)) => match admit(cx, transcript, &call, &args, &effects).await {
            Some(result) => result,
            None => return Preparation::Ready(Box::new(Prepared { call, tool, args, effects })),
        },
    };
    end_event(cx, &call, &refused, None).await;
    Preparation::Answered(Box::new((call, refused)))
}

/// Decides whether a valid call may run; returns the reason if not.
///
/// A hook or a denying rule can block it.
async fn admit(
    cx: &RunCx,
    transcript: &Transcript,
    call: &ToolCall,
    args: &Value,
    effects: &Effects,
) -> Option<ToolResult> {
    match cx.hook(async { cx.hooks.before_tool_call(call, args, transcript.messages()).await }).await {
        Hooked::Done(Ok(CallDecision::Proceed)) => {}
        Hooked::Done(Ok(CallDecision::Block { reason, terminate })) => {
            let reason = if reason.is_empty() { "Tool execution was blocked".to_owned() } else { reason };
            return Some(ToolResult { terminate, ..ToolResult::error(ErrorCode::Denied, reason) });
        }
        Hooked::Done(Err(error)) => return Some(ToolResult::error(ErrorCode::Internal, error)),
        Hooked::Panicked(panic) => return Some(panicked(&call.name, panic.as_ref())),
        Hooked::GivenUp => return Some(ToolResult::error(ErrorCode::Cancelled, ABORTED)),
    }
    // Denying rules apply before any work is done. Rules that ask apply when the plan is known.
    let denied = cx.gate.policy()?.refuse(effects).err()?;
    Some(ToolResult::error(ErrorCode::Denied, denied.reason))
}

/// Answers a call that did not start because the user sent a message.
async fn skip(cx: &RunCx, call: ToolCall) -> (ToolCall, ToolResult) {
    let result = ToolResult::error(ErrorCode::Cancelled, SKIPPED);
    end_event(cx, &call, &result, None).await;
    (call, result)
}

/// Runs a prepared call up to its end event.
async fn run(cx: &RunCx, prepared: Prepared) -> (ToolCall, ToolResult) {
    let Prepared { call, tool, args, .. } = prepared;
    if cx.cancel.is_cancelled() {
        let result = ToolResult::error(ErrorCode::Cancelled, ABORTED);
        end_event(cx, &call, &result, None).await;
        return (call, result);
    }
    if cx.queues.interrupts() {
        return skip(cx, call).await;
    }
    let open = Arc::new(AtomicBool::new(true));
    let events = cx.events.clone();
    let tool_cx = ToolCx::in_run(
        &call.id,
        &cx.run,
        cx.cancel.child_token(),
        cx.gate.clone(),
        cx.tools(),
        events,
        open.clone(),
    )
    .with_images(cx.current().model.info().images);
    let started = Instant::now();
    let for_tool = args.clone();
    // The call has its own task, so that a tool that blocks its thread delays neither the others nor
    // the cancel.
    let mut task = cx.tracker.spawn(async move { execute(tool.as_ref(), for_tool, &tool_cx).await });
    let grace = async {
        cx.cancel.cancelled().await;
        sleep(cx.limits().cancel_grace).await;
    };
    let result = tokio::select! {
        // This branch does not drop the task; the other one aborts it.
        finished = &mut task => finished.ok(),
        () = grace => {
            task.abort();
            match timeout(deadlines::ABORT, &mut task).await {
                Ok(finished) => finished.ok(),
                Err(_) => {
                    let text = format!("tool {} does not stop; its task was abandoned", call.name);
                    tracing::warn!("{text}");
                    cx.events.send(Event::Notice { level: "warning".to_owned(), text }).await;
                    None
                }
            }
        }
    };
    open.store(false, Ordering::Release);
    let duration = started.elapsed();
    let result = result.unwrap_or_else(|| {
        ToolResult::error(ErrorCode::Cancelled, "Operation aborted: the tool did not stop in time")
    });
    let unattended = result.is_unattended();
    let result = match cx.hook(async { cx.hooks.after_tool_call(&call, &args, result).await }).await {
        Hooked::Done(Ok(result)) => result,
        Hooked::Done(Err(error)) => ToolResult::error(ErrorCode::Internal, error),
        Hooked::Panicked(panic) => panicked(&call.name, panic.as_ref()),
        Hooked::GivenUp => ToolResult::error(ErrorCode::Cancelled, ABORTED),
    };
    if unattended {
        cx.gate.unattended.store(true, Ordering::Release);
    }
    cx.emit_commits().await;
    end_event(cx, &call, &result, Some(duration)).await;
    (call, result)
}

async fn start_event(cx: &RunCx, call: &ToolCall, message_id: &str) {
    let label = cx.tools().registry().get(&call.name).map(|tool| tool.definition().label.clone());
    let event = Event::ToolExecutionStart {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        label: label.unwrap_or_else(|| call.name.clone()),
        input: Value::Object(call.arguments.clone()),
        message_id: message_id.to_owned(),
    };
    cx.emit(event).await;
}

async fn end_event(cx: &RunCx, call: &ToolCall, result: &ToolResult, duration: Option<Duration>) {
    let event = Event::ToolExecutionEnd {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        is_error: result.is_error,
        content: result.content.clone(),
        details: result.details.clone(),
        error: result.error.clone(),
        duration_ms: duration.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)),
    };
    cx.emit(event).await;
}

async fn answer(
    cx: &RunCx,
    transcript: &mut Transcript,
    batch: &mut Batch,
    call: &ToolCall,
    result: ToolResult,
) -> Result<(), StoreError> {
    let mut details = result.details;
    if let Some(error) = &result.error {
        let error = json!(error);
        match &mut details {
            Value::Object(members) => {
                members.entry("error").or_insert(error);
            }
            Value::Null => details = json!({ "error": error }),
            _ => {}
        }
    }
    let content = if result.content.is_empty() { vec![Content::text("")] } else { result.content };
    let room = batch.room.unwrap_or_else(|| result_limit::room(cx, transcript));
    let content = result_limit::fitting(cx, transcript, &call.id, content, room);
    let message = Message::ToolResult(ToolResultMessage {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        content,
        details,
        is_error: result.is_error,
        added_tools: result.added_tools,
        timestamp: llm::now_ms(),
    });
    batch.room = Some(room.saturating_sub(estimate(&message, transcript.api())));
    transcript.note(cx.gate.notes.take())?;
    batch.messages.push(message.clone());
    batch.message_ids.push(cx.add_message(transcript, message).await?);
    Ok(())
}
