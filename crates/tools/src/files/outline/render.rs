//! Rendering of an outline, in as much detail as its limit permits.

use syntax::{Declaration, DeclarationKind, Tree};
use text::{LineIndex, shorten};

/// Minimum and maximum size of an outline, in tokens.
const TOKENS: (usize, usize) = (1000, 7500);
/// Tokens for the rows above and below the declarations.
const FRAME: usize = 130;
/// Minimum lines between statements in long code, and their maximum number.
const STRIDE: usize = 20;
const LANDMARKS: usize = 40;
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

/// Renders the most detailed outline that costs at most half a token for each line.
pub(crate) fn outline(tree: &Tree, text: &str) -> Option<String> {
    let lines = LineIndex::new(text).line_count();
    let (declarations, doc) = (tree.outline(text), tree.doc(text));
    let rows = rows(tree, text, &declarations, lines);
    let limit = (lines / 2).clamp(TOKENS.0, TOKENS.1) - FRAME;
    let mut beginning = None;
    for level in LEVELS {
        let (outlined, next) = render(text, &rows, level, limit);
        beginning = match next {
            // A row or two would say less than the beginning of a finer outline.
            _ if outlined.is_empty() || tokens(&outlined) < limit / 16 && beginning.is_some() => continue,
            None => Some(outlined),
            Some(line) => Some(format!(
                "{outlined}\n(the next declaration is at line {line}: read on with `offset` {line}, or `grep` for a name)"
            )),
        };
        if next.is_none() {
            break;
        }
    }
    let doc = doc.map(|doc| shorten(&doc, DOC).into_owned() + "\n").unwrap_or_default();
    let broken = tree.errors(text).first().map(|error| {
        let line = LineIndex::new(text).line_of(error.range.start) + 1;
        format!("\n(line {line} is not understood: declarations may be missing from there on)")
    });
    Some(doc + beginning?.trim_start_matches('\n') + &broken.unwrap_or_default())
}

/// A declaration, or the beginning of a statement in long code.
struct Row<'a> {
    start: usize,
    depth: usize,
    declaration: Option<&'a Declaration>,
}

fn rows<'a>(tree: &Tree, text: &str, declarations: &'a [Declaration], lines: usize) -> Vec<Row<'a>> {
    let long = lines / 4;
    let is_short = |it: &Declaration| text[it.range.clone()].lines().count() <= long;
    let parent = |it: &Declaration| it.parent.and_then(|at| declarations.get(at));
    let mut rows: Vec<Row<'_>> = Vec::new();
    for declaration in declarations {
        let around = || std::iter::successors(parent(declaration), |it| parent(it));
        let depth = around().filter(|it| it.kind != DeclarationKind::Namespace).count();
        let is_local = around().any(|it| it.kind == DeclarationKind::Function && is_short(it));
        if !is_local && depth <= 2 {
            rows.push(Row { start: declaration.head.start, depth, declaration: Some(declaration) });
        }
    }
    let shown: Vec<_> = rows.iter().filter_map(|row| Some(row.declaration?.range.clone())).collect();
    for start in tree.landmarks(text, &shown, long, (lines / LANDMARKS).max(STRIDE)) {
        let around = rows.iter().filter(|row| row.declaration.is_some_and(|it| it.range.contains(&start)));
        let around =
            around.filter(|row| row.declaration.is_some_and(|it| it.kind != DeclarationKind::Namespace));
        let depth = around.map(|row| row.depth + 1).max().unwrap_or(0);
        rows.push(Row { start, depth, declaration: None });
    }
    rows.sort_by_key(|row| row.start);
    rows
}

/// An estimate of the tokens of a text, at most a tenth too low for real outlines.
fn tokens(text: &str) -> usize {
    let mut tokens = 0;
    // Kind of the last character, and the length of its run.
    let (mut last, mut length) = (' ', 1);
    for character in text.chars() {
        let kind = match character {
            'a'..='z' => 'a',
            'A'..='Z' => 'A',
            '0'..='9' => '0',
            '_' | ' ' => character,
            '\n' => ' ',
            _ if character.is_alphabetic() => 'x',
            _ => '.',
        };
        let continues = kind == last || kind == 'a' && last == 'A' && length == 1;
        length = if continues { length + 1 } else { 1 };
        tokens += match kind {
            'a' => usize::from(length % 6 == 1),
            'A' => usize::from(length % 3 == 1),
            // A space before a number is a token of its own.
            '0' => usize::from(length % 3 == 1) + usize::from(length == 1 && last == ' '),
            '.' => usize::from(length % 2 == 1),
            ' ' => usize::from(length == 2 || character == '\n'),
            '_' => usize::from(length == 1 && matches!(last, ' ' | '.')),
            _ => 1,
        };
        last = kind;
    }
    tokens
}

/// Renders rows that cost at most so many tokens.
///
/// Also returns the line of the first one that does not fit.
fn render(
    text: &str,
    rows: &[Row<'_>],
    (top, member): (Detail, Detail),
    limit: usize,
) -> (String, Option<usize>) {
    let index = LineIndex::new(text);
    let (mut out, mut cost) = (String::new(), 0);
    // Depth of the last row, if it is one of names.
    let mut in_row = None;
    for Row { start, depth, declaration } in rows {
        let line = index.line_of(*start) + 1;
        let indent = "  ".repeat(*depth);
        let is_value = declaration.is_some_and(|it| it.kind == DeclarationKind::Value);
        let detail = if *depth == 0 && !is_value || declaration.is_none() { top } else { member };
        let row = match declaration {
            _ if detail == Detail::Hidden => continue,
            None if detail == Detail::Name => continue,
            None => {
                in_row = None;
                let first = text[*start..].lines().next().unwrap_or_default();
                format!("\n{indent}{line} {}", shorten(first.trim_end_matches([' ', '{', '(']), SIGNATURE))
            }
            Some(it) if detail == Detail::Name && !has_members(it) => {
                let start = if in_row == Some(*depth) { ", " } else { &format!("\n{indent}") };
                in_row = Some(*depth);
                format!("{start}{line} {}", it.name.split_whitespace().collect::<Vec<_>>().join(" "))
            }
            Some(it) => {
                in_row = None;
                let signature = signature(text, it);
                let doc = it.doc.as_ref().filter(|_| detail == Detail::Full);
                let doc = doc.map(|doc| format!(": {}", shorten(doc, DOC))).unwrap_or_default();
                format!("\n{indent}{line} {signature}{doc}")
            }
        };
        cost += tokens(&row);
        if cost > limit {
            return (out, Some(line));
        }
        out.push_str(&row);
    }
    (out, None)
}

/// Whether a declaration may have rows below it.
fn has_members(declaration: &Declaration) -> bool {
    !matches!(declaration.kind, DeclarationKind::Function | DeclarationKind::Value)
        && declaration.head.end < declaration.range.end
}

fn signature(text: &str, declaration: &Declaration) -> String {
    let signature: Vec<&str> = text[declaration.head.clone()].split_whitespace().collect();
    let signature = signature.join(" ").replace("( ", "(").replace(" )", ")").replace(",)", ")");
    let signature = signature.trim_end_matches([':', '{', ';', ' ']).trim_end_matches(" =");
    let mut signature = shorten(signature, SIGNATURE).into_owned();
    let name = declaration.name.rsplit('.').next().unwrap_or_default();
    if !signature.contains(name) {
        // A C type that is named at its end.
        signature += &format!(" … {name}");
    }
    signature
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use syntax::{Language, Stop, Tree};

    #[test]
    fn an_outline_costs_at_most_half_a_token_for_each_line() {
        let vocabulary = tiktoken_rs::o200k_base().unwrap();
        let mut left = vec![Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()];
        let mut checked = 0;
        while let Some(path) = left.pop() {
            if path.is_dir() {
                left.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let lines = text.lines().count();
            if path.extension().is_none_or(|it| it != "rs") || lines < 400 {
                continue;
            }
            let tree = Tree::parse(Language::Rust, &text, Stop::NEVER).unwrap();
            let outline = super::outline(&tree, &text).unwrap();
            let tokens = vocabulary.encode_ordinary(&outline).len();
            assert!(tokens <= (lines / 2).max(1000), "{}: {tokens} tokens", path.display());
            checked += 1;
        }
        assert!(checked > 20, "{checked} files");
        for row in ["pub const E2BIG_X9: __u8 = 0x7FFF_FFFF;", "pub fn f(a: Δ, b: 日本) -> Ünïcödé {}"]
        {
            let text = format!("{row}\n").repeat(1500);
            let tree = Tree::parse(Language::Rust, &text, Stop::NEVER).unwrap();
            let tokens = vocabulary.encode_ordinary(&super::outline(&tree, &text).unwrap()).len();
            assert!(tokens <= 1000, "{row}: {tokens} tokens");
        }
    }
}
