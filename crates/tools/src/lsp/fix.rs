//! `fix_all`: fixes that a server prefers, verified before they are applied.
//!
//! The action uses only code actions below `source.fixAll` and preferred quick fixes, never one that
//! suppresses a message. It shows each fix to the servers first, and keeps it only if its problem is gone and
//! no new one appears. Then it applies all kept fixes as one edit.
//!
//! Invariants: a fix that could not be verified is not applied, and is counted.

use std::ops::Range;

use agent::ToolResult;
use futures_util::future::BoxFuture;
use lsp_client::{ActionQuery, CodeAction, Diagnostic, RequestCx, ServerError, Severity};
use serde::Deserialize;
use serde_json::json;
use text::TextEdit;
use workspace::{ContentHash, Document, Operation, Version, WorkspaceEdit};

use super::action::{ActionGroup, ActionSpec, Call, Effect, Takes};
use super::diagnostics::{self, FileNames};
use crate::change::{self, Change, Proposal};
use crate::search::remap;
use crate::search::target::{self, Place};
use crate::verify::{Same, difference};
use crate::{Failure, ToolContext, counted, notes};

/// Maximum number of problems of a file that are tried one by one.
const MAX_TRIED: usize = 60;
/// Maximum number of rounds per file, since a fix may uncover another problem.
const ROUNDS: usize = 4;
/// Maximum number of remaining problems in the text.
const MAX_LISTED: usize = 20;

/// The kept fixes of one file, and its remaining problems.
struct Outcome {
    document: Document,
    /// Text of the file with the kept fixes.
    text: String,
    fixed: usize,
    reverted: usize,
    left: Vec<Diagnostic>,
    /// Reason why no fix was tried.
    unknown: Option<String>,
    servers: String,
}

/// The text being fixed, and its diagnostics.
struct FixAttempt<'a> {
    context: &'a ToolContext,
    request: &'a RequestCx,
    document: Document,
    items: Vec<Diagnostic>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub(super) enum FixAction {
    FixAll(FixAll),
}

/// The selection of problems that the action fixes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FixAll {
    files: Vec<String>,
    #[serde(flatten)]
    place: Place,
    kind: Option<String>,
    apply: Option<bool>,
}

impl ActionGroup for FixAction {
    const ACTIONS: &'static [ActionSpec] =
        &[ActionSpec { name: "fix_all", takes: Takes::Together, effect: Effect::Edits }];

    fn run<'a>(self, call: &'a Call<'a>) -> BoxFuture<'a, Result<ToolResult, Failure>> {
        let Self::FixAll(args) = self;
        Box::pin(async move { fix_all(call, &args).await })
    }
}

async fn fix_all(call: &Call<'_>, args: &FixAll) -> Result<ToolResult, Failure> {
    let Call { context, cx, request, .. } = call;
    let named = FileNames { file: args.place.file.clone(), files: args.files.clone() };
    let (documents, others) = diagnostics::documents(context, &named, cx)?;
    let unchecked = others.len();
    let mut outcomes = Vec::new();
    for document in documents {
        let outcome = fix(context, args, &document, request).await;
        // Show the servers the real text again, also after a failure.
        context.servers.show(&document, &request.restarted()).await;
        outcomes.push(outcome?);
    }
    let label = match args.kind.as_deref() {
        Some(kind) => format!("fix all of {kind}"),
        None => "fix all".to_owned(),
    };
    let fixed: usize = outcomes.iter().map(|it| it.fixed).sum();
    let reverted: usize = outcomes.iter().map(|it| it.reverted).sum();
    let left: usize = outcomes.iter().map(|it| it.left.len()).sum();
    let counts = format!("fixed {fixed}, left {left}, reverted {reverted}");
    let mut text = format!("{label}: {counts}\n");
    let mut details = json!({ "files": [] });
    if fixed > 0 {
        let operations = || -> Vec<Operation> {
            let changed = outcomes.iter().filter(|it| *it.document.text != *it.text);
            changed
                .map(|it| Operation::Edit {
                    path: it.document.path.clone(),
                    expected: it.document.version,
                    edits: text::diff_edits(&it.document.text, &it.text),
                })
                .collect()
        };
        let mut servers: Vec<&str> =
            outcomes.iter().flat_map(|it| it.servers.split(", ")).filter(|it| !it.is_empty()).collect();
        servers.sort_unstable();
        servers.dedup();
        let servers = servers.join(", ");
        let change = Change { label: &label, places: false, apply: args.apply != Some(false) };
        let done = change::apply(context, cx, change, |_| {
            let edit = WorkspaceEdit { operations: operations(), ..WorkspaceEdit::default() };
            Box::pin(async { Ok(Proposal { edit, server: Some(servers.clone()), ..Proposal::default() }) })
        })
        .await?;
        text.push_str(&done.text);
        details = done.details;
    }
    let left_items = outcomes.iter().flat_map(|it| it.left.iter().map(move |item| (it, item)));
    for (outcome, item) in left_items.take(MAX_LISTED) {
        let place = format!("{}:{}", context.display_path(&outcome.document.path), item.line);
        text.push_str(&format!("  left: {place}: {}\n", notes::headline(item)));
    }
    if left > MAX_LISTED {
        text.push_str(&format!("  … and {} more left\n", left - MAX_LISTED));
    }
    let unknown: Vec<String> = outcomes
        .iter()
        .filter_map(|it| {
            Some(format!("{}: {}", context.display_path(&it.document.path), it.unknown.as_ref()?))
        })
        .collect();
    if !unknown.is_empty() {
        text.push_str(&format!("diagnostics unknown, so no fix was tried:\n  {}\n", unknown.join("\n  ")));
    }
    if unchecked > 0 {
        text.push_str(&format!("not checked: {}; name them as `files`\n", counted(unchecked, "more file")));
    }
    details["fixed"] = json!(fixed);
    details["left"] = json!(left);
    details["reverted"] = json!(reverted);
    details["unknown"] = json!(unknown);
    let result = ToolResult::text(text).with_details(details);
    Ok(result)
}

async fn fix(
    context: &ToolContext,
    args: &FixAll,
    document: &Document,
    request: &RequestCx,
) -> Result<Outcome, Failure> {
    let (document, place) = remap::document(context, &context.display_path(&document.path), &args.place)?;
    let (document, place) = (&document, &*place);
    let mut outcome = Outcome {
        document: document.clone(),
        text: document.text.to_string(),
        fixed: 0,
        reverted: 0,
        left: Vec::new(),
        unknown: None,
        servers: String::new(),
    };
    let answer = match context.servers.diagnostics(document, request).await {
        Ok(answer) => answer,
        Err(ServerError::Cancelled) => return Err(ServerError::Cancelled.into()),
        Err(error) => {
            outcome.unknown = Some(error.to_string());
            return Ok(outcome);
        }
    };
    context.pending.learn_all(document, &answer.value, &context.servers);
    if !answer.value.pending.is_empty() || !answer.value.failed.is_empty() {
        let failed = answer.value.failed.iter().map(|note| notes::server_note(context, note));
        let servers: Vec<String> = answer.value.pending.into_iter().chain(failed).collect();
        outcome.unknown = Some(format!("diagnostics are pending from {}", servers.join(", ")));
        return Ok(outcome);
    }
    outcome.servers = answer.server;
    let mut attempt = FixAttempt { context, request, document: document.clone(), items: answer.value.items };
    let range = target::range(context, document, place)?;
    // With the line break: something missing at the end of a line is reported there.
    let line = place.line.map(|line| target::line(document, line)).transpose()?;
    let line = line.map(|line| line.start..line.end + 1);
    // Places move with earlier fixes; a problem is identified by its message.
    let meant: Vec<Diagnostic> = attempt
        .items
        .iter()
        .filter(|item| args.kind.as_deref().is_none_or(|kind| is_of(item, kind)))
        .filter(|item| {
            let within = |range: &Range<usize>| {
                item.range.start < range.end.max(range.start + 1) && range.start <= item.range.end
            };
            range.as_ref().is_none_or(within) && line.as_ref().is_none_or(within)
        })
        .cloned()
        .collect();
    let everything = args.kind.is_none() && range.is_none() && line.is_none();
    if everything {
        outcome.reverted += attempt.whole_file().await?;
    }
    let mut tried: Vec<Diagnostic> = Vec::new();
    for _ in 0..ROUNDS {
        let targets = attempt.targets(&meant, everything, &tried);
        if targets.is_empty() || tried.len() >= MAX_TRIED {
            break;
        }
        outcome.reverted += attempt.round(&targets, &mut tried).await?;
    }
    // Equal problems are matched one to one.
    let mut open: Vec<&Diagnostic> = meant.iter().collect();
    let mut left = Vec::new();
    for item in &attempt.items {
        let known = open.iter().position(|it| alike(it, item));
        if let Some(at) = known {
            open.swap_remove(at);
        }
        if known.is_some() || everything {
            left.push(item.clone());
        }
    }
    outcome.fixed = open.len();
    outcome.left = left;
    outcome.text = attempt.document.text.to_string();
    Ok(outcome)
}

impl FixAttempt<'_> {
    /// Finds the selected problems that were not tried yet, at their current places.
    fn targets(&self, meant: &[Diagnostic], everything: bool, tried: &[Diagnostic]) -> Vec<Diagnostic> {
        let wanted = |item: &&Diagnostic| {
            let again = tried.iter().any(|it| alike(it, item) && it.line == item.line);
            (everything || meant.iter().any(|it| alike(it, item))) && !again
        };
        self.items.iter().filter(wanted).take(MAX_TRIED).cloned().collect()
    }

    /// Applies the servers' own `source.fixAll`; returns the number of reverted ones.
    async fn whole_file(&mut self) -> Result<usize, Failure> {
        let mut reverted = 0;
        let mut done: Vec<(String, String)> = Vec::new();
        loop {
            let query = ActionQuery {
                range: 0..self.document.text.len(),
                only: &["source.fixAll"],
                diagnostics: &self.items,
            };
            let actions = self.actions(&query).await?;
            let next = actions.into_iter().find(|it| !done.contains(&(it.server.clone(), it.title.clone())));
            let Some(action) = next else { return Ok(reverted) };
            done.push((action.server.clone(), action.title.clone()));
            let Some(edits) = self.edits_of(&action).await? else { continue };
            if !self.keeps(&edits, None).await? {
                reverted += 1;
            }
        }
    }

    /// Tries quick fixes for `targets`.
    ///
    /// First all at once where they do not overlap, then one by one.
    async fn round(&mut self, targets: &[Diagnostic], tried: &mut Vec<Diagnostic>) -> Result<usize, Failure> {
        let mut fixes: Vec<(Diagnostic, Vec<TextEdit>)> = Vec::new();
        for target in targets {
            match self.fix_of(target).await? {
                Some(edits) => fixes.push((target.clone(), edits)),
                None => tried.push(target.clone()),
            }
        }
        let mut together: Vec<TextEdit> = Vec::new();
        let mut members: Vec<&Diagnostic> = Vec::new();
        for (target, edits) in &fixes {
            let joined: Vec<TextEdit> = together.iter().chain(edits).cloned().collect();
            if text::normalize(&self.document.text, &joined).is_ok() {
                together = joined;
                members.push(target);
            }
        }
        if members.len() > 1 && self.keeps(&together, Some(&members)).await? {
            return Ok(0);
        }
        let mut reverted = 0;
        for (target, _) in fixes {
            // Fixes kept meanwhile may have moved it, or fixed it too.
            let now = self.items.iter().find(|item| alike(item, &target)).cloned();
            let Some(now) = now else { continue };
            let Some(edits) = self.fix_of(&now).await? else {
                tried.push(now);
                continue;
            };
            if !self.keeps(&edits, Some(&[&now])).await? {
                reverted += 1;
                tried.push(now);
            }
        }
        Ok(reverted)
    }

    async fn actions(&self, query: &ActionQuery<'_>) -> Result<Vec<CodeAction>, Failure> {
        match self.context.servers.code_actions(&self.document, query, self.request).await {
            Ok(answer) => Ok(answer.value),
            Err(ServerError::Cancelled) => Err(ServerError::Cancelled.into()),
            Err(error) => {
                tracing::debug!(%error, "the server sent no code actions");
                Ok(Vec::new())
            }
        }
    }

    /// Finds the preferred fix for a problem, if it may be tried.
    async fn fix_of(&self, target: &Diagnostic) -> Result<Option<Vec<TextEdit>>, Failure> {
        let query = ActionQuery {
            range: target.range.clone(),
            only: &["quickfix"],
            diagnostics: std::slice::from_ref(target),
        };
        for action in self.actions(&query).await? {
            if action.preferred
                && action.fixes(target) != Some(false)
                && let Some(edits) = self.edits_of(&action).await?
            {
                return Ok(Some(edits));
            }
        }
        Ok(None)
    }

    /// Returns the edits of an action that fixes only this file.
    ///
    /// `None` if the action changes other files or suppresses a message.
    async fn edits_of(&self, action: &CodeAction) -> Result<Option<Vec<TextEdit>>, Failure> {
        if action.disabled.is_some() || action.is_command || suppresses_by_title(&action.title) {
            return Ok(None);
        }
        let resolved = match self.context.servers.resolve_action(&self.document, action, self.request).await {
            Ok(resolved) => resolved,
            Err(ServerError::Cancelled) => return Err(ServerError::Cancelled.into()),
            Err(error) => {
                tracing::debug!(%error, "a code action cannot be resolved");
                return Ok(None);
            }
        };
        let (Some(edit), None) = (resolved.edit, resolved.command) else { return Ok(None) };
        if !edit.confirm.is_empty() {
            return Ok(None);
        }
        Ok(match &edit.operations[..] {
            [Operation::Edit { path, edits, .. }] if *path == self.document.path => {
                (!suppresses(&self.document.text, edits)).then(|| edits.clone())
            }
            _ => None,
        })
    }

    /// Shows the servers the text with `edits`, and keeps it if it is better.
    ///
    /// It is better if all of `targets` are gone (without targets: any diagnostic is), and none is new.
    async fn keeps(&mut self, edits: &[TextEdit], targets: Option<&[&Diagnostic]>) -> Result<bool, Failure> {
        let Ok(edits) = text::normalize(&self.document.text, edits) else { return Ok(false) };
        let Ok(after) = text::apply(&self.document.text, &edits) else { return Ok(false) };
        let tried = with_text(&self.document, after);
        let answer = match self.context.servers.diagnostics(&tried, self.request).await {
            Ok(answer) if answer.value.pending.is_empty() && answer.value.failed.is_empty() => answer.value,
            Err(ServerError::Cancelled) => return Err(ServerError::Cancelled.into()),
            // A fix without complete diagnostics is not kept.
            _ => return Ok(false),
        };
        let (old_text, old, items) = (&self.document.text, &self.items, answer.items.clone());
        // A server may give one edit for half of the file, which would lose all places.
        let edits = text::diff_edits(old_text, &tried.text);
        let (new, gone) = difference(old_text, &edits, old, &tried.text, items, Same::Rule);
        let harmless = new.iter().all(|item| item.severity == Severity::Hint);
        let same = |a: &Diagnostic, b: &Diagnostic| a.raw == b.raw && a.server == b.server;
        let is_fixed = match targets {
            Some(targets) => targets.iter().all(|target| gone.iter().any(|it| same(it, target))),
            None => !gone.is_empty(),
        };
        if !(harmless && is_fixed) {
            return Ok(false);
        }
        self.document = tried;
        self.items = answer.items;
        Ok(true)
    }
}

fn with_text(document: &Document, text: String) -> Document {
    let mut bytes = if document.bom { "\u{feff}".as_bytes().to_vec() } else { Vec::new() };
    bytes.extend(text.as_bytes());
    let version = Version { hash: ContentHash::of(&bytes), editor: None };
    Document { text: text.into(), version, ..document.clone() }
}

/// Whether a diagnostic matches `kind`: its code, its source, or its severity.
fn is_of(item: &Diagnostic, kind: &str) -> bool {
    let matches_kind =
        |text: &Option<String>| text.as_ref().is_some_and(|text| text.eq_ignore_ascii_case(kind));
    let severity = item.severity.to_string();
    matches_kind(&item.code)
        || matches_kind(&item.source)
        || kind.eq_ignore_ascii_case(&severity)
        || kind.eq_ignore_ascii_case(&format!("{severity}s"))
}

/// Whether two diagnostics report the same problem, at any place.
fn alike(a: &Diagnostic, b: &Diagnostic) -> bool {
    a.code == b.code && a.message == b.message && a.server == b.server
}

/// Whether a fix only suppresses a message, by its title.
fn suppresses_by_title(title: &str) -> bool {
    let title = title.to_lowercase();
    let words = ["disable", "suppress", "ignore", "silence", "noqa", "expect-error"];
    words.iter().any(|word| title.contains(word))
}

/// Whether edits insert a comment or an attribute that suppresses a message.
fn suppresses(text: &str, edits: &[TextEdit]) -> bool {
    const MARKS: [&str; 18] = [
        "noqa",
        "type: ignore",
        "type:ignore",
        "pyright: ignore",
        "pyright:ignore",
        "pylint: disable",
        "ty: ignore",
        "eslint-disable",
        "@ts-ignore",
        "@ts-expect-error",
        "@ts-nocheck",
        "biome-ignore",
        "[allow(",
        "[expect(",
        "NOLINT",
        "nolint",
        "SuppressWarnings",
        "pragma warning",
    ];
    let more = |edit: &TextEdit, mark: &str| {
        let before = text.get(edit.range.clone()).unwrap_or_default();
        edit.new_text.matches(mark).count() > before.matches(mark).count()
    };
    edits.iter().any(|edit| MARKS.iter().any(|mark| more(edit, mark)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixes_that_suppress_messages_are_recognized() {
        let insert = |new: &str| suppresses("import os\n", &[TextEdit::insert(9, new)]);
        assert!(insert("  # noqa: F401") && insert(" # pyright: ignore[x]"));
        assert!(!insert(", sys"));
        assert!(!suppresses("a # noqa\n", &[TextEdit::replace(0..8, "b # noqa")]));
        assert!(
            suppresses_by_title("Disable no-var for this line")
                && !suppresses_by_title("Remove unused import")
        );
    }
}
