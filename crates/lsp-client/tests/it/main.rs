//! The pool at its boundary, with scripted servers; real ones in ignored tests.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "tests write their own files, and print that they are skipped"
)]

mod actions;
mod answers;
mod bench;
mod check;
mod check_on_save;
mod client_capabilities;
mod complaint_list;
mod complaints;
mod deleted_files;
mod diagnostics;
mod document_limit;
mod edits;
mod freshness;
mod lifecycle;
mod logs;
mod misbehaving;
mod navigation;
mod new_modules;
mod project_definitions;
mod real_servers;
mod speculative;
mod unsaved;
mod watched_files;
mod workspace_diagnostics;
