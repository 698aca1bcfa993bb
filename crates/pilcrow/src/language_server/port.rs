//! The editor port: makes a commit's changes in open documents, and believes nothing but the change
//! notifications that follow.
//!
//! What must stay true: one edit is in flight per connection; while it is, its documents are held;
//! every edit ends as landed, elsewhere, absent, moved or unknown; what landed elsewhere is taken
//! back at once; only what is absent is sent again, once, made for the text as it is then; what
//! nobody knows the end of is looked out for (`late`).

mod late;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use text::{ChangeLog, TextEdit};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::{InFlight, RequestError};
use workspace::{AbsPath, ChangeKind, ContentHash, Document, Editor, FileChange, RunId, Settled};

use super::documents::{BOM, Moment, Open, OpenDocuments, Since, Step, without_bom};
use super::editors::ClientFacts;
use super::rebase::{self, Placed};
use super::settle::{Answer, Settling, Verdict};
pub use late::Late;
use late::Outlook;

/// How long a read of a held document waits.
const HOLD: Duration = Duration::from_secs(15);
/// How long an edit in flight gets after Stop.
const HASTE: Duration = Duration::from_secs(1);
/// How long the answer of an edit that is seen to have landed is waited for.
const LATE_ANSWER: Duration = Duration::from_secs(1);
/// How long a document of version 0 may go on changing before an edit is sent all the same.
const MAX_QUIET: Duration = Duration::from_secs(5);
/// Stopped runs that are remembered.
const MAX_STOPPED: usize = 64;
/// How often the disk is looked at for a file operation.
const LOOK: Duration = Duration::from_millis(50);

/// At most so many bytes are gone through to tell changes in whole lines.
const MAX_ALIGNED: usize = 64 << 20;

/// The way into one connected editor.
pub struct EditorPort {
    peer: wire::Peer,
    documents: Arc<OpenDocuments>,
    client: ClientFacts,
    /// One edit in flight.
    turn: tokio::sync::Mutex<()>,
    held: Mutex<HashSet<AbsPath>>,
    released: Condvar,
    haste: Mutex<Haste>,
    /// By path and the text that the edits were planned on.
    landed: Mutex<HashMap<(AbsPath, ContentHash), Landed>>,
    outlook: Outlook,
    tracker: TaskTracker,
    this: Weak<Self>,
}

/// Who was told to hurry.
#[derive(Default)]
struct Haste {
    /// Runs with something to be made in the editor, with how many such things.
    going: HashMap<RunId, (CancellationToken, usize)>,
    /// Runs that were stopped, newest last: what comes of them later is not sent.
    stopped: VecDeque<RunId>,
    /// The server ends.
    all: bool,
}

/// An edit that was seen to land.
struct Landed {
    at: Instant,
    moment: Moment,
    text: Arc<str>,
    inverse: Vec<TextEdit>,
}

/// Edits that are to be made in one document.
struct Wanted {
    path: AbsPath,
    edits: Vec<TextEdit>,
    made_for: MadeFor,
}

enum MadeFor {
    /// This text, without a byte order mark.
    Text(Arc<str>),
    /// The text at this moment, exactly as the editor has it.
    Moment(Moment, Arc<str>),
}

/// One document's part of a request.
struct Flight {
    path: AbsPath,
    base: Open,
    placed: Vec<Placed>,
    settling: Settling,
    moment: Moment,
    verdict: Option<Verdict>,
    /// Hash of the text that a commit's edits were made for.
    planned_on: Option<ContentHash>,
}

/// How a request was answered.
struct Reply {
    answer: Answer,
    reason: Option<String>,
}

impl EditorPort {
    /// The editor at the other end of `peer`, whose documents are `documents`.
    /// What goes on by itself is a task of `tracker`.
    pub fn new(
        peer: wire::Peer,
        documents: Arc<OpenDocuments>,
        client: ClientFacts,
        tracker: &TaskTracker,
    ) -> Arc<Self> {
        let ClientFacts { name, version, document_changes, editor, .. } = &client;
        let version = version.as_deref().unwrap_or_default();
        // Neovim takes versioned edits and does not say so, hence this is only noted.
        tracing::info!(name, version, document_changes, spoken_to_as = editor.name, "{}", editor.about);
        Arc::new_cyclic(|this| Self {
            peer,
            documents,
            client,
            turn: tokio::sync::Mutex::default(),
            held: Mutex::default(),
            released: Condvar::new(),
            haste: Mutex::default(),
            landed: Mutex::default(),
            outlook: Outlook::default(),
            tracker: tracker.clone(),
            this: Weak::clone(this),
        })
    }

    /// Stop was asked for: what this run has not yet sent is not sent, and what it has in flight is
    /// settled within a second by what is known then. Other runs feel nothing of it.
    pub fn hasten(&self, run: &RunId) {
        let mut haste = lock(&self.haste);
        if let Some((token, _)) = haste.going.get(run) {
            token.cancel();
        }
        haste.stopped.push_back(run.clone());
        if haste.stopped.len() > MAX_STOPPED {
            haste.stopped.pop_front();
        }
    }

    /// The same for every run, for the end of the server.
    pub fn hasten_all(&self) {
        let mut haste = lock(&self.haste);
        haste.all = true;
        haste.going.values().for_each(|(token, _)| token.cancel());
    }

    /// The document as it is, and the edits in it; `None` when it is not open. An error when they
    /// have no place there.
    fn now(&self, wanted: &Wanted) -> Result<Option<(Open, Vec<TextEdit>)>, rebase::Conflict> {
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
    async fn make(&self, run: &RunId, wanted: &[Wanted], haste: &CancellationToken) -> Vec<Settled> {
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
    async fn make_together(
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
                    lock(&self.landed).insert((flight.path, hash), landed);
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
    async fn take_back(
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

    fn request(&self, label: &str, edits: &[Value]) -> Value {
        let mut params = json!({ "edit": { "documentChanges": edits } });
        if self.client.editor.labels {
            params["label"] = json!(label);
        }
        params
    }

    /// Folds what came since.
    fn pull(&self, flight: &mut Flight, answer: Answer) {
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

    /// File operations go one by one, after the text edits.
    async fn operate(&self, label: &str, operation: &Operation<'_>, haste: &CancellationToken) -> Settled {
        let (kind, edit) = operation.to_json(&self.documents);
        if !self.client.resource_operations.iter().any(|known| known == kind) {
            let reason = format!("this editor cannot {kind} files; close the file there first");
            return Settled::Absent { reason: Some(reason) };
        }
        if haste.is_cancelled() {
            return stopped();
        }
        let params = self.request(label, &[edit]);
        let never = CancellationToken::new();
        let editor = &self.client.editor;
        let result = self.peer.request("workspace/applyEdit", &params, editor.reply(), &never).await;
        let reply = Reply::read(result);
        let mut ends = Instant::now() + editor.after_reply(reply.answer == Answer::Applied);
        if haste.is_cancelled() {
            ends = ends.min(Instant::now() + HASTE);
        }
        let mut changes = self.documents.changes();
        loop {
            changes.borrow_and_update();
            if operation.is_done(&self.documents) {
                return Settled::Landed;
            }
            tokio::select! {
                result = changes.changed() => if result.is_err() { break },
                // A file that nobody has open any more comes and goes without a notification.
                () = sleep(LOOK) => {}
            }
            if Instant::now() >= ends {
                break;
            }
        }
        match reply.answer {
            Answer::None => Settled::Unknown,
            _ => Settled::Absent { reason: Some(absence(&reply)) },
        }
    }

    async fn carry_out(
        &self,
        run: &RunId,
        changes: &[FileChange],
        haste: &CancellationToken,
    ) -> Vec<Settled> {
        let wanted: Vec<(usize, Wanted)> = changes
            .iter()
            .enumerate()
            .filter(|(_, change)| !change.edits.is_empty())
            .filter_map(|(index, change)| {
                let path = match &change.kind {
                    ChangeKind::Renamed { from } => from.clone(),
                    ChangeKind::Modified => change.path.clone(),
                    ChangeKind::Created | ChangeKind::Deleted => return None,
                };
                let made_for = MadeFor::Text(change.before.clone()?);
                Some((index, Wanted { path, edits: change.edits.clone(), made_for }))
            })
            .collect();
        let (indexes, wanted): (Vec<usize>, Vec<Wanted>) = wanted.into_iter().unzip();
        // What comes now cannot be told from what was looked out for.
        wanted.iter().for_each(|wanted| self.outlook.end(&wanted.path));
        let texts = self.make(run, &wanted, haste).await;
        let mut settled: Vec<Option<Settled>> = vec![None; changes.len()];
        for (index, text) in indexes.into_iter().zip(texts) {
            settled[index] = Some(text);
        }
        // What cannot be brought back comes last.
        let mut order: Vec<usize> = (0..changes.len()).collect();
        order.sort_by_key(|index| changes[*index].kind == ChangeKind::Deleted);
        for index in order {
            let change = &changes[index];
            let operation = match &change.kind {
                ChangeKind::Modified => {
                    // Nothing to change in the text: as it should be.
                    settled[index].get_or_insert(Settled::Landed);
                    continue;
                }
                ChangeKind::Created => Operation::Create { path: &change.path },
                ChangeKind::Deleted => Operation::Delete { path: &change.path },
                ChangeKind::Renamed { from } => Operation::Rename { from, to: &change.path },
            };
            if settled.iter().flatten().any(|settled| *settled != Settled::Landed) {
                let text_landed = settled[index] == Some(Settled::Landed);
                if text_landed && let ChangeKind::Renamed { from } = &change.kind {
                    settled[index] = Some(self.unmake(from, change).await);
                }
                settled[index].get_or_insert_with(not_sent);
                continue;
            }
            let text_made = settled[index].is_some();
            let mut outcome = self.operate("pilcrow", &operation, haste).await;
            if text_made
                && matches!(outcome, Settled::Absent { .. })
                && let ChangeKind::Renamed { from } = &change.kind
                && let Settled::Elsewhere { detail, .. } = self.unmake(from, change).await
            {
                outcome = Settled::Elsewhere { detail, reverted: false };
            }
            settled[index] = Some(outcome);
        }
        settled.into_iter().map(|settled| settled.unwrap_or(Settled::Unknown)).collect()
    }

    /// Takes the text edits of a file back whose move did not come about, stopped or not.
    async fn unmake(&self, path: &AbsPath, change: &FileChange) -> Settled {
        match self.revert_text(path, change, &CancellationToken::new()).await {
            Settled::Landed => not_sent(),
            _ => Settled::Elsewhere {
                detail: "its text was changed, but it was not moved, and the text could not be taken back"
                    .to_owned(),
                reverted: false,
            },
        }
    }

    async fn revert_text(&self, path: &AbsPath, change: &FileChange, haste: &CancellationToken) -> Settled {
        let planned_on = change.before.as_ref().map(|text| ContentHash::of(text.as_bytes()));
        let landed = planned_on.and_then(|hash| lock(&self.landed).remove(&(path.clone(), hash)));
        let Some(landed) = landed else {
            return Settled::Absent { reason: Some("nothing is known to have landed there".to_owned()) };
        };
        let made_for = MadeFor::Moment(landed.moment, landed.text);
        let wanted = Wanted { path: path.clone(), edits: landed.inverse, made_for };
        let back = self.make_together(None, std::slice::from_ref(&wanted), haste).await;
        match back.into_iter().next() {
            Some(Settled::Moved) => {
                Settled::Absent { reason: Some("it was changed there meanwhile".to_owned()) }
            }
            other => other.unwrap_or(Settled::Unknown),
        }
    }

    async fn take_all_back(&self, changes: &[FileChange], haste: &CancellationToken) -> Vec<Settled> {
        let mut settled = Vec::with_capacity(changes.len());
        for change in changes {
            settled.push(match &change.kind {
                ChangeKind::Modified if change.edits.is_empty() => Settled::Landed,
                ChangeKind::Modified => self.revert_text(&change.path, change, haste).await,
                ChangeKind::Created => {
                    self.operate(BACK, &Operation::Delete { path: &change.path }, haste).await
                }
                ChangeKind::Renamed { from } => {
                    let back = Operation::Rename { from: &change.path, to: from };
                    match self.operate(BACK, &back, haste).await {
                        Settled::Landed => self.restore(from, change, haste).await,
                        other => other,
                    }
                }
                ChangeKind::Deleted => {
                    let back = Operation::Create { path: &change.path };
                    match self.operate(BACK, &back, haste).await {
                        Settled::Landed => self.refill(change, haste).await,
                        other => other,
                    }
                }
            });
        }
        settled
    }

    /// The text of a file that has moved back.
    async fn restore(&self, path: &AbsPath, change: &FileChange, haste: &CancellationToken) -> Settled {
        let (Some(before), Some(after)) = (&change.before, &change.after) else { return Settled::Landed };
        if change.edits.is_empty() || before == after {
            return Settled::Landed;
        }
        let edits = text::invert(before, &change.edits).unwrap_or_default();
        let made_for = MadeFor::Text(Arc::clone(after));
        let wanted = Wanted { path: path.clone(), edits, made_for };
        let back = self.make_together(None, std::slice::from_ref(&wanted), haste).await;
        back.into_iter().next().unwrap_or(Settled::Unknown)
    }

    /// The text of a file that was deleted, put into an empty one; the editor opens it for that.
    async fn refill(&self, change: &FileChange, haste: &CancellationToken) -> Settled {
        let before = change.before.as_deref().unwrap_or_default();
        let start = json!({ "line": 0, "character": 0 });
        let edit = json!({
            "textDocument": { "uri": self.documents.uri_of(&change.path), "version": null },
            "edits": [{ "range": { "start": start, "end": start }, "newText": before }],
        });
        let params = self.request(BACK, &[edit]);
        let never = CancellationToken::new();
        let editor = &self.client.editor;
        let mut changes = self.documents.changes();
        let reply = self.peer.request("workspace/applyEdit", &params, editor.reply(), &never).await;
        let reply = Reply::read(reply);
        let ends = Instant::now() + editor.after_reply(reply.answer == Answer::Applied);
        loop {
            changes.borrow_and_update();
            if self.documents.at(&change.path).is_some_and(|open| *open.text == *before) {
                return Settled::Landed;
            }
            tokio::select! {
                result = changes.changed() => if result.is_err() { return Settled::Unknown },
                () = sleep_until(ends) => return Settled::Absent { reason: Some(absence(&reply)) },
                () = haste.cancelled() => return Settled::Unknown,
            }
        }
    }

    fn hold(&self, changes: &[FileChange]) -> Held<'_> {
        let mut paths: Vec<AbsPath> = changes.iter().map(|change| change.path.clone()).collect();
        paths.extend(changes.iter().filter_map(|change| match &change.kind {
            ChangeKind::Renamed { from } => Some(from.clone()),
            _ => None,
        }));
        lock(&self.held).extend(paths.iter().cloned());
        Held { port: self, paths }
    }

    /// Blocks while an edit of the document is in flight.
    fn wait_released(&self, path: &AbsPath) {
        if !lock(&self.held).contains(path) {
            return;
        }
        let wait = || {
            let held = lock(&self.held);
            let result = self.released.wait_timeout_while(held, HOLD, |held| held.contains(path));
            if result.is_ok_and(|(_, result)| result.timed_out()) {
                tracing::warn!(%path, "an edit in flight is not settled; its text is read all the same");
            }
        };
        match Handle::try_current().map(|handle| handle.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
            // Nothing would be settled while its only thread waits.
            Ok(_) => {}
            Err(_) => wait(),
        }
    }

    /// The haste of a run while it has something to be made.
    fn start<'a>(&'a self, run: &'a RunId) -> Going<'a> {
        let mut haste = lock(&self.haste);
        let is_stopped = haste.all || haste.stopped.contains(run);
        let (token, count) = haste.going.entry(run.clone()).or_default();
        *count += 1;
        let token = token.clone();
        if is_stopped {
            token.cancel();
        }
        Going { port: self, run, token }
    }
}

/// For how long a commit may ask for what landed to be taken back.
const REVERTIBLE: Duration = Duration::from_secs(300);
const BACK: &str = "pilcrow: taken back";

impl Editor for EditorPort {
    fn documents(&self) -> Vec<Document> {
        self.documents.paths().iter().filter_map(|path| self.document(path)).collect()
    }

    fn document(&self, path: &AbsPath) -> Option<Document> {
        self.wait_released(path);
        self.documents.document(path)
    }

    fn rebase(&self, change: &FileChange) -> Option<Vec<TextEdit>> {
        let made_for = MadeFor::Text(change.before.clone()?);
        let wanted = Wanted { path: change.path.clone(), edits: change.edits.clone(), made_for };
        let (open, edits) = self.now(&wanted).ok()??;
        if !open.text.starts_with(BOM) {
            return Some(edits);
        }
        let by = |edit: &TextEdit| {
            let start = edit.range.start.checked_sub(BOM.len())?;
            Some(TextEdit::replace(start..edit.range.end - BOM.len(), &edit.new_text))
        };
        edits.iter().map(by).collect()
    }

    fn changes(&self, path: &AbsPath, since: &str) -> Option<ChangeLog> {
        let (steps, open) = self.documents.way_from(path, ContentHash::of(since.as_bytes()))?;
        // Where the mark is part of the text, or the client did not say what it changed, nothing is
        // known exactly.
        if open.text.starts_with(BOM) || steps.iter().any(|step| step.whole) {
            return None;
        }
        let mut log = ChangeLog::new();
        // A way that is this long takes too long to be walked.
        if steps.len().saturating_mul(since.len()) > MAX_ALIGNED {
            steps.iter().for_each(|step| log.push(step.edits.clone()));
            return Some(log);
        }
        let mut text = since.to_owned();
        for step in &steps {
            // Further edits of a step would have to be moved together with this one.
            let edits = match step.edits.as_slice() {
                [edit] => vec![text::align_to_lines(&text, edit)],
                edits => edits.to_vec(),
            };
            text = text::apply(&text, &edits).ok()?;
            log.push(edits);
        }
        Some(log)
    }

    fn moves(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        Some(self.documents.changes())
    }

    fn apply<'a>(&'a self, run: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<Settled>> {
        Box::pin(async move {
            if !self.client.apply_edit {
                let reason = "this editor takes no edits from a language server; close the file there";
                let refused = Settled::Absent { reason: Some(reason.to_owned()) };
                return vec![refused; changes.len()];
            }
            let haste = self.start(run);
            let _turn = tokio::select! {
                turn = self.turn.lock() => turn,
                // Its place in the queue is lost, and it needs none.
                () = haste.token.cancelled() => return vec![stopped(); changes.len()],
            };
            let _held = self.hold(changes);
            lock(&self.landed).retain(|_, landed| landed.at.elapsed() < REVERTIBLE);
            self.carry_out(run, changes, &haste.token).await
        })
    }

    fn revert<'a>(&'a self, _: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<Settled>> {
        Box::pin(async move {
            let _turn = self.turn.lock().await;
            // What is half done has to be undone, stopped or not.
            let never = CancellationToken::new();
            let _held = self.hold(changes);
            self.take_all_back(changes, &never).await
        })
    }
}

/// A run that has something to be made.
struct Going<'a> {
    port: &'a EditorPort,
    run: &'a RunId,
    token: CancellationToken,
}

impl Drop for Going<'_> {
    fn drop(&mut self) {
        let mut haste = lock(&self.port.haste);
        if let Some((_, count)) = haste.going.get_mut(self.run) {
            *count -= 1;
            if *count == 0 {
                haste.going.remove(self.run);
            }
        }
    }
}

struct Held<'a> {
    port: &'a EditorPort,
    paths: Vec<AbsPath>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut held = lock(&self.port.held);
        for path in &self.paths {
            held.remove(path);
        }
        drop(held);
        self.port.released.notify_all();
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
    fn read(result: Result<Box<serde_json::value::RawValue>, RequestError>) -> Self {
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

/// A file operation.
enum Operation<'a> {
    Create { path: &'a AbsPath },
    Rename { from: &'a AbsPath, to: &'a AbsPath },
    Delete { path: &'a AbsPath },
}

impl Operation<'_> {
    fn to_json(&self, documents: &OpenDocuments) -> (&'static str, Value) {
        match self {
            Self::Create { path } => ("create", json!({ "kind": "create", "uri": documents.uri_of(path) })),
            Self::Rename { from, to } => {
                let uris = (documents.uri_of(from), documents.uri_of(to));
                ("rename", json!({ "kind": "rename", "oldUri": uris.0, "newUri": uris.1 }))
            }
            Self::Delete { path } => ("delete", json!({ "kind": "delete", "uri": documents.uri_of(path) })),
        }
    }

    fn is_done(&self, documents: &OpenDocuments) -> bool {
        let is_there = |path: &AbsPath| path.as_path().symlink_metadata().is_ok();
        match self {
            Self::Create { path } => is_there(path) || documents.at(path).is_some(),
            Self::Delete { path } => !is_there(path) && documents.at(path).is_none(),
            Self::Rename { from, to } => {
                let came = is_there(to) || documents.at(to).is_some();
                came && !is_there(from) && documents.at(from).is_none()
            }
        }
    }
}

fn absence(reply: &Reply) -> String {
    match (reply.answer, &reply.reason) {
        (_, Some(reason)) => reason.clone(),
        (Answer::Applied, None) => "the editor said that it applied the edit, but did not".to_owned(),
        _ => "the editor refused it and gave no reason".to_owned(),
    }
}

fn not_sent() -> Settled {
    Settled::Absent { reason: Some("not sent, since another file's edit did not land".to_owned()) }
}

fn stopped() -> Settled {
    Settled::Absent { reason: Some("stopped before it was sent".to_owned()) }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each use leaves the value whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
