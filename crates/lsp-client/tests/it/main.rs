//! The pool at its boundary: against scripted servers always, against real ones with `RUN_SLOW_TESTS=1`.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests write files of their own")]

mod answers;
mod bench;
mod diagnostics;
mod edits;
mod lifecycle;
mod real;
