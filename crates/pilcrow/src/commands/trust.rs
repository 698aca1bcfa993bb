//! `pilcrow trust`: which projects may run their tools.

use std::path::PathBuf;

use anyhow::Context;
use workspace::{AbsPath, Homes, TrustStore};

use super::Exit;
use crate::{output, project};

/// Lists, adds or removes a folder; the current project without one.
pub fn trust(folder: Option<PathBuf>, list: bool, remove: bool) -> anyhow::Result<Exit> {
    let store = TrustStore::new(Homes::from_env()?.state);
    if list {
        for path in store.list()? {
            output::line(&path.to_string());
        }
        return Ok(Exit::Done);
    }
    let folder = match folder {
        Some(folder) => folder,
        None => project::root(None)?,
    };
    let canonical = folder.canonicalize();
    if remove {
        // A folder that is gone can still be taken off the list.
        let path = canonical.or_else(|_| std::path::absolute(&folder))?;
        let path = AbsPath::new(path).context("the folder has no absolute path")?;
        if store.remove(&path)? {
            output::line(&format!("no longer trusted: {path}"));
            return Ok(Exit::Done);
        }
        output::note(&format!("pilcrow: {path} was not on the list; `pilcrow trust --list` shows it"));
        return Ok(Exit::Failed);
    }
    let path = canonical.with_context(|| format!("{} cannot be trusted", folder.display()))?;
    let path = AbsPath::new(path).context("the folder has no absolute path")?;
    store.trust(&path)?;
    output::line(&format!("trusted: {path}; its language servers may run"));
    Ok(Exit::Done)
}
