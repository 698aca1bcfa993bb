//! Execution of one tool call.
//!
//! Unknown tools, invalid arguments and panics become results. The loop adds events and hooks.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt as _;
use llm::{Content, ToolCall};
use policy::{Effects, ErrorCode};
use serde_json::{Value, json};

use crate::tool::arguments;
use crate::tool::context::ToolCx;
use crate::tool::registry::{Registered, Registry};
use crate::tool::{Tool, ToolResult};

/// Calls a tool by name, without a model.
///
/// Arguments are coerced and validated as in a run, and a panic becomes an error result. Waits as long as the
/// tool does; `cx.cancel` is passed on.
pub async fn call_tool(registry: &Registry, name: &str, args: Value, cx: &ToolCx) -> ToolResult {
    let registered = match find(registry, name) {
        Ok(registered) => registered,
        Err(result) => return *result,
    };
    match registered.validate(args) {
        Ok(args) => execute(registered.tool.as_ref(), args, cx).await,
        Err(problem) => ToolResult::error(ErrorCode::InvalidArguments, problem),
    }
}

/// Finds the tool of a model's call, validates its arguments and reads its effects.
pub(crate) fn resolve(
    registry: &Registry,
    call: &ToolCall,
) -> Result<(Arc<dyn Tool>, Value, Effects), Box<ToolResult>> {
    let registered = find(registry, &call.name)?;
    if let Some(error) = &call.arguments_error {
        let received = Value::Object(call.arguments.clone());
        let text = arguments::failure(&call.name, &format!("\n  - arguments: {error}"), &received);
        return Err(Box::new(ToolResult::error(ErrorCode::InvalidArguments, text)));
    }
    let args = registered
        .validate(Value::Object(call.arguments.clone()))
        .map_err(|problem| Box::new(ToolResult::error(ErrorCode::InvalidArguments, problem)))?;
    let tool = registered.tool.clone();
    let effects = catch_unwind(AssertUnwindSafe(|| tool.effects(&args)))
        .map_err(|panic| Box::new(panicked(&call.name, panic.as_ref())))?;
    Ok((tool, args, effects))
}

/// Runs a tool; a panic becomes an error result.
pub(crate) async fn execute(tool: &dyn Tool, args: Value, cx: &ToolCx) -> ToolResult {
    let ignored = arguments::unknown(&tool.definition().parameters, tool.unnamed_arguments(), &args);
    // Creating the future may panic as well, so it happens inside.
    let run = AssertUnwindSafe(async { tool.execute(args, cx).await }).catch_unwind();
    match run.await {
        Ok(mut result) => {
            if let Some(note) = ignored {
                result.content.push(Content::text(note));
            }
            result
        }
        Err(panic) => panicked(&tool.definition().name, panic.as_ref()),
    }
}

pub(crate) fn panicked(name: &str, panic: &(dyn Any + Send)) -> ToolResult {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    tracing::error!(tool = name, text, "a tool panicked");
    let text = format!("tool {name} failed because of a defect: {text}");
    ToolResult::error(ErrorCode::Internal, text)
}

fn find<'a>(registry: &'a Registry, name: &str) -> Result<&'a Arc<Registered>, Box<ToolResult>> {
    registry.registered(name).ok_or_else(|| {
        let names = registry.names();
        let text = format!("Tool {name} not found; available: {}", names.join(", "));
        Box::new(ToolResult::error(ErrorCode::NotFound, text).with_data(json!({ "tools": names })))
    })
}
