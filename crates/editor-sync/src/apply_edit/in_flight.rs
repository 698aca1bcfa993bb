//! Text edits in flight.
//!
//! The port maps them to the current text, sends them in one request, and follows them through the
//! change notifications until each is applied, not applied, or misplaced and reverted.

use std::sync::Arc;
use std::time::Duration;

use paths::AbsPath;
use process::deadlines;
use serde_json::{Value, json};
use text::TextEdit;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use wire::{InFlight, RequestError};
use workspace::{ApplyOutcome, ContentHash, RunId};

use super::{AppliedEdit, EditorPort, LATE_REPLY, REVERT_LABEL, not_sent, stopped};
use crate::buffers::{BOM, ChangesSince, OpenBuffer, Revision, Step, without_bom};
use crate::edit_reconciliation::{EditOutcome, EditReconciler, ReplyKind};
use crate::rebase::{self, PositionedEdit};

/// Maximum wait for a document of version 0 to stop changing before an edit.
const MAX_QUIET: Duration = Duration::from_secs(5);

/// Edits to apply to one document.
pub(super) struct RequestedEdits {
    pub(super) path: AbsPath,
    pub(super) edits: Vec<TextEdit>,
    pub(super) base_text: BaseText,
}

pub(super) enum BaseText {
    /// The planned text, without a byte order mark.
    Text(Arc<str>),
    /// The editor's exact text at this revision.
    Revision(Revision, Arc<str>),
}

/// The edits of one document in a request.
pub(super) struct InFlightEdit {
    pub(super) path: AbsPath,
    pub(super) base: OpenBuffer,
    pub(super) positioned: Vec<PositionedEdit>,
    pub(super) reconciler: EditReconciler,
    pub(super) revision: Revision,
    pub(super) outcome: Option<EditOutcome>,
    /// Hash of the text that the edits of a commit were planned on.
    pub(super) planned_on: Option<ContentHash>,
}

/// The editor's reply to `workspace/applyEdit`.
pub(super) struct Reply {
    pub(super) kind: ReplyKind,
    pub(super) reason: Option<String>,
}

impl EditorPort {
    /// The current document and the edits mapped to it; `None` when it is not open.
    pub(super) fn rebase_onto_current(
        &self,
        requested: &RequestedEdits,
    ) -> Result<Option<(OpenBuffer, Vec<TextEdit>)>, rebase::Conflict> {
        let conflict = rebase::Conflict { edit: 0 };
        let (steps, open, old, strict) = match &requested.base_text {
            BaseText::Revision(revision, text) => {
                let Some((steps, open)) = self.documents.steps_since_revision(revision) else {
                    return Err(conflict);
                };
                (steps, open, text, false)
            }
            BaseText::Text(text) => {
                let Some(open) = self.documents.by_path(&requested.path) else { return Ok(None) };
                if without_bom(&open.text) == &**text {
                    (Vec::new(), open, text, true)
                } else {
                    let hash = ContentHash::of(text.as_bytes());
                    let Some((steps, open)) = self.documents.steps_from_text(&requested.path, hash) else {
                        return Err(conflict);
                    };
                    (steps, open, text, true)
                }
            }
        };
        // The byte order mark is part of the editor's text, not of the document's.
        let bom = match requested.base_text {
            BaseText::Text(_) if open.text.starts_with(BOM) => BOM.len(),
            _ => 0,
        };
        let shifted: Vec<TextEdit>;
        let (old, edits) = if bom == 0 {
            (old.to_string(), &requested.edits)
        } else {
            let shift = |edit: &TextEdit| {
                TextEdit::replace(edit.range.start + bom..edit.range.end + bom, &edit.new_text)
            };
            shifted = requested.edits.iter().map(shift).collect();
            (format!("{BOM}{old}"), &shifted)
        };
        let edits = rebase::rebase(&old, edits, &steps, strict)?;
        Ok(Some((open, edits)))
    }

    /// Prepares the edits for sending, or returns the outcome that prevents it.
    fn prepare(&self, requested: &RequestedEdits) -> Result<InFlightEdit, ApplyOutcome> {
        let Ok(Some((open, edits))) = self.rebase_onto_current(requested) else {
            return Err(ApplyOutcome::Stale);
        };
        let positioned = rebase::position_edits(&open.text, &open.lines, self.documents.encoding(), &edits)
            .map_err(|invalid| ApplyOutcome::NotApplied { reason: Some(invalid.to_string()) })?;
        let reconciler =
            EditReconciler::new(&open.text, open.lines.ends(), self.documents.encoding(), positioned.clone());
        let revision = open.revision();
        let path = requested.path.clone();
        let planned_on = match &requested.base_text {
            BaseText::Text(text) => Some(ContentHash::of(text.as_bytes())),
            BaseText::Revision(..) => None,
        };
        Ok(InFlightEdit { planned_on, path, base: open, positioned, reconciler, revision, outcome: None })
    }

    /// Applies edits to open documents; returns one proven outcome for each, in order.
    pub(super) async fn apply_edits(
        &self,
        run: &RunId,
        requested: &[RequestedEdits],
        stop: &CancellationToken,
    ) -> Vec<ApplyOutcome> {
        let mut outcomes: Vec<ApplyOutcome> = Vec::with_capacity(requested.len());
        if self.client.editor.one_request {
            return self.apply_in_one_request(Some(run), requested, stop).await;
        }
        for document in requested {
            if outcomes.iter().any(|outcome| *outcome != ApplyOutcome::Applied) {
                outcomes.push(not_sent());
            } else {
                outcomes
                    .extend(self.apply_in_one_request(Some(run), std::slice::from_ref(document), stop).await);
            }
        }
        outcomes
    }

    /// Applies edits in one request, and sends those not applied once more.
    ///
    /// Without a run, the edits are a revert.
    pub(super) async fn apply_in_one_request(
        &self,
        run: Option<&RunId>,
        requested: &[RequestedEdits],
        stop: &CancellationToken,
    ) -> Vec<ApplyOutcome> {
        let label = if run.is_some() { "pilcrow" } else { REVERT_LABEL };
        let mut outcomes: Vec<Option<ApplyOutcome>> = vec![None; requested.len()];
        for attempt in 0..2 {
            let pending: Vec<usize> =
                (0..requested.len()).filter(|index| outcomes[*index].is_none()).collect();
            if pending.is_empty() {
                break;
            }
            for index in &pending {
                self.wait_for_quiet(&requested[*index].path, stop).await;
            }
            let mut flights = Vec::new();
            for index in &pending {
                match self.prepare(&requested[*index]) {
                    Ok(flight) => flights.push(flight),
                    Err(reason) => outcomes[*index] = Some(reason),
                }
            }
            if flights.len() < pending.len() || stop.is_cancelled() {
                let why = || if stop.is_cancelled() { stopped() } else { not_sent() };
                return outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(why)).collect();
            }
            let (reply, request) = self.send_and_follow(label, &mut flights, stop).await;
            let mut unresolved = Vec::new();
            for (index, flight) in pending.into_iter().zip(flights) {
                let may_retry = attempt == 0 && !stop.is_cancelled();
                if run.is_some() && flight.may_be_late(reply.kind) {
                    outcomes[index] = Some(ApplyOutcome::Unknown);
                    unresolved.push(flight);
                } else {
                    outcomes[index] = self.conclude(flight, &reply, may_retry, stop).await;
                }
            }
            if let (Some(run), Some(request), false) = (run, request, unresolved.is_empty()) {
                self.watch_late(run, unresolved, request);
            }
        }
        outcomes.into_iter().map(|outcome| outcome.unwrap_or(ApplyOutcome::Unknown)).collect()
    }

    /// The outcome of an edit; `None` if it has to be sent again.
    async fn conclude(
        &self,
        flight: InFlightEdit,
        reply: &Reply,
        may_retry: bool,
        stop: &CancellationToken,
    ) -> Option<ApplyOutcome> {
        let outcome = flight.outcome.clone().unwrap_or_else(|| flight.reconciler.decide(reply.kind));
        Some(match outcome {
            EditOutcome::Applied { inverse } => {
                let text = Arc::from(flight.reconciler.text());
                let applied = AppliedEdit { at: Instant::now(), revision: flight.revision, text, inverse };
                if let Some(hash) = flight.planned_on {
                    self.applied.lock().insert((flight.path, hash), applied);
                }
                ApplyOutcome::Applied
            }
            EditOutcome::NotApplied if may_retry => return None,
            EditOutcome::NotApplied => ApplyOutcome::NotApplied { reason: Some(not_applied_reason(reply)) },
            EditOutcome::Conflict => ApplyOutcome::Stale,
            EditOutcome::Unknown => ApplyOutcome::Unknown,
            EditOutcome::Misplaced { detail, inverse } => {
                let reverted = match inverse {
                    Some(inverse) => self.revert_misplaced(&flight, inverse, stop).await,
                    None => Err("the user changed it since".to_owned()),
                };
                match reverted {
                    Ok(()) => ApplyOutcome::Misplaced { detail, reverted: true },
                    Err(reason) => {
                        ApplyOutcome::Misplaced { detail: format!("{detail}; {reason}"), reverted: false }
                    }
                }
            }
        })
    }

    /// Reverts a misplaced edit, in at most two requests.
    pub(super) async fn revert_misplaced(
        &self,
        flight: &InFlightEdit,
        inverse: Vec<TextEdit>,
        stop: &CancellationToken,
    ) -> Result<(), String> {
        let text = Arc::from(flight.reconciler.text());
        let base_text = BaseText::Revision(flight.revision.clone(), text);
        let requested = RequestedEdits { path: flight.path.clone(), edits: inverse, base_text };
        let mut reply = Reply { kind: ReplyKind::None, reason: None };
        for _ in 0..2 {
            let Ok(revert) = self.prepare(&requested) else {
                return Err("the user changed it since".to_owned());
            };
            let mut flights = [revert];
            (reply, _) = self.send_and_follow("pilcrow: revert a misplaced edit", &mut flights, stop).await;
            let [revert] = flights;
            match revert.outcome.unwrap_or_else(|| revert.reconciler.decide(reply.kind)) {
                EditOutcome::Applied { .. } => return Ok(()),
                EditOutcome::NotApplied => {}
                _ => return Err("the editor did not apply the revert either".to_owned()),
            }
        }
        Err(format!("the editor did not apply the revert either: {}", not_applied_reason(&reply)))
    }

    /// Sends one request for all edits and follows the changes.
    ///
    /// Ends when each edit has an outcome or time is up.
    ///
    /// Returns the request too if it has no reply yet.
    async fn send_and_follow(
        &self,
        label: &str,
        flights: &mut [InFlightEdit],
        stop: &CancellationToken,
    ) -> (Reply, Option<InFlight>) {
        let _history = self.documents.keep_history();
        let mut changes = self.documents.changes();
        let edits: Vec<Value> = flights.iter().map(InFlightEdit::to_json).collect();
        let params = self.request(label, &edits);
        let mut reply = Reply { kind: ReplyKind::None, reason: None };
        let editor = &self.client.editor;
        let sent = match timeout(editor.reply(), self.peer.room()).await {
            Ok(Ok(room)) => room.request("workspace/applyEdit", &params),
            Ok(Err(closed)) => Err(RequestError::Closed { method: "workspace/applyEdit".to_owned(), closed }),
            Err(_) => return (reply, None),
        };
        // Dropping it without a reply sends a cancellation.
        let mut request = match sent {
            Ok(request) => request,
            Err(error) => return (Reply::read(Err(error)), None),
        };
        let (mut replied, mut stopping) = (false, false);
        let mut ends = Instant::now() + editor.reply();
        loop {
            changes.borrow_and_update();
            for flight in flights.iter_mut() {
                self.observe_changes(flight, reply.kind);
            }
            let all_decided = flights.iter().all(|flight| flight.outcome.is_some());
            if all_decided && replied {
                break;
            }
            if all_decided {
                ends = ends.min(Instant::now() + LATE_REPLY);
            }
            tokio::select! {
                // This branch is cancel safe, like the others.
                result = request.answered(), if !replied => {
                    replied = true;
                    reply = Reply::read(result);
                    if reply.kind == ReplyKind::None {
                        break;
                    }
                    let wait = editor.after_reply(reply.kind == ReplyKind::Applied);
                    ends = ends.min(Instant::now() + wait);
                    if !stopping {
                        ends = Instant::now() + wait;
                    }
                }
                // This branch is cancel safe: `observe_changes` finds the notified changes.
                result = changes.changed() => if result.is_err() { break },
                () = sleep_until(ends) => break,
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    ends = ends.min(Instant::now() + deadlines::EDIT_IN_FLIGHT);
                }
            }
        }
        for flight in flights.iter_mut() {
            self.observe_changes(flight, reply.kind);
        }
        if !replied {
            tracing::warn!("no reply to an edit");
        }
        (reply, (!replied).then_some(request))
    }

    pub(super) fn request(&self, label: &str, edits: &[Value]) -> Value {
        let mut params = json!({ "edit": { "documentChanges": edits } });
        if self.client.editor.labels {
            params["label"] = json!(label);
        }
        params
    }

    /// Passes new changes of the document to the reconciler.
    pub(super) fn observe_changes(&self, flight: &mut InFlightEdit, reply: ReplyKind) {
        if flight.outcome.is_some() {
            return;
        }
        match self.documents.since(&flight.revision) {
            ChangesSince::Steps(steps) => {
                for step in steps {
                    flight.reconciler.observe(&step);
                    flight.revision.sequence += 1;
                    flight.outcome = flight.reconciler.final_outcome(reply);
                    if flight.outcome.is_some() {
                        return;
                    }
                }
                flight.outcome = flight.reconciler.final_outcome(reply);
            }
            ChangesSince::Reopened(open) => {
                let edits = text::diff_edits(flight.reconciler.text(), &open.text);
                flight.reconciler.observe(&Step { edits, whole: true });
                flight.revision = open.revision();
                flight.outcome = flight.reconciler.final_outcome(reply);
            }
            // The disk is the truth for a closed document.
            ChangesSince::Closed => flight.outcome = Some(EditOutcome::Conflict),
            ChangesSince::Forgotten => flight.outcome = Some(EditOutcome::Unknown),
        }
    }

    /// Waits for a pause in typing in a document whose version the editor cannot check.
    async fn wait_for_quiet(&self, path: &AbsPath, stop: &CancellationToken) {
        let quiet = self.client.editor.quiet();
        let ends = Instant::now() + MAX_QUIET;
        let mut changes = self.documents.changes();
        let mut last = None;
        let mut since = Instant::now();
        while !quiet.is_zero() && Instant::now() < ends {
            changes.borrow_and_update();
            let Some(open) = self.documents.by_path(path).filter(|open| open.version == 0) else { return };
            if last.replace(open.sequence) != Some(open.sequence) {
                since = Instant::now();
            }
            tokio::select! {
                () = sleep_until(since + quiet) => return,
                () = stop.cancelled() => return,
                result = changes.changed() => if result.is_err() { return },
            }
        }
    }
}

impl InFlightEdit {
    fn to_json(&self) -> Value {
        let position = |at: text::Position| json!({ "line": at.line, "character": at.character });
        let edit = |positioned: &PositionedEdit| {
            json!({
                "range": { "start": position(positioned.start), "end": position(positioned.end) },
                "newText": positioned.edit.new_text,
            })
        };
        json!({
            "textDocument": { "uri": self.base.uri, "version": self.base.version },
            "edits": self.positioned.iter().map(edit).collect::<Vec<_>>(),
        })
    }
}

impl Reply {
    pub(super) fn read(result: Result<Box<serde_json::value::RawValue>, RequestError>) -> Self {
        match result {
            Ok(raw) => {
                let value: Value = serde_json::from_str(raw.get()).unwrap_or_default();
                let reason = value["failureReason"].as_str().map(str::to_owned);
                let applied = value["applied"].as_bool() == Some(true);
                Self { kind: if applied { ReplyKind::Applied } else { ReplyKind::Refused }, reason }
            }
            Err(RequestError::Rpc { error, .. }) => {
                Self { kind: ReplyKind::Refused, reason: Some(error.message) }
            }
            Err(RequestError::Encode { reason, .. }) => {
                Self { kind: ReplyKind::Refused, reason: Some(reason) }
            }
            Err(error) => {
                tracing::warn!(%error, "no reply to an edit");
                Self { kind: ReplyKind::None, reason: None }
            }
        }
    }
}

pub(super) fn not_applied_reason(reply: &Reply) -> String {
    match (reply.kind, &reply.reason) {
        (_, Some(reason)) => reason.clone(),
        (ReplyKind::Applied, None) => {
            "the editor reported the edit as applied, but did not apply it".to_owned()
        }
        _ => "the editor refused it without a reason".to_owned(),
    }
}
