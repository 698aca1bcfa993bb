//! What each server says of a document, for comparing it with what the same server said before.
//!
//! Nothing is waited for that is not ready. Of a file that nobody changed, but that another file's
//! change may concern, a server must not be believed what it said before that change: it is shown the
//! file anew.

use std::sync::Arc;
use std::time::{Duration, Instant};

use workspace::Document;

use super::diagnostics::of_loaded;
use crate::answer::Diagnostic;
use crate::core::Core;
use crate::definition::Feature;
use crate::error::ServerError;
use crate::pool::{RequestCx, ServerPool};
use crate::server::{Clock, Server};

/// How long an edit waits for a server to start; it goes on starting.
const START: Duration = Duration::from_millis(500);

/// What of a document a server is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// A file that is changed; it stays open.
    Itself,
    /// A file that others' changes may concern: opened for the question, and closed after it unless it
    /// was open.
    Dependent,
}

/// What one server says of one document.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The definition's name.
    pub server: String,
    /// Its diagnostics of exactly the text that was asked about, without those of `on_save`; `Err` says
    /// why they are not known.
    pub known: Result<Vec<Diagnostic>, String>,
    /// Whether it may know them later.
    pub pending: bool,
    /// Sources that it runs only when a file is saved.
    pub on_save: Vec<String>,
}

impl ServerPool {
    /// What each server of a file says of the text of `doc`. One that has not loaded its project, or
    /// starts, is not waited for.
    ///
    /// # Errors
    /// [`ServerError`] when no server can be asked at all, or the question was cancelled.
    pub async fn check(
        self: &Arc<Self>,
        doc: &Document,
        look: Look,
        cx: &RequestCx,
    ) -> Result<Vec<Checked>, ServerError> {
        let clock = cx.clock();
        let short = RequestCx { deadline: cx.deadline.min(START), cancel: cx.cancel.clone() };
        let picked = self.pick_all(&doc.path, Feature::Diagnostics, short.clock()).await;
        let (servers, problems) = match picked {
            Err(error @ ServerError::Starting { .. }) => (Vec::new(), vec![error]),
            picked => picked?,
        };
        let asks = servers.iter().map(|server| one(server, doc, look, clock));
        let answers = futures_util::future::join_all(asks).await;
        let mut out = Vec::new();
        for (server, answer) in servers.iter().zip(answers) {
            let on_save = server.core.definition.diagnostics.on_save.clone();
            let (known, pending) = match answer {
                Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                Ok(Some(mut items)) => {
                    items.retain(|item| item.source.as_ref().is_none_or(|it| !on_save.contains(it)));
                    (Ok(items), false)
                }
                Ok(None) => {
                    let why = match server.core.edits().is_some() {
                        true => "it is carrying out a command".to_owned(),
                        false => server.note().unwrap_or_else(|| "it has not answered yet".to_owned()),
                    };
                    (Err(why), true)
                }
                Err(error @ ServerError::Timeout { .. }) => (Err(error.to_string()), true),
                Err(error) => (Err(error.to_string()), false),
            };
            out.push(Checked { server: server.name().to_owned(), known, pending, on_save });
        }
        out.extend(problems.iter().filter_map(|problem| match problem {
            ServerError::Starting { server, .. } => Some(Checked {
                server: server.clone(),
                known: Err(problem.to_string()),
                pending: true,
                on_save: Vec::new(),
            }),
            // One that cannot be started says no more after an edit than before it.
            _ => None,
        }));
        Ok(out)
    }
}

async fn one(
    server: &Server,
    doc: &Document,
    look: Look,
    clock: Clock<'_>,
) -> Result<Option<Vec<Diagnostic>>, ServerError> {
    let loading = &server.core.loading;
    // It may wait for us to make an edit, and answer nothing until then.
    if server.core.edits().is_some() {
        return Ok(None);
    }
    if look == Look::Itself {
        server.open(doc, clock).await?;
        loading.opened();
        if !loading.is_ready() {
            return Ok(None);
        }
        return of_loaded(server, doc, false, clock).await;
    }
    if !loading.is_ready() || Instant::now() >= clock.until {
        return Ok(None);
    }
    let _room = Extra::new(&server.core, 1);
    let was_open = server.core.documents().holds(&doc.path);
    // An answer to a question is about all that was sent before it; what is told unasked may not be.
    let told = of_loaded(server, doc, true, clock).await;
    if !was_open {
        server.close(&doc.path).await;
    }
    told
}

/// Room for documents on top of the limit, as long as it lives.
pub(crate) struct Extra<'a>(&'a Core, usize);

impl<'a> Extra<'a> {
    pub fn new(core: &'a Core, count: usize) -> Self {
        core.documents().make_room(count);
        Self(core, count)
    }
}

impl Drop for Extra<'_> {
    fn drop(&mut self) {
        self.0.documents().take_room(self.1);
    }
}
