//! Rendering of matching files: bounded, in rows that `edit` takes.

use std::collections::{BTreeMap, BTreeSet};

use hashline::Lines;
use paths::AbsPath;
use workspace::{Document, FileHits, Form, LineMatch, LookOnly, Owner, Query};

use super::{counted, is_plain, number, share::share, shown_path};
use crate::ToolContext;
use crate::display::{self, Recorded};

/// Maximum size of all rows, in bytes.
const MAX_BYTES: usize = 48 << 10;
/// Maximum number of files with lines, and of files only named.
const MAX_FILES: usize = 40;
const MAX_NAMES: usize = 40;
/// Length in bytes from which a line is shown in parts.
const MAX_ROW: usize = 1000;
/// Limits for a long line: its parts, the length of a match, and its context.
const MAX_PARTS: usize = 3;
const MAX_MATCH: usize = 600;
const AROUND: usize = 80;
/// Maximum size of a recorded document that the call does not name, in bytes.
///
/// A larger document would evict other snapshots.
const MAX_RECORDED: usize = 4 << 20;
/// Maximum number of hits in one document.
const MAX_LINES: usize = 10_000;
/// Maximum length of a line that `read` shows, in bytes.
const READABLE: usize = 50 << 10;

/// Limits of a page.
pub(super) struct PageRequest {
    pub limit: usize,
    pub context: usize,
    pub named: AbsPath,
}

#[derive(Default)]
pub(super) struct Page {
    pub text: String,
    /// Notes for the end of the result.
    pub notes: Vec<String>,
    pub hits: usize,
    /// Whether something was left out.
    pub is_cut: bool,
    /// The files whose lines are shown.
    pub shown: Vec<Shown>,
}

/// A file on the page.
pub(super) struct Shown {
    pub path: AbsPath,
    /// Numbers of the hits shown.
    pub lines: Vec<usize>,
    /// Whether the text differs from the disk.
    pub is_unsaved: bool,
    /// Whether an edit can name the lines.
    pub is_editable: bool,
}

/// A row of a file: a matching line, or its context.
enum Row {
    Hit(usize),
    Beside(usize),
    Gap,
    Parts(usize, String),
}

/// Lists the files that an editor has not saved.
pub(super) fn unsaved(context: &ToolContext) -> BTreeSet<AbsPath> {
    let open = context.workspace.open_documents().into_iter();
    open.filter(|it| it.is_unsaved()).map(|it| it.path).collect()
}

/// Renders the page of these files.
///
/// Records the lines that it shows. Blocks.
pub(super) fn page(context: &ToolContext, query: &Query, files: &[FileHits], request: &PageRequest) -> Page {
    let counts: Vec<u64> = files.iter().map(|file| file.lines).collect();
    let shares = share(&counts, request.limit, MAX_FILES);
    let mut page = Page::default();
    // Reads the current state: a file may be deleted, or open in the editor by now.
    let documents: BTreeMap<&AbsPath, Document> = files[..shares.len()]
        .iter()
        .filter(|file| file.form == Form::Document && is_itself(&file.path))
        .filter_map(|file| Some((&file.path, context.workspace.document(&file.path).ok()?)))
        .collect();
    let is_recorded = |document: &&Document| {
        let is_named = document.path == request.named;
        (is_named || document.text.len() <= MAX_RECORDED)
            && is_plain(context, &document.path, &context.display_path(&document.path))
    };
    let mut recorded = display::record(context, documents.values().filter(is_recorded));
    let mut has_parts = false;
    for (at, (file, share)) in files.iter().zip(&shares).enumerate() {
        let room = MAX_BYTES.saturating_sub(page.text.len()) / (shares.len() - at);
        let document = documents.get(&file.path);
        match (&file.form, document) {
            (Form::LookOnly(why, samples), _) => look_only(context, &mut page, file, *why, samples, *share),
            (Form::Document, None) => {}
            (Form::Document, Some(document)) => {
                let found = query.lines(&document.text, MAX_LINES);
                let shown = &context.display_path(&document.path);
                let mut source = match recorded.iter_mut().find(|recorded| recorded.is_at(shown)) {
                    Some(recorded) => Source::Recorded(recorded),
                    None => Source::Only(Lines::new(document.text.clone())),
                };
                let rows = rows(source.lines(), &found, *share, request.context);
                has_parts |= rows.iter().any(|row| matches!(row, Row::Parts(..)));
                section(context, &mut page, document, &mut source, rows, room);
                more_in_file(&mut page, file);
            }
        }
    }
    display::mark_shown(context, &recorded);
    if has_parts {
        page.notes.push(format!(
            "long lines are cut; `read` one with `limit` 1 (up to {} KiB), or match `.{{0,200}}NAME.{{0,200}}`",
            READABLE >> 10
        ));
    }
    others(context, &mut page, &files[shares.len()..]);
    page
}

/// Whether the path still names a file rather than a link.
fn is_itself(path: &AbsPath) -> bool {
    paths::canonical(path.as_path()).is_ok_and(|canonical| canonical == *path)
}

/// Selects the first `share` matching lines and their context.
fn rows(lines: &Lines, found: &[LineMatch], share: usize, context: usize) -> Vec<Row> {
    let mut hits: BTreeMap<usize, Vec<&LineMatch>> = BTreeMap::new();
    for found in found {
        let last = lines.line_of(found.range.end.saturating_sub(1).max(found.range.start));
        for line in lines.line_of(found.range.start)..=last.min(lines.count()) {
            hits.entry(line).or_default().push(found);
        }
    }
    let shown: Vec<usize> = hits.keys().copied().take(share).collect();
    let mut wanted = BTreeSet::new();
    for line in &shown {
        let is_short = |line: &usize| lines.content_range(*line).len() <= MAX_ROW;
        wanted.extend(
            (line.saturating_sub(context).max(1)..=(line + context).min(lines.count())).filter(is_short),
        );
        wanted.insert(*line);
    }
    let mut rows = Vec::new();
    let mut last = None;
    for line in wanted {
        if context > 0 && last.is_some_and(|last| last + 1 < line) {
            rows.push(Row::Gap);
        }
        last = Some(line);
        let matches = hits.get(&line);
        rows.push(match matches {
            None => Row::Beside(line),
            Some(_) if lines.content_range(line).len() <= MAX_ROW => Row::Hit(line),
            Some(matches) => Row::Parts(line, parts(lines, line, matches)),
        });
    }
    rows
}

/// Renders the matching parts of a long line, distinguishable from rows.
fn parts(lines: &Lines, line: usize, matches: &[&LineMatch]) -> String {
    let content = lines.content_range(line);
    let text = lines.text();
    let mut out = format!("… line {line} has {} bytes\n", number(content.len()));
    let spans = matches.iter().flat_map(|found| &found.spans);
    let spans = spans.filter(|span| span.start < content.end && span.end > content.start);
    for span in spans.take(MAX_PARTS) {
        let (start, end) = (span.start.max(content.start), span.end.min(content.end));
        let end = text.floor_char_boundary(end.min(start + MAX_MATCH));
        let from = text.ceil_char_boundary(start.saturating_sub(AROUND).max(content.start));
        let to = text.floor_char_boundary((end + AROUND).min(content.end));
        let cut = |is_cut: bool| if is_cut { "…" } else { "" };
        out.push_str(&format!(
            "    at byte {}: {}{}{}\n",
            number(start - content.start),
            cut(from > content.start),
            &text[from..to.max(from)],
            cut(to < content.end),
        ));
    }
    out
}

/// Source of rows.
enum Source<'a> {
    /// Lines of documents that can be edited.
    Recorded(&'a mut Recorded),
    /// Lines that can only be read.
    Only(Lines),
}

impl Source<'_> {
    fn lines(&self) -> &Lines {
        match self {
            Self::Recorded(recorded) => recorded.lines(),
            Self::Only(lines) => lines,
        }
    }

    fn row(&self, context: &ToolContext, line: usize) -> String {
        match self {
            Self::Recorded(recorded) => recorded.row(context, line),
            Self::Only(lines) => format!("    line {line}: {}", lines.content(line)),
        }
    }

    fn title(&self, context: &ToolContext, document: &Document) -> String {
        let path = shown_path(context, &document.path);
        match self {
            Self::Recorded(recorded) => recorded.header(context),
            Self::Only(_) if path == context.display_path(&document.path) => {
                let bytes = number(document.text.len());
                format!("{path} ({bytes} bytes: name it as `path` to edit lines of it)\n")
            }
            Self::Only(_) => format!("{path} (its name cannot be written in an edit)\n"),
        }
    }
}

/// Renders a document's rows, as far as there is room; at least the first.
fn section(
    context: &ToolContext,
    page: &mut Page,
    document: &Document,
    source: &mut Source<'_>,
    rows: Vec<Row>,
    room: usize,
) {
    let mut text = String::new();
    let (mut hits, mut seen) = (Vec::new(), Vec::new());
    for row in rows {
        let shown = match &row {
            Row::Hit(line) => source.row(context, *line) + "\n",
            Row::Beside(line) => format!(" {}\n", source.row(context, *line)),
            Row::Gap => "…\n".to_owned(),
            Row::Parts(_, parts) => parts.clone(),
        };
        if !text.is_empty() && text.len() + shown.len() > room {
            page.is_cut = true;
            break;
        }
        text.push_str(&shown);
        if let Row::Hit(line) | Row::Parts(line, _) = row {
            hits.push(line);
        }
        if let Row::Hit(line) | Row::Beside(line) = row {
            seen.push(line);
        }
    }
    page.text.push_str(&source.title(context, document));
    page.text.push_str(&text);
    let is_unsaved = document.is_unsaved();
    match document.owner {
        Owner::Editor { dirty: true } => page.text.push_str("(not saved: this is the editor's text)\n"),
        Owner::Proposed => page.text.push_str("(proposed: no file has this text yet)\n"),
        Owner::Editor { .. } | Owner::Disk => {}
    }
    if let Some(reason) = &document.blocked {
        page.text.push_str(&format!("(cannot be edited now: {reason})\n"));
    }
    page.hits += hits.len();
    let mut is_editable = false;
    if let Source::Recorded(recorded) = source {
        seen.into_iter().for_each(|line| recorded.mark_shown(line));
        is_editable = document.blocked.is_none();
    }
    page.shown.push(Shown { path: document.path.clone(), lines: hits, is_unsaved, is_editable });
}

fn look_only(
    context: &ToolContext,
    page: &mut Page,
    file: &FileHits,
    why: LookOnly,
    samples: &[(u64, String)],
    share: usize,
) {
    let why = match why {
        LookOnly::NotUtf8 => "not UTF-8, so it cannot be edited",
        LookOnly::TooLarge => "too large to be edited",
    };
    page.text.push_str(&format!("{} ({why})\n", shown_path(context, &file.path)));
    let samples = &samples[..samples.len().min(share)];
    for (line, text) in samples {
        page.text.push_str(&format!("    line {line}: {text}\n"));
    }
    page.hits += samples.len();
    let lines = samples.iter().filter_map(|(line, _)| usize::try_from(*line).ok()).collect();
    page.shown.push(Shown { path: file.path.clone(), lines, is_unsaved: false, is_editable: false });
    more_in_file(page, file);
}

fn more_in_file(page: &mut Page, file: &FileHits) {
    let shown = page.shown.last().filter(|shown| shown.path == file.path).map_or(0, |it| it.lines.len());
    let more = usize::try_from(file.lines).unwrap_or(usize::MAX).saturating_sub(shown);
    if more > 0 && shown > 0 {
        page.text.push_str(&format!("({} in this file)\n", counted(more, "more hit")));
        page.is_cut = true;
    }
}

/// Lists the files whose lines are not shown.
fn others(context: &ToolContext, page: &mut Page, files: &[FileHits]) {
    if files.is_empty() {
        return;
    }
    page.is_cut = true;
    let names = files.iter().take(MAX_NAMES);
    let names: Vec<String> =
        names.map(|file| format!("{} ({})", shown_path(context, &file.path), number(file.lines))).collect();
    let more = files.len().saturating_sub(MAX_NAMES);
    let more = if more > 0 { format!(", and {}", counted(more, "more file")) } else { String::new() };
    page.notes.push(format!("hits also in {}{more}", names.join(", ")));
}
