//! The five layers of a session's tools.
//!
//! They are built-in, session, surface, filter, and a guard against cancelled calls. The order is fixed, so
//! that later additions pass the filter too. Each layer records its effect. The same parts give the same
//! bytes.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use llm::{Content, ToolDefinition};
use policy::{Effects, ErrorCode, Redactor};
use serde_json::Value;

use crate::tool::context::ToolCx;
use crate::tool::registry::{Registry, RegistryError};
use crate::tool::{ExecutionMode, Origin, Presence, Tool, ToolResult};

/// The layers, in order.
pub(crate) const LAYERS: [&str; 5] = ["base", "session", "surface", "policy filter", "cancellation"];

/// The parts of the layers.
#[derive(Default)]
pub struct Pipeline {
    base: Vec<Arc<dyn Tool>>,
    session: Vec<Arc<dyn Tool>>,
    surface: Vec<Arc<dyn Tool>>,
    filter: Filter,
}

/// Filters tools by name or source.
///
/// Sources are `builtin`, `mcp`, `mcp:SERVER`, `extension` and `custom`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Tools to enable that are off by default.
    pub enable: Vec<String>,
    /// Tools to disable; this takes precedence over `enable`.
    pub disable: Vec<String>,
    /// Tools that are off unless `enable` names them.
    pub off: Vec<String>,
}

/// The effect of one layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerTrace {
    /// A name of [`LAYERS`].
    pub layer: &'static str,
    /// Names of the tools after the layer, in order.
    pub tools: Vec<String>,
    /// Its changes, for users.
    pub did: Vec<String>,
}

impl Pipeline {
    /// Starts the pipeline with layer 1, the built-in tools.
    pub fn base(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Pipeline {
        Pipeline { base: tools.into_iter().collect(), ..Pipeline::default() }
    }

    /// Adds layer 2, the tools of the session.
    pub fn session(self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Pipeline {
        Pipeline { session: tools.into_iter().collect(), ..self }
    }

    /// Adds layer 3, the tools of this surface.
    pub fn surface(self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Pipeline {
        Pipeline { surface: tools.into_iter().collect(), ..self }
    }

    /// Adds layer 4, the filter.
    pub fn filter(self, filter: Filter) -> Pipeline {
        Pipeline { filter, ..self }
    }

    /// The tools and the effect of each layer. `Err` if two have the same name.
    pub fn build(self) -> Result<(Registry, Vec<LayerTrace>), RegistryError> {
        let mut trace = Vec::with_capacity(LAYERS.len());
        let mut note = |tools: &[Arc<dyn Tool>], did: Vec<String>| {
            let tools = tools.iter().map(|tool| tool.definition().name.clone()).collect();
            trace.push(LayerTrace { layer: LAYERS[trace.len()], tools, did });
        };
        let mut tools = self.base;
        note(&tools, Vec::new());
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
            did.extend(refused.map(|why| format!("{} removed: {why}", tool.definition().name)));
            refused.is_none()
        });
        note(&tools, did);
        let guarded: Vec<Arc<dyn Tool>> =
            tools.into_iter().map(|tool| Arc::new(Guarded(tool)) as Arc<dyn Tool>).collect();
        note(&guarded, Vec::new());
        Ok((Registry::new(guarded)?, trace))
    }
}

impl Filter {
    /// Returns the reason why a tool is filtered out, if it is.
    fn refusal(&self, tool: &dyn Tool) -> Option<&'static str> {
        let names = filter_names(tool);
        let among = |list: &[String]| list.iter().any(|it| names.contains(it));
        if among(&self.disable) {
            Some("disabled")
        } else if among(&self.off) && !among(&self.enable) {
            Some("off unless enabled")
        } else {
            None
        }
    }
}

/// Names by which filters select a tool: its name, source and server.
fn filter_names(tool: &dyn Tool) -> Vec<String> {
    let Origin { source, server_name, .. } = tool.origin();
    let source = serde_json::to_value(source).ok().and_then(|it| it.as_str().map(str::to_owned));
    let source = source.unwrap_or_default();
    let mut names = vec![tool.definition().name.clone()];
    names.extend(server_name.map(|server| format!("{source}:{server}")));
    names.push(source);
    names
}

static REDACTOR: OnceLock<Redactor> = OnceLock::new();

/// A tool that returns an error at once if its call is already cancelled.
///
/// Its results name secrets only where the model edits their text.
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
    fn aliases(&self) -> &[&str] {
        self.0.aliases()
    }
    fn presence(&self) -> Presence {
        self.0.presence()
    }
    fn forget(&self, result: &str) {
        self.0.forget(result);
    }
    fn recall(&self, results: &[(&str, &str)]) {
        self.0.recall(results);
    }
    fn origin(&self) -> Origin {
        self.0.origin()
    }
    fn execute<'a>(&'a self, args: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolResult> {
        if cx.cancel.is_cancelled() {
            let text = "the call was cancelled before it started";
            return Box::pin(async move { ToolResult::error(ErrorCode::Cancelled, text) });
        }
        Box::pin(async move {
            let mut result = self.0.execute(args, cx).await;
            if !result.is_exact {
                let texts = result.content.iter_mut().filter_map(|content| match content {
                    Content::Text { text, .. } => Some(text),
                    _ => None,
                });
                let redactor = REDACTOR.get_or_init(Redactor::from_env);
                for text in texts {
                    if let Cow::Owned(redacted) = redactor.redact(text) {
                        *text = redacted;
                    }
                }
            }
            result
        })
    }
}
