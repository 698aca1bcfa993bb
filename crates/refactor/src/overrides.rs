//! Overrides: the methods that a method overrides or that override it.
//!
//! Other methods that override the same one belong to them too.
//!
//! A server may treat each of them as a symbol of its own (basedpyright 1.40), so that a rename or a search for
//! callers reaches only one of them. A method is a base of another if the server lists the other among its
//! implementations.
//!
//! Invariants: an equal name alone never relates methods; the search reports methods that it could not check
//! as unknown.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use adapters::Feature;
use lsp_client::{Candidates, Clock, Location, Navigate, ServerError, ServerHandle, ServerPool, Symbol};
use paths::AbsPath;
use text::LineIndex;
use workspace::{Document, Workspace};

use crate::call_syntax::is_called;

/// Time limit of one search.
const MAX_TIME: Duration = Duration::from_secs(4);
/// Maximum share of the call's remaining time for one search, in percent.
const TIME_SHARE: u32 = 30;
/// Maximum number of files whose methods one search reads.
const MAX_FILES: usize = 40;
/// Maximum number of requests for implementations or definitions.
const MAX_REQUESTS: usize = 24;
/// Maximum number of methods whose uses one search requests.
const MAX_USES: usize = 8;

/// A method in its server's notation, with its uses.
#[derive(Debug, Clone)]
pub struct Method {
    /// `Class.method`.
    pub path: String,
    pub place: Location,
    /// Its uses without its declaration; `None` if unknown.
    pub uses: Option<Vec<Location>>,
}

/// The methods related to a method, and those whose relation is unknown.
#[derive(Debug, Default)]
pub struct OverrideSet {
    /// The name that all methods of the set share.
    pub name: String,
    /// The server that received the requests.
    pub server: String,
    /// The methods that it overrides.
    pub bases: Vec<Method>,
    /// The methods that override it.
    pub overriding: Vec<Method>,
    /// The methods that override the same one.
    pub siblings: Vec<Method>,
    /// Uses of a member of that name for which the server knows no definition.
    pub undefined: Vec<Location>,
    /// Reason why some uses were not resolved.
    pub unresolved: Option<Unresolved>,
    /// Methods of that name whose relation is unknown.
    pub unknown: Vec<Method>,
    /// Reason why the relation of `unknown` methods is unknown.
    pub reason: Option<Reason>,
    /// Reason why there may be more related methods.
    pub cut: Option<Cut>,
    /// Whether some uses could not be read.
    pub uses_cut: bool,
}

/// Reason why the relation of methods is unknown.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// The server does not answer requests for implementations.
    NotOffered,
    Failed(ServerError),
}

/// Reason why a search is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The name occurs in too many places.
    TooManyPlaces,
    /// Not every file was read in time.
    NotAllRead,
}

/// The uses of a file that were not resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Unresolved {
    pub file: AbsPath,
    /// The request that failed; `None`: only the first uses were resolved.
    pub error: Option<ServerError>,
    pub resolved: usize,
    pub count: usize,
}

impl OverrideSet {
    fn new(name: &str, server: &ServerHandle) -> Self {
        Self { name: name.to_owned(), server: server.name().to_owned(), ..Self::default() }
    }

    /// Whether there is nothing to report.
    pub(crate) fn is_empty(&self) -> bool {
        self.related().next().is_none()
            && self.undefined.is_empty()
            && self.unresolved.is_none()
            && self.unknown.is_empty()
            && self.reason.is_none()
            && self.cut.is_none()
    }

    /// Iterates over all methods that are known to be related.
    pub fn related(&self) -> impl Iterator<Item = &Method> {
        self.bases.iter().chain(&self.overriding).chain(&self.siblings)
    }

    /// Collects the uses of the related methods, in order, each once.
    pub fn uses(&self) -> Vec<&Location> {
        let mut places: Vec<&Location> =
            self.related().flat_map(|method| method.uses.iter().flatten()).collect();
        places.sort_by(|a, b| by_place(a, b));
        places.dedup();
        places
    }
}

/// The related methods that a search finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Members {
    /// The overridden methods, with the uses that are calls.
    Bases,
    All,
}

/// The inputs of a search for the methods related to one.
pub(crate) struct OverrideSearch<'a> {
    pub workspace: &'a Workspace,
    pub pool: &'a Arc<ServerPool>,
    pub server: &'a ServerHandle,
    pub members: Members,
    /// Whether a place is known to belong to the method already.
    pub is_known: &'a (dyn Fn(&AbsPath, usize) -> bool + Sync),
}

/// A file whose methods of the name are read.
struct MethodFile {
    document: Document,
    methods: Vec<Method>,
}

impl OverrideSearch<'_> {
    /// Finds the methods related to the one at byte `offset`.
    ///
    /// The result is empty when no method is there.
    ///
    /// `candidates`: the files that contain the name, where they are known.
    ///
    /// # Errors
    /// [`ServerError::Cancelled`] only.
    pub async fn run(
        &self,
        (doc, offset): (&Document, usize),
        candidates: Option<&Candidates>,
        clock: Clock<'_>,
    ) -> Result<OverrideSet, ServerError> {
        let clock = clock.part(TIME_SHARE).within(MAX_TIME);
        let name = &doc.text[text::word_at(&doc.text, offset)];
        let mut set = OverrideSet::new(name, self.server);
        match self.fill(&mut set, (doc, offset), candidates, clock).await {
            Ok(()) => {}
            Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
            Err(error) => {
                set = OverrideSet {
                    reason: Some(Reason::Failed(error)),
                    ..OverrideSet::new(name, self.server)
                };
            }
        }
        if self.members == Members::Bases {
            set.overriding.clear();
            set.siblings.clear();
        }
        Ok(set)
    }

    async fn fill(
        &self,
        set: &mut OverrideSet,
        (doc, offset): (&Document, usize),
        candidates: Option<&Candidates>,
        clock: Clock<'_>,
    ) -> Result<(), ServerError> {
        if !self.server.offers(Feature::Symbols) {
            return Ok(());
        }
        let Some((home, own)) = self.declaration(doc, offset, &set.name, clock).await? else {
            return Ok(());
        };
        let scanned;
        let candidates = match candidates {
            Some(candidates) => candidates,
            None => {
                scanned = self.server.find_candidates(self.pool, &set.name, clock).await?;
                &scanned
            }
        };
        set.cut = match (candidates.is_cut, candidates.omitted.is_empty()) {
            (true, _) => Some(Cut::NotAllRead),
            (false, false) => Some(Cut::TooManyPlaces),
            (false, true) => None,
        };
        let files = self.method_files(set, &home, candidates, clock).await?;
        if let Some(file) = files.iter().find(|file| file.document.path == home.path) {
            self.resolve_members(set, file, clock).await?;
        }
        let is_other = |method: &Method| {
            method.place != own.place && !(self.is_known)(&method.place.path, method.place.range.start)
        };
        let others: Vec<(&Document, &Method)> = files
            .iter()
            .flat_map(|file| file.methods.iter().map(|method| (&file.document, method)))
            .filter(|(_, method)| is_other(method))
            .collect();
        // Files that were not read may contain some.
        if others.is_empty() && set.cut.is_none() {
            return Ok(());
        }
        // A definition may declare that its server's answer is useless.
        if !self.pool.answers(self.server, &home.path, Feature::Implementation) {
            set.reason = Some(Reason::NotOffered);
            set.unknown = others.into_iter().map(|(_, method)| method.clone()).collect();
            return Ok(());
        }
        if self.relate(set, (&home, &own), &others, clock).await? {
            self.find_uses(set, clock).await?;
        }
        Ok(())
    }

    /// Method declared at byte `offset`, or defined for the name there, with its file.
    async fn declaration(
        &self,
        doc: &Document,
        offset: usize,
        name: &str,
        clock: Clock<'_>,
    ) -> Result<Option<(Document, Method)>, ServerError> {
        let at = |methods: Vec<Method>, offset: usize| {
            methods
                .into_iter()
                .find(|method| method.place.range.start <= offset && offset <= method.place.range.end)
        };
        let own = methods(doc, &self.server.symbols(doc, clock).await?, name);
        if let Some(own) = at(own, offset) {
            return Ok(Some((doc.clone(), own)));
        }
        if !self.server.offers(Feature::Definition) {
            return Ok(None);
        }
        let found = self.server.navigate(Navigate::Definition, doc, offset, clock).await?;
        let root = self.workspace.root();
        let Some(place) = found.into_iter().find(|place| place.path.starts_with(root)) else {
            return Ok(None);
        };
        let Ok(document) = self.workspace.document(&place.path) else { return Ok(None) };
        let own = methods(&document, &self.server.symbols(&document, clock).await?, name);
        Ok(at(own, place.range.start).map(|own| (document, own)))
    }

    /// Candidates that use the name at unknown places, with their methods of that name.
    async fn method_files(
        &self,
        set: &mut OverrideSet,
        home: &Document,
        candidates: &Candidates,
        clock: Clock<'_>,
    ) -> Result<Vec<MethodFile>, ServerError> {
        let mut files: Vec<MethodFile> = Vec::new();
        for candidate in std::iter::once(home).chain(&candidates.documents) {
            let is_read = files.iter().any(|file| file.document.path == candidate.path);
            let is_new = |place: Range<usize>| !(self.is_known)(&candidate.path, place.start);
            if is_read || !text::occurrences(&candidate.text, &set.name).any(is_new) {
                continue;
            }
            if files.len() == MAX_FILES {
                set.cut = Some(Cut::TooManyPlaces);
                break;
            }
            // It may have changed since it was found.
            let document = self.workspace.document(&candidate.path).unwrap_or_else(|_| candidate.clone());
            match self.server.symbols(&document, clock).await {
                Ok(symbols) => {
                    let methods = methods(&document, &symbols, &set.name);
                    files.push(MethodFile { document, methods });
                }
                Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                Err(error) => {
                    set.reason = Some(Reason::Failed(error));
                    break;
                }
            }
        }
        Ok(files)
    }

    /// Finds uses of a member of that name for which the server knows no definition.
    ///
    /// Searches only the method's file: a mixin calls methods that only its host class has.
    async fn resolve_members(
        &self,
        set: &mut OverrideSet,
        home: &MethodFile,
        clock: Clock<'_>,
    ) -> Result<(), ServerError> {
        if !self.server.offers(Feature::Definition) {
            return Ok(());
        }
        let Document { path, text, .. } = &home.document;
        let index = LineIndex::new(text);
        let is_member = |range: &Range<usize>| {
            text.get(..range.start).is_some_and(|before| before.ends_with(['.', '>', ':']))
                && !(self.is_known)(path, range.start)
        };
        let declares = |range: &Range<usize>| home.methods.iter().any(|method| method.place.range == *range);
        let members: Vec<Range<usize>> =
            text::occurrences(text, &set.name).filter(|range| is_member(range) && !declares(range)).collect();
        let count = members.len();
        let unresolved = |resolved, error| Some(Unresolved { file: path.clone(), error, resolved, count });
        if count > MAX_REQUESTS {
            set.unresolved = unresolved(MAX_REQUESTS, None);
        }
        for (resolved, range) in members.into_iter().take(MAX_REQUESTS).enumerate() {
            let defined =
                self.server.navigate(Navigate::Definition, &home.document, range.start, clock).await;
            match defined {
                Ok(defined) if defined.is_empty() => {
                    set.undefined.push(Location::new(path.clone(), text, &index, range));
                }
                Ok(_) => {}
                Err(error @ (ServerError::Cancelled | ServerError::Protocol { .. })) => return Err(error),
                Err(error) => {
                    set.unresolved = unresolved(resolved, Some(error));
                    break;
                }
            }
        }
        Ok(())
    }

    /// Relates `others` to a method by the implementations of each.
    ///
    /// Returns whether the server answered at all.
    async fn relate(
        &self,
        set: &mut OverrideSet,
        (home, own): (&Document, &Method),
        others: &[(&Document, &Method)],
        clock: Clock<'_>,
    ) -> Result<bool, ServerError> {
        let name = set.name.clone();
        let (mut related_methods, is_cut) =
            match self.implementations(home, own.place.range.start, &name, clock).await {
                Ok(below) => below,
                Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                // If the first request fails, each of them is unknown.
                Err(error) => {
                    set.reason = Some(Reason::Failed(error));
                    set.unknown = others.iter().map(|(_, method)| (*method).clone()).collect();
                    return Ok(false);
                }
            };
        set.cut = set.cut.or(is_cut.then_some(Cut::NotAllRead));
        let overriding: HashSet<Key> = related_methods.iter().map(key).collect();
        let mut requests = 0;
        for (document, method) in others {
            if overriding.contains(&key(&method.place)) {
                continue;
            }
            if requests == MAX_REQUESTS || set.reason.is_some() {
                set.unknown.push((*method).clone());
                continue;
            }
            requests += 1;
            match self.implementations(document, method.place.range.start, &name, clock).await {
                Ok((below, is_cut)) => {
                    set.cut = set.cut.or(is_cut.then_some(Cut::NotAllRead));
                    if below.contains(&own.place) {
                        set.bases.push((*method).clone());
                        related_methods.extend(below);
                    }
                }
                Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                Err(error) => {
                    set.reason = Some(Reason::Failed(error));
                    set.unknown.push((*method).clone());
                }
            }
        }
        let related: HashSet<Key> = related_methods.iter().map(key).collect();
        set.unknown.retain(|method| !related.contains(&key(&method.place)));
        let listed: HashMap<Key, &Method> =
            others.iter().map(|(_, method)| (key(&method.place), *method)).collect();
        let mut seen: HashSet<Key> = set.bases.iter().map(|method| key(&method.place)).collect();
        seen.insert(key(&own.place));
        for place in related_methods {
            let at = key(&place);
            if (self.is_known)(&place.path, place.range.start) || !seen.insert(at.clone()) {
                continue;
            }
            let unlisted = || Method { path: name.clone(), place, uses: None };
            let method = listed.get(&at).map_or_else(unlisted, |method| (*method).clone());
            match overriding.contains(&at) {
                true => set.overriding.push(method),
                false => set.siblings.push(method),
            }
        }
        Ok(true)
    }

    /// Implementations of the method at byte `offset` that have its name.
    ///
    /// The flag says whether some files could not be read in time.
    async fn implementations(
        &self,
        document: &Document,
        offset: usize,
        name: &str,
        clock: Clock<'_>,
    ) -> Result<(Vec<Location>, bool), ServerError> {
        let found = self.server.navigate(Navigate::Implementation, document, offset, clock).await?;
        let name = name.to_owned();
        let is_named = move |place: &Location, document: &Document| {
            document.text.get(place.range.clone()) == Some(name.as_str())
        };
        self.retain(found, is_named, clock).await
    }

    /// Requests the uses of the related methods.
    async fn find_uses(&self, set: &mut OverrideSet, clock: Clock<'_>) -> Result<(), ServerError> {
        let OverrideSet { bases, overriding, siblings, uses_cut, .. } = set;
        let others = match self.members {
            Members::All => overriding.iter_mut().chain(siblings),
            Members::Bases => [].iter_mut().chain(&mut []),
        };
        for method in bases.iter_mut().chain(others).take(MAX_USES) {
            let place = &method.place;
            let Ok(document) = self.workspace.document(&place.path) else { continue };
            let mut found = match self.server.uses(&document, place.range.start, clock).await {
                Ok(found) => found,
                Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                Err(_) => break,
            };
            found.retain(|found| found != place && !(self.is_known)(&found.path, found.range.start));
            if self.members == Members::Bases {
                let definition = self.server.definition().clone();
                let is_call = move |place: &Location, document: &Document| {
                    let language = definition.language_id(place.path.as_path()).unwrap_or_default();
                    is_called(&document.text, &place.range, language)
                };
                let (calls, is_cut) = self.retain(found, is_call, clock).await?;
                *uses_cut |= is_cut;
                found = calls;
            }
            method.uses = Some(found);
        }
        Ok(())
    }

    /// Keeps the places that a filter accepts by the text of their file.
    ///
    /// Each is kept once and in order. The flag says whether some files could not be read in time.
    async fn retain(
        &self,
        mut places: Vec<Location>,
        accepts: impl Fn(&Location, &Document) -> bool + Send + 'static,
        clock: Clock<'_>,
    ) -> Result<(Vec<Location>, bool), ServerError> {
        let (workspace, cancel, until) = (self.workspace.clone(), clock.cancel.clone(), clock.until);
        let filter = tokio::task::spawn_blocking(move || {
            places.sort_by(by_place);
            places.dedup();
            let mut is_cut = false;
            let mut read: Option<(AbsPath, Option<Document>)> = None;
            places.retain(|place| {
                if read.as_ref().is_none_or(|(path, _)| *path != place.path) {
                    if cancel.is_cancelled() || Instant::now() >= until {
                        is_cut = true;
                        return false;
                    }
                    read = Some((place.path.clone(), workspace.document(&place.path).ok()));
                }
                let document = read.as_ref().and_then(|(_, document)| document.as_ref());
                document.is_some_and(|document| accepts(place, document))
            });
            (places, is_cut)
        });
        // The task ends by itself; a read that hangs is abandoned.
        tokio::select! {
            biased;
            () = clock.cancel.cancelled() => Err(ServerError::Cancelled),
            filtered = filter => Ok(filtered.unwrap_or_else(|_| (Vec::new(), true))),
            () = tokio::time::sleep_until(clock.until.into()) => Ok((Vec::new(), true)),
        }
    }
}

type Key = (AbsPath, usize);

fn key(place: &Location) -> Key {
    (place.path.clone(), place.range.start)
}

fn by_place(a: &Location, b: &Location) -> std::cmp::Ordering {
    (&a.path, a.range.start, a.range.end).cmp(&(&b.path, b.range.start, b.range.end))
}

/// The methods of that name among a file's symbols.
fn methods(document: &Document, symbols: &[Symbol], name: &str) -> Vec<Method> {
    fn walk(symbols: &[Symbol], in_type: bool, each: &mut impl FnMut(&Symbol)) {
        for symbol in symbols {
            let kind = symbol.kind.as_str();
            if kind == "method" || in_type && matches!(kind, "function" | "property" | "field") {
                each(symbol);
            }
            walk(&symbol.children, matches!(kind, "class" | "interface" | "struct" | "object"), each);
        }
    }
    let index = LineIndex::new(&document.text);
    let mut found = Vec::new();
    walk(symbols, false, &mut |symbol| {
        let selected = document.text.get(symbol.selection.clone()).unwrap_or_default();
        let Some(at) = text::occurrences(selected, name).next() else { return };
        // gopls names a method after its receiver.
        if symbol.name != name && symbol.name.rsplit('.').next() != Some(name) {
            return;
        }
        let range = symbol.selection.start + at.start..symbol.selection.start + at.end;
        let place = Location::new(document.path.clone(), &document.text, &index, range);
        found.push(Method { path: symbol.path.clone(), place, uses: None });
    });
    found
}
