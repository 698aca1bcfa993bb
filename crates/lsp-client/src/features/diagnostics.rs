//! The problems of exactly the text that was asked about.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use serde_json::{Value, json};
use workspace::Document;

use super::commands::commands;
use super::document;
use crate::answer::{Answer, Diagnostic, Diagnostics, RawJson, Severity};
use crate::definition::{Feature, expand};
use crate::diagnostics::Told;
use crate::documents::Synced;
use crate::error::ServerError;
use crate::gate::Entered;
use crate::pool::{RequestCx, ServerPool};
use crate::protocol::{RawDiagnostic, Report};
use crate::server::{Clock, Server};
use crate::sweep::Look;

pub(crate) const METHOD: &str = "textDocument/diagnostic";
/// How long a server may take to tell anew of a document after it heard that another file changed. Those
/// that have nothing new to say of it stay silent.
const PATIENCE: Duration = Duration::from_secs(2);

impl ServerPool {
    /// What all servers of a file say about the text of `doc`. Never about another text: a server that
    /// has not answered by the deadline is named in `pending`, and not among those who answered.
    ///
    /// # Errors
    /// [`ServerError`] when no server can be asked at all.
    pub async fn diagnostics(
        self: &Arc<Self>,
        doc: &Document,
        cx: &RequestCx,
    ) -> Result<Answer<Diagnostics>, ServerError> {
        let clock = cx.clock();
        let (servers, problems) = self.pick_all(&doc.path, Feature::Diagnostics, clock).await?;
        let mut out = Diagnostics {
            version: doc.version,
            items: Vec::new(),
            pending: Vec::new(),
            failed: problems.iter().map(ServerError::to_string).collect(),
        };
        let asks = servers.iter().map(|server| of_one(server, doc, clock));
        let answers = futures_util::future::join_all(asks).await;
        let (mut first, mut answered) = (None, Vec::new());
        for (server, answer) in servers.iter().zip(answers) {
            match answer {
                Ok(Some(items)) => {
                    answered.push(server.name());
                    out.items.extend(items);
                }
                Ok(None) => out.pending.push(server.name().to_owned()),
                Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                Err(ServerError::Timeout { .. }) => out.pending.push(server.name().to_owned()),
                Err(error) => {
                    out.failed.push(error.to_string());
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
        let note = servers.iter().find_map(|server| server.note());
        Ok(Answer { value: out, server: answered.join(", "), note })
    }
}

async fn of_one(
    server: &Server,
    doc: &Document,
    clock: Clock<'_>,
) -> Result<Option<Vec<Diagnostic>>, ServerError> {
    // Servers that register what they offer do so before they have loaded, so this waits for that.
    server.wait_ready(Some(doc), clock).await?;
    of_loaded(server, doc, false, clock).await
}

/// How a server is asked for diagnostics; `None`: it tells them by itself.
pub(crate) fn pulled(server: &Server) -> Option<Value> {
    server.core.capabilities().provider("diagnosticProvider", METHOD).cloned()
}

/// The problems of a document that a loaded server is shown, as one it never saw if `anew`; `None` when
/// they are not known in time.
pub(super) async fn of_loaded(
    server: &Server,
    doc: &Document,
    anew: bool,
    clock: Clock<'_>,
) -> Result<Option<Vec<Diagnostic>>, ServerError> {
    // What was said before another file changed is not repeated as if it were known.
    tokio::select! {
        biased;
        () = clock.cancel.cancelled() => return Err(ServerError::Cancelled),
        () = server.sweep(Look::Now) => {}
    }
    let (synced, items) = match pulled(server) {
        Some(options) => {
            let known = server.core.reports().id(&doc.path);
            let ask = server
                .ask(Some(doc), METHOD, clock, |synced, _| question(synced, &options, known.as_deref()));
            let asked = ask.await?;
            let report: Option<Report<'_>> = server.read_borrowed(METHOD, &asked.raw)?;
            let Some(synced) = asked.snapshot.get(&doc.path).cloned() else { return Ok(None) };
            // No report at all is none about this text.
            let items =
                report.and_then(|report| server.core.reports().take(&doc.path, known.as_deref(), &report));
            let Some(items) = items else { return Ok(None) };
            (synced, items)
        }
        None => {
            // Held while it is waited: no trial comes between.
            let entered = server.enter(METHOD, clock).await?;
            let before = server.core.documents().number(&doc.path);
            let synced = match anew {
                true => server.open_anew(&entered, doc, clock).await?,
                false => server.open_entered(&entered, doc, clock).await?,
            };
            let sent_before = before == Some(synced.number);
            let pushed = tokio::select! {
                biased;
                () = clock.cancel.cancelled() => return Err(ServerError::Cancelled),
                _ = server.peer.closed() => return Err(server.crashed("waiting for diagnostics").await),
                pushed = pushed(server, &entered, doc, (synced.clone(), sent_before), clock) => pushed?,
                true = is_clean(server, doc, &synced, clock) => Some((synced, RawJson::empty_list())),
            };
            let Some(pushed) = pushed else { return Ok(None) };
            pushed
        }
    };
    // Another question may have sent a newer text meanwhile; then the answer may be about that.
    if *synced.view.text != *doc.text {
        return Ok(None);
    }
    read(server, &synced, &items).map(Some)
}

/// What the server pushes of a document after all that it was told of others. One that says nothing more
/// for a while is shown the document again; so is one that says nothing of a text that it was sent before
/// the question (clangd 22.1.1 looks at no text that was changed and changed back before it began).
async fn pushed(
    server: &Server,
    entered: &Entered,
    doc: &Document,
    (mut synced, sent_before): (Synced, bool),
    clock: Clock<'_>,
) -> Result<Option<(Synced, RawJson)>, ServerError> {
    let told = &server.core.diagnostics;
    let moved = told.moved(&doc.path);
    if told.is_outdated(&doc.path, &synced, moved) {
        let until = Instant::now() + PATIENCE.min(clock.left() / 4);
        if let Some(items) = told.wait(&doc.path, &synced, until, Told::After(moved)).await {
            return Ok(Some((synced, items)));
        }
        synced = server.show_again(entered, doc, clock).await?;
    } else if sent_before && told.is_versioned() && clock.left() > 4 * PATIENCE {
        let until = Instant::now() + 2 * PATIENCE;
        if let Some(items) = told.wait(&doc.path, &synced, until, Told::After(moved)).await {
            return Ok(Some((synced, items)));
        }
        if !told.is_working() {
            synced = server.show_again(entered, doc, clock).await?;
        }
    }
    let items = told.wait(&doc.path, &synced, clock.until, Told::After(moved)).await;
    Ok(items.map(|items| (synced, items)))
}

/// Whether the server, asked as its definition says, finds nothing wrong with exactly this text. `false`
/// says nothing: then only what it pushes counts.
async fn is_clean(server: &Server, doc: &Document, synced: &Synced, clock: Clock<'_>) -> bool {
    const METHOD: &str = "workspace/executeCommand";
    let Some(rule) = &server.core.definition.diagnostics.clean else { return false };
    if !commands(&server.core).contains(&rule.command) {
        return false;
    }
    let variables = [("file", doc.path.to_string())];
    for arguments in &rule.arguments {
        let arguments: Vec<Value> = arguments.iter().map(|it| expand(it, &variables)).collect();
        let params = json!({"command": rule.command, "arguments": arguments});
        let Ok(asked) = server.ask(Some(doc), METHOD, clock, |_, _| params.clone()).await else {
            return false;
        };
        let same = asked.snapshot.get(&doc.path).is_some_and(|now| now.number == synced.number);
        let answer = server.read::<Value>(METHOD, &asked.raw).unwrap_or_default();
        if !same || !answer[&rule.field].as_array().is_some_and(Vec::is_empty) {
            return false;
        }
    }
    true
}

/// `DocumentDiagnosticParams`.
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

pub(crate) fn read(
    server: &Server,
    synced: &Synced,
    items: &RawJson,
) -> Result<Vec<Diagnostic>, ServerError> {
    let encoding = server.core.capabilities().encoding();
    let mut out = Vec::new();
    let bad = |error: serde_json::Error| server.protocol("diagnostics", error.to_string());
    let items: Option<Vec<&RawValue>> = serde_json::from_str(items.get()).map_err(bad)?;
    for raw in items.unwrap_or_default() {
        let item: RawDiagnostic = serde_json::from_str(raw.get()).map_err(bad)?;
        let Some(range) = synced.view.range(item.range, encoding) else { continue };
        let text = |value: Value| match value {
            Value::String(text) => text,
            Value::Object(ref map) => map.get("value").and_then(Value::as_str).unwrap_or_default().to_owned(),
            other => other.to_string(),
        };
        out.push(Diagnostic {
            line: synced.view.line(range.start).0,
            range,
            severity: match item.severity {
                Some(2) => Severity::Warning,
                Some(3) => Severity::Information,
                Some(4) => Severity::Hint,
                _ => Severity::Error,
            },
            code: item.code.filter(|code| !code.is_null()).map(text),
            source: item.source,
            message: text(item.message),
            server: server.name().to_owned(),
            raw: RawJson::new(raw),
        });
    }
    Ok(out)
}
