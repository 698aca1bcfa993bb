//! Who calls a function and what it calls; what a type is built on and what is built on it.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};
use workspace::{AbsPath, Document};

use super::family::Wanted;
use super::holders::{Holders, Where};
use super::navigation::uses;
use super::symbols::outline;
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
        // What its own package has counts also where others do not answer.
        let most = if holders.paths.is_empty() { clock } else { clock.part(75) };
        let found = match calls(&server, way, doc, offset, most).await {
            Ok(found) if way == Calls::Incoming => {
                let found = self.with_others(&server, (doc, offset), &holders, found, clock).await;
                match found {
                    Ok(found) => self.with_bases(&server, (doc, offset), &holders, found, clock).await,
                    Err(error) => Err(error),
                }
            }
            found => found,
        };
        if let Some(opened) = holders.opened.take() {
            server.close_all(opened).await;
        }
        Ok(noted(found?, holders.note))
    }

    /// With a word about the calls of what it overrides, which may come to it too.
    async fn with_bases(
        &self,
        server: &Server,
        (doc, offset): (&Document, usize),
        holders: &Holders,
        found: Answer<Vec<Call>>,
        clock: Clock<'_>,
    ) -> Result<Answer<Vec<Call>>, ServerError> {
        let mut listed: HashMap<&AbsPath, HashSet<usize>> = HashMap::new();
        for place in found.value.iter().flat_map(|call| &call.places) {
            listed.entry(&place.path).or_default().insert(place.range.start);
        }
        let is_listed = |path: &AbsPath, at: usize| listed.get(path).is_some_and(|it| it.contains(&at));
        let family =
            self.family(server, (doc, offset), &holders.paths, Wanted::Bases, &is_listed, clock).await?;
        let name = &doc.text[text::word_at(&doc.text, offset)];
        let note = family.calls_through(server, name);
        Ok(noted(found, note))
    }

    /// With the calls of other packages that hold the name, where the server may not have looked: those that
    /// are among the uses that it knows.
    async fn with_others(
        self: &Arc<Self>,
        server: &Server,
        (doc, offset): (&Document, usize),
        holders: &Holders,
        mut found: Answer<Vec<Call>>,
        clock: Clock<'_>,
    ) -> Result<Answer<Vec<Call>>, ServerError> {
        let told = found.value.iter().map(|call| &call.symbol.file).collect::<Vec<_>>();
        let packages = self.unseen(server, doc, holders, &told);
        if packages.is_empty() {
            return Ok(found);
        }
        match calls_among_uses(server, (doc, offset), &packages, clock).await {
            Ok((more, unclear)) => {
                let name = server.name();
                let listed = (!more.is_empty())
                    .then(|| format!("in other packages {name} knows uses only; those that call are listed"));
                found.value.extend(more);
                found.value.sort_by(by_place);
                let left = (!unclear.is_empty()).then(|| {
                    format!(
                        "{name} knows uses in other packages that are not seen to be calls; `references` of it has their places: {}",
                        relative(server, &unclear)
                    )
                });
                Ok(noted(noted(found, listed), left))
            }
            Err(ServerError::Cancelled) => Err(ServerError::Cancelled),
            Err(_) => Ok(noted(found, Some(not_looked_at(server, &packages)))),
        }
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
        let packages = self.unseen(&server, doc, &holders, &told);
        let left = (!packages.is_empty()).then(|| not_looked_at(&server, &packages));
        Ok(noted(noted(found, holders.note), left))
    }

    /// Other packages whose files hold the name, of which nothing is `told`: who follows calls from an item may
    /// stay in the item's own package (tsserver 5.9).
    fn unseen(&self, server: &Server, doc: &Document, holders: &Holders, told: &[&AbsPath]) -> Vec<AbsPath> {
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
        packages
    }
}

fn not_looked_at(server: &Server, packages: &[AbsPath]) -> String {
    format!(
        "the name stands in other packages too, where {} may not have looked; `references` of it has their places: {}",
        server.name(),
        relative(server, packages)
    )
}

fn relative(server: &Server, packages: &[AbsPath]) -> String {
    let names: Vec<String> = packages.iter().map(|root| server.core.workspace.relative(root)).collect();
    names.join(", ")
}

/// The calls among the uses in some packages, each in the innermost function around it, else in the file; and the
/// packages that have uses of which none is seen to be a call.
async fn calls_among_uses(
    server: &Server,
    (doc, offset): (&Document, usize),
    packages: &[AbsPath],
    clock: Clock<'_>,
) -> Result<(Vec<Call>, Vec<AbsPath>), ServerError> {
    let mut by_file: BTreeMap<AbsPath, Vec<Location>> = BTreeMap::new();
    for place in uses(server, doc, offset, clock).await? {
        if packages.iter().any(|root| place.path.starts_with(root)) {
            by_file.entry(place.path.clone()).or_default().push(place);
        }
    }
    let mut out = Vec::new();
    let mut unclear: Vec<AbsPath> = packages.to_vec();
    unclear.retain(|root| by_file.keys().any(|path| path.starts_with(root)));
    for (path, places) in by_file {
        let Ok(holder) = server.core.workspace.document(&path) else { continue };
        let language = server.core.definition.language_id(path.as_path()).unwrap_or_default();
        let calls: Vec<Location> =
            places.into_iter().filter(|it| is_called(&holder.text, &it.range, language)).collect();
        if calls.is_empty() {
            continue;
        }
        unclear.retain(|root| !path.starts_with(root));
        let outline = outline(server, &holder, clock).await?;
        let mut callers: Vec<Call> = Vec::new();
        for place in calls {
            let around = innermost(&holder.text, &outline, place.range.start);
            let symbol = around.unwrap_or_else(|| whole_file(&holder));
            match callers.iter_mut().find(|call| call.symbol == symbol) {
                Some(call) => call.places.push(place),
                None => callers.push(Call { symbol, places: vec![place] }),
            }
        }
        out.extend(callers);
    }
    Ok((out, unclear))
}

/// Languages in which the end of a line ends a statement, so that what follows it are no arguments.
const BY_LINES: &[&str] = &["python", "go", "ruby", "kotlin", "swift", "scala", "lua"];

/// Whether what stands at `range` is called there: its arguments follow, maybe after those for its types, or it is
/// written as a decorator or an element.
pub(super) fn is_called(text: &str, range: &Range<usize>, language: &str) -> bool {
    let before = text.get(..range.start).unwrap_or_default();
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let head = before.trim_end_matches(|c| is_word(c) || c == '.');
    let alone =
        |mark: char| head.strip_suffix(mark).is_some_and(|it| !it.ends_with(|c| is_word(c) || c == ')'));
    // In TypeScript without elements that is an assertion of a type.
    let has_elements = matches!(language, "typescriptreact" | "javascriptreact" | "javascript");
    if alone('@') || has_elements && alone('<') {
        return true;
    }
    let rest = after_blanks(text.get(range.end..).unwrap_or_default(), language);
    let rest = ["?.", "!", "::"].iter().find_map(|it| rest.strip_prefix(it)).unwrap_or(rest);
    if language == "go" && rest.starts_with('[') {
        let mut depth = 0;
        for (at, c) in rest.char_indices() {
            match c {
                '[' => depth += 1,
                ']' => depth -= 1,
                ';' => return false,
                _ => {}
            }
            if depth == 0 {
                return rest[at + 1..].starts_with('(');
            }
        }
        return false;
    }
    if !rest.starts_with('<') {
        return rest.starts_with(['(', '`']);
    }
    let mut depth = 0;
    for (at, c) in rest.char_indices() {
        match c {
            '<' => depth += 1,
            // An arrow's end is none of a list's.
            '>' if rest[..at].ends_with('=') => {}
            '>' => depth -= 1,
            ';' => return false,
            _ => {}
        }
        if depth == 0 {
            return after_blanks(&rest[at + c.len_utf8()..], language).starts_with(['(', '`']);
        }
    }
    false
}

/// What follows blanks and comments.
fn after_blanks<'a>(text: &'a str, language: &str) -> &'a str {
    let is_blank = |c: char| c.is_whitespace() && (c != '\n' || !BY_LINES.contains(&language));
    let mut rest = text.trim_start_matches(is_blank);
    while let Some((_, after)) = rest.strip_prefix("/*").and_then(|it| it.split_once("*/")) {
        rest = after.trim_start_matches(is_blank);
    }
    rest
}

/// The innermost of the functions around a byte.
fn innermost(text: &str, symbols: &[Symbol], at: usize) -> Option<Symbol> {
    let around = symbols.iter().find(|symbol| symbol.range.contains(&at))?;
    let inner = innermost(text, &around.children, at);
    let is_closure = || {
        let before = text.get(around.range.start..at).unwrap_or_default();
        before.contains("=>") || before.contains("function")
    };
    let runs = match around.kind.as_str() {
        "function" | "method" | "constructor" => true,
        "variable" | "constant" | "property" | "field" => is_closure(),
        _ => false,
    };
    inner.or_else(|| runs.then(|| Symbol { children: Vec::new(), ..around.clone() }))
}

/// What is called at the top of a file is called by the file.
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

fn by_place(a: &Call, b: &Call) -> Ordering {
    (&a.symbol.file, a.symbol.line, &a.symbol.name).cmp(&(&b.symbol.file, b.symbol.line, &b.symbol.name))
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
    let out = once(out);
    Ok(match last {
        Some(asked) => answer(server, &asked, out),
        None => Answer { value: out, server: server.name().to_owned(), note: server.note() },
    })
}

/// In order of place, each function and each of its calls once: servers may tell one several times
/// (basedpyright 1.40).
fn once(mut calls: Vec<Call>) -> Vec<Call> {
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

#[cfg(test)]
mod tests {
    use super::is_called;

    #[test]
    fn a_use_is_a_call_where_arguments_follow() {
        let called_in = |text: &str, language: &str| {
            let at = text.find('f').unwrap();
            is_called(text, &(at..at + 1), language)
        };
        let called = |text: &str| called_in(text, "typescript");
        for text in [
            "f(1)",
            "f (1)",
            "f<T>(x)",
            "f<Map<K, () => V>>(x)",
            "f?.(x)",
            "f!(x)",
            "f`x`",
            "new f(x)",
            "f\n(x)",
            "f /* x */ (y)",
            "f::<T>(x)",
            "@f\nclass A {}",
            "@a.f class A {}",
        ] {
            assert!(called(text), "{text}");
        }
        for text in ["f", "f, g(1)", "f < g(1)", "f<T>", "f.call(x)", "f = (x)", "import { f } from 'x'; g()"]
        {
            assert!(!called(text), "{text}");
        }
        for (text, language, is) in [
            ("(<f />)", "typescriptreact", true),
            ("<a.f x={1}>", "javascript", true),
            ("</f>", "typescriptreact", false),
            ("Map<f, B>", "typescriptreact", false),
            ("<f>x", "typescript", false),
            ("a@f", "python", false),
            ("h = f\n(a, b) = 1, 2", "python", false),
            ("f (1)", "python", true),
            ("@f\ndef g(): ...", "python", true),
            ("f[int](x)", "go", true),
            ("f[map[string]int](x)", "go", true),
            ("f[0] + g[1](x)", "go", false),
            ("f[g(x)]\nh(x)", "go", false),
            ("f[int](x)", "python", false),
        ] {
            assert_eq!(called_in(text, language), is, "{text} in {language}");
        }
    }
}
