//! Links of prompts to files, symbols, diagnostics and sessions, and their completion.

use std::time::{Duration, Instant};

use agent::store::LoadedSession;
use llm::Message;
use policy::ErrorCode;
use workspace::Workspace;

use super::types::{ContextItem, ContextKind, ContextLink, ListedSession, ServiceError};

/// Maximum number of completed files, so that other kinds have a place.
const MAX_FILES: usize = 27;
/// Maximum number of completed items of another kind.
const MAX_OF_KIND: usize = 10;
/// Time limit of the search for symbols.
const SYMBOL_TIME: Duration = Duration::from_millis(200);
/// Scheme of links to other targets than files.
const SCHEME: &str = "pilcrow:";
/// Maximum number of characters of a linked session's prompt and answer.
const MAX_PROMPT: usize = 300;
const MAX_ANSWER: usize = 2000;

/// Targets that match `query`, the best ones first. Blocks.
///
/// Matches of a file's name come first, then short paths. `sessions` are the newest first.
pub(super) fn complete(
    workspace: &Workspace,
    query: &str,
    focus: Option<&ContextLink>,
    sessions: &[ListedSession],
) -> Vec<ContextItem> {
    let until = Instant::now() + SYMBOL_TIME;
    let query = query.to_lowercase();
    let mut found: Vec<(usize, ContextItem)> = Vec::new();
    let mut add = |kind, items: Vec<(usize, String, String, Option<String>)>, most| {
        let item = |(rank, name, uri, detail)| (rank, ContextItem { kind, name, uri, detail });
        found.extend(items.into_iter().take(most).map(item));
    };
    if let Some(link) = focus
        && let Some(Target::File { name: file_name, lines }) = Target::parse(&link.uri, workspace)
    {
        let name = match lines.as_slice() {
            [first, last] => format!("{file_name}:{first}-{last}"),
            [line, ..] => format!("{file_name}:{line}"),
            [] => file_name.clone(),
        };
        let rank =
            |kind: &str, name: &str| if kind.starts_with(&query) { Some(0) } else { rank(name, &query) };
        let selected = rank("selection", &name).filter(|_| !lines.is_empty());
        let item = selected.map(|rank| (rank, name.clone(), link.uri.clone(), None));
        add(ContextKind::Selection, item.into_iter().collect(), 1);
        let file = link.uri.split('#').next().unwrap_or_default();
        let name = format!("diagnostics:{file_name}");
        let item =
            rank("diagnostics", &name).map(|rank| (rank, name, format!("{SCHEME}diagnostics?{file}"), None));
        add(ContextKind::Diagnostics, item.into_iter().collect(), 1);
    }
    if "diagnostics".starts_with(&query) {
        let item = (1, "diagnostics".to_owned(), format!("{SCHEME}diagnostics"), None);
        add(ContextKind::Diagnostics, vec![item], 1);
    }
    let root = workspace.root();
    let files = workspace.files(root).map(|path| workspace.relative(&path));
    let mut files: Vec<_> = files.filter_map(|name| Some((rank(&name, &query)?, name.len(), name))).collect();
    files.sort();
    let uri = |name: &str| paths::path_to_uri(root.join(name).as_path());
    let files = files.into_iter().map(|(rank, _, name)| (rank, name.clone(), uri(&name), None));
    add(ContextKind::File, files.take(MAX_FILES).collect(), MAX_FILES);
    let symbols =
        if query.len() < 2 { Vec::new() } else { tools::symbols_like(workspace, &query, MAX_OF_KIND, until) };
    let symbol = |it: tools::SymbolMatch| {
        let (path, lines) = (workspace.relative(&it.path), it.lines);
        let uri = format!("{}#L{}-L{}", uri(&path), lines.start(), lines.end());
        (usize::from(it.name.to_lowercase() != query), format!("{path}:{}", it.name), uri, None)
    };
    let mut symbols: Vec<_> = symbols.into_iter().map(symbol).collect();
    // Overloads have one name.
    symbols.dedup_by(|a, b| a.1 == b.1);
    add(ContextKind::Symbol, symbols, MAX_OF_KIND);
    let session = |it: &ListedSession| {
        let rank =
            if query.is_empty() || "session".starts_with(&query) { Some(1) } else { rank(&it.title, &query) };
        let uri = format!("{SCHEME}session?{}", it.session);
        Some((rank?, format!("session:{}", it.session), uri, Some(it.title.clone())))
    };
    add(ContextKind::Session, sessions.iter().filter_map(session).collect(), MAX_OF_KIND);
    found.sort_by_key(|(rank, item)| (*rank, item.kind));
    found.into_iter().map(|(_, item)| item).collect()
}

/// How well a path or title matches; 0 is best.
fn rank(name: &str, query: &str) -> Option<usize> {
    let lower = name.to_lowercase();
    let last = lower.rsplit('/').next().unwrap_or_default();
    match () {
        () if last.starts_with(query) => Some(0),
        () if last.contains(query) => Some(1),
        () if lower.contains(query) => Some(2),
        () if is_subsequence(query, &lower) => Some(3),
        () => None,
    }
}

fn is_subsequence(query: &str, text: &str) -> bool {
    let mut text = text.chars();
    query.chars().all(|wanted| text.any(|c| c == wanted))
}

/// The target of a link.
enum Target {
    File { name: String, lines: Vec<usize> },
    Diagnostics { name: Option<String> },
    Session { id: String },
}

impl Target {
    fn parse(uri: &str, workspace: &Workspace) -> Option<Self> {
        let file = |uri: &str| {
            let path = paths::uri_to_path(uri).and_then(|path| paths::AbsPath::new(&path))?;
            Some(workspace.relative(&path))
        };
        if let Some(link) = uri.strip_prefix(SCHEME) {
            return match link.split_once('?') {
                None if link == "diagnostics" => Some(Self::Diagnostics { name: None }),
                Some(("diagnostics", of)) => Some(Self::Diagnostics { name: Some(file(of)?) }),
                Some(("session", id)) => Some(Self::Session { id: id.to_owned() }),
                _ => None,
            };
        }
        let (path, fragment) = uri.split_once('#').unwrap_or((uri, ""));
        let lines: Option<Vec<usize>> = match fragment {
            "" => Some(Vec::new()),
            range => range.split('-').map(|line| line.strip_prefix('L')?.parse().ok()).collect(),
        };
        Some(Self::File { name: file(path)?, lines: lines.filter(|it| it.len() <= 2)? })
    }
}

/// Adds the links to the text of a prompt, for the model to read.
///
/// `load` loads a session of the project.
pub(super) fn with_links(
    text: &str,
    links: &[ContextLink],
    workspace: &Workspace,
    load: impl Fn(&str) -> Result<LoadedSession, ServiceError>,
) -> Result<String, ServiceError> {
    let mut out = text.to_owned();
    for ContextLink { uri } in links {
        let target = Target::parse(uri, workspace).ok_or_else(|| {
            let message = format!("cannot link {uri:?}; use file:///PATH, or file:///PATH#L3-L7 for lines");
            ServiceError::new(ErrorCode::InvalidArguments, message)
        })?;
        let about = match &target {
            Target::File { name, lines } => match lines.as_slice() {
                [first, last] => format!("lines {first} to {last} of {name}"),
                [line, ..] => format!("line {line} of {name}"),
                [] => name.clone(),
            },
            Target::Diagnostics { name: Some(name) } => format!("the diagnostics of {name}"),
            Target::Diagnostics { name: None } => "the diagnostics of the project".to_owned(),
            Target::Session { id } => describe(&load(id)?),
        };
        out.push_str(&format!("\n\n(This is about {about}.)"));
    }
    Ok(out)
}

/// The prompts and the last answer of an earlier session, shortened.
fn describe(session: &LoadedSession) -> String {
    let prompts = session.context().into_iter().filter(|it| matches!(it, Message::User(_)));
    let mut prompts: Vec<String> =
        prompts.map(|it| format!("- {}", beginning(&it.text(), MAX_PROMPT))).collect();
    prompts.drain(..prompts.len().saturating_sub(MAX_OF_KIND));
    let answer = session.last_answer().map(|it| Message::Assistant(it).text()).unwrap_or_default();
    let answer = match answer.trim() {
        "" => "It has no answer".to_owned(),
        answer => format!("Its last answer:\n{}", beginning(answer, MAX_ANSWER)),
    };
    format!("the earlier session “{}”. Its prompts:\n{}\n{answer}", session.title(), prompts.join("\n"))
}

fn beginning(text: &str, most: usize) -> String {
    let mut shown: String = text.trim().chars().take(most).collect();
    if shown.len() < text.trim().len() {
        shown.push('…');
    }
    shown
}
