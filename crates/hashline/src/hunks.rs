//! Operations as hunks in lines of the version they name: ranges, points and the rows that go there.

use std::collections::HashMap;

use crate::patch::{Op, Section, Span, Target};
use crate::refuse::Problem;
use crate::source::Source;
use crate::surgery::{Hunk, Place};
use crate::{Lines, Reason};

/// Lines cut in any section, by register; `Err` where two cuts claim one register.
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
                            "no CUT of this patch fills the register {name}; a CUT and its paste stand in one call"
                        );
                        return Err(Problem::new(Reason::InvalidPatch, message));
                    }
                };
                (target.clone(), rows)
            }
        };
        let place = match target {
            Target::Replace(Span::Lines { first, last }) => {
                Place::Lines { first: first.line, last: last.line }
            }
            Target::Before(anchor) => Place::Before(anchor.line),
            Target::After(anchor) => Place::After(anchor.line),
            Target::Head => Place::Head,
            Target::End => Place::End,
            Target::Replace(Span::Block(_)) | Target::AfterBlock(_) => {
                return Err(Problem::new(Reason::Unsupported, "block operations are not available"));
            }
        };
        hunks.push(Hunk { place, rows });
    }
    Ok(hunks)
}

/// `-` rows are proof: they must be the lines replaced.
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

pub(crate) fn headline(op: &Op) -> String {
    op.to_string().lines().next().unwrap_or_default().to_owned()
}
