//! Shared parts of the end-to-end tests: the executable, a sandbox, and processes.
//!
//! The tests use Pilcrow as an executable only. Every wait is for a condition, with a deadline. No
//! test reads or writes the settings of the user who runs it.

#![expect(clippy::disallowed_methods, reason = "tests write their fixtures and start the executable")]
#![expect(clippy::unwrap_used, reason = "a failing test should end with its location")]

pub mod batch;
pub mod built;
pub mod editor;
pub mod editors;
pub mod processes;
pub mod sandbox;
pub mod scripted;
pub mod snapshot;
pub mod terminal;

pub use batch::Batch;
pub use editor::Editor;
pub use processes::{Mark, wait_for};
pub use sandbox::{Answer, Ran, Sandbox, give};
pub use scripted::Scripted;
pub use snapshot::{check_output, line_with};
pub use terminal::Terminal;
