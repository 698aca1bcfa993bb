//! The tool `plan`: the steps of the work and their status, for surfaces to show.

use agent::events::{PlanStep, StepStatus};
use agent::{ToolCx, ToolResult};
use policy::Effects;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::described::{BuiltIn, Described, text};
use crate::{Failure, arguments};

/// Maximum number of steps in a plan.
const MAX_STEPS: usize = 50;

pub struct Plan;

#[derive(Debug, Deserialize)]
struct Arguments {
    steps: Vec<PlanStep>,
}

impl Plan {
    pub fn new() -> Described<Self> {
        let step = json!({
            "type": "object",
            "properties": {
                "text": text("the step in a few words"),
                "status": { "type": "string", "enum": ["pending", "active", "done"], "description": "default: pending" },
            },
            "required": ["text"],
        });
        let properties =
            json!({ "steps": { "type": "array", "items": step, "description": "all steps, in order" } });
        Described::new("plan", "Plan the steps", include_str!("plan.md"), properties, &["steps"], Self)
    }
}

impl BuiltIn for Plan {
    fn effects(&self, _: &Value) -> Effects {
        Effects::default()
    }

    async fn run(&self, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
        let (steps, result) = plan(args)?;
        cx.show_plan(steps).await;
        Ok(result)
    }
}

fn plan(args: Value) -> Result<(Vec<PlanStep>, ToolResult), Failure> {
    let Arguments { steps } = arguments(args)?;
    if steps.is_empty() || steps.len() > MAX_STEPS {
        return Err(Failure::invalid(format!("a plan has one to {MAX_STEPS} steps, not {}", steps.len())));
    }
    let line = |step: &PlanStep| {
        let mark = match step.status {
            StepStatus::Pending => "[ ]",
            StepStatus::Active => "[>]",
            StepStatus::Done => "[x]",
        };
        format!("{mark} {}", step.text.replace('\n', " "))
    };
    let text: Vec<String> = steps.iter().map(line).collect();
    let result = ToolResult::text(text.join("\n")).with_details(json!({ "steps": steps }));
    Ok((steps, result))
}

#[cfg(test)]
mod tests {
    use policy::ErrorCode;

    use super::*;

    #[test]
    fn steps_are_shown_with_their_status() {
        let steps = json!({ "steps": [{ "text": "look", "status": "done" }, { "text": "do\nit", "status": "active" }, { "text": "test" }] });
        let (shown, result) = plan(steps).unwrap();
        assert_eq!(shown[1], PlanStep { text: "do\nit".to_owned(), status: StepStatus::Active });
        assert_eq!(result.joined_text(), "[x] look\n[>] do it\n[ ] test");
        assert_eq!(result.details["steps"][2]["status"], "pending");
        for wrong in [json!({ "steps": [] }), json!({ "steps": [{ "text": "x", "status": "maybe" }] })] {
            assert_eq!(plan(wrong).unwrap_err().code, ErrorCode::InvalidArguments);
        }
    }
}
