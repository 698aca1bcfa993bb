//! The test that somebody means, by its name or a place, in one file or in the project.

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

/// Files that are searched for a test of a name, and for how long.
const SEARCHED: usize = 5_000;
const SEARCH_TIME: Duration = Duration::from_secs(10);

/// A test that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundTest {
    pub file: AbsPath,
    /// Its name, without what it is in.
    pub name: String,
    /// Which of its cases: `[2-x]` of pytest, `/two` of Go, `::case_2` of Rust.
    pub case: String,
    /// Classes, modules or groups in the file that it is in, outermost first.
    pub within: Vec<String>,
    /// Its name among others, where that is a title.
    pub titles: Titles,
    pub language: Language,
    /// It is marked as a test that is to fail.
    pub expects_failure: bool,
}

/// Finds the test that is meant. Blocking.
pub(super) fn find(
    context: &ToolContext,
    name: Option<&str>,
    file: Option<&str>,
    line: Option<u64>,
) -> Result<FoundTest, Failure> {
    let request = name.map(TestRequest::read);
    let is_there = |file: &String| context.workspace.resolve(file).is_ok_and(|path| path.as_path().is_file());
    let own = request.as_ref().and_then(|request| request.file.clone()).filter(is_there);
    let file = file.map(str::to_owned).or(own);
    let Some(file) = file else {
        let Some(request) = request else {
            return Err(super::needs("test", "name` or `file` and `line"));
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
        let message = format!("tests of {file} are not known; give `program`, a test that is an executable");
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
            // The runner may know a test that the file does not show, such as an inherited one.
            let titles = Titles::unseen(&request.text);
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
    let line = line.ok_or_else(|| super::needs("test", "name` or `line"))?;
    let item = tests.test_before(line).ok_or_else(|| {
        Failure::new(ErrorCode::NotFound, format!("there is no test at {file}:{line} or before it"))
    })?;
    let found =
        source.inherited((item.line, format!("{file}:{}", item.line), source.found(item, None)), true);
    one_of(found, &item.name.shown(), &file, "name its class")
}

/// A test with the line that it begins at, from 1, and its place in words.
type Candidate = (u64, String, FoundTest);

fn one_of(mut found: Vec<Candidate>, name: &str, place: &str, help: &str) -> Result<FoundTest, Failure> {
    match found.len() {
        0 => {
            let message = format!("no test is called {name} in {place}");
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
            let message = format!("several tests are called {name}; {help}: {}{more}", places.join(", "));
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
            name: item.name.shown(),
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

    /// The tests of the file that are asked for. A group of JavaScript is run whole.
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
            let place = format!("{}:{}", self.context.shown(self.path), item.line);
            let test = self.found(item, Some(request));
            let chosen = request.within.last().is_some() && request.within.last() == test.within.last();
            found.extend(self.inherited((item.line, place, test), chosen));
        }
        literal_first(&mut found);
        // A test that a class of the file inherits from another.
        if found.is_empty()
            && let Some(class) = request.within.last()
            && self.tests.items.iter().any(|item| item.is_group && item.name.shown() == *class)
            && self.tests.language == Language::Python
        {
            let of_all = TestRequest { within: Vec::new(), ..request.clone() };
            found = self.named(&of_all);
            found.truncate(1);
            found.iter_mut().for_each(|(_, _, test)| test.within = vec![class.clone()]);
        }
        found
    }

    /// A test of Python in each class that it runs in; where its own class is `chosen`, in that if it can.
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
        let of = |class: &String| {
            let name = &test.name;
            let place = if classes.len() > 1 { format!("{place} ({class}.{name})") } else { place.clone() };
            (*at, place, FoundTest { within: vec![class.clone()], ..test.clone() })
        };
        classes.iter().map(of).collect()
    }
}

/// Keeps tests that have the requested name literally, where there are such, and not those with parameters.
fn literal_first(found: &mut Vec<Candidate>) {
    if found.iter().any(|(.., test)| test.titles.literal) {
        found.retain(|(.., test)| test.titles.literal);
    }
}

/// The modules that a file is, as far as its path shows.
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
    // A title of JavaScript may be written otherwise than it reads.
    let may_have = |text: &str| {
        let words = ["test(", "test.", "it(", "it.", "describe", "suite"];
        text.contains(&request.name) || words.iter().any(|word| text.contains(word))
    };
    let budget =
        Budget { files: SEARCHED, ..Budget::new(Instant::now() + SEARCH_TIME, CancellationToken::new()) };
    let mut candidates = workspace.candidates(workspace.files(workspace.root()).filter(has_tests), budget);
    let mut found = Vec::new();
    while let Some(document) = candidates.next_document(may_have) {
        if let Some(tests) = TestFile::parse(document.path.as_path(), &document.text) {
            let source = Source { context, path: &document.path, text: &document.text, tests: &tests };
            found.extend(source.named(request));
        }
    }
    literal_first(&mut found);
    found
}
