//! Answers of language servers as text: short, with lines that can be edited.
//!
//! The text counts the parts that it omits.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent::ToolCx;
use lsp_client::{
    Answer, Diagnostics, Location, Note, ServerError, ServerLog, ServerLogState, ServerState, ServerStatus,
    Symbol, UnaskedWhy, WorkspaceSymbols,
};
use paths::AbsPath;
use serde_json::{Value, json};
use text::LineIndex;
use workspace::{Document, Version};

use super::{may_read, truncate};
use crate::files::outline;
use crate::{ServerStart, ToolContext, counted, notes};

/// Maximum number of places shown with their lines.
const MAX_PLACES: usize = 100;
/// Maximum number of symbols in the text.
const MAX_SYMBOLS: usize = 300;
/// Maximum number of entries of one kind in the details.
pub(super) const MAX_ENTRIES: usize = 10_000;
/// Maximum number of messages of a log in the text.
const MAX_MESSAGES: usize = 40;
/// Maximum number of logs of ended servers in the text.
const MAX_ENDED: usize = 3;
/// Maximum number of files named where several are counted.
const MAX_NAMED: usize = 5;

pub(super) fn heading(title: &str, count: usize, server: &str, note: Option<&str>) -> String {
    let amount = if count == 0 { "none found".to_owned() } else { counted(count, "place") };
    with_note(&format!("{title}: {amount} ({server})"), note) + "\n"
}

pub(super) fn with_note(text: &str, note: Option<&str>) -> String {
    match note {
        Some(note) => format!("{text}\nnote: {note}"),
        None => text.to_owned(),
    }
}

/// Renders places by file and declaration, each line in the form that `edit` takes.
pub(super) async fn locations(context: &ToolContext, places: &[Location], cx: &ToolCx) -> String {
    let mut by_file: BTreeMap<&AbsPath, Vec<usize>> = BTreeMap::new();
    for place in places.iter().take(MAX_PLACES) {
        by_file.entry(&place.path).or_default().push(place.line);
    }
    let mut out = String::new();
    for (path, mut lines) in by_file {
        lines.sort_unstable();
        lines.dedup();
        let is_inside = path.starts_with(context.workspace.root());
        if is_inside && !may_read(path, cx) {
            let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
            out.push_str(&format!("{}: protected; lines {}\n", context.display_path(path), lines.join(", ")));
            continue;
        }
        match is_inside.then(|| context.workspace.document(path).ok()).flatten() {
            Some(document) => {
                let declarations = outline::declarations(context, &document).await.unwrap_or_default();
                out.push_str(&truncate::lines(context, &document, &lines, &declarations));
            }
            None => {
                // Files of another project or of the language itself are shown and not edited.
                for place in places.iter().filter(|place| place.path == *path) {
                    out.push_str(&format!("{path}:{}: {}\n", place.line, place.line_text.trim()));
                }
            }
        }
    }
    if places.len() > MAX_PLACES {
        out.push_str(&format!(
            "… and {} more places; name a `file` to narrow it\n",
            places.len() - MAX_PLACES
        ));
    }
    out
}

/// Symbols as text for the model and as data for programs.
pub(super) struct FoundSymbols {
    pub text: String,
    pub list: Vec<Value>,
    /// Whether the text lists fewer symbols than there may be, and says so.
    pub is_partial: bool,
}

pub(super) fn symbols(
    context: &ToolContext,
    document: &Document,
    answer: &Answer<Vec<Symbol>>,
    query: Option<&str>,
) -> FoundSymbols {
    let index = LineIndex::new(&document.text);
    let query = query.map(str::to_lowercase);
    let mut rows = Vec::new();
    flatten(&answer.value, 0, &mut |symbol, depth| {
        let wanted = query.as_ref().is_none_or(|query| symbol.name.to_lowercase().contains(query));
        if wanted {
            rows.push((index.line_of(symbol.selection.start) + 1, depth, symbol));
        }
    });
    let file = context.display_path(&document.path);
    let mut out = with_note(
        &format!("{} in {file} ({})", counted(rows.len(), "symbol"), answer.server),
        notes::render(context, &answer.notes).as_deref(),
    ) + "\n";
    for (line, depth, symbol) in rows.iter().take(MAX_SYMBOLS) {
        let indent = "  ".repeat(*depth);
        out.push_str(&format!("{line}: {indent}{} {}\n", symbol.kind, symbol.name));
    }
    if rows.len() > MAX_SYMBOLS {
        out.push_str(&format!("… and {} more; narrow it with `query`\n", rows.len() - MAX_SYMBOLS));
    }
    let list = rows
        .iter()
        .map(|(line, _, symbol)| json!({ "path": symbol.path, "kind": symbol.kind, "file": file, "line": line }))
        .collect();
    FoundSymbols { text: out, list, is_partial: rows.len() > MAX_SYMBOLS }
}

/// Renders symbols of the workspace that match a query.
///
/// Also returns the files whose servers were not asked. Only counts symbols outside the workspace (libraries,
/// system headers).
pub(super) fn found_symbols(
    context: &ToolContext,
    query: &str,
    answer: &Answer<WorkspaceSymbols>,
    cx: &ToolCx,
) -> FoundSymbols {
    let root = context.workspace.root();
    let found = &answer.value.symbols;
    let symbols: Vec<&Symbol> = found.iter().filter(|it| it.file.starts_with(root)).collect();
    let outside = found.len() - symbols.len();
    let amount = if symbols.is_empty() { "none found".to_owned() } else { counted(symbols.len(), "symbol") };
    let left_out = match outside {
        0 => String::new(),
        _ => format!("; {outside} outside the project omitted"),
    };
    let title = format!("symbols like `{query}`: {amount}{left_out} ({})", answer.server);
    let mut out = with_note(&title, notes::render(context, &answer.notes).as_deref()) + "\n";
    for symbol in symbols.iter().take(MAX_SYMBOLS) {
        let place = format!("{}:{}", context.display_path(&symbol.file), symbol.line);
        out.push_str(&format!("{place}: {} {}\n", symbol.kind, symbol.path));
    }
    if symbols.len() > MAX_SYMBOLS {
        out.push_str(&format!("… and {} more; narrow it with `query`\n", symbols.len() - MAX_SYMBOLS));
    }
    let mut is_partial = symbols.len() > MAX_SYMBOLS || answer.value.is_cut;
    for it in &answer.value.unasked {
        let files: Vec<AbsPath> = it.files.iter().filter(|path| may_read(path, cx)).cloned().collect();
        if files.is_empty() {
            continue;
        }
        is_partial = true;
        let (count, names, servers) =
            (counted(files.len(), "file"), named(context, &files), it.servers.join(" or "));
        out.push_str(&match it.why {
            UnaskedWhy::Missing => missing_servers(context, &BTreeMap::from([(servers, files)]), ""),
            UnaskedWhy::Unable => {
                format!("not searched: {count}, because {servers} did not answer `workspace/symbol` ({names});\nuse `grep` there\n")
            }
            UnaskedWhy::Idle => format!(
                "not searched: {count}, because {servers} does not run ({names});\n`symbols` with one of them as \
                 `file` starts it, then call this again in the same session\n"
            ),
        });
    }
    if answer.value.is_cut {
        out.push_str(
            "the list of files whose server was not asked is incomplete: there are too many files\n",
        );
    }
    let row = |it: &&Symbol| json!({ "path": it.path, "kind": it.kind, "file": context.display_path(&it.file), "line": it.line });
    FoundSymbols { text: out, list: symbols.iter().take(MAX_SYMBOLS).map(row).collect(), is_partial }
}

fn flatten<'a>(symbols: &'a [Symbol], depth: usize, each: &mut impl FnMut(&'a Symbol, usize)) {
    for symbol in symbols {
        each(symbol, depth);
        flatten(&symbol.children, depth + 1, each);
    }
}

/// Creates the answer for a file whose server gave none.
pub(super) fn unanswered(version: Version, error: ServerError) -> Answer<Diagnostics> {
    let value = Diagnostics {
        version,
        items: Vec::new(),
        answered: Vec::new(),
        pending: Vec::new(),
        failed: vec![Note::Failed(error)],
        on_save: Vec::new(),
    };
    Answer { value, server: String::new(), notes: Vec::new() }
}

/// Lists some files by name, and the number of the rest.
pub(super) fn named(context: &ToolContext, files: &[AbsPath]) -> String {
    let mut names: Vec<String> =
        files.iter().take(MAX_NAMED).map(|path| context.display_path(path)).collect();
    if files.len() > MAX_NAMED {
        names.push(format!("{} more", files.len() - MAX_NAMED));
    }
    names.join(", ")
}

/// Renders a line for each group of files whose servers are not installed.
pub(super) fn missing_servers(
    context: &ToolContext,
    passed: &BTreeMap<String, Vec<AbsPath>>,
    before: &str,
) -> String {
    let line = |(servers, files): (&String, &Vec<AbsPath>)| {
        let count = counted(files.len(), "file");
        format!(
            "{before}skipped: {count}, for which {servers} is not installed ({})\n",
            named(context, files)
        )
    };
    passed.iter().map(line).collect()
}

/// Describes when servers are started.
pub(super) fn starts(context: &ToolContext) -> &'static str {
    match context.settings().start {
        _ if context.saved_snapshots.is_some() => "first asked",
        ServerStart::Use => "first asked",
        ServerStart::Edit => "first asked, or when a tool first changes a file they serve",
        ServerStart::Read => "first asked, or when a tool first reads a file they serve",
    }
}

pub(super) fn status(context: &ToolContext, servers: &[ServerStatus]) -> (String, Value) {
    if servers.is_empty() {
        return (
            format!("no language server has been needed yet; they start when {}\n", starts(context)),
            json!({ "servers": [] }),
        );
    }
    let mut out = String::new();
    let mut list = Vec::new();
    for server in servers {
        let (state, detail) = match &server.state {
            ServerState::Stopped => ("stopped", String::new()),
            ServerState::Starting => ("starting", String::new()),
            ServerState::Running { loading: None } => ("running", String::new()),
            ServerState::Running { loading: Some(loading) } => ("running", loading.clone()),
            ServerState::Crashed { stderr_tail } => ("crashed", stderr_tail.clone()),
        };
        let root = context.display_path(&server.root);
        out.push_str(&format!("{} for {root}: {state}", server.name));
        if let Some(uptime) = server.uptime {
            out.push_str(&format!(" for {} s, {} documents open", uptime.as_secs(), server.open_documents));
        }
        if !detail.is_empty() {
            out.push_str(&format!(" ({detail})"));
        }
        if server.pending > 0 {
            out.push_str(&format!("; {} unanswered", counted(server.pending, "question")));
        }
        if server.is_scan_cut {
            out.push_str("; it has too many files to poll, so changes by other programs may be missed: use `reload` after them");
        }
        out.push('\n');
        for message in &server.messages {
            out.push_str(&format!("  reports: {}\n", message.replace('\n', "\n    ")));
        }
        list.push(json!({
            "said": server.messages, "name": server.name, "root": root, "state": state, "detail": detail, "pid": server.pid,
            "open_documents": server.open_documents, "unanswered": server.pending, "failures": server.failures,
            "overlooks": server.is_scan_cut,
        }));
    }
    (out, json!({ "servers": list }))
}

/// Renders server logs: error streams and the newest messages.
///
/// Shows only the last of the servers that have ended.
pub(super) fn logs(context: &ToolContext, logs: &[ServerLog]) -> (String, Value) {
    let (mut out, mut list, mut ended, mut left) = (String::new(), Vec::new(), 0, String::new());
    for log in logs {
        let heading =
            format!("{} for {}: {}", log.name, context.display_path(&log.root), process_state(&log.life));
        let (state, end) = match &log.life {
            ServerLogState::Runs => ("running", None),
            ServerLogState::RunsElsewhere { .. } => ("running_elsewhere", None),
            ServerLogState::Ended(end) if end.crashed => ("crashed", Some(end)),
            ServerLogState::Ended(end) => ("ended", Some(end)),
            ServerLogState::Lost { .. } => ("lost", None),
        };
        list.push(json!({
            "name": log.name, "root": context.display_path(&log.root), "state": state, "folder": log.directory,
            "ended_at_ms": end.map(|end| end.at_ms), "why": end.map(|end| &end.why),
        }));
        if !matches!(log.life, ServerLogState::Runs) {
            ended += 1;
            if ended > MAX_ENDED {
                left.push_str(&format!("  {heading}\n"));
                continue;
            }
        }
        out.push_str(&format!("{heading}\nerror stream:\n{}\n", tail(&log.stderr_tail, 100)));
        let skipped = log.traffic.len().saturating_sub(MAX_MESSAGES);
        out.push_str(&format!("messages ({skipped} earlier ones omitted):\n"));
        for entry in &log.traffic[skipped..] {
            out.push_str(&format!("{entry}\n"));
        }
        out.push_str(&format!("whole messages are in {}\n", log.directory));
    }
    if !left.is_empty() {
        out.push_str(&format!("not shown; name a `server` for its log:\n{left}"));
    }
    (out, json!({ "servers": list }))
}

/// Renders the state of a server's process.
fn process_state(life: &ServerLogState) -> String {
    let ago = |at_ms: u64| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let secs = now.saturating_sub(Duration::from_millis(at_ms)).as_secs();
        match secs {
            0..120 => format!("{secs} s ago"),
            120..7200 => format!("{} min ago", secs / 60),
            7200..172_800 => format!("{} h ago", secs / 3600),
            _ => format!("{} days ago", secs / 86_400),
        }
    };
    match life {
        ServerLogState::Runs => "running".to_owned(),
        ServerLogState::RunsElsewhere { pid } => format!("running for another Pilcrow process ({pid})"),
        ServerLogState::Ended(end) => {
            let how = if end.crashed { "crashed" } else { "ended" };
            format!("{how} {} ({})", ago(end.at_ms), end.why)
        }
        ServerLogState::Lost { last_write_ms } => {
            format!("last seen {}, then Pilcrow was killed", ago(*last_write_ms))
        }
    }
}

/// Returns the last lines of a text.
fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let skipped = lines.len().saturating_sub(count);
    let mut out = if skipped > 0 { format!("… {skipped} earlier lines\n") } else { String::new() };
    out.push_str(&lines[skipped..].join("\n"));
    out
}
