//! The tool `ls`: the entries of a directory.

use std::sync::Arc;

use agent::{ToolCx, ToolResult};
use serde::Deserialize;
use serde_json::{Value, json};
use workspace::{EntryKind, ReadError, SearchError, TreeEntry};

use super::{TIME, bounds, number, place};
use crate::described::{BuiltIn, Described, count, text};
use crate::{Failure, ToolContext, arguments};

/// Maximum number of rows, of rows for each directory below the first, and depth.
const MOST_ROWS: usize = 500;
const MOST_BELOW: usize = 100;
const MOST_DEPTH: usize = 10;

pub(crate) struct Ls {
    context: Arc<ToolContext>,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    path: Option<String>,
    depth: Option<usize>,
}

impl Ls {
    pub fn new(context: Arc<ToolContext>) -> Described<Self> {
        let properties = json!({
            "path": text("directory; default: the workspace"),
            "depth": count("levels; default 1"),
        });
        Described::new("ls", "List", include_str!("ls.md"), properties, &[], Self { context })
    }
}

impl BuiltIn for Ls {
    async fn run(&self, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
        let args: Arguments = arguments(args)?;
        let depth = args.depth.unwrap_or(1);
        if depth == 0 {
            return Err(Failure::invalid("`depth` counts from 1"));
        }
        let context = &*self.context;
        let (at, policy) = place(context, args.path.as_deref(), cx).await?;
        let tree = context.workspace.tree(at.clone(), depth.min(MOST_DEPTH), policy, &bounds(cx, TIME)).await;
        let (entries, is_whole) = match tree {
            Err(SearchError::Place(ReadError::NotAFile { .. })) => {
                let message = format!("{} is a file; read shows it", context.display_path(&at));
                return Err(Failure::invalid(message));
            }
            tree => tree?,
        };
        let mut listing = Listing::default();
        listing.entries(&entries, 0, MOST_ROWS);
        let mut text = format!("{} ({})\n", context.display_path(&at), entries_counted(entries.len()));
        text.push_str(&listing.text);
        if !is_whole {
            text.push_str("(some directories below were not read; list a smaller `path`)\n");
        }
        let details = json!({
            "entries": entries.len(),
            "shown": listing.rows,
            "truncated": listing.is_cut || !is_whole,
            "names": listing.names,
        });
        Ok(ToolResult::text(text).with_details(details))
    }
}

fn entries_counted(count: usize) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{} entries", number(count)) }
}

#[derive(Default)]
struct Listing {
    text: String,
    rows: usize,
    is_cut: bool,
    names: Vec<Value>,
}

impl Listing {
    fn entries(&mut self, entries: &[TreeEntry], level: usize, most: usize) {
        let indent = "  ".repeat(level);
        for (at, entry) in entries.iter().enumerate() {
            if at >= most || self.rows >= MOST_ROWS {
                self.is_cut = true;
                self.text.push_str(&format!("{indent}… and {} more\n", number(entries.len() - at)));
                return;
            }
            self.rows += 1;
            self.text.push_str(&format!("{indent}{}\n", row(entry)));
            self.names.push(json!({
                "name": name(entry),
                "level": level + 1,
                "folder": entry.kind == EntryKind::Directory,
                "bytes": entry.size,
                "ignored": entry.ignored,
                "unsaved": entry.unsaved,
            }));
            if let Some(below) = &entry.entries {
                self.entries(below, level + 1, MOST_BELOW);
            }
        }
    }
}

/// Renders a name, quoted if it could be misread.
fn name(entry: &TreeEntry) -> String {
    match entry.name.to_str() {
        Some(name) if !name.chars().any(char::is_control) && name.trim() == name => name.to_owned(),
        _ => format!("{:?}", entry.name),
    }
}

fn row(entry: &TreeEntry) -> String {
    let name = name(entry);
    let row = match entry.kind {
        EntryKind::Directory => format!("{name}/"),
        EntryKind::Link => format!("{name} (link)"),
        EntryKind::File if entry.unsaved => format!("{name} (not saved yet)"),
        EntryKind::File => format!("{name} ({} bytes)", entry.size),
        EntryKind::Other => format!("{name} (not a regular file)"),
    };
    if entry.ignored { row + " (ignored)" } else { row }
}
