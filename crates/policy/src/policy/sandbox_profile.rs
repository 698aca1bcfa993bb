//! The sandbox profile of each kind of program.
//!
//! A command line may write the project, temporary files and the caches of build tools. It reads everything
//! but keys, logins and Pilcrow's own files. Inside the project, files that other programs execute stay as
//! they are. A line whose commands are all one tool of [`TOOLS`] may use what that tool works with.
//!
//! The program of a definition may do the same as a command line, but it changes nothing in the project
//! except what its definition names.

use std::path::Path;

use paths::canonical_existing as canonical;
use paths::{AbsPath, credential_paths};
use shell::Named;

use super::git_line::{self, GitLine};
use super::shell_command::Line;
use super::{Decision, Policy, ProgramFiles, SandboxMode};
use crate::rules::Capability;
use crate::{Checkout, EXECUTED, GitChanges, Network, ProjectRoots, SandboxProfile};

/// Rights of a line beyond those of other commands.
#[derive(Default)]
pub(super) struct LineUse {
    tool: Option<&'static Tool>,
    pub(super) git: GitLine,
    pub(super) environment: Vec<(String, String)>,
    /// The reason why a tool has no keys or direct network access.
    pub(super) note: Option<String>,
}

/// Programs, and the names in the home directory that they read.
struct Tool {
    programs: &'static [&'static str],
    reads: &'static [&'static str],
    /// The subcommands that use them; empty for all.
    subcommands: Names,
    /// The reason that other subcommands have no logins; empty if they need none.
    others: &'static str,
    /// Whether it reaches servers and agents by protocols of its own.
    is_direct: bool,
}

type Names = &'static [&'static str];

/// The first is git, which [`GitLine`] decides about.
const TOOLS: &[Tool] = &[
    Tool {
        programs: &["git"],
        // The programs `gh`, `glab` and `hub` give git their logins.
        reads: &[
            ".ssh",
            ".git-credentials",
            ".netrc",
            ".config/gh",
            ".config/git/credentials",
            ".config/glab-cli",
            ".config/hub",
        ],
        subcommands: &[],
        others: "",
        is_direct: true,
    },
    Tool {
        programs: &["gh"],
        reads: &[".config/gh"],
        subcommands: &[
            "api",
            "issue close",
            "issue comment",
            "issue create",
            "issue edit",
            "issue list",
            "issue view",
            "label list",
            "pr checks",
            "pr comment",
            "pr diff",
            "pr edit",
            "pr list",
            "pr review",
            "pr status",
            "pr view",
            "release list",
            "release view",
            "repo view",
            "run list",
            "run rerun",
            "run view",
            "run watch",
            "search",
            "workflow",
        ],
        others: "this command of gh may run hooks of git, aliases or extensions",
        is_direct: false,
    },
    Tool {
        programs: &["npm", "pnpm", "yarn"],
        reads: &[".npmrc"],
        subcommands: &["add", "audit", "ci", "i", "info", "install", "outdated", "publish", "update", "view"],
        others: "",
        is_direct: false,
    },
];

/// Tools whose logins their options, settings or scripts can pass on.
///
/// They use them only outside the sandbox.
const OUTSIDE: &[&str] = &[
    "aws",
    "az",
    "bq",
    "docker",
    "docker-compose",
    "gcloud",
    "gpg",
    "gpg2",
    "gsutil",
    "helm",
    "kubectl",
    "pg_dump",
    "pg_restore",
    "podman",
    "psql",
    "rsync",
    "scp",
    "sftp",
    "ssh",
];

/// Caches of build tools.
struct Cache {
    /// The variable that moves it, and its usual place in the home directory.
    variable: &'static str,
    place: &'static str,
    /// The tool that creates it.
    tool: &'static str,
    /// The writable entries; empty for all.
    ///
    /// A directory with settings, programs or logins names them, so that no program can add settings there.
    parts: &'static [&'static str],
}

const fn cache(variable: &'static str, place: &'static str, tool: &'static str) -> Cache {
    Cache { variable, place, tool, parts: &[] }
}

const CACHES: &[Cache] = &[
    // All programs use it, so it is created like those of an installed tool.
    cache("XDG_CACHE_HOME", ".cache", "sh"),
    Cache { variable: "CARGO_HOME", place: ".cargo", tool: "cargo", parts: &["registry", "git"] },
    // Without its locks, cargo works alone.
    Cache {
        variable: "CARGO_HOME",
        place: ".cargo",
        tool: "",
        parts: &[".package-cache", ".package-cache-mutate", "advisory-db", "advisory-dbs"],
    },
    cache("CARGO_TARGET_DIR", "", ""),
    cache("npm_config_cache", ".npm", "npm"),
    cache("", ".local/share/pnpm/store", ""),
    cache("BUN_INSTALL_CACHE_DIR", ".bun/install/cache", "bun"),
    cache("PIP_CACHE_DIR", "", ""),
    cache("UV_CACHE_DIR", "", ""),
    cache("GOMODCACHE", "go/pkg", "go"),
    cache("GOCACHE", "", ""),
    Cache {
        variable: "GRADLE_USER_HOME",
        place: ".gradle",
        tool: "gradle",
        parts: &["caches", "daemon", "jdks", "native", "notifications", "wrapper", "workers", ".tmp"],
    },
    cache("", ".m2/repository", "mvn"),
    Cache { variable: "", place: ".ivy2", tool: "", parts: &["cache", "local"] },
    cache("NUGET_PACKAGES", ".nuget/packages", "dotnet"),
    cache("", ".bundle/cache", ""),
    cache("SCCACHE_DIR", "", ""),
    Cache {
        variable: "CCACHE_DIR",
        place: ".ccache",
        tool: "",
        parts: &[
            "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f", "lock", "tmp",
        ],
    },
];

/// Limit on the submodules whose hooks and settings stay as they are.
///
/// It is also the limit on linked worktrees.
const MAX_MODULES: usize = 50;

/// Directories for temporary files of all programs.
///
/// They are shared: commands leave files there for later ones.
const TEMPORARY: &[&str] = &["/tmp", "/var/tmp"];

impl Policy {
    /// Rights of a line beyond those of other commands.
    ///
    /// With `alone`, no other command can change what it was checked for.
    pub(super) fn line_use(&self, text: &str, line: &Line, alone: bool) -> LineUse {
        let mut git = GitLine::of(text, &line.commands, &self.options.root);
        let mut environment = Vec::new();
        let named = tool_of(&line.commands).filter(|_| !line.is_doubtful);
        let withheld = named.and_then(|tool| tool.withheld(line));
        let mut tool = named.filter(|_| withheld.is_none());
        let writable = match git.has_keys || tool.is_some() {
            true => self.sandbox_profile(&LineUse::default()).map_or_else(Vec::new, |it| it.writable),
            false => Vec::new(),
        };
        if !alone {
            git.withhold_keys("another command may run at the same time");
        }
        if let (true, Err(why)) = (git.has_keys, git_line::user_settings(&writable)) {
            git.withhold_keys(&why);
        }
        if git.has_keys {
            tool = TOOLS.first();
            environment.extend(git_line::settings());
        }
        if tool.is_some() {
            environment.extend(git_line::without_writable(&writable));
        }
        let note = git.withheld.take().map(|why| ("git", why));
        let note = note.or_else(|| Some(("the command", withheld.filter(|why| !why.is_empty())?)));
        let note = note.map(|(name, why)| format!("{name} ran without keys or direct network access: {why}"));
        let mut names = line.commands.iter().filter_map(|it| it.words.first());
        let outside = names.find(|name| OUTSIDE.contains(&name.as_str()));
        let outside =
            outside.map(|name| format!("{name} has its logins and the network only outside the sandbox"));
        let note = note.or(outside);
        LineUse { tool, git, environment, note }
    }

    /// The limits of a line; `None` without a sandbox.
    pub(super) fn sandbox_profile(&self, line: &LineUse) -> Option<SandboxProfile> {
        let mode = self.options.exec.sandbox;
        if mode == SandboxMode::Off {
            return None;
        }
        let home = home();
        let tool = line.tool;
        let used = tool.map_or(&[][..], |tool| tool.reads);
        let in_home = |name: &str| home.as_ref().map(|home| canonical(&home.join(name)));

        // As it was opened: a command may have put a link in its place.
        let root = self.options.root.clone();
        let repository = Repository::find(&root);
        let mut writable = vec![root.clone()];
        writable.extend(repository.iter().flat_map(|it| it.directories.iter().cloned()));
        writable.extend(TEMPORARY.iter().filter_map(AbsPath::new));
        writable.extend(std::env::var_os("TMPDIR").and_then(AbsPath::new));
        let caches = caches(home.as_ref());
        writable.extend(caches.iter().map(|it| it.path.clone()));
        // A mistaken variable must not open everything.
        let is_narrow = |path: &AbsPath| {
            let holds_home = home.as_ref().is_some_and(|home| home.starts_with(path));
            *path == root
                || TEMPORARY.iter().any(|it| path.as_path() == Path::new(it))
                || path.parent().is_some() && !holds_home
        };
        writable.retain(&is_narrow);
        // Inside another writable directory, an earlier command may have put a link in its place.
        let all = writable.clone();
        let is_part = |path: &AbsPath| {
            caches.iter().any(|it| it.path == *path && it.within.is_some()) && canonical(path) == *path
        };
        writable.retain(|path| {
            is_part(path) || !all.iter().any(|other| path.starts_with(other) && path != other)
        });
        let mut writable: Vec<AbsPath> = writable.iter().map(canonical).filter(&is_narrow).collect();
        writable.sort();
        writable.dedup();
        let mut read_only: Vec<AbsPath> = caches.iter().filter_map(|it| it.within.clone()).collect();
        read_only.retain(|path| writable.iter().any(|open| path.starts_with(open)));
        let created = caches.into_iter().filter(|it| !it.path.as_path().exists() && is_installed(it.tool));

        let (mut protected, mut changed) = (Vec::new(), Vec::new());
        let modules = repository.iter().flat_map(Repository::modules).collect::<Vec<_>>();
        for git in repository.iter().map(|it| &it.git).chain(&modules) {
            // The second would lead git to other settings.
            protected.extend([git.join("hooks"), git.join("commondir")]);
        }
        // A repository that the command creates is inspected.
        protected.extend(Some(root.join(".git")).filter(|path| path.as_path().symlink_metadata().is_err()));
        // git changes some when it is configured, checks out files, or moves worktrees.
        let mut add = |may_change: bool, paths: Vec<AbsPath>| {
            if may_change { changed.extend(paths) } else { protected.extend(paths) }
        };
        if let Some(repository) = &repository {
            add(line.git.configures, repository.settings.clone());
            add(line.git.configures, modules.iter().map(|git| git.join("config")).collect());
            add(line.git.worktrees, repository.worktrees());
            // A file that names the directory.
            add(
                false,
                vec![repository.top.join(".git")].into_iter().filter(|it| it.as_path().is_file()).collect(),
            );
        }
        let top = repository.as_ref().map_or(&root, |it| &it.top).clone();
        for directory in [&root, &top] {
            add(line.git.checks_out, EXECUTED.map(|name| directory.join(name)).to_vec());
        }
        // A link is protected itself too: a command could put a directory in its place.
        let is_link = |path: &AbsPath| path.as_path().is_symlink();
        let with_links = |paths: &[AbsPath]| {
            let links = paths.iter().flat_map(|path| [path.parent(), Some(path.clone())]).flatten();
            paths.iter().map(canonical).chain(links.filter(is_link)).collect()
        };
        let protected = with_links(&protected);

        let credentials = credential_paths().filter(|name| !used.contains(&name.as_str()));
        let credentials = credentials.filter_map(|name| in_home(&name));
        let credentials = credentials
            .filter(|path| self.judge_resolved(Capability::Read, path).decision != Decision::Allow);
        let mut hidden: Vec<AbsPath> = credentials.chain(self.options.own.iter().map(canonical)).collect();
        // The project itself can always be read.
        hidden
            .retain(|path| !root.starts_with(path) && repository.iter().all(|it| !it.git.starts_with(path)));
        // In a hidden directory nothing is left to hide, and no place for it.
        let all = hidden.clone();
        hidden.retain(|path| !all.iter().any(|other| path.starts_with(other) && path != other));
        hidden.sort();
        hidden.dedup();
        Some(SandboxProfile {
            created: created.map(|it| it.path).collect(),
            writable,
            read_only: read_only.iter().map(canonical).collect(),
            protected,
            git: GitChanges {
                paths: with_links(&changed),
                worktrees: line.git.worktrees,
                checkout: repository.filter(|_| line.git.checks_out).map(|it| Checkout {
                    top: it.top,
                    own: it.own,
                    shared: it.git,
                }),
            },
            nested: Some(ProjectRoots { workspace: root, top }),
            hidden,
            readable: self.options.shown.iter().map(canonical).collect(),
            // A tool reaches its servers and agents by protocols of its own.
            network: if tool.is_some_and(|it| it.is_direct) { Network::Allowed } else { Network::Proxy },
            unix_sockets: false,
            required: mode == SandboxMode::Required,
        })
    }

    /// The limits of a definition's program; `None` without a sandbox.
    pub(super) fn program_profile(&self, files: &ProgramFiles) -> Option<SandboxProfile> {
        let mut profile = self.sandbox_profile(&LineUse::default())?;
        let root = &self.options.root;
        // A link may have been put in the place of a directory.
        // A file can be created only where its directory is writable.
        let place = |path: &AbsPath| match path.parent() {
            Some(parent) if !path.as_path().exists() && !files.created.contains(path) => parent,
            _ => path.clone(),
        };
        let own = files.project.iter().map(place).map(|path| canonical(&path));
        let own = own.filter(|path| path.starts_with(root));
        let own: Vec<AbsPath> = own.filter(|path| !profile.denies_write(path)).collect();
        let repository = Repository::find(root);
        // Only commands change git's files.
        let git = repository.iter().flat_map(|it| it.directories.iter().filter(|path| **path != it.top));
        profile.read_only.extend(git.cloned());
        let mut project = vec![root.clone()];
        project.extend(repository.into_iter().flat_map(|it| it.directories));
        if !own.contains(root) {
            profile.writable.retain(|path| !project.contains(path));
            // Caches of a project that is the home directory, unless a link was put in their place.
            let caches = caches(home().as_ref()).into_iter().map(|it| it.path);
            let is_inside = |path: &AbsPath| path != root && path.starts_with(root);
            profile.writable.extend(caches.filter(|path| is_inside(path) && canonical(path) == *path));
            profile.read_only.extend(project);
        }
        profile.unix_sockets = files.unix_sockets;
        let state = files.state.as_ref().map(canonical);
        profile.readable.extend(state.clone());
        let created = files.created.iter().map(canonical).filter(|path| own.contains(path));
        profile.created.extend(created.chain(state.clone()));
        profile.writable.extend(own.into_iter().chain(state));
        Some(profile)
    }
}

/// The commands of a line but neutral ones such as `cd`.
fn working(commands: &[Named]) -> impl Iterator<Item = &[String]> {
    commands.iter().filter(|command| !command.neutral).map(|command| command.words.as_slice())
}

/// The tool other than git that all commands of a line are.
fn tool_of(commands: &[Named]) -> Option<&'static Tool> {
    working(commands).next()?;
    let is_all = |tool: &&Tool| {
        working(commands).all(|it| it.first().is_some_and(|it| tool.programs.contains(&it.as_str())))
    };
    TOOLS.iter().skip(1).find(is_all)
}

impl Tool {
    /// Why a line of this tool has no keys; empty if it needs none.
    fn withheld(&self, line: &Line) -> Option<String> {
        if let Some(option) = line.commands.iter().find_map(|it| shell::acting_option(&it.words)) {
            return Some(format!("`{option}` may name a program"));
        }
        if line.sets_variables {
            return Some("the line sets a variable, which may name a program".to_owned());
        }
        let uses = |words: &[String]| {
            let is_one = |name: &&str| {
                name.split(' ').enumerate().all(|(at, part)| words.get(at + 1).is_some_and(|it| it == part))
            };
            self.subcommands.is_empty() || self.subcommands.iter().any(is_one)
        };
        (!working(&line.commands).all(uses)).then(|| self.others.to_owned())
    }
}

fn home() -> Option<AbsPath> {
    std::env::home_dir().and_then(AbsPath::new).map(|home| canonical(&home))
}

/// A writable path of a cache.
struct CachePath {
    path: AbsPath,
    /// The directory of the cache, if not all of it is writable.
    within: Option<AbsPath>,
    /// The tool that creates it.
    tool: &'static str,
}

fn caches(home: Option<&AbsPath>) -> Vec<CachePath> {
    let paths = CACHES.iter().filter_map(|&Cache { variable, place, tool, parts }| {
        let moved = Some(variable).filter(|it| !it.is_empty()).and_then(std::env::var_os);
        let usual = || home.filter(|_| !place.is_empty()).map(|home| home.join(place));
        let moved = moved.and_then(AbsPath::new);
        // A variable may name a directory that the user does not have.
        let tool = if moved.as_ref().is_some_and(|it| !it.as_path().exists()) { "" } else { tool };
        let top = moved.or_else(usual)?;
        let part = |part: &&str| CachePath { path: top.join(part), within: Some(top.clone()), tool };
        Some(match parts {
            [] => vec![CachePath { path: top, within: None, tool }],
            parts => parts.iter().map(part).collect(),
        })
    });
    paths.flatten().collect()
}

fn is_installed(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    !tool.is_empty() && std::env::split_paths(&path).any(|directory| directory.join(tool).is_file())
}

/// The git repository that a workspace is in.
pub(super) struct Repository {
    /// The worktree.
    pub(super) top: AbsPath,
    /// The directory of the worktree's own state.
    own: AbsPath,
    /// The directory of branches, objects and hooks, shared by worktrees.
    pub(super) git: AbsPath,
    /// The worktree and git's directories.
    pub(super) directories: Vec<AbsPath>,
    /// Files that name programs for git to run.
    pub(super) settings: Vec<AbsPath>,
}

impl Repository {
    pub(super) fn find(root: &AbsPath) -> Option<Self> {
        let top = std::iter::successors(Some(root.clone()), AbsPath::parent)
            .find(|directory| directory.join(".git").as_path().exists())?;
        let (own, git) = git_directories(&top)?;
        let settings = vec![git.join("config"), own.join("config.worktree")];
        Some(Self { directories: vec![top.clone(), own.clone(), git.clone()], top, own, git, settings })
    }

    /// The files that lead git from linked worktrees to their settings.
    fn worktrees(&self) -> Vec<AbsPath> {
        let entries = std::fs::read_dir(self.git.join("worktrees").as_path()).into_iter().flatten().flatten();
        let mut found = Vec::new();
        for own in entries.take(MAX_MODULES).filter_map(|entry| AbsPath::new(entry.path())) {
            let gitdir = own.join("gitdir");
            let text = paths::read_settings(&gitdir).unwrap_or_default();
            found.extend(AbsPath::new(text.trim()).filter(|path| path.file_name() == ".git"));
            found.extend([own.join("commondir"), own.join("config.worktree"), gitdir]);
        }
        found
    }

    /// The git directories of submodules, also of those inside submodules.
    fn modules(&self) -> Vec<AbsPath> {
        let (mut found, mut pending) = (Vec::new(), vec![self.git.join("modules")]);
        while let Some(directory) = pending.pop().filter(|_| found.len() < MAX_MODULES) {
            let entries = std::fs::read_dir(directory.as_path()).into_iter().flatten().flatten();
            let entries = entries.filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir()));
            // A name that is not Unicode cannot be in a profile.
            let paths = entries.filter_map(|entry| AbsPath::new(entry.path().to_str()?));
            for path in paths {
                // Others are parts of a name such as `libs/a`.
                let is_module = path.join("HEAD").as_path().exists();
                pending.push(if is_module { path.join("modules") } else { path.clone() });
                found.extend(Some(path).filter(|_| is_module));
            }
        }
        found
    }
}

/// The git directory of a worktree, and the one that it shares with others.
///
/// A link or a file in the project must not open any directory that it names: a worktree's directory names
/// the worktree in return, and a submodule's belongs to the repository around it.
fn git_directories(top: &AbsPath) -> Option<(AbsPath, AbsPath)> {
    let path = top.join(".git");
    if path.as_path().is_dir() {
        return (canonical(&path) == path).then(|| (path.clone(), path));
    }
    let read = |path: &AbsPath| paths::read_settings(path).ok();
    let text = read(&path)?;
    let own = canonical(&top.join(text.strip_prefix("gitdir:")?.trim()));
    if let Some(back) = read(&own.join("gitdir")) {
        let worktrees = own.parent().filter(|parent| parent.file_name() == "worktrees")?;
        let is_linked = canonical(&own.join(back.trim())) == path;
        let git = worktrees.parent().filter(|_| is_linked)?;
        return Some((own, git));
    }
    let mut above = std::iter::successors(own.parent(), AbsPath::parent);
    let around = above.find(|directory| directory.file_name() == ".git")?.parent()?;
    top.starts_with(&around).then(|| (own.clone(), own))
}

#[cfg(test)]
mod tests {
    use paths::StateDir;

    use super::*;
    use crate::{ExecOptions, PolicyOptions, TrustStore};

    fn policy(root: &AbsPath, sandbox: SandboxMode) -> Policy {
        let trust = TrustStore::new(StateDir::new(root.join("state")));
        let own = vec![root.join("state"), root.parent().unwrap()];
        let exec = ExecOptions { sandbox, ..ExecOptions::default() };
        Policy::new(PolicyOptions { own, exec, ..PolicyOptions::new(trust, root.clone()) })
    }

    fn commands(lines: &[&str]) -> Vec<Named> {
        let words = |line: &&str| line.split(' ').map(str::to_owned).collect();
        let named = |line: &&str| Named { words: words(line), whole: true, neutral: line.starts_with("cd ") };
        lines.iter().map(named).collect()
    }

    #[test]
    fn a_line_of_one_tool_uses_what_it_works_with() {
        for (lines, programs) in [
            (&["cd x", "git push"][..], None),
            (&["git log", "cat a"], None),
            (&["npm ci"], Some("npm")),
            (&["docker ps"], None),
            (&["cd x"], None),
            (&[], None),
        ] {
            let tool = tool_of(&commands(lines)).map(|tool| tool.programs[0]);
            assert_eq!(tool, programs, "{lines:?}");
        }
    }

    #[test]
    fn a_profile_protects_hooks_and_hides_own_files() {
        let temp = tempfile::tempdir().unwrap();
        let top = canonical(&AbsPath::new(temp.path()).unwrap());
        for directory in [".git/hooks", "sub/state"] {
            std::fs::create_dir_all(top.join(directory)).unwrap();
        }
        let root = top.join("sub");
        let profile = policy(&root, SandboxMode::Auto).sandbox_profile(&LineUse::default()).unwrap();
        for writable in [top.clone(), root.clone(), AbsPath::new("/tmp").unwrap()] {
            assert!(profile.writable.iter().any(|it| writable.starts_with(it)), "{writable}");
        }
        for protected in [top.join(".git/hooks"), top.join(".git/config"), root.join(".vscode/tasks.json")] {
            assert!(profile.protected.contains(&protected), "{protected}");
        }
        // The parent of the project is its own too, but then the project could not be read.
        assert!(profile.hidden.contains(&root.join("state")) && !profile.hidden.contains(&top));
        let configures =
            LineUse { git: GitLine { configures: true, ..GitLine::default() }, ..LineUse::default() };
        let git = policy(&root, SandboxMode::Required).sandbox_profile(&configures).unwrap();
        assert!(git.required && !git.protected.contains(&top.join(".git/config")));
        assert!(git.git.paths.contains(&top.join(".git/config")));
        assert!(git.protected.contains(&top.join(".git/hooks")));
        assert!(policy(&root, SandboxMode::Off).sandbox_profile(&configures).is_none());
    }

    #[test]
    fn a_program_changes_only_what_its_definition_names() {
        let temp = tempfile::tempdir().unwrap();
        let top = canonical(&AbsPath::new(temp.path()).unwrap());
        for directory in [".git/hooks", "sub/state", "other"] {
            std::fs::create_dir_all(top.join(directory)).unwrap();
        }
        let root = top.join("sub");
        std::os::unix::fs::symlink(top.join("other"), root.join("link")).unwrap();
        let policy = policy(&root, SandboxMode::Auto);
        let state = root.join("state/server-data/x");
        let names = ["build", "link", ".husky/x", "../other", "state"];
        let project = names.map(|name| root.join(name)).to_vec();
        let created = vec![root.join("link"), root.join("build")];
        let files = ProgramFiles { state: Some(state.clone()), project, created, unix_sockets: false };
        let profile = policy.program_profile(&files).unwrap();
        assert!(profile.created.ends_with(&[root.join("build"), state.clone()]));
        let added: Vec<&AbsPath> = profile.writable.iter().filter(|path| path.starts_with(&top)).collect();
        assert_eq!(added, [&root.join("build"), &state]);
        assert!(profile.read_only.contains(&root) && profile.read_only.contains(&top));
        assert!(!profile.denies_read(&state) && profile.denies_read(&root.join("state/audit")));
        let whole = ProgramFiles { project: vec![root.clone()], ..ProgramFiles::default() };
        let profile = policy.program_profile(&whole).unwrap();
        assert!(profile.writable.contains(&root) && !profile.read_only.contains(&root));
        assert!(profile.protected.contains(&root.join(".husky")));
        let missing = ProgramFiles { project: vec![root.join("lock")], ..ProgramFiles::default() };
        assert!(policy.program_profile(&missing).unwrap().writable.contains(&root));
    }

    #[test]
    fn keys_need_a_line_settings_and_hooks_without_programs() {
        let temp = tempfile::tempdir().unwrap();
        let root = canonical(&AbsPath::new(temp.path()).unwrap());
        for directory in [".git/hooks", ".git/objects", "sub/.git", "bare/objects", "plain"] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        std::fs::write(root.join("bare/HEAD"), "").unwrap();
        let config = "[remote \"origin\"]\nurl = git@h:a\n[remote \"disk\"]\nurl = /a\n";
        std::fs::write(root.join(".git/config"), config).unwrap();
        let policy = policy(&root, SandboxMode::Auto);
        let note = |line: &str, alone: bool| {
            let used = policy.line_use(line, &policy.judge_line(line), alone);
            assert_eq!(used.note.is_none(), used.git.has_keys, "{line}");
            used.note.map(|note| note.split_once(": ").unwrap().1.to_owned()).unwrap_or_default()
        };
        for (line, expected) in [
            ("git fetch origin", ""),
            ("cd plain && git push origin HEAD", ""),
            (
                "git fetch origin; git status",
                "the line also has `git status`; run the commands that need keys alone",
            ),
            ("cd -P plain/.. && git fetch origin", "`..` may lead to another repository"),
            ("git -C plain/.. fetch origin", "`..` may lead to another repository"),
            ("cd ~+/plain && git fetch origin", "the line has more than commands of git with constant words"),
            ("git fetch disk", "the URL of remote disk is not on a server (/a)"),
            ("git fetch", "the URL of remote disk is not on a server (/a)"),
            ("git push origin ../x", "../x is not the URL of a server"),
            ("git clone git@h:a /tmp/a", ""),
            ("cd sub && git push origin", "it works in another repository"),
            ("git -C bare push origin", "it works in another repository"),
            ("git -C .. push origin", "`..` may lead to another repository"),
            ("cd plain; cd ../sub; git push origin", "`..` may lead to another repository"),
            (
                "git commit -m a && git push origin",
                "the line also has `git commit`; run the commands that need keys alone",
            ),
            (
                "git checkout x && git push origin",
                "the line also has `git checkout`; run the commands that need keys alone",
            ),
            ("git push origin && ls", "the line also runs `ls`"),
            ("A=1 git push origin", "the line has more than commands of git with constant words"),
            (
                "git push --receive-pack x origin",
                "`git push` has an option or argument that may name a program",
            ),
        ] {
            assert_eq!(note(line, true), expected, "{line}");
        }
        std::os::unix::fs::symlink("/etc/passwd", root.join(".git/packed-refs")).unwrap();
        assert_eq!(note("git fetch origin", true), "packed-refs of the repository is a link");
        std::fs::remove_file(root.join(".git/packed-refs")).unwrap();
        let graphs = root.join(".git/objects/info/commit-graphs");
        std::fs::create_dir_all(&graphs).unwrap();
        for file in ["alternates", "http-alternates", "commit-graphs/commit-graph-chain"] {
            let path = root.join(".git/objects/info").join(file);
            std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
            let why = note("git fetch origin", true);
            assert!(why.ends_with("may lead git to other files"), "{file}: {why}");
            std::fs::remove_file(&path).unwrap();
        }
        std::fs::write(root.join(".git/objects/info/alternates"), "/tmp/a\n").unwrap();
        assert!(note("git fetch origin", true).ends_with("may lead git to other files"));
        std::fs::remove_file(root.join(".git/objects/info/alternates")).unwrap();
        assert_eq!(note("git fetch origin", false), "another command may run at the same time");
        std::fs::write(root.join(".git/hooks/pre-push"), "").unwrap();
        std::fs::write(root.join(".git/hooks/post-merge.sample"), "").unwrap();
        assert_eq!(note("git push origin", true), "the repository has the hook pre-push");
        assert_eq!(note("git fetch origin", true), "");
        std::fs::write(root.join(".git/config"), format!("{config}[core]\nhooksPath = a\n")).unwrap();
        let expected = "the repository's settings may name a program (core.hookspath)";
        assert_eq!(note("git fetch origin", true), expected);
        let line = |line: &str| policy.line_use(line, &policy.judge_line(line), true);
        let variable = "the line sets a variable, which may name a program";
        let gh = "this command of gh may run hooks of git, aliases or extensions";
        for (text, has_keys, why) in [
            ("ssh -q h", false, "ssh has its logins and the network only outside the sandbox"),
            ("kubectl get pods", false, "kubectl has its logins and the network only outside the sandbox"),
            ("NPM_TOKEN=x npm ci", false, variable),
            ("export NPM_TOKEN=x; npm ci", false, variable),
            ("env NPM_TOKEN=x npm ci", false, variable),
            ("for name in a b; do npm view $name; done", true, ""),
            ("gh pr view 1", true, ""),
            ("gh pr $X", false, gh),
            ("gh pr create", false, gh),
            ("npm ci", true, ""),
            ("npm run build", false, ""),
        ] {
            let found = line(text);
            assert_eq!(found.tool.is_some(), has_keys, "{text}");
            assert!(found.note.unwrap_or_default().ends_with(why), "{text}");
        }
        let network = |text: &str| policy.sandbox_profile(&line(text)).unwrap().network;
        assert_eq!(["ssh h", "npm ci"].map(network), [Network::Proxy, Network::Proxy]);
        let configures = |line: &str| policy.line_use(line, &policy.judge_line(line), true).git.configures;
        let lines = ["git config a.b c", "git remote add x y", "git checkout -b x", "git config a.b c | cat"];
        assert_eq!(lines.map(configures), [true, true, false, false]);
    }

    #[test]
    fn a_git_file_opens_only_a_git_directory() {
        let temp = tempfile::tempdir().unwrap();
        let top = canonical(&AbsPath::new(temp.path()).unwrap());
        for directory in ["main/.git/worktrees/w", "w", "other"] {
            std::fs::create_dir_all(top.join(directory)).unwrap();
        }
        let own = top.join("main/.git/worktrees/w");
        std::fs::write(own.join("gitdir"), format!("{}\n", top.join("w/.git"))).unwrap();
        std::fs::write(top.join("w/.git"), format!("gitdir: {own}\n")).unwrap();
        let found = Repository::find(&top.join("w")).unwrap();
        assert_eq!(found.directories, [top.join("w"), own, top.join("main/.git")]);
        for stranger in ["../other", "../main/.git", "../main/.git/worktrees/none"] {
            std::fs::write(top.join("w/.git"), format!("gitdir: {stranger}\n")).unwrap();
            assert!(Repository::find(&top.join("w")).is_none(), "{stranger}");
        }
        std::fs::remove_file(top.join("w/.git")).unwrap();
        let (here, path) = (rustix::fs::CWD, top.join("w/.git"));
        rustix::fs::mkfifoat(here, path.as_path(), rustix::fs::Mode::RWXU).unwrap();
        assert!(Repository::find(&top.join("w")).is_none());
        std::fs::remove_file(top.join("w/.git")).unwrap();
        std::os::unix::fs::symlink(top.join("main/.git"), top.join("w/.git")).unwrap();
        assert!(Repository::find(&top.join("w")).is_none());
    }
}
