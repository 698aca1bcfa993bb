//! Diagnostics of exactly the requested text, from all servers of a document.

use std::sync::Arc;
use std::time::{Duration, Instant};

use paths::AbsPath;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wire::{RequestError, codes};
use workspace::Document;

use super::commands::commands;
use super::document;
use crate::answer::{Answer, Diagnostic, Diagnostics, RawJson, Severity};
use crate::diagnostics::Reader;
use crate::error::{Result, ServerError};
use crate::files::file_poll::PollMode;
use crate::note::Note;
use crate::pool::{RequestCx, ServerPool};
use crate::server::documents::Synced;
use crate::server::gate::Entered;
use crate::server::protocol::{RawDiagnostic, Report};
use crate::server::request_table::Request;
use crate::server::{Clock, Server};
use adapters::{Feature, expand};

pub(crate) const METHOD: &str = "textDocument/diagnostic";
pub(super) const REQUESTS: &[Request] = &[Request::new(METHOD)];

/// Time for a server to publish again after another file changed.
///
/// Servers with nothing new stay silent.
const PATIENCE: Duration = Duration::from_secs(2);
/// Number of times a document is opened again after it was closed during a request.
const MOST_OPENED: usize = 4;

impl ServerPool {
    /// Returns the diagnostics of the text of `doc` from all of its servers.
    ///
    /// Never returns those of another text: `pending` lists the servers that have not answered by
    /// the deadline.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when no server can be asked at all.
    pub async fn diagnostics(
        self: &Arc<Self>,
        doc: &Document,
        cx: &RequestCx,
    ) -> Result<Answer<Diagnostics>> {
        self.diagnostics_unless_silent(doc, cx.deadline, cx).await
    }

    /// Requests like [`ServerPool::diagnostics`], with limited patience for silence.
    ///
    /// `patience` applies to a server that has loaded, never published and reports no work.
    ///
    /// # Errors
    /// [`ServerError`] when no server can be asked at all.
    pub async fn diagnostics_unless_silent(
        self: &Arc<Self>,
        doc: &Document,
        patience: Duration,
        cx: &RequestCx,
    ) -> Result<Answer<Diagnostics>> {
        let clock = cx.clock();
        let (servers, problems) = self.pick_all(&doc.path, Feature::Diagnostics, clock).await?;
        let mut out = Diagnostics {
            version: doc.version,
            items: Vec::new(),
            answered: Vec::new(),
            pending: Vec::new(),
            failed: problems.into_iter().map(Note::Failed).collect(),
            on_save: Vec::new(),
        };
        let asks = servers.iter().map(|server| of_one(server, doc, patience, clock));
        let answers = futures_util::future::join_all(asks).await;
        let (mut first, mut unverified) = (None, None);
        for (server, answer) in servers.iter().zip(answers) {
            match answer {
                // Without a project the server only finds syntax errors.
                Ok(Some(items))
                    if server.core.loading.failure().is_some()
                        && items.iter().all(|item| item.severity != Severity::Error) =>
                {
                    let reason = server.core.loading.failure().unwrap_or_default();
                    out.failed.push(Note::ProjectNotLoaded { server: server.name().to_owned(), reason });
                }
                Ok(Some(mut items)) => {
                    out.answered.push(server.name().to_owned());
                    if items.is_empty() && server.core.definition.verified.is_none() {
                        unverified = unverified.or(Some(server.name()));
                    }
                    // The results of the last save may be outdated.
                    let on_save = &server.core.definition.diagnostics.on_save;
                    items.retain(|item| item.source.as_ref().is_none_or(|it| !on_save.contains(it)));
                    out.on_save.extend(on_save.iter().map(|it| (it.clone(), server.name().to_owned())));
                    out.items.extend(items);
                }
                Ok(None) => out.pending.push(server.name().to_owned()),
                Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                Err(ServerError::Timeout { .. }) => out.pending.push(server.name().to_owned()),
                Err(error) => {
                    out.failed.push(Note::Failed(error.clone()));
                    first = first.or(Some(error));
                }
            }
        }
        if let Some(error) = first
            && servers.len() == 1
        {
            return Err(error);
        }
        out.items.sort_by_key(|item| (item.range.start, item.range.end, item.severity));
        let unverified = || Some(Note::Unverified { server: unverified?.to_owned() });
        let other_version = || servers.iter().find_map(|server| server.version_note(&doc.path));
        let note = servers.iter().find_map(|server| server.note()).or_else(other_version).or_else(unverified);
        let server = out.answered.join(", ");
        Ok(Answer { value: out, server, notes: note.into_iter().collect() })
    }
}

impl ServerPool {
    /// Starts the servers for a file's diagnostics, and waits until they have loaded.
    ///
    /// Waits at most three quarters of the time. Opens `doc` for it.
    ///
    /// # Errors
    /// [`ServerError`] when none can be asked.
    pub async fn load(
        self: &Arc<Self>,
        path: &AbsPath,
        doc: Option<&Document>,
        cx: &RequestCx,
    ) -> Result<()> {
        let clock = cx.clock();
        let (servers, _) = self.pick_all(path, Feature::Diagnostics, clock).await?;
        let waits = servers.iter().map(|server| server.wait_ready(doc, clock));
        match futures_util::future::join_all(waits).await.into_iter().find_map(Result::err) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

async fn of_one(
    server: &Server,
    doc: &Document,
    patience: Duration,
    clock: Clock<'_>,
) -> Result<Option<Vec<Diagnostic>>> {
    // Some servers register capabilities before they have loaded, so wait until a server has
    // loaded.
    server.wait_ready(Some(doc), clock).await?;
    // Dropping the future cancels its pending request.
    tokio::select! {
        biased;
        answer = of_loaded(server, doc, Show::AsItIs, clock) => answer,
        () = silence(server, doc, patience) => Ok(None),
    }
}

/// Completes after `patience` if a server has published nothing and is not at work.
///
/// Never completes if diagnostics are requested.
async fn silence(server: &Server, doc: &Document, patience: Duration) {
    loop {
        tokio::time::sleep(patience).await;
        if pulled(server).is_some() || server.core.definition.diagnostics.clean.is_some() {
            return std::future::pending().await;
        }
        if server.core.loading.is_ready() && server.core.diagnostics.is_silent(&doc.path) {
            return;
        }
    }
}

/// The way in which the client shows a document to a publishing server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Show {
    /// Shows its current text.
    AsItIs,
    /// Shows it as a document that the server has never had.
    AsNew,
    /// The document was shown for this request, after changes on disk were reported.
    Shown {
        /// The previous version; `None`: it was opened for the request.
        before: Option<i32>,
    },
}

/// Reports changes on disk, which make earlier diagnostics of other files outdated.
pub(super) async fn refreshed(server: &Server, clock: Clock<'_>) -> Result<()> {
    tokio::select! {
        biased;
        () = clock.cancel.cancelled() => Err(ServerError::Cancelled),
        () = server.poll_files(PollMode::Now) => Ok(()),
        () = tokio::time::sleep_until(clock.until.into()) => Err(server.timeout(METHOD, clock.total)),
    }
}

/// The options of diagnostic requests; `None`: the server publishes.
pub(crate) fn pulled(server: &Server) -> Option<Value> {
    let said = server.core.capabilities().provider("diagnosticProvider", METHOD).cloned();
    said.or_else(|| server.core.definition.diagnostics.pull.then(|| json!({})))
}

/// Diagnostics of a document from a loaded server; `None` if not known in time.
pub(super) async fn of_loaded(
    server: &Server,
    doc: &Document,
    show: Show,
    clock: Clock<'_>,
) -> Result<Option<Vec<Diagnostic>>> {
    if !matches!(show, Show::Shown { .. }) {
        refreshed(server, clock).await?;
    }
    let (synced, items) = match pulled(server) {
        Some(options) => {
            let known = server.core.result_ids().id(&doc.path);
            let ask = server
                .ask(Some(doc), METHOD, clock, |synced, _| question(synced, &options, known.as_deref()));
            let asked = ask.await?;
            let report: Option<Report<'_>> = server.read_borrowed(METHOD, &asked.raw)?;
            let Some(synced) = asked.snapshot.get(&doc.path).cloned() else { return Ok(None) };
            if server.core.deleted_files.is_awaited() {
                return Ok(None);
            }
            // A missing report says nothing about this text.
            let items =
                report.and_then(|report| server.core.result_ids().take(&doc.path, known.as_deref(), &report));
            let Some(items) = items else { return Ok(None) };
            (synced, items)
        }
        None => {
            server.await_deletions(METHOD, clock).await?;
            // The gate is held while waiting, so that no speculative edit comes between.
            let entered = server.enter(METHOD, clock).await?;
            let _held = server.core.hold(&doc.path);
            let now = server.core.documents().shown(&doc.path);
            let is_as_asked = |synced: &Synced| synced.view.text == doc.text;
            let (synced, before) = match (show, now) {
                (Show::Shown { before }, Some(now)) if is_as_asked(&now) => (now, before),
                (Show::AsNew, Some(now)) => (server.recheck(&entered, doc, clock).await?, Some(now.number)),
                (_, now) => (server.open_entered(&entered, doc, clock).await?, now.map(|now| now.number)),
            };
            let sent_before = before == Some(synced.number);
            let pushed = tokio::select! {
                biased;
                () = clock.cancel.cancelled() => return Err(ServerError::Cancelled),
                _ = server.peer.closed() => return Err(server.crashed("waiting for diagnostics").await),
                pushed = diagnosed(server, &entered, doc, (synced.clone(), sent_before), clock) => pushed?,
            };
            let Some(pushed) = pushed else { return Ok(None) };
            pushed
        }
    };
    // Another request may have sent a newer text meanwhile; then the answer may be about that.
    if *synced.view.text != *doc.text {
        return Ok(None);
    }
    read(server, &synced, &items).map(Some)
}

/// Waits for the diagnostics of a text that the server was sent.
///
/// Returns none if the definition names a request that shows that the text is clean, else the
/// published ones.
async fn diagnosed(
    server: &Server,
    entered: &Entered,
    doc: &Document,
    (synced, sent_before): (Synced, bool),
    clock: Clock<'_>,
) -> Result<Option<(Synced, RawJson)>> {
    let clean_check = check_clean(server, doc, clock.until, clock.cancel).await;
    if clean_check == CleanCheck::Clean {
        return Ok(Some((synced, RawJson::empty_list())));
    }
    pushed(server, entered, doc, (synced, sent_before), clean_check, clock).await
}

/// Diagnostics that the server publishes after all that it was sent.
///
/// Shows the document again to a silent server, and to one that published nothing about a text
/// sent before the request (clangd 22.1.1 skips a text that was changed and reverted before it
/// began). If nothing was published about the text when changes on disk were reported, the document
/// is shown again at once, because the first publication may be about the old state. A server that
/// does not publish the problems of its answer gets the request again, because its answer may have been
/// wrong (tsserver notices new files late).
async fn pushed(
    server: &Server,
    entered: &Entered,
    doc: &Document,
    (mut synced, sent_before): (Synced, bool),
    mut clean_check: CleanCheck,
    clock: Clock<'_>,
) -> Result<Option<(Synced, RawJson)>> {
    let whole = |items: &RawJson| clean_check.is_whole(items);
    let published = &server.core.diagnostics;
    let moved = published.pushes_before_change(&doc.path);
    let after = Reader::After(moved);
    let may_be_outdated = server.core.documents().may_be_outdated(&doc.path);
    if may_be_outdated || published.may_predate_changes(&doc.path, &synced) {
        synced = server.recheck(entered, doc, clock).await?;
    } else if published.is_outdated(&doc.path, &synced, moved) {
        let until = Instant::now() + PATIENCE.min(clock.left() / 4);
        let waited = waited(server, (entered, doc), &mut synced, (until, after), &whole, clock);
        if let Some(items) = waited.await? {
            return Ok(Some((synced, items)));
        }
        synced = server.recheck(entered, doc, clock).await?;
    } else if sent_before && published.is_versioned() && clock.left() > 4 * PATIENCE {
        let until = Instant::now() + 2 * PATIENCE;
        let waited = waited(server, (entered, doc), &mut synced, (until, after), &whole, clock);
        if let Some(items) = waited.await? {
            return Ok(Some((synced, items)));
        }
        if !published.is_working(&doc.path) {
            synced = server.recheck(entered, doc, clock).await?;
        }
    }
    loop {
        let again = matches!(clean_check, CleanCheck::Codes(_)).then(|| Instant::now() + PATIENCE);
        let until = again.map_or(clock.until, |again| again.min(clock.until));
        let whole = |items: &RawJson| clean_check.is_whole(items);
        let waited = waited(server, (entered, doc), &mut synced, (until, after), &whole, clock);
        if let Some(items) = waited.await? {
            return Ok(Some((synced, items)));
        }
        // A document with another text is not open.
        if Instant::now() >= clock.until || !server.core.documents().holds(&doc.path) {
            return Ok(None);
        }
        match check_clean(server, doc, clock.until, clock.cancel).await {
            CleanCheck::Clean => return Ok(Some((synced, RawJson::empty_list()))),
            // Problems that were found before must still be published.
            CleanCheck::Unknown if matches!(clean_check, CleanCheck::Codes(_)) => {}
            now => clean_check = now,
        }
    }
}

/// Waits for the publish about a text; `None` if there is none by `until`.
///
/// Reopens a document that was closed for another request if its text is unchanged. Servers publish
/// nothing, or an empty list, for a closed one.
async fn waited(
    server: &Server,
    (entered, doc): (&Entered, &Document),
    synced: &mut Synced,
    (until, after): (Instant, Reader),
    whole: &(dyn Fn(&RawJson) -> bool + Sync),
    clock: Clock<'_>,
) -> Result<Option<RawJson>> {
    for _ in 0..MOST_OPENED {
        let opened = synced.closed;
        let mut closings = server.core.documents().closings();
        let closed = async {
            loop {
                closings.mark_unchanged();
                let now = server.core.documents().shown(&doc.path);
                if now.as_ref().is_none_or(|now| now.closed != opened) {
                    return now;
                }
                if closings.changed().await.is_err() {
                    return std::future::pending().await;
                }
            }
        };
        // Both futures can be dropped safely.
        let again = tokio::select! {
            biased;
            again = closed => again,
            items = whole_publication(server, &doc.path, synced, (until, after), whole, clock.cancel) => return Ok(items),
        };
        *synced = match again {
            Some(again) => again,
            None => match server.core.workspace.document(&doc.path) {
                Ok(now) if now.text == doc.text => server.open_entered(entered, doc, clock).await?,
                Ok(_) | Err(_) => return Ok(None),
            },
        };
    }
    Ok(whole_publication(server, &doc.path, synced, (until, after), whole, clock.cancel).await)
}

/// The complete publication about a text; `None` if not known by `until`.
pub(crate) async fn whole_publication(
    server: &Server,
    path: &AbsPath,
    synced: &Synced,
    (until, after): (Instant, Reader),
    whole: &(dyn Fn(&RawJson) -> bool + Sync),
    cancel: &CancellationToken,
) -> Option<RawJson> {
    let published = &server.core.diagnostics;
    let first = published.wait_for(path, synced, until, after, whole).await?;
    // A publication about the text it was opened with contains nothing older.
    let Some(method) = &server.core.definition.diagnostics.barrier_request else { return Some(first) };
    if synced.number == synced.opened {
        return Some(first);
    }
    let left = until.saturating_duration_since(Instant::now());
    match server.peer.request(method, &(), left, cancel).await {
        // Publications that came before the response have arrived.
        Ok(_) => published.wait_for(path, synced, until, after, whole).await,
        Err(RequestError::Rpc { error, .. }) if error.code == codes::METHOD_NOT_FOUND => Some(first),
        Err(error) => {
            tracing::debug!(server = server.name(), %error, "not known whether the publication is complete");
            None
        }
    }
}

/// The result of asking a server whether a text is clean, as its definition says.
#[derive(PartialEq)]
pub(crate) enum CleanCheck {
    Clean,
    /// Problems with these codes, which must be published.
    Codes(Vec<Value>),
    /// The server takes no such request; only its publications count.
    Unknown,
    /// The server did not answer in time, so a publication may be incomplete.
    Late,
}

impl CleanCheck {
    /// Whether a publication is complete, as far as known.
    pub fn is_whole(&self, items: &RawJson) -> bool {
        let codes = match self {
            Self::Codes(codes) => codes,
            Self::Clean | Self::Unknown => return true,
            Self::Late => return false,
        };
        let items: Vec<Value> = serde_json::from_str(items.get()).unwrap_or_default();
        let count = |code: &Value| items.iter().filter(|item| item["code"] == *code).count();
        codes.iter().all(|code| count(code) >= codes.iter().filter(|it| *it == code).count())
    }
}

/// Asks a server about the text of `doc`, which must not change meanwhile.
pub(crate) async fn check_clean(
    server: &Server,
    doc: &Document,
    until: Instant,
    cancel: &CancellationToken,
) -> CleanCheck {
    const METHOD: &str = "workspace/executeCommand";
    let Some(rule) = &server.core.definition.diagnostics.clean else { return CleanCheck::Unknown };
    if !commands(&server.core).contains(&rule.command) {
        return CleanCheck::Unknown;
    }
    let turn = tokio::time::timeout_at(until.into(), server.core.clean_check.acquire());
    let Ok(Ok(_turn)) = turn.await else { return CleanCheck::Late };
    let number = || server.core.documents().number(&doc.path);
    let before = number();
    let variables = [("file", doc.path.to_string())];
    let mut found = Vec::new();
    for arguments in &rule.arguments {
        let arguments: Vec<Value> = arguments.iter().map(|it| expand(it, &variables)).collect();
        let params = json!({"command": rule.command, "arguments": arguments});
        // `Server::ask` is not used here: the caller has entered already, or runs a speculative
        // edit.
        let left = until.saturating_duration_since(Instant::now());
        let raw = match server.peer.request(METHOD, &params, left, cancel).await {
            Ok(raw) => raw,
            Err(RequestError::Deadline { .. } | RequestError::Cancelled { .. }) => return CleanCheck::Late,
            Err(_) => return CleanCheck::Unknown,
        };
        let answer = server.read::<Value>(METHOD, &raw).unwrap_or_default();
        match answer[&rule.field].as_array() {
            Some(list) => found.extend(list.iter().cloned()),
            None => return CleanCheck::Unknown,
        }
        if !found.is_empty() && rule.code.is_none() {
            return CleanCheck::Unknown;
        }
    }
    match &rule.code {
        _ if number() != before => CleanCheck::Unknown,
        _ if found.is_empty() => CleanCheck::Clean,
        None => CleanCheck::Unknown,
        Some(code) => {
            found.retain(|problem| rule.errors.iter().all(|(field, value)| problem[field] == *value));
            CleanCheck::Codes(found.into_iter().map(|mut problem| problem[code].take()).collect())
        }
    }
}

/// Builds `DocumentDiagnosticParams`.
pub(crate) fn question(synced: Option<&Synced>, options: &Value, known: Option<&str>) -> Value {
    let mut params = json!({"textDocument": document(synced)});
    if let Some(identifier) = options.get("identifier").filter(|it| it.is_string()) {
        params["identifier"] = identifier.clone();
    }
    if let Some(known) = known {
        params["previousResultId"] = known.into();
    }
    params
}

pub(crate) fn read(server: &Server, synced: &Synced, items: &RawJson) -> Result<Vec<Diagnostic>> {
    let encoding = server.core.capabilities().encoding();
    let mut out = Vec::new();
    let bad = |error: serde_json::Error| server.protocol("diagnostics", error.to_string());
    let items: Option<Vec<&RawValue>> = serde_json::from_str(items.get()).map_err(bad)?;
    let suffixes = &server.core.definition.diagnostics.message_suffixes;
    for raw in items.unwrap_or_default() {
        let item: RawDiagnostic = serde_json::from_str(raw.get()).map_err(bad)?;
        let Some(range) = synced.view.range(item.range, encoding) else { continue };
        let text = |value: Value| match value {
            Value::String(text) => text,
            Value::Object(ref map) => map.get("value").and_then(Value::as_str).unwrap_or_default().to_owned(),
            other => other.to_string(),
        };
        let mut message = text(item.message);
        if let Some(suffix) = suffixes.iter().find(|it| message.ends_with(it.as_str())) {
            message.truncate(message.len() - suffix.len());
        }
        out.push(Diagnostic {
            line: synced.view.line(range.start),
            range,
            severity: match item.severity {
                Some(2) => Severity::Warning,
                Some(3) => Severity::Information,
                Some(4) => Severity::Hint,
                _ => Severity::Error,
            },
            code: item.code.filter(|code| !code.is_null()).map(text),
            source: item.source,
            message,
            server: server.name().to_owned(),
            raw: RawJson::new(raw),
        });
    }
    Ok(out)
}
