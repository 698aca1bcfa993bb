//! `pilcrow adapters`: lists, checks and installs language servers and debug
//! adapters.

use std::path::PathBuf;

use adapters::{
    DebuggerDefinitions, Definition, DefinitionError, Definitions, InstallError, InstallLock, InstallPlan,
    Installer, PlanProblem, Progress, ProjectPrograms, ServerDefinitions, Summary,
};
use host::doctor::{Finding, Status};
use host::{Outcome, project};
use paths::{AbsPath, Homes};
use policy::{Answer, Policy, PolicyOptions, Question, QuestionKind, TrustStore};
use process::Processes;
use process::deadlines;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use workspace::files_below;

use crate::{cli, open, output, stop, terminal};

/// Maximum number of files scanned to detect the languages of a project.
const MAX_SCANNED: usize = 20_000;

/// All definitions and the installed programs.
pub struct Known {
    /// The servers, then the debuggers.
    pub found: Vec<Found>,
    /// Invalid definition files.
    pub problems: Vec<DefinitionError>,
}

/// A definition and its installed programs.
pub struct Found {
    pub name: String,
    /// `server` or `debugger`.
    pub kind: &'static str,
    /// Description for the user in one line.
    pub about: String,
    /// Name of the group.
    ///
    /// Servers of one group are alternatives; the lowest rank is preferred.
    pub group: Option<String>,
    pub rank: u32,
    pub languages: Vec<String>,
    /// Programs that can start it, best first.
    pub programs: Vec<PathBuf>,
    /// The installation command for the user.
    pub install: String,
    /// Home page of its project.
    pub page: Option<String>,
    /// Version that the tests ran with.
    pub verified: Option<String>,
    /// Version that the definition installs.
    pub pinned: Option<String>,
    /// Version in the managed directory.
    pub installed: Option<String>,
    /// Whether an update removed it and has not finished.
    pub replaced: bool,
    /// Number of files in the project that it covers.
    pub files: usize,
    /// Whether its definition is a file of the project.
    pub from_project: bool,
}

struct Environment {
    homes: Homes,
    root: AbsPath,
    trust: TrustStore,
    servers: ServerDefinitions,
    debuggers: DebuggerDefinitions,
}

fn environment(args: &cli::Project) -> anyhow::Result<Environment> {
    let homes = Homes::from_env()?;
    let root = open::canonical_root(args)?;
    let trust = TrustStore::new(homes.state.clone());
    let trusted = trust.is_trusted(&root);
    let servers = project::load_definitions(&homes, &root, trusted);
    let debuggers = project::load_definitions(&homes, &root, trusted);
    Ok(Environment { homes, root, trust, servers, debuggers })
}

impl Environment {
    fn problems(&self) -> Vec<DefinitionError> {
        [self.servers.refused(), self.debuggers.refused()].concat()
    }
}

/// Finds the installed programs of every definition.
pub fn scan(args: &cli::Project) -> anyhow::Result<Known> {
    let environment = environment(args)?;
    let files: Vec<AbsPath> = files_below(&environment.root).take(MAX_SCANNED).collect();
    let programs = ProjectPrograms {
        search: project::search_path(&environment.homes),
        workspace: environment.root.clone(),
    };
    let mut found = find_programs("server", &environment, &environment.servers, &files, |definition| {
        let languages = definition.languages.iter().map(|language| language.id.clone()).collect();
        (programs.search.find(definition, &environment.root, &environment.root), languages)
    })?;
    found.extend(find_programs("debugger", &environment, &environment.debuggers, &files, |definition| {
        (programs.find(&definition.name, definition.programs(), &environment.root), Vec::new())
    })?);
    Ok(Known { found, problems: environment.problems() })
}

fn find_programs<D: Definition>(
    kind: &'static str,
    environment: &Environment,
    definitions: &Definitions<D>,
    files: &[AbsPath],
    programs: impl Fn(&D) -> (Vec<PathBuf>, Vec<String>),
) -> anyhow::Result<Vec<Found>> {
    let managed = project::managed_directory(&environment.homes)?;
    let lock = InstallLock::read(&managed)?;
    let found = definitions.list().map(|definition| {
        let Summary { name, about, group, rank, install, verified, from_project, .. } = definition.summary();
        let (programs, languages) = programs(definition);
        Found {
            name: name.to_owned(),
            kind,
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
    /// Lists the doctor's findings about adapters.
    ///
    /// They cover installed adapters, and those that the project's files need; these come first, by the number
    /// of files.
    pub fn findings(&self) -> Vec<Finding> {
        // One of several alternatives is enough.
        let better = |one: &Found, other: &Found| {
            let rank = |found: &Found| (found.programs.is_empty(), found.rank, found.name.clone());
            one.group.is_some() && one.group == other.group && rank(one) < rank(other)
        };
        let is_shown = |found: &&Found| {
            let is_needed = found.files > 0 && !self.found.iter().any(|other| better(other, found));
            !found.programs.is_empty() || is_needed || found.replaced
        };
        let mut found: Vec<&Found> = self.found.iter().filter(is_shown).collect();
        found.sort_by_key(|found| std::cmp::Reverse(found.files));
        let found = found.into_iter().map(Found::finding);
        let problems = self.problems.iter().map(|problem| Finding {
            name: "definition".to_owned(),
            purpose: "a definition of a language server or debug adapter".to_owned(),
            status: Status::Broken {
                path: PathBuf::from(&problem.origin),
                detail: problem.reason.clone(),
                install: "fix or remove the file".to_owned(),
            },
            notes: Vec::new(),
        });
        found.chain(problems).collect()
    }

    /// Counts servers that are neither installed nor needed.
    pub fn others(&self) -> usize {
        let is_other =
            |found: &&Found| found.kind == "server" && found.programs.is_empty() && found.files == 0;
        self.found.iter().filter(is_other).count()
    }
}

impl Found {
    /// Describes the adapter in one line.
    fn purpose(&self) -> String {
        if self.kind == "debugger" { format!("debugs {}", self.about) } else { self.about.clone() }
    }

    fn finding(&self) -> Finding {
        let status = match self.programs.first() {
            Some(path) => Status::Found { path: path.clone(), version: None },
            None => Status::Missing { install: self.install.clone() },
        };
        Finding { name: self.name.clone(), purpose: self.purpose(), status, notes: self.notes() }
    }

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
                "an update is running or was interrupted; repeat it with: pilcrow adapters install {}",
                self.name
            ));
        }
        if self.verified.is_none() {
            notes.push("its definition was never tested with the program".to_owned());
        }
        if self.from_project {
            notes.push("its definition is a file of this project".to_owned());
        }
        notes
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name, "kind": self.kind, "about": self.about, "languages": self.languages,
            "programs": self.programs, "install": self.install, "page": self.page,
            "verified": self.verified.as_ref().map_or(json!(false), |version| json!(version)),
            "pinned": self.pinned, "installed": self.installed, "files": self.files,
            "from_project": self.from_project,
        })
    }
}

pub fn list(target: &cli::CommandTarget) -> anyhow::Result<Outcome> {
    let known = scan(&target.project)?;
    for found in &known.found {
        if target.json {
            output::json(&found.json());
            continue;
        }
        let verified = match &found.verified {
            Some(version) => format!("verified with {version}"),
            None => "not verified".to_owned(),
        };
        let installed = if found.programs.is_empty() { "not installed" } else { "installed" };
        output::line(&format!("{}: {} ({installed}, {verified})", found.name, found.purpose()));
    }
    note_problems(&known.problems);
    Ok(Outcome::Done)
}

fn note_problems(problems: &[DefinitionError]) {
    problems.iter().for_each(|problem| output::note(&format!("pilcrow: {problem}")));
}

/// Prints the program that starts each adapter, or the command that installs it.
pub fn doctor(target: &cli::CommandTarget) -> anyhow::Result<Outcome> {
    let known = scan(&target.project)?;
    let findings = known.findings();
    for finding in &findings {
        if target.json {
            output::json(finding);
        } else {
            output::part(&finding.render());
        }
    }
    if !target.json && known.others() > 0 {
        output::line(&format!(
            "{} more cover no file of this project: pilcrow adapters list",
            known.others()
        ));
    }
    let broken = findings.iter().any(|finding| matches!(finding.status, Status::Broken { .. }));
    Ok(if broken { Outcome::Failed } else { Outcome::Done })
}

/// Installs adapters: shows the commands, asks, and runs them.
pub async fn install(target: &cli::CommandTarget, request: &cli::InstallArgs) -> anyhow::Result<Outcome> {
    if request.yes {
        open::refuse_run()?;
    }
    let environment = environment(&target.project)?;
    note_problems(&environment.problems());
    let Environment { homes, root, trust, servers, debuggers } = environment;
    let managed = project::managed_directory(&homes)?;
    let search = project::search_path(&homes);
    let mut plans = Vec::new();
    let mut failed = false;
    for name in &request.names {
        let server = servers.get(name).map(|definition| definition.summary());
        let Some(definition) = server.or_else(|| debuggers.get(name).map(|definition| definition.summary()))
        else {
            let text = "there is no such server or debugger; see `pilcrow adapters list`";
            report(target, name, "failed", text);
            failed = true;
            continue;
        };
        let pins = match definition.install.version() {
            Some(version) if !request.update => InstallLock::pins(&managed, name, version)?,
            _ => None,
        };
        match InstallPlan::new(&definition, managed.path(), pins.as_deref(), &search) {
            Ok(plan) if plan.directory.is_none() && !request.system => {
                let command = plan.steps.iter().map(|step| step.command.to_string()).collect::<Vec<_>>();
                let text =
                    format!("it is a system package; run this, or add --system: {}", command.join(" && "));
                report(target, name, "manual", &text);
                failed = true;
            }
            Ok(plan) => plans.push(InstallPlan { update: request.update, ..plan }),
            Err(problem) => {
                let status = if matches!(problem, PlanProblem::Page { .. }) { "manual" } else { "failed" };
                report(target, name, status, &problem.to_string());
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
    // Installed adapters need no permission.
    let mut missing = Vec::new();
    for plan in &plans {
        if plan.update || installer.installed_program(plan)?.is_none() {
            missing.push(plan);
        }
    }
    let cancel = stop::on_signal()?;
    if !request.yes && !missing.is_empty() {
        match ask(&missing, &cancel).await {
            Answer::Once | Answer::Session | Answer::Always => {}
            Answer::Unattended => {
                output::note(
                    "pilcrow: there is no terminal to ask the user; `--yes` permits these commands:",
                );
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
        let version = plan.version.as_deref().unwrap_or("(the system's version)");
        match installer
            .install(plan, &|progress| print_progress(target.json, &plan.name, &progress), &cancel)
            .await
        {
            Ok(done) => {
                let status = if done.already { "already" } else { "installed" };
                let seconds = done.took.as_secs_f32();
                if target.json {
                    output::json(&json!({
                        "name": plan.name, "status": status, "version": plan.version,
                        "program": done.program, "seconds": seconds,
                    }));
                } else {
                    let state = if done.already { "is already installed" } else { "is installed" };
                    let text = format!("{} {version} {state} ({seconds:.1} s): ", plan.name);
                    output::line(&format!("{text}{}", done.program.display()));
                }
            }
            Err(error) => {
                report(target, &plan.name, "failed", &error.to_string());
                exit =
                    if matches!(error, InstallError::Denied(_)) { Outcome::Denied } else { Outcome::Failed };
            }
        }
        if cancel.is_cancelled() {
            break;
        }
    }
    let left = processes.end_all(deadlines::COMMAND_PROGRAMS).await;
    if !left.is_empty() {
        output::note(&format!("pilcrow: these processes could not be stopped: {left:?}"));
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

/// Reports an adapter that is not installed.
fn report(target: &cli::CommandTarget, name: &str, status: &str, text: &str) {
    if target.json {
        output::json(&json!({"name": name, "status": status, "message": text}));
    } else {
        output::note(&format!("pilcrow: {name}: {text}"));
    }
}

/// Prints a line when a command starts.
///
/// At a terminal, also prints a second line that each output line replaces.
fn print_progress(quiet: bool, name: &str, progress: &Progress<'_>) {
    match progress {
        _ if quiet => {}
        Progress::Waiting => output::note(&format!("{name}: waiting for another installation")),
        Progress::Started(command) => output::note(&format!("{name}: {command}")),
        Progress::Running { last_line, elapsed } => {
            output::transient(&format!("{name}: {} s  {}", elapsed.as_secs(), last_line.trim()));
        }
    }
}
