//! Search for instruction and context files, in order and with size limits.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use paths::AbsPath;

use super::{ContextReader, FileText};

/// Names of context files; the first one found in a directory counts.
const NAMES: [&str; 5] = ["AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD"];
/// Maximum bytes of one context file, and of all together.
pub(super) const MOST: u64 = 32 << 10;
pub(super) const MOST_OF_ALL: u64 = 64 << 10;

/// A file that is sent to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextFile {
    pub path: AbsPath,
    /// The part that is sent: whole lines, or the beginning of the first line.
    pub text: String,
    /// Size of the whole file in bytes.
    pub size: u64,
    /// Whether the file is longer than `text`.
    pub cut: bool,
}

impl ContextReader<'_> {
    /// Finds the instructions file of this name.
    ///
    /// Takes the first that exists of the agent's, the project's and the user's.
    pub(super) fn instructions(&mut self, name: &str) -> Option<ContextFile> {
        let sources = self.sources;
        let project = sources.root.join(".pilcrow");
        let mut found = None;
        for directory in [sources.agent.as_ref(), Some(&project), sources.user.as_ref()].into_iter().flatten()
        {
            let path = directory.join(name);
            if *directory == project && !sources.trusted {
                self.left_out(&path);
                continue;
            }
            found = found.or_else(|| self.file(&path).filter(|file| !is_blank(file)));
        }
        found
    }

    /// The user's context file, then those from `/` down to the working directory.
    pub(super) fn context_files(&mut self) -> Vec<ContextFile> {
        let sources = self.sources;
        let mut directories: Vec<AbsPath> =
            sources.cwd.as_path().ancestors().filter_map(AbsPath::new).collect();
        directories.reverse();
        let shadowed = shadowed(&sources.cwd);
        directories.retain(|directory| shadowed.as_ref() != Some(directory));
        let owner = std::fs::metadata(&sources.root).map(|meta| meta.uid()).ok();
        let mut files: Vec<ContextFile> = Vec::new();
        for directory in sources.user.iter().chain(&directories) {
            let in_workspace = directory.starts_with(&sources.root);
            let is_users = sources.user.as_ref() == Some(directory);
            if files.iter().any(|file| file.path.parent().as_ref() == Some(directory)) {
                continue;
            }
            for name in NAMES {
                let path = directory.join(name);
                if !in_workspace && !is_users && !is_owned(path.as_path(), owner) {
                    self.stamps.add(&path);
                    continue;
                }
                if in_workspace && !sources.trusted {
                    if self.left_out(&path) {
                        break;
                    }
                    continue;
                }
                if let Some(file) = self.file(&path) {
                    // A blank file counts as well: it hides the later names.
                    if !is_blank(&file) {
                        files.push(file);
                    }
                    break;
                }
            }
        }
        self.fit(&mut files);
        files
    }

    /// Records that an existing project file is ignored; returns whether it exists.
    fn left_out(&mut self, path: &AbsPath) -> bool {
        self.stamps.add(path);
        let is_there = path.as_path().is_file();
        if is_there {
            self.note(format!("ignored {path}: the workspace is not trusted; run `pilcrow trust`"));
        }
        is_there
    }

    fn file(&mut self, path: &AbsPath) -> Option<ContextFile> {
        match self.text(path, MOST)? {
            Ok(FileText { text, size, cut }) => {
                if cut {
                    let sent = text.len();
                    self.note(format!("{path} is too large: only {sent} of {size} bytes are sent"));
                }
                Some(ContextFile { path: path.clone(), text, size, cut })
            }
            Err(why) => {
                let old = self.old.and_then(|old| {
                    let mut known = old.system.iter().chain(&old.append).chain(&old.files);
                    known.find(|file| file.path == *path).cloned()
                });
                let becomes = if old.is_some() { "its previous content is still used" } else { "ignored" };
                self.note(format!("{path} cannot be read: {why}; {becomes}"));
                old
            }
        }
    }

    /// Cuts files beyond the total limit, the most distant first.
    fn fit(&mut self, files: &mut Vec<ContextFile>) {
        let mut left = usize::try_from(MOST_OF_ALL).unwrap_or(usize::MAX);
        for file in files.iter_mut().rev() {
            if file.text.len() > left {
                let end = file.text.floor_char_boundary(left);
                let end = file.text[..end].rfind('\n').map_or(0, |end| end + 1);
                file.text.truncate(end);
                file.cut = true;
                let (path, size) = (&file.path, file.size);
                let note =
                    format!("{path} is too large with the other files: only {end} of {size} bytes are sent");
                self.notes.retain(|note| !note.starts_with(&format!("{path} is too large")));
                self.notes.push(note);
            }
            left -= file.text.len();
        }
        files.retain(|file| !file.text.is_empty());
    }
}

fn is_blank(file: &ContextFile) -> bool {
    file.text.trim().is_empty()
}

/// Whether a file above the workspace belongs to the user or the system.
///
/// Any user can create a file in a world-writable directory.
fn is_owned(path: &Path, owner: Option<u32>) -> bool {
    std::fs::symlink_metadata(path)
        .is_ok_and(|meta| meta.is_file() && (meta.uid() == 0 || Some(meta.uid()) == owner))
}

/// The main worktree that contains this linked one; its files are duplicates.
fn shadowed(cwd: &AbsPath) -> Option<AbsPath> {
    let linked = cwd.as_path().ancestors().find(|directory| directory.join(".git").exists())?;
    let text = paths::read_settings(linked.join(".git")).ok()?;
    let target = linked.join(text.strip_prefix("gitdir:")?.trim());
    let worktrees = target.parent()?;
    let main = worktrees.parent()?.parent()?;
    let is_around = worktrees.ends_with(".git/worktrees") && linked.starts_with(main);
    AbsPath::new(main).filter(|_| is_around)
}
