//! The sandbox profile of a command line.
//!
//! A line may write the project, temporary files and the caches of build tools. It reads everything but
//! keys, logins and Pilcrow's own files. Inside the project, files that other programs execute stay as they
//! are. A line whose commands are all one tool of [`TOOLS`] may use what that tool works with.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use paths::canonical_existing as canonical;
use paths::{AbsPath, credential_names};
use shell::Named;

use super::{Decision, Policy, SandboxMode};
use crate::rules::Capability;
use crate::{Network, SandboxProfile};

/// Programs, and the names in the home directory that they read and write.
struct Tool {
    programs: &'static [&'static str],
    reads: &'static [&'static str],
    writes: &'static [&'static str],
}

const TOOLS: &[Tool] = &[
    Tool { programs: &["git"], reads: &[".ssh", ".git-credentials", ".netrc"], writes: &[".gnupg"] },
    Tool { programs: &["ssh", "scp", "sftp", "rsync"], reads: &[".ssh"], writes: &[] },
    Tool { programs: &["gpg", "gpg2"], reads: &[], writes: &[".gnupg"] },
    Tool { programs: &["docker", "docker-compose", "podman"], reads: &[], writes: &[".docker"] },
    Tool { programs: &["kubectl", "helm"], reads: &[], writes: &[".kube"] },
    Tool { programs: &["aws"], reads: &[], writes: &[".aws"] },
    Tool { programs: &["az"], reads: &[], writes: &[".azure"] },
    Tool { programs: &["psql", "pg_dump", "pg_restore"], reads: &[".pgpass"], writes: &[] },
];

/// Caches: the variable that moves one, else its place in the home directory, and the tool that makes it.
const CACHES: &[(&str, &str, &str)] = &[
    ("XDG_CACHE_HOME", ".cache", ""),
    ("CARGO_HOME", ".cargo", "cargo"),
    ("CARGO_TARGET_DIR", "", ""),
    ("npm_config_cache", ".npm", "npm"),
    ("", ".local/share/pnpm/store", ""),
    ("BUN_INSTALL_CACHE_DIR", ".bun/install/cache", "bun"),
    ("PIP_CACHE_DIR", "", ""),
    ("UV_CACHE_DIR", "", ""),
    ("GOMODCACHE", "go/pkg", "go"),
    ("GOCACHE", "", ""),
    ("GRADLE_USER_HOME", ".gradle", "gradle"),
    ("", ".m2/repository", "mvn"),
    ("", ".ivy2", ""),
    ("NUGET_PACKAGES", ".nuget/packages", "dotnet"),
    ("", ".bundle/cache", ""),
    ("SCCACHE_DIR", "", ""),
    ("CCACHE_DIR", ".ccache", ""),
];

/// What stays read-only below the caches: programs, settings and logins.
const IN_CACHES: &[&str] = &[
    ".cargo/bin",
    ".cargo/config",
    ".cargo/config.toml",
    ".cargo/credentials.toml",
    ".cargo/env",
    ".gradle/gradle.properties",
    ".gradle/init.d",
    ".gradle/init.gradle",
];

/// Directories for temporary files of all programs.
///
/// They are shared: commands leave files there for later ones.
const TEMPORARY: &[&str] = &["/tmp", "/var/tmp"];

impl Policy {
    /// The limits of a line with these commands; `None` without a sandbox.
    pub(super) fn sandbox_profile(&self, commands: &[Named]) -> Option<SandboxProfile> {
        let mode = self.options.exec.sandbox;
        if mode == SandboxMode::Off {
            return None;
        }
        let home = std::env::home_dir().and_then(AbsPath::new).map(|home| canonical(&home));
        let tool = tool_of(commands);
        let names = |get: fn(&Tool) -> &'static [&'static str]| tool.map_or(&[][..], get);
        let in_home = |name: &str| home.as_ref().map(|home| canonical(&home.join(name)));

        let root = canonical(&self.options.root);
        let repository = Repository::find(&root);
        let mut writable = vec![root.clone()];
        writable.extend(repository.iter().flat_map(|it| it.directories.iter().cloned()));
        writable.extend(TEMPORARY.iter().filter_map(AbsPath::new));
        writable.extend(std::env::var_os("TMPDIR").and_then(AbsPath::new));
        let caches: Vec<(AbsPath, &str)> =
            CACHES.iter().filter_map(|cache| place(cache, home.as_ref())).collect();
        writable.extend(caches.iter().map(|(path, _)| path.clone()));
        writable.extend(names(|tool| tool.writes).iter().filter_map(|name| in_home(name)));
        let mut writable: Vec<AbsPath> = writable.iter().map(canonical).collect();
        // A mistaken variable must not open everything.
        let is_narrow = |path: &AbsPath| home.as_ref().is_none_or(|home| !home.starts_with(path));
        writable.retain(|path| *path == root || path.parent().is_some() && is_narrow(path));
        writable.sort();
        writable.dedup();
        let created =
            caches.into_iter().filter(|(path, tool)| !path.as_path().exists() && is_installed(tool));

        let mut protected: Vec<AbsPath> = IN_CACHES.iter().filter_map(|name| in_home(name)).collect();
        if let Some(it) = &repository {
            protected.push(it.git.join("hooks"));
        }
        if !names(|tool| tool.programs).contains(&"git") {
            // git itself changes these, when it is configured and when it checks out files.
            protected.extend(repository.iter().flat_map(|it| it.settings.iter().cloned()));
            protected.extend([".pilcrow", ".vscode/tasks.json"].map(|name| root.join(name)));
        }

        let used =
            |name: &&str| names(|tool| tool.reads).contains(name) || names(|tool| tool.writes).contains(name);
        let credentials = credential_names().filter(|name| !used(name)).filter_map(in_home);
        let credentials =
            credentials.filter(|path| self.judge_resolved(Capability::Read, path).decision == Decision::Deny);
        let mut hidden: Vec<AbsPath> = credentials.chain(self.options.own.iter().cloned()).collect();
        // The project itself can always be read.
        hidden
            .retain(|path| !root.starts_with(path) && repository.iter().all(|it| !it.git.starts_with(path)));
        hidden.sort();
        hidden.dedup();
        Some(SandboxProfile {
            created: created.map(|(path, _)| path).collect(),
            writable,
            protected: protected.iter().map(canonical).collect(),
            hidden,
            readable: self.options.shown.clone(),
            network: Network::Allowed,
            required: mode == SandboxMode::Required,
        })
    }
}

/// The tool that all commands of a line are, apart from such as `cd`.
fn tool_of(commands: &[Named]) -> Option<&'static Tool> {
    let mut working = commands.iter().filter(|command| !command.neutral).peekable();
    working.peek()?;
    let programs: Vec<&str> =
        working.map(|command| command.words.first().map_or("", String::as_str)).collect();
    TOOLS.iter().find(|tool| programs.iter().all(|program| tool.programs.contains(program)))
}

/// The place of a cache, and the tool that makes it.
fn place(
    &(variable, name, tool): &(&str, &str, &'static str),
    home: Option<&AbsPath>,
) -> Option<(AbsPath, &'static str)> {
    let moved = Some(variable).filter(|it| !it.is_empty()).and_then(std::env::var_os).and_then(AbsPath::new);
    let path = moved.or_else(|| home.filter(|_| !name.is_empty()).map(|home| home.join(name)))?;
    Some((path, tool))
}

fn is_installed(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    !tool.is_empty() && std::env::split_paths(&path).any(|directory| directory.join(tool).is_file())
}

/// The git repository that a workspace is in.
struct Repository {
    /// The directory of branches, objects and hooks, shared by worktrees.
    git: AbsPath,
    /// The worktree and git's directories.
    directories: Vec<AbsPath>,
    /// Files that name programs for git to run.
    settings: Vec<AbsPath>,
}

impl Repository {
    fn find(root: &AbsPath) -> Option<Self> {
        let top = std::iter::successors(Some(root.clone()), AbsPath::parent)
            .find(|directory| directory.join(".git").as_path().exists())?;
        let own = git_directory(&top)?;
        let common = std::fs::read_to_string(own.join("commondir")).ok();
        let git = common.map_or_else(|| own.clone(), |common| canonical(&own.join(common.trim())));
        let settings = vec![git.join("config"), own.join("config.worktree")];
        Some(Self { directories: vec![top, own, git.clone()], git, settings })
    }
}

/// The directory `.git`, or the one that a file of that name leads to.
fn git_directory(top: &AbsPath) -> Option<AbsPath> {
    let path = top.join(".git");
    if path.as_path().is_dir() {
        return Some(canonical(&path));
    }
    let text = std::fs::read_to_string(&path).ok()?;
    let target = text.strip_prefix("gitdir:")?.trim();
    let found = canonical(&top.join(PathBuf::from(target)));
    // A file in the project must not open any directory that it names.
    is_git_directory(found.as_path()).then_some(found)
}

fn is_git_directory(path: &Path) -> bool {
    path.join("HEAD").is_file()
        && path.ancestors().any(|it| {
            it.file_name().is_some_and(|name| name == OsStr::new(".git"))
                || it.extension().is_some_and(|name| name == "git")
        })
}
