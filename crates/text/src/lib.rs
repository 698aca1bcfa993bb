//! Text as values: byte ranges, positions, edits, and mapping through edits.
//!
//! Knows nothing of files, editors or protocols. Every offset is a byte offset into UTF-8 text on a character
//! boundary; anything else is an error, never a panic.
#![warn(missing_docs)]

mod edit;
mod line_index;
mod shorten;
mod words;

pub use edit::align::align_to_lines;
pub use edit::change_log::ChangeLog;
pub use edit::diff::{diff_edits, diff_lines, line_counts, unified_diff};
pub use edit::map::{EditMap, map_range};
pub use edit::{ApplyError, TextEdit, apply, invert, normalize};
pub use line_index::{LineEnds, LineIndex, Position, PositionEncoding};
pub use shorten::shorten;
pub use words::{is_word, occurrences, word_at};
