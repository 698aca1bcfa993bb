//! Python tests: the classes that run a test, and the runners' arguments.

use std::path::Path;

use paths::AbsPath;

use super::test_discovery::{TestFile, TestItem};

/// Files that mark a directory as a Python project.
pub(super) const PROJECT: &[&str] =
    &["pyproject.toml", "pytest.ini", "setup.py", "setup.cfg", "tox.ini", "Pipfile", "requirements.txt"];

/// Lists the classes of a file that run a test of `class`.
///
/// These are that class itself if it is a test class, and the classes that inherit the test from it.
pub(super) fn runs_in(file: &TestFile, class: &str, test: &str, of_unittest: bool) -> Vec<String> {
    let classes: Vec<&TestItem> = classes(file).collect();
    let has_own = |name: &str| {
        file.items
            .iter()
            .any(|item| !item.is_group && item.name.render() == test && item.outer_names() == [name])
    };
    let mut heirs = vec![class.to_owned()];
    // A class comes after its bases.
    for item in &classes {
        let name = item.name.render();
        if name != class && item.bases.iter().any(|base| heirs.contains(base)) && !has_own(&name) {
            heirs.push(name);
        }
    }
    heirs.retain(|name| is_case(&classes, name, 0) || (!of_unittest && name.starts_with("Test")));
    heirs
}

/// Whether a class may be a `TestCase` by its bases; an imported base may be one.
fn is_case(classes: &[&TestItem], name: &str, depth: usize) -> bool {
    const PLAIN: &[&str] = &["object", "ABC", "Generic", "Protocol"];
    const DEEPEST: usize = 20;
    match classes.iter().find(|class| class.name.render() == name) {
        Some(class) => depth < DEEPEST && class.bases.iter().any(|base| is_case(classes, base, depth + 1)),
        None => !PLAIN.contains(&name),
    }
}

/// Lists the top-level classes of a file.
fn classes(file: &TestFile) -> impl Iterator<Item = &TestItem> {
    file.items.iter().filter(|item| item.is_group && item.outer.is_empty())
}

/// Whether unittest runs the tests of a file, rather than pytest.
pub(super) fn of_unittest(root: &AbsPath, directory: &AbsPath, text: &str) -> bool {
    text.contains("unittest") && !uses_pytest(root, directory, text)
}

/// The arguments of unittest for one test, with its search path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub args: Vec<String>,
    /// Directory of its module, first in the search path.
    pub path: Option<AbsPath>,
}

/// Builds the arguments of unittest for one test.
///
/// For a test in a class of the file they name its module, so that `load_tests` adds no others. For other
/// tests they discover from the directory of the file or of its package. The run ends at the first failure,
/// also that of a `subTest`, whose values are then visible.
pub(super) fn unittest_words(file: &AbsPath, project: &AbsPath, text: &str, test: &[&str]) -> Words {
    let folder = file.parent().unwrap_or_else(|| project.clone());
    let stem = file.as_path().file_stem().unwrap_or_default().to_string_lossy();
    let is_module = |it: &str| !it.is_empty() && it.chars().all(|c| c.is_alphanumeric() || c == '_');
    let words = |words: &[&str]| -> Vec<String> { words.iter().map(|it| (*it).to_owned()).collect() };
    // With a star the pattern must match the whole name.
    let name = format!("*.{}", test.join("."));
    let filter: &[&str] = if test.is_empty() { &[] } else { &["-k", &name] };
    if !is_module(&stem) {
        let relative = file.strip_prefix(project).unwrap_or(file.as_path()).display().to_string();
        return Words { args: words(&[&["-f", "-v", &*relative], filter].concat()), path: None };
    }
    let in_package = |it: &&Path| it.join("__init__.py").is_file();
    let mut top = folder.as_path().ancestors().skip_while(in_package);
    let top = top.next().and_then(AbsPath::new).unwrap_or_else(|| folder.clone());
    let tests = TestFile::parse(file.as_path(), text);
    let has_class = |tests: &TestFile| classes(tests).any(|class| class.name.render() == test[0]);
    let of_class = test.len() > 1 && tests.as_ref().is_some_and(has_class);
    let module = file.strip_prefix(&top).map(|it| it.with_extension(""));
    let module =
        module.map(|it| it.components().map(|it| it.as_os_str().to_string_lossy().into_owned()).collect());
    if let Some(module) = module.filter(|it: &Vec<String>| of_class && it.iter().all(|it| is_module(it))) {
        // The working directory comes first in the search path.
        let first = project.join(&module[0]);
        let other =
            top != *project && (first.as_path().is_dir() || first.as_path().with_extension("py").is_file());
        if !other {
            let name = format!("{}.{}", module.join("."), test.join("."));
            return Words { args: words(&["-f", "-v", &name]), path: Some(top) };
        }
    }
    let (folder, top) = (folder.to_string(), top.to_string());
    let args = ["discover", "-f", "-v", "-s", &folder, "-t", &top, "-p", &file.file_name()];
    Words { args: words(&[&args, filter].concat()), path: None }
}

/// Returns options that undo settings of pytest which conflict with a debugger.
///
/// Coverage uses the same trace hook, and xdist runs tests in other processes.
pub(super) fn against_addopts(root: &AbsPath, folder: &AbsPath) -> Vec<String> {
    let mut folders = folder.as_path().ancestors().take_while(|it| it.starts_with(root.as_path()));
    let Some(options) = folders.find_map(pytest_options) else { return Vec::new() };
    let words = || options.iter().flat_map(|it| it.split_whitespace()).map(|it| it.trim_matches(['\'', '"']));
    let mut against = Vec::new();
    if words().any(|it| it.starts_with("--cov")) && !words().any(|it| it == "no:cov") {
        against.push("--no-cov".to_owned());
    }
    let workers = |it: &str| {
        it == "--numprocesses"
            || it.starts_with("--numprocesses=")
            || it.strip_prefix("-n").is_some_and(|it| {
                it.is_empty() || it == "auto" || it == "logical" || it.chars().all(|c| c.is_ascii_digit())
            })
    };
    if words().any(workers) && !words().any(|it| it == "no:xdist") {
        against.push("-n0".to_owned());
    }
    against
}

/// Renders the name of a case in pytest's form.
///
/// Escapes non-ASCII characters unless a setting forbids it.
pub(super) fn case(root: &AbsPath, folder: &AbsPath, case: &str) -> String {
    const AS_IT_IS: &str = "disable_test_id_escaping_and_forfeit_all_rights_to_community_support";
    const SETTINGS: &[&str] = &["pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"];
    let says = |path: &Path| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let value = |line: &str| {
            let (name, value) = line.split_once('=')?;
            (name.trim().trim_matches('"') == AS_IT_IS).then(|| value.trim().to_ascii_lowercase())
        };
        text.lines()
            .find_map(value)
            .is_some_and(|it| ["true", "1", "yes", "on"].contains(&it.trim_matches('"')))
    };
    let mut folders = folder.as_path().ancestors().take_while(|it| it.starts_with(root.as_path()));
    if case.is_ascii() || folders.any(|it| SETTINGS.iter().any(|name| says(&it.join(name)))) {
        return case.to_owned();
    }
    let escaped = |c: char| match u32::from(c) {
        0..=0x7f => c.to_string(),
        code @ 0x80..=0xff => format!("\\x{code:02x}"),
        code @ 0x100..=0xffff => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    };
    case.chars().map(escaped).collect()
}

/// Whether pytest runs the Python tests of a project.
///
/// The settings, the fixtures or the file itself show this.
fn uses_pytest(root: &AbsPath, folder: &AbsPath, text: &str) -> bool {
    let mut folders = folder.as_path().ancestors().take_while(|it| it.starts_with(root.as_path()));
    text.contains("import pytest")
        || folders.any(|it| it.join("conftest.py").is_file() || pytest_options(it).is_some())
}

/// Reads the options in a directory's settings of pytest; `None` without settings.
fn pytest_options(folder: &Path) -> Option<Vec<String>> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let own = ["pytest.ini", ".pytest.ini"].into_iter().filter_map(read);
    if let Some(text) = own.into_iter().next() {
        return Some(ini_options(&text, "pytest").unwrap_or_default());
    }
    read("pyproject.toml")
        .and_then(|it| toml_options(&it))
        .or_else(|| ini_options(&read("tox.ini")?, "pytest"))
        .or_else(|| ini_options(&read("setup.cfg")?, "tool:pytest"))
}

/// Reads `addopts` of `[tool.pytest.ini_options]`, or of `[tool.pytest]` itself.
fn toml_options(text: &str) -> Option<Vec<String>> {
    let all: toml::Table = text.parse().ok()?;
    let own = all.get("tool")?.get("pytest")?;
    let options = own.get("ini_options").unwrap_or(own).get("addopts");
    Some(match options {
        Some(toml::Value::String(text)) => vec![text.clone()],
        Some(toml::Value::Array(all)) => all.iter().filter_map(|it| Some(it.as_str()?.to_owned())).collect(),
        _ => Vec::new(),
    })
}

/// Reads the value of `addopts` in a section of an INI file.
///
/// Includes the indented lines after it. `None` without the section.
fn ini_options(text: &str, section: &str) -> Option<Vec<String>> {
    let (mut inside, mut has_section, mut key) = (false, false, "");
    let mut found = Vec::new();
    for line in text.lines().filter(|it| !it.trim().is_empty() && !it.trim_start().starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|it| it.split(']').next()) {
            inside = name.trim() == section;
            has_section |= inside;
            key = "";
        } else if line.starts_with(char::is_whitespace) {
            found.extend((inside && key == "addopts").then(|| line.trim().to_owned()));
        } else if let Some((name, value)) = line.split_once(['=', ':']) {
            key = name.trim();
            found.extend((inside && key == "addopts").then(|| value.trim().to_owned()));
        }
    }
    has_section.then_some(found)
}

/// Whether a line is in the body of a `with` of its function.
///
/// That may handle an exception.
pub(super) fn is_in_with(text: &str, line: u64) -> bool {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let last = usize::try_from(line).unwrap_or(usize::MAX);
    let lines: Vec<&str> = text.lines().take(last).filter(|line| !line.trim().is_empty()).collect();
    let Some((at, before)) = lines.split_last() else { return false };
    let mut inner = indent(at);
    for line in before.iter().rev() {
        let code = line.trim_start();
        // A bracket that closes the header of a block says nothing about its kind.
        if indent(line) >= inner || code.starts_with([')', ']', '}']) {
            continue;
        }
        inner = indent(line);
        match code.strip_prefix("async ").unwrap_or(code).split([' ', '(']).next() {
            Some("with") => return true,
            Some("def" | "class") => return false,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write their fixtures")]
mod tests {
    use super::*;

    #[test]
    fn a_with_around_a_line_may_handle_its_exception() {
        let text = "with x:\n  pass\ndef f():\n  with (\n    a,\n  ):\n    if b:\n      g()\n  h()\n  async with c:\n    d(\n  1)\n";
        let found: Vec<u64> = (1..=12).filter(|line| is_in_with(text, *line)).collect();
        assert_eq!(found, [2, 5, 7, 8, 11]);
    }

    #[test]
    fn a_test_runs_in_the_classes_that_inherit_it() {
        let text = "class Mixin:\n    def test_a(self):\n        pass\n\nclass Base(unittest.TestCase):\n    def test_b(self): pass\n\n\
                    class One(Mixin, Base): pass\nclass Two(\n    Mixin,\n    t.TestCase,  # so\n):\n    async def test_b(self): pass\n\n\
                    class Three(One, metaclass=M):\n    def test_a(self): pass\nclass Four(Three): pass\nclass TestFive(Mixin): pass\n";
        let lines = &TestFile::parse(Path::new("a.py"), text).unwrap();
        assert_eq!(runs_in(lines, "Mixin", "test_a", true), ["One", "Two"]);
        assert_eq!(runs_in(lines, "Mixin", "test_a", false), ["One", "Two", "TestFive"]);
        assert_eq!(runs_in(lines, "Base", "test_b", true), ["Base", "One", "Three", "Four"]);
        assert_eq!(runs_in(lines, "Three", "test_a", true), ["Three", "Four"]);
        // All on one line, and a colon in brackets.
        let text = "class Plain: pass\nclass Case(TestCase):\n    def test_a(self): pass\nclass Low(\n    Case, k={1: 2},\n): pass\n\
                    class More(Low):\n    x = 1\n";
        let lines = &TestFile::parse(Path::new("a.py"), text).unwrap();
        assert_eq!(runs_in(lines, "Case", "test_a", true), ["Case", "Low", "More"]);
    }

    #[test]
    fn unittest_gets_the_test_name_with_its_module() {
        let folder = tempfile::tempdir().unwrap();
        let project = AbsPath::new(folder.path().canonicalize().unwrap()).unwrap();
        let tests = project.join("my tests");
        std::fs::create_dir(tests.as_path()).unwrap();
        let text = "class T(TestCase):\n    def t(self): pass\n";
        let words = |file: &str, test: &[&str]| unittest_words(&tests.join(file), &project, text, test);
        let named = |name: &str, path: &AbsPath| Words {
            args: ["-f", "-v", name].map(str::to_owned).to_vec(),
            path: Some(path.clone()),
        };
        assert_eq!(words("test_a.py", &["T", "t"]), named("test_a.T.t", &tests));
        let (tests_text, top) = (tests.to_string(), project.to_string());
        let all =
            ["discover", "-f", "-v", "-s", &tests_text, "-t", &tests_text, "-p", "test_a.py", "-k", "*.t"];
        assert_eq!(words("test_a.py", &["t"]).args, all);
        assert_eq!(words("test_a.py", &["Other", "t"]).args.last().unwrap(), "*.Other.t");
        std::fs::write(project.join("test_a.py").as_path(), "").unwrap();
        assert_eq!(words("test_a.py", &["T", "t"]).args[0], "discover");
        std::fs::write(tests.join("__init__.py").as_path(), "").unwrap();
        assert_eq!(words("test_a.py", &["t"]).args[6], top);
        assert_eq!(words("test-a.py", &["T", "t"]).args, ["-f", "-v", "my tests/test-a.py", "-k", "*.T.t"]);
        let deep = project.join("deep");
        std::fs::create_dir(deep.as_path()).unwrap();
        std::fs::write(deep.join("__init__.py").as_path(), "").unwrap();
        let words = unittest_words(&deep.join("test_b.py"), &project, text, &["T", "t"]);
        assert_eq!(words, named("deep.test_b.T.t", &project));
    }

    #[test]
    fn a_case_is_named_as_pytest_escapes_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = AbsPath::new(folder.path().canonicalize().unwrap()).unwrap();
        let case = |text: &str| super::case(&root, &root, text);
        assert_eq!(case("[2-x\\xfc]"), "[2-x\\xfc]");
        assert_eq!(case("[ü-€-🦀]"), "[\\xfc-\\u20ac-\\U0001f980]");
        let name = "disable_test_id_escaping_and_forfeit_all_rights_to_community_support";
        let text = format!("[tool.pytest.ini_options]\n{name} = true\n");
        std::fs::write(root.join("pyproject.toml").as_path(), text).unwrap();
        assert_eq!(case("[ü]"), "[ü]");
    }

    #[test]
    fn project_options_that_conflict_with_a_debugger_are_undone() {
        let check = |name: &str, text: &str, expected: &[&str]| {
            let folder = tempfile::tempdir().unwrap();
            let root = AbsPath::new(folder.path().canonicalize().unwrap()).unwrap();
            std::fs::write(root.join(name).as_path(), text).unwrap();
            assert_eq!(against_addopts(&root, &root), expected, "{text}");
        };
        let toml = |text: &str, expected: &[&str]| {
            check("pyproject.toml", &format!("[tool.pytest.ini_options]\n{text}"), expected);
        };
        toml("addopts = \"-q --cov=x -n auto\"\n", &["--no-cov", "-n0"]);
        toml("addopts = [\n  \"--cov-report=term\",\n  # \"-n4\",\n]\n", &["--no-cov"]);
        toml("addopts = '-ra'\n[tool.x]\ny = '--cov -n4'\n", &[]);
        toml("# addopts = '--cov'\naddopts = '-ra'  # no --cov\n", &[]);
        toml("addopts = '--cov=x -p no:cov'\n", &[]);
        check("pyproject.toml", "[tool.x]\naddopts = '--cov'\n", &[]);
        check("pyproject.toml", "[tool.pytest]\naddopts = ['-n', '4']\n", &["-n0"]);
        check(
            "pytest.ini",
            "[pytest]\n# addopts = --cov\naddopts = -q\n    # -n4\n    --cov=x\nother = -n4\n",
            &["--no-cov"],
        );
        check("tox.ini", "[testenv]\naddopts = --cov\n[pytest]\n; addopts = -n4\n", &[]);
        check("setup.cfg", "[tool:pytest]\naddopts =\n  -n=2\n  --numprocesses=2\n", &["-n0"]);
    }
}
