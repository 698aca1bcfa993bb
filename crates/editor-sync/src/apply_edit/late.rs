//! Edits whose end was not heard of in time: they may still be made, long after the run is over.
//!
//! What must stay true: one that shows up and that the editor says it made is taken back; one that it
//! says nothing about may be the person's own doing, so it stays and is told, with what undo needs.
//! While another edit of the same document is made nothing can be told apart, so the lookout ends.

use std::collections::{HashMap, VecDeque};
use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::Mutex;
use paths::AbsPath;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use wire::InFlight;
use workspace::RunId;

use super::in_flight::{Flight, Reply};
use super::{EditorPort, Held, LATE_ANSWER};
use crate::edit_reconciliation::{Answer, Verdict};

/// For how long one is looked out for.
const LOOKOUT: Duration = Duration::from_secs(300);
/// Runs' edits that are remembered as open-ended.
const MAX_OPEN_ENDED: usize = 64;

/// An edit that showed up after its run had been told that nothing is known of it.
#[derive(Debug, Clone)]
pub struct Late {
    pub run: RunId,
    pub path: AbsPath,
    /// The text without it, as the editor has it.
    pub before: String,
    /// The text right after it.
    pub after: String,
    /// Why it was not taken back.
    pub stays: Option<String>,
}

type Tell = dyn Fn(Late) + Send + Sync;

/// What is looked out for.
#[derive(Default)]
pub(super) struct Outlook {
    open: Mutex<HashMap<AbsPath, CancellationToken>>,
    open_ended: Mutex<VecDeque<(RunId, AbsPath)>>,
    tell: OnceLock<Box<Tell>>,
}

impl Outlook {
    /// Nothing is looked out for in this document any more.
    pub fn end(&self, path: &AbsPath) {
        if let Some(open) = self.open.lock().remove(path) {
            open.cancel();
        }
    }

    fn begin(&self, run: &RunId, path: &AbsPath) -> CancellationToken {
        let mut open_ended = self.open_ended.lock();
        open_ended.push_back((run.clone(), path.clone()));
        if open_ended.len() > MAX_OPEN_ENDED {
            open_ended.pop_front();
        }
        let token = CancellationToken::new();
        if let Some(older) = self.open.lock().insert(path.clone(), token.clone()) {
            older.cancel();
        }
        token
    }
}

struct Watched {
    flight: Flight,
    over: CancellationToken,
}

impl Flight {
    /// Whether it may have landed, and may yet.
    pub(super) fn is_open_ended(&self, answer: Answer) -> bool {
        answer == Answer::None
            && self.verdict.is_none()
            && self.settling.decide(Answer::None) == Verdict::Unknown
    }
}

impl EditorPort {
    /// Hears of every edit that shows up late. Only the first call counts.
    pub fn on_late(&self, tell: impl Fn(Late) + Send + Sync + 'static) {
        if self.outlook.tell.set(Box::new(tell)).is_err() {
            tracing::debug!("late edits are told somebody already");
        }
    }

    /// The documents of which this run was not told whether its edits landed. Each is told once.
    pub fn open_ended(&self, run: &RunId) -> Vec<AbsPath> {
        let mut all = self.outlook.open_ended.lock();
        let (theirs, others) = std::mem::take(&mut *all).into_iter().partition(|(of, _)| of == run);
        *all = others;
        let theirs: VecDeque<(RunId, AbsPath)> = theirs;
        theirs.into_iter().map(|(_, path)| path).collect()
    }

    /// Nobody waits for these any more, but they may still come.
    pub(super) fn look_out(&self, run: &RunId, flights: Vec<Flight>, mut request: InFlight) {
        request.give_up();
        let watch = |flight: Flight| Watched { over: self.outlook.begin(run, &flight.path), flight };
        let watched: Vec<Watched> = flights.into_iter().map(watch).collect();
        let Some(this) = self.this.upgrade() else { return };
        let run = run.clone();
        self.tracker.spawn(async move { this.watch(&run, watched, request).await });
    }

    async fn watch(&self, run: &RunId, mut watched: Vec<Watched>, mut request: InFlight) {
        let mut changes = self.documents.changes();
        let mut answer = None;
        let mut ends = Instant::now() + LOOKOUT;
        loop {
            changes.borrow_and_update();
            watched.retain(|it| !it.over.is_cancelled());
            for it in &mut watched {
                self.pull(&mut it.flight, answer.unwrap_or(Answer::None));
            }
            let seen = watched.iter().filter(|it| it.flight.verdict.is_some()).count();
            if seen == watched.len() && (seen == 0 || answer.is_some()) {
                break;
            }
            if seen > 0 {
                ends = ends.min(Instant::now() + LATE_ANSWER);
            }
            tokio::select! {
                // Nothing is lost with any of these: answers and changes are kept.
                result = request.answered(), if answer.is_none() => {
                    let reply = Reply::read(result);
                    let wait = self.client.editor.after_reply(reply.answer == Answer::Applied);
                    ends = ends.min(Instant::now() + wait);
                    answer = Some(reply.answer);
                }
                result = changes.changed() => if result.is_err() { return },
                () = sleep_until(ends) => break,
                _ = self.peer.closed() => return,
            }
        }
        for it in watched {
            self.settle_late(run, it, answer.unwrap_or(Answer::None)).await;
        }
    }

    async fn settle_late(&self, run: &RunId, watched: Watched, answer: Answer) {
        let Watched { flight, over } = watched;
        let _turn = self.turn.lock().await;
        if over.is_cancelled() {
            return;
        }
        self.outlook.end(&flight.path);
        // What nobody answered for is told only when nothing else explains it.
        let verdict = match answer {
            Answer::Applied => flight.verdict.clone().or_else(|| Some(flight.settling.decide(answer))),
            Answer::Refused | Answer::None => flight.verdict.clone(),
        };
        let path = flight.path.clone();
        tracing::debug!(%path, ?answer, ?verdict, "the end of an edit that was looked out for");
        let inverse = match verdict {
            Some(Verdict::Landed { inverse } | Verdict::Elsewhere { inverse: Some(inverse), .. }) => inverse,
            _ => return,
        };
        let after = flight.settling.text().to_owned();
        let Ok(before) = text::apply(&after, &inverse) else { return };
        let stays = if answer == Answer::Applied {
            self.held.lock().insert(path.clone());
            let _held = Held { port: self, paths: vec![path.clone()] };
            self.take_back(&flight, inverse, &CancellationToken::new()).await.err()
        } else {
            Some("the editor did not say that it made it, so it may be yours".to_owned())
        };
        if let Some(tell) = self.outlook.tell.get() {
            tell(Late { run: run.clone(), path, before, after, stays });
        }
    }
}
