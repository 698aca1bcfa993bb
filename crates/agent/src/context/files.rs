//! Instructions and context files: which there are, in which order, and how much of each is sent.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use workspace::AbsPath;

use super::{Look, Text};

/// The names of context files; of those in one folder the first counts.
const NAMES: [&str; 5] = ["AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD"];
/// Bytes of one file, and of all context files together.
pub(super) const MOST: u64 = 32 << 10;
pub(super) const MOST_OF_ALL: u64 = 64 << 10;

/// A file that a model is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextFile {
    /// Where it is.
    pub path: AbsPath,
    /// As much of it as is sent: whole lines, or the beginning of the first.
    pub text: String,
    /// Bytes of the whole file.
    pub size: u64,
    /// Whether more stands in it.
    pub cut: bool,
}

impl Look<'_> {
    /// The instructions of this name: the agent's, else the project's, else the person's.
    pub(super) fn instructions(&mut self, name: &str) -> Option<ContextFile> {
        let sources = self.sources;
        let project = sources.root.join(".pilcrow");
        let mut found = None;
        for folder in [sources.agent.as_ref(), Some(&project), sources.person.as_ref()].into_iter().flatten()
        {
            let path = folder.join(name);
            if *folder == project && !sources.trusted {
                self.left_out(&path);
                continue;
            }
            found = found.or_else(|| self.file(&path).filter(|file| !is_blank(file)));
        }
        found
    }

    /// The person's context file, then those from the root of the file system down to the working directory.
    pub(super) fn context_files(&mut self) -> Vec<ContextFile> {
        let sources = self.sources;
        let mut folders: Vec<AbsPath> = sources.cwd.as_path().ancestors().filter_map(AbsPath::new).collect();
        folders.reverse();
        let shadowed = shadowed(&sources.cwd);
        folders.retain(|folder| shadowed.as_ref() != Some(folder));
        let owner = std::fs::metadata(&sources.root).map(|meta| meta.uid()).ok();
        let mut files: Vec<ContextFile> = Vec::new();
        for folder in sources.person.iter().chain(&folders) {
            let in_workspace = folder.starts_with(&sources.root);
            let is_persons = sources.person.as_ref() == Some(folder);
            if files.iter().any(|file| file.path.parent().as_ref() == Some(folder)) {
                continue;
            }
            for name in NAMES {
                let path = folder.join(name);
                if !in_workspace && !is_persons && !is_owned(path.as_path(), owner) {
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
                    // One without words counts as well: it silences what comes after it.
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

    /// Says of a file of the project that is there that nobody follows it; whether it is there.
    fn left_out(&mut self, path: &AbsPath) -> bool {
        self.stamps.add(path);
        let is_there = path.as_path().is_file();
        if is_there {
            self.note(format!("{path} is not followed: the workspace is not trusted (`pilcrow trust`)"));
        }
        is_there
    }

    fn file(&mut self, path: &AbsPath) -> Option<ContextFile> {
        match self.text(path, MOST)? {
            Ok(Text { text, size, cut }) => {
                if cut {
                    let sent = text.len();
                    self.note(format!("{path} is cut: {sent} of its {size} bytes are sent"));
                }
                Some(ContextFile { path: path.clone(), text, size, cut })
            }
            Err(why) => {
                let old = self.old.and_then(|old| {
                    let mut known = old.system.iter().chain(&old.append).chain(&old.files);
                    known.find(|file| file.path == *path).cloned()
                });
                let becomes =
                    if old.is_some() { "what it said before still counts" } else { "it is left out" };
                self.note(format!("{path} cannot be read: {why}; {becomes}"));
                old
            }
        }
    }

    /// Cuts what is too much in all: the nearest files keep theirs.
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
                    format!("{path} is cut: {end} of its {size} bytes are sent, since there are others");
                self.notes.retain(|note| !note.starts_with(&format!("{path} is cut")));
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

/// Whether a file above the workspace is the person's own, or the system's: anybody may put one where all may write.
fn is_owned(path: &Path, owner: Option<u32>) -> bool {
    std::fs::symlink_metadata(path)
        .is_ok_and(|meta| meta.is_file() && (meta.uid() == 0 || Some(meta.uid()) == owner))
}

/// The main worktree around a linked one: what stands there is said by the linked one's own checkout.
fn shadowed(cwd: &AbsPath) -> Option<AbsPath> {
    let linked = cwd.as_path().ancestors().find(|folder| folder.join(".git").exists())?;
    let text = std::fs::read_to_string(linked.join(".git")).ok()?;
    let target = linked.join(text.strip_prefix("gitdir:")?.trim());
    let worktrees = target.parent()?;
    let main = worktrees.parent()?.parent()?;
    let is_around = worktrees.ends_with(".git/worktrees") && linked.starts_with(main);
    AbsPath::new(main).filter(|_| is_around)
}
