//! An embedded session: a model, a tool, and the answer.

use std::{error::Error, sync::Arc};

use agent::{Registry, Session, Tool, ToolCx, ToolResult};
use futures_util::future::BoxFuture;
use llm::{ScriptModel, ToolDefinition};
use policy::Effects;
use serde_json::{Value, json};

struct Greet(ToolDefinition);

impl Tool for Greet {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }
    fn effects(&self, _: &Value) -> Effects {
        Effects::default()
    }
    fn execute<'a>(&'a self, args: Value, _: &'a ToolCx) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { ToolResult::text(format!("Hello, {}!", args["name"])) })
    }
}

/// Prompts once, and returns the run's error.
#[tokio::main]
pub async fn main() -> Result<(), Box<dyn Error>> {
    // Any other model works as well.
    let script = r#"{"tool_calls": [{"name": "greet", "arguments": {"name": "Ada"}}]}
                    {"text": "Greeted.", "expect": {"last_contains": ["Hello, \"Ada\"!"]}}"#;
    let parameters = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let [name, label, description] = ["greet", "Greet", "Greets a user."].map(str::to_owned);
    let greet = Greet(ToolDefinition { name, label, description, parameters });
    let tools = Registry::new([Arc::new(greet) as Arc<dyn Tool>])?;
    let session = Session::builder(Arc::new(ScriptModel::parse("embed", script)?), tools).build();
    let outcome = session.prompt("Greet Ada.").await;
    outcome.error.map_or(Ok(()), |error| Err(error.into()))
}
