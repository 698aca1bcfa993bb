//! Rendering of lines for the model, and the record of the lines shown to it.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use hashline::{Lines, Snapshot, Tag};
use workspace::{ChangeKind, Document, Plan};

use crate::ToolContext;

/// Counts lines; a final line end does not start another line.
pub(crate) fn line_count(text: &str) -> usize {
    hashline::Lines::new(text.into()).count()
}

/// Renders the header and these lines (1-based, ascending) for `edit`.
///
/// Marks the lines shown.
pub(crate) fn render_lines(context: &ToolContext, document: &Document, lines: &[usize]) -> String {
    let path = context.display_path(&document.path);
    let ranges = ranges(lines);
    if let Some(saved) = &context.saved_snapshots {
        saved.restore(context, &path);
    }
    let text = context.with_snapshots(|store| {
        let tag = store.record(&path, document.text.clone());
        store.show(&path, tag, &ranges, context.settings().view).unwrap_or_default()
    });
    let Some(saved) = &context.saved_snapshots else { return text };
    saved.save(context, &path);
    // Other processes need a long tag, which means the same text in each of them.
    let rows = text.split_once('\n').map_or("", |(_, rows)| rows);
    render_header_row(context, &path, Tag::long(&document.text)) + rows
}

/// Marks the files under whose headers a result showed lines as not shown.
pub(crate) fn forget(context: &ToolContext, result: &str) {
    context.with_snapshots(|store| headers(result).for_each(|path| store.forget(path)));
}

/// Marks the lines of earlier results as shown, if the text of their tag is known.
///
/// That is the file's current text, or one whose lines are all in the result. `results` have the names of their
/// tools and are in order.
pub(crate) fn recall(context: &ToolContext, results: &[(&str, &str)]) {
    let mut documents = HashMap::new();
    for (tool, result) in results {
        for Block { path, tag, rows } in blocks(result) {
            let current = documents.entry(path).or_insert_with(|| {
                let path = context.workspace.resolve(path).ok()?;
                context.workspace.document(&path).ok().map(|document| document.text)
            });
            let is_whole = rows.iter().enumerate().all(|(at, (line, _))| at + 1 == *line);
            let written = rows.iter().map(|(_, text)| format!("{text}\n")).collect::<String>();
            let written = [written.strip_suffix('\n').unwrap_or_default().into(), written.into()];
            let texts = current.clone().into_iter().chain(written.into_iter().filter(|_| is_whole));
            let Some(text) = texts.into_iter().find(|text: &Arc<str>| tag.names(text)) else { continue };
            let lines = Lines::new(text.clone());
            let is_row = |(line, row): &&(usize, &str)| {
                (1..=lines.count()).contains(line) && lines.content(*line) == *row
            };
            context.with_snapshots(|store| {
                // Lines of an older text that are still there remain known.
                let tag = match store.newest(path) {
                    Some(older) => store.record_edit(path, &older.text().clone(), &[], text),
                    None => store.record(path, text),
                };
                // The model wrote the whole text.
                if rows.is_empty() && *tool == "write" {
                    store.see(path, tag, 1..=usize::MAX);
                }
                for (line, _) in rows.iter().filter(is_row) {
                    store.see(path, tag, *line..=*line);
                }
            });
        }
    }
}

/// The rows of one file in a result, by number.
struct Block<'a> {
    path: &'a str,
    tag: Tag,
    rows: Vec<(usize, &'a str)>,
}

/// Parses the rows of a result, as [`hashline::View`] renders them.
fn blocks(result: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    // The line after the last row.
    let mut next = None;
    for line in result.lines() {
        if let Some((path, tag)) = header(line) {
            next = None;
            blocks.push(Block { path, tag, rows: Vec::new() });
            continue;
        }
        let Some(block) = blocks.last_mut() else { continue };
        let row = match line.split_once('\t') {
            Some((name, text)) => {
                let number = name.trim_end_matches(|c: char| c.is_ascii_lowercase()).parse().ok();
                number.map(|number: usize| (number, text))
            }
            None => next.filter(|_| line.is_empty()).map(|number| (number, "")),
        };
        next = row.map(|(number, _)| number + 1);
        block.rows.extend(row);
    }
    blocks
}

/// Parses a header: the path and the tag.
fn header(line: &str) -> Option<(&str, Tag)> {
    let header = line.strip_prefix('[').and_then(|line| line.strip_suffix(']'));
    let (path, tag) = header.or_else(|| line.strip_prefix('¶'))?.rsplit_once('#')?;
    Some((path, tag.parse().ok()?))
}

/// The paths of the headers in a result.
fn headers(result: &str) -> impl Iterator<Item = &str> {
    result.lines().filter_map(|line| header(line).map(|(path, _)| path))
}

/// Renders the header alone, for a file whose whole text the model wrote.
pub(crate) fn render_header(context: &ToolContext, document: &Document) -> String {
    let path = context.display_path(&document.path);
    let tag = context.with_snapshots(|store| {
        let tag = store.record(&path, document.text.clone());
        store.see(&path, tag, 1..=usize::MAX);
        tag
    });
    render_header_row(context, &path, tag)
}

pub(crate) fn render_header_row(context: &ToolContext, path: &str, tag: Tag) -> String {
    context.settings().view.header(path, tag) + "\n"
}

/// Adapts a tool's description, which names a line `12kq`, to the view in force.
pub(crate) fn render_description(context: &ToolContext, text: &str) -> String {
    if context.settings().view.shows_checks() {
        text.to_owned()
    } else {
        text.replace(" and check letters", "").replace("12kq", "12")
    }
}

/// A document in the snapshot store, with a tag, whose lines can be shown.
pub(crate) struct Recorded {
    path: String,
    tag: Tag,
    snapshot: Arc<Snapshot>,
    shown: Vec<usize>,
}

/// Records documents; saved snapshots are read once for all of them.
pub(crate) fn record<'a>(
    context: &ToolContext,
    documents: impl Iterator<Item = &'a Document>,
) -> Vec<Recorded> {
    let documents: Vec<(String, &Document)> =
        documents.map(|document| (context.display_path(&document.path), document)).collect();
    if let Some(saved) = &context.saved_snapshots {
        saved.restore_all(context, documents.iter().map(|(path, _)| path.as_str()));
    }
    let record = |(path, document): (String, &Document)| {
        let (tag, snapshot) = context.with_snapshots(|store| {
            let tag = store.record(&path, document.text.clone());
            (tag, store.get(&path, tag))
        });
        Some(Recorded { path, tag, snapshot: snapshot?, shown: Vec::new() })
    };
    documents.into_iter().filter_map(record).collect()
}

impl Recorded {
    pub(crate) fn is_at(&self, path: &str) -> bool {
        self.path == path
    }

    pub(crate) fn lines(&self) -> &Lines {
        self.snapshot.lines()
    }

    pub(crate) fn header(&self, context: &ToolContext) -> String {
        let tag = if context.saved_snapshots.is_some() { Tag::long(self.snapshot.text()) } else { self.tag };
        render_header_row(context, &self.path, tag)
    }

    /// Renders one of its lines for `edit`.
    pub(crate) fn row(&self, context: &ToolContext, line: usize) -> String {
        context.settings().view.row(self.lines(), line)
    }

    /// Records that the whole line was shown.
    pub(crate) fn mark_shown(&mut self, line: usize) {
        self.shown.push(line);
    }
}

/// Stores which lines of these documents were shown.
pub(crate) fn mark_shown(context: &ToolContext, recorded: &[Recorded]) {
    context.with_snapshots(|store| {
        for document in recorded {
            for range in ranges(&document.shown) {
                store.see(&document.path, document.tag, range);
            }
        }
    });
    if let Some(saved) = &context.saved_snapshots {
        saved.save_all(context, recorded.iter().map(|document| document.path.as_str()));
    }
}

/// Whether the model has seen every line of the current text.
pub(crate) fn was_read(context: &ToolContext, document: &Document) -> bool {
    let path = context.display_path(&document.path);
    if let Some(saved) = &context.saved_snapshots {
        saved.restore(context, &path);
    }
    context.with_snapshots(|store| match store.newest(&path) {
        Some(newest) if **newest.text() == *document.text => store.has_seen_all(&path, newest.tag()),
        _ => false,
    })
}

/// Maps the snapshots of the changed files through a commit.
pub(crate) fn sync_snapshots(context: &ToolContext, plan: &Plan) {
    context.with_snapshots(|store| {
        for change in plan.changes() {
            let path = context.display_path(&change.path);
            if let ChangeKind::Renamed { from } = &change.kind {
                store.renamed(&context.display_path(from), &path);
            }
            match (&change.before, &change.after) {
                (Some(before), Some(after)) if store.newest(&path).is_some() => {
                    store.record_edit(&path, before, &change.edits, after.clone());
                }
                (_, None) => store.removed(&path),
                _ => {}
            }
        }
    });
}

fn ranges(lines: &[usize]) -> Vec<RangeInclusive<usize>> {
    let mut out: Vec<RangeInclusive<usize>> = Vec::new();
    for &line in lines {
        match out.last_mut() {
            Some(last) if *last.end() + 1 == line => *last = *last.start()..=line,
            _ => out.push(line..=line),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_the_paths_of_all_dialects() {
        let result = "[src/a b.rs#3F2A]\n1kq:x[1]\n[c#d.rs#3F2A]\n¶e.rs#3f2a\n1:[y]\n# z\n";
        assert_eq!(headers(result).collect::<Vec<_>>(), ["src/a b.rs", "c#d.rs", "e.rs"]);
    }

    #[test]
    fn adjacent_lines_are_one_range() {
        assert_eq!(ranges(&[1, 2, 3, 7, 9, 10]), [1..=3, 7..=7, 9..=10]);
        assert_eq!(ranges(&[]), []);
    }
}
