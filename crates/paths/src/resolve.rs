//! Resolution of `.`, `..` and links in paths, one component after the other.
//!
//! The files need not exist. Callers check whether the result is inside a workspace.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use crate::AbsPath;

/// Maximum number of links before a path counts as a loop; the limit of Linux.
const MAX_LINKS: usize = 40;

/// The canonical form of an absolute path, links resolved. Blocks.
///
/// The file need not exist.
///
/// # Errors
///
/// A message: the path is relative, or its links form a loop.
pub fn canonical(path: &Path) -> Result<AbsPath, String> {
    if !path.is_absolute() {
        return Err("it is not absolute".to_owned());
    }
    let top = AbsPath::new("/").expect("the root of the file system is absolute");
    resolve(&top, path)
}

/// The canonical path of `path` relative to `base`, itself canonical. Blocks.
///
/// Components that do not exist keep their spelling.
///
/// # Errors
/// A message: the links form a loop.
pub fn resolve(base: &AbsPath, path: &Path) -> Result<AbsPath, String> {
    let mut out = base.as_path().to_owned();
    let mut todo: VecDeque<Part> = VecDeque::new();
    // The base is canonical, so only the components below it can be links.
    queue(&mut todo, path.strip_prefix(base.as_path()).unwrap_or(path));
    let mut links = 0;
    while let Some(part) = todo.pop_front() {
        let name = match part {
            Part::Root => {
                out = PathBuf::from("/");
                continue;
            }
            Part::Up => {
                out.pop();
                continue;
            }
            Part::Name(name) => name,
        };
        out.push(name);
        let is_link = std::fs::symlink_metadata(&out).is_ok_and(|meta| meta.is_symlink());
        if !is_link {
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err("its links form a loop".to_owned());
        }
        let target = std::fs::read_link(&out).map_err(|error| error.to_string())?;
        out.pop();
        let mut parts = VecDeque::new();
        queue(&mut parts, &target);
        parts.append(&mut todo);
        todo = parts;
    }
    if cfg!(target_os = "macos")
        && let Ok(exact) = std::fs::canonicalize(&out)
    {
        // The disk's spelling is used on a case-insensitive file system.
        out = exact;
    }
    AbsPath::new(&out).ok_or_else(|| "it is not absolute".to_owned())
}

/// `path` with the links of its existing part resolved.
pub fn canonical_existing(path: &AbsPath) -> AbsPath {
    let mut existing = path.clone();
    loop {
        if let Some(found) = std::fs::canonicalize(&existing).ok().and_then(AbsPath::new) {
            return match path.strip_prefix(&existing) {
                Some(rest) if rest.as_os_str().is_empty() => found,
                Some(rest) => found.join(rest),
                None => found,
            };
        }
        match existing.parent() {
            Some(parent) => existing = parent,
            None => return path.clone(),
        }
    }
}

enum Part {
    Root,
    Up,
    Name(OsString),
}

fn queue(parts: &mut VecDeque<Part>, path: &Path) {
    for component in path.components() {
        match component {
            Component::RootDir | Component::Prefix(_) => parts.push_back(Part::Root),
            Component::CurDir => {}
            Component::ParentDir => parts.push_back(Part::Up),
            Component::Normal(name) => parts.push_back(Part::Name(name.to_owned())),
        }
    }
}
