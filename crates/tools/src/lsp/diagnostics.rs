//! The problems of files: of one, of those a glob matches, of all.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use agent::{ToolCx, ToolResult};
use futures_util::future::join_all;
use globset::GlobBuilder;
use lsp_client::{Answer, Diagnostic, Diagnostics, FoundSaved, RequestCx, ServerError};
use serde_json::json;
use workspace::{AbsPath, Document, ErrorCode};

use super::{Arguments, may_read, report};
use crate::{Failure, Kit};

/// At most this many files are asked about in one call.
const MOST: usize = 2000;
/// At most this many files are fixed in one call.
const MAX_FIXED: usize = 50;
/// So many files of one kind are asked about at once.
const AT_ONCE: usize = 8;
/// How long is waited for what servers say of one of several files, once they have loaded their projects: one that
/// is silent keeps no other waiting. So long too for a server that never told anything, and for what is found in a
/// single saved file: it goes on, and another question finds it further.
const FOR_ONE: Duration = Duration::from_secs(10);

/// What is meant by a call.
struct Meant {
    files: Vec<AbsPath>,
    /// Those for which there are servers, by the servers' names, of which none is here.
    passed: BTreeMap<String, Vec<AbsPath>>,
}

pub(super) async fn diagnostics(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let (args, failed) = readable(kit, args, cx).await?;
    let args = &args;
    // A person may have been asked before: that time is not the call's.
    let request = kit.request(&cx.cancel, args.timeout);
    let Meant { mut files, passed } = meant(kit, args, cx)?;
    let mut others: BTreeSet<AbsPath> = files.split_off(files.len().min(MOST)).into_iter().collect();
    let (answers, late) = if let ([file], true) = (files.as_slice(), failed.is_empty()) {
        let document = kit.workspace.document(file)?;
        // Whoever names a time means it.
        let patience = args.timeout.map_or(FOR_ONE, |_| request.deadline);
        let answer = kit.servers.diagnostics_unless_mute(&document, patience, &request).await?;
        (vec![(document, answer)], Vec::new())
    } else {
        // What is left then is for what servers report on their whole project.
        let most = request.within(request.left() * 9 / 10);
        of_several(kit, &files, &most).await?
    };
    let alone = answers.len() == 1 && args.timeout.is_none();
    let saved = if alone { request.within(FOR_ONE) } else { request.clone() };
    let answers = with_saved(kit, answers, &saved).await?;
    let over = !late.is_empty();
    others.extend(late);
    // Servers that report on their whole workspace know the others too.
    let reported = match others.is_empty() {
        true => BTreeMap::new(),
        false => kit.servers.reported(&others, &request).await?,
    };
    others.retain(|path| !reported.contains_key(path));
    let why = match over {
        true => format!("the {} s of this call were over", request.deadline.as_secs()),
        false => format!("they are more than {MOST}"),
    };
    let left = report::Left { files: others.into_iter().collect(), why, passed };
    let (mut text, mut details) = report::diagnostics(kit, &answers, &reported, &left);
    for (name, failure) in &failed {
        text.push_str(&format!("{name}: {} ({})\n", failure.message, failure.code));
    }
    if !failed.is_empty() {
        let row = |(name, failure): &(String, Failure)| json!({ "path": name, "code": failure.code, "message": failure.message });
        details["unreadable"] = failed.iter().map(row).collect();
    }
    Ok(ToolResult::text(text).with_details(details))
}

/// The arguments with those files alone that may be read and can be, and what is the matter with the others.
async fn readable(
    kit: &Kit,
    args: &Arguments,
    cx: &ToolCx,
) -> Result<(Arguments, Vec<(String, Failure)>), Failure> {
    let (mut files, mut failed) = (Vec::new(), Vec::new());
    for name in args.files.iter().flatten().chain(&args.file) {
        let read = async {
            cx.permit_read(&kit.workspace.resolve(name)?).await?;
            match kit.document(name) {
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
        let told: Vec<&str> = failed.iter().map(|(_, failure)| failure.message.as_str()).collect();
        let message = told.join("\n");
        return Err(Failure { message, ..failed.swap_remove(0).1 });
    }
    Ok((Arguments { files: Some(files), file: None, ..args.clone() }, failed))
}

fn is_glob(name: &str) -> bool {
    name.contains(['*', '?', '{', '['])
}

/// With what servers find in files as they are saved (Cargo's errors), where they can be asked for it.
async fn with_saved(
    kit: &Kit,
    mut answers: Vec<(Document, Answer<Diagnostics>)>,
    request: &RequestCx,
) -> Result<Vec<(Document, Answer<Diagnostics>)>, Failure> {
    let asked = answers.iter().filter(|(_, answer)| !answer.value.on_save.is_empty());
    let documents: Vec<&Document> = asked.map(|(document, _)| document).collect();
    let checks = kit.servers.check_saved(&documents, request).await?;
    let disowns = |it: &Diagnostic| kit.servers.disowns(it).is_some();
    join(&mut answers, checks, |path| kit.shown(path), disowns);
    Ok(answers)
}

/// Puts what was found in saved files to the answers about them. What was not looked for stays left out.
fn join(
    answers: &mut [(Document, Answer<Diagnostics>)],
    checks: Vec<FoundSaved>,
    shown: impl Fn(&AbsPath) -> String,
    disowns: impl Fn(&Diagnostic) -> bool,
) {
    for FoundSaved { server, asked, found } in checks {
        let by = |(document, answer): &&mut (Document, Answer<Diagnostics>)| {
            asked.contains(&document.path) && answer.value.on_save.iter().any(|(_, by)| *by == server)
        };
        let mut problems = match found {
            Ok(problems) => problems,
            Err(why) => {
                // It is the same of all files, so it is said of them together.
                for (_, answer) in answers.iter_mut().filter(by) {
                    note(answer, &format!("{server} was asked about the files as they are saved: {why}"));
                }
                continue;
            }
        };
        let failing = match problems.with_errors.first() {
            Some(first) if problems.with_errors.len() == 1 => format!("errors in {}", shown(first)),
            Some(first) => {
                format!("errors in {} and {} more", shown(first), problems.with_errors.len() - 1)
            }
            None => String::new(),
        };
        for (document, answer) in answers.iter_mut().filter(by) {
            let Some(mut more) = problems.files.remove(&document.path) else { continue };
            let items = &mut answer.value.items;
            // Who reads no such file finds nothing in it.
            if more.is_empty() && items.iter().any(|it| it.server == server && disowns(it)) {
                let sources: Vec<&str> = answer
                    .value
                    .on_save
                    .iter()
                    .filter(|(_, by)| *by == server)
                    .map(|(it, _)| it.as_str())
                    .collect();
                let said = format!(
                    "{server} takes it for no part of the project, so it is not looked at as saved either: {}",
                    sources.join(" and ")
                );
                note(answer, &said);
                continue;
            }
            // What the server found by itself already is not told twice.
            more.retain(|it| !items.iter().any(|known| is_same(known, it)));
            items.extend(more);
            items.sort_by_key(|item| (item.range.start, item.range.end, item.severity));
            // What depends on a file that fails may not have been looked at: nothing found is not clean then.
            if problems.with_errors.iter().any(|path| *path != document.path) {
                note(
                    answer,
                    &format!("of the files as they are saved {server} may not know all, for {failing}"),
                );
                if !problems.with_errors.contains(&document.path) {
                    continue;
                }
            }
            answer.value.on_save.retain(|(_, by)| *by != server);
        }
    }
}

/// Whether two problems are one, found in two ways.
fn is_same(one: &Diagnostic, other: &Diagnostic) -> bool {
    let (a, b) = (&one.range, &other.range);
    one.code.is_some() && one.code == other.code && (a.start == b.start || a.start < b.end && b.start < a.end)
}

fn note(answer: &mut Answer<Diagnostics>, said: &str) {
    answer.note = Some(match answer.note.take() {
        Some(it) => format!("{it}; {said}"),
        None => said.to_owned(),
    });
}

/// What servers say of files, and those that they were not asked about in time.
async fn of_several(
    kit: &Kit,
    files: &[AbsPath],
    request: &RequestCx,
) -> Result<(Vec<(Document, Answer<Diagnostics>)>, Vec<AbsPath>), Failure> {
    // Those of one kind have the same servers, and one that loads for long keeps no other kind waiting.
    let mut kinds: BTreeMap<_, Vec<(usize, &AbsPath)>> = BTreeMap::new();
    for (at, path) in files.iter().enumerate() {
        let file = path.as_path();
        kinds.entry(file.extension().or(file.file_name())).or_default().push((at, path));
    }
    let asks = kinds.into_values().map(|paths| of_kind(kit, paths, request));
    let mut told: Vec<_> = join_all(asks).await.into_iter().flatten().collect();
    told.sort_by_key(|(at, _)| *at);
    let (mut answers, mut late) = (Vec::new(), Vec::new());
    for (at, told) in told {
        match told? {
            One::Answer(answer) => answers.push(*answer),
            One::Late => late.push(files[at].clone()),
            One::Gone => {}
        }
    }
    Ok((answers, late))
}

/// What came of asking about files of one kind, so many at once: a server that is shown one more before it is
/// done with those may start anew with all. Those that were pending are asked about once more, if it answers.
async fn of_kind(
    kit: &Kit,
    paths: Vec<(usize, &AbsPath)>,
    request: &RequestCx,
) -> Vec<(usize, Result<One, Failure>)> {
    let mut told = Vec::new();
    for some in paths.chunks(AT_ONCE) {
        let answers = join_all(some.iter().map(|(_, path)| of_one(kit, path, request))).await;
        told.extend(some.iter().map(|(at, _)| *at).zip(answers));
    }
    let pends = |told: &Result<One, Failure>| match told {
        Ok(One::Answer(answer)) => !answer.1.value.pending.is_empty(),
        _ => false,
    };
    let pending: Vec<usize> = (0..told.len()).filter(|number| pends(&told[*number].1)).collect();
    if pending.len() == told.len() {
        return told;
    }
    for some in pending.chunks(AT_ONCE) {
        let asks = some.iter().map(|number| of_one(kit, paths[*number].1, request));
        for (number, again) in some.iter().zip(join_all(asks).await) {
            if knows_more(&again, &told[*number].1) {
                told[*number].1 = again;
            }
        }
    }
    told
}

/// Whether a second answer is to stand for the first: one that came too late, or of fewer servers, is not.
fn knows_more(again: &Result<One, Failure>, first: &Result<One, Failure>) -> bool {
    let unknown = |it: &Answer<Diagnostics>| it.value.pending.len() + it.value.failed.len();
    match (again, first) {
        (Ok(One::Answer(again)), Ok(One::Answer(first))) => unknown(&again.1) < unknown(&first.1),
        (Ok(One::Late), _) => false,
        _ => true,
    }
}

/// What came of asking about one of several files.
enum One {
    Answer(Box<(Document, Answer<Diagnostics>)>),
    /// There was no time left to ask.
    Late,
    /// It is no text, or not there any more.
    Gone,
}

async fn of_one(kit: &Kit, path: &AbsPath, request: &RequestCx) -> Result<One, Failure> {
    if request.left().is_zero() {
        return Ok(One::Late);
    }
    let Ok(document) = kit.workspace.document(path) else { return Ok(One::Gone) };
    let asked = async {
        // A server that fails here is told among those that failed, beside what others say.
        if let Err(error @ ServerError::Cancelled) = kit.servers.load(path, Some(&document), request).await {
            return Err(error);
        }
        kit.servers.diagnostics(&document, &request.within(FOR_ONE)).await
    };
    let answer = match asked.await {
        Ok(answer) => answer,
        Err(ServerError::Cancelled) => return Err(ServerError::Cancelled.into()),
        Err(error) => report::unanswered(document.version, error.to_string()),
    };
    Ok(One::Answer(Box::new((document, answer))))
}

/// The documents that are meant, at most [`MAX_FIXED`], and those that are meant besides.
pub(super) fn documents(
    kit: &Kit,
    args: &Arguments,
    cx: &ToolCx,
) -> Result<(Vec<Document>, BTreeSet<AbsPath>), Failure> {
    let mut files = meant(kit, args, cx)?.files;
    let others = files.split_off(files.len().min(MAX_FIXED)).into_iter().collect();
    Ok((files.iter().filter_map(|path| kit.workspace.document(path).ok()).collect(), others))
}

/// The files that are meant. What is not named itself is left out where it may not be read unasked.
fn meant(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<Meant, Failure> {
    let named: Vec<&String> = args.files.iter().flatten().chain(&args.file).collect();
    let mut meant = Meant { files: Vec::new(), passed: BTreeMap::new() };
    let mut patterns = Vec::new();
    for name in &named {
        match kit.document(name) {
            Ok(document) => meant.files.push(document.path),
            Err(failure) if is_glob(name) => {
                let glob = GlobBuilder::new(name).literal_separator(true).build();
                patterns.push(glob.map_err(|_| failure)?.compile_matcher());
            }
            Err(failure) => return Err(failure),
        }
    }
    if !patterns.is_empty() || named.is_empty() {
        let wanted = |path: &AbsPath| {
            let shown = kit.shown(path);
            may_read(path, cx) && (patterns.is_empty() || patterns.iter().any(|glob| glob.is_match(&shown)))
        };
        // Of one kind in one folder the same is missing.
        let mut known = HashMap::new();
        for path in kit.workspace.files(kit.workspace.root()).filter(wanted) {
            if kit.servers.serves(&path) {
                meant.files.push(path);
                continue;
            }
            let file = path.as_path();
            let kind = file.extension().or(file.file_name()).map(ToOwned::to_owned);
            let lacking: &mut Vec<String> = known
                .entry((file.parent().map(ToOwned::to_owned), kind))
                .or_insert_with(|| kit.servers.lacking(&path));
            if !lacking.is_empty() {
                meant.passed.entry(lacking.join(" or ")).or_default().push(path);
            }
        }
    }
    if meant.files.is_empty() {
        let message = match named.is_empty() {
            true => "no file here is of a language that a server is defined for",
            false => "no file that a server is defined for matches that",
        };
        let message = message.to_owned() + report::passed(kit, &meant.passed, "; ").trim_end();
        return Err(Failure::new(ErrorCode::NotFound, message));
    }
    Ok(meant)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::Range;
    use std::sync::Arc;

    use lsp_client::{RawJson, SavedProblems, Severity};
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

    /// An answer about a file with these items, of which the sources on save are left out.
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
            held: None,
        };
        let mut answer = report::unanswered(version, String::new());
        answer.value = Diagnostics {
            items,
            failed: Vec::new(),
            on_save: vec![("cargo".to_owned(), "s".to_owned())],
            ..answer.value
        };
        (document, answer)
    }

    fn found(files: Vec<(&str, Vec<Diagnostic>)>, with_errors: &[&str]) -> FoundSaved {
        let files: BTreeMap<_, _> = files.into_iter().map(|(name, items)| (path(name), items)).collect();
        let with_errors: BTreeSet<_> = with_errors.iter().map(|name| path(name)).collect();
        let asked = files.keys().cloned().collect();
        FoundSaved { server: "s".to_owned(), asked, found: Ok(SavedProblems { files, with_errors }) }
    }

    /// Of each file: how many items, whether all is known, and what is noted.
    fn joined(
        mut answers: Vec<(Document, Answer<Diagnostics>)>,
        checks: Vec<FoundSaved>,
    ) -> Vec<(usize, bool, String)> {
        join(&mut answers, checks, |path| path.to_string(), |it| it.code.as_deref() == Some("none"));
        let told = |(_, it): (Document, Answer<Diagnostics>)| {
            (it.value.items.len(), it.value.on_save.is_empty(), it.note.unwrap_or_default())
        };
        answers.into_iter().map(told).collect()
    }

    #[test]
    fn nothing_is_clean_beside_a_file_that_fails() {
        let two = || vec![answer("a", Vec::new()), answer("b", Vec::new())];
        let files = || vec![("a", vec![item(0..1, "E1")]), ("b", Vec::new())];
        let said = "of the files as they are saved s may not know all, for errors in /a";
        let got = joined(two(), vec![found(files(), &["a"])]);
        assert_eq!(got, [(1, true, String::new()), (0, false, said.to_owned())]);
        let got = joined(two(), vec![found(files(), &["a", "c"])]);
        let said = format!("{said} and 1 more");
        assert_eq!(got, [(1, true, said.clone()), (0, false, said)]);
        let got = joined(two(), vec![found(files(), &[])]);
        assert_eq!(got, [(1, true, String::new()), (0, true, String::new())]);
    }

    #[test]
    fn a_server_of_another_folder_is_not_said_to_have_been_asked() {
        let failed =
            |name: &str| FoundSaved { found: Err("no".to_owned()), ..found(vec![(name, vec![])], &[]) };
        let two = vec![answer("a", Vec::new()), answer("b", Vec::new())];
        let got = joined(two, vec![failed("a"), found(vec![("b", vec![item(0..1, "E1")])], &[])]);
        let said = "s was asked about the files as they are saved: no";
        assert_eq!(got, [(0, false, said.to_owned()), (1, true, String::new())]);
    }

    #[test]
    fn a_file_that_is_no_part_of_the_project_is_not_clean() {
        let lone = || vec![answer("a", vec![item(0..1, "none")])];
        let said = "s takes it for no part of the project, so it is not looked at as saved either: cargo";
        let got = joined(lone(), vec![found(vec![("a", vec![])], &[])]);
        assert_eq!(got, [(1, false, said.to_owned())]);
        // Who finds something in it looks at it.
        let got = joined(lone(), vec![found(vec![("a", vec![item(0..1, "E1")])], &[])]);
        assert_eq!(got, [(2, true, String::new())]);
    }

    #[test]
    fn two_problems_of_one_line_are_two() {
        let known = answer("a", vec![item(0..2, "E1")]);
        let more = vec![item(0..3, "E1"), item(1..3, "E1"), item(2..3, "E1"), item(0..2, "E2")];
        let mut answers = vec![known];
        join(&mut answers, vec![found(vec![("a", more)], &[])], |path| path.to_string(), |_| false);
        let got: Vec<_> =
            answers[0].1.value.items.iter().map(|it| (it.range.clone(), it.code.as_deref())).collect();
        assert_eq!(got, [(0..2, Some("E1")), (0..2, Some("E2")), (2..3, Some("E1"))]);
    }
}
