//! Files now, compared with what was known of them: server by server, for as long as there is time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::ToolCx;
use lsp_client::{Checked, Diagnostic, Look, RequestCx, Severity};
use text::{LineIndex, TextEdit};
use workspace::{AbsPath, Document};

use super::then::Then;
use super::verdict::Tally;
use super::{Before, Known, Old, Same, difference};
use crate::Kit;

/// So many files are waited for as long as one.
const FEW: usize = 5;
/// Many are waited for so many times as long at most.
const MOST_TIMES: u32 = 4;
/// How often a server is shown an old text in vain.
const MAX_TRIES: u8 = 3;

/// What a server says now of a file of which it is not known what it said before.
struct Unknown {
    before: Before,
    document: Document,
    server: String,
    now: Vec<Diagnostic>,
}

/// How long is waited for what servers say of files.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    /// At most so long …
    pub all: Duration,
    /// … and no longer when after the first none was answered for so long.
    pub quiet: Duration,
    /// At least so long for what they said of the texts before, since the start.
    pub back: Duration,
}

impl Wait {
    /// With an edit that concerns so many files, of which a server looks at one after the other: what it
    /// waits in all, and without an answer.
    pub fn of(wait: Duration, files: usize) -> Self {
        let more = u32::try_from(files.saturating_sub(FEW)).unwrap_or(u32::MAX);
        let all = wait.saturating_add((wait / 10).saturating_mul(more)).min(wait * MOST_TIMES);
        Self { all, quiet: wait, back: Duration::ZERO }
    }

    /// Before the edit: what is not known then is asked for afterwards.
    pub fn before(self) -> Self {
        Self { all: self.all / 2, quiet: self.quiet / 2, ..self }
    }

    /// After an edit before which nobody answered: no longer, with what was waited then, than for others.
    pub fn again(self) -> Self {
        self.before()
    }
}

/// Whether so many files are asked about only as far as it matters.
pub(super) fn is_many(files: usize) -> bool {
    files > FEW
}

/// Compares; what is not known in time is pending.
pub(super) async fn tally(files: Vec<Before>, kit: &Kit, wait: Wait, cx: &ToolCx) -> Tally {
    let started = Instant::now();
    let mut tally = Tally::default();
    let (mut there, mut questions) = (Vec::new(), Vec::new());
    for before in files {
        match kit.workspace.document(&before.path) {
            Ok(document) => {
                questions.push((document, before.look()));
                there.push(before);
            }
            // Gone meanwhile; whoever removed it knows.
            Err(_) => drop(tally.incomparable.insert(before.path)),
        }
    }
    let mut unknown = Vec::new();
    let answers = ask(kit, &questions, wait, cx).await;
    for ((before, (document, _)), answers) in there.iter().zip(&questions).zip(answers) {
        let waiting = compare_file(&mut tally, before, document, answers, &mut unknown);
        waiting.into_iter().for_each(|file| kit.pending.put(file));
    }
    // Of a file without problems nothing is new. What else was fixed is told of few.
    if is_many(unknown.len()) {
        unknown.retain(|it| match it.now.is_empty() {
            true => tally.clean(&it.before, &it.server),
            false => true,
        });
    }
    if !unknown.is_empty() {
        let ends = (started + wait.all.max(wait.back)).min(Instant::now() + wait.quiet.max(wait.back));
        ask_back(&mut tally, kit, unknown, ends, cx).await;
    }
    tally
}

/// Compares with what servers say of the old texts, which they are shown for it.
async fn ask_back(tally: &mut Tally, kit: &Kit, unknown: Vec<Unknown>, ends: Instant, cx: &ToolCx) {
    // Several edits may be pending: the texts before the first of them.
    let mut then: Vec<&Then> = unknown.iter().filter_map(|it| it.before.then.as_deref()).collect();
    then.sort_by_key(|then| then.at());
    let Some(then) = then.into_iter().cloned().reduce(|all, then| all.and(&then)) else { return };
    let wait = ends.saturating_duration_since(Instant::now());
    let others = unknown.iter().map(|it| it.document.clone()).collect();
    let (answers, mut why) = then.ask(kit, others, wait, cx).await;
    let mut pending: BTreeMap<AbsPath, Before> = BTreeMap::new();
    for Unknown { before, document, server, now } in unknown {
        let said = answers.get(&before.path).and_then(|said| said.iter().find(|it| it.server == server));
        match said.map(|it| &it.known) {
            Some(Ok(items)) => {
                let old = Old { text: then.text(&document), items: of(items, &server) };
                compare_server(tally, &before, &document, &server, &old, now);
            }
            _ if now.is_empty() => drop(tally.clean(&before, &server)),
            other => {
                if let Some(Err(reason)) = other {
                    why.insert(server.clone(), reason.clone());
                }
                let why = why.get(&server).map_or("it was not asked", String::as_str);
                if before.tries >= MAX_TRIES {
                    tally.unknown.insert(server);
                    tally.incomparable.insert(before.path);
                    continue;
                }
                tally.why.insert(format!("{server}, of the text before: {why}"));
                tally.pending.insert(before.path.clone());
                let file = pending.entry(before.path.clone()).or_insert_with(|| Before {
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
    pending.into_values().for_each(|file| kit.pending.put(file));
}

/// One file, server by server, as far as both is known; what is to be asked about again. What a server
/// said before and can be asked for still goes to `unknown`.
fn compare_file(
    tally: &mut Tally,
    before: &Before,
    document: &Document,
    answers: Vec<Checked>,
    unknown: &mut Vec<Unknown>,
) -> Option<Before> {
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
            Known::All(old) => Some(Old { items: of(&old.items, &server), ..old.clone() }),
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
                tally.why.insert(by(&server, &why));
                tally.pending.insert(before.path.clone());
                pending.insert(server, old);
            }
            (old, known) => {
                if let (Some(_), Err(why)) = (old, known) {
                    tally.why.insert(by(&server, &why));
                }
                tally.unknown.insert(server);
                tally.incomparable.insert(before.path.clone());
            }
        }
    }
    (!pending.is_empty()).then(|| Before { known: Known::Only(pending), ..before.clone() })
}

fn compare_server(
    tally: &mut Tally,
    before: &Before,
    document: &Document,
    server: &str,
    old: &Old,
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
        tally.dependents.insert(before.path.clone());
    }
}

/// What a trial found, compared with what was known before it.
pub(super) fn compare_tried(tally: &mut Tally, before: &Before, document: &Document, answers: Vec<Checked>) {
    // What is not known of a trial comes with no later result.
    let mut unknown = Vec::new();
    let back = Before { then: None, ..before.clone() };
    drop(compare_file(tally, &back, document, answers, &mut unknown));
}

/// Why a server did not say, with its name once.
fn by(server: &str, why: &str) -> String {
    match why.starts_with(server) {
        true => why.to_owned(),
        false => format!("{server}: {why}"),
    }
}

/// Errors and warnings of one server.
pub(super) fn of(items: &[Diagnostic], server: &str) -> Vec<Diagnostic> {
    let kept = items.iter().filter(|it| it.server == server && it.severity <= Severity::Warning);
    kept.cloned().collect()
}

/// What each server says of documents in time, in their order; nothing of one when none can be asked.
pub(super) async fn ask(
    kit: &Kit,
    questions: &[(Document, Look)],
    wait: Wait,
    cx: &ToolCx,
) -> Vec<Vec<Checked>> {
    let request = RequestCx::new(wait.all, cx.cancel.clone());
    let answers = kit.servers.check_all(questions, wait.quiet, &request).await;
    let known = questions.iter().zip(answers).map(|((document, _), answers)| {
        answers.unwrap_or_else(|error| {
            tracing::debug!(%error, "nothing is known of {}", document.path);
            Vec::new()
        })
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_waits_as_long_as_is_set_and_longer_only_with_many_files() {
        let wait = |files| Wait::of(Duration::from_secs(3), files);
        for few in 0..=FEW {
            assert_eq!((wait(few).all, wait(few).quiet), (Duration::from_secs(3), Duration::from_secs(3)));
        }
        assert_eq!(wait(FEW + 10).all, Duration::from_secs(6));
        for many in [40, 1_000, usize::MAX] {
            assert_eq!((wait(many).all, wait(many).quiet), (Duration::from_secs(12), Duration::from_secs(3)));
        }
        // Who never answers is waited for no longer than that, before and after together.
        for files in [1, 15, 40] {
            assert!(wait(files).before().all + wait(files).again().all <= wait(files).all);
        }
    }
}
