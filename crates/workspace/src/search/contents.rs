//! Search in the contents of files.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use paths::AbsPath;
use policy::Policy;

use super::file::{FileMatches, FileSearch};
use super::walk::WalkStep;
use super::{Bounds, Query, Scope, SearchError, Stop};
use crate::documents::disk;
use crate::{Document, ReadError, Workspace};

/// Maximum number of reported failures.
const MOST_FAILURES: usize = 20;

/// The result of a search.
#[derive(Debug, Default)]
pub struct Findings {
    /// Files with a match, in order of path.
    pub files: Vec<FileHits>,
    /// Number of searched files, including those of an editor.
    pub searched: usize,
    /// Number of omitted files, which contain a zero byte.
    pub binary: usize,
    /// Omitted files, which may not be read without a question, in order of path.
    pub protected: Vec<AbsPath>,
    /// Messages about unreadable files, the first in order.
    pub failures: Vec<String>,
    /// Number of unreadable files.
    pub failed: usize,
    /// Whether every file was searched; if not, all numbers are minimums.
    pub complete: bool,
}

/// A file with matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHits {
    pub path: AbsPath,
    pub lines: u64,
    pub form: Form,
}

/// The form of a matching file, which decides whether it can be edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// A document of the workspace, which has the text.
    Document,
    /// Numbers and beginnings of the first matching lines; not editable.
    LookOnly(LookOnly, Vec<(u64, String)>),
}

/// The reason why a file cannot be edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookOnly {
    /// The file is in another encoding.
    NotUtf8,
    /// The file is too large to be edited.
    TooLarge,
}

impl Workspace {
    /// Finds the files of `scope` in which `query` matches.
    ///
    /// Searches the editor's version of an open file, even if the disk has no such file. Omits files of a
    /// directory that `policy` would ask about or deny; the caller asks before whether `scope.at` may be
    /// read.
    ///
    /// Uses the machine's cores, on its own threads. Cancel-safe: dropping it ends the search.
    ///
    /// # Errors
    /// [`SearchError`]; `scope.at` must exist.
    pub async fn search(
        &self,
        scope: Scope,
        query: Arc<Query>,
        policy: Arc<Policy>,
        bounds: &Bounds,
    ) -> Result<Findings, SearchError> {
        self.run_search(bounds, move |workspace, stop| workspace.search_now(&scope, &query, &policy, &stop))
            .await
    }

    fn search_now(
        &self,
        scope: &Scope,
        query: &Query,
        policy: &Policy,
        stop: &Stop,
    ) -> Result<Findings, ReadError> {
        let open = Overlay::of(self, scope);
        let total = Mutex::new(Findings::default());
        let io = |source| ReadError::Io { path: scope.at.clone(), source };
        match disk::stat(&scope.at).map_err(io)? {
            Some(meta) if meta.is_dir() => self.walk(scope, stop, || {
                let mut worker = Worker::new(query, stop, &open, &total);
                move |met| worker.meet(met, scope, policy)
            }),
            None if open.at(scope.at.as_path()).is_none() => {
                return Err(ReadError::NotFound { path: scope.at.clone() });
            }
            Some(meta) if !meta.is_file() => return Err(ReadError::NotAFile { path: scope.at.clone() }),
            _ => Worker::new(query, stop, &open, &total).take(&scope.at, true),
        }
        let mut worker = Worker::new(query, stop, &open, &total);
        let is_file = open.at(scope.at.as_path()).is_some();
        let new = if is_file { BTreeSet::new() } else { self.new_documents(scope) };
        for path in new.into_iter().filter(|path| scope.globs.take(path.as_path(), false)) {
            if policy.may_read(&path) { worker.take(&path, false) } else { worker.found.protected.push(path) }
        }
        drop(worker);
        let mut found = total.into_inner();
        found.files.sort_by(|a, b| a.path.cmp(&b.path));
        found.protected.sort();
        found.failures.sort();
        found.failures.truncate(MOST_FAILURES);
        found.complete = stop.never();
        Ok(found)
    }
}

/// Documents that an editor has open in a scope.
struct Overlay {
    documents: HashMap<PathBuf, Document>,
}

impl Overlay {
    fn of(workspace: &Workspace, scope: &Scope) -> Self {
        let open = workspace.open_documents().into_iter();
        let documents = open
            .filter(|document| document.path.starts_with(&scope.at))
            .map(|document| (document.path.as_path().to_owned(), document))
            .collect();
        Self { documents }
    }

    fn at(&self, path: &Path) -> Option<&Document> {
        if self.documents.is_empty() { None } else { self.documents.get(path) }
    }
}

/// Searches the entries of one thread.
struct Worker<'a> {
    search: FileSearch<'a>,
    open: &'a Overlay,
    found: Findings,
    total: &'a Mutex<Findings>,
}

impl<'a> Worker<'a> {
    fn new(query: &'a Query, stop: &'a Stop, open: &'a Overlay, total: &'a Mutex<Findings>) -> Self {
        Self { search: FileSearch::new(query, stop), open, found: Findings::default(), total }
    }

    fn meet(&mut self, met: WalkStep<'_>, scope: &Scope, policy: &Policy) {
        let entry = match met {
            WalkStep::Entry(entry) => entry,
            WalkStep::Failed(reason) => return self.fail(reason),
        };
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        if !is_file || !scope.globs.take(entry.path(), false) {
            return;
        }
        let Some(path) = AbsPath::new(entry.path()) else { return };
        // Check the policy first: a protected file's match must not be reported either.
        if policy.may_read(&path) { self.take(&path, false) } else { self.found.protected.push(path) }
    }

    fn take(&mut self, path: &AbsPath, is_named: bool) {
        let seen = match self.open.at(path.as_path()) {
            Some(document) => Ok(self.search.text(&document.text)),
            None => self.search.file(path.as_path(), is_named),
        };
        let (lines, form) = match seen {
            Ok(FileMatches::Gone | FileMatches::Stopped) => return,
            Ok(FileMatches::Binary) => {
                self.found.binary += 1;
                return;
            }
            Ok(FileMatches::Text(lines)) => (lines, Form::Document),
            Ok(FileMatches::Only(lines, why, samples)) => (lines, Form::LookOnly(why, samples)),
            Err(error) => return self.fail(format!("{path}: {error}")),
        };
        self.found.searched += 1;
        if lines > 0 {
            self.found.files.push(FileHits { path: path.clone(), lines, form });
        }
    }

    fn fail(&mut self, reason: String) {
        self.found.failed += 1;
        if self.found.failures.len() < MOST_FAILURES {
            self.found.failures.push(reason);
        }
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        let found = std::mem::take(&mut self.found);
        let mut total = self.total.lock();
        total.files.extend(found.files);
        total.protected.extend(found.protected);
        total.failures.extend(found.failures);
        total.searched += found.searched;
        total.binary += found.binary;
        total.failed += found.failed;
    }
}
