//! The outcome of a [`WorkspaceEdit`](crate::WorkspaceEdit), file by file.
//!
//! Planning writes nothing. Users see `changes`, and editors receive them; `steps` is the same by path, as
//! the disk will be: a moved file is two steps.

pub(crate) mod edit;
pub(crate) mod simulate;

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use paths::AbsPath;
use policy::{Effects, ErrorCode, PlannedChange, Writes};
use text::TextEdit;

use crate::ReadError;
use crate::documents::content::Image;

/// A checked edit with its outcome, before its permit and commit.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) label: String,
    pub(crate) changes: Vec<FileChange>,
    pub(crate) steps: Vec<Step>,
    /// Directories to create; those of new files are created implicitly.
    pub(crate) made: Vec<Directory>,
    /// Directories to remove if they are empty.
    pub(crate) removed: Vec<AbsPath>,
    /// Lines that the user must confirm whatever the rules allow.
    pub(crate) confirm: Vec<String>,
}

/// The content of one path before and after.
///
/// Two links to one file are two paths.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub path: AbsPath,
    pub before: Option<Image>,
    pub after: Option<Image>,
    /// The earlier path of the file that moves here.
    pub moved_from: Option<AbsPath>,
    /// Whether the editor has the file open and makes the change itself.
    pub open: bool,
    /// Whether `before` was created for this plan.
    pub adopted: bool,
}

/// A directory that the plan creates.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    pub path: AbsPath,
    pub mode: Option<u32>,
}

/// The change of one file by a plan.
#[derive(Debug, Clone)]
pub struct FileChange {
    /// The path of the file after the change.
    pub path: AbsPath,
    pub kind: ChangeKind,
    /// Text before, without a byte order mark; of a moved file, at its old path.
    ///
    /// `None` if the file did not exist or is not text (a picture that moves with its directory).
    pub before: Option<Arc<str>>,
    /// Text after; `None` if the file is deleted or is not text.
    pub after: Option<Arc<str>>,
    /// The ordered edits from `before` to `after`; empty for created and deleted.
    pub edits: Vec<TextEdit>,
    /// The file at `path` that is replaced as a whole, by a new text or another file.
    pub overwritten: Option<Overwritten>,
}

/// A file whose whole content is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overwritten {
    /// Its text, without a byte order mark; `None` if it is not text.
    pub text: Option<Arc<str>>,
}

impl FileChange {
    /// Returns the file that this one replaces by moving to its path.
    ///
    /// A file that only gets another text is the change itself.
    pub fn destroys(&self) -> Option<&Overwritten> {
        self.overwritten.as_ref().filter(|_| matches!(self.kind, ChangeKind::Renamed { .. }))
    }
}

/// The kind of a file's change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    Modified,
    /// The file is new.
    Created,
    Deleted,
    /// The file moves, and its text may change too.
    Renamed {
        from: AbsPath,
    },
}

/// The reason why an edit cannot be planned; nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file is not the version that the edit was made for.
    #[error("{path} changed since it was read; read it again")]
    Stale { path: AbsPath },
    /// A path exists that should be new.
    #[error("{path} already exists; choose another path, or read it and edit it")]
    Exists { path: AbsPath },
    /// An edit does not fit its text.
    #[error("the edits do not fit {path} ({source}); read it again")]
    Invalid { path: AbsPath, source: text::ApplyError },
    /// A file is outside the workspace.
    #[error("{path} is outside the workspace; name a path inside it")]
    Outside { path: AbsPath },
    /// The editor or another program holds the file, so that it must not be written.
    #[error("{path} cannot be written: {reason}")]
    Held {
        path: AbsPath,
        /// The holder, the reason, and the remedy.
        reason: String,
    },
    /// The operation is impossible on this path.
    #[error("{path} cannot be changed like this: {reason}")]
    Impossible { path: AbsPath, reason: String },
    /// The new text would be too large to be read, and to be undone.
    #[error("{path} would have {bytes} bytes, more than the limit of {limit}; change it with a command")]
    TooLarge { path: AbsPath, bytes: u64, limit: u64 },
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl PlanError {
    /// Returns the code for surfaces and models.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Stale { .. } => ErrorCode::StaleText,
            Self::Exists { .. } | Self::Held { .. } => ErrorCode::Conflict,
            Self::Invalid { .. } | Self::Impossible { .. } => ErrorCode::InvalidArguments,
            Self::Outside { .. } => ErrorCode::Denied,
            Self::TooLarge { .. } => ErrorCode::TooLarge,
            Self::Read(error) => error.code(),
        }
    }
}

impl Plan {
    /// Returns one line for the user.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Lines that the user must confirm whatever the rules allow.
    pub fn confirm(&self) -> &[String] {
        &self.confirm
    }

    /// Adds a line for the user to confirm.
    #[must_use]
    pub fn confirming(mut self, line: String) -> Self {
        self.confirm.push(line);
        self
    }

    /// Merges both plans, to be committed all or nothing under this one's label.
    ///
    /// # Errors
    /// The path of the first file that both change, or whose change in `other` is not of its text only.
    pub fn and_edits(mut self, other: Self) -> Result<Self, AbsPath> {
        let own = |path: &AbsPath| self.steps.iter().any(|step| step.path == *path);
        let odd = other.changes.iter().find(|it| it.kind != ChangeKind::Modified || own(&it.path));
        if let Some(odd) = odd {
            return Err(odd.path.clone());
        }
        self.changes.extend(other.changes);
        self.changes.sort_by(|a, b| a.path.cmp(&b.path));
        self.steps.extend(other.steps);
        self.steps.sort_by(|a, b| a.path.cmp(&b.path));
        self.confirm.extend(other.confirm);
        Ok(self)
    }

    /// The changes ordered by path; a moved file is one change, at its new path.
    pub fn changes(&self) -> &[FileChange] {
        &self.changes
    }

    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.made.is_empty() && self.removed.is_empty()
    }

    /// Renders all changes as one unified diff, paths relative to `root`.
    ///
    /// A file that another replaces is deleted in it, right before the other moves.
    pub fn diff(&self, root: &AbsPath) -> String {
        let name = |path: &AbsPath| relative(root, path);
        let mut out = String::new();
        for change in &self.changes {
            let path = name(&change.path);
            let (before, after) = (change.before.as_deref(), change.after.as_deref());
            let patch = text::unified_diff(&path, before, after);
            match change.destroys().map(|it| it.text.as_deref()) {
                Some(Some(text)) => out.push_str(&text::unified_diff(&path, Some(text), None)),
                Some(None) => out.push_str(&format!("binary file {path} deleted\n")),
                None => {}
            }
            if let ChangeKind::Renamed { from } = &change.kind {
                let from = name(from);
                out.push_str(&format!("rename from {from}\nrename to {path}\n"));
                out.push_str(&patch.replacen(&format!("--- a/{path}\n"), &format!("--- a/{from}\n"), 1));
            } else if before.is_none() && after.is_none() {
                let verb = if change.kind == ChangeKind::Deleted { "deleted" } else { "made" };
                out.push_str(&format!("binary file {path} {verb}\n"));
            } else if patch.is_empty() {
                out.push_str(&format!("permissions of {path} changed\n"));
            } else {
                out.push_str(&patch);
            }
        }
        out
    }

    /// Counts files, lines added and lines removed; a replaced file counts too.
    pub fn counts(&self) -> (usize, usize, usize) {
        self.changes.iter().fold((0, 0, 0), |(files, added, removed), change| {
            let text = |side: &Option<Arc<str>>| side.clone().unwrap_or_default();
            let (more, less) = text::line_counts(&text(&change.before), &text(&change.after));
            let gone = change.destroys();
            let lost = gone.map_or(0, |gone| text::line_counts(&text(&gone.text), "").1);
            (files + 1 + usize::from(gone.is_some()), added + more, removed + less + lost)
        })
    }

    /// The paths written, as the policy judges them; a moved file has two.
    pub fn effects(&self) -> Effects {
        let mut paths: Vec<AbsPath> = self.steps.iter().map(|step| step.path.clone()).collect();
        paths.extend(self.made.iter().map(|directory| directory.path.clone()));
        paths.extend(self.removed.iter().cloned());
        paths.sort();
        paths.dedup();
        let writes = if paths.is_empty() { Writes::None } else { Writes::Paths(paths) };
        Effects { writes, ..Effects::default() }
    }

    /// Computes a hash of the plan's outcome: paths and contents before and after.
    ///
    /// A permit is valid for one digest.
    pub fn digest(&self) -> u128 {
        let mut out = Vec::new();
        let image = |out: &mut Vec<u8>, image: &Option<Image>| match image {
            None => out.push(0),
            Some(image) => {
                out.push(if image.content.is_link() { 2 } else { 1 });
                out.extend(image.hash.to_string().bytes());
                out.extend(image.mode.map_or([0xff; 4], u32::to_le_bytes));
            }
        };
        let path = |out: &mut Vec<u8>, path: &AbsPath| {
            let bytes = path.as_path().as_os_str().as_bytes();
            out.extend((bytes.len() as u64).to_le_bytes());
            out.extend(bytes);
        };
        for step in &self.steps {
            path(&mut out, &step.path);
            image(&mut out, &step.before);
            image(&mut out, &step.after);
            out.push(u8::from(step.open));
        }
        out.push(b'+');
        for directory in &self.made {
            path(&mut out, &directory.path);
        }
        out.push(b'-');
        for directory in &self.removed {
            path(&mut out, directory);
        }
        out.push(b'?');
        out.extend(self.confirm.join("\n").bytes());
        xxhash_rust::xxh3::xxh3_128(&out)
    }
}

impl PlannedChange for Plan {
    fn label(&self) -> &str {
        &self.label
    }

    fn paths(&self) -> Vec<AbsPath> {
        let mut paths = BTreeSet::new();
        for change in &self.changes {
            if let ChangeKind::Renamed { from } = &change.kind {
                paths.insert(from.clone());
            }
            paths.insert(change.path.clone());
        }
        if let Writes::Paths(more) = self.effects().writes {
            paths.extend(more);
        }
        paths.into_iter().collect()
    }

    fn counts(&self) -> (usize, usize, usize) {
        Self::counts(self)
    }

    fn diff(&self, root: &AbsPath) -> String {
        Self::diff(self, root)
    }

    fn confirm(&self) -> &[String] {
        &self.confirm
    }

    fn digest(&self) -> u128 {
        Self::digest(self)
    }
}

/// Renders `path` relative to `root`, with `/`; absolute if it is elsewhere.
pub(crate) fn relative(root: &AbsPath, path: &AbsPath) -> String {
    match path.strip_prefix(root) {
        Some(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
        Some(rest) => rest.to_string_lossy().replace(std::path::MAIN_SEPARATOR, "/"),
        None => path.to_string(),
    }
}
