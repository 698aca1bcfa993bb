//! The tools that a model knows, and the search for the others.
//!
//! A session begins with few tools. A found tool is sent from the next request on and stays for the session.
//! The list only grows at its end, so providers' caches stay valid. The model can call a tool by name before
//! it finds it: the index restricts the definitions in a request, not the calls.

mod index;
mod tokens;

use std::sync::{Arc, OnceLock};

use llm::ToolDefinition;
use parking_lot::{Mutex, MutexGuard};

pub(crate) use index::SUMMARY;
pub use index::{Match, ToolDocument, ToolIndex, ToolSource};
pub use tokens::each_word;

use crate::tool::registry::Registry;
use crate::tool::{Presence, Tool};

/// Maximum number of tools that one search adds.
const MOST_ACTIVATED: usize = 5;

/// The tools of one session.
pub struct Toolset {
    registry: Arc<Registry>,
    /// The search index, which the first search builds.
    index: OnceLock<ToolIndex>,
    active: Mutex<ActiveTools>,
}

#[derive(Default)]
struct ActiveTools {
    /// Registry indices, in the order in which the model learned of the tools.
    order: Vec<usize>,
    /// Number of tools of `order` that the session file records.
    noted: usize,
}

/// A tool that a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundTool {
    pub name: String,
    /// Its definition, as sent in requests.
    pub definition: ToolDefinition,
    /// Quality of the match, above 0; comparable within one answer only.
    pub score: f64,
    /// Whether the model knows it now.
    pub is_active: bool,
    /// Whether this search made it known.
    pub is_new: bool,
}

impl Toolset {
    /// A toolset whose tools are all known from the start.
    pub fn all(registry: Arc<Registry>) -> Self {
        let order = (0..registry.len()).collect();
        Self::with(registry, order)
    }

    /// A toolset whose tools are found by search, except those present from the start.
    pub fn searchable(registry: Arc<Registry>) -> Self {
        let order = registry.tools().enumerate().filter(|(_, tool)| tool.presence() == Presence::Start);
        let order = order.map(|(at, _)| at).collect();
        Self::with(registry, order)
    }

    fn with(registry: Arc<Registry>, order: Vec<usize>) -> Self {
        let noted = order.len();
        Self { registry, index: OnceLock::new(), active: Mutex::new(ActiveTools { order, noted }) }
    }

    /// All tools, known or not.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The definitions for the next request.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        let order = self.lock().order.clone();
        order
            .into_iter()
            .filter_map(|at| self.registry.at(at))
            .map(|tool| tool.definition().clone())
            .collect()
    }

    /// Names of the known tools, in the order in which they became known.
    pub fn active(&self) -> Vec<String> {
        self.definitions().into_iter().map(|definition| definition.name).collect()
    }

    /// At most `limit` matching tools, the best first.
    ///
    /// The first five unknown ones become known.
    pub fn find(&self, query: &str, limit: usize) -> Vec<FoundTool> {
        let index = self.index.get_or_init(|| {
            let documents: Vec<ToolDocument> =
                self.registry.tools().map(|tool| ToolDocument::of(tool.as_ref())).collect();
            ToolIndex::new(&documents)
        });
        let matches = index.search(query, limit);
        let mut active = self.lock();
        let mut left = MOST_ACTIVATED;
        let mut found = Vec::new();
        for Match { document: at, score } in matches {
            let Some(tool) = self.registry.at(at) else { continue };
            let is_new = !active.order.contains(&at) && left > 0;
            if is_new {
                active.order.push(at);
                left -= 1;
            }
            let definition = tool.definition().clone();
            let is_active = active.order.contains(&at);
            found.push(FoundTool { name: definition.name.clone(), definition, score, is_active, is_new });
        }
        found
    }

    /// Makes tools known by name; unknown names are skipped.
    pub fn activate<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        let mut active = self.lock();
        for at in names.into_iter().filter_map(|name| self.registry.position(name)) {
            if !active.order.contains(&at) {
                active.order.push(at);
            }
        }
    }

    /// Makes the tools known whose words appear in the first prompt.
    pub fn activate_for(&self, prompt: &str) {
        let mut words = std::collections::HashSet::new();
        tokens::each_word(prompt, |token| {
            words.insert(token.to_owned());
        });
        let called = |tool: &Arc<dyn Tool>| match tool.presence() {
            Presence::Search { when } => when.iter().any(|word| words.contains(*word)),
            Presence::Start => false,
        };
        let names: Vec<String> = self
            .registry
            .tools()
            .filter(|tool| called(tool))
            .map(|tool| tool.definition().name.clone())
            .collect();
        self.activate(names.iter().map(String::as_str));
    }

    /// Names of the tools that became known since the last call, for the session file.
    pub(crate) fn take_new(&self) -> Vec<String> {
        let mut active = self.lock();
        let new = active.order[active.noted..].to_vec();
        active.noted = active.order.len();
        drop(active);
        let tools = new.into_iter().filter_map(|at| self.registry.at(at));
        tools.map(|tool| tool.definition().name.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, ActiveTools> {
        self.active.lock()
    }
}

impl ToolDocument {
    /// The indexed text of a tool.
    pub fn of(tool: &dyn Tool) -> Self {
        let definition = tool.definition();
        let origin = tool.origin();
        let keys = definition.parameters["properties"].as_object();
        Self {
            name: definition.name.clone(),
            label: definition.label.clone(),
            summary: definition.description.chars().take(SUMMARY).collect(),
            source: origin.source,
            server_name: origin.server_name,
            mcp_tool_name: origin.mcp_tool_name,
            schema_keys: keys.map(|keys| keys.keys().cloned().collect()).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_search_builds_the_index_once() {
        let tools = Toolset::searchable(Arc::default());
        tools.activate_for("words of a prompt");
        assert!(tools.definitions().is_empty() && tools.index.get().is_none());
        tools.find("words", 1);
        let made = std::ptr::from_ref(tools.index.get().unwrap());
        tools.find("others", 1);
        assert_eq!(std::ptr::from_ref(tools.index.get().unwrap()), made);
    }
}
