//! The environment block of the instructions: where and under which rules the agent works.

use std::path::{Path, PathBuf};

use paths::AbsPath;
use policy::{Mode, SandboxMode};

use crate::config::Config;

/// Maximum length of the name of a branch.
const MAX_BRANCH: usize = 80;

/// The parts that stay the same during a session.
pub(super) struct Environment {
    root: AbsPath,
    date: String,
    git: String,
}

impl Environment {
    /// Reads the state of the project. Blocks.
    pub fn read(root: &AbsPath) -> Self {
        let date = jiff::Zoned::now().strftime("%Y-%m-%d").to_string();
        Self { root: root.clone(), date, git: git(root.as_path()) }
    }

    /// Renders the block for the settings in force.
    pub fn render(&self, config: &Config) -> String {
        let Self { root, date, git } = self;
        let approval = match config.values.policy.mode.0 {
            Mode::Permissive => "permissive (changes are allowed unless a rule says otherwise)",
            Mode::Prompt => "prompt (the user is asked unless a rule decides)",
            Mode::Strict => "strict (only what a rule allows)",
        };
        let sandbox = match config.values.exec.sandbox.0 {
            SandboxMode::Off => "off",
            SandboxMode::Auto => "auto (commands are confined if the system has a sandbox)",
            SandboxMode::Required => "required (commands run only confined)",
        };
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        format!(
            "<environment>\nWorking directory: {root}\nPlatform: {os} {arch}\nDate: {date}\nGit: {git}\n\
             Approval: {approval}\nSandbox: {sandbox}\n</environment>"
        )
    }
}

/// Describes the checkout around a directory: its branch or commit.
fn git(root: &Path) -> String {
    let Some(directory) = root.ancestors().find_map(git_directory) else {
        return "not a repository".to_owned();
    };
    let head = paths::read_settings(directory.join("HEAD")).unwrap_or_default();
    // The name of a branch is the project's text: one line, and short.
    let line = head.lines().next().unwrap_or_default().trim();
    let state = match line.strip_prefix("ref: refs/heads/") {
        Some(branch) => format!("branch {}", branch.chars().take(MAX_BRANCH).collect::<String>()),
        None => format!("detached HEAD at {}", line.chars().take(12).collect::<String>()),
    };
    let unfinished = [
        ("MERGE_HEAD", "merge"),
        ("rebase-merge", "rebase"),
        ("rebase-apply", "rebase"),
        ("CHERRY_PICK_HEAD", "cherry-pick"),
        ("REVERT_HEAD", "revert"),
    ];
    match unfinished.iter().find(|(file, _)| directory.join(file).exists()) {
        Some((_, what)) => format!("{state}, unfinished {what}"),
        None => state,
    }
}

/// The git directory of a checkout; a linked checkout names it in a file.
fn git_directory(root: &Path) -> Option<PathBuf> {
    let path = root.join(".git");
    if path.is_dir() {
        return Some(path);
    }
    let text = paths::read_settings(&path).ok()?;
    Some(root.join(text.strip_prefix("gitdir:")?.trim()))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test makes the files of a checkout")]
    fn the_checkout_is_described() {
        let temp = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = temp.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(git(&temp.path().join("none")), "not a repository");
        write("a/.git/HEAD", "ref: refs/heads/main\n");
        expect!["branch main"].assert_eq(&git(&temp.path().join("a/src")));
        write("a/.git/MERGE_HEAD", "");
        expect!["branch main, unfinished merge"].assert_eq(&git(&temp.path().join("a")));
        write("b/.git", "gitdir: ../git/b\n");
        write("git/b/HEAD", "0123456789abcdef0123\n");
        expect!["detached HEAD at 0123456789ab"].assert_eq(&git(&temp.path().join("b")));
    }
}
