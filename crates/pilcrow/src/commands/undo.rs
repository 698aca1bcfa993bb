//! `pilcrow undo` and `pilcrow redo`: revert and restore the agent's changes.

use host::project::Access;
use host::{Outcome, UndoRequest};
use serde_json::json;

use super::print;
use crate::executor::Executor;
use crate::render::Format;
use crate::{cli, open, output};

/// Undoes the last run or one commit, or redoes the last undo.
pub async fn undo(commit: Option<String>, redo: bool, args: &cli::CallArgs) -> anyhow::Result<Outcome> {
    let access = Access { yes: false, keep: false, trusted: false };
    let request = UndoRequest { redo, commit };
    let reply = Executor::with(args, access, async |it, cancel| it.undo(request, cancel).await).await?;
    Ok(print(if redo { "redo" } else { "undo" }, &reply, args.target.json, Format::Auto))
}

/// Lists what can be undone.
pub fn list(target: &cli::CommandTarget) -> anyhow::Result<Outcome> {
    let project = open::open(&target.project, Access { yes: false, keep: false, trusted: false })?;
    let history = project.workspace.history()?;
    for record in &history {
        let files: Vec<String> = record.files.iter().map(|path| project.workspace.relative(path)).collect();
        if target.json {
            output::json(&json!({
                "id": record.id, "run": record.run, "label": record.label, "at_ms": record.at_ms,
                "files": files, "undone_by": record.undone_by,
            }));
            continue;
        }
        let at = jiff::Timestamp::from_millisecond(record.at_ms)
            .map(|at| at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string())
            .unwrap_or_default();
        let undone = if record.undone_by.is_some() { " (undone)" } else { "" };
        output::line(&format!("{}  {at}  {} [{} files]{undone}", record.id.0, record.label, files.len()));
    }
    if history.is_empty() && !target.json {
        output::note("Pilcrow has changed nothing in this project");
    }
    Ok(Outcome::Done)
}
