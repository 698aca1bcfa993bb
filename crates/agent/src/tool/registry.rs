//! A session's tools by name, in a fixed order.
//!
//! The same tools give byte-identical definitions, so that providers' caches stay valid.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use llm::ToolDefinition;
use serde_json::Value;

use crate::tool::Tool;
use crate::tool::arguments::{self, Schema};

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

/// The reason why a registry cannot be built.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RegistryError {
    #[error("two tools are called {name:?}; rename or disable one of them")]
    Duplicate { name: String },
}

impl Registry {
    /// The tools in this order. `Err` if two have the same name.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Registry, RegistryError> {
        let mut registry = Registry::default();
        for tool in tools {
            registry.add(tool)?;
        }
        Ok(registry)
    }

    /// Adds a tool after the others. `Err` if its name is taken.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        let name = tool.definition().name.clone();
        if self.by_name.contains_key(&name) {
            return Err(RegistryError::Duplicate { name });
        }
        self.by_name.insert(name, self.tools.len());
        self.tools.push(Arc::new(Registered { tool, schema: OnceLock::new() }));
        Ok(())
    }

    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.registered(name).map(|registered| &registered.tool)
    }

    pub fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools.iter().map(|registered| registered.tool.definition().clone()).collect()
    }

    pub fn names(&self) -> Vec<String> {
        self.tools.iter().map(|registered| registered.tool.definition().name.clone()).collect()
    }

    pub fn len(&self) -> usize {
        self.tools.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    pub fn tools(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.iter().map(|registered| &registered.tool)
    }

    pub(crate) fn at(&self, place: usize) -> Option<&Arc<dyn Tool>> {
        self.tools.get(place).map(|registered| &registered.tool)
    }

    /// Finds a tool by name, also in another case or as other agents call it.
    ///
    /// Also finds it in a namespace (`functions.Read`, `mcp__pilcrow__read`).
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        let exact = self.by_name.get(name).copied();
        exact.or_else(|| {
            let name = name.trim().rsplit(['.', ':', '/']).next()?.rsplit("__").next()?;
            let is_named = |it: &Arc<Registered>| it.tool.definition().name.eq_ignore_ascii_case(name);
            let only = |is: &dyn Fn(&Arc<Registered>) -> bool| {
                let mut found = (0..self.tools.len()).filter(|at| is(&self.tools[*at]));
                found.next().filter(|_| found.next().is_none())
            };
            only(&is_named).or_else(|| {
                only(&|it| it.tool.aliases().iter().any(|other| other.eq_ignore_ascii_case(name)))
            })
        })
    }

    pub(crate) fn registered(&self, name: &str) -> Option<&Arc<Registered>> {
        self.position(name).map(|at| &self.tools[at])
    }
}

impl Registered {
    /// Validates arguments; returns the problems as text for the model.
    ///
    /// The result has the arguments as the tool gets them.
    pub fn validate(&self, args: Value) -> Result<Value, String> {
        let definition = self.tool.definition();
        let schema = self.schema.get_or_init(|| Schema::compile(&definition.parameters));
        match schema {
            Ok(schema) => arguments::validate(&definition.name, schema, args),
            Err(error) => Err(format!("the schema of tool {:?} is invalid: {error}", definition.name)),
        }
    }
}
