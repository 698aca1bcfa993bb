//! Sum of the answers about the files of an edit, and its headline: the worst that is known.
//!
//! Invariants: nothing counts as introduced or fixed without the complete diagnostics that the same server gave
//! before; no file counts as free of new problems before all servers that type its language have answered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lsp_client::{Checked, Diagnostic, Severity, Unknown};
use paths::AbsPath;
use serde_json::{Value, json};
use text::{LineIndex, TextEdit};
use workspace::Document;

use super::{Baseline, FileBaseline, Replaced, Same, Verdict, cold_servers, difference, problems};
use crate::notes::{headline, on_save_lines, render_unknown};
use crate::{ToolContext, counted};

/// Diagnostics of one kind in the text.
const MAX_LISTED: usize = 20;
/// Maximum number of further places of a message.
const MAX_PLACES: usize = 10;
/// Files named where several are counted.
const MAX_NAMED: usize = 3;

/// A diagnostic in a file, on a line from 1.
type Placed = (AbsPath, usize, Diagnostic);

#[derive(Default)]
pub(super) struct Tally {
    renamed: Option<Replaced>,
    introduced: Vec<Placed>,
    fixed: Vec<Placed>,
    /// Problems of servers whose diagnostics before the edit are not known.
    present: Vec<Placed>,
    /// These servers.
    without_baseline: BTreeSet<String>,
    /// Files about which all servers have answered that must.
    changed: BTreeSet<AbsPath>,
    dependents: BTreeSet<AbsPath>,
    /// Answers that are missing, by server.
    missing: BTreeMap<String, Missing>,
    /// Files that each server has checked.
    servers: BTreeMap<String, BTreeSet<AbsPath>>,
    /// Sources that only run on save, with their servers.
    on_save: BTreeSet<(String, String)>,
    /// The number of changed files and dependents.
    files: usize,
    unchecked: usize,
    cold: BTreeSet<AbsPath>,
    cut: bool,
    /// Whether servers are still being asked.
    is_running: bool,
}

/// The files that a server has not checked.
#[derive(Default, PartialEq)]
struct Missing {
    /// Whether the server types the language.
    types: bool,
    /// Whether answers may still come.
    pending: bool,
    files: BTreeSet<AbsPath>,
    why: Option<Unknown>,
}

impl Tally {
    pub fn new(baseline: &Baseline, is_running: bool) -> Self {
        let renamed = baseline.replaced.clone().filter(Replaced::is_rename);
        let unchecked = baseline.unchecked + baseline.later.len();
        let (files, cold) = (baseline.files.len() + unchecked, baseline.cold.clone());
        Self { renamed, files, unchecked, cold, cut: baseline.cut, is_running, ..Self::default() }
    }

    /// Adds the answers about one file; `document` has its text after the edit.
    pub fn add(&mut self, file: &FileBaseline, document: Option<&Document>, answers: &[Checked]) {
        // A file that was deleted meanwhile has no problems.
        let Some(document) = document else { return };
        let mut is_complete = !answers.is_empty();
        for Checked { server, types, known, pending, on_save, .. } in answers {
            self.on_save.extend(on_save.iter().map(|source| (source.clone(), server.clone())));
            match known {
                Ok(items) => {
                    self.servers.entry(server.clone()).or_default().insert(file.path.clone());
                    self.add_known(file, document, server, problems(items.clone()));
                }
                Err(why) => {
                    is_complete &= !types;
                    let missing = self.missing.entry(server.clone()).or_default();
                    missing.types |= types;
                    missing.pending |= pending;
                    missing.files.insert(file.path.clone());
                    missing.why = Some(why.clone());
                }
            }
        }
        // A compiler that stops at an error omits warnings.
        let failing: BTreeSet<String> = self.errors().map(|(_, _, item)| item.server.clone()).collect();
        self.fixed.retain(|(_, _, it)| it.severity == Severity::Error || !failing.contains(&it.server));
        if answers.is_empty() && self.is_running {
            let missing = self.missing.entry("its language server".to_owned()).or_default();
            (missing.types, missing.pending) = (true, true);
            missing.files.insert(file.path.clone());
        }
        if is_complete {
            let files = if file.dependent { &mut self.dependents } else { &mut self.changed };
            files.insert(file.path.clone());
        }
    }

    fn add_known(&mut self, file: &FileBaseline, document: &Document, server: &str, now: Vec<Diagnostic>) {
        let place = |text: &Arc<str>, items: Vec<Diagnostic>| -> Vec<Placed> {
            let index = LineIndex::new(text);
            let placed = |item: Diagnostic| (file.path.clone(), index.line_of(item.range.start) + 1, item);
            items.into_iter().map(placed).collect()
        };
        let Some(old) = file.of(server) else {
            if !now.is_empty() {
                self.without_baseline.insert(server.to_owned());
                self.present.extend(place(&document.text, now));
            }
            return;
        };
        let edits: Vec<TextEdit> = match file.text == document.text {
            true => Vec::new(),
            false => text::diff_edits(&file.text, &document.text),
        };
        let same = match &self.renamed {
            Some(Replaced { old, new, .. }) => Same::Renamed { from: old, to: new },
            None => Same::Message,
        };
        let (introduced, fixed) = difference(&file.text, &edits, old, &document.text, now, same);
        let fixed = fixed.into_iter().cloned().collect();
        self.introduced.extend(place(&document.text, introduced));
        self.fixed.extend(place(&file.text, fixed));
    }

    /// The number of problems that the edit may have caused.
    pub fn problems(&self) -> usize {
        self.introduced.len() + self.present.len()
    }

    /// The errors that the edit may have caused.
    fn errors(&self) -> impl Iterator<Item = &Placed> {
        let all = self.introduced.iter().chain(&self.present);
        all.filter(|(_, _, item)| item.severity == Severity::Error)
    }

    /// New errors, as single lines.
    pub fn new_errors(&self, context: &ToolContext) -> Vec<String> {
        let is_error = |(_, _, item): &&Placed| item.severity == Severity::Error;
        self.introduced.iter().filter(is_error).map(|placed| line(context, placed)).collect()
    }

    pub fn verdict(mut self, context: &ToolContext) -> Verdict {
        if self.servers.is_empty() && self.missing.is_empty() && self.unchecked == 0 && !self.cut {
            return Verdict::nothing();
        }
        let by_place = |a: &Placed, b: &Placed| (&a.0, a.1).cmp(&(&b.0, b.1));
        self.introduced.sort_by(by_place);
        self.fixed.sort_by(by_place);
        let old_name = self.renamed.as_ref().map(|it| it.old.clone());
        // Errors first, and of these the ones that name what a rename removed.
        let names_it = |item: &Diagnostic| {
            old_name.as_ref().is_some_and(|old| text::occurrences(&item.message, old).next().is_some())
        };
        self.present.sort_by(|a, b| {
            (a.2.severity, !names_it(&a.2)).cmp(&(b.2.severity, !names_it(&b.2))).then_with(|| by_place(a, b))
        });
        let lines = self.lines(context).into_iter().chain(self.notices(context));
        let text = lines.map(|line| format!("{line}\n")).collect();
        Verdict { text, details: self.details(context) }
    }

    /// The lines of the verdict; the first says the worst that is known.
    pub fn lines(&self, context: &ToolContext) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.introduced.is_empty() {
            lines.push(format!("introduced: {}", amount(&self.introduced)));
            list(context, &self.introduced, &mut lines);
        }
        if !self.present.is_empty() {
            lines.push(format!(
                "{} now; not known which are new: {} had not checked the text before",
                amount(&self.present),
                join(&self.without_baseline)
            ));
            let errors: Vec<Placed> = self
                .present
                .iter()
                .filter(|(_, _, item)| item.severity == Severity::Error)
                .cloned()
                .collect();
            list(context, &errors, &mut lines);
        }
        let (typing, linting): (Vec<_>, Vec<_>) = self.missing.iter().partition(|(_, it)| it.types);
        // Servers in the same state share a line.
        let mut states: Vec<(&Missing, Vec<&String>)> = Vec::new();
        for (server, missing) in typing.into_iter().chain(linting) {
            match states.iter_mut().find(|(state, _)| *state == missing) {
                Some((_, servers)) => servers.push(server),
                None => states.push((missing, vec![server])),
            }
        }
        for (missing, servers) in states {
            lines.push(missing.line(context, &servers, lines.is_empty() && missing.types));
        }
        lines.extend(self.not_checked(&cold_servers::describe(context, &self.cold)));
        let checked = self.checked();
        let partial: BTreeSet<&String> = self.on_save.iter().map(|(_, server)| server).collect();
        let is_clean = self.introduced.is_empty() && self.present.is_empty() && !checked.is_empty();
        match lines.is_empty() {
            true if is_clean && partial.is_empty() => {
                lines.push(format!("No new problems ({checked} checked)."))
            }
            true if is_clean => lines.push(format!(
                "not compiled: {} alone found no new problems ({checked} checked)",
                join(partial)
            )),
            // The worst that is known comes first, and qualifies the rest.
            false if is_clean && partial.is_empty() && self.missing.is_empty() => {
                let checked = self.changed.len() + self.dependents.len();
                lines[0].push_str(&format!(" No problems in the {checked} checked."));
            }
            _ => {}
        }
        if !self.fixed.is_empty() {
            lines.push(format!("fixed: {}", self.fixed.len()));
            list(context, &self.fixed, &mut lines);
        }
        lines
    }

    /// Notices about servers that no result of the session has shown.
    fn notices(&self, context: &ToolContext) -> Vec<String> {
        let waiting = self.missing.values().filter(|it| it.pending).filter_map(|it| it.why.as_ref());
        let why = waiting.filter(|why| **why != Unknown::Unanswered).map(|why| render_unknown(context, why));
        let why = why.map(|why| format!("note: {}", why.lines().next().unwrap_or_default()));
        // The sources of a server run together.
        let listed = |server: &String, source: &String| {
            let mut all = self.introduced.iter().chain(&self.present).chain(&self.fixed);
            all.any(|(_, _, item)| item.server == *server && item.source.as_ref() == Some(source))
        };
        let ran =
            |server: &String| self.on_save.iter().any(|(source, of)| of == server && listed(of, source));
        let omitted = self.on_save.iter().filter(|(_, server)| !ran(server)).cloned().collect();
        let on_save = on_save_lines(context, &omitted, false);
        let all = why.chain(on_save.iter().map(|line| line.trim_end().to_owned()));
        all.filter(|notice| context.pending.is_new(notice)).collect()
    }

    /// The line about files that were not checked, and `why`.
    fn not_checked(&self, why: &str) -> Option<String> {
        let uses = "not every file was searched for uses";
        match (self.unchecked, self.cut) {
            (0, false) => None,
            (0, true) => Some(format!("Not all checked: {uses}.")),
            (count, cut) => {
                let cut = if cut { format!("; {uses}") } else { String::new() };
                Some(format!("Not checked: {count} of {}{why}{cut}.", counted(self.files, "file")))
            }
        }
    }

    /// `2 changed files, 3 dependents`; empty if no file is completely checked.
    fn checked(&self) -> String {
        let changed = (!self.changed.is_empty()).then(|| counted(self.changed.len(), "changed file"));
        let dependents = (!self.dependents.is_empty()).then(|| counted(self.dependents.len(), "dependent"));
        changed.into_iter().chain(dependents).collect::<Vec<_>>().join(", ")
    }

    pub fn details(&self, context: &ToolContext) -> Value {
        let list = |items: &[Placed]| -> Vec<Value> {
            let row = |(path, line, item): &Placed| {
                json!({
                    "path": context.display_path(path), "line": line, "severity": item.severity.to_string(),
                    "code": item.code, "message": item.message, "server": item.server,
                })
            };
            items.iter().map(row).collect()
        };
        let names = |files: &BTreeSet<AbsPath>| -> Vec<String> {
            files.iter().map(|path| context.display_path(path)).collect()
        };
        let by_server: BTreeMap<&String, Vec<String>> =
            self.servers.iter().map(|(server, files)| (server, names(files))).collect();
        let missing: BTreeMap<&String, Vec<String>> =
            self.missing.iter().map(|(server, it)| (server, names(&it.files))).collect();
        let pending: BTreeSet<&AbsPath> =
            self.missing.values().filter(|it| it.pending).flat_map(|it| &it.files).collect();
        let on_save: Vec<&String> = self.on_save.iter().map(|(source, _)| source).collect();
        json!({
            "introduced": list(&self.introduced), "fixed": self.fixed.len(), "gone": list(&self.fixed),
            "present": list(&self.present), "compared": self.changed.len() + self.dependents.len(),
            "dependents": self.dependents.len(), "pending": pending.len(), "missing": missing,
            "not_checked": self.unchecked, "cut": self.cut, "on_save": on_save, "servers": by_server,
        })
    }
}

impl Missing {
    fn line(&self, context: &ToolContext, servers: &[&String], is_headline: bool) -> String {
        let files = counted(self.files.len(), "file");
        let (verb, pronoun) = if servers.len() == 1 { ("has", "it has") } else { ("have", "they have") };
        let servers = join(servers.iter().copied());
        if self.pending {
            return match is_headline {
                true => format!("not checked yet by {servers}: {pronoun} not reported on {files}"),
                false => format!("{servers} {verb} not reported on {files} yet."),
            };
        }
        let named = self.files.iter().take(MAX_NAMED).map(|path| context.display_path(path));
        let mut named: Vec<String> = named.collect();
        if self.files.len() > MAX_NAMED {
            named.push(format!("{} more", self.files.len() - MAX_NAMED));
        }
        let why = self.why.as_ref().map(|why| render_unknown(context, why)).unwrap_or_default();
        format!("not checked by {servers}: {} ({why})", named.join(", "))
    }
}

/// `1 error, 2 warnings`.
fn amount(items: &[Placed]) -> String {
    let errors = items.iter().filter(|(_, _, item)| item.severity == Severity::Error).count();
    format!("{}, {}", counted(errors, "error"), counted(items.len() - errors, "warning"))
}

/// Lists each message once, with its places.
fn list(context: &ToolContext, items: &[Placed], lines: &mut Vec<String>) {
    lines.extend(grouped(items, |path| context.display_path(path)));
}

fn grouped(items: &[Placed], show: impl Fn(&AbsPath) -> String) -> Vec<String> {
    let mut messages: Vec<(String, Vec<String>)> = Vec::new();
    for (path, line, item) in items {
        let (message, place) = (headline(item), format!("{}:{line}", show(path)));
        match messages.iter_mut().find(|(known, _)| *known == message) {
            Some((_, places)) => places.push(place),
            None => messages.push((message, vec![place])),
        }
    }
    let mut lines = Vec::new();
    for (message, places) in messages.iter().take(MAX_LISTED) {
        let [first, more @ ..] = &places[..] else { continue };
        lines.push(format!("  {first}: {message}"));
        let named = more[..more.len().min(MAX_PLACES)].join(", ");
        match more.len() {
            0 => {}
            1..=MAX_PLACES => lines.push(format!("    also at {named}")),
            count => lines.push(format!("    also at {named} and {} more", count - MAX_PLACES)),
        }
    }
    let omitted: usize = messages.iter().skip(MAX_LISTED).map(|(_, places)| places.len()).sum();
    if omitted > 0 {
        lines.push(format!("  and {omitted} more"));
    }
    lines
}

fn line(context: &ToolContext, (path, line, item): &Placed) -> String {
    format!("{}:{line}: {}", context.display_path(path), headline(item))
}

fn join<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    names.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_listed_once_with_its_places() {
        let placed = |file: &str, line, message: &str| {
            let item = Diagnostic {
                range: 0..1,
                line: 1,
                severity: Severity::Error,
                code: Some("E".into()),
                source: Some("s".into()),
                message: message.into(),
                server: "one".into(),
                raw: lsp_client::RawJson::new(serde_json::value::RawValue::NULL),
            };
            (AbsPath::new(format!("/p/{file}")).unwrap(), line, item)
        };
        let mut items = vec![placed("a.py", 1, "no x"), placed("a.py", 9, "no y")];
        items.extend((1..=12).map(|line| placed("b.py", line, "no x")));
        let show = |path: &AbsPath| path.as_path().file_name().unwrap().to_string_lossy().into_owned();
        let listed = grouped(&items, show);
        expect_test::expect![[r#"
            listed
              a.py:1: error: no x [E] (s)
                also at b.py:1, b.py:2, b.py:3, b.py:4, b.py:5, b.py:6, b.py:7, b.py:8, b.py:9, b.py:10 and 2 more
              a.py:9: error: no y [E] (s)"#]]
        .assert_eq(&format!("listed\n{}", listed.join("\n")));
    }
}
