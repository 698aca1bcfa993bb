//! The tool `undo`: reverts changes of the agent in the current text.

use std::sync::Arc;

use agent::{ToolCx, ToolResult};
use policy::{Effects, ErrorCode, Writes};
use serde::Deserialize;
use serde_json::{Value, json};
use workspace::{Commit, CommitError, CommitId, Skipped, Undo, UndoPlan};

use crate::described::{BuiltIn, Described, flag, text};
use crate::verify::{Baseline, Verdict};
use crate::{Failure, ToolContext, arguments, display};

pub(crate) struct UndoTool {
    context: Arc<ToolContext>,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    commit: Option<String>,
    checkpoint: Option<String>,
    #[serde(default)]
    redo: bool,
}

impl UndoTool {
    pub fn new(context: Arc<ToolContext>) -> Described<Self> {
        let properties = json!({
            "commit": text("one commit instead of the last run"),
            "checkpoint": text("everything since the checkpoint of this name"),
            "redo": flag("redo the last undo instead"),
        });
        Described::new("undo", "Undo", include_str!("undo.md"), properties, &[], Self { context })
    }
}

impl BuiltIn for UndoTool {
    fn effects(&self, _: &Value) -> Effects {
        Effects { reads: true, writes: Writes::Unknown, ..Effects::default() }
    }

    async fn run(&self, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
        let args: Arguments = arguments(args)?;
        if args.redo {
            return undo_or_redo(&self.context, cx, None, true).await;
        }
        let which = match (args.commit, args.checkpoint) {
            (None, None) => Undo::LastRun,
            (Some(id), None) => Undo::Commit(CommitId(id)),
            // Redacted, as when it was stored.
            (None, Some(name)) => Undo::Since(self.context.shell.redactor().redact(name.trim()).into_owned()),
            (Some(_), Some(_)) => {
                return Err(Failure::invalid("give either `commit` or `checkpoint`"));
            }
        };
        undo_or_redo(&self.context, cx, Some(&which), true).await
    }
}

/// Reverts `which`, or with `None` the last undo, for a command of the user.
///
/// Does not wait for diagnostics.
///
/// # Errors
/// [`Failure`] when there is nothing to revert, or the policy denies it.
pub async fn revert(context: &ToolContext, cx: &ToolCx, which: Option<&Undo>) -> Result<ToolResult, Failure> {
    undo_or_redo(context, cx, which, false).await
}

/// Reverts or redoes changes.
///
/// With `verify`, compares diagnostics before and after.
async fn undo_or_redo(
    context: &ToolContext,
    cx: &ToolCx,
    which: Option<&Undo>,
    verify: bool,
) -> Result<ToolResult, Failure> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let undo = match which {
            Some(which) => context.workspace.plan_undo(which)?,
            None => context.workspace.plan_redo()?,
        };
        let permit = cx.permit(&undo.plan).await?;
        match apply_undo(context, undo, permit, verify, cx).await {
            Err(CommitError::Moved { .. }) if attempts == 1 => {}
            done => return Ok(done?.into()),
        }
    }
}

struct Undone {
    text: String,
    details: Value,
    complete: bool,
}

impl From<Undone> for ToolResult {
    fn from(undone: Undone) -> Self {
        if undone.complete {
            return ToolResult::text(undone.text).with_details(undone.details);
        }
        // A partial undo must not look like success.
        ToolResult::error(ErrorCode::PartlyReverted, undone.text).with_details(undone.details)
    }
}

async fn apply_undo(
    context: &ToolContext,
    undo: UndoPlan,
    permit: policy::Permit,
    verify: bool,
    cx: &ToolCx,
) -> Result<Undone, CommitError> {
    let (plan, skipped) = (undo.plan.clone(), undo.skipped.clone());
    let undone = undo.undoes.clone();
    let baseline =
        if verify { Baseline::take_for_undo(context, &plan, cx).await } else { Baseline::default() };
    let commit: Option<Arc<Commit>> = if plan.is_empty() && !skipped.is_empty() {
        None
    } else {
        Some(context.workspace.commit_undo(undo, permit, &cx.run).await?)
    };
    let mut text = plan.label().to_owned();
    if let Some(commit) = &commit {
        context.servers.did_commit(commit).await;
        display::sync_snapshots(context, &plan);
        for file in plan.changes() {
            text.push_str(&format!("\n  {}", context.display_path(&file.path)));
        }
        for note in &commit.notes {
            text.push_str(&format!("\n{note}"));
        }
    } else {
        text.push_str(": nothing could be reverted");
    }
    for Skipped { path, reason } in &skipped {
        text.push_str(&format!("\nnot reverted: {}: {reason}", context.display_path(path)));
    }
    let broken = match commit {
        Some(_) => baseline.compare(context, cx).await,
        None => Verdict::nothing(),
    };
    if !broken.text.is_empty() {
        text.push_str(&format!("\n{}", broken.text.trim_end()));
    }
    let left: Vec<Value> = skipped
        .iter()
        .map(|left| json!({ "path": context.display_path(&left.path), "reason": left.reason }))
        .collect();
    let files: Vec<String> = plan.changes().iter().map(|file| context.display_path(&file.path)).collect();
    let details = json!({ "commit": commit.as_ref().map(|commit| &commit.id), "undoes": undone, "files": files, "left": left, "diagnostics": broken.details });
    Ok(Undone { text, details, complete: skipped.is_empty() })
}
