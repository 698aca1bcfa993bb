//! The table of crates in `docs/architecture.md`, compared with `cargo metadata`.
//!
//! The check reads the page itself, so the page cannot drift from the code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use super::{PAGE, metadata};

/// Crates below `host` that no surface uses.
///
/// Surfaces reach them through `host`.
const BELOW_HOST: [&str; 6] = ["tools", "lsp-client", "dap-client", "llm", "refactor", "hashline"];

/// The problems of the page and of the crates' dependencies.
pub(super) fn check(root: &Path, page: &str) -> Result<Vec<String>> {
    let (table, mut problems) = parse_table(page);
    problems.extend(check_layers(&table));
    problems.extend(check_surfaces(&table));
    problems.extend(check_edges(&table, &cargo_edges(root)?));
    Ok(problems)
}

/// A row of the page's table.
#[derive(Debug, PartialEq)]
struct Row {
    /// Layer of the crate; `None`: for development only.
    layer: Option<u32>,
    /// Crates that it uses; `None`: all crates of the product.
    uses: Option<BTreeSet<String>>,
    in_tests: BTreeSet<String>,
}

/// The rows by crate, and the problems of the table itself.
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

/// Checks that surfaces use `host`, never each other or hidden crates.
fn check_surfaces(table: &BTreeMap<String, Row>) -> Vec<String> {
    let top = table.values().filter_map(|row| row.layer).max();
    let is_surface = |name: &str| table.get(name).is_some_and(|row| row.layer == top);
    let mut problems = Vec::new();
    for (name, row) in table.iter().filter(|(name, _)| is_surface(name)) {
        // The binary starts the surfaces; its edges are those that `cargo metadata` finds.
        for used in row.uses.iter().flatten() {
            if is_surface(used) {
                problems.push(format!("{PAGE}: the surface {name} uses the surface {used}"));
            }
            if BELOW_HOST.contains(&used.as_str()) {
                problems
                    .push(format!("{PAGE}: the surface {name} uses {used}; `host` must offer what it needs"));
            }
        }
    }
    problems
}

/// Reports uses of a higher layer, and of development crates by product crates.
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
        // The fixtures use the layers below; a crate of those that used the fixtures would be built
        // twice.
        if row.in_tests.contains("testing")
            && row.layer.is_some_and(|layer| layer < 3)
            && !["lsp-client", "dap-client"].contains(&name.as_str())
        {
            problems.push(format!("{PAGE}: {name} is below the crates whose tests may use testing"));
        }
    }
    problems
}

/// One dependency of a workspace crate on another.
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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(check_surfaces(&table), [""; 0]);
        let problems = check_edges(&table, &edges(found));
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, part) in problems.iter().zip(expected) {
            assert!(problem.contains(part), "{problem}");
        }
    }

    #[test]
    fn edges_must_match_the_table() {
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
        expect_test::expect![[r#"
            docs/architecture.md: the crate new has no row
            docs/architecture.md: there is no crate mid"#]]
        .assert_eq(&problems);
    }

    #[test]
    fn surfaces_use_neither_each_other_nor_clients() {
        let page = |uses: &str| {
            format!(
                "| layer | crate | uses | in tests |\n|---|---|---|---|\n| 2 | `lsp-client` | – | – |\n\
                 | 6 | `lsp-server` | {uses} | – |\n| 6 | `rpc-server` | – | – |\n| 6 | `bin` | all | – |\n"
            )
        };
        let problems = |uses: &str| check_surfaces(&parse_table(&page(uses)).0);
        assert_eq!(problems("–"), [""; 0]);
        expect_test::expect![
            "docs/architecture.md: the surface lsp-server uses lsp-client; `host` must offer what it needs"
        ]
        .assert_eq(&problems("`lsp-client`")[0]);
        expect_test::expect!["docs/architecture.md: the surface lsp-server uses the surface rpc-server"]
            .assert_eq(&problems("`rpc-server`")[0]);
    }

    #[test]
    fn a_bad_table_is_reported() {
        assert_eq!(parse_table("no table").1.len(), 1);
        let upward = TABLE.replace("| 0 | `low` | x | – |", "| 0 | `low` | x | `high` |");
        expect_test::expect!["docs/architecture.md: low (layer 0) uses high (layer 4)"]
            .assert_eq(&check_layers(&parse_table(&upward).0)[0]);
        let dev = TABLE.replace("| 1 | `mid` | x | `low` |", "| 1 | `mid` | x | `testing` |");
        expect_test::expect!["docs/architecture.md: mid uses testing, which is for development only"]
            .assert_eq(&check_layers(&parse_table(&dev).0)[0]);
        let tests = TABLE.replace("| 1 | `mid` | x | `low` | – |", "| 1 | `mid` | x | `low` | `testing` |");
        expect_test::expect!["docs/architecture.md: mid is below the crates whose tests may use testing"]
            .assert_eq(&check_layers(&parse_table(&tests).0)[0]);
        let layer = TABLE.replace("| 1 | `mid`", "| one | `mid`");
        expect_test::expect!["docs/architecture.md: the layer of mid is neither a number nor dev"]
            .assert_eq(&parse_table(&layer).1[0]);
    }
}
