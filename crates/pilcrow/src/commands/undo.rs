//! `pilcrow undo` and `pilcrow redo`: revert and restore the agent's changes.

use host::project::Access;
use host::{Outcome, UndoRequest};
use serde_json::json;

use super::print;
use crate::executor::Executor;
use crate::render::Format;
use crate::{cli, open, output, stop};

/// Undoes the last run or one commit, or redoes the last undo.
pub async fn undo(
    commit: Option<String>,
    redo: bool,
    project: &cli::Project,
    execution: &cli::ExecutionArgs,
    as_json: bool,
) -> anyhow::Result<Outcome> {
    let cancel = stop::on_signal()?;
    let access = Access { yes: false, keep: false, trusted: false };
    let mut executor = Executor::find(project, execution, access).await?;
    let reply = executor.undo(UndoRequest { redo, commit }, &cancel).await;
    executor.close(&cancel).await;
    Ok(print(if redo { "redo" } else { "undo" }, &reply?, as_json, Format::Auto))
}

/// Lists what can be undone.
pub fn list(project: &cli::Project, as_json: bool) -> anyhow::Result<Outcome> {
    let project = open::open(project, Access { yes: false, keep: false, trusted: false })?;
    let history = project.workspace.history()?;
    for record in &history {
        let files: Vec<String> = record.files.iter().map(|path| project.workspace.relative(path)).collect();
        if as_json {
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
    if history.is_empty() && !as_json {
        output::note("Pilcrow has changed nothing in this project");
    }
    Ok(Outcome::Done)
}
