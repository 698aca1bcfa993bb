//! What servers find in files as they are saved, by a program that reads the disk: it is asked for, since nobody
//! runs it on each save here.
//!
//! What must stay true: what is told is about the texts that were asked about, which are those on the disk; where
//! that cannot be known, it is said why.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use workspace::{AbsPath, Document, Owner};

use super::diagnostics::{read, refreshed};
use crate::answer::Diagnostic;
use crate::documents::{Sent, Synced};
use crate::error::ServerError;
use crate::pool::{RequestCx, ServerPool};
use crate::saved::Waited;
use crate::server::{Clock, Server};
use crate::view::View;

/// How long a server may take to begin …
const BEGINS: Duration = Duration::from_secs(10);
/// … and one that did not the last time.
const BEGINS_LATE: Duration = Duration::from_secs(1);

/// What one server found in saved files.
#[derive(Debug, Clone)]
pub struct FoundSaved {
    /// The definition's name.
    pub server: String,
    /// The files that it was asked about; another server of that name may be asked about others.
    pub asked: Vec<AbsPath>,
    /// What was found; `Err`: why that is not known.
    pub found: Result<SavedProblems, String>,
}

/// What a server's sources of `diagnostics.on_save` say.
#[derive(Debug, Clone)]
pub struct SavedProblems {
    /// Of each file that it was asked about.
    pub files: BTreeMap<AbsPath, Vec<Diagnostic>>,
    /// All files that have an error, asked about or not. The program may not have looked at all of what depends on
    /// them: Cargo checks no dependents of a crate that fails, and rustc no borrows where a name is not found.
    pub with_errors: BTreeSet<AbsPath>,
}

impl ServerPool {
    /// Whether what a server finds on save can be asked for.
    pub fn checks_saved(&self, server: &str) -> bool {
        self.definitions().get(server).is_some_and(|it| it.diagnostics.check.is_some())
    }

    /// Has the running servers of `docs` that can be asked for it look at the files on the disk.
    ///
    /// # Errors
    /// [`ServerError::Cancelled`] only.
    pub async fn check_saved(
        self: &Arc<Self>,
        docs: &[&Document],
        cx: &RequestCx,
    ) -> Result<Vec<FoundSaved>, ServerError> {
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
                    Err(error) => Err(error.to_string()),
                    Ok(found) => found,
                };
                let asked = own.iter().map(|doc| doc.path.clone()).collect();
                Ok(FoundSaved { server: server.name().to_owned(), asked, found })
            })
        });
        futures_util::future::join_all(asks).await.into_iter().collect()
    }
}

type Found = Result<SavedProblems, String>;

async fn of_one(server: &Server, docs: &[&Document], clock: Clock<'_>) -> Result<Found, ServerError> {
    let saved = &server.core.saved;
    let Some(rule) = saved.rule() else { return Ok(Err("it cannot be asked".to_owned())) };
    if let Some(path) = unsaved(server) {
        return Ok(Err(format!("{} is not saved", server.core.workspace.relative(&path))));
    }
    if !server.core.loading.is_ready() {
        return Ok(Err(format!("it is still loading: {}", server.doing())));
    }
    // It has no project that could be looked at.
    if let Some(why) = server.core.loading.failure() {
        return Ok(Err(why));
    }
    let late = || {
        let doing = saved.doing().map(|doing| format!(" ({doing})")).unwrap_or_default();
        format!("it had not ended in time{doing}; ask again, it goes on")
    };
    let turn = tokio::select! {
        biased;
        () = clock.cancel.cancelled() => return Err(ServerError::Cancelled),
        turn = tokio::time::timeout(clock.left(), saved.turn.acquire()) => turn,
    };
    let Ok(Ok(_turn)) = turn else { return Ok(Err(late())) };
    // What changed by now is counted before it is asked.
    refreshed(server, clock).await?;
    let heard = server.core.diagnostics.now().heard;
    let room = server.room(&rule.method, clock).await?;
    let (begun, again) = saved.asks(heard);
    if again && room.notify(&rule.method, &rule.params).is_err() {
        return Err(server.crashed(&rule.method).await);
    }
    drop(room);
    let begins = Instant::now() + if saved.is_mute() { BEGINS_LATE } else { BEGINS };
    let waited = tokio::select! {
        biased;
        () = clock.cancel.cancelled() => return Err(ServerError::Cancelled),
        _ = server.peer.closed() => return Err(server.crashed(&rule.method).await),
        waited = saved.wait(begun, begins, clock.until) => waited,
    };
    match waited {
        Waited::Ended => {}
        Waited::GoesOn => return Ok(Err(late())),
        Waited::Silent => {
            saved.did_not_begin();
            return Ok(Err("it did not begin".to_owned()));
        }
    }
    if let Some(trouble) = server.core.loading.trouble() {
        return Ok(Err(trouble.text));
    }
    if saved.is_full() {
        return Ok(Err("it found something in too many files".to_owned()));
    }
    // What changed meanwhile may have been looked at in the one or the other state.
    refreshed(server, clock).await?;
    if server.core.diagnostics.now().heard != heard || unsaved(server).is_some() {
        return Ok(Err("files changed meanwhile".to_owned()));
    }
    let on_save = &server.core.definition.diagnostics.on_save;
    let mut files = BTreeMap::new();
    for doc in docs {
        let is_as_asked = |now: Document| now.text == doc.text && now.owner != Owner::Editor { dirty: true };
        if !server.core.workspace.document(&doc.path).is_ok_and(is_as_asked) {
            return Ok(Err("files changed meanwhile".to_owned()));
        }
        let mut items = match saved.of(&doc.path) {
            Some(items) => read(server, &on_disk(doc), &items)?,
            None => Vec::new(),
        };
        items.retain(|item| item.source.as_ref().is_some_and(|it| on_save.contains(it)));
        files.insert(doc.path.clone(), items);
    }
    Ok(Ok(SavedProblems { files, with_errors: saved.with_errors(on_save) }))
}

/// A document of the server's that an editor has not saved.
fn unsaved(server: &Server) -> Option<AbsPath> {
    let open = server.core.workspace.open_documents();
    open.into_iter().find(|document| server.hides(document)).map(|document| document.path)
}

/// A text as it is on the disk.
fn on_disk(document: &Document) -> Synced {
    Synced {
        uri: document.uri.clone(),
        number: 0,
        opened: 0,
        version: document.version,
        view: Arc::new(View::new(Arc::clone(&document.text))),
        sent: Sent::default(),
        closed: None,
    }
}
