//! Pipeline from a proposed edit to committed files.
//!
//! It plans, permits and commits the edit, notifies servers, and compares diagnostics. Tools change files
//! only through it.

use std::sync::Arc;
use std::time::Duration;

use agent::{ToolCx, ToolResult};
use futures_util::future::BoxFuture;
use lsp_client::RequestCx;
use paths::AbsPath;
use policy::ErrorCode;
use refactor::Mentions;
use serde_json::{Value, json};
use workspace::{ChangeKind, Commit, CommitError, FileChange, Plan, PlanError, WorkspaceEdit};

use crate::notes::mentions_left;
use crate::verify::{Baseline, Preview, Verdict, Verify};
use crate::{CommitRefusal, Failure, ToolContext, counted, display};

/// Time limit of `willCreateFiles` and `willDeleteFiles`.
const SERVER_EDITS_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of lines of a diff in a result; the result counts the rest.
const MAX_DIFF_LINES: usize = 200;

/// The options with which a change is applied and reported.
pub(crate) struct Change<'a> {
    /// One line that names the change for the user.
    pub label: &'a str,
    /// Whether the report counts places (a rename) rather than lines.
    pub places: bool,
    /// Whether to apply the change, or only show it.
    pub apply: bool,
}

/// A proposed edit with its origin.
#[derive(Default)]
pub(crate) struct Proposal {
    pub edit: WorkspaceEdit,
    /// The language server that proposes the edit.
    pub server: Option<String>,
    /// A note about the known limits of the edit.
    pub note: Option<String>,
    /// The old name of a rename, and the files that contained it.
    pub mentions: Option<(String, Mentions)>,
    /// A label in place of that of the [`Change`], known with the edit.
    pub label: Option<String>,
}

/// Report of a change that was applied, or only shown.
pub(crate) struct Applied {
    pub text: String,
    pub details: Value,
}

impl From<Applied> for ToolResult {
    fn from(done: Applied) -> Self {
        ToolResult::text(done.text).with_details(done.details)
    }
}

/// Applies the edit of `propose`.
///
/// If files change between plan and commit, calls `propose` once more, with `true`, since the user may have
/// answered questions meanwhile. A second time the change is refused.
pub(crate) async fn apply<'a>(
    context: &'a ToolContext,
    cx: &ToolCx,
    change: Change<'_>,
    propose: impl Fn(bool) -> BoxFuture<'a, Result<Proposal, Failure>> + Send + Sync,
) -> Result<Applied, Failure> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let Proposal { mut edit, server, note, mentions, label } = propose(attempts > 1).await?;
        let change = Change { label: label.as_deref().unwrap_or(change.label), ..change };
        edit.label = change.label.to_owned();
        let plan = match context.workspace.plan(edit) {
            Err(PlanError::Stale { .. }) if attempts == 1 => continue,
            plan => plan?,
        };
        if plan.is_empty() {
            return Ok(unchanged(&change, server.as_deref(), note.as_deref()));
        }
        let summary = summary(context, &plan, &change, server.as_deref());
        if !change.apply {
            let note = note.map(|note| format!("note: {note}\n")).unwrap_or_default();
            let text = format!(
                "not applied: {summary}\n{note}{}",
                truncate_diff(&plan.diff(context.workspace.root()))
            );
            return Ok(Applied { text, details: details(context, &plan, None) });
        }
        let committed = commit(context, cx, plan, attempts > 1).await;
        let Committed { commit, plan, verdict } = match committed {
            Err(CommitRefusal::Stale) if attempts == 1 => continue,
            other => other?,
        };
        let mut text = format!("{summary}\n");
        for line in note.iter().map(|note| format!("note: {note}")).chain(commit.notes.iter().cloned()) {
            text.push_str(&format!("{line}\n"));
        }
        if let Some((old_name, mentions)) = &mentions {
            text.push_str(&mentions_left(context, old_name, mentions, &plan));
        }
        text.push_str(&verdict.text);
        return Ok(Applied { text, details: details(context, &plan, Some((&commit, verdict.details))) });
    }
}

fn unchanged(change: &Change<'_>, server: Option<&str>, note: Option<&str>) -> Applied {
    let by = server.map(|server| format!(" according to {server}")).unwrap_or_default();
    let note = note.map(|note| format!(" ({note})")).unwrap_or_default();
    Applied {
        text: format!("{}: nothing to change{by}{note}\n", change.label),
        details: json!({ "files": [] }),
    }
}

/// A plan after its commit, with its effects on diagnostics.
pub(crate) struct Committed {
    pub commit: Arc<Commit>,
    pub plan: Plan,
    pub verdict: Verdict,
}

/// Permits and commits `plan`, and compares the diagnostics before and after.
///
/// Updates servers and snapshots.
///
/// With `edit.verify = "before"` servers check the edit first. `again`: this is the second attempt.
pub(crate) async fn commit(
    context: &ToolContext,
    cx: &ToolCx,
    plan: Plan,
    again: bool,
) -> Result<Committed, CommitRefusal> {
    let cancelled = || {
        let message = "cancelled; nothing was written";
        CommitRefusal::Failed(Failure::new(ErrorCode::Cancelled, message))
    };
    let denied = |denied: policy::Denied| CommitRefusal::Failed(denied.into());
    let (plan, server_edits) = with_server_edits(context, cx, plan).await;
    let (plan, permit, baseline, preview) = match context.settings().verify {
        Verify::After => {
            let permit = cx.permit(&plan).await.map_err(denied)?;
            let baseline = Baseline::take(context, &plan, cx).await;
            (plan, permit, baseline, Verdict::nothing())
        }
        // The preview comes first, so that the user is asked once and sees its result.
        Verify::Before => {
            let baseline = Baseline::take(context, &plan, cx).await;
            let Preview { plan, report } = baseline.preview(context, plan, again, cx).await?;
            let permit = cx.permit(&plan).await.map_err(denied)?;
            (plan, permit, baseline, report)
        }
    };
    if cx.cancel.is_cancelled() {
        return Err(cancelled());
    }
    let commit =
        context.workspace.commit(plan.clone(), permit, &cx.run).await.map_err(|error| match error {
            CommitError::Moved { .. } => CommitRefusal::Stale,
            error => CommitRefusal::Failed(error.into()),
        })?;
    context.servers.did_commit(&commit).await;
    display::sync_snapshots(context, &plan);
    let mut verdict = baseline.compare(context, cx).await;
    verdict.text.insert_str(0, &server_edits);
    if !preview.text.is_empty() {
        verdict.text.insert_str(0, &preview.text);
        verdict.details = match verdict.details {
            Value::Object(mut details) => {
                details.insert("tried".to_owned(), preview.details);
                Value::Object(details)
            }
            _ => json!({ "tried": preview.details }),
        };
    }
    Ok(Committed { commit, plan, verdict })
}

/// Adds the edits that servers request for created and deleted files.
///
/// Returns a report of them.
///
/// A failure here never prevents the edit.
async fn with_server_edits(context: &ToolContext, cx: &ToolCx, plan: Plan) -> (Plan, String) {
    let files_of_kind = |kind: ChangeKind| -> Vec<AbsPath> {
        let files = plan.changes().iter().filter(|change| change.kind == kind);
        files.map(|change| change.path.clone()).collect()
    };
    let (created, deleted) = (files_of_kind(ChangeKind::Created), files_of_kind(ChangeKind::Deleted));
    if created.is_empty() && deleted.is_empty() {
        return (plan, String::new());
    }
    let request = RequestCx::new(SERVER_EDITS_TIMEOUT, &cx.cancel);
    // A cancelled call applies nothing at all.
    let Ok(requested) = context.servers.will_change(&created, &deleted, &request).await else {
        return (plan, String::new());
    };
    let (mut plan, mut report) = (plan, String::new());
    for (server, edit) in requested.edits {
        let additional = match context.workspace.plan(edit) {
            Ok(additional) => additional,
            Err(error) => {
                report.push_str(&format!("note: left out edits of {server}: {error}\n"));
                continue;
            }
        };
        let files: Vec<String> =
            additional.changes().iter().map(|it| context.display_path(&it.path)).collect();
        match plan.clone().and_edits(additional) {
            Ok(both) => {
                plan = both;
                report.push_str(&format!("also changed for {server}: {}\n", files.join(", ")));
            }
            Err(path) => report.push_str(&format!(
                "note: left out edits of {server} in {}: {} is also changed by this edit, or is not text\n",
                files.join(", "),
                context.display_path(&path)
            )),
        }
    }
    for reason in requested.unknown {
        report.push_str(&format!("note: servers may want further changes: {reason}\n"));
    }
    (plan, report)
}

/// Lets servers check a plan if the settings say so.
///
/// Callers that commit the plan themselves use it.
///
/// # Errors
/// If the policy denies the plan, or a text changed.
pub(crate) async fn preview(
    context: &ToolContext,
    cx: &ToolCx,
    plan: Plan,
) -> Result<(Plan, Verdict), Failure> {
    if context.settings().verify == Verify::After {
        return Ok((plan, Verdict::nothing()));
    }
    let baseline = Baseline::take(context, &plan, cx).await;
    let Preview { plan, report } = baseline.preview(context, plan, true, cx).await?;
    Ok((plan, report))
}

fn summary(context: &ToolContext, plan: &Plan, change: &Change<'_>, server: Option<&str>) -> String {
    let by = server.filter(|it| !it.is_empty()).map(|server| format!(" ({server})")).unwrap_or_default();
    let (files, added, removed) = plan.counts();
    let is_moved = |file: &&FileChange| matches!(file.kind, ChangeKind::Renamed { .. });
    let moved = plan.changes().iter().filter(is_moved).count();
    let overwritten = plan.changes().iter().filter(|file| file.overwritten.is_some()).count();
    let overwritten = (overwritten > 0).then(|| format!("{} overwritten", counted(overwritten, "file")));
    // A file whose whole text is replaced has no places.
    let is_whole = |file: &FileChange| file.kind == ChangeKind::Modified && file.overwritten.is_some();
    let edited = plan.changes().iter().filter(|file| !file.edits.is_empty() && !is_whole(file));
    let places: usize = edited.clone().map(|file| file.edits.len()).sum();
    let (edited, places_in) = (edited.count(), counted(places, "place"));
    let amount: Vec<String> = match (change.places, moved) {
        (false, _) => vec![format!("+{added} -{removed} lines in {}", counted(files, "file"))],
        (true, 0) => {
            let others = plan.changes().iter().filter(|file| !is_whole(file)).count();
            let places = format!("{places_in} in {}", counted(others, "file"));
            overwritten.into_iter().chain((others > 0).then_some(places)).collect()
        }
        (true, moved) => {
            let edited = match places {
                0 => "none edited".to_owned(),
                _ => format!("{places_in} edited in {}", counted(edited, "file")),
            };
            let moved = format!("{} moved", counted(moved, "file"));
            [Some(moved), overwritten, Some(edited)].into_iter().flatten().collect()
        }
    };
    let amount = amount.join(", ");
    let mut out = format!("{}: {amount}{by}", change.label);
    // Edited files come first, before all that only move with a directory.
    let (moved, others): (Vec<_>, Vec<_>) = plan.changes().iter().partition(is_moved);
    let is_edited = |file: &&FileChange| !file.edits.is_empty();
    let (moved_and_edited, moved): (Vec<_>, Vec<_>) = moved.into_iter().partition(is_edited);
    for file in others.into_iter().chain(moved_and_edited).chain(moved) {
        let what = match &file.kind {
            ChangeKind::Modified if change.places && is_whole(file) => lost(file),
            ChangeKind::Modified if change.places => format!("{}", file.edits.len()),
            ChangeKind::Modified => "changed".to_owned(),
            ChangeKind::Created => "created".to_owned(),
            ChangeKind::Deleted => "deleted".to_owned(),
            ChangeKind::Renamed { from } => {
                let edited = match file.edits.len() {
                    0 => String::new(),
                    count => format!(", {count}"),
                };
                let overwritten = file.destroys().map(|_| format!("; {}", lost(file))).unwrap_or_default();
                format!("moved from {}{edited}{overwritten}", context.display_path(from))
            }
        };
        out.push_str(&format!("\n  {}: {what}", context.display_path(&file.path)));
    }
    out
}

/// Renders the overwritten text of a file.
fn lost(file: &FileChange) -> String {
    match file.overwritten.as_ref().map(|it| &it.text) {
        Some(Some(text)) => {
            format!("overwritten, {} lost", counted(display::line_count(text), "line"))
        }
        _ => "overwritten, was not text".to_owned(),
    }
}

/// Returns the first lines of a diff, and the number of the others.
pub(crate) fn truncate_diff(diff: &str) -> String {
    let count = diff.lines().count();
    if count <= MAX_DIFF_LINES {
        return diff.to_owned();
    }
    let shown: Vec<&str> = diff.lines().take(MAX_DIFF_LINES).collect();
    format!("{}\n… {} more lines of the diff", shown.join("\n"), count - MAX_DIFF_LINES)
}

pub(crate) fn details(context: &ToolContext, plan: &Plan, made: Option<(&Commit, Value)>) -> Value {
    let files: Vec<Value> = plan
        .changes()
        .iter()
        .map(|file| {
            let (kind, from) = match &file.kind {
                ChangeKind::Modified => ("modified", None),
                ChangeKind::Created => ("created", None),
                ChangeKind::Deleted => ("deleted", None),
                ChangeKind::Renamed { from } => ("renamed", Some(context.display_path(from))),
            };
            let mut data = json!({ "path": context.display_path(&file.path), "kind": kind, "from": from, "edits": file.edits.len() });
            if file.overwritten.is_some() {
                data["overwritten"] = json!(true);
                }
                data
                })
        .collect();
    let diff = plan.diff(context.workspace.root());
    match made {
        Some((commit, diagnostics)) => {
            json!({ "commit": commit.id, "run": commit.run, "files": files, "diff": diff, "diagnostics": diagnostics })
        }
        None => json!({ "files": files, "diff": diff }),
    }
}
