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
use crate::definition::CheckRule;
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
/// How often it is asked about files that change while it looks.
const LOOKS: usize = 3;
/// Why a look says nothing.
const CHANGED: &str = "files changed meanwhile";
const LOADED: &str = "it loaded its project anew meanwhile";

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

/// Looks until files stay as they are, and the server's project, while it looks. The first look may itself change
/// them: Cargo writes the `Cargo.lock` that is missing.
async fn of_one(server: &Server, docs: &[&Document], clock: Clock<'_>) -> Result<Found, ServerError> {
    let saved = &server.core.saved;
    let Some(rule) = saved.rule() else { return Ok(Err("it cannot be asked".to_owned())) };
    let turn = tokio::select! {
        biased;
        () = clock.cancel.cancelled() => return Err(ServerError::Cancelled),
        turn = tokio::time::timeout(clock.left(), saved.turn.acquire()) => turn,
    };
    let Ok(Ok(_turn)) = turn else { return Ok(Err(late(server))) };
    let mut looks = 1;
    loop {
        // What it heard may have it load its project anew.
        tokio::select! {
            biased;
            () = clock.cancel.cancelled() => return Err(ServerError::Cancelled),
            _ = server.peer.closed() => return Err(server.crashed(&rule.method).await),
            _ = server.core.loading.wait(clock.until) => {}
        }
        match look(server, rule, docs, clock).await? {
            Looked::Ended(found) => return Ok(found),
            Looked::Void(why) if looks == LOOKS => return Ok(Err(why.to_owned())),
            Looked::Void(_) => looks += 1,
        }
    }
}

/// What came of a look.
enum Looked {
    Ended(Found),
    /// It may be about the one or the other state of the files: why.
    Void(&'static str),
}

async fn look(
    server: &Server,
    rule: &CheckRule,
    docs: &[&Document],
    clock: Clock<'_>,
) -> Result<Looked, ServerError> {
    let saved = &server.core.saved;
    let unknown = |why: String| Ok(Looked::Ended(Err(why)));
    if let Some(path) = unsaved(server) {
        return unknown(format!("{} is not saved", server.core.workspace.relative(&path)));
    }
    let loads = server.core.loading.loads();
    if !server.core.loading.is_ready() {
        return unknown(format!("it is still loading: {}", server.doing()));
    }
    // It has no project that could be looked at.
    if let Some(why) = server.core.loading.failure() {
        return unknown(why);
    }
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
        Waited::GoesOn => return unknown(late(server)),
        // One that loads its project anew may forget that it was asked.
        Waited::Silent if server.core.loading.loads() != loads => return Ok(Looked::Void(LOADED)),
        Waited::Silent => {
            saved.did_not_begin();
            return unknown("it did not begin".to_owned());
        }
    }
    if let Some(trouble) = server.core.loading.trouble() {
        return unknown(trouble.text);
    }
    if saved.is_full() {
        return unknown("it found something in too many files".to_owned());
    }
    // What changed meanwhile may have been looked at in the one or the other state.
    refreshed(server, clock).await?;
    if unsaved(server).is_some() {
        return unknown(CHANGED.to_owned());
    }
    let on_save = &server.core.definition.diagnostics.on_save;
    let mut files = BTreeMap::new();
    for doc in docs {
        let is_as_asked = |now: Document| now.text == doc.text && now.owner != Owner::Editor { dirty: true };
        if !server.core.workspace.document(&doc.path).is_ok_and(is_as_asked) {
            return unknown(CHANGED.to_owned());
        }
        let mut items = match saved.of(&doc.path) {
            Some(items) => read(server, &on_disk(doc), &items)?,
            None => Vec::new(),
        };
        items.retain(|item| item.source.as_ref().is_some_and(|it| on_save.contains(it)));
        files.insert(doc.path.clone(), items);
    }
    let with_errors = saved.with_errors(on_save);
    if server.core.diagnostics.now().heard != heard {
        return Ok(Looked::Void(CHANGED));
    }
    // A look that is on then ends with nothing found (rust-analyzer 1.96).
    if server.core.loading.loads() != loads {
        return Ok(Looked::Void(LOADED));
    }
    Ok(Looked::Ended(Ok(SavedProblems { files, with_errors })))
}

fn late(server: &Server) -> String {
    let doing = server.core.saved.doing().map(|doing| format!(" ({doing})")).unwrap_or_default();
    format!("it had not ended in time{doing}; ask again, it goes on")
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
