//! One run: from a prompt until the agent is idle. The outer loop takes follow-ups, the inner one tool calls and
//! steering; what a response contains decides whether it goes on, not what it says of its end.
//!
//! A run ends with exactly one reason, and `agent_end` is its last event but `agent_settled`. When several reasons are true at once
//! the first in the order of [`TerminationReason`] counts.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use llm::{AssistantMessage, ErrorKind, Message, Model, Request, StopReason, StreamEvent, Usage};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::RunId;

use crate::batch::{self, Batch};
use crate::cx::Gate;
use crate::discovery::Toolset;
use crate::emitter::Emitter;
use crate::event::{Event, MessageRole, TerminationReason};
use crate::hooks::{Finish, Hooks, TurnReport};
use crate::queues::Queues;
use crate::session::SessionState;
use crate::store::{SessionFile, StoreError};

/// How long a hook is waited for once the run is cancelled.
const HOOK_GRACE: Duration = Duration::from_millis(100);
/// How long a cancelled stream is waited for that does not end by itself.
const STREAM_GRACE: Duration = Duration::from_millis(200);

/// The bounds of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Turns in one run; 200 by default.
    pub turns: u32,
    /// The whole run; 48 hours by default.
    pub total: Duration,
    /// From cancelling until the futures of tools that have not returned are dropped; 1.5 s by default.
    pub cancel_grace: Duration,
    /// Whether the calls of a response always run one after the other.
    pub sequential_tools: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            turns: 200,
            total: Duration::from_secs(48 * 60 * 60),
            cancel_grace: Duration::from_millis(1500),
            sequential_tools: false,
        }
    }
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// The run; what it committed is undone under this id.
    pub run: RunId,
    /// Why it ended.
    pub reason: TerminationReason,
    /// What went wrong, when the reason is an error or a timeout.
    pub error: Option<String>,
    /// The text of the last assistant message that has any.
    pub final_text: String,
    /// The messages of this run in the order of the transcript: prompts, responses, results, and what was queued.
    pub messages: Vec<Message>,
    /// Requests made.
    pub turns: u32,
    /// Tokens of all requests.
    pub usage: Usage,
    /// Whether something was denied because nobody could be asked.
    pub denied_for_lack_of_asker: bool,
}

/// What everything in a run shares.
pub(crate) struct RunCx {
    pub run: RunId,
    pub model: Arc<dyn Model>,
    pub system: String,
    pub tools: Arc<Toolset>,
    pub hooks: Arc<dyn Hooks>,
    pub events: Emitter,
    pub gate: Arc<Gate>,
    pub queues: Arc<Queues>,
    pub limits: Limits,
    pub tracker: TaskTracker,
    pub state: Arc<watch::Sender<SessionState>>,
    /// Ends this run only.
    pub cancel: CancellationToken,
}

impl RunCx {
    /// Sends an event and waits for the listeners; once the run is cancelled it does not wait for them any more.
    pub async fn emit(&self, event: Event) {
        self.events.emit(event, &self.cancel).await;
    }

    /// Runs a hook: a panic is caught, and once the run is cancelled it has little time left.
    pub async fn hook<T>(&self, hook: impl Future<Output = T>) -> Hooked<T> {
        let give_up = async {
            self.cancel.cancelled().await;
            sleep(HOOK_GRACE).await;
        };
        tokio::select! {
            biased;
            // A hook may be dropped after a cancel, as a tool may be.
            outcome = AssertUnwindSafe(hook).catch_unwind() => match outcome {
                Ok(value) => Hooked::Done(value),
                Err(panic) => Hooked::Panicked(panic),
            },
            () = give_up => Hooked::GivenUp,
        }
    }
}

/// What became of a hook.
pub(crate) enum Hooked<T> {
    Done(T),
    Panicked(Box<dyn Any + Send>),
    /// The run was cancelled and the hook did not return.
    GivenUp,
}

/// A failure of ours that ends the run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("cannot write the session's file: {0}")]
    Store(#[from] StoreError),
}

/// The messages of a session, in memory and in its file.
pub(crate) struct Transcript {
    messages: Vec<Message>,
    file: Option<SessionFile>,
    next_id: u64,
}

impl Transcript {
    pub fn new(messages: Vec<Message>, file: Option<SessionFile>) -> Transcript {
        Transcript { messages, file, next_id: 0 }
    }

    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Writes down which tools the model came to know since this was done last.
    fn note_tools(&mut self, tools: &Toolset) -> Result<(), RunError> {
        let new = tools.take_new();
        if let Some(file) = &mut self.file
            && !new.is_empty()
        {
            file.append_tool_activation(&new)?;
        }
        Ok(())
    }

    /// An id for the next message; the entry in the file will have it.
    fn new_id(&mut self) -> String {
        match &mut self.file {
            Some(file) => file.new_id(),
            None => {
                self.next_id += 1;
                format!("{:08x}", self.next_id)
            }
        }
    }

    /// Adds a whole message, with its two events; returns its id.
    pub async fn add(&mut self, cx: &RunCx, message: Message) -> Result<String, RunError> {
        let message_id = self.new_id();
        let role = MessageRole::of(&message);
        let start =
            Event::MessageStart { message_id: message_id.clone(), role, message: Some(message.clone()) };
        cx.emit(start).await;
        self.end(cx, &message_id, message).await?;
        Ok(message_id)
    }

    /// Adds a message whose start was told, with its end event.
    async fn end(&mut self, cx: &RunCx, message_id: &str, message: Message) -> Result<(), RunError> {
        self.messages.push(message.clone());
        let written = match &mut self.file {
            Some(file) => file.append_message(message_id, &message),
            None => Ok(()),
        };
        cx.emit(Event::MessageEnd { message_id: message_id.to_owned(), message }).await;
        Ok(written?)
    }
}

#[derive(Default)]
struct Progress {
    turns: u32,
    usage: Usage,
}

/// Carries out one run. `outer` cancels it, `disconnected` says that its surface went away.
pub(crate) async fn run(
    cx: &RunCx,
    transcript: &mut Transcript,
    prompts: Vec<Message>,
    outer: &CancellationToken,
    disconnected: &CancellationToken,
) -> RunOutcome {
    let started = Instant::now();
    let before = transcript.messages.len();
    cx.state.send_modify(|state| {
        *state = SessionState { running: true, messages: before, ..SessionState::default() };
    });
    let start = Event::AgentStart {
        run_id: cx.run.clone(),
        model: cx.model.info().id.clone(),
        tools: cx.tools.active(),
        messages: before,
    };
    cx.events.send(start).await;
    let progress = Mutex::new(Progress::default());
    let mut reasons = BTreeSet::new();
    let mut error;
    {
        let body = turns(cx, transcript, prompts, &progress);
        let mut body = std::pin::pin!(body);
        let total = sleep(cx.limits.total);
        let mut total = std::pin::pin!(total);
        loop {
            tokio::select! {
                biased;
                // None of these is dropped before the body has ended by itself; all it waits for hears of the cancel.
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
                ended = &mut body => {
                    match ended {
                        Ok((reason, why)) => {
                            // A stream that was cancelled by one of the above says aborted; the cause is known better here.
                            if reason != TerminationReason::Aborted || reasons.is_empty() {
                                reasons.insert(reason);
                            }
                            error = why;
                        }
                        Err(failed) => {
                            reasons.insert(TerminationReason::Error);
                            error = Some(failed.to_string());
                        }
                    }
                    break;
                }
            }
        }
    }
    let reason = reasons.first().copied().unwrap_or(TerminationReason::Error);
    if reason == TerminationReason::TimeoutTotal {
        error = Some(format!("the run took longer than {} s", cx.limits.total.as_secs_f64()));
    }
    let Progress { turns, usage } = progress.into_inner().unwrap_or_else(PoisonError::into_inner);
    let messages = transcript.messages[before..].to_vec();
    cx.state.send_modify(|state| {
        *state = SessionState {
            error: error.clone(),
            messages: transcript.messages.len(),
            ..SessionState::default()
        };
    });
    let end = Event::AgentEnd {
        run_id: cx.run.clone(),
        reason,
        error: error.clone(),
        total_turns: turns,
        usage,
        duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
    };
    // The run is over only when its listeners know; a stuck one is let go after its deadline.
    cx.events.emit(end, &CancellationToken::new()).await;
    let final_text = messages.iter().rev().find_map(|message| match message {
        Message::Assistant(message) => Some(message.text()).filter(|text| !text.is_empty()),
        _ => None,
    });
    RunOutcome {
        run: cx.run.clone(),
        reason,
        error,
        final_text: final_text.unwrap_or_default(),
        messages,
        turns,
        usage,
        denied_for_lack_of_asker: cx.gate.nobody_to_ask.load(Ordering::Acquire),
    }
}

/// The turns of a run, until one of them is the last.
async fn turns(
    cx: &RunCx,
    transcript: &mut Transcript,
    prompts: Vec<Message>,
    progress: &Mutex<Progress>,
) -> Result<(TerminationReason, Option<String>), RunError> {
    let mut pending = prompts;
    pending.extend(take(cx, Queues::take_steering).await);
    let mut turn_index = 0;
    loop {
        turn_index += 1;
        {
            let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress.turns = turn_index;
        }
        cx.state.send_modify(|state| state.turns = turn_index);
        cx.emit(Event::TurnStart { turn_index }).await;
        for message in std::mem::take(&mut pending) {
            transcript.add(cx, message).await?;
        }
        transcript.note_tools(&cx.tools)?;
        let (message_id, response) = respond(cx, transcript).await?;
        {
            let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress.usage = progress.usage.plus(response.usage);
        }
        if response.failed() {
            // The hook hears of it, and its answer does not count.
            finish_turn(cx, turn_index, &response, &[]).await;
            turn_end(cx, turn_index, &Batch::default(), response.tool_calls().next().is_some(), false).await;
            return Ok(failure(&response));
        }
        let calls: Vec<_> = response.tool_calls().cloned().collect();
        let has_calls = !calls.is_empty();
        let batch = match (has_calls, response.stop_reason) {
            (false, _) => Batch::default(),
            (true, StopReason::Length) => batch::refuse_all(cx, transcript, &message_id, calls).await?,
            (true, _) => batch::run_all(cx, transcript, &message_id, calls).await?,
        };
        transcript.note_tools(&cx.tools)?;
        let finish = finish_turn(cx, turn_index, &response, &batch.messages).await;
        if cx.cancel.is_cancelled() {
            turn_end(cx, turn_index, &batch, has_calls, false).await;
            return Ok((TerminationReason::Aborted, None));
        }
        let wanted = has_calls && !batch.terminate;
        let last = if has_calls && !wanted {
            TerminationReason::TerminatedByTools
        } else {
            TerminationReason::NoToolCalls
        };
        let done = !wanted && finish == Finish::Leave && cx.queues.lengths() == (0, 0);
        let ended = if finish == Finish::End || done {
            Some(last)
        } else if turn_index >= cx.limits.turns {
            Some(TerminationReason::TurnLimit)
        } else {
            None
        };
        if ended.is_none() {
            pending = take(cx, Queues::take_steering).await;
            if pending.is_empty() && !wanted && finish == Finish::Leave {
                pending = take(cx, Queues::take_follow_up).await;
            }
        }
        turn_end(cx, turn_index, &batch, has_calls, ended.is_none()).await;
        if let Some(reason) = ended {
            let error = (reason == TerminationReason::TurnLimit)
                .then(|| format!("the run had {turn_index} turns, as many as it may"));
            return Ok((reason, error));
        }
    }
}

async fn turn_end(cx: &RunCx, turn_index: u32, batch: &Batch, has_tool_calls: bool, should_continue: bool) {
    let tool_results = batch.message_ids.clone();
    cx.emit(Event::TurnEnd { turn_index, tool_results, has_tool_calls, should_continue }).await;
}

async fn take(cx: &RunCx, take: impl Fn(&Queues) -> Vec<Message>) -> Vec<Message> {
    let taken = take(&cx.queues);
    if !taken.is_empty() {
        let (steering, follow_up) = cx.queues.lengths();
        cx.emit(Event::QueueUpdate { steering, follow_up }).await;
    }
    taken
}

async fn finish_turn(cx: &RunCx, turn_index: u32, message: &AssistantMessage, results: &[Message]) -> Finish {
    let report = TurnReport { turn_index, message, results };
    match cx.hook(async { cx.hooks.finish_turn(report).await }).await {
        Hooked::Done(finish) => finish,
        Hooked::Panicked(_) => {
            tracing::error!("a hook panicked in finish_turn; the loop decides");
            Finish::Leave
        }
        Hooked::GivenUp => Finish::Leave,
    }
}

fn failure(response: &AssistantMessage) -> (TerminationReason, Option<String>) {
    let error = response.error_message.clone();
    match (response.stop_reason, response.error_kind) {
        (StopReason::Aborted, _) => (TerminationReason::Aborted, None),
        (_, Some(ErrorKind::Timeout)) => (TerminationReason::TimeoutIdle, error),
        _ => (
            TerminationReason::Error,
            error.or_else(|| Some("the model failed without saying why".to_owned())),
        ),
    }
}

/// Asks the model and adds its answer to the transcript.
async fn respond(cx: &RunCx, transcript: &mut Transcript) -> Result<(String, AssistantMessage), RunError> {
    let messages = llm::transcript::repair(&transcript.messages);
    let transformed = cx.hook(async { cx.hooks.transform_context(messages).await }).await;
    let message_id = transcript.new_id();
    let mut open = Open { cx, message_id: &message_id, started: false };
    cx.state.send_modify(|state| state.streaming = true);
    let message = match transformed {
        Hooked::Panicked(_) => failed(cx, "a hook panicked in transform_context".to_owned()),
        Hooked::GivenUp => AssistantMessage {
            stop_reason: StopReason::Aborted,
            error_kind: None,
            error_message: None,
            ..failed(cx, String::new())
        },
        Hooked::Done(messages) => {
            let request = Request {
                system: cx.system.clone(),
                messages,
                tools: cx.tools.definitions(),
                ..Request::default()
            };
            match catch_unwind(AssertUnwindSafe(|| cx.model.stream(request, cx.cancel.child_token()))) {
                Err(_) => failed(cx, "the model panicked".to_owned()),
                Ok(stream) => receive(cx, stream, &mut open).await,
            }
        }
    };
    cx.state.send_modify(|state| state.streaming = false);
    open.start(Some(&message)).await;
    transcript.end(cx, &message_id, Message::Assistant(message.clone())).await?;
    Ok((message_id, message))
}

fn failed(cx: &RunCx, error: String) -> AssistantMessage {
    let info = cx.model.info();
    AssistantMessage {
        stop_reason: StopReason::Error,
        error_kind: Some(ErrorKind::Internal),
        error_message: Some(error),
        ..AssistantMessage::empty(&info.api, &info.provider, &info.id)
    }
}

/// Whether the start of the message was told.
struct Open<'a> {
    cx: &'a RunCx,
    message_id: &'a str,
    started: bool,
}

impl Open<'_> {
    async fn start(&mut self, whole: Option<&AssistantMessage>) {
        if !std::mem::replace(&mut self.started, true) {
            let event = Event::MessageStart {
                message_id: self.message_id.to_owned(),
                role: MessageRole::Assistant,
                message: whole.cloned().map(Message::Assistant),
            };
            self.cx.emit(event).await;
        }
    }
}

async fn receive(cx: &RunCx, mut stream: llm::MessageStream, open: &mut Open<'_>) -> AssistantMessage {
    let give_up = async {
        cx.cancel.cancelled().await;
        sleep(STREAM_GRACE).await;
    };
    let mut give_up = std::pin::pin!(give_up);
    loop {
        let event = tokio::select! {
            biased;
            // `next` may be dropped: it takes an event only when it returns one.
            event = stream.next() => event,
            () = &mut give_up => None,
        };
        match event {
            Some(StreamEvent::Done { message } | StreamEvent::Error { message }) => {
                return AssistantMessage::clone(&message);
            }
            Some(StreamEvent::Start) => open.start(None).await,
            Some(StreamEvent::Retrying { attempt, max, delay_ms, error }) => {
                cx.emit(Event::RetryStart { attempt, max, delay_ms, error }).await;
            }
            // What comes before the start belongs to no message.
            Some(_) if !open.started => {}
            Some(update) => {
                let message_id = open.message_id.to_owned();
                cx.events.send(Event::MessageUpdate { message_id, update }).await;
            }
            None => {
                let stop_reason = StopReason::Aborted;
                return AssistantMessage { stop_reason, ..stream.partial() };
            }
        }
    }
}

/// Waits for the tasks of tools that did not stop, at most this long.
pub(crate) async fn wait_for_stragglers(tracker: &TaskTracker, deadline: Duration) {
    tracker.close();
    if timeout(deadline, tracker.wait()).await.is_err() {
        tracing::warn!("tasks of tools are still running; they are left behind");
    }
}
