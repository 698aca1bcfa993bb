//! A long file at a glance: heads and ends of its bodies, with what lies between named and folded.

use std::ops::RangeInclusive;

use text::LineIndex;
use workspace::Document;

use crate::{ToolContext, display};

/// How deep into bodies that hold members an outline looks, if that fits.
const DEEPEST: usize = 3;

/// What is shown of a file, and what is folded.
pub(crate) struct Outline {
    /// Lines shown, from 1.
    pub lines: Vec<usize>,
    pub folds: Vec<RangeInclusive<usize>>,
}

/// The outline of a file in at most so many lines and bytes; `None` when there is no grammar for
/// it, nothing to fold, or even the coarsest outline is too long.
pub(crate) async fn of(
    context: &ToolContext,
    document: &Document,
    lines: usize,
    bytes: usize,
) -> Option<Outline> {
    let tree = context.trees.tree(&context.shown(&document.path), &document.text).await?;
    let total = display::line_count(&document.text);
    let index = LineIndex::new(&document.text);
    let length = |line: &usize| index.line_with_end(line - 1).map_or(0, |range| range.len());
    (0..=DEEPEST).rev().find_map(|depth| {
        let folds = tree.folds(&document.text, depth);
        let mut shown: Vec<usize> = Vec::new();
        let mut next = 1;
        for fold in &folds {
            shown.extend(next..*fold.start());
            next = fold.end() + 1;
        }
        shown.extend(next..=total);
        let fits = shown.len() <= lines && shown.iter().map(length).sum::<usize>() <= bytes;
        (fits && !folds.is_empty()).then_some(Outline { lines: shown, folds })
    })
}
