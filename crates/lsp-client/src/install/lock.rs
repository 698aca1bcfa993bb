//! What was installed into the managed folder, and exactly which packages that were
//! (`docs/formats/adapters-lock.md`).
//!
//! Knows no package manager. What must stay true: an entry is written after its folder is complete.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use workspace::{StateDir, StateError};

use super::COMPLETE;
use super::run::BEFORE;

/// The newest format that this program reads.
const FORMAT: u64 = 1;
const FILE: &str = "lock.json";
const PINS: &str = "pins";

/// The lock file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstallLock {
    /// Of the file.
    pub format: u64,
    /// By the definition's name.
    pub adapters: BTreeMap<String, Locked>,
}

/// One installed server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locked {
    /// Its version, which is also its folder's name.
    pub version: String,
    /// `npm`, `pip` or `cargo`.
    pub how: String,
    /// What was asked for.
    pub packages: Vec<String>,
    /// Seconds since 1970.
    pub installed_at: u64,
}

impl Default for InstallLock {
    fn default() -> Self {
        Self { format: FORMAT, adapters: BTreeMap::new() }
    }
}

impl InstallLock {
    /// As it is in the managed folder; empty when there is none. Blocking.
    ///
    /// # Errors
    /// [`StateError`]: unreadable, damaged, or of a newer program.
    pub fn read(managed: &StateDir) -> Result<Self, StateError> {
        let Some(bytes) = managed.read(FILE)? else { return Ok(Self::default()) };
        let path = managed.path().join(FILE);
        let damaged =
            |error: serde_json::Error| StateError::Damaged { path: path.clone(), detail: error.to_string() };
        let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(damaged)?;
        let found = value["format"].as_u64().unwrap_or(FORMAT);
        if found > FORMAT {
            return Err(StateError::NewerFormat { path, found, known: FORMAT });
        }
        serde_json::from_value(value).map_err(damaged)
    }

    /// The version that was installed last, where a lock that can be read says one. Blocking.
    pub(crate) fn version_in(managed: &Path, name: &str) -> Option<String> {
        let lock: Self = serde_json::from_slice(&std::fs::read(managed.join(FILE)).ok()?).ok()?;
        lock.adapters.get(name).map(|locked| locked.version.clone())
    }

    /// Whether an update took a version of it away, which is not replaced or put back yet. Blocking.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn is_being_replaced(managed: &StateDir, name: &str) -> Result<bool, StateError> {
        let versions = managed.child(name)?;
        for version in versions.child(BEFORE)?.list()? {
            if versions.child(&version)?.read(COMPLETE)?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes it whole. Blocking.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn write(&self, managed: &StateDir) -> Result<(), StateError> {
        let mut text = serde_json::to_vec_pretty(self).map_err(|error| StateError::Damaged {
            path: managed.path().join(FILE),
            detail: error.to_string(),
        })?;
        text.push(b'\n');
        managed.write_atomic(FILE, &text)
    }

    /// What an earlier installation of this version resolved to. Blocking.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn pins(managed: &StateDir, name: &str, version: &str) -> Result<Option<String>, StateError> {
        let bytes = managed.child(PINS)?.read(&format!("{name}@{version}"))?;
        Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()).filter(|pins| !pins.trim().is_empty()))
    }

    pub(super) fn keep_pins(
        managed: &StateDir,
        name: &str,
        version: &str,
        pins: &str,
    ) -> Result<(), StateError> {
        managed.child(PINS)?.write_atomic(&format!("{name}@{version}"), pins.as_bytes())
    }
}
