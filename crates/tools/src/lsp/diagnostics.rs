//! Diagnostics of one file, of those that a glob matches, or of all.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use agent::{ToolCx, ToolResult};
use futures_util::future::{BoxFuture, join_all};
use globset::GlobBuilder;
use lsp_client::{Answer, Diagnostic, Diagnostics, Note, RequestCx, SaveCheck, ServerError};
use paths::AbsPath;
use policy::ErrorCode;
use serde::Deserialize;
use serde_json::json;
use workspace::Document;

use super::action::{ActionGroup, ActionSpec, Call, Effect, Takes};
use super::diagnostics_report::{DiagnosticsReport, Unchecked};
use super::{may_read, report};
use crate::{Failure, ToolContext};

/// Maximum number of files that one call checks.
const MAX_CHECKED: usize = 2000;
/// Maximum number of files that one call fixes.
const MAX_FIXED: usize = 50;
/// Maximum number of files of one kind that are checked at once.
const AT_ONCE: usize = 8;
/// Time for one of several files once its servers have loaded their projects.
///
/// A silent server does not delay others. The limit also holds for a server that never pushed diagnostics,
/// and for the check of one saved file. That check continues, and a later call may get its result.
const FOR_ONE: Duration = Duration::from_secs(10);

/// The files that a call selects.
struct Selected {
    files: Vec<AbsPath>,
    /// Files whose servers are not installed, by the servers' names.
    without_server: BTreeMap<String, Vec<AbsPath>>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub(super) enum DiagnosticsAction {
    Diagnostics(FileNames),
}

/// Files in the form of the arguments: paths or globs; none for all.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct FileNames {
    pub file: Option<String>,
    pub files: Vec<String>,
}

impl FileNames {
    fn iter(&self) -> impl Iterator<Item = &String> {
        self.files.iter().chain(&self.file)
    }
}

impl ActionGroup for DiagnosticsAction {
    const ACTIONS: &'static [ActionSpec] =
        &[ActionSpec { name: "diagnostics", takes: Takes::Together, effect: Effect::Reads }];

    fn run<'a>(self, call: &'a Call<'a>) -> BoxFuture<'a, Result<ToolResult, Failure>> {
        let Self::Diagnostics(files) = self;
        Box::pin(async move { diagnostics(call, &files).await })
    }
}

async fn diagnostics(call: &Call<'_>, named: &FileNames) -> Result<ToolResult, Failure> {
    let Call { context, cx, has_timeout, .. } = *call;
    let (named, failed) = readable(context, named, cx).await?;
    // The user may have been asked before: that time is not the call's.
    let request = call.request.restarted();
    let Selected { mut files, without_server } = select(context, &named, cx)?;
    let mut others: BTreeSet<AbsPath> = files.split_off(files.len().min(MAX_CHECKED)).into_iter().collect();
    let (answers, late) = if let ([file], true) = (files.as_slice(), failed.is_empty()) {
        let document = context.workspace.document(file)?;
        // A `timeout` of the call counts for a silent server too.
        let patience = if has_timeout { request.deadline } else { FOR_ONE };
        let answer = context.servers.diagnostics_unless_silent(&document, patience, &request).await?;
        (vec![(document, answer)], Vec::new())
    } else {
        // The rest of the time is for what servers report on their whole project.
        let most = request.within(request.left() * 9 / 10);
        of_several(context, &files, &most).await?
    };
    for (document, answer) in &answers {
        context.pending.learn_all(document, &answer.value, &context.servers);
    }
    let alone = answers.len() == 1 && !has_timeout;
    let saved = if alone { request.within(FOR_ONE) } else { request.clone() };
    let answers = with_saved(context, answers, &saved).await?;
    let over = !late.is_empty();
    others.extend(late);
    // Servers that report on their whole workspace know the others too.
    let reported = match others.is_empty() {
        true => BTreeMap::new(),
        false => context.servers.reported(&others, &request).await?,
    };
    others.retain(|path| !reported.contains_key(path));
    let reason = match over {
        true => format!("the {} s of this call ran out", request.deadline.as_secs()),
        false => format!("a call checks at most {MAX_CHECKED}"),
    };
    let unchecked = Unchecked { files: others.into_iter().collect(), reason, without_server };
    let report = DiagnosticsReport::new(context, &answers, &reported, &unchecked);
    let (mut text, mut details) = report.render();
    for (name, failure) in &failed {
        text.push_str(&format!("{name}: {} ({})\n", failure.message, failure.code));
    }
    if !failed.is_empty() {
        let row = |(name, failure): &(String, Failure)| json!({ "path": name, "code": failure.code, "message": failure.message });
        details["unreadable"] = failed.iter().map(row).collect();
    }
    Ok(ToolResult::text(text).with_details(details))
}

/// Splits the files into those that can be read and the failures of the others.
async fn readable(
    context: &ToolContext,
    named: &FileNames,
    cx: &ToolCx,
) -> Result<(FileNames, Vec<(String, Failure)>), Failure> {
    let (mut files, mut failed) = (Vec::new(), Vec::new());
    for name in named.iter() {
        let read = async {
            cx.permit_read(&context.workspace.resolve(name)?).await?;
            match context.document(name) {
                Err(failure) if !is_glob(name) => Err(failure),
                _ => Ok(()),
            }
        };
        match read.await {
            Ok(()) => files.push(name.clone()),
            Err(failure) if failure.code == ErrorCode::Cancelled => return Err(failure),
            Err(failure) => failed.push((name.clone(), failure)),
        }
    }
    if files.is_empty() && !failed.is_empty() {
        let messages: Vec<&str> = failed.iter().map(|(_, failure)| failure.message.as_str()).collect();
        let message = messages.join("\n");
        return Err(Failure { message, ..failed.swap_remove(0).1 });
    }
    Ok((FileNames { files, file: None }, failed))
}

pub(super) fn is_glob(name: &str) -> bool {
    name.contains(['*', '?', '{', '['])
}

/// Adds the problems that servers find in files as they are saved.
///
/// Cargo's errors are an example. Skips servers that cannot be asked for them.
async fn with_saved(
    context: &ToolContext,
    mut answers: Vec<(Document, Answer<Diagnostics>)>,
    request: &RequestCx,
) -> Result<Vec<(Document, Answer<Diagnostics>)>, Failure> {
    let asked = answers.iter().filter(|(_, answer)| !answer.value.on_save.is_empty());
    let documents: Vec<&Document> = asked.map(|(document, _)| document).collect();
    let checks = context.servers.check_saved(&documents, request).await?;
    let disowns = |it: &Diagnostic| context.servers.disowns(it).is_some();
    join(&mut answers, checks, disowns);
    Ok(answers)
}

/// Adds the problems found in saved files to their answers.
///
/// Sources that were not checked remain omitted.
fn join(
    answers: &mut [(Document, Answer<Diagnostics>)],
    checks: Vec<SaveCheck>,
    disowns: impl Fn(&Diagnostic) -> bool,
) {
    for SaveCheck { server, asked, found } in checks {
        let by = |(document, answer): &&mut (Document, Answer<Diagnostics>)| {
            asked.contains(&document.path) && answer.value.on_save.iter().any(|(_, by)| *by == server)
        };
        let mut problems = match found {
            Ok(problems) => problems,
            Err(why) => {
                // The reason is the same for all files; the report names it once.
                for (_, answer) in answers.iter_mut().filter(by) {
                    let (server, reason) = (server.clone(), why.clone());
                    answer.notes.push(Note::SaveCheckFailed { server, reason });
                }
                continue;
            }
        };
        for (document, answer) in answers.iter_mut().filter(by) {
            let Some(mut more) = problems.files.remove(&document.path) else { continue };
            let items = &mut answer.value.items;
            // A server that ignores the file finds nothing in it.
            if more.is_empty() && items.iter().any(|it| it.server == server && disowns(it)) {
                let sources = answer.value.on_save.iter().filter(|(_, by)| *by == server);
                let sources = sources.map(|(source, _)| source.clone()).collect();
                answer.notes.push(Note::OutsideSaveCheck { server: server.clone(), sources });
                continue;
            }
            // A problem that the server found without a save is listed once.
            more.retain(|it| !items.iter().any(|known| is_same(known, it)));
            items.extend(more);
            items.sort_by_key(|item| (item.range.start, item.range.end, item.severity));
            // Files that depend on a file with errors may not have been checked: no problem does not mean clean.
            if problems.with_errors.iter().any(|path| *path != document.path) {
                let failing = problems.with_errors.iter().cloned().collect();
                answer.notes.push(Note::SaveCheckIncomplete { server: server.clone(), failing });
                if !problems.with_errors.contains(&document.path) {
                    continue;
                }
            }
            answer.value.on_save.retain(|(_, by)| *by != server);
        }
    }
}

/// Whether two diagnostics are the same problem, found in two ways.
pub(crate) fn is_same(one: &Diagnostic, other: &Diagnostic) -> bool {
    let (a, b) = (&one.range, &other.range);
    one.code.is_some() && one.code == other.code && (a.start == b.start || a.start < b.end && b.start < a.end)
}

/// Requests diagnostics of several files; returns also those without time.
async fn of_several(
    context: &ToolContext,
    files: &[AbsPath],
    request: &RequestCx,
) -> Result<(Vec<(Document, Answer<Diagnostics>)>, Vec<AbsPath>), Failure> {
    // Files of one kind have the same servers, and a server that loads for long delays no other kind.
    let mut kinds: BTreeMap<_, Vec<(usize, &AbsPath)>> = BTreeMap::new();
    for (at, path) in files.iter().enumerate() {
        let file = path.as_path();
        kinds.entry(file.extension().or(file.file_name())).or_default().push((at, path));
    }
    let asks = kinds.into_values().map(|paths| of_kind(context, paths, request));
    let mut outcomes: Vec<_> = join_all(asks).await.into_iter().flatten().collect();
    outcomes.sort_by_key(|(at, _)| *at);
    let (mut answers, mut late) = (Vec::new(), Vec::new());
    for (at, outcome) in outcomes {
        match outcome? {
            FileOutcome::Answer(answer) => answers.push(*answer),
            FileOutcome::Late => late.push(files[at].clone()),
            FileOutcome::Gone => {}
        }
    }
    Ok((answers, late))
}

/// Requests diagnostics of files of one kind, a few at a time.
///
/// A server that gets another file before it is done may start over with all. Files that are still pending
/// get one more request if the server answers at all.
async fn of_kind(
    context: &ToolContext,
    paths: Vec<(usize, &AbsPath)>,
    request: &RequestCx,
) -> Vec<(usize, Result<FileOutcome, Failure>)> {
    let mut outcomes = Vec::new();
    for some in paths.chunks(AT_ONCE) {
        let answers = join_all(some.iter().map(|(_, path)| of_one(context, path, request))).await;
        outcomes.extend(some.iter().map(|(at, _)| *at).zip(answers));
    }
    let pends = |outcome: &Result<FileOutcome, Failure>| match outcome {
        Ok(FileOutcome::Answer(answer)) => !answer.1.value.pending.is_empty(),
        _ => false,
    };
    let pending: Vec<usize> = (0..outcomes.len()).filter(|number| pends(&outcomes[*number].1)).collect();
    if pending.len() == outcomes.len() {
        return outcomes;
    }
    for some in pending.chunks(AT_ONCE) {
        let asks = some.iter().map(|number| of_one(context, paths[*number].1, request));
        for (number, again) in some.iter().zip(join_all(asks).await) {
            if knows_more(&again, &outcomes[*number].1) {
                outcomes[*number].1 = again;
            }
        }
    }
    outcomes
}

/// Whether a second answer replaces the first.
///
/// An answer that came too late or from fewer servers does not.
fn knows_more(again: &Result<FileOutcome, Failure>, first: &Result<FileOutcome, Failure>) -> bool {
    let unknown = |it: &Answer<Diagnostics>| it.value.pending.len() + it.value.failed.len();
    match (again, first) {
        (Ok(FileOutcome::Answer(again)), Ok(FileOutcome::Answer(first))) => {
            unknown(&again.1) < unknown(&first.1)
        }
        (Ok(FileOutcome::Late), _) => false,
        _ => true,
    }
}

/// The outcome for one of several files.
enum FileOutcome {
    Answer(Box<(Document, Answer<Diagnostics>)>),
    /// The call had no time left for the request.
    Late,
    /// The file is not text, or no longer exists.
    Gone,
}

async fn of_one(context: &ToolContext, path: &AbsPath, request: &RequestCx) -> Result<FileOutcome, Failure> {
    if request.left().is_zero() {
        return Ok(FileOutcome::Late);
    }
    let Ok(document) = context.workspace.document(path) else { return Ok(FileOutcome::Gone) };
    let asked = async {
        // A server that fails here is listed as failed, together with the answers of others.
        if let Err(error @ ServerError::Cancelled) =
            context.servers.load(path, Some(&document), request).await
        {
            return Err(error);
        }
        context.servers.diagnostics(&document, &request.within(FOR_ONE)).await
    };
    let answer = match asked.await {
        Ok(answer) => answer,
        Err(ServerError::Cancelled) => return Err(ServerError::Cancelled.into()),
        Err(error) => report::unanswered(document.version, error),
    };
    Ok(FileOutcome::Answer(Box::new((document, answer))))
}

/// Reads the documents of a call, at most [`MAX_FIXED`]; returns the other paths.
pub(super) fn documents(
    context: &ToolContext,
    named: &FileNames,
    cx: &ToolCx,
) -> Result<(Vec<Document>, BTreeSet<AbsPath>), Failure> {
    let mut files = select(context, named, cx)?.files;
    let others = files.split_off(files.len().min(MAX_FIXED)).into_iter().collect();
    Ok((files.iter().filter_map(|path| context.workspace.document(path).ok()).collect(), others))
}

/// Selects the files of a call.
///
/// Skips files that the call does not name and that need a question to the user before a read.
fn select(context: &ToolContext, named: &FileNames, cx: &ToolCx) -> Result<Selected, Failure> {
    let named: Vec<&String> = named.iter().collect();
    let mut selected = Selected { files: Vec::new(), without_server: BTreeMap::new() };
    let mut patterns = Vec::new();
    for name in &named {
        match context.document(name) {
            Ok(document) => selected.files.push(document.path),
            Err(failure) if is_glob(name) => {
                let glob = GlobBuilder::new(name).literal_separator(true).build();
                patterns.push(glob.map_err(|_| failure)?.compile_matcher());
            }
            Err(failure) => return Err(failure),
        }
    }
    if !patterns.is_empty() || named.is_empty() {
        let wanted = |path: &AbsPath| {
            let shown = context.display_path(path);
            may_read(path, cx) && (patterns.is_empty() || patterns.iter().any(|glob| glob.is_match(&shown)))
        };
        // Files of one kind in one directory lack the same servers.
        let mut known = HashMap::new();
        for path in context.workspace.files(context.workspace.root()).filter(wanted) {
            if context.servers.serves(&path) {
                selected.files.push(path);
                continue;
            }
            let file = path.as_path();
            let kind = file.extension().or(file.file_name()).map(ToOwned::to_owned);
            let lacking: &mut Vec<String> = known
                .entry((file.parent().map(ToOwned::to_owned), kind))
                .or_insert_with(|| context.servers.missing_servers(&path));
            if !lacking.is_empty() {
                selected.without_server.entry(lacking.join(" or ")).or_default().push(path);
            }
        }
    }
    if selected.files.is_empty() {
        let message = match named.is_empty() {
            true => "no file of the project has a language server",
            false => "no matching file has a language server",
        };
        let message =
            message.to_owned() + report::missing_servers(context, &selected.without_server, "; ").trim_end();
        return Err(Failure::new(ErrorCode::NotFound, message));
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::Range;
    use std::sync::Arc;

    use lsp_client::{RawJson, SaveCheckError, SavedProblems, Severity};
    use workspace::{ContentHash, Owner, Version};

    use super::*;

    fn item(range: Range<usize>, code: &str) -> Diagnostic {
        Diagnostic {
            range,
            line: 1,
            severity: Severity::Error,
            code: Some(code.to_owned()),
            source: None,
            message: String::new(),
            server: "s".to_owned(),
            raw: RawJson::new(&serde_json::value::to_raw_value(&()).unwrap()),
        }
    }

    fn path(name: &str) -> AbsPath {
        AbsPath::new(format!("/{name}")).unwrap()
    }

    /// Creates an answer about a file with these items.
    ///
    /// The answer lacks the problems of sources that run on save.
    fn answer(name: &str, items: Vec<Diagnostic>) -> (Document, Answer<Diagnostics>) {
        let text: Arc<str> = "abc".into();
        let version = Version { hash: ContentHash::of(text.as_bytes()), editor: None };
        let document = Document {
            path: path(name),
            uri: format!("file:///{name}"),
            text,
            bom: false,
            version,
            owner: Owner::Disk,
            blocked: None,
        };
        let mut answer = report::unanswered(version, ServerError::Cancelled);
        answer.value = Diagnostics {
            items,
            failed: Vec::new(),
            on_save: vec![("cargo".to_owned(), "s".to_owned())],
            ..answer.value
        };
        (document, answer)
    }

    fn found(files: Vec<(&str, Vec<Diagnostic>)>, with_errors: &[&str]) -> SaveCheck {
        let files: BTreeMap<_, _> = files.into_iter().map(|(name, items)| (path(name), items)).collect();
        let with_errors: BTreeSet<_> = with_errors.iter().map(|name| path(name)).collect();
        let asked = files.keys().cloned().collect();
        SaveCheck { server: "s".to_owned(), asked, found: Ok(SavedProblems { files, with_errors }) }
    }

    /// Summarizes the answers: number of items, completeness, and notes.
    fn joined(
        mut answers: Vec<(Document, Answer<Diagnostics>)>,
        checks: Vec<SaveCheck>,
    ) -> Vec<(usize, bool, Vec<Note>)> {
        join(&mut answers, checks, |it| it.code.as_deref() == Some("none"));
        let parts = |(_, it): (Document, Answer<Diagnostics>)| {
            (it.value.items.len(), it.value.on_save.is_empty(), it.notes)
        };
        answers.into_iter().map(parts).collect()
    }

    #[test]
    fn a_failing_file_makes_empty_answers_unknown() {
        let two = || vec![answer("a", Vec::new()), answer("b", Vec::new())];
        let files = || vec![("a", vec![item(0..1, "E1")]), ("b", Vec::new())];
        let incomplete = |failing: &[&str]| {
            let failing = failing.iter().map(|name| path(name)).collect();
            vec![Note::SaveCheckIncomplete { server: "s".to_owned(), failing }]
        };
        let got = joined(two(), vec![found(files(), &["a"])]);
        assert_eq!(got, [(1, true, Vec::new()), (0, false, incomplete(&["a"]))]);
        let got = joined(two(), vec![found(files(), &["a", "c"])]);
        let notes = incomplete(&["a", "c"]);
        assert_eq!(got, [(1, true, notes.clone()), (0, false, notes)]);
        let got = joined(two(), vec![found(files(), &[])]);
        assert_eq!(got, [(1, true, Vec::new()), (0, true, Vec::new())]);
    }

    #[test]
    fn a_server_of_another_directory_was_not_asked() {
        let failed = |name: &str| SaveCheck {
            found: Err(SaveCheckError::Unsupported),
            ..found(vec![(name, vec![])], &[])
        };
        let two = vec![answer("a", Vec::new()), answer("b", Vec::new())];
        let got = joined(two, vec![failed("a"), found(vec![("b", vec![item(0..1, "E1")])], &[])]);
        let notes =
            vec![Note::SaveCheckFailed { server: "s".to_owned(), reason: SaveCheckError::Unsupported }];
        assert_eq!(got, [(0, false, notes), (1, true, Vec::new())]);
    }

    #[test]
    fn a_file_outside_the_project_is_not_clean() {
        let lone = || vec![answer("a", vec![item(0..1, "none")])];
        let sources = vec!["cargo".to_owned()];
        let notes = vec![Note::OutsideSaveCheck { server: "s".to_owned(), sources }];
        let got = joined(lone(), vec![found(vec![("a", vec![])], &[])]);
        assert_eq!(got, [(1, false, notes)]);
        // A server that finds something in it checks it.
        let got = joined(lone(), vec![found(vec![("a", vec![item(0..1, "E1")])], &[])]);
        assert_eq!(got, [(2, true, Vec::new())]);
    }

    #[test]
    fn two_problems_of_one_line_are_two() {
        let known = answer("a", vec![item(0..2, "E1")]);
        let more = vec![item(0..3, "E1"), item(1..3, "E1"), item(2..3, "E1"), item(0..2, "E2")];
        let mut answers = vec![known];
        join(&mut answers, vec![found(vec![("a", more)], &[])], |_| false);
        let got: Vec<_> =
            answers[0].1.value.items.iter().map(|it| (it.range.clone(), it.code.as_deref())).collect();
        assert_eq!(got, [(0..2, Some("E1")), (0..2, Some("E2")), (2..3, Some("E1"))]);
    }
}
