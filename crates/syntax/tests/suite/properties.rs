//! Properties of every text, every edit and every grammar.

use proptest::prelude::*;
use syntax::{Comparison, Language, Stop, Stopped, Tree};
use text::TextEdit;

use crate::samples::sample;

fn parse(language: Language, text: &str) -> Tree {
    Tree::parse(language, text, Stop::NEVER).unwrap()
}

#[test]
fn every_sample_parses_and_has_blocks() {
    for language in Language::ALL {
        let text = sample(language, 6);
        let tree = parse(language, &text);
        assert_eq!(tree.errors(&text), [], "{}", language.name());
        let lines = text.lines().count();
        let blocks = (1..=lines).filter(|line| tree.block(&text, *line).is_ok()).count();
        assert!(blocks * 4 > lines, "{}: {blocks} of {lines} lines begin a block", language.name());
        for declaration in tree.outline(&text) {
            let (head, range) = (&declaration.head, &declaration.range);
            assert!(head.start >= range.start && head.end <= range.end, "{declaration:?}");
        }
    }
}

/// An edit that deletes, doubles or replaces lines, chosen by a few numbers.
fn edit_of(text: &str, (kind, at, other): (u8, usize, usize)) -> TextEdit {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (at, other) = (at % lines.len(), other % lines.len());
    let start: usize = lines[..at].iter().map(|line| line.len()).sum();
    let range = start..start + lines[at].len();
    let bracket = lines[at].find(['{', '}', '(', ')', '[', ']', '"', '<', ':']);
    match (kind % 5, bracket) {
        (0, _) => TextEdit::replace(range, ""),
        (1, _) => TextEdit::insert(start, lines[other]),
        (2, _) => TextEdit::replace(range, lines[other]),
        (3, Some(at)) => TextEdit::replace(start + at..start + at + 1, ""),
        (4, Some(at)) => TextEdit::insert(start + at, &text[start + at..start + at + 1]),
        _ => TextEdit::insert(start, "\n"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn incremental_and_full_parses_find_the_same_errors(
        which in 0..Language::ALL.len(),
        changes in prop::collection::vec((any::<u8>(), any::<usize>(), any::<usize>()), 1..4),
    ) {
        let language = Language::ALL[which];
        let mut text = sample(language, 12);
        let mut tree = parse(language, &text);
        for change in changes {
            let edits = [edit_of(&text, change)];
            let after = text::apply(&text, &edits).unwrap();
            let again = tree.reparse(&text, &edits, &after, Stop::NEVER).unwrap();
            let full = parse(language, &after);
            prop_assert_eq!(again.is_broken(&after), full.is_broken(&after), "{} {:?}", language.name(), edits);
            for error in again.errors(&after) {
                prop_assert!(after.get(error.range.clone()).is_some_and(|piece| !piece.contains('\n')));
            }
            (tree, text) = (again, after);
            if text.is_empty() {
                break;
            }
        }
    }

    #[test]
    fn a_proven_text_parses(
        which in 0..Language::ALL.len(),
        changes in prop::collection::vec((any::<u8>(), any::<usize>(), any::<usize>()), 1..3),
    ) {
        let language = Language::ALL[which];
        let text = sample(language, 300);
        let mut edits: Vec<TextEdit> = changes.into_iter().map(|change| edit_of(&text, change)).collect();
        edits.sort_by_key(|edit| edit.range.start);
        edits.dedup_by(|b, a| b.range.start <= a.range.end);
        let after = text::apply(&text, &edits).unwrap();
        if parse(language, &text).surely_parses(&text, &edits, Stop::NEVER).unwrap() {
            prop_assert!(!parse(language, &after).is_broken(&after), "{} {:?}", language.name(), edits);
        }
    }

    #[test]
    fn a_window_reports_no_error_in_valid_text(
        which in 0..Language::ALL.len(),
        change in (any::<u8>(), any::<usize>(), any::<usize>()),
    ) {
        let language = Language::ALL[which];
        let text = sample(language, 200);
        let edits = [edit_of(&text, change)];
        let after = text::apply(&text, &edits).unwrap();
        let window = Comparison::of_window(language, &text, &edits, Stop::NEVER).unwrap();
        prop_assert_eq!(window.is_none(), language == Language::Html);
        let Some(window) = window else { return Ok(()) };
        for error in &window.new_errors {
            prop_assert!(error.range.end <= after.len(), "{:?} of {}", error, after.len());
        }
        if !parse(language, &after).is_broken(&after) {
            prop_assert!(window.was_broken || window.new_errors.is_empty(), "{} {:?} {:?}", language.name(), edits, window);
        }
    }

    #[test]
    fn no_text_and_no_edit_panics(
        which in 0..Language::ALL.len(),
        text in "([a-z{}()\\[\\]<>:;,\"'`#/*=\\\\ \t\n\ré😀\u{feff}-]|fn |def |class |if |end|\n    ){0,60}",
        cut in (0usize..80, 0usize..20),
        new in "[a{}()\"'\n é]{0,8}",
    ) {
        let language = Language::ALL[which];
        let boundary = |at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
        let (start, end) = (boundary(cut.0), boundary(cut.0 + cut.1));
        let edits = [TextEdit::replace(start..end, new)];
        let after = text::apply(&text, &edits).unwrap();
        let tree = parse(language, &text);
        let (new, comparison) = Comparison::of(&tree, &text, &edits, &after, Stop::NEVER).unwrap();
        let window = Comparison::of_window(language, &text, &edits, Stop::NEVER).unwrap();
        for error in comparison.new_errors.iter().chain(window.iter().flat_map(|window| &window.new_errors)) {
            error.message(&after);
        }
        for line in 0..=text.lines().count() + 2 {
            if let Ok(block) = tree.block(&text, line) {
                prop_assert!(*block.lines.start() == line && block.lines.end() >= block.lines.start());
            }
        }
        new.outline(&after);
    }
}

#[test]
fn deep_nesting_is_walked_without_recursion() {
    let text = "[".repeat(100_000);
    let tree = parse(Language::Json, &text);
    assert!(!tree.errors(&text).is_empty());
    assert!(tree.block(&text, 1).is_err());
    let text = format!("{}{}", "[\n".repeat(2_000), "]\n".repeat(2_000));
    let tree = parse(Language::Json, &text);
    assert_eq!(tree.block(&text, 2).unwrap().lines, 2..=3_999);
    assert_eq!(tree.outline(&text), []);
}

#[test]
fn a_parse_can_be_stopped() {
    let text = sample(Language::Rust, 5_000);
    assert_eq!(Tree::parse(Language::Rust, &text, Stop(&|| true)).unwrap_err(), Stopped);
}

#[track_caller]
fn surely(language: Language, text: &str, from: &str, to: &str) -> bool {
    let at = text.find(from).unwrap();
    let edits = [TextEdit::replace(at..at + from.len(), to)];
    parse(language, text).surely_parses(text, &edits, Stop::NEVER).unwrap()
}

#[test]
fn a_part_proves_that_a_text_parses() {
    for language in [
        Language::Rust,
        Language::Python,
        Language::TypeScript,
        Language::Tsx,
        Language::JavaScript,
        Language::Java,
        Language::C,
        Language::Cpp,
        Language::Go,
    ] {
        let text = sample(language, 1_000);
        // Duplicates a line in the middle that begins a construct.
        let tree = parse(language, &text);
        let middle = text.lines().count() / 2;
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let reported = (middle..middle + 40).filter(|line| {
            let Ok(block) = tree.block(&text, *line) else { return false };
            let start: usize = lines[..block.lines.start() - 1].iter().map(|line| line.len()).sum();
            let end: usize = lines[..*block.lines.end()].iter().map(|line| line.len()).sum();
            let edits = [TextEdit::insert(end, &text[start..end])];
            tree.surely_parses(&text, &edits, Stop::NEVER).unwrap()
        });
        assert!(reported.count() > 0, "{}", language.name());
    }
    let members: String =
        (0..2_000).map(|at| format!("    fn f{at}() {{\n        g({at});\n    }}\n")).collect();
    let text = format!("impl A {{\n{members}}}\n");
    assert!(surely(Language::Rust, &text, "g(1000);", "h();"), "in a list within");
    assert!(!surely(Language::Rust, &text, "g(1000);", "h(;"));
    assert!(surely(Language::Rust, &text, "    fn f0()", "    const A: u8 = 0;\n    fn f0()"));
    assert!(!surely(Language::Rust, &text, "impl A {", "impl A"));
}

#[test]
fn a_part_proves_nothing_about_text_beyond_it() {
    let items: String = (0..2_000).map(|at| format!("fn f{at}() {{\n    g({at});\n}}\n")).collect();
    for (from, to) in [
        ("g(1000);", "/* g(1000);"),
        ("g(1000);", "g(r#\"1000);"),
        ("fn f1000() {", "mod m {\nfn f1000() {"),
        ("fn f1000() {", "fn f1000() {{"),
        ("g(1000);\n}\n", "g(1000);\n"),
    ] {
        assert!(!surely(Language::Rust, &items, from, to), "{to}");
        // The block is invalid although it is closed far below.
        let closed = items.replacen("fn f1500() {", "fn f1500() {/* \"# }*/", 1);
        assert!(!surely(Language::Rust, &closed, from, to), "{to}");
    }
    let broken = items.replacen("fn f1500() {", "fn f1500() {{", 1);
    assert!(!surely(Language::Rust, &broken, "g(1000);", "h(1000);"), "it has an error elsewhere");
    let items: String = (0..2_000).map(|at| format!("def f{at}():\n    g({at})\n\n")).collect();
    assert!(surely(Language::Python, &items, "    g(1000)\n", "    if a:\n        g(1000)\n"));
    for to in ["    \"\"\"\n", "    g(1000\n"] {
        assert!(!surely(Language::Python, &items, "    g(1000)\n", to), "{to}");
    }
}

#[test]
fn an_error_in_a_window_has_its_line() {
    for language in [Language::Rust, Language::TypeScript, Language::Java, Language::Css] {
        let text = sample(language, 400);
        let at = text[text.len() / 2..].find(" {\n").map(|at| text.len() / 2 + at).unwrap();
        let edits = [TextEdit::replace(at..at + 2, "")];
        let window = Comparison::of_window(language, &text, &edits, Stop::NEVER).unwrap().unwrap();
        assert!(!window.was_broken, "{}: {window:?}", language.name());
        let line = text[..at].matches('\n').count();
        let reported = text[..window.new_errors[0].range.start].matches('\n').count();
        assert!(line.abs_diff(reported) <= 2, "{}: line {line}, reported {reported}", language.name());
    }
}

#[test]
fn distant_edits_are_checked_together() {
    // An `if` opened at one place and closed at another, both in one long function.
    let body: String = (0..2_000).map(|at| format!("    call({at});\n")).collect();
    let text = format!("fn f() {{\n{body}}}\n\nfn g() {{}}\n");
    let place = |at: usize| text.find(&format!("    call({at});")).unwrap();
    let edits = [TextEdit::insert(place(100), "    if a {\n"), TextEdit::insert(place(1_900), "    }\n")];
    let both = Comparison::of_window(Language::Rust, &text, &edits, Stop::NEVER).unwrap().unwrap();
    assert_eq!(both, Comparison { was_broken: false, new_errors: vec![] });
    let one = Comparison::of_window(Language::Rust, &text, &edits[..1], Stop::NEVER).unwrap().unwrap();
    assert_eq!(one.new_errors.len(), 1);
}
