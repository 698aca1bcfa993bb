//! Snapshot of a session: a stop with its frames, locals and output, or its end.
//!
//! All parts are bounded; the text names the action that shows the rest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use adapters::DebuggerDefinition;
use agent::ToolResult;
use dap_client::{
    Breakpoints, Clock, DapError, End, Ending, Frame, Page, Session, Since, State, Stop, Variable,
};
use paths::AbsPath;
use policy::ErrorCode;
use serde_json::{Value, json};
use tokio::time::Instant;
use workspace::Document;

use super::{Answer, Cx, Debug};
use crate::bash;
use crate::{Failure, ToolContext, counted, display};

/// Stop reasons for which the snapshot evaluates the current statement.
const FAILURES: &[&str] = &["exception", "function breakpoint", "signal"];
pub(super) const FRAMES: u64 = 50;
const SHOWN_FRAMES: usize = 8;
const LOCALS: usize = 40;
const VALUE: usize = 200;
const OUTPUT: usize = 4_000;
/// Lines shown before and after the next line.
const AROUND: u64 = 3;
/// Time after which reading a scope is reported as slow, in seconds.
const SLOW: u64 = 2;
/// Time for a paused program to stop.
const PAUSE: Duration = Duration::from_secs(3);
/// Maximum number of threads of a program that does not stop.
const RUNNING_THREADS: usize = 20;
/// Maximum number of attempts to render a program that the user continues.
const MAX_ATTEMPTS: usize = 3;

/// Parts of the last snapshot of a session, to compare with the next one.
#[derive(Debug, Clone, Default)]
pub(super) struct LastSnapshot {
    output: u64,
    /// The call of the locals; `None` if it cannot be identified.
    call: Option<Call>,
    locals: BTreeMap<String, String>,
    /// The epoch and frame of the locals.
    frame: Option<(u64, i64)>,
}

/// Identity of a call.
///
/// A function can have several calls at once, by recursion or in threads.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    function: String,
    thread: Option<i64>,
    /// Number of frames from the outermost to this one.
    depth: u64,
}

impl Debug {
    /// Marks the output of a session so far as shown.
    pub(super) fn skip_output(&self, session: &Session) {
        let mut last = self.last_snapshots.lock();
        last.entry(session.id.clone()).or_default().output = session.output(u64::MAX).next;
    }

    /// Returns the epoch and frame of the locals in the last snapshot.
    pub(super) fn last_frame(&self, session: &Session) -> Option<(u64, i64)> {
        self.last_snapshots.lock().get(&session.id)?.frame
    }

    /// Waits until the program stops or ends, or the time is up, and renders it.
    ///
    /// If the user continues the program meanwhile, renders its next stop.
    pub(super) async fn snapshot(&self, session: &Arc<Session>, cx: Cx<'_>) -> Answer {
        for _ in 0..MAX_ATTEMPTS {
            match self.render_current(session, cx).await {
                Err(failure) if failure.code == ErrorCode::WrongState => {}
                shown => return shown,
            }
        }
        self.render_current(session, cx).await
    }

    /// Renders the stop of a paused program, or the stacks of its threads.
    ///
    /// debugpy stops no thread that waits outside Python code, as in a deadlock, but knows its frames.
    pub(super) async fn paused(&self, session: &Arc<Session>, cx: Cx<'_>) -> Answer {
        let soon = Clock { until: cx.clock.until.min(Instant::now() + PAUSE), cancel: cx.cancel.clone() };
        let at = self.context.debug.wait_for_stop(session, &soon).await?;
        if !matches!(at.state(), State::Running) || at.in_control("pause").is_err() {
            return self.snapshot(session, cx).await;
        }
        let (mut text, mut list) = (String::new(), Vec::new());
        for thread in
            at.threads(&Clock::new(PAUSE, &cx.cancel)).await.unwrap_or_default().iter().take(RUNNING_THREADS)
        {
            let read = Clock::new(PAUSE, &cx.cancel);
            let frames = at.running_stack(thread.id, SHOWN_FRAMES as u64, &read).await.unwrap_or_default();
            text.push_str(&format!("thread {}: {}\n", thread.id, cut(&thread.name, 200)));
            frames.iter().for_each(|it| text.push_str(&format!("  {}\n", label(&self.context, it))));
            let frames: Vec<Value> = frames.iter().map(|it| frame_data(&self.context, it)).collect();
            list.push(json!({ "thread": thread.id, "name": thread.name, "frames": frames }));
        }
        if list.iter().all(|it| it["frames"].as_array().is_none_or(Vec::is_empty)) {
            return self.snapshot(session, cx).await;
        }
        let mut details = self.context.debug.describe(&at);
        super::inspect::merge(&mut details, json!({ "state": at.state().name(), "threads": list }));
        let first =
            format!("{}: {} still runs: each thread waits in a call and stops after it\n", at.id, at.title);
        Ok(ToolResult::text(format!("{first}{text}")).with_details(details))
    }

    async fn render_current(&self, session: &Arc<Session>, cx: Cx<'_>) -> Answer {
        let requested = session;
        let earlier = self.stops(requested);
        let session = &self.context.debug.find_stop(requested, cx.clock).await?;
        self.context.debug.show(session, &cx.starter);
        let state = session.state();
        let before = self.last_snapshots.lock().get(&session.id).cloned();
        let first = before.is_none();
        let before = before.unwrap_or_default();
        let mut current = LastSnapshot { output: before.output, ..LastSnapshot::default() };
        let mut details = self.context.debug.describe(session);
        details["state"] = json!(state.name());
        let mut text = self.still_running_note(requested, session, &earlier);
        text.push_str(&format!("{}: {}", session.id, session.title));
        match &state {
            State::Stopped(stop) => {
                let time = Clock::new(Duration::from_secs(10), &cx.cancel);
                let shown = self.render_stop(session, stop, &before, &mut current, Cx { clock: &time, ..cx });
                // Reading the stop takes as long as the last output takes to arrive.
                let (written, shown) = tokio::join!(session.wait_for_stop_output(cx.clock), shown);
                written?;
                let (stopped, data) = shown?;
                text.push_str(&stopped);
                super::inspect::merge(&mut details, data);
            }
            State::Terminated(end) => {
                let end = &self.context.debug.end_of(session).unwrap_or_else(|| end.clone());
                let by_user = session.hub_status().ended_by_user.then_some(Ending::Terminated);
                let end = &End { asked: end.asked.or(by_user), ..end.clone() };
                text.push_str(&format!(" {}\n", ended(end, &session.adapter)));
                if session.hub_status().ended_by_user {
                    text.push_str("terminated_by_user: the user ended it\n");
                    details["ended_by"] = json!("terminated_by_user");
                }
                text.push_str(&self.other_live_sessions(session));
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
        let has_ended =
            matches!(&state, State::Terminated(end) if end.asked.is_none() && end.failure.is_none());
        if has_ended || (first && !matches!(state, State::Terminated(_))) {
            let (misplaced, list) =
                misplaced(&self.context, &session.breakpoints(), &session.adapter, has_ended);
            text.push_str(&misplaced);
            details["misplaced"] = json!(list);
        }
        if session.control_taken() && state.name() != "terminated" {
            text.push_str("control_taken_by_user: the user controls this program; only inspect it until control is returned\n");
        }
        let status = session.hub_status();
        super::inspect::merge(
            &mut details,
            json!({ "controller": status.controller.name(), "persons": status.joined_clients }),
        );
        // Sessions of one launcher share their output: show each part once.
        let root = self.context.debug.root_of(session).id.clone();
        let from = match session.shares_output() {
            true => self.last_snapshots.lock().get(&root).map_or(0, |it| it.output),
            false => current.output,
        };
        let output = session.output(from);
        current.output = output.next;
        if session.shares_output() {
            let mut all = self.last_snapshots.lock();
            all.entry(root).or_default().output = output.next;
        }
        let (written, left_out) = render_output(&output);
        if !written.is_empty() {
            let note = if left_out > 0 {
                format!(" ({left_out} earlier bytes left out; see `output`)")
            } else {
                String::new()
            };
            text.push_str(&format!("output{note}:\n{written}"));
        }
        let denied = self.denied(session, &written).await?;
        if !denied.is_empty() {
            text.push_str(&format!(
                "the sandbox denied, according to the output: {}; to debug without it, start the program by `bash` with `\"sandbox\": false` \
                 and `attach`\n",
                denied.join(", ")
            ));
        }
        details["denied"] = json!(denied);
        let root = self.context.debug.root_of(session);
        let show = |path: &AbsPath| self.context.display_path(path);
        text.push_str(&bash::describe_reverted(root.reverted(), show));
        details["reverted"] = root.reverted().iter().map(|change| show(&change.path)).collect();
        super::inspect::merge(&mut details, json!({ "output": written, "output_left_out": left_out }));
        self.last_snapshots.lock().insert(session.id.clone(), current);
        Ok(ToolResult::text(text).with_details(details))
    }

    /// Lists the stopped sessions of a tree, with their epochs.
    fn stops(&self, session: &Arc<Session>) -> Vec<(String, u64)> {
        let tree = self.context.debug.tree(&self.context.debug.root_of(session));
        let stopped = tree.iter().filter(|it| matches!(it.state(), State::Stopped(_)));
        stopped.map(|it| (it.id.clone(), it.epoch())).collect()
    }

    /// Renders a note for the stop of another session than the requested one.
    fn still_running_note(&self, requested: &Session, shown: &Session, earlier: &[(String, u64)]) -> String {
        let runs = matches!(requested.state(), State::Running) && !requested.adapter_launches_only();
        if requested.id == shown.id || !runs || !matches!(shown.state(), State::Stopped(_)) {
            return String::new();
        }
        let is_old = earlier.iter().any(|(id, epoch)| *id == shown.id && *epoch == shown.epoch());
        let when = if is_old { "was stopped before" } else { "stopped meanwhile" };
        let (requested, shown) = (&requested.id, &shown.id);
        format!(
            "{requested} still runs; `snapshot` with `session: {requested}` waits for it. {shown}, which {when}:\n"
        )
    }

    /// Lists the live sessions of the tree of a child that has ended.
    fn other_live_sessions(&self, ended: &Arc<Session>) -> String {
        let debug = &self.context.debug;
        if ended.parent.is_none() {
            return String::new();
        }
        let tree = debug.tree(&debug.root_of(ended));
        let live = |it: &&Arc<Session>| {
            !matches!(it.state(), State::Terminated(_)) && !it.adapter_launches_only() && it.id != ended.id
        };
        let render = |it: &Arc<Session>| format!("{} ({}) is still {}\n", it.id, it.title, it.state().name());
        tree.iter().filter(live).map(render).collect()
    }

    async fn render_stop(
        &self,
        session: &Session,
        stop: &Stop,
        before: &LastSnapshot,
        current: &mut LastSnapshot,
        cx: Cx<'_>,
    ) -> Result<(String, Value), Failure> {
        let context = &*self.context;
        let (frames, total, unread) = match session.stack(stop.thread, 0, FRAMES, cx.clock).await {
            Ok((frames, total)) => (frames, total, None),
            Err(error) => (Vec::new(), None, Some(unread(error)?)),
        };
        let own: Vec<&Frame> = frames.iter().filter(|it| is_own(context, it)).collect();
        let thrown = frames.first().filter(|top| is_throw(session, stop, top));
        let mut text = match thrown {
            Some(top) => format!(" stopped: exception, {}", top.name),
            None => format!(" stopped: {}", describe_stop(stop)),
        };
        let signal = super::signals::find(session, stop, cx.clock).await;
        if let Some(signal) = signal.as_ref().filter(|it| !text.contains(it.as_str())) {
            text.push_str(&format!(", {signal}"));
        }
        if let Some(thread) = stop.thread {
            text.push_str(&format!(" (thread {thread})"));
        }
        text.push('\n');
        if stop.reason == "exception" {
            // Do not repeat what the stop itself says.
            if let Ok(Some((name, message))) = session.exception(cx.clock).await
                && !(text.contains(&name) && text.contains(message.trim()))
            {
                let message = cut(&message, 600);
                let said: Vec<&str> = [&*name, &*message].into_iter().filter(|it| !it.is_empty()).collect();
                text.push_str(&format!("exception: {}\n", said.join(": ")));
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
        current.frame = Some((session.epoch(), at.id));
        if top.id != at.id {
            text.push_str(&format!("stopped in {} (frame {})\n", label(context, top), top.id));
        }
        let readable = at.path.as_ref().filter(|path| cx.policy().is_some_and(|it| it.may_read(path)));
        let document = readable.and_then(|path| context.workspace.document(path).ok());
        text.push_str(&format!("in {}\n{}", label(context, at), source(context, document.as_ref(), at)));
        if let Some(nearest) = own.first().filter(|_| !is_own(context, at)) {
            let nearest = format!("{} (frame {})", label(context, nearest), nearest.id);
            text.push_str(&format!("nearest frame in the project: {nearest}\n"));
        }
        // A breakpoint outside the project is one on a function that failures call.
        let elsewhere = stop.reason == "breakpoint" && top.id != at.id;
        if elsewhere || FAILURES.contains(&stop.reason.as_str()) {
            let values = match &document {
                Some(document) => values(session, document, at, cx).await,
                None => Vec::new(),
            };
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
            // The stack may be longer than requested, and the adapter gives no total.
            let least = if total.is_none() && frames.len() as u64 >= FRAMES { "at least " } else { "" };
            text.push_str(&format!(
                "  {least}{} more, outside the project or deeper; see `stack`\n",
                counted(rest, "frame")
            ));
        }
        data["frames"] = listed.iter().map(|frame| frame_data(context, frame)).collect();
        data["place"] = frame_data(context, at);
        data["stopped_in"] = frame_data(context, top);

        let (mut locals, more, notes) = locals(session, at, cx.clock).await?;
        let undeclared = remove_undeclared(session, document.as_ref(), at, &mut locals);
        // In a deeper stack the call of a frame is unknown.
        let depth = frames.iter().position(|it| it.id == at.id).and_then(|above| all.checked_sub(above));
        current.call = depth.filter(|_| frames.len() < FRAMES as usize).map(|depth| Call {
            function: format!("{} {:?}", at.name, at.path),
            thread: stop.thread,
            depth: depth as u64,
        });
        current.locals = locals.iter().map(|it| (it.name.clone(), it.value.clone())).collect();
        let same_place = before.call.is_some() && before.call == current.call;
        let changed = |it: &&Variable| before.locals.get(&it.name) != Some(&it.value);
        let chosen: Vec<&Variable> = locals.iter().filter(|it| !same_place || changed(it)).collect();
        let unchanged = locals.len() - chosen.len();
        let word = if same_place { "locals that changed" } else { "locals" };
        let none = if chosen.is_empty() && notes.is_empty() && undeclared.is_empty() { " none" } else { "" };
        text.push_str(&format!("{word}:{none}\n"));
        for it in &chosen {
            let was = before.locals.get(&it.name).filter(|_| same_place);
            let was = was.map(|was| format!("  (was {})", cut(was, 60))).unwrap_or_default();
            text.push_str(&format!("  {}{was}\n", variable(it)));
        }
        if unchanged > 0 || more {
            let more = if more { ", and more were not read" } else { "" };
            text.push_str(&format!("  {unchanged} unchanged{more}; see `scopes` and `variables`\n"));
        }
        if !undeclared.is_empty() {
            text.push_str(&format!("  declared later: {}\n", undeclared.join(", ")));
        }
        notes.iter().for_each(|note| text.push_str(&format!("  {}\n", cut(note, 300))));
        data["locals"] = locals.iter().map(variable_data).collect();
        Ok((text, data))
    }
}

/// Removes locals that are declared on the next line or later; returns their names.
///
/// Their values are undefined. A name that also occurs earlier in the file is kept.
fn remove_undeclared(
    session: &Session,
    document: Option<&Document>,
    at: &Frame,
    locals: &mut Vec<Variable>,
) -> Vec<String> {
    let Some(document) = document.filter(|_| session.adapter.quirks.locals_before_declaration) else {
        return Vec::new();
    };
    let before = usize::try_from(at.line).unwrap_or(usize::MAX).saturating_sub(1);
    let start = document.text.split_inclusive('\n').take(before).map(str::len).sum();
    let (earlier, later) = document.text.split_at(start);
    // The nearest lines have most of the names, and a file can be long.
    let is_undeclared = |it: &mut Variable| {
        !has_word(earlier.rmatch_indices(&it.name), earlier) && has_word(later.match_indices(&it.name), later)
    };
    locals.extract_if(.., is_undeclared).map(|it| it.name).collect()
}

/// Whether one of the matches is a whole word of the text.
fn has_word<'a>(mut matches: impl Iterator<Item = (usize, &'a str)>, text: &str) -> bool {
    let is_part = |it: Option<char>| it.is_some_and(|it| it.is_alphanumeric() || it == '_');
    matches.any(|(start, it)| {
        !it.is_empty()
            && !is_part(text[..start].chars().next_back())
            && !is_part(text[start + it.len()..].chars().next())
    })
}

/// Whether a stop that the adapter calls a breakpoint is an exception or a panic.
fn is_throw(session: &Session, stop: &Stop, top: &Frame) -> bool {
    let name = top.name.split(['(', '@']).next().unwrap_or_default();
    let quirks = &session.adapter.quirks;
    let panics = || quirks.panic_functions.iter().any(|it| it == name || name.ends_with(&format!("::{it}")));
    stop.reason.ends_with("breakpoint")
        && (quirks.exception_functions.iter().any(|it| it == name) || panics())
}

/// Evaluates the side-effect-free expressions of the current statement.
///
/// Omits those that fail.
async fn values(session: &Session, document: &Document, at: &Frame, cx: Cx<'_>) -> Vec<Variable> {
    let mut found = Vec::new();
    for it in super::values::expressions(&super::values::statement(&document.text, at.line)) {
        if super::side_effects::is_side_effect_free(&it, &session.adapter)
            && let Ok(value) = session.evaluate(&it, Some(at.id), "watch", cx.clock).await
        {
            found.push(value);
        }
    }
    found
}

/// Chooses the frame that a snapshot shows.
///
/// It is the top frame for a step and a line breakpoint, also outside the project; else the nearest frame in
/// the project, which called the function that failed.
pub(super) fn shown_frame<'a>(
    context: &ToolContext,
    session: &Session,
    stop: &Stop,
    frames: &'a [Frame],
) -> Option<&'a Frame> {
    let top = frames.first()?;
    let placed = session.breakpoints();
    let at_breakpoint = || {
        placed.list().any(|(it, placed)| {
            Some(&it.path) == top.path.as_ref() && placed.line.unwrap_or(it.line) == top.line
        })
    };
    // unittest ends a test whose `subTest` failed by another exception, which is not the failure.
    let relayed = |it: &&Frame| it.name.starts_with("[Chained Exc:") && is_own(context, it);
    let relays = [&stop.text, &stop.description].into_iter().flatten().any(|it| it.contains("_ShouldStop"));
    if let Some(frame) = frames.iter().find(relayed).filter(|_| relays) {
        return Some(frame);
    }
    let shows_top = match stop.reason.as_str() {
        "step" | "goto" | "entry" => top.path.is_some(),
        "exception" | "signal" => false,
        _ => at_breakpoint(),
    };
    if shows_top { Some(top) } else { frames.iter().find(|it| is_own(context, it)).or(Some(top)) }
}

/// Reports breakpoints that are not set, or set on another line.
fn misplaced(
    context: &ToolContext,
    all: &Breakpoints,
    adapter: &DebuggerDefinition,
    has_ended: bool,
) -> (String, Vec<Value>) {
    let (mut text, mut list) = (String::new(), Vec::new());
    let mut report = |what: String, why: Option<&str>| {
        let why = why.map(|it| format!(": {it}")).unwrap_or_default();
        let word = if has_ended { "was never set" } else { "is not set yet" };
        text.push_str(&format!("breakpoint {what} {word}{why}\n"));
        list.push(json!({ "breakpoint": what, "why": why.trim_start_matches(": ") }));
    };
    for (it, placed) in all.list() {
        let what = format!("{}:{}", context.display_path(&it.path), it.line);
        let missing = (!it.path.as_path().exists()).then_some("there is no such file");
        if !placed.was_verified {
            report(what, placed.sentence().or(missing));
        }
    }
    // Versions of a language name the panic function differently; one of the names suffices.
    let panics = |name: &String| adapter.quirks.panic_functions.contains(name);
    let caught = all.functions().iter().any(|(it, placed)| placed.was_verified && panics(&it.name));
    let missing =
        all.functions().iter().filter(|(it, placed)| !(placed.was_verified || caught && panics(&it.name)));
    for (it, _) in missing {
        report(format!("on {}", it.name), None);
    }
    for (it, _) in all.list() {
        if let Some(note) = super::launch::condition_defect(context, it) {
            let what = format!("{}:{}", context.display_path(&it.path), it.line);
            text.push_str(&format!("breakpoint {what}: {note}, so its condition may never be true\n"));
            list.push(json!({ "breakpoint": what, "why": note }));
        }
    }
    for (it, placed) in all.list().filter(|(_, placed)| placed.was_verified && !has_ended) {
        if let Some(line) = placed.line.filter(|line| *line != it.line) {
            let what = format!("{}:{}", context.display_path(&it.path), it.line);
            text.push_str(&format!("breakpoint {what} is at line {line}\n"));
            list.push(json!({ "breakpoint": what, "line": line }));
        }
    }
    (text, list)
}

/// Whether a frame is in code of the project.
pub(super) fn is_own(context: &ToolContext, frame: &Frame) -> bool {
    let own = |path: &paths::AbsPath| {
        path.strip_prefix(context.workspace.root()).is_some_and(|it| !is_installed(it))
    };
    !frame.subtle && frame.path.as_ref().is_some_and(own)
}

/// Renders an error that affects one part of a snapshot.
///
/// # Errors
/// An error that ends the snapshot: cancelled, the program continued, or the adapter exited.
fn unread(error: DapError) -> Result<String, DapError> {
    match error {
        DapError::Refused { .. }
        | DapError::Answer { .. }
        | DapError::Timeout { .. }
        | DapError::Unresponsive { .. } => Ok(error.to_string()),
        error => Err(error),
    }
}

/// Reads the locals of a frame.
///
/// Also returns whether there are more, and notes about those that could not be read or are slow.
async fn locals(
    session: &Session,
    frame: &Frame,
    clock: &Clock,
) -> Result<(Vec<Variable>, bool, Vec<String>), Failure> {
    let quirks = &session.adapter.quirks;
    let mut all = Vec::new();
    let mut notes = Vec::new();
    let unread_note = |why: String| format!("some could not be read: {why}");
    let page = Page { count: LOCALS as u64 + 1, ..Page::default() };
    let scopes = match session.scopes(frame.id, clock).await {
        Ok(scopes) => scopes,
        Err(error) => return Ok((all, false, vec![unread_note(unread(error)?)])),
    };
    for scope in scopes {
        let skipped = scope.expensive
            || scope.count == Some(0)
            || quirks.skip_scopes.contains(&scope.name)
            || scope.hint.as_deref() == Some("registers");
        if skipped || all.len() > LOCALS {
            continue;
        }
        let begin = Instant::now();
        match session.variables(scope.variables, &page, clock).await {
            Ok(found) => {
                let together = &quirks.skip_together;
                let has_all = together.iter().all(|name| found.iter().any(|it| it.name == *name));
                let is_shown =
                    |it: &Variable| !(quirks.skips(&it.name) || has_all && together.contains(&it.name));
                all.extend(found.into_iter().filter(is_shown));
                let seconds = begin.elapsed().as_secs();
                if seconds >= SLOW {
                    notes.push(format!(
                        "{} took {seconds} s: showing a value runs code of the program",
                        scope.name
                    ));
                }
            }
            // The values read so far belong to this stop.
            Err(error @ (DapError::WrongState(_) | DapError::Handle(_))) if !all.is_empty() => {
                notes.push(unread_note(error.to_string()));
            }
            Err(error) => notes.push(unread_note(unread(error)?)),
        }
    }
    let more = all.len() > LOCALS;
    all.truncate(LOCALS);
    Ok((all, more, notes))
}

/// Renders the lines around the next line, in the form that `edit` takes.
///
/// Empty if the file cannot be read.
fn source(context: &ToolContext, document: Option<&Document>, frame: &Frame) -> String {
    let Some(document) = document.filter(|_| frame.line > 0) else { return String::new() };
    let last = display::line_count(&document.text) as u64;
    if frame.line > last {
        return format!("  line {} does not exist in the current file; build again\n", frame.line);
    }
    let from = frame.line.saturating_sub(AROUND).max(1);
    let rows: Vec<usize> =
        (from..=(frame.line + AROUND).min(last)).filter_map(|it| usize::try_from(it).ok()).collect();
    let mut text = display::render_lines(context, document, &rows);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    format!("{text}next: line {}\n", frame.line)
}

/// Whether a path is below a directory of installed packages.
fn is_installed(path: &std::path::Path) -> bool {
    path.components().any(|it| {
        matches!(it.as_os_str().to_str(), Some("node_modules" | "site-packages" | ".venv" | "venv"))
    })
}

fn describe_stop(stop: &Stop) -> String {
    let mut text = stop.reason.clone();
    for more in [&stop.description, &stop.text].into_iter().flatten() {
        if !text.contains(more.as_str()) && !more.is_empty() {
            text.push_str(&format!(", {}", cut(more, 300)));
        }
    }
    text
}

/// Describes how a session ended.
pub(super) fn ended(end: &End, adapter: &DebuggerDefinition) -> String {
    let signals = &adapter.quirks.signals_below_256;
    match (end.asked, &end.failure) {
        (Some(Ending::Left), None) => return "ended: detached; the process continues to run".to_owned(),
        // Some adapters report 0 then, which is not the program's exit code.
        (Some(Ending::Terminated), None) => {
            let own = end.exit_code.filter(|code| *code != 0);
            let own = own.map(|code| format!(" with exit code {code}")).unwrap_or_default();
            return format!("ended: it was terminated{own}");
        }
        _ => {}
    }
    match (&end.failure, end.signal, end.exit_code) {
        (Some(why), ..) if end.start_failed => format!("ended: it did not start: {why}"),
        (Some(failure), ..) => format!("ended: the debug adapter failed: {failure}"),
        (None, Some(signal), _) => format!("ended by signal {}", signal_name(signal)),
        (None, None, Some(code)) if *signals && (192..256).contains(&code) => {
            let signal = signal_name(256 - code);
            format!("ended with exit code {code} (probably signal {signal})")
        }
        (None, None, Some(code))
            if adapter.quirks.signals_as_codes && SIGNALS.iter().any(|(number, _)| *number == code) =>
        {
            format!(
                "ended with exit code {code} or signal {}; {} does not distinguish them",
                signal_name(code),
                adapter.name
            )
        }
        (None, None, Some(code)) if (129..=159).contains(&code) => {
            let signal = signal_name(code - 128);
            format!("ended with exit code {code} (probably signal {signal})")
        }
        (None, None, Some(code)) => format!("ended with exit code {code}"),
        (None, None, None) if end.after_signal => {
            format!("ended after the signal that stopped it; {} reports no exit code", adapter.name)
        }
        (None, None, None) => "ended; exit code unknown".to_owned(),
    }
}

/// Signal numbers that Linux and macOS share.
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

/// Renders a signal as `9 (SIGKILL)`.
fn signal_name(signal: i64) -> String {
    let name = SIGNALS.iter().find(|(number, _)| *number == signal);
    name.map_or_else(|| signal.to_string(), |(number, name)| format!("{number} ({name})"))
}

pub(super) fn label(context: &ToolContext, frame: &Frame) -> String {
    let name = &frame.name;
    match (&frame.path, &frame.source) {
        (Some(path), _) => format!("{name} at {}:{}", context.display_path(path), frame.line),
        (None, Some(source)) => format!("{name} at {source}:{}", frame.line),
        (None, None) => name.clone(),
    }
}

pub(super) fn frame_data(context: &ToolContext, frame: &Frame) -> Value {
    json!({ "frame": frame.id, "name": frame.name, "file": frame.path.as_ref().map(|path| context.display_path(path)),
        "line": frame.line, "column": frame.column })
}

pub(super) fn variable(it: &Variable) -> String {
    let kind = it.kind.as_ref().map(|kind| format!(" : {kind}")).unwrap_or_default();
    let inside =
        if it.variables > 0 { format!("  [variables_reference {}]", it.variables) } else { String::new() };
    let value: Vec<&str> = it.value.lines().map(str::trim).collect();
    // gdb gives no value for a variable with members.
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

/// Returns the end of some output, and the number of bytes before it.
fn render_output(output: &Since) -> (String, u64) {
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
        // Start at a whole line.
        let from = text[from..].find('\n').map_or(from, |at| from + at + 1);
        left_out += from as u64;
        text.drain(..from);
    }
    (text, left_out)
}
