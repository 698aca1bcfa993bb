//! Sessions kept in files: append-only JSON Lines, one tree of entries (`docs/formats/session.md`). Files are never
//! rewritten; what cannot be read in one is skipped with a warning.

mod entry;
mod file;

pub use entry::{Entry, EntryBody, Header, LoadedSession, VERSION, parse};
pub use file::{NewSession, SessionFile, SessionStore, SessionSummary, StoreError};
