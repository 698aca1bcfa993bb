//! A scripted debug adapter: responses, silence, nonsense, crashes, output floods.
//!
//! It behaves well wherever the script has no step, and records every message it receives. It runs
//! in process over any pair of streams ([`serve`]) and as an executable ([`executable`]):
//! `scripted-debug-adapter SCRIPT.json`, over its standard streams. With `--port PORT` it listens
//! there, with `--announce` at a port that it prints, with `--connect PORT` it connects.

mod script;
mod serve;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub use script::{Script, Step};
pub use serve::{Ended, serve};

/// The built executable.
///
/// Builds it if it is missing. Blocks.
///
/// # Panics
///
/// If cargo cannot build it.
pub fn executable() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| crate::language_server::build("scripted-debug-adapter"))
}
