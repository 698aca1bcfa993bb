//! Texts that nest too deep for a grammar's scanner, which would end the process.

use syntax::{Language, Stop, Tree};

#[track_caller]
fn check(path: &str, text: &str, parses: bool) {
    let tree = Tree::parse(Language::of(path, text).unwrap(), text, Stop::NEVER);
    assert_eq!(tree.is_ok(), parses, "{:.40}", text);
}

fn steps(levels: usize, begin: &str, last: &str) -> String {
    let lines: String = (0..levels).map(|level| format!("{}{begin}\n", " ".repeat(level))).collect();
    format!("{lines}{}{last}\n", " ".repeat(levels))
}

#[test]
fn deep_yaml_is_not_parsed() {
    check("d.yaml", &steps(100, "a:", "b"), true);
    check("d.yaml", &format!("{}x", "- ".repeat(100)), true);
    for text in [
        format!("{}x", "- ".repeat(260)),
        format!("{}x", "-\t".repeat(260)),
        format!("{}x", "? ".repeat(300)),
        format!("{{{}", "a: ".repeat(300)),
        steps(260, "a:", "b"),
        steps(260, "-", "b"),
        steps(130, "- a:", "b"),
        (0..30).map(|at| format!("{}- - ? - - a:\n", " ".repeat(at * 12))).collect(),
        steps(128, "a:", "- - b").replace('\n', "\r\n"),
        steps(260, "a:", "b").replace('\n', "\r"),
    ] {
        check("d.yaml", &text, false);
    }
    // Many lines are not many levels.
    check("d.yaml", &"a:\n  b:\n    - c: d\n      e: f\n".repeat(300), true);
    check("d.yaml", &format!("a: {{{}}}\n", "b: c, ".repeat(50)), true);
}

#[test]
fn deep_python_is_not_parsed() {
    check("d.py", &steps(300, "if a:", "b"), true);
    check("d.py", &steps(600, "if a:", "f'{\"b\"}'"), false);
    check("d.py", &steps(600, "if a:", "b").replace("\n ", "\n\t"), false);
    check("d.py", &"if a:\n    if b:\n        c\n".repeat(600), true);
}

#[test]
fn text_made_deep_by_an_edit_is_not_parsed() {
    let before = "- x\n";
    let tree = Tree::parse(Language::Yaml, before, Stop::NEVER).unwrap();
    let edit = text::TextEdit { range: 0..0, new_text: "- ".repeat(260) };
    let after = text::apply(before, std::slice::from_ref(&edit)).unwrap();
    assert!(tree.reparse(before, &[edit], &after, Stop::NEVER).is_err());
}
