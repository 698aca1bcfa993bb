//! Diagnostics of each server for a document, to compare with its earlier report.
//!
//! A check waits for no server that is not ready. After a change of another file, earlier
//! diagnostics of a dependent file are not trusted: the check shows the file to the server again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use parking_lot::Mutex;
use paths::AbsPath;
use workspace::Document;

use super::diagnostics::{Show, of_loaded, refreshed};
use crate::answer::{Diagnostic, Severity};
use crate::error::{Result, ServerError};
use crate::note::Note;
use crate::pool::{InUse, RequestCx, ServerPool};
use crate::server::core::Core;
use crate::server::{Clock, Server};
use adapters::{DiagnosticsRule, Feature, ServerDefinition};

/// Time after which a starting server is reported as such.
const START: Duration = Duration::from_millis(100);

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
    /// Whether the server knows the types of the language; a linter does not.
    pub types: bool,
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
    /// No program of the server is installed.
    NotInstalled,
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
    /// Diagnostics of the text of `doc` from each of its servers.
    pub async fn check(self: &Arc<Self>, doc: &Document, role: CheckRole, cx: &RequestCx) -> Vec<Checked> {
        let found = Mutex::new(Vec::<Checked>::new());
        let report = |_, now: Checked| {
            let mut found = found.lock();
            match found.iter_mut().find(|it| it.server == now.server) {
                Some(known) => *known = now,
                None => found.push(now),
            }
        };
        self.check_all(&[(doc.clone(), role)], cx, &report).await;
        found.into_inner()
    }

    /// Reports diagnostics of many documents, by index, as the servers answer.
    ///
    /// Reports a server as pending first, and again when its answer is final. Does not wait for a server that
    /// starts, is loading or could not load its project. Shows each server all documents before the first
    /// request. Reports a server that knows the language's types but cannot be asked, and the reason.
    pub async fn check_all(
        self: &Arc<Self>,
        questions: &[Question],
        cx: &RequestCx,
        report: &(dyn Fn(usize, Checked) + Sync),
    ) {
        let clock = cx.clock();
        let short = cx.within(START);
        let picks = questions.iter().enumerate().map(|(at, (doc, _))| {
            let clock = short.clock();
            async move {
                let picked = self.pick_all(&doc.path, Feature::Diagnostics, clock).await;
                let (servers, problems) = picked.unwrap_or_else(|error| (Vec::new(), vec![error]));
                let waiting = servers
                    .iter()
                    .map(|server| Checked { pending: true, ..Checked::of(server, Err(Unknown::Unanswered)) });
                waiting.chain(self.unable(doc, &servers, problems)).for_each(|it| report(at, it));
                servers
            }
        });
        let picked = join_all(picks).await;
        let mut batches: Vec<(&Arc<Server>, Vec<usize>)> = Vec::new();
        for (at, servers) in picked.iter().enumerate() {
            for server in servers.iter().map(|it| &**it) {
                match batches.iter_mut().find(|(known, _)| Arc::ptr_eq(known, server)) {
                    Some((_, batch)) => batch.push(at),
                    None => batches.push((server, vec![at])),
                }
            }
        }
        let checks = batches.into_iter().map(|(server, batch)| async move {
            let answered = |at: usize, answer| {
                if let Some(answer) = Checked::answer(server, answer) {
                    report(at, answer);
                }
            };
            let documents: Vec<&Question> = batch.iter().map(|at| &questions[*at]).collect();
            let shown = match Shown::make(server, &documents, clock).await {
                Ok(shown) => shown,
                Err(error) => return batch.iter().for_each(|at| answered(*at, Err(error.clone()))),
            };
            let asks = batch.iter().map(|at| async {
                answered(*at, shown.ask(server, &questions[*at], clock).await);
            });
            join_all(asks).await;
            for path in &shown.opened {
                server.close(path).await;
            }
        });
        join_all(checks).await;
    }

    /// Lists servers of a file that cannot be asked and on which the result depends.
    fn unable(&self, doc: &Document, asked: &[InUse], problems: Vec<ServerError>) -> Vec<Checked> {
        let definitions = self.definitions();
        let mut out = Vec::new();
        for problem in problems {
            let Some(definition) = problem.server().and_then(|name| definitions.get(name)) else { continue };
            let pending = matches!(problem, ServerError::Starting { .. });
            // A linter that cannot be started reports the same before and after an edit.
            if pending || definition.types() {
                out.push(Checked { pending, ..Checked::new(definition, Err(Unknown::Failed(problem))) });
            }
        }
        if !asked.iter().any(|it| it.core.definition.types()) && !out.iter().any(|it| it.types) {
            let typing = self.applying(&doc.path, Feature::Diagnostics).into_iter().find(|it| it.types());
            out.extend(typing.map(|typing| Checked::new(&typing, Err(Unknown::NotInstalled))));
        }
        out
    }
}

impl Checked {
    /// Builds the final answer of a server.
    pub(super) fn of(server: &Server, known: Result<Vec<Diagnostic>, Unknown>) -> Self {
        Self::new(&server.core.definition, known)
    }

    fn new(definition: &ServerDefinition, known: Result<Vec<Diagnostic>, Unknown>) -> Self {
        let rule = &definition.diagnostics;
        let (mut known, mut disowned) = (known, None);
        if let Ok(items) = &mut known {
            disowned = items.iter().find(|it| disowns(rule, it)).map(|it| in_short(&it.message).to_owned());
            items.retain(|it| it.source.as_ref().is_none_or(|it| !rule.on_save.contains(it)));
            items.retain(|it| !is_inferred(rule, it));
        }
        if let Some(words) = &disowned {
            known = Err(Unknown::Reason(words.clone()));
        }
        Self {
            server: definition.name.clone(),
            types: definition.types(),
            known,
            pending: false,
            on_save: rule.on_save.clone(),
            disowned,
        }
    }

    /// The result of a request; `None` if it was cancelled.
    fn answer(server: &Server, answer: Result<Option<Vec<Diagnostic>>>) -> Option<Self> {
        let (known, pending) = match answer {
            Err(ServerError::Cancelled) => return None,
            Ok(Some(items)) => (Ok(items), false),
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
        Some(Self { pending, ..Self::of(server, known) })
    }
}

impl ServerPool {
    /// The first sentence of a diagnostic that says that the server ignores the file.
    pub fn disowns<'a>(&self, item: &'a Diagnostic) -> Option<&'a str> {
        let definitions = self.definitions();
        let definition = definitions.get(&item.server)?;
        disowns(&definition.diagnostics, item).then(|| in_short(&item.message))
    }

    /// Whether a diagnostic depends on the order in which its server infers types.
    pub fn is_inferred(&self, item: &Diagnostic) -> bool {
        let definitions = self.definitions();
        definitions.get(&item.server).is_some_and(|it| is_inferred(&it.diagnostics, item))
    }
}

fn is_inferred(rule: &DiagnosticsRule, item: &Diagnostic) -> bool {
    item.severity != Severity::Error
        && item.code.as_ref().is_some_and(|code| rule.inferred_codes.contains(code))
}

fn disowns(rule: &DiagnosticsRule, item: &Diagnostic) -> bool {
    let names = |it: &String| item.code.as_ref() == Some(it) || item.message.starts_with(it.as_str());
    rule.outside_project_codes.iter().any(names)
}

/// The first sentence of a message, up to a path: the caller names the files.
fn in_short(message: &str) -> &str {
    let line = message.lines().next().unwrap_or_default();
    let sentence = line.split_once(". ").map_or(line, |(first, _)| first);
    sentence.split_once(" /").map_or(sentence, |(before, _)| before).trim_end_matches('.')
}

/// The documents that a check showed to a server.
struct Shown<'a> {
    /// Documents in the requested version, with their previous versions.
    before: HashMap<AbsPath, Option<i32>>,
    /// The documents that were opened for the check.
    opened: Vec<AbsPath>,
    _room: Extra<'a>,
}

impl<'a> Shown<'a> {
    /// Shows all documents at once: a server restarts its work for each notification.
    async fn make(server: &'a Server, batch: &[&Question], clock: Clock<'_>) -> Result<Self> {
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
        Ok(Self { before, opened, _room: room })
    }

    /// The diagnostics of one document; `None`: not known in time.
    async fn ask(
        &self,
        server: &Server,
        (doc, role): &Question,
        clock: Clock<'_>,
    ) -> Result<Option<Vec<Diagnostic>>> {
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
        let answer = of_loaded(server, doc, show, clock).await?;
        // The change may have made the server lose its project.
        Ok(answer.filter(|_| server.core.loading.failure().is_none()))
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
