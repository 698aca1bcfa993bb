//! What an edit broke or mended: diagnostics before, diagnostics after, and the difference.
//!
//! Only servers that are already running are asked, within the time an edit may wait; what is not
//! known by then is `pending`, never `clean`.

use std::ops::Range;

use agent::ToolCx;
use lsp_client::{Diagnostic, RequestCx, Severity};
use serde_json::{Value, json};
use text::{LineIndex, TextEdit, map_range};
use tokio::time::Instant;
use workspace::{AbsPath, ChangeKind, Document, Plan};

use crate::lsp::headline;
use crate::{Kit, counted};

/// At most this many files are compared.
const MAX_FILES: usize = 20;
/// At most this many new diagnostics are listed.
const MAX_LISTED: usize = 20;

/// What was known of each file before the edit.
pub(crate) struct Baseline {
    files: Vec<Before>,
    unchecked: usize,
}

struct Before {
    /// Where the file will be.
    path: AbsPath,
    text: std::sync::Arc<str>,
    edits: Vec<TextEdit>,
    /// `None` when it was not known in time.
    diagnostics: Option<Vec<Diagnostic>>,
}

/// What became of one file since `before` was known of it, whoever changed it; of `unchecked` others
/// nothing is known.
pub(crate) async fn since(
    kit: &Kit,
    document: &Document,
    before: Option<Vec<Diagnostic>>,
    unchecked: usize,
    cx: &ToolCx,
) -> Verdict {
    let now = kit.workspace.document(&document.path).map(|now| now.text);
    let kept =
        |items: Vec<Diagnostic>| items.into_iter().filter(|it| it.severity <= Severity::Warning).collect();
    let file = Before {
        path: document.path.clone(),
        text: document.text.clone(),
        edits: now.map(|now| text::diff_edits(&document.text, &now)).unwrap_or_default(),
        diagnostics: before.map(kept),
    };
    Baseline { files: vec![file], unchecked }.compared(kit, cx).await
}

/// The difference, as text and for programs.
pub(crate) struct Verdict {
    pub text: String,
    pub details: Value,
}

#[derive(Default)]
struct Tally {
    new: Vec<(AbsPath, usize, Diagnostic)>,
    fixed: usize,
    compared: usize,
    pending: usize,
    servers: Vec<String>,
}

impl Baseline {
    /// Diagnostics of the files that `plan` changes, before it is committed.
    pub async fn take(kit: &Kit, plan: &Plan, cx: &ToolCx) -> Self {
        let ends = Instant::now() + kit.settings.diagnostics_wait;
        let mut files = Vec::new();
        let mut unchecked = 0;
        for change in plan.changes() {
            let from = match &change.kind {
                ChangeKind::Renamed { from } => from,
                _ => &change.path,
            };
            if change.after.is_none() || !kit.servers.is_warm(from) {
                continue;
            }
            if files.len() == MAX_FILES {
                unchecked += 1;
                continue;
            }
            let diagnostics = match kit.workspace.document(from) {
                Ok(document) => ask(kit, &document, ends, cx).await.map(|(diagnostics, _)| diagnostics),
                Err(_) => Some(Vec::new()),
            };
            files.push(Before {
                path: change.path.clone(),
                text: change.before.clone().unwrap_or_default(),
                edits: change.edits.clone(),
                diagnostics,
            });
        }
        Self { files, unchecked }
    }

    /// The same files after the commit.
    pub async fn compare(self, kit: &Kit, plan: &Plan, cx: &ToolCx) -> Verdict {
        if plan.is_empty() {
            return Verdict { text: String::new(), details: Value::Null };
        }
        self.compared(kit, cx).await
    }

    async fn compared(self, kit: &Kit, cx: &ToolCx) -> Verdict {
        let ends = Instant::now() + kit.settings.diagnostics_wait;
        let mut tally = Tally::default();
        for before in &self.files {
            let after = match kit.workspace.document(&before.path) {
                Ok(document) => {
                    ask(kit, &document, ends, cx).await.map(|(found, servers)| (document, found, servers))
                }
                Err(_) => None,
            };
            let (Some(old), Some((document, new, servers))) = (&before.diagnostics, after) else {
                tally.pending += 1;
                continue;
            };
            tally.compared += 1;
            for server in servers {
                if !tally.servers.contains(&server) {
                    tally.servers.push(server);
                }
            }
            let (introduced, fixed) = difference(&before.text, &before.edits, old, &document.text, new);
            tally.fixed += fixed.len();
            let index = LineIndex::new(&document.text);
            tally.new.extend(introduced.into_iter().map(|item| {
                let line = index.line_of(item.range.start) + 1;
                (before.path.clone(), line, item)
            }));
        }
        let none_served = self.files.is_empty() && self.unchecked == 0;
        if none_served {
            return Verdict { text: String::new(), details: Value::Null };
        }
        tally.verdict(kit, self.unchecked)
    }
}

/// Errors and warnings of a document, and who was asked; `None` when they are not known in time.
async fn ask(
    kit: &Kit,
    document: &Document,
    ends: Instant,
    cx: &ToolCx,
) -> Option<(Vec<Diagnostic>, Vec<String>)> {
    let deadline = ends.checked_duration_since(Instant::now())?;
    let request = RequestCx { deadline, cancel: cx.cancel.clone() };
    let answer = kit.servers.diagnostics(document, &request).await.ok()?;
    if !answer.value.pending.is_empty() || !answer.value.failed.is_empty() {
        return None;
    }
    let kept = answer.value.items.into_iter().filter(|item| item.severity <= Severity::Warning).collect();
    Some((kept, answer.server.split(", ").map(str::to_owned).collect()))
}

/// Diagnostics that are new, and those that are gone. Equal messages whose ranges map onto each other
/// are the same; one whose range was edited is the same as one of its kind on the mapped line.
pub(crate) fn difference<'a>(
    old_text: &str,
    edits: &[TextEdit],
    old: &'a [Diagnostic],
    new_text: &str,
    new: Vec<Diagnostic>,
) -> (Vec<Diagnostic>, Vec<&'a Diagnostic>) {
    let mut left: Vec<&Diagnostic> = old.iter().collect();
    let mut rest = Vec::new();
    for item in new {
        let same = left.iter().position(|before| {
            before.message == item.message
                && before.code == item.code
                && moved(&before.range, edits) == Some(item.range.clone())
        });
        match same {
            Some(at) => {
                left.swap_remove(at);
            }
            None => rest.push(item),
        }
    }
    let (old_lines, new_lines) = (LineIndex::new(old_text), LineIndex::new(new_text));
    let line_now = |range: &Range<usize>| {
        let start = old_lines.line_with_end(old_lines.line_of(range.start)).unwrap_or_default().start;
        moved(&(start..start), edits).map(|range| new_lines.line_of(range.start))
    };
    let mut introduced = Vec::new();
    for item in rest {
        let line = new_lines.line_of(item.range.start);
        let same = left.iter().position(|before| {
            before.code == item.code
                && before.source == item.source
                && before.severity == item.severity
                && line_now(&before.range) == Some(line)
        });
        match same {
            Some(at) => {
                left.swap_remove(at);
            }
            None => introduced.push(item),
        }
    }
    (introduced, left)
}

fn moved(range: &Range<usize>, edits: &[TextEdit]) -> Option<Range<usize>> {
    map_range(range.clone(), edits)
}

impl Tally {
    fn verdict(self, kit: &Kit, unchecked: usize) -> Verdict {
        let files = |count: usize| counted(count, "file");
        let mut lines = Vec::new();
        let by = self.servers.join(", ");
        if self.compared > 0 {
            let errors = self.new.iter().filter(|(_, _, item)| item.severity == Severity::Error).count();
            let warnings = self.new.len() - errors;
            lines.push(match (errors, warnings) {
                (0, 0) => format!("no new errors or warnings in {} ({by})", files(self.compared)),
                (errors, warnings) => {
                    format!(
                        "introduced: {errors} errors, {warnings} warnings in {} ({by})",
                        files(self.compared)
                    )
                }
            });
            for (path, line, item) in self.new.iter().take(MAX_LISTED) {
                lines.push(format!("  {}:{line}: {}", kit.shown(path), headline(item)));
            }
            if self.new.len() > MAX_LISTED {
                lines.push(format!("  and {} more", self.new.len() - MAX_LISTED));
            }
            if self.fixed > 0 {
                lines.push(format!("fixed: {}", self.fixed));
            }
        }
        if self.pending > 0 {
            lines.push(format!("diagnostics pending for {}: not known within the wait", files(self.pending)));
        }
        if unchecked > 0 {
            lines.push(format!("diagnostics not checked for {}", files(unchecked)));
        }
        let new: Vec<Value> = self
            .new
            .iter()
            .map(|(path, line, item)| {
                json!({ "path": kit.shown(path), "line": line, "severity": item.severity.to_string(), "code": item.code, "message": item.message })
            })
            .collect();
        let details = json!({
            "introduced": new, "fixed": self.fixed, "compared": self.compared, "pending": self.pending,
            "not_checked": unchecked, "servers": self.servers,
        });
        Verdict { text: lines.iter().map(|line| format!("{line}\n")).collect(), details }
    }
}
