//! How the answers of language servers are told: short, in lines that can be edited, with what was
//! left out counted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent::ToolCx;
use lsp_client::{
    Answer, Diagnostic, Diagnostics, Location, Related, Reported, ServerLife, ServerLog, ServerState,
    ServerStatus, Severity, Symbol, UnaskedWhy, WorkspaceSymbols,
};
use serde_json::{Value, json};
use text::{LineIndex, occurrences};
use workspace::{AbsPath, Document, Version};

use super::{bound, may_read};
use crate::kit::Start;
use crate::words::Holding;
use crate::{Kit, counted};

/// At most this many places are shown with their lines.
const MAX_PLACES: usize = 100;
/// At most this many symbols are listed.
const MAX_SYMBOLS: usize = 300;
/// At most this many diagnostics are listed.
const MAX_DIAGNOSTICS: usize = 100;
/// At most this many entries of one kind are in the details; the rest is counted.
pub(super) const MAX_ENTRIES: usize = 10_000;
/// Of so many it is told what else they say …
const MAX_DETAILED: usize = 1000;
/// … with at most so many other places each.
const MAX_RELATED: usize = 3;
/// At most this many messages of a log are shown.
const MAX_MESSAGES: usize = 40;
/// At most this many logs of servers that have ended are shown.
const MAX_ENDED: usize = 3;
/// At most this many files of those that were not asked about are named.
const MAX_NAMED: usize = 5;
/// At most this many places left over by a rename are listed.
const MAX_LEFT: usize = 12;

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

/// Places by file, each line in the form that `edit` takes.
pub(super) fn locations(kit: &Kit, places: &[Location], cx: &ToolCx) -> String {
    let mut by_file: BTreeMap<&AbsPath, Vec<usize>> = BTreeMap::new();
    for place in places.iter().take(MAX_PLACES) {
        by_file.entry(&place.path).or_default().push(place.line);
    }
    let mut out = String::new();
    for (path, mut lines) in by_file {
        lines.sort_unstable();
        lines.dedup();
        let is_inside = path.starts_with(kit.workspace.root());
        if is_inside && !may_read(path, cx) {
            let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
            out.push_str(&format!("{}: protected; lines {}\n", kit.shown(path), lines.join(", ")));
            continue;
        }
        match is_inside.then(|| kit.workspace.document(path).ok()).flatten() {
            Some(document) => out.push_str(&bound::lines(kit, &document, &lines)),
            None => {
                // Of another project or the language itself: shown, not to be edited.
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

pub(super) fn symbols(
    kit: &Kit,
    document: &Document,
    answer: &Answer<Vec<Symbol>>,
    query: Option<&str>,
) -> (String, Vec<Value>) {
    let index = LineIndex::new(&document.text);
    let query = query.map(str::to_lowercase);
    let mut rows = Vec::new();
    flatten(&answer.value, 0, &mut |symbol, depth| {
        let wanted = query.as_ref().is_none_or(|query| symbol.name.to_lowercase().contains(query));
        if wanted {
            rows.push((index.line_of(symbol.selection.start) + 1, depth, symbol));
        }
    });
    let file = kit.shown(&document.path);
    let mut out = with_note(
        &format!("{} in {file} ({})", counted(rows.len(), "symbol"), answer.server),
        answer.note.as_deref(),
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
        .map(|(line, _, symbol)| json!({ "path": symbol.path, "kind": symbol.kind, "line": line }))
        .collect();
    (out, list)
}

/// Symbols of the workspace that match, and whose servers were not asked. Those that a server found elsewhere
/// (in its libraries, in the system's headers) are counted.
pub(super) fn found_symbols(
    kit: &Kit,
    query: &str,
    answer: &Answer<WorkspaceSymbols>,
    cx: &ToolCx,
) -> (String, Vec<Value>) {
    let root = kit.workspace.root();
    let found = &answer.value.symbols;
    let symbols: Vec<&Symbol> = found.iter().filter(|it| it.file.starts_with(root)).collect();
    let outside = found.len() - symbols.len();
    let amount = if symbols.is_empty() { "none found".to_owned() } else { counted(symbols.len(), "symbol") };
    let left_out = match outside {
        0 => String::new(),
        _ => format!("; {outside} outside the project left out"),
    };
    let title = format!("symbols like `{query}`: {amount}{left_out} ({})", answer.server);
    let mut out = with_note(&title, answer.note.as_deref()) + "\n";
    for symbol in symbols.iter().take(MAX_SYMBOLS) {
        let place = format!("{}:{}", kit.shown(&symbol.file), symbol.line);
        out.push_str(&format!("{place}: {} {}\n", symbol.kind, symbol.path));
    }
    if symbols.len() > MAX_SYMBOLS {
        out.push_str(&format!("… and {} more; narrow it with `query`\n", symbols.len() - MAX_SYMBOLS));
    }
    for it in &answer.value.unasked {
        let files: Vec<AbsPath> = it.files.iter().filter(|path| may_read(path, cx)).cloned().collect();
        if files.is_empty() {
            continue;
        }
        let (count, names, servers) =
            (counted(files.len(), "file"), named(kit, &files), it.servers.join(" or "));
        out.push_str(&match it.why {
            UnaskedWhy::Missing => passed(kit, &BTreeMap::from([(servers, files)]), ""),
            UnaskedWhy::Unable => {
                format!("not asked about: {count}, for {servers} has no symbols of a project ({names})\n")
            }
            UnaskedWhy::Idle => format!(
                "not asked about: {count}, for {servers} does not run ({names}); `symbols` with one of them as \
                 `file` starts it, and after that in the same session this asks it too\n"
            ),
        });
    }
    if answer.value.is_cut {
        out.push_str("not every file was looked at for whether its server was asked: there are too many\n");
    }
    let row = |it: &&Symbol| json!({ "path": it.path, "kind": it.kind, "file": kit.shown(&it.file), "line": it.line });
    (out, symbols.iter().take(MAX_SYMBOLS).map(row).collect())
}

fn flatten<'a>(symbols: &'a [Symbol], depth: usize, each: &mut impl FnMut(&'a Symbol, usize)) {
    for symbol in symbols {
        each(symbol, depth);
        flatten(&symbol.children, depth + 1, each);
    }
}

/// What a file's answer is when its server gave none.
pub(super) fn unanswered(version: Version, why: String) -> Answer<Diagnostics> {
    let value = Diagnostics {
        version,
        items: Vec::new(),
        pending: Vec::new(),
        failed: vec![why],
        on_save: Vec::new(),
    };
    Answer { value, server: String::new(), note: None }
}

/// Files that were not asked about.
pub(super) struct Left {
    /// In order of their paths …
    pub files: Vec<AbsPath>,
    /// … and why.
    pub why: String,
    /// Those whose servers are not here, by the servers' names.
    pub passed: BTreeMap<String, Vec<AbsPath>>,
}

/// Some files by name, and how many more there are.
fn named(kit: &Kit, files: &[AbsPath]) -> String {
    let mut names: Vec<String> = files.iter().take(MAX_NAMED).map(|path| kit.shown(path)).collect();
    if files.len() > MAX_NAMED {
        names.push(format!("{} more", files.len() - MAX_NAMED));
    }
    names.join(", ")
}

/// A line for each kind of files whose servers are not here.
pub(super) fn passed(kit: &Kit, passed: &BTreeMap<String, Vec<AbsPath>>, before: &str) -> String {
    let line = |(servers, files): (&String, &Vec<AbsPath>)| {
        let count = counted(files.len(), "file");
        format!("{before}passed over: {count}, for which {servers} is not here ({})\n", named(kit, files))
    };
    passed.iter().map(line).collect()
}

pub(super) fn diagnostics(
    kit: &Kit,
    answers: &[(Document, Answer<Diagnostics>)],
    reported: &BTreeMap<AbsPath, Reported>,
    left: &Left,
) -> (String, Value) {
    let unchecked = left.files.len();
    let (mut errors, mut warnings, mut others) = (0, 0, 0);
    let asked = answers.iter().map(|(document, answer)| (document, &answer.value.items));
    let told = reported.values().filter_map(|it| Some((it.document.as_ref()?, &it.items)));
    let (mut files, mut found) = (Vec::new(), Vec::new());
    for (document, items) in asked.chain(told) {
        for item in items {
            match item.severity {
                Severity::Error => errors += 1,
                Severity::Warning => warnings += 1,
                _ => others += 1,
            }
            found.push((files.len(), item));
        }
        files.push((document, LineIndex::new(&document.text)));
    }
    // The worst first; within a severity as they stand in the files. Of thousands only some are told.
    let mut worst: Vec<usize> = (0..found.len()).collect();
    worst.sort_by_key(|at| found[*at].1.severity);
    let related = |item: &Diagnostic| {
        let mut related = item.related();
        related.truncate(MAX_RELATED);
        related
    };
    let row = |at: &usize| {
        let (file, item) = found[*at];
        let (document, index) = &files[file];
        let line = index.line_of(item.range.start);
        let source =
            index.line(&document.text, line).map(|range| document.text[range].trim()).unwrap_or_default();
        let (path, head) = (kit.shown(&document.path), headline(item));
        let mut row = format!("{path}:{}: {head}\n    {source}\n", line + 1);
        for it in related(item) {
            let message = it.message.replace('\n', " ");
            row.push_str(&format!("    {}:{}: {message}\n", kit.shown(&it.path), it.line));
        }
        row
    };
    let rows: Vec<String> = worst.iter().take(MAX_DIAGNOSTICS).map(row).collect();
    let mut listed: Vec<usize> = worst.iter().take(MAX_ENTRIES).copied().collect();
    listed.sort_unstable();
    let entry = |(number, at): (usize, &usize)| {
        let (file, item) = found[*at];
        let (document, index) = &files[file];
        let mut entry = json!({
            "path": kit.shown(&document.path), "line": index.line_of(item.range.start) + 1,
            "severity": item.severity.to_string(),
            "code": item.code, "source": item.source, "message": item.message,
        });
        if number < MAX_DETAILED {
            let place =
                |it: Related| json!({ "path": kit.shown(&it.path), "line": it.line, "message": it.message });
            entry["related"] = item.related().into_iter().map(place).collect();
            entry["tags"] = json!(item.tags());
            entry["page"] = json!(item.page());
        }
        entry
    };
    let list: Vec<Value> = listed.iter().enumerate().map(entry).collect();
    let mut servers: Vec<&str> =
        answers.iter().flat_map(|(_, it)| it.server.split(", ")).filter(|it| !it.is_empty()).collect();
    servers.extend(reported.values().flat_map(|it| it.servers.iter().map(String::as_str)));
    servers.sort_unstable();
    servers.dedup();
    // A file of which nothing is known is not one without errors.
    let is_known = |answer: &Answer<Diagnostics>| {
        !answer.value.items.is_empty() || answer.value.pending.is_empty() && answer.value.failed.is_empty()
    };
    let answered = answers.iter().filter(|(_, answer)| is_known(answer)).count();
    let known = answered + reported.len();
    let mut out = if known == 0 {
        format!("nothing is known of {}", counted(answers.len(), "file"))
    } else {
        let counts = [(errors, "error"), (warnings, "warning"), (others, "hint")];
        let counts = counts.map(|(count, noun)| counted(count, noun)).join(", ");
        let unknown = match answers.len() - answered {
            0 => String::new(),
            unknown => format!("; nothing is known of {} more", unknown),
        };
        // Nor is one that a server could not look at in time as it is saved.
        let sources = answers.iter().flat_map(|(_, answer)| &answer.value.on_save);
        let sources = sources.filter(|(_, server)| kit.servers.checks_saved(server));
        let sources: BTreeSet<&str> = sources.map(|(source, _)| source.as_str()).collect();
        let without = match sources.is_empty() {
            true => String::new(),
            false => format!(" without {}", sources.into_iter().collect::<Vec<_>>().join(" and ")),
        };
        format!("{counts} in {}{without}{unknown}", counted(known, "file"))
    };
    let silent: BTreeSet<&String> = answers.iter().flat_map(|(_, answer)| &answer.value.pending).collect();
    let silent: Vec<String> = silent.into_iter().map(|server| format!("{server} pending")).collect();
    let who: Vec<String> =
        [servers.join(", "), silent.join(", ")].into_iter().filter(|it| !it.is_empty()).collect();
    if !who.is_empty() {
        out.push_str(&format!(" ({})", who.join("; ")));
    }
    out.push('\n');
    out.extend(rows);
    if found.len() > MAX_DIAGNOSTICS {
        out.push_str(&format!("… and {} more; name a `file`\n", found.len() - MAX_DIAGNOSTICS));
    }
    let (mut pending, mut failed) = (Vec::new(), Vec::new());
    // What keeps one server from starting keeps it from all its files, and is said once.
    let mut reasons: BTreeMap<&str, (String, usize)> = BTreeMap::new();
    let mut notes: BTreeMap<&str, (String, usize)> = BTreeMap::new();
    for (document, answer) in answers {
        for server in &answer.value.pending {
            pending.push(format!("{}: {server}", kit.shown(&document.path)));
        }
        for why in &answer.value.failed {
            failed.push(format!("{}: {why}", kit.shown(&document.path)));
            let of = reasons.entry(why.as_str()).or_insert((kit.shown(&document.path), 0));
            of.1 += 1;
        }
        if let Some(note) = &answer.note {
            notes.entry(note).or_insert((kit.shown(&document.path), 0)).1 += 1;
        }
    }
    let files = |(file, count): &(String, usize)| match count {
        1 => file.clone(),
        more => format!("{file} and {}", counted(more - 1, "more file")),
    };
    for (note, of) in &notes {
        out.push_str(&format!("note: {}: {note}\n", files(of)));
    }
    if !pending.is_empty() {
        out.push_str(&format!("pending, so not known yet:\n  {}\n", pending.join("\n  ")));
    }
    if !failed.is_empty() {
        out.push_str("not known:\n");
        for (why, of) in &reasons {
            out.push_str(&format!("  {}: {why}\n", files(of)));
        }
    }
    let on_save: BTreeSet<(String, String)> =
        answers.iter().flat_map(|(_, answer)| answer.value.on_save.iter().cloned()).collect();
    for line in left_out(kit, &on_save, true) {
        out.push_str(&line);
    }
    if !reported.is_empty() {
        let by: BTreeSet<&str> =
            reported.values().flat_map(|it| it.servers.iter().map(String::as_str)).collect();
        let by = by.into_iter().collect::<Vec<_>>().join(", ");
        let files = counted(reported.len(), "file");
        out.push_str(&format!(
            "of {files} only what {by} reports on the whole project; name a `file` for all\n"
        ));
    }
    if unchecked > 0 {
        let (names, why) = (named(kit, &left.files), &left.why);
        let files = counted(unchecked, "more file");
        out.push_str(&format!(
            "not checked: {files}: {why} ({names}); ask for fewer, or give a longer `timeout`\n"
        ));
    }
    out.push_str(&passed(kit, &left.passed, ""));
    let on_save: Vec<&String> = on_save.iter().map(|(source, _)| source).collect();
    let details = json!({
        "diagnostics": list, "left_out": found.len() - listed.len(), "pending": pending, "failed": failed, "not_checked": unchecked,
        "on_save": on_save, "passed_over": left.passed.values().map(Vec::len).sum::<usize>(),
    });
    (out, details)
}

/// A line for each server about its sources that run on save only.
/// `asked`: it was asked for what can be asked for, in vain.
pub(crate) fn left_out(kit: &Kit, on_save: &BTreeSet<(String, String)>, asked: bool) -> Vec<String> {
    let mut sources: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (source, server) in on_save {
        sources.entry(server).or_default().push(source);
    }
    let line = |(server, sources): (&str, Vec<&str>)| {
        let sources = sources.join(" and ");
        match (kit.servers.checks_saved(server), asked) {
            (true, true) => format!("left out: {sources}, of which {server} does not know now\n"),
            (true, false) => {
                format!("left out: {sources}, for which {server} looks when it is asked: `lsp diagnostics`\n")
            }
            (false, _) => {
                format!("left out: {sources}, which {server} runs, if at all, when a file is saved\n")
            }
        }
    };
    sources.into_iter().map(line).collect()
}

/// Where a renamed thing's old name still stands: strings, comments, other things of that name. First in
/// the files that `edited` holds, then in others of their kinds.
pub(super) fn left_over(kit: &Kit, old_name: &str, holding: &Holding, edited: &[String]) -> String {
    let kind = |name: &str| name.rsplit_once('.').map(|(_, kind)| kind.to_owned());
    let kinds: BTreeSet<_> = edited.iter().map(|name| kind(name)).collect();
    let mut files: Vec<(String, &Document)> =
        holding.documents.iter().map(|document| (kit.shown(&document.path), document)).collect();
    files.sort_by_key(|(name, _)| (!edited.contains(name), !kinds.contains(&kind(name))));
    let mut places = Vec::new();
    for (name, document) in files {
        let index = LineIndex::new(&document.text);
        for range in occurrences(&document.text, old_name) {
            places.push(format!("{name}:{}", index.line_of(range.start) + 1));
        }
    }
    if places.is_empty() {
        return String::new();
    }
    let count = places.len();
    places.dedup();
    let more = if places.len() > MAX_LEFT {
        format!(" and {} more", places.len() - MAX_LEFT)
    } else {
        String::new()
    };
    places.truncate(MAX_LEFT);
    let cut = if holding.cut { " (not every file was searched)" } else { "" };
    format!(
        "`{old_name}` still stands at {}, as text or as what the server does not take for this symbol{cut}: {}{more}
",
        counted(count, "place"),
        places.join(", ")
    )
}

/// When servers are started here.
pub(super) fn starts(kit: &Kit) -> &'static str {
    match kit.settings().start {
        _ if kit.kept.is_some() => "first asked",
        Start::Use => "first asked",
        Start::Edit => "first asked, or when a tool first changes a file of theirs",
        Start::Read => "first asked, or when a tool first reads a file of theirs",
    }
}

pub(super) fn status(kit: &Kit, servers: &[ServerStatus]) -> (String, Value) {
    if servers.is_empty() {
        return (
            format!("no language server was needed yet; they start when {}\n", starts(kit)),
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
        let root = kit.shown(&server.root);
        out.push_str(&format!("{} for {root}: {state}", server.name));
        if let Some(uptime) = server.uptime {
            out.push_str(&format!(" for {} s, {} documents open", uptime.as_secs(), server.open_documents));
        }
        if !detail.is_empty() {
            out.push_str(&format!(" ({detail})"));
        }
        if server.unanswered > 0 {
            out.push_str(&format!("; {} not answered yet", counted(server.unanswered, "question")));
        }
        if server.overlooks {
            out.push_str("; it has too many files for all to be looked at, so a change that another program makes may be missed: `reload` after it");
        }
        out.push('\n');
        for said in &server.said {
            out.push_str(&format!("  it says: {}\n", said.replace('\n', "\n    ")));
        }
        list.push(json!({
            "said": server.said, "name": server.name, "root": root, "state": state, "detail": detail, "pid": server.pid,
            "open_documents": server.open_documents, "unanswered": server.unanswered, "failures": server.failures,
            "overlooks": server.overlooks,
        }));
    }
    (out, json!({ "servers": list }))
}

/// What is kept of servers' lives: error streams and the newest messages. Of many that have ended the last are
/// shown, and the rest is named.
pub(super) fn logs(kit: &Kit, logs: &[ServerLog]) -> (String, Value) {
    let (mut out, mut list, mut ended, mut left) = (String::new(), Vec::new(), 0, String::new());
    for log in logs {
        let heading = format!("{} for {}: {}", log.name, kit.shown(&log.root), lives(&log.life));
        let (state, end) = match &log.life {
            ServerLife::Runs => ("running", None),
            ServerLife::RunsElsewhere { .. } => ("running_elsewhere", None),
            ServerLife::Ended(end) if end.crashed => ("crashed", Some(end)),
            ServerLife::Ended(end) => ("ended", Some(end)),
            ServerLife::Lost { .. } => ("lost", None),
        };
        list.push(json!({
            "name": log.name, "root": kit.shown(&log.root), "state": state, "folder": log.folder,
            "ended_at_ms": end.map(|end| end.at_ms), "why": end.map(|end| &end.why),
        }));
        if !matches!(log.life, ServerLife::Runs) {
            ended += 1;
            if ended > MAX_ENDED {
                left.push_str(&format!("  {heading}\n"));
                continue;
            }
        }
        out.push_str(&format!("{heading}\nerror stream:\n{}\n", tail(&log.stderr_tail, 100)));
        let skipped = log.traffic.len().saturating_sub(MAX_MESSAGES);
        out.push_str(&format!("messages ({skipped} earlier ones left out):\n"));
        for entry in &log.traffic[skipped..] {
            out.push_str(&format!("{entry}\n"));
        }
        out.push_str(&format!("more of each message is in {}\n", log.folder));
    }
    if !left.is_empty() {
        out.push_str(&format!("not shown; name a `server` for its log:\n{left}"));
    }
    (out, json!({ "servers": list }))
}

/// Whether a server goes on, for people.
fn lives(life: &ServerLife) -> String {
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
        ServerLife::Runs => "running".to_owned(),
        ServerLife::RunsElsewhere { pid } => format!("running for another process of Pilcrow ({pid})"),
        ServerLife::Ended(end) => {
            let how = if end.crashed { "crashed" } else { "ended" };
            format!("{how} {} ({})", ago(end.at_ms), end.why)
        }
        ServerLife::Lost { heard_ms } => {
            format!("heard of last {}, then Pilcrow was killed", ago(*heard_ms))
        }
    }
}

/// One line for one diagnostic.
pub(crate) fn headline(item: &Diagnostic) -> String {
    let source = item.source.as_deref().unwrap_or(&item.server);
    let code = item.code.as_ref().map(|code| format!(" [{code}]")).unwrap_or_default();
    format!("{}: {}{code} ({source})", item.severity, item.message.trim().replace('\n', "\n    "))
}

/// The last lines of a text.
fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let skipped = lines.len().saturating_sub(count);
    let mut out = if skipped > 0 { format!("… {skipped} earlier lines\n") } else { String::new() };
    out.push_str(&lines[skipped..].join("\n"));
    out
}
