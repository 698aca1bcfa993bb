//! Comparison of diagnostics with the baseline, server by server, within the time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::ToolCx;
use lsp_client::{CheckRole, Checked, Diagnostic, RequestCx, Severity};
use paths::AbsPath;
use text::{LineIndex, TextEdit};
use workspace::Document;

use super::baseline::OldTexts;
use super::verdict::Tally;
use super::{FileBaseline, Known, Same, ServerDiagnostics, difference};
use crate::ToolContext;
use crate::notes::render_unknown;

/// Files that get as much time as one.
const FEW: usize = 5;
/// Maximum factor of that time for many files.
const MOST_TIMES: u32 = 4;
/// Number of times a server is shown an old text without an answer.
const MAX_TRIES: u8 = 3;

/// New diagnostics of a server for a file without known old ones.
struct Unknown {
    before: FileBaseline,
    document: Document,
    server: String,
    now: Vec<Diagnostic>,
}

/// The time that a check may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    /// Time limit of the check.
    pub all: Duration,
    /// Time limit without another answer after the first.
    pub quiet: Duration,
    /// Least time for the diagnostics of the old texts, from the start.
    pub back: Duration,
}

impl Wait {
    /// The time for this many files: in all, and without an answer.
    ///
    /// A server checks them one by one.
    pub fn of(wait: Duration, files: usize) -> Self {
        let more = u32::try_from(files.saturating_sub(FEW)).unwrap_or(u32::MAX);
        let all = wait.saturating_add((wait / 10).saturating_mul(more)).min(wait * MOST_TIMES);
        Self { all, quiet: wait, back: Duration::ZERO }
    }

    /// The time before the edit: what is not known then is requested afterwards.
    pub fn before(self) -> Self {
        Self { all: self.all / 2, quiet: self.quiet / 2, ..self }
    }

    /// The time after an edit if no server answered before it.
    ///
    /// Both times together are no longer than for other edits.
    pub fn again(self) -> Self {
        self.before()
    }
}

/// Whether there are so many files that only the relevant ones are checked.
pub(super) fn is_many(files: usize) -> bool {
    files > FEW
}

/// Compares files; what is not known in time is pending.
pub(super) async fn tally(files: Vec<FileBaseline>, context: &ToolContext, wait: Wait, cx: &ToolCx) -> Tally {
    let started = Instant::now();
    let mut tally = Tally::default();
    let (mut existing, mut questions) = (Vec::new(), Vec::new());
    for before in files {
        match context.workspace.document(&before.path) {
            Ok(document) => {
                questions.push((document, before.role()));
                existing.push(before);
            }
            // Deleted meanwhile.
            Err(_) => drop(tally.incomparable.insert(before.path)),
        }
    }
    let mut unknown = Vec::new();
    let answers = ask(context, &questions, wait, cx).await;
    for ((before, (document, _)), answers) in existing.iter().zip(&questions).zip(answers) {
        let waiting = compare_file(&mut tally, context, before, document, answers, &mut unknown);
        waiting.into_iter().for_each(|file| context.pending.put(file));
    }
    // A file without problems has no new ones. Fixed problems are reported only for few files.
    if is_many(unknown.len()) {
        unknown.retain(|it| match it.now.is_empty() {
            true => tally.clean(&it.before, &it.server),
            false => true,
        });
    }
    if !unknown.is_empty() {
        let ends = (started + wait.all.max(wait.back)).min(Instant::now() + wait.quiet.max(wait.back));
        ask_back(&mut tally, context, unknown, ends, cx).await;
    }
    tally
}

/// Compares with the diagnostics of the old texts.
///
/// Shows the servers these texts to request them.
async fn ask_back(
    tally: &mut Tally,
    context: &ToolContext,
    unknown: Vec<Unknown>,
    ends: Instant,
    cx: &ToolCx,
) {
    // Several edits may be pending: the texts before the first of them.
    let mut then: Vec<&OldTexts> = unknown.iter().filter_map(|it| it.before.then.as_deref()).collect();
    then.sort_by_key(|then| then.at());
    let Some(then) = then.into_iter().cloned().reduce(|all, then| all.and(&then)) else { return };
    let wait = ends.saturating_duration_since(Instant::now());
    let others = unknown.iter().map(|it| it.document.clone()).collect();
    let (answers, mut why) = then.ask(context, others, wait, cx).await;
    let mut pending: BTreeMap<AbsPath, FileBaseline> = BTreeMap::new();
    for Unknown { before, document, server, now } in unknown {
        let checked =
            answers.get(&before.path).and_then(|checked| checked.iter().find(|it| it.server == server));
        match checked.map(|it| &it.known) {
            Some(Ok(items)) => {
                let old = ServerDiagnostics { text: then.text(&document), items: of(items, &server) };
                compare_server(tally, &before, &document, &server, &old, now);
            }
            _ if now.is_empty() => drop(tally.clean(&before, &server)),
            other => {
                if let Some(Err(reason)) = other {
                    why.insert(server.clone(), render_unknown(context, reason));
                }
                let why = why.get(&server).map_or("it was not asked", String::as_str);
                if before.tries >= MAX_TRIES {
                    tally.not_before.insert(server);
                    tally.incomparable.insert(before.path);
                    continue;
                }
                tally.why.insert(format!("{server}, of the text before: {why}"));
                tally.pending.insert(before.path.clone());
                let file = pending.entry(before.path.clone()).or_insert_with(|| FileBaseline {
                    known: Known::Only(BTreeMap::new()),
                    tries: before.tries + 1,
                    ..before
                });
                if let Known::Only(servers) = &mut file.known {
                    servers.insert(server, None);
                }
            }
        }
    }
    pending.into_values().for_each(|file| context.pending.put(file));
}

/// Compares one file, server by server, as far as both sides are known.
///
/// Returns the part to request again. Servers that can still be asked for the old diagnostics go to `unknown`.
fn compare_file(
    tally: &mut Tally,
    context: &ToolContext,
    before: &FileBaseline,
    document: &Document,
    answers: Vec<Checked>,
    unknown: &mut Vec<Unknown>,
) -> Option<FileBaseline> {
    let back = before.then.as_ref().is_some_and(|then| then.can_be_shown());
    let mut pending = BTreeMap::new();
    if answers.is_empty() {
        tally.incomparable.insert(before.path.clone());
    }
    for Checked { server, known, pending: later, on_save, disowned } in answers {
        if let Some(words) = disowned {
            tally.disowned.insert((before.path.clone(), format!("{words} ({server})")));
            continue;
        }
        let old = match &before.known {
            Known::All(old) => Some(ServerDiagnostics { items: of(&old.items, &server), ..old.clone() }),
            Known::Of(known) => known.get(&server).cloned(),
            Known::Only(known) => match known.get(&server) {
                Some(old) => old.clone(),
                None => continue,
            },
        };
        tally.on_save.extend(on_save.into_iter().map(|source| (source, server.clone())));
        match (old, known) {
            (Some(old), Ok(now)) => compare_server(tally, before, document, &server, &old, now),
            (None, Ok(now)) if back => {
                let now = of(&now, &server);
                unknown.push(Unknown { before: before.clone(), document: document.clone(), server, now })
            }
            (None, Ok(now)) if of(&now, &server).is_empty() => drop(tally.clean(before, &server)),
            (old, Err(why)) if later && (old.is_some() || back) => {
                tally.why.insert(by(&server, &render_unknown(context, &why)));
                tally.pending.insert(before.path.clone());
                pending.insert(server, old);
            }
            (old, known) => {
                if let (Some(_), Err(why)) = (&old, &known) {
                    tally.why.insert(by(&server, &render_unknown(context, why)));
                }
                if old.is_none() {
                    tally.not_before.insert(server.clone());
                }
                if known.is_err() {
                    tally.not_after.insert(server);
                }
                tally.incomparable.insert(before.path.clone());
            }
        }
    }
    (!pending.is_empty()).then(|| FileBaseline { known: Known::Only(pending), ..before.clone() })
}

fn compare_server(
    tally: &mut Tally,
    before: &FileBaseline,
    document: &Document,
    server: &str,
    old: &ServerDiagnostics,
    now: Vec<Diagnostic>,
) {
    let edits: Vec<TextEdit> = match old.text == document.text {
        true => Vec::new(),
        false => text::diff_edits(&old.text, &document.text),
    };
    let now = of(&now, server);
    let same = match before.renamed.as_deref() {
        Some((from, to)) => Same::Renamed { from, to },
        None => Same::Message,
    };
    let (introduced, fixed) = difference(&old.text, &edits, &old.items, &document.text, now, same);
    let placed = |text: &Arc<str>, items: Vec<Diagnostic>| {
        let index = LineIndex::new(text);
        let path = &before.path;
        let place = |item: Diagnostic| (path.clone(), index.line_of(item.range.start) + 1, item);
        items.into_iter().map(place).collect::<Vec<_>>()
    };
    let fixed = fixed.into_iter().cloned().collect();
    tally.new.extend(placed(&document.text, introduced));
    tally.fixed.extend(placed(&old.text, fixed));
    tally.servers.insert(server.to_owned());
    tally.compared.insert(before.path.clone());
    if before.dependent {
        tally.dependents.entry(before.path.clone()).or_default().insert(server.to_owned());
    }
}

/// Compares the diagnostics of a preview with the baseline.
pub(super) fn compare_preview(
    tally: &mut Tally,
    context: &ToolContext,
    before: &FileBaseline,
    document: &Document,
    answers: Vec<Checked>,
) {
    // A preview is not completed by a later result.
    let mut unknown = Vec::new();
    let back = FileBaseline { then: None, ..before.clone() };
    drop(compare_file(tally, context, &back, document, answers, &mut unknown));
}

/// Prefixes a reason with the server's name, unless the reason begins with it.
fn by(server: &str, why: &str) -> String {
    match why.starts_with(server) {
        true => why.to_owned(),
        false => format!("{server}: {why}"),
    }
}

/// The errors and warnings of one server.
pub(super) fn of(items: &[Diagnostic], server: &str) -> Vec<Diagnostic> {
    let kept = items.iter().filter(|it| it.server == server && it.severity <= Severity::Warning);
    kept.cloned().collect()
}

/// Diagnostics of documents from each server, in the order of the documents.
///
/// Empty for a document that no server can be asked about.
pub(super) async fn ask(
    context: &ToolContext,
    questions: &[(Document, CheckRole)],
    wait: Wait,
    cx: &ToolCx,
) -> Vec<Vec<Checked>> {
    let request = RequestCx::new(wait.all, &cx.cancel);
    let answers = context.servers.check_all(questions, wait.quiet, &request).await;
    let known = questions.iter().zip(answers).map(|((document, _), answers)| {
        answers.unwrap_or_else(|error| {
            tracing::debug!(%error, "no baseline of {}", document.path);
            Vec::new()
        })
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_waits_longer_only_with_many_files() {
        let wait = |files| Wait::of(Duration::from_secs(3), files);
        for few in 0..=FEW {
            assert_eq!((wait(few).all, wait(few).quiet), (Duration::from_secs(3), Duration::from_secs(3)));
        }
        assert_eq!(wait(FEW + 10).all, Duration::from_secs(6));
        for many in [40, 1_000, usize::MAX] {
            assert_eq!((wait(many).all, wait(many).quiet), (Duration::from_secs(12), Duration::from_secs(3)));
        }
        // A server that never answers is not waited for longer, before and after the edit together.
        for files in [1, 15, 40] {
            assert!(wait(files).before().all + wait(files).again().all <= wait(files).all);
        }
    }
}
