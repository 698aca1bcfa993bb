//! What a file holds: its symbols, the uses of a name in it, what servers write between the lines.

use std::ops::Range;
use std::time::Instant;

use agent::{ToolCx, ToolResult};
use lsp_client::{Completion, Highlight};
use serde_json::{Value, json};
use text::LineIndex;

use super::{Arguments, bound, needs, report, target};
use crate::{Failure, Kit, counted};

/// At most this many lines with hints are shown.
const MAX_HINTED: usize = 200;
/// At most this many completions are listed.
const MAX_COMPLETIONS: usize = 50;

/// The symbols of a file, or those of the workspace that match.
pub(super) async fn symbols(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let query = args.query.as_deref().or(args.symbol.as_deref());
    let (text, list, server) = match (&args.file, query) {
        (Some(file), query) => {
            let document = kit.document(file)?;
            let answer = kit.servers.symbols(&document, &request).await?;
            let (text, list) = report::symbols(kit, &document, &answer, query);
            (text, list, answer.server)
        }
        (None, Some(query)) if !query.trim().is_empty() => {
            let answer = kit.servers.workspace_symbols(query, None, &request).await?;
            let (text, list) = report::found_symbols(kit, query, &answer, cx);
            (text, list, answer.server)
        }
        _ => return Err(needs("symbols", "file` or `query")),
    };
    Ok(ToolResult::text(text).with_details(json!({ "symbols": list, "server": server })))
}

/// Where a name is read and written in its file.
pub(super) async fn highlights(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let mut request = kit.request(&cx.cancel, args.timeout);
    let target = target::resolve(kit, args, &request).await?;
    if args.file.is_none() {
        let asked = Instant::now();
        cx.permit_read(&target.document.path).await?;
        // A person's time is not the call's.
        request.began += asked.elapsed();
    }
    let answer = kit.servers.highlights(&target.document, target.range.start, &request).await?;
    let found = &answer.value;
    let title = format!("uses of `{}` in {}", target.name(), kit.shown(&target.document.path));
    let mut text = report::heading(&title, found.len(), &answer.server, answer.note.as_deref());
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
        text.push_str(&bound::lines(kit, &target.document, &lines));
    }
    let list: Vec<Value> = found
        .iter()
        .map(|it| json!({ "line": it.line, "range": [it.range.start, it.range.end], "kind": it.kind }))
        .collect();
    Ok(ToolResult::text(text)
        .with_details(json!({ "highlights": list, "server": answer.server, "note": answer.note })))
}

/// A file's lines with what its server writes between their text.
pub(super) async fn inlay_hints(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let file = args.file.as_deref().ok_or_else(|| needs("inlay_hints", "file"))?;
    let document = kit.document(file)?;
    let range = target::range(kit, &document, args)?.unwrap_or(0..document.text.len());
    let answer = kit.servers.inlay_hints(&document, range, &request).await?;
    let index = LineIndex::new(&document.text);
    let title = format!(
        "{} in {} ({})",
        counted(answer.value.len(), "hint"),
        kit.shown(&document.path),
        answer.server
    );
    let mut text = report::with_note(&title, answer.note.as_deref()) + "\n";
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
    Ok(ToolResult::text(text)
        .with_details(json!({ "hints": list, "server": answer.server, "note": answer.note })))
}

/// What can be written at a place: behind a name, or at line and column.
pub(super) async fn completion(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let target = target::resolve(kit, args, &request).await?;
    let offset = match (args.line, args.column) {
        (Some(line), Some(column)) if args.symbol.is_none() => {
            target::offset(&target.document, line, Some(column))?
        }
        _ => target.range.end,
    };
    let answer = kit.servers.completion(&target.document, offset, &request).await?;
    let (all, whole) = &answer.value;
    let query = args.query.as_ref().map(|query| query.to_lowercase());
    let wanted =
        |item: &&Completion| query.as_ref().is_none_or(|query| item.label.to_lowercase().contains(query));
    let items: Vec<&Completion> = all.iter().filter(wanted).collect();
    let amount = match (&args.query, all.len()) {
        (_, 0) => "no completion".to_owned(),
        (Some(query), count) if items.is_empty() => {
            format!("none of {} holds `{query}`", counted(count, "completion"))
        }
        _ => counted(items.len(), "completion"),
    };
    let place = LineIndex::new(&target.document.text).line_of(offset) + 1;
    let place = format!("{}:{place}", kit.shown(&target.document.path));
    // An incomplete list is made anew as the name grows (LSP 3.17 §CompletionList).
    let more = match whole {
        true => String::new(),
        false => {
            format!("; {} may offer others behind the first letters of a name, so ask there", answer.server)
        }
    };
    let title = format!("{amount} at {place} ({}){more}", answer.server);
    let mut text = report::with_note(&title, answer.note.as_deref()) + "\n";
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
        json!({ "completions": labels, "complete": whole, "server": answer.server, "note": answer.note }),
    ))
}
