//! Outline of a long file: its declarations, in as much detail as a result has room for.

use std::ops::Range;
use std::sync::Arc;

use syntax::{Declaration, DeclarationKind, Tree};
use text::LineIndex;
use workspace::Document;

use crate::ToolContext;

mod render;

/// Renders the most detailed outline of a file that its size permits.
///
/// If none fits, it is the beginning of the coarsest.
///
/// It costs at most half a token for each line of the file. `None` without a grammar or declarations.
pub(crate) async fn outline_of(context: &ToolContext, document: &Document) -> Option<String> {
    let (tree, text) = (tree(context, document).await?, Arc::clone(&document.text));
    tokio::task::spawn_blocking(move || render::outline(&tree, &text)).await.ok()?
}

async fn tree(context: &ToolContext, document: &Document) -> Option<Tree> {
    context.trees.tree(&context.display_path(&document.path), &document.text).await
}

/// Lists the declarations of a file; `None` without a grammar.
pub(crate) async fn declarations(context: &ToolContext, document: &Document) -> Option<Vec<Declaration>> {
    let (tree, text) = (tree(context, document).await?, Arc::clone(&document.text));
    tokio::task::spawn_blocking(move || tree.outline(&text)).await.ok()
}

/// Finds the declarations of a symbol path (`Type.method`) by the grammar.
///
/// Each has the bytes of its head, and all of its bytes with the documentation and decorators above it.
/// `all` includes prototypes, and blocks that only add members. `None` without a grammar.
pub(crate) async fn extents(
    context: &ToolContext,
    document: &Document,
    path: &str,
    all: bool,
) -> Option<Vec<(Range<usize>, Range<usize>)>> {
    let declarations = declarations(context, document).await?;
    let tree = tree(context, document).await?;
    let mut found: Vec<(String, &Declaration)> = (0..declarations.len())
        .map(|at| (path_of(&declarations, at), &declarations[at]))
        .filter(|(name, _)| {
            name.strip_suffix(path).is_some_and(|before| before.is_empty() || before.ends_with('.'))
        })
        .collect();
    let is_main = |it: &Declaration| it.kind != DeclarationKind::Members && it.head.end < it.range.end;
    let mut prefer = |is_better: &dyn Fn(&(String, &Declaration)) -> bool| {
        if !all && found.iter().any(is_better) {
            found.retain(is_better);
        }
    };
    // `A` is a symbol of that whole path rather than `B.A`.
    prefer(&|(name, _)| name == path);
    prefer(&|(_, it)| is_main(it));
    prefer(&|(_, it)| it.kind != DeclarationKind::Members);
    let index = LineIndex::new(&document.text);
    let extent = |it: &Declaration| {
        let line = index.line_of(it.range.start) + 1;
        let above = tree.block(&document.text, line).ok().and_then(|block| block.leading);
        let above = above.and_then(|line| index.line(&document.text, line - 1));
        above.map_or(it.range.start, |line| line.start)..it.range.end
    };
    Some(found.into_iter().map(|(_, it)| (it.head.clone(), extent(it))).collect())
}

/// The name of a declaration after those around it: `Type.method`.
pub(crate) fn path_of(declarations: &[Declaration], at: usize) -> String {
    let around = std::iter::successors(declarations.get(at), |it| declarations.get(it.parent?));
    let names: Vec<&str> = around.map(|it| it.name.as_str()).collect();
    names.into_iter().rev().collect::<Vec<_>>().join(".").replace("::", ".")
}

/// Names the declarations around an offset, from the outside in: `Type.method`.
pub(crate) fn enclosing(declarations: &[Declaration], offset: usize) -> Option<String> {
    let mut names = Vec::new();
    let inside = |it: &&Declaration| it.head.end <= offset && offset < it.range.end;
    let mut at = declarations.iter().rposition(|it| inside(&it));
    while let Some(declaration) = at.and_then(|at| declarations.get(at)) {
        names.insert(0, declaration.name.as_str());
        at = declaration.parent;
    }
    (!names.is_empty()).then(|| names.join("."))
}
