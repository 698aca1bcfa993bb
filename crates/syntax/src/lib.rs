//! Source code as trees: parse, parse again after an edit, and ask what is broken, what begins on
//! a line, and what a file holds.
//!
//! Knows text and grammars. It knows no file, no edit format and no clock: who wants an end to a
//! parse hands in a [`Stop`]. Nothing is decided here about what to do with an answer.
//!
//! - [`Language::of`] tells the grammar of a path; a grammar costs nothing until it is used.
//! - [`Tree::parse`] and [`Tree::reparse`]: the latter follows edits and parses only what changed.
//! - [`Comparison`]: the errors that a text has and the text before it had not.
//!   [`Tree::surely_parses`] tells sooner that there are none, [`Comparison::of_window`] tells it from the lines around the edits, for texts too large to parse.
//! - [`Tree::block`]: the one construct that begins on a line. [`Tree::folds`]: an outline.
//!   [`Tree::names`]: what a file declares. [`Tree::may_declare`]: whether it can be where a name is declared.
//! - [`Tree::is_comment`]: whether a place is in a comment.
//!
//! A tree takes 20 to 30 times the memory of its text; dropping a large one takes milliseconds.
//!
//! ```
//! use syntax::{Comparison, Language, Stop, Tree};
//! use text::TextEdit;
//!
//! let language = Language::of("src/lib.rs", "").expect("Rust has a grammar");
//! let before = "fn f() { g(); }\n";
//! let tree = Tree::parse(language, before, Stop::NEVER).expect("nothing stops it");
//! let edits = [TextEdit::replace(13..15, "")];
//! let after = text::apply(before, &edits).expect("it fits");
//! let (_, comparison) = Comparison::of(&tree, before, &edits, &after, Stop::NEVER).expect("nothing stops it");
//! assert!(!comparison.was_broken);
//! assert_eq!(comparison.new_errors[0].message(&after), "unexpected `fn f() {`");
//! ```

mod block;
mod comment;
mod compare;
mod cuts;
mod declares;
mod depth;
mod errors;
mod kinds;
mod language;
mod layout;
mod names;
mod outline;
mod parts;
mod role;
mod tree;
mod window;

pub use block::{Construct, Unclear};
pub use compare::Comparison;
pub use errors::{ErrorKind, SyntaxError};
pub use language::Language;
pub use role::Role;
pub use tree::{Stop, Stopped, Tree};
