//! What each server says of a document, for comparing it with what the same server said before.
//!
//! Nothing is waited for that is not ready. Of a file that nobody changed, but that another file's
//! change may concern, a server must not be believed what it said before that change: it is shown the
//! file anew.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::watch;
use workspace::{AbsPath, Document};

use super::diagnostics::{Show, of_loaded, refreshed};
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

/// One document, and what of it is asked.
type Question = (Document, Look);

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
        let mut answers = self.check_all(&[(doc.clone(), look)], cx.deadline, cx).await;
        answers.pop().unwrap_or_else(|| Ok(Vec::new()))
    }

    /// The same of many documents at once, in their order: each server is shown all of them before it is
    /// asked. Given up before the deadline where after the first no answer came for `quiet`.
    pub async fn check_all(
        self: &Arc<Self>,
        questions: &[Question],
        quiet: Duration,
        cx: &RequestCx,
    ) -> Vec<Result<Vec<Checked>, ServerError>> {
        let clock = cx.clock();
        let short = RequestCx { deadline: cx.deadline.min(START), cancel: cx.cancel.clone() };
        let picks = questions.iter().map(|(doc, _)| async {
            match self.pick_all(&doc.path, Feature::Diagnostics, short.clock()).await {
                Err(error @ ServerError::Starting { .. }) => Ok((Vec::new(), vec![error])),
                picked => picked,
            }
        });
        let picked = join_all(picks).await;
        let mut batches: Vec<(Arc<Server>, Vec<&Question>)> = Vec::new();
        for (question, picked) in questions.iter().zip(&picked) {
            for server in picked.iter().flat_map(|(servers, _)| servers) {
                match batches.iter_mut().find(|(known, _)| Arc::ptr_eq(known, server)) {
                    Some((_, batch)) => batch.push(question),
                    None => batches.push((Arc::clone(server), vec![question])),
                }
            }
        }
        let shown =
            join_all(batches.iter().map(|(server, batch)| Shown::make(server, batch, quiet, clock))).await;
        let asks = questions.iter().zip(picked).map(|(question, picked)| {
            let (batches, shown) = (&batches, &shown);
            async move {
                let (servers, problems) = picked?;
                let asks = servers.iter().map(|server| async move {
                    let at = batches.iter().position(|(known, _)| Arc::ptr_eq(known, server));
                    match at.map(|at| &shown[at]) {
                        Some(Ok(shown)) => shown.ask(server, question, clock).await,
                        Some(Err(error)) => Err(error.clone()),
                        None => Ok(None),
                    }
                });
                let answers = join_all(asks).await;
                told(servers.iter().map(|it| &**it).zip(answers), &problems)
            }
        });
        let out = join_all(asks).await;
        let closes = batches.iter().zip(shown).filter_map(|((server, _), shown)| Some((server, shown.ok()?)));
        join_all(closes.map(|(server, shown)| async move {
            for path in &shown.opened {
                server.close(path).await;
            }
        }))
        .await;
        out
    }
}

/// What servers said of one document, with those that could not be asked.
fn told<'a>(
    answers: impl Iterator<Item = (&'a Arc<Server>, Result<Option<Vec<Diagnostic>>, ServerError>)>,
    problems: &[ServerError],
) -> Result<Vec<Checked>, ServerError> {
    let mut out = Vec::new();
    for (server, answer) in answers {
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

/// What one server was shown of the documents that it is asked about.
struct Shown<'a> {
    /// Those that it has as they are asked about, with the numbers that they had before.
    before: HashMap<AbsPath, Option<i32>>,
    /// Those that were opened for the question.
    opened: Vec<AbsPath>,
    quiet: Duration,
    heard: watch::Sender<Option<Instant>>,
    _room: Extra<'a>,
}

impl<'a> Shown<'a> {
    /// Shows all at once: a server works through what it is told one by one, and starts anew for each.
    async fn make(
        server: &'a Server,
        batch: &[&Question],
        quiet: Duration,
        clock: Clock<'_>,
    ) -> Result<Self, ServerError> {
        let loading = &server.core.loading;
        // It may wait for us to make an edit, and answer nothing until then.
        let may_be_shown = server.core.edits().is_none();
        let is_ready = loading.is_ready() && Instant::now() < clock.until;
        let held = |path: &AbsPath| server.core.documents().holds(path);
        // A dependent that is open is shown anew when it is asked about.
        let shown = batch.iter().filter(|(doc, look)| match look {
            Look::Itself => may_be_shown,
            Look::Dependent => may_be_shown && is_ready && !held(&doc.path),
        });
        let shown: Vec<&Question> = shown.copied().collect();
        let dependents = shown.iter().filter(|(_, look)| *look == Look::Dependent);
        let opened: Vec<AbsPath> = dependents.map(|(doc, _)| doc.path.clone()).collect();
        let room = Extra::new(&server.core, opened.len());
        let mut before = HashMap::new();
        if !shown.is_empty() {
            if is_ready {
                refreshed(server, clock).await?;
            }
            let documents: Vec<&Document> = shown.iter().map(|(doc, _)| doc).collect();
            before = server.show_all(&documents, clock).await?;
        }
        if shown.iter().any(|(_, look)| *look == Look::Itself) {
            loading.opened();
        }
        Ok(Self { before, opened, quiet, heard: watch::channel(None).0, _room: room })
    }

    /// What the server says of one of them; `None`: that is not known in time.
    async fn ask(
        &self,
        server: &Server,
        (doc, look): &Question,
        clock: Clock<'_>,
    ) -> Result<Option<Vec<Diagnostic>>, ServerError> {
        if server.core.edits().is_some()
            || !server.core.loading.is_ready()
            || *look == Look::Dependent && Instant::now() >= clock.until
        {
            return Ok(None);
        }
        let show = match self.before.get(&doc.path) {
            Some(before) => Show::Shown { before: *before },
            // An answer to a question is about all that was sent before it; what is told unasked may not be.
            None => Show::Anew,
        };
        // The question may be dropped: a request that waits is cancelled with it.
        let answer = tokio::select! {
            biased;
            answer = of_loaded(server, doc, show, clock) => answer?,
            () = self.stalled() => None,
        };
        if answer.is_some() {
            self.heard.send_replace(Some(Instant::now()));
        }
        Ok(answer)
    }

    /// Comes when there was no answer for so long. The first may take longer than the others: all that is
    /// asked about has to be read for it.
    async fn stalled(&self) {
        let mut heard = self.heard.subscribe();
        loop {
            let last = *heard.borrow_and_update();
            let silent = async {
                match last {
                    Some(last) => tokio::time::sleep_until((last + self.quiet).into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // The sender lives as long as this.
                _ = heard.changed() => {}
                () = silent => return,
            }
        }
    }
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
