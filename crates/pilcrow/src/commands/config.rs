//! `pilcrow config`: settings and where each comes from.

use host::session::profile_directory;
use host::{Outcome, config};
use paths::{AbsPath, Homes};
use policy::TrustStore;

use crate::{cli, open, output};

/// Every setting with its value and origin.
pub fn show(args: &cli::Project, agent: Option<&str>, as_json: bool) -> anyhow::Result<Outcome> {
    let homes = Homes::from_env()?;
    let root = open::root(args.dir.as_deref())?;
    let root = AbsPath::new(root.canonicalize()?)
        .ok_or_else(|| anyhow::anyhow!("the project has no absolute path"))?;
    let trusted = TrustStore::new(homes.state.clone()).is_trusted(&root);
    let settings = open::settings(&homes, &root, trusted)?;
    let settings = match agent {
        Some(name) => settings.for_agent(&profile_directory(&homes, name)?)?,
        None => settings,
    };
    if as_json {
        for shown in settings.show() {
            output::json(&shown);
        }
    } else {
        output::line(&settings.render());
    }
    Ok(Outcome::Done)
}

/// The JSON Schema of `config.toml`.
pub fn schema() -> anyhow::Result<Outcome> {
    output::line(&serde_json::to_string_pretty(&config::schema())?);
    Ok(Outcome::Done)
}
