//! The part of a patch parsed so far: sections, the open operation, notes.
//!
//! The line-based dialects write into it; it knows none of them.

use std::collections::HashMap;

use crate::format::patch::{FileOp, Op, Patch, Section, Span, Target, normal_path};
use crate::parse::display_markup;
use crate::parse::error::{ParseErrorKind as Kind, excerpt};
use crate::{Note, NoteKind, ParseError, Tag};

/// A patch under construction.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// The current line of the input.
    pub line: usize,
    sections: Vec<OpenSection>,
    /// Closed sections, by path.
    closed: HashMap<String, usize>,
    op: Option<OpenOp>,
    notes: Vec<Note>,
    /// Kinds of notes that exist already, as bits; each is added once.
    noted: u64,
}

#[derive(Debug)]
struct OpenSection {
    section: Section,
    line: usize,
}

/// An operation that may get more rows.
#[derive(Debug)]
struct OpenOp {
    line: usize,
    kind: OpenKind,
    /// A body on the operation's own line.
    inline: Option<String>,
    body: Vec<String>,
    old: Vec<String>,
    pasted: Vec<display_markup::Numbered>,
    blank: bool,
    /// Number of empty rows after the pasted ones.
    pasted_blanks: usize,
}

/// The operation that a line opens.
#[derive(Debug)]
pub(crate) enum OpenKind {
    /// A body must follow.
    Put(Target),
    /// An operation without colon: a paste, unless rows follow.
    PutBare(Target),
    /// An operation that takes no rows.
    Closed(Op),
}

impl Draft {
    /// Whether no section has begun.
    pub(crate) fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// Handles a header: closes the open section, and begins a new one.
    pub(crate) fn header(&mut self, path: &str, tag: Tag) -> Result<(), ParseError> {
        self.close()?;
        if path.contains('\r') {
            return Err(self.error(Kind::CarriageReturn));
        }
        let path = normal_path(path);
        if path.trim().is_empty() {
            return Err(self.error(Kind::NoPath));
        }
        self.begin(Section { path, tag: Some(tag), ops: Vec::new(), file_op: FileOp::Keep });
        Ok(())
    }

    /// Adds a complete section.
    pub(crate) fn section(&mut self, section: Section) -> Result<(), ParseError> {
        self.begin(section);
        self.close()
    }

    fn begin(&mut self, section: Section) {
        self.sections.push(OpenSection { section, line: self.line });
    }

    /// Opens an operation and closes the previous one.
    pub(crate) fn operation(&mut self, kind: OpenKind, inline: Option<String>) -> Result<(), ParseError> {
        self.close_op()?;
        self.op = Some(OpenOp {
            line: self.line,
            kind,
            inline,
            body: Vec::new(),
            old: Vec::new(),
            pasted: Vec::new(),
            blank: false,
            pasted_blanks: 0,
        });
        Ok(())
    }

    /// Sets the operation on the section's file.
    pub(crate) fn file_op(&mut self, file_op: FileOp) -> Result<(), ParseError> {
        self.close_op()?;
        let error = self.error(Kind::TwoFileOps);
        match self.sections.last_mut() {
            Some(open) if open.section.file_op == FileOp::Keep => open.section.file_op = file_op,
            _ => return Err(error),
        }
        Ok(())
    }

    /// Handles a blank line.
    pub(crate) fn blank(&mut self) {
        if let Some(op) = &mut self.op {
            op.blank |= !op.body.is_empty() || !op.old.is_empty();
            op.pasted_blanks += usize::from(!op.pasted.is_empty());
        }
    }

    /// Adds a row without its `+`.
    pub(crate) fn body_row(&mut self, row: &str) -> Result<(), ParseError> {
        if row.contains('\r') {
            return Err(self.error(Kind::CarriageReturn));
        }
        let line = self.line;
        let op = self.open_body(row)?;
        let fail = |kind| Err(ParseError { line, kind });
        if op.blank {
            return fail(Kind::BlankRow);
        }
        if !op.pasted.is_empty() {
            return fail(Kind::PastedRows);
        }
        if op.inline.is_some() {
            return fail(Kind::TwoBodies);
        }
        op.body.push(row.to_owned());
        Ok(())
    }

    /// Adds an old row without its `-`.
    pub(crate) fn old_row(&mut self, row: &str) -> Result<(), ParseError> {
        if row.contains('\r') {
            return Err(self.error(Kind::CarriageReturn));
        }
        let line = self.line;
        let op = self.open_body(row)?;
        if !matches!(op.kind, OpenKind::Put(Target::Replace(_))) {
            return Err(ParseError { line, kind: Kind::OldRowsAtInsertion });
        }
        op.old.push(row.to_owned());
        self.note_once(
            NoteKind::OldRows,
            "`-` rows are not needed; they were compared with the lines replaced",
        );
        Ok(())
    }

    /// Adds a row without `+`, which is valid only in a complete run of rendered rows.
    pub(crate) fn bare_row(&mut self, line: &str, unknown: Kind) -> Result<(), ParseError> {
        let numbered = display_markup::numbered(line).filter(|row| !row.text.contains('\r'));
        let number = self.line;
        let Some(op) = self.op.as_mut().filter(|op| !matches!(op.kind, OpenKind::Closed(_))) else {
            return Err(self.error(unknown));
        };
        let Some(row) = numbered else {
            let pasted = !op.pasted.is_empty();
            let kind = if pasted { Kind::PastedRows } else { Kind::RowWithoutPlus(excerpt(line)) };
            return Err(ParseError { line: number, kind });
        };
        let named = match &op.kind {
            OpenKind::Put(target) | OpenKind::PutBare(target) => first_line(target),
            OpenKind::Closed(_) => None,
        };
        // Numbered rows name lines, and the operation must name the same ones.
        if let OpenKind::Put(Target::Replace(_)) | OpenKind::PutBare(Target::Replace(_)) = &op.kind
            && op.pasted.is_empty()
            && let Some(named) = named.filter(|named| *named != row.line)
        {
            return Err(ParseError { line: number, kind: Kind::PastedElsewhere { row: row.line, named } });
        }
        // A read shows an empty line as an empty row.
        let first_blank = op.pasted.last().map_or(row.line, |last| last.line + 1);
        let follows = first_blank + op.pasted_blanks == row.line;
        // A row `2: x` without a check may be content.
        if !follows || row.check.is_none() || op.blank || !op.body.is_empty() || !op.old.is_empty() {
            return Err(ParseError { line: number, kind: Kind::PastedRows });
        }
        let op = self.open_body(line)?;
        op.pasted_blanks = 0;
        let blank = |line| display_markup::Numbered { line, check: None, text: String::new() };
        op.pasted.extend((first_blank..row.line).map(blank).chain([row]));
        self.note_once(NoteKind::PastedRows, "numbers and checks of pasted rows were left out of the body");
        Ok(())
    }

    /// Opens the body for a row; an operation without colon must have lost it.
    fn open_body(&mut self, row: &str) -> Result<&mut OpenOp, ParseError> {
        let line = self.line;
        let stray = || ParseError { line, kind: Kind::StrayRow(excerpt(row)) };
        let op = self.op.as_mut().ok_or_else(stray)?;
        match &op.kind {
            OpenKind::Put(_) => {}
            OpenKind::PutBare(target) => {
                op.kind = OpenKind::Put(target.clone());
                self.notes.push(Note {
                    kind: NoteKind::MissingColon,
                    message: "the colon before the body was missing".into(),
                    patch_line: Some(op.line),
                });
            }
            OpenKind::Closed(_) => return Err(stray()),
        }
        Ok(op)
    }

    fn close_op(&mut self) -> Result<(), ParseError> {
        let Some(op) = self.op.take() else { return Ok(()) };
        let fail = |kind| Err(ParseError { line: op.line, kind });
        let op = match op.kind {
            OpenKind::Closed(closed) => closed,
            OpenKind::PutBare(Target::Replace(_)) => return fail(Kind::EmptyBody),
            OpenKind::PutBare(target) => Op::Paste { target, register: None },
            OpenKind::Put(target) => {
                let pasted = op.pasted.into_iter().map(|row| row.text);
                let body: Vec<String> =
                    if op.body.is_empty() { op.inline.into_iter().chain(pasted).collect() } else { op.body };
                if body.is_empty() {
                    return fail(Kind::EmptyBody);
                }
                Op::Put { target, body, old: op.old }
            }
        };
        if let Some(open) = self.sections.last_mut() {
            open.section.ops.push(op);
        }
        Ok(())
    }

    /// Closes the open operation and section, merging sections of one path.
    pub(crate) fn close(&mut self) -> Result<(), ParseError> {
        self.close_op()?;
        let at = self.sections.len();
        let Some(OpenSection { section, line }) = self.sections.last() else { return Ok(()) };
        let line = *line;
        let fail = |kind| Err(ParseError { line, kind });
        match (&section.file_op, section.ops.is_empty()) {
            (FileOp::Keep, true) => return fail(Kind::EmptySection(section.path.clone())),
            (FileOp::Remove, false) => return fail(Kind::RemoveAndEdit),
            _ => {}
        }
        let same = match self.closed.get(&section.path) {
            Some(same) if *same == at - 1 => return Ok(()),
            Some(same) => *same,
            None => {
                self.closed.insert(section.path.clone(), at - 1);
                return Ok(());
            }
        };
        if self.sections[same].section.tag != section.tag {
            return fail(Kind::TwoTags { path: section.path.clone() });
        }
        let Some(OpenSection { section, .. }) = self.sections.pop() else { return Ok(()) };
        let first = &mut self.sections[same].section;
        match (&first.file_op, &section.file_op) {
            (FileOp::Keep, FileOp::Remove) => return fail(Kind::RemoveAndEdit),
            (FileOp::Keep, _) => first.file_op = section.file_op,
            (FileOp::Remove, FileOp::Keep) => return fail(Kind::RemoveAndEdit),
            (FileOp::Rename { .. }, FileOp::Keep) => {}
            _ => return fail(Kind::TwoFileOps),
        }
        first.ops.extend(section.ops);
        let message = format!("both sections of `{}` were read as one", section.path);
        self.notes.push(Note { kind: NoteKind::MergedSections, message, patch_line: Some(line) });
        Ok(())
    }

    /// Closes everything and returns the patch.
    pub(crate) fn finish(mut self) -> Result<(Patch, Vec<Note>), ParseError> {
        self.close()?;
        if self.sections.is_empty() {
            return Err(ParseError { line: self.line.max(1), kind: Kind::Empty });
        }
        Ok((Patch { sections: self.sections.into_iter().map(|open| open.section).collect() }, self.notes))
    }

    pub(crate) fn error(&self, kind: Kind) -> ParseError {
        ParseError { line: self.line, kind }
    }

    pub(crate) fn note(&mut self, kind: NoteKind, message: impl Into<String>) {
        self.notes.push(Note { kind, message: message.into(), patch_line: Some(self.line) });
    }

    /// Adds a note the first time its kind occurs.
    pub(crate) fn note_once(&mut self, kind: NoteKind, message: impl Into<String>) {
        let bit = 1u64 << (kind as u32);
        if self.noted & bit == 0 {
            self.noted |= bit;
            self.note(kind, message);
        }
    }
}

fn first_line(target: &Target) -> Option<usize> {
    match target {
        Target::Replace(Span::Lines { first, .. } | Span::Block(first)) => Some(first.line),
        _ => None,
    }
}
