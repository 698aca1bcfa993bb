//! Which files hold a name, and which of them may declare it.

use std::time::{Duration, Instant};

use lsp_client::RequestCx;
use policy::ErrorCode;
use syntax::{Language, Stop, Tree};
use text::occurrences;
use workspace::{Budget, Document};

use crate::{Failure, ToolContext};

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
pub(crate) async fn files_with(
    context: &ToolContext,
    name: &str,
    cx: &RequestCx,
) -> Result<Holding, Failure> {
    // The rest of the time is for questions about the files.
    let until = Instant::now() + MAX_TIME.min(cx.left() / 2);
    let budget = Budget { bytes: MAX_BYTES, ..Budget::new(until, cx.cancel.clone()) };
    let name = name.to_owned();
    let scan = context.workspace.scan(budget, move |workspace, budget| {
        let mut candidates = workspace.candidates(workspace.files(workspace.root()), budget);
        let mut documents = Vec::new();
        while let Some(document) = candidates.next_document(|text| occurrences(text, &name).next().is_some())
        {
            documents.push(document);
        }
        Holding { documents, cut: !candidates.is_complete() }
    });
    Ok(scan.await?)
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
