//! Where an embedding program takes part in the loop. Every method has a default that changes nothing; a hook that
//! fails or panics makes an error result or a message that ends in an error, never a crash.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use llm::{ApiKey, AssistantMessage, Message, Model, ThinkingLevel, ToolCall};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::messages::Messages;
use crate::tool::ToolResult;

/// Takes part in the loop.
pub trait Hooks: Send + Sync {
    /// A run begins. `cancel` fires when it is cancelled: it is the token that the model and the tools have, and a hook that is still at
    /// work 100 ms after is dropped. Must not block.
    fn run_begins(&self, cancel: &CancellationToken) {
        let _ = cancel;
    }

    /// Before a call whose arguments are valid is run. `messages` ends with the message that asked for it. `Err` makes an error result
    /// with this text.
    fn before_tool_call<'a>(
        &'a self,
        call: &'a ToolCall,
        args: &'a Value,
        messages: &'a Messages,
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

    /// Whether `transform_context` or `convert_to_llm` does anything. Where neither does, a long transcript is not copied for each
    /// request.
    fn changes_context(&self) -> bool {
        true
    }

    /// The messages of a request, before each request. The transcript stays as it is.
    fn transform_context<'a>(&'a self, messages: Vec<Message>) -> BoxFuture<'a, Vec<Message>> {
        Box::pin(async { messages })
    }

    /// After `transform_context`: the messages as the model is sent them. Failed responses are left out and unanswered calls
    /// answered after it, whatever it does.
    fn convert_to_llm<'a>(&'a self, messages: Vec<Message>) -> BoxFuture<'a, Vec<Message>> {
        Box::pin(async { messages })
    }

    /// What stands in the transcript for a custom message; `None` (the default) keeps it from the model.
    fn custom_message(&self, kind: &str, data: &Value) -> Option<Message> {
        let _ = (kind, data);
        None
    }

    /// When another turn is going to start, after `turn_end`; not before the first of a run.
    fn prepare_next_turn<'a>(&'a self, report: TurnReport<'a>) -> BoxFuture<'a, NextTurn> {
        let _ = report;
        Box::pin(async { NextTurn::default() })
    }

    /// After each turn, before `turn_end`. Does not count when the response failed or was cancelled.
    fn finish_turn<'a>(&'a self, report: TurnReport<'a>) -> BoxFuture<'a, Finish> {
        let _ = report;
        Box::pin(async { Finish::Leave })
    }

    /// The key for the next request to this provider; `None` leaves it to the model.
    fn get_api_key<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Option<ApiKey>> {
        let _ = provider;
        Box::pin(async { None })
    }

    /// Sees the body of a request as it goes over the network, secrets replaced; what it returns is sent instead.
    fn on_payload<'a>(&'a self, body: &'a Value) -> BoxFuture<'a, Option<Value>> {
        let _ = body;
        Box::pin(async { None })
    }

    /// Sees the status and the headers of each answer, secrets replaced. Must not block.
    fn on_response(&self, status: u16, headers: &[(String, String)]) {
        let _ = (status, headers);
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

/// What the next turn begins with; whatever is `None` stays as it is.
#[derive(Clone, Default)]
pub struct NextTurn {
    /// Come before what is queued.
    pub messages: Vec<Message>,
    /// Another model, from now on.
    pub model: Option<Arc<dyn Model>>,
    /// Another level of thinking, from now on.
    pub thinking_level: Option<ThinkingLevel>,
    /// Other instructions, from now on.
    pub instructions: Option<String>,
}

/// Changes nothing.
#[derive(Debug, Clone, Copy)]
pub struct NoHooks;

impl Hooks for NoHooks {
    fn changes_context(&self) -> bool {
        false
    }
}
