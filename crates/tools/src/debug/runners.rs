//! Which runner a test is run by, and with which words. Looks at files of the project and runs nothing.

use std::path::Path;

use serde_json::{Map, Value, json};
use workspace::{AbsPath, ErrorCode, files_below};

use crate::{Failure, Kit};

/// Files that are searched for a test of a name.
const SEARCHED: usize = 5_000;
/// Bytes of a file that is searched at most.
const BYTES: u64 = 1024 * 1024;

/// A language's tests: how a file is known and how a test begins.
struct Language {
    extensions: &'static [&'static str],
    /// What stands before a test's name.
    before: &'static [&'static str],
    language: Tests,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tests {
    Python,
    Rust,
    Go,
    Node,
}

const LANGUAGES: &[Language] = &[
    Language { extensions: &["py"], before: &["def "], language: Tests::Python },
    Language { extensions: &["rs"], before: &["fn "], language: Tests::Rust },
    Language { extensions: &["go"], before: &["func "], language: Tests::Go },
    Language {
        extensions: &["js", "mjs", "cjs", "ts", "mts", "cts", "jsx", "tsx"],
        before: &["test(", "it(", "describe(", "test.only(", "it.only("],
        language: Tests::Node,
    },
];

/// A test that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Its file.
    pub file: AbsPath,
    /// Its name, without what it is in.
    pub name: String,
    /// The class it is in.
    pub class: Option<String>,
    language: Tests,
}

/// What runs a test.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// The runner's name.
    pub runner: &'static str,
    /// The name in adapter definitions under which it is run.
    pub rule: &'static str,
    /// Laid over the adapter's launch arguments.
    pub over: Option<Value>,
    /// What is started.
    pub start: Start,
    /// Its arguments.
    pub args: Vec<String>,
    /// Where it runs.
    pub cwd: AbsPath,
    /// Further variables.
    pub env: Vec<(String, String)>,
    /// Variables of the adapter's templates.
    pub more: Map<String, Value>,
    /// What the runner writes when it has no such test.
    pub nothing: &'static [&'static str],
}

/// What a runner starts.
#[derive(Debug, Clone)]
pub(super) enum Start {
    Program(AbsPath),
    Module(&'static str),
    /// A test executable that cargo has to build first, with the test's name.
    Cargo(String),
}

/// The test that is meant.
pub(super) fn find(
    kit: &Kit,
    name: Option<&str>,
    file: Option<&str>,
    line: Option<u64>,
) -> Result<Found, Failure> {
    let named = name.map(split);
    let Some(file) = file else {
        let Some((class, name)) = named else {
            return Err(super::needs("test", "name` or `file` and `line"));
        };
        return search(kit, &name, class);
    };
    let path = kit.workspace.resolve(file)?;
    let language = language(&path).ok_or_else(|| {
        let message = format!("tests of {file} are not known; give `program`, a test that is an executable");
        Failure::new(ErrorCode::Unsupported, message)
    })?;
    let document = kit.workspace.document(&path)?;
    let lines: Vec<&str> = document.text.lines().collect();
    if let Some((class, name)) = named {
        let at = lines.iter().position(|it| named_on(it, language).as_deref() == Some(&name));
        let found = at.and_then(|at| class_of(&lines, at, language));
        return Ok(Found { file: path, name, class: class.or(found), language: language.language });
    }
    let line = line.ok_or_else(|| super::needs("test", "name` or `line"))?;
    let from = usize::try_from(line).unwrap_or(usize::MAX).min(lines.len());
    let found = (0..from).rev().find_map(|at| {
        let name = named_on(lines[at], language)?;
        is_test(&name, &lines, at, language.language).then_some((at, name))
    });
    let (at, name) = found.ok_or_else(|| {
        Failure::new(ErrorCode::NotFound, format!("there is no test at {file}:{line} or before it"))
    })?;
    let class = class_of(&lines, at, language);
    Ok(Found { file: path, name, class, language: language.language })
}

/// `Class::name`, `Class.name`, `name`; of a path the last two.
fn split(name: &str) -> (Option<String>, String) {
    let parts: Vec<&str> =
        if name.contains(' ') { vec![name] } else { name.split("::").flat_map(|it| it.split('.')).collect() };
    match parts.as_slice() {
        [.., class, name] => (Some((*class).to_owned()), (*name).to_owned()),
        _ => (None, name.to_owned()),
    }
}

fn language(path: &AbsPath) -> Option<&'static Language> {
    let extension = path.as_path().extension()?.to_str()?;
    LANGUAGES.iter().find(|it| it.extensions.contains(&extension))
}

/// The name of the test or function that a line begins.
fn named_on(line: &str, language: &Language) -> Option<String> {
    let text = line.trim_start();
    let text =
        ["pub ", "async ", "export "].iter().fold(text, |text, it| text.strip_prefix(it).unwrap_or(text));
    let rest = language.before.iter().find_map(|it| text.strip_prefix(it))?.trim_start();
    if language.language == Tests::Node {
        let quote = rest.chars().next().filter(|c| "'\"`".contains(*c))?;
        return rest[1..].split(quote).next().map(str::to_owned);
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    (end > 0).then(|| rest[..end].to_owned())
}

fn is_test(name: &str, lines: &[&str], at: usize, language: Tests) -> bool {
    match language {
        Tests::Python => name.starts_with("test"),
        Tests::Go => name.starts_with("Test") || name.starts_with("Fuzz") || name.starts_with("Example"),
        Tests::Node => !lines[at].trim_start().starts_with("describe"),
        Tests::Rust => {
            let above = lines[..at].iter().rev().take_while(|it| it.trim_start().starts_with("#["));
            above.into_iter().any(|it| it.contains("test"))
        }
    }
}

fn class_of(lines: &[&str], at: usize, language: &Language) -> Option<String> {
    if language.language != Tests::Python {
        return None;
    }
    let indent = |line: &str| line.len() - line.trim_start().len();
    let own = indent(lines[at]);
    let class = lines[..at].iter().rev().find(|it| !it.trim().is_empty() && indent(it) < own)?;
    let rest = class.trim_start().strip_prefix("class ")?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(rest[..end].to_owned())
}

fn search(kit: &Kit, name: &str, class: Option<String>) -> Result<Found, Failure> {
    let mut found = Vec::new();
    for path in files_below(kit.workspace.root()).take(SEARCHED) {
        let Some(language) = language(&path) else { continue };
        if path.as_path().metadata().map_or(true, |it| it.len() > BYTES) {
            continue;
        }
        let Ok(document) = kit.workspace.document(&path) else { continue };
        if !document.text.contains(name) {
            continue;
        }
        let lines: Vec<&str> = document.text.lines().collect();
        for at in 0..lines.len() {
            if named_on(lines[at], language).as_deref() == Some(name)
                && is_test(name, &lines, at, language.language)
            {
                let of = class_of(&lines, at, language);
                if class.is_none() || of.is_none() || of == class {
                    let test = Found {
                        file: path.clone(),
                        name: name.to_owned(),
                        class: of,
                        language: language.language,
                    };
                    found.push((format!("{}:{}", kit.shown(&path), at + 1), test));
                }
            }
        }
    }
    match found.len() {
        0 => Err(Failure::new(
            ErrorCode::NotFound,
            format!("there is no test {name} in the project; give its `file`"),
        )),
        1 => Ok(found.remove(0).1),
        _ => {
            let places: Vec<&str> = found.iter().take(10).map(|(place, _)| place.as_str()).collect();
            let message = format!("several tests are called {name}; give `file`: {}", places.join(", "));
            Err(Failure::new(ErrorCode::Ambiguous, message))
        }
    }
}

/// How a test is run. Blocking.
pub(super) fn run(kit: &Kit, test: &Found) -> Result<Run, Failure> {
    let root = kit.workspace.root().clone();
    let relative = kit.shown(&test.file);
    let text = kit.workspace.document(&test.file)?.text;
    let folder = test.file.parent().unwrap_or_else(|| root.clone());
    let run = |runner, start, args, cwd| Run {
        runner,
        rule: runner,
        over: None,
        start,
        args,
        cwd,
        env: Vec::new(),
        more: Map::new(),
        nothing: &[],
    };
    match test.language {
        Tests::Python => {
            let qualified = |between: &str| match &test.class {
                Some(class) => format!("{class}{between}{}", test.name),
                None => test.name.clone(),
            };
            let env = vec![("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned())];
            let unittest = text.contains("unittest") && !uses_pytest(&root, &folder, &text);
            let run = if unittest {
                // With a star it is the whole name that has to fit.
                let args = vec!["-v".to_owned(), relative, "-k".to_owned(), format!("*.{}", qualified("."))];
                Run { nothing: &["Ran 0 tests"], ..run("unittest", Start::Module("unittest"), args, root) }
            } else {
                let node = format!("{relative}::{}", qualified("::"));
                let args = ["-x", "-q", "-p", "no:cacheprovider"].map(str::to_owned);
                let args = args.into_iter().chain([node]).collect();
                let nothing = &["not found: ", "no tests ran"];
                Run { nothing, ..run("pytest", Start::Module("pytest"), args, root) }
            };
            Ok(Run { env, ..run })
        }
        Tests::Rust => {
            let package = above(&folder, &root, &["Cargo.toml"]).unwrap_or(root);
            let args = ["--exact", "--nocapture", "--test-threads=1"].map(str::to_owned).to_vec();
            let nothing = &["running 0 tests"];
            Ok(Run { nothing, ..run("cargo", Start::Cargo(test.name.clone()), args, package) })
        }
        Tests::Go => {
            let pattern: Vec<String> = test.name.split('/').map(|it| format!("^{}$", escaped(it))).collect();
            let args = vec!["-test.run".to_owned(), pattern.join("/"), "-test.v".to_owned()];
            let nothing = &["no tests to run"];
            Ok(Run { nothing, ..run("go", Start::Program(folder.clone()), args, folder) })
        }
        Tests::Node => {
            let package = above(&folder, &root, &["package.json"]).unwrap_or_else(|| root.clone());
            let pattern = format!("^{}$", escaped(&test.name));
            let from_node =
                text.contains("node:test") || text.contains("'test'") || text.contains("\"test\"");
            let installed = |name: &str| above(&folder, &root, &[name]).is_some();
            let script = |name: &str| above(&folder, &root, &[name]).map(|it| it.join(name));
            let file = test.file.to_string();
            // While a program is held its clock goes on.
            let patience = "--testTimeout=86400000".to_owned();
            let words = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
            let by = |runner, script, args, over| Run {
                rule: "node",
                over,
                more: options(Vec::new()),
                ..run(runner, Start::Program(script), args, package.clone())
            };
            let (vitest, jest) =
                (script("node_modules/vitest/vitest.mjs"), script("node_modules/jest/bin/jest.js"));
            // Where both are there the file or the package's own script says which.
            let is_vitest = || jest.is_none() || text.contains("vitest") || runs_vitest(&package);
            if let (Some(script), false) = (vitest.filter(|_| is_vitest()), from_node) {
                let mut args =
                    words(&["run", &file, "--no-file-parallelism", "-t", &whole(&test.name, &text)]);
                args.push(patience);
                // Its server throws and catches all the while.
                let quiet = ["vite", "vite-node", "rollup", "rolldown", "esbuild", "tinypool", "tinyexec"];
                let mut skipped = vec!["<node_internals>/**".to_owned()];
                skipped.extend(quiet.iter().map(|it| format!("**/node_modules/{it}/**")));
                let over = json!({ "skipFiles": skipped });
                return Ok(by("vitest", script, args, Some(over)));
            }
            if let (Some(script), false) = (jest, from_node) {
                let mut args =
                    words(&["--runInBand", "--runTestsByPath", &file, "-t", &whole(&test.name, &text)]);
                args.push(patience);
                let over = json!({ "skipFiles": ["<node_internals>/**"] });
                return Ok(by("jest", script, args, Some(over)));
            }
            if !from_node && installed("node_modules/mocha") {
                let message = "a test of mocha cannot be stopped at its failure yet; `launch` its own script in \
                               node_modules with `breakpoints` in the test";
                return Err(Failure::new(ErrorCode::Unsupported, message));
            }
            let more = options(vec!["--test-name-pattern".to_owned(), pattern]);
            Ok(Run {
                nothing: &["# tests 0", "tests 0"],
                more,
                ..run("node", Start::Program(test.file.clone()), Vec::new(), package)
            })
        }
    }
}

/// Whether the package's script `test` starts vitest.
fn runs_vitest(package: &AbsPath) -> bool {
    let text = std::fs::read_to_string(package.join("package.json").as_path()).unwrap_or_default();
    let package: Value = serde_json::from_str(&text).unwrap_or_default();
    package["scripts"]["test"].as_str().is_some_and(|it| it.contains("vitest"))
}

fn options(words: Vec<String>) -> Map<String, Value> {
    Map::from_iter([("runtime_args".to_owned(), json!(words))])
}

/// Whether a project's Python tests are pytest's: its settings, its fixtures, or the file itself says so.
fn uses_pytest(root: &AbsPath, folder: &AbsPath, text: &str) -> bool {
    if text.contains("import pytest") {
        return true;
    }
    let says = |file: &Path, what: &str| std::fs::read_to_string(file).is_ok_and(|text| text.contains(what));
    let root = root.as_path();
    folder.as_path().ancestors().take_while(|it| it.starts_with(root)).any(|it| {
        it.join("conftest.py").is_file()
            || it.join("pytest.ini").is_file()
            || says(&it.join("pyproject.toml"), "[tool.pytest")
            || says(&it.join("setup.cfg"), "[tool:pytest]")
            || says(&it.join("tox.ini"), "[pytest]")
    })
}

/// The nearest folder from `folder` up to `root` that has one of `names`.
fn above(folder: &AbsPath, root: &AbsPath, names: &[&str]) -> Option<AbsPath> {
    let folders = folder.as_path().ancestors().take_while(|it| it.starts_with(root.as_path()));
    let mut folders = folders.filter(|it| names.iter().any(|name| it.join(name).exists()));
    folders.next().and_then(AbsPath::new)
}

/// The tests of a name, and none of a longer one, as a regular expression over their groups' names and their
/// own; all of a group where the name is one's.
fn whole(name: &str, text: &str) -> String {
    let is_group = LANGUAGES.iter().filter(|it| it.language == Tests::Node).any(|language| {
        let mut groups = text.lines().filter(|it| it.trim_start().starts_with("describe("));
        groups.any(|it| named_on(it, language).as_deref() == Some(name))
    });
    format!("(^| ){}{}", escaped(name), if is_group { "( |$)" } else { "$" })
}

/// A text as a regular expression.
fn escaped(text: &str) -> String {
    let special = |c: char| "\\^$.|?*+()[]{}/".contains(c);
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(extension: &str) -> &'static Language {
        LANGUAGES.iter().find(|it| it.extensions.contains(&extension)).expect("a language")
    }

    #[test]
    fn a_test_is_known_by_its_first_line() {
        let named = |line: &str, extension: &str| named_on(line, of(extension)).unwrap_or_default();
        assert_eq!(named("    async def test_a(self):", "py"), "test_a");
        assert_eq!(named("    pub fn adds() {", "rs"), "adds");
        assert_eq!(named("func TestAdd(t *testing.T) {", "go"), "TestAdd");
        assert_eq!(named("test('adds up (twice)', () => {", "js"), "adds up (twice)");
        assert_eq!(named("  it(\"works\", async () => {", "ts"), "works");
        assert_eq!(named("x = 1", "py"), "");
        let lines = ["#[test]", "#[should_panic]", "fn a() {", "fn b() {"];
        assert!(is_test("a", &lines, 2, Tests::Rust) && !is_test("b", &lines, 3, Tests::Rust));
        let lines = ["class TestCart(TestCase):", "", "    def test_a(self):", "def test_b():"];
        assert_eq!(class_of(&lines, 2, of("py")).as_deref(), Some("TestCart"));
        assert_eq!(class_of(&lines, 3, of("py")), None);
    }

    #[test]
    fn names_are_split_and_escaped() {
        assert_eq!(split("Cart::test_a"), (Some("Cart".into()), "test_a".into()));
        assert_eq!(split("adds 1.5 up"), (None, "adds 1.5 up".into()));
        assert_eq!(escaped("adds (1+1)"), "adds \\(1\\+1\\)");
        let text = "describe('cart', () => {\n  test('adds', () => {});\n  test('adds more', () => {});";
        assert_eq!(whole("adds", text), "(^| )adds$");
        assert_eq!(whole("cart", text), "(^| )cart( |$)");
    }
}
