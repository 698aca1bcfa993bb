//! Requests to the server.
//!
//! A request follows the sync of its documents, and is repeated if the server asks for that.

use std::collections::HashMap;
use std::time::Duration;

use paths::AbsPath;
use policy::ErrorCode;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use text::PositionEncoding;
use wire::{RequestError, Room, codes};
use workspace::Document;

use crate::error::{Refusal, Result, ServerError, StartCause};
use crate::note::Note;
use crate::server::documents::Synced;
use crate::server::usage::Usage;
use crate::server::view::Views;
use crate::server::{Clock, LONGEST_PAUSE, PAUSE, Server};

/// An answer and the texts to read it by.
pub(crate) struct Asked {
    pub method: String,
    pub raw: Box<RawValue>,
    pub snapshot: HashMap<AbsPath, Synced>,
    pub encoding: PositionEncoding,
    /// The reason why the answer may be incomplete, from the time of the request.
    pub note: Option<Note>,
    /// Files in the answer whose text was not sent to the server.
    pub views: Views,
}

struct EndOfUse<'a>(&'a Usage);

impl Drop for EndOfUse<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Server {
    /// Sends a request. `params` receives the document as the server has it.
    pub async fn ask(
        &self,
        document: Option<&Document>,
        method: &str,
        clock: Clock<'_>,
        params: impl Fn(Option<&Synced>, PositionEncoding) -> Value + Sync,
    ) -> Result<Asked> {
        if clock.left().is_zero() {
            return Err(self.timeout(method, Duration::ZERO));
        }
        self.usage.begin();
        let _used = EndOfUse(&self.usage);
        let scan_note = self.report_external_changes(clock).await?;
        // A server that has loaded the project answers a request about one position soon, or never.
        let total = if self.core.requests.is_quick(method) { clock.total / 3 } else { clock.total };
        // A call may share its time among several requests; the time of the call is reported.
        let total = total.min(clock.left());
        let clock = Clock { total, ..clock.within(total) };
        let _entered = self.enter(method, clock).await?;
        self.openable(clock).await?;
        self.await_deletions(method, clock).await?;
        let _held = document.map(|document| self.core.hold(&document.path));
        let encoding = self.core.capabilities().encoding();
        // A server that finished loading during the request may have answered before.
        let other_version = || self.version_note(&document?.path);
        let note = self.note().or(scan_note).or_else(other_version);
        let mut pause = PAUSE;
        loop {
            let fresh = self.read_open(document.map(|document| &document.path));
            let room = self.room(method, clock).await?;
            let sent = {
                let rule = self.core.sync_rule();
                let mut documents = self.core.documents();
                self.sync_locked(&mut documents, rule, &room, &fresh, document)
                    .map_err(|closed| RequestError::Closed { method: method.to_owned(), closed })
                    .and_then(|target| {
                        let flight = room.request(method, &params(target.as_ref(), encoding))?;
                        Ok((flight, documents.snapshot()))
                    })
            };
            drop(room);
            let (flight, snapshot) = match sent {
                Ok(sent) => sent,
                Err(error) => return Err(self.request_error(error, clock).await),
            };
            let target =
                document.map(|document| format!(" of {}", self.core.workspace.relative(&document.path)));
            let pending = self.abandoned.ask(format!("{method}{}", target.unwrap_or_default()));
            let answer = flight.wait(clock.left(), clock.cancel).await;
            // Changes of earlier texts are reported with this request.
            let failed = match answer {
                Ok(raw) => {
                    pending.answered();
                    let (method, views) = (method.to_owned(), Views::default());
                    return Ok(Asked { method, raw, snapshot, encoding, note, views });
                }
                Err(error @ RequestError::Rpc { .. }) => {
                    pending.answered();
                    error
                }
                Err(error) => return Err(self.request_error(error, clock).await),
            };
            match failed {
                RequestError::Rpc { error, .. }
                    if self.core.requests.repeated().any(|repeated| repeated == method)
                        && matches!(error.code, codes::CONTENT_MODIFIED | codes::SERVER_CANCELLED)
                        && pause < clock.left() =>
                {
                    // A server that reloads its project reports progress until it has finished.
                    tokio::select! {
                        biased;
                        () = clock.cancel.cancelled() => return Err(ServerError::Cancelled),
                        () = tokio::time::sleep(pause) => {}
                    }
                    pause = LONGEST_PAUSE.min(pause * 2);
                }
                error => return Err(self.request_error(error, clock).await),
            }
        }
    }

    /// An answer that came with an earlier one, with the texts that the server has now.
    pub(crate) fn as_it_is(&self, method: &str) -> Asked {
        let encoding = self.core.capabilities().encoding();
        let snapshot = self.core.documents().snapshot();
        let raw = RawValue::NULL.to_owned();
        let views = Views::default();
        Asked { method: method.to_owned(), raw, snapshot, encoding, note: self.note(), views }
    }

    /// Sends notifications in order with all other messages.
    pub async fn notify(&self, messages: &[(&str, Value)]) {
        let sent = async {
            let room = self.peer.room().await?;
            messages.iter().try_for_each(|(method, params)| room.notify(method, params))
        };
        if let Err(closed) = sent.await {
            tracing::debug!(server = self.name(), %closed, "a notification was not sent");
        }
    }

    pub fn read<T: DeserializeOwned>(&self, method: &str, raw: &RawValue) -> Result<T> {
        serde_json::from_str(raw.get()).map_err(|error| self.protocol(method, error.to_string()))
    }

    /// Parses an answer that keeps parts of the input.
    pub(crate) fn read_borrowed<'a, T: serde::Deserialize<'a>>(
        &self,
        method: &str,
        raw: &'a RawValue,
    ) -> Result<T> {
        serde_json::from_str(raw.get()).map_err(|error| self.protocol(method, error.to_string()))
    }

    pub fn protocol(&self, method: &str, reason: String) -> ServerError {
        ServerError::Protocol { server: self.name().to_owned(), method: method.to_owned(), reason }
    }

    pub fn refused(&self, refusal: Refusal) -> ServerError {
        ServerError::Refused { server: self.name().to_owned(), refusal }
    }

    /// The error of a server that has not loaded its project.
    pub fn loading(&self) -> ServerError {
        let cause = StartCause::Loading(self.core.loading.describe());
        ServerError::Starting { server: self.name().to_owned(), cause }
    }

    pub async fn room(&self, method: &str, clock: Clock<'_>) -> Result<Room> {
        tokio::select! {
            biased;
            () = clock.cancel.cancelled() => Err(ServerError::Cancelled),
            room = tokio::time::timeout(clock.left(), self.peer.room()) => match room {
                Ok(Ok(room)) => Ok(room),
                Ok(Err(_)) => Err(self.crashed(method).await),
                Err(_) => Err(self.timeout(method, clock.total)),
            }
        }
    }

    pub fn timeout(&self, method: &str, after: Duration) -> ServerError {
        let details: Vec<String> =
            self.core.loading.describe().into_iter().chain(self.abandoned.describe()).collect();
        let detail = details.join("; ");
        // Some of the time passes before the request is sent.
        let step = if after < Duration::from_secs(1) { 10 } else { 100 };
        let steps = (after + Duration::from_millis(step / 2)).as_millis() / u128::from(step);
        let after = Duration::from_millis(step.saturating_mul(u64::try_from(steps).unwrap_or(u64::MAX)));
        ServerError::Timeout { server: self.name().to_owned(), method: method.to_owned(), after, detail }
    }

    pub(crate) async fn request_error(&self, error: RequestError, clock: Clock<'_>) -> ServerError {
        match error {
            RequestError::Cancelled { .. } => ServerError::Cancelled,
            RequestError::Deadline { method, .. } => self.timeout(&method, clock.total),
            RequestError::Closed { method, .. } => self.crashed(&method).await,
            RequestError::Encode { method, reason } => self.protocol(&method, reason),
            RequestError::Rpc { method, error }
                if self.core.definition.restart_errors.iter().any(|it| error.message.contains(it)) =>
            {
                self.give_up("it answers no such request any more");
                let (server, stderr_tail) = (self.name().to_owned(), error.message.clone());
                ServerError::Crashed { server, during: method, stderr_tail }
            }
            RequestError::Rpc { method, error } => {
                // The server refuses what it did not load.
                if let Some(why) = self.core.loading.failure()
                    && error.code != codes::METHOD_NOT_FOUND
                {
                    return self.refused(Refusal::ProjectNotLoaded(why));
                }
                let code = match error.code {
                    codes::METHOD_NOT_FOUND => ErrorCode::Unsupported,
                    codes::CONTENT_MODIFIED => ErrorCode::StaleText,
                    _ => ErrorCode::NotApplied,
                };
                self.refused(Refusal::Response { method, message: error.message, code })
            }
        }
    }
}
