//! Owners: long-lived Pilcrows that carry requests out for short-lived ones.
//!
//! A Pilcrow that serves an editor announces itself at `run/<workspace id>/<pid>.sock` ([`serve`]). A
//! command looks there first ([`find`]) and has the owner do what it was asked, on the editor's text
//! and with its warm servers; what it prints and how it ends is as if it had done it itself. Every
//! commit asks the owners nearby what they hold ([`IpcPeers`]). The protocol is in
//! `docs/protocols/owner.md`.
//!
//! What must stay true: an owner that does not answer holds nobody up for long, permission comes with
//! the request and goes with it, and a file with unsaved text elsewhere is not written.

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

/// Where the owners of a workspace announce themselves.
fn place(homes: &Homes, id: &str) -> Result<StateDir, StateError> {
    homes.run.child(id)
}

/// The process that a name in that folder is of.
fn process_of(name: &str) -> Option<u32> {
    name.strip_suffix(".sock")?.parse().ok()
}
