//! Pilcrow in real editors. Slow.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should end with where it stood")]

mod debugging;
mod interleaving;
mod lifecycle;
mod messages;
mod open_files;
mod plugins;
mod rename;
mod request_lines;
