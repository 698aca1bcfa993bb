//! Tests of Rust as cargo tells of them: its test executables, and the one test of their lists that is meant.
//!
//! Pure. What must stay true: the file that is asked for decides; of several tests that are called alike none is
//! run by guess.

use std::path::Path;

use paths::AbsPath;
use policy::ErrorCode;
use serde_json::Value;

use super::runners::CargoTest;
use crate::Failure;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestExecutable {
    pub program: AbsPath,
    /// The file that it is made of.
    source: AbsPath,
    /// It runs with the compiler's own libraries: a macro's.
    pub needs_library: bool,
}

/// Test executables that cargo tells of; that of `file` itself first, then those whose modules it may be, then
/// the others.
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
    /// The modules that `file` is in it, as paths usually are; `None` where it is of another.
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

    /// The file that the modules of a test lead to, as far as their names tell, and what stands there.
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
            // One that has no file is a part of the one around it.
            found = file.or(found);
            folder = folder.join(module);
        }
        match found {
            Some((file, text)) => (file, Some(text)),
            None => (self.source.clone(), text(&self.source)),
        }
    }
}

/// A test of a list that may be the one that is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    name: String,
    /// It is the group of several cases.
    cases: bool,
    fits: Fits,
}

/// How well a test fits; the later the better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fits {
    /// So many of the innermost modules are called as those that are asked for.
    Named(usize),
    /// The same, in the file that is asked for.
    InFile(usize),
    Exactly,
}

impl Candidate {
    /// Whether there can be no better one.
    pub fn is_it(&self) -> bool {
        self.fits == Fits::Exactly
    }

    /// What an executable is told to run it.
    fn words(&self) -> Vec<String> {
        match self.cases {
            true => vec![format!("{}::", self.name)],
            false => vec![self.name.clone(), "--exact".to_owned()],
        }
    }
}

/// The tests of an executable's list that may be meant. `text` reads a file of the project.
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
        // The test's own name, and for one of many cases the group that they are.
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
                // It is there that it is written: the test of another file.
                Some(there) if has_function(&there, &wanted.name) => continue,
                // What is included, or a module with a `path` of its own.
                _ => Fits::Named(alike),
            }
        };
        found.push(Candidate { name, cases, fits });
    }
    found
}

/// The one of `candidates` that is meant, with what it came with, as words for its executable.
///
/// # Errors
/// Several fit alike.
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
        let message = format!("several tests are called {}: {}; name it so", wanted.name, all.join(", "));
        return Err(Failure::new(ErrorCode::Ambiguous, message));
    }
    Ok(Some((candidates.swap_remove(0).0, words)))
}

/// Whether a text of Rust defines a function of this name.
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

    /// A list of tests as an executable made of `/p/src/…` writes it, and the files there.
    type Executable<'a> = (&'a str, &'a [&'a str]);

    /// What is chosen where `file` is asked for, as words after the executable's source.
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
    fn of_tests_that_are_called_alike_the_one_of_the_file_is_meant() {
        check("/p/src/b.rs", &["tests"], "", &["lib.rs", "b::tests::adds", "--exact"]);
        check("/p/src/a/mod.rs", &["tests"], "", &["lib.rs", "a::tests::adds", "--exact"]);
        check("/p/src/lib.rs", &[], "", &["lib.rs", "adds", "--exact"]);
        check("/p/src/c.rs", &["other"], "", &["lib.rs", "c::other::adds::"]);
        check("/p/src/c.rs", &["other"], "::case_2", &["lib.rs", "c::other::adds::case_2", "--exact"]);
        let all = "several tests are called adds: a::tests::adds, b::tests::adds; name it so";
        check("/p/src/odd.rs", &["tests"], "", &[all]);
    }

    /// One that the asked file has is left out of the build, as for another system.
    #[test]
    fn a_test_of_another_file_is_not_run_in_place_of_the_one_that_is_asked_for() {
        let texts = [("a.rs", "mod tests { fn adds() {} }"), ("b.rs", "mod tests { fn adds() {} }")];
        let list: &[&str] = &["a::tests::adds"];
        check_of(&[("lib.rs", list)], &texts, ("/p/src/b.rs", &["tests"], ""), &[]);
        // Nor the one of the library in place of the program's.
        let texts = [("lib.rs", "mod tests { fn adds() {} }"), ("main.rs", "mod tests { fn adds() {} }")];
        let asked: (&str, &[&str], &str) = ("/p/src/main.rs", &["tests"], "");
        check_of(&[("main.rs", &[]), ("lib.rs", &["tests::adds"])], &texts, asked, &[]);
        let both: &[Executable<'_>] = &[("lib.rs", &["tests::adds"]), ("main.rs", &["tests::adds"])];
        check_of(both, &texts, asked, &["main.rs", "tests::adds", "--exact"]);
    }

    #[test]
    fn a_test_that_a_macro_puts_into_another_module_is_still_the_files() {
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
    fn several_that_fit_in_one_executable_do_not_hide_what_is_meant_in_another() {
        let main: Executable<'_> = ("main.rs", &["x::tests::adds", "y::tests::adds"]);
        let asked: (&str, &[&str], &str) = ("/p/src/b.rs", &["tests"], "");
        let lib: Executable<'_> = ("lib.rs", &["b::tests::adds"]);
        check_of(&[main, lib], &[], asked, &["lib.rs", "b::tests::adds", "--exact"]);
        // Two executables that each have one that fits as well are no reason to guess either.
        let all = "several tests are called adds: x::tests::adds, z::tests::adds; name it so";
        let (one, other): (Executable<'_>, Executable<'_>) =
            (("main.rs", &["x::tests::adds"]), ("lib.rs", &["z::tests::adds"]));
        check_of(&[one, other], &[], asked, &[all]);
        // One file may be in both.
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
