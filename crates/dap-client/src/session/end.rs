//! The end of a session, however it comes: asked for, told by the adapter, or found by its silence.
//!
//! What must stay true: the adapter is ended and reaped, and [`Session::over`] says so.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use process::Process;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Clock, LAST_WORDS, Session};
use crate::debuggee::Category;
use crate::debuggee::{End, Ending, Input, State};
use crate::error::DapError;
use crate::transport::with_tail;

/// The capability of ending the program with the session, or not (DAP §DisconnectArguments).
const ENDS: &str = "supportTerminateDebuggee";
/// How long an adapter may take to say goodbye, and to end after that.
const GOODBYE: Duration = Duration::from_secs(1);
const GRACE: Duration = Duration::from_millis(300);
/// How long what the program wrote may take to come.
pub(crate) const OUTPUT: Duration = Duration::from_secs(5);
/// How long it may take to let go of a process that is not ours.
const LET_GO: Duration = Duration::from_secs(5);

impl Session {
    /// Ends it, and its program.
    pub async fn terminate(&self, clock: &Clock) {
        self.leave(true, clock).await;
    }

    /// Whether [`Self::terminate`] can end a program that was not launched here.
    ///
    /// # Errors
    /// [`DapError::Unsupported`].
    pub fn can_end(&self) -> Result<(), DapError> {
        if self.can(ENDS) || self.can("supportsTerminateRequest") {
            return Ok(());
        }
        let nearest = "`disconnect` leaves it, and it runs on".to_owned();
        Err(self.lacks("end what it did not launch", Some(nearest)))
    }

    /// Whether what it debugs runs because of us: it, or the root of its tree, was launched.
    pub fn is_ours(&self) -> bool {
        self.ours
    }

    /// Leaves a program that was attached to; one that was launched ends with its session.
    pub async fn disconnect(&self, clock: &Clock) {
        if self.shared().persons > 0 {
            // The person's goes on.
            return self.hub.forget_agent().await;
        }
        self.leave(false, clock).await;
    }

    /// Ends it because we end: with its program where that is ours, else the program runs on.
    pub(crate) async fn close(&self, clock: &Clock) {
        if self.is_theirs() {
            // The person's editor holds it, and goes on.
            self.give_up("Pilcrow ends");
            return self.over().await;
        }
        let patient = Clock { until: clock.until.max(Instant::now() + LET_GO), cancel: clock.cancel.clone() };
        self.leave(self.ours, if self.ours { clock } else { &patient }).await;
    }

    /// How long [`Self::close`] may take, of `time`.
    pub(crate) fn patience(&self, time: Duration) -> Duration {
        if self.ours { time } else { time.max(LET_GO + LAST_WORDS) }
    }

    async fn leave(&self, end: bool, clock: &Clock) {
        if !matches!(self.state(), State::Terminated(_)) {
            let leaves = !end && !self.launched;
            self.inner.take(Input::Ending(if leaves { Ending::Left } else { Ending::Terminated }));
            // An adapter that is ended before it let go of a process ends that process too.
            let patience = if leaves { LET_GO } else { GOODBYE };
            let limited =
                |time| Clock { until: clock.until.min(Instant::now() + time), cancel: clock.cancel.clone() };
            let has = self.can(ENDS);
            let asks = self.launched || self.is_theirs() || !has;
            if end && asks && self.can("supportsTerminateRequest") {
                self.goodbye("terminate", json!({}), &limited(GOODBYE)).await;
            }
            let arguments = match end {
                true if has => json!({ "terminateDebuggee": true }),
                false if !self.launched => json!({ "terminateDebuggee": false }),
                _ => json!({}),
            };
            self.goodbye("disconnect", arguments, &limited(patience)).await;
            self.inner.take(Input::Terminated);
            self.inner.finished.cancel();
        }
        if tokio::time::timeout(clock.left().max(LAST_WORDS), self.over()).await.is_err() {
            tracing::warn!(session = self.id, "the adapter is still being ended");
        }
    }

    async fn goodbye(&self, command: &str, arguments: Value, clock: &Clock) {
        if let Err(error) = self.client.request(command, arguments, clock.left(), &clock.cancel).await {
            tracing::debug!(session = self.id, %error, "the adapter is ended without its answer");
        }
    }

    /// Its program ended so by itself; taken where nothing else told it and nobody asked for the end.
    pub(crate) fn ended_with(&self, status: ExitStatus) {
        if !matches!(self.state(), State::Terminated(End { asked: Some(_), .. })) {
            let code = status.code().or_else(|| status.signal().map(|signal| -signal));
            self.inner.take(Input::Exited { code: code.map(i64::from) });
        }
    }

    /// Gives up its start, for this reason.
    pub(crate) fn not_begun(&self, why: &str) {
        self.inner.take(Input::NotBegun { why: why.to_owned() });
        self.inner.finished.cancel();
    }

    /// Gives it up, for this reason.
    pub(crate) fn give_up(&self, failure: &str) {
        self.inner.take(Input::Gone { failure: failure.to_owned() });
        self.inner.finished.cancel();
    }

    /// Watches until it is over, and ends what was started. A child has no process: its adapter is its
    /// parent's.
    /// `written` ends when all is read that the program wrote to the adapter's own output.
    pub(super) async fn supervise(
        self: Arc<Self>,
        process: Option<Process>,
        written: Option<JoinHandle<()>>,
    ) {
        if let Some(process) = process.as_ref().filter(|_| !self.ours) {
            process.end_gently();
        }
        let mut states = self.inner.state.subscribe();
        let over = states.wait_for(|state| matches!(state, State::Terminated(_)));
        // Each may be dropped: what happened stays so and is asked again below.
        let mut shared = self.hub.shared();
        let deaf = async {
            if shared.wait_for(|shared| shared.deaf).await.is_err() {
                // The hub is over, which the state tells.
                std::future::pending::<()>().await;
            }
        };
        let told = tokio::select! {
            _ = over => true,
            () = deaf => {
                self.inner.take(Input::Terminated);
                self.inner.finished.cancel();
                true
            }
            _ = self.client.closed() => false,
            _ = self.exit_status(process.as_ref()) => false,
        };
        if told {
            // After `exited` some adapters (gdb 18) still have the program's last output to tell.
            let finished = tokio::time::timeout(GOODBYE, self.inner.finished.cancelled()).await;
            tracing::trace!(said = finished.is_ok(), "the end of the debugged program");
            if !matches!(self.state(), State::Terminated(End { asked: Some(_), .. })) {
                self.caught_up(Instant::now() + OUTPUT).await;
            }
            let clock = Clock::new(GOODBYE, &CancellationToken::new());
            self.goodbye("disconnect", json!({}), &clock).await;
            if !self.is_theirs() {
                // Some have output to tell also behind that answer.
                let ended = tokio::time::timeout(GRACE, self.client.closed()).await;
                tracing::trace!(closed = ended.is_ok(), "the adapter's last words");
            }
        } else {
            let both = async { (self.client.closed().await, self.exit_status(process.as_ref()).await) };
            let ended = tokio::time::timeout(LAST_WORDS, both).await;
            let why = match ended {
                Ok((_, Some(status))) => format!("it ended without a word ({status})"),
                _ => "it closed its stream".to_owned(),
            };
            if self.shared().ended_by_person {
                self.inner.take(Input::Terminated);
            }
            // Ignored where its last messages said that it is over.
            let tail = process.as_ref().map(Process::stderr_tail).unwrap_or_default();
            self.give_up(&with_tail(&why, &tail));
        }
        self.inner.finished.cancel();
        self.hub.close("the session is over").await;
        self.client.close("the session is over");
        self.inner.owner.end_programs(&self).await;
        if let Some(process) = process {
            self.outlived().await;
            process.end(GRACE).await;
            if let Some(written) = written {
                // Something that the program left behind may hold it open.
                let all = tokio::time::timeout(LAST_WORDS, written).await;
                tracing::trace!(read = all.is_ok(), "the output of the program");
            }
            if self.adapter.quirks.shares_program_output {
                self.push_output(Category::Stderr, &process.stderr_tail());
            }
        }
        self.over.cancel();
        self.inner.ring();
    }

    async fn exit_status(&self, process: Option<&Process>) -> Option<ExitStatus> {
        match process {
            Some(process) => Some(process.exited().await),
            None => {
                self.client.closed().await;
                None
            }
        }
    }

    /// The adapter's process serves child sessions too: it is kept while they live.
    async fn outlived(&self) {
        for child in self.inner.owner.descendants(self) {
            if self.shared().deaf {
                // Nothing else ends them: the person wants the program ended, and its adapter says nothing.
                child.terminate(&Clock::new(2 * GOODBYE, &CancellationToken::new())).await;
            }
            if !child.is_over() {
                self.over.cancel();
            }
            child.over().await;
        }
    }
}
