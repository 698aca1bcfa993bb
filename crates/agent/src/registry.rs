//! The tools of a session, by name, in a fixed order: the same tools give byte-identical definitions, so that
//! providers' caches hold.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use llm::ToolDefinition;
use serde_json::Value;

use crate::arguments::{self, Schema};
use crate::tool::Tool;

/// Tools with unique names.
#[derive(Clone, Default)]
pub struct Registry {
    tools: Vec<Arc<Registered>>,
    by_name: HashMap<String, usize>,
}

pub(crate) struct Registered {
    pub tool: Arc<dyn Tool>,
    schema: OnceLock<Result<Schema, String>>,
}

/// Why tools cannot stand together.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RegistryError {
    /// Two tools of one name.
    #[error("two tools are called {name:?}; rename or disable one of them")]
    Duplicate {
        /// The name.
        name: String,
    },
}

impl Registry {
    /// The tools in this order. `Err` when two have one name.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Registry, RegistryError> {
        let mut registry = Registry::default();
        for tool in tools {
            registry.add(tool)?;
        }
        Ok(registry)
    }

    /// Adds a tool after the others. `Err` when its name is taken.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        let name = tool.definition().name.clone();
        if self.by_name.contains_key(&name) {
            return Err(RegistryError::Duplicate { name });
        }
        self.by_name.insert(name, self.tools.len());
        self.tools.push(Arc::new(Registered { tool, schema: OnceLock::new() }));
        Ok(())
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.registered(name).map(|registered| &registered.tool)
    }

    /// The definitions, in order.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools.iter().map(|registered| registered.tool.definition().clone()).collect()
    }

    /// The names, in order.
    pub fn names(&self) -> Vec<String> {
        self.tools.iter().map(|registered| registered.tool.definition().name.clone()).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The tools, in order.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.iter().map(|registered| &registered.tool)
    }

    pub(crate) fn at(&self, place: usize) -> Option<&Arc<dyn Tool>> {
        self.tools.get(place).map(|registered| &registered.tool)
    }

    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn registered(&self, name: &str) -> Option<&Arc<Registered>> {
        self.by_name.get(name).map(|at| &self.tools[*at])
    }
}

impl Registered {
    /// The arguments as the tool gets them, or what the model must know to do better.
    pub fn validate(&self, args: Value) -> Result<Value, String> {
        let definition = self.tool.definition();
        let schema = self.schema.get_or_init(|| Schema::compile(&definition.parameters));
        match schema {
            Ok(schema) => arguments::validate(&definition.name, schema, args),
            Err(error) => Err(format!("the schema of tool {:?} is not valid: {error}", definition.name)),
        }
    }
}
