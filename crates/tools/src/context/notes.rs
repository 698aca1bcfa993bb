//! Diagnostics, and notes of servers and refactorings, as text.

use std::collections::{BTreeMap, BTreeSet};

use lsp_client::{Diagnostic, Location, Note as ServerNote, SaveCheckError, SpeculativeError, Unknown};
use paths::AbsPath;
use refactor::{
    Cut, Line, Mentions, MentionsLeft, Method, Note, OverrideSet, Reason, Redirected, Unresolved,
};
use workspace::Plan;

use crate::{ToolContext, counted};

/// Maximum number of files or places named in one note.
const MAX_NAMED: usize = 12;
/// Maximum number of unchanged files named that contain the old name of a rename.
const MAX_LEFT: usize = 3;
/// Maximum number of unreadable files named in one note.
const MAX_UNREAD: usize = 5;

/// Renders the notes of a server in one line; `None` if there are none.
pub(crate) fn render(context: &ToolContext, notes: &[ServerNote]) -> Option<String> {
    let texts: Vec<String> = notes.iter().map(|note| server_note(context, note)).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// Renders the notes of a refactoring in one line; `None` if there are none.
pub(crate) fn render_refactoring(context: &ToolContext, notes: &[Note]) -> Option<String> {
    let texts: Vec<String> = notes.iter().map(|note| refactoring_note(context, note)).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

pub(crate) fn server_note(context: &ToolContext, note: &ServerNote) -> String {
    match note {
        ServerNote::Loading { server, detail } => {
            let detail = detail.as_deref().unwrap_or("it has not reported that the project is loaded");
            format!("{server} is still loading: {detail}")
        }
        ServerNote::ReadingAgain { server } => {
            format!("{server}: files were created or deleted, and it is still reloading its projects")
        }
        ServerNote::DeletionUnnoticed { server, path } => {
            format!(
                "{server}: it has not shown yet that it noticed the deletion of {}",
                context.display_path(path)
            )
        }
        ServerNote::WorkUnfinished { server } => {
            format!("{server}: work that it started did not end in time, so its answers may be incomplete")
        }
        ServerNote::ProjectNotLoaded { server, reason } => {
            format!("{server}: the project is not loaded ({reason})")
        }
        ServerNote::Reported { server, message } => format!("{server} reports: {message}"),
        ServerNote::OtherVersion { server, used, installed, package } => format!(
            "{server} uses version {used}, but {} has {installed} installed; its compiler may report other errors",
            context.display_path(package)
        ),
        ServerNote::ScanUnfinished { server } => format!(
            "{server}: the scan for external changes did not end in time, so this may be about older files"
        ),
        ServerNote::Unverified { server } => {
            format!("{server} is not verified: it may report no problems before it has read the project")
        }
        ServerNote::Failed(error) => error.to_string(),
        ServerNote::CandidatesOmitted { omitted, is_cut } => {
            let what = match (omitted, is_cut) {
                (0, _) => "not every file was searched for the name".to_owned(),
                (omitted, false) => format!("{omitted} more files contain the name"),
                (omitted, true) => {
                    format!("{omitted} more files contain the name, and not every file was searched for it")
                }
            };
            format!("{what}; files outside the server's project were not searched")
        }
        ServerNote::CandidatesMissed { server, name, files } => {
            let mut names: Vec<String> =
                files.iter().take(MAX_NAMED).map(|path| context.display_path(path)).collect();
            if files.len() > MAX_NAMED {
                names.push(format!("and {} more, which `grep` lists", files.len() - MAX_NAMED));
            }
            format!(
                "{server} left out these files, which contain `{name}` too; check them: {}",
                names.join(", ")
            )
        }
        ServerNote::DiagnosticsPending => {
            "the diagnostics of this place are not known yet, so fixes may be missing".to_owned()
        }
        ServerNote::SaveCheckFailed { server, reason } => format!(
            "{server} was asked to check the files as they are saved: {}",
            save_check_error(context, reason)
        ),
        ServerNote::OutsideSaveCheck { server, sources } => format!(
            "{server} does not count it as part of the project, so it is not checked as saved either: {}",
            sources.join(" and ")
        ),
        ServerNote::SaveCheckIncomplete { server, failing } => {
            let first = failing.first().map(|path| context.display_path(path)).unwrap_or_default();
            let more = match failing.len() {
                0 | 1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            format!("{server} may not have checked all saved files, because of errors in {first}{more}")
        }
        ServerNote::PackagesFailed(error) => format!("not all packages were searched: {error}"),
        ServerNote::PackagesUnsearched { server, packages } => format!(
            "{server} may not have searched other packages with the name; `references` lists its places: {}",
            paths(context, packages)
        ),
    }
}

/// Renders a diagnostic as one line.
pub(crate) fn headline(item: &Diagnostic) -> String {
    let source = item.source.as_deref().unwrap_or(&item.server);
    let code = item.code.as_ref().map(|code| format!(" [{code}]")).unwrap_or_default();
    let lines = item.message.lines().map(str::trim).filter(|line| !line.is_empty());
    format!("{}: {}{code} ({source})", item.severity, lines.collect::<Vec<_>>().join("\n    "))
}

/// Renders a line for each server about its sources that only run on save.
///
/// `asked`: whether they were requested, without an answer.
pub(crate) fn on_save_lines(
    context: &ToolContext,
    on_save: &BTreeSet<(String, String)>,
    asked: bool,
) -> Vec<String> {
    let mut sources: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (source, server) in on_save {
        sources.entry(server).or_default().push(source);
    }
    let line = |(server, sources): (&str, Vec<&str>)| {
        let sources = sources.join(" and ");
        match (context.servers.checks_saved(server), asked) {
            (true, true) => format!("omitted: {sources}, which {server} cannot give now\n"),
            (true, false) => {
                format!("omitted: {sources}, which {server} runs on request: `lsp diagnostics`\n")
            }
            (false, _) => {
                format!("omitted: {sources}, which {server} only runs when a file is saved\n")
            }
        }
    };
    sources.into_iter().map(line).collect()
}

/// Explains why a server's diagnostics of a document are not known.
pub(crate) fn render_unknown(context: &ToolContext, reason: &Unknown) -> String {
    match reason {
        Unknown::Noted(note) => server_note(context, note),
        Unknown::RunningCommand => "it is running a command".to_owned(),
        Unknown::Unanswered => "it has not answered yet".to_owned(),
        Unknown::Late { after } => format!("it did not answer within {} s", after.as_secs_f64()),
        Unknown::NotInstalled => "it is not installed".to_owned(),
        Unknown::NoReport => "it returned no report".to_owned(),
        Unknown::Failed(error) => error.to_string(),
        Unknown::Reason(reason) => reason.clone(),
    }
}

/// Explains why an edit was not previewed on a server.
pub(crate) fn render_not_tried(context: &ToolContext, reason: &SpeculativeError) -> String {
    match reason {
        SpeculativeError::Moved => "text moved".to_owned(),
        SpeculativeError::Cancelled => "cancelled".to_owned(),
        SpeculativeError::Noted(note) => server_note(context, note),
        SpeculativeError::Busy => "it is busy with other requests".to_owned(),
        SpeculativeError::RunningCommand => "it is running a command".to_owned(),
        SpeculativeError::NotReading => "it does not read its input".to_owned(),
        SpeculativeError::Ended => "it ended".to_owned(),
        SpeculativeError::NewFilesUnsupported => "it cannot check files that do not exist yet".to_owned(),
        SpeculativeError::ReadsOnlyDisk => "it only reads files from disk".to_owned(),
        SpeculativeError::ReadsFromDisk(path) => {
            format!("it reads {} from disk, which the edit changes too", context.display_path(path))
        }
        SpeculativeError::UsersOmitted(files) => format!(
            "it searches {} on disk, so files that may use them were not checked",
            paths(context, files)
        ),
        SpeculativeError::Reported(message) => message.clone(),
        SpeculativeError::Failed(error) => error.to_string(),
    }
}

/// Explains why files were not checked on save.
fn save_check_error(context: &ToolContext, error: &SaveCheckError) -> String {
    match error {
        SaveCheckError::Unsupported => "it does not support this".to_owned(),
        SaveCheckError::FilesChanged => "files changed meanwhile".to_owned(),
        SaveCheckError::Reloaded => "it reloaded its project meanwhile".to_owned(),
        SaveCheckError::Unsaved(path) => format!("{} is not saved", context.display_path(path)),
        SaveCheckError::Loading(detail) => format!("it is still loading: {detail}"),
        SaveCheckError::NotStarted => "the check did not start".to_owned(),
        SaveCheckError::TooManyFiles => "it found problems in too many files".to_owned(),
        SaveCheckError::Unfinished { progress } => {
            let progress = progress.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
            format!("the check did not end in time{progress}; it continues, ask again")
        }
        SaveCheckError::Reported(message) => message.clone(),
        SaveCheckError::Failed(error) => error.to_string(),
    }
}

fn refactoring_note(context: &ToolContext, note: &Note) -> String {
    match note {
        Note::Server(note) => server_note(context, note),
        Note::NameKept { name, place } => {
            format!(
                "NOT renamed: `{name}` at {}, which you named; the server changed other places",
                at(context, place)
            )
        }
        Note::NameTaken { name, place } => {
            format!("`{name}` is declared at {} too: two symbols of one name", at(context, place))
        }
        Note::OverridesNotRenamed(set) => overrides_not_renamed(context, set),
        Note::CallsThroughOverrides(set) => calls_through_overrides(context, set),
        Note::CallersFromReferences { server } => {
            format!("in other packages {server} only gives references; those that are calls are listed")
        }
        Note::UsesNotCalls { server, packages } => format!(
            "{server}: references in other packages do not look like calls; `references` lists its places: {}",
            paths(context, packages)
        ),
        Note::StubKept { file, stub } => {
            format!(
                "{}, the stub of {}, keeps its name",
                context.display_path(stub),
                context.display_path(file)
            )
        }
        Note::StubMoved { file, stub, to, leaves_directory } => {
            let imports = if *leaves_directory { "; check whether its own imports still hold" } else { "" };
            format!(
                "{} belongs to {} and moves with it, to {}{imports}",
                context.display_path(stub),
                context.display_path(file),
                context.display_path(to)
            )
        }
        Note::IncludesUpdated { lines, files } => {
            format!("{} updated in {}", counted(*lines, "`#include` line"), counted(*files, "file"))
        }
        Note::NoServerForMove { updates_includes: false } => {
            "no language server follows this file's name: references to it were not updated".to_owned()
        }
        Note::NoServerForMove { updates_includes: true } => {
            "no language server follows this file's name: only `#include` lines were updated".to_owned()
        }
        Note::IncludesRedirected(redirected) => {
            let place = |it: &Redirected| {
                let target =
                    it.target.as_ref().map_or_else(|| "none".to_owned(), |path| context.display_path(path));
                format!("{} (to {target})", line(context, &it.at))
            };
            format!(
                "`#include` lines that lead from their directory to another file than before, not updated: {}",
                listed(redirected.iter().map(place), "more lines")
            )
        }
        Note::IncludesUnread(files) => {
            let more = files.len().saturating_sub(MAX_UNREAD);
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            format!(
                "not searched for `#include` lines, because they are not UTF-8 text: {}{more}",
                paths(context, &files[..files.len().min(MAX_UNREAD)])
            )
        }
        Note::StalePaths(lines) => format!(
            "still names the old place, as text: {}",
            listed(lines.iter().map(|it| line(context, it)), "more lines; search the old name with `grep`")
        ),
        Note::AmbiguousIncludes(lines) => format!(
            "`#include` lines that may need another include directory (`-I`) now, if they mean what moves: {}",
            listed(lines.iter().map(|it| line(context, it)), "more lines; search the old name with `grep`")
        ),
        Note::SearchCut => "not every file was searched for references to the old place".to_owned(),
    }
}

fn overrides_not_renamed(context: &ToolContext, set: &OverrideSet) -> String {
    let mut related = Vec::new();
    for (relation, methods) in [
        ("the methods that it overrides", &set.bases),
        ("the methods that override it", &set.overriding),
        ("the methods that override the same one", &set.siblings),
    ] {
        if !methods.is_empty() {
            related.push(format!("{relation}, {}", named_methods(context, methods)));
        }
    }
    let mut texts = Vec::new();
    if !related.is_empty() {
        let uses = set.uses();
        if !uses.is_empty() {
            related.push(format!("{} of these, {}", counted(uses.len(), "use"), places(context, &uses)));
        }
        let partly = if uses_missing(set) { " (not all uses are known)" } else { "" };
        let name = &set.name;
        let lost = match set.bases.is_empty() {
            true => "a call of it no longer reaches its overrides".to_owned(),
            false => format!("a call through the `{name}` that it overrides no longer reaches it"),
        };
        let related = related.join("; ");
        texts.push(format!("NOT renamed with it: {related}{partly}; rename all of these too, or {lost}"));
    }
    texts.extend(unknown_relations(context, set));
    texts.join("; ")
}

fn calls_through_overrides(context: &ToolContext, set: &OverrideSet) -> String {
    let mut texts = Vec::new();
    if !set.bases.is_empty() {
        let bases = named_methods(context, &set.bases);
        let partly = if uses_missing(set) { " (not all of its uses are known)" } else { "" };
        let calls = set.uses();
        texts.push(match calls.is_empty() {
            true => format!("it overrides {bases}, of which no call is known{partly}"),
            false => {
                let calls = places(context, &calls);
                format!("it overrides {bases}, whose calls may come here too: {calls}{partly}")
            }
        });
    }
    texts.extend(unknown_relations(context, set));
    texts.join("; ")
}

fn uses_missing(set: &OverrideSet) -> bool {
    set.uses_cut || set.related().any(|method| method.uses.is_none())
}

/// Renders unknown relations between methods of one name.
fn unknown_relations(context: &ToolContext, set: &OverrideSet) -> Vec<String> {
    let (mut texts, server, name) = (Vec::new(), &set.server, &set.name);
    if !set.undefined.is_empty() {
        let places = places(context, &set.undefined.iter().collect::<Vec<_>>());
        texts.push(format!("{server} knows no definition for these, which may be uses of it: {places}"));
    }
    if let Some(Unresolved { file, error, resolved, count }) = &set.unresolved {
        let reason = match error {
            Some(error) => error.to_string(),
            None => format!("only {resolved} of {count} were resolved"),
        };
        texts.push(format!(
            "not all members named `{name}` in {} were resolved: {reason}",
            context.display_path(file)
        ));
    }
    let reason = set.reason.as_ref().map(|reason| match reason {
        Reason::NotOffered => format!("{server} does not report overrides"),
        Reason::Failed(error) => error.to_string(),
    });
    let cut = set.cut.map(|cut| match cut {
        Cut::TooManyPlaces => "the name occurs in too many places",
        Cut::NotAllRead => "there was no time to read all files that contain the name",
    });
    if !set.unknown.is_empty() {
        let reason = reason.as_deref().unwrap_or("the name occurs in too many places");
        let unknown = named_methods(context, &set.unknown);
        texts.push(format!("the server did not report which of these override which ({reason}): {unknown}"));
    }
    let more: Vec<&str> =
        cut.into_iter().chain(reason.as_deref().filter(|_| set.unknown.is_empty())).collect();
    if !more.is_empty() {
        texts.push(format!("more methods named `{name}` may be related: {}", more.join(", ")));
    }
    texts
}

fn named_methods(context: &ToolContext, methods: &[Method]) -> String {
    shortened(
        methods.iter().map(|method| format!("{} ({})", method.path, at(context, &method.place))).collect(),
    )
}

fn places(context: &ToolContext, places: &[&Location]) -> String {
    let mut names: Vec<String> = places.iter().map(|place| at(context, place)).collect();
    names.dedup();
    shortened(names)
}

fn shortened(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(MAX_NAMED);
    names.truncate(MAX_NAMED);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

/// Lists the first of some places, and the number of the rest.
fn listed(places: impl ExactSizeIterator<Item = String>, rest: &str) -> String {
    let more = places.len().saturating_sub(MAX_NAMED);
    let named = places.take(MAX_NAMED).collect::<Vec<_>>().join(", ");
    if more == 0 { named } else { format!("{named} and {more} {rest}") }
}

fn at(context: &ToolContext, place: &Location) -> String {
    format!("{}:{}", context.display_path(&place.path), place.line)
}

fn line(context: &ToolContext, line: &Line) -> String {
    format!("{}:{}", context.display_path(&line.path), line.line)
}

fn paths(context: &ToolContext, paths: &[AbsPath]) -> String {
    paths.iter().map(|path| context.display_path(path)).collect::<Vec<_>>().join(", ")
}

/// Renders the places where the old name of a renamed symbol remains.
///
/// Macros come first, because their uses no longer compile; then the places in changed files, and other files.
pub(crate) fn mentions_left(
    context: &ToolContext,
    old_name: &str,
    mentions: &Mentions,
    plan: &Plan,
) -> String {
    let left = mentions.left(&context.workspace, old_name);
    let count: usize = left.iter().map(|file| file.lines.len()).sum();
    if count == 0 {
        return String::new();
    }
    let mut out = String::new();
    let places = |lines: &dyn Fn(&MentionsLeft) -> Vec<usize>, files: &[&MentionsLeft]| {
        let file = |file: &&MentionsLeft| -> Vec<String> {
            let name = context.display_path(&file.path);
            lines(file).iter().map(|line| format!("{name}:{line}")).collect()
        };
        let mut all: Vec<String> = files.iter().flat_map(file).collect();
        all.dedup();
        limited(all, MAX_NAMED)
    };
    let all: Vec<&MentionsLeft> = left.iter().collect();
    if left.iter().any(|file| !file.in_macros.is_empty()) {
        let places = places(&|file| file.in_macros.clone(), &all);
        out.push_str(&format!("note: C macros keep `{old_name}`; change them too: {places}\n"));
    }
    let cut = if mentions.is_cut { "; not every file was searched" } else { "" };
    let noun = counted(count, "other occurrence");
    out.push_str(&format!(
        "{noun} of `{old_name}` left unchanged (comments, strings, other symbols){cut}.\n"
    ));
    let is_changed = |file: &&&MentionsLeft| plan.changes().iter().any(|change| change.path == file.path);
    let (changed, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|file| is_changed(&file));
    if !changed.is_empty() {
        out.push_str(&format!("  in changed files: {}\n", places(&|file| file.lines.clone(), &changed)));
    }
    if !others.is_empty() {
        let count = counted(others.len(), "unchanged file");
        let names = others.iter().map(|file| context.display_path(&file.path)).collect();
        out.push_str(&format!("  in {count}: {}\n", limited(names, MAX_LEFT)));
    }
    out
}

/// The first of some names, and the number of the rest.
fn limited(mut names: Vec<String>, most: usize) -> String {
    let more = names.len().saturating_sub(most);
    names.truncate(most);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", names.join(", "))
}
