//! Whose turn it is of several keys of a provider, and until when a refused one is left alone, kept from one process to the next
//! (`docs/formats/key-turns.md`). Numbers of keys and times, nothing of a key. What cannot be kept counts in its process alone.

use std::collections::BTreeMap;

use paths::{StateDir, StateError};
use serde::{Deserialize, Serialize};

/// The file in the state folder.
pub const FILE: &str = "key-turns.json";
const LOCK: &str = "key-turns.lock";
const FORMAT: u64 = 1;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    format: u64,
    #[serde(default)]
    providers: BTreeMap<String, Kept>,
}

/// What every format has.
#[derive(Deserialize)]
struct Format {
    format: u64,
}

/// What is kept of one provider.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Kept {
    /// How many keys it has.
    pub keys: usize,
    /// The one that the next run begins with, from 0.
    pub next: usize,
    /// Until when each that was refused is left alone, in Unix seconds.
    pub until: BTreeMap<usize, u64>,
}

/// Changes what is kept of a provider with so many keys; another number of them begins anew. `None` where it cannot be kept: another
/// process just changes it, a newer program wrote it, or the disk fails. Does not wait.
pub fn change<T>(
    state: &StateDir,
    provider: &str,
    keys: usize,
    change: impl FnOnce(&mut Kept) -> T,
) -> Option<T> {
    let write = || -> Result<Option<T>, StateError> {
        let Some(_lock) = state.try_lock(LOCK)? else { return Ok(None) };
        let bytes = state.read(FILE)?.unwrap_or_default();
        // One that is damaged is no loss.
        if serde_json::from_slice::<Format>(&bytes).is_ok_and(|it| it.format > FORMAT) {
            return Ok(None);
        }
        let mut stored = serde_json::from_slice::<Stored>(&bytes).unwrap_or_default();
        let kept = stored.providers.entry(provider.to_owned()).or_default();
        if kept.keys != keys || kept.next >= keys {
            *kept = Kept { keys, ..Kept::default() };
        }
        let now = now();
        kept.until.retain(|_, until| *until > now);
        let changed = change(kept);
        stored.format = FORMAT;
        let json = serde_json::to_vec(&stored).expect("names and numbers are JSON");
        state.write_atomic(FILE, &json)?;
        Ok(Some(changed))
    };
    write().unwrap_or_else(|error| {
        tracing::debug!(%error, "whose turn it is of the keys is not kept");
        None
    })
}

/// Unix seconds.
pub fn now() -> u64 {
    llm::now_ms() / 1000
}
