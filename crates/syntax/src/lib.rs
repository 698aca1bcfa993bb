//! Source code as trees: parsing, errors, constructs, outlines.
//!
//! Knows text and grammars, but no files, no edit format and no clock: callers limit a parse with a [`Stop`],
//! and decide what to do with an answer.
//!
//! - [`Language::of`]: the grammar of a path; a grammar costs nothing until it is used.
//! - [`Tree::parse`] and [`Tree::reparse`]: the latter follows edits and parses only what changed.
//! - [`Comparison`]: the errors of a text that the text before it did not have. [`Tree::surely_parses`]
//!   proves faster that there are none; [`Comparison::of_window`] uses only the lines around the edits, for
//!   texts too large to parse.
//! - [`Tree::block`]: the one construct that begins on a line. [`Tree::folds`]: an outline. [`Tree::names`]:
//!   a file's declarations. [`Tree::may_declare`]: whether it can declare a name.
//! - [`Tree::matches`]: the matches of a pattern file, such as tests.
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
//! let (_, comparison) = Comparison::of(&tree, before, &edits, &after, Stop::NEVER).expect("no stop");
//! assert!(!comparison.was_broken);
//! assert_eq!(comparison.new_errors[0].message(&after), "unexpected `fn f() {`");
//! ```

mod errors;
mod language;
mod query;
mod tree;
mod window;

pub use errors::comparison::Comparison;
pub use errors::{ErrorKind, SyntaxError};
pub use language::Language;
pub use query::block::{Construct, Unclear};
pub use query::outline::{Declaration, DeclarationKind};
pub use query::pattern::{Query, QueryMatch};
pub use query::role::Role;
pub use tree::{Stop, Stopped, Tree};
