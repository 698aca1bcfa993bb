//! `pilcrow tool`: calls tools without a model, one or a batch.

use agent::ToolResult;
use host::project::Access;
use host::{Outcome, Reply, ToolCallRequest};
use policy::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio_util::sync::CancellationToken;

use super::{print_edit, result_json, wrong_use};
use crate::executor::Executor;
use crate::render::Format;
use crate::{cli, open, output};

/// Maximum length of a line of a batch, in bytes.
const MAX_LINE: u64 = 64 << 20;

#[derive(Deserialize)]
struct Line {
    name: String,
    #[serde(default)]
    arguments: Value,
}

pub async fn one(
    name: &str,
    arguments: Option<&str>,
    args: &cli::CallArgs,
    consent: cli::Consent,
    wait: cli::WaitArgs,
) -> anyhow::Result<Outcome> {
    let arguments: Value = match arguments.map(serde_json::from_str).transpose() {
        Ok(arguments) => arguments.unwrap_or_else(|| json!({})),
        Err(error) => return Ok(wrong_use(&format!("the arguments are not JSON: {error}"))),
    };
    let access = open::access(consent.yes, true)?;
    let wait_ms = wait.millis();
    let call = ToolCallRequest { name: name.to_owned(), arguments, invoked: false, named: true, wait_ms };
    let reply = Executor::with(args, access, async |executor, cancel| {
        executor.shows_progress = !args.target.json;
        executor.call_tool(call, cancel).await
    });
    Ok(print_edit(name, &reply.await?, args.target.json, Format::Model))
}

/// Answers each line of standard input with one line, until the input ends.
pub async fn batch(args: &cli::CallArgs, consent: cli::Consent) -> anyhow::Result<Outcome> {
    let access = open::access(consent.yes, false)?;
    Executor::with(args, access, answer_lines).await?;
    Ok(Outcome::Done)
}

async fn answer_lines(executor: &mut Executor, cancel: &CancellationToken) -> anyhow::Result<()> {
    let mut input = BufReader::with_capacity(64 << 10, tokio::io::stdin());
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = (&mut input).take(MAX_LINE);
        // Cancel safety: a partly read line is dropped, and no new call begins.
        let read = tokio::select! {
            biased;
            () = cancel.cancelled() => 0,
            read = limited.read_until(b'\n', &mut line) => read?,
        };
        if read == 0 {
            return Ok(());
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let (name, result) = match serde_json::from_slice::<Line>(&line) {
            Ok(Line { name, arguments }) => {
                let call = ToolCallRequest {
                    name: name.clone(),
                    arguments,
                    invoked: false,
                    named: false,
                    wait_ms: None,
                };
                match executor.call_tool(call, cancel).await? {
                    Reply::Done(result) => (name, result),
                    Reply::InvalidRequest(text) => {
                        (name, ToolResult::error(ErrorCode::InvalidArguments, text))
                    }
                }
            }
            Err(error) => {
                let text = format!("the line is not a call {{\"name\", \"arguments\"}}: {error}");
                (String::new(), ToolResult::error(ErrorCode::InvalidArguments, text))
            }
        };
        output::json(&result_json(&name, &result));
    }
}

/// Lists the tools with their parameters.
pub fn list(target: &cli::CommandTarget) -> anyhow::Result<Outcome> {
    let project = open::open(&target.project, Access { yes: false, keep: false, trusted: false })?;
    for definition in project.registry.definitions() {
        if target.json {
            output::json(&definition);
            continue;
        }
        let properties = definition.parameters["properties"].as_object().cloned().unwrap_or_default();
        let names: Vec<&str> = properties.keys().map(String::as_str).collect();
        let about: String = definition.description.lines().map(|line| format!("  {line}\n")).collect();
        output::line(&format!("{} {{{}}}\n{about}", definition.name, names.join(", ")));
    }
    Ok(Outcome::Done)
}
