//! Search for a requested test by name or place, in one file or in the project.

use std::time::{Duration, Instant};

use paths::AbsPath;
use policy::ErrorCode;
use syntax::{Language, Query};
use tokio_util::sync::CancellationToken;
use workspace::Budget;

use super::js_test_filter::{self, Titles};
use super::python_tests;
use super::test_discovery::{TestFile, TestItem, TestRequest, is_javascript};
use crate::{Failure, ToolContext};

/// Maximum number of files that the search in the project reads.
const MAX_FILES: usize = 5_000;
const SEARCH_TIME: Duration = Duration::from_secs(10);

/// A test found in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundTest {
    pub file: AbsPath,
    /// Name without classes, modules or groups; empty for all tests of the file.
    pub name: String,
    /// The requested case, such as `[2-x]` of pytest, `/two` of Go, `::case_2` of Rust.
    pub case: String,
    /// Classes, modules or groups that contain the test, outermost first.
    pub within: Vec<String>,
    /// Titles of a JavaScript test.
    pub titles: Titles,
    pub language: Language,
    /// Whether the source marks the test as expected to fail.
    pub expects_failure: bool,
}

/// Finds the requested test. Blocks.
pub(super) fn find(
    context: &ToolContext,
    name: Option<&str>,
    file: Option<&str>,
    line: Option<u64>,
) -> Result<FoundTest, Failure> {
    let request = name.map(TestRequest::read);
    let exists = |file: &String| context.workspace.resolve(file).is_ok_and(|path| path.as_path().is_file());
    let own = request.as_ref().and_then(|request| request.file.clone()).filter(exists);
    let file = file.map(str::to_owned).or(own);
    let Some(file) = file else {
        let Some(request) = request else {
            return Err(super::needs("test", "name` or `file"));
        };
        let mut found = search(context, &request);
        if let Some(other) = request.of_cases().filter(|_| found.is_empty()) {
            found = search(context, &other);
        }
        return one_of(found, &request.text, "the project; give its `file`", "give `file`");
    };
    let path = context.workspace.resolve(&file)?;
    let text = context.workspace.document(&path)?.text;
    let tests = TestFile::parse(path.as_path(), &text).ok_or_else(|| {
        let message = format!("cannot find tests in {file}; give a test executable as `program`");
        Failure::new(ErrorCode::Unsupported, message)
    })?;
    let source = Source { context, path: &path, text: &text, tests: &tests };
    if let Some(request) = request {
        let mut found = source.named(&request);
        if let Some(other) = request.of_cases().filter(|_| found.is_empty()) {
            found = source.named(&other);
        }
        if let (Some(line), true) = (line, found.len() > 1) {
            found.retain(|(at, ..)| *at <= line);
            let nearest = found.iter().map(|(at, ..)| *at).max();
            found.retain(|(at, ..)| Some(*at) == nearest);
        }
        if found.is_empty() {
            // The runner may know tests that the file does not show, such as inherited ones.
            let titles = Titles::unknown(&request.text);
            let (name, case, within) = match is_javascript(tests.language) {
                true => (request.text, String::new(), Vec::new()),
                false => (request.name, request.case, request.within),
            };
            let language = tests.language;
            return Ok(FoundTest {
                file: path,
                name,
                case,
                within,
                titles,
                language,
                expects_failure: false,
            });
        }
        return one_of(found, &request.text, &file, "give its `line`");
    }
    let Some(line) = line else {
        return Ok(FoundTest {
            file: path,
            name: String::new(),
            case: String::new(),
            within: Vec::new(),
            titles: Titles::default(),
            language: tests.language,
            expects_failure: tests.items.iter().any(|item| item.expects_failure),
        });
    };
    let item = tests.test_before(line).ok_or_else(|| {
        Failure::new(
            ErrorCode::NotFound,
            format!("there is no test at or before {file}:{line}; give a later `line` or its `name`"),
        )
    })?;
    let found =
        source.inherited((item.line, format!("{file}:{}", item.line), source.found(item, None)), true);
    one_of(found, &item.name.render(), &file, "name its class")
}

/// A test with its first line (1-based) and its place for messages.
type Candidate = (u64, String, FoundTest);

fn one_of(mut found: Vec<Candidate>, name: &str, place: &str, help: &str) -> Result<FoundTest, Failure> {
    match found.len() {
        0 => {
            let message = format!("there is no test {name} in {place}");
            Err(Failure::new(ErrorCode::NotFound, message))
        }
        1 => Ok(found.remove(0).2),
        _ => {
            const SHOWN: usize = 10;
            let places: Vec<&str> = found.iter().take(SHOWN).map(|(_, place, _)| place.as_str()).collect();
            // Inherited tests share one line.
            let help = if found.windows(2).any(|it| it[0].0 == it[1].0) { "name its class" } else { help };
            let more = found.len().saturating_sub(SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let message = format!("several tests are named {name}; {help}: {}{more}", places.join(", "));
            Err(Failure::new(ErrorCode::Ambiguous, message))
        }
    }
}

/// A file with its tests.
struct Source<'a> {
    context: &'a ToolContext,
    path: &'a AbsPath,
    text: &'a str,
    tests: &'a TestFile,
}

impl Source<'_> {
    fn found(&self, item: &TestItem, request: Option<&TestRequest>) -> FoundTest {
        let mut found = FoundTest {
            file: self.path.clone(),
            name: item.name.render(),
            case: request.map(|request| request.case.clone()).unwrap_or_default(),
            within: item.outer_names(),
            titles: Titles::default(),
            language: self.tests.language,
            expects_failure: item.expects_failure,
        };
        if is_javascript(found.language) {
            let alike = |other: &&TestItem| {
                *other != item && (&other.name, other.is_group) == (&item.name, item.is_group)
            };
            let alike: Vec<_> =
                self.tests.items.iter().filter(alike).map(|other| other.outer.as_slice()).collect();
            let text = request.map(|request| request.text.as_str());
            found.titles = Titles::of(item, text, &alike);
            found.case = String::new();
            if let Some(text) = text.filter(|_| !item.name.is_whole()) {
                found.name = text.to_owned();
            }
        }
        found
    }

    /// Finds the requested tests of the file. A JavaScript group runs as a whole.
    fn named(&self, request: &TestRequest) -> Vec<Candidate> {
        let javascript = is_javascript(self.tests.language);
        let module = module_of(self.path, self.context.workspace.root(), self.tests.language);
        let fits = |item: &&TestItem| match javascript {
            true => item.name.may_end(&request.text) && js_test_filter::fits(item, &request.text),
            false => {
                let place: Vec<String> = module.iter().cloned().chain(item.outer_names()).collect();
                !item.is_group && item.name.fits(&request.name) && request.may_be_in(&place)
            }
        };
        let mut found = Vec::new();
        for item in self.tests.items.iter().filter(fits) {
            let place = format!("{}:{}", self.context.display_path(self.path), item.line);
            let test = self.found(item, Some(request));
            let chosen = request.within.last().is_some() && request.within.last() == test.within.last();
            found.extend(self.inherited((item.line, place, test), chosen));
        }
        literal_first(&mut found);
        // The class may inherit the test from another class of the file.
        if found.is_empty()
            && let Some(class) = request.within.last()
            && self.tests.items.iter().any(|item| item.is_group && item.name.render() == *class)
            && self.tests.language == Language::Python
        {
            let in_any_class = TestRequest { within: Vec::new(), ..request.clone() };
            found = self.named(&in_any_class);
            found.truncate(1);
            found.iter_mut().for_each(|(_, _, test)| test.within = vec![class.clone()]);
        }
        found
    }

    /// Returns a Python test in each class that runs it.
    ///
    /// If `chosen` is a class that runs the test, returns only that one.
    fn inherited(&self, found: Candidate, chosen: bool) -> Vec<Candidate> {
        let (at, place, test) = &found;
        let [class] = test.within.as_slice() else { return vec![found] };
        if test.language != Language::Python {
            return vec![found];
        }
        let root = self.context.workspace.root();
        let directory = test.file.parent().unwrap_or_else(|| root.clone());
        let of_unittest = python_tests::of_unittest(root, &directory, self.text);
        let classes = python_tests::runs_in(self.tests, class, &test.name, of_unittest);
        if classes.is_empty() || (chosen && classes.contains(class)) {
            return vec![found];
        }
        let in_class = |class: &String| {
            let name = &test.name;
            let place = if classes.len() > 1 { format!("{place} ({class}.{name})") } else { place.clone() };
            (*at, place, FoundTest { within: vec![class.clone()], ..test.clone() })
        };
        classes.iter().map(in_class).collect()
    }
}

/// Prefers tests with the literal name over those with parameters.
fn literal_first(found: &mut Vec<Candidate>) {
    if found.iter().any(|(.., test)| test.titles.literal) {
        found.retain(|(.., test)| test.titles.literal);
    }
}

/// Derives the module path of a file from its path.
fn module_of(path: &AbsPath, root: &AbsPath, language: Language) -> Vec<String> {
    let relative = path.strip_prefix(root).unwrap_or(path.as_path()).with_extension("");
    let mut parts: Vec<String> =
        relative.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    let whole: &[&str] = if language == Language::Rust { &["mod", "lib", "main"] } else { &["__init__"] };
    if parts.last().is_some_and(|part| whole.contains(&part.as_str())) {
        parts.pop();
    }
    parts.retain(|part| language != Language::Rust || part != "src");
    parts
}

fn search(context: &ToolContext, request: &TestRequest) -> Vec<Candidate> {
    let workspace = &context.workspace;
    let has_tests = |path: &AbsPath| {
        let language = Language::of(&path.as_path().to_string_lossy(), "");
        request.may_be_of(path.as_path()) && language.is_some_and(|language| Query::tests(language).is_some())
    };
    // The source of a JavaScript title may differ from its text.
    let may_contain_tests = |text: &str| {
        let words = ["test(", "test.", "it(", "it.", "describe", "suite"];
        text.contains(&request.name) || words.iter().any(|word| text.contains(word))
    };
    let budget =
        Budget { files: MAX_FILES, ..Budget::new(Instant::now() + SEARCH_TIME, CancellationToken::new()) };
    let mut candidates = workspace.candidates(workspace.files(workspace.root()).filter(has_tests), budget);
    let mut found = Vec::new();
    while let Some(document) = candidates.next_document(may_contain_tests) {
        if let Some(tests) = TestFile::parse(document.path.as_path(), &document.text) {
            let source = Source { context, path: &document.path, text: &document.text, tests: &tests };
            found.extend(source.named(request));
        }
    }
    literal_first(&mut found);
    found
}
