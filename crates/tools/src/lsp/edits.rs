//! Edits that a server works out whole: renames, formatting, imports.

use std::sync::{Mutex, PoisonError};

use agent::{ToolCx, ToolResult};
use lsp_client::Answer;
use workspace::{ErrorCode, WorkspaceEdit};

use super::{Arguments, needs, report, shorthand, target};
use crate::change::{self, Change, Proposed};
use crate::{Failure, Kit, words};

pub(super) async fn rename(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let new_name = args
        .new_name
        .as_deref()
        .filter(|name| !name.is_empty())
        .ok_or_else(|| needs("rename", "new_name"))?;
    let found = target::resolve_all(kit, args, &request).await?;
    let old_name = found.0.name().to_owned();
    if old_name == new_name {
        return Err(Failure::new(ErrorCode::InvalidArguments, format!("it is named `{old_name}` already")));
    }
    let label = format!("rename {old_name} to {new_name}");
    let old = &old_name;
    let change = Change { label: &label, places: true, apply: args.apply != Some(false) };
    let first = Mutex::new(Some(found));
    let mut done = change::make(kit, cx, change, |again| {
        let request = if again { request.anew() } else { request.clone() };
        let known = first.lock().unwrap_or_else(PoisonError::into_inner).take().filter(|_| !again);
        Box::pin(async move {
            let (target, others) = match known {
                Some(known) => known,
                // For a second attempt the text may have moved.
                None => target::resolve_all(kit, args, &request).await?,
            };
            let clash = target::sibling(kit, &target, new_name, &request).await;
            let mut answer =
                kit.servers.rename(&target.document, target.range.start, new_name, &request).await?;
            if let Some(left) = target::left_out(&answer.value, &others) {
                let symbol = args.symbol.as_deref().unwrap_or(old);
                return Err(target::apart(kit, symbol, &target, left));
            }
            if let Some(place) = clash {
                let said = format!("`{new_name}` is declared at {place} too: two things of one name");
                answer.note = Some(answer.note.map_or(said.clone(), |note| format!("{said}; {note}")));
            }
            shorthand::keep(kit, &mut answer.value, old, new_name);
            Ok(proposed(answer))
        })
    })
    .await?;
    if done.applied {
        let left = words::files_with(kit, &old_name, &kit.request(&cx.cancel, None)).await?;
        let files = done.details["files"].as_array().into_iter().flatten();
        let edited: Vec<String> = files.filter_map(|it| it["path"].as_str().map(str::to_owned)).collect();
        done.text.push_str(&report::left_over(kit, &old_name, &left, &edited));
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
    let (from_path, to_path) = (&from_path, &to_path);
    let label = format!("move {} to {}", kit.shown(from_path), kit.shown(to_path));
    let change = Change { label: &label, places: true, apply: args.apply != Some(false) };
    let done = change::make(kit, cx, change, |again| {
        let request = if again { request.anew() } else { request.clone() };
        Box::pin(async move {
            let answer = kit.servers.rename_file(from_path, to_path, &request).await?;
            Ok(proposed(answer))
        })
    })
    .await?;
    Ok(done.into())
}

/// `organize_imports` and `format`, of one file (or a range of it) or several: one edit.
pub(super) async fn tidy(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let action = args.action.as_str();
    let files: Vec<&String> = args.files.iter().flatten().chain(&args.file).collect();
    if files.is_empty() {
        return Err(needs(action, "file"));
    }
    if args.range.is_some() && (files.len() > 1 || action != "format") {
        let message = "`range` is for `format` of one `file`";
        return Err(Failure::new(ErrorCode::InvalidArguments, message));
    }
    let files = &files[..];
    let words = if action == "format" { "format" } else { "organize imports in" };
    let label = match files {
        [file] => format!("{words} {file}"),
        files => format!("{words} {} files", files.len()),
    };
    let change = Change { label: &label, places: false, apply: args.apply != Some(false) };
    let done = change::make(kit, cx, change, |again| {
        let request = if again { request.anew() } else { request.clone() };
        Box::pin(async move {
            let mut all = Proposed { edit: WorkspaceEdit::default(), server: None, note: None };
            for file in files {
                let document = kit.document(file)?;
                let answer = if action == "format" {
                    let range = target::range(kit, &document, args)?;
                    kit.servers.format(&document, range, &request).await?
                } else {
                    kit.servers.organize_imports(&document, &request).await?
                };
                join(&mut all, answer);
            }
            Ok(all)
        })
    })
    .await?;
    Ok(done.into())
}

fn join(all: &mut Proposed, answer: Answer<WorkspaceEdit>) {
    let Proposed { edit, server, note } = proposed(answer);
    all.edit.operations.extend(edit.operations);
    all.edit.confirm.extend(edit.confirm);
    let add = |known: &mut Option<String>, more: Option<String>| match (known.as_mut(), more) {
        (Some(known), Some(more)) if !known.contains(&more) => known.push_str(&format!(", {more}")),
        (None, more) => *known = more,
        _ => {}
    };
    add(&mut all.server, server);
    add(&mut all.note, note);
}

pub(super) fn proposed(answer: Answer<WorkspaceEdit>) -> Proposed {
    Proposed { edit: answer.value, server: Some(answer.server), note: answer.note }
}
