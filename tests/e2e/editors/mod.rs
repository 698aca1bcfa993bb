//! Pilcrow in real editors. Slow.

#![expect(clippy::unwrap_used, reason = "a failing test should end with its location")]

mod debugging;
mod interleaving;
mod lifecycle;
mod messages;
mod neovim_review;
mod open_files;
mod plugins;
mod rename;
mod request_lines;
mod sessions;
mod vscode_review;
mod vscode_session;
