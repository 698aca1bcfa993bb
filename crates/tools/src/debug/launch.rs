//! Starting sessions and setting breakpoints: what is asked of the person before a program runs.

use agent::{ToolCx, ToolResult};
use dap_client::{Breakpoints, Clock, LaunchSpec, Session, SourceBreakpoint, Target};
use serde_json::{Value, json};
use workspace::{ErrorCode, SpawnRequest};

use super::harmless::is_harmless;
use super::{Arguments, Debug, Point, needs};
use crate::{Failure, Kit};

impl Debug {
    /// Starts a session, and shows where it came to.
    pub(super) async fn launch(
        &self,
        args: &Arguments,
        cx: &ToolCx,
        clock: &Clock,
    ) -> Result<ToolResult, Failure> {
        let kit = &self.kit;
        let root = kit.workspace.root().clone();
        let target = target(kit, args)?;
        let mut breakpoints = Breakpoints::default();
        self.add(&mut breakpoints, args, cx).await?;
        let over = args.arguments.as_deref().filter(|it| !it.trim().is_empty());
        let over: Option<Value> = over.map(serde_json::from_str).transpose().map_err(|error| {
            Failure::new(ErrorCode::InvalidArguments, format!("`arguments` is not JSON: {error}"))
        })?;
        let cwd = args.cwd.as_deref().map(|cwd| kit.workspace.resolve(cwd)).transpose()?;
        let mut env: Vec<(String, String)> = args.env.clone().unwrap_or_default().into_iter().collect();
        env.sort();
        let spec = LaunchSpec {
            target,
            adapter: args.adapter.clone(),
            cwd: cwd.unwrap_or_else(|| root.clone()),
            root,
            args: args.args.clone(),
            env,
            stop_on_entry: args.stop_on_entry,
            breakpoints,
            arguments: over.clone(),
        };
        let debug = kit.debug.clone();
        let plan = tokio::task::spawn_blocking(move || debug.plan(&spec)).await;
        let plan = plan.map_err(|error| Failure::new(ErrorCode::Internal, error.to_string()))??;
        let grant = cx
            .grant_spawn(&SpawnRequest {
                definition: plan.adapter.name.clone(),
                command: plan.command.clone(),
                root: plan.root.clone(),
                from_project: plan.adapter.from_project,
            })
            .await?;
        match &plan.program {
            // What is laid over may name another program: it is asked about as it is.
            Some(program) => {
                let mut program = program.clone();
                program.env.extend(over.map(|over| ("arguments".to_owned(), over.to_string())));
                cx.permit_run(&plan.adapter.name, &program).await?;
            }
            None => cx.permit_debug(&format!("attach to {}", plan.title)).await?,
        }
        let session = kit.debug.start(&plan, &grant, clock).await?;
        session.started_by(cx.run.clone());
        self.snapshot(&session, cx, clock).await
    }

    /// Lists, adds or removes breakpoints.
    pub(super) async fn breakpoints(
        &self,
        session: &Session,
        args: &Arguments,
        cx: &ToolCx,
        clock: &Clock,
    ) -> Result<ToolResult, Failure> {
        let path = args.file.as_deref().map(|file| self.kit.workspace.resolve(file)).transpose()?;
        let mut removed = 0;
        if args.remove {
            let change = |all: &mut Breakpoints| {
                let paths = path.clone().map_or_else(|| all.paths(), |path| vec![path]);
                removed = paths.iter().map(|path| all.remove(path, args.line)).sum();
            };
            session.change_breakpoints(change, clock).await?;
        } else {
            let mut added = Breakpoints::default();
            self.add(&mut added, args, cx).await?;
            let change = |all: &mut Breakpoints| {
                added.list().for_each(|(it, _)| all.add(it.clone()));
                added.functions().iter().for_each(|(it, _)| all.add_function(&it.name));
                all.exceptions = added.exceptions.clone().or(all.exceptions.take());
            };
            session.change_breakpoints(change, clock).await?;
        }
        let (mut text, list) = listed(&self.kit, &session.breakpoints());
        if args.remove {
            text = format!("removed {removed}\n{text}");
        }
        Ok(ToolResult::text(text).with_details(json!({ "breakpoints": list, "removed": removed })))
    }

    /// What the arguments name, after the person was asked about what does more than look.
    async fn add(&self, all: &mut Breakpoints, args: &Arguments, cx: &ToolCx) -> Result<(), Failure> {
        for Point { file, line, column, condition, hit, log } in args.breakpoints.clone() {
            for code in condition.iter().chain(expressions(log.as_deref().unwrap_or_default()).iter()) {
                if !is_harmless(code) {
                    cx.permit_debug(&format!("evaluate `{code}` at each pass of {file}:{line}")).await?;
                }
            }
            let path = self.kit.workspace.resolve(&file)?;
            all.add(SourceBreakpoint { path, line, column, condition, hit, log });
        }
        args.functions.iter().for_each(|name| all.add_function(name));
        all.exceptions = args.exceptions.clone();
        Ok(())
    }
}

fn target(kit: &Kit, args: &Arguments) -> Result<Target, Failure> {
    let launches = args.action == "launch";
    match (&args.program, &args.module, args.pid, args.port) {
        (Some(program), None, None, None) if launches => {
            let path = kit.workspace.resolve(program)?;
            if !path.as_path().is_file() {
                return Err(Failure::new(ErrorCode::NotFound, format!("there is no file {program} to run")));
            }
            Ok(Target::Program(path))
        }
        (None, Some(module), None, None) if launches => Ok(Target::Module(module.clone())),
        (None, None, Some(pid), None) if !launches => Ok(Target::Process(pid)),
        (None, None, None, Some(port)) if !launches => {
            let host = args.host.clone().unwrap_or_else(|| "127.0.0.1".to_owned());
            Ok(Target::Port { host, port })
        }
        _ if launches => Err(needs("launch", "program` or `module")),
        _ => Err(needs("attach", "pid` or `port")),
    }
}

/// What stands in braces in a log message.
fn expressions(log: &str) -> Vec<String> {
    log.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(it, _)| it.to_owned()).collect()
}

fn listed(kit: &Kit, all: &Breakpoints) -> (String, Vec<Value>) {
    let mut text = String::new();
    let mut list = Vec::new();
    for (it, placed) in all.list() {
        let at = placed.line.unwrap_or(it.line);
        let mut line = format!("{}:{at}", kit.shown(&it.path));
        let more = [("if", &it.condition), ("hit", &it.hit), ("log", &it.log)];
        more.iter().for_each(|(word, it)| line.extend(it.iter().map(|it| format!(" {word} {it}"))));
        if !placed.verified {
            let why = placed.message.as_deref().unwrap_or("until its code is loaded");
            line.push_str(&format!(" (not in place: {why})"));
        }
        text.push_str(&format!("{line}\n"));
        list.push(json!({ "file": kit.shown(&it.path), "line": at, "verified": placed.verified }));
    }
    for (it, placed) in all.functions() {
        let mark = if placed.verified { "" } else { " (not in place)" };
        text.push_str(&format!("function {}{mark}\n", it.name));
        list.push(json!({ "function": it.name, "verified": placed.verified }));
    }
    if text.is_empty() {
        text = "no breakpoints\n".to_owned();
    }
    (text, list)
}
