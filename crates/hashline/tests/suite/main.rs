//! Tests of the crate's public interface: sessions that read, edit and are refused.

#![expect(clippy::unwrap_used, reason = "tests: a failure is a panic")]

mod already;
mod atomic;
mod cut_off;
mod dialects;
mod foreign;
mod foreign_forms;
mod grammar;
mod grammars;
mod hazards;
mod planning;
mod properties;
mod reading;
mod recovery;
mod scenarios;
mod session;
mod showing;
mod simulation;
mod tolerance;
mod twins;
mod versions;
