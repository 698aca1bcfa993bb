//! Everything that is promised at the command line, seen from outside. One binary, a module a promise.

#![expect(clippy::disallowed_methods, reason = "tests write their fixtures and start programs")]

mod adapters;
mod bad_input;
mod bash;
mod cancel;
mod cli;
mod complaints;
mod context;
mod conversations;
mod crash;
mod debug;
mod debug_ends;
mod debug_odd;
mod debug_points;
mod debug_programs;
mod debug_real;
mod debug_shared;
mod debug_tests;
mod dialects;
mod editors;
mod front;
mod in_editor;
mod languages;
mod lsp_actions;
mod lsp_fixes;
mod lsp_tool;
mod model_protocols;
mod model_real;
mod model_routing;
mod models;
mod nasty_rename;
mod odd_names;
mod owner;
mod reading;
mod real_actions;
mod real_projects;
mod real_servers;
mod searching;
mod server_death;
mod stale_edit;
mod surface;
mod syntax;
mod typing_on;
mod undo;
mod verify;
