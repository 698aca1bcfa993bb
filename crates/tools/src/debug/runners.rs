//! Which runner a test is run by, and with which words. Looks at files of the project and runs nothing.

use serde_json::{Map, Value, json};
use workspace::{AbsPath, ErrorCode, files_below};

use super::named::{self, Asked, Begins, Tests, escaped};
use super::pythons;
use super::titles::{self, Chosen, Titles};
use crate::{Failure, Kit};

/// Files that are searched for a test of a name.
const SEARCHED: usize = 5_000;
/// Bytes of a file that is searched at most.
const BYTES: u64 = 1024 * 1024;

/// A test that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Its file.
    pub file: AbsPath,
    /// Its name, without what it is in.
    pub name: String,
    /// Which of its cases: `[2-x]` of pytest, `/two` of Go, `::case_2` of Rust.
    pub case: String,
    /// Classes, modules or groups in the file that it is in, outermost first.
    pub within: Vec<String>,
    /// Where its name is a title.
    titles: Titles,
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
    /// What it is in and the function or title by which its frames are known; none where that is not known.
    pub known_as: Vec<String>,
    /// Of Node's own runner, whose words its version tells.
    pub titles: Option<Titles>,
    /// What the runner cannot tell apart.
    pub note: Option<String>,
    /// Where Python looks for modules first.
    pub python_path: Option<AbsPath>,
}

/// What a runner starts.
#[derive(Debug, Clone)]
pub(super) enum Start {
    Program(AbsPath),
    Module(&'static str),
    /// A test executable that cargo has to build first.
    Cargo(Wanted),
}

/// A test of Rust, whose full name is in its executable's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub name: String,
    pub file: AbsPath,
    /// Modules in the file.
    pub within: Vec<String>,
    /// Which of its cases.
    pub case: String,
}

/// The test that is meant. Blocking.
pub(super) fn find(
    kit: &Kit,
    name: Option<&str>,
    file: Option<&str>,
    line: Option<u64>,
) -> Result<Found, Failure> {
    let asked = name.map(Asked::read);
    let there = |file: &String| kit.workspace.resolve(file).is_ok_and(|it| it.as_path().is_file());
    let own = asked.as_ref().and_then(|it| it.file.clone()).filter(there);
    let file = file.map(str::to_owned).or(own);
    let Some(file) = file else {
        let Some(asked) = asked else {
            return Err(super::needs("test", "name` or `file` and `line"));
        };
        let found = search(kit, &asked);
        let other = asked.of_cases().filter(|_| found.is_empty());
        let found = other.map_or(found, |it| search(kit, &it));
        return one_of(found, &asked.text, "the project; give its `file`", "give `file`");
    };
    let path = kit.workspace.resolve(&file)?;
    let language = language(&path).ok_or_else(|| {
        let message = format!("tests of {file} are not known; give `program`, a test that is an executable");
        Failure::new(ErrorCode::Unsupported, message)
    })?;
    let text = kit.workspace.document(&path)?.text;
    if let Some(asked) = asked {
        let mut found = named_in(kit, &path, &text, language, &asked);
        if let Some(other) = asked.of_cases().filter(|_| found.is_empty()) {
            found = named_in(kit, &path, &text, language, &other);
        }
        if let (Some(line), true) = (line, found.len() > 1) {
            found.retain(|(at, ..)| *at as u64 <= line);
            let nearest = found.iter().map(|(at, ..)| *at).max();
            found.retain(|(at, ..)| Some(*at) == nearest);
        }
        if found.is_empty() {
            // Its runner may know it all the same: by another way of writing, from a class that it inherits.
            let titles = Titles::unseen(&asked.text);
            let (name, case, within) = match language {
                Tests::Node => (asked.text, String::new(), Vec::new()),
                _ => (asked.name, asked.case, asked.within),
            };
            return Ok(Found { file: path, name, case, within, titles, language });
        }
        return one_of(found, &asked.text, &file, "give its `line`");
    }
    let line = line.ok_or_else(|| super::needs("test", "name` or `line"))?;
    let lines: Vec<&str> = text.lines().collect();
    let from = usize::try_from(line).unwrap_or(usize::MAX).min(lines.len());
    let test = |at: usize| {
        let begins = named::begins(&lines, at, language)?;
        named::is_test(&begins, &lines, at, language).then_some((at, begins))
    };
    let around = named::test_around(&lines, line).filter(|_| language == Tests::Node);
    let found = around.and_then(test).or_else(|| (0..from).rev().find_map(test));
    let (at, begins) = found.ok_or_else(|| {
        Failure::new(ErrorCode::NotFound, format!("there is no test at {file}:{line} or before it"))
    })?;
    let test = test_at(&path, &lines, at, &begins, None, language);
    let place = format!("{file}:{}", at + 1);
    let found = inherited(kit, &lines, (at + 1, place, test), true);
    let name = begins.name.shown();
    one_of(found, &name, &file, "name its class")
}

/// A test and the line that it begins at, from 1.
type At = (usize, String, Found);

fn one_of(mut found: Vec<At>, name: &str, place: &str, help: &str) -> Result<Found, Failure> {
    match found.len() {
        0 => {
            let message = format!("no test was found by the text {name} in {place}");
            Err(Failure::new(ErrorCode::NotFound, message))
        }
        1 => Ok(found.remove(0).2),
        _ => {
            const SHOWN: usize = 10;
            let places: Vec<&str> = found.iter().take(SHOWN).map(|(_, place, _)| place.as_str()).collect();
            // Those that are inherited stand at one line.
            let help = if found.windows(2).any(|it| it[0].0 == it[1].0) { "name its class" } else { help };
            let more = found.len().saturating_sub(SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let message = format!("several tests are called {name}; {help}: {}{more}", places.join(", "));
            Err(Failure::new(ErrorCode::Ambiguous, message))
        }
    }
}

fn test_at(
    path: &AbsPath,
    lines: &[&str],
    at: usize,
    begins: &Begins,
    asked: Option<&Asked>,
    language: Tests,
) -> Found {
    let mut found = Found {
        file: path.clone(),
        name: begins.name.shown(),
        case: asked.map(|it| it.case.clone()).unwrap_or_default(),
        within: named::within(lines, at, language),
        titles: Titles::default(),
        language,
    };
    if language == Tests::Node {
        let same = |other: &usize| named::begins(lines, *other, language).is_some_and(|it| it == *begins);
        let alike = (0..lines.len()).filter(|other| *other != at).filter(same);
        let alike: Vec<_> = alike.map(|other| named::around(lines, other, language)).collect();
        let asked = asked.map(|it| it.text.as_str());
        found.titles = Titles::of(begins, &named::around(lines, at, language), asked, &alike);
        found.case = String::new();
        if let Some(asked) = asked.filter(|_| !begins.name.is_whole()) {
            found.name = asked.to_owned();
        }
    }
    found
}

/// The tests of a file that are asked for.
fn named_in(kit: &Kit, path: &AbsPath, text: &str, language: Tests, asked: &Asked) -> Vec<At> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for at in 0..lines.len() {
        let Some(begins) = named::begins(&lines, at, language) else { continue };
        // A group is run whole where it is asked for.
        if !begins.group && !named::is_test(&begins, &lines, at, language) {
            continue;
        }
        let fits = match language {
            Tests::Node => {
                begins.name.may_end(&asked.text)
                    && titles::fits(&begins, &named::around(&lines, at, language), &asked.text)
            }
            _ => {
                let place = module_of(path, kit.workspace.root(), language).into_iter();
                let place = place.chain(named::within(&lines, at, language)).collect::<Vec<_>>();
                begins.name.fits(&asked.name) && asked.may_be_in(&place)
            }
        };
        if fits {
            let test = test_at(path, &lines, at, &begins, Some(asked), language);
            let test = (at + 1, format!("{}:{}", kit.shown(path), at + 1), test);
            let chosen = asked.within.last().is_some() && asked.within.last() == test.2.within.last();
            found.extend(inherited(kit, &lines, test, chosen));
        }
    }
    literal_first(&mut found);
    // One that a class of the file inherits from another.
    if found.is_empty()
        && language == Tests::Python
        && let Some(class) = asked.within.last()
        && lines.iter().any(|it| it.trim_start().starts_with(&format!("class {class}")))
    {
        let of_all = Asked { within: Vec::new(), ..asked.clone() };
        found = named_in(kit, path, text, language, &of_all);
        found.truncate(1);
        found.iter_mut().for_each(|(_, _, test)| test.within = vec![class.clone()]);
    }
    found
}

/// A test of Python in each class that it runs in; where its own class is `chosen`, in that if it can.
fn inherited(kit: &Kit, lines: &[&str], found: At, chosen: bool) -> Vec<At> {
    let (at, place, test) = &found;
    let [class] = test.within.as_slice() else { return vec![found] };
    if test.language != Tests::Python {
        return vec![found];
    }
    let root = kit.workspace.root();
    let folder = test.file.parent().unwrap_or_else(|| root.clone());
    let of_unittest = of_unittest(root, &folder, &lines.join("\n"));
    let classes = pythons::runs_in(lines, class, &test.name, of_unittest);
    if classes.is_empty() || (chosen && classes.contains(class)) {
        return vec![found];
    }
    let of = |it: &String| {
        let place = if classes.len() > 1 { format!("{place} ({it}.{})", test.name) } else { place.clone() };
        (*at, place, Found { within: vec![it.clone()], ..test.clone() })
    };
    classes.iter().map(of).collect()
}

/// One that is called so itself, rather than one of the cases of another.
fn literal_first(found: &mut Vec<At>) {
    if found.iter().any(|(.., test)| test.titles.literal) {
        found.retain(|(.., test)| test.titles.literal);
    }
}

/// The modules that a file is, as far as its path tells.
fn module_of(path: &AbsPath, root: &AbsPath, language: Tests) -> Vec<String> {
    let relative = path.strip_prefix(root).unwrap_or(path.as_path()).with_extension("");
    let mut parts: Vec<String> =
        relative.components().map(|it| it.as_os_str().to_string_lossy().into_owned()).collect();
    let whole: &[&str] = if language == Tests::Rust { &["mod", "lib", "main"] } else { &["__init__"] };
    if parts.last().is_some_and(|it| whole.contains(&it.as_str())) {
        parts.pop();
    }
    parts.retain(|it| language != Tests::Rust || it != "src");
    parts
}

fn language(path: &AbsPath) -> Option<Tests> {
    Tests::of(path.as_path().extension()?.to_str()?)
}

fn search(kit: &Kit, asked: &Asked) -> Vec<At> {
    let mut found = Vec::new();
    for path in files_below(kit.workspace.root()).take(SEARCHED) {
        let Some(language) = language(&path).filter(|_| asked.may_be_of(path.as_path())) else { continue };
        if path.as_path().metadata().map_or(true, |it| it.len() > BYTES) {
            continue;
        }
        let Ok(document) = kit.workspace.document(&path) else { continue };
        // A title may be written otherwise than it reads.
        if language == Tests::Node || document.text.contains(&asked.name) {
            found.extend(named_in(kit, &path, &document.text, language, asked));
        }
    }
    literal_first(&mut found);
    found
}

/// How a test is run. Blocking.
pub(super) fn run(kit: &Kit, test: &Found) -> Result<Run, Failure> {
    let root = kit.workspace.root().clone();
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
        known_as: vec![test.name.clone()],
        titles: None,
        note: None,
        python_path: None,
    };
    match test.language {
        Tests::Python => {
            let name: Vec<&str> = test.within.iter().chain([&test.name]).map(String::as_str).collect();
            // A project in a project is run from its own folder, as its people do.
            let project = above(&folder, &root, pythons::PROJECT).unwrap_or_else(|| root.clone());
            let env = vec![("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned())];
            let run = if of_unittest(&root, &folder, &text) {
                let words = pythons::unittest_words(&test.file, &project, &text, &name);
                let run = run("unittest", Start::Module("unittest"), words.args, project);
                Run { python_path: words.path, ..run }
            } else {
                let relative = test.file.strip_prefix(&project).unwrap_or(test.file.as_path());
                let case = pythons::case(&root, &folder, &test.case);
                let node = format!("{}::{}{case}", relative.display(), name.join("::"));
                let mut args = ["-x", "-q", "-p", "no:cacheprovider"].map(str::to_owned).to_vec();
                args.extend(pythons::against_addopts(&root, &folder));
                args.push(node);
                run("pytest", Start::Module("pytest"), args, project)
            };
            Ok(Run { env, ..run })
        }
        Tests::Rust => {
            let package = above(&folder, &root, &["Cargo.toml"]).unwrap_or(root);
            let wanted = Wanted {
                name: test.name.clone(),
                file: test.file.clone(),
                within: test.within.clone(),
                case: test.case.clone(),
            };
            let args = ["--nocapture", "--test-threads=1"].map(str::to_owned).to_vec();
            // As cargo sets it for what it runs.
            let env = vec![("CARGO_MANIFEST_DIR".to_owned(), package.to_string())];
            Ok(Run { env, ..run("cargo", Start::Cargo(wanted), args, package) })
        }
        Tests::Go => {
            let name = format!("{}{}", test.name, test.case);
            let pattern: Vec<String> = name.split('/').map(|it| format!("^{}$", escaped(it))).collect();
            let args = vec!["-test.run".to_owned(), pattern.join("/"), "-test.v".to_owned()];
            Ok(run("go", Start::Program(folder.clone()), args, folder))
        }
        Tests::Node => {
            let package = above(&folder, &root, &["package.json"]).unwrap_or_else(|| root.clone());
            let from_node =
                text.contains("node:test") || text.contains("'test'") || text.contains("\"test\"");
            let installed = |name: &str| above(&folder, &root, &[name]).is_some();
            let script = |name: &str| above(&folder, &root, &[name]).map(|it| it.join(name));
            let file = test.file.to_string();
            // While a program is held its clock goes on.
            let patience = "--testTimeout=86400000".to_owned();
            let words = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
            let known_as = test.titles.source.clone();
            let Chosen { words: named, note } = test.titles.of_names();
            let by = |runner, script, args, over| Run {
                rule: "node",
                over,
                more: options(Vec::new()),
                known_as: known_as.clone(),
                note: note.clone(),
                ..run(runner, Start::Program(script), args, package.clone())
            };
            let (vitest, jest) =
                (script("node_modules/vitest/vitest.mjs"), script("node_modules/jest/bin/jest.js"));
            // Where both are there the file or the package's own script says which.
            let is_vitest = || jest.is_none() || text.contains("vitest") || runs_vitest(&package);
            if let (Some(script), false) = (vitest.filter(|_| is_vitest()), from_node) {
                let mut args = words(&["run", &file, "--no-file-parallelism"]);
                args.extend(named);
                args.push(patience);
                // Its server throws and catches all the while.
                let quiet = ["vite", "vite-node", "rollup", "rolldown", "esbuild", "tinypool", "tinyexec"];
                let mut skipped = vec!["<node_internals>/**".to_owned()];
                skipped.extend(quiet.iter().map(|it| format!("**/node_modules/{it}/**")));
                let over = json!({ "skipFiles": skipped });
                return Ok(by("vitest", script, args, Some(over)));
            }
            if let (Some(script), false) = (jest, from_node) {
                let mut args = words(&["--runInBand", "--runTestsByPath", &file]);
                args.extend(named);
                args.push(patience);
                let over = json!({ "skipFiles": ["<node_internals>/**"] });
                return Ok(by("jest", script, args, Some(over)));
            }
            if !from_node && installed("node_modules/mocha") {
                let message = "a test of mocha cannot be stopped at its failure yet; `launch` its own script in \
                               node_modules with `breakpoints` in the test";
                return Err(Failure::new(ErrorCode::Unsupported, message));
            }
            let run = run("node", Start::Program(test.file.clone()), Vec::new(), package);
            Ok(Run { known_as, titles: Some(test.titles.clone()), ..run })
        }
    }
}

/// Whether a file of Python has tests of unittest, and nothing there is of pytest.
fn of_unittest(root: &AbsPath, folder: &AbsPath, text: &str) -> bool {
    text.contains("unittest") && !pythons::uses_pytest(root, folder, text)
}

/// Whether the package's script `test` starts vitest.
fn runs_vitest(package: &AbsPath) -> bool {
    let text = std::fs::read_to_string(package.join("package.json").as_path()).unwrap_or_default();
    let package: Value = serde_json::from_str(&text).unwrap_or_default();
    package["scripts"]["test"].as_str().is_some_and(|it| it.contains("vitest"))
}

pub(super) fn options(words: Vec<String>) -> Map<String, Value> {
    Map::from_iter([("runtime_args".to_owned(), json!(words))])
}

/// The nearest folder from `folder` up to `root` that has one of `names`.
fn above(folder: &AbsPath, root: &AbsPath, names: &[&str]) -> Option<AbsPath> {
    let folders = folder.as_path().ancestors().take_while(|it| it.starts_with(root.as_path()));
    let mut folders = folders.filter(|it| names.iter().any(|name| it.join(name).exists()));
    folders.next().and_then(AbsPath::new)
}
