//! Real editors, driven as a user drives them: typed keys, commands called by name.
//!
//! Texts are read separately, because a screen shows only a part. A missing tool fails the test
//! that needs it with the command that installs it.

pub mod emacs;
pub mod model;
pub mod neovim;
pub mod vscode;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::sandbox::{Sandbox, finish};

pub use emacs::Emacs;
pub use model::Model;
pub use neovim::Neovim;
pub use vscode::VsCode;

/// Maximum time of any action in a real editor on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Locks out other editors, since two browsers on two cores are too slow.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock()
}

/// Path in the tools directory.
#[track_caller]
pub fn tool(path: &str) -> PathBuf {
    let tools = std::env::var_os("PILCROW_TOOLS")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/pilcrow-dev")));
    let found = tools.map(|tools| tools.join(path)).filter(|path| path.exists());
    found.unwrap_or_else(|| panic!("{path} is not in the tools folder; run: cargo xtask setup"))
}

/// Directory of one of the checkout's plugins.
pub fn plugin(name: &str) -> PathBuf {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests are in the checkout");
    checkout.join("editor-plugins").join(name)
}

/// Path of a file of this package that is not Rust: a script or helper extension.
pub fn helper(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("editors").join(name)
}

/// A directory for a test's artifacts: `target/artifacts/NAME`, emptied.
pub fn artifacts(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a program knows its own path");
    let debug = own.ancestors().find(|directory| directory.ends_with("debug")).expect("cargo built this");
    let directory = debug.parent().expect("a target folder").join("artifacts").join(name);
    if directory.exists() {
        std::fs::remove_dir_all(&directory).unwrap();
    }
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

impl Sandbox {
    /// A trusted sandbox with the source of itsdangerous and real language servers.
    pub fn itsdangerous() -> Sandbox {
        let sandbox = Sandbox::new();
        let archive = tool("lib/itsdangerous/itsdangerous-2.2.0.tar.gz");
        let mut tar = Command::new("tar");
        sandbox.prepare(&mut tar);
        tar.arg("-xzf").arg(archive).args(["--no-same-owner", "--strip-components=1", "-C"]);
        let ran = finish(tar.arg(sandbox.project()).spawn().expect("tar starts"), PATIENCE);
        assert!(ran.status.success(), "{ran:?}");
        sandbox.make_repository();
        sandbox
    }

    /// Makes the project a trusted repository.
    ///
    /// Editors then find its root, and servers may run in it.
    #[track_caller]
    pub fn make_repository(&self) {
        std::fs::create_dir(self.project().join(".git")).unwrap();
        self.run_anywhere(&["trust", &self.project().display().to_string()]).expect(0);
    }
}
