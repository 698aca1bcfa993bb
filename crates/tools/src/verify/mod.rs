//! Verification of an edit: the diagnostics of changed files and dependents after it, by server, compared with
//! those that the same servers gave for the texts before.
//!
//! No edit waits before it is made, unless the user wants it checked first. Afterwards it waits a short time;
//! later answers come as an event and with the next result. Only languages whose servers run are checked.

mod cold_servers;
mod dependents;
mod difference;
mod pending;
mod preview;
mod saved_checks;
mod tally;
mod verdict;
mod watch;

pub(crate) use difference::{Same, difference};
pub use pending::Pending;
pub(crate) use pending::ReportsPending;
pub(crate) use preview::Preview;
pub use preview::{Verify, VerifyPolicy};
pub(crate) use verdict::Verdict;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use agent::ToolCx;
use lsp_client::{CheckRole, Checked, Diagnostic, RequestCx, Severity};
use parking_lot::Mutex;
use paths::AbsPath;
use policy::Policy;
use tokio_util::sync::CancellationToken;
use workspace::{ChangeKind, Document, FileChange, Plan};

use self::saved_checks::SavedChecks;
use self::watch::Watch;
use crate::ToolContext;

/// Changed files that are checked.
const MAX_FILES: usize = 20;

/// The files that changes affect, with their diagnostics before as far as known.
#[derive(Default, Clone)]
pub(crate) struct Baseline {
    /// Description of the edit, for results of later calls.
    label: String,
    changes: Vec<FileChange>,
    files: Vec<FileBaseline>,
    /// Whether `files` contains the dependents.
    has_dependents: bool,
    /// Changed files and dependents that are not checked.
    unchecked: usize,
    /// Package roots of the unchecked files without a running server.
    cold: BTreeSet<AbsPath>,
    /// Whether not every file was searched for dependents.
    cut: bool,
    /// Dependents that are checked while time is left; not among `unchecked`.
    later: VecDeque<FileBaseline>,
    /// The word that the edit replaces by another, if it does nothing else.
    replaced: Option<Replaced>,
    /// The time for all that is done before the edit is made.
    budget: Option<RequestCx>,
    /// The checks of saved files before the edit that are complete.
    saved: SavedChecks,
}

/// The diagnostics of one file before an edit.
#[derive(Debug, Clone)]
struct FileBaseline {
    /// Path after the edit.
    path: AbsPath,
    dependent: bool,
    /// The text before the edit.
    text: Arc<str>,
    /// The complete diagnostics of that text, by server.
    known: BTreeMap<String, Vec<Diagnostic>>,
    /// Whether the edit creates the file, so that it had no diagnostics.
    created: bool,
}

impl Baseline {
    /// The files that `plan` changes or affects, before it is committed.
    ///
    /// Starts their servers, and requests their diagnostics if the settings allow that an edit waits for them.
    pub async fn take(context: &ToolContext, plan: &Plan, cx: &ToolCx) -> Self {
        let settings = context.settings();
        let budget = Self::budget(context, cx);
        preview::warm_up(context, plan, &budget).await;
        match settings.is_one_shot() {
            true => cold_servers::load(context, plan, &budget).await,
            false => cold_servers::begin(context, plan),
        }
        Self::take_warm(context, plan, cx, budget).await
    }

    /// The files that an undo changes or affects.
    ///
    /// It restores an earlier text, so it starts no server, and without one nothing is checked.
    pub(crate) async fn take_for_undo(context: &ToolContext, plan: &Plan, cx: &ToolCx) -> Self {
        let is_asked = |change: &FileChange| cold_servers::is_asked(context, dependents::source(change));
        if !plan.changes().iter().any(is_asked) {
            return Self::default();
        }
        Self::take_warm(context, plan, cx, Self::budget(context, cx)).await
    }

    /// The time limit of all work before an edit.
    fn budget(context: &ToolContext, cx: &ToolCx) -> RequestCx {
        let settings = context.settings();
        let budget = match settings.verify {
            Verify::Before => settings.verify_wait,
            Verify::After => settings.baseline_wait,
        };
        RequestCx::new(budget, &cx.cancel)
    }

    async fn take_warm(context: &ToolContext, plan: &Plan, cx: &ToolCx, budget: RequestCx) -> Self {
        let settings = context.settings();
        if settings.verify == Verify::Before {
            // A speculative edit waits for all requests to a server.
            context.pending.stop();
        }
        let mut out = Self::of_changes(context, plan.label(), plan.changes());
        if !budget.deadline.is_zero() {
            let part = if settings.verify == Verify::Before { budget.left() / 2 } else { budget.left() };
            out.request(context, budget.within(part), cx.policy().as_deref()).await;
        }
        out.budget = Some(budget);
        out
    }

    /// The files that `plans` change or affect.
    pub fn of(context: &ToolContext, label: &str, plans: &[Plan]) -> Self {
        let changes: Vec<FileChange> = plans.iter().flat_map(Plan::changes).cloned().collect();
        Self::of_changes(context, label, &changes)
    }

    /// Lists the files that changes affect, with known diagnostics of their texts.
    ///
    /// Dependents are added later, because the search takes time.
    pub(crate) fn of_changes(context: &ToolContext, label: &str, changes: &[FileChange]) -> Self {
        let mut out = Self { label: label.to_owned(), changes: changes.to_vec(), ..Self::default() };
        out.replaced = Replaced::of(changes);
        let mut changed = BTreeSet::new();
        for change in changes {
            let from = dependents::source(change);
            if change.after.is_none() || !changed.insert(change.path.clone()) {
                continue;
            }
            if !cold_servers::is_asked(context, from) && !cold_servers::is_asked(context, &change.path) {
                if let Some(root) = cold_servers::root(context, change) {
                    out.unchecked += 1;
                    out.cold.insert(root);
                }
                continue;
            }
            if out.files.len() == MAX_FILES {
                out.unchecked += 1;
                continue;
            }
            let text = change.before.clone().unwrap_or_else(|| "".into());
            out.files.push(FileBaseline {
                known: context.pending.known(from, &text),
                path: change.path.clone(),
                dependent: false,
                text,
                created: change.kind == ChangeKind::Created,
            });
        }
        out
    }

    /// Adds the dependents of the changes.
    async fn add_dependents(
        &mut self,
        context: &ToolContext,
        policy: Option<&Policy>,
        cancel: &CancellationToken,
    ) {
        if std::mem::replace(&mut self.has_dependents, true) || !self.affects_files(context) {
            return;
        }
        let found = dependents::of(context, &self.changes, self.replaced.as_ref(), policy, cancel).await;
        self.unchecked += found.unchecked;
        self.cold.extend(found.cold);
        self.cut = found.cut;
        let baseline = |document: Document| FileBaseline {
            known: context.pending.known(&document.path, &document.text),
            path: document.path,
            dependent: true,
            text: document.text,
            created: false,
        };
        self.files.extend(found.documents.into_iter().map(baseline));
        self.later.extend(found.later.into_iter().map(baseline));
    }

    /// Whether servers can say something about changed files or dependents.
    fn affects_files(&self, context: &ToolContext) -> bool {
        let is_reported = |change: &FileChange| {
            cold_servers::is_asked(context, &change.path) || matches!(change.kind, ChangeKind::Renamed { .. })
        };
        !self.files.is_empty() || self.changes.iter().any(is_reported)
    }

    /// Requests the diagnostics of the files that have a text before the edit.
    async fn request(&mut self, context: &ToolContext, request: RequestCx, policy: Option<&Policy>) {
        self.add_dependents(context, policy, &request.cancel).await;
        let (mut questions, mut asked) = (Vec::new(), Vec::new());
        for (at, file) in self.files.iter().enumerate().filter(|(_, file)| !file.created) {
            let moved = self.changes.iter().find(|change| change.path == file.path);
            let path = moved.map_or(&file.path, dependents::source);
            // A server that starts is not waited for before the edit.
            if context.servers.is_warm(path)
                && let Ok(document) = context.workspace.document(path)
                && document.text == file.text
            {
                asked.push(at);
                questions.push((document, file.role()));
            }
        }
        let found = Mutex::new(Vec::new());
        let report = |at: usize, checked: Checked| found.lock().push((at, checked));
        let documents: Vec<&Document> = questions.iter().map(|(document, _)| document).collect();
        let saved = SavedChecks::request(context, &documents, &request);
        let checks = context.servers.check_all(&questions, &request, &report);
        self.saved = futures_util::future::join(checks, saved).await.1;
        for (at, Checked { server, known, .. }) in found.into_inner() {
            if let Ok(items) = known {
                self.files[asked[at]].known.insert(server, problems(items));
            }
        }
        for (at, (document, _)) in asked.into_iter().zip(&questions) {
            self.saved.add_to(&document.path, &mut self.files[at].known);
        }
    }

    /// Checks the files after the commit.
    ///
    /// Includes those of an earlier edit that are still unknown.
    pub async fn compare(self, context: &ToolContext, cx: &ToolCx) -> Verdict {
        let Some(shared) = context.pending.context() else { return Verdict::nothing() };
        if !self.affects_files(context) {
            // A command ends without a server; its result must not look like one without errors.
            let is_reported = context.settings().is_one_shot() && !self.cold.is_empty();
            let text = format!("not checked{}\n", cold_servers::describe(context, &self.cold));
            return if is_reported {
                Verdict { text, details: serde_json::Value::Null }
            } else {
                Verdict::nothing()
            };
        }
        // The edit gets the time that was not needed before it.
        let settings = context.settings();
        let left = self.budget.as_ref().filter(|_| settings.is_one_shot()).map(RequestCx::left);
        let wait = settings.edit_wait + left.unwrap_or_default();
        let watch = Watch::start(shared, self, cx);
        watch.wait(wait, &cx.cancel).await;
        let verdict = watch.render(context);
        verdict.report(cx).await;
        context.pending.put(watch);
        verdict
    }

    /// Adds the files of an earlier edit that is not completely reported.
    fn with_earlier(&mut self, earlier: Self) {
        for file in earlier.files {
            match self.files.iter_mut().find(|it| it.path == file.path) {
                Some(now) if now.known.is_empty() && !now.created => {
                    *now = FileBaseline { dependent: now.dependent && file.dependent, ..file };
                }
                Some(_) => {}
                None => self.files.push(file),
            }
        }
        self.replaced = self.replaced.take().or(earlier.replaced);
    }
}

impl FileBaseline {
    fn role(&self) -> CheckRole {
        if self.dependent { CheckRole::Dependent } else { CheckRole::Changed }
    }

    /// The diagnostics of a server before the edit, if complete.
    fn of(&self, server: &str) -> Option<&[Diagnostic]> {
        match self.known.get(server) {
            None if self.created => Some(&[]),
            known => known.map(Vec::as_slice),
        }
    }
}

/// The errors and warnings among diagnostics.
fn problems(mut items: Vec<Diagnostic>) -> Vec<Diagnostic> {
    items.retain(|it| it.severity <= Severity::Warning);
    items
}

/// A word that all edits of a change replace by another.
#[derive(Debug, Clone)]
struct Replaced {
    old: String,
    new: String,
    places: usize,
}

impl Replaced {
    /// `None` for changes that do anything else.
    fn of(changes: &[FileChange]) -> Option<Self> {
        let mut found: Option<Self> = None;
        for change in changes {
            let before = change.before.as_deref().unwrap_or_default();
            for edit in &change.edits {
                let (old, new) = (before.get(edit.range.clone())?, &edit.new_text);
                let whole = text::word_at(before, edit.range.start) == edit.range && !old.is_empty();
                let known = found.as_ref().is_none_or(|it| it.old == old && it.new == *new);
                if !whole || new.is_empty() || !known {
                    return None;
                }
                let places = found.map_or(0, |it| it.places) + 1;
                found = Some(Self { old: old.to_owned(), new: new.clone(), places });
            }
        }
        found
    }

    /// Whether this is certainly a rename: one place may be any edit.
    fn is_rename(&self) -> bool {
        self.places > 1
    }
}
