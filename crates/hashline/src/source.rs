//! A section whose numbers are understood: the version they belong to, and the text as it is now.

use std::borrow::Cow;
use std::sync::Arc;

use crate::patch::{FileOp, Op, Patch, Section, Span, Target, normal_path};
use crate::refuse::Problem;
use crate::{
    Current, Documents, Lines, Options, Reason, Snapshot, SnapshotStore, Tag, block, current, naming, resolve,
};

/// A section whose numbers are understood.
pub(crate) struct Source<'a> {
    /// Its blocks written as lines of the version.
    pub section: Cow<'a, Section>,
    pub tag: Tag,
    /// Version that the tag names, and the one that the numbers belong to, in the history.
    pub tagged: usize,
    pub version: usize,
    /// The text of the latter.
    pub snapshot: Arc<Snapshot>,
    pub current: Lines,
}

pub(crate) fn source<'a>(
    section: &'a Section,
    store: &mut SnapshotStore,
    documents: &dyn Documents,
    options: Options<'_>,
) -> Result<Source<'a>, Problem> {
    let current = current::current(&section.path, documents)?;
    valid(section)?;
    let tag = naming::tag(section, store).map_err(|(reason, message)| Problem::new(reason, message))?;
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
    let version = resolve::resolve(history, tagged, section, options.view.shows_checks())
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
    Ok(Source { section, tag, tagged, version, snapshot, current })
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
