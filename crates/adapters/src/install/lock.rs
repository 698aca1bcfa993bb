//! The lock file of the managed directory: installed versions and their packages.
//!
//! `docs/formats/adapters-lock.md` has the format. Invariants: an entry is written after its directory is complete.

use std::collections::BTreeMap;
use std::path::Path;

use paths::{StateDir, StateError};
use serde::{Deserialize, Serialize};

use super::COMPLETE;
use super::run::BEFORE;

/// Newest format that this program reads.
const FORMAT: u64 = 1;
const FILE: &str = "lock.json";
const PINS: &str = "pins";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstallLock {
    pub format: u64,
    /// Installed programs by the definition's name.
    pub adapters: BTreeMap<String, Locked>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locked {
    /// The version, which is also the directory's name.
    pub version: String,
    /// `npm`, `pip` or `cargo`.
    pub how: String,
    /// Packages that the definition requests.
    pub packages: Vec<String>,
    /// Time of the installation, in seconds since 1970.
    pub installed_at: u64,
}

impl Default for InstallLock {
    fn default() -> Self {
        Self { format: FORMAT, adapters: BTreeMap::new() }
    }
}

impl InstallLock {
    /// Reads the lock of the managed directory; empty if there is none. Blocks.
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

    /// Reads the version that was installed last, if a readable lock names one. Blocks.
    pub(crate) fn version_in(managed: &Path, name: &str) -> Option<String> {
        let lock: Self = serde_json::from_slice(&std::fs::read(managed.join(FILE)).ok()?).ok()?;
        lock.adapters.get(name).map(|locked| locked.version.clone())
    }

    /// Whether an update moved a version away without replacing it yet. Blocks.
    ///
    /// True until the update replaces or restores the version.
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

    /// Writes the file atomically. Blocks.
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

    /// Reads the resolved packages of an earlier installation of this version. Blocks.
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
