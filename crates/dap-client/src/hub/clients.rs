//! State of one client of the hub.
//!
//! Pure.

use serde_json::Value;

use super::Role;
use super::coordinates::Coordinates;
use super::view::View;
use crate::client::envelope::Envelope;

#[derive(Debug)]
pub(crate) struct ClientState {
    pub role: Role,
    pub phase: Phase,
    pub capabilities: ClientCapabilities,
    /// The program state that the client was sent.
    pub view: View,
    /// Whether the hub sent `continued`, which the adapter may still send itself.
    pub run_announced: bool,
    pub next_seq: i64,
    /// Requests deferred until the adapter is initialized.
    pub deferred_requests: Vec<Envelope>,
}

/// Progress of a client's handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The hub has received nothing yet.
    New,
    /// The hub answered `initialize`.
    Initialized,
    /// The hub answered `attach`; the client sets its breakpoints.
    Attached,
    /// The client receives all events.
    Live,
    /// The client talks to the adapter itself; the hub observes it and sends nothing.
    External,
    /// The client receives nothing more.
    Closed,
}

/// Features that a client supports, from its `initialize` arguments.
#[derive(Debug, Clone, Copy)]
pub struct ClientCapabilities {
    pub coordinates: Coordinates,
    /// Whether it runs programs in its terminal.
    pub terminal: bool,
    /// Whether it starts child sessions.
    pub children: bool,
    invalidated: bool,
    memory: bool,
    progress: bool,
}

impl Default for ClientCapabilities {
    fn default() -> Self {
        let (terminal, children, invalidated, memory, progress) = Default::default();
        Self { coordinates: Coordinates::ADAPTER, terminal, children, invalidated, memory, progress }
    }
}

impl ClientCapabilities {
    /// Reads the arguments of `initialize`.
    pub fn read(arguments: &Value) -> Self {
        let can = |name: &str| arguments[name] == true;
        Self {
            coordinates: Coordinates::read(arguments),
            terminal: can("supportsRunInTerminalRequest"),
            children: can("supportsStartDebuggingRequest"),
            invalidated: can("supportsInvalidatedEvent"),
            memory: can("supportsMemoryEvent"),
            progress: can("supportsProgressReporting"),
        }
    }

    /// Whether the client receives an event; some need a capability.
    ///
    /// The agent ignores unknown events.
    pub(crate) fn accepts_event(&self, role: Role, event: &str) -> bool {
        role == Role::Agent
            || match event {
                "invalidated" => self.invalidated,
                "memory" => self.memory,
                "progressStart" | "progressUpdate" | "progressEnd" => self.progress,
                _ => true,
            }
    }
}
