//! The problems of files: of one, of those a glob matches, of all.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use agent::{ToolCx, ToolResult};
use futures_util::future::join_all;
use globset::GlobBuilder;
use lsp_client::{Answer, Diagnostics, RequestCx, ServerError};
use workspace::{AbsPath, Document, ErrorCode};

use super::{Arguments, may_read, report};
use crate::{Failure, Kit};

/// At most this many files are asked about in one call.
const MOST: usize = 2000;
/// At most this many files are fixed in one call.
const MAX_FIXED: usize = 50;
/// So many files of one kind are asked about at once.
const AT_ONCE: usize = 8;
/// How long is waited for what servers say of one of several files, once they have loaded their projects: one
/// that is silent keeps no other waiting.
const FOR_ONE: Duration = Duration::from_secs(10);

/// What is meant by a call.
struct Meant {
    files: Vec<AbsPath>,
    /// Those for which there are servers, by the servers' names, of which none is here.
    passed: BTreeMap<String, Vec<AbsPath>>,
}

pub(super) async fn diagnostics(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let started = Instant::now();
    let Meant { mut files, passed } = meant(kit, args, cx)?;
    let mut others: BTreeSet<AbsPath> = files.split_off(files.len().min(MOST)).into_iter().collect();
    let (answers, late) = if let [file] = files.as_slice() {
        let document = kit.workspace.document(file)?;
        let answer = kit.servers.diagnostics(&document, &request).await?;
        (vec![(document, answer)], Vec::new())
    } else {
        // What is left then is for what servers report on their whole project.
        let most = RequestCx { deadline: request.deadline * 9 / 10, ..request.clone() };
        of_several(kit, &files, &most).await?
    };
    let over = !late.is_empty();
    others.extend(late);
    // Servers that report on their whole workspace know the others too.
    let reported = match others.is_empty() {
        true => BTreeMap::new(),
        false => kit.servers.reported(&others, &request.left(started)).await?,
    };
    others.retain(|path| !reported.contains_key(path));
    let why = match over {
        true => format!("the {} s of this call were over", request.deadline.as_secs()),
        false => format!("they are more than {MOST}"),
    };
    let left = report::Left { files: others.into_iter().collect(), why, passed };
    let (text, details) = report::diagnostics(kit, &answers, &reported, &left);
    Ok(ToolResult::text(text).with_details(details))
}

/// What servers say of files, and those that they were not asked about in time.
async fn of_several(
    kit: &Kit,
    files: &[AbsPath],
    request: &RequestCx,
) -> Result<(Vec<(Document, Answer<Diagnostics>)>, Vec<AbsPath>), Failure> {
    let started = Instant::now();
    // Those of one kind have the same servers, and one that loads for long keeps no other kind waiting.
    let mut kinds: BTreeMap<_, Vec<(usize, &AbsPath)>> = BTreeMap::new();
    for (at, path) in files.iter().enumerate() {
        let file = path.as_path();
        kinds.entry(file.extension().or(file.file_name())).or_default().push((at, path));
    }
    let asks = kinds.into_values().map(|paths| of_kind(kit, paths, request, started));
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
    started: Instant,
) -> Vec<(usize, Result<One, Failure>)> {
    let mut told = Vec::new();
    for some in paths.chunks(AT_ONCE) {
        let answers = join_all(some.iter().map(|(_, path)| of_one(kit, path, request, started))).await;
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
        let asks = some.iter().map(|number| of_one(kit, paths[*number].1, request, started));
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

async fn of_one(kit: &Kit, path: &AbsPath, request: &RequestCx, started: Instant) -> Result<One, Failure> {
    let left = request.left(started);
    if left.deadline.is_zero() {
        return Ok(One::Late);
    }
    let Ok(document) = kit.workspace.document(path) else { return Ok(One::Gone) };
    let asked = async {
        // A server that fails here is told among those that failed, beside what others say.
        if let Err(error @ ServerError::Cancelled) = kit.servers.load(path, Some(&document), &left).await {
            return Err(error);
        }
        let left = request.left(started);
        let one = RequestCx { deadline: left.deadline.min(FOR_ONE), ..left };
        kit.servers.diagnostics(&document, &one).await
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
            Err(failure) if name.contains(['*', '?', '{', '[']) => {
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
