//! Files that went, of which a server that reads the disk in its own time answers as if they were there.
//!
//! It hears of them, but what is asked right after may be answered before it has looked. What must stay true: where its
//! definition says how it shows that it has seen it, a question is sent after that, or it is said that it was not.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use wire::{RequestError, codes};
use workspace::{AbsPath, Document, path_to_uri};

use crate::error::ServerError;
use crate::server::{Clock, LONGEST_PAUSE, PAUSE, Server};

/// Files that are asked about, the newest: such a server looks at them in the order in which it hears of them.
const LIMIT: usize = 16;
/// How long a server may take to see that a file went.
const PATIENCE: Duration = Duration::from_secs(20);

/// Files that went, and when the server was told; the newest last.
#[derive(Default)]
pub(crate) struct Gone(Mutex<Vec<(AbsPath, Instant)>>);

impl Gone {
    fn list(&self) -> std::sync::MutexGuard<'_, Vec<(AbsPath, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn went<'a>(&self, paths: impl Iterator<Item = &'a AbsPath>) {
        let mut list = self.list();
        for path in paths {
            list.retain(|(it, _)| it != path);
            list.push((path.clone(), Instant::now()));
        }
        let more = list.len().saturating_sub(LIMIT);
        list.drain(..more);
    }

    fn seen(&self, path: &AbsPath) {
        self.list().retain(|(it, _)| it != path);
    }

    /// A file that the server has not shown to have seen going.
    pub fn unseen(&self) -> Option<AbsPath> {
        self.list().last().map(|(path, _)| path.clone())
    }

    /// Whether the server may still see it: what it answers is not believed.
    pub fn is_awaited(&self) -> bool {
        self.list().iter().any(|(_, since)| since.elapsed() < PATIENCE)
    }
}

impl Server {
    /// The server is told that these are gone.
    pub fn went<'a>(&self, paths: impl Iterator<Item = &'a AbsPath>) {
        let definition = &self.core.definition;
        if definition.watch.gone.is_some() {
            let is_its =
                |path: &&AbsPath| definition.language_id(path.as_path()).is_some() && self.is_below(path);
            self.core.gone.went(paths.filter(is_its));
        }
    }

    /// Closes what is gone, and waits until the server has seen what went, at most until three quarters of the time
    /// are over. Reads files.
    pub async fn see_gone(&self, method: &str, clock: Clock<'_>) -> Result<(), ServerError> {
        let Some(question) = &self.core.definition.watch.gone else { return Ok(()) };
        let mut gone: Vec<(AbsPath, Option<Document>)> = self.read_open(None);
        gone.retain(|(_, document)| document.is_none());
        if !gone.is_empty() {
            let room = self.room(method, clock).await?;
            if self.sync(&room, &gone, None).is_err() {
                return Err(self.crashed(method).await);
            }
            self.went(gone.iter().map(|(path, _)| path));
        }
        let left = self.core.gone.list().clone();
        for (path, since) in left {
            let until = clock.at(75).min(since + PATIENCE);
            let mut pause = PAUSE;
            loop {
                // One that is there again, or in an editor, it is told of otherwise.
                if path.as_path().exists() || self.core.documents().holds(&path) {
                    self.core.gone.seen(&path);
                    break;
                }
                let params = json!({"textDocument": {"uri": path_to_uri(path.as_path())}});
                match self.peer.request(question, &params, clock.left(), clock.cancel).await {
                    Err(RequestError::Rpc { error, .. })
                        if !matches!(error.code, codes::CONTENT_MODIFIED | codes::SERVER_CANCELLED) =>
                    {
                        self.core.gone.seen(&path);
                        break;
                    }
                    Err(RequestError::Cancelled { .. }) => return Err(ServerError::Cancelled),
                    // The question itself will say so.
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
