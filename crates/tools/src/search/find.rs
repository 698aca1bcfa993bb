//! The tool `find`: files and directories by name, the best first.

use std::sync::Arc;

use agent::{ToolCx, ToolResult};
use paths::AbsPath;
use serde::Deserialize;
use serde_json::{Value, json};
use workspace::{EntryKind, Fit, Name, NamePattern, Names, Scope};

use super::{NAMED, SECOND_TIME, TIME, bounds, counted, number, place, shown_path, unreadable};
use crate::described::{BuiltIn, Described, count, flag, text};
use crate::{Failure, ToolContext, arguments};

/// Default and maximum number of names shown.
const LIMIT: usize = 100;
const MOST_LIMIT: usize = 1000;

pub(crate) struct Find {
    context: Arc<ToolContext>,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    pattern: String,
    path: Option<String>,
    limit: Option<usize>,
    #[serde(default)]
    hidden: bool,
    #[serde(default)]
    ignored: bool,
}

impl Find {
    pub fn new(context: Arc<ToolContext>) -> Described<Self> {
        let properties = json!({
            "pattern": text("part of a path, or a glob"),
            "path": text("directory; default: all"),
            "limit": count("default 100"),
            "hidden": flag("also dot files"),
            "ignored": flag("also ignored files"),
        });
        let about = include_str!("find.md");
        Described::new("find", "Find", about, properties, &["pattern"], Self { context }).at_start()
    }
}

impl BuiltIn for Find {
    async fn run(&self, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
        let args: Arguments = arguments(args)?;
        if args.limit == Some(0) || args.pattern.is_empty() {
            return Err(Failure::invalid("`pattern` must not be empty, and `limit` counts from 1"));
        }
        let context = &*self.context;
        let pattern = NamePattern::parse(&args.pattern)?;
        let (at, _) = place(context, args.path.as_deref(), cx).await?;
        let scope = Scope { hidden: args.hidden, ignored: args.ignored, ..Scope::new(at) };
        let found = self.names(&scope, &pattern, cx, TIME).await?;
        let mut notes = Vec::new();
        if found.names.is_empty() {
            notes.push(format!(
                "nothing found among {} in {}",
                counted(found.looked, "name"),
                context.display_path(&scope.at)
            ));
            notes.extend(self.elsewhere(&scope, &pattern, cx).await?);
        }
        Ok(result(context, &args, &scope, &pattern, found, notes))
    }
}

impl Find {
    async fn names(
        &self,
        scope: &Scope,
        pattern: &NamePattern,
        cx: &ToolCx,
        time: std::time::Duration,
    ) -> Result<Names, Failure> {
        let pattern = pattern.clone();
        let (root, at) = (self.context.workspace.root().clone(), scope.at.clone());
        let prefix = at.strip_prefix(&root).map(std::path::Path::to_owned).unwrap_or_default();
        let wants = move |below: &std::path::Path, is_folder: bool| {
            pattern.fit(below, &prefix.join(below), is_folder).is_some()
        };
        Ok(self.context.workspace.names(scope.clone(), wants, &bounds(cx, time)).await?)
    }

    /// Briefly searches hidden and ignored names.
    async fn elsewhere(
        &self,
        scope: &Scope,
        pattern: &NamePattern,
        cx: &ToolCx,
    ) -> Result<Option<String>, Failure> {
        if scope.hidden && scope.ignored {
            return Ok(None);
        }
        let scope = Scope { hidden: true, ignored: true, ..scope.clone() };
        let other = self.names(&scope, pattern, cx, SECOND_TIME).await?;
        if other.names.is_empty() {
            let note = match other.complete {
                true => "hidden and ignored names do not match either",
                false => "the search did not reach all hidden and ignored names",
            };
            return Ok(Some(note.to_owned()));
        }
        let names: Vec<String> =
            other.names.iter().take(NAMED).map(|name| row(&self.context, name)).collect();
        let more = other.names.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {} more", number(more)) } else { String::new() };
        Ok(Some(format!("hidden or ignored: {}{more}; `hidden` and `ignored` search them", names.join(", "))))
    }
}

/// Ranks a name: how well it matches, then how near it is.
fn order(
    context: &ToolContext,
    scope: &Scope,
    pattern: &NamePattern,
    name: &Name,
) -> (Option<Fit>, usize, AbsPath) {
    let below = name.path.strip_prefix(&scope.at).unwrap_or(name.path.as_path());
    let from_root = name.path.strip_prefix(context.workspace.root()).unwrap_or(name.path.as_path());
    let fit = pattern.fit(below, from_root, name.kind == EntryKind::Directory);
    (fit, below.components().count(), name.path.clone())
}

fn row(context: &ToolContext, name: &Name) -> String {
    let mark = match name.kind {
        EntryKind::Directory => "/",
        EntryKind::Link => " (link)",
        EntryKind::Other => " (not a regular file)",
        EntryKind::File if name.unsaved => " (not saved yet)",
        EntryKind::File => "",
    };
    format!("{}{mark}", shown_path(context, &name.path))
}

fn result(
    context: &ToolContext,
    args: &Arguments,
    scope: &Scope,
    pattern: &NamePattern,
    mut found: Names,
    mut notes: Vec<String>,
) -> ToolResult {
    let limit = args.limit.unwrap_or(LIMIT).min(MOST_LIMIT);
    let count = found.names.len();
    found.names.sort_by_cached_key(|name| order(context, scope, pattern, name));
    found.names.truncate(limit);
    let mut text = found.names.iter().map(|name| row(context, name) + "\n").collect::<String>();
    if count > found.names.len() {
        let least = if found.complete { "" } else { "at least " };
        notes.push(format!(
            "{} of {least}{} shown, best first; narrow `path` or the pattern or raise `limit` (up to {MOST_LIMIT})",
            number(found.names.len()),
            number(count),
        ));
    }
    notes.extend(unreadable(found.failed, &found.failures));
    if !found.complete {
        notes.push(format!("stopped after {} s: search a smaller `path`", TIME.as_secs()));
    }
    notes.iter().for_each(|note| text.push_str(&format!("({note})\n")));
    let names = found.names.iter().map(|name| {
        json!({ "path": shown_path(context, &name.path), "folder": name.kind == EntryKind::Directory, "unsaved": name.unsaved })
    });
    let details = json!({
        "found": count,
        "shown": found.names.len(),
        "truncated": count > found.names.len(),
        "looked": found.looked,
        "complete": found.complete,
        "unreadable": found.failed,
        "names": names.collect::<Vec<_>>(),
    });
    ToolResult::text(text).with_details(details)
}
