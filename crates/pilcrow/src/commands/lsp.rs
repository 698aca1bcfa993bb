//! `pilcrow rename`, `refs`, `check` and the like: calls of the tool `lsp` by the user.

use std::path::{Component, Path};

use agent::ToolResult;
use host::{Outcome, Reply, ToolCallRequest, action_name};
use policy::ErrorCode;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{print_edit, print_text, result_json};
use crate::cli::{LspArgs, LspCommand, SymbolArgs, WaitArgs};
use crate::executor::Executor;
use crate::render::Format;
use crate::{cli, open, output, terminal};

/// Symbols that a question offers, as many as the tool `ask` takes.
const MAX_OPTIONS: usize = 6;

/// Executes the command; the user's own command asks no question about its change.
pub async fn run(command: LspCommand) -> anyhow::Result<Outcome> {
    let (arguments, options) = call(command);
    let LspArgs { args, consent, format, wait } = options;
    let as_json = args.target.json;
    let access = open::access(consent.yes, true)?;
    let reply = Executor::with(&args, access, async |executor, cancel| {
        executor.shows_progress = !as_json;
        let asks = !as_json && terminal::is_interactive();
        execute(executor, arguments, wait, asks, cancel).await
    });
    match &reply.await? {
        Reply::Done(result) if !candidates(result).is_empty() => {
            print_candidates(result, as_json, format);
            Ok(Outcome::InvalidRequest)
        }
        reply => Ok(print_edit("lsp", reply, as_json, format)),
    }
}

/// Calls the tool.
///
/// If the symbol is ambiguous, asks which one is meant and calls it again.
async fn execute(
    executor: &mut Executor,
    mut arguments: Value,
    wait: WaitArgs,
    asks: bool,
    cancel: &CancellationToken,
) -> anyhow::Result<Reply<ToolResult>> {
    let request = |name: &str, arguments: &Value| ToolCallRequest {
        name: name.to_owned(),
        arguments: arguments.clone(),
        invoked: true,
        named: true,
        wait_ms: wait.millis(),
    };
    let reply = executor.call_tool(request("lsp", &arguments), cancel).await?;
    let Reply::Done(result) = &reply else { return Ok(reply) };
    let candidates = candidates(result);
    // A longer list is printed.
    if !asks || !(2..=MAX_OPTIONS).contains(&candidates.len()) {
        return Ok(reply);
    }
    let text = |it: &Value, name: &str| it[name].as_str().unwrap_or_default().trim().to_owned();
    let option = |it: &Value| format!("{}: {}", text(it, "place"), text(it, "text"));
    let options: Vec<String> = candidates.iter().map(option).collect();
    let question = format!("Which `{}`?", text(&arguments, "symbol"));
    let question = json!({ "question": question, "options": options });
    let Reply::Done(answer) = executor.call_tool(request("ask", &question), cancel).await? else {
        return Ok(reply);
    };
    // Without an answer the command ends; other text lists the symbols again.
    if cancel.is_cancelled() || answer.details["answer"].is_null() {
        let action = action_name("lsp", &arguments);
        let cancelled = ToolResult::error(ErrorCode::Cancelled, "no symbol was chosen");
        return Ok(Reply::Done(cancelled.with_details(json!({ "cancelled": action }))));
    }
    let Some(at) = options.iter().position(|option| answer.details["answer"] == option.as_str()) else {
        return Ok(reply);
    };
    for name in ["file", "line"] {
        arguments[name] = candidates[at][name].clone();
    }
    executor.call_tool(request("lsp", &arguments), cancel).await
}

/// The symbols that an ambiguous name means.
fn candidates(result: &ToolResult) -> &[Value] {
    let candidates = result.details["candidates"].as_array().filter(|_| result.is_error);
    candidates.map(Vec::as_slice).unwrap_or_default()
}

/// Prints the symbols that an ambiguous name means, and how to select one.
fn print_candidates(result: &ToolResult, as_json: bool, format: Format) {
    let text = result.joined_text();
    if as_json {
        return output::json(&result_json("lsp", result));
    }
    if format == Format::Model {
        return output::note(&text);
    }
    let title = text.split_once(';').map_or(&*text, |(title, _)| title);
    let place = candidates(result)[0]["place"].as_str().unwrap_or_default();
    output::note(&format!("pilcrow: {title}; select one with --in FILE:LINE, such as `--in {place}`"));
    print_text("", &result.details, format);
}

/// The arguments of the tool.
fn call(command: LspCommand) -> (Value, LspArgs) {
    match command {
        LspCommand::Rename { symbol, new_name, options } => {
            let mut arguments = place("rename", &symbol, &options.args.target.project);
            arguments["new_name"] = json!(new_name);
            (arguments, options)
        }
        LspCommand::Move { from, to, options } => {
            let [from, to] = [from, to].map(|path| project_path(&path, &options.args.target.project));
            (json!({ "action": "rename_file", "file": from, "to": to }), options)
        }
        LspCommand::Refs { symbol, options } => {
            (place("references", &symbol, &options.args.target.project), options)
        }
        LspCommand::Def { symbol, options } => {
            (place("definition", &symbol, &options.args.target.project), options)
        }
        LspCommand::Callers { symbol, options } => {
            (place("callers", &symbol, &options.args.target.project), options)
        }
        LspCommand::Symbols { what, options } => {
            let file = project_path(&what, &options.args.target.project);
            let is_file = options
                .args
                .target
                .project
                .dir
                .as_ref()
                .map_or_else(|| (&*file).into(), |dir| dir.join(&what));
            let (name, value) = if is_file.is_file() { ("file", file) } else { ("query", what) };
            (json!({ "action": "symbols", name: value }), options)
        }
        LspCommand::Check { files, options } => {
            (of_files("diagnostics", &files, &options.args.target.project), options)
        }
        LspCommand::Fmt { files, options } => {
            (of_files("format", &files, &options.args.target.project), options)
        }
    }
}

fn of_files(action: &str, files: &[String], project: &cli::Project) -> Value {
    let files: Vec<String> = files.iter().map(|file| project_path(file, project)).collect();
    if files.is_empty() { json!({ "action": action }) } else { json!({ "action": action, "files": files }) }
}

/// The arguments for a symbol: a name, or `FILE:LINE[:COLUMN]`.
fn place(action: &str, symbol: &SymbolArgs, project: &cli::Project) -> Value {
    let mut arguments = json!({ "action": action });
    let (file, line, column) = match &symbol.place {
        Some(place) => numbered(place),
        None => numbered(&symbol.symbol),
    };
    if symbol.place.is_some() || line.is_none() {
        arguments["symbol"] = json!(symbol.symbol);
    }
    if symbol.place.is_some() || line.is_some() {
        arguments["file"] = json!(project_path(file, project));
    }
    for (name, value) in [("line", line), ("column", column)] {
        if let Some(value) = value {
            arguments[name] = json!(value);
        }
    }
    arguments
}

/// Splits `FILE[:LINE[:COLUMN]]`.
fn numbered(place: &str) -> (&str, Option<u64>, Option<u64>) {
    let split = |text| -> Option<(&str, u64)> {
        let (before, number) = str::rsplit_once(text, ':')?;
        (!before.is_empty()).then_some((before, number.parse().ok()?))
    };
    match split(place).map(|(before, last)| (split(before), before, last)) {
        Some((Some((file, line)), _, column)) => (file, Some(line), Some(column)),
        Some((None, file, line)) => (file, Some(line), None),
        None => (place, None, None),
    }
}

/// Makes a path of the shell refer to the project.
///
/// With `-C` it does already.
fn project_path(path: &str, project: &cli::Project) -> String {
    let (None, Ok(absolute)) = (&project.dir, std::path::absolute(path)) else { return path.to_owned() };
    let has_parents = absolute.components().any(|part| part == Component::ParentDir);
    let root = open::root(None).ok().filter(|_| !has_parents);
    let inside = root.and_then(|root| absolute.strip_prefix(root).map(Path::to_owned).ok());
    inside.unwrap_or(absolute).to_str().unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn commands_become_calls() {
        let calls = [
            "rename a b",
            "rename a b --in src/x.py:3",
            "rename x.py:3:5 b",
            "refs A.b",
            "def c::d",
            "callers f --in x.py",
            "symbols widget",
            "move a.py b.py",
            "check",
            "check a.py b.py",
            "fmt a.py",
        ]
        .map(|line| {
            let words = ["pilcrow"].into_iter().chain(line.split(' ')).chain(["-C", "dir"]);
            let Command::Tooling(command) = Cli::parse_from(words).command else { panic!("{line}") };
            call(command).0.to_string()
        });
        expect_test::expect![[r#"
            {"action":"rename","symbol":"a","new_name":"b"}
            {"action":"rename","symbol":"a","file":"src/x.py","line":3,"new_name":"b"}
            {"action":"rename","file":"x.py","line":3,"column":5,"new_name":"b"}
            {"action":"references","symbol":"A.b"}
            {"action":"definition","symbol":"c::d"}
            {"action":"callers","symbol":"f","file":"x.py"}
            {"action":"symbols","query":"widget"}
            {"action":"rename_file","file":"a.py","to":"b.py"}
            {"action":"diagnostics"}
            {"action":"diagnostics","files":["a.py","b.py"]}
            {"action":"format","files":["a.py"]}"#]]
        .assert_eq(&calls.join("\n"));
    }
}
