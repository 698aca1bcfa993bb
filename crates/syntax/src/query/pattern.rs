//! Queries over trees: the constructs that a pattern file names, in order.
//!
//! The patterns are data: `patterns/<language>.tests.scm` finds tests, the groups around them, and
//! the constructs that hide either.

use std::ops::Range;
use std::sync::LazyLock;

use tree_sitter::{QueryCursor, StreamingIterator};

use crate::{Language, Tree};

/// A compiled pattern file.
pub struct Query(tree_sitter::Query);

/// One match of a query: the captured ranges by the names of their captures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryMatch {
    captures: Vec<(&'static str, Range<usize>)>,
}

impl QueryMatch {
    /// The first range captured as `name`.
    pub fn get(&self, name: &str) -> Option<Range<usize>> {
        self.all(name).next()
    }

    /// All ranges captured as `name`, in order of place.
    pub fn all(&self, name: &str) -> impl Iterator<Item = Range<usize>> {
        self.captures.iter().filter(move |(capture, _)| *capture == name).map(|(_, range)| range.clone())
    }
}

impl Query {
    /// The query for tests; `None` for languages without one.
    pub fn tests(language: Language) -> Option<&'static Self> {
        macro_rules! query {
            ($language:ident, $file:literal) => {{
                static QUERY: LazyLock<Option<Query>> =
                    LazyLock::new(|| Query::compile(Language::$language, include_str!($file)));
                QUERY.as_ref()
            }};
        }
        match language {
            Language::Go => query!(Go, "patterns/go.tests.scm"),
            Language::JavaScript => query!(JavaScript, "patterns/javascript.tests.scm"),
            Language::Python => query!(Python, "patterns/python.tests.scm"),
            Language::Rust => query!(Rust, "patterns/rust.tests.scm"),
            Language::Tsx => query!(Tsx, "patterns/javascript.tests.scm"),
            Language::TypeScript => query!(TypeScript, "patterns/javascript.tests.scm"),
            _ => None,
        }
    }

    fn compile(language: Language, patterns: &str) -> Option<Self> {
        // The patterns are part of this crate: a test compiles each.
        tree_sitter::Query::new(&language.grammar(), patterns).ok().map(Self)
    }
}

impl Tree {
    /// The matches of `query` in order of place. `text` must be the tree's own.
    pub fn matches(&self, query: &'static Query, text: &str) -> Vec<QueryMatch> {
        let names = query.0.capture_names();
        let mut cursor = QueryCursor::new();
        let mut matches = cursor.matches(&query.0, self.tree.root_node(), text.as_bytes());
        let mut found = Vec::new();
        while let Some(one) = matches.next() {
            let captures = one
                .captures()
                .iter()
                .map(|capture| (names[capture.index as usize], capture.node.byte_range()));
            found.push(QueryMatch { captures: captures.collect() });
        }
        found.sort_by_key(|one| one.captures.first().map_or(0, |(_, range)| range.start));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stop;

    fn captured(language: Language, text: &str, name: &str) -> Vec<String> {
        let query = Query::tests(language).expect("the patterns compile");
        let tree = Tree::parse(language, text, Stop::NEVER).unwrap();
        let mut found: Vec<String> = Vec::new();
        for range in tree.matches(query, text).iter().flat_map(|one| one.all(name).collect::<Vec<_>>()) {
            let text = text[range].to_owned();
            if !found.contains(&text) {
                found.push(text);
            }
        }
        found
    }

    #[test]
    fn finds_tests_of_rust_by_their_attributes() {
        let text = "#[test]\n#[should_panic(\n    expected = \"x\"\n)]\n/// Says so.\nfn a() {}\n#[rstest]\n#[case(1)]\nfn b(#[case] n: i32) {}\n\
            #[tokio::test]\nasync fn c() {}\n#[inline]\nfn no() {}\n#[cfg(test)]\nfn no2() {}\n#[cfg(test)] #[test] fn d() {}\n\
            #[cfg_attr(not(any(a, b)), ignore, test)]\nfn e() {}\n#[cfg_attr(test, inline)]\nfn no3() {}\n\
            #[allow(unused, reason = \"only a test uses it\")]\nfn no4() {}\n#[test]\nfn f() {}\nfn no5() {}\n\
            proptest! {\n    #[test]\n    fn g(n in 0..9) {}\n    fn no6() {}\n}\nmod m {\n    #[test_log::test]\n    fn h() {}\n}\n";
        assert_eq!(captured(Language::Rust, text, "name"), ["a", "b", "c", "d", "e", "f", "g", "m", "h"]);
        assert_eq!(captured(Language::Rust, text, "fails").len(), 1);
    }

    #[test]
    fn finds_tests_and_classes_of_python() {
        let text = "class A(B, m.TestCase, metaclass=M):\n    def test_a(self): pass\n    def helper(self): pass\n\
            @pytest.mark.xfail\nasync def test_b(): pass\n@unittest.expectedFailure\nclass C(Generic[T]): pass\n";
        assert_eq!(captured(Language::Python, text, "name"), ["A", "test_a", "test_b", "C"]);
        assert_eq!(captured(Language::Python, text, "base"), ["B", "TestCase", "Generic"]);
        assert_eq!(captured(Language::Python, text, "fails").len(), 2);
    }

    #[test]
    fn finds_tests_of_go() {
        let text = "package a\nfunc TestA(t *testing.T) {}\nfunc add() {}\nfunc ExampleB() {}\n";
        assert_eq!(captured(Language::Go, text, "name"), ["TestA", "ExampleB"]);
    }

    #[test]
    fn finds_tests_of_javascript_by_their_calls() {
        for (text, title) in [
            ("test('adds (twice)', () => {});", "'adds (twice)'"),
            ("test(\n  \"own line\",\n  () => {});", "\"own line\""),
            ("it.only(`so`, () => {});", "`so`"),
            ("await t.test('inner', () => {});", "'inner'"),
            ("test.skipIf(process.platform === 'win32')('here', () => {});", "'here'"),
            ("test.each([\n  [1, ')'],\n])('of %i', (a) => {});", "'of %i'"),
            ("it.each`\n  a | b\n  ${1} | ${2}\n`('$a of $b', ({ a }) => {});", "'$a of $b'"),
            ("test('of ' + name, () => {});", "'of ' + name"),
            ("test.todo('later');", "'later'"),
            ("for (const k of [')', '2']) it(`case ${k}`, () => {});", "`case ${k}`"),
            ("['a'].forEach((k) => it(`of ${k}`, () => {}));", "`of ${k}`"),
            ("describe.each([1])('of %i', (n) => {});", "'of %i'"),
        ] {
            for language in [Language::JavaScript, Language::TypeScript, Language::Tsx] {
                assert_eq!(captured(language, text, "title"), [title], "{text}");
            }
        }
        for text in ["pattern.test('inner')", "testing('no', 1)", "test(name, () => {});"] {
            assert!(captured(Language::JavaScript, text, "title").is_empty(), "{text}");
        }
    }
}
