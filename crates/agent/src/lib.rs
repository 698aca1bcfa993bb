//! The agent's runtime: the loop, the tools' port and registry, hooks, events, sessions and their files.
//!
//! It knows nothing of code, editors or providers, and no tool by name. A failing tool, hook or model is a result or
//! a message; none of them can end the process, and a run ends with exactly one reason.

mod actor;
mod arguments;
mod batch;
mod builder;
mod call;
mod compaction;
mod context;
mod cx;
mod deltas;
mod discovery;
mod embedding;
mod emitter;
mod event;
mod flat;
mod hooks;
mod limit;
mod messages;
mod nearest;
mod pipeline;
mod queues;
mod redact;
mod registry;
mod replay;
mod respond;
mod retry;
mod run;
mod session;
mod settings;
mod state;
pub mod store;
mod surroundings;
mod told;
mod tool;
mod transcript;

pub use builder::SessionBuilder;
pub use call::call_tool;
pub use compaction::Limits as CompactionLimits;
pub use context::{Context, ContextFile, ContextSources, ExpandError, Skill, Stamps, Template};
pub use cx::{Asker, Standalone, ToolCx};
pub use deltas::StreamWithoutSecrets;
pub use discovery::{Found, Match, ToolDocument, ToolIndex, ToolSource, Toolset, each_word};
pub use embedding::{AgentDirectory, AgentDirectoryError, ModelRegistry, SessionSettings};
pub use emitter::Attached;
pub use event::{
    ChangedFile, Envelope, Event, EventSink, MessageRole, PermissionAnswer, PlanStep, Problem, StepStatus,
    TerminationReason, Update, UpdateKind,
};
pub use flat::{Flat, FlatStop, Flattener, Remote, flat_reason, flatten, remote_name};
pub use hooks::{Before, Finish, Hooks, NextTurn, NoHooks, TurnReport};
pub use messages::Messages;
pub use pipeline::{Dialect, Filter, LAYERS, LayerTrace, Pipeline};
pub use queues::{Drain, Queue, Steering};
pub use registry::{Registry, RegistryError};
pub use replay::ReplayModel;
pub use retry::Retries;
pub use run::{Limits, NO_ANSWER, RunOutcome};
pub use session::{Prompt, Session, SessionError};
pub use state::SessionState;
pub use store::SessionStore;
pub use surroundings::{Change, Surroundings};
pub use tool::{ExecutionMode, Origin, Presence, Tool, ToolError, ToolResult};

#[cfg(test)]
mod tests;
