//! The servers themselves: what they do, offer, said; a fresh start; any question in their own words.

use std::sync::Arc;

use agent::{ToolCx, ToolResult};
use serde_json::{Value, json};
use workspace::ErrorCode;

use super::commands::Committer;
use super::{Arguments, needs, report, target};
use crate::{Failure, Kit};

/// The longest answer of `request` that is shown, in characters.
const MAX_ANSWER: usize = 20_000;

pub(super) async fn status(kit: &Kit) -> Result<ToolResult, Failure> {
    let servers = kit.servers.status().await;
    let (text, details) = report::status(kit, &servers);
    Ok(ToolResult::text(text).with_details(details))
}

pub(super) async fn logs(kit: &Kit, args: &Arguments) -> Result<ToolResult, Failure> {
    let (servers, name) = (Arc::clone(&kit.servers), args.server.clone());
    let logs = tokio::task::spawn_blocking(move || servers.logs(name.as_deref())).await;
    let logs = logs.map_err(|error| Failure::new(ErrorCode::Internal, error.to_string()))?;
    if logs.is_empty() {
        let message = match &args.server {
            Some(name) => format!("there is no log of {name} in this project; ask it something first"),
            None => "no language server has run in this project; ask one something first".to_owned(),
        };
        return Err(Failure::new(ErrorCode::NotFound, message));
    }
    let (text, details) = report::logs(kit, &logs);
    Ok(ToolResult::text(text).with_details(details))
}

pub(super) async fn capabilities(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let path = args.file.as_deref().map(|file| kit.workspace.resolve(file)).transpose()?;
    let offered = kit.servers.offered(path.as_ref(), args.server.as_deref(), &request).await?;
    let list = |names: Vec<String>| if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    let mut text = String::new();
    let mut details = Vec::new();
    for it in offered {
        let names = |features: &[lsp_client::Feature]| features.iter().map(ToString::to_string).collect();
        text.push_str(&format!("{} for {}\n", it.server, kit.shown(&it.root)));
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
        details.push(json!({ "server": it.server, "root": kit.shown(&it.root), "capabilities": it.raw }));
    }
    Ok(ToolResult::text(text).with_details(json!({ "servers": details })))
}

pub(super) async fn reload(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let path = args.file.as_deref().map(|file| kit.workspace.resolve(file)).transpose()?;
    let names = kit.servers.reload(path.as_ref(), args.server.as_deref(), &request).await?;
    if names.is_empty() {
        let starts = report::starts(kit);
        let message =
            format!("no such server is running, so there is nothing to reload; they start when {starts}");
        return Err(Failure::new(ErrorCode::NotFound, message));
    }
    let (status, details) = report::status(kit, &kit.servers.status().await);
    let text = format!("started anew: {}\n{status}", names.join(", "));
    Ok(ToolResult::text(text).with_details(details))
}

/// Any method. Edits that the server sends meanwhile go through the policy like all others.
pub(super) async fn request(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let method = args.method.as_deref().ok_or_else(|| needs("request", "method"))?;
    let params: Value = match args.params.as_deref().filter(|params| !params.trim().is_empty()) {
        None => json!({}),
        Some(params) => serde_json::from_str(params).map_err(|error| {
            Failure::new(ErrorCode::InvalidArguments, format!("`params` is not JSON: {error}"))
        })?,
    };
    let target = match (&args.file, &args.symbol, args.line) {
        (None, None, _) => None,
        (Some(file), None, None) => Some((kit.document(file)?, None)),
        _ => {
            let target = target::resolve(kit, args, &request).await?;
            Some((target.document, Some(target.range.start)))
        }
    };
    let place = target.as_ref().map(|(document, offset)| (document, *offset));
    let committer = Committer::new(kit, cx, method);
    let answer =
        kit.servers.request(method, params, place, args.server.as_deref(), &committer, &request).await?;
    let mut changed = committer.told();
    let broken = committer.broken(None).await;
    changed.text.push_str(&broken.text);
    changed.details["diagnostics"] = broken.details;
    let outcome = match answer.value.outcome {
        Ok(outcome) => outcome,
        // What was changed is said, whatever came after.
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
    let text = report::with_note(&text, answer.note.as_deref());
    let details = json!({ "result": outcome, "server": answer.server, "changed": changed.details });
    Ok(ToolResult::text(text).with_details(details))
}
