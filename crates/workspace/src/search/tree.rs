//! Listing of a directory some levels deep.
//!
//! The listing includes every entry, but marks ignored ones and does not enter them.

use std::collections::VecDeque;
use std::ffi::OsString;

use paths::AbsPath;
use policy::Policy;

use super::ignored::Ignored;
use super::{Bounds, Scope, SearchError, Stop};
use crate::{EntryKind, ReadError, Workspace};

/// Maximum number of entries to read in one call.
const MOST_ENTRIES: usize = 20_000;

/// An entry of a directory, below the requested one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    pub name: OsString,
    pub path: AbsPath,
    pub kind: EntryKind,
    /// Size in bytes of a file; 0 for other entries.
    pub size: u64,
    /// Whether ignore files name it, or it belongs to version control.
    pub ignored: bool,
    /// Whether only an editor has it.
    pub unsaved: bool,
    /// Entries of the directory in order of name; `None` if it was not entered.
    pub entries: Option<Vec<TreeEntry>>,
}

/// A directory not yet read, with its position among those already read.
struct Pending {
    path: AbsPath,
    at: Vec<usize>,
}

impl Workspace {
    /// Lists the entries of `directory`, down to `depth` levels (1: its own only).
    ///
    /// Names directories that are ignored or may not be read unasked, and does not enter them. The flag says
    /// whether the list is complete.
    ///
    /// # Errors
    /// [`SearchError`]; `directory` must be a directory. Unreadable directories below it are not entered.
    pub async fn tree(
        &self,
        directory: AbsPath,
        depth: usize,
        policy: std::sync::Arc<Policy>,
        bounds: &Bounds,
    ) -> Result<(Vec<TreeEntry>, bool), SearchError> {
        self.run_search(bounds, move |workspace, stop| workspace.tree_now(&directory, depth, &policy, &stop))
            .await
    }

    fn tree_now(
        &self,
        directory: &AbsPath,
        depth: usize,
        policy: &Policy,
        stop: &Stop,
    ) -> Result<(Vec<TreeEntry>, bool), ReadError> {
        let scope = Scope { hidden: true, ..Scope::new(directory.clone()) };
        let mut ignored = Ignored::new(self, &scope);
        let new = self.new_documents(&scope);
        let mut read = |directory: &AbsPath| -> Result<Vec<TreeEntry>, ReadError> {
            let mut entries = self.entries(directory, &mut ignored)?;
            for path in new.iter().filter(|path| path.parent().as_ref() == Some(directory)) {
                let name = path.as_path().file_name().unwrap_or_default().to_owned();
                let (path, kind) = (path.clone(), EntryKind::File);
                entries.push(TreeEntry {
                    name,
                    path,
                    kind,
                    size: 0,
                    ignored: false,
                    unsaved: true,
                    entries: None,
                });
            }
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(entries)
        };
        let mut top = read(directory)?;
        let mut looked = top.len();
        let mut pending: VecDeque<Pending> = directories(&top, &[]).collect();
        // Read level by level, so that the omitted entries are the deepest.
        while let Some(next) = pending.pop_front() {
            if next.at.len() >= depth {
                break;
            }
            if stop.now() || looked >= MOST_ENTRIES {
                return Ok((top, false));
            }
            if !policy.may_read(&next.path) {
                continue;
            }
            // An unreadable directory is not entered.
            let Ok(entries) = read(&next.path) else { continue };
            looked += entries.len();
            pending.extend(directories(&entries, &next.at));
            if let Some(entry) = entry_mut(&mut top, &next.at) {
                entry.entries = Some(entries);
            }
        }
        Ok((top, true))
    }

    fn entries(&self, directory: &AbsPath, ignored: &mut Ignored) -> Result<Vec<TreeEntry>, ReadError> {
        let io = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::NotFound => ReadError::NotFound { path: directory.clone() },
            std::io::ErrorKind::NotADirectory => ReadError::NotAFile { path: directory.clone() },
            _ => ReadError::Io { path: directory.clone(), source },
        };
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(io)? {
            let entry = entry.map_err(io)?;
            // An entry that vanished in between does not exist.
            let Ok(kind) = entry.file_type() else { continue };
            let size = if kind.is_file() { entry.metadata().map_or(0, |meta| meta.len()) } else { 0 };
            let (name, path) = (entry.file_name(), directory.join(entry.file_name()));
            let is_left_out =
                super::walk::is_version_control(&name) || ignored.leaves_out(&path, kind.is_dir());
            let kind = EntryKind::of(kind);
            entries.push(TreeEntry {
                name,
                path,
                kind,
                size,
                ignored: is_left_out,
                unsaved: false,
                entries: None,
            });
        }
        Ok(entries)
    }
}

fn directories<'a>(entries: &'a [TreeEntry], at: &'a [usize]) -> impl Iterator<Item = Pending> + use<'a> {
    let open = |entry: &TreeEntry| entry.kind == EntryKind::Directory && !entry.ignored;
    let place = |index: usize| at.iter().copied().chain([index]).collect();
    entries
        .iter()
        .enumerate()
        .filter(move |(_, entry)| open(entry))
        .map(move |(index, entry)| Pending { path: entry.path.clone(), at: place(index) })
}

fn entry_mut<'a>(top: &'a mut [TreeEntry], at: &[usize]) -> Option<&'a mut TreeEntry> {
    let (first, rest) = at.split_first()?;
    let entry = top.get_mut(*first)?;
    if rest.is_empty() { Some(entry) } else { entry_mut(entry.entries.as_mut()?, rest) }
}
