//! A scripted language server: responses, delays, silence, nonsense, crashes.
//!
//! It runs in process over any pair of streams ([`serve`]) and as an executable ([`executable`])
//! with the script in a file. It tracks the documents it receives, so that a test can compare them
//! with the truth.

mod documents;
pub(crate) mod script;
mod serve;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

pub use documents::{Documents, OpenDocument};
pub use script::{Script, Step};
pub use serve::{Ended, Record, serve};

/// The built executable, which takes the script's file as its only argument.
///
/// Builds it if it is missing: cargo builds no executables of a dependency. Blocks.
///
/// # Panics
///
/// If cargo cannot build it.
pub fn executable() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("scripted-language-server"))
}

/// Builds one of this package's executables.
pub(crate) fn build(name: &str) -> PathBuf {
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Cargo's variables for a test would make build scripts run again, here and in the next build.
    for (variable, _) in std::env::vars_os() {
        let name = variable.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name == "OUT_DIR" {
            cargo.env_remove(&variable);
        }
    }
    let mut profile: &[&str] = &[];
    // A test binary is in `<target>/<profile>/deps`, and a benchmark in that of the release
    // profile.
    let test = std::env::current_exe().expect("a running program has a path");
    if test.ancestors().any(|directory| directory.ends_with("release")) {
        profile = &["--profile", "bench"];
    }
    let output = cargo
        .args(["build", "--quiet"])
        .args(profile)
        .args(["--bin", name, "--manifest-path"])
        .arg(manifest)
        .output()
        .expect("cargo can be started");
    assert!(output.status.success(), "cargo build: {}", String::from_utf8_lossy(&output.stderr));
    test.ancestors()
        .map(|directory| directory.join(&file))
        .find(|path| path.is_file())
        .expect("the executable was built into the directory of the profile")
}
