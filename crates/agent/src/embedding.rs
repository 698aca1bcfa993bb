//! What an embedding program hands to a session as a whole: settings, the folder of an agent, and the models there are.

use std::sync::Arc;

use llm::Model;
use serde::Deserialize;
use workspace::AbsPath;

use crate::context::{Context, ContextSources};
use crate::pipeline::Filter;
use crate::queues::{Drain, Steering};
use crate::run::Limits;

/// What holds for a session besides its parts.
#[derive(Debug, Clone, Default)]
pub struct SessionSettings {
    /// The bounds of each run.
    pub limits: Limits,
    /// The model is told of few tools and finds the others (`tools.discovery`).
    pub searches_tools: bool,
    /// Which tools are let through (`tools.enable`, `tools.disable`).
    pub tools: Filter,
    /// What steering does to the calls of the turn that it comes in (`run.steering`).
    pub steering: Steering,
    /// How many queued messages are delivered at once (`run.queue`).
    pub drain: Drain,
    /// Each entry is flushed to the disk before the run goes on (`sessions.fsync`).
    pub sync: bool,
}

/// The folder of an agent: `SYSTEM.md`, `APPEND_SYSTEM.md`, `tools.toml`, `resources/`. Its tools run in the working directory,
/// never there.
#[derive(Debug, Clone)]
pub struct AgentDirectory {
    folder: AbsPath,
    context: Context,
    tools: ToolsFile,
}

/// `tools.toml`, by the names of the settings `tools.…`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ToolsFile {
    enable: Vec<String>,
    disable: Vec<String>,
    discovery: Option<Switch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Switch {
    On,
    Off,
}

/// Why the folder of an agent cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AgentDirectoryError {
    /// There is no such folder.
    #[error("{folder} is no folder; make it, with a SYSTEM.md in it")]
    NoFolder {
        /// What was asked for.
        folder: AbsPath,
    },
    /// A file of it cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: AbsPath,
        /// The cause.
        source: std::io::Error,
    },
    /// `tools.toml` says what cannot be meant.
    #[error("{path} cannot be used: {detail}")]
    Invalid {
        /// The file.
        path: AbsPath,
        /// Where and why.
        detail: String,
    },
}

impl AgentDirectory {
    /// Reads it; blocks for a few small files.
    ///
    /// # Errors
    /// [`AgentDirectoryError`].
    pub fn load(folder: AbsPath) -> Result<AgentDirectory, AgentDirectoryError> {
        if !folder.as_path().is_dir() {
            return Err(AgentDirectoryError::NoFolder { folder });
        }
        let path = folder.join("tools.toml");
        let tools = match std::fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text)
                .map_err(|error| AgentDirectoryError::Invalid { path, detail: error.to_string() })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => ToolsFile::default(),
            Err(source) => return Err(AgentDirectoryError::Io { path, source }),
        };
        let sources = ContextSources {
            person: None,
            agent: Some(folder.clone()),
            shared_skills: None,
            root: folder.clone(),
            cwd: folder.clone(),
            // Nothing but the agent's own words is looked for.
            trusted: false,
            may_read: Arc::new(|_| true),
        };
        let (Context { system, resources, append, .. }, _) = Context::load(&sources, None);
        let context = Context { system, resources, append, ..Context::default() };
        Ok(AgentDirectory { folder, context, tools })
    }

    /// Its words in the place of `usual`, or after them.
    pub(crate) fn instructions(&self, usual: &str) -> String {
        self.context.instructions(usual)
    }

    /// What it may read without a question.
    pub(crate) fn resources(&self) -> Option<AbsPath> {
        AbsPath::new(self.folder.join("resources").as_path().canonicalize().ok()?)
    }

    /// Lays its `tools.toml` over the settings.
    pub(crate) fn lay_over(&self, settings: &mut SessionSettings) {
        settings.tools.enable.extend(self.tools.enable.iter().cloned());
        settings.tools.disable.extend(self.tools.disable.iter().cloned());
        if let Some(discovery) = self.tools.discovery {
            settings.searches_tools = discovery == Switch::On;
        }
    }
}

/// The models that a session can be given by name.
#[derive(Clone, Default)]
pub struct ModelRegistry(Vec<Arc<dyn Model>>);

impl ModelRegistry {
    /// Of two of one name the first counts.
    pub fn new(models: impl IntoIterator<Item = Arc<dyn Model>>) -> ModelRegistry {
        ModelRegistry(models.into_iter().collect())
    }

    /// The model called `PROVIDER/ID`, or `ID` alone.
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Model>> {
        let is_meant = |model: &&Arc<dyn Model>| {
            let info = model.info();
            name == info.id
                || name.strip_prefix(&info.provider).and_then(|it| it.strip_prefix('/')) == Some(&info.id)
        };
        self.0.iter().find(is_meant)
    }

    /// `PROVIDER/ID` of each, in order.
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|model| format!("{}/{}", model.info().provider, model.info().id)).collect()
    }
}
