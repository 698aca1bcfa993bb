//! Traces that other editors leave of a file they have open.
//!
//! An editor that is not connected may have a file open. Vim and Neovim then keep a swap file, next to the
//! file or in a directory of their own, and Emacs a lock.
//!
//! Every trace counts: a swap file of an editor that died has text that was never saved, and the user has to
//! recover or remove it. If its name is ambiguous, the swap file's content decides.

use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use paths::AbsPath;

use crate::documents::disk;

/// Names the editor that seems to have `path` open, with a remedy.
///
/// `None` without a trace.
pub(crate) fn holder(path: &AbsPath) -> Option<String> {
    holder_in(path, &UserDirectories::from_env())
}

/// Directories of the user in which editors store traces.
#[derive(Debug, Default)]
pub(crate) struct UserDirectories {
    home: Option<PathBuf>,
    state: Option<PathBuf>,
    /// Value of `NVIM_APPNAME`.
    neovim: Option<PathBuf>,
}

impl UserDirectories {
    fn from_env() -> Self {
        let directory = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let absolute = |name: &str| directory(name).filter(|path| path.is_absolute());
        let home = absolute("HOME");
        let state = absolute("XDG_STATE_HOME").or_else(|| Some(home.as_ref()?.join(".local/state")));
        Self { home, state, neovim: directory("NVIM_APPNAME").filter(|name| name.is_relative()) }
    }
}

/// Scheme of a swap file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Naming {
    /// The whole path, with `%` for `/`; the directory ends in `//`.
    ///
    /// Vim: `:help 'directory'`.
    Path,
    /// The file's name alone; the swap file's content has the directory.
    Name,
}

/// Default directories of swap files.
///
/// Vim's `.,~/tmp,/var/tmp,/tmp`, Neovim's `$XDG_STATE_HOME/nvim/swap//`. Directories begin at the root, at
/// `~` or at `$STATE`.
const SWAP_DIRECTORIES: &[(&str, &[Naming])] = &[
    ("$STATE/nvim/swap", &[Naming::Path]),
    ("~/tmp", &[Naming::Name, Naming::Path]),
    ("/var/tmp", &[Naming::Name, Naming::Path]),
    ("/tmp", &[Naming::Name, Naming::Path]),
];

/// The extensions of swap files, in the order in which Vim uses them.
const SWAP_ENDS: [&str; 4] = [".swp", ".swo", ".swn", ".swm"];

fn holder_in(path: &AbsPath, directories: &UserDirectories) -> Option<String> {
    let name = path.file_name();
    let directory = path.parent()?;
    let exists = |path: &AbsPath| disk::stat(path).is_ok_and(|meta| meta.is_some());
    // Vim adds no second dot to a hidden file's name.
    let dot = if name.starts_with('.') { "" } else { "." };
    let has_open = |swap: &str| {
        format!("Vim has it open or ended without closing it ({swap}); close it there, or remove that file")
    };
    let beside = SWAP_ENDS.iter().map(|end| format!("{dot}{name}{end}"));
    if let Some(swap) = beside.into_iter().find(|swap| exists(&directory.join(swap))) {
        return Some(has_open(&swap));
    }
    for (place, namings) in SWAP_DIRECTORIES {
        let Some(place) = directories.directory(place).filter(exists) else { continue };
        for naming in *namings {
            let stem = match naming {
                Naming::Path => path.to_string().replace('/', "%"),
                Naming::Name => name.to_string(),
            };
            for end in SWAP_ENDS {
                let swap = place.join(format!("{stem}{end}"));
                if exists(&swap) && (*naming == Naming::Path || swap_names(&swap, path, directories)) {
                    return Some(has_open(&swap.to_string()));
                }
            }
        }
    }
    let lock = format!(".#{name}");
    exists(&directory.join(&lock))
        .then(|| format!("Emacs has unsaved changes of it ({lock}); save it there, or remove that file"))
}

impl UserDirectories {
    fn directory(&self, place: &str) -> Option<AbsPath> {
        let path = match (place.strip_prefix("~/"), place.strip_prefix("$STATE/nvim/")) {
            (Some(below), _) => self.home.as_ref()?.join(below),
            (_, Some(below)) => {
                let name = self.neovim.clone().unwrap_or_else(|| PathBuf::from("nvim"));
                self.state.as_ref()?.join(name).join(below)
            }
            (None, None) => PathBuf::from(place),
        };
        AbsPath::new(path)
    }
}

/// Whether the content of the swap file names `path`.
///
/// Vim 9.1 `memline.c`, `struct block0`: the name is at byte 108, up to a zero, with `~` or `~user` for the
/// home directory.
fn swap_names(swap: &AbsPath, path: &AbsPath, directories: &UserDirectories) -> bool {
    const NAME: usize = 108;
    let mut head = Vec::new();
    let read = paths::open_file(swap, true).and_then(|(file, _)| file.take(1024).read_to_end(&mut head));
    if read.is_err() || !head.starts_with(b"b0") {
        return false;
    }
    let name = head.get(NAME..).unwrap_or_default();
    let name = &name[..name.iter().position(|byte| *byte == 0).unwrap_or(name.len())];
    let path_in_swap = PathBuf::from(std::ffi::OsString::from_vec(name.to_vec()));
    let mut parts = path_in_swap.components();
    let path_in_swap = match (parts.next(), &directories.home) {
        (Some(first), Some(home)) if first.as_os_str().as_bytes().starts_with(b"~") => home.join(parts),
        _ => path_in_swap,
    };
    let real = path_in_swap.canonicalize().unwrap_or(path_in_swap);
    real == path.as_path()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the reason not to write `a/it.py` while `swap` exists in its root.
    fn lock_reason(swap: &str, content: &[u8]) -> Option<String> {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let path = AbsPath::new(root.join("a/it.py")).unwrap();
        let swap = swap.replace("%PATH%", &path.to_string().replace('/', "%"));
        let swap = root.join(swap);
        for directory in [path.parent().unwrap().as_path(), swap.parent().unwrap()] {
            std::fs::create_dir_all(directory).unwrap();
        }
        std::fs::write(path.as_path(), "").unwrap();
        std::fs::write(&swap, content).unwrap();
        let directories =
            UserDirectories { home: Some(root.clone()), state: Some(root.join("s")), neovim: None };
        let reason = holder_in(&path, &directories);
        if let Some(reason) = &reason {
            let shown = swap.strip_prefix(root.join("a")).unwrap_or(&swap);
            assert!(reason.contains(&format!("({})", shown.display())), "{reason}");
        }
        reason
    }

    fn block0(name: &str) -> Vec<u8> {
        let mut head = b"b0VIM 9.1".to_vec();
        head.resize(108, 0);
        head.extend(name.as_bytes());
        head.resize(4096, 0);
        head
    }

    #[test]
    fn swap_files_are_found_where_editors_put_them() {
        assert!(lock_reason("a/.it.py.swp", b"").is_some());
        assert!(lock_reason("s/nvim/swap/%PATH%.swp", b"").is_some());
        assert!(lock_reason("s/nvim/swap/%PATH%.swo", b"").is_some());
        assert!(lock_reason("tmp/%PATH%.swp", b"").is_some());
        assert!(lock_reason("tmp/it.py.swp", &block0("~me/a/it.py")).is_some());
        assert!(lock_reason("tmp/it.py.swp", &block0("~/a/it.py")).is_some());
        // The swap file is for another file of that name, or an unknown one.
        assert_eq!(lock_reason("tmp/it.py.swp", &block0("~/b/it.py")), None);
        assert_eq!(lock_reason("tmp/it.py.swp", b""), None);
        assert_eq!(lock_reason("s/nvim/swap/%home%me%it.py.swp", b""), None);
    }
}
