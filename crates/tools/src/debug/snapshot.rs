//! One snapshot: why and where a program stopped, the person's frames, locals that changed, new output; or
//! how it ended.
//!
//! Bounded, and what was left out is said with the action that shows it.

use std::collections::BTreeMap;
use std::sync::Arc;

use adapters::DebuggerDefinition;
use agent::{ToolCx, ToolResult};
use dap_client::{
    Breakpoints, Clock, DapError, End, Ending, Frame, Page, Session, Since, State, Stop, Variable,
};
use policy::ErrorCode;
use serde_json::{Value, json};

use super::Debug;
use crate::{Failure, ToolContext, counted, display};

/// Reasons of stops at which what a statement came to is of interest.
const FAILURES: &[&str] = &["exception", "function breakpoint", "signal"];
pub(super) const FRAMES: u64 = 50;
const SHOWN_FRAMES: usize = 8;
const LOCALS: usize = 40;
const VALUE: usize = 200;
const OUTPUT: usize = 4_000;
/// Lines before and after the one that is next.
const AROUND: u64 = 3;
/// So often a program may run on while it is looked at.
const RUN_ON: usize = 3;

/// What the last snapshot of a session showed.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    output: u64,
    /// The call that the locals are of; none where it cannot be told from others.
    call: Option<Call>,
    locals: BTreeMap<String, String>,
    /// The frame whose locals were shown, and the epoch that it is of.
    frame: Option<(u64, i64)>,
}

/// A call as far as it can be told from others: recursion and threads run the same function.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    function: String,
    thread: Option<i64>,
    /// Frames from it on, itself among them.
    depth: u64,
}

impl Debug {
    /// What a session wrote so far is not shown as new any more.
    pub(super) fn pass_over_output(&self, session: &Session) {
        let mut seen = self.seen.lock();
        seen.entry(session.id.clone()).or_default().output = session.output(u64::MAX).next;
    }

    /// The frame whose locals the last snapshot showed, and the epoch that it is of.
    pub(super) fn shown_last(&self, session: &Session) -> Option<(u64, i64)> {
        self.seen.lock().get(&session.id)?.frame
    }

    /// Waits until the program is stopped or over, or the time is, and shows it. One that the person runs on meanwhile
    /// is shown where it stops next.
    pub(super) async fn snapshot(
        &self,
        session: &Arc<Session>,
        cx: &ToolCx,
        clock: &Clock,
    ) -> Result<ToolResult, Failure> {
        for _ in 0..RUN_ON {
            match self.as_it_is(session, cx, clock).await {
                Err(failure) if failure.code == ErrorCode::WrongState => {}
                shown => return shown,
            }
        }
        self.as_it_is(session, cx, clock).await
    }

    async fn as_it_is(
        &self,
        session: &Arc<Session>,
        cx: &ToolCx,
        clock: &Clock,
    ) -> Result<ToolResult, Failure> {
        let asked = session;
        let earlier = self.stops(asked);
        let session = &self.context.debug.settled(asked, clock).await?;
        self.context.debug.show(session, &cx.starter);
        let state = session.state();
        let before = self.seen.lock().get(&session.id).cloned();
        let first = before.is_none();
        let before = before.unwrap_or_default();
        let mut seen = Seen { output: before.output, ..Seen::default() };
        let mut details = self.context.debug.describe(session);
        details["state"] = json!(state.name());
        let mut text = self.runs_still(asked, session, &earlier);
        text.push_str(&format!("{}: {}", session.id, session.title));
        match &state {
            State::Stopped(stop) => {
                let time = Clock::new(std::time::Duration::from_secs(10), &cx.cancel);
                let (stopped, data) = self.stopped(session, stop, &before, &mut seen, cx, &time).await?;
                text.push_str(&stopped);
                super::inspect::merge(&mut details, data);
            }
            State::Terminated(end) => {
                let end = &self.context.debug.end_of(session).unwrap_or_else(|| end.clone());
                let by_person = session.shared().ended_by_person.then_some(Ending::Terminated);
                let end = &End { asked: end.asked.or(by_person), ..end.clone() };
                text.push_str(&format!(" {}\n", ended(end, &session.adapter)));
                if session.shared().ended_by_person {
                    text.push_str("terminated_by_user: the person ended it\n");
                    details["ended_by"] = json!("terminated_by_user");
                }
                text.push_str(&self.outlives(session));
                super::inspect::merge(
                    &mut details,
                    json!({ "exit_code": end.exit_code, "signal": end.signal,
                    "failure": end.failure }),
                );
            }
            other => {
                let pause = if session.in_control("pause").is_ok() { "`pause` it, or " } else { "" };
                text.push_str(&format!(" is {}; {pause}wait longer with `snapshot`\n", other.name()));
            }
        }
        let over = matches!(&state, State::Terminated(end) if end.asked.is_none() && end.failure.is_none());
        if over || (first && !matches!(state, State::Terminated(_))) {
            let (said, list) = misplaced(&self.context, &session.breakpoints(), &session.adapter, over);
            text.push_str(&said);
            details["misplaced"] = json!(list);
        }
        if session.control_taken() && state.name() != "terminated" {
            text.push_str("control_taken_by_user: the person runs this program now; look, do not run or change, until it is handed back\n");
        }
        let shared = session.shared();
        super::inspect::merge(
            &mut details,
            json!({ "controller": shared.controller.name(), "persons": shared.persons }),
        );
        // What one session of a launcher showed of their output is not new in another.
        let root = self.context.debug.root_of(session).id.clone();
        let from = match session.shares_output() {
            true => self.seen.lock().get(&root).map_or(0, |it| it.output),
            false => seen.output,
        };
        let output = session.output(from);
        seen.output = output.next;
        if session.shares_output() {
            let mut all = self.seen.lock();
            all.entry(root).or_default().output = output.next;
        }
        let (written, left_out) = written(&output);
        if !written.is_empty() {
            let note = if left_out > 0 {
                format!(" ({left_out} bytes before this left out; `output` shows what is kept)")
            } else {
                String::new()
            };
            text.push_str(&format!("output{note}:\n{written}"));
        }
        super::inspect::merge(&mut details, json!({ "output": written, "output_left_out": left_out }));
        self.seen.lock().insert(session.id.clone(), seen);
        Ok(ToolResult::text(text).with_details(details))
    }

    /// Where each session of a tree is stopped.
    fn stops(&self, of: &Arc<Session>) -> Vec<(String, u64)> {
        let tree = self.context.debug.tree(&self.context.debug.root_of(of));
        let stopped = tree.iter().filter(|it| matches!(it.state(), State::Stopped(_)));
        stopped.map(|it| (it.id.clone(), it.epoch())).collect()
    }

    /// What is said before another session's stop is shown in place of the one that was waited for.
    fn runs_still(&self, asked: &Session, shown: &Session, earlier: &[(String, u64)]) -> String {
        let runs = matches!(asked.state(), State::Running) && !asked.adapter_launches_only();
        if asked.id == shown.id || !runs || !matches!(shown.state(), State::Stopped(_)) {
            return String::new();
        }
        let is_old = earlier.iter().any(|(id, epoch)| *id == shown.id && *epoch == shown.epoch());
        let when = if is_old { "was stopped before" } else { "stopped meanwhile" };
        let (asked, shown) = (&asked.id, &shown.id);
        format!(
            "{asked} still runs; `snapshot` with `session: {asked}` waits for it. {shown}, which {when}:\n"
        )
    }

    /// What lives on of the tree of a child that is over.
    fn outlives(&self, over: &Arc<Session>) -> String {
        let debug = &self.context.debug;
        if over.parent.is_none() {
            return String::new();
        }
        let tree = debug.tree(&debug.root_of(over));
        let live = |it: &&Arc<Session>| {
            !matches!(it.state(), State::Terminated(_)) && !it.adapter_launches_only() && it.id != over.id
        };
        let said = |it: &Arc<Session>| format!("{} ({}) is still {}\n", it.id, it.title, it.state().name());
        tree.iter().filter(live).map(said).collect()
    }

    async fn stopped(
        &self,
        session: &Session,
        stop: &Stop,
        before: &Seen,
        seen: &mut Seen,
        cx: &ToolCx,
        clock: &Clock,
    ) -> Result<(String, Value), Failure> {
        let context = &*self.context;
        let (frames, total, unread) = match session.stack(stop.thread, 0, FRAMES, clock).await {
            Ok((frames, total)) => (frames, total, None),
            Err(error) => (Vec::new(), None, Some(unread(error)?)),
        };
        let own: Vec<&Frame> = frames.iter().filter(|it| is_own(context, it)).collect();
        let thrown = frames.first().filter(|top| is_throw(session, stop, top));
        let mut text = match thrown {
            Some(top) => format!(" stopped: exception, {}", top.name),
            None => format!(" stopped: {}", why(stop)),
        };
        let signal = super::signals::of(session, stop, clock).await;
        if let Some(signal) = signal.as_ref().filter(|it| !text.contains(it.as_str())) {
            text.push_str(&format!(", {signal}"));
        }
        if let Some(thread) = stop.thread {
            text.push_str(&format!(" (thread {thread})"));
        }
        text.push('\n');
        if stop.reason == "exception" {
            // What it says itself is there already; more only where it is known.
            if let Ok(Some((name, said))) = session.exception(clock).await
                && !(text.contains(&name) && text.contains(said.trim()))
            {
                text.push_str(&format!("exception: {name}: {}\n", cut(&said, 600)));
            }
        }
        let reason = if thrown.is_some() { "exception" } else { stop.reason.as_str() };
        let mut data = json!({ "reason": reason, "description": stop.description, "text": stop.text,
            "thread": stop.thread, "signal": signal });
        if let Some(unread) = unread {
            text.push_str(&format!("its stack could not be read: {unread}\n"));
            return Ok((text, data));
        }
        let (Some(top), Some(at)) = (frames.first(), shown_frame(context, session, stop, &frames)) else {
            text.push_str("no frame is known\n");
            return Ok((text, data));
        };
        seen.frame = Some((session.epoch(), at.id));
        if top.id != at.id {
            text.push_str(&format!("stopped in {} (frame {})\n", label(context, top), top.id));
        }
        text.push_str(&format!("in {}\n{}", label(context, at), source(context, at, cx)));
        if let Some(nearest) = own.first().filter(|_| !is_own(context, at)) {
            let nearest = format!("{} (frame {})", label(context, nearest), nearest.id);
            text.push_str(&format!("the nearest of the person's own: {nearest}\n"));
        }
        // A breakpoint in the code of others is one on a function that failures run into.
        let elsewhere = stop.reason == "breakpoint" && top.id != at.id;
        if elsewhere || FAILURES.contains(&stop.reason.as_str()) {
            let values = values(context, session, at, cx, clock).await;
            if !values.is_empty() {
                text.push_str("values in this statement:\n");
                values.iter().for_each(|it| text.push_str(&format!("  {}\n", variable(it))));
            }
            data["values"] = values.iter().map(variable_data).collect();
        }

        text.push_str("frames:\n");
        let mut listed = if own.is_empty() { frames.iter().take(SHOWN_FRAMES).collect() } else { own };
        if !listed.iter().any(|it| it.id == at.id) {
            listed.insert(0, at);
        }
        for frame in listed.iter().take(SHOWN_FRAMES) {
            text.push_str(&format!("  frame {}: {}\n", frame.id, label(context, frame)));
        }
        let all = total
            .map_or(frames.len(), |total| usize::try_from(total).unwrap_or(usize::MAX))
            .max(frames.len());
        let rest = all - listed.len().min(SHOWN_FRAMES);
        if rest > 0 {
            // As many as were asked for, and nobody says how many there are.
            let least = if total.is_none() && frames.len() as u64 >= FRAMES { "at least " } else { "" };
            text.push_str(&format!(
                "  {least}{} more, not the person's or deeper; `stack` shows them\n",
                counted(rest, "frame")
            ));
        }
        data["frames"] = listed.iter().map(|frame| frame_data(context, frame)).collect();
        data["place"] = frame_data(context, at);
        data["stopped_in"] = frame_data(context, top);

        let (locals, more, unread) = locals(session, at, clock).await?;
        // Of a deeper stack it is not known which call a frame is of.
        let depth = frames.iter().position(|it| it.id == at.id).and_then(|above| all.checked_sub(above));
        seen.call = depth.filter(|_| frames.len() < FRAMES as usize).map(|depth| Call {
            function: format!("{} {:?}", at.name, at.path),
            thread: stop.thread,
            depth: depth as u64,
        });
        seen.locals = locals.iter().map(|it| (it.name.clone(), it.value.clone())).collect();
        let same_place = before.call.is_some() && before.call == seen.call;
        let changed = |it: &&Variable| before.locals.get(&it.name) != Some(&it.value);
        let chosen: Vec<&Variable> = locals.iter().filter(|it| !same_place || changed(it)).collect();
        let unchanged = locals.len() - chosen.len();
        let word = if same_place { "locals that changed" } else { "locals" };
        let none = if chosen.is_empty() && unread.is_none() { " none" } else { "" };
        text.push_str(&format!("{word}:{none}\n"));
        for it in &chosen {
            let was = before.locals.get(&it.name).filter(|_| same_place);
            let was = was.map(|was| format!("  (was {})", cut(was, 60))).unwrap_or_default();
            text.push_str(&format!("  {}{was}\n", variable(it)));
        }
        if unchanged > 0 || more {
            let more = if more { ", and more than were asked for" } else { "" };
            text.push_str(&format!("  {unchanged} unchanged{more}; `scopes` and `variables` go deeper\n"));
        }
        text.extend(unread.map(|unread| format!("  not all could be read: {}\n", cut(&unread, 300))));
        data["locals"] = locals.iter().map(variable_data).collect();
        Ok((text, data))
    }
}

/// Whether a stop that the adapter calls a breakpoint is one for an exception, or for a panic.
fn is_throw(session: &Session, stop: &Stop, top: &Frame) -> bool {
    let name = top.name.split(['(', '@']).next().unwrap_or_default();
    let quirks = &session.adapter.quirks;
    let panics = || quirks.panic_functions.iter().any(|it| it == name || name.ends_with(&format!("::{it}")));
    stop.reason.ends_with("breakpoint")
        && (quirks.exception_functions.iter().any(|it| it == name) || panics())
}

/// What can be looked at in the statement at which a frame is; what cannot be evaluated is left out.
async fn values(
    context: &ToolContext,
    session: &Session,
    at: &Frame,
    cx: &ToolCx,
    clock: &Clock,
) -> Vec<Variable> {
    let readable = at.path.as_ref().filter(|path| cx.policy().is_some_and(|policy| policy.may_read(path)));
    let Some(document) = readable.and_then(|path| context.workspace.document(path).ok()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for it in super::values::expressions(&super::values::statement(&document.text, at.line)) {
        if super::harmless::only_looks(&it, &session.adapter)
            && let Ok(value) = session.evaluate(&it, Some(at.id), "watch", clock).await
        {
            found.push(value);
        }
    }
    found
}

/// The frame that a stop is about: where it is, for a step and a breakpoint of ours, also in code of others;
/// else the person's nearest, since what failed there was asked for here.
pub(super) fn shown_frame<'a>(
    context: &ToolContext,
    session: &Session,
    stop: &Stop,
    frames: &'a [Frame],
) -> Option<&'a Frame> {
    let top = frames.first()?;
    let placed = session.breakpoints();
    let here = || {
        placed.list().any(|(it, placed)| {
            Some(&it.path) == top.path.as_ref() && placed.line.unwrap_or(it.line) == top.line
        })
    };
    // unittest ends a test whose `subTest` failed by another exception, which is no failure itself.
    let relayed = |it: &&Frame| it.name.starts_with("[Chained Exc:") && is_own(context, it);
    let relays = [&stop.text, &stop.description].into_iter().flatten().any(|it| it.contains("_ShouldStop"));
    if let Some(frame) = frames.iter().find(relayed).filter(|_| relays) {
        return Some(frame);
    }
    let told = match stop.reason.as_str() {
        "step" | "goto" | "entry" => top.path.is_some(),
        "exception" | "signal" => false,
        _ => here(),
    };
    if told { Some(top) } else { frames.iter().find(|it| is_own(context, it)).or(Some(top)) }
}

/// Breakpoints that are not where they were asked for: while it runs, or after its end.
fn misplaced(
    context: &ToolContext,
    all: &Breakpoints,
    adapter: &DebuggerDefinition,
    over: bool,
) -> (String, Vec<Value>) {
    let (mut text, mut list) = (String::new(), Vec::new());
    let mut tell = |what: String, why: Option<&str>| {
        let why = why.map(|it| format!(": {it}")).unwrap_or_default();
        let word = if over { "was never put in place" } else { "is not in place yet" };
        text.push_str(&format!("breakpoint {what} {word}{why}\n"));
        list.push(json!({ "breakpoint": what, "why": why.trim_start_matches(": ") }));
    };
    for (it, placed) in all.list() {
        let what = format!("{}:{}", context.shown(&it.path), it.line);
        let missing = (!it.path.as_path().exists()).then_some("there is no such file");
        if !placed.ever {
            tell(what, placed.sentence().or(missing));
        }
    }
    // The same function by the names that several versions of a language give it: one of them is there.
    let panics = |name: &String| adapter.quirks.panic_functions.contains(name);
    let caught = all.functions().iter().any(|(it, placed)| placed.ever && panics(&it.name));
    let missing = all.functions().iter().filter(|(it, placed)| !(placed.ever || caught && panics(&it.name)));
    for (it, _) in missing {
        tell(format!("on {}", it.name), None);
    }
    for (it, placed) in all.list().filter(|(_, placed)| placed.ever && !over) {
        if let Some(line) = placed.line.filter(|line| *line != it.line) {
            let what = format!("{}:{}", context.shown(&it.path), it.line);
            text.push_str(&format!("breakpoint {what} is at line {line}\n"));
            list.push(json!({ "breakpoint": what, "line": line }));
        }
    }
    (text, list)
}

/// Whether a frame is in code of the person.
pub(super) fn is_own(context: &ToolContext, frame: &Frame) -> bool {
    let own = |path: &paths::AbsPath| {
        path.strip_prefix(context.workspace.root()).is_some_and(|it| !is_installed(it))
    };
    !frame.subtle && frame.path.as_ref().is_some_and(own)
}

/// What an adapter could not tell, for people.
///
/// # Errors
/// What ends the look: it was stopped, the program ran on, or the adapter is gone.
fn unread(error: DapError) -> Result<String, DapError> {
    match error {
        DapError::Refused { .. } | DapError::Answer { .. } | DapError::Timeout { .. } => {
            Ok(error.to_string())
        }
        error => Err(error),
    }
}

/// The locals of a frame, whether there are more, and why some could not be read.
async fn locals(
    session: &Session,
    frame: &Frame,
    clock: &Clock,
) -> Result<(Vec<Variable>, bool, Option<String>), Failure> {
    let quirks = &session.adapter.quirks;
    let mut all = Vec::new();
    let mut why = None;
    let page = Page { count: LOCALS as u64 + 1, ..Page::default() };
    let scopes = match session.scopes(frame.id, clock).await {
        Ok(scopes) => scopes,
        Err(error) => return Ok((all, false, Some(unread(error)?))),
    };
    for scope in scopes {
        let skipped = scope.expensive
            || scope.count == Some(0)
            || quirks.skip_scopes.contains(&scope.name)
            || scope.hint.as_deref() == Some("registers");
        if skipped || all.len() > LOCALS {
            continue;
        }
        match session.variables(scope.variables, &page, clock).await {
            Ok(found) => all.extend(found.into_iter().filter(|it| !quirks.skips(&it.name))),
            Err(error) => why = Some(unread(error)?),
        }
    }
    let more = all.len() > LOCALS;
    all.truncate(LOCALS);
    Ok((all, more, why))
}

/// The lines around the one that is next, where they may be read; in the form that `edit` takes.
fn source(context: &ToolContext, frame: &Frame, cx: &ToolCx) -> String {
    let Some(path) = frame.path.as_ref().filter(|_| frame.line > 0) else { return String::new() };
    if !cx.policy().is_some_and(|policy| policy.may_read(path)) {
        return String::new();
    }
    let Ok(document) = context.workspace.document(path) else { return String::new() };
    let last = display::line_count(&document.text) as u64;
    if frame.line > last {
        return format!("  line {} is not in the file as it is now\n", frame.line);
    }
    let from = frame.line.saturating_sub(AROUND).max(1);
    let rows: Vec<usize> =
        (from..=(frame.line + AROUND).min(last)).filter_map(|it| usize::try_from(it).ok()).collect();
    let mut text = display::lines(context, &document, &rows);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    format!("{text}next: line {}\n", frame.line)
}

/// Below these folders of a project lies what others wrote.
fn is_installed(path: &std::path::Path) -> bool {
    path.components().any(|it| {
        matches!(it.as_os_str().to_str(), Some("node_modules" | "site-packages" | ".venv" | "venv"))
    })
}

fn why(stop: &Stop) -> String {
    let mut said = stop.reason.clone();
    for more in [&stop.description, &stop.text].into_iter().flatten() {
        if !said.contains(more.as_str()) && !more.is_empty() {
            said.push_str(&format!(", {}", cut(more, 300)));
        }
    }
    said
}

/// How a session ended, for people.
pub(super) fn ended(end: &End, adapter: &DebuggerDefinition) -> String {
    let signals = &adapter.quirks.signals_below_256;
    match (end.asked, &end.failure) {
        (Some(Ending::Left), None) => return "ended here: the process was left, and runs on".to_owned(),
        // Some tell 0 then, which is no code of the program's.
        (Some(Ending::Terminated), None) => {
            let own = end.exit_code.filter(|code| *code != 0);
            let own = own.map(|code| format!("; it told exit code {code}")).unwrap_or_default();
            return format!("ended: it was terminated{own}");
        }
        _ => {}
    }
    match (&end.failure, end.signal, end.exit_code) {
        (Some(why), ..) if end.unbegun => format!("ended: it did not begin: {why}"),
        (Some(failure), ..) => format!("ended: the debug adapter failed: {failure}"),
        (None, Some(signal), _) => format!("ended by signal {}", signal_name(signal)),
        (None, None, Some(code)) if *signals && (192..256).contains(&code) => {
            let signal = signal_name(256 - code);
            format!(
                "ended with exit code {code}: by signal {signal}, or so; {} tells both alike",
                adapter.name
            )
        }
        (None, None, Some(code))
            if adapter.quirks.signals_as_codes && SIGNALS.iter().any(|(number, _)| *number == code) =>
        {
            format!(
                "ended with exit code {code}, or by signal {}; {} tells both alike",
                signal_name(code),
                adapter.name
            )
        }
        (None, None, Some(code)) if (129..=159).contains(&code) => {
            let signal = signal_name(code - 128);
            format!("ended with exit code {code} (a shell tells signal {signal} so)")
        }
        (None, None, Some(code)) => format!("ended with exit code {code}"),
        (None, None, None) if end.after_signal => {
            format!("ended after the signal that stopped it; {} does not tell its exit code", adapter.name)
        }
        (None, None, None) => "ended; its exit code is not known".to_owned(),
    }
}

/// The numbers that Linux and macOS share.
const SIGNALS: &[(i64, &str)] = &[
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
];

/// `9 (SIGKILL)`.
fn signal_name(signal: i64) -> String {
    let name = SIGNALS.iter().find(|(number, _)| *number == signal);
    name.map_or_else(|| signal.to_string(), |(number, name)| format!("{number} ({name})"))
}

pub(super) fn label(context: &ToolContext, frame: &Frame) -> String {
    match (&frame.path, &frame.source) {
        (Some(path), _) => format!("{} at {}:{}", frame.name, context.shown(path), frame.line),
        (None, Some(source)) => format!("{} at {source}:{}", frame.name, frame.line),
        (None, None) => frame.name.clone(),
    }
}

pub(super) fn frame_data(context: &ToolContext, frame: &Frame) -> Value {
    json!({ "frame": frame.id, "name": frame.name, "file": frame.path.as_ref().map(|path| context.shown(path)),
        "line": frame.line, "column": frame.column })
}

pub(super) fn variable(it: &Variable) -> String {
    let kind = it.kind.as_ref().map(|kind| format!(" : {kind}")).unwrap_or_default();
    let inside =
        if it.variables > 0 { format!("  [variables_reference {}]", it.variables) } else { String::new() };
    let value: Vec<&str> = it.value.lines().map(str::trim).collect();
    // gdb says nothing of one that has members.
    let value = if it.value.is_empty() && it.variables > 0 { "{…}".to_owned() } else { value.join(" ") };
    format!("{} = {}{kind}{inside}", it.name, cut(&value, VALUE))
}

pub(super) fn variable_data(it: &Variable) -> Value {
    json!({ "name": it.name, "value": it.value, "type": it.kind, "variables_reference": it.variables,
        "count": it.count, "memory_reference": it.memory })
}

pub(super) fn cut(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()),
    }
}

/// The newest of some output, and how many bytes of it are not shown.
fn written(output: &Since) -> (String, u64) {
    let mut text = String::new();
    for piece in &output.pieces {
        let mark = match piece.category {
            dap_client::Category::Stdout => "",
            other => other.name(),
        };
        for line in piece.text.lines() {
            let mark = if mark.is_empty() { String::new() } else { format!("{mark}: ") };
            text.push_str(&format!("  {mark}{line}\n"));
        }
    }
    let mut left_out = output.dropped;
    if text.len() > OUTPUT {
        let from = text.ceil_char_boundary(text.len() - OUTPUT);
        // Whole lines.
        let from = text[from..].find('\n').map_or(from, |at| from + at + 1);
        left_out += from as u64;
        text.drain(..from);
    }
    (text, left_out)
}
