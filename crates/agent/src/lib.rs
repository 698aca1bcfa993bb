//! The agent's runtime: the loop, the tools' port and registry, hooks, events, sessions and their files.
//!
//! It knows nothing of code, editors or providers, and no tool by name. A failing tool, hook or model is a result or
//! a message; none of them can end the process, and a run ends with exactly one reason.

mod arguments;
mod batch;
mod call;
mod cx;
mod discovery;
mod emitter;
mod event;
mod hooks;
mod queues;
mod redact;
mod registry;
mod run;
mod session;
pub mod store;
mod tool;

pub use call::call_tool;
pub use cx::{Asker, Standalone, ToolCx};
pub use discovery::{Found, Match, ToolDocument, ToolIndex, ToolSource, Toolset};
pub use event::{
    Envelope, Event, EventSink, MessageRole, PermissionAnswer, TerminationReason, Update, UpdateKind,
};
pub use hooks::{Before, Finish, Hooks, NoHooks, TurnReport};
pub use queues::Drain;
pub use registry::{Registry, RegistryError};
pub use run::{Limits, RunOutcome};
pub use session::{Session, SessionBuilder, SessionState};
pub use store::SessionStore;
pub use tool::{ExecutionMode, Origin, Presence, Tool, ToolError, ToolResult};

#[cfg(test)]
mod tests;
