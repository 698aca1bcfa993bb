//! A section with resolved numbers: their version, and the current text.

mod block;
pub(crate) mod documents;
pub(crate) mod options;
pub(crate) mod syntax;
mod tag;
mod version;

use std::borrow::Cow;
use std::sync::Arc;

use crate::format::patch::{FileOp, Op, Patch, Section, Span, Target, normal_path};
use crate::render::refusal::Problem;
use crate::source::version::Resolved;
use crate::{Current, Documents, Lines, Note, NoteKind, Options, Reason, Snapshot, SnapshotStore, Tag};

/// A section with resolved numbers.
pub(crate) struct Source<'a> {
    /// The section with that version's numbers and blocks replaced by lines.
    pub section: Cow<'a, Section>,
    pub tag: Tag,
    /// Index in the history of the version that the tag names.
    ///
    /// `version` is that of the numbers.
    pub tagged: usize,
    pub version: usize,
    /// The text of the version at `version`.
    pub snapshot: Arc<Snapshot>,
    pub current: Lines,
    /// Remarks where the section was not interpreted literally.
    pub notes: Vec<Note>,
}

pub(crate) fn source<'a>(
    section: &'a Section,
    store: &mut SnapshotStore,
    documents: &dyn Documents,
    options: Options<'_>,
) -> Result<Source<'a>, Problem> {
    let current = documents::current(&section.path, documents)?;
    valid(section)?;
    let tag = tag::tag(section, store).map_err(|(reason, message)| Problem::new(reason, message))?;
    let unknown = |known: bool| {
        let message = if known {
            format!("the text with tag {tag} is no longer kept; use the lines and the tag below")
        } else {
            format!("no text with tag {tag} was shown; use the lines and the tag below")
        };
        Problem::new(Reason::UnknownTag, message)
    };
    let history = store.history(&section.path).ok_or_else(|| unknown(false))?;
    let tagged = history.find(tag, current.text()).ok_or_else(|| unknown(history.was_issued(tag)))?;
    let tagged_text = history.snapshot_over(tagged, &current).ok_or_else(|| unknown(true))?;
    let Resolved { version, shift } = version::resolve(history, tagged, &tagged_text, section, options.view)
        .map_err(|(reason, message)| Problem::new(reason, message))?;
    let snapshot = if version == tagged {
        tagged_text
    } else {
        history.snapshot(version).ok_or_else(|| unknown(true))?
    };
    store.touch(&section.path, version);
    store.touch(&section.path, tagged);
    let mut notes = Vec::new();
    let mut moved = Cow::Borrowed(section);
    if shift != 0 {
        moved.to_mut().shift(shift);
        let (by, direction) = (shift.unsigned_abs(), if shift > 0 { "down" } else { "up" });
        let message = format!(
            "the numbers belong to another text; by their checks the lines are {by} further {direction}"
        );
        notes.push(Note::new(NoteKind::EarlierVersion, message));
    }
    let section = block::expand(moved, snapshot.lines(), options.syntax).map_err(|unclear| {
        // A refusal shows the current text.
        let same = snapshot.text() == current.text();
        Problem {
            reason: unclear.reason,
            message: unclear.message,
            show: if same { unclear.show } else { Vec::new() },
        }
    })?;
    Ok(Source { section, tag, tagged, version, snapshot, current, notes })
}

/// Checks the parser's guarantees, for patches from other sources.
fn valid(section: &Section) -> Result<(), Problem> {
    let bad = |message: &str| Err(Problem::new(Reason::InvalidPatch, message));
    if section.file_op == FileOp::Remove && !section.ops.is_empty() {
        return bad("REM deletes the file; leave the section's other operations out");
    }
    for op in &section.ops {
        if op.anchors().iter().any(|anchor| anchor.line == 0) {
            return bad("line 0 does not exist; lines count from 1");
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
            return bad("a range ends before it begins; name its first line first");
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

/// Checks that the destination of a rename is free.
pub(crate) fn check_file_op(
    section: &Section,
    patch: &Patch,
    documents: &dyn Documents,
) -> Result<(), Problem> {
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
