//! Declarations whose names begin with a text, for the completion of prompts.

use std::ops::RangeInclusive;
use std::time::Instant;

use paths::AbsPath;
use syntax::{Language, Stop, Tree};
use text::LineIndex;
use tokio_util::sync::CancellationToken;
use workspace::{Budget, Workspace};

use crate::files::outline::path_of;

/// A declaration that matches a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolMatch {
    /// Its name with those of the declarations around it: `Type.method`.
    pub name: String,
    pub path: AbsPath,
    /// Its lines, from 1.
    pub lines: RangeInclusive<usize>,
}

/// Finds at most `most` declarations like `query`, in any case, until a time.
///
/// `query` is the beginning of a name or of a path of names (`Type.me`). Blocks.
pub fn symbols_like(workspace: &Workspace, query: &str, most: usize, until: Instant) -> Vec<SymbolMatch> {
    let query = query.replace("::", ".").to_lowercase();
    let last = query.rsplit('.').next().unwrap_or_default();
    if last.is_empty() {
        return Vec::new();
    }
    let budget = Budget::new(until, CancellationToken::new());
    let mut candidates = workspace.candidates(workspace.files(workspace.root()), budget);
    let mut found = Vec::new();
    while let Some(path) = candidates.next() {
        let language = Language::of(&path.to_string(), "").filter(|it| *it != Language::Markdown);
        let holds = |text: &str| text.to_lowercase().contains(last);
        let Some((language, document)) = language.zip(candidates.document(&path, holds)) else { continue };
        let is_over = || Instant::now() > until;
        let Ok(tree) = Tree::parse(language, &document.text, Stop(&is_over)) else { continue };
        let (declarations, index) = (tree.outline(&document.text), LineIndex::new(&document.text));
        for (at, declaration) in declarations.iter().enumerate() {
            let name = path_of(&declarations, at);
            let lower = name.to_lowercase();
            let is_match = lower.match_indices(&query).any(|(start, _)| {
                let after = lower.get(start + query.len()..).unwrap_or_default();
                (start == 0 || lower.as_bytes()[start - 1] == b'.') && !after.contains('.')
            });
            if is_match {
                let [first, last] =
                    [declaration.range.start, declaration.range.end].map(|offset| index.line_of(offset) + 1);
                found.push(SymbolMatch { name, path: document.path.clone(), lines: first..=last });
            }
        }
        if found.len() >= most {
            break;
        }
    }
    found.sort_by(|a, b| (a.name.len(), &a.path, &a.name).cmp(&(b.name.len(), &b.path, &b.name)));
    found.truncate(most);
    found
}
