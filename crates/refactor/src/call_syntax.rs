//! Recognizes calls of a name by the text around it.

use std::ops::Range;

/// Languages in which the end of a line ends a statement.
///
/// Arguments of a call do not follow on the next line.
const LINE_STATEMENTS: &[&str] = &["python", "go", "ruby", "kotlin", "swift", "scala", "lua"];

/// Whether the name at `range` is called there.
///
/// Arguments follow it, possibly after type arguments, or it is a decorator or an element.
pub(crate) fn is_called(text: &str, range: &Range<usize>, language: &str) -> bool {
    let before = text.get(..range.start).unwrap_or_default();
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let head = before.trim_end_matches(|c| is_word(c) || c == '.');
    let alone =
        |mark: char| head.strip_suffix(mark).is_some_and(|head| !head.ends_with(|c| is_word(c) || c == ')'));
    // In TypeScript without JSX that is a type assertion.
    let has_elements = matches!(language, "typescriptreact" | "javascriptreact" | "javascript");
    if alone('@') || has_elements && alone('<') {
        return true;
    }
    let rest = after_blanks(text.get(range.end..).unwrap_or_default(), language);
    let rest = ["?.", "!", "::"].iter().find_map(|it| rest.strip_prefix(it)).unwrap_or(rest);
    if language == "go" && rest.starts_with('[') {
        let mut depth = 0;
        for (at, c) in rest.char_indices() {
            match c {
                '[' => depth += 1,
                ']' => depth -= 1,
                ';' => return false,
                _ => {}
            }
            if depth == 0 {
                return rest[at + 1..].starts_with('(');
            }
        }
        return false;
    }
    if !rest.starts_with('<') {
        return rest.starts_with(['(', '`']);
    }
    let mut depth = 0;
    for (at, c) in rest.char_indices() {
        match c {
            '<' => depth += 1,
            // The end of an arrow closes no list.
            '>' if rest[..at].ends_with('=') => {}
            '>' => depth -= 1,
            ';' => return false,
            _ => {}
        }
        if depth == 0 {
            return after_blanks(&rest[at + c.len_utf8()..], language).starts_with(['(', '`']);
        }
    }
    false
}

/// The text after blanks and comments.
fn after_blanks<'a>(text: &'a str, language: &str) -> &'a str {
    let is_blank = |c: char| c.is_whitespace() && (c != '\n' || !LINE_STATEMENTS.contains(&language));
    let mut rest = text.trim_start_matches(is_blank);
    while let Some((_, after)) = rest.strip_prefix("/*").and_then(|it| it.split_once("*/")) {
        rest = after.trim_start_matches(is_blank);
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::is_called;

    #[test]
    fn a_name_is_called_where_arguments_follow() {
        let called_in = |text: &str, language: &str| {
            let at = text.find('f').unwrap();
            is_called(text, &(at..at + 1), language)
        };
        let called = |text: &str| called_in(text, "typescript");
        for text in [
            "f(1)",
            "f (1)",
            "f<T>(x)",
            "f<Map<K, () => V>>(x)",
            "f?.(x)",
            "f!(x)",
            "f`x`",
            "new f(x)",
            "f\n(x)",
            "f /* x */ (y)",
            "f::<T>(x)",
            "@f\nclass A {}",
            "@a.f class A {}",
        ] {
            assert!(called(text), "{text}");
        }
        for text in ["f", "f, g(1)", "f < g(1)", "f<T>", "f.call(x)", "f = (x)", "import { f } from 'x'; g()"]
        {
            assert!(!called(text), "{text}");
        }
        for (text, language, is) in [
            ("(<f />)", "typescriptreact", true),
            ("<a.f x={1}>", "javascript", true),
            ("</f>", "typescriptreact", false),
            ("Map<f, B>", "typescriptreact", false),
            ("<f>x", "typescript", false),
            ("a@f", "python", false),
            ("h = f\n(a, b) = 1, 2", "python", false),
            ("f (1)", "python", true),
            ("@f\ndef g(): ...", "python", true),
            ("f[int](x)", "go", true),
            ("f[map[string]int](x)", "go", true),
            ("f[0] + g[1](x)", "go", false),
            ("f[g(x)]\nh(x)", "go", false),
            ("f[int](x)", "python", false),
        ] {
            assert_eq!(called_in(text, language), is, "{text} in {language}");
        }
    }
}
