//! Verification of an edit: diagnostics before and after it, and the difference, in changed files and
//! dependents.
//!
//! Only languages whose servers run are checked, within the time that an edit may wait; what is not known by
//! then is `pending`, never `clean`, and is reported with the next result. Servers that gave no diagnostics
//! before the edit are shown the old texts after it, as a speculative edit.

mod baseline;
mod cold_servers;
mod compare;
mod dependents;
mod difference;
mod pending;
mod preview;
mod verdict;

pub(crate) use difference::{Same, difference};
pub use pending::Pending;
pub(crate) use pending::ReportsPending;
pub(crate) use preview::Preview;
pub use preview::{Verify, VerifyPolicy};
pub(crate) use verdict::Verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use agent::ToolCx;
use lsp_client::{CheckRole, Diagnostic};
use paths::AbsPath;
use workspace::{ChangeKind, Document, FileChange, Plan};

use self::baseline::OldTexts;
use self::compare::{Wait, ask, is_many, of, tally};
use crate::ToolContext;

/// Changed files that are compared.
const MAX_FILES: usize = 20;

/// The diagnostics before an edit.
#[derive(Default)]
pub(crate) struct Baseline {
    files: Vec<FileBaseline>,
    /// Changed files and dependents that are not checked.
    unchecked: usize,
    /// Package roots of the unchecked files without a running server.
    cold: BTreeSet<AbsPath>,
    /// Whether not every file was searched for dependents.
    cut: bool,
    /// Whether no server answered in time.
    silent: bool,
}

/// The diagnostics of one file before an edit.
#[derive(Debug, Clone)]
struct FileBaseline {
    /// Path after the edit.
    path: AbsPath,
    known: Known,
    dependent: bool,
    /// The texts before the edit, for servers that had not answered in time.
    then: Option<Arc<OldTexts>>,
    /// Number of requests for the old diagnostics without an answer.
    tries: u8,
    /// The word that the edit replaces by another, if it does nothing else.
    renamed: Option<Arc<(String, String)>>,
}

#[derive(Debug, Clone)]
enum Known {
    /// All diagnostics of all servers; none for a file that did not exist.
    All(ServerDiagnostics),
    /// Diagnostics by server; other servers are asked after the edit.
    Of(BTreeMap<String, ServerDiagnostics>),
    /// Diagnostics by server, for these servers only; the others have been reported.
    Only(BTreeMap<String, Option<ServerDiagnostics>>),
}

/// The diagnostics of one server for a text.
#[derive(Debug, Clone, Default)]
struct ServerDiagnostics {
    text: Arc<str>,
    items: Vec<Diagnostic>,
}

impl Baseline {
    /// Requests diagnostics of the files that `plan` changes or affects.
    ///
    /// Called before the plan is committed.
    pub async fn take(context: &ToolContext, plan: &Plan, cx: &ToolCx) -> Self {
        preview::warm_up(context, plan, cx).await;
        cold_servers::begin(context, plan);
        let mut out = Self::of(context, std::slice::from_ref(plan), cx).await;
        let later = is_many(out.files.len()) && context.settings().verify == Verify::After;
        let (mut asked, mut questions) = (Vec::new(), Vec::new());
        for before in &mut out.files {
            // Many files take a server long: unchanged ones are checked after the edit, and their old
            // diagnostics are requested only if there are problems then.
            let back = before.then.as_ref().is_some_and(|then| then.can_be_shown());
            if !matches!(before.known, Known::Of(_)) || later && before.dependent && back {
                continue;
            }
            let from = before.then.as_ref().map_or(&before.path, |then| then.place(&before.path));
            // A server that starts is asked for the old texts afterwards.
            if !context.servers.is_warm(from) {
                continue;
            }
            if let Ok(document) = context.workspace.document(from) {
                questions.push((document, before.role()));
                asked.push(before);
            }
        }
        let wait = Wait::of(context.settings().diagnostics_wait, questions.len()).before();
        let answers = ask(context, &questions, wait, cx).await;
        let is_known = |answers: &Vec<lsp_client::Checked>| answers.iter().any(|it| it.known.is_ok());
        out.silent = !answers.is_empty() && !answers.iter().any(is_known);
        for ((before, (document, _)), answers) in asked.into_iter().zip(&questions).zip(answers) {
            let known = answers.into_iter().filter_map(|it| {
                let items = of(&it.known.ok()?, &it.server);
                Some((it.server, ServerDiagnostics { text: Arc::clone(&document.text), items }))
            });
            before.known = Known::Of(known.collect());
        }
        out
    }

    /// The files that `plans` change or affect, without diagnostics.
    pub async fn of(context: &ToolContext, plans: &[Plan], cx: &ToolCx) -> Self {
        Self::of_changes(context, &plans.iter().flat_map(Plan::changes).collect::<Vec<_>>(), cx).await
    }

    /// Takes the baseline of changes without a plan.
    pub(crate) async fn of_changes(context: &ToolContext, changes: &[&FileChange], cx: &ToolCx) -> Self {
        let mut out = Self::default();
        let then = Arc::new(OldTexts::of(changes));
        let renamed = renamed(changes).map(Arc::new);
        let (mut changed, mut cold) = (BTreeSet::new(), BTreeMap::new());
        for &change in changes {
            let from = match &change.kind {
                ChangeKind::Renamed { from } => from,
                _ => &change.path,
            };
            if change.after.is_none() || changed.contains(&change.path) {
                continue;
            }
            if !cold_servers::is_asked(context, from) && !cold_servers::is_asked(context, &change.path) {
                cold.extend(cold_servers::root(context, change).map(|root| (change.path.clone(), root)));
                continue;
            }
            changed.insert(change.path.clone());
            if out.files.len() == MAX_FILES {
                out.unchecked += 1;
                continue;
            }
            let known = match then.made(&change.path) {
                true => Known::All(ServerDiagnostics::default()),
                false => Known::Of(BTreeMap::new()),
            };
            let (path, then) = (change.path.clone(), Some(Arc::clone(&then)));
            let renamed = renamed.clone();
            out.files.push(FileBaseline { path, known, dependent: false, then, tries: 0, renamed });
        }
        let is_reported = |change: &&FileChange| {
            cold_servers::is_asked(context, &change.path) || matches!(change.kind, ChangeKind::Renamed { .. })
        };
        if out.files.is_empty() && !changes.iter().any(is_reported) {
            return out;
        }
        let dependents = dependents::of(context, changes, cx).await;
        out.unchecked += dependents.unchecked + cold.len();
        out.cold = cold.into_values().chain(dependents.cold).collect();
        out.cut = dependents.cut;
        out.files.extend(dependents.documents.into_iter().map(|document| FileBaseline {
            path: document.path,
            known: Known::Of(BTreeMap::new()),
            dependent: true,
            then: Some(Arc::clone(&then)),
            tries: 0,
            renamed: renamed.clone(),
        }));
        out
    }

    /// Sets the known diagnostics of one document.
    pub fn with(mut self, document: &Document, items: Vec<Diagnostic>) -> Self {
        if let Some(file) = self.files.iter_mut().find(|file| file.path == document.path) {
            file.known = Known::All(ServerDiagnostics { text: Arc::clone(&document.text), items });
        }
        self
    }

    /// Compares the files after the commit, with those that were pending before.
    pub async fn compare(mut self, context: &ToolContext, cx: &ToolCx) -> Verdict {
        if self.files.is_empty() && self.unchecked == 0 {
            return Verdict::nothing();
        }
        for earlier in context.pending.take(None) {
            match self.files.iter_mut().find(|file| file.path == earlier.path) {
                Some(file) => file.with_earlier(earlier),
                None => self.files.push(earlier),
            }
        }
        let (unchecked, cold, cut) = (self.unchecked, std::mem::take(&mut self.cold), self.cut);
        let wait = Wait::of(context.settings().diagnostics_wait, self.files.len());
        let wait = if self.silent { wait.again() } else { wait };
        let verdict = tally(self.files, context, wait, cx).await.verdict(context, unchecked, &cold, cut);
        verdict.report(cx).await;
        verdict
    }

    /// Compares files that were pending; those still unknown stay pending.
    async fn arrived(mut self, context: &ToolContext, wait: Duration, cx: &ToolCx) -> Verdict {
        // A result does not wait until a server has started.
        let (coming, here) =
            self.files.into_iter().partition(|file: &FileBaseline| context.servers.is_starting(&file.path));
        Vec::into_iter(coming).for_each(|file| context.pending.put(file));
        self.files = here;
        let wait = Wait { all: wait, quiet: wait, back: baseline::LATER };
        let tally = tally(self.files, context, wait, cx).await;
        if tally.compared.is_empty() && tally.incomparable.is_empty() {
            Verdict::nothing()
        } else {
            let verdict = tally.verdict(context, 0, &BTreeSet::new(), false);
            verdict.report(cx).await;
            verdict
        }
    }
}

impl FileBaseline {
    fn role(&self) -> CheckRole {
        if self.dependent { CheckRole::Dependent } else { CheckRole::Changed }
    }

    /// Uses the baseline of an earlier edit for what was not known before this one.
    fn with_earlier(&mut self, earlier: FileBaseline) {
        let (Known::Only(waiting), Known::Of(now)) = (earlier.known, &mut self.known) else { return };
        let then = match (earlier.then, self.then.take()) {
            (Some(earlier), Some(now)) => Some(Arc::new(earlier.and(&now))),
            (earlier, now) => earlier.or(now),
        };
        let back = then.as_ref().is_some_and(|then| then.can_be_shown());
        self.then = then;
        self.renamed = self.renamed.take().or(earlier.renamed);
        for (server, old) in waiting {
            match old {
                Some(old) => drop(now.insert(server, old)),
                // Requested for the texts before the earlier edit, where they can be shown.
                None if back => drop(now.remove(&server)),
                None => {}
            }
        }
    }
}

/// The word that all edits of a rename replace, and the new word.
///
/// `None` for other changes.
fn renamed(changes: &[&FileChange]) -> Option<(String, String)> {
    let mut found: Option<(String, String)> = None;
    let mut places = 0;
    for change in changes {
        let before = change.before.as_deref().unwrap_or_default();
        for edit in &change.edits {
            let was = before.get(edit.range.clone())?;
            let whole = text::word_at(before, edit.range.start) == edit.range && !was.is_empty();
            let pair = (was, edit.new_text.as_str());
            let known = found.as_ref().is_none_or(|(from, to)| (from.as_str(), to.as_str()) == pair);
            if !whole || pair.1.is_empty() || !known {
                return None;
            }
            found = Some((pair.0.to_owned(), pair.1.to_owned()));
            places += 1;
        }
    }
    found.filter(|_| places > 1)
}
