//! Edits of texts on their way: made for the text as it is now, sent in one request, and followed by the change
//! notifications until each has landed, is absent, or went elsewhere and is taken back.

use std::sync::Arc;
use std::time::Duration;

use paths::AbsPath;
use serde_json::{Value, json};
use text::TextEdit;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use wire::{InFlight, RequestError};
use workspace::{ContentHash, RunId, Settled};

use super::{BACK, EditorPort, HASTE, LATE_ANSWER, Landed, not_sent, stopped};
use crate::buffers::{BOM, Moment, Open, Since, Step, without_bom};
use crate::edit_reconciliation::{Answer, Settling, Verdict};
use crate::rebase::{self, Placed};

/// How long a document of version 0 may go on changing before an edit is sent all the same.
const MAX_QUIET: Duration = Duration::from_secs(5);

/// Edits that are to be made in one document.
pub(super) struct Wanted {
    pub(super) path: AbsPath,
    pub(super) edits: Vec<TextEdit>,
    pub(super) made_for: MadeFor,
}

pub(super) enum MadeFor {
    /// This text, without a byte order mark.
    Text(Arc<str>),
    /// The text at this moment, exactly as the editor has it.
    Moment(Moment, Arc<str>),
}

/// One document's part of a request.
pub(super) struct Flight {
    pub(super) path: AbsPath,
    pub(super) base: Open,
    pub(super) placed: Vec<Placed>,
    pub(super) settling: Settling,
    pub(super) moment: Moment,
    pub(super) verdict: Option<Verdict>,
    /// Hash of the text that a commit's edits were made for.
    pub(super) planned_on: Option<ContentHash>,
}

/// How a request was answered.
pub(super) struct Reply {
    pub(super) answer: Answer,
    pub(super) reason: Option<String>,
}

impl EditorPort {
    /// The document as it is, and the edits in it; `None` when it is not open. An error when they
    /// have no place there.
    pub(super) fn now(&self, wanted: &Wanted) -> Result<Option<(Open, Vec<TextEdit>)>, rebase::Conflict> {
        let conflict = rebase::Conflict { edit: 0 };
        let (steps, open, old, strict) = match &wanted.made_for {
            MadeFor::Moment(moment, text) => {
                let Some((steps, open)) = self.documents.way_since(moment) else { return Err(conflict) };
                (steps, open, text, false)
            }
            MadeFor::Text(text) => {
                let Some(open) = self.documents.at(&wanted.path) else { return Ok(None) };
                if without_bom(&open.text) == &**text {
                    (Vec::new(), open, text, true)
                } else {
                    let hash = ContentHash::of(text.as_bytes());
                    let Some((steps, open)) = self.documents.way_from(&wanted.path, hash) else {
                        return Err(conflict);
                    };
                    (steps, open, text, true)
                }
            }
        };
        // The mark is part of the editor's text and not of the document's.
        let shift = match wanted.made_for {
            MadeFor::Text(_) if open.text.starts_with(BOM) => BOM.len(),
            _ => 0,
        };
        let shifted: Vec<TextEdit>;
        let (old, edits) = if shift == 0 {
            (old.to_string(), &wanted.edits)
        } else {
            let by = |edit: &TextEdit| {
                TextEdit::replace(edit.range.start + shift..edit.range.end + shift, &edit.new_text)
            };
            shifted = wanted.edits.iter().map(by).collect();
            (format!("{BOM}{old}"), &shifted)
        };
        let edits = rebase::rebase(&old, edits, &steps, strict)?;
        Ok(Some((open, edits)))
    }

    /// Ready to be sent, or what keeps it from that.
    fn prepare(&self, wanted: &Wanted) -> Result<Flight, Settled> {
        let Ok(Some((open, edits))) = self.now(wanted) else { return Err(Settled::Moved) };
        let placed = rebase::place(&open.text, &open.lines, self.documents.encoding(), &edits)
            .map_err(|invalid| Settled::Absent { reason: Some(invalid.to_string()) })?;
        let settling =
            Settling::new(&open.text, open.lines.ends(), self.documents.encoding(), placed.clone());
        let moment = open.moment();
        let path = wanted.path.clone();
        let planned_on = match &wanted.made_for {
            MadeFor::Text(text) => Some(ContentHash::of(text.as_bytes())),
            MadeFor::Moment(..) => None,
        };
        Ok(Flight { planned_on, path, base: open, placed, settling, moment, verdict: None })
    }

    /// Makes edits in open documents and proves it. In the order of `wanted`.
    pub(super) async fn make(
        &self,
        run: &RunId,
        wanted: &[Wanted],
        haste: &CancellationToken,
    ) -> Vec<Settled> {
        let mut settled: Vec<Settled> = Vec::with_capacity(wanted.len());
        if self.client.editor.one_request {
            return self.make_together(Some(run), wanted, haste).await;
        }
        for one in wanted {
            if settled.iter().any(|settled| *settled != Settled::Landed) {
                settled.push(not_sent());
            } else {
                settled.extend(self.make_together(Some(run), std::slice::from_ref(one), haste).await);
            }
        }
        settled
    }

    /// In one request, and what is absent in another. Without a run something is taken back.
    pub(super) async fn make_together(
        &self,
        run: Option<&RunId>,
        wanted: &[Wanted],
        haste: &CancellationToken,
    ) -> Vec<Settled> {
        let label = if run.is_some() { "pilcrow" } else { BACK };
        let mut settled: Vec<Option<Settled>> = vec![None; wanted.len()];
        for attempt in 0..2 {
            let open: Vec<usize> = (0..wanted.len()).filter(|index| settled[*index].is_none()).collect();
            if open.is_empty() {
                break;
            }
            for index in &open {
                self.quiet(&wanted[*index].path, haste).await;
            }
            let mut flights = Vec::new();
            for index in &open {
                match self.prepare(&wanted[*index]) {
                    Ok(flight) => flights.push(flight),
                    Err(reason) => settled[*index] = Some(reason),
                }
            }
            if flights.len() < open.len() || haste.is_cancelled() {
                let why = || if haste.is_cancelled() { stopped() } else { not_sent() };
                return settled.into_iter().map(|settled| settled.unwrap_or_else(why)).collect();
            }
            let (reply, request) = self.fly(label, &mut flights, haste).await;
            let mut open_ended = Vec::new();
            for (index, flight) in open.into_iter().zip(flights) {
                let again = attempt == 0 && !haste.is_cancelled();
                if run.is_some() && flight.is_open_ended(reply.answer) {
                    settled[index] = Some(Settled::Unknown);
                    open_ended.push(flight);
                } else {
                    settled[index] = self.conclude(flight, &reply, again, haste).await;
                }
            }
            if let (Some(run), Some(request), false) = (run, request, open_ended.is_empty()) {
                self.look_out(run, open_ended, request);
            }
        }
        settled.into_iter().map(|settled| settled.unwrap_or(Settled::Unknown)).collect()
    }

    /// What a flight came to; `None` when it is to be made again.
    async fn conclude(
        &self,
        flight: Flight,
        reply: &Reply,
        again: bool,
        haste: &CancellationToken,
    ) -> Option<Settled> {
        let verdict = flight.verdict.clone().unwrap_or_else(|| flight.settling.decide(reply.answer));
        Some(match verdict {
            Verdict::Landed { inverse } => {
                let text = Arc::from(flight.settling.text());
                let landed = Landed { at: Instant::now(), moment: flight.moment, text, inverse };
                if let Some(hash) = flight.planned_on {
                    self.landed.lock().insert((flight.path, hash), landed);
                }
                Settled::Landed
            }
            Verdict::Absent if again => return None,
            Verdict::Absent => Settled::Absent { reason: Some(absence(reply)) },
            Verdict::Conflict => Settled::Moved,
            Verdict::Unknown => Settled::Unknown,
            Verdict::Elsewhere { detail, inverse } => {
                let back = match inverse {
                    Some(inverse) => self.take_back(&flight, inverse, haste).await,
                    None => Err("it was changed there meanwhile".to_owned()),
                };
                match back {
                    Ok(()) => Settled::Elsewhere { detail, reverted: true },
                    Err(why) => Settled::Elsewhere { detail: format!("{detail}; {why}"), reverted: false },
                }
            }
        })
    }

    /// Undoes a misplaced edit at once.
    pub(super) async fn take_back(
        &self,
        flight: &Flight,
        inverse: Vec<TextEdit>,
        haste: &CancellationToken,
    ) -> Result<(), String> {
        let text = Arc::from(flight.settling.text());
        let made_for = MadeFor::Moment(flight.moment.clone(), text);
        let wanted = Wanted { path: flight.path.clone(), edits: inverse, made_for };
        let mut reply = Reply { answer: Answer::None, reason: None };
        for _ in 0..2 {
            let Ok(back) = self.prepare(&wanted) else {
                return Err("it was changed there meanwhile".to_owned());
            };
            let mut flights = [back];
            (reply, _) =
                self.fly("taking back an edit that went to a wrong place", &mut flights, haste).await;
            let [back] = flights;
            match back.verdict.unwrap_or_else(|| back.settling.decide(reply.answer)) {
                Verdict::Landed { .. } => return Ok(()),
                Verdict::Absent => {}
                _ => return Err("the way back did not land either".to_owned()),
            }
        }
        Err(format!("the way back did not land either: {}", absence(&reply)))
    }

    /// Sends one request for all flights and follows the changes until each is decided or time is up.
    /// With the request, if it has no answer yet.
    async fn fly(
        &self,
        label: &str,
        flights: &mut [Flight],
        haste: &CancellationToken,
    ) -> (Reply, Option<InFlight>) {
        let _following = self.documents.follow();
        let mut changes = self.documents.changes();
        let edits: Vec<Value> = flights.iter().map(Flight::to_json).collect();
        let params = self.request(label, &edits);
        let mut reply = Reply { answer: Answer::None, reason: None };
        let editor = &self.client.editor;
        let sent = match timeout(editor.reply(), self.peer.room()).await {
            Ok(Ok(room)) => room.request("workspace/applyEdit", &params),
            Ok(Err(closed)) => Err(RequestError::Closed { method: "workspace/applyEdit".to_owned(), closed }),
            Err(_) => return (reply, None),
        };
        // Dropped unanswered, it tells the editor that nobody waits any more.
        let mut request = match sent {
            Ok(request) => request,
            Err(error) => return (Reply::read(Err(error)), None),
        };
        let (mut replied, mut hastened) = (false, false);
        let mut ends = Instant::now() + editor.reply();
        loop {
            changes.borrow_and_update();
            for flight in flights.iter_mut() {
                self.pull(flight, reply.answer);
            }
            let all = flights.iter().all(|flight| flight.verdict.is_some());
            if all && replied {
                break;
            }
            if all {
                ends = ends.min(Instant::now() + LATE_ANSWER);
            }
            tokio::select! {
                // Nothing is lost when this is dropped, nor with the others.
                result = request.answered(), if !replied => {
                    replied = true;
                    reply = Reply::read(result);
                    if reply.answer == Answer::None {
                        break;
                    }
                    let wait = editor.after_reply(reply.answer == Answer::Applied);
                    ends = ends.min(Instant::now() + wait);
                    if !hastened {
                        ends = Instant::now() + wait;
                    }
                }
                // Nothing is lost when this is dropped: what was told is found by `pull`.
                result = changes.changed() => if result.is_err() { break },
                () = sleep_until(ends) => break,
                () = haste.cancelled(), if !hastened => {
                    hastened = true;
                    ends = ends.min(Instant::now() + HASTE);
                }
            }
        }
        for flight in flights.iter_mut() {
            self.pull(flight, reply.answer);
        }
        if !replied {
            tracing::warn!("an edit was not answered");
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

    /// Folds what came since.
    pub(super) fn pull(&self, flight: &mut Flight, answer: Answer) {
        if flight.verdict.is_some() {
            return;
        }
        match self.documents.since(&flight.moment) {
            Since::Steps(steps) => {
                for step in steps {
                    flight.settling.fold(&step);
                    flight.moment.sequence += 1;
                    flight.verdict = flight.settling.known(answer);
                    if flight.verdict.is_some() {
                        return;
                    }
                }
                flight.verdict = flight.settling.known(answer);
            }
            Since::Reopened(open) => {
                let edits = text::diff_edits(flight.settling.text(), &open.text);
                flight.settling.fold(&Step { edits, whole: true });
                flight.moment = open.moment();
                flight.verdict = flight.settling.known(answer);
            }
            // Whatever became of it, the disk is the truth now.
            Since::Closed => flight.verdict = Some(Verdict::Conflict),
            Since::Forgotten => flight.verdict = Some(Verdict::Unknown),
        }
    }

    /// Waits until nobody types in a document whose version the editor cannot check.
    async fn quiet(&self, path: &AbsPath, haste: &CancellationToken) {
        let quiet = self.client.editor.quiet();
        let ends = Instant::now() + MAX_QUIET;
        let mut changes = self.documents.changes();
        let mut last = None;
        let mut since = Instant::now();
        while !quiet.is_zero() && Instant::now() < ends {
            changes.borrow_and_update();
            let Some(open) = self.documents.at(path).filter(|open| open.version == 0) else { return };
            if last.replace(open.sequence) != Some(open.sequence) {
                since = Instant::now();
            }
            tokio::select! {
                () = sleep_until(since + quiet) => return,
                () = haste.cancelled() => return,
                result = changes.changed() => if result.is_err() { return },
            }
        }
    }
}

impl Flight {
    fn to_json(&self) -> Value {
        let position = |it: text::Position| json!({ "line": it.line, "character": it.character });
        let edit = |placed: &Placed| {
            json!({
                "range": { "start": position(placed.start), "end": position(placed.end) },
                "newText": placed.edit.new_text,
            })
        };
        json!({
            "textDocument": { "uri": self.base.uri, "version": self.base.version },
            "edits": self.placed.iter().map(edit).collect::<Vec<_>>(),
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
                Self { answer: if applied { Answer::Applied } else { Answer::Refused }, reason }
            }
            Err(RequestError::Rpc { error, .. }) => {
                Self { answer: Answer::Refused, reason: Some(error.message) }
            }
            Err(RequestError::Encode { reason, .. }) => {
                Self { answer: Answer::Refused, reason: Some(reason) }
            }
            Err(error) => {
                tracing::warn!(%error, "an edit was not answered");
                Self { answer: Answer::None, reason: None }
            }
        }
    }
}

pub(super) fn absence(reply: &Reply) -> String {
    match (reply.answer, &reply.reason) {
        (_, Some(reason)) => reason.clone(),
        (Answer::Applied, None) => "the editor said that it applied the edit, but did not".to_owned(),
        _ => "the editor refused it and gave no reason".to_owned(),
    }
}
