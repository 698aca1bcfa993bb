//! Remarks about repairs and doubtful places in an accepted edit.

use serde::Serialize;

/// A remark about a patch or a plan, for the model and the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Repair or doubt that it reports.
    pub kind: NoteKind,
    /// The remark: one line, without final period.
    pub message: String,
    /// The 1-based line of the patch, if there is one.
    pub patch_line: Option<usize>,
}

impl Note {
    pub(crate) fn new(kind: NoteKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), patch_line: None }
    }
}

/// Kinds of [`Note`]: repairs of the patch's form, then remarks from planning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// A range was written with `-`, `..`, `.=` or `to`, and was read as inclusive.
    Separator,
    /// A verb was not in upper case, or an op of the json dialect not in lower case.
    VerbCase,
    /// A code fence around the patch was removed.
    Fence,
    /// `*** Begin Patch` and `*** End Patch` were removed.
    Envelope,
    /// The body was pasted rows as a read shows them; their numbers were removed.
    PastedRows,
    /// The patch had CRLF line ends, which were read as LF.
    CarriageReturns,
    /// `-` rows of a diff were compared with the lines replaced, and dropped.
    OldRows,
    /// The colon before a body was missing.
    MissingColon,
    /// A colon after `CUT` was dropped.
    ExtraColon,
    /// Two sections with the same path and tag were merged.
    MergedSections,
    /// The sign before a header's path, in the arrow dialect, was not `¶`.
    HeaderSign,
    /// A text given as `lines`, in the json dialect, ended with a line end.
    FinalNewline,

    /// The numbers belonged to an earlier version and were mapped through later edits.
    EarlierVersion,
    /// The text changed since the read; positions were mapped by recorded changes.
    Mapped,
    /// Lines beside the place changed since it was read.
    Merged,
    /// Only line ends differ from what was read.
    LineEnds,
    /// The body repeats a line just outside the edited place.
    EchoedLine,
    /// A line that opened a block was removed, but the body is still indented for it.
    SwallowedOpener,
    /// Rows indented for a block were inserted after the line that closes it.
    OutsideBlock,
    /// The text would not have parsed; one small repair of the edit's edges fixed that.
    Repaired,
    /// The text parsed before the edit and does not now, or has a further error.
    ParseRegression,
    /// The text is large: only the lines around the edit were parsed.
    CheckedNearby,
    /// The requested text is already there; nothing changes.
    AlreadyApplied,
}
