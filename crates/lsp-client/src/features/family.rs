//! The family of a method: what it overrides, what overrides it, and what overrides the same.
//!
//! A server may take each of them for a symbol of its own (basedpyright 1.40), so that a rename, or a
//! question for callers, reaches one of them alone. A method is another's base where the server says that
//! the other implements it. What must stay true: none belongs to a family by its name alone, and those
//! that could not be asked about are told as such.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use workspace::{AbsPath, Document};

use super::at;
use super::hierarchy::is_called;
use super::holders::Where;
use super::navigation::{locations, uses};
use super::symbols::outline;
use crate::answer::{Location, Symbol};
use crate::definition::Feature;
use crate::error::ServerError;
use crate::pool::ServerPool;
use crate::server::{Clock, Server};
use crate::view::View;

/// All questions about a family take no longer …
const MOST_TIME: Duration = Duration::from_secs(4);
/// … and no more than this part of what a call has left, in percent.
const PART: u32 = 30;
/// At most the methods of so many files are looked at …
const MAX_FILES: usize = 40;
/// … and so many of them asked about.
const MAX_ASKED: usize = 24;
/// Of so many that belong to it the uses are asked for.
const MAX_USED: usize = 8;
/// At most this many places are named in a note.
const NAMED: usize = 12;

const TOO_MANY: &str = "the name stands at too many places";
const NOT_ALL: &str = "there was no time to look at all files that hold the name";

/// A method in the words of its server.
#[derive(Debug, Clone)]
pub(super) struct Member {
    /// `Class.method`.
    pub path: String,
    /// Its name.
    pub place: Location,
    /// Where it is used, besides where it is declared; `None`: not known.
    pub uses: Option<Vec<Location>>,
}

/// What belongs to a method.
#[derive(Debug, Default)]
pub(super) struct Family {
    /// What it overrides.
    pub bases: Vec<Member>,
    /// What overrides it.
    pub overriding: Vec<Member>,
    /// What overrides the same as it does.
    pub siblings: Vec<Member>,
    /// Uses of a member of that name of which the server knows no definition.
    pub unclear: Vec<Location>,
    /// Of more such uses nothing is known, as this says.
    unasked: Option<String>,
    /// Others of its name of which it is not known …
    pub unknown: Vec<Member>,
    /// … for this reason.
    why: Option<String>,
    /// Why there may be more that belong to it.
    cut: Option<&'static str>,
    /// Not all uses could be looked at.
    is_unread: bool,
}

/// Which of a family are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// What calls may go through, with the uses that are calls.
    Bases,
    All,
}

/// A file whose methods of the name are looked at.
struct Holder {
    document: Document,
    methods: Vec<Member>,
}

impl ServerPool {
    /// The family of the method that stands at byte `offset`, without what stands at places of which it is
    /// known that they belong to it (`is_known`); empty when no method stands there. `holders`: the files
    /// that hold the name, where they are known.
    ///
    /// # Errors
    /// [`ServerError::Cancelled`] only.
    pub(super) async fn family(
        &self,
        server: &Server,
        (doc, offset): (&Document, usize),
        holders: &[AbsPath],
        wanted: Wanted,
        is_known: &(dyn Fn(&AbsPath, usize) -> bool + Sync),
        clock: Clock<'_>,
    ) -> Result<Family, ServerError> {
        let clock = clock.part(PART).within(MOST_TIME);
        match self.asked_family(server, (doc, offset), holders, wanted, is_known, clock).await {
            Ok(family) => Ok(family),
            Err(ServerError::Cancelled) => Err(ServerError::Cancelled),
            Err(error) => Ok(Family { why: Some(error.to_string()), ..Family::default() }),
        }
    }

    async fn asked_family(
        &self,
        server: &Server,
        (doc, offset): (&Document, usize),
        holders: &[AbsPath],
        wanted: Wanted,
        is_known: &(dyn Fn(&AbsPath, usize) -> bool + Sync),
        clock: Clock<'_>,
    ) -> Result<Family, ServerError> {
        let mut family = Family::default();
        if !server.core.capabilities().offers(Feature::Symbols) {
            return Ok(family);
        }
        let name = &doc.text[text::word_at(&doc.text, offset)];
        let Some((home, own)) = self.declared(server, doc, offset, name, clock).await? else {
            return Ok(family);
        };
        let (files, is_cut) = match holders.is_empty() {
            true => {
                let found = self.holding(server, name, Where::All, clock).await?;
                family.cut = (found.left > 0).then_some(TOO_MANY);
                (found.documents, found.is_cut)
            }
            false => self.documents(holders, clock).await?,
        };
        if is_cut {
            family.cut = Some(NOT_ALL);
        }
        let mut looked = Vec::new();
        for document in std::iter::once(home.clone()).chain(files) {
            let is_new = |place: Range<usize>| !is_known(&document.path, place.start);
            let again = looked.iter().any(|it: &Holder| it.document.path == document.path);
            if again || !text::occurrences(&document.text, name).any(is_new) {
                continue;
            }
            if looked.len() == MAX_FILES {
                family.cut = Some(TOO_MANY);
                break;
            }
            let methods = match outline(server, &document, clock).await {
                Ok(symbols) => methods(&document, &symbols, name),
                Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                Err(error) => {
                    family.why = Some(error.to_string());
                    break;
                }
            };
            looked.push(Holder { document, methods });
        }
        if let Some(at_home) = looked.iter().find(|it| it.document.path == home.path) {
            (family.unclear, family.unasked) = self.unclear(server, at_home, name, is_known, clock).await?;
        }
        let others = |it: &Member| it.place != own.place && !is_known(&it.place.path, it.place.range.start);
        let candidates: Vec<(usize, Member)> = looked
            .iter()
            .enumerate()
            .flat_map(|(at, holder)| holder.methods.iter().map(move |it| (at, it.clone())))
            .filter(|(_, it)| others(it))
            .collect();
        // Among the files that were not looked at there may be some.
        if candidates.is_empty() && family.cut.is_none() {
            return Ok(family);
        }
        // A definition may say that it offers that in name only.
        let is_known_for_it = self
            .applying(&home.path, Feature::Implementation)
            .iter()
            .any(|it| it.name == server.core.definition.name);
        if !is_known_for_it || !server.core.capabilities().offers(Feature::Implementation) {
            family.why = Some(format!("{} does not tell what overrides what", server.name()));
            family.unknown = candidates.into_iter().map(|(_, it)| it).collect();
            return Ok(family);
        }
        let implementing = async |document: &Document, offset: usize| {
            let ask = server.ask(Some(document), "textDocument/implementation", clock, |synced, encoding| {
                at(synced, offset, encoding)
            });
            let found = locations(server, &ask.await?)?;
            let name = name.to_owned();
            let is_named = move |place: &Location, holder: &Document| {
                holder.text.get(place.range.clone()) == Some(name.as_str())
            };
            self.retained(found, is_named, clock).await
        };
        // Where even the first question fails, each of them is unknown.
        let (below, is_cut) = match implementing(&home, own.place.range.start).await {
            Ok(below) => below,
            Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
            Err(error) => {
                family.why = Some(error.to_string());
                family.unknown = candidates.into_iter().map(|(_, it)| it).collect();
                return Ok(family);
            }
        };
        family.cut = family.cut.or(is_cut.then_some(NOT_ALL));
        let overrides: HashSet<Key> = below.iter().map(key).collect();
        let mut relatives = below;
        let mut asked = 0;
        for (at, candidate) in &candidates {
            if overrides.contains(&key(&candidate.place)) {
                continue;
            }
            if asked == MAX_ASKED || family.why.is_some() {
                family.unknown.push(candidate.clone());
                continue;
            }
            asked += 1;
            match implementing(&looked[*at].document, candidate.place.range.start).await {
                Ok((theirs, is_cut)) => {
                    family.cut = family.cut.or(is_cut.then_some(NOT_ALL));
                    if theirs.contains(&own.place) {
                        family.bases.push(candidate.clone());
                        relatives.extend(theirs);
                    }
                }
                Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                Err(error) => {
                    family.why = Some(error.to_string());
                    family.unknown.push(candidate.clone());
                }
            }
        }
        let related: HashSet<Key> = relatives.iter().map(key).collect();
        family.unknown.retain(|it| !related.contains(&key(&it.place)));
        let listed: HashMap<Key, &Member> = candidates.iter().map(|(_, it)| (key(&it.place), it)).collect();
        let mut told: HashSet<Key> = family.bases.iter().map(|it| key(&it.place)).collect();
        told.insert(key(&own.place));
        for place in relatives {
            let at = key(&place);
            if is_known(&place.path, place.range.start) || !told.insert(at.clone()) {
                continue;
            }
            let plain = || Member { path: name.to_owned(), place, uses: None };
            let member = listed.get(&at).map_or_else(plain, |it| (*it).clone());
            let kin = if overrides.contains(&at) { &mut family.overriding } else { &mut family.siblings };
            kin.push(member);
        }
        self.used(&mut family, server, wanted, is_known, clock).await?;
        Ok(family)
    }

    /// The method whose name stands at byte `offset`, or that is defined for what stands there, with its file.
    async fn declared(
        &self,
        server: &Server,
        doc: &Document,
        offset: usize,
        name: &str,
        clock: Clock<'_>,
    ) -> Result<Option<(Document, Member)>, ServerError> {
        let here = |methods: Vec<Member>, offset: usize| {
            methods.into_iter().find(|it| it.place.range.start <= offset && offset <= it.place.range.end)
        };
        let own = methods(doc, &outline(server, doc, clock).await?, name);
        if let Some(own) = here(own, offset) {
            return Ok(Some((doc.clone(), own)));
        }
        if !server.core.capabilities().offers(Feature::Definition) {
            return Ok(None);
        }
        let ask = server.ask(Some(doc), "textDocument/definition", clock, |synced, encoding| {
            at(synced, offset, encoding)
        });
        let found = locations(server, &ask.await?)?;
        let Some(place) = found.into_iter().find(|it| it.path.starts_with(self.workspace.root())) else {
            return Ok(None);
        };
        let Ok(document) = self.workspace.document(&place.path) else { return Ok(None) };
        let own = methods(&document, &outline(server, &document, clock).await?, name);
        Ok(here(own, place.range.start).map(|own| (document, own)))
    }

    /// What is written as a member of that name in the method's file, and has no definition that the server
    /// knows: a class that is mixed into another calls what only the other has. With a word about those that
    /// could not be asked about.
    async fn unclear(
        &self,
        server: &Server,
        home: &Holder,
        name: &str,
        is_known: &(dyn Fn(&AbsPath, usize) -> bool + Sync),
        clock: Clock<'_>,
    ) -> Result<(Vec<Location>, Option<String>), ServerError> {
        let mut found = Vec::new();
        if !server.core.capabilities().offers(Feature::Definition) {
            return Ok((found, None));
        }
        let Document { path, text, .. } = &home.document;
        let view = View::new(Arc::clone(text));
        let is_member = |range: &Range<usize>| {
            text.get(..range.start).is_some_and(|it| it.ends_with(['.', '>', ':']))
                && !is_known(path, range.start)
        };
        let declares = |range: &Range<usize>| home.methods.iter().any(|it| it.place.range == *range);
        let members: Vec<Range<usize>> =
            text::occurrences(text, name).filter(|it| is_member(it) && !declares(it)).collect();
        let count = members.len();
        let mut why = (count > MAX_ASKED).then(|| format!("{MAX_ASKED} of {count} were asked about"));
        for range in members.into_iter().take(MAX_ASKED) {
            let ask =
                server.ask(Some(&home.document), "textDocument/definition", clock, |synced, encoding| {
                    at(synced, range.start, encoding)
                });
            let defined = match ask.await {
                Ok(asked) => locations(server, &asked)?,
                Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                Err(error) => {
                    why = Some(error.to_string());
                    break;
                }
            };
            if defined.is_empty() {
                let (line, line_text) = view.line(range.start);
                found.push(Location { path: path.clone(), range, line, line_text });
            }
        }
        let file = self.workspace.relative(path);
        let unasked =
            why.map(|why| format!("what all members named `{name}` in {file} mean is not known: {why}"));
        Ok((found, unasked))
    }

    /// Asks for the uses of those that are wanted.
    async fn used(
        &self,
        family: &mut Family,
        server: &Server,
        wanted: Wanted,
        is_known: &(dyn Fn(&AbsPath, usize) -> bool + Sync),
        clock: Clock<'_>,
    ) -> Result<(), ServerError> {
        let more = match wanted {
            Wanted::All => family.overriding.iter_mut().chain(&mut family.siblings),
            Wanted::Bases => [].iter_mut().chain(&mut []),
        };
        for member in family.bases.iter_mut().chain(more).take(MAX_USED) {
            let Ok(document) = self.workspace.document(&member.place.path) else { continue };
            let mut found = match uses(server, &document, member.place.range.start, clock).await {
                Ok(found) => found,
                Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                Err(_) => break,
            };
            found.retain(|it| *it != member.place && !is_known(&it.path, it.range.start));
            if wanted == Wanted::Bases {
                let definition = Arc::clone(&server.core.definition);
                let is_call = move |place: &Location, holder: &Document| {
                    let language = definition.language_id(place.path.as_path()).unwrap_or_default();
                    is_called(&holder.text, &place.range, language)
                };
                let (calls, is_cut) = self.retained(found, is_call, clock).await?;
                family.is_unread |= is_cut;
                found = calls;
            }
            member.uses = Some(found);
        }
        Ok(())
    }

    /// The files at `paths`, as far as they can be read in three quarters of the time; whether some are left.
    async fn documents(
        &self,
        paths: &[AbsPath],
        clock: Clock<'_>,
    ) -> Result<(Vec<Document>, bool), ServerError> {
        let (workspace, paths, cancel) = (self.workspace.clone(), paths.to_vec(), clock.cancel.clone());
        let until = clock.at(75);
        let read = move || {
            let mut documents = Vec::new();
            for path in paths {
                if cancel.is_cancelled() || Instant::now() >= until {
                    return (documents, true);
                }
                documents.extend(workspace.document(&path).ok());
            }
            (documents, false)
        };
        in_time(read, clock).await
    }

    /// Those of `places` that are wanted, by the texts of their files, each once and in order; whether some could
    /// not be looked at in time.
    async fn retained(
        &self,
        mut places: Vec<Location>,
        is_wanted: impl Fn(&Location, &Document) -> bool + Send + 'static,
        clock: Clock<'_>,
    ) -> Result<(Vec<Location>, bool), ServerError> {
        let (workspace, cancel, until) = (self.workspace.clone(), clock.cancel.clone(), clock.until);
        let look = move || {
            places.sort_by(by_place);
            places.dedup();
            let mut is_cut = false;
            let mut holder: Option<(AbsPath, Option<Document>)> = None;
            places.retain(|place| {
                if holder.as_ref().is_none_or(|(path, _)| *path != place.path) {
                    if cancel.is_cancelled() || Instant::now() >= until {
                        is_cut = true;
                        return false;
                    }
                    holder = Some((place.path.clone(), workspace.document(&place.path).ok()));
                }
                let document = holder.as_ref().and_then(|(_, document)| document.as_ref());
                document.is_some_and(|it| is_wanted(place, it))
            });
            (places, is_cut)
        };
        in_time(look, clock).await
    }
}

/// What reads files, and ends by itself when the time is over: a file that cannot be read then is not waited for.
async fn in_time<T: Send + 'static>(
    work: impl FnOnce() -> (Vec<T>, bool) + Send + 'static,
    clock: Clock<'_>,
) -> Result<(Vec<T>, bool), ServerError> {
    tokio::select! {
        biased;
        () = clock.cancel.cancelled() => Err(ServerError::Cancelled),
        done = tokio::task::spawn_blocking(work) => Ok(done.unwrap_or_else(|_| (Vec::new(), true))),
        () = tokio::time::sleep_until(clock.until.into()) => Ok((Vec::new(), true)),
    }
}

/// A place, in short.
type Key = (AbsPath, usize);

fn key(place: &Location) -> Key {
    (place.path.clone(), place.range.start)
}

fn by_place(a: &Location, b: &Location) -> std::cmp::Ordering {
    (&a.path, a.range.start, a.range.end).cmp(&(&b.path, b.range.start, b.range.end))
}

impl Family {
    /// All that is known to belong to it.
    fn members(&self) -> impl Iterator<Item = &Member> {
        self.bases.iter().chain(&self.overriding).chain(&self.siblings)
    }

    /// What a rename leaves behind.
    pub fn not_renamed(&self, server: &Server, name: &str) -> Option<String> {
        let mut parts = Vec::new();
        for (what, members) in [
            ("it overrides", &self.bases),
            ("overrides it", &self.overriding),
            ("overrides the same", &self.siblings),
        ] {
            if !members.is_empty() {
                parts.push(format!("what {what}, {}", listed(server, members)));
            }
        }
        let mut note = Vec::new();
        if !parts.is_empty() {
            match self.used_at(server) {
                (0, _) => {}
                (1, places) => parts.push(format!("a use of that, {places}")),
                (count, places) => parts.push(format!("{count} uses of these, {places}")),
            }
            let unasked = match self.members().any(|it| it.uses.is_none()) || self.is_unread {
                true => " (not all uses are known)",
                false => "",
            };
            let lost = match self.bases.is_empty() {
                true => "a call of it no longer reaches what overrides it".to_owned(),
                false => format!("a call through the `{name}` that it overrides no longer reaches it"),
            };
            note.push(format!(
                "NOT renamed with it: {}{unasked}; rename all of these too, or {lost}",
                parts.join("; ")
            ));
        }
        note.extend(self.told_unclear(server));
        note.extend(self.not_known(server, name));
        (!note.is_empty()).then(|| note.join("; "))
    }

    /// The calls that may come to a method through what it overrides.
    pub fn calls_through(&self, server: &Server, name: &str) -> Option<String> {
        let mut note = Vec::new();
        if !self.bases.is_empty() {
            let bases = listed(server, &self.bases);
            let (count, places) = self.used_at(server);
            let unasked = match self.bases.iter().any(|it| it.uses.is_none()) || self.is_unread {
                true => " (not all of its uses are known)",
                false => "",
            };
            note.push(match count {
                0 => format!("it overrides {bases}, of which no call is known{unasked}"),
                _ => format!("it overrides {bases}, whose calls may come here too: {places}{unasked}"),
            });
        }
        note.extend(self.told_unclear(server));
        note.extend(self.not_known(server, name));
        (!note.is_empty()).then(|| note.join("; "))
    }

    fn told_unclear(&self, server: &Server) -> Option<String> {
        let places: Vec<String> = self.unclear.iter().map(|it| shown(server, it)).collect();
        let told = (!places.is_empty()).then(|| {
            format!("{} does not know what these mean, which may be it: {}", server.name(), cut(places))
        });
        let told: Vec<String> = told.into_iter().chain(self.unasked.clone()).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }

    fn not_known(&self, server: &Server, name: &str) -> Option<String> {
        let (unknown, why) = (!self.unknown.is_empty(), self.why.as_deref());
        let listed = unknown.then(|| {
            format!(
                "whether it overrides these or they override it is not known ({}): {}",
                why.unwrap_or(TOO_MANY),
                listed(server, &self.unknown)
            )
        });
        let more: Vec<&str> = self.cut.into_iter().chain(why.filter(|_| !unknown)).collect();
        let more = (!more.is_empty()).then(|| {
            format!("whether more methods named `{name}` belong to it is not known: {}", more.join(", "))
        });
        let told: Vec<String> = listed.into_iter().chain(more).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// How many uses of its members there are, and where.
    fn used_at(&self, server: &Server) -> (usize, String) {
        let mut places: Vec<&Location> = self.members().flat_map(|it| it.uses.iter().flatten()).collect();
        places.sort_by(|a, b| by_place(a, b));
        places.dedup();
        let mut names: Vec<String> = places.iter().map(|it| shown(server, it)).collect();
        names.dedup();
        (places.len(), cut(names))
    }
}

fn shown(server: &Server, place: &Location) -> String {
    format!("{}:{}", server.core.workspace.relative(&place.path), place.line)
}

fn listed(server: &Server, members: &[Member]) -> String {
    cut(members.iter().map(|it| format!("{} ({})", it.path, shown(server, &it.place))).collect())
}

fn cut(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

/// The methods of that name among a file's symbols.
fn methods(document: &Document, symbols: &[Symbol], name: &str) -> Vec<Member> {
    fn walk(symbols: &[Symbol], inside: bool, each: &mut impl FnMut(&Symbol)) {
        for symbol in symbols {
            let kind = symbol.kind.as_str();
            if kind == "method" || inside && matches!(kind, "function" | "property" | "field") {
                each(symbol);
            }
            walk(&symbol.children, matches!(kind, "class" | "interface" | "struct" | "object"), each);
        }
    }
    let view = View::new(Arc::clone(&document.text));
    let mut found = Vec::new();
    walk(symbols, false, &mut |symbol| {
        let selected = document.text.get(symbol.selection.clone()).unwrap_or_default();
        let Some(at) = text::occurrences(selected, name).next() else { return };
        // gopls names a method after its receiver.
        if symbol.name != name && symbol.name.rsplit('.').next() != Some(name) {
            return;
        }
        let range = symbol.selection.start + at.start..symbol.selection.start + at.end;
        let (line, line_text) = view.line(range.start);
        let place = Location { path: document.path.clone(), range, line, line_text };
        found.push(Member { path: symbol.path.clone(), place, uses: None });
    });
    found
}
