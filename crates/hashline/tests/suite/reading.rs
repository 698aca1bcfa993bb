//! Properties of every input in every dialect.
//!
//! An input parses or is refused, in linear time, however it is split, and a parsed patch prints to itself.

use std::time::{Duration, Instant};

use hashline::{Dialect, Lines, Note, Options, ParseError, Parser, Patch, SnapshotStore, Target};
use proptest::prelude::*;

use crate::properties::{draft, op, patch, texts};

type Read = Result<(Patch, Vec<Note>), ParseError>;

/// Parses `input` in chunks that end at `cuts`, distances from the previous one.
fn in_pieces(input: &str, cuts: &[usize]) -> (Option<Dialect>, Read) {
    let mut parser = Parser::new();
    let mut rest = input;
    for cut in cuts {
        let cut = (*cut.min(&rest.len())..=rest.len()).find(|at| rest.is_char_boundary(*at)).unwrap();
        parser.push(&rest[..cut]);
        rest = &rest[cut..];
    }
    parser.push(rest);
    parser.push("");
    (parser.dialect(), parser.finish())
}

/// Checks that chunks give the same patch or error as the whole input.
///
/// A parsed patch prints as the same patch in its dialect, and is planned or refused.
fn holds(input: &str, cuts: &[usize]) -> Result<(), TestCaseError> {
    let whole = Patch::parse(input);
    let (_, pieces) = in_pieces(input, cuts);
    prop_assert_eq!(&pieces, &whole);
    let (dialect, _) = in_pieces(&format!("{input}\n"), cuts);
    match whole {
        Err(error) => prop_assert!((1..=input.split('\n').count()).contains(&error.line), "{}", error),
        Ok((patch, _)) => {
            prop_assert!(!patch.sections.is_empty());
            let dialect = dialect.unwrap();
            let printed = patch.print(dialect).map_err(|error| TestCaseError::fail(error.to_string()))?;
            let again = Patch::parse(&printed);
            let (again, _) = again.map_err(|error| TestCaseError::fail(format!("{error}\n{printed}")))?;
            prop_assert_eq!(&again, &patch);
            prop_assert_eq!(again.print(dialect).unwrap(), printed);
            plans(patch)?;
        }
    }
    Ok(())
}

/// Plans the patch against a text that was read, or that is the newest.
fn plans(mut patch: Patch) -> Result<(), TestCaseError> {
    let mut store = SnapshotStore::default();
    let text: std::sync::Arc<str> = "a\nb\nc\n".into();
    let tag = store.record("a", text.clone());
    store.see("a", tag, 1..=3);
    if patch.sections[0].tag.is_some() {
        patch.sections[0].tag = Some(tag);
    }
    let current = &|path: &str| (path == "a").then(|| text.clone());
    if let Ok(plan) = hashline::plan(&patch, &mut store, &current, Options::default()) {
        for section in &plan.sections {
            prop_assert_eq!(text::apply(&section.before, &section.edits).unwrap(), &*section.new_text);
        }
    }
    Ok(())
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![prop::collection::vec(0usize..60, 0..12), Just(vec![1; 400])]
}

/// Patches that every dialect can express, printed in one of them.
fn printed() -> impl Strategy<Value = (Dialect, Patch, String)> {
    let paths = prop_oneof![Just("a".to_owned()), "[ -~\u{e9}¶]{0,8}"];
    let drafts = prop::collection::vec(draft(), 1..5);
    (texts(), drafts, paths, "[0-9a-fA-F]{4}([0-9a-fA-F]{4})?", 0usize..3).prop_filter_map(
        "no operation fits the text",
        |(text, drafts, path, tag, dialect)| {
            let lines = Lines::new(text.as_str().into());
            let ops: Vec<_> = drafts.iter().filter_map(|draft| op(draft, &lines)).collect();
            let mut patch = patch(tag.parse().unwrap(), ops);
            let dialect = Dialect::ALL[dialect];
            if dialect == Dialect::Arrow {
                let at_end = |op: &hashline::Op| matches!(op, hashline::Op::Put { target: Target::End, .. });
                patch.sections[0].ops.retain(|op| !at_end(op));
            }
            if let Ok((read, _)) = Patch::parse(&format!("[{path}#0000]\nCUT 1\n")) {
                patch.sections[0].path = read.sections[0].path.clone();
            }
            let printed = patch.print(dialect).unwrap();
            (!patch.sections[0].ops.is_empty()).then_some((dialect, patch, printed))
        },
    )
}

/// Lines of every dialect, whole or in part, with common mistakes.
fn lines() -> impl Strategy<Value = String> {
    let put = prop_oneof![
        Just("[a#3F2A]".to_owned()),
        Just("[./b/../a#0000beef]".to_owned()),
        Just("REM".to_owned()),
        "(PUT|CUT|put|Cut) [<>]?[0-9]{1,2}[a-z]{0,2}( ?(\\.\\.=|\\.\\.|-|to) ?[0-9]{1,2}[a-z]{0,2})?[*]?( @[a-z]{0,2})?:?",
        "MV [ -~]{0,6}",
    ];
    let arrow = prop_oneof![
        Just("¶a#3f2a".to_owned()),
        Just("§./a#3f2a".to_owned()),
        "[0-9]{1,2}(kq)?((\\.\\.|-| to )[0-9]{1,2})?[:!↑↓*]:?[ -~]{0,4}",
    ];
    let rows = prop_oneof![
        "[+-][ -~\r\u{e9}]{0,6}",
        "[0-9]{1,2}(kq|ab|#KQ)?:[a-z ]{0,3}",
        "```|\\*\\*\\* (Begin|End) Patch|\\{|\\[",
        "[ -~\r\u{feff}]{0,6}",
    ];
    let lines = prop::collection::vec(prop_oneof![put, arrow, rows], 0..12);
    let first = prop_oneof![Just(""), Just("[a#3F2A]\n"), Just("¶a#3f2a\n"), Just("```\n¶a#3f2a\n")];
    (first, lines, prop_oneof![Just("\n"), Just("\r\n")])
        .prop_map(|(first, lines, ending)| first.to_owned() + &lines.join(ending))
}

/// Objects that nearly have the form of the json dialect.
fn objects() -> impl Strategy<Value = String> {
    let word = "[0-9]{1,2}(#[KQMZ]{2})?[*:]?|[a-z]{0,3}|3F2A|a";
    let value = prop_oneof![
        word.prop_map(|word| format!("{word:?}")),
        Just("null".to_owned()),
        Just("7".to_owned()),
        prop::collection::vec("[+ab\\n\u{e9}]{0,3}", 0..3).prop_map(|rows| format!("{rows:?}")),
    ];
    let op = prop_oneof![4 => "replace|prepend|append", 1 => "Replace|delete"];
    let key = prop_oneof![8 => Just("pos"), 4 => Just("end"), 8 => Just("lines"), 1 => Just("with")];
    let edit = (op, prop::collection::vec((key, value.clone()), 0..4)).prop_map(|(op, fields)| {
        let fields: String = fields.iter().map(|(key, value)| format!(", \"{key}\": {value}")).collect();
        format!("{{\"op\": \"{op}\"{fields}}}")
    });
    let edits = prop::collection::vec(edit, 0..4);
    let file = (prop::option::of(value), edits).prop_map(|(tag, edits)| {
        let tag = tag.map_or(String::new(), |tag| format!(" \"tag\": {tag},"));
        format!("{{\"path\": \"a\",{tag} \"edits\": [\n{}]}}", edits.join(",\n"))
    });
    prop_oneof![
        3 => file.clone(),
        1 => prop::collection::vec(file, 0..3).prop_map(|files| format!("[{}]", files.join(","))),
    ]
}

/// Damage to a patch in transit.
#[derive(Debug, Clone)]
enum Damage {
    Delete(usize),
    Insert(usize, String),
    Cut(usize),
    Twice(usize),
    Swap(usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (0usize..400).prop_map(Damage::Delete),
        (0usize..400, "[ -~\n\r¶↑↓+\u{feff}]{1,2}").prop_map(|(at, what)| Damage::Insert(at, what)),
        (0usize..400).prop_map(Damage::Cut),
        (0usize..20).prop_map(Damage::Twice),
        (0usize..20).prop_map(Damage::Swap),
    ]
}

fn damaged(input: &str, damage: &Damage) -> String {
    let mut chars: Vec<char> = input.chars().collect();
    let at = |at: usize, len: usize| at % len.max(1);
    let mut lines: Vec<&str> = input.split('\n').collect();
    match damage {
        Damage::Delete(place) if !chars.is_empty() => {
            chars.remove(at(*place, chars.len()));
            chars.into_iter().collect()
        }
        Damage::Insert(place, what) => {
            let place = at(*place, chars.len());
            chars.splice(place..place, what.chars());
            chars.into_iter().collect()
        }
        Damage::Cut(place) => chars[..at(*place, chars.len())].iter().collect(),
        Damage::Twice(line) => {
            let line = at(*line, lines.len());
            lines.insert(line, lines[line]);
            lines.join("\n")
        }
        Damage::Swap(line) if lines.len() > 1 => {
            let line = at(*line, lines.len() - 1);
            lines.swap(line, line + 1);
            lines.join("\n")
        }
        _ => input.to_owned(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(512)))]

    /// Checks that a printed patch parses to itself in every dialect, without a note.
    #[test]
    fn parse_print_parse_is_identity((dialect, patch, printed) in printed(), cuts in cuts()) {
        let (found, read) = in_pieces(&printed, &cuts);
        prop_assert_eq!(found, Some(dialect));
        prop_assert_eq!(read, Ok((patch, vec![])), "{}", printed);
    }

    #[test]
    fn parses_random_lines_of_every_dialect(input in lines(), cuts in cuts()) {
        holds(&input, &cuts)?;
    }

    #[test]
    fn parses_random_json_objects(input in objects(), cuts in cuts()) {
        holds(&input, &cuts)?;
    }

    #[test]
    fn damaged_patches_never_panic((_, _, printed) in printed(), damage in prop::collection::vec(damage(), 1..5), cuts in cuts()) {
        holds(&damage.iter().fold(printed, |input, damage| damaged(&input, damage)), &cuts)?;
    }

    #[test]
    fn no_input_panics(
        input in "\\PC{0,80}|[\\[\\]#+:@<>$*=.\\-\n\r0-9a-zPUTCRM¶↑↓{}\",]{0,80}|[{\\[][\\[\\]{}\":,a-z0-9\n ]{0,60}",
        cuts in cuts(),
    ) {
        holds(&input, &cuts)?;
    }
}

/// Parses byte by byte; quadratic time would take minutes for a MiB.
#[track_caller]
fn is_read_in_time(name: &str, input: &str, good: bool) {
    let started = Instant::now();
    let mut parser = Parser::new();
    let mut start = 0;
    for (at, _) in input.char_indices().skip(1) {
        parser.push(&input[start..at]);
        start = at;
    }
    parser.push(&input[start..]);
    let read = parser.finish();
    assert_eq!(read.is_ok(), good, "{name}: {:?}", read.map(|_| ()));
    let took = started.elapsed();
    assert!(took < Duration::from_secs(90), "{name}: {took:?} for {} bytes", input.len());
}

/// Builds `head` and `tail` with as many pieces between them as give `bytes`.
fn filled(bytes: usize, head: &str, piece: &str, tail: &str) -> String {
    format!("{head}{}{tail}", piece.repeat(bytes / piece.len()))
}

#[test]
fn ten_megabytes_parse_in_linear_time() {
    let edit = "\"a row of some text\", ";
    let head = "{\"path\": \"a\", \"tag\": \"3F2A\", \"edits\": [{\"op\": \"append\", \"lines\": [";
    is_read_in_time("put", &filled(10 << 20, "[a#3F2A]\nPUT 2:\n", "+a row of some text\n", ""), true);
    is_read_in_time("arrow", &filled(10 << 20, "¶a#3f2a\n2:\n", "+a row of some text\n", ""), true);
    is_read_in_time("json", &filled(10 << 20, head, edit, "\"\"]}]}"), true);
}

#[test]
fn no_form_takes_more_than_linear_time() {
    const BYTES: usize = 1 << 20;
    let fill = |head: &str, piece: &str, tail: &str| filled(BYTES, head, piece, tail);
    let sections = |before: &str, after: &str| -> String {
        (0..BYTES / 24).map(|file| format!("{before}{file}#3F2A{after}")).collect()
    };
    let edit = r#"{"op": "append", "pos": "2", "lines": ["x"]},"#;
    let edits = fill("{\"path\": \"a\", \"tag\": \"3F2A\", \"edits\": [\n", edit, edit.trim_end_matches(','));
    for (name, input, good) in [
        ("operations", fill("[a#3F2A]\n", "CUT 2-4\n", ""), true),
        ("arrow operations", fill("¶a#3f2a\n", "2..4:text\n", ""), true),
        ("json edits", edits + "]}", true),
        ("sections", sections("[", "]\nCUT 2\n"), true),
        ("arrow sections", sections("¶", "\n2!\n"), true),
        ("sections of one file", fill("", "[a#3F2A]\nCUT 2\n", ""), true),
        ("one row", fill("[a#3F2A]\nPUT 2:\n+", "x", "\n"), true),
        ("one path", fill("[", "./ ", "a#3F2A]\nCUT 1"), true),
        ("path of parents", fill("[", "a/../ /", "a#3F2A]\nCUT 1"), true),
        ("path of parents at the end", fill("[a", "/b", "") + &fill("", "/.. /", "#3F2A]\nCUT 1"), true),
        ("blank lines", fill("[a#3F2A]\nPUT 2:\n+x\n", "\n", ""), true),
        ("digits", fill("[a#3F2A]\nCUT ", "2", ""), false),
        ("fences", fill("", "```\n", ""), false),
        ("brackets", fill("", "[", ""), false),
        ("nesting", fill("{\"path\": \"a\", \"edits\": ", "[", ""), false),
    ] {
        is_read_in_time(name, &input, good);
    }
}
