//! Git's command lines: what runs programs of a project.

use tree_sitter::{Node, Parser};

use super::options::has_letter;
use super::word::{UNKNOWN, Variables};
use super::{Surroundings, acting_option, script};

/// A command whose words are all known, without inner commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainCommand {
    pub words: Vec<String>,
    /// The directory in which it runs if each `cd` succeeds.
    pub cwd: String,
}

/// Nodes of a line that only runs programs with constant words.
const PLAIN: &[&str] = &[
    "program",
    "list",
    "command",
    "command_name",
    "word",
    "number",
    "string",
    "string_content",
    "raw_string",
    "concatenation",
    "comment",
    "redirected_statement",
    "file_redirect",
    "file_descriptor",
];

/// The commands of a line of simple commands with constant words.
///
/// `None` for a line with assignments, substitutions, patterns, pipes, functions or inner commands. Output
/// may go to `/dev/null` or another descriptor.
pub fn plain_commands(line: &str, surroundings: &Surroundings) -> Option<Vec<PlainCommand>> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    let tree = parser.parse(line, None).filter(|tree| !tree.root_node().has_error())?;
    let (mut count, mut pending) = (0, vec![tree.root_node()]);
    while let Some(node) = pending.pop() {
        if !is_plain(node, line) {
            return None;
        }
        count += usize::from(node.kind() == "command");
        let mut cursor = node.walk();
        pending.extend(node.named_children(&mut cursor));
    }
    let mut variables = Variables::default();
    variables.set("HOME", super::Word::known(surroundings.home.clone().unwrap_or(UNKNOWN.to_string())));
    let script = script::read(line, &surroundings.root, variables);
    let known = |command: &script::Command| {
        command.words.iter().all(super::Word::is_known)
            && !command.is_hidden
            && !command.cwd.contains(UNKNOWN)
    };
    let is_whole = script.commands.len() == count && script.doubts.is_empty();
    (is_whole && script.commands.iter().all(known)).then(|| {
        let commands = script.commands.into_iter();
        let words = |words: Vec<super::Word>| words.into_iter().map(|word| word.text).collect();
        commands.map(|it| PlainCommand { words: words(it.words), cwd: it.cwd }).collect()
    })
}

fn is_plain(node: Node<'_>, line: &str) -> bool {
    let text = line.get(node.byte_range()).unwrap_or_default();
    match node.kind() {
        // Patterns, braces and escapes.
        "word" => !text.contains(['*', '?', '[', ']', '{', '}', '\\', '$', '`']),
        "string" => !text.contains(['\\', '$', '`']),
        "file_redirect" => {
            let to = text.trim_start_matches(|c: char| c.is_ascii_digit() || "&<> ".contains(c));
            to == "/dev/null" || to.is_empty() && text.contains(">&")
        }
        kind => PLAIN.contains(&kind),
    }
}

/// A command of git, from its words.
#[derive(Debug, Clone, Copy)]
pub struct GitCommand<'a> {
    pub subcommand: &'a str,
    pub args: &'a [String],
    words: &'a [String],
    /// The value of `-C`.
    pub directory: Option<&'a str>,
    /// Whether all options before the subcommand are harmless.
    has_plain_options: bool,
}

/// Subcommands that reach a remote repository.
const REMOTE: &[&str] = &["clone", "fetch", "ls-remote", "pull", "push"];

/// Subcommands of `git remote` that do.
const REMOTE_UPDATES: &[&str] = &["prune", "show", "update"];

/// Subcommands that read, and run only programs of settings and hooks.
const READ: &[&str] = &["branch", "describe", "log", "rev-parse", "show", "status"];

/// Subcommands that write the settings of a repository.
const CONFIGURING: &[&str] = &[
    "branch",
    "checkout",
    "config",
    "fetch",
    "init",
    "pull",
    "push",
    "remote",
    "sparse-checkout",
    "submodule",
    "switch",
    "worktree",
];

/// Subcommands that change files of the work tree to what a commit or stash has.
const CHECKING_OUT: &[&str] = &[
    "am",
    "bisect",
    "checkout",
    "cherry-pick",
    "merge",
    "pull",
    "read-tree",
    "rebase",
    "reset",
    "restore",
    "revert",
    "sparse-checkout",
    "stash",
    "switch",
];

/// Subcommands of `git submodule` that run no command of the line.
const SUBMODULE: &[&str] = &[
    "absorbgitdirs",
    "add",
    "deinit",
    "init",
    "set-branch",
    "set-url",
    "status",
    "summary",
    "sync",
    "update",
];

/// Options that name a program, settings or a file.
const NAMING: &[(&str, &[&str])] = &[
    ("clone", &["-c", "-u", "--config", "--template", "--reference", "--separate-git-dir"]),
    ("init", &["--template", "--separate-git-dir"]),
    ("ls-remote", &["-u"]),
    ("pull", &["-i", "--rebase=interactive"]),
];

impl<'a> GitCommand<'a> {
    /// Reads `git …`; `None` for another program and without a subcommand.
    pub fn of(words: &'a [String]) -> Option<Self> {
        let (program, args) = words.split_first()?;
        let (mut at, mut directory, mut has_plain_options) = (0, None, program == "git");
        if program.rsplit('/').next() != Some("git") {
            return None;
        }
        loop {
            match args.get(at)?.as_str() {
                "-C" => {
                    has_plain_options &= directory.is_none();
                    (at, directory) = (at + 2, Some(args.get(at + 1)?.as_str()));
                }
                "--no-pager" | "-P" | "--no-optional-locks" => at += 1,
                "-c" | "--git-dir" | "--work-tree" | "--namespace" | "--exec-path" | "--config-env" => {
                    (at, has_plain_options) = (at + 2, false);
                }
                option if option.starts_with('-') => (at, has_plain_options) = (at + 1, false),
                subcommand => {
                    let args = args.get(at + 1..).unwrap_or_default();
                    return Some(Self { subcommand, args, words, directory, has_plain_options });
                }
            }
        }
    }

    /// Whether it reaches a remote repository.
    pub fn is_remote(&self) -> bool {
        let first = self.args.iter().map(String::as_str).find(|word| !word.starts_with('-'));
        REMOTE.contains(&self.subcommand)
            || self.subcommand == "remote" && first.is_some_and(|it| REMOTE_UPDATES.contains(&it))
    }

    /// Whether it only reads the repository.
    pub fn is_read(&self) -> bool {
        READ.contains(&self.subcommand)
            || self.subcommand == "remote" && self.args.iter().all(|it| it == "-v")
    }

    /// Whether it may write the settings of the repository.
    pub fn configures(&self) -> bool {
        CONFIGURING.contains(&self.subcommand)
    }

    /// Whether it changes files to what a commit or stash has.
    pub fn checks_out(&self) -> bool {
        CHECKING_OUT.contains(&self.subcommand)
    }

    /// Whether no option or argument names a program, settings or another repository.
    pub fn is_plain(&self) -> bool {
        let naming = NAMING.iter().find(|(name, _)| *name == self.subcommand).map_or(&[][..], |it| it.1);
        let begins = |word: &String, option: &&str| {
            let name = word.split('=').next().unwrap_or(word);
            word.starts_with(option) || name.len() > 3 && option.starts_with(name) || has_letter(word, option)
        };
        let submodule = self.args.iter().map(String::as_str).find(|word| !word.starts_with('-'));
        self.has_plain_options
            && acting_option(self.words).is_none()
            && !self.args.iter().any(|word| naming.iter().any(|option| begins(word, option)))
            && !self.args.iter().any(|word| word.contains("::") || word.starts_with("--recurse"))
            && (self.subcommand != "submodule" || submodule.is_some_and(|it| SUBMODULE.contains(&it)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(line: &str) -> Option<Vec<PlainCommand>> {
        let surroundings = Surroundings { root: "/p".into(), home: Some("/h".into()), own: Vec::new() };
        plain_commands(line, &surroundings)
    }

    #[test]
    fn a_plain_line_only_runs_programs_with_constant_words() {
        let commands = plain("cd sub && git push origin 'a b' 2>&1; echo \"done\" >/dev/null").unwrap();
        let shown: Vec<String> =
            commands.iter().map(|it| format!("{}: {}", it.cwd, it.words.join("|"))).collect();
        assert_eq!(shown, ["/p: cd|sub", "/p/sub: git|push|origin|a b", "/p/sub: echo|done"]);
        assert_eq!(plain("cd ~/x; git pull").unwrap()[1].cwd, "/h/x");
        for line in [
            "A=1 git push",
            "A=1; git push",
            "git push $A",
            "git push \"$A\"",
            "git push $(echo a)",
            "git push `a`",
            "git add *.rs",
            "git push --{a,b}",
            "git push | cat",
            "git push > a",
            "git fetch < a",
            "git fetch >& a",
            "git fetch > a/dev/null",
            "git() { ls; }; git push",
            "env git push",
            "sh -c 'git push'",
            "for a in b; do git push; done",
            "if true; then git push; fi",
            "(git push)",
            "! git push",
            "git push <<E\na\nE",
            "git pu\\sh",
            "ls\n\\git push",
            "git push $'a'",
            "git -c alias.x='!ls' x",
            "git push <(ls)",
            "eval git push",
            "[[ a ]] && git push",
        ] {
            assert_eq!(plain(line), None, "{line}");
        }
    }

    #[test]
    fn commands_of_git_that_name_no_program_are_plain() {
        let is_plain = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            GitCommand::of(&words).is_some_and(|git| git.is_plain())
        };
        for line in ["git push -u origin main", "git -C sub --no-pager log -3", "git submodule update --init"]
        {
            assert!(is_plain(line), "{line}");
        }
        for line in [
            "git -C a -C b fetch",
            "git -c a.b=c fetch",
            "git --git-dir x fetch",
            "git --exec-path=x fetch",
            "git -p log",
            "./git fetch",
            "git fetch --upload-pack=x",
            "git fetch --upl x",
            "git push --receive-pack x",
            "git push --exec x",
            "git clone -u x y",
            "git clone -cx.y=z y",
            "git clone -qc x.y=z y",
            "git clone -qux y",
            "git clone --conf x.y=z y",
            "git ls-remote ext::x",
            "git rebase --exec x",
            "git submodule foreach x",
            "git submodule --quiet foreach x",
            "git pull --recurse-submodules",
            "git",
        ] {
            assert!(!is_plain(line), "{line}");
        }
    }
}
