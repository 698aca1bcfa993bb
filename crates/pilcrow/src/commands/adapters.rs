//! `pilcrow adapters`: which language servers and debug adapters are known, which can be started here, and
//! installing them.

use std::path::PathBuf;
use std::time::Duration;

use adapters::{
    DebuggerDefinitions, Definition, DefinitionError, Definitions, InstallError, InstallLock, InstallPlan,
    Installer, PlanProblem, Progress, ProjectPrograms, ServerDefinitions, Summary,
};
use host::doctor::{Finding, Status};
use host::{Outcome, project};
use paths::{AbsPath, Homes};
use policy::{Answer, Policy, PolicyOptions, Question, QuestionKind, TrustStore};
use process::Processes;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use workspace::files_below;

use crate::{cli, open, output, stop, terminal};

/// Files of a project that are looked at to find out which languages it holds.
const LOOKED_AT: usize = 20_000;
/// How long what an installation left running gets to end.
const END: Duration = Duration::from_secs(2);

/// What is known and what is there.
pub struct Known {
    pub servers: Vec<Found>,
    /// Every definition of a debug adapter.
    pub debuggers: Vec<Found>,
    /// Definition files that cannot be used.
    pub problems: Vec<DefinitionError>,
}

/// A definition and what was found for it.
pub struct Found {
    pub name: String,
    /// One line for people.
    pub about: String,
    /// Servers of one group stand in for each other, the lowest rank first.
    pub group: Option<String>,
    /// See `group`.
    pub rank: u32,
    pub languages: Vec<String>,
    /// What would be started, best first.
    pub programs: Vec<PathBuf>,
    /// What a person does to get it.
    pub install: String,
    /// Its project's own page.
    pub page: Option<String>,
    /// The version that the test run saw working.
    pub verified: Option<String>,
    /// The version that its definition installs.
    pub pinned: Option<String>,
    /// The version in the managed folder.
    pub installed: Option<String>,
    /// An update took it away and has not ended.
    pub replaced: bool,
    /// Files of the project that it is for.
    pub files: usize,
    /// It came with the project.
    pub from_project: bool,
}

struct Here {
    homes: Homes,
    root: AbsPath,
    trust: TrustStore,
    servers: ServerDefinitions,
    debuggers: DebuggerDefinitions,
}

fn here(args: &cli::Project) -> anyhow::Result<Here> {
    let homes = Homes::from_env()?;
    let root = open::root(args.dir.as_deref())?;
    let root = AbsPath::new(root.canonicalize()?)
        .ok_or_else(|| anyhow::anyhow!("the project has no absolute path"))?;
    let trust = TrustStore::new(homes.state.clone());
    let trusted = trust.is_trusted(&root);
    let servers = project::load_definitions(&homes, &root, trusted);
    let debuggers = project::load_definitions(&homes, &root, trusted);
    Ok(Here { homes, root, trust, servers, debuggers })
}

impl Here {
    /// The definition files that cannot be used.
    fn problems(&self) -> Vec<DefinitionError> {
        [self.servers.refused(), self.debuggers.refused()].concat()
    }
}

/// Every definition with the programs that are there for it, for `doctor` and `adapters`.
pub fn look(args: &cli::Project) -> anyhow::Result<Known> {
    let here = here(args)?;
    let files: Vec<AbsPath> = files_below(&here.root).take(LOOKED_AT).collect();
    let programs =
        ProjectPrograms { search: project::search_path(&here.homes), workspace: here.root.clone() };
    let servers = found(&here, &here.servers, &files, |definition| {
        let languages = definition.languages.iter().map(|language| language.id.clone()).collect();
        (programs.search.find(definition, &here.root, &here.root), languages)
    })?;
    let debuggers = found(&here, &here.debuggers, &files, |definition| {
        (programs.find(&definition.name, definition.programs(), &here.root), Vec::new())
    })?;
    Ok(Known { servers, debuggers, problems: here.problems() })
}

fn found<D: Definition>(
    here: &Here,
    definitions: &Definitions<D>,
    files: &[AbsPath],
    programs: impl Fn(&D) -> (Vec<PathBuf>, Vec<String>),
) -> anyhow::Result<Vec<Found>> {
    let managed = project::managed_directory(&here.homes)?;
    let lock = InstallLock::read(&managed)?;
    let found = definitions.list().map(|definition| {
        let Summary { name, about, group, rank, install, verified, from_project, .. } = definition.summary();
        let (programs, languages) = programs(definition);
        Found {
            name: name.to_owned(),
            about: about.to_owned(),
            group: group.map(str::to_owned),
            rank,
            languages,
            programs,
            install: install.hint(name),
            page: install.page.clone(),
            verified: verified.map(|verified| verified.version.clone()),
            pinned: install.version().map(str::to_owned),
            installed: lock.adapters.get(name).map(|locked| locked.version.clone()),
            replaced: InstallLock::is_being_replaced(&managed, name).unwrap_or_default(),
            files: files.iter().filter(|file| definition.covers(file.as_path())).count(),
            from_project,
        }
    });
    Ok(found.collect())
}

impl Known {
    /// What the doctor says of them: those that are there, and those that the project's files want.
    pub fn findings(&self) -> Vec<Finding> {
        // Of several that stand in for each other one is enough, and the first is what to install.
        let better = |one: &Found, other: &Found| {
            let there = |found: &Found| found.programs.is_empty();
            one.group.is_some()
                && one.group == other.group
                && (there(one), one.rank, &one.name) < (there(other), other.rank, &other.name)
        };
        let concerns = self.servers.iter().filter(|found| {
            let wanted = found.files > 0 && !self.servers.iter().any(|other| better(other, found));
            !found.programs.is_empty() || wanted || found.replaced
        });
        let servers = concerns.map(|found| {
            let status = match found.programs.first() {
                Some(path) => Status::Found { path: path.clone(), version: None },
                None => Status::Missing { install: found.install.clone() },
            };
            Finding { name: found.name.clone(), purpose: found.about.clone(), status, notes: found.notes() }
        });
        // A debugger is wanted when one debugs: those that are there are told, and those with programs here.
        let debuggers = self
            .debuggers
            .iter()
            .filter(|found| !found.programs.is_empty() || found.files > 0 || found.replaced);
        let debuggers = debuggers.map(|found| {
            let status = match found.programs.first() {
                Some(path) => Status::Found { path: path.clone(), version: None },
                None => Status::Missing { install: found.install.clone() },
            };
            let purpose = format!("debugs {}", found.about);
            Finding { name: found.name.clone(), purpose, status, notes: found.notes() }
        });
        let problems = self.problems.iter().map(|problem| Finding {
            name: "definition".to_owned(),
            purpose: "a definition of a language server or debug adapter".to_owned(),
            status: Status::Broken {
                path: PathBuf::from(&problem.origin),
                detail: problem.reason.clone(),
                install: "mend or remove the file".to_owned(),
            },
            notes: Vec::new(),
        });
        servers.chain(debuggers).chain(problems).collect()
    }

    /// How many are known that are neither there nor wanted.
    pub fn others(&self) -> usize {
        self.servers.iter().filter(|found| found.programs.is_empty() && found.files == 0).count()
    }
}

impl Found {
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let (Some(installed), Some(pinned)) = (&self.installed, &self.pinned)
            && installed != pinned
        {
            notes.push(format!(
                "version {installed} is installed, {pinned} is known to work: pilcrow adapters install {}",
                self.name
            ));
        }
        if self.replaced {
            notes.push(format!(
                "an update of it is going on or was cut short; the next installation puts back what was there: pilcrow adapters install {}",
                self.name
            ));
        }
        if self.verified.is_none() {
            notes.push("its definition was never tried with the server itself".to_owned());
        }
        if self.from_project {
            notes.push("its definition comes with this project".to_owned());
        }
        notes
    }

    fn json(&self, kind: &str) -> Value {
        json!({
            "name": self.name, "kind": kind, "about": self.about, "languages": self.languages,
            "programs": self.programs, "install": self.install, "page": self.page,
            "verified": self.verified.as_ref().map_or(json!(false), |version| json!(version)),
            "pinned": self.pinned, "installed": self.installed, "files": self.files,
            "from_project": self.from_project,
        })
    }
}

pub fn list(args: &cli::Project, as_json: bool) -> anyhow::Result<Outcome> {
    let known = look(args)?;
    let servers = known.servers.iter().map(|found| ("server", found));
    for (kind, found) in servers.chain(known.debuggers.iter().map(|found| ("debugger", found))) {
        if as_json {
            output::json(&found.json(kind));
            continue;
        }
        let verified = match &found.verified {
            Some(version) => format!("verified with {version}"),
            None => "not verified".to_owned(),
        };
        let there = if found.programs.is_empty() { "not installed" } else { "installed" };
        let about = if kind == "debugger" { format!("debugs {}", found.about) } else { found.about.clone() };
        output::line(&format!("{}: {about} ({there}, {verified})", found.name));
    }
    tell_problems(&known.problems);
    Ok(Outcome::Done)
}

fn tell_problems(problems: &[DefinitionError]) {
    problems.iter().for_each(|problem| output::note(&format!("pilcrow: {problem}")));
}

/// Says of each what would be started, or what installs it: what `pilcrow doctor` says of servers.
pub fn doctor(args: &cli::Project, as_json: bool) -> anyhow::Result<Outcome> {
    let known = look(args)?;
    let findings = known.findings();
    for finding in &findings {
        if as_json {
            output::json(finding);
        } else {
            output::part(&finding.render());
        }
    }
    if !as_json && known.others() > 0 {
        output::line(&format!(
            "{} more are known that no file here is for: pilcrow adapters list",
            known.others()
        ));
    }
    let broken = findings.iter().any(|finding| matches!(finding.status, Status::Broken { .. }));
    Ok(if broken { Outcome::Failed } else { Outcome::Done })
}

/// What `install` was told.
pub struct Wanted<'a> {
    pub names: &'a [String],
    pub system: bool,
    /// Not what an earlier installation resolved to, but what its package manager gives now.
    pub update: bool,
    pub yes: bool,
    /// One value a line.
    pub json: bool,
}

/// Installs servers: shows what it will run, asks, and runs it.
pub async fn install(args: &cli::Project, wanted: &Wanted<'_>) -> anyhow::Result<Outcome> {
    let here = here(args)?;
    tell_problems(&here.problems());
    let Here { homes, root, trust, servers, debuggers } = here;
    let managed = project::managed_directory(&homes)?;
    let search = project::search_path(&homes);
    let mut plans = Vec::new();
    let mut failed = false;
    for name in wanted.names {
        let server = servers.get(name).map(|it| it.summary());
        let Some(definition) = server.or_else(|| debuggers.get(name).map(|it| it.summary())) else {
            let text = "no such server or debugger; `pilcrow adapters list` shows those known";
            say(wanted, name, "failed", text);
            failed = true;
            continue;
        };
        let pins = match definition.install.version() {
            Some(version) if !wanted.update => InstallLock::pins(&managed, name, version)?,
            _ => None,
        };
        match InstallPlan::new(&definition, managed.path(), pins.as_deref(), &search) {
            Ok(plan) if plan.directory.is_none() && !wanted.system => {
                let command = plan.steps.iter().map(|step| step.command.to_string()).collect::<Vec<_>>();
                let text = format!(
                    "it is a package of the system; run this, or add --system to have it run: {}",
                    command.join(" && ")
                );
                say(wanted, name, "manual", &text);
                failed = true;
            }
            Ok(plan) => plans.push(InstallPlan { update: wanted.update, ..plan }),
            Err(problem) => {
                let status = if matches!(problem, PlanProblem::Page { .. }) { "manual" } else { "failed" };
                say(wanted, name, status, &problem.to_string());
                failed = true;
            }
        }
    }
    if plans.is_empty() {
        return Ok(Outcome::Failed);
    }
    let config = open::settings(&homes, &root, trust.is_trusted(&root))?;
    let mut options = PolicyOptions::new(trust, root);
    options.rules = config.rules();
    let processes = Processes::new(std::env::current_exe().ok());
    let policy = std::sync::Arc::new(Policy::new(options));
    let installer = Installer { managed, processes: processes.clone(), policy, search };
    // Nobody is asked about what is there.
    let mut missing = Vec::new();
    for plan in &plans {
        if plan.update || installer.installed_program(plan)?.is_none() {
            missing.push(plan);
        }
    }
    let cancel = stop::on_signal()?;
    if !wanted.yes && !missing.is_empty() {
        match ask(&missing, &cancel).await {
            Answer::Once | Answer::Session | Answer::Always => {}
            Answer::Unattended => {
                output::note("pilcrow: nobody can be asked here; `--yes` agrees to run this:");
                missing.iter().for_each(|plan| output::note(plan.describe().trim_end()));
                return Ok(Outcome::Denied);
            }
            Answer::No { .. } | Answer::Refused { .. } | Answer::Dismissed => {
                output::note("pilcrow: nothing was installed");
                return Ok(Outcome::Failed);
            }
        }
    }
    let mut exit = if failed { Outcome::Failed } else { Outcome::Done };
    for plan in &plans {
        let version = plan.version.as_deref().unwrap_or("as the system has it");
        match installer.install(plan, &|progress| tell(wanted.json, &plan.name, &progress), &cancel).await {
            Ok(done) => {
                let what = if done.already { "already" } else { "installed" };
                let took = done.took.as_secs_f32();
                if wanted.json {
                    output::json(&json!({
                        "name": plan.name, "status": what, "version": plan.version,
                        "program": done.program, "seconds": took,
                    }));
                } else {
                    let words = if done.already { "was installed already" } else { "is installed" };
                    let text = format!("{} {version} {words} ({took:.1} s): ", plan.name);
                    output::line(&format!("{text}{}", done.program.display()));
                }
            }
            Err(error) => {
                say(wanted, &plan.name, "failed", &error.to_string());
                exit =
                    if matches!(error, InstallError::Denied(_)) { Outcome::Denied } else { Outcome::Failed };
            }
        }
        if cancel.is_cancelled() {
            break;
        }
    }
    let left = processes.end_all(END).await;
    if !left.is_empty() {
        output::note(&format!("pilcrow: these processes could not be ended: {left:?}"));
    }
    Ok(exit)
}

async fn ask(plans: &[&InstallPlan], cancel: &CancellationToken) -> Answer {
    let names: Vec<String> = plans
        .iter()
        .map(|plan| format!("{} {}", plan.name, plan.version.as_deref().unwrap_or("")).trim().to_owned())
        .collect();
    let question = Question {
        kind: QuestionKind::Exec,
        title: format!("Install {}? This runs:", names.join(", ")),
        detail: plans.iter().map(|plan| plan.describe()).collect(),
        files: Vec::new(),
    };
    terminal::approver().ask(question, cancel).await
}

/// One that is not installed, and why.
fn say(wanted: &Wanted<'_>, name: &str, status: &str, text: &str) {
    if wanted.json {
        output::json(&json!({"name": name, "status": status, "message": text}));
    } else {
        output::note(&format!("pilcrow: {name}: {text}"));
    }
}

/// A line when a command begins; while it runs, at a terminal, one that is written over.
fn tell(quiet: bool, name: &str, progress: &Progress<'_>) {
    match progress {
        _ if quiet => {}
        Progress::Waiting => {
            output::note(&format!("{name}: another installation is going on; waiting for it"))
        }
        Progress::Started(command) => output::note(&format!("{name}: {command}")),
        Progress::Running { last_line, elapsed } => {
            output::fleeting(&format!("{name}: {} s  {}", elapsed.as_secs(), last_line.trim()));
        }
    }
}
