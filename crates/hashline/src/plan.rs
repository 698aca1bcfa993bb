//! From a patch to byte edits of the texts as they are now, or to a refusal.
//!
//! All or nothing over all sections. Changes no file: a [`Plan`] is a value for the caller to
//! commit. The store is touched only to learn what a refusal shows.
//!
//! Order of questions, per section: is the tag known, which version do the numbers belong to, do
//! operations claim the same lines, would the body become wrong content, were the lines shown, and
//! what became of them since.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use text::TextEdit;
use xxhash_rust::xxh3::xxh3_64;

use crate::hunks::{Registers, hunks, registers};
use crate::patch::{FileOp, Op, Patch, Section};
use crate::print::headline;
use crate::recover::{Way, way};
use crate::refuse::{Problem, refuse};
use crate::source::{Source, check_file_op, source};
use crate::surgery::{self, Hunk, Place};
use crate::unseen::unseen;
use crate::{
    Current, Documents, Lines, Note, ParseRegression, Reason, Recovery, Refusal, SnapshotStore, Syntax, Tag,
    View, furniture, gate, recovery,
};

/// How to plan.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// How lines are shown (settings `hashline.dialect` and `hashline.line_checks`). Where checks
    /// are, an anchor without one is believed only if it means the same line in every version shown.
    pub view: View,
    /// Who parses source code; without, blocks are refused and nothing is said of brackets.
    pub syntax: Option<&'a dyn Syntax>,
    /// What becomes of an edit that breaks what parsed (setting `edit.parse_regression`).
    pub parse_regression: ParseRegression,
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
    /// The tag it named, or that of the newest version where it named none.
    pub tag: Tag,
    /// The current text, which the edits speak of.
    pub before: Arc<str>,
    /// Edits of `before`, in order of place, not overlapping; empty when nothing changes.
    pub edits: Vec<TextEdit>,
    /// `before` with the edits made.
    pub new_text: Arc<str>,
    /// What becomes of the file itself afterwards.
    pub file_op: FileOp,
    /// How the places were found: the weakest way that any operation needed, those aside that had
    /// nothing left to do.
    pub strategy: Strategy,
    /// How each operation found its place, in the order written.
    pub recovery: Vec<Recovery>,
    /// Remarks for the model and the person.
    pub notes: Vec<Note>,
}

/// How the places of an edit were found in the current text.
///
/// From the strongest to the weakest, as they are ordered here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The current text is the one that the edit was written against.
    Exact,
    /// Mapped through the recorded edits made since.
    Chain,
    /// Found by the lines that did not change.
    Remap,
    /// Merged with changes beside it.
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
    let patch = &*without_blanks(patch, store, documents);
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
            Err(problem) => refused.push(refuse(section, problem, store, documents, options.view)),
        }
    }
    if refused.is_empty()
        && let Some((section, problem)) = brought_back(&sources, &planned)
    {
        refused.push(refuse(section, problem, store, documents, options.view));
    }
    match refused.first() {
        None => {
            store.accepted(payload);
            Ok(Plan { sections: planned })
        }
        Some(first) => Err(Refusal {
            reason: first.reason,
            times: store.refused(payload),
            view: options.view,
            sections: refused,
        }),
    }
}

/// A section whose cut has nothing left to do, while what it was to move is not at its goal: somebody
/// deleted those lines or moved them elsewhere, and a paste would bring them back.
fn brought_back<'a>(
    sources: &'a [Result<Source<'a>, Problem>],
    planned: &[SectionPlan],
) -> Option<(&'a Section, Problem)> {
    let made = |strategy: Strategy| strategy == Strategy::AlreadyApplied;
    let all = || {
        let sections = sources.iter().flatten().zip(planned);
        sections.flat_map(|(source, plan)| {
            source.section.ops.iter().zip(&plan.recovery).map(move |(op, way)| (source, op, way.strategy))
        })
    };
    let pasted_now = |name: &Option<String>| {
        all().any(|(_, op, way)| matches!(op, Op::Paste { register, .. } if register == name) && !made(way))
    };
    let (source, ..) = all()
        .find(|(_, op, way)| made(*way) && matches!(op, Op::Cut { register, .. } if pasted_now(register)))?;
    let message = format!(
        "the lines to be moved are gone since tag {} was shown, and to paste them would bring them back; write the edit for the lines below",
        source.tag
    );
    Some((&source.section, Problem::new(Reason::Stale, message)))
}

/// The patch with the paths that exist: blanks at the ends of a path belong to it if there is such
/// a file or a text of it, and are left out if there is one without them instead.
fn without_blanks<'a>(
    patch: &'a Patch,
    store: &mut SnapshotStore,
    documents: &dyn Documents,
) -> Cow<'a, Patch> {
    let mut patch = Cow::Borrowed(patch);
    if patch.sections.iter().any(|section| section.path.trim() != section.path) {
        patch.to_mut().leave_out_blanks(|path| {
            store.history(path).is_some() || !matches!(documents.current(path), Current::Missing)
        });
    }
    patch
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
                headline(&section.ops[first], options.view.dialect),
                headline(&section.ops[second], options.view.dialect)
            ),
        ));
    }
    for (op, hunk) in section.ops.iter().zip(&hunks) {
        let Op::Put { .. } = op else { continue };
        let mut message = furniture::refuse(&hunk.rows, hunk.place.line(lines.count()), lines);
        message = message.or_else(|| match hunk.place {
            Place::Lines { first, last } => {
                furniture::shortened(&section.path, &hunk.rows, first, last, lines)
            }
            _ => furniture::stand_in(&section.path, &hunk.rows, lines),
        });
        if let Some(message) = message {
            return Err(Problem::new(Reason::InvalidPatch, message));
        }
    }
    if let Some(name) = lost_register(section, patch) {
        let message = format!(
            "the lines cut into @{name} are pasted nowhere in this patch and would be lost; paste them with `PUT … @{name}`, or leave the name out to delete them"
        );
        return Err(Problem::new(Reason::InvalidPatch, message));
    }
    let way = way(source, &hunks, store, documents)?;
    unseen(source, &hunks, store, &way)?;
    let Way { hunks: placed, recovery, notes: found } = way;
    let mut notes: Vec<Note> = source.notes.iter().cloned().chain(found).collect();
    // What stands there already needs no judgement.
    let made = section.ops.iter().zip(placed).filter_map(|(op, hunk)| Some((op.clone(), hunk?)));
    let (ops, mut hunks): (Vec<Op>, Vec<Hunk>) = made.unzip();
    let mut edits = surgery::edits(current, &hunks);
    let mut strategy = recovery::weakest(&recovery);
    if strategy != Strategy::AlreadyApplied {
        if edits.is_empty() && section.file_op == FileOp::Keep {
            strategy = Strategy::AlreadyApplied;
            notes.push(recovery::already_applied());
        } else if !edits.is_empty() {
            let new_path = match &section.file_op {
                FileOp::Rename { to } => to,
                FileOp::Keep | FileOp::Remove => &section.path,
            };
            let gated =
                gate::check((&section.path, new_path), &ops, current, hunks, edits, options).map_err(
                    |barred| Problem { reason: barred.reason, message: barred.message, show: barred.show },
                )?;
            (hunks, edits) = (gated.hunks, gated.edits);
            notes.extend(gated.notes);
        }
    }
    let new_text = text::apply(current.text(), &edits).map_err(|error| {
        // Cannot happen while surgery keeps its promise; a refusal costs nothing if it ever does.
        Problem::new(Reason::Unsupported, format!("the edits do not fit together: {error}"))
    })?;
    if !edits.is_empty() && new_text.contains('\r') && !lines_add_up(current, &hunks, &new_text) {
        return Err(Problem::new(
            Reason::Unsupported,
            "a CR of one line and an LF of the next would become one line end; make the file's line ends alike first",
        ));
    }
    Ok(SectionPlan {
        path: section.path.clone(),
        tag: source.tag,
        before: current.text().clone(),
        edits,
        new_text: new_text.into(),
        file_op: section.file_op.clone(),
        strategy,
        recovery,
        notes,
    })
}

/// A register that the section fills under a name and that no section pastes: the patch may have
/// been cut off.
fn lost_register<'a>(section: &'a Section, patch: &Patch) -> Option<&'a str> {
    let pasted = |name: &str| {
        let paste = |op: &Op| matches!(op, Op::Paste { register: Some(register), .. } if register == name);
        patch.sections.iter().flat_map(|section| &section.ops).any(paste)
    };
    section.ops.iter().find_map(|op| match op {
        Op::Cut { register: Some(name), .. } if !pasted(name) => Some(name.as_str()),
        _ => None,
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
