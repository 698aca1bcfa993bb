//! Search for files that hold a name, and for those that may declare it.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use lsp_client::RequestCx;
use paths::AbsPath;
use policy::ErrorCode;
use syntax::{Language, Stop, Tree};
use workspace::{Budget, Document, SkipReason};

use crate::{Failure, ToolContext};

/// Maximum size of a searched file, in bytes.
const MAX_BYTES: usize = 2 << 20;
/// Time limit of a search.
const MAX_TIME: Duration = Duration::from_secs(5);
/// Time limit of a search for similar names.
const MAX_SIMILAR_TIME: Duration = Duration::from_secs(1);
/// Maximum number of similar names.
const MAX_SIMILAR: usize = 3;

/// The files that hold a word, as documents.
pub(crate) struct Holding {
    /// Documents sorted by path.
    pub documents: Vec<Document>,
    /// Whether the search ended before every file was searched.
    pub cut: bool,
    /// A file that was not searched because of its size.
    pub too_large: Option<AbsPath>,
}

/// Finds the files of the workspace that hold `name` as a word.
///
/// Respects ignore files.
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
        while let Some(document) = candidates.next_with_word(&name) {
            documents.push(document);
        }
        let is_large = |(_, reason): &&(AbsPath, SkipReason)| *reason == SkipReason::TooLarge;
        let too_large = candidates.skipped().iter().find(is_large).map(|(path, _)| path.clone());
        Holding { documents, cut: !candidates.is_complete(), too_large }
    });
    Ok(scan.await?)
}

/// Finds the documents that may declare `name` according to their trees.
///
/// Takes at most half of the time that is left.
pub(crate) async fn declaring(
    documents: &[Document],
    name: &str,
    cx: &RequestCx,
) -> Result<Vec<Document>, Failure> {
    let (mut documents, name, cancel) = (documents.to_vec(), name.to_owned(), cx.cancel.clone());
    let until = Instant::now() + MAX_TIME.min(cx.left() / 2);
    let filter = tokio::task::spawn_blocking(move || {
        let is_over = || Instant::now() > until || cancel.is_cancelled();
        documents.retain(|document| {
            let tree = Language::of(&document.path.to_string(), &document.text)
                .and_then(|language| Tree::parse(language, &document.text, Stop(&is_over)).ok());
            tree.is_none_or(|tree| tree.may_declare(&document.text, &name))
        });
        documents
    });
    let declaring = filter.await.map_err(|error| Failure::new(ErrorCode::Internal, error.to_string()))?;
    if cx.cancel.is_cancelled() {
        return Err(Failure::new(ErrorCode::Cancelled, "cancelled"));
    }
    Ok(declaring)
}

/// Names declarations that are spelled like `name`: `; did you mean …?`.
///
/// Empty if there are none.
pub(crate) async fn similar(context: &ToolContext, name: &str, cx: &RequestCx) -> String {
    let until = Instant::now() + MAX_SIMILAR_TIME.min(cx.left() / 2);
    let budget = Budget { bytes: MAX_BYTES, ..Budget::new(until, cx.cancel.clone()) };
    let (name, cancel) = (name.to_owned(), cx.cancel.clone());
    let scan = context.workspace.scan(budget, move |workspace, budget| {
        let mut candidates = workspace.candidates(workspace.files(workspace.root()), budget);
        let mut near: BTreeMap<(usize, String), Vec<Document>> = BTreeMap::new();
        while let Some(path) = candidates.next() {
            if Language::of(&path.to_string(), "").is_none() {
                continue;
            }
            let Some(document) = candidates.document(&path, |_| true) else { continue };
            let words: HashSet<&str> = document.text.split(|sign| !text::is_word(sign)).collect();
            for (distance, word) in words.into_iter().filter_map(|word| Some((distance(&name, word)?, word)))
            {
                near.entry((distance, word.to_owned())).or_default().push(document.clone());
            }
        }
        let is_over = || Instant::now() > until || cancel.is_cancelled();
        let is_declared = |(word, documents): &(String, Vec<Document>)| {
            documents.iter().any(|document| {
                let tree = Language::of(&document.path.to_string(), &document.text)
                    .and_then(|language| Tree::parse(language, &document.text, Stop(&is_over)).ok());
                tree.is_some_and(|tree| tree.may_declare(&document.text, word))
            })
        };
        let near = near.into_iter().map(|((_, word), documents)| (word, documents));
        near.filter(is_declared).map(|(word, _)| format!("`{word}`")).take(MAX_SIMILAR).collect::<Vec<_>>()
    });
    let names = scan.await.unwrap_or_default();
    if names.is_empty() { String::new() } else { format!("; did you mean {}?", names.join(" or ")) }
}

/// Counts the characters in which a word differs from `name`; `None` for too many.
///
/// `fetchRows` and `fetch_rows` do not differ.
fn distance(name: &str, word: &str) -> Option<usize> {
    let most = (name.len() / 4).clamp(1, 2);
    if word.len() < 2 || name.len().abs_diff(word.len()) > most + 2 {
        return None;
    }
    let plain = |text: &str| text.replace('_', "").to_lowercase();
    Some(strsim::osa_distance(&plain(name), &plain(word))).filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn a_misspelled_name_is_similar() {
        let near = [
            "fetch_rows",
            "fetchRows",
            "fetch_row",
            "fecth_rows",
            "FetchRowsX",
            "rows",
            "fetch",
            "patch_cows",
        ];
        let near = near.map(|word| distance("fetch_rows", word));
        assert_eq!(near, [Some(0), Some(0), Some(1), Some(1), Some(1), None, None, None]);
        assert_eq!([distance("go", "to"), distance("go", "x"), distance("go", "run")], [Some(1), None, None]);
    }
}
