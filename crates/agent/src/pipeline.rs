//! The tools of a session, built in seven layers: what there is, what replaces it, what is added, what is let through, and how it
//! is written for the provider. The order is fixed, so that nothing that is added later escapes what decides; each layer says what it
//! did. The same parts give the same bytes.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use llm::ToolDefinition;
use serde_json::{Map, Value};
use workspace::{Effects, ErrorCode};

use crate::cx::ToolCx;
use crate::registry::{Registry, RegistryError};
use crate::tool::{ExecutionMode, Origin, Presence, Tool, ToolResult};

/// The layers, in order.
pub const LAYERS: [&str; 7] =
    ["base", "sandbox", "session", "surface", "policy filter", "schema", "cancellation"];

/// What the layers are made of.
#[derive(Default)]
pub struct Pipeline {
    base: Vec<Arc<dyn Tool>>,
    sandboxed: Vec<Arc<dyn Tool>>,
    session: Vec<Arc<dyn Tool>>,
    surface: Vec<Arc<dyn Tool>>,
    filter: Filter,
    dialect: Dialect,
}

/// Which tools are let through, by name or by source (`builtin`, `mcp`, `mcp:SERVER`, `extension`, `custom`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Nothing else is let through; everything is when `None`.
    pub allow: Option<Vec<String>>,
    /// These are, though they are off by themselves.
    pub enable: Vec<String>,
    /// These are not; counts over the others.
    pub disable: Vec<String>,
    /// Off until they are enabled.
    pub off: Vec<String>,
}

/// What a provider takes of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// All of it.
    #[default]
    JsonSchema,
    /// No `$schema`, `$id` or `default`, and `const` as an `enum` of one, as OpenAI's and most local servers want it.
    Plain,
}

/// What one layer did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerTrace {
    /// Its name, as in [`LAYERS`].
    pub layer: &'static str,
    /// The names of the tools after it, in order.
    pub tools: Vec<String>,
    /// What it did, for people; empty when it did nothing.
    pub did: Vec<String>,
}

impl Pipeline {
    /// Layer 1: what there is.
    pub fn base(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Pipeline {
        Pipeline { base: tools.into_iter().collect(), ..Pipeline::default() }
    }

    /// Layer 2: versions that stand in for base tools of the same name.
    pub fn sandboxed(self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Pipeline {
        Pipeline { sandboxed: tools.into_iter().collect(), ..self }
    }

    /// Layer 3: tools of the session.
    pub fn session(self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Pipeline {
        Pipeline { session: tools.into_iter().collect(), ..self }
    }

    /// Layer 4: what only this surface can do.
    pub fn surface(self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Pipeline {
        Pipeline { surface: tools.into_iter().collect(), ..self }
    }

    /// Layer 5: what is let through.
    pub fn filter(self, filter: Filter) -> Pipeline {
        Pipeline { filter, ..self }
    }

    /// Layer 6: how schemas are written.
    pub fn dialect(self, dialect: Dialect) -> Pipeline {
        Pipeline { dialect, ..self }
    }

    /// The tools, and what each layer did. `Err` when two of them have one name.
    pub fn build(self) -> Result<(Registry, Vec<LayerTrace>), RegistryError> {
        let mut trace = Vec::with_capacity(LAYERS.len());
        let mut note = |tools: &[Arc<dyn Tool>], did: Vec<String>| {
            let tools = tools.iter().map(|tool| tool.definition().name.clone()).collect();
            trace.push(LayerTrace { layer: LAYERS[trace.len()], tools, did });
        };
        let mut tools = self.base;
        note(&tools, Vec::new());
        let mut did = Vec::new();
        for safe in self.sandboxed {
            let name = &safe.definition().name;
            match tools.iter_mut().find(|tool| tool.definition().name == *name) {
                Some(tool) => {
                    did.push(format!("{name} replaced"));
                    *tool = safe;
                }
                None => did.push(format!("{name} stands in for nothing")),
            }
        }
        note(&tools, did);
        for added in [self.session, self.surface] {
            let did = added.iter().map(|tool| format!("{} added", tool.definition().name)).collect();
            tools.extend(added);
            note(&tools, did);
        }
        let mut names = HashSet::new();
        if let Some(twice) = tools.iter().find(|tool| !names.insert(tool.definition().name.clone())) {
            return Err(RegistryError::Duplicate { name: twice.definition().name.clone() });
        }
        let mut did = Vec::new();
        tools.retain(|tool| {
            let refused = self.filter.refusal(tool.as_ref());
            did.extend(refused.map(|why| format!("{} left out: {why}", tool.definition().name)));
            refused.is_none()
        });
        note(&tools, did);
        let mut did = Vec::new();
        for tool in &mut tools {
            let definition = tool.definition();
            let parameters = normalized(self.dialect, &definition.parameters);
            if parameters != definition.parameters {
                did.push(format!("{} rewritten", definition.name));
                let definition = ToolDefinition { parameters, ..definition.clone() };
                *tool = Arc::new(Rewritten { definition, tool: tool.clone() });
            }
        }
        note(&tools, did);
        let guarded: Vec<Arc<dyn Tool>> =
            tools.into_iter().map(|tool| Arc::new(Guarded(tool)) as Arc<dyn Tool>).collect();
        note(&guarded, Vec::new());
        Ok((Registry::new(guarded)?, trace))
    }
}

impl Filter {
    /// The tools that are let through, in their order.
    pub fn sifted(&self, tools: &Registry) -> Registry {
        let through = tools.tools().filter(|tool| self.refusal(tool.as_ref()).is_none()).cloned();
        Registry::new(through).expect("names were unique and still are")
    }

    /// Why a tool is not let through, if it is not.
    fn refusal(&self, tool: &dyn Tool) -> Option<&'static str> {
        let names = called(tool);
        let among = |list: &[String]| list.iter().any(|it| names.contains(it));
        if among(&self.disable) {
            Some("it is disabled")
        } else if self.allow.as_ref().is_some_and(|allow| !among(allow)) {
            Some("it is not on the list of what is allowed")
        } else if among(&self.off) && !among(&self.enable) {
            Some("it is off until it is enabled")
        } else {
            None
        }
    }
}

/// What a tool is called in lists: its name, its source, its server.
fn called(tool: &dyn Tool) -> Vec<String> {
    let Origin { source, server_name, .. } = tool.origin();
    let source = serde_json::to_value(source).ok().and_then(|it| it.as_str().map(str::to_owned));
    let source = source.unwrap_or_default();
    let mut names = vec![tool.definition().name.clone()];
    names.extend(server_name.map(|server| format!("{source}:{server}")));
    names.push(source);
    names
}

fn normalized(dialect: Dialect, schema: &Value) -> Value {
    match (dialect, schema) {
        (Dialect::Plain, Value::Object(members)) => {
            let mut out = Map::new();
            for (name, value) in members {
                match name.as_str() {
                    "$schema" | "$id" | "default" => {}
                    "const" => {
                        out.insert("enum".to_owned(), Value::Array(vec![value.clone()]));
                    }
                    // Names of properties are not words of the schema.
                    "properties" | "$defs" | "definitions" => {
                        let inner = value.as_object().into_iter().flatten();
                        let inner = inner.map(|(name, it)| (name.clone(), normalized(dialect, it)));
                        out.insert(name.clone(), Value::Object(inner.collect()));
                    }
                    "enum" | "required" | "examples" => {
                        out.insert(name.clone(), value.clone());
                    }
                    _ => {
                        out.insert(name.clone(), normalized(dialect, value));
                    }
                }
            }
            Value::Object(out)
        }
        (Dialect::Plain, Value::Array(items)) => items.iter().map(|item| normalized(dialect, item)).collect(),
        (_, value) => value.clone(),
    }
}

/// A tool with another definition.
struct Rewritten {
    definition: ToolDefinition,
    tool: Arc<dyn Tool>,
}

impl Tool for Rewritten {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }
    fn effects(&self, args: &Value) -> Effects {
        self.tool.effects(args)
    }
    fn execution_mode(&self) -> ExecutionMode {
        self.tool.execution_mode()
    }
    fn unnamed_arguments(&self) -> &[&str] {
        self.tool.unnamed_arguments()
    }
    fn presence(&self) -> Presence {
        self.tool.presence()
    }
    fn origin(&self) -> Origin {
        self.tool.origin()
    }
    fn execute<'a>(&'a self, args: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolResult> {
        self.tool.execute(args, cx)
    }
}

/// A tool that does not start when its call is already cancelled.
struct Guarded(Arc<dyn Tool>);

impl Tool for Guarded {
    fn definition(&self) -> &ToolDefinition {
        self.0.definition()
    }
    fn effects(&self, args: &Value) -> Effects {
        self.0.effects(args)
    }
    fn execution_mode(&self) -> ExecutionMode {
        self.0.execution_mode()
    }
    fn unnamed_arguments(&self) -> &[&str] {
        self.0.unnamed_arguments()
    }
    fn presence(&self) -> Presence {
        self.0.presence()
    }
    fn origin(&self) -> Origin {
        self.0.origin()
    }
    fn execute<'a>(&'a self, args: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolResult> {
        if cx.cancel.is_cancelled() {
            return Box::pin(async { ToolResult::error(ErrorCode::Cancelled, "aborted before start") });
        }
        self.0.execute(args, cx)
    }
}
