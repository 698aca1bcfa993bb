//! The callers of a function, including those that its server omits.
//!
//! A server may follow calls only inside the package of the function (tsserver 5.9); the search then finds
//! calls in other packages among the references. Calls through an overridden method may reach the function
//! too.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use adapters::Feature;
use futures_util::future::try_join_all;
use lsp_client::{
    Answer, Call, Clock, Location, OpenCandidates, RequestCx, ServerError, ServerHandle, ServerPool, Symbol,
};
use paths::AbsPath;
use workspace::{Document, Workspace};

use crate::call_syntax::is_called;
use crate::overrides::{Members, OverrideSearch};
use crate::{Note, notes};

/// Maximum number of pending requests for the symbols of files.
const AT_ONCE: usize = 16;

/// The callers of a function, and notes on callers that may be missing.
#[derive(Debug)]
pub struct Callers {
    pub calls: Vec<Call>,
    /// The name of the server's definition.
    pub server: String,
    pub notes: Vec<Note>,
}

/// Finds the functions that call the one at byte `offset`, with each call's place.
///
/// # Errors
/// [`ServerError`]; `Refused` as `not_found` when the server sees no function there.
pub async fn callers(
    workspace: &Workspace,
    pool: &Arc<ServerPool>,
    doc: &Document,
    offset: usize,
    cx: &RequestCx,
) -> Result<Callers, ServerError> {
    let clock = cx.clock();
    let server = pool.server_for(&doc.path, Feature::CallHierarchy, cx).await?;
    server.wait_ready(Some(doc), clock).await?;
    let (candidates, uses) = server.open_candidates_by_uses(pool, doc, offset, clock).await?;
    let search =
        CallerSearch { workspace, pool, server: &server, doc, offset, candidates: &candidates, clock };
    let found = search.run(uses).await;
    let note = candidates.note();
    server.close(candidates).await;
    let (calls, mut found_notes) = found?;
    found_notes.extend(note.map(Note::Server));
    Ok(Callers { calls, server: server.name().to_owned(), notes: found_notes })
}

/// The inputs of a search for callers.
struct CallerSearch<'a> {
    workspace: &'a Workspace,
    pool: &'a Arc<ServerPool>,
    server: &'a ServerHandle,
    doc: &'a Document,
    offset: usize,
    candidates: &'a OpenCandidates,
    clock: Clock<'a>,
}

impl CallerSearch<'_> {
    async fn run(
        &self,
        uses: Result<Vec<Location>, ServerError>,
    ) -> Result<(Vec<Call>, Vec<Note>), ServerError> {
        // The answer for the function's own package counts also if others do not answer.
        let most = if self.candidates.found().is_none() { self.clock } else { self.clock.part(75) };
        let Answer { value: mut calls, notes, .. } = self.server.callers(self.doc, self.offset, most).await?;
        let mut notes = notes::of_server(notes);
        self.add_other_packages(uses, &mut calls, &mut notes).await?;
        notes.extend(self.overridden(&calls).await?);
        Ok((calls, notes))
    }

    /// Adds calls in packages with candidates that the server may not have searched.
    async fn add_other_packages(
        &self,
        uses: Result<Vec<Location>, ServerError>,
        calls: &mut Vec<Call>,
        notes: &mut Vec<Note>,
    ) -> Result<(), ServerError> {
        let found = calls.iter().map(|call| &call.symbol.file).collect::<Vec<_>>();
        let packages = self.pool.unsearched_packages(self.server, self.doc, self.candidates, &found);
        if packages.is_empty() {
            return Ok(());
        }
        let server = self.server.name().to_owned();
        match self.calls_among_uses(uses, &packages).await {
            Ok((more, unclear)) => {
                if !more.is_empty() {
                    notes.push(Note::CallersFromReferences { server: server.clone() });
                }
                calls.extend(more);
                calls.sort_by(|a, b| {
                    let key = |call: &Call| {
                        let symbol = &call.symbol;
                        (symbol.file.clone(), symbol.line, symbol.name.clone())
                    };
                    key(a).cmp(&key(b))
                });
                if !unclear.is_empty() {
                    notes.push(Note::UsesNotCalls { server, packages: unclear });
                }
                Ok(())
            }
            Err(ServerError::Cancelled) => Err(ServerError::Cancelled),
            Err(_) => {
                notes.push(Note::Server(lsp_client::Note::PackagesUnsearched { server, packages }));
                Ok(())
            }
        }
    }

    /// Calls among the uses in `packages`, and the packages whose uses are not calls.
    ///
    /// Each call belongs to its innermost function, else to its file.
    async fn calls_among_uses(
        &self,
        uses: Result<Vec<Location>, ServerError>,
        packages: &[AbsPath],
    ) -> Result<(Vec<Call>, Vec<AbsPath>), ServerError> {
        let mut by_file: BTreeMap<AbsPath, Vec<Location>> = BTreeMap::new();
        for place in uses? {
            if packages.iter().any(|root| place.path.starts_with(root)) {
                by_file.entry(place.path.clone()).or_default().push(place);
            }
        }
        let mut unclear: Vec<AbsPath> = packages.to_vec();
        unclear.retain(|root| by_file.keys().any(|path| path.starts_with(root)));
        let mut with_calls = Vec::new();
        for (path, mut places) in by_file {
            let Ok(document) = self.workspace.document(&path) else { continue };
            let language = self.server.definition().language_id(path.as_path()).unwrap_or_default();
            places.retain(|place| is_called(&document.text, &place.range, language));
            if !places.is_empty() {
                unclear.retain(|root| !path.starts_with(root));
                with_calls.push((document, places));
            }
        }
        let mut symbols = Vec::new();
        for some in with_calls.chunks(AT_ONCE) {
            let mut pending = Vec::new();
            for (document, _) in some {
                pending.push(self.server.symbols(document, self.clock));
            }
            symbols.extend(try_join_all(pending).await?);
        }
        let mut calls = Vec::new();
        for ((document, places), symbols) in with_calls.into_iter().zip(symbols) {
            let mut callers: Vec<Call> = Vec::new();
            for place in places {
                let function = innermost(&document.text, &symbols, place.range.start);
                let symbol = function.unwrap_or_else(|| whole_file(&document));
                match callers.iter_mut().find(|call| call.symbol == symbol) {
                    Some(call) => call.places.push(place),
                    None => callers.push(Call { symbol, places: vec![place] }),
                }
            }
            calls.extend(callers);
        }
        Ok((calls, unclear))
    }

    /// Reports the calls of methods that it overrides, which may reach it too.
    async fn overridden(&self, calls: &[Call]) -> Result<Option<Note>, ServerError> {
        let mut listed: HashMap<&AbsPath, HashSet<usize>> = HashMap::new();
        for place in calls.iter().flat_map(|call| &call.places) {
            listed.entry(&place.path).or_default().insert(place.range.start);
        }
        let is_listed =
            |path: &AbsPath, at: usize| listed.get(path).is_some_and(|starts| starts.contains(&at));
        let search = OverrideSearch {
            workspace: self.workspace,
            pool: self.pool,
            server: self.server,
            members: Members::Bases,
            is_known: &is_listed,
        };
        let overrides = search.run((self.doc, self.offset), self.candidates.found(), self.clock).await?;
        Ok((!overrides.is_empty()).then(|| Note::CallsThroughOverrides(Box::new(overrides))))
    }
}

/// The innermost function around a byte.
fn innermost(text: &str, symbols: &[Symbol], at: usize) -> Option<Symbol> {
    let around = symbols.iter().find(|symbol| symbol.range.contains(&at))?;
    let inner = innermost(text, &around.children, at);
    let is_closure = || {
        let before = text.get(around.range.start..at).unwrap_or_default();
        before.contains("=>") || before.contains("function")
    };
    let is_function = match around.kind.as_str() {
        "function" | "method" | "constructor" => true,
        "variable" | "constant" | "property" | "field" => is_closure(),
        _ => false,
    };
    inner.or_else(|| is_function.then(|| Symbol { children: Vec::new(), ..around.clone() }))
}

/// Returns the file as the caller of calls at its top level.
fn whole_file(document: &Document) -> Symbol {
    let name = document.path.file_name().to_string();
    Symbol {
        path: name.clone(),
        name,
        kind: "file".to_owned(),
        file: document.path.clone(),
        range: 0..document.text.len(),
        selection: 0..0,
        line: 1,
        container: None,
        children: Vec::new(),
    }
}
