//! The executables under test, built once per test process.
//!
//! `PILCROW_BIN` names another `pilcrow` to test, for example an installed one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Path of the `pilcrow` to test.
pub fn pilcrow() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| match std::env::var_os("PILCROW_BIN") {
        Some(named) => PathBuf::from(named),
        None => build("pilcrow", "pilcrow"),
    })
}

/// The language server that follows a script.
pub fn scripted_language_server() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("testing", "scripted-language-server"))
}

/// The debug adapter that follows a script.
pub fn scripted_debug_adapter() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("testing", "scripted-debug-adapter"))
}

fn build(package: &str, bin: &str) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cargo = Command::new(cargo);
    // Cargo's variables about the package under test would make build scripts run again and rebuild
    // half of all packages, here and at the next test.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") || text == "OUT_DIR" {
            cargo.env_remove(&name);
        }
    }
    let output = cargo
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .args(["build", "--quiet", "--package", package, "--bin", bin])
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{bin} does not build\n{}", String::from_utf8_lossy(&output.stderr));
    // This program is in <target>/<profile>/ or below it; cargo puts its result at
    // <target>/debug/<bin>.
    let own = std::env::current_exe().expect("a program knows its own path");
    let built =
        own.ancestors().map(|directory| directory.join("debug").join(bin)).find(|path| path.is_file());
    built.unwrap_or_else(|| panic!("cargo built no {bin} beside {}", own.display()))
}
