//! `pilcrow config`: settings and their origins, and the policy that follows from them.

use adapters::{DebuggerDefinition, ServerDefinition};
use host::project::{Access, load_definitions};
use host::session::profile_directory;
use host::{Outcome, config};
use paths::Homes;
use policy::{NamedProgram, TrustStore};

use crate::{cli, open, output};

/// Prints every setting with its value and origin.
pub fn show(target: &cli::CommandTarget, agent: Option<&str>) -> anyhow::Result<Outcome> {
    let homes = Homes::from_env()?;
    let root = open::canonical_root(&target.project)?;
    let trusted = TrustStore::new(homes.state.clone()).is_trusted(&root);
    let settings = open::settings(&homes, &root, trusted)?;
    let settings = match agent {
        Some(name) => settings.for_agent(&profile_directory(&homes, name)?)?,
        None => settings,
    };
    if target.json {
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
    target: &cli::CommandTarget,
) -> anyhow::Result<Outcome> {
    let project = open::open(&target.project, Access::default())?;
    let root = project.workspace.root();
    let servers = load_definitions::<ServerDefinition>(&project.homes, root, project.trusted);
    let debuggers = load_definitions::<DebuggerDefinition>(&project.homes, root, project.trusted);
    let find = |name| match () {
        () if servers.names().any(|it| it == name) => Ok(NamedProgram::Server(name)),
        () if name == policy::COMMANDS || debuggers.names().any(|it| it == name) => {
            Ok(NamedProgram::Asking(name))
        }
        () => {
            let names: Vec<&str> = servers.names().chain(debuggers.names()).collect();
            let (commands, names) = (policy::COMMANDS, names.join(", "));
            Err(anyhow::anyhow!("no program {name:?}; `--by` takes `{commands}` or one of\n{names}"))
        }
    };
    let by = subject.map(find).transpose()?;
    let explanation = project.policy.explain(capability, argument, by).map_err(anyhow::Error::msg)?;
    if target.json {
        output::json(&explanation);
    } else {
        output::line(explanation.render().trim_end());
    }
    Ok(Outcome::Done)
}
