//! Outline of a long file: first and last lines of bodies, with the rest folded.

use std::ops::RangeInclusive;

use text::LineIndex;
use workspace::Document;

use crate::{ToolContext, display};

/// Maximum depth to which bodies with members are unfolded.
const MAX_DEPTH: usize = 3;

/// Lines of a file that an outline shows and folds.
pub(crate) struct Outline {
    /// Numbers of the lines shown, from 1.
    pub lines: Vec<usize>,
    pub folds: Vec<RangeInclusive<usize>>,
}

/// Builds the most detailed outline of a file within a number of lines and bytes.
///
/// `None` without a grammar, without anything to fold, or if the coarsest outline is too long.
pub(crate) async fn outline_of(
    context: &ToolContext,
    document: &Document,
    lines: usize,
    bytes: usize,
) -> Option<Outline> {
    let tree = context.trees.tree(&context.display_path(&document.path), &document.text).await?;
    let total = display::line_count(&document.text);
    let index = LineIndex::new(&document.text);
    let length = |line: &usize| index.line_with_end(line - 1).map_or(0, |range| range.len());
    (0..=MAX_DEPTH).rev().find_map(|depth| {
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
