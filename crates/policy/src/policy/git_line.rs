//! Extra rights of command lines of git.
//!
//! A line that reaches a remote has keys and the network, if it runs no program of the project: it only has
//! known commands of git, and neither the repository's settings nor a hook names a program. Settings and hooks
//! could change after this check while another command runs.

use std::collections::VecDeque;
use std::ffi::OsString;

use paths::AbsPath;
use paths::canonical_existing as canonical;
use shell::{GitCommand, Named, PlainCommand};

use super::sandbox_profile::Repository;
use super::shell_command::surroundings;

/// Builtins of the shell that may be beside commands of git.
const BUILTINS: &[&str] = &[":", "cd", "echo", "exit", "false", "pwd", "true"];

/// Hooks that every command of git may run.
const USUAL_HOOKS: &[&str] = &["post-index-change", "pre-auto-gc", "reference-transaction"];

/// Files and directories of a repository that git reads.
const READ_BY_GIT: &[&str] = &[
    "FETCH_HEAD",
    "HEAD",
    "config",
    "info",
    "info/grafts",
    "logs",
    "objects",
    "objects/info",
    "objects/pack",
    "packed-refs",
    "refs",
    "shallow",
];

/// Variables that lead git to another repository.
const REPOSITORY_VARIABLES: &[&str] = &["GIT_COMMON_DIR", "GIT_DIR", "GIT_WORK_TREE"];

/// Lists of directories and files from which programs are loaded.
const PROGRAM_LISTS: &[&str] = &["LD_LIBRARY_PATH", "LD_PRELOAD", "PATH"];

/// Settings for commands with keys.
///
/// A local repository runs its own hooks, and submodules have settings that were not checked.
const SETTINGS: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("fetch.recurseSubmodules", "false"),
    ("protocol.ext.allow", "never"),
    ("protocol.file.allow", "never"),
    ("push.recurseSubmodules", "no"),
    ("safe.bareRepository", "explicit"),
    ("submodule.recurse", "false"),
];

#[derive(Default)]
pub(super) struct GitLine {
    /// Whether it reads keys and uses the network freely.
    pub has_keys: bool,
    /// Why not, if it reaches a remote.
    pub withheld: Option<String>,
    /// Whether it may change settings of the repository that name no program.
    pub configures: bool,
    /// Whether it may change files to what a commit or stash has.
    pub checks_out: bool,
    /// Whether it may add, move and remove linked worktrees.
    pub worktrees: bool,
}

impl GitLine {
    /// Decides about the line `text`, which may run the commands `named`.
    pub(super) fn of(text: &str, named: &[Named], root: &AbsPath) -> Self {
        let all: Vec<GitCommand<'_>> = named.iter().filter_map(|it| GitCommand::of(&it.words)).collect();
        let mut line = Self {
            checks_out: all.iter().any(GitCommand::checks_out),
            worktrees: all.iter().any(|git| git.subcommand == "worktree"),
            ..Self::default()
        };
        let is_remote = all.iter().any(GitCommand::is_remote);
        if !is_remote && !all.iter().any(GitCommand::configures) {
            return line;
        }
        let (plain, repository) = (shell::plain_commands(text, &surroundings(root)), Repository::find(root));
        let repository = repository.as_ref();
        let commands = git_commands(plain.as_deref(), root, repository);
        let safe = commands.and_then(|all| runs_no_program(&all, repository).map(|()| all));
        line.configures = safe.as_ref().is_ok_and(|all| all.iter().any(GitCommand::configures));
        if is_remote {
            line.withheld = safe.and_then(|all| may_have_keys(&all, repository)).err();
            line.has_keys = line.withheld.is_none();
        }
        line
    }

    pub(super) fn withhold_keys(&mut self, why: &str) {
        if std::mem::take(&mut self.has_keys) {
            self.withheld = Some(why.to_owned());
        }
    }
}

/// The commands of a line that has only commands of git on its own repository.
fn git_commands<'a>(
    plain: Option<&'a [PlainCommand]>,
    root: &AbsPath,
    repository: Option<&Repository>,
) -> Result<Vec<GitCommand<'a>>, String> {
    let plain = plain.ok_or("the line has more than commands of git with constant words")?;
    let mut commands = Vec::new();
    let moves = plain.iter().filter(|it| it.words.first().is_some_and(|word| word == "cd"));
    let moved_to: Vec<&str> = moves.clone().flat_map(|it| &it.words[1..]).map(String::as_str).collect();
    let moves = moves.count();
    for PlainCommand { words, cwd } in plain {
        let name = words.first().map_or("", String::as_str);
        if BUILTINS.contains(&name) {
            continue;
        }
        let git = GitCommand::of(words).ok_or_else(|| format!("the line also runs `{name}`"))?;
        if !git.is_plain() {
            return Err(format!(
                "`git {}` has an option or argument that may name a program",
                git.subcommand
            ));
        }
        // Git and `cd -P` follow a link before `..`.
        let places = git.directory.into_iter().chain(moved_to.iter().copied());
        if places.flat_map(|it| it.split('/')).any(|part| part == "..") {
            return Err("`..` may lead to another repository".to_owned());
        }
        // `cd` may fail.
        let directory = |cwd: &AbsPath| git.directory.map_or_else(|| cwd.clone(), |it| cwd.join(it));
        let directories = AbsPath::new(cwd).into_iter().chain([root.clone()]).map(|it| directory(&it));
        if moves > 1 || !directories.into_iter().all(|it| is_in(&it, repository)) {
            return Err("it works in another repository".to_owned());
        }
        commands.push(git);
    }
    let set = REPOSITORY_VARIABLES.iter().find(|name| std::env::var_os(name).is_some());
    set.map_or(Ok(commands), |name| Err(format!("the variable {name} is set")))
}

/// Whether git finds exactly this repository from a directory.
fn is_in(directory: &AbsPath, repository: Option<&Repository>) -> bool {
    let directory = canonical(directory);
    for above in std::iter::successors(Some(directory), AbsPath::parent) {
        if repository.is_some_and(|it| it.top == above) {
            return true;
        }
        let has = |name: &str| above.join(name).as_path().symlink_metadata().is_ok();
        // A directory may be a bare repository.
        if has(".git") || has("HEAD") && has("objects") {
            return false;
        }
    }
    repository.is_none()
}

/// Checks that no hook or setting of the repository runs a program.
fn runs_no_program(commands: &[GitCommand<'_>], repository: Option<&Repository>) -> Result<(), String> {
    let is_quiet = |git: &GitCommand<'_>| matches!(git.subcommand, "branch" | "config" | "remote");
    let Some(repository) = repository else { return Ok(()) };
    for git in commands {
        if !(git.is_remote() || git.is_read() || git.configures() || git.checks_out()) {
            return Err(format!(
                "the line also has `git {}`; run the commands that need keys alone",
                git.subcommand
            ));
        }
    }
    if !commands.iter().all(|git| is_quiet(git) && !git.is_remote()) {
        let mut named = repository.settings.iter().flat_map(|path| shell::unsafe_settings(&read(path)));
        if let Some(setting) = named.next() {
            return Err(format!("the repository's settings may name a program ({setting})"));
        }
    }
    let names_hooks = || user_settings(&[]).is_ok_and(|it| it.iter().any(|(key, _)| names_hook(key)));
    let entries = std::fs::read_dir(repository.git.join("hooks").as_path()).into_iter().flatten().flatten();
    let hooks: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    for git in commands {
        let runs = |hook: &str| match git.subcommand {
            "push" => hook == "pre-push" || USUAL_HOOKS.contains(&hook),
            "config" => false,
            _ if git.is_read() || git.is_remote() && git.subcommand != "pull" || is_quiet(git) => {
                USUAL_HOOKS.contains(&hook)
            }
            _ => !hook.ends_with(".sample"),
        };
        if let Some(hook) = hooks.iter().find(|hook| runs(hook)) {
            return Err(format!("the repository has the hook {hook}"));
        }
        if (runs("pre-push") || runs("post-merge")) && names_hooks() {
            return Err("your git configuration names hooks".to_owned());
        }
    }
    Ok(())
}

fn names_hook(key: &str) -> bool {
    key == "core.hookspath" || key.starts_with("hook.")
}

/// Checks that commands only reach a repository by the network.
fn may_have_keys(commands: &[GitCommand<'_>], repository: Option<&Repository>) -> Result<(), String> {
    // Others run filters of submodules and nested repositories.
    if let Some(git) = commands.iter().find(|git| !git.is_remote()) {
        return Err(format!(
            "the line also has `git {}`; run the commands that need keys alone",
            git.subcommand
        ));
    }
    // Git would print what they lead to.
    let is_link = |name: &&&str| repository.is_some_and(|it| it.git.join(name).as_path().is_symlink());
    if let Some(link) = READ_BY_GIT.iter().find(is_link) {
        return Err(format!("{link} of the repository is a link"));
    }
    // Git prints lines of such a file, of a linked one, or of one beside other objects.
    let directories = ["objects/info", "objects/info/commit-graphs"];
    let doubtful = |git: &AbsPath| directories.iter().find_map(|name| doubtful_file(&git.join(name)));
    if let Some(file) = repository.and_then(|it| doubtful(&it.git)) {
        return Err(format!("{file} may lead git to other files"));
    }
    let settings = repository.iter().flat_map(|it| &it.settings);
    let settings = settings.flat_map(|path| shell::git_settings(&read(path)).unwrap_or_default());
    let remote = |(key, url): (String, String)| {
        let name = key.strip_prefix("remote.")?;
        let name = name.strip_suffix(".url").or_else(|| name.strip_suffix(".pushurl"))?;
        Some((name.to_owned(), url))
    };
    let remotes: Vec<(String, String)> = settings.filter_map(remote).collect();
    let args = || commands.iter().flat_map(|git| git.args);
    let is_named = |name: &String| args().any(|word| word == name);
    let any_named = remotes.iter().any(|(name, _)| is_named(name)) || args().any(|word| is_network(word));
    let mut used = remotes.iter().filter(|(name, _)| !any_named || is_named(name));
    if let Some((name, url)) = used.find(|(_, url)| !is_network(url)) {
        return Err(format!("the URL of remote {name} is not on a server ({url})"));
    }
    let is_local = |word: &&String| {
        matches!(word.as_str(), "." | "..")
            || ["/", "./", "../", "file:"].iter().any(|it| word.starts_with(it))
    };
    let address = |git: &GitCommand<'_>| match git.subcommand {
        // The second is the new directory.
        "clone" => git.args.iter().find(|word| !word.starts_with('-')).filter(is_local).cloned(),
        _ => git.args.iter().find(is_local).cloned(),
    };
    commands
        .iter()
        .filter(|git| git.is_remote())
        .find_map(address)
        .map_or(Ok(()), |word| Err(format!("{word} is not the URL of a server")))
}

/// A link or a list of other repositories in a directory of git.
///
/// The directory itself if it is a link or cannot be read.
fn doubtful_file(directory: &AbsPath) -> Option<AbsPath> {
    let entries = match std::fs::read_dir(directory.as_path()) {
        _ if directory.as_path().is_symlink() => return Some(directory.clone()),
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(_) => return Some(directory.clone()),
    };
    let is_doubtful = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        let is_link = entry.file_type().map_or(true, |it| it.is_symlink());
        let name = entry.file_name();
        Some(name.to_string_lossy().into_owned()).filter(|it| is_link || it.ends_with("alternates"))
    };
    entries.into_iter().find_map(is_doubtful).map(|name| directory.join(name))
}

/// Whether an address is `https://HOST/PATH`, `HOST:PATH` and the like.
fn is_network(url: &str) -> bool {
    match url.split_once("://") {
        Some((scheme, _)) => ["git", "git+ssh", "http", "https", "ssh", "ssh+git"].contains(&scheme),
        None => url.split_once(':').is_some_and(|(host, _)| !host.is_empty() && !host.contains('/')),
    }
}

fn read(path: &AbsPath) -> Vec<u8> {
    paths::read_file(path, paths::MAX_SETTINGS).unwrap_or_default()
}

/// Maximum number of files of the user's settings.
const MAX_FILES: usize = 20;

/// The user's own settings of git; an error if a command may write them.
pub(super) fn user_settings(writable: &[AbsPath]) -> Result<Vec<(String, String)>, String> {
    let home = std::env::home_dir().and_then(AbsPath::new);
    let variable = |name: &str| std::env::var_os(name).and_then(AbsPath::new);
    let in_home = |name: &str| home.as_ref().map(|home| home.join(name));
    let usual = || {
        let directory = variable("XDG_CONFIG_HOME").or_else(|| in_home(".config"));
        [directory.map(|it| it.join("git/config")), in_home(".gitconfig")]
    };
    let own = variable("GIT_CONFIG_GLOBAL").map_or_else(usual, |path| [Some(path), None]);
    let mut pending: VecDeque<AbsPath> =
        own.into_iter().flatten().chain(AbsPath::new("/etc/gitconfig")).collect();
    let (mut settings, mut count) = (Vec::new(), 0);
    while let Some(path) = pending.pop_front().filter(|_| count < MAX_FILES) {
        count += 1;
        let path = canonical(&path);
        if writable.iter().any(|it| path.starts_with(it)) && path.as_path() != "/dev/null" {
            return Err(format!("commands may write {path}"));
        }
        for (key, value) in shell::git_settings(&read(&path)).unwrap_or_default() {
            if key.starts_with("include") && key.ends_with(".path") {
                let below_home = value.strip_prefix("~/").and_then(in_home);
                pending.extend(below_home.or_else(|| Some(path.parent()?.join(&value))));
            }
            settings.push((key, value));
        }
    }
    Ok(settings)
}

/// Variables that add [`SETTINGS`] to the user's.
pub(super) fn settings() -> Vec<(String, String)> {
    let first = std::env::var("GIT_CONFIG_COUNT").ok().and_then(|it| it.parse::<usize>().ok()).unwrap_or(0);
    let pairs = SETTINGS.iter().enumerate().flat_map(|(at, (key, value))| {
        let number = first + at;
        [(format!("GIT_CONFIG_KEY_{number}"), *key), (format!("GIT_CONFIG_VALUE_{number}"), *value)]
    });
    let count = ("GIT_CONFIG_COUNT".to_owned(), (first + SETTINGS.len()).to_string());
    pairs.map(|(name, value)| (name, value.to_owned())).chain([count]).collect()
}

/// The lists of programs and libraries without places that commands may write.
pub(super) fn without_writable(writable: &[AbsPath]) -> Vec<(String, String)> {
    let is_kept = |entry: &std::path::PathBuf| {
        // A relative entry is inside the project.
        AbsPath::new(entry).is_some_and(|path| {
            let resolved = canonical(&path);
            !writable.iter().any(|it| path.starts_with(it) || resolved.starts_with(it))
        })
    };
    let lists = PROGRAM_LISTS.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
    let kept = lists.filter_map(|(name, list): (&str, OsString)| {
        let list = std::env::join_paths(std::env::split_paths(&list).filter(is_kept)).ok()?;
        let list = list.into_string().ok()?;
        // An empty list would mean the working directory.
        Some((
            name.to_owned(),
            if name == "PATH" && list.is_empty() { "/usr/bin:/bin".to_owned() } else { list },
        ))
    });
    let startup = std::env::var_os("BASH_ENV").map(|_| ("BASH_ENV".to_owned(), String::new()));
    kept.chain(startup).collect()
}
