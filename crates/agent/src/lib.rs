//! The agent's runtime: sessions, the loop, tools, hooks, events, session files.
//!
//! The crate knows no code, editor or provider, and no tool by name. A tool, hook or model that fails
//! produces a result or a message; none of them can end the process, and a run ends with exactly one reason.

pub mod compaction;
pub mod context;
pub mod events;
mod redact;
mod run;
mod session;
pub mod store;
mod suggestion;
pub mod tool;
mod transcript;

pub use llm::{Content, Cost, Message, StreamEvent, ToolDefinition, Usage};
pub use process::deadlines;

pub use events::{Envelope, Event, EventSink, SessionState, TerminationReason, ToolError};
pub use redact::redacted;
pub use run::hooks::{self, Hooks};
pub use run::limits::Limits;
pub use run::queues::{Drain, Queue, QueuedMessage, QueuedMessageView, Steering};
pub use run::reload::{Reload, ReloadSource};
pub use run::retry::Retries;
pub use run::{NO_ANSWER, RunOutcome};
pub use session::{Prompt, Session, SessionBuilder, SessionError};
pub use store::SessionStore;
pub use store::replay::ReplayModel;
pub use suggestion::nearest;
pub use tool::call::call_tool;
pub use tool::discovery::{self, Toolset};
pub use tool::registry::{Registry, RegistryError};
pub use tool::{EventReporter, ExecutionMode, Presence, Tool, ToolCx, ToolResult};
pub use transcript::Messages;

#[cfg(test)]
mod tests;
