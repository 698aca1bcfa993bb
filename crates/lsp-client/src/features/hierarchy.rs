//! Who calls a function and what it calls; what a type is built on and what is built on it.

use std::sync::Arc;

use serde_json::{Value, json};
use workspace::{AbsPath, Document};

use super::holders::{Holders, Where};
use super::{answer, at, noted};
use crate::answer::{Answer, Location, Symbol};
use crate::definition::Feature;
use crate::error::ServerError;
use crate::pool::{RequestCx, ServerPool};
use crate::protocol::{CallLink, HierarchyItem, kind_name};
use crate::server::{Asked, Clock, Server};
use workspace::ErrorCode;

/// Which way calls are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// Who calls it.
    Incoming,
    /// What it calls.
    Outgoing,
}

/// Which way types are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Types {
    /// What it is built on.
    Super,
    /// What is built on it.
    Sub,
}

/// A function on the other end of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The caller, or what is called.
    pub symbol: Symbol,
    /// Where the calls are written: in the caller.
    pub places: Vec<Location>,
}

impl ServerPool {
    /// The functions that call the one at byte `offset`, or that it calls, with each call's place.
    ///
    /// # Errors
    /// [`ServerError`]; `Refused` as `not_found` when the server sees no function there.
    pub async fn calls(
        self: &Arc<Self>,
        way: Calls,
        doc: &Document,
        offset: usize,
        cx: &RequestCx,
    ) -> Result<Answer<Vec<Call>>, ServerError> {
        let clock = cx.clock();
        let server = self.pick(&doc.path, Feature::CallHierarchy, clock).await?;
        server.wait_ready(Some(doc), clock).await?;
        let mut holders = match way {
            Calls::Incoming => {
                let name = &doc.text[text::word_at(&doc.text, offset)];
                self.open_holders(&server, name, Where::All, clock).await?
            }
            Calls::Outgoing => Holders::default(),
        };
        let found = calls(&server, way, doc, offset, clock).await;
        if let Some(opened) = holders.opened.take() {
            server.close_all(opened).await;
        }
        let found = found?;
        let told = found.value.iter().map(|call| &call.symbol.file).collect::<Vec<_>>();
        let left = self.not_looked_at(&server, doc, &holders, &told);
        Ok(noted(noted(found, holders.note), left))
    }

    /// The types that the one at byte `offset` is built on, or that are built on it, one step away.
    ///
    /// # Errors
    /// [`ServerError`]; `Refused` as `not_found` when the server sees no type there.
    pub async fn types(
        self: &Arc<Self>,
        way: Types,
        doc: &Document,
        offset: usize,
        cx: &RequestCx,
    ) -> Result<Answer<Vec<Symbol>>, ServerError> {
        let clock = cx.clock();
        let server = self.pick(&doc.path, Feature::TypeHierarchy, clock).await?;
        server.wait_ready(Some(doc), clock).await?;
        let mut holders = match way {
            // What is built on it names it, maybe in another package.
            Types::Sub => {
                let name = &doc.text[text::word_at(&doc.text, offset)];
                self.open_holders(&server, name, Where::All, clock).await?
            }
            Types::Super => Holders::default(),
        };
        let found = types(&server, way, doc, offset, clock).await;
        if let Some(opened) = holders.opened.take() {
            server.close_all(opened).await;
        }
        let found = found?;
        let told = found.value.iter().map(|symbol| &symbol.file).collect::<Vec<_>>();
        let left = self.not_looked_at(&server, doc, &holders, &told);
        Ok(noted(noted(found, holders.note), left))
    }

    /// A word about files of other packages that hold the name and are not `told` of: who follows calls from
    /// an item may stay in the item's own package (tsserver 5.9).
    fn not_looked_at(
        &self,
        server: &Server,
        doc: &Document,
        holders: &Holders,
        told: &[&AbsPath],
    ) -> Option<String> {
        let root = |path: &AbsPath| self.root_of(&server.core.definition, path);
        let own = root(&doc.path);
        let mut packages: Vec<AbsPath> = holders
            .paths
            .iter()
            .filter(|path| !told.contains(path))
            .map(root)
            .filter(|it| *it != own)
            .collect();
        packages.sort();
        packages.dedup();
        packages.retain(|root| !told.iter().any(|path| path.starts_with(root)));
        let names: Vec<String> = packages.iter().map(|root| server.core.workspace.relative(root)).collect();
        (!names.is_empty()).then(|| {
            format!(
                "the name stands in other packages too, where {} may not have looked; `references` of it has \
                 their places: {}",
                server.name(),
                names.join(", ")
            )
        })
    }
}

async fn types(
    server: &Server,
    way: Types,
    doc: &Document,
    offset: usize,
    clock: Clock<'_>,
) -> Result<Answer<Vec<Symbol>>, ServerError> {
    let items = prepare(server, "textDocument/prepareTypeHierarchy", "type", doc, offset, clock).await?;
    let method = match way {
        Types::Super => "typeHierarchy/supertypes",
        Types::Sub => "typeHierarchy/subtypes",
    };
    let mut types: Vec<Symbol> = Vec::new();
    let mut note = None;
    for item in items {
        let asked = server.ask(Some(doc), method, clock, |_, _| json!({"item": item})).await?;
        let found: Option<Vec<HierarchyItem>> = server.read(method, &asked.raw)?;
        types.extend(found.unwrap_or_default().into_iter().filter_map(|it| symbol(server, &asked, it)));
        note = note.or(asked.note);
    }
    types.sort_by(|a, b| (&a.file, a.line, &a.name).cmp(&(&b.file, b.line, &b.name)));
    types.dedup();
    let note = note.or_else(|| server.note());
    Ok(Answer { value: types, server: server.name().to_owned(), note })
}

async fn calls(
    server: &Server,
    way: Calls,
    doc: &Document,
    offset: usize,
    clock: Clock<'_>,
) -> Result<Answer<Vec<Call>>, ServerError> {
    let items = prepare(server, "textDocument/prepareCallHierarchy", "function", doc, offset, clock).await?;
    let method = match way {
        Calls::Incoming => "callHierarchy/incomingCalls",
        Calls::Outgoing => "callHierarchy/outgoingCalls",
    };
    let mut out = Vec::new();
    let mut last = None;
    for item in items {
        let asked = server.ask(Some(doc), method, clock, |_, _| json!({"item": item})).await?;
        let links: Option<Vec<CallLink>> = server.read(method, &asked.raw)?;
        for link in links.unwrap_or_default() {
            // The ranges are in the caller's file (LSP 3.17 §callHierarchy).
            let (other, uri) = match (way, link.from, link.to) {
                (Calls::Incoming, Some(from), _) => (from.clone(), from.uri),
                (Calls::Outgoing, _, Some(to)) => (to, item["uri"].as_str().unwrap_or_default().to_owned()),
                _ => return Err(server.protocol(method, "a call without its other end".to_owned())),
            };
            let places = link.from_ranges.iter();
            let places = places.filter_map(|range| asked.location(server, &uri, *range)).collect();
            out.extend(symbol(server, &asked, other).map(|symbol| Call { symbol, places }));
        }
        last = Some(asked);
    }
    out.sort_by(|a: &Call, b: &Call| {
        (&a.symbol.file, a.symbol.line, &a.symbol.name).cmp(&(&b.symbol.file, b.symbol.line, &b.symbol.name))
    });
    Ok(match last {
        Some(asked) => answer(server, &asked, out),
        None => Answer { value: out, server: server.name().to_owned(), note: server.note() },
    })
}

/// What the hierarchy can be asked about at a place, as the server wants it back.
async fn prepare(
    server: &Server,
    method: &str,
    what: &str,
    doc: &Document,
    offset: usize,
    clock: Clock<'_>,
) -> Result<Vec<Value>, ServerError> {
    let ask = server.ask(Some(doc), method, clock, |synced, encoding| at(synced, offset, encoding));
    let asked = ask.await?;
    let items: Option<Vec<Value>> = server.read(method, &asked.raw)?;
    let items = items.unwrap_or_default();
    if items.is_empty() {
        let name = &doc.text[text::word_at(&doc.text, offset)];
        let loading = asked.note.map(|note| format!("; {note}")).unwrap_or_default();
        let message = format!("it sees no {what} at {name:?}{loading}");
        return Err(server.refused(ErrorCode::NotFound, message));
    }
    Ok(items)
}

fn symbol(server: &Server, asked: &Asked, item: HierarchyItem) -> Option<Symbol> {
    let location = asked.location(server, &item.uri, item.selection_range)?;
    let whole = asked.location(server, &item.uri, item.range)?;
    Some(Symbol {
        path: item.name.clone(),
        name: item.name,
        kind: kind_name(item.kind),
        file: location.path,
        range: whole.range,
        selection: location.range,
        line: location.line,
        container: item.detail.filter(|detail| !detail.is_empty()),
        children: Vec::new(),
    })
}
