//! The answer of `diagnostics`: counts, the worst problems, and unknown parts.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use lsp_client::{Answer, Diagnostic, Diagnostics, Related, Reported, Severity};
use paths::AbsPath;
use serde_json::{Value, json};
use text::LineIndex;
use workspace::Document;

use super::report::{MAX_ENTRIES, missing_servers, named};
use super::truncate;
use crate::{ToolContext, counted, notes};

/// Maximum number of diagnostics in the text.
const MAX_ROWS: usize = 100;
/// Maximum number of diagnostics with related places, tags and page in the details.
const MAX_DETAILED: usize = 1000;
/// Maximum number of further places of one message.
const MAX_PLACES: usize = 30;
/// Maximum number of related places of one diagnostic in the text.
const MAX_RELATED: usize = 3;

/// Files for which no server answered.
pub(super) struct Unchecked {
    /// Files in order of path.
    pub files: Vec<AbsPath>,
    pub reason: String,
    /// Files whose servers are not installed, by the servers' names.
    pub without_server: BTreeMap<String, Vec<AbsPath>>,
}

/// The diagnostics of the requested files.
pub(super) struct DiagnosticsReport<'a> {
    context: &'a ToolContext,
    answers: &'a [(Document, Answer<Diagnostics>)],
    /// Reports of servers about their whole workspace.
    reported: &'a BTreeMap<AbsPath, Reported>,
    unchecked: &'a Unchecked,
    files: Vec<(&'a Document, LineIndex)>,
    /// Diagnostics, each with the number of its file.
    found: Vec<(usize, &'a Diagnostic)>,
}

impl<'a> DiagnosticsReport<'a> {
    pub fn new(
        context: &'a ToolContext,
        answers: &'a [(Document, Answer<Diagnostics>)],
        reported: &'a BTreeMap<AbsPath, Reported>,
        unchecked: &'a Unchecked,
    ) -> Self {
        let asked = answers.iter().map(|(document, answer)| (document, &answer.value.items));
        let more = reported.values().filter_map(|it| Some((it.document.as_ref()?, &it.items)));
        let (mut files, mut found) = (Vec::new(), Vec::new());
        for (document, items) in asked.chain(more) {
            found.extend(items.iter().map(|item| (files.len(), item)));
            files.push((document, LineIndex::new(&document.text)));
        }
        Self { context, answers, reported, unchecked, files, found }
    }

    /// Renders the text for the model and the details for surfaces.
    pub fn render(&self) -> (String, Value) {
        // The worst first; within a severity in order of file and line.
        let mut worst: Vec<&(usize, &Diagnostic)> = self.found.iter().collect();
        worst.sort_by_key(|(_, item)| item.severity);
        let mut text = format!("{}{}\n", self.counts(), self.servers());
        let mut messages: Vec<(String, Vec<&(usize, &Diagnostic)>)> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        for found in worst.iter().copied() {
            let message = notes::headline(found.1);
            match known.get(&message).filter(|_| found.1.related().is_empty()) {
                Some(at) => messages[*at].1.push(found),
                None if messages.len() < MAX_ROWS => {
                    known.insert(message.clone(), messages.len());
                    messages.push((message, vec![found]));
                }
                None => {}
            }
        }
        text.extend(messages.iter().map(|(message, places)| self.row(message, places)));
        let shown: usize = messages.iter().map(|(_, places)| places.len()).sum();
        if worst.len() > shown {
            text.push_str(&format!("… and {} more; name a `file`\n", worst.len() - shown));
        }
        self.push_lines(&mut text, messages.iter().flat_map(|(_, places)| places).copied());
        let (pending, failed) = self.push_unknown(&mut text);
        let on_save: BTreeSet<(String, String)> = self.on_save().cloned().collect();
        text.extend(notes::on_save_lines(self.context, &on_save, true));
        self.push_unchecked(&mut text);
        worst.truncate(MAX_ENTRIES);
        let listed: BTreeSet<*const Diagnostic> =
            worst.iter().map(|(_, item)| std::ptr::from_ref(*item)).collect();
        let listed = self.found.iter().filter(|(_, item)| listed.contains(&std::ptr::from_ref(*item)));
        let list: Vec<Value> = listed.enumerate().map(|(number, found)| self.entry(number, found)).collect();
        let sources: Vec<&String> = on_save.iter().map(|(source, _)| source).collect();
        let without_server: usize = self.unchecked.without_server.values().map(Vec::len).sum();
        let details = json!({
            "diagnostics": list, "left_out": self.found.len() - list.len(), "pending": pending,
            "failed": failed, "not_checked": self.unchecked.files.len(), "on_save": sources,
            "passed_over": without_server,
        });
        (text, details)
    }

    /// Renders the numbers of problems and files.
    fn counts(&self) -> String {
        // A file without any answer is not a file without errors.
        let is_known = |answer: &Answer<Diagnostics>| {
            let Diagnostics { items, pending, failed, .. } = &answer.value;
            !items.is_empty() || pending.is_empty() && failed.is_empty()
        };
        let answered = self.answers.iter().filter(|(_, answer)| is_known(answer)).count();
        let known = answered + self.reported.len();
        if known == 0 {
            return format!("no server has checked {}", counted(self.answers.len(), "file"));
        }
        let count =
            |is: &dyn Fn(Severity) -> bool| self.found.iter().filter(|(_, item)| is(item.severity)).count();
        let counts = [
            counted(count(&|severity| severity == Severity::Error), "error"),
            counted(count(&|severity| severity == Severity::Warning), "warning"),
            counted(count(&|severity| severity > Severity::Warning), "hint"),
        ];
        let unknown = match self.answers.len() - answered {
            0 => String::new(),
            unknown => format!("; no server has checked {unknown} more"),
        };
        // Neither is a file that a server could not check on save.
        let servers = &self.context.servers;
        let sources = self.on_save().filter(|(_, server)| servers.checks_saved(server));
        let sources: BTreeSet<&str> = sources.map(|(source, _)| source.as_str()).collect();
        let without = match sources.is_empty() {
            true => String::new(),
            false => format!(" without {}", sources.into_iter().collect::<Vec<_>>().join(" and ")),
        };
        format!("{} in {}{without}{unknown}", counts.join(", "), counted(known, "file"))
    }

    /// Renders the servers that answered, and those that did not.
    fn servers(&self) -> String {
        let answered = self.answers.iter().flat_map(|(_, answer)| answer.server.split(", "));
        let reported = self.reported.values().flat_map(|it| it.servers.iter().map(String::as_str));
        let answered: BTreeSet<&str> = answered.chain(reported).filter(|name| !name.is_empty()).collect();
        let pending: BTreeSet<&String> =
            self.answers.iter().flat_map(|(_, answer)| &answer.value.pending).collect();
        let pending: Vec<String> = pending.into_iter().map(|server| format!("{server} pending")).collect();
        let answered = answered.into_iter().collect::<Vec<_>>().join(", ");
        let parts: Vec<String> =
            [answered, pending.join(", ")].into_iter().filter(|part| !part.is_empty()).collect();
        if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
    }

    fn on_save(&self) -> impl Iterator<Item = &(String, String)> {
        self.answers.iter().flat_map(|(_, answer)| &answer.value.on_save)
    }

    /// Renders a message with its places and those related to it.
    fn row(&self, message: &str, places: &[&(usize, &Diagnostic)]) -> String {
        let place = |(file, item): &(usize, &Diagnostic)| {
            let (document, index) = &self.files[*file];
            (self.context.display_path(&document.path), index.line_of(item.range.start) + 1)
        };
        let [first, more @ ..] = places else { return String::new() };
        let (path, line) = place(first);
        let mut row = format!("{path}:{line}: {message}\n");
        let mut more: Vec<(String, usize)> = more.iter().map(|found| place(found)).collect();
        more.dedup();
        more.retain(|(other, at)| (other, *at) != (&path, line));
        let mut last = &path;
        for (at, (path, line)) in more.iter().take(MAX_PLACES).enumerate() {
            let before = if at == 0 { "    also at " } else { ", " };
            let name = if path == last { String::new() } else { format!("{path}:") };
            row.push_str(&format!("{before}{name}{line}"));
            last = path;
        }
        match more.len() {
            0 => {}
            1..=MAX_PLACES => row.push('\n'),
            count => row.push_str(&format!(" and {} more\n", count - MAX_PLACES)),
        }
        for related in first.1.related().into_iter().take(MAX_RELATED) {
            let message = related.message.replace('\n', " ");
            row.push_str(&format!(
                "    {}:{}: {message}\n",
                self.context.display_path(&related.path),
                related.line
            ));
        }
        row
    }

    /// Adds the lines of errors and warnings in the form that `edit` takes.
    fn push_lines<'b>(&self, text: &mut String, found: impl Iterator<Item = &'b (usize, &'b Diagnostic)>) {
        let mut lines: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (file, item) in found.filter(|(_, item)| item.severity <= Severity::Warning) {
            let (_, index) = &self.files[*file];
            lines.entry(*file).or_default().insert(index.line_of(item.range.start) + 1);
        }
        for (file, lines) in lines {
            let lines: Vec<usize> = lines.into_iter().collect();
            text.push_str(&truncate::lines(self.context, self.files[file].0, &lines, &[]));
        }
    }

    /// Renders a diagnostic for the details.
    fn entry(&self, number: usize, (file, item): &(usize, &Diagnostic)) -> Value {
        let (document, index) = &self.files[*file];
        let mut entry = json!({
            "path": self.context.display_path(&document.path), "line": index.line_of(item.range.start) + 1,
            "severity": item.severity.to_string(),
            "code": item.code, "source": item.source, "message": item.message,
        });
        if number < MAX_DETAILED {
            let place = |related: Related| json!({ "path": self.context.display_path(&related.path), "line": related.line, "message": related.message });
            entry["related"] = item.related().into_iter().map(place).collect();
            entry["tags"] = json!(item.tags());
            entry["page"] = json!(item.page());
        }
        entry
    }

    /// Adds notes, pending servers and failures; returns the last two by file.
    fn push_unknown(&self, text: &mut String) -> (Vec<String>, Vec<String>) {
        let (mut pending, mut failed) = (Vec::new(), Vec::new());
        // A reason that keeps a server from all its files is given once.
        let (mut reasons, mut noted) = (FilesByText::default(), FilesByText::default());
        for (document, answer) in self.answers {
            let path = self.context.display_path(&document.path);
            pending.extend(answer.value.pending.iter().map(|server| format!("{path}: {server}")));
            for reason in &answer.value.failed {
                let reason = notes::server_note(self.context, reason);
                failed.push(format!("{path}: {reason}"));
                reasons.add(reason, &path);
            }
            if let Some(note) = notes::render(self.context, &answer.notes) {
                noted.add(note, &path);
            }
        }
        noted.lines().for_each(|line| text.push_str(&format!("note: {line}\n")));
        if !pending.is_empty() {
            text.push_str(&format!("pending, so not known yet:\n  {}\n", pending.join("\n  ")));
        }
        if !failed.is_empty() {
            text.push_str("not known:\n");
            reasons.lines().for_each(|line| text.push_str(&format!("  {line}\n")));
        }
        (pending, failed)
    }

    /// Adds the files that were not checked.
    ///
    /// Also adds those checked only as a server reports on its whole workspace.
    fn push_unchecked(&self, text: &mut String) {
        let Unchecked { files, reason, without_server } = self.unchecked;
        if !self.reported.is_empty() {
            let servers: BTreeSet<&str> =
                self.reported.values().flat_map(|it| it.servers.iter().map(String::as_str)).collect();
            let servers = servers.into_iter().collect::<Vec<_>>().join(", ");
            text.push_str(&format!(
                "for {} only what {servers} reports on the whole project; name a `file` for all\n",
                counted(self.reported.len(), "file")
            ));
        }
        if !files.is_empty() {
            text.push_str(&format!(
                "not checked: {}: {reason} ({}); ask for fewer, or give a longer `timeout`\n",
                counted(files.len(), "more file"),
                named(self.context, files)
            ));
        }
        text.push_str(&missing_servers(self.context, without_server, ""));
    }
}

/// Distinct texts with the first file of each and the number of its files.
#[derive(Default)]
struct FilesByText(BTreeMap<String, (String, usize)>);

impl FilesByText {
    fn add(&mut self, text: String, file: &str) {
        self.0.entry(text).or_insert((file.to_owned(), 0)).1 += 1;
    }

    fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(text, (file, count))| match count {
            1 => format!("{file}: {text}"),
            more => format!("{file} and {}: {text}", counted(more - 1, "more file")),
        })
    }
}
