//! What the engine asks of whoever can parse source code. It cannot itself, and works without: then
//! blocks are refused and nothing is said of brackets.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use text::TextEdit;

/// Someone who knows grammars. Answers are for the texts handed in, whatever a file holds by now.
pub trait Syntax: fmt::Debug + Sync {
    /// What `edits` (in order of place, not overlapping) break in `before`, a file at `path` that will
    /// be at `new_path`; `None` when there is no grammar for it, no one grammar for both, or no
    /// answer in time. It may be asked about several edits of one text.
    fn judge(&self, path: &str, new_path: &str, before: &Arc<str>, edits: &[TextEdit]) -> Option<Judgement>;

    /// The lines of the one construct that begins on `line` of `text`.
    ///
    /// # Errors
    /// [`NoBlock`] when that cannot be said for certain.
    fn block(&self, path: &str, text: &Arc<str>, line: usize) -> Result<Block, NoBlock>;
}

/// What edits do to a text's syntax.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Judgement {
    /// Whether the text was broken before.
    pub was_broken: bool,
    /// The places broken now and not before, in order.
    pub broken: Vec<Broken>,
    /// Whether only the lines around the edits were looked at.
    pub nearby: bool,
}

/// A place that does not parse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Its line in the text after the edits, from 1.
    pub line: usize,
    /// What is wrong there, in a few words: ``unexpected `}` ``.
    pub message: String,
}

/// The lines of a construct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// From the line asked for to the last.
    pub lines: RangeInclusive<usize>,
    /// The line from which attributes, decorators and a doc comment stand that belong to it, where
    /// they stand above the line asked for. Deleting it without them would leave them to the next.
    pub leading: Option<usize>,
    /// The lines of the construct that it is the last part of, where what follows would come in its
    /// place if it were deleted.
    pub part_of: Option<RangeInclusive<usize>>,
}

/// Why no construct is meant by a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoBlock {
    /// The path's language is not known, or the answer took too long.
    Unknown,
    /// Nothing begins there, or more than one thing does, or it does not parse.
    Unclear {
        /// Why, in a few words: `no construct begins there`.
        message: String,
        /// What may be meant, with what it is: `function_item`.
        candidates: Vec<(RangeInclusive<usize>, String)>,
    },
}

/// What is done with an edit after which a text that parsed no longer parses (setting
/// `edit.parse_regression`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ParseRegression {
    /// It is made, and the line is named.
    #[default]
    Warn,
    /// It is refused.
    Refuse,
}
