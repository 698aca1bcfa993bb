//! One live session, and the task that runs its messages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use agent::{Queue, QueuedMessage, RunOutcome, Session, deadlines};
use parking_lot::Mutex;
use policy::ErrorCode;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::types::{DeliveryMode, PromptAck, PromptStatus, ServiceError};
use crate::announce::ProjectHandle;
use crate::session::unsaved::describe_unsaved;
use crate::session::{HostedSession, ended_well};

/// A session that is open between its prompts.
pub(super) struct LiveSession {
    pub hosted: HostedSession,
    pub project: Arc<ProjectHandle>,
    driver: Mutex<Driver>,
    /// Notified when a run has ended and no other follows.
    idle: Notify,
    tasks: TaskTracker,
}

/// The current run of a session.
#[derive(Default)]
struct Driver {
    /// Cancels the current run; `None` while idle.
    active: Option<CancellationToken>,
    /// Messages that start a run once the current one, or the hold, ends.
    interrupts: VecDeque<QueuedMessage>,
    /// Whether `active` is no run: the session is held.
    is_held: bool,
    is_closed: bool,
}

/// A session that starts no run until this is dropped.
pub(super) struct Held(Arc<LiveSession>);

impl std::ops::Deref for Held {
    type Target = LiveSession;

    fn deref(&self) -> &LiveSession {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut driver = self.driver.lock();
        driver.is_held = false;
        driver.active = None;
        // Messages that were queued before wait for the user.
        match driver.interrupts.pop_front().filter(|_| !driver.is_closed) {
            Some(message) => {
                let cancel = CancellationToken::new();
                driver.active = Some(cancel.clone());
                self.tasks.spawn(Arc::clone(&self.0).drive(message, cancel));
            }
            None => self.idle.notify_waiters(),
        }
    }
}

impl LiveSession {
    pub fn new(hosted: HostedSession, project: Arc<ProjectHandle>) -> Arc<Self> {
        Arc::new(Self {
            hosted,
            project,
            driver: Mutex::default(),
            idle: Notify::new(),
            tasks: TaskTracker::new(),
        })
    }

    pub fn id(&self) -> &str {
        self.session().id()
    }

    pub fn session(&self) -> &Session {
        self.hosted.session()
    }

    pub fn is_running(&self) -> bool {
        self.driver.lock().active.is_some()
    }

    /// Holds the session once it is idle; `None` if it still runs after a second.
    ///
    /// A run ends shortly after its last event.
    pub(super) async fn hold(self: &Arc<Self>) -> Option<Held> {
        let wait = async {
            loop {
                let mut idle = std::pin::pin!(self.idle.notified());
                idle.as_mut().enable();
                {
                    let mut driver = self.driver.lock();
                    if driver.active.is_none() && !driver.is_closed {
                        driver.active = Some(CancellationToken::new());
                        driver.is_held = true;
                        return Held(Arc::clone(self));
                    }
                }
                idle.await;
            }
        };
        tokio::time::timeout(Duration::from_secs(1), wait).await.ok()
    }

    /// Starts a run with a message, or queues it.
    ///
    /// # Errors
    /// When the session is being closed.
    pub fn deliver(
        self: &Arc<Self>,
        queued: QueuedMessage,
        delivery: DeliveryMode,
    ) -> Result<PromptAck, ServiceError> {
        let message_id = queued.message_id.clone();
        // The lock is held until the message is in its place, so that no run ends meanwhile.
        let mut driver = self.driver.lock();
        if driver.is_closed {
            let message = "the session is being closed; open it again";
            return Err(ServiceError::new(ErrorCode::WrongState, message));
        }
        let status = match (&driver.active, delivery) {
            (Some(_), _) if driver.is_held => {
                driver.interrupts.push_back(queued);
                PromptStatus::Started
            }
            (None, _) => {
                let cancel = CancellationToken::new();
                driver.active = Some(cancel.clone());
                self.tasks.spawn(Arc::clone(self).drive(queued, cancel));
                PromptStatus::Started
            }
            (Some(active), DeliveryMode::Interrupt) => {
                active.cancel();
                driver.interrupts.push_back(queued);
                PromptStatus::Interrupting
            }
            (Some(_), delivery) => {
                let queue = if delivery == DeliveryMode::Steer { Queue::Steering } else { Queue::FollowUp };
                self.tasks.spawn(self.session().queue(queue, queued));
                PromptStatus::Queued
            }
        };
        Ok(PromptAck { message_id, status })
    }

    /// Compacts the session; cancels its run first.
    pub fn compact(self: &Arc<Self>, wishes: &str) -> PromptAck {
        let (live, wishes) = (Arc::clone(self), wishes.to_owned());
        self.cancel();
        self.tasks.spawn(async move {
            let text = match live.session().compact(wishes).await {
                Ok(true) => return,
                Ok(false) => "nothing to compact: the conversation is short".to_owned(),
                Err(error) => error.to_string(),
            };
            live.hosted.note(text).await;
        });
        PromptAck { message_id: String::new(), status: PromptStatus::Started }
    }

    /// Cancels the current run; returns false if there is none.
    pub fn cancel(&self) -> bool {
        let mut driver = self.driver.lock();
        // A message whose run did not start waits like the others.
        for queued in std::mem::take(&mut driver.interrupts) {
            self.tasks.spawn(self.session().queue(Queue::Steering, queued));
        }
        driver.active.as_ref().inspect(|active| active.cancel()).is_some()
    }

    /// Cancels the run and closes the session; returns the number of its last event.
    pub async fn close(&self) -> u64 {
        self.driver.lock().is_closed = true;
        self.cancel();
        self.tasks.close();
        if tokio::time::timeout(deadlines::RUN, self.tasks.wait()).await.is_err() {
            tracing::warn!(session = self.id(), "a cancelled run did not end in time");
        }
        let session = self.session();
        session.close(Duration::from_secs(1)).await;
        session.replay(None).await.map_or(0, |replay| replay.seq)
    }

    /// Runs a message, then the messages that were queued too late for its run.
    async fn drive(self: Arc<Self>, first: QueuedMessage, mut cancel: CancellationToken) {
        let mut message = first;
        loop {
            let outcome = self.hosted.run_message(message, cancel.clone()).await;
            self.note_unsaved(&outcome).await;
            match self.next(ended_well(&outcome)).await {
                Some(next) => (message, cancel) = next,
                None => return,
            }
        }
    }

    async fn next(&self, takes_queued: bool) -> Option<(QueuedMessage, CancellationToken)> {
        loop {
            let waiting = {
                let mut driver = self.driver.lock();
                let cancel = CancellationToken::new();
                if let Some(message) = driver.interrupts.pop_front() {
                    driver.active = Some(cancel.clone());
                    return Some((message, cancel));
                }
                let queued = self.session().queued_texts().into_iter().next().filter(|_| takes_queued);
                driver.active = queued.is_some().then(|| cancel.clone());
                if queued.is_none() {
                    self.idle.notify_waiters();
                }
                queued.map(|queued| (queued.message_id, cancel))
            };
            let (message_id, cancel) = waiting?;
            // The user may remove the message meanwhile.
            if let Some((_, message)) = self.session().unqueue(&message_id).await {
                return Some((message, cancel));
            }
        }
    }

    async fn note_unsaved(&self, outcome: &RunOutcome) {
        if let Some(text) = describe_unsaved(&self.hosted.unsaved_files(&outcome.run)) {
            self.hosted.note(text).await;
        }
    }
}
