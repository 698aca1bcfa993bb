//! Trusted workspaces by canonical path; a trusted parent counts.
//!
//! The file is `trust.json` in Pilcrow's state directory (`docs/formats/trust.md`). The store reads
//! it at each question, so that `pilcrow trust` affects running processes.

use std::time::Duration;

use paths::canonical_existing as canonical;
use paths::{AbsPath, StateDir, StateError};
use serde::{Deserialize, Serialize};

use crate::grants::{check_format, to_json};

const FORMAT: u64 = 1;
const FILE: &str = "trust.json";
const LOCK: &str = "trust.lock";
const LOCK_TIME: Duration = Duration::from_secs(5);

/// The list of trusted directories.
#[derive(Debug, Clone)]
pub struct TrustStore {
    state: StateDir,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    format: u64,
    trusted: Vec<Trusted>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Trusted {
    path: AbsPath,
    /// Time of the decision, RFC 3339 in UTC.
    since: String,
}

/// The command that trusts a directory.
pub fn trust_command(root: &AbsPath) -> String {
    format!("pilcrow trust {}", shell::quote(&root.to_string()))
}

impl TrustStore {
    /// Opens `trust.json` in `state`.
    pub fn new(state: StateDir) -> Self {
        Self { state }
    }

    /// The state directory that all processes of the user share.
    pub(crate) fn state(&self) -> &StateDir {
        &self.state
    }

    /// Whether `root` or one of its parents is trusted, links resolved.
    ///
    /// An unreadable list trusts nothing; the reason is logged.
    pub fn is_trusted(&self, root: &AbsPath) -> bool {
        match self.read() {
            Ok(stored) => {
                let root = canonical(root);
                stored.trusted.iter().any(|trusted| root.starts_with(&trusted.path))
            }
            Err(error) => {
                tracing::warn!(%error, "cannot use the list of trusted directories; none is trusted");
                false
            }
        }
    }

    /// Trusts `root`.
    ///
    /// # Errors
    /// The list cannot be read or written.
    pub fn trust(&self, root: &AbsPath) -> Result<(), StateError> {
        let _lock = self.state.lock(LOCK, LOCK_TIME)?;
        let mut stored = self.read()?;
        let path = canonical(root);
        if stored.trusted.iter().any(|trusted| trusted.path == path) {
            return Ok(());
        }
        stored.trusted.push(Trusted { path, since: jiff::Timestamp::now().to_string() });
        stored.trusted.sort_by(|a, b| a.path.cmp(&b.path));
        self.write(stored)
    }

    /// Removes `root` from the list and returns whether it was on it.
    ///
    /// A parent on the list stays there and still counts.
    ///
    /// # Errors
    /// The list cannot be read or written.
    pub fn remove(&self, root: &AbsPath) -> Result<bool, StateError> {
        let _lock = self.state.lock(LOCK, LOCK_TIME)?;
        let mut stored = self.read()?;
        let path = canonical(root);
        let before = stored.trusted.len();
        // The path as spelled is removed too: a deleted directory cannot be resolved.
        stored.trusted.retain(|trusted| trusted.path != path && trusted.path != *root);
        if stored.trusted.len() == before {
            return Ok(false);
        }
        self.write(stored).map(|()| true)
    }

    /// Every trusted directory, sorted.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn list(&self) -> Result<Vec<AbsPath>, StateError> {
        Ok(self.read()?.trusted.into_iter().map(|trusted| trusted.path).collect())
    }

    fn read(&self) -> Result<Stored, StateError> {
        let Some(bytes) = self.state.read(FILE)? else { return Ok(Stored::default()) };
        let path = self.state.path().join(FILE);
        check_format(&bytes, FORMAT, &path)?;
        serde_json::from_slice(&bytes)
            .map_err(|error| StateError::Damaged { path, detail: error.to_string() })
    }

    fn write(&self, mut stored: Stored) -> Result<(), StateError> {
        stored.format = FORMAT;
        self.state.write_atomic(FILE, &to_json(&stored))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, TrustStore, AbsPath) {
        let temp = tempfile::tempdir().unwrap();
        let base = canonical(&AbsPath::new(temp.path()).unwrap());
        let store = TrustStore::new(StateDir::new(base.join("state")));
        std::fs::create_dir_all(base.join("a/b")).unwrap();
        (temp, store, base)
    }

    #[test]
    fn the_path_to_trust_is_quoted_for_a_shell() {
        let command = |path: &str| trust_command(&AbsPath::new(path).unwrap());
        assert_eq!(command("/a/b"), "pilcrow trust /a/b");
        assert_eq!(command("/my work/it's"), r"pilcrow trust '/my work/it'\''s'");
    }

    #[test]
    fn a_trusted_parent_counts_and_a_sibling_does_not() {
        let (_temp, store, base) = store();
        assert!(!store.is_trusted(&base.join("a")));
        store.trust(&base.join("a")).unwrap();
        store.trust(&base.join("a")).unwrap();
        assert!(store.is_trusted(&base.join("a")) && store.is_trusted(&base.join("a/b")));
        assert!(!store.is_trusted(&base) && !store.is_trusted(&base.join("ab")));
        assert_eq!(store.list().unwrap(), [base.join("a")]);
        assert!(!store.remove(&base.join("a/b")).unwrap());
        assert!(store.remove(&base.join("a")).unwrap());
        assert!(!store.is_trusted(&base.join("a/b")));
    }

    #[test]
    fn links_are_resolved_for_the_trust_list() {
        let (_temp, store, base) = store();
        std::os::unix::fs::symlink(base.join("a"), base.join("link")).unwrap();
        store.trust(&base.join("link")).unwrap();
        assert_eq!(store.list().unwrap(), [base.join("a")]);
        assert!(store.is_trusted(&base.join("link/b")));
        // A link in a trusted directory does not make its target trusted.
        std::fs::create_dir(base.join("other")).unwrap();
        std::os::unix::fs::symlink(base.join("other"), base.join("a/out")).unwrap();
        assert!(!store.is_trusted(&base.join("a/out")));
    }

    #[test]
    fn a_newer_or_damaged_file_is_refused_and_kept() {
        let (_temp, store, base) = store();
        for (text, part) in
            [(r#"{"format": 7}"#, "format 7; this version reads up to 1"), ("{", "is damaged")]
        {
            store.state.write_atomic(FILE, text.as_bytes()).unwrap();
            let error = store.trust(&base.join("a")).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
            assert!(!store.is_trusted(&base.join("a")));
            assert_eq!(store.state.read(FILE).unwrap().unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn concurrent_writers_lose_no_entry() {
        let (_temp, store, base) = store();
        std::thread::scope(|scope| {
            for index in 0..8 {
                let (store, path) = (&store, base.join(format!("p{index}")));
                scope.spawn(move || store.trust(&path).unwrap());
            }
        });
        assert_eq!(store.list().unwrap().len(), 8);
    }
}
