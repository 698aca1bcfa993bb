//! The pool at its boundary, against scripted servers; against real ones in ignored tests.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "tests write files of their own, and say when they are skipped"
)]

mod actions;
mod answers;
mod bench;
mod check;
mod complaint_list;
mod complaints;
mod declared;
mod diagnostics;
mod edits;
mod freshness;
mod gone;
mod lifecycle;
mod limit;
mod logs;
mod misbehaving;
mod navigation;
mod new_modules;
mod project_definitions;
mod real;
mod saved;
mod trials;
mod unsaved;
mod watched;
mod whole;
