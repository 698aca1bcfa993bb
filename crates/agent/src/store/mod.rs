//! Sessions kept in files: append-only JSON Lines, one tree of entries (`docs/formats/session.md`). A line that was written is never
//! changed; what cannot be read is skipped with a warning.

mod entry;
mod file;
mod loaded;
mod migrate;
mod sessions;
mod summaries;
#[cfg(test)]
mod tests;

pub use entry::{Entry, EntryBody, Header, VERSION, is_summary, summary_message, summary_text};
pub use file::SessionFile;
pub use loaded::{ContextItem, LoadedSession, TreeLine, parse};
pub use sessions::{NewSession, SessionStore, StoreError, StoredFile};
pub use summaries::SessionSummary;
