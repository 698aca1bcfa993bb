//! `cargo xtask env`: prints PATH and variables for a shell, as `export` lines.
//!
//! Prints nothing else and changes nothing, so that `eval "$(cargo xtask env)"` is fast.

use std::ffi::OsString;
use std::process::Command;

use anyhow::Result;

use crate::setup::tools_dir::ToolsDir;
use crate::{exec, setup};

pub(crate) fn run() -> Result<()> {
    let tools = ToolsDir::from_env()?;
    println!("{}", exports(&tools));
    Ok(())
}

/// Gives a command the same PATH and variables.
pub(crate) fn apply<'a>(command: &'a mut Command, tools: &ToolsDir) -> &'a mut Command {
    let mut path = OsString::from(tools.bin());
    if let Some(rest) = std::env::var_os("PATH") {
        path.push(":");
        path.push(rest);
    }
    command.env("PATH", path).env("PILCROW_TOOLS", tools.root());
    if let Some(sources) = setup::rust_sources() {
        command.env("RUST_SRC_PATH", sources);
    }
    command
}

fn exports(tools: &ToolsDir) -> String {
    let mut lines = vec![
        format!("export PILCROW_TOOLS={}", exec::quote(tools.root())),
        format!("export PATH={}:\"$PATH\"", exec::quote(tools.bin())),
    ];
    if let Some(sources) = setup::rust_sources() {
        lines.push(format!("export RUST_SRC_PATH={}", exec::quote(sources)));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    #[test]
    fn exports_survive_spaces_and_quotes() {
        let tools = ToolsDir::at(Path::new("/tmp/a b's"));
        let script =
            format!("PATH=/usr/bin:/bin\n{}\nprintf '%s|%s' \"$PILCROW_TOOLS\" \"$PATH\"", exports(&tools));
        let said =
            exec::capture_ok(Command::new("sh").args(["-c", &script]), Duration::from_secs(20)).expect("sh");
        assert_eq!(said.stdout, "/tmp/a b's|/tmp/a b's/bin:/usr/bin:/bin");
    }
}
