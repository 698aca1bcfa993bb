//! Operations as hunks in lines of the version they name.

use std::collections::HashMap;

use crate::format::patch::{Op, Section, Span, Target};
use crate::lines::line_edits::{Hunk, HunkPlace};
use crate::render::refusal::Problem;
use crate::source::Source;
use crate::{Lines, Reason};

/// Lines cut in any section, by register; `Err` if two cuts claim one register.
pub(crate) type Registers = HashMap<Option<String>, Result<Vec<String>, ()>>;

pub(crate) fn registers(sources: &[Result<Source<'_>, Problem>]) -> Registers {
    let mut registers = Registers::new();
    for source in sources.iter().flatten() {
        for op in &source.section.ops {
            let Op::Cut { span: Span::Lines { first, last }, register } = op else { continue };
            let lines = source.snapshot.lines();
            let content = (first.line..=last.line).map(|line| lines.content(line).to_owned()).collect();
            registers
                .entry(register.clone())
                .and_modify(|register| *register = Err(()))
                .or_insert(Ok(content));
        }
    }
    registers
}

/// One hunk per operation, in lines of the snapshot.
pub(crate) fn hunks(section: &Section, lines: &Lines, registers: &Registers) -> Result<Vec<Hunk>, Problem> {
    let mut hunks = Vec::new();
    for op in &section.ops {
        let (target, rows) = match op {
            Op::Put { target, body, old } => {
                old_rows(target, old, lines)?;
                (target.clone(), body.clone())
            }
            Op::Cut { span, .. } => (Target::Replace(span.clone()), Vec::new()),
            Op::Paste { target, register } => {
                let name = register.as_ref().map_or("without a name".to_owned(), |name| format!("@{name}"));
                let rows = match registers.get(register) {
                    Some(Ok(rows)) => rows.clone(),
                    Some(Err(())) => {
                        let message =
                            format!("two CUTs fill the register {name}; give each a name of its own");
                        return Err(Problem::new(Reason::InvalidPatch, message));
                    }
                    None => {
                        let message = format!(
                            "no CUT of this patch fills the register {name}; a CUT and its paste must be in one call"
                        );
                        return Err(Problem::new(Reason::InvalidPatch, message));
                    }
                };
                (target.clone(), rows)
            }
        };
        let place = match target {
            Target::Replace(Span::Lines { first, last }) => {
                HunkPlace::Lines { first: first.line, last: last.line }
            }
            Target::Before(anchor) => HunkPlace::Before(anchor.line),
            Target::After(anchor) => HunkPlace::After(anchor.line),
            Target::Head => HunkPlace::Head,
            Target::End => HunkPlace::End,
            Target::Replace(Span::Block(_)) | Target::AfterBlock(_) => {
                return Err(Problem::new(
                    Reason::Unsupported,
                    "block operations are not available; name first and last line, `A..=B`",
                ));
            }
        };
        hunks.push(Hunk { place, rows });
    }
    Ok(hunks)
}

/// Checks `-` rows, which must equal the replaced lines.
fn old_rows(target: &Target, old: &[String], lines: &Lines) -> Result<(), Problem> {
    let Target::Replace(Span::Lines { first, last }) = target else { return Ok(()) };
    let same = |(row, line): (&String, usize)| lines.content(line) == row;
    let fits = old.len() == last.line + 1 - first.line && old.iter().zip(first.line..).all(same);
    if old.is_empty() || fits {
        return Ok(());
    }
    let message = format!(
        "the `-` rows are not lines {} to {}; name the lines to replace, and leave `-` rows out",
        first.line, last.line
    );
    Err(Problem::new(Reason::CheckMismatch, message))
}
