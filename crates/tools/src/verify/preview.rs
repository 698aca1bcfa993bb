//! Preview of an edit: diagnostics before it is made, and the user's policy about new errors (`edit.verify`,
//! `edit.verify_policy`).
//!
//! Covers only the servers that answered. An edit that could not be previewed says so and is made like any
//! other; it is verified afterwards as always.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use agent::ToolCx;
use lsp_client::{Checked, RequestCx, SpeculativeError, SpeculativeFile};
use paths::AbsPath;
use policy::ErrorCode;
use serde_json::{Value, json};
use workspace::{ChangeKind, ContentHash, Document, FileChange, Owner, Plan, Version};

use super::tally::Tally;
use super::{Baseline, Verdict};
use crate::notes::{render_not_tried, render_unknown};
use crate::{CommitRefusal, Failure, ToolContext};

/// Maximum number of new problems or files in a question to the user.
const MAX_NAMED: usize = 5;
/// Maximum number of characters of each problem.
const MAX_CHARACTERS: usize = 300;

/// The time at which an edit is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// After the edit is made.
    #[default]
    After,
    /// Also before the edit is made, by a preview.
    Before,
}

/// The policy for an edit with new errors in its preview.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VerifyPolicy {
    /// The edit is made, and the errors are reported.
    #[default]
    Report,
    /// The user is asked.
    Ask,
    /// The edit is refused.
    NoNewErrors,
}

/// A previewed plan.
pub(crate) struct Preview {
    pub plan: Plan,
    /// The report; empty if nothing was previewed.
    pub report: Verdict,
}

impl Baseline {
    /// Previews `plan`.
    ///
    /// `again`: the edit was planned again because its texts changed.
    ///
    /// # Errors
    /// [`CommitRefusal::Stale`] if it must be planned again; a failure if the policy refuses it, or the call was
    /// cancelled.
    pub async fn preview(
        &self,
        context: &ToolContext,
        plan: Plan,
        again: bool,
        cx: &ToolCx,
    ) -> Result<Preview, CommitRefusal> {
        let nothing = |plan| Ok(Preview { plan, report: Verdict::nothing() });
        if context.settings().verify == Verify::After {
            return nothing(plan);
        }
        let cold: Vec<String> = cold(context, &plan).iter().map(|path| context.display_path(path)).collect();
        let cold = (!cold.is_empty()).then(|| format!("no language server of {} runs yet", cold.join(", ")));
        if !plan.changes().iter().any(|change| context.servers.is_warm(&change.path)) {
            return match cold {
                Some(why) => Ok(Preview { plan, report: not_tried(&why) }),
                None => nothing(plan),
            };
        }
        let files = match preview_files(context, &plan) {
            Ok(files) => files,
            Err(why) => return Ok(Preview { plan, report: not_tried(&why) }),
        };
        let dependents: Vec<Document> = self
            .files
            .iter()
            .filter(|file| file.dependent)
            .filter_map(|file| context.workspace.document(&file.path).ok())
            .collect();
        let request = self.budget.clone();
        let request = request.unwrap_or_else(|| RequestCx::new(context.settings().verify_wait, &cx.cancel));
        let edited: Vec<AbsPath> = plan.changes().iter().map(|change| change.path.clone()).collect();
        let tried = context.servers.preview_edit(&files, &edited, &dependents, &request).await;
        if cx.cancel.is_cancelled() {
            let message = "cancelled before anything was written";
            return Err(CommitRefusal::Failed(Failure::new(ErrorCode::Cancelled, message)));
        }
        if tried.skipped.iter().any(|(_, why)| *why == SpeculativeError::Moved) {
            return if again {
                Ok(Preview { plan, report: not_tried("text moved") })
            } else {
                Err(CommitRefusal::Stale)
            };
        }
        let mut untried: Vec<(String, String)> = tried
            .skipped
            .into_iter()
            .map(|(server, why)| (server, render_not_tried(context, &why)))
            .collect();
        untried.extend(silent(context, &tried.files));
        let mut tally = Tally::new(&Self { replaced: self.replaced.clone(), ..Self::default() }, false);
        for before in &self.files {
            let Some(answers) = tried.files.get(&before.path) else { continue };
            let mut answers = answers.clone();
            answers.retain(|it| !is_silent(it));
            if answers.is_empty() {
                continue;
            }
            let after = files.iter().find(|file| file.document.path == before.path);
            let Ok(document) = after
                .map(|file| Ok(Document { text: Arc::clone(&file.text), ..file.document.clone() }))
                .unwrap_or_else(|| context.workspace.document(&before.path))
            else {
                continue;
            };
            tally.add(before, Some(&document), &answers);
        }
        let mut preview = decide(context, plan, tally, &untried)?;
        if let Some(why) = cold {
            preview.report.text.push_str(&format!("not tried: {why}\n"));
            if let Some(list) = preview.report.details["not_tried"].as_array_mut() {
                list.push(json!({ "server": Value::Null, "why": why }));
            }
        }
        Ok(preview)
    }
}

/// Whether a server was shown a file and gave no answer about it.
fn is_silent(checked: &Checked) -> bool {
    checked.known.is_err() && checked.disowned.is_none()
}

/// Servers without an answer about files they were shown, and the reason.
///
/// Names the files if the server answered for others.
fn silent(context: &ToolContext, files: &BTreeMap<AbsPath, Vec<Checked>>) -> Vec<(String, String)> {
    let mut silent: BTreeMap<&str, (String, Vec<String>)> = BTreeMap::new();
    let mut answered = BTreeSet::new();
    for (path, answers) in files {
        for it in answers {
            match &it.known {
                Err(why) if is_silent(it) => {
                    let row = silent
                        .entry(&it.server)
                        .or_insert_with(|| (render_unknown(context, why), Vec::new()));
                    row.1.push(context.display_path(path));
                }
                _ => drop(answered.insert(it.server.as_str())),
            }
        }
    }
    let row = |(server, (why, names)): (&str, (String, Vec<String>))| {
        let about = match answered.contains(server) {
            true => format!(", about {}", first(&names, ", ")),
            false => String::new(),
        };
        (server.to_owned(), format!("{why}{about}"))
    };
    silent.into_iter().map(row).collect()
}

/// The first items, and the number of the rest.
fn first(all: &[String], between: &str) -> String {
    let named = all.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(between);
    match all.len().saturating_sub(MAX_NAMED) {
        0 => named,
        more => format!("{named}{between}and {more} more"),
    }
}

/// Files of a plan whose language has a server that does not run.
fn cold(context: &ToolContext, plan: &Plan) -> Vec<AbsPath> {
    let changes = plan.changes().iter().filter(|change| change.after.is_some());
    let paths = changes.map(|change| &change.path);
    paths.filter(|path| !context.servers.is_warm(path) && context.servers.serves(path)).cloned().collect()
}

/// Starts the servers of a plan's files and lets them load.
///
/// Only if new errors are refused. A running server may be reloading its project.
pub(super) async fn warm_up(context: &ToolContext, plan: &Plan, request: &RequestCx) {
    if (context.settings().verify, context.settings().verify_policy)
        != (Verify::Before, VerifyPolicy::NoNewErrors)
    {
        return;
    }
    let written = plan.changes().iter().filter(|change| change.after.is_some()).map(|change| &change.path);
    for path in written {
        let is_warm = context.servers.is_warm(path);
        if request.left().is_zero() || !is_warm && !context.servers.serves(path) {
            continue;
        }
        let warmed = match context.workspace.document(path) {
            Ok(document) if !is_warm => context.servers.diagnostics(&document, request).await.map(drop),
            // A file that is created has no text yet.
            document => context.servers.load(path, document.ok().as_ref(), request).await,
        };
        if let Err(error) = warmed {
            tracing::debug!(%error, "no server of {path} is ready for a preview");
        }
    }
}

/// Applies the policy to the preview.
fn decide(
    context: &ToolContext,
    plan: Plan,
    tally: Tally,
    not_tried: &[(String, String)],
) -> Result<Preview, CommitRefusal> {
    let errors = tally.new_errors(context);
    let list: Vec<Value> =
        not_tried.iter().map(|(server, why)| json!({ "server": server, "why": why })).collect();
    let Verdict { text, mut details } = tally.verdict(context);
    let mut report = String::new();
    if !text.is_empty() {
        report.push_str(&format!("previewed before the edit:\n{text}"));
    }
    for (server, why) in not_tried {
        report.push_str(&format!("not tried on {server}: {why}\n"));
    }
    details["not_tried"] = json!(list);
    let report = Verdict { text: report, details };
    match context.settings().verify_policy {
        _ if errors.is_empty() => Ok(Preview { plan, report }),
        VerifyPolicy::Report => Ok(Preview { plan, report }),
        VerifyPolicy::Ask => {
            let errors: Vec<String> = errors.iter().map(|error| short(error)).collect();
            let line = format!("language servers find new errors: {}", first(&errors, "; "));
            Ok(Preview { plan: plan.confirming(line), report })
        }
        VerifyPolicy::NoNewErrors => {
            let message =
                format!("not applied, nothing was written: it would bring new errors\n{}", report.text);
            let failure = Failure::new(ErrorCode::NotApplied, message.trim_end().to_owned());
            Err(CommitRefusal::Failed(failure.with_data(json!({ "trial": report.details }))))
        }
    }
}

/// The beginning of a text that is too long for a question.
fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn not_tried(why: &str) -> Verdict {
    let text = format!("not tried: {why}\n");
    Verdict { text, details: json!({ "not_tried": [{ "server": Value::Null, "why": why }] }) }
}

/// The files that servers are shown; `Err`: why the plan cannot be shown.
fn preview_files(context: &ToolContext, plan: &Plan) -> Result<Vec<SpeculativeFile>, String> {
    let mut files = Vec::new();
    for change in plan.changes() {
        let Some(text) = change.after.clone().filter(|_| can_be_shown(change)) else {
            return Err("files are moved or deleted, which cannot be previewed".to_owned());
        };
        if !context.servers.is_warm(&change.path) {
            continue;
        }
        let created = change.kind == ChangeKind::Created;
        let document = match context.workspace.document(&change.path) {
            Ok(document) => Document { text: change.before.clone().unwrap_or_default(), ..document },
            Err(_) if created => Document {
                path: change.path.clone(),
                uri: paths::path_to_uri(change.path.as_path()),
                text: "".into(),
                bom: false,
                version: Version { hash: ContentHash::of(b""), editor: None },
                owner: Owner::Disk,
                blocked: None,
            },
            Err(error) => return Err(error.to_string()),
        };
        files.push(SpeculativeFile { document, text, created });
    }
    Ok(files)
}

fn can_be_shown(change: &FileChange) -> bool {
    matches!(change.kind, ChangeKind::Modified | ChangeKind::Created)
}
