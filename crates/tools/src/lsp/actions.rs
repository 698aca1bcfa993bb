//! What each action of the tool `lsp` does: resolve the place, ask, and say it truly.

use agent::{ToolCx, ToolResult};
use lsp_client::{Answer, Location};
use serde_json::{Value, json};
use workspace::{ErrorCode, WorkspaceEdit};

use super::{Arguments, report, target};
use crate::change::{self, Change, Proposed};
use crate::{Failure, Kit, words};

/// At most this many files are asked for diagnostics when none was named.
const MAX_DIAGNOSED: usize = 50;

pub(super) async fn definition(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let target = target::resolve(kit, args, &request).await?;
    let answer = kit.servers.definition(&target.document, target.range.start, &request).await?;
    let title = format!("definition of `{}`", target.name());
    Ok(places(kit, &title, answer))
}

pub(super) async fn references(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let target = target::resolve(kit, args, &request).await?;
    let answer = kit.servers.references(&target.document, target.range.start, true, &request).await?;
    let title = format!("references of `{}`", target.name());
    Ok(places(kit, &title, answer))
}

fn places(kit: &Kit, title: &str, answer: Answer<Vec<Location>>) -> ToolResult {
    let mut text = report::heading(title, answer.value.len(), &answer.server, answer.note.as_deref());
    text.push_str(&report::locations(kit, &answer.value));
    let list: Vec<Value> = answer
        .value
        .iter()
        .map(|place| json!({ "path": kit.shown(&place.path), "line": place.line, "range": [place.range.start, place.range.end] }))
        .collect();
    ToolResult::text(text)
        .with_details(json!({ "locations": list, "server": answer.server, "note": answer.note }))
}

pub(super) async fn hover(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let target = target::resolve(kit, args, &request).await?;
    let answer = kit.servers.hover(&target.document, target.range.start, &request).await?;
    let place = target.shown(kit);
    let text = match &answer.value {
        Some(text) => format!("`{}` at {place} ({})\n{}", target.name(), answer.server, text.trim()),
        None => report::with_note(
            &format!("{} says nothing about `{}` at {place}", answer.server, target.name()),
            answer.note.as_deref(),
        ),
    };
    Ok(ToolResult::text(text).with_details(json!({ "hover": answer.value, "server": answer.server })))
}

pub(super) async fn symbols(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let file = args.file.as_deref().ok_or_else(|| needs("symbols", "file"))?;
    let document = kit.document(file)?;
    let answer = kit.servers.symbols(&document, &request).await?;
    let (text, list) = report::symbols(kit, &document, &answer, args.query.as_deref());
    Ok(ToolResult::text(text).with_details(json!({ "symbols": list, "server": answer.server })))
}

pub(super) async fn diagnostics(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let (documents, unchecked) = match &args.file {
        Some(file) => (vec![kit.document(file)?], 0),
        None => {
            let mut paths: Vec<_> =
                kit.workspace.files(kit.workspace.root()).filter(|path| kit.servers.serves(path)).collect();
            let unchecked = paths.len().saturating_sub(MAX_DIAGNOSED);
            paths.truncate(MAX_DIAGNOSED);
            (paths.iter().filter_map(|path| kit.workspace.document(path).ok()).collect(), unchecked)
        }
    };
    if documents.is_empty() {
        return Err(Failure::new(
            ErrorCode::NotFound,
            "no file here is of a language that a server is defined for",
        ));
    }
    let mut answers = Vec::new();
    for document in &documents {
        match kit.servers.diagnostics(document, &request).await {
            Ok(answer) => answers.push((document, answer)),
            Err(error) if documents.len() == 1 => return Err(error.into()),
            Err(lsp_client::ServerError::Cancelled) => return Err(lsp_client::ServerError::Cancelled.into()),
            Err(error) => answers.push((document, report::unanswered(document.version, &error))),
        }
    }
    let (text, details) = report::diagnostics(kit, &answers, unchecked);
    Ok(ToolResult::text(text).with_details(details))
}

pub(super) async fn rename(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let new_name = args
        .new_name
        .as_deref()
        .filter(|name| !name.is_empty())
        .ok_or_else(|| needs("rename", "new_name"))?;
    let old_name = target::resolve(kit, args, &request).await?.name().to_owned();
    if old_name == new_name {
        return Err(Failure::new(ErrorCode::InvalidArguments, format!("it is named `{old_name}` already")));
    }
    let label = format!("rename {old_name} to {new_name}");
    let change = Change { label: &label, places: true, apply: args.apply != Some(false) };
    let mut done = change::make(kit, cx, change, || {
        Box::pin(async {
            // Resolved anew for a second attempt: the text may have moved.
            let target = target::resolve(kit, args, &request).await?;
            let clash = target::sibling(kit, &target, new_name, &request).await;
            let mut answer =
                kit.servers.rename(&target.document, target.range.start, new_name, &request).await?;
            if let Some(place) = clash {
                let said = format!("`{new_name}` is declared at {place} too: two things of one name");
                answer.note = Some(answer.note.map_or(said.clone(), |note| format!("{said}; {note}")));
            }
            Ok(proposed(answer))
        })
    })
    .await?;
    if done.applied {
        let left = words::files_with(kit, &old_name, &request).await?;
        done.text.push_str(&report::left_over(kit, &old_name, &left));
    }
    Ok(done.into())
}

pub(super) async fn rename_file(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let file = args.file.as_deref().ok_or_else(|| needs("rename_file", "file"))?;
    let to = args.to.as_deref().ok_or_else(|| needs("rename_file", "to"))?;
    let from_path = kit.workspace.resolve(file)?;
    let mut to_path = kit.workspace.resolve(to)?;
    // Into a folder, as `mv` does.
    if to.ends_with('/') || kit.workspace.list(&to_path).is_ok() {
        to_path = to_path.join(from_path.file_name());
    }
    let label = format!("move {} to {}", kit.shown(&from_path), kit.shown(&to_path));
    let change = Change { label: &label, places: true, apply: args.apply != Some(false) };
    let done = change::make(kit, cx, change, || {
        Box::pin(async {
            let answer = kit.servers.rename_file(&from_path, &to_path, &request).await?;
            Ok(proposed(answer))
        })
    })
    .await?;
    Ok(done.into())
}

pub(super) async fn organize_imports(
    kit: &Kit,
    args: &Arguments,
    cx: &ToolCx,
) -> Result<ToolResult, Failure> {
    tidy(kit, args, cx, "organize_imports", "organize imports in").await
}

pub(super) async fn format(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    tidy(kit, args, cx, "format", "format").await
}

async fn tidy(
    kit: &Kit,
    args: &Arguments,
    cx: &ToolCx,
    action: &str,
    words: &str,
) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let file = args.file.as_deref().ok_or_else(|| needs(action, "file"))?;
    let label = format!("{words} {file}");
    let change = Change { label: &label, places: false, apply: args.apply != Some(false) };
    let done = change::make(kit, cx, change, || {
        Box::pin(async {
            let document = kit.document(file)?;
            let answer = match action {
                "format" => kit.servers.format(&document, None, &request).await?,
                _ => kit.servers.organize_imports(&document, &request).await?,
            };
            Ok(proposed(answer))
        })
    })
    .await?;
    Ok(done.into())
}

pub(super) async fn status(kit: &Kit) -> Result<ToolResult, Failure> {
    let servers = kit.servers.status().await;
    let (text, details) = report::status(kit, &servers);
    Ok(ToolResult::text(text).with_details(details))
}

pub(super) async fn logs(kit: &Kit, args: &Arguments) -> Result<ToolResult, Failure> {
    let logs = kit.servers.logs(args.server.as_deref());
    if logs.is_empty() {
        return Err(Failure::new(ErrorCode::NotFound, "no such server is running; ask it something first"));
    }
    let text: Vec<String> = logs.iter().map(|log| report::log(kit, log)).collect();
    Ok(ToolResult::text(text.join("\n")))
}

fn needs(action: &str, argument: &str) -> Failure {
    Failure::new(ErrorCode::InvalidArguments, format!("`{action}` needs `{argument}`"))
}

fn proposed(answer: Answer<WorkspaceEdit>) -> Proposed {
    Proposed { edit: answer.value, server: Some(answer.server), note: answer.note }
}
