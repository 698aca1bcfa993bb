//! One debug session for two: the agent and whoever joins it, over one connection to the adapter.
//!
//! [`Hub`] is the state machine, which does no I/O; [`SessionListener`] and the tasks of `edge` are the streams
//! around it. The rules that clients can rely on are in `docs/guide/debuggers.md`.

mod clients;
mod coordinates;
mod core;
mod io;
mod listener;
mod merge;
mod merged_breakpoint;
mod message;
mod output_backlog;
mod view;

use std::time::Duration;

use serde_json::Value;

use adapters::ExceptionNames;
use adapters::Wrap;

pub use core::Hub;
pub use io::HubHandle;
pub use listener::{AnnouncedSession, ListenError, SessionListener, sockets};
pub use message::{Envelope, Kind};
pub use view::View;

/// A client of a hub.
pub type ClientId = u64;

/// Who a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Agent,
    Person,
}

/// Who may run the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Controller {
    /// The agent, and the person at any time.
    #[default]
    Agent,
    /// The person alone; the agent may look.
    Person,
}

impl Controller {
    pub fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Person => "person",
        }
    }
}

/// What the agent's side must know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shared {
    pub controller: Controller,
    /// How often a person took control.
    pub taken: u64,
    /// How many persons look on.
    pub persons: usize,
    /// A person ended the program.
    pub ended_by_person: bool,
    /// The adapter does not answer a person who ends the program: it must be ended itself.
    pub deaf: bool,
}

/// What a hub is made with.
pub struct Options {
    /// How the debugged language writes "or" between two conditions; without it they are not joined.
    pub or: Option<String>,
    /// How the adapter is told of exceptions by name, which it then takes in place of filters.
    pub exception_names: Option<ExceptionNames>,
    /// Its output may hold marks of ours, which are for the agent alone.
    pub marks: bool,
    /// How its program is told to say its exit code: what is written for that is for the agent alone too.
    pub wrap: Option<Wrap>,
    /// One spelling for a path, so that two names of one file are one source.
    pub same: Box<dyn Fn(&str) -> String + Send>,
    /// Answers `pilcrow/session`, with the state.
    pub about: Value,
    /// What persons had set in the session before this one, by request: it holds until one of them has come.
    pub former: Vec<(&'static str, Value)>,
}

#[derive(Debug)]
pub enum Input {
    /// A client is there.
    Joined { client: ClientId, who: Who },
    /// The editor that holds the session is there: it speaks with the adapter itself and has control.
    Beside { client: ClientId },
    /// What such an editor said to the adapter, or the answer to it.
    Overheard { client: ClientId, message: Envelope },
    /// A client said something.
    Client { client: ClientId, message: Envelope },
    /// A client's stream ended.
    Left { client: ClientId },
    /// The adapter said something.
    Adapter(Envelope),
    /// The adapter's stream ended.
    Gone { why: String },
    /// The person gives control back to the agent.
    HandBack,
    /// The agent's work was stopped: its breakpoints go, a person who is there has control.
    ForgetAgent,
    /// A client is to be told something, as output.
    Note { client: ClientId, text: String },
    /// The agent started a child session; what an editor is given to join it.
    Child { configuration: Value },
    /// A child session is over.
    ChildOver {
        /// The launch configuration that was given for it.
        configuration: Value,
    },
    /// The program is about to be launched again under another adapter: persons stay until they can be told
    /// where it is then.
    Relaunching,
    /// It was, or was not.
    Relaunched {
        /// The launch configuration that joins it; none where it failed.
        configuration: Option<Value>,
    },
    /// A request has had its time.
    Late {
        /// As [`Output::Deadline`] gave it.
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
    /// A client is sent nothing more: its stream is closed when all before was written.
    Close {
        client: ClientId,
    },
    /// [`Input::Late`] is wanted when a request has had its time.
    Deadline {
        /// Its number at the adapter; below 0 that of one which the adapter asked of a client.
        number: i64,
        /// Which is this long.
        after: Duration,
    },
    Log(String),
}
