//! Outline of a long file: its declarations, in as much detail as a result has room for.

use std::fmt::Write as _;
use std::sync::Arc;

use syntax::Declaration;
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
/// It costs at most half a token for each line of the file.
/// `None` without a grammar or declarations, or if the coarsest outline is too long.
pub(crate) async fn outline_of(context: &ToolContext, document: &Document) -> Option<String> {
    let declarations = declarations(context, document).await?;
    let lines = display::line_count(&document.text);
    // A token of such a text has more than three bytes.
    let bytes = (lines * 8 / 5).clamp(BYTES.0, BYTES.1);
    LEVELS.iter().find_map(|level| {
        let text = render(&document.text, &declarations, *level);
        (!text.is_empty() && text.len() <= bytes).then_some(text)
    })
}

/// Lists the declarations of a file; `None` without a grammar.
pub(crate) async fn declarations(context: &ToolContext, document: &Document) -> Option<Vec<Declaration>> {
    let (path, text) = (context.display_path(&document.path), Arc::clone(&document.text));
    let tree = context.trees.tree(&path, &text).await?;
    tokio::task::spawn_blocking(move || tree.outline(&text)).await.ok()
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

fn render(text: &str, declarations: &[Declaration], (top, member): (Detail, Detail)) -> String {
    let index = LineIndex::new(text);
    let mut out = String::new();
    // Whether the last row is one of names.
    let mut in_row = None;
    for declaration in declarations {
        let parent = declaration.parent.and_then(|at| declarations.get(at));
        let depth = std::iter::successors(parent, |it| it.parent.and_then(|at| declarations.get(at))).count();
        // Local names of a function are left out.
        if parent.is_some_and(|it| it.is_function) || depth > 2 {
            continue;
        }
        let line = index.line_of(declaration.range.start) + 1;
        let detail = if depth == 0 { top } else { member };
        if detail == Detail::Name && declaration.is_function {
            let row = if in_row == Some(depth) { ", " } else { &format!("\n{}", "  ".repeat(depth)) };
            // Writing to a string never fails.
            write!(out, "{row}{line} {}", declaration.name).ok();
            in_row = Some(depth);
            continue;
        }
        if detail == Detail::Hidden {
            continue;
        }
        in_row = None;
        let signature: Vec<&str> = text[declaration.head.clone()].split_whitespace().collect();
        let signature = signature.join(" ").replace("( ", "(").replace(", )", ")");
        let signature = shorten(signature.trim_end_matches([':', '{', ' ']), SIGNATURE).into_owned();
        write!(out, "\n{}{line} {signature}", "  ".repeat(depth)).ok();
        if let Some(doc) = declaration.doc.as_ref().filter(|_| detail == Detail::Full) {
            write!(out, ": {}", shorten(doc, DOC)).ok();
        }
    }
    out.trim_start_matches('\n').to_owned()
}
