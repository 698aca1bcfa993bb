//! The port through which the engine queries source code.
//!
//! The engine has no parser and works without one: then blocks are refused and brackets are not
//! checked.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use text::TextEdit;

/// A provider of grammars. Answers are about the texts passed in, not about files.
pub trait Syntax: fmt::Debug + Sync {
    /// Checks the effect of `edits` (in order, not overlapping) on `before`.
    ///
    /// The file at `path` will be at `new_path`. Returns `None` if there is no grammar, if the two
    /// paths have different grammars, or if there is no answer in time. The engine may call it for
    /// several edits of one text.
    fn judge(&self, path: &str, new_path: &str, before: &Arc<str>, edits: &[TextEdit]) -> Option<Judgement>;

    /// The lines of the one construct that begins on `line` of `text`.
    ///
    /// # Errors
    /// [`NoBlock`] if that cannot be decided for certain.
    fn block(&self, path: &str, text: &Arc<str>, line: usize) -> Result<Block, NoBlock>;
}

/// The effect of edits on a text's syntax.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Judgement {
    /// Whether the text was broken before.
    pub was_broken: bool,
    /// The places broken now and not before, in order.
    pub broken: Vec<Broken>,
    /// Whether only the lines around the edits were parsed.
    pub nearby: bool,
}

/// A place that does not parse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Line in the text after the edits, from 1.
    pub line: usize,
    /// A short description: ``unexpected `}` ``.
    pub message: String,
}

/// The lines of a construct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Lines from the requested one to the last.
    pub lines: RangeInclusive<usize>,
    /// First line of attributes, decorators and a doc comment above the construct.
    ///
    /// Deleting the construct without them would attach them to the next.
    pub leading: Option<usize>,
    /// The lines of the construct that it ends.
    ///
    /// It is set if the text that follows would take its place when it is deleted.
    pub part_of: Option<RangeInclusive<usize>>,
}

/// The reason why a line denotes no construct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoBlock {
    /// The path's language is unknown, or the answer took too long.
    Unknown,
    /// No construct begins there, or several do, or the text does not parse.
    Unclear {
        /// A short reason: `no construct begins there`.
        message: String,
        /// Candidate ranges with their kind: `function_item`.
        candidates: Vec<(RangeInclusive<usize>, String)>,
    },
}

/// The response to an edit after which a text no longer parses.
///
/// The setting `edit.parse_regression` selects it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ParseRegression {
    /// The edit is made, and a note names the line.
    #[default]
    Warn,
    /// The edit is refused.
    Refuse,
}
