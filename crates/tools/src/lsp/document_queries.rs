//! Questions about one file: its symbols, highlights, inlay hints, completions.

use std::ops::Range;
use std::time::Instant;

use agent::ToolResult;
use futures_util::future::BoxFuture;
use lsp_client::{Completion, Highlight};
use serde::Deserialize;
use serde_json::{Value, json};
use text::LineIndex;

use super::action::{ActionGroup, ActionSpec, Call, needs, question};
use super::{report, truncate};
use crate::search::target::{self, Place};
use crate::{Failure, counted, notes};

/// Maximum number of lines with inlay hints in the text.
const MAX_HINTED: usize = 200;
/// Maximum number of completions in the text.
const MAX_COMPLETIONS: usize = 50;

#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub(super) enum DocumentAction {
    Symbols {
        #[serde(flatten)]
        place: Place,
        query: Option<String>,
    },
    Highlights(Place),
    InlayHints(Place),
    Completion {
        #[serde(flatten)]
        place: Place,
        query: Option<String>,
    },
}

impl ActionGroup for DocumentAction {
    const ACTIONS: &'static [ActionSpec] =
        &[question("symbols"), question("highlights"), question("inlay_hints"), question("completion")];

    fn run<'a>(self, call: &'a Call<'a>) -> BoxFuture<'a, Result<ToolResult, Failure>> {
        Box::pin(async move {
            match self {
                Self::Symbols { place, query } => symbols(call, &place, query.as_deref()).await,
                Self::Highlights(place) => highlights(call, &place).await,
                Self::InlayHints(place) => inlay_hints(call, &place).await,
                Self::Completion { place, query } => completion(call, &place, query.as_deref()).await,
            }
        })
    }
}

/// Lists the symbols of a file, or those of the workspace that match a query.
async fn symbols(call: &Call<'_>, place: &Place, query: Option<&str>) -> Result<ToolResult, Failure> {
    let Call { context, cx, request, .. } = call;
    let query = query.or(place.symbol.as_deref());
    let (found, server) = match (&place.file, query) {
        (Some(file), query) => {
            let document = context.document(file)?;
            let answer = context.servers.symbols(&document, request).await?;
            (report::symbols(context, &document, &answer, query), answer.server)
        }
        (None, Some(query)) if !query.trim().is_empty() => {
            let answer = context.servers.workspace_symbols(query, None, request).await?;
            (report::found_symbols(context, query, &answer, cx), answer.server)
        }
        _ => return Err(needs("symbols", "file` or `query")),
    };
    let details = json!({ "symbols": found.list, "server": server, "partial": found.is_partial });
    Ok(ToolResult::text(found.text).with_details(details))
}

/// Lists the reads and writes of a symbol in its file.
async fn highlights(call: &Call<'_>, place: &Place) -> Result<ToolResult, Failure> {
    let Call { context, cx, .. } = call;
    let mut request = call.request.clone();
    let target = target::resolve(context, place, &request).await?;
    if place.file.is_none() {
        let asked = Instant::now();
        cx.permit_read(&target.document.path).await?;
        // The user's time does not count.
        request.began += asked.elapsed();
    }
    let answer = context.servers.highlights(&target.document, target.range.start, &request).await?;
    let found = &answer.value;
    let title = format!("uses of `{}` in {}", target.name(), context.display_path(&target.document.path));
    let mut text = report::heading(
        &title,
        found.len(),
        &answer.server,
        notes::render(context, &answer.notes).as_deref(),
    );
    let lines_of = |kind: &str| -> Vec<usize> {
        let of_kind = found.iter().filter(|it: &&Highlight| it.kind == kind);
        of_kind.map(|it| it.line).collect()
    };
    for kind in ["write", "read"] {
        let mut lines = lines_of(kind);
        lines.dedup();
        if !lines.is_empty() {
            let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
            text.push_str(&format!("{kind} on {}\n", lines.join(", ")));
        }
    }
    let mut lines: Vec<usize> = found.iter().map(|it| it.line).collect();
    lines.dedup();
    if !lines.is_empty() {
        text.push_str(&truncate::lines(context, &target.document, &lines, &[]));
    }
    let list: Vec<Value> = found
        .iter()
        .map(|it| json!({ "line": it.line, "range": [it.range.start, it.range.end], "kind": it.kind }))
        .collect();
    Ok(ToolResult::text(text).with_details(
        json!({ "highlights": list, "server": answer.server, "note": notes::render(context, &answer.notes) }),
    ))
}

/// Shows the lines of a file with their inlay hints.
async fn inlay_hints(call: &Call<'_>, place: &Place) -> Result<ToolResult, Failure> {
    let Call { context, request, .. } = call;
    let file = place.file.as_deref().ok_or_else(|| needs("inlay_hints", "file"))?;
    let document = context.document(file)?;
    let range = target::range(context, &document, place)?.unwrap_or(0..document.text.len());
    let answer = context.servers.inlay_hints(&document, range, request).await?;
    let index = LineIndex::new(&document.text);
    let title = format!(
        "{} in {} ({})",
        counted(answer.value.len(), "hint"),
        context.display_path(&document.path),
        answer.server
    );
    let mut text = report::with_note(&title, notes::render(context, &answer.notes).as_deref()) + "\n";
    let mut rest = &answer.value[..];
    let mut rows = 0;
    while let Some(first) = rest.first() {
        let count = rest.iter().take_while(|hint| hint.line == first.line).count();
        let (hints, after) = rest.split_at(count);
        rest = after;
        rows += 1;
        if rows > MAX_HINTED {
            continue;
        }
        let Range { start, end } = index.line(&document.text, first.line - 1).unwrap_or_default();
        let mut line = String::new();
        let mut at = start;
        for hint in hints {
            line.push_str(&document.text[at..hint.offset]);
            line.push_str(&format!("⟨{}⟩", hint.label));
            at = hint.offset;
        }
        line.push_str(&document.text[at..end]);
        text.push_str(&format!("{}: {}\n", first.line, line.trim()));
    }
    if rows > MAX_HINTED {
        text.push_str(&format!("… and {} more lines; name a `range`\n", rows - MAX_HINTED));
    }
    let list: Vec<Value> = answer
        .value
        .iter()
        .map(|it| json!({ "line": it.line, "offset": it.offset, "label": it.label }))
        .collect();
    Ok(ToolResult::text(text).with_details(
        json!({ "hints": list, "server": answer.server, "note": notes::render(context, &answer.notes) }),
    ))
}

/// Lists completions at a place: after a name, or at line and column.
async fn completion(call: &Call<'_>, place: &Place, query: Option<&str>) -> Result<ToolResult, Failure> {
    let Call { context, request, .. } = call;
    let target = target::resolve(context, place, request).await?;
    let offset = match (place.line, place.column) {
        (Some(line), Some(column)) if place.symbol.is_none() => {
            target::offset(&target.document, line, Some(column))?
        }
        _ => target.range.end,
    };
    let answer = context.servers.completion(&target.document, offset, request).await?;
    let (all, whole) = &answer.value;
    let lower = query.map(str::to_lowercase);
    let wanted =
        |item: &&Completion| lower.as_ref().is_none_or(|query| item.label.to_lowercase().contains(query));
    let items: Vec<&Completion> = all.iter().filter(wanted).collect();
    let amount = match (query, all.len()) {
        (_, 0) => "no completion".to_owned(),
        (Some(query), count) if items.is_empty() => {
            format!("none of {} contains `{query}`", counted(count, "completion"))
        }
        _ => counted(items.len(), "completion"),
    };
    let line = LineIndex::new(&target.document.text).line_of(offset) + 1;
    let at = format!("{}:{line}", context.display_path(&target.document.path));
    // An incomplete list changes as the name grows (LSP 3.17 §CompletionList).
    let more = match whole {
        true => String::new(),
        false => {
            format!("; {} may offer others once the name begins; ask again there", answer.server)
        }
    };
    let title = format!("{amount} at {at} ({}){more}", answer.server);
    let mut text = report::with_note(&title, notes::render(context, &answer.notes).as_deref()) + "\n";
    for item in items.iter().take(MAX_COMPLETIONS) {
        let detail = item.detail.as_ref().map(|detail| format!(": {}", detail.replace('\n', " ")));
        let old = if item.deprecated { " (deprecated)" } else { "" };
        text.push_str(&format!("  {} {}{}{old}\n", item.kind, item.label, detail.unwrap_or_default()));
    }
    if items.len() > MAX_COMPLETIONS {
        text.push_str(&format!("… and {} more; narrow it with `query`\n", items.len() - MAX_COMPLETIONS));
    }
    let labels: Vec<&str> = items.iter().map(|item| item.label.as_str()).collect();
    Ok(ToolResult::text(text).with_details(
        json!({ "completions": labels, "complete": whole, "server": answer.server, "note": notes::render(context, &answer.notes) }),
    ))
}
