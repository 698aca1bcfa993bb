//! What an edit broke or mended: diagnostics before, diagnostics after, and the difference, in the
//! files it changes and in those it may concern.
//!
//! Only languages whose servers run are asked about, within the time an edit may wait; what is not
//! known by then is `pending`, never `clean`, and is told with the next result. What a server had not
//! said before the edit it is asked for after it: it is shown the old texts for that, as in a trial.

mod before;
mod cold;
mod compare;
mod dependents;
mod difference;
mod late;
mod then;
mod verdict;

pub(crate) use before::Trial;
pub use before::{Verify, VerifyPolicy};
pub(crate) use difference::{Same, difference};
pub use late::Pending;
pub(crate) use late::Telling;
pub(crate) use verdict::Verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use agent::ToolCx;
use lsp_client::{Diagnostic, Look};
use workspace::{AbsPath, ChangeKind, Document, FileChange, Plan};

use self::compare::{Wait, ask, is_many, of, tally};
use self::then::Then;
use crate::Kit;

/// At most this many changed files are compared.
const MAX_FILES: usize = 20;

/// What was known before the edit.
#[derive(Default)]
pub(crate) struct Baseline {
    files: Vec<Before>,
    /// Changed files and dependents that are not looked at.
    unchecked: usize,
    /// Package roots of those of them that no server works on.
    cold: BTreeSet<AbsPath>,
    /// Not every file was searched for what depends on the edit.
    cut: bool,
    /// It was waited for in vain.
    silent: bool,
}

/// What was known of one file.
#[derive(Debug, Clone)]
struct Before {
    /// Where the file will be.
    path: AbsPath,
    known: Known,
    /// Not changed itself.
    dependent: bool,
    /// The texts before the edit, for servers that had not said in time what they say of them.
    then: Option<Arc<Then>>,
    /// How often it was asked for in vain what was wrong then.
    tries: u8,
    /// The one word that the edit replaced by another, if that is all it did.
    renamed: Option<Arc<(String, String)>>,
}

#[derive(Debug, Clone)]
enum Known {
    /// All there was, whoever says what there is now; nothing of a file that was not there.
    All(Old),
    /// What each server said; the others are asked for it afterwards.
    Of(BTreeMap<String, Old>),
    /// The same, of these servers alone: the others have been told of.
    Only(BTreeMap<String, Option<Old>>),
}

/// What one server said of a text.
#[derive(Debug, Clone, Default)]
struct Old {
    text: Arc<str>,
    items: Vec<Diagnostic>,
}

impl Baseline {
    /// Diagnostics of the files that `plan` changes or concerns, before it is committed.
    pub async fn take(kit: &Kit, plan: &Plan, cx: &ToolCx) -> Self {
        before::warm_up(kit, plan, cx).await;
        cold::begin(kit, plan);
        let mut out = Self::of(kit, std::slice::from_ref(plan), cx).await;
        let later = is_many(out.files.len()) && kit.settings().verify == Verify::After;
        let (mut asked, mut questions) = (Vec::new(), Vec::new());
        for before in &mut out.files {
            // A server works long at many: of those that stay as they are it is asked after the edit, and
            // of what was wrong before only where something is wrong then.
            let back = before.then.as_ref().is_some_and(|then| then.can_be_shown());
            if !matches!(before.known, Known::Of(_)) || later && before.dependent && back {
                continue;
            }
            let from = before.then.as_ref().map_or(&before.path, |then| then.place(&before.path));
            // One that starts is asked afterwards what it says of the texts before.
            if !kit.servers.is_warm(from) {
                continue;
            }
            if let Ok(document) = kit.workspace.document(from) {
                questions.push((document, before.look()));
                asked.push(before);
            }
        }
        let wait = Wait::of(kit.settings().diagnostics_wait, questions.len()).before();
        let answers = ask(kit, &questions, wait, cx).await;
        let is_known = |answers: &Vec<lsp_client::Checked>| answers.iter().any(|it| it.known.is_ok());
        out.silent = !answers.is_empty() && !answers.iter().any(is_known);
        for ((before, (document, _)), answers) in asked.into_iter().zip(&questions).zip(answers) {
            let known = answers.into_iter().filter_map(|it| {
                let items = of(&it.known.ok()?, &it.server);
                Some((it.server, Old { text: Arc::clone(&document.text), items }))
            });
            before.known = Known::Of(known.collect());
        }
        out
    }

    /// The files that `plans` change or concern, before or after they are committed; of none is known
    /// what was wrong with it.
    pub async fn of(kit: &Kit, plans: &[Plan], cx: &ToolCx) -> Self {
        Self::of_changes(kit, &plans.iter().flat_map(Plan::changes).collect::<Vec<_>>(), cx).await
    }

    /// The same of changes that are no plan's.
    pub async fn of_changes(kit: &Kit, changes: &[&FileChange], cx: &ToolCx) -> Self {
        let mut out = Self::default();
        let then = Arc::new(Then::of(changes));
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
            if !cold::is_asked(kit, from) && !cold::is_asked(kit, &change.path) {
                cold.extend(cold::root(kit, change).map(|root| (change.path.clone(), root)));
                continue;
            }
            changed.insert(change.path.clone());
            if out.files.len() == MAX_FILES {
                out.unchecked += 1;
                continue;
            }
            let known = match then.made(&change.path) {
                true => Known::All(Old::default()),
                false => Known::Of(BTreeMap::new()),
            };
            let (path, then) = (change.path.clone(), Some(Arc::clone(&then)));
            let renamed = renamed.clone();
            out.files.push(Before { path, known, dependent: false, then, tries: 0, renamed });
        }
        let is_told = |change: &&FileChange| {
            cold::is_asked(kit, &change.path) || matches!(change.kind, ChangeKind::Renamed { .. })
        };
        if out.files.is_empty() && !changes.iter().any(is_told) {
            return out;
        }
        let dependents = dependents::of(kit, changes, cx).await;
        out.unchecked += dependents.unchecked + cold.len();
        out.cold = cold.into_values().chain(dependents.cold).collect();
        out.cut = dependents.cut;
        out.files.extend(dependents.documents.into_iter().map(|document| Before {
            path: document.path,
            known: Known::Of(BTreeMap::new()),
            dependent: true,
            then: Some(Arc::clone(&then)),
            tries: 0,
            renamed: renamed.clone(),
        }));
        out
    }

    /// With all that was known of one document.
    pub fn with(mut self, document: &Document, items: Vec<Diagnostic>) -> Self {
        if let Some(file) = self.files.iter_mut().find(|file| file.path == document.path) {
            file.known = Known::All(Old { text: Arc::clone(&document.text), items });
        }
        self
    }

    /// The same files after the commit, and those of which something was pending from before.
    pub async fn compare(mut self, kit: &Kit, cx: &ToolCx) -> Verdict {
        if self.files.is_empty() && self.unchecked == 0 {
            return Verdict::nothing();
        }
        for earlier in kit.pending.take(None) {
            match self.files.iter_mut().find(|file| file.path == earlier.path) {
                Some(file) => file.with_earlier(earlier),
                None => self.files.push(earlier),
            }
        }
        let (unchecked, cold, cut) = (self.unchecked, std::mem::take(&mut self.cold), self.cut);
        let wait = Wait::of(kit.settings().diagnostics_wait, self.files.len());
        let wait = if self.silent { wait.again() } else { wait };
        let verdict = tally(self.files, kit, wait, cx).await.verdict(kit, unchecked, &cold, cut);
        verdict.tell(cx).await;
        verdict
    }

    /// What has become known of files that were pending; what has not stays so.
    async fn arrived(mut self, kit: &Kit, wait: Duration, cx: &ToolCx) -> Verdict {
        // A result does not wait for a server to start.
        let (coming, here) =
            self.files.into_iter().partition(|file: &Before| kit.servers.is_coming(&file.path));
        Vec::into_iter(coming).for_each(|file| kit.pending.put(file));
        self.files = here;
        let wait = Wait { all: wait, quiet: wait, back: then::LATER };
        let tally = tally(self.files, kit, wait, cx).await;
        if tally.compared.is_empty() && tally.incomparable.is_empty() {
            Verdict::nothing()
        } else {
            let verdict = tally.verdict(kit, 0, &BTreeSet::new(), false);
            verdict.tell(cx).await;
            verdict
        }
    }
}

impl Before {
    fn look(&self) -> Look {
        if self.dependent { Look::Dependent } else { Look::Itself }
    }

    /// What was not known before this edit, but before an earlier one, is compared with that.
    fn with_earlier(&mut self, earlier: Before) {
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
                // It is asked for the texts before the earlier edit, where they can be shown.
                None if back => drop(now.remove(&server)),
                None => {}
            }
        }
    }
}

/// The word that changes replace by another, if all their edits do, and there are several: a rename.
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
