//! The family of a method: what it overrides, what overrides it, and what overrides the same.
//!
//! A server may take each of them for a symbol of its own (basedpyright 1.40), so that a rename, or a
//! question for callers, reaches one of them alone. A method is another's base where the server says that
//! the other implements it. What must stay true: none belongs to a family by its name alone, and those
//! that could not be asked about are told as such.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use workspace::{AbsPath, Document};

use super::at;
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
    /// Others of its name of which it is not known …
    pub unknown: Vec<Member>,
    /// … for this reason.
    why: Option<String>,
}

/// Which of a family are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// What calls may go through.
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
        let clock = clock.part(PART);
        let clock = Clock { until: clock.until.min(std::time::Instant::now() + MOST_TIME), ..clock };
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
        let mut files = vec![home.clone()];
        if holders.is_empty() {
            let (more, _) = self.holding(server, name, Where::All, clock).await?;
            files.extend(more);
        } else {
            files.extend(holders.iter().filter_map(|path| self.workspace.document(path).ok()));
        }
        let mut looked = Vec::new();
        let mut is_cut = false;
        for document in files {
            let is_new = |place: Range<usize>| !is_known(&document.path, place.start);
            let again = looked.iter().any(|it: &Holder| it.document.path == document.path);
            if again || !text::occurrences(&document.text, name).any(is_new) {
                continue;
            }
            if looked.len() == MAX_FILES {
                is_cut = true;
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
            family.unclear = self.unclear(server, at_home, name, is_known, clock).await?;
        }
        let others = |it: &Member| it.place != own.place && !is_known(&it.place.path, it.place.range.start);
        let candidates: Vec<(usize, Member)> = looked
            .iter()
            .enumerate()
            .flat_map(|(at, holder)| holder.methods.iter().map(move |it| (at, it.clone())))
            .filter(|(_, it)| others(it))
            .collect();
        if candidates.is_empty() {
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
            let mut found = locations(server, &ask.await?)?;
            found.retain(|place| self.text_at(place).as_deref() == Some(name));
            Ok::<_, ServerError>(found)
        };
        // Where even the first question fails, each of them is unknown.
        let below = match implementing(&home, own.place.range.start).await {
            Ok(below) => below,
            Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
            Err(error) => {
                family.why = Some(error.to_string());
                family.unknown = candidates.into_iter().map(|(_, it)| it).collect();
                return Ok(family);
            }
        };
        let mut relatives = below.clone();
        let mut asked = 0;
        for (at, candidate) in &candidates {
            if below.contains(&candidate.place) {
                continue;
            }
            if asked == MAX_ASKED || family.why.is_some() {
                family.unknown.push(candidate.clone());
                continue;
            }
            asked += 1;
            match implementing(&looked[*at].document, candidate.place.range.start).await {
                Ok(theirs) if theirs.contains(&own.place) => {
                    family.bases.push(candidate.clone());
                    relatives.extend(theirs);
                }
                Ok(_) => {}
                Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                Err(error) => {
                    family.why = Some(error.to_string());
                    family.unknown.push(candidate.clone());
                }
            }
        }
        family.unknown.retain(|it| !relatives.contains(&it.place));
        if is_cut || !family.unknown.is_empty() {
            family.why.get_or_insert_with(|| "the name stands at too many places".to_owned());
        }
        for place in relatives {
            let known = is_known(&place.path, place.range.start) || place == own.place;
            if known || family.members().any(|it| it.place == place) {
                continue;
            }
            let is_below = below.contains(&place);
            let listed = candidates.iter().find(|(_, it)| it.place == place).map(|(_, it)| it.clone());
            let plain = || Member { path: name.to_owned(), place, uses: None };
            let kin = if is_below { &mut family.overriding } else { &mut family.siblings };
            kin.push(listed.unwrap_or_else(plain));
        }
        family.used(server, wanted, is_known, clock).await?;
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
    /// knows: a class that is mixed into another calls what only the other has.
    async fn unclear(
        &self,
        server: &Server,
        home: &Holder,
        name: &str,
        is_known: &(dyn Fn(&AbsPath, usize) -> bool + Sync),
        clock: Clock<'_>,
    ) -> Result<Vec<Location>, ServerError> {
        let mut found = Vec::new();
        if !server.core.capabilities().offers(Feature::Definition) {
            return Ok(found);
        }
        let Document { path, text, .. } = &home.document;
        let view = View::new(Arc::clone(text));
        let is_member = |range: &Range<usize>| {
            text.get(..range.start).is_some_and(|it| it.ends_with(['.', '>', ':']))
                && !is_known(path, range.start)
        };
        let declares = |range: &Range<usize>| home.methods.iter().any(|it| it.place.range == *range);
        let members = text::occurrences(text, name).filter(|it| is_member(it) && !declares(it));
        for range in members.take(MAX_ASKED) {
            let ask =
                server.ask(Some(&home.document), "textDocument/definition", clock, |synced, encoding| {
                    at(synced, range.start, encoding)
                });
            let defined = match ask.await {
                Ok(asked) => locations(server, &asked)?,
                Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                Err(_) => break,
            };
            if defined.is_empty() {
                let (line, line_text) = view.line(range.start);
                found.push(Location { path: path.clone(), range, line, line_text });
            }
        }
        Ok(found)
    }

    fn text_at(&self, place: &Location) -> Option<String> {
        let document = self.workspace.document(&place.path).ok()?;
        document.text.get(place.range.clone()).map(str::to_owned)
    }
}

impl Family {
    /// All that is known to belong to it.
    fn members(&self) -> impl Iterator<Item = &Member> {
        self.bases.iter().chain(&self.overriding).chain(&self.siblings)
    }

    /// Asks for the uses of those that are wanted.
    async fn used(
        &mut self,
        server: &Server,
        wanted: Wanted,
        is_known: &(dyn Fn(&AbsPath, usize) -> bool + Sync),
        clock: Clock<'_>,
    ) -> Result<(), ServerError> {
        let more = match wanted {
            Wanted::All => self.overriding.iter_mut().chain(&mut self.siblings),
            Wanted::Bases => [].iter_mut().chain(&mut []),
        };
        for member in self.bases.iter_mut().chain(more).take(MAX_USED) {
            let Ok(document) = server.core.workspace.document(&member.place.path) else { continue };
            match uses(server, &document, member.place.range.start, clock).await {
                Ok(mut found) => {
                    found.retain(|it| *it != member.place && !is_known(&it.path, it.range.start));
                    member.uses = Some(found);
                }
                Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                Err(_) => break,
            }
        }
        Ok(())
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
            match self.used_at(server, |_, _| true) {
                (0, _) => {}
                (1, places) => parts.push(format!("a use of that, {places}")),
                (count, places) => parts.push(format!("{count} uses of these, {places}")),
            }
            let unasked = match self.members().any(|it| it.uses.is_none()) {
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

    /// The calls that may come to a method through what it overrides; `is_call`: a use that is one.
    pub fn calls_through(
        &self,
        server: &Server,
        name: &str,
        is_call: impl Fn(&Location, &Document) -> bool,
    ) -> Option<String> {
        let mut note = Vec::new();
        if !self.bases.is_empty() {
            let bases = listed(server, &self.bases);
            let (count, places) = self.used_at(server, is_call);
            let unasked = match self.bases.iter().any(|it| it.uses.is_none()) {
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
        (!places.is_empty()).then(|| {
            format!("{} does not know what these mean, which may be it: {}", server.name(), cut(places))
        })
    }

    fn not_known(&self, server: &Server, name: &str) -> Option<String> {
        let why = self.why.as_deref().unwrap_or("not asked");
        match self.unknown.is_empty() {
            true if self.why.is_none() => None,
            true => Some(format!("whether more methods named `{name}` belong to it is not known: {why}")),
            false => Some(format!(
                "whether it overrides these or they override it is not known ({why}): {}",
                listed(server, &self.unknown)
            )),
        }
    }

    /// How many uses of its members there are, and where.
    fn used_at(&self, server: &Server, is_wanted: impl Fn(&Location, &Document) -> bool) -> (usize, String) {
        let all = self.members().flat_map(|it| it.uses.iter().flatten());
        let mut places: Vec<&Location> = Vec::new();
        for place in all {
            let document = server.core.workspace.document(&place.path);
            if !places.contains(&place) && document.is_ok_and(|it| is_wanted(place, &it)) {
                places.push(place);
            }
        }
        places.sort_by_key(|it| (&it.path, it.range.start));
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
