//! Rotation of a provider's keys, stored across processes.
//!
//! `docs/formats/key-turns.md` has the format. The rotation stores the next key, and the end of the pause of
//! refused keys. The file holds indexes and times only. If it is not writable, the state is local to the
//! process.

use std::collections::BTreeMap;

use paths::{StateDir, StateError};
use serde::{Deserialize, Serialize};

/// Name of the file in the state directory.
pub const FILE: &str = "key-turns.json";
const LOCK: &str = "key-turns.lock";
const FORMAT: u64 = 1;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    format: u64,
    #[serde(default)]
    providers: BTreeMap<String, Rotation>,
}

/// The common part of all formats.
#[derive(Deserialize)]
struct Format {
    format: u64,
}

/// The rotation of one provider's keys.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Rotation {
    /// Number of keys.
    pub keys: usize,
    /// Index of the next run's key.
    pub next: usize,
    /// End of the pause of each refused key, in Unix seconds.
    pub until: BTreeMap<usize, u64>,
}

/// Changes the rotation of a provider with `keys` keys.
///
/// Another number of keys resets it. Returns `None` if the file is locked by another process, has a newer
/// format, or the disk fails. Does not wait.
pub fn change<T>(
    state: &StateDir,
    provider: &str,
    keys: usize,
    change: impl FnOnce(&mut Rotation) -> T,
) -> Option<T> {
    let write = || -> Result<Option<T>, StateError> {
        let Some(_lock) = state.try_lock(LOCK)? else { return Ok(None) };
        let bytes = state.read(FILE)?.unwrap_or_default();
        // A damaged file is replaced.
        if serde_json::from_slice::<Format>(&bytes).is_ok_and(|stored| stored.format > FORMAT) {
            return Ok(None);
        }
        let mut stored = serde_json::from_slice::<Stored>(&bytes).unwrap_or_default();
        let rotation = stored.providers.entry(provider.to_owned()).or_default();
        if rotation.keys != keys || rotation.next >= keys {
            *rotation = Rotation { keys, ..Rotation::default() };
        }
        let now = now();
        rotation.until.retain(|_, until| *until > now);
        let changed = change(rotation);
        stored.format = FORMAT;
        let json = serde_json::to_vec(&stored).expect("names and numbers are JSON");
        state.write_atomic(FILE, &json)?;
        Ok(Some(changed))
    };
    write().unwrap_or_else(|error| {
        tracing::debug!(%error, "cannot store the rotation of keys");
        None
    })
}

/// Returns the current time in Unix seconds.
pub fn now() -> u64 {
    llm::now_ms() / 1000
}
