//! Which tools a model is told of, and how it finds the others.
//!
//! A session begins with few tools. What is found is told from the next request on and stays for the
//! session; the list only grows at its end, so what providers have cached of it holds. A tool that was
//! not found yet can be called all the same by who knows its name: the index is about what a model is
//! told, not about what it may do.

mod index;
mod tokens;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use llm::ToolDefinition;

pub use index::{Match, SUMMARY, ToolDocument, ToolIndex, ToolSource};
pub use tokens::each_word;

use crate::registry::Registry;
use crate::tool::{Presence, Tool};

/// One search makes at most so many tools known.
const MOST_ACTIVATED: usize = 5;

/// The tools of one session.
pub struct Toolset {
    registry: Arc<Registry>,
    /// Made when something is first searched.
    index: OnceLock<ToolIndex>,
    active: Mutex<Active>,
}

#[derive(Default)]
struct Active {
    /// Places in the registry, in the order in which the model learned of them.
    order: Vec<usize>,
    /// How many of them the session's file knows.
    noted: usize,
}

/// A tool that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The name that calls it.
    pub name: String,
    /// Its definition, as requests will hold it.
    pub definition: ToolDefinition,
    /// Above 0; comparable within one answer only.
    pub score: f64,
    /// The model knows it from now on, or knew it before.
    pub is_active: bool,
    /// It did not know it before.
    pub is_new: bool,
}

impl Toolset {
    /// All tools at once: nothing has to be found.
    pub fn whole(registry: Arc<Registry>) -> Self {
        let order = (0..registry.len()).collect();
        Self::with(registry, order)
    }

    /// Those that are there from the start.
    pub fn searched(registry: Arc<Registry>) -> Self {
        let order = registry.tools().enumerate().filter(|(_, tool)| tool.presence() == Presence::Start);
        let order = order.map(|(at, _)| at).collect();
        Self::with(registry, order)
    }

    fn with(registry: Arc<Registry>, order: Vec<usize>) -> Self {
        let noted = order.len();
        Self { registry, index: OnceLock::new(), active: Mutex::new(Active { order, noted }) }
    }

    /// Every tool, told of or not.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What the next request holds.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        let order = self.lock().order.clone();
        order
            .into_iter()
            .filter_map(|at| self.registry.at(at))
            .map(|tool| tool.definition().clone())
            .collect()
    }

    /// The names of the tools that the model knows, in the order in which it learned of them.
    pub fn active(&self) -> Vec<String> {
        self.definitions().into_iter().map(|definition| definition.name).collect()
    }

    /// At most `limit` tools that fit the words, best first. The first five of them that the model did not
    /// know are in every request from now on.
    pub fn find(&self, query: &str, limit: usize) -> Vec<Found> {
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
            found.push(Found { name: definition.name.clone(), definition, score, is_active, is_new });
        }
        found
    }

    /// Makes tools known by name; those that are not there are passed over.
    pub fn activate<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        let mut active = self.lock();
        for at in names.into_iter().filter_map(|name| self.registry.position(name)) {
            if !active.order.contains(&at) {
                active.order.push(at);
            }
        }
    }

    /// Makes the tools known whose words stand in the first prompt.
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

    /// What became known since this was asked last, for the session's file.
    pub(crate) fn take_new(&self) -> Vec<String> {
        let mut active = self.lock();
        let new = active.order[active.noted..].to_vec();
        active.noted = active.order.len();
        drop(active);
        let tools = new.into_iter().filter_map(|at| self.registry.at(at));
        tools.map(|tool| tool.definition().name.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Active> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ToolDocument {
    /// What the index knows of a tool.
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
    fn the_index_is_made_by_the_first_search_and_kept() {
        let tools = Toolset::searched(Arc::default());
        tools.activate_for("words of a prompt");
        assert!(tools.definitions().is_empty() && tools.index.get().is_none());
        tools.find("words", 1);
        let made = std::ptr::from_ref(tools.index.get().unwrap());
        tools.find("others", 1);
        assert_eq!(std::ptr::from_ref(tools.index.get().unwrap()), made);
    }
}
