//! What will be run to install a server: worked out before anything is, so that a person can read it.
//!
//! Starts nothing and looks only for the package managers on `PATH`.

use std::path::{Path, PathBuf};

use workspace::{AbsPath, CommandLine};

use super::{How, Install};
use crate::definition::ServerDefinition;
use crate::discovery::SearchPath;

/// What will be done for one server.
#[derive(Debug, Clone)]
pub struct InstallPlan {
    /// The definition's name.
    pub name: String,
    /// The version that is installed; `None` for the system's packages.
    pub version: Option<String>,
    /// Who installs it.
    pub how: How,
    /// What is there in this version already is replaced.
    pub update: bool,
    /// The packages.
    pub packages: Vec<String>,
    /// What stands in for others below them.
    pub overrides: Vec<String>,
    /// Where it goes; `None` for the system's packages.
    pub folder: Option<AbsPath>,
    /// Programs of which one must be there afterwards.
    pub programs: Vec<String>,
    /// In order.
    pub steps: Vec<Step>,
}

/// One command, and what must stand in the folder before it.
#[derive(Debug, Clone)]
pub struct Step {
    /// For people: `npm install …`.
    pub command: CommandLine,
    /// Files of the managed folder that it reads.
    pub files: Vec<(String, String)>,
}

/// Why nothing can be installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanProblem {
    /// A definition of a project: what it names would be found by every other project.
    #[error(
        "{name} is defined by this project, and Pilcrow installs nothing for a project; install it yourself: {hint}"
    )]
    FromProject {
        /// The definition's name.
        name: String,
        /// What its definition says.
        hint: String,
    },
    /// Nobody here can install it.
    #[error("{name} is not installed by Pilcrow; see {hint}")]
    Page {
        /// The definition's name.
        name: String,
        /// The project's page.
        hint: String,
    },
    /// The package manager is missing.
    #[error("{program} is missing and installs {name}; get it first: {hint}")]
    NoManager {
        /// The definition's name.
        name: String,
        /// `npm`.
        program: String,
        /// How to get it.
        hint: String,
    },
}

/// What is to be installed, whatever kind of definition it is of.
#[derive(Debug, Clone, Copy)]
pub struct ToInstall<'a> {
    /// The definition's name, which the managed folder has too.
    pub name: &'a str,
    /// It came with a project, which installs nothing.
    pub from_project: bool,
    /// How it is got.
    pub install: &'a Install,
    /// What must be there afterwards: the first of these that is.
    pub programs: &'a [String],
}

impl InstallPlan {
    /// The plan for a language server. `managed` is the managed folder; `pins` the text that an earlier
    /// installation of this version kept, so that every package below it is the same again.
    ///
    /// # Errors
    /// [`PlanProblem`].
    pub fn new(
        definition: &ServerDefinition,
        managed: &AbsPath,
        pins: Option<&str>,
        search: &SearchPath,
    ) -> Result<Self, PlanProblem> {
        let wanted = ToInstall {
            name: &definition.name,
            from_project: definition.from_project,
            install: &definition.install,
            programs: &definition.command.candidates,
        };
        Self::of(&wanted, managed, pins, search)
    }

    /// [`Self::new`] for anything that a definition says how to get.
    ///
    /// # Errors
    /// [`PlanProblem`].
    pub fn of(
        wanted: &ToInstall<'_>,
        managed: &AbsPath,
        pins: Option<&str>,
        search: &SearchPath,
    ) -> Result<Self, PlanProblem> {
        let install = wanted.install;
        let name = wanted.name.to_owned();
        let hint = install.hint(&name);
        if wanted.from_project {
            return Err(PlanProblem::FromProject { name, hint });
        }
        let missing = |program: &str, hint: &str| PlanProblem::NoManager {
            name: name.clone(),
            program: program.to_owned(),
            hint: hint.to_owned(),
        };
        let packages = &install.packages;
        let mut plan = Self {
            name: name.clone(),
            version: install.version().map(str::to_owned),
            how: install.how,
            update: false,
            packages: packages.clone(),
            overrides: install.overrides.clone(),
            folder: None,
            programs: wanted.programs.to_vec(),
            steps: Vec::new(),
        };
        if install.how == How::Apt && !packages.is_empty() {
            let apt = search.on_path("apt-get").ok_or_else(|| missing("apt-get", "a Debian system"))?;
            let mut words = vec!["install".to_owned(), "-y".to_owned()];
            words.extend(packages.iter().cloned());
            let env = [("DEBIAN_FRONTEND", "noninteractive")];
            plan.steps.push(Step::new(apt, words, &env, &root(), Vec::new()));
            return Ok(plan);
        }
        let Some(version) = install.version() else {
            return Err(PlanProblem::Page { name, hint });
        };
        let folder = managed.join(&name).join(version);
        match install.how {
            How::Npm => {
                let npm =
                    search.on_path("npm").ok_or_else(|| missing("npm", "apt-get install nodejs npm"))?;
                plan.steps.push(npm_step(npm, install, pins, &folder));
            }
            How::Pip => {
                let python = search.on_path("python3").or_else(|| search.on_path("python"));
                let python =
                    python.ok_or_else(|| missing("python3", "apt-get install python3 python3-venv"))?;
                plan.steps.extend(pip_steps(&python, packages, pins, &folder));
            }
            How::Cargo => {
                let cargo = search.on_path("cargo").ok_or_else(|| missing("cargo", "https://rustup.rs"))?;
                plan.steps.extend(packages.iter().map(|package| {
                    let words = ["install", "--locked", "--root", &folder.to_string(), package];
                    let build = folder.join(BUILD).to_string();
                    Step::new(cargo.clone(), owned(&words), &[("CARGO_TARGET_DIR", &build)], &folder, vec![])
                }));
            }
            How::Apt | How::Page => return Err(PlanProblem::Page { name, hint }),
        }
        plan.folder = Some(folder);
        Ok(plan)
    }

    /// What will run, for a person who is asked.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for step in &self.steps {
            text.push_str(&format!("{}\n", step.command));
        }
        if !self.overrides.is_empty() {
            text.push_str(&format!("with {} for what they name elsewhere\n", self.overrides.join(", ")));
        }
        match (&self.folder, self.how) {
            (Some(folder), How::Cargo) => text.push_str(&format!("into {folder}; it is compiled here\n")),
            (Some(folder), _) => {
                text.push_str(&format!("into {folder}; no scripts of the packages are run\n"));
            }
            (None, _) => text.push_str("for the whole system\n"),
        }
        text
    }
}

/// Where Cargo builds, inside the folder; taken away afterwards.
pub(super) const BUILD: &str = "build";
/// What pip says it installed.
pub(super) const REPORT: &str = "report.json";
/// What npm resolved.
pub(super) const NPM_LOCK: &str = "package-lock.json";
/// Every package of pip with its hash.
const REQUIREMENTS: &str = "requirements.txt";

impl Step {
    fn new(
        program: PathBuf,
        args: Vec<String>,
        env: &[(&str, &str)],
        cwd: &AbsPath,
        files: Vec<(String, String)>,
    ) -> Self {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { command: CommandLine { program, args, env, cwd: cwd.clone() }, files }
    }
}

fn npm_step(npm: PathBuf, install: &Install, pins: Option<&str>, folder: &AbsPath) -> Step {
    let quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=http"];
    let versions = |packages: &[String]| -> serde_json::Map<String, serde_json::Value> {
        let packages = packages.iter().filter_map(|package| package.rsplit_once('@'));
        packages.map(|(name, version)| (name.to_owned(), version.into())).collect()
    };
    let mut manifest = serde_json::json!({"private": true, "dependencies": versions(&install.packages)});
    if !install.overrides.is_empty() {
        manifest["overrides"] = versions(&install.overrides).into();
    }
    let mut files = vec![("package.json".to_owned(), format!("{manifest}\n"))];
    let verb = if pins.is_some() { "ci" } else { "install" };
    files.extend(pins.map(|pins| (NPM_LOCK.to_owned(), pins.to_owned())));
    let mut words = owned(&[verb]);
    words.extend(owned(&quiet));
    if pins.is_none() {
        words.extend(install.packages.iter().cloned());
    }
    Step::new(npm, words, &[], folder, files)
}

/// A virtual environment without pip, filled by the person's own: that works where Debian left out
/// `ensurepip`. A person's settings for Python must not lead elsewhere.
fn pip_steps(python: &Path, packages: &[String], pins: Option<&str>, folder: &AbsPath) -> [Step; 2] {
    let env = [
        ("PYTHONPATH", ""),
        ("PYTHONHOME", ""),
        ("PIP_TARGET", ""),
        ("PIP_PREFIX", ""),
        ("PIP_USER", "0"),
        ("PIP_REQUIRE_VIRTUALENV", "0"),
    ];
    let inside = |name: &str| folder.join(name).to_string();
    let venv = owned(&["-m", "venv", "--without-pip", &folder.to_string()]);
    let mut pip = owned(&["-m", "pip", "--python", &inside("bin/python"), "--no-input"]);
    pip.extend(owned(&["--disable-pip-version-check", "install", "--only-binary", ":all:", "--no-compile"]));
    let mut files = Vec::new();
    match pins {
        Some(pins) => {
            pip.extend(owned(&["--require-hashes", "--no-deps", "-r", &inside(REQUIREMENTS)]));
            files.push((REQUIREMENTS.to_owned(), pins.to_owned()));
        }
        None => pip.extend(packages.iter().cloned()),
    }
    pip.extend(owned(&["--report", &inside(REPORT)]));
    [
        Step::new(python.to_owned(), venv, &env, folder, Vec::new()),
        Step::new(python.to_owned(), pip, &env, folder, files),
    ]
}

fn root() -> AbsPath {
    AbsPath::new("/").expect("it is absolute")
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
