//! Full-text search over the sessions of a project.
//!
//! The index is derived: the first search builds it, each search updates it, and a search rebuilds
//! it if it is missing, damaged or of another version. Session files stay authoritative: excerpts
//! are read from them. All functions block. One search runs at a time, under a lock.

mod directory;
mod excerpt;
mod index;
mod query;
mod texts;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use agent::SessionStore;
use agent::store::{LoadedSession, StoreError};
use paths::{StateDir, StateError};
use policy::ErrorCode;

use crate::index::{Found, SessionIndex};
use crate::query::Query;

/// Maximum wait for another search, which may build the index.
const BUSY: Duration = Duration::from_secs(120);
const INDEX: &str = "index";

pub struct SessionSearch<'a> {
    store: &'a SessionStore,
    dir: StateDir,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// The best hits first, at most as many as requested.
    pub hits: Vec<Hit>,
    /// Whether no entry has all words of the query, so that the hits have only some.
    pub only_some_words: bool,
    /// Sessions that could not be read, with the reason.
    pub warnings: Vec<String>,
}

/// A matching entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    pub session: String,
    pub cwd: String,
    /// Id of the entry in its session.
    pub entry: String,
    /// Kind: `user`, `assistant`, `toolResult`, or the type of another entry.
    pub kind: String,
    /// Time of writing, in RFC 3339.
    pub timestamp: String,
    /// Rank above 0; comparable within one answer only.
    pub score: f32,
    /// Words around the first match, in one line.
    pub excerpt: String,
}

/// Reason why a search failed.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    #[error("the query has no words; give at least one word without a leading `-`")]
    NoWords,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error("cannot use the session index in {directory}: {reason}; check for a full disk")]
    Index { directory: String, reason: String },
}

impl SearchError {
    pub fn code(&self) -> ErrorCode {
        match self {
            SearchError::NoWords => ErrorCode::InvalidArguments,
            SearchError::Store(error) => error.code(),
            SearchError::State(error) => ErrorCode::from(error),
            SearchError::Index { .. } => ErrorCode::IoError,
        }
    }
}

/// Deletes the index, so that no text of a deleted session remains.
///
/// The next search rebuilds it.
///
/// # Errors
///
/// [`SearchError::State`] if another search is running, or the directory cannot be removed.
pub fn forget(dir: &StateDir) -> Result<(), SearchError> {
    if dir.list()?.is_empty() {
        return Ok(());
    }
    let _held = dir.lock("lock", BUSY)?;
    Ok(dir.remove_tree(INDEX)?)
}

impl<'a> SessionSearch<'a> {
    /// Creates a search over the sessions of `store`, with the index in `dir`.
    ///
    /// It opens nothing yet.
    pub fn new(store: &'a SessionStore, dir: StateDir) -> Self {
        SessionSearch { store, dir }
    }

    /// The best matches of `query`: entries with all its words, else with some.
    ///
    /// Words are those of the tool index; quoted words must be adjacent, and a word after `-` must not occur.
    ///
    /// # Errors
    /// [`SearchError`] with the reason. A damaged index is rebuilt.
    pub fn search(&self, query: &str, limit: usize) -> Result<Answer, SearchError> {
        let query = Query::parse(query);
        if query.wanted.is_empty() {
            return Err(SearchError::NoWords);
        }
        let _held = self.dir.lock("lock", BUSY)?;
        let (mut found, warnings) = match self.ask(&query, limit) {
            Err(Failed::Index(reason)) => {
                tracing::warn!(reason, "rebuilding the session index");
                self.dir.remove_tree(INDEX)?;
                self.ask(&query, limit)
            }
            asked => asked,
        }
        .map_err(|failed| self.error(failed))?;
        let hits = self.hits(&mut found.entries, &query, limit);
        Ok(Answer { hits, only_some_words: found.only_some_words, warnings })
    }

    /// Queries the index; a panic counts as a damaged index.
    ///
    /// tantivy 0.27 panics on some damaged files, such as one shorter than its footer. A panic must
    /// not end the process.
    fn ask(&self, query: &Query, limit: usize) -> Result<(Found, Vec<String>), Failed> {
        // A partial state is deleted with the index.
        std::panic::catch_unwind(AssertUnwindSafe(|| self.ask_index(query, limit)))
            .unwrap_or_else(|_| Err(Failed::Index("it cannot be read".to_owned())))
    }

    fn ask_index(&self, query: &Query, limit: usize) -> Result<(Found, Vec<String>), Failed> {
        let index = self.dir.child(INDEX).map_err(StoreError::State)?;
        let mut index = SessionIndex::open(index)?;
        let mut warnings = Vec::new();
        index.update(self.store, &mut warnings)?;
        // An entry inherited by forks is one hit.
        Ok((index.search(query, limit.saturating_mul(4).clamp(1, 10_000))?, warnings))
    }

    fn hits(&self, found: &mut Vec<index::FoundEntry>, query: &Query, limit: usize) -> Vec<Hit> {
        // An inherited entry counts in its oldest ancestor; file names begin with their time,
        // which may be equal.
        let score_and_place = |a: &index::FoundEntry, b: &index::FoundEntry| {
            let order = b.score.total_cmp(&a.score).then(a.forks.cmp(&b.forks));
            order.then_with(|| a.file.cmp(&b.file)).then_with(|| a.entry.cmp(&b.entry))
        };
        found.sort_by(score_and_place);
        let mut seen = HashSet::new();
        found.retain(|it| seen.insert((it.entry.clone(), it.timestamp.clone())));
        found.truncate(limit);
        let mut sessions: HashMap<String, Option<LoadedSession>> = HashMap::new();
        let mut hits = Vec::new();
        for it in found.drain(..) {
            let session =
                sessions.entry(it.file.clone()).or_insert_with(|| self.store.load_file(&it.file).ok());
            let Some(session) = session else { continue };
            let Some(entry) = session.find(&it.entry) else { continue };
            let Some((kind, text)) = texts::of(session, entry) else { continue };
            hits.push(Hit {
                session: session.header.id.clone(),
                cwd: session.header.cwd.clone(),
                entry: entry.id.clone(),
                kind,
                timestamp: entry.timestamp.clone(),
                score: it.score,
                excerpt: excerpt::of(&text, &query.words()),
            });
        }
        hits
    }

    fn error(&self, failed: Failed) -> SearchError {
        match failed {
            Failed::Store(error) => error.into(),
            Failed::Index(reason) => {
                SearchError::Index { directory: self.dir.path().join(INDEX).to_string(), reason }
            }
        }
    }
}

/// Reason why an attempt failed.
#[derive(Debug)]
enum Failed {
    Store(StoreError),
    /// The index must be rebuilt.
    Index(String),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Failed {
        Failed::Store(error)
    }
}

impl From<tantivy::TantivyError> for Failed {
    fn from(error: tantivy::TantivyError) -> Failed {
        Failed::Index(error.to_string())
    }
}
