//! `cargo xtask bench verdicts`: what Pilcrow claims about renames, and what the compiler says.
//!
//! Renames symbols of public projects that a fixed rule chooses, compares the claim about new errors with those
//! of the compiler, and checks that `undo` restores every byte.

mod symbols;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use self::symbols::{ENDING, Symbol, choose, new_name};
use crate::demo::tree::Tree;
use crate::setup::tools_dir::ToolsDir;
use crate::setup::{self, For};
use crate::steps::Steps;
use crate::{env, exec};

const DEADLINE: Duration = Duration::from_secs(15 * 60);

/// The projects; `languages.toml` documents the keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Languages {
    languages: Vec<Language>,
}

/// A public project, its compiler, and its declarations.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Language {
    name: String,
    project: String,
    prepare: String,
    compile: String,
    error: String,
    declared_in: String,
    declared_by: String,
    used_by: Vec<String>,
    overriding: Option<String>,
    kinds: BTreeMap<String, String>,
}

/// Errors of a compiler by file and message, without lines.
type Errors = BTreeMap<(String, String), usize>;

/// The verdict that a result claims.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Claim {
    Refused,
    Clean,
    /// Number of errors that the rename introduced.
    Errors(usize),
    /// Number of errors without a baseline.
    Now(usize),
    NotChecked,
}

impl Claim {
    fn of(result: &Value) -> Self {
        let found = &result["details"]["diagnostics"];
        let list = |name: &str| found[name].as_array().into_iter().flatten();
        let errors = |name: &str| list(name).filter(|it| it["severity"] == "error").count();
        let is_empty = |name: &str| {
            found[name].as_array().is_some_and(Vec::is_empty)
                || found[name].as_object().is_some_and(|it| it.is_empty())
        };
        let is_complete = found["compared"].as_u64() > Some(0)
            && found["not_checked"] == 0
            && found["cut"] == false
            && is_empty("missing")
            && is_empty("on_save");
        match (errors("introduced"), errors("present")) {
            _ if result["is_error"] == true => Self::Refused,
            (introduced @ 1.., _) => Self::Errors(introduced),
            (_, present @ 1..) => Self::Now(present),
            _ if is_complete => Self::Clean,
            _ => Self::NotChecked,
        }
    }
}

/// The sums of a language.
#[derive(Default)]
struct Row {
    renames: usize,
    refused: usize,
    clean: usize,
    errors: usize,
    now: usize,
    not_checked: usize,
    agrees: usize,
    false_clean: usize,
    false_errors: usize,
    undone: usize,
}

impl Row {
    fn add(&mut self, claim: Claim, new_errors: usize, undone: bool) {
        let is_broken = new_errors > 0;
        self.renames += 1;
        match claim {
            Claim::Refused => self.refused += 1,
            Claim::Clean => self.clean += 1,
            Claim::Errors(_) => self.errors += 1,
            Claim::Now(_) => self.now += 1,
            Claim::NotChecked => self.not_checked += 1,
        }
        match claim {
            Claim::Clean if is_broken => self.false_clean += 1,
            Claim::Errors(_) if !is_broken => self.false_errors += 1,
            Claim::Clean | Claim::Errors(_) => self.agrees += 1,
            Claim::Refused | Claim::Now(_) | Claim::NotChecked => {}
        }
        self.undone += usize::from(undone);
    }

    fn print(&self, name: &str) {
        let Self { renames, refused, clean, errors, now, not_checked, .. } = self;
        let Self { agrees, false_clean, false_errors, undone, .. } = self;
        println!(
            "{name:<28}{renames:>8}{refused:>9}{clean:>7}{errors:>8}{now:>6}{not_checked:>13}{agrees:>8}{false_clean:>13}{false_errors:>14}{undone:>13}"
        );
    }
}

/// Measures all languages, or the one with this name.
///
/// Returns the number of false verdicts.
pub(super) fn run(pilcrow: &Path, only: Option<&str>, wait: &str) -> Result<usize> {
    let tools = ToolsDir::from_env()?;
    let mut steps = Steps::new();
    setup::ensure(&tools, For::Test, &mut steps)?;
    setup::ensure_debian_sources(&tools, &mut steps)?;
    let Languages { languages } = toml::from_str(include_str!("languages.toml")).context("languages.toml")?;
    let mut rows = Vec::new();
    for language in languages.iter().filter(|it| only.is_none_or(|only| it.name.eq_ignore_ascii_case(only))) {
        let directory = tempfile::Builder::new()
            .prefix("pilcrow-verdicts-")
            .tempdir()
            .context("cannot make a directory")?;
        let lab = Lab { language, pilcrow, tools: &tools, directory: directory.path() };
        rows.push((format!("{}, {}", language.name, language.project), lab.measure(wait)?));
    }
    println!(
        "\n{:<28}{:>8}{:>9}{:>7}{:>8}{:>6}{:>13}{:>8}{:>13}{:>14}{:>13}",
        "",
        "renames",
        "refused",
        "clean",
        "errors",
        "now",
        "not checked",
        "agrees",
        "FALSE clean",
        "false errors",
        "undo exact"
    );
    rows.iter().for_each(|(name, row)| row.print(name));
    println!(
        "now: errors without a baseline. agrees: of those claimed clean or with errors. A refusal changes no file."
    );
    Ok(rows.iter().map(|(_, row)| row.false_clean + row.false_errors).sum())
}

/// A project in a directory of its own.
struct Lab<'a> {
    language: &'a Language,
    pilcrow: &'a Path,
    tools: &'a ToolsDir,
    directory: &'a Path,
}

impl Lab<'_> {
    fn project(&self) -> PathBuf {
        self.directory.join("project")
    }

    fn measure(&self, wait: &str) -> Result<Row> {
        self.prepare()?;
        // The first run may write files of the compiler.
        let before = self.errors(None)?;
        let start = Tree::read(&self.project())?;
        let symbols = choose(self.language, &start)?;
        let mut broken = symbols.iter().map(|symbol| self.is_broken_alone(symbol, &before));
        let Language { name, project, compile, .. } = self.language;
        // A compiler that does not run would agree with every claim.
        let found = broken.find(|it| !matches!(it, Ok(false))).transpose()?;
        ensure!(found.is_some(), "{project}: no broken text has an error: {compile}");
        println!("{name}: {} errors before, as the compiler says", before.values().sum::<usize>());
        let mut row = Row::default();
        for symbol in symbols {
            let new = new_name(&symbol.name);
            let result = self.call(&["rename", &symbol.place, &new, "--json", "--yes", "--wait", wait])?;
            let claim = Claim::of(&result);
            let new_errors = introduced(&before, self.errors(Some(&symbol.name))?);
            if claim != Claim::Refused {
                self.call(&["undo", "--json"])?;
            }
            let changed = start.differences(&Tree::read(&self.project())?);
            report(self.language, &symbol, claim, &new_errors, &result, &changed);
            row.add(claim, new_errors.len(), changed.is_empty());
            if !changed.is_empty() {
                self.prepare()?;
            }
        }
        Ok(row)
    }

    /// Whether the compiler finds an error if only the declaration gets the new name.
    fn is_broken_alone(&self, symbol: &Symbol, before: &Errors) -> Result<bool> {
        let path = self.project().join(&symbol.path);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut broken = text.clone();
        broken.insert_str(symbol.end, ENDING);
        fs::write(&path, broken).with_context(|| format!("cannot write {}", path.display()))?;
        let after = self.errors(None);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(!introduced(before, after?).is_empty())
    }

    /// Makes the project as it was published.
    fn prepare(&self) -> Result<()> {
        let project = self.project();
        if project.exists() {
            fs::remove_dir_all(&project).with_context(|| format!("cannot remove {}", project.display()))?;
        }
        fs::create_dir(&project).with_context(|| format!("cannot create {}", project.display()))?;
        let mut shell = self.command("sh");
        shell.args(["-euc", &self.language.prepare]);
        exec::capture_ok(&mut shell, DEADLINE).map(drop)
    }

    /// The errors of the compiler.
    ///
    /// In them, the new name of a renamed symbol is replaced by its old one.
    fn errors(&self, renamed: Option<&str>) -> Result<Errors> {
        let mut shell = self.command("sh");
        let output = exec::capture(shell.args(["-c", &self.language.compile]), DEADLINE)?;
        let mut said = format!("{}\n{}", output.stdout, output.stderr);
        if let Some(name) = renamed {
            said = said.replace(&new_name(name), name);
        }
        let pattern = Regex::new(&self.language.error).context("bad pattern of errors")?;
        let mut errors = Errors::new();
        for found in pattern.captures_iter(&said) {
            *errors.entry((found[1].to_owned(), found[2].to_owned())).or_default() += 1;
        }
        Ok(errors)
    }

    /// Calls Pilcrow as a user without settings; returns its JSON.
    fn call(&self, args: &[&str]) -> Result<Value> {
        let mut command = self.command(self.pilcrow);
        command.args(args).arg("-C").arg(self.project());
        let shown = exec::show(&command);
        let output = exec::capture(&mut command, DEADLINE)?;
        serde_json::from_str(&output.stdout)
            .with_context(|| format!("{shown}: no JSON; {}", output.stderr.trim()))
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        env::apply(&mut command, self.tools);
        command.current_dir(self.project()).env("PILCROW_HOME", self.directory.join("home"));
        let sources = setup::debian_sources(self.tools);
        command.env("TOOLS", self.tools.root()).env("SOURCES", sources).env_remove("CARGO_TARGET_DIR");
        command
    }
}

/// The errors that were not there before, or more often.
fn introduced(before: &Errors, after: Errors) -> Vec<(String, String)> {
    let is_new = |(key, count): &(_, usize)| before.get(key).is_none_or(|old| old < count);
    after.into_iter().filter(is_new).map(|(key, _)| key).collect()
}

/// Prints a rename, and its result unless the compiler agrees with the claim.
fn report(
    language: &Language,
    symbol: &Symbol,
    claim: Claim,
    new: &[(String, String)],
    result: &Value,
    changed: &[String],
) {
    let Symbol { kind, name, place, .. } = symbol;
    println!("{} {kind} {name} ({place}): claimed {claim:?}, new errors {}", language.name, new.len());
    let is_plain =
        matches!(claim, Claim::Clean | Claim::Errors(_)) && (claim == Claim::Clean) == new.is_empty();
    if !is_plain {
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        text.lines().take(12).for_each(|line| println!("    | {line}"));
    }
    new.iter().take(3).for_each(|(file, message)| println!("    compiler: {file}: {message}"));
    changed.iter().take(3).for_each(|line| println!("    not undone: {line}"));
}
