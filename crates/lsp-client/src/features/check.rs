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
use crate::definition::{DiagnosticsRule, Feature};
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
    /// The file is none of its project's, in its own words; then nothing is `known`.
    pub disowned: Option<String>,
}

/// One document, and what of it is asked.
type Question = (Document, Look);

impl ServerPool {
    /// What each server of a file says of the text of `doc`. One that has not loaded its project, could
    /// not load it, or starts, is not waited for.
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
        let short = cx.within(START);
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

impl Checked {
    /// What a server said for good.
    pub(super) fn of(server: &Server, known: Result<Vec<Diagnostic>, String>) -> Self {
        let rule = &server.core.definition.diagnostics;
        let (mut known, mut disowned) = (known, None);
        if let Ok(items) = &mut known {
            disowned = items.iter().find(|it| disowns(rule, it)).map(|it| in_short(&it.message).to_owned());
            items.retain(|it| it.source.as_ref().is_none_or(|it| !rule.on_save.contains(it)));
        }
        if let Some(words) = &disowned {
            known = Err(words.clone());
        }
        Self {
            server: server.name().to_owned(),
            known,
            pending: false,
            on_save: rule.on_save.clone(),
            disowned,
        }
    }
}

impl ServerPool {
    /// Whether a server says by a problem that it does not look at the file, and how, in short.
    pub fn disowns<'a>(&self, item: &'a Diagnostic) -> Option<&'a str> {
        let definitions = self.definitions();
        let definition = definitions.get(&item.server)?;
        disowns(&definition.diagnostics, item).then(|| in_short(&item.message))
    }
}

fn disowns(rule: &DiagnosticsRule, item: &Diagnostic) -> bool {
    item.code.as_ref().is_some_and(|code| rule.disowns.contains(code))
}

/// The first sentence of a message.
fn in_short(message: &str) -> &str {
    let line = message.lines().next().unwrap_or_default();
    line.split_once(". ").map_or(line, |(first, _)| first).trim_end_matches('.')
}

/// What servers said of one document, with those that could not be asked.
fn told<'a>(
    answers: impl Iterator<Item = (&'a Arc<Server>, Result<Option<Vec<Diagnostic>>, ServerError>)>,
    problems: &[ServerError],
) -> Result<Vec<Checked>, ServerError> {
    let mut out = Vec::new();
    for (server, answer) in answers {
        let (known, pending) = match answer {
            Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
            Ok(Some(items)) => {
                out.push(Checked::of(server, Ok(items)));
                continue;
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
        out.push(Checked { pending, ..Checked::of(server, known) });
    }
    out.extend(problems.iter().filter_map(|problem| match problem {
        ServerError::Starting { server, .. } => Some(Checked {
            server: server.clone(),
            known: Err(problem.to_string()),
            pending: true,
            on_save: Vec::new(),
            disowned: None,
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
            || server.core.loading.failure().is_some()
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
        // It may have lost its project by the change that it is asked about.
        let answer = answer.filter(|_| server.core.loading.failure().is_none());
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
