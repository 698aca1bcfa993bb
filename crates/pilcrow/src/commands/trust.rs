//! `pilcrow trust`: lists, adds and removes trusted projects.

use std::path::PathBuf;

use anyhow::Context;
use host::Outcome;
use paths::{AbsPath, Homes};
use policy::TrustStore;

use crate::{open, output};

/// Lists, adds or removes a directory, by default the current project.
pub fn trust(directory: Option<PathBuf>, list: bool, remove: bool) -> anyhow::Result<Outcome> {
    let store = TrustStore::new(Homes::from_env()?.state);
    if list {
        for path in store.list()? {
            output::line(&path.to_string());
        }
        return Ok(Outcome::Done);
    }
    open::refuse_run()?;
    let directory = match directory {
        Some(directory) => directory,
        None => open::root(None)?,
    };
    let canonical = directory.canonicalize();
    if remove {
        // A deleted directory can still be removed from the list.
        let path = canonical.or_else(|_| std::path::absolute(&directory))?;
        let path = AbsPath::new(path).context("the directory has no absolute path")?;
        if store.remove(&path)? {
            output::line(&format!("no longer trusted: {path}"));
            return Ok(Outcome::Done);
        }
        output::note(&format!("pilcrow: {path} was not trusted; `pilcrow trust --list` shows the list"));
        return Ok(Outcome::Failed);
    }
    let path = canonical.with_context(|| format!("cannot trust {}", directory.display()))?;
    let path = AbsPath::new(path).context("the directory has no absolute path")?;
    store.trust(&path)?;
    output::line(&format!("trusted: {path}; its language servers may run"));
    Ok(Outcome::Done)
}
