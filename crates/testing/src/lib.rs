//! Scripted peers for tests: what stands on the far side of our protocols, under a test's control.
//!
//! Used from tests only. A peer does what its script says, right or wrong, and records what it got.

#![expect(clippy::disallowed_methods, reason = "test tools start processes and write files of their own")]

#[cfg(feature = "dap-schema")]
pub mod dap_schema;
pub mod debug_adapter;
pub mod editor;
pub mod language_server;
pub mod model;
mod record;
pub mod spoken;

pub use record::recorded;
