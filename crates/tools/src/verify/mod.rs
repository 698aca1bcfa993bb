//! What an edit broke or mended: diagnostics before, diagnostics after, and the difference, in the
//! files it changes and in those it may concern.
//!
//! Only languages whose servers run are asked about, within the time an edit may wait; what is not
//! known by then is `pending`, never `clean`, and is told with the next result.

mod before;
mod dependents;
mod difference;
mod late;
mod verdict;

pub(crate) use before::Trial;
pub use before::{Verify, VerifyPolicy};
pub(crate) use difference::{Same, difference};
pub use late::Pending;
pub(crate) use late::Telling;
pub(crate) use verdict::Verdict;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agent::ToolCx;
use lsp_client::{Checked, Diagnostic, Look, RequestCx, Severity};
use text::{LineIndex, TextEdit};
use tokio::time::Instant;
use workspace::{AbsPath, ChangeKind, Document, Plan};

use self::verdict::Tally;
use crate::Kit;

/// At most this many changed files are compared.
const MAX_FILES: usize = 20;

/// What was known before the edit.
#[derive(Default)]
pub(crate) struct Baseline {
    files: Vec<Before>,
    /// Changed files and dependents that are not looked at.
    unchecked: usize,
    /// Not every file was searched for what depends on the edit.
    cut: bool,
}

/// What was known of one file.
#[derive(Debug, Clone)]
struct Before {
    /// Where the file will be.
    path: AbsPath,
    text: Arc<str>,
    known: Known,
    /// Not changed itself.
    dependent: bool,
}

#[derive(Debug, Clone)]
enum Known {
    /// All there was, whoever says what there is now.
    All(Vec<Diagnostic>),
    /// What each server said; of others it is not known.
    Of(BTreeMap<String, Vec<Diagnostic>>),
}

/// What became of one file since `before` was known of it, whoever changed it; of `unchecked` others
/// nothing is known.
pub(crate) async fn since(
    kit: &Kit,
    document: &Document,
    before: Option<Vec<Diagnostic>>,
    unchecked: usize,
    cx: &ToolCx,
) -> Verdict {
    let known = match before {
        Some(items) => Known::All(items),
        None => Known::Of(BTreeMap::new()),
    };
    let (path, text) = (document.path.clone(), Arc::clone(&document.text));
    let file = Before { path, text, known, dependent: false };
    Baseline { files: vec![file], unchecked, cut: false }.compared(kit, cx).await
}

impl Baseline {
    /// Diagnostics of the files that `plan` changes or concerns, before it is committed.
    pub async fn take(kit: &Kit, plan: &Plan, cx: &ToolCx) -> Self {
        let ends = Instant::now() + kit.settings.diagnostics_wait;
        let mut out = Self::default();
        let mut asked = Vec::new();
        for change in plan.changes() {
            let from = match &change.kind {
                ChangeKind::Renamed { from } => from,
                _ => &change.path,
            };
            if change.after.is_none() || !kit.servers.is_warm(from) {
                continue;
            }
            if asked.len() == MAX_FILES {
                out.unchecked += 1;
                continue;
            }
            let text = change.before.clone().unwrap_or_default();
            asked.push((change.path.clone(), text, kit.workspace.document(from).ok(), Look::Itself));
        }
        if asked.is_empty() && !plan.changes().iter().any(|change| kit.servers.is_warm(&change.path)) {
            return out;
        }
        let dependents = dependents::of(kit, plan, cx).await;
        out.unchecked += dependents.unchecked;
        out.cut = dependents.cut;
        for document in dependents.documents {
            asked.push((document.path.clone(), document.text.clone(), Some(document), Look::Dependent));
        }
        let asks = asked.into_iter().map(|(path, text, document, look)| async move {
            let known = match document {
                None => Known::All(Vec::new()),
                Some(document) => {
                    let answers = ask(kit, &document, look, ends, cx).await;
                    let known = answers.into_iter().filter_map(|it| Some((it.server, it.known.ok()?)));
                    Known::Of(known.collect())
                }
            };
            Before { path, text, known, dependent: look == Look::Dependent }
        });
        out.files = futures_util::future::join_all(asks).await;
        out
    }

    /// The same files after the commit, and those of which something was pending from before.
    pub async fn compare(mut self, kit: &Kit, plan: &Plan, cx: &ToolCx) -> Verdict {
        if plan.is_empty() {
            return Verdict::nothing();
        }
        for earlier in kit.pending.take(None) {
            match self.files.iter_mut().find(|file| file.path == earlier.path) {
                // What was not known before this edit, but before an earlier one, is compared with that.
                Some(file) => {
                    if let (Known::Of(now), Known::Of(then)) = (&file.known, &earlier.known)
                        && !then.is_empty()
                        && then.keys().any(|server| !now.contains_key(server))
                    {
                        *file = Before { dependent: file.dependent, ..earlier };
                    }
                }
                None => self.files.push(earlier),
            }
        }
        self.compared(kit, cx).await
    }

    async fn compared(self, kit: &Kit, cx: &ToolCx) -> Verdict {
        if self.files.is_empty() && self.unchecked == 0 {
            return Verdict::nothing();
        }
        let (unchecked, cut) = (self.unchecked, self.cut);
        self.tally(kit, kit.settings.diagnostics_wait, cx).await.verdict(kit, unchecked, cut)
    }

    /// What has become known of files that were pending; what has not stays so.
    async fn arrived(self, kit: &Kit, wait: Duration, cx: &ToolCx) -> Verdict {
        let tally = self.tally(kit, wait, cx).await;
        if tally.compared == 0 { Verdict::nothing() } else { tally.verdict(kit, 0, false) }
    }

    async fn tally(self, kit: &Kit, wait: Duration, cx: &ToolCx) -> Tally {
        let ends = Instant::now() + wait;
        let asks = self.files.into_iter().map(|before| async move {
            let Ok(document) = kit.workspace.document(&before.path) else { return (before, None) };
            let look = if before.dependent { Look::Dependent } else { Look::Itself };
            let answers = ask(kit, &document, look, ends, cx).await;
            (before, Some((document, answers)))
        });
        let mut tally = Tally::default();
        for (before, now) in futures_util::future::join_all(asks).await {
            match now {
                Some((document, answers)) => {
                    let waiting = compare_file(&mut tally, &before, &document, answers);
                    waiting.into_iter().for_each(|file| kit.pending.put(file));
                }
                // Gone meanwhile; whoever removed it knows.
                None => tally.incomparable += 1,
            }
        }
        tally
    }
}

/// One file, server by server; what is to be asked about again.
fn compare_file(
    tally: &mut Tally,
    before: &Before,
    document: &Document,
    answers: Vec<Checked>,
) -> Option<Before> {
    let edits: Vec<TextEdit> = match before.text == document.text {
        true => Vec::new(),
        false => text::diff_edits(&before.text, &document.text),
    };
    let mut pending = BTreeMap::new();
    let (mut compared, mut waits, mut incomparable) = (false, false, answers.is_empty());
    for Checked { server, known, pending: later, on_save } in answers {
        tally.on_save.extend(on_save.into_iter().map(|source| (source, server.clone())));
        let old = match &before.known {
            Known::All(items) => Some(of(items, &server)),
            Known::Of(known) => known.get(&server).map(|items| of(items, &server)),
        };
        match (old, known) {
            (Some(old), Ok(new)) => {
                compared = true;
                tally.servers.insert(server.clone());
                let new = of(&new, &server);
                let (introduced, fixed) =
                    difference(&before.text, &edits, &old, &document.text, new, Same::Message);
                let index = LineIndex::new(&document.text);
                let placed = |item: Diagnostic| {
                    let line = index.line_of(item.range.start) + 1;
                    (before.path.clone(), line, item)
                };
                tally.new.extend(introduced.into_iter().map(placed));
                let was = LineIndex::new(&before.text);
                tally.fixed.extend(
                    fixed
                        .into_iter()
                        .map(|item| (before.path.clone(), was.line_of(item.range.start) + 1, item.clone())),
                );
            }
            (Some(old), Err(why)) if later => {
                waits = true;
                tally.why.insert(format!("{server}: {why}"));
                pending.insert(server, old);
            }
            (Some(_), Err(why)) => {
                tally.why.insert(format!("{server}: {why}"));
                tally.unknown.insert(server);
                incomparable = true;
            }
            (None, _) => {
                tally.unknown.insert(server);
                incomparable = true;
            }
        }
    }
    tally.compared += usize::from(compared);
    tally.dependents += usize::from(compared && before.dependent);
    tally.pending += usize::from(waits);
    tally.incomparable += usize::from(incomparable);
    (!pending.is_empty()).then(|| Before { known: Known::Of(pending), ..before.clone() })
}

/// Errors and warnings of one server.
fn of(items: &[Diagnostic], server: &str) -> Vec<Diagnostic> {
    let kept = items.iter().filter(|it| it.server == server && it.severity <= Severity::Warning);
    kept.cloned().collect()
}

/// What each server says of a document in time; nothing when none can be asked.
async fn ask(kit: &Kit, document: &Document, look: Look, ends: Instant, cx: &ToolCx) -> Vec<Checked> {
    let deadline = ends.saturating_duration_since(Instant::now());
    let request = RequestCx { deadline, cancel: cx.cancel.clone() };
    match kit.servers.check(document, look, &request).await {
        Ok(answers) => answers,
        Err(error) => {
            tracing::debug!(%error, "nothing is known of {}", document.path);
            Vec::new()
        }
    }
}
