//! Check on save: diagnostics from a program that reads saved files.
//!
//! Pilcrow requests the check (rust-analyzer: flycheck), since no editor triggers it on save here.
//!
//! Invariants: results belong to the requested texts, which are those on disk; where that cannot be known, the
//! result is a [`SaveCheckError`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use paths::AbsPath;
use workspace::Document;

use super::diagnostics::{read, refreshed};
use crate::answer::Diagnostic;
use crate::diagnostics::check_on_save::WaitOutcome;
use crate::error::{Result, ServerError};
use crate::note::SaveCheckError;
use crate::pool::{RequestCx, ServerPool};
use crate::server::documents::Synced;
use crate::server::{Clock, Server};
use adapters::CheckRule;

/// Time for a check to start.
const BEGINS: Duration = Duration::from_secs(10);
/// Time for a check to start if the last one did not start.
const BEGINS_LATE: Duration = Duration::from_secs(1);
/// Maximum number of attempts while files change during the check.
const MAX_ATTEMPTS: usize = 3;

/// The check of one server.
#[derive(Debug, Clone)]
pub struct SaveCheck {
    pub server: String,
    /// The requested files; those of another server of that name may differ.
    pub asked: Vec<AbsPath>,
    pub found: Result<SavedProblems, SaveCheckError>,
}

/// Diagnostics of a server's sources in `diagnostics.on_save`.
#[derive(Debug, Clone)]
pub struct SavedProblems {
    /// Diagnostics of each requested file, and of each other file with an error.
    pub files: BTreeMap<AbsPath, Vec<Diagnostic>>,
    /// All files with an error, requested or not.
    ///
    /// The program may not have checked all that depends on them: Cargo skips dependents of a crate that
    /// fails, and rustc skips borrow checking if a name is not found.
    pub with_errors: BTreeSet<AbsPath>,
}

impl ServerPool {
    /// Whether a server's check on save can be requested.
    pub fn checks_saved(&self, server: &str) -> bool {
        self.definitions().get(server).is_some_and(|it| it.diagnostics.check.is_some())
    }

    /// Requests the check of `docs` from their running servers that offer it.
    ///
    /// # Errors
    /// [`ServerError::Cancelled`] only.
    pub async fn check_saved(self: &Arc<Self>, docs: &[&Document], cx: &RequestCx) -> Result<Vec<SaveCheck>> {
        let clock = cx.clock();
        let servers = self.use_running();
        let asks = servers.iter().filter_map(|server| {
            let definition = &server.core.definition;
            let speaks = |doc: &&Document| definition.language_id(doc.path.as_path()).is_some();
            definition.diagnostics.check.as_ref()?;
            let own: Vec<&Document> =
                docs.iter().copied().filter(|doc| speaks(doc) && server.is_below(&doc.path)).collect();
            (!own.is_empty()).then_some(async move {
                let found = match of_one(server, &own, clock).await {
                    Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                    Err(error) => Err(SaveCheckError::Failed(error)),
                    Ok(found) => found,
                };
                let asked = own.iter().map(|doc| doc.path.clone()).collect();
                Ok(SaveCheck { server: server.name().to_owned(), asked, found })
            })
        });
        futures_util::future::join_all(asks).await.into_iter().collect()
    }
}

type Checked = Result<SavedProblems, SaveCheckError>;

/// Repeats the check until files and project stay unchanged during it.
///
/// The first check may change files itself: Cargo writes a missing `Cargo.lock`.
async fn of_one(server: &Server, docs: &[&Document], clock: Clock<'_>) -> Result<Checked> {
    let saved = &server.core.check_on_save;
    let Some(rule) = saved.rule() else { return Ok(Err(SaveCheckError::Unsupported)) };
    let turn = tokio::select! {
        biased;
        () = clock.cancel.cancelled() => return Err(ServerError::Cancelled),
        turn = tokio::time::timeout(clock.left(), saved.turn.acquire()) => turn,
    };
    let Ok(Ok(_turn)) = turn else { return Ok(Err(unfinished(server))) };
    let mut attempts = 1;
    loop {
        // Notifications may have made it reload its project.
        tokio::select! {
            biased;
            () = clock.cancel.cancelled() => return Err(ServerError::Cancelled),
            _ = server.peer.closed() => return Err(server.crashed(&rule.method).await),
            _ = server.core.loading.wait(clock.until) => {}
        }
        match check(server, rule, docs, clock).await? {
            Attempt::Ended(found) => return Ok(found),
            Attempt::Void(why) if attempts == MAX_ATTEMPTS => return Ok(Err(why)),
            Attempt::Void(_) => attempts += 1,
        }
    }
}

/// The outcome of one attempt.
enum Attempt {
    Ended(Checked),
    /// Files or project changed, so the result may belong to either state.
    Void(SaveCheckError),
}

async fn check(server: &Server, rule: &CheckRule, docs: &[&Document], clock: Clock<'_>) -> Result<Attempt> {
    let saved = &server.core.check_on_save;
    let unknown = |why: SaveCheckError| Ok(Attempt::Ended(Err(why)));
    if let Some(path) = unsaved(server) {
        return unknown(SaveCheckError::Unsaved(path));
    }
    let loads = server.core.loading.loads();
    if !server.core.loading.is_ready() {
        return unknown(SaveCheckError::Loading(server.activity()));
    }
    // Without a project there is nothing to check.
    if let Some(why) = server.core.loading.failure() {
        return unknown(SaveCheckError::Reported(why));
    }
    // Report the changes up to now before the check.
    refreshed(server, clock).await?;
    let disk_changes = server.core.diagnostics.now().disk_changes;
    let room = server.room(&rule.method, clock).await?;
    let (begun, again) = saved.asks(disk_changes);
    if again && room.notify(&rule.method, &rule.params).is_err() {
        return Err(server.crashed(&rule.method).await);
    }
    drop(room);
    let begins = Instant::now() + if saved.did_not_start() { BEGINS_LATE } else { BEGINS };
    let waited = tokio::select! {
        biased;
        () = clock.cancel.cancelled() => return Err(ServerError::Cancelled),
        _ = server.peer.closed() => return Err(server.crashed(&rule.method).await),
        waited = saved.wait(begun, begins, clock.until) => waited,
    };
    match waited {
        WaitOutcome::Ended => {}
        WaitOutcome::Unfinished => return unknown(unfinished(server)),
        // A server that reloads its project may forget the request.
        WaitOutcome::Silent if server.core.loading.loads() != loads => {
            return Ok(Attempt::Void(SaveCheckError::Reloaded));
        }
        WaitOutcome::Silent => {
            saved.record_no_start();
            return unknown(SaveCheckError::NotStarted);
        }
    }
    if let Some(trouble) = server.core.loading.trouble() {
        return unknown(SaveCheckError::Reported(trouble.text));
    }
    if saved.is_full() {
        return unknown(SaveCheckError::TooManyFiles);
    }
    // Files that changed during the check may have been read in either state.
    refreshed(server, clock).await?;
    if unsaved(server).is_some() {
        return unknown(SaveCheckError::FilesChanged);
    }
    let on_save = &server.core.definition.diagnostics.on_save;
    let with_errors = saved.with_errors(on_save);
    let others = with_errors.iter().filter(|path| docs.iter().all(|doc| doc.path != **path));
    let others: Vec<Document> = others.filter_map(|path| server.core.workspace.document(path).ok()).collect();
    let mut files = BTreeMap::new();
    for doc in docs.iter().copied().chain(&others) {
        let is_as_asked = |now: Document| now.text == doc.text && !now.is_unsaved();
        if !server.core.workspace.document(&doc.path).is_ok_and(is_as_asked) {
            return unknown(SaveCheckError::FilesChanged);
        }
        let mut items = match saved.of(&doc.path) {
            Some(items) => read(server, &Synced::on_disk(doc), &items)?,
            None => Vec::new(),
        };
        items.retain(|item| item.source.as_ref().is_some_and(|it| on_save.contains(it)));
        files.insert(doc.path.clone(), items);
    }
    if server.core.diagnostics.now().disk_changes != disk_changes {
        return Ok(Attempt::Void(SaveCheckError::FilesChanged));
    }
    // A check that runs during a reload ends without results (rust-analyzer 1.96).
    if server.core.loading.loads() != loads {
        return Ok(Attempt::Void(SaveCheckError::Reloaded));
    }
    Ok(Attempt::Ended(Ok(SavedProblems { files, with_errors })))
}

fn unfinished(server: &Server) -> SaveCheckError {
    SaveCheckError::Unfinished { progress: server.core.check_on_save.activity() }
}

/// A document of the server that an editor has not saved.
fn unsaved(server: &Server) -> Option<AbsPath> {
    let open = server.core.workspace.open_documents();
    open.into_iter().find(|document| server.hides(document)).map(|document| document.path)
}
