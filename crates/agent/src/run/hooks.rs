//! Extension points of the loop for an embedding program.
//!
//! Every method has a default that changes nothing. A hook that fails or panics produces an error result or
//! an error message, never a crash.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use llm::{ApiKey, AssistantMessage, Message, Model, ThinkingLevel, ToolCall};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::tool::ToolResult;
use crate::transcript::Messages;

/// Extension points of the loop.
pub trait Hooks: Send + Sync {
    /// Handles the start of a run.
    ///
    /// `cancel` fires when it is cancelled: the model and the tools have the same token, and a hook that runs
    /// 100 ms longer is dropped. Must not block.
    fn run_begins(&self, cancel: &CancellationToken) {
        let _ = cancel;
    }

    /// Runs before a valid call; `messages` ends with the message that made it.
    ///
    /// `Err` produces an error result with this text.
    fn before_tool_call<'a>(
        &'a self,
        call: &'a ToolCall,
        args: &'a Value,
        messages: &'a Messages,
    ) -> BoxFuture<'a, Result<CallDecision, String>> {
        let _ = (call, args, messages);
        Box::pin(async { Ok(CallDecision::Proceed) })
    }

    /// Runs after a call, before its result is shown; returns the final result.
    ///
    /// `Err` produces an error result with this text.
    fn after_tool_call<'a>(
        &'a self,
        call: &'a ToolCall,
        args: &'a Value,
        result: ToolResult,
    ) -> BoxFuture<'a, Result<ToolResult, String>> {
        let _ = (call, args);
        Box::pin(async { Ok(result) })
    }

    /// Whether `transform_context` or `convert_to_llm` is implemented.
    ///
    /// If not, a long transcript is not copied for each request.
    fn changes_context(&self) -> bool {
        true
    }

    /// Transforms the messages of each request; the transcript is unchanged.
    fn transform_context<'a>(&'a self, messages: Vec<Message>) -> BoxFuture<'a, Vec<Message>> {
        Box::pin(async { messages })
    }

    /// Converts the messages after `transform_context`.
    ///
    /// Failed responses are then removed and unanswered calls answered in any case.
    fn convert_to_llm<'a>(&'a self, messages: Vec<Message>) -> BoxFuture<'a, Vec<Message>> {
        Box::pin(async { messages })
    }

    /// The message for custom data in the transcript; `None` keeps it from the model.
    fn custom_message(&self, kind: &str, data: &Value) -> Option<Message> {
        let _ = (kind, data);
        None
    }

    /// Runs after `turn_end` when another turn follows; not before the first turn.
    fn prepare_next_turn<'a>(&'a self, report: TurnReport<'a>) -> BoxFuture<'a, NextTurn> {
        let _ = report;
        Box::pin(async { NextTurn::default() })
    }

    /// Runs after each turn, before `turn_end`.
    ///
    /// The loop ignores the decision if the response failed or was cancelled.
    fn finish_turn<'a>(&'a self, report: TurnReport<'a>) -> BoxFuture<'a, TurnDecision> {
        let _ = report;
        Box::pin(async { TurnDecision::LoopDecides })
    }

    /// The key for the next request to this provider; `None` leaves it to the model.
    fn get_api_key<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Option<ApiKey>> {
        let _ = provider;
        Box::pin(async { None })
    }

    /// Observes each request body with secrets redacted; a returned body replaces it.
    fn on_payload<'a>(&'a self, body: &'a Value) -> BoxFuture<'a, Option<Value>> {
        let _ = body;
        Box::pin(async { None })
    }

    /// Observes the status and headers of each answer, redacted. Must not block.
    fn on_response(&self, status: u16, headers: &[(String, String)]) {
        let _ = (status, headers);
    }
}

/// The decision whether a call runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallDecision {
    Proceed,
    /// The call is not run; the model receives the reason.
    Block {
        reason: String,
        /// Whether the result allows the run to end.
        terminate: bool,
    },
}

/// A finished turn.
#[derive(Debug, Clone, Copy)]
pub struct TurnReport<'a> {
    /// The turn, from 1.
    pub turn_index: u32,
    pub message: &'a AssistantMessage,
    /// Result messages, in the model's order.
    pub results: &'a [Message],
}

/// The next step after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnDecision {
    /// The run ends; the queues are unchanged.
    End,
    /// Another request is made even if the run would stop, within the turn limit.
    Continue,
    /// The loop decides.
    LoopDecides,
}

/// Changes for the next turn; `None` keeps a value.
#[derive(Clone, Default)]
pub struct NextTurn {
    /// Messages that precede the queued messages.
    pub messages: Vec<Message>,
    pub model: Option<Arc<dyn Model>>,
    pub thinking_level: Option<ThinkingLevel>,
    pub instructions: Option<String>,
}

#[derive(Debug, Clone, Copy)]
pub struct NoHooks;

impl Hooks for NoHooks {
    fn changes_context(&self) -> bool {
        false
    }
}
