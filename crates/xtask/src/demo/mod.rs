//! `cargo xtask demo`: the main use case on a real project.
//!
//! Downloads the source of a small Python package, runs its own tests, lets Pilcrow rename a
//! function across its modules, runs the tests again, shows the diff, undoes the rename, and proves
//! that every file is as before. Then it debugs a program that calls the function, up to a stop in
//! it and then to the end. Each claim is checked; the first failure ends the command and keeps the
//! directory. The planner does the work: no model, no key, and after setup no network.

pub(crate) mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::demo::tree::{Tree, replace_words, words};
use crate::setup::items::{self, SourceItem};
use crate::setup::tools_dir::ToolsDir;
use crate::setup::{self, For};
use crate::steps::Steps;
use crate::{env, exec, tidy};

const BUILD_DEADLINE: Duration = Duration::from_secs(30 * 60);
const STEP_DEADLINE: Duration = Duration::from_secs(5 * 60);

/// A package, and a function used by several of its modules and its tests.
struct Project {
    /// The name of its source distribution.
    source: &'static str,
    old: &'static str,
    new: &'static str,
    /// Python's path for the package's tests, relative to its directory.
    python_path: &'static str,
    /// A program that calls the function.
    program: &'static str,
    /// The module that contains the function.
    module: &'static str,
    /// Minimum number of files with the name in code.
    at_least_files: usize,
}

impl Project {
    fn source(&self) -> &'static SourceItem {
        items::source(self.source)
    }
}

const PROJECTS: &[Project] = &[
    Project {
        source: "itsdangerous",
        old: "want_bytes",
        new: "to_bytes",
        python_path: "src",
        program: "from itsdangerous import URLSafeSerializer\nprint(URLSafeSerializer('key').dumps({'id': 5}))\n",
        module: "src/itsdangerous/encoding.py",
        at_least_files: 6,
    },
    Project {
        source: "h11",
        old: "bytesify",
        new: "to_bytes",
        python_path: ".",
        program: "import h11\nprint(h11.Request(method='GET', target='/', headers=[('Host', 'example.org')]))\n",
        module: "h11/_util.py",
        at_least_files: 4,
    },
];

/// Arguments of `demo`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The package: itsdangerous or h11.
    #[arg(long, default_value = "itsdangerous")]
    project: String,
    /// Keep the working copy.
    #[arg(long)]
    keep: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let tools = ToolsDir::from_env()?;
    let mut steps = Steps::new();
    setup::ensure(&tools, For::Demo, &mut steps)?;
    show(&tools, &args.project, args.keep, &mut steps)?;
    print!("\n{}", steps.table());
    Ok(())
}

/// Runs the demo after the setup.
pub(crate) fn show(tools: &ToolsDir, name: &str, keep: bool, steps: &mut Steps) -> Result<()> {
    let project = PROJECTS
        .iter()
        .find(|project| project.source == name)
        .with_context(|| format!("no demo for {name}; available: {}", names()))?;
    // The path contains a space, as on many users' machines.
    let directory = tempfile::Builder::new()
        .prefix("pilcrow demo ")
        .tempdir()
        .context("cannot make a temporary directory")?;
    let outcome = show_in(tools, project, directory.path(), steps);
    if keep || outcome.is_err() {
        eprintln!("left in {}", directory.keep().display());
    } else {
        directory.close().context("cannot remove the temporary directory")?;
    }
    outcome
}

fn show_in(tools: &ToolsDir, project: &Project, directory: &Path, steps: &mut Steps) -> Result<()> {
    let Project { old, new, .. } = *project;
    let source = project.source();
    let copy = directory.join(source.directory());

    steps.run(&format!("unpack {} {}", source.name, source.version), || {
        unpack(tools, project, directory)?;
        Ok(((), copy.display().to_string()))
    })?;
    let start = Tree::read(&copy)?;
    let tests_before = steps.run("its own tests, as downloaded", || own_tests(tools, project, &copy))?;
    unchanged(&start, &copy, "running the package's tests")?;

    let pilcrow = steps.run("build pilcrow (dev profile)", build)?;
    let cli = Pilcrow {
        program: &pilcrow,
        tools,
        project: &copy,
        python_path: project.python_path,
        home: directory.join("pilcrow home"),
    };

    let said = steps.run(&format!("pilcrow run \"rename {old} to {new}\""), || {
        let said = cli.run(&format!("rename {old} to {new}"))?;
        Ok((said.clone(), said.trim_end().lines().last().unwrap_or("no answer").trim().to_owned()))
    })?;
    let renamed = Tree::read(&copy)?;
    let counts = steps.run("the name is gone from the code, and nothing else changed", || {
        let counts =
            check_rename(project, &start, &renamed).with_context(|| format!("pilcrow said:\n{said}"))?;
        Ok((counts.clone(), counts))
    })?;
    steps.run("its own tests, after the rename", || {
        let (passed, said) = own_tests(tools, project, &copy)?;
        ensure!(passed == tests_before, "{passed} tests passed after the rename, {tests_before} before");
        Ok(((), said))
    })?;
    steps.run("the diff", || {
        unpack_pristine(tools, project, directory)?;
        diff(directory, &source.directory())?;
        Ok(((), String::new()))
    })?;
    steps.run("pilcrow undo", || {
        let said = cli.undo()?;
        Ok(((), said.trim_end().lines().last().unwrap_or("").trim().to_owned()))
    })?;
    steps.run("every file is identical to the start", || {
        unchanged(&start, &copy, "undo")?;
        Ok(((), format!("{} paths, {}", start.nodes.len(), start.digest())))
    })?;

    let stop = steps.run(
        "pilcrow run \"debug …\": stops in the package, inspects, continues to the end",
        || {
            let stop = debug(project, &cli, &copy)?;
            Ok((stop.clone(), stop))
        },
    )?;
    unchanged(&start, &copy, "debugging")?;

    println!(
        "\n{} {}: {old} -> {new}: {counts}; {tests_before} tests passed before and after; undone, all files as before; debugged at {stop}.",
        source.name, source.version
    );
    Ok(())
}

/// Pilcrow as a user runs it, without this machine's settings.
struct Pilcrow<'a> {
    program: &'a Path,
    tools: &'a ToolsDir,
    project: &'a Path,
    python_path: &'a str,
    home: PathBuf,
}

impl Pilcrow<'_> {
    fn run(&self, prompt: &str) -> Result<String> {
        self.call(&["run", prompt, "--yes", "--model", "planner"])
    }

    fn undo(&self) -> Result<String> {
        self.call(&["undo"])
    }

    fn call(&self, args: &[&str]) -> Result<String> {
        let mut command = Command::new(self.program);
        env::apply(&mut command, self.tools);
        for (name, _) in std::env::vars_os().filter(|(name, _)| {
            let name = name.to_string_lossy();
            name.ends_with("_API_KEY") || name.starts_with("PILCROW_") && name != "PILCROW_TOOLS"
        }) {
            command.env_remove(name);
        }
        // The debugged program finds the package, and writes nothing to its directory.
        command.env("PYTHONPATH", self.project.join(self.python_path)).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("PILCROW_HOME", &self.home).args(args).arg("-C").arg(self.project);
        Ok(exec::capture_ok(&mut command, STEP_DEADLINE)?.stdout)
    }
}

fn names() -> String {
    PROJECTS.iter().map(|project| project.source).collect::<Vec<_>>().join(", ")
}

fn unpack(tools: &ToolsDir, project: &Project, directory: &Path) -> Result<()> {
    exec::require("tar", "apt-get install tar")?;
    let archive = setup::source_archive(tools, project.source());
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(archive).arg("-C").arg(directory).arg("--no-same-owner");
    exec::capture_ok(&mut tar, STEP_DEADLINE)?;
    let copy = directory.join(project.source().directory());
    ensure!(copy.is_dir(), "the archive has no directory {}", project.source().directory());
    Ok(())
}

fn unpack_pristine(tools: &ToolsDir, project: &Project, directory: &Path) -> Result<()> {
    let before = directory.join("before");
    fs::create_dir(&before).with_context(|| format!("cannot create {}", before.display()))?;
    unpack(tools, project, &before)
}

/// The number of the package's own tests that passed; an error if one failed.
///
/// Writes nothing to the directory.
fn own_tests(tools: &ToolsDir, project: &Project, copy: &Path) -> Result<(u32, String)> {
    let mut pytest = Command::new(setup::tests_python(tools));
    pytest
        .current_dir(copy)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTHONPATH", copy.join(project.python_path))
        .env_remove("PYTEST_ADDOPTS")
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no"]);
    let said = exec::capture_ok(&mut pytest, STEP_DEADLINE)?.stdout;
    let summary = said.trim_end().lines().last().unwrap_or("").to_owned();
    let passed =
        passed(&summary).with_context(|| format!("pytest reported no number of passed tests: {summary}"))?;
    ensure!(passed > 20, "only {passed} tests ran: {summary}");
    Ok((passed, summary))
}

/// Parses `297 passed in 0.82s` to 297.
fn passed(summary: &str) -> Option<u32> {
    let words: Vec<&str> = summary.split_whitespace().collect();
    words.windows(2).find(|pair| pair[1].trim_end_matches(',') == "passed")?[0].parse().ok()
}

fn build() -> Result<(PathBuf, String)> {
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    exec::show_ok(build.current_dir(tidy::root()).args(["build", "--package", "pilcrow"]), BUILD_DEADLINE)?;
    let program = tidy::target_directory()?.join("debug/pilcrow");
    ensure!(program.is_file(), "cargo did not build {}", program.display());
    Ok((program.clone(), program.display().to_string()))
}

/// Debugs a small program that calls the package, and returns where it stopped.
///
/// It must stop in the function, show its stack, its locals and an evaluated expression, and exit normally.
fn debug(project: &Project, cli: &Pilcrow<'_>, copy: &Path) -> Result<String> {
    const PROGRAM: &str = "debugged.py";
    let text = fs::read_to_string(copy.join(project.module)).context("cannot read the module")?;
    let start = format!("def {}(", project.old);
    let lines = text.lines().enumerate().skip_while(|(_, line)| !line.starts_with(&start));
    let (index, _) = lines
        .skip(1)
        .find(|(_, line)| line.starts_with("    if "))
        .with_context(|| format!("{} has no `if` in {}", project.module, project.old))?;
    let stop = format!("{}:{}", project.module, index + 1);
    let program = copy.join(PROGRAM);
    fs::write(&program, project.program).context("cannot write the program")?;
    let said = cli.run(&format!("debug {PROGRAM} stopping at {stop} and show s"));
    fs::remove_file(&program).context("cannot remove the program")?;
    let said = said?;
    let in_function = format!("in {} at {stop}", project.old);
    for part in [
        "stopped: breakpoint",
        &in_function,
        "frames:",
        "at debugged.py:",
        "locals:",
        "\ns = ",
        "ended with exit code 0",
    ] {
        ensure!(said.contains(part), "`{part}` is missing in:\n{said}");
    }
    println!("{}", said.trim_end());
    Ok(stop)
}

/// Checks the rename by the bytes alone.
///
/// In every Python file each whole word `old` became `new`, and no other byte of any file changed. (In these
/// packages the name occurs in no string or comment of a Python file, so words and code agree.)
fn check_rename(project: &Project, start: &Tree, renamed: &Tree) -> Result<String> {
    let mut expected = start.clone();
    let mut files = 0;
    let mut places = 0;
    for (path, node) in &mut expected.nodes {
        let crate::demo::tree::Node::File { bytes, .. } = node else { continue };
        if !path.ends_with(".py") {
            continue;
        }
        let text = std::str::from_utf8(bytes).with_context(|| format!("{path} is not UTF-8"))?;
        let found = words(text, project.old).len();
        if found > 0 {
            files += 1;
            places += found;
            *bytes = replace_words(text, project.old, project.new).into_bytes();
        }
    }
    ensure!(files >= project.at_least_files, "the package has {} in only {files} files", project.old);
    for (path, bytes) in renamed.files().filter(|(path, _)| path.ends_with(".py")) {
        let left = words(&String::from_utf8_lossy(bytes), project.old).len();
        ensure!(left == 0, "{path} still holds {} in {left} places", project.old);
    }
    let wrong = expected.differences(renamed);
    if !wrong.is_empty() {
        bail!("the rename is wrong\n{}", wrong.join("\n"));
    }
    Ok(format!("{places} places in {files} files"))
}

fn unchanged(start: &Tree, copy: &Path, by: &str) -> Result<()> {
    let differences = start.differences(&Tree::read(copy)?);
    if !differences.is_empty() {
        bail!("{by} changed the directory\n{}", differences.join("\n"));
    }
    Ok(())
}

fn diff(directory: &Path, name: &str) -> Result<()> {
    exec::require("git", "apt-get install git")?;
    let mut git = Command::new("git");
    git.current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(["--no-pager", "diff", "--no-index", "--unified=1", "--src-prefix=", "--dst-prefix="])
        .arg(format!("before/{name}"))
        .arg(name);
    let output = exec::capture(&mut git, STEP_DEADLINE)?;
    ensure!(output.status.code() == Some(1), "git diff: {}\n{}", output.status, output.stderr);
    print!("{}", output.stdout);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_pytest_summaries() {
        assert_eq!(passed("297 passed in 0.82s"), Some(297));
        assert_eq!(passed("2 failed, 40 passed, 1 skipped in 1s"), Some(40));
        assert_eq!(passed("no tests ran"), None);
    }

    fn tree(files: &[(&str, &str)]) -> Tree {
        let directory = tempfile::tempdir().expect("temp");
        for (path, text) in files {
            fs::write(directory.path().join(path), text).expect("write");
        }
        Tree::read(directory.path()).expect("read")
    }

    #[test]
    fn detects_incomplete_and_excessive_renames() {
        let project = Project { old: "old", new: "new", at_least_files: 2, ..PROJECTS[1] };
        let start = tree(&[("a.py", "def old(): pass\n"), ("b.py", "old(older)\n"), ("c.rst", "old\n")]);
        let check =
            |files: &[(&str, &str)]| check_rename(&project, &start, &tree(files)).map_err(|e| e.to_string());

        let right = [("a.py", "def new(): pass\n"), ("b.py", "new(older)\n"), ("c.rst", "old\n")];
        assert_eq!(check(&right), Ok("2 places in 2 files".to_owned()));
        let missed = [right[0], ("b.py", "old(older)\n"), right[2]];
        expect_test::expect!["b.py still holds old in 1 places"].assert_eq(&check(&missed).unwrap_err());
        let too_much = [right[0], ("b.py", "new(newer)\n"), right[2]];
        expect_test::expect![[r#"
            the rename is wrong
            changed: b.py"#]]
        .assert_eq(&check(&too_much).unwrap_err());
        let elsewhere = [right[0], right[1], ("c.rst", "new\n")];
        expect_test::expect![[r#"
            the rename is wrong
            changed: c.rst"#]]
        .assert_eq(&check(&elsewhere).unwrap_err());
        let left_behind = [right[0], right[1], right[2], ("d.tmp", "")];
        expect_test::expect![[r#"
            the rename is wrong
            new: d.tmp"#]]
        .assert_eq(&check(&left_behind).unwrap_err());
    }
}
