//! Text as values: byte ranges, positions, edits, and what becomes of a place when text changes.
//!
//! Knows nothing of files, editors or protocols. Every offset is a byte offset into UTF-8 text and
//! lies on a character boundary; anything else is an error, never a panic.

mod align;
mod change_log;
mod diff;
mod edit;
mod line_index;
mod map;
mod words;

pub use align::align_to_lines;
pub use change_log::ChangeLog;
pub use diff::{diff_edits, line_counts, unified_diff};
pub use edit::{ApplyError, TextEdit, apply, invert, normalize};
pub use line_index::{LineEnds, LineIndex, Position, PositionEncoding};
pub use map::{Gravity, map_edits, map_offset, map_range};
pub use words::{is_word, occurrences, word_at};
