//! The hub: one connection to a debug adapter, shared by the agent and the clients
//! that join.
//!
//! [`Hub`] is the state machine and does no I/O. [`HubHandle`] runs the tasks around it, and
//! [`SessionListener`] accepts clients. `docs/reference/debuggers.md` states what clients can rely on.

mod breakpoint_table;
mod clients;
mod coordinates;
mod core;
mod io;
mod listener;
mod merged_breakpoint;
mod output_backlog;
mod view;

use std::time::Duration;

use serde_json::Value;

use adapters::ExceptionNames;
use adapters::Wrap;

pub use crate::client::envelope::{Envelope, Kind};
pub use core::Hub;
pub use io::HubHandle;
pub use listener::{AnnouncedSession, ListenError, SessionListener, sockets};
pub use view::View;

/// Number of a client of a hub.
pub type ClientId = u64;

/// A request that sets breakpoints: its command and arguments.
pub type BreakpointRequest = (&'static str, Value);

/// The side for which a client acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Agent,
    User,
}

/// The side that may run the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Controller {
    /// The agent; the user may take control at any time.
    #[default]
    Agent,
    /// The user alone; the agent may inspect.
    User,
}

impl Controller {
    /// The name in `pilcrow/session`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::User => "person",
        }
    }
}

/// State of a hub that the agent's side observes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HubStatus {
    pub controller: Controller,
    /// Number of times that the user took control.
    pub takeovers: u64,
    pub joined_clients: usize,
    /// Whether the user ended the program.
    pub ended_by_user: bool,
    /// Whether the adapter does not answer a request that ends the program.
    ///
    /// The session ends the adapter.
    pub adapter_unresponsive: bool,
}

pub struct HubOptions {
    /// The operator between two alternative conditions.
    ///
    /// Without it, conditions are not combined.
    pub or_operator: Option<String>,
    /// Rule by which exceptions are passed to the adapter by name, not as filters.
    pub exception_names: Option<ExceptionNames>,
    /// Whether the output may hold fences, which only the agent receives.
    pub has_output_fence: bool,
    /// A wrapper around the program that prints the exit code.
    ///
    /// Only the agent receives it.
    pub wrap: Option<Wrap>,
    /// Maps all spellings of a path to one.
    ///
    /// Two names of one file are then one source.
    pub canonical_path: Box<dyn Fn(&str) -> String + Send>,
    /// The answer to `pilcrow/session`, without the state.
    pub session_info: Value,
    /// The user's breakpoints from the previous session.
    ///
    /// They apply until the first client joins.
    pub initial_breakpoints: Vec<BreakpointRequest>,
    /// The requests without a capability that the adapter knows.
    ///
    /// Empty if it refuses others itself.
    pub known_requests: Vec<String>,
    /// Whether Pilcrow serves `runInTerminal` even if a client has a terminal.
    ///
    /// A client's terminal is outside the session's sandbox.
    pub runs_in_terminal_itself: bool,
    /// Ends a program that would continue, before the adapter ends the session.
    pub end_program: Option<Box<dyn Fn() + Send>>,
}

#[derive(Debug)]
pub enum Input {
    Joined {
        client: ClientId,
        role: Role,
    },
    /// The editor that owns the session joined.
    ///
    /// It talks to the adapter itself and has control.
    ExternalClientJoined {
        client: ClientId,
    },
    /// A message between such an editor and the adapter.
    ExternalMessage {
        client: ClientId,
        message: Envelope,
    },
    Client {
        client: ClientId,
        message: Envelope,
    },
    /// A client's stream ended.
    Left {
        client: ClientId,
    },
    Adapter(Envelope),
    /// The adapter's stream ended.
    AdapterClosed {
        reason: String,
    },
    /// The user returns control to the agent.
    ReturnControl,
    /// The agent's run was stopped.
    ///
    /// The hub removes its breakpoints, and a joined user gets control.
    AgentStopped,
    /// A text to show to one client, as console output.
    ConsoleMessage {
        client: ClientId,
        text: String,
    },
    /// The agent started a child session, which clients join with this configuration.
    ChildStarted {
        configuration: Value,
    },
    /// A child session ended.
    ChildEnded {
        /// The configuration from [`Input::ChildStarted`].
        configuration: Value,
    },
    /// Another adapter is about to launch the program again.
    ///
    /// Joined clients stay connected until [`Input::Relaunched`] names the new session.
    Relaunching,
    Relaunched {
        /// The configuration with which clients join; `None` if the launch failed.
        configuration: Option<Value>,
    },
    DeadlinePassed {
        /// The number from [`Output::Deadline`].
        number: i64,
    },
}

#[derive(Debug)]
pub enum Output {
    Adapter(Envelope),
    Client {
        client: ClientId,
        message: Envelope,
    },
    /// Closes a client's stream after everything before was written.
    Close {
        client: ClientId,
    },
    /// Requests [`Input::DeadlinePassed`] after a time.
    Deadline {
        /// The number of a request to the adapter.
        ///
        /// Negative for a request from the adapter to a client.
        number: i64,
        after: Duration,
    },
    /// Calls [`HubOptions::end_program`].
    EndProgram,
    Log(String),
}
