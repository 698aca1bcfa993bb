//! `cargo xtask bench context`: what common tasks cost in tokens.
//!
//! A local server answers as the model: it calls the tools that `tasks.toml` lists, with the rows and tags that
//! the agent has shown. The agent's tools really run, on a copy of a public package. The server counts what it
//! receives, so the figures hold everything that the agent sends. Other agents run beside Pilcrow if `--peers`
//! names where they are installed.

mod agents;
mod server;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;
use tiktoken_rs::CoreBPE;

use self::agents::Agent;
use self::server::Server;
use crate::exec;
use crate::setup::tools_dir::ToolsDir;
use crate::setup::{self, For, items};
use crate::steps::Steps;

const DEADLINE: Duration = Duration::from_secs(5 * 60);

/// The tasks; `tasks.toml` documents the keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tasks {
    source: String,
    tasks: Vec<Task>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    name: String,
    prompt: String,
    #[serde(default)]
    setup: String,
    #[serde(default)]
    check: String,
    pilcrow: Vec<Vec<Call>>,
    pi: Vec<Vec<Call>>,
    omp: Vec<Vec<Call>>,
}

/// A tool and its arguments.
#[derive(Deserialize)]
struct Call(String, Value);

/// Tokens and turns of a task, or of all.
#[derive(Default)]
struct Cost {
    turns: usize,
    /// First request: instructions, tools and prompt.
    first: usize,
    calls: usize,
    results: usize,
    /// Content of every request.
    input: usize,
}

impl Cost {
    /// Counts the requests of a run.
    fn of(requests: &[Value], vocabulary: &CoreBPE) -> Self {
        let count = |text: &str| vocabulary.encode_ordinary(text).len();
        let message = |message: &Value| {
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            let calls = calls.map(|call| {
                let text = |name: &str| call["function"][name].as_str().unwrap_or_default();
                count(text("name")) + count(text("arguments"))
            });
            (count(&text_of(&message["content"])), calls.sum::<usize>())
        };
        let total = |request: &Value| {
            let messages = request["messages"].as_array().into_iter().flatten();
            let tools = request["tools"].as_array().into_iter().flatten();
            messages.map(message).map(|(text, calls)| text + calls).sum::<usize>()
                + tools.map(|tool| count(&tool["function"].to_string())).sum::<usize>()
        };
        let mut cost = Self {
            turns: requests.len(),
            first: requests.first().map_or(0, total),
            input: requests.iter().map(total).sum(),
            ..Self::default()
        };
        let messages = requests.last().and_then(|request| request["messages"].as_array());
        for it in messages.into_iter().flatten() {
            let (text, calls) = message(it);
            cost.calls += calls;
            cost.results += if it["role"] == "tool" { text } else { 0 };
        }
        cost
    }

    fn add(&mut self, other: &Self) {
        self.turns += other.turns;
        self.first += other.first;
        self.calls += other.calls;
        self.results += other.results;
        self.input += other.input;
    }

    fn print(&self, name: &str) {
        let Self { turns, first, calls, results, input } = self;
        let both = calls + results;
        println!("{name:<28}{turns:>6}{first:>8}{calls:>8}{results:>9}{both:>7}{input:>9}");
    }
}

/// The text of a message's content, which is a text or a list of parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// Runs all tasks, or the one with this name, and prints their costs.
///
/// `peers` is the directory of other agents. With `show`, prints what the model receives and sends.
pub(super) fn run(pilcrow: &Path, peers: Option<&Path>, only: Option<&str>, show: bool) -> Result<()> {
    let tools = ToolsDir::from_env()?;
    setup::ensure(&tools, For::Test, &mut Steps::new())?;
    let Tasks { source, tasks } = toml::from_str(include_str!("tasks.toml")).context("tasks.toml")?;
    let vocabulary = tiktoken_rs::o200k_base()?;
    for agent in Agent::all(pilcrow, peers)? {
        let mut total = Cost::default();
        let mut rows = Vec::new();
        for task in tasks.iter().filter(|task| only.is_none_or(|only| task.name == only)) {
            let requests = play(task, &source, &agent, &tools)
                .with_context(|| format!("task {} with {}", task.name, agent.name()))?;
            if show {
                print_last(&requests);
            }
            let cost = Cost::of(&requests, &vocabulary);
            total.add(&cost);
            rows.push((task.name.as_str(), cost));
        }
        println!(
            "{:<28}{:>6}{:>8}{:>8}{:>9}{:>7}{:>9}",
            format!("{} (o200k)", agent.name()),
            "turns",
            "first",
            "calls",
            "results",
            "both",
            "input"
        );
        rows.iter().for_each(|(name, cost)| cost.print(name));
        total.print("total");
    }
    Ok(())
}

/// Prints the messages of the last request.
fn print_last(requests: &[Value]) {
    for message in requests.last().and_then(|it| it["messages"].as_array()).into_iter().flatten() {
        println!(
            "--- {}\n{}",
            message["role"].as_str().unwrap_or_default(),
            text_of(&message["content"]).trim_end()
        );
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            println!(
                "> {} {}",
                call["function"]["name"],
                call["function"]["arguments"].as_str().unwrap_or_default()
            );
        }
    }
}

/// Runs a task; returns the requests that the model received.
fn play(task: &Task, source: &str, agent: &Agent, tools: &ToolsDir) -> Result<Vec<Value>> {
    let directory =
        tempfile::Builder::new().prefix("pilcrow-context-").tempdir().context("cannot make a directory")?;
    let project = unpack(source, directory.path(), tools)?;
    let shell = |script: &str| {
        let mut shell = Command::new("sh");
        shell.current_dir(&project).args(["-euc", script]);
        exec::capture_ok(&mut shell, DEADLINE)
    };
    shell(&task.setup)?;
    let server = Server::start(agent.turns(task))?;
    let mut command =
        agent.command(&task.prompt, &server.url(), &project, &directory.path().join("home"), tools)?;
    command.env("PYTHONPATH", project.join("src")).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = exec::capture(&mut command, DEADLINE)?;
    let played = server.finish()?;
    ensure!(
        output.status.success(),
        "{}: {}\n{}{}",
        exec::show(&command),
        output.status,
        output.stdout,
        output.stderr
    );
    if let Err(error) = shell(&task.check) {
        print_last(&played);
        return Err(error.context("the task is not done"));
    }
    Ok(played)
}

fn unpack(source: &str, directory: &Path, tools: &ToolsDir) -> Result<PathBuf> {
    let item = items::source(source);
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(setup::source_archive(tools, item)).arg("-C").arg(directory).arg("--no-same-owner");
    exec::capture_ok(&mut tar, DEADLINE)?;
    let project = directory.join(item.directory());
    let mut git = Command::new("git");
    exec::capture_ok(git.args(["init", "--quiet"]).arg(&project), DEADLINE)?;
    Ok(project)
}
