//! Ports that upper layers implement: an open editor, and other Pilcrow processes.

mod editor;
mod peers;

pub use editor::{ApplyOutcome, Editor};
pub use peers::{Hold, Holds, Peers};
