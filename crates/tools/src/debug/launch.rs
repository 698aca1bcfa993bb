//! Start of sessions and breakpoints, with the permissions they need.

use std::sync::Arc;

use adapters::{DebuggerDefinition, Definition};
use agent::ToolResult;
use agent::tool::GrantRequester;
use dap_client::{
    Breakpoints, Clock, ExceptionFilter, Frame, FunctionBreakpoint, LaunchPlan, LaunchSpec, Session,
    SourceBreakpoint, SpawnApprover, State, Target,
};
use futures_util::future::BoxFuture;
use paths::AbsPath;
use policy::{Confinement, ErrorCode, ProgramFiles, SpawnGrant, SpawnRequest, Subject};
use process::{HostGate, SandboxLevel};
use serde_json::{Value, json};
use shell::CommandLine;
use tokio_util::sync::CancellationToken;

use super::actions::{BreakpointArguments, LaunchArguments, LineArgument, PointArguments};
use super::side_effects::{expressions, is_count, is_side_effect_free};
use super::{Answer, Cx, Debug, needs};
use crate::bash::{self, CommandHosts};
use crate::{Failure, ToolContext};

/// Maximum number of stops between the entry of a program and its own code.
const MAX_ENTRY_STOPS: usize = 4;

impl Debug {
    /// Starts a session and renders its first stop.
    pub(super) async fn launch(&self, args: &LaunchArguments, attaches: bool, cx: Cx<'_>) -> Answer {
        Self::refuse_stop_arguments(if attaches { "attach" } else { "launch" }, args, false)?;
        if args.config.is_some() {
            return self.launch_config(args, cx).await;
        }
        let spec = self.spec(args, attaches)?;
        let plan = self.plan(spec).await?;
        let session = self.begin(&plan, json_text(args.arguments.as_deref())?, cx).await?;
        // Without a breakpoint, nothing stops a program that runs already.
        let waits = !attaches || plan.breakpoints.count() > 0;
        let soon = Clock::new(super::SHORT_WAIT, &cx.cancel);
        self.snapshot(&session, Cx { clock: if waits { cx.clock } else { &soon }, ..cx }).await
    }

    /// Runs from an adapter's stop on entry to the first frame that has a source.
    ///
    /// Does nothing if `entry` is `None`. Removes the functions that serve this alone.
    pub(super) async fn run_to_own_code(
        &self,
        session: &Arc<Session>,
        entry: Option<&[String]>,
        clock: &Clock,
    ) -> Result<(), Failure> {
        let Some(entry) = entry else { return Ok(()) };
        let by_step = session.adapter.quirks.entry_step;
        for _ in 0..MAX_ENTRY_STOPS {
            let State::Stopped(stop) = session.wait_for_stop(clock).await? else { break };
            let frames = session.stack(stop.thread, 0, 1, clock).await.unwrap_or_default().0;
            let has_source = |it: &Frame| it.path.as_ref().is_some_and(|it| it.as_path().is_file());
            let breakpoints = session.breakpoints();
            let is_set = breakpoints.functions().iter().any(|(it, placed)| {
                placed.was_verified && session.adapter.quirks.entry_functions.contains(&it.name)
            });
            if frames.first().is_some_and(has_source) || !(is_set || by_step) {
                break;
            }
            session.run(if by_step { "stepIn" } else { "continue" }, stop.thread, clock).await?;
        }
        if !entry.is_empty() && !matches!(session.state(), State::Terminated(_)) {
            let remove = |all: &mut Breakpoints| entry.iter().for_each(|it| all.remove_function(it));
            self.context.debug.change_breakpoints(session, remove, clock).await?;
        }
        Ok(())
    }

    /// Refuses kinds of breakpoints that refer to a stopped program.
    ///
    /// A `name` may be that of a test instead.
    pub(super) fn refuse_stop_arguments(
        action: &str,
        args: &LaunchArguments,
        is_test: bool,
    ) -> Result<(), Failure> {
        let name = if is_test { &None } else { &args.name };
        let given =
            [("memory_reference", &args.memory_reference), ("data_id", &args.data_id), ("name", name)];
        let Some((given, _)) = given.iter().find(|(_, it)| it.is_some()) else { return Ok(()) };
        let message = format!(
            "`{action}` takes no `{given}`, which refers to a stopped program;\nstop it first by \
             `breakpoints` or `stop_on_entry`, then use the action `breakpoints` with `{given}`"
        );
        Err(Failure::invalid(message))
    }

    /// Resolves the arguments to a launch specification.
    pub(super) fn spec(&self, args: &LaunchArguments, attaches: bool) -> Result<LaunchSpec, Failure> {
        let context = &self.context;
        let root = context.workspace.root().clone();
        let target = target(context, args, attaches)?;
        let mut breakpoints = Breakpoints::default();
        self.add(&mut breakpoints, &args.points)?;
        let cwd = args.cwd.as_deref().map(|cwd| context.workspace.resolve(cwd)).transpose()?;
        let mut env: Vec<(String, String)> = args.env.clone().unwrap_or_default().into_iter().collect();
        env.sort();
        Ok(LaunchSpec {
            target,
            adapter: args.adapter.clone(),
            cwd: cwd.unwrap_or_else(|| root.clone()),
            root,
            args: args.args.clone(),
            env,
            stop_on_entry: args.stop_on_entry,
            stdin: self.stdin(args)?,
            breakpoints,
            arguments: json_text(args.arguments.as_deref())?,
            test: None,
            more: serde_json::Map::new(),
        })
    }

    /// Resolves the file that is the program's standard input.
    pub(super) fn stdin(&self, args: &LaunchArguments) -> Result<Option<AbsPath>, Failure> {
        let Some(name) = &args.stdin else { return Ok(None) };
        let path = self.context.workspace.resolve(name)?;
        if !path.as_path().exists() {
            let message = format!("there is no file {name} for `stdin`; write its input to a file first");
            return Err(Failure::new(ErrorCode::NotFound, message));
        }
        Ok(Some(path))
    }

    /// Plans a launch from its specification.
    pub(super) async fn plan(&self, spec: LaunchSpec) -> Result<LaunchPlan, Failure> {
        let debug = self.context.debug.clone();
        let plan = tokio::task::spawn_blocking(move || debug.plan(&spec)).await;
        Ok(plan.map_err(|error| Failure::new(ErrorCode::Internal, error.to_string()))??)
    }

    /// Starts a planned session after its breakpoints and its program are permitted.
    pub(super) async fn begin(
        &self,
        plan: &LaunchPlan,
        overrides: Option<Value>,
        cx: Cx<'_>,
    ) -> Result<Arc<Session>, Failure> {
        permit_breakpoints(&self.context, &plan.breakpoints, &plan.adapter, cx).await?;
        self.begin_permitted(plan, overrides, cx).await
    }

    /// Begins a session as `begin` does, with breakpoints already permitted.
    pub(super) async fn begin_permitted(
        &self,
        plan: &LaunchPlan,
        overrides: Option<Value>,
        cx: Cx<'_>,
    ) -> Result<Arc<Session>, Failure> {
        let adapter = &plan.adapter;
        let subject = || Subject::new(DebuggerDefinition::DIRECTORY, &adapter.name, adapter.source());
        let confinement = match plan.program {
            Some(_) => self.confinement(cx).await,
            None => Confinement::Waived,
        };
        // Limited to what a command may do.
        let files = || ProgramFiles {
            project: vec![self.context.workspace.root().clone()],
            unix_sockets: adapter.quirks.unix_sockets,
            ..ProgramFiles::default()
        };
        let grant = cx
            .grant_spawn(&SpawnRequest {
                definition: adapter.name.clone(),
                command: plan.command.clone(),
                root: plan.root.clone(),
                subject: adapter.from_project.then(subject),
                changes: (confinement == Confinement::Sandbox).then(files),
                is_command: plan.program.is_some(),
            })
            .await?;
        match &plan.program {
            // The overriding arguments may name another program, so they are part of the question.
            Some(program) => {
                let mut program = program.clone();
                program
                    .env
                    .extend(overrides.map(|overrides| ("arguments".to_owned(), overrides.to_string())));
                cx.permit_run(&plan.adapter.name, &program, confinement).await?;
            }
            None => {
                let with = overrides.map(|overrides| format!(" with {overrides}")).unwrap_or_default();
                cx.permit_attach(&format!("attach to {}{with}", plan.title)).await?;
            }
        }
        let grants = SessionGrants::new(&plan.adapter.name, cx, confinement);
        let session = self.context.debug.start_with(plan, &grant, grants.clone(), cx.clock).await?;
        self.remember_hosts(&session, &grants);
        session.started_by(cx.starter.clone());
        self.run_to_own_code(&session, plan.entry.as_deref(), cx.clock).await?;
        Ok(session)
    }

    /// Whether a launched program runs in the sandbox, with its adapter.
    async fn confinement(&self, cx: Cx<'_>) -> Confinement {
        match bash::sandbox_status(&self.context.shell, true, &cx).await {
            // Adapters and programs talk over the network of the sandbox.
            Some(status) if !status.has_network() => Confinement::Unavailable,
            status => bash::confinement(status.as_ref()),
        }
    }

    /// Keeps the hosts of a session for its snapshots.
    pub(super) fn remember_hosts(&self, session: &Session, grants: &SessionGrants) {
        let live: Vec<String> = self.context.debug.list().iter().map(|it| it.id.clone()).collect();
        let mut hosts = self.hosts.lock();
        hosts.retain(|id, _| live.contains(id));
        hosts.insert(session.id.clone(), Arc::clone(&grants.hosts));
    }

    /// Lists accesses that the sandbox denied since the last call.
    ///
    /// It finds denied files in `output`.
    pub(super) async fn denied(&self, session: &Arc<Session>, output: &str) -> Result<Vec<String>, Failure> {
        let Some(profile) = session.grant().and_then(SpawnGrant::sandbox).cloned() else {
            return Ok(Vec::new());
        };
        let (output, cwd) = (output.to_owned(), session.program_directory().clone());
        let has_mounts = self.context.shell.processes.sandbox().await.level == SandboxLevel::Bwrap;
        let find = move || bash::find_denials(&output, &cwd, &profile, has_mounts);
        let found = tokio::task::spawn_blocking(find).await;
        let mut denied = found.map_err(|error| Failure::new(ErrorCode::Internal, error.to_string()))?;
        let root = self.context.debug.root_of(session);
        denied.extend(self.hosts.lock().get(&root.id).iter().flat_map(|hosts| hosts.denied()));
        Ok(denied)
    }

    /// Lists, adds or removes breakpoints.
    pub(super) async fn breakpoints(
        &self,
        session: &Arc<Session>,
        args: &BreakpointArguments,
        cx: Cx<'_>,
    ) -> Answer {
        let mut removed = 0;
        if args.remove {
            let before = session.breakpoints().count();
            let named = self.selection(session, args)?;
            let change = |all: &mut Breakpoints| named.remove(all);
            self.context.debug.change_breakpoints(session, change, cx.clock).await?;
            removed = before - session.breakpoints().count() + named.removed_filters;
        } else {
            let mut added = Breakpoints::default();
            self.add(&mut added, &args.points)?;
            if let (Some(file), Some(line)) = (&args.file, args.line) {
                let (condition, hit, log) =
                    (args.points.condition.clone(), args.points.hit.clone(), args.log.clone());
                let path = self.context.workspace.resolve(file)?;
                check_line(&self.context, &path, line)?;
                check_hit(hit.as_deref())?;
                added.add(SourceBreakpoint { path, line, column: None, condition, hit, log });
            } else if args.log.is_some() {
                return Err(needs("breakpoints", "file` and `line` beside `log"));
            }
            added.stop_at_panics(&session.adapter.quirks.panic_functions);
            permit_breakpoints(&self.context, &added, &session.adapter, cx).await?;
            // Filters are added to those in force; one that is named again replaces its condition.
            let name = |it: &String| ExceptionFilter::read(it).name.to_owned();
            let new = added.exceptions.clone().unwrap_or_default();
            let mut filters = exceptions_in_force(session);
            filters.retain(|it| !new.iter().any(|new| name(new) == name(it)));
            filters.extend(new);
            let change = |all: &mut Breakpoints| {
                added.list().for_each(|(it, _)| all.add(it.clone()));
                added.functions().iter().for_each(|(it, _)| all.add_function_point(it.clone()));
                if added.exceptions.is_some() {
                    all.exceptions = Some(filters.clone());
                }
            };
            self.context.debug.change_breakpoints(session, change, cx.clock).await?;
            self.add_special(session, args, cx).await?;
        }
        let (mut text, list) = render_breakpoints(&self.context, &session.breakpoints());
        let chosen = session.breakpoints().exceptions.is_some();
        let filters = exceptions_in_force(session);
        if !filters.is_empty() {
            let origin = if chosen { "" } else { " (default)" };
            text.push_str(&format!("exceptions {}{origin}\n", filters.join(", ")));
        }
        if args.remove {
            text = format!("removed {removed}\n{text}");
        }
        Ok(ToolResult::text(text)
            .with_details(json!({ "breakpoints": list, "exceptions": filters, "removed": removed })))
    }

    /// Selects the breakpoints that `remove` names; all if it names none.
    fn selection(&self, session: &Session, args: &BreakpointArguments) -> Result<Selection, Failure> {
        let resolve = |file: &str| self.context.workspace.resolve(file);
        let mut named = Selection {
            functions: args
                .points
                .functions
                .iter()
                .map(|it| dap_client::conditional(it).0.to_owned())
                .collect(),
            data: args.name.iter().chain(&args.data_id).cloned().collect(),
            instruction: args.memory_reference.clone().map(|it| (it, args.offset.unwrap_or(0))),
            ..Selection::default()
        };
        for it in &args.points.breakpoints {
            named.places.push((Some(resolve(&it.file)?), Some(it.line)));
        }
        if args.file.is_some() || args.line.is_some() {
            named.places.push((args.file.as_deref().map(resolve).transpose()?, args.line));
        }
        let mut exceptions = args.points.exceptions.clone();
        let panics = &session.adapter.quirks.panic_functions;
        if let Some(exceptions) = exceptions.as_mut().filter(|_| !panics.is_empty()) {
            let before = exceptions.len();
            exceptions.retain(|it| ExceptionFilter::read(it).name != "panic");
            if exceptions.len() < before {
                // `panic` stands for breakpoints on these functions.
                named.functions.extend(panics.iter().cloned());
            }
        }
        let exceptions = exceptions.filter(|it| !it.is_empty() || named.functions.is_empty());
        if let Some(exceptions) = &exceptions {
            let is_removed = |it: &String| {
                let name = ExceptionFilter::read(it).name;
                exceptions.iter().any(|exception| ExceptionFilter::read(exception).name == name)
            };
            let (removed, remaining): (Vec<_>, Vec<_>) = session.filters().into_iter().partition(is_removed);
            (named.removed_filters, named.filters) = (removed.len(), Some(remaining));
        }
        let special = named.instruction.is_some() || named.filters.is_some();
        named.all =
            !special && named.functions.is_empty() && named.data.is_empty() && named.places.is_empty();
        Ok(named)
    }

    /// Adds the breakpoints that the arguments name.
    ///
    /// `permit_breakpoints` requests permission for them.
    pub(super) fn add(&self, all: &mut Breakpoints, args: &PointArguments) -> Result<(), Failure> {
        for LineArgument { file, line, column, condition, hit, log } in args.breakpoints.clone() {
            let path = self.context.workspace.resolve(&file)?;
            check_line(&self.context, &path, line)?;
            check_hit(hit.as_deref())?;
            all.add(SourceBreakpoint { path, line, column, condition, hit, log });
        }
        check_hit(args.hit.as_deref())?;
        for name in &args.functions {
            let (name, condition) = dap_client::conditional(name);
            let condition = condition.map(str::to_owned).or(args.condition.clone());
            let hit = args.hit.clone();
            all.add_function_point(FunctionBreakpoint { name: name.to_owned(), condition, hit });
        }
        all.exceptions = args.exceptions.clone();
        Ok(())
    }
}

/// Lists the exception filters in force.
///
/// Pilcrow sets no default filters in a session of the user.
fn exceptions_in_force(session: &Session) -> Vec<String> {
    let chosen = session.breakpoints().exceptions.is_some();
    if session.is_external() && !chosen { Vec::new() } else { session.filters() }
}

/// The breakpoints that a call removes.
#[derive(Debug, Default)]
struct Selection {
    all: bool,
    /// Places by file, by line in all files, or by both.
    places: Vec<(Option<AbsPath>, Option<u64>)>,
    functions: Vec<String>,
    data: Vec<String>,
    instruction: Option<(String, i64)>,
    /// The exception filters that remain, if the call removes some.
    filters: Option<Vec<String>>,
    removed_filters: usize,
}

impl Selection {
    fn remove(&self, all: &mut Breakpoints) {
        if self.all {
            all.remove_others();
        }
        let everywhere = [(None, None)];
        let places = if self.all { &everywhere } else { self.places.as_slice() };
        for (path, line) in places {
            for path in path.clone().map_or_else(|| all.paths(), |path| vec![path]) {
                all.remove(&path, *line);
            }
        }
        self.functions.iter().for_each(|name| all.remove_function(name));
        self.data.iter().for_each(|name| all.remove_data(name));
        if let Some((reference, offset)) = &self.instruction {
            all.remove_instruction(reference, *offset);
        }
        if let Some(filters) = &self.filters {
            all.exceptions = Some(filters.clone());
        }
    }
}

/// Requests permission for breakpoints whose expressions may have side effects.
pub(super) async fn permit_breakpoints(
    context: &ToolContext,
    all: &Breakpoints,
    adapter: &DebuggerDefinition,
    cx: Cx<'_>,
) -> Result<(), Failure> {
    for (it, _) in all.list() {
        let logged = expressions(it.log.as_deref().unwrap_or_default());
        let code = it.condition.as_deref().into_iter().chain(logged);
        for code in code.filter(|code| !is_side_effect_free(code, adapter)) {
            let place = format!("{}:{}", context.display_path(&it.path), it.line);
            cx.permit_debug(&format!("evaluate `{code}` at each pass of {place}")).await?;
        }
    }
    let functions = all.functions().iter().map(|(it, _)| (it.name.as_str(), it.condition.as_deref()));
    let exceptions = all.exceptions.iter().flatten().map(|it| ExceptionFilter::read(it));
    let exceptions = exceptions.map(|it| (it.name, it.condition));
    for (what, condition) in functions.chain(exceptions) {
        if let Some(code) = condition.filter(|code| !is_side_effect_free(code, adapter)) {
            cx.permit_debug(&format!("evaluate `{code}` at each pass of {what}")).await?;
        }
    }
    Ok(())
}

/// Requests permissions of a session: programs to run in a terminal, and hosts.
pub(super) struct SessionGrants {
    requester: GrantRequester,
    confinement: Confinement,
    hosts: Arc<CommandHosts>,
}

impl SessionGrants {
    pub(super) fn new(adapter: &str, cx: Cx<'_>, confinement: Confinement) -> Arc<Self> {
        // A question about a host ends with the connection.
        let hosts = CommandHosts::new(adapter, &cx, CancellationToken::new());
        Arc::new(Self { requester: cx.grant_requester(), confinement, hosts })
    }

    /// Whether the programs of `session` are in the sandbox.
    pub(super) fn confinement(session: &Session) -> Confinement {
        let is_confined = session.grant().is_some_and(|grant| grant.sandbox().is_some());
        if is_confined { Confinement::Sandbox } else { Confinement::Waived }
    }
}

impl SpawnApprover for SessionGrants {
    fn grant(&self, adapter: &str, command: &CommandLine) -> BoxFuture<'static, Result<SpawnGrant, String>> {
        let (requester, adapter, command) = (self.requester.clone(), adapter.to_owned(), command.clone());
        let confinement = self.confinement;
        Box::pin(async move {
            let cancel = CancellationToken::new();
            let grant = requester.grant_run(&adapter, &command, confinement, &cancel).await;
            grant.map_err(|denied| format!("denied: {denied}"))
        })
    }

    fn hosts(&self) -> Option<Arc<dyn HostGate>> {
        Some(Arc::<CommandHosts>::clone(&self.hosts))
    }
}

/// Refuses a line that the file does not have.
///
/// Adapters silently set a breakpoint there that never stops.
pub(super) fn check_line(context: &ToolContext, path: &AbsPath, line: u64) -> Result<(), Failure> {
    let invalid = |message: String| Err(Failure::invalid(message));
    if line == 0 {
        return invalid("`line` counts from 1".to_owned());
    }
    // A file that cannot be read may be known to the program.
    let Ok(document) = context.workspace.document(path) else { return Ok(()) };
    let lines = document.text.lines().count() as u64;
    if line > lines {
        let (file, lines) = (context.display_path(path), crate::counted(lines as usize, "line"));
        return invalid(format!("{file} has {lines}; there is no line {line}"));
    }
    Ok(())
}

/// Refuses a hit count that no adapter can read.
pub(super) fn check_hit(hit: Option<&str>) -> Result<(), Failure> {
    match hit.filter(|hit| !is_count(hit)) {
        Some(hit) => {
            Err(Failure::invalid(format!("`hit` is a count such as `3`, `>= 3` or `% 2`, not `{hit}`")))
        }
        None => Ok(()),
    }
}

/// Describes why a condition may never be true.
///
/// It is incomplete, or has names that its file lacks. Most adapters do not report a condition that cannot be evaluated.
pub(super) fn condition_defect(context: &ToolContext, it: &SourceBreakpoint) -> Option<String> {
    let condition = it.condition.as_deref()?;
    if is_incomplete(condition) {
        return Some(format!("`{condition}` is incomplete"));
    }
    let document = context.workspace.document(&it.path).ok()?;
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let has = |name: &&str| document.text.split(|c| !is_part(c)).any(|word| word == *name);
    let found = super::values::expressions(condition);
    let names = found.iter().filter_map(|it| it.split(|c| !is_part(c)).find(|name| !name.is_empty()));
    let unknown: Vec<String> = names.filter(|name| !has(name)).map(|name| format!("`{name}`")).collect();
    (!unknown.is_empty())
        .then(|| format!("{} is not in {}", unknown.join(", "), context.display_path(&it.path)))
}

/// Whether an expression ends with an operator or has brackets without a partner.
fn is_incomplete(expression: &str) -> bool {
    let expression = expression.trim_end();
    let is_step = expression.ends_with("++") || expression.ends_with("--");
    // Brackets inside a string need no partner.
    let is_text = expression.contains(['"', '\'', '`']);
    let count = |bracket: char| expression.matches(bracket).count();
    let is_unbalanced =
        [('(', ')'), ('[', ']'), ('{', '}')].iter().any(|(open, close)| count(*open) != count(*close));
    expression.ends_with(['<', '>', '=', '+', '-', '*', '/', '%', '&', '|', '^', '!', ',', '.']) && !is_step
        || is_unbalanced && !is_text
}

fn target(context: &ToolContext, args: &LaunchArguments, attaches: bool) -> Result<Target, Failure> {
    let launches = !attaches;
    match (&args.program, &args.module, args.pid, args.port) {
        (Some(program), None, None, None) if launches => {
            let path = context.workspace.resolve(program)?;
            if !path.as_path().exists() {
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

/// Parses a parameter that holds JSON as text.
pub(super) fn json_text(text: Option<&str>) -> Result<Option<Value>, Failure> {
    let text = text.filter(|it| !it.trim().is_empty());
    text.map(serde_json::from_str)
        .transpose()
        .map_err(|error| Failure::invalid(format!("`arguments` is not JSON: {error}")))
}

fn render_breakpoints(context: &ToolContext, all: &Breakpoints) -> (String, Vec<Value>) {
    let mut text = String::new();
    let mut list = Vec::new();
    for (it, placed) in all.list() {
        let at = placed.line.unwrap_or(it.line);
        let mut line = format!("{}:{at}", context.display_path(&it.path));
        let more = [("if", &it.condition), ("hit", &it.hit), ("log", &it.log)];
        more.iter().for_each(|(word, it)| line.extend(it.iter().map(|it| format!(" {word} {it}"))));
        if !placed.verified {
            let why = placed.sentence().unwrap_or("until its code is loaded");
            line.push_str(&format!(" (not set: {why})"));
        }
        line.extend(condition_defect(context, it).map(|note| format!(" ({note})")));
        text.push_str(&format!("{line}\n"));
        list.push(json!({ "file": context.display_path(&it.path), "line": at, "verified": placed.verified }));
    }
    for (it, placed) in all.functions() {
        let mark = if placed.verified { "" } else { " (not set)" };
        let hit = it.hit.as_ref().map(|hit| format!(" hit {hit}")).unwrap_or_default();
        text.push_str(&format!("function {}{hit}{mark}\n", it.text()));
        list.push(json!({ "function": it.name, "verified": placed.verified }));
    }
    let more = |condition: &Option<String>, hit: &Option<String>| -> String {
        let words = [("if", condition), ("hit", hit)];
        words.iter().flat_map(|(word, it)| it.iter().map(move |it| format!(" {word} {it}"))).collect()
    };
    let data = all.data().iter().map(|(it, placed)| {
        let access = if it.access == "write" { String::new() } else { format!(" ({})", it.access) };
        ("data", format!("{}{access}", it.label), more(&it.condition, &it.hit), placed)
    });
    let instructions = all.instructions().iter().map(|(it, placed)| {
        let offset = if it.offset == 0 { String::new() } else { format!("{:+}", it.offset) };
        ("instruction", format!("{}{offset}", it.reference), more(&it.condition, &it.hit), placed)
    });
    for (kind, label, more, placed) in data.chain(instructions) {
        let why = placed.sentence().unwrap_or("no reason given");
        let mark = if placed.verified { String::new() } else { format!(" (not set: {why})") };
        text.push_str(&format!("{kind} {label}{more}{mark}\n"));
        list.push(json!({ kind: label, "verified": placed.verified }));
    }
    if text.is_empty() {
        text = "no breakpoints\n".to_owned();
    }
    (text, list)
}

#[cfg(test)]
mod tests {
    use super::is_incomplete;

    #[test]
    fn incomplete_conditions_are_found() {
        assert!(["a >", "f(a", "a ==", "x.", "[1, 2"].into_iter().all(is_incomplete));
        let complete = ["a > 3", "f(a)", "i++", "name == \"(\"", "a", "x[1] && (b | c)", "x?"];
        assert!(!complete.into_iter().any(is_incomplete));
    }
}
