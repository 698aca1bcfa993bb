//! Python environments from pip, on machines with and without a working `venv`.
//!
//! A virtual environment is created without pip and filled by the user's own pip (`pip --python`), which
//! works where Debian left out `ensurepip`. If that fails, packages go to a directory (`pip --target`) and
//! small launchers put it on Python's path. Either kind the environment has `bin/python` and
//! `bin/<executable>`, and nothing is installed outside it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::exec;
use crate::setup::items::{PythonItem, SourceItem};
use crate::setup::tools_dir::Lock;

const DOWNLOAD_DEADLINE: Duration = Duration::from_secs(15 * 60);
const QUICK_DEADLINE: Duration = Duration::from_secs(120);

/// The kind of an environment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum EnvironmentKind {
    Venv,
    Target,
}

/// The interpreter of an environment.
pub(crate) fn interpreter(directory: &Path) -> PathBuf {
    directory.join("bin/python")
}

/// Fills an empty directory with the item's packages.
///
/// `kind` selects the kind of environment; by default, the first that works.
pub(crate) fn install(
    item: &PythonItem,
    directory: &Path,
    kind: Option<EnvironmentKind>,
    lock: &Lock,
) -> Result<EnvironmentKind> {
    require_pip()?;
    let pins = directory.join("pins.txt");
    fs::write(&pins, format!("{}\n", item.pins.join("\n")))
        .with_context(|| format!("cannot write {}", pins.display()))?;
    let made = match kind {
        Some(EnvironmentKind::Target) => EnvironmentKind::Target,
        Some(EnvironmentKind::Venv) => {
            make_venv(directory)?;
            EnvironmentKind::Venv
        }
        None => match make_venv(directory) {
            Ok(()) => EnvironmentKind::Venv,
            Err(error) => {
                eprintln!("    python3 cannot make a virtual environment, using a plain directory ({error})");
                EnvironmentKind::Target
            }
        },
    };
    let mut pip = match made {
        EnvironmentKind::Venv => pip_in(directory),
        EnvironmentKind::Target => pip(),
    };
    pip.args(["install", "--quiet", "--only-binary", ":all:", "--constraint"]).arg(&pins);
    if made == EnvironmentKind::Target {
        pip.arg("--target").arg(directory.join("lib"));
    }
    exec::install(pip.args(&item.packages), lock.as_stdin()?, DOWNLOAD_DEADLINE)?;
    if made == EnvironmentKind::Target {
        write_launchers(item, directory)?;
    }
    let mut check = Command::new(interpreter(directory));
    exec::capture_ok(plain(&mut check).args(["-c", "import sys"]), QUICK_DEADLINE)?;
    for exe in &item.exes {
        if !directory.join("bin").join(exe).is_file() {
            bail!("{} was installed without its executable {exe}", item.name);
        }
    }
    Ok(made)
}

/// Downloads a source distribution into a directory and verifies its hash.
///
/// Its build tools must be in `environment`.
pub(crate) fn download_source(
    item: &SourceItem,
    environment: &Path,
    directory: &Path,
    lock: &Lock,
) -> Result<()> {
    require_pip()?;
    let wanted = directory.join("wanted.txt");
    let line = format!("{}=={} --hash=sha256:{}\n", item.name, item.version, item.sha256);
    fs::write(&wanted, line).with_context(|| format!("cannot write {}", wanted.display()))?;
    // pip asks the package's build tool for its name and version even if it only downloads.
    let mut pip = pip_in(environment);
    pip.args(["download", "--quiet", "--no-binary", ":all:", "--no-deps", "--no-build-isolation"]);
    exec::install(
        pip.arg("--dest").arg(directory).arg("--requirement").arg(&wanted),
        lock.as_stdin()?,
        DOWNLOAD_DEADLINE,
    )?;
    let archive = directory.join(format!("{}.tar.gz", item.directory()));
    if !archive.is_file() {
        bail!("pip downloaded {} without the archive {}", item.name, archive.display());
    }
    Ok(())
}

fn require_pip() -> Result<()> {
    exec::require("python3", "apt-get install python3 python3-pip")?;
    let output = exec::capture(pip().arg("--version"), QUICK_DEADLINE)?;
    if !output.status.success() {
        bail!(
            "python3 has no pip; install it with: apt-get install python3-pip\n{}",
            output.stderr.trim_end()
        );
    }
    Ok(())
}

fn make_venv(directory: &Path) -> Result<()> {
    let mut venv = Command::new("python3");
    exec::capture_ok(plain(&mut venv).args(["-m", "venv", "--without-pip"]).arg(directory), QUICK_DEADLINE)?;
    let output = exec::capture(pip_in(directory).arg("--version"), QUICK_DEADLINE)?;
    if !output.status.success() {
        bail!("pip is too old for --python: {}", output.stderr.trim_end());
    }
    Ok(())
}

fn pip() -> Command {
    let mut pip = Command::new("python3");
    plain(&mut pip).args(["-m", "pip", "--no-input", "--disable-pip-version-check"]);
    pip
}

/// A pip command for an environment that setup created.
fn pip_in(directory: &Path) -> Command {
    let mut pip = pip();
    if directory.join("lib/.launched").exists() {
        pip.env("PYTHONPATH", directory.join("lib"));
    } else {
        pip.arg("--python").arg(interpreter(directory));
    }
    pip
}

/// Disables the user's Python settings for a command.
fn plain(command: &mut Command) -> &mut Command {
    command
        .env_remove("PYTHONPATH")
        .env_remove("PYTHONHOME")
        .env_remove("VIRTUAL_ENV")
        .env_remove("PIP_TARGET")
        .env_remove("PIP_PREFIX")
        .env("PIP_USER", "0")
        .env("PIP_REQUIRE_VIRTUALENV", "0")
}

fn write_launchers(item: &PythonItem, directory: &Path) -> Result<()> {
    let lib = directory.join("lib");
    let bin = directory.join("bin");
    fs::create_dir_all(&bin).with_context(|| format!("cannot create {}", bin.display()))?;
    let output = exec::capture_ok(
        plain(&mut Command::new("python3")).args(["-c", "import sys; print(sys.executable)"]),
        QUICK_DEADLINE,
    )?;
    let mut launchers = vec![("python", PathBuf::from(output.stdout.trim()))];
    launchers.extend(item.exes.iter().map(|exe| (exe.as_str(), lib.join("bin").join(exe))));
    for (name, target) in launchers {
        let text = format!(
            "#!/bin/sh\nPYTHONPATH={}\"${{PYTHONPATH:+:$PYTHONPATH}}\" exec {} \"$@\"\n",
            exec::quote(&lib),
            exec::quote(&target)
        );
        let path = bin.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
            .with_context(|| format!("cannot make {} executable", path.display()))?;
    }
    let mark = lib.join(".launched");
    fs::write(&mark, "").with_context(|| format!("cannot write {}", mark.display()))
}
