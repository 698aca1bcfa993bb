//! Which files hold a name, and which of them may declare it.

use std::time::{Duration, Instant};

use lsp_client::RequestCx;
use syntax::{Language, Stop, Tree};
use text::occurrences;
use workspace::{Document, ErrorCode};

use crate::{Failure, Kit};

/// At most this many files are looked at.
const MAX_FILES: usize = 20_000;
/// A larger file is not looked at.
const MAX_BYTES: usize = 2 << 20;
/// For at most this long.
const MAX_TIME: Duration = Duration::from_secs(5);

/// Files that hold a word.
pub(crate) struct Holding {
    /// In order of path.
    pub documents: Vec<Document>,
    /// Whether the search ended before every file was looked at.
    pub cut: bool,
}

/// The files of the workspace that hold `name` as a word, ignore files respected.
pub(crate) async fn files_with(kit: &Kit, name: &str, cx: &RequestCx) -> Result<Holding, Failure> {
    let (workspace, name, cancel) = (kit.workspace.clone(), name.to_owned(), cx.cancel.clone());
    // The rest is for what is asked about them.
    let until = Instant::now() + MAX_TIME.min(cx.left() / 2);
    let search = tokio::task::spawn_blocking(move || {
        let mut holding = Holding { documents: Vec::new(), cut: false };
        for (count, path) in workspace.files(workspace.root()).enumerate() {
            if count >= MAX_FILES || Instant::now() > until || cancel.is_cancelled() {
                holding.cut = true;
                break;
            }
            // What is no text, or is gone by now, holds no name.
            if let Ok(document) = workspace.document(&path)
                && document.text.len() <= MAX_BYTES
                && occurrences(&document.text, &name).next().is_some()
            {
                holding.documents.push(document);
            }
        }
        holding
    });
    let holding = search.await.map_err(|error| Failure::new(ErrorCode::Internal, error.to_string()))?;
    if cx.cancel.is_cancelled() {
        return Err(Failure::new(ErrorCode::Cancelled, "cancelled"));
    }
    Ok(holding)
}

/// Those of `documents` that may declare `name`, as far as their trees tell it in half of the time.
pub(crate) async fn declaring(
    documents: &[Document],
    name: &str,
    cx: &RequestCx,
) -> Result<Vec<Document>, Failure> {
    let (mut documents, name, cancel) = (documents.to_vec(), name.to_owned(), cx.cancel.clone());
    let until = Instant::now() + MAX_TIME.min(cx.left() / 2);
    let look = tokio::task::spawn_blocking(move || {
        let late = || Instant::now() > until || cancel.is_cancelled();
        documents.retain(|document| {
            let tree = Language::of(&document.path.to_string(), &document.text)
                .and_then(|language| Tree::parse(language, &document.text, Stop(&late)).ok());
            tree.is_none_or(|tree| tree.may_declare(&document.text, &name))
        });
        documents
    });
    let declaring = look.await.map_err(|error| Failure::new(ErrorCode::Internal, error.to_string()))?;
    if cx.cancel.is_cancelled() {
        return Err(Failure::new(ErrorCode::Cancelled, "cancelled"));
    }
    Ok(declaring)
}
