//! Call hierarchy and type hierarchy.

use std::sync::Arc;

use paths::AbsPath;
use serde_json::{Value, json};
use workspace::Document;

use super::candidate_files::{Candidates, OpenCandidates};
use super::server_handle::ServerHandle;
use super::{answer, at};
use crate::answer::{Answer, Location, Symbol};
use crate::error::{Refusal, Result};
use crate::note::Note;
use crate::pool::{RequestCx, ServerPool};
use crate::server::protocol::{CallLink, HierarchyItem, kind_name};
use crate::server::request_table::Request;
use crate::server::{Asked, Clock, Server};
use adapters::Feature;

pub(super) const REQUESTS: &[Request] = &[
    Request::new("textDocument/prepareCallHierarchy")
        .of(Feature::CallHierarchy, "callHierarchyProvider")
        .announced("callHierarchy"),
    Request::new("callHierarchy/incomingCalls"),
    Request::new("callHierarchy/outgoingCalls"),
    Request::new("textDocument/prepareTypeHierarchy")
        .of(Feature::TypeHierarchy, "typeHierarchyProvider")
        .announced("typeHierarchy"),
    Request::new("typeHierarchy/supertypes"),
    Request::new("typeHierarchy/subtypes"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Calls {
    Incoming,
    Outgoing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Types {
    /// The types that it extends.
    Super,
    /// The types that extend it.
    Sub,
}

/// A function on the other end of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The caller or the callee.
    pub symbol: Symbol,
    /// The places of the calls, in the caller.
    pub places: Vec<Location>,
}

impl ServerPool {
    /// The functions that the one at byte `offset` calls, with the place of each call.
    ///
    /// # Errors
    ///
    /// [`ServerError`]; `Refused` as `not_found` when the server finds no function there.
    pub async fn callees(
        self: &Arc<Self>,
        doc: &Document,
        offset: usize,
        cx: &RequestCx,
    ) -> Result<Answer<Vec<Call>>> {
        let clock = cx.clock();
        let server = self.pick(&doc.path, Feature::CallHierarchy, clock).await?;
        server.wait_ready(Some(doc), clock).await?;
        calls(&server, Calls::Outgoing, doc, offset, clock).await
    }

    /// The types one step above or below the type at byte `offset`.
    ///
    /// # Errors
    ///
    /// [`ServerError`]; `Refused` as `not_found` when the server finds no type there.
    pub async fn types(
        self: &Arc<Self>,
        direction: Types,
        doc: &Document,
        offset: usize,
        cx: &RequestCx,
    ) -> Result<Answer<Vec<Symbol>>> {
        let clock = cx.clock();
        let handle = self.server_for(&doc.path, Feature::TypeHierarchy, cx).await?;
        let server = handle.server();
        server.wait_ready(Some(doc), clock).await?;
        let mut candidates = match direction {
            // A subtype names the type, maybe in another package.
            Types::Sub => {
                let name = &doc.text[text::word_at(&doc.text, offset)];
                self.open_candidates(server, name, clock).await?
            }
            Types::Super => OpenCandidates::default(),
        };
        let found = types(server, direction, doc, offset, clock).await;
        candidates.close(server).await;
        let mut found = found?;
        let files = found.value.iter().map(|symbol| &symbol.file).collect::<Vec<_>>();
        let packages = self.unsearched_packages(&handle, doc, &candidates, &files);
        found.notes.extend(candidates.note());
        if !packages.is_empty() {
            let server = server.name().to_owned();
            found.notes.push(Note::PackagesUnsearched { server, packages });
        }
        Ok(found)
    }

    /// Packages with candidates, of which `found` contains no file.
    ///
    /// A server that follows calls from an item may stay in the package of that item (tsserver
    /// 5.9).
    pub fn unsearched_packages(
        &self,
        server: &ServerHandle,
        doc: &Document,
        candidates: &OpenCandidates,
        found: &[&AbsPath],
    ) -> Vec<AbsPath> {
        let own = self.package_of(server.definition(), &doc.path);
        let mut packages = candidates.found().map(Candidates::by_package).unwrap_or_default();
        packages.retain(|package, paths| {
            **package != own
                && !paths.iter().all(|path| found.contains(path))
                && !found.iter().any(|path| path.starts_with(package))
        });
        packages.into_keys().cloned().collect()
    }
}

fn by_place(a: &Call, b: &Call) -> std::cmp::Ordering {
    (&a.symbol.file, a.symbol.line, &a.symbol.name).cmp(&(&b.symbol.file, b.symbol.line, &b.symbol.name))
}

async fn types(
    server: &Server,
    direction: Types,
    doc: &Document,
    offset: usize,
    clock: Clock<'_>,
) -> Result<Answer<Vec<Symbol>>> {
    let items = prepare(server, "textDocument/prepareTypeHierarchy", "type", doc, offset, clock).await?;
    let method = match direction {
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
    let notes = note.or_else(|| server.note()).into_iter().collect();
    Ok(Answer { value: types, server: server.name().to_owned(), notes })
}

pub(super) async fn calls(
    server: &Server,
    direction: Calls,
    doc: &Document,
    offset: usize,
    clock: Clock<'_>,
) -> Result<Answer<Vec<Call>>> {
    let items = prepare(server, "textDocument/prepareCallHierarchy", "function", doc, offset, clock).await?;
    let method = match direction {
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
            let (other, uri) = match (direction, link.from, link.to) {
                (Calls::Incoming, Some(from), _) => (from.clone(), from.uri),
                (Calls::Outgoing, _, Some(to)) => (to, item["uri"].as_str().unwrap_or_default().to_owned()),
                _ => return Err(server.protocol(method, "a call without `from` or `to`".to_owned())),
            };
            let places = link.from_ranges.iter();
            let places = places.filter_map(|range| asked.location(server, &uri, *range)).collect();
            out.extend(symbol(server, &asked, other).map(|symbol| Call { symbol, places }));
        }
        last = Some(asked);
    }
    let out = sorted(out);
    Ok(match last {
        Some(asked) => answer(server, &asked, out),
        None => Answer {
            value: out,
            server: server.name().to_owned(),
            notes: server.note().into_iter().collect(),
        },
    })
}

/// Sorts the calls by position and removes duplicates (basedpyright 1.40).
fn sorted(mut calls: Vec<Call>) -> Vec<Call> {
    let same = |a: &Symbol, b: &Symbol| {
        (&a.file, &a.selection, a.line, &a.name) == (&b.file, &b.selection, b.line, &b.name)
    };
    calls.sort_by(by_place);
    let mut out: Vec<Call> = Vec::new();
    for call in calls {
        match out.last_mut().filter(|known| same(&known.symbol, &call.symbol)) {
            Some(known) => known.places.extend(call.places),
            None => out.push(call),
        }
    }
    for call in &mut out {
        call.places.sort_by(|a, b| {
            (&a.path, a.range.start, a.range.end, a.line).cmp(&(&b.path, b.range.start, b.range.end, b.line))
        });
        call.places.dedup();
    }
    out
}

/// The hierarchy items at a place, as the server expects them back.
async fn prepare(
    server: &Server,
    method: &str,
    kind: &'static str,
    doc: &Document,
    offset: usize,
    clock: Clock<'_>,
) -> Result<Vec<Value>> {
    let ask = server.ask(Some(doc), method, clock, |synced, encoding| at(synced, offset, encoding));
    let asked = ask.await?;
    let items: Option<Vec<Value>> = server.read(method, &asked.raw)?;
    let items = items.unwrap_or_default();
    if items.is_empty() {
        let name = &doc.text[text::word_at(&doc.text, offset)];
        let (name, is_loading) = (name.to_owned(), asked.note.is_some());
        return Err(server.refused(Refusal::NoItem { kind, name, is_loading }));
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
