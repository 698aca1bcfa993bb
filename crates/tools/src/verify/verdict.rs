//! The difference that an edit made, as text for the model and as data for programs.

use std::collections::{BTreeMap, BTreeSet};

use agent::events::Problem;
use agent::{Event, ToolCx};
use lsp_client::{Diagnostic, Severity};
use paths::AbsPath;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::FileBaseline;
use crate::notes::{headline, on_save_lines};
use crate::{ToolContext, counted};

/// Diagnostics in the text, of the new and of the gone ones.
const MAX_LISTED: usize = 20;

/// The difference as text and data.
pub(crate) struct Verdict {
    pub text: String,
    pub details: Value,
}

impl Verdict {
    pub fn nothing() -> Self {
        Self { text: String::new(), details: Value::Null }
    }

    /// Emits the difference to listeners of the session, unless nothing was checked.
    pub async fn report(&self, cx: &ToolCx) {
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
            cx.report(event).await;
        }
    }
}

/// A diagnostic in a file, on a line from 1.
pub(super) type Placed = (AbsPath, usize, Diagnostic);

#[derive(Default)]
pub(super) struct Tally {
    pub new: Vec<Placed>,
    pub fixed: Vec<Placed>,
    /// Files with diagnostics of at least one server before and after.
    pub compared: BTreeSet<AbsPath>,
    /// Compared files that are not changed, with the servers.
    pub dependents: BTreeMap<AbsPath, BTreeSet<String>>,
    pub pending: BTreeSet<AbsPath>,
    /// Files whose difference remains unknown.
    pub incomparable: BTreeSet<AbsPath>,
    /// Files that a server excludes from its project, with its message.
    pub disowned: BTreeSet<(AbsPath, String)>,
    /// Servers whose diagnostics before the edit are not known.
    pub not_before: BTreeSet<String>,
    /// Servers whose diagnostics after the edit are not known.
    pub not_after: BTreeSet<String>,
    pub why: BTreeSet<String>,
    pub servers: BTreeSet<String>,
    /// Sources that only run on save, with their servers.
    pub on_save: BTreeSet<(String, String)>,
}

impl Tally {
    /// Records a file without problems whose diagnostics before are not known.
    ///
    /// Returns `false`, for use in `retain`.
    pub fn clean(&mut self, before: &FileBaseline, server: &str) -> bool {
        self.servers.insert(server.to_owned());
        self.compared.insert(before.path.clone());
        if before.dependent {
            self.dependents.entry(before.path.clone()).or_default().insert(server.to_owned());
        }
        false
    }

    pub fn verdict(
        mut self,
        context: &ToolContext,
        unchecked: usize,
        cold: &BTreeSet<AbsPath>,
        cut: bool,
    ) -> Verdict {
        let by_place = |a: &Placed, b: &Placed| (&a.0, a.1).cmp(&(&b.0, b.1));
        self.new.sort_by(by_place);
        self.fixed.sort_by(by_place);
        let mut lines = Vec::new();
        if !self.compared.is_empty() {
            self.differences(context, &mut lines);
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
            lines.push(format!("diagnostics not compared for {count}: {}", self.sides()));
        }
        let all = self.disowned.len();
        for (path, words) in self.disowned.iter().take(MAX_LISTED) {
            lines.push(format!("not checked: {}: {words}", context.display_path(path)));
        }
        if all > MAX_LISTED {
            lines.push(format!("not checked: {} more such", counted(all - MAX_LISTED, "file")));
        }
        lines.extend(not_checked(unchecked, &super::cold_servers::describe(context, cold), cut));
        lines.extend(
            on_save_lines(context, &self.on_save, false).iter().map(|line| line.trim_end().to_owned()),
        );
        Verdict {
            text: lines.iter().map(|line| format!("{line}\n")).collect(),
            details: self.details(context, unchecked),
        }
    }

    /// The missing side of a comparison, with the servers.
    fn sides(&self) -> String {
        let side = |words: &str, servers: &BTreeSet<String>| {
            let names: Vec<&str> = servers.iter().map(String::as_str).collect();
            let servers = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
            format!("not known {words}{servers}")
        };
        match (self.not_before.is_empty(), self.not_after.is_empty()) {
            _ if self.not_before == self.not_after => side("before or after", &self.not_before),
            (false, true) => side("before", &self.not_before),
            (true, _) => side("after", &self.not_after),
            (false, false) => {
                format!("{}, {}", side("before", &self.not_before), side("after", &self.not_after))
            }
        }
    }

    fn differences(&self, context: &ToolContext, lines: &mut Vec<String>) {
        let by: Vec<&str> = self.servers.iter().map(String::as_str).collect();
        let by = by.join(", ");
        let unjudged = self.unjudged();
        let compared = self.compared.len() - unjudged;
        let within = match self.dependents.len() - unjudged {
            0 => counted(compared, "file"),
            dependents => {
                format!("{}, {dependents} of them not changed themselves", counted(compared, "file"))
            }
        };
        let errors = self.new.iter().filter(|(_, _, item)| item.severity == Severity::Error).count();
        match (errors, self.new.len() - errors) {
            (0, 0) if compared == 0 => {}
            (0, 0) => lines.push(format!("no new errors or warnings in {within} ({by})")),
            (errors, warnings) => lines.push(format!(
                "introduced: {}, {} in {within} ({by})",
                counted(errors, "error"),
                counted(warnings, "warning")
            )),
        }
        self.list(context, &self.new, lines);
        if !self.fixed.is_empty() {
            lines.push(format!("fixed: {}", self.fixed.len()));
            self.list(context, &self.fixed, lines);
        }
        if unjudged > 0 {
            let join_names = |each: fn(&(String, String)) -> &str| {
                let names: BTreeSet<&str> = self.on_save.iter().map(each).collect();
                names.into_iter().collect::<Vec<_>>().join(" and ")
            };
            lines.push(format!(
                "not known whether it breaks {} that it does not change: {} finds only a part of that without {}",
                counted(unjudged, "file"),
                join_names(|(_, server)| server),
                join_names(|(source, _)| source)
            ));
        }
    }

    /// The number of unchanged files without a conclusion.
    ///
    /// Their servers found no difference, but leave most problems of other files to a source that runs on save.
    fn unjudged(&self) -> usize {
        let partial: BTreeSet<&str> = self.on_save.iter().map(|(_, server)| server.as_str()).collect();
        let differs = |path: &AbsPath| self.new.iter().chain(&self.fixed).any(|(it, ..)| it == path);
        let unjudged = self.dependents.iter().filter(|(path, servers)| {
            servers.iter().all(|server| partial.contains(server.as_str())) && !differs(path)
        });
        unjudged.count()
    }

    fn list(&self, context: &ToolContext, items: &[Placed], lines: &mut Vec<String>) {
        for (path, line, item) in items.iter().take(MAX_LISTED) {
            lines.push(format!("  {}:{line}: {}", context.display_path(path), headline(item)));
        }
        if items.len() > MAX_LISTED {
            lines.push(format!("  and {} more", items.len() - MAX_LISTED));
        }
    }

    fn details(&self, context: &ToolContext, unchecked: usize) -> Value {
        let list = |items: &[Placed]| -> Vec<Value> {
            let row = |(path, line, item): &Placed| {
                json!({
                    "path": context.display_path(path), "line": line, "severity": item.severity.to_string(),
                    "code": item.code, "message": item.message, "server": item.server,
                })
            };
            items.iter().map(row).collect()
        };
        let on_save: Vec<&String> = self.on_save.iter().map(|(source, _)| source).collect();
        let disowned: Vec<String> =
            self.disowned.iter().map(|(path, _)| context.display_path(path)).collect();
        json!({
            "introduced": list(&self.new), "fixed": self.fixed.len(), "gone": list(&self.fixed),
            "compared": self.compared.len(), "dependents": self.dependents.len(), "unjudged": self.unjudged(), "pending": self.pending.len(),
            "not_compared": self.incomparable.len(), "not_checked": unchecked, "on_save": on_save,
            "disowned": disowned, "servers": self.servers,
        })
    }
}

/// The line about files that were not checked, and `why`.
fn not_checked(unchecked: usize, why: &str, cut: bool) -> Option<String> {
    let uses = "not every file was searched for uses";
    match (unchecked, cut) {
        (0, false) => None,
        (0, true) => Some(format!("diagnostics checked only where uses were found: {uses}")),
        (_, cut) => {
            let cut = if cut { format!("; {uses}") } else { String::new() };
            Some(format!("diagnostics not checked for {}{why}{cut}", counted(unchecked, "file")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchecked_files_are_reported_if_there_are_any() {
        let rendered = |unchecked, cut| not_checked(unchecked, " (why)", cut).unwrap_or_default();
        assert_eq!(rendered(0, false), "");
        assert_eq!(
            rendered(0, true),
            "diagnostics checked only where uses were found: not every file was searched for uses"
        );
        assert_eq!(rendered(1, false), "diagnostics not checked for 1 file (why)");
        assert_eq!(
            rendered(2, true),
            "diagnostics not checked for 2 files (why); not every file was searched for uses"
        );
    }
}
