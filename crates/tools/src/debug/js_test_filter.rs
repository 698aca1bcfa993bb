//! Arguments by which JavaScript runners run one test.
//!
//! They are its title and those of its groups. Pure. Invariants: if a runner cannot distinguish the test from
//! others, `Chosen::note` says so.

use super::test_discovery::{Name, OuterItem, TestItem, escaped};

/// First version of Node that matches titles with their groups.
///
/// This version can also skip tests by them.
const BY_GROUPS: (u32, u32) = (22, 1);

const OTHERS: &str = "other tests with this title in the file may run too";

/// The titles of a test or group, and of its groups.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Titles {
    /// The titles in the source, from the outermost to the item's own.
    ///
    /// Empty if the item was not found in the source.
    pub source: Vec<String>,
    /// The title as a regular expression.
    own: String,
    /// Whether the title has parameters with unknown values.
    open: bool,
    around: Vec<Outer>,
    /// Whether the request gives the title in the source, not one of its cases.
    pub literal: bool,
    /// Whether the item is a group, not a test.
    group: bool,
    /// Whether another test in the file has the same title in other groups.
    alike: bool,
    /// Whether another test has the same title in groups of the same titles.
    same: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Outer {
    /// A regular expression; `None` for any number of groups.
    pattern: Option<String>,
    /// Whether the title has parameters with unknown values.
    open: bool,
    shown: String,
    group: bool,
}

/// Arguments for a runner, and a note about tests they cannot distinguish.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Chosen {
    pub words: Vec<String>,
    pub note: Option<String>,
}

impl Titles {
    /// Collects the titles of a test.
    ///
    /// `asked`: the requested title. `alike`: the groups of other tests in the file with the same title.
    pub(super) fn of(item: &TestItem, asked: Option<&str>, alike: &[&[OuterItem]]) -> Self {
        let around = item.outer.as_slice();
        let all: Vec<Option<&Name>> =
            around.iter().map(|it| it.name.as_ref()).chain([Some(&item.name)]).collect();
        let mut patterns: Vec<Option<String>> = all.iter().map(|it| it.map(Name::pattern)).collect();
        // The request may name one of its cases.
        let case = asked.and_then(|asked| {
            let (from, name) = names(item).find(|(_, it)| it.fits(asked))?;
            (name.render() != asked).then_some((from, name.values(asked)?))
        });
        let mut open: Vec<bool> = all.iter().map(|it| it.is_some_and(|it| !it.is_whole())).collect();
        if let Some((from, values)) = case {
            open[from..].fill(false);
            let mut values = values.into_iter();
            for (pattern, name) in patterns[from..].iter_mut().zip(&all[from..]) {
                *pattern = name.map(|it| escaped(&it.filled(&mut values)));
            }
        }
        let own = patterns.pop().flatten().unwrap_or_default();
        let own_open = open.pop().unwrap_or_default();
        let outer = around.iter().zip(patterns).zip(open).map(|((it, pattern), open)| Outer {
            pattern,
            open,
            shown: it.name.as_ref().map(Name::render).unwrap_or_default(),
            group: it.is_group,
        });
        Self {
            source: all.iter().flatten().map(|it| it.render()).collect(),
            own,
            open: own_open,
            around: outer.collect(),
            literal: asked.is_some_and(|it| reads(item, it)),
            group: item.is_group,
            alike: alike.iter().any(|it| *it != around),
            same: alike.contains(&around),
        }
    }

    /// Creates the titles of a requested test that the file does not show.
    pub(super) fn unknown(asked: &str) -> Self {
        let outer = Outer { pattern: None, open: false, shown: String::new(), group: true };
        let own = escaped(&asked.replace(" > ", " ").replace(" › ", " "));
        Self { own, around: vec![outer], ..Self::default() }
    }

    /// Returns arguments for runners that match whole names.
    ///
    /// A name is the titles joined by spaces. A group runs as a whole.
    pub(super) fn name_filter(&self) -> Chosen {
        let end = if self.group { "( |$)" } else { "$" };
        let words = vec!["-t".to_owned(), format!("^{}{}{end}", self.before(), self.own)];
        let any = self.around.iter().any(|it| it.pattern.is_none());
        let others = self.same || (self.alike && any) || self.may_be_several();
        Chosen { words, note: others.then(|| OTHERS.to_owned()) }
    }

    /// Whether other tests may match the titles, since these have parameters.
    fn may_be_several(&self) -> bool {
        self.open || self.around.iter().any(|it| it.open)
    }

    /// Returns a pattern for the titles before the item's own.
    fn before(&self) -> String {
        let prefix = |it: &Outer| it.pattern.as_ref().map_or("(.* )?".to_owned(), |it| format!("{it} "));
        self.around.iter().map(prefix).collect()
    }

    /// Returns the index of the outermost enclosing test.
    fn outer_test(&self) -> Option<usize> {
        self.around.iter().position(|it| !it.group)
    }

    /// Whether the arguments depend on the version of Node.
    pub(super) fn needs_version(&self) -> bool {
        self.alike || self.outer_test().is_some()
    }

    /// Returns arguments for Node's own runner.
    pub(super) fn node_filter(&self, version: Option<(u32, u32)>) -> Chosen {
        let by_groups = version.is_some_and(|it| it >= BY_GROUPS);
        let known = self.around.iter().all(|it| it.pattern.is_some());
        let node = match version {
            Some((major, minor)) => format!("Node {major}.{minor}"),
            None => "Node (unknown version)".to_owned(),
        };
        let same = |several: bool| (self.same || several).then(|| OTHERS.to_owned());
        let by = |pattern: String| vec!["--test-name-pattern".to_owned(), pattern];
        if let Some(at) = self.outer_test() {
            let outer = &self.around[at];
            let title = outer.pattern.clone().unwrap_or_else(|| ".*".to_owned());
            if !by_groups || !known {
                let note = format!("{node} runs the whole enclosing test {}", outer.shown);
                return Chosen { words: by(format!("^{title}$")), note: Some(note) };
            }
            let groups: String = self.around[..at]
                .iter()
                .filter_map(|it| it.pattern.as_ref())
                .map(|it| format!("{it} "))
                .collect();
            // The outer test runs all tests in it, except those skipped by name.
            let whole = format!("{groups}{title}");
            let mut path = String::new();
            let mut allowed = Vec::new();
            for inner in self.around[at + 1..].iter().filter_map(|it| it.pattern.as_ref()) {
                path.push_str(inner);
                allowed.push(format!("{path}$"));
                path.push(' ');
            }
            allowed.push(format!("{path}{}( |$)", self.own));
            let mut words = by(format!("^ ?{whole}$"));
            words.extend(["--test-skip-pattern".to_owned(), format!("^ ?{whole} (?!{})", allowed.join("|"))]);
            return Chosen { words, note: same(self.may_be_several()) };
        }
        if !self.alike {
            // Every version matches the title alone; for an unknown test this may be all titles.
            return Chosen { words: by(format!("^ ?{}$", self.own)), note: same(self.open) };
        }
        if !by_groups || !known {
            let note = format!("{node} matches titles without groups: other tests with this title run too");
            return Chosen { words: by(format!("^{}$", self.own)), note: Some(note) };
        }
        let mut words = by(format!("^ ?{}{}$", self.before(), self.own));
        if self.around.is_empty() {
            words.extend(["--test-skip-pattern".to_owned(), format!("^ ?.+ {}$", self.own)]);
        }
        Chosen { words, note: same(self.may_be_several()) }
    }
}

/// Whether a text names a test, by its title alone or after those of its groups.
pub(super) fn fits(item: &TestItem, text: &str) -> bool {
    names(item).any(|(_, name)| name.fits(text))
}

/// Whether a text is the literal name of a test, not one of its cases.
fn reads(item: &TestItem, text: &str) -> bool {
    names(item).any(|(_, name)| name.is_whole() && name.render() == text)
}

/// Lists all names of a test, with the index of the first group they include.
fn names(item: &TestItem) -> impl Iterator<Item = (usize, Name)> + '_ {
    const BETWEEN: &[&str] = &[" ", " > ", " › "];
    let outer = item.outer.as_slice();
    let joined = move |from: usize, between: &str| {
        let mut names =
            outer[from..].iter().filter_map(|outer| outer.name.clone()).chain([item.name.clone()]);
        let first = names.next().unwrap_or_else(|| item.name.clone());
        names.fold(first, |one, inner| one.joined(between, &inner))
    };
    let own = std::iter::once((outer.len(), item.name.clone()));
    let groups = if item.is_group { 0 } else { outer.len() };
    own.chain(
        (0..groups).flat_map(move |from| BETWEEN.iter().map(move |between| (from, joined(from, between)))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debug::test_discovery::TestFile;

    const TEXT: &str = "\
test('adds', () => {});
describe('cart', () => {
  test('adds', () => {});
  test('adds (1/2)', () => {});
  test.each([])('of %i is %i', () => {});
});
describe.each([])('with %s', () => {
  test('adds', () => {});
});
test('outer', async (t) => {
  await t.test('mid', async (t) => {
    await t.test('deep', () => {});
  });
  await t.test('other', () => {});
});
function all(make) {
  test('made', () => {});
}
for (const n of ['a', 'b']) {
  test(`${n}`, () => {});
}
";

    fn parsed() -> TestFile {
        TestFile::parse(std::path::Path::new("a.js"), TEXT).unwrap()
    }

    fn at(line: u64, asked: Option<&str>) -> Titles {
        let file = parsed();
        let item = file.items.iter().find(|item| item.line == line).unwrap();
        let alike = file.items.iter().filter(|other| *other != item && other.name == item.name);
        Titles::of(item, asked, &alike.map(|other| other.outer.as_slice()).collect::<Vec<_>>())
    }

    #[test]
    fn a_filter_has_the_titles_of_all_groups() {
        for (line, asked, pattern) in [
            (1, None, "^adds$"),
            (2, None, "^cart( |$)"),
            (3, None, "^cart adds$"),
            (4, None, "^cart adds \\(1\\/2\\)$"),
            (5, None, "^cart of .* is .*$"),
            (5, Some("of 1 is 2"), "^cart of 1 is 2$"),
            (5, Some("cart > of 1 is 2"), "^cart of 1 is 2$"),
            (8, None, "^with .* adds$"),
            (8, Some("with tax adds"), "^with tax adds$"),
            (17, None, "^(.* )?made$"),
        ] {
            assert_eq!(at(line, asked).name_filter().words, ["-t", pattern], "{line}");
        }
        let note = |line: u64, asked: Option<&str>| at(line, asked).name_filter().note;
        for (line, asked) in [(5, None), (8, None), (8, Some("adds")), (5, Some("of … is …"))] {
            assert_eq!(note(line, asked).as_deref(), Some(OTHERS), "{line} {asked:?}");
        }
        for (line, asked) in [(3, None), (5, Some("of 1 is 2")), (8, Some("with tax adds"))] {
            assert_eq!(note(line, asked), None, "{line} {asked:?}");
        }
        assert_eq!(Titles::unknown("cart > is it").name_filter().words[1], "^(.* )?cart is it$");
    }

    #[test]
    fn the_filter_for_node_depends_on_its_version() {
        let words = |line: u64, version: (u32, u32)| {
            let titles = at(line, None);
            let chosen = titles.node_filter(titles.needs_version().then_some(version));
            let words: Vec<String> =
                chosen.words.into_iter().filter(|it| !it.starts_with("--test-name")).collect();
            (words.join(" "), chosen.note.unwrap_or_default())
        };
        let (old, new) = ((20, 20), (22, 3));
        let alone = |pattern: &str| (pattern.to_owned(), String::new());
        assert_eq!(words(4, old), alone("^ ?adds \\(1\\/2\\)$"));
        assert_eq!(words(3, new), alone("^ ?cart adds$"));
        assert_eq!(words(1, new), alone("^ ?adds$ --test-skip-pattern ^ ?.+ adds$"));
        let others = "Node 20.20 matches titles without groups: other tests with this title run too";
        assert_eq!(words(3, old), ("^adds$".to_owned(), others.to_owned()));
        assert_eq!(words(14, new), alone("^ ?outer$ --test-skip-pattern ^ ?outer (?!other( |$))"));
        assert_eq!(words(12, new), alone("^ ?outer$ --test-skip-pattern ^ ?outer (?!mid$|mid deep( |$))"));
        // A title that is a parameter alone is that of every test.
        assert_eq!(words(20, new), ("^ ?.*$".to_owned(), OTHERS.to_owned()));
        let outer = "Node 20.20 runs the whole enclosing test outer";
        assert_eq!(words(12, old), ("^outer$".to_owned(), outer.to_owned()));
    }

    #[test]
    fn a_title_is_requested_alone_or_after_its_groups() {
        let file = parsed();
        let asked =
            |line: u64, text: &str| fits(file.items.iter().find(|item| item.line == line).unwrap(), text);
        for text in ["deep", "mid deep", "outer > mid > deep", "outer mid deep"] {
            assert!(asked(12, text), "{text}");
        }
        assert!(asked(8, "with tax adds") && asked(8, "with … › adds") && asked(3, "cart adds"));
        assert!(!asked(12, "outer deep") && !asked(3, "other adds") && !asked(1, "cart adds"));
    }
}
