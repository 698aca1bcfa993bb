//! JSON-RPC between commands and the owner, the process that serves the editor.
//!
//! An owner announces itself at `run/<workspace id>/<pid>.sock` ([`serve`]). A command connects to it
//! ([`find`]) and lets it execute requests, on the editor's text and with its warm language servers. The
//! command's output is the same either way. Each commit asks all owners for their open documents
//! ([`IpcPeers`]). `docs/protocols/owner.md` specifies the protocol.
//!
//! Invariants: an unresponsive owner delays a command only briefly; a permission is valid for one
//! connection; no process writes a file with unsaved text in another one.

mod client;
mod connection;
mod lookup;
mod peers;
mod protocol;
mod server;

pub use client::{Client, Failed, GREETING, Unreachable};
pub use lookup::find;
pub use peers::IpcPeers;
pub use protocol::Hello;
pub use server::{IpcAnnouncer, OwnerGuard, serve};

use paths::{Homes, StateDir, StateError};

/// The directory with the sockets of a workspace's owners.
fn socket_directory(homes: &Homes, id: &str) -> Result<StateDir, StateError> {
    homes.run.child(id)
}

/// The process that a socket's name belongs to.
fn process_of(name: &str) -> Option<u32> {
    name.strip_suffix(".sock")?.parse().ok()
}
