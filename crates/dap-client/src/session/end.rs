//! End of a session: on request, reported by the adapter, or detected.
//!
//! Invariants: the adapter is ended and reaped before [`Session::ended`] returns.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use process::Process;
use process::deadlines;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use workspace::ProtectedFiles;

use super::{Clock, Session};
use crate::debuggee::Category;
use crate::debuggee::{End, Ending, Input, State};
use crate::error::Result;
use crate::hub;
use crate::transport::with_tail;

/// Capability that lets a disconnect end the program (DAP §DisconnectArguments).
const ENDS: &str = "supportTerminateDebuggee";

impl Session {
    /// Ends the session and its program.
    pub async fn terminate(&self, clock: &Clock) {
        self.end_session(true, clock).await;
    }

    /// Checks whether [`Self::terminate`] can end a program that was not launched here.
    ///
    /// # Errors
    /// [`DapError::Unsupported`].
    pub fn can_end(&self) -> Result<()> {
        if self.can(ENDS) || self.can("supportsTerminateRequest") {
            return Ok(());
        }
        let nearest = "`disconnect` leaves it running".to_owned();
        Err(self.lacks("end a program that it did not launch", Some(nearest)))
    }

    /// Whether Pilcrow launched the program, here or in the root of its tree.
    pub fn is_ours(&self) -> bool {
        self.ours
    }

    /// Leaves an attached program running; a launched one ends with its session.
    pub async fn disconnect(&self, clock: &Clock) {
        if self.hub_status().joined_clients > 0 {
            // The user's session continues.
            return self.hub.handle(hub::Input::AgentStopped).await;
        }
        self.end_session(false, clock).await;
    }

    /// Ends the session when Pilcrow exits.
    ///
    /// A program that Pilcrow did not launch keeps running.
    pub(crate) async fn close(&self, clock: &Clock) {
        if self.is_external() {
            // The user's editor owns the session, which continues.
            self.fail("Pilcrow ends");
            return self.ended().await;
        }
        let patient = Clock {
            until: clock.until.max(Instant::now() + deadlines::ADAPTER_DETACH),
            cancel: clock.cancel.clone(),
        };
        self.end_session(self.ours, if self.ours { clock } else { &patient }).await;
    }

    /// The longest duration of [`Self::close`], given `time`.
    pub(crate) fn patience(&self, time: Duration) -> Duration {
        if self.ours { time } else { time.max(deadlines::ADAPTER_DETACH + deadlines::ADAPTER_EXIT) }
    }

    async fn end_session(&self, end: bool, clock: &Clock) {
        if !matches!(self.state(), State::Terminated(_)) {
            let leaves = !end && !self.launched;
            self.inner.take(Input::Ending(if leaves { Ending::Left } else { Ending::Terminated }));
            // An adapter that is killed before it detached ends the process too.
            let patience = if leaves { deadlines::ADAPTER_DETACH } else { deadlines::ADAPTER_ANSWER };
            let limited =
                |time| Clock { until: clock.until.min(Instant::now() + time), cancel: clock.cancel.clone() };
            let has = self.can(ENDS);
            let asks = self.launched || self.is_external() || !has;
            if end && asks && self.can("supportsTerminateRequest") {
                self.send_final_request("terminate", json!({}), &limited(deadlines::ADAPTER_ANSWER)).await;
            }
            let arguments = match end {
                true if has => json!({ "terminateDebuggee": true }),
                false if !self.launched => json!({ "terminateDebuggee": false }),
                _ => json!({}),
            };
            self.send_final_request("disconnect", arguments, &limited(patience)).await;
            self.inner.take(Input::Terminated);
            self.inner.finished.cancel();
        }
        if tokio::time::timeout(clock.left().max(deadlines::ADAPTER_EXIT), self.ended()).await.is_err() {
            tracing::warn!(session = self.id, "the adapter is still being ended");
        }
    }

    async fn send_final_request(&self, command: &str, arguments: Value, clock: &Clock) {
        if let Err(error) = self.client.request(command, arguments, clock.left(), &clock.cancel).await {
            tracing::debug!(session = self.id, %error, "the adapter is ended without its answer");
        }
    }

    /// Records the program's exit status, unless the end was requested.
    pub(crate) fn ended_with(&self, status: ExitStatus) {
        if !matches!(self.state(), State::Terminated(End { asked: Some(_), .. })) {
            let code = status.code().or_else(|| status.signal().map(|signal| -signal));
            self.inner.take(Input::Exited { code: code.map(i64::from) });
        }
    }

    /// Ends the session because its start failed.
    pub(crate) fn fail_start(&self, why: &str) {
        self.inner.take(Input::StartFailed { failure: why.to_owned() });
        self.inner.finished.cancel();
    }

    /// Ends the session with a failure.
    pub(crate) fn fail(&self, failure: &str) {
        self.inner.take(Input::AdapterClosed { failure: failure.to_owned() });
        self.inner.finished.cancel();
    }

    /// Waits for the end of the session and ends everything it started.
    ///
    /// A child has no process, because its parent's adapter serves it. `written` ends when the program's
    /// output on the adapter's own streams is read.
    pub(super) async fn supervise(
        self: Arc<Self>,
        process: Option<Process>,
        written: Option<JoinHandle<()>>,
        protected: Option<ProtectedFiles>,
    ) {
        if let Some(process) = process.as_ref().filter(|_| !self.ours) {
            process.end_gently();
        }
        let mut states = self.inner.state.subscribe();
        let terminated = states.wait_for(|state| matches!(state, State::Terminated(_)));
        // Dropping these futures is safe: their results are lasting states and are checked again
        // below.
        let mut status = self.hub.status();
        let adapter_unresponsive = async {
            if status.wait_for(|status| status.adapter_unresponsive).await.is_err() {
                // The hub has ended, which the state reports.
                std::future::pending::<()>().await;
            }
        };
        let reported = tokio::select! {
            _ = terminated => true,
            () = adapter_unresponsive => {
                self.inner.take(Input::Terminated);
                self.inner.finished.cancel();
                true
            }
            _ = self.client.closed() => false,
            _ = self.exit_status(process.as_ref()) => false,
        };
        if reported {
            // Some adapters (gdb 18) report the program's last output after `exited`.
            let finished =
                tokio::time::timeout(deadlines::ADAPTER_ANSWER, self.inner.finished.cancelled()).await;
            tracing::trace!(said = finished.is_ok(), "waited for the end of the debugged program");
            if !matches!(self.state(), State::Terminated(End { asked: Some(_), .. })) {
                self.wait_for_output(Instant::now() + deadlines::PROGRAM_OUTPUT).await;
            }
            let clock = Clock::new(deadlines::ADAPTER_ANSWER, &CancellationToken::new());
            self.send_final_request("disconnect", json!({}), &clock).await;
            if !self.is_external() {
                // Some adapters report output after this answer.
                let ended = tokio::time::timeout(deadlines::ADAPTER, self.client.closed()).await;
                tracing::trace!(closed = ended.is_ok(), "waited for the last output of the adapter");
            }
        } else {
            let both = async { (self.client.closed().await, self.exit_status(process.as_ref()).await) };
            let ended = tokio::time::timeout(deadlines::ADAPTER_EXIT, both).await;
            let why = match ended {
                Ok((_, Some(status))) => format!("it ended unexpectedly ({status})"),
                _ => "it closed its stream".to_owned(),
            };
            if self.hub_status().ended_by_user {
                self.inner.take(Input::Terminated);
            }
            // Ignored if the adapter's last messages reported the end.
            let tail = process.as_ref().map(Process::stderr_tail).unwrap_or_default();
            self.fail(&with_tail(&why, &tail));
        }
        self.inner.finished.cancel();
        self.hub.close("the session has ended").await;
        self.client.close("the session has ended");
        self.inner.reverse_handler.end_programs(&self).await;
        if let Some(process) = process {
            self.wait_for_children().await;
            process.end(deadlines::ADAPTER).await;
            for prefix in &self.adapter.quirks.leftover_sockets {
                let prefix = prefix.replace("${pid}", &process.id_inside().to_string());
                wire::local::remove_sockets(&std::env::temp_dir(), &prefix);
            }
            if let Some(written) = written {
                // A process that the program left behind may keep it open.
                let all = tokio::time::timeout(deadlines::ADAPTER_EXIT, written).await;
                tracing::trace!(read = all.is_ok(), "the output of the program");
            }
            if self.adapter.quirks.shares_program_output {
                self.push_output(Category::Stderr, &process.stderr_tail());
            }
        }
        let reverted = ProtectedFiles::after(protected).await;
        // Only this line sets it.
        drop(self.reverted.set(reverted));
        self.ended.cancel();
        self.inner.notify_change();
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

    /// Waits for the child sessions, which the adapter's process serves too.
    async fn wait_for_children(&self) {
        for child in self.inner.reverse_handler.descendants(self) {
            if self.hub_status().adapter_unresponsive {
                // Nothing else ends the children: the user ended the program, and the adapter does
                // not answer.
                child.terminate(&Clock::new(2 * deadlines::ADAPTER_ANSWER, &CancellationToken::new())).await;
            }
            if !child.is_terminated() {
                self.ended.cancel();
            }
            child.ended().await;
        }
    }
}
