//! The results of the tests with each language server and debug adapter.
//!
//! They appear as tables in `docs/reference/language-servers.md` and `docs/reference/debuggers.md`
//! and as `verified` in the definitions. The end-to-end tests write a file for each; this module
//! renders them, and only `cargo xtask test --update` writes page and definitions.
//!
//! Invariants: the page and `verified` contain only results that a test run observed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::{exec, tidy};

const BEGIN: &str = "<!-- begin: written by cargo xtask test --update -->\n";
const END: &str = "<!-- end -->\n";

/// One of the two kinds of definitions.
pub(crate) struct Kind {
    /// The heading of the first column, and the name of the results directory.
    word: &'static str,
    /// The variable that names the results directory to the tests.
    pub(crate) variable: &'static str,
    page: &'static str,
    definitions: &'static str,
    /// The columns, in order; any other in a result is an error.
    checks: &'static [&'static str],
    /// The schema that lists a tool's actions, for a table of them.
    schema: Option<&'static str>,
}

pub(crate) const SERVERS: Kind = Kind {
    word: "server",
    variable: "PILCROW_LANGUAGE_RESULTS",
    page: "docs/reference/language-servers.md",
    definitions: "adapters/servers",
    checks: &[
        "symbols",
        "definition",
        "references",
        "implementation",
        "hover",
        "diagnostics",
        "after an edit",
        "code action",
        "rename",
        "rename file",
        "format",
    ],
    schema: None,
};

pub(crate) const DEBUGGERS: Kind = Kind {
    word: "adapter",
    variable: "PILCROW_DEBUGGER_RESULTS",
    page: "docs/reference/debuggers.md",
    definitions: "adapters/debuggers",
    checks: &[
        "breakpoint before the start",
        "condition",
        "hit count",
        "log point",
        "exception stop",
        "step",
        "evaluate",
        "set variable",
        "threads",
        "a chosen thread",
        "restart",
        "end",
    ],
    schema: Some("crates/tools/src/debug/parameters.json"),
};

/// The test result of one server.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct TestResult {
    server: String,
    /// The variant, if one was tested with several: a language.
    with: Option<String>,
    version: String,
    #[serde(default)]
    passed: BTreeMap<String, bool>,
    /// Whether an action of the tool works; the others were refused.
    #[serde(default)]
    actions: BTreeMap<String, bool>,
}

impl TestResult {
    fn title(&self) -> String {
        let with = self.with.as_ref().map(|with| format!(" ({with})")).unwrap_or_default();
        format!("{}{with}", self.server)
    }
}

/// The part of a definition that the page needs.
struct Definition {
    name: String,
    about: String,
    page: String,
    table: toml::Table,
    path: PathBuf,
}

/// Creates an empty directory for a run's results.
pub(crate) fn results_directory(kind: &Kind) -> Result<PathBuf> {
    let directory = tidy::target_directory()?.join(format!("tested-{}s", kind.word));
    if directory.exists() {
        fs::remove_dir_all(&directory).with_context(|| format!("cannot remove {}", directory.display()))?;
    }
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    Ok(directory)
}

/// Shows the results, and updates or checks page and definitions.
pub(crate) fn check(kind: &Kind, results: &Path, update: bool) -> Result<String> {
    let page_name = kind.page;
    let passed = read_results(kind, results)?;
    let root = tidy::root();
    let definitions = definitions(kind, &root)?;
    for result in &passed {
        if !definitions.iter().any(|definition| definition.name == result.server) {
            bail!("{} passed its tests but has no definition", result.server);
        }
    }
    let page_path = root.join(page_name);
    let page = fs::read_to_string(&page_path).with_context(|| format!("cannot read {page_name}"))?;
    let table = table(kind, &passed, &definitions) + &actions(kind, &passed)?;
    let fresh = with_table(&page, &table).context(page_name)?;
    println!("{}", matrix(kind, &passed));
    if update {
        fs::write(&page_path, fresh).with_context(|| format!("cannot write {page_name}"))?;
        let today = today()?;
        for result in &passed {
            let definition = definitions.iter().find(|definition| definition.name == result.server);
            let definition = definition.context("the line was found above")?;
            if verified(&definition.table) != Some(result.version.as_str()) {
                write_verified(definition, &result.version, &today)?;
            }
        }
        return Ok(format!("{} {}s, written", passed.len(), kind.word));
    }
    let mut wrong = Vec::new();
    if fresh != page {
        wrong.push(format!("{page_name} is outdated"));
    }
    for definition in &definitions {
        let seen = passed.iter().find(|result| result.server == definition.name);
        let seen = seen.map(|result| result.version.as_str());
        if verified(&definition.table) != seen {
            wrong.push(format!(
                "{}: `verified` differs from the test results ({seen:?})",
                definition.path.display()
            ));
        }
    }
    if !wrong.is_empty() {
        bail!("{}\nif the tests are right: cargo xtask test --update", wrong.join("\n"));
    }
    Ok(format!("{} {}s, as {page_name} says", passed.len(), kind.word))
}

fn read_results(kind: &Kind, directory: &Path) -> Result<Vec<TestResult>> {
    let mut passed: Vec<TestResult> = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let result: TestResult = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        if let Some(odd) = result.passed.keys().find(|check| !kind.checks.contains(&check.as_str())) {
            bail!("{}: no column is named {odd:?}", path.display());
        }
        // Several tests of one program each leave a part.
        match passed.iter_mut().find(|it| (&it.server, &it.with) == (&result.server, &result.with)) {
            Some(known) => {
                known.passed.extend(result.passed);
                known.actions.extend(result.actions);
            }
            None => passed.push(result),
        }
    }
    passed.sort_by(|a, b| (&a.server, &a.with).cmp(&(&b.server, &b.with)));
    Ok(passed)
}

fn definitions(kind: &Kind, root: &Path) -> Result<Vec<Definition>> {
    let directory = root.join(kind.definitions);
    let mut found = Vec::new();
    for entry in fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let table: toml::Table = toml::from_str(&text).with_context(|| path.display().to_string())?;
        let text =
            |value: Option<&toml::Value>| value.and_then(toml::Value::as_str).unwrap_or_default().to_owned();
        let page = text(table.get("install").and_then(|install| install.get("page")));
        let (name, about) = (text(table.get("name")), text(table.get("about")));
        found.push(Definition { name, about, page, table, path });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn verified(definition: &toml::Table) -> Option<&str> {
    definition.get("verified")?.get("version")?.as_str()
}

/// The rows of tested servers: `✓`, or `–` for a feature that one does not offer.
fn matrix(kind: &Kind, passed: &[TestResult]) -> String {
    let mut out = format!("| {} | version | {} |\n", kind.word, kind.checks.join(" | "));
    out.push_str(&format!("|{}\n", "---|".repeat(kind.checks.len() + 2)));
    for result in passed {
        let cells = kind.checks.iter().map(|check| match result.passed.get(*check) {
            Some(true) => "✓",
            Some(false) | None => "–",
        });
        let cells: Vec<&str> = cells.collect();
        out.push_str(&format!("| {} | {} | {} |\n", result.title(), result.version, cells.join(" | ")));
    }
    out
}

fn table(kind: &Kind, passed: &[TestResult], definitions: &[Definition]) -> String {
    let mut out = matrix(kind, passed);
    let word = kind.word;
    out.push_str(&format!(
        "\nNot tested with the {word} itself:\n\n| {word} | for | page |\n|---|---|---|\n"
    ));
    for definition in definitions {
        if passed.iter().all(|result| result.server != definition.name) {
            out.push_str(&format!("| {} | {} | {} |\n", definition.name, definition.about, definition.page));
        }
    }
    out
}

/// The names of a tool's actions, from its schema.
fn action_names(schema: &str) -> Result<Vec<String>> {
    let text =
        fs::read_to_string(tidy::root().join(schema)).with_context(|| format!("cannot read {schema}"))?;
    let schema: serde_json::Value = serde_json::from_str(&text)?;
    Ok(serde_json::from_value(schema["properties"]["action"]["enum"].clone())?)
}

/// A row for each action.
///
/// `✓` works, `–` is refused, and an empty cell was not tested.
fn actions(kind: &Kind, passed: &[TestResult]) -> Result<String> {
    let Some(schema) = kind.schema else { return Ok(String::new()) };
    let columns: Vec<String> = passed.iter().map(TestResult::title).collect();
    let mut out = format!(
        "\nActions:\n\n| action | {} |\n|{}\n",
        columns.join(" | "),
        "---|".repeat(columns.len() + 1)
    );
    for action in action_names(schema)? {
        let cell = |it: &TestResult| match it.actions.get(&action) {
            Some(true) => " ✓ |",
            Some(false) => " – |",
            None => "  |",
        };
        out.push_str(&format!("| `{action}` |{}\n", passed.iter().map(cell).collect::<String>()));
    }
    Ok(out)
}

fn with_table(page: &str, table: &str) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).with_context(|| format!("it has no {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("it has no {END}"))?;
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

/// Replaces or inserts the line that begins with `verified`.
fn write_verified(definition: &Definition, version: &str, today: &str) -> Result<()> {
    let path = &definition.path;
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let fresh = put_verified(&text, version, today);
    fs::write(path, fresh).with_context(|| format!("cannot write {}", path.display()))
}

fn put_verified(text: &str, version: &str, today: &str) -> String {
    let line =
        format!("verified = {{ version = \"{version}\", date = \"{today}\", how = \"cargo xtask test\" }}");
    let mut out = Vec::new();
    let mut done = false;
    for old in text.lines() {
        if !done && old.starts_with("verified") {
            out.push(line.as_str());
            done = true;
            continue;
        }
        // Top-level keys end at the first table or empty line.
        if !done && (old.is_empty() || old.starts_with('[')) {
            out.push(line.as_str());
            done = true;
        }
        out.push(old);
    }
    out.join("\n") + "\n"
}

fn today() -> Result<String> {
    let mut date = Command::new("date");
    let said = exec::capture_ok(date.args(["-u", "+%Y-%m-%d"]), Duration::from_secs(20))?;
    Ok(said.stdout.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verified_is_inserted_or_replaced() {
        let line = "verified = { version = \"2\", date = \"2026-01-02\", how = \"cargo xtask test\" }";
        let put = |text: &str| put_verified(text, "2", "2026-01-02");
        assert_eq!(put("name = \"x\"\n\n[root]\n"), format!("name = \"x\"\n{line}\n\n[root]\n"));
        assert_eq!(
            put("name = \"x\"\nverified = false\n\n[root]\n"),
            format!("name = \"x\"\n{line}\n\n[root]\n")
        );
        let again = put(&put("name = \"x\"\n\n[root]\n"));
        assert_eq!(again.matches("verified").count(), 1);
    }

    #[test]
    fn pages_and_definitions_name_the_same_programs() {
        let root = tidy::root();
        for kind in [SERVERS, DEBUGGERS] {
            let page = fs::read_to_string(root.join(kind.page)).expect("the page");
            for action in kind.schema.map(|it| action_names(it).expect("the schema")).unwrap_or_default() {
                let row = page
                    .lines()
                    .find(|it| it.starts_with(&format!("| `{action}` |")) && it.matches('|').count() > 3);
                assert!(row.is_some(), "no row of {action} in {}: cargo xtask test --update", kind.page);
            }
            for definition in definitions(&kind, &root).expect("they read") {
                let (name, of) = match verified(&definition.table) {
                    Some(version) => (&definition.name, version),
                    None => (&definition.name, definition.about.as_str()),
                };
                // A server tested with several languages has a row for each: `name (language)`.
                let is_row = |line: &str| {
                    let rest = line.strip_prefix(&format!("| {name} ")).unwrap_or_default();
                    let rest =
                        rest.strip_prefix('(').and_then(|it| Some(it.split_once(") ")?.1)).unwrap_or(rest);
                    rest.starts_with(&format!("| {of} |"))
                };
                let page_has = page.lines().any(is_row);
                assert!(page_has, "no row of {name} {of} in {}: cargo xtask test --update", kind.page);
            }
        }
    }

    #[test]
    fn only_text_between_the_marks_is_replaced() {
        let page = format!("before\n{BEGIN}old\n{END}after\n");
        assert_eq!(with_table(&page, "new").expect("marks"), format!("before\n{BEGIN}\nnew\n{END}after\n"));
        assert!(with_table("no marks", "new").is_err());
    }
}
