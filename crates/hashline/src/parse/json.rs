//! The json dialect: `{"path": …, "tag": …, "edits": [{"op": …, "pos": …}]}`.
//!
//! Several files are an array of such objects. The dialect cannot express registers, blocks, and deleted or
//! renamed files. Unknown and duplicate keys are refused: interpreting them would be a guess.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use crate::format::patch::{Anchor, FileOp, Op, Section, Span, Target, normal_path};
use crate::parse::draft::Draft;
use crate::parse::error::{ParseErrorKind as Kind, excerpt};
use crate::parse::operation;
use crate::{NoteKind, ParseError, Tag};

/// Operations that need the canonical form, for error messages.
const CANONICAL: &str =
    "for registers, blocks, REM and MV write the patch as `[PATH#TAG]` with PUT, CUT, REM and MV";

/// Parses a text that begins at line `first` of the patch into the draft.
pub(crate) fn read(text: &str, first: usize, draft: &mut Draft) -> Result<(), ParseError> {
    // The form is decided here, so that an error refers to the chosen form.
    let patch = if text.trim_start().starts_with('[') {
        serde_json::from_str::<Vec<File>>(text)
    } else {
        serde_json::from_str::<File>(text).map(|file| vec![file])
    };
    let last = draft.line;
    let files = patch.map_err(|error| failure(&error, first, last))?;
    for File { section, repairs } in files {
        for (kind, message) in repairs {
            draft.note_once(kind, message);
        }
        draft.section(section)?;
    }
    Ok(())
}

fn failure(error: &serde_json::Error, first: usize, last: usize) -> ParseError {
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
    let message = match error.classify() {
        serde_json::error::Category::Eof => {
            format!("{message}; the patch ends before it is complete; send all of it")
        }
        serde_json::error::Category::Syntax | serde_json::error::Category::Io => format!(
            "invalid JSON: {message}; write {{\"path\": …, \"tag\": …, \"edits\": […]}}, or an array of these"
        ),
        serde_json::error::Category::Data => message.to_owned(),
    };
    let line = (first + error.line().max(1) - 1).clamp(first, last.max(first));
    ParseError { line, kind: Kind::Json { column: error.column(), message } }
}

type Repairs = Vec<(NoteKind, &'static str)>;

/// The parsed edits of one file.
#[derive(Deserialize)]
#[serde(try_from = "RawFile")]
struct File {
    section: Section,
    repairs: Repairs,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object {\"path\": …, \"tag\": …, \"edits\": […]}")]
struct RawFile {
    path: String,
    tag: Option<TagWord>,
    edits: Vec<Edit>,
}

struct TagWord(Tag);

/// One parsed edit.
#[derive(Deserialize)]
#[serde(try_from = "RawEdit")]
struct Edit {
    op: Op,
    repairs: Repairs,
}

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "an edit {\"op\": …, \"pos\": \"12#KQ\", \"end\": …, \"lines\": […]}"
)]
struct RawEdit {
    op: Verb,
    pos: Option<Pos>,
    end: Option<Pos>,
    #[serde(default)]
    lines: Body,
}

struct Verb {
    kind: VerbKind,
    lower: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum VerbKind {
    Replace,
    Prepend,
    Append,
}

struct Pos(Anchor);

#[derive(Default)]
enum Body {
    #[default]
    Missing,
    Null,
    Text(String),
    Rows(Vec<String>),
}

impl TryFrom<RawFile> for File {
    type Error = String;

    fn try_from(raw: RawFile) -> Result<Self, String> {
        if raw.path.contains(['\n', '\r']) {
            return Err("`path` holds a line end; a path is one line".to_owned());
        }
        // A model may copy the whole header, `PATH#TAG`, as the path.
        let copied = raw.path.rsplit_once('#').and_then(|(path, tag)| Some((path, tag.trim().parse().ok()?)));
        let (path, tag) = match (raw.tag, copied) {
            (None, Some((path, tag))) => (path, Some(tag)),
            (tag, _) => (raw.path.as_str(), tag.map(|tag| tag.0)),
        };
        let path = normal_path(path);
        if path.trim().is_empty() {
            return Err("`path` names no file; give the path of the file to edit".to_owned());
        }
        if raw.edits.is_empty() {
            return Err(format!("`edits` of `{}` is empty; {CANONICAL}", excerpt(&path)));
        }
        let (ops, repairs): (Vec<Op>, Vec<Repairs>) =
            raw.edits.into_iter().map(|edit| (edit.op, edit.repairs)).unzip();
        if tag.is_none() {
            for op in &ops {
                let anchors = op.anchors();
                if anchors.is_empty() {
                    return Err(format!(
                        "an edit of `{}` has no `pos`, and its file no `tag`; add the `tag` that the read showed",
                        excerpt(&path)
                    ));
                }
                if let Some(anchor) = anchors.iter().find(|anchor| anchor.check.is_none()) {
                    return Err(format!(
                        "\"{anchor}\" has no check; without `tag` write every line as it was shown, such as \"12kq\""
                    ));
                }
            }
        }
        let section = Section { path, tag, ops, file_op: FileOp::Keep };
        Ok(File { section, repairs: repairs.into_iter().flatten().collect() })
    }
}

impl TryFrom<RawEdit> for Edit {
    type Error = String;

    fn try_from(raw: RawEdit) -> Result<Self, String> {
        let mut repairs = Repairs::new();
        if !raw.op.lower {
            repairs.push((NoteKind::VerbCase, "ops are written in lower case"));
        }
        let kind = raw.op.kind;
        if raw.end.is_some() && (kind != VerbKind::Replace || raw.pos.is_none()) {
            return Err("`end` belongs to a replace with `pos`; an insertion has one line".to_owned());
        }
        let target = match (kind, raw.pos, raw.end) {
            (VerbKind::Replace, None, _) => {
                return Err("a replace needs `pos`, and `end` for more than one line".to_owned());
            }
            (VerbKind::Replace, Some(Pos(first)), end) => {
                Target::Replace(span(first, end.map_or(first, |end| end.0))?)
            }
            (VerbKind::Prepend, Some(Pos(anchor)), _) => Target::Before(anchor),
            (VerbKind::Append, Some(Pos(anchor)), _) => Target::After(anchor),
            (VerbKind::Prepend, None, _) => Target::Head,
            (VerbKind::Append, None, _) => Target::End,
        };
        let op = match (rows(raw.lines, &mut repairs)?, target) {
            (Some(body), target) => Op::Put { target, body, old: Vec::new() },
            (None, Target::Replace(span)) => Op::Cut { span, register: None },
            (None, _) => return Err("an insertion needs `lines`".to_owned()),
        };
        Ok(Edit { op, repairs })
    }
}

fn span(first: Anchor, last: Anchor) -> Result<Span, String> {
    if last.line < first.line {
        return Err(Kind::Reversed { first: first.line, last: last.line }.to_string());
    }
    if last.line == first.line && last.check != first.check {
        return Err(Kind::TwoChecks { line: first.line }.to_string());
    }
    Ok(Span::Lines { first, last })
}

const EMPTY: &str = "`lines` is empty; give rows ([\"\"] is an empty line), or null to delete the lines";

/// The rows of a body; `None` is an explicit deletion.
fn rows(body: Body, repairs: &mut Repairs) -> Result<Option<Vec<String>>, String> {
    let rows = match body {
        Body::Missing => {
            return Err("the edit has no `lines`; give rows, or null to delete the lines".to_owned());
        }
        Body::Null => return Ok(None),
        Body::Text(text) if text.is_empty() => return Err(EMPTY.to_owned()),
        Body::Rows(rows) if rows.is_empty() => return Err(EMPTY.to_owned()),
        Body::Text(text) => {
            let lines = text.strip_suffix('\n');
            if lines.is_some() {
                repairs.push((NoteKind::FinalNewline, "the last `\\n` of `lines` ends its last line"));
            }
            let lines = lines.unwrap_or(&text);
            if lines.contains('\r') {
                repairs.push((NoteKind::CarriageReturns, "CRLF line ends of the patch were read as LF"));
            }
            lines.split('\n').map(|row| row.strip_suffix('\r').unwrap_or(row).to_owned()).collect()
        }
        Body::Rows(rows) => rows,
    };
    if let Some(row) = rows.iter().find(|row| row.contains(['\n', '\r'])) {
        return Err(format!(
            "the row {:?} holds a line end; a row of `lines` is one line, without it",
            excerpt(row)
        ));
    }
    if is_marked(&rows) {
        return Err(format!(
            "every row of `lines` begins with `+`, which would be written into the file; leave it out ({})",
            "if the text itself begins so, write the patch as `[PATH#TAG]` with PUT"
        ));
    }
    Ok(Some(rows))
}

/// Whether rows look like those of the line-based dialects, with `+`.
pub(crate) fn is_marked(rows: &[String]) -> bool {
    rows.iter().all(|row| row.starts_with('+'))
}

/// Parses `12kq` or `12` in either case; accepts `12#KQ` too.
fn anchor(word: &str) -> Result<Anchor, String> {
    let word = word.trim();
    let shown = || format!("{:?} is not a line; write it as it was shown, such as \"12kq\"", excerpt(word));
    let (number, check) = word.split_once('#').unzip();
    let (anchor, rest) = operation::anchor(number.unwrap_or(word)).map_err(|_| shown())?;
    match (rest, anchor.check, check) {
        ("", None, Some(check)) => Ok(Anchor { check: Some(check.parse().map_err(|_| shown())?), ..anchor }),
        ("", _, None) => Ok(anchor),
        ("*", ..) => Err(format!("{:?} names a block; {CANONICAL}", excerpt(word))),
        _ => Err(shown()),
    }
}

/// Deserializes a string with a function whose error is the message.
struct Word<T>(&'static str, fn(&str) -> Result<T, String>);

impl<T> Visitor<'_> for Word<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<T, E> {
        (self.1)(word).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        (self.1)(&number.to_string()).map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Pos {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Word("a line such as \"12kq\"", |word| anchor(word).map(Pos)))
    }
}

impl<'de> Deserialize<'de> for TagWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A numeric tag would lose its leading zeros, so only strings are accepted.
        deserializer.deserialize_str(Word("the tag as a string, such as \"3F2A\"", |word| {
            word.trim()
                .trim_start_matches('#')
                .parse()
                .map(TagWord)
                .map_err(|error: crate::NotATag| error.to_string())
        }))
    }
}

impl<'de> Deserialize<'de> for Verb {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Word("replace, prepend or append", |word| {
            let kind = match word.to_ascii_lowercase().as_str() {
                "replace" => VerbKind::Replace,
                "prepend" => VerbKind::Prepend,
                "append" => VerbKind::Append,
                _ => {
                    return Err(format!(
                        "`{}` is not an op; use replace, prepend or append, or `\"lines\": null` to delete; {CANONICAL}",
                        excerpt(word)
                    ));
                }
            };
            Ok(Verb { kind, lower: !word.contains(char::is_uppercase) })
        }))
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BodyVisitor)
    }
}

struct BodyVisitor;

impl<'de> Visitor<'de> for BodyVisitor {
    type Value = Body;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of rows, a string, or null to delete")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Body, E> {
        Ok(Body::Null)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Body, E> {
        Ok(Body::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<Body, A::Error> {
        let mut body = Vec::new();
        while let Some(row) = rows.next_element()? {
            body.push(row);
        }
        Ok(Body::Rows(body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_parse_as_shown() {
        for (word, read) in [("12#KQ", "12kq"), ("12#kq", "12kq"), ("12", "12"), ("12kq", "12kq")] {
            assert_eq!(anchor(word).unwrap().to_string(), read);
        }
        for word in [
            "",
            "#KQ",
            "0#KQ",
            "12#K",
            "12#IL",
            "12#KQ:text",
            "12#KQ#KQ",
            "-1",
            "12*",
            "1é",
            "1#2KQ",
            "12kq#KQ",
            "12#KQ*",
        ] {
            assert!(anchor(word).is_err(), "{word}");
        }
    }
}
