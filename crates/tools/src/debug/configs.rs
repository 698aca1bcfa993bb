//! Launch configurations in `.vscode/launch.json`.
//!
//! The file may have comments and trailing commas. Pilcrow reports a `preLaunchTask` and does not run it. It
//! refuses variables that only an editor can resolve (`${command:…}`, `${input:…}`).

use std::path::PathBuf;
use std::sync::Arc;

use adapters::DebuggerDefinition;
use agent::ToolResult;
use dap_client::{Breakpoints, LaunchPlan, LaunchSpec, Session, Target};
use paths::AbsPath;
use policy::{Decision, ErrorCode};
use serde_json::{Map, Value, json};
use shell::CommandLine;

use super::actions::LaunchArguments;
use super::{Answer, Cx, Debug};
use crate::{Failure, ToolContext};

const FILE: &str = ".vscode/launch.json";
/// Keys that are for the editor, or that the adapter's template replaces.
const EDITORS: &[&str] = &[
    "name",
    "type",
    "preLaunchTask",
    "postDebugTask",
    "presentation",
    "internalConsoleOptions",
    "serverReadyAction",
    "env",
    "envFile",
];

/// The configurations and compounds of the file.
#[derive(Debug, Default)]
struct Configs {
    configurations: Vec<Value>,
    compounds: Vec<Compound>,
}

/// Configurations that start together.
#[derive(Debug)]
struct Compound {
    name: String,
    of: Vec<String>,
    task: Option<String>,
}

impl Debug {
    /// Lists configurations and adapters.
    pub(super) async fn configs(&self, args: &LaunchArguments, cx: Cx<'_>) -> Answer {
        let configs = read(&self.context)?.unwrap_or_default();
        let mut text = String::new();
        let mut list = Vec::new();
        for it in &configs.configurations {
            let word = |name: &str| it[name].as_str().unwrap_or("?");
            let adapter = self.adapter(it);
            let with = adapter.map_or("no adapter".to_owned(), |it| it.name.clone());
            let mut line = format!("{}: {} {} ({with})", word("name"), word("request"), word("type"));
            line.extend(task(it).map(|task| format!("; run the task `{task}` first")));
            let lacks = self.lacks(it, args, cx).await;
            line.extend(lacks.iter().map(|lacks| format!("; {lacks}")));
            text.push_str(&format!("{line}\n"));
            list.push(json!({ "name": it["name"], "type": it["type"], "request": it["request"],
                "pre_launch_task": task(it), "lacks": lacks }));
        }
        for Compound { name, of, task } in &configs.compounds {
            let task = task.as_ref().map(|it| format!("; run the task `{it}` first"));
            let task = task.unwrap_or_default();
            text.push_str(&format!("{name}: together {}{task}\n", of.join(", ")));
            list.push(json!({ "name": name, "configurations": of }));
        }
        if list.is_empty() {
            text.push_str(&format!("no configurations in {FILE}; `launch` takes a `program` or `module`\n"));
        }
        text.push_str("adapters:\n");
        for it in self.context.debug.definitions().list() {
            let tried = if it.verified.is_some() { "" } else { " (untested)" };
            text.push_str(&format!("  {}: {}{tried}\n", it.name, it.about));
        }
        Ok(ToolResult::text(text).with_details(json!({ "configs": list })))
    }

    /// Explains why a configuration cannot be started.
    async fn lacks(&self, config: &Value, args: &LaunchArguments, cx: Cx<'_>) -> Option<String> {
        let plan = match self.config_plan(config, args, cx, &mut String::new()).await {
            Ok((plan, _)) => plan,
            Err(failure) => return Some(failure.message),
        };
        let program = &plan.program?.program;
        let missing = program.is_absolute() && !program.exists();
        missing.then(|| format!("its program {} does not exist", program.display()))
    }

    fn adapter(&self, config: &Value) -> Option<Arc<DebuggerDefinition>> {
        let definitions = self.context.debug.definitions();
        definitions.of_type(config["type"].as_str()?).cloned()
    }

    /// Starts a configuration, or all of a compound.
    pub(super) async fn launch_config(&self, args: &LaunchArguments, cx: Cx<'_>) -> Answer {
        let name = args.config.as_deref().unwrap_or_default();
        let configs = read(&self.context)?.unwrap_or_default();
        let compound = configs.compounds.iter().find(|it| it.name == name);
        let names = compound.map_or_else(|| vec![name.to_owned()], |it| it.of.clone());
        let mut notes = String::new();
        if let Some(task) = compound.and_then(|it| it.task.as_ref()) {
            notes.push_str(&format!("{name} has the preLaunchTask `{task}`, which was not run\n"));
        }
        let mut chosen = Vec::new();
        for name in &names {
            chosen.push(configs.named(name)?);
        }
        let mut last: Option<Arc<Session>> = None;
        // Start nothing unless all exist.
        for config in chosen {
            if let Some(before) = last.take() {
                notes.push_str(&format!("{}: {} is {}\n", before.id, before.title, before.state().name()));
            }
            let (plan, overrides) = self.config_plan(config, args, cx, &mut notes).await?;
            last = Some(self.begin(&plan, overrides, cx).await?);
        }
        let session = last.ok_or_else(|| {
            Failure::new(ErrorCode::NotFound, format!("the compound `{name}` names no configurations"))
        })?;
        Ok(super::advanced::prepend(&notes, self.snapshot(&session, cx).await?))
    }

    /// Plans the named configuration for `probe`, which needs a single launch.
    pub(super) async fn one_config(
        &self,
        name: &str,
        args: &LaunchArguments,
        cx: Cx<'_>,
        notes: &mut String,
    ) -> Result<(LaunchPlan, Option<Value>), Failure> {
        let configs = read(&self.context)?.unwrap_or_default();
        let refuse = |why: String| Err(Failure::invalid(format!("`probe` runs one program once: {why}")));
        if let Some(compound) = configs.compounds.iter().find(|it| it.name == name) {
            return refuse(format!("`{name}` starts several; name one of {}", compound.of.join(", ")));
        }
        let config = configs.named(name)?;
        if config["request"] == "attach" {
            return refuse(format!("`{name}` attaches to one; name a configuration that launches"));
        }
        self.config_plan(config, args, cx, notes).await
    }

    /// Plans a configuration merged with the arguments of the call.
    ///
    /// Notes that its task was not run. Also returns the overrides that the user has to permit: the whole
    /// configuration of an `attach`, else the `arguments` of the call.
    async fn config_plan(
        &self,
        config: &Value,
        args: &LaunchArguments,
        cx: Cx<'_>,
        notes: &mut String,
    ) -> Result<(LaunchPlan, Option<Value>), Failure> {
        if let Some(task) = task(config) {
            let name = config["name"].as_str().unwrap_or_default();
            notes.push_str(&format!("{name} has the preLaunchTask `{task}`, which was not run\n"));
        }
        let mut config = expand(&self.context, config, args)?;
        let given_overrides = super::launch::json_text(args.arguments.as_deref())?;
        apply_arguments(&self.context, &mut config, args, given_overrides.as_ref())?;
        let kind = config["type"].as_str().unwrap_or_default().to_owned();
        let kind = kind.as_str();
        let adapter = match &args.adapter {
            Some(name) => Some(name.clone()),
            None => self.adapter(&config).map(|it| it.name.clone()),
        };
        let adapter = adapter.ok_or_else(|| {
            let message = format!("no debug adapter is known for the type `{kind}`; name one by `adapter`");
            Failure::new(ErrorCode::Unsupported, message)
        })?;
        if !config["cargo"].is_null() && config["program"].is_null() {
            let message =
                "`cargo` configurations are not supported: build the program and give its path as `program`";
            return Err(Failure::new(ErrorCode::Unsupported, message.to_owned()));
        }
        // Adapters expect numbers.
        for pointer in ["/port", "/connect/port", "/processId", "/pid"] {
            if let Some(value) = config.pointer_mut(pointer) {
                *value = number(value).map_or_else(|| value.clone(), |it| json!(it));
            }
        }
        if config["mode"] == "auto" {
            self.decide_mode(&mut config, &adapter, args.file.as_deref());
        }
        let config = config;
        let root = self.context.workspace.root().clone();
        let text = |name: &str| config[name].as_str().map(str::to_owned);
        let attaches = config["request"] == "attach";
        let runtime = text("runtimeExecutable").filter(|_| config["program"].is_null());
        let target = self.config_target(&config, runtime.is_some())?;
        let mut breakpoints = Breakpoints::default();
        self.add(&mut breakpoints, &args.points)?;
        let cwd = text("cwd").map(|cwd| self.context.workspace.resolve(&cwd)).transpose()?;
        let cwd = cwd.unwrap_or_else(|| root.clone());
        let env = self.config_env(&config, args, cx, notes)?;
        let mut overrides = config.clone();
        if let Some(overrides) = overrides.as_object_mut() {
            EDITORS.iter().for_each(|name| drop(overrides.remove(*name)));
        }
        let spec = LaunchSpec {
            target,
            adapter: Some(adapter),
            root,
            args: list(&config["args"]),
            cwd: cwd.clone(),
            env: env.clone(),
            stop_on_entry: config["stopOnEntry"] == true || args.stop_on_entry,
            stdin: self.stdin(args)?,
            breakpoints,
            arguments: Some(overrides.clone()),
            test: None,
            more: Map::new(),
        };
        let mut plan = self.plan(spec).await?;
        plan.title = text("name").unwrap_or(plan.title);
        if let Some(arguments) = plan.arguments.as_object_mut() {
            // Output in a terminal is reported from there; redirection would duplicate it.
            let terminal =
                matches!(config["console"].as_str(), Some("integratedTerminal" | "externalTerminal"));
            if terminal && arguments.contains_key("redirectOutput") && config["redirectOutput"].is_null() {
                arguments.insert("redirectOutput".to_owned(), json!(false));
            }
            if let Some(program) = &runtime {
                arguments.remove("program");
                let mut words = list(&config["runtimeArgs"]);
                words.extend(list(&config["args"]));
                plan.program = Some(CommandLine {
                    program: PathBuf::from(program),
                    args: words,
                    env: env.clone(),
                    cwd: cwd.clone(),
                });
            }
        }
        // These keys can start other programs, so the user has to see them.
        for name in ["python", "runtimeExecutable", "runtimeArgs", "initCommands", "preRunCommands"] {
            if let (Some(program), false) = (&mut plan.program, config[name].is_null()) {
                program.env.push((name.to_owned(), config[name].to_string()));
            }
        }
        if plan.program.is_none() && !attaches {
            plan.program = Some(CommandLine { program: PathBuf::from(kind), args: Vec::new(), env, cwd });
        }
        Ok((plan, if attaches { Some(overrides) } else { given_overrides }))
    }

    /// Determines the target of a configuration.
    ///
    /// `by_runtime`: `runtimeExecutable` names the program.
    fn config_target(&self, config: &Value, by_runtime: bool) -> Result<Target, Failure> {
        let text = |name: &str| config[name].as_str().map(str::to_owned);
        let attaches = config["request"] == "attach";
        let connect = &config["connect"];
        let port = config["port"].as_u64().or(connect["port"].as_u64()).and_then(|it| u16::try_from(it).ok());
        let pid = config["processId"].as_i64().or(config["pid"].as_i64());
        Ok(match (text("program"), text("module"), pid, port) {
            (_, _, Some(pid), _) if attaches => Target::Process(pid),
            (_, _, _, Some(port)) if attaches => {
                let host = connect["host"].as_str().map(str::to_owned).or(text("host"));
                Target::Port { host: host.unwrap_or_else(|| "127.0.0.1".to_owned()), port }
            }
            (Some(program), ..) => Target::Program(self.context.workspace.resolve(&program)?),
            (_, Some(module), ..) => Target::Module(module),
            // `npm run …`: the plan removes the program again.
            _ if by_runtime && !attaches => Target::Program(self.context.workspace.root().clone()),
            _ => {
                let message =
                    "it has no `program`, `module`, `runtimeExecutable`, `port` or `processId`".to_owned();
                return Err(Failure::new(ErrorCode::Unsupported, message));
            }
        })
    }

    /// Merges the environment of a configuration with that of the call, which wins.
    fn config_env(
        &self,
        config: &Value,
        args: &LaunchArguments,
        cx: Cx<'_>,
        notes: &mut String,
    ) -> Result<Vec<(String, String)>, Failure> {
        let mut env = match config["envFile"].as_str() {
            Some(file) => self.env_file(file, cx)?,
            None => Vec::new(),
        };
        let (set, mut unset) = variables(config);
        let mut given: Vec<(String, String)> = args.env.clone().unwrap_or_default().into_iter().collect();
        given.sort();
        unset.retain(|name| !given.iter().any(|(known, _)| known == name));
        for layer in [set, given] {
            env.retain(|(name, _)| !layer.iter().any(|(known, _)| known == name));
            env.extend(layer);
        }
        if !unset.is_empty() {
            notes.push_str(&format!("cannot unset (null in `env`): {}\n", unset.join(", ")));
        }
        Ok(env)
    }
}

impl Configs {
    fn named(&self, name: &str) -> Result<&Value, Failure> {
        self.configurations.iter().find(|it| it["name"] == name).ok_or_else(|| {
            let known: Vec<&str> = self.configurations.iter().filter_map(|it| it["name"].as_str()).collect();
            let message =
                format!("there is no configuration `{name}` in {FILE}; it has: {}", known.join(", "));
            Failure::new(ErrorCode::NotFound, message)
        })
    }
}

/// Merges the arguments of the call into a configuration, except the environment.
fn apply_arguments(
    context: &ToolContext,
    config: &mut Value,
    args: &LaunchArguments,
    arguments: Option<&Value>,
) -> Result<(), Failure> {
    let mut overrides = Map::new();
    let mut put =
        |name: &str, value: Option<Value>| overrides.extend(value.map(|value| (name.to_owned(), value)));
    let path = |path: &Option<String>| -> Result<Option<Value>, Failure> {
        let path = path.as_ref().map(|it| context.workspace.resolve(it)).transpose()?;
        Ok(path.map(|it| json!(it.to_string())))
    };
    put("args", (!args.args.is_empty()).then(|| json!(args.args)));
    put("cwd", path(&args.cwd)?);
    put("program", path(&args.program)?);
    put("module", args.module.as_ref().map(|it| json!(it)));
    // `program` and `module` exclude each other.
    match (&args.program, &args.module) {
        (Some(_), None) => put("module", Some(Value::Null)),
        (None, Some(_)) => put("program", Some(Value::Null)),
        _ => {}
    }
    put("processId", args.pid.map(|it| json!(it)));
    for (name, value) in
        [("host", args.host.as_ref().map(|it| json!(it))), ("port", args.port.map(|it| json!(it)))]
    {
        match config["connect"].as_object_mut() {
            Some(connect) => connect.extend(value.map(|value| (name.to_owned(), value))),
            None => put(name, value),
        }
    }
    super::inspect::merge(config, Value::Object(overrides));
    if let Some(arguments) = arguments {
        adapters::merge(config, arguments.clone());
    }
    Ok(())
}

impl Debug {
    /// Resolves the mode `auto`, as an editor's extension does.
    ///
    /// A test file gets the test mode, any other file the default.
    fn decide_mode(&self, config: &mut Value, adapter: &str, file: Option<&str>) {
        let program = config["program"].as_str().map(str::to_owned);
        let is_file = program.as_deref().is_some_and(|it| it.ends_with(".go"));
        let decides = if is_file { program.as_deref() } else { file };
        let is_test = decides.is_some_and(|it| it.ends_with("_test.go"));
        let folder = program.as_deref().filter(|_| is_test).map(|program| {
            let parent = std::path::Path::new(program).parent().filter(|_| is_file);
            parent.map_or_else(|| program.to_owned(), |it| it.to_string_lossy().into_owned())
        });
        let definitions = self.context.debug.definitions();
        let tests = definitions.get(adapter).into_iter().flat_map(|it| it.tests.values());
        let mode = tests.filter_map(|it| it.launch.as_ref()?.get("mode").cloned()).next();
        let Some(members) = config.as_object_mut() else { return };
        members.remove("mode");
        if let (Some(folder), Some(mode)) = (folder, mode) {
            members.insert("program".to_owned(), json!(folder));
            members.insert("mode".to_owned(), mode);
        }
    }

    /// Reads an `envFile`: one `NAME=value` per line.
    fn env_file(&self, file: &str, cx: Cx<'_>) -> Result<Vec<(String, String)>, Failure> {
        let path = self.context.workspace.resolve(file)?;
        let verdict = cx.policy().map(|policy| policy.judge_read(&path));
        if verdict.as_ref().is_none_or(|it| it.decision != Decision::Allow) {
            let why = verdict.map(|it| format!(": {} in `policy.rules`", it.reason)).unwrap_or_default();
            let message = format!("the envFile {file} may not be read{why}; give its variables by `env`");
            return Err(Failure::new(ErrorCode::Denied, message));
        }
        Ok(in_env_file(&self.context.workspace.document(&path)?.text))
    }
}

fn in_env_file(text: &str) -> Vec<(String, String)> {
    let line = |line: &str| {
        let line = line.trim();
        let (name, value) = line.strip_prefix("export ").unwrap_or(line).split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        let quoted = ['"', '\''].iter().find_map(|it| value.strip_prefix(*it)?.strip_suffix(*it));
        (!name.is_empty() && !name.starts_with('#'))
            .then(|| (name.to_owned(), quoted.unwrap_or(value).to_owned()))
    };
    text.lines().filter_map(line).collect()
}

/// Returns the variables that a configuration sets, and those that it unsets.
fn variables(config: &Value) -> (Vec<(String, String)>, Vec<String>) {
    let (mut set, mut unset) = (Vec::new(), Vec::new());
    for (name, value) in config["env"].as_object().into_iter().flatten() {
        match value {
            Value::Null => unset.push(name.clone()),
            Value::String(value) => set.push((name.clone(), value.clone())),
            other => set.push((name.clone(), other.to_string())),
        }
    }
    (set, unset)
}

/// Reads a number, also from a string, which variables expand to.
fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// Reads the strings of a list.
fn list(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

fn task(config: &Value) -> Option<&str> {
    config["preLaunchTask"].as_str()
}

/// Reads the configurations; `None` without the file.
fn read(context: &ToolContext) -> Result<Option<Configs>, Failure> {
    let path = context.workspace.resolve(FILE)?;
    if !path.as_path().is_file() {
        return Ok(None);
    }
    parse(&context.workspace.document(&path)?.text).map(Some)
}

fn parse(text: &str) -> Result<Configs, Failure> {
    let bad = |why: String| Failure::invalid(format!("{FILE} cannot be read: {why}"));
    let options = jsonc_parser::ParseOptions::default();
    let value: Option<Value> =
        jsonc_parser::parse_to_serde_value(text, &options).map_err(|error| bad(error.to_string()))?;
    let value = value.unwrap_or_default();
    let list = |name: &str| value[name].as_array().cloned().unwrap_or_default();
    let compound = |it: &Value| {
        let names = it["configurations"].as_array()?.iter();
        // A configuration of another folder is `{folder, name}`.
        let of = names.filter_map(|it| it.as_str().or(it["name"].as_str()).map(str::to_owned)).collect();
        let task = task(it).map(str::to_owned);
        Some(Compound { name: it["name"].as_str()?.to_owned(), of, task })
    };
    Ok(Configs {
        configurations: list("configurations"),
        compounds: list("compounds").iter().filter_map(compound).collect(),
    })
}

/// Expands a configuration's variables and applies its section for this system.
fn expand(context: &ToolContext, config: &Value, args: &LaunchArguments) -> Result<Value, Failure> {
    let mut config = config.clone();
    let system = if cfg!(target_os = "macos") { "osx" } else { "linux" };
    if let Some(members) = config.as_object_mut() {
        let own = members.remove(system);
        ["osx", "linux", "windows"].iter().for_each(|it| drop(members.remove(*it)));
        members.extend(own.and_then(|it| it.as_object().cloned()).unwrap_or_default());
    }
    // Split before expansion: a value may contain spaces.
    if let Some(line) = config["args"].as_str() {
        config["args"] = json!(shlex::split(line).unwrap_or_else(|| vec![line.to_owned()]));
    }
    let root = context.workspace.root();
    let file = args.file.as_deref().map(|it| context.workspace.resolve(it)).transpose()?;
    replace(&config, &|name| variable(name, root, file.as_ref()))
}

fn replace(value: &Value, lookup: &dyn Fn(&str) -> Result<String, Failure>) -> Result<Value, Failure> {
    Ok(match value {
        Value::String(text) => {
            let mut out = String::new();
            let mut rest = text.as_str();
            while let Some((before, after)) = rest.split_once("${") {
                out.push_str(before);
                let Some((name, after)) = after.split_once('}') else {
                    out.push_str("${");
                    rest = after;
                    continue;
                };
                out.push_str(&lookup(name)?);
                rest = after;
            }
            Value::String(out + rest)
        }
        Value::Array(items) => items.iter().map(|it| replace(it, lookup)).collect::<Result<_, _>>()?,
        Value::Object(members) => {
            let members = members.iter().map(|(name, it)| Ok((name.clone(), replace(it, lookup)?)));
            Value::Object(members.collect::<Result<_, Failure>>()?)
        }
        other => other.clone(),
    })
}

/// Expands a variable of VS Code.
fn variable(name: &str, root: &AbsPath, file: Option<&AbsPath>) -> Result<String, Failure> {
    let refuse = |why: &str| Failure::invalid(format!("`${{{name}}}` in {FILE} {why}"));
    if let Some(name) = name.strip_prefix("env:") {
        return Ok(std::env::var(name).unwrap_or_default());
    }
    let file = || file.ok_or_else(|| refuse("needs `file`"));
    let folder = || Ok::<_, Failure>(file()?.parent().unwrap_or_else(|| root.clone()));
    let text = |it: Option<&std::ffi::OsStr>| it.unwrap_or_default().to_string_lossy().into_owned();
    let relative =
        |it: &AbsPath| it.strip_prefix(root).map_or_else(|| it.to_string(), |it| it.display().to_string());
    Ok(match name.split(':').next().unwrap_or_default() {
        "workspaceFolder" | "workspaceRoot" | "cwd" => root.to_string(),
        "workspaceFolderBasename" => root.file_name(),
        "pathSeparator" | "/" => "/".to_owned(),
        "userHome" => std::env::var("HOME").unwrap_or_default(),
        "file" => file()?.to_string(),
        "relativeFile" => relative(file()?),
        "relativeFileDirname" => relative(&folder()?),
        "fileBasename" => file()?.file_name(),
        "fileBasenameNoExtension" => text(file()?.as_path().file_stem()),
        "fileExtname" => {
            file()?.as_path().extension().map(|it| format!(".{}", text(Some(it)))).unwrap_or_default()
        }
        "fileDirname" => folder()?.to_string(),
        "fileDirnameBasename" => folder()?.file_name(),
        "fileWorkspaceFolder" => file().map(|_| root.to_string())?,
        _ => return Err(refuse("is known only to an editor; use `launch` with `arguments` instead")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{
        // A comment.
        "version": "0.2.0",
        "configurations": [
            { "name": "this", "type": "debugpy", "request": "launch", "program": "${file}", /* another */
              "args": ["--in", "${workspaceFolder}/data", "${relativeFile}"], "preLaunchTask": "build", },
        ],
        "compounds": [{ "name": "both", "preLaunchTask": "all", "configurations": ["this", { "folder": "x", "name": "that" }] }],
    }"#;

    #[test]
    fn comments_trailing_commas_and_compounds_are_read() {
        let configs = parse(TEXT).unwrap();
        assert_eq!(configs.configurations[0]["name"], "this");
        assert_eq!(task(&configs.configurations[0]), Some("build"));
        let both = &configs.compounds[0];
        assert_eq!((both.name.as_str(), both.task.as_deref()), ("both", Some("all")));
        assert_eq!(both.of, ["this", "that"]);
        assert!(parse("{ nonsense").unwrap_err().message.starts_with(".vscode/launch.json cannot be read"));
    }

    #[test]
    fn variables_of_all_types_are_set() {
        let config = json!({"env": {"N": 3, "B": true, "T": "t", "GONE": null}});
        let (set, unset) = super::variables(&config);
        let set: Vec<String> = set.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(set, ["N=3", "B=true", "T=t"]);
        assert_eq!(unset, ["GONE"]);
        let read = in_env_file("# c\nA=1\nexport B = \"x y\"\n\nnonsense\nC='z'\n=q\n");
        let read: Vec<String> = read.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(read, ["A=1", "B=x y", "C=z"]);
    }

    #[test]
    fn a_number_may_be_a_text() {
        let numbers = [json!(5678), json!(" 5678 "), json!("x"), json!(null)].map(|it| number(&it));
        assert_eq!(numbers, [Some(5678), Some(5678), None, None]);
    }

    #[test]
    fn variables_are_expanded_and_editor_variables_refused() {
        let (root, file) = (AbsPath::new("/p").unwrap(), AbsPath::new("/p/src/a.py"));
        let lookup = |name: &str| variable(name, &root, file.as_ref());
        let configs = parse(TEXT).unwrap();
        let expanded = replace(&configs.configurations[0], &lookup).unwrap();
        assert_eq!(expanded["program"], "/p/src/a.py");
        assert_eq!(expanded["args"], json!(["--in", "/p/data", "src/a.py"]));
        let one = |text: &str| replace(&json!(text), &lookup).map(|it| it.as_str().unwrap().to_owned());
        assert_eq!(one("${fileDirname}:${fileBasenameNoExtension}${fileExtname}").unwrap(), "/p/src:a.py");
        assert_eq!(one("${env:NOTHING_OF_THE_KIND}x ${open").unwrap(), "x ${open");
        expect_test::expect!["`${command:pick}` in .vscode/launch.json is known only to an editor; use `launch` with `arguments` instead"].assert_eq(&one("${command:pick}").unwrap_err().message);
        assert!(variable("file", &root, None).unwrap_err().message.contains("needs `file`"));
    }
}
