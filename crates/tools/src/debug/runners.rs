//! Test runners as data (`adapters/runners/`): the start and report of one test.
//!
//! Invariants: a program may write the same text as a runner, so the tool reads a report from the runner's
//! own lines and its exit code, never from a text anywhere in the output.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use paths::AbsPath;
use policy::ErrorCode;
use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use syntax::Language;

use super::js_test_filter::{Chosen, Titles};
use super::python_tests;
use super::test_discovery::{TestFile, escaped};
use super::test_search::FoundTest;
use crate::{Failure, ToolContext};

/// Maximum number of lines that a result shows of a report.
const LINES: usize = 30;

/// The definition of a test runner.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Runner {
    #[serde(skip)]
    pub name: &'static str,
    /// Name in adapter definitions, if different from `name`.
    rule: Option<String>,
    /// The Python module that starts the runner.
    module: Option<String>,
    /// The script that starts the runner, below the nearest directory that has it.
    script: Option<String>,
    /// Arguments of the runner.
    ///
    /// The values of the test replace `${test}`, `${options}`, `${file}` and `${directory}`.
    args: Vec<String>,
    env: BTreeMap<String, String>,
    /// Values that override the adapter's launch arguments.
    launch: Option<Value>,
    /// Exceptions by which the runner skips a test.
    pub outcomes: Vec<String>,
    /// Whether the debugger also stops at handled exceptions.
    pub stops_at_handled: bool,
    /// Pattern of the lines that count results.
    ///
    /// The runner reads only the last `summary_lines` of them.
    summary: Option<String>,
    summary_lines: Option<usize>,
    /// Pattern of the first line of a failure's report.
    failure: Option<String>,
    no_tests: Vec<NoTests>,
}

/// The report that no test matches. Without `lines` the exit code decides.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NoTests {
    exit_code: Option<i64>,
    /// Pattern of a line that the output must contain.
    requires: Option<String>,
    /// Pattern of lines that the output must contain; all of them match `say`.
    lines: Option<String>,
    #[serde(default)]
    say: String,
}

static RUNNERS: LazyLock<Vec<Runner>> = LazyLock::new(|| {
    // The files are ours: a test reads each.
    let read = |&(name, text)| Some(Runner { name, ..toml::from_str(text).ok()? });
    adapters::RUNNERS.iter().filter_map(read).collect()
});

/// Returns the runner of this name.
pub(super) fn runner(name: &str) -> Result<&'static Runner, Failure> {
    let unknown = || Failure::new(ErrorCode::Internal, format!("there is no test runner `{name}`"));
    RUNNERS.iter().find(|runner| runner.name == name).ok_or_else(unknown)
}

/// A test with the start command and environment of its runner.
#[derive(Debug, Clone)]
pub(super) struct TestRun {
    pub runner: &'static Runner,
    pub start: Start,
    pub args: Vec<String>,
    pub cwd: AbsPath,
    pub env: Vec<(String, String)>,
    /// Variables of the adapter's templates.
    pub variables: Map<String, Value>,
    /// Groups and the function or title that frames show; empty if unknown.
    pub known_as: Vec<String>,
    /// Whether the test is marked as expected to fail.
    pub expects_failure: bool,
    /// The filter of Node's own runner, whose options its version decides.
    pub titles: Option<Titles>,
    /// Note about tests that the runner cannot distinguish.
    pub note: Option<String>,
    /// Directory in which Python searches for modules first.
    pub python_path: Option<AbsPath>,
}

/// The program that a runner starts.
#[derive(Debug, Clone)]
pub(super) enum Start {
    Program(AbsPath),
    Module(String),
    /// A test executable that cargo has to build first.
    Cargo(CargoTest),
}

/// A test of Rust. The list of its executable has its full name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CargoTest {
    pub name: String,
    pub file: AbsPath,
    /// Modules in the file that contain the test.
    pub within: Vec<String>,
    /// The case that the request names.
    pub case: String,
}

impl Runner {
    /// Name of the runner in adapter definitions.
    pub(super) fn rule(&self) -> &str {
        self.rule.as_deref().unwrap_or(self.name)
    }

    pub(super) fn launch(&self) -> Option<&Value> {
        self.launch.as_ref()
    }

    /// Creates a test run from the definition of the runner.
    ///
    /// `values` replace the variables of its arguments and environment.
    pub(super) fn start(
        &'static self,
        start: Start,
        cwd: AbsPath,
        values: &[(&str, Vec<String>)],
    ) -> TestRun {
        let fill = |template: &String| -> Vec<String> {
            let value = values.iter().find(|(name, _)| *template == format!("${{{name}}}"));
            value.map_or_else(|| vec![template.clone()], |(_, value)| value.clone())
        };
        TestRun {
            runner: self,
            start: self.module.clone().map_or(start, Start::Module),
            args: self.args.iter().flat_map(fill).collect(),
            cwd,
            env: self.env.iter().map(|(name, value)| (name.clone(), fill(value).join(" "))).collect(),
            variables: Map::new(),
            known_as: Vec::new(),
            expects_failure: false,
            titles: None,
            note: None,
            python_path: None,
        }
    }

    /// Whether the runner reports that there is no such test.
    pub(super) fn found_none(&self, exit_code: Option<i64>, output: &str) -> bool {
        self.no_tests.iter().any(|report| report.fits(exit_code, output))
    }

    /// The module that starts the runner, if Python reports it missing.
    pub(super) fn missing_module(&self, output: &str) -> Option<&str> {
        let module = self.module.as_deref()?;
        let ends = [format!("No module named {module}"), format!("No module named '{module}'")];
        output.lines().any(|line| ends.iter().any(|end| line.trim_end().ends_with(end))).then_some(module)
    }

    /// Whether tests were skipped or expected to fail, and none passed.
    ///
    /// Reads the counts in the runner's summary.
    pub(super) fn left_out(&self, output: &str) -> bool {
        const LEFT_OUT: &[&str] = &["skipped", "xfailed", "xpassed", "ignored", "todo"];
        const PASSED: &[&str] = &["passed", "pass"];
        let Some(summary) = self.summary.as_deref().and_then(pattern) else { return false };
        let lines = output.lines().rev().filter(|line| summary.is_match(line));
        let lines: Vec<&str> = lines.take(self.summary_lines.unwrap_or(1)).collect();
        let is_positive = |word: &str| word.parse::<u64>().is_ok_and(|count| count > 0);
        // `1 skipped` of pytest and others, `skipped=1` of unittest.
        let counts = |known: &[&str]| {
            lines.iter().any(|line| {
                let words = line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
                let words: Vec<&str> = words.collect();
                words.windows(2).any(|pair| {
                    (is_positive(pair[0]) && known.contains(&pair[1]))
                        || (known.contains(&pair[0]) && is_positive(pair[1]))
                })
            })
        };
        counts(LEFT_OUT) && !counts(PASSED)
    }

    /// Returns the report of a failed test, else the last lines of the output.
    pub(super) fn failure(&self, output: &str) -> String {
        let begins = self.failure.as_deref().and_then(pattern);
        let at = begins.and_then(|begins| output.lines().position(|line| begins.is_match(line)));
        let Some(at) = at else { return last_lines(output) };
        output.lines().skip(at).take(LINES).collect::<Vec<_>>().join("\n")
    }
}

impl NoTests {
    fn fits(&self, exit_code: Option<i64>, output: &str) -> bool {
        let like = |text: &str| {
            let pattern = pattern(text);
            output.lines().filter(move |line| pattern.as_ref().is_some_and(|pattern| pattern.is_match(line)))
        };
        let all_say = |lines: &String| {
            let says = pattern(&self.say);
            let mut lines = like(lines).peekable();
            lines.peek().is_some() && lines.all(|line| says.as_ref().is_some_and(|says| says.is_match(line)))
        };
        self.exit_code.is_none_or(|code| exit_code == Some(code))
            && self.requires.as_ref().is_none_or(|text| like(text).next().is_some())
            && self.lines.as_ref().is_none_or(all_say)
    }
}

fn pattern(text: &str) -> Option<Regex> {
    Regex::new(text).ok()
}

/// Renders a report for the end of a sentence.
///
/// Refers to the output shown below if that contains the report.
pub(super) fn quoted(text: &str, below: &str) -> String {
    let is_held = text.lines().all(|line| below.contains(line.trim()));
    match is_held && !text.is_empty() {
        true => "; its output below ends with the report".to_owned(),
        false => format!(":\n{text}"),
    }
}

pub(super) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// Plans the run of a test, or of all tests of its file. Blocks.
pub(super) fn run(context: &ToolContext, test: &FoundTest) -> Result<TestRun, Failure> {
    let root = context.workspace.root().clone();
    let text = context.workspace.document(&test.file)?.text;
    let directory = test.file.parent().unwrap_or_else(|| root.clone());
    let is_one = !test.name.is_empty();
    let known_as: Vec<String> = is_one.then(|| test.name.clone()).into_iter().collect();
    let run = match test.language {
        Language::Python => {
            let name: Vec<&str> = test.within.iter().chain(&known_as).map(String::as_str).collect();
            // A project in a project is run from its own directory.
            let project = above(&directory, &root, python_tests::PROJECT).unwrap_or_else(|| root.clone());
            let start = Start::Program(test.file.clone());
            if python_tests::of_unittest(&root, &directory, &text) {
                let words = python_tests::unittest_words(&test.file, &project, &text, &name);
                let run = runner("unittest")?.start(start, project, &[("test", words.args)]);
                TestRun { python_path: words.path, ..run }
            } else {
                let relative = test.file.strip_prefix(&project).unwrap_or(test.file.as_path());
                let case = python_tests::case(&root, &directory, &test.case);
                let name: String = name.iter().map(|name| format!("::{name}")).collect();
                let node = format!("{}{name}{case}", relative.display());
                let options = python_tests::against_addopts(&root, &directory);
                runner("pytest")?.start(start, project, &[("options", options), ("test", vec![node])])
            }
        }
        Language::Rust if !is_one => {
            let message = "cannot run all tests of a Rust file under the debugger; give the `name` of one";
            return Err(Failure::new(ErrorCode::Unsupported, message));
        }
        Language::Rust => {
            let package = above(&directory, &root, &["Cargo.toml"]).unwrap_or(root);
            let wanted = CargoTest {
                name: test.name.clone(),
                file: test.file.clone(),
                within: test.within.clone(),
                case: test.case.clone(),
            };
            // The words for the test are known once it is built.
            let values = [("test", Vec::new()), ("directory", vec![package.to_string()])];
            runner("cargo")?.start(Start::Cargo(wanted), package, &values)
        }
        Language::Go if !is_one => {
            let tests =
                TestFile::parse(test.file.as_path(), &text).map(|file| file.items).unwrap_or_default();
            let names: Vec<String> = tests.iter().map(|item| escaped(&item.name.render())).collect();
            let start = Start::Program(directory.clone());
            runner("go")?.start(start, directory, &[("test", vec![format!("^({})$", names.join("|"))])])
        }
        Language::Go => {
            let name = format!("{}{}", test.name, test.case);
            let pattern: Vec<String> = name.split('/').map(|part| format!("^{}$", escaped(part))).collect();
            let start = Start::Program(directory.clone());
            runner("go")?.start(start, directory, &[("test", vec![pattern.join("/")])])
        }
        _ => return javascript(test, &text, &directory, &root),
    };
    Ok(TestRun { known_as, expects_failure: test.expects_failure, ..run })
}

/// Plans the run of a JavaScript test.
///
/// The installed runner runs the test, unless the file is for Node's own.
fn javascript(test: &FoundTest, text: &str, directory: &AbsPath, root: &AbsPath) -> Result<TestRun, Failure> {
    let package = above(directory, root, &["package.json"]).unwrap_or_else(|| root.clone());
    let of_node = ["node:test", "'test'", "\"test\""].iter().any(|word| text.contains(word));
    let installed = |name: &str| above(directory, root, &[name]).map(|it| it.join(name));
    let known_as = test.titles.source.clone();
    let by = |runner: &'static Runner, script: AbsPath| {
        let is_one = !test.name.is_empty();
        let Chosen { words, note } = if is_one { test.titles.name_filter() } else { Chosen::default() };
        let values = [("file", vec![test.file.to_string()]), ("test", words)];
        let run = runner.start(Start::Program(script), package.clone(), &values);
        Ok(TestRun { variables: options(Vec::new()), known_as: known_as.clone(), note, ..run })
    };
    if !of_node {
        let script = |name: &str| {
            let runner = runner(name)?;
            Ok::<_, Failure>((runner, runner.script.as_deref().and_then(installed)))
        };
        let ((vitest, vitest_script), (jest, jest_script)) = (script("vitest")?, script("jest")?);
        // If both are installed, the file or the package's own script decides.
        let is_vitest = jest_script.is_none() || text.contains("vitest") || runs_vitest(&package);
        if let Some(script) = vitest_script.filter(|_| is_vitest) {
            return by(vitest, script);
        }
        if let Some(script) = jest_script {
            return by(jest, script);
        }
        if installed("node_modules/mocha").is_some() {
            let message = "cannot stop a mocha test at its failure; `launch` mocha's script with `breakpoints` in the test";
            return Err(Failure::new(ErrorCode::Unsupported, message));
        }
    }
    let run = runner("node")?.start(Start::Program(test.file.clone()), package, &[]);
    let titles = Some(test.titles.clone()).filter(|_| !test.name.is_empty());
    Ok(TestRun { known_as, titles, variables: options(Vec::new()), ..run })
}

/// Whether the package's script `test` starts vitest.
fn runs_vitest(package: &AbsPath) -> bool {
    let text = paths::read_settings(package.join("package.json")).unwrap_or_default();
    let package: Value = serde_json::from_str(&text).unwrap_or_default();
    package["scripts"]["test"].as_str().is_some_and(|script| script.contains("vitest"))
}

pub(super) fn options(words: Vec<String>) -> Map<String, Value> {
    Map::from_iter([("runtime_args".to_owned(), json!(words))])
}

/// Finds the nearest directory from `directory` up to `root` with one of `names`.
fn above(directory: &AbsPath, root: &AbsPath, names: &[&str]) -> Option<AbsPath> {
    let directories = directory.as_path().ancestors().take_while(|path| path.starts_with(root.as_path()));
    let mut having = directories.filter(|path| names.iter().any(|name| path.join(name).exists()));
    having.next().and_then(AbsPath::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_runner_is_read_with_its_patterns() {
        assert_eq!(RUNNERS.len(), adapters::RUNNERS.len());
        for runner in RUNNERS.iter() {
            let reports = runner.no_tests.iter().flat_map(|report| [&report.requires, &report.lines]);
            let patterns = reports.chain([&runner.summary, &runner.failure]).flatten();
            for text in patterns.chain(runner.no_tests.iter().map(|report| &report.say)) {
                assert!(pattern(text).is_some(), "{}: {text}", runner.name);
            }
        }
    }

    #[test]
    fn a_skipped_test_is_not_a_passed_one() {
        let left_out = |name: &str, output: &str| runner(name).unwrap().left_out(output);
        for (runner, output) in [
            ("pytest", "s  [100%]\n1 skipped in 0.01s\n"),
            ("pytest", "===== 1 xfailed in 0.05s =====\n"),
            ("unittest", "1 passed\nOK (skipped=1)\n"),
            ("node", "1 passed\n# pass 0\n# skipped 1\n# todo 0\n"),
            ("node", "ℹ pass 0\nℹ skipped 1\nℹ todo 0\n"),
            ("cargo", "test result: ok. 0 passed; 0 failed; 1 ignored; 0 measured\n"),
        ] {
            assert!(left_out(runner, output), "{output}");
        }
        for (runner, output) in [
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
            assert!(!left_out(runner, output), "{output}");
        }
    }

    #[test]
    fn only_the_runner_reports_that_it_has_no_such_test() {
        let line = "ok 1 - a # SKIP test name does not match pattern\n";
        let node = |pass: u64, skipped: u64, lines: &str| {
            format!("{lines}# tests 2\n# pass {pass}\n# fail 0\n# skipped {skipped}\n# todo 0\n")
        };
        let unknown = "ERROR: b (unittest.loader._FailedTest.b)\n-----\nAttributeError: type object 'A' has no \
                       attribute 'b'\n\nRan 1 test in 0.000s\n";
        let none =
            "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out\n";
        let reports = [
            ("pytest", 5, "no tests ran in 0.01s\n"),
            ("pytest", 4, "ERROR: not found: /p/t.py::a\n"),
            ("unittest", 0, "Ran 0 tests in 0.000s\n\nOK\n"),
            ("unittest", 1, unknown),
            ("cargo", 0, none),
            ("go", 0, "testing: warning: no tests to run\nPASS\n"),
            ("node", 0, "# tests 0\n# pass 0\n"),
            ("node", 0, "ℹ tests 0\nℹ pass 0\n"),
            ("node", 0, &node(0, 1, line)),
        ];
        for (name, code, output) in reports {
            assert!(runner(name).unwrap().found_none(Some(code), output), "{name}: {output}");
        }
        let others = [
            ("pytest", 0, "not found: x\nno tests ran\n1 passed in 0.01s\n"),
            ("pytest", 4, "ERROR: usage: unrecognized arguments: --x\n"),
            ("unittest", 0, "Ran 1 test in 0.001s\n\nOK\nRan 0 tests in all\nRan 0 tests in 0.1s\n"),
            ("unittest", 1, "AttributeError: 'A' has no attribute 'b'\n\nRan 1 test in 0.001s\n"),
            ("cargo", 0, "running 0 tests\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n"),
            ("go", 0, "no tests to run\n--- PASS: TestA (0.00s)\nPASS\n"),
            ("node", 0, "tests 0\n# tests 0\n# tests 1\n# pass 1\n"),
            ("node", 0, &node(1, 1, &format!("{line}ok 2 - b\n"))),
            ("node", 0, &node(0, 2, &format!("{line}ok 2 - b # SKIP\n"))),
        ];
        for (name, code, output) in others {
            assert!(!runner(name).unwrap().found_none(Some(code), output), "{name}: {output}");
        }
    }

    #[test]
    fn a_report_is_not_repeated_where_the_output_shows_it() {
        let below = "  a\n  stderr: E  assert 1\n  b\n";
        assert_eq!(quoted("E  assert 1\nb", below), "; its output below ends with the report");
        assert_eq!(quoted("c\nb", below), ":\nc\nb");
        assert_eq!(quoted("", below), ":\n");
    }

    #[test]
    fn a_failure_is_shown_from_where_its_report_begins() {
        let node = runner("node").unwrap();
        assert_eq!(node.failure("ok 1 - x\nnot ok 2 - b\n  error: 'no'\n"), "not ok 2 - b\n  error: 'no'");
        assert_eq!(node.failure("x\n✖ failing tests:\n\n✖ b\n"), "✖ failing tests:\n\n✖ b");
        let many: String = (0..40).map(|at| format!("ok {at}\n")).collect();
        assert_eq!(node.failure(&many).lines().count(), LINES);
    }
}
