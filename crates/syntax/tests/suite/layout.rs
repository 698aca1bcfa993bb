//! Errors that the grammars accept and the languages do not.

use syntax::{Comparison, Language, Stop, Tree};
use text::TextEdit;

/// Checks the lines with an error.
#[track_caller]
fn check(path: &str, text: &str, lines: &[usize]) {
    let tree = Tree::parse(Language::of(path, text).unwrap(), text, Stop::NEVER).unwrap();
    let line = |at: usize| text[..at].matches('\n').count() + 1;
    let mut found: Vec<usize> = tree.errors(text).iter().map(|error| line(error.range.start)).collect();
    found.dedup();
    assert_eq!(found, lines, "{text}\n{:?}", tree.errors(text));
    assert_eq!(tree.is_broken(text), !lines.is_empty());
}

#[test]
fn python_columns_are_checked() {
    for (text, lines) in [
        ("def f():\n    a()\n  b()\n", &[3][..]),
        ("def f():\n    a()\n      b()\n    c()\n", &[3]),
        ("def f():\n    if a:\n        b()\n      c()\n", &[4]),
        ("  a()\nb()\n", &[1]),
        ("a()\n b()\n", &[2]),
        ("if a:\n    b()\n  else:\n    c()\n", &[3]),
        ("@a\n  \ndef f():\n\ta()\n        b()\n", &[5]),
        ("if a:\n\tif b:\n        \tc()\n", &[]),
        ("if a:\n        if b:\n\tc()\n", &[2, 3]),
        ("if a: b()\nelse: c()\n", &[]),
        ("if a: \\\n    b()\nc(\n  d,\n e)\n", &[]),
        ("\u{feff}a()\r\nif a:\r\n  b()\r\n  c()\r\n", &[]),
        (
            "class C:\n  def f(self): pass\n  @b\n  # c\n  def g(self):\n   a()\n # d\n\n  x = \"\"\"\ny\n\"\"\"\n",
            &[],
        ),
        ("match a:\n    case 1:\n        b()\n    case _:\n        c()\n", &[]),
        ("try:\n  a()\nexcept* b:\n  c()\nelse:\n  d()\nfinally:\n  e()\n", &[]),
        ("if a:\n    b()\n\x0cc()\n", &[]),
    ] {
        check("a.py", text, lines);
    }
}

#[test]
fn empty_python_bodies_are_errors() {
    for (text, lines) in [
        ("if x:\nif x:\n    a()\n", &[1][..]),
        ("def f(x):\n    # nothing\ng()\n", &[1]),
        ("class C:\n    def f(self):\n\n    def g(self):\n        a()\n", &[2]),
        ("for a in b:\n    c()\nelse:\nd()\n", &[3]),
        ("try:\n    a()\nb()\n", &[1]),
        ("class C: ...\n", &[]),
        ("def f():\n    # why\n    pass\n", &[]),
    ] {
        check("a.py", text, lines);
    }
}

#[test]
fn empty_bash_bodies_are_errors() {
    for (text, lines) in [
        ("if a; then\nfi\n", &[1][..]),
        ("if a; then\n  b\nelse\n  # c\nfi\n", &[3]),
        ("if a; then\n  b\nelif c; then\nfi\n", &[3]),
        ("while a; do\ndone\n", &[1]),
        ("f() {\n}\n", &[1]),
        ("f() {\n  if a; then :; else b; fi\n  for x in 1 2; do c; done\n  case $a in b) ;; esac\n}\n", &[]),
        ("if (( a )); then > b; fi\nx=${a:-{}}\nf() { a=1; }\n", &[]),
    ] {
        check("a.sh", text, lines);
    }
}

#[test]
fn html_elements_must_be_closed_once() {
    for (text, lines) in [
        ("<div>\n<div>\n</div>\n", &[1][..]),
        ("<ul>\n<li>a</div>\n</ul>\n", &[2]),
        ("<main>\n<div>a</div></div>\n</main>\n", &[2]),
        ("<div>\n<span>a\n</div>\n", &[2]),
        ("<table><tr><td>a<td>b</table><p>c<p>d<br><img src=e><DIV></div>\n", &[]),
        ("<!DOCTYPE html><html><body><svg><path d=\"\"/></svg><script>a < b</script></body></html>\n", &[]),
    ] {
        check("a.html", text, lines);
    }
}

#[test]
fn an_edit_reports_the_lines_it_misplaces() {
    let before = format!(
        "{}def last():\n    a()\n    b()\n",
        "def f(x):\n    y = x\n    return y\n\n\n".repeat(2_000)
    );
    let tree = Tree::parse(Language::Python, &before, Stop::NEVER).unwrap();
    let middle = before[..before.len() / 2].rfind("    return").unwrap();
    for (edit, broken) in [
        (TextEdit::insert(middle, "  "), true),
        (TextEdit::insert(middle, "    z = 1\n"), false),
        (TextEdit::replace(middle..middle + 13, ""), false),
        (TextEdit::replace(middle - 10..middle + 13, ""), true),
        (TextEdit::insert(middle, "    try:\n        z()\n"), true),
    ] {
        let edits = [edit];
        let after = text::apply(&before, &edits).unwrap();
        let (_, whole) = Comparison::of(&tree, &before, &edits, &after, Stop::NEVER).unwrap();
        assert_eq!(!whole.new_errors.is_empty(), broken, "{edits:?}");
        assert_eq!(tree.surely_parses(&before, &edits, Stop::NEVER).unwrap(), !broken, "{edits:?}");
        let nearby = Comparison::of_window(Language::Python, &before, &edits, Stop::NEVER).unwrap().unwrap();
        assert_eq!((nearby.was_broken, !nearby.new_errors.is_empty()), (false, broken), "{edits:?}");
    }
}
