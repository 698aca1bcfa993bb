//! Child processes: started under a grant, ended with everything they started.
//!
//! The only crate that starts programs. Each child leads a group or a session of its own. A guard
//! process ends them when this process is killed, and on Linux the reaper ends processes that left
//! their group.
#![expect(clippy::disallowed_methods, reason = "this is the crate that starts processes")]

mod confine;
pub mod deadlines;
mod descent;
mod guard;
mod process;
mod process_table;
mod proxy;
mod reaper;
#[cfg(test)]
mod tests;
mod watch;

pub use confine::{SUBCOMMAND, SandboxLevel, SandboxSockets, SandboxStatus, confine_main};
pub use descent::{NO_CONSENT, descends_from_run};
pub use guard::{guard_main, stamp};
pub use process::{Process, ProcessView, Processes, SpawnError, memory as process_memory};
pub use proxy::HostGate;
pub use watch::process_ended;
