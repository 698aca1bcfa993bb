//! `cargo xtask tidy --count`: lines of code per crate, the longest functions, the largest files.
//!
//! Counts lines that are neither blank nor comments, outside of tests.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Number of rows in the lists of the longest functions and largest files.
const ROWS: usize = 10;

/// The report over all tracked files.
pub(super) fn report(files: &[(String, String)]) -> String {
    let mut crates: BTreeMap<&str, usize> = BTreeMap::new();
    let mut development = 0;
    let mut sizes = Vec::new();
    let mut functions = Vec::new();
    for (path, text) in files {
        if ["crates/xtask/src/", "crates/testing/src/"].iter().any(|start| path.starts_with(start)) {
            development += code_lines(without_tests(text));
        }
        let Some(name) = product_crate(path) else { continue };
        let code = without_tests(text);
        let lines = code_lines(code);
        *crates.entry(name).or_default() += lines;
        sizes.push((lines, path.clone()));
        functions.extend(
            function_lengths(code).into_iter().map(|(length, name)| (length, format!("{path}: {name}"))),
        );
    }
    let mut out = String::from("lines of code outside of tests\n");
    let mut by_size: Vec<(usize, &str)> = crates.into_iter().map(|(name, lines)| (lines, name)).collect();
    by_size.sort_unstable_by(|a, b| b.cmp(a));
    let total: usize = by_size.iter().map(|(lines, _)| lines).sum();
    rows(&mut out, by_size.iter().map(|(lines, name)| (*lines, *name)));
    let all = total + development;
    rows(&mut out, [(total, "total of the product"), (all, "with xtask and testing")].into_iter());
    for (title, mut list) in [("longest functions", functions), ("largest files", sizes)] {
        list.sort_unstable_by(|a, b| b.cmp(a));
        writeln!(out, "\n{title}").expect("a string can be written");
        rows(&mut out, list.iter().take(ROWS).map(|(lines, name)| (*lines, name.as_str())));
    }
    out
}

fn rows<'a>(out: &mut String, rows: impl Iterator<Item = (usize, &'a str)>) {
    for (lines, name) in rows {
        writeln!(out, "{lines:>7}  {name}").expect("a string can be written");
    }
}

/// The crate to whose product code a file belongs.
///
/// `None` for tests, examples and development crates.
pub(super) fn product_crate(path: &str) -> Option<&str> {
    let (name, inner) = path.strip_prefix("crates/")?.split_once("/src/")?;
    let is_test = inner.split('/').any(|part| {
        let part = part.trim_end_matches(".rs");
        part == "tests" || part == "test_support" || part.ends_with("_tests")
    });
    (path.ends_with(".rs") && !is_test && !["testing", "xtask"].contains(&name)).then_some(name)
}

/// The text before the test module at the end of a file.
pub(super) fn without_tests(text: &str) -> &str {
    let end = text.find("\n#[cfg(test)]\nmod ").filter(|at| text[*at..].contains(" {\n"));
    &text[..end.unwrap_or(text.len())]
}

fn code_lines(code: &str) -> usize {
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    code.lines().filter(is_code).count()
}

/// The functions of formatted code, with their lengths.
///
/// A function ends at the brace under its first line's indentation.
fn function_lengths(code: &str) -> Vec<(usize, String)> {
    let mut functions = Vec::new();
    let lines: Vec<&str> = code.lines().collect();
    for (start, line) in lines.iter().enumerate() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let Some((before, rest)) = line.split_once("fn ") else { continue };
        let words = ["pub", "const", "async", "unsafe", "extern"];
        if !before.split_whitespace().all(|word| words.iter().any(|known| word.starts_with(known))) {
            continue;
        }
        let close = format!("{indent}}}");
        let end = lines[start..].iter().position(|line| *line == close || *line == format!("{indent};"));
        if let Some(length) = end {
            let name = rest.split(['(', '<']).next().unwrap_or(rest);
            functions.push((length + 1, name.to_owned()));
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_comments_and_blank_lines_do_not_count() {
        let code = "//! A file.\n\nfn a() {\n    1;\n}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        let files =
            [("crates/a/src/lib.rs", code), ("crates/a/src/b_tests.rs", code), ("tests/src/lib.rs", code)];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        expect_test::expect![[r#"
            lines of code outside of tests
                  3  a
                  3  total of the product
                  3  with xtask and testing

            longest functions
                  3  crates/a/src/lib.rs: a

            largest files
                  3  crates/a/src/lib.rs
        "#]]
        .assert_eq(&report(&files));
    }
}
