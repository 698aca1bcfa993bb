//! Examination of the installed programs: found, broken or missing.
//!
//! The result is data ([`Report`]), from which the text is rendered, with a remedy for each problem. Programs
//! run only to print their version; a program of the project runs only if the project is trusted. The caller
//! lists the programs: this module knows no language server by name.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use paths::{AbsPath, Homes};
use policy::{Policy, SandboxMode};
use process::{Processes, SandboxLevel, SandboxStatus, deadlines};
use serde::Serialize;
use shell::CommandLine;
use tokio::io::AsyncReadExt;

/// Time limit for a program to print its version.
const DEADLINE: Duration = Duration::from_secs(5);

/// Maximum size of the output that is read, in bytes.
const MAX_OUTPUT: u64 = 64 * 1024;

/// A program to search for, and how to install it.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Name in the report, such as `basedpyright`.
    pub name: String,
    /// Purpose, such as `language server for Python`.
    pub purpose: String,
    /// Names of alternative programs on PATH, best first.
    pub programs: Vec<String>,
    /// Known path, instead of a search on PATH.
    pub found: Option<PathBuf>,
    /// Arguments to print its version; if empty, it does not run.
    pub version_args: Vec<String>,
    /// Command that installs it.
    pub install: String,
}

impl Probe {
    /// Returns the probes of git and of the programs that install and run most servers.
    pub fn basics() -> Vec<Self> {
        let probe = |name: &str, purpose: &str, programs: &[&str], install: &str| Self {
            name: name.into(),
            purpose: purpose.into(),
            programs: programs.iter().map(|program| (*program).to_owned()).collect(),
            found: None,
            version_args: vec!["--version".into()],
            install: install.into(),
        };
        vec![
            probe("git", "version control", &["git"], "apt install git"),
            probe(
                "python3",
                "installs servers with pip",
                &["python3", "python"],
                "apt install python3 python3-venv",
            ),
            probe("node", "runs servers from npm", &["node", "nodejs"], "apt install nodejs npm"),
        ]
    }
}

/// The outcome of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Status {
    Found {
        path: PathBuf,
        /// First line of its output; `None` if it did not run.
        version: Option<String>,
    },
    Broken {
        path: PathBuf,
        detail: String,
        /// Command that installs it.
        install: String,
    },
    Missing {
        /// Command that installs it.
        install: String,
    },
}

/// A probe with its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub name: String,
    pub purpose: String,
    #[serde(flatten)]
    pub status: Status,
    /// Notes shown below the finding.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The result of an examination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Version of this program.
    pub pilcrow: String,
    pub root: AbsPath,
    /// Whether the project's tools may run without a question.
    pub trusted: bool,
    /// The sandbox of commands, debuggers and language servers, or why there is none.
    pub confinement: String,
    /// The process that executes the commands of this project.
    ///
    /// An editor or `pilcrow serve`; `None` if each command does it by itself.
    pub served_by: Option<String>,
    #[serde(rename = "folders")]
    pub directories: Vec<Directory>,
    /// Findings in the order of the probes.
    pub findings: Vec<Finding>,
}

/// A directory of Pilcrow's data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Directory {
    /// Name such as `config` or `state`.
    pub name: &'static str,
    pub path: AbsPath,
    /// Reason why it is not usable; `None` if it is usable or will be created.
    pub problem: Option<String>,
}

/// Examines all probes and directories.
///
/// Runs programs in parallel, each with a deadline.
pub async fn examine(
    homes: &Homes,
    root: &AbsPath,
    probes: &[Probe],
    policy: &Policy,
    processes: &Arc<Processes>,
) -> Report {
    let trusted = policy.is_trusted();
    let findings = probes.iter().map(|probe| async move {
        let status = probe_status(probe, root, trusted, policy, processes).await;
        Finding { name: probe.name.clone(), purpose: probe.purpose.clone(), status, notes: Vec::new() }
    });
    let findings = futures_util::future::join_all(findings).await;
    let directories = [
        ("config", &homes.config),
        ("state", homes.state.path()),
        ("data", homes.data.path()),
        ("cache", homes.cache.path()),
        ("run", homes.run.path()),
    ];
    Report {
        pilcrow: env!("CARGO_PKG_VERSION").into(),
        root: root.clone(),
        trusted,
        confinement: confinement(policy, processes).await,
        served_by: None,
        directories: directories.map(|(name, path)| directory(name, path)).into(),
        findings,
    }
}

/// Describes the sandbox of commands, debuggers and language servers.
async fn confinement(policy: &Policy, processes: &Arc<Processes>) -> String {
    let none = |why: &str| {
        format!("none ({why}): commands, debuggers and servers run without a sandbox, with your own rights")
    };
    if policy.sandbox_mode() == SandboxMode::Off {
        return none("exec.sandbox is off");
    }
    let SandboxStatus { level, detail, .. } = processes.sandbox().await;
    if level != SandboxLevel::None {
        return detail;
    }
    if policy.sandbox_mode() == SandboxMode::Required {
        return format!(
            "none ({detail}): commands, debuggers and servers do not run, since exec.sandbox is \"required\""
        );
    }
    none(&detail)
}

async fn probe_status(
    probe: &Probe,
    root: &AbsPath,
    trusted: bool,
    policy: &Policy,
    processes: &Arc<Processes>,
) -> Status {
    let install = probe.install.clone();
    let path = match &probe.found {
        Some(path) => Some(path.clone()).filter(|path| is_executable(path)),
        None => on_path(&probe.programs, std::env::var_os("PATH").as_deref()),
    };
    let Some(path) = path else { return Status::Missing { install } };
    let is_project =
        std::fs::canonicalize(&path).is_ok_and(|path| path.starts_with(root)) || path.starts_with(root);
    if probe.version_args.is_empty() || is_project && !trusted {
        return Status::Found { path, version: None };
    }
    match version(&path, &probe.version_args, policy, processes).await {
        Ok(version) => Status::Found { path, version: Some(version) },
        Err(detail) => Status::Broken { path, detail, install },
    }
}

/// Reads the first non-empty line that the program prints.
async fn version(
    path: &Path,
    args: &[String],
    policy: &Policy,
    processes: &Arc<Processes>,
) -> Result<String, String> {
    let cwd = AbsPath::new(path).and_then(|path| path.parent()).ok_or("its path is not absolute")?;
    let command = CommandLine { program: path.to_owned(), args: args.to_vec(), env: Vec::new(), cwd };
    let grant = policy.grant_query("doctor", &command).map_err(|denied| denied.to_string())?;
    let mut process = processes.spawn(&command, &grant).await.map_err(|error| error.to_string())?;
    drop(process.take_stdin());
    let mut output = Vec::new();
    let answer = async {
        if let Some(stdout) = process.take_stdout() {
            stdout.take(MAX_OUTPUT).read_to_end(&mut output).await?;
        }
        Ok::<_, std::io::Error>(process.exited().await)
    };
    let answer = tokio::time::timeout(DEADLINE, answer).await;
    let status = process.end(deadlines::FINISHED_PROGRAM).await;
    match answer {
        Err(_) => return Err(format!("it did not answer in {} s", DEADLINE.as_secs())),
        Ok(Err(error)) => return Err(error.to_string()),
        Ok(Ok(_)) => {}
    }
    let stderr = process.stderr_tail();
    let output = String::from_utf8_lossy(&output);
    let line = |text: &str| text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
    if !status.success() {
        return Err(line(&stderr).unwrap_or_else(|| status.to_string()));
    }
    // Some programs print their version on stderr.
    line(&output).or_else(|| line(&stderr)).ok_or_else(|| "it printed nothing".to_owned())
}

/// Finds the first of `programs` that is on `path`.
fn on_path(programs: &[String], path: Option<&std::ffi::OsStr>) -> Option<PathBuf> {
    let directories: Vec<PathBuf> =
        path.map(|path| std::env::split_paths(path).collect()).unwrap_or_default();
    let paths =
        programs.iter().flat_map(|program| directories.iter().map(move |directory| directory.join(program)));
    // A relative entry of PATH depends on the current directory.
    paths.filter(|path| path.is_absolute()).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Checks whether a directory, or its nearest existing parent, is writable.
fn directory(name: &'static str, path: &AbsPath) -> Directory {
    let mut existing = path.clone();
    while let (false, Some(parent)) = (existing.as_path().exists(), existing.parent()) {
        existing = parent;
    }
    let problem = if !existing.as_path().is_dir() {
        Some(format!("{existing} is not a directory"))
    } else {
        let access = rustix::fs::access(existing.as_path(), rustix::fs::Access::WRITE_OK);
        access.err().map(|error| format!("{existing} is not writable: {error}"))
    };
    Directory { name, path: path.clone(), problem }
}

impl Report {
    /// Whether nothing is broken.
    ///
    /// A missing program does not count, since not every project needs all.
    pub fn is_healthy(&self) -> bool {
        let broken = |finding: &Finding| matches!(finding.status, Status::Broken { .. });
        !self.findings.iter().any(broken)
            && self.directories.iter().all(|directory| directory.problem.is_none())
    }

    /// Renders one line for each finding, and the remedy below it.
    pub fn render(&self) -> String {
        let mut out = String::new();
        let trust = if self.trusted {
            "trusted".to_owned()
        } else {
            format!("not trusted: its tools do not run; `{}` changes that", policy::trust_command(&self.root))
        };
        let mut row = |mark: &str, name: &str, text: &str| out.push_str(&row(mark, name, text));
        row("·", "pilcrow", &self.pilcrow);
        row("·", "workspace", &format!("{} ({trust})", self.root));
        row("·", "confinement", &self.confinement);
        let no_server = "each command by itself; `pilcrow serve` keeps language servers running";
        row("·", "commands run in", self.served_by.as_deref().unwrap_or(no_server));
        for directory in &self.directories {
            match &directory.problem {
                None => row("·", &format!("{} directory", directory.name), &directory.path.to_string()),
                Some(problem) => row("✗", &format!("{} directory", directory.name), problem),
            }
        }
        self.findings.iter().for_each(|finding| out.push_str(&finding.render()));
        out
    }
}

impl Finding {
    /// Renders its line, with the remedy and notes below.
    pub fn render(&self) -> String {
        let Self { name, purpose, status, notes } = self;
        let mut out = match status {
            Status::Found { path, version } => {
                let version = version.as_deref().unwrap_or("found, not run");
                row("✓", name, &format!("{version} ({})", path.display()))
            }
            Status::Broken { path, detail, install } => {
                row("✗", name, &format!("{} does not work: {detail}", path.display()))
                    + &row(" ", "", &format!("{purpose}; install again: {install}"))
            }
            Status::Missing { install } => {
                row("–", name, &format!("missing ({purpose})"))
                    + &row(" ", "", &format!("install: {install}"))
            }
        };
        notes.iter().for_each(|note| out.push_str(&row(" ", "", note)));
        out
    }
}

fn row(mark: &str, name: &str, text: &str) -> String {
    format!("{mark} {name:<28} {text}\n")
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the files they need")]
mod tests {
    use paths::StateDir;
    use policy::{PolicyOptions, TrustStore};

    use super::*;

    struct Fixture {
        temp: tempfile::TempDir,
        root: AbsPath,
        trust: TrustStore,
    }

    fn fixture() -> Fixture {
        let temp = tempfile::tempdir().unwrap();
        let base = AbsPath::new(std::fs::canonicalize(temp.path()).unwrap()).unwrap();
        std::fs::create_dir(base.join("root")).unwrap();
        let trust = TrustStore::new(StateDir::new(base.join("state")));
        Fixture { temp, root: base.join("root"), trust }
    }

    impl Fixture {
        fn script(&self, path: &str, script: &str) -> PathBuf {
            let path = std::fs::canonicalize(self.temp.path()).unwrap().join(path);
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        }

        async fn examine(&self, probes: &[Probe]) -> Report {
            let base = self.root.parent().unwrap();
            let dir = |name: &str| StateDir::new(base.join(name));
            let homes = Homes {
                config: base.join("config"),
                state: dir("state"),
                data: dir("data"),
                cache: dir("cache"),
                run: dir("run"),
            };
            let policy = Policy::new(PolicyOptions::new(self.trust.clone(), self.root.clone()));
            let processes = Processes::new(None);
            let report = examine(&homes, &self.root, probes, &policy, &processes).await;
            assert!(processes.end_all(Duration::from_secs(20)).await.is_empty());
            report
        }
    }

    fn probe(name: &str, found: Option<PathBuf>) -> Probe {
        Probe {
            name: name.into(),
            purpose: "a test".into(),
            programs: vec![name.into()],
            found,
            version_args: vec!["--version".into()],
            install: format!("get {name}"),
        }
    }

    #[tokio::test]
    async fn found_broken_and_missing_programs_are_reported() {
        let fixture = fixture();
        let good = fixture.script("good", "echo; echo \"good 1.2 $1\"; echo more");
        let bad = fixture.script("bad", "echo no library >&2; exit 127");
        let quiet = fixture.script("quiet", "echo 'quiet 3' >&2");
        let probes = [
            probe("good", Some(good.clone())),
            probe("bad", Some(bad.clone())),
            probe("quiet", Some(quiet.clone())),
            probe("no-such-program-anywhere", None),
            probe("gone", Some(fixture.root.join("gone").into())),
        ];
        let report = fixture.examine(&probes).await;
        let statuses: Vec<Status> = report.findings.iter().map(|finding| finding.status.clone()).collect();
        assert_eq!(
            statuses,
            [
                Status::Found { path: good, version: Some("good 1.2 --version".into()) },
                Status::Broken { path: bad, detail: "no library".into(), install: "get bad".into() },
                Status::Found { path: quiet, version: Some("quiet 3".into()) },
                Status::Missing { install: "get no-such-program-anywhere".into() },
                Status::Missing { install: "get gone".into() },
            ]
        );
        assert!(!report.is_healthy());
        let text = report.render();
        for part in ["✓ good ", "✗ bad ", "install: get gone", "no sandbox", "not trusted", "pilcrow trust "]
        {
            let part = if part == "no sandbox" { "without a sandbox" } else { part };
            assert!(text.contains(part), "{part}\n{text}");
        }
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["findings"][0]["status"], "found");
        assert_eq!(json["findings"][3]["install"], "get no-such-program-anywhere");
    }

    #[tokio::test]
    async fn a_program_of_an_untrusted_project_is_not_run() {
        let fixture = fixture();
        let tool = fixture.script("root/tool", "touch \"$0.ran\"; echo 1");
        let ran = tool.with_file_name("tool.ran");
        let report = fixture.examine(&[probe("tool", Some(tool.clone()))]).await;
        assert_eq!(report.findings[0].status, Status::Found { path: tool.clone(), version: None });
        assert!(!ran.exists() && report.is_healthy());
        fixture.trust.trust(&fixture.root).unwrap();
        let report = fixture.examine(&[probe("tool", Some(tool))]).await;
        assert!(report.trusted && ran.exists());
    }

    #[tokio::test]
    async fn an_unusable_directory_is_reported() {
        let fixture = fixture();
        let base = fixture.root.parent().unwrap();
        std::fs::write(base.join("cache"), "").unwrap();
        let report = fixture.examine(&[]).await;
        let problems: Vec<_> =
            report.directories.iter().filter(|directory| directory.problem.is_some()).collect();
        assert_eq!(problems.len(), 1);
        assert_eq!((problems[0].name, report.is_healthy()), ("cache", false));
        let is_named = report.render().lines().any(|line| line.starts_with("✗ cache directory"));
        assert!(is_named, "{}", report.render());
    }

    #[test]
    fn path_is_searched_in_order_and_only_absolute() {
        let fixture = fixture();
        for directory in ["a", "b"] {
            std::fs::create_dir(fixture.temp.path().join(directory)).unwrap();
        }
        let two = fixture.script("b/two", "");
        let base = two.parent().unwrap().parent().unwrap();
        std::fs::write(base.join("a/two"), "not executable").unwrap();
        let path = format!("{0}/a:relative::{0}/b", base.display());
        let find = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            on_path(&names, Some(path.as_ref()))
        };
        assert_eq!(find(&["one", "two"]), Some(two));
        assert_eq!(find(&["one"]), None);
        assert_eq!(on_path(&["two".into()], None), None);
    }
}
