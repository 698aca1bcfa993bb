//! Shared state of a run: settings, services, events and messages.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use llm::{Message, ThinkingLevel, Usage};
use parking_lot::{Mutex, RwLock};
use policy::Redactor;
use process::deadlines;
use tokio::sync::broadcast;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::{Commit, RunId};

use crate::compaction;
use crate::events::emitter::Emitter;
use crate::events::{Event, MessageRole};
use crate::run::hooks::Hooks;
use crate::run::limits::Limits;
use crate::run::queues::Queues;
use crate::run::reload::{Reload, ReloadSource};
use crate::run::settings::{SharedSettings, TurnSettings};
use crate::store::StoreError;
use crate::tool::discovery::Toolset;
use crate::tool::gate::Gate;
use crate::transcript::Transcript;

/// State that the parts of a run share.
pub(crate) struct RunCx {
    pub run: RunId,
    /// Settings of this turn.
    pub current: RwLock<TurnSettings>,
    /// Settings of the next turn.
    pub settings: Arc<SharedSettings>,
    pub hooks: Arc<dyn Hooks>,
    pub reload_source: Option<Arc<dyn ReloadSource>>,
    pub events: Emitter,
    pub gate: Arc<Gate>,
    pub queues: Arc<Queues>,
    pub tracker: TaskTracker,
    pub redactor: Arc<Redactor>,
    /// The file of a resumed session.
    pub resumed_from: Option<String>,
    /// Model and level in the session file, until the first turn compares them.
    pub recorded: Mutex<Option<RecordedSettings>>,
    /// Tokens of requests outside turns: of the whole run, and not yet in the file.
    pub spent: Mutex<(Usage, Usage)>,
    /// Receiver of all commits of the workspace.
    pub commits: Mutex<Option<broadcast::Receiver<Arc<Commit>>>>,
    /// Cancels this run only.
    pub cancel: CancellationToken,
}

/// Model and thinking level that a session file records.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecordedSettings {
    /// Provider and id; `None` if no model was asked yet.
    pub model: Option<(String, String)>,
    pub thinking_level: Option<ThinkingLevel>,
}

impl RunCx {
    /// Sends an event and waits for the sinks, unless the run is cancelled.
    pub async fn emit(&self, event: Event) {
        self.events.emit(event, &self.cancel).await;
    }

    /// Reports the commits of this run since the last call.
    pub(crate) async fn emit_commits(&self) {
        loop {
            let commit = {
                let mut commits = self.commits.lock();
                match commits.as_mut().map(broadcast::Receiver::try_recv) {
                    Some(Ok(commit)) => commit,
                    // The receiver lagged; the remaining commits are reported.
                    Some(Err(broadcast::error::TryRecvError::Lagged(_))) => continue,
                    Some(Err(_)) | None => return,
                }
            };
            if commit.run == self.run {
                self.emit(Event::of_commit(&commit)).await;
            }
        }
    }

    /// Settings of this turn.
    pub fn current(&self) -> TurnSettings {
        self.current.read().clone()
    }

    /// Limits of this turn.
    pub fn limits(&self) -> Limits {
        self.current.read().limits
    }

    /// Tools of this turn.
    pub fn tools(&self) -> Arc<Toolset> {
        self.current.read().tools.clone()
    }

    /// Counts a request outside turns.
    pub(crate) fn spend(&self, usage: Usage) {
        let mut spent = self.spent.lock();
        *spent = (spent.0.plus(usage), spent.1.plus(usage));
    }

    /// Tokens counted by [`RunCx::spend`] since the last call.
    pub(crate) fn take_spent(&self) -> Usage {
        let mut spent = self.spent.lock();
        std::mem::take(&mut spent.1)
    }

    /// Records the model and level in the session file if they changed.
    pub(crate) fn note_settings(&self, transcript: &mut Transcript) -> Result<(), StoreError> {
        let recorded = self.recorded.lock().take();
        let (Some(recorded), Some(file)) = (recorded, transcript.file()) else { return Ok(()) };
        let current = self.current();
        let info = current.model.info();
        let model = (&info.provider, &info.id);
        if recorded.model.as_ref().is_none_or(|(provider, id)| (provider, id) != model) {
            file.append_model_change(model.0, model.1)?;
        }
        if recorded.thinking_level != current.thinking_level {
            file.append_thinking_level_change(current.thinking_level)?;
        }
        Ok(())
    }

    /// Applies settings that changed since the last turn, reports and records them.
    pub(crate) async fn take_settings(&self, transcript: &mut Transcript) -> Result<(), StoreError> {
        let new = self.settings.get();
        let old = std::mem::replace(&mut *self.current.write(), new.clone());
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

    /// Adds a complete message to the transcript, with its two events; returns its id.
    pub(crate) async fn add_message(
        &self,
        transcript: &mut Transcript,
        message: Message,
    ) -> Result<String, StoreError> {
        let message_id = transcript.new_id();
        self.add_message_as(transcript, message_id.clone(), message).await?;
        Ok(message_id)
    }

    /// Adds a message whose entry has this id.
    pub(crate) async fn add_message_as(
        &self,
        transcript: &mut Transcript,
        message_id: String,
        message: Message,
    ) -> Result<(), StoreError> {
        let role = MessageRole::of(&message);
        let start =
            Event::MessageStart { message_id: message_id.clone(), role, message: Some(message.clone()) };
        self.emit(start).await;
        self.end_message(transcript, &message_id, message).await
    }

    /// Adds a message whose start event was sent, with its end event.
    pub(crate) async fn end_message(
        &self,
        transcript: &mut Transcript,
        message_id: &str,
        message: Message,
    ) -> Result<(), StoreError> {
        let written = transcript.append_of_run(message_id, &message);
        let event = Event::MessageEnd { message_id: message_id.to_owned(), message };
        self.events.emit_with(event, Some(transcript.messages().clone()), &self.cancel).await;
        written
    }

    /// Compaction limits for this turn's model.
    pub(crate) fn compaction_limits(&self) -> compaction::Limits {
        let limits = self.limits().compaction;
        limits.within(self.current().model.info().context_window.unwrap_or(limits.window))
    }

    /// Polls the reload source, reports its changes and applies them from this turn on.
    pub async fn reload(&self) {
        let Some(source) = self.reload_source.clone() else { return };
        let looked = tokio::task::spawn_blocking(move || source.poll_changes());
        let change = tokio::select! {
            biased;
            change = looked => change,
            // The source is polled again before the next turn, if there is one.
            () = self.cancel.cancelled() => return,
        };
        let Reload { instructions, tools, searches, model, limits, policy, changed, problems } = match change
        {
            Ok(Some(change)) => change,
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "the reload source panicked");
                return;
            }
        };
        if let Some(instructions) = instructions {
            self.events.set_instructions(&instructions);
            self.settings.change(|current| current.instructions = instructions);
        }
        if let Some(searches) = searches {
            self.settings.set_searches(searches);
        }
        self.settings.change(|current| {
            current.model = model.unwrap_or_else(|| current.model.clone());
            current.limits = limits.unwrap_or(current.limits);
        });
        if let Some(policy) = policy {
            self.settings.set_policy(&policy);
        }
        if let Some(tools) = tools {
            self.settings.set_tools(Arc::new(tools));
        }
        self.emit(Event::Reloaded { changed, problems }).await;
    }

    /// Runs a hook; catches a panic, and bounds its time once the run is cancelled.
    pub async fn hook<T>(&self, hook: impl Future<Output = T>) -> Hooked<T> {
        let give_up = async {
            self.cancel.cancelled().await;
            sleep(deadlines::HOOK).await;
        };
        tokio::select! {
            biased;
            // A hook may be dropped after a cancel, like a tool.
            outcome = AssertUnwindSafe(hook).catch_unwind() => match outcome {
                Ok(value) => Hooked::Done(value),
                Err(panic) => Hooked::Panicked(panic),
            },
            () = give_up => Hooked::GivenUp,
        }
    }
}

/// Outcome of a hook.
pub(crate) enum Hooked<T> {
    Done(T),
    Panicked(Box<dyn Any + Send>),
    /// The run was cancelled and the hook did not return in time.
    GivenUp,
}
