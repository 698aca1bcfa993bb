//! Check of an edit in the background, until every server has answered about every file.
//!
//! The edit waits for a part of it. The task ends when all is known, when the next edit takes its files over, or
//! when its time is over.

use std::ops::RangeBounds;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent::{EventReporter, ToolCx};
use lsp_client::{Checked, RequestCx};
use parking_lot::Mutex;
use policy::Policy;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use workspace::Document;

use super::saved_checks::SavedChecks;
use super::tally::Tally;
use super::{Baseline, FileBaseline, Verdict, problems};
use crate::ToolContext;

/// Number of times that servers are asked, again after they have loaded.
const ROUNDS: usize = 3;
/// Number of dependents that are checked at once while time is left.
const ROUND: usize = 20;
/// Longest time of a check, in which a server may load its project. 300 s.
const LONGEST: Duration = Duration::from_secs(300);
/// Time for the check of an earlier edit to stop.
const STOP: Duration = Duration::from_secs(2);

/// The check of an edit.
pub(super) struct Watch {
    checks: Arc<Mutex<Checks>>,
    is_done: watch::Receiver<bool>,
    /// Whether the edit stopped waiting, so that the end is reported by an event.
    is_late: Arc<AtomicBool>,
    task: JoinHandle<()>,
    reported: Mutex<Option<Reported>>,
    cancel: CancellationToken,
}

/// The state of a check.
#[derive(Default)]
struct Checks {
    baseline: Baseline,
    /// The newest answer of each server, in the order of the files.
    answers: Vec<FileChecks>,
    is_done: bool,
}

/// The answers about one file.
#[derive(Default)]
struct FileChecks {
    /// The text after the edit; `None` if the file was deleted meanwhile.
    document: Option<Document>,
    servers: Vec<Checked>,
}

/// The part of a check that a result has shown.
#[derive(PartialEq)]
struct Reported {
    lines: Vec<String>,
    problems: usize,
}

impl Watch {
    /// Starts to check the files of `baseline`.
    ///
    /// Takes over those of the edit before that are still unknown.
    pub fn start(context: Arc<ToolContext>, mut baseline: Baseline, cx: &ToolCx) -> Self {
        let earlier = context.pending.take();
        if let Some(earlier) = &earlier {
            baseline.with_earlier(std::mem::take(&mut earlier.checks.lock().baseline));
            earlier.stop();
        }
        let mut checks = Checks { baseline, ..Checks::default() };
        checks.read_texts(&context);
        let checks = Arc::new(Mutex::new(checks));
        let cancel = CancellationToken::new();
        let (done, is_done) = watch::channel(false);
        let is_late = Arc::new(AtomicBool::new(false));
        let request = RequestCx::new(LONGEST, &cancel);
        let (checking, late) = (Arc::clone(&checks), Arc::clone(&is_late));
        let run = Run { context, checks: checking, policy: cx.policy(), request, is_late: late };
        let events = cx.event_reporter();
        let task = tokio::spawn(async move {
            // Documents that the earlier check opened are closed first.
            if let Some(mut earlier) = earlier
                && tokio::time::timeout(STOP, &mut earlier.task).await.is_err()
            {
                tracing::debug!("the check of an earlier edit has not stopped yet");
            }
            run.check().await;
            run.checks.lock().is_done = true;
            done.send_replace(true);
            if run.is_late() && !run.request.cancel.is_cancelled() {
                run.report(&events).await;
            }
        });
        let reported = Mutex::default();
        Self { checks, is_done, is_late, task, reported, cancel }
    }

    /// Waits until all is known, at most for `wait`.
    pub async fn wait(&self, wait: Duration, cancel: &CancellationToken) {
        let mut is_done = self.is_done.clone();
        tokio::select! {
            () = cancel.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
            // An error means that the task has ended.
            _ = is_done.wait_for(|done| *done) => return,
        }
        self.is_late.store(true, Ordering::Release);
    }

    /// The verdict as of now, which counts as reported.
    pub fn render(&self, context: &ToolContext) -> Verdict {
        let tally = self.checks.lock().tally();
        *self.reported.lock() = Some(Reported { lines: tally.lines(context), problems: tally.problems() });
        tally.verdict(context)
    }

    /// Renders the verdict for a later result, with the label of the edit.
    ///
    /// `None` unless all is known, or a problem that was not shown.
    pub(super) fn render_late(&self, context: &ToolContext) -> Option<(String, Verdict)> {
        let is_done = *self.is_done.borrow();
        let (tally, label) = {
            let checks = self.checks.lock();
            (checks.tally(), checks.baseline.label.clone())
        };
        let problems = tally.problems();
        let mut reported = self.reported.lock();
        if !is_done && reported.as_ref().is_some_and(|it| problems <= it.problems) {
            return None;
        }
        let now = Some(Reported { lines: tally.lines(context), problems });
        let is_news = *reported != now;
        *reported = now;
        is_news.then(|| (label, tally.verdict(context)))
    }

    pub fn is_done(&self) -> bool {
        *self.is_done.borrow()
    }

    pub fn stop(&self) {
        self.cancel.cancel();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Checks {
    /// Reads the texts of the files that have been added.
    fn read_texts(&mut self, context: &ToolContext) {
        let added = self.baseline.files.iter().skip(self.answers.len());
        self.answers.extend(added.map(|file| FileChecks {
            document: context.workspace.document(&file.path).ok(),
            servers: Vec::new(),
        }));
    }

    fn tally(&self) -> Tally {
        let mut tally = Tally::new(&self.baseline, !self.is_done);
        for (file, FileChecks { document, servers }) in self.baseline.files.iter().zip(&self.answers) {
            tally.add(file, document.as_ref(), servers);
        }
        tally
    }

    fn answer(&mut self, at: usize, context: &ToolContext, now: Checked) {
        let FileChecks { document, servers } = &mut self.answers[at];
        if let (Some(document), Ok(items)) = (document, &now.known) {
            context.pending.learn(document, &now.server, problems(items.clone()));
        }
        match servers.iter_mut().find(|it| it.server == now.server) {
            Some(known) => *known = now,
            None => servers.push(now),
        }
    }
}

/// The task of a check.
struct Run {
    context: Arc<ToolContext>,
    checks: Arc<Mutex<Checks>>,
    policy: Option<Arc<Policy>>,
    request: RequestCx,
    /// Whether the edit stopped waiting.
    is_late: Arc<AtomicBool>,
}

impl Run {
    async fn check(&self) {
        self.check_texts().await;
        if !self.context.settings().is_one_shot() || self.request.cancel.is_cancelled() {
            return;
        }
        let saved = self.check_saved().await;
        while !self.is_late()
            && let Some(from) = self.add_later()
        {
            self.ask(from..).await;
            self.add_saved(&saved, from);
        }
    }

    fn is_late(&self) -> bool {
        self.is_late.load(Ordering::Acquire) || self.request.cancel.is_cancelled()
    }

    /// Adds the next dependents that are checked while time is left.
    ///
    /// Returns the index of the first.
    fn add_later(&self) -> Option<usize> {
        let mut checks = self.checks.lock();
        let Baseline { files, later, .. } = &mut checks.baseline;
        let from = files.len();
        files.extend(later.drain(..ROUND.min(later.len())));
        let is_any = files.len() > from;
        checks.read_texts(&self.context);
        is_any.then_some(from)
    }

    /// Requests the checks of saved files.
    async fn check_saved(&self) -> SavedChecks {
        let documents: Vec<Document> =
            self.checks.lock().answers.iter().filter_map(|it| it.document.clone()).collect();
        let documents: Vec<&Document> = documents.iter().collect();
        let saved = SavedChecks::request(&self.context, &documents, &self.request).await;
        {
            let mut checks = self.checks.lock();
            let more = saved.further_files(&checks.baseline.saved, &self.context, &checks.baseline.files);
            // They are checked.
            let is_later = |file: &FileBaseline| !more.iter().any(|it| it.path == file.path);
            checks.baseline.later.retain(is_later);
            checks.baseline.files.extend(more);
            checks.read_texts(&self.context);
        }
        self.add_saved(&saved, 0);
        saved
    }

    /// Adds the checks of saved files to the answers about files after `from`.
    fn add_saved(&self, saved: &SavedChecks, from: usize) {
        let mut checks = self.checks.lock();
        let Checks { baseline, answers, .. } = &mut *checks;
        for (file, answers) in baseline.files.iter().zip(answers).skip(from) {
            saved.add_to_answers(&file.path, &mut answers.servers);
        }
    }

    async fn check_texts(&self) {
        let changed = self.checks.lock().answers.len();
        // The search takes time, in which the changed files are checked.
        let dependents = async {
            self.add_dependents().await;
            self.ask(changed..).await;
        };
        futures_util::future::join(self.ask(..changed), dependents).await;
        for _ in 1..ROUNDS {
            let waiting = self.waiting();
            if waiting.is_empty() || self.request.cancel.is_cancelled() || self.request.left().is_zero() {
                return;
            }
            // A server that starts or loads is asked again when it has loaded.
            for document in waiting {
                let loaded = self.context.servers.load(&document.path, Some(&document), &self.request).await;
                if let Err(error) = loaded {
                    tracing::debug!(%error, "no diagnostics of {}", document.path);
                }
            }
            self.ask(..).await;
        }
    }

    async fn add_dependents(&self) {
        let mut baseline = self.checks.lock().baseline.clone();
        let (policy, cancel) = (self.policy.as_deref(), &self.request.cancel);
        baseline.add_dependents(&self.context, policy, cancel).await;
        let mut checks = self.checks.lock();
        checks.baseline = baseline;
        checks.read_texts(&self.context);
    }

    /// Asks about the files in `range` without an answer, or with a pending one.
    async fn ask(&self, range: impl RangeBounds<usize>) {
        let (mut places, mut questions) = (Vec::new(), Vec::new());
        {
            let checks = self.checks.lock();
            for (at, (file, answers)) in checks.baseline.files.iter().zip(&checks.answers).enumerate() {
                let is_open = answers.servers.is_empty() || answers.servers.iter().any(|it| it.pending);
                if let Some(document) = answers.document.as_ref().filter(|_| is_open && range.contains(&at)) {
                    places.push(at);
                    questions.push((document.clone(), file.role()));
                }
            }
        }
        let report = |at: usize, now: Checked| self.checks.lock().answer(places[at], &self.context, now);
        self.context.servers.check_all(&questions, &self.request, &report).await;
    }

    /// The documents with a pending answer.
    fn waiting(&self) -> Vec<Document> {
        let checks = self.checks.lock();
        let pending = checks.answers.iter().filter(|it| it.servers.iter().any(|it| it.pending));
        pending.filter_map(|it| it.document.clone()).collect()
    }

    /// Emits the whole difference, because no result waits for it.
    async fn report(&self, events: &EventReporter) {
        let details = self.checks.lock().tally().details(&self.context);
        if let Some(event) = (Verdict { text: String::new(), details }).event(events.call_id()) {
            events.report(event).await;
        }
    }
}
