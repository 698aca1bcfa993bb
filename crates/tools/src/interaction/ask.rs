//! The tool `ask`: one question to the user. The answer grants no permission.

use agent::{Tool, ToolCx, ToolResult};
use futures_util::future::BoxFuture;
use llm::ToolDefinition;
use policy::{Choice, Chosen, Effects, ErrorCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Failure, arguments};

/// Maximum number of options of a question.
const MAX_OPTIONS: usize = 6;

pub struct Ask {
    definition: ToolDefinition,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    question: String,
    options: Vec<String>,
}

impl Ask {
    pub fn new() -> Self {
        let definition = ToolDefinition {
            name: "ask".to_owned(),
            label: "Ask the user".to_owned(),
            description: include_str!("ask.md").trim().to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "question": { "type": "string" },
                    "options": { "type": "array", "items": { "type": "string" } },
                },
                "required": ["question", "options"],
            }),
        };
        Self { definition }
    }
}

impl Tool for Ask {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn effects(&self, _: &Value) -> Effects {
        Effects::default()
    }

    fn execute<'a>(&'a self, args: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { run(args, cx).await.unwrap_or_else(ToolResult::from) })
    }
}

async fn run(args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let Arguments { question, mut options } = arguments(args)?;
    options.retain(|option| !option.trim().is_empty());
    if question.trim().is_empty() || !(2..=MAX_OPTIONS).contains(&options.len()) {
        let message = format!("a question needs a text and two to {MAX_OPTIONS} options");
        return Err(Failure::new(ErrorCode::InvalidArguments, message));
    }
    let chosen = cx.approver().choose(Choice { question, options }, &cx.cancel).await;
    if cx.cancel.is_cancelled() {
        return Err(Failure::new(ErrorCode::Cancelled, "cancelled before it was answered"));
    }
    Ok(match chosen {
        Chosen::Said(answer) => {
            ToolResult::text(format!("the user says: {answer}")).with_details(json!({ "answer": answer }))
        }
        Chosen::Dismissed => ToolResult::text("the user dismissed the question"),
        Chosen::Unattended => {
            ToolResult::text("unavailable: no user to ask; decide yourself and say what you assumed")
        }
    })
}
