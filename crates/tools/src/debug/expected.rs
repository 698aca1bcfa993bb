//! Whether a stop of a test at an exception is its failure: somebody may wait to catch it.
//!
//! Pure. Per runner it is data: who waits, which exceptions say that a test is left out, what stands above a
//! test that is to fail. What must stay true: `Fails` is said only where nothing in the stack, and nothing in
//! the source of its frames, is known to catch; what cannot be known is `Unsure`.

use super::named::{self, Tests, indent};
use super::values::statement;

/// What a stop is to the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The test fails by it.
    Fails,
    /// Somebody waits for it, or the runner counts it as no failure.
    Expected,
    /// What comes after it tells.
    Unsure,
    /// It is in another test, which runs with it.
    Another,
}

/// A frame as far as it matters here; top first.
#[derive(Debug, Clone)]
pub(super) struct Place<'a> {
    pub name: &'a str,
    /// The text of its file, where it is the person's.
    pub own: Option<&'a str>,
    /// Where it is in that text, both from 1.
    pub line: u64,
    pub column: u64,
    /// No frame: what separates the frames before a wait from those after it.
    pub label: bool,
}

/// What is known of a runner.
struct Rule {
    runners: &'static [&'static str],
    language: Kind,
    /// Exceptions by which a runner leaves a test out.
    outcomes: &'static [&'static str],
    /// Functions that wait for an exception of what they call, or of the block that they open.
    waits: &'static [&'static str],
    /// Functions of those that call what is to judge an exception: what that throws nobody waits for.
    judges: &'static [&'static str],
    /// Where the runner runs a test and catches what that throws, whoever called the runner.
    runs: &'static [&'static str],
    /// What stands above a test that is to fail.
    marks: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Python,
    Rust,
    JavaScript,
}

const RULES: &[Rule] = &[
    Rule {
        runners: &["pytest", "unittest"],
        language: Kind::Python,
        outcomes: &["Skipped", "SkipTest", "XFailed"],
        waits: &[
            "raises",
            "RaisesGroup",
            "assertRaises",
            "assertRaisesRegex",
            "assertRaisesMessage",
            "suppress",
        ],
        judges: &[],
        runs: &[],
        marks: &["xfail", "expectedFailure"],
    },
    Rule {
        runners: &["cargo"],
        language: Kind::Rust,
        outcomes: &[],
        waits: &["catch_unwind"],
        judges: &[],
        runs: &[],
        marks: &["should_panic"],
    },
    Rule {
        runners: &["node", "jest", "vitest"],
        language: Kind::JavaScript,
        outcomes: &[],
        waits: &[
            "throws",
            "rejects",
            "toThrow",
            "toThrowError",
            "toThrowErrorMatchingSnapshot",
            "toThrowErrorMatchingInlineSnapshot",
        ],
        judges: &["expectedException"],
        runs: &["Test.run"],
        marks: &[],
    },
];

/// Blocks of Python that let an exception through.
const TRANSPARENT: &[&str] = &["open", "subTest", "patch", "TemporaryDirectory", "lock", "closing"];
/// Beginnings of decorators of Python that change nothing of how a test ends.
const PLAIN: &[&str] = &[
    "@pytest.mark.",
    "@pytest.fixture",
    "@patch",
    "@mock.",
    "@unittest.mock.",
    "@unittest.skip",
    "@staticmethod",
    "@classmethod",
    "@parameterized",
];
/// What in a statement of JavaScript may handle what is thrown later.
const HANDLES: &[&str] = &["catch", "allSettled"];
/// Exceptions of Python with which a failed check ends.
const CHECKS: &[&str] = &["AssertionError", "Failed"];

/// What a stop with these frames is to a test, whose name is the last of `path`, after those of what it is in;
/// `exception` is its name where it is known.
pub(super) fn verdict(
    runner: &str,
    path: &[String],
    exception: Option<&str>,
    frames: &[Place<'_>],
) -> Verdict {
    let Some(rule) = RULES.iter().find(|it| it.runners.contains(&runner)) else { return Verdict::Fails };
    // `module.KeyError (with a note)`.
    let exception = exception.and_then(|it| it.split_whitespace().next()).map(|it| it.trim_end_matches(':'));
    let exception = exception.and_then(|it| it.rsplit('.').next());
    if exception.is_some_and(|it| rule.outcomes.contains(&it)) {
        return Verdict::Expected;
    }
    // What waits for a frame called it; the frames before a wait of a promise did not.
    // What an exception came from is listed below it, and called nothing.
    let cause = |it: &Place<'_>| it.name.starts_with("[Chained Exc:");
    let ends = |it: &Place<'_>| it.label || cause(it) || (it.own.is_none() && rule.runs.contains(&it.name));
    let till = frames.iter().position(ends).unwrap_or(frames.len());
    let called = &frames[..till];
    let last = called.iter().rposition(|it| it.own.is_some());
    let first = called.iter().position(|it| it.own.is_some());
    let (Some(first), Some(last)) = (first, last) else { return Verdict::Unsure };
    let title = path.last().map_or("", String::as_str);
    let mut judges = false;
    for (at, frame) in called.iter().enumerate().take(last + 1).skip(first) {
        let between = frame.own.is_none();
        judges |= between && has_word(frame.name, rule.judges);
        if judges {
            // Till the person's, who called what lets it judge.
            judges = between;
            continue;
        }
        if (between && has_word(frame.name, rule.waits))
            || (at > first && frame.own.is_some_and(|text| calls(&statement(text, frame.line), rule.waits)))
        {
            return Verdict::Expected;
        }
    }
    match rule.language {
        Kind::Python => python(rule, title, exception, called),
        Kind::Rust => rust(rule, title, called),
        Kind::JavaScript => javascript(path, called),
    }
}

fn python(rule: &Rule, title: &str, exception: Option<&str>, called: &[Place<'_>]) -> Verdict {
    let own: Vec<&Place<'_>> = called.iter().filter(|it| it.own.is_some()).collect();
    let is_check = exception.is_some_and(|it| CHECKS.contains(&it));
    let mut unsure = false;
    for frame in &own {
        let lines: Vec<&str> = frame.own.unwrap_or_default().lines().collect();
        for head in blocks(&lines, frame.line) {
            let named = has_word(&head, &["Exception", "BaseException"])
                || exception.is_some_and(|it| has_word(&head, &[it]));
            if calls(&head, rule.waits) {
                // A check in such a block fails, unless that is what is waited for.
                if !is_check || named {
                    return Verdict::Expected;
                }
            } else {
                unsure |= !has_word(&head, TRANSPARENT);
            }
        }
    }
    let Some(test) = own.iter().find(|it| has_word(it.name, &[title])) else { return Verdict::Unsure };
    let text = test.own.unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let above = decorators(&lines, test.line, title);
    let module = text.lines().filter(|it| it.starts_with("pytestmark"));
    if above.iter().map(String::as_str).chain(module).any(|it| has_word(it, rule.marks)) {
        return Verdict::Expected;
    }
    unsure |= above.iter().any(|it| !PLAIN.iter().any(|plain| it.starts_with(plain)));
    // The frame that it leaves is called by others, who may catch it, unless it is the test's.
    unsure |= own.iter().take(own.len() - 1).any(|it| it.name.ends_with("(Current frame)"));
    if unsure { Verdict::Unsure } else { Verdict::Fails }
}

fn rust(rule: &Rule, title: &str, called: &[Place<'_>]) -> Verdict {
    let test = called.iter().rfind(|it| it.own.is_some() && has_word(it.name, &[title]));
    // A panic in a thread of its own is its joiner's to judge.
    let Some(test) = test else { return Verdict::Unsure };
    let lines: Vec<&str> = test.own.unwrap_or_default().lines().collect();
    let Some(at) = definition(&lines, test.line, "fn", title) else { return Verdict::Fails };
    let over = |it: &str| it.is_empty() || it.ends_with(['{', '}', ';']);
    let above = lines[..at].iter().rev().map(|it| it.trim()).take_while(|it| !over(it));
    let marked = above.filter(|it| !it.starts_with("//")).any(|it| has_word(it, rule.marks));
    if marked { Verdict::Expected } else { Verdict::Fails }
}

fn javascript(path: &[String], called: &[Place<'_>]) -> Verdict {
    let own = |it: &&Place<'_>| it.own.is_some();
    let first = called.iter().position(|it| it.own.is_some()).unwrap_or(0);
    let last = called.iter().rposition(|it| it.own.is_some()).unwrap_or(0);
    let by_others = called[first..=last].iter().any(|it| it.own.is_none());
    let caught = called.iter().filter(own).any(|it| {
        let text = it.own.unwrap_or_default();
        in_try(text, it.line, it.column) || has_word(&statement(text, it.line), HANDLES)
    });
    let tests: Vec<Vec<String>> = called.iter().filter_map(test_of).collect();
    if tests.last().is_some_and(|it| !path.is_empty() && !it.starts_with(path) && !path.starts_with(it)) {
        return Verdict::Another;
    }
    let in_test = !path.is_empty() && tests.iter().any(|it| it.starts_with(path));
    if caught || by_others || !in_test { Verdict::Unsure } else { Verdict::Fails }
}

/// The titles of the test of JavaScript whose source a frame is in, and before them those of what that is in.
fn test_of(frame: &Place<'_>) -> Option<Vec<String>> {
    let lines: Vec<&str> = frame.own?.lines().collect();
    let at = named::test_around(&lines, frame.line)?;
    let mut titles = named::within(&lines, at, Tests::Node);
    titles.push(named::begins(&lines, at, Tests::Node)?.name.shown());
    Some(titles)
}

/// The words of a name or a line.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|it| !it.is_empty())
}

fn has_word(text: &str, known: &[&str]) -> bool {
    words(text).any(|it| known.contains(&it))
}

/// Whether one of `known` is called in a text.
fn calls(text: &str, known: &[&str]) -> bool {
    known.iter().any(|name| {
        text.match_indices(name).any(|(at, _)| {
            let word = |c: char| c.is_alphanumeric() || c == '_';
            let rest = text[at + name.len()..].trim_start();
            !text[..at].ends_with(word) && rest.starts_with(['(', '.', '<'])
        })
    })
}

/// The heads of the `with` blocks of Python that a line is in, within its function.
fn blocks(lines: &[&str], line: u64) -> Vec<String> {
    let mut found = Vec::new();
    let Some(at) = usize::try_from(line).ok().and_then(|it| it.checked_sub(1)) else { return found };
    let Some(mut row) = lines.get(at).copied() else { return found };
    let is_with = |it: &str| it.starts_with("with ") || it.starts_with("async with ");
    // On one line with its head.
    let trimmed = row.trim_start();
    if is_with(trimmed) && trimmed.rsplit_once("):").is_some_and(|(_, body)| !body.trim().is_empty()) {
        found.push(trimmed.to_owned());
    }
    let mut least = indent(row);
    let mut index = at;
    while index > 0 && least > 0 {
        index -= 1;
        row = lines[index];
        if row.trim().is_empty() || indent(row) >= least {
            continue;
        }
        let own = indent(row);
        // A head of several lines ends with its bracket.
        let last = index;
        while index > 0
            && (lines[index].trim_start().starts_with([')', ']', '}'])
                || lines[index].trim().is_empty()
                || indent(lines[index]) > own)
        {
            index -= 1;
        }
        let head: Vec<&str> = lines[index..=last].iter().map(|it| it.trim()).collect();
        let head = head.join(" ");
        least = own;
        if is_with(&head) {
            found.push(head);
        } else if head.starts_with("def ") || head.starts_with("async def ") {
            break;
        }
    }
    found
}

/// Where the function `name` that a line is in begins.
fn definition(lines: &[&str], line: u64, word: &str, name: &str) -> Option<usize> {
    let before = usize::try_from(line).unwrap_or(usize::MAX).min(lines.len());
    (0..before).rev().find(|at| {
        let mut words = words(lines[*at]).skip_while(|it| *it != word);
        words.next().is_some() && words.next() == Some(name)
    })
}

/// The decorators of a function of Python and of its class.
fn decorators(lines: &[&str], line: u64, name: &str) -> Vec<String> {
    let Some(at) = definition(lines, line, "def", name) else { return Vec::new() };
    let above = |at: usize| {
        let own = indent(lines[at]);
        let rows = lines[..at].iter().rev();
        let part = |it: &&&str| {
            !it.trim().is_empty()
                && (indent(it) > own || (indent(it) == own && it.trim().starts_with(['@', ')', ']', '#'])))
        };
        let mut found: Vec<String> = Vec::new();
        let mut rest = String::new();
        for row in rows.take_while(part) {
            let row = row.trim();
            rest.insert_str(0, &format!("{row} "));
            if row.starts_with('@') {
                found.push(std::mem::take(&mut rest));
            }
        }
        found
    };
    let mut found = above(at);
    let class =
        (0..at).rev().find(|it| !lines[*it].trim().is_empty() && indent(lines[*it]) < indent(lines[at]));
    if let Some(class) = class.filter(|it| lines[*it].trim_start().starts_with("class ")) {
        found.extend(above(class));
    }
    found
}

/// Whether a place is in the block of a `try`, by its braces.
fn in_try(text: &str, line: u64, column: u64) -> bool {
    let rows = usize::try_from(line).unwrap_or(usize::MAX);
    let column = usize::try_from(column.max(1) - 1).unwrap_or(0);
    let mut open = 0usize;
    for (back, row) in text.lines().take(rows).collect::<Vec<_>>().into_iter().rev().enumerate() {
        let row: String = if back == 0 { row.chars().take(column).collect() } else { row.to_owned() };
        for (at, c) in row.char_indices().rev() {
            match c {
                '}' => open += 1,
                '{' if open > 0 => open -= 1,
                '{' if words(&row[..at]).last() == Some("try") && row[..at].trim_end().ends_with("try") => {
                    return true;
                }
                _ => {}
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own<'a>(name: &'a str, text: &'a str, line: u64) -> Place<'a> {
        Place { name, own: Some(text), line, column: 1, label: false }
    }

    fn others(name: &str) -> Place<'_> {
        Place { name, own: None, line: 1, column: 1, label: false }
    }

    #[track_caller]
    fn check(runner: &str, exception: &str, frames: &[Place<'_>], verdict: Verdict) {
        assert_eq!(super::verdict(runner, &["test_it".to_owned()], Some(exception), frames), verdict);
    }

    #[test]
    fn what_a_block_of_python_waits_for_is_no_failure() {
        let at = |body: &str, line: u64, exception: &str, verdict: Verdict| {
            let text = format!("def boom():\n    raise KeyError\n\ndef test_it(self):\n{body}");
            let frames = [own("boom", &text, 2), own("test_it (Current frame)", &text, line)];
            check("pytest", exception, &frames, verdict);
        };
        at("    boom()\n", 5, "KeyError  (note: …)", Verdict::Fails);
        at("    with pytest.raises(KeyError):\n        boom()\n", 6, "KeyError", Verdict::Expected);
        at(
            "    with pytest.raises(\n        KeyError,\n    ):\n        boom()\n",
            8,
            "KeyError",
            Verdict::Expected,
        );
        at("    with self.assertRaises(KeyError): boom()\n", 5, "KeyError", Verdict::Expected);
        at("    self.assertRaises(KeyError, boom)\n", 5, "KeyError", Verdict::Expected);
        at(
            "    with suppress(LookupError):\n        if 1:\n            boom()\n",
            7,
            "KeyError",
            Verdict::Expected,
        );
        at("    with mine():\n        boom()\n", 6, "KeyError", Verdict::Unsure);
        at("    with open(p) as f:\n        boom()\n", 6, "KeyError", Verdict::Fails);
        at("    with pytest.raises(KeyError):\n        pass\n    boom()\n", 7, "KeyError", Verdict::Fails);
        // A check in a block that waits for something else.
        at("    with pytest.raises(KeyError):\n        boom()\n", 6, "AssertionError", Verdict::Fails);
        at(
            "    with pytest.raises(AssertionError):\n        boom()\n",
            6,
            "AssertionError",
            Verdict::Expected,
        );
        at("    pytest.skip('no')\n", 5, "_pytest.outcomes.Skipped", Verdict::Expected);
    }

    #[test]
    fn a_subtest_of_unittest_that_failed_is_a_failure() {
        let text = "def test_it(self):\n    for n in (1, 2):\n        with self.subTest(n=n):\n            self.assertRaises(E, n)\n";
        let frames = [own("test_it (Current frame)", text, 3), own("[Chained Exc: no] test_it", text, 4)];
        check("unittest", "_ShouldStop", &frames, Verdict::Fails);
    }

    #[test]
    fn a_block_of_python_that_waited_in_vain_is_a_failure() {
        let text = "def test_it():\n    with pytest.raises(KeyError):\n        pass\n    with assertRaises(KeyError): f()\n";
        for line in [2, 4] {
            check("pytest", "Failed", &[own("test_it (Current frame)", text, line)], Verdict::Fails);
        }
    }

    #[test]
    fn what_stands_above_a_test_is_looked_at() {
        for (above, verdict) in [
            ("@pytest.mark.xfail", Verdict::Expected),
            ("@pytest.mark.xfail(\n    reason='so',\n)", Verdict::Expected),
            ("@unittest.expectedFailure", Verdict::Expected),
            ("@pytest.mark.parametrize('n', [1, 2])", Verdict::Fails),
            ("@retried(3)", Verdict::Unsure),
            ("pytestmark = pytest.mark.xfail\n", Verdict::Expected),
            ("x = 'xfail'\n", Verdict::Fails),
        ] {
            let text = format!("{above}\ndef test_it(): assert 1 == 2\n");
            let line = text.lines().count() as u64;
            check("pytest", "AssertionError", &[own("test_it (Current frame)", &text, line)], verdict);
        }
        let text =
            "@pytest.mark.xfail\nclass TestIt:\n    x = 1\n\n    def test_it(self):\n        assert 0\n";
        check("pytest", "AssertionError", &[own("test_it (Current frame)", text, 6)], Verdict::Expected);
        for (above, verdict) in [
            ("#[test]\n#[should_panic(\n    expected = \"x\"\n)]", Verdict::Expected),
            ("}\n#[test]", Verdict::Fails),
        ] {
            let text = format!("// should_panic\n\n{above}\nfn test_it() {{\n    panic!()\n}}\n");
            let line = text.lines().count() as u64 - 1;
            let frames =
                [others("rust_panic"), own("a::tests::test_it", &text, line), others("catch_unwind")];
            check("cargo", "", &frames, verdict);
        }
    }

    #[test]
    fn what_leaves_the_persons_code_for_that_of_others_may_be_caught_there() {
        let text = "def work(): raise KeyError\ndef test_it(): pool.map(work)\n";
        let frames = [own("work (Current frame)", text, 1), own("test_it", text, 2)];
        check("pytest", "KeyError", &frames, Verdict::Unsure);
        // In a thread of its own.
        check("pytest", "KeyError", &[own("work (Current frame)", text, 1)], Verdict::Unsure);
        let text = "fn test_it() {\n    thread::spawn(|| panic!()).join();\n}\n";
        check("cargo", "", &[others("rust_panic"), own("a::work", text, 2)], Verdict::Unsure);
        let waits = [
            own("a::div", text, 2),
            others("std::panic::catch_unwind<a::c, i32>"),
            own("a::tests::test_it", text, 2),
        ];
        check("cargo", "", &waits, Verdict::Expected);
    }

    #[test]
    fn what_a_test_of_node_throws_may_be_caught() {
        let at = |body: &str, between: &[&str], verdict: Verdict| {
            let text = format!("const boom = () => {{ throw 1 }};\ntest('test_it', () => {{\n{body}\n}});\n");
            let line = text.lines().count() as u64 - 1;
            let mut frames = vec![own("boom", &text, 1)];
            frames.extend(between.iter().map(|it| others(it)));
            let column = text.lines().nth(2).map_or(1, |it| it.chars().count() as u64);
            frames.push(Place { column, ..own("<anonymous>", &text, line) });
            frames.extend([
                others("Test.run"),
                Place { label: true, ..others("Test") },
                own("<anonymous>", &text, 2),
            ]);
            check("node", "Error", &frames, verdict);
        };
        at("  boom();", &[], Verdict::Fails);
        at("  assert.throws(boom);", &["getActual", "function ok(...args) {.throws"], Verdict::Expected);
        at("  expect(boom).toThrow();", &["Proxy.<anonymous>"], Verdict::Expected);
        at("  [1].map(boom);", &["Array.map"], Verdict::Unsure);
        at("  try { boom(); } catch {}", &[], Verdict::Unsure);
        at("  if (1) { boom(); }", &[], Verdict::Fails);
        at("  work().catch(boom);", &[], Verdict::Unsure);
        at("});\ntest('other', () => {\n  boom();", &[], Verdict::Another);
        at("  await t.test('inner', () => {\n    boom();", &[], Verdict::Fails);
        at("});\ndescribe('a', () => {\n  test('test_it', () => {\n    boom();", &[], Verdict::Another);
        // A test in a test is run by that.
        let text = "test('test_it', (t) => {\n  t.test('inner', () => {\n    boom();\n  });\n});\n";
        let frames =
            [own("<anonymous>", text, 3), others("Test.run"), others("Test.start"), own("x", text, 2)];
        check("node", "Error", &frames, Verdict::Fails);
        // What is to judge the exception does not agree with it.
        let throws = ["expectedException", "expectsError", "throws"];
        at("  assert.throws(other, boom);", &throws, Verdict::Unsure);
    }
}
