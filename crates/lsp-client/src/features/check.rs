//! Diagnostics of each server for a document, to compare with its earlier report.
//!
//! A check waits for no server that is not ready. After a change of another file, earlier
//! diagnostics of a dependent file are not trusted: the check shows the file to the server again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use paths::AbsPath;
use tokio::sync::watch;
use workspace::Document;

use super::diagnostics::{Show, of_loaded, refreshed};
use crate::answer::Diagnostic;
use crate::error::ServerError;
use crate::note::Note;
use crate::pool::{RequestCx, ServerPool};
use crate::server::core::Core;
use crate::server::{Clock, Server};
use adapters::{DiagnosticsRule, Feature};

/// Time that an edit waits for a server to start; the start continues after it.
const START: Duration = Duration::from_millis(500);

/// The role of a document in a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckRole {
    /// A changed file; it stays open.
    Changed,
    /// A file that changes of others may affect.
    ///
    /// Opened for the check, and closed after it unless it was open.
    Dependent,
}

/// The diagnostics of one server for one document.
#[derive(Debug, Clone)]
pub struct Checked {
    pub server: String,
    /// Diagnostics of exactly the requested text, without those of `on_save`.
    pub known: Result<Vec<Diagnostic>, Unknown>,
    /// Whether they may become known later.
    pub pending: bool,
    /// Sources that the server only runs when a file is saved.
    pub on_save: Vec<String>,
    /// Reason why the server excludes the file from its project, in the server's words.
    ///
    /// Then nothing is `known`.
    pub disowned: Option<String>,
}

/// The reason why a server's diagnostics of a document are not known.
#[derive(Debug, Clone, PartialEq)]
pub enum Unknown {
    /// The server's answers may be incomplete.
    Noted(Note),
    /// The server runs a command and answers nothing until it ends.
    RunningCommand,
    /// The server has not answered yet.
    Unanswered,
    /// The server did not answer in time.
    Late {
        after: Duration,
    },
    /// The answer contains no report.
    NoReport,
    Failed(ServerError),
    /// A reason given by the server or the connection.
    Reason(String),
}

type Question = (Document, CheckRole);

impl ServerPool {
    /// Returns diagnostics of the text of `doc` from each of its servers.
    ///
    /// Does not wait for a server that starts, is loading or could not load its project.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when no server can be asked at all, or the request was cancelled.
    pub async fn check(
        self: &Arc<Self>,
        doc: &Document,
        role: CheckRole,
        cx: &RequestCx,
    ) -> Result<Vec<Checked>, ServerError> {
        let mut answers = self.check_all(&[(doc.clone(), role)], cx.deadline, cx).await;
        answers.pop().unwrap_or_else(|| Ok(Vec::new()))
    }

    /// Diagnostics of many documents at once, in their order.
    ///
    /// Each server is shown all documents before the first request. The check ends before the deadline if
    /// after the first answer no other came for `quiet`.
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
                collect(servers.iter().map(|it| &**it).zip(answers), &problems)
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
    /// Builds the final answer of a server.
    pub(super) fn of(server: &Server, known: Result<Vec<Diagnostic>, Unknown>) -> Self {
        let rule = &server.core.definition.diagnostics;
        let (mut known, mut disowned) = (known, None);
        if let Ok(items) = &mut known {
            disowned = items.iter().find(|it| disowns(rule, it)).map(|it| in_short(&it.message).to_owned());
            items.retain(|it| it.source.as_ref().is_none_or(|it| !rule.on_save.contains(it)));
        }
        if let Some(words) = &disowned {
            known = Err(Unknown::Reason(words.clone()));
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
    /// The first sentence of a diagnostic that says that the server ignores the file.
    pub fn disowns<'a>(&self, item: &'a Diagnostic) -> Option<&'a str> {
        let definitions = self.definitions();
        let definition = definitions.get(&item.server)?;
        disowns(&definition.diagnostics, item).then(|| in_short(&item.message))
    }
}

fn disowns(rule: &DiagnosticsRule, item: &Diagnostic) -> bool {
    item.code.as_ref().is_some_and(|code| rule.outside_project_codes.contains(code))
}

/// The first sentence of a message.
fn in_short(message: &str) -> &str {
    let line = message.lines().next().unwrap_or_default();
    line.split_once(". ").map_or(line, |(first, _)| first).trim_end_matches('.')
}

/// The answers of servers for one document, with those that could not be asked.
fn collect<'a>(
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
                    true => Unknown::RunningCommand,
                    false => server.note().map_or(Unknown::Unanswered, Unknown::Noted),
                };
                (Err(why), true)
            }
            Err(error @ ServerError::Timeout { .. }) => (Err(Unknown::Failed(error)), true),
            Err(error) => (Err(Unknown::Failed(error)), false),
        };
        out.push(Checked { pending, ..Checked::of(server, known) });
    }
    out.extend(problems.iter().filter_map(|problem| match problem {
        ServerError::Starting { server, .. } => Some(Checked {
            server: server.clone(),
            known: Err(Unknown::Failed(problem.clone())),
            pending: true,
            on_save: Vec::new(),
            disowned: None,
        }),
        // A server that cannot be started reports the same before and after an edit.
        _ => None,
    }));
    Ok(out)
}

/// The documents that a server was shown for a check.
struct Shown<'a> {
    /// Documents in the requested version, with their previous versions.
    before: HashMap<AbsPath, Option<i32>>,
    /// The documents that were opened for the check.
    opened: Vec<AbsPath>,
    quiet: Duration,
    answered: watch::Sender<Option<Instant>>,
    _room: Extra<'a>,
}

impl<'a> Shown<'a> {
    /// Shows all documents at once: a server restarts its work for each notification.
    async fn make(
        server: &'a Server,
        batch: &[&Question],
        quiet: Duration,
        clock: Clock<'_>,
    ) -> Result<Self, ServerError> {
        let loading = &server.core.loading;
        // A server that waits for Pilcrow to apply an edit answers nothing until then.
        let may_be_shown = server.core.edits().is_none();
        let is_ready = loading.is_ready() && Instant::now() < clock.until;
        let held = |path: &AbsPath| server.core.documents().holds(path);
        // A dependent that is open is shown again when it is requested.
        let shown = batch.iter().filter(|(doc, role)| match role {
            CheckRole::Changed => may_be_shown,
            CheckRole::Dependent => may_be_shown && is_ready && !held(&doc.path),
        });
        let shown: Vec<&Question> = shown.copied().collect();
        let dependents = shown.iter().filter(|(_, role)| *role == CheckRole::Dependent);
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
        if shown.iter().any(|(_, role)| *role == CheckRole::Changed) {
            loading.opened();
        }
        Ok(Self { before, opened, quiet, answered: watch::channel(None).0, _room: room })
    }

    /// The diagnostics of one document; `None`: not known in time.
    async fn ask(
        &self,
        server: &Server,
        (doc, role): &Question,
        clock: Clock<'_>,
    ) -> Result<Option<Vec<Diagnostic>>, ServerError> {
        if server.core.edits().is_some()
            || !server.core.loading.is_ready()
            || server.core.loading.failure().is_some()
            || *role == CheckRole::Dependent && Instant::now() >= clock.until
        {
            return Ok(None);
        }
        let show = match self.before.get(&doc.path) {
            Some(before) => Show::Shown { before: *before },
            // A response covers all that was sent before it; a notification may not.
            None => Show::AsNew,
        };
        // Dropping the future cancels its pending request.
        let answer = tokio::select! {
            biased;
            answer = of_loaded(server, doc, show, clock) => answer?,
            () = self.stalled() => None,
        };
        // The change may have made the server lose its project.
        let answer = answer.filter(|_| server.core.loading.failure().is_none());
        if answer.is_some() {
            self.answered.send_replace(Some(Instant::now()));
        }
        Ok(answer)
    }

    /// Completes when no answer came for the `quiet` time.
    ///
    /// The first answer may take longer: the server reads all documents for it.
    async fn stalled(&self) {
        let mut answered = self.answered.subscribe();
        loop {
            let last = *answered.borrow_and_update();
            let silent = async {
                match last {
                    Some(last) => tokio::time::sleep_until((last + self.quiet).into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // The sender lives as long as `self`.
                _ = answered.changed() => {}
                () = silent => return,
            }
        }
    }
}

/// Raises the limit of open documents while it lives.
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
