//! `pilcrow read` and `pilcrow edit`: the tools of these names, called by the user.

use std::io::Read;

use host::project::Access;
use host::{Outcome, ToolCallRequest};
use serde_json::{Value, json};

use super::print;
use crate::cli;
use crate::executor::Executor;
use crate::render::Format;

/// Shows a file with its tag and line numbers.
///
/// The path is relative to `-C`, else to the current directory, which may be below the project's root.
pub async fn read(
    file: &str,
    offset: Option<u64>,
    limit: Option<u64>,
    args: &cli::CallArgs,
) -> anyhow::Result<Outcome> {
    let mut arguments = json!({ "path": file });
    if args.target.project.dir.is_none()
        && let Some(path) = std::path::absolute(file).ok().and_then(paths::AbsPath::new)
        && let Some(path) = path.as_path().to_str()
    {
        arguments["path"] = json!(path);
    }
    for (name, value) in [("offset", offset), ("limit", limit)] {
        if let Some(value) = value {
            arguments[name] = json!(value);
        }
    }
    call("read", arguments, args).await
}

/// Applies the patch on standard input.
///
/// Asks nothing, because the user wrote the patch.
pub async fn edit(args: &cli::CallArgs) -> anyhow::Result<Outcome> {
    let mut patch = String::new();
    std::io::stdin().lock().read_to_string(&mut patch)?;
    call("edit", json!({ "patch": patch }), args).await
}

async fn call(tool: &str, arguments: Value, args: &cli::CallArgs) -> anyhow::Result<Outcome> {
    let access = Access { yes: false, keep: true, trusted: false };
    let call =
        ToolCallRequest { name: tool.to_owned(), arguments, invoked: true, named: true, wait_ms: None };
    let reply = Executor::with(args, access, async |it, cancel| it.call_tool(call, cancel).await).await?;
    Ok(print(tool, &reply, args.target.json, Format::Model))
}
