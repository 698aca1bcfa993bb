//! The symbols of a file, and those of a workspace that match a query.

use std::sync::Arc;
use std::time::Instant;

use paths::AbsPath;
use serde_json::{Value, json};
use workspace::{Budget, Document};

use super::uncovered_files::{LOOKING, Running, Unasked};
use super::{answer, document};
use crate::answer::{Answer, Symbol};
use crate::error::Result;
use crate::pool::{InUse, RequestCx, ServerPool};
use crate::server::protocol::{DocumentSymbol, FlatSymbol, kind_name};
use crate::server::request_table::Request;
use crate::server::view::View;
use crate::server::{Asked, Clock, Opened, Server};
use adapters::{Feature, ServerDefinition};

pub(super) const REQUESTS: &[Request] = &[
    Request::new("textDocument/documentSymbol").of(Feature::Symbols, "documentSymbolProvider").quick(),
    Request::new("workspace/symbol").of(Feature::WorkspaceSymbols, "workspaceSymbolProvider"),
    Request::new("workspaceSymbol/resolve"),
];

/// Maximum number of files scanned to find a language, if no file is given.
const LOOKED_AT: usize = 2000;
/// Maximum number of workspace symbols whose missing range is requested.
const RESOLVED: usize = 50;

/// The result of a search for workspace symbols.
#[derive(Debug, Clone, Default)]
pub struct WorkspaceSymbols {
    /// Symbols in the order of the servers' answers.
    pub symbols: Vec<Symbol>,
    /// Files whose servers were not asked; empty if the server of one file was asked.
    pub unasked: Vec<Unasked>,
    /// Whether there was no time to list all such files.
    pub is_cut: bool,
}

/// A file that was opened only to read its symbols.
#[must_use = "it stays open until `close_peeked`"]
pub struct Peeked {
    server: InUse,
    opened: Opened,
}

impl ServerPool {
    /// The outline of a file, as a tree where the server gives one.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn symbols(self: &Arc<Self>, doc: &Document, cx: &RequestCx) -> Result<Answer<Vec<Symbol>>> {
        let clock = cx.clock();
        let server = self.pick(&doc.path, Feature::Symbols, clock).await?;
        let (asked, symbols) = outlined(&server, doc, clock).await?;
        Ok(answer(&server, &asked, symbols))
    }

    /// The symbols of a file other than the requested one.
    ///
    /// The caller passes the result to [`ServerPool::close_peeked`]: a server works on all of its
    /// open files (tsserver 5.9 checks the types of all of them after each change).
    ///
    /// # Errors
    ///
    /// [`ServerError`]; then nothing stays open.
    pub async fn peek_symbols(
        self: &Arc<Self>,
        doc: &Document,
        cx: &RequestCx,
    ) -> Result<(Answer<Vec<Symbol>>, Peeked)> {
        let clock = cx.clock();
        let server = self.pick(&doc.path, Feature::Symbols, clock).await?;
        let opened = server.open_all(std::slice::from_ref(doc), clock).await?;
        match outlined(&server, doc, clock).await {
            Ok((asked, symbols)) => Ok((answer(&server, &asked, symbols), Peeked { server, opened })),
            Err(error) => {
                server.close_all(opened).await;
                Err(error)
            }
        }
    }

    /// Closes files that were opened by [`ServerPool::peek_symbols`], except `kept`.
    pub async fn close_peeked(&self, peeked: Vec<Peeked>, kept: Option<&AbsPath>) {
        for Peeked { server, opened } in peeked {
            server.close_all_but(opened, kept).await;
        }
    }

    /// Searches the workspace for symbols that match `query`.
    ///
    /// `near` selects the server; without it the running servers are asked, or the one for the first known
    /// file of the workspace.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn workspace_symbols(
        self: &Arc<Self>,
        query: &str,
        near: Option<&Document>,
        cx: &RequestCx,
    ) -> Result<Answer<WorkspaceSymbols>> {
        let clock = cx.clock();
        let feature = Feature::WorkspaceSymbols;
        let mut servers = match near {
            Some(near) => vec![self.pick(&near.path, feature, clock).await?],
            None => self.use_running(),
        };
        let unable = |server: &InUse| !server.core.capabilities().offers(feature);
        let mute: Vec<Running> = servers.iter().filter(|it| unable(it)).map(|it| Running::of(it)).collect();
        servers.retain(|server| !unable(server));
        if servers.is_empty() {
            let root = self.workspace.root();
            let budget = Budget { files: LOOKED_AT, ..Budget::new(clock.until, clock.cancel.clone()) };
            let mut files = self.workspace.candidates(self.workspace.files(root), budget);
            // An installed server is better than the server of the first file.
            let mut first = None;
            let known = files.find(|path| {
                let found = self.applying(path, feature);
                if first.is_none() && !found.is_empty() {
                    first = Some(path.clone());
                }
                found.iter().any(|definition| self.is_there(definition))
            });
            let known = known.or(first);
            let known = known.ok_or_else(|| self.no_server(root.to_string()))?;
            servers.push(self.pick(&known, feature, clock).await?);
        }
        let mut out = Answer { value: WorkspaceSymbols::default(), server: String::new(), notes: Vec::new() };
        for server in &servers {
            server.wait_ready(near, clock).await?;
            let params = |_: Option<&_>, _| json!({"query": query});
            let asked = server.ask(near, "workspace/symbol", clock, params).await?;
            let items: Option<Vec<Value>> = server.read(&asked.method, &asked.raw)?;
            for item in whole(server, items.unwrap_or_default(), clock).await? {
                let symbol: FlatSymbol = serde_json::from_value(item)
                    .map_err(|error| server.protocol(&asked.method, error.to_string()))?;
                out.value.symbols.extend(flat_symbol(server, &asked, symbol));
            }
            let note = asked.note.or_else(|| server.note());
            if out.notes.is_empty() {
                out.notes.extend(note);
            }
        }
        if near.is_none() {
            let pool = Arc::clone(self);
            let asked: Vec<Running> = servers.iter().map(|it| Running::of(it)).collect();
            let until = clock.until.min(Instant::now() + LOOKING);
            let budget = Budget { files: usize::MAX, ..Budget::new(until, clock.cancel.clone()) };
            let scan = move |_, budget| pool.unasked(feature, &asked, &mute, budget);
            let (unasked, is_whole) = self.workspace.scan(budget, scan).await.unwrap_or_default();
            (out.value.unasked, out.value.is_cut) = (unasked, !is_whole);
        }
        out.server = servers.iter().map(|server| server.name()).collect::<Vec<_>>().join(", ");
        Ok(out)
    }
}

/// The symbols of a file from one server.
pub(super) async fn outline(server: &Server, doc: &Document, clock: Clock<'_>) -> Result<Vec<Symbol>> {
    Ok(outlined(server, doc, clock).await?.1)
}

async fn outlined(server: &Server, doc: &Document, clock: Clock<'_>) -> Result<(Asked, Vec<Symbol>)> {
    let ask = server.ask(
        Some(doc),
        "textDocument/documentSymbol",
        clock,
        |synced, _| json!({"textDocument": document(synced)}),
    );
    let asked = ask.await?;
    let items: Option<Vec<Value>> = server.read(&asked.method, &asked.raw)?;
    let bad = |error: serde_json::Error| server.protocol(&asked.method, error.to_string());
    let view = asked.view(server, &doc.path);
    let mut symbols = Vec::new();
    for item in items.unwrap_or_default() {
        if item.get("location").is_some() {
            let flat: FlatSymbol = serde_json::from_value(item).map_err(bad)?;
            symbols.extend(flat_symbol(server, &asked, flat));
        } else if let Some(view) = &view {
            let symbol: DocumentSymbol = serde_json::from_value(item).map_err(bad)?;
            symbols.extend(tree(&server.core.definition, &asked, view, &doc.path, symbol, None));
        }
    }
    Ok((asked, symbols))
}

/// Requests the missing ranges of symbols, up to `RESOLVED`.
async fn whole(server: &Server, items: Vec<Value>, clock: Clock<'_>) -> Result<Vec<Value>> {
    const METHOD: &str = "workspaceSymbol/resolve";
    let resolves = {
        let capabilities = server.core.capabilities();
        let provider = capabilities.provider("workspaceSymbolProvider", "workspace/symbol");
        provider.is_some_and(|options| options["resolveProvider"] == true)
    };
    let mut out = Vec::new();
    for (count, item) in items.into_iter().enumerate() {
        let partial = item["location"].get("range").is_none_or(Value::is_null);
        if !(partial && resolves && count < RESOLVED) {
            out.push(item);
            continue;
        }
        let asked = server.ask(None, METHOD, clock, |_, _| item.clone()).await?;
        out.push(server.read(METHOD, &asked.raw)?);
    }
    Ok(out)
}

fn joined(container: Option<&str>, name: &str) -> String {
    // Some servers give the whole path as name.
    let is_whole = |container: &str| name.strip_prefix(container).is_some_and(|rest| rest.starts_with('.'));
    match container {
        Some(container) if !container.is_empty() && !is_whole(container) => format!("{container}.{name}"),
        _ => name.to_owned(),
    }
}

fn flat_symbol(server: &Server, asked: &Asked, symbol: FlatSymbol) -> Option<Symbol> {
    let range = symbol.location.range.unwrap_or_default();
    let location = asked.location(server, &symbol.location.uri, range)?;
    let container = symbol.container_name.filter(|container| !container.is_empty());
    Some(Symbol {
        kind: kind_name(symbol.kind),
        path: joined(container.as_deref(), &symbol.name),
        file: location.path,
        selection: location.range.clone(),
        range: location.range,
        line: location.line,
        container,
        children: Vec::new(),
        name: symbol.name,
    })
}

fn tree(
    definition: &ServerDefinition,
    asked: &Asked,
    view: &View,
    file: &AbsPath,
    symbol: DocumentSymbol,
    container: Option<&str>,
) -> Option<Symbol> {
    let range = view.range(symbol.range, asked.encoding)?;
    let selection = view.range(symbol.selection_range, asked.encoding)?;
    let path = joined(container, &symbol.name);
    let found = definition.container_pattern.as_ref().and_then(|pattern| pattern.captures(&symbol.name));
    let own = found.as_ref().and_then(|found| found.get(1)).map_or(&*symbol.name, |name| name.as_str());
    let inside = joined(container, own);
    let children = symbol.children.unwrap_or_default().into_iter();
    let children =
        children.filter_map(|child| tree(definition, asked, view, file, child, Some(&inside))).collect();
    Some(Symbol {
        kind: kind_name(symbol.kind),
        line: view.line(selection.start),
        file: file.clone(),
        container: container.map(str::to_owned),
        name: symbol.name,
        path,
        range,
        selection,
        children,
    })
}
