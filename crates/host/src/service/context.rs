//! Links of prompts to files, and their completion.

use policy::ErrorCode;
use workspace::Workspace;

use super::types::{ContextItem, ContextLink, ServiceError};

/// Maximum number of completed items.
const MAX_ITEMS: usize = 50;

/// Files whose path has the characters of `query` in order. Blocks.
///
/// Matches of the file's name come first, then short paths.
pub(super) fn complete(workspace: &Workspace, query: &str) -> Vec<ContextItem> {
    let query = query.to_lowercase();
    let rank = |name: String| {
        let lower = name.to_lowercase();
        let last = lower.rsplit('/').next().unwrap_or_default();
        let rank = match () {
            () if last.starts_with(&query) => 0,
            () if last.contains(&query) => 1,
            () if lower.contains(&query) => 2,
            () if is_subsequence(&query, &lower) => 3,
            () => return None,
        };
        Some((rank, name.len(), name))
    };
    let root = workspace.root();
    let mut found: Vec<_> =
        workspace.files(root).filter_map(|path| rank(workspace.relative(&path))).collect();
    found.sort();
    let item = |(_, _, name): (usize, usize, String)| ContextItem {
        kind: "file".to_owned(),
        uri: paths::path_to_uri(root.join(&name).as_path()),
        name,
    };
    found.into_iter().take(MAX_ITEMS).map(item).collect()
}

fn is_subsequence(query: &str, text: &str) -> bool {
    let mut text = text.chars();
    query.chars().all(|wanted| text.any(|c| c == wanted))
}

/// Adds the links to the text of a prompt, for the model to read.
pub(super) fn with_links(
    text: &str,
    links: &[ContextLink],
    workspace: &Workspace,
) -> Result<String, ServiceError> {
    let mut out = text.to_owned();
    for ContextLink { uri } in links {
        let (file, fragment) = uri.split_once('#').unwrap_or((uri, ""));
        let path = paths::uri_to_path(file).and_then(|path| paths::AbsPath::new(&path));
        let invalid = || {
            let message = format!("cannot link {uri:?}; use file:///PATH, or file:///PATH#L3-L7 for lines");
            ServiceError::new(ErrorCode::InvalidArguments, message)
        };
        let name = workspace.relative(&path.ok_or_else(invalid)?);
        let lines: Option<Vec<usize>> = match fragment {
            "" => Some(Vec::new()),
            range => range.split('-').map(|line| line.strip_prefix('L')?.parse().ok()).collect(),
        };
        let link = match lines.ok_or_else(invalid)?.as_slice() {
            [] => format!("\n\n(This is about {name}.)"),
            [line] => format!("\n\n(This is about line {line} of {name}.)"),
            [first, last] => format!("\n\n(This is about lines {first} to {last} of {name}.)"),
            _ => return Err(invalid()),
        };
        out.push_str(&link);
    }
    Ok(out)
}
