//! Forms that parse, parse with a note, and are refused.

use expect_test::expect;
use hashline::{
    Anchor, Dialect, FileOp, Op, ParseErrorKind, Parser, Patch, Span, Target, View, edit_description,
};

use crate::tolerance::{REFUSED, TOLERATED};

fn anchor(line: usize, check: &str) -> Anchor {
    Anchor { line, check: (!check.is_empty()).then(|| check.parse().unwrap()) }
}

fn lines(first: Anchor, last: Anchor) -> Span {
    Span::Lines { first, last }
}

#[test]
fn parses_every_form_of_the_grammar() {
    let input = "[src/a b.rs#3f2A]
PUT 1KQ..=2mz:
+x
PUT 3:
+
++y
PUT <4kq:
+z
PUT >5:
+z
PUT <1:
+z
PUT >$:
+z
PUT 6*:
+z
PUT >7*:
+z
CUT 8
CUT 9..=10 @a-1
CUT 11*
PUT <12
PUT >13 @a-1
PUT 14..=15 @a-1
MV src/c d.rs

[b#0123ABCD]
REM
[#c#d#0000]
MV ../e
";
    let (patch, notes) = Patch::parse(input).unwrap();
    assert_eq!(notes, []);
    let put = |target, rows: &[&str]| Op::Put {
        target,
        body: rows.iter().map(|row| (*row).to_owned()).collect(),
        old: vec![],
    };
    let (one, a) = (|line| lines(anchor(line, ""), anchor(line, "")), Some("a-1".to_owned()));
    let expected = [
        put(Target::Replace(lines(anchor(1, "kq"), anchor(2, "mz"))), &["x"]),
        put(Target::Replace(one(3)), &["", "+y"]),
        put(Target::Before(anchor(4, "kq")), &["z"]),
        put(Target::After(anchor(5, "")), &["z"]),
        put(Target::Head, &["z"]),
        put(Target::End, &["z"]),
        put(Target::Replace(Span::Block(anchor(6, ""))), &["z"]),
        put(Target::AfterBlock(anchor(7, "")), &["z"]),
        Op::Cut { span: one(8), register: None },
        Op::Cut { span: lines(anchor(9, ""), anchor(10, "")), register: a.clone() },
        Op::Cut { span: Span::Block(anchor(11, "")), register: None },
        Op::Paste { target: Target::Before(anchor(12, "")), register: None },
        Op::Paste { target: Target::After(anchor(13, "")), register: a.clone() },
        Op::Paste { target: Target::Replace(lines(anchor(14, ""), anchor(15, ""))), register: a },
    ];
    assert_eq!(patch.sections[0].ops, expected);
    assert_eq!(patch.sections[0].path, "src/a b.rs");
    assert_eq!(patch.sections[0].tag.unwrap().to_string(), "3F2A");
    assert_eq!(patch.sections[0].file_op, FileOp::Rename { to: "src/c d.rs".into() });
    assert_eq!(patch.sections[1].tag.unwrap().to_string(), "0123ABCD");
    assert_eq!(patch.sections[1].file_op, FileOp::Remove);
    assert_eq!(patch.sections[2].path, "#c#d");
    assert_eq!(Patch::parse(&patch.to_string()).unwrap(), (patch, vec![]));
}

#[test]
fn tolerated_forms_parse_with_a_note() {
    for tolerance in TOLERATED {
        let name = tolerance.name;
        let (patch, notes) =
            Patch::parse(tolerance.written).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(patch.to_string(), tolerance.read_as, "{name}");
        assert_eq!(notes.len(), 1, "{name}: {notes:?}");
        assert_eq!(notes[0].kind, tolerance.note, "{name}");
        let mut parser = Parser::new();
        parser.push(tolerance.written);
        assert_eq!(parser.dialect(), Some(tolerance.dialect), "{name}");
    }
}

#[test]
fn refused_forms_are_refused() {
    for (name, input) in REFUSED {
        match Patch::parse(input) {
            Ok(read) => panic!("{name} was read as {read:?}"),
            Err(error) => {
                let message = error.to_string();
                assert!(message.starts_with("line ") && !message.ends_with('.'), "{name}: {message}");
            }
        }
    }
}

#[test]
fn errors_name_the_line_and_the_fix() {
    let error = Patch::parse("[a#3F2A]\nCUT 1\nPUT 2:\n+x\n\n+y\n").unwrap_err();
    assert_eq!((error.line, &error.kind), (6, &ParseErrorKind::BlankRow));
    expect!["line 6 of the patch: a blank line is between body rows; write a lone `+` for an empty line"]
        .assert_eq(&error.to_string());
    let error = Patch::parse("[a#3F2A]\nPUT 2:\nCUT 4\n").unwrap_err();
    assert_eq!((error.line, &error.kind), (2, &ParseErrorKind::EmptyBody));
}

#[test]
fn body_rows_are_verbatim() {
    let (patch, _) = Patch::parse("[a#3F2A]\nPUT 2:\n+  \tx  \n+-y\n+[z]\n+PUT\n+```\n").unwrap();
    let Op::Put { body, .. } = &patch.sections[0].ops[0] else { panic!() };
    assert_eq!(body, &["  \tx  ", "-y", "[z]", "PUT", "```"]);
}

/// Counts tokens with o200k, whose vocabulary is part of the crate `tiktoken-rs`.
#[test]
fn descriptions_for_models_are_short_and_correct() {
    let tokens = tiktoken_rs::o200k_base().unwrap();
    let views = Dialect::ALL.map(View::of).into_iter().chain([View::PLAIN]);
    for view in views {
        let description = edit_description(view);
        let count = tokens.encode_ordinary(&description).len();
        println!("{} ({}): {count} tokens", view.dialect, if view.checks { "checks" } else { "plain" });
        assert!(count <= 900, "{view:?}: {count} tokens");
        assert!(!description.contains(['⟦', '⟧']) && description.contains("kq") == view.shows_checks());
        // Blocks have one form in every view.
        let block = if view.dialect == Dialect::Json { "12kq*" } else { "A*" };
        for operation in ["CUT ", "PUT ", "PUT >"] {
            assert!(description.contains(&format!("{operation}{block}")), "{view:?}: {operation}");
            let body = if operation == "CUT " { "\n" } else { ":\n+x\n" };
            let (patch, _) = Patch::parse(&format!("[a#3F2A]\n{operation}12KQ*{body}")).unwrap();
            assert!(patch.to_string().contains(&format!("{operation}12kq*")), "{patch}");
        }
        let headings = ["An edit of it:\n", "Example:\n"];
        let (_, example) = headings.iter().find_map(|heading| description.split_once(heading)).unwrap();
        let (patch, notes) = Patch::parse(example).unwrap();
        assert_eq!(notes, []);
        let anchors = patch.sections[0].anchors();
        assert!(
            anchors.len() > 2 && anchors.iter().all(|anchor| anchor.check.is_some() == view.shows_checks())
        );
        let mut parser = Parser::new();
        parser.push(example);
        parser.push("\n");
        assert_eq!(parser.dialect(), Some(view.dialect));
    }
}

#[test]
fn the_manuals_list_every_tolerance() {
    let readme = include_str!("../../README.md");
    for tolerance in TOLERATED {
        let row = readme.lines().find(|row| row.starts_with(&format!("| {} | ", tolerance.name)));
        let (name, dialect) = (tolerance.name, tolerance.dialect.as_str());
        let row = row.unwrap_or_else(|| panic!("README.md lacks: {name}"));
        let dialects = row.split('|').nth(2).unwrap();
        assert!(
            dialects.contains(dialect) || dialects.contains("all"),
            "README.md lacks: {name} in {dialect}"
        );
    }
}

/// Code blocks of a manual that are patches of one dialect.
fn examples<'a>(page: &'a str, begins: &str) -> Vec<&'a str> {
    let blocks = page.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    blocks.map(|(_, block)| block).filter(|block| block.starts_with(begins)).collect()
}

#[test]
fn the_examples_of_the_manuals_are_patches() {
    let pages = [include_str!("../../README.md"), include_str!("../../../../docs/formats/hashline.md")];
    for page in pages {
        for (begins, dialect) in [("¶", Dialect::Arrow), ("{\"path\"", Dialect::Json)] {
            let found = examples(page, begins);
            assert!(!found.is_empty(), "{dialect}");
            for example in found {
                let (patch, notes) =
                    Patch::parse(example).unwrap_or_else(|error| panic!("{error}\n{example}"));
                assert_eq!((notes.len(), patch.sections.len()), (0, 1), "{example}");
                assert_eq!(Patch::parse(&patch.print(dialect).unwrap()).unwrap().0, patch);
            }
        }
    }
}

#[test]
fn destinations_round_trip() {
    for to in ["b /", "./ b", "a/ /.", "a/b /../ "] {
        let (patch, _) = hashline::Patch::parse(&format!("[a#3F2A]\nMV {to}\n")).unwrap();
        assert_eq!(hashline::Patch::parse(&patch.to_string()).unwrap().0, patch, "{to:?}");
    }
}
