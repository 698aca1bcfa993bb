//! Journal entries without a commit: late edits of an editor, and checkpoints.

use std::time::Duration;

use paths::{AbsPath, StateError};

use crate::documents::content::{BOM, Content, Image};
use crate::journal::LOCK;
use crate::journal::{CommitId, RunId};
use crate::journal::{Entry, Journal, Pack, StoredStep};
use crate::workspace::Workspace;

const LOCK_DEADLINE: Duration = Duration::from_secs(30);

impl Workspace {
    /// Records a change of an open document from `before` to `after` for `run`.
    ///
    /// The journal treats it like a commit. Changes no file. Blocks, up to 30 s for a running commit.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn record(
        &self,
        run: &RunId,
        label: &str,
        path: &AbsPath,
        before: &str,
        after: &str,
    ) -> Result<CommitId, StateError> {
        let _lock = self.inner.state.lock(LOCK, LOCK_DEADLINE)?;
        let journal = Journal::new(&self.inner.state)?;
        self.inner.describe()?;
        let bom = self.inner.open_document(path).is_some_and(|document| document.bom);
        let mut pack = Pack::default();
        let mut stored = |text: &str| {
            let content = Content::text(text.strip_prefix(BOM).unwrap_or(text), bom);
            Some(pack.add(&Image::new(content, None)))
        };
        let mut entry = Entry::new(journal.next_id()?, run.clone(), label.to_owned());
        entry.steps.push(StoredStep {
            path: path.clone(),
            before: stored(before),
            after: stored(after),
            moved_from: None,
            open: true,
            in_place: false,
            adopted: false,
        });
        journal.store(&entry.id, &pack)?;
        journal.write_pending(&entry)?;
        journal.finish(&entry.id)?;
        Ok(entry.id)
    }

    /// Names this point in the history for [`Undo::Since`](crate::Undo::Since).
    ///
    /// Changes no file. Blocks as [`Self::record`] does.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn checkpoint(&self, run: &RunId, name: &str) -> Result<CommitId, StateError> {
        let _lock = self.inner.state.lock(LOCK, LOCK_DEADLINE)?;
        let journal = Journal::new(&self.inner.state)?;
        self.inner.describe()?;
        let entry = Entry::new(journal.next_id()?, run.clone(), format!("checkpoint: {name}"));
        let entry = Entry { checkpoint: Some(name.to_owned()), ..entry };
        journal.store(&entry.id, &Pack::default())?;
        journal.write_pending(&entry)?;
        journal.finish(&entry.id)?;
        Ok(entry.id)
    }
}
