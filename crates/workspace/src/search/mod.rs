//! Search in the workspace: its names, and the contents of its files.
//!
//! The search omits hidden files and those that ignore files name, as ripgrep does. It follows no links,
//! and takes the editor's text of an open file. It runs on its own threads, bounded by a cancellation and a
//! deadline. Results come in order of path, whatever thread found them. Callers render the results.

mod brackets;
mod candidates;
mod contents;
mod directory_watch;
mod file;
pub(crate) mod file_index;
mod globs;
mod ignored;
mod name_pattern;
mod names;
mod query;
mod tree;
mod walk;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use paths::AbsPath;
use policy::ErrorCode;
use tokio_util::sync::CancellationToken;

use crate::{ReadError, Workspace};

pub use candidates::{Budget, Candidates, SkipReason};
pub use contents::{FileHits, Findings, Form, LookOnly};
pub use directory_watch::DirectoryWatch;
pub use globs::{GlobError, Globs};
pub use name_pattern::{Fit, NamePattern};
pub use names::{Name, Names};
pub use query::{LineMatch, Query, QueryError, QueryOptions};
pub use tree::TreeEntry;
pub use walk::files_below;
pub(crate) use walk::{Omitted, is_version_control, limit};

/// Time that a caller waits past the deadline for a search stuck in the system.
const GRACE: Duration = Duration::from_secs(5);

/// The place and the files that a search covers.
#[derive(Debug, Clone)]
pub struct Scope {
    /// A canonical directory of the workspace, or one file.
    ///
    /// A file is searched whatever the other fields say.
    pub at: AbsPath,
    /// Globs of names to include and exclude.
    pub globs: Globs,
    /// Whether hidden files are included; those of version control (`.git`) never are.
    pub hidden: bool,
    /// Whether files that ignore files name are included.
    pub ignored: bool,
}

impl Scope {
    /// Creates the scope of everything at `at` that is neither hidden nor ignored.
    pub fn new(at: AbsPath) -> Self {
        Self { at, globs: Globs::default(), hidden: false, ignored: false }
    }
}

/// The cancellation and deadline of a search.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// Token that ends the search without a result.
    pub cancel: CancellationToken,
    /// Time after which the search ends with the results so far.
    pub time: Duration,
}

/// The reason why a search has no result at all.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The search was cancelled.
    #[error("the search was cancelled")]
    Cancelled,
    /// The file system did not answer.
    #[error("the file system did not answer in {} s; search a smaller directory", .0.as_secs())]
    Stuck(Duration),
    /// The path cannot be read.
    #[error(transparent)]
    Place(#[from] ReadError),
}

impl SearchError {
    /// Returns the code for surfaces and models.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Cancelled => ErrorCode::Cancelled,
            Self::Stuck(_) => ErrorCode::Timeout,
            Self::Place(error) => error.code(),
        }
    }
}

/// The condition that ends the work, checked often from several threads.
#[derive(Debug)]
struct Stop {
    cancel: CancellationToken,
    deadline: Instant,
    stopped: AtomicBool,
}

impl Stop {
    fn now(&self) -> bool {
        if self.stopped.load(Ordering::Relaxed) {
            return true;
        }
        let stop = self.cancel.is_cancelled() || Instant::now() >= self.deadline;
        if stop {
            self.stopped.store(true, Ordering::Relaxed);
        }
        stop
    }

    /// Whether it has never stopped any work.
    fn never(&self) -> bool {
        !self.stopped.load(Ordering::Relaxed)
    }
}

impl Workspace {
    /// Runs blocking `work` on a workspace thread.
    ///
    /// It stops when the caller drops the future; the caller waits no longer than its bounds.
    async fn run_search<T: Send + 'static>(
        &self,
        bounds: &Bounds,
        work: impl FnOnce(Self, Stop) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, SearchError> {
        let cancel = bounds.cancel.child_token();
        let _stops_when_dropped = cancel.clone().drop_guard();
        let deadline = Instant::now() + bounds.time;
        let stop = Stop { cancel: cancel.clone(), deadline, stopped: AtomicBool::new(false) };
        let this = self.clone();
        let task = self.inner.tasks.spawn_blocking(move || work(this, stop));
        // Dropping the handle of the task leaves it to its owner; it ends by itself.
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(SearchError::Cancelled),
            result = tokio::time::timeout(bounds.time + GRACE, task) => match result {
                Err(_) => Err(SearchError::Stuck(bounds.time + GRACE)),
                Ok(Ok(result)) => Ok(result?),
                Ok(Err(error)) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => Err(SearchError::Cancelled),
                },
            },
        }
    }
}
