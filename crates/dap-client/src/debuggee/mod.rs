//! A debugged program as the adapter reported it: state, breakpoints, output, references.
//!
//! Pure: no stream, no clock, no task.

mod breakpoints;
mod capabilities;
mod handles;
mod output;
pub(crate) mod output_fence;
mod state;

pub use breakpoints::{
    Breakpoints, DataBreakpoint, ExceptionFilter, FunctionBreakpoint, InstructionBreakpoint, Placed,
    SourceBreakpoint, conditional,
};
pub(crate) use capabilities::required_capability;
pub use handles::{BadHandle, Handle};
pub use output::{Category, Output, Piece, Since};
pub use state::{End, Ending, Input, Machine, Need, State, Stop, WrongState, runs_on};

pub(crate) use handles::Handles;
