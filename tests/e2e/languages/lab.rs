//! One server, one project, all requests.
//!
//! The sandbox's tools directory has only this server's programs, so that it is the one that
//! answers. An unsupported request must be refused as `unsupported`, which the table shows as `no`.
//! Any other unexpected answer fails the test, all failures at once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
pub(crate) use tests::give;
use tests::{Answer, Batch, Sandbox};

/// A file, a line from 1, and a name on it.
pub(super) type At = (&'static str, u64, &'static str);
/// A file and the texts that it must contain.
pub(super) type Holds = &'static [(&'static str, &'static str)];

/// The requests for a server and the expected answers. `None`: not supported.
pub(super) struct Case {
    pub server: &'static str,
    /// The server's programs in the tools directory, and the programs they call.
    pub programs: &'static [&'static str],
    /// The argument that prints its version; `None` where its definition pins one.
    pub version: Option<&'static [&'static str]>,
    pub files: &'static [(&'static str, &'static str)],
    /// A place of a use, also for requests that are expected to be refused.
    pub used: At,
    /// A file and name paths of symbols in it.
    pub symbols: Option<(&'static str, &'static [&'static str])>,
    /// The line of the definition of the used symbol.
    pub definition: Option<(&'static str, &'static str)>,
    /// Lines of uses, in any file.
    pub references: Option<Holds>,
    /// The declaration of a symbol that others implement, and all implementations.
    ///
    /// These are files and lines.
    pub implementation: Option<(At, &'static [(&'static str, u64)])>,
    /// Part of the hover text.
    pub hover: Option<&'static str>,
    /// A file with a mistake, its message, the line with the mistake and a correct one.
    pub mistake: Option<(&'static str, &'static str, &'static str, &'static str)>,
    /// The new name of the symbol, and the files' content then.
    pub rename: Option<(&'static str, Holds)>,
    /// A file, its new name, and the files' content then.
    pub rename_file: Option<(&'static str, &'static str, Holds)>,
    /// A file, a line, and part of the title of an action there.
    pub action: Option<(&'static str, u64, &'static str)>,
    /// A file and the content that formatting must give.
    pub format: Option<(&'static str, &'static str)>,
}

#[track_caller]
pub(super) fn check(case: &Case) {
    check_in(case, |_| {});
}

/// Checks the server with one of its several languages.
#[track_caller]
pub(super) fn check_with(language: &str, case: &Case) {
    check_all(Some(language), case, |_| {});
}

/// Checks a server after a preparation of the project.
#[track_caller]
pub(super) fn check_in(case: &Case, prepare: impl FnOnce(&Sandbox)) {
    check_all(None, case, prepare);
}

#[track_caller]
fn check_all(language: Option<&str>, case: &Case, prepare: impl FnOnce(&Sandbox)) {
    let mut sandbox = Sandbox::with(case.files);
    give(&mut sandbox, case.programs);
    prepare(&sandbox);
    let mut lab = Lab {
        batch: Batch::start(&sandbox),
        sandbox: &sandbox,
        case,
        passed: BTreeMap::new(),
        failed: vec![],
    };
    lab.all();
    let Lab { mut batch, passed, failed, .. } = lab;
    let logs =
        if failed.is_empty() { String::new() } else { batch.call("lsp", &json!({"action": "logs"})).text() };
    batch.end();
    sandbox.mark().none_left(std::time::Duration::from_secs(10));
    assert!(failed.is_empty(), "{}:\n{}\n\n{logs}", case.server, failed.join("\n"));
    record(&sandbox, case, language, &passed);
}

struct Lab<'a> {
    sandbox: &'a Sandbox,
    batch: Batch,
    case: &'a Case,
    passed: BTreeMap<&'static str, bool>,
    failed: Vec<String>,
}

impl Lab<'_> {
    fn all(&mut self) {
        let case = self.case;
        let (file, line, symbol) = case.used;
        let start = self.sandbox.tree();
        let at = |action: &str| json!({"action": action, "file": file, "line": line, "symbol": symbol, "timeout": 120});

        self.diagnostics();

        let answer = self
            .ask(json!({"action": "symbols", "file": case.symbols.map_or(file, |it| it.0), "timeout": 120}));
        self.judge("symbols", &answer, case.symbols.map(|(_, names)| names), |answer, names| {
            let paths: Vec<&str> = answer.value["details"]["symbols"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|it| it["path"].as_str())
                .collect();
            names
                .iter()
                .filter(|name| !paths.contains(name))
                .map(|name| format!("no {name} in {paths:?}"))
                .collect()
        });

        let answer = self.ask(at("definition"));
        self.judge("definition", &answer, case.definition, |answer, (file, line)| {
            missing(&answer.text(), &[file, line])
        });

        let answer = self.ask(at("references"));
        self.judge("references", &answer, case.references, |answer, lines| {
            lines.iter().flat_map(|(file, line)| missing(&answer.text(), &[file, line])).collect()
        });

        let ((file_of, line_of, name), _) = case.implementation.unwrap_or((case.used, &[]));
        let answer = self.ask(
            json!({"action": "implementation", "file": file_of, "line": line_of, "symbol": name, "timeout": 120}),
        );
        self.judge("implementation", &answer, case.implementation, |answer, (_, places)| {
            let mut found: Vec<(&str, u64)> = answer.value["details"]["locations"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|it| Some((it["path"].as_str()?, it["line"].as_u64()?)))
                .collect();
            found.sort_unstable();
            if found == places { vec![] } else { vec![format!("{found:?}, not {places:?}")] }
        });

        let answer = self.ask(at("hover"));
        self.judge("hover", &answer, case.hover, |answer, part| missing(&answer.text(), &[part]));

        let (file_of, line_of) = case.action.map_or((file, line), |it| (it.0, it.1));
        let answer =
            self.ask(json!({"action": "code_actions", "file": file_of, "line": line_of, "timeout": 120}));
        self.judge("code action", &answer, case.action, |answer, (_, _, title)| {
            missing(&answer.text(), &[title])
        });

        // A server may store a cache where its project does; it touches no existing file.
        let now = self.sandbox.tree();
        let touched = start.iter().filter(|(path, bytes)| now.get(*path) != Some(bytes));
        self.failed.extend(touched.map(|(path, _)| format!("asking changed {path}")));

        self.fix();

        let answer = self
            .ask(json!({"action": "format", "file": case.format.map_or(file, |it| it.0), "timeout": 120}));
        let sandbox = self.sandbox;
        self.judge("format", &answer, case.format, |_, (file, text)| missing(&sandbox.read(file), &[text]));

        let mut arguments = at("rename");
        arguments["new_name"] = json!(case.rename.map_or("other_name", |it| it.0));
        let answer = self.ask(arguments);
        self.judge("rename", &answer, case.rename, |_, (_, files)| held(sandbox, files));
        self.judge_rename_file();
    }

    fn judge_rename_file(&mut self) {
        let sandbox = self.sandbox;
        let Some((from, to, files)) = self.case.rename_file else {
            self.passed.insert("rename file", false);
            return;
        };
        let answer = self.ask(json!({"action": "rename_file", "file": from, "to": to, "timeout": 120}));
        self.judge("rename file", &answer, Some(files), |_, files| held(sandbox, files));
    }

    /// Checks that the mistake is reported, and that a file without one is clean.
    fn diagnostics(&mut self) {
        let Some((file, said, _, _)) = self.case.mistake else {
            self.passed.insert("diagnostics", false);
            return;
        };
        let answer = self.ask(json!({"action": "diagnostics", "file": file, "timeout": 120}));
        self.judge("diagnostics", &answer, Some(said), |answer, said| {
            let mut wrong = missing(&answer.text(), &[said]);
            wrong.extend(unknown(answer));
            wrong
        });
    }

    /// Checks that the edit that fixes the mistake reports the fix.
    fn fix(&mut self) {
        let Some((file, said, old, new)) = self.case.mistake else {
            self.passed.insert("after an edit", false);
            return;
        };
        let patch = self.batch.view(file).put(old, new);
        let edited = self.batch.edit(&patch);
        let answer = self.ask(json!({"action": "diagnostics", "file": file, "timeout": 120}));
        self.judge("after an edit", &answer, Some(said), |answer, said| {
            let mut wrong = unknown(answer);
            if answer.text().contains(said) {
                wrong.push(format!("{said:?} is still reported"));
            }
            if edited.value["details"]["diagnostics"]["introduced"] != json!([]) {
                wrong.push(format!("the edit that fixes it is said to introduce errors: {}", edited.text()));
            }
            wrong
        });
    }

    fn ask(&mut self, arguments: Value) -> Answer {
        self.batch.call("lsp", &arguments)
    }

    /// Records the result of a request.
    fn judge<T: Copy>(
        &mut self,
        name: &'static str,
        answer: &Answer,
        expected: Option<T>,
        wrong: impl Fn(&Answer, T) -> Vec<String>,
    ) {
        // The request is not supported: it is refused, another server would have to be installed,
        // or a server that announced support gives an empty answer.
        let nothing = answer.error().is_none()
            && ["none found", "has no hover text", ": none ("].iter().any(|it| answer.text().contains(it));
        let refused = nothing || matches!(answer.error(), Some("unsupported" | "missing_tool"));
        let wrong = match expected {
            None if refused => {
                self.passed.insert(name, false);
                return;
            }
            None => vec![format!("it was not expected to be offered: {}", answer.text())],
            Some(_) if answer.error().is_some() => vec![answer.text()],
            Some(expected) => wrong(answer, expected),
        };
        if wrong.is_empty() {
            self.passed.insert(name, true);
        } else {
            self.failed.push(format!("{name}: {}\n  in: {}", wrong.join("; "), answer.text()));
        }
    }
}

fn missing(text: &str, parts: &[&str]) -> Vec<String> {
    parts.iter().filter(|part| !text.contains(**part)).map(|part| format!("{part:?} is missing")).collect()
}

fn unknown(answer: &Answer) -> Vec<String> {
    let details = &answer.value["details"];
    let lists = ["pending", "failed"].map(|name| details[name].as_array().cloned().unwrap_or_default());
    lists.iter().flatten().map(|it| format!("not known: {it}")).collect()
}

fn held(sandbox: &Sandbox, files: Holds) -> Vec<String> {
    let tree = sandbox.tree();
    files
        .iter()
        .flat_map(|(file, part)| match tree.get(*file) {
            None => vec![format!("no {file}")],
            Some(bytes) => missing(&String::from_utf8_lossy(bytes), &[part]),
        })
        .collect()
}

/// Writes the results, for the table.
fn record(sandbox: &Sandbox, case: &Case, language: Option<&str>, passed: &BTreeMap<&str, bool>) {
    let Some(directory) = std::env::var_os("PILCROW_LANGUAGE_RESULTS").map(PathBuf::from) else { return };
    let version = match case.version {
        Some(command) => said_version(command),
        None => pinned(sandbox, case.server),
    };
    std::fs::create_dir_all(&directory).expect("the directory of results");
    let result = json!({"server": case.server, "with": language, "version": version, "passed": passed});
    let name = [Some(case.server), language].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let path: &Path = &directory.join(format!("{name}.json"));
    std::fs::write(path, format!("{result}\n")).expect("the result");
}

fn pinned(sandbox: &Sandbox, server: &str) -> String {
    let listed = sandbox.run(&["adapters", "list", "--json"]).expect(0).stdout;
    let known = listed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let own = known
        .filter(|known| known["name"] == *server)
        .find_map(|known| known["pinned"].as_str().map(str::to_owned));
    own.unwrap_or_else(|| panic!("{server} pins no version"))
}

/// The version in a program's output.
///
/// It is the first word that begins with a digit, or with `v` and a digit.
fn said_version(command: &[&str]) -> String {
    let output =
        Command::new(command[0]).args(&command[1..]).output().expect("the program prints its version");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut words = text.split([' ', '\n', '@']).map(|word| word.trim_start_matches('v'));
    let found = words.find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    found.unwrap_or_else(|| panic!("no version in {text}")).to_owned()
}
