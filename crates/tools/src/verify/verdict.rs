//! The difference that an edit made, as text for the model and as data for programs.

use std::collections::BTreeSet;

use agent::{Event, Problem, ToolCx};
use lsp_client::{Diagnostic, Severity};
use serde::Deserialize as _;
use serde_json::{Value, json};
use workspace::AbsPath;

use super::Before;
use crate::lsp::{headline, left_out};
use crate::{Kit, counted};

/// At most this many diagnostics are listed, of the new and of the gone.
const MAX_LISTED: usize = 20;

/// The difference, as text and for programs.
pub(crate) struct Verdict {
    pub text: String,
    pub details: Value,
}

impl Verdict {
    /// Nobody was asked.
    pub fn nothing() -> Self {
        Self { text: String::new(), details: Value::Null }
    }

    /// Tells who listens to the session what became known; nothing where nobody was asked.
    pub async fn tell(&self, cx: &ToolCx) {
        let problems = |name: &str| -> Option<Vec<Problem>> {
            self.details[name].as_array()?.iter().map(|it| Problem::deserialize(it).ok()).collect()
        };
        let servers = self.details["servers"].as_array().into_iter().flatten();
        if let (Some(introduced), Some(fixed)) = (problems("introduced"), problems("gone")) {
            let event = Event::Diagnostics {
                tool_call_id: cx.call_id.clone(),
                introduced,
                fixed,
                pending: self.details["pending"]
                    .as_u64()
                    .and_then(|it| usize::try_from(it).ok())
                    .unwrap_or(0),
                servers: servers.filter_map(|it| it.as_str().map(str::to_owned)).collect(),
            };
            cx.tell(event).await;
        }
    }
}

/// A diagnostic in a file, on a line from 1.
pub(super) type Placed = (AbsPath, usize, Diagnostic);

#[derive(Default)]
pub(super) struct Tally {
    pub new: Vec<Placed>,
    pub fixed: Vec<Placed>,
    /// Files of which at least one server is known before and after …
    pub compared: BTreeSet<AbsPath>,
    /// … and which of them are not changed themselves.
    pub dependents: BTreeSet<AbsPath>,
    pub pending: BTreeSet<AbsPath>,
    /// Files of which something will not become known.
    pub incomparable: BTreeSet<AbsPath>,
    /// Files that a server takes for none of its project's, with its words.
    pub disowned: BTreeSet<(AbsPath, String)>,
    /// Of which servers.
    pub unknown: BTreeSet<String>,
    pub why: BTreeSet<String>,
    pub servers: BTreeSet<String>,
    /// Sources that run on save only, with their servers.
    pub on_save: BTreeSet<(String, String)>,
}

/// What is said of files that were not looked at, and of those that nobody knows.
fn not_checked(unchecked: usize, why: &str, cut: bool) -> Option<String> {
    let checked = match unchecked {
        0 => None,
        count => Some(format!("diagnostics not checked for {}{why}", counted(count, "file"))),
    };
    let searched = cut.then(|| "not every file was searched for uses".to_owned());
    let said: Vec<String> = checked.into_iter().chain(searched).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

impl Tally {
    /// A server finds nothing wrong with a file of which it is not known what it said before; `false`.
    pub fn clean(&mut self, before: &Before, server: &str) -> bool {
        self.servers.insert(server.to_owned());
        self.compared.insert(before.path.clone());
        if before.dependent {
            self.dependents.insert(before.path.clone());
        }
        false
    }

    pub fn verdict(mut self, kit: &Kit, unchecked: usize, cold: &BTreeSet<AbsPath>, cut: bool) -> Verdict {
        let by_place = |a: &Placed, b: &Placed| (&a.0, a.1).cmp(&(&b.0, b.1));
        self.new.sort_by(by_place);
        self.fixed.sort_by(by_place);
        let mut lines = Vec::new();
        if !self.compared.is_empty() {
            self.differences(kit, &mut lines);
        }
        let files = |count: usize| counted(count, "file");
        if !self.pending.is_empty() {
            let why = self.why.iter().next().map(|why| format!(" ({why})")).unwrap_or_default();
            lines.push(format!(
                "diagnostics pending for {}: not known within the wait{why}",
                files(self.pending.len())
            ));
        }
        if !self.incomparable.is_empty() {
            let count = files(self.incomparable.len());
            let names: Vec<&str> = self.unknown.iter().map(String::as_str).collect();
            let of = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
            lines.push(format!("diagnostics not compared for {count}: not known before or after{of}"));
        }
        let all = self.disowned.len();
        for (path, words) in self.disowned.iter().take(MAX_LISTED) {
            lines.push(format!("not checked: {}: {words}", kit.shown(path)));
        }
        if all > MAX_LISTED {
            lines.push(format!("not checked: {} more such", counted(all - MAX_LISTED, "file")));
        }
        lines.extend(not_checked(unchecked, &super::cold::said(kit, cold), cut));
        lines.extend(left_out(kit, &self.on_save, false).iter().map(|line| line.trim_end().to_owned()));
        Verdict {
            text: lines.iter().map(|line| format!("{line}\n")).collect(),
            details: self.details(kit, unchecked),
        }
    }

    fn differences(&self, kit: &Kit, lines: &mut Vec<String>) {
        let by: Vec<&str> = self.servers.iter().map(String::as_str).collect();
        let by = by.join(", ");
        let within = match self.dependents.len() {
            0 => counted(self.compared.len(), "file"),
            dependents => {
                format!(
                    "{}, {dependents} of them not changed themselves",
                    counted(self.compared.len(), "file")
                )
            }
        };
        let errors = self.new.iter().filter(|(_, _, item)| item.severity == Severity::Error).count();
        lines.push(match (errors, self.new.len() - errors) {
            (0, 0) => format!("no new errors or warnings in {within} ({by})"),
            (errors, warnings) => {
                format!(
                    "introduced: {}, {} in {within} ({by})",
                    counted(errors, "error"),
                    counted(warnings, "warning")
                )
            }
        });
        self.list(kit, &self.new, lines);
        if !self.fixed.is_empty() {
            lines.push(format!("fixed: {}", self.fixed.len()));
            self.list(kit, &self.fixed, lines);
        }
    }

    fn list(&self, kit: &Kit, items: &[Placed], lines: &mut Vec<String>) {
        for (path, line, item) in items.iter().take(MAX_LISTED) {
            lines.push(format!("  {}:{line}: {}", kit.shown(path), headline(item)));
        }
        if items.len() > MAX_LISTED {
            lines.push(format!("  and {} more", items.len() - MAX_LISTED));
        }
    }

    fn details(&self, kit: &Kit, unchecked: usize) -> Value {
        let list = |items: &[Placed]| -> Vec<Value> {
            let row = |(path, line, item): &Placed| {
                json!({
                    "path": kit.shown(path), "line": line, "severity": item.severity.to_string(),
                    "code": item.code, "message": item.message, "server": item.server,
                })
            };
            items.iter().map(row).collect()
        };
        let on_save: Vec<&String> = self.on_save.iter().map(|(source, _)| source).collect();
        let disowned: Vec<String> = self.disowned.iter().map(|(path, _)| kit.shown(path)).collect();
        json!({
            "introduced": list(&self.new), "fixed": self.fixed.len(), "gone": list(&self.fixed),
            "compared": self.compared.len(), "dependents": self.dependents.len(), "pending": self.pending.len(),
            "not_compared": self.incomparable.len(), "not_checked": unchecked, "on_save": on_save,
            "disowned": disowned, "servers": self.servers,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::not_checked;

    #[test]
    fn no_files_are_not_counted() {
        let said = |unchecked, cut| not_checked(unchecked, " (why)", cut).unwrap_or_default();
        assert_eq!(said(0, false), "");
        assert_eq!(said(0, true), "not every file was searched for uses");
        assert_eq!(said(1, false), "diagnostics not checked for 1 file (why)");
        assert_eq!(
            said(2, true),
            "diagnostics not checked for 2 files (why); not every file was searched for uses"
        );
    }
}
