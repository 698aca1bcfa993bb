//! From a name to places: definitions, uses, calls, types; and what is said about it.

use agent::{ToolCx, ToolResult};
use lsp_client::{Answer, Calls, Location, Navigate, ServerError, Signature, Symbol, Types};
use serde_json::{Value, json};

use super::{Arguments, report, target};
use crate::{Failure, Kit, counted};

/// At most this many functions or types are listed.
const MAX_LISTED: usize = 100;

/// `definition` and its kin.
pub(super) async fn places(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let (to, words) = match args.action.as_str() {
        "declaration" => (Navigate::Declaration, "declaration"),
        "type_definition" => (Navigate::TypeDefinition, "type"),
        "implementation" => (Navigate::Implementation, "implementations"),
        _ => (Navigate::Definition, "definition"),
    };
    let (target, others) = target::resolve_all(kit, args, &request).await?;
    let mut answer = kit.servers.navigate(to, &target.document, target.range.start, &request).await?;
    for other in &others {
        let more = kit.servers.navigate(to, &other.document, other.range.start, &request).await?;
        add(&mut answer, more);
    }
    Ok(shown(kit, &format!("{words} of {}", target.title(kit)), answer, cx))
}

/// The places of an answer about the same, asked from another place, that are not there yet.
fn add(answer: &mut Answer<Vec<Location>>, more: Answer<Vec<Location>>) {
    let places = &mut answer.value;
    for place in more.value {
        if !places.iter().any(|known| known.path == place.path && known.range.start == place.range.start) {
            places.push(place);
        }
    }
    answer.note = answer.note.take().or(more.note);
}

pub(super) async fn references(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let (target, others) = target::resolve_all(kit, args, &request).await?;
    let mut answer = kit.servers.references(&target.document, target.range.start, true, &request).await?;
    for other in &others {
        let more = kit.servers.references(&other.document, other.range.start, true, &request).await?;
        add(&mut answer, more);
    }
    Ok(shown(kit, &format!("references of {}", target.title(kit)), answer, cx))
}

fn shown(kit: &Kit, title: &str, answer: Answer<Vec<Location>>, cx: &ToolCx) -> ToolResult {
    let mut text = report::heading(title, answer.value.len(), &answer.server, answer.note.as_deref());
    text.push_str(&report::locations(kit, &answer.value, cx));
    let listed = answer.value.iter().take(report::MAX_ENTRIES);
    let list: Vec<Value> = listed.map(|place| location(kit, place)).collect();
    let left_out = answer.value.len() - list.len();
    ToolResult::text(text).with_details(
        json!({ "locations": list, "left_out": left_out, "server": answer.server, "note": answer.note }),
    )
}

fn location(kit: &Kit, place: &Location) -> Value {
    json!({ "path": kit.shown(&place.path), "line": place.line, "range": [place.range.start, place.range.end] })
}

pub(super) async fn hover(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let target = target::resolve(kit, args, &request).await?;
    let answer = kit.servers.hover(&target.document, target.range.start, &request).await?;
    Ok(said(kit, &target, answer))
}

fn said(kit: &Kit, target: &target::Target, answer: Answer<Option<String>>) -> ToolResult {
    let what = match target.range.is_empty() {
        true => target.title(kit),
        false => format!("`{}` at {}", target.name(), target.shown(kit)),
    };
    let said = match &answer.value {
        Some(text) => format!("{what} ({})\n{}", answer.server, text.trim()),
        None => format!("{} says nothing about {what}", answer.server),
    };
    let text = report::with_note(&said, answer.note.as_deref());
    ToolResult::text(text)
        .with_details(json!({ "hover": answer.value, "server": answer.server, "note": answer.note }))
}

/// How a function is called: asked inside the parentheses of a call, which is where servers know it;
/// of a name without any, what hovering says.
pub(super) async fn signature(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let target = target::resolve(kit, args, &request).await?;
    let text = &target.document.text;
    let rest = &text[target.range.end..];
    let before = rest.find(['(', '\n', ';', '{']).filter(|at| rest[*at..].starts_with('('));
    let inside = match before {
        Some(at) if !target.range.is_empty() => target.range.end + at + 1,
        _ => target.range.start,
    };
    let answer = match kit.servers.signature(&target.document, inside, &request).await {
        Ok(answer) if !answer.value.is_empty() => answer,
        Ok(_) | Err(ServerError::Unsupported { .. }) => {
            let answer = kit.servers.hover(&target.document, target.range.start, &request).await?;
            return Ok(said(kit, &target, answer));
        }
        Err(error) => return Err(error.into()),
    };
    let row = |signature: &Signature| {
        let mark = if signature.active { "" } else { "or " };
        let at = signature.parameter.as_ref().map(|it| format!("\n  at: {it}")).unwrap_or_default();
        let about =
            signature.documentation.as_ref().map(|it| format!("\n  {}", it.trim().replace('\n', "\n  ")));
        format!("{mark}{}{at}{}\n", signature.label, about.unwrap_or_default())
    };
    let mut text = report::with_note(
        &format!("signature of {} ({})", target.title(kit), answer.server),
        answer.note.as_deref(),
    ) + "\n";
    let active = answer.value.iter().filter(|it| it.active);
    active.chain(answer.value.iter().filter(|it| !it.active)).for_each(|it| text.push_str(&row(it)));
    let labels: Vec<&str> = answer.value.iter().map(|it| it.label.as_str()).collect();
    Ok(ToolResult::text(text).with_details(json!({ "signatures": labels, "server": answer.server })))
}

/// `callers` and `callees`.
pub(super) async fn calls(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let way = if args.action == "callers" { Calls::Incoming } else { Calls::Outgoing };
    let target = target::resolve(kit, args, &request).await?;
    let answer = kit.servers.calls(way, &target.document, target.range.start, &request).await?;
    let calls = &answer.value;
    let places: Vec<Location> = calls.iter().flat_map(|call| call.places.clone()).collect();
    let amount = match calls.len() {
        0 => "none found".to_owned(),
        count => format!("{} with {}", counted(count, "function"), counted(places.len(), "call")),
    };
    let title = format!("{} of {}: {amount} ({})", args.action, target.title(kit), answer.server);
    let mut text = report::with_note(&title, answer.note.as_deref()) + "\n";
    let symbols: Vec<&Symbol> = calls.iter().map(|call| &call.symbol).collect();
    text.push_str(&listed(kit, &symbols));
    text.push_str(&report::locations(kit, &places, cx));
    let list: Vec<Value> = calls
        .iter()
        .map(|call| {
            let places: Vec<Value> = call.places.iter().map(|place| location(kit, place)).collect();
            json!({ "name": call.symbol.name, "kind": call.symbol.kind, "path": kit.shown(&call.symbol.file),
                "line": call.symbol.line, "calls": places })
        })
        .collect();
    Ok(ToolResult::text(text)
        .with_details(json!({ "functions": list, "server": answer.server, "note": answer.note })))
}

/// `supertypes` and `subtypes`.
pub(super) async fn types(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let way = if args.action == "supertypes" { Types::Super } else { Types::Sub };
    let target = target::resolve(kit, args, &request).await?;
    let answer = kit.servers.types(way, &target.document, target.range.start, &request).await?;
    let amount =
        if answer.value.is_empty() { "none found".to_owned() } else { counted(answer.value.len(), "type") };
    let title = format!("{} of {}: {amount} ({})", args.action, target.title(kit), answer.server);
    let mut text = report::with_note(&title, answer.note.as_deref()) + "\n";
    text.push_str(&listed(kit, &answer.value.iter().collect::<Vec<_>>()));
    let row = |it: &Symbol| json!({ "name": it.name, "kind": it.kind, "path": kit.shown(&it.file), "line": it.line });
    let list: Vec<Value> = answer.value.iter().map(row).collect();
    Ok(ToolResult::text(text)
        .with_details(json!({ "types": list, "server": answer.server, "note": answer.note })))
}

fn listed(kit: &Kit, symbols: &[&Symbol]) -> String {
    let mut out: String = symbols
        .iter()
        .take(MAX_LISTED)
        .map(|it| format!("  {}:{}: {} {}\n", kit.shown(&it.file), it.line, it.kind, it.name))
        .collect();
    if symbols.len() > MAX_LISTED {
        out.push_str(&format!("  … and {} more\n", symbols.len() - MAX_LISTED));
    }
    out
}
