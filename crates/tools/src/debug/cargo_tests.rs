//! Search for a requested Rust test in the test executables of cargo. Pure.
//!
//! Invariants: the requested file decides; the search never guesses among tests of the same name.

use std::path::Path;

use paths::AbsPath;
use policy::ErrorCode;
use serde_json::Value;

use super::runners::CargoTest;
use crate::Failure;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestExecutable {
    pub program: AbsPath,
    /// Root source file.
    source: AbsPath,
    /// Whether the executable links the compiler's libraries (a procedural macro).
    pub needs_library: bool,
}

/// Lists the test executables in the messages of cargo.
///
/// The one of `file` comes first, then those that may contain `file` as a module.
pub(super) fn executables(messages: &str, file: &AbsPath) -> Vec<TestExecutable> {
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut found: Vec<TestExecutable> = artifacts
        .filter(|it| it["reason"] == "compiler-artifact" && it["profile"]["test"] == true)
        .filter_map(|it| {
            Some(TestExecutable {
                program: AbsPath::new(it["executable"].as_str()?)?,
                source: AbsPath::new(it["target"]["src_path"].as_str()?)?,
                needs_library: it["target"]["kind"][0] == "proc-macro",
            })
        })
        .collect();
    found.sort_by_key(|it| (it.source != *file, it.modules(file).is_none()));
    found
}

impl TestExecutable {
    /// The module path of `file`, derived from its location.
    ///
    /// `None` if the file belongs to another executable.
    fn modules(&self, file: &AbsPath) -> Option<Vec<String>> {
        if self.source == *file {
            return Some(Vec::new());
        }
        let relative = file.strip_prefix(&self.source.parent()?)?;
        let mut parts: Vec<String> = Path::new(relative)
            .with_extension("")
            .components()
            .map(|it| it.as_os_str().to_string_lossy().into_owned())
            .collect();
        if parts.last().is_some_and(|it| it == "mod") {
            parts.pop();
        }
        Some(parts)
    }

    /// Finds the file of a module path by the usual layout; returns its text.
    fn file_of(
        &self,
        modules: &[&str],
        text: &dyn Fn(&AbsPath) -> Option<String>,
    ) -> (AbsPath, Option<String>) {
        let mut folder = self.source.parent().unwrap_or_else(|| self.source.clone());
        let mut found = None;
        for module in modules {
            let files = [folder.join(format!("{module}.rs")), folder.join(module).join("mod.rs")];
            let file = files.into_iter().find_map(|it| text(&it).map(|text| (it, text)));
            // A module without a file is inline in its parent.
            found = file.or(found);
            folder = folder.join(module);
        }
        match found {
            Some((file, text)) => (file, Some(text)),
            None => (self.source.clone(), text(&self.source)),
        }
    }
}

/// A listed test that may be the requested one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    name: String,
    /// Whether the test is a group of cases.
    cases: bool,
    fits: Fits,
}

/// The quality of a match, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fits {
    /// Number of innermost modules with the requested names.
    Named(usize),
    /// Number of innermost modules with the requested names, in the requested file.
    InFile(usize),
    Exactly,
}

impl Candidate {
    /// Whether the test matches exactly.
    pub fn is_it(&self) -> bool {
        self.fits == Fits::Exactly
    }

    /// Returns the arguments with which the executable runs the test.
    fn words(&self) -> Vec<String> {
        match self.cases {
            true => vec![format!("{}::", self.name)],
            false => vec![self.name.clone(), "--exact".to_owned()],
        }
    }
}

/// Finds the listed tests that may be the requested one.
///
/// `text` reads a file of the project.
pub(super) fn candidates(
    listed: &str,
    wanted: &CargoTest,
    executable: &TestExecutable,
    text: &dyn Fn(&AbsPath) -> Option<String>,
) -> Vec<Candidate> {
    let modules = executable.modules(&wanted.file);
    let place: Vec<&str> = modules.iter().flatten().chain(&wanted.within).map(String::as_str).collect();
    let mut found: Vec<Candidate> = Vec::new();
    for full in listed.lines().filter_map(|it| it.strip_suffix(": test")) {
        let parts: Vec<&str> = full.split("::").collect();
        let Some(at) = parts.iter().rposition(|it| *it == wanted.name) else { continue };
        let cases = at + 1 < parts.len();
        let case = wanted.case.strip_prefix("::");
        if !cases && case.is_some() || case.is_some_and(|case| parts[at + 1..].join("::") != case) {
            continue;
        }
        // The name of the test, or of the group for one of several cases.
        let name = parts[..if case.is_some() { parts.len() } else { at + 1 }].join("::");
        let cases = cases && case.is_none();
        if let Some(known) = found.iter_mut().find(|it| it.name == name) {
            known.cases &= cases;
            continue;
        }
        let alike = parts[..at].iter().rev().zip(place.iter().rev());
        let alike = alike.take_while(|(one, other)| one == other).count();
        let fits = if modules.is_some() && alike == place.len() && alike == at {
            Fits::Exactly
        } else {
            let (file, there) = executable.file_of(&parts[..at], text);
            match there {
                _ if file == wanted.file => Fits::InFile(alike),
                // That file defines the function: a test of another file.
                Some(there) if has_function(&there, &wanted.name) => continue,
                // An included file, or a module with a `path` attribute.
                _ => Fits::Named(alike),
            }
        };
        found.push(Candidate { name, cases, fits });
    }
    found
}

/// Chooses the best candidate.
///
/// Returns its data and the arguments for its executable.
///
/// # Errors
/// If several match equally well.
pub(super) fn choose<T>(
    mut candidates: Vec<(T, Candidate)>,
    wanted: &CargoTest,
) -> Result<Option<(T, Vec<String>)>, Failure> {
    let Some(best) = candidates.iter().map(|(_, it)| it.fits).max() else { return Ok(None) };
    candidates.retain(|(_, it)| it.fits == best);
    let (first, words) = (&candidates[0].1.name, candidates[0].1.words());
    // One file may be a module of several executables.
    if candidates.iter().any(|(_, it)| it.name != *first) {
        let all: Vec<&str> = candidates.iter().take(10).map(|(_, it)| it.name.as_str()).collect();
        let message =
            format!("several tests are named {}: {}; give one of these names", wanted.name, all.join(", "));
        return Err(Failure::new(ErrorCode::Ambiguous, message));
    }
    Ok(Some((candidates.swap_remove(0).0, words)))
}

/// Whether a Rust text defines a function of this name.
fn has_function(text: &str, name: &str) -> bool {
    let ends = |after: &str| !after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let mut after = text.match_indices("fn ").map(|(at, it)| text[at + it.len()..].trim_start());
    after.any(|it| it.strip_prefix(name).is_some_and(ends))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn executable(source: &str) -> TestExecutable {
        let (program, source) = (AbsPath::new("/t/lib").unwrap(), AbsPath::new(source).unwrap());
        TestExecutable { program, source, needs_library: false }
    }

    /// A source in `/p/src/`, with the tests that its executable lists.
    type Executable<'a> = (&'a str, &'a [&'a str]);

    /// Checks the choice for a requested file.
    ///
    /// `expected`: the source of the executable, then the arguments.
    #[track_caller]
    fn check_of(
        executables: &[Executable<'_>],
        texts: &[(&str, &str)],
        asked: (&str, &[&str], &str),
        expected: &[&str],
    ) {
        let (file, within, case) = asked;
        let within = within.iter().map(|it| (*it).to_owned()).collect();
        let file = AbsPath::new(file).unwrap();
        let wanted = CargoTest { name: "adds".into(), file, within, case: case.into() };
        let text = |path: &AbsPath| {
            let it = texts.iter().find(|(name, _)| path.to_string() == format!("/p/src/{name}"));
            it.map(|(_, text)| (*text).to_owned())
        };
        let mut all = Vec::new();
        for (source, list) in executables {
            let listed: String = list.iter().map(|it| format!("{it}: test\n")).collect();
            let listed = listed + "bench_it: benchmark\n";
            let found = candidates(&listed, &wanted, &executable(&format!("/p/src/{source}")), &text);
            all.extend(found.into_iter().map(|it| (*source, it)));
        }
        let chosen = match choose(all, &wanted) {
            Ok(Some((source, words))) => [vec![source.to_owned()], words].concat(),
            Ok(None) => Vec::new(),
            Err(failure) => vec![failure.message],
        };
        assert_eq!(chosen, expected);
    }

    #[track_caller]
    fn check(file: &str, within: &[&str], case: &str, expected: &[&str]) {
        const LIST: &[&str] = &[
            "adds",
            "a::tests::adds",
            "b::tests::adds",
            "b::tests::adds_more",
            "c::other::adds::case_1",
            "c::other::adds::case_2",
        ];
        check_of(&[("lib.rs", LIST)], &[], (file, within, case), expected);
    }

    #[test]
    fn among_tests_of_one_name_that_of_the_file_is_chosen() {
        check("/p/src/b.rs", &["tests"], "", &["lib.rs", "b::tests::adds", "--exact"]);
        check("/p/src/a/mod.rs", &["tests"], "", &["lib.rs", "a::tests::adds", "--exact"]);
        check("/p/src/lib.rs", &[], "", &["lib.rs", "adds", "--exact"]);
        check("/p/src/c.rs", &["other"], "", &["lib.rs", "c::other::adds::"]);
        check("/p/src/c.rs", &["other"], "::case_2", &["lib.rs", "c::other::adds::case_2", "--exact"]);
        let all = "several tests are named adds: a::tests::adds, b::tests::adds; give one of these names";
        check("/p/src/odd.rs", &["tests"], "", &[all]);
    }

    /// A build may leave out the requested file's test, such as one for another system.
    #[test]
    fn a_test_of_another_file_is_not_chosen() {
        let texts = [("a.rs", "mod tests { fn adds() {} }"), ("b.rs", "mod tests { fn adds() {} }")];
        let list: &[&str] = &["a::tests::adds"];
        check_of(&[("lib.rs", list)], &texts, ("/p/src/b.rs", &["tests"], ""), &[]);
        // The library's test does not replace the program's.
        let texts = [("lib.rs", "mod tests { fn adds() {} }"), ("main.rs", "mod tests { fn adds() {} }")];
        let asked: (&str, &[&str], &str) = ("/p/src/main.rs", &["tests"], "");
        check_of(&[("main.rs", &[]), ("lib.rs", &["tests::adds"])], &texts, asked, &[]);
        let both: &[Executable<'_>] = &[("lib.rs", &["tests::adds"]), ("main.rs", &["tests::adds"])];
        check_of(both, &texts, asked, &["main.rs", "tests::adds", "--exact"]);
    }

    #[test]
    fn a_test_in_a_module_from_a_macro_belongs_to_the_file() {
        let texts = [("a.rs", "fn adds_more() {}"), ("b.rs", "cases! { fn adds() }")];
        let list: &[&str] = &["a::adds", "b::made::adds"];
        check_of(
            &[("lib.rs", list)],
            &texts,
            ("/p/src/b.rs", &[], ""),
            &["lib.rs", "b::made::adds", "--exact"],
        );
    }

    #[test]
    fn a_module_may_have_a_file_with_a_name_of_its_own() {
        let texts = [("a.rs", "#[path = \"a_tests.rs\"] mod tests;"), ("a_tests.rs", "fn adds() {}")];
        let asked: (&str, &[&str], &str) = ("/p/src/a_tests.rs", &[], "");
        check_of(&[("lib.rs", &["a::tests::adds"])], &texts, asked, &["lib.rs", "a::tests::adds", "--exact"]);
    }

    #[test]
    fn an_exact_match_in_another_executable_wins() {
        let main: Executable<'_> = ("main.rs", &["x::tests::adds", "y::tests::adds"]);
        let asked: (&str, &[&str], &str) = ("/p/src/b.rs", &["tests"], "");
        let lib: Executable<'_> = ("lib.rs", &["b::tests::adds"]);
        check_of(&[main, lib], &[], asked, &["lib.rs", "b::tests::adds", "--exact"]);
        // Equally good matches in two executables are refused.
        let all = "several tests are named adds: x::tests::adds, z::tests::adds; give one of these names";
        let (one, other): (Executable<'_>, Executable<'_>) =
            (("main.rs", &["x::tests::adds"]), ("lib.rs", &["z::tests::adds"]));
        check_of(&[one, other], &[], asked, &[all]);
        // One file may be a module of both executables.
        let (one, other): (Executable<'_>, Executable<'_>) =
            (("main.rs", &["x::adds"]), ("lib.rs", &["x::adds"]));
        let asked: (&str, &[&str], &str) = ("/p/src/odd.rs", &[], "");
        check_of(&[one, other], &[], asked, &["main.rs", "x::adds", "--exact"]);
    }

    #[test]
    fn the_executable_that_is_made_of_the_file_is_first() {
        let artifact = |source: &str, executable: &str, kind: &str, test: bool| {
            json!({"reason": "compiler-artifact", "executable": executable, "profile": {"test": test},
                "target": {"src_path": source, "kind": [kind]}})
            .to_string()
        };
        let messages = [
            artifact("/p/src/lib.rs", "/t/lib", "proc-macro", true),
            artifact("/p/src/main.rs", "/t/main", "bin", false),
            artifact("/p/tests/it.rs", "/t/it", "test", true),
            "{\"reason\": \"build-finished\"}".to_owned(),
            "no JSON".to_owned(),
        ];
        let names = |file: &str| -> Vec<(String, bool)> {
            let found = executables(&messages.join("\n"), &AbsPath::new(file).unwrap());
            found.iter().map(|it| (it.program.to_string(), it.needs_library)).collect()
        };
        let (lib, it) = (("/t/lib".to_owned(), true), ("/t/it".to_owned(), false));
        assert_eq!(names("/p/tests/it.rs"), [it.clone(), lib.clone()]);
        // `tests/other.rs` might have it as a module; it has a test executable of its own.
        let other = artifact("/p/tests/ahead.rs", "/t/ahead", "test", true);
        let found =
            executables(&[other, messages.join("\n")].join("\n"), &AbsPath::new("/p/tests/it.rs").unwrap());
        assert_eq!(found[0].program.to_string(), "/t/it");
        assert_eq!(names("/p/src/a.rs"), [lib, it]);
    }
}
