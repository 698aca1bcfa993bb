//! Scans within a budget: files that may contain a text, and the skipped ones.

use std::time::Instant;

use paths::AbsPath;
use tokio_util::sync::CancellationToken;

use super::{Bounds, SearchError};
use crate::{Document, ReadError, Workspace};

/// The limits of one scan: paths, bytes and time.
#[derive(Debug, Clone)]
pub struct Budget {
    /// Maximum number of paths.
    pub files: usize,
    /// Maximum size of one text, in bytes.
    pub bytes: usize,
    pub until: Instant,
    pub cancel: CancellationToken,
}

impl Budget {
    /// Creates a budget of 20,000 files of at most 1 MiB each.
    pub fn new(until: Instant, cancel: CancellationToken) -> Self {
        Self { files: 20_000, bytes: 1 << 20, until, cancel }
    }
}

/// The reason why a file was not searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// The file may match, but its text exceeds the budget.
    TooLarge,
    NotUtf8,
}

/// Paths in order until the budget is spent, and their texts on demand. Blocks.
///
/// Skips a path that does not exist or is not a regular file. `for path in candidates.by_ref()` gives the paths
/// alone.
#[derive(Debug)]
pub struct Candidates<I> {
    workspace: Workspace,
    paths: I,
    budget: Budget,
    taken: usize,
    complete: bool,
    skipped: Vec<(AbsPath, SkipReason)>,
}

impl Workspace {
    /// Starts a scan of `paths`, such as those from [`Workspace::files`].
    pub fn candidates<I: Iterator<Item = AbsPath>>(&self, paths: I, budget: Budget) -> Candidates<I> {
        Candidates { workspace: self.clone(), paths, budget, taken: 0, complete: true, skipped: Vec::new() }
    }

    /// Runs blocking `work`, which scans within `budget`, on a workspace thread.
    ///
    /// Cancel-safe: dropping it spends the budget.
    ///
    /// # Errors
    /// [`SearchError::Cancelled`]; [`SearchError::Stuck`] when the work has not ended some seconds after
    /// the budget.
    pub async fn scan<T: Send + 'static>(
        &self,
        budget: Budget,
        work: impl FnOnce(Self, Budget) -> T + Send + 'static,
    ) -> Result<T, SearchError> {
        let time = budget.until.saturating_duration_since(Instant::now());
        let bounds = Bounds { cancel: budget.cancel.clone(), time };
        self.run_search(&bounds, move |workspace, stop| {
            Ok(work(workspace, Budget { cancel: stop.cancel.clone(), ..budget }))
        })
        .await
    }
}

impl<I: Iterator<Item = AbsPath>> Candidates<I> {
    /// Returns the next document whose text `fits`.
    pub fn next_document(&mut self, fits: impl Fn(&str) -> bool) -> Option<Document> {
        loop {
            let path = self.next()?;
            if let Some(document) = self.document(&path, &fits) {
                return Some(document);
            }
        }
    }

    /// Returns the next document that holds `word` as a whole word.
    pub fn next_with_word(&mut self, word: &str) -> Option<Document> {
        let holds = |text: &str| text::occurrences(text, word).next().is_some();
        let filter = self.workspace.word_filter(word);
        loop {
            let path = self.next()?;
            if filter.may_be_in(&path)
                && let Some(document) = self.document(&path, holds)
            {
                return Some(document);
            }
        }
    }

    /// Returns the document at a path of the scan, if `fits` accepts its text.
    pub fn document(&mut self, path: &AbsPath, fits: impl Fn(&str) -> bool) -> Option<Document> {
        match self.workspace.document(path) {
            Ok(document) if !fits(&document.text) => None,
            Ok(document) if document.text.len() <= self.budget.bytes => Some(document),
            Ok(_) | Err(ReadError::TooLarge { .. }) => self.skip(path, SkipReason::TooLarge),
            Err(ReadError::NotUtf8 { .. }) => self.skip(path, SkipReason::NotUtf8),
            Err(_) => None,
        }
    }

    /// Whether the budget is spent; a scan that asks stops then.
    pub fn is_spent(&self) -> bool {
        self.budget.cancel.is_cancelled() || Instant::now() >= self.budget.until
    }

    /// Whether the scan has omitted no path so far.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns the files that were not searched, with the reason.
    pub fn skipped(&self) -> &[(AbsPath, SkipReason)] {
        &self.skipped
    }

    fn skip(&mut self, path: &AbsPath, reason: SkipReason) -> Option<Document> {
        self.skipped.push((path.clone(), reason));
        None
    }
}

impl<I: Iterator<Item = AbsPath>> Iterator for Candidates<I> {
    type Item = AbsPath;

    fn next(&mut self) -> Option<AbsPath> {
        if !self.complete {
            return None;
        }
        let path = self.paths.next()?;
        if self.taken == self.budget.files || self.is_spent() {
            self.complete = false;
            return None;
        }
        self.taken += 1;
        Some(path)
    }
}
