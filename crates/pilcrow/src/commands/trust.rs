//! `pilcrow trust`: trusted projects, and the programs that they define.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use adapters::{DebuggerDefinition, Definition, ServerDefinition};
use anyhow::Context;
use host::{Outcome, project};
use paths::{AbsPath, Homes, StateDir};
use policy::{Subject, SubjectState, Subjects, TrustStore};
use workspace::Workspace;

use crate::{open, output};

/// Lists the trusted directories, each with the programs that its project defines.
pub fn list() -> anyhow::Result<Outcome> {
    let homes = Homes::from_env()?;
    let trusted = TrustStore::new(homes.state.clone()).list()?;
    // A project below a trusted directory has programs of its own.
    let here = open::root(None).ok().and_then(AbsPath::new).filter(|root| !trusted.contains(root));
    let here = here.filter(|root| trusted.iter().any(|it| root.starts_with(it)));
    for path in trusted {
        output::line(&path.to_string());
        list_programs(&homes, &path)?;
    }
    if let Some(root) = here {
        list_programs(&homes, &root)?;
    }
    Ok(Outcome::Done)
}

fn list_programs(homes: &Homes, root: &AbsPath) -> anyhow::Result<()> {
    // A directory may be gone.
    let Ok(subjects) = subjects(homes, root.as_path()) else { return Ok(()) };
    let mut states: BTreeMap<String, SubjectState> = subjects.list()?.into_iter().collect();
    let defined = defined::<ServerDefinition>(homes, root).chain(defined::<DebuggerDefinition>(homes, root));
    for subject in defined {
        states.insert(subject.id().to_owned(), subjects.state(&subject)?);
    }
    for (id, state) in states {
        output::line(&format!("  {:<12} {id}", state.name()));
    }
    Ok(())
}

/// The definitions of a project.
fn defined<D: Definition>(homes: &Homes, root: &AbsPath) -> impl Iterator<Item = Subject> {
    let definitions = project::load_definitions::<D>(homes, root, true);
    let own: Vec<Subject> = definitions
        .list()
        .filter(|it| it.summary().from_project)
        .map(|it| Subject::new(D::DIRECTORY, it.summary().name, it.source()))
        .collect();
    own.into_iter()
}

fn subjects(homes: &Homes, root: &Path) -> anyhow::Result<Subjects> {
    let (_, id) = Workspace::identify(root)?;
    Ok(Subjects::new(Some(StateDir::new(homes.state.path().join("workspaces").join(id)))))
}

/// Ends the trust in a program that the project defines.
pub fn kill(directory: Option<PathBuf>, program: &str) -> anyhow::Result<Outcome> {
    open::refuse_run()?;
    let root = open::root(directory.as_deref())?;
    if subjects(&Homes::from_env()?, &root)?.kill(program)? {
        output::line(&format!("{program} is killed: a running process continues, and the next start asks"));
        return Ok(Outcome::Done);
    }
    output::note(&format!(
        "pilcrow: no program {program} has a stored state here; `pilcrow trust --list` shows the names"
    ));
    Ok(Outcome::Failed)
}

/// Adds or removes a directory, by default the current project.
pub fn trust(directory: Option<PathBuf>, remove: bool) -> anyhow::Result<Outcome> {
    let store = TrustStore::new(Homes::from_env()?.state);
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
