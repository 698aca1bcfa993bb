//! What lies around a session: context files, skills, templates, settings and definitions of adapters, as they are on the disk. Read
//! when a session begins; before each turn it is looked whether anything has changed, and told what.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::{Change, Context, ContextSources, ExpandError, Registry, Stamps, Surroundings};
use llm::Model;
use tools::{Kit, Shell};
use workspace::{AbsPath, Homes, Policy};

use crate::commands::tools::INSTRUCTIONS;
use crate::config::Config;
use crate::project::{self, Project};
use crate::worker::limits;

/// The surroundings of one session.
pub struct Around {
    project: Arc<Project>,
    kit: Arc<Kit>,
    policy: Arc<Policy>,
    choose: Option<ChooseModel>,
    sources: ContextSources,
    state: Mutex<State>,
}

/// The model that the settings name, where nothing else does.
pub type ChooseModel = Box<dyn Fn(&Config) -> anyhow::Result<Arc<dyn Model>> + Send + Sync>;

/// What is in force.
struct State {
    context: Context,
    stamps: Stamps,
    config: Arc<Config>,
    config_stamps: Stamps,
    definitions: Stamps,
    /// What was told of files that do not fit, so that it is told once.
    told: HashSet<String>,
    /// Notes of the beginning, until they are told.
    untold: Vec<String>,
}

/// What a session is begun with.
pub struct Begin<'a> {
    /// Its permission, and its tools' memory.
    pub policy: &'a Arc<Policy>,
    /// What its tools share.
    pub kit: &'a Arc<Kit>,
    /// An agent by name; none for the usual one.
    pub agent: Option<&'a str>,
    /// How its model is chosen; none where the settings have no say.
    pub choose: Option<ChooseModel>,
    /// Where the command was typed; counts below the workspace's root.
    pub cwd: Option<&'a Path>,
}

impl Around {
    /// Reads what is there; blocks.
    ///
    /// # Errors
    /// When there is no agent of the name, or its `tools.toml` cannot be used.
    pub fn new(project: &Arc<Project>, begin: Begin<'_>) -> anyhow::Result<Self> {
        let homes = &project.homes;
        let agent = begin.agent.map(|name| agent_folder(homes, name)).transpose()?;
        let root = project.workspace.root().clone();
        let cwd = begin.cwd.and_then(|cwd| AbsPath::new(cwd.canonicalize().ok()?));
        let policy = Arc::clone(begin.policy);
        let sources = ContextSources {
            person: Some(homes.config.clone()),
            agent: agent.clone(),
            shared_skills: shared_skills(),
            cwd: cwd.filter(|cwd| cwd.starts_with(&root)).unwrap_or_else(|| root.clone()),
            root,
            trusted: project.trusted || policy.is_trusted(),
            may_read: Arc::new(move |path| policy.may_read(path)),
        };
        let config_stamps = config_stamps(homes, &sources);
        let config = match &agent {
            Some(folder) => Arc::new(project.config.for_agent(folder)?),
            None => Arc::clone(&project.config),
        };
        let (context, stamps) = Context::load(&sources, None);
        let mut untold = context.notes.clone();
        untold.extend(project::unknown_tools(begin.kit, &config));
        let state = State {
            untold,
            context,
            stamps,
            config,
            config_stamps,
            definitions: definition_stamps(homes, &sources),
            told: HashSet::new(),
        };
        Ok(Self {
            project: Arc::clone(project),
            kit: Arc::clone(begin.kit),
            policy: Arc::clone(begin.policy),
            choose: begin.choose,
            sources,
            state: Mutex::new(state),
        })
    }

    /// Tells `problem` before the first turn.
    pub fn tell(&self, problem: String) {
        self.state().untold.push(problem);
    }

    /// What stands at the head of every request.
    pub fn instructions(&self) -> String {
        self.state().context.instructions(INSTRUCTIONS)
    }

    /// The settings in force, the agent's laid over them.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.state().config)
    }

    /// What was found.
    pub fn context(&self) -> Context {
        self.state().context.clone()
    }

    /// The tools, as the settings in force leave them.
    ///
    /// # Errors
    /// When two have one name.
    pub fn registry(&self) -> anyhow::Result<Registry> {
        project::registry(&self.kit, &self.config())
    }

    /// The prompt that a prompt stands for: itself, a skill, or a template that was filled.
    ///
    /// # Errors
    /// When it names a skill that is not there.
    pub fn prompt(&self, prompt: &str) -> Result<String, ExpandError> {
        Ok(self.state().context.expand(prompt)?.unwrap_or_else(|| prompt.to_owned()))
    }

    /// What outside of the workspace is there for the agent to read: what the person put there, and what commands wrote.
    pub fn readable(&self) -> Vec<AbsPath> {
        self.readable_with(&self.state().context)
    }

    fn readable_with(&self, context: &Context) -> Vec<AbsPath> {
        let ContextSources { person, agent, shared_skills, .. } = &self.sources;
        let skills = person.iter().map(|person| person.join("skills")).chain(shared_skills.clone());
        let folders = skills.chain(agent.iter().map(|agent| agent.join("resources")));
        // A skill may be a link to where it is worked on.
        let linked = context.skills.iter().filter(|skill| !skill.path.starts_with(&self.sources.root));
        let all: Vec<AbsPath> = folders.chain(linked.filter_map(|skill| skill.path.parent())).collect();
        let mut real: Vec<AbsPath> =
            all.iter().filter_map(|folder| AbsPath::new(folder.as_path().canonicalize().ok()?)).collect();
        real.dedup();
        real.push(Shell::outputs(&self.project.workspace));
        real
    }

    /// The settings, read anew where their files have changed. What cannot be read leaves them as they are.
    fn look_at_config(&self, state: &mut State, change: &mut Change) {
        if state.config_stamps.hold() {
            return;
        }
        state.config_stamps = config_stamps(&self.project.homes, &self.sources);
        let loaded =
            self.project.load_config(self.sources.trusted).and_then(|config| match &self.sources.agent {
                Some(folder) => config.for_agent(folder),
                None => Ok(config),
            });
        match loaded {
            Err(errors) => {
                change.problems.push(format!("{errors}\nthe settings stay as they were"));
            }
            Ok(config) => {
                let names = state.config.differences(&config);
                if names.is_empty() {
                    return;
                }
                if names.iter().any(|name| name.starts_with("tools.")) {
                    match project::registry(&self.kit, &config) {
                        Ok(registry) => change.tools = Some(registry),
                        Err(error) => change.problems.push(format!("{error:#}")),
                    }
                }
                self.take_config(&config, &names, &state.context, change);
                change.changed.extend(names.into_iter().map(|name| match counts_at_once(&name) {
                    true => name,
                    false => format!("{name} (from the next run on)"),
                }));
                state.config = Arc::new(config);
            }
        }
    }

    /// What other settings change of the next turn.
    fn take_config(&self, config: &Config, names: &[String], context: &Context, change: &mut Change) {
        let any = |groups: &[&str]| names.iter().any(|name| groups.iter().any(|it| name.starts_with(it)));
        if any(&["tools.discovery"]) {
            change.searches = Some(config.searches_tools());
        }
        if any(&["run.turn_limit", "model.context_window", "tools.parallel"]) {
            change.limits = Some(limits(config));
        }
        if any(&["edit.", "run.on_unsaved"]) {
            self.kit.take_settings(project::tool_settings(config));
        }
        if any(&["policy.", "exec."]) {
            let policy = self.policy.under(config.mode(), config.rules(), config.exec());
            change.policy = Some(Arc::new(policy.beside_reading(&self.readable_with(context))));
        }
        if let Some(choose) =
            self.choose.as_ref().filter(|_| any(&["model.d", "providers.", "roles.", "thinking.", "proxy."]))
        {
            match choose(config) {
                Ok(model) => change.model = Some(model),
                Err(error) => change.problems.push(format!("{error:#}\nthe model stays as it was")),
            }
        }
    }

    fn look_at_context(&self, state: &mut State, change: &mut Change) {
        if state.stamps.hold() {
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
        let before = state.context.instructions(INSTRUCTIONS);
        let now = context.instructions(INSTRUCTIONS);
        change.instructions = (before != now).then_some(now);
        state.context = context;
    }

    fn look_at_definitions(&self, state: &mut State, change: &mut Change) {
        if state.definitions.hold() {
            return;
        }
        let homes = &self.project.homes;
        state.definitions = definition_stamps(homes, &self.sources);
        let trusted = self.sources.trusted;
        let (servers, server_problems) = project::load_definitions(homes, &self.sources.root, trusted);
        let (debuggers, debugger_problems) = project::load_debuggers(homes, &self.sources.root, trusted);
        let stay = |problem: &dyn std::fmt::Display| format!("{problem}\nthe definitions stay as they were");
        change.problems.extend(server_problems.iter().map(|problem| stay(problem)));
        change.problems.extend(debugger_problems.iter().map(|problem| stay(problem)));
        // Without a file that does not parse, another definition of its name would take its place.
        if server_problems.is_empty() {
            let differing = self.kit.servers.take_definitions(servers);
            change.changed.extend(differing.into_iter().map(|name| format!("language server {name}")));
        }
        if debugger_problems.is_empty() {
            let differing = self.kit.debug.take_definitions(debuggers);
            change.changed.extend(differing.into_iter().map(|name| format!("debugger {name}")));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Fields are put in whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Surroundings for Around {
    fn changed(&self) -> Option<Change> {
        let mut state = self.state();
        let mut change = Change { problems: std::mem::take(&mut state.untold), ..Change::default() };
        self.look_at_config(&mut state, &mut change);
        self.look_at_context(&mut state, &mut change);
        self.look_at_definitions(&mut state, &mut change);
        let State { told, .. } = &mut *state;
        if !change.changed.is_empty() {
            // What was mended and is broken again is told again.
            told.clear();
        }
        change.problems.retain(|problem| told.insert(problem.clone()));
        (!change.changed.is_empty() || !change.problems.is_empty()).then_some(change)
    }
}

/// Whether a setting counts from the next turn on. The others are of what lives longer than a run, or of what the model was shown.
fn counts_at_once(name: &str) -> bool {
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

/// The folder of the agent of this name.
///
/// # Errors
/// When there is none; it names those that there are.
pub fn agent_folder(homes: &Homes, name: &str) -> anyhow::Result<AbsPath> {
    let agents = homes.config.join("agents");
    let plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0']);
    let folder = agents.join(name);
    if plain && folder.as_path().is_dir() {
        return Ok(folder);
    }
    let entries = std::fs::read_dir(&agents).into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<String> =
        entries.filter(|it| it.path().is_dir()).filter_map(|it| it.file_name().into_string().ok()).collect();
    names.sort();
    let known = if names.is_empty() {
        "there is none yet".to_owned()
    } else {
        format!("there are {}", names.join(", "))
    };
    anyhow::bail!("there is no agent {name:?} in {agents}; {known}")
}

/// `~/.agents/skills`, which several programs share; not where everything is below one folder.
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

/// The folders of definitions with the files in them.
fn definition_stamps(homes: &Homes, sources: &ContextSources) -> Stamps {
    let mut stamps = Stamps::default();
    for kind in ["adapters/servers", "adapters/debuggers"] {
        for folder in [homes.config.join(kind), sources.root.join(".pilcrow").join(kind)] {
            stamps.add(&folder);
            let entries = std::fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok);
            entries.filter_map(|entry| AbsPath::new(entry.path())).for_each(|path| stamps.add(&path));
        }
    }
    stamps
}

/// What of one context is not so in the other, in a few words each.
fn differences(old: &Context, new: &Context) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut compare = |old: Vec<(String, String)>, new: Vec<(String, String)>| {
        let changed = new.iter().filter(|it| !old.contains(it));
        let gone = old.iter().filter(|(name, _)| !new.iter().any(|(other, _)| other == name));
        names.extend(changed.map(|(name, _)| name.clone()));
        names.extend(gone.map(|(name, _)| format!("{name} is gone")));
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
