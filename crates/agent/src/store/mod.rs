//! Session files: append-only JSON Lines, one tree of entries.
//!
//! `docs/formats/session.md` has the format.
//!
//! A line is never changed once written; unreadable lines are skipped with a warning.

mod entry;
mod file;
mod import;
mod loaded;
mod migrate;
pub(crate) mod replay;
mod sessions;
mod summaries;
#[cfg(test)]
mod tests;

pub use entry::{Entry, EntryBody, Header, summary_text};
pub(crate) use entry::{is_any_summary, is_summary, summary_message};
pub use file::SessionFile;
pub use loaded::{ContextItem, LoadedSession, TreeLine, parse};
pub use sessions::{ImportedSession, NEWEST, NewSession, SessionStore, StoreError, StoredFile};
pub use summaries::SessionSummary;
