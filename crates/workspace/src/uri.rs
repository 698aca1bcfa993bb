//! `file:` URIs to paths and back (RFC 8089).

use std::path::{Path, PathBuf};

/// The `file:` URI of an absolute path, percent-encoded as VS Code does it.
pub fn path_to_uri(path: &Path) -> String {
    let _ = path;
    unimplemented!()
}

/// The path that a `file:` URI names; `None` for any other scheme or a host that is not local.
pub fn uri_to_path(uri: &str) -> Option<PathBuf> {
    let _ = uri;
    unimplemented!()
}
