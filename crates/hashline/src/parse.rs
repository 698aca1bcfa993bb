//! From what a model wrote to a [`Patch`], line by line, so that it may come in pieces.
//!
//! Reads the canonical dialect and the forms of [`TOLERATED`](crate::TOLERATED), each with a note.
//! Refuses what it would have to guess. Never looks at a file.

use crate::furniture;
use crate::operation::{self, Verb};
use crate::patch::{FileOp, Op, Patch, Section, Target, normal_path};
use crate::tolerance::ENVELOPES;
use crate::{Note, NoteKind, Tag};

impl Patch {
    /// Reads a whole patch. The notes name what had to be repaired.
    ///
    /// # Errors
    /// The first line that cannot be read, with what to write instead.
    pub fn parse(input: &str) -> Result<(Patch, Vec<Note>), ParseError> {
        let mut parser = Parser::new();
        parser.push(input);
        parser.finish()
    }
}

/// Why an input is no patch. As a reason of refusal it is
/// [`Reason::InvalidPatch`](crate::Reason::InvalidPatch).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the patch: {kind}")]
pub struct ParseError {
    /// 1-based line of the input.
    pub line: usize,
    /// What is wrong with it.
    #[source]
    pub kind: ParseErrorKind,
}

/// What can be wrong with a line of a patch. Each message says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each says it")]
pub enum ParseErrorKind {
    #[error("there is no operation; begin with a header `[PATH#TAG]` as the read showed it")]
    Empty,
    #[error("`{0}` stands before the first header; begin with `[PATH#TAG]` as the read showed it")]
    BeforeHeader(String),
    #[error("`{0}` stands after the end of the patch")]
    AfterEnd(String),
    #[error("the header has no tag; write `[PATH#TAG]` with the tag that the read showed")]
    NoTag,
    #[error("{0}")]
    BadTag(#[from] crate::NotATag),
    #[error("the header names no path")]
    NoPath,
    #[error("the section of `{0}` has no operation")]
    EmptySection(String),
    #[error("`{path}` appears under two tags; use the newest for all its operations")]
    TwoTags { path: String },
    #[error("`{0}` is neither an operation (PUT, CUT, REM, MV), nor a header, nor a body row with `+`")]
    Unknown(String),
    #[error("a line number is expected at `{0}`")]
    NoNumber(String),
    #[error("`{0}` is not a line number; lines count from 1")]
    BadNumber(String),
    #[error("`{0}` after a line number is no line check; copy the two letters shown, or leave them out")]
    BadCheck(String),
    #[error(
        "the range {first} to {last} runs backwards; write first and last line, both included, as `A..=B`"
    )]
    Reversed { first: usize, last: usize },
    #[error("line {line} is named with two different checks")]
    TwoChecks { line: usize },
    #[error("`A*` stands alone; a range of blocks does not exist")]
    BlockInRange,
    #[error("write `<A` with the line the block begins on, without `*`")]
    BeforeBlock,
    #[error("CUT takes lines, `A` or `A..=B`, not a point between lines")]
    CutPoint,
    #[error("`{0}` is not understood after the operation")]
    Trailing(String),
    #[error("the body goes on the lines below, each row after a `+`")]
    InlineBody,
    #[error("the operation has no body rows; write them below, each after a `+`, or CUT to delete lines")]
    EmptyBody,
    #[error("an insertion replaces nothing; leave the `-` rows out")]
    OldRowsAtInsertion,
    #[error("`@{0}` is not a register; use letters, digits, `-` and `_`")]
    BadRegister(String),
    #[error("the row `{0}` belongs to no `PUT …:`")]
    StrayRow(String),
    #[error("the body row `{0}` does not begin with `+`")]
    RowWithoutPlus(String),
    #[error(
        "rows pasted from a read must be complete, in order and without `+` rows beside them; write the body with `+` rows"
    )]
    PastedRows,
    #[error("a blank line stands between body rows; write a lone `+` for an empty line")]
    BlankRow,
    #[error("a body row holds a carriage return; a row is one line")]
    CarriageReturn,
    #[error("REM deletes the file; leave the section's other operations out")]
    RemoveAndEdit,
    #[error("a section takes one of REM and MV, once")]
    TwoFileOps,
    #[error("MV names no destination")]
    NoDestination,
}

/// Reads a patch that comes in pieces; how it is cut makes no difference.
#[derive(Debug, Default)]
pub struct Parser {
    unfinished: String,
    line: usize,
    sections: Vec<OpenSection>,
    op: Option<OpenOp>,
    notes: Vec<Note>,
    closing: Vec<&'static str>,
    ended: bool,
    error: Option<ParseError>,
}

#[derive(Debug)]
struct OpenSection {
    section: Section,
    line: usize,
}

/// An operation to which rows may still come.
#[derive(Debug)]
struct OpenOp {
    line: usize,
    kind: OpenKind,
    body: Vec<String>,
    old: Vec<String>,
    pasted: Vec<furniture::Numbered>,
    blank: bool,
}

#[derive(Debug)]
enum OpenKind {
    Put(Target),
    /// Without colon: a paste, unless rows come.
    PutBare(Target),
    /// Takes no rows.
    Closed(Op),
}

impl Parser {
    /// Nothing read yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads on. Complete lines are understood at once; an error is kept for [`finish`](Self::finish).
    pub fn push(&mut self, chunk: &str) {
        let mut rest = chunk;
        while let Some(at) = rest.find('\n') {
            let mut line = std::mem::take(&mut self.unfinished);
            line.push_str(&rest[..at]);
            self.take_line(&line);
            rest = &rest[at + 1..];
        }
        self.unfinished.push_str(rest);
    }

    /// The patch, once all of it is there.
    ///
    /// # Errors
    /// As [`Patch::parse`].
    pub fn finish(mut self) -> Result<(Patch, Vec<Note>), ParseError> {
        let last = std::mem::take(&mut self.unfinished);
        if !last.is_empty() {
            self.take_line(&last);
        }
        if self.error.is_none()
            && let Err(error) = self.close_section()
        {
            self.error = Some(error);
        }
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.sections.is_empty() {
            return Err(ParseError { line: self.line.max(1), kind: ParseErrorKind::Empty });
        }
        Ok((Patch { sections: self.sections.into_iter().map(|open| open.section).collect() }, self.notes))
    }

    fn take_line(&mut self, line: &str) {
        if self.error.is_some() {
            return;
        }
        self.line += 1;
        let mut line = line;
        if let Some(stripped) = line.strip_suffix('\r') {
            line = stripped;
            self.note_once(NoteKind::CarriageReturns, "CRLF line ends of the patch were read as LF");
        }
        if let Err(error) = self.line(line) {
            self.error = Some(error);
        }
    }

    fn line(&mut self, line: &str) -> Result<(), ParseError> {
        let trimmed = line.trim();
        if self.envelope(trimmed)? {
            return Ok(());
        }
        if let Some(row) = line.strip_prefix('+') {
            return self.body_row(row);
        }
        if trimmed.is_empty() {
            if let Some(op) = &mut self.op {
                op.blank |= !op.body.is_empty() || !op.old.is_empty() || !op.pasted.is_empty();
            }
            return Ok(());
        }
        if let Some(header) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return self.header(header);
        }
        if self.sections.is_empty() {
            return Err(self.error(ParseErrorKind::BeforeHeader(excerpt(line))));
        }
        if let Some(operation) = operation::parse(line) {
            return self.operation(operation.map_err(|kind| self.error(kind))?);
        }
        if let Some(row) = line.strip_prefix('-') {
            return self.old_row(row, line);
        }
        self.bare_row(line)
    }

    /// Opens or closes an envelope; whether the line was one of its edges.
    fn envelope(&mut self, line: &str) -> Result<bool, ParseError> {
        if self.closing.last() == Some(&line) {
            self.closing.pop();
            self.ended = true;
            self.close_section()?;
            return Ok(true);
        }
        if self.ended && !line.is_empty() {
            return Err(self.error(ParseErrorKind::AfterEnd(excerpt(line))));
        }
        if !self.sections.is_empty() {
            return Ok(false);
        }
        for (opening, closing, kind) in ENVELOPES {
            let opens = match kind {
                NoteKind::Fence => line.starts_with(opening),
                _ => line == *opening,
            };
            if opens {
                self.closing.push(closing);
                self.note_once(*kind, format!("the envelope `{line}` around the patch was left out"));
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn header(&mut self, header: &str) -> Result<(), ParseError> {
        self.close_section()?;
        let (path, tag) = header.rsplit_once('#').ok_or_else(|| self.error(ParseErrorKind::NoTag))?;
        let tag: Tag = tag.trim().parse().map_err(|error| self.error(ParseErrorKind::BadTag(error)))?;
        let path = normal_path(path.trim());
        if path.is_empty() {
            return Err(self.error(ParseErrorKind::NoPath));
        }
        let section = Section { path, tag: Some(tag), ops: Vec::new(), file_op: FileOp::Keep };
        self.sections.push(OpenSection { section, line: self.line });
        Ok(())
    }

    fn operation(&mut self, operation: operation::Operation) -> Result<(), ParseError> {
        self.close_op()?;
        for repair in operation.repairs {
            let message = match repair {
                NoteKind::Separator => "the range was read as `A..=B`, both ends included",
                NoteKind::VerbCase => "verbs are written in upper case",
                _ => "CUT takes no colon",
            };
            self.note(repair, message);
        }
        let kind = match operation.verb {
            Verb::Put(target) => OpenKind::Put(target),
            Verb::PutBare(target) => OpenKind::PutBare(target),
            Verb::Paste(target, name) => OpenKind::Closed(Op::Paste { target, register: Some(name) }),
            Verb::Cut(span, register) => OpenKind::Closed(Op::Cut { span, register }),
            Verb::Remove => return self.file_op(FileOp::Remove),
            Verb::Rename(to) => return self.file_op(FileOp::Rename { to }),
        };
        self.op = Some(OpenOp {
            line: self.line,
            kind,
            body: Vec::new(),
            old: Vec::new(),
            pasted: Vec::new(),
            blank: false,
        });
        Ok(())
    }

    fn file_op(&mut self, file_op: FileOp) -> Result<(), ParseError> {
        let error = self.error(ParseErrorKind::TwoFileOps);
        match self.sections.last_mut() {
            Some(open) if open.section.file_op == FileOp::Keep => open.section.file_op = file_op,
            _ => return Err(error),
        }
        Ok(())
    }

    fn body_row(&mut self, row: &str) -> Result<(), ParseError> {
        if row.contains('\r') {
            return Err(self.error(ParseErrorKind::CarriageReturn));
        }
        self.open_body(row)?;
        let line = self.line;
        let stray = self.error(ParseErrorKind::StrayRow(excerpt(row)));
        let op = self.op.as_mut().ok_or(stray)?;
        if op.blank {
            return Err(ParseError { line, kind: ParseErrorKind::BlankRow });
        }
        if !op.pasted.is_empty() {
            return Err(ParseError { line, kind: ParseErrorKind::PastedRows });
        }
        op.body.push(row.to_owned());
        Ok(())
    }

    fn old_row(&mut self, row: &str, line: &str) -> Result<(), ParseError> {
        if row.contains('\r') {
            return Err(self.error(ParseErrorKind::CarriageReturn));
        }
        self.open_body(line)?;
        let error = self.error(ParseErrorKind::OldRowsAtInsertion);
        match &mut self.op {
            Some(OpenOp { kind: OpenKind::Put(Target::Replace(_)), old, .. }) => {
                old.push(row.to_owned());
                self.note_once(
                    NoteKind::OldRows,
                    "`-` rows are not needed; they were compared with the lines replaced",
                );
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// A row without `+`: only a complete run of rows as a read shows them is understood.
    fn bare_row(&mut self, line: &str) -> Result<(), ParseError> {
        let numbered = furniture::numbered(line).filter(|row| !row.text.contains('\r'));
        let number = self.line;
        let Some(op) = self.op.as_mut().filter(|op| !matches!(op.kind, OpenKind::Closed(_))) else {
            return Err(self.error(ParseErrorKind::Unknown(excerpt(line))));
        };
        let Some(row) = numbered else {
            let pasted = !op.pasted.is_empty();
            let kind = if pasted {
                ParseErrorKind::PastedRows
            } else {
                ParseErrorKind::RowWithoutPlus(excerpt(line))
            };
            return Err(ParseError { line: number, kind });
        };
        let follows = op.pasted.last().is_none_or(|last| last.line + 1 == row.line);
        let named = match &op.kind {
            OpenKind::Put(target) | OpenKind::PutBare(target) => first_line(target),
            OpenKind::Closed(_) => None,
        };
        // Without its check a row `2: x` may be the text itself; it is a pasted row for certain
        // only where it bears the number of the line named.
        let certain = row.check.is_some() || !op.pasted.is_empty() || named == Some(row.line);
        if !follows || !certain || op.blank || !op.body.is_empty() || !op.old.is_empty() {
            return Err(ParseError { line: number, kind: ParseErrorKind::PastedRows });
        }
        op.pasted.push(row);
        self.open_body(line)?;
        self.note_once(NoteKind::PastedRows, "numbers and checks of pasted rows were left out of the body");
        Ok(())
    }

    /// A row comes: an operation without colon turns out to have forgotten it.
    fn open_body(&mut self, row: &str) -> Result<(), ParseError> {
        let stray = self.error(ParseErrorKind::StrayRow(excerpt(row)));
        let op = self.op.as_mut().ok_or(stray.clone())?;
        match &op.kind {
            OpenKind::Put(_) => Ok(()),
            OpenKind::PutBare(target) => {
                op.kind = OpenKind::Put(target.clone());
                let line = op.line;
                self.notes.push(Note {
                    kind: NoteKind::MissingColon,
                    message: "the colon before the body was missing".into(),
                    patch_line: Some(line),
                });
                Ok(())
            }
            OpenKind::Closed(_) => Err(stray),
        }
    }

    fn close_op(&mut self) -> Result<(), ParseError> {
        let Some(op) = self.op.take() else { return Ok(()) };
        let fail = |kind| Err(ParseError { line: op.line, kind });
        let op = match op.kind {
            OpenKind::Closed(closed) => closed,
            OpenKind::PutBare(Target::Replace(_)) => return fail(ParseErrorKind::EmptyBody),
            OpenKind::PutBare(target) => Op::Paste { target, register: None },
            OpenKind::Put(target) => {
                let body: Vec<String> = if op.body.is_empty() {
                    op.pasted.into_iter().map(|row| row.text).collect()
                } else {
                    op.body
                };
                if body.is_empty() {
                    return fail(ParseErrorKind::EmptyBody);
                }
                Op::Put { target, body, old: op.old }
            }
        };
        if let Some(open) = self.sections.last_mut() {
            open.section.ops.push(op);
        }
        Ok(())
    }

    fn close_section(&mut self) -> Result<(), ParseError> {
        self.close_op()?;
        let Some(OpenSection { section, line }) = self.sections.last() else { return Ok(()) };
        let line = *line;
        let fail = |kind| Err(ParseError { line, kind });
        match (&section.file_op, section.ops.is_empty()) {
            (FileOp::Keep, true) => return fail(ParseErrorKind::EmptySection(section.path.clone())),
            (FileOp::Remove, false) => return fail(ParseErrorKind::RemoveAndEdit),
            _ => {}
        }
        let (path, tag) = (section.path.clone(), section.tag);
        let same = self.sections[..self.sections.len() - 1].iter().position(|open| open.section.path == path);
        let Some(same) = same else { return Ok(()) };
        if self.sections[same].section.tag != tag {
            return fail(ParseErrorKind::TwoTags { path });
        }
        let Some(OpenSection { section, .. }) = self.sections.pop() else { return Ok(()) };
        let first = &mut self.sections[same].section;
        match (&first.file_op, &section.file_op) {
            (FileOp::Keep, _) if section.file_op == FileOp::Remove => {
                return fail(ParseErrorKind::RemoveAndEdit);
            }
            (FileOp::Keep, _) => first.file_op = section.file_op,
            (FileOp::Remove, FileOp::Keep) => return fail(ParseErrorKind::RemoveAndEdit),
            (FileOp::Rename { .. }, FileOp::Keep) => {}
            _ => return fail(ParseErrorKind::TwoFileOps),
        }
        first.ops.extend(section.ops);
        self.notes.push(Note {
            kind: NoteKind::MergedSections,
            message: format!("both sections of `{path}` were read as one"),
            patch_line: Some(line),
        });
        Ok(())
    }

    fn error(&self, kind: ParseErrorKind) -> ParseError {
        ParseError { line: self.line, kind }
    }

    fn note(&mut self, kind: NoteKind, message: impl Into<String>) {
        self.notes.push(Note { kind, message: message.into(), patch_line: Some(self.line) });
    }

    fn note_once(&mut self, kind: NoteKind, message: impl Into<String>) {
        if !self.notes.iter().any(|note| note.kind == kind) {
            self.note(kind, message);
        }
    }
}

fn first_line(target: &Target) -> Option<usize> {
    match target {
        Target::Replace(crate::Span::Lines { first, .. } | crate::Span::Block(first)) => Some(first.line),
        _ => None,
    }
}

/// The beginning of a line, for a message.
fn excerpt(line: &str) -> String {
    const LONGEST: usize = 60;
    match line.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}
