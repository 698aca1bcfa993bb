//! Deleted files that a server still answers about.
//!
//! A server that reads the disk in the background may answer a request before it has noticed the deletion.
//! Invariants: if the definition has a probe for that, requests are sent after the probe fails, or
//! the answer carries a note.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use paths::{AbsPath, path_to_uri};
use serde_json::json;
use wire::{RequestError, codes};
use workspace::Document;

use crate::error::{Result, ServerError};
use crate::server::{Clock, LONGEST_PAUSE, PAUSE, Server};

/// Maximum number of files to probe, the newest.
///
/// The newest suffice: a server that needs probes processes deletions in order.
const LIMIT: usize = 16;
/// Maximum time for a server to notice a deletion.
const PATIENCE: Duration = Duration::from_secs(20);

/// Deleted files, the newest last.
#[derive(Default)]
pub(crate) struct DeletedFiles(Mutex<Vec<Deletion>>);

#[derive(Clone)]
struct Deletion {
    path: AbsPath,
    /// Time of the notification to the server.
    since: Instant,
    /// Time of the last probe after the file's time had expired.
    asked: Option<Instant>,
}

impl DeletedFiles {
    fn list(&self) -> parking_lot::MutexGuard<'_, Vec<Deletion>> {
        self.0.lock()
    }

    fn record_deletions<'a>(&self, paths: impl Iterator<Item = &'a AbsPath>) {
        let mut list = self.list();
        for path in paths {
            list.retain(|it| it.path != *path);
            list.push(Deletion { path: path.clone(), since: Instant::now(), asked: None });
        }
        let more = list.len().saturating_sub(LIMIT);
        list.drain(..more);
    }

    fn remove(&self, path: &AbsPath) {
        self.list().retain(|it| it.path != *path);
    }

    /// Whether the caller must probe an expired file again.
    fn is_due(&self, path: &AbsPath) -> bool {
        let mut list = self.list();
        let Some(deletion) = list.iter_mut().find(|it| it.path == *path) else { return false };
        let is_due = deletion.asked.is_none_or(|asked| asked.elapsed() >= PATIENCE);
        if is_due {
            deletion.asked = Some(Instant::now());
        }
        is_due
    }

    /// A file whose deletion the server has not noticed.
    pub(crate) fn unnoticed(&self) -> Option<AbsPath> {
        self.list().last().map(|it| it.path.clone())
    }

    /// Whether the server may still notice a deletion; its answers are unreliable.
    pub(crate) fn is_awaited(&self) -> bool {
        self.list().iter().any(|it| it.since.elapsed() < PATIENCE)
    }
}

impl Server {
    /// Records files whose deletion the server is notified of.
    pub(crate) fn record_deletions<'a>(&self, paths: impl Iterator<Item = &'a AbsPath>) {
        if self.core.definition.watch.deletion_probe.is_some() {
            self.core.deleted_files.record_deletions(paths.filter(|path| self.is_source(path)));
        }
    }

    /// Closes deleted documents, and waits until the server has noticed the deletions.
    ///
    /// Waits at most three quarters of the time. Reads files.
    pub(crate) async fn await_deletions(&self, method: &str, clock: Clock<'_>) -> Result<()> {
        let Some(question) = &self.core.definition.watch.deletion_probe else { return Ok(()) };
        let mut gone: Vec<(AbsPath, Option<Document>)> = self.read_open(None);
        gone.retain(|(_, document)| document.is_none());
        if !gone.is_empty() {
            let room = self.room(method, clock).await?;
            if self.sync(&room, &gone, None).is_err() {
                return Err(self.crashed(method).await);
            }
            self.record_deletions(gone.iter().map(|(path, _)| path));
        }
        let left = self.core.deleted_files.list().clone();
        for Deletion { path, since, .. } in left {
            let most = clock.at(75);
            let until = most.min(since + PATIENCE);
            // A deletion that was not noticed in time is probed at intervals, and not awaited.
            let is_late = since.elapsed() >= PATIENCE;
            let mut pause = PAUSE;
            loop {
                // A file that exists again, or is open in an editor, is handled elsewhere.
                if path.as_path().exists() || self.core.documents().holds(&path) {
                    self.core.deleted_files.remove(&path);
                    break;
                }
                let now = Instant::now();
                let within = match is_late {
                    true => most.saturating_duration_since(now).min(LONGEST_PAUSE),
                    false => until.saturating_duration_since(now),
                };
                if within.is_zero() || is_late && !self.core.deleted_files.is_due(&path) {
                    break;
                }
                let params = json!({"textDocument": {"uri": path_to_uri(path.as_path())}});
                match self.peer.request(question, &params, within, clock.cancel).await {
                    Err(RequestError::Rpc { error, .. })
                        if !matches!(error.code, codes::CONTENT_MODIFIED | codes::SERVER_CANCELLED) =>
                    {
                        self.core.deleted_files.remove(&path);
                        break;
                    }
                    Err(RequestError::Cancelled { .. }) => return Err(ServerError::Cancelled),
                    // The request itself will report this.
                    Err(RequestError::Closed { .. } | RequestError::Encode { .. }) => return Ok(()),
                    Ok(_) | Err(RequestError::Rpc { .. } | RequestError::Deadline { .. }) => {}
                }
                if Instant::now() + pause >= until {
                    break;
                }
                tokio::select! {
                    biased;
                    () = clock.cancel.cancelled() => return Err(ServerError::Cancelled),
                    () = tokio::time::sleep(pause) => {}
                }
                pause = LONGEST_PAUSE.min(pause * 2);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unnoticed_deletion_is_probed_at_intervals() {
        let gone = DeletedFiles::default();
        let path = AbsPath::new("/p/a.txt").unwrap();
        gone.record_deletions([&path].into_iter());
        assert!(gone.is_due(&path) && !gone.is_due(&path));
        gone.remove(&path);
        assert!(!gone.is_due(&path) && gone.unnoticed().is_none());
    }
}
