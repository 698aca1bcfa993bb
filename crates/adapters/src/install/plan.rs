//! Installation plans: the commands of an installation, for the user to read.
//!
//! Starts nothing. Searches only for package managers on `PATH`.

use std::path::{Path, PathBuf};

use paths::AbsPath;
use shell::CommandLine;

use super::{How, Install};
use crate::definitions::Summary;
use crate::search_path::SearchPath;

/// The commands that install one program.
#[derive(Debug, Clone)]
pub struct InstallPlan {
    pub name: String,
    /// The version that is installed; `None` for the system's packages.
    pub version: Option<String>,
    pub how: How,
    /// Whether the plan replaces an installation of the same version.
    pub update: bool,
    pub packages: Vec<String>,
    /// Exact versions of dependencies.
    pub overrides: Vec<String>,
    /// Target directory; `None` for the system's packages.
    pub directory: Option<AbsPath>,
    /// Programs of which one must exist after the installation.
    pub programs: Vec<String>,
    pub steps: Vec<Step>,
}

/// A command, and the files that it needs.
#[derive(Debug, Clone)]
pub struct Step {
    pub command: CommandLine,
    /// Files to write into the directory first, as names and texts.
    pub files: Vec<(String, String)>,
}

/// The reason why Pilcrow cannot install a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanProblem {
    /// The project defines the program.
    ///
    /// Other projects would find the installed program too.
    #[error("Pilcrow does not install {name}, which the project defines; install it yourself: {hint}")]
    FromProject {
        name: String,
        /// Command or address from [`Install::hint`].
        hint: String,
    },
    /// The user has to install it.
    #[error("Pilcrow does not install {name}; see {hint}")]
    Page { name: String, hint: String },
    /// The package manager is missing.
    #[error("{program} is missing and installs {name}; get it first: {hint}")]
    NoManager {
        name: String,
        /// The package manager, e.g. `npm`.
        program: String,
        /// Command or address that installs the package manager.
        hint: String,
    },
}

impl InstallPlan {
    /// Plans the installation of a definition's program.
    ///
    /// `managed` is the managed directory; `pins` the text that an earlier installation of this version
    /// stored, so that all its dependencies are the same again.
    ///
    /// # Errors
    /// [`PlanProblem`].
    pub fn new(
        definition: &Summary<'_>,
        managed: &AbsPath,
        pins: Option<&str>,
        search: &SearchPath,
    ) -> Result<Self, PlanProblem> {
        let install = definition.install;
        let name = definition.name.to_owned();
        let hint = install.hint(&name);
        if definition.from_project {
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
            directory: None,
            programs: definition.programs.to_vec(),
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
        let directory = managed.join(&name).join(version);
        match install.how {
            How::Npm => {
                let npm =
                    search.on_path("npm").ok_or_else(|| missing("npm", "apt-get install nodejs npm"))?;
                plan.steps.push(npm_step(npm, install, pins, &directory));
            }
            How::Pip => {
                let python = search.on_path("python3").or_else(|| search.on_path("python"));
                let python =
                    python.ok_or_else(|| missing("python3", "apt-get install python3 python3-venv"))?;
                plan.steps.extend(pip_steps(&python, packages, pins, &directory));
                if let Some(program) = plan.programs.first().filter(|_| !install.first_start.is_empty()) {
                    let program = directory.join("bin").join(program).as_path().to_owned();
                    plan.steps.push(Step::new(program, install.first_start.clone(), &[], &directory, vec![]));
                }
            }
            How::Cargo => {
                let cargo = search.on_path("cargo").ok_or_else(|| missing("cargo", "https://rustup.rs"))?;
                plan.steps.extend(packages.iter().map(|package| {
                    let words = ["install", "--locked", "--root", &directory.to_string(), package];
                    let build = directory.join(BUILD).to_string();
                    Step::new(
                        cargo.clone(),
                        owned(&words),
                        &[("CARGO_TARGET_DIR", &build)],
                        &directory,
                        vec![],
                    )
                }));
            }
            How::Apt | How::Page => return Err(PlanProblem::Page { name, hint }),
        }
        plan.directory = Some(directory);
        Ok(plan)
    }

    /// Renders the commands for the question to the user.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for step in &self.steps {
            text.push_str(&format!("{}\n", step.command));
        }
        if !self.overrides.is_empty() {
            text.push_str(&format!("with {} for other dependencies\n", self.overrides.join(", ")));
        }
        match (&self.directory, self.how) {
            (Some(directory), How::Cargo) => {
                text.push_str(&format!("into {directory}; it is compiled here\n"))
            }
            (Some(directory), _) => {
                text.push_str(&format!("into {directory}; no scripts of the packages are run\n"));
            }
            (None, _) => text.push_str("for the whole system\n"),
        }
        text
    }
}

/// Name of Cargo's build directory, removed after the installation.
pub(super) const BUILD: &str = "build";
/// Name of pip's installation report.
pub(super) const REPORT: &str = "report.json";
pub(super) const NPM_LOCK: &str = "package-lock.json";
/// Name of pip's list of packages with their hashes.
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

fn npm_step(npm: PathBuf, install: &Install, pins: Option<&str>, directory: &AbsPath) -> Step {
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
    Step::new(npm, words, &[], directory, files)
}

/// Plans a virtual environment without pip, filled by the user's own pip.
///
/// This works where Debian left out `ensurepip`. The environment clears settings of the user that would
/// install elsewhere.
fn pip_steps(python: &Path, packages: &[String], pins: Option<&str>, directory: &AbsPath) -> [Step; 2] {
    let env = [
        ("PYTHONPATH", ""),
        ("PYTHONHOME", ""),
        ("PIP_TARGET", ""),
        ("PIP_PREFIX", ""),
        ("PIP_USER", "0"),
        ("PIP_REQUIRE_VIRTUALENV", "0"),
    ];
    let inside = |name: &str| directory.join(name).to_string();
    let venv = owned(&["-m", "venv", "--without-pip", &directory.to_string()]);
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
        Step::new(python.to_owned(), venv, &env, directory, Vec::new()),
        Step::new(python.to_owned(), pip, &env, directory, files),
    ]
}

fn root() -> AbsPath {
    AbsPath::new("/").expect("it is absolute")
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
