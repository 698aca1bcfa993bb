//! `pilcrow doctor`: checks which programs are installed and how to install the
//! others.

use host::Outcome;
use host::doctor::{Probe, examine};
use paths::Homes;
use policy::{Policy, PolicyOptions, TrustStore};
use process::Processes;
use process::deadlines;
use rpc_server::Hello;
use workspace::Workspace;

use super::adapters;
use crate::{cli, open, output, terminal};

/// Examines the basics and every known language server.
///
/// Fails if something is broken; only reports missing programs.
pub async fn show(target: &cli::CommandTarget) -> anyhow::Result<Outcome> {
    let args = &target.project;
    let homes = Homes::from_env()?;
    let root = open::canonical_root(args)?;
    let trust = TrustStore::new(homes.state.clone());
    let config = open::settings(&homes, &root, trust.is_trusted(&root))?;
    let mut options = PolicyOptions::new(trust, root.clone());
    options.rules = config.rules();
    let policy = Policy::new(options);
    let processes = Processes::new(std::env::current_exe().ok());
    let known = adapters::scan(args)?;
    let mut report = examine(&homes, &root, &Probe::basics(), &policy, &processes).await;
    // Servers are only located: many start serving when called with `--version`.
    let (_, id) = Workspace::identify(root.as_path())?;
    let hello = Hello::new(false, false, false);
    match rpc_server::find(&homes, &id, &hello, &terminal::approver()).await {
        Ok(client) => report.served_by = client.map(|client| client.owner().to_string()),
        Err(problem) => report.served_by = Some(problem.to_string()),
    }
    report.findings.splice(0..0, known.findings());
    let left = processes.end_all(deadlines::COMMAND_PROGRAMS).await;
    if !left.is_empty() {
        output::note(&format!("pilcrow: these processes could not be stopped: {left:?}"));
    }
    if target.json {
        output::json(&report);
    } else {
        output::line(report.render().trim_end());
    }
    Ok(if report.is_healthy() { Outcome::Done } else { Outcome::Failed })
}
