//! The tool `read`: lines of a file for `edit`, or entries of a directory.

use std::sync::Arc;

use agent::{ToolCx, ToolResult};
use paths::AbsPath;
use policy::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};
use text::LineIndex;
use workspace::{Document, EntryKind, Owner, PathError, ReadError};

use super::image::Image;
use super::outline;
use crate::described::{BuiltIn, Described, count, flag, text};
use crate::search::{number, target};
use crate::{Failure, ServerStart, ToolContext, arguments, counted, display};

/// Maximum number of lines that one result shows.
const MAX_LINES: usize = 2000;
/// Maximum size of the lines that one result shows, in bytes.
const MAX_BYTES: usize = 50 << 10;
/// Maximum number of lines shown of a long file without an outline.
const BEGINNING_LINES: usize = 100;
/// Maximum size of these lines, in bytes, unless the first alone is larger.
const BEGINNING_BYTES: usize = 4 << 10;
/// Maximum number of entries of a directory that one result lists.
const MAX_ENTRIES: usize = 500;

pub struct Read {
    context: Arc<ToolContext>,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
    symbol: Option<String>,
    #[serde(default)]
    raw: bool,
}

impl Arguments {
    /// Whether the call requests the whole file.
    fn is_whole(&self) -> bool {
        self.offset.is_none() && self.limit.is_none() && self.symbol.is_none() && !self.raw
    }
}

impl Read {
    pub fn new(context: Arc<ToolContext>) -> Described<Self> {
        let properties = json!({
            "path": text("file or directory"),
            "offset": count("first line, from 1"),
            "limit": count("how many lines"),
            "symbol": text("only this symbol"),
            "raw": flag("without numbers"),
        });
        let about = display::render_description(&context, include_str!("read.md"));
        Described::new("read", "Read", about, properties, &["path"], Self { context }).at_start()
    }
}

impl BuiltIn for Read {
    /// Whichever tool showed the lines, an edit of them has to prove them again.
    fn forget(&self, result: &str) {
        display::forget(&self.context, result);
    }

    fn recall(&self, results: &[(&str, &str)]) {
        display::recall(&self.context, results);
    }

    async fn run(&self, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
        let args: Arguments = arguments(args)?;
        let context = &*self.context;
        let (path, args) = match context.workspace.resolve(&args.path) {
            // Files outside that the user lets be read, such as skills, cannot be edited: raw text, no servers.
            Err(PathError::Outside { target, .. }) if cx.may_read(&target) => {
                (target, Arguments { raw: true, symbol: None, ..args })
            }
            path => (path?, args),
        };
        cx.permit_read(&path).await?;
        if args.path.contains(['\n', '\r']) {
            let message = "the file name contains a line break, which a header cannot show; rename the file";
            return Err(Failure::new(ErrorCode::Unsupported, message));
        }
        let document = match context.workspace.document(&path) {
            Err(ReadError::NotAFile { .. }) if path.as_path().is_dir() => return listing(context, &path),
            Err(error @ ReadError::NotUtf8 { .. }) => {
                let image = Image::open(context, &path).ok_or(error)?;
                return image.result(cx.accepts_images());
            }
            document => document?,
        };
        context.start_servers(&path, ServerStart::Read);
        let is_dense = is_dense(&document.text);
        if !args.raw && !is_dense {
            // An edit is likely to follow.
            context.trees.prepare(&context.display_path(&document.path), &document.text);
        }
        if args.is_whole() && is_long(&document) && !is_dense {
            return Ok(match outline::outline_of(context, &document).await {
                Some(outline) => outlined(context, &document, &outline),
                None => view(context, &document, Span::beginning(&document), false),
            });
        }
        let span = self.span(&document, &args, cx).await?;
        Ok(view(context, &document, span, args.raw))
    }
}

impl Read {
    async fn span(&self, document: &Document, args: &Arguments, cx: &ToolCx) -> Result<Span, Failure> {
        let first = args.offset.unwrap_or(1);
        if first == 0 || args.limit == Some(0) {
            return Err(Failure::invalid("`offset` and `limit` count from 1"));
        }
        let Some(symbol) = &args.symbol else {
            let last = first.saturating_add(args.limit.unwrap_or(usize::MAX)).saturating_sub(1);
            return Ok(Span { first, last, hint: "" });
        };
        let request = self.context.request(&cx.cancel, None);
        let range = target::extent(&self.context, document, symbol, &request).await?;
        let index = LineIndex::new(&document.text);
        let last = index.line_of(range.end.saturating_sub(1).max(range.start)) + 1;
        Ok(Span { first: index.line_of(range.start) + 1, last, hint: "" })
    }
}

/// Lines to show, from 1; the last may lie beyond the file.
struct Span {
    first: usize,
    last: usize,
    /// The advice if these are not all lines.
    hint: &'static str,
}

impl Span {
    /// The beginning of a long file.
    fn beginning(document: &Document) -> Self {
        let index = LineIndex::new(&document.text);
        let fits =
            |line: &usize| index.line_with_end(line - 1).is_some_and(|range| range.end <= BEGINNING_BYTES);
        let last = (1..=BEGINNING_LINES).take_while(fits).last().unwrap_or(1);
        Self { first: 1, last, hint: "; read a part with `offset` and `limit`" }
    }
}

/// Whether a file exceeds one result.
fn is_long(document: &Document) -> bool {
    document.text.len() > MAX_BYTES || display::line_count(&document.text) > MAX_LINES
}

/// Whether most of a text is in lines too long to show, as in minified code.
///
/// An outline would omit these lines, and such a text is slow to parse.
fn is_dense(text: &str) -> bool {
    let long: usize = text.split('\n').map(str::len).filter(|length| *length > MAX_BYTES).sum();
    long > text.len() / 2
}

fn outlined(context: &ToolContext, document: &Document, outline: &str) -> ToolResult {
    let (total, path) = (display::line_count(&document.text), context.display_path(&document.path));
    let mut text = format!(
        "{path}: outline of {total} lines; read a part with `symbol` (`Type.method`), or `offset` and `limit`\n{outline}\n"
    );
    let notes = state_notes(document);
    for note in &notes {
        text.push_str(&format!("({note})\n"));
    }
    let details = json!({ "path": path, "lines": total, "is_outline": true, "notes": notes });
    ToolResult::text(text).with_details(details).exact()
}

/// Renders notes about a document that cannot be edited or is not saved.
fn state_notes(document: &Document) -> Vec<String> {
    let mut notes = Vec::new();
    if document.owner == Owner::Proposed {
        notes.push("proposed: no file and no buffer has this text until the user keeps it".to_owned());
    }
    if let Owner::Editor { dirty: true } = document.owner {
        let on_disk = if document.path.as_path().exists() { "an older text" } else { "no file yet" };
        notes.push(format!("not saved: this is the editor's text, the disk has {on_disk}"));
    }
    if let Some(reason) = &document.blocked {
        notes.push(format!("cannot be edited now: {reason}"));
    }
    notes
}

fn view(context: &ToolContext, document: &Document, span: Span, raw: bool) -> ToolResult {
    let Span { first, last, hint } = span;
    let index = LineIndex::new(&document.text);
    let total = display::line_count(&document.text);
    let mut notes = state_notes(document);
    if total == 0 {
        let text = display::render_lines(context, document, &[]);
        return ToolResult::text(format!(
            "{text}(empty file; insert with {})\n",
            context.settings().view.at_head()
        ))
        .with_details(json!({ "lines": 0 }));
    }
    if first > total {
        return Failure::invalid(format!(
            "line {first} does not exist: the file has {}",
            counted(total, "line")
        ))
        .into();
    }
    let length = |line: usize| index.line_with_end(line - 1).map_or(0, |range| range.len());
    if length(first) > MAX_BYTES {
        let after = match first < total {
            true => format!("; read on with offset {}", first + 1),
            false => String::new(),
        };
        let message = format!(
            "line {first} has {} bytes, and {MAX_BYTES} can be shown; use a command, or `write` the whole file{after}",
            length(first),
        );
        return Failure::new(ErrorCode::TooLarge, message).into();
    }
    let mut end = first;
    let mut bytes = 0;
    while end <= last.min(total) && end - first < MAX_LINES {
        bytes += length(end);
        if bytes > MAX_BYTES {
            break;
        }
        end += 1;
    }
    let requested: Vec<usize> = (first..end).collect();
    let mut text = if raw {
        let start = index.line_with_end(first - 1).unwrap_or_default().start;
        let stop = index.line_with_end(end - 2).unwrap_or_default().end;
        document.text[start..stop].to_owned()
    } else {
        display::render_lines(context, document, &requested)
    };
    if first > 1 || end <= total {
        notes.push(format!("lines {first} to {} of {total}{hint}", end - 1));
    }
    if end <= last.min(total) {
        notes.push(format!("cut at {} lines; read on with offset {end}", end - first));
    }
    if !text.is_empty() && !text.ends_with('\n') && !notes.is_empty() {
        text.push('\n');
    }
    // Raw text holds the file's text only; the notes are in the details.
    if !raw {
        for note in &notes {
            text.push_str(&format!("({note})\n"));
        }
    }
    let details = json!({ "path": context.display_path(&document.path), "lines": total, "first": first, "last": end - 1, "notes": notes });
    ToolResult::text(text).with_details(details).exact()
}

fn listing(context: &ToolContext, path: &AbsPath) -> Result<ToolResult, Failure> {
    let entries = context.workspace.list(path)?;
    let mut text = format!("{} ({} entries)\n", context.display_path(path), entries.len());
    for entry in entries.iter().take(MAX_ENTRIES) {
        match entry.kind {
            EntryKind::Directory => text.push_str(&format!("{}/\n", entry.name)),
            EntryKind::Link => text.push_str(&format!("{} (link)\n", entry.name)),
            EntryKind::File => text.push_str(&format!("{} ({} bytes)\n", entry.name, entry.size)),
            EntryKind::Other => text.push_str(&format!("{} (not a regular file)\n", entry.name)),
        }
    }
    if entries.len() > MAX_ENTRIES {
        let more = number(entries.len() - MAX_ENTRIES);
        text.push_str(&format!("… and {more} more entries; use `find` with a pattern\n"));
    }
    Ok(ToolResult::text(text).with_details(json!({ "entries": entries.len() })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_dense_if_most_of_it_cannot_be_shown() {
        let long = "x".repeat(MAX_BYTES + 1);
        assert!(is_dense(&long) && is_dense(&format!("// licence\n{long}\n")));
        assert!(!is_dense("") && !is_dense(&"line\n".repeat(MAX_BYTES)));
        assert!(!is_dense(&format!("{long}\n{}", "line\n".repeat(MAX_BYTES))));
    }
}
