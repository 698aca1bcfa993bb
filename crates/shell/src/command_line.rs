//! A command as a value.

use std::borrow::Cow;
use std::path::PathBuf;

use paths::AbsPath;

/// A program with its arguments, variables and directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// Absolute path, or a name to be found on PATH.
    pub program: PathBuf,
    pub args: Vec<String>,
    /// Variables set in addition to the inherited ones.
    ///
    /// Variables that look like secrets are not inherited: a definition that needs one names it
    /// here with its value.
    pub env: Vec<(String, String)>,
    pub cwd: AbsPath,
}

impl std::fmt::Display for CommandLine {
    /// Writes the command as typed into a shell, without the environment.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let program = self.program.to_string_lossy();
        let words = std::iter::once(program.as_ref()).chain(self.args.iter().map(String::as_str));
        for (index, word) in words.enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{}", quote(word))?;
        }
        Ok(())
    }
}

/// Quotes a word where a POSIX shell requires it.
pub fn quote(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
    }
}
