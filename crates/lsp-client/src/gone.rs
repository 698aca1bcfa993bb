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

/// Files that went, the newest last.
#[derive(Default)]
pub(crate) struct Gone(Mutex<Vec<Went>>);

#[derive(Clone)]
struct Went {
    path: AbsPath,
    /// When the server was told.
    since: Instant,
    /// When it was last asked about it after its time.
    asked: Option<Instant>,
}

impl Gone {
    fn list(&self) -> std::sync::MutexGuard<'_, Vec<Went>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn went<'a>(&self, paths: impl Iterator<Item = &'a AbsPath>) {
        let mut list = self.list();
        for path in paths {
            list.retain(|it| it.path != *path);
            list.push(Went { path: path.clone(), since: Instant::now(), asked: None });
        }
        let more = list.len().saturating_sub(LIMIT);
        list.drain(..more);
    }

    fn seen(&self, path: &AbsPath) {
        self.list().retain(|it| it.path != *path);
    }

    /// Whether it is time to ask once more about a file that the server did not see in its time; who is told so
    /// asks.
    fn is_due(&self, path: &AbsPath) -> bool {
        let mut list = self.list();
        let Some(went) = list.iter_mut().find(|it| it.path == *path) else { return false };
        let is_due = went.asked.is_none_or(|asked| asked.elapsed() >= PATIENCE);
        if is_due {
            went.asked = Some(Instant::now());
        }
        is_due
    }

    /// A file that the server has not shown to have seen going.
    pub fn unseen(&self) -> Option<AbsPath> {
        self.list().last().map(|it| it.path.clone())
    }

    /// Whether the server may still see it: what it answers is not believed.
    pub fn is_awaited(&self) -> bool {
        self.list().iter().any(|it| it.since.elapsed() < PATIENCE)
    }
}

impl Server {
    /// The server is told that these are gone.
    pub fn went<'a>(&self, paths: impl Iterator<Item = &'a AbsPath>) {
        if self.core.definition.watch.gone.is_some() {
            self.core.gone.went(paths.filter(|path| self.is_source(path)));
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
        for Went { path, since, .. } in left {
            let most = clock.at(75);
            let until = most.min(since + PATIENCE);
            // One that it did not see in its time is asked about now and then, and not waited for.
            let is_late = since.elapsed() >= PATIENCE;
            let mut pause = PAUSE;
            loop {
                // One that is there again, or in an editor, it is told of otherwise.
                if path.as_path().exists() || self.core.documents().holds(&path) {
                    self.core.gone.seen(&path);
                    break;
                }
                let now = Instant::now();
                let within = match is_late {
                    true => most.saturating_duration_since(now).min(LONGEST_PAUSE),
                    false => until.saturating_duration_since(now),
                };
                if within.is_zero() || is_late && !self.core.gone.is_due(&path) {
                    break;
                }
                let params = json!({"textDocument": {"uri": path_to_uri(path.as_path())}});
                match self.peer.request(question, &params, within, clock.cancel).await {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_seen_in_time_is_asked_about_now_and_then() {
        let gone = Gone::default();
        let path = AbsPath::new("/p/a.txt").unwrap();
        gone.went([&path].into_iter());
        assert!(gone.is_due(&path) && !gone.is_due(&path));
        gone.seen(&path);
        assert!(!gone.is_due(&path) && gone.unseen().is_none());
    }
}
