//! Parser from a model's text to a [`Patch`], line by line and in chunks.
//!
//! It recognizes the dialect by the first line and accepts some forms that are not taught, each with
//! a note. It refuses every ambiguous form, and never reads a file.

pub(crate) mod arrow;
pub(crate) mod display_markup;
mod draft;
pub(crate) mod error;
pub(crate) mod foreign;
pub(crate) mod json;
mod operation;

use crate::format::patch::{FileOp, Op, Patch};
use crate::parse::draft::{Draft, OpenKind};
use crate::parse::error::{ParseErrorKind as Kind, excerpt};
use crate::parse::operation::Verb;
use crate::{Dialect, Note, NoteKind, ParseError, Tag};

/// First lines that open an envelope, with the line that may close it.
const ENVELOPES: &[(&str, &str, NoteKind)] = &[
    ("```", "```", NoteKind::Fence),
    ("~~~", "~~~", NoteKind::Fence),
    ("*** Begin Patch", "*** End Patch", NoteKind::Envelope),
];

impl Patch {
    /// Parses a whole patch in any dialect. The notes name the repairs.
    ///
    /// # Errors
    /// The first line that cannot be parsed, with what to write instead.
    pub fn parse(input: &str) -> Result<(Patch, Vec<Note>), ParseError> {
        let mut parser = Parser::new();
        parser.push(input);
        parser.finish()
    }
}

/// Parser of a patch that arrives in chunks, wherever it is split.
///
/// Takes time linear in the length of the input.
#[derive(Debug, Default)]
pub struct Parser {
    unfinished: String,
    dialect: Option<Dialect>,
    draft: Draft,
    /// Text of a patch in the json dialect, with the number of its first line.
    json: String,
    json_line: usize,
    closing: Vec<&'static str>,
    ended: bool,
    error: Option<ParseError>,
}

impl Parser {
    /// Creates an empty parser.
    pub fn new() -> Self {
        Self::default()
    }

    /// The dialect, once its first line is complete. An input without a patch has none.
    pub fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// Parses more input.
    ///
    /// Complete lines are parsed at once (json at the end); [`finish`](Self::finish) returns an
    /// error.
    pub fn push(&mut self, chunk: &str) {
        let mut rest = chunk;
        while let Some(at) = rest.find('\n') {
            if self.unfinished.is_empty() {
                self.take_line(&rest[..at]);
            } else {
                let mut line = std::mem::take(&mut self.unfinished);
                line.push_str(&rest[..at]);
                self.take_line(&line);
            }
            rest = &rest[at + 1..];
        }
        self.unfinished.push_str(rest);
    }

    /// The patch, after the last chunk.
    ///
    /// # Errors
    /// The same as for [`Patch::parse`].
    pub fn finish(mut self) -> Result<(Patch, Vec<Note>), ParseError> {
        let last = std::mem::take(&mut self.unfinished);
        if !last.is_empty() {
            self.take_line(&last);
        }
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.dialect == Some(Dialect::Json) {
            json::read(&self.json, self.json_line, &mut self.draft)?;
        }
        if let Some(closing) = self.closing.last().filter(|_| self.dialect.is_some()) {
            return Err(self.draft.error(Kind::Unclosed(closing)));
        }
        self.draft.finish()
    }

    fn take_line(&mut self, line: &str) {
        if self.error.is_some() {
            return;
        }
        self.draft.line += 1;
        let mut line = line;
        if self.draft.line == 1 {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if let Some(stripped) = line.strip_suffix('\r') {
            line = stripped;
            self.draft.note_once(NoteKind::CarriageReturns, "CRLF line ends of the patch were read as LF");
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
        if self.dialect.is_none() && !trimmed.is_empty() {
            self.dialect = Some(dialect(trimmed));
            self.json_line = self.draft.line;
        }
        match self.dialect {
            None => Ok(()),
            Some(Dialect::Json) => {
                if !self.json.is_empty() {
                    self.json.push('\n');
                }
                self.json.push_str(line);
                Ok(())
            }
            Some(dialect) => self.row(line, trimmed, dialect),
        }
    }

    /// Parses a line of a line-based dialect.
    fn row(&mut self, line: &str, trimmed: &str, dialect: Dialect) -> Result<(), ParseError> {
        if let Some(row) = line.strip_prefix('+') {
            return self.draft.body_row(row);
        }
        if trimmed.is_empty() {
            self.draft.blank();
            return Ok(());
        }
        let bracketed = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        match (dialect, bracketed, arrow::header_text(trimmed)) {
            (Dialect::Arrow, _, Some((header, copied))) => return self.arrow_header(header, copied),
            (Dialect::Put, Some(header), _) => return self.header(header),
            (Dialect::Put, _, Some(_)) | (Dialect::Arrow, Some(_), _) if is_header(trimmed) => {
                return Err(self.draft.error(Kind::Mixed(excerpt(trimmed))));
            }
            _ => {}
        }
        if self.draft.is_empty() {
            return Err(self.draft.error(Kind::BeforeHeader(excerpt(line))));
        }
        let fail = |kind| self.draft.error(kind);
        if dialect == Dialect::Arrow {
            if let Some(operation) = arrow::parse(line) {
                let operation = operation.map_err(fail)?;
                self.repaired(&operation.repairs, dialect);
                return self.draft.operation(operation.kind, operation.inline);
            }
        } else if let Some(operation) = operation::parse(line) {
            let operation = operation.map_err(fail)?;
            self.repaired(&operation.repairs, dialect);
            return self.operation(operation.verb);
        }
        if let Some(row) = line.strip_prefix('-') {
            return self.draft.old_row(row);
        }
        let unknown = match dialect {
            Dialect::Arrow => Kind::UnknownArrow(excerpt(line)),
            _ => Kind::Unknown(excerpt(line)),
        };
        self.draft.bare_row(line, unknown)
    }

    /// Opens or closes an envelope; returns whether the line was one of its edges.
    fn envelope(&mut self, line: &str) -> Result<bool, ParseError> {
        if self.closing.last() == Some(&line) {
            self.closing.pop();
            self.ended = true;
            self.draft.close()?;
            return Ok(true);
        }
        if self.ended && !line.is_empty() {
            return Err(self.draft.error(Kind::AfterEnd(excerpt(line))));
        }
        if self.dialect.is_some() {
            return Ok(false);
        }
        for (opening, closing, kind) in ENVELOPES {
            let opens = match kind {
                NoteKind::Fence => line.starts_with(opening),
                _ => line == *opening,
            };
            if opens {
                self.closing.push(closing);
                let message = format!("the envelope `{}` around the patch was left out", excerpt(line));
                self.draft.note_once(*kind, message);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn header(&mut self, header: &str) -> Result<(), ParseError> {
        let (path, tag) = header.rsplit_once('#').ok_or_else(|| self.draft.error(Kind::NoTag))?;
        let tag: Tag = tag.trim().parse().map_err(|error| self.draft.error(Kind::BadTag(error)))?;
        self.draft.header(path, tag)
    }

    fn arrow_header(&mut self, header: &str, copied: bool) -> Result<(), ParseError> {
        let (path, tag) = arrow::header(header).map_err(|kind| self.draft.error(kind))?;
        if !copied {
            self.draft.note_once(NoteKind::HeaderSign, "the sign before the path was read as `¶`");
        }
        self.draft.header(path, tag)
    }

    fn repaired(&mut self, repairs: &[NoteKind], dialect: Dialect) {
        for repair in repairs {
            let message = match (repair, dialect) {
                (NoteKind::Separator, Dialect::Arrow) => "the range was read as `A..B`, both ends included",
                (NoteKind::Separator, _) => "the range was read as `A..=B`, both ends included",
                (NoteKind::VerbCase, _) => "verbs are written in upper case",
                _ => "CUT takes no colon",
            };
            self.draft.note(*repair, message);
        }
    }

    fn operation(&mut self, verb: Verb) -> Result<(), ParseError> {
        let kind = match verb {
            Verb::Put(target) => OpenKind::Put(target),
            Verb::PutBare(target) => OpenKind::PutBare(target),
            Verb::Paste(target, name) => OpenKind::Closed(Op::Paste { target, register: Some(name) }),
            Verb::Cut(span, register) => OpenKind::Closed(Op::Cut { span, register }),
            Verb::Remove => return self.draft.file_op(FileOp::Remove),
            Verb::Rename(to) => return self.draft.file_op(FileOp::Rename { to }),
        };
        self.draft.operation(kind, None)
    }
}

/// The dialect of a patch, by its first line.
fn dialect(line: &str) -> Dialect {
    if arrow::header_text(line).is_some() {
        return Dialect::Arrow;
    }
    let array = line.strip_prefix('[').map(str::trim_start);
    let opens = line.starts_with('{') || array.is_some_and(|rest| rest.is_empty() || rest.starts_with('{'));
    if opens && !is_header(line) { Dialect::Json } else { Dialect::Put }
}

/// Whether a line is a header of any dialect, including its tag.
fn is_header(line: &str) -> bool {
    let bracketed = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let text = bracketed.or_else(|| arrow::header_text(line).map(|(text, _)| text));
    text.is_some_and(|text| arrow::header(text).is_ok())
}
