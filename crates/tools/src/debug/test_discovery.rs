//! Tests and groups in a source file, and requests for one by name.
//!
//! Pure. The tree-sitter queries of `syntax` find them; if a runner lists its tests, the list decides.

use std::cmp::Reverse;
use std::ops::Range;
use std::path::Path;

use syntax::{Language, Query, Stop, Tree};

/// The tests and groups of a file, in order of place.
#[derive(Debug)]
pub(super) struct TestFile {
    pub language: Language,
    pub items: Vec<TestItem>,
}

/// A test, or a group of tests: a class, a module, a `describe`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestItem {
    pub name: Name,
    pub is_group: bool,
    /// Enclosing groups and tests, outermost first.
    pub outer: Vec<OuterItem>,
    /// Line of the name or call, from 1.
    pub line: u64,
    /// Last line, from 1.
    pub end_line: u64,
    /// Whether the test is marked as expected to fail.
    pub expects_failure: bool,
    /// The names of a class's bases.
    pub bases: Vec<String>,
}

/// A group or test around a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OuterItem {
    /// `None` for a function that may define groups.
    pub name: Option<Name>,
    pub is_group: bool,
}

/// A construct that may contain tests.
struct Scope {
    range: Range<usize>,
    /// `None` for a function that may define groups.
    item: Option<TestItem>,
}

impl TestFile {
    /// Parses the tests of a file; `None` for a language without a query for tests.
    pub(super) fn parse(path: &Path, text: &str) -> Option<Self> {
        let language = Language::of(&path.to_string_lossy(), text)?;
        let query = Query::tests(language)?;
        let scopes = Tree::parse(language, text, Stop::NEVER).map(|tree| scopes(&tree, query, text));
        let mut open: Vec<Scope> = Vec::new();
        let mut items = Vec::new();
        for scope in scopes.unwrap_or_default() {
            while open.last().is_some_and(|outer| outer.range.end < scope.range.end) {
                open.pop();
            }
            if let Some(mut item) = scope.item.clone() {
                item.outer = open.iter().filter_map(|scope| scope.as_outer(language)).collect();
                items.push(item);
            }
            open.push(scope);
        }
        Some(Self { language, items })
    }

    /// Finds the innermost test whose lines hold `line`.
    pub(super) fn test_at(&self, line: u64) -> Option<&TestItem> {
        let holds = |item: &&TestItem| !item.is_group && item.line <= line && line <= item.end_line;
        self.items.iter().rfind(holds)
    }

    /// Finds the test at `line`, else the last before it.
    pub(super) fn test_before(&self, line: u64) -> Option<&TestItem> {
        self.test_at(line).or_else(|| self.items.iter().rfind(|item| !item.is_group && item.line <= line))
    }
}

impl Scope {
    fn as_outer(&self, language: Language) -> Option<OuterItem> {
        match &self.item {
            Some(item) if item.is_group || is_javascript(language) => {
                Some(OuterItem { name: Some(item.name.clone()), is_group: item.is_group })
            }
            Some(_) => None,
            None => Some(OuterItem { name: None, is_group: true }),
        }
    }
}

impl TestItem {
    /// Lists the known names of the enclosing groups and tests.
    pub(super) fn outer_names(&self) -> Vec<String> {
        self.outer.iter().filter_map(|outer| Some(outer.name.as_ref()?.render())).collect()
    }

    /// Lists the titles from the outermost to its own.
    pub(super) fn path(&self) -> Vec<String> {
        let mut path = self.outer_names();
        path.push(self.name.render());
        path
    }
}

pub(super) fn is_javascript(language: Language) -> bool {
    matches!(language, Language::JavaScript | Language::TypeScript | Language::Tsx)
}

/// Lists the scopes that the query finds, outer ones first.
fn scopes(tree: &Tree, query: &'static Query, text: &str) -> Vec<Scope> {
    let line_starts: Vec<usize> =
        std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let line = |at: usize| line_starts.partition_point(|start| *start <= at) as u64;
    let matches = tree.matches(query, text);
    let ranges = |name: &'static str| matches.iter().filter_map(move |found| found.get(name));
    let failing: Vec<Range<usize>> = ranges("fails").collect();
    let heirs: Vec<(Range<usize>, Range<usize>)> =
        matches.iter().filter_map(|found| Some((found.get("heir")?, found.get("base")?))).collect();
    let mut scopes: Vec<Scope> = Vec::new();
    for found in &matches {
        let (group, test) = (found.get("group"), found.get("test"));
        let is_group = group.is_some();
        let Some(range) = group.or(test) else { continue };
        // Each attribute of a test is a separate match.
        if scopes.iter().rev().take(8).any(|known| known.range == range) {
            continue;
        }
        let name = match (found.get("title"), found.get("name")) {
            (Some(title), _) => Name::of_title(&text[title.clone()], &text[range.start..title.start]),
            (None, Some(name)) => Name(vec![text[name].to_owned()]),
            (None, None) => continue,
        };
        let bases = heirs.iter().filter(|(class, _)| *class == range);
        let item = TestItem {
            name,
            is_group,
            outer: Vec::new(),
            line: line(range.start),
            end_line: line(range.end),
            expects_failure: failing.iter().any(|fails| fails.start <= range.start && range.end <= fails.end),
            bases: bases.map(|(_, base)| text[base.clone()].to_owned()).collect(),
        };
        scopes.push(Scope { range, item: Some(item) });
    }
    // A callback of a known call or of a loop defines no groups.
    let mut calls: Vec<usize> = scopes.iter().map(|scope| scope.range.start).collect();
    calls.sort_unstable();
    let is_plain = |caller: Range<usize>| {
        calls.binary_search(&caller.start).is_ok()
            || [".forEach", ".map", ".flatMap"].iter().any(|name| text[caller.clone()].ends_with(name))
    };
    let callback =
        |found: &syntax::QueryMatch| is_plain(found.get("caller")?).then(|| found.get("callback"))?;
    let mut plain: Vec<usize> = matches.iter().filter_map(|found| Some(callback(found)?.start)).collect();
    plain.sort_unstable();
    let functions = ranges("function").filter(|range| plain.binary_search(&range.start).is_err());
    scopes.extend(functions.map(|range| Scope { range, item: None }));
    scopes.sort_by_key(|scope| (scope.range.start, Reverse(scope.range.end)));
    scopes
}

/// The name of a test or group.
///
/// It consists of literal pieces with a parameter between each two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name(Vec<String>);

impl Name {
    /// Parses the name in the title literal of a call of `callee`.
    fn of_title(literal: &str, callee: &str) -> Self {
        let Some((text, end)) = quoted(literal) else { return Self(vec![String::new(); 2]) };
        let has_cases = callee.contains(".each") || callee.contains(".for");
        let mut pieces = pieces(&text, has_cases, literal.starts_with('`'));
        // `'of ' + name`
        if end < literal.len() {
            pieces.push(String::new());
        }
        Self(pieces)
    }

    /// Renders the name with `…` for parameters.
    pub(super) fn render(&self) -> String {
        self.0.join("…")
    }

    /// Builds a regular expression for the name.
    pub(super) fn pattern(&self) -> String {
        self.0.iter().map(|it| escaped(it)).collect::<Vec<_>>().join(".*")
    }

    /// Whether a text may end with the name.
    pub(super) fn may_end(&self, text: &str) -> bool {
        self.render() == text || self.0.last().is_some_and(|it| text.ends_with(it.as_str()))
    }

    /// Whether the name has no parameters.
    pub(super) fn is_whole(&self) -> bool {
        self.0.len() == 1
    }

    /// Joins the name with an inner name, with `between` in the middle.
    pub(super) fn joined(&self, between: &str, inner: &Self) -> Self {
        let mut pieces = self.0.clone();
        let (first, rest) = inner.0.split_first().map_or(("", &[][..]), |(it, rest)| (it.as_str(), rest));
        pieces.last_mut().into_iter().for_each(|it| *it = format!("{it}{between}{first}"));
        pieces.extend_from_slice(rest);
        Self(pieces)
    }

    /// Whether a text may be one of the names.
    ///
    /// A name that consists of parameters matches only itself.
    pub(super) fn fits(&self, text: &str) -> bool {
        if self.render() == text {
            return true;
        }
        if self.0.iter().all(|it| it.trim().is_empty()) {
            return false;
        }
        self.values(text).is_some()
    }

    /// Extracts the values of the parameters from a text.
    pub(super) fn values(&self, text: &str) -> Option<Vec<String>> {
        let [first, middle @ .., last] = self.0.as_slice() else {
            return self.0.first().filter(|it| *it == text).map(|_| Vec::new());
        };
        let mut rest = text.strip_prefix(first.as_str())?.strip_suffix(last.as_str())?;
        let mut values = Vec::new();
        for piece in middle {
            let (value, after) = rest.split_once(piece.as_str())?;
            values.push(value.to_owned());
            rest = after;
        }
        values.push(rest.to_owned());
        Some(values)
    }

    /// Replaces the parameters by these values.
    pub(super) fn filled(&self, values: &mut impl Iterator<Item = String>) -> String {
        let (first, rest) = self.0.split_first().map_or(("", &[][..]), |(it, rest)| (it.as_str(), rest));
        rest.iter().fold(first.to_owned(), |text, piece| {
            format!("{text}{}{piece}", values.next().unwrap_or_default())
        })
    }
}

fn identifier(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| &text[..end])
}

/// Parses the string literal at the start of a text; returns its value and end.
fn quoted(text: &str) -> Option<(String, usize)> {
    let quote = text.chars().next().filter(|c| "'\"`".contains(*c))?;
    let mut found = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => match characters.next()?.1 {
                'n' => found.push('\n'),
                't' => found.push('\t'),
                '\n' => {}
                other => found.push(other),
            },
            _ if c == quote => return Some((found, at + 1)),
            '\n' if quote != '`' => return None,
            _ => found.push(c),
        }
    }
    None
}

/// Splits a title into its literal pieces.
///
/// The parameters are `%i` and `$name` of cases, and `${…}` of a template.
fn pieces(title: &str, cases: bool, template: bool) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut rest = title;
    while let Some(c) = rest.chars().next() {
        let word = |text: &str| identifier(text).map_or(0, str::len);
        let skipped = match c {
            '$' if template && rest[1..].starts_with('{') => rest.find('}').map(|it| it + 1),
            '%' if cases && rest[1..].starts_with('%') => {
                rest = &rest[1..];
                None
            }
            '%' if cases => rest[1..].chars().next().filter(|c| "sdifjopc#$".contains(*c)).map(|_| 2),
            '$' if cases && rest[1..].starts_with('#') => Some(2),
            '$' if cases && word(&rest[1..]) > 0 => {
                let mut end = 1 + word(&rest[1..]);
                while rest[end..].starts_with('.') && word(&rest[end + 1..]) > 0 {
                    end += 1 + word(&rest[end + 1..]);
                }
                Some(end)
            }
            _ => None,
        };
        match skipped {
            Some(end) => {
                pieces.push(String::new());
                rest = &rest[end..];
            }
            None => {
                pieces.last_mut().into_iter().for_each(|it| it.push(c));
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    pieces
}

/// Escapes a text for a regular expression.
pub(super) fn escaped(text: &str) -> String {
    let special = |c: char| "\\^$.|?*+()[]{}/".contains(c);
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

/// A request for a test, in the notation of users and runners.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TestRequest {
    /// The whole text, which is the title of a JavaScript test.
    pub text: String,
    /// File with which the request begins, such as `tests/test_a.py`.
    pub file: Option<String>,
    /// Classes or modules, outermost first.
    pub within: Vec<String>,
    pub name: String,
    /// The requested case, such as `[2-x]` of pytest or `/two` of Go.
    pub case: String,
}

impl TestRequest {
    /// Parses a request for a test.
    ///
    /// Examples are `Class::name`, `module::name`, `Class.name[2-x]`, `TestAdd/two`, `name` and
    /// `tests/test_a.py::Class::name`.
    pub(super) fn read(text: &str) -> Self {
        let mut request = Self { text: text.to_owned(), ..Self::default() };
        let mut rest = text;
        if let Some((file, after)) = rest.split_once(".py::") {
            request.file = Some(format!("{file}.py"));
            rest = after;
        }
        let cases = match rest.find(['[', '/']) {
            Some(at) if rest[at..].starts_with('[') && rest.ends_with(']') => Some(at),
            Some(at) if rest[at..].starts_with('/') && request.file.is_none() => Some(at),
            _ => None,
        };
        if let Some(at) = cases.filter(|at| !rest[..*at].contains(' ')) {
            request.case = rest[at..].to_owned();
            rest = &rest[..at];
        }
        if !rest.contains(' ') {
            request.within = rest.split("::").flat_map(|it| it.split('.')).map(str::to_owned).collect();
        }
        request.name = request.within.pop().unwrap_or_else(|| rest.to_owned());
        request
    }

    /// Reads the last name as a case of the one before: `adds::case_2` of Rust.
    pub(super) fn of_cases(&self) -> Option<Self> {
        let mut other = self.clone();
        other.name = other.within.pop()?;
        other.case = format!("::{}", self.name);
        Some(other)
    }

    /// Whether the request may refer to a test of this file.
    ///
    /// The path must end with the requested file.
    pub(super) fn may_be_of(&self, path: &Path) -> bool {
        let file = self.file.as_deref().map(|file| file.strip_prefix("./").unwrap_or(file));
        file.is_none_or(|file| path.ends_with(file))
    }

    /// Whether the request may refer to a test within these.
    pub(super) fn may_be_in(&self, within: &[String]) -> bool {
        self.within.iter().rev().zip(within.iter().rev()).all(|(requested, actual)| requested == actual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str, text: &str) -> TestFile {
        TestFile::parse(Path::new(name), text).unwrap()
    }

    fn last_test(name: &str, text: &str) -> TestItem {
        parsed(name, text).items.into_iter().rfind(|item| !item.is_group).unwrap()
    }

    #[test]
    fn titles_keep_their_parameters_open() {
        for (text, name) in [
            (r"test('it\'s one', () => {});", "it's one"),
            ("test.each([1])('of %i is %s (100%%)', (a, b) => {});", "of … is … (100%)"),
            ("it.each`\n  a | b\n  ${1} | ${2}\n`('$a of $b.deep', ({ a, b }) => {});", "… of …"),
            ("test(`of ${name}`, () => {});", "of …"),
            ("test('of ' + name, () => {});", "of …"),
            ("a.map(x => b.map(y => test(`of ${x}`, () => {})));", "of …"),
        ] {
            assert_eq!(last_test("a.js", text).name.render(), name, "{text}");
        }
    }

    #[test]
    fn tests_are_in_classes_modules_and_groups() {
        let check = |file: &str, text: &str, expected: &[&str]| {
            assert_eq!(last_test(file, text).outer_names(), expected, "{text}");
        };
        let text = "class TestA(TestCase):\n    def test_text(self):\n        x = \'\'\'\nif so\n\'\'\'\n\n    class TestB:\n        def test_a(self): ...";
        check("a.py", text, &["TestA", "TestB"]);
        check("a.py", "class A:\n    def f(self): ...\ndef test_b(): ...", &[]);
        check("a.py", "class A:\n    x = 1\nif so:\n    def test_b(): ...", &[]);
        let text = "mod a {\n    fn x() {}\n}\n\n#[cfg(test)]\nmod tests {\n    mod deep {\n        #[test]\n        fn b() {}\n}}";
        check("a.rs", text, &["tests", "deep"]);
        let text = "describe('cart', () => {\n  describe('empty', () => {\n    test('x', () => {});\n  });\n\n  describe('full', () => {\n    test('adds', () => {});\n});});";
        check("a.js", text, &["cart", "full"]);
        let text = "test('outer', async (t) => {\n  for (const n of [1]) {\n    await t.test('inner', () => {});\n}});";
        check("a.js", text, &["outer"]);
        check("a.js", "test('one', () => {});\nfor (const n of [1]) {\n  test('x', () => {});\n}", &[]);
        check(
            "a.js",
            "describe.each([\n  [1],\n])('of %i', (n) => {\n  test('x', () => {});\n});",
            &["of …"],
        );
        check(
            "a.js",
            "[1].forEach((n) => describe(`of ${n}`, () => {\n  test('x', () => {});\n}));",
            &["of …"],
        );
        let text = "function all(make) {\n  test('x', () => {});\n}";
        assert_eq!(last_test("a.js", text).outer, [OuterItem { name: None, is_group: true }]);
    }

    #[test]
    fn a_line_is_in_the_innermost_test_around_it() {
        let text = "test('outer', async (t) => {\n  await t.test('inner', () => {\n    f(')');\n  });\n  assert(1);\n});\n\
                    function f() {\n  h();\n}\n";
        let file = parsed("a.js", text);
        let at = |line: u64| file.test_at(line).map(|item| item.name.render());
        let found: Vec<_> = (1..=7).map(|line| at(line).unwrap_or_default()).collect();
        assert_eq!(found, ["outer", "inner", "inner", "inner", "outer", "outer", ""]);
        assert_eq!(file.test_before(8).map(|item| item.name.render()).as_deref(), Some("inner"));
    }

    #[test]
    fn a_file_of_very_many_tests_is_read_in_time() {
        let text = "test('a', () => {\n  f();\n});\n".repeat(5_000) + "g();\n";
        let file = parsed("a.js", &text);
        assert_eq!((file.items.len(), file.test_at(15_001)), (5_000, None));
    }

    #[test]
    fn a_case_matches_the_title_with_parameters() {
        let name = Name(pieces("add(%i, %i) -> %i", true, false));
        assert!(name.fits("add(1, 2) -> 3") && name.fits("add(…, …) -> …") && !name.fits("sub(1, 2) -> 3"));
        assert_eq!(name.pattern(), "add\\(.*, .*\\) -> .*");
        assert!(Name(vec!["a".to_owned()]).fits("a") && !Name(vec!["a".to_owned()]).fits("aa"));
        assert_eq!(name.values("add(1, 2) -> 3").unwrap(), ["1", "2", "3"]);
        assert_eq!(name.filled(&mut ["1".to_owned(), "2".to_owned()].into_iter()), "add(1, 2) -> ");
        // A title of parameters only matches no other name.
        for title in ["%s", "$a $b"] {
            let name = Name(pieces(title, true, false));
            assert!(!name.fits("x y") && name.fits(&name.render()), "{title}");
        }
    }

    #[test]
    fn requests_are_read_in_the_notation_of_runners() {
        let check = |text: &str, file: Option<&str>, within: &[&str], name: &str, case: &str| {
            let asked = TestRequest::read(text);
            assert_eq!(asked.file.as_deref(), file, "{text}");
            assert_eq!(asked.within, within, "{text}");
            assert_eq!((asked.name.as_str(), asked.case.as_str()), (name, case), "{text}");
        };
        check("Cart::test_a", None, &["Cart"], "test_a", "");
        check("test_sum.TestSum.test_sum", None, &["test_sum", "TestSum"], "test_sum", "");
        check(
            "t/test_a.py::TestB::test_c[1.5-x::y]",
            Some("t/test_a.py"),
            &["TestB"],
            "test_c",
            "[1.5-x::y]",
        );
        check("TestAdd/two_and.two", None, &[], "TestAdd", "/two_and.two");
        check("adds 1.5 [up]", None, &[], "adds 1.5 [up]", "");
        let asked = TestRequest::read("tests::adds::case_2").of_cases().unwrap();
        assert_eq!((asked.name.as_str(), asked.case.as_str()), ("adds", "::case_2"));
        let within = ["a".to_owned(), "tests".to_owned()];
        for (text, is) in [("x", true), ("tests::x", true), ("a::tests::x", true), ("b::tests::x", false)] {
            assert_eq!(TestRequest::read(text).may_be_in(&within), is, "{text}");
        }
        let path = Path::new("/p/sub/tests/test_a.py");
        for (text, is) in [
            ("test_x", true),
            ("tests/test_a.py::test_x", true),
            ("./sub/tests/test_a.py::test_x", true),
            ("/p/sub/tests/test_a.py::test_x", true),
            ("test/test_a.py::test_x", false),
            ("st_a.py::test_x", false),
        ] {
            assert_eq!(TestRequest::read(text).may_be_of(path), is, "{text}");
        }
        assert!(!TestRequest::read("b.py::B::c").of_cases().unwrap().may_be_of(path));
    }
}
