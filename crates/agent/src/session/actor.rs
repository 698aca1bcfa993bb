//! The task that owns a session's transcript and serves its operations in order.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use llm::Message;
use parking_lot::{Mutex, RwLock};
use policy::{Approver, Redactor};
use serde_json::Value;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::{Commit, RunId};

use crate::events::emitter::Emitter;
use crate::events::{Event, MessageRole, TerminationReason};
use crate::run::context::{RecordedSettings, RunCx};
use crate::run::hooks::Hooks;
use crate::run::queues::{Queue, QueuedMessage, Queues};
use crate::run::reload::ReloadSource;
use crate::run::settings::{SharedSettings, TurnSettings};
use crate::run::{self, RunOutcome, RunStart, compact, wait_for_stragglers};
use crate::session::error::SessionError;
use crate::store::{ContextItem, StoreError};
use crate::tool::gate::{Gate, Notes};
use crate::transcript::Messages;
use crate::transcript::Transcript;

type Reply<T> = oneshot::Sender<T>;

pub(crate) enum Operation {
    Prompt { messages: Vec<QueuedMessage>, cancel: CancellationToken, reply: Reply<RunOutcome> },
    Continue { cancel: CancellationToken, reply: Reply<Result<RunOutcome, SessionError>> },
    Messages { reply: Reply<Messages> },
    Append { message: Box<Message>, reply: Reply<Result<(), SessionError>> },
    Custom { kind: String, data: Value, reply: Reply<Result<(), SessionError>> },
    Replace { messages: Vec<Message>, reply: Reply<Result<(), SessionError>> },
    Switch { entry: String, summary: Option<String>, reply: Reply<Result<(), SessionError>> },
    Name { name: String, reply: Reply<Result<(), SessionError>> },
    Compact { wishes: String, reply: Reply<Result<bool, SessionError>> },
    Close { reply: Reply<()> },
}

/// The task that owns the transcript.
pub(crate) struct Actor {
    pub settings: Arc<SharedSettings>,
    /// Settings of the last turn.
    pub last: TurnSettings,
    pub hooks: Arc<dyn Hooks>,
    pub approver: Arc<dyn Approver>,
    pub invoked: bool,
    pub reload_source: Option<Arc<dyn ReloadSource>>,
    pub transcript: Transcript,
    pub events: Emitter,
    pub queues: Arc<Queues>,
    pub redactor: Arc<Redactor>,
    /// Entries for the session file other than messages.
    pub notes: Arc<Notes>,
    pub commits: Option<broadcast::Receiver<Arc<Commit>>>,
    pub resumed_from: Option<String>,
    /// Model and level recorded in the session file, until a run compares them.
    pub recorded: Option<RecordedSettings>,
    /// Problems of the session file, until they are reported.
    pub warnings: Vec<String>,
    /// Whether the last operation was cancelled, while `agent_settled` is due.
    pub unsettled: Option<bool>,
    /// Whether `agent_settled` waits for the close.
    pub settles_on_close: bool,
    pub current: Arc<Mutex<Option<CancellationToken>>>,
    pub disconnected: CancellationToken,
    pub end: CancellationToken,
}

impl Actor {
    pub async fn serve(mut self, mut incoming: mpsc::UnboundedReceiver<Operation>) {
        for text in std::mem::take(&mut self.warnings) {
            self.events.send(Event::Notice { level: "warning".to_owned(), text }).await;
        }
        // The loop ends when every handle is dropped, which also cancels `end` and with it the run.
        while let Some(operation) = incoming.recv().await {
            // A reply fails only if the caller has stopped waiting.
            match operation {
                Operation::Prompt { messages, cancel, reply } => {
                    let opening = RunStart { messages, takes_steering: true };
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
                Operation::Name { name, reply } => {
                    let file = self.transcript.file().ok_or(SessionError::NotKept);
                    reply.send(file.and_then(|file| Ok(file.append_name(&name)?))).ok();
                }
                Operation::Compact { wishes, reply } => {
                    let compacted = self.compact(&wishes).await;
                    self.settle(&incoming).await;
                    reply.send(compacted).ok();
                }
                Operation::Close { reply } => {
                    incoming.close();
                    self.emit_settled().await;
                    self.events.flush().await;
                    // This releases the file's lock, so that another process can continue the session.
                    self.transcript = Transcript::new(Vec::new(), None);
                    reply.send(()).ok();
                }
            }
            self.settle(&incoming).await;
        }
        self.emit_settled().await;
    }

    /// Reports that the session is idle, if an operation ran and none is waiting.
    ///
    /// Queued messages wait for the next run.
    async fn settle(&mut self, incoming: &mpsc::UnboundedReceiver<Operation>) {
        if incoming.is_empty() && !self.settles_on_close {
            self.emit_settled().await;
        }
    }

    async fn emit_settled(&mut self) {
        if let Some(aborted) = self.unsettled.take() {
            self.events.send(Event::AgentSettled { aborted }).await;
        }
    }

    /// The start of a run without a prompt.
    fn continuation(&self) -> Result<RunStart, SessionError> {
        let last = self.transcript.messages().last();
        match last {
            None => Err(SessionError::Empty),
            Some(Message::User(_) | Message::ToolResult(_)) => {
                Ok(RunStart { messages: Vec::new(), takes_steering: true })
            }
            Some(Message::Assistant(_)) => {
                let mut messages = self.queues.take(Queue::Steering);
                if messages.is_empty() {
                    messages = self.queues.take(Queue::FollowUp);
                }
                if messages.is_empty() {
                    return Err(SessionError::Answered);
                }
                Ok(RunStart { messages, takes_steering: false })
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
        Ok(written?)
    }

    async fn append_custom(&mut self, kind: String, data: Value) -> Result<(), SessionError> {
        let message_id = self.transcript.append_custom(&kind, &data)?;
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
        let written = match summary {
            Some(wishes) if !left.is_empty() => {
                let cx = self.cx();
                let written = self.until_cancelled(&cx, compact::of_branch(&cx, &left, wishes)).await;
                let written = written.ok_or(SessionError::Cancelled)?;
                self.transcript.note_usage("branch_summary", cx.take_spent())?;
                Some(written)
            }
            _ => None,
        };
        let file = self.transcript.file().ok_or(SessionError::NotKept)?;
        match written {
            Some(written) => {
                file.append_branch(&selected, &written)?;
                loaded = file.load()?;
            }
            None => file.select(&selected),
        }
        self.set(loaded.context_items()).await;
        Ok(())
    }

    /// Waits for `work`, which `abort` and the end of the session cancel through `cx`.
    async fn until_cancelled<T>(&self, cx: &RunCx, work: impl Future<Output = T>) -> T {
        let outer = self.end.child_token();
        *self.current.lock() = Some(cx.cancel.clone());
        let mut work = std::pin::pin!(work);
        let done = tokio::select! {
            done = &mut work => done,
            () = outer.cancelled() => {
                cx.cancel.cancel();
                work.await
            }
        };
        *self.current.lock() = None;
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
        *self.current.lock() = Some(cx.cancel.clone());
        let ended = cx.cancel.clone();
        let compacted = {
            let compact = compact::compact(&cx, &mut self.transcript, "command", wishes);
            let mut compact = std::pin::pin!(compact);
            tokio::select! {
                compacted = &mut compact => compacted,
                () = outer.cancelled() => {
                    ended.cancel();
                    compact.await
                }
            }
        };
        *self.current.lock() = None;
        self.unsettled = Some(cx.cancel.is_cancelled());
        Ok(compacted?)
    }

    fn cx(&self) -> RunCx {
        RunCx {
            run: RunId::new(),
            current: RwLock::new(self.last.clone()),
            settings: self.settings.clone(),
            hooks: self.hooks.clone(),
            reload_source: self.reload_source.clone(),
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
            recorded: Mutex::default(),
            spent: Mutex::default(),
            cancel: CancellationToken::new(),
        }
    }

    async fn run(&mut self, opening: RunStart, cancel: CancellationToken) -> RunOutcome {
        if self.transcript.messages().is_empty() {
            let tools = self.settings.get().tools;
            opening.messages.iter().for_each(|queued| tools.activate_for(&queued.message.text()));
        }
        let cx = RunCx { recorded: Mutex::new(self.recorded.take()), ..self.cx() };
        // A run is aborted by its own token, by `Session::abort`, or by the end of the session.
        let outer = self.end.child_token();
        *self.current.lock() = Some(outer.clone());
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
                tracing::error!("a run panicked");
                let run = cx.run.clone();
                RunOutcome { run, ..RunOutcome::without_run(TerminationReason::Error, run::DEFECT) }
            }),
            () = link => RunOutcome::without_run(TerminationReason::Aborted, "cancelled"),
        };
        self.last = cx.current();
        *self.current.lock() = None;
        wait_for_stragglers(&cx.tracker).await;
        if let Err(error) = self.transcript.note(self.notes.take()) {
            tracing::warn!(%error, "cannot write notes of a call to the session file");
        }
        self.unsettled = Some(outcome.reason == TerminationReason::Aborted);
        outcome
    }
}
