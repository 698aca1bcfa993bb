//! What was repaired, or deserves a look, though the edit was understood.

use serde::Serialize;

/// One remark about a patch or a plan, for the model and the person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// What kind of remark it is.
    pub kind: NoteKind,
    /// The remark, one line, without final period.
    pub message: String,
    /// Line of the patch it speaks of, where there is one; 1-based.
    pub patch_line: Option<usize>,
}

impl Note {
    pub(crate) fn new(kind: NoteKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), patch_line: None }
    }
}

/// Kinds of [`Note`]. The first group are repairs of the patch's form, the second come from planning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// A range was written with `-`, `..`, `.=` or `to`; it was read as inclusive.
    Separator,
    /// A verb was not in upper case, or an op of the json dialect not in lower case.
    VerbCase,
    /// A code fence around the patch was removed.
    Fence,
    /// `*** Begin Patch` and `*** End Patch` were removed.
    Envelope,
    /// Rows as a read shows them were pasted as the body; their numbers were removed.
    PastedRows,
    /// The patch had CRLF line ends; they were read as LF.
    CarriageReturns,
    /// `-` rows of a diff were compared with the lines replaced, and dropped.
    OldRows,
    /// The colon before a body was missing.
    MissingColon,
    /// A colon after `CUT` was dropped.
    ExtraColon,
    /// Two sections of one path and tag were read as one.
    MergedSections,
    /// The sign before the path of a header, in the arrow dialect, was not `¶`.
    HeaderSign,
    /// A text given as `lines`, in the json dialect, ended with a line end.
    FinalNewline,

    /// The numbers belonged to an earlier version and were mapped through the edits made since.
    EarlierVersion,
    /// The text changed since it was read; the places were mapped through the recorded changes.
    Mapped,
    /// The place stands beside lines that changed since it was read.
    Merged,
    /// Only line ends differ from what was read.
    LineEnds,
    /// The body repeats a line that stands just outside the place edited.
    EchoedLine,
    /// A line that opened a block went, and the body is indented as if it still stood there.
    SwallowedOpener,
    /// Rows indented for a block were inserted after the line that closes it.
    OutsideBlock,
    /// The text would not have parsed; one small repair of the edit's edges made it parse.
    Repaired,
    /// The text parsed before the edit and does not after it, or has a further error.
    ParseRegression,
    /// The text is large: only the lines around the edit were parsed.
    CheckedNearby,
    /// What the edit asks for already stands there; nothing changes.
    AlreadyApplied,
}
