//! Printing of a patch in any dialect that can express it.
//!
//! Printed text parses to the same patch. The canonical form is also its `Display`.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::format::patch::{Anchor, FileOp, Op, Patch, Section, Span, Target};
use crate::parse::{arrow, json};
use crate::{Dialect, View};

/// Error for a patch, or a part of it, that a dialect cannot express.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {dialect} dialect cannot express `{what}`; use {instead}")]
pub struct Unsayable {
    /// The requested dialect.
    pub dialect: Dialect,
    /// The part, in the canonical form.
    pub what: String,
    /// A dialect that can express it.
    pub instead: Dialect,
}

impl Patch {
    /// The patch in a dialect; parsing it gives the same patch again.
    ///
    /// # Errors
    /// The first part that the dialect cannot express. The arrow dialect cannot express registers, blocks,
    /// `REM`, `MV` and the file's end; the json dialect the same except the end, and neither `-` rows nor a
    /// body whose rows all begin with `+`. Only json expresses a section without a tag.
    pub fn print(&self, dialect: Dialect) -> Result<String, Unsayable> {
        match dialect {
            Dialect::Put => {
                self.sections.iter().try_for_each(|section| tag(section, dialect).map(|_| ()))?;
                Ok(self.to_string())
            }
            Dialect::Arrow => self.sections.iter().map(arrow_section).collect(),
            Dialect::Json => {
                let mut files = self.sections.iter().map(json_section).collect::<Result<Vec<_>, _>>()?;
                let patch = if files.len() == 1 { files.remove(0) } else { Value::Array(files) };
                Ok(format!("{patch:#}\n"))
            }
        }
    }
}

/// An operation without its rows, as messages name it.
pub(crate) fn headline(op: &Op, dialect: Dialect) -> String {
    let said = match dialect {
        Dialect::Put => None,
        Dialect::Arrow => arrow_line(op),
        Dialect::Json => json_edit(op).map(|mut edit| {
            if let Some(fields) = edit.as_object_mut() {
                fields.shift_remove("lines");
            }
            edit.to_string()
        }),
    };
    said.unwrap_or_else(|| op.to_string().lines().next().unwrap_or_default().to_owned())
}

fn unsayable(dialect: Dialect, what: impl ToString) -> Unsayable {
    let what = what.to_string();
    let what = what.lines().next().unwrap_or_default().to_owned();
    Unsayable { dialect, what, instead: Dialect::Put }
}

fn tag(section: &Section, dialect: Dialect) -> Result<crate::Tag, Unsayable> {
    let no_tag = || Unsayable { instead: Dialect::Json, ..unsayable(dialect, section) };
    section.tag.ok_or_else(no_tag)
}

fn no_file_op(section: &Section, dialect: Dialect) -> Result<(), Unsayable> {
    match &section.file_op {
        FileOp::Keep => Ok(()),
        FileOp::Remove => Err(unsayable(dialect, "REM")),
        FileOp::Rename { to } => Err(unsayable(dialect, format!("MV {to}"))),
    }
}

fn arrow_section(section: &Section) -> Result<String, Unsayable> {
    let tag = tag(section, Dialect::Arrow)?;
    no_file_op(section, Dialect::Arrow)?;
    let mut out = format!("{}\n", View::of(Dialect::Arrow).header(&section.path, tag));
    for op in &section.ops {
        let line = arrow_line(op).ok_or_else(|| unsayable(Dialect::Arrow, op))?;
        out.push_str(&line);
        out.push('\n');
        if let Op::Put { body, old, .. } = op {
            let rows = old.iter().map(|row| ('-', row)).chain(body.iter().map(|row| ('+', row)));
            for (sign, row) in rows {
                // Writing to a string never fails.
                writeln!(out, "{sign}{row}").unwrap_or_default();
            }
        }
    }
    Ok(out)
}

fn arrow_line(op: &Op) -> Option<String> {
    let span = |span: &Span| match span {
        Span::Lines { first, last } if first == last => Some(first.to_string()),
        Span::Lines { first, last } => Some(format!("{first}{}{last}", arrow::BETWEEN)),
        Span::Block(_) => None,
    };
    match op {
        Op::Put { target: Target::Replace(lines), .. } => Some(format!("{}:", span(lines)?)),
        Op::Put { target: Target::Before(anchor), .. } => Some(format!("{anchor}↑")),
        Op::Put { target: Target::After(anchor), .. } => Some(format!("{anchor}↓")),
        Op::Put { target: Target::Head, .. } => Some("1↑".to_owned()),
        Op::Cut { span: lines, register: None } => Some(format!("{}!", span(lines)?)),
        _ => None,
    }
}

fn json_section(section: &Section) -> Result<Value, Unsayable> {
    no_file_op(section, Dialect::Json)?;
    let edit = |op: &Op| json_edit(op).ok_or_else(|| unsayable(Dialect::Json, op));
    let edits: Vec<Value> = section.ops.iter().map(edit).collect::<Result<_, _>>()?;
    Ok(match section.tag {
        Some(tag) => json!({ "path": section.path, "tag": tag, "edits": edits }),
        None => json!({ "path": section.path, "edits": edits }),
    })
}

fn json_edit(op: &Op) -> Option<Value> {
    let pos = Anchor::to_string;
    let replace = |span: &Span, lines: Value| match span {
        Span::Lines { first, last } if first == last => {
            Some(json!({ "op": "replace", "pos": pos(first), "lines": lines }))
        }
        Span::Lines { first, last } => {
            Some(json!({ "op": "replace", "pos": pos(first), "end": pos(last), "lines": lines }))
        }
        Span::Block(_) => None,
    };
    match op {
        Op::Cut { span, register: None } => replace(span, Value::Null),
        Op::Put { target, body, old } if old.is_empty() && !json::is_marked(body) => match target {
            Target::Replace(span) => replace(span, json!(body)),
            Target::Before(anchor) => Some(json!({ "op": "prepend", "pos": pos(anchor), "lines": body })),
            Target::After(anchor) => Some(json!({ "op": "append", "pos": pos(anchor), "lines": body })),
            Target::Head => Some(json!({ "op": "prepend", "lines": body })),
            Target::End => Some(json!({ "op": "append", "lines": body })),
            Target::AfterBlock(_) => None,
        },
        _ => None,
    }
}
