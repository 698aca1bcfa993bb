//! What the hub knows of one client. Values only.

use serde_json::Value;

use super::Who;
use super::coordinates::Coordinates;
use super::message::Envelope;
use super::view::View;

#[derive(Debug)]
pub struct Member {
    pub who: Who,
    /// How far it came.
    pub phase: Phase,
    /// What it said of itself.
    pub facts: Facts,
    /// The program as it was told.
    pub told: View,
    /// It was told by the hub that the program runs on, which the adapter may still tell itself.
    pub foretold: bool,
    /// Under which number it is sent the next message.
    pub next: i64,
    /// Requests that wait until the adapter is there.
    pub waiting: Vec<Envelope>,
}

/// How far a client came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It said nothing yet.
    New,
    /// `initialize` was answered.
    Initialized,
    /// `attach` was answered; it sets its breakpoints.
    Attached,
    /// It gets all that happens.
    Live,
    /// It speaks with the adapter itself: what it says is overheard, and it is sent nothing.
    Beside,
    /// It is sent nothing any more.
    Closed,
}

/// What a client said at `initialize`.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    pub coordinates: Coordinates,
    /// It runs programs in its terminal.
    pub terminal: bool,
    /// It starts child sessions.
    pub children: bool,
    invalidated: bool,
    memory: bool,
    progress: bool,
}

impl Default for Facts {
    fn default() -> Self {
        let (terminal, children, invalidated, memory, progress) = Default::default();
        Self { coordinates: Coordinates::ADAPTER, terminal, children, invalidated, memory, progress }
    }
}

impl Facts {
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

    /// Whether an event is for it: some are only for those who said so. The agent passes over what it
    /// does not know.
    pub fn takes(&self, who: Who, event: &str) -> bool {
        who == Who::Agent
            || match event {
                "invalidated" => self.invalidated,
                "memory" => self.memory,
                "progressStart" | "progressUpdate" | "progressEnd" => self.progress,
                _ => true,
            }
    }
}
