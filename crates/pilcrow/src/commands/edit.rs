//! `pilcrow read` and `pilcrow edit`: the tools of those names, by a person's own hand.

use std::io::Read;

use agent::call_tool;
use serde_json::{Value, json};

use super::{Exit, print};
use crate::commands::tool::context;
use crate::project::{Access, Project};
use crate::{cli, stop};

/// Shows a file with its tag and numbers.
pub async fn read(
    file: &str,
    offset: Option<u64>,
    limit: Option<u64>,
    project: &cli::Project,
    as_json: bool,
) -> anyhow::Result<Exit> {
    let mut arguments = json!({ "path": file });
    for (name, value) in [("offset", offset), ("limit", limit)] {
        if let Some(value) = value {
            arguments[name] = json!(value);
        }
    }
    call("read", arguments, project, as_json).await
}

/// Applies the patch on standard input. The person named the change: nothing is asked.
pub async fn edit(project: &cli::Project, as_json: bool) -> anyhow::Result<Exit> {
    let mut patch = String::new();
    std::io::stdin().lock().read_to_string(&mut patch)?;
    call("edit", json!({ "patch": patch }), project, as_json).await
}

async fn call(tool: &str, arguments: Value, project: &cli::Project, as_json: bool) -> anyhow::Result<Exit> {
    let project = Project::open(project, Access { yes: false, keep: true, trusted: false })?;
    let cancel = stop::on_signal()?;
    let result = call_tool(&project.registry, tool, arguments, &context(&project, &cancel, true)).await;
    let exit = print(tool, &result, as_json);
    project.close(cancel.is_cancelled()).await;
    Ok(exit)
}
