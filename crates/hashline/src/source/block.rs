//! Blocks (`A*`) resolved to lines, in the text that the model was shown.
//!
//! A block always begins on the line named; lines above it are never included. An unclear block is
//! refused with the candidate ranges.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use crate::format::patch::{Anchor, Op, Section, Span, Target};
use crate::{Block, Lines, NoBlock, Reason, Syntax};

/// The reason why a block has no lines.
#[derive(Debug, Clone)]
pub(crate) struct UnclearBlock {
    pub reason: Reason,
    pub message: String,
    /// Lines to show: where the candidates begin and end.
    pub show: Vec<usize>,
}

/// The section with every block replaced by its lines in `lines`.
pub(crate) fn expand<'a>(
    section: Cow<'a, Section>,
    lines: &Lines,
    syntax: Option<&dyn Syntax>,
) -> Result<Cow<'a, Section>, UnclearBlock> {
    if !section.ops.iter().any(Op::is_block) {
        return Ok(section);
    }
    let mut section = section.into_owned();
    let path = section.path.clone();
    let find = |anchor: &Anchor| {
        let answer = syntax.map(|syntax| syntax.block(&path, lines.text(), anchor.line));
        answer.unwrap_or(Err(NoBlock::Unknown)).map_err(|no| unclear(anchor, no))
    };
    for op in &mut section.ops {
        let deletes = matches!(op, Op::Cut { .. });
        match op {
            Op::Cut { span, .. }
            | Op::Put { target: Target::Replace(span), .. }
            | Op::Paste { target: Target::Replace(span), .. } => {
                let Span::Block(anchor) = *span else { continue };
                let block = find(&anchor)?;
                if let Some(leading) = block.leading.filter(|_| deletes) {
                    return Err(left_behind(&anchor, &block, leading));
                }
                if let Some(whole) = block.part_of.as_ref().filter(|_| deletes) {
                    let message =
                        "it ends another construct, in which the following text would take its place";
                    return Err(refused(&anchor, message, &[(whole.clone(), "the whole".to_owned())]));
                }
                *span = Span::Lines { first: anchor, last: end(&anchor, &block) };
            }
            Op::Put { target, .. } | Op::Paste { target, .. } => {
                let Target::AfterBlock(anchor) = *target else { continue };
                let block = find(&anchor)?;
                *target = Target::After(end(&anchor, &block));
            }
        }
    }
    Ok(Cow::Owned(section))
}

fn end(anchor: &Anchor, block: &Block) -> Anchor {
    let last = *block.lines.end();
    if last == anchor.line { *anchor } else { Anchor { line: last, check: None } }
}

fn unclear(anchor: &Anchor, no: NoBlock) -> UnclearBlock {
    match no {
        NoBlock::Unknown => UnclearBlock {
            reason: Reason::Unsupported,
            message: format!(
                "`{anchor}*`: there is no grammar for this file; name first and last line, `A..=B`"
            ),
            show: Vec::new(),
        },
        NoBlock::Unclear { message, candidates } => refused(anchor, &message, &candidates),
    }
}

fn left_behind(anchor: &Anchor, block: &Block, leading: usize) -> UnclearBlock {
    let last = *block.lines.end();
    let message = format!(
        "line {leading} belongs to this construct and would be left behind; name `{leading}*` to take both"
    );
    let candidates = [
        (leading..=last, "the whole".to_owned()),
        (anchor.line..=last, "without the lines above".to_owned()),
    ];
    refused(anchor, &message, &candidates)
}

fn refused(anchor: &Anchor, message: &str, candidates: &[(RangeInclusive<usize>, String)]) -> UnclearBlock {
    let named: Vec<String> = candidates
        .iter()
        .map(|(lines, what)| match (lines.start(), lines.end()) {
            (first, last) if first == last => format!("{first} ({what})"),
            (first, last) => format!("{first}..={last} ({what})"),
        })
        .collect();
    let which = match named.as_slice() {
        [] => String::new(),
        named => format!(": {}", named.join(", ")),
    };
    UnclearBlock {
        reason: Reason::Ambiguous,
        message: format!("`{anchor}*`: {message}; name the lines that are meant{which}"),
        show: candidates.iter().flat_map(|(lines, _)| [*lines.start(), *lines.end()]).collect(),
    }
}
