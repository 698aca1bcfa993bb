//! Outline of a long file: its declarations, in as much detail as a result has room for.

use std::ops::Range;
use std::sync::Arc;

use syntax::{Declaration, DeclarationKind, Tree};
use text::{LineIndex, shorten};
use workspace::Document;

use crate::{ToolContext, display};

/// Minimum and maximum size of an outline, in bytes.
const BYTES: (usize, usize) = (3_200, 24 << 10);
/// Maximum length of a signature and of the first line of its documentation.
const SIGNATURE: usize = 72;
const DOC: usize = 60;

/// Part of a declaration that an outline shows.
#[derive(Clone, Copy, PartialEq)]
enum Detail {
    /// Signature and documentation.
    Full,
    Signature,
    /// Name alone, in one row with those beside it.
    Name,
    Hidden,
}

/// Details of declarations at the top level and of members, the longest first.
const LEVELS: [(Detail, Detail); 7] = [
    (Detail::Full, Detail::Full),
    (Detail::Full, Detail::Signature),
    (Detail::Full, Detail::Name),
    (Detail::Signature, Detail::Name),
    (Detail::Name, Detail::Name),
    (Detail::Signature, Detail::Hidden),
    (Detail::Name, Detail::Hidden),
];

/// Renders the most detailed outline of a file that its size permits.
///
/// If none fits, it is the beginning of the coarsest.
///
/// It costs at most half a token for each line of the file. `None` without a grammar or declarations.
pub(crate) async fn outline_of(context: &ToolContext, document: &Document) -> Option<String> {
    let tree = tree(context, document).await?;
    let text = Arc::clone(&document.text);
    let parsed = tokio::task::spawn_blocking(move || (tree.outline(&text), tree.doc(&text))).await;
    let (declarations, doc) = parsed.ok()?;
    let lines = display::line_count(&document.text);
    // A token of such a text has more than three bytes.
    let bytes = (lines * 8 / 5).clamp(BYTES.0, BYTES.1);
    let mut beginning = None;
    for level in LEVELS {
        let (text, next) = render(&document.text, &declarations, level, bytes);
        beginning = match next {
            // A row or two would say less than the beginning of a finer outline.
            _ if text.is_empty() || text.len() < bytes / 16 && beginning.is_some() => continue,
            None => Some(text),
            Some(line) => Some(format!(
                "{text}\n(the next declaration is at line {line}: read on with `offset` {line}, or `grep` for a name)"
            )),
        };
        if next.is_none() {
            break;
        }
    }
    let doc = doc.map(|doc| shorten(&doc, DOC).into_owned() + "\n").unwrap_or_default();
    Some(doc + beginning?.trim_start_matches('\n'))
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

/// Renders declarations in at most so many bytes.
///
/// Also returns the line of the first one that does not fit.
fn render(
    text: &str,
    declarations: &[Declaration],
    (top, member): (Detail, Detail),
    bytes: usize,
) -> (String, Option<usize>) {
    let index = LineIndex::new(text);
    let mut out = String::new();
    // Depth of the last row, if it is one of names.
    let mut in_row = None;
    for declaration in declarations {
        let parent = |it: &Declaration| it.parent.and_then(|at| declarations.get(at));
        let around = || std::iter::successors(parent(declaration), |it| parent(it));
        let depth = around().filter(|it| it.kind != DeclarationKind::Namespace).count();
        // Local names of a function are left out.
        if around().any(|it| it.kind == DeclarationKind::Function) || depth > 2 {
            continue;
        }
        let line = index.line_of(declaration.head.start) + 1;
        let is_value = declaration.kind == DeclarationKind::Value;
        let detail = if depth == 0 && !is_value { top } else { member };
        if detail == Detail::Name && (is_value || declaration.kind == DeclarationKind::Function) {
            let start = if in_row == Some(depth) { ", " } else { &format!("\n{}", "  ".repeat(depth)) };
            let row = format!("{start}{line} {}", declaration.name);
            if out.len() + row.len() > bytes {
                return (out, Some(line));
            }
            out.push_str(&row);
            in_row = Some(depth);
            continue;
        }
        if detail == Detail::Hidden {
            continue;
        }
        in_row = None;
        let signature: Vec<&str> = text[declaration.head.clone()].split_whitespace().collect();
        let signature = signature.join(" ").replace("( ", "(").replace(", )", ")");
        let mut signature = shorten(signature.trim_end_matches([':', '{', ';', ' ']), SIGNATURE).into_owned();
        let name = declaration.name.rsplit('.').next().unwrap_or_default();
        if !signature.contains(name) {
            // A C type that is named at its end.
            signature += &format!(" … {name}");
        }
        let mut row = format!("\n{}{line} {signature}", "  ".repeat(depth));
        if let Some(doc) = declaration.doc.as_ref().filter(|_| detail == Detail::Full) {
            row += &format!(": {}", shorten(doc, DOC));
        }
        if out.len() + row.len() > bytes {
            return (out, Some(line));
        }
        out.push_str(&row);
    }
    (out, None)
}
