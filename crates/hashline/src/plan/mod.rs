//! Planning: from a patch to byte edits of the current texts, or to a refusal.
//!
//! A plan has all sections, or there is none. The planner changes no file: a [`Plan`] is a value for the caller
//! to commit. It changes the store only to record the lines that a refusal shows.
//!
//! It checks for each section, in order, that the tag is known; that the numbers belong to one version; that no
//! operations claim the same lines; that the body would not become wrong content; that the lines were shown;
//! and that their current place is proven.

mod boundary;
mod hunks;
pub(crate) mod outcome;
mod refuse;
mod syntax_check;
pub(crate) mod unseen;

use std::borrow::Cow;
use std::sync::Arc;

use text::TextEdit;
use xxhash_rust::xxh3::xxh3_64;

use crate::format::patch::{FileOp, Op, Patch, Section};
use crate::lines::line_edits::{self, Hunk, HunkPlace};
use crate::parse::display_markup;
use crate::plan::hunks::{Registers, hunks, registers};
use crate::plan::refuse::refuse;
use crate::plan::unseen::unseen;
use crate::recover::{MappedHunks, map_hunks, recovery};
use crate::render::print::headline;
use crate::render::refusal::Problem;
use crate::source::{Source, check_file_op, source};
use crate::{
    Current, Documents, Lines, Note, Options, ParseRegression, Reason, Recovery, Refusal, SnapshotStore,
    Strategy, Tag,
};

/// The result of planning a patch. Commit every section, or none.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Sections in the order of the patch.
    pub sections: Vec<SectionPlan>,
}

/// The result of planning a section.
#[derive(Debug, Clone)]
pub struct SectionPlan {
    /// The section's path, lexically normal.
    pub path: String,
    /// The tag it named, or that of the newest version if it named none.
    pub tag: Tag,
    /// The current text, to which the edits apply.
    pub before: Arc<str>,
    /// Edits of `before`, in order of place, not overlapping; empty if nothing changes.
    pub edits: Vec<TextEdit>,
    /// `before` with the edits applied.
    pub new_text: Arc<str>,
    /// The operation on the file itself, after the edits.
    pub file_op: FileOp,
    /// The weakest strategy among the operations with something left to do.
    pub strategy: Strategy,
    /// The way in which each operation found its place, in the order written.
    pub recovery: Vec<Recovery>,
    /// Remarks for the model and the user.
    pub notes: Vec<Note>,
}

/// Plans a patch against the current texts. Accesses no file and never blocks.
///
/// # Errors
/// A [`Refusal`] if any section has no safe place. The lines it shows are recorded in the store as seen,
/// under the tags it names.
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
            Err(problem) => refused.push(refuse(section, problem, store, documents)),
        }
    }
    if refused.is_empty()
        && let Some((section, problem)) = brought_back(&sources, &planned)
    {
        refused.push(refuse(section, problem, store, documents));
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

/// Finds a section whose cut has nothing left to do, while its paste has.
///
/// The lines were deleted or moved elsewhere meanwhile, and a paste would restore them.
fn brought_back<'a>(
    sources: &'a [Result<Source<'a>, Problem>],
    planned: &[SectionPlan],
) -> Option<(&'a Section, Problem)> {
    let made = |strategy: Strategy| strategy == Strategy::AlreadyApplied;
    let all = || {
        let sections = sources.iter().flatten().zip(planned);
        sections.flat_map(|(source, plan)| {
            source
                .section
                .ops
                .iter()
                .zip(&plan.recovery)
                .map(move |(op, recovery)| (source, op, recovery.strategy))
        })
    };
    let pasted_now = |name: &Option<String>| {
        all().any(|(_, op, strategy)| {
            matches!(op, Op::Paste { register, .. } if register == name) && !made(strategy)
        })
    };
    let (source, ..) = all().find(|(_, op, strategy)| {
        made(*strategy) && matches!(op, Op::Cut { register, .. } if pasted_now(register))
    })?;
    let message = format!(
        "the lines to move were removed after tag {} was shown; write the edit for the lines below",
        source.tag
    );
    Some((&source.section, Problem::new(Reason::Stale, message)))
}

/// The patch with existing paths.
///
/// Blanks at the ends of a path belong to it if such a file, or a stored text of it, exists. They
/// are dropped if a file exists without them instead.
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
    if let Some((first, second)) = line_edits::overlap(&hunks, lines.count()) {
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
        let mut message = display_markup::refuse(&hunk.rows, hunk.place, lines);
        message = message.or_else(|| match hunk.place {
            HunkPlace::Lines { first, last } => {
                display_markup::shortened(&section.path, &hunk.rows, first, last, lines)
            }
            _ => display_markup::placeholder(&section.path, &hunk.rows, lines),
        });
        if let Some(message) = message {
            return Err(Problem::new(Reason::InvalidPatch, message));
        }
    }
    if let Some(name) = lost_register(section, patch) {
        let message = format!(
            "the patch does not paste the lines cut into @{name}; add `PUT … @{name}`, or omit the name to delete"
        );
        return Err(Problem::new(Reason::InvalidPatch, message));
    }
    let mapped = map_hunks(source, &hunks, store, documents)?;
    unseen(source, &hunks, store, &mapped)?;
    let MappedHunks { hunks: placed, recovery, notes: found } = mapped;
    let mut notes: Vec<Note> = source.notes.iter().cloned().chain(found).collect();
    // Operations that are done already are not checked.
    let made = section.ops.iter().zip(placed).filter_map(|(op, hunk)| Some((op.clone(), hunk?)));
    let (ops, mut hunks): (Vec<Op>, Vec<Hunk>) = made.unzip();
    let mut edits = line_edits::edits(current, &hunks);
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
            // An edit written for another text that breaks this one was probably not meant for it.
            let parse_regression =
                if strategy == Strategy::Exact { options.parse_regression } else { ParseRegression::Refuse };
            let options = Options { parse_regression, ..options };
            let accepted =
                syntax_check::check((&section.path, new_path), &ops, current, hunks, edits, options)
                    .map_err(|rejected| Problem {
                        reason: rejected.reason,
                        message: rejected.message,
                        show: rejected.show,
                    })?;
            (hunks, edits) = (accepted.hunks, accepted.edits);
            notes.extend(accepted.notes);
        }
    }
    let new_text = text::apply(current.text(), &edits).map_err(|error| {
        // This cannot happen while `line_edits` keeps its promise; a refusal is harmless if it
        // does.
        Problem::new(Reason::Unsupported, format!("the edits do not fit together: {error}"))
    })?;
    if !edits.is_empty() && new_text.contains('\r') && !lines_add_up(current, &hunks, &new_text) {
        return Err(Problem::new(
            Reason::Unsupported,
            "a CR and an LF of adjacent lines would become one line end; make the file's line ends uniform",
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

/// Finds a register that the section fills by name and no section pastes.
///
/// The patch may be truncated.
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

/// Whether the new text has the expected number of lines.
///
/// In a text with lone CRs, an emptied line may join a CR and an LF.
fn lines_add_up(current: &Lines, hunks: &[Hunk], new_text: &str) -> bool {
    let added: usize = hunks.iter().map(|hunk| hunk.rows.len()).sum();
    let removed: usize = hunks
        .iter()
        .map(|hunk| match hunk.place {
            HunkPlace::Lines { first, last } => last + 1 - first,
            _ => 0,
        })
        .sum();
    let ends_empty = |lines: &Lines| {
        // An empty last line without line end does not count.
        lines.text().ends_with(['\n', '\r'])
    };
    let new = Lines::new(new_text.into());
    let expected = (current.count() + added).saturating_sub(removed);
    new.count() == expected || (new.count() + 1 == expected && ends_empty(&new) != ends_empty(current))
}
