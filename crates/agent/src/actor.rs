//! The task that owns a session's transcript and serves its operations, one after the other.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use llm::{Message, Usage};
use serde_json::Value;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::{Approver, Commit, Redactor, RunId};

use crate::compaction;
use crate::cx::{Gate, Notes};
use crate::emitter::Emitter;
use crate::event::{Event, MessageRole, TerminationReason};
use crate::hooks::Hooks;
use crate::messages::Messages;
use crate::queues::{Queue, Queues};
use crate::run::{self, Had, Opening, RunCx, RunError, RunOutcome, wait_for_stragglers};
use crate::session::SessionError;
use crate::settings::{Current, Settings};
use crate::store::{ContextItem, StoreError};
use crate::surroundings::Surroundings;
use crate::transcript::Transcript;

type Reply<T> = oneshot::Sender<T>;

pub(crate) enum Operation {
    Prompt { messages: Vec<Message>, cancel: CancellationToken, reply: Reply<RunOutcome> },
    Continue { cancel: CancellationToken, reply: Reply<Result<RunOutcome, SessionError>> },
    Messages { reply: Reply<Messages> },
    Append { message: Box<Message>, reply: Reply<Result<(), SessionError>> },
    Custom { kind: String, data: Value, reply: Reply<Result<(), SessionError>> },
    Replace { messages: Vec<Message>, reply: Reply<Result<(), SessionError>> },
    Switch { entry: String, summary: Option<String>, reply: Reply<Result<(), SessionError>> },
    Compact { wishes: String, reply: Reply<Result<bool, SessionError>> },
    Close { reply: Reply<()> },
}

/// The task that owns the transcript.
pub(crate) struct Actor {
    pub settings: Arc<Settings>,
    /// What the last turn worked with.
    pub last: Current,
    pub hooks: Arc<dyn Hooks>,
    pub approver: Arc<dyn Approver>,
    pub invoked: bool,
    pub surroundings: Option<Arc<dyn Surroundings>>,
    pub transcript: Transcript,
    pub events: Emitter,
    pub queues: Arc<Queues>,
    pub redactor: Arc<Redactor>,
    /// What the session's file is to know of, beside messages.
    pub notes: Arc<Notes>,
    pub commits: Option<broadcast::Receiver<Arc<Commit>>>,
    pub resumed_from: Option<String>,
    /// What the session's file says of what it goes on with, until a run has looked at it.
    pub had: Option<Had>,
    /// What was lost of the session's file, until it is told.
    pub warnings: Vec<String>,
    /// Something was done since `agent_settled` was told; whether the last of it was cancelled.
    pub unsettled: Option<bool>,
    pub current: Arc<Mutex<Option<CancellationToken>>>,
    pub disconnected: CancellationToken,
    pub end: CancellationToken,
}

impl Actor {
    pub async fn serve(mut self, mut incoming: mpsc::UnboundedReceiver<Operation>) {
        for text in std::mem::take(&mut self.warnings) {
            self.events.send(Event::Notice { level: "warning".to_owned(), text }).await;
        }
        // Ends when every handle is gone: that also cancels `end`, and so the run that is going on.
        while let Some(operation) = incoming.recv().await {
            // Each reply fails only when the caller has stopped waiting.
            match operation {
                Operation::Prompt { messages, cancel, reply } => {
                    let opening = Opening { messages, takes_steering: true };
                    let outcome = self.run(opening, cancel).await;
                    self.settle(&incoming).await;
                    reply.send(outcome).ok();
                }
                Operation::Continue { cancel, reply } => {
                    let outcome = match self.continuation() {
                        Ok(opening) => Ok(self.run(opening, cancel).await),
                        Err(error) => Err(error),
                    };
                    self.settle(&incoming).await;
                    reply.send(outcome).ok();
                }
                Operation::Messages { reply } => {
                    reply.send(self.transcript.messages().clone()).ok();
                }
                Operation::Append { message, reply } => {
                    reply.send(self.append(*message).await).ok();
                }
                Operation::Custom { kind, data, reply } => {
                    reply.send(self.append_custom(kind, data).await).ok();
                }
                Operation::Replace { messages, reply } => {
                    reply.send(self.replace(messages).await).ok();
                }
                Operation::Switch { entry, summary, reply } => {
                    reply.send(self.switch(&entry, summary.as_deref()).await).ok();
                }
                Operation::Compact { wishes, reply } => {
                    let compacted = self.compact(&wishes).await;
                    self.settle(&incoming).await;
                    reply.send(compacted).ok();
                }
                Operation::Close { reply } => {
                    incoming.close();
                    self.tell_settled().await;
                    // Whoever goes on with its file may do so from now on.
                    self.transcript = Transcript::new(Vec::new(), None);
                    reply.send(()).ok();
                }
            }
            self.settle(&incoming).await;
        }
        self.tell_settled().await;
    }

    /// Tells that nothing remains to do, if something was done and nothing waits. What is queued waits for the person.
    async fn settle(&mut self, incoming: &mpsc::UnboundedReceiver<Operation>) {
        if incoming.is_empty() {
            self.tell_settled().await;
        }
    }

    async fn tell_settled(&mut self) {
        if let Some(aborted) = self.unsettled.take() {
            self.events.send(Event::AgentSettled { aborted }).await;
        }
    }

    /// What a run without a prompt begins with.
    fn continuation(&self) -> Result<Opening, SessionError> {
        let last = self.transcript.messages().last();
        match last {
            None => Err(SessionError::Empty),
            Some(Message::User(_) | Message::ToolResult(_)) => {
                Ok(Opening { messages: Vec::new(), takes_steering: true })
            }
            Some(Message::Assistant(_)) => {
                let mut messages = self.queues.take(Queue::Steering);
                if messages.is_empty() {
                    messages = self.queues.take(Queue::FollowUp);
                }
                if messages.is_empty() {
                    return Err(SessionError::Answered);
                }
                Ok(Opening { messages, takes_steering: false })
            }
        }
    }

    async fn append(&mut self, message: Message) -> Result<(), SessionError> {
        let message_id = self.transcript.new_id();
        let written = self.transcript.append(&message_id, &message);
        let role = MessageRole::of(&message);
        let start =
            Event::MessageStart { message_id: message_id.clone(), role, message: Some(message.clone()) };
        self.events.send(start).await;
        let end = Event::MessageEnd { message_id, message };
        let messages = Some(self.transcript.messages().clone());
        self.events.emit_with(end, messages, &CancellationToken::new()).await;
        Ok(written.map_err(store_error)?)
    }

    async fn append_custom(&mut self, kind: String, data: Value) -> Result<(), SessionError> {
        let message_id = self.transcript.append_custom(&kind, &data).map_err(store_error)?;
        let hook = AssertUnwindSafe(|| self.hooks.custom_message(&kind, &data));
        let message = std::panic::catch_unwind(hook).unwrap_or_else(|_| {
            tracing::error!("a hook panicked in custom_message");
            None
        });
        self.events.send(Event::CustomMessage { message_id, kind, data }).await;
        match message {
            Some(message) => self.append(message).await,
            None => Ok(()),
        }
    }

    async fn replace(&mut self, messages: Vec<Message>) -> Result<(), SessionError> {
        let mut items = Vec::new();
        if let Some(file) = self.transcript.file() {
            file.begin_again()?;
        }
        for message in messages {
            let entry_id = self.transcript.new_id();
            if let Some(file) = self.transcript.file() {
                file.append_message(&entry_id, &message)?;
            }
            items.push(ContextItem { entry_id, message, before_compaction: false });
        }
        self.set(items).await;
        Ok(())
    }

    async fn switch(&mut self, entry: &str, summary: Option<&str>) -> Result<(), SessionError> {
        let file = self.transcript.file().ok_or(SessionError::NotKept)?;
        let mut loaded = file.load()?;
        if let Some(here) = file.last() {
            loaded.select(here);
        }
        let no_entry = || StoreError::NoEntry { id: entry.to_owned() };
        let left = loaded.leave_for(entry).ok_or_else(no_entry)?;
        let selected = loaded.leaf().map(|entry| entry.id.clone()).unwrap_or_default();
        let told = match summary {
            Some(wishes) if !left.is_empty() => {
                let cx = self.cx();
                let told = self.until_cancelled(&cx, compaction::of_branch(&cx, &left, wishes)).await;
                let told = told.ok_or(SessionError::Cancelled)?;
                self.transcript.note_usage("branch_summary", cx.take_spent()).map_err(store_error)?;
                Some(told)
            }
            _ => None,
        };
        let file = self.transcript.file().ok_or(SessionError::NotKept)?;
        match told {
            Some(told) => {
                file.append_branch(&selected, &told)?;
                loaded = file.load()?;
            }
            None => file.select(&selected),
        }
        self.set(loaded.context_items()).await;
        Ok(())
    }

    /// Waits for `work`, which `abort` and the session's end cancel by the token of `cx`.
    async fn until_cancelled<T>(&self, cx: &RunCx, work: impl Future<Output = T>) -> T {
        let outer = self.end.child_token();
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.cancel.clone());
        let mut work = std::pin::pin!(work);
        let done = tokio::select! {
            done = &mut work => done,
            () = outer.cancelled() => {
                cx.cancel.cancel();
                work.await
            }
        };
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
        done
    }

    async fn set(&mut self, items: Vec<ContextItem>) {
        self.transcript.replace(items);
        let messages = self.transcript.messages().clone();
        let event = Event::TranscriptReplaced { messages: messages.to_vec() };
        self.events.emit_with(event, Some(messages), &CancellationToken::new()).await;
    }

    async fn compact(&mut self, wishes: &str) -> Result<bool, SessionError> {
        let cx = self.cx();
        let outer = self.end.child_token();
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.cancel.clone());
        let ended = cx.cancel.clone();
        let compacted = {
            let compact = compaction::compact(&cx, &mut self.transcript, "command", wishes);
            let mut compact = std::pin::pin!(compact);
            tokio::select! {
                compacted = &mut compact => compacted,
                () = outer.cancelled() => {
                    ended.cancel();
                    compact.await
                }
            }
        };
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.unsettled = Some(cx.cancel.is_cancelled());
        Ok(compacted.map_err(store_error)?)
    }

    fn cx(&self) -> RunCx {
        RunCx {
            run: RunId::new(),
            current: RwLock::new(self.last.clone()),
            settings: self.settings.clone(),
            hooks: self.hooks.clone(),
            surroundings: self.surroundings.clone(),
            events: self.events.clone(),
            gate: Arc::new(Gate::new(
                self.last.policy.clone(),
                self.approver.clone(),
                self.invoked,
                self.notes.clone(),
            )),
            commits: Mutex::new(self.commits.as_ref().map(broadcast::Receiver::resubscribe)),
            queues: self.queues.clone(),
            tracker: TaskTracker::new(),
            redactor: self.redactor.clone(),
            resumed_from: self.resumed_from.clone(),
            had: Mutex::default(),
            spent: Mutex::default(),
            cancel: CancellationToken::new(),
        }
    }

    async fn run(&mut self, opening: Opening, cancel: CancellationToken) -> RunOutcome {
        if self.transcript.messages().is_empty() {
            let tools = self.settings.get().tools;
            opening.messages.iter().for_each(|message| tools.activate_for(&message.text()));
        }
        let cx = RunCx { had: Mutex::new(self.had.take()), ..self.cx() };
        // Three ways to abort: this run's token, `abort` of the session, and the session's own end.
        let outer = self.end.child_token();
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(outer.clone());
        let linked = outer.clone();
        let link = async move {
            cancel.cancelled().await;
            linked.cancel();
            std::future::pending::<()>().await;
        };
        let run = run::run(&cx, &mut self.transcript, opening, &outer, &self.disconnected);
        let run = AssertUnwindSafe(run).catch_unwind();
        let outcome = tokio::select! {
            // `link` owns nothing; the run is never dropped, since the other branch never ends.
            outcome = run => outcome.unwrap_or_else(|_| {
                tracing::error!("a run ended by a defect");
                let run = cx.run.clone();
                RunOutcome { run, ..outcome_without_run(TerminationReason::Error, run::DEFECT) }
            }),
            () = link => outcome_without_run(TerminationReason::Aborted, "cancelled"),
        };
        self.last = cx.current();
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
        wait_for_stragglers(&cx.tracker, Duration::from_millis(50)).await;
        if let Err(error) = self.transcript.note(&self.notes) {
            tracing::warn!(%error, "what a call was asked or kept is not in the session's file");
        }
        self.unsettled = Some(outcome.reason == TerminationReason::Aborted);
        outcome
    }
}

fn store_error(error: RunError) -> StoreError {
    match error {
        RunError::Store(error) => error,
    }
}

pub(crate) fn outcome_without_run(reason: TerminationReason, error: &str) -> RunOutcome {
    RunOutcome {
        run: RunId::new(),
        reason,
        error: Some(error.to_owned()),
        final_text: String::new(),
        messages: Vec::new(),
        turns: 0,
        usage: Usage::default(),
        denied_for_lack_of_asker: false,
    }
}
