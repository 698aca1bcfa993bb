//! Tests of the crate's public interface.

#![expect(clippy::unwrap_used, reason = "tests: a failure is a panic")]

mod blocks;
mod depth;
mod layout;
mod properties;
mod samples;
