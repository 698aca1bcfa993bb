//! Rare requests: jumps, memory, disassembly, completions, sources, modules, data breakpoints.
//!
//! Each checks the adapter's capabilities first, and refuses an unsupported request with the
//! nearest alternative.

use paths::AbsPath;
use serde_json::{Value, json};

use super::{Clock, Session, Variable};
use crate::debuggee::{DataBreakpoint, InstructionBreakpoint};
use crate::debuggee::{Input, Need};
use crate::error::{DapError, Result};

/// A position from which a thread can continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GotoTarget {
    pub id: i64,
    pub label: String,
    /// Line number, from 1.
    pub line: u64,
}

/// Details of the exception that stopped a thread; DAP §ExceptionInfo Request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExceptionInfo {
    pub id: String,
    pub description: String,
    /// Condition of the stop, such as `always` or `unhandled`.
    pub mode: String,
    /// The full name of the exception's type.
    pub kind: Option<String>,
    /// The stack trace of the throw, as the language writes it.
    pub stack: Option<String>,
}

impl Session {
    fn needs(&self, capability: &str, what: &str, nearest: &str) -> Result<()> {
        if self.can(capability) {
            return Ok(());
        }
        Err(self.lacks(what, Some(nearest.to_owned())))
    }

    /// Steps back, or runs back to the previous breakpoint.
    ///
    /// The requests are `stepBack` and `reverseContinue`.
    ///
    /// # Errors
    /// [`DapError`].
    pub async fn back(&self, command: &str, thread: Option<i64>, clock: &Clock) -> Result<()> {
        let nearest = "`restart` it with a breakpoint before this line";
        self.needs("supportsStepBack", "run backwards", nearest)?;
        self.run(command, thread, clock).await
    }

    /// Whether the adapter can restart the program.
    pub fn can_restart(&self) -> bool {
        self.can("supportsRestartRequest")
    }

    /// Restarts the program.
    ///
    /// # Errors
    ///
    /// [`DapError`].
    pub async fn restart(&self, clock: &Clock) -> Result<()> {
        self.in_control("restart")?;
        self.control_taken();
        // Some adapters read the arguments, and some fail without any.
        let arguments = json!({ "arguments": self.plan.arguments });
        self.inner.take(Input::Resuming);
        match self.ask("restart", arguments, Need::NotTerminated, clock).await {
            Err(error @ DapError::Refused { .. }) => {
                self.inner.take(Input::NotResumed);
                Err(error)
            }
            other => other.map(drop),
        }
    }

    /// The positions on a line from which a thread can continue.
    ///
    /// A jump skips the code between.
    ///
    /// # Errors
    ///
    /// [`DapError`].
    pub async fn goto_targets(&self, path: &AbsPath, line: u64, clock: &Clock) -> Result<Vec<GotoTarget>> {
        let nearest = "`run_to` continues to a line";
        self.needs("supportsGotoTargetsRequest", "jump to a line", nearest)?;
        let source = json!({ "name": path.file_name(), "path": path.to_string() });
        let body =
            self.ask("gotoTargets", json!({ "source": source, "line": line }), Need::Stopped, clock).await?;
        let read = |it: &Value| {
            Some(GotoTarget {
                id: it["id"].as_i64()?,
                label: it["label"].as_str().unwrap_or_default().to_owned(),
                line: it["line"].as_u64().unwrap_or(line),
            })
        };
        Ok(body["targets"].as_array().into_iter().flatten().filter_map(read).collect())
    }

    /// Moves a thread to a target; the adapter reports a stop there.
    ///
    /// # Errors
    /// [`DapError`].
    pub async fn goto(&self, target: i64, thread: Option<i64>, clock: &Clock) -> Result<()> {
        self.run_with("goto", thread, json!({ "targetId": target }), clock).await
    }

    /// Reads memory at a reference.
    ///
    /// Returns the address, base64 data as the adapter wrote it, and the number of unreadable bytes.
    ///
    /// # Errors
    /// [`DapError`].
    pub async fn read_memory(
        &self,
        reference: &str,
        offset: i64,
        count: u64,
        clock: &Clock,
    ) -> Result<(String, String, u64)> {
        self.needs("supportsReadMemoryRequest", "read memory", "`evaluate` a pointer or an index")?;
        let arguments = json!({ "memoryReference": reference, "offset": offset, "count": count });
        let body = self.ask("readMemory", arguments, Need::Stopped, clock).await?;
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        Ok((text("address"), text("data"), body["unreadableBytes"].as_u64().unwrap_or(0)))
    }

    /// Writes base64 data to a memory reference.
    ///
    /// Returns the number of bytes written, if reported.
    ///
    /// # Errors
    /// [`DapError`].
    pub async fn write_memory(
        &self,
        reference: &str,
        offset: i64,
        data: &str,
        clock: &Clock,
    ) -> Result<Option<u64>> {
        self.needs("supportsWriteMemoryRequest", "write memory", "`set_variable` changes a value")?;
        let arguments = json!({ "memoryReference": reference, "offset": offset, "data": data });
        let body = self.ask("writeMemory", arguments, Need::Stopped, clock).await?;
        Ok(body["bytesWritten"].as_u64())
    }

    /// The instructions from a memory reference on, as reported.
    ///
    /// # Errors
    /// [`DapError`].
    pub async fn disassemble(
        &self,
        reference: &str,
        offset: i64,
        count: u64,
        clock: &Clock,
    ) -> Result<Vec<Value>> {
        self.needs("supportsDisassembleRequest", "disassemble", "`source` or `stack` show what runs")?;
        let arguments = json!({ "memoryReference": reference, "instructionOffset": offset,
            "instructionCount": count, "resolveSymbols": true });
        let body = self.ask("disassemble", arguments, Need::Stopped, clock).await?;
        Ok(body["instructions"].as_array().cloned().unwrap_or_default())
    }

    /// The current instruction of a frame, as a memory reference.
    ///
    /// # Errors
    /// [`DapError`]; a frame of an earlier stop is refused by name.
    pub fn instruction(&self, frame: i64) -> Result<Option<String>> {
        self.resolve_frame("disassemble", Some(frame))?;
        Ok(self.inner.core().details.get(&frame).and_then(|it| it.instruction.clone()))
    }

    /// The completions at the end of an expression.
    ///
    /// # Errors
    /// [`DapError`].
    pub async fn completions(&self, text: &str, frame: Option<i64>, clock: &Clock) -> Result<Vec<String>> {
        self.needs(
            "supportsCompletionsRequest",
            "complete expressions",
            "`scopes` and `variables` list names",
        )?;
        let frame =
            frame.map(|it| self.resolve_frame("completions", Some(it)).map(|(_, it)| it)).transpose()?;
        let before = self.adapter.quirks.completion_prefix.as_deref().unwrap_or_default();
        let text = &format!("{before}{text}");
        // Columns are UTF-16 code units; DAP §Completions Request.
        let column = text.encode_utf16().count() + 1;
        let arguments = json!({ "text": text, "column": column, "frameId": frame });
        let body = self.ask("completions", arguments, Need::Stopped, clock).await?;
        let label = |it: &Value| {
            let label = it["text"].as_str().or(it["label"].as_str())?;
            Some(label.strip_prefix(before).unwrap_or(label).to_owned())
        };
        Ok(body["targets"].as_array().into_iter().flatten().filter_map(label).collect())
    }

    /// Sets an assignable expression; returns its new value.
    ///
    /// # Errors
    /// [`DapError`].
    pub async fn set_expression(
        &self,
        expression: &str,
        value: &str,
        frame: i64,
        clock: &Clock,
    ) -> Result<Variable> {
        let nearest = if self.can("supportsSetVariable") {
            "`set_variable` with `name` and the `variables_reference` that it is in"
        } else {
            "`evaluate` an assignment, if the language has one"
        };
        self.needs("supportsSetExpression", "set expressions", nearest)?;
        let (epoch, reference) = self.resolve_frame("set_expression", Some(frame))?;
        let arguments = json!({ "expression": expression, "value": value, "frameId": reference });
        let body = self.ask("setExpression", arguments, Need::Stopped, clock).await?;
        let mut core = self.inner.core();
        let mut set = super::requests::read_variable(&mut core, epoch, &body, "value", "");
        set.name = expression.to_owned();
        Ok(set)
    }

    /// The source text of a frame whose source is not a file.
    ///
    /// # Errors
    /// [`DapError`]; a frame of an earlier stop is refused by name.
    pub async fn source(&self, frame: i64, clock: &Clock) -> Result<String> {
        self.resolve_frame("source", Some(frame))?;
        let source = self.inner.core().details.get(&frame).map(|it| it.source.clone()).unwrap_or_default();
        let reference = source["sourceReference"].as_i64().unwrap_or(0);
        if reference == 0 {
            let nearest = match source["path"].as_str().filter(|path| AbsPath::new(path).is_some()) {
                Some(path) => format!("its source is a file, `read` it: {path}"),
                None => "`disassemble` shows its instructions if the adapter supports it".to_owned(),
            };
            return Err(self.lacks("show a source of this frame", Some(nearest)));
        }
        let arguments = json!({ "source": source, "sourceReference": reference });
        let body = self.ask("source", arguments, Need::NotTerminated, clock).await?;
        Ok(body["content"].as_str().unwrap_or_default().to_owned())
    }

    /// All details of the exception that stopped a thread.
    ///
    /// # Errors
    /// [`DapError`].
    pub async fn exception_info(&self, thread: Option<i64>, clock: &Clock) -> Result<ExceptionInfo> {
        let nearest = "`snapshot` shows why it stopped";
        self.needs("supportsExceptionInfoRequest", "report exceptions", nearest)?;
        let thread = self.resolve_thread("exception_info", thread, clock).await?;
        let body = self.ask("exceptionInfo", json!({ "threadId": thread }), Need::Stopped, clock).await?;
        let (text, details) = (|value: &Value| self.own_text(value), &body["details"]);
        Ok(ExceptionInfo {
            id: text(&body["exceptionId"]).unwrap_or_default(),
            description: text(&body["description"]).or(text(&details["message"])).unwrap_or_default(),
            mode: text(&body["breakMode"]).unwrap_or_default(),
            kind: text(&details["fullTypeName"]).or(text(&details["typeName"])),
            stack: text(&details["stackTrace"]),
        })
    }

    /// The loaded `modules` or `loadedSources`, as reported.
    ///
    /// # Errors
    /// [`DapError`].
    pub async fn loaded(&self, modules: bool, clock: &Clock) -> Result<Vec<Value>> {
        let (capability, command, member, what) = if modules {
            ("supportsModulesRequest", "modules", "modules", "list modules")
        } else {
            ("supportsLoadedSourcesRequest", "loadedSources", "sources", "list what is loaded")
        };
        self.needs(capability, what, "`stack` shows the sources of the frames")?;
        let body = self.ask(command, json!({}), Need::Alive, clock).await?;
        Ok(body[member].as_array().cloned().unwrap_or_default())
    }

    /// Data breakpoint on a variable, named within `container` or by an expression.
    ///
    /// # Errors
    /// [`DapError`]; the adapter's reason if it cannot watch the data.
    pub async fn data_breakpoint(
        &self,
        name: &str,
        container: Option<i64>,
        frame: Option<i64>,
        clock: &Clock,
    ) -> Result<DataBreakpoint> {
        let nearest = "`trace` shows the changes of an expression";
        self.needs("supportsDataBreakpoints", "stop where data changes", nearest)?;
        let reference = match container {
            Some(container) => {
                let core = self.inner.core();
                Some(core.variables.find(core.machine.epoch(), container)?.reference)
            }
            None => None,
        };
        let frame =
            frame.map(|it| self.resolve_frame("breakpoints", Some(it)).map(|(_, it)| it)).transpose()?;
        let arguments = json!({ "variablesReference": reference, "name": name, "frameId": frame });
        let body = self.ask("dataBreakpointInfo", arguments, Need::Stopped, clock).await?;
        let said = body["description"].as_str().unwrap_or(name).to_owned();
        match body["dataId"].as_str() {
            Some(id) => {
                let (id, name, access) = (id.to_owned(), name.to_owned(), self.access(id, None)?);
                Ok(DataBreakpoint { id, name, label: said, access, ..DataBreakpoint::default() })
            }
            None => Err(DapError::Invalid(format!("{name} cannot be watched: {said}"))),
        }
    }

    /// The way to watch data that the adapter named `id` in this session.
    ///
    /// Prefers `wanted`, then writes, then the first supported way.
    ///
    /// # Errors
    ///
    /// [`DapError`] if the adapter named no such data or does not support the access.
    pub fn access(&self, id: &str, wanted: Option<&str>) -> Result<String> {
        let known = self.inner.core().data_ids.get(id).cloned();
        // lldb-dap 19 stops answering after an unknown id.
        let Some(known) = known else {
            let name = &self.adapter.name;
            let message = format!(
                "{name} named no data `{id}` in this session; give the `name` of a variable or expression"
            );
            return Err(DapError::Invalid(message));
        };
        let can = |access: &str| known.is_empty() || known.iter().any(|it| it == access);
        match wanted {
            Some(wanted) if can(wanted) => Ok(wanted.to_owned()),
            Some(wanted) => {
                let nearest = format!("`access` can be: {}", known.join(", "));
                Err(self.lacks(&format!("stop at a {wanted} of it"), Some(nearest)))
            }
            None if can("write") => Ok("write".to_owned()),
            None => Ok(known.first().cloned().unwrap_or_default()),
        }
    }

    pub(super) async fn send_data(&self, clock: &Clock) -> Result<()> {
        let nearest = "`trace` shows the changes of an expression";
        self.needs("supportsDataBreakpoints", "stop where data changes", nearest)?;
        for (it, _) in self.breakpoints().data() {
            self.check_conditions(it.condition.as_ref(), it.hit.as_ref())?;
        }
        let arguments = self.inner.core().breakpoints.data_arguments(self.adapter.quirks.hit_count);
        let body = self.ask("setDataBreakpoints", arguments, Need::NotTerminated, clock).await?;
        self.inner.core().breakpoints.data_answer(&body);
        Ok(())
    }

    pub(super) async fn send_instructions(&self, clock: &Clock) -> Result<()> {
        let nearest = "set it on a line or a function";
        self.needs("supportsInstructionBreakpoints", "stop at instructions", nearest)?;
        for (it, _) in self.breakpoints().instructions() {
            self.check_conditions(it.condition.as_ref(), it.hit.as_ref())?;
        }
        let arguments = self.inner.core().breakpoints.instruction_arguments(self.adapter.quirks.hit_count);
        let body = self.ask("setInstructionBreakpoints", arguments, Need::NotTerminated, clock).await?;
        self.inner.core().breakpoints.instruction_answer(&body);
        Ok(())
    }

    pub fn at_instruction(reference: &str, offset: i64) -> InstructionBreakpoint {
        InstructionBreakpoint { reference: reference.to_owned(), offset, condition: None, hit: None }
    }
}
