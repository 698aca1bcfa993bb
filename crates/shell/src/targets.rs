//! The files that commands like `cp`, `mv` and `tee` write by their arguments.

use super::inner;
use super::places::Places;
use super::script::Command;
use super::word::{UNKNOWN, Word};

/// A file or directory in the arguments of a command that writes it.
pub(super) struct Target {
    pub to: Word,
    /// Names of the files put into `to`, if it is a directory.
    pub names: Vec<String>,
    /// Whether it is certainly a directory.
    pub is_directory: bool,
}

impl Target {
    fn file(to: &Word) -> Self {
        Self { to: to.clone(), names: Vec::new(), is_directory: false }
    }
}

/// Whether the policy checks the targets of a program as paths, like redirections.
pub(super) fn is_checked(name: &str) -> bool {
    matches!(name, "cp" | "dd" | "install" | "ln" | "mv" | "sed" | "tee")
}

/// The files that `command` writes according to its arguments.
pub(super) fn of(command: &Command) -> Vec<Target> {
    let files = |skip: usize| operands(command).into_iter().skip(skip).map(Target::file).collect();
    match command.name() {
        "tee" | "touch" | "truncate" | "rm" | "unlink" | "shred" | "mkdir" | "rmdir" => files(0),
        "chmod" | "chown" | "chgrp" => files(1),
        "cp" | "mv" | "ln" | "install" => placed(command),
        "sed" if command.has('i', "in-place") => {
            // Without `-e` and `-f` the first operand is the script.
            let is_named =
                command.args().iter().any(|word| is_valued(&word.text, "ef", &["--expression", "--file"]));
            files(usize::from(!is_named))
        }
        "perl" | "ruby" if command.has('i', "") => {
            let code = inner::code(command).map(|word| word.text.clone());
            let files = operands(command).into_iter().filter(|word| Some(&word.text) != code.as_ref());
            files.map(Target::file).collect()
        }
        "dd" => {
            let outputs = command.args().iter().filter_map(|word| word.text.strip_prefix("of="));
            outputs.map(|path| Target::file(&Word::known(path))).collect()
        }
        _ => Vec::new(),
    }
}

/// Targets of a command that copies or moves; `mv` also affects its operands.
fn placed(command: &Command) -> Vec<Target> {
    let name = command.name();
    let mut operands = operands(command);
    if name == "install" && command.has('d', "directory") {
        return operands.into_iter().map(Target::file).collect();
    }
    let args = command.args();
    let named = args.iter().enumerate().find_map(|(at, word)| match word.text.as_str() {
        "-t" | "--target-directory" => args.get(at + 1).cloned(),
        text => text.strip_prefix("--target-directory=").map(Word::known),
    });
    let is_named = named.is_some();
    let Some(to) = named.or_else(|| operands.pop().cloned().filter(|_| !operands.is_empty())) else {
        return Vec::new();
    };
    let base = |word: &&Word| {
        let name = word.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        (!name.is_empty() && !matches!(name, "." | "..")).then(|| name.to_owned())
    };
    let names: Vec<String> = operands.iter().filter_map(base).collect();
    let is_directory = is_named || operands.len() > 1 || to.text.ends_with(['/', '.']) && is_dots(&to.text);
    let gone = operands.into_iter().filter(|_| name == "mv").map(Target::file);
    gone.chain([Target { to, names, is_directory }]).collect()
}

/// The links that `command` creates, each with the path to which it leads.
pub(super) fn links(command: &Command, places: &Places) -> Vec<(String, String)> {
    let is_symbolic = command.has('s', "symbolic");
    let creates =
        command.name() == "ln" || command.name() == "cp" && (is_symbolic || command.has('l', "link"));
    let placed = if creates { placed(command) } else { Vec::new() };
    let Some(target) = placed.last() else { return Vec::new() };
    let mut links = Vec::new();
    for word in operands(command).into_iter().filter(|word| word.text != target.to.text) {
        let base = word.text.rsplit('/').next().unwrap_or_default();
        for link in [target.to.text.clone(), format!("{}/{base}", target.to.text)] {
            let link = places.absolute(&link, &command.cwd);
            // The target of a symbolic link is relative to the link.
            let directory = link.rsplit_once('/').map_or("", |(directory, _)| directory);
            let from = if is_symbolic { directory } else { &command.cwd };
            let to = places.absolute(&word.text, from);
            links.push((link, to));
        }
    }
    links
}

/// Whether the last component of a path is `.` or `..`.
fn is_dots(path: &str) -> bool {
    matches!(path.rsplit('/').next(), Some("" | "." | ".."))
}

/// The words that are neither options nor their values.
fn operands(command: &Command) -> Vec<&Word> {
    let (letters, names): (&str, &[&str]) = match command.name() {
        "cp" | "mv" | "ln" => ("tS", &["--target-directory", "--suffix"]),
        "install" => ("tSmog", &["--target-directory", "--suffix", "--mode", "--owner", "--group"]),
        "touch" => ("dtr", &["--date", "--reference", "--time"]),
        "truncate" => ("sr", &["--size", "--reference"]),
        "mkdir" => ("m", &["--mode"]),
        "shred" => ("ns", &["--iterations", "--size"]),
        "sed" => ("ef", &["--expression", "--file"]),
        _ => ("", &[]),
    };
    let (mut found, mut only, mut is_value) = (Vec::new(), false, false);
    for word in command.args() {
        let text = word.text.as_str();
        if std::mem::take(&mut is_value) {
            continue;
        }
        if only || !text.starts_with('-') || text == "-" {
            found.push(word);
        } else if text == "--" {
            only = true;
        } else {
            // A value in the same word is not the next word.
            is_value = is_valued(text, letters, names);
        }
    }
    found
}

/// Whether the option takes the next word as value.
///
/// It does if it is one of `names`, or if its last letter is one of `letters`.
fn is_valued(text: &str, letters: &str, names: &[&str]) -> bool {
    if text.starts_with("--") {
        return names.contains(&text);
    }
    let first = text.char_indices().skip(1).find(|(_, letter)| letters.contains(*letter));
    // The rest of the word after the letter is its value.
    first.is_some_and(|(at, letter)| text.starts_with('-') && at + letter.len_utf8() == text.len())
}

/// Part of a path before its first wildcard, up to a directory.
///
/// Returns the whole path if it has no wildcard.
pub(super) fn before_wildcards(path: &str) -> &str {
    match path.find(['*', '?', '[']) {
        Some(at) if !path[..at].contains(UNKNOWN) => {
            let directory = path[..at].rfind('/').map_or(0, |slash| slash + 1);
            if directory == 0 { "." } else { &path[..directory] }
        }
        _ => path,
    }
}
