//! `pilcrow read` and `pilcrow edit`: the tools of those names, by a person's own hand.

use std::io::Read;

use host::project::Access;
use host::{Outcome, ToolCallRequest};
use serde_json::{Value, json};

use super::print;
use crate::executor::Executor;
use crate::{cli, stop};

/// Shows a file with its tag and numbers. With `-C` the file is named from there, else from the current folder, which may
/// lie within the project.
pub async fn read(
    file: &str,
    offset: Option<u64>,
    limit: Option<u64>,
    project: &cli::Project,
    execution: &cli::ExecutionArgs,
    as_json: bool,
) -> anyhow::Result<Outcome> {
    let mut arguments = json!({ "path": file });
    if project.dir.is_none()
        && let Some(place) = std::path::absolute(file).ok().and_then(paths::AbsPath::new)
        && let Some(place) = place.as_path().to_str()
    {
        arguments["path"] = json!(place);
    }
    for (name, value) in [("offset", offset), ("limit", limit)] {
        if let Some(value) = value {
            arguments[name] = json!(value);
        }
    }
    call("read", arguments, project, execution, as_json).await
}

/// Applies the patch on standard input. The person named the change: nothing is asked.
pub async fn edit(
    project: &cli::Project,
    execution: &cli::ExecutionArgs,
    as_json: bool,
) -> anyhow::Result<Outcome> {
    let mut patch = String::new();
    std::io::stdin().lock().read_to_string(&mut patch)?;
    call("edit", json!({ "patch": patch }), project, execution, as_json).await
}

async fn call(
    tool: &str,
    arguments: Value,
    project: &cli::Project,
    execution: &cli::ExecutionArgs,
    as_json: bool,
) -> anyhow::Result<Outcome> {
    let cancel = stop::on_signal()?;
    let access = Access { yes: false, keep: true, trusted: false };
    let mut executor = Executor::find(project, execution, access).await?;
    let call = ToolCallRequest { name: tool.to_owned(), arguments, invoked: true, named: true };
    let reply = executor.call_tool(call, &cancel).await;
    executor.close(&cancel).await;
    Ok(print(tool, &reply?, as_json))
}
