//! Ports implemented above: an open editor, and other Pilcrow processes.

mod editor;
mod peers;

pub use editor::{Editor, Settled};
pub use peers::{Hold, Holds, Peers};
