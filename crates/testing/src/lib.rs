//! Scripted peers for tests: the other ends of Pilcrow's protocols.
//!
//! For tests only, which control them: a peer follows its script, right or wrong, and records the messages it
//! receives.

#![expect(clippy::disallowed_methods, reason = "test tools start processes and write their own files")]

#[cfg(feature = "dap-schema")]
pub mod dap_schema;
pub mod debug_adapter;
pub mod editor;
pub mod language_server;
pub mod model;
mod record;

pub use record::recorded;
