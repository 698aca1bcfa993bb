//! The directory of installed tools, and the lock for concurrent setups.
//!
//! Layout: `items/<name>-<key>/` has one installed item each, complete when its `.complete` file
//! exists (written last). `bin/` links to their executables, `lib/` to packages that tests load;
//! `.lock`. The key contains the pinned versions, so a new pin never uses an old installation.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const STAMP: &str = ".complete";
const LOCK_DEADLINE: Duration = Duration::from_secs(30 * 60);

/// The held lock of a tools directory, shared with children.
///
/// Released when it is dropped and all those children have ended.
pub(crate) struct Lock(File);

impl Lock {
    /// Standard input for a child: empty, and holds the lock until the child ends.
    pub(crate) fn as_stdin(&self) -> Result<Stdio> {
        Ok(self.0.try_clone().context("cannot share the lock")?.into())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ToolsDir {
    root: PathBuf,
}

impl ToolsDir {
    /// Finds `PILCROW_TOOLS`, else `~/.cache/pilcrow-dev`. Creates nothing.
    pub(crate) fn from_env() -> Result<ToolsDir> {
        let root = match std::env::var_os("PILCROW_TOOLS").filter(|it| !it.is_empty()) {
            Some(root) => PathBuf::from(root),
            None => {
                let home = std::env::var_os("HOME").filter(|it| !it.is_empty());
                PathBuf::from(
                    home.context("neither PILCROW_TOOLS nor HOME is set; set PILCROW_TOOLS to a directory")?,
                )
                .join(".cache/pilcrow-dev")
            }
        };
        let root = std::path::absolute(&root).with_context(|| format!("bad path {}", root.display()))?;
        Ok(ToolsDir { root })
    }

    #[cfg(test)]
    pub(crate) fn at(root: &Path) -> ToolsDir {
        ToolsDir { root: root.to_owned() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn bin(&self) -> PathBuf {
        self.root.join("bin")
    }

    /// The directory of an item.
    pub(crate) fn item(&self, name: &str, key: &str) -> PathBuf {
        self.root.join("items").join(format!("{name}-{key}"))
    }

    /// Whether an item was completely installed here; its scripts hold its path.
    pub(crate) fn is_complete(&self, directory: &Path) -> bool {
        fs::read_to_string(directory.join(STAMP)).is_ok_and(|stamp| stamp == self.stamp(directory))
    }

    /// Removes an interrupted installation, and creates the directory.
    pub(crate) fn begin(&self, directory: &Path) -> Result<()> {
        if directory.exists() {
            fs::remove_dir_all(directory)
                .with_context(|| format!("cannot remove {}", directory.display()))?;
        }
        fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))
    }

    /// Marks an item as complete.
    pub(crate) fn complete(&self, directory: &Path) -> Result<()> {
        let stamp = directory.join(STAMP);
        let fresh = directory.join(".complete.new");
        fs::write(&fresh, self.stamp(directory))
            .with_context(|| format!("cannot write {}", fresh.display()))?;
        fs::rename(&fresh, &stamp).with_context(|| format!("cannot write {}", stamp.display()))
    }

    /// Links `bin/<name>` to `target`, replacing another link atomically.
    pub(crate) fn link(&self, name: &str, target: &Path) -> Result<()> {
        link(&self.bin(), name, target)
    }

    /// Links `lib/<name>` to a directory of packages.
    pub(crate) fn link_lib(&self, name: &str, target: &Path) -> Result<()> {
        link(&self.root.join("lib"), name, target)
    }

    /// Takes the directory's lock, waiting for another setup and its children.
    pub(crate) fn lock(&self) -> Result<Lock> {
        fs::create_dir_all(&self.root).with_context(|| {
            format!("cannot create {}; set PILCROW_TOOLS to a directory you can write", self.root.display())
        })?;
        let path = self.root.join(".lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        let until = Instant::now() + LOCK_DEADLINE;
        let mut reported = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Lock(file)),
                Err(fs::TryLockError::WouldBlock) => {
                    if !reported {
                        eprintln!("    another setup holds {}; waiting for it", path.display());
                        reported = true;
                    }
                    if Instant::now() >= until {
                        bail!(
                            "another setup still holds {} after {} s",
                            path.display(),
                            LOCK_DEADLINE.as_secs()
                        );
                    }
                    thread::sleep(Duration::from_millis(100));
                }
                Err(fs::TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("cannot lock {}", path.display()));
                }
            }
        }
    }

    fn stamp(&self, directory: &Path) -> String {
        format!("{}\n", directory.display())
    }
}

fn link(directory: &Path, name: &str, target: &Path) -> Result<()> {
    let link = directory.join(name);
    if fs::read_link(&link).is_ok_and(|to| to == target) {
        return Ok(());
    }
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let fresh = directory.join(format!(".{name}.{}", std::process::id()));
    if fresh.symlink_metadata().is_ok() {
        fs::remove_file(&fresh).with_context(|| format!("cannot remove {}", fresh.display()))?;
    }
    std::os::unix::fs::symlink(target, &fresh)
        .and_then(|()| fs::rename(&fresh, &link))
        .with_context(|| format!("cannot link {}", link.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_item_is_incomplete_and_restarts() {
        let directory = tempfile::tempdir().expect("temp");
        let tools = ToolsDir::at(directory.path());
        let item = tools.item("thing", "1.0");
        tools.begin(&item).expect("begin");
        fs::write(item.join("half"), "x").expect("write");
        assert!(!tools.is_complete(&item));
        tools.begin(&item).expect("begin again");
        assert!(!item.join("half").exists());
        tools.complete(&item).expect("complete");
        assert!(tools.is_complete(&item));
        assert!(!tools.is_complete(&tools.item("thing", "1.1")));
    }

    #[test]
    fn a_moved_directory_is_not_complete() {
        let directory = tempfile::tempdir().expect("temp");
        let tools = ToolsDir::at(&directory.path().join("one"));
        let item = tools.item("thing", "1");
        tools.begin(&item).expect("begin");
        tools.complete(&item).expect("complete");
        fs::rename(directory.path().join("one"), directory.path().join("two")).expect("move");
        let moved = ToolsDir::at(&directory.path().join("two"));
        assert!(!moved.is_complete(&moved.item("thing", "1")));
    }

    #[test]
    fn a_link_is_replaced() {
        let directory = tempfile::tempdir().expect("temp");
        let tools = ToolsDir::at(directory.path());
        tools.link("x", Path::new("/one")).expect("link");
        tools.link("x", Path::new("/two")).expect("link");
        assert_eq!(fs::read_link(tools.bin().join("x")).expect("link"), Path::new("/two"));
        assert_eq!(fs::read_dir(tools.bin()).expect("list").count(), 1);
    }

    #[test]
    fn the_lock_is_held_by_one() {
        let directory = tempfile::tempdir().expect("temp");
        let tools = ToolsDir::at(directory.path());
        let held = tools.lock().expect("lock");
        let other = File::options().write(true).open(directory.path().join(".lock")).expect("open");
        assert!(matches!(other.try_lock(), Err(fs::TryLockError::WouldBlock)));
        // A child that survives its parent still holds the lock.
        let mut child =
            std::process::Command::new("sleep").arg("600").stdin(held.as_stdin().expect("shared")).spawn();
        let child = child.as_mut().expect("sleep starts");
        drop(held);
        assert!(matches!(other.try_lock(), Err(fs::TryLockError::WouldBlock)));
        child.kill().and_then(|()| child.wait()).expect("it ends");
        other.try_lock().expect("free again");
    }
}
