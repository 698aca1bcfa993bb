//! The tool `ask`: one question to the user. The answer grants no permission.

use agent::{ToolCx, ToolResult};
use policy::{Choice, Chosen, Effects, ErrorCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::described::{BuiltIn, Described, text};
use crate::{Failure, arguments};

/// Maximum number of options of a question.
const MAX_OPTIONS: usize = 6;

pub struct Ask;

#[derive(Debug, Deserialize)]
struct Arguments {
    question: String,
    options: Vec<String>,
}

impl Ask {
    pub fn new() -> Described<Self> {
        let options =
            json!({ "type": "array", "items": { "type": "string" }, "description": "possible answers" });
        let properties = json!({ "question": text("one sentence"), "options": options });
        let (about, required) = (include_str!("ask.md"), ["question", "options"]);
        Described::new("ask", "Ask the user", about, properties, &required, Self)
    }
}

impl BuiltIn for Ask {
    fn effects(&self, _: &Value) -> Effects {
        Effects::default()
    }

    async fn run(&self, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
        let Arguments { question, mut options } = arguments(args)?;
        options.retain(|option| !option.trim().is_empty());
        if question.trim().is_empty() || !(2..=MAX_OPTIONS).contains(&options.len()) {
            return Err(Failure::invalid(format!(
                "a question needs a text and two to {MAX_OPTIONS} options"
            )));
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
}
