//! Pilcrow as a language server.
//!
//! What must stay true: the editor's text is the truth for an open file, and an edit is proven to
//! have landed before anything says so.
#![expect(dead_code, reason = "the front that uses it is built beside it")]

pub mod documents;
pub mod editors;
pub mod port;
#[cfg(test)]
mod port_tests;
pub mod rebase;
pub mod settle;
