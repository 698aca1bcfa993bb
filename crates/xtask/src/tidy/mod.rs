//! `cargo xtask tidy`: the house rules that a compiler cannot check. Also a test.
//!
//! Every check is a function from text to problems, tested on bad input.

mod callers;
mod count;
mod edges;
mod language;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::exec;

const PAGE: &str = "docs/architecture.md";
const ERRORS_PAGE: &str = "docs/formats/errors.md";

/// Arguments of `tidy`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print lines of code per crate, longest functions and largest files instead.
    #[arg(long)]
    count: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.count {
        print!("{}", count::report(&tracked_files(&root())?));
        return Ok(());
    }
    check()
}

/// Checks every rule.
///
/// # Errors
///
/// All violations, one per line.
pub(crate) fn check() -> Result<()> {
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
    let mut problems = edges::check(root, &read(&root.join(PAGE))?)?;
    let files = tracked_files(root)?;
    problems.extend(callers::check(&files));
    let words = language::Words::parse(language::WORDS);
    let mut error_codes = None;
    let mut documented = None;
    for (path, text) in &files {
        problems.extend(words.check(path, text));
        problems.extend(language::check(path, text));
        problems.extend(language::check_prose(path, text));
        if path.ends_with(".rs") && !text.starts_with("//!") {
            problems.push(format!("{path}: does not begin with a `//!` header"));
        }
        problems.extend(check_machine_paths(path, text));
        problems.extend(
            format_pages(text)
                .into_iter()
                .filter(|page| !root.join("docs/formats").join(page).is_file())
                .map(|page| format!("{path}: mentions docs/formats/{page}, which does not exist")),
        );
        if path.starts_with("adapters/") && path.ends_with(".toml") {
            problems
                .extend(toml::from_str::<toml::Table>(text).err().map(|error| format!("{path}: {error}")));
        }
        if path.starts_with("crates/policy/src/") && text.contains("enum ErrorCode") {
            error_codes = Some(enum_variants(text, "ErrorCode"));
        }
        if path == ERRORS_PAGE {
            documented = Some(documented_codes(text));
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

/// The part of `cargo metadata` that tidy uses.
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

/// The directory for cargo's build output.
pub(crate) fn target_directory() -> Result<PathBuf> {
    Ok(metadata(&root())?.target_directory)
}

fn metadata(root: &Path) -> Result<Metadata> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let output = exec::capture_ok(&mut command, Duration::from_secs(120))?;
    serde_json::from_str(&output.stdout).context("cargo metadata is not as expected")
}

/// Text files that are tracked or new, with their contents.
fn tracked_files(root: &Path) -> Result<Vec<(String, String)>> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = exec::capture_ok(&mut git, Duration::from_secs(60))?.stdout;
    let mut files = Vec::new();
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        match fs::read(root.join(path)) {
            // A binary file has no lines to check.
            Ok(bytes) => files.extend(String::from_utf8(bytes).ok().map(|text| (path.to_owned(), text))),
            // The file is deleted and not yet committed, or a link without a target.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
        }
    }
    if !files.iter().any(|(path, _)| path == PAGE) {
        bail!("git lists no {PAGE}: not a checkout of Pilcrow");
    }
    Ok(files)
}

/// Finds directories of a developer's machine, which have no place in the project.
fn check_machine_paths(path: &str, text: &str) -> Vec<String> {
    let machine = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
    let own = |line: &str| {
        machine.iter().any(|folder| {
            line.match_indices(folder).any(|(at, _)| {
                // The match must be a path of its own, not the inside of a longer one such as
                // `a/work/b`.
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || "_-.}".contains(c))
            })
        })
    };
    text.lines()
        .enumerate()
        .filter(|(_, line)| own(line))
        .map(|(index, line)| {
            format!("{path}:{}: a path of one machine; make it relative: {}", index + 1, line.trim())
        })
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
    fn the_repository_passes_tidy() {
        let problems = problems(&root()).expect("tidy runs");
        assert!(problems.is_empty(), "{}", problems.join("\n"));
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
