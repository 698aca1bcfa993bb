//! Execution of installation plans: as a whole or not at all.
//!
//! Invariants: one installation at a time runs in a managed directory. The failed installation, or the next
//! one after a kill, removes an incomplete directory and restores what it was to replace.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use paths::{StateDir, StateError, StateLock};
use policy::{Denied, Policy};
use process::deadlines;
use process::{Processes, SpawnError};
use serde_json::Value;
use shell::CommandLine;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio_util::sync::CancellationToken;

use super::plan::{BUILD, InstallPlan, NPM_LOCK, REPORT};
use super::{COMPLETE, How, InstallLock, Locked};
use crate::search_path::SearchPath;

/// Timeout of one command.
const DEADLINE: Duration = Duration::from_secs(20 * 60);
/// Time for which an installation waits for another one.
const PATIENCE: Duration = Duration::from_secs(20 * 60);
const LOCK: &str = "install.lock";
/// Name of the directory of versions under replacement, in a program's directory.
///
/// Pilcrow starts no program from it.
pub(super) const BEFORE: &str = ".before";
/// The interval of progress reports.
const TICK: Duration = Duration::from_millis(500);

/// Installs programs into the managed directory.
pub struct Installer {
    pub managed: StateDir,
    pub processes: Arc<Processes>,
    pub policy: Arc<Policy>,
    pub search: SearchPath,
}

/// The progress of an installation.
#[derive(Debug, Clone)]
pub enum Progress<'a> {
    /// The installation waits for another one.
    Waiting,
    Started(&'a CommandLine),
    /// The command runs, with its last line and its duration.
    Running {
        /// The last line of output.
        last_line: &'a str,
        elapsed: Duration,
    },
}

#[derive(Debug, Clone)]
pub struct Installed {
    pub program: PathBuf,
    /// Whether the version was installed already, so that the installer did nothing.
    pub already: bool,
    pub took: Duration,
}

/// The reason why an installation failed. Pilcrow has removed its files.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// A rule denies the package manager.
    #[error("{0}")]
    Denied(#[from] Denied),
    /// The package manager cannot be started.
    #[error("{0}")]
    Spawn(#[from] SpawnError),
    #[error("{0}")]
    State(#[from] StateError),
    /// The package manager failed.
    #[error("{command} failed ({status}); nothing was installed\n{said}")]
    Failed { command: String, status: String, said: String },
    /// The package manager succeeded, but the program is missing.
    #[error(
        "the packages of {name} lack its program ({programs}), so Pilcrow removed them; check its definition"
    )]
    NoProgram {
        name: String,
        /// The programs that the definition names.
        programs: String,
    },
    /// The user cancelled.
    #[error("cancelled; nothing was installed")]
    Cancelled,
}

impl Installer {
    /// Finds the program of a complete installation of the planned version. Blocks.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn installed_program(&self, plan: &InstallPlan) -> Result<Option<PathBuf>, StateError> {
        let (Some(version), Some(directory)) = (&plan.version, &plan.directory) else { return Ok(None) };
        let complete = self.managed.child(&plan.name)?.child(version)?.read(COMPLETE)?.is_some();
        Ok(complete.then(|| SearchPath::in_directory(&plan.programs, directory.as_path())).flatten())
    }

    /// Executes a plan. Blocks on the file system for short times.
    ///
    /// # Errors
    /// [`InstallError`]; nothing remains then.
    pub async fn install(
        &self,
        plan: &InstallPlan,
        progress: &(dyn Fn(Progress<'_>) + Sync),
        cancel: &CancellationToken,
    ) -> Result<Installed, InstallError> {
        let started = Instant::now();
        let (Some(version), Some(directory)) = (&plan.version, &plan.directory) else {
            for step in &plan.steps {
                self.run(&step.command, progress, cancel).await?;
            }
            let found = plan.programs.iter().find_map(|program| self.search.on_path(program));
            let program = found.ok_or_else(|| no_program(plan))?;
            return Ok(Installed { program, already: false, took: started.elapsed() });
        };
        let lock = self.lock(progress, cancel).await?;
        self.remove_incomplete()?;
        // Read the lock first: one that cannot be read cannot be written either.
        let mut known = InstallLock::read(&self.managed)?;
        let versions = self.managed.child(&plan.name)?;
        let place = versions.child(version)?;
        let there = self.installed_program(plan)?;
        let entry = Locked {
            version: version.clone(),
            how: plan.how.to_string(),
            packages: plan.packages.clone(),
            installed_at: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        };
        if let Some(program) = there.clone().filter(|_| !plan.update) {
            // An earlier installation was killed before it wrote the lock, or the lock names another version.
            if known.adapters.get(&plan.name).is_none_or(|it| it.version != *version) {
                known.adapters.insert(plan.name.clone(), entry);
                known.write(&self.managed)?;
            }
            return Ok(Installed { program, already: true, took: started.elapsed() });
        }
        if there.is_some() {
            versions.rename(version, &format!("{BEFORE}/{version}"))?;
        }
        versions.remove_tree(version)?;
        let filled = self.fill(plan, &place, progress, cancel).await;
        let program = || SearchPath::in_directory(&plan.programs, directory.as_path());
        // The directory is incomplete until the completion mark is written.
        let finished = filled.and_then(|()| {
            let program = program().ok_or_else(|| no_program(plan))?;
            if let Some(pins) = resolved(plan.how, &place)? {
                InstallLock::keep_pins(&self.managed, &plan.name, version, &pins)?;
            }
            place.write_atomic(COMPLETE, format!("{directory}\n").as_bytes())?;
            Ok(program)
        });
        let program = match finished {
            Ok(program) => program,
            Err(error) => {
                self.remove_incomplete()?;
                return Err(error);
            }
        };
        let before = known.adapters.insert(plan.name.clone(), entry);
        known.write(&self.managed)?;
        // A server may still run from the previous version; older ones and the replaced one are removed.
        for old in versions.list()? {
            if old != *version && before.as_ref().is_none_or(|before| before.version != old) {
                versions.remove_tree(&old)?;
            }
        }
        drop(lock);
        Ok(Installed { program, already: false, took: started.elapsed() })
    }

    async fn fill(
        &self,
        plan: &InstallPlan,
        place: &StateDir,
        progress: &(dyn Fn(Progress<'_>) + Sync),
        cancel: &CancellationToken,
    ) -> Result<(), InstallError> {
        place.make()?;
        for step in &plan.steps {
            for (name, text) in &step.files {
                place.write_atomic(name, text.as_bytes())?;
            }
            self.run(&step.command, progress, cancel).await?;
        }
        place.remove_tree(BUILD)?;
        Ok(())
    }

    /// Takes the lock of the managed directory, and reports waiting.
    async fn lock(
        &self,
        progress: &(dyn Fn(Progress<'_>) + Sync),
        cancel: &CancellationToken,
    ) -> Result<StateLock, InstallError> {
        if let Some(lock) = self.managed.try_lock(LOCK)? {
            return Ok(lock);
        }
        progress(Progress::Waiting);
        let managed = self.managed.clone();
        let wait = tokio::task::spawn_blocking(move || managed.lock(LOCK, PATIENCE));
        tokio::select! {
            lock = wait => Ok(lock.map_err(|_| InstallError::Cancelled)??),
            () = cancel.cancelled() => Err(InstallError::Cancelled),
        }
    }

    /// Removes incomplete directories and restores the versions they were to replace.
    fn remove_incomplete(&self) -> Result<(), StateError> {
        for name in self.managed.list()? {
            let versions = self.managed.child(&name)?;
            if name == "pins" || !versions.path().as_path().is_dir() {
                continue;
            }
            for version in versions.list()?.into_iter().filter(|it| it != BEFORE) {
                if versions.child(&version)?.read(COMPLETE)?.is_none() {
                    versions.remove_tree(&version)?;
                }
            }
            for version in versions.child(BEFORE)?.list()? {
                if versions.child(&version)?.read(COMPLETE)?.is_none() {
                    versions.rename(&format!("{BEFORE}/{version}"), &version)?;
                }
            }
            versions.remove_tree(BEFORE)?;
            self.managed.remove_if_empty(&name)?;
        }
        Ok(())
    }

    async fn run(
        &self,
        command: &CommandLine,
        progress: &(dyn Fn(Progress<'_>) + Sync),
        cancel: &CancellationToken,
    ) -> Result<(), InstallError> {
        progress(Progress::Started(command));
        let started = Instant::now();
        let grant = self.policy.grant_invoked("install", command)?;
        let mut process = self.processes.spawn(command, &grant).await?;
        drop(process.take_stdin());
        let mut lines = process.take_stdout().map(|stdout| BufReader::new(stdout).lines());
        let mut said = String::new();
        let mut tail = std::collections::VecDeque::new();
        let mut tick = tokio::time::interval(TICK);
        let until = tokio::time::sleep(DEADLINE);
        tokio::pin!(until);
        let status = loop {
            // `next_line` keeps its buffer when dropped; the others lose nothing.
            tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    process.end(deadlines::PACKAGE_MANAGER).await;
                    return Err(InstallError::Cancelled);
                }
                line = async { match &mut lines {
                    Some(lines) => lines.next_line().await,
                    None => std::future::pending().await,
                } } => match line {
                    Ok(Some(line)) => {
                        if tail.len() == 20 {
                            tail.pop_front();
                        }
                        tail.push_back(line.clone());
                        said = line;
                    }
                    Ok(None) | Err(_) => lines = None,
                },
                status = process.exited() => break status,
                () = &mut until => {
                    process.end(deadlines::PACKAGE_MANAGER).await;
                    let status = format!("not finished after {} min", DEADLINE.as_secs() / 60);
                    return Err(failed(command, status, &tail, &process.stderr_tail()));
                }
                _ = tick.tick() => {
                    let stderr = last_lines(&process.stderr_tail(), 1);
                    let last_line = if stderr.is_empty() { &said } else { &stderr };
                    progress(Progress::Running { last_line, elapsed: started.elapsed() });
                }
            }
        };
        // The command's remaining children are not needed.
        process.end(deadlines::PACKAGE_MANAGER).await;
        while let Some(lines) = &mut lines
            && let Ok(Ok(Some(line))) =
                tokio::time::timeout(deadlines::PACKAGE_MANAGER, lines.next_line()).await
        {
            tail.push_back(line);
        }
        if status.success() {
            return Ok(());
        }
        Err(failed(command, status.to_string(), &tail, &process.stderr_tail()))
    }
}

fn failed(
    command: &CommandLine,
    status: String,
    tail: &std::collections::VecDeque<String>,
    stderr: &str,
) -> InstallError {
    let stdout = last_lines(&tail.iter().cloned().collect::<Vec<_>>().join("\n"), 20);
    let said = if stderr.trim().is_empty() { stdout } else { last_lines(stderr, 20) };
    InstallError::Failed { command: command.to_string(), status, said }
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

fn no_program(plan: &InstallPlan) -> InstallError {
    InstallError::NoProgram { name: plan.name.clone(), programs: plan.programs.join(", ") }
}

/// Reads the resolved packages from the package manager's report, to pin next time.
fn resolved(how: How, place: &StateDir) -> Result<Option<String>, StateError> {
    let text = |name| Ok::<_, StateError>(place.read(name)?.and_then(|bytes| String::from_utf8(bytes).ok()));
    match how {
        How::Npm => text(NPM_LOCK),
        How::Pip => Ok(text(REPORT)?.and_then(|report| requirements(&report))),
        How::Cargo | How::Apt | How::Page => Ok(None),
    }
}

/// Renders a line `name==version --hash=sha256:…` for each package in pip's report.
///
/// Reads version 1 of the installation report; `None` if a package has no hash.
fn requirements(report: &str) -> Option<String> {
    let report: Value = serde_json::from_str(report).ok()?;
    let mut lines = report["install"]
        .as_array()?
        .iter()
        .map(|item| {
            let name = item["metadata"]["name"].as_str()?;
            let version = item["metadata"]["version"].as_str()?;
            let hash = item["download_info"]["archive_info"]["hashes"]["sha256"].as_str()?;
            Some(format!("{name}=={version} --hash=sha256:{hash}\n"))
        })
        .collect::<Option<Vec<String>>>()?;
    lines.sort();
    (!lines.is_empty()).then(|| lines.concat())
}

#[cfg(test)]
mod tests {
    use paths::AbsPath;
    use policy::{PolicyOptions, TrustStore};

    use super::*;
    use crate::install::plan::Step;

    /// Blocks the update with a file that has the name of the packages' directory.
    #[tokio::test]
    async fn a_failed_update_keeps_the_previous_version() {
        let directory = tempfile::tempdir().unwrap();
        let root = AbsPath::new(directory.path().canonicalize().unwrap()).unwrap();
        let managed = StateDir::new(root.join("managed"));
        let place = managed.child("served").unwrap().child("1").unwrap();
        let program = root.join("managed/served/1/bin/served.cjs");
        place.child("bin").unwrap().write_atomic("served.cjs", b"old").unwrap();
        place.write_atomic(COMPLETE, b"").unwrap();
        managed.write_atomic("pins", b"").unwrap();
        let mut options = PolicyOptions::new(TrustStore::new(managed.clone()), root.clone());
        options.yes = true;
        let installer = Installer {
            managed: managed.clone(),
            processes: Processes::new(None),
            policy: Arc::new(Policy::new(options)),
            search: SearchPath::default(),
        };
        let script = format!("mkdir -p bin && printf new > bin/served.cjs && printf '{{}}' > {NPM_LOCK}");
        let command = CommandLine {
            program: "/bin/sh".into(),
            args: vec!["-c".to_owned(), script],
            env: Vec::new(),
            cwd: place.path().clone(),
        };
        let plan = InstallPlan {
            name: "served".to_owned(),
            version: Some("1".to_owned()),
            how: How::Npm,
            update: true,
            packages: Vec::new(),
            overrides: Vec::new(),
            directory: Some(place.path().clone()),
            programs: vec!["served.cjs".to_owned()],
            steps: vec![Step { command, files: Vec::new() }],
        };
        let cancel = CancellationToken::new();
        let failed = installer.install(&plan, &|_| (), &cancel).await.unwrap_err();
        assert!(matches!(failed, InstallError::State(_)), "{failed}");
        assert_eq!(std::fs::read_to_string(program.as_path()).unwrap(), "old");
        assert!(place.read(COMPLETE).unwrap().is_some());
    }

    #[test]
    fn a_pip_report_becomes_requirements_with_hashes() {
        let report = r#"{"version": "1", "install": [
            {"metadata": {"name": "b", "version": "2.0"},
             "download_info": {"archive_info": {"hashes": {"sha256": "bb"}}}},
            {"metadata": {"name": "a", "version": "1.0"},
             "download_info": {"archive_info": {"hashes": {"sha256": "aa"}}}}]}"#;
        assert_eq!(requirements(report).unwrap(), "a==1.0 --hash=sha256:aa\nb==2.0 --hash=sha256:bb\n");
        assert_eq!(requirements(&report.replace("\"bb\"", "null")), None);
        assert_eq!(requirements("{}"), None);
    }
}
