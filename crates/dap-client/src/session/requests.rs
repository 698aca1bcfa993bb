//! Common requests of a session: breakpoints, execution, stacks, variables,
//! expressions and output.

use std::sync::atomic::Ordering;

use paths::AbsPath;
use serde_json::{Value, json};

use super::{Clock, Frame, Page, Scope, Session, Thread, Variable};
use crate::debuggee::Since;
use crate::debuggee::{Breakpoints, ExceptionFilter};
use crate::debuggee::{Input, Need, State, WrongState};
use crate::error::{DapError, Result};
use adapters::{ExceptionNames, Quirks};

/// Advice for an adapter that does not support such a breakpoint.
const PLAIN: &str = "set a plain breakpoint and look at each stop";

impl Session {
    pub fn breakpoints(&self) -> Breakpoints {
        self.inner.core().breakpoints.clone()
    }

    /// Changes breakpoints and sends the changed parts to the adapter.
    ///
    /// The parts are files, functions and filters.
    ///
    /// # Errors
    ///
    /// [`DapError`]; the previous breakpoints are restored then.
    pub async fn change_breakpoints(
        &self,
        change: impl FnOnce(&mut Breakpoints),
        clock: &Clock,
    ) -> Result<()> {
        self.inner.core().machine.check("breakpoints", Need::NotTerminated)?;
        let (before, after) = {
            let mut core = self.inner.core();
            let before = core.breakpoints.clone();
            change(&mut core.breakpoints);
            (before, core.breakpoints.clone())
        };
        let outcome = async {
            for path in after.paths() {
                if before.source_arguments(&path, None) != after.source_arguments(&path, None) {
                    self.send_source(&path, clock).await?;
                }
            }
            if before.function_arguments(None) != after.function_arguments(None) {
                self.send_functions(clock).await?;
            }
            if before.exceptions != after.exceptions {
                self.send_exceptions(clock).await?;
            }
            if before.data_arguments(None) != after.data_arguments(None) {
                self.send_data(clock).await?;
            }
            if before.instruction_arguments(None) != after.instruction_arguments(None) {
                self.send_instructions(clock).await?;
            }
            Ok(())
        };
        let outcome = outcome.await;
        if outcome.is_err() {
            self.inner.core().breakpoints = before;
        }
        outcome
    }

    pub(super) async fn send_source(&self, path: &AbsPath, clock: &Clock) -> Result<()> {
        let all = self.breakpoints();
        for (it, _) in all.list().filter(|(it, _)| it.path == *path) {
            self.check_conditions(it.condition.as_ref(), it.hit.as_ref())?;
            if it.log.is_some() && !self.can("supportsLogPoints") {
                return Err(self.lacks("write log messages", Some(PLAIN.to_owned())));
            }
        }
        let arguments = self.inner.core().breakpoints.source_arguments(path, self.adapter.quirks.hit_count);
        let body = self.ask("setBreakpoints", arguments, Need::NotTerminated, clock).await?;
        self.inner.core().breakpoints.source_answer(path, &body);
        Ok(())
    }

    /// Checks whether the adapter supports a breakpoint's condition and hit count.
    pub(super) fn check_conditions(&self, condition: Option<&String>, hit: Option<&String>) -> Result<()> {
        let needs = [
            (condition, "supportsConditionalBreakpoints", "stop on a condition"),
            (hit, "supportsHitConditionalBreakpoints", "count hits"),
        ];
        for (wanted, capability, what) in needs {
            if wanted.is_some() && !self.can(capability) {
                return Err(self.lacks(what, Some(PLAIN.to_owned())));
            }
        }
        match (self.adapter.quirks.hit_count, hit) {
            (Some(hits), Some(hit)) if hits.sent(hit).is_none() => {
                let nearest = "write the number of the first hit that stops".to_owned();
                Err(self.lacks(&format!("read the hit count `{hit}`"), Some(nearest)))
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn send_functions(&self, clock: &Clock) -> Result<()> {
        if !self.can("supportsFunctionBreakpoints") {
            return Err(self.lacks("stop at functions by name", Some("name the file and line".to_owned())));
        }
        for (it, _) in self.breakpoints().functions() {
            self.check_conditions(it.condition.as_ref(), it.hit.as_ref())?;
        }
        let arguments = self.inner.core().breakpoints.function_arguments(self.adapter.quirks.hit_count);
        let body = self.ask("setFunctionBreakpoints", arguments, Need::NotTerminated, clock).await?;
        self.inner.core().breakpoints.function_answer(&body);
        Ok(())
    }

    /// The exception filters that apply.
    ///
    /// These are the requested ones, else the definition's, else the adapter's defaults.
    pub fn filters(&self) -> Vec<String> {
        let core = self.inner.core();
        let offered = core.capabilities["exceptionBreakpointFilters"].as_array().map(Vec::as_slice);
        let offered: Vec<(&str, bool)> = offered
            .unwrap_or_default()
            .iter()
            .filter_map(|it| Some((it["filter"].as_str()?, it["default"] == true)))
            .collect();
        if let Some(wanted) = &core.breakpoints.exceptions {
            return wanted.clone();
        }
        let defined = &self.adapter.exceptions;
        let is_on = |name: &str, default: bool| {
            if defined.is_empty() { default } else { defined.iter().any(|it| it == name) }
        };
        offered
            .iter()
            .filter(|(name, default)| is_on(name, *default))
            .map(|(name, _)| (*name).to_owned())
            .collect()
    }

    pub(super) async fn send_exceptions(&self, clock: &Clock) -> Result<()> {
        let (offered, wanted) = {
            let core = self.inner.core();
            let offered = core.capabilities["exceptionBreakpointFilters"].as_array().cloned();
            (offered.unwrap_or_default(), core.breakpoints.exceptions.clone())
        };
        let names: Vec<&str> = offered.iter().filter_map(|it| it["filter"].as_str()).collect();
        let wanted_names = wanted.iter().flatten().map(|it| ExceptionFilter::read(it).name);
        let own = self.adapter.quirks.exception_names.as_ref();
        let is_known = |name: &str| names.contains(&name) || (own.is_some() && is_exception(name));
        if let Some(unknown) = wanted_names.into_iter().find(|name| !is_known(name)) {
            let panic = (!self.adapter.quirks.panic_functions.is_empty()).then_some("panic");
            let exceptions = own.map(|_| "and exceptions by name");
            let names: Vec<&str> = names.iter().copied().chain(panic).chain(exceptions).collect();
            let nearest = match names.is_empty() {
                true => "it has no exception filters".to_owned(),
                false => format!("there are: {}", names.join(", ")),
            };
            return Err(self.lacks(&format!("stop at exceptions `{unknown}`"), Some(nearest)));
        }
        if names.is_empty() {
            return Ok(());
        }
        let filters = self.filters();
        let (mut plain, mut options, mut by_name) = (Vec::new(), Vec::new(), Vec::new());
        for filter in &filters {
            let ExceptionFilter { name, mode, condition } = ExceptionFilter::read(filter);
            if let Some(own) = own.filter(|_| !names.contains(&name)) {
                by_name.push(self.by_name(own, name, mode, condition)?);
                continue;
            }
            if condition.is_none() && mode.is_none() {
                plain.push(name);
                continue;
            }
            let it = offered.iter().find(|it| it["filter"] == name);
            let takes = it.is_some_and(|it| it["supportsCondition"] == true) || condition.is_none();
            if !takes || !self.can("supportsExceptionFilterOptions") {
                let (what, nearest) = match condition {
                    Some(_) => ("on a condition", format!("name `{name}` without a condition")),
                    None => ("in a mode", format!("name `{name}` without a mode")),
                };
                return Err(self.lacks(&format!("stop at exceptions `{name}` {what}"), Some(nearest)));
            }
            if let Some(mode) = mode {
                self.has_mode(name, mode)?;
            }
            options.push(json!({ "filterId": name, "condition": condition, "mode": mode }));
        }
        let mut arguments = json!({ "filters": plain });
        if !options.is_empty() {
            arguments["filterOptions"] = json!(options);
        }
        if !by_name.is_empty() {
            arguments["exceptionOptions"] = json!(by_name);
        }
        self.ask("setExceptionBreakpoints", arguments, Need::NotTerminated, clock).await.map(drop)
    }

    /// The exception option that names an exception.
    fn by_name(
        &self,
        own: &ExceptionNames,
        name: &str,
        mode: Option<&str>,
        condition: Option<&str>,
    ) -> Result<Value> {
        let modes = ExceptionNames::MODES;
        if condition.is_some() {
            let nearest = format!("name `{name}` without a condition");
            return Err(self.lacks(&format!("stop at `{name}` on a condition"), Some(nearest)));
        }
        match mode.unwrap_or(modes[0]) {
            mode if modes.contains(&mode) => Ok(own.option(name, mode)),
            mode => {
                let nearest = format!("there are: {}", modes.join(", "));
                Err(self.lacks(&format!("stop at `{name}` in the mode `{mode}`"), Some(nearest)))
            }
        }
    }

    /// Checks whether the adapter has a mode for exceptions; DAP §BreakpointMode.
    fn has_mode(&self, name: &str, mode: &str) -> Result<()> {
        let reported = self.inner.core().capabilities["breakpointModes"].clone();
        let applies =
            |it: &&Value| it["appliesTo"].as_array().is_some_and(|it| it.iter().any(|it| it == "exception"));
        let modes: Vec<&str> = reported
            .as_array()
            .into_iter()
            .flatten()
            .filter(applies)
            .filter_map(|it| it["mode"].as_str())
            .collect();
        if modes.contains(&mode) {
            return Ok(());
        }
        let nearest = if modes.is_empty() {
            format!("name `{name}` without a mode")
        } else {
            format!("there are: {}", modes.join(", "))
        };
        Err(self.lacks(&format!("stop at exceptions `{name}` in the mode `{mode}`"), Some(nearest)))
    }

    pub(super) fn lacks(&self, what: &str, nearest: Option<String>) -> DapError {
        DapError::Unsupported { adapter: self.adapter.name.clone(), what: what.to_owned(), nearest }
    }

    /// Resumes with `command` (`continue`, `next`, `stepIn`, `stepOut`).
    ///
    /// [`Session::wait_for_stop`] waits for the result.
    ///
    /// # Errors
    /// [`DapError`]; the program stays stopped if the adapter refuses.
    pub async fn run(&self, command: &str, thread: Option<i64>, clock: &Clock) -> Result<()> {
        self.run_with(command, thread, json!({}), clock).await
    }

    /// [`Self::run`] with further arguments, such as the `granularity` of a step.
    ///
    /// # Errors
    /// [`DapError`]; the program stays stopped if the adapter refuses.
    pub async fn run_with(
        &self,
        command: &str,
        thread: Option<i64>,
        mut arguments: Value,
        clock: &Clock,
    ) -> Result<()> {
        self.in_control(command)?;
        let thread = self.resolve_thread(command, thread, clock).await?;
        arguments["threadId"] = json!(thread);
        self.run_raw(command, arguments, clock).await.map(drop)
    }

    /// Sends any request that [`runs_on`] with unchanged arguments.
    ///
    /// Returns the answer's body.
    ///
    /// # Errors
    /// [`DapError`]; the program stays stopped if the adapter refuses.
    pub async fn run_raw(&self, command: &str, arguments: Value, clock: &Clock) -> Result<Value> {
        self.in_control(command)?;
        self.check_capability(command)?;
        // A later takeover by the user is news to the agent.
        self.control_taken();
        // The request is checked and applied before sending, because the next stop may precede the
        // answer.
        {
            let core = self.inner.core();
            let need = if command == "restart" { Need::NotTerminated } else { Need::Stopped };
            core.machine.check(command, need)?;
        }
        self.inner.take(Input::Resuming);
        let answer = self.ask(command, arguments, Need::NotTerminated, clock).await;
        match answer {
            Err(error @ DapError::Refused { .. }) => {
                self.inner.take(Input::NotResumed);
                Err(error)
            }
            // The program may end before the adapter answers, for example at a last step.
            Err(DapError::Crashed { .. } | DapError::WrongState(_)) if self.ended_well() => Ok(Value::Null),
            other => other,
        }
    }

    fn ended_well(&self) -> bool {
        matches!(self.state(), State::Terminated(end) if end.failure.is_none())
    }

    /// Pauses the program.
    ///
    /// # Errors
    /// [`DapError`].
    pub async fn pause(&self, thread: Option<i64>, clock: &Clock) -> Result<()> {
        self.inner.core().machine.check("pause", Need::Running)?;
        self.in_control("pause")?;
        self.control_taken();
        let thread = match thread {
            Some(thread) => thread,
            None => self.threads(clock).await?.first().map_or(1, |thread| thread.id),
        };
        self.ask("pause", json!({ "threadId": thread }), Need::NotTerminated, clock).await.map(drop)
    }

    /// # Errors
    /// [`DapError`].
    pub async fn threads(&self, clock: &Clock) -> Result<Vec<Thread>> {
        let body = self.ask("threads", Value::Null, Need::Alive, clock).await?;
        let threads = body["threads"].as_array().into_iter().flatten();
        let read = |it: &Value| {
            Some(Thread { id: it["id"].as_i64()?, name: it["name"].as_str().unwrap_or_default().to_owned() })
        };
        Ok(threads.filter_map(read).collect())
    }

    /// The thread to use: the named one, else the one that stopped, else the first.
    pub(super) async fn resolve_thread(
        &self,
        command: &str,
        named: Option<i64>,
        clock: &Clock,
    ) -> Result<i64> {
        let stop = match self.state() {
            State::Stopped(stop) => stop,
            _ => {
                self.inner.core().machine.check(command, Need::Stopped)?;
                return Err(DapError::Cancelled);
            }
        };
        if let Some(thread) = named.or(stop.thread) {
            return Ok(thread);
        }
        let threads = self.threads(clock).await?;
        let none =
            || DapError::Invalid("the adapter reports no thread, so there is nothing to run".to_owned());
        threads.first().map(|thread| thread.id).ok_or_else(none)
    }

    /// At most `levels` frames of a thread from `start` on, top first, and the total if
    /// it is known.
    ///
    /// # Errors
    /// [`DapError`].
    pub async fn stack(
        &self,
        thread: Option<i64>,
        start: u64,
        levels: u64,
        clock: &Clock,
    ) -> Result<(Vec<Frame>, Option<u64>)> {
        let thread = self.resolve_thread("stack", thread, clock).await?;
        let epoch = self.inner.core().machine.epoch();
        // An adapter without this capability may ignore the start (DAP §Capabilities).
        let pages = self.can("supportsDelayedStackTraceLoading");
        let (from, most) = if pages { (start, levels) } else { (0, start.saturating_add(levels)) };
        let arguments = json!({ "threadId": thread, "startFrame": from, "levels": most });
        let body = self.ask("stackTrace", arguments, Need::Stopped, clock).await?;
        let mut core = self.inner.core();
        check_epoch(&core.machine, epoch, "stack")?;
        let reported = body["stackFrames"].as_array().map(Vec::as_slice).unwrap_or_default();
        // Some adapters return all frames, whatever the request.
        let is_all = reported.len() as u64 > most;
        let total = body["totalFrames"].as_u64().or(is_all.then_some(reported.len() as u64));
        let skip = if is_all || !pages { start } else { 0 };
        let as_size = |it: u64| usize::try_from(it).unwrap_or(usize::MAX);
        let frames = reported.iter().skip(as_size(skip)).take(as_size(levels));
        Ok((frames.map(|it| read_frame(&mut core, epoch, &self.adapter.quirks, it)).collect(), total))
    }

    /// The stack of a thread that runs, if the adapter knows it.
    ///
    /// Its frames cannot be inspected.
    ///
    /// # Errors
    /// [`DapError`]; most adapters refuse it.
    pub async fn running_stack(&self, thread: i64, levels: u64, clock: &Clock) -> Result<Vec<Frame>> {
        let arguments = json!({ "threadId": thread, "startFrame": 0, "levels": levels });
        let body = self.ask("stackTrace", arguments, Need::Alive, clock).await?;
        let mut core = self.inner.core();
        let epoch = core.machine.epoch();
        let frames = body["stackFrames"].as_array().into_iter().flatten();
        Ok(frames.map(|it| read_frame(&mut core, epoch, &self.adapter.quirks, it)).collect())
    }

    /// The scopes of a frame.
    ///
    /// # Errors
    /// [`DapError`]; a frame of an earlier stop is refused by name.
    pub async fn scopes(&self, frame: i64, clock: &Clock) -> Result<Vec<Scope>> {
        let (epoch, frame) = self.resolve_frame("scopes", Some(frame))?;
        let code = self.adapter.quirks.first_stop.as_ref().filter(|_| !self.is_external());
        if let Some(code) = code.filter(|_| !self.prepared.swap(true, Ordering::Relaxed)) {
            let arguments = json!({ "expression": code, "frameId": frame, "context": "repl" });
            if let Err(error) = self.ask("evaluate", arguments, Need::Stopped, clock).await {
                tracing::debug!(session = self.id, %error, "values are read without preparation");
            }
        }
        let body = self.ask("scopes", json!({ "frameId": frame }), Need::Stopped, clock).await?;
        let mut core = self.inner.core();
        check_epoch(&core.machine, epoch, "scopes")?;
        let mut scopes = Vec::new();
        for it in body["scopes"].as_array().into_iter().flatten() {
            let name = it["name"].as_str().unwrap_or("?").to_owned();
            let reference = it["variablesReference"].as_i64().unwrap_or(0);
            scopes.push(Scope {
                variables: core.variables.assign(epoch, reference, &name),
                count: count(it),
                expensive: it["expensive"] == true,
                hint: it["presentationHint"].as_str().map(str::to_owned),
                name,
            });
        }
        Ok(scopes)
    }

    /// The variables in a scope or value.
    ///
    /// # Errors
    /// [`DapError`]; a number of an earlier stop is refused by name.
    pub async fn variables(&self, container: i64, page: &Page, clock: &Clock) -> Result<Vec<Variable>> {
        let (epoch, handle, stop) = {
            let core = self.inner.core();
            core.machine.check("variables", Need::Stopped)?;
            let epoch = core.machine.epoch();
            (epoch, core.variables.find(epoch, container)?.clone(), core.machine.state().clone())
        };
        let paged = page.count > 0 && self.can("supportsVariablePaging") || page.filter.is_some();
        let mut arguments = json!({ "variablesReference": handle.reference, "filter": page.filter });
        if page.count > 0 && (paged || page.filter.is_some()) {
            arguments["start"] = json!(page.start);
            arguments["count"] = json!(page.count);
        }
        let sent_page = arguments.get("count").is_some();
        let body = self.ask("variables", arguments, Need::Stopped, clock).await?;
        let mut core = self.inner.core();
        // debugpy resumes other threads while a value is slow to show, and repeats the stop.
        let epoch = if *core.machine.state() == stop { core.machine.epoch() } else { epoch };
        check_epoch(&core.machine, epoch, "variables")?;
        let all = body["variables"].as_array().cloned().unwrap_or_default();
        let limit = if page.count > 0 { page.count } else { u64::MAX };
        // An adapter without paging returned all variables.
        let skip = if sent_page && all.len() as u64 <= limit { 0 } else { page.start };
        let (skip, limit) = (usize::try_from(skip), usize::try_from(limit));
        let chosen = all.iter().skip(skip.unwrap_or(usize::MAX)).take(limit.unwrap_or(usize::MAX));
        Ok(chosen.map(|it| read_variable(&mut core, epoch, it, "value", &handle.name)).collect())
    }

    /// Evaluates `expression`, in a frame or globally.
    ///
    /// # Errors
    /// [`DapError`]; a frame of an earlier stop is refused by name.
    pub async fn evaluate(
        &self,
        expression: &str,
        frame: Option<i64>,
        context: &str,
        clock: &Clock,
    ) -> Result<Variable> {
        let (epoch, frame_reference) = match frame {
            Some(_) => self.resolve_frame("evaluate", frame).map(|(epoch, frame)| (epoch, Some(frame)))?,
            None => (self.inner.core().machine.epoch(), None),
        };
        let quoted = self.adapter.quirks.evaluates_shell && context != "repl" && is_expansion(expression);
        let sent = if quoted { format!("\"{}\"", expression.trim()) } else { expression.to_owned() };
        let arguments =
            |sent: &str| json!({ "expression": sent, "frameId": frame_reference, "context": context });
        let mut answer = self.ask("evaluate", arguments(&sent), Need::Stopped, clock).await;
        // CodeLLDB's own expressions have no `*p` and `p->member`.
        let native = self.adapter.quirks.native_prefix.as_ref().filter(|_| context != "repl");
        if let Some(prefix) = native.filter(|it| !sent.starts_with(it.as_str()))
            && let Err(DapError::Refused { .. }) = &answer
            && let Ok(body) =
                self.ask("evaluate", arguments(&format!("{prefix}{sent}")), Need::Stopped, clock).await
        {
            answer = Ok(body);
        }
        let body = answer?;
        let mut core = self.inner.core();
        let mut value = read_variable(&mut core, epoch, &body, "result", "");
        value.name = expression.to_owned();
        Ok(value)
    }

    /// Sets a variable of a scope or value; returns its new value.
    ///
    /// # Errors
    /// [`DapError`].
    pub async fn set_variable(
        &self,
        container: i64,
        name: &str,
        value: &str,
        clock: &Clock,
    ) -> Result<Variable> {
        if !self.can("supportsSetVariable") {
            let nearest = "evaluate an assignment, if the language has one".to_owned();
            return Err(self.lacks("set variables", Some(nearest)));
        }
        let (epoch, handle) = {
            let core = self.inner.core();
            core.machine.check("set_variable", Need::Stopped)?;
            let epoch = core.machine.epoch();
            (epoch, core.variables.find(epoch, container)?.clone())
        };
        let arguments = json!({ "variablesReference": handle.reference, "name": name, "value": value });
        let body = self.ask("setVariable", arguments, Need::Stopped, clock).await?;
        let mut core = self.inner.core();
        let mut set = read_variable(&mut core, epoch, &body, "value", &handle.name);
        set.name = name.to_owned();
        Ok(set)
    }

    /// Name and description of the exception that stopped a thread.
    ///
    /// `None` if the adapter does not report it.
    ///
    /// # Errors
    /// [`DapError`].
    pub async fn exception(&self, clock: &Clock) -> Result<Option<(String, String)>> {
        if !self.can("supportsExceptionInfoRequest") {
            return Ok(None);
        }
        let info = self.exception_info(None, clock).await?;
        Ok(Some((info.id, info.description)))
    }

    /// A text about an exception without what the adapter adds; `None` if it is empty.
    pub(super) fn own_text(&self, value: &Value) -> Option<String> {
        let text = self.adapter.quirks.without_texts(value.as_str()?);
        Some(text.trim()).filter(|it| !it.is_empty()).map(str::to_owned)
    }

    pub fn output(&self, from: u64) -> Since {
        self.inner.flush_partial_output();
        self.inner.output().since(from)
    }

    /// Whether the output is the parent's.
    ///
    /// A launcher receives the output of all its programs as one.
    pub fn shares_output(&self) -> bool {
        self.inner.one_output
    }

    /// The epoch, and the adapter's number of a frame.
    pub(super) fn resolve_frame(&self, command: &str, frame: Option<i64>) -> Result<(u64, i64)> {
        let core = self.inner.core();
        core.machine.check(command, Need::Stopped)?;
        let epoch = core.machine.epoch();
        let frame = frame.ok_or_else(|| DapError::Invalid(format!("`{command}` needs `frame`")))?;
        Ok((epoch, core.frames.find(epoch, frame)?.reference))
    }
}

/// Whether a name is an exception and not a filter.
///
/// Examples are `KeyError`, `decimal.Overflow` and `struct.error`.
fn is_exception(name: &str) -> bool {
    let is_name = |it: &str| !it.is_empty() && it.chars().all(|c| c.is_alphanumeric() || c == '_');
    (name.starts_with(char::is_uppercase) || name.contains('.')) && name.split('.').all(is_name)
}

/// Whether a shell expression is a single expansion.
///
/// The shell would split an unquoted one into words and expand file names.
fn is_expansion(expression: &str) -> bool {
    let Some(rest) = expression.trim().strip_prefix('$') else { return false };
    let is_name = |it: &str| it.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !it.is_empty();
    let braced = rest.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
    is_name(rest) || braced.is_some_and(|it| !it.contains(['"', '{', '}', '`', '\\']))
}

fn read_frame(core: &mut super::Core, epoch: u64, quirks: &Quirks, it: &Value) -> Frame {
    let reported = it["name"].as_str().unwrap_or("?");
    let name = quirks.without_texts(reported).into_owned();
    let source = &it["source"];
    let on_disk = source["sourceReference"].as_i64().unwrap_or(0) == 0;
    let path = source["path"].as_str().filter(|_| on_disk).and_then(AbsPath::new);
    let file = path.as_ref().map(AbsPath::file_name).or_else(|| source["name"].as_str().map(str::to_owned));
    let line = it["line"].as_u64().unwrap_or(0);
    let label = file.as_ref().map_or(name.clone(), |file| format!("{name} at {file}:{line}"));
    let reference = it["id"].as_i64().unwrap_or(0);
    let subtle = |hint: &Value| matches!(hint.as_str(), Some("subtle" | "deemphasize" | "label"));
    let id = core.frames.assign(epoch, reference, &label);
    let instruction = it["instructionPointerReference"].as_str().map(str::to_owned);
    if core.details_epoch != epoch {
        core.details_epoch = epoch;
        core.details.clear();
    }
    core.details.insert(id, super::Details { source: source.clone(), instruction });
    Frame {
        id,
        is_marked: name != reported,
        name,
        path,
        source: file,
        line,
        column: it["column"].as_u64().unwrap_or(0),
        subtle: subtle(&it["presentationHint"]) || subtle(&source["presentationHint"]),
    }
}

/// Refuses an answer that arrived after the program was resumed.
fn check_epoch(machine: &crate::debuggee::Machine, epoch: u64, command: &str) -> Result<()> {
    machine.check(command, Need::Stopped)?;
    if machine.epoch() == epoch {
        return Ok(());
    }
    let help = "it was resumed meanwhile; try again";
    let error = WrongState { command: command.to_owned(), state: machine.state().name(), help };
    Err(error.into())
}

fn count(it: &Value) -> Option<u64> {
    let (named, indexed) = (it["namedVariables"].as_u64(), it["indexedVariables"].as_u64());
    (named.is_some() || indexed.is_some()).then(|| named.unwrap_or(0) + indexed.unwrap_or(0))
}

pub(super) fn read_variable(
    core: &mut super::Core,
    epoch: u64,
    it: &Value,
    value: &str,
    within: &str,
) -> Variable {
    let name = it["name"].as_str().unwrap_or_default().to_owned();
    let expression = it["evaluateName"].as_str().map(str::to_owned);
    let label = expression.clone().unwrap_or_else(|| format!("{within} {name}").trim().to_owned());
    let reference = it["variablesReference"].as_i64().unwrap_or(0);
    let variables = if reference > 0 { core.variables.assign(epoch, reference, &label) } else { 0 };
    // lldb-dap 19 answers `setVariable` with `result`.
    let text = if it[value].is_null() { &it["result"] } else { &it[value] };
    let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
    Variable {
        name,
        value: text,
        kind: it["type"].as_str().filter(|kind| !kind.is_empty()).map(str::to_owned),
        variables,
        count: count(it),
        expression,
        memory: it["memoryReference"].as_str().filter(|it| !it.is_empty()).map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::is_expansion;

    #[test]
    fn a_single_shell_expansion_is_recognized() {
        for one in ["$f", " $1 ", "${f}", "${a[1]}", "${f%.sh}"] {
            assert!(is_expansion(one), "{one}");
        }
        for other in ["f", "\"$f\"", "$f $g", "$f.sh", "$(f)", "${f}${g}", "${f:-\"a\"}", "$", "[[ $f ]]"] {
            assert!(!is_expansion(other), "{other}");
        }
    }
}
