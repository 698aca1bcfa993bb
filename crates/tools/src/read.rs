//! The tool `read`: a file's lines with the numbers and checks that `edit` takes, or a folder's
//! entries.

use std::sync::Arc;

use agent::{Tool, ToolCx, ToolResult};
use futures_util::future::BoxFuture;
use llm::ToolDefinition;
use serde::Deserialize;
use serde_json::{Value, json};
use text::LineIndex;
use workspace::{AbsPath, Document, Effects, EntryKind, ErrorCode, Owner, ReadError};

use crate::lsp::target;
use crate::{Failure, Kit, arguments, shown};

/// At most this many lines.
const MAX_LINES: usize = 2000;
/// At most this many bytes of them.
const MAX_BYTES: usize = 50 << 10;
/// At most this many entries of a folder.
const MAX_ENTRIES: usize = 500;

/// The tool.
pub struct Read {
    kit: Arc<Kit>,
    definition: ToolDefinition,
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

impl Read {
    /// The tool over `kit`.
    pub fn new(kit: Arc<Kit>) -> Self {
        let definition = ToolDefinition {
            name: "read".to_owned(),
            label: "Read".to_owned(),
            description: shown::described(&kit, include_str!("read.md")),
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": { "type": "string", "description": "file or folder, relative to the workspace" },
                    "offset": { "type": "integer", "description": "first line, from 1" },
                    "limit": { "type": "integer", "description": "how many lines" },
                    "symbol": { "type": "string", "description": "only this symbol: name or name path" },
                    "raw": { "type": "boolean", "description": "plain text without numbers" },
                },
                "required": ["path"],
            }),
        };
        Self { kit, definition }
    }
}

impl Tool for Read {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn effects(&self, _: &Value) -> Effects {
        Effects { reads: true, ..Effects::default() }
    }

    fn execute<'a>(&'a self, args: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { self.run(args, cx).await.unwrap_or_else(ToolResult::from) })
    }
}

impl Read {
    async fn run(&self, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
        let args: Arguments = arguments(args)?;
        let kit = &*self.kit;
        let path = kit.workspace.resolve(&args.path)?;
        cx.permit_read(&path).await?;
        let document = match kit.workspace.document(&path) {
            Err(ReadError::NotAFile { .. }) => return listing(kit, &path),
            document => document?,
        };
        let (first, last) = self.span(&document, &args, cx).await?;
        Ok(view(kit, &document, first, last, args.raw))
    }

    /// First and last line wanted, from 1; the last may lie beyond the file.
    async fn span(
        &self,
        document: &Document,
        args: &Arguments,
        cx: &ToolCx,
    ) -> Result<(usize, usize), Failure> {
        let first = args.offset.unwrap_or(1);
        if first == 0 || args.limit == Some(0) {
            return Err(Failure::new(ErrorCode::InvalidArguments, "`offset` and `limit` count from 1"));
        }
        let Some(symbol) = &args.symbol else {
            return Ok((first, first.saturating_add(args.limit.unwrap_or(usize::MAX)).saturating_sub(1)));
        };
        let request = self.kit.request(&cx.cancel, None);
        let range = target::extent(&self.kit, document, symbol, &request).await?;
        let index = LineIndex::new(&document.text);
        Ok((index.line_of(range.start) + 1, index.line_of(range.end.saturating_sub(1).max(range.start)) + 1))
    }
}

fn view(kit: &Kit, document: &Document, first: usize, last: usize, raw: bool) -> ToolResult {
    let index = LineIndex::new(&document.text);
    let total = shown::line_count(&document.text);
    let mut notes = Vec::new();
    if let Owner::Editor { dirty: true } = document.owner {
        notes.push("not saved: this is the editor's text, the disk holds an older one".to_owned());
    }
    if let Some(reason) = &document.held {
        notes.push(format!("cannot be edited now: {reason}"));
    }
    if total == 0 {
        let text = shown::lines(kit, document, &[]);
        return ToolResult::text(format!(
            "{text}(empty file; insert with {})\n",
            kit.settings.view.at_head()
        ))
        .with_details(json!({ "lines": 0 }));
    }
    if first > total {
        return Failure::new(
            ErrorCode::InvalidArguments,
            format!("line {first} does not exist: the file has {total} lines"),
        )
        .into();
    }
    let length = |line: usize| index.line_with_end(line - 1).map_or(0, |range| range.len());
    if length(first) > MAX_BYTES {
        let message = format!(
            "line {first} alone has {} bytes, more than the {MAX_BYTES} that are shown at once; lines after it can be read from offset {}",
            length(first),
            first + 1
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
    let wanted: Vec<usize> = (first..end).collect();
    let mut text = if raw {
        let start = index.line_with_end(first - 1).unwrap_or_default().start;
        let stop = index.line_with_end(end - 2).unwrap_or_default().end;
        document.text[start..stop].to_owned()
    } else {
        shown::lines(kit, document, &wanted)
    };
    if first > 1 || end <= total {
        notes.push(format!("lines {first} to {} of {total}", end - 1));
    }
    if end <= last.min(total) {
        notes.push(format!("cut at {} lines; go on with offset {end}", end - first));
    }
    if !text.is_empty() && !text.ends_with('\n') && !notes.is_empty() {
        text.push('\n');
    }
    // Raw text is the file's alone; what is to be said about it stands in the details.
    if !raw {
        for note in &notes {
            text.push_str(&format!("({note})\n"));
        }
    }
    let details = json!({ "path": kit.shown(&document.path), "lines": total, "first": first, "last": end - 1, "notes": notes });
    ToolResult::text(text).with_details(details)
}

fn listing(kit: &Kit, path: &AbsPath) -> Result<ToolResult, Failure> {
    let entries = kit.workspace.list(path)?;
    let mut text = format!("{} ({} entries)\n", kit.shown(path), entries.len());
    for entry in entries.iter().take(MAX_ENTRIES) {
        match entry.kind {
            EntryKind::Folder => text.push_str(&format!("{}/\n", entry.name)),
            EntryKind::Link => text.push_str(&format!("{} (link)\n", entry.name)),
            EntryKind::File => text.push_str(&format!("{} ({} bytes)\n", entry.name, entry.size)),
            EntryKind::Other => text.push_str(&format!("{} (not a regular file)\n", entry.name)),
        }
    }
    if entries.len() > MAX_ENTRIES {
        text.push_str(&format!("… and {} more\n", entries.len() - MAX_ENTRIES));
    }
    Ok(ToolResult::text(text).with_details(json!({ "entries": entries.len() })))
}
