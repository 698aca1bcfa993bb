//! What a runner of tests says at its end: that it has no such test, that it left it out, how it failed.
//!
//! Pure. What must stay true: a program may write what a runner writes, so only the runner's last words of a kind
//! and its exit code count, never a text anywhere in the output.

/// Lines of a report that are shown.
const LINES: usize = 30;

/// Whether a runner had no such test.
pub(super) fn has_none(runner: &str, exit_code: Option<i64>, wrote: &str) -> bool {
    match runner {
        // 4 is for words that it does not understand too.
        "pytest" => match exit_code {
            Some(5) => true,
            Some(4) => {
                last_line(wrote, |it| it.starts_with("ERROR: ")).is_some_and(|it| it.contains("not found: "))
            }
            _ => false,
        },
        "unittest" => {
            // `Ran 1 test in 0.001s`; what a program wrote may come after it.
            let ran = |line: &str| {
                let mut words = line.strip_prefix("Ran ")?.split(' ');
                let count: u64 = words.next()?.parse().ok()?;
                let time = words.nth(2)?.strip_suffix('s')?;
                time.parse::<f64>().ok().map(|_| count)
            };
            let ran: Vec<u64> = wrote.lines().filter_map(ran).collect();
            let unknown = || {
                let failed = wrote
                    .lines()
                    .any(|it| it.starts_with("ERROR: ") && it.contains("(unittest.loader._FailedTest"));
                let why = last_line(wrote, |it| it.starts_with("AttributeError: "));
                failed && why.is_some_and(|it| it.contains(" has no attribute "))
            };
            !ran.is_empty() && (ran.iter().all(|it| *it == 0) || (ran == [1] && unknown()))
        }
        "cargo" => last_line(wrote, |it| it.starts_with("test result: "))
            .is_some_and(|it| it.contains(" 0 passed; 0 failed; 0 ignored; 0 measured")),
        "go" => {
            let lines: Vec<&str> = wrote.lines().filter(|it| !it.trim().is_empty()).collect();
            lines.windows(2).next_back() == Some(&["testing: warning: no tests to run", "PASS"])
        }
        "node" => count(wrote, "tests") == Some(0) || none_fits(wrote),
        _ => false,
    }
}

/// Whether Node skipped all tests because of their names.
fn none_fits(wrote: &str) -> bool {
    let by_name = wrote.lines().filter(|it| it.ends_with("# SKIP test name does not match pattern")).count();
    by_name > 0
        && count(wrote, "skipped") == u64::try_from(by_name).ok()
        && count(wrote, "pass") == Some(0)
        && count(wrote, "fail") == Some(0)
}

/// What Node counted last: `# pass 1`, `ℹ pass 1`.
fn count(wrote: &str, what: &str) -> Option<u64> {
    let counts = |line: &str| {
        let (word, count) = line.strip_prefix("# ").or(line.strip_prefix("ℹ "))?.split_once(' ')?;
        (word == what).then(|| count.trim().parse().ok())?
    };
    wrote.lines().rev().find_map(counts)
}

/// Whether a runner's count has tests that it skipped, or expected to fail, and none that passed.
pub(super) fn left_out(runner: &str, wrote: &str) -> bool {
    const WORDS: &[&str] = &["skipped", "xfailed", "xpassed", "ignored", "todo"];
    const PASSED: &[&str] = &["passed", "pass"];
    let some = |it: &str| it.parse::<u64>().is_ok_and(|count| count > 0);
    if runner == "node" {
        let some = |it: &str| count(wrote, it).is_some_and(|it| it > 0);
        return (some("skipped") || some("todo")) && !some("pass");
    }
    let begins =
        |words: &[&str]| last_line(wrote, |it| words.iter().any(|word| it.trim_start().starts_with(word)));
    let counted = match runner {
        "pytest" => last_line(wrote, |it| {
            it.contains(" in ") && it.trim_end_matches([' ', '=']).ends_with(['s', ')'])
        }),
        "unittest" => begins(&["OK", "FAILED"]),
        "cargo" => begins(&["test result: "]),
        "jest" => begins(&["Tests:"]),
        "vitest" => begins(&["Tests "]),
        _ => None,
    };
    let counted = counted.map_or_else(|| last(wrote), str::to_owned);
    // `1 skipped` of pytest and others, `skipped=1` of unittest.
    let counts = |known: &[&str]| {
        counted.lines().any(|line| {
            let words: Vec<&str> =
                line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
            words.windows(2).any(|pair| {
                (some(pair[0]) && known.contains(&pair[1])) || (known.contains(&pair[0]) && some(pair[1]))
            })
        })
    };
    counts(WORDS) && !counts(PASSED)
}

/// Whether Node says of a test, by all its titles, that it passed, where it says so in lines as of TAP.
pub(super) fn passed(path: &[String], wrote: &str) -> Option<bool> {
    let results = results(wrote);
    let mut own = results.iter().filter(|it| it.path == path).peekable();
    own.peek()?;
    Some(own.all(|it| it.passed))
}

/// What Node says of one test, in the protocol TAP.
struct Told<'a> {
    line: usize,
    path: Vec<&'a str>,
    passed: bool,
}

fn results(wrote: &str) -> Vec<Told<'_>> {
    let mut path: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    for (line, text) in wrote.lines().enumerate() {
        let words = text.trim_start();
        let depth = (text.len() - words.len()) / 4;
        let (ok, not) = (words.strip_prefix("ok "), words.strip_prefix("not ok "));
        if let Some(title) = words.strip_prefix("# Subtest: ").filter(|_| depth <= path.len()) {
            path.truncate(depth);
            path.push(title);
        } else if let Some((_, title)) = ok.or(not).and_then(|it| it.split_once(" - "))
            && path.get(depth) == Some(&title.split(" # ").next().unwrap_or(title))
        {
            path.truncate(depth + 1);
            found.push(Told { line, path: path.clone(), passed: ok.is_some() && !title.contains(" # SKIP") });
        }
    }
    found
}

/// What a runner says, for the end of a sentence; nothing of it where the output that is shown below holds all.
pub(super) fn quoted(text: &str, below: &str) -> String {
    let held = text.lines().all(|line| below.contains(line.trim()));
    if held && !text.is_empty() {
        " what its output below ends with".to_owned()
    } else {
        format!(":\n{text}")
    }
}

/// What tells of a failed test: of Node what it says of that test, else what was written last.
pub(super) fn failure(runner: &str, path: &[String], wrote: &str) -> String {
    let lines: Vec<&str> = wrote.lines().collect();
    let at = match runner {
        "node" => {
            let results = results(wrote);
            let mut failed = results.iter().filter(|it| lines[it.line].trim_start().starts_with("not ok "));
            let first = failed.clone().next();
            let own = failed.find(|it| it.path == path).or(first).map(|it| it.line);
            own.or_else(|| lines.iter().rposition(|it| *it == "✖ failing tests:"))
        }
        _ => None,
    };
    let Some(at) = at else { return last(wrote) };
    let depth = |it: &str| it.len() - it.trim_start().len();
    let own = depth(lines[at]);
    // Its block ends with dots.
    let end = lines[at..].iter().position(|it| it.trim() == "..." && depth(it) <= own + 2);
    let end = end.map_or(LINES, |it| it + 1).min(LINES);
    lines[at..].iter().take(end).copied().collect::<Vec<_>>().join("\n")
}

pub(super) fn last(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

fn last_line(wrote: &str, is: impl Fn(&str) -> bool) -> Option<&str> {
    wrote.lines().rev().find(|it| is(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_was_skipped_is_told_from_one_that_passed() {
        for (runner, wrote) in [
            ("pytest", "s  [100%]\n1 skipped in 0.01s\n"),
            ("pytest", "===== 1 xfailed in 0.05s =====\n"),
            ("unittest", "1 passed\nOK (skipped=1)\n"),
            ("node", "1 passed\n# pass 0\n# skipped 1\n# todo 0\n"),
            ("node", "ℹ pass 0\nℹ skipped 1\nℹ todo 0\n"),
            ("cargo", "test result: ok. 0 passed; 0 failed; 1 ignored; 0 measured\n"),
        ] {
            assert!(left_out(runner, wrote), "{wrote}");
        }
        for (runner, wrote) in [
            ("pytest", "1 passed in 0.01s\n"),
            ("unittest", "1 skipped\nRan 1 test in 0.001s\n\nOK\n"),
            ("jest", "Tests:       2 skipped, 1 passed, 3 total\n"),
            ("vitest", "      Tests  1 passed | 2 skipped (3)\n"),
            ("node", "# pass 1\n# skipped 0\n# todo 0\n# duration_ms 7\n"),
            (
                "cargo",
                "1 ignored\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out\n",
            ),
            ("executable", ""),
        ] {
            assert!(!left_out(runner, wrote), "{wrote}");
        }
    }

    #[test]
    fn only_the_runner_says_that_it_has_no_such_test() {
        let line = "ok 1 - a # SKIP test name does not match pattern\n";
        let node = |pass: u64, skipped: u64, lines: &str| {
            format!("{lines}# tests 2\n# pass {pass}\n# fail 0\n# skipped {skipped}\n# todo 0\n")
        };
        let unknown = "ERROR: b (unittest.loader._FailedTest.b)\n-----\nAttributeError: type object 'A' has no \
                       attribute 'b'\n\nRan 1 test in 0.000s\n";
        let says = [
            ("pytest", 5, "no tests ran in 0.01s\n"),
            ("pytest", 4, "ERROR: not found: /p/t.py::a\n"),
            ("unittest", 0, "Ran 0 tests in 0.000s\n\nOK\n"),
            ("unittest", 1, unknown),
            (
                "cargo",
                0,
                "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out\n",
            ),
            ("go", 0, "testing: warning: no tests to run\nPASS\n"),
            ("node", 0, "# tests 0\n# pass 0\n"),
            ("node", 0, "ℹ tests 0\nℹ pass 0\n"),
            ("node", 0, &node(0, 1, line)),
        ];
        for (runner, code, wrote) in says {
            assert!(has_none(runner, Some(code), wrote), "{runner}: {wrote}");
        }
        let others = [
            ("pytest", 0, "not found: x\nno tests ran\n1 passed in 0.01s\n"),
            ("pytest", 4, "ERROR: usage: unrecognized arguments: --x\n"),
            ("unittest", 0, "Ran 1 test in 0.001s\n\nOK\nRan 0 tests in all\nRan 0 tests in 0.1s\n"),
            ("unittest", 1, "AttributeError: 'A' has no attribute 'b'\n\nRan 1 test in 0.001s\n"),
            ("cargo", 0, "running 0 tests\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n"),
            ("go", 0, "no tests to run\n--- PASS: TestA (0.00s)\nPASS\n"),
            ("node", 0, "tests 0\n# tests 0\n# tests 1\n# pass 1\n"),
            ("node", 0, &node(1, 1, line)),
            ("node", 0, &node(0, 2, &format!("{line}ok 2 - b # SKIP\n"))),
        ];
        for (runner, code, wrote) in others {
            assert!(!has_none(runner, Some(code), wrote), "{runner}: {wrote}");
        }
    }

    #[test]
    fn what_the_output_shows_is_not_told_twice() {
        let below = "  a\n  stderr: E  assert 1\n  b\n";
        assert_eq!(quoted("E  assert 1\nb", below), " what its output below ends with");
        assert_eq!(quoted("c\nb", below), ":\nc\nb");
        assert_eq!(quoted("", below), ":\n");
    }

    #[test]
    fn of_a_failed_test_of_node_its_own_report_is_shown() {
        let many: String = (0..40).map(|at| format!("ok {at} - later # SKIP\n")).collect();
        let block = "    not ok 2 - b\n      ---\n      error: 'so'\n      ...";
        let first = "not ok 1 - b\n  ---\n  error: 'no'\n  ...";
        let wrote = format!(
            "# Subtest: b\n{first}\n# Subtest: a\n    # Subtest: x\n    ok 1 - x\n    # Subtest: b\n{block}\n    \
             1..2\nnot ok 2 - a\n{many}# fail 2\n"
        );
        let path = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        assert_eq!(failure("node", &path(&["a", "b"]), &wrote), block);
        assert_eq!(failure("node", &path(&["c"]), &wrote), first);
        assert_eq!(failure("node", &[], &format!("x\n{many}")).lines().count(), LINES);
        assert_eq!(failure("node", &[], "x\n✖ failing tests:\n\n✖ b\n"), "✖ failing tests:\n\n✖ b");
        let is = |words: &[&str]| passed(&path(words), &wrote);
        assert_eq!([is(&["a", "x"]), is(&["a", "b"]), is(&["x"])], [Some(true), Some(false), None]);
    }
}
