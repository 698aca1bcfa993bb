//! One run: from a prompt until the agent is idle. The outer loop takes follow-ups, the inner one tool calls and
//! steering; what a response contains decides whether it goes on, not what it says of its end.
//!
//! A run ends with exactly one reason, and `agent_end` is its last event but `agent_settled`. When several reasons are true at once
//! the first in the order of [`TerminationReason`] counts.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use llm::{AssistantMessage, ErrorKind, Message, StopReason, ThinkingLevel, Usage};
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::{Commit, Redactor, RunId};

use crate::batch::{self, Batch};
use crate::compaction;
use crate::cx::Gate;
use crate::discovery::Toolset;
use crate::emitter::Emitter;
use crate::event::{Event, TerminationReason};
use crate::hooks::{Finish, Hooks, NextTurn, TurnReport};
use crate::queues::{Queue, Queues};
use crate::respond::{Answer, respond};
use crate::retry::{Episode, Recovery, Retries, leaves_no_room, recovery};
use crate::settings::{Current, Settings};
use crate::store::StoreError;
use crate::surroundings::{Surroundings, look_around};
use crate::transcript::Transcript;

/// How long a hook is waited for once the run is cancelled.
const HOOK_GRACE: Duration = Duration::from_millis(100);

/// What is told of a run that panicked.
pub(crate) const DEFECT: &str = "the run ended by a defect of pilcrow; see the log";

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
    /// How often a turn that failed while it streamed is tried again.
    pub retries: Retries,
    /// When the context is put into fewer words.
    pub compaction: compaction::Limits,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            turns: 200,
            total: Duration::from_secs(48 * 60 * 60),
            cancel_grace: Duration::from_millis(1500),
            sequential_tools: false,
            retries: Retries::default(),
            compaction: compaction::Limits::default(),
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
    /// What went wrong, without secrets: where the reason is an error, a timeout or the limit of turns, or where the last answer
    /// is cut off, or is empty and nothing was done.
    pub error: Option<String>,
    /// The text of the last assistant message that has any, without secrets.
    pub final_text: String,
    /// The messages of this run in the order of the transcript: prompts, responses, results, and what was queued.
    pub messages: Vec<Message>,
    /// Requests made.
    pub turns: u32,
    /// Tokens of all requests, those for summaries among them.
    pub usage: Usage,
    /// Whether something was denied because nobody could be asked.
    pub denied_for_lack_of_asker: bool,
}

/// What a run begins with.
pub(crate) struct Opening {
    pub messages: Vec<Message>,
    /// Whether the steering that waits comes with it.
    pub takes_steering: bool,
}

/// What everything in a run shares.
pub(crate) struct RunCx {
    pub run: RunId,
    /// What this turn works with.
    pub current: RwLock<Current>,
    /// What the next one will work with.
    pub settings: Arc<Settings>,
    pub hooks: Arc<dyn Hooks>,
    pub surroundings: Option<Arc<dyn Surroundings>>,
    pub events: Emitter,
    pub gate: Arc<Gate>,
    pub queues: Arc<Queues>,
    pub tracker: TaskTracker,
    pub redactor: Arc<Redactor>,
    /// The file that the session goes on with, if it is one.
    pub resumed_from: Option<String>,
    /// What the session's file says of what it goes on with, until that was looked at.
    pub had: Mutex<Option<Had>>,
    /// Tokens of requests that are no turns: of the whole run, and those of them that the file does not know yet.
    pub spent: Mutex<(Usage, Usage)>,
    /// What is committed in the workspace, by whomever.
    pub commits: Mutex<Option<broadcast::Receiver<Arc<Commit>>>>,
    /// Ends this run only.
    pub cancel: CancellationToken,
}

/// What a session went on with, as its file says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Had {
    /// Provider and id of a model; none where no model was asked.
    pub model: Option<(String, String)>,
    pub thinking_level: Option<ThinkingLevel>,
}

impl RunCx {
    /// Sends an event and waits for the listeners; once the run is cancelled it does not wait for them any more.
    pub async fn emit(&self, event: Event) {
        self.events.emit(event, &self.cancel).await;
    }

    /// Tells what was committed for this run since this was done last.
    pub async fn tell_commits(&self) {
        loop {
            let commit = {
                let mut commits = self.commits.lock().unwrap_or_else(PoisonError::into_inner);
                match commits.as_mut().map(broadcast::Receiver::try_recv) {
                    Some(Ok(commit)) => commit,
                    // So many at once: what is left is told.
                    Some(Err(broadcast::error::TryRecvError::Lagged(_))) => continue,
                    Some(Err(_)) | None => return,
                }
            };
            if commit.run == self.run {
                self.emit(Event::of_commit(&commit)).await;
            }
        }
    }

    /// What this turn works with.
    pub fn current(&self) -> Current {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The bounds of this turn.
    pub fn limits(&self) -> Limits {
        self.current.read().unwrap_or_else(PoisonError::into_inner).limits
    }

    /// The tools of this turn.
    pub fn tools(&self) -> Arc<Toolset> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).tools.clone()
    }

    /// Counts a request that is no turn.
    pub fn spend(&self, usage: Usage) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        *spent = (spent.0.plus(usage), spent.1.plus(usage));
    }

    /// What was counted so since this was asked last.
    pub fn take_spent(&self) -> Usage {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut spent.1)
    }

    /// Writes down what the session is begun or gone on with, where its file says otherwise.
    fn note_settings(&self, transcript: &mut Transcript) -> Result<(), RunError> {
        let had = self.had.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (Some(had), Some(file)) = (had, transcript.file()) else { return Ok(()) };
        let current = self.current();
        let info = current.model.info();
        let model = (&info.provider, &info.id);
        if had.model.as_ref().is_some_and(|(provider, id)| (provider, id) != model) {
            file.append_model_change(model.0, model.1)?;
        }
        if had.thinking_level != current.thinking_level {
            file.append_thinking_level_change(current.thinking_level)?;
        }
        Ok(())
    }

    /// Goes on with what was set meanwhile, tells of it, and writes it down.
    async fn take_settings(&self, transcript: &mut Transcript) -> Result<(), RunError> {
        let new = self.settings.get();
        let old = std::mem::replace(
            &mut *self.current.write().unwrap_or_else(PoisonError::into_inner),
            new.clone(),
        );
        self.gate.set_policy(new.policy.clone());
        if !Arc::ptr_eq(&old.tools, &new.tools) {
            self.events.set_tools(new.tools.active());
        }
        if !Arc::ptr_eq(&old.model, &new.model) {
            let info = new.model.info();
            let (provider, model) = (info.provider.clone(), info.id.clone());
            if let Some(file) = transcript.file() {
                file.append_model_change(&provider, &model)?;
            }
            self.emit(Event::ModelChange { provider, model }).await;
        }
        if old.thinking_level != new.thinking_level {
            if let Some(file) = transcript.file() {
                file.append_thinking_level_change(new.thinking_level)?;
            }
            self.emit(Event::ThinkingLevelChange { level: new.thinking_level }).await;
        }
        Ok(())
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

#[derive(Default)]
struct Progress {
    turns: u32,
    usage: Usage,
}

/// Carries out one run. `outer` cancels it, `disconnected` says that its surface went away.
pub(crate) async fn run(
    cx: &RunCx,
    transcript: &mut Transcript,
    opening: Opening,
    outer: &CancellationToken,
    disconnected: &CancellationToken,
) -> RunOutcome {
    let started = Instant::now();
    transcript.take_made();
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
    let mut reasons = BTreeSet::new();
    let mut error;
    {
        let body = AssertUnwindSafe(turns(cx, transcript, opening, &progress)).catch_unwind();
        let mut body = std::pin::pin!(body);
        let total = sleep(cx.limits().total);
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
                        Ok(Ok((reason, why))) => {
                            // A stream that was cancelled by one of the above says aborted; the cause is known better here.
                            if reason != TerminationReason::Aborted || reasons.is_empty() {
                                reasons.insert(reason);
                            }
                            error = why;
                        }
                        Ok(Err(failed)) => {
                            tracing::error!(error = %failed, "a run ended by this");
                            reasons.insert(TerminationReason::Error);
                            error = Some(failed.to_string());
                        }
                        Err(_) => {
                            tracing::error!("a run ended by a defect");
                            reasons.insert(TerminationReason::Error);
                            error = Some(DEFECT.to_owned());
                        }
                    }
                    break;
                }
            }
        }
    }
    // What became true while the body came to its end.
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
            error = Some(format!("the run took longer than {} s", cx.limits().total.as_secs_f64()));
        }
        _ => {}
    }
    let Progress { turns, usage } = progress.into_inner().unwrap_or_else(PoisonError::into_inner);
    let usage = usage.plus(cx.spent.lock().unwrap_or_else(PoisonError::into_inner).0);
    let messages = transcript.take_made();
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
    cx.events.run(None).await;
    let final_text = messages.iter().rev().find_map(|message| match message {
        Message::Assistant(message) => Some(message.text()).filter(|text| !text.is_empty()),
        _ => None,
    });
    let told = |text: String| cx.redactor.redact(&text).into_owned();
    RunOutcome {
        run: cx.run.clone(),
        reason,
        // Surfaces show both.
        error: error.map(told),
        final_text: final_text.map(told).unwrap_or_default(),
        messages,
        turns,
        usage,
        denied_for_lack_of_asker: cx.gate.nobody_to_ask.load(Ordering::Acquire),
    }
}

type Ended = (TerminationReason, Option<String>);

/// The turns of a run, until one of them is the last.
async fn turns(
    cx: &RunCx,
    transcript: &mut Transcript,
    opening: Opening,
    progress: &Mutex<Progress>,
) -> Result<Ended, RunError> {
    let lock = || -> MutexGuard<'_, Progress> { progress.lock().unwrap_or_else(PoisonError::into_inner) };
    let mut pending = opening.messages;
    if opening.takes_steering {
        pending.extend(take(cx, Queue::Steering).await);
    }
    let mut episode = Episode::default();
    let (mut turn_index, mut has_worked) = (0, false);
    cx.note_settings(transcript)?;
    loop {
        look_around(cx).await;
        cx.take_settings(transcript).await?;
        compaction::at_threshold(cx, transcript).await?;
        turn_index += 1;
        lock().turns = turn_index;
        cx.emit(Event::TurnStart { turn_index }).await;
        for message in std::mem::take(&mut pending) {
            transcript.add(cx, message).await?;
        }
        transcript.note_tools(&cx.tools())?;
        let Answer { message_id, message: response, streamed } = respond(cx, transcript).await?;
        {
            let mut progress = lock();
            progress.usage = progress.usage.plus(response.usage);
        }
        let has_calls = response.tool_calls().next().is_some();
        let response = match leaves_no_room(&response, cx.current().model.info().context_window) {
            true if !has_calls => AssistantMessage {
                stop_reason: StopReason::Error,
                error_kind: Some(ErrorKind::ContextOverflow),
                error_message: Some(
                    "the context fills the model's window, which leaves no room for an answer".to_owned(),
                ),
                ..response
            },
            _ => response,
        };
        if response.failed() {
            // What fails after a cancel fails by it.
            let by_cancel = cx.cancel.is_cancelled();
            // The hook hears of it, and its answer does not count.
            finish_turn(cx, turn_index, &response, &[]).await;
            let next = match recovery(
                &response,
                streamed,
                !cx.settings.get().fallbacks.is_empty(),
                episode,
                &cx.limits().retries,
                llm::random(),
            ) {
                _ if cx.cancel.is_cancelled() || turn_index >= cx.limits().turns => Recovery::GiveUp,
                next => next,
            };
            if next != Recovery::GiveUp {
                transcript.omit(&message_id)?;
            }
            let goes_on = next != Recovery::GiveUp;
            turn_end(cx, turn_index, &Batch::default(), has_calls, goes_on).await;
            if !goes_on || !recover(cx, transcript, &response, next, &mut episode).await? {
                if episode.attempts > 0 {
                    cx.emit(Event::RetryEnd { attempt: episode.attempts, success: false }).await;
                }
                return Ok(failure(by_cancel || goes_on && cx.cancel.is_cancelled(), &response));
            }
            continue;
        }
        if episode.attempts > 0 {
            cx.emit(Event::RetryEnd { attempt: episode.attempts, success: true }).await;
        }
        episode = Episode::default();
        let calls: Vec<_> = response.tool_calls().cloned().collect();
        let batch = match (has_calls, response.stop_reason) {
            (false, _) => Batch::default(),
            (true, StopReason::Length) => batch::refuse_all(cx, transcript, &message_id, calls).await?,
            (true, _) => batch::run_all(cx, transcript, &message_id, calls).await?,
        };
        transcript.note_tools(&cx.tools())?;
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
        has_worked |= has_calls;
        let lack = if has_calls { None } else { Lack::of(&response) };
        let done = !wanted && finish == Finish::Leave && cx.queues.lengths() == (0, 0);
        let ended = if finish == Finish::End || done {
            Some(last)
        } else if turn_index >= cx.limits().turns {
            Some(TerminationReason::TurnLimit)
        } else {
            None
        };
        let (mut steering, mut follow_up) = (Vec::new(), Vec::new());
        if ended.is_none() {
            steering = take(cx, Queue::Steering).await;
            if steering.is_empty() && !wanted {
                follow_up = take(cx, Queue::FollowUp).await;
            }
        }
        // A run that did something may end without a word; one that goes on is not over.
        let fails = ended.is_some() && (lack == Some(Lack::Cut) || !has_worked);
        if let Some(lack) = lack.filter(|_| !fails) {
            cx.emit(Event::Notice { level: "warning".to_owned(), text: lack.words().to_owned() }).await;
        }
        turn_end(cx, turn_index, &batch, has_calls, ended.is_none()).await;
        if let Some(reason) = ended {
            let error = match reason {
                TerminationReason::TurnLimit => {
                    Some(format!("the run had {turn_index} turns, as many as it may"))
                }
                _ => lack.filter(|_| fails).map(|lack| lack.words().to_owned()),
            };
            return Ok((reason, error));
        }
        pending = prepare_next_turn(cx, turn_index, &response, &batch.messages).await;
        if steering.is_empty() {
            // What came while the hook worked; not a second one where one at a time is delivered.
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

/// What a run that ended well, but without a last word, is told as.
pub const NO_ANSWER: &str = "the model ended without an answer";

/// What an answer lacks that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lack {
    /// Its end.
    Cut,
    /// Everything.
    Empty,
}

impl Lack {
    /// Of a response without calls.
    fn of(response: &AssistantMessage) -> Option<Lack> {
        match response.stop_reason {
            StopReason::Length => Some(Lack::Cut),
            _ if response.text().trim().is_empty() => Some(Lack::Empty),
            _ => None,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Lack::Cut => {
                "the answer is cut off: it reached the limit of output tokens; ask the model to go on from there"
            }
            Lack::Empty => NO_ANSWER,
        }
    }
}

/// Does what was decided about a failed response. False when the run was cancelled meanwhile, or nothing could be done.
async fn recover(
    cx: &RunCx,
    transcript: &mut Transcript,
    response: &AssistantMessage,
    next: Recovery,
    episode: &mut Episode,
) -> Result<bool, RunError> {
    let error = response.error_message.clone().unwrap_or_default();
    match next {
        Recovery::GiveUp => Ok(false),
        Recovery::Wait(delay) => {
            episode.attempts += 1;
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
            *episode = Episode { compacted: episode.compacted, attempts: 1 };
            let max = cx.limits().retries.max;
            cx.emit(Event::RetryStart { attempt: 1, max, delay_ms: 0, error }).await;
            Ok(true)
        }
        // The person chose another model meanwhile: this one's window says nothing of that one's.
        Recovery::Compact if !Arc::ptr_eq(&cx.settings.get().model, &cx.current().model) => Ok(true),
        Recovery::Compact => {
            episode.compacted = true;
            compaction::on_overflow(cx, transcript).await
        }
    }
}

/// The messages of a queue that are delivered now.
async fn take(cx: &RunCx, queue: Queue) -> Vec<Message> {
    let taken = cx.queues.take(queue);
    if !taken.is_empty() {
        let (steering, follow_up) = cx.queues.lengths();
        cx.emit(Event::QueueUpdate { steering, follow_up }).await;
    }
    taken
}

/// What was taken for a turn that does not come waits again, before what came since.
async fn put_back(cx: &RunCx, steering: Vec<Message>, follow_up: Vec<Message>) {
    if steering.is_empty() && follow_up.is_empty() {
        return;
    }
    cx.queues.put_back(Queue::FollowUp, follow_up);
    let (steering, follow_up) = cx.queues.put_back(Queue::Steering, steering);
    cx.emit(Event::QueueUpdate { steering, follow_up }).await;
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

/// What the hook wants the next turn to be; returns the messages it begins with.
async fn prepare_next_turn(
    cx: &RunCx,
    turn_index: u32,
    message: &AssistantMessage,
    results: &[Message],
) -> Vec<Message> {
    let report = TurnReport { turn_index, message, results };
    let next = match cx.hook(async { cx.hooks.prepare_next_turn(report).await }).await {
        Hooked::Done(next) => next,
        Hooked::Panicked(_) => {
            tracing::error!("a hook panicked in prepare_next_turn; the next turn is as the loop has it");
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
    messages
}

fn failure(by_cancel: bool, response: &AssistantMessage) -> Ended {
    let error = response.error_message.clone();
    match (response.stop_reason, response.error_kind) {
        (StopReason::Aborted, _) => (TerminationReason::Aborted, None),
        _ if by_cancel => (TerminationReason::Aborted, None),
        (_, Some(ErrorKind::Timeout)) => (TerminationReason::TimeoutIdle, error),
        _ => (
            TerminationReason::Error,
            error.or_else(|| Some("the model failed without saying why".to_owned())),
        ),
    }
}

async fn turn_end(cx: &RunCx, turn_index: u32, batch: &Batch, has_tool_calls: bool, should_continue: bool) {
    let tool_results = batch.message_ids.clone();
    cx.emit(Event::TurnEnd { turn_index, tool_results, has_tool_calls, should_continue }).await;
}

/// Waits for the tasks of tools that did not stop, at most this long.
pub(crate) async fn wait_for_stragglers(tracker: &TaskTracker, deadline: Duration) {
    tracker.close();
    if timeout(deadline, tracker.wait()).await.is_err() {
        tracing::warn!("tasks of tools are still running; they are left behind");
    }
}
