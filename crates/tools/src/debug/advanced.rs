//! Rarer actions: jumps, restarts, memory, instructions, sources, raw requests.

use std::sync::Arc;

use adapters::DebuggerDefinition;
use agent::ToolResult;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dap_client::{
    Breakpoints, Clock, DataBreakpoint, InstructionBreakpoint, Need, Session, SourceBreakpoint, State,
};
use policy::ErrorCode;
use process::deadlines;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::actions::{
    BreakpointArguments, EvaluateArguments, FrameChoice, MemoryArguments, PageArguments, PlaceArguments,
    RequestArguments, SetExpressionArguments, StepArguments, WriteMemoryArguments,
};
use super::launch::SessionGrants;
use super::side_effects::is_side_effect_free;
use super::{Answer, Cx, Debug, needs};
use crate::Failure;

/// Default and maximum number of bytes, and default number of instructions.
const BYTES: u64 = 64;
const MAX_BYTES: u64 = 4096;
const INSTRUCTIONS: u64 = 16;
/// Maximum number of modules, sources or completions that a result lists.
const LISTED: usize = 100;
/// Maximum length of a source or a response, in characters.
const TEXT: usize = 30_000;

impl Debug {
    /// Restarts the program: by the adapter if it can, else by launching it again.
    pub(super) async fn restart(&self, session: &Arc<Session>, cx: Cx<'_>) -> Answer {
        let debug = &self.context.debug;
        let root = debug.root_of(session);
        for it in debug.tree(&root).iter().filter(|it| !matches!(it.state(), State::Terminated(_))) {
            it.in_control("restart")?;
        }
        if !root.launched {
            let message = format!(
                "{} cannot restart a program that it did not launch; `attach` again",
                root.adapter.name
            );
            return Err(Failure::new(ErrorCode::Unsupported, message));
        }
        let again = debug.restart_plan(&root);
        let (plan, _) = again
            .ok_or_else(|| Failure::new(ErrorCode::Unsupported, "Pilcrow did not start this session"))?;
        if let Some(program) = &plan.program {
            cx.permit_run(&plan.adapter.name, program, SessionGrants::confinement(&root)).await?;
        }
        // A session that only launches (js-debug 1.105) does not respond to `restart` while stopped.
        let can_restart = !root.adapter_launches_only()
            && !root.is_unresponsive()
            && !matches!(root.state(), State::Terminated(_));
        if can_restart && root.can_restart() {
            if let Some(entry) = plan.entry.as_ref().filter(|it| !it.is_empty()) {
                let add = |all: &mut Breakpoints| entry.iter().for_each(|it| all.add_function(it));
                debug.change_breakpoints(&root, add, cx.clock).await?;
            }
            root.restart(cx.clock).await?;
            self.run_to_own_code(&root, plan.entry.as_deref(), cx.clock).await?;
            return self.snapshot(&root, cx).await;
        }
        let grants = SessionGrants::new(&root.adapter.name, cx, SessionGrants::confinement(&root));
        let fresh = debug.relaunch(&root, grants.clone(), cx.clock).await?;
        self.remember_hosts(&fresh, &grants);
        fresh.started_by(cx.starter.clone());
        self.run_to_own_code(&fresh, plan.entry.as_deref(), cx.clock).await?;
        let shown = self.snapshot(&fresh, cx).await?;
        let note =
            format!("{} cannot restart: launched again with the same breakpoints\n", root.adapter.name);
        Ok(prepend(&note, shown))
    }

    pub(super) async fn goto(&self, session: &Arc<Session>, args: &PlaceArguments, cx: Cx<'_>) -> Answer {
        let (file, line) = (args.file.as_str(), args.line);
        let path = self.context.workspace.resolve(file)?;
        super::launch::check_line(&self.context, &path, line)?;
        let targets = session.goto_targets(&path, line, cx.clock).await?;
        let Some(target) = targets.first() else {
            return Err(Failure::new(ErrorCode::NotFound, format!("cannot jump to {file}:{line}")));
        };
        cx.permit_debug(&format!("jump to {file}:{} without running the code between", target.line)).await?;
        session.goto(target.id, args.thread, cx.clock).await?;
        self.snapshot(session, cx).await
    }

    /// Continues to a line, or to an earlier stop.
    pub(super) async fn run_to(&self, session: &Arc<Session>, args: &PlaceArguments, cx: Cx<'_>) -> Answer {
        let (file, line) = (args.file.as_str(), args.line);
        let path = self.context.workspace.resolve(file)?;
        super::launch::check_line(&self.context, &path, line)?;
        let is_set = session.breakpoints().list().any(|(it, _)| it.path == path && it.line == line);
        let point = SourceBreakpoint {
            path: path.clone(),
            line,
            column: None,
            condition: None,
            hit: None,
            log: None,
        };
        let is_running = matches!(session.state(), State::Running);
        session.in_control("run_to")?;
        if !is_set {
            session.change_breakpoints(|all| all.add(point), cx.clock).await?;
        }
        let ran = match is_running {
            true => Ok(()),
            false => session.run("continue", args.thread, cx.clock).await.map_err(Failure::from),
        };
        let shown = match ran {
            Ok(()) => self.snapshot(session, cx).await,
            Err(failure) => Err(failure),
        };
        if is_set {
            return shown;
        }
        let note = match session.state() {
            State::Terminated(_) => return shown,
            State::Stopped(_) => {
                let remove = |all: &mut Breakpoints| {
                    all.remove(&path, Some(line));
                };
                // The breakpoint is removed even if the action timed out or was cancelled.
                let cleanup = Clock::new(deadlines::OWN_BREAKPOINTS, &CancellationToken::new());
                match session.change_breakpoints(remove, &cleanup).await {
                    Ok(()) => return shown,
                    Err(error) => format!("failed to remove the breakpoint at {file}:{line}: {error}\n"),
                }
            }
            // Without the breakpoint the program would run past the line.
            _ => format!(
                "not at {file}:{line} yet; its breakpoint stays until you remove it by `breakpoints` with `remove`\n"
            ),
        };
        match shown {
            Ok(shown) => Ok(prepend(&note, shown)),
            Err(failure) => {
                let message = format!("{}\n{}", failure.message, note.trim_end());
                Err(Failure { message, ..failure })
            }
        }
    }

    pub(super) async fn read_memory(&self, session: &Session, args: &MemoryArguments, cx: Cx<'_>) -> Answer {
        let reference =
            args.memory_reference.as_deref().ok_or_else(|| needs("read_memory", "memory_reference"))?;
        permit_reference("read_memory", reference, session, cx).await?;
        let about = ("read_memory", reference, "supportsReadMemoryRequest");
        let reference = &self.address(session, about, &args.frame, cx.clock).await?;
        let count = args.count.unwrap_or(BYTES).clamp(1, MAX_BYTES);
        let (address, data, unreadable) =
            session.read_memory(reference, args.offset.unwrap_or(0), count, cx.clock).await?;
        let bytes = STANDARD.decode(&data).map_err(|error| {
            Failure::new(ErrorCode::NotApplied, format!("the adapter's response is not base64: {error}"))
        })?;
        let mut text = format!("{} bytes at {address}\n", bytes.len());
        for (row, bytes) in bytes.chunks(16).enumerate() {
            let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let shown: String =
                bytes.iter().map(|it| if it.is_ascii_graphic() { char::from(*it) } else { '.' }).collect();
            text.push_str(&format!("+{:04x}  {:<47}  {shown}\n", row * 16, hex.join(" ")));
        }
        if unreadable > 0 {
            text.push_str(&format!("{unreadable} bytes after these cannot be read\n"));
        }
        let details = json!({ "address": address, "data": data, "unreadable": unreadable });
        Ok(ToolResult::text(text).with_details(details))
    }

    pub(super) async fn write_memory(
        &self,
        session: &Session,
        args: &WriteMemoryArguments,
        cx: Cx<'_>,
    ) -> Answer {
        let (reference, value) = (args.memory_reference.as_str(), args.value.as_str());
        let bytes = hex(value).ok_or_else(|| {
            Failure::new(
                ErrorCode::InvalidArguments,
                "`value` is bytes in hexadecimal: `2a 00 ff`".to_owned(),
            )
        })?;
        permit_reference("write_memory", reference, session, cx).await?;
        cx.permit_debug(&format!("write {} bytes of memory at {reference}", bytes.len())).await?;
        let about = ("write_memory", reference, "supportsWriteMemoryRequest");
        let reference = &self.address(session, about, &args.frame, cx.clock).await?;
        let data = STANDARD.encode(&bytes);
        let offset = args.offset.unwrap_or(0);
        let written = session.write_memory(reference, offset, &data, cx.clock).await?;
        let count = written.unwrap_or(bytes.len() as u64);
        // Some adapters report success for a write to memory that cannot be written.
        if session.can("supportsReadMemoryRequest") {
            let (_, now, _) = session.read_memory(reference, offset, bytes.len() as u64, cx.clock).await?;
            if STANDARD.decode(&now).ok().as_ref() != Some(&bytes) {
                let message = format!(
                    "the memory at {reference} does not hold the {} bytes after the write\nread it with \
                     `read_memory`; `modules` shows what is loaded where",
                    bytes.len()
                );
                return Err(Failure::new(ErrorCode::NotApplied, message));
            }
        }
        Ok(ToolResult::text(format!("wrote {count} bytes at {reference}\n"))
            .with_details(json!({ "written": count })))
    }

    pub(super) async fn disassemble(&self, session: &Session, args: &MemoryArguments, cx: Cx<'_>) -> Answer {
        if let Some(reference) = &args.memory_reference {
            permit_reference("disassemble", reference, session, cx).await?;
        }
        let reference = match &args.memory_reference {
            Some(reference) => reference.clone(),
            // The request below fails for an adapter that cannot disassemble.
            None if !session.can("supportsDisassembleRequest") => String::new(),
            None => {
                let frame = self.frame(session, "disassemble", &args.frame, cx.clock).await?;
                session.instruction(frame)?.ok_or_else(|| needs("disassemble", "memory_reference"))?
            }
        };
        let count = args.count.unwrap_or(INSTRUCTIONS).clamp(1, 500);
        let reference = match args.memory_reference {
            Some(_) => {
                let about = ("disassemble", reference.as_str(), "supportsDisassembleRequest");
                self.address(session, about, &args.frame, cx.clock).await?
            }
            None => reference,
        };
        let found = session.disassemble(&reference, args.offset.unwrap_or(0), count, cx.clock).await?;
        let word = |it: &Value, name: &str| it[name].as_str().unwrap_or_default().to_owned();
        let row = |it: &Value| {
            let symbol = it["symbol"].as_str().map(|it| format!("  ; {it}")).unwrap_or_default();
            format!("{}  {}{symbol}\n", word(it, "address"), word(it, "instruction"))
        };
        let text: String = found.iter().map(row).collect();
        Ok(ToolResult::text(text).with_details(json!({ "instructions": found })))
    }

    /// Resolves a memory reference, and evaluates one that is not a number.
    ///
    /// Most adapters do not evaluate references themselves. The adapter judges a reference without an address.
    async fn address(
        &self,
        session: &Session,
        (action, reference, capability): (&str, &str, &str),
        frame: &FrameChoice,
        clock: &Clock,
    ) -> Result<String, Failure> {
        if is_number(reference) || !session.can(capability) {
            return Ok(reference.to_owned());
        }
        let frame = self.frame(session, action, frame, clock).await?;
        let before = session.adapter.quirks.native_prefix.as_deref().unwrap_or_default();
        let native = format!("{before}{reference}");
        let Ok(value) = session.evaluate(&native, Some(frame), "watch", clock).await else {
            return Ok(reference.to_owned());
        };
        let number = || printed_address(&value.value).map(str::to_owned);
        Ok(value.memory.clone().or_else(number).unwrap_or_else(|| reference.to_owned()))
    }

    pub(super) async fn completions(
        &self,
        session: &Session,
        args: &EvaluateArguments,
        clock: &Clock,
    ) -> Answer {
        let text = args.expression.as_str();
        let frame = self.frame(session, "completions", &args.frame, clock).await?;
        let found = session.completions(text, Some(frame), clock).await?;
        Ok(render_list(found, "completion"))
    }

    pub(super) async fn set_expression(
        &self,
        session: &Session,
        args: &SetExpressionArguments,
        cx: Cx<'_>,
    ) -> Answer {
        let (expression, value) = (args.expression.as_str(), args.value.as_str());
        cx.permit_debug(&format!("set {expression} to {value}")).await?;
        let frame = self.frame(session, "set_expression", &args.frame, cx.clock).await?;
        Ok(super::inspect::render_value(&session.set_expression(expression, value, frame, cx.clock).await?))
    }

    pub(super) async fn source(&self, session: &Session, args: &PageArguments, clock: &Clock) -> Answer {
        let frame = self.frame(session, "source", &args.frame, clock).await?;
        let text = session.source(frame, clock).await?;
        let from = usize::try_from(args.start.unwrap_or(1).max(1)).unwrap_or(1) - 1;
        let count = usize::try_from(args.count.unwrap_or(400)).unwrap_or(400);
        let all = text.lines().count();
        let rows = text.lines().enumerate().skip(from).take(count);
        let mut shown: String = rows.map(|(at, line)| format!("{}: {line}\n", at + 1)).collect();
        if from.saturating_add(count) < all {
            shown.push_str(&format!("{all} lines in all; read on with `start: {}`\n", from + count + 1));
        }
        Ok(ToolResult::text(super::snapshot::cut(&shown, TEXT)).with_details(json!({ "lines": all })))
    }

    pub(super) async fn exception_info(
        &self,
        session: &Session,
        args: &FrameChoice,
        clock: &Clock,
    ) -> Answer {
        let it = session.exception_info(args.thread, clock).await?;
        let mut text = format!("{}: {}\n", it.id, it.description);
        for (word, value) in [("type", &it.kind), ("thrown at", &it.stack)] {
            text.extend(value.iter().map(|value| format!("{word}: {}\n", super::snapshot::cut(value, 4000))));
        }
        let details = json!({ "id": it.id, "description": it.description, "mode": it.mode, "type": it.kind,
            "stack": it.stack });
        Ok(ToolResult::text(text).with_details(details))
    }

    pub(super) async fn loaded(&self, session: &Session, modules: bool, clock: &Clock) -> Answer {
        let mut found = session.loaded(modules, clock).await?;
        // List those of the project first: there may be thousands.
        let root = self.context.workspace.root().as_path();
        let own =
            |it: &Value| it["path"].as_str().is_some_and(|path| std::path::Path::new(path).starts_with(root));
        found.sort_by_key(|it| !own(it));
        let name = |it: &Value| {
            let word = |name: &str| it[name].as_str().map(str::to_owned);
            match (word("name"), word("path")) {
                (Some(name), Some(path)) if name != path => format!("{name} ({path})"),
                (name, path) => path.or(name).unwrap_or_else(|| it.to_string()),
            }
        };
        Ok(render_list(found.iter().map(name).collect(), if modules { "module" } else { "source" }))
    }

    /// Sends any request of the Debug Adapter Protocol.
    pub(super) async fn request(
        &self,
        session: &Arc<Session>,
        args: &RequestArguments,
        cx: Cx<'_>,
    ) -> Answer {
        let command = args.command.as_str();
        let arguments = super::launch::json_text(args.arguments.as_deref())?.unwrap_or(Value::Null);
        cx.permit_debug(&format!("send the request `{command}` with {arguments}")).await?;
        let runs = dap_client::runs_on(command);
        let body = match runs {
            true => session.run_raw(command, arguments, cx.clock).await?,
            false => session.ask(command, arguments, Need::NotTerminated, cx.clock).await?,
        };
        let text = serde_json::to_string_pretty(&body).unwrap_or_else(|_| body.to_string());
        let text = format!("{}\n", super::snapshot::cut(&text, TEXT));
        if !runs {
            return Ok(ToolResult::text(text).with_details(json!({ "body": body })));
        }
        let shown = self.snapshot(session, cx).await?;
        let mut details = shown.details.clone();
        super::inspect::merge(&mut details, json!({ "body": body }));
        Ok(prepend(&text, shown).with_details(details))
    }

    /// Adds a breakpoint on data or on an instruction, if the arguments name one.
    pub(super) async fn add_special(
        &self,
        session: &Arc<Session>,
        args: &BreakpointArguments,
        cx: Cx<'_>,
    ) -> Result<(), Failure> {
        let (condition, hit) = (args.points.condition.clone(), args.points.hit.clone());
        super::launch::check_hit(hit.as_deref())?;
        let special = args.data_id.as_ref().or(args.name.as_ref()).or(args.memory_reference.as_ref());
        if let Some(what) = special {
            let code = condition.iter().filter(|code| !is_side_effect_free(code, &session.adapter));
            for code in code {
                cx.permit_debug(&format!("evaluate `{code}` at each pass of {what}")).await?;
            }
        }
        let access = args.access.as_deref();
        let data = match (&args.data_id, &args.name) {
            (Some(id), _) => {
                session.access(id, access)?;
                Some(DataBreakpoint { id: id.clone(), label: id.clone(), ..DataBreakpoint::default() })
            }
            (None, Some(name)) => {
                permit_reference("breakpoints", name, session, cx).await?;
                let frame = match args.variables_reference {
                    Some(_) => None,
                    None => Some(self.frame(session, "breakpoints", &args.frame, cx.clock).await?),
                };
                let reference = match (args.variables_reference, frame) {
                    (None, Some(frame)) => {
                        session.scopes(frame, cx.clock).await?.first().map(|it| it.variables)
                    }
                    (reference, _) => reference,
                };
                Some(session.data_breakpoint(name, reference, frame, cx.clock).await?)
            }
            (None, None) => None,
        };
        if let Some(point) = data {
            let access = session.access(&point.id, access)?;
            let point = DataBreakpoint { access, condition: condition.clone(), hit: hit.clone(), ..point };
            session.change_breakpoints(|all| all.add_data(point), cx.clock).await?;
        }
        if let Some(reference) = &args.memory_reference {
            permit_reference("breakpoints", reference, session, cx).await?;
            let point = Session::at_instruction(reference, args.offset.unwrap_or(0));
            let point = InstructionBreakpoint { condition, hit, ..point };
            session.change_breakpoints(|all| all.add_instruction(point), cx.clock).await?;
        }
        Ok(())
    }

    /// Steps forwards or backwards.
    pub(super) async fn step(
        &self,
        session: &Arc<Session>,
        command: &str,
        args: &StepArguments,
        cx: Cx<'_>,
    ) -> Answer {
        self.run_on(session, command, args, cx.clock).await?;
        self.snapshot(session, cx).await
    }

    /// Continues or steps the program.
    pub(super) async fn run_on(
        &self,
        session: &Session,
        command: &str,
        args: &StepArguments,
        clock: &Clock,
    ) -> Result<(), Failure> {
        if ["stepBack", "reverseContinue"].contains(&command) {
            return Ok(session.back(command, args.thread, clock).await?);
        }
        let takes_granularity = session.can("supportsSteppingGranularity");
        match args.granularity.as_deref() {
            Some(granularity) if !takes_granularity && granularity != "line" => {
                let adapter = &session.adapter.name;
                let message = format!(
                    "{adapter} cannot step by {granularity}; without `granularity` it steps by lines"
                );
                Err(Failure::new(ErrorCode::Unsupported, message))
            }
            Some(granularity) if takes_granularity => {
                let arguments = json!({ "granularity": granularity });
                Ok(session.run_with(command, args.thread, arguments, clock).await?)
            }
            _ => Ok(session.run(command, args.thread, clock).await?),
        }
    }

    /// Whether another session of the tree is stopped. This session may wait for it.
    pub(super) fn another_is_stopped(&self, session: &Arc<Session>) -> bool {
        let debug = &self.context.debug;
        let tree = debug.tree(&debug.root_of(session));
        tree.iter().any(|it| it.id != session.id && matches!(it.state(), State::Stopped(_)))
    }

    /// Requests permission for an expression that may have side effects.
    pub(super) async fn permit_evaluate(
        &self,
        expression: &str,
        adapter: &DebuggerDefinition,
        cx: Cx<'_>,
    ) -> Result<(), Failure> {
        if !is_side_effect_free(expression, adapter) {
            cx.permit_debug(&format!("evaluate `{expression}`")).await?;
        }
        Ok(())
    }
}

/// Requests permission for a memory reference or a data name.
///
/// Some adapters evaluate these.
async fn permit_reference(action: &str, text: &str, session: &Session, cx: Cx<'_>) -> Result<(), Failure> {
    if !is_number(text) && !is_side_effect_free(text, &session.adapter) {
        session.in_control(action)?;
        cx.permit_debug(&format!("evaluate `{text}`")).await?;
    }
    Ok(())
}

/// Finds the address in a printed value, but not one inside a struct or string.
///
/// Examples are `0x7f…`, `(int *) 0x7f…` and `@0x7f…: 5`.
fn printed_address(value: &str) -> Option<&str> {
    let value = value.trim();
    let value =
        if value.starts_with('(') { value.split_once(") ").map_or(value, |(_, it)| it) } else { value };
    let word = value.trim_start_matches('@').split(|it: char| !it.is_ascii_alphanumeric()).next()?;
    (word.starts_with("0x") && is_number(word)).then_some(word)
}

/// Whether a text is a decimal or hexadecimal number.
fn is_number(text: &str) -> bool {
    let text = text.trim();
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |it| (it, 16));
    !digits.is_empty() && digits.chars().all(|it| it.is_digit(radix))
}

fn render_list(found: Vec<String>, noun: &str) -> ToolResult {
    let mut text: String = found.iter().take(LISTED).map(|it| format!("{it}\n")).collect();
    if found.len() > LISTED {
        text.push_str(&format!("{} more not shown\n", crate::counted(found.len() - LISTED, noun)));
    }
    if found.is_empty() {
        text = format!("no {noun}s\n");
    }
    ToolResult::text(text).with_details(json!({ "list": found }))
}

/// Inserts `text` at the start of a result.
pub(super) fn prepend(text: &str, mut result: ToolResult) -> ToolResult {
    let first = result.content.iter_mut().find_map(|content| match content {
        llm::Content::Text { text, .. } => Some(text),
        _ => None,
    });
    if let Some(first) = first {
        first.insert_str(0, text);
    }
    result
}

/// Parses bytes in hexadecimal, with or without spaces.
fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).map(|it| it as u8))
        .collect::<Option<_>>()?;
    let whole = !digits.is_empty() && digits.len().is_multiple_of(2);
    whole.then(|| digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::{hex, is_number, printed_address};

    #[test]
    fn a_number_is_digits_alone() {
        for number in ["0x7fffF0", "4096", "0"] {
            assert!(is_number(number), "{number}");
        }
        for other in ["", "0x", "0x10()", "f()", "&n", "12ab", "-1", "main"] {
            assert!(!is_number(other), "{other}");
        }
    }

    #[test]
    fn an_address_inside_a_value_is_ignored() {
        let address = |value: &str| printed_address(value).map(str::to_owned);
        for value in
            ["0x7f10", "(int *) 0x7f10", "@0x7f10: 5", "0x7f10 <main+4>", "(const char *) 0x7f10 \"x\""]
        {
            assert_eq!(address(value).as_deref(), Some("0x7f10"), "{value}");
        }
        for value in ["{next = 0x5555, n = 1}", "\"0xdead\"", "5", "(5)", "", "<error: 0x10>"] {
            assert_eq!(address(value), None, "{value}");
        }
    }

    #[test]
    fn bytes_are_pairs_of_digits() {
        assert_eq!(hex("2a 00ff"), Some(vec![42, 0, 255]));
        assert_eq!((hex("2"), hex("zz"), hex("")), (None, None, None));
    }
}
