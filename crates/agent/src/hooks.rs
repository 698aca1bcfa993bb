//! Where an embedding program takes part in the loop. Every method has a default that changes nothing; a hook that
//! fails or panics makes an error result, never a crash.

use futures_util::future::BoxFuture;
use llm::{AssistantMessage, Message, ToolCall};
use serde_json::Value;

use crate::tool::ToolResult;

/// Takes part in the loop.
pub trait Hooks: Send + Sync {
    /// Before a call whose arguments are valid is run. `messages` ends with the message that asked for it. `Err` makes an error result
    /// with this text.
    fn before_tool_call<'a>(
        &'a self,
        call: &'a ToolCall,
        args: &'a Value,
        messages: &'a [Message],
    ) -> BoxFuture<'a, Result<Before, String>> {
        let _ = (call, args, messages);
        Box::pin(async { Ok(Before::Proceed) })
    }

    /// After a call was run, before its result is shown: returns the result that counts. `Err` makes an error result
    /// with this text.
    fn after_tool_call<'a>(
        &'a self,
        call: &'a ToolCall,
        args: &'a Value,
        result: ToolResult,
    ) -> BoxFuture<'a, Result<ToolResult, String>> {
        let _ = (call, args);
        Box::pin(async { Ok(result) })
    }

    /// The messages of a request, before each request. The transcript stays as it is.
    fn transform_context<'a>(&'a self, messages: Vec<Message>) -> BoxFuture<'a, Vec<Message>> {
        Box::pin(async { messages })
    }

    /// After each turn, before `turn_end`. Does not count when the response failed or was cancelled.
    fn finish_turn<'a>(&'a self, report: TurnReport<'a>) -> BoxFuture<'a, Finish> {
        let _ = report;
        Box::pin(async { Finish::Leave })
    }
}

/// Whether a call may be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    /// It may.
    Proceed,
    /// It may not; the model is told the reason.
    Block {
        /// Why not, for the model.
        reason: String,
        /// Counts as a result that ends the run.
        terminate: bool,
    },
}

/// What a turn came to.
#[derive(Debug, Clone, Copy)]
pub struct TurnReport<'a> {
    /// The turn, from 1.
    pub turn_index: u32,
    /// The model's message.
    pub message: &'a AssistantMessage,
    /// The results, in the model's order.
    pub results: &'a [Message],
}

/// What happens after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The run ends; the queues are left as they are.
    End,
    /// One more request is made even if the run would stop. The limit of turns holds.
    Continue,
    /// As the loop decides.
    Leave,
}

/// Changes nothing.
#[derive(Debug, Clone, Copy)]
pub struct NoHooks;

impl Hooks for NoHooks {}
