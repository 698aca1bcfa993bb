//! `pilcrow doctor`: what is installed, what is missing, and the command that installs it.

use std::time::Duration;

use host::Outcome;
use host::doctor::{Probe, examine};
use paths::{AbsPath, Homes};
use policy::{Policy, PolicyOptions, TrustStore};
use process::Processes;

use super::adapters;
use crate::{cli, open, output};

/// How long programs that were asked for their version get to end.
const END: Duration = Duration::from_secs(2);

/// Examines the basics and every known language server. Fails when something is broken; what is
/// missing is only said.
pub fn show(args: &cli::Project, as_json: bool) -> anyhow::Result<Outcome> {
    crate::block_on(async {
        let homes = Homes::from_env()?;
        let root = open::root(args.dir.as_deref())?;
        let root = AbsPath::new(root.canonicalize()?)
            .ok_or_else(|| anyhow::anyhow!("the project has no absolute path"))?;
        let trust = TrustStore::new(homes.state.clone());
        let config = open::settings(&homes, &root, trust.is_trusted(&root))?;
        let mut options = PolicyOptions::new(trust, root.clone());
        options.rules = config.rules();
        let policy = Policy::new(options);
        let processes = Processes::new(std::env::current_exe().ok());
        let known = adapters::look(args)?;
        let mut report = examine(&homes, &root, &Probe::basics(), &policy, &processes).await;
        // Servers are only looked for: many take `--version` for the wish to serve.
        report.findings.extend(known.findings());
        let left = processes.end_all(END).await;
        if !left.is_empty() {
            output::note(&format!("pilcrow: these processes could not be ended: {left:?}"));
        }
        if as_json {
            output::json(&report);
        } else {
            output::line(report.render().trim_end());
        }
        Ok(if report.is_healthy() { Outcome::Done } else { Outcome::Failed })
    })
}
