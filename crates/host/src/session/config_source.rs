//! Inputs of a session from files.
//!
//! These are context, skills, templates, settings and adapter definitions. The session reads them when it
//! opens, and again before each turn if a file has changed.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use adapters::{DebuggerDefinitions, ServerDefinitions};

use agent::compaction::Limits as CompactionLimits;
use agent::context::{Context, ContextSources, ExpandError, Stamps};
use agent::{Limits, Registry, Reload, ReloadSource, Retries};
use llm::Model;
use parking_lot::{Mutex, MutexGuard};
use paths::{AbsPath, Homes};
use policy::{Mode, Policy};
use tools::{Shell, ToolContext};

use crate::config::{Config, EditMode};
use crate::project::{self, Project};

use super::INSTRUCTIONS;
use super::environment::Environment;
use super::profile::profile_directory;

/// The files that one session depends on.
pub struct SessionConfigSource {
    project: Arc<Project>,
    context: Arc<ToolContext>,
    policy: Arc<Policy>,
    choose: OnceLock<ChooseModel>,
    sources: ContextSources,
    environment: Environment,
    state: Mutex<Current>,
}

/// Chooses the model that the settings name.
pub type ChooseModel = Box<dyn Fn(&Config) -> anyhow::Result<Arc<dyn Model>> + Send + Sync>;

/// The contents of the files as last read.
struct Current {
    context: Context,
    stamps: Stamps,
    config: Arc<Config>,
    config_stamps: Stamps,
    definitions: Stamps,
    /// Reported problems, so that each is reported once.
    reported: HashSet<String>,
    /// Notes to report before the first turn.
    pending: Vec<String>,
    /// The mode that the user chose for the session.
    mode: Option<Mode>,
    /// The edit mode that the user chose for the session.
    edits: Option<EditMode>,
    /// Whether the user chose the model for the session.
    keeps_model: bool,
}

/// The agent and directory of the session that a source is for.
pub struct SourceOptions<'a> {
    pub policy: &'a Arc<Policy>,
    pub context: &'a Arc<ToolContext>,
    /// Name of an agent profile; `None` for the default one.
    pub agent: Option<&'a str>,
    /// The directory that the request comes from; ignored outside of the workspace.
    pub cwd: Option<&'a Path>,
}

impl SessionConfigSource {
    /// Reads the files. Blocks.
    ///
    /// # Errors
    /// When the agent profile does not exist, or its `tools.toml` is wrong.
    pub fn new(project: &Arc<Project>, options: SourceOptions<'_>) -> anyhow::Result<Self> {
        let homes = &project.homes;
        let agent = options.agent.map(|name| profile_directory(homes, name)).transpose()?;
        let root = project.workspace.root().clone();
        let cwd = options.cwd.and_then(|cwd| AbsPath::new(cwd.canonicalize().ok()?));
        let policy = Arc::clone(options.policy);
        let sources = ContextSources {
            user: Some(homes.config.clone()),
            agent: agent.clone(),
            shared_skills: shared_skills(),
            cwd: cwd.filter(|cwd| cwd.starts_with(&root)).unwrap_or_else(|| root.clone()),
            root,
            trusted: project.trusted || policy.is_trusted(),
            may_read: Arc::new(move |path| policy.may_read(path)),
        };
        let config_stamps = config_stamps(homes, &sources);
        let config = match &agent {
            Some(directory) => Arc::new(project.config.for_agent(directory)?),
            None => Arc::clone(&project.config),
        };
        let (context, stamps) = Context::load(&sources, None);
        let mut pending = context.notes.clone();
        pending.extend(project::unknown_tools(options.context, &config));
        let state = Current {
            pending,
            context,
            stamps,
            config,
            config_stamps,
            definitions: definition_stamps(homes, &sources),
            reported: HashSet::new(),
            mode: None,
            edits: None,
            keeps_model: false,
        };
        Ok(Self {
            project: Arc::clone(project),
            context: Arc::clone(options.context),
            policy: Arc::clone(options.policy),
            choose: OnceLock::new(),
            environment: Environment::read(&sources.root),
            sources,
            state: Mutex::new(state),
        })
    }

    /// Reports `note` before the first turn.
    pub fn note(&self, note: String) {
        self.state().pending.push(note);
    }

    /// Sets the function that chooses the model again after a change of settings.
    pub(super) fn choose_by(&self, choose: ChooseModel) {
        self.choose.set(choose).ok();
    }

    /// Keeps the current model when the settings change.
    pub(crate) fn keep_model(&self) {
        self.state().keeps_model = true;
    }

    /// Returns the mode of the session's policy.
    pub(crate) fn mode(&self) -> Mode {
        let state = self.state();
        state.mode.unwrap_or(state.config.values.policy.mode.0)
    }

    /// Sets the mode instead of that of the settings; returns the policy.
    pub(crate) fn set_mode(&self, mode: Mode) -> Policy {
        let mut state = self.state();
        state.mode = Some(mode);
        self.policy_under(&state.config, &state)
    }

    /// Returns the edit mode of the session.
    pub(crate) fn edits(&self) -> EditMode {
        let state = self.state();
        state.edits.unwrap_or(state.config.values.edit.mode.0)
    }

    /// Sets the edit mode instead of that of the settings; returns the policy.
    pub(crate) fn set_edits(&self, edits: EditMode) -> Policy {
        let mut state = self.state();
        state.edits = Some(edits);
        self.policy_under(&state.config, &state)
    }

    fn policy_under(&self, config: &Config, state: &Current) -> Policy {
        let mode = state.mode.unwrap_or(config.values.policy.mode.0);
        let edits = state.edits.unwrap_or(config.values.edit.mode.0);
        let policy = self.policy.under(mode, config.rules(), config.values.exec.options());
        let policy = policy.proposing(edits == EditMode::Propose);
        policy.allowing_reads(&self.readable_with(&state.context))
    }

    /// Returns the system prompt, with the context files.
    pub fn instructions(&self) -> String {
        let state = self.state();
        self.render_instructions(&state.context, &state.config)
    }

    /// Renders the environment for the model.
    pub fn environment(&self) -> String {
        self.environment.render(&self.config())
    }

    fn render_instructions(&self, context: &Context, config: &Config) -> String {
        format!("{}\n\n{}", context.instructions(INSTRUCTIONS), self.environment.render(config))
    }

    /// Returns the settings in force, with those of the agent profile.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.state().config)
    }

    pub fn context(&self) -> Context {
        self.state().context.clone()
    }

    /// Builds the tools that the settings enable.
    ///
    /// # Errors
    /// When two have one name.
    pub fn registry(&self) -> anyhow::Result<Registry> {
        project::registry(&self.context, &self.config())
    }

    /// Expands the skill or template that the prompt names.
    ///
    /// # Errors
    /// When it names an unknown skill.
    pub fn expand(&self, prompt: &str) -> Result<String, ExpandError> {
        Ok(self.state().context.expand(prompt)?.unwrap_or_else(|| prompt.to_owned()))
    }

    /// Lists directories outside of the workspace that the agent may read.
    ///
    /// They hold skills, resources and output of commands.
    pub fn readable(&self) -> Vec<AbsPath> {
        self.readable_with(&self.state().context)
    }

    fn readable_with(&self, context: &Context) -> Vec<AbsPath> {
        let ContextSources { user, agent, shared_skills, .. } = &self.sources;
        let skills = user.iter().map(|user| user.join("skills")).chain(shared_skills.clone());
        let directories = skills.chain(agent.iter().map(|agent| agent.join("resources")));
        // A skill may be a symbolic link to its source.
        let linked = context.skills.iter().filter(|skill| !skill.path.starts_with(&self.sources.root));
        let all: Vec<AbsPath> = directories.chain(linked.filter_map(|skill| skill.path.parent())).collect();
        let mut real: Vec<AbsPath> = all
            .iter()
            .filter_map(|directory| AbsPath::new(directory.as_path().canonicalize().ok()?))
            .collect();
        real.dedup();
        real.push(Shell::outputs(&self.project.workspace));
        real
    }

    /// Reads changed settings again; keeps those in force if a file is wrong.
    fn reload_config(&self, state: &mut Current, change: &mut Reload) {
        if state.config_stamps.are_current() {
            return;
        }
        state.config_stamps = config_stamps(&self.project.homes, &self.sources);
        let loaded =
            self.project.load_config(self.sources.trusted).and_then(|config| match &self.sources.agent {
                Some(directory) => config.for_agent(directory),
                None => Ok(config),
            });
        match loaded {
            Err(errors) => {
                change.problems.push(format!("{errors}\nthe previous settings stay in force"));
            }
            Ok(config) => {
                let names = state.config.differences(&config);
                if names.is_empty() {
                    return;
                }
                if names.iter().any(|name| name.starts_with("tools.")) {
                    match project::registry(&self.context, &config) {
                        Ok(registry) => change.tools = Some(registry),
                        Err(error) => change.problems.push(format!("{error:#}")),
                    }
                }
                self.apply_config(&config, &names, state, change);
                change.changed.extend(names.into_iter().map(|name| {
                    if applies_next_turn(&name) { name } else { format!("{name} (from the next run on)") }
                }));
                state.config = Arc::new(config);
            }
        }
    }

    /// Applies changed settings to the next turn.
    fn apply_config(&self, config: &Config, names: &[String], state: &Current, change: &mut Reload) {
        let any =
            |groups: &[&str]| names.iter().any(|name| groups.iter().any(|group| name.starts_with(group)));
        if any(&["tools.discovery"]) {
            change.searches = Some(config.values.tools.discovery.0);
        }
        if any(&["run.turn_limit", "model.context_window", "tools.parallel"]) {
            change.limits = Some(limits(config));
        }
        if any(&["edit.", "run.on_unsaved"]) {
            self.context.set_settings(project::tool_settings(config));
        }
        if any(&["policy.", "exec.", "edit.mode"]) {
            change.policy = Some(Arc::new(self.policy_under(config, state)));
        }
        if let Some(choose) = self.choose.get().filter(|_| {
            !state.keeps_model && any(&["model.d", "providers.", "roles.", "thinking.", "proxy."])
        }) {
            match choose(config) {
                Ok(model) => change.model = Some(model),
                Err(error) => change.problems.push(format!("{error:#}\nthe previous model stays in use")),
            }
        }
    }

    fn reload_context(&self, state: &mut Current, change: &mut Reload) {
        if state.stamps.are_current() {
            return;
        }
        let (context, stamps) = Context::load(&self.sources, Some(&state.context));
        state.stamps = stamps;
        if context == state.context {
            return;
        }
        change.changed.extend(differences(&state.context, &context));
        let known = &state.context.notes;
        change.problems.extend(context.notes.iter().filter(|note| !known.contains(note)).cloned());
        let before = self.render_instructions(&state.context, &state.config);
        let now = self.render_instructions(&context, &state.config);
        change.instructions = (before != now).then_some(now);
        state.context = context;
    }

    fn reload_definitions(&self, state: &mut Current, change: &mut Reload) {
        if state.definitions.are_current() {
            return;
        }
        let homes = &self.project.homes;
        state.definitions = definition_stamps(homes, &self.sources);
        let trusted = self.sources.trusted;
        let servers: ServerDefinitions = project::load_definitions(homes, &self.sources.root, trusted);
        let debuggers: DebuggerDefinitions = project::load_definitions(homes, &self.sources.root, trusted);
        let describe =
            |problem: &dyn std::fmt::Display| format!("{problem}\nthe previous definitions stay in force");
        change.problems.extend(servers.refused().iter().map(|problem| describe(problem)));
        change.problems.extend(debuggers.refused().iter().map(|problem| describe(problem)));
        // While a file does not parse, a definition of the same name from elsewhere would replace it.
        if servers.refused().is_empty() {
            let differing = self.context.servers.take_definitions(servers);
            change.changed.extend(differing.into_iter().map(|name| format!("language server {name}")));
        }
        if debuggers.refused().is_empty() {
            let differing = self.context.debug.take_definitions(debuggers);
            change.changed.extend(differing.into_iter().map(|name| format!("debugger {name}")));
        }
    }

    fn state(&self) -> MutexGuard<'_, Current> {
        self.state.lock()
    }
}

impl ReloadSource for SessionConfigSource {
    fn poll_changes(&self) -> Option<Reload> {
        let mut state = self.state();
        let mut change = Reload { problems: std::mem::take(&mut state.pending), ..Reload::default() };
        self.reload_config(&mut state, &mut change);
        self.reload_context(&mut state, &mut change);
        self.reload_definitions(&mut state, &mut change);
        let Current { reported, .. } = &mut *state;
        if !change.changed.is_empty() {
            // A problem that comes back after a change is reported again.
            reported.clear();
        }
        change.problems.retain(|problem| reported.insert(problem.clone()));
        (!change.changed.is_empty() || !change.problems.is_empty()).then_some(change)
    }
}

/// Whether a setting takes effect at the next turn.
///
/// The others concern components that outlive a run.
fn applies_next_turn(name: &str) -> bool {
    const LATER: &[&str] = &[
        "hashline.",
        "sessions.",
        "editor.",
        "lsp.",
        "log.",
        "run.steering",
        "run.queue",
        "retry.",
        "roles.smol.",
        "model.discovery",
    ];
    !LATER.iter().any(|group| name.starts_with(group)) && !name.ends_with(".fallbacks")
}

/// Returns the limits of a run.
pub(super) fn limits(config: &Config) -> Limits {
    let usual = Limits::default();
    let retry = &config.values.retry;
    Limits {
        turns: u32::try_from(config.values.run.turn_limit.0).unwrap_or(u32::MAX),
        sequential_tools: !config.values.tools.parallel.0,
        retries: Retries {
            max: u32::try_from(retry.count.0).unwrap_or(u32::MAX),
            delay: retry.delay.0,
            max_delay: retry.max_delay.0,
            ..usual.retries
        },
        compaction: CompactionLimits {
            window: config.values.model.context_window.0 as u64,
            ..usual.compaction
        },
        ..usual
    }
}

/// Finds `~/.agents/skills`, which several programs share.
///
/// `None` if `PILCROW_HOME` is set.
fn shared_skills() -> Option<AbsPath> {
    if std::env::var_os("PILCROW_HOME").is_some_and(|home| !home.is_empty()) {
        return None;
    }
    AbsPath::new(std::env::var_os("HOME")?).map(|home| home.join(".agents/skills"))
}

fn config_stamps(homes: &Homes, sources: &ContextSources) -> Stamps {
    let mut stamps = project::config_stamps(homes, &sources.root);
    if let Some(agent) = &sources.agent {
        stamps.add(&agent.join("tools.toml"));
    }
    stamps
}

/// Stamps the directories of definitions, with their files.
fn definition_stamps(homes: &Homes, sources: &ContextSources) -> Stamps {
    let mut stamps = Stamps::default();
    for kind in ["adapters/servers", "adapters/debuggers"] {
        for directory in [homes.config.join(kind), sources.root.join(".pilcrow").join(kind)] {
            stamps.add(&directory);
            let entries = std::fs::read_dir(&directory).into_iter().flatten().filter_map(Result::ok);
            entries.filter_map(|entry| AbsPath::new(entry.path())).for_each(|path| stamps.add(&path));
        }
    }
    stamps
}

/// Names the parts in which two contexts differ.
fn differences(old: &Context, new: &Context) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut compare = |old: Vec<(String, String)>, new: Vec<(String, String)>| {
        let changed = new.iter().filter(|entry| !old.contains(entry));
        let removed = old.iter().filter(|(name, _)| !new.iter().any(|(other, _)| other == name));
        names.extend(changed.map(|(name, _)| name.clone()));
        names.extend(removed.map(|(name, _)| format!("{name} was removed")));
    };
    let files = |context: &Context| {
        let all = context.system.iter().chain(&context.append).chain(&context.files);
        all.map(|file| (file.path.to_string(), format!("{} {}", file.size, file.text))).collect()
    };
    compare(files(old), files(new));
    let skills = |context: &Context| {
        let all = context.skills.iter();
        all.map(|skill| (format!("skill {}", skill.name), format!("{skill:?}"))).collect()
    };
    compare(skills(old), skills(new));
    let templates = |context: &Context| {
        let all = context.templates.iter();
        all.map(|template| (format!("template /{}", template.name), format!("{template:?}"))).collect()
    };
    compare(templates(old), templates(new));
    names
}
