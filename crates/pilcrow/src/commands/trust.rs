//! `pilcrow trust`: which projects may run their tools.

use std::path::PathBuf;

use anyhow::Context;
use host::Outcome;
use paths::{AbsPath, Homes};
use policy::TrustStore;

use crate::{open, output};

/// Lists, adds or removes a folder; the current project without one.
pub fn trust(folder: Option<PathBuf>, list: bool, remove: bool) -> anyhow::Result<Outcome> {
    let store = TrustStore::new(Homes::from_env()?.state);
    if list {
        for path in store.list()? {
            output::line(&path.to_string());
        }
        return Ok(Outcome::Done);
    }
    let folder = match folder {
        Some(folder) => folder,
        None => open::root(None)?,
    };
    let canonical = folder.canonicalize();
    if remove {
        // A folder that is gone can still be taken off the list.
        let path = canonical.or_else(|_| std::path::absolute(&folder))?;
        let path = AbsPath::new(path).context("the folder has no absolute path")?;
        if store.remove(&path)? {
            output::line(&format!("no longer trusted: {path}"));
            return Ok(Outcome::Done);
        }
        output::note(&format!("pilcrow: {path} was not on the list; `pilcrow trust --list` shows it"));
        return Ok(Outcome::Failed);
    }
    let path = canonical.with_context(|| format!("{} cannot be trusted", folder.display()))?;
    let path = AbsPath::new(path).context("the folder has no absolute path")?;
    store.trust(&path)?;
    output::line(&format!("trusted: {path}; its language servers may run"));
    Ok(Outcome::Done)
}
