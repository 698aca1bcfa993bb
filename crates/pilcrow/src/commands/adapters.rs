//! `pilcrow adapters`: which language servers are known, and which can be started here.

use lsp_client::Definitions;
use serde_json::json;
use workspace::{AbsPath, Homes, TrustStore};

use super::Exit;
use crate::{cli, output, project};

/// A definition and the programs found for it.
pub struct Found {
    /// The definition's name.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// Languages.
    pub languages: Vec<String>,
    /// Best first.
    pub programs: Vec<std::path::PathBuf>,
    /// The command that installs it.
    pub install: String,
    /// The version that the test run saw working.
    pub verified: Option<String>,
}

/// Every definition with what is there for it.
pub fn look(args: &cli::Project) -> anyhow::Result<Vec<Found>> {
    let homes = Homes::from_env()?;
    let root = project::root(args.dir.as_deref())?;
    let root = AbsPath::new(root.canonicalize()?)
        .ok_or_else(|| anyhow::anyhow!("the project has no absolute path"))?;
    let trusted = TrustStore::new(homes.state.clone()).is_trusted(&root);
    let definitions: Definitions =
        project::definitions(&homes, &root, trusted, project::Surface::terminal().tell);
    let search = project::search_path(&homes);
    Ok(definitions
        .list()
        .map(|definition| Found {
            name: definition.name.clone(),
            about: definition.about.clone(),
            languages: definition.languages.iter().map(|language| language.id.clone()).collect(),
            programs: search.find(definition, &root, &root),
            install: definition.install.command.clone(),
            verified: definition.verified.as_ref().map(|verified| verified.version.clone()),
        })
        .collect())
}

/// Lists every definition.
pub fn list(args: &cli::Project, as_json: bool) -> anyhow::Result<Exit> {
    for found in look(args)? {
        if as_json {
            output::json(&json!({
                "name": found.name, "about": found.about, "languages": found.languages,
                "programs": found.programs, "install": found.install, "verified": found.verified,
            }));
            continue;
        }
        let verified = match &found.verified {
            Some(version) => format!("verified with {version}"),
            None => "not verified".to_owned(),
        };
        let there = if found.programs.is_empty() { "not installed" } else { "installed" };
        output::line(&format!("{}: {} ({there}, {verified})", found.name, found.about));
    }
    Ok(Exit::Done)
}

/// Says of each what would be started, or what installs it.
pub fn doctor(args: &cli::Project, as_json: bool) -> anyhow::Result<Exit> {
    for found in look(args)? {
        let program = found.programs.first();
        if as_json {
            output::json(&json!({ "name": found.name, "program": program, "install": found.install }));
            continue;
        }
        match program {
            Some(program) => output::line(&format!("{}: {}", found.name, program.display())),
            None => output::line(&format!("{}: missing; install it: {}", found.name, found.install)),
        }
    }
    Ok(Exit::Done)
}
