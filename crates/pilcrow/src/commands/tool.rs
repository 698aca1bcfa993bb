//! `pilcrow tool`: one call, or a batch of calls from one process, without a model.

use std::sync::Arc;

use agent::{Standalone, ToolCx, ToolResult, call_tool};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio_util::sync::CancellationToken;
use workspace::{ErrorCode, RunId};

use super::{Exit, print, result_json};
use crate::project::{Access, Project};
use crate::{cli, output, stop};

/// A longer line of a batch is refused.
const MAX_LINE: u64 = 64 << 20;

#[derive(Deserialize)]
struct Call {
    name: String,
    #[serde(default)]
    arguments: Value,
}

/// Calls one tool.
pub async fn one(
    name: &str,
    arguments: Option<&str>,
    project: &cli::Project,
    consent: &cli::Consent,
) -> anyhow::Result<Exit> {
    let arguments: Value = match arguments.map(serde_json::from_str).transpose() {
        Ok(arguments) => arguments.unwrap_or_else(|| json!({})),
        Err(error) => {
            output::note(&format!("pilcrow: the arguments are not JSON: {error}"));
            return Ok(Exit::Usage);
        }
    };
    let project = Project::open(project, Access { yes: consent.yes, keep: true, trusted: false })?;
    if project.registry.get(name).is_none() {
        let names = project.registry.names().join(", ");
        output::note(&format!("pilcrow: there is no tool `{name}`; there are: {names}"));
        return Ok(Exit::Usage);
    }
    let cancel = stop::on_signal()?;
    let result = call_tool(&project.registry, name, arguments, &context(&project, &cancel, false)).await;
    let exit = print(name, &result, consent.json);
    project.close(cancel.is_cancelled()).await;
    Ok(exit)
}

/// Answers each line of standard input with one line; ends with it.
pub async fn batch(project: &cli::Project, consent: &cli::Consent) -> anyhow::Result<Exit> {
    let project = Project::open(project, Access { yes: consent.yes, keep: false, trusted: false })?;
    let cancel = stop::on_signal()?;
    let mut input = BufReader::with_capacity(64 << 10, tokio::io::stdin());
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = (&mut input).take(MAX_LINE);
        // On cancel the part of a line that was read is not wanted any more.
        let read = tokio::select! {
            read = limited.read_until(b'\n', &mut line) => read?,
            () = cancel.cancelled() => 0,
        };
        if read == 0 {
            break;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let (name, result) = match serde_json::from_slice::<Call>(&line) {
            Ok(call) => {
                let arguments = if call.arguments.is_null() { json!({}) } else { call.arguments };
                let cx = context(&project, &cancel, false);
                let result = call_tool(&project.registry, &call.name, arguments, &cx).await;
                (call.name, result)
            }
            Err(error) => {
                let text = format!("the line is no call {{\"name\", \"arguments\"}}: {error}");
                (String::new(), ToolResult::error(ErrorCode::InvalidArguments, text))
            }
        };
        output::json(&result_json(&name, &result));
    }
    project.close(cancel.is_cancelled()).await;
    Ok(Exit::Done)
}

/// Lists the tools with what they take.
pub fn list(project: &cli::Project, as_json: bool) -> anyhow::Result<Exit> {
    let project = Project::open(project, Access { yes: false, keep: false, trusted: false })?;
    for definition in project.registry.definitions() {
        if as_json {
            output::json(&definition);
            continue;
        }
        let properties = definition.parameters["properties"].as_object().cloned().unwrap_or_default();
        let names: Vec<&str> = properties.keys().map(String::as_str).collect();
        let about: String = definition.description.lines().map(|line| format!("  {line}\n")).collect();
        output::line(&format!("{} {{{}}}\n{about}", definition.name, names.join(", ")));
    }
    Ok(Exit::Done)
}

/// What a call outside a run is given. `invoked` when the person's command named the change itself.
pub fn context(project: &Project, cancel: &CancellationToken, invoked: bool) -> ToolCx {
    ToolCx::standalone(Standalone {
        call_id: "call".to_owned(),
        run: RunId::new(),
        cancel: cancel.clone(),
        policy: Arc::clone(&project.policy),
        approver: Arc::clone(&project.approver),
        invoked,
        on_update: Box::new(|_| {}),
    })
}
