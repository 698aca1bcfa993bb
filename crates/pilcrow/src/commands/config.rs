//! `pilcrow config`: settings and their origins, and the policy that follows from them.

use host::project::Access;
use host::session::profile_directory;
use host::{Outcome, config};
use paths::Homes;
use policy::TrustStore;

use crate::{cli, open, output};

/// Prints every setting with its value and origin.
pub fn show(args: &cli::Project, agent: Option<&str>, as_json: bool) -> anyhow::Result<Outcome> {
    let homes = Homes::from_env()?;
    let root = open::canonical_root(args)?;
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

/// Prints the JSON Schema of `config.toml`.
pub fn schema() -> anyhow::Result<Outcome> {
    output::line(&serde_json::to_string_pretty(config::schema())?);
    Ok(Outcome::Done)
}

/// Prints what the policy decides about `argument`, and why.
pub fn why(
    capability: &str,
    argument: Option<&str>,
    subject: Option<&str>,
    args: &cli::Project,
    as_json: bool,
) -> anyhow::Result<Outcome> {
    let project = open::open(args, Access::default())?;
    let explanation = project.policy.explain(capability, argument, subject).map_err(anyhow::Error::msg)?;
    if as_json {
        output::json(&explanation);
    } else {
        output::line(explanation.render().trim_end());
    }
    Ok(Outcome::Done)
}
