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
use serde::Deserialize;

use crate::exec;
use crate::setup::items::{CratesItem, NpmItem, PythonItem, SourceItem};
use crate::setup::python::EnvironmentKind;
use crate::setup::tools_dir::{Lock, ToolsDir};
use crate::steps::{Steps, seconds};

const FIRST_START_DEADLINE: Duration = Duration::from_secs(60);
const INSTALL_DEADLINE: Duration = Duration::from_secs(15 * 60);
/// Fetches sources from Debian, with lists of sources of their own.
const FETCH_SOURCES: &str = r#"
printf 'deb-src http://deb.debian.org/debian bookworm main\n' > sources.list
mkdir -p lists/partial
from_sources() {
  apt-get -qq -o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::State::lists="$PWD/lists" -o APT::Sandbox::User=root "$@"
}
apt-get -qq -o APT::Sandbox::User=root download $PACKAGES
from_sources update
from_sources source --download-only $SOURCES
rm -rf lists
echo "$SUMS" | sha256sum --check --quiet
"#;
/// Debian's packages for Rust; system-wide, in Debian's versions.
const RUST_ANALYZER_APT: &[&str] = &["rust-web-analyzer", "rust-web-src"];
const RUST_ANALYZER: &str = "/usr/bin/rust-analyzer";

/// The purpose of an installation.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum For {
    /// `cargo xtask demo`: pip only, no root.
    Demo,
    /// The tests: pip, npm and apt.
    #[default]
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
    let items = &*items::ITEMS;
    let lock = tools.lock()?;
    for item in items.python.iter().filter(|item| item.purpose <= what) {
        python_item(tools, item, kind, &lock, steps)?;
    }
    for item in &items.source {
        source_item(tools, item, &lock, steps)?;
    }
    for item in items.apt.iter().filter(|item| item.purpose <= what) {
        debian_packages(&item.packages, &item.size, &lock, steps)?;
    }
    for item in items.npm.iter().filter(|item| item.purpose <= what) {
        npm_item(tools, item, &lock, steps)?;
    }
    if what != For::Demo {
        crates_item(tools, &items.crates, &lock, steps)?;
        rust_analyzer(tools, &lock, steps)?;
    }
    if what == For::Editors {
        editors::vscode_plugin(tools, &lock, steps)?;
    }
    drop(lock);
    Ok(())
}

/// The interpreter with pytest and the dependencies of the demo packages' tests.
pub(crate) fn tests_python(tools: &ToolsDir) -> PathBuf {
    let item = items::python("python-tests");
    python::interpreter(&tools.item(&item.name, &item.key()))
}

/// The archive of a source distribution, after the setup.
pub(crate) fn source_archive(tools: &ToolsDir, item: &SourceItem) -> PathBuf {
    tools.item(&item.name, &item.key()).join(format!("{}.tar.gz", item.directory()))
}

/// The directory of Debian's sources, after [`ensure_debian_sources`].
pub(crate) fn debian_sources(tools: &ToolsDir) -> PathBuf {
    tools.item("debian-sources", &items::ITEMS.debian_sources.key())
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

fn python_item(
    tools: &ToolsDir,
    item: &PythonItem,
    kind: Option<EnvironmentKind>,
    lock: &Lock,
    steps: &mut Steps,
) -> Result<()> {
    let directory = tools.item(&item.name, &item.key());
    let exes: Vec<(&str, PathBuf)> =
        item.exes.iter().map(|exe| (exe.as_str(), directory.join("bin").join(exe))).collect();
    if !(tools.is_complete(&directory)
        && python::interpreter(&directory).exists()
        && exes.iter().all(|(_, path)| path.exists()))
    {
        let title = format!("install {} {} (pip, {})", item.name, item.version, item.size);
        steps.run(&title, || {
            tools.begin(&directory)?;
            let made = python::install(item, &directory, kind, lock)?;
            if let Some((_, program)) = exes.first().filter(|_| !item.first_start.is_empty()) {
                exec::capture_ok(Command::new(program).args(&item.first_start), FIRST_START_DEADLINE)?;
            }
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
    exes.iter().try_for_each(|(name, target)| tools.link(name, target))?;
    item.lib.iter().try_for_each(|lib| tools.link_lib(&item.name, &directory.join(lib)))
}

fn source_item(tools: &ToolsDir, item: &SourceItem, lock: &Lock, steps: &mut Steps) -> Result<()> {
    let directory = tools.item(&item.name, &item.key());
    if !(tools.is_complete(&directory) && source_archive(tools, item).is_file()) {
        steps.run(&format!("download the source of {} {} (pip)", item.name, item.version), || {
            tools.begin(&directory)?;
            let tests = items::python("python-tests");
            let environment = tools.item(&tests.name, &tests.key());
            python::download_source(item, &environment, &directory, lock)?;
            tools.complete(&directory)?;
            Ok(((), "hash verified".into()))
        })?;
    }
    tools.link_lib(&item.name, &directory)
}

/// Installs npm packages in a directory of their own.
fn npm_item(tools: &ToolsDir, item: &NpmItem, lock: &Lock, steps: &mut Steps) -> Result<()> {
    let directory = tools.item(&item.name, &item.key());
    let exes = item.exes.iter().map(|exe| (exe.as_str(), directory.join("node_modules/.bin").join(exe)));
    let links = item.links.iter().map(|(name, file)| (name.as_str(), directory.join(file)));
    let exes: Vec<(&str, PathBuf)> = exes.chain(links).collect();
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
                npm.args(["--loglevel", "error", "--save-exact"]).args(&item.packages),
                lock.as_stdin()?,
                INSTALL_DEADLINE,
            )?;
            tools.complete(&directory)?;
            Ok(((), "installed".into()))
        })?;
    }
    exes.iter().try_for_each(|(name, target)| tools.link(name, target))?;
    item.lib.iter().try_for_each(|lib| tools.link_lib(&item.name, &directory.join(lib)))
}

/// Installs sources of crates: vendors a package that depends on them.
///
/// Links each to `lib/<crate>`.
fn crates_item(tools: &ToolsDir, item: &CratesItem, lock: &Lock, steps: &mut Steps) -> Result<()> {
    let directory = tools.item(&item.name, &item.key());
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

/// Downloads sources from Debian and checks their hashes. Blocks.
///
/// Only the bench of verdicts needs them, so that a new version in Debian fails no test.
pub(crate) fn ensure_debian_sources(tools: &ToolsDir, steps: &mut Steps) -> Result<()> {
    let (item, lock) = (&items::ITEMS.debian_sources, tools.lock()?);
    let directory = debian_sources(tools);
    if tools.is_complete(&directory) {
        return Ok(());
    }
    let names = [&item.packages[..], &item.sources].concat().join(" ");
    steps.run(&format!("download the sources of {names} (apt, {})", item.size), || {
        exec::require("apt-get", "these sources come from Debian")?;
        tools.begin(&directory)?;
        let mut shell = Command::new("sh");
        shell.current_dir(&directory).args(["-euc", FETCH_SOURCES]);
        shell.env("PACKAGES", item.packages.join(" ")).env("SOURCES", item.sources.join(" "));
        exec::install(shell.env("SUMS", item.sums.join("\n")), lock.as_stdin()?, INSTALL_DEADLINE)?;
        tools.complete(&directory)?;
        Ok(((), "hashes verified".into()))
    })
}

/// Debian's rust-analyzer, linked into `bin` to take precedence over rustup's shim.
fn rust_analyzer(tools: &ToolsDir, lock: &Lock, steps: &mut Steps) -> Result<()> {
    if !(Path::new(RUST_ANALYZER).exists() && rust_sources().is_some()) {
        let packages = RUST_ANALYZER_APT;
        steps.run(&format!("install {} (apt, 635 MB)", packages.join(" ")), || {
            apt_install(packages, lock)?;
            if rust_sources().is_none() || !Path::new(RUST_ANALYZER).exists() {
                bail!("{} installed without {} or its sources", packages.join(" "), RUST_ANALYZER);
            }
            Ok(((), "installed".into()))
        })?;
    }
    tools.link("rust-analyzer", Path::new(RUST_ANALYZER))
}

/// Installs the packages of Debian that are missing.
fn debian_packages(packages: &[String], size: &str, lock: &Lock, steps: &mut Steps) -> Result<()> {
    exec::require("dpkg-query", "they come from Debian's packages; on another system install them yourself")?;
    let mut query = Command::new("dpkg-query");
    query.args(["-W", "-f", "${Package} ${db:Status-Status}\n"]).args(packages);
    // It fails for an unknown package, but still prints the others.
    let said = exec::capture(&mut query, Duration::from_secs(60))?.stdout;
    let is_missing = |package: &&str| !said.lines().any(|line| line == format!("{package} installed"));
    let missing: Vec<&str> = packages.iter().map(String::as_str).filter(is_missing).collect();
    if !missing.is_empty() {
        steps.run(&format!("install {} (apt, up to {size})", missing.join(" ")), || {
            apt_install(&missing, lock)?;
            Ok(((), "installed".into()))
        })?;
    }
    Ok(())
}

/// Installs Debian's packages, as root or with `sudo` without a password.
fn apt_install(packages: &[&str], lock: &Lock) -> Result<()> {
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
            python_item(&tools, items::python("python-tests"), Some(kind), &lock, &mut steps)
                .expect("environment");
            python_item(&tools, items::python("ruff"), Some(kind), &lock, &mut steps).expect("ruff");
            source_item(&tools, items::source("h11"), &lock, &mut steps).expect("source");
            let mut pytest = Command::new(tests_python(&tools));
            let said = exec::capture_ok(pytest.args(["-m", "pytest", "--version"]), INSTALL_DEADLINE)
                .expect("pytest");
            assert!(format!("{}{}", said.stdout, said.stderr).contains("8.4.2"), "{kind:?}");
            let mut ruff = Command::new(tools.bin().join("ruff"));
            let said = exec::capture_ok(ruff.arg("--version"), INSTALL_DEADLINE).expect("ruff");
            assert!(said.stdout.contains("0.17.6"), "{kind:?}: {}", said.stdout);

            let mut second = Steps::new();
            python_item(&tools, items::python("python-tests"), Some(kind), &lock, &mut second)
                .expect("environment");
            source_item(&tools, items::source("h11"), &lock, &mut second).expect("source");
            assert_eq!(second.table().lines().count(), 1, "the second setup changed: {}", second.table());
        }
    }
}
