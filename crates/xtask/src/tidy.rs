//! `cargo xtask tidy`: the rules of the house that a compiler cannot hold. Also a test.
//!
//! The table of crates in `docs/architecture.md` is read from the page itself, so the page cannot
//! drift from the code. Every check is a function from text to problems, tested on bad input.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::exec;

const PAGE: &str = "docs/architecture.md";
const ERRORS_PAGE: &str = "docs/formats/errors.md";

pub(crate) fn run() -> Result<()> {
    let problems = problems(&root())?;
    if !problems.is_empty() {
        bail!("{} problems\n{}", problems.len(), problems.join("\n"));
    }
    println!("tidy");
    Ok(())
}

/// The checkout this tool was built from.
pub(crate) fn root() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    crates.map(Path::to_path_buf).unwrap_or_else(|| PathBuf::from("."))
}

fn problems(root: &Path) -> Result<Vec<String>> {
    let page = read(&root.join(PAGE))?;
    let (table, mut problems) = parse_table(&page);
    problems.extend(check_layers(&table));
    problems.extend(check_edges(&table, &cargo_edges(root)?));
    let mut error_codes = None;
    let mut documented = None;
    for (path, text) in tracked_files(root)? {
        if path.ends_with(".rs") && !text.starts_with("//!") {
            problems.push(format!("{path}: does not begin with a `//!` header"));
        }
        problems.extend(check_machine_paths(&path, &text));
        problems.extend(
            format_pages(&text)
                .into_iter()
                .filter(|page| !root.join("docs/formats").join(page).is_file())
                .map(|page| format!("{path}: mentions docs/formats/{page}, which does not exist")),
        );
        if path.starts_with("adapters/") && path.ends_with(".toml") {
            problems
                .extend(toml::from_str::<toml::Table>(&text).err().map(|error| format!("{path}: {error}")));
        }
        if path.starts_with("crates/policy/src/") && text.contains("enum ErrorCode") {
            error_codes = Some(enum_variants(&text, "ErrorCode"));
        }
        if path == ERRORS_PAGE {
            documented = Some(documented_codes(&text));
        }
    }
    if let (Some(codes), Some(documented)) = (error_codes, documented) {
        for code in codes.symmetric_difference(&documented) {
            let missing = if codes.contains(code) { ERRORS_PAGE } else { "policy::ErrorCode" };
            problems.push(format!("the error code `{code}` is missing in {missing}"));
        }
    }
    Ok(problems)
}

/// A row of the page's table.
#[derive(Debug, PartialEq)]
struct Row {
    /// `None`: a crate of development only.
    layer: Option<u32>,
    /// `None`: all crates of the product.
    uses: Option<BTreeSet<String>>,
    in_tests: BTreeSet<String>,
}

/// The rows by crate, and what is wrong with the table itself.
fn parse_table(page: &str) -> (BTreeMap<String, Row>, Vec<String>) {
    let cells = |line: &str| -> Vec<String> {
        line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let names =
        |cell: &str| -> BTreeSet<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let mut rows = BTreeMap::new();
    let mut problems = Vec::new();
    let mut lines = page.lines().skip_while(|line| !line.starts_with("| layer |"));
    let header = lines.next().map(cells).unwrap_or_default();
    let column = |name: &str| header.iter().position(|cell| cell == name);
    let (Some(layer), Some(krate), Some(uses), Some(in_tests)) =
        (column("layer"), column("crate"), column("uses"), column("in tests"))
    else {
        return (rows, vec![format!("{PAGE}: no table with the columns layer, crate, uses, in tests")]);
    };
    for line in lines.skip(1).take_while(|line| line.starts_with('|')) {
        let row = cells(line);
        if row.len() != header.len() {
            problems.push(format!(
                "{PAGE}: a row with {} cells instead of {}: {line}",
                row.len(),
                header.len()
            ));
            continue;
        }
        let Some(name) = names(&row[krate]).into_iter().next() else {
            problems.push(format!("{PAGE}: a row without a crate: {line}"));
            continue;
        };
        let value = Row {
            layer: row[layer].parse().ok(),
            uses: (row[uses] != "all").then(|| names(&row[uses])),
            in_tests: names(&row[in_tests]),
        };
        if value.layer.is_none() && row[layer] != "dev" {
            problems.push(format!("{PAGE}: the layer of {name} is neither a number nor dev"));
        }
        if rows.insert(name.clone(), value).is_some() {
            problems.push(format!("{PAGE}: two rows for {name}"));
        }
    }
    (rows, problems)
}

/// Nothing points upward, and nothing of the product at what is for development.
fn check_layers(table: &BTreeMap<String, Row>) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, row) in table {
        for used in row.uses.iter().flatten().chain(&row.in_tests) {
            let in_tests = row.in_tests.contains(used);
            match (table.get(used), row.layer) {
                (None, _) => problems.push(format!("{PAGE}: {name} uses {used}, which has no row")),
                (Some(Row { layer: None, .. }), Some(_)) if !in_tests => {
                    problems.push(format!("{PAGE}: {name} uses {used}, which is for development only"));
                }
                (Some(Row { layer: Some(below), .. }), Some(own)) if *below > own => {
                    problems.push(format!("{PAGE}: {name} (layer {own}) uses {used} (layer {below})"));
                }
                _ => {}
            }
        }
        // The fixtures use the layers below; a crate of theirs that used them back would be built twice.
        if row.in_tests.contains("testing")
            && row.layer.is_some_and(|layer| layer < 3)
            && !["lsp-client", "dap-client"].contains(&name.as_str())
        {
            problems.push(format!("{PAGE}: {name} is below the crates whose tests may use testing"));
        }
    }
    problems
}

/// One dependency of a crate of ours on another.
#[derive(Debug)]
struct Edge {
    from: String,
    to: String,
    dev: bool,
}

/// The crates of the workspace and the edges between them.
struct Edges {
    crates: BTreeSet<String>,
    edges: Vec<Edge>,
}

fn check_edges(table: &BTreeMap<String, Row>, found: &Edges) -> Vec<String> {
    let mut problems = Vec::new();
    for name in found.crates.iter().filter(|name| !table.contains_key(*name)) {
        problems.push(format!("{PAGE}: the crate {name} has no row"));
    }
    for name in table.keys().filter(|name| !found.crates.contains(*name)) {
        problems.push(format!("{PAGE}: there is no crate {name}"));
    }
    for Edge { from, to, dev } in &found.edges {
        let Some(row) = table.get(from) else { continue };
        let product = |name: &String| table.get(name).is_some_and(|row| row.layer.is_some());
        let allowed = match &row.uses {
            Some(uses) => uses.contains(to),
            None => product(to),
        };
        if !(allowed || *dev && row.in_tests.contains(to)) {
            let how = if *dev { " in tests" } else { "" };
            problems.push(format!("{from} uses {to}{how}, which {PAGE} does not allow"));
        }
    }
    problems
}

/// What is used of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    path: Option<PathBuf>,
}

/// Where cargo puts what it builds.
pub(crate) fn target_directory() -> Result<PathBuf> {
    Ok(metadata(&root())?.target_directory)
}

fn metadata(root: &Path) -> Result<Metadata> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let output = exec::capture_ok(&mut command, Duration::from_secs(120))?;
    serde_json::from_str(&output.stdout).context("cargo metadata is not as expected")
}

fn cargo_edges(root: &Path) -> Result<Edges> {
    let metadata = metadata(root)?;
    let mut found = Edges { crates: BTreeSet::new(), edges: Vec::new() };
    for package in metadata.packages {
        for dependency in package.dependencies.into_iter().filter(|it| it.path.is_some()) {
            found.edges.push(Edge {
                from: package.name.clone(),
                to: dependency.name,
                dev: dependency.kind.as_deref() == Some("dev"),
            });
        }
        found.crates.insert(package.name);
    }
    Ok(found)
}

/// Text files that are tracked or about to be, with their contents.
fn tracked_files(root: &Path) -> Result<Vec<(String, String)>> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = exec::capture_ok(&mut git, Duration::from_secs(60))?.stdout;
    let mut files = Vec::new();
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        match fs::read(root.join(path)) {
            // What is not text has no lines to hold to a rule.
            Ok(bytes) => files.extend(String::from_utf8(bytes).ok().map(|text| (path.to_owned(), text))),
            // Deleted and not yet committed, or a link to nowhere.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
        }
    }
    if !files.iter().any(|(path, _)| path == PAGE) {
        bail!("git lists no {PAGE}: not a checkout of Pilcrow");
    }
    Ok(files)
}

/// Folders of the machine someone works on have no place in the project.
fn check_machine_paths(path: &str, text: &str) -> Vec<String> {
    let machine = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
    let own = |line: &str| {
        machine.iter().any(|folder| {
            line.match_indices(folder).any(|(at, _)| {
                // A path of its own, not the inside of a longer one such as `a/work/b`.
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || "_-.}".contains(c))
            })
        })
    };
    text.lines()
        .enumerate()
        .filter(|(_, line)| own(line))
        .map(|(index, line)| format!("{path}:{}: a path of one machine: {}", index + 1, line.trim()))
        .collect()
}

/// The pages under `docs/formats/` that a text mentions.
fn format_pages(text: &str) -> BTreeSet<String> {
    text.match_indices("docs/formats/")
        .filter_map(|(at, mention)| {
            let rest = &text[at + mention.len()..];
            let end =
                rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c))).unwrap_or(rest.len());
            let page = &rest[..end];
            page.find(".md").map(|dot| page[..dot + 3].to_owned())
        })
        .collect()
}

/// The variants of an enum, as `snake_case`.
fn enum_variants(source: &str, name: &str) -> BTreeSet<String> {
    let body = source.split_once(&format!("enum {name} {{")).map_or("", |(_, rest)| rest);
    let body = body.split_once("\n}").map_or(body, |(body, _)| body);
    body.lines()
        .map(str::trim)
        .filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()))
        .filter_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric()).next())
        .map(snake_case)
        .collect()
}

fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// The codes in the first column of the page's table.
fn documented_codes(page: &str) -> BTreeSet<String> {
    page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).map(str::to_owned).collect()
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_house_is_tidy() {
        let problems = problems(&root()).expect("tidy runs");
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    const TABLE: &str = "\
| layer | crate | what | uses | in tests |
|---|---|---|---|---|
| 0 | `low` | x | – | – |
| 1 | `mid` | x | `low` | – |
| 4 | `high` | x | `mid` | `testing` |
| 5 | `bin` | x | all | `testing` |
| dev | `testing` | x | `low` | – |

After the table.
";

    fn edges(edges: &[(&str, &str, bool)]) -> Edges {
        let crates = ["low", "mid", "high", "bin", "testing"].map(str::to_owned).into();
        let edge = |&(from, to, dev): &(&str, &str, bool)| Edge { from: from.into(), to: to.into(), dev };
        Edges { crates, edges: edges.iter().map(edge).collect() }
    }

    #[track_caller]
    fn check(found: &[(&str, &str, bool)], expected: &[&str]) {
        let (table, problems) = parse_table(TABLE);
        assert_eq!(problems, [""; 0]);
        assert_eq!(check_layers(&table), [""; 0]);
        let problems = check_edges(&table, &edges(found));
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, part) in problems.iter().zip(expected) {
            assert!(problem.contains(part), "{problem}");
        }
    }

    #[test]
    fn edges_are_held_to_the_table() {
        check(&[("mid", "low", false), ("high", "testing", true), ("bin", "high", false)], &[]);
        check(&[("low", "mid", false)], &["low uses mid"]);
        check(&[("high", "low", false)], &["high uses low"]);
        check(&[("high", "testing", false)], &["high uses testing"]);
        check(&[("bin", "testing", false)], &["bin uses testing"]);
        check(&[("mid", "testing", true)], &["mid uses testing in tests"]);
    }

    #[test]
    fn crates_and_rows_must_match() {
        let (table, _) = parse_table(TABLE);
        let mut found = edges(&[]);
        found.crates.remove("mid");
        found.crates.insert("new".into());
        let problems = check_edges(&table, &found).join("\n");
        assert!(problems.contains("new has no row") && problems.contains("no crate mid"), "{problems}");
    }

    #[test]
    fn a_bad_table_is_told() {
        assert_eq!(parse_table("no table").1.len(), 1);
        let upward = TABLE.replace("| 0 | `low` | x | – |", "| 0 | `low` | x | `high` |");
        assert!(check_layers(&parse_table(&upward).0)[0].contains("low (layer 0) uses high (layer 4)"));
        let dev = TABLE.replace("| 1 | `mid` | x | `low` |", "| 1 | `mid` | x | `testing` |");
        assert!(check_layers(&parse_table(&dev).0)[0].contains("for development only"));
        let tests = TABLE.replace("| 1 | `mid` | x | `low` | – |", "| 1 | `mid` | x | `low` | `testing` |");
        assert!(check_layers(&parse_table(&tests).0)[0].contains("below the crates"));
        let layer = TABLE.replace("| 1 | `mid`", "| one | `mid`");
        assert!(parse_table(&layer).1[0].contains("neither a number nor dev"));
    }

    #[test]
    fn machine_paths_are_found() {
        let own = concat!("see /wo", "rk/x and /ro", "ot/y");
        assert_eq!(check_machine_paths("a.md", own).len(), 1);
        assert_eq!(check_machine_paths("a.md", concat!("src/wo", "rk/x, ${HOME}/ro", "ot/y")), [""; 0]);
    }

    #[test]
    fn mentioned_pages_are_found() {
        let pages =
            format_pages(concat!("see docs/for", "mats/b-1.md, `docs/for", "mats/a.md`. Not docs/formats/."));
        assert_eq!(pages, ["a.md", "b-1.md"].map(str::to_owned).into());
    }

    #[test]
    fn error_codes_are_read_from_code_and_page() {
        let source = "/// x\npub enum ErrorCode {\n    /// A.\n    NotUtf8,\n    IoError = 3,\n}\nenum Other {\n    No,\n}\n";
        assert_eq!(enum_variants(source, "ErrorCode"), ["not_utf8", "io_error"].map(str::to_owned).into());
        assert_eq!(documented_codes("| code |\n|---|\n| `io_error` | x |\n"), ["io_error".to_owned()].into());
    }
}
