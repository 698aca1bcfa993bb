//! The tool `grep`: lines that match, in the form that `edit` takes.
//!
//! The search only determines which files match. The tool then searches the text that it records, so that the
//! lines shown and the snapshot are always the same.

use std::sync::Arc;
use std::time::Duration;

use agent::{ToolCx, ToolResult};
use policy::{ErrorCode, Policy};
use serde::Deserialize;
use serde_json::{Value, json};
use workspace::{Findings, Globs, Query, QueryOptions, Scope};

use super::page::{self, Page};
use super::{NAMED, SECOND_TIME, TIME, bounds, counted, number, place, shown_path, unreadable};
use crate::described::{BuiltIn, Described, count, flag, text};
use crate::{Failure, ToolContext, arguments};

/// Default and maximum number of hits shown.
const LIMIT: usize = 100;
const MOST_LIMIT: usize = 1000;
/// Default number of files with `files_only`.
const FILES_LIMIT: usize = 300;
/// Maximum number of context lines around a hit.
const MOST_CONTEXT: usize = 30;
/// Maximum number of files in the details.
const DETAILS: usize = 1000;

pub(crate) struct Grep {
    context: Arc<ToolContext>,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    literal: bool,
    #[serde(default)]
    word: bool,
    #[serde(default)]
    multiline: bool,
    #[serde(default)]
    files_only: bool,
    #[serde(default)]
    context: usize,
    limit: Option<usize>,
    #[serde(default)]
    hidden: bool,
    #[serde(default)]
    ignored: bool,
}

impl Grep {
    pub fn new(context: Arc<ToolContext>) -> Described<Self> {
        let properties = json!({
            "pattern": text("regex"),
            "path": text("file or directory; default: all"),
            "glob": text("such as *.{ts,tsx},!*.min.js"),
            "ignore_case": flag("match both cases"),
            "literal": flag("plain text, no regex"),
            "word": flag("whole words"),
            "multiline": flag("a match may span lines"),
            "files_only": flag("only files, with their numbers of hits"),
            "context": count("lines around each hit"),
            "limit": count("default 100"),
            "hidden": flag("also dot files"),
            "ignored": flag("also ignored files"),
        });
        let about = include_str!("grep.md");
        Described::new("grep", "Search", about, properties, &["pattern"], Self { context }).at_start()
    }
}

impl BuiltIn for Grep {
    async fn run(&self, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
        let args: Arguments = arguments(args)?;
        if args.limit == Some(0) {
            return Err(Failure::invalid("`limit` counts from 1"));
        }
        let context = &self.context;
        let options = QueryOptions {
            literal: args.literal,
            ignore_case: args.ignore_case,
            word: args.word,
            multiline: args.multiline,
        };
        let query = Arc::new(Query::new(&args.pattern, options)?);
        let (at, policy) = place(context, args.path.as_deref(), cx).await?;
        let globs = args.glob.as_deref().map(|globs| Globs::parse(globs, context.workspace.root(), &at));
        let globs = globs.transpose()?.unwrap_or_default();
        let scope = Scope { at, globs, hidden: args.hidden, ignored: args.ignored };
        let found = self.search(&scope, &query, &policy, cx, TIME).await?;
        if found.files.is_empty() {
            let elsewhere = self.elsewhere(&scope, &query, &policy, cx).await?;
            return Ok(nothing(context, &args, &scope, &found, elsewhere.as_ref()));
        }
        let (shown, hits) = if args.files_only {
            (files_only(context, &args, &found), 0)
        } else {
            let page = page(context, &args, &scope, query, &found).await?;
            let hits = page.hits;
            (page, hits)
        };
        Ok(result(context, &args, &found, shown, hits))
    }
}

impl Grep {
    async fn search(
        &self,
        scope: &Scope,
        query: &Arc<Query>,
        policy: &Arc<Policy>,
        cx: &ToolCx,
        time: Duration,
    ) -> Result<Findings, Failure> {
        let bounds = bounds(cx, time);
        Ok(self.context.workspace.search(scope.clone(), query.clone(), policy.clone(), &bounds).await?)
    }

    /// Briefly searches hidden and ignored files.
    ///
    /// Otherwise the model would take "no hits" as final.
    async fn elsewhere(
        &self,
        scope: &Scope,
        query: &Arc<Query>,
        policy: &Arc<Policy>,
        cx: &ToolCx,
    ) -> Result<Option<Findings>, Failure> {
        if scope.hidden && scope.ignored {
            return Ok(None);
        }
        let scope = Scope { hidden: true, ignored: true, ..scope.clone() };
        self.search(&scope, query, policy, cx, SECOND_TIME).await.map(Some)
    }
}

/// Renders the page on a blocking thread.
async fn page(
    context: &Arc<ToolContext>,
    args: &Arguments,
    scope: &Scope,
    query: Arc<Query>,
    found: &Findings,
) -> Result<Page, Failure> {
    let limit = args.limit.unwrap_or(LIMIT).min(MOST_LIMIT);
    let wanted =
        page::PageRequest { limit, context: args.context.min(MOST_CONTEXT), named: scope.at.clone() };
    let (context, files) = (context.clone(), found.files.clone());
    let work = tokio::task::spawn_blocking(move || page::page(&context, &query, &files, &wanted));
    work.await.map_err(|error| Failure::new(ErrorCode::Internal, error.to_string()))
}

fn files_only(context: &ToolContext, args: &Arguments, found: &Findings) -> Page {
    let limit = args.limit.unwrap_or(FILES_LIMIT).min(MOST_LIMIT);
    let unsaved = page::unsaved(context);
    let mut page = Page::default();
    for file in found.files.iter().take(limit) {
        let mark = if unsaved.contains(&file.path) { " (not saved)" } else { "" };
        page.text.push_str(&format!("{} ({}){mark}\n", shown_path(context, &file.path), number(file.lines)));
    }
    if found.files.len() > limit {
        page.notes.push(format!("and {}", counted(found.files.len() - limit, "more file")));
        page.is_cut = true;
    }
    page
}

fn result(context: &ToolContext, args: &Arguments, found: &Findings, page: Page, shown: usize) -> ToolResult {
    let hits = usize::try_from(found.files.iter().map(|file| file.lines).sum::<u64>()).unwrap_or(usize::MAX);
    let least = if found.complete { "" } else { "at least " };
    let all = format!("{least}{} in {}", counted(hits, "hit"), counted(found.files.len(), "file"));
    let searched = format!("{} searched", counted(found.searched, "file"));
    let is_cut = page.is_cut || shown < hits && !args.files_only;
    let mut notes = page.notes;
    notes.insert(
        0,
        match is_cut {
            true if !args.files_only => format!(
                "{all}, {} of them shown; {searched}; narrow `path`, `glob` or the pattern, or raise `limit` (up to {MOST_LIMIT})",
                number(shown)
            ),
            true => format!("{all}; {searched}; narrow `path` or `glob`, or raise `limit` (up to {MOST_LIMIT})"),
            false => format!("{all}; {searched}"),
        },
    );
    notes.extend(left_out(context, found));
    let mut text = page.text;
    notes.iter().for_each(|note| text.push_str(&format!("({note})\n")));
    let files = found.files.iter().take(DETAILS).map(|file| {
        let shown = page.shown.iter().find(|shown| shown.path == file.path);
        json!({
            "path": shown_path(context, &file.path),
            "hits": file.lines,
            "lines": shown.map_or(&[][..], |shown| &shown.lines),
            "unsaved": shown.is_some_and(|shown| shown.is_unsaved),
            "editable": shown.is_some_and(|shown| shown.is_editable),
        })
    });
    let details = json!({
        "hits": hits,
        "files_with_hits": found.files.len(),
        "shown": shown,
        "truncated": is_cut,
        "searched": found.searched,
        "complete": found.complete,
        "skipped": skipped(context, found),
        "files": files.collect::<Vec<_>>(),
    });
    ToolResult::text(text).with_details(details)
}

/// Renders a result without hits, and explains it.
fn nothing(
    context: &ToolContext,
    args: &Arguments,
    scope: &Scope,
    found: &Findings,
    elsewhere: Option<&Findings>,
) -> ToolResult {
    let below = match context.display_path(&scope.at).as_str() {
        "" | "." => String::new(),
        path => format!(" in {path}"),
    };
    let mut notes = vec![match (&args.glob, found.searched) {
        (Some(glob), 0) => format!("no file{below} matches the glob {glob}, so nothing was searched"),
        (_, 0) => format!("there is no text file{below} to be searched"),
        (_, searched) => format!("no hits; {} searched{below}", counted(searched, "file")),
    }];
    if found.searched > 0 && !args.ignore_case && args.pattern.chars().any(char::is_alphabetic) {
        notes.push("the search is case-sensitive; `ignore_case` changes that".to_owned());
    }
    match elsewhere {
        Some(other) if !other.files.is_empty() => {
            let names: Vec<String> =
                other.files.iter().take(NAMED).map(|file| shown_path(context, &file.path)).collect();
            let more = other.files.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {} more", number(more)) } else { String::new() };
            notes.push(format!(
                "there are hits in hidden or ignored files: {}{more}; `hidden` and `ignored` search them",
                names.join(", ")
            ));
        }
        Some(other) if other.complete && other.searched > found.searched => {
            notes.push("hidden and ignored files have no match either".to_owned());
        }
        Some(other) if !other.complete => {
            notes.push("the search did not reach all hidden and ignored files".to_owned());
        }
        _ => {}
    }
    notes.extend(left_out(context, found));
    let text = notes.iter().map(|note| format!("({note})\n")).collect::<String>();
    let details = json!({
        "hits": 0,
        "files_with_hits": 0,
        "shown": 0,
        "truncated": false,
        "searched": found.searched,
        "complete": found.complete,
        "skipped": skipped(context, found),
        "files": [],
    });
    ToolResult::text(text).with_details(details)
}

/// Renders notes about files that were not searched.
fn left_out(context: &ToolContext, found: &Findings) -> Vec<String> {
    let mut notes = Vec::new();
    if found.binary > 0 {
        notes.push(format!("not searched: {}", counted(found.binary, "binary file")));
    }
    if !found.protected.is_empty() {
        let names: Vec<String> =
            found.protected.iter().take(NAMED).map(|path| shown_path(context, path)).collect();
        let more = if found.protected.len() > NAMED { ", …" } else { "" };
        notes.push(format!(
            "not searched: {}: {}{more}; name one as `path` to request permission",
            counted(found.protected.len(), "protected file"),
            names.join(", "),
        ));
    }
    notes.extend(unreadable(found.failed, &found.failures));
    if !found.complete {
        notes.push(format!("stopped after {} s: search a smaller `path`", TIME.as_secs()));
    }
    notes
}

fn skipped(context: &ToolContext, found: &Findings) -> Value {
    let protected = found.protected.iter().take(DETAILS).map(|path| shown_path(context, path));
    json!({
        "binary": found.binary,
        "protected": protected.collect::<Vec<_>>(),
        "unreadable": found.failed,
    })
}
