//! Edits that a server computes: renames, moves, formatting, imports.

use agent::ToolResult;
use futures_util::future::BoxFuture;
use lsp_client::ServerError;
use parking_lot::Mutex;
use policy::ErrorCode;
use refactor::{Declaration, RefactorError, RenameRequest};
use serde::Deserialize;

use super::action::{ActionGroup, ActionSpec, Call, Effect, Takes, needs};
use super::diagnostics::{self, FileNames};
use crate::change::{self, Change, Proposal};
use crate::search::target::{self, Place};
use crate::{Failure, counted, notes};

#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub(super) enum EditAction {
    Rename {
        #[serde(flatten)]
        place: Place,
        new_name: String,
        apply: Option<bool>,
    },
    RenameFile {
        file: String,
        to: String,
        apply: Option<bool>,
    },
    OrganizeImports(Files),
    Format(Files),
}

/// Files to rewrite, or a range of one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Files {
    files: Vec<String>,
    #[serde(flatten)]
    place: Place,
    apply: Option<bool>,
}

impl ActionGroup for EditAction {
    const ACTIONS: &'static [ActionSpec] = &[
        ActionSpec { name: "rename", takes: Takes::One, effect: Effect::Edits },
        ActionSpec { name: "rename_file", takes: Takes::One, effect: Effect::Edits },
        ActionSpec { name: "organize_imports", takes: Takes::Together, effect: Effect::Edits },
        ActionSpec { name: "format", takes: Takes::Together, effect: Effect::Edits },
    ];

    fn run<'a>(self, call: &'a Call<'a>) -> BoxFuture<'a, Result<ToolResult, Failure>> {
        Box::pin(async move {
            match self {
                Self::Rename { place, new_name, apply } => rename(call, &place, &new_name, apply).await,
                Self::RenameFile { file, to, apply } => rename_file(call, &file, &to, apply).await,
                Self::OrganizeImports(files) => rewrite(call, Rewrite::OrganizeImports, &files).await,
                Self::Format(files) => rewrite(call, Rewrite::Format, &files).await,
            }
        })
    }
}

async fn rename(
    call: &Call<'_>,
    place: &Place,
    new_name: &str,
    apply: Option<bool>,
) -> Result<ToolResult, Failure> {
    let Call { context, cx, request, .. } = call;
    if new_name.is_empty() {
        return Err(needs("rename", "new_name"));
    }
    let found = target::resolve_all(context, place, request).await?;
    target::require_size(context, &found.0.document)?;
    if let (Some(line), None, None) = (place.line, &place.symbol, place.column)
        && target::declared_on(context, &found.0.document, line, request).await?.is_none()
    {
        // The first word of the line would be a guess.
        let message = format!("line {line} does not declare one symbol; give the name, or the column");
        return Err(Failure::new(ErrorCode::Ambiguous, message));
    }
    let old_name = found.0.name().to_owned();
    if old_name == new_name {
        return Err(Failure::new(ErrorCode::InvalidArguments, format!("it is named `{old_name}` already")));
    }
    let label = format!("rename {old_name} to {new_name}");
    let change = Change { label: &label, places: true, apply: apply != Some(false) };
    let first = Mutex::new(Some(found));
    let old_name = &old_name;
    let done = change::apply(context, cx, change, |again| {
        let request = if again { request.restarted() } else { request.clone() };
        let known = first.lock().take().filter(|_| !again);
        Box::pin(async move {
            let (target, others) = match known {
                Some(known) => known,
                // On a second attempt the text may have moved.
                None => target::resolve_all(context, place, &request).await?,
            };
            let declaration =
                |it: &target::Target| Declaration { path: it.document.path.clone(), range: it.range.clone() };
            let declarations: Vec<Declaration> = others.iter().map(declaration).collect();
            let rename = RenameRequest {
                document: &target.document,
                range: target.range.clone(),
                new_name,
                declarations: &declarations,
            };
            match refactor::rename(&context.workspace, &context.servers, &rename, &request).await {
                Ok(renamed) => {
                    let note = notes::render_refactoring(context, &renamed.notes);
                    // A position may be on a keyword before the name.
                    let label = Some(format!("rename {} to {new_name}", renamed.old_name));
                    let mentions = Some((renamed.old_name, renamed.mentions));
                    Ok(Proposal { edit: renamed.edit, server: Some(renamed.server), note, mentions, label })
                }
                Err(RefactorError::DeclarationKept { index }) => {
                    let symbol = place.symbol.as_deref().unwrap_or(old_name);
                    Err(target::ambiguous(context, symbol, &[target, others[index].clone()]))
                }
                Err(error) => Err(error.into()),
            }
        })
    })
    .await?;
    Ok(done.into())
}

async fn rename_file(
    call: &Call<'_>,
    file: &str,
    to: &str,
    apply: Option<bool>,
) -> Result<ToolResult, Failure> {
    let Call { context, cx, request, .. } = call;
    let from_path = context.workspace.resolve(file)?;
    let mut to_path = context.workspace.resolve(to)?;
    // Into a directory, as `mv` does.
    if to.ends_with('/') || context.workspace.list(&to_path).is_ok() {
        to_path = to_path.join(from_path.file_name());
    }
    let (from, to) = (&from_path, &to_path);
    let label = format!("move {} to {}", context.display_path(from), context.display_path(to));
    let change = Change { label: &label, places: true, apply: apply != Some(false) };
    let done = change::apply(context, cx, change, |again| {
        let request = if again { request.restarted() } else { request.clone() };
        Box::pin(async move {
            let moved = refactor::move_file(&context.workspace, &context.servers, from, to, &request).await?;
            let note = notes::render_refactoring(context, &moved.notes);
            Ok(Proposal { edit: moved.edit, server: Some(moved.server), note, ..Proposal::default() })
        })
    })
    .await?;
    Ok(done.into())
}

/// A kind of rewrite of whole files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rewrite {
    OrganizeImports,
    Format,
}

/// Rewrites one file (or a range of it) or several, as one edit.
async fn rewrite(call: &Call<'_>, rewrite: Rewrite, args: &Files) -> Result<ToolResult, Failure> {
    let Call { context, cx, request, .. } = call;
    let files: Vec<&String> = args.files.iter().chain(&args.place.file).collect();
    let (action, words) = match rewrite {
        Rewrite::OrganizeImports => ("organize_imports", "organize imports in"),
        Rewrite::Format => ("format", "format"),
    };
    if files.is_empty() {
        return Err(needs(action, "file"));
    }
    if args.place.range.is_some() && (files.len() > 1 || rewrite != Rewrite::Format) {
        let message = "`range` is for `format` of one `file`";
        return Err(Failure::new(ErrorCode::InvalidArguments, message));
    }
    let is_glob = files.iter().any(|file| diagnostics::is_glob(file));
    let mut left = 0;
    let matching: Vec<String> = if is_glob {
        let named = FileNames { file: args.place.file.clone(), files: args.files.clone() };
        let (documents, others) = diagnostics::documents(context, &named, cx)?;
        left = others.len();
        documents.iter().map(|document| context.display_path(&document.path)).collect()
    } else {
        files.into_iter().cloned().collect()
    };
    let files = &matching[..];
    let label = match files {
        [file] => format!("{words} {file}"),
        files => format!("{words} {} files", files.len()),
    };
    let change = Change { label: &label, places: false, apply: args.apply != Some(false) };
    let done = change::apply(context, cx, change, |again| {
        let request = if again { request.restarted() } else { request.clone() };
        Box::pin(async move {
            let note = format!("{} not asked about: a call takes {}", counted(left, "file"), files.len());
            let mut all = Proposal { note: (left > 0).then_some(note), ..Proposal::default() };
            for file in files {
                let document = context.document(file)?;
                let answer = match rewrite {
                    Rewrite::Format => {
                        let range = target::range(context, &document, &args.place)?;
                        context.servers.format(&document, range, &request).await
                    }
                    Rewrite::OrganizeImports => context.servers.organize_imports(&document, &request).await,
                };
                let answer = match answer {
                    // A glob means the files that servers can rewrite.
                    Err(ServerError::Unsupported { .. }) if is_glob => continue,
                    answer => answer?,
                };
                all.edit.operations.extend(answer.value.operations);
                all.edit.confirm.extend(answer.value.confirm);
                append(&mut all.server, Some(answer.server));
                append(&mut all.note, notes::render(context, &answer.notes));
            }
            Ok(all)
        })
    })
    .await?;
    Ok(done.into())
}

/// Appends a text, unless `all` contains it.
fn append(all: &mut Option<String>, more: Option<String>) {
    match (all.as_mut(), more) {
        (Some(all), Some(more)) if !all.contains(&more) => all.push_str(&format!(", {more}")),
        (None, more) => *all = more,
        _ => {}
    }
}
