//! Requests while the user types: signatures, highlights, completions, inlay hints.

use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};
use workspace::Document;

use super::{answer, at, document};
use crate::answer::Answer;
use crate::error::Result;
use crate::pool::{RequestCx, ServerPool};
use crate::server::protocol::{Position, RawHighlight};
use crate::server::request_table::Request;
use adapters::Feature;

const SIGNATURE: Request =
    Request::new("textDocument/signatureHelp").of(Feature::Signature, "signatureHelpProvider").quick();
const HIGHLIGHTS: Request = Request::new("textDocument/documentHighlight")
    .of(Feature::Highlights, "documentHighlightProvider")
    .announced("documentHighlight")
    .quick();
const COMPLETION: Request =
    Request::new("textDocument/completion").of(Feature::Completion, "completionProvider").quick();
const INLAY_HINTS: Request = Request::new("textDocument/inlayHint")
    .of(Feature::InlayHints, "inlayHintProvider")
    .announced("inlayHint")
    .quick();

pub(super) const REQUESTS: &[Request] = &[SIGNATURE, HIGHLIGHTS, COMPLETION, INLAY_HINTS];

/// A signature of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The whole signature, such as `add(a: int, b: int) -> int`.
    pub label: String,
    pub documentation: Option<String>,
    /// The active parameter, as written in the label.
    pub parameter: Option<String>,
    /// Whether it matches the call.
    pub active: bool,
}

/// A use of a symbol in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Highlight {
    /// Bytes in the document's text.
    pub range: Range<usize>,
    /// One-based line.
    pub line: usize,
    /// Kind of use: `read`, `write` or `text`.
    pub kind: &'static str,
}

/// A completion item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The text by which users choose.
    pub label: String,
    /// Kind such as `method` or `field`; empty if the server names none.
    pub kind: &'static str,
    /// Its type or origin.
    pub detail: Option<String>,
    pub deprecated: bool,
}

/// An inlay hint: a type, a parameter name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlayHint {
    /// Byte offset in the document's text.
    pub offset: usize,
    /// One-based line.
    pub line: usize,
    /// Text of the hint, such as `: int` or `name=`.
    pub label: String,
}

impl ServerPool {
    /// The signatures of the call around byte `offset`; empty outside of calls.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn signature(
        self: &Arc<Self>,
        doc: &Document,
        offset: usize,
        cx: &RequestCx,
    ) -> Result<Answer<Vec<Signature>>> {
        let clock = cx.clock();
        let server = self.pick_for(&doc.path, &SIGNATURE, clock).await?;
        server.wait_ready(Some(doc), clock).await?;
        let ask = server.ask(Some(doc), SIGNATURE.method, clock, |synced, encoding| {
            let mut params = at(synced, offset, encoding);
            params["context"] = json!({"triggerKind": 1, "isRetrigger": false});
            params
        });
        let asked = ask.await?;
        let help: Value = server.read(&asked.method, &asked.raw)?;
        let active = help["activeSignature"].as_u64().unwrap_or(0);
        let signatures = help["signatures"].as_array().into_iter().flatten().enumerate();
        let signatures = signatures.map(|(index, signature)| {
            let index = index as u64;
            let label = signature["label"].as_str().unwrap_or_default().to_owned();
            let number = signature["activeParameter"].as_u64().or(help["activeParameter"].as_u64());
            let parameter = number.and_then(|number| signature["parameters"].get(number as usize));
            Signature {
                parameter: parameter.and_then(|parameter| labelled(&label, &parameter["label"])),
                documentation: Some(super::navigation::hover_text(&signature["documentation"]))
                    .filter(|text| !text.trim().is_empty()),
                active: index == active,
                label,
            }
        });
        Ok(answer(&server, &asked, signatures.collect()))
    }

    /// The reads and writes of the symbol at byte `offset` in its file.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn highlights(
        self: &Arc<Self>,
        doc: &Document,
        offset: usize,
        cx: &RequestCx,
    ) -> Result<Answer<Vec<Highlight>>> {
        let clock = cx.clock();
        let server = self.pick_for(&doc.path, &HIGHLIGHTS, clock).await?;
        server.wait_ready(Some(doc), clock).await?;
        let ask =
            server.ask(Some(doc), HIGHLIGHTS.method, clock, |synced, encoding| at(synced, offset, encoding));
        let asked = ask.await?;
        let items: Option<Vec<RawHighlight>> = server.read(&asked.method, &asked.raw)?;
        let view = asked.view(&server, &doc.path);
        let mut found: Vec<Highlight> = items
            .unwrap_or_default()
            .into_iter()
            .filter_map(|item| {
                let view = view.as_ref()?;
                let range = view.range(item.range, asked.encoding)?;
                let kind = match item.kind {
                    Some(2) => "read",
                    Some(3) => "write",
                    _ => "text",
                };
                Some(Highlight { line: view.line(range.start), range, kind })
            })
            .collect();
        found.sort_by_key(|item| (item.range.start, item.range.end));
        found.dedup();
        Ok(answer(&server, &asked, found))
    }

    /// Completions at byte `offset`, best first; whether the list is complete.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn completion(
        self: &Arc<Self>,
        doc: &Document,
        offset: usize,
        cx: &RequestCx,
    ) -> Result<Answer<(Vec<Completion>, bool)>> {
        let clock = cx.clock();
        let server = self.pick_for(&doc.path, &COMPLETION, clock).await?;
        server.wait_ready(Some(doc), clock).await?;
        let ask = server.ask(Some(doc), COMPLETION.method, clock, |synced, encoding| {
            let mut params = at(synced, offset, encoding);
            params["context"] = json!({"triggerKind": 1});
            params
        });
        let asked = ask.await?;
        let list: Value = server.read(&asked.method, &asked.raw)?;
        let whole = list["isIncomplete"] != true;
        let items = list.as_array().or(list["items"].as_array()).cloned().unwrap_or_default();
        let mut items: Vec<(String, Completion)> = items.iter().filter_map(completion).collect();
        items.sort_by(|a, b| a.0.cmp(&b.0));
        let items = items.into_iter().map(|(_, item)| item).collect();
        Ok(answer(&server, &asked, (items, whole)))
    }

    /// The inlay hints of a range, in order of position.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn inlay_hints(
        self: &Arc<Self>,
        doc: &Document,
        range: Range<usize>,
        cx: &RequestCx,
    ) -> Result<Answer<Vec<InlayHint>>> {
        let clock = cx.clock();
        let server = self.pick_for(&doc.path, &INLAY_HINTS, clock).await?;
        server.wait_ready(Some(doc), clock).await?;
        let ask = server.ask(Some(doc), INLAY_HINTS.method, clock, |synced, encoding| {
            let range = synced.map(|synced| synced.view.protocol_range(&range, encoding));
            json!({"textDocument": document(synced), "range": range})
        });
        let asked = ask.await?;
        let items: Option<Vec<Value>> = server.read(&asked.method, &asked.raw)?;
        let view = asked.view(&server, &doc.path);
        let mut hints: Vec<InlayHint> = items
            .unwrap_or_default()
            .iter()
            .filter_map(|item| {
                let view = view.as_ref()?;
                let position: Position = serde_json::from_value(item["position"].clone()).ok()?;
                let offset = view.offset(position, asked.encoding)?;
                let label = match &item["label"] {
                    Value::String(label) => label.clone(),
                    parts => parts.as_array()?.iter().filter_map(|part| part["value"].as_str()).collect(),
                };
                let pad = |side: &str| if item[side] == true { " " } else { "" };
                let label = format!("{}{label}{}", pad("paddingLeft"), pad("paddingRight"));
                Some(InlayHint { offset, line: view.line(offset), label })
            })
            .collect();
        hints.sort_by_key(|hint| hint.offset);
        Ok(answer(&server, &asked, hints))
    }
}

/// A parameter's label: text, or UTF-16 offsets into the signature's.
fn labelled(signature: &str, label: &Value) -> Option<String> {
    match label {
        Value::String(text) => Some(text.clone()),
        Value::Array(ends) => {
            let (start, end) = (ends.first()?.as_u64()? as usize, ends.get(1)?.as_u64()? as usize);
            let units: Vec<u16> = signature.encode_utf16().collect();
            String::from_utf16(units.get(start..end)?).ok()
        }
        _ => None,
    }
}

/// A completion item with its sort key.
fn completion(item: &Value) -> Option<(String, Completion)> {
    const KINDS: [&str; 25] = [
        "text",
        "method",
        "function",
        "constructor",
        "field",
        "variable",
        "class",
        "interface",
        "module",
        "property",
        "unit",
        "value",
        "enum",
        "keyword",
        "snippet",
        "color",
        "file",
        "reference",
        "folder",
        "enum member",
        "constant",
        "struct",
        "event",
        "operator",
        "type parameter",
    ];
    let label = item["label"].as_str()?.to_owned();
    let kind = item["kind"].as_u64().and_then(|kind| KINDS.get((kind as usize).checked_sub(1)?));
    let more = |name: &str| item["labelDetails"][name].as_str();
    let detail: Vec<&str> =
        [item["detail"].as_str(), more("detail"), more("description")].into_iter().flatten().collect();
    let tagged = item["tags"].as_array().is_some_and(|tags| tags.contains(&json!(1)));
    let sort = item["sortText"].as_str().unwrap_or(&label).to_owned();
    let detail = detail.first().map(|detail| detail.trim().to_owned()).filter(|detail| !detail.is_empty());
    let deprecated = tagged || item["deprecated"] == true;
    Some((sort, Completion { kind: kind.copied().unwrap_or(""), detail, deprecated, label }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_named_by_text_or_by_place() {
        assert_eq!(labelled("f(a, b)", &json!("b")).as_deref(), Some("b"));
        assert_eq!(labelled("😀(a, b)", &json!([3, 4])).as_deref(), Some("a"));
        assert_eq!(labelled("f(a)", &json!([3, 9])), None);
    }
}
