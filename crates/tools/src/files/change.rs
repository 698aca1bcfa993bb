//! From a proposed edit to committed files: planned, permitted, committed, shown to the language
//! servers, and reported with what it broke or mended. The one way in which tools change files.

use std::sync::Arc;
use std::time::Duration;

use agent::{ToolCx, ToolResult};
use futures_util::future::BoxFuture;
use lsp_client::RequestCx;
use paths::AbsPath;
use policy::ErrorCode;
use serde_json::{Value, json};
use workspace::{ChangeKind, Commit, CommitError, FileChange, Plan, PlanError, WorkspaceEdit};

use crate::verify::{Baseline, Preview, Verdict, Verify};
use crate::{Failure, ToolContext, counted, display};

/// How long servers may take to say what is to change with files that are made or removed.
const WISHES: Duration = Duration::from_secs(2);
/// The longest diff that a result holds; the rest is counted.
const MAX_DIFF_LINES: usize = 200;

/// How a change is made and told.
pub(crate) struct Change<'a> {
    /// One line for people.
    pub label: &'a str,
    /// Whether single places are counted (a rename) rather than lines.
    pub places: bool,
    /// Whether it is made, or only shown.
    pub apply: bool,
}

/// What is to change, and what is known about it.
pub(crate) struct Proposed {
    pub edit: WorkspaceEdit,
    /// The language server that proposes it.
    pub server: Option<String>,
    /// How sure it is.
    pub note: Option<String>,
}

/// A change that was made, or shown.
pub(crate) struct Done {
    pub text: String,
    pub details: Value,
    pub applied: bool,
}

impl From<Done> for ToolResult {
    fn from(done: Done) -> Self {
        ToolResult::text(done.text).with_details(done.details)
    }
}

/// Makes what `propose` proposes. When files move between plan and commit it is asked once more (and told so:
/// a person may have been asked meanwhile), then the change is refused.
pub(crate) async fn make<'a>(
    context: &'a ToolContext,
    cx: &ToolCx,
    change: Change<'_>,
    propose: impl Fn(bool) -> BoxFuture<'a, Result<Proposed, Failure>> + Send + Sync,
) -> Result<Done, Failure> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let Proposed { mut edit, server, note } = propose(attempts > 1).await?;
        edit.label = change.label.to_owned();
        let plan = match context.workspace.plan(edit) {
            Err(PlanError::Stale { .. }) if attempts == 1 => continue,
            plan => plan?,
        };
        if plan.is_empty() {
            return Ok(nothing(&change, server.as_deref(), note.as_deref()));
        }
        let summary = summary(context, &plan, &change, server.as_deref());
        if !change.apply {
            let note = note.map(|note| format!("note: {note}\n")).unwrap_or_default();
            let text = format!("not applied: {summary}\n{note}{}", cut(&plan.diff(context.workspace.root())));
            return Ok(Done { text, details: details(context, &plan, None), applied: false });
        }
        let committed = commit(context, cx, plan, attempts > 1).await;
        let Committed { commit, plan, verdict } = match committed {
            Err(Refused::Moved) if attempts == 1 => continue,
            other => other?,
        };
        let mut text = format!("{summary}\n");
        for line in note.iter().map(|note| format!("note: {note}")).chain(commit.notes.iter().cloned()) {
            text.push_str(&format!("{line}\n"));
        }
        text.push_str(&verdict.text);
        return Ok(Done {
            text,
            details: details(context, &plan, Some((&commit, verdict.details))),
            applied: true,
        });
    }
}

fn nothing(change: &Change<'_>, server: Option<&str>, note: Option<&str>) -> Done {
    let by = server.map(|server| format!(", says {server}")).unwrap_or_default();
    let note = note.map(|note| format!(" ({note})")).unwrap_or_default();
    Done {
        text: format!("{}: nothing to change{by}{note}\n", change.label),
        details: json!({ "files": [] }),
        applied: false,
    }
}

/// A plan that became real.
pub(crate) struct Committed {
    pub commit: Arc<Commit>,
    pub plan: Plan,
    pub verdict: Verdict,
}

/// Why a plan did not become real.
pub(crate) enum Refused {
    /// Files changed since it was made: plan again.
    Moved,
    Failed(Failure),
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Moved => Failure::new(
                ErrorCode::StaleText,
                "the files changed again while the edit was planned; nothing was written, try again",
            ),
            Refused::Failed(failure) => failure,
        }
    }
}

/// Permits and commits `plan`, keeps servers and snapshots in step, and says what it broke. Where the
/// person wants it, it is tried first. `again`: it was planned anew already.
pub(crate) async fn commit(
    context: &ToolContext,
    cx: &ToolCx,
    plan: Plan,
    again: bool,
) -> Result<Committed, Refused> {
    let cancelled = || {
        let message = "cancelled before anything was written";
        Refused::Failed(Failure::new(ErrorCode::Cancelled, message))
    };
    let denied = |denied: policy::Denied| Refused::Failed(denied.into());
    let (plan, wished) = with_wishes(context, cx, plan).await;
    let (plan, permit, baseline, tried) = match context.settings().verify {
        Verify::After => {
            let permit = cx.permit(&plan).await.map_err(denied)?;
            let baseline = Baseline::take(context, &plan, cx).await;
            (plan, permit, baseline, Verdict::nothing())
        }
        // First, so that the person is asked once, and with what is known.
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
            CommitError::Moved { .. } => Refused::Moved,
            error => Refused::Failed(error.into()),
        })?;
    context.servers.did_commit(&commit).await;
    display::keep_in_step(context, &plan);
    let mut verdict = baseline.compare(context, cx).await;
    verdict.text.insert_str(0, &wished);
    if !tried.text.is_empty() {
        verdict.text.insert_str(0, &tried.text);
        verdict.details = match verdict.details {
            Value::Object(mut details) => {
                details.insert("tried".to_owned(), tried.details);
                Value::Object(details)
            }
            _ => json!({ "tried": tried.details }),
        };
    }
    Ok(Committed { commit, plan, verdict })
}

/// `plan` with what servers want changed with the files that it makes and removes, and a word about that.
/// Nothing of it keeps the edit from being made.
async fn with_wishes(context: &ToolContext, cx: &ToolCx, plan: Plan) -> (Plan, String) {
    let of = |kind: ChangeKind| -> Vec<AbsPath> {
        let files = plan.changes().iter().filter(|it| it.kind == kind);
        files.map(|it| it.path.clone()).collect()
    };
    let (created, deleted) = (of(ChangeKind::Created), of(ChangeKind::Deleted));
    if created.is_empty() && deleted.is_empty() {
        return (plan, String::new());
    }
    let request = RequestCx::new(WISHES, &cx.cancel);
    // Cancelled, nothing is made at all.
    let Ok(wishes) = context.servers.will_change(&created, &deleted, &request).await else {
        return (plan, String::new());
    };
    let (mut plan, mut said) = (plan, String::new());
    for (server, edit) in wishes.edits {
        let theirs = match context.workspace.plan(edit) {
            Ok(theirs) => theirs,
            Err(error) => {
                said.push_str(&format!("note: what {server} wants changed with it is left out: {error}\n"));
                continue;
            }
        };
        let files: Vec<String> = theirs.changes().iter().map(|it| context.shown(&it.path)).collect();
        match plan.clone().and_edits(theirs) {
            Ok(both) => {
                plan = both;
                said.push_str(&format!("changed with it, as {server} wants: {}\n", files.join(", ")));
            }
            Err(path) => said.push_str(&format!(
                "note: {server} wants {} changed with it, which is left out: {} is changed by this edit, or is not only text\n",
                files.join(", "),
                context.shown(&path)
            )),
        }
    }
    for why in wishes.unknown {
        said.push_str(&format!("note: what else is to change with it is not known: {why}\n"));
    }
    (plan, said)
}

/// Tries a plan where the person wants that, for who commits it by itself.
///
/// # Errors
/// A failure when the policy does not let it be made, or a text moved.
pub(crate) async fn tried(
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
    // A file that is given another text as a whole has no places.
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
    // What is edited is not to be looked for among all that moves with a folder.
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
                let over = file.destroys().map(|_| format!("; {}", lost(file))).unwrap_or_default();
                format!("moved from {}{edited}{over}", context.shown(from))
            }
        };
        out.push_str(&format!("\n  {}: {what}", context.shown(&file.path)));
    }
    out
}

/// What is overwritten at a file's place.
fn lost(file: &FileChange) -> String {
    match file.overwritten.as_ref().map(|it| &it.text) {
        Some(Some(text)) => {
            format!("overwritten, {} of what was there", counted(display::line_count(text), "line"))
        }
        _ => "overwritten, what was there is not text".to_owned(),
    }
}

/// A diff for the model, not longer than is useful.
pub(crate) fn cut(diff: &str) -> String {
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
                ChangeKind::Renamed { from } => ("renamed", Some(context.shown(from))),
            };
            let mut it = json!({ "path": context.shown(&file.path), "kind": kind, "from": from, "edits": file.edits.len() });
            if file.overwritten.is_some() {
                it["overwritten"] = json!(true);
            }
            it
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
