//! Full text over the sessions of one project. The index is derived: made when somebody searches, brought up to date before
//! each search, and thrown away and made again when it is missing, damaged or of another version. The sessions' files stay
//! the truth: what is shown of a hit is read from them.
//!
//! Everything blocks. One search at a time: the lock is held from the look at the files to the answer.

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
use workspace::{ErrorCode, StateDir, StateError};

use crate::index::{Found, SessionIndex};
use crate::query::Query;

/// How long another search is waited for; it may be making the index.
const BUSY: Duration = Duration::from_secs(120);
const INDEX: &str = "index";

/// Where to search.
pub struct SessionSearch<'a> {
    store: &'a SessionStore,
    dir: StateDir,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// The best first, at most as many as asked for.
    pub hits: Vec<Hit>,
    /// No entry has all the words of the query; these have some.
    pub only_some_words: bool,
    /// Sessions that could not be read, and why; they are not searched.
    pub warnings: Vec<String>,
}

/// An entry with the words of the query.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The session's id.
    pub session: String,
    /// Its working directory.
    pub cwd: String,
    /// The entry's id within it.
    pub entry: String,
    /// `user`, `assistant`, `toolResult`, or the type of an entry that is no message.
    pub kind: String,
    /// When it was written, in RFC 3339.
    pub timestamp: String,
    /// Above 0; comparable within one answer only.
    pub score: f32,
    /// Some words around the first ones that fit, in one line.
    pub excerpt: String,
}

/// Why nothing was searched.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The query has no word to look for.
    #[error("there is no word to look for; give at least one without a `-` before it")]
    NoWords,
    /// The sessions cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The index's folder cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The index failed though it was made anew.
    #[error("the sessions' index in {folder} cannot be used: {reason}; look whether the disk is full")]
    Index {
        /// Its folder.
        folder: String,
        /// What failed.
        reason: String,
    },
}

impl SearchError {
    /// The code of the closed list.
    pub fn code(&self) -> ErrorCode {
        match self {
            SearchError::NoWords => ErrorCode::InvalidArguments,
            SearchError::Store(error) => error.code(),
            SearchError::State(error) => error.code(),
            SearchError::Index { .. } => ErrorCode::IoError,
        }
    }
}

/// Throws the index in `dir` away, so that nothing of a deleted session stays; the next search makes it again.
///
/// # Errors
/// [`SearchError::State`]: another search goes on, or the folder cannot be removed.
pub fn forget(dir: &StateDir) -> Result<(), SearchError> {
    if dir.list()?.is_empty() {
        return Ok(());
    }
    let _held = dir.lock("lock", BUSY)?;
    Ok(dir.remove_tree(INDEX)?)
}

impl<'a> SessionSearch<'a> {
    /// Searches the sessions of `store`; the index is kept in `dir`. Nothing is opened yet.
    pub fn new(store: &'a SessionStore, dir: StateDir) -> Self {
        SessionSearch { store, dir }
    }

    /// The entries that fit `query` best: those with all its words, else with some. Words are those of the tools' index; words in
    /// quotes stand beside each other, and what has a `-` before it must not be there.
    ///
    /// # Errors
    /// [`SearchError`]. A damaged index is no error: it is made again.
    pub fn search(&self, query: &str, limit: usize) -> Result<Answer, SearchError> {
        let query = Query::parse(query);
        if query.wanted.is_empty() {
            return Err(SearchError::NoWords);
        }
        let _held = self.dir.lock("lock", BUSY)?;
        let (mut found, warnings) = match self.ask(&query, limit) {
            Err(Failed::Index(reason)) => {
                tracing::warn!(reason, "the sessions' index is made again");
                self.dir.remove_tree(INDEX)?;
                self.ask(&query, limit)
            }
            asked => asked,
        }
        .map_err(|failed| self.error(failed))?;
        let hits = self.hits(&mut found.entries, &query, limit);
        Ok(Answer { hits, only_some_words: found.only_some_words, warnings })
    }

    /// Over files that are damaged in ways that their checksums do not tell, tantivy panics (0.27: one shorter than its footer); that is
    /// a damaged index like any other, and must not end the process each time.
    fn ask(&self, query: &Query, limit: usize) -> Result<(Found, Vec<String>), Failed> {
        // What it leaves is thrown away with the index.
        std::panic::catch_unwind(AssertUnwindSafe(|| self.ask_index(query, limit)))
            .unwrap_or_else(|_| Err(Failed::Index("it cannot be read at all".to_owned())))
    }

    fn ask_index(&self, query: &Query, limit: usize) -> Result<(Found, Vec<String>), Failed> {
        let index = self.dir.child(INDEX).map_err(StoreError::State)?;
        let mut index = SessionIndex::open(index)?;
        let mut warnings = Vec::new();
        index.update(self.store, &mut warnings)?;
        // An entry that forks inherited is one hit.
        Ok((index.search(query, limit.saturating_mul(4).clamp(1, 10_000))?, warnings))
    }

    fn hits(&self, found: &mut Vec<index::FoundEntry>, query: &Query, limit: usize) -> Vec<Hit> {
        // Of entries that are one in several sessions the one counts that the others were forked from; names of files begin with
        // their time, which two may share.
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
                SearchError::Index { folder: self.dir.path().join(INDEX).to_string(), reason }
            }
        }
    }
}

/// Why it did not work out this time.
#[derive(Debug)]
enum Failed {
    Store(StoreError),
    /// The index is to be made again.
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
