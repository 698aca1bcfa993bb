//! Errors of parsing a patch. Each message says what to write instead.

use crate::Dialect;

/// Error for an input that is not a patch.
///
/// As a reason of refusal it is [`Reason::InvalidPatch`](crate::Reason::InvalidPatch).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the patch: {kind}")]
pub struct ParseError {
    /// 1-based line of the input.
    pub line: usize,
    /// The problem, with the form to write instead.
    #[source]
    pub kind: ParseErrorKind,
}

/// The error in a line of a patch. Each message says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each says it")]
pub enum ParseErrorKind {
    #[error("there is no operation; begin with a header `[PATH#TAG]` as the read showed it")]
    Empty,
    #[error("`{0}` is before the first header; begin with `[PATH#TAG]` as the read showed it")]
    BeforeHeader(String),
    #[error("`{0}` is after the end of the patch; remove it")]
    AfterEnd(String),
    #[error("the patch begins inside an envelope and has no `{0}`; it seems cut off, write all of it")]
    Unclosed(&'static str),
    #[error("the header has no tag; copy the whole header, with `#` and the tag, from what was shown")]
    NoTag,
    #[error("{0}")]
    BadTag(#[from] crate::NotATag),
    #[error("the header names no path; copy the whole header from what was shown")]
    NoPath,
    #[error("the section of `{0}` has no operation; add one, or leave its header out")]
    EmptySection(String),
    #[error("`{path}` appears under two tags; use the newest for all its operations")]
    TwoTags { path: String },
    #[error("`{0}` is neither an operation (PUT, CUT, REM, MV), nor a header, nor a body row with `+`")]
    Unknown(String),
    #[error(
        "`{0}` is neither an operation (`A..B:`, `A↑`, `A↓`, `A..B!`), nor a header, nor a body row with `+`"
    )]
    UnknownArrow(String),
    #[error("`{0}` belongs to another dialect; write the whole patch in one")]
    Mixed(String),
    #[error("the {dialect} dialect has no `{what}`; {instead}")]
    NotInDialect { dialect: Dialect, what: String, instead: &'static str },
    #[error("expected a line number at `{0}`; copy the number that was shown")]
    NoNumber(String),
    #[error("`{0}` is not a line number; lines count from 1")]
    BadNumber(String),
    #[error("`{0}` after a line number is no line check; copy the two letters shown, or leave them out")]
    BadCheck(String),
    #[error(
        "the range {first} to {last} runs backwards; name its first line and its last, both are included"
    )]
    Reversed { first: usize, last: usize },
    #[error("line {line} is named with two different checks; copy the check that was shown")]
    TwoChecks { line: usize },
    #[error("`A*` is not part of a range; name the first and the last line by number")]
    BlockInRange,
    #[error("write `<A` with the line the block begins on, without `*`")]
    BeforeBlock,
    #[error("CUT takes lines, `A` or `A..=B`, not a point between lines")]
    CutPoint,
    #[error("`{0}` is not understood after the operation; leave it out")]
    Trailing(String),
    #[error("write the body on the lines below, each row after a `+`")]
    InlineBody,
    #[error("the body is both on the operation's line and below it; write all of it in `+` rows")]
    TwoBodies,
    #[error("the operation has no body; write rows after `+`, or delete with CUT (arrow dialect: `A!`)")]
    EmptyBody,
    #[error("`{0}` begins with `+`; write the text without it on this line, or as `+` rows below")]
    InlinePlus(String),
    #[error("an insertion replaces nothing; leave the `-` rows out")]
    OldRowsAtInsertion,
    #[error("`@{0}` is not a register; use letters, digits, `-` and `_`")]
    BadRegister(String),
    #[error("the row `{0}` belongs to no operation that takes rows; write its operation above it")]
    StrayRow(String),
    #[error("the body row `{0}` does not begin with `+`; write `+` before each row of the body")]
    RowWithoutPlus(String),
    #[error("pasted read rows must be complete, in order and without `+` rows; write the body as `+` rows")]
    PastedRows,
    #[error("the pasted rows begin at line {row}, the replaced lines at {named}; write the body as `+` rows")]
    PastedElsewhere { row: usize, named: usize },
    #[error("a blank line is between body rows; write a lone `+` for an empty line")]
    BlankRow,
    #[error("a carriage return is inside a line; a row is one line, and so is a path")]
    CarriageReturn,
    #[error("REM deletes the file; leave the section's other operations out")]
    RemoveAndEdit,
    #[error("a section takes one REM or MV; remove the others")]
    TwoFileOps,
    #[error("MV names no destination; write `MV PATH`")]
    NoDestination,
    /// The position is unknown within the line if `column` is 0.
    #[error("{}{message}", if *column > 0 { format!("column {column}: ") } else { String::new() })]
    Json { column: usize, message: String },
}

/// Returns the beginning of a line, for a message.
pub(crate) fn excerpt(line: &str) -> String {
    text::shorten(line, 60).into_owned()
}
