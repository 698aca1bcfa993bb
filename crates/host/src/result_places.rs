//! The places in the details of a tool's result, for surfaces that show lists. Pure.

use std::ops::Range;

use serde_json::Value;

/// A place with the text to show there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultPlace {
    /// The path in the form of the result: relative to the workspace, or absolute.
    pub path: String,
    /// Line from 1.
    pub line: u64,
    /// Column in characters from 1.
    pub column: Option<u64>,
    /// The source line, or a description.
    pub text: String,
    /// Characters of the text that are the name.
    pub name: Range<usize>,
    /// Severity of a diagnostic.
    pub severity: Option<String>,
}

/// Lists the places, symbols, calls or candidates of a result.
///
/// `None` if it has no such list.
pub fn result_places(details: &Value) -> Option<Vec<ResultPlace>> {
    let list = |name: &str| details[name].as_array();
    if let Some(functions) = list("functions") {
        let calls = functions.iter().filter_map(|it| it["calls"].as_array()).flatten();
        return Some(calls.filter_map(place).collect());
    }
    let items = ["locations", "types", "symbols", "candidates"].iter().find_map(|name| list(name))?;
    Some(items.iter().filter_map(place).collect())
}

/// Lists the diagnostics of a result; `None` if it has none.
pub fn result_diagnostics(details: &Value) -> Option<Vec<ResultPlace>> {
    let entry = |it: &Value| {
        let field = |name: &str| it[name].as_str().map(str::to_owned);
        let code = field("code").map(|code| format!(" [{code}]")).unwrap_or_default();
        Some(ResultPlace {
            path: field("path")?,
            line: it["line"].as_u64()?,
            column: None,
            text: format!("{}{code}", field("message")?.lines().next().unwrap_or_default()),
            name: 0..0,
            severity: field("severity"),
        })
    };
    Some(details["diagnostics"].as_array()?.iter().filter_map(entry).collect())
}

fn place(item: &Value) -> Option<ResultPlace> {
    let field = |name: &str| item[name].as_str();
    let source = field("text");
    let text = match source {
        Some(text) => text.to_owned(),
        // A symbol with a `file` has its qualified name in `path`.
        None => {
            let name = if field("file").is_some() { field("path") } else { field("name") };
            format!("{} {}", field("kind")?, name?)
        }
    };
    let column = item["column"].as_u64();
    let bytes = |at: usize| item["range"][at].as_u64();
    let start = column.map_or(0, |column| column.saturating_sub(1) as usize);
    let length = bytes(1).zip(bytes(0)).map_or(0, |(end, start)| end.saturating_sub(start) as usize);
    let byte = text.char_indices().nth(start).map(|(at, _)| at);
    let name = byte.and_then(|byte| text.get(byte..byte + length)).map_or(0, |name| name.chars().count());
    let (start, name) = if source.is_some() { (start, name) } else { (0, 0) };
    let path = field("file").or_else(|| field("path"))?.to_owned();
    let name = start..start + name;
    Some(ResultPlace { path, line: item["line"].as_u64()?, column, text, name, severity: None })
}
