//! Absolute paths, `file:` URIs, and Pilcrow's own directories.
//!
//! The lowest crate that accesses the file system: [`resolve`] follows links, and [`StateDir`] is
//! the only access to Pilcrow's own files. Knows nothing of the user's project.
#![expect(clippy::disallowed_methods, reason = "StateDir writes Pilcrow's own files")]

mod abs_path;
mod regular_file;
mod resolve;
mod sensitive;
mod state;
mod uri;

pub use abs_path::AbsPath;
pub use regular_file::{MAX_SETTINGS, open_file, read_file, read_settings};
pub use resolve::{canonical, canonical_existing, resolve};
pub use sensitive::{Sensitive, credential_paths, has_settings, sensitive_name};
pub use state::{Homes, StateDir, StateError, StateLock};
pub use uri::{path_to_uri, uri_to_path};
