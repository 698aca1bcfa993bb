//! The problems of files: of one, of those a glob matches, of all.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use agent::{ToolCx, ToolResult};
use globset::GlobBuilder;
use lsp_client::ServerError;
use workspace::{AbsPath, Document, ErrorCode};

use super::{Arguments, may_read, report};
use crate::{Failure, Kit};

/// At most this many files are asked for diagnostics when none was named.
const MAX_DIAGNOSED: usize = 50;

pub(super) async fn diagnostics(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let (documents, mut others) = documents(kit, args, cx)?;
    let started = Instant::now();
    let mut answers = Vec::new();
    for document in &documents {
        let left = request.left(started);
        if left.deadline.is_zero() {
            let why = format!(
                "the {} s of this call were over; ask for fewer files, or give a longer `timeout`",
                request.deadline.as_secs()
            );
            answers.push((document, report::unanswered(document.version, why)));
            continue;
        }
        match kit.servers.diagnostics(document, &left).await {
            Ok(answer) => answers.push((document, answer)),
            Err(error) if documents.len() == 1 => return Err(error.into()),
            Err(ServerError::Cancelled) => return Err(ServerError::Cancelled.into()),
            Err(error) => answers.push((document, report::unanswered(document.version, error.to_string()))),
        }
    }
    // Servers that report on their whole workspace know the others too.
    let reported = match others.is_empty() {
        true => BTreeMap::new(),
        false => kit.servers.reported(&others, &request.left(started)).await?,
    };
    others.retain(|path| !reported.contains_key(path));
    let (text, details) = report::diagnostics(kit, &answers, &reported, others.len());
    Ok(ToolResult::text(text).with_details(details))
}

/// The files that are meant, at most [`MAX_DIAGNOSED`], and those that are meant besides. What is not named
/// itself is left out where it may not be read unasked.
pub(super) fn documents(
    kit: &Kit,
    args: &Arguments,
    cx: &ToolCx,
) -> Result<(Vec<Document>, BTreeSet<AbsPath>), Failure> {
    let named: Vec<&String> = args.files.iter().flatten().chain(&args.file).collect();
    let mut documents = Vec::new();
    let mut patterns = Vec::new();
    for name in &named {
        match kit.document(name) {
            Ok(document) => documents.push(document),
            Err(failure) if name.contains(['*', '?', '{', '[']) => {
                let glob = GlobBuilder::new(name).literal_separator(true).build();
                patterns.push(glob.map_err(|_| failure)?.compile_matcher());
            }
            Err(failure) => return Err(failure),
        }
    }
    let mut others: BTreeSet<AbsPath> =
        documents.iter().skip(MAX_DIAGNOSED).map(|document| document.path.clone()).collect();
    documents.truncate(MAX_DIAGNOSED);
    if !patterns.is_empty() || named.is_empty() {
        let wanted = |path: &AbsPath| {
            let shown = kit.shown(path);
            kit.servers.serves(path)
                && may_read(path, cx)
                && (patterns.is_empty() || patterns.iter().any(|glob| glob.is_match(&shown)))
        };
        for path in kit.workspace.files(kit.workspace.root()).filter(wanted) {
            // Those need not be read.
            if documents.len() == MAX_DIAGNOSED {
                others.insert(path);
            } else {
                documents.extend(kit.workspace.document(&path).ok());
            }
        }
    }
    if documents.is_empty() {
        let message = match named.is_empty() {
            true => "no file here is of a language that a server is defined for".to_owned(),
            false => "no file that a server is defined for matches that".to_owned(),
        };
        return Err(Failure::new(ErrorCode::NotFound, message));
    }
    Ok((documents, others))
}
