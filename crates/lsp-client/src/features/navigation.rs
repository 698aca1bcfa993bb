//! Definitions, declarations, implementations, references, hover.

use std::collections::HashSet;
use std::sync::Arc;

use paths::AbsPath;
use serde_json::{Value, json};
use workspace::Document;

use super::candidate_files::{Candidates, OpenCandidates};
use super::{answer, at};
use crate::answer::{Answer, Location};
use crate::error::{Result, ServerError};
use crate::note::Note;
use crate::pool::{RequestCx, ServerPool};
use crate::server::protocol::{AnyLocation, Many};
use crate::server::request_table::Request;
use crate::server::{Asked, Clock, Server};
use adapters::Feature;

/// Maximum number of files of one package in which the name is resolved.
const MAX_RESOLVED: usize = 5;

pub(super) const REQUESTS: &[Request] = &[
    Request::new("textDocument/definition").of(Feature::Definition, "definitionProvider").quick(),
    Request::new("textDocument/declaration").of(Feature::Declaration, "declarationProvider").quick(),
    Request::new("textDocument/typeDefinition").of(Feature::TypeDefinition, "typeDefinitionProvider").quick(),
    Request::new("textDocument/implementation").of(Feature::Implementation, "implementationProvider"),
    Request::new("textDocument/references")
        .of(Feature::References, "referencesProvider")
        .announced("references"),
    Request::new("textDocument/hover").of(Feature::Hover, "hoverProvider").quick(),
];

/// The target of navigation from a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Navigate {
    Definition,
    Declaration,
    TypeDefinition,
    Implementation,
}

impl Navigate {
    fn feature(self) -> Feature {
        match self {
            Self::Definition => Feature::Definition,
            Self::Declaration => Feature::Declaration,
            Self::TypeDefinition => Feature::TypeDefinition,
            Self::Implementation => Feature::Implementation,
        }
    }

    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Definition => "textDocument/definition",
            Self::Declaration => "textDocument/declaration",
            Self::TypeDefinition => "textDocument/typeDefinition",
            Self::Implementation => "textDocument/implementation",
        }
    }
}

impl ServerPool {
    /// The definitions of the symbol at byte `offset`.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn definition(
        self: &Arc<Self>,
        doc: &Document,
        offset: usize,
        cx: &RequestCx,
    ) -> Result<Answer<Vec<Location>>> {
        self.navigate(Navigate::Definition, doc, offset, cx).await
    }

    /// The places that `to` leads to from byte `offset`, in the server's order.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn navigate(
        self: &Arc<Self>,
        to: Navigate,
        doc: &Document,
        offset: usize,
        cx: &RequestCx,
    ) -> Result<Answer<Vec<Location>>> {
        let clock = cx.clock();
        let method = to.method();
        let server = self.pick(&doc.path, to.feature(), clock).await?;
        server.wait_ready(Some(doc), clock).await?;
        let mut candidates = match to {
            // An implementation names the symbol, maybe in another package.
            Navigate::Implementation => {
                let name = &doc.text[text::word_at(&doc.text, offset)];
                self.open_candidates(&server, name, clock).await?
            }
            _ => OpenCandidates::default(),
        };
        let asked = async {
            let asked =
                server.ask(Some(doc), method, clock, |synced, encoding| at(synced, offset, encoding)).await?;
            let mut found = locations(&server, &asked)?;
            let mut failed = None;
            if to == Navigate::Implementation {
                // The answer of the file's own package counts even if other servers do not answer.
                let clock = clock.part(75);
                match self.elsewhere(&server, method, (doc, offset), &candidates, &mut found, clock).await {
                    Ok(()) => {}
                    Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                    Err(error) => failed = Some(Note::PackagesFailed(error)),
                }
            }
            Ok((asked, found, failed))
        };
        let asked: Result<_> = asked.await;
        candidates.close(&server).await;
        let (asked, mut found, failed) = asked?;
        let mut seen = HashSet::new();
        found.retain(|place| seen.insert((place.path.clone(), place.range.start, place.line)));
        Ok(answer(&server, &asked, found).with_notes(candidates.note().into_iter().chain(failed)))
    }

    /// Adds places in packages of other candidates, where the name is the same symbol.
    ///
    /// A server may answer only from the package of the requested file (tsserver 5.9).
    async fn elsewhere(
        &self,
        server: &Server,
        method: &str,
        (doc, offset): (&Document, usize),
        candidates: &OpenCandidates,
        found: &mut Vec<Location>,
        clock: Clock<'_>,
    ) -> Result<()> {
        const DEFINITION: &str = "textDocument/definition";
        let own = self.package_of(&server.core.definition, &doc.path);
        let name = &doc.text[text::word_at(&doc.text, offset)];
        let is_found = |found: &[Location], path: &AbsPath| found.iter().any(|place| place.path == *path);
        let mut packages = candidates.found().map(Candidates::by_package).unwrap_or_default();
        packages.retain(|package, paths| **package != own && !paths.iter().all(|path| is_found(found, path)));
        if packages.is_empty() {
            return Ok(());
        }
        let ask = async |method: &str, doc: &Document, offset: usize| {
            let asked =
                server.ask(Some(doc), method, clock, |synced, encoding| at(synced, offset, encoding)).await?;
            locations(server, &asked)
        };
        let definitions = ask(DEFINITION, doc, offset).await?;
        for paths in packages.into_values() {
            // The answer for a package that depends on this one contains its places.
            if paths.iter().all(|path| is_found(found, path)) {
                continue;
            }
            for path in paths.into_iter().take(MAX_RESOLVED) {
                let Ok(candidate) = self.workspace.document(path) else { continue };
                let Some(place) = text::occurrences(&candidate.text, name).next() else { continue };
                // Another symbol of that name is skipped.
                let is_same = |place: &Location| {
                    definitions.iter().any(|it| it.path == place.path && it.range == place.range)
                };
                if ask(DEFINITION, &candidate, place.start).await?.iter().any(is_same) {
                    found.extend(ask(method, &candidate, place.start).await?);
                    break;
                }
            }
        }
        Ok(())
    }

    /// The references of the symbol at byte `offset`, in order of file and position.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn references(
        self: &Arc<Self>,
        doc: &Document,
        offset: usize,
        include_declaration: bool,
        cx: &RequestCx,
    ) -> Result<Answer<Vec<Location>>> {
        let clock = cx.clock();
        let server = self.pick(&doc.path, Feature::References, clock).await?;
        server.wait_ready(Some(doc), clock).await?;
        let name = &doc.text[text::word_at(&doc.text, offset)];
        let mut candidates = OpenCandidates::default();
        let asked =
            self.ask_for_all_uses(&server, (doc, offset), include_declaration, &mut candidates, clock).await;
        candidates.close(&server).await;
        let asked = asked?;
        let mut found = locations(&server, &asked)?;
        found.sort_by(|a, b| (&a.path, a.range.start, a.line).cmp(&(&b.path, b.range.start, b.line)));
        found.dedup();
        drop_links(&mut found);
        let places: Vec<&AbsPath> = found.iter().map(|place| &place.path).collect();
        let missed = candidates.found().and_then(|found| found.missed(&server, name, &places));
        Ok(answer(&server, &asked, found).with_notes(candidates.note().into_iter().chain(missed)))
    }

    /// Requests references, if needed twice, and finds the candidates meanwhile.
    ///
    /// Before the second request, the candidates are opened that the first answer lacks.
    pub(super) async fn ask_for_all_uses(
        &self,
        server: &Server,
        (doc, offset): (&Document, usize),
        include_declaration: bool,
        candidates: &mut OpenCandidates,
        clock: Clock<'_>,
    ) -> Result<Asked> {
        let name = &doc.text[text::word_at(&doc.text, offset)];
        let (found, asked) = tokio::join!(
            self.find_openable(server, name, clock),
            ask_for_uses(server, doc, offset, include_declaration, clock)
        );
        *candidates = found?;
        let asked = asked?;
        match candidates.open_missing(self, server, &locations(server, &asked)?, clock).await? {
            true => ask_for_uses(server, doc, offset, include_declaration, clock).await,
            false => Ok(asked),
        }
    }

    /// The hover text for byte `offset`, Markdown or plain text.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn hover(
        self: &Arc<Self>,
        doc: &Document,
        offset: usize,
        cx: &RequestCx,
    ) -> Result<Answer<Option<String>>> {
        let clock = cx.clock();
        let server = self.pick(&doc.path, Feature::Hover, clock).await?;
        server.wait_ready(Some(doc), clock).await?;
        let ask = server
            .ask(Some(doc), "textDocument/hover", clock, |synced, encoding| at(synced, offset, encoding));
        let asked = ask.await?;
        let hover: Value = server.read(&asked.method, &asked.raw)?;
        let text = hover_text(&hover["contents"]);
        Ok(answer(&server, &asked, Some(text).filter(|text| !text.trim().is_empty())))
    }
}

/// Drops places of a link if its target is found too.
fn drop_links(found: &mut Vec<Location>) {
    let paths: HashSet<AbsPath> = found.iter().map(|place| place.path.clone()).collect();
    let is_double = |path: &&AbsPath| {
        let target = std::fs::canonicalize(path).ok().and_then(AbsPath::new);
        target.is_some_and(|target| target != **path && paths.contains(&target))
    };
    let links: HashSet<AbsPath> = paths.iter().filter(is_double).cloned().collect();
    found.retain(|place| !links.contains(&place.path));
}

async fn ask_for_uses(
    server: &Server,
    doc: &Document,
    offset: usize,
    include_declaration: bool,
    clock: Clock<'_>,
) -> Result<Asked> {
    let ask = server.ask(Some(doc), "textDocument/references", clock, |synced, encoding| {
        let mut params = at(synced, offset, encoding);
        params["context"] = json!({"includeDeclaration": include_declaration});
        params
    });
    ask.await
}

/// The references of a symbol without its declarations, as one server gives them.
pub(super) async fn uses(
    server: &Server,
    doc: &Document,
    offset: usize,
    clock: Clock<'_>,
) -> Result<Vec<Location>> {
    require_references(server)?;
    let asked = ask_for_uses(server, doc, offset, false, clock).await?;
    locations(server, &asked)
}

pub(super) fn require_references(server: &Server) -> Result<()> {
    let feature = Feature::References;
    match server.core.capabilities().offers(feature) {
        true => Ok(()),
        false => Err(ServerError::Unsupported { server: server.name().to_owned(), feature }),
    }
}

pub(super) fn locations(server: &Server, asked: &Asked) -> Result<Vec<Location>> {
    let found: Many<AnyLocation<'_>> = server.read_borrowed(&asked.method, &asked.raw)?;
    let mut places = Vec::new();
    for place in found.into_vec() {
        let bad = || server.protocol(&asked.method, "a location without a URI or a range".to_owned());
        let (uri, range) = place.parts().ok_or_else(bad)?;
        places.extend(asked.location(server, &uri, range));
    }
    Ok(places)
}

/// Text of `MarkupContent`, `MarkedString` or a list of these.
pub(super) fn hover_text(contents: &Value) -> String {
    match contents {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(hover_text).collect::<Vec<_>>().join("\n\n"),
        Value::Object(map) => {
            let text = map.get("value").and_then(Value::as_str).unwrap_or_default();
            match map.get("language").and_then(Value::as_str) {
                Some(language) => format!("```{language}\n{text}\n```"),
                None => text.to_owned(),
            }
        }
        _ => String::new(),
    }
}
