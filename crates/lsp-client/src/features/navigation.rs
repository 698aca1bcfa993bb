//! Definition and its kin, references, hover.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use workspace::{AbsPath, Document};

use super::holders::{Holders, Where};
use super::{answer, at, noted};
use crate::answer::{Answer, Location};
use crate::definition::Feature;
use crate::error::ServerError;
use crate::pool::{RequestCx, ServerPool};
use crate::protocol::{AnyLocation, Many};
use crate::server::{Asked, Clock, Server};

/// Files of one package that are asked whether a name means the same there.
const MOST_TRIED: usize = 5;

/// Where to go from a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the specification's own names")]
pub enum Navigate {
    Definition,
    Declaration,
    TypeDefinition,
    Implementation,
}

impl Navigate {
    fn request(self) -> (Feature, &'static str) {
        match self {
            Self::Definition => (Feature::Definition, "textDocument/definition"),
            Self::Declaration => (Feature::Declaration, "textDocument/declaration"),
            Self::TypeDefinition => (Feature::TypeDefinition, "textDocument/typeDefinition"),
            Self::Implementation => (Feature::Implementation, "textDocument/implementation"),
        }
    }
}

impl ServerPool {
    /// Where the thing at byte `offset` is defined.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn definition(
        self: &Arc<Self>,
        doc: &Document,
        offset: usize,
        cx: &RequestCx,
    ) -> Result<Answer<Vec<Location>>, ServerError> {
        self.navigate(Navigate::Definition, doc, offset, cx).await
    }

    /// Where one comes to from byte `offset`, in the server's order.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn navigate(
        self: &Arc<Self>,
        to: Navigate,
        doc: &Document,
        offset: usize,
        cx: &RequestCx,
    ) -> Result<Answer<Vec<Location>>, ServerError> {
        let clock = cx.clock();
        let (feature, method) = to.request();
        let server = self.pick(&doc.path, feature, clock).await?;
        server.wait_ready(Some(doc), clock).await?;
        let mut holders = match to {
            // Who implements it names it, maybe in another package.
            Navigate::Implementation => {
                let name = &doc.text[text::word_at(&doc.text, offset)];
                self.open_holders(&server, name, Where::All, clock).await?
            }
            _ => Holders::default(),
        };
        let asked = async {
            let asked =
                server.ask(Some(doc), method, clock, |synced, encoding| at(synced, offset, encoding)).await?;
            let mut found = locations(&server, &asked)?;
            let mut unseen = None;
            if to == Navigate::Implementation {
                // What the file's own package has counts also where others do not answer.
                let clock = clock.part(75);
                match self.elsewhere(&server, method, (doc, offset), &holders, &mut found, clock).await {
                    Ok(()) => {}
                    Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                    Err(error) => unseen = Some(format!("not all packages were looked at: {error}")),
                }
            }
            Ok((asked, found, unseen))
        };
        let asked: Result<_, ServerError> = asked.await;
        if let Some(opened) = holders.opened.take() {
            server.close_all(opened).await;
        }
        let (asked, mut found, unseen) = asked?;
        let mut seen = HashSet::new();
        found.retain(|place| seen.insert((place.path.clone(), place.range.start, place.line)));
        Ok(noted(noted(answer(&server, &asked, found), holders.note), unseen))
    }

    /// Adds what is `found` from the packages of other files that hold the name, where the name means the
    /// same there: a server may answer from the project of the file that it is asked about (tsserver 5.9).
    async fn elsewhere(
        &self,
        server: &Server,
        method: &str,
        (doc, offset): (&Document, usize),
        holders: &Holders,
        found: &mut Vec<Location>,
        clock: Clock<'_>,
    ) -> Result<(), ServerError> {
        const DEFINITION: &str = "textDocument/definition";
        let own = self.root_of(&server.core.definition, &doc.path);
        let name = &doc.text[text::word_at(&doc.text, offset)];
        let mut packages: BTreeMap<AbsPath, Vec<&AbsPath>> = BTreeMap::new();
        for path in &holders.paths {
            let root = self.root_of(&server.core.definition, path);
            if root != own && !found.iter().any(|place| place.path.starts_with(&root)) {
                packages.entry(root).or_default().push(path);
            }
        }
        if packages.is_empty() {
            return Ok(());
        }
        let ask = async |method: &str, doc: &Document, offset: usize| {
            let asked =
                server.ask(Some(doc), method, clock, |synced, encoding| at(synced, offset, encoding)).await?;
            locations(server, &asked)
        };
        let means = ask(DEFINITION, doc, offset).await?;
        for paths in packages.into_values() {
            for path in paths.into_iter().take(MOST_TRIED) {
                let Ok(holder) = self.workspace.document(path) else { continue };
                let Some(place) = text::occurrences(&holder.text, name).next() else { continue };
                // Another thing of that name is passed over.
                let same = |it: &Location| means.iter().any(|of| it.path == of.path && it.range == of.range);
                if ask(DEFINITION, &holder, place.start).await?.iter().any(same) {
                    found.extend(ask(method, &holder, place.start).await?);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Where the thing at byte `offset` is used, in order of file and place.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn references(
        self: &Arc<Self>,
        doc: &Document,
        offset: usize,
        include_declaration: bool,
        cx: &RequestCx,
    ) -> Result<Answer<Vec<Location>>, ServerError> {
        let clock = cx.clock();
        let server = self.pick(&doc.path, Feature::References, clock).await?;
        server.wait_ready(Some(doc), clock).await?;
        let name = &doc.text[text::word_at(&doc.text, offset)];
        let mut holders = self.open_holders(&server, name, Where::All, clock).await?;
        let asked = ask_for_uses(&server, doc, offset, include_declaration, clock).await;
        if let Some(opened) = holders.opened.take() {
            server.close_all(opened).await;
        }
        let asked = asked?;
        let mut found = locations(&server, &asked)?;
        found.sort_by(|a, b| (&a.path, a.range.start, a.line).cmp(&(&b.path, b.range.start, b.line)));
        found.dedup();
        let places: Vec<&AbsPath> = found.iter().map(|place| &place.path).collect();
        let left = holders.left(&server, name, &places);
        Ok(noted(noted(answer(&server, &asked, found), holders.note), left))
    }

    /// What the server says about the thing at byte `offset`, as Markdown or plain text.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn hover(
        self: &Arc<Self>,
        doc: &Document,
        offset: usize,
        cx: &RequestCx,
    ) -> Result<Answer<Option<String>>, ServerError> {
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

async fn ask_for_uses(
    server: &Server,
    doc: &Document,
    offset: usize,
    include_declaration: bool,
    clock: Clock<'_>,
) -> Result<Asked, ServerError> {
    let ask = server.ask(Some(doc), "textDocument/references", clock, |synced, encoding| {
        let mut params = at(synced, offset, encoding);
        params["context"] = json!({"includeDeclaration": include_declaration});
        params
    });
    ask.await
}

/// Where a thing is used, besides where it is declared, as one server sees it.
pub(super) async fn uses(
    server: &Server,
    doc: &Document,
    offset: usize,
    clock: Clock<'_>,
) -> Result<Vec<Location>, ServerError> {
    if !server.core.capabilities().offers(Feature::References) {
        return Err(ServerError::Unsupported {
            server: server.name().to_owned(),
            feature: Feature::References,
        });
    }
    let asked = ask_for_uses(server, doc, offset, false, clock).await?;
    locations(server, &asked)
}

pub(super) fn locations(server: &Server, asked: &Asked) -> Result<Vec<Location>, ServerError> {
    let found: Many<AnyLocation<'_>> = server.read_borrowed(&asked.method, &asked.raw)?;
    let mut places = Vec::new();
    for place in found.into_vec() {
        let bad = || server.protocol(&asked.method, "a place without a file or a range".to_owned());
        let (uri, range) = place.parts().ok_or_else(bad)?;
        places.extend(asked.location(server, &uri, range));
    }
    Ok(places)
}

/// `MarkupContent`, `MarkedString` or a list of these.
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
