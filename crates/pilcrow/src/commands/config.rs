//! `pilcrow config`: settings and where each comes from.

use workspace::{AbsPath, Homes, TrustStore};

use super::Exit;
use crate::around::agent_folder;
use crate::{cli, config, output, project};

/// Every setting with its value and origin.
pub fn show(args: &cli::Project, agent: Option<&str>, as_json: bool) -> anyhow::Result<Exit> {
    let homes = Homes::from_env()?;
    let root = project::root(args.dir.as_deref())?;
    let root = AbsPath::new(root.canonicalize()?)
        .ok_or_else(|| anyhow::anyhow!("the project has no absolute path"))?;
    let trusted = TrustStore::new(homes.state.clone()).is_trusted(&root);
    let settings = project::settings(&homes, &root, trusted)?;
    let settings = match agent {
        Some(name) => settings.for_agent(&agent_folder(&homes, name)?)?,
        None => settings,
    };
    if as_json {
        for shown in settings.show() {
            output::json(&shown);
        }
    } else {
        output::line(&settings.render());
    }
    Ok(Exit::Done)
}

/// The JSON Schema of `config.toml`.
pub fn schema() -> anyhow::Result<Exit> {
    output::line(&serde_json::to_string_pretty(&config::schema())?);
    Ok(Exit::Done)
}
