//! Everything that is promised at the command line, seen from outside. One binary, a module a promise.

#![expect(clippy::disallowed_methods, reason = "tests write their fixtures and start programs")]

mod bad_input;
mod cancel;
mod cli;
mod complaints;
mod crash;
mod dialects;
mod editors;
mod front;
mod in_editor;
mod lsp_actions;
mod lsp_fixes;
mod lsp_tool;
mod models;
mod nasty_rename;
mod owner;
mod reading;
mod real_servers;
mod server_death;
mod stale_edit;
mod undo;
