//! A built-in tool: its description for models, and the code of a call.

use agent::{ExecutionMode, Presence, Tool, ToolCx, ToolResult};
use futures_util::future::BoxFuture;
use llm::ToolDefinition;
use policy::Effects;
use serde_json::{Value, json};

use crate::{Failure, action_name};

/// The code of a tool. A failure becomes the result of the call.
pub(crate) trait BuiltIn: Send + Sync + 'static {
    /// Effects known before the call, from validated arguments.
    fn effects(&self, _: &Value) -> Effects {
        Effects { reads: true, ..Effects::default() }
    }

    /// Accepted arguments that the definition does not show to models.
    fn unnamed_arguments(&self) -> &[&str] {
        &[]
    }

    /// See [`Tool::aliases`].
    fn aliases(&self) -> &[&str] {
        &[]
    }

    /// See [`Tool::forget`].
    fn forget(&self, _result: &str) {}

    /// See [`Tool::recall`].
    fn recall(&self, _results: &[(&str, &str)]) {}

    fn run(&self, args: Value, cx: &ToolCx) -> impl Future<Output = Result<ToolResult, Failure>> + Send;
}

/// A tool with its description.
pub(crate) struct Described<T> {
    definition: ToolDefinition,
    presence: Presence,
    mode: ExecutionMode,
    tool: T,
}

impl<T: BuiltIn> Described<T> {
    /// A tool that models find by a search, with these parameters.
    pub fn new(
        name: &str,
        label: &str,
        description: impl AsRef<str>,
        properties: Value,
        required: &[&str],
        tool: T,
    ) -> Self {
        let mut parameters = json!({ "type": "object", "properties": properties });
        if !required.is_empty() {
            parameters["required"] = json!(required);
        }
        let description = description.as_ref().trim().to_owned();
        let (name, label) = (name.to_owned(), label.to_owned());
        Self::of(ToolDefinition { name, label, description, parameters }, tool)
    }

    pub fn of(definition: ToolDefinition, tool: T) -> Self {
        Self { definition, presence: Presence::default(), mode: ExecutionMode::default(), tool }
    }

    /// Models know the tool from the start.
    pub fn at_start(self) -> Self {
        Self { presence: Presence::Start, ..self }
    }

    /// Models also know the tool if the first prompt has one of these words.
    pub(crate) fn for_words(self, when: &'static [&'static str]) -> Self {
        Self { presence: Presence::Search { when }, ..self }
    }

    /// No other call of a response runs concurrently.
    pub fn sequential(self) -> Self {
        Self { mode: ExecutionMode::Sequential, ..self }
    }
}

impl<T: BuiltIn> Tool for Described<T> {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn unnamed_arguments(&self) -> &[&str] {
        self.tool.unnamed_arguments()
    }

    fn execution_mode(&self) -> ExecutionMode {
        self.mode
    }

    fn presence(&self) -> Presence {
        self.presence
    }

    fn effects(&self, args: &Value) -> Effects {
        self.tool.effects(args)
    }

    fn aliases(&self) -> &[&str] {
        self.tool.aliases()
    }

    fn forget(&self, result: &str) {
        self.tool.forget(result);
    }

    fn recall(&self, results: &[(&str, &str)]) {
        self.tool.recall(results);
    }

    fn execute<'a>(&'a self, args: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolResult> {
        let action = action_name(&self.definition.name, &args);
        Box::pin(async move {
            self.tool.run(args, cx).await.unwrap_or_else(|failure| failure.into_result(&action))
        })
    }
}

/// Schemas of parameters.
pub(crate) fn text(about: &str) -> Value {
    json!({ "type": "string", "description": about })
}

pub(crate) fn flag(about: &str) -> Value {
    json!({ "type": "boolean", "description": about })
}

pub(crate) fn count(about: &str) -> Value {
    json!({ "type": "integer", "description": about })
}
