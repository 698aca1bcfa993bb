//! Lines as the model is shown them, and the memory of what it was shown.

use std::ops::RangeInclusive;
use std::sync::Arc;

use hashline::{Dialect, Lines, Snapshot, Tag};
use workspace::{ChangeKind, Document, Plan};

use crate::ToolContext;

/// Lines of a text as people count them: a final line end opens no further line.
pub(crate) fn line_count(text: &str) -> usize {
    hashline::Lines::new(text.into()).count()
}

/// The header and these lines (from 1, ascending) in the form that `edit` takes; they count as
/// shown from now on.
pub(crate) fn lines(context: &ToolContext, document: &Document, lines: &[usize]) -> String {
    folded(context, document, lines, &[])
}

/// As [`lines`], where `folds` (each between two of the lines) are left out on purpose: named whole
/// by those two, they may be edited too.
pub(crate) fn folded(
    context: &ToolContext,
    document: &Document,
    lines: &[usize],
    folds: &[RangeInclusive<usize>],
) -> String {
    let path = context.shown(&document.path);
    let ranges = ranges(lines);
    if let Some(kept) = &context.kept {
        kept.restore(context, &path);
    }
    let text = context.with_snapshots(|store| {
        let tag = store.record(&path, document.text.clone());
        for fold in folds {
            store.fold(&path, tag, fold.clone());
        }
        store.show(&path, tag, &ranges, context.settings().view).unwrap_or_default()
    });
    let Some(kept) = &context.kept else { return text };
    kept.keep(context, &path);
    // A tag for other processes is long: it means the same text in each of them.
    let rows = text.split_once('\n').map_or("", |(_, rows)| rows);
    header_row(context, &path, Tag::long(&document.text)) + rows
}

/// The header alone, for a file whose whole text the model knows because it wrote it.
pub(crate) fn header(context: &ToolContext, document: &Document) -> String {
    let path = context.shown(&document.path);
    let tag = context.with_snapshots(|store| {
        let tag = store.record(&path, document.text.clone());
        store.see(&path, tag, 1..=usize::MAX);
        tag
    });
    header_row(context, &path, tag)
}

pub(crate) fn header_row(context: &ToolContext, path: &str, tag: Tag) -> String {
    context.settings().view.header(path, tag) + "\n"
}

/// A tool's description, which speaks of lines as `12kq:text` under `[path#TAG]`, in the view of
/// this context.
pub(crate) fn described(context: &ToolContext, text: &str) -> String {
    let view = context.settings().view;
    let check = if view.shows_checks() { "kq" } else { "" };
    let (header, row) = match view.dialect {
        Dialect::Put => ("[path#TAG]", format!("12{check}:text")),
        Dialect::Arrow => ("¶path#tag", "12:text".to_owned()),
        Dialect::Json => ("[path#TAG]", "12#KQ:text".to_owned()),
    };
    text.trim().replace("`12kq:text`", &format!("`{row}`")).replace("`[path#TAG]`", &format!("`{header}`"))
}

/// A document that was recorded, so that any of its lines can be shown.
pub(crate) struct Recorded {
    path: String,
    tag: Tag,
    snapshot: Arc<Snapshot>,
    seen: Vec<usize>,
}

/// Records documents, in one go where they are kept for other processes too.
pub(crate) fn record<'a>(
    context: &ToolContext,
    documents: impl Iterator<Item = &'a Document>,
) -> Vec<Recorded> {
    let documents: Vec<(String, &Document)> = documents.map(|it| (context.shown(&it.path), it)).collect();
    if let Some(kept) = &context.kept {
        kept.restore_all(context, documents.iter().map(|(path, _)| path.as_str()));
    }
    let record = |(path, document): (String, &Document)| {
        let (tag, snapshot) = context.with_snapshots(|store| {
            let tag = store.record(&path, document.text.clone());
            (tag, store.get(&path, tag))
        });
        Some(Recorded { path, tag, snapshot: snapshot?, seen: Vec::new() })
    };
    documents.into_iter().filter_map(record).collect()
}

impl Recorded {
    /// Whether it is at this path.
    pub(crate) fn is_at(&self, path: &str) -> bool {
        self.path == path
    }

    pub(crate) fn lines(&self) -> &Lines {
        self.snapshot.lines()
    }

    /// The row above its lines.
    pub(crate) fn header(&self, context: &ToolContext) -> String {
        let tag = if context.kept.is_some() { Tag::long(self.snapshot.text()) } else { self.tag };
        header_row(context, &self.path, tag)
    }

    /// One of its lines, in the form that `edit` takes.
    pub(crate) fn row(&self, context: &ToolContext, line: usize) -> String {
        context.settings().view.row(self.lines(), line)
    }

    /// The line is shown whole.
    pub(crate) fn see(&mut self, line: usize) {
        self.seen.push(line);
    }
}

/// What was shown of these documents counts as shown from now on.
pub(crate) fn seen(context: &ToolContext, recorded: &[Recorded]) {
    context.with_snapshots(|store| {
        for it in recorded {
            for range in ranges(&it.seen) {
                store.see(&it.path, it.tag, range);
            }
        }
    });
    if let Some(kept) = &context.kept {
        kept.keep_all(context, recorded.iter().map(|it| it.path.as_str()));
    }
}

/// Whether the model was shown every line of the document as it is now.
pub(crate) fn was_read(context: &ToolContext, document: &Document) -> bool {
    let path = context.shown(&document.path);
    if let Some(kept) = &context.kept {
        kept.restore(context, &path);
    }
    context.with_snapshots(|store| match store.newest(&path) {
        Some(newest) if **newest.text() == *document.text => store.has_seen_all(&path, newest.tag()),
        _ => false,
    })
}

/// After a commit: what the model knows of the files goes on through the edits that were made.
pub(crate) fn keep_in_step(context: &ToolContext, plan: &Plan) {
    context.with_snapshots(|store| {
        for change in plan.changes() {
            let path = context.shown(&change.path);
            if let ChangeKind::Renamed { from } = &change.kind {
                store.renamed(&context.shown(from), &path);
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
    fn neighbouring_lines_are_one_range() {
        assert_eq!(ranges(&[1, 2, 3, 7, 9, 10]), [1..=3, 7..=7, 9..=10]);
        assert_eq!(ranges(&[]), []);
    }
}
