//! The executables under test, built once per test process.
//!
//! `PILCROW_BIN` names another `pilcrow` to test, for example an installed one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The `pilcrow` to test.
pub fn pilcrow() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| match std::env::var_os("PILCROW_BIN") {
        Some(named) => PathBuf::from(named),
        None => build("pilcrow", "pilcrow"),
    })
}

/// The language server that does what a script says.
pub fn scripted_language_server() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("testing", "scripted-language-server"))
}

fn build(package: &str, bin: &str) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .args(["build", "--quiet", "--package", package, "--bin", bin])
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{bin} does not build\n{}", String::from_utf8_lossy(&output.stderr));
    // This test is <target>/<profile>/deps/<name>-<hash>; what cargo built is <target>/debug/<bin>.
    let test = std::env::current_exe().expect("the test knows its own path");
    let target = test.ancestors().nth(3).expect("tests run from the target folder");
    let built = target.join("debug").join(bin);
    assert!(built.is_file(), "cargo built no {}", built.display());
    built
}
