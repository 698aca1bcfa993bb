//! Navigation from a name: definitions, references, calls, types, hover.

use agent::{ToolCx, ToolResult};
use futures_util::future::BoxFuture;
use lsp_client::{Answer, Location, Navigate, ServerError, Signature, Symbol, Types};
use serde::Deserialize;
use serde_json::{Value, json};
use text::shorten;

use super::action::{ActionGroup, ActionSpec, Call, question};
use super::{may_read, report};
use crate::search::target::{self, Place};
use crate::{Failure, ToolContext, counted, notes};

/// Maximum number of functions or types in the text.
const MAX_LISTED: usize = 100;
/// Characters of a source line in the details.
const MAX_LINE: usize = 400;

#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub(super) enum NavigationAction {
    Definition(Place),
    Declaration(Place),
    TypeDefinition(Place),
    Implementation(Place),
    References(Place),
    Hover(Place),
    Signature(Place),
    Callers(Place),
    Callees(Place),
    Supertypes(Place),
    Subtypes(Place),
}

impl ActionGroup for NavigationAction {
    const ACTIONS: &'static [ActionSpec] = &[
        question("definition"),
        question("declaration"),
        question("type_definition"),
        question("implementation"),
        question("references"),
        question("hover"),
        question("signature"),
        question("callers"),
        question("callees"),
        question("supertypes"),
        question("subtypes"),
    ];

    fn run<'a>(self, call: &'a Call<'a>) -> BoxFuture<'a, Result<ToolResult, Failure>> {
        Box::pin(async move {
            match self {
                Self::Definition(place) => locations(call, &place, Navigate::Definition).await,
                Self::Declaration(place) => locations(call, &place, Navigate::Declaration).await,
                Self::TypeDefinition(place) => locations(call, &place, Navigate::TypeDefinition).await,
                Self::Implementation(place) => locations(call, &place, Navigate::Implementation).await,
                Self::References(place) => references(call, &place).await,
                Self::Hover(place) => hover(call, &place).await,
                Self::Signature(place) => signature(call, &place).await,
                Self::Callers(place) => callers(call, &place).await,
                Self::Callees(place) => callees(call, &place).await,
                Self::Supertypes(place) => types(call, &place, Types::Super).await,
                Self::Subtypes(place) => types(call, &place, Types::Sub).await,
            }
        })
    }
}

/// Finds the places to which `definition` and similar requests lead.
async fn locations(call: &Call<'_>, place: &Place, to: Navigate) -> Result<ToolResult, Failure> {
    let Call { context, cx, request, .. } = call;
    let words = match to {
        Navigate::Definition => "definition",
        Navigate::Declaration => "declaration",
        Navigate::TypeDefinition => "type",
        Navigate::Implementation => "implementations",
    };
    let (target, others) = target::resolve_all(context, place, request).await?;
    let mut answer = context.servers.navigate(to, &target.document, target.range.start, request).await?;
    for other in &others {
        let more = context.servers.navigate(to, &other.document, other.range.start, request).await?;
        add(&mut answer, more);
    }
    Ok(shown(context, &format!("{words} of {}", target.title(context)), answer, cx).await)
}

/// Adds the places of another declaration of the same symbol.
fn add(answer: &mut Answer<Vec<Location>>, more: Answer<Vec<Location>>) {
    let places = &mut answer.value;
    for place in more.value {
        if !places.iter().any(|known| known.path == place.path && known.range.start == place.range.start) {
            places.push(place);
        }
    }
    if answer.notes.is_empty() {
        answer.notes = more.notes;
    }
}

async fn references(call: &Call<'_>, place: &Place) -> Result<ToolResult, Failure> {
    let Call { context, cx, request, .. } = call;
    let (target, others) = target::resolve_all(context, place, request).await?;
    let mut answer = context.servers.references(&target.document, target.range.start, true, request).await?;
    for other in &others {
        let more = context.servers.references(&other.document, other.range.start, true, request).await?;
        add(&mut answer, more);
    }
    Ok(shown(context, &format!("references of {}", target.title(context)), answer, cx).await)
}

async fn shown(context: &ToolContext, title: &str, answer: Answer<Vec<Location>>, cx: &ToolCx) -> ToolResult {
    let mut text = report::heading(
        title,
        answer.value.len(),
        &answer.server,
        notes::render(context, &answer.notes).as_deref(),
    );
    text.push_str(&report::locations(context, &answer.value, cx).await);
    let listed = answer.value.iter().take(report::MAX_ENTRIES);
    let list: Vec<Value> = listed.map(|place| location(context, place, cx)).collect();
    let left_out = answer.value.len() - list.len();
    ToolResult::text(text).with_details(
        json!({ "locations": list, "left_out": left_out, "server": answer.server, "note": notes::render(context, &answer.notes) }),
    )
}

fn location(context: &ToolContext, place: &Location, cx: &ToolCx) -> Value {
    let is_shown = !place.path.starts_with(context.workspace.root()) || may_read(&place.path, cx);
    let text = if is_shown { shorten(&place.line_text, MAX_LINE) } else { "(protected)".into() };
    json!({
        "path": context.display_path(&place.path), "line": place.line, "column": place.column,
        "range": [place.range.start, place.range.end], "text": text,
    })
}

async fn hover(call: &Call<'_>, place: &Place) -> Result<ToolResult, Failure> {
    let Call { context, request, .. } = call;
    let target = target::resolve(context, place, request).await?;
    let answer = context.servers.hover(&target.document, target.range.start, request).await?;
    Ok(render_hover(context, &target, answer))
}

fn render_hover(
    context: &ToolContext,
    target: &target::Target,
    answer: Answer<Option<String>>,
) -> ToolResult {
    let what = match target.range.is_empty() {
        true => target.title(context),
        false => format!("`{}` at {}", target.name(), target.shown(context)),
    };
    let body = match &answer.value {
        Some(text) => format!("{what} ({})\n{}", answer.server, text.trim()),
        None => format!("{} has no hover text for {what}", answer.server),
    };
    let text = report::with_note(&body, notes::render(context, &answer.notes).as_deref());
    ToolResult::text(text)
        .with_details(json!({ "hover": answer.value, "server": answer.server, "note": notes::render(context, &answer.notes) }))
}

/// Finds the signature of a function.
///
/// Requests it inside the parentheses of a call, where servers know it. A name without a call gets the hover text.
async fn signature(call: &Call<'_>, place: &Place) -> Result<ToolResult, Failure> {
    let Call { context, request, .. } = call;
    let target = target::resolve(context, place, request).await?;
    let text = &target.document.text;
    let rest = &text[target.range.end..];
    let before = rest.find(['(', '\n', ';', '{']).filter(|at| rest[*at..].starts_with('('));
    let inside = match before {
        Some(at) if !target.range.is_empty() => target.range.end + at + 1,
        _ => target.range.start,
    };
    let answer = match context.servers.signature(&target.document, inside, request).await {
        Ok(answer) if !answer.value.is_empty() => answer,
        Ok(_) | Err(ServerError::Unsupported { .. }) => {
            let answer = context.servers.hover(&target.document, target.range.start, request).await?;
            return Ok(render_hover(context, &target, answer));
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
        &format!("signature of {} ({})", target.title(context), answer.server),
        notes::render(context, &answer.notes).as_deref(),
    ) + "\n";
    let active = answer.value.iter().filter(|it| it.active);
    active.chain(answer.value.iter().filter(|it| !it.active)).for_each(|it| text.push_str(&row(it)));
    let labels: Vec<&str> = answer.value.iter().map(|it| it.label.as_str()).collect();
    Ok(ToolResult::text(text).with_details(json!({ "signatures": labels, "server": answer.server })))
}

async fn callers(call: &Call<'_>, place: &Place) -> Result<ToolResult, Failure> {
    let Call { context, request, .. } = call;
    let target = target::resolve(context, place, request).await?;
    let (document, offset) = (&target.document, target.range.start);
    let found = refactor::callers(&context.workspace, &context.servers, document, offset, request).await?;
    let note = notes::render_refactoring(context, &found.notes);
    Ok(calls(call, "callers", &target, &found.calls, &found.server, note).await)
}

async fn callees(call: &Call<'_>, place: &Place) -> Result<ToolResult, Failure> {
    let Call { context, request, .. } = call;
    let target = target::resolve(context, place, request).await?;
    let answer = context.servers.callees(&target.document, target.range.start, request).await?;
    let note = notes::render(context, &answer.notes);
    Ok(calls(call, "callees", &target, &answer.value, &answer.server, note).await)
}

/// Renders callers or callees.
async fn calls(
    Call { context, cx, .. }: &Call<'_>,
    title: &str,
    target: &target::Target,
    calls: &[lsp_client::Call],
    server: &str,
    note: Option<String>,
) -> ToolResult {
    let places: Vec<Location> = calls.iter().flat_map(|call| call.places.clone()).collect();
    let amount = match calls.len() {
        0 => "none found".to_owned(),
        count => format!("{} with {}", counted(count, "function"), counted(places.len(), "call")),
    };
    let heading = format!("{title} of {}: {amount} ({server})", target.title(context));
    let mut text = report::with_note(&heading, note.as_deref()) + "\n";
    // The rows of calls name their callers; where callees are, only the list says.
    if title == "callees" {
        let symbols: Vec<&Symbol> = calls.iter().map(|call| &call.symbol).collect();
        text.push_str(&listed(context, &symbols));
    }
    text.push_str(&report::locations(context, &places, cx).await);
    let list: Vec<Value> = calls
        .iter()
        .map(|call| {
            let places: Vec<Value> = call.places.iter().map(|place| location(context, place, cx)).collect();
            json!({ "name": call.symbol.name, "kind": call.symbol.kind, "path": context.display_path(&call.symbol.file),
                "line": call.symbol.line, "calls": places })
        })
        .collect();
    ToolResult::text(text).with_details(json!({ "functions": list, "server": server, "note": note }))
}

async fn types(call: &Call<'_>, place: &Place, direction: Types) -> Result<ToolResult, Failure> {
    let Call { context, request, .. } = call;
    let target = target::resolve(context, place, request).await?;
    let answer = context.servers.types(direction, &target.document, target.range.start, request).await?;
    let words = if direction == Types::Super { "supertypes" } else { "subtypes" };
    let amount =
        if answer.value.is_empty() { "none found".to_owned() } else { counted(answer.value.len(), "type") };
    let title = format!("{words} of {}: {amount} ({})", target.title(context), answer.server);
    let mut text = report::with_note(&title, notes::render(context, &answer.notes).as_deref()) + "\n";
    text.push_str(&listed(context, &answer.value.iter().collect::<Vec<_>>()));
    let row = |it: &Symbol| json!({ "name": it.name, "kind": it.kind, "path": context.display_path(&it.file), "line": it.line });
    let list: Vec<Value> = answer.value.iter().map(row).collect();
    Ok(ToolResult::text(text).with_details(
        json!({ "types": list, "server": answer.server, "note": notes::render(context, &answer.notes) }),
    ))
}

fn listed(context: &ToolContext, symbols: &[&Symbol]) -> String {
    let mut out: String = symbols
        .iter()
        .take(MAX_LISTED)
        .map(|it| format!("  {}:{}: {} {}\n", context.display_path(&it.file), it.line, it.kind, it.name))
        .collect();
    if symbols.len() > MAX_LISTED {
        out.push_str(&format!("  … and {} more\n", symbols.len() - MAX_LISTED));
    }
    out
}
