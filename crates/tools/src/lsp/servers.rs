//! Actions on servers: status, capabilities, logs, restart, raw requests.

use std::sync::Arc;

use agent::ToolResult;
use futures_util::future::BoxFuture;
use policy::{Confinement, ErrorCode};
use serde::Deserialize;
use serde_json::{Value, json};
use shell::CommandLine;

use super::action::{self, ActionGroup, ActionSpec, Call, Effect, Takes, question};
use super::code_actions::Committer;
use super::report;
use crate::search::target::{self, Place};
use crate::{Failure, ToolContext, notes};

/// Maximum number of characters of a `request` answer in the text.
const MAX_ANSWER: usize = 20_000;

#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub(super) enum ServerAction {
    Status,
    Capabilities(Named),
    Logs { server: Option<String> },
    Reload(Named),
    Request(Request),
}

/// Servers in the form of the arguments.
///
/// They are those of a file, of a name, or all that run.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Named {
    file: Option<String>,
    server: Option<String>,
}

/// A raw request of the Language Server Protocol.
#[derive(Debug, Deserialize)]
pub(super) struct Request {
    #[serde(flatten)]
    place: Place,
    method: String,
    params: Option<String>,
    server: Option<String>,
}

impl ActionGroup for ServerAction {
    const ACTIONS: &'static [ActionSpec] = &[
        ActionSpec { name: "status", takes: Takes::One, effect: Effect::Reads },
        question("capabilities"),
        ActionSpec { name: "logs", takes: Takes::One, effect: Effect::Reads },
        ActionSpec { name: "reload", takes: Takes::One, effect: Effect::Reads },
        ActionSpec { name: "request", takes: Takes::One, effect: Effect::ByMethod },
    ];

    fn run<'a>(self, call: &'a Call<'a>) -> BoxFuture<'a, Result<ToolResult, Failure>> {
        Box::pin(async move {
            match self {
                Self::Status => status(call.context).await,
                Self::Capabilities(named) => capabilities(call, &named).await,
                Self::Logs { server } => logs(call.context, server).await,
                Self::Reload(named) => reload(call, &named).await,
                Self::Request(args) => request(call, &args).await,
            }
        })
    }
}

async fn status(context: &ToolContext) -> Result<ToolResult, Failure> {
    let servers = context.servers.status().await;
    let (text, details) = report::status(context, &servers);
    Ok(ToolResult::text(text).with_details(details))
}

async fn logs(context: &ToolContext, server: Option<String>) -> Result<ToolResult, Failure> {
    let (servers, name) = (Arc::clone(&context.servers), server.clone());
    let logs = tokio::task::spawn_blocking(move || servers.logs(name.as_deref())).await;
    let logs = logs.map_err(|error| Failure::new(ErrorCode::Internal, error.to_string()))?;
    if logs.is_empty() {
        let message = match &server {
            Some(name) => format!(
                "Pilcrow has no log of {name} in this project; a request for one of its files starts it"
            ),
            None => "no language server has run in this project; use one first".to_owned(),
        };
        return Err(Failure::new(ErrorCode::NotFound, message));
    }
    let (text, details) = report::logs(context, &logs);
    Ok(ToolResult::text(text).with_details(details))
}

async fn capabilities(call: &Call<'_>, args: &Named) -> Result<ToolResult, Failure> {
    let Call { context, request, .. } = call;
    let path = args.file.as_deref().map(|file| context.workspace.resolve(file)).transpose()?;
    let offered = context.servers.offered(path.as_ref(), args.server.as_deref(), request).await?;
    let list = |names: Vec<String>| if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    let mut text = String::new();
    let mut details = Vec::new();
    for it in offered {
        let names = |features: &[adapters::Feature]| features.iter().map(ToString::to_string).collect();
        text.push_str(&format!("{} for {}\n", it.server, context.display_path(&it.root)));
        text.push_str(&format!(
            "  offers: {}\n  not: {}\n",
            list(names(&it.features)),
            list(names(&it.lacks))
        ));
        if !it.kinds.is_empty() {
            text.push_str(&format!("  kinds of code actions: {}\n", it.kinds.join(", ")));
        }
        if !it.commands.is_empty() {
            text.push_str(&format!("  commands: {}\n", it.commands.join(", ")));
        }
        details.push(
            json!({ "server": it.server, "root": context.display_path(&it.root), "capabilities": it.raw }),
        );
    }
    Ok(ToolResult::text(text).with_details(json!({ "servers": details })))
}

async fn reload(call: &Call<'_>, args: &Named) -> Result<ToolResult, Failure> {
    let Call { context, request, .. } = call;
    let path = args.file.as_deref().map(|file| context.workspace.resolve(file)).transpose()?;
    let names = context.servers.reload(path.as_ref(), args.server.as_deref(), request).await?;
    if names.is_empty() {
        let starts = report::starts(context);
        let message = format!("no such server is running; servers start when {starts}");
        return Err(Failure::new(ErrorCode::NotFound, message));
    }
    let (status, details) = report::status(context, &context.servers.status().await);
    let text = format!("restarted: {}\n{status}", names.join(", "));
    Ok(ToolResult::text(text).with_details(details))
}

/// Requires the permission to send a request.
///
/// Only known methods certainly run no programs. All others need `exec`, as a command of the server
/// with the method and its parameters as arguments. Files in `params` must be readable.
async fn permit_request(call: &Call<'_>, args: &Request, params: &Value) -> Result<(), Failure> {
    let Call { context, cx, .. } = call;
    let mut waiting = vec![params];
    while let Some(value) = waiting.pop() {
        match value {
            Value::String(text) => {
                if let Some(path) = paths::uri_to_path(text).and_then(paths::AbsPath::new) {
                    cx.permit_read(&path).await?;
                }
            }
            Value::Array(all) => waiting.extend(all),
            Value::Object(all) => waiting.extend(all.values()),
            _ => {}
        }
    }
    if action::only_reads(&args.method) {
        return Ok(());
    }
    let program = args.server.clone().unwrap_or_else(|| "language-server".to_owned());
    let command = CommandLine {
        program: program.into(),
        args: vec![args.method.clone(), params.to_string()],
        env: Vec::new(),
        cwd: context.workspace.root().clone(),
    };
    // The server runs it, in its own sandbox.
    Ok(cx.permit_run("lsp", &command, Confinement::Sandbox).await?)
}

/// Sends any request to a server.
///
/// The policy judges edits that the server sends meanwhile like all others.
async fn request(call: &Call<'_>, args: &Request) -> Result<ToolResult, Failure> {
    let Call { context, cx, request, .. } = call;
    let method = args.method.as_str();
    let params: Value = match args.params.as_deref().filter(|params| !params.trim().is_empty()) {
        None => json!({}),
        Some(params) => serde_json::from_str(params).map_err(|error| {
            Failure::new(ErrorCode::InvalidArguments, format!("`params` is not JSON: {error}"))
        })?,
    };
    permit_request(call, args, &params).await?;
    let target = match (&args.place.file, &args.place.symbol, args.place.line) {
        (None, None, _) => None,
        (Some(file), None, None) => Some((context.document(file)?, None)),
        _ => {
            let target = target::resolve(context, &args.place, request).await?;
            Some((target.document, Some(target.range.start)))
        }
    };
    let place = target.as_ref().map(|(document, offset)| (document, *offset));
    let committer = Committer::new(context, cx, method);
    let answer =
        context.servers.request(method, params, place, args.server.as_deref(), &committer, request).await?;
    let mut changed = committer.report();
    let broken = committer.broken().await;
    changed.text.push_str(&broken.text);
    changed.details["diagnostics"] = broken.details;
    let outcome = match answer.value.outcome {
        Ok(outcome) => outcome,
        // Committed edits are reported, whatever happened afterwards.
        Err(error) if changed.text.is_empty() => return Err(error.into()),
        Err(error) => {
            let failure = Failure::from(error);
            return Err(Failure { message: format!("{}{}", changed.text, failure.message), ..failure });
        }
    };
    let shown = serde_json::to_string_pretty(&outcome).unwrap_or_default();
    let mut text = format!("{method} ({})\n{}", answer.server, changed.text);
    match shown.char_indices().nth(MAX_ANSWER) {
        None => text.push_str(&shown),
        Some((end, _)) => {
            let all = shown.chars().count();
            text.push_str(&format!("{}\n… {} of {all} characters shown", &shown[..end], MAX_ANSWER));
        }
    }
    let text = report::with_note(&text, notes::render(context, &answer.notes).as_deref());
    let details = json!({ "result": outcome, "server": answer.server, "changed": changed.details });
    Ok(ToolResult::text(text).with_details(details))
}
