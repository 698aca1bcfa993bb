//! Static analysis of the effects of a command line, from its syntax tree.
//!
//! Pure: it reads only the text. A finding is sure if the text determines it; otherwise it is a
//! doubt, reported with its worst case. The analysis protects against mistakes, not malice: a
//! program can have any effect.

mod command_line;
mod dangers;
mod destruction;
mod git;
mod git_config;
mod influence;
mod inner;
mod intrusion;
mod options;
mod places;
mod publication;
mod script;
mod targets;
mod word;

#[cfg(test)]
mod tests;

pub use command_line::{CommandLine, quote};
pub use git::{GitCommand, PlainCommand, plain_commands};
pub use git_config::{git_settings, harmless_part, is_harmless_change, unsafe_settings};
pub use options::acting_option;

use dangers::Danger;
use places::Places;
use script::{Command, Script};
use word::{UNKNOWN, Variables, Word};

/// Severity of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// The command has no known danger.
    Low,
    /// The effect is visible to others, or not reversible by itself.
    Medium,
    /// The effect reaches beyond the project.
    High,
    /// The effect destroys the machine or gives others control of it.
    Critical,
}

impl Tier {
    /// The tier's name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

/// A match of a check.
struct Hit {
    why: String,
    sure: bool,
    words: Option<Vec<String>>,
    /// Tier that replaces the tier of the class.
    tier: Option<Tier>,
}

impl Hit {
    /// Creates a hit of `command`; `about` describes the effect.
    fn of(command: &Command, about: impl std::fmt::Display) -> Self {
        let words = command.words.iter().all(Word::is_known);
        let words = words.then(|| command.words.iter().map(|word| word.text.clone()).collect());
        Self {
            why: format!("`{}`: {about}", short(&command.shown())),
            sure: !command.is_guess,
            words,
            tier: None,
        }
    }

    fn sure(self, sure: bool) -> Self {
        Self { sure: sure && self.sure, ..self }
    }

    fn tier(self, tier: Tier) -> Self {
        Self { tier: Some(tier), ..self }
    }
}

/// Programs whose arguments are never commands.
///
/// Programs that only read or affect the shell are others.
const RUN_NOTHING: &[&str] = &[
    "apropos",
    "apt",
    "apt-cache",
    "apt-get",
    "brew",
    "cargo",
    "chgrp",
    "chmod",
    "chown",
    "code",
    "column",
    "cp",
    "dd",
    "dnf",
    "fd",
    "find",
    "fmt",
    "gh",
    "go",
    "gofmt",
    "gzip",
    "info",
    "install",
    "kill",
    "killall",
    "less",
    "ln",
    "man",
    "mkdir",
    "more",
    "mv",
    "npm",
    "open",
    "paste",
    "pgrep",
    "pip",
    "pip3",
    "pkill",
    "pnpm",
    "pytest",
    "rg",
    "rm",
    "rmdir",
    "rustc",
    "rustup",
    "shred",
    "sort",
    "systemctl",
    "tee",
    "tldr",
    "touch",
    "tree",
    "truncate",
    "uniq",
    "unzip",
    "whatis",
    "whereis",
    "yarn",
    "zip",
];

/// Whether a program runs no command in its arguments.
fn runs_nothing(name: &str) -> bool {
    RUN_NOTHING.contains(&name) || READ_ONLY_PROGRAMS.contains(&name) || NEUTRAL.contains(&name)
}

fn short(text: &str) -> String {
    const MAX: usize = 120;
    let line = text.replace('\n', " ");
    if line.chars().count() > MAX { line.chars().take(MAX).chain(['…']).collect() } else { line }
}

/// A dangerous effect of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The class, for messages and the audit log, such as `recursive delete`.
    pub class: &'static str,
    pub tier: Tier,
    /// The reason, for messages: the command and its subject.
    pub why: String,
    /// Whether the text determines it; otherwise it is the worst case.
    pub sure: bool,
    /// The command's words if all are known; rules match against them.
    pub words: Option<Vec<String>>,
}

/// The result of analysing a command line.
#[derive(Debug, Clone, Default)]
pub struct Judged {
    /// Its dangerous effects, worst first.
    pub findings: Vec<Finding>,
    /// Undetermined effects, each with its worst case.
    pub doubts: Vec<String>,
    /// All commands, including those that commands run.
    pub commands: Vec<Named>,
    /// Files that redirections open, or that commands like `cp` and `tee` write.
    ///
    /// The command names each file in a word.
    pub files: Vec<Opened>,
    /// Whether it sets a variable that programs may read.
    pub sets_variables: bool,
}

/// A file that a redirection opens, or that a command writes by its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Absolute path; `None` if unknown.
    pub path: Option<String>,
    /// Whether the file is written; else it is read.
    pub writes: bool,
    /// Whether the path is an argument.
    ///
    /// A rule that allows the command allows unprotected paths of the workspace.
    pub by_words: bool,
    /// The words of that command, where they are known.
    pub words: Option<Vec<String>>,
}

/// A command in a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Its words up to the first unknown one.
    pub words: Vec<String>,
    pub whole: bool,
    /// Whether it only runs another command or changes shell state.
    ///
    /// Such a command needs no permission of its own.
    pub neutral: bool,
}

/// The surroundings in which a command line would run.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The workspace's root, in which it starts.
    pub root: String,
    pub home: Option<String>,
    /// Processes that must not be ended: this one, and the editor that it serves.
    pub own: Vec<u32>,
}

/// Maximum number of combinations of values that are analyzed.
///
/// If there are more, another analysis treats variables with several values as unknown.
const MAX_READINGS: usize = 32;

/// Programs that are read-only with any arguments.
const READ_ONLY_PROGRAMS: &[&str] = &[
    "basename",
    "cat",
    "cmp",
    "cut",
    "date",
    "df",
    "diff",
    "dirname",
    "du",
    "egrep",
    "fgrep",
    "file",
    "grep",
    "head",
    "hostname",
    "id",
    "jq",
    "ls",
    "md5sum",
    "nl",
    "od",
    "pgrep",
    "ps",
    "readlink",
    "realpath",
    "seq",
    "sha1sum",
    "sha256sum",
    "sleep",
    "stat",
    "strings",
    "tac",
    "tail",
    "tr",
    "type",
    "uname",
    "wc",
    "which",
    "whoami",
];

/// Read-only subcommands of git.
const READ_ONLY_GIT: &[&str] =
    &["blame", "describe", "diff", "grep", "log", "ls-files", "rev-parse", "shortlog", "show", "status"];

/// Whether a command line may change files; `false` only if it certainly does not.
pub fn may_write(line: &str) -> bool {
    let script = script::read(line, "/", Variables::default());
    let is_read_only = |command: &script::Command| {
        let first = command.args().first().map(|word| word.text.as_str());
        let by_name = READ_ONLY_PROGRAMS.contains(&command.name())
            || (NEUTRAL.contains(&command.name()) && !matches!(command.name(), "eval"))
            || (command.name() == "git" && first.is_some_and(|name| READ_ONLY_GIT.contains(&name)));
        let harmless = |redirect: &script::Redirect| !redirect.writes || redirect.to.text == "/dev/null";
        let writes = command.args().iter().any(|word| word.text.starts_with("--output"));
        by_name && !writes && command.redirects.iter().all(harmless)
    };
    !script.doubts.is_empty() || !script.commands.iter().all(is_read_only)
}

/// Analyses a command line of bash.
pub fn judge(line: &str, surroundings: &Surroundings) -> Judged {
    let places = Places { root: surroundings.root.clone(), home: surroundings.home.clone() };
    let mut variables = Variables::default();
    variables.set("HOME", Word::known(surroundings.home.clone().unwrap_or_else(|| UNKNOWN.to_string())));
    variables.set("PWD", Word::known(surroundings.root.clone()));
    variables.set("IFS", Word::known(" \t\n"));
    variables.set("TMPDIR", Word::known("/tmp"));
    if let Some(own) = surroundings.own.first() {
        variables.set("PPID", Word::known(own.to_string()));
    }
    let mut judged = Judged::default();
    let mut reading = 0;
    loop {
        variables.reading = reading;
        let script = script::read(line, &surroundings.root, variables.clone());
        let cx = CheckContext { script: &script, places: &places, own: &surroundings.own };
        for danger in dangers::ALL {
            (danger.check)(&cx, &mut |hit: Hit| judged.add(danger, hit));
        }
        for doubt in &script.doubts {
            judged.doubt(format!("{}; in the worst case, {}", doubt.what, doubt.worst));
        }
        judged.sets_variables |= script.sets_variables || script.commands.iter().any(sets_variables);
        let mut links = Vec::new();
        for command in &script.commands {
            if command.is_hidden {
                continue;
            }
            let named = named(command);
            if reading == 0 || !judged.commands.contains(&named) {
                judged.commands.push(named);
            }
            let files = opened(command, &places);
            let linked: Vec<Opened> = files.iter().filter_map(|file| behind(file, &links)).collect();
            for file in files.into_iter().chain(linked) {
                if !judged.files.contains(&file) {
                    judged.files.push(file);
                }
            }
            links.extend(targets::links(command, &places));
        }
        reading += 1;
        let readings = script.variables.readings();
        if variables.hides_several || reading >= readings && readings <= MAX_READINGS {
            break;
        }
        variables.hides_several = reading >= MAX_READINGS;
    }
    judged.findings.sort_by_key(|finding| (std::cmp::Reverse(finding.tier), !finding.sure));
    judged
}

/// Builtins that affect only the shell, and programs that only run another.
const NEUTRAL: &[&str] = &[
    ":", "[", "cd", "command", "builtin", "declare", "echo", "env", "eval", "exit", "export", "false",
    "local", "nice", "nohup", "popd", "printf", "pushd", "pwd", "read", "readonly", "return", "set",
    "setsid", "shift", "stdbuf", "test", "time", "timeout", "true", "typeset", "unset", "wait",
];

/// Whether a command that is not an assignment sets variables.
fn sets_variables(command: &script::Command) -> bool {
    let has = |text: &str| command.args().iter().any(|word| word.text.contains(text));
    match command.name() {
        "read" | "mapfile" | "readarray" | "getopts" => true,
        "env" => has("="),
        "printf" => has("-v"),
        _ => false,
    }
}

fn named(command: &script::Command) -> Named {
    let known = command.words.iter().take_while(|word| word.is_known());
    let words: Vec<String> = known.map(|word| word.text.clone()).collect();
    let whole = words.len() == command.words.len();
    let runs_script =
        inner::is_shell(command.name()) && matches!(inner::of(command), inner::Inner::Script(_));
    let writes = command.redirects.iter().any(|it| it.writes && it.to.text != "/dev/null");
    let acts = acting_option(&words).is_some();
    let neutral = !writes && !acts && (runs_script || NEUTRAL.contains(&command.words[0].text.as_str()));
    Named { words, whole, neutral }
}

/// Files that the redirections of `command` open, except `/dev/null`.
fn opened(command: &script::Command, places: &Places) -> Vec<Opened> {
    let mut files = Vec::new();
    for redirect in &command.redirects {
        let (to, writes) = (redirect.to.text.as_str(), redirect.writes);
        let (by_words, words) = (false, None);
        if to.contains(['*', '?', '[']) {
            files.push(Opened { path: None, writes, by_words, words });
            continue;
        }
        // `cd` to a missing directory fails, so the command may also run in the root.
        for cwd in [command.cwd.as_str(), places.root.as_str()] {
            let path = places.absolute(to, cwd);
            if !holds_nothing(&path) {
                let (path, words) = ((!path.contains(UNKNOWN)).then_some(path), words.clone());
                files.push(Opened { path, writes, by_words, words });
            }
        }
    }
    let whole = command.words.iter().all(Word::is_known);
    let words = whole.then(|| command.words.iter().map(|word| word.text.clone()).collect::<Vec<_>>());
    let checked = targets::of(command).into_iter().filter(|_| targets::is_checked(command.name()));
    for target in checked {
        for cwd in [command.cwd.as_str(), places.root.as_str()] {
            for path in target_paths(&target, target.is_directory, cwd, places) {
                let path = (!path.contains(UNKNOWN)).then_some(path);
                files.push(Opened { path, writes: true, by_words: true, words: words.clone() });
            }
        }
    }
    files
}

/// The file behind `file`, through links that the line created before.
fn behind(file: &Opened, links: &[(String, String)]) -> Option<Opened> {
    let first = file.path.as_deref()?;
    let mut path = first.to_owned();
    // The newest first: an earlier link may be the target of a later one.
    for (link, to) in links.iter().rev() {
        if let Some(rest) = path.strip_prefix(link).filter(|rest| rest.is_empty() || rest.starts_with('/')) {
            path = format!("{to}{rest}");
        }
    }
    let path_is_known = !path.contains(UNKNOWN);
    (path != first).then(|| Opened { path: path_is_known.then_some(path), ..file.clone() })
}

/// Possible paths of a target.
///
/// These are the target itself, the names put into it, and the directory before wildcards.
fn target_paths(target: &targets::Target, is_directory: bool, cwd: &str, places: &Places) -> Vec<String> {
    let to = places.absolute(&target.to.text, cwd);
    let inside = target.names.iter().filter(|_| is_directory).map(|name| format!("{to}/{name}"));
    let directory = places.absolute(targets::before_wildcards(&target.to.text), cwd);
    let directory = (directory != to).then_some(directory);
    let all = inside.chain([to.clone()]).chain(directory);
    all.filter(|path| !holds_nothing(path)).collect()
}

fn holds_nothing(path: &str) -> bool {
    HOLD_NOTHING.iter().any(|known| path == *known || path.starts_with(&format!("{known}/")))
}

/// Known paths that a command line writes.
///
/// Redirections and `cp`, `rm`, `tee` write them.
///
/// Absolute paths as spelled, with the names that would be put into a directory.
pub fn written(line: &str, root: &str, home: Option<&str>) -> Vec<Written> {
    let places = Places { root: root.to_owned(), home: home.map(str::to_owned) };
    let mut variables = Variables::default();
    variables.set("HOME", Word::known(home.map_or_else(|| UNKNOWN.to_string(), str::to_owned)));
    variables.set("PWD", Word::known(root));
    variables.set("TMPDIR", Word::known("/tmp"));
    let mut all: Vec<Written> = Vec::new();
    for command in &script::read(line, root, variables).commands {
        let redirects =
            command.redirects.iter().filter(|it| it.writes && !it.to.text.contains(['*', '?', '[']));
        let redirects = redirects.map(|it| (it.to.text.as_str().to_owned(), Vec::new()));
        let targets = targets::of(command)
            .into_iter()
            .map(|target| (targets::before_wildcards(&target.to.text).to_owned(), target.names));
        for (to, names) in redirects.chain(targets) {
            let path = places.absolute(&to, &command.cwd);
            let written = Written { path, names };
            if !written.path.contains(UNKNOWN) && !holds_nothing(&written.path) && !all.contains(&written) {
                all.push(written);
            }
        }
    }
    all
}

/// A path that a command line writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub path: String,
    /// Names put into it, if it is a directory.
    pub names: Vec<String>,
}

/// Targets of redirections that are not files. Connections have their own class.
const HOLD_NOTHING: &[&str] = &[
    "/dev/fd",
    "/dev/full",
    "/dev/null",
    "/dev/random",
    "/dev/stderr",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/tcp",
    "/dev/tty",
    "/dev/udp",
    "/dev/urandom",
    "/dev/zero",
];

impl Judged {
    fn add(&mut self, danger: &Danger, hit: Hit) {
        let Hit { why, sure, words, tier } = hit;
        let finding = Finding { class: danger.class, tier: tier.unwrap_or(danger.tier), why, sure, words };
        if !sure {
            self.doubt(format!(
                "{}; in the worst case, {}: {}",
                finding.why,
                finding.tier.name(),
                finding.class
            ));
        }
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    fn doubt(&mut self, doubt: String) {
        if !self.doubts.contains(&doubt) {
            self.doubts.push(doubt);
        }
    }

    /// The highest tier of the sure findings.
    #[cfg(test)]
    pub fn tier(&self) -> Tier {
        self.findings.iter().filter(|it| it.sure).map(|it| it.tier).max().unwrap_or(Tier::Low)
    }
}

/// The input of a check.
struct CheckContext<'a> {
    script: &'a Script,
    places: &'a Places,
    own: &'a [u32],
}
