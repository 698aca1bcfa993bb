//! Absolute paths, the only kind that a long-lived process may use.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

/// An absolute path without `.` and `..` components.
///
/// Two such paths may name one file through links; [`resolve`](crate::resolve) makes them canonical.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "PathBuf", into = "PathBuf")]
pub struct AbsPath(PathBuf);

impl AbsPath {
    /// Removes `.` and `..` from `path` by spelling; `None` if it is relative.
    pub fn new(path: impl AsRef<Path>) -> Option<Self> {
        let path = path.as_ref();
        if !path.is_absolute() {
            return None;
        }
        let mut out = PathBuf::new();
        for component in path.components() {
            match component {
                Component::CurDir => {}
                Component::ParentDir => {
                    out.pop();
                }
                other => out.push(other),
            }
        }
        Some(Self(out))
    }

    /// The path of an entry of this directory; an absolute `path` replaces it.
    pub fn join(&self, path: impl AsRef<Path>) -> Self {
        Self::new(self.0.join(path)).expect("an absolute path joined with any other is absolute")
    }

    /// The parent directory; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        self.0.parent().map(|parent| Self(parent.to_owned()))
    }

    /// The path as the standard library's type.
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// Last component of the path, lossily as text; empty for the root.
    pub fn file_name(&self) -> String {
        self.0.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The part below `base`; `None` if it is not below it.
    pub fn strip_prefix(&self, base: &Self) -> Option<&Path> {
        self.0.strip_prefix(&base.0).ok()
    }

    /// Whether this is `base` or a path below it.
    pub fn starts_with(&self, base: &Self) -> bool {
        self.0.starts_with(&base.0)
    }
}

impl AsRef<Path> for AbsPath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl std::fmt::Display for AbsPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.display().fmt(f)
    }
}

impl TryFrom<PathBuf> for AbsPath {
    type Error = String;

    fn try_from(path: PathBuf) -> Result<Self, String> {
        Self::new(&path).ok_or_else(|| format!("{} is not an absolute path", path.display()))
    }
}

impl From<AbsPath> for PathBuf {
    fn from(path: AbsPath) -> Self {
        path.0
    }
}
