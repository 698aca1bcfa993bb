//! The language rules of `CONTRIBUTING.md`: refused words, sentence starts, doc lines, test names.

use std::sync::OnceLock;

/// The refused words with their replacements.
pub(super) const WORDS: &str = include_str!("words.txt");

const WORDS_FILE: &str = "crates/xtask/src/tidy/words.txt";

/// File name endings whose text follows the rules.
const TEXTS: [&str; 7] = [".rs", ".md", ".toml", ".lua", ".ts", ".txt", ".json"];

/// Longest first line of a doc comment, in characters.
const DOC_LINE: usize = 80;

/// Longest name of a test.
const TEST_NAME: usize = 60;

/// Expressions of tests that return the text of a file.
const FILE_TEXTS: [&str; 4] = [".read(", ".text(", ".new_text", ".outcome("];

/// The list of refused words.
pub(super) struct Words {
    refused: Vec<Refused>,
}

struct Refused {
    /// Phrase in lower case, with one space between words.
    phrase: String,
    instead: String,
    allowed: Vec<String>,
}

impl Words {
    /// Reads `phrase = term [| path, …]` lines; blank lines and `#` lines are skipped.
    pub(super) fn parse(list: &str) -> Words {
        let line = |line: &str| -> Option<Refused> {
            let (phrase, rest) = line.split_once(" = ")?;
            let (instead, allowed) = rest.split_once(" | ").unwrap_or((rest, ""));
            let allowed = allowed.split(", ").filter(|path| !path.is_empty()).map(str::to_owned).collect();
            Some(Refused { phrase: phrase.trim().to_owned(), instead: instead.trim().to_owned(), allowed })
        };
        let lines = list.lines().filter(|line| !line.starts_with('#'));
        Words { refused: lines.filter_map(line).collect() }
    }

    /// The refused words in a file, one problem for each line.
    pub(super) fn check(&self, path: &str, text: &str) -> Vec<String> {
        if path == WORDS_FILE || !TEXTS.iter().any(|ending| path.ends_with(ending)) {
            return Vec::new();
        }
        let refused: Vec<&Refused> =
            self.refused.iter().filter(|word| !word.allowed.iter().any(|at| path.starts_with(at))).collect();
        let mut problems = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let words = split_words(line);
            if let Some(word) = refused.iter().find(|word| words.contains(&format!(" {} ", word.phrase))) {
                let Refused { phrase, instead, .. } = word;
                problems.push(format!("{path}:{}: `{phrase}`: write {instead}", index + 1));
            }
        }
        problems
    }
}

/// Words of a line in lower case, with a space before and after each.
///
/// Splits identifiers.
fn split_words(line: &str) -> String {
    let mut words = String::with_capacity(line.len() + 16);
    words.push(' ');
    let mut was_lower = false;
    for c in line.chars() {
        if c.is_alphabetic() {
            if c.is_uppercase() && was_lower {
                words.push(' ');
            }
            words.extend(c.to_lowercase());
        } else if !words.ends_with(' ') {
            words.push(' ');
        }
        was_lower = c.is_lowercase();
    }
    words.push(' ');
    words
}

/// Breaches of the rules for comments, doc comments and test names in a Rust file.
pub(super) fn check(path: &str, text: &str) -> Vec<String> {
    if !path.ends_with(".rs") {
        return Vec::new();
    }
    let mut problems = Vec::new();
    let mut previous = "";
    let mut is_test = false;
    for (index, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line.trim())) {
        if let Some(doc) = line.strip_prefix("/// ").filter(|_| !previous.starts_with("///")) {
            let length = doc.chars().count();
            if length > DOC_LINE {
                problems.push(format!(
                    "{path}:{index}: the first line of a doc comment has {length} characters, more than {DOC_LINE}"
                ));
            }
        }
        if let Some(word) = comment_text(line).and_then(refused_start) {
            problems.push(format!("{path}:{index}: a sentence begins with `{word}`; name the subject"));
        }
        if is_test && let Some(name) = function_name(line) {
            is_test = false;
            if name.len() > TEST_NAME {
                problems.push(format!(
                    "{path}:{index}: the test name has more than {TEST_NAME} characters: {name}"
                ));
            }
        }
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        previous = line;
    }
    problems
}

/// The assertions in a file's tests that match three or more words by `contains`.
///
/// Snapshots and codes leave the wording free.
pub(super) fn check_prose(path: &str, text: &str) -> Vec<String> {
    static PROSE: OnceLock<regex::Regex> = OnceLock::new();
    let prose = PROSE.get_or_init(|| {
        regex::Regex::new(r#"(\S*)\.contains\("[^"]* [^"]* [^"]*"\)"#).expect("the pattern is constant")
    });
    let is_test = path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("tests.rs");
    let tests = if is_test { Some(text) } else { text.find("#[cfg(test)]").map(|at| &text[at..]) };
    let Some(tests) = tests.filter(|_| path.ends_with(".rs")) else { return Vec::new() };
    // `!text.contains(…)` checks that something is absent, and the text of a file is not prose.
    let is_prose = |receiver: &str| {
        !receiver.rsplit('(').next().unwrap_or(receiver).starts_with('!')
            && !FILE_TEXTS.iter().any(|text| receiver.contains(text))
    };
    let is_asserted = |at: usize| {
        let statement = tests[..at].rfind([';', '{', '}']).map_or(0, |end| end + 1);
        tests[statement..at].contains("assert")
    };
    let first = text.len() - tests.len();
    prose
        .captures_iter(tests)
        .map(|found| (found.get(0).expect("the whole match").start(), found))
        .filter(|(at, found)| is_prose(&found[1]) && is_asserted(at + found[1].len()))
        .map(|(at, _)| {
            let line = text[..first + at].matches('\n').count() + 1;
            format!(
                "{path}:{line}: an assertion matches prose by `contains`; use a snapshot, a code or a field"
            )
        })
        .collect()
}

fn comment_text(line: &str) -> Option<&str> {
    let text = line.strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim_start())
}

/// The refused word at a sentence start of this comment line.
///
/// `None` for a question.
fn refused_start(comment: &str) -> Option<&'static str> {
    static SENTENCE: OnceLock<regex::Regex> = OnceLock::new();
    let sentence = SENTENCE.get_or_init(|| {
        regex::Regex::new(r"(?:^|[.!] )(What|Who|Whose|Of) [a-zA-Z`]").expect("the pattern is constant")
    });
    let word = sentence.captures(comment).filter(|_| !comment.contains('?'))?.get(1)?;
    ["What", "Whose", "Who", "Of"].into_iter().find(|known| *known == word.as_str())
}

fn function_name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ").unwrap_or(line);
    let rest = rest.strip_prefix("async ").unwrap_or(rest).strip_prefix("fn ")?;
    rest.split('(').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_words_are_found_in_identifiers_and_text() {
        let words = Words::parse("# a list\nold word = new\nbad = good | docs/, a.md\n");
        let problems = |path: &str, text: &str| words.check(path, text);
        assert_eq!(
            problems("x.rs", "let a_bad_name = 1;\nlet badge = isBad();"),
            ["x.rs:1: `bad`: write good", "x.rs:2: `bad`: write good",]
        );
        assert_eq!(problems("x.rs", "/// An old word."), ["x.rs:1: `old word`: write new"]);
        assert_eq!(problems("docs/a.md", "bad"), [""; 0]);
        assert_eq!(problems("x.rs", "let badge = rabbad; // gold words"), [""; 0]);
        assert!(Words::parse(WORDS).refused.len() > 20);
    }

    #[test]
    fn sentence_starts_are_found_in_comments() {
        let rules = |text: &str| check("x.rs", text).len();
        assert_eq!(rules("// What is it?\n/// Whatever works.\nlet what = 1;\n"), 0);
        assert_eq!(rules("// What it has.\n/// Waits. Of two one goes.\n//! Who asks.\n"), 3);
    }

    #[test]
    fn assertions_of_prose_are_found() {
        let code = r#"
            assert!(text.has("one two three") && !text.has("four five six"));
            assert!(!text.has("a b c") && sandbox.read("a").has("a b c"));
            let retries = text.has("a b c");
            assert!(text.has("a.py:3"));
        "#;
        // The word is not spelled out, because this file is checked too.
        let code = &code.replace("has(", "contains(");
        let found = |path: &str, code: &str| check_prose(path, code).len();
        assert_eq!(found("tests/e2e/a.rs", code), 1);
        assert_eq!(found("crates/a/src/lib.rs", code), 0);
        assert_eq!(found("crates/a/src/lib.rs", &format!("#[cfg(test)]{code}")), 1);
    }

    #[test]
    fn long_doc_lines_and_test_names_are_found() {
        let long = "x".repeat(81);
        let rules = |text: &str| check("x.rs", text).len();
        assert_eq!(rules(&format!("/// {long}\n/// {long}\nfn a() {{}}\n")), 1);
        assert_eq!(rules(&format!("#[test]\nfn {long}() {{}}\n")), 1);
        assert_eq!(rules(&format!("fn {long}() {{}}\n")), 0);
    }
}
