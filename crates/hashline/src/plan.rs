//! From a patch to byte edits of the texts as they are now, or to a refusal.
//!
//! All or nothing over all sections. Changes no file: a [`Plan`] is a value for the caller to
//! commit. The store is touched only to learn what a refusal shows.
//!
//! Order of questions, per section: is the tag known, which version do the numbers belong to, do
//! operations claim the same lines, would the body become wrong content, were the lines shown, and
//! what became of them since.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use text::{ChangeLog, TextEdit};
use xxhash_rust::xxh3::xxh3_64;

use crate::chain::Chain;
use crate::patch::{FileOp, Op, Patch, Section, Span, Target, normal_path};
use crate::refusal::{AnchorLines, CurrentLine};
use crate::surgery::{self, Hunk, Place};
use crate::{
    Lines, Note, NoteKind, ParseRegression, Reason, Refusal, SectionRefusal, Snapshot, SnapshotStore, Syntax,
    Tag, block, furniture, gate, resolve,
};

/// Files larger than this are refused: 32 MiB.
pub const MAX_BYTES: usize = 32 << 20;
/// So many unseen lines are shown in a refusal, and then count as seen.
pub const MAX_UNSEEN: usize = 40;
/// Lines shown around an anchor in a refusal, on each side.
const CONTEXT: usize = 3;
/// Lines shown of one section in a refusal.
const MOST: usize = 120;
/// A line longer than this is not shown in a refusal.
const LONGEST: usize = 2_000;

/// The text of a path as it is now.
#[derive(Debug, Clone)]
pub enum Current {
    /// The text, without byte order mark where the caller keeps that apart.
    Text(Arc<str>),
    /// There is no such file.
    Missing,
    /// It is not UTF-8 text.
    NotUtf8,
    /// It is too large to be read.
    TooLarge,
}

impl From<Option<Arc<str>>> for Current {
    fn from(text: Option<Arc<str>>) -> Self {
        text.map_or(Self::Missing, Self::Text)
    }
}

/// The texts as they are now, and how they came about. A closure from path to text is one.
pub trait Documents {
    /// The text of a path (as in the patch, lexically normal). It may be asked more than once in a
    /// plan and must answer the same.
    fn current(&self, path: &str) -> Current;

    /// The recorded edits from `since` to the current text of `path`, where all of them are known:
    /// the editor's changes, say. They are checked before they are believed. Our own edits are in
    /// the store.
    fn changes(&self, path: &str, since: &Snapshot) -> Option<ChangeLog> {
        let _ = (path, since);
        None
    }
}

impl<F: Fn(&str) -> Option<Arc<str>>> Documents for F {
    fn current(&self, path: &str) -> Current {
        self(path).into()
    }
}

/// How to plan.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// Whether lines are shown with checks (setting `hashline.line_checks`). Then an anchor
    /// without a check is believed only if it means the same line in every version shown.
    pub checks: bool,
    /// Who parses source code; without, blocks are refused and nothing is said of brackets.
    pub syntax: Option<&'a dyn Syntax>,
    /// What becomes of an edit that breaks what parsed (setting `edit.parse_regression`).
    pub parse_regression: ParseRegression,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { checks: true, syntax: None, parse_regression: ParseRegression::Warn }
    }
}

/// What a patch comes to. Every section can be committed, or none should be.
#[derive(Debug, Clone)]
pub struct Plan {
    /// In the order of the patch.
    pub sections: Vec<SectionPlan>,
}

/// What a section comes to.
#[derive(Debug, Clone)]
pub struct SectionPlan {
    /// The section's path, lexically normal.
    pub path: String,
    /// The tag it named.
    pub tag: Tag,
    /// The current text, which the edits speak of.
    pub before: Arc<str>,
    /// Edits of `before`, in order of place, not overlapping; empty when nothing changes.
    pub edits: Vec<TextEdit>,
    /// `before` with the edits made.
    pub new_text: Arc<str>,
    /// What becomes of the file itself afterwards.
    pub file_op: FileOp,
    /// How the places were found.
    pub strategy: Strategy,
    /// Remarks for the model and the person.
    pub notes: Vec<Note>,
}

/// How the places of an edit were found in the current text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The current text is the one that the edit was written against.
    Exact,
    /// Mapped through the recorded edits made since.
    Chain,
    /// Found by the lines that did not change. Reserved: not given at present.
    Remap,
    /// Merged with the changes made since. Reserved: not given at present.
    Merge,
    /// The current text is already what the edit would make; nothing changes.
    AlreadyApplied,
}

/// Plans a patch against the texts as they are now. Reads and changes no file; blocks for no one.
///
/// # Errors
/// A [`Refusal`] when any section has no safe place. The lines it shows are recorded in the store
/// as seen, under the tags it names.
pub fn plan(
    patch: &Patch,
    store: &mut SnapshotStore,
    documents: &dyn Documents,
    options: Options<'_>,
) -> Result<Plan, Refusal> {
    let payload = xxh3_64(patch.to_string().as_bytes());
    let sources: Vec<Result<Source<'_>, Problem>> =
        patch.sections.iter().map(|section| source(section, store, documents, options)).collect();
    let registers = registers(&sources);
    let mut planned = Vec::new();
    let mut refused = Vec::new();
    for (section, source) in patch.sections.iter().zip(&sources) {
        let result = match source {
            Ok(source) => section_plan(source, &registers, patch, store, documents, options),
            Err(problem) => Err(problem.clone()),
        };
        match result {
            Ok(section) => planned.push(section),
            Err(problem) => refused.push(refuse(section, problem, store, documents)),
        }
    }
    match refused.first() {
        None => {
            store.accepted(payload);
            Ok(Plan { sections: planned })
        }
        Some(first) => Err(Refusal {
            reason: first.reason,
            times: store.refused(payload),
            checks: options.checks,
            sections: refused,
        }),
    }
}

/// A section whose numbers are understood.
struct Source<'a> {
    /// Its blocks written as lines of the version.
    section: Cow<'a, Section>,
    /// Version that the tag names, and the one that the numbers belong to, in the history.
    tagged: usize,
    version: usize,
    /// The text of the latter.
    snapshot: Arc<Snapshot>,
    current: Lines,
}

#[derive(Debug, Clone)]
struct Problem {
    reason: Reason,
    message: String,
    /// Lines to show besides the anchors, in the current text.
    show: Vec<usize>,
}

impl Problem {
    fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), show: Vec::new() }
    }
}

fn source<'a>(
    section: &'a Section,
    store: &mut SnapshotStore,
    documents: &dyn Documents,
    options: Options<'_>,
) -> Result<Source<'a>, Problem> {
    let current = current(&section.path, documents)?;
    valid(section)?;
    let unknown = |known: bool| {
        let message = if known {
            format!("the text with tag {} is no longer kept; use the lines and the tag below", section.tag)
        } else {
            format!("no text with tag {} was shown; use the lines and the tag below", section.tag)
        };
        Problem::new(Reason::UnknownTag, message)
    };
    let history = store.history(&section.path).ok_or_else(|| unknown(false))?;
    let tagged =
        history.find(section.tag, current.text()).ok_or_else(|| unknown(history.was_issued(section.tag)))?;
    let version = resolve::resolve(history, tagged, section, options.checks)
        .map_err(|(reason, message)| Problem::new(reason, message))?;
    let snapshot = history.versions[version].snapshot.clone();
    let section = block::expand(section, snapshot.lines(), options.syntax).map_err(|unclear| {
        // What is shown is the current text.
        let same = snapshot.text() == current.text();
        Problem {
            reason: unclear.reason,
            message: unclear.message,
            show: if same { unclear.show } else { Vec::new() },
        }
    })?;
    Ok(Source { section, tagged, version, snapshot, current })
}

fn current(path: &str, documents: &dyn Documents) -> Result<Lines, Problem> {
    match documents.current(path) {
        Current::Text(text) if text.len() <= MAX_BYTES => Ok(Lines::new(text)),
        Current::Text(_) | Current::TooLarge => Err(Problem::new(
            Reason::TooLarge,
            format!("the file is larger than {} MiB; change it with a command such as sed", MAX_BYTES >> 20),
        )),
        Current::NotUtf8 => {
            Err(Problem::new(Reason::NotUtf8, "the file is not UTF-8 text and cannot be edited by lines"))
        }
        Current::Missing => {
            Err(Problem::new(Reason::NotFound, "the file does not exist; new files are made with `write`"))
        }
    }
}

/// What the parser guarantees, for patches made in other ways.
fn valid(section: &Section) -> Result<(), Problem> {
    let bad = |message: &str| Err(Problem::new(Reason::InvalidPatch, message));
    if section.file_op == FileOp::Remove && !section.ops.is_empty() {
        return bad("REM deletes the file; leave the section's other operations out");
    }
    for op in &section.ops {
        if op.anchors().iter().any(|anchor| anchor.line == 0) {
            return bad("lines count from 1");
        }
        let span = match op {
            Op::Cut { span, .. } => Some(span),
            Op::Put { target: Target::Replace(span), .. }
            | Op::Paste { target: Target::Replace(span), .. } => Some(span),
            _ => None,
        };
        if let Some(Span::Lines { first, last }) = span
            && last.line < first.line
        {
            return bad("a range runs backwards");
        }
        if let Op::Put { body, .. } = op {
            if body.is_empty() {
                return bad("a PUT has no body; use CUT to delete lines");
            }
            if body.iter().any(|row| row.contains(['\n', '\r'])) {
                return bad("a body row holds a line end; a row is one line");
            }
        }
    }
    Ok(())
}

/// Lines cut in any section, by register; `Err` where two cuts claim one register.
type Registers = HashMap<Option<String>, Result<Vec<String>, ()>>;

fn registers(sources: &[Result<Source<'_>, Problem>]) -> Registers {
    let mut registers = Registers::new();
    for source in sources.iter().flatten() {
        for op in &source.section.ops {
            let Op::Cut { span: Span::Lines { first, last }, register } = op else { continue };
            let lines = source.snapshot.lines();
            let content = (first.line..=last.line).map(|line| lines.content(line).to_owned()).collect();
            registers
                .entry(register.clone())
                .and_modify(|register| *register = Err(()))
                .or_insert(Ok(content));
        }
    }
    registers
}

fn section_plan(
    source: &Source<'_>,
    registers: &Registers,
    patch: &Patch,
    store: &mut SnapshotStore,
    documents: &dyn Documents,
    options: Options<'_>,
) -> Result<SectionPlan, Problem> {
    let Source { section, snapshot, current, .. } = source;
    check_file_op(section, patch, documents)?;
    let lines = snapshot.lines();
    let hunks = hunks(section, lines, registers)?;
    if let Some((first, second)) = surgery::overlap(&hunks, lines.count()) {
        return Err(Problem::new(
            Reason::Overlap,
            format!(
                "`{}` and `{}` claim the same lines; write them as one operation",
                headline(&section.ops[first]),
                headline(&section.ops[second])
            ),
        ));
    }
    for (op, hunk) in section.ops.iter().zip(&hunks) {
        let first = hunk.place.line(lines.count());
        if let Op::Put { .. } = op
            && let Some(message) = furniture::refuse(&hunk.rows, first, lines)
        {
            return Err(Problem::new(Reason::InvalidPatch, message));
        }
    }
    let way = way(source, &hunks, store, documents)?;
    unseen(source, &hunks, store, &way)?;
    let Way { hunks: placed, strategy, note } = way;
    let (mut placed, mut edits) = match strategy {
        Strategy::AlreadyApplied => (placed, Vec::new()),
        _ => {
            let edits = surgery::edits(current, &placed);
            (placed, edits)
        }
    };
    let mut notes: Vec<Note> = note.into_iter().collect();
    let mut strategy = strategy;
    if strategy != Strategy::AlreadyApplied {
        if edits.is_empty() && section.file_op == FileOp::Keep {
            strategy = Strategy::AlreadyApplied;
            notes.push(already_applied());
        } else if !edits.is_empty() {
            let gated = gate::check(&section.path, &section.ops, current, placed, edits, options).map_err(
                |barred| Problem { reason: barred.reason, message: barred.message, show: barred.show },
            )?;
            (placed, edits) = (gated.hunks, gated.edits);
            notes.extend(gated.notes);
        }
    }
    let new_text = text::apply(current.text(), &edits).map_err(|error| {
        // Cannot happen while surgery keeps its promise; a refusal costs nothing if it ever does.
        Problem::new(Reason::Unsupported, format!("the edits do not fit together: {error}"))
    })?;
    if !edits.is_empty() && new_text.contains('\r') && !lines_add_up(current, &placed, &new_text) {
        return Err(Problem::new(
            Reason::Unsupported,
            "a CR of one line and an LF of the next would become one line end; make the file's line ends alike first",
        ));
    }
    Ok(SectionPlan {
        path: section.path.clone(),
        tag: section.tag,
        before: current.text().clone(),
        edits,
        new_text: new_text.into(),
        file_op: section.file_op.clone(),
        strategy,
        notes,
    })
}

/// Whether the new text has the lines that it should: in a text with lone CRs, an emptied line may
/// bring a CR and an LF together.
fn lines_add_up(current: &Lines, hunks: &[Hunk], new_text: &str) -> bool {
    let added: usize = hunks.iter().map(|hunk| hunk.rows.len()).sum();
    let removed: usize = hunks
        .iter()
        .map(|hunk| match hunk.place {
            Place::Lines { first, last } => last + 1 - first,
            _ => 0,
        })
        .sum();
    let ends_empty = |lines: &Lines| {
        // A last line that is empty and has no line end is none.
        lines.text().ends_with(['\n', '\r'])
    };
    let new = Lines::new(new_text.into());
    let expected = (current.count() + added).saturating_sub(removed);
    new.count() == expected || (new.count() + 1 == expected && ends_empty(&new) != ends_empty(current))
}

fn check_file_op(section: &Section, patch: &Patch, documents: &dyn Documents) -> Result<(), Problem> {
    let FileOp::Rename { to } = &section.file_op else { return Ok(()) };
    let to = normal_path(to);
    let exists =
        |message: String| Err(Problem::new(Reason::Exists, format!("{message}; choose another destination")));
    if !matches!(documents.current(&to), Current::Missing) {
        return exists(format!("`{to}` exists already"));
    }
    let others = patch.sections.iter().filter(|other| other.path != section.path);
    for other in others {
        let same = other.path == to
            || matches!(&other.file_op, FileOp::Rename { to: other } if normal_path(other) == to);
        if same {
            return exists(format!("`{to}` is named by another section"));
        }
    }
    Ok(())
}

/// One hunk per operation, in lines of the snapshot.
fn hunks(section: &Section, lines: &Lines, registers: &Registers) -> Result<Vec<Hunk>, Problem> {
    let mut hunks = Vec::new();
    for op in &section.ops {
        let (target, rows) = match op {
            Op::Put { target, body, old } => {
                old_rows(target, old, lines)?;
                (target.clone(), body.clone())
            }
            Op::Cut { span, .. } => (Target::Replace(span.clone()), Vec::new()),
            Op::Paste { target, register } => {
                let name = register.as_ref().map_or("without a name".to_owned(), |name| format!("@{name}"));
                let rows = match registers.get(register) {
                    Some(Ok(rows)) => rows.clone(),
                    Some(Err(())) => {
                        let message =
                            format!("two CUTs fill the register {name}; give each a name of its own");
                        return Err(Problem::new(Reason::InvalidPatch, message));
                    }
                    None => {
                        let message = format!(
                            "no CUT of this patch fills the register {name}; a CUT and its paste stand in one call"
                        );
                        return Err(Problem::new(Reason::InvalidPatch, message));
                    }
                };
                (target.clone(), rows)
            }
        };
        let place = match target {
            Target::Replace(Span::Lines { first, last }) => {
                Place::Lines { first: first.line, last: last.line }
            }
            Target::Before(anchor) => Place::Before(anchor.line),
            Target::After(anchor) => Place::After(anchor.line),
            Target::Head => Place::Head,
            Target::End => Place::End,
            Target::Replace(Span::Block(_)) | Target::AfterBlock(_) => {
                return Err(Problem::new(Reason::Unsupported, "block operations are not available"));
            }
        };
        hunks.push(Hunk { place, rows });
    }
    Ok(hunks)
}

/// `-` rows are proof: they must be the lines replaced.
fn old_rows(target: &Target, old: &[String], lines: &Lines) -> Result<(), Problem> {
    let Target::Replace(Span::Lines { first, last }) = target else { return Ok(()) };
    let same = |(row, line): (&String, usize)| lines.content(line) == row;
    let fits = old.len() == last.line + 1 - first.line && old.iter().zip(first.line..).all(same);
    if old.is_empty() || fits {
        return Ok(());
    }
    let message = format!(
        "the `-` rows are not lines {} to {}; name the lines to replace, and leave `-` rows out",
        first.line, last.line
    );
    Err(Problem::new(Reason::CheckMismatch, message))
}

/// Refuses lines that the model was not shown in the version it names. A few of them are shown,
/// and count as seen from then on.
fn unseen(source: &Source<'_>, hunks: &[Hunk], store: &mut SnapshotStore, way: &Way) -> Result<(), Problem> {
    if way.strategy == Strategy::AlreadyApplied {
        return Ok(());
    }
    let Some(history) = store.history(&source.section.path) else { return Ok(()) };
    let seen = &history.versions[source.version].seen;
    // The lines in the version named, and where they are in the current text.
    let mut missing: Vec<(usize, usize)> = Vec::new();
    for (hunk, placed) in hunks.iter().zip(&way.hunks) {
        let Some(((first, last), (now, _))) = hunk.place.lines().zip(placed.place.lines()) else { continue };
        missing.extend(seen.missing(first..=last).into_iter().map(|line| (line, line - first + now)));
    }
    missing.sort_unstable();
    missing.dedup();
    let (Some((_, first)), Some((_, last))) = (missing.first(), missing.last()) else { return Ok(()) };
    let named = if first == last { format!("line {first}") } else { format!("lines {first} to {last}") };
    let (lines, show): (Vec<usize>, Vec<usize>) = missing.iter().copied().unzip();
    let fits = |line: &usize| source.current.content(*line).len() <= LONGEST;
    if show.len() > MAX_UNSEEN || !show.iter().all(fits) {
        let message = format!("it touches {} of {named} that were not shown; read them first", show.len());
        return Err(Problem::new(Reason::UnseenLines, message));
    }
    store.see_version(&source.section.path, source.version, &lines);
    let message = format!(
        "it touches {named}, which was not shown; look below, and send the same edit again if it is right"
    );
    Err(Problem { reason: Reason::UnseenLines, message, show })
}

/// The hunks in lines of the current text.
struct Way {
    hunks: Vec<Hunk>,
    strategy: Strategy,
    note: Option<Note>,
}

fn already_applied() -> Note {
    Note::new(NoteKind::AlreadyApplied, "the file already reads so; nothing was changed")
}

fn way(
    source: &Source<'_>,
    hunks: &[Hunk],
    store: &mut SnapshotStore,
    documents: &dyn Documents,
) -> Result<Way, Problem> {
    let Source { section, tagged, version, snapshot, current } = source;
    let lines = snapshot.lines();
    let own = version == tagged;
    if own && lines.text() == current.text() {
        return Ok(Way { hunks: hunks.to_vec(), strategy: Strategy::Exact, note: None });
    }
    if own && lines.same_lines(current) {
        let note = Note::new(NoteKind::LineEnds, "only line ends of the file changed since it was read");
        return Ok(Way { hunks: hunks.to_vec(), strategy: Strategy::Exact, note: Some(note) });
    }
    let stale = || {
        Problem::new(
            Reason::Stale,
            format!(
                "the file changed since tag {} was shown, and the lines named cannot be followed; write the edit for the lines below",
                section.tag
            ),
        )
    };
    if section.ops.is_empty() {
        return Err(stale());
    }
    let result = text::apply(lines.text(), &surgery::edits(lines, hunks)).ok();
    if result.as_deref() == Some(&**current.text()) && section.file_op == FileOp::Keep {
        let note = Some(already_applied());
        return Ok(Way { hunks: hunks.to_vec(), strategy: Strategy::AlreadyApplied, note });
    }
    let chain = chain(source, store, documents).ok_or_else(stale)?;
    let hunks = hunks
        .iter()
        .map(|hunk| {
            let place = follow(&chain, hunk.place, lines, current)?;
            Some(Hunk { place, rows: hunk.rows.clone() })
        })
        .collect::<Option<Vec<Hunk>>>()
        .ok_or_else(stale)?;
    let note = if own {
        Note::new(
            NoteKind::Mapped,
            "the file changed since it was read; the edit was made where its lines stand now",
        )
    } else {
        Note::new(
            NoteKind::EarlierVersion,
            format!(
                "the numbers were those of tag {}, from before an edit; they were taken for the lines they meant",
                snapshot.tag()
            ),
        )
    };
    Ok(Way { hunks, strategy: Strategy::Chain, note: Some(note) })
}

/// The recorded way from the version to the current text: our own edits, then what the caller
/// knows of.
fn chain(source: &Source<'_>, store: &mut SnapshotStore, documents: &dyn Documents) -> Option<Chain> {
    let Source { section, tagged, version, snapshot, current } = source;
    let history = store.history(&section.path)?;
    let is_current = |at: &usize| history.versions[*at].snapshot.text() == current.text();
    let ours = (0..history.versions.len()).rev().find(is_current).and_then(|at| history.steps(*version, at));
    if let Some(steps) = ours {
        return Chain::new(snapshot.text(), current.text(), steps);
    }
    let log = documents.changes(&section.path, &history.versions[*tagged].snapshot)?;
    if !log.is_complete() {
        return None;
    }
    let own = history.steps(*version, *tagged)?;
    let steps = own.into_iter().chain(log.steps().iter().map(Vec::as_slice));
    Chain::new(snapshot.text(), current.text(), steps)
}

/// Where a place is now: its lines untouched, and for an insertion the lines on both its sides
/// still next to each other. (Something that now stands between may be this very edit.)
fn follow(chain: &Chain, place: Place, old: &Lines, new: &Lines) -> Option<Place> {
    let line = |line: usize| chain.line(old, new, line, line);
    // The lines around a point, by the line above it: both must be there, or be the file's ends.
    let between = |above: usize| -> Option<usize> {
        let upper = if above == 0 { 0 } else { line(above)? };
        let lower = if above == old.count() { new.count() + 1 } else { line(above + 1)? };
        (upper + 1 == lower).then_some(upper)
    };
    match place {
        Place::Lines { first, last } => {
            let start = chain.line(old, new, first, last)?;
            Some(Place::Lines { first: start, last: start + (last - first) })
        }
        Place::Before(at) => between(at - 1).map(|upper| Place::Before(upper + 1)),
        Place::After(at) => between(at).map(Place::After),
        Place::Head => between(0).map(|_| Place::Head),
        Place::End => between(old.count()).map(|_| Place::End),
    }
}

fn headline(op: &Op) -> String {
    op.to_string().lines().next().unwrap_or_default().to_owned()
}

/// The refusal of one section: records the current text, and shows it around each anchor.
fn refuse(
    section: &Section,
    problem: Problem,
    store: &mut SnapshotStore,
    documents: &dyn Documents,
) -> SectionRefusal {
    let mut refusal = SectionRefusal {
        path: section.path.clone(),
        reason: problem.reason,
        message: problem.message,
        expected: section.tag,
        actual: None,
        line_count: 0,
        anchors: Vec::new(),
    };
    let Ok(lines) = current(&section.path, documents) else { return refusal };
    // The text that the tag means, to find where the anchors' lines went.
    let known = store.get(&section.path, section.tag);
    let tag = store.record(&section.path, lines.text().clone());
    refusal.actual = Some(tag);
    refusal.line_count = lines.count();
    let mut budget = MOST;
    if !problem.show.is_empty() {
        let anchor = format!("{}..={}", problem.show[0], problem.show[problem.show.len() - 1]);
        refusal.anchors.push(AnchorLines { anchor, lines: take(&lines, problem.show, &mut budget) });
    }
    for anchor in section.anchors() {
        let line = place_of(anchor.line, known.as_deref(), &lines);
        let around = line.saturating_sub(CONTEXT).max(1)..=line.saturating_add(CONTEXT).min(lines.count());
        let lines = take(&lines, around, &mut budget);
        refusal.anchors.push(AnchorLines { anchor: anchor.to_string(), lines });
    }
    if section.anchors().is_empty() && refusal.anchors.is_empty() {
        let ends = (1..=lines.count()).filter(|line| *line <= CONTEXT || *line + CONTEXT > lines.count());
        let lines = take(&lines, ends, &mut budget);
        refusal.anchors.push(AnchorLines { anchor: "<1, >$".to_owned(), lines });
    }
    for line in refusal.anchors.iter().flat_map(|anchor| &anchor.lines) {
        store.see(&section.path, tag, line.line..=line.line);
    }
    refusal
}

fn take(lines: &Lines, which: impl IntoIterator<Item = usize>, budget: &mut usize) -> Vec<CurrentLine> {
    let mut taken = Vec::new();
    for line in which {
        if line == 0 || line > lines.count() || lines.content(line).len() > LONGEST || *budget == 0 {
            continue;
        }
        *budget -= 1;
        taken.push(CurrentLine { line, check: lines.check(line), text: lines.content(line).to_owned() });
    }
    taken
}

/// Where to look for an anchor in the current text: at the nearest line that reads the same as the
/// tagged one, else at its number. Only for showing.
fn place_of(line: usize, known: Option<&Snapshot>, lines: &Lines) -> usize {
    const FAR: usize = 400;
    let here = line.min(lines.count());
    let Some(snapshot) = known.filter(|known| line <= known.lines().count()) else { return here };
    let content = snapshot.lines().content(line);
    let is = |at: &usize| (1..=lines.count()).contains(at) && lines.content(*at) == content;
    (0..=FAR).flat_map(|by| [line.saturating_sub(by), line.saturating_add(by)]).find(is).unwrap_or(here)
}
